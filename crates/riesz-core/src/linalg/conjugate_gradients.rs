//! Preconditioned conjugate gradients for one right-hand side (Hestenes and Stiefel 1952), over any type of
//! vector. For several right-hand sides of one system see [block conjugate gradients](super::block_cg).

use crate::error::Result;
use crate::linalg::{add_multiple, dot};

/// A vector of a space with an inner product.
pub trait InnerProductSpace: Clone {
    /// Returns the inner product of two vectors.
    fn inner_product(&self, other: &Self) -> f64;

    /// Adds `factor` times another vector.
    fn add_scaled(&mut self, factor: f64, other: &Self);
}

impl InnerProductSpace for Vec<f64> {
    fn inner_product(&self, other: &Self) -> f64 {
        dot(self, other)
    }

    fn add_scaled(&mut self, factor: f64, other: &Self) {
        add_multiple(self, factor, other);
    }
}

/// The norm of the residual r that decides about convergence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResidualNorm {
    /// `√(rᵀr)`.
    Euclidean,
    /// `√(rᵀMr)` with the preconditioner M, an approximate inverse of the matrix.
    Preconditioned,
}

/// Conditions on which the iteration ends.
#[derive(Debug, Clone, Copy)]
pub struct StoppingRule {
    /// The norm of the residual.
    pub norm: ResidualNorm,
    /// Largest norm of the residual at convergence, relative to the right-hand side's norm.
    pub tolerance: f64,
    /// The largest number of products with the matrix.
    pub max_products: usize,
}

/// The condition on which an iteration ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CgOutcome {
    /// The residual is within the tolerance.
    Converged,
    /// A direction d with `dᵀHd ≤ 0` was found, or one that is not a number.
    NotPositiveDefinite,
    /// The maximal number of products was reached.
    TooManyProducts {
        /// The residual's norm relative to the right-hand side's norm.
        residual: f64,
    },
}

/// An approximate solution of `H x = b`.
pub struct CgSolution<V> {
    /// x.
    pub x: V,
    /// The number of products with H.
    pub products: usize,
    /// The condition on which the iteration ended.
    pub outcome: CgOutcome,
}

/// Solves `H x = b` for a symmetric positive definite H that is given by `times`, its product with a vector.
/// The iteration starts at `zero`.
///
/// # Errors
/// Those of `times`.
pub fn conjugate_gradients<V: InnerProductSpace>(
    mut times: impl FnMut(&V) -> Result<V>,
    precondition: impl Fn(&V) -> V,
    b: &V,
    zero: V,
    rule: StoppingRule,
) -> Result<CgSolution<V>> {
    let (mut x, mut residual) = (zero, b.clone());
    let mut direction = precondition(&residual);
    let mut size = residual.inner_product(&direction);
    let square = |residual: &V, size: f64| match rule.norm {
        ResidualNorm::Euclidean => residual.inner_product(residual),
        ResidualNorm::Preconditioned => size,
    };
    let initial = square(&residual, size);
    let target = (rule.tolerance * rule.tolerance * initial).max(f64::MIN_POSITIVE);
    for products in 0..rule.max_products {
        if square(&residual, size) <= target {
            return Ok(CgSolution { x, products, outcome: CgOutcome::Converged });
        }
        let image = times(&direction)?;
        let curvature = direction.inner_product(&image);
        if curvature.is_nan() || curvature <= 0.0 {
            return Ok(CgSolution { x, products, outcome: CgOutcome::NotPositiveDefinite });
        }
        let step = size / curvature;
        x.add_scaled(step, &direction);
        residual.add_scaled(-step, &image);
        let mut next_direction = precondition(&residual);
        let next_size = residual.inner_product(&next_direction);
        next_direction.add_scaled(next_size / size, &direction);
        (direction, size) = (next_direction, next_size);
    }
    let outcome = CgOutcome::TooManyProducts { residual: (square(&residual, size) / initial).sqrt() };
    Ok(CgSolution { x, products: rule.max_products, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::Matrix;

    /// A 3 × 3 system with a known solution takes three products; an indefinite matrix is reported.
    #[test]
    fn solves_a_system_in_as_many_products_as_it_has_rows() {
        let matrix = Matrix::from_row_major(3, 3, vec![4.0, 1.0, 0.5, 1.0, 3.0, -1.0, 0.5, -1.0, 2.0]);
        let solution = vec![1.0, -2.0, 0.25];
        let b = matrix.matvec(&solution);
        let rule = StoppingRule { norm: ResidualNorm::Euclidean, tolerance: 1e-12, max_products: 4 };
        let jacobi = |r: &Vec<f64>| r.iter().enumerate().map(|(i, r)| r / matrix[(i, i)]).collect();
        let times = |v: &Vec<f64>| Ok(matrix.matvec(v));
        let solved = conjugate_gradients(times, jacobi, &b, vec![0.0; 3], rule).unwrap();
        assert_eq!((solved.products, solved.outcome), (3, CgOutcome::Converged));
        assert!(solved.x.iter().zip(&solution).all(|(x, s)| (x - s).abs() < 1e-12), "{:?}", solved.x);
        let short_rule = StoppingRule { max_products: 2, ..rule };
        let solved = conjugate_gradients(times, jacobi, &b, vec![0.0; 3], short_rule).unwrap();
        assert!(matches!(solved.outcome, CgOutcome::TooManyProducts { residual } if residual > 0.0));
        let negative = |v: &Vec<f64>| Ok(v.iter().map(|v| -v).collect());
        let solved = conjugate_gradients(negative, Clone::clone, &b, vec![0.0; 3], rule).unwrap();
        assert_eq!(solved.outcome, CgOutcome::NotPositiveDefinite);
    }
}
