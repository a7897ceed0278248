//! A study between a query and an outcome that later studies determine: one step of the recursion that
//! computes all posteriors.
//!
//! A study with rows (Ω_i, y_i), i = 1 … n, is informative about the distribution of mediators y given Ω. As
//! an element of a function space this distribution is also a Gaussian process, of which every row is an
//! observation with the ridge λ as noise. Its posterior is therefore that of a regression, with weights `E =
//! Φᵀ(K_Ω + λ)⁻¹` (queries × n) and residual covariance `R = F - Φᵀ(K_Ω + λ)⁻¹Φ`. Here `K_Ω` (n × n) is the
//! gram matrix, and Φ and F are the kernels of [queries](super::query_embedding). For an outcome f with mean
//! `β₀ + f̄₀` and covariance K̄ at the rows,
//!
//! ```text
//! E[g(x)] = β₀ + E_x f̄₀        cov(g(x), g(x')) = E_x K̄ E_x'ᵀ + R_xx' V,     V = ∫ E[f₀²] dν
//! ```
//!
//! where ν is the distribution of the mediators of all studies and k̄ the posterior covariance of f₀. The
//! covariance has three parts: the part of the outcome's studies, the part of this study (`R ∫ f̄₀²`), and
//! their interaction (`R ∫ k̄`). Such a g is again an outcome, so that studies can be chained. Source: Chau
//! 2023 (thesis), chapter 4 (IMP is the first part alone, BayesIME the second), and the moments of Dance and
//! Bloem-Reddy 2024 (IMPspec); the recursion is new.

use super::defaults::evenly_spaced;
use super::kernel_regression::KernelRegression;
use super::outcome_at_mediators::OutcomeAtMediators;
use super::outcome_gp::OutcomeGp;
use super::product_kernel::ColumnBlock;
use super::query_embedding::QueryEmbedding;
use super::shared_covariates::SharedCovariateTerms;
use super::uncertainty_parts::{CovarianceParts, DataSupport, UncertaintyCause, add_part, sum_parts};
use crate::error::{Result, sized};
use crate::kernel::Kernel;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, dot, low_rank_factor};
use crate::posterior::{Functionals, PosteriorCovariance, VarianceReduction};
use crate::table::Table;

/// The posterior of an outcome as a function of some columns: the last study's process, or a chained study.
#[derive(Debug, Clone)]
pub(super) enum ChainedOutcome {
    Process(Box<OutcomeGp>),
    Link(Box<StudyLink>),
}

/// A fitted study, with the model of the later studies.
#[derive(Debug, Clone)]
pub(super) struct StudyLink {
    /// Index of the study.
    pub study: usize,
    /// Treatments of all rows; `people` are their covariates if these are averaged over.
    pub treatments: Table,
    pub people: Option<Table>,
    /// Points and kernel of queries: the treatments of all rows, or of landmarks.
    pub points: Table,
    pub kernel: Kernel,
    /// Covariates at points if these are averaged over, with their kernel.
    pub covariate_block: Option<ColumnBlock>,
    pub query_embedding: QueryEmbedding,
    /// Ridge λ of the regression.
    pub ridge: f64,
    /// Regression on the study's rows.
    pub solver: KernelRegression,
    pub outcome: ChainedOutcome,
    at_mediators: OutcomeAtMediators,
    /// Coefficients `W f̄₀(y)` over points; with all rows they are `(K_Ω + λ)⁻¹ f̄₀(y)`.
    solved: Vec<f64>,
    /// Mediators of the study, and those of ν.
    y: Table,
    measure: Table,
    /// The integrals `∫ f̄₀² dν` and `∫ k̄ dν`.
    square: f64,
    variance: f64,
    adjustment: Option<AdjustmentUncertainty>,
    /// Terms of the covariates that the study shares with the last one.
    shared: Option<SharedCovariateTerms>,
}

