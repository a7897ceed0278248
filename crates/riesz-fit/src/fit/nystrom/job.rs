//! The settings of a fit through landmarks, and the plan that follows from a survey of the rows.

use serde::{Deserialize, Serialize};

use super::equations::RidgeSpec;
use super::newton::start_of_classes;
use super::plan::{FitPlan, LandmarkChoice, LatentFunction, Model};
use super::process::GpTuning;
use super::ridge::RidgeSolution;
use super::rows::LabelledRows;
use super::statistics::Statistics;
use super::survey::DataSurvey;
use crate::error::{Error, Result};
use crate::fit::cross_validation::{DEFAULT_MULTIPLIERS, default_ridges, select_ridge};
use crate::fit::grid_search::RIDGES;
use crate::fit::task::{FitTask, Target};
use crate::fit::{GaussianProcessClassifier, KernelRidge};
use crate::kernel::Kernel;
use crate::table::Column;

/// Settings of a fit through landmarks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The maximum number of landmarks.
    pub landmarks: usize,
    /// The ridge; `None` chooses the one with the smallest error on held-out folds.
    pub ridge: Option<f64>,
    /// Number of folds for the choice of the ridge.
    pub folds: usize,
    /// Whether the model has a constant, which is not penalised.
    pub intercept: bool,
    /// Whether the kernel stays as given. Otherwise multiples of its length scales are compared on 2,000 rows
    /// of the sample, together with the ridge.
    pub fixed_kernel: bool,
    /// Number of passes over all rows that correct the solution and bound its error.
    pub corrections: usize,
    /// The solver of a ridge regression; `None` for the faster one at the given size.
    pub solver: Option<Solver>,
    /// Tolerance of conjugate gradients: the largest bound on the error of predictions at landmarks, relative
    /// to the root mean squared error.
    pub tolerance: f64,
    /// Seed of the sample, the landmarks and the folds.
    pub seed: u64,
    /// The kind of model.
    pub kind: Kind,
}

/// Solvers of a ridge regression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Solver {
    /// One pass that computes the statistics of all rows. Its cost and the size of stored results grow with
    /// the square of the number of landmarks.
    Direct,
    /// Preconditioned conjugate gradients: about twenty passes, the cost of each proportional to the number
    /// of landmarks.
    Cg,
}

/// Seconds of one multiplication in a gram matrix, and of one kernel value in a pass: a constant part, and a
/// part per column. They have the order of magnitude of processors of 2022. They are constants, so that the
/// choice of a solver is the same on any machine.
const PRODUCT: f64 = 2e-11;
const VALUE: (f64, f64) = (2.5e-9, 1e-10);
/// Number of decimal digits by which conjugate gradients reduce the residual.
const DIGITS: f64 = 6.5;
/// Numbers of sample rows per landmark with which conjugate gradients may start, and the number that a survey
/// keeps for them.
const STARTED_FROM: [usize; 5] = [3, 4, 6, 8, SAMPLED];
const SAMPLED: usize = 12;
/// Number of landmarks above which conjugate gradients may be faster.
const CG_MIN_LANDMARKS: usize = 3000;

/// Estimated cost of the direct solution, in seconds.
fn direct(rows: u64, landmarks: usize) -> f64 {
    let (n, m) = (rows as f64, landmarks as f64);
    (n * m * m + 2.3 * m.powi(3)) * PRODUCT
}

/// Estimated cost of conjugate gradients that start from a sample of `rows_per_landmark` rows per landmark,
/// in seconds: each step reduces the residual by about `√(landmarks / rows)`.
fn gradients(rows: u64, landmarks: usize, columns: usize, rows_per_landmark: usize) -> f64 {
    let (n, m, rows_per_landmark) = (rows as f64, landmarks as f64, rows_per_landmark as f64);
    let steps = 2.0 + DIGITS * std::f64::consts::LN_10 * 2.0 / rows_per_landmark.ln();
    steps * n * m * (VALUE.0 + VALUE.1 * columns as f64) + (rows_per_landmark + 0.7) * m.powi(3) * PRODUCT
}

/// The number of sample rows that conjugate gradients should start from, at most `sample`, and the cost.
fn start(rows: u64, landmarks: usize, columns: usize, sample: usize) -> (usize, f64) {
    let candidates = STARTED_FROM.into_iter().filter(|multiple| multiple * landmarks <= sample);
    let costs =
        candidates.map(|multiple| (multiple * landmarks, gradients(rows, landmarks, columns, multiple)));
    let whole_sample = (sample, f64::INFINITY);
    costs.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(whole_sample)
}

/// Tolerance of conjugate gradients from which on kernel values are computed by products: the rounding errors
/// of products are mostly smaller.
const QUICKLY: f64 = 1e-4;

/// Number of landmarks with which a ridge is chosen on the sample.
const CHOSEN_WITH: usize = 2000;

