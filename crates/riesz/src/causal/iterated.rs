//! Iterated conditional expectations: the effect from a single table, by a chain of regressions.
//!
//! A stage has up to three groups of columns: a history h, which keeps the values of the rows; treatments a,
//! which the query sets; and covariates z, which are averaged over members of a population. Its kernel is
//! `k_h k_a k_z`. In an effect of one stage it may also be the sum `k_a + k_z`. A query q has weights w on
//! rows (n × q for all queries), treatments `a_q`, and weights ω of members (one per member). It evaluates
//! stage t as `Σ_i w_iq Σ_j ω_j Q_t(h_i, a_q, z_j)`. Let `K_h`, `K_a` and `K_z` be the kernels between the
//! points of the stage and rows, treatments or members, and ∘ the elementwise product. Then
//!
//! ```text
//! Φ = (K_h w) ∘ K_a ∘ (K_z ω)          points × queries
//! F = (wᵀ K_h w) ∘ k_a(a, a') · ωᵀ K_z ω     queries × queries
//! ```
//!
//! With the kernel `k_a + k_z` and the weight c_q of the constant in query q, they are
//!
//! ```text
//! Φ = K_a + (K_z ω) cᵀ,     F = k_a(a, a') + c cᵀ · ωᵀ K_z ω
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
use super::normal_draws::effect_draws;
use super::outcome_at_mediators::OutcomeAtMediators;
use super::outcome_gp::OutcomeGp;
use super::query_embedding::QueryEmbedding;
use super::target_population::PopulationWeights;
use super::uncertainty_parts::{
    CovarianceParts, DataSupport, UncertaintyCause, add_part, explained_share, mean_and_root, sum_parts,
};
use crate::error::{Result, unused};
use crate::kernel::Kernel;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, add_to, dot, mean};
use crate::posterior::{Functionals, PosteriorCovariance};
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
    pub set: Option<SetTreatments>,
    pub averaged: Option<Averaged>,
    pub fit: StageFit,
}

/// Columns whose values are those of the rows.
#[derive(Debug, Clone)]
pub(super) struct History {
    pub rows: Table,
    /// Kernel of the columns with points and with each other.
    at_history: OutcomeAtMediators,
    /// Mean of `k_h(h_i, h_i)` over the rows; `mean_outer_product` is `K_h K_hᵀ/n`, points × points.
    mean_diagonal: f64,
    mean_outer_product: Matrix,
}

/// Treatments that a query sets.
#[derive(Debug, Clone)]
pub(super) struct SetTreatments {
    pub points: Table,
    pub kernel: Kernel,
    /// Indices of these columns among all treatments.
    pub columns: Vec<usize>,
}

/// The combination of the kernel of averaged covariates with the kernel of the other columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Combination {
    /// The kernels are multiplied.
    Product,
    /// The kernels are added, which only effects of one stage support.
    Sum,
}

/// Covariates over which the effect is averaged.
#[derive(Debug, Clone)]
pub(super) struct Averaged {
    pub kernel: Kernel,
    combination: Combination,
    points: Table,
    /// Values of all rows.
    pub rows: Table,
    pub population: PopulationWeights,
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
    /// Whether the uncertainty includes the sampling of the rows that are averaged over.
    pub adjustment: bool,
}

/// Treatments of queries, with their kernels for each stage.
struct Queries {
    /// Kernel of each stage's treatments between points and queries, and between queries; 1 for a stage
    /// without treatments.
    kernels: Vec<(Matrix, Matrix)>,
    /// Weight of the constant in each query.
    constants: Vec<f64>,
}

/// The result of one pass through the stages.
struct Pass {
    parts: CovarianceParts,
    /// For each stage, the share of each query's prior variance that the stage's rows explain.
    explained_shares: Vec<Vec<f64>>,
    /// Weights on rows of the first stage of the pass, queries × rows.
    weights: Matrix,
    /// Expected outcome minus the constant for each member of the population, members × queries; `None`
    /// without averaged covariates.
    member_means: Option<Matrix>,
}

/// Number of rows over which V is averaged in stages between the first and the last.
const SECOND_MOMENT_ROWS: usize = 25;

impl StageFit {
    /// Returns the regression of the outcome or of the next stage's expectation.
    pub fn solver(&self) -> &KernelRegression {
        match self {
            Self::Outcome(process) => &process.solver,
            Self::Regression { solver, .. } => solver,
        }
    }
}

impl FittedStage {
    /// Whether the kernel is the sum of a kernel of treatments and one of averaged covariates.
    fn is_additive(&self) -> bool {
        self.averaged.as_ref().is_some_and(|averaged| averaged.combination == Combination::Sum)
    }
}

