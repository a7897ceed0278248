//! Conditional mean embeddings by preconditioned conjugate gradients over all reference rows, without storing
//! their kernel matrix.
//!
//! The system of a set S of blocks is `A = D^½ K_S D^½ + η I`. Its smallest eigenvalue is at least η, so a
//! solution with residual r has an error of at most `‖r‖ / η`. The residual is recomputed when the iteration
//! reports convergence.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::tiles::{Tiles, blocks};
use super::{ConjugateGradients, EmbeddingData};
use crate::control;
use crate::error::{Error, Result};
use crate::linalg::block_cg::{BlockConjugateGradients, lengths};
use crate::linalg::small_dense;
use crate::memory::refill;
use crate::table::Table;

/// Maximum number of restarts when the recomputed residual is too long; more cannot remove rounding errors.
const RESTARTS: usize = 3;

/// Conditional mean embeddings by an iterative solver.
pub(crate) struct IterativeEmbeddings {
    pub(crate) learnt: EmbeddingData,
    settings: ConjugateGradients,
    landmarks: Table,
    /// The square roots of the reference rows' weights.
    pub(crate) roots: Vec<f64>,
}

/// The right-hand sides of the systems.
#[derive(Clone, Copy)]
pub(crate) enum RightHandSides<'r> {
    /// `D^½ k_S(x)` for each row x of a table: the solutions are the weights of the reference rows at x.
    Kernel(&'r Table),
    /// Numbers that do not depend on S, right-hand sides × reference rows.
    Numbers(&'r [f64]),
}

/// Solutions of one system.
pub(crate) struct CgSolution {
    /// The solutions, right-hand sides × reference rows; the right-hand sides of a row are contiguous.
    /// Multiplied by the square roots of the rows' weights, they are the weights of the rows.
    pub(crate) solution: Vec<f64>,
    /// The norms of the solutions.
    pub(crate) lengths: Vec<f64>,
    /// Bounds on the norms of the errors of the solutions.
    pub(crate) errors: Vec<f64>,
}

/// The state of a set's system during the iteration.
struct CgState<'c> {
    set: &'c [bool],
    right: Vec<f64>,
    gradients: BlockConjugateGradients,
    preconditioner: NystromPreconditioner,
    restarts: usize,
    /// Bounds on the errors, set once they are small enough.
    errors: Option<Vec<f64>>,
}

impl IterativeEmbeddings {
    /// Prepares embeddings given any subset of several blocks. Cost O(n) for n reference rows.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a tolerance that is not between 0 and 1, or for 0 iterations.
    pub(crate) fn new(learnt: EmbeddingData, settings: ConjugateGradients, seed: u64) -> Result<Self> {
        if !(settings.tolerance > 0.0 && settings.tolerance < 1.0) {
            return Err(Error::parameter("tolerance", settings.tolerance, "it is between 0 and 1"));
        }
        if settings.iterations == 0 {
            return Err(Error::parameter("iterations", 0, "at least 1"));
        }
        let roots = learnt.roots();
        let landmarks = learnt.landmarks(settings.landmarks, seed);
        Ok(Self { learnt, settings, landmarks, roots })
    }

    /// Description of the approximation for reports.
    pub(crate) fn approximation(&self) -> String {
        format!(
            "none: all reference rows, by conjugate gradients to a tolerance of {:e}",
            self.settings.tolerance
        )
    }

    /// The number of doubles that [`solve`](Self::solve) stores for each system with `count` right-hand
    /// sides.
    pub(crate) fn numbers(&self, count: usize) -> usize {
        (5 * count + self.landmarks.rows()) * self.roots.len()
    }

    /// The right-hand sides for each set of blocks, right-hand sides × reference rows.
    fn right(&self, right: RightHandSides<'_>, sets: &[&[bool]], stop: &AtomicBool) -> Result<Vec<Vec<f64>>> {
        let x = match right {
            RightHandSides::Kernel(x) => x,
            RightHandSides::Numbers(numbers) => return Ok(vec![numbers.to_vec(); sets.len()]),
        };
        let products = &self.learnt.kernel.restricted_to(sets);
        let mut products_by_set = Tiles { products, u: x, v: &self.learnt.rows }.full_products(stop)?;
        products_by_set.iter_mut().for_each(|block| scale_rows(block, &self.roots));
        Ok(products_by_set)
    }

