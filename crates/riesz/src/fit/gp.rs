//! Gaussian process regression (Rasmussen and Williams 2006, chapters 2 and 5).
//!
//! Besides the mean, which is an [`Expansion`], a Gaussian process knows how sure it is: the fit keeps the Cholesky
//! factor from which posterior variances of predictions (and of any other linear functional) follow.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::evidence;
use crate::error::{Error, Result};
use crate::expansion::Expansion;
use crate::explanation::Fact;
use crate::kernel::{Kernel, mean_variance};
use crate::linalg::{Cholesky, Matrix, dot};
use crate::table::Table;

/// What is tuned by maximising the marginal likelihood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tune {
    /// Nothing: kernel and noise are taken as they are.
    Nothing,
    /// The kernel's parameters.
    Kernel,
    /// The kernel's parameters and the noise.
    KernelAndNoise,
}

/// `y_i = f(x_i) + ε_i` with `f` a Gaussian process and `ε_i` normal with variance `noise + row_noise_i`.
///
/// Several targets are independent processes with the same kernel and noise (scikit-learn's model).
///
/// ```
/// use riesz::fit::GaussianProcess;
/// use riesz::{Kernel, Matrix, Table};
///
/// let rows: Vec<[f64; 1]> = (0..30).map(|i| [f64::from(i) / 5.0]).collect();
/// let y = Matrix::column_vector(rows.iter().map(|r| 10.0 + r[0].sin()).collect());
/// let fit = GaussianProcess::new(Kernel::gaussian(&[1.0]), 0.1).fit(&Table::from_rows(&rows)?, &y)?;
/// let (mean, sd) = fit.predict_with_sd(&Table::from_rows(&[[3.3], [60.0]])?)?;
/// assert!((mean[(0, 0)] - (10.0 + 3.3_f64.sin())).abs() < 0.01);
/// assert!(sd[(0, 0)] < 0.01 && sd[(1, 0)] > 0.1); // far from the data it knows little
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct GaussianProcess {
    /// The prior covariance; where tuning starts. With `normalize_y` in units of the normalised target.
    pub kernel: Kernel,
    /// Variance of the noise, > 0; where tuning starts. With `normalize_y` in units of the normalised target.
    pub noise: f64,
    /// Known variances ≥ 0 of the errors of single rows, on top of `noise`, always in the target's own squared
    /// units. `None` for none.
    pub row_noise: Option<Vec<f64>>,
    /// Whether the process models `(y - mean) / standard deviation` (with divisor n) in place of y. The fit is in the
    /// target's own units all the same.
    pub normalize_y: bool,
    /// What is tuned.
    pub tune: Tune,
    /// Lower and upper bounds for [`parameters`](Self::parameters), in their order and on their scale. Equal bounds
    /// fix a parameter. `None` for 10⁻⁵ to 10⁵ times the start.
    pub bounds: Option<Vec<(f64, f64)>>,
    /// Runs of the optimiser from random places within the bounds, besides the run from the start.
    pub restarts: usize,
    /// Seed of these places. The result depends on it, but not on the number of threads.
    pub seed: u64,
}

/// A fitted Gaussian process.
#[derive(Debug, Clone)]
pub struct GpFit {
    /// The posterior mean in the targets' units. With one target its kernel and [`noise`](Self::noise) are in these
    /// (squared) units too; for several see [`target_scale`](Self::target_scale).
    pub model: Expansion,
    /// Variance of the noise, in the kernel's units.
    pub noise: f64,
    /// `log p(y)`, the logarithm of the density of the targets in their own units. scikit-learn gives that of
    /// normalised targets, which is larger by `n log(standard deviation)` for each.
    pub log_marginal_likelihood: f64,
    /// The factor of `K + noise`, with K the gram matrix of the model's kernel at its points.
    pub factor: Cholesky,
    /// One a target: variances of target o are `target_scale[o]²` times what kernel and factor give. 1 unless several
    /// targets were normalised.
    pub target_scale: Vec<f64>,
    /// What had to be added to the diagonal besides the noise, in the kernel's units.
    pub jitter: f64,
    /// The parameters used, in the order and on the scale of [`GaussianProcess::parameters`].
    pub theta: Vec<f64>,
    /// Steps of the optimiser, all runs together.
    pub steps: usize,
    /// Evaluations of the marginal likelihood, all runs together.
    pub evaluations: usize,
    /// What to look at: parameters that ended at a bound, runs that failed.
    pub warnings: Vec<String>,
}

