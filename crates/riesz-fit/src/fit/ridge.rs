//! Kernel ridge regression (Saunders, Gammerman and Vovk 1998), with leave-one-out in closed form.

use std::sync::atomic::AtomicBool;

use super::bootstrap::{BOOTSTRAP, bootstrap_fact};
use super::cross_validation::{DEFAULT_MULTIPLIERS, default_ridges, select_ridge_until};
use super::grid_search::{GridSearch, RIDGES};
use super::jackknife::JACKKNIFE;
use super::nystrom::{Job, Solver};
use super::task::{
    AUTO, CORRECTIONS, FIT_INTERCEPT, FIXED_KERNEL, FOLDS, FitTask, FittedModel, LANDMARKS, ModelKind,
    OptionalInput, OutputType, RIDGE, SEARCH_ROWS, SOLVER, TOLERANCE, with_card_entries,
};
use super::through_landmarks;
use super::{DualFit, Penalty};
use crate::control::{RunControl, check_cancelled};
use crate::error::{Error, Result, unused};
use crate::kernel::Kernel;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Cholesky, Matrix, symmetric_eigen};
use crate::model_card::CardEntry;
use crate::setting_schema::SettingValues;
use crate::table::Table;

/// Kernel ridge regression as a kind of model. Its ridge is chosen by leave-one-out, or by cross-validation
/// if the number of folds is set.
pub(super) static KIND: ModelKind = ModelKind {
    name: "krr",
    help: "Kernel ridge regression, one or several targets",
    predicts: OutputType::Numbers,
    settings: &[
        &RIDGE,
        &LANDMARKS,
        &CORRECTIONS,
        &SOLVER,
        &TOLERANCE,
        &FOLDS,
        &SEARCH_ROWS,
        &FIXED_KERNEL,
        &FIT_INTERCEPT,
        &BOOTSTRAP,
        &JACKKNIFE,
    ],
    takes: &[OptionalInput::SampleWeight, OptionalInput::Penalty],
    posterior: false,
    fit: fit_task,
    job: landmark_job,
};

/// Maximum number of rows for the leave-one-out error, unless the setting `search_rows` is given.
const ROWS_OF_LEAVE_ONE_OUT: usize = 2000;

/// Minimum number of rows of a first search over all multiples of the length scales.
const MIN_ROWS_OF_FIRST_SEARCH: usize = 250;

fn fit_task(task: &FitTask<'_>) -> Result<FittedModel> {
    let y = task.numbers()?;
    let estimator_with = |kernel: Kernel, ridge: f64, sample_weight: Option<Vec<f64>>| KernelRidge {
        sample_weight,
        center: task.settings.switch(FIT_INTERCEPT.name).unwrap_or(true),
        ..KernelRidge::new(kernel, ridge)
    };
    let search = GridSearch { task, setting: "ridge", values: &RIDGES, default: None };
    if let Some(job) = landmark_job(&task.settings, task.seed)? {
        return through_landmarks::fit(task, y.clone(), &job);
    }
    let (mut estimator, mut facts, warnings);
    if search.fixed_value().is_some() || task.settings.get(FOLDS.name).is_some() {
        let chosen = search.regression(y, "", |kernel, ridge, w, x, y| {
            Ok(estimator_with(kernel, ridge, w).fit_until(x, y, &task.stop)?.model)
        })?;
        estimator = estimator_with(chosen.kernel, chosen.value, task.sample_weight.clone());
        (facts, warnings) = (chosen.facts, chosen.warnings);
    } else {
        if task.sample_weight.is_some() {
            let allowed = "the leave-one-out error has no sample_weight: set folds, or the ridge to a number";
            return Err(Error::parameter(RIDGE.name, AUTO, allowed));
        }
        let multiples = if task.fixed_kernel() { &[1.0][..] } else { &DEFAULT_MULTIPLIERS };
        let start = estimator_with(task.kernel.clone(), 1.0, None);
        crate::checks::check_rows(task.x, y.rows(), 2)?;
        let sample = search.drawn(ROWS_OF_LEAVE_ONE_OUT, None);
        let (x, targets) = (&sample.x, &y.select_rows(&sample.rows));
        let grid = (&default_ridges()[..], multiples);
        // Where an eigendecomposition is slow, a quarter of the rows shows which multiple to try first.
        let few_rows: Vec<usize> = (0..x.rows()).step_by(4).collect();
        let first = (multiples.len() > 1 && few_rows.len() >= MIN_ROWS_OF_FIRST_SEARCH).then(|| {
            let (x, targets) = (&x.select_rows(&few_rows), &targets.select_rows(&few_rows));
            let control = RunControl { stop: &task.stop, ..RunControl::none() };
            Ok(select_ridge_until(&start, x, targets, grid, None, control)?.chosen.0)
        });
        let first = first.transpose()?;
        // An eigendecomposition takes about ten times as long as a factorisation of the same size.
        let factorisation_steps = (0.1 * (task.x.rows() as f64 / x.rows() as f64).powi(3)).ceil() as usize;
        let scales = if multiples.len() > 1 { " and length scales" } else { "" };
        task.progress
            .start_stage(format!("choosing the ridge{scales}"), multiples.len() + factorisation_steps);
        let selection = select_ridge_until(&start, x, targets, grid, first, task.control())?;
        let multiple = selection.axes[0].values[selection.chosen.0];
        let several = selection.axes[0].values.len() > 1;
        facts = Vec::from_iter(several.then(|| CardEntry::new("multiple of the length scales", multiple)));
        facts.push(CardEntry::new("chosen by", format!("leave-one-out{}", search.describe_rows(&sample))));
        (estimator, warnings) = (selection.best, selection.at_grid_edge);
        task.progress.start_stage("fitting to all rows", 0);
    }
    estimator.penalty = task.penalty_for(&estimator.kernel)?;
    let fit = estimator.fit_until(task.x, y, &task.stop)?;
    check_cancelled(&task.stop)?;
    facts.insert(0, CardEntry::measured("leave-one-out mean squared error", fit.loo_error()));
    let draws = task.settings.count(BOOTSTRAP.name);
    let jackknife = task.settings.switch(JACKKNIFE.name).unwrap_or(false);
    let covariance = match (draws, jackknife) {
        (None, false) => None,
        (None, true) => Some(estimator.jackknife_until(task.x, y, task.control())?),
        (Some(draws), false) => {
            task.progress.start_stage("refitting to bootstrap samples", draws);
            facts.push(bootstrap_fact(draws, task.seed));
            Some(estimator.bootstrap_until(task.x, y, draws, task.seed, task.control())?)
        }
        (Some(draws), true) => {
            let allowed = "the jackknife estimates the same by other refits: leave one of the two out";
            return Err(Error::parameter(BOOTSTRAP.name, draws, allowed));
        }
    };
    Ok(FittedModel {
        covariance,
        warnings,
        chosen: Some(estimator.ridge),
        ..with_card_entries(fit.model, facts).into()
    })
}

