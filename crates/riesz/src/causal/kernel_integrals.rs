//! Integrals of kernels over a measure ν of mediators, which the published posteriors use: `r(a, b) = ∫ k(a,
//! u) k(u, b) dν(u)` and longer chains.

use crate::error::{Result, unused};
use crate::kernel::{ColumnScaling, Kernel};
use crate::linalg::{Matrix, dot, mean};
use crate::table::Table;

/// The measure ν over which mediators are integrated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MediatorMeasure {
    /// The mediators of both studies with equal weights; for any kernel.
    Rows,
    /// A normal density with the means and standard deviations of the columns, times a mass; for a Gaussian
    /// kernel of numeric columns. The source's `exp(-u²/2η²) du` has the mass `√(2π) η`.
    Normal {
        /// Total mass of ν.
        mass: f64,
    },
}

/// A kernel with the measure for its integrals.
pub(super) enum KernelIntegrals<'k> {
    Rows { kernel: &'k Kernel, points: Table, weighted: Matrix },
    Normal { scale: f64, mass: f64, columns: Vec<Normal> },
}

/// Mean and standard deviation of ν in a column, and the kernel's length scale.
pub(super) struct Normal {
    column: usize,
    center: f64,
    sd: f64,
    length_scale: f64,
}

impl Normal {
    /// Returns the chain of p ≤ 3 integrals over N(0, η²), for u and v measured from the centre: `η^-p |T|^-½
    /// exp(½ bᵀT⁻¹b - (u² + v²)/2ℓ²)`. Here T (p × p) is tridiagonal with 2/ℓ² + 1/η² and -1/ℓ², and b = (u,
    /// 0, .., 0, v)/ℓ².
    fn chain(&self, u: f64, v: f64, p: usize) -> f64 {
        let (l2, e2) = (self.length_scale.powi(2), self.sd.powi(2));
        let (diagonal, off_diagonal) = (2.0 / l2 + 1.0 / e2, -1.0 / l2);
        let minor = diagonal * diagonal - off_diagonal * off_diagonal;
        // |T| and the corners of T⁻¹.
        let (det, inverse_diagonal, corner) = match p {
            1 => (diagonal, 1.0 / diagonal, 1.0 / diagonal),
            2 => (minor, diagonal / minor, -off_diagonal / minor),
            _ => {
                let det = diagonal * (diagonal * diagonal - 2.0 * off_diagonal * off_diagonal);
                (det, minor / det, off_diagonal * off_diagonal / det)
            }
        };
        let (u, v) = (u - self.center, v - self.center);
        let inner = (inverse_diagonal * (u * u + v * v) + 2.0 * corner * u * v) / (l2 * l2);
        (0.5 * inner - 0.5 * (u * u + v * v) / l2).exp() / (det * e2.powi(p as i32)).sqrt()
    }
}

impl<'k> KernelIntegrals<'k> {
    pub fn new(measure: MediatorMeasure, kernel: &'k Kernel, points: Table) -> Result<Self> {
        let MediatorMeasure::Normal { mass } = measure else {
            let share = 1.0 / points.rows() as f64;
            let mut weighted = kernel.gram(&points);
            weighted.scale(share);
            return Ok(Self::Rows { kernel, points, weighted });
        };
        crate::checks::positive("mass", mass)?;
        let gaussian = only(&kernel.terms).and_then(|term| {
            let factor =
                only(&term.factors).filter(|factor| factor.declaration().names.contains(&"gaussian"))?;
            let (_, length_scale) =
                factor.values().0.into_iter().find(|(name, _)| *name == "length_scale")?;
            Some((term.scale, factor.columns(), length_scale))
        });
        let Some((scale, columns, length_scale)) = gaussian else {
            let belongs = "Gaussian kernels of numeric columns: use the measure of rows";
            return Err(unused("a normal measure", belongs));
        };
        let units = ColumnScaling::standardised(&points);
        let normals = columns.iter().zip(length_scale).map(|(&column, length_scale)| {
            let values = points.column(column);
            let center = mean(values);
            Normal { column, center, sd: units.scale[column], length_scale }
        });
        Ok(Self::Normal { scale, mass, columns: normals.collect() })
    }

