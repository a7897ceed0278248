//! The variance game: the contribution of each player to the posterior variance of f(x).
//!
//! The value of a coalition S is the posterior variance of its value in the game,
//! `v(S) = Var(E_b f(x_S, b_-S))`, where b is a reference row. It is the variance of the base value for the
//! empty coalition, and the variance of f(x) for the grand coalition. Its Shapley values sum to the
//! difference. They say which features increase the uncertainty of the prediction when they are present, and
//! which reduce it.
//!
//! The posterior covariance is `s k - k(·, X) Q k(X, ·)`, with the kernel k, the prior scale s, the support
//! points X (n rows) and a matrix Q (n × n). It is bilinear, and a product over players for each pair of
//! summands of the coalition's value. So v is a sum of product games, `Π_{j∈S} a_j Π_{j∉S} c_j`, with factors
//! a_j of present and c_j of absent players. Their Shapley values are integrals of polynomials of degree
//! players - 1 (`∫ (a_j - c_j) Π_{q≠j} (t a_q + (1-t) c_q) dt`), which a Gauss rule with half as many nodes
//! integrates exactly. The game is riesz's own; Chau, Muandet and Sejdinovic 2023 consider the variance of
//! the values of a Gaussian process, by enumeration, not the values of the variance.

use rayon::prelude::*;

use super::ProductEngine;
use super::uncertainty::NO_PROJECTION;
use crate::attribution::rule::{InclusionMeasure, Node};
use crate::error::{Error, Result};
use crate::explainer::value_covariance::check_mirror;
use crate::game::{AbsentSide, ReferenceRows};
use crate::index::ValueIndex;
use crate::kernel::Columns;
use crate::kernel::player_products::PlayerProduct;
use crate::linalg::{Matrix, add_multiple};
use crate::posterior::Posterior;
use crate::table::Table;

/// The factors of absent players in a summand of a coalition's value.
struct AbsentProduct {
    /// The index of the product.
    product: usize,
    /// The index of the support point.
    point: usize,
    weight: f64,
    factors: Vec<f64>,
}

/// Sums the Shapley values of product games.
struct Sum<'n> {
    nodes: &'n [Node],
    before: Vec<f64>,
    /// Values of the players, then that of the empty coalition.
    values: Vec<f64>,
}

impl<'n> Sum<'n> {
    fn new(players: usize, nodes: &'n [Node]) -> Self {
        Self { nodes, before: vec![0.0; players + 1], values: vec![0.0; players + 1] }
    }

    /// Adds the game whose factors for player j, present and absent, are `factors(j)`.
    fn add(&mut self, weight: f64, factors: impl Fn(usize) -> (f64, f64)) {
        let p = self.before.len() - 1;
        for Node { t, s, weight: share, .. } in self.nodes {
            self.before[0] = weight * share;
            for j in 0..p {
                let (a, c) = factors(j);
                self.before[j + 1] = self.before[j] * (t * a + s * c);
            }
            let mut after = 1.0;
            for j in (0..p).rev() {
                let (a, c) = factors(j);
                self.values[j] += (a - c) * self.before[j] * after;
                after *= t * a + s * c;
            }
        }
        self.values[p] += weight * (0..p).map(|j| factors(j).1).product::<f64>();
    }
}

