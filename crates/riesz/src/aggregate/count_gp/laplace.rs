//! The posterior mode of f given counts, and Laplace's approximation of the evidence around the mode.
//!
//! The values of f at the inducing points W are represented by independent standard normal numbers v, one per
//! point: `f_i = β + F_i v` with `F = K(X, W)L⁻ᵀ` (rows × points) and `K(W, W) = LLᵀ`. A (rows × targets)
//! holds the weights of rows in targets, and h maps f to a rate. Target t has the sum
//! `g_t = Σ_i A_it h(f_i)`, with the derivatives `D_it = A_it h'(f_i)` and `ψ_t = Σ_i D_it F_i`. Its count
//! has the Fisher information ω_t about g_t.
//!
//! ```text
//! J(β, v) = Σ_t log p(z_t | g_t) - ½ vᵀv
//! Λ = I + Σ_t ω_t ψ_t ψ_tᵀ
//! log p(z) ≈ max J - ½ log det Λ
//! ```
//!
//! Λ is the posterior precision of a process whose sums are observed with noise variances `1/ω_t` and weights
//! D (Gauss-Newton). All results for normal targets therefore hold for counts around their mode. Newton's
//! method uses the exact second derivatives, by conjugate gradients with Λ as preconditioner. Where they are
//! indefinite, it uses Λ instead; this happens because the logarithm of a sum of exponentials is convex.

use super::cross_kernel::CrossKernel;
use crate::aggregate::observation_operator::ObservationOperator;
use crate::checks::check_overflow;
use crate::error::Result;
use crate::gp::likelihood::counts::{CountLikelihood, RateSum};
use crate::gp::likelihood::{Likelihood, LikelihoodTerms};
use crate::gp::whitened_inducing::{WhitenedInducing, posterior_precision};
use crate::linalg::conjugate_gradients::{
    CgOutcome, InnerProductSpace, ResidualNorm, StoppingRule, conjugate_gradients,
};
use crate::linalg::{Cholesky, Matrix, add_multiple, differences, dot, plus_multiple};

/// The largest number of Newton steps, and of halvings of a step.
const MAX_STEPS: usize = 200;
const HALVINGS: usize = 40;

/// Conjugate gradients end at this relative residual, or after this number of steps.
const CG_TOLERANCE: f64 = 1e-10;
const MAX_CG_STEPS: usize = 200;

/// The search ends where the predicted increase of J, relative to `1 + |J|`, is at most `MODE_TOLERANCE`. It
/// also ends where that is at most `ROUNDING_TOLERANCE` and at least `MIN_DECREASE` times the last predicted
/// increase, because only rounding errors remain then.
const MODE_TOLERANCE: f64 = 1e-18;
const ROUNDING_TOLERANCE: f64 = 1e-9;
const MIN_DECREASE: f64 = 0.1;

/// The observations of f: the kernel, the observation operator, and the likelihood of the
/// counts.
pub(super) struct CountObservations<'a> {
    /// The inducing points W with the Cholesky factor L.
    pub points: WhitenedInducing,
    /// `K(X, W)`.
    pub cross: CrossKernel<'a>,
    pub operator: &'a ObservationOperator,
    pub likelihood: CountLikelihood<'a>,
    /// β; `None` where it is estimated.
    pub given_mean: Option<f64>,
    /// The latent value at which the search begins: a common rate of all rows.
    pub level: f64,
}

/// The state (β, v) of the search, or a direction in this space.
#[derive(Debug, Clone)]
pub(super) struct LatentState {
    pub beta: f64,
    pub v: Vec<f64>,
}

/// The latent values at an iterate, and the likelihood terms there.
pub(super) struct StateEvaluation {
    pub state: LatentState,
    /// Coefficients of the points, `L⁻ᵀv`.
    pub alpha: Vec<f64>,
    /// f for each membership of a row in a bag.
    f: Vec<f64>,
    /// For each target the weighted sums of rates and of their complements.
    pub sums: Vec<RateSum>,
    pub likelihood_terms: Vec<LikelihoodTerms>,
    /// J.
    pub value: f64,
}

