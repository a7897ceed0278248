//! Conditional mean embeddings: the conditional distribution of the other columns of a row, given the values
//! of a subset of its columns.
//!
//! The reference rows `x_b` have weights `w_b`, and `k_S` is a kernel of the conditioning columns S with the
//! Gram matrix `K_S` of the reference rows. The embedding of the other columns at `x` is the sum of the
//! reference rows with the weights `(K_S + η diag(1/w))⁻¹ k_S(x)`. This is a ridge regression on `x_S` whose
//! targets are whole rows. With equal weights the ridge is `n η`. The weights are computed as
//! `D^½ (D^½ K_S D^½ + η I)⁻¹ D^½ k_S(x)` with `D = diag(w)`, which is stable for small weights. For empty S
//! they are the weights of the reference rows: the mean embedding.
//!
//! Sources: Song, Huang, Smola and Fukumizu 2009; Chau, Hu, Gonzalez and Sejdinovic 2022 (RKHS-SHAP), §3.
//!
//! [`ConditionalMean`] conditions on one set of columns, [`ConditionalMeanEmbeddings`] on any subset of
//! several blocks of columns.
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
//! let estimate: f64 = (0..200).map(|i| weights.matrix[(i, 0)] * y[i][0].sin()).sum();
//! assert!((estimate - 1.5_f64.sin()).abs() < 0.01);
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

use crate::error::{Error, Result, sized};
use crate::kernel::Kernel;
use crate::linalg::{Matrix, dot};
use crate::random::{Random, SeedableRng, index};
use crate::table::Table;
pub(crate) use blockwise_kernel::{BlockKernel, Products, factor_tables, multiply, split};
pub(crate) use cg_embeddings::{CgSolution, IterativeEmbeddings, RightHandSides, scale_rows};
pub(crate) use direct::{ConditioningRows, DirectEmbeddings, System};
pub use ridge_selection::leave_one_out;
pub use settings::{Approximation, Conditioning, ConditioningKernel, ConjugateGradients, Ridge};
pub(crate) use tiles::{Tiles, blocks};

/// The reference data and settings that all forms of conditional mean embeddings share.
pub(crate) struct EmbeddingData {
    pub(crate) rows: Table,
    /// Weights of the reference rows: not negative, with sum 1.
    pub(crate) weights: Vec<f64>,
    /// Kernel of the conditioning columns.
    pub(crate) kernel: BlockKernel,
    /// Number of blocks of columns; any subset of them may be conditioned on.
    pub(crate) blocks: usize,
    /// The ridge η.
    pub(crate) ridge: f64,
}

impl EmbeddingData {
    /// At most `count` of the reference rows, drawn at random.
    fn landmarks(&self, count: usize, seed: u64) -> Table {
        let n = self.rows.rows();
        let chosen = index::sample(&mut Random::seed_from_u64(seed), n, count.min(n));
        self.rows.select_rows(&chosen.into_vec())
    }

    /// The square roots of the reference rows' weights.
    fn roots(&self) -> Vec<f64> {
        self.weights.iter().map(|w| w.sqrt()).collect()
    }

    /// The weighted mean of `numbers`, one per reference row.
    pub(crate) fn mean(&self, numbers: &[f64]) -> f64 {
        dot(numbers, &self.weights)
    }
}

/// Weights of the reference rows at some rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// Reference rows × rows.
    pub matrix: Matrix,
    /// For each row, a bound on the norm of the error of its weights. It covers rounding and the residual of
    /// conjugate gradients, but not the error of landmarks or random features.
    pub error: Vec<f64>,
}

impl Weights {
    /// Returns the weights with a transposed matrix.
    fn transposed(self) -> Self {
        Self { matrix: self.matrix.transpose(), error: self.error }
    }
}

/// Conditional mean embeddings of whole rows given any subset of several blocks of columns. If the kernel is
/// a product over the blocks, the subsets share its factors.
pub struct ConditionalMeanEmbeddings {
    pub(crate) solver: EmbeddingSolver,
    centered: bool,
}

