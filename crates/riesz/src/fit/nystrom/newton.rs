//! Classification of two classes through landmarks, by Newton's method: a pass over all rows for each step, of which only whole
//! numbers are kept.
//!
//! `min Σ_i w_i log(1 + exp(-s_i f(x_i))) + (ridge/2) ‖f‖²`, s = ±1, over functions of the landmarks and a constant. A step solves
//! `(Kᵀ D K + ridge P) d = Kᵀ w (y - p) - ridge P θ` with D = w p (1 - p). Most of a pass is `Kᵀ D K`, so that of a regression is
//! kept, with what steps show of it, for as long as these shrink what is left. With a ridge of 1 and no constant that is the mode of a
//! Gaussian process known through its landmarks, and Laplace's approximation of its posterior is that of observations with
//! variances 1/D (Rasmussen and Williams 2006, section 3.4).

use super::nested::{Missing, Nested};
use super::plan::{Latent, Model, Plan, penalty};
use super::residual::Coefficients;
use super::slope::Slope;
use crate::error::{Error, Result};
use crate::expansion::{Expansion, Link};
use crate::explanation::Fact;
use crate::fit::Laplace;
use crate::fit::task::Fitted;
use crate::linalg::{Cholesky, Matrix, dot};

/// Newton's method, step by step.
#[derive(Debug, Clone)]
pub struct Newton {
    plan: Plan,
    by: Latent,
    intercept: bool,
    /// The two classes.
    classes: Vec<String>,
    /// P.
    penalty: Matrix,
    /// Where the next slope is to be taken.
    pub coefficients: Coefficients,
    /// Where the last good slope was taken.
    last: Option<Last>,
    /// Of the last slope with curvature.
    curved: Option<Curved>,
    /// Slopes so far.
    pub passes: usize,
    /// `gᵀ H⁻¹ g` at the last of them: twice what the objective is above its least, about.
    pub decrement: f64,
    rows: u64,
    /// Whether it has ended.
    pub converged: bool,
    /// How far it is from the fit with all rows as support points.
    missing: Option<Missing>,
    /// Of a process, and the logarithm of the marginal likelihood in Laplace's approximation.
    posterior: Option<(Laplace, f64)>,
}

/// Where a good slope was taken.
#[derive(Debug, Clone)]
struct Last {
    values: Matrix,
    objective: f64,
    /// That of the objective, with the opposite sign.
    gradient: Vec<f64>,
}

/// The curvature somewhere, and what steps since then have shown of it.
#[derive(Debug, Clone)]
struct Curved {
    /// Of `KᵀDK + ridge P`.
    factor: Cholesky,
    /// `Σ D`.
    weight: f64,
    /// Steps, and by how much gradients grew.
    secants: Vec<(Vec<f64>, Vec<f64>)>,
}

impl Curved {
    /// The inverse curvature times a vector, as the factor and all secants say (BFGS, in the two loops of Nocedal 1980).
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

/// Decrements, relative to the objective, after which one step more is the last, and those which are so small that it is when they no
/// longer shrink by half: by the curvature where the slope is, with which they square, and by that of an earlier slope.
const LAST: ((f64, f64), (f64, f64)) = ((1e-9, 1e-6), (1e-14, 1e-9));
/// Decrements, relative to the objective, from which on the curvature is no longer summed up at every step: a pass with it takes as
/// long as some eight without.
const NEAR: f64 = 1e-2;
/// What a decrement is of the one before it where it is summed up anew.
const POOR: f64 = 0.1;

impl Newton {
    /// From coefficients of 0.
    ///
    /// # Errors
    /// [`Error::Format`] for a plan of another kind; [`Error::Parameter`] for a ridge that is not positive; [`Error::Target`] if
    /// there are not two classes.
    pub fn new(plan: &Plan, intercept: bool) -> Result<Self> {
        let Model::Classes { names, by } = &plan.model else {
            return Err(Error::Format { problem: "this plan is not one of classes".into() });
        };
        crate::fit::positive("ridge", by.ridge())?;
        if plan.targets.len() != 1 || plan.targets[0].center != 0.5 || names.len() != 2 {
            let problem =
                "has not exactly two classes, 0 and 1, as classification through landmarks needs".into();
            return Err(Error::Target { name: "target".into(), problem });
        }
        Ok(Self {
            penalty: penalty(plan),
            coefficients: Coefficients { values: Matrix::zeros(plan.size(), 1), curvature: true },
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
            missing: None,
            posterior: None,
        })
    }

