//! What is to be fitted, and what follows from a first look at the rows.

use serde::{Deserialize, Serialize};

use super::plan::{Choice, Model, Plan};
use super::process::Learning;
use super::ridge::{Penalties, Solution};
use super::statistics::Statistics;
use super::survey::Survey;
use crate::error::{Error, Result};
use crate::fit::KernelRidge;
use crate::fit::search::RIDGES;
use crate::fit::selection::{DEFAULT_MULTIPLIERS, default_ridges, select_ridge_until};
use crate::fit::task::{Target, Task};
use crate::kernel::Kernel;
use crate::stop::Watch;
use crate::table::Column;

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
    /// How a ridge regression is solved; `None` for what takes less time by its size.
    pub solver: Option<Solver>,
    /// Where conjugate gradients end: the largest bound on what is missing of predictions at landmarks, relative to the root mean squared error.
    pub tolerance: f64,
    /// Of the sample, landmarks and folds.
    pub seed: u64,
    /// What is fitted.
    pub kind: Kind,
}

/// How a ridge regression is solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Solver {
    /// From statistics of all rows: one pass, whose cost grows with the square of the number of landmarks, as does what units keep.
    Direct,
    /// By preconditioned conjugate gradients: a score of passes, each in proportion to the number of landmarks.
    Cg,
}

impl Solver {
    /// The one that takes less time, whatever the machine, by what either costs.
    fn of(rows: u64, landmarks: usize) -> Self {
        let (n, m) = (rows as f64, landmarks as f64);
        let direct = (n * m * m + 2.3 * m.powi(3)) * PRODUCT;
        let gradients = STEPS * n * m * VALUE + 6.7 * m.powi(3) * PRODUCT;
        if direct <= gradients { Self::Direct } else { Self::Cg }
    }
}

/// Seconds that a multiplication of a gram matrix takes, and that a kernel value takes in a pass; and steps of conjugate gradients.
const PRODUCT: f64 = 2e-11;
const VALUE: f64 = 2.3e-9;
const STEPS: f64 = 16.0;

/// Landmarks with which a ridge is chosen on the sample.
const CHOSEN_WITH: usize = 2000;

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
            solver: None,
            tolerance: 1e-3,
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
        // They are in the order of their hashes: the first are a sample of the sample.
        let some = survey.sample()?.first(TUNED_ON);
        let start = KernelRidge { center: self.intercept, ..KernelRidge::new(kernel, 1.0) };
        let ridges = default_ridges();
        Ok(select_ridge_until(&start, &some.x, &some.y, &ridges, &DEFAULT_MULTIPLIERS, Watch::nobody())?
            .best
            .kernel)
    }

    /// The plan, from a survey of all rows. Conjugate gradients take a ridge that is given, or the best on folds of the sample with
    /// 2,000 landmarks at most.
    ///
    /// # Errors
    /// As [`Plan::new`], and those of these fits.
    pub fn plan(&self, survey: &Survey, (kernel, model): (Kernel, Model)) -> Result<Plan> {
        let mut plan = Plan::new(survey, kernel, model, self.choice())?;
        let solver = || self.solver.unwrap_or_else(|| Solver::of(plan.rows, plan.landmarks.rows()));
        if plan.model == Model::Ridge && solver() == Solver::Cg {
            let ridge = self.ridge.map_or_else(|| self.ridge_of_sample(survey, &plan), Ok)?;
            plan.model = Model::Gradients { ridge, sample: survey.digest() };
            plan.folds = 1;
        }
        Ok(plan)
    }

    fn ridge_of_sample(&self, survey: &Survey, plan: &Plan) -> Result<f64> {
        let some: Vec<usize> = (0..plan.landmarks.rows().min(CHOSEN_WITH)).collect();
        let mut few = plan.clone();
        few.landmarks = plan.landmarks.select_rows(&some);
        let statistics = Statistics::of(&few, &survey.sample()?, 0)?;
        Ok(Solution::new(&few, &statistics, &self.penalties())?.ridge)
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
