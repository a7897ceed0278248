//! ε-insensitive support vector regression (Vapnik 1995).

use std::sync::atomic::AtomicBool;

use super::solver::{Problem, Solution, SolverSettings, solve};
use super::{CACHE_BYTES, TOLERANCE, UNCONVERGED_REMEDY, check_tolerance, support_vectors, weighted_bounds};
use crate::checks::{check_finite, check_rows, not_negative, positive};
use crate::error::{Error, Result};
use crate::fit::bootstrap::{BOOTSTRAP, BootstrapRefit, run_refits};
use crate::fit::grid_search::{C_GRID, GridSearch};
use crate::fit::task::{
    C, FIXED_KERNEL, FOLDS, FitTask, FittedModel, MAX_ITER, ModelKind, NORMALIZE_Y, OptionalInput,
    OutputType, SEARCH_ROWS, TOL, no_job, with_card_entries,
};
use crate::fit::{DualFit, Penalty, check_dense, positive_places, sample_weights};
use crate::kernel::Kernel;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, products, select};
use crate::model_card::CardEntry;
use crate::setting_schema::{Range, Setting};
use crate::table::Table;

const EPSILON: Setting = Setting::new(
    "epsilon",
    "X",
    Range::NotNegative,
    "Errors up to this size cost nothing; in standard deviations of the target if it is standardised \
     [default: 0.1]",
);

/// Support vector regression as a kind of model. Its cost of errors is chosen by the squared error on folds.
pub(in crate::fit) static SVR: ModelKind = ModelKind {
    name: "svr",
    help: "ε-insensitive support vector regression",
    predicts: OutputType::Number,
    settings: &[&C, &EPSILON, &FOLDS, &SEARCH_ROWS, &FIXED_KERNEL, &NORMALIZE_Y, &TOL, &MAX_ITER, &BOOTSTRAP],
    takes: &[OptionalInput::SampleWeight, OptionalInput::Penalty],
    posterior: false,
    fit: fit_task,
    job: no_job,
};

fn fit_task(task: &FitTask<'_>) -> Result<FittedModel> {
    task.refuse_refits_with_penalty()?;
    let (y, center, scale) = task.standardised()?;
    let epsilon = task.settings.number(EPSILON.name).unwrap_or(0.1);
    let estimator_with = |kernel: Kernel, c: f64, sample_weight: Option<Vec<f64>>| SupportVectorRegressor {
        sample_weight,
        tolerance: task.settings.number(TOL.name).unwrap_or(TOLERANCE),
        max_iterations: task.max_iter(),
        // Without a limit by the user, a fit that doesn't converge is an error.
        keep_unfinished: task.max_iter().is_some(),
        ..SupportVectorRegressor::new(kernel, c, epsilon)
    };
    let search = GridSearch { task, setting: "c", values: &C_GRID, default: Some(1.0) };
    let unit = if task.normalize_y() { ", in units of the standardised target," } else { "" };
    let chosen = search.regression(&Matrix::column_vector(y.clone()), unit, |kernel, c, weights, x, y| {
        Ok(estimator_with(kernel, c, weights).fit_until(x, y.data(), &task.stop)?.model)
    })?;
    let mut estimator = estimator_with(chosen.kernel, chosen.value, task.sample_weight.clone());
    estimator.penalty = task.penalty_for(&estimator.kernel)?.map(|penalty| penalty.in_units_of(scale));
    let fit = estimator.fit_until(task.x, &y, &task.stop)?;
    let mut model = fit.model;
    model.rescale(scale, center);
    let unit = CardEntry::measured("unit of the target", scale);
    let model = with_card_entries(model, std::iter::once(unit).chain(chosen.facts));
    let fitted = FittedModel {
        warnings: chosen.warnings,
        chosen: Some(estimator.c),
        support: Some(fit.support.clone()),
        ..model.into()
    };
    let fitted = fitted.stopped(fit.converged, vec![fit.iterations], UNCONVERGED_REMEDY);
    let weights = sample_weights(task.sample_weight.as_deref(), task.x)?;
    run_refits(task, fitted, fit.support, vec![positive_places(&weights)], scale, |counts| {
        let sample_weight = Some(products(&counts, &weights));
        let refit_estimator = SupportVectorRegressor { sample_weight, ..estimator.clone() };
        let fit = refit_estimator.fit_until(task.x, &y, &task.stop)?;
        Ok(BootstrapRefit::from_model(fit.support, fit.model, fit.converged))
    })
}

