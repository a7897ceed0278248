//! A study between a query and an outcome that other studies know: one step of the recursion that carries all
//! posteriors.
//!
//! A study with rows (Ω_i, y_i) says how mediators y are distributed given Ω. As an element of a function
//! space that distribution is a Gaussian process too, which every row observes whole but for a ridge λ, and
//! so its posterior is that of regressing numbers, with weights `E = Φᵀ(K_Ω + λ)⁻¹` and what they leave open,
//! `R = F - Φᵀ(K_Ω + λ)⁻¹Φ`. Of an outcome f with mean `β₀ + f̄₀` and covariance K̄ at the rows
//!
//! ```text
//! E[g(x)] = β₀ + E_x f̄₀        cov(g(x), g(x')) = E_x K̄ E_x'ᵀ + R_xx' V,     V = ∫ E[f₀²] dν
//! ```
//!
//! with ν the mediators of all studies. The parts are what the outcome's studies leave open, what this study
//! does (`R ∫ f̄₀²`), and both together (`R ∫ k̄`). Such a g is an outcome again, so that studies chain.
//! Source: Chau 2023 (thesis), chapter 4 (IMP is the first part alone, BayesIME the second), and the moments
//! of Dance and Bloem-Reddy 2024 (IMPspec); the recursion is ours.

use super::defaults::evenly_spaced;
use super::kernel_regression::KernelRegression;
use super::outcome_at_mediators::OutcomeAtMediators;
use super::outcome_gp::OutcomeGp;
use super::product_kernel::Block;
use super::query_embedding::QueryEmbedding;
use super::shared_covariates::SharedCovariateTerms;
use super::support::DataSupport;
use super::uncertainty_parts::{CovarianceParts, UncertaintyCause, add_part, sum_parts};
use crate::error::{Result, sized};
use crate::kernel::Kernel;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, dot, low_rank_factor};
use crate::posterior::{Functionals, PosteriorCovariance, VarianceReduction};
use crate::table::Table;

/// An outcome as a function of some columns, as far as it is known.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Process(Box<OutcomeGp>),
    Link(Box<Link>),
}

/// A study, with what it leads to.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// Its number.
    pub study: usize,
    /// Treatments of all rows, and their covariates where these are averaged over.
    pub treatments: Table,
    pub people: Option<Table>,
    /// Points and kernel of queries: these treatments, or those of landmarks.
    pub points: Table,
    pub kernel: Kernel,
    /// Covariates at points where these are averaged over, with their kernel.
    pub others: Option<Block>,
    pub reading: QueryEmbedding,
    /// λ.
    pub ridge: f64,
    /// Of its rows.
    pub solver: KernelRegression,
    pub outcome: Outcome,
    arrived: OutcomeAtMediators,
    /// `W f̄₀(y)`, over points, which by all rows is `(K_Ω + λ)⁻¹ f̄₀(y)`.
    solved: Vec<f64>,
    /// Its mediators, and those of ν.
    y: Table,
    measure: Table,
    /// `∫ f̄₀² dν` and `∫ k̄ dν`.
    square: f64,
    variance: f64,
    adjustment: Option<Adjustment>,
    /// Where it shares covariates with the last study.
    shared: Option<SharedCovariateTerms>,
}

/// A front door: treatments are as they were, and what intercepts the effect is as a regression on queried
/// ones says.
pub(super) struct FrontDoor<'a> {
    /// Kernels of places with rows: of treatments, and of what intercepts the effect.
    pub treatments: &'a Matrix,
    pub intercepting: &'a Matrix,
    /// That of what intercepts it, of each row with itself.
    pub diagonal: Vec<f64>,
    /// Treatments averaged over.
    pub as_they_were: QueryEmbedding,
    /// Of what intercepts on treatments, and `W K_MM` with places.
    pub regression: KernelRegression,
    pub turned: Matrix,
}

/// What is not known of who is in a study: `own k(x, x') - k(x, X) Q k(X, x') + k(x, X) B Bᵀ k(X, x')`.
#[derive(Debug, Clone)]
struct Adjustment {
    own: f64,
    known: Option<Matrix>,
    half: Matrix,
}

/// Rows whose joint covariance is made for their variances.
const AT_ONCE: usize = 1024;

/// Of what is not known of an outcome at rows, no more than that part is left out.
const LEFT: f64 = 1e-3;

