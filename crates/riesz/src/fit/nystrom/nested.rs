//! How far a fit through landmarks is from the one with all rows as support points, estimated from fits with half of the
//! landmarks, half of these, and so on, which the same statistics give.
//!
//! The fit with m landmarks minimises what the one with all rows minimises, over fewer functions. So it is that one's projection,
//! in the inner product of the objective, and what every doubling of landmarks adds is orthogonal to all that was there
//! (Pythagoras): squares of distances are the sums of the squares of what doublings would still add. As an estimate, that is
//! taken for the root mean square over rows too, and what doublings add for going on to shrink as from the last but one to the
//! last, until landmarks are all rows or explain the kernel. Where a prediction or a Shapley value is larger or smaller than most
//! in what the last doublings added, it is expected to be so in what is missing.
//!
//! That is no bound: nothing in a fit through landmarks rules out what it has not seen.

use super::landmarks::NOTHING;
use super::plan::Plan;
use super::statistics::Statistics;
use crate::linalg::{Matrix, dot};
use crate::posterior::{Covariance, Known, Refitted};

/// Doublings that are looked at.
const DOUBLINGS: usize = 4;

/// By what ± 1.96 deviations are widened, so that they hold 95 % of Student's t of two, three or four degrees of freedom: the
/// scale is known from so many numbers.
const STUDENT: [f64; 3] = [4.302_653 / 1.959_964, 3.182_446 / 1.959_964, 2.776_445 / 1.959_964];

/// The least factor by which one doubling is taken to add less than the one before it, so that all to come add up to about the
/// last: a faster fall is not counted on, since once a function is learnt what is learnt of noise does not fall.
const LEAST: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// How many landmarks the smaller fits have, from half on.
pub(super) fn sizes(landmarks: usize) -> Vec<usize> {
    (1..=DOUBLINGS).map(|k| landmarks >> k).filter(|m| *m > 0).collect()
}

/// How far a fit is from the one with all rows, where the last doubling added `last`, the one before it `before`, and there are
/// so many to come.
fn distance(last: f64, before: f64, doublings: f64) -> f64 {
    let ratio = if before > 0.0 { (last / before).clamp(LEAST, 1.0) } else { 1.0 };
    let part = |k: i32| (doublings - f64::from(k) + 1.0).min(1.0) * ratio.powi(2 * k);
    last * (1..=doublings.ceil() as i32).map(part).sum::<f64>().sqrt()
}

/// The root mean square over rows of how far predictions are from those of the fit with all rows, one a target, and how far
/// anything linear in the model is, as a covariance; `None` with less than two doublings to look at, and for some of the plan's
/// rows that are fewer than landmarks. `fits` are coefficients of all landmarks, of half of them, and so on (landmarks and
/// constant × targets), from the statistics of the same rows.
pub(super) fn missing(
    plan: &Plan,
    statistics: &Statistics,
    fits: &[Matrix],
) -> Option<(Vec<f64>, Covariance)> {
    let (m, t) = (plan.landmarks.rows(), plan.targets.len());
    let rows = statistics.rows();
    if fits.len() < 3 || rows <= m as u64 && rows != plan.rows {
        return None;
    }
    let sums = statistics.sums(plan, |_| true);
    let weight = sums.gram[(m, m)];
    // Landmarks that explain the kernel leave nothing to others.
    let explained = plan.unexplained <= 10.0 * NOTHING;
    let doublings = if explained { 0.0 } else { (rows as f64 / m as f64).log2().max(0.0) };
    let rounding = plan.rounding(rows, 1) / weight.sqrt();
    let (mut distances, mut all) = (Vec::new(), Vec::new());
    for o in 0..t {
        let steps: Vec<Vec<f64>> = fits
            .windows(2)
            .map(|two| two[0].column(o).iter().zip(two[1].column(o)).map(|(a, b)| a - b).collect())
            .collect();
        let size = |step: &Vec<f64>| (dot(step, &sums.gram.matvec(step)).max(0.0) / weight).sqrt();
        let sizes: Vec<f64> = steps.iter().map(size).collect();
        let distance = distance(sizes[0], sizes[1], doublings);
        // Of steps that are no larger than rounding nothing is known but their size.
        let known = |k: usize| sizes[k] > rounding * dot(&steps[k], &steps[k]).sqrt();
        let count = (0..steps.len()).filter(|k| known(*k)).count();
        if distance > 0.0 && count < 2 {
            return None;
        }
        let wide = STUDENT[(count.max(2) - 2).min(STUDENT.len() - 1)] / (count.max(1) as f64).sqrt();
        let (mut coef, mut intercept) = (Matrix::zeros(m, steps.len()), vec![0.0; steps.len()]);
        for (k, (step, size)) in steps.iter().zip(&sizes).enumerate().filter(|(k, _)| known(*k)) {
            let scale = wide * distance / size;
            (0..m).for_each(|j| coef[(j, k)] = scale * step[j]);
            intercept[k] = scale * step[m];
        }
        distances.push(distance);
        all.push(Known::Refits { coef, intercept, of: Refitted::Landmarks });
    }
    Some((distances, Covariance { prior: 0.0, mirror: None, known: all, scale: vec![1.0; t] }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_what_doublings_add() {
        // Halves of squares to the end, and three doublings and a half.
        assert!((distance(1.0, 2.0_f64.sqrt(), 200.0) - 1.0).abs() < 1e-12);
        let some: f64 = 0.5 + 0.25 + 0.125 + 0.5 * 0.0625;
        assert!((distance(3.0, 3.0 * 2.0_f64.sqrt(), 3.5) - 3.0 * some.sqrt()).abs() < 1e-12);
        // None where all rows are landmarks; no shrinking is no reason to expect growth, and much no reason to expect none.
        assert_eq!(distance(1.0, 2.0, 0.0), 0.0);
        assert!((distance(2.0, 1.0, 4.0) - 4.0).abs() < 1e-12);
        assert!((distance(1.0, 100.0, 1.0) - LEAST).abs() < 1e-12);
        assert_eq!(sizes(2000), [1000, 500, 250, 125]);
        assert_eq!(sizes(5), [2, 1]);
    }
}
