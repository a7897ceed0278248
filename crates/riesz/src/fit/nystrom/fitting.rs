//! A fit from its beginning to its end, whoever reads the rows: what it needs first, at which coefficients it
//! asks for passes, and the model.

use super::job::Job;
use super::newton::StreamingNewton;
use super::pass::DataPass;
use super::plan::{FitPlan, Model};
use super::process::fit_gp;
use super::residual::Coefficients;
use super::ridge::RidgeSolution;
use super::statistics::Statistics;
use super::survey::DataSurvey;
use crate::error::{Error, Result};
use crate::explanation::Fact;
use crate::fit::task::{FittedModel, with_card_entries};

/// What a fit begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialData {
    /// Statistics of all rows.
    Statistics,
    /// The survey that the plan was made of.
    Survey,
    /// Nothing but the plan.
    Nothing,
}

impl FitPlan {
    /// What a fit by the plan begins with.
    pub fn needs(&self) -> InitialData {
        match self.model {
            Model::Ridge | Model::Process(_) => InitialData::Statistics,
            Model::Gradients { .. } => InitialData::Survey,
            Model::Classes { .. } => InitialData::Nothing,
        }
    }
}

/// What it begins with.
pub enum InitialInput<'b> {
    /// Of all rows, or of those that are to count.
    Statistics(Statistics),
    /// The one that the plan was made of.
    Survey(&'b DataSurvey),
    /// Nothing but the plan.
    Nothing,
}

/// A fit under way.
#[derive(Debug, Clone)]
pub struct FitState {
    state: State,
    /// Passes that were asked for by the user.
    corrections: usize,
    /// Passes so far.
    passes: usize,
}

#[derive(Debug, Clone)]
enum State {
    Ridge(Box<RidgeSolution>),
    Classes(Box<StreamingNewton>),
    Process(Box<FittedModel>),
}

impl FitState {
    /// Begins. Cost O(landmarks³), for every ridge and fold where there are several ridges; nothing for
    /// classes.
    ///
    /// # Errors
    /// Those of [`RidgeSolution::new`], [`RidgeSolution::of_sample`], [`fit_gp`] and
    /// [`StreamingNewton::new`];
    /// [`Error::Format`] for another beginning than the plan [needs](FitPlan::needs).
    pub fn new(plan: &FitPlan, job: &Job, beginning: InitialInput<'_>) -> Result<Self> {
        let state = match (&plan.model, beginning) {
            (Model::Ridge, InitialInput::Statistics(all)) => {
                State::Ridge(Box::new(RidgeSolution::new(plan, all, &job.penalties())?))
            }
            (Model::Process(_), InitialInput::Statistics(all)) => {
                State::Process(Box::new(fit_gp(plan, all)?))
            }
            (Model::Gradients { .. }, InitialInput::Survey(survey)) => {
                State::Ridge(Box::new(RidgeSolution::of_sample(plan, survey, job.intercept, job.tolerance)?))
            }
            (Model::Classes { .. }, InitialInput::Nothing) => {
                State::Classes(Box::new(StreamingNewton::new(plan, job.intercept)?))
            }
            _ => {
                let problem = "fits by this plan begin with something else than was given".into();
                return Err(Error::Format { problem });
            }
        };
        Ok(Self { state, corrections: job.corrections, passes: 0 })
    }

    /// The coefficients at which a pass over all rows is to be made next; `None` when there is nothing left
    /// to do.
    pub fn next_coefficients(&self) -> Option<&Coefficients> {
        match &self.state {
            State::Ridge(own) => own.wants_pass(self.corrections, self.passes).then(|| own.coefficients()),
            State::Classes(own) => (!own.converged).then_some(&own.coefficients),
            State::Process(_) => None,
        }
    }

    /// What is lacking of the model if no further pass is made, in a few words.
    pub fn missing_stage(&self) -> &'static str {
        match &self.state {
            State::Ridge(own) if own.is_found() && self.passes < self.corrections => "not corrected",
            State::Ridge(own) if own.is_found() && own.certificate().is_some() => {
                "corrected too little for a narrow certificate"
            }
            State::Ridge(own) if own.is_found() => "without a certificate",
            _ => "not solved",
        }
    }

    /// Whether there is a model, which further passes would only make better or better known.
    pub fn has_model(&self) -> bool {
        match &self.state {
            State::Ridge(own) => own.is_found(),
            State::Classes(own) => own.converged,
            State::Process(_) => true,
        }
    }

    /// Passes so far.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// Goes on by a pass over all rows at the coefficients that it [wants](Self::next_coefficients).
    ///
    /// # Errors
    /// Those of [`RidgeSolution::apply_residual`] and [`StreamingNewton::step`]; [`Error::Format`] for the
    /// pass of another fit.
    pub fn apply_pass(&mut self, pass: &DataPass) -> Result<()> {
        match (&mut self.state, pass) {
            (State::Ridge(own), DataPass::Residual(residual)) => {
                own.apply_residual(residual, self.corrections, self.passes)?;
            }
            (State::Classes(own), DataPass::Slope(slope)) => own.step(slope)?,
            _ => return Err(Error::Format { problem: "this pass is of another kind of fit".into() }),
        }
        self.passes += 1;
        Ok(())
    }

    /// The solution of a ridge regression.
    pub fn solution(&self) -> Option<&RidgeSolution> {
        match &self.state {
            State::Ridge(own) => Some(own),
            _ => None,
        }
    }

    /// The model as far as it is, and what is to be said of it.
    ///
    /// # Errors
    /// Those of an expansion.
    pub fn fitted(&self) -> Result<FittedModel> {
        match &self.state {
            State::Ridge(own) => ridge_result(own),
            State::Classes(own) => own.fitted(),
            State::Process(own) => Ok(FittedModel::clone(own)),
        }
    }
}

/// What is to be said where rounding may have moved predictions by more than a hundredth of what they are off
/// anyway, or than was asked for.
fn rounded(solution: &RidgeSolution) -> Option<String> {
    solution.training_error()?;
    let remedy = match solution.is_direct() {
        true => "raise the ridge or take fewer landmarks, or more corrections",
        false if solution.is_quick() => {
            "raise the ridge, take fewer landmarks, or a tolerance below 1e-4, with which kernels keep all \
             their digits"
        }
        false => "raise the ridge or take fewer landmarks",
    };
    if let Some(steps) = solution.fell_short() {
        let off = solution.largest_bound().map_or(String::new(), |(bound, error)| {
            format!(": predictions may be off by up to {bound:.1e}, where their own error is {error:.1e}")
        });
        return Some(format!(
            "conjugate gradients ended above the tolerance after {steps} steps{off}; {remedy}"
        ));
    }
    if solution.certificate().is_none() {
        return Some(format!(
            "landmarks are all but dependent, and nothing proves how far rounding moved the fit: {remedy}"
        ));
    }
    let (bound, error) = solution.bound_and_rmse()?;
    Some(format!(
        "rounding may have moved predictions by up to {bound:.1e}, where their own error is {error:.1e}: \
         {remedy}"
    ))
}

/// What is known of a solution as of any fit.
fn ridge_result(solution: &RidgeSolution) -> Result<FittedModel> {
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
                "the last doubling of landmarks lowered the held-out error by {:.1} %: more would lower it \
                 further",
                100.0 * (1.0 - all / half)
            ));
        }
    }
    warnings.extend(rounded(solution));
    let model = with_card_entries(solution.model()?, facts);
    let covariance = solution.missing().map(|own| own.covariance.clone());
    Ok(FittedModel { covariance, warnings, chosen: Some(solution.ridge), ..model.into() })
}
