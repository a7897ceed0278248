//! Classification of two classes through landmarks, by Newton's method: a pass over all rows for each step,
//! of which only whole numbers are kept.
//!
//! `min Σ_i w_i log(1 + exp(-s_i f(x_i))) + (ridge/2) ‖f‖²`, s = ±1, over functions of the landmarks and a
//! constant. A step solves `(Kᵀ D K + ridge P) d = Kᵀ w (y - p) - ridge P θ` with D = w p (1 - p). Most of a
//! pass is `Kᵀ D K`, so it is kept, with what steps show of it, for as long as these shrink what is left; and
//! the way begins where a sample alone would end. With a ridge of 1 and no constant that is the mode of a
//! Gaussian process known through its landmarks, and Laplace's approximation of its posterior is that of
//! observations with variances 1/D (Rasmussen and Williams 2006, section 3.4).

use super::nested::{LandmarkErrorEstimate, NestedFits};
use super::plan::{FitPlan, LatentFunction, Model};
use super::residual::Coefficients;
use super::rows::LabelledRows;
use super::sample::{add_penalty, penalty_times};
use super::slope::{LogisticGradient, LogisticGradientBuilder};
use crate::error::{Error, Result};
use crate::explanation::Fact;
use crate::fit::InducingLaplace;
use crate::fit::task::FittedModel;
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Cholesky, Matrix, dot};

/// Newton's method, step by step.
#[derive(Debug, Clone)]
pub struct StreamingNewton {
    plan: FitPlan,
    by: LatentFunction,
    /// What half the squared norm of the function counts, beside the loss.
    ridge: f64,
    intercept: bool,
    /// The two classes.
    classes: Vec<String>,
    /// Where the next slope is to be taken.
    pub coefficients: Coefficients,
    /// Where the last good slope was taken.
    last: Option<AcceptedPoint>,
    /// Of the last slope with curvature.
    curved: Option<HessianModel>,
    /// Slopes so far.
    pub passes: usize,
    /// `gᵀ H⁻¹ g` at the last of them: twice what the objective is above its least, about.
    pub decrement: f64,
    rows: u64,
    /// Whether it has ended.
    pub converged: bool,
    /// Whether it ends with the next slope that has the curvature.
    stop_at_next: bool,
    /// Whether it ended for having taken long.
    stopped_early: bool,
    /// How often the curvature was summed up anew for steps that helped little.
    hessian_refreshes: usize,
    /// How far it is from the fit with all rows as support points.
    missing: Option<LandmarkErrorEstimate>,
    /// Of a process, and the logarithm of the marginal likelihood in Laplace's approximation.
    posterior: Option<(InducingLaplace, f64)>,
}

/// Where a good slope was taken.
#[derive(Debug, Clone)]
struct AcceptedPoint {
    values: Matrix,
    objective: f64,
    /// That of the objective, with the opposite sign.
    gradient: Vec<f64>,
}

/// The curvature somewhere, and what steps since then have shown of it.
#[derive(Debug, Clone)]
struct HessianModel {
    /// Of `KᵀDK + ridge P`.
    factor: Cholesky,
    /// `Σ D`.
    weight: f64,
    /// Steps, and by how much gradients grew.
    secants: Vec<(Vec<f64>, Vec<f64>)>,
}

impl HessianModel {
    /// The inverse curvature times a vector, as the factor and all secants say (BFGS, in the two loops of
    /// Nocedal 1980).
    fn solve(&self, gradient: &[f64]) -> Vec<f64> {
        let add = |to: &mut [f64], scale: f64, what: &[f64]| {
            to.iter_mut().zip(what).for_each(|(v, w)| *v += scale * w);
        };
        let mut left = gradient.to_vec();
        let mut shares = Vec::new();
        for (step, growth) in self.secants.iter().rev() {
            let share = dot(step, &left) / dot(step, growth);
            add(&mut left, -share, growth);
            shares.push(share);
        }
        let mut change = self.factor.solve_vector(&left);
        for ((step, growth), share) in self.secants.iter().zip(shares.into_iter().rev()) {
            let other = dot(growth, &change) / dot(step, growth);
            add(&mut change, share - other, step);
        }
        change
    }
}