    /// Solves the systems of a batch of sets of blocks for their right-hand sides. Each step visits the pairs
    /// of reference rows once for all sets. A product of factors has at most `units` roundings.
    ///
    /// # Errors
    /// [`Error::NotConverged`] if the tolerance is not reached; [`Error::NotPositiveDefinite`] for kernels
    /// that are not positive definite; [`Error::Interrupted`].
    pub(crate) fn solve(
        &self,
        sets: &[&[bool]],
        right: RightHandSides<'_>,
        units: f64,
        stop: &AtomicBool,
    ) -> Result<Vec<CgSolution>> {
        let mut runs = self.start(sets, self.right(right, sets, stop)?, stop)?;
        for step in 0.. {
            self.check(&mut runs, right, units, stop)?;
            let mut unfinished: Vec<&mut CgState<'_>> =
                runs.iter_mut().filter(|run| run.errors.is_none()).collect();
            if unfinished.is_empty() {
                break;
            }
            let hopeless = |run: &&mut CgState<'_>| run.restarts > RESTARTS || run.gradients.is_stalled();
            if step == self.settings.iterations || unfinished.iter().any(hopeless) {
                let excess =
                    unfinished.iter().flat_map(|run| run.gradients.relative_residuals()).fold(0.0, f64::max);
                return Err(Error::NotConverged {
                    method: "the conjugate gradients for conditional mean embeddings",
                    iterations: step,
                    change: excess * self.settings.tolerance / 2.0,
                    remedy: "raise the ridge or the tolerance, or use more landmarks or iterations",
                });
            }
            let sets: Vec<&[bool]> = unfinished.iter().map(|run| run.set).collect();
            let (directions, images): (Vec<&[f64]>, Vec<&mut Vec<f64>>) = unfinished
                .iter_mut()
                .map(|run| (&run.gradients.directions[..], &mut run.gradients.images))
                .unzip();
            self.multiply(&sets, &directions, images, stop)?;
            let defined: Vec<bool> =
                unfinished.par_iter_mut().map(|run| run.advance(stop)).collect::<Result<_>>()?;
            if defined.contains(&false) {
                let matrix = "kernel matrix of the conditional mean embedding";
                let (size, jitter) = (self.roots.len(), self.learnt.ridge);
                return Err(Error::NotPositiveDefinite { matrix, size, jitter });
            }
        }
        Ok(runs.into_iter().map(CgState::finish).collect())
    }

    /// The initial states.
    fn start<'c>(
        &self,
        sets: &[&'c [bool]],
        rights: Vec<Vec<f64>>,
        stop: &AtomicBool,
    ) -> Result<Vec<CgState<'c>>> {
        let n = self.roots.len();
        let preconditioners = self.preconditioners(sets, stop)?;
        let systems: Vec<_> = sets.iter().zip(rights).zip(preconditioners).collect();
        let run = |((set, block), preconditioner): ((&&'c [bool], Vec<f64>), NystromPreconditioner)| {
            let count = block.len() / n;
            let right = lengths(&block, count);
            // Half of the allowed residual, which leaves room for rounding when the residual is
            // recomputed at the end.
            let targets =
                right.iter().map(|l| 0.5 * self.settings.tolerance * self.learnt.ridge * l).collect();
            let first = |b, count| preconditioner.apply(b, count, stop);
            let gradients = BlockConjugateGradients::new(block, targets, first)?;
            Ok(CgState { set, right, gradients, preconditioner, restarts: 0, errors: None })
        };
        systems.into_par_iter().map(run).collect()
    }

