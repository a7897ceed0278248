//! Conditional mean embeddings: what the rest of a row is like, given some of its columns.
//!
//! From reference rows `x_b` with weights `w_b` and a kernel `k_S` of the columns S that are given, the
//! embedding of the rest of a row at `x` is the weighted sum of the reference rows with the weights
//! `(K_S + η diag(1/w))⁻¹ k_S(x)`: a ridge regression on `x_S` whose targets are whole rows. With equal
//! weights the ridge is `n η`. They are computed as `D^½ (D^½ K_S D^½ + η I)⁻¹ D^½ k_S(x)` with
//! `D = diag(w)`, which small weights do not upset. Given nothing, they are the weights of the reference
//! rows: the mean embedding. Source: Song, Huang, Smola and Fukumizu 2009; Chau, Hu, Gonzalez and Sejdinovic
//! 2022 (RKHS-SHAP), §3.
//!
//! [`ConditionalMean`] is for one set of columns, [`ConditionalMeanEmbeddings`] for any of several blocks of
//! columns.
//!
//! ```
//! use riesz::embedding::{ConditionalMean, Conditioning};
//! use riesz::Table;
//! use std::sync::atomic::AtomicBool;
//!
//! // E[sin y | x] where y = x + noise, from 200 rows.
//! let x: Vec<[f64; 1]> = (0..200).map(|i| [f64::from(i) / 50.0]).collect();
//! let y: Vec<[f64; 1]> = (0..200).map(|i| [x[i][0] + 0.1 * (i as f64 * 7.3).sin()]).collect();
//! let (given, target) = (Table::from_rows(&x)?, Table::from_rows(&y)?);
//! let stop = AtomicBool::new(false);
//! let mean = ConditionalMean::fit(&given, None, Some(&target), &Conditioning::default(), &stop)?;
//! let weights = mean.weights(&Table::from_rows(&[[1.5]])?, &stop)?;
//! let found: f64 = (0..200).map(|i| weights.matrix[(i, 0)] * y[i][0].sin()).sum();
//! assert!((found - 1.5_f64.sin()).abs() < 0.01);
//! # Ok::<(), riesz::Error>(())
//! ```

mod blockwise_kernel;
mod cg_embeddings;
mod direct;
mod random_fourier;
mod ridge_selection;
mod settings;
mod tiles;

use std::sync::atomic::AtomicBool;

use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg::{Matrix, dot};
use crate::random::{Random, SeedableRng, index};
use crate::table::Table;
pub(crate) use blockwise_kernel::{BlockKernel, Products, kept, multiply, split};
pub(crate) use cg_embeddings::{CgSolution, IterativeEmbeddings, RightHandSides};
pub(crate) use direct::{ConditioningRows, DirectEmbeddings, System};
pub use ridge_selection::leave_one_out;
pub use settings::{Approximation, Conditioning, ConditioningKernel, ConjugateGradients, Ridge};
pub(crate) use tiles::{Tiles, blocks};

/// What all forms of conditional mean embeddings are learnt from.
pub(crate) struct EmbeddingData {
    pub(crate) rows: Table,
    /// Not negative; their sum is 1.
    pub(crate) weights: Vec<f64>,
    /// Says how alike rows are in what is conditioned on.
    pub(crate) kernel: BlockKernel,
    /// Blocks of columns, any of which may be given.
    pub(crate) blocks: usize,
    /// η.
    pub(crate) ridge: f64,
}

impl EmbeddingData {
    /// Some of the reference rows, drawn at random.
    fn landmarks(&self, count: usize, seed: u64) -> Table {
        let n = self.rows.rows();
        let chosen = index::sample(&mut Random::seed_from_u64(seed), n, count.min(n));
        self.rows.select_rows(&chosen.into_vec())
    }

    /// The mean of numbers that belong to the reference rows.
    pub(crate) fn mean(&self, numbers: &[f64]) -> f64 {
        dot(numbers, &self.weights)
    }
}

/// Weights of the reference rows, at some rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// Reference rows × rows.
    pub matrix: Matrix,
    /// For each row a bound on the length of the error of its weights: of rounding, and of what conjugate
    /// gradients left open; not of what landmarks or random features leave out.
    pub error: Vec<f64>,
}

/// Conditional mean embeddings of whole rows given any of some blocks of columns, which share what they can:
/// where the kernel is a product over the blocks, its factors.
pub struct ConditionalMeanEmbeddings {
    pub(crate) solver: EmbeddingSolver,
    centred: bool,
}

/// How the weights are found.
pub(crate) enum EmbeddingSolver {
    Factored(DirectEmbeddings),
    Iterative(IterativeEmbeddings),
}

