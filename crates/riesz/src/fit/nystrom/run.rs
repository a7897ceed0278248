//! The whole fit, unit by unit, from wherever rows come and with whatever has been done before.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use super::newton::{Newton, Slope, Sloping};
use super::plan::{Choice, Model, Plan};
use super::process::{Learning, process};
use super::residual::{Coefficients, Residual};
use super::ridge::{Penalties, Solution};
use super::rows::Rows;
use super::statistics::{Accumulator, Statistics};
use super::survey::Survey;
use crate::error::{Error, Result};
use crate::explanation::Fact;
use crate::fit::KernelRidge;
use crate::fit::search::RIDGES;
use crate::fit::selection::{DEFAULT_MULTIPLIERS, default_ridges, select_ridge_until};
use crate::fit::task::{Fitted, Target, Task, noted};
use crate::kernel::Kernel;
use crate::stop::{Progress, Watch};
use crate::table::Column;

/// Rows in units of work, each of which can be read again.
pub trait Source {
    /// What can go wrong with reading.
    type Failure: From<Error>;

    /// Hands the rows of a unit on, in parts of any size.
    ///
    /// # Errors
    /// Its own, and those of `work`.
    fn read(&mut self, unit: u64, work: &mut dyn FnMut(&Rows) -> Result<()>) -> Result<(), Self::Failure>;
}

/// Where results of units are kept until all are there.
pub trait Store<F> {
    /// What was kept under this name.
    ///
    /// # Errors
    /// Those of reading.
    fn get(&mut self, name: &str) -> Result<Option<Vec<u8>>, F>;

    /// Keeps something, whole or not at all.
    ///
    /// # Errors
    /// Those of writing.
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), F>;
}

/// Keeps nothing.
pub struct Nowhere;

impl<F> Store<F> for Nowhere {
    fn get(&mut self, _: &str) -> Result<Option<Vec<u8>>, F> {
        Ok(None)
    }

    fn put(&mut self, _: &str, _: &[u8]) -> Result<(), F> {
        Ok(())
    }
}

/// What is to be fitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// How many landmarks, at most.
    pub landmarks: usize,
    /// The ridge; `None` for the best on held-out folds.
    pub ridge: Option<f64>,
    /// Folds of this choice.
    pub folds: usize,
    /// Whether there is a constant, which is not penalised.
    pub intercept: bool,
    /// Whether the kernel is kept; otherwise multiples of its length scales are tried on 2,000 rows of the sample, where the ridge is chosen too.
    pub fixed_kernel: bool,
    /// Passes over all rows that correct the solution and prove how near it is.
    pub corrections: usize,
    /// Of the sample, landmarks and folds.
    pub seed: u64,
    /// What is fitted.
    pub kind: Kind,
}

/// What is fitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Kernel ridge regression.
    Ridge,
    /// A Gaussian process.
    Process(Learning),
    /// Logistic regression of these two classes, whose target is 0 and 1; the ridge is given, or the one with the least log loss on folds of 1,000 rows.
    Classes {
        /// Their names.
        names: Vec<String>,
    },
}

impl Job {
    /// So many landmarks: the ridge by five folds, an intercept, one correction.
    pub fn new(landmarks: usize) -> Self {
        Self {
            landmarks,
            ridge: None,
            folds: 5,
            intercept: true,
            fixed_kernel: false,
            corrections: 1,
            seed: 0,
            kind: Kind::Ridge,
        }
    }

    fn choice(&self) -> Choice {
        let folds = if self.ridge.is_some() || self.kind != Kind::Ridge { 1 } else { self.folds };
        // Classes are 0 and 1, and have their middle.
        let centered = self.intercept || self.kind != Kind::Ridge;
        Choice { landmarks: self.landmarks, folds, centered, seed: self.seed }
    }