    /// Recomputes the residuals of the states that seem to have converged, and bounds their errors. States
    /// with too large residuals are restarted.
    fn check(
        &self,
        runs: &mut [CgState<'_>],
        right: RightHandSides<'_>,
        units: f64,
        stop: &AtomicBool,
    ) -> Result<()> {
        let mut done: Vec<&mut CgState<'_>> =
            runs.iter_mut().filter(|run| run.errors.is_none() && run.gradients.converged()).collect();
        if done.is_empty() {
            return Ok(());
        }
        let sets: Vec<&[bool]> = done.iter().map(|run| run.set).collect();
        let mut images = vec![Vec::new(); done.len()];
        let solutions: Vec<&[f64]> = done.iter().map(|run| &run.gradients.solution[..]).collect();
        self.multiply(&sets, &solutions, images.iter_mut().collect(), stop)?;
        for ((run, image), mut residual) in done.iter_mut().zip(images).zip(self.right(right, &sets, stop)?) {
            residual.iter_mut().zip(&image).for_each(|(r, i)| *r -= i);
            let residual_norms = lengths(&residual, run.right.len());
            let allowed = |length: &f64| self.settings.tolerance * self.learnt.ridge * length;
            if residual_norms
                .iter()
                .zip(&run.right)
                .all(|(residual_norms, right)| *residual_norms <= allowed(right))
            {
                run.errors = Some(self.errors(run, right, &residual_norms, units));
            } else {
                run.restarts += 1;
                let preconditioner = &run.preconditioner;
                run.gradients.restart(residual, |b, count| preconditioner.apply(b, count, stop))?;
            }
        }
        Ok(())
    }

    /// Bounds on the norms of the solutions' errors, from `residual_norms`, the norms of their residuals.
    /// Computing a residual rounds the right-hand side and sums of n products; the matrix of the products'
    /// magnitudes has a norm of at most its trace.
    fn errors(
        &self,
        run: &CgState<'_>,
        right: RightHandSides<'_>,
        residual_norms: &[f64],
        units: f64,
    ) -> Vec<f64> {
        let (n, u, ridge) = (self.roots.len(), f64::EPSILON / 2.0, self.learnt.ridge);
        let terms = 1.1 * n as f64 + units + 8.0;
        let trace = self.trace(run.set);
        let size = trace + ridge;
        let solution_lengths = lengths(&run.gradients.solution, run.right.len());
        let kernel_lengths = match right {
            RightHandSides::Kernel(x) => self.learnt.kernel.trace_lengths(run.set, trace, x),
            RightHandSides::Numbers(_) => None,
        };
        let small_value_units = |length: f64| match right {
            RightHandSides::Kernel(x) => self.learnt.kernel.small_value_units(x.width(), length),
            RightHandSides::Numbers(_) => 0.0,
        };
        let numbers =
            residual_norms.iter().zip(kernel_lengths.as_ref().unwrap_or(&run.right)).zip(solution_lengths);
        numbers
            .map(|((residual_norms, right), solution_length)| {
                (residual_norms * (1.0 + terms * u)
                    + u * (terms * size * solution_length
                        + (units + small_value_units(*right) + 4.0) * right))
                    / ridge
            })
            .collect()
    }

    /// The trace of `D^½ K_S D^½`.
    pub(crate) fn trace(&self, set: &[bool]) -> f64 {
        let EmbeddingData { rows, weights, kernel, .. } = &self.learnt;
        kernel.restricted_to(&[set]).diagonal(0, rows).zip(weights).map(|(k, w)| w * k.abs()).sum()
    }

    /// Computes `D^½ K_S D^½ b + η b` for each set's block of vectors b.
    fn multiply(
        &self,
        sets: &[&[bool]],
        from: &[&[f64]],
        mut to: Vec<&mut Vec<f64>>,
        stop: &AtomicBool,
    ) -> Result<()> {
        let n = self.roots.len();
        let (products, rows) = (&self.learnt.kernel.restricted_to(sets), &self.learnt.rows);
        let widths: Vec<usize> = from.iter().map(|block| block.len() / n).collect();
        for (to, from) in to.iter_mut().zip(from) {
            refill(to, from.len(), 0.0);
        }
        let tiles = Tiles { products, u: rows, v: rows };
        tiles.for_each_tile(stop, blocks(&mut to, |c| widths[c]), |sums, tile| {
            let width = widths[tile.product];
            let roots = &self.roots[tile.u.clone()];
            scale_entries(tile.numbers, roots);
            let from = &from[tile.product][tile.u.start * width..tile.u.end * width];
            small_dense::add_product(sums[tile.product], from, tile.numbers, width);
        })?;
        to.par_iter_mut().zip(from).zip(&widths).for_each(|((to, from), width)| {
            let rows = to.chunks_exact_mut(*width).zip(from.chunks_exact(*width)).zip(&self.roots);
            for ((to, from), root) in rows {
                to.iter_mut().zip(from).for_each(|(t, f)| *t = *t * root + self.learnt.ridge * f);
            }
        });
        Ok(())
    }

    /// The Nyström preconditioner of each set's system.
    fn preconditioners(&self, sets: &[&[bool]], stop: &AtomicBool) -> Result<Vec<NystromPreconditioner>> {
        let u = &self.landmarks;
        if u.rows() == 0 {
            return Ok(sets.iter().map(|_| NystromPreconditioner::default()).collect());
        }
        let products = &self.learnt.kernel.restricted_to(sets);
        let cross = Tiles { products, u, v: &self.learnt.rows };
        let among = Tiles { v: u, ..cross };
        let matrices: Vec<_> =
            among.full_products(stop)?.into_iter().zip(cross.full_products(stop)?).collect();
        let preconditioner =
            |(among, cross)| NystromPreconditioner::new(among, cross, &self.roots, self.learnt.ridge, stop);
        matrices.into_par_iter().map(preconditioner).collect()
    }
}

impl CgState<'_> {
    fn advance(&mut self, stop: &AtomicBool) -> Result<bool> {
        let preconditioner = &self.preconditioner;
        self.gradients.advance(|b, count| preconditioner.apply(b, count, stop), stop)
    }

