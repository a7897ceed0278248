//! Estimates of the distance between a fit through landmarks and the fit with all rows as support points,
//! from fits with half of the landmarks, a quarter, and so on, which the same matrix provides.
//!
//! The fit with m landmarks minimises the objective of the fit with all rows over fewer functions. It is
//! therefore the projection of the full fit in the inner product of the objective, and what each doubling of
//! landmarks adds is orthogonal to all that was there (Pythagoras): the squared distance is the sum of the
//! squares of what further doublings would add. The estimate takes this for the mean square over rows too. It
//! assumes that the additions go on to shrink as from the last but one to the last, until the landmarks are
//! all rows or explain the kernel. Where a prediction or a Shapley value was affected more or less than most
//! by the last doublings, it is expected to be so by the missing ones.
//!
//! Fits with fewer landmarks are projections of the fit with all landmarks, so nothing is fitted again: with
//! `A = LLᵀ` the matrix of the equations and θ its solution, the fit with the first s landmarks is `θ_s` with
//! `L_sᵀθ_s` equal to the first s numbers of `Lᵀθ`. Where the objective is not quadratic, as in logistic
//! regression, A is the last curvature that was computed on the way to the solution, and rows count with
//! their weight in it. Where the equations are those of a sample of the rows, projections are in the inner
//! product of the sample.
//!
//! This is an estimate and no bound: a fit through landmarks cannot rule out what it has not seen.

use super::landmarks::TRACE_TOLERANCE;
use super::plan::FitPlan;
use super::sample::penalty_times;
use crate::linalg::{Cholesky, Matrix, dot};
use crate::model_card::CardEntry;
use crate::posterior::{PosteriorCovariance, Refitted, VarianceReduction};

/// Doublings that are looked at.
const DOUBLINGS: usize = 4;

/// Factors by which ± 1.96 standard deviations are widened to hold 95 % of Student's t with two, three or
/// four degrees of freedom, because the scale is estimated from as many numbers.
const STUDENT: [f64; 3] = [4.302_653 / 1.959_964, 3.182_446 / 1.959_964, 2.776_445 / 1.959_964];

/// The least factor by which one doubling is taken to add less than the one before it, so that all to come
/// add up to about the last: a faster fall is not counted on, since once a function is learnt what is learnt
/// of noise does not fall.
const MIN_RATIO: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// Numbers of landmarks of the smaller fits, from half downwards.
fn sizes(landmarks: usize) -> Vec<usize> {
    (1..=DOUBLINGS).map(|k| landmarks >> k).filter(|m| *m > 0).collect()
}

/// Estimated distance of a fit from the one with all rows, where the last doubling added `last_addition`, the
/// one before it `before`, and `doublings` are missing.
fn extrapolated_distance(last_addition: f64, before: f64, doublings: f64) -> f64 {
    let ratio = if before > 0.0 { (last_addition / before).clamp(MIN_RATIO, 1.0) } else { 1.0 };
    let part = |k: i32| (doublings - f64::from(k) + 1.0).min(1.0) * ratio.powi(2 * k);
    last_addition * (1..=doublings.ceil() as i32).map(part).sum::<f64>().sqrt()
}

/// Estimated distance of a fit from the one with all rows as support points.
#[derive(Debug, Clone)]
pub struct LandmarkErrorEstimate {
    /// The root mean square over rows of what predictions are off, one a target; of classes that of log odds,
    /// over rows by what the curvature of the loss is there.
    pub distances: Vec<f64>,
    /// Covariance of the error of anything linear in the model.
    pub covariance: PosteriorCovariance,
}

impl LandmarkErrorEstimate {
    /// Entries of the model card.
    pub(super) fn facts(&self) -> Vec<CardEntry> {
        let single_target = self.distances.len() == 1;
        let target_text =
            |o: usize| if single_target { String::new() } else { format!(" (target {})", o + 1) };
        let name =
            |o: usize| format!("distance from all rows as support points, estimated{}", target_text(o));
        self.distances
            .iter()
            .enumerate()
            .map(|(o, distance)| CardEntry::measured(name(o), *distance))
            .collect()
    }
}

/// A solution, and the matrix that it solves, in whose inner product fits with fewer landmarks are
/// projections.
pub(super) struct NestedFits<'s> {
    pub plan: &'s FitPlan,
    /// Cholesky factor of `A = KᵀWK + λP`, over landmarks and, where it is learnt, the constant.
    pub factor: &'s Cholesky,
    /// λ.
    pub ridge: f64,
    /// θ, landmarks (and more) × targets.
    pub values: &'s Matrix,
    /// The number of rows of the fit.
    pub rows: u64,
    /// The sum of the weights W of the rows in A.
    pub weight: f64,
    /// The norm of what K was rounded by in A.
    pub rounding: f64,
}