    /// An empty survey of rows with these features, so many targets, and weights or none.
    pub fn survey(&self, columns: &[Column], targets: usize, weighted: bool) -> Survey {
        Survey::new(columns, targets, weighted, self.choice().candidates(), self.seed)
    }

    /// The kernel that the fit is to have, tuned on the sample of a survey unless it is kept, and the prior of a Gaussian process.
    ///
    /// # Errors
    /// Those of the fits that are tried.
    pub fn tuned(&self, survey: &Survey, kernel: Kernel) -> Result<(Kernel, Model)> {
        match &self.kind {
            Kind::Ridge => Ok((self.of_ridge(survey, kernel)?, Model::Ridge)),
            Kind::Process(learning) => {
                let (kernel, prior) = learning.prior(&survey.sample()?, kernel, self.landmarks, self.seed)?;
                Ok((kernel, Model::Process(prior)))
            }
            Kind::Classes { names } => {
                let (kernel, ridge) = self.of_classes(survey, kernel, names)?;
                Ok((kernel, Model::Classes { ridge, names: names.clone() }))
            }
        }
    }

    fn of_classes(&self, survey: &Survey, kernel: Kernel, names: &[String]) -> Result<(Kernel, f64)> {
        let [_, _] = names else {
            let problem =
                format!("has {} classes, and logistic regression through landmarks takes two", names.len());
            return Err(Error::Target { name: "target".into(), problem });
        };
        if let Some(ridge) = self.ridge {
            return Ok((kernel, ridge));
        }
        let sample = survey.sample()?;
        let labels = sample.y.data().iter().map(|y| usize::from(*y > 0.0)).collect();
        let mut task = Task::new(&sample.x, Target::Classes { labels, classes: names.to_vec() }, kernel);
        (task.sample_weight, task.seed) = (sample.weights.clone(), self.seed);
        crate::fit::logistic_landmarks::chosen(&task, self.folds, self.fixed_kernel, self.intercept)
    }

    fn of_ridge(&self, survey: &Survey, kernel: Kernel) -> Result<Kernel> {
        if self.fixed_kernel || self.ridge.is_some() || kernel.with_lengthscales_times(1.0).is_none() {
            return Ok(kernel);
        }
        let sample = survey.sample()?;
        // They are in the order of their hashes: the first are a sample of the sample.
        let some: Vec<usize> = (0..sample.len().min(TUNED_ON)).collect();
        let start = KernelRidge { center: self.intercept, ..KernelRidge::new(kernel, 1.0) };
        let (x, y) = (sample.x.select_rows(&some), sample.y.select_rows(&some));
        let ridges = default_ridges();
        Ok(select_ridge_until(&start, &x, &y, &ridges, &DEFAULT_MULTIPLIERS, Watch::nobody())?.best.kernel)
    }

    /// The plan, from a survey of all rows.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn plan(&self, survey: &Survey, (kernel, model): (Kernel, Model)) -> Result<Plan> {
        Plan::new(survey, kernel, model, self.choice())
    }

    /// What is solved for.
    pub fn penalties(&self) -> Penalties {
        Penalties {
            ridges: self.ridge.map_or(RIDGES.to_vec(), |ridge| vec![ridge]),
            intercept: self.intercept,
        }
    }
}

/// Rows on which length scales are tuned.
const TUNED_ON: usize = 2000;

/// The statistics of a unit.
///
/// # Errors
/// Those of the source, and of [`Accumulator::add`].
pub fn statistics<S: Source>(
    source: &mut S,
    plan: &Plan,
    unit: u64,
    watch: &Heed,
) -> Result<Statistics, S::Failure> {
    let mut all = Accumulator::new(plan);
    source.read(unit, &mut |rows| {
        watch.step(rows.len() * watch.cost(plan))?;
        all.add(rows)
    })?;
    Ok(all.finish(unit))
}

