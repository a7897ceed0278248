//! An outcome at the mediators of a study's rows, as it is believed before any row of it is seen.

use super::solver::{gaps, landmark_factor, mean_share};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix};
use crate::posterior::Functionals;
use crate::table::Table;

/// Its kernel with the outcome's points, and what rows have with each other.
#[derive(Debug, Clone)]
pub(super) struct Arrived {
    with_points: Matrix,
    between: Between,
}

/// The kernel of mediators with each other.
#[derive(Debug, Clone)]
enum Between {
    All(Matrix),
    /// Of so many rows that this is too large: through the outcome's points, and what these leave unexplained of each row, which is its own.
    Points {
        factor: Cholesky,
        gaps: Vec<f64>,
    },
}

impl Arrived {
    /// All pairs of rows, or through the outcome's points.
    pub fn new((points, kernel): (&Table, &Kernel), y: &Table, all: bool) -> Result<Self> {
        let with_points = kernel.cross_gram(points, y);
        if all {
            return Ok(Self { with_points, between: Between::All(kernel.gram(y)) });
        }
        let factor = landmark_factor(kernel.gram(points))?;
        let mut half = with_points.clone();
        factor.solve_lower_in_place(&mut half);
        let gaps = gaps(&half, &kernel.diagonal(y));
        Ok(Self { with_points, between: Between::Points { factor, gaps } })
    }

    /// Points × rows.
    pub fn with_points(&self) -> &Matrix {
        &self.with_points
    }

    /// Of what counts as noise of the outcome at rows, beside so much, the mean share that its points leave unexplained; 0 of all pairs.
    pub fn unexplained(&self, noise: f64) -> f64 {
        match &self.between {
            Between::All(_) => 0.0,
            Between::Points { gaps, .. } => mean_share(gaps, noise),
        }
    }

    /// Functionals of the outcome that count it at rows by weights (functionals × rows), and its constant so often.
    pub fn weighted(&self, weights: &Matrix, constants: &[f64]) -> Functionals {
        let transposed = weights.transpose();
        let columns = self.with_points.matmul(&transposed);
        let prior = match &self.between {
            Between::All(between) => weights.matmul(&between.matmul(&transposed)),
            Between::Points { factor, gaps } => {
                let mut half = columns.clone();
                factor.solve_lower_in_place(&mut half);
                let mut prior = half.transpose_matmul(&half);
                let mut own = transposed;
                for (i, gap) in gaps.iter().enumerate() {
                    let root = gap.sqrt();
                    own.row_mut(i).iter_mut().for_each(|v| *v *= root);
                }
                let own = own.transpose_matmul(&own);
                prior.data_mut().iter_mut().zip(own.data()).for_each(|(v, own)| *v += own);
                prior
            }
        };
        Functionals { columns, prior, constants: constants.to_vec() }
    }
}

/// S and g with `f₀(P)ᵀ S f₀(P) + g` the mean of f₀² over places, P the outcome's points by which it is known but for gaps.
///
/// # Errors
/// As [`landmark_factor`].
pub(super) fn square_of((points, kernel): (&Table, &Kernel), places: &Table) -> Result<(Matrix, f64)> {
    let factor = landmark_factor(kernel.gram(points))?;
    let mut half = kernel.cross_gram(points, places);
    factor.solve_lower_in_place(&mut half);
    let count = places.rows() as f64;
    let gap = gaps(&half, &kernel.diagonal(places)).iter().sum::<f64>() / count;
    factor.solve_upper_in_place(&mut half);
    let mut square = half.matmul(&half.transpose());
    square.data_mut().iter_mut().for_each(|v| *v /= count);
    Ok((square, gap))
}
