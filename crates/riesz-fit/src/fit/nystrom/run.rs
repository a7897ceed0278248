//! The whole fit, unit by unit, from any source of rows and with any stored results.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::coefficients::Coefficients;
use super::fitting::{FitState, InitialData, InitialInput};
use super::job::Job;
use super::pass::{DataPass, PassBuilder};
use super::plan::{FitPlan, Model};
use super::rows::LabelledRows;
use super::statistics::{Accumulator, Statistics};
use super::survey::DataSurvey;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::fit::task::FittedModel;
use crate::kernel::Kernel;

/// A source of rows in units of work, each of which can be read repeatedly.
pub trait RowSource {
    /// The error of reading.
    type Failure: From<Error>;

    /// Passes the rows of a unit to `work`, in parts of any size.
    ///
    /// # Errors
    /// Those of the source and of `work`.
    fn read(
        &mut self,
        unit: u64,
        work: &mut dyn FnMut(&LabelledRows) -> Result<()>,
    ) -> Result<(), Self::Failure>;
}

/// A store of results of units, where they remain until the fit is complete.
pub trait ResultStore<F> {
    /// The stored result with this name.
    ///
    /// # Errors
    /// Errors of reading.
    fn get(&mut self, name: &str) -> Result<Option<Vec<u8>>, F>;

    /// Stores the bytes completely or not at all.
    ///
    /// # Errors
    /// Errors of writing.
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), F>;
}

/// A store that keeps nothing.
pub struct NoStore;

impl<F> ResultStore<F> for NoStore {
    fn get(&mut self, _: &str) -> Result<Option<Vec<u8>>, F> {
        Ok(None)
    }

    fn put(&mut self, _: &str, _: &[u8]) -> Result<(), F> {
        Ok(())
    }
}

/// The statistics of a unit.
///
/// # Errors
/// Those of the source, and of [`Accumulator::add`].
pub fn statistics<S: RowSource>(
    source: &mut S,
    plan: &FitPlan,
    unit: u64,
    control: &FitControl,
) -> Result<Statistics, S::Failure> {
    let mut accumulator = Accumulator::new(plan);
    source.read(unit, &mut |rows| {
        control.step(rows.len() * gram_cost(plan))?;
        accumulator.add(rows)
    })?;
    Ok(accumulator.finish(unit))
}

/// The result of a pass over one unit at given coefficients.
///
/// # Errors
/// Those of the source, and of [`PassBuilder::add`].
pub fn pass<S: RowSource>(
    source: &mut S,
    plan: &FitPlan,
    coefficients: &Coefficients,
    unit: u64,
    control: &FitControl,
) -> Result<DataPass, S::Failure> {
    let mut builder = PassBuilder::new(plan, coefficients);
    source.read(unit, &mut |rows| {
        control.step(rows.len() * pass_cost(plan, coefficients))?;
        builder.add(rows)
    })?;
    Ok(builder.finish(unit))
}

/// Cancellation and progress of a fit.
#[derive(Debug, Clone, Default)]
pub struct FitControl {
    /// Set to `true` to cancel.
    pub stop: Arc<AtomicBool>,
    /// Progress of the work.
    pub progress: Arc<Progress>,
}

/// Relative cost of a row in a pass without a gram matrix.
const COST: usize = 8;

/// Relative cost of a row in a pass with a gram matrix, which grows with the number of landmarks.
fn gram_cost(plan: &FitPlan) -> usize {
    COST + plan.landmarks.rows() / 30
}

/// Relative cost of a row in a pass at these coefficients.
fn pass_cost(plan: &FitPlan, coefficients: &Coefficients) -> usize {
    if coefficients.curvature { gram_cost(plan) } else { COST }
}

