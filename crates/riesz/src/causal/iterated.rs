//! Iterated conditional expectations: the effect from a single table, by a chain of regressions.
//!
//! A stage has up to three groups of columns: a history h, which keeps the values of the rows; treatments a,
//! which the query sets; and covariates z, which are averaged over members of a population. Its kernel is
//! `k_h k_a k_z`. A query q has weights w on rows (n × q for all queries), treatments `a_q`, and weights ω of
//! members (one per member). It evaluates stage t as `Σ_i w_iq Σ_j ω_j Q_t(h_i, a_q, z_j)`. Let `K_h`, `K_a`
//! and `K_z` be the kernels between the points of the stage and rows, treatments or members, and ∘ the
//! elementwise product. Then
//!
//! ```text
//! Φ = (K_h w) ∘ K_a ∘ (K_z ω)          points × queries
//! F = (wᵀ K_h w) ∘ k_a(a, a') · ωᵀ K_z ω     queries × queries
//! ```
//!
//! The last stage is the Gaussian process of the outcome, `Y = β₀ + f₀ + ε`, whose posterior of such
//! functionals is exact. An earlier stage computes weights E (queries × rows of the next stage) and leaves a
//! residual covariance R (queries × queries):
//!
//! ```text
//! E = Φᵀ(K + λ)⁻¹,     R = F - Φᵀ(K + λ)⁻¹Φ
//! cov_t = cov_{t+1}(E) + R ∘ V,     V(q, q') = mean over rows u of E[Q_{t+1}(u, a_q) Q_{t+1}(u, a_q')]
//! ```
//!
//! This is as in [`study_chain`](super::study_chain), where V is for one query. Given the outcome's process
//! and all parameters these are the exact moments of the stages' posteriors, which are independent because
//! the likelihood factorises. For stages between the first and the last, V is averaged over a subset of the
//! rows.

use super::defaults::evenly_spaced;
use super::kernel_regression::KernelRegression;
use super::outcome_at_mediators::OutcomeAtMediators;
use super::outcome_gp::OutcomeGp;
use super::query_embedding::QueryEmbedding;
use super::target_population::PopulationWeights;
use super::uncertainty_parts::{
    CovarianceParts, DataSupport, UncertaintyCause, add_matrix, add_part, sum_parts,
};
use crate::error::{Result, unused};
use crate::kernel::Kernel;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, dot};
use crate::posterior::{Functionals, PosteriorCovariance, VarianceReduction};
use crate::random::Random;
use crate::table::Table;

/// The fitted regression of a stage.
#[derive(Debug, Clone)]
pub(super) enum StageFit {
    /// The Gaussian process of the outcome.
    Outcome(Box<OutcomeGp>),
    /// The regression of the next stage's expectation, with the ridge λ.
    Regression { solver: KernelRegression, ridge: f64 },
}

/// A regression with its groups of columns.
#[derive(Debug, Clone)]
pub(super) struct FittedStage {
    pub history: Option<History>,
    pub set: Option<Set>,
    pub averaged: Option<Averaged>,
    pub fit: StageFit,
}

/// Columns whose values are those of the rows.
#[derive(Debug, Clone)]
pub(super) struct History {
    pub rows: Table,
    /// Kernel of the columns with points and with each other.
    at_history: OutcomeAtMediators,
    /// Mean of `k_h(h_i, h_i)` over the rows; `squares` is `K_h K_hᵀ/n`, points × points.
    mean_diagonal: f64,
    squares: Matrix,
}

/// Treatments that a query sets.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub points: Table,
    pub kernel: Kernel,
    /// Indices of these columns among all treatments.
    pub columns: Vec<usize>,
}

/// Covariates over which the effect is averaged.
#[derive(Debug, Clone)]
pub(super) struct Averaged {
    pub kernel: Kernel,
    points: Table,
    /// Values of all rows.
    pub rows: Table,
    pub people: PopulationWeights,
    query_embedding: QueryEmbedding,
    /// Kernel matrix of points and members.
    with_members: Matrix,
    /// Whether the members are the rows themselves.
    members_are_rows: bool,
}