impl ConditionalMeanEmbeddings {
    /// Learns from reference rows with weights (by default equal; they are normalised), given any of
    /// `blocks`, lists of columns of `rows` that have none in common. Cost O(blocks · n²) for n rows, nothing
    /// for landmarks, features and conjugate gradients, and that of choosing a ridge where none is given:
    /// O(400³).
    ///
    /// # Errors
    /// [`Error::Parameter`] for settings out of range, blocks that share columns or have others than those of
    /// the table, a kernel that is given as a sum, or weights that are negative or all 0; [`Error::Shape`]
    /// unless there is a weight a row; [`Error::TooFew`] without rows;
    /// [`Error::Memory`]; [`Error::Interrupted`] soon after `stop` becomes true.
    pub fn fit(
        rows: &Table,
        weights: Option<&[f64]>,
        blocks: &[Vec<usize>],
        conditioning: &Conditioning,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let mut columns: Vec<usize> = blocks.concat();
        columns.sort_unstable();
        if columns.windows(2).any(|pair| pair[0] == pair[1]) || columns.iter().any(|&j| j >= rows.width()) {
            let allowed =
                format!("each is one of the table's {} columns, from 0, in one block", rows.width());
            return Err(Error::parameter("blocks of columns", format!("{blocks:?}"), allowed));
        }
        let weights = normalised(weights, rows.rows(), "reference")?;
        conditioning.check_memory("conditional mean embeddings", rows.rows(), blocks.len(), 0.0)?;
        let kernel = conditioning.kernel.kernel(None, rows)?;
        Self::learn(rows.clone(), weights, blocks, &kernel, conditioning, stop)
    }

    /// As [`fit`](Self::fit) for weights that are normalised, with the kernel that the settings mean.
    pub(crate) fn learn(
        rows: Table,
        weights: Vec<f64>,
        blocks: &[Vec<usize>],
        kernel: &Kernel,
        conditioning: &Conditioning,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let one = matches!(kernel.terms.as_slice(), [term] if term.scale == 1.0);
        if matches!(conditioning.kernel, ConditioningKernel::Given(_)) && !one {
            return Err(Error::parameter(
                "kernel of the conditional mean embedding",
                kernel.formula(),
                "it is one product of factors, of scale 1; leave it out for a Gaussian with the columns' \
                 median length scales",
            ));
        }
        let kernel = BlockKernel::new(kernel, rows.columns(), blocks);
        let ridge = match conditioning.ridge {
            Ridge::Fixed(ridge) => ridge,
            Ridge::CrossValidated => ridge_selection::for_block_sets(
                &rows,
                &weights,
                &kernel,
                blocks.len(),
                conditioning.seed,
                stop,
            )?,
        };
        Self::new(EmbeddingData { rows, weights, kernel, blocks: blocks.len(), ridge }, conditioning, stop)
    }

    fn new(learnt: EmbeddingData, conditioning: &Conditioning, stop: &AtomicBool) -> Result<Self> {
        let Conditioning { approximation, seed, centred, .. } = *conditioning;
        if !(learnt.ridge.is_finite() && learnt.ridge > 0.0) {
            return Err(Error::parameter("ridge", learnt.ridge, "it is a positive number"));
        }
        let solver = match approximation {
            Approximation::ConjugateGradients(settings) => {
                EmbeddingSolver::Iterative(IterativeEmbeddings::new(learnt, settings, seed)?)
            }
            _ => EmbeddingSolver::Factored(DirectEmbeddings::new(learnt, approximation, seed, stop)?),
        };
        Ok(Self { solver, centred })
    }

    pub(crate) fn learnt(&self) -> &EmbeddingData {
        match &self.solver {
            EmbeddingSolver::Factored(means) => &means.learnt,
            EmbeddingSolver::Iterative(means) => &means.learnt,
        }
    }

    /// η, as given or chosen.
    pub fn ridge(&self) -> f64 {
        self.learnt().ridge
    }

    /// The kernel of what is given where all blocks are.
    pub fn kernel(&self) -> &Kernel {
        self.learnt().kernel.whole()
    }

    /// In words.
    pub(crate) fn approximation(&self) -> String {
        match &self.solver {
            EmbeddingSolver::Factored(means) => means.approximation(),
            EmbeddingSolver::Iterative(means) => means.approximation(),
        }
    }

