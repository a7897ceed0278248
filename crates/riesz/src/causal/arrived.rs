//! An outcome at the mediators of a study's rows, as it is believed before any row of it is seen.

use super::low_rank::LowRank;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::Matrix;
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
    /// Of so many rows that this is too large: through the outcome's points.
    Points(LowRank),
}

impl Arrived {
    /// All pairs of rows, or through the outcome's points.
    pub fn new((points, kernel): (&Table, &Kernel), y: &Table, all: bool) -> Result<Self> {
        let with_points = kernel.cross_gram(points, y);
        if all {
            return Ok(Self { with_points, between: Between::All(kernel.gram(y)) });
        }
        let (low, _) = LowRank::new(kernel.gram(points), with_points.clone(), &kernel.diagonal(y))?;
        Ok(Self { with_points, between: Between::Points(low) })
    }

    /// Points × rows.
    pub fn with_points(&self) -> &Matrix {
        &self.with_points
    }

    /// Of what counts as noise of the outcome at rows, beside so much, the mean share that its points leave
    /// unexplained; 0 of all pairs.
    pub fn unexplained(&self, noise: f64) -> f64 {
        match &self.between {
            Between::All(_) => 0.0,
            Between::Points(low) => low.mean_share(noise),
        }
    }

    /// Functionals of the outcome that count it at rows by weights (functionals × rows), and its constant so
    /// often.
    pub fn weighted(&self, weights: &Matrix, constants: &[f64]) -> Functionals {
        let transposed = weights.transpose();
        let columns = self.with_points.matmul(&transposed);
        let prior = match &self.between {
            Between::All(between) => weights.matmul(&between.matmul(&transposed)),
            Between::Points(low) => low.around(weights, &columns),
        };
        Functionals { columns, prior, constants: constants.to_vec() }
    }
}

/// S and g with `f₀(P)ᵀ S f₀(P) + g` the mean of f₀² over places, P the outcome's points by which it is known
/// but for gaps.
///
/// # Errors
/// As [`LowRank::new`].
pub(super) fn square_of((points, kernel): (&Table, &Kernel), places: &Table) -> Result<(Matrix, f64)> {
    let with_places = kernel.cross_gram(points, places);
    let (low, mut half) = LowRank::new(kernel.gram(points), with_places, &kernel.diagonal(places))?;
    let count = places.rows() as f64;
    let gap = low.gaps.iter().sum::<f64>() / count;
    low.factor.solve_upper_in_place(&mut half);
    let mut square = half.matmul(&half.transpose());
    square.data_mut().iter_mut().for_each(|v| *v /= count);
    Ok((square, gap))
}