/// ε-insensitive support vector regression: `min ½‖f‖² + Σ_i c w_i max(0, |y_i - f(x_i) - b| - epsilon)`,
/// plus a further penalty if there is one.
#[derive(Debug, Clone)]
pub struct SupportVectorRegressor {
    /// The kernel.
    pub kernel: Kernel,
    /// The cost of an error, > 0.
    pub c: f64,
    /// Size up to which errors cost nothing, in the target's units. ≥ 0.
    pub epsilon: f64,
    /// One weight ≥ 0 per row; rows of weight 0 are left out. `None` for equal weights.
    pub sample_weight: Option<Vec<f64>>,
    /// The largest accepted violation of the optimality conditions, LIBSVM's `-e` (0.001 by default).
    pub tolerance: f64,
    /// Memory for working sets and their gram matrices in bytes, 200 MB by default: 3,500 rows of 100
    /// columns. A set has at least 64 rows in any case.
    pub cache_bytes: usize,
    /// Maximum number of steps; `None` for LIBSVM's rule, the larger of 10⁷ and 100 n.
    pub max_iterations: Option<usize>,
    /// Whether a fit that reaches `max_iterations` returns its model, with `converged` false, instead of an
    /// error.
    pub keep_unfinished: bool,
    /// Whether rows whose coefficients have probably converged are set aside. It changes the time, but not
    /// the optimum.
    pub shrinking: bool,
    /// A further penalty, for example on Shapley values. Its functionals have one row per row of positive
    /// weight, all of which become support points.
    pub penalty: Option<Penalty>,
}

/// A fitted support vector regression.
#[derive(Debug, Clone)]
pub struct SvrFit {
    /// The model. Its support points are the support vectors.
    pub model: KernelExpansion,
    /// Indices of the rows that are support vectors, ascending.
    pub support: Vec<usize>,
    /// Number of steps.
    pub iterations: usize,
    /// Whether the optimum was reached within the tolerance.
    pub converged: bool,
    /// Dual objective `½ βᵀKβ - yᵀβ + epsilon Σ|β|`.
    pub objective: f64,
}

impl SupportVectorRegressor {
    /// A regressor with equal weights and LIBSVM's tolerance.
    pub fn new(kernel: Kernel, c: f64, epsilon: f64) -> Self {
        Self {
            kernel,
            c,
            epsilon,
            sample_weight: None,
            tolerance: TOLERANCE,
            cache_bytes: CACHE_BYTES,
            max_iterations: None,
            keep_unfinished: false,
            shrinking: true,
            penalty: None,
        }
    }

    /// Fits to `y`, one number per row. Cost: between n times the support vectors and n³ kernel values,
    /// growing with `c`; memory at most `cache_bytes` and O(n d). If all targets lie within `epsilon` of a
    /// constant, the model has no support points.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`];
    /// [`Error::NotConverged`]; [`Error::Overflow`] if kernel values are not finite.
    pub fn fit(&self, x: &Table, y: &[f64]) -> Result<SvrFit> {
        self.fit_until(x, y, &AtomicBool::new(false))
    }

