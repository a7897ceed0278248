//! Rows of the gram matrix, computed when asked for and kept while a budget lasts.

use crate::kernel::{Columns, Kernel};
use crate::simd::Isa;
use crate::table::Table;

/// End of the list of cached rows.
const NONE: usize = usize::MAX;

/// The points of a problem in the solver's order, and a least-recently-used cache of their kernel rows.
///
/// Rows are kept as prefixes: the solver sorts the points it still works on to the front and asks for the
/// first so many entries of a row. A longer prefix is got by computing the missing end.
pub(super) struct GramRows<'a> {
    kernel: &'a Kernel,
    isa: Isa,
    /// The points, column by column.
    values: Vec<f64>,
    n: usize,
    width: usize,
    /// Entry i is the cached prefix of row i, or empty.
    rows: Vec<Vec<f64>>,
    /// The list from the most to the least recently used row.
    previous: Vec<usize>,
    next: Vec<usize>,
    first: usize,
    last: usize,
    /// Numbers held, and how many may be.
    held: usize,
    budget: usize,
    point: Vec<f64>,
    buffer: Vec<f64>,
}

impl<'a> GramRows<'a> {
    /// Takes a copy of the points. At least two rows are always kept, whatever the budget.
    pub(super) fn new(kernel: &'a Kernel, x: &Table, budget_bytes: usize) -> Self {
        let n = x.rows();
        Self {
            kernel,
            isa: Isa::detect(),
            values: x.column_major().to_vec(),
            n,
            width: x.width(),
            rows: vec![Vec::new(); n],
            previous: vec![NONE; n],
            next: vec![NONE; n],
            first: NONE,
            last: NONE,
            held: 0,
            budget: (budget_bytes / size_of::<f64>()).max(2 * n),
            point: vec![0.0; x.width()],
            buffer: Vec::new(),
        }
    }

    /// `k(x_i, x_i)` for every point.
    pub(super) fn diagonal(&mut self) -> Vec<f64> {
        (0..self.n)
            .map(|i| {
                let mut out = [0.0];
                self.copy_point(i);
                let one = Columns::new(&self.values, self.n, i, 1);
                self.kernel.row(self.isa, one, &self.point, &mut self.buffer, &mut out);
                out[0]
            })
            .collect()
    }

    /// Makes sure that the first `len` entries of row `i` can be read by [`row`](Self::row). The row asked
    /// for before stays readable.
    pub(super) fn fetch(&mut self, i: usize, len: usize) {
        if !self.rows[i].is_empty() {
            self.unlink(i);
        }
        let have = self.rows[i].len();
        if have < len {
            let mut row = std::mem::take(&mut self.rows[i]);
            let mut spare = Vec::new();
            while self.held + (len - have) > self.budget && self.last != NONE {
                let evicted = self.last;
                self.unlink(evicted);
                spare = std::mem::take(&mut self.rows[evicted]);
                self.held -= spare.len();
            }
            // The budget counts numbers held, so a row must not sit in a much larger allocation.
            if have == 0 && (len..=len + len / 8).contains(&spare.capacity()) {
                row = spare;
                row.clear();
            }
            row.reserve_exact(len - have);
            row.resize(len, 0.0);
            self.copy_point(i);
            let rest = Columns::new(&self.values, self.n, have, len - have);
            self.kernel.row(self.isa, rest, &self.point, &mut self.buffer, &mut row[have..]);
            self.held += len - have;
            self.rows[i] = row;
        }
        self.push_front(i);
    }

    /// A row that was fetched.
    pub(super) fn row(&self, i: usize) -> &[f64] {
        &self.rows[i]
    }

    /// Exchanges points, pair after pair; each pair is in ascending order.
    pub(super) fn exchange(&mut self, pairs: &[(usize, usize)]) {
        for &(a, b) in pairs {
            for column in self.values.chunks_exact_mut(self.n) {
                column.swap(a, b);
            }
        }
        // Entries of the rows: a row that holds one of the two but not the other is given up.
        for i in 0..self.n {
            let row = &mut self.rows[i];
            if row.is_empty() {
                continue;
            }
            let len = row.len();
            let keep = pairs.iter().all(|&(a, b)| {
                if b < len {
                    row.swap(a, b);
                }
                b < len || a >= len
            });
            if !keep {
                self.unlink(i);
                self.held -= len;
                self.rows[i] = Vec::new();
            }
        }
        for &(a, b) in pairs {
            self.exchange_rows(a, b);
        }
    }

    fn exchange_rows(&mut self, a: usize, b: usize) {
        // Placeholders stand in the list where the rows stood.
        let (has_a, has_b) = (!self.rows[a].is_empty(), !self.rows[b].is_empty());
        self.rows.swap(a, b);
        match (has_a, has_b) {
            (true, false) => self.rename(a, b),
            (false, true) => self.rename(b, a),
            // Both rows are in the list; that they trade places in it does no harm.
            _ => {}
        }
    }

    /// The list entry `from` becomes `to`, which was in no list.
    fn rename(&mut self, from: usize, to: usize) {
        let (before, after) = (self.previous[from], self.next[from]);
        (self.previous[to], self.next[to]) = (before, after);
        if before == NONE {
            self.first = to
        } else {
            self.next[before] = to
        }
        if after == NONE { self.last = to } else { self.previous[after] = to }
    }

    fn unlink(&mut self, i: usize) {
        let (before, after) = (self.previous[i], self.next[i]);
        if before == NONE {
            self.first = after
        } else {
            self.next[before] = after
        }
        if after == NONE { self.last = before } else { self.previous[after] = before }
    }

    fn push_front(&mut self, i: usize) {
        (self.previous[i], self.next[i]) = (NONE, self.first);
        if self.first == NONE {
            self.last = i
        } else {
            self.previous[self.first] = i
        }
        self.first = i;
    }

    fn copy_point(&mut self, i: usize) {
        for j in 0..self.width {
            self.point[j] = self.values[j * self.n + i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is fetched, evicted and exchanged, rows are those of the kernel at the points' places.
    #[test]
    fn rows_follow_the_points() {
        let rows: Vec<[f64; 2]> = (0..40).map(|i| [(i as f64).sin(), (i as f64 * 0.7).cos()]).collect();
        let x = Table::from_rows(&rows).unwrap();
        let kernel = Kernel::gaussian(&[0.5, 0.8]);
        for budget in [0, 40 * 8 * 7, 1 << 20] {
            let mut cache = GramRows::new(&kernel, &x, budget);
            let mut order: Vec<usize> = (0..40).collect();
            let mut state = 12345_u64;
            let mut random = |bound: usize| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) as usize % bound
            };
            for _ in 0..2000 {
                if random(10) == 0 {
                    let (a, b, c) = (random(20), 20 + random(10), 30 + random(10));
                    let pairs = [(a, b), (b, c)];
                    cache.exchange(&pairs);
                    pairs.iter().for_each(|&(a, b)| order.swap(a, b));
                }
                let (i, len) = (random(40), 1 + random(40));
                let before = cache.first;
                let kept = if before == NONE { Vec::new() } else { cache.row(before).to_vec() };
                cache.fetch(i, len);
                if before != NONE && before != i {
                    assert_eq!(kept, cache.row(before), "the row asked for before is still there");
                }
                for (k, value) in cache.row(i).iter().enumerate() {
                    assert_eq!(*value, kernel.eval(&rows[order[k]], &rows[order[i]]));
                }
                assert!(cache.row(i).len() >= len);
                assert!(cache.held <= cache.budget);
                assert_eq!(cache.held, cache.rows.iter().map(Vec::len).sum::<usize>());
            }
        }
    }
}