/// The job of a fit through landmarks; `None` if the settings don't request one.
fn landmark_job(settings: &SettingValues, seed: u64) -> Result<Option<Job>> {
    let job = through_landmarks::job(settings, seed, &[SEARCH_ROWS.name, BOOTSTRAP.name, JACKKNIFE.name])?;
    let absent = |names: &[&'static str], belongs: &str| {
        let given_name = names.iter().find(|name| settings.get(name).is_some());
        given_name.map_or(Ok(()), |name| Err(unused(name, belongs)))
    };
    let Some(job) = job else {
        absent(&[CORRECTIONS.name, SOLVER.name, TOLERANCE.name], "fits through landmarks")?;
        return Ok(None);
    };
    let solver = match settings.get(SOLVER.name).and_then(|name| name.as_str()) {
        Some("direct") => {
            absent(&[TOLERANCE.name], "the solver 'cg'")?;
            Some(Solver::Direct)
        }
        Some("cg") => {
            absent(&[CORRECTIONS.name], "the solver 'direct'")?;
            Some(Solver::Cg)
        }
        _ => None,
    };
    let corrections = settings.count(CORRECTIONS.name).unwrap_or(job.corrections);
    let tolerance = settings.number(TOLERANCE.name).unwrap_or(job.tolerance);
    Ok(Some(Job { corrections, solver, tolerance, ..job }))
}

/// Kernel ridge regression: `min_f Σ_i w_i (y_i - f(x_i) - b)² + ridge ‖f‖²`, for one or several targets.
#[derive(Debug, Clone)]
pub struct KernelRidge {
    /// The kernel.
    pub kernel: Kernel,
    /// The penalty, > 0, which is added to the diagonal of the gram matrix (scikit-learn's `alpha`).
    pub ridge: f64,
    /// Whether the (weighted) mean is subtracted from the targets; it becomes the intercept.
    pub center: bool,
    /// One positive weight per row; `None` for equal weights.
    pub sample_weight: Option<Vec<f64>>,
    /// A further penalty, for example on Shapley values.
    pub penalty: Option<Penalty>,
}

/// A fitted ridge regression.
#[derive(Debug, Clone)]
pub struct RidgeFit {
    /// The model.
    pub model: KernelExpansion,
    /// The Cholesky factor of the gram matrix plus ridge; with a further penalty, of the penalised gram
    /// matrix.
    pub factor: Cholesky,
    /// The coefficients for this gram matrix, rows × targets. Without a further penalty they are the model's.
    pub dual_coef: Matrix,
    /// Jitter that was added to the diagonal beyond the ridge.
    pub jitter: f64,
}

