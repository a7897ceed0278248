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
use super::target_population::PopulationWeights;
use super::uncertainty_parts::{
    CovarianceParts, DataSupport, UncertaintyCause, add_part, explained_share, mean_and_root, sum_parts,
    total_variance,
};
use crate::error::{Result, sized, unused};
use crate::kernel::Kernel;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, dot, low_rank_factor, mean};
use crate::posterior::{Functionals, PosteriorCovariance};
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
    /// Treatments of all rows; `averaged_covariates` are their covariates if these are averaged over.
    pub treatments: Table,
    pub averaged_covariates: Option<Table>,
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
    /// Prior of the outcome at the study's mediators.
    pub at_mediators: OutcomeAtMediators,
    /// Coefficients `W f̄₀(y)` over points, of the regression of the outcome at the rows' mediators; with all
    /// rows they are `(K_Ω + λ)⁻¹ f̄₀(y)`.
    pub outcome_coefficients: Vec<f64>,
    /// Mediators of the study's rows, and the rows of ν.
    pub mediators: Table,
    pub measure: Table,
    /// The integrals `∫ f̄₀² dν` and `∫ k̄ dν`.
    mean_square: f64,
    mean_variance: f64,
    adjustment: Option<AdjustmentUncertainty>,
    /// Terms of the covariates that the study shares with the last one, on which the outcome depends too.
    pub shared: Option<SharedCovariateTerms>,
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
/// k(X, x')`, where `smoothed` has the scale and Q, and `root` is B.
#[derive(Debug, Clone)]
struct AdjustmentUncertainty {
    smoothed: Option<(f64, Matrix)>,
    root: Matrix,
}

/// Number of rows in a chunk whose joint covariance is computed for their variances.
const CHUNK_ROWS: usize = 1024;

/// Maximum number of rows over which the uncertainty of a front door's treatments is averaged with landmarks.
const MAX_AVERAGED_ROWS: usize = 200;

/// Share of the trace of a covariance that counts as rounding errors.
const ROUNDING: f64 = 1e-13;

impl ChainedOutcome {
    /// Returns the points, their kernel and the regression.
    fn regression(&self) -> (&Table, &Kernel, &KernelRegression) {
        match self {
            Self::Process(process) => (&process.points, &process.parameters.kernel, &process.solver),
            Self::Link(link) => (&link.points, &link.kernel, &link.solver),
        }
    }

    pub fn points(&self) -> &Table {
        self.regression().0
    }

    pub fn kernel(&self) -> &Kernel {
        self.regression().1
    }

    /// Whether all rows are used, rather than landmarks.
    pub fn uses_all_rows(&self) -> bool {
        self.regression().2.uses_all_rows()
    }

    /// Returns the process of the last study.
    pub fn process(&self) -> &OutcomeGp {
        match self {
            Self::Process(process) => process,
            Self::Link(link) => link.outcome.process(),
        }
    }

    /// Returns the means of f₀, from columns over points.
    pub fn centered_means(&self, columns: &Matrix) -> Vec<f64> {
        columns.transpose().matvec(&self.coef())
    }

    /// Returns the coefficients of the mean over points.
    pub fn coef(&self) -> Vec<f64> {
        match self {
            Self::Process(process) => process.coef.clone(),
            Self::Link(link) => link.coef(),
        }
    }

    /// Returns the prior variances of functionals, given the scale of the outcome. For a chained study it is
    /// the prior variance of its mediators' distribution times the outcome's second moment.
    fn prior_variances(&self, functionals: &Functionals) -> Vec<f64> {
        let intercept_variance = self.process().parameters.intercept_variance;
        let variance_of = |q: usize| {
            let prior = functionals.prior_covariance[(q, q)];
            let centered_variance = match self {
                Self::Process(_) => prior,
                Self::Link(link) => {
                    let column = Matrix::column_vector(functionals.columns.column(q));
                    let prior = Matrix::column_vector(vec![prior]);
                    link.query_embedding.query_covariance(&column, &prior)[(0, 0)] * link.scale()
                }
            };
            centered_variance + intercept_variance * functionals.constants[q].powi(2)
        };
        (0..functionals.constants.len()).map(variance_of).collect()
    }

    /// Returns `∫ f̄₀² dν` and `∫ k̄ dν`, the two parts of V; all rows of ν have equal weights.
    pub fn second_moment(&self, measure: &Table) -> (f64, f64) {
        let means = self.centered_means(&self.kernel().cross_gram(self.points(), measure));
        (dot(&means, &means) / means.len() as f64, mean(&self.variances(measure)))
    }

