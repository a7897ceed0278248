//! Conditional means, which depend on the explained rows: absent columns follow their distribution given the
//! present columns of the same part.

use std::collections::HashMap;

use rayon::prelude::*;

use super::IndependentPartsEngine;
use super::absent_means::{DomainMeans, Source};
use super::part_game::PartGame;
use crate::attribution::coalition_tables::restricted_coalition;
use crate::attribution::part_coalition_values::in_blocks;
use crate::control::check_cancelled;
use crate::embedding::{ConditionalMeanEmbeddings, QueriedRows, multiply, split};
use crate::error::Result;
use crate::kernel::player_products::PlayerProduct;
use crate::linalg::Matrix;
use crate::simd::Lanes;
use crate::table::Table;

/// Means over the absent columns given the present columns of the explained rows, for one source.
pub(super) struct ConditionalMeans {
    /// The index of each distinct row.
    pub(super) numbers: HashMap<Vec<u64>, usize>,
    /// For each domain mean, product and row, blocks × rows; empty for the domain means of other sources.
    pub(super) means: Vec<Vec<Vec<Vec<Lanes>>>>,
    /// For each row: the largest sum of absolute weights, and the largest absolute error of a mean of factors
    /// 1.
    pub(super) mean_errors: Vec<[f64; 2]>,
}

/// For each domain mean and product, the means given a coalition (rows × support points), `None` if all
/// columns are present; and for each row the entry of [`ConditionalMeans::mean_errors`].
pub(super) type CoalitionMeans = (Option<Vec<Vec<Matrix>>>, Vec<[f64; 2]>);

/// For each product and player, the factor between reference rows and support points.
pub(super) type ProductFactors = Vec<Vec<Vec<f64>>>;

impl IndependentPartsEngine<'_> {
    /// Returns, for each source, the means that depend on these rows; `None` for sources without conditional
    /// means.
    pub(super) fn conditional_means_of_rows(
        &self,
        rows: &[Vec<f64>],
    ) -> Result<Vec<Option<ConditionalMeans>>> {
        let source_means = |(s, source): (usize, &Source)| {
            let Some(means) = &source.conditional else { return Ok(None) };
            let (numbers, distinct) = self.game.distinct_rows(s, rows);
            self.conditional_means_of_source(s, means, numbers, &distinct).map(Some)
        };
        self.game.sources.iter().enumerate().map(source_means).collect()
    }

    /// Returns the means given each coalition's columns, for the distinct rows of source `s`.
    pub(super) fn conditional_means_of_source(
        &self,
        s: usize,
        means: &ConditionalMeanEmbeddings,
        numbers: HashMap<Vec<u64>, usize>,
        distinct: &[Vec<f64>],
    ) -> Result<ConditionalMeans> {
        let (source, players) = (&self.game.sources[s], self.game.active_players());
        let part_players: Vec<usize> = (0..players).filter(|p| source.owner.contains(p)).collect();
        let x = Table::from_named_rows(means.learnt().rows.columns().to_vec(), distinct)?;
        let x = means.queried_rows(&x, &self.game.stop)?;
        let factors = self.game.reference_factors(s, &part_players)?;
        let coalition_means = |coalition: usize| {
            let present: Vec<bool> = (0..part_players.len()).map(|k| coalition >> k & 1 == 1).collect();
            self.game.coalition_means(means, &present, &x, &factors)
        };
        let means_by_coalition: Vec<CoalitionMeans> = (0..1_usize << part_players.len())
            .into_par_iter()
            .with_max_len(1)
            .map(coalition_means)
            .collect::<Result<_>>()?;
        let of_row = |g: usize, q: usize, r: usize| {
            let rows = self.game.domain(&self.game.domain_means[g]).rows.rows();
            let without_absent_columns = vec![1.0; rows];
            in_blocks(players, rows, |coalition| {
                let means = match &means_by_coalition[restricted_coalition(coalition, &part_players)].0 {
                    Some(coalition_means) => coalition_means[g][q].row(r),
                    None => &without_absent_columns[..],
                };
                move |row: usize| means[row]
            })
        };
        let domain_means = |g: usize| -> Vec<Vec<Vec<Lanes>>> {
            let product = |q: usize| (0..distinct.len()).into_par_iter().map(|r| of_row(g, q, r)).collect();
            (0..factors[g].len()).map(product).collect()
        };
        let means = (0..self.game.domain_means.len()).map(domain_means).collect();
        let largest = |r: usize| {
            means_by_coalition.iter().fold([1.0_f64, 0.0], |max_sizes, (_, weight_sizes)| {
                [max_sizes[0].max(weight_sizes[r][0]), max_sizes[1].max(weight_sizes[r][1])]
            })
        };
        Ok(ConditionalMeans { numbers, means, mean_errors: (0..distinct.len()).map(largest).collect() })
    }
}

impl PartGame<'_> {
    /// Returns the factors between the reference rows of source `s` and the support points, by domain mean,
    /// product and player of the part.
    pub(super) fn reference_factors(&self, s: usize, part_players: &[usize]) -> Result<Vec<ProductFactors>> {
        let players = self.active_players();
        let domain_factors = |ground: &DomainMeans| -> Result<ProductFactors> {
            if ground.source != Some(s) {
                return Ok(Vec::new());
            }
            let domain = self.domain(ground);
            let rows = Table::from_named_rows(domain.rows.columns().to_vec(), &ground.rows)?;
            let product_factors = |product: &PlayerProduct<'_>| -> Vec<Vec<f64>> {
                let kernels = product.kernels(players);
                part_players.iter().map(|&p| kernels[p].cross_gram(&rows, &domain.rows).into_data()).collect()
            };
            Ok(ground.products(domain)?.iter().map(product_factors).collect())
        };
        self.domain_means.iter().map(domain_factors).collect()
    }

    /// Returns the means given the columns of a coalition of the part's players, for the rows of `x`.
    pub(super) fn coalition_means(
        &self,
        means: &ConditionalMeanEmbeddings,
        present: &[bool],
        x: &QueriedRows,
        factors: &[ProductFactors],
    ) -> Result<CoalitionMeans> {
        check_cancelled(&self.stop)?;
        if !present.contains(&false) {
            return Ok((None, vec![[1.0, 0.0]; x.count()]));
        }
        // Rows × reference rows.
        let weights = means.row_weights_at(present, x, &self.stop)?;
        let reference = weights.matrix.cols();
        let root = (reference as f64).sqrt();
        let length = |r: usize| weights.matrix.row(r).iter().map(|weight| weight.abs()).sum::<f64>();
        let weight_sizes = (0..x.count()).map(|r| [length(r).max(1.0), root * weights.error[r]]).collect();
        let product_means = |factors: &Vec<Vec<f64>>| {
            let rows = factors.first().map_or(0, |factor| factor.len() / reference);
            let mut absent = vec![0.0; rows * reference];
            multiply(&split(factors, present, false), 0..rows * reference, &mut absent);
            weights.matrix.matmul(&Matrix::from_row_major(reference, rows, absent))
        };
        let domain_means = factors.iter().map(|products| products.iter().map(product_means).collect());
        Ok((Some(domain_means.collect()), weight_sizes))
    }
}
