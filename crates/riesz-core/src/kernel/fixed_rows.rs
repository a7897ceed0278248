//! Kernel values between a fixed set of rows, such as a model's support points or landmarks, and many
//! other rows.

use super::fast_distances::{ColumnShift, DistanceByProducts, Row, ValueRange};
use super::{Columns, Kernel};
use crate::simd::Isa;
use crate::table::Table;

/// Rows take the fast path if no column exceeds the range of the fixed rows by more than this factor.
const FAR: f64 = 1.5;

/// A fixed set of rows (anchors) and a kernel. A computed value depends only on the two rows and the anchors.
/// It equals the value of [`Kernel::row`] to the last bit, or within [`precision`](Self::precision).
pub struct FixedRows<'k> {
    kernel: &'k Kernel,
    isa: Isa,
    rows: Vec<Vec<f64>>,
    fast_path: Option<FastPath>,
}

/// Data of the fast path: the layout, the anchors in this layout, their range and the error bound.
struct FastPath {
    frame: ColumnShift,
    rows: Vec<Row>,
    extent: ValueRange,
    precision: f64,
}

/// Rows in the layout that [`FixedRows::tile`] reads.
pub struct PackedRows<'u> {
    columns: Columns<'u>,
    /// The rows in the layout of the fast path, and the indices of the rows that exceed its range.
    fast_path: Option<(DistanceByProducts, Vec<usize>)>,
}

impl<'k> FixedRows<'k> {
    /// Prepares the rows so that values equal the results of [`Kernel::row`] to the last bit. Cost O(n d).
    pub fn exact(kernel: &'k Kernel, anchors: &Table) -> Self {
        let rows = (0..anchors.rows()).map(|i| anchors.row(i)).collect();
        Self { kernel, isa: Isa::detect(), rows, fast_path: None }
    }

    /// Prepares the rows, with inner products instead of differences if two conditions hold: the kernel is a
    /// profile of one joint distance, and inner products give its values to eleven digits. Inner products
    /// take about half the time of differences, or a fifth if most entries equal their column's majority
    /// value (as in one-hot columns). Cost O(n d).
    pub fn new(kernel: &'k Kernel, anchors: &Table) -> Self {
        let fast_path = |frame: ColumnShift| {
            let laid_anchors = frame.lay(Columns::from_row(anchors, 0));
            let extent = laid_anchors.extent().times(FAR);
            let rows = (0..laid_anchors.rows()).map(|i| laid_anchors.row(i)).collect();
            let precision = extent.precision(kernel)?;
            Some(FastPath { frame, rows, extent, precision })
        };
        let frame = ColumnShift::for_rows(kernel, anchors).or_else(|| ColumnShift::dense(kernel, anchors));
        Self { fast_path: frame.and_then(fast_path), ..Self::exact(kernel, anchors) }
    }

    /// Bound of the difference between these values and the results of [`Kernel::row`], relative to the
    /// largest kernel value; 0 if they are equal.
    pub fn precision(&self) -> f64 {
        self.fast_path.as_ref().map_or(0.0, |fast_path| fast_path.precision)
    }