/// Of many rows what is not known of a front door's treatments is averaged over so many.
const AVERAGED: usize = 200;

/// Parts of a covariance that are rounding.
const ROUNDING: f64 = 1e-13;

impl Outcome {
    pub fn points(&self) -> &Table {
        match self {
            Self::Process(own) => own.points(),
            Self::Link(own) => &own.points,
        }
    }

    pub fn kernel(&self) -> &Kernel {
        match self {
            Self::Process(own) => own.kernel(),
            Self::Link(own) => &own.kernel,
        }
    }

    /// Whether it sees all rows, and not landmarks alone.
    pub fn sees_rows(&self) -> bool {
        match self {
            Self::Process(own) => own.uses_all_rows(),
            Self::Link(own) => own.sees_rows(),
        }
    }

    /// β₀.
    pub fn constant(&self) -> f64 {
        match self {
            Self::Process(own) => own.constant,
            Self::Link(own) => own.outcome.constant(),
        }
    }

    /// The means of f₀, by columns over points.
    pub fn centred_means(&self, columns: &Matrix) -> Vec<f64> {
        match self {
            Self::Process(own) => own.centred_means(columns),
            Self::Link(own) => columns.transpose().matvec(&own.coef()),
        }
    }

    /// The variances of functionals before any study is seen, but for what is known of the outcome's size: of
    /// a study that leads on, where it leads times what the outcome is there.
    fn prior_variances(&self, given: &Functionals) -> Vec<f64> {
        let own = |q: usize| match self {
            Self::Process(process) => {
                given.prior_scale[(q, q)] + process.intercept_variance() * given.constants[q].powi(2)
            }
            Self::Link(link) => {
                let column = Matrix::column_vector(given.columns.column(q));
                let prior = Matrix::column_vector(vec![given.prior_scale[(q, q)]]);
                let leads = link.reading.query_covariance(&column, &prior)[(0, 0)] * link.scale();
                leads + link.outcome.level() * given.constants[q].powi(2)
            }
        };
        (0..given.constants.len()).map(own).collect()
    }

    /// The prior variance of β₀.
    fn level(&self) -> f64 {
        match self {
            Self::Process(own) => own.intercept_variance(),
            Self::Link(own) => own.outcome.level(),
        }
    }

    /// `∫ f̄₀² dν` and `∫ k̄ dν`, each row of ν counting the same: V in two parts.
    pub fn squares(&self, measure: &Table) -> (f64, f64) {
        let means = self.centred_means(&self.kernel().cross_gram(self.points(), measure));
        let count = means.len() as f64;
        (dot(&means, &means) / count, self.variances(measure).iter().sum::<f64>() / count)
    }

    /// What f₀ may be at rows: its means, and columns of which their covariance is made, but for a thousandth
    /// of its trace.
    pub fn guesses(&self, at: &Table) -> Matrix {
        let given = self.at(at);
        let means = self.centred_means(&given.columns);
        let open = low_rank_factor(&sum_parts(&self.covariance(&given), at.rows()), LEFT);
        let values =
            (0..at.rows()).flat_map(|i| std::iter::once(means[i]).chain(open.row(i).iter().copied()));
        Matrix::from_row_major(at.rows(), 1 + open.cols(), values.collect())
    }

    /// What is left open of functionals. Cost of m of them with n points O(n² m + n m²) for each study.
    pub fn covariance(&self, given: &Functionals) -> CovarianceParts {
        match self {
            Self::Process(own) => vec![(UncertaintyCause::Study(own.study), own.covariance(given))],
            Self::Link(own) => own.covariance(given),
        }
    }

    /// What it is at rows, less its constant.
    pub fn at(&self, rows: &Table) -> Functionals {
        let columns = self.kernel().cross_gram(self.points(), rows);
        Functionals { columns, prior_scale: self.kernel().gram(rows), constants: vec![0.0; rows.rows()] }
    }

    /// The variances of f₀ at rows.
    fn variances(&self, at: &Table) -> Vec<f64> {
        match self {
            Self::Process(own) => {
                let columns = self.kernel().cross_gram(self.points(), at);
                own.variances(&columns, &self.kernel().diagonal(at))
            }
            Self::Link(own) => {
                let rows: Vec<usize> = (0..at.rows()).collect();
                let each = rows.chunks(AT_ONCE).flat_map(|some| {
                    let parts = own.covariance(&self.at(&at.select_rows(some)));
                    let of = |j: usize| parts.iter().map(|(_, part)| part[(j, j)]).sum::<f64>().max(0.0);
                    (0..some.len()).map(of).collect::<Vec<_>>()
                });
                each.collect()
            }
        }
    }
}

