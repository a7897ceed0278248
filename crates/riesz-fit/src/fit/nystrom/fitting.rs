//! The state of a fit, independent of the reader of the rows: the initial data, the coefficients of the
//! requested passes, and the model.

use super::coefficients::Coefficients;
use super::job::Job;
use super::newton::StreamingNewton;
use super::pass::DataPass;
use super::plan::{FitPlan, Model};
use super::process::fit_gp;
use super::ridge::RidgeSolution;
use super::statistics::Statistics;
use super::survey::DataSurvey;
use crate::error::{Error, Result};
use crate::fit::task::{FittedModel, with_card_entries};
use crate::model_card::CardEntry;

/// The kind of data that a fit starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialData {
    /// Statistics of all rows.
    Statistics,
    /// The survey from which the plan was made.
    Survey,
    /// Only the plan.
    Nothing,
}

impl FitPlan {
    /// The kind of data that a fit with this plan starts with.
    pub fn needs(&self) -> InitialData {
        match self.model {
            Model::Ridge | Model::Process(_) => InitialData::Statistics,
            Model::Gradients { .. } => InitialData::Survey,
            Model::Classes { .. } => InitialData::Nothing,
        }
    }
}

/// The data that a fit starts with.
pub enum InitialInput<'b> {
    /// Statistics of all rows, or of those that the fit should use.
    Statistics(Statistics),
    /// The survey from which the plan was made.
    Survey(&'b DataSurvey),
    /// Only the plan.
    Nothing,
}

/// State of a fit.
#[derive(Debug, Clone)]
pub struct FitState {
    state: State,
    /// Number of corrections that the user requested.
    corrections: usize,
    /// Number of passes so far.
    passes: usize,
}

#[derive(Debug, Clone)]
enum State {
    Ridge(Box<RidgeSolution>),
    Classes(Box<StreamingNewton>),
    Process(Box<FittedModel>),
}

impl FitState {
    /// Starts the fit. Cost O(landmarks³), for every ridge and fold if there are several ridges; nothing for
    /// classes.
    ///
    /// # Errors
    /// Those of [`RidgeSolution::new`], [`RidgeSolution::of_sample`], [`fit_gp`] and
    /// [`StreamingNewton::new`]; [`Error::Format`] for data of another kind than the plan
    /// [needs](FitPlan::needs).
    pub fn new(plan: &FitPlan, job: &Job, beginning: InitialInput<'_>) -> Result<Self> {
        let state = match (&plan.model, beginning) {
            (Model::Ridge, InitialInput::Statistics(statistics)) => {
                State::Ridge(Box::new(RidgeSolution::new(plan, statistics, &job.penalties())?))
            }
            (Model::Process(_), InitialInput::Statistics(statistics)) => {
                State::Process(Box::new(fit_gp(plan, statistics)?))
            }
            (Model::Gradients { .. }, InitialInput::Survey(survey)) => {
                State::Ridge(Box::new(RidgeSolution::of_sample(plan, survey, job.intercept, job.tolerance)?))
            }
            (Model::Classes { .. }, InitialInput::Nothing) => {
                State::Classes(Box::new(StreamingNewton::new(plan, job.intercept)?))
            }
            _ => {
                return Err(Error::format(
                    "the fit of this plan starts with another kind of data than was given",
                ));
            }
        };
        Ok(Self { state, corrections: job.corrections, passes: 0 })
    }

    /// The coefficients at which the next pass over all rows is needed; `None` when the fit is finished.
    pub fn next_coefficients(&self) -> Option<&Coefficients> {
        match &self.state {
            State::Ridge(solution) => {
                solution.wants_pass(self.corrections, self.passes).then(|| solution.coefficients())
            }
            State::Classes(newton) => (!newton.converged).then_some(&newton.coefficients),
            State::Process(_) => None,
        }
    }

