//! Conditional mean embeddings by one factorisation for each set of blocks, which all rows share.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use super::blockwise_kernel::{multiply, split};
use super::cg_embeddings::{scale_entries, scale_rows};
use super::random_fourier::RandomFourierFeatures;
use super::{Approximation, EmbeddingData};
use crate::control;
use crate::error::{Error, Result};
use crate::kernel::Columns;
use crate::linalg::{dot, small_dense};
use crate::table::Table;

/// Number of reference rows in a block of features.
const BLOCK: usize = 512;

/// Conditional mean embeddings by a direct solver, which factors the systems.
pub(crate) struct DirectEmbeddings {
    pub(crate) learnt: EmbeddingData,
    basis: FeatureBasis,
}

/// The basis of the weights.
enum FeatureBasis {
    /// The reference rows, and the cached kernel factors between any two of them, column by column.
    Rows(Option<Vec<Vec<f64>>>),
    /// Some of the reference rows. The kernel's factors are computed for each system, because caching them
    /// for all blocks would take far more memory than the features of one system.
    Landmarks(Table),
    /// Random features. Like landmarks, their arguments are not cached.
    Features(RandomFourierFeatures),
}

/// The factored system of one set of blocks, in memory that is reused.
#[derive(Default)]
pub(crate) struct System {
    /// The Cholesky factor, size × size, column by column.
    lower: Vec<f64>,
    /// Features of the reference rows, size × rows; empty if the reference rows are the features.
    features: Vec<f64>,
    /// The Cholesky factor of the kernel between landmarks.
    whitening: Vec<f64>,
    /// The trace of the system's matrix.
    trace: f64,
}

/// Regressions of some targets, each without one of the reference rows.
pub(crate) struct LeaveOneOut {
    /// For each target, the residual of each row from the regression without it; 0 for rows without weight.
    pub(crate) residuals: Vec<f64>,
    /// For each target t, the scale tᵀ A⁻¹ t / rows that maximises the evidence of a Gaussian process.
    pub(crate) scales: Vec<f64>,
}

/// Rows to condition on, prepared for any set of blocks.
pub(crate) struct ConditioningRows {
    rows: Table,
    /// For each block, the kernel's factor between the conditioning rows and the basis, or for random
    /// features the block's contribution to their arguments.
    cached_factors: Option<Vec<Vec<f64>>>,
}

impl DirectEmbeddings {
    /// Prepares embeddings given any subset of several blocks. Cost O(blocks · n²) for n reference rows; none
    /// for landmarks and features, or for one block.
    ///
    /// # Errors
    /// [`Error::Parameter`] for 0 landmarks or features, or for factors without known spectral densities;
    /// [`Error::Interrupted`].
    pub(crate) fn new(
        learnt: EmbeddingData,
        approximation: Approximation,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let at_least_one = |name: &str, count: usize| match count {
            0 => Err(Error::parameter(name, count, "at least 1")),
            _ => Ok(count),
        };
        let basis = match approximation {
            Approximation::Landmarks(count) => FeatureBasis::Landmarks(
                learnt.landmarks(at_least_one("n_conditional_landmarks", count)?, seed),
            ),
            Approximation::RandomFeatures(count) => {
                let count = at_least_one("n_random_features", count)?;
                FeatureBasis::Features(RandomFourierFeatures::new(&learnt.kernel, count, seed)?)
            }
            _ if learnt.blocks < 2 => FeatureBasis::Rows(None),
            _ => FeatureBasis::Rows(learnt.kernel.cached_factors(&learnt.rows, &learnt.rows, stop)?),
        };
        Ok(Self { basis, learnt })
    }

    /// For each block, the kernel's factor between any two reference rows, if it is cached.
    pub(crate) fn grams(&self) -> Option<&[Vec<f64>]> {
        match &self.basis {
            FeatureBasis::Rows(cached_factors) => cached_factors.as_deref(),
            FeatureBasis::Landmarks(_) | FeatureBasis::Features(_) => None,
        }
    }

    /// Size of a system: the number of reference rows, landmarks or features.
    pub(crate) fn size(&self) -> usize {
        match &self.basis {
            FeatureBasis::Rows(_) => self.learnt.rows.rows(),
            FeatureBasis::Landmarks(landmarks) => landmarks.rows(),
            FeatureBasis::Features(frequencies) => frequencies.count(),
        }
    }

