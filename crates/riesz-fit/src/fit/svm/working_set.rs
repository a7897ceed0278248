//! The working set: the rows that violate optimality most, and rows of the previous set, with their gram
//! matrix.

use std::sync::atomic::AtomicBool;

use super::variables::Variables;
use crate::error::Result;
use crate::kernel::Points;
use crate::linalg::select;

/// Rows of a working set and their gram matrix.
pub(super) struct WorkingSet {
    pub rows: Vec<usize>,
    /// Gram matrix, row by row.
    pub gram: Vec<f64>,
    /// The number of working sets that contained each row of the problem.
    ages: Vec<u32>,
}

/// Marks a row that is not in the set.
const VACANT: usize = usize::MAX;

impl WorkingSet {
    /// An empty set for a problem of `n` rows.
    pub fn new(n: usize) -> Self {
        Self { rows: Vec::new(), gram: Vec::new(), ages: vec![0; n] }
    }

    /// Selects `size` of the `active` rows. First come up to half of the previous set: its free rows, then
    /// the rows that were in the fewest sets. Then come the rows that violate optimality most with respect to
    /// the bounds `low` and `high` of the gradients, alternately for steps up and steps down. The remaining
    /// places go to other rows of the previous set. The most violating pair is always included. Kernel values
    /// of the previous set are reused.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn reselect(
        &mut self,
        variables: &Variables,
        active: &[usize],
        (low, high): (f64, f64),
        size: usize,
        points: &Points<'_>,
        stop: &AtomicBool,
    ) -> Result<()> {
        let chosen = self.choose(variables, active, (low, high), size);
        chosen.iter().for_each(|&r| self.ages[r] += 1);
        let mut old_index = vec![VACANT; variables.len()];
        self.rows.iter().enumerate().for_each(|(index, &r)| old_index[r] = index);
        let (mut rows, fresh): (Vec<usize>, Vec<usize>) =
            chosen.into_iter().partition(|&r| old_index[r] != VACANT);
        rows.sort_unstable_by_key(|&r| old_index[r]);
        let (n_kept, old_size) = (rows.len(), self.rows.len());
        let old_indices = select(&old_index, &rows);
        rows.extend(fresh);
        let w = rows.len();
        let set = points.select(&rows);
        let new = set.rows_of(&set.select(&(n_kept..w).collect::<Vec<_>>()), stop)?;
        let mut gram = vec![0.0; w * w];
        for (row, &index) in gram.chunks_exact_mut(w).zip(&old_indices) {
            let old = &self.gram[index * old_size..(index + 1) * old_size];
            row.iter_mut().zip(&old_indices).for_each(|(k, &index)| *k = old[index]);
        }
        gram[n_kept * w..].copy_from_slice(&new);
        // Copies the same values by column, in tiles.
        const TILE: usize = 32;
        for from in (0..n_kept).step_by(TILE) {
            for first in (n_kept..w).step_by(TILE) {
                for i in from..(from + TILE).min(n_kept) {
                    for j in first..(first + TILE).min(w) {
                        gram[i * w + j] = gram[j * w + i];
                    }
                }
            }
        }
        (self.rows, self.gram) = (rows, gram);
        Ok(())
    }

    fn choose(
        &self,
        variables: &Variables,
        active: &[usize],
        (low, high): (f64, f64),
        size: usize,
    ) -> Vec<usize> {
        // The smallest key is the worst violator.
        let ranked = |key: &dyn Fn(usize) -> f64, bound: f64| {
            let mut violators: Vec<(f64, usize)> =
                active.iter().map(|&r| (key(r), r)).filter(|(key, _)| *key < bound).collect();
            let by_key = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            // More rows would not fit into the set.
            if violators.len() > size {
                violators.select_nth_unstable_by(size, by_key);
                violators.truncate(size);
            }
            violators.sort_unstable_by(by_key);
            violators.into_iter().map(|(_, r)| r)
        };
        let mut ups = ranked(&|r| variables.up_gradient(r), high);
        let mut downs = ranked(&|r| -variables.down_gradient(r), -low);
        let mut set =
            Selection { is_chosen: vec![true; variables.len()], rows: Vec::with_capacity(size), size };
        active.iter().for_each(|&r| set.is_chosen[r] = false);
        let mut last_set: Vec<usize> = self.rows.iter().copied().filter(|&r| !set.is_chosen[r]).collect();
        last_set.sort_unstable_by_key(|&r| (!variables.is_free(r), self.ages[r], r));
        set.push_next(&mut ups);
        set.push_next(&mut downs);
        last_set.iter().take(size / 2).for_each(|&r| set.add(r));
        while set.push_next(&mut ups) | set.push_next(&mut downs) {}
        last_set.iter().for_each(|&r| set.add(r));
        set.rows
    }
}

struct Selection {
    is_chosen: Vec<bool>,
    rows: Vec<usize>,
    size: usize,
}

impl Selection {
    fn add(&mut self, r: usize) {
        if !self.is_chosen[r] && self.rows.len() < self.size {
            self.is_chosen[r] = true;
            self.rows.push(r);
        }
    }

    /// Adds the next row that is not in the set; returns whether there was one and the set has room left.
    fn push_next(&mut self, from: &mut impl Iterator<Item = usize>) -> bool {
        let next = from.find(|&r| !self.is_chosen[r]);
        next.into_iter().for_each(|r| self.add(r));
        next.is_some() && self.rows.len() < self.size
    }
}
