//! A study between a query and an outcome that other studies know: one step of the recursion that carries all posteriors.
//!
//! A study with rows (Ω_i, y_i) says how mediators y are distributed given Ω. As an element of a function space that distribution is a Gaussian process too, which every row observes whole
//! but for a ridge λ, and so its posterior is that of regressing numbers, with weights `E = Φᵀ(K_Ω + λ)⁻¹` and what they leave open, `R = F - Φᵀ(K_Ω + λ)⁻¹Φ`. Of an outcome f
//! with mean `β₀ + f̄₀` and covariance K̄ at the rows
//!
//! ```text
//! E[g(x)] = β₀ + E_x f̄₀        cov(g(x), g(x')) = E_x K̄ E_x'ᵀ + R_xx' V,     V = ∫ E[f₀²] dν
//! ```
//!
//! with ν the mediators of all studies. The parts are what the outcome's studies leave open, what this study does (`R ∫ f̄₀²`), and both together (`R ∫ k̄`). Such a g is an outcome
//! again, so that studies chain. Source: Chau 2023 (thesis), chapter 4 (IMP is the first part alone, BayesIME the second), and the moments of Dance and Bloem-Reddy 2024 (IMPspec); the recursion is ours.

use super::blocks::Block;
use super::normal::{drawn, size};
use super::process::Process;
use super::reading::Reading;
use super::shared::Shared;
use crate::error::{Result, sized};
use crate::expansion::Expansion;
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, dot};
use crate::posterior::{Covariance, Functionals, Known};
use crate::random::Random;
use crate::table::Table;

/// What leaves an effect uncertain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The study of this number, from 0: too few rows near what is asked, or noise.
    Study(usize),
    /// Two studies at once: the first may lead where the second knows little.
    Interaction,
    /// Who happens to be in a study whose covariates are averaged over.
    Adjustment,
    /// Length scales, noises and ridges: how far the means of a mixture over these are apart.
    Hyperparameters,
}

/// An outcome as a function of some columns, as far as it is known.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Process(Box<Process>),
    Link(Box<Link>),
}

/// A study, with what it leads to.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// Covariates that are averaged over, with their kernel.
    pub others: Option<Block>,
    /// Its number.
    pub study: usize,
    /// Points and kernel of queries.
    pub points: Table,
    pub kernel: Kernel,
    pub reading: Reading,
    /// λ.
    pub ridge: f64,
    /// `K_Ω + λ`.
    pub factor: Cholesky,
    pub outcome: Outcome,
    /// Kernel of the outcome's points with the study's mediators, and of these with each other.
    with_points: Matrix,
    with_each_other: Matrix,
    /// `(K_Ω + λ)⁻¹ f̄₀(y)`.
    solved: Vec<f64>,
    /// Where it may lead: its mediators first, then those of ν.
    places: Table,
    /// `∫ f̄₀² dν` and `∫ k̄ dν`.
    square: f64,
    variance: f64,
    adjustment: Option<Adjustment>,
    /// Where it shares covariates with the last study.
    shared: Option<Shared>,
}

/// What is not known of who is in a study: `own k(x, x') - k(x, X) Q k(X, x') + k(x, X) B Bᵀ k(X, x')`.
#[derive(Debug, Clone)]
struct Adjustment {
    own: f64,
    known: Option<Matrix>,
    half: Matrix,
}

/// What is left open of functionals, by cause.
pub(super) type Parts = Vec<(Cause, Matrix)>;

/// How a query stands to the studies.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Standing {
    /// From 0 to 1: how much of the prior variance of where the first study leads its rows take away, `G/F`.
    pub resolved_by_first: f64,
    /// From 0 to 1: how much of the prior variance of the outcome there those after it take away.
    pub resolved_by_rest: f64,
    /// By how many rows of the first study the query is told, `(Σ|E|)²/Σ E²`.
    pub effective_rows: f64,
    /// `Σ E`: 1 where all is told by rows, less where it returns to the constant.
    pub mass: f64,
    /// From 0 to 1: how much of the prior variance of who is asked about rows take away. 1 for all people of the study, or a population.
    pub people: f64,
    /// From 0 to 1: the share of these for whom such a treatment was near, within two standard deviations of what their covariates lead one to expect, or a level that these give at least 5 %. 1
    /// where the effect is not averaged over covariates, or its numbers were given.
    pub overlap: f64,
}

