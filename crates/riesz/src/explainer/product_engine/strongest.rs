//! The strongest interactions of pairs under a model's product games: a search for each row and output.

use rayon::prelude::*;

use super::ProductEngine;
use super::terms::Batches;
use crate::attribution::index_computation::IndexComputation;
use crate::attribution::top_pair_search::{STEPS, SearchLimits, top_pairs};
use crate::error::Result;
use crate::explanation::{Pair, TopInteractions};
use crate::table::Table;

impl ProductEngine<'_> {
    /// The strongest pairs of each row, where the index gives values to pairs alone and the kernel is a sum
    /// of products; `None` elsewhere.
    pub(in super::super) fn strongest(
        &self,
        rows: &Table,
        wanted: SearchLimits,
    ) -> Result<Option<TopInteractions>> {
        let Some(averages) =
            IndexComputation::from(self.index).pair_weighting().filter(|_| self.powers.is_empty())
        else {
            return Ok(None);
        };
        let data = rows.align_to(self.model.columns())?;
        self.check_base()?;
        let (n, m, p) = (data.rows(), self.model.outputs(), self.groups.players().len());
        self.progress.start(n * m * STEPS);
        let one = |game: usize| {
            let row = data.select_rows(&[game / m]);
            let batch = Batches { explainer: self, data: &row, batch: 1 };
            let found = top_pairs(&batch, (self.isa, &averages), self.watch(), (p, game % m), wanted)?;
            let finite =
                found.bound.is_finite() && found.pairs.iter().all(|Pair { value, .. }| value.is_finite());
            if finite { Ok(found) } else { Err(self.overflow_error(&data, game / m)) }
        };
        let found = (0..n * m).into_par_iter().with_max_len(1).map(one).collect::<Result<_>>()?;
        Ok(Some(TopInteractions {
            index: self.index,
            players: self.groups.players().to_vec(),
            output_names: self.model.output_names.clone(),
            found,
            row_numbers: (0..n).collect(),
            provenance: self.provenance(),
        }))
    }
}
