//! Estimates of the distance between a fit through landmarks and the fit with all rows as support points,
//! from fits with a half, a quarter and so on of the landmarks, which the same matrix provides.
//!
//! The fit with m landmarks minimises the objective of the full fit, with all rows, over fewer functions. It
//! is therefore the projection of the full fit in the objective's inner product. The addition of each
//! doubling of landmarks is orthogonal to all earlier fits (Pythagoras), so the squared distance is the sum
//! of the squares of all further additions. The estimate uses this for the mean square over rows too. It
//! assumes that the additions shrink on by the ratio of the last two, until the landmarks are all rows or
//! explain the kernel. The relative effect of the missing doublings on a prediction or Shapley value is
//! estimated from the effect of the last doublings on it.
//!
//! Fits with fewer landmarks need no new fit, since they are projections of the fit with all landmarks. Let
//! `A = LLᵀ` be the matrix of the normal equations and θ their solution. The fit with the first s landmarks
//! is `θ_s` with `L_sᵀθ_s` equal to the first s numbers of `Lᵀθ`. If the objective is not quadratic, as in
//! logistic regression, A is the last curvature on the way to the solution, and each row has its weight in
//! this curvature. If the equations are those of a sample, the projections are in the inner product of the
//! sample.
//!
//! This is an estimate and not a bound: the landmarks have no information about the function's part that none
//! of them explains.

use super::landmarks::TRACE_TOLERANCE;
use super::plan::FitPlan;
use super::sample::penalty_times;
use crate::linalg::{Cholesky, Matrix, dot};
use crate::model_card::CardEntry;
use crate::posterior::{PosteriorCovariance, Refitted, VarianceReduction};

/// Number of doublings that are compared.
const DOUBLINGS: usize = 4;

/// Factors by which ± 1.96 standard deviations are widened to cover 95 % of Student's t distribution with
/// two, three or four degrees of freedom. The degrees of freedom are the number of doublings from which the
/// scale is estimated.
const STUDENT: [f64; 3] = [4.302_653 / 1.959_964, 3.182_446 / 1.959_964, 2.776_445 / 1.959_964];

/// Minimum ratio of an addition to the one before it. With this ratio all future additions sum to about the
/// last one. A faster decrease can't be relied on: once the function is learnt, the additions are noise,
/// which doesn't decrease.
const MIN_RATIO: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// Numbers of landmarks of the smaller fits, from a half downwards.
fn sizes(landmarks: usize) -> Vec<usize> {
    (1..=DOUBLINGS).map(|k| landmarks >> k).filter(|m| *m > 0).collect()
}

/// Estimated distance of a fit from the fit with all rows. The last doubling added `last_addition`, the one
/// before it added `previous_addition`, and `doublings` doublings are missing.
fn extrapolated_distance(last_addition: f64, previous_addition: f64, doublings: f64) -> f64 {
    let ratio =
        if previous_addition > 0.0 { (last_addition / previous_addition).clamp(MIN_RATIO, 1.0) } else { 1.0 };
    let part = |k: i32| (doublings - f64::from(k) + 1.0).min(1.0) * ratio.powi(2 * k);
    last_addition * (1..=doublings.ceil() as i32).map(part).sum::<f64>().sqrt()
}

/// Estimated distance of a fit from the one with all rows as support points.
#[derive(Debug, Clone)]
pub struct LandmarkErrorEstimate {
    /// The root mean square over rows of the error of predictions, one number per target. For classes it is
    /// the error of the log odds, and rows are weighted by the curvature of their loss.
    pub distances: Vec<f64>,
    /// Covariance of the error of any linear function of the model.
    pub covariance: PosteriorCovariance,
}

impl LandmarkErrorEstimate {
    /// Entries of the model card.
    pub(super) fn facts(&self) -> Vec<CardEntry> {
        let name = "distance from all rows as support points, estimated";
        if let [distance] = self.distances[..] {
            return vec![CardEntry::measured(name, distance)];
        }
        let entry = |(o, distance): (usize, &f64)| {
            CardEntry::measured(format!("{name} (target {})", o + 1), *distance)
        };
        self.distances.iter().enumerate().map(entry).collect()
    }
}

/// A solution and the matrix of its equations. Fits with fewer landmarks are projections in the inner product
/// of this matrix.
pub(super) struct NestedFits<'s> {
    pub plan: &'s FitPlan,
    /// Cholesky factor of `A = KᵀWK + λP`, over landmarks and, if it is learnt, the constant.
    pub factor: &'s Cholesky,
    /// The ridge λ.
    pub ridge: f64,
    /// Coefficients θ, (landmarks, possibly a constant) × targets.
    pub values: &'s Matrix,
    /// The number of rows of the fit.
    pub rows: u64,
    /// The sum of the weights W of the rows in A.
    pub weight: f64,
    /// The norm of the rounding error of K in A.
    pub rounding: f64,
}

