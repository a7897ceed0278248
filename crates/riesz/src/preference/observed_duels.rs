//! Duels as a model of them is made of: what their outcomes say, and which pairs of items it takes to tell
//! them apart.

use std::collections::BTreeMap;

use super::duels::Duels;
use super::pair_kernel::{ItemGrams, Pair, PairKernel, wide_rows_in};
use super::teams::ItemBags;
use crate::error::Result;
use crate::fit::laplace::LogisticLikelihood;
use crate::kernel::Kernel;
use crate::table::Table;

/// Points of a model and how much each counts.
type SparseWeights = Vec<(usize, f64)>;

/// What is learnt from.
pub(super) struct ObservedDuels<'d> {
    pub items: &'d Table,
    pub bags: Option<&'d ItemBags>,
    pub duels: &'d Duels,
}

impl ObservedDuels<'_> {
    /// What the duels' outcomes say of log odds, with a margin of ties if they have one.
    pub fn likelihood(&self, margin: Option<f64>) -> LogisticLikelihood {
        let mut all = LogisticLikelihood::from_fractions(self.duels.outcome(), Some(self.duels.weight()));
        if let Some(margin) = margin {
            // Half of a tie is there as half a win; each side gets the other half.
            for (i, tied) in self.duels.ties().iter().enumerate() {
                all.up[i] += 0.5 * tied;
                all.down[i] += 0.5 * tied;
            }
            (all.margin, all.ties) = (margin, self.duels.ties().iter().sum());
        }
        all
    }

    /// The matrices that the covariance of these duels is made of.
    pub fn item_grams(&self, prior: &PairKernel) -> ItemGrams {
        let contexts = prior.contexts.as_ref().zip(self.duels.contexts());
        let of = |k: &Kernel| {
            let gram = k.gram(self.items);
            self.bags.map_or_else(|| gram.clone(), |bags| bags.to_bags(&gram))
        };
        ItemGrams {
            items: of(&prior.items),
            extra_utility_kernel: prior.extra_utility_kernel.as_ref().map(of),
            contexts: contexts.map(|(own, contexts)| own.kernel.gram(&contexts.table)),
        }
    }

    /// The points of a model, each pair of items as it is and then the other way round, and of each pair that
    /// met its members' points and shares: g changes its sign, so a share counts once with either sign.
    pub fn support_pairs(&self) -> Result<(Table, Vec<SparseWeights>)> {
        let duels = self.duels;
        let members = |of: usize| -> Vec<(usize, f64)> {
            self.bags.map_or_else(|| vec![(of, 1.0)], |bags| bags.members(of).collect())
        };
        let mut all: BTreeMap<(Pair, usize), usize> = BTreeMap::new();
        let mut own: Vec<Vec<((Pair, usize), f64)>> = Vec::new();
        for (i, &(l, r)) in duels.pairs().iter().enumerate() {
            let context = duels.contexts().map_or(0, |c| c.rows[i]);
            let (left, right) = (members(l), members(r));
            let pairs = left.iter().flat_map(|a| right.iter().map(move |b| (*a, *b)));
            // Nobody beats himself.
            let pairs = pairs.filter(|((a, _), (b, _))| a != b).map(|((a, m), (b, q))| {
                let (pair, sign) = if a < b { ((a, b), 1.0) } else { ((b, a), -1.0) };
                ((pair, context), sign * m * q)
            });
            own.push(pairs.collect());
            all.extend(own[i].iter().map(|(key, _)| (*key, 0)));
        }
        all.values_mut().enumerate().for_each(|(place, point)| *point = 2 * place);
        let both: Vec<Pair> = all.keys().flat_map(|&((a, b), _)| [(a, b), (b, a)]).collect();
        let contexts = duels.contexts().map(|c| {
            let rows: Vec<usize> = all.keys().flat_map(|&(_, context)| [context; 2]).collect();
            c.table.select_rows(&rows)
        });
        let points = wide_rows_in(self.items, &both, contexts.as_ref())?;
        let sums = own.iter().map(|own| {
            own.iter().flat_map(|(key, share)| [(all[key], *share), (all[key] + 1, -share)]).collect()
        });
        Ok((points, sums.collect()))
    }
}
