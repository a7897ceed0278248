//! Kernel logistic regression, binary and multinomial. Its probabilities are part of the fit, without later
//! calibration.
//!
//! The coefficients are found by Newton's method (Rasmussen and Williams 2006, algorithms 3.1 and 3.3, with
//! an intercept and without the evidence). Every linear system has a matrix of the form
//! `I + D^½ K D^½ / ridge`, whose eigenvalues are at least 1 for any data. Steps are damped by the
//! generalised self-concordance of the loss (Bach 2010). The method therefore converges from zero, also for
//! separable classes.

use std::sync::atomic::AtomicBool;

use super::{DualFit, Penalty};
use crate::control::check_cancelled;
use crate::error::{Error, Result, sized};
use crate::fit::class_weights::{ClassWeight, row_weights};
use crate::gp::likelihood::logistic::log_logistic;
use crate::kernel::Kernel;
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Cholesky, Matrix, add_multiple, add_to, dot, lu_solve, mean, multiply_entries, select};
use crate::model_card::CardEntry;
use crate::table::Table;

/// The tolerance of fits in a search. The relative error of their loss is about its square.
pub(super) const SEARCH_TOLERANCE: f64 = 1e-4;

/// Kernel logistic regression: `min Σ_i w_i · -ln p(class of row i | x_i) + (ridge/2) Σ_o ‖f_o - b_o‖²`,
/// where `w_i` is the class weight times the sample weight.
///
/// Two classes have one output f, with `p(classes[1]) = 1/(1 + exp(-f))`. More classes have one output each,
/// with `p_c ∝ exp(f_c)` and sum zero. The outputs are `f_o = b_o + Σ_i α_io k(x_i, ·)`; the intercepts `b`
/// are not penalised. `ridge` is `1/C` of scikit-learn's `LogisticRegression`, which is this model with the
/// linear kernel. At the optimum `ridge · α_io = w_i ([row i is of class o] - p_o(x_i))`: the coefficient of
/// a row is proportional to its prediction error.
#[derive(Debug, Clone)]
pub struct KernelLogisticRegression {
    /// The kernel.
    pub kernel: Kernel,
    /// The penalty, > 0.
    pub ridge: f64,
    /// Weights of the classes.
    pub class_weight: ClassWeight,
    /// One weight ≥ 0 per row; rows of weight 0 are left out. `None` for equal weights.
    pub sample_weight: Option<Vec<f64>>,
    /// Whether outputs have an intercept (default), or are functions of the kernel alone.
    pub fit_intercept: bool,
    /// The largest accepted violation of the optimality condition, relative to the largest `ridge · |α|`
    /// (1e-12 by default). A larger one is accepted where it may be a rounding error.
    pub tolerance: f64,
    /// Maximum number of Newton steps, 100 by default. Ten steps are typical.
    pub max_iterations: usize,
    /// Whether a fit that reaches `max_iterations` returns its model, with `converged` false, instead of an
    /// error.
    pub keep_unfinished: bool,
    /// A further penalty, for example on Shapley values. It excludes rows of weight 0.
    pub penalty: Option<Penalty>,
    /// Starting values of Newton's method, by default zero: the result of a fit to the same rows with other
    /// settings, for paths of settings. Apart from rounding they only change the number of steps.
    pub start: Option<WarmStart>,
}

/// Final or initial values of Newton's method.
#[derive(Debug, Clone, PartialEq)]
pub struct WarmStart {
    /// `w_i ([row i is of class o] - p_o(x_i)) / ridge`, rows × outputs. Without a further penalty these are
    /// the model's coefficients.
    pub coef: Matrix,
    /// One intercept per output.
    pub intercept: Vec<f64>,
}

/// A fitted logistic regression.
#[derive(Debug, Clone)]
pub struct KlrFit {
    /// The model. Its support points are the rows of positive weight.
    pub model: KernelExpansion,
    /// Number of Newton steps.
    pub iterations: usize,
    /// Whether the iteration reached the tolerance; always true unless
    /// [`KernelLogisticRegression::keep_unfinished`] is set.
    pub converged: bool,
    /// The final value of the objective.
    pub objective: f64,
    /// The largest violation of the optimality condition, relative to the largest `ridge · |α|`.
    pub violation: f64,
    /// Values for [`KernelLogisticRegression::start`] of a fit with other settings.
    pub end: WarmStart,
}

