//! The whole fit, unit by unit, from any source of rows and with any results that are already stored.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::fitting::{FitState, InitialData, InitialInput};
use super::job::Job;
use super::pass::{DataPass, PassBuilder};
use super::plan::{FitPlan, Model};
use super::residual::Coefficients;
use super::rows::LabelledRows;
use super::statistics::{Accumulator, Statistics};
use super::survey::DataSurvey;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::fit::task::FittedModel;
use crate::kernel::Kernel;

/// Rows in units of work, each of which can be read again.
pub trait RowSource {
    /// The error of reading.
    type Failure: From<Error>;

    /// Hands the rows of a unit on, in parts of any size.
    ///
    /// # Errors
    /// Its own, and those of `work`.
    fn read(
        &mut self,
        unit: u64,
        work: &mut dyn FnMut(&LabelledRows) -> Result<()>,
    ) -> Result<(), Self::Failure>;
}

/// Where results of units are kept until all are there.
pub trait ResultStore<F> {
    /// The stored result with this name.
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

/// Whether work is to go on, and how far it is.
#[derive(Debug, Clone, Default)]
pub struct FitControl {
    /// Set to give up.
    pub stop: Arc<AtomicBool>,
    /// Progress of the work.
    pub progress: Arc<Progress>,
}

/// Cost of a row in a pass of predictions.
const COST: usize = 8;

/// Cost of a row with a gram matrix, which grows with the number of landmarks.
fn gram_cost(plan: &FitPlan) -> usize {
    COST + plan.landmarks.rows() / 30
}

/// Cost of a row in a pass.
fn pass_cost(plan: &FitPlan, coefficients: &Coefficients) -> usize {
    if coefficients.curvature { gram_cost(plan) } else { COST }
}

/// Cost of a row in all passes, with their usual number.
fn total_cost(plan: &FitPlan, corrections: usize) -> usize {
    let (grams, n_plain) = expected_passes(plan, corrections);
    grams * gram_cost(plan) + n_plain * COST
}

/// The usual number of passes with a gram matrix of all rows, and of those without, for the given number of
/// corrections: for estimates of time.
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

/// The names under which a [`ResultStore`] keeps what.
pub mod names {
    /// The plan.
    pub const PLAN: &str = "plan.json";

    /// The survey, where a fit begins with it.
    pub const SURVEY: &str = "survey.bin";

    /// The statistics of a unit.
    pub fn statistics(unit: u64) -> String {
        format!("unit-{unit:05}.stat")
    }

    /// The coefficients at which a pass was wanted last.
    pub const COEFFICIENTS: &str = "coefficients.json";

    /// The name of the pass over a unit at given coefficients.
    pub fn pass(coefficients: &super::Coefficients, unit: u64) -> String {
        format!("pass-{}-unit-{unit:05}.part", &coefficients.digest()[..12])
    }
}

/// A result for the rows of some units that can be merged with those of other units.
trait Mergeable: Sized {
    fn rows(&self) -> u64;
    fn join(&mut self, other: &Self) -> Result<()>;
    fn bytes(&self) -> Vec<u8>;
}

macro_rules! part {
    ($($part:ty),*) => {
        $(impl Mergeable for $part {
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
part!(Statistics, DataPass);

/// The parts of all units together: those that are kept, and those that are missing, which are made and kept.
/// `cost` is that of a row.
fn combine_units<P: Mergeable, F: From<Error>>(
    store: &mut dyn ResultStore<F>,
    units: u64,
    (control, cost): (&FitControl, usize),
    (name, read): (impl Fn(u64) -> String, impl Fn(&[u8]) -> Result<P>),
    mut make: impl FnMut(u64) -> Result<P, F>,
) -> Result<Option<P>, F> {
    let mut total: Option<P> = None;
    for unit in 0..units {
        let name = name(unit);
        let unit_result = match store.get(&name)? {
            Some(bytes) => {
                let unit_result = load_stored(&name, read(&bytes))?;
                control.step(usize::try_from(unit_result.rows()).unwrap_or(0) * cost)?;
                unit_result
            }
            None => {
                let unit_result = make(unit)?;
                store.put(&name, &unit_result.bytes())?;
                unit_result
            }
        };
        match &mut total {
            Some(total) => total.join(&unit_result)?,
            None => total = Some(unit_result),
        }
    }
    Ok(total)
}

/// All statistics: those that are kept, and those of the units that are missing.
fn all_statistics<S: RowSource>(
    source: &mut S,
    store: &mut dyn ResultStore<S::Failure>,
    plan: &FitPlan,
    units: u64,
    control: &FitControl,
) -> Result<Statistics, S::Failure> {
    let files = (names::statistics, |bytes: &[u8]| Statistics::from_bytes(plan, bytes));
    let make = |unit| statistics(source, plan, unit, control);
    let total = combine_units(store, units, (control, gram_cost(plan)), files, make)?;
    Ok(total.unwrap_or_else(|| Statistics::empty(plan)))
}

/// The passes over all units: stored ones are read, and missing ones are made.
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
    let total = combine_units(store, units, (control, pass_cost(plan, coefficients)), files, make)?;
    Ok(total.unwrap_or_else(|| DataPass::empty(plan, coefficients)))
}

fn load_stored<T>(name: &str, decoded: Result<T>) -> Result<T> {
    decoded.map_err(|error| match error {
        Error::Format { problem } => Error::Format { problem: format!("{name}: {problem}") },
        error => error,
    })
}

/// The survey that a fit by conjugate gradients begins with.
///
/// # Errors
/// Those of the store; [`Error::Format`] if it is not there, or damaged.
pub fn kept_survey<F: From<Error>>(store: &mut dyn ResultStore<F>) -> Result<DataSurvey, F> {
    let name = names::SURVEY;
    let lost =
        |state: &str| Error::Format { problem: format!("{name} is {state}: begin anew, in another folder") };
    let bytes = store.get(name)?.ok_or_else(|| lost("missing"))?;
    Ok(DataSurvey::from_bytes(&bytes).map_err(|_| lost("damaged"))?)
}

/// The fit by a plan: what is missing of statistics and passes is made. The survey that the plan was made of
/// is read from the store if it is not given.
///
/// # Errors
/// Those of the source, the store and [`FitState`]; [`Error::Format`] for a kept file of something else.
pub fn fit<S: RowSource>(
    source: &mut S,
    store: &mut dyn ResultStore<S::Failure>,
    (job, plan, survey): (&Job, &FitPlan, Option<&DataSurvey>),
    units: u64,
    control: &FitControl,
) -> Result<FittedModel, S::Failure> {
    let rows = usize::try_from(plan.rows).unwrap_or(usize::MAX);
    control.progress.start(rows.saturating_mul(total_cost(plan, job.corrections)));
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

/// Rows in memory, as one unit.
struct InMemoryRows(LabelledRows);

impl RowSource for InMemoryRows {
    type Failure = Error;

    fn read(&mut self, _: u64, work: &mut dyn FnMut(&LabelledRows) -> Result<()>) -> Result<()> {
        work(&self.0)
    }
}

/// Fits rows in memory.
///
/// # Errors
/// Those of the estimator.
pub(crate) fn fit_rows(
    rows: LabelledRows,
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
    fit(&mut InMemoryRows(rows), &mut NoStore, (job, &plan, Some(&survey)), 1, control)
}