/// Targets as the process models them.
struct Targets {
    /// n × targets: minus `center`, divided by `scale`.
    values: Matrix,
    center: Vec<f64>,
    scale: Vec<f64>,
    /// Multiplies kernel and noise: one target's own variance, so that it need not be scaled.
    variance: f64,
}

/// Kernel, noise and α at one set of parameters.
struct State {
    kernel: Kernel,
    noise: f64,
    factor: Cholesky,
    alpha: Matrix,
    value: f64,
}

impl GaussianProcess {
    /// A process whose kernel and noise are tuned from these starts, on normalised targets, without restarts.
    pub fn new(kernel: Kernel, noise: f64) -> Self {
        Self {
            kernel,
            noise,
            row_noise: None,
            normalize_y: true,
            tune: Tune::KernelAndNoise,
            bounds: None,
            restarts: 0,
            seed: 0,
        }
    }

    /// Names and starting values of what can be tuned, on the tuning scale: the kernel's parameters, then the
    /// logarithm of the noise.
    pub fn parameters(&self) -> Vec<crate::kernel::Parameter> {
        let mut all = self.kernel.parameters();
        all.push(crate::kernel::Parameter { name: "noise".into(), log_value: self.noise.ln() });
        all
    }

    /// Fits to `y` (n × targets). Cost n³/3 and the gram matrix, O(n² d); when tuning, n³ and O(n² parameters) for
    /// each evaluation. Memory n² (2 n² when tuning).
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`]; [`Error::Target`] if a target to
    /// be normalised is constant; [`Error::Overflow`] if the kernel is; [`Error::NotPositiveDefinite`].
    pub fn fit(&self, x: &Table, y: &Matrix) -> Result<GpFit> {
        let targets = self.check(x, y)?;
        let parameters = self.parameters();
        let start: Vec<f64> = parameters.iter().map(|p| p.log_value).collect();
        let names: Vec<String> = parameters.into_iter().map(|p| p.name).collect();
        let mut bounds = evidence::bounds(self.bounds.as_deref(), &start, &names)?;
        let (mut theta, mut steps, mut evaluations, mut warnings) = (start.clone(), 0, 0, Vec::new());
        let (mut kernel, mut noise) = (self.kernel.clone(), self.noise);
        if self.tune != Tune::Nothing {
            if self.tune == Tune::Kernel {
                bounds[start.len() - 1] = (self.noise.ln(), self.noise.ln());
            }
            let objective = |theta: &[f64]| {
                let (kernel, noise) = self.at(theta);
                self.state(x, &targets, kernel, noise).map(|state| (state.value, gradient(x, state)))
            };
            let found = evidence::maximise(&start, &bounds, &names, self.restarts, self.seed, objective)?;
            (theta, steps, evaluations, warnings) =
                (found.theta, found.steps, found.evaluations, found.warnings);
            (kernel, noise) = self.at(&theta);
        }
        let State { kernel, noise, factor, mut alpha, value } = self.state(x, &targets, kernel, noise)?;
        let jitter = factor.jitter;
        for i in 0..x.rows() {
            alpha.row_mut(i).iter_mut().zip(&targets.scale).for_each(|(a, s)| *a *= s);
        }
        let mut model = Expansion::new(kernel, x.clone(), alpha, targets.center)?;
        model.card = vec![Fact::new("model", "Gaussian process regression"), Fact::measured("noise", noise)];
        if targets.variance != 1.0 {
            // Both the units of the kernel and those in which the noise is given.
            model.card[1].name = "noise, in squared units of the target".into();
            let given =
                Fact::measured("noise, in units of the standardised target", noise / targets.variance);
            model.card.push(given);
        }
        if self.row_noise.is_some() {
            model.card.push(Fact::new("noise of single rows", "given"));
        }
        model.card.push(Fact::measured("log marginal likelihood", value));
        model.card.push(Fact::measured("jitter", jitter));
        if self.tune != Tune::Nothing {
            model.card.push(Fact::new("restarts", self.restarts));
            model.card.push(Fact::new("optimiser steps", steps));
        }
        model.card.extend(warnings.iter().map(|w| Fact::new("warning", w)));
        Ok(GpFit {
            model,
            noise,
            log_marginal_likelihood: value,
            factor,
            target_scale: targets.scale,
            jitter,
            theta,
            steps,
            evaluations,
            warnings,
        })
    }

    /// `log p(y)` and its gradient in `theta`, which has the order and scale of [`parameters`](Self::parameters):
    ///
    /// ```text
    /// log p(y) = -½ yᵀα - ½ log det(K + N) - n/2 log 2π,   α = (K + N)⁻¹ y
    /// ∂ log p(y)/∂θ = ½ Σ_ii' (αα' - (K + N)⁻¹)_ii' ∂(K + N)_ii'/∂θ
    /// ```
    ///
    /// (Rasmussen and Williams 2006, equations 2.30 and 5.9), summed over targets. Cost n³ and O(n² parameters).
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn log_marginal_likelihood(&self, x: &Table, y: &Matrix, theta: &[f64]) -> Result<(f64, Vec<f64>)> {
        let targets = self.check(x, y)?;
        let expected = self.kernel.parameters().len() + 1;
        if theta.len() != expected {
            return Err(Error::Shape {
                what: "theta".into(),
                unit: "numbers",
                expected,
                found: theta.len(),
                why: "one a parameter of the kernel, and the noise".into(),
            });
        }
        let (kernel, noise) = self.at(theta);
        self.state(x, &targets, kernel, noise).map(|state| (state.value, gradient(x, state)))
    }