/// An effect from one table, with given parameters.
#[derive(Debug, Clone)]
pub(super) struct Iterated {
    /// Treatments of the rows.
    pub treatments: Table,
    pub stages: Vec<FittedStage>,
    adjustment: bool,
}

/// Treatments of queries, with their kernels for each stage.
struct Queries {
    /// Kernel of each stage's treatments between points and queries, and between queries.
    kernels: Vec<Option<(Matrix, Matrix)>>,
    /// Weight of the constant in each query.
    constants: Vec<f64>,
}

/// The result of one pass through the stages.
struct Pass {
    parts: CovarianceParts,
    /// For each stage, the share of each query's prior variance that the stage's rows explain.
    resolved: Vec<Vec<f64>>,
    /// Weights on rows of the first stage of the pass, queries × rows.
    weights: Matrix,
    /// Expected outcome minus the constant for each member of the population, members × queries; `None`
    /// without averaged covariates.
    of_members: Option<Matrix>,
}

/// Number of rows over which V is averaged in stages between the first and the last.
const SECOND_MOMENT_ROWS: usize = 25;

fn times(product: &mut Matrix, factor: &Matrix) {
    product.data_mut().iter_mut().zip(factor.data()).for_each(|(a, b)| *a *= b);
}

fn matrix_of_ones(rows: usize, cols: usize) -> Matrix {
    Matrix::from_row_major(rows, cols, vec![1.0; rows * cols])
}

impl StageFit {
    pub fn sees_rows(&self) -> bool {
        match self {
            Self::Outcome(process) => process.uses_all_rows(),
            Self::Regression { solver, .. } => matches!(solver, KernelRegression::Rows(_)),
        }
    }
}

impl History {
    pub fn new(kernel: Kernel, points: Table, rows: Table, all_pairs: bool) -> Result<Self> {
        let at_history = OutcomeAtMediators::new((&points, &kernel), &rows, all_pairs)?;
        let n = rows.rows() as f64;
        let mean_diagonal = kernel.diagonal(&rows).iter().sum::<f64>() / n;
        let mut squares = at_history.cross_covariance().matmul(&at_history.cross_covariance().transpose());
        squares.data_mut().iter_mut().for_each(|v| *v /= n);
        Ok(Self { rows, at_history, mean_diagonal, squares })
    }
}

impl Averaged {
    /// Averages over all rows.
    pub fn new(kernel: Kernel, points: Table, rows: Table) -> Self {
        let people = PopulationWeights::of_study(&rows);
        let mut averaged = Self::over(kernel, points, rows, people);
        averaged.members_are_rows = true;
        averaged
    }

    fn over(kernel: Kernel, points: Table, rows: Table, people: PopulationWeights) -> Self {
        let with_members = kernel.cross_gram(&points, &people.covariates);
        let query_embedding =
            QueryEmbedding::of_members(&with_members, &kernel, &people.covariates, &people.weights);
        Self { kernel, points, rows, people, query_embedding, with_members, members_are_rows: false }
    }
}

impl FittedStage {
    /// Returns the number of points of the stage.
    fn point_count(&self) -> usize {
        match &self.fit {
            StageFit::Outcome(process) => process.points().rows(),
            StageFit::Regression { solver, .. } => solver.point_count(),
        }
    }
}

impl Iterated {
    pub fn new(treatments: Table, stages: Vec<FittedStage>, adjustment: bool) -> Self {
        Self { treatments, stages, adjustment }
    }

    /// Returns the process of the outcome.
    pub fn process(&self) -> &OutcomeGp {
        match self.stages.last().map(|stage| &stage.fit) {
            Some(StageFit::Outcome(process)) => process,
            _ => unreachable!("the last stage regresses the outcome"),
        }
    }

    /// Whether one of the regressions has noise below this share of the variance.
    pub fn has_no_noise(&self, share: f64) -> bool {
        self.stages.iter().any(|stage| match &stage.fit {
            StageFit::Outcome(process) => process.has_no_noise(share),
            StageFit::Regression { ridge, .. } => *ridge < share,
        })
    }

    /// Returns the covariates that the effect is averaged over and whose distribution may differ in another
    /// population, with their kernel.
    pub fn covariates(&self) -> Option<&Averaged> {
        self.stages[0].averaged.as_ref()
    }

