//! Product games whose factors are power series truncated after p + 1 coefficients: products of all series
//! but one, without division.

use super::rule::Node;
use super::sets::advance;
use crate::memory::refill;
use crate::simd::{Lanes, Plain, Simd};

/// The p + 1 coefficients of the truncated series of `e^{cz}`.
pub(super) fn exponential(c: f64, p: usize) -> Vec<Lanes> {
    let mut term = 1.0;
    let higher = (1..=p).map(|k| {
        term *= c / k as f64;
        term
    });
    std::iter::once(1.0).chain(higher).map(Lanes::splat).collect()
}

/// Scratch memory of the products.
#[derive(Default)]
pub(super) struct SeriesChain {
    /// Prefix products of the series, one after the other.
    before: Vec<Lanes>,
    /// Suffix product of the series, and the next suffix product.
    after: Vec<Lanes>,
    next: Vec<Lanes>,
    /// Integral of the coefficient p - k of the product of all other series, for each player and k.
    moments: Vec<Lanes>,
    start: Vec<Lanes>,
    /// For each player, `a - b`, and at a node `(1-t) b + t a`.
    gains: Vec<Lanes>,
    mixed: Vec<Lanes>,
}

// Loops over slices: closures would not be compiled for the instruction set.
impl SeriesChain {
    /// The last coefficient of the product of `start` and all series.
    #[inline(always)]
    pub(super) fn last_coefficient<V: Simd>(&mut self, start: &[Lanes], series: &[Lanes]) -> Lanes {
        let Self { after, next, .. } = self;
        after.clear();
        after.extend_from_slice(start);
        next.resize(start.len(), Lanes::ZERO);
        for factor in series.chunks_exact(start.len()) {
            multiply::<V>(after, factor, next);
            std::mem::swap(after, next);
        }
        after[start.len() - 1]
    }

    /// Adds to `out`, times `weight`, the values of players for `largest` 1, of players and pairs for 2, and
    /// of all sets of `largest` players in order for more. With the series a_j (present) and b_j (absent) of
    /// player j, the value of player j is the last coefficient of `start · ∫ (a_j - b_j) Π_{l≠j} ((1-t) b_l +
    /// t a_l)`.
    #[inline(always)]
    pub(super) fn player_values<V: Simd>(
        &mut self,
        start: &[Lanes],
        (a, b): (&[Lanes], &[Lanes]),
        weight: Lanes,
        nodes: &[Node],
        largest: usize,
        out: &mut [Lanes],
    ) {
        let size = start.len();
        let players = a.len() / size;
        self.gains.clear();
        for k in 0..a.len() {
            self.gains.push(V::sub(a[k], b[k]));
        }
        let mut outputs = out.iter_mut();
        if largest <= 2 {
            self.excluding::<V>(start, (a, b), &[], nodes);
            for j in 0..players {
                if let Some(value) = outputs.next() {
                    *value = V::fma(self.value::<V>(j, size), weight, *value);
                }
            }
        }
        if largest == 1 || largest > players {
            return;
        }
        // All but the last player of a set.
        let mut first: Vec<usize> = (0..largest - 1).collect();
        loop {
            // The players in `first` contribute their `a - b` to `start`; the others have values in the game
            // without them.
            let (mut product, mut next) = (std::mem::take(&mut self.start), std::mem::take(&mut self.next));
            product.clear();
            product.extend_from_slice(start);
            next.resize(size, Lanes::ZERO);
            for &j in &first {
                multiply::<V>(&product, &self.gains[j * size..][..size], &mut next);
                std::mem::swap(&mut product, &mut next);
            }
            self.next = next;
            self.excluding::<V>(&product, (a, b), &first, nodes);
            self.start = product;
            for l in first[largest - 2] + 1..players {
                if let Some(value) = outputs.next() {
                    *value = V::fma(self.value::<V>(l, size), weight, *value);
                }
            }
            // The next choice that leaves room for a last player.
            if !advance(&mut first, players - 1) {
                return;
            }
        }
    }

