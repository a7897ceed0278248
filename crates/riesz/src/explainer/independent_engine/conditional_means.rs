//! Means that depend on the explained rows: absent columns follow their distribution given the present
//! columns of the same part.

use std::collections::HashMap;

use rayon::prelude::*;

use super::IndependentPartsEngine;
use super::absent_means::{DomainMeans, Source};
use crate::attribution::part_coalition_values::in_blocks;
use crate::control::check_cancelled;
use crate::embedding::{ConditionalMeanEmbeddings, multiply, split};
use crate::error::Result;
use crate::kernel::player_products::PlayerProduct;
use crate::kernel_model::parts::key;
use crate::linalg::Matrix;
use crate::simd::Lanes;
use crate::table::Table;

/// Means given the present columns of rows, for one source.
pub(super) struct ConditionalMeans {
    /// The index of each distinct row.
    pub(super) numbers: HashMap<Vec<u64>, usize>,
    /// For each domain mean, product and row, blocks × rows; empty for domain means of other sources.
    pub(super) means: Vec<Vec<Vec<Vec<Lanes>>>>,
    /// For each row: the largest sum of absolute weights, and the largest absolute error of a mean of factors
    /// of 1.
    pub(super) mean_errors: Vec<[f64; 2]>,
}

/// For each domain mean and product the means given a coalition (rows × support points), none where all
/// columns are present; and for each row the entry of [`ConditionalMeans::mean_errors`].
pub(super) type CoalitionMeans = (Option<Vec<Vec<Matrix>>>, Vec<[f64; 2]>);

impl IndependentPartsEngine<'_> {
    /// For each source, the means that depend on these rows.
    pub(super) fn conditional_means_of_rows(
        &self,
        rows: &[Vec<f64>],
    ) -> Result<Vec<Option<ConditionalMeans>>> {
        let source_means = |(s, source): (usize, &Source)| {
            let Some(means) = &source.conditional else { return Ok(None) };
            let (mut numbers, mut distinct) = (HashMap::new(), Vec::new());
            for x in rows {
                for (columns, _) in
                    self.columns.iter().zip(&self.source_of_part).filter(|(_, from)| **from == Some(s))
                {
                    let part_values: Vec<f64> = columns.iter().map(|&j| x[j]).collect();
                    numbers.entry(key(&part_values)).or_insert_with(|| {
                        distinct.push(part_values);
                        distinct.len() - 1
                    });
                }
            }
            self.given_of(s, means, numbers, &distinct).map(Some)
        };
        self.sources.iter().enumerate().map(source_means).collect()
    }

    /// Means given each coalition's columns, for rows of one source.
    pub(super) fn given_of(
        &self,
        s: usize,
        means: &ConditionalMeanEmbeddings,
        numbers: HashMap<Vec<u64>, usize>,
        distinct: &[Vec<f64>],
    ) -> Result<ConditionalMeans> {
        let (source, players) = (&self.sources[s], self.active_players());
        let part_players: Vec<usize> = (0..players).filter(|p| source.owner.contains(p)).collect();
        let columns = means.learnt().rows.columns().to_vec();
        let reference = source.reference.rows.len();
        let values = (0..columns.len()).flat_map(|j| distinct.iter().map(move |x| x[j])).collect();
        let x = Table::from_column_major(columns, distinct.len(), values)?;
        // Factors between reference rows and support points: by domain mean, product and player of the part.
        let between = |ground: &DomainMeans| -> Result<Vec<Vec<Vec<f64>>>> {
            if ground.source != Some(s) {
                return Ok(Vec::new());
            }
            let domain = self.domain(ground);
            let values = (0..domain.rows.width()).flat_map(|j| ground.rows.iter().map(move |row| row[j]));
            let names = domain.rows.columns().to_vec();
            let rows = Table::from_column_major(names, reference, values.collect())?;
            let product_factors = |product: &PlayerProduct<'_>| -> Vec<Vec<f64>> {
                let kernels = product.kernels(players);
                part_players
                    .iter()
                    .map(|&p| kernels[p].cross_gram(&rows, &domain.rows).data().to_vec())
                    .collect()
            };
            Ok(ground.products(domain)?.iter().map(product_factors).collect())
        };
        let between: Vec<_> = self.domain_means.iter().map(between).collect::<Result<_>>()?;
        // For each coalition of the part's players: the means by domain mean and product, and the weights'
        // sizes.
        let coalition_means = |coalition: usize| {
            check_cancelled(&self.stop)?;
            let present: Vec<bool> = (0..part_players.len()).map(|k| coalition >> k & 1 == 1).collect();
            if !present.contains(&false) {
                return Ok((None, vec![[1.0, 0.0]; distinct.len()]));
            }
            let weights = means.weights(&present, &x, &self.stop)?;
            let root = (reference as f64).sqrt();
            let length = |r: usize| (0..reference).map(|b| weights.matrix[(b, r)].abs()).sum::<f64>();
            let weight_sizes =
                (0..distinct.len()).map(|r| [length(r).max(1.0), root * weights.error[r]]).collect();
            // Rows × reference rows.
            let by_row = weights.matrix.transpose();
            let product_means = |factors: &Vec<Vec<f64>>| {
                let rows = factors.first().map_or(0, |factor| factor.len() / reference);
                let mut absent = vec![0.0; rows * reference];
                multiply(&split(factors, &present, false), 0..rows * reference, &mut absent);
                by_row.matmul(&Matrix::from_row_major(reference, rows, absent))
            };
            let means_of_domains: Vec<Vec<Matrix>> = between
                .iter()
                .map(|domain_factors| domain_factors.iter().map(product_means).collect())
                .collect();
            Ok((Some(means_of_domains), weight_sizes))
        };
        let means_by_coalition: Vec<CoalitionMeans> = (0..1_usize << part_players.len())
            .into_par_iter()
            .with_max_len(1)
            .map(coalition_means)
            .collect::<Result<_>>()?;
        let part_coalition = |coalition: usize| {
            part_players.iter().enumerate().map(|(k, p)| (coalition >> p & 1) << k).sum::<usize>()
        };
        let of_row = |g: usize, q: usize, r: usize| {
            in_blocks(players, self.domain(&self.domain_means[g]).rows.rows(), |coalition, out| {
                match &means_by_coalition[part_coalition(coalition)].0 {
                    Some(coalition_means) => out.copy_from_slice(coalition_means[g][q].row(r)),
                    None => out.fill(1.0),
                }
            })
        };
        let domain_means = |g: usize| -> Vec<Vec<Vec<Lanes>>> {
            let product = |q: usize| (0..distinct.len()).into_par_iter().map(|r| of_row(g, q, r)).collect();
            (0..between[g].len()).map(product).collect()
        };
        let means = (0..self.domain_means.len()).map(domain_means).collect();
        let largest = |r: usize| {
            means_by_coalition.iter().fold([1.0_f64, 0.0], |max_sizes, (_, weight_sizes)| {
                [max_sizes[0].max(weight_sizes[r][0]), max_sizes[1].max(weight_sizes[r][1])]
            })
        };
        Ok(ConditionalMeans { numbers, means, mean_errors: (0..distinct.len()).map(largest).collect() })
    }
}