    /// Returns this effect on another population.
    pub fn on(&self, people: PopulationWeights) -> Self {
        let mut other = self.clone();
        if let Some(averaged) = other.stages[0].averaged.take() {
            other.stages[0].averaged =
                Some(Averaged::over(averaged.kernel, averaged.points, averaged.rows, people));
        }
        other
    }

    /// Returns the largest share, over the stages, of the noise variance that landmarks leave unexplained;
    /// `None` without landmarks.
    pub fn unexplained(&self) -> Option<f64> {
        let shares = self.stages.iter().filter_map(|stage| match &stage.fit {
            StageFit::Outcome(process) => process.unexplained_share(),
            StageFit::Regression { solver, .. } => solver.unexplained(),
        });
        shares.reduce(f64::max)
    }

    fn queries(&self, treatments: &Table) -> Queries {
        let kernels = self.stages.iter().map(|stage| {
            let set = stage.set.as_ref()?;
            let set_treatments = treatments.select_columns(&set.columns);
            Some((set.kernel.cross_gram(&set.points, &set_treatments), set.kernel.gram(&set_treatments)))
        });
        Queries { kernels: kernels.collect(), constants: vec![1.0; treatments.rows()] }
    }

    /// Returns the weights Φ of points before averaging over members, and F; `weights` are the weights on
    /// rows of the history, queries × rows.
    fn functionals(&self, t: usize, weights: Option<&Matrix>, queries: &Queries) -> (Matrix, Matrix) {
        let (stage, q) = (&self.stages[t], queries.constants.len());
        let (mut phi, mut prior) = match (&stage.history, weights) {
            (Some(history), Some(weights)) => {
                let weighted = history.at_history.weighted(weights, &queries.constants);
                (weighted.columns, weighted.prior_scale)
            }
            _ => (matrix_of_ones(stage.point_count(), q), matrix_of_ones(q, q)),
        };
        if let Some((with_points, with_each_other)) = &queries.kernels[t] {
            times(&mut phi, with_points);
            times(&mut prior, with_each_other);
        }
        (phi, prior)
    }

    /// Computes the covariance of queries from stage t and the later stages.
    fn pass(&self, t: usize, weights: Option<&Matrix>, queries: &Queries) -> Pass {
        let (stage, q) = (&self.stages[t], queries.constants.len());
        let (mut phi, mut prior) = self.functionals(t, weights, queries);
        let of_members = stage.averaged.as_ref().map(|averaged| {
            let mut coefficients = self.coefficients(t, queries);
            times(&mut coefficients, &phi);
            averaged.with_members.transpose_matmul(&coefficients)
        });
        if let Some(averaged) = &stage.averaged {
            let (columns, with_each_other) = (phi, prior);
            phi = averaged.query_embedding.row_cross_covariance(&columns);
            prior = averaged.query_embedding.query_covariance(&columns, &with_each_other);
        }
        let share =
            |open: f64, total: f64| if total > 0.0 { (1.0 - open / total).clamp(0.0, 1.0) } else { 0.0 };
        match &stage.fit {
            StageFit::Outcome(process) => {
                let constants = queries.constants.clone();
                let weights = process.solver().weights(&process.with_points(&phi, &constants));
                let before: Vec<f64> = (0..q)
                    .map(|i| prior[(i, i)] + process.intercept_variance() * constants[i].powi(2))
                    .collect();
                let part = process.covariance(&Functionals { columns: phi, prior_scale: prior, constants });
                let resolved = (0..q).map(|i| share(part[(i, i)], before[i])).collect();
                Pass {
                    parts: vec![(UncertaintyCause::Outcome, part)],
                    resolved: vec![resolved],
                    weights,
                    of_members,
                }
            }
            StageFit::Regression { solver, .. } => {
                let (weights, known) = solver.weights_and_explained(phi);
                let mut open = prior.clone();
                open.data_mut().iter_mut().zip(known.data()).for_each(|(open, known)| *open -= known);
                let next = self.pass(t + 1, Some(&weights), queries);
                let mut parts = next.parts;
                let (square, variance) = self.second_moments(t + 1, queries);
                for (cause, moment) in
                    [(UncertaintyCause::Stage(t), square), (UncertaintyCause::Interaction, variance)]
                {
                    let mut part = open.clone();
                    times(&mut part, &moment);
                    add_part(&mut parts, cause, 1.0, &part);
                }
                let mut resolved = vec![(0..q).map(|i| share(open[(i, i)], prior[(i, i)])).collect()];
                resolved.extend(next.resolved);
                Pass { parts, resolved, weights, of_members: of_members.or(next.of_members) }
            }
        }
    }

