//! Block conjugate gradients: several right-hand sides of one symmetric positive definite system share their
//! search directions. A hundred right-hand sides then take a few steps where one takes dozens. Directions are
//! made orthonormal, and linearly dependent directions are left out, so that steps do not break down (Ji and
//! Li 2017, after O'Leary 1980).
//!
//! The caller multiplies by the matrix. A block of k vectors of length n is stored as k × n, column by
//! column: the k numbers of a row are contiguous.

use std::sync::atomic::AtomicBool;

use super::pivoted::pivoted_cholesky;
use super::small_dense::{
    add_outer_product, add_product, cholesky_in_place, solve_in_place, solve_lower_in_place,
};
use crate::control;
use crate::error::Result;

/// A direction is left out if the squared norm of its part orthogonal to the others is below this fraction of
/// its squared norm.
const DEPENDENT: f64 = 1e-10;

/// Right-hand sides of one system, with the current solutions and residuals.
#[derive(Debug, Clone)]
pub struct BlockConjugateGradients {
    /// The number of right-hand sides.
    count: usize,
    /// Current solutions, count × n.
    pub solution: Vec<f64>,
    /// Current residuals, count × n.
    pub residual: Vec<f64>,
    /// The residual length at which each right-hand side has converged.
    pub targets: Vec<f64>,
    /// Orthonormal search directions, directions × n.
    pub directions: Vec<f64>,
    /// The products of the directions with the matrix, directions × n.
    pub images: Vec<f64>,
}

impl BlockConjugateGradients {
    /// Starts from zero solutions. `right` holds the right-hand sides, count × n, and `targets` the residual
    /// lengths at which they have converged. `precondition` takes residuals and their number, and returns
    /// approximate errors.
    pub fn new(
        right: Vec<f64>,
        targets: Vec<f64>,
        precondition: impl FnOnce(Vec<f64>, usize) -> Result<Vec<f64>>,
    ) -> Result<Self> {
        let (count, solution) = (targets.len(), vec![0.0; right.len()]);
        let (directions, images) = (Vec::new(), Vec::new());
        let mut run = Self { count, solution, residual: Vec::new(), targets, directions, images };
        run.restart(right, precondition)?;
        Ok(run)
    }

    /// The lengths of the residuals divided by their targets.
    pub fn relative_residuals(&self) -> impl Iterator<Item = f64> {
        let lengths = lengths(&self.residual, self.count).into_iter();
        lengths.zip(&self.targets).map(|(l, t)| if l == 0.0 { 0.0 } else { l / t })
    }

    /// Restarts from recomputed residuals.
    pub fn restart(
        &mut self,
        residual: Vec<f64>,
        precondition: impl FnOnce(Vec<f64>, usize) -> Result<Vec<f64>>,
    ) -> Result<()> {
        self.residual = residual;
        let (active, count) = self.active();
        self.directions = precondition(active, count)?;
        self.images.clear();
        orthonormalise(&mut self.directions, count);
        Ok(())
    }

    /// Makes one step along the directions, whose products with the matrix are known. The new directions are
    /// `precondition` applied to the residuals that are still too long. Returns false if the matrix is not
    /// positive definite along the directions.
    ///
    /// # Errors
    /// The errors of `precondition`; [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn advance(
        &mut self,
        precondition: impl FnOnce(Vec<f64>, usize) -> Result<Vec<f64>>,
        stop: &AtomicBool,
    ) -> Result<bool> {
        let n = self.solution.len() / self.count.max(1);
        let (r, s) = (self.count, self.directions.len() / n.max(1));
        if s == 0 {
            return Ok(true);
        }
        let mut curvature = vec![0.0; s * s];
        add_outer_product(&mut curvature, &self.directions, &self.images, s);
        if !cholesky_in_place(&mut curvature, s) {
            return Ok(false);
        }
        control::check_cancelled(stop)?;
        let mut step = vec![0.0; s * r];
        add_outer_product(&mut step, &self.directions, &self.residual, s);
        solve_in_place(&curvature, s, &mut step);
        let mut step = transposed(&step, s);
        control::check_cancelled(stop)?;
        add_product(&mut self.solution, &step, &self.directions, r);
        step.iter_mut().for_each(|v| *v = -*v);
        control::check_cancelled(stop)?;
        add_product(&mut self.residual, &step, &self.images, r);
        let (active, count) = self.active();
        let mut next = precondition(active, count)?;
        if count > 0 {
            let mut mix = vec![0.0; s * count];
            add_outer_product(&mut mix, &self.images, &next, s);
            solve_in_place(&curvature, s, &mut mix);
            let mut mix = transposed(&mix, s);
            mix.iter_mut().for_each(|v| *v = -*v);
            control::check_cancelled(stop)?;
            add_product(&mut next, &mix, &self.directions, count);
        }
        self.directions = next;
        control::check_cancelled(stop)?;
        orthonormalise(&mut self.directions, count);
        Ok(true)
    }

    /// Whether every residual is at most as long as its target.
    pub fn converged(&self) -> bool {
        self.relative_residuals().all(|e| e <= 1.0)
    }

    /// Whether no search direction is left.
    pub fn is_stalled(&self) -> bool {
        self.directions.is_empty()
    }

    /// The residuals that are longer than their targets, and their number.
    fn active(&self) -> (Vec<f64>, usize) {
        let long: Vec<usize> = self
            .relative_residuals()
            .enumerate()
            .filter(|(_, e)| *e > 1.0 || e.is_nan())
            .map(|(i, _)| i)
            .collect();
        let rows = self.residual.chunks_exact(self.count.max(1));
        (rows.flat_map(|row| long.iter().map(|&i| row[i])).collect(), long.len())
    }
}

