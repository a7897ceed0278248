//! P-values from draws of a null distribution, for one statistic or for several at once.
//!
//! The draws do not depend on the number of threads. All permutations and processes are generated before the
//! sums start, one after the other from one seeded generator. The sum of each draw over pairs is divided into
//! a fixed number of parts ([`PARTS`](super::pair_sums::PARTS)); each part is summed in a fixed order by one
//! thread, and the parts are then added in order.

/// Returns the share of values that are at least as large as the observed one, among the draws and the
/// observed value itself.
///
/// Sums of the same numbers in another order differ by rounding, so values within `tie` of each other count
/// as equal.
pub(super) fn pvalue(observed: f64, draws: &[f64], tie: f64) -> f64 {
    let larger = draws.iter().filter(|v| **v >= observed - tie).count();
    (1 + larger) as f64 / (1 + draws.len()) as f64
}

/// Returns `(v - mean) / standard deviation` for the observed value, then for each draw. The mean and
/// standard deviation are over the observed value and all draws, which keeps them exchangeable. All scores
/// are 0 if the standard deviation is at most `tie`. Draws within `tie` of the observed value have its score,
/// so that scores need no tolerance.
pub(super) fn studentised(observed: f64, draws: &[f64], tie: f64) -> Vec<f64> {
    let tied = |v: &f64| if (v - observed).abs() <= tie { observed } else { *v };
    let values: Vec<f64> = std::iter::once(observed).chain(draws.iter().map(tied)).collect();
    let n = values.len() as f64;
    let mean = crate::linalg::mean(&values);
    let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
    if sd > tie {
        return values.iter().map(|v| (v - mean) / sd).collect();
    }
    vec![0.0; values.len()]
}

/// Returns p-values adjusted for the number of hypotheses by the step-down maximum (Westfall and Young 1993,
/// algorithm 4.1). `scores[h]` has the observed score of hypothesis h, then its score in each draw. Joint
/// draws preserve the dependence between hypotheses.
pub(super) fn step_down_p_values(scores: &[Vec<f64>]) -> Vec<f64> {
    let order = crate::linalg::descending(&scores.iter().map(|s| s[0]).collect::<Vec<f64>>());
    let draws = scores.first().map_or(0, |s| s.len() - 1);
    // From the least significant hypothesis upwards: the largest score of the hypotheses that are at most as
    // significant.
    let mut largest = vec![f64::NEG_INFINITY; draws];
    let mut adjusted = vec![1.0; scores.len()];
    for &h in order.iter().rev() {
        largest.iter_mut().zip(&scores[h][1..]).for_each(|(m, v)| *m = m.max(*v));
        adjusted[h] = pvalue(scores[h][0], &largest, 0.0);
    }
    for pair in order.windows(2) {
        adjusted[pair[1]] = adjusted[pair[1]].max(adjusted[pair[0]]);
    }
    adjusted
}

/// Returns the interval that contains the central `share` of the draws.
pub(super) fn central_interval(draws: &[f64], share: f64) -> [f64; 2] {
    let sorted = crate::linalg::sorted(draws);
    let tail_count = ((1.0 - share) / 2.0 * sorted.len() as f64).floor() as usize;
    match sorted.as_slice() {
        [] => [f64::NAN; 2],
        sorted => [sorted[tail_count], sorted[sorted.len() - 1 - tail_count]],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pvalues_count_ties_and_the_observed_value() {
        assert_eq!(pvalue(2.0, &[1.0, 2.0, 3.0], 0.0), 0.75);
        assert_eq!(pvalue(2.0 + 1e-13, &[1.0, 2.0, 3.0], 1e-12), 0.75);
        assert_eq!(pvalue(4.0, &[1.0, 2.0, 3.0], 1e-12), 0.25);
    }

    /// The definition: for the h-th most significant hypothesis, the share of draws whose largest score among
    /// it and the less significant ones is at least its own, made monotone.
    #[test]
    fn the_step_down_follows_its_definition() {
        let scores =
            vec![vec![2.0, 1.0, 2.5, 0.0, 0.3], vec![3.0, 0.5, 1.0, 2.9, 0.1], vec![0.5, 0.7, 0.1, 0.2, 0.9]];
        // Order 1, 0, 2. The largest of all: 1, 2.5, 2.9, .9; of 0 and 2: 1, 2.5, .2, .9; of 2: .7, .1, .2,
        // .9.
        assert_eq!(step_down_p_values(&scores), [0.4, 0.2, 0.6]);
    }

    #[test]
    fn constant_values_have_score_zero() {
        assert_eq!(studentised(1.0, &[1.0, 1.0 + 1e-14], 1e-12), [0.0; 3]);
    }

    #[test]
    fn central_intervals_leave_out_both_tails() {
        let draws: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(central_interval(&draws, 0.95), [2.0, 97.0]);
    }
}