    /// Returns coefficients over the points of stage t, points × queries: the mean of the stage is the kernel
    /// times these.
    fn coefficients(&self, t: usize, queries: &Queries) -> Matrix {
        match &self.stages[t].fit {
            StageFit::Outcome(process) => {
                let q = queries.constants.len();
                let outcome_coef = process.coef();
                let values = outcome_coef.iter().flat_map(|v| std::iter::repeat_n(*v, q)).collect();
                Matrix::from_row_major(outcome_coef.len(), q, values)
            }
            StageFit::Regression { solver, .. } => solver.solve_matrix(self.means_of_rows(t + 1, queries)),
        }
    }

    /// Returns the expectation of stage t minus the constant at each row's history, rows × queries.
    fn means_of_rows(&self, t: usize, queries: &Queries) -> Matrix {
        let Some(history) = &self.stages[t].history else { return Matrix::zeros(0, 0) };
        let mut coefficients = self.coefficients(t, queries);
        times(&mut coefficients, &self.without_history(t, queries));
        history.at_history.cross_covariance().transpose_matmul(&coefficients)
    }

    /// Returns the kernel of points with queries, without the factor of the history.
    fn without_history(&self, t: usize, queries: &Queries) -> Matrix {
        let mut kernel_part = matrix_of_ones(self.stages[t].point_count(), queries.constants.len());
        if let Some((with_points, _)) = &queries.kernels[t] {
            times(&mut kernel_part, with_points);
        }
        match &self.stages[t].averaged {
            Some(averaged) => averaged.query_embedding.row_cross_covariance(&kernel_part),
            None => kernel_part,
        }
    }

    /// Returns V of stage t in two parts: from its means, and from its posterior covariance.
    fn second_moments(&self, t: usize, queries: &Queries) -> (Matrix, Matrix) {
        let (stage, q) = (&self.stages[t], queries.constants.len());
        let means = self.means_of_rows(t, queries);
        let n = means.rows() as f64;
        let mut square = means.transpose_matmul(&means);
        square.data_mut().iter_mut().for_each(|v| *v /= n);
        let Some(history) = &stage.history else { return (square, Matrix::zeros(q, q)) };
        match &stage.fit {
            StageFit::Outcome(process) => {
                let columns = self.without_history(t, queries);
                let mut prior = matrix_of_ones(q, q);
                if let Some((_, with_each_other)) = &queries.kernels[t] {
                    times(&mut prior, with_each_other);
                }
                if let Some(averaged) = &stage.averaged {
                    prior.data_mut().iter_mut().for_each(|v| *v *= averaged.query_embedding.kernel_scale);
                }
                prior.data_mut().iter_mut().for_each(|v| *v *= history.mean_diagonal);
                let mut known = process.inverse();
                times(&mut known, &history.squares);
                let known = columns.transpose_matmul(&known.matmul(&columns));
                prior.data_mut().iter_mut().zip(known.data()).for_each(|(v, known)| *v -= known);
                (square, prior)
            }
            StageFit::Regression { .. } => {
                let count = history.rows.rows();
                let sampled_rows = evenly_spaced(SECOND_MOMENT_ROWS, count);
                let of_zero = Queries { kernels: queries.kernels.clone(), constants: vec![0.0; q] };
                let mut variance = Matrix::zeros(q, q);
                for row in &sampled_rows {
                    let mut weights = Matrix::zeros(q, count);
                    (0..q).for_each(|i| weights.row_mut(i)[*row] = 1.0);
                    add_matrix(&mut variance, &sum_parts(&self.pass(t, Some(&weights), &of_zero).parts, q));
                }
                variance.data_mut().iter_mut().for_each(|v| *v /= sampled_rows.len() as f64);
                (square, variance)
            }
        }
    }