    /// Fits as [`fit`](Self::fit) does; [`Error::Interrupted`] soon after `stop` is set.
    fn fit_until(&self, x: &Table, y: &[f64], stop: &AtomicBool) -> Result<SvrFit> {
        check_rows(x, y.len(), 1)?;
        self.kernel.validate(x.width())?;
        positive("c", self.c)?;
        check_tolerance(self.tolerance)?;
        not_negative("epsilon", self.epsilon, "it must not be negative")?;
        check_finite(y, 1)?;
        let bounds = weighted_bounds(self.c, &sample_weights(self.sample_weight.as_deref(), x)?)?;
        let rows = positive_places(&bounds);
        if rows.is_empty() {
            return Err(Error::parameter("sample_weight", 0.0, "give at least one positive weight"));
        }
        let subset;
        let kept = if rows.len() == x.rows() {
            x
        } else {
            subset = x.select_rows(&rows);
            &subset
        };
        let settings = SolverSettings {
            tolerance: self.tolerance,
            cache_bytes: self.cache_bytes,
            max_iterations: self.max_iterations,
            keep_unfinished: self.keep_unfinished,
            shrinking: self.shrinking,
        };
        let solve_with = |kernel: &Kernel, x: &Table, offset: Option<&[f64]>| {
            let problem = Problem {
                kernel,
                x,
                linear: rows.iter().enumerate().map(|(i, &r)| offset.map_or(0.0, |o| o[i]) - y[r]).collect(),
                epsilon: self.epsilon,
                lower: rows.iter().map(|&r| -bounds[r]).collect(),
                upper: select(&bounds, &rows),
                start: vec![0.0; rows.len()],
                stop,
            };
            solve(problem, settings)
        };
        let (solution, beta) = match &self.penalty {
            None => {
                let mut solution = solve_with(&self.kernel, kept, None)?;
                let beta = std::mem::take(&mut solution.beta);
                (solution, beta)
            }
            Some(penalty) => {
                check_dense(rows.len(), 4.0, "")?;
                let loss = |predictions: &[f64], intercept: f64| {
                    let error = |(f, &r): (&f64, &usize)| {
                        bounds[r] * ((y[r] - f - intercept).abs() - self.epsilon).max(0.0)
                    };
                    predictions.iter().zip(&rows).map(error).sum::<f64>()
                };
                let (solution, coef) = penalty.fit(self.kernel.gram(kept), 0.5, loss, |penalised| {
                    let (linear, features) = penalised.as_linear()?;
                    let solution = solve_with(&linear, &features, Some(&penalised.offset))?;
                    let coef = Matrix::column_vector(solution.beta.clone());
                    Ok(DualFit { coef, intercept: solution.intercept, result: solution })
                })?;
                (solution, coef.into_data())
            }
        };
        let Solution { intercept, iterations, converged, objective, .. } = solution;
        let (support, coef) = support_vectors(x.rows(), &[(rows, beta)]);
        let mut model =
            KernelExpansion::new(self.kernel.clone(), x.select_rows(&support), coef, vec![intercept])?;
        model.model_card = vec![
            CardEntry::new("model", "support vector regression"),
            CardEntry::new("c", self.c),
            CardEntry::new("epsilon", self.epsilon),
            CardEntry::new("support vectors", format!("{} of {} rows", support.len(), x.rows())),
        ];
        model.model_card.extend(self.penalty.iter().flat_map(Penalty::facts));
        Ok(SvrFit { model, support, iterations, converged, objective })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_tube_needs_no_points() {
        let x = Table::from_rows(&[[0.0], [1.0], [2.0]]).unwrap();
        let fit = SupportVectorRegressor::new(Kernel::gaussian(&[1.0]), 1.0, 5.0).fit(&x, &[1.0, 2.0, 3.0]);
        let model = fit.unwrap().model;
        assert_eq!(model.support_points.rows(), 0);
        assert_eq!(model.predict(&x).unwrap().data(), [2.0; 3]);
    }

    #[test]
    fn weight_zero_leaves_rows_out() {
        let rows: Vec<[f64; 1]> = (0..20).map(|i| [i as f64 / 5.0]).collect();
        let x = Table::from_rows(&rows).unwrap();
        let y: Vec<f64> = rows.iter().map(|r| r[0].sin()).collect();
        let mut svr = SupportVectorRegressor::new(Kernel::gaussian(&[1.0]), 2.0, 0.05);
        let kept: Vec<usize> = (0..20).filter(|r| r % 3 != 0).collect();
        let reduced =
            svr.fit(&x.select_rows(&kept), &kept.iter().map(|&r| y[r]).collect::<Vec<_>>()).unwrap();
        svr.sample_weight = Some((0..20).map(|r| if r % 3 == 0 { 0.0 } else { 1.0 }).collect());
        let weighted = svr.fit(&x, &y).unwrap();
        assert_eq!(weighted.model.predict(&x).unwrap(), reduced.model.predict(&x).unwrap());
        assert!(weighted.support.iter().all(|r| r % 3 != 0));
    }
}