impl Link {
    /// A study with mediators `y` of its rows; ν is `measure`, each of whose rows counts the same.
    pub fn new(
        study: usize,
        (treatments, points, kernel): (Table, Table, Kernel),
        reading: QueryEmbedding,
        (solver, ridge): (KernelRegression, f64),
        y: Table,
        measure: Table,
        outcome: Outcome,
    ) -> Result<Self> {
        sized("the mediators", "rows", solver.row_count(), y.rows(), "one a row of the study")?;
        let arrived = OutcomeAtMediators::new(
            (outcome.points(), outcome.kernel()),
            &y,
            matches!(solver, KernelRegression::Rows(_)),
        )?;
        let solved = solver.solve(&outcome.centred_means(arrived.cross_covariance()));
        let (square, variance) = outcome.squares(&measure);
        Ok(Self {
            study,
            treatments,
            people: None,
            points,
            kernel,
            others: None,
            reading,
            ridge,
            solver,
            outcome,
            arrived,
            solved,
            y,
            measure,
            square,
            variance,
            adjustment: None,
            shared: None,
        })
    }

    /// The same where the outcome depends on covariates that are in this study, too.
    pub fn sharing(mut self, shared: SharedCovariateTerms) -> Self {
        self.shared = Some(shared);
        self
    }

    /// At how many places of the outcome draws are made.
    pub fn places(&self) -> usize {
        if self.outcome.sees_rows() {
            self.y.rows() + self.measure.rows()
        } else {
            self.outcome.points().rows()
        }
    }

    /// The mediators of its rows.
    pub fn mediators(&self) -> &Table {
        &self.y
    }

    /// ν.
    pub fn measure(&self) -> &Table {
        &self.measure
    }

    /// The outcome at its mediators.
    pub fn arrived(&self) -> &OutcomeAtMediators {
        &self.arrived
    }

    /// Whether it sees all rows, and not landmarks alone.
    pub fn sees_rows(&self) -> bool {
        matches!(self.solver, KernelRegression::Rows(_))
    }

    /// As [`Effect::unexplained`](super::Effect::unexplained), of this study and those after it.
    pub fn unexplained(&self) -> Vec<(usize, f64)> {
        let own = self
            .solver
            .unexplained()
            .map(|own| (self.study, own.max(self.arrived.unexplained(self.ridge * self.scale()))));
        let after = match &self.outcome {
            Outcome::Process(last) => {
                last.unexplained_share().map(|own| (last.study, own)).into_iter().collect()
            }
            Outcome::Link(next) => next.unexplained(),
        };
        own.into_iter().chain(after).collect()
    }

    /// Whether treatments are read as they are seen.
    pub fn is_direct(&self) -> bool {
        self.others.is_none() && self.reading.low_rank_part.is_none()
    }

    /// Whether it does.
    pub fn shares(&self) -> bool {
        self.shared.is_some()
    }

    /// V.
    pub fn scale(&self) -> f64 {
        self.square + self.variance
    }

    /// Coefficients over the points.
    pub fn coef(&self) -> Vec<f64> {
        match &self.shared {
            Some(shared) => shared.coef.clone(),
            None => self.reading.turn.transpose_times(&self.solved),
        }
    }

    /// `β₀ + Σ coef_i k(x_i, ·)`.
    pub fn mean(&self) -> Result<KernelExpansion> {
        let coef = Matrix::column_vector(self.coef());
        KernelExpansion::new(self.kernel.clone(), self.points.clone(), coef, vec![self.outcome.constant()])
    }