    /// Returns the means of queries, their joint covariance by cause, and their support.
    pub fn estimate(&self, treatments: &Table) -> (Vec<f64>, CovarianceParts, Vec<DataSupport>) {
        self.evaluate(&self.queries(treatments))
    }

    fn evaluate(&self, queries: &Queries) -> (Vec<f64>, CovarianceParts, Vec<DataSupport>) {
        let q = queries.constants.len();
        let pass = self.pass(0, None, queries);
        let mut coefficients = self.coefficients(0, queries);
        times(&mut coefficients, &self.without_history(0, queries));
        let mut means: Vec<f64> = queries.constants.iter().map(|c| c * self.process().constant).collect();
        for p in 0..coefficients.rows() {
            means.iter_mut().zip(coefficients.row(p)).for_each(|(mean, v)| *mean += v);
        }
        let mut parts = pass.parts;
        if let Some(part) = self.of_people(pass.of_members.as_ref()) {
            add_part(&mut parts, UncertaintyCause::Adjustment, 1.0, &part);
        }
        let support_of = |i: usize| {
            let row = pass.weights.row(i);
            let (mass, size): (f64, f64) = (row.iter().sum(), row.iter().map(|e| e.abs()).sum());
            DataSupport {
                variance_explained_by_first: pass.resolved[0][i],
                resolved_by_rest: pass.resolved[1..].iter().map(|resolved| resolved[i]).fold(1.0, f64::min),
                effective_rows: if size > 0.0 { size * size / dot(row, row) } else { 0.0 },
                weight_sum: mass,
                population_explained: 1.0,
                overlap: 1.0,
            }
        };
        (means, parts, (0..q).map(support_of).collect())
    }

    /// Returns the covariance due to uncertainty about the population. It comes from the Bayesian bootstrap
    /// of the rows, or from the share of the prior variance that the regression of the members leaves
    /// unexplained.
    fn of_people(&self, of_members: Option<&Matrix>) -> Option<Matrix> {
        let averaged = self.stages.iter().find_map(|stage| stage.averaged.as_ref())?;
        let mut member_means = of_members?.clone();
        let (m, q) = (member_means.rows() as f64, member_means.cols());
        let scale = match averaged.people.unexplained_share {
            Some(open) => open / m,
            None if averaged.members_are_rows && self.adjustment => {
                for j in 0..q {
                    let mean = member_means.column(j).iter().sum::<f64>() / m;
                    (0..member_means.rows()).for_each(|i| member_means[(i, j)] -= mean);
                }
                1.0 / (m * (m + 1.0))
            }
            None => return None,
        };
        let mut part = member_means.transpose_matmul(&member_means);
        part.data_mut().iter_mut().for_each(|v| *v *= scale);
        Some(part)
    }

    /// Draws jointly from the posterior of queries, queries × draws: normal draws with its mean and
    /// covariance.
    pub fn sample(&self, treatments: &Table, draws: usize, random: &mut Random) -> Result<Matrix> {
        let (means, parts, _) = self.estimate(treatments);
        let total = sum_parts(&parts, means.len());
        let scale = super::normal_draws::mean_diagonal(&total);
        let mut out =
            super::normal_draws::normal_draws(total, scale, draws, "covariance of the effect", random)?;
        means.iter().enumerate().for_each(|(i, m)| out.row_mut(i).iter_mut().for_each(|v| *v += m));
        Ok(out)
    }