    /// The last coefficient of player j's `a - b` times the product of all other series.
    #[inline(always)]
    fn value<V: Simd>(&self, j: usize, size: usize) -> Lanes {
        let (gains, moments) = (&self.gains[j * size..][..size], &self.moments[j * size..][..size]);
        let mut sum = Lanes::ZERO;
        // Both series of a player begin with 1, so their difference begins with 0.
        for k in 1..size {
            sum = V::fma(gains[k], moments[k], sum);
        }
        sum
    }

    /// Computes the moments of all players except those in `excluded`.
    #[inline(always)]
    fn excluding<V: Simd>(
        &mut self,
        start: &[Lanes],
        (a, b): (&[Lanes], &[Lanes]),
        excluded: &[usize],
        nodes: &[Node],
    ) {
        let size = start.len();
        let players = a.len() / size;
        let Self { before, after, next, moments, mixed, .. } = self;
        refill(moments, players * size, Lanes::ZERO);
        before.resize(((players + 1) * size).max(before.len()), Lanes::ZERO);
        next.resize(size, Lanes::ZERO);
        for node in nodes {
            let (t, s, weight) = (Lanes::splat(node.t), Lanes::splat(node.s), Lanes::splat(node.weight));
            mixed.clear();
            for k in 0..a.len() {
                mixed.push(V::fma(a[k], t, V::mul(b[k], s)));
            }
            before[..size].copy_from_slice(start);
            for j in 0..players {
                let (prefix, tail) = before[j * size..].split_at_mut(size);
                if excluded.contains(&j) {
                    tail[..size].copy_from_slice(prefix);
                } else {
                    multiply::<V>(prefix, &mixed[j * size..][..size], &mut tail[..size]);
                }
            }
            refill(after, size, Lanes::ZERO);
            after[0] = Lanes::UNIT;
            for j in (0..players).rev() {
                if excluded.contains(&j) {
                    continue;
                }
                let prefix = &before[j * size..][..size];
                let moments = &mut moments[j * size..][..size];
                for k in 1..size {
                    let top = size - 1 - k;
                    let mut coefficient = Lanes::ZERO;
                    for m in 0..=top {
                        coefficient = V::fma(prefix[m], after[top - m], coefficient);
                    }
                    moments[k] = V::fma(coefficient, weight, moments[k]);
                }
                multiply::<V>(after, &mixed[j * size..][..size], next);
                std::mem::swap(after, next);
            }
        }
    }
}

/// Writes the product of two truncated series to `out`.
#[inline(always)]
pub(super) fn multiply<V: Simd>(series: &[Lanes], factor: &[Lanes], out: &mut [Lanes]) {
    for (top, out) in out.iter_mut().enumerate() {
        let mut sum = Lanes::ZERO;
        for m in 0..=top {
            sum = V::fma(series[m], factor[top - m], sum);
        }
        *out = sum;
    }
}

/// Mean over rows, with these weights, of the series of `e^{vz}`: `numbers` has one v per row, `out` one
/// entry per coefficient; `batch_size` rows are added at a time.
pub(crate) fn mean_exponential_series(
    numbers: impl Iterator<Item = Lanes>,
    weights: &[f64],
    batch_size: usize,
    out: &mut [Lanes],
) {
    out.fill(Lanes::ZERO);
    let mut numbers = numbers;
    let mut batch_sums = vec![Lanes::ZERO; out.len()];
    for weights in weights.chunks(batch_size) {
        for (weight, v) in weights.iter().zip(&mut numbers) {
            let mut term = Lanes::splat(*weight);
            for (k, sum) in batch_sums.iter_mut().enumerate().skip(1) {
                term = term.map2(v, |term, v| term * v / k as f64);
                *sum = Plain::add(*sum, term);
            }
        }
        for (total, batch) in out.iter_mut().zip(&mut batch_sums) {
            *total = Plain::add(*total, std::mem::replace(batch, Lanes::ZERO));
        }
    }
    // Weights sum to 1.
    out[0] = Lanes::UNIT;
}