    fn at(&self, theta: &[f64]) -> (Kernel, f64) {
        let (kernel, noise) = theta.split_at(theta.len() - 1);
        (self.kernel.with_parameters(kernel), noise[0].exp())
    }

    fn check(&self, x: &Table, y: &Matrix) -> Result<Targets> {
        super::check(x, y.rows(), 2)?;
        self.kernel.validate(x.width())?;
        if y.cols() == 0 {
            return Err(Error::TooFew { what: "the target".into(), needed: 1, unit: "column is" });
        }
        if !(self.noise.is_finite() && self.noise > 0.0) {
            return Err(Error::parameter("noise", self.noise, "it is a positive number (a variance)"));
        }
        if let Some(at) = y.data().iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite {
                row: at / y.cols(),
                column: "target".into(),
                value: y.data()[at],
            });
        }
        if let Some(row_noise) = &self.row_noise {
            if row_noise.len() != x.rows() {
                return Err(Error::Shape {
                    what: "row_noise".into(),
                    unit: "numbers",
                    expected: x.rows(),
                    found: row_noise.len(),
                    why: "one a row of the table".into(),
                });
            }
            if let Some(bad) = row_noise.iter().find(|v| !(v.is_finite() && **v >= 0.0)) {
                return Err(Error::parameter("row_noise", bad, "variances are not negative"));
            }
            if self.normalize_y && y.cols() > 1 {
                return Err(Error::parameter(
                    "row_noise",
                    "given",
                    "with several normalised targets it would differ between them: fit them one by one",
                ));
            }
        }
        let m = y.cols();
        let (mut center, mut scale, mut variance) = (vec![0.0; m], vec![1.0; m], 1.0);
        if self.normalize_y {
            for o in 0..m {
                let (mean, spread) = mean_variance(&y.column(o));
                // Constant within rounding of the mean.
                if !(spread.sqrt() > 1e-12 * mean.abs() && spread > 0.0 && spread.is_finite()) {
                    return Err(Error::Target {
                        name: format!("target {}", o + 1),
                        problem: format!(
                            "has no spread to normalise by (mean {mean:.4e}, variance {spread:.1e}): there is nothing to \
                             learn, or set normalize_y to false"
                        ),
                    });
                }
                center[o] = mean;
                if m == 1 {
                    variance = spread;
                } else {
                    scale[o] = spread.sqrt();
                }
            }
        }
        let mut values = y.clone();
        for i in 0..y.rows() {
            for (o, v) in values.row_mut(i).iter_mut().enumerate() {
                *v = (*v - center[o]) / scale[o];
            }
        }
        Ok(Targets { values, center, scale, variance })
    }

    /// Everything but the gradient (Rasmussen and Williams 2006, algorithm 2.1).
    fn state(&self, x: &Table, targets: &Targets, kernel: Kernel, noise: f64) -> Result<State> {
        let kernel = if targets.variance == 1.0 { kernel } else { targets.variance * kernel };
        let noise = targets.variance * noise;
        super::check_range(&kernel, x)?;
        let mut covariance = kernel.gram(x);
        covariance.add_diagonal(|i| noise + self.row_noise.as_ref().map_or(0.0, |r| r[i]));
        let factor = Cholesky::new(covariance, "gram matrix plus noise")?;
        let alpha = factor.solve(targets.values.clone());
        let (n, m) = (x.rows() as f64, alpha.cols() as f64);
        let units: f64 = targets.scale.iter().map(|s| s.ln()).sum();
        let value = -0.5 * dot(alpha.data(), targets.values.data())
            - 0.5 * m * (factor.log_det() + n * std::f64::consts::TAU.ln())
            - n * units;
        if !value.is_finite() {
            let what = "the log marginal likelihood".into();
            return Err(Error::Overflow { what, remedy: "check the kernel's parameters and the noise" });
        }
        Ok(State { kernel, noise, factor, alpha, value })
    }
}