/// Local quadratic model of J at an iterate.
pub(super) struct LocalModel {
    /// For each membership of a row in a bag, its weight times the first and the second derivative of the
    /// rate.
    pub slopes: Vec<f64>,
    pub second_derivatives: Vec<f64>,
    /// `second_derivatives` times the derivative of the log likelihood in the bag's sum: the diagonal part of
    /// the log likelihood's second derivatives in f.
    curvature: Vec<f64>,
    /// ψ of all targets (points × targets), and the sums of D, which are the derivatives of the targets' sums
    /// in β.
    pub jacobian: Matrix,
    pub jacobian_of_mean: Vec<f64>,
    /// `Λ - I`, and Λ.
    pub information: Matrix,
    pub precision: Cholesky,
    /// Where β is estimated, Λ is augmented by a row and a column for β. These are `Λ⁻¹` times this column,
    /// and the Schur complement of Λ.
    bordered_schur: Option<(Vec<f64>, f64)>,
}

/// The mode of J, and Laplace's approximation there.
pub(super) struct Mode {
    pub evaluation: StateEvaluation,
    pub local: LocalModel,
    /// Laplace's approximation of the log evidence.
    pub value: f64,
    /// The number of Newton steps.
    pub steps: usize,
}

impl InnerProductSpace for LatentState {
    fn inner_product(&self, other: &Self) -> f64 {
        self.beta * other.beta + dot(&self.v, &other.v)
    }

    fn add_scaled(&mut self, factor: f64, other: &Self) {
        *self = self.plus(factor, other);
    }
}

impl LatentState {
    fn plus(&self, factor: f64, direction: &Self) -> Self {
        let v = plus_multiple(&self.v, factor, &direction.v);
        Self { beta: self.beta + factor * direction.beta, v }
    }
}