/// What coefficients leave of a unit.
///
/// # Errors
/// Those of the source, and of [`Residual::add`].
pub fn residual<S: Source>(
    source: &mut S,
    plan: &Plan,
    coefficients: &Coefficients,
    unit: u64,
    watch: &Heed,
) -> Result<Residual, S::Failure> {
    let mut all = Residual::empty(plan, coefficients);
    source.read(unit, &mut |rows| {
        watch.step(rows.len() * COST)?;
        all.add(plan, coefficients, rows)
    })?;
    Ok(all.of_unit(unit))
}

/// Whether work is to go on, and how far it is.
#[derive(Debug, Clone, Default)]
pub struct Heed {
    /// Set to give up.
    pub stop: Arc<AtomicBool>,
    /// How far the work is.
    pub progress: Arc<Progress>,
}

/// What a row costs in a pass of predictions; the gram matrix costs more with the number of landmarks.
const COST: usize = 8;

impl Heed {
    fn cost(&self, plan: &Plan) -> usize {
        COST + plan.landmarks.rows() / 30
    }

    fn step(&self, work: usize) -> Result<()> {
        let watch = Watch { stop: &self.stop, progress: &self.progress };
        watch.check()?;
        watch.advance(work);
        Ok(())
    }
}

/// The names under which a [`Store`] keeps what.
pub mod names {
    /// The plan.
    pub const PLAN: &str = "plan.json";

    /// The statistics of a unit.
    pub fn statistics(unit: u64) -> String {
        format!("unit-{unit:05}.stat")
    }

    /// The slope of a unit, in a pass of Newton's method.
    pub fn slope(pass: usize, unit: u64) -> String {
        format!("slope-{pass}-unit-{unit:05}.part")
    }

    /// The coefficients that were solved for last.
    pub const COEFFICIENTS: &str = "coefficients.json";

    /// What coefficients leave of a unit.
    pub fn residual(coefficients: &super::Coefficients, unit: u64) -> String {
        format!("residual-{}-unit-{unit:05}.part", &coefficients.digest()[..12])
    }
}

/// What is learnt of the rows of some units, and of others beside.
trait Part: Sized {
    fn rows(&self) -> u64;
    fn join(&mut self, other: &Self) -> Result<()>;
    fn bytes(&self) -> Vec<u8>;
}

macro_rules! part {
    ($($part:ty),*) => {
        $(impl Part for $part {
            fn rows(&self) -> u64 {
                self.rows()
            }

            fn join(&mut self, other: &Self) -> Result<()> {
                self.merge(other)
            }

            fn bytes(&self) -> Vec<u8> {
                self.to_bytes()
            }
        })*
    };
}
part!(Statistics, Residual, Slope);

/// The parts of all units together: those that are kept, and those that are missing, which are made and kept. `cost` is that of a row.
fn together<P: Part, F: From<Error>>(
    store: &mut dyn Store<F>,
    units: u64,
    (watch, cost): (&Heed, usize),
    (name, read): (impl Fn(u64) -> String, impl Fn(&[u8]) -> Result<P>),
    mut make: impl FnMut(u64) -> Result<P, F>,
) -> Result<Option<P>, F> {
    let mut total: Option<P> = None;
    for unit in 0..units {
        let name = name(unit);
        let own = match store.get(&name)? {
            Some(bytes) => {
                let own = kept(&name, read(&bytes))?;
                watch.step(usize::try_from(own.rows()).unwrap_or(0) * cost)?;
                own
            }
            None => {
                let own = make(unit)?;
                store.put(&name, &own.bytes())?;
                own
            }
        };
        match &mut total {
            Some(total) => total.join(&own)?,
            None => total = Some(own),
        }
    }
    Ok(total)
}