/// Kinds of model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Kernel ridge regression.
    Ridge,
    /// A Gaussian process.
    Process(GpTuning),
    /// Classification of two classes, whose targets are 0 and 1.
    Classes {
        /// Names of the classes.
        names: Vec<String>,
        /// The model that distinguishes the classes.
        #[serde(rename = "by")]
        classifier: Classifier,
    },
}

/// Models that distinguish two classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Classifier {
    /// Logistic regression. The ridge is given, or has the smallest log loss in cross-validation on 1,000
    /// rows.
    Regression,
    /// A Gaussian process with Laplace's approximation. The kernel maximises the evidence of 1,000 rows,
    /// unless it stays as given.
    Process {
        /// Number of further starting points.
        restarts: usize,
    },
}

impl Job {
    /// A fit with this number of landmarks, a ridge chosen by five-fold cross-validation, an intercept and
    /// one correction.
    pub fn new(landmarks: usize) -> Self {
        Self {
            landmarks,
            ridge: None,
            folds: 5,
            intercept: true,
            fixed_kernel: false,
            corrections: 1,
            solver: None,
            tolerance: 1e-3,
            seed: 0,
            kind: Kind::Ridge,
        }
    }

    fn choice(&self) -> LandmarkChoice {
        let folds = if self.ridge.is_some() || self.kind != Kind::Ridge { 1 } else { self.folds };
        // For classes the centre of the targets 0 and 1 is 1/2.
        let centered = self.intercept || self.kind != Kind::Ridge;
        LandmarkChoice { landmarks: self.landmarks, folds, centered, seed: self.seed }
    }

    /// An empty survey of rows with these features and number of targets, with or without weights.
    pub fn survey(&self, columns: &[Column], targets: usize, weighted: bool) -> DataSurvey {
        let by_gradients =
            self.solver.map_or(self.landmarks > CG_MIN_LANDMARKS, |solver| solver == Solver::Cg);
        let rows_to_solve =
            if by_gradients && self.kind == Kind::Ridge { self.landmarks.saturating_mul(SAMPLED) } else { 0 };
        DataSurvey::new(columns, targets, weighted, self.choice().candidates().max(rows_to_solve), self.seed)
    }

    /// The kernel of the fit and the prior of a Gaussian process. The kernel is tuned on the survey's sample,
    /// unless it stays as given.
    ///
    /// # Errors
    /// Those of the fits to the sample.
    pub fn tuned(&self, survey: &DataSurvey, kernel: Kernel) -> Result<(Kernel, Model)> {
        match &self.kind {
            Kind::Ridge => Ok((self.of_ridge(survey, kernel)?, Model::Ridge)),
            Kind::Process(learning) => {
                let (kernel, prior) = learning.prior(&survey.sample()?, kernel, self.landmarks, self.seed)?;
                Ok((kernel, Model::Process(prior)))
            }
            Kind::Classes { names, classifier: by } => {
                let [_, _] = names[..] else {
                    return Err(Error::target(
                        "target",
                        format!(
                            "has {} classes, but classification through landmarks takes two",
                            names.len()
                        ),
                    ));
                };
                let (kernel, latent_function) = match by {
                    Classifier::Regression => self.of_regression(survey, kernel, names)?,
                    Classifier::Process { restarts } => {
                        (self.of_process(survey, kernel, names, *restarts)?, LatentFunction::Process)
                    }
                };
                Ok((kernel, Model::Classes { names: names.clone(), latent_function, start: Vec::new() }))
            }
        }
    }

    fn of_regression(
        &self,
        survey: &DataSurvey,
        kernel: Kernel,
        names: &[String],
    ) -> Result<(Kernel, LatentFunction)> {
        if let Some(ridge) = self.ridge {
            return Ok((kernel, LatentFunction::Penalised(ridge)));
        }
        let sample = survey.sample()?;
        let target = Target::Classes { labels: labels(&sample), classes: names.to_vec() };
        let mut task = FitTask::new(&sample.x, target, kernel);
        (task.sample_weight, task.seed) = (sample.weights.clone(), self.seed);
        let (folds, fixed) = (self.folds, self.fixed_kernel);
        let (kernel, ridge) = crate::fit::klr::choose_for_landmarks(&task, folds, fixed, self.intercept)?;
        Ok((kernel, LatentFunction::Penalised(ridge)))
    }

    fn of_process(
        &self,
        survey: &DataSurvey,
        kernel: Kernel,
        names: &[String],
        restarts: usize,
    ) -> Result<Kernel> {
        if self.fixed_kernel {
            return Ok(kernel);
        }
        let sample = survey.sample()?.head(PROCESS_TUNED_ON);
        let labels = labels(&sample);
        if labels.iter().all(|label| *label == labels[0]) {
            let (only, rows) = (&names[labels[0]], sample.len());
            return Err(Error::target(
                "target",
                format!(
                    "is '{only}' in all {rows} rows on which the kernel is tuned: give the kernel and \
                     keep it fixed (fixed_kernel)"
                ),
            ));
        }
        let start =
            GaussianProcessClassifier { restarts, seed: self.seed, ..GaussianProcessClassifier::new(kernel) };
        Ok(start.fit(&sample.x, &labels, names)?.model.kernel)
    }

