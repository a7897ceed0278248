//! A fit from its beginning to its end, whoever reads the rows: what it needs first, at which coefficients it
//! asks for passes, and the model.

use super::job::Job;
use super::newton::Newton;
use super::pass::Pass;
use super::plan::{Model, Plan};
use super::process::process;
use super::residual::Coefficients;
use super::ridge::Solution;
use super::statistics::Statistics;
use super::survey::Survey;
use crate::error::{Error, Result};
use crate::explanation::Fact;
use crate::fit::task::{Fitted, noted};

/// What a fit begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Statistics of all rows.
    Statistics,
    /// The survey that the plan was made of.
    Survey,
    /// Nothing but the plan.
    Nothing,
}

impl Plan {
    /// What a fit by the plan begins with.
    pub fn needs(&self) -> Needs {
        match self.model {
            Model::Ridge | Model::Process(_) => Needs::Statistics,
            Model::Gradients { .. } => Needs::Survey,
            Model::Classes { .. } => Needs::Nothing,
        }
    }
}

/// What it begins with.
pub enum Beginning<'b> {
    /// Of all rows, or of those that are to count.
    Statistics(Statistics),
    /// The one that the plan was made of.
    Survey(&'b Survey),
    /// Nothing but the plan.
    Nothing,
}

/// A fit under way.
#[derive(Debug, Clone)]
pub struct Fitting {
    state: State,
    /// Passes that were asked for by the user.
    corrections: usize,
    /// Passes so far.
    passes: usize,
}

#[derive(Debug, Clone)]
enum State {
    Ridge(Box<Solution>),
    Classes(Box<Newton>),
    Process(Box<Fitted>),
}

impl Fitting {
    /// Begins. Cost O(landmarks³), for every ridge and fold where there are several ridges; nothing for
    /// classes.
    ///
    /// # Errors
    /// Those of [`Solution::new`], [`Solution::of_sample`], [`process`] and [`Newton::new`];
    /// [`Error::Format`] for another beginning than the plan [needs](Plan::needs).
    pub fn new(plan: &Plan, job: &Job, beginning: Beginning<'_>) -> Result<Self> {
        let state = match (&plan.model, beginning) {
            (Model::Ridge, Beginning::Statistics(all)) => {
                State::Ridge(Box::new(Solution::new(plan, all, &job.penalties())?))
            }
            (Model::Process(_), Beginning::Statistics(all)) => State::Process(Box::new(process(plan, all)?)),
            (Model::Gradients { .. }, Beginning::Survey(survey)) => {
                State::Ridge(Box::new(Solution::of_sample(plan, survey, job.intercept, job.tolerance)?))
            }
            (Model::Classes { .. }, Beginning::Nothing) => {
                State::Classes(Box::new(Newton::new(plan, job.intercept)?))
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
    pub fn wants(&self) -> Option<&Coefficients> {
        match &self.state {
            State::Ridge(own) => own.wants_pass(self.corrections, self.passes).then(|| own.coefficients()),
            State::Classes(own) => (!own.converged).then_some(&own.coefficients),
            State::Process(_) => None,
        }
    }

    /// What is lacking of the model if no further pass is made, in a few words.
    pub fn lacks(&self) -> &'static str {
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
    pub fn is_found(&self) -> bool {
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

    /// Goes on by a pass over all rows at the coefficients that it [wants](Self::wants).
    ///
    /// # Errors
    /// Those of [`Solution::take`] and [`Newton::step`]; [`Error::Format`] for the pass of another fit.
    pub fn take(&mut self, pass: &Pass) -> Result<()> {
        match (&mut self.state, pass) {
            (State::Ridge(own), Pass::Residual(residual)) => {
                own.take(residual, self.corrections, self.passes)?;
            }
            (State::Classes(own), Pass::Slope(slope)) => own.step(slope)?,
            _ => return Err(Error::Format { problem: "this pass is of another kind of fit".into() }),
        }
        self.passes += 1;
        Ok(())
    }

    /// The solution of a ridge regression.
    pub fn solution(&self) -> Option<&Solution> {
        match &self.state {
            State::Ridge(own) => Some(own),
            _ => None,
        }
    }

    /// The model as far as it is, and what is to be said of it.
    ///
    /// # Errors
    /// Those of an expansion.
    pub fn fitted(&self) -> Result<Fitted> {
        match &self.state {
            State::Ridge(own) => of_ridge(own),
            State::Classes(own) => own.fitted(),
            State::Process(own) => Ok(Fitted::clone(own)),
        }
    }
}

/// What is to be said where rounding may have moved predictions by more than a hundredth of what they are off
/// anyway, or than was asked for.
fn rounded(solution: &Solution) -> Option<String> {
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
        let off = solution.worst().map_or(String::new(), |(bound, error)| {
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
    let (bound, error) = solution.wide()?;
    Some(format!(
        "rounding may have moved predictions by up to {bound:.1e}, where their own error is {error:.1e}: \
         {remedy}"
    ))
}

/// What is known of a solution as of any fit.
fn of_ridge(solution: &Solution) -> Result<Fitted> {
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
    let model = noted(solution.model()?, facts);
    let covariance = solution.missing().map(|own| own.covariance.clone());
    Ok(Fitted { covariance, warnings, chosen: Some(solution.ridge), ..model.into() })
}