    /// The mean, and what is besides: that of all functionals that make nothing of a constant, as Shapley
    /// values are; how sure β₀ is counts in none of them.
    pub fn posterior(&self) -> Result<(KernelExpansion, PosteriorCovariance)> {
        let (n, model) = (self.points.rows(), self.mean()?);
        let given = Functionals {
            columns: Matrix::identity(n),
            prior_scale: Matrix::zeros(n, n),
            constants: vec![0.0; n],
        };
        let mut known = Matrix::zeros(n, n);
        for (_, part) in self.covariance(&given) {
            known.data_mut().iter_mut().zip(part.data()).for_each(|(all, own)| *all -= own);
        }
        let own = match &self.shared {
            Some(shared) => shared.of_means.0 + shared.of_open.0,
            None => self.reading.kernel_scale * self.scale(),
        };
        let prior = own + self.adjustment.as_ref().map_or(0.0, |own| own.own);
        let known = vec![VarianceReduction::Dense(known)];
        Ok((
            model,
            PosteriorCovariance { prior_scale: prior, skew_swap: None, reduction: known, scale: vec![1.0] },
        ))
    }

    /// E, queries × rows, and R.
    pub fn weights(&self, given: &Functionals) -> (Matrix, Matrix) {
        let (weights, mut open) =
            self.solver.weights_and_explained(self.reading.row_cross_covariance(&given.columns));
        let all = self.reading.query_covariance(&given.columns, &given.prior_scale);
        open.data_mut().iter_mut().zip(all.data()).for_each(|(own, all)| *own = all - *own);
        (weights, open)
    }

    /// The same functionals, of the outcome.
    fn handed_on(&self, weights: &Matrix, given: &Functionals) -> Functionals {
        match &self.shared {
            None => self.arrived.weighted(weights, &given.constants),
            Some(SharedCovariateTerms { to, prior, .. }) => Functionals {
                columns: to.matmul(&given.columns),
                prior_scale: given.columns.transpose_matmul(&prior.matmul(&given.columns)),
                constants: given.constants.clone(),
            },
        }
    }

    pub fn covariance(&self, given: &Functionals) -> CovarianceParts {
        let (weights, open) = self.weights(given);
        let parts = self.outcome.covariance(&self.handed_on(&weights, given));
        self.with_own(parts, &open, given)
    }

    pub fn of_adjustment(&self, given: &Functionals) -> Option<Matrix> {
        let Adjustment { own, known, half } = self.adjustment.as_ref()?;
        let half = half.transpose_matmul(&given.columns);
        let mut part = half.transpose_matmul(&half);
        if let Some(known) = known {
            let known = given.columns.transpose_matmul(&known.matmul(&given.columns));
            let prior = given.prior_scale.data().iter().zip(known.data());
            part.data_mut().iter_mut().zip(prior).for_each(|(v, (p, k))| *v += own * p - k);
        }
        Some(part)
    }

    /// What the outcome leaves open, with what this study does.
    fn with_own(&self, mut parts: CovarianceParts, open: &Matrix, given: &Functionals) -> CovarianceParts {
        match &self.shared {
            None => {
                add_part(&mut parts, UncertaintyCause::Study(self.study), self.square, open);
                add_part(&mut parts, UncertaintyCause::Interaction, self.variance, open);
            }
            Some(shared) => {
                let causes = [UncertaintyCause::Study(self.study), UncertaintyCause::Interaction];
                for (cause, (own, known)) in causes.into_iter().zip([&shared.of_means, &shared.of_open]) {
                    let known = given.columns.transpose_matmul(&known.matmul(&given.columns));
                    let mut part = given.prior_scale.clone();
                    part.data_mut().iter_mut().zip(known.data()).for_each(|(p, k)| *p = own * *p - k);
                    add_part(&mut parts, cause, 1.0, &part);
                }
            }
        }
        if let Some(part) = self.of_adjustment(given) {
            add_part(&mut parts, UncertaintyCause::Adjustment, 1.0, &part);
        }
        parts
    }