    /// Returns the posterior of f₀ at rows: the first column is the mean. The outer product of the other
    /// columns is the covariance, up to a thousandth of its trace.
    pub fn mean_and_root(&self, rows: &Table) -> Matrix {
        let functionals = self.values_at(rows);
        let covariance = sum_parts(&self.covariance(&functionals), rows.rows());
        mean_and_root(self.centered_means(&functionals.columns), &covariance)
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
        Functionals { columns, prior_covariance: self.kernel().gram(rows), constants: vec![0.0; rows.rows()] }
    }

    /// Returns the variances of f₀ at rows.
    fn variances(&self, x: &Table) -> Vec<f64> {
        match self {
            Self::Process(process) => {
                let columns = self.kernel().cross_gram(self.points(), x);
                process.variances(&columns, &self.kernel().diagonal(x))
            }
            Self::Link(link) => {
                let variances = x.chunks(CHUNK_ROWS).flat_map(|chunk| {
                    let parts = link.covariance(&self.values_at(&chunk));
                    (0..chunk.rows()).map(|j| total_variance(&parts, j).max(0.0)).collect::<Vec<_>>()
                });
                variances.collect()
            }
        }
    }
}

impl StudyLink {
    /// Fits a study whose rows have these mediators; ν has equal weights on the rows of `measure`.
    pub fn new(
        study: usize,
        (treatments, points, kernel): (Table, Table, Kernel),
        query_embedding: QueryEmbedding,
        (solver, ridge): (KernelRegression, f64),
        mediators: Table,
        measure: Table,
        outcome: ChainedOutcome,
    ) -> Result<Self> {
        sized("the mediators", "rows", solver.row_count(), mediators.rows(), "one per row of the study")?;
        let prior = (outcome.points(), outcome.kernel());
        let at_mediators = OutcomeAtMediators::new(prior, &mediators, solver.uses_all_rows())?;
        let outcome_coefficients = solver.solve(&outcome.centered_means(&at_mediators.cross_covariance));
        let (mean_square, mean_variance) = outcome.second_moment(&measure);
        Ok(Self {
            study,
            treatments,
            averaged_covariates: None,
            points,
            kernel,
            covariate_block: None,
            query_embedding,
            ridge,
            solver,
            outcome,
            at_mediators,
            outcome_coefficients,
            mediators,
            measure,
            mean_square,
            mean_variance,
            adjustment: None,
            shared: None,
        })
    }

    /// Returns the number of points at which the outcome is drawn.
    pub fn drawn_point_count(&self) -> usize {
        if self.outcome.uses_all_rows() {
            self.mediators.rows() + self.measure.rows()
        } else {
            self.outcome.points().rows()
        }
    }

    /// Computes [`Effect::unexplained`](super::Effect::unexplained) for this study and the later ones.
    pub fn unexplained(&self) -> Vec<(usize, f64)> {
        let share = self.solver.unexplained().map(|solver_share| {
            (self.study, solver_share.max(self.at_mediators.unexplained(self.ridge * self.scale())))
        });
        let later_shares = match &self.outcome {
            ChainedOutcome::Process(process) => {
                process.solver.unexplained().map(|share| (process.study, share)).into_iter().collect()
            }
            ChainedOutcome::Link(next) => next.unexplained(),
        };
        share.into_iter().chain(later_shares).collect()
    }

    /// Checks that the outcome does not depend on covariates that the study shares with the last one.
    ///
    /// # Errors
    /// [`Error::Unused`](crate::Error::Unused) with the name `setting` if it does.
    pub fn check_unshared(&self, setting: &str) -> Result<()> {
        let belongs = "effects whose studies share no covariates that the outcome depends on";
        if self.shared.is_some() { Err(unused(setting, belongs)) } else { Ok(()) }
    }

    /// Returns V.
    pub fn scale(&self) -> f64 {
        self.mean_square + self.mean_variance
    }

    /// Returns the coefficients over the points.
    pub fn coef(&self) -> Vec<f64> {
        match &self.shared {
            Some(shared) => shared.coef.clone(),
            None => self.query_embedding.row_map.transpose_times(&self.outcome_coefficients),
        }
    }

    /// Returns the posterior mean, `β₀ + Σ coef_i k(x_i, ·)`.
    pub fn mean(&self) -> Result<KernelExpansion> {
        let coef = Matrix::column_vector(self.coef());
        KernelExpansion::new(
            self.kernel.clone(),
            self.points.clone(),
            coef,
            vec![self.outcome.process().constant],
        )
    }