/// The gradient of the log marginal likelihood in the kernel's parameters and the logarithm of the noise.
fn gradient(x: &Table, state: State) -> Vec<f64> {
    let m = state.alpha.cols() as f64;
    let mut weights = state.factor.inverse();
    weights.data_mut().par_chunks_mut(x.rows()).enumerate().for_each(|(i, row)| {
        let own = state.alpha.row(i);
        for (j, w) in row.iter_mut().enumerate() {
            *w = 0.5 * (dot(own, state.alpha.row(j)) - m * *w);
        }
    });
    let mut gradient = state.kernel.gradient(x, &weights);
    gradient.push(state.noise * (0..x.rows()).map(|i| weights[(i, i)]).sum::<f64>());
    gradient
}

/// Rows predicted at a time, which bounds memory.
pub(super) const BLOCK: usize = 128;

impl GpFit {
    /// Posterior mean and standard deviation of `f` at the rows of `x`, both rows × targets (Rasmussen and Williams
    /// 2006, equations 2.25 and 2.26). The noise of a new observation is not included: its variance is
    /// `sd² + target_scale² · noise`. Cost O(n² + n d) a row.
    ///
    /// # Errors
    /// As [`Expansion::predict`].
    pub fn predict_with_sd(&self, x: &Table) -> Result<(Matrix, Matrix)> {
        let mean = self.model.predict(x)?;
        let x = x.conform(self.model.columns())?;
        let mut sd = Matrix::zeros(x.rows(), self.target_scale.len());
        for start in (0..x.rows()).step_by(BLOCK) {
            let rows: Vec<usize> = (start..x.rows().min(start + BLOCK)).collect();
            let block = x.select_rows(&rows);
            let variance = column_squares(&self.explained(&block));
            for (r, (prior, explained)) in self.model.kernel.diagonal(&block).iter().zip(variance).enumerate()
            {
                let own = (prior - explained).max(0.0).sqrt();
                sd.row_mut(start + r).iter_mut().zip(&self.target_scale).for_each(|(s, t)| *s = t * own);
            }
        }
        Ok((mean, sd))
    }

    /// Posterior covariance of `f` between the rows of `x` (rows × rows), to be multiplied by `target_scale[o]²` for
    /// target o. Cost O(n² rows + n rows²).
    ///
    /// # Errors
    /// As [`Table::conform`].
    pub fn covariance(&self, x: &Table) -> Result<Matrix> {
        let x = x.conform(self.model.columns())?;
        let mut covariance = self.model.kernel.gram(&x);
        let half = self.explained(&x);
        let explained = half.transpose().matmul(&half);
        covariance.data_mut().iter_mut().zip(explained.data()).for_each(|(c, e)| *c -= e);
        Ok(covariance)
    }

    /// `L⁻¹ k(points, x)`, n × rows.
    fn explained(&self, x: &Table) -> Matrix {
        let mut half = self.model.kernel.cross_gram(&self.model.points, x);
        self.factor.solve_lower_in_place(&mut half);
        half
    }
}

/// The squared norms of the columns.
pub(super) fn column_squares(matrix: &Matrix) -> Vec<f64> {
    let mut sums = vec![0.0; matrix.cols()];
    for i in 0..matrix.rows() {
        sums.iter_mut().zip(matrix.row(i)).for_each(|(s, v)| *s += v * v);
    }
    sums
}