impl History {
    pub fn new(kernel: Kernel, points: Table, rows: Table, all_pairs: bool) -> Result<Self> {
        let at_history = OutcomeAtMediators::new((&points, &kernel), &rows, all_pairs)?;
        let n = rows.rows() as f64;
        let mean_diagonal = mean(&kernel.diagonal(&rows));
        let mut mean_outer_product =
            at_history.cross_covariance.matmul(&at_history.cross_covariance.transpose());
        mean_outer_product.map_in_place(|v| v / n);
        Ok(Self { rows, at_history, mean_diagonal, mean_outer_product })
    }
}

impl Averaged {
    /// Averages over all rows.
    pub fn new((kernel, combination): (Kernel, Combination), points: Table, rows: Table) -> Self {
        let population = PopulationWeights::uniform(&rows);
        let mut averaged = Self::over_population((kernel, combination), points, rows, population);
        averaged.members_are_rows = true;
        averaged
    }

    fn over_population(
        (kernel, combination): (Kernel, Combination),
        points: Table,
        rows: Table,
        population: PopulationWeights,
    ) -> Self {
        let with_members = kernel.cross_gram(&points, &population.covariates);
        let query_embedding = QueryEmbedding::averaged_over_members(
            &with_members,
            &kernel,
            &population.covariates,
            &population.weights,
        );
        Self {
            kernel,
            combination,
            points,
            rows,
            population,
            query_embedding,
            with_members,
            members_are_rows: false,
        }
    }

    /// Returns Φ from the kernel of the other columns between points and queries, and the weights of the
    /// constant in the queries.
    fn row_cross_covariance(&self, columns: &Matrix, constants: &[f64]) -> Matrix {
        match self.combination {
            Combination::Product => self.query_embedding.row_cross_covariance(columns),
            Combination::Sum => {
                let mut out = columns.clone();
                out.add_outer(self.mean_kernel_of_points(), constants);
                out
            }
        }
    }

    /// Returns F from the kernel of the other columns between points and queries (`columns`) and between
    /// queries (`gram`), and the weights of the constant in the queries.
    fn query_covariance(&self, columns: &Matrix, gram: &Matrix, constants: &[f64]) -> Matrix {
        match self.combination {
            Combination::Product => self.query_embedding.query_covariance(columns, gram),
            Combination::Sum => {
                let mut out = gram.clone();
                let mean_kernel = self.query_embedding.kernel_scale;
                out.add_outer(constants.iter().map(|c| mean_kernel * c), constants);
                out
            }
        }
    }

    /// Returns `K_z ω`, the mean of the kernel of each point with the members.
    fn mean_kernel_of_points(&self) -> Vec<f64> {
        // The embedding of a product kernel multiplies the row of each point by this mean.
        self.query_embedding.row_map.transpose_times(&vec![1.0; self.points.rows()])
    }

    /// Returns the expected outcome minus its constant for each member (members × queries), from the
    /// coefficients of the points (points × queries) and the kernel of the other columns between points and
    /// queries.
    fn member_means(&self, mut coefficients: Matrix, columns: &Matrix, constants: &[f64]) -> Matrix {
        match self.combination {
            Combination::Product => {
                coefficients.multiply(columns);
                self.with_members.transpose_matmul(&coefficients)
            }
            Combination::Sum => {
                let mut means = self.with_members.transpose_matmul(&coefficients);
                means.scale_columns(constants.iter().copied());
                coefficients.multiply(columns);
                let treatment_means: Vec<f64> =
                    (0..columns.cols()).map(|q| coefficients.column(q).iter().sum()).collect();
                means.add_outer(std::iter::repeat(1.0), &treatment_means);
                means
            }
        }
    }
}

impl Iterated {
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
    pub fn on_population(&self, population: PopulationWeights) -> Self {
        let mut other = self.clone();
        if let Some(averaged) = other.stages[0].averaged.take() {
            let kernel = (averaged.kernel, averaged.combination);
            other.stages[0].averaged =
                Some(Averaged::over_population(kernel, averaged.points, averaged.rows, population));
        }
        other
    }

    /// Returns the largest share, over the stages, of the noise variance that landmarks leave unexplained;
    /// `None` without landmarks.
    pub fn unexplained(&self) -> Option<f64> {
        self.stages.iter().filter_map(|stage| stage.fit.solver().unexplained()).reduce(f64::max)
    }

    fn queries(&self, treatments: &Table) -> Queries {
        self.queries_with(vec![1.0; treatments.rows()], |set| {
            let set_treatments = treatments.select_columns(&set.columns);
            (set.kernel.cross_gram(&set.points, &set_treatments), set.kernel.gram(&set_treatments))
        })
    }

