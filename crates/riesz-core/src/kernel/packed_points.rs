//! Rows in a layout for computing many kernel values between them, as iterative solvers need.

use std::borrow::Cow;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::fast_distances::{DistanceByProducts, Row};
use super::{Columns, Kernel};
use crate::control::check_cancelled;
use crate::error::Result;
use crate::simd::{Isa, add_scaled};
use crate::table::Table;

/// Rows of one side that are computed together.
const GROUP: usize = 16;
/// Rows of the other side that are computed together: a tile stays in a core's cache.
const RUN: usize = 256;

/// Rows and their kernel. A value is the same in every selection of rows. It has the same bits as
/// [`Kernel::eval`], unless most numbers equal their column's majority value; then values near 1 differ by at
/// most 1e-11.
pub struct Points<'k> {
    kernel: &'k Kernel,
    isa: Isa,
    layout: Layout<'k>,
}

enum Layout<'k> {
    /// Column by column.
    Columns(Cow<'k, Table>),
    MostlyEqual(DistanceByProducts),
}

impl<'k> Points<'k> {
    /// Lays out the rows of `x`. Cost O(n d).
    pub fn new(kernel: &'k Kernel, x: &'k Table) -> Self {
        let layout =
            DistanceByProducts::new(kernel, x).map_or(Layout::Columns(Cow::Borrowed(x)), Layout::MostlyEqual);
        Self { kernel, isa: Isa::detect(), layout }
    }

    /// The number of points.
    pub fn len(&self) -> usize {
        match &self.layout {
            Layout::Columns(x) => x.rows(),
            Layout::MostlyEqual(x) => x.rows(),
        }
    }

    /// The points with the indices `rows`, in this order.
    pub fn select(&self, rows: &[usize]) -> Self {
        let layout = match &self.layout {
            Layout::Columns(x) => Layout::Columns(Cow::Owned(x.select_rows(rows))),
            Layout::MostlyEqual(x) => Layout::MostlyEqual(x.select(rows)),
        };
        Self { layout, ..*self }
    }

    fn row(&self, i: usize) -> Row {
        match &self.layout {
            Layout::Columns(x) => Row { nonzeros: Vec::new(), numbers: x.row(i), norm: 0.0 },
            Layout::MostlyEqual(x) => x.row(i),
        }
    }

    /// Kernel values of `len` points from `start` on, as in [`Kernel::tile`]; `start` is a multiple of
    /// [`RUN`].
    fn tile(&self, start: usize, len: usize, v: &[Row], out: &mut [f64], stride: usize) {
        match &self.layout {
            Layout::Columns(x) => {
                let v: Vec<&[f64]> = v.iter().map(|v| &v.numbers[..]).collect();
                self.kernel.tile(self.isa, Columns::from_row(x, 0).part(start, len), &v, out, stride);
            }
            Layout::MostlyEqual(x) => x.tile(self.isa, self.kernel, start, len, v, out, stride),
        }
    }