impl ProductEngine<'_> {
    /// Returns, for each output, the Shapley values of the variance, rows × (players + 1), with the variance
    /// of the base value in the last column. Cost for each row O((n · reference)² · players²), where the
    /// reference counts once if it is averaged factor by factor.
    pub(super) fn variances(&self, rows: &Table, posterior: &Posterior<'_>) -> Result<Vec<Matrix>> {
        let reference = self.absent.reference();
        if reference.is_none() && !self.products.iter().all(PlayerProduct::projects) {
            return Err(Error::parameter("game", self.game.name(), NO_PROJECTION));
        }
        if self.index != ValueIndex::Shapley {
            return Err(Error::parameter(
                "index",
                self.index,
                "shares of the variance exist for Shapley values only",
            ));
        }
        let data = rows.align_to(self.model.columns())?;
        let (mirror, precisions) = (posterior.mirror(), posterior.reduction_matrices()?);
        check_mirror(&self.groups, mirror)?;
        let (n, p) = (data.rows(), self.groups.players().len());
        let nodes = InclusionMeasure::Uniform.rule(p.div_ceil(2).max(1));
        let absent = self.absent_products()?;
        self.progress.start(n * precisions.len());
        let mut out = vec![Matrix::zeros(n, p + 1); self.model.outputs()];
        for r in 0..n {
            let x = data.row(r);
            let mut prior = self.of_prior_variance(&x, reference, None, nodes);
            if mirror.is_some() {
                let other = self.of_prior_variance(&x, reference, mirror, nodes);
                prior.iter_mut().zip(other).for_each(|(entry, other)| *entry -= other);
            }
            let present_factors = |absent: &AbsentProduct| {
                let point = self.model.support_points.row(absent.point);
                self.factors(&self.products[absent.product], &x, &point)
            };
            let present: Vec<Vec<f64>> = absent.iter().map(present_factors).collect();
            for (k, precision) in precisions.iter().enumerate() {
                let reduction_of_pair = |a: usize| -> Result<Vec<f64>> {
                    self.control().check_cancelled()?;
                    let mut sum = Sum::new(p, nodes);
                    for b in a..absent.len() {
                        let (first, other) = (&absent[a], &absent[b]);
                        // A pair represents both of its orders.
                        let multiplicity = if a == b { 1.0 } else { 2.0 };
                        let weight = multiplicity
                            * first.weight
                            * other.weight
                            * precision[(first.point, other.point)];
                        let factors =
                            |j: usize| (present[a][j] * present[b][j], first.factors[j] * other.factors[j]);
                        sum.add(weight, factors);
                    }
                    Ok(sum.values)
                };
                let pair_reductions =
                    (0..absent.len()).into_par_iter().map(reduction_of_pair).collect::<Result<Vec<_>>>()?;
                self.control().step();
                for (o, scale) in posterior.scales(k) {
                    for j in 0..=p {
                        let reduction: f64 = pair_reductions.iter().map(|reduction| reduction[j]).sum();
                        out[o][(r, j)] = scale * scale * (posterior.prior_scale() * prior[j] - reduction);
                    }
                }
            }
        }
        match out.iter().flat_map(Matrix::data).all(|v| v.is_finite()) {
            true => Ok(out),
            false => Err(Error::overflow(
                "a share of a variance",
                "rows are too far from the data the model was fitted on",
            )),
        }
    }

    /// Returns the Shapley values of the prior variance of the coalitions' values, then that of the empty
    /// coalition. With a `mirror` that swaps columns on one side, returns the part that is subtracted for a
    /// skew f.
    fn of_prior_variance(
        &self,
        x: &[f64],
        reference: Option<&ReferenceRows>,
        mirror: Option<&[usize]>,
        nodes: &[Node],
    ) -> Vec<f64> {
        let other =
            |row: &[f64]| mirror.map_or_else(|| row.to_vec(), |m| m.iter().map(|&j| row[j]).collect());
        let p = self.groups.players().len();
        let mut sum = Sum::new(p, nodes);
        for product in &self.products {
            let present = self.factors(product, x, &other(x));
            let Some(ReferenceRows { rows, weights }) = reference else {
                sum.add(product.scale, |j| (present[j], 1.0));
                continue;
            };
            if matches!(self.absent, AbsentSide::Means(_)) {
                let mut mean = vec![0.0; p];
                for (b, c) in (0..rows.len()).flat_map(|b| (0..rows.len()).map(move |c| (b, c))) {
                    let factors = self.factors(product, &rows[b], &other(&rows[c]));
                    mean.iter_mut().zip(factors).for_each(|(m, f)| *m += weights[b] * weights[c] * f);
                }
                sum.add(product.scale, |j| (present[j], mean[j]));
                continue;
            }
            for b in 0..rows.len() {
                for c in b..rows.len() {
                    let times = if b == c { 1.0 } else { 2.0 };
                    let absent = self.factors(product, &rows[b], &other(&rows[c]));
                    sum.add(times * product.scale * weights[b] * weights[c], |j| (present[j], absent[j]));
                }
            }
        }
        sum.values
    }

    /// Returns the factors of all players between two rows, 1 for players that the product does not contain.
    fn factors(&self, product: &PlayerProduct<'_>, u: &[f64], v: &[f64]) -> Vec<f64> {
        let mut out = vec![1.0; self.groups.players().len()];
        for (k, &j) in product.players.iter().enumerate() {
            product.factor(self.isa, k, Columns::new(u, 1, 0, 1), v, std::slice::from_mut(&mut out[j]));
        }
        out
    }

    /// Returns, for each product and support point, the factors of absent players and their weight.
    fn absent_products(&self) -> Result<Vec<AbsentProduct>> {
        let (mut out, players) = (Vec::new(), self.groups.players().len());
        for (t, product) in self.products.iter().enumerate() {
            for point in 0..self.model.support_points.rows() {
                self.control().check_cancelled()?;
                let row = self.model.support_points.row(point);
                let factors_at = |b: &Vec<f64>| self.factors(product, b, &row);
                let weighted_factors: Vec<(f64, Vec<f64>)> = match &self.absent {
                    AbsentSide::Ones => vec![(1.0, vec![1.0; players])],
                    AbsentSide::Rows(ReferenceRows { rows, weights }) => {
                        weights.iter().copied().zip(rows.iter().map(factors_at)).collect()
                    }
                    AbsentSide::Means(ReferenceRows { rows, weights }) => {
                        let mut mean = vec![0.0; players];
                        for (b, weight) in rows.iter().zip(weights) {
                            add_multiple(&mut mean, *weight, &factors_at(b));
                        }
                        // Weights sum to 1 up to rounding, so factors of 1 are set exactly.
                        (0..players).filter(|j| !product.players.contains(j)).for_each(|j| mean[j] = 1.0);
                        vec![(1.0, mean)]
                    }
                };
                out.extend(weighted_factors.into_iter().map(|(weight, factors)| AbsentProduct {
                    product: t,
                    point,
                    weight: product.scale * weight,
                    factors,
                }));
            }
        }
        Ok(out)
    }
}
