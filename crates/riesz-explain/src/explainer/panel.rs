//! Panels: runs of support points that fit the cache, with the factors of the absent side over them.

use crate::kernel::Columns;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{dot, max_abs};
use crate::simd::{LANES, Lanes, Plain, Simd};

/// A run of support points, padded to a multiple of the lanes by repeating the last with coefficient 0.
pub(super) struct PointPanel {
    /// Column-major, `len` rows.
    points: Vec<f64>,
    /// Number of rows, padding included.
    pub(super) len: usize,
    /// Number of rows without padding.
    pub(super) unpadded_len: usize,
    /// Number of rows of all earlier panels, padding included.
    pub(super) from: usize,
    /// Coefficients by output: `coef[output][block]`.
    pub(super) coef: Vec<Vec<Lanes>>,
}

impl PointPanel {
    pub(super) fn columns(&self) -> Columns<'_> {
        Columns::new(&self.points, self.len, 0, self.len)
    }

    /// Adds to each output the inner product of its coefficients with numbers of the panel's points.
    pub(super) fn add_outputs(&self, numbers: &[f64], out: &mut [f64]) {
        for (sum, coef) in out.iter_mut().zip(&self.coef) {
            let coef: Vec<f64> = coef.iter().flat_map(|c| c.0).collect();
            *sum += dot(numbers, &coef);
        }
    }
}

/// Cuts the support points into panels of at most `len` rows.
pub(super) fn panels(model: &KernelExpansion, len: usize) -> Vec<PointPanel> {
    let (n, d, m) = (model.support_points.rows(), model.support_points.width(), model.outputs());
    let mut from = 0;
    (0..n)
        .step_by(len)
        .map(|start| {
            let rows = len.min(n - start);
            let padded = rows.next_multiple_of(LANES);
            let mut points = vec![0.0; padded * d];
            for j in 0..d {
                for i in 0..padded {
                    points[j * padded + i] = model.support_points.get(start + i.min(rows - 1), j);
                }
            }
            let mut coef = vec![vec![Lanes::ZERO; padded / LANES]; m];
            for (o, column) in coef.iter_mut().enumerate() {
                for i in 0..rows {
                    column[i / LANES].0[i % LANES] = model.coef[(start + i, o)];
                }
            }
            from += padded;
            PointPanel { points, len: padded, unpadded_len: rows, from: from - padded, coef }
        })
        .collect()
}

/// The factors of the absent side of a product over a panel.
pub(super) struct PanelSide {
    /// Row by row, the values of each factor; a last row of ones pads for the engine.
    pub(super) factors: Vec<f64>,
    /// The sizes of the same factors, if errors are relative to sizes.
    pub(super) sizes: Option<Vec<f64>>,
    /// Binary tree of products of the P factors, or empty: node i is node 2i times node 2i + 1, and node P +
    /// k is factor k.
    tree: Vec<f64>,
    /// Cumulative sums over the factors of their [`log_extent`] in the panel.
    log_extent: Vec<[f64; 2]>,
    len: usize,
}

impl PanelSide {
    pub(super) fn new(factors: Vec<f64>, sizes: Option<Vec<f64>>, len: usize, with_tree: bool) -> Self {
        let count = if with_tree { factors.len() / len - 1 } else { 0 };
        let mut total = [0.0; 2];
        let sums = factors.chunks_exact(len).map(|factor| {
            total = sum(total, log_extent(factor, true));
            total
        });
        let extent = std::iter::once([0.0; 2]).chain(sums).collect();
        let mut side = Self { factors, sizes, tree: vec![1.0; count * len], log_extent: extent, len };
        for i in (1..count).rev() {
            for l in 0..len {
                side.tree[i * len + l] = side.node(2 * i)[l] * side.node(2 * i + 1)[l];
            }
        }
        side
    }

    fn node(&self, i: usize) -> &[f64] {
        let count = self.tree.len() / self.len;
        let (values, index) = if i < count { (&self.tree, i) } else { (&self.factors, i - count) };
        &values[index * self.len..(index + 1) * self.len]
    }

    /// The sum of the log extents of a run of factors.
    pub(super) fn log_extent(&self, run: &std::ops::Range<usize>) -> [f64; 2] {
        let ([a, b], [c, d]) = (self.log_extent[run.start], self.log_extent[run.end]);
        [c - a, d - b]
    }

    /// Multiplies the weights by the factors of a run.
    pub(super) fn fold_factors(&self, run: std::ops::Range<usize>, weights: &mut [Lanes]) {
        let count = self.tree.len() / self.len;
        if count == 0 {
            self.factors[run.start * self.len..run.end * self.len]
                .chunks_exact(self.len)
                .for_each(|factor| multiply(weights, factor));
            return;
        }
        let (mut low, mut high) = (run.start + count, run.end + count);
        while low < high {
            if low % 2 == 1 {
                multiply(weights, self.node(low));
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                multiply(weights, self.node(high));
            }
            (low, high) = (low / 2, high / 2);
        }
    }
}

/// The largest `max(0, -ln |f|)` of the factors that are not 0 (a factor 0 makes its product 0) and, if
/// factors can be `large`, the largest `max(0, ln |f|)`.
pub(super) fn log_extent(factors: &[f64], large: bool) -> [f64; 2] {
    let min_factor = factors.iter().map(|f| f.abs()).filter(|f| *f > 0.0).fold(1.0, f64::min);
    let max_factor = if large { max_abs(factors).max(1.0) } else { 1.0 };
    [-min_factor.ln(), max_factor.ln()]
}

pub(super) fn sum(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

pub(super) fn multiply(weights: &mut [Lanes], factor: &[f64]) {
    weights.iter_mut().zip(factor.as_chunks::<LANES>().0).for_each(|(w, f)| *w = Plain::mul(*w, Lanes(*f)));
}
