//! Classification of two classes through landmarks by Newton's method. Each step takes one pass over all
//! rows, whose results are integers.
//!
//! The problem is `min Σ_i w_i log(1 + exp(-s_i f(x_i))) + (ridge/2) ‖f‖²` with classes `s_i = ±1` and
//! weights `w_i`, over functions f of the landmarks and a constant. K (n × (m + 1)) holds the kernel values
//! of the rows with the m landmarks and a column of ones, and P (m + 1 square) is the landmarks' gram matrix,
//! with 0 for the constant. A step d solves `(Kᵀ D K + ridge P) d = Kᵀ w (y - p) - ridge P θ` with
//! `D = w p (1 - p)` (diagonal).
//!
//! Most of the cost of a pass is `Kᵀ D K`. This matrix is therefore reused, and updated by the secants of the
//! steps, as long as the steps reduce the residual. The iteration starts at the solution for a sample of the
//! rows. With a ridge of 1 and no constant the solution is the mode of a Gaussian process through the
//! landmarks. Laplace's approximation of its posterior equals the posterior given observations with variances
//! 1/D (Rasmussen and Williams 2006, section 3.4).

use super::coefficients::Coefficients;
use super::nested::{LandmarkErrorEstimate, NestedFits};
use super::plan::{FitPlan, LatentFunction, Model};
use super::rows::LabelledRows;
use super::sample::{add_penalty, penalty_times};
use super::slope::{LogisticGradient, LogisticGradientBuilder};
use crate::error::{Error, Result};
use crate::fit::InducingLaplace;
use crate::fit::task::FittedModel;
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Cholesky, Matrix, add_multiple, add_to, differences, dot};
use crate::model_card::CardEntry;

/// State of Newton's method.
#[derive(Debug, Clone)]
pub struct StreamingNewton {
    plan: FitPlan,
    latent_function: LatentFunction,
    /// Factor of `‖f‖²/2` in the objective.
    ridge: f64,
    intercept: bool,
    /// The names of the two classes.
    classes: Vec<String>,
    /// The coefficients at which the next gradient is needed.
    pub coefficients: Coefficients,
    /// Point, objective and gradient of the last accepted step.
    last_accepted: Option<AcceptedPoint>,
    /// The most recently computed curvature, with the secants since then.
    curved: Option<HessianModel>,
    /// Number of passes so far.
    pub passes: usize,
    /// Newton decrement `gᵀ H⁻¹ g` of the last pass: about twice the distance of the objective from its
    /// minimum.
    pub decrement: f64,
    rows: u64,
    /// Whether the iteration has ended.
    pub converged: bool,
    /// Whether the iteration ends with the next pass that computes the curvature.
    stop_at_next: bool,
    /// Whether the iteration ended early because it took many passes.
    stopped_early: bool,
    /// Number of times that the curvature was recomputed because the steps reduced the decrement too little.
    hessian_refreshes: usize,
    /// Estimated distance from the fit with all rows as support points.
    missing: Option<LandmarkErrorEstimate>,
    /// Posterior of a Gaussian process, and the logarithm of the marginal likelihood in Laplace's
    /// approximation.
    posterior: Option<(InducingLaplace, f64)>,
}

/// The last accepted step.
#[derive(Debug, Clone)]
struct AcceptedPoint {
    values: Matrix,
    objective: f64,
    /// Gradient of the objective with the opposite sign.
    gradient: Vec<f64>,
}

/// Curvature at one iterate, updated by the secants of the later steps.
#[derive(Debug, Clone)]
struct HessianModel {
    /// Cholesky factor of `KᵀDK + ridge P`.
    factor: Cholesky,
    /// `Σ D`.
    weight: f64,
    /// Secants: steps, and the changes of the gradient along them.
    secants: Vec<(Vec<f64>, Vec<f64>)>,
}

impl HessianModel {
    /// The inverse curvature times a vector, from the factor and all secants (two-loop recursion of BFGS,
    /// Nocedal 1980).
    fn solve(&self, gradient: &[f64]) -> Vec<f64> {
        let mut projected = gradient.to_vec();
        let mut step_coefficients = Vec::new();
        for (step, growth) in self.secants.iter().rev() {
            let coefficient = dot(step, &projected) / dot(step, growth);
            add_multiple(&mut projected, -coefficient, growth);
            step_coefficients.push(coefficient);
        }
        let mut change = self.factor.solve_vector(&projected);
        for ((step, growth), coefficient) in self.secants.iter().zip(step_coefficients.into_iter().rev()) {
            let other = dot(growth, &change) / dot(step, growth);
            add_multiple(&mut change, coefficient - other, step);
        }
        change
    }
}

