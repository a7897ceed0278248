//! A further penalty on linear functionals of the model: Shapley-regularised training where the functionals
//! are Shapley values (Chau, Hu, Gonzalez and Sejdinovic 2022, §4), and prior knowledge about these values.
//!
//! Let K (n × n) be the gram matrix, α (n) the coefficients, and Z (n × functionals) the contribution of each
//! coefficient to each functional. The estimator minimises
//! `loss(K α) + ridge αᵀ K α + (strength / n) Σ_j d_j²`, where `d_j` is the distance of the functional
//! `(Zᵀα)_j` from its range. A range `[0, 0]` penalises the size of the functional, `[t, t]` its distance
//! from a target, `[0, ∞)` negative values, `[-b, b]` values outside a band.
//!
//! With targets t for all functionals this equals the estimator without the penalty on another gram matrix,
//! `K̃ = K M⁻¹ K` with `M = K + c Z Zᵀ` and `c = strength / (n ridge)`, where the predictions have the offset
//! `K α₀`, `α₀ = c M⁻¹ Z t`. If γ are its coefficients there, the penalised model has the coefficients
//! `α = α₀ + M⁻¹ K γ` and the predictions `K α = K α₀ + K̃ γ`. Every estimator that works on a gram matrix
//! can therefore be penalised. For squared loss and t = 0 the result is the paper's Proposition 7,
//! `α = (K² + ridge K + (strength / n) Z Zᵀ)⁻¹ K y`.
//!
//! With ranges, the functionals outside their ranges are penalised with the nearest end as the target. The
//! set of these functionals is found by Newton's method with a line search: the objective is convex, and the
//! penalty piecewise quadratic. The last fit has the set that its own values have, and is therefore the
//! optimum.

use crate::checks::{not_negative, positive};
use crate::error::{Error, Result, sized};
use crate::kernel::{Kernel, Linear};
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Cholesky, Matrix, add_multiple, dot};
use crate::model_card::CardEntry;
use crate::posterior::{PosteriorCovariance, VarianceReduction};
use crate::table::{Column, Table};

/// The penalty `(strength / n) Σ d²`, summed over functionals and outputs, for n rows. `d` is the distance of
/// a functional of the coefficients, `Σ_i functional_i coef_i`, from its range.
#[derive(Debug, Clone, PartialEq)]
pub struct Penalty {
    /// Contribution of a row's coefficient to each functional, rows × functionals. Several n × n matrices
    /// from `Explainer::functionals` are placed side by side.
    pub functionals: Matrix,
    /// Factor of the penalty; not negative.
    pub strength: f64,
    /// For each functional the lower and the upper end of the range in which it is not penalised; ends may be
    /// infinite. `None` if all ranges are `[0, 0]`.
    pub ranges: Option<Vec<(f64, f64)>>,
    /// The number of coalitions from which the functionals are estimated, for the model card; `None` if they
    /// are exact.
    pub sampled: Option<usize>,
}

/// A gram matrix K̃, and an offset, for which the estimator without the penalty equals the estimator with it.
#[derive(Debug, Clone)]
pub struct PenalisedGram {
    /// The matrix `T` (n × n) with `K̃ = Tᵀ T`.
    whitened_gram: Matrix,
    /// `K α₀`, the predictions for γ = 0.
    pub offset: Vec<f64>,
}

/// The factors of the gram matrix that all sets of penalised functionals share.
struct PenaltyFactors {
    /// `L` with `K = L Lᵀ`.
    lower: Cholesky,
    /// `V = L⁻¹ Z`.
    whitened: Matrix,
    c: f64,
}

/// The result of a fit on a penalised gram matrix.
pub struct DualFit<F> {
    /// The fitted model, or the parts of it that the estimator needs.
    pub result: F,
    /// The coefficients, n × outputs: those of the fit, and then those of the model.
    pub coef: Matrix,
    /// The intercept of a single output.
    pub intercept: f64,
}

