//! Bounds of the rounding errors of computed kernel factors.
//!
//! A piece of a factor is computed in a few roundings. Each is relative to the piece itself, with three
//! exceptions: the error of an exponential grows with its exponent; that of a periodic piece with the number
//! of periods between its arguments; and a sum that cancels is rounded relative to its terms. So each piece
//! bounds the number of roundings (ε/2) in its value for rows within given ranges, relative to its *size*,
//! which is the piece itself where nothing cancels.

use super::Columns;

/// The rows between which factors are taken: for each column the least and the largest number on either side.
#[derive(Debug, Clone)]
pub struct ColumnRanges {
    pub(crate) u: Vec<[f64; 2]>,
    pub(crate) v: Vec<[f64; 2]>,
}

impl ColumnRanges {
    /// The smallest and the largest number of each of `width` columns.
    pub(crate) fn per_column(rows: Columns<'_>, width: usize) -> Vec<[f64; 2]> {
        let join = |[low, high]: [f64; 2], v: &f64| [v.min(low), v.max(high)];
        (0..width).map(|j| rows.column(j).iter().fold([f64::INFINITY, f64::NEG_INFINITY], join)).collect()
    }

    /// The largest difference in a column.
    pub(crate) fn max_difference(&self, j: usize) -> f64 {
        let ([a, b], [c, d]) = (self.u[j], self.v[j]);
        (b - c).max(d - a)
    }

    /// The largest distances from a centre, on either side.
    pub(crate) fn max_distance_from(&self, j: usize, center: f64) -> [f64; 2] {
        [self.u[j], self.v[j]].map(|[low, high]| (high - center).max(center - low))
    }
}

/// `1 - (1 - a)(1 - b)`, without cancellation.
pub(crate) fn union_probability(a: f64, b: f64) -> f64 {
    a + (1.0 - a) * b
}

/// Absolute error of an exponential that is 0 or subnormal.
pub(crate) const TINY: f64 = 5e-308;

/// An exponent beyond which an exponential is 0.
pub(crate) const MIN_EXPONENT: f64 = 708.0;

/// Bound of the rounding error of a piece, or of a product of pieces.
#[derive(Debug, Clone, Copy)]
pub struct RoundingBound {
    /// Roundings, relative to its size.
    pub(crate) units: f64,
    /// Further roundings for each unit of `-ln` of it: it is 1 at most.
    pub(crate) per_log: f64,
    /// The largest `-ln` of it, where that matters.
    pub(crate) deepest: f64,
    /// The largest size; 1 at most unless it is [unbounded](super::FactorKind::bounded).
    pub(crate) top: f64,
    /// Additional absolute error where the value leaves the range of doubles.
    pub(crate) tiny: f64,
}

impl RoundingBound {
    /// The bound of a piece that is at most 1.
    pub(crate) fn new(units: f64, per_log: f64, deepest: f64) -> Self {
        Self { units, per_log, deepest: deepest.min(MIN_EXPONENT), top: 1.0, tiny: TINY }
    }

    /// The bound of a player's factor, which is the product of these pieces.
    pub(crate) fn product(pieces: impl Iterator<Item = (Self, bool)>) -> Self {
        let mut bound = Self { units: 1.0, per_log: 0.0, deepest: 0.0, top: 1.0, tiny: 0.0 };
        let mut lifted = false;
        for (piece, bounded) in pieces {
            let top = piece.top.max(1.0);
            bound.tiny = bound.tiny * top + piece.tiny * bound.top;
            bound.top *= top;
            bound.units += piece.units;
            // Of a product of pieces that are 1 at most, `-ln` is at least each one's.
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