impl KernelLogisticRegression {
    /// A model with an intercept, equal weights and a tolerance of 1e-12.
    pub fn new(kernel: Kernel, ridge: f64) -> Self {
        Self {
            kernel,
            ridge,
            class_weight: ClassWeight::None,
            sample_weight: None,
            fit_intercept: true,
            tolerance: 1e-12,
            max_iterations: 100,
            keep_unfinished: false,
            penalty: None,
            start: None,
        }
    }

    /// Fits to `labels`, one index into `classes` per row.
    ///
    /// For two classes the model has one output, the log odds of `classes[1]`, named
    /// `"classes[1] vs classes[0]"`. For more it has one output per class, with the class's name.
    ///
    /// Cost of a Newton step: n³/3 for two classes, about C n³ for C. Memory: 2 n² doubles, or (C + 4) n².
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Shape`], [`Error::TooFew`], [`Error::DuplicateName`]; [`Error::Target`]
    /// if a class has no rows; [`Error::NotConverged`]; [`Error::NotPositiveDefinite`]; [`Error::Overflow`]
    /// if kernel values are not finite.
    pub fn fit(&self, x: &Table, labels: &[usize], classes: &[String]) -> Result<KlrFit> {
        self.fit_until(x, labels, classes, &AtomicBool::new(false))
    }

    /// [`fit`](Self::fit) that returns [`Error::Interrupted`] soon after `stop` is set.
    pub(super) fn fit_until(
        &self,
        x: &Table,
        labels: &[usize],
        classes: &[String],
        stop: &AtomicBool,
    ) -> Result<KlrFit> {
        self.kernel.validate(x.width())?;
        crate::checks::positive("ridge", self.ridge)?;
        if !(self.tolerance > 0.0 && self.tolerance < 1.0) {
            return Err(Error::parameter("tolerance", self.tolerance, "it is between 0 and 1"));
        }
        let weights = row_weights(x, labels, classes, &self.class_weight, self.sample_weight.as_deref())?;
        super::check_dense(x.rows(), 2.0, super::THROUGH_LANDMARKS)?;
        let rows = super::positive_places(&weights);
        let points = x.select_rows(&rows);
        let gram = self.kernel.gram(&points);
        let remedy = "standardise the columns, or check the kernel's parameters";
        crate::checks::check_overflow(gram.data(), "the gram matrix", remedy)?;
        let solve = |gram: Matrix, offset: Option<Vec<f64>>| {
            let problem = LogisticProblem {
                gram,
                offset,
                labels: select(labels, &rows),
                weights: select(&weights, &rows),
                outputs: if classes.len() == 2 { 1 } else { classes.len() },
                settings: self,
                stop,
            };
            let optimum = problem.solve()?;
            Ok(DualFit { coef: optimum.coef.transpose(), intercept: optimum.intercept[0], result: optimum })
        };
        // The loss of two classes.
        let loss = |predictions: &[f64], intercept: f64| {
            let log_probability = |(f, &row): (&f64, &usize)| {
                let sign = if labels[row] == 1 { 1.0 } else { -1.0 };
                weights[row] * log_logistic(sign * (f + intercept))
            };
            -predictions.iter().zip(&rows).map(log_probability).sum::<f64>()
        };
        let (optimum, coef) = match &self.penalty {
            None => solve(gram, None).map(|fitted| (fitted.result, fitted.coef))?,
            // The objective has the factor ridge/2 before its quadratic form.
            Some(penalty) => penalty.fit(gram, self.ridge / 2.0, loss, |penalised| {
                solve(penalised.gram(), Some(penalised.offset.clone()))
            })?,
        };
        let (output_names, link) = match classes {
            [no, yes] => (vec![format!("{yes} vs {no}")], Link::Logistic),
            _ => (classes.to_vec(), Link::Softmax),
        };
        let LogisticOptimum { coef: end_coef, intercept, iterations, converged, objective, violation } =
            optimum;
        let end = WarmStart { coef: end_coef.transpose(), intercept };
        let mut model = KernelExpansion {
            kernel: self.kernel.clone(),
            support_points: points,
            coef,
            intercept: end.intercept.clone(),
            output_names,
            link,
            classes: classes.to_vec(),
            model_card: vec![
                CardEntry::new("model", "kernel logistic regression"),
                CardEntry::measured("ridge", self.ridge),
                CardEntry::new("Newton steps", iterations),
                CardEntry::measured("objective", objective),
            ],
        };
        model.model_card.extend(self.penalty.iter().flat_map(Penalty::facts));
        model.validate()?;
        Ok(KlrFit { model, iterations, converged, objective, violation, end })
    }
}

/// Data of the optimisation. Matrices have one row per output: coefficients, values, residuals and curvatures
/// are outputs × n.
struct LogisticProblem<'a> {
    gram: Matrix,
    /// A fixed part of every output, one number per row.
    offset: Option<Vec<f64>>,
    labels: Vec<usize>,
    weights: Vec<f64>,
    outputs: usize,
    settings: &'a KernelLogisticRegression,
    stop: &'a AtomicBool,
}

struct LogisticOptimum {
    coef: Matrix,
    intercept: Vec<f64>,
    iterations: usize,
    converged: bool,
    objective: f64,
    violation: f64,
}

/// Lower bound of the curvature, relative to the row's weight. It slows the method down only where
/// probabilities differ from the labels by less.
const LEAST_CURVATURE: f64 = 1e-14;
/// Largest violation that is accepted as a rounding error when steps no longer reduce it.
const MOST_ROUNDING: f64 = 1e-6;

impl LogisticProblem<'_> {
    /// Coefficients (outputs × n) and intercepts at the start of the iteration.
    fn start(&self) -> Result<(Matrix, Vec<f64>)> {
        let (m, n) = (self.outputs, self.labels.len());
        let Some(start) = &self.settings.start else { return Ok((Matrix::zeros(m, n), vec![0.0; m])) };
        for (unit, expected, count) in [
            ("rows", n, start.coef.rows()),
            ("outputs", m, start.coef.cols()),
            ("intercepts", m, start.intercept.len()),
        ] {
            let why = "as many as rows of positive weight and as outputs";
            sized("the start", unit, expected, count, why)?;
        }
        let intercept = if self.settings.fit_intercept { start.intercept.clone() } else { vec![0.0; m] };
        Ok((start.coef.transpose(), intercept))
    }

    fn solve(&self) -> Result<LogisticOptimum> {
        let (mut coef, mut intercept) = self.start()?;
        let (m, n) = (self.outputs, self.labels.len());
        let ridge = self.settings.ridge;
        let mut violation = f64::NAN;
        for iterations in 0..=self.settings.max_iterations {
            check_cancelled(self.stop)?;
            let gram_coef = self.times_gram(&coef);
            let mut values = add_intercepts(&gram_coef, &intercept);
            if let Some(offset) = &self.offset {
                (0..m).for_each(|o| add_to(values.row_mut(o), offset));
            }
            let objective = self.loss(&values) + ridge / 2.0 * dot(coef.data(), gram_coef.data());
            let (residual, curvature) = self.derivatives(&values);
            // Optimality: residual = ridge · coef, and with an intercept the coefficients sum to 0.
            let mut gradient = residual.clone();
            gradient.add_times(-ridge, &coef);
            let scale = max_abs(residual.data());
            let sums: Vec<f64> = (0..m).map(|o| coef.row(o).iter().sum()).collect();
            let imbalance = if self.settings.fit_intercept { ridge * max_abs(&sums) / n as f64 } else { 0.0 };
            let previous = violation;
            violation = max_abs(gradient.data()).max(imbalance) / scale;
            let remedy = "regularise more, or standardise the columns";
            let subject = "the objective of the logistic regression";
            crate::checks::check_overflow(&[objective, violation], subject, remedy)?;
            let converged = violation <= self.settings.tolerance
                || violation > previous / 4.0
                    && violation <= MOST_ROUNDING
                    && violation <= self.rounding(&coef, &intercept, &curvature) / scale;
            let last_iteration = iterations == self.settings.max_iterations;
            if converged || last_iteration && self.settings.keep_unfinished {
                return Ok(LogisticOptimum { coef, intercept, iterations, converged, objective, violation });
            }
            if last_iteration {
                break;
            }
            let (step, shift) = self.newton(&gradient, &curvature, &sums)?;
            let gram_step = self.times_gram(&step);
            let change = add_intercepts(&gram_step, &shift);
            // Let φ(t) be the objective along the step: |φ'''| ≤ reach · φ''. The step ln(1 + reach)/reach is
            // therefore certain to reduce it, and so is the step 1 if reach ≤ 1. Longer steps are tried
            // first.
            let reach = (0..n).map(|i| range_over_outputs(&change, i)).fold(0.0, f64::max);
            let mut t: f64 = 1.0;
            if reach > 1.0 {
                let safe_step = reach.ln_1p() / reach;
                let slope = ridge * dot(coef.data(), gram_step.data()) - dot(residual.data(), change.data());
                let penalty = |t: f64| {
                    dot(coef.data(), gram_coef.data())
                        + 2.0 * t * dot(coef.data(), gram_step.data())
                        + t * t * dot(step.data(), gram_step.data())
                };
                let objective_at = |t: f64| {
                    let mut trial = values.clone();
                    trial.add_times(t, &change);
                    self.loss(&trial) + ridge / 2.0 * penalty(t)
                };
                while t > safe_step && objective_at(t) > objective + 1e-4 * t * slope {
                    t = (t / 2.0).max(safe_step);
                }
            }
            coef.add_times(t, &step);
            add_multiple(&mut intercept, t, &shift);
            if m > 1 {
                // Outputs sum to zero; this removes rounding errors.
                for i in 0..n {
                    let mean = (0..m).map(|o| coef[(o, i)]).sum::<f64>() / m as f64;
                    (0..m).for_each(|o| coef[(o, i)] -= mean);
                }
                let mean = mean(&intercept);
                intercept.iter_mut().for_each(|b| *b -= mean);
            }
        }
        Err(Error::NotConverged {
            method: "Newton's method for logistic regression",
            iterations: self.settings.max_iterations,
            change: violation,
            remedy: "regularise more, raise the tolerance or allow more iterations",
        })
    }

    /// `K coef_o` for each output o, in row o.
    fn times_gram(&self, coef: &Matrix) -> Matrix {
        let rows = (0..coef.rows()).flat_map(|o| self.gram.matvec(coef.row(o))).collect();
        Matrix::from_row_major(coef.rows(), coef.cols(), rows)
    }

    /// `Σ_i w_i · -ln p(label_i)`.
    fn loss(&self, values: &Matrix) -> f64 {
        let row_loss = |(i, &label): (usize, &usize)| {
            if self.outputs == 1 {
                let margin = if label == 1 { values[(0, i)] } else { -values[(0, i)] };
                return self.weights[i] * -log_logistic(margin);
            }
            let best =
                (0..self.outputs).fold(label, |b, o| if values[(o, i)] > values[(b, i)] { o } else { b });
            let other_terms: f64 = (0..self.outputs)
                .filter(|&o| o != best)
                .map(|o| (values[(o, i)] - values[(best, i)]).exp())
                .sum();
            self.weights[i] * (values[(best, i)] - values[(label, i)] + other_terms.ln_1p())
        };
        self.labels.iter().enumerate().map(row_loss).sum()
    }

    /// The residual `w ([row is of the class] - p)` and the diagonal curvature: `w p (1 - p)` for one output,
    /// `w p` for several ones.
    fn derivatives(&self, values: &Matrix) -> (Matrix, Matrix) {
        let (m, n) = (self.outputs, self.labels.len());
        let (mut residual, mut curvature) = (Matrix::zeros(m, n), Matrix::zeros(m, n));
        for (i, (&label, &w)) in self.labels.iter().zip(&self.weights).enumerate() {
            if m == 1 {
                let sign = if label == 1 { 1.0 } else { -1.0 };
                let error_probability = 1.0 / (1.0 + (sign * values[(0, i)]).exp());
                residual[(0, i)] = sign * w * error_probability;
                curvature[(0, i)] = w * (error_probability * (1.0 - error_probability)).max(LEAST_CURVATURE);
                continue;
            }
            let top = (0..m).map(|o| values[(o, i)]).fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = (0..m).map(|o| (values[(o, i)] - top).exp()).sum();
            let mut error_probability = 0.0;
            for o in 0..m {
                let p = (values[(o, i)] - top).exp() / total;
                curvature[(o, i)] = w * p.max(LEAST_CURVATURE);
                if o != label {
                    residual[(o, i)] = -w * p;
                    error_probability += w * p;
                }
            }
            residual[(label, i)] = error_probability;
        }
        (residual, curvature)
    }

    /// Largest violation that rounding of the values may cause: `w p (1 - p)` times the rounding error of
    /// `Σ_j K_ij α_j + b`.
    fn rounding(&self, coef: &Matrix, intercept: &[f64], curvature: &Matrix) -> f64 {
        let mut maximum: f64 = 0.0;
        for i in 0..self.labels.len() {
            let row = self.gram.row(i);
            for o in 0..self.outputs {
                let size: f64 = row.iter().zip(coef.row(o)).map(|(k, a)| (k * a).abs()).sum();
                let d = curvature[(o, i)];
                let slope = if self.outputs == 1 { d } else { d * (1.0 - d / self.weights[i]).max(0.0) };
                maximum = maximum.max(slope * (size + intercept[o].abs()));
            }
        }
        8.0 * f64::EPSILON * maximum
    }

    /// The Newton step in coefficients and intercepts.
    ///
    /// Let W be the Hessian of the loss (block-diagonal over rows), D its diagonal part, and
    /// `S = (W⁻¹ + K/ridge)⁻¹`. The step of the coefficients is
    /// `(ridge I + W K)⁻¹ (gradient - W 1 shift) = S (D⁻¹ gradient - 1 shift) / ridge`. The shift of the
    /// intercepts makes the coefficients sum to zero.
    fn newton(&self, gradient: &Matrix, curvature: &Matrix, sums: &[f64]) -> Result<(Matrix, Vec<f64>)> {
        let (m, n) = (self.outputs, self.labels.len());
        let ridge = self.settings.ridge;
        let system = NewtonSystem::new(&self.gram, curvature, ridge, self.stop)?;
        let mut scaled = gradient.clone();
        scaled.data_mut().iter_mut().zip(curvature.data()).for_each(|(g, d)| *g /= d);
        let mut step = system.apply(&scaled);
        let mut shift = vec![0.0; m];
        if self.settings.fit_intercept {
            let unit = |o: usize| {
                let mut e = Matrix::zeros(m, n);
                e.row_mut(o).fill(1.0);
                system.apply(&e)
            };
            let units: Vec<Matrix> = (0..m).map(unit).collect();
            let total = |s: &Matrix, o: usize| s.row(o).iter().sum::<f64>();
            let mut sides = Matrix::zeros(m, m);
            (0..m * m).for_each(|entry| sides.data_mut()[entry] = total(&units[entry % m], entry / m));
            if m > 1 {
                // Equal shifts of all outputs change nothing. This term makes the system regular and the sum
                // of shifts 0.
                let mean = (0..m).map(|o| sides[(o, o)]).sum::<f64>() / (m * m) as f64;
                sides.data_mut().iter_mut().for_each(|v| *v += mean);
            }
            let right: Vec<f64> = (0..m).map(|o| ridge * sums[o] + total(&step, o)).collect();
            shift = lu_solve(&sides, &right);
            for (unit, b) in units.iter().zip(&shift) {
                step.add_times(-b, unit);
            }
        }
        step.data_mut().iter_mut().for_each(|s| *s /= ridge);
        Ok((step, shift))
    }
}

/// Solves with `S = (W⁻¹ + K/ridge)⁻¹ = E - E R (Σ_o E_o)⁻¹ Rᵀ E`, where
/// `E_o = D_o^½ (I + D_o^½ K D_o^½ / ridge)⁻¹ D_o^½` and R sums over outputs. For one output `S = E`
/// (Rasmussen and Williams 2006, equations 3.45 to 3.47).
struct NewtonSystem {
    root: Matrix,
    factors: Vec<Cholesky>,
    sum: Option<Cholesky>,
}

impl NewtonSystem {
    fn new(gram: &Matrix, curvature: &Matrix, ridge: f64, stop: &AtomicBool) -> Result<Self> {
        let (m, n) = (curvature.rows(), gram.rows());
        let mut root = curvature.clone();
        root.data_mut().iter_mut().for_each(|d| *d = d.sqrt());
        let mut factors = Vec::with_capacity(m);
        let mut total = Matrix::zeros(if m > 1 { n } else { 0 }, n);
        for o in 0..m {
            check_cancelled(stop)?;
            let d = root.row(o);
            let mut matrix = gram.clone();
            for i in 0..n {
                let left = d[i] / ridge;
                matrix.row_mut(i).iter_mut().zip(d).for_each(|(k, right)| *k *= left * right);
            }
            matrix.add_diagonal(|_| 1.0);
            let factor = Cholesky::new(matrix, "scaled gram matrix plus identity")?;
            if m > 1 {
                let inverse = factor.inverse();
                for i in 0..n {
                    let add = |(t, (v, right)): (&mut f64, (&f64, &f64))| *t += d[i] * v * right;
                    total.row_mut(i).iter_mut().zip(inverse.row(i).iter().zip(d)).for_each(add);
                }
            }
            factors.push(factor);
        }
        let sum = if m > 1 { Some(Cholesky::new(total, "sum of the classes' systems")?) } else { None };
        Ok(Self { root, factors, sum })
    }

    /// `S v` for a matrix v (outputs × n).
    fn apply(&self, v: &Matrix) -> Matrix {
        let mut out = self.decoupled(v);
        if let Some(sum) = &self.sum {
            let mut output_sum = vec![0.0; v.cols()];
            for o in 0..v.rows() {
                add_to(&mut output_sum, out.row(o));
            }
            let common = sum.solve_vector(&output_sum);
            let repeated = Matrix::from_row_major(v.rows(), v.cols(), common.repeat(v.rows()));
            let correction = self.decoupled(&repeated);
            out.add_times(-1.0, &correction);
        }
        out
    }

    /// `E v` for a matrix v (outputs × n).
    fn decoupled(&self, v: &Matrix) -> Matrix {
        let mut out = v.clone();
        for (o, factor) in self.factors.iter().enumerate() {
            let root = self.root.row(o);
            let row = out.row_mut(o);
            multiply_entries(row, root);
            let solved = factor.solve_vector(row);
            row.iter_mut().zip(root.iter().zip(solved)).for_each(|(e, (r, s))| *e = r * s);
        }
        out
    }
}

/// Adds `shift[o]` to row o.
fn add_intercepts(a: &Matrix, shift: &[f64]) -> Matrix {
    let mut out = a.clone();
    (0..a.rows()).for_each(|o| out.row_mut(o).iter_mut().for_each(|v| *v += shift[o]));
    out
}

/// The largest absolute value; NaN if any value is NaN.
fn max_abs(values: &[f64]) -> f64 {
    values
        .iter()
        .fold(0.0, |maximum: f64, v| if v.abs() <= maximum { maximum } else { v.abs() + 0.0 * maximum })
}

/// The largest difference between outputs in column `i`; for one output, its absolute value.
fn range_over_outputs(values: &Matrix, i: usize) -> f64 {
    let column = (0..values.rows()).map(|o| values[(o, i)]);
    if values.rows() == 1 {
        return values[(0, i)].abs();
    }
    let (low, high) =
        column.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    high - low
}