/// The usual numbers of passes over all rows, with and without a gram matrix, for the given number of
/// corrections. They serve for estimates of time.
pub fn expected_passes(plan: &FitPlan, corrections: usize) -> (usize, usize) {
    match plan.model {
        Model::Ridge => (1, corrections),
        Model::Process(_) => (1, 0),
        Model::Gradients { .. } => (0, 20),
        Model::Classes { .. } => (2, 6),
    }
}

impl FitControl {
    fn step(&self, work: usize) -> Result<()> {
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        control.check_cancelled()?;
        control.steps(work);
        Ok(())
    }
}

/// The names of results in a [`ResultStore`].
pub mod names {
    /// The plan.
    pub const PLAN: &str = "plan.json";

    /// The survey, if the fit starts from one.
    pub const SURVEY: &str = "survey.bin";

    /// The statistics of a unit.
    pub fn statistics(unit: u64) -> String {
        format!("unit-{unit:05}.stat")
    }

    /// The coefficients of the last requested pass.
    pub const COEFFICIENTS: &str = "coefficients.json";

    /// The name of the pass over a unit at given coefficients.
    pub fn pass(coefficients: &super::Coefficients, unit: u64) -> String {
        format!("pass-{}-unit-{unit:05}.part", &coefficients.digest()[..12])
    }
}

/// The operations on results of a kind: the number of rows, merging, and the bytes of a file.
type Operations<P> = (fn(&P) -> u64, fn(&mut P, &P) -> Result<()>, fn(&P) -> Vec<u8>);

/// The merged result of all units. Stored results are read; missing ones are computed and stored. `cost` is
/// the relative cost of a row.
fn combine_units<P, F: From<Error>>(
    store: &mut dyn ResultStore<F>,
    units: u64,
    (control, cost): (&FitControl, usize),
    (name, read): (impl Fn(u64) -> String, impl Fn(&[u8]) -> Result<P>),
    (rows, merge, to_bytes): Operations<P>,
    mut make: impl FnMut(u64) -> Result<P, F>,
) -> Result<Option<P>, F> {
    let mut total: Option<P> = None;
    for unit in 0..units {
        let name = name(unit);
        let unit_result = match store.get(&name)? {
            Some(bytes) => {
                let unit_result = load_stored(&name, read(&bytes))?;
                control.step(usize::try_from(rows(&unit_result)).unwrap_or(0) * cost)?;
                unit_result
            }
            None => {
                let unit_result = make(unit)?;
                store.put(&name, &to_bytes(&unit_result))?;
                unit_result
            }
        };
        match &mut total {
            Some(total) => merge(total, &unit_result)?,
            None => total = Some(unit_result),
        }
    }
    Ok(total)
}

/// Statistics of all rows. Stored ones are read; missing ones are computed.
fn all_statistics<S: RowSource>(
    source: &mut S,
    store: &mut dyn ResultStore<S::Failure>,
    plan: &FitPlan,
    units: u64,
    control: &FitControl,
) -> Result<Statistics, S::Failure> {
    let files = (names::statistics, |bytes: &[u8]| Statistics::from_bytes(plan, bytes));
    let make = |unit| statistics(source, plan, unit, control);
    let operations: Operations<_> = (Statistics::rows, Statistics::merge, Statistics::to_bytes);
    let total = combine_units(store, units, (control, gram_cost(plan)), files, operations, make)?;
    Ok(total.unwrap_or_else(|| Statistics::empty(plan)))
}

/// The passes over all units. Stored ones are read; missing ones are computed.
fn all_passes<S: RowSource>(
    source: &mut S,
    store: &mut dyn ResultStore<S::Failure>,
    plan: &FitPlan,
    coefficients: &Coefficients,
    units: u64,
    control: &FitControl,
) -> Result<DataPass, S::Failure> {
    let name = |unit| names::pass(coefficients, unit);
    let files = (name, |bytes: &[u8]| DataPass::from_bytes(plan, coefficients, bytes));
    let make = |unit| pass(source, plan, coefficients, unit, control);
    let cost = pass_cost(plan, coefficients);
    let operations: Operations<_> = (DataPass::rows, DataPass::merge, DataPass::to_bytes);
    let total = combine_units(store, units, (control, cost), files, operations, make)?;
    Ok(total.unwrap_or_else(|| DataPass::empty(plan, coefficients)))
}