    /// Whether the reference rows are the features.
    pub(crate) fn exact(&self) -> bool {
        matches!(self.basis, FeatureBasis::Rows(_))
    }

    /// Description of the approximation for reports.
    pub(crate) fn approximation(&self) -> String {
        match &self.basis {
            FeatureBasis::Rows(_) => "none: all reference rows".into(),
            FeatureBasis::Landmarks(landmarks) => format!("{} landmarks", landmarks.rows()),
            FeatureBasis::Features(frequencies) => format!("{} random Fourier features", frequencies.count()),
        }
    }

    /// Prepares rows to condition on, for all sets of blocks.
    pub(crate) fn conditions(&self, rows: Table, stop: &AtomicBool) -> Result<ConditioningRows> {
        let cached_factors = match &self.basis {
            FeatureBasis::Rows(_) => self.learnt.kernel.cached_factors(&self.learnt.rows, &rows, stop)?,
            FeatureBasis::Landmarks(landmarks) => {
                self.learnt.kernel.cached_factors(landmarks, &rows, stop)?
            }
            FeatureBasis::Features(frequencies) => Some(frequencies.phases(&rows)),
        };
        Ok(ConditioningRows { rows, cached_factors })
    }

    /// Factors the system of the blocks in `set`.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`] for a ridge that is too small; [`Error::Interrupted`].
    pub(crate) fn prepare(&self, set: &[bool], system: &mut System, stop: &AtomicBool) -> Result<()> {
        let EmbeddingData { rows, kernel, ridge, .. } = &self.learnt;
        let (n, size) = (rows.rows(), self.size());
        control::check_cancelled(stop)?;
        system.lower.resize(size * size, 0.0);
        match &self.basis {
            FeatureBasis::Rows(cached_factors) => {
                let (products, mut memory) = (kernel.restricted_to(&[set]), Default::default());
                let grams = cached_factors.as_deref().map(|grams| split(grams, set, true));
                let roots = self.learnt.roots();
                for j in 0..n {
                    let column = &mut system.lower[j * n + j..(j + 1) * n];
                    match &grams {
                        Some(grams) => multiply(grams, j * n + j..(j + 1) * n, column),
                        None => {
                            products.row(0, Columns::from_row(rows, j), &rows.row(j), &mut memory, column)
                        }
                    }
                    column.iter_mut().zip(&roots[j..]).for_each(|(v, root)| *v *= root * roots[j]);
                    column[0] += ridge;
                }
            }
            FeatureBasis::Landmarks(landmarks) => {
                // Φ = L⁻¹ K(landmarks, rows) with K(landmarks, landmarks) = L Lᵀ.
                let products = kernel.restricted_to(&[set]);
                let System { whitening, .. } = system;
                whitening.resize(size * size, 0.0);
                products.fill(0, landmarks, landmarks, 0..size, whitening);
                let diagonal: f64 = (0..size).map(|i| whitening[i * size + i]).sum::<f64>() / size as f64;
                (0..size).for_each(|i| whitening[i * size + i] += 1e-10 * diagonal);
                if !small_dense::cholesky_until(whitening, size, stop)? {
                    let matrix = "kernel matrix of the landmarks";
                    return Err(Error::NotPositiveDefinite { matrix, size, jitter: 1e-10 * diagonal });
                }
                let whitening = std::mem::take(whitening);
                self.fill_from_features(system, stop, |block, out| {
                    products.fill(0, landmarks, rows, block, out);
                    small_dense::solve_lower_in_place(&whitening, size, out);
                })?;
                system.whitening = whitening;
            }
            FeatureBasis::Features(frequencies) => self.fill_from_features(system, stop, |block, out| {
                let block_rows = rows.select_rows(&block.collect::<Vec<usize>>());
                frequencies.features(&split(&frequencies.phases(&block_rows), set, true), out);
            })?,
        }
        system.trace = (0..size).map(|i| system.lower[i * size + i]).sum();
        if small_dense::cholesky_until(&mut system.lower, size, stop)? {
            return Ok(());
        }
        let matrix = "kernel matrix of the conditional mean embedding";
        Err(Error::NotPositiveDefinite { matrix, size, jitter: *ridge })
    }