impl NestedFits<'_> {
    /// The estimate. `None` with fewer than two doublings, and where the fit has only a part of the plan's
    /// rows, which are no more than the landmarks. Cost O(landmarks² targets).
    pub fn missing(&self) -> Option<LandmarkErrorEstimate> {
        let (plan, size, weight) = (self.plan, self.factor.size(), self.weight);
        let (m, t) = (plan.landmarks.rows(), plan.targets.len());
        let too_few_rows = self.rows <= m as u64 && self.rows != plan.rows;
        let sizes = sizes(m);
        if sizes.len() < 2 || too_few_rows || weight.is_nan() || weight <= 0.0 {
            return None;
        }
        // If the landmarks explain the kernel, further landmarks add nothing.
        let explained = plan.unexplained <= 10.0 * TRACE_TOLERANCE;
        let doublings = if explained { 0.0 } else { (self.rows as f64 / m as f64).log2().max(0.0) };
        let values = self.values.first_rows(size);
        let whitened_values = self.factor.upper_times(&values);
        let mut steps = Vec::new();
        let mut previous = values;
        for size_of_fit in sizes {
            let smaller = self.truncated_fit(&whitened_values, size_of_fit);
            previous.add_times(-1.0, &smaller);
            steps.push(std::mem::replace(&mut previous, smaller));
        }
        let lengths: Vec<Vec<(f64, f64)>> = steps.iter().map(|step| self.function_norms(step)).collect();
        let (mut distances, mut reductions) = (Vec::new(), Vec::new());
        for o in 0..t {
            let root = |(square, _): (f64, f64)| (square.max(0.0) / weight).sqrt();
            let step_lengths: Vec<f64> = lengths.iter().map(|norms| root(norms[o])).collect();
            let distance = extrapolated_distance(step_lengths[0], step_lengths[1], doublings);
            // Steps that may be rounding errors have no reliable direction.
            let reliable_steps: Vec<usize> =
                (0..steps.len()).filter(|&k| lengths[k][o].0 > lengths[k][o].1).collect();
            if distance > 0.0 && reliable_steps.len() < 2 {
                return None;
            }
            let interval_factor = STUDENT[(reliable_steps.len().max(2) - 2).min(STUDENT.len() - 1)]
                / (reliable_steps.len().max(1) as f64).sqrt();
            let (mut coef, mut intercept) = (Matrix::zeros(m, steps.len()), vec![0.0; steps.len()]);
            for k in reliable_steps {
                let scale = interval_factor * distance / step_lengths[k];
                (0..m).for_each(|j| coef[(j, k)] = scale * steps[k][(j, o)]);
                intercept[k] = if size > m { scale * steps[k][(m, o)] } else { 0.0 };
            }
            distances.push(distance);
            reductions.push(VarianceReduction::RefitDifferences {
                coef,
                intercept,
                method: Refitted::LandmarkDoubling,
            });
        }
        let covariance = PosteriorCovariance::of_refits(reductions, vec![1.0; t]);
        Some(LandmarkErrorEstimate { distances, covariance })
    }

    /// The fit with the first landmarks and the constant alone, from `Lᵀθ`.
    fn truncated_fit(&self, whitened_values: &Matrix, landmarks: usize) -> Matrix {
        let (m, size, t) = (self.plan.landmarks.rows(), self.factor.size(), whitened_values.cols());
        let mut coef = whitened_values.first_rows(landmarks);
        let mut constants = vec![0.0; t];
        if size > m {
            // The part of the constant that is not a function of these landmarks.
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

    /// `Σ w f(x)²` over the rows for the functions with these coefficients, and the possible part of rounding
    /// errors in it.
    fn function_norms(&self, step: &Matrix) -> Vec<(f64, f64)> {
        let (whitened_step, penalised_step) = (self.factor.upper_times(step), penalty_times(self.plan, step));
        let squares = |first: &Matrix, other: &Matrix, o: usize| dot(&first.column(o), &other.column(o));
        (0..step.cols())
            .map(|o| {
                let (norm, squared_coef) =
                    (squares(&whitened_step, &whitened_step, o), squares(step, step, o));
                let square =
                    norm - self.ridge * squares(step, &penalised_step, o) - self.factor.jitter * squared_coef;
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
    fn distances_are_extrapolated_from_doublings() {
        // Squared additions that halve, for many doublings and for three and a half.
        assert!((extrapolated_distance(1.0, 2.0_f64.sqrt(), 200.0) - 1.0).abs() < 1e-12);
        let squares: f64 = 0.5 + 0.25 + 0.125 + 0.5 * 0.0625;
        assert!((extrapolated_distance(3.0, 3.0 * 2.0_f64.sqrt(), 3.5) - 3.0 * squares.sqrt()).abs() < 1e-12);
        // The distance is 0 if all rows are landmarks. The ratio stays between its minimum and 1.
        assert_eq!(extrapolated_distance(1.0, 2.0, 0.0), 0.0);
        assert!((extrapolated_distance(2.0, 1.0, 4.0) - 4.0).abs() < 1e-12);
        assert!((extrapolated_distance(1.0, 100.0, 1.0) - MIN_RATIO).abs() < 1e-12);
        assert_eq!(sizes(2000), [1000, 500, 250, 125]);
        assert_eq!(sizes(5), [2, 1]);
    }
}