/// The lengths of the `count` vectors in `block`.
pub fn lengths(block: &[f64], count: usize) -> Vec<f64> {
    let mut squares = vec![0.0; count];
    for row in block.chunks_exact(count.max(1)) {
        squares.iter_mut().zip(row).for_each(|(s, v)| *s += v * v);
    }
    squares.into_iter().map(f64::sqrt).collect()
}

/// Transposes a block of s × r to r × s.
fn transposed(block: &[f64], s: usize) -> Vec<f64> {
    let r = block.len() / s.max(1);
    (0..s * r).map(|t| block[t / r + t % r * s]).collect()
}

/// Replaces `count` vectors by an orthonormal basis of their span, without nearly dependent vectors. It
/// applies the inverse of the pivoted Cholesky factor of their Gram matrix to the vectors with pivots.
fn orthonormalise(block: &mut Vec<f64>, count: usize) {
    let mut scales: Vec<f64> = lengths(block, count);
    scales.iter_mut().for_each(|l| *l = if *l > 0.0 && l.is_finite() { 1.0 / *l } else { 0.0 });
    block
        .chunks_exact_mut(count.max(1))
        .for_each(|row| row.iter_mut().zip(&scales).for_each(|(v, s)| *v *= s));
    let mut gram = vec![0.0; count * count];
    add_outer_product(&mut gram, block, &block.clone(), count);
    let pivots =
        pivoted_cholesky(&gram, count, |residual_diagonal, pivot| residual_diagonal[pivot] <= DEPENDENT);
    let s = pivots.len();
    let mut lower = vec![0.0; s * s];
    for (k, (column, (_, pivot_column))) in lower.chunks_exact_mut(s.max(1)).zip(&pivots).enumerate() {
        (k..s).for_each(|i| column[i] = pivot_column[pivots[i].0]);
    }
    let kept: Vec<f64> =
        block.chunks_exact(count.max(1)).flat_map(|row| pivots.iter().map(|(i, _)| row[*i])).collect();
    *block = kept;
    solve_lower_in_place(&lower, s, block);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Right-hand sides that are equal, zero or dependent are solved, with and without a preconditioner.
    #[test]
    fn right_sides_that_depend_on_each_other_are_solved() {
        let n = 60;
        let entry = |i: usize, j: usize| {
            let difference = (i as f64 - j as f64) / 9.0;
            (-difference * difference).exp() + if i == j { 1e-3 + i as f64 / n as f64 } else { 0.0 }
        };
        let matrix: Vec<f64> = (0..n * n).map(|t| entry(t % n, t / n)).collect();
        let entry_of_vector = |i: usize, c: usize| ((i * (c + 3)) as f64).sin();
        let right: Vec<f64> = (0..n)
            .flat_map(|i| {
                [
                    entry_of_vector(i, 0),
                    entry_of_vector(i, 1),
                    entry_of_vector(i, 0),
                    0.0,
                    entry_of_vector(i, 0) - 2.0 * entry_of_vector(i, 1),
                    1e-9 * entry_of_vector(i, 4),
                ]
            })
            .collect();
        for diagonal in [false, true] {
            let precondition = |block: Vec<f64>, count: usize| -> Result<Vec<f64>> {
                let divide =
                    |(t, v): (usize, f64)| if diagonal { v / entry(t / count, t / count) } else { v };
                Ok(block.into_iter().enumerate().map(divide).collect())
            };
            let targets: Vec<f64> = lengths(&right, 6).into_iter().map(|l| 1e-10 * l).collect();
            let mut run = BlockConjugateGradients::new(right.clone(), targets, precondition).unwrap();
            let mut steps = 0;
            while !run.converged() {
                let (directions, images) = (&run.directions, &mut run.images);
                let s = directions.len() / n;
                *images = vec![0.0; s * n];
                add_product(images, directions, &matrix, s);
                assert!(s <= 3 && run.advance(precondition, &AtomicBool::new(false)).unwrap());
                steps += 1;
                assert!(steps < 60, "{:?}", run.relative_residuals().collect::<Vec<f64>>());
            }
            assert!(steps > 3);
            let mut residual = right.iter().map(|v| -v).collect::<Vec<f64>>();
            add_product(&mut residual, &run.solution, &matrix, 6);
            let residuals = lengths(&residual, 6);
            assert!(residuals.iter().zip(lengths(&right, 6)).all(|(o, r)| *o <= 2e-10 * r), "{residuals:?}");
        }
    }

    #[test]
    fn a_matrix_that_is_not_definite_is_noticed() {
        let mut run = BlockConjugateGradients::new(vec![1.0, 1.0], vec![1e-9], |block, _| Ok(block)).unwrap();
        let (directions, images) = (&run.directions, &mut run.images);
        *images = directions.iter().map(|v| -v).collect();
        assert!(!run.advance(|block, _| Ok(block), &AtomicBool::new(false)).unwrap());
    }
}