/// Inputs of a front door: treatments are distributed as in the study, and mediators given the queried
/// treatments by a regression.
pub(super) struct FrontDoorInputs<'a> {
    /// Kernel matrices (points × rows) of treatments, and of mediators.
    pub treatments: &'a Matrix,
    pub intercepting: &'a Matrix,
    /// Kernel of each row's mediators with themselves.
    pub diagonal: Vec<f64>,
    /// Embedding of the study's distribution of treatments.
    pub observed_embedding: QueryEmbedding,
    /// Regression of mediators on treatments, and `W K_MM` with points.
    pub regression: KernelRegression,
    pub weighted_mediators: Matrix,
}

/// The uncertainty from the sampling of a study's units: `scale k(x, x') - k(x, X) Q k(X, x') + k(x, X) B Bᵀ
/// k(X, x')`, where `known` is Q and `root` is B.
#[derive(Debug, Clone)]
struct AdjustmentUncertainty {
    scale: f64,
    known: Option<Matrix>,
    root: Matrix,
}

/// Number of rows in a chunk whose joint covariance is computed for their variances.
const AT_ONCE: usize = 1024;

/// Share of the trace of an outcome's covariance at rows that a low-rank factor may omit.
const LEFT: f64 = 1e-3;

/// Maximum number of rows over which the uncertainty of a front door's treatments is averaged with landmarks.
const AVERAGED: usize = 200;

/// Share of the trace of a covariance that counts as rounding errors.
const ROUNDING: f64 = 1e-13;

impl ChainedOutcome {
    pub fn points(&self) -> &Table {
        match self {
            Self::Process(process) => process.points(),
            Self::Link(link) => &link.points,
        }
    }

    pub fn kernel(&self) -> &Kernel {
        match self {
            Self::Process(process) => process.kernel(),
            Self::Link(link) => &link.kernel,
        }
    }

    /// Whether all rows are used, rather than landmarks.
    pub fn uses_all_rows(&self) -> bool {
        match self {
            Self::Process(process) => process.uses_all_rows(),
            Self::Link(link) => link.sees_rows(),
        }
    }

    /// Returns β₀, the constant of the outcome.
    pub fn constant(&self) -> f64 {
        match self {
            Self::Process(process) => process.constant,
            Self::Link(link) => link.outcome.constant(),
        }
    }

    /// Returns the means of f₀, from columns over points.
    pub fn centred_means(&self, columns: &Matrix) -> Vec<f64> {
        match self {
            Self::Process(process) => process.centred_means(columns),
            Self::Link(link) => columns.transpose().matvec(&link.coef()),
        }
    }

    /// Returns the prior variances of functionals, given the scale of the outcome. For a chained study it is
    /// the prior variance of its mediators' distribution times the outcome's second moment.
    fn prior_variances(&self, functionals: &Functionals) -> Vec<f64> {
        let variance_of = |q: usize| match self {
            Self::Process(process) => {
                functionals.prior_scale[(q, q)]
                    + process.intercept_variance() * functionals.constants[q].powi(2)
            }
            Self::Link(link) => {
                let column = Matrix::column_vector(functionals.columns.column(q));
                let prior = Matrix::column_vector(vec![functionals.prior_scale[(q, q)]]);
                let leads = link.query_embedding.query_covariance(&column, &prior)[(0, 0)] * link.scale();
                leads + link.outcome.level() * functionals.constants[q].powi(2)
            }
        };
        (0..functionals.constants.len()).map(variance_of).collect()
    }

    /// Returns the prior variance of β₀.
    fn level(&self) -> f64 {
        match self {
            Self::Process(process) => process.intercept_variance(),
            Self::Link(link) => link.outcome.level(),
        }
    }

    /// Returns `∫ f̄₀² dν` and `∫ k̄ dν`, the two parts of V; all rows of ν have equal weights.
    pub fn second_moment(&self, measure: &Table) -> (f64, f64) {
        let means = self.centred_means(&self.kernel().cross_gram(self.points(), measure));
        let count = means.len() as f64;
        (dot(&means, &means) / count, self.variances(measure).iter().sum::<f64>() / count)
    }