    /// Returns the posterior mean, and the covariance of all functionals that do not depend on a constant,
    /// such as Shapley values; it omits the variance of β₀.
    pub fn posterior(&self) -> Result<(KernelExpansion, PosteriorCovariance)> {
        let (n, model) = (self.points.rows(), self.mean()?);
        let identity = Functionals {
            columns: Matrix::identity(n),
            prior_covariance: Matrix::zeros(n, n),
            constants: vec![0.0; n],
        };
        let mut covariance_reduction = Matrix::zeros(n, n);
        self.covariance(&identity).iter().for_each(|(_, part)| covariance_reduction.add_times(-1.0, part));
        let kernel_scale = match &self.shared {
            Some(shared) => shared.mean_terms.0 + shared.covariance_terms.0,
            None => self.query_embedding.kernel_scale * self.scale(),
        };
        let smoothed = self.adjustment.as_ref().and_then(|uncertainty| uncertainty.smoothed.as_ref());
        let prior_scale = kernel_scale + smoothed.map_or(0.0, |(scale, _)| *scale);
        Ok((model, PosteriorCovariance::dense(prior_scale, covariance_reduction)))
    }

    /// Returns E (queries × rows), R (queries × queries) and the diagonal of F.
    pub fn weights(&self, functionals: &Functionals) -> (Matrix, Matrix, Vec<f64>) {
        let Functionals { columns, prior_covariance, .. } = functionals;
        let phi = self.query_embedding.row_cross_covariance(columns);
        let (weights, explained) = self.solver.weights_and_explained(phi);
        let (residual, prior) = self.query_embedding.residual(columns, prior_covariance, explained);
        (weights, residual, prior)
    }

    /// Returns the functionals of the outcome into which this study turns the given functionals.
    fn push_forward(&self, weights: &Matrix, functionals: &Functionals) -> Functionals {
        match &self.shared {
            None => self.at_mediators.weighted(weights, &functionals.constants),
            Some(SharedCovariateTerms { column_map, prior, .. }) => Functionals {
                columns: column_map.matmul(&functionals.columns),
                prior_covariance: prior.quadratic_form(&functionals.columns),
                constants: functionals.constants.clone(),
            },
        }
    }

    pub fn covariance(&self, functionals: &Functionals) -> CovarianceParts {
        let (weights, residual, _) = self.weights(functionals);
        let parts = self.outcome.covariance(&self.push_forward(&weights, functionals));
        self.add_study_parts(parts, residual, functionals)
    }

    pub fn adjustment_covariance(&self, functionals: &Functionals) -> Option<Matrix> {
        let AdjustmentUncertainty { smoothed, root } = self.adjustment.as_ref()?;
        let projected = root.transpose_matmul(&functionals.columns);
        let mut part = projected.gram_of_columns();
        if let Some(smoothed) = smoothed {
            part.add_times(1.0, &residual_covariance(functionals, smoothed));
        }
        Some(part)
    }

    /// Adds the parts of this study to those of the outcome.
    fn add_study_parts(
        &self,
        mut parts: CovarianceParts,
        residual: Matrix,
        functionals: &Functionals,
    ) -> CovarianceParts {
        match &self.shared {
            None => {
                add_part(&mut parts, UncertaintyCause::Study(self.study), self.mean_square, residual.clone());
                add_part(&mut parts, UncertaintyCause::Interaction, self.mean_variance, residual);
            }
            Some(shared) => {
                let causes = [UncertaintyCause::Study(self.study), UncertaintyCause::Interaction];
                for (cause, terms) in causes.into_iter().zip([&shared.mean_terms, &shared.covariance_terms]) {
                    add_part(&mut parts, cause, 1.0, residual_covariance(functionals, terms));
                }
            }
        }
        if let Some(part) = self.adjustment_covariance(functionals) {
            add_part(&mut parts, UncertaintyCause::Adjustment, 1.0, part);
        }
        parts
    }

    /// Returns the means of single queries, their joint covariance by cause, and their support.
    pub fn estimate(&self, functionals: &Functionals) -> (Vec<f64>, CovarianceParts, Vec<DataSupport>) {
        let (weights, residual, prior) = self.weights(functionals);
        let outcome_functionals = self.push_forward(&weights, functionals);
        let mean = self.outcome.process().constant;
        let means = functionals.columns.transpose_matvec(&self.coef());
        let means = means.iter().zip(&functionals.constants).map(|(v, c)| v + c * mean).collect();
        let outcome_parts = self.outcome.covariance(&outcome_functionals);
        let outcome_prior = self.outcome.prior_variances(&outcome_functionals);
        let support_of = |q: usize| {
            let explained_by_first = explained_share(residual[(q, q)], prior[q]);
            let explained_by_later = explained_share(total_variance(&outcome_parts, q), outcome_prior[q]);
            DataSupport::from_weights(weights.row(q), explained_by_first, explained_by_later)
        };
        let support = (0..weights.rows()).map(support_of).collect();
        (means, self.add_study_parts(outcome_parts, residual, functionals), support)
    }