/// A point of the search for the penalised functionals.
struct SearchPoint {
    coef: Vec<f64>,
    intercept: f64,
    /// `K α`.
    predictions: Vec<f64>,
    /// `Zᵀ α`.
    values: Vec<f64>,
}

impl SearchPoint {
    /// Returns the point at a share of the way to another one.
    fn towards(&self, end: &Self, share: f64) -> Self {
        let mix = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + share * (b - a)).collect();
        Self {
            coef: mix(&self.coef, &end.coef),
            intercept: self.intercept + share * (end.intercept - self.intercept),
            predictions: mix(&self.predictions, &end.predictions),
            values: mix(&self.values, &end.values),
        }
    }
}

/// Maximum number of sets of penalised functionals.
const MAX_SETS: usize = 200;
/// Number of steps of the search for the best point of a segment.
const SEGMENT_STEPS: usize = 60;

/// The value in a range that is nearest to `value`.
fn nearest(value: f64, (low, high): (f64, f64)) -> f64 {
    value.max(low).min(high)
}

/// The functionals outside their ranges and those whose range is a target, with the nearest values in the
/// ranges.
fn penalised_set(values: &[f64], ranges: &[(f64, f64)]) -> (Vec<usize>, Vec<f64>) {
    let is_penalised =
        |j: &usize| ranges[*j].0 == ranges[*j].1 || nearest(values[*j], ranges[*j]) != values[*j];
    let set = Vec::from_iter((0..values.len()).filter(is_penalised));
    let targets = set.iter().map(|&j| nearest(values[j], ranges[j])).collect();
    (set, targets)
}