    /// Returns the posterior of f₀ at rows: the first column is the mean. The outer product of the other
    /// columns is the covariance, up to a thousandth of its trace.
    pub fn mean_and_root(&self, rows: &Table) -> Matrix {
        let functionals = self.values_at(rows);
        let means = self.centred_means(&functionals.columns);
        let open = low_rank_factor(&sum_parts(&self.covariance(&functionals), rows.rows()), LEFT);
        let values =
            (0..rows.rows()).flat_map(|i| std::iter::once(means[i]).chain(open.row(i).iter().copied()));
        Matrix::from_row_major(rows.rows(), 1 + open.cols(), values.collect())
    }

    /// Returns the covariance of functionals by cause. For m functionals and n points the cost is O(n² m + n
    /// m²) for each study.
    pub fn covariance(&self, functionals: &Functionals) -> CovarianceParts {
        match self {
            Self::Process(process) => {
                vec![(UncertaintyCause::Study(process.study), process.covariance(functionals))]
            }
            Self::Link(link) => link.covariance(functionals),
        }
    }

    /// Returns the functionals that evaluate f₀ at rows.
    pub fn values_at(&self, rows: &Table) -> Functionals {
        let columns = self.kernel().cross_gram(self.points(), rows);
        Functionals { columns, prior_scale: self.kernel().gram(rows), constants: vec![0.0; rows.rows()] }
    }

    /// Returns the variances of f₀ at rows.
    fn variances(&self, x: &Table) -> Vec<f64> {
        match self {
            Self::Process(process) => {
                let columns = self.kernel().cross_gram(self.points(), x);
                process.variances(&columns, &self.kernel().diagonal(x))
            }
            Self::Link(link) => {
                let rows: Vec<usize> = (0..x.rows()).collect();
                let variances = rows.chunks(AT_ONCE).flat_map(|chunk| {
                    let parts = link.covariance(&self.values_at(&x.select_rows(chunk)));
                    let variance_of =
                        |j: usize| parts.iter().map(|(_, part)| part[(j, j)]).sum::<f64>().max(0.0);
                    (0..chunk.len()).map(variance_of).collect::<Vec<_>>()
                });
                variances.collect()
            }
        }
    }
}

impl StudyLink {
    /// Fits a study whose rows have the mediators `y`; ν has equal weights on the rows of `measure`.
    pub fn new(
        study: usize,
        (treatments, points, kernel): (Table, Table, Kernel),
        query_embedding: QueryEmbedding,
        (solver, ridge): (KernelRegression, f64),
        y: Table,
        measure: Table,
        outcome: ChainedOutcome,
    ) -> Result<Self> {
        sized("the mediators", "rows", solver.row_count(), y.rows(), "one per row of the study")?;
        let at_mediators = OutcomeAtMediators::new(
            (outcome.points(), outcome.kernel()),
            &y,
            matches!(solver, KernelRegression::Rows(_)),
        )?;
        let solved = solver.solve(&outcome.centred_means(at_mediators.cross_covariance()));
        let (square, variance) = outcome.second_moment(&measure);
        Ok(Self {
            study,
            treatments,
            people: None,
            points,
            kernel,
            covariate_block: None,
            query_embedding,
            ridge,
            solver,
            outcome,
            at_mediators,
            solved,
            y,
            measure,
            square,
            variance,
            adjustment: None,
            shared: None,
        })
    }

    /// Returns the link with an outcome that depends on covariates of this study, too.
    pub fn sharing(mut self, shared: SharedCovariateTerms) -> Self {
        self.shared = Some(shared);
        self
    }

    /// Returns the number of points at which the outcome is drawn.
    pub fn places(&self) -> usize {
        if self.outcome.uses_all_rows() {
            self.y.rows() + self.measure.rows()
        } else {
            self.outcome.points().rows()
        }
    }

    /// Returns the mediators of the study's rows.
    pub fn mediators(&self) -> &Table {
        &self.y
    }