    /// The weights of the reference rows given those blocks that `given` says, at each row of `x`, whose
    /// columns are matched by name; those that are not given are not looked at. Cost O(n³) and O(n²) a row,
    /// for landmarks and features O(n m²) and O(n m), for conjugate gradients O(n²) a row and step. The sum
    /// over rows b of weights times `f(x_b)` estimates the mean of f.
    ///
    /// # Errors
    /// Those of [`Table::align_to`]; [`Error::Parameter`] unless `given` has a word a block;
    /// [`Error::NotPositiveDefinite`] for a ridge that is too small; [`Error::NotConverged`] for conjugate
    /// gradients; [`Error::Interrupted`] soon after `stop` becomes true.
    pub fn weights(&self, given: &[bool], x: &Table, stop: &AtomicBool) -> Result<Weights> {
        self.weights_by(&self.system(given, stop)?, given, x, stop)
    }

    /// As [`weights`](Self::weights), but never centred.
    pub(crate) fn uncentred(&self, given: &[bool], x: &Table, stop: &AtomicBool) -> Result<Weights> {
        self.uncentred_by(&self.system(given, stop)?, given, x, stop)
    }

    /// The system of what is given, where systems are factored.
    fn system(&self, given: &[bool], stop: &AtomicBool) -> Result<System> {
        if given.len() != self.learnt().blocks {
            let allowed = format!("one word a block of columns, of which there are {}", self.learnt().blocks);
            return Err(Error::parameter("length of what is given", given.len(), allowed));
        }
        let mut system = System::default();
        // Nobody's weights are the rows' own.
        if let (EmbeddingSolver::Factored(means), true) = (&self.solver, given.contains(&true)) {
            means.prepare(given, &mut system, stop)?;
        }
        Ok(system)
    }

    /// The weights from the system of what is given, which the solver has prepared if it factors systems.
    fn weights_by(&self, system: &System, given: &[bool], x: &Table, stop: &AtomicBool) -> Result<Weights> {
        let mut found = self.uncentred_by(system, given, x, stop)?;
        if self.centred && given.contains(&true) {
            self.centre(&mut found);
        }
        Ok(found)
    }

    fn uncentred_by(&self, system: &System, given: &[bool], x: &Table, stop: &AtomicBool) -> Result<Weights> {
        let EmbeddingData { rows, weights, kernel, .. } = self.learnt();
        let x = x.align_to(rows.columns())?;
        let (n, count, u) = (rows.rows(), x.rows(), f64::EPSILON / 2.0);
        if count == 0 || !given.contains(&true) {
            let all = weights.iter().flat_map(|w| std::iter::repeat_n(*w, count)).collect();
            return Ok(Weights { matrix: Matrix::from_row_major(n, count, all), error: vec![0.0; count] });
        }
        let units = kernel.units(rows.width());
        let largest = weights.iter().copied().fold(0.0, f64::max).sqrt();
        let (matrix, error) = match &self.solver {
            EmbeddingSolver::Factored(means) => {
                let mut solved = vec![0.0; means.size() * count];
                let at = means.conditions(x, stop)?;
                let right = means.right_hand_side(&at, given, system, &mut solved, stop)?;
                means.solve(system, &mut solved, stop)?;
                let lengths = solved.chunks_exact(means.size()).map(|s| dot(s, s).sqrt());
                let stretch = largest * means.error_amplification(system);
                let off = lengths.zip(right).map(|(length, right)| {
                    let summing = (means.size() + 4) as f64 * u * length;
                    stretch * (means.solution_error(system, right, length, units) + summing)
                });
                let by_row = means.weights(system, 0..n, &solved);
                (Matrix::from_row_major(count, n, by_row).transpose(), off.collect::<Vec<f64>>())
            }
            EmbeddingSolver::Iterative(means) => {
                let mut solved = means.solve(&[given], RightHandSides::Kernel(&x), units, stop)?;
                let CgSolution { mut solution, lengths, errors } = solved.swap_remove(0);
                cg_embeddings::scale_rows(&mut solution, means.roots());
                let off =
                    errors.iter().zip(lengths).map(|(error, length)| largest * (error + 4.0 * u * length));
                (Matrix::from_row_major(n, count, solution), off.collect())
            }
        };
        Ok(Weights { matrix, error })
    }

    /// What weights lack of a sum of 1 goes to the reference's own.
    fn centre(&self, Weights { matrix, error }: &mut Weights) {
        let (weights, n, count, u) =
            (&self.learnt().weights, matrix.rows(), matrix.cols(), f64::EPSILON / 2.0);
        let mut missing = vec![1.0; count];
        for b in 0..n {
            missing.iter_mut().zip(matrix.row(b)).for_each(|(m, w)| *m -= w);
        }
        let mut total = vec![0.0; count];
        for (b, own) in weights.iter().enumerate() {
            for ((w, m), total) in matrix.row_mut(b).iter_mut().zip(&missing).zip(&mut total) {
                *w += own * m;
                *total += w.abs();
            }
        }
        // What the sum of the weights is off goes to all of them.
        let spread = dot(weights, weights).sqrt() * (n as f64).sqrt();
        for ((error, missing), total) in error.iter_mut().zip(missing).zip(total) {
            *error += spread * *error + (n + 4) as f64 * u * (1.0 + total + missing.abs());
        }
    }
}