/// All statistics: those that are kept, and those of the units that are missing.
///
/// # Errors
/// Those of the source and the store; [`Error::Format`] for a kept file of something else.
fn all_statistics<S: Source>(
    source: &mut S,
    store: &mut dyn Store<S::Failure>,
    plan: &Plan,
    units: u64,
    watch: &Heed,
) -> Result<Statistics, S::Failure> {
    let files = (names::statistics, |bytes: &[u8]| Statistics::from_bytes(plan, bytes));
    let make = |unit| statistics(source, plan, unit, watch);
    let total = together(store, units, (watch, watch.cost(plan)), files, make)?;
    Ok(total.unwrap_or_else(|| Statistics::empty(plan)))
}

/// What coefficients leave of all units: what is kept, and what is missing.
///
/// # Errors
/// As [`all_statistics`].
fn all_residuals<S: Source>(
    source: &mut S,
    store: &mut dyn Store<S::Failure>,
    plan: &Plan,
    coefficients: &Coefficients,
    units: u64,
    watch: &Heed,
) -> Result<Residual, S::Failure> {
    let name = |unit| names::residual(coefficients, unit);
    let files = (name, |bytes: &[u8]| Residual::from_bytes(plan, coefficients, bytes));
    let make = |unit| residual(source, plan, coefficients, unit, watch);
    let total = together(store, units, (watch, COST), files, make)?;
    Ok(total.unwrap_or_else(|| Residual::empty(plan, coefficients)))
}

fn kept<T>(name: &str, found: Result<T>) -> Result<T> {
    found.map_err(|error| match error {
        Error::Format { problem } => Error::Format { problem: format!("{name}: {problem}") },
        error => error,
    })
}

/// Statistics, solution and corrections by a plan.
///
/// # Errors
/// Those of the source and the store, of [`Solution::new`] and of [`process`]; [`Error::Format`] for a kept file of something else.
pub fn fit<S: Source>(
    source: &mut S,
    store: &mut dyn Store<S::Failure>,
    (job, plan): (&Job, &Plan),
    units: u64,
    watch: &Heed,
) -> Result<Fitted, S::Failure> {
    match &plan.model {
        Model::Ridge => Ok(fitted(&solved(source, store, (job, plan), units, watch)?)?),
        Model::Process(_) => {
            watch.progress.start(usize::try_from(plan.rows).unwrap_or(usize::MAX) * watch.cost(plan));
            let total = all_statistics(source, store, plan, units, watch)?;
            Ok(process(plan, &total)?)
        }
        Model::Classes { ridge, names } => {
            let newton = classified(source, store, (job, plan, *ridge), units, watch)?;
            let model = newton.model(names)?;
            Ok(Fitted { chosen: Some(*ridge), iterations: vec![newton.passes], ..model.into() })
        }
    }
}

/// Passes of Newton's method that are usual, for what is said of progress.
const USUAL_PASSES: usize = 8;

/// Logistic regression by a plan.
fn classified<S: Source>(
    source: &mut S,
    store: &mut dyn Store<S::Failure>,
    (job, plan, ridge): (&Job, &Plan, f64),
    units: u64,
    watch: &Heed,
) -> Result<Newton, S::Failure> {
    let each = usize::try_from(plan.rows).unwrap_or(usize::MAX).saturating_mul(watch.cost(plan));
    watch.progress.start(each.saturating_mul(USUAL_PASSES));
    let mut newton = Newton::new(plan, ridge, job.intercept)?;
    while !newton.converged {
        let coefficients = newton.coefficients.clone();
        let pass = newton.passes;
        let name = |unit| names::slope(pass, unit);
        let files = (name, |bytes: &[u8]| Slope::from_bytes(plan, &coefficients, bytes));
        let make = |unit| -> Result<Slope, S::Failure> {
            let mut all = Sloping::new(plan, &coefficients);
            source.read(unit, &mut |rows| {
                watch.step(rows.len() * watch.cost(plan))?;
                all.add(rows)
            })?;
            Ok(all.finish(unit))
        };
        let total = together(store, units, (watch, watch.cost(plan)), files, make)?;
        let total = total.unwrap_or_else(|| Slope::empty(plan, &coefficients));
        newton.step(&total)?;
    }
    Ok(newton)
}

