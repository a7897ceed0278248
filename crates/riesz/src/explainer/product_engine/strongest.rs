//! The largest pair interactions under a model's product games: a search for each row and output.

use rayon::prelude::*;

use super::ProductEngine;
use super::terms::RowBatches;
use crate::attribution::index_computation::IndexComputation;
use crate::attribution::top_pair_search::{STEPS, SearchLimits, top_pairs};
use crate::error::Result;
use crate::explanation::{Pair, TopInteractions};
use crate::table::Table;

impl ProductEngine<'_> {
    /// The pairs with the largest interactions of each row, where the index gives values to pairs alone and
    /// the kernel is a sum of products; `None` elsewhere.
    pub(super) fn search_pairs(&self, rows: &Table, limits: SearchLimits) -> Result<Option<TopInteractions>> {
        let Some(averages) =
            IndexComputation::from(self.index).pair_weighting().filter(|_| self.powers.is_empty())
        else {
            return Ok(None);
        };
        let data = rows.align_to(self.model.columns())?;
        self.check_base()?;
        let (n, m, p) = (data.rows(), self.model.outputs(), self.groups.players().len());
        self.progress.start(n * m * STEPS);
        let search = |game: usize| {
            let row = data.select_rows(&[game / m]);
            let batch = RowBatches { explainer: self, data: &row, batch: 1 };
            let strongest = top_pairs(&batch, (self.isa, &averages), self.control(), (p, game % m), limits)?;
            let finite = strongest.bound.is_finite()
                && strongest.pairs.iter().all(|Pair { value, .. }| value.is_finite());
            if finite { Ok(strongest) } else { Err(self.overflow_error(&data, game / m)) }
        };
        let strongest = (0..n * m).into_par_iter().with_max_len(1).map(search).collect::<Result<_>>()?;
        Ok(Some(TopInteractions {
            index: self.index,
            players: self.groups.players().to_vec(),
            output_names: self.model.output_names.clone(),
            by_game: strongest,
            row_numbers: (0..n).collect(),
            provenance: self.provenance(),
        }))
    }
}