/// Minimises a convex function on (0, 1] by golden section search.
fn minimise_on_segment(value: impl Fn(f64) -> f64) -> f64 {
    let golden = (5_f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (0.0, 1.0);
    let (mut left, mut right) = (1.0 - golden, golden);
    let (mut at_left, mut at_right) = (value(left), value(right));
    for _ in 0..SEGMENT_STEPS {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = value(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = value(right);
        }
    }
    let middle = (low + high) / 2.0;
    if value(1.0) <= value(middle) { 1.0 } else { middle }
}

impl Penalty {
    /// One penalty on the size of several matrices of functionals.
    pub fn new(functionals: &[Matrix], strength: f64) -> Self {
        let rows = functionals.first().map_or(0, Matrix::rows);
        let functionals = Matrix::side_by_side(rows, functionals.iter());
        Self { functionals, strength, ranges: None, sampled: None }
    }

    /// Entries for the model card.
    pub fn facts(&self) -> impl Iterator<Item = CardEntry> {
        let sampled =
            self.sampled.map(|count| format!("its values are estimated from {count} coalitions of features"));
        let ranges = self.ranges.as_ref().and_then(|ranges| {
            let (low, high) = *ranges.first()?;
            let all_equal = ranges.iter().all(|range| *range == (low, high));
            let [low, high] = [low, high].map(|end| CardEntry::measured("", end).value);
            Some(if all_equal { format!("{low} to {high}") } else { "several".into() })
        });
        [CardEntry::measured("strength of the penalty", self.strength)]
            .into_iter()
            .chain(ranges.map(|words| {
                CardEntry::new("range of values without penalty, in the unit of the fit", words)
            }))
            .chain(sampled.map(|words| CardEntry::new("penalty", words)))
    }

    /// Returns the penalty for a model whose outputs are divided by `unit`.
    pub(crate) fn in_units_of(mut self, unit: f64) -> Self {
        self.ranges.iter_mut().flatten().for_each(|(low, high)| (*low, *high) = (*low / unit, *high / unit));
        self
    }

    /// Fits an estimator with the penalty. `fit` fits it without the penalty for a gram matrix and an offset
    /// of the predictions. `ridge` is the factor of `αᵀ K α` in the objective, and `loss` the loss of the
    /// predictions `K α` (n) and the intercept of a single output, which ranges need. Returns the last result
    /// and the model's coefficients α. Cost of one call of `fit`, and O(n² (n + functionals)), for each set of
    /// penalised functionals; without ranges there is one set.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Parameter`]; [`Error::NotPositiveDefinite`] for the gram matrix;
    /// [`Error::NotConverged`]; the errors of `fit`.
    pub fn fit<F>(
        &self,
        gram: Matrix,
        ridge: f64,
        loss: impl Fn(&[f64], f64) -> f64,
        mut fit: impl FnMut(&PenalisedGram) -> Result<DualFit<F>>,
    ) -> Result<(F, Matrix)> {
        let Some(ranges) = &self.ranges else {
            let whole_set = Vec::from_iter(0..self.functionals.cols());
            let factors = self.factors(gram, ridge)?;
            let fitted = factors.fit(&whole_set, &vec![0.0; whole_set.len()], &mut fit)?;
            return Ok((fitted.result, fitted.coef));
        };
        let factors = self.factors(gram.clone(), ridge)?;
        let point_at = |coef: Vec<f64>, intercept: f64| SearchPoint {
            predictions: gram.matvec(&coef),
            values: self.functionals.transpose_matvec(&coef),
            coef,
            intercept,
        };
        let strength = self.strength / gram.rows() as f64;
        let objective = |point: &SearchPoint| {
            let square = |(value, range): (&f64, &(f64, f64))| (value - nearest(*value, *range)).powi(2);
            let penalty: f64 = point.values.iter().zip(ranges).map(square).sum();
            loss(&point.predictions, point.intercept)
                + ridge * dot(&point.coef, &point.predictions)
                + strength * penalty
        };
        let mut point = point_at(vec![0.0; gram.rows()], 0.0);
        let mut moved = f64::INFINITY;
        for _ in 0..MAX_SETS {
            let (set, targets) = penalised_set(&point.values, ranges);
            let fitted = factors.fit(&set, &targets, &mut fit)?;
            self.check_outputs(fitted.coef.cols())?;
            let end = point_at(fitted.coef.column(0), fitted.intercept);
            if penalised_set(&end.values, ranges) == (set, targets) {
                return Ok((fitted.result, fitted.coef));
            }
            // The fit minimises a convex function that has the objective's value and slope at the current
            // point, so that the objective decreases at first on the way to its result.
            let step = minimise_on_segment(|step| objective(&point.towards(&end, step)));
            point = point.towards(&end, step);
            moved = step;
        }
        Err(Error::NotConverged {
            method: "the search for the values outside their ranges",
            iterations: MAX_SETS,
            change: moved,
            remedy: "lower the strength of the penalty, or widen the ranges",
        })
    }

    /// Returns the posterior of a Gaussian process with this penalty, given the posterior without it: the
    /// functionals are further observations, equal to their targets up to normal errors of variance
    /// `n noise / strength`. The mean then minimises the penalised squared error, with `ridge = noise`.
    ///
    /// An observed functional is that of the interpolant `k(x, X) K⁻¹ f(X)` of f at the n support points, as
    /// in the penalty on coefficients. With `B = K⁻¹ - Q`, the posterior covariance of `K⁻¹ f(X)`, and
    /// `W = B Z`, the coefficients change by `-W S⁻¹ (Zᵀα - t)`, where `S = (n noise / strength) I + Zᵀ W`,
    /// and Q by `W S⁻¹ Wᵀ`. Cost O(n² (n + functionals)) and O(functionals³); the posterior has
    /// n (n + functionals) numbers.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::NotPositiveDefinite`]; [`Error::Parameter`] for ranges other than targets,
    /// whose posterior is not normal.
    pub fn condition(
        &self,
        model: &mut KernelExpansion,
        covariance: &mut PosteriorCovariance,
        noise: f64,
    ) -> Result<()> {
        positive("noise", noise)?;
        super::check_dense(model.support_points.rows(), 4.0, "")?;
        let factors = self.factors(model.kernel.gram(&model.support_points), noise)?;
        self.check_outputs(model.outputs())?;
        let [reduction] = &mut covariance.reduction[..] else {
            let allowed = "a penalised process has one posterior matrix for all outputs";
            return Err(Error::parameter("posterior", "one matrix for each output", allowed));
        };
        let targets = match &self.ranges {
            None => vec![0.0; self.functionals.cols()],
            Some(ranges) => {
                if let Some((low, high)) = ranges.iter().find(|(low, high)| low != high) {
                    let allowed = "the posterior of a Gaussian process is normal only with targets: give two \
                                   equal ends, or use ridge regression";
                    return Err(Error::parameter("range of values", format!("{low} to {high}"), allowed));
                }
                ranges.iter().map(|(target, _)| *target).collect()
            }
        };
        model.model_card.extend(self.facts());
        if self.strength == 0.0 {
            return Ok(());
        }
        let root = reduction.root()?;
        let (w, system) = self.observed(factors, &root)?;
        let mut deviations = self.functionals.transpose_matmul(&model.coef);
        deviations.add_outer(targets.iter().map(|target| -target), &vec![1.0; model.outputs()]);
        model.coef.subtract_product(&w.transpose(), &system.solve(deviations));
        *reduction = VarianceReduction::LowRank(extended_root(&root, w, &system));
        Ok(())
    }

    /// Returns F' (n × (r + functionals)) with `Q' = F' F'ᵀ`, where `Q = F Fᵀ` (F is n × r) is the reduction
    /// of the prior variance without the penalty, and Q' that with it, as in [`condition`](Self::condition).
    /// `ridge` is the factor of `αᵀ K α` in the objective that the mean minimises.
    ///
    /// # Errors
    /// As [`condition`](Self::condition).
    pub fn conditioned_root(&self, gram: Matrix, ridge: f64, root: Matrix) -> Result<Matrix> {
        if self.strength == 0.0 {
            return Ok(root);
        }
        let (w, system) = self.observed(self.factors(gram, ridge)?, &root)?;
        Ok(extended_root(&root, w, &system))
    }

    /// Returns `W = (K⁻¹ - F Fᵀ) Z` and the covariance `S = I/c + Zᵀ W` of the observed functionals, where F
    /// is `root`.
    fn observed(&self, factors: PenaltyFactors, root: &Matrix) -> Result<(Matrix, Cholesky)> {
        let mut w = factors.whitened;
        factors.lower.solve_upper_in_place(&mut w);
        w.subtract_product(&root.transpose(), &root.transpose_matmul(&self.functionals));
        let mut system = self.functionals.transpose_matmul(&w);
        system.add_diagonal(|_| 1.0 / factors.c);
        system.mirror_upper();
        Ok((w, Cholesky::new(system, "covariance of the penalised functionals")?))
    }

    /// Checks that ranges, which are in the units of an output, belong to a single one.
    fn check_outputs(&self, outputs: usize) -> Result<()> {
        if self.ranges.is_some() && outputs != 1 {
            let allowed = "ranges of values need one output: fit one target, or two classes, at a time";
            return Err(Error::parameter("number of outputs", outputs, allowed));
        }
        Ok(())
    }

    fn factors(&self, gram: Matrix, ridge: f64) -> Result<PenaltyFactors> {
        let n = gram.rows();
        let (subject, why) = ("the matrix of penalised functionals", "one for each training row");
        sized(subject, "rows", n, self.functionals.rows(), why)?;
        not_negative("strength", self.strength, "it must not be negative")?;
        if let Some(ranges) = &self.ranges {
            let subject = "the list of ranges of penalised functionals";
            sized(subject, "rows", self.functionals.cols(), ranges.len(), "one for each functional")?;
            let is_range =
                |&&(low, high): &&(f64, f64)| low <= high && low < f64::INFINITY && high > f64::NEG_INFINITY;
            if let Some((low, high)) = ranges.iter().find(|range| !is_range(range)) {
                let allowed = "a range has a lower and an upper end, in this order; only the outer ends may \
                               be infinite";
                return Err(Error::parameter("range of values", format!("{low} to {high}"), allowed));
            }
        }
        let lower = Cholesky::new(gram, "gram matrix")?;
        let mut whitened = self.functionals.clone();
        lower.solve_lower_in_place(&mut whitened);
        Ok(PenaltyFactors { lower, whitened, c: self.strength / (n as f64 * ridge) })
    }
}

/// Returns `[F, W L⁻ᵀ]` with `S = L Lᵀ`.
fn extended_root(root: &Matrix, mut w: Matrix, system: &Cholesky) -> Matrix {
    system.solve_lower_right(&mut w);
    Matrix::side_by_side(w.rows(), [root, &w].into_iter())
}

impl PenaltyFactors {
    /// Fits with the penalty on the distance of the functionals in `set` from `targets`.
    fn fit<F>(
        &self,
        set: &[usize],
        targets: &[f64],
        fit: &mut impl FnMut(&PenalisedGram) -> Result<DualFit<F>>,
    ) -> Result<DualFit<F>> {
        // K = L Lᵀ and V = L⁻¹ Z: M = L (I + c V Vᵀ) Lᵀ = L R Rᵀ Lᵀ, and K̃ = L (R Rᵀ)⁻¹ Lᵀ = Tᵀ T with T =
        // R⁻¹ Lᵀ.
        let n = self.whitened.rows();
        let rows = Vec::from_iter(0..n);
        let v = self.whitened.select(&rows, set);
        let mut inner = v.matmul(&v.transpose());
        inner.scale(self.c);
        inner.add_diagonal(|_| 1.0);
        let inner = Cholesky::new(inner, "matrix of the penalty")?;
        let mut whitened_gram = Matrix::zeros(n, n);
        for i in 0..n {
            for j in i..n {
                whitened_gram[(i, j)] = self.lower.lower()[(j, i)];
            }
        }
        inner.solve_lower_in_place(&mut whitened_gram);
        // Lᵀ α = R⁻ᵀ (R⁻¹ c V t + T γ), and K α = Tᵀ (R⁻¹ c V t + T γ).
        let mut start = Matrix::column_vector(v.matvec(targets));
        start.scale(self.c);
        inner.solve_lower_in_place(&mut start);
        let offset = whitened_gram.transpose_matvec(start.data());
        let penalised = PenalisedGram { whitened_gram, offset };
        let fitted = fit(&penalised)?;
        let mut coef = penalised.whitened_gram.matmul(&fitted.coef);
        for o in 0..coef.cols() {
            let mut column = coef.column(o);
            add_multiple(&mut column, 1.0, start.data());
            (0..n).for_each(|i| coef[(i, o)] = column[i]);
        }
        inner.solve_upper_in_place(&mut coef);
        self.lower.solve_upper_in_place(&mut coef);
        Ok(DualFit { coef, ..fitted })
    }
}

impl PenalisedGram {
    /// `K̃` (n × n).
    pub fn gram(&self) -> Matrix {
        self.whitened_gram.transpose_matmul(&self.whitened_gram)
    }

    /// Rows of n columns for which a linear kernel has the gram matrix `K̃`, for solvers that evaluate the
    /// kernel themselves.
    pub fn as_linear(&self) -> Result<(Kernel, Table)> {
        let n = self.whitened_gram.rows();
        let columns = Column::numbered(n);
        // Row j of T has the entries of column j of the table.
        let rows = Table::from_column_major(columns, n, self.whitened_gram.data().to_vec())?;
        let linear = Linear { columns: (0..n).collect(), center: vec![0.0; n], scale: vec![1.0; n] };
        Ok((linear.into(), rows))
    }
}