/// Where the step at hand is the last: decrements, relative to the objective, by the curvature where the
/// slope is, whose steps square them, and those that a step by an earlier curvature should leave, by the last
/// two of them. And decrements which are so small that it is when they no longer shrink by half.
const CONVERGED: (f64, f64) = (1e-9, 1e-15);
const STALLED: (f64, f64) = (1e-6, 1e-9);
/// Decrements, relative to the objective, from which on the curvature is no longer summed up at every step: a
/// pass with it takes as long as some eight without.
const FULL_HESSIAN_ABOVE: f64 = 0.1;
/// What a decrement is of the one before it where it is summed up anew, and how often that may be: where
/// rounding is much of the curvature, as of landmarks that are all but dependent, secants say more of it.
const REFRESH_RATIO: f64 = 0.1;
const RENEWED: usize = 3;
/// Passes after which decrements that are so small, relative to the objective, are small enough.
const MAX_PASSES_RELAXED: usize = 40;
const TOLERABLE: f64 = 1e-4;

/// Rows of the sample for each landmark that a start is found from, and how many of either class there must
/// be.
const STARTED_FROM: usize = 5;
const OF_EITHER: usize = 50;
/// The decrement, relative to the objective, after which the next step ends there: the sample says no more of
/// all rows.
const ROUGH: f64 = 1e-3;

/// Steps after which a start is as good as it gets.
const STARTS: usize = 20;

/// About the coefficients that a sample of the rows alone would have with its share of the ridge; empty where
/// that says nothing of all rows, or takes as long as they do. Cost O(landmarks³) a step.
///
/// # Errors
/// Those of [`Newton::new`], and of rows that are not the plan's.
pub(super) fn start_of_classes(plan: &FitPlan, sample: &LabelledRows, intercept: bool) -> Result<Vec<f64>> {
    let some = sample.head(plan.landmarks.rows().saturating_mul(STARTED_FROM).max(1000));
    let ones = some.y.data().iter().filter(|y| **y > 0.0).count();
    if plan.rows < 2 * some.len() as u64 || ones.min(some.len() - ones) < OF_EITHER {
        return Ok(Vec::new());
    }
    let all = || {
        let mut own = StreamingNewton::new(plan, intercept)?;
        own.ridge *= some.len() as f64 / plan.rows as f64;
        loop {
            let coefficients = own.coefficients.clone();
            let mut slope = LogisticGradientBuilder::new(plan, &coefficients);
            slope.add(&some)?;
            own.step(&slope.finish(0))?;
            let least = own.last.as_ref().map_or(0.0, |last| last.objective);
            if own.converged || own.decrement <= ROUGH * least || own.passes >= STARTS {
                return Ok::<_, Error>(own.coefficients.values.into_data());
            }
        }
    };
    match all() {
        // Where there is no end of it, all rows will say why.
        Err(Error::NotConverged { .. } | Error::NotPositiveDefinite { .. } | Error::Overflow { .. }) => {
            Ok(Vec::new())
        }
        found => found,
    }
}

impl StreamingNewton {
    /// From where the plan says.
    ///
    /// # Errors
    /// [`Error::Format`] for a plan of another kind; [`Error::Parameter`] for a ridge that is not positive;
    /// [`Error::Target`] if there are not two classes.
    pub fn new(plan: &FitPlan, intercept: bool) -> Result<Self> {
        let Model::Classes { names, by, start } = &plan.model else {
            return Err(Error::Format { problem: "this plan is not one of classes".into() });
        };
        let ridge = match by {
            LatentFunction::Penalised(ridge) => *ridge,
            LatentFunction::Process => 1.0,
        };
        // A process has its prior mean.
        let intercept = intercept && *by != LatentFunction::Process;
        crate::fit::positive("ridge", ridge)?;
        if plan.targets.len() != 1 || plan.targets[0].center != 0.5 || names.len() != 2 {
            let problem =
                "has not exactly two classes, 0 and 1, as classification through landmarks needs".into();
            return Err(Error::Target { name: "target".into(), problem });
        }
        let mut values = if start.len() == plan.size() { start.clone() } else { vec![0.0; plan.size()] };
        if !intercept {
            values[plan.landmarks.rows()] = 0.0;
        }
        Ok(Self {
            coefficients: Coefficients { values: Matrix::column_vector(values), curvature: true },
            ridge,
            curved: None,
            plan: plan.clone(),
            by: *by,
            intercept,
            classes: names.clone(),
            last: None,
            passes: 0,
            decrement: f64::INFINITY,
            rows: 0,
            converged: false,
            stop_at_next: false,
            stopped_early: false,
            hessian_refreshes: 0,
            missing: None,
            posterior: None,
        })
    }

