//! How far a fit through landmarks is from the one with all rows as support points, estimated from fits with
//! half of the landmarks, half of these, and so on, which the same matrix gives.
//!
//! The fit with m landmarks minimises what the one with all rows minimises, over fewer functions. So it is
//! that one's projection, in the inner product of the objective, and what every doubling of landmarks adds is
//! orthogonal to all that was there (Pythagoras): squares of distances are the sums of the squares of what
//! doublings would still add. As an estimate, that is taken for the root mean square over rows too, and what
//! doublings add for going on to shrink as from the last but one to the last, until landmarks are all rows or
//! explain the kernel. Where a prediction or a Shapley value is larger or smaller than most in what the last
//! doublings added, it is expected to be so in what is missing.
//!
//! So fits with fewer landmarks are projections too, of the one with all, and nothing is fitted again: with
//! `A = LLᵀ` the matrix of the equations and θ its solution, the first s coefficients alone are `θ_s` with
//! `L_sᵀθ_s` the first s numbers of `Lᵀθ`. Where an objective is not quadratic, as that of logistic
//! regression, A is the last curvature that was summed up on the way to the solution, and rows count by their
//! part in it; where equations are those of a sample of the rows, projections are in the inner product of the
//! sample.
//!
//! That is no bound: nothing in a fit through landmarks rules out what it has not seen.

use super::landmarks::TRACE_TOLERANCE;
use super::plan::FitPlan;
use super::sample::penalty_times;
use crate::explanation::Fact;
use crate::linalg::{Cholesky, Matrix, dot};
use crate::posterior::{PosteriorCovariance, Refitted, VarianceReduction};

/// Doublings that are looked at.
const DOUBLINGS: usize = 4;

/// By what ± 1.96 deviations are widened, so that they hold 95 % of Student's t of two, three or four degrees
/// of freedom: the scale is known from so many numbers.
const STUDENT: [f64; 3] = [4.302_653 / 1.959_964, 3.182_446 / 1.959_964, 2.776_445 / 1.959_964];

/// The least factor by which one doubling is taken to add less than the one before it, so that all to come
/// add up to about the last: a faster fall is not counted on, since once a function is learnt what is learnt
/// of noise does not fall.
const LEAST: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// How many landmarks the smaller fits have, from half on.
fn sizes(landmarks: usize) -> Vec<usize> {
    (1..=DOUBLINGS).map(|k| landmarks >> k).filter(|m| *m > 0).collect()
}

/// How far a fit is from the one with all rows, where the last doubling added `last`, the one before it
/// `before`, and there are so many to come.
fn extrapolated_distance(last: f64, before: f64, doublings: f64) -> f64 {
    let ratio = if before > 0.0 { (last / before).clamp(LEAST, 1.0) } else { 1.0 };
    let part = |k: i32| (doublings - f64::from(k) + 1.0).min(1.0) * ratio.powi(2 * k);
    last * (1..=doublings.ceil() as i32).map(part).sum::<f64>().sqrt()
}

/// How far a fit is estimated to be from the one with all rows as support points.
#[derive(Debug, Clone)]
pub struct LandmarkErrorEstimate {
    /// The root mean square over rows of what predictions are off, one a target; of classes that of log odds,
    /// over rows by what the curvature of the loss is there.
    pub distances: Vec<f64>,
    /// What anything linear in the model is off.
    pub covariance: PosteriorCovariance,
}

impl LandmarkErrorEstimate {
    /// For a model's card.
    pub(super) fn facts(&self) -> Vec<Fact> {
        let one = self.distances.len() == 1;
        let of = |o: usize| if one { String::new() } else { format!(" (target {})", o + 1) };
        let name = |o: usize| format!("distance from all rows as support points, estimated{}", of(o));
        self.distances.iter().enumerate().map(|(o, distance)| Fact::measured(name(o), *distance)).collect()
    }
}

/// A solution, and the matrix that it solves, in whose inner product fits with fewer landmarks are
/// projections.
pub(super) struct NestedFits<'s> {
    pub plan: &'s FitPlan,
    /// Of `A = KᵀWK + λP`, by landmarks and, where it is learnt, the constant.
    pub factor: &'s Cholesky,
    /// λ.
    pub ridge: f64,
    /// θ, landmarks (and more) × targets.
    pub values: &'s Matrix,
    /// How many rows the fit is of.
    pub rows: u64,
    /// The sum of the weights W of the rows that A is of.
    pub weight: f64,
    /// The norm of what K was rounded by in A.
    pub rounding: f64,
}