/// Rows at which weights are computed, prepared for all sets of blocks.
pub(crate) struct QueriedRows {
    rows: Table,
    /// The kernel's factors, for a solver that factors systems.
    conditions: Option<ConditioningRows>,
}

impl QueriedRows {
    /// The number of rows.
    pub(crate) fn count(&self) -> usize {
        self.rows.rows()
    }
}

/// The solver of the weights.
pub(crate) enum EmbeddingSolver {
    Factored(DirectEmbeddings),
    Iterative(IterativeEmbeddings),
}

impl ConditionalMeanEmbeddings {
    /// Fits to reference rows with weights (by default equal; they are normalised). `blocks` are lists of
    /// columns of `rows` without common columns; embeddings are conditioned on any subset of them. Cost
    /// O(blocks · n²) for n rows; none for landmarks, features and conjugate gradients. Choosing a ridge
    /// costs O(400³).
    ///
    /// # Errors
    /// - [`Error::Parameter`] for settings out of range, for blocks that share columns or that name columns
    ///   not in the table, for a given kernel that is a sum, or for weights that are negative or all 0.
    /// - [`Error::Shape`] if the number of weights is not the number of rows.
    /// - [`Error::TooFew`] without rows.
    /// - [`Error::Memory`] if the embeddings would exceed the memory; [`Error::Interrupted`] soon after
    ///   `stop` becomes true.
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
        let names = ("conditional mean embeddings", None);
        Self::learn(rows.clone(), weights, blocks, names, conditioning, |_, _| 0.0, stop)
    }

    /// Fits as [`fit`](Self::fit) does, with normalised weights, and with the model's kernel if there is one.
    /// Messages call the embeddings `name`; `extra` returns the count of further doubles that need memory,
    /// from the kernel and the rows.
    pub(crate) fn learn(
        rows: Table,
        weights: Vec<f64>,
        blocks: &[Vec<usize>],
        (name, model_kernel): (&str, Option<&Kernel>),
        conditioning: &Conditioning,
        extra: impl FnOnce(&Kernel, &Table) -> f64,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let kernel = &conditioning.kernel.kernel(model_kernel, &rows)?;
        conditioning.check_memory(name, rows.rows(), blocks.len(), extra(kernel, &rows))?;
        let is_single_product = matches!(kernel.terms.as_slice(), [term] if term.scale == 1.0);
        if matches!(conditioning.kernel, ConditioningKernel::Given(_)) && !is_single_product {
            return Err(Error::parameter(
                "kernel of the conditional mean embedding",
                kernel.formula(),
                "give one product of factors with scale 1, or no kernel for a Gaussian with the columns' \
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
        let Conditioning { approximation, seed, centered, .. } = *conditioning;
        if !(learnt.ridge.is_finite() && learnt.ridge > 0.0) {
            return Err(Error::parameter("conditional_ridge", learnt.ridge, "it is a positive number"));
        }
        let solver = match approximation {
            Approximation::ConjugateGradients(settings) => {
                EmbeddingSolver::Iterative(IterativeEmbeddings::new(learnt, settings, seed)?)
            }
            _ => EmbeddingSolver::Factored(DirectEmbeddings::new(learnt, approximation, seed, stop)?),
        };
        Ok(Self { solver, centered })
    }

    pub(crate) fn learnt(&self) -> &EmbeddingData {
        match &self.solver {
            EmbeddingSolver::Factored(means) => &means.learnt,
            EmbeddingSolver::Iterative(means) => &means.learnt,
        }
    }

    /// The ridge η, as given or chosen.
    pub fn ridge(&self) -> f64 {
        self.learnt().ridge
    }

    /// The kernel of all conditioning columns.
    pub fn kernel(&self) -> &Kernel {
        &self.learnt().kernel.kernel
    }

    /// Description of the approximation for reports.
    pub(crate) fn approximation(&self) -> String {
        match &self.solver {
            EmbeddingSolver::Factored(means) => means.approximation(),
            EmbeddingSolver::Iterative(means) => means.approximation(),
        }
    }

    /// The weights of the reference rows given the blocks in `set`, at each row of `x`. Columns are matched
    /// by name; columns of other blocks are ignored. The sum of the weights times `f(x_b)` over the reference
    /// rows b estimates the conditional mean of f.
    ///
    /// Cost O(n³) and O(n²) for each row; for landmarks and features O(n m²) and O(n m); for conjugate
    /// gradients O(n²) for each row and step.
    ///
    /// # Errors
    /// The errors of [`Table::align_to`]; [`Error::Parameter`] if `set` does not have one flag per block;
    /// [`Error::NotPositiveDefinite`] for a ridge that is too small; [`Error::NotConverged`] for conjugate
    /// gradients; [`Error::Interrupted`] soon after `stop` becomes true.
    pub fn weights(&self, set: &[bool], x: &Table, stop: &AtomicBool) -> Result<Weights> {
        self.weights_of_system(&self.system(set, stop)?, set, x, stop)
    }

    /// Prepares rows for [`row_weights_at`](Self::row_weights_at); columns are matched by name. Cost
    /// O(blocks · n) for each row.
    ///
    /// # Errors
    /// The errors of [`Table::align_to`]; [`Error::Interrupted`].
    pub(crate) fn queried_rows(&self, x: &Table, stop: &AtomicBool) -> Result<QueriedRows> {
        let rows = x.align_to(self.learnt().rows.columns())?;
        let conditions = match &self.solver {
            EmbeddingSolver::Factored(means) if rows.rows() > 0 => {
                Some(means.conditions(rows.clone(), stop)?)
            }
            _ => None,
        };
        Ok(QueriedRows { rows, conditions })
    }

    /// The [`weights`](Self::weights) at prepared rows, which several sets of blocks share. The matrix is
    /// transposed: rows × reference rows.
    pub(crate) fn row_weights_at(&self, set: &[bool], x: &QueriedRows, stop: &AtomicBool) -> Result<Weights> {
        let mut weights = self.raw_row_weights_at(&self.system(set, stop)?, set, x, stop)?;
        self.center_conditional(set, &mut weights);
        Ok(weights)
    }

    /// The [`weights`](Self::weights) before centring.
    pub(crate) fn raw_weights(&self, set: &[bool], x: &Table, stop: &AtomicBool) -> Result<Weights> {
        self.raw_weights_of_system(&self.system(set, stop)?, set, x, stop)
    }

    /// The factored system of the blocks in `set`; empty if the solver does not factor systems.
    pub(crate) fn system(&self, set: &[bool], stop: &AtomicBool) -> Result<System> {
        if set.len() != self.learnt().blocks {
            let allowed = format!("give one flag for each of the {} blocks of columns", self.learnt().blocks);
            return Err(Error::parameter("number of conditioning flags", set.len(), allowed));
        }
        let mut system = System::default();
        // Given no blocks, the weights are the weights of the reference rows.
        if let (EmbeddingSolver::Factored(means), true) = (&self.solver, set.contains(&true)) {
            means.prepare(set, &mut system, stop)?;
        }
        Ok(system)
    }

    /// The weights, given the system that the solver has prepared if it factors systems.
    fn weights_of_system(
        &self,
        system: &System,
        set: &[bool],
        x: &Table,
        stop: &AtomicBool,
    ) -> Result<Weights> {
        let mut weights = self.raw_row_weights_of_system(system, set, x, stop)?;
        self.center_conditional(set, &mut weights);
        Ok(weights.transposed())
    }

    /// Centres weights (rows × reference rows) that depend on conditions, if weights are centred.
    fn center_conditional(&self, set: &[bool], weights: &mut Weights) {
        if self.centered && set.contains(&true) {
            self.center_weights(weights);
        }
    }

    pub(crate) fn raw_weights_of_system(
        &self,
        system: &System,
        set: &[bool],
        x: &Table,
        stop: &AtomicBool,
    ) -> Result<Weights> {
        Ok(self.raw_row_weights_of_system(system, set, x, stop)?.transposed())
    }

    fn raw_row_weights_of_system(
        &self,
        system: &System,
        set: &[bool],
        x: &Table,
        stop: &AtomicBool,
    ) -> Result<Weights> {
        let x = match set.contains(&true) {
            true => self.queried_rows(x, stop)?,
            false => QueriedRows { rows: x.align_to(self.learnt().rows.columns())?, conditions: None },
        };
        self.raw_row_weights_at(system, set, &x, stop)
    }

    /// The weights before centring, rows × reference rows.
    fn raw_row_weights_at(
        &self,
        system: &System,
        set: &[bool],
        x: &QueriedRows,
        stop: &AtomicBool,
    ) -> Result<Weights> {
        let EmbeddingData { rows, weights, kernel, .. } = self.learnt();
        let (n, count, u) = (rows.rows(), x.rows.rows(), f64::EPSILON / 2.0);
        if count == 0 || !set.contains(&true) {
            return Ok(Weights {
                matrix: Matrix::from_row_major(count, n, weights.repeat(count)),
                error: vec![0.0; count],
            });
        }
        let units = kernel.rounding_units(rows.width());
        let largest = weights.iter().copied().fold(0.0, f64::max).sqrt();
        let (matrix, error) = match (&self.solver, &x.conditions) {
            (EmbeddingSolver::Factored(means), Some(conditions)) => {
                let mut solved = vec![0.0; means.size() * count];
                let right = means.right_hand_side(conditions, set, system, &mut solved, stop)?;
                means.solve(system, &mut solved, stop)?;
                let lengths = solved.chunks_exact(means.size()).map(|s| dot(s, s).sqrt());
                let error_factor = largest * means.error_amplification(system);
                let errors = lengths.zip(right).map(|(length, right)| {
                    let summing = (means.size() + 4) as f64 * u * length;
                    error_factor * (means.solution_error(system, right, length, units) + summing)
                });
                let row_weights = means.weights(system, 0..n, &solved);
                (Matrix::from_row_major(count, n, row_weights), errors.collect::<Vec<f64>>())
            }
            (EmbeddingSolver::Factored(_), None) => unreachable!("rows were prepared with their conditions"),
            (EmbeddingSolver::Iterative(means), _) => {
                let mut solved = means.solve(&[set], RightHandSides::Kernel(&x.rows), units, stop)?;
                let CgSolution { mut solution, lengths, errors } = solved.swap_remove(0);
                scale_rows(&mut solution, &means.roots);
                let weight_errors =
                    errors.iter().zip(lengths).map(|(error, length)| largest * (error + 4.0 * u * length));
                (Matrix::from_row_major(n, count, solution).transpose(), weight_errors.collect())
            }
        };
        Ok(Weights { matrix, error })
    }

    /// Centres the weights (rows × reference rows): adds 1 minus their sum, times the reference
    /// weights.
    fn center_weights(&self, Weights { matrix, error }: &mut Weights) {
        let (weights, n, u) = (&self.learnt().weights, matrix.cols(), f64::EPSILON / 2.0);
        // The error of the sum of the weights contributes to all weights.
        let amplification = dot(weights, weights).sqrt() * (n as f64).sqrt();
        for (r, error) in error.iter_mut().enumerate() {
            let row = matrix.row_mut(r);
            let missing = row.iter().fold(1.0, |missing, w| missing - w);
            let mut total = 0.0;
            for (w, reference_weight) in row.iter_mut().zip(weights) {
                *w += reference_weight * missing;
                total += w.abs();
            }
            *error += amplification * *error + (n + 4) as f64 * u * (1.0 + total + missing.abs());
        }
    }
}

/// The conditional mean embedding of any quantities of rows, given the rows' conditioning columns.
pub struct ConditionalMean {
    means: ConditionalMeanEmbeddings,
    system: System,
}

impl ConditionalMean {
    /// Fits to the conditioning columns `conditions` of reference rows with weights (by default equal; they
    /// are normalised). A ridge that is chosen from the data is the one that best predicts the columns
    /// `target` of the same rows, under a Gaussian kernel with median length scales. Cost O(n³) for n rows,
    /// O(n m²) for landmarks and features, none for conjugate gradients.
    ///
    /// # Errors
    /// As [`ConditionalMeanEmbeddings::fit`]; [`Error::Shape`] if the target has another number of rows;
    /// [`Error::TooFew`] if a ridge is to be chosen without a target; [`Error::NotPositiveDefinite`] for a
    /// ridge that is too small.
    pub fn fit(
        conditions: &Table,
        weights: Option<&[f64]>,
        target: Option<&Table>,
        conditioning: &Conditioning,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let n = conditions.rows();
        let weights = normalised(weights, n, "reference")?;
        conditioning.check_memory("the conditional mean embedding", n, 0, 0.0)?;
        let kernel = conditioning.kernel.kernel(None, conditions)?;
        let ridge = match (conditioning.ridge, target) {
            (Ridge::Fixed(ridge), _) => ridge,
            (Ridge::CrossValidated, Some(target)) => {
                let (subject, why) =
                    ("the target of the conditional mean embedding", "one per row of the conditions");
                sized(subject, "rows", n, target.rows(), why)?;
                let target_kernel = settings::median_gaussian(target)?;
                let pair = [(conditions, &kernel), (target, &target_kernel)];
                ridge_selection::for_target(pair, &weights, conditioning.seed, stop)?
            }
            (Ridge::CrossValidated, None) => {
                return Err(Error::too_few(
                    "the target that a conditional mean embedding needs to choose its ridge",
                    1,
                    "target column or a given ridge is",
                ));
            }
        };
        let kernel = BlockKernel::new(&kernel, conditions.columns(), &[(0..conditions.width()).collect()]);
        let learnt = EmbeddingData { rows: conditions.clone(), weights, kernel, blocks: 1, ridge };
        let means = ConditionalMeanEmbeddings::new(learnt, conditioning, stop)?;
        let system = means.system(&[true], stop)?;
        Ok(Self { means, system })
    }

    /// The ridge η, as given or chosen.
    pub fn ridge(&self) -> f64 {
        self.means.ridge()
    }

    /// The weights of the reference rows at each row of `x`. Columns are matched by name. Cost for each row
    /// O(n²), for landmarks and features O(n m), for conjugate gradients O(n²) per step.
    ///
    /// # Errors
    /// As [`ConditionalMeanEmbeddings::weights`].
    pub fn weights(&self, x: &Table, stop: &AtomicBool) -> Result<Weights> {
        self.means.weights_of_system(&self.system, &[true], x, stop)
    }
}

/// Weights of `rows` rows, normalised to sum 1; equal weights if none are given. Messages call the rows
/// `name`.
///
/// # Errors
/// [`Error::TooFew`] without rows; [`Error::Shape`] if the number of weights is not the number of rows;
/// [`Error::Parameter`] if a weight is negative or not finite, or all are 0.
pub(crate) fn normalised(weights: Option<&[f64]>, rows: usize, name: &str) -> Result<Vec<f64>> {
    if rows == 0 {
        return Err(Error::too_few(format!("the {name}"), 1, "row is"));
    }
    let Some(weights) = weights else { return Ok(vec![1.0 / rows as f64; rows]) };
    let (list, why) = (format!("the list of {name} weights"), format!("one per {name} row"));
    sized(&list, "numbers", rows, weights.len(), &why)?;
    if let Some(bad) = weights.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
        let allowed = "weights are numbers that are not negative";
        return Err(Error::parameter(format!("{name} weight"), bad, allowed));
    }
    let total: f64 = weights.iter().sum();
    if !(total.is_finite() && total > 0.0) {
        return Err(Error::parameter(format!("sum of the {name} weights"), total, "it is a positive number"));
    }
    Ok(weights.iter().map(|w| w / total).collect())
}