    /// Returns the rows of ν.
    pub fn measure(&self) -> &Table {
        &self.measure
    }

    /// Returns the prior of the outcome at the study's mediators.
    pub fn outcome_at_mediators(&self) -> &OutcomeAtMediators {
        &self.at_mediators
    }

    /// Whether all rows are used, rather than landmarks.
    pub fn sees_rows(&self) -> bool {
        matches!(self.solver, KernelRegression::Rows(_))
    }

    /// Computes [`Effect::unexplained`](super::Effect::unexplained) for this study and the later ones.
    pub fn unexplained(&self) -> Vec<(usize, f64)> {
        let share = self.solver.unexplained().map(|solver_share| {
            (self.study, solver_share.max(self.at_mediators.unexplained(self.ridge * self.scale())))
        });
        let after = match &self.outcome {
            ChainedOutcome::Process(process) => process
                .unexplained_share()
                .map(|outcome_share| (process.study, outcome_share))
                .into_iter()
                .collect(),
            ChainedOutcome::Link(next) => next.unexplained(),
        };
        share.into_iter().chain(after).collect()
    }

    /// Whether the study needs no adjustment.
    pub fn is_direct(&self) -> bool {
        self.covariate_block.is_none() && self.query_embedding.low_rank_part.is_none()
    }