/// Thresholds of convergence: decrements relative to the objective. The first number of each pair holds with
/// the curvature of the current iterate, whose steps square the decrement. The second one holds with an
/// earlier curvature, for the decrement that the step should leave, as estimated from the last two. With
/// decrements below `STALLED` the iteration also ends when a step doesn't halve the decrement.
const CONVERGED: (f64, f64) = (1e-9, 1e-15);
const STALLED: (f64, f64) = (1e-6, 1e-9);
/// Decrement, relative to the objective, above which every pass computes the curvature: a pass with the
/// curvature takes about eight times as long as a pass without.
const FULL_HESSIAN_ABOVE: f64 = 0.1;
/// Ratio of a decrement to the one before above which the curvature is recomputed, and the maximum number of
/// such recomputations. There is a maximum because rounding can be a large part of the curvature, as with
/// nearly linearly dependent landmarks; secants are then more accurate.
const REFRESH_RATIO: f64 = 0.1;
const RENEWED: usize = 3;
/// Number of passes after which the relative decrement `TOLERABLE` suffices.
const MAX_PASSES_RELAXED: usize = 40;
const TOLERABLE: f64 = 1e-4;

/// Number of sample rows per landmark for the starting values, and the minimum number of rows of each class.
const STARTED_FROM: usize = 5;
const OF_EITHER: usize = 50;
/// Decrement, relative to the objective, at which the search for starting values ends: the sample has no more
/// information about the solution for all rows.
const ROUGH: f64 = 1e-3;

/// Maximum number of steps of the search for starting values.
const STARTS: usize = 20;

/// Starting values: approximate coefficients for a sample of the rows, with the sample's share of the ridge.
/// They are empty where the sample is not representative, or where the fit of the sample is not much cheaper
/// than that of all rows. Cost O(landmarks³) per step.
///
/// # Errors
/// Those of [`StreamingNewton::new`], and those of rows that don't match the plan.
pub(super) fn start_of_classes(plan: &FitPlan, sample: &LabelledRows, intercept: bool) -> Result<Vec<f64>> {
    let sample_rows = sample.head(plan.landmarks.rows().saturating_mul(STARTED_FROM).max(1000));
    let n_positive = sample_rows.y.data().iter().filter(|y| **y > 0.0).count();
    if plan.rows < 2 * sample_rows.len() as u64 || n_positive.min(sample_rows.len() - n_positive) < OF_EITHER
    {
        return Ok(Vec::new());
    }
    let solve_sample = || {
        let mut newton = StreamingNewton::new(plan, intercept)?;
        newton.ridge *= sample_rows.len() as f64 / plan.rows as f64;
        loop {
            let coefficients = newton.coefficients.clone();
            let mut slope = LogisticGradientBuilder::new(plan, &coefficients);
            slope.add(&sample_rows)?;
            newton.step(&slope.finish(0))?;
            let nearly_converged = newton.decrement <= ROUGH * newton.last_objective();
            if newton.converged || nearly_converged || newton.passes >= STARTS {
                return Ok::<_, Error>(newton.coefficients.values.into_data());
            }
        }
    };
    match solve_sample() {
        // Where the sample's fit fails, the fit of all rows will report the reason.
        Err(Error::NotConverged { .. } | Error::NotPositiveDefinite { .. } | Error::Overflow { .. }) => {
            Ok(Vec::new())
        }
        found => found,
    }
}

