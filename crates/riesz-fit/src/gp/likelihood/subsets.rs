//! The distribution of the k options that are chosen together from a set, `P(S) = exp(Σ_{a ∈ S} v_a) /
//! e_k(exp v)`. Here v (one number per option) are the scores of the options, and the elementary symmetric
//! polynomial e_k is the sum over all subsets of k options. This is the conditional likelihood of logistic
//! regression given the number of chosen options (Cox 1972; Gail, Lubin and Rubinstein 1981). For k = 1 it is
//! the softmax of v.

use crate::linalg::Matrix;

/// Returns `log(exp a + exp b)`.
fn log_add(a: f64, b: f64) -> f64 {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    if small == f64::NEG_INFINITY { large } else { large + (small - large).exp().ln_1p() }
}

/// Replaces `log e_j` (j from 0) of some options by those with one more option, whose score is `score`.
fn add_option(log_sums: &mut [f64], score: f64) {
    for j in (1..log_sums.len()).rev() {
        log_sums[j] = log_add(log_sums[j], score + log_sums[j - 1]);
    }
}

/// Returns `log e_j` for j from 0 to `degree` without any option.
fn no_options(degree: usize) -> Vec<f64> {
    let mut out = vec![f64::NEG_INFINITY; degree + 1];
    out[0] = 0.0;
    out
}

/// Returns `log e_k(exp v)`. Cost k for each option.
pub(super) fn log_total(scores: &[f64], k: usize) -> f64 {
    if k == 1 {
        return log_sum_exp(scores);
    }
    let mut log_sums = no_options(k);
    scores.iter().for_each(|score| add_option(&mut log_sums, *score));
    log_sums[k]
}

/// Returns the probability with which each option is among the k chosen ones. Cost k for each option.
///
/// ```
/// use riesz_fit::gp::likelihood::inclusion_probabilities;
///
/// // Two of three options: the subsets have the weights 1·1, 1·2 and 1·2.
/// let p = inclusion_probabilities(&[0.0, 0.0, 2f64.ln()], 2);
/// assert!((p[0] - 3.0 / 5.0).abs() < 1e-15 && (p[2] - 4.0 / 5.0).abs() < 1e-15);
/// ```
///
/// # Panics
/// If k is 0 or exceeds the number of options.
pub fn inclusion_probabilities(scores: &[f64], k: usize) -> Vec<f64> {
    assert!((1..=scores.len()).contains(&k), "between 1 and all options are chosen");
    if k == 1 {
        return softmax(scores);
    }
    if k == scores.len() {
        return vec![1.0; k];
    }
    // The logarithms of e_j, j < k, of the options before each option, and of those behind it.
    let mut before = Vec::with_capacity(scores.len());
    let mut log_sums = no_options(k - 1);
    for score in scores {
        before.push(log_sums.clone());
        add_option(&mut log_sums, *score);
    }
    let log_total = log_total(scores, k);
    let mut out = vec![0.0; scores.len()];
    let mut behind = no_options(k - 1);
    for (a, score) in scores.iter().enumerate().rev() {
        let terms: Vec<f64> = (0..k).map(|j| before[a][j] + behind[k - 1 - j]).collect();
        out[a] = (score + log_sum_exp(&terms) - log_total).exp();
        add_option(&mut behind, *score);
    }
    out
}

/// Returns the probabilities with which two options are both chosen, and on the diagonal those of one option
/// (options × options). Cost k for each entry.
pub(super) fn joint_inclusion(scores: &[f64], k: usize) -> Matrix {
    let (m, single) = (scores.len(), inclusion_probabilities(scores, k));
    let mut out = Matrix::zeros(m, m);
    for (a, p) in single.iter().enumerate() {
        out[(a, a)] = *p;
        if k > 1 {
            let (indices, remaining) = without_option(scores, a);
            let conditional = inclusion_probabilities(&remaining, k - 1);
            indices.iter().zip(conditional).for_each(|(b, q)| out[(a, *b)] = p * q);
        }
    }
    out
}