    /// The kernel values of `other_rows` with these points, row by row.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn rows_of(&self, other_rows: &Self, stop: &AtomicBool) -> Result<Vec<f64>> {
        let n = self.len();
        let mut out = vec![0.0; other_rows.len() * n];
        out.par_chunks_mut(GROUP * n.max(1)).enumerate().try_for_each(|(c, out)| {
            let rows: Vec<Row> = (c * GROUP..c * GROUP + out.len() / n).map(|r| other_rows.row(r)).collect();
            for start in (0..n).step_by(RUN) {
                check_cancelled(stop)?;
                self.tile(start, RUN.min(n - start), &rows, &mut out[start..], n);
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// The sums `Σ_r weights[r] k(x_i, v_r)` over the rows v of `other_rows`, for each of these points x_i.
    /// The sums are in order, and no Gram matrix is stored.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn sums(&self, other_rows: &Self, weights: &[f64], stop: &AtomicBool) -> Result<Vec<f64>> {
        let rows: Vec<Row> = (0..other_rows.len()).map(|r| other_rows.row(r)).collect();
        let mut out = vec![0.0; self.len()];
        let runs = out.par_chunks_mut(RUN).enumerate();
        runs.try_for_each_init(
            || vec![0.0; GROUP * RUN],
            |tile, (c, out)| {
                for (rows, weights) in rows.chunks(GROUP).zip(weights.chunks(GROUP)) {
                    check_cancelled(stop)?;
                    self.tile(c * RUN, out.len(), rows, tile, RUN);
                    for (values, &weight) in tile.chunks_exact(RUN).zip(weights) {
                        add_scaled(self.isa, out, weight, &values[..out.len()]);
                    }
                }
                Ok(())
            },
        )?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Profile, Stationary};

    fn one_hot(n: usize, levels: usize, offset: f64) -> Table {
        let row = |i: usize| {
            let mut row: Vec<f64> =
                (0..levels).map(|l| if (i * i * 7 + i / 3) % levels == l { 1.7 } else { -0.3 }).collect();
            row.extend([offset + (i * 37 % 101) as f64 / 17.0, (i % 5 / 4) as f64 * (i % 13) as f64, 2.0]);
            row
        };
        Table::from_rows(&(0..n).map(row).collect::<Vec<_>>()).unwrap()
    }

    fn stationary(profile: Profile, d: usize, scale: f64) -> Kernel {
        let length_scale = (0..d).map(|c| scale * (2.0 + 0.1 * c as f64)).collect();
        Stationary { profile, columns: (0..d).collect(), length_scale, ard: true, isotropic: true }.into()
    }

    fn is_mostly_equal(points: &Points<'_>) -> bool {
        matches!(points.layout, Layout::MostlyEqual(_))
    }

    /// Values and sums, for all rows and for selections, agree with the kernel pair by pair.
    #[test]
    fn values_are_the_kernels() {
        let stop = AtomicBool::new(false);
        let (n, levels) = (700, 11);
        let x = one_hot(n, levels, 2020.0);
        let kernels = [
            (0.7 * stationary(Profile::Gaussian, levels + 3, 1.0), true),
            (stationary(Profile::Matern52, levels + 3, 1.0), true),
            (stationary(Profile::RationalQuadratic { alpha: 0.6 }, levels + 3, 1.0), true),
            (stationary(Profile::Exponential, levels + 3, 1.0), false),
            (stationary(Profile::Gaussian, levels + 3, 1.0) + Kernel::constant(0.1), false),
            // Squares of 10¹⁵ lose the digits that distinguish near rows.
            (stationary(Profile::Gaussian, levels + 3, 1e-8), false),
        ];
        for (kernel, mostly_equal) in &kernels {
            let points = Points::new(kernel, &x);
            assert_eq!(is_mostly_equal(&points), *mostly_equal, "{}", kernel.formula());
            let kept: Vec<usize> = (0..n).filter(|i| i % 3 != 1).rev().collect();
            let columns: Vec<usize> = (0..37).map(|i| i * 11 % n).collect();
            let weights: Vec<f64> = columns.iter().map(|&i| (i as f64).cos()).collect();
            let (selected, selected_columns) = (points.select(&kept), points.select(&columns));
            let values = selected.rows_of(&selected_columns, &stop).unwrap();
            let sums = selected.sums(&selected_columns, &weights, &stop).unwrap();
            for (a, &i) in kept.iter().enumerate() {
                let mut sum = 0.0;
                for (b, &j) in columns.iter().enumerate() {
                    let truth = kernel.eval(&x.row(i), &x.row(j));
                    let value = values[b * kept.len() + a];
                    assert!(
                        (value - truth).abs() <= if *mostly_equal { 1e-12 } else { 0.0 },
                        "{}: {value}, {truth}",
                        kernel.formula()
                    );
                    assert!(x.row(i) != x.row(j) || value == truth, "equal rows are at distance 0");
                    sum += weights[b] * value;
                }
                assert!((sums[a] - sum).abs() < 1e-13 * columns.len() as f64);
            }
            // A value does not depend on the positions of the two rows, nor on their order.
            let transposed = selected_columns.rows_of(&selected, &stop).unwrap();
            for a in 0..kept.len() {
                (0..columns.len())
                    .for_each(|b| assert_eq!(transposed[a * columns.len() + b], values[b * kept.len() + a]));
            }
        }
    }

    /// Rows without majority values keep the layout by column, for every kernel.
    #[test]
    fn dense_rows_stay_as_they_are() {
        let rows: Vec<[f64; 3]> = (0..50).map(|i| [i as f64, (i * i) as f64, 1.0]).collect();
        let x = Table::from_rows(&rows).unwrap();
        assert!(!is_mostly_equal(&Points::new(&stationary(Profile::Gaussian, 3, 9.0), &x)));
    }

    #[test]
    fn it_can_be_stopped() {
        let (x, kernel) = (one_hot(20, 5, 0.0), stationary(Profile::Gaussian, 8, 1.0));
        let points = Points::new(&kernel, &x);
        let stop = AtomicBool::new(true);
        assert!(points.rows_of(&points, &stop).is_err() && points.sums(&points, &[1.0; 20], &stop).is_err());
    }
}