impl StreamingNewton {
    /// Starts at the plan's starting values.
    ///
    /// # Errors
    /// [`Error::Format`] for a plan of another kind; [`Error::Parameter`] for a ridge that is not positive;
    /// [`Error::Target`] if there are not two classes.
    pub fn new(plan: &FitPlan, intercept: bool) -> Result<Self> {
        let Model::Classes { names, latent_function, start } = &plan.model else {
            return Err(Error::format("this plan is not for a classification"));
        };
        let ridge = match latent_function {
            LatentFunction::Penalised(ridge) => *ridge,
            LatentFunction::Process => 1.0,
        };
        // A Gaussian process has its prior mean instead of an intercept.
        let intercept = intercept && *latent_function != LatentFunction::Process;
        crate::checks::positive("ridge", ridge)?;
        if plan.targets.len() != 1 || plan.targets[0].center != 0.5 || names.len() != 2 {
            return Err(Error::target(
                "target",
                "must have exactly two classes, 0 and 1, for a fit through landmarks",
            ));
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
            latent_function: *latent_function,
            intercept,
            classes: names.clone(),
            last_accepted: None,
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

    /// Takes a step, given the gradient of all rows at [`coefficients`](Self::coefficients). Cost
    /// O(landmarks³).
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`]; [`Error::NotConverged`] where steps no longer reduce the objective.
    pub fn step(&mut self, slope: &LogisticGradient) -> Result<()> {
        let (p, ridge) = (self.plan.size(), self.ridge);
        let theta = self.coefficients.values.data().to_vec();
        let penalty_gradient = penalty_times(&self.plan, &self.coefficients.values);
        let penalty_gradient: Vec<f64> = penalty_gradient.data().iter().map(|v| ridge * v).collect();
        let objective = slope.loss(&self.plan) + 0.5 * dot(&theta, &penalty_gradient);
        (self.passes, self.rows) = (self.passes + 1, slope.rows());
        if let Some(midpoint) = self.midpoint_after_rise(&theta, objective)? {
            self.coefficients = Coefficients { values: midpoint, curvature: true };
            (self.stop_at_next, self.stopped_early) = (false, false);
            return Ok(());
        }
        let size = if self.intercept { p } else { p - 1 };
        if slope.has_curvature() {
            self.curved = Some(self.factored(slope, size)?);
        }
        let Some(curved) = &mut self.curved else {
            return Err(Error::format("this pass has no curvature, but the first pass needs it"));
        };
        let gradient = differences(&slope.gradient(&self.plan)[..size], &penalty_gradient);
        if let Some(accepted) = self.last_accepted.as_ref().filter(|_| !slope.has_curvature()) {
            let (step, growth) = (
                differences(&theta[..size], accepted.values.data()),
                differences(&accepted.gradient, &gradient),
            );
            // Differences that may be rounding errors give no secant.
            if dot(&step, &growth) > 1e-12 * (dot(&step, &step) * dot(&growth, &growth)).sqrt() {
                curved.secants.push((step, growth));
            }
        }
        let change = curved.solve(&gradient);
        let previous_decrement = std::mem::replace(&mut self.decrement, dot(&gradient, &change));
        self.last_accepted =
            Some(AcceptedPoint { values: self.coefficients.values.clone(), objective, gradient });
        let mut values = theta;
        add_to(&mut values, &change);
        let curvature = self.check_convergence(objective, previous_decrement, slope.has_curvature());
        self.coefficients = Coefficients { values: Matrix::from_row_major(p, 1, values), curvature };
        if self.passes > 100 && !self.converged {
            return Err(self.not_converged(self.decrement));
        }
        if self.converged {
            self.end(slope)?;
        }
        Ok(())
    }

    /// Returns the middle between the last accepted point and `theta` if the objective rose from one to the
    /// other.
    fn midpoint_after_rise(&self, theta: &[f64], objective: f64) -> Result<Option<Matrix>> {
        let has_risen = |point: &&AcceptedPoint| objective > point.objective + 1e-12 * point.objective.abs();
        let Some(accepted) = self.last_accepted.as_ref().filter(has_risen) else { return Ok(None) };
        let previous_values = &accepted.values;
        let midpoint = previous_values.data().iter().zip(theta).map(|(a, b)| 0.5 * (a + b)).collect();
        let midpoint = Matrix::from_row_major(theta.len(), 1, midpoint);
        if self.passes > 60 || midpoint == *previous_values {
            return Err(self.not_converged(objective - accepted.objective));
        }
        Ok(Some(midpoint))
    }

    /// Decides whether the iteration ends, from the objective, the decrement and the previous decrement.
    /// Returns whether the next pass computes the curvature; `has_curvature` says whether this one did.
    fn check_convergence(&mut self, objective: f64, previous_decrement: f64, has_curvature: bool) -> bool {
        // Rounding may make the decrement negative.
        let relative_decrement = self.decrement.abs() / objective.abs();
        let (done, stalled) = match has_curvature {
            true => (relative_decrement <= CONVERGED.0, STALLED.0),
            false => (
                relative_decrement * (self.decrement / previous_decrement).min(1.0) <= CONVERGED.1,
                STALLED.1,
            ),
        };
        // Or only rounding errors change the iterate.
        let at_optimum = done || relative_decrement <= stalled && self.decrement > 0.5 * previous_decrement;
        self.stopped_early |= !at_optimum
            && !self.stop_at_next
            && self.passes >= MAX_PASSES_RELAXED
            && relative_decrement <= TOLERABLE;
        // A Gaussian process needs the curvature at the last iterate.
        let finishes = at_optimum || self.stopped_early || self.stop_at_next;
        self.converged = finishes && (has_curvature || self.latent_function != LatentFunction::Process);
        self.stop_at_next = finishes;
        let needs_refresh = if has_curvature {
            relative_decrement > FULL_HESSIAN_ABOVE
        } else {
            self.decrement > REFRESH_RATIO * previous_decrement && self.hessian_refreshes < RENEWED
        };
        self.hessian_refreshes += usize::from(!has_curvature && needs_refresh);
        needs_refresh || finishes
    }

    /// Curvature model from the matrix of the Newton step.
    fn factored(&self, slope: &LogisticGradient, size: usize) -> Result<HessianModel> {
        let mut matrix = slope.curvature(&self.plan, size);
        add_penalty(&self.plan, self.ridge, &mut matrix);
        let factor = Cholesky::new(matrix, "matrix of Newton's method")?;
        Ok(HessianModel { factor, weight: slope.weight(&self.plan), secants: Vec::new() })
    }

    /// The error for an iteration whose last change was `change`.
    fn not_converged(&self, change: f64) -> Error {
        let (method, iterations) = ("the classification through landmarks", self.passes);
        Error::NotConverged { method, iterations, change, remedy: self.remedy() }
    }

    fn remedy(&self) -> &'static str {
        match self.latent_function {
            LatentFunction::Penalised(_) => "raise the ridge",
            LatentFunction::Process => "take fewer landmarks, or a kernel of smaller scale",
        }
    }

    /// The objective of the last accepted step; NaN before the first one.
    fn last_objective(&self) -> f64 {
        self.last_accepted.as_ref().map_or(f64::NAN, |accepted| accepted.objective)
    }

    /// The warning for an iteration that stopped early.
    fn ended_short(&self) -> String {
        let above = 0.5 * self.decrement / self.last_objective().abs();
        format!(
            "Newton's method ended after {} passes with the objective above its minimum by a \
             relative {above:.0e}, because the landmarks are nearly linearly dependent: {}",
            self.passes,
            self.remedy()
        )
    }

    /// Computes the estimated error of the landmarks and the posterior at the solution.
    fn end(&mut self, slope: &LogisticGradient) -> Result<()> {
        let plan = &self.plan;
        let nested_fits = |curved: &HessianModel| {
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
        self.missing = self.curved.as_ref().and_then(nested_fits);
        if self.latent_function == LatentFunction::Process {
            // The objective after the last step, by its quadratic model.
            let final_objective = self.last_objective() - 0.5 * self.decrement;
            let rounding = 0.5 * plan.bound * 0.5_f64.powi(22);
            let gram = slope.curvature(plan, plan.landmarks.rows());
            let laplace = InducingLaplace::new(&plan.kernel, &plan.landmarks, gram, rounding)?;
            let evidence = -final_objective - 0.5 * laplace.volume;
            self.posterior = Some((laplace, evidence));
        }
        Ok(())
    }

    /// The model in its current state, with the posterior of a Gaussian process, or else the estimated error
    /// of the landmarks.
    ///
    /// # Errors
    /// Those of an expansion.
    pub fn fitted(&self) -> Result<FittedModel> {
        let m = self.plan.landmarks.rows();
        let values = self.coefficients.values.data();
        let (link, chosen, mut card) = match self.latent_function {
            LatentFunction::Penalised(_) => (
                Link::Logistic,
                Some(self.ridge),
                vec![
                    CardEntry::new("model", "kernel logistic regression through landmarks"),
                    CardEntry::measured("ridge", self.ridge),
                ],
            ),
            LatentFunction::Process => (
                Link::LatentLogistic,
                None,
                vec![CardEntry::new(
                    "model",
                    "Gaussian process classifier through landmarks (Laplace approximation)",
                )],
            ),
        };
        if let Some((laplace, evidence)) = &self.posterior {
            card.push(CardEntry::measured("log marginal likelihood", *evidence));
            card.push(CardEntry::measured("jitter of the landmarks' kernel", laplace.jitter));
        }
        card.extend([
            CardEntry::measured("jitter", self.curved.as_ref().map_or(0.0, |hessian| hessian.factor.jitter)),
            CardEntry::new("landmarks", m),
            CardEntry::measured("unexplained share of the kernel", self.plan.unexplained),
            CardEntry::new("rows", self.rows),
            CardEntry::new("passes", self.passes),
            CardEntry::measured("decrement before the last step", self.decrement),
            CardEntry::measured("objective before the last step", self.last_objective()),
            CardEntry::new("plan", &self.plan.digest()[..16]),
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
        let posterior_covariance = self.posterior.as_ref().map(|(laplace, _)| &laplace.covariance);
        let landmark_covariance = self.missing.as_ref().map(|estimate| &estimate.covariance);
        Ok(FittedModel {
            covariance: posterior_covariance.or(landmark_covariance).cloned(),
            log_marginal_likelihood: self.posterior.as_ref().map(|(_, evidence)| *evidence),
            iterations: vec![self.passes],
            warnings: self.stopped_early.then(|| self.ended_short()).into_iter().collect(),
            chosen,
            ..model.into()
        })
    }
}