/// Returns the gradient in v of `tr(C Σ)`, where Σ is the covariance of the indicators of chosen options and
/// C (options × options, symmetric) does not depend on v. With the probabilities p, `q = C p`, and
/// `e_a = E[s' C s | a is chosen] - E[s' C s]` for the indicators s, it is `p_a e_a - 2 (Σ q)_a`. Cost k for
/// each triple of options if k > 1.
pub(super) fn covariance_trace_gradient(scores: &[f64], k: usize, c: &Matrix) -> Vec<f64> {
    let m = scores.len();
    let joint = joint_inclusion(scores, k);
    let p: Vec<f64> = (0..m).map(|a| joint[(a, a)]).collect();
    let q = c.matvec(&p);
    let expectation = |joint: &Matrix, indices: &[usize]| -> f64 {
        let terms = indices
            .iter()
            .enumerate()
            .flat_map(|(i, a)| indices.iter().enumerate().map(move |(j, b)| joint[(i, j)] * c[(*a, *b)]));
        terms.sum()
    };
    let unconditional = expectation(&joint, &(0..m).collect::<Vec<_>>());
    let gradient = |a: usize| {
        let mut given_a = c[(a, a)];
        if k > 1 {
            let (indices, remaining) = without_option(scores, a);
            let joint = joint_inclusion(&remaining, k - 1);
            given_a += expectation(&joint, &indices);
            given_a += indices.iter().enumerate().map(|(i, b)| 2.0 * c[(a, *b)] * joint[(i, i)]).sum::<f64>();
        }
        let covariance = |b: usize| joint[(a, b)] - p[a] * p[b];
        let product: f64 = (0..m).map(|b| covariance(b) * q[b]).sum();
        p[a] * (given_a - unconditional) - 2.0 * product
    };
    (0..m).map(gradient).collect()
}

/// Returns the indices and the scores of all options but one.
fn without_option(scores: &[f64], option: usize) -> (Vec<usize>, Vec<f64>) {
    scores.iter().copied().enumerate().filter(|(b, _)| *b != option).unzip()
}

/// Returns the probabilities `exp v_a / Σ_b exp v_b`.
fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|v| (v - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|v| v / total).collect()
}

/// Returns `log Σ_b exp v_b`, stable for large |v|.
fn log_sum_exp(scores: &[f64]) -> f64 {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    // The largest term is 1; the remaining terms are added to it by ln_1p, which is exact for two options.
    let position = scores.iter().position(|v| *v == largest);
    let smaller = scores.iter().enumerate().filter(|(a, _)| Some(*a) != position);
    largest + smaller.map(|(_, v)| (v - largest).exp()).sum::<f64>().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the probabilities of all subsets of k options, by enumeration.
    fn subsets(scores: &[f64], k: usize) -> Vec<(Vec<usize>, f64)> {
        let members = |mask: u32| (0..scores.len()).filter(|a| mask >> a & 1 == 1).collect::<Vec<_>>();
        let subsets = (0..1_u32 << scores.len()).map(members).filter(|s| s.len() == k);
        let weight = |s: &Vec<usize>| s.iter().map(|a| scores[*a]).sum::<f64>().exp();
        let weighted: Vec<(Vec<usize>, f64)> = subsets.map(|s| (s.clone(), weight(&s))).collect();
        let total: f64 = weighted.iter().map(|(_, w)| w).sum();
        weighted.into_iter().map(|(s, w)| (s, w / total)).collect()
    }

    #[test]
    fn probabilities_match_enumeration() {
        let scores = [0.3, -2.0, 1.7, 0.0, 4.0, -0.4];
        for k in 1..=6 {
            let joint = joint_inclusion(&scores, k);
            let single = inclusion_probabilities(&scores, k);
            let enumerated = subsets(&scores, k);
            for a in 0..6 {
                for b in 0..6 {
                    let with_both = enumerated.iter().filter(|(s, _)| s.contains(&a) && s.contains(&b));
                    let expected: f64 = with_both.map(|(_, p)| p).sum();
                    assert!((joint[(a, b)] - expected).abs() < 1e-14);
                }
                assert_eq!(joint[(a, a)], single[a]);
            }
            let first = &enumerated[0];
            let log_p = first.0.iter().map(|a| scores[*a]).sum::<f64>() - log_total(&scores, k);
            assert!((log_p - first.1.ln()).abs() < 1e-13);
        }
    }

    #[test]
    fn large_differences_neither_overflow_nor_vanish() {
        let scores = [-900.0, 900.0, 0.0, 1.0];
        let p = inclusion_probabilities(&scores, 2);
        let share = 1.0 / (1.0 + 1f64.exp());
        for (p, expected) in p.iter().zip([0.0, 1.0, share, 1.0 - share]) {
            assert!((p - expected).abs() < 1e-12);
        }
        assert!((log_total(&scores, 3) - (901.0 + (-1800f64).exp())).abs() < 1e-9);
    }
}