/// The conditional mean embedding of whatever goes with rows, given these rows.
pub struct ConditionalMean {
    means: ConditionalMeanEmbeddings,
    system: System,
}

impl ConditionalMean {
    /// Learns from the conditioning columns `given` of reference rows with weights (by default equal; they
    /// are normalised). Where the ridge is chosen, it is the one by which the same rows' columns in `target`
    /// are predicted best, as a Gaussian kernel with median length scales sees them. Cost O(n³) for n rows,
    /// O(n m²) for landmarks and features, nothing for conjugate gradients.
    ///
    /// # Errors
    /// As [`ConditionalMeanEmbeddings::fit`]; [`Error::Shape`] for a target of other rows; [`Error::TooFew`]
    /// if a ridge is to be chosen without a target; [`Error::NotPositiveDefinite`] for a ridge that is too
    /// small.
    pub fn fit(
        given: &Table,
        weights: Option<&[f64]>,
        target: Option<&Table>,
        conditioning: &Conditioning,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let n = given.rows();
        let weights = normalised(weights, n, "reference")?;
        conditioning.check_memory("the conditional mean embedding", n, 0, 0.0)?;
        let kernel = conditioning.kernel.kernel(None, given)?;
        let ridge = match (conditioning.ridge, target) {
            (Ridge::Fixed(ridge), _) => ridge,
            (Ridge::CrossValidated, Some(target)) => {
                if target.rows() != n {
                    return Err(Error::Shape {
                        what: "what is predicted of the reference".into(),
                        unit: "rows",
                        expected: n,
                        found: target.rows(),
                        why: "the same as are given".into(),
                    });
                }
                let target_kernel = settings::median_gaussian(target)?;
                let pair = [(given, &kernel), (target, &target_kernel)];
                ridge_selection::for_target(pair, &weights, conditioning.seed, stop)?
            }
            (Ridge::CrossValidated, None) => {
                let what = "what the ridge of a conditional mean embedding is chosen by".into();
                return Err(Error::TooFew { what, needed: 1, unit: "target column or a given ridge is" });
            }
        };
        let kernel = BlockKernel::new(&kernel, given.columns(), &[(0..given.width()).collect()]);
        let learnt = EmbeddingData { rows: given.clone(), weights, kernel, blocks: 1, ridge };
        let means = ConditionalMeanEmbeddings::new(learnt, conditioning, stop)?;
        let mut system = System::default();
        if let EmbeddingSolver::Factored(means) = &means.solver {
            means.prepare(&[true], &mut system, stop)?;
        }
        Ok(Self { means, system })
    }

    /// η, as given or chosen.
    pub fn ridge(&self) -> f64 {
        self.means.ridge()
    }

    /// The weights of the reference rows at each row of `x`, whose columns are matched by name. Cost a row
    /// O(n²), for landmarks and features O(n m), for conjugate gradients O(n²) a step.
    ///
    /// # Errors
    /// As [`ConditionalMeanEmbeddings::weights`].
    pub fn weights(&self, x: &Table, stop: &AtomicBool) -> Result<Weights> {
        self.means.weights_by(&self.system, &[true], x, stop)
    }
}

/// Weights of `rows` rows that sum to 1, from those that are given or else equal ones. `whose` rows they are
/// is said.
///
/// # Errors
/// [`Error::TooFew`] without rows; [`Error::Shape`] unless there is a weight a row; [`Error::Parameter`] if
/// one is negative or not finite, or all are 0.
pub(crate) fn normalised(weights: Option<&[f64]>, rows: usize, whose: &str) -> Result<Vec<f64>> {
    if rows == 0 {
        return Err(Error::TooFew { what: format!("the {whose}"), needed: 1, unit: "row is" });
    }
    let Some(weights) = weights else { return Ok(vec![1.0 / rows as f64; rows]) };
    if weights.len() != rows {
        return Err(Error::Shape {
            what: format!("the list of {whose} weights"),
            unit: "numbers",
            expected: rows,
            found: weights.len(),
            why: format!("one a {whose} row"),
        });
    }
    if let Some(bad) = weights.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
        let allowed = "weights are numbers that are not negative";
        return Err(Error::parameter(format!("{whose} weight"), bad, allowed));
    }
    let total: f64 = weights.iter().sum();
    if !(total.is_finite() && total > 0.0) {
        let name = format!("sum of the {whose} weights");
        return Err(Error::parameter(name, total, "it is a positive number"));
    }
    Ok(weights.iter().map(|w| w / total).collect())
}