    /// Returns this study with its covariates averaged over another population.
    pub fn on_population(&self, population: &PopulationWeights) -> Self {
        let Some(block) = &self.covariate_block else { return self.clone() };
        let mut root = block.kernel.cross_gram(&block.rows, &population.covariates);
        let query_embedding = QueryEmbedding::averaged_over_members(
            &root,
            &block.kernel,
            &population.covariates,
            &population.weights,
        );
        // The root of the residual covariance of the distribution of members.
        let adjustment = population.unexplained_share.map(|unexplained_share| {
            let factor = (unexplained_share / root.cols() as f64).sqrt();
            root.scale_rows(self.outcome_coefficients.iter().map(|h| factor * h));
            AdjustmentUncertainty { smoothed: None, root }
        });
        Self { query_embedding, adjustment, ..self.clone() }
    }

    /// Adds the uncertainty from the sampling of the units over whose covariates the effect is averaged;
    /// `covariate_cross_gram` is the covariates' kernel (points × rows).
    pub fn add_covariate_uncertainty(&mut self, covariate_cross_gram: &Matrix) {
        // The root: for each row, the effect among units with its covariates.
        let root = match &self.shared {
            Some(shared) => shared.unit_coefficients.clone(),
            None => self.times_outcome_coefficients(covariate_cross_gram),
        };
        self.adjustment = Some(AdjustmentUncertainty { smoothed: None, root: self.sampling_root(root) });
    }

    /// Adds the uncertainty from the sampling of the units of a front door.
    pub fn add_treatment_uncertainty(&mut self, front_door: &FrontDoorInputs<'_>) {
        let n = self.solver.row_count();
        let root = self.sampling_root(
            front_door.weighted_mediators.matmul(&self.times_outcome_coefficients(front_door.treatments)),
        );
        // The averaged outcome at the mediators, over evenly spaced rows if there are many.
        let sampled_rows = evenly_spaced(if self.solver.uses_all_rows() { n } else { MAX_AVERAGED_ROWS }, n);
        let columns = front_door.intercepting.transpose().select_rows(&sampled_rows).transpose();
        let phi = front_door.observed_embedding.row_cross_covariance(&columns);
        let means = phi.transpose().matvec(&self.outcome_coefficients);
        let explained = self.solver.explained_variances(&phi);
        let outcome_functionals =
            self.at_mediators.weighted(&self.solver.weights(&phi), &vec![0.0; sampled_rows.len()]);
        let parts = self.outcome.covariance(&outcome_functionals);
        let residual_variance = |q: usize| {
            front_door.observed_embedding.kernel_scale * front_door.diagonal[sampled_rows[q]] - explained[q]
        };
        let variance = |q: usize| total_variance(&parts, q) + residual_variance(q) * self.scale();
        let square = |q: usize| means[q] * means[q] + variance(q).max(0.0);
        let mean_square = (0..sampled_rows.len()).map(square).sum::<f64>() / sampled_rows.len() as f64;
        let mut explained_form = front_door.regression.inverse();
        explained_form.scale(mean_square);
        self.adjustment = Some(AdjustmentUncertainty { smoothed: Some((mean_square, explained_form)), root });
    }

    /// Returns the root of the uncertainty from the sampling of units; the columns of `root` are the effects
    /// among units like each row.
    fn sampling_root(&self, mut root: Matrix) -> Matrix {
        centre(&mut root);
        if self.solver.uses_all_rows() {
            return root;
        }
        low_rank_factor(&root.matmul(&root.transpose()), ROUNDING)
    }

    /// Multiplies the rows of a kernel matrix (points × columns) by the outcome's coefficients over the
    /// points.
    fn times_outcome_coefficients(&self, with_points: &Matrix) -> Matrix {
        let mut scaled = with_points.clone();
        scaled.scale_rows(self.outcome_coefficients.iter().copied());
        scaled
    }
}

/// Returns `a F - CᵀGC` for the terms a and G, where F is the prior covariance of functionals and C are their
/// columns.
fn residual_covariance(functionals: &Functionals, (factor, explained_form): &(f64, Matrix)) -> Matrix {
    let mut residual = functionals.prior_covariance.clone();
    residual.scale(*factor);
    residual.add_times(-1.0, &explained_form.quadratic_form(&functionals.columns));
    residual
}

/// Subtracts from each row its mean over n units, and divides by `√(n (n + 1))` (the Bayesian bootstrap).
fn centre(m: &mut Matrix) {
    let n = m.cols() as f64;
    let scale = 1.0 / (n * (n + 1.0)).sqrt();
    for i in 0..m.rows() {
        let row = m.row_mut(i);
        let mean = mean(row);
        row.iter_mut().for_each(|v| *v = scale * (*v - mean));
    }
}