    /// Returns `∫ .. ∫ k(a, u₁) k(u₁, u₂) .. k(u_p, b) dν(u₁) .. dν(u_p)` for rows a and b, p from 1 to 3.
    pub fn chain(&self, a: &Table, b: &Table, p: usize) -> Matrix {
        match self {
            Self::Rows { kernel, points, weighted } => {
                let mut product = kernel.cross_gram(a, points);
                for _ in 1..p {
                    product = product.matmul(weighted);
                }
                let share = 1.0 / points.rows() as f64;
                product.scale(share);
                product.matmul(&kernel.cross_gram(points, b))
            }
            Self::Normal { scale, mass, columns } => {
                let scale_factor = scale.powi(p as i32 + 1) * mass.powi(p as i32);
                let integral = |i: usize, j: usize| {
                    let column_integrals = columns
                        .iter()
                        .map(|normal| normal.chain(a.get(i, normal.column), b.get(j, normal.column), p));
                    scale_factor * column_integrals.product::<f64>()
                };
                Matrix::from_fn(a.rows(), b.rows(), integral)
            }
        }
    }

    /// Returns `∬ k² dν dν`.
    pub fn square(&self) -> f64 {
        match self {
            Self::Rows { weighted, .. } => dot(weighted.data(), weighted.data()),
            Self::Normal { scale, mass, columns } => {
                let integral =
                    |normal: &Normal| 1.0 / (1.0 + 4.0 * (normal.sd / normal.length_scale).powi(2)).sqrt();
                (scale * mass).powi(2) * columns.iter().map(integral).product::<f64>()
            }
        }
    }
}

/// Returns the element of a slice that has exactly one.
fn only<T>(items: &[T]) -> Option<&T> {
    if let [item] = items { Some(item) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with sums over a fine grid.
    #[test]
    fn normal_chains_equal_sums_over_a_grid() {
        let points = Table::from_rows(&[[-1.3], [0.4], [2.0], [0.1]]).unwrap();
        let kernel = 1.7 * Kernel::gaussian(&[0.8]);
        let integrals =
            KernelIntegrals::new(MediatorMeasure::Normal { mass: 2.5 }, &kernel, points.clone()).unwrap();
        let KernelIntegrals::Normal { columns, .. } = &integrals else { panic!("not normal") };
        let (center, sd) = (columns[0].center, columns[0].sd);
        let step = 0.05;
        let grid: Vec<[f64; 1]> = (0..320).map(|i| [-8.0 + step * f64::from(i)]).collect();
        let weight = |u: f64| {
            let z = (u - center) / sd;
            2.5 * step * (-0.5 * z * z).exp() / (sd * std::f64::consts::TAU.sqrt())
        };
        let u = Table::from_rows(&grid).unwrap();
        let mut gram = kernel.gram(&u);
        for i in 0..grid.len() {
            gram.row_mut(i).iter_mut().zip(&grid).for_each(|(v, u)| *v *= weight(u[0]));
        }
        let mut weighted_chain = kernel.cross_gram(&points, &u);
        for i in 0..4 {
            weighted_chain.row_mut(i).iter_mut().zip(&grid).for_each(|(v, u)| *v *= weight(u[0]));
        }
        for p in 1..=3 {
            let expected = weighted_chain.matmul(&kernel.cross_gram(&u, &points));
            let actual = integrals.chain(&points, &points, p);
            let errors = actual.data().iter().zip(expected.data()).map(|(a, b)| (a - b).abs());
            assert!(errors.fold(0.0, f64::max) < 1e-9, "{p}");
            weighted_chain = weighted_chain.matmul(&gram);
        }
        let k = kernel.gram(&u);
        let sum: f64 = (0..grid.len())
            .flat_map(|i| (0..grid.len()).map(move |j| (i, j)))
            .map(|(i, j)| gram[(i, j)] * k[(i, j)] * weight(grid[i][0]))
            .sum();
        assert!((sum - integrals.square()).abs() < 1e-9);
        let sum = Kernel::gaussian(&[1.0]) + Kernel::constant(1.0);
        assert!(KernelIntegrals::new(MediatorMeasure::Normal { mass: 1.0 }, &sum, points).is_err());
    }
}
