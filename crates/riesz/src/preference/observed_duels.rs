//! Observed duels: the likelihood of their outcomes, and the pairs of items that support a model.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use super::choices::PairChoices;
use super::duels::Duels;
use super::pair_kernel::{ItemGrams, Pair, PairKernel, wide_rows_in};
use super::teams::{Competitors, ItemBags};
use crate::error::Result;
use crate::fit::Penalty;
use crate::gp::inference::Inference;
use crate::gp::laplace::{self, GaussianApproximation, JointCovariance, PosteriorMode};
use crate::gp::likelihood::choices::ChoiceLikelihood;
use crate::gp::likelihood::logistic::LogisticLikelihood;
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, Sparse};
use crate::posterior::VarianceReduction;
use crate::table::Table;

/// Points of a model with their weights.
pub(super) type SparseWeights = Vec<(usize, f64)>;

/// The data of a model of duels.
pub(super) struct ObservedDuels<'d> {
    pub items: &'d Table,
    pub bags: Option<&'d ItemBags>,
    pub duels: &'d Duels,
    /// The likelihood of choices, instead of that of the outcomes of `duels`.
    pub choices: Option<&'d ChoiceLikelihood>,
}

/// Duels without the items and bags that have none, which contain no information.
pub(super) struct UsedDuels {
    items: Table,
    bags: Option<ItemBags>,
    duels: Duels,
}

impl UsedDuels {
    /// Selects the competitors that have duels.
    pub fn select(competitors: Competitors<'_>, duels: &Duels) -> Result<Self> {
        let (used, duels) = duels.without_unused_items();
        let (used, bags) = match competitors.bags {
            None => (used, None),
            Some(bags) => bags.select(&used).map(|(items, bags)| (items, Some(bags)))?,
        };
        Ok(Self { items: competitors.items.select_rows(&used), bags, duels })
    }

    /// Returns the data of a model.
    pub fn data(&self) -> ObservedDuels<'_> {
        let competitors = Competitors { items: &self.items, bags: self.bags.as_ref() };
        ObservedDuels::between(competitors, &self.duels)
    }
}

/// The posterior mode of the log odds of the compared pairs, as in
/// [`PosteriorMode`](crate::gp::laplace::PosteriorMode).
pub(super) struct PairMode {
    pub alpha: Vec<f64>,
    pub value: f64,
    pub factor: Cholesky,
    /// The matrix S (pairs × observations).
    pub root: Sparse,
}

impl PairMode {
    /// Returns the reduction of the prior variance for a model with this number of support points, of which
    /// each compared pair has shares.
    pub fn reduction(self, point_shares: &[SparseWeights], points: usize) -> Result<VarianceReduction> {
        let weighted_shares = (0..self.root.cols()).map(|observation| {
            let pairs = self.root.column(observation);
            pairs.flat_map(|(pair, root)| point_shares[pair].iter().map(move |(point, s)| (*point, root * s)))
        });
        let operator = Some(Sparse::from_columns(points, weighted_shares)?);
        Ok(VarianceReduction::CholeskyInverse { operator, factor: self.factor })
    }

    /// Returns the reduction of the prior variance with a penalty, where this is the mode with the penalty.
    /// `K` is the prior covariance of the pairs. With the likelihood at this mode, the reduction without the
    /// penalty is `S B⁻¹ Sᵀ`, where `B = I + Sᵀ K S`.
    pub fn penalised_reduction(
        self,
        point_shares: &[SparseWeights],
        points: usize,
        gram: Matrix,
        penalty: &Penalty,
    ) -> Result<VarianceReduction> {
        let mut system = self.root.transpose_times(&self.root.transpose_times(&gram).transpose());
        system.add_diagonal(|_| 1.0);
        let factor = Cholesky::new(system, "posterior of the compared pairs")?;
        let unpenalised = VarianceReduction::CholeskyInverse { operator: Some(self.root), factor };
        let factor = penalty.conditioned_root(gram, 0.5, unpenalised.root()?)?;
        let shares = point_shares.iter().map(|shares| shares.iter().copied());
        Ok(VarianceReduction::ThroughOperator { operator: Sparse::from_columns(points, shares)?, factor })
    }
}

impl<'d> ObservedDuels<'d> {
    /// Returns duels between the rows of `items`.
    pub fn new(items: &'d Table, duels: &'d Duels) -> Self {
        Self { items, bags: None, duels, choices: None }
    }

    /// Returns duels between items or bags.
    pub fn between(competitors: Competitors<'d>, duels: &'d Duels) -> Self {
        Self { bags: competitors.bags, ..Self::new(competitors.items, duels) }
    }

    /// Returns choices between the rows of `items`.
    pub fn of_choices(items: &'d Table, choices: &'d PairChoices) -> Self {
        Self { choices: Some(&choices.likelihood), ..Self::new(items, &choices.duels) }
    }

    /// Returns the posterior mode under a prior covariance of the compared pairs.
    ///
    /// # Errors
    /// As [`Inference::approximate`] and [`laplace::joint_mode`].
    pub fn mode(
        &self,
        inference: Inference,
        gram: &Matrix,
        margin: Option<f64>,
        warm_start: Option<&[f64]>,
        stop: &AtomicBool,
    ) -> Result<PairMode> {
        if let Some(likelihood) = self.choices {
            let mode = laplace::joint_mode(&JointCovariance(gram), likelihood, warm_start, stop)?;
            let PosteriorMode { alpha, value, factor, root, .. } = mode;
            return Ok(PairMode { alpha, value, factor, root });
        }
        let mode = inference.approximate(gram, &self.likelihood(margin), warm_start, stop)?;
        let GaussianApproximation { alpha, value, factor, root_weight, .. } = mode;
        Ok(PairMode { alpha, value, factor, root: Sparse::diagonal(root_weight) })
    }

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
        let competitors = Competitors { items: self.items, bags: self.bags };
        let mut first_points: BTreeMap<(Pair, usize), usize> = BTreeMap::new();
        let mut shares_by_pair: Vec<Vec<((Pair, usize), f64)>> = Vec::new();
        for (i, &(l, r)) in duels.pairs().iter().enumerate() {
            let context = duels.contexts().map_or(0, |c| c.rows[i]);
            let (left, right) = (competitors.members(l), competitors.members(r));
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