impl NestedFits<'_> {
    /// `None` with less than two doublings to look at, and for some of the plan's rows that are fewer than
    /// landmarks. Cost O(landmarks² targets).
    pub fn missing(&self) -> Option<LandmarkErrorEstimate> {
        let (plan, size, weight) = (self.plan, self.factor.size(), self.weight);
        let (m, t) = (plan.landmarks.rows(), plan.targets.len());
        let few = self.rows <= m as u64 && self.rows != plan.rows;
        let sizes = sizes(m);
        if sizes.len() < 2 || few || weight.is_nan() || weight <= 0.0 {
            return None;
        }
        // Landmarks that explain the kernel leave nothing to others.
        let explained = plan.unexplained <= 10.0 * TRACE_TOLERANCE;
        let doublings = if explained { 0.0 } else { (self.rows as f64 / m as f64).log2().max(0.0) };
        let values = Matrix::from_row_major(size, t, self.values.data()[..size * t].to_vec());
        let at = self.factor.upper_times(&values);
        let mut steps = Vec::new();
        let mut last = values;
        for own in sizes {
            let smaller = self.truncated_fit(&at, own);
            last.data_mut().iter_mut().zip(smaller.data()).for_each(|(v, other)| *v -= other);
            steps.push(std::mem::replace(&mut last, smaller));
        }
        let lengths: Vec<Vec<(f64, f64)>> = steps.iter().map(|step| self.function_norms(step)).collect();
        let (mut distances, mut known) = (Vec::new(), Vec::new());
        for o in 0..t {
            let root = |(square, _): (f64, f64)| (square.max(0.0) / weight).sqrt();
            let of: Vec<f64> = lengths.iter().map(|own| root(own[o])).collect();
            let distance = extrapolated_distance(of[0], of[1], doublings);
            // Of steps that are no larger than rounding nothing is known but their size.
            let kept: Vec<usize> = (0..steps.len()).filter(|&k| lengths[k][o].0 > lengths[k][o].1).collect();
            if distance > 0.0 && kept.len() < 2 {
                return None;
            }
            let wide =
                STUDENT[(kept.len().max(2) - 2).min(STUDENT.len() - 1)] / (kept.len().max(1) as f64).sqrt();
            let (mut coef, mut intercept) = (Matrix::zeros(m, steps.len()), vec![0.0; steps.len()]);
            for k in kept {
                let scale = wide * distance / of[k];
                (0..m).for_each(|j| coef[(j, k)] = scale * steps[k][(j, o)]);
                intercept[k] = if size > m { scale * steps[k][(m, o)] } else { 0.0 };
            }
            distances.push(distance);
            known.push(VarianceReduction::RefitDifferences {
                coef,
                intercept,
                of: Refitted::LandmarkDoubling,
            });
        }
        Some(LandmarkErrorEstimate {
            distances,
            covariance: PosteriorCovariance {
                prior_scale: 0.0,
                skew_swap: None,
                reduction: known,
                scale: vec![1.0; t],
            },
        })
    }

    /// The fit with the first landmarks alone, and the constant, by `Lᵀθ`.
    fn truncated_fit(&self, at: &Matrix, landmarks: usize) -> Matrix {
        let (m, size, t) = (self.plan.landmarks.rows(), self.factor.size(), at.cols());
        let mut own = Matrix::from_row_major(landmarks, t, at.data()[..landmarks * t].to_vec());
        let mut constants = vec![0.0; t];
        if size > m {
            // What of the constant is no function of these landmarks.
            let row = self.factor.lower().row(m);
            let beyond = &row[landmarks..];
            for (o, constant) in constants.iter_mut().enumerate() {
                *constant = dot(beyond, &at.column(o)[landmarks..]) / dot(beyond, beyond);
                (0..landmarks).for_each(|j| own[(j, o)] -= *constant * row[j]);
            }
        }
        self.factor.solve_first_upper_in_place(&mut own);
        let mut all = Matrix::zeros(size, t);
        all.data_mut()[..landmarks * t].copy_from_slice(own.data());
        if size > m {
            all.row_mut(m).copy_from_slice(&constants);
        }
        all
    }

    /// `Σ w f(x)²` over the rows for functions by their coefficients, and what of it may be rounding.
    fn function_norms(&self, step: &Matrix) -> Vec<(f64, f64)> {
        let (whole, pull) = (self.factor.upper_times(step), penalty_times(self.plan, step));
        let squares = |of: &Matrix, other: &Matrix, o: usize| dot(&of.column(o), &other.column(o));
        (0..step.cols())
            .map(|o| {
                let (whole, own) = (squares(&whole, &whole, o), squares(step, step, o));
                let square = whole - self.ridge * squares(step, &pull, o) - self.factor.jitter * own;
                (square, self.rounding.powi(2) * own + f64::EPSILON * self.factor.size() as f64 * whole)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_what_doublings_add() {
        // Halves of squares to the end, and three doublings and a half.
        assert!((extrapolated_distance(1.0, 2.0_f64.sqrt(), 200.0) - 1.0).abs() < 1e-12);
        let some: f64 = 0.5 + 0.25 + 0.125 + 0.5 * 0.0625;
        assert!((extrapolated_distance(3.0, 3.0 * 2.0_f64.sqrt(), 3.5) - 3.0 * some.sqrt()).abs() < 1e-12);
        // None where all rows are landmarks; no shrinking is no reason to expect growth, and much no reason
        // to expect none.
        assert_eq!(extrapolated_distance(1.0, 2.0, 0.0), 0.0);
        assert!((extrapolated_distance(2.0, 1.0, 4.0) - 4.0).abs() < 1e-12);
        assert!((extrapolated_distance(1.0, 100.0, 1.0) - LEAST).abs() < 1e-12);
        assert_eq!(sizes(2000), [1000, 500, 250, 125]);
        assert_eq!(sizes(5), [2, 1]);
    }
}