/// What is told to less than that is not told.
const TOLD: f64 = 0.5;

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

    /// The variances of functionals before any study is seen, but for what is known of the outcome's size: of a study that leads on, where it leads times what the outcome is there.
    fn prior_variances(&self, given: &Functionals) -> Vec<f64> {
        let own = |q: usize| match self {
            Self::Process(process) => given.prior[(q, q)] + process.level() * given.constants[q].powi(2),
            Self::Link(link) => {
                let column = Matrix::column_vector(given.columns.column(q));
                let prior = Matrix::column_vector(vec![given.prior[(q, q)]]);
                let leads = link.reading.with_each_other(&column, &prior)[(0, 0)] * link.scale();
                leads + link.outcome.level() * given.constants[q].powi(2)
            }
        };
        (0..given.constants.len()).map(own).collect()
    }

    /// The prior variance of β₀.
    fn level(&self) -> f64 {
        match self {
            Self::Process(own) => own.level(),
            Self::Link(own) => own.outcome.level(),
        }
    }

    /// `∫ f̄₀² dν`, each row of ν counting the same.
    pub fn mean_square(&self, measure: &Table) -> f64 {
        let means = self.centred_means(&self.kernel().cross_gram(self.points(), measure));
        dot(&means, &means) / means.len() as f64
    }

    /// What is left open of functionals. Cost of m of them with n points O(n² m + n m²) for each study.
    pub fn covariance(&self, given: &Functionals) -> Parts {
        match self {
            Self::Process(own) => vec![(Cause::Study(own.study), own.covariance(given))],
            Self::Link(own) => own.covariance(given),
        }
    }

    /// Joint draws of β₀ (one a draw) and of f₀ at rows (rows × draws).
    pub fn sample(&self, at: &Table, draws: usize, random: &mut Random) -> Result<(Vec<f64>, Matrix)> {
        let q = at.rows();
        // One functional more, of nothing but the constant.
        let with = |m: Matrix, rows: usize| {
            let mut out = Matrix::zeros(rows, q + 1);
            (0..m.rows()).for_each(|i| out.row_mut(i)[..q].copy_from_slice(m.row(i)));
            out
        };
        let columns = with(self.kernel().cross_gram(self.points(), at), self.points().rows());
        let constants = [vec![0.0; q], vec![1.0]].concat();
        let given = Functionals { columns, prior: with(self.kernel().gram(at), q + 1), constants };
        let drawn = match self {
            Self::Process(own) => own.sample(&given, draws, random),
            Self::Link(own) => own.sample(&given, draws, random),
        }?;
        let centred = Matrix::from_row_major(q, draws, drawn.data()[..q * draws].to_vec());
        Ok((drawn.row(q).to_vec(), centred))
    }

    /// The variances of f₀ at rows.
    fn variances(&self, at: &Table) -> Vec<f64> {
        let columns = self.kernel().cross_gram(self.points(), at);
        let prior = self.kernel().diagonal(at);
        match self {
            Self::Process(own) => own.variances(columns, &prior),
            Self::Link(own) => {
                let given =
                    Functionals { columns, prior: self.kernel().gram(at), constants: vec![0.0; at.rows()] };
                let parts = own.covariance(&given);
                let of = |j: usize| parts.iter().map(|(_, part)| part[(j, j)]).sum::<f64>().max(0.0);
                (0..at.rows()).map(of).collect()
            }
        }
    }
}

impl Link {
    /// A study with mediators `y` of its rows; ν is `measure`, each of whose rows counts the same.
    pub fn new(
        study: usize,
        (points, kernel): (Table, Kernel),
        reading: Reading,
        (factor, ridge): (Cholesky, f64),
        y: &Table,
        measure: &Table,
        outcome: Outcome,
    ) -> Result<Self> {
        sized("the mediators", "rows", factor.size(), y.rows(), "one a row of the study")?;
        let with_points = outcome.kernel().cross_gram(outcome.points(), y);
        let with_each_other = outcome.kernel().gram(y);
        let solved = factor.solve_vector(&outcome.centred_means(&with_points));
        let square = outcome.mean_square(measure);
        let variance = outcome.variances(measure).iter().sum::<f64>() / measure.rows() as f64;
        Ok(Self {
            others: None,
            places: y.stack(measure)?,
            study,
            points,
            kernel,
            reading,
            ridge,
            factor,
            outcome,
            with_points,
            with_each_other,
            solved,
            square,
            variance,
            adjustment: None,
            shared: None,
        })
    }