impl CountObservations<'_> {
    /// Returns `L⁻ᵀv`.
    pub fn upper(&self, v: &[f64]) -> Vec<f64> {
        let mut column = Matrix::column_vector(v.to_vec());
        self.points.factor.solve_upper_in_place(&mut column);
        column.into_data()
    }

    /// Returns `L⁻¹v`.
    pub fn lower(&self, v: Vec<f64>) -> Vec<f64> {
        let mut column = Matrix::column_vector(v);
        self.points.factor.solve_lower_in_place(&mut column);
        column.into_data()
    }

    /// Evaluates J at a state, without derivatives.
    fn evaluate(&self, state: LatentState) -> Result<StateEvaluation> {
        let alpha = self.upper(&state.v);
        let (f, rows) = (self.cross.latent_values(state.beta, &alpha)?, self.cross.rows);
        let mut bag_sums = Matrix::zeros(rows.bags(), 2);
        for (i, &b) in rows.bag.iter().enumerate() {
            let (weight, rate_terms) = (rows.weights[i], self.likelihood.family.rate_terms(f[i]));
            bag_sums[(b, 0)] += weight * rate_terms.rate;
            bag_sums[(b, 1)] += weight * rate_terms.complement;
        }
        let sums = self.operator.transpose_times(&bag_sums);
        let rate_sum = |&[sum, complement]: &[f64; 2]| RateSum { sum, complement };
        let sums: Vec<RateSum> = sums.data().as_chunks::<2>().0.iter().map(rate_sum).collect();
        let terms: Vec<LikelihoodTerms> =
            sums.iter().enumerate().map(|(t, sum)| self.likelihood.terms(t, *sum)).collect();
        let value = terms.iter().map(|s| s.value).sum::<f64>() - 0.5 * dot(&state.v, &state.v);
        Ok(StateEvaluation { state, alpha, f, sums, likelihood_terms: terms, value })
    }

    /// Computes the first and second derivatives of J. Cost: a pass over the kernel, O(targets points²) and
    /// O(points³).
    fn linearise(&self, evaluation: &StateEvaluation) -> Result<LocalModel> {
        let (rows, terms) = (self.cross.rows, &evaluation.likelihood_terms);
        let bag_scores = self.operator.times_vector(terms.iter().map(|s| s.first_derivative).collect());
        let (mut slopes, mut second_derivatives) =
            (vec![0.0; evaluation.f.len()], vec![0.0; evaluation.f.len()]);
        let (mut curvature, mut bag_responses) = (vec![0.0; evaluation.f.len()], vec![0.0; rows.bags()]);
        for (i, &b) in rows.bag.iter().enumerate() {
            let (weight, rate_terms) = (rows.weights[i], self.likelihood.family.rate_terms(evaluation.f[i]));
            (slopes[i], second_derivatives[i]) =
                (weight * rate_terms.first_derivative, weight * rate_terms.second_derivative);
            curvature[i] = bag_scores[b] * second_derivatives[i];
            bag_responses[b] += slopes[i];
        }
        // One row per target.
        let mut scaled = self.operator.transpose_times(&self.cross.bag_sums(&slopes)?);
        self.points.factor.solve_lower_right(&mut scaled);
        let psi = scaled.transpose();
        scaled.scale_rows(terms.iter().map(|target_terms| target_terms.information.sqrt()));
        let (information, mean_responses) =
            (scaled.gram_of_columns(), self.operator.transpose_times_vector(bag_responses));
        let name = "posterior precision of the inducing points";
        check_overflow(information.data(), name, "check the kernel's parameters and the weights")?;
        let lambda = posterior_precision(&information, name)?;
        let bordered_schur = self.given_mean.is_none().then(|| {
            let weighted: Vec<f64> =
                mean_responses.iter().zip(terms).map(|(s, terms)| s * terms.information).collect();
            let column = psi.matvec(&weighted);
            let solved = lambda.solve_vector(&column);
            let schur = dot(&weighted, &mean_responses) - dot(&column, &solved);
            (solved, schur.max(f64::MIN_POSITIVE))
        });
        Ok(LocalModel {
            slopes,
            second_derivatives,
            curvature,
            jacobian: psi,
            jacobian_of_mean: mean_responses,
            information,
            precision: lambda,
            bordered_schur,
        })
    }

    fn gradient(&self, evaluation: &StateEvaluation, local: &LocalModel) -> LatentState {
        let derivatives: Vec<f64> = evaluation.likelihood_terms.iter().map(|s| s.first_derivative).collect();
        let v = differences(&local.jacobian.matvec(&derivatives), &evaluation.state.v);
        LatentState {
            beta: if self.given_mean.is_some() { 0.0 } else { dot(&local.jacobian_of_mean, &derivatives) },
            v,
        }
    }

    /// Returns the product of minus the second derivatives of J with the direction `d`.
    fn curvature(
        &self,
        (evaluation, local): (&StateEvaluation, &LocalModel),
        d: &LatentState,
    ) -> Result<LatentState> {
        let alpha = self.upper(&d.v);
        let (row_product, row_total) = self.cross.weighted_products(&local.curvature, d.beta, &alpha)?;
        let changes = local.sum_derivatives(d);
        let curvatures: Vec<f64> =
            changes.iter().zip(&evaluation.likelihood_terms).map(|(q, s)| q * s.second_derivative).collect();
        let (row_part, target_part) = (self.lower(row_product), local.jacobian.matvec(&curvatures));
        let v =
            d.v.iter().zip(row_part).zip(target_part).map(|((d, row), target)| d - row - target).collect();
        let beta = if self.given_mean.is_some() {
            0.0
        } else {
            -row_total - dot(&local.jacobian_of_mean, &curvatures)
        };
        Ok(LatentState { beta, v })
    }

    /// Returns `H⁻¹ rhs`, where H is minus the second derivatives of J, and whether H was found to be
    /// indefinite. In that case the solution is not usable.
    pub fn solve(
        &self,
        iterate: (&StateEvaluation, &LocalModel),
        rhs: &LatentState,
    ) -> Result<(LatentState, bool)> {
        let start = LatentState { beta: 0.0, v: vec![0.0; rhs.v.len()] };
        let product = |direction: &LatentState| self.curvature(iterate, direction);
        let rule = StoppingRule {
            norm: ResidualNorm::Preconditioned,
            tolerance: CG_TOLERANCE,
            max_products: MAX_CG_STEPS,
        };
        let solution = conjugate_gradients(product, |r| iterate.1.precondition(r), rhs, start, rule)?;
        Ok((solution.x, solution.outcome == CgOutcome::NotPositiveDefinite))
    }

    /// Finds the mode. The search starts at `warm_start` or at a common rate of all rows, whichever has the
    /// larger objective.
    pub fn mode(&self, warm_start: Option<&LatentState>) -> Result<Mode> {
        let beta = self.given_mean.unwrap_or(self.level);
        let mut evaluation = self.evaluate(LatentState { beta, v: vec![0.0; self.cross.points.rows()] })?;
        if let Some(state) = warm_start {
            let warm_evaluation = self.evaluate(state.clone())?;
            if warm_evaluation.value > evaluation.value {
                evaluation = warm_evaluation;
            }
        }
        let remedy = "check the weights and the prior mean";
        check_overflow(&[evaluation.value], "the likelihood of the counts", remedy)?;
        let (mut steps, mut last_increase) = (0, f64::INFINITY);
        loop {
            let local = self.linearise(&evaluation)?;
            let gradient = self.gradient(&evaluation, &local);
            let (mut step, is_indefinite) = self.solve((&evaluation, &local), &gradient)?;
            if is_indefinite {
                step = local.precondition(&gradient);
            }
            let increase = gradient.inner_product(&step);
            let scale = 1.0 + evaluation.value.abs();
            let rounding = increase <= ROUNDING_TOLERANCE * scale && increase >= MIN_DECREASE * last_increase;
            let is_last =
                steps == MAX_STEPS || increase.is_nan() || increase <= MODE_TOLERANCE * scale || rounding;
            last_increase = increase;
            let next = if is_last { None } else { self.line_search(&evaluation, &step, increase)? };
            let Some(next) = next else {
                let value = evaluation.value - 0.5 * local.precision.log_det();
                return Ok(Mode { evaluation, local, value, steps });
            };
            (evaluation, steps) = (next, steps + 1);
        }
    }

    /// Returns the first point along `step` at which J increases enough, while the step is halved, given the
    /// increase that the quadratic model predicts. `None` where the increase does not exceed rounding errors.
    fn line_search(
        &self,
        evaluation: &StateEvaluation,
        step: &LatentState,
        increase: f64,
    ) -> Result<Option<StateEvaluation>> {
        let mut step_size = 1.0;
        for _ in 0..HALVINGS {
            let next = self.evaluate(evaluation.state.plus(step_size, step))?;
            if next.value >= evaluation.value + 1e-4 * step_size * increase {
                return Ok(Some(next));
            }
            // A smaller increase is hidden by rounding errors.
            if step_size * increase < 1e-14 * (1.0 + evaluation.value.abs()) {
                let unchanged =
                    (next.value - evaluation.value).abs() < 1e-13 * (1.0 + evaluation.value.abs());
                return Ok((unchanged && step_size == 1.0).then_some(next));
            }
            step_size *= 0.5;
        }
        Ok(None)
    }
}