impl RidgeFit {
    /// Mean squared leave-one-out error over rows and targets, with the intercept held fixed, from the
    /// diagonal of the inverse (Rifkin and Lippert 2007). Cost 2n³/3, twice the cost of the fit.
    pub fn loo_error(&self) -> f64 {
        let inverse = self.factor.inverse();
        mean_square(&self.dual_coef, |i| inverse[(i, i)])
    }
}

impl KernelRidge {
    /// Kernel ridge regression with centered targets and equal weights.
    pub fn new(kernel: Kernel, ridge: f64) -> Self {
        Self { kernel, ridge, center: true, sample_weight: None, penalty: None }
    }

    /// Fits to `y` (n × targets). Cost n³/3, and O(n² d) for the gram matrix.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Shape`], [`Error::TooFew`], [`Error::NotPositiveDefinite`].
    pub fn fit(&self, x: &Table, y: &Matrix) -> Result<RidgeFit> {
        self.fit_until(x, y, &AtomicBool::new(false))
    }

    /// [`fit`](Self::fit) that returns [`Error::Interrupted`] soon after `stop` is set.
    pub(super) fn fit_until(&self, x: &Table, y: &Matrix, stop: &AtomicBool) -> Result<RidgeFit> {
        self.check(x, y)?;
        // The gram matrix is factored in place.
        super::check_dense(x.rows(), 1.2, super::THROUGH_LANDMARKS)?;
        check_cancelled(stop)?;
        let (targets, intercept) = self.centered(y);
        let solve = |mut gram: Matrix, targets: Matrix| {
            check_cancelled(stop)?;
            gram.add_diagonal(|i| self.ridge / self.weight(i));
            let factor = Cholesky::new(gram, "gram matrix plus ridge")?;
            let dual_coef = factor.solve(targets);
            Ok((factor, dual_coef))
        };
        let loss = |predictions: &[f64], _| {
            let error = |(i, f): (usize, &f64)| self.weight(i) * (targets[(i, 0)] - f).powi(2);
            predictions.iter().enumerate().map(error).sum::<f64>()
        };
        let gram = self.kernel.gram(x);
        let ((factor, dual_coef), coef) = match &self.penalty {
            None => {
                let (factor, coef) = solve(gram, targets.clone())?;
                ((factor, coef.clone()), coef)
            }
            Some(penalty) => penalty.fit(gram, self.ridge, loss, |penalised| {
                let mut targets = targets.clone();
                targets.add_outer(penalised.offset.iter().map(|offset| -offset), &vec![1.0; targets.cols()]);
                let (factor, dual_coef) = solve(penalised.gram(), targets)?;
                Ok(DualFit { coef: dual_coef.clone(), result: (factor, dual_coef), intercept: 0.0 })
            })?,
        };
        let jitter = factor.jitter;
        let mut model = KernelExpansion::new(self.kernel.clone(), x.clone(), coef, intercept)?;
        model.model_card = vec![
            CardEntry::new("model", "kernel ridge regression"),
            CardEntry::measured("ridge", self.ridge),
            CardEntry::measured("jitter", jitter),
        ];
        if let Some(penalty) = &self.penalty {
            model.model_card.extend(penalty.facts());
        }
        Ok(RidgeFit { model, factor, dual_coef, jitter })
    }

    /// Mean squared leave-one-out error for each of `ridges`, from one eigendecomposition of the gram matrix
    /// (Rifkin and Lippert 2007). Cost O(n³) once and O(n²) per ridge. Sample weights are not supported.
    ///
    /// # Errors
    /// Those of [`fit`](Self::fit), and [`Error::Parameter`] for sample weights or a further penalty.
    pub fn loo_path(&self, x: &Table, y: &Matrix, ridges: &[f64]) -> Result<Vec<f64>> {
        self.check(x, y)?;
        for (name, is_given) in
            [("sample_weight", self.sample_weight.is_some()), ("penalty", self.penalty.is_some())]
        {
            if is_given {
                let allowed = "the leave-one-out path needs equal weights and no further penalty";
                return Err(Error::parameter(name, "given", allowed));
            }
        }
        let (targets, _) = self.centered(y);
        let (values, vectors) = symmetric_eigen(&self.kernel.gram(x))?;
        let rotated = vectors.transpose().matmul(&targets);
        let n = x.rows();
        Ok(ridges
            .iter()
            .map(|ridge| {
                // Rounding may make eigenvalues negative.
                let inverse: Vec<f64> = values.iter().map(|v| 1.0 / (v.max(0.0) + ridge)).collect();
                let mut scaled = rotated.clone();
                scaled.scale_rows(inverse.iter().copied());
                let coef = vectors.matmul(&scaled);
                let diagonal: Vec<f64> = (0..n)
                    .map(|i| vectors.row(i).iter().zip(&inverse).map(|(v, w)| v * v * w).sum())
                    .collect();
                mean_square(&coef, |i| diagonal[i])
            })
            .collect())
    }