/// Ridge regression by a plan.
fn solved<S: Source>(
    source: &mut S,
    store: &mut dyn Store<S::Failure>,
    (job, plan): (&Job, &Plan),
    units: u64,
    watch: &Heed,
) -> Result<Solution, S::Failure> {
    watch.progress.start(
        usize::try_from(plan.rows).unwrap_or(usize::MAX) * (watch.cost(plan) + job.corrections * COST),
    );
    let total = all_statistics(source, store, plan, units, watch)?;
    let mut solution = Solution::new(plan, &total, &job.penalties())?;
    drop(total);
    let mut passes = 0;
    while solution.wants_pass(job.corrections, passes) {
        let coefficients = solution.coefficients.clone();
        store.put(names::COEFFICIENTS, &coefficients.to_bytes())?;
        let left = all_residuals(source, store, plan, &coefficients, units, watch)?;
        solution.take(&left, job.corrections, passes)?;
        passes += 1;
    }
    Ok(solution)
}

/// Rows in memory, as one unit.
struct Whole(Rows);

impl Source for Whole {
    type Failure = Error;

    fn read(&mut self, _: u64, work: &mut dyn FnMut(&Rows) -> Result<()>) -> Result<()> {
        work(&self.0)
    }
}

/// The fit to rows in memory.
///
/// # Errors
/// Those of the estimator.
pub(crate) fn fit_rows(rows: Rows, kernel: Kernel, job: &Job, heed: &Heed) -> Result<Fitted> {
    let mut survey = job.survey(rows.x.columns(), rows.y.cols(), rows.weights.is_some());
    survey.add(&rows)?;
    kernel.validate(rows.x.width())?;
    let tuned = job.tuned(&survey, kernel)?;
    if !tuned.0.is_bounded() {
        survey.add_kernel(&tuned.0, &rows.x);
    }
    let plan = job.plan(&survey, tuned)?;
    fit(&mut Whole(rows), &mut Nowhere, (job, &plan), 1, heed)
}

/// What is to be said where rounding may have moved predictions by more than a hundredth of what they are off anyway.
fn rounded(solution: &Solution) -> Option<String> {
    solution.training_error()?;
    let remedy = "raise the ridge or take fewer landmarks, or more corrections";
    if solution.certificate().is_none() {
        return Some(format!(
            "landmarks are all but dependent, and nothing proves how far rounding moved the fit: {remedy}"
        ));
    }
    let (bound, error) = solution.wide()?;
    Some(format!(
        "rounding may have moved predictions by up to {bound:.1e}, where their own error is {error:.1e}: {remedy}"
    ))
}

/// What is known of a solution as of any fit.
///
/// # Errors
/// Those of an expansion.
pub fn fitted(solution: &Solution) -> Result<Fitted> {
    let mut facts: Vec<Fact> = Vec::new();
    let whole = solution.tried.iter().map(|t| t.landmarks).max().unwrap_or(0);
    let least = |landmarks: usize| {
        let own = solution.tried.iter().filter(|t| t.landmarks == landmarks).map(|t| t.error);
        own.fold(f64::INFINITY, f64::min)
    };
    let mut warnings = Vec::new();
    if whole >= 4 {
        let (half, all) = (least(whole / 2), least(whole));
        facts.push(Fact::measured("held-out mean squared error with half of the landmarks", half));
        if all < 0.99 * half {
            warnings.push(format!(
                "the last doubling of landmarks lowered the held-out error by {:.1} %: more would lower it further",
                100.0 * (1.0 - all / half)
            ));
        }
    }
    warnings.extend(rounded(solution));
    let model = noted(solution.model()?, facts);
    let covariance = solution.missing().map(|(_, covariance)| covariance.clone());
    Ok(Fitted { covariance, warnings, chosen: Some(solution.ridge), ..model.into() })
}