    fn finish(self) -> CgSolution {
        let lengths = lengths(&self.gradients.solution, self.right.len());
        let errors = self.errors.unwrap_or_default();
        CgSolution { solution: self.gradients.solution, lengths, errors }
    }
}

/// Nyström preconditioner: `η (Φᵀ Φ + η I)⁻¹` with `Φ = L⁻¹ K(landmarks, rows) D^½` and
/// `K(landmarks, landmarks) = L Lᵀ`. The identity without landmarks, which is the default.
#[derive(Default)]
struct NystromPreconditioner {
    /// The features Φ, landmarks × rows.
    features: Vec<f64>,
    /// The Cholesky factor of `Φ Φᵀ + η I`.
    lower: Vec<f64>,
}

impl NystromPreconditioner {
    /// Builds the preconditioner. It is the identity if the kernel matrix of the landmarks is not positive
    /// definite even with jitter; the iteration then needs more steps.
    fn new(
        among: Vec<f64>,
        mut features: Vec<f64>,
        roots: &[f64],
        ridge: f64,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let m = features.len() / roots.len();
        let mean = (0..m).map(|i| among[i * m + i]).sum::<f64>() / m as f64;
        let whitening = [1e-10, 1e-8, 1e-6].iter().find_map(|jitter| {
            let mut whitening = among.clone();
            (0..m).for_each(|i| whitening[i * m + i] += jitter * mean);
            small_dense::cholesky_in_place(&mut whitening, m).then_some(whitening)
        });
        let Some(whitening) = whitening else { return Ok(Self::default()) };
        control::for_each_chunk(roots.len(), m * m, stop, |part| {
            small_dense::solve_lower_in_place(&whitening, m, &mut features[part.start * m..part.end * m]);
        })?;
        scale_rows(&mut features, roots);
        let mut lower = whitening;
        lower.fill(0.0);
        control::for_each_chunk(roots.len(), m * m, stop, |part| {
            let features = &features[part.start * m..part.end * m];
            small_dense::add_outer_product(&mut lower, features, features, m);
        })?;
        (0..m).for_each(|i| lower[i * m + i] += ridge);
        let defined = small_dense::cholesky_in_place(&mut lower, m);
        Ok(if defined { Self { features, lower } } else { Self::default() })
    }

    /// Computes `b - Φᵀ (Φ Φᵀ + η I)⁻¹ Φ b` for `count` vectors b.
    fn apply(&self, mut block: Vec<f64>, count: usize, stop: &AtomicBool) -> Result<Vec<f64>> {
        let m = (self.lower.len() as f64).sqrt() as usize;
        if m == 0 || count == 0 {
            return Ok(block);
        }
        let n = block.len() / count;
        let mut inner = vec![0.0; m * count];
        control::for_each_chunk(n, m * count, stop, |part| {
            let features = &self.features[part.start * m..part.end * m];
            small_dense::add_outer_product(
                &mut inner,
                features,
                &block[part.start * count..part.end * count],
                m,
            );
        })?;
        small_dense::solve_in_place(&self.lower, m, &mut inner);
        let inner: Vec<f64> = (0..m * count).map(|t| -inner[t / count + t % count * m]).collect();
        control::for_each_chunk(n, m * count, stop, |part| {
            let features = &self.features[part.start * m..part.end * m];
            small_dense::add_product(
                &mut block[part.start * count..part.end * count],
                &inner,
                features,
                count,
            );
        })?;
        Ok(block)
    }
}

/// Multiplies the entries of each vector of a block by their factors.
pub(super) fn scale_entries(block: &mut [f64], factors: &[f64]) {
    for vector in block.chunks_exact_mut(factors.len().max(1)) {
        vector.iter_mut().zip(factors).for_each(|(v, factor)| *v *= factor);
    }
}

/// Multiplies the numbers of each row by its scale.
pub(crate) fn scale_rows(block: &mut [f64], scales: &[f64]) {
    let width = block.len() / scales.len().max(1);
    for (row, scale) in block.chunks_exact_mut(width.max(1)).zip(scales) {
        row.iter_mut().for_each(|v| *v *= scale);
    }
}