    /// The same where the outcome depends on covariates that are in this study, too.
    pub fn sharing(mut self, shared: Shared) -> Self {
        self.shared = Some(shared);
        self
    }

    /// At how many places draws of the outcome are made.
    pub fn places(&self) -> usize {
        self.places.rows()
    }

    /// The mediators of its rows.
    pub fn mediators(&self) -> Table {
        self.places.select_rows(&(0..self.factor.size()).collect::<Vec<_>>())
    }

    /// Whether treatments are read as they are seen.
    pub fn is_direct(&self) -> bool {
        self.others.is_none() && self.reading.bend.is_none()
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
    pub fn mean(&self) -> Result<Expansion> {
        let coef = Matrix::column_vector(self.coef());
        Expansion::new(self.kernel.clone(), self.points.clone(), coef, vec![self.outcome.constant()])
    }

    /// The mean, and what is besides: that of all functionals that make nothing of a constant, as Shapley values are; how sure β₀ is counts in none of them.
    pub fn posterior(&self) -> Result<(Expansion, Covariance)> {
        let (n, model) = (self.points.rows(), self.mean()?);
        let given =
            Functionals { columns: Matrix::identity(n), prior: Matrix::zeros(n, n), constants: vec![0.0; n] };
        let mut known = Matrix::zeros(n, n);
        for (_, part) in self.covariance(&given) {
            known.data_mut().iter_mut().zip(part.data()).for_each(|(all, own)| *all -= own);
        }
        let own = match &self.shared {
            Some(shared) => shared.of_means.0 + shared.of_open.0,
            None => self.reading.own * self.scale(),
        };
        let prior = own + self.adjustment.as_ref().map_or(0.0, |own| own.own);
        let known = vec![Known::Dense(known)];
        Ok((model, Covariance { prior, mirror: None, known, scale: vec![1.0] }))
    }

    /// E, queries × rows, and R.
    pub fn weights(&self, given: &Functionals) -> (Matrix, Matrix) {
        let mut half = self.reading.with_rows(&given.columns);
        self.factor.solve_lower_in_place(&mut half);
        let mut open = half.transpose_matmul(&half);
        let all = self.reading.with_each_other(&given.columns, &given.prior);
        open.data_mut().iter_mut().zip(all.data()).for_each(|(own, all)| *own = all - *own);
        self.factor.solve_upper_in_place(&mut half);
        (half.transpose(), open)
    }

    /// The same functionals, of the outcome.
    fn handed_on(&self, weights: &Matrix, given: &Functionals) -> Functionals {
        match &self.shared {
            None => self.by_weights(weights, &given.constants),
            Some(Shared { to, prior, .. }) => Functionals {
                columns: to.matmul(&given.columns),
                prior: given.columns.transpose_matmul(&prior.matmul(&given.columns)),
                constants: given.constants.clone(),
            },
        }
    }

    /// Those of the outcome at the rows' mediators that count by E.
    fn by_weights(&self, weights: &Matrix, constants: &[f64]) -> Functionals {
        let transposed = weights.transpose();
        Functionals {
            columns: self.with_points.matmul(&transposed),
            prior: weights.matmul(&self.with_each_other.matmul(&transposed)),
            constants: constants.to_vec(),
        }
    }

    pub fn covariance(&self, given: &Functionals) -> Parts {
        let (weights, open) = self.weights(given);
        let parts = self.outcome.covariance(&self.handed_on(&weights, given));
        self.with_own(parts, &open, given)
    }

    /// Joint draws of single queries, queries × draws: of the outcome where the study may lead, and of where it leads given that, `N(β₀ + E f₀(y), R ∫ f₀² dν)`. Products of normal numbers have
    /// heavier tails than the covariance tells. Where studies share covariates, draws are normal ones with mean and covariance.
    pub fn sample(&self, given: &Functionals, draws: usize, random: &mut Random) -> Result<Matrix> {
        if self.shared.is_some() {
            // By mean and covariance.
            let (means, parts, _) = self.told(given);
            let mut all = Matrix::zeros(means.len(), means.len());
            parts.iter().for_each(|(_, part)| plus(&mut all, part));
            let scale = size(&all);
            let mut out = drawn(all, scale, draws, "covariance of the effect", random)?;
            means.iter().enumerate().for_each(|(i, m)| out.row_mut(i).iter_mut().for_each(|v| *v += m));
            return Ok(out);
        }
        let (weights, open) = self.weights(given);
        let (q, n) = (weights.rows(), weights.cols());
        let (constants, centred) = self.outcome.sample(&self.places, draws, random)?;
        let of_rows = Matrix::from_row_major(n, draws, centred.data()[..n * draws].to_vec());
        let mut out = weights.matmul(&of_rows);
        let rest = centred.rows() - n;
        let scale = size(&self.reading.with_each_other(&given.columns, &given.prior));
        let mut own = drawn(open, scale, draws, "where a study leads", random)?;
        for j in 0..draws {
            let square = (n..n + rest).map(|i| centred[(i, j)].powi(2)).sum::<f64>() / rest as f64;
            (0..q).for_each(|i| own[(i, j)] *= square.sqrt());
        }
        plus(&mut out, &own);
        if let Some(part) = self.of_adjustment(given) {
            let scale = size(&part);
            plus(&mut out, &drawn(part, scale, draws, "who is in a study", random)?);
        }
        for i in 0..q {
            let level = given.constants[i];
            out.row_mut(i).iter_mut().zip(&constants).for_each(|(v, c)| *v += level * c);
        }
        Ok(out)
    }

    fn of_adjustment(&self, given: &Functionals) -> Option<Matrix> {
        let Adjustment { own, known, half } = self.adjustment.as_ref()?;
        let half = half.transpose_matmul(&given.columns);
        let mut part = half.transpose_matmul(&half);
        if let Some(known) = known {
            let known = given.columns.transpose_matmul(&known.matmul(&given.columns));
            let prior = given.prior.data().iter().zip(known.data());
            part.data_mut().iter_mut().zip(prior).for_each(|(v, (p, k))| *v += own * p - k);
        }
        Some(part)
    }

    /// What the outcome leaves open, with what this study does.
    fn with_own(&self, mut parts: Parts, open: &Matrix, given: &Functionals) -> Parts {
        match &self.shared {
            None => {
                add(&mut parts, Cause::Study(self.study), self.square, open);
                add(&mut parts, Cause::Interaction, self.variance, open);
            }
            Some(shared) => {
                let causes = [Cause::Study(self.study), Cause::Interaction];
                for (cause, (own, known)) in causes.into_iter().zip([&shared.of_means, &shared.of_open]) {
                    let known = given.columns.transpose_matmul(&known.matmul(&given.columns));
                    let mut part = given.prior.clone();
                    part.data_mut().iter_mut().zip(known.data()).for_each(|(p, k)| *p = own * *p - k);
                    add(&mut parts, cause, 1.0, &part);
                }
            }
        }
        if let Some(part) = self.of_adjustment(given) {
            add(&mut parts, Cause::Adjustment, 1.0, &part);
        }
        parts
    }

    /// Means of single queries, what is left open of them jointly, and how they stand to the studies.
    pub fn told(&self, given: &Functionals) -> (Vec<f64>, Parts, Vec<Standing>) {
        let (weights, open) = self.weights(given);
        let handed = self.handed_on(&weights, given);
        let mean = self.outcome.constant();
        let means = given.columns.transpose().matvec(&self.coef());
        let means = means.iter().zip(&given.constants).map(|(v, c)| v + c * mean).collect();
        let all = self.reading.with_each_other(&given.columns, &given.prior);
        let left = self.outcome.covariance(&handed);
        let before = self.outcome.prior_variances(&handed);
        let of = |q: usize| {
            let row = weights.row(q);
            let (sum, size): (f64, f64) = (row.iter().sum(), row.iter().map(|e| e.abs()).sum());
            let left: f64 = left.iter().map(|(_, part)| part[(q, q)]).sum();
            let share = |of: f64, all: f64| if all > 0.0 { (1.0 - of / all).clamp(0.0, 1.0) } else { 0.0 };
            Standing {
                resolved_by_first: share(open[(q, q)], all[(q, q)]),
                resolved_by_rest: share(left, before[q]),
                effective_rows: if size > 0.0 { size * size / dot(row, row) } else { 0.0 },
                mass: sum,
                people: 1.0,
                overlap: 1.0,
            }
        };
        let standing = (0..weights.rows()).map(of).collect();
        (means, self.with_own(left, &open, given), standing)
    }

    /// The same study for a query that reads it otherwise; what is not known of who is asked about is `half` of [`Adjustment`].
    pub fn read(&self, reading: Reading, half: Option<Matrix>) -> Self {
        let adjustment = half.map(|half| Adjustment { own: 0.0, known: None, half });
        Self { reading, adjustment, ..self.clone() }
    }

    /// `(K_Ω + λ)⁻¹ f̄₀(y)`: what the outcome is at the rows' mediators, as a regression.
    pub fn solved(&self) -> &[f64] {
        &self.solved
    }

    /// Counts who happens to be in the study: covariates that are averaged over, by the kernels of its two blocks between rows; or, where a regression on treatments says what they make of what
    /// intercepts the effect, the treatments, and that regression.
    pub fn count_who_is_in(&mut self, grams: &[Matrix], treated: Option<&Cholesky>) {
        let n = self.factor.size();
        let scale = 1.0 / (n as f64 * (n as f64 + 1.0)).sqrt();
        let times_solved = |mut m: Matrix| {
            (0..n).for_each(|i| m.row_mut(i).iter_mut().for_each(|v| *v *= self.solved[i]));
            m
        };
        // Of each row what the effect would be among people like it.
        let Some(treated) = treated else {
            let mut half = match &self.shared {
                Some(shared) => shared.of_people.clone(),
                None => times_solved(grams[1].clone()),
            };
            centre(&mut half, scale);
            self.adjustment = Some(Adjustment { own: 0.0, known: None, half });
            return;
        };
        let mut half = treated.solve(grams[1].matmul(&times_solved(grams[0].clone())));
        centre(&mut half, scale);
        // The averaged outcome at what intercepts the effect.
        let mut of_rows = grams[1].clone();
        let mean: Vec<f64> = (0..n).map(|i| grams[0].row(i).iter().sum::<f64>() / n as f64).collect();
        (0..n).for_each(|i| of_rows.row_mut(i).iter_mut().for_each(|v| *v *= mean[i]));
        let means = of_rows.transpose().matvec(&self.solved);
        let mut open = of_rows;
        self.factor.solve_lower_in_place(&mut open);
        let all = mean.iter().sum::<f64>() / n as f64;
        let left = |q: usize| all * grams[1][(q, q)] - (0..n).map(|i| open[(i, q)].powi(2)).sum::<f64>();
        let left: Vec<f64> = (0..n).map(left).collect();
        self.factor.solve_upper_in_place(&mut open);
        let handed = self.by_weights(&open.transpose(), &vec![0.0; n]);
        let parts = self.outcome.covariance(&handed);
        let variance =
            |q: usize| parts.iter().map(|(_, part)| part[(q, q)]).sum::<f64>() + left[q] * self.scale();
        let square = |q: usize| means[q] * means[q] + variance(q).max(0.0);
        let own = (0..n).map(square).sum::<f64>() / n as f64;
        let mut known = treated.inverse();
        known.data_mut().iter_mut().for_each(|v| *v *= own);
        self.adjustment = Some(Adjustment { own, known: Some(known), half });
    }
}

fn plus(all: &mut Matrix, own: &Matrix) {
    all.data_mut().iter_mut().zip(own.data()).for_each(|(a, b)| *a += b);
}

/// Takes from each row its mean, and multiplies it.
fn centre(m: &mut Matrix, scale: f64) {
    for i in 0..m.rows() {
        let row = m.row_mut(i);
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        row.iter_mut().for_each(|v| *v = scale * (*v - mean));
    }
}

impl Standing {
    /// Adds another, times its weight.
    pub(super) fn add(&mut self, weight: f64, other: Self) {
        self.resolved_by_first += weight * other.resolved_by_first;
        self.resolved_by_rest += weight * other.resolved_by_rest;
        self.effective_rows += weight * other.effective_rows;
        self.mass += weight * other.mass;
        self.people += weight * other.people;
        self.overlap += weight * other.overlap;
    }

    /// Whether the studies tell it: the first, and those after it, take away half of the prior variance or more, as rows do of who is asked about, and for half of these such a treatment was
    /// near. Elsewhere it is what the model makes of rows that are far away.
    pub fn supported(&self) -> bool {
        [self.resolved_by_first, self.resolved_by_rest, self.people, self.overlap]
            .iter()
            .all(|own| *own >= TOLD)
    }
}

/// Adds a part, times its weight, to those of its cause.
pub(super) fn add(parts: &mut Parts, cause: Cause, weight: f64, part: &Matrix) {
    let place = parts.iter().position(|(own, _)| *own == cause).unwrap_or_else(|| {
        parts.push((cause, Matrix::zeros(part.rows(), part.cols())));
        parts.len() - 1
    });
    let own = &mut parts[place].1;
    own.data_mut().iter_mut().zip(part.data()).for_each(|(a, b)| *a += weight * b);
}