impl NestedFits<'_> {
    /// The estimate. `None` with fewer than two doublings, and where the fit has only some of the plan's rows
    /// and fewer of them than landmarks. Cost O(landmarks² targets).
    pub fn missing(&self) -> Option<LandmarkErrorEstimate> {
        let (plan, size, weight) = (self.plan, self.factor.size(), self.weight);
        let (m, t) = (plan.landmarks.rows(), plan.targets.len());
        let too_few_rows = self.rows <= m as u64 && self.rows != plan.rows;
        let sizes = sizes(m);
        if sizes.len() < 2 || too_few_rows || weight.is_nan() || weight <= 0.0 {
            return None;
        }
        // Landmarks that explain the kernel leave nothing to others.
        let explained = plan.unexplained <= 10.0 * TRACE_TOLERANCE;
        let doublings = if explained { 0.0 } else { (self.rows as f64 / m as f64).log2().max(0.0) };
        let values = Matrix::from_row_major(size, t, self.values.data()[..size * t].to_vec());
        let whitened_values = self.factor.upper_times(&values);
        let mut steps = Vec::new();
        let mut previous = values;
        for size_of_fit in sizes {
            let smaller = self.truncated_fit(&whitened_values, size_of_fit);
            previous.data_mut().iter_mut().zip(smaller.data()).for_each(|(v, other)| *v -= other);
            steps.push(std::mem::replace(&mut previous, smaller));
        }
        let lengths: Vec<Vec<(f64, f64)>> = steps.iter().map(|step| self.function_norms(step)).collect();
        let (mut distances, mut known) = (Vec::new(), Vec::new());
        for o in 0..t {
            let root = |(square, _): (f64, f64)| (square.max(0.0) / weight).sqrt();
            let step_lengths: Vec<f64> = lengths.iter().map(|of_step| root(of_step[o])).collect();
            let distance = extrapolated_distance(step_lengths[0], step_lengths[1], doublings);
            // Of steps that are no larger than rounding nothing is known but their size.
            let kept: Vec<usize> = (0..steps.len()).filter(|&k| lengths[k][o].0 > lengths[k][o].1).collect();
            if distance > 0.0 && kept.len() < 2 {
                return None;
            }
            let wide =
                STUDENT[(kept.len().max(2) - 2).min(STUDENT.len() - 1)] / (kept.len().max(1) as f64).sqrt();
            let (mut coef, mut intercept) = (Matrix::zeros(m, steps.len()), vec![0.0; steps.len()]);
            for k in kept {
                let scale = wide * distance / step_lengths[k];
                (0..m).for_each(|j| coef[(j, k)] = scale * steps[k][(j, o)]);
                intercept[k] = if size > m { scale * steps[k][(m, o)] } else { 0.0 };
            }
            distances.push(distance);
            known.push(VarianceReduction::RefitDifferences {
                coef,
                intercept,
                method: Refitted::LandmarkDoubling,
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

    /// The fit with the first landmarks alone, and the constant, from `Lᵀθ`.
    fn truncated_fit(&self, whitened_values: &Matrix, landmarks: usize) -> Matrix {
        let (m, size, t) = (self.plan.landmarks.rows(), self.factor.size(), whitened_values.cols());
        let mut coef = Matrix::from_row_major(landmarks, t, whitened_values.data()[..landmarks * t].to_vec());
        let mut constants = vec![0.0; t];
        if size > m {
            // The part of the constant that is no function of these landmarks.
            let row = self.factor.lower().row(m);
            let later_entries = &row[landmarks..];
            for (o, constant) in constants.iter_mut().enumerate() {
                *constant = dot(later_entries, &whitened_values.column(o)[landmarks..])
                    / dot(later_entries, later_entries);
                (0..landmarks).for_each(|j| coef[(j, o)] -= *constant * row[j]);
            }
        }
        self.factor.solve_first_upper_in_place(&mut coef);
        let mut solution = Matrix::zeros(size, t);
        solution.data_mut()[..landmarks * t].copy_from_slice(coef.data());
        if size > m {
            solution.row_mut(m).copy_from_slice(&constants);
        }
        solution
    }

    /// `Σ w f(x)²` over the rows, for functions given by their coefficients, and the part of it that may be
    /// rounding.
    fn function_norms(&self, step: &Matrix) -> Vec<(f64, f64)> {
        let (whitened_step, pull) = (self.factor.upper_times(step), penalty_times(self.plan, step));
        let squares = |first: &Matrix, other: &Matrix, o: usize| dot(&first.column(o), &other.column(o));
        (0..step.cols())
            .map(|o| {
                let (norm, squared_coef) =
                    (squares(&whitened_step, &whitened_step, o), squares(step, step, o));
                let square = norm - self.ridge * squares(step, &pull, o) - self.factor.jitter * squared_coef;
                (
                    square,
                    self.rounding.powi(2) * squared_coef + f64::EPSILON * self.factor.size() as f64 * norm,
                )
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
        let squares: f64 = 0.5 + 0.25 + 0.125 + 0.5 * 0.0625;
        assert!((extrapolated_distance(3.0, 3.0 * 2.0_f64.sqrt(), 3.5) - 3.0 * squares.sqrt()).abs() < 1e-12);
        // None where all rows are landmarks; no shrinking is no reason to expect growth, and much no reason
        // to expect none.
        assert_eq!(extrapolated_distance(1.0, 2.0, 0.0), 0.0);
        assert!((extrapolated_distance(2.0, 1.0, 4.0) - 4.0).abs() < 1e-12);
        assert!((extrapolated_distance(1.0, 100.0, 1.0) - MIN_RATIO).abs() < 1e-12);
        assert_eq!(sizes(2000), [1000, 500, 250, 125]);
        assert_eq!(sizes(5), [2, 1]);
    }
}