impl LocalModel {
    /// Returns the derivatives of the targets' sums along the direction `d`.
    pub fn sum_derivatives(&self, d: &LatentState) -> Vec<f64> {
        let mut out: Vec<f64> = self.jacobian_of_mean.iter().map(|s| s * d.beta).collect();
        for (k, v) in d.v.iter().enumerate() {
            add_multiple(&mut out, *v, self.jacobian.row(k));
        }
        out
    }

    /// Returns the inverse of the augmented Λ times the direction `d`.
    pub fn precondition(&self, d: &LatentState) -> LatentState {
        let v = self.precision.solve_vector(&d.v);
        let Some((solved_border, schur)) = &self.bordered_schur else { return LatentState { beta: 0.0, v } };
        let beta = (d.beta - dot(solved_border, &d.v)) / schur;
        LatentState { beta, v: v.iter().zip(solved_border).map(|(v, b)| v - beta * b).collect() }
    }

    /// Returns the posterior variances of the targets' sums g, under the augmented Λ.
    pub fn variances(&self) -> Vec<f64> {
        let mut whitened = self.jacobian.clone();
        self.precision.solve_lower_in_place(&mut whitened);
        let mut out = whitened.column_dots(&whitened);
        if let Some((solved_border, schur)) = &self.bordered_schur {
            let changes = self.sum_derivatives(&LatentState { beta: 0.0, v: solved_border.clone() });
            let entries = out.iter_mut().zip(&self.jacobian_of_mean).zip(&changes);
            entries.for_each(|((o, s), t)| *o += (s - t) * (s - t) / schur);
        }
        out
    }
}