    /// Computes `Φ diag(w) Φᵀ + η I` from blocks of the features Φ, which `fill` computes.
    fn fill_from_features(
        &self,
        system: &mut System,
        stop: &AtomicBool,
        fill: impl Fn(Range<usize>, &mut [f64]),
    ) -> Result<()> {
        let size = self.size();
        let mut weighted = Vec::new();
        system.features.resize(size * self.learnt.rows.rows(), 0.0);
        system.lower.fill(0.0);
        for rows in self.blocks() {
            control::check_cancelled(stop)?;
            let block = &mut system.features[rows.start * size..rows.end * size];
            fill(rows.clone(), block);
            weighted.clear();
            weighted.extend_from_slice(block);
            scale_rows(&mut weighted, &self.learnt.weights[rows]);
            small_dense::add_lower_outer_product(&mut system.lower, &weighted, block, size);
        }
        (0..size).for_each(|i| system.lower[i * size + i] += self.learnt.ridge);
        Ok(())
    }

    /// Blocks of reference rows: one block if the reference rows are the features, else blocks of [`BLOCK`]
    /// rows, which limit the memory.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let n = self.learnt.rows.rows();
        let length = if self.exact() { n.max(1) } else { BLOCK };
        (0..n).step_by(length).map(move |start| start..n.min(start + length))
    }

    /// Computes the right-hand side of the system of the blocks in `set`, size × rows. Returns for each row
    /// the norm to which its rounding error is relative.
    pub(crate) fn right_hand_side(
        &self,
        conditions: &ConditioningRows,
        set: &[bool],
        system: &System,
        out: &mut [f64],
        stop: &AtomicBool,
    ) -> Result<Vec<f64>> {
        let (size, EmbeddingData { rows, kernel, .. }) = (self.size(), &self.learnt);
        let cached_factors = conditions.cached_factors.as_deref();
        match &self.basis {
            FeatureBasis::Rows(_) => {
                kernel.fill(cached_factors, set, rows, &conditions.rows, out);
                scale_entries(out, &self.learnt.roots());
            }
            FeatureBasis::Landmarks(landmarks) => {
                kernel.fill(cached_factors, set, landmarks, &conditions.rows, out);
                control::for_each_chunk(conditions.rows.rows(), size * size, stop, |part| {
                    let part = &mut out[part.start * size..part.end * size];
                    small_dense::solve_lower_in_place(&system.whitening, size, part);
                })?;
            }
            FeatureBasis::Features(frequencies) => {
                frequencies.features(&split(cached_factors.unwrap_or_default(), set, true), out);
            }
        }
        let mut lengths: Vec<f64> = out.chunks_exact(size).map(|v| dot(v, v).sqrt()).collect();
        let trace = if self.exact() { system.trace } else { 1.0 };
        if let Some(lengths_bound) = kernel.trace_lengths(set, trace, &conditions.rows) {
            lengths
                .iter_mut()
                .zip(lengths_bound)
                .for_each(|(length, lengths_bound)| *length = length.max(lengths_bound));
        }
        Ok(lengths)
    }

    /// A bound on the norm of the error of a solution, from the norms `right` and `solution` of the
    /// right-hand side and the solution. It adds two parts: the backward error of a Cholesky solution (Higham
    /// 2002, theorem 10.4, with `‖|R|ᵀ|R|‖ ≤ trace`; the smallest eigenvalue is at least η), and the error of
    /// factors with `units` roundings.
    pub(crate) fn solution_error(&self, system: &System, right: f64, solution: f64, units: f64) -> f64 {
        let u = f64::EPSILON / 2.0;
        let backward = ((3 * self.size() + 1) as f64 * 1.1 + units) * system.trace;
        u / self.learnt.ridge * (backward * solution + units * right)
    }

    /// A bound on the ratio of two norms: of the weights of the reference rows, divided by the square roots
    /// of the rows' weights in the data, and of a solution.
    pub(crate) fn error_amplification(&self, system: &System) -> f64 {
        if self.exact() { 1.0 } else { system.trace.sqrt() }
    }

    /// Solves the system in place.
    pub(crate) fn solve(&self, system: &System, b: &mut [f64], stop: &AtomicBool) -> Result<()> {
        let size = self.size();
        control::for_each_chunk(b.len() / size.max(1), size * size, stop, |part| {
            small_dense::solve_in_place(&system.lower, size, &mut b[part.start * size..part.end * size]);
        })
    }

    /// Adds to `out` (size × k) the projection of `by_row` (a block of rows × k) onto the basis. The product
    /// of `by_row` with the weights of the reference rows equals the product of the projection with the
    /// system's solution.
    pub(crate) fn project(&self, system: &System, rows: Range<usize>, by_row: &[f64], out: &mut [f64]) {
        let weights = &self.learnt.weights[rows.clone()];
        let Some(features) = self.features(system, &rows) else {
            for (out, column) in out.chunks_exact_mut(self.size()).zip(by_row.chunks_exact(rows.len())) {
                let entries = out[rows.clone()].iter_mut().zip(column);
                entries.zip(weights).for_each(|((out, v), w)| *out += v * w.sqrt());
            }
            return;
        };
        let mut weighted = by_row.to_vec();
        scale_entries(&mut weighted, weights);
        small_dense::add_product(out, features, &weighted, self.size());
    }

    /// Projects as [`project`](Self::project) does, if the k entries of a row are contiguous (k × a block of
    /// rows). Does nothing if the reference rows are the features.
    pub(crate) fn project_rows(&self, system: &System, rows: Range<usize>, by_row: &[f64], out: &mut [f64]) {
        let Some(features) = self.features(system, &rows) else { return };
        let mut weighted = features.to_vec();
        scale_rows(&mut weighted, &self.learnt.weights[rows]);
        small_dense::add_outer_product(out, &weighted, by_row, self.size());
    }

    /// The weights of a block of reference rows, rows × k, from the solution of the system, size × k.
    pub(crate) fn weights(&self, system: &System, rows: Range<usize>, solved: &[f64]) -> Vec<f64> {
        let weights = &self.learnt.weights[rows.clone()];
        let Some(features) = self.features(system, &rows) else {
            let roots: Vec<f64> = weights.iter().map(|w| w.sqrt()).collect();
            let columns = solved.chunks_exact(self.size());
            return columns
                .flat_map(|column| column[rows.clone()].iter().zip(&roots).map(|(v, root)| v * root))
                .collect();
        };
        let mut out = vec![0.0; solved.len() / self.size() * rows.len()];
        small_dense::add_transposed_product(&mut out, features, solved, self.size());
        scale_entries(&mut out, weights);
        out
    }

    /// Regresses `targets` (reference rows × k) on the features of the system: for each target the residuals
    /// of the regressions without one row each, and the scale of a Gaussian process for the function.
    pub(crate) fn leave_one_out(
        &self,
        system: &System,
        targets: &[f64],
        stop: &AtomicBool,
    ) -> Result<LeaveOneOut> {
        let EmbeddingData { rows, weights, .. } = &self.learnt;
        let (size, n) = (self.size(), rows.rows());
        if !self.exact() {
            return self.leave_one_out_by_features(system, targets, stop);
        }
        // With D the weights: A = K + η D⁻¹ and D^½ A D^½ = L Lᵀ, whose inverse has the squared lengths of
        // the columns of L⁻¹ on its diagonal.
        let mut inverse = vec![0.0; size * size];
        (0..size).for_each(|i| inverse[i * size + i] = 1.0);
        control::for_each_chunk(size, size * size, stop, |part| {
            let part = &mut inverse[part.start * size..part.end * size];
            small_dense::solve_lower_in_place(&system.lower, size, part);
        })?;
        let diagonal: Vec<f64> = inverse.chunks_exact(size).map(|column| dot(column, column)).collect();
        let (roots, mut residuals) = (self.learnt.roots(), targets.to_vec());
        scale_entries(&mut residuals, &roots);
        self.solve(system, &mut residuals, stop)?;
        let mut scales = Vec::new();
        for (target, solved) in targets.chunks_exact(n).zip(residuals.chunks_exact_mut(n)) {
            let form: f64 = (0..n).map(|b| roots[b] * target[b] * solved[b]).sum();
            scales.push(form.max(0.0) / n as f64);
            for (b, v) in solved.iter_mut().enumerate() {
                *v = if weights[b] > 0.0 { *v / (roots[b] * diagonal[b]) } else { 0.0 };
            }
        }
        Ok(LeaveOneOut { residuals, scales })
    }

    /// [`leave_one_out`](Self::leave_one_out) for landmarks and random features.
    fn leave_one_out_by_features(
        &self,
        system: &System,
        targets: &[f64],
        stop: &AtomicBool,
    ) -> Result<LeaveOneOut> {
        let EmbeddingData { rows, weights, ridge, .. } = &self.learnt;
        let (size, n) = (self.size(), rows.rows());
        let mut whitened = system.features.clone();
        control::for_each_chunk(n, size * size, stop, |part| {
            let part = &mut whitened[part.start * size..part.end * size];
            small_dense::solve_lower_in_place(&system.lower, size, part);
        })?;
        let columns = whitened.chunks_exact(size).zip(weights);
        let leverage: Vec<f64> = columns.map(|(column, w)| w * dot(column, column)).collect();
        let mut projected = vec![0.0; size * (targets.len() / n)];
        let mut weighted = targets.to_vec();
        scale_entries(&mut weighted, weights);
        small_dense::add_product(&mut projected, &system.features, &weighted, size);
        let mut solved = projected.clone();
        self.solve(system, &mut solved, stop)?;
        let mut fitted = vec![0.0; targets.len()];
        small_dense::add_transposed_product(&mut fitted, &system.features, &solved, size);
        let (mut residuals, mut scales) = (targets.to_vec(), Vec::new());
        for (k, residuals) in residuals.chunks_exact_mut(n).enumerate() {
            let (target, range) = (&targets[k * n..(k + 1) * n], k * size..(k + 1) * size);
            let total: f64 = target.iter().zip(weights).map(|(t, w)| w * t * t).sum();
            let explained = dot(&projected[range.clone()], &solved[range]);
            scales.push((total - explained).max(0.0) / (ridge * n as f64));
            for (b, v) in residuals.iter_mut().enumerate() {
                *v = (*v - fitted[k * n + b]) / (1.0 - leverage[b]).max(f64::EPSILON);
            }
        }
        Ok(LeaveOneOut { residuals, scales })
    }

    /// For the regression function at the conditioning row `i`, under a Gaussian process with the kernel k:
    /// the variance of the smoothing error, `k(x, x) - 2 Wᵀ k(x) + Wᵀ K W` with weights W; and the share of
    /// the prior variance that the reference rows leave unexplained, `1 - Wᵀ k(x) / k(x, x)`. `right` and
    /// `solved` are the row's right-hand side and solution of the system.
    pub(crate) fn unexplained_variance(
        &self,
        set: &[bool],
        conditions: &ConditioningRows,
        i: usize,
        (right, solved): (&[f64], &[f64]),
    ) -> (f64, f64) {
        let EmbeddingData { kernel, ridge, .. } = &self.learnt;
        let (x, mut prior) = (conditions.rows.select_rows(&[i]), [0.0]);
        kernel.restricted_to(&[set]).fill(0, &x, &x, 0..1, &mut prior);
        let (explained, noise) = (dot(right, solved), ridge * dot(solved, solved));
        let (smoothing, posterior) = match &self.basis {
            FeatureBasis::Rows(_) => (prior[0] - explained - noise, prior[0] - explained),
            _ => {
                // Features explain only the variance of their own kernel.
                let outside = match &self.basis {
                    FeatureBasis::Landmarks(_) => (prior[0] - dot(right, right)).max(0.0),
                    _ => 0.0,
                };
                (ridge * noise + outside, ridge * explained + outside)
            }
        };
        (smoothing.max(0.0), (posterior / prior[0]).clamp(0.0, 1.0))
    }

    /// The features of a block of reference rows; `None` if the reference rows are the features.
    fn features<'s>(&self, system: &'s System, rows: &Range<usize>) -> Option<&'s [f64]> {
        let size = self.size();
        (!self.exact()).then(|| &system.features[rows.start * size..rows.end * size])
    }
}

impl ConditioningRows {
    /// Writes the products of the cached factors of the blocks in `set` between reference rows and
    /// conditioning rows.
    pub(crate) fn kernel_products(&self, set: &[bool], out: &mut [f64]) {
        multiply(&split(self.cached_factors.as_deref().unwrap_or_default(), set, true), 0..out.len(), out);
    }
}