    /// Takes a step by the slope of all rows at [`coefficients`](Self::coefficients). Cost O(landmarks³).
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`]; [`Error::NotConverged`] where steps no longer help.
    pub fn step(&mut self, slope: &LogisticGradient) -> Result<()> {
        let (p, ridge) = (self.plan.size(), self.ridge);
        let theta = self.coefficients.values.data().to_vec();
        let pull = penalty_times(&self.plan, &self.coefficients.values);
        let pull: Vec<f64> = pull.data().iter().map(|v| ridge * v).collect();
        let objective = slope.loss(&self.plan) + 0.5 * dot(&theta, &pull);
        (self.passes, self.rows) = (self.passes + 1, slope.rows());
        if let Some(AcceptedPoint { values: before, objective: least, .. }) = &self.last
            && objective > least + 1e-12 * least.abs()
        {
            // Back halfway.
            let half = before.data().iter().zip(&theta).map(|(a, b)| 0.5 * (a + b)).collect();
            let half = Matrix::from_row_major(p, 1, half);
            if self.passes > 60 || half == *before {
                return Err(Error::NotConverged {
                    method: "the classification through landmarks",
                    iterations: self.passes,
                    change: objective - least,
                    remedy: self.remedy(),
                });
            }
            self.coefficients = Coefficients { values: half, curvature: true };
            (self.stop_at_next, self.stopped_early) = (false, false);
            return Ok(());
        }
        let size = if self.intercept { p } else { p - 1 };
        if slope.has_curvature() {
            self.curved = Some(self.factored(slope, size)?);
        }
        let Some(curved) = &mut self.curved else {
            return Err(Error::Format {
                problem: "this slope has no curvature, which the first one has".into(),
            });
        };
        let gradient: Vec<f64> =
            slope.gradient(&self.plan)[..size].iter().zip(&pull).map(|(slope, pull)| slope - pull).collect();
        if let Some(last) = self.last.as_ref().filter(|_| !slope.has_curvature()) {
            let less = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<f64>>();
            let (step, growth) = (less(&theta[..size], last.values.data()), less(&last.gradient, &gradient));
            // Of what is hardly more than rounding nothing is learnt.
            if dot(&step, &growth) > 1e-12 * (dot(&step, &step) * dot(&growth, &growth)).sqrt() {
                curved.secants.push((step, growth));
            }
        }
        let change = curved.solve(&gradient);
        let before = std::mem::replace(&mut self.decrement, dot(&gradient, &change));
        self.last = Some(AcceptedPoint { values: self.coefficients.values.clone(), objective, gradient });
        let mut values = theta;
        values.iter_mut().zip(&change).for_each(|(v, c)| *v += c);
        // Rounding may make it negative.
        let share = self.decrement.abs() / objective.abs();
        let fresh = slope.has_curvature();
        let (done, stalled) = match fresh {
            true => (share <= CONVERGED.0, STALLED.0),
            false => (share * (self.decrement / before).min(1.0) <= CONVERGED.1, STALLED.1),
        };
        // Or rounding is all that moves it.
        let found = done || share <= stalled && self.decrement > 0.5 * before;
        self.stopped_early |=
            !found && !self.stop_at_next && self.passes >= MAX_PASSES_RELAXED && share <= TOLERABLE;
        // A process needs the curvature where it ends.
        let ends = found || self.stopped_early || self.stop_at_next;
        self.converged = ends && (fresh || self.by != LatentFunction::Process);
        self.stop_at_next = ends;
        let moves = if fresh {
            share > FULL_HESSIAN_ABOVE
        } else {
            self.decrement > REFRESH_RATIO * before && self.hessian_refreshes < RENEWED
        };
        self.hessian_refreshes += usize::from(!fresh && moves);
        let curvature = moves || ends;
        self.coefficients = Coefficients { values: Matrix::from_row_major(p, 1, values), curvature };
        if self.passes > 100 && !self.converged {
            let remedy = self.remedy();
            let (method, iterations) = ("the classification through landmarks", self.passes);
            return Err(Error::NotConverged { method, iterations, change: self.decrement, remedy });
        }
        if self.converged {
            self.end(slope)?;
        }
        Ok(())
    }

    /// The matrix of a slope's Newton step.
    fn factored(&self, slope: &LogisticGradient, size: usize) -> Result<HessianModel> {
        let mut matrix = slope.curvature(&self.plan, size);
        add_penalty(&self.plan, self.ridge, &mut matrix);
        let factor = Cholesky::new(matrix, "matrix of Newton's method")?;
        Ok(HessianModel { factor, weight: slope.weight(&self.plan), secants: Vec::new() })
    }

    fn remedy(&self) -> &'static str {
        match self.by {
            LatentFunction::Penalised(_) => "raise the ridge",
            LatentFunction::Process => "take fewer landmarks, or a kernel of smaller scale",
        }
    }

    /// What is to be said where it took long.
    fn ended_short(&self) -> String {
        let above = self.last.as_ref().map_or(f64::NAN, |last| 0.5 * self.decrement / last.objective.abs());
        format!(
            "Newton's method ended after {} passes where the objective is about {above:.0e} of itself above \
             its least, since landmarks are all but dependent: {}",
            self.passes,
            self.remedy()
        )
    }

    /// What else follows from the last slope.
    fn end(&mut self, slope: &LogisticGradient) -> Result<()> {
        let plan = &self.plan;
        let of = |curved: &HessianModel| {
            NestedFits {
                plan,
                factor: &curved.factor,
                ridge: self.ridge,
                values: &self.coefficients.values,
                rows: slope.rows(),
                weight: curved.weight,
                rounding: 0.5 * plan.rounding(slope.rows(), 1),
            }
            .missing()
        };
        self.missing = self.curved.as_ref().and_then(of);
        if self.by == LatentFunction::Process {
            // What the last step still gains, by its quadratic model.
            let least = self.last.as_ref().map_or(f64::NAN, |last| last.objective - 0.5 * self.decrement);
            let rounding = 0.5 * plan.bound * 0.5_f64.powi(22);
            let gram = slope.curvature(plan, plan.landmarks.rows());
            let own = InducingLaplace::new(&plan.kernel, &plan.landmarks, gram, rounding)?;
            let evidence = -least - 0.5 * own.volume;
            self.posterior = Some((own, evidence));
        }
        Ok(())
    }

    /// The model, as far as it is, with the posterior of a process, or else what landmarks leave out of it.
    ///
    /// # Errors
    /// Those of an expansion.
    pub fn fitted(&self) -> Result<FittedModel> {
        let m = self.plan.landmarks.rows();
        let values = self.coefficients.values.data();
        let (link, mut card) = match self.by {
            LatentFunction::Penalised(_) => (
                Link::Logistic,
                vec![
                    Fact::new("model", "kernel logistic regression through landmarks"),
                    Fact::measured("ridge", self.ridge),
                ],
            ),
            LatentFunction::Process => (
                Link::LatentLogistic,
                vec![Fact::new(
                    "model",
                    "Gaussian process classifier through landmarks (Laplace approximation)",
                )],
            ),
        };
        if let Some((own, evidence)) = &self.posterior {
            card.push(Fact::measured("log marginal likelihood", *evidence));
            card.push(Fact::measured("jitter of the landmarks' kernel", own.jitter));
        }
        card.extend([
            Fact::measured("jitter", self.curved.as_ref().map_or(0.0, |own| own.factor.jitter)),
            Fact::new("landmarks", m),
            Fact::measured("unexplained share of the kernel", self.plan.unexplained),
            Fact::new("rows", self.rows),
            Fact::new("passes", self.passes),
            Fact::measured("decrement before the last step", self.decrement),
            Fact::measured(
                "objective before the last step",
                self.last.as_ref().map_or(f64::NAN, |last| last.objective),
            ),
            Fact::new("plan", &self.plan.digest()[..16]),
        ]);
        card.extend(self.missing.iter().flat_map(LandmarkErrorEstimate::facts));
        let model = KernelExpansion {
            kernel: self.plan.kernel.clone(),
            support_points: self.plan.landmarks.clone(),
            coef: Matrix::column_vector(values[..m].to_vec()),
            intercept: vec![if self.intercept { values[m] } else { 0.0 }],
            output_names: vec![format!("{} vs {}", self.classes[1], self.classes[0])],
            link,
            classes: self.classes.clone(),
            model_card: card,
        };
        model.validate()?;
        let known = self.posterior.as_ref().map(|(own, _)| &own.covariance);
        let missing = self.missing.as_ref().map(|own| &own.covariance);
        let chosen = match self.by {
            LatentFunction::Penalised(_) => Some(self.ridge),
            LatentFunction::Process => None,
        };
        Ok(FittedModel {
            covariance: known.or(missing).cloned(),
            log_marginal_likelihood: self.posterior.as_ref().map(|(_, evidence)| *evidence),
            iterations: vec![self.passes],
            warnings: self.stopped_early.then(|| self.ended_short()).into_iter().collect(),
            chosen,
            ..model.into()
        })
    }
}