    /// The number of fixed rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Puts other rows into the layout of the fixed ones. Cost O(n d).
    pub fn lay<'u>(&self, columns: Columns<'u>) -> PackedRows<'u> {
        let fast_path = self.fast_path.as_ref().map(|fast| {
            let laid = fast.frame.lay(columns);
            let out_of_range = laid.exceeds_range(&fast.extent);
            (laid, out_of_range)
        });
        PackedRows { columns, fast_path }
    }

    /// Writes the kernel values of `count` fixed rows, from `start` on, with all rows of `u`, to
    /// `out[r * rows + i]`.
    pub fn tile(&self, u: &PackedRows<'_>, start: usize, count: usize, out: &mut [f64]) {
        let n = u.columns.len();
        let exactly = |columns: Columns<'_>, anchors: &[Vec<f64>], out: &mut [f64]| {
            let anchors: Vec<&[f64]> = anchors.iter().map(Vec::as_slice).collect();
            self.kernel.tile(self.isa, columns, &anchors, out, n);
        };
        let rows = &self.rows[start..start + count];
        let (Some(fast), Some((laid, out_of_range))) = (&self.fast_path, &u.fast_path) else {
            return exactly(u.columns, rows, out);
        };
        laid.tile(self.isa, self.kernel, 0, n, &fast.rows[start..start + count], out, n);
        out_of_range.iter().for_each(|&i| exactly(u.columns.part(i, 1), rows, &mut out[i..]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Profile, Stationary};

    /// One-hot columns, a numeric column, and a column that is mostly 0.
    fn one_hot(n: usize, levels: usize, outlier: f64) -> Table {
        let row = |i: usize| {
            let mut row: Vec<f64> =
                (0..levels).map(|l| if (i * i * 7 + i / 3) % levels == l { 1.7 } else { -0.3 }).collect();
            let large = if i % 41 == 7 { outlier } else { 0.0 };
            row.extend([2020.0 + (i * 37 % 101) as f64 / 17.0, (i % 5 / 4) as f64 * (i % 13) as f64 + large]);
            row
        };
        Table::from_rows(&(0..n).map(row).collect::<Vec<_>>()).unwrap()
    }

    fn gaussian(d: usize) -> Kernel {
        let length_scale = (0..d).map(|c| 2.0 + 0.1 * c as f64).collect();
        let columns = (0..d).collect();
        let profile = Profile::Gaussian;
        Stationary { profile, columns, length_scale, ard: true, isotropic: true }.into()
    }

    /// Tiles agree with the kernel pair by pair, also for rows far from all anchors. A value has the same
    /// bits whatever the other rows of the tile are.
    #[test]
    fn values_are_the_kernels() {
        let levels = 11;
        let kernels = [(gaussian(levels + 2), true), (gaussian(levels + 2) + Kernel::constant(0.1), false)];
        for (kernel, quick) in &kernels {
            let anchors = one_hot(61, levels, 0.0);
            let fixed = FixedRows::new(kernel, &anchors);
            assert!(fixed.len() == 61 && fixed.fast_path.is_some() == *quick);
            let x = one_hot(150, levels, 1e6);
            let laid = fixed.lay(Columns::from_row(&x, 0));
            let outlier_rows = [7, 48, 89, 130];
            assert!(laid.fast_path.as_ref().is_none_or(|(_, rows)| *rows == outlier_rows));
            let mut tile = vec![f64::NAN; 40 * 150];
            fixed.tile(&laid, 20, 40, &mut tile);
            for r in 0..40 {
                for i in 0..150 {
                    let (value, truth) = (tile[r * 150 + i], kernel.eval(&anchors.row(20 + r), &x.row(i)));
                    assert!((value - truth).abs() <= 1e-12, "{value} {truth}");
                    assert!(*quick && !outlier_rows.contains(&i) || value == truth);
                    assert!(
                        anchors.row(20 + r) != x.row(i) || value == truth,
                        "equal rows are at distance 0"
                    );
                }
            }
            // A part of the anchors, and one anchor.
            let laid = fixed.lay(Columns::from_row(&x, 0).part(33, 60));
            let mut single = vec![f64::NAN; 60];
            fixed.tile(&laid, 31, 1, &mut single);
            assert_eq!(single, tile[11 * 150 + 33..][..60]);
        }
    }

    /// Values by inner products are within the reported precision, however far the columns are from 0. Equal
    /// rows have the largest value. Rows that are too far apart are computed exactly.
    #[test]
    fn values_by_products_are_within_their_precision() {
        let d = 18;
        let rows = |n: usize, size: f64| {
            let number = |k: usize| 1e4 + size * ((k * 7919 + 13) % 10_007) as f64 / 10_007.0;
            Table::from_rows(
                &(0..n).map(|i| (0..d).map(|j| number(i * d + j)).collect()).collect::<Vec<Vec<f64>>>(),
            )
            .unwrap()
        };
        let shape = |profile: Profile| -> Kernel {
            let (length_scale, columns) = ((0..d).map(|c| 3.0 + 0.2 * c as f64).collect(), (0..d).collect());
            Stationary { profile, columns, length_scale, ard: true, isotropic: true }.into()
        };
        let profiles = [
            Profile::Gaussian,
            Profile::Matern52,
            Profile::RationalQuadratic { alpha: 0.7 },
            Profile::Exponential,
        ];
        for (profile, size, quick) in
            profiles.into_iter().flat_map(|p| [(p, 8.0, p != Profile::Exponential), (p, 1e4, false)])
        {
            let (anchors, x) = (rows(37, size), rows(300, size));
            let kernel = 2.5 * shape(profile);
            let fixed = FixedRows::new(&kernel, &anchors);
            assert!(fixed.precision() <= 1e-11 && (fixed.precision() > 0.0) == quick, "{profile:?} {size}");
            let mut tile = vec![f64::NAN; 37 * 300];
            fixed.tile(&fixed.lay(Columns::from_row(&x, 0)), 0, 37, &mut tile);
            let mut worst: f64 = 0.0;
            for (r, i) in (0..37).flat_map(|r| (0..300).map(move |i| (r, i))) {
                let (value, truth) = (tile[r * 300 + i], kernel.eval(&anchors.row(r), &x.row(i)));
                worst = worst.max((value - truth).abs() / 2.5);
                assert!(
                    r != i
                        || (value - 2.5).abs() <= if Isa::detect().name() == "plain" { 1e-11 } else { 0.0 }
                );
            }
            for isa in Isa::available().into_iter().filter(|isa| isa.name() != "plain") {
                let (other_fixed, mut other_tile) =
                    (FixedRows { isa, ..FixedRows::new(&kernel, &anchors) }, vec![0.0; tile.len()]);
                other_fixed.tile(&other_fixed.lay(Columns::from_row(&x, 0)), 0, 37, &mut other_tile);
                assert_eq!(tile, other_tile, "{}", isa.name());
            }
            assert!(worst <= fixed.precision(), "{profile:?} {size}: {worst} {}", fixed.precision());
            let exact = FixedRows::exact(&kernel, &anchors);
            exact.tile(&exact.lay(Columns::from_row(&x, 0)), 0, 37, &mut tile);
            assert!(
                (0..37 * 300)
                    .all(|cell| tile[cell] == kernel.eval(&anchors.row(cell / 300), &x.row(cell % 300)))
            );
        }
    }
}