    /// Means of single queries, what is left open of them jointly, and how they stand to the studies.
    pub fn told(&self, given: &Functionals) -> (Vec<f64>, CovarianceParts, Vec<DataSupport>) {
        let (weights, open) = self.weights(given);
        let handed = self.handed_on(&weights, given);
        let mean = self.outcome.constant();
        let means = given.columns.transpose().matvec(&self.coef());
        let means = means.iter().zip(&given.constants).map(|(v, c)| v + c * mean).collect();
        let all = self.reading.query_covariance(&given.columns, &given.prior_scale);
        let left = self.outcome.covariance(&handed);
        let before = self.outcome.prior_variances(&handed);
        let of = |q: usize| {
            let row = weights.row(q);
            let (sum, size): (f64, f64) = (row.iter().sum(), row.iter().map(|e| e.abs()).sum());
            let left: f64 = left.iter().map(|(_, part)| part[(q, q)]).sum();
            let share = |of: f64, all: f64| if all > 0.0 { (1.0 - of / all).clamp(0.0, 1.0) } else { 0.0 };
            DataSupport {
                variance_explained_by_first: share(open[(q, q)], all[(q, q)]),
                resolved_by_rest: share(left, before[q]),
                effective_rows: if size > 0.0 { size * size / dot(row, row) } else { 0.0 },
                weight_sum: sum,
                population_explained: 1.0,
                overlap: 1.0,
            }
        };
        let standing = (0..weights.rows()).map(of).collect();
        (means, self.with_own(left, &open, given), standing)
    }

    /// The same study for a query that reads it otherwise; what is not known of who is asked about is `half`
    /// of [`Adjustment`].
    pub fn read(&self, reading: QueryEmbedding, half: Option<Matrix>) -> Self {
        let adjustment = half.map(|half| Adjustment { own: 0.0, known: None, half });
        Self { reading, adjustment, ..self.clone() }
    }

    /// What the outcome is at the rows' mediators, as a regression: coefficients over points and covariates.
    pub fn solved(&self) -> &[f64] {
        &self.solved
    }

    /// Counts who happens to be in the study: covariates that are averaged over, by their kernel between
    /// points and rows.
    pub fn count_people(&mut self, with_people: &Matrix) {
        // Of each row what the effect would be among people like it.
        let mut half = match &self.shared {
            Some(shared) => shared.of_people.clone(),
            None => self.times_solved(with_people),
        };
        centre(&mut half);
        if !self.sees_rows() {
            half = low_rank_factor(&half.matmul(&half.transpose()), ROUNDING);
        }
        self.adjustment = Some(Adjustment { own: 0.0, known: None, half });
    }

    /// The same of a front door.
    pub fn count_treatments(&mut self, door: &FrontDoor<'_>) {
        let n = self.solver.row_count();
        let mut half = door.turned.matmul(&self.times_solved(door.treatments));
        centre(&mut half);
        if !self.sees_rows() {
            half = low_rank_factor(&half.matmul(&half.transpose()), ROUNDING);
        }
        // The averaged outcome at what intercepts the effect, of rows from everywhere where these are many.
        let some = evenly_spaced(if self.sees_rows() { n } else { AVERAGED }, n);
        let columns = door.intercepting.transpose().select_rows(&some).transpose();
        let of_rows = door.as_they_were.row_cross_covariance(&columns);
        let means = of_rows.transpose().matvec(&self.solved);
        let known = self.solver.explained_variances(&of_rows);
        let handed = self.arrived.weighted(&self.solver.weights(&of_rows), &vec![0.0; some.len()]);
        let parts = self.outcome.covariance(&handed);
        let left = |q: usize| door.as_they_were.kernel_scale * door.diagonal[some[q]] - known[q];
        let variance =
            |q: usize| parts.iter().map(|(_, part)| part[(q, q)]).sum::<f64>() + left(q) * self.scale();
        let square = |q: usize| means[q] * means[q] + variance(q).max(0.0);
        let own = (0..some.len()).map(square).sum::<f64>() / some.len() as f64;
        let mut known = door.regression.inverse();
        known.data_mut().iter_mut().for_each(|v| *v *= own);
        self.adjustment = Some(Adjustment { own, known: Some(known), half });
    }

    /// A kernel with points, times what the outcome makes of these.
    fn times_solved(&self, with_points: &Matrix) -> Matrix {
        let mut own = with_points.clone();
        for (i, h) in self.solved.iter().enumerate() {
            own.row_mut(i).iter_mut().for_each(|v| *v *= h);
        }
        own
    }
}

/// Takes from each row its mean over n people, divided by `√(n (n + 1))` (the Bayesian bootstrap).
fn centre(m: &mut Matrix) {
    let n = m.cols() as f64;
    let scale = 1.0 / (n * (n + 1.0)).sqrt();
    for i in 0..m.rows() {
        let row = m.row_mut(i);
        let mean = row.iter().sum::<f64>() / n;
        row.iter_mut().for_each(|v| *v = scale * (*v - mean));
    }
}