    pub(super) fn check(&self, x: &Table, y: &Matrix) -> Result<()> {
        crate::checks::check_rows(x, y.rows(), 2)?;
        self.kernel.validate(x.width())?;
        crate::checks::positive("ridge", self.ridge)?;
        crate::checks::check_targets(y)?;
        crate::checks::check_positive_weights(x, self.sample_weight.as_deref(), 2)
    }

    pub(super) fn weight(&self, i: usize) -> f64 {
        self.sample_weight.as_ref().map_or(1.0, |w| w[i])
    }

    pub(super) fn centered(&self, y: &Matrix) -> (Matrix, Vec<f64>) {
        let total: f64 = (0..y.rows()).map(|i| self.weight(i)).sum();
        let mean = |o: usize| (0..y.rows()).map(|i| y[(i, o)] * (self.weight(i) / total)).sum::<f64>();
        let intercept: Vec<f64> = (0..y.cols()).map(|o| if self.center { mean(o) } else { 0.0 }).collect();
        let mut targets = y.clone();
        targets.add_outer(std::iter::repeat(-1.0), &intercept);
        (targets, intercept)
    }
}

fn mean_square(coef: &Matrix, diagonal: impl Fn(usize) -> f64) -> f64 {
    let square = |k: usize| (coef.data()[k] / diagonal(k / coef.cols())).powi(2);
    (0..coef.data().len()).map(square).sum::<f64>() / coef.data().len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> (Table, Matrix) {
        let rows: Vec<[f64; 2]> =
            (0..30).map(|i| [(i as f64 * 0.7).sin() * 2.0, (i as f64 * 0.3).cos()]).collect();
        let y = rows.iter().flat_map(|r| [r[0] * r[1] + 3.0, r[0] - r[1]]).collect();
        (Table::from_rows(&rows).unwrap(), Matrix::from_row_major(30, 2, y))
    }

    #[test]
    fn too_many_rows_for_the_memory_are_refused() {
        let x = Table::from_rows(&(0..400_000).map(|i| [f64::from(i)]).collect::<Vec<_>>()).unwrap();
        let y = Matrix::column_vector(vec![0.0; 400_000]);
        let error = KernelRidge::new(Kernel::gaussian(&[1.0]), 1.0).fit(&x, &y).unwrap_err().to_string();
        assert!(
            error.starts_with("number of rows = 400000") && error.contains("--landmarks 2000"),
            "{error}"
        );
    }

    #[test]
    fn leave_one_out_is_refitting() {
        let (x, y) = data();
        let mut estimator = KernelRidge::new(Kernel::gaussian(&[1.0, 0.7]), 0.3);
        estimator.center = false;
        let fast = estimator.fit(&x, &y).unwrap().loo_error();
        let mut slow = 0.0;
        for i in 0..30 {
            let kept: Vec<usize> = (0..30).filter(|&k| k != i).collect();
            let targets = kept.iter().flat_map(|&k| y.row(k).to_vec()).collect();
            let model =
                estimator.fit(&x.select_rows(&kept), &Matrix::from_row_major(29, 2, targets)).unwrap().model;
            let predicted = model.predict(&x.select_rows(&[i])).unwrap();
            slow += (0..2).map(|o| (predicted[(0, o)] - y[(i, o)]).powi(2)).sum::<f64>();
        }
        assert!((fast - slow / 60.0).abs() < 1e-12 * slow, "{fast} {}", slow / 60.0);
        let path = estimator.loo_path(&x, &y, &[0.1, 0.3]).unwrap();
        assert!((path[1] - fast).abs() < 1e-9 * fast);
    }

    #[test]
    fn integer_weights_are_repeated_rows() {
        let (x, y) = data();
        let mut estimator = KernelRidge::new(Kernel::gaussian(&[1.0, 0.7]), 0.3);
        estimator.sample_weight = Some((0..30).map(|i| if i < 5 { 2.0 } else { 1.0 }).collect());
        let weighted = estimator.fit(&x, &y).unwrap().model.predict(&x).unwrap();
        let repeated: Vec<usize> = (0..30).chain(0..5).collect();
        let targets = repeated.iter().flat_map(|&k| y.row(k).to_vec()).collect();
        estimator.sample_weight = None;
        let fit = estimator.fit(&x.select_rows(&repeated), &Matrix::from_row_major(35, 2, targets)).unwrap();
        let plain = fit.model.predict(&x).unwrap();
        assert!(weighted.data().iter().zip(plain.data()).all(|(a, b)| (a - b).abs() < 1e-10));
    }
}