fn load_stored<T>(name: &str, decoded: Result<T>) -> Result<T> {
    decoded.map_err(|error| match error {
        Error::Format { problem } => Error::format(format!("{name}: {problem}")),
        error => error,
    })
}

/// Reads the survey from which a fit by conjugate gradients starts.
///
/// # Errors
/// Those of the store; [`Error::Format`] if the survey is missing or damaged.
pub fn kept_survey<F: From<Error>>(store: &mut dyn ResultStore<F>) -> Result<DataSurvey, F> {
    let name = names::SURVEY;
    let unreadable = |state: &str| Error::format(format!("{name} is {state}: start again in another folder"));
    let bytes = store.get(name)?.ok_or_else(|| unreadable("missing"))?;
    Ok(DataSurvey::from_bytes(&bytes).map_err(|_| unreadable("damaged"))?)
}

/// Fits the model of a plan. Missing statistics and passes are computed. The plan's survey is read from the
/// store if it is not given.
///
/// # Errors
/// Those of the source, the store and [`FitState`]; [`Error::Format`] for a stored file with other contents.
pub fn fit<S: RowSource>(
    source: &mut S,
    store: &mut dyn ResultStore<S::Failure>,
    (job, plan, survey): (&Job, &FitPlan, Option<&DataSurvey>),
    units: u64,
    control: &FitControl,
) -> Result<FittedModel, S::Failure> {
    let rows = usize::try_from(plan.rows).unwrap_or(usize::MAX);
    let (grams, n_plain) = expected_passes(plan, job.corrections);
    control.progress.start(rows.saturating_mul(grams * gram_cost(plan) + n_plain * COST));
    let mut fitting = match (plan.needs(), survey) {
        (InitialData::Statistics, _) => {
            let statistics = all_statistics(source, store, plan, units, control)?;
            FitState::new(plan, job, InitialInput::Statistics(statistics))
        }
        (InitialData::Survey, Some(survey)) => FitState::new(plan, job, InitialInput::Survey(survey)),
        (InitialData::Survey, None) => FitState::new(plan, job, InitialInput::Survey(&kept_survey(store)?)),
        (InitialData::Nothing, _) => FitState::new(plan, job, InitialInput::Nothing),
    }?;
    while let Some(coefficients) = fitting.next_coefficients().cloned() {
        store.put(names::COEFFICIENTS, &coefficients.to_bytes())?;
        let pass = all_passes(source, store, plan, &coefficients, units, control)?;
        fitting.apply_pass(&pass)?;
    }
    Ok(fitting.fitted()?)
}

/// Rows in memory are a source with one unit.
impl RowSource for LabelledRows {
    type Failure = Error;

    fn read(&mut self, _: u64, work: &mut dyn FnMut(&LabelledRows) -> Result<()>) -> Result<()> {
        work(self)
    }
}

/// Fits a model through landmarks to rows in memory.
///
/// # Errors
/// Those of the estimator.
pub(crate) fn fit_rows(
    mut rows: LabelledRows,
    kernel: Kernel,
    job: &Job,
    control: &FitControl,
) -> Result<FittedModel> {
    let mut survey = job.survey(rows.x.columns(), rows.y.cols(), rows.weights.is_some());
    survey.add(&rows)?;
    kernel.validate(rows.x.width())?;
    let tuned = job.tuned(&survey, kernel)?;
    if !tuned.0.is_bounded() {
        survey.add_kernel(&tuned.0, &rows.x);
    }
    let plan = job.plan(&survey, tuned)?;
    fit(&mut rows, &mut NoStore, (job, &plan, Some(&survey)), 1, control)
}