    /// Returns queries with these weights of the constant, and the kernels of the treatments that stages set.
    fn queries_with(
        &self,
        constants: Vec<f64>,
        kernels: impl Fn(&SetTreatments) -> (Matrix, Matrix),
    ) -> Queries {
        let q = constants.len();
        let kernels_of = |stage: &FittedStage| match &stage.set {
            Some(set) => kernels(set),
            None => (Matrix::filled(stage.fit.solver().point_count(), q, 1.0), Matrix::filled(q, q, 1.0)),
        };
        Queries { kernels: self.stages.iter().map(kernels_of).collect(), constants }
    }

    /// Returns the weights Φ of points before averaging over members, and F; `weights` are the weights on
    /// rows of the history, queries × rows.
    fn functionals(&self, t: usize, weights: Option<&Matrix>, queries: &Queries) -> (Matrix, Matrix) {
        let (with_points, query_gram) = &queries.kernels[t];
        let (Some(history), Some(weights)) = (&self.stages[t].history, weights) else {
            return (with_points.clone(), query_gram.clone());
        };
        let mut weighted = history.at_history.weighted(weights, &queries.constants);
        weighted.columns.multiply(with_points);
        weighted.prior_covariance.multiply(query_gram);
        (weighted.columns, weighted.prior_covariance)
    }

    /// Computes the covariance of queries from stage t and the later stages.
    fn pass(&self, t: usize, weights: Option<&Matrix>, queries: &Queries) -> Pass {
        let (stage, q) = (&self.stages[t], queries.constants.len());
        let (mut phi, mut prior) = self.functionals(t, weights, queries);
        let constants = &queries.constants;
        let member_means = stage
            .averaged
            .as_ref()
            .map(|averaged| averaged.member_means(self.coefficients(t, queries), &phi, constants));
        if let Some(averaged) = &stage.averaged {
            let (columns, query_gram) = (phi, prior);
            phi = averaged.row_cross_covariance(&columns, constants);
            prior = averaged.query_covariance(&columns, &query_gram, constants);
        }
        match &stage.fit {
            StageFit::Outcome(process) => {
                let constants = queries.constants.clone();
                let weights = process.solver.weights(&process.with_points(&phi, &constants));
                let intercept_variance = process.parameters.intercept_variance;
                // Free polynomials have large prior variances, of which rows always explain most.
                let largest = if stage.is_additive() { process.target_variance } else { f64::INFINITY };
                let prior_variances: Vec<f64> = (0..q)
                    .map(|i| prior[(i, i)].min(largest) + intercept_variance * constants[i].powi(2))
                    .collect();
                let part =
                    process.covariance(&Functionals { columns: phi, prior_covariance: prior, constants });
                let explained_shares =
                    (0..q).map(|i| explained_share(part[(i, i)], prior_variances[i])).collect();
                Pass {
                    parts: vec![(UncertaintyCause::Outcome, part)],
                    explained_shares: vec![explained_shares],
                    weights,
                    member_means,
                }
            }
            StageFit::Regression { solver, .. } => {
                let (weights, explained) = solver.weights_and_explained(phi);
                let mut residual = prior.clone();
                residual.add_times(-1.0, &explained);
                let next = self.pass(t + 1, Some(&weights), queries);
                let mut parts = next.parts;
                let (mean_products, posterior_covariance) = self.second_moments(t + 1, queries);
                for (cause, moment) in [
                    (UncertaintyCause::Stage(t), mean_products),
                    (UncertaintyCause::Interaction, posterior_covariance),
                ] {
                    let mut part = residual.clone();
                    part.multiply(&moment);
                    add_part(&mut parts, cause, 1.0, part);
                }
                let mut explained_shares =
                    vec![(0..q).map(|i| explained_share(residual[(i, i)], prior[(i, i)])).collect()];
                explained_shares.extend(next.explained_shares);
                Pass { parts, explained_shares, weights, member_means: member_means.or(next.member_means) }
            }
        }
    }

    /// Returns coefficients over the points of stage t, points × queries: the mean of the stage is the kernel
    /// times these.
    fn coefficients(&self, t: usize, queries: &Queries) -> Matrix {
        match &self.stages[t].fit {
            StageFit::Outcome(process) => {
                let q = queries.constants.len();
                Matrix::from_fn(process.coef.len(), q, |p, _| process.coef[p])
            }
            StageFit::Regression { solver, .. } => solver.solve_matrix(self.means_of_rows(t + 1, queries)),
        }
    }

