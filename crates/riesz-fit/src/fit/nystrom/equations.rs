//! Normal equations of the first landmarks, or of all of them, from statistics; and the choice of the ridge
//! with the smallest error on held-out folds.

use super::plan::{FitPlan, penalty};
use super::sample::add_penalty;
use super::statistics::{Statistics, Sums};
use crate::error::{Error, Result};
use crate::linalg::{Cholesky, Matrix, dot};

/// The ridges to solve for, and whether there is an intercept.
#[derive(Debug, Clone, PartialEq)]
pub struct RidgeSpec {
    /// The ridges. If there are several, the one with the smallest squared error on held-out folds is chosen.
    pub ridges: Vec<f64>,
    /// Whether the model has a constant, which is not penalised.
    pub intercept: bool,
}

/// Held-out error of one ridge and one number of landmarks.
#[derive(Debug, Clone, PartialEq)]
pub struct RidgeTrials {
    /// The number of landmarks; the first ones of the plan are used.
    pub landmarks: usize,
    /// The ridge.
    pub ridge: f64,
    /// Mean squared error on held-out folds, weighted and averaged over targets.
    pub error: f64,
}

/// The normal equations of the first `landmarks` landmarks without the penalty.
struct NormalEquations {
    matrix: Matrix,
    cross: Matrix,
    gram: Matrix,
}

impl NormalEquations {
    fn new(plan: &FitPlan, sums: &Sums, gram: &Matrix, intercept: bool, landmarks: usize) -> Self {
        let m = plan.landmarks.rows();
        // Indices of the landmarks, then that of the constant.
        let mut indices: Vec<usize> = (0..landmarks).collect();
        if intercept {
            indices.push(m);
        }
        Self {
            matrix: sums.gram.select(&indices, &indices),
            cross: right_hand_sides(plan, sums, intercept, &indices),
            gram: gram.select(&indices, &indices),
        }
    }

    /// The Cholesky factor of `Â`.
    fn factor(&self, ridge: f64) -> Result<Cholesky> {
        let mut matrix = self.matrix.clone();
        matrix.add_times(ridge, &self.gram);
        Cholesky::new(matrix, "matrix of the normal equations")
    }
}

/// Solves the normal equations of all landmarks, reusing the memory of the sums. Returns the coefficients of
/// the landmarks and, with an intercept, of the constant; the Cholesky factor of `Â`; and the trace of `Â`.
pub(super) fn solved(
    plan: &FitPlan,
    sums: Sums,
    ridge: f64,
    intercept: bool,
) -> Result<(Matrix, Cholesky, f64)> {
    let size = plan.landmarks.rows() + usize::from(intercept);
    let cross = right_hand_sides(plan, &sums, intercept, &(0..size).collect::<Vec<_>>());
    let mut matrix = sums.gram.truncate_square(size);
    add_penalty(plan, ridge, &mut matrix);
    let trace = matrix.trace();
    let factor = Cholesky::new(matrix, "matrix of the normal equations")?;
    Ok((factor.solve(cross), factor, trace))
}

/// The rows of the right-hand sides at these indices. Targets in the sums are centered, so a model without a
/// constant adds their centre back.
fn right_hand_sides(plan: &FitPlan, sums: &Sums, intercept: bool, indices: &[usize]) -> Matrix {
    let (constant_index, mut right_hand_sides) = (plan.landmarks.rows(), sums.cross.select_rows(indices));
    if !intercept {
        let centers: Vec<f64> = plan.targets.iter().map(|target| target.center).collect();
        right_hand_sides.add_outer(indices.iter().map(|&i| sums.gram[(i, constant_index)]), &centers);
    }
    right_hand_sides
}

/// The ridge with the smallest error on held-out folds, and the errors of all ridges.
pub(super) fn choose(
    plan: &FitPlan,
    statistics: &Statistics,
    penalties: &RidgeSpec,
) -> Result<(f64, Vec<RidgeTrials>)> {
    if plan.folds < 2 {
        let allowed = "choosing the ridge needs two folds or more";
        return Err(Error::parameter("ridge", "auto", allowed));
    }
    let (m, gram) = (plan.landmarks.rows(), &penalty(plan));
    let sizes = [m / 4, m / 2, m].map(|size| size.max(1));
    let (mut weight, mut errors) = (0.0, vec![vec![0.0; penalties.ridges.len()]; sizes.len()]);
    for fold in 0..plan.folds {
        let (training_sums, held_out_sums) =
            (statistics.sums(plan, |k| k != fold), statistics.sums(plan, |k| k == fold));
        if held_out_sums.rows == 0 || training_sums.rows == 0 {
            continue;
        }
        weight += held_out_sums.gram[(m, m)] * plan.targets.len() as f64;
        // The equations of all landmarks come first, so that an error names their size.
        for k in [2, 0, 1] {
            let learnt = NormalEquations::new(plan, &training_sums, gram, penalties.intercept, sizes[k]);
            let held_out = NormalEquations::new(plan, &held_out_sums, gram, penalties.intercept, sizes[k]);
            for (ridge, error) in penalties.ridges.iter().zip(&mut errors[k]) {
                let values = learnt.factor(*ridge)?.solve(learnt.cross.clone());
                *error += squared_error(plan, &held_out, &held_out_sums, &values, penalties.intercept);
            }
        }
    }
    let mut tried = Vec::new();
    for (landmarks, errors) in sizes.into_iter().zip(errors) {
        let errors_by_ridge = penalties.ridges.iter().zip(errors);
        tried.extend(errors_by_ridge.map(|(ridge, error)| RidgeTrials {
            landmarks,
            ridge: *ridge,
            error: error / weight,
        }));
    }
    let ridge = best_trial(&tried, m).map_or(penalties.ridges[0], |best| best.ridge);
    Ok((ridge, tried))
}

/// The trial with this number of landmarks and the smallest error.
pub(super) fn best_trial(tried: &[RidgeTrials], landmarks: usize) -> Option<&RidgeTrials> {
    tried.iter().filter(|t| t.landmarks == landmarks).min_by(|a, b| a.error.total_cmp(&b.error))
}

/// `Σ w (y - f)²` over the rows of the sums, added up over all targets.
fn squared_error(
    plan: &FitPlan,
    held_out: &NormalEquations,
    sums: &Sums,
    values: &Matrix,
    intercept: bool,
) -> f64 {
    let (m, fitted) = (plan.landmarks.rows(), held_out.matrix.matmul(values));
    let error_of_target = |o: usize| {
        let (coef, fitted) = (values.column(o), fitted.column(o));
        let center = if intercept { 0.0 } else { plan.targets[o].center };
        let squares = sums.squares[o] + center * (2.0 * sums.cross[(m, o)] + center * sums.gram[(m, m)]);
        squares - 2.0 * dot(&coef, &held_out.cross.column(o)) + dot(&coef, &fitted)
    };
    (0..plan.targets.len()).map(error_of_target).sum()
}

/// Coefficients with one for the constant. Without an intercept this coefficient cancels the centres that
/// were subtracted from the targets.
pub(super) fn with_constant(values: Matrix, plan: &FitPlan, intercept: bool) -> Matrix {
    let mut coefficients = values.into_data();
    if !intercept {
        coefficients.extend(plan.targets.iter().map(|target| -target.center));
    }
    Matrix::from_row_major(plan.size(), plan.targets.len(), coefficients)
}