    /// The stage that the model lacks without further passes, in a few words.
    pub fn missing_stage(&self) -> &'static str {
        match &self.state {
            State::Ridge(solution) if solution.is_found() => match solution.certificate() {
                _ if self.passes < self.corrections => "not corrected",
                Some(_) => "corrected too little for a narrow certificate",
                None => "without a certificate",
            },
            _ => "not solved",
        }
    }

    /// Whether there is a model, which further passes can only improve or certify.
    pub fn has_model(&self) -> bool {
        match &self.state {
            State::Ridge(solution) => solution.is_found(),
            State::Classes(newton) => newton.converged,
            State::Process(_) => true,
        }
    }

    /// Number of passes so far.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// Continues with a pass over all rows at the [requested](Self::next_coefficients) coefficients.
    ///
    /// # Errors
    /// Those of [`RidgeSolution::apply_residual`] and [`StreamingNewton::step`]; [`Error::Format`] for a pass
    /// of another kind of fit.
    pub fn apply_pass(&mut self, pass: &DataPass) -> Result<()> {
        match (&mut self.state, pass) {
            (State::Ridge(solution), DataPass::Residual(residual)) => {
                solution.apply_residual(residual, self.corrections, self.passes)?;
            }
            (State::Classes(newton), DataPass::Slope(slope)) => newton.step(slope)?,
            _ => return Err(Error::format("this pass belongs to another kind of fit")),
        }
        self.passes += 1;
        Ok(())
    }

    /// The solution of a ridge regression.
    pub fn solution(&self) -> Option<&RidgeSolution> {
        match &self.state {
            State::Ridge(solution) => Some(solution),
            _ => None,
        }
    }

    /// The model in its current state, with its warnings.
    ///
    /// # Errors
    /// Those of an expansion.
    pub fn fitted(&self) -> Result<FittedModel> {
        match &self.state {
            State::Ridge(solution) => ridge_result(solution),
            State::Classes(newton) => newton.fitted(),
            State::Process(process) => Ok(FittedModel::clone(process)),
        }
    }
}

/// A warning if rounding may have changed predictions by more than a hundredth of the root mean squared
/// error, or by more than the tolerance.
fn rounded(solution: &RidgeSolution) -> Option<String> {
    solution.training_error()?;
    let remedy = match solution.is_direct() {
        true => "raise the ridge, take fewer landmarks, or request more corrections",
        false if solution.is_quick() => {
            "raise the ridge, take fewer landmarks, or set a tolerance below 1e-4, which computes kernel \
             values in full precision"
        }
        false => "raise the ridge or take fewer landmarks",
    };
    if let Some(steps) = solution.fell_short() {
        let bound_text = solution.largest_bound.map_or(String::new(), |(bound, error)| {
            format!(
                ": predictions may have errors of up to {bound:.1e}, with a training error of {error:.1e}"
            )
        });
        return Some(format!(
            "conjugate gradients ended above the tolerance after {steps} steps{bound_text}; {remedy}"
        ));
    }
    if solution.certificate().is_none() {
        return Some(format!(
            "the landmarks are nearly linearly dependent, so the rounding error has no bound: {remedy}"
        ));
    }
    let (bound, error) = solution.bound_and_rmse()?;
    Some(format!(
        "rounding may have changed predictions by up to {bound:.1e}, with a training error of {error:.1e}: \
         {remedy}"
    ))
}

/// The fitted model with the warnings of a solution.
fn ridge_result(solution: &RidgeSolution) -> Result<FittedModel> {
    let mut facts: Vec<CardEntry> = Vec::new();
    let max_landmarks = solution.tried.iter().map(|t| t.landmarks).max().unwrap_or(0);
    let min_error = |landmarks: usize| {
        let errors = solution.tried.iter().filter(|t| t.landmarks == landmarks).map(|t| t.error);
        errors.fold(f64::INFINITY, f64::min)
    };
    let mut warnings = Vec::new();
    if max_landmarks >= 4 {
        let (error_with_half, error_with_all) = (min_error(max_landmarks / 2), min_error(max_landmarks));
        facts.push(CardEntry::measured(
            "held-out mean squared error with half of the landmarks",
            error_with_half,
        ));
        if error_with_all < 0.99 * error_with_half {
            warnings.push(format!(
                "the last doubling of landmarks lowered the held-out error by {:.1} %: more landmarks \
                 would lower it further",
                100.0 * (1.0 - error_with_all / error_with_half)
            ));
        }
    }
    warnings.extend(rounded(solution));
    let model = with_card_entries(solution.model()?, facts);
    let covariance = solution.missing().map(|estimate| estimate.covariance.clone());
    Ok(FittedModel { covariance, warnings, chosen: Some(solution.ridge), ..model.into() })
}