    /// Returns the expectation of stage t minus the constant at each row's history, rows × queries.
    fn means_of_rows(&self, t: usize, queries: &Queries) -> Matrix {
        let Some(history) = &self.stages[t].history else { return Matrix::zeros(0, 0) };
        history.at_history.cross_covariance.transpose_matmul(&self.weighted_coefficients(t, queries))
    }

    /// Returns the kernel of points with queries, without the factor of the history.
    fn without_history(&self, t: usize, queries: &Queries) -> Matrix {
        let (with_points, _) = &queries.kernels[t];
        match &self.stages[t].averaged {
            Some(averaged) => averaged.row_cross_covariance(with_points, &queries.constants),
            None => with_points.clone(),
        }
    }

    /// Returns the [`coefficients`](Self::coefficients) times the kernel without the factor of the history.
    fn weighted_coefficients(&self, t: usize, queries: &Queries) -> Matrix {
        let mut coefficients = self.coefficients(t, queries);
        coefficients.multiply(&self.without_history(t, queries));
        coefficients
    }

    /// Returns V of stage t in two parts: from its means, and from its posterior covariance.
    fn second_moments(&self, t: usize, queries: &Queries) -> (Matrix, Matrix) {
        let (stage, q) = (&self.stages[t], queries.constants.len());
        let means = self.means_of_rows(t, queries);
        let n = means.rows() as f64;
        let mut mean_products = means.transpose_matmul(&means);
        mean_products.map_in_place(|v| v / n);
        let Some(history) = &stage.history else { return (mean_products, Matrix::zeros(q, q)) };
        match &stage.fit {
            StageFit::Outcome(process) => {
                let columns = self.without_history(t, queries);
                let mut prior = queries.kernels[t].1.clone();
                if let Some(averaged) = &stage.averaged {
                    prior.scale(averaged.query_embedding.kernel_scale);
                }
                prior.scale(history.mean_diagonal);
                let mut explained = process.solver.inverse();
                explained.multiply(&history.mean_outer_product);
                prior.add_times(-1.0, &explained.quadratic_form(&columns));
                (mean_products, prior)
            }
            StageFit::Regression { .. } => {
                let count = history.rows.rows();
                let sampled_rows = evenly_spaced(SECOND_MOMENT_ROWS, count);
                let centered_queries = Queries { kernels: queries.kernels.clone(), constants: vec![0.0; q] };
                let mut posterior_covariance = Matrix::zeros(q, q);
                for row in &sampled_rows {
                    let mut weights = Matrix::zeros(q, count);
                    (0..q).for_each(|i| weights.row_mut(i)[*row] = 1.0);
                    posterior_covariance.add_times(
                        1.0,
                        &sum_parts(&self.pass(t, Some(&weights), &centered_queries).parts, q),
                    );
                }
                posterior_covariance.map_in_place(|v| v / sampled_rows.len() as f64);
                (mean_products, posterior_covariance)
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
        let coefficients = self.weighted_coefficients(0, queries);
        let mut means: Vec<f64> = queries.constants.iter().map(|c| c * self.process().constant).collect();
        for p in 0..coefficients.rows() {
            add_to(&mut means, coefficients.row(p));
        }
        let mut parts = pass.parts;
        if let Some(part) = self.population_covariance(pass.member_means.as_ref()) {
            add_part(&mut parts, UncertaintyCause::Adjustment, 1.0, part);
        }
        let support_of = |i: usize| {
            let later_support = pass.explained_shares[1..]
                .iter()
                .map(|explained_shares| explained_shares[i])
                .fold(1.0, f64::min);
            DataSupport::from_weights(pass.weights.row(i), pass.explained_shares[0][i], later_support)
        };
        (means, parts, (0..q).map(support_of).collect())
    }

    /// Returns the covariance due to uncertainty about the population. It comes from the Bayesian bootstrap
    /// of the rows, or from the share of the prior variance that the regression of the members leaves
    /// unexplained.
    fn population_covariance(&self, member_means: Option<&Matrix>) -> Option<Matrix> {
        let averaged = self.stages.iter().find_map(|stage| stage.averaged.as_ref())?;
        let mut member_means = member_means?.clone();
        let (m, q) = (member_means.rows() as f64, member_means.cols());
        let factor = match averaged.population.unexplained_share {
            Some(unexplained_share) => unexplained_share / m,
            None if averaged.members_are_rows && self.adjustment => {
                for j in 0..q {
                    let mean = mean(&member_means.column(j));
                    (0..member_means.rows()).for_each(|i| member_means[(i, j)] -= mean);
                }
                1.0 / (m * (m + 1.0))
            }
            None => return None,
        };
        let mut part = member_means.transpose_matmul(&member_means);
        part.scale(factor);
        Some(part)
    }

    /// Draws jointly from the posterior of queries, queries × draws: normal draws with its mean and
    /// covariance.
    pub fn sample(&self, treatments: &Table, draws: usize, random: &mut Random) -> Result<Matrix> {
        let (means, parts, _) = self.estimate(treatments);
        effect_draws(means, &parts, draws, random)
    }

    /// Returns the mean as an expansion over the treatments, and the covariance of all functionals that map a
    /// constant to 0.
    ///
    /// # Errors
    /// [`Error::Unused`](crate::Error::Unused) for treatments that are set at several times, because their
    /// effect is a sum of products of kernels.
    pub fn posterior(&self) -> Result<(KernelExpansion, PosteriorCovariance)> {
        let set_once = self.stages[1..].iter().all(|stage| stage.set.is_none());
        let (Some(set), true) = (&self.stages[0].set, set_once) else {
            return Err(unused("an exact explanation", "effects of treatments that are set at one time"));
        };
        let n = set.points.rows();
        // First the kernel function itself, of which the prior is a multiple; then the columns.
        let kernel_query = self.queries_with(vec![0.0], |_| (Matrix::zeros(n, 1), Matrix::filled(1, 1, 1.0)));
        let prior_scale = sum_parts(&self.pass(0, None, &kernel_query).parts, 1)[(0, 0)];
        let column_queries = self.queries_with(vec![0.0; n], |_| (Matrix::identity(n), Matrix::zeros(n, n)));
        let (coef, parts, _) = self.evaluate(&column_queries);
        let mut covariance_reduction = sum_parts(&parts, n);
        covariance_reduction.scale(-1.0);
        let coef = Matrix::column_vector(coef);
        let process = self.process();
        let averaged = self.stages[0].averaged.as_ref().filter(|_| self.stages[0].is_additive());
        let covariate_mean =
            averaged.map_or(0.0, |averaged| dot(&averaged.mean_kernel_of_points(), &process.coef));
        let constant = vec![process.constant + covariate_mean];
        let model = KernelExpansion::new(set.kernel.clone(), set.points.clone(), coef, constant)?;
        Ok((model, PosteriorCovariance::dense(prior_scale, covariance_reduction)))
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
        let (queried, new_rows) = (treatments, rows.align_to(process.points.columns())?);
        let width = set.points.width();
        let x = new_rows.select_columns(&(0..width).collect::<Vec<_>>());
        let weights_by_query = query_weights.transpose();
        let mut columns = set.kernel.cross_gram(&set.points, queried).matmul(&weights_by_query);
        let mut with_query = set.kernel.cross_gram(&x, queried).matmul(&weights_by_query);
        let constants: Vec<f64> =
            (0..query_weights.rows()).map(|s| query_weights.row(s).iter().sum()).collect();
        if let Some(averaged) = averaged {
            columns = averaged.row_cross_covariance(&columns, &constants);
            let z = new_rows.select_columns(&(width..new_rows.width()).collect::<Vec<_>>());
            let population = &averaged.population;
            let population_embedding =
                averaged.kernel.cross_gram(&z, &population.covariates).matvec(&population.weights);
            match averaged.combination {
                Combination::Product => with_query.scale_rows(population_embedding),
                Combination::Sum => with_query.add_outer(population_embedding, &constants),
            }
        }
        Ok(process.row_variance_reduction((&columns, &constants), with_query, &new_rows))
    }

    /// Returns the posterior of the expectation of stage t, minus the constant, at the histories of these
    /// rows and one choice of treatments. The first column is the mean. The outer product of the other
    /// columns is the covariance, up to a thousandth of its trace.
    pub fn mean_and_root(&self, t: usize, rows: &[usize], treatments: &Table) -> Matrix {
        let Some(history) = &self.stages[t].history else { return Matrix::zeros(0, 0) };
        let single_query = self.queries(treatments);
        let row_means = self.means_of_rows(t, &single_query);
        let repeated = treatments.select_rows(&vec![0; rows.len()]);
        let queries = Queries { constants: vec![0.0; rows.len()], ..self.queries(&repeated) };
        let mut weights = Matrix::zeros(rows.len(), history.rows.rows());
        rows.iter().enumerate().for_each(|(i, row)| weights.row_mut(i)[*row] = 1.0);
        let covariance = sum_parts(&self.pass(t, Some(&weights), &queries).parts, rows.len());
        mean_and_root(rows.iter().map(|row| row_means[(*row, 0)]), &covariance)
    }
}
