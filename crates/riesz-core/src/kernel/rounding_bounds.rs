//! Bounds of the rounding errors of computed kernel factors.
//!
//! Each part (piece) of a factor is computed in a few roundings of ε/2. A rounding is relative to the piece
//! itself, with three exceptions:
//! - The error of an exponential grows with its exponent.
//! - The error of a periodic piece grows with the number of periods between its arguments.
//! - A sum whose terms cancel is rounded relative to its terms.
//!
//! So each piece bounds the number of roundings in its value for rows within given ranges, relative to its
//! *size*. The size is the piece itself if nothing cancels.

use super::Columns;

/// Smallest and largest number of each column, on both sides u and v of the kernel.
#[derive(Debug, Clone)]
pub struct ColumnRanges {
    /// The range of each column of the points u.
    pub u: Vec<[f64; 2]>,
    /// The range of each column of the points v.
    pub v: Vec<[f64; 2]>,
}

impl ColumnRanges {
    /// The smallest and the largest number of each of `width` columns.
    pub fn per_column(rows: Columns<'_>, width: usize) -> Vec<[f64; 2]> {
        let join = |[low, high]: [f64; 2], v: &f64| [v.min(low), v.max(high)];
        (0..width).map(|j| rows.column(j).iter().fold([f64::INFINITY, f64::NEG_INFINITY], join)).collect()
    }

    /// The largest difference between a value of u and a value of v in column j.
    pub(crate) fn max_difference(&self, j: usize) -> f64 {
        let ([a, b], [c, d]) = (self.u[j], self.v[j]);
        (b - c).max(d - a)
    }

    /// The largest distances from a centre in column j, for u and for v.
    pub(crate) fn max_distance_from(&self, j: usize, center: f64) -> [f64; 2] {
        [self.u[j], self.v[j]].map(|[low, high]| (high - center).max(center - low))
    }
}

/// `1 - (1 - a)(1 - b)`, without cancellation.
pub fn union_probability(a: f64, b: f64) -> f64 {
    a + (1.0 - a) * b
}

/// Absolute error of an exponential that is 0 or subnormal.
pub const TINY: f64 = 5e-308;

/// An exponential is 0 if its exponent is below the negative of this number.
pub const MIN_EXPONENT: f64 = 708.0;

/// Bound of the rounding error of a piece, or of a product of pieces.
#[derive(Debug, Clone, Copy)]
pub struct RoundingBound {
    /// Number of roundings, relative to the size.
    pub units: f64,
    /// Additional roundings for each unit of `-ln` of the value, which is at most 1.
    pub per_log: f64,
    /// The largest `-ln` of the value, if it matters.
    pub(crate) deepest: f64,
    /// The largest size; at most 1 if the factor is [bounded](super::KernelFactor::bounded).
    pub top: f64,
    /// Additional absolute error if the value leaves the range of doubles.
    pub tiny: f64,
}

impl RoundingBound {
    /// The bound of a piece that is at most 1.
    pub fn new(units: f64, per_log: f64, deepest: f64) -> Self {
        Self { units, per_log, deepest: deepest.min(MIN_EXPONENT), top: 1.0, tiny: TINY }
    }

    /// The bound of a player's factor, given its pieces and for each whether it is bounded.
    pub fn product(pieces: impl Iterator<Item = (Self, bool)>) -> Self {
        let mut bound = Self { units: 1.0, per_log: 0.0, deepest: 0.0, top: 1.0, tiny: 0.0 };
        let mut lifted = false;
        for (piece, bounded) in pieces {
            let top = piece.top.max(1.0);
            bound.tiny = bound.tiny * top + piece.tiny * bound.top;
            bound.top *= top;
            bound.units += piece.units;
            // If the pieces are at most 1, `-ln` of the product is at least `-ln` of each piece.
            bound.per_log = bound.per_log.max(piece.per_log);
            bound.deepest += piece.deepest;
            lifted |= !bounded;
        }
        if lifted {
            bound.units += bound.per_log * bound.deepest;
            bound.per_log = 0.0;
        }
        bound
    }
}