    /// Takes a step by the slope of all rows at [`coefficients`](Self::coefficients). Cost O(landmarks³).
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`]; [`Error::NotConverged`] where steps no longer help.
    pub fn step(&mut self, slope: &Slope) -> Result<()> {
        let (p, ridge) = (self.plan.size(), self.by.ridge());
        let theta = self.coefficients.values.data().to_vec();
        let pull: Vec<f64> = self.penalty.matvec(&theta).iter().map(|v| ridge * v).collect();
        let objective = slope.loss(&self.plan) + 0.5 * dot(&theta, &pull);
        (self.passes, self.rows) = (self.passes + 1, slope.rows());
        if let Some(Last { values: before, objective: least, .. }) = &self.last
            && objective > least + 1e-12 * least.abs()
        {
            // Back halfway.
            let half = before.data().iter().zip(&theta).map(|(a, b)| 0.5 * (a + b)).collect();
            let half = Matrix::from_row_major(p, 1, half);
            if self.passes > 60 || half == *before {
                return Err(Error::NotConverged {
                    method: "the logistic regression through landmarks",
                    iterations: self.passes,
                    change: objective - least,
                    remedy: "raise the ridge",
                });
            }
            self.coefficients = Coefficients { values: half, curvature: true };
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
            if dot(&step, &growth) > 0.0 {
                curved.secants.push((step, growth));
            }
        }
        let change = curved.solve(&gradient);
        let before = std::mem::replace(&mut self.decrement, dot(&gradient, &change));
        self.last = Some(Last { values: self.coefficients.values.clone(), objective, gradient });
        let mut values = theta;
        values.iter_mut().zip(&change).for_each(|(v, c)| *v += c);
        let share = self.decrement / objective.abs();
        // Or rounding is all that moves it.
        let (last, stalled) = if slope.has_curvature() { LAST.0 } else { LAST.1 };
        self.converged = share <= last || share <= stalled && self.decrement > 0.5 * before;
        let moves = match slope.has_curvature() {
            true => share > NEAR,
            false => self.decrement > POOR * before,
        };
        let curvature = moves || self.by == Latent::Process;
        self.coefficients = Coefficients { values: Matrix::from_row_major(p, 1, values), curvature };
        if self.passes > 100 && !self.converged {
            let remedy = "raise the ridge";
            let (method, iterations) = ("the logistic regression through landmarks", self.passes);
            return Err(Error::NotConverged { method, iterations, change: self.decrement, remedy });
        }
        if self.converged {
            self.end(slope)?;
        }
        Ok(())
    }

    /// The matrix of a slope's Newton step.
    fn factored(&self, slope: &Slope, size: usize) -> Result<Curved> {
        let mut matrix = slope.curvature(&self.plan, size);
        for i in 0..size {
            let row = matrix.row_mut(i).iter_mut().zip(self.penalty.row(i));
            row.for_each(|(v, k)| *v += self.by.ridge() * k);
        }
        let factor = Cholesky::new(matrix, "matrix of Newton's method")?;
        Ok(Curved { factor, weight: slope.weight(&self.plan), secants: Vec::new() })
    }

    /// What else follows from the last slope.
    fn end(&mut self, slope: &Slope) -> Result<()> {
        let plan = &self.plan;
        let of = |curved: &Curved| {
            Nested {
                plan,
                factor: &curved.factor,
                ridge: self.by.ridge(),
                values: &self.coefficients.values,
                rows: slope.rows(),
                weight: curved.weight,
                rounding: 0.5 * plan.rounding(slope.rows(), 1),
            }
            .missing()
        };
        self.missing = self.curved.as_ref().and_then(of);
        if self.by == Latent::Process {
            // What the last step still gains, by its quadratic model.
            let least = self.last.as_ref().map_or(f64::NAN, |last| last.objective - 0.5 * self.decrement);
            let rounding = 0.5 * plan.bound * 0.5_f64.powi(22);
            let gram = slope.curvature(plan, plan.landmarks.rows());
            let own = Laplace::new(&plan.kernel, &plan.landmarks, gram, rounding)?;
            let evidence = -least - 0.5 * own.volume;
            self.posterior = Some((own, evidence));
        }
        Ok(())
    }

    /// The model, as far as it is, with the posterior of a process, or else what landmarks leave out of it.
    ///
    /// # Errors
    /// Those of an expansion.
    pub fn fitted(&self) -> Result<Fitted> {
        let m = self.plan.landmarks.rows();
        let values = self.coefficients.values.data();
        let (link, mut card) = match self.by {
            Latent::Penalised(ridge) => (
                Link::Logistic,
                vec![
                    Fact::new("model", "kernel logistic regression through landmarks"),
                    Fact::measured("ridge", ridge),
                ],
            ),
            Latent::Process => (
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
        card.extend(self.missing.iter().flat_map(Missing::facts));
        let model = Expansion {
            kernel: self.plan.kernel.clone(),
            points: self.plan.landmarks.clone(),
            coef: Matrix::column_vector(values[..m].to_vec()),
            intercept: vec![if self.intercept { values[m] } else { 0.0 }],
            output_names: vec![format!("{} vs {}", self.classes[1], self.classes[0])],
            link,
            classes: self.classes.clone(),
            card,
        };
        model.validate()?;
        let known = self.posterior.as_ref().map(|(own, _)| &own.covariance);
        let missing = self.missing.as_ref().map(|own| &own.covariance);
        let chosen = match self.by {
            Latent::Penalised(ridge) => Some(ridge),
            Latent::Process => None,
        };
        Ok(Fitted {
            covariance: known.or(missing).cloned(),
            log_marginal_likelihood: self.posterior.as_ref().map(|(_, evidence)| *evidence),
            iterations: vec![self.passes],
            chosen,
            ..model.into()
        })
    }
}