    /// Returns the mean as an expansion over the treatments, and the covariance of all functionals that map a
    /// constant to 0.
    ///
    /// # Errors
    /// [`Error::Unused`](crate::Error::Unused) for treatments that are set at several times, because their
    /// effect is a sum of products of kernels.
    pub fn posterior(&self) -> Result<(KernelExpansion, PosteriorCovariance)> {
        let set = match (&self.stages[0].set, self.stages[1..].iter().all(|stage| stage.set.is_none())) {
            (Some(set), true) => set,
            _ => {
                return Err(unused("an exact explanation", "effects of treatments that are set at one time"));
            }
        };
        let n = set.points.rows();
        let mut kernels: Vec<Option<(Matrix, Matrix)>> = vec![None; self.stages.len()];
        // First the kernel function itself, of which the prior is a multiple; then the columns.
        kernels[0] = Some((Matrix::zeros(n, 1), matrix_of_ones(1, 1)));
        let prior =
            sum_parts(&self.pass(0, None, &Queries { kernels, constants: vec![0.0] }).parts, 1)[(0, 0)];
        let mut kernels: Vec<Option<(Matrix, Matrix)>> = vec![None; self.stages.len()];
        kernels[0] = Some((Matrix::identity(n), Matrix::zeros(n, n)));
        let queries = Queries { kernels, constants: vec![0.0; n] };
        let (coef, parts, _) = self.evaluate(&queries);
        let mut known = sum_parts(&parts, n);
        known.data_mut().iter_mut().for_each(|v| *v = -*v);
        let coef = Matrix::column_vector(coef);
        let constant = vec![self.process().constant];
        let model = KernelExpansion::new(set.kernel.clone(), set.points.clone(), coef, constant)?;
        let covariance = PosteriorCovariance::new(vec![VarianceReduction::Dense(known)], vec![1.0]);
        Ok((model, PosteriorCovariance { prior_scale: prior, ..covariance }))
    }

    /// Returns the reduction of the variance of sums of effects by each new row (sums × rows).
    ///
    /// # Errors
    /// [`Error::Unused`](crate::Error::Unused) for effects of several stages; errors of [`Table::conform`].
    pub fn variance_reduction_per_row(
        &self,
        treatments: &Table,
        query_weights: &Matrix,
        rows: &Table,
    ) -> Result<Matrix> {
        let [FittedStage { set: Some(set), averaged, .. }] = &self.stages[..] else {
            return Err(unused("the value of another row", "effects of one regression"));
        };
        let process = self.process();
        let (queried, new) = (treatments, rows.align_to(process.points().columns())?);
        let width = set.points.width();
        let x = new.select_columns(&(0..width).collect::<Vec<_>>());
        let weights_by_query = query_weights.transpose();
        let mut columns = set.kernel.cross_gram(&set.points, queried).matmul(&weights_by_query);
        let mut with_query = set.kernel.cross_gram(&x, queried).matmul(&weights_by_query);
        if let Some(averaged) = averaged {
            columns = averaged.query_embedding.row_cross_covariance(&columns);
            let z = new.select_columns(&(width..new.width()).collect::<Vec<_>>());
            let people = &averaged.people;
            let of_people = averaged.kernel.cross_gram(&z, &people.covariates).matvec(&people.weights);
            with_query.scale_rows(of_people);
        }
        let constants: Vec<f64> =
            (0..query_weights.rows()).map(|s| query_weights.row(s).iter().sum()).collect();
        Ok(process.row_variance_reduction((&columns, &constants), with_query, &new))
    }

    /// Returns the posterior of the expectation of stage t, minus the constant, at the histories of these
    /// rows and one choice of treatments. The first column is the mean. The outer product of the other
    /// columns is the covariance, up to a thousandth of its trace.
    pub fn mean_and_root(&self, t: usize, rows: &[usize], treatments: &Table) -> Matrix {
        let Some(history) = &self.stages[t].history else { return Matrix::zeros(0, 0) };
        let queries_once = self.queries(treatments);
        let row_means = self.means_of_rows(t, &queries_once);
        let repeated = treatments.select_rows(&vec![0; rows.len()]);
        let queries = Queries { constants: vec![0.0; rows.len()], ..self.queries(&repeated) };
        let mut weights = Matrix::zeros(rows.len(), history.rows.rows());
        rows.iter().enumerate().for_each(|(i, row)| weights.row_mut(i)[*row] = 1.0);
        let covariance = sum_parts(&self.pass(t, Some(&weights), &queries).parts, rows.len());
        let open = crate::linalg::low_rank_factor(&covariance, 1e-3);
        let values = rows.iter().enumerate().flat_map(|(i, row)| {
            std::iter::once(row_means[(*row, 0)]).chain(open.row(i).iter().copied()).collect::<Vec<_>>()
        });
        Matrix::from_row_major(rows.len(), 1 + open.cols(), values.collect())
    }
}
