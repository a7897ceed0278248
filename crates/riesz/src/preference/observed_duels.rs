//! Observed duels: the likelihood of their outcomes, and the pairs of items that support a model.

use std::collections::BTreeMap;

use super::duels::Duels;
use super::pair_kernel::{ItemGrams, Pair, PairKernel, wide_rows_in};
use super::teams::ItemBags;
use crate::error::Result;
use crate::gp::likelihood::logistic::LogisticLikelihood;
use crate::kernel::Kernel;
use crate::table::Table;

/// Points of a model with their weights.
type SparseWeights = Vec<(usize, f64)>;

/// The data of a model of duels.
pub(super) struct ObservedDuels<'d> {
    pub items: &'d Table,
    pub bags: Option<&'d ItemBags>,
    pub duels: &'d Duels,
}

impl ObservedDuels<'_> {
    /// Returns the likelihood of the outcomes given the log odds, with a margin of ties if there is one.
    pub fn likelihood(&self, margin: Option<f64>) -> LogisticLikelihood {
        let mut likelihood =
            LogisticLikelihood::from_fractions(self.duels.outcome(), Some(self.duels.weight()));
        if let Some(margin) = margin {
            // The outcome ½ already counts half of a tie for each side; the other halves are added here.
            for (i, tied) in self.duels.ties().iter().enumerate() {
                likelihood.up[i] += 0.5 * tied;
                likelihood.down[i] += 0.5 * tied;
            }
            (likelihood.margin, likelihood.ties) = (margin, self.duels.ties().iter().sum());
        }
        likelihood
    }

    /// Returns the matrices from which the covariance of these duels is computed.
    pub fn item_grams(&self, prior: &PairKernel) -> ItemGrams {
        let contexts = prior.contexts.as_ref().zip(self.duels.contexts());
        let gram_of = |k: &Kernel| {
            let gram = k.gram(self.items);
            if let Some(bags) = self.bags { bags.to_bags(&gram) } else { gram }
        };
        ItemGrams {
            items: gram_of(&prior.items),
            extra_utility_kernel: prior.extra_utility_kernel.as_ref().map(gram_of),
            contexts: contexts.map(|(context_kernel, contexts)| context_kernel.kernel.gram(&contexts.table)),
        }
    }

    /// Returns the support points of a model, each pair of items in both orders, and for each compared pair
    /// the points and shares of its members. The function changes its sign with the order, so each share
    /// occurs with both signs.
    pub fn support_pairs(&self) -> Result<(Table, Vec<SparseWeights>)> {
        let duels = self.duels;
        let members = |side: usize| -> Vec<(usize, f64)> {
            self.bags.map_or_else(|| vec![(side, 1.0)], |bags| bags.members(side).collect())
        };
        let mut first_points: BTreeMap<(Pair, usize), usize> = BTreeMap::new();
        let mut shares_by_pair: Vec<Vec<((Pair, usize), f64)>> = Vec::new();
        for (i, &(l, r)) in duels.pairs().iter().enumerate() {
            let context = duels.contexts().map_or(0, |c| c.rows[i]);
            let (left, right) = (members(l), members(r));
            let pairs = left.iter().flat_map(|a| right.iter().map(move |b| (*a, *b)));
            // An item does not meet itself.
            let pairs = pairs.filter(|((a, _), (b, _))| a != b).map(|((a, m), (b, q))| {
                let (pair, sign) = if a < b { ((a, b), 1.0) } else { ((b, a), -1.0) };
                ((pair, context), sign * m * q)
            });
            shares_by_pair.push(pairs.collect());
            first_points.extend(shares_by_pair[i].iter().map(|(key, _)| (*key, 0)));
        }
        first_points.values_mut().enumerate().for_each(|(index, point)| *point = 2 * index);
        let ordered_pairs: Vec<Pair> =
            first_points.keys().flat_map(|&((a, b), _)| [(a, b), (b, a)]).collect();
        let contexts = duels.contexts().map(|c| {
            let rows: Vec<usize> = first_points.keys().flat_map(|&(_, context)| [context; 2]).collect();
            c.table.select_rows(&rows)
        });
        let points = wide_rows_in(self.items, &ordered_pairs, contexts.as_ref())?;
        let point_shares = shares_by_pair.iter().map(|shares| {
            shares
                .iter()
                .flat_map(|(key, share)| [(first_points[key], *share), (first_points[key] + 1, -share)])
                .collect()
        });
        Ok((points, point_shares.collect()))
    }
}