    fn of_ridge(&self, survey: &DataSurvey, kernel: Kernel) -> Result<Kernel> {
        if self.fixed_kernel || self.ridge.is_some() || kernel.with_length_scales_times(1.0).is_none() {
            return Ok(kernel);
        }
        // Rows are in the order of their hashes, so the first ones are a random part of the sample.
        let sample = survey.sample()?.head(TUNED_ON);
        let start = KernelRidge { center: self.intercept, ..KernelRidge::new(kernel, 1.0) };
        Ok(select_ridge(&start, &sample.x, &sample.y, &default_ridges(), &DEFAULT_MULTIPLIERS)?.best.kernel)
    }

    /// The plan of the fit, from a survey of all rows. Conjugate gradients use the given ridge, or the best
    /// one in cross-validation on the sample with at most 2,000 landmarks. Classification starts at the
    /// solution for the sample.
    ///
    /// # Errors
    /// Those of [`FitPlan::new`] and of the fits to the sample.
    pub fn plan(&self, survey: &DataSurvey, (kernel, model): (Kernel, Model)) -> Result<FitPlan> {
        let mut plan = FitPlan::new(survey, kernel, model, self.choice())?;
        let start_values = match plan.model {
            Model::Classes { .. } => start_of_classes(&plan, &survey.sample()?, self.intercept)?,
            _ => Vec::new(),
        };
        if let Model::Classes { start, .. } = &mut plan.model {
            *start = start_values;
        }
        if plan.model != Model::Ridge || self.solver == Some(Solver::Direct) {
            return Ok(plan);
        }
        let landmarks = plan.landmarks.rows();
        let (sampled, cost) = start(plan.rows, landmarks, plan.landmarks.width(), survey.sampled());
        if self.solver == Some(Solver::Cg) || cost < direct(plan.rows, landmarks) {
            let ridge = self.ridge.map_or_else(|| self.ridge_of_sample(survey, &plan), Ok)?;
            let quick = self.tolerance >= QUICKLY;
            plan.model = Model::Gradients { ridge, survey: survey.digest(), sampled, quick };
            plan.folds = 1;
        }
        Ok(plan)
    }

    fn ridge_of_sample(&self, survey: &DataSurvey, plan: &FitPlan) -> Result<f64> {
        let mut small_plan = plan.clone();
        small_plan.landmarks = plan.landmarks.head(CHOSEN_WITH);
        let statistics = Statistics::from_rows(&small_plan, &survey.sample()?, 0)?;
        Ok(RidgeSolution::new(&small_plan, statistics, &self.penalties())?.ridge)
    }

    /// The ridges to solve for, and the intercept.
    pub fn penalties(&self) -> RidgeSpec {
        RidgeSpec {
            ridges: self.ridge.map_or(RIDGES.to_vec(), |ridge| vec![ridge]),
            intercept: self.intercept,
        }
    }
}

/// Number of rows on which length scales are tuned.
const TUNED_ON: usize = 2000;
/// Number of rows on which the kernel of a Gaussian process classifier is tuned: the evidence takes about ten
/// times as long.
const PROCESS_TUNED_ON: usize = 1000;

/// Classes of rows whose target is 0 or 1.
pub(super) fn labels(rows: &LabelledRows) -> Vec<usize> {
    rows.y.data().iter().map(|y| usize::from(*y > 0.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few landmarks are solved for directly, and many by conjugate gradients. Their starting sample grows
    /// with the number of rows; a small sample is used as a whole.
    #[test]
    fn the_cheaper_solver_is_chosen() {
        let by_gradients = |rows: u64, landmarks: usize| start(rows, landmarks, 18, SAMPLED * landmarks);
        for (rows, landmarks, expected) in [
            (100_000, 2000, false),
            (10_000_000, 2000, false),
            (1_000_000, 10_000, true),
            (10_000_000, 20_000, true),
        ] {
            assert_eq!(
                by_gradients(rows, landmarks).1 < direct(rows, landmarks),
                expected,
                "{rows} {landmarks}"
            );
        }
        let from = |rows: u64| by_gradients(rows, 20_000).0;
        assert!(from(200_000) < from(10_000_000) && from(10_000_000) == 240_000);
        assert_eq!(start(5000, 2000, 3, 5000).0, 5000);
        assert_eq!(start(50_000, 2000, 3, 7000).0, 6000);
        let survey = |job: &Job| job.survey(&[Column::numeric("x")], 1, false);
        let survey_of =
            |landmarks: usize, solver: Option<Solver>| survey(&Job { solver, ..Job::new(landmarks) });
        assert!(
            survey_of(4000, None) != survey_of(4000, Some(Solver::Direct))
                && survey_of(4000, None) == survey_of(4000, Some(Solver::Cg))
        );
        assert!(survey_of(1000, None) == survey_of(1000, Some(Solver::Direct)));
    }
}