    /// Whether the study shares covariates with the last one.
    pub fn shares(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns V.
    pub fn scale(&self) -> f64 {
        self.square + self.variance
    }

    /// Returns the coefficients over the points.
    pub fn coef(&self) -> Vec<f64> {
        match &self.shared {
            Some(shared) => shared.coef.clone(),
            None => self.query_embedding.row_map.transpose_times(&self.solved),
        }
    }

    /// Returns the posterior mean, `β₀ + Σ coef_i k(x_i, ·)`.
    pub fn mean(&self) -> Result<KernelExpansion> {
        let coef = Matrix::column_vector(self.coef());
        KernelExpansion::new(self.kernel.clone(), self.points.clone(), coef, vec![self.outcome.constant()])
    }

    /// Returns the posterior mean, and the covariance of all functionals that do not depend on a constant,
    /// such as Shapley values; it omits the variance of β₀.
    pub fn posterior(&self) -> Result<(KernelExpansion, PosteriorCovariance)> {
        let (n, model) = (self.points.rows(), self.mean()?);
        let identity = Functionals {
            columns: Matrix::identity(n),
            prior_scale: Matrix::zeros(n, n),
            constants: vec![0.0; n],
        };
        let mut known = Matrix::zeros(n, n);
        self.covariance(&identity).iter().for_each(|(_, part)| known.add_times(-1.0, part));
        let kernel_scale = match &self.shared {
            Some(shared) => shared.of_means.0 + shared.of_open.0,
            None => self.query_embedding.kernel_scale * self.scale(),
        };
        let prior = kernel_scale + self.adjustment.as_ref().map_or(0.0, |uncertainty| uncertainty.scale);
        let covariance = PosteriorCovariance::new(vec![VarianceReduction::Dense(known)], vec![1.0]);
        Ok((model, PosteriorCovariance { prior_scale: prior, ..covariance }))
    }

    /// Returns E, queries × rows, and R.
    pub fn weights(&self, functionals: &Functionals) -> (Matrix, Matrix) {
        let (weights, mut open) = self
            .solver
            .weights_and_explained(self.query_embedding.row_cross_covariance(&functionals.columns));
        let prior = self.query_embedding.query_covariance(&functionals.columns, &functionals.prior_scale);
        open.data_mut()
            .iter_mut()
            .zip(prior.data())
            .for_each(|(residual, prior_entry)| *residual = prior_entry - *residual);
        (weights, open)
    }

    /// Returns the functionals of the outcome into which this study turns the given functionals.
    fn push_forward(&self, weights: &Matrix, functionals: &Functionals) -> Functionals {
        match &self.shared {
            None => self.at_mediators.weighted(weights, &functionals.constants),
            Some(SharedCovariateTerms { to, prior, .. }) => Functionals {
                columns: to.matmul(&functionals.columns),
                prior_scale: functionals.columns.transpose_matmul(&prior.matmul(&functionals.columns)),
                constants: functionals.constants.clone(),
            },
        }
    }

    pub fn covariance(&self, functionals: &Functionals) -> CovarianceParts {
        let (weights, open) = self.weights(functionals);
        let parts = self.outcome.covariance(&self.push_forward(&weights, functionals));
        self.add_study_parts(parts, &open, functionals)
    }

    pub fn of_adjustment(&self, functionals: &Functionals) -> Option<Matrix> {
        let AdjustmentUncertainty { scale: own, known, root: half } = self.adjustment.as_ref()?;
        let projected = half.transpose_matmul(&functionals.columns);
        let mut part = projected.transpose_matmul(&projected);
        if let Some(known) = known {
            let known = functionals.columns.transpose_matmul(&known.matmul(&functionals.columns));
            let prior = functionals.prior_scale.data().iter().zip(known.data());
            part.data_mut().iter_mut().zip(prior).for_each(|(v, (p, k))| *v += own * p - k);
        }
        Some(part)
    }

    /// Adds the parts of this study to those of the outcome.
    fn add_study_parts(
        &self,
        mut parts: CovarianceParts,
        open: &Matrix,
        functionals: &Functionals,
    ) -> CovarianceParts {
        match &self.shared {
            None => {
                add_part(&mut parts, UncertaintyCause::Study(self.study), self.square, open);
                add_part(&mut parts, UncertaintyCause::Interaction, self.variance, open);
            }
            Some(shared) => {
                let causes = [UncertaintyCause::Study(self.study), UncertaintyCause::Interaction];
                for (cause, (scale, known)) in causes.into_iter().zip([&shared.of_means, &shared.of_open]) {
                    let known = functionals.columns.transpose_matmul(&known.matmul(&functionals.columns));
                    let mut part = functionals.prior_scale.clone();
                    part.data_mut().iter_mut().zip(known.data()).for_each(|(p, k)| *p = scale * *p - k);
                    add_part(&mut parts, cause, 1.0, &part);
                }
            }
        }
        if let Some(part) = self.of_adjustment(functionals) {
            add_part(&mut parts, UncertaintyCause::Adjustment, 1.0, &part);
        }
        parts
    }

    /// Returns the means of single queries, their joint covariance by cause, and their support.
    pub fn estimate(&self, functionals: &Functionals) -> (Vec<f64>, CovarianceParts, Vec<DataSupport>) {
        let (weights, open) = self.weights(functionals);
        let handed = self.push_forward(&weights, functionals);
        let mean = self.outcome.constant();
        let means = functionals.columns.transpose().matvec(&self.coef());
        let means = means.iter().zip(&functionals.constants).map(|(v, c)| v + c * mean).collect();
        let prior = self.query_embedding.query_covariance(&functionals.columns, &functionals.prior_scale);
        let left = self.outcome.covariance(&handed);
        let before = self.outcome.prior_variances(&handed);
        let support_of = |q: usize| {
            let row = weights.row(q);
            let (sum, size): (f64, f64) = (row.iter().sum(), row.iter().map(|e| e.abs()).sum());
            let left: f64 = left.iter().map(|(_, part)| part[(q, q)]).sum();
            let share = |residual: f64, total: f64| {
                if total > 0.0 { (1.0 - residual / total).clamp(0.0, 1.0) } else { 0.0 }
            };
            DataSupport {
                variance_explained_by_first: share(open[(q, q)], prior[(q, q)]),
                resolved_by_rest: share(left, before[q]),
                effective_rows: if size > 0.0 { size * size / dot(row, row) } else { 0.0 },
                weight_sum: sum,
                population_explained: 1.0,
                overlap: 1.0,
            }
        };
        let support = (0..weights.rows()).map(support_of).collect();
        (means, self.add_study_parts(left, &open, functionals), support)
    }

    /// Returns this study for queries with another embedding; `root` is the root of the uncertainty about the
    /// population, as in [`AdjustmentUncertainty`].
    pub fn with_query(&self, query_embedding: QueryEmbedding, root: Option<Matrix>) -> Self {
        let adjustment = root.map(|root| AdjustmentUncertainty { scale: 0.0, known: None, root });
        Self { query_embedding, adjustment, ..self.clone() }
    }

    /// Returns the coefficients `W f̄₀(y)` over points of the regression of the outcome at the rows'
    /// mediators.
    pub fn solved(&self) -> &[f64] {
        &self.solved
    }

    /// Adds the uncertainty from the sampling of the units over whose covariates the effect is averaged;
    /// `with_people` is the covariates' kernel (points × rows).
    pub fn add_covariate_uncertainty(&mut self, with_people: &Matrix) {
        // The root: for each row, the effect among units with its covariates.
        let mut root = match &self.shared {
            Some(shared) => shared.of_people.clone(),
            None => self.times_solved(with_people),
        };
        centre(&mut root);
        if !self.sees_rows() {
            root = low_rank_factor(&root.matmul(&root.transpose()), ROUNDING);
        }
        self.adjustment = Some(AdjustmentUncertainty { scale: 0.0, known: None, root });
    }

    /// Adds the uncertainty from the sampling of the units of a front door.
    pub fn add_treatment_uncertainty(&mut self, door: &FrontDoorInputs<'_>) {
        let n = self.solver.row_count();
        let mut root = door.weighted_mediators.matmul(&self.times_solved(door.treatments));
        centre(&mut root);
        if !self.sees_rows() {
            root = low_rank_factor(&root.matmul(&root.transpose()), ROUNDING);
        }
        // The averaged outcome at the mediators, over evenly spaced rows if there are many.
        let sampled_rows = evenly_spaced(if self.sees_rows() { n } else { AVERAGED }, n);
        let columns = door.intercepting.transpose().select_rows(&sampled_rows).transpose();
        let of_rows = door.observed_embedding.row_cross_covariance(&columns);
        let means = of_rows.transpose().matvec(&self.solved);
        let known = self.solver.explained_variances(&of_rows);
        let handed =
            self.at_mediators.weighted(&self.solver.weights(&of_rows), &vec![0.0; sampled_rows.len()]);
        let parts = self.outcome.covariance(&handed);
        let left =
            |q: usize| door.observed_embedding.kernel_scale * door.diagonal[sampled_rows[q]] - known[q];
        let variance =
            |q: usize| parts.iter().map(|(_, part)| part[(q, q)]).sum::<f64>() + left(q) * self.scale();
        let square = |q: usize| means[q] * means[q] + variance(q).max(0.0);
        let mean_square = (0..sampled_rows.len()).map(square).sum::<f64>() / sampled_rows.len() as f64;
        let mut known = door.regression.inverse();
        known.data_mut().iter_mut().for_each(|v| *v *= mean_square);
        self.adjustment = Some(AdjustmentUncertainty { scale: mean_square, known: Some(known), root });
    }

    /// Multiplies the rows of a kernel matrix (points × columns) by the outcome's coefficients over the
    /// points.
    fn times_solved(&self, with_points: &Matrix) -> Matrix {
        let mut scaled = with_points.clone();
        scaled.scale_rows(self.solved.iter().copied());
        scaled
    }
}

/// Subtracts from each row its mean over n people, and divides by `√(n (n + 1))` (the Bayesian bootstrap).
fn centre(m: &mut Matrix) {
    let n = m.cols() as f64;
    let scale = 1.0 / (n * (n + 1.0)).sqrt();
    for i in 0..m.rows() {
        let row = m.row_mut(i);
        let mean = row.iter().sum::<f64>() / n;
        row.iter_mut().for_each(|v| *v = scale * (*v - mean));
    }
}
