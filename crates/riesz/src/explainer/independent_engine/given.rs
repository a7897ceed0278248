//! Means that depend on the explained rows: absent columns follow their distribution given the present ones
//! of the same part.

use std::collections::HashMap;

use rayon::prelude::*;

use super::IndependentPartsEngine;
use super::ground::{Ground, Source};
use crate::attribution::part_coalition_values::in_blocks;
use crate::control::check_cancelled;
use crate::embedding::{ConditionalMeanEmbeddings, multiply, split};
use crate::error::Result;
use crate::kernel::player_products::PlayerProduct;
use crate::kernel_model::parts::key;
use crate::linalg::Matrix;
use crate::simd::Lanes;
use crate::table::Table;

/// Means given the present columns of some rows of a source.
pub(super) struct Given {
    /// The number of each row among those.
    pub(super) numbers: HashMap<Vec<u64>, usize>,
    /// By ground, product and row, blocks × rows; nothing for grounds of other sources.
    pub(super) means: Vec<Vec<Vec<Vec<Lanes>>>>,
    /// By row: the largest sum of sizes of weights, and the largest absolute error of a mean of factors of 1.
    pub(super) off: Vec<[f64; 2]>,
}

/// By ground and product the means given a coalition, rows × support points, none where all are given; and by
/// row what [`Given::off`] says of it.
pub(super) type OfCoalition = (Option<Vec<Vec<Matrix>>>, Vec<[f64; 2]>);

impl IndependentPartsEngine<'_> {
    /// By source, the means that depend on these rows.
    pub(super) fn given(&self, rows: &[Vec<f64>]) -> Result<Vec<Option<Given>>> {
        let of = |(s, source): (usize, &Source)| {
            let Some(means) = &source.conditional else { return Ok(None) };
            let (mut numbers, mut distinct) = (HashMap::new(), Vec::new());
            for x in rows {
                for (columns, _) in
                    self.columns.iter().zip(&self.source_of_part).filter(|(_, from)| **from == Some(s))
                {
                    let own: Vec<f64> = columns.iter().map(|&j| x[j]).collect();
                    numbers.entry(key(&own)).or_insert_with(|| {
                        distinct.push(own);
                        distinct.len() - 1
                    });
                }
            }
            self.given_of(s, means, numbers, &distinct).map(Some)
        };
        self.sources.iter().enumerate().map(of).collect()
    }

    /// Means given each coalition's columns of some rows of a source.
    pub(super) fn given_of(
        &self,
        s: usize,
        means: &ConditionalMeanEmbeddings,
        numbers: HashMap<Vec<u64>, usize>,
        distinct: &[Vec<f64>],
    ) -> Result<Given> {
        let (source, players) = (&self.sources[s], self.players());
        let own: Vec<usize> = (0..players).filter(|p| source.owner.contains(p)).collect();
        let columns = means.learnt().rows.columns().to_vec();
        let reference = source.reference.rows.len();
        let values = (0..columns.len()).flat_map(|j| distinct.iter().map(move |x| x[j])).collect();
        let x = Table::from_column_major(columns, distinct.len(), values)?;
        // Factors between reference rows and support points: by ground, product and own player.
        let between = |ground: &Ground| -> Result<Vec<Vec<Vec<f64>>>> {
            if ground.source != Some(s) {
                return Ok(Vec::new());
            }
            let domain = self.domain(ground);
            let values = (0..domain.rows.width()).flat_map(|j| ground.rows.iter().map(move |row| row[j]));
            let names = domain.rows.columns().to_vec();
            let rows = Table::from_column_major(names, reference, values.collect())?;
            let of = |product: &PlayerProduct<'_>| -> Vec<Vec<f64>> {
                let kernels = product.kernels(players);
                own.iter().map(|&p| kernels[p].cross_gram(&rows, &domain.rows).data().to_vec()).collect()
            };
            Ok(ground.products(domain)?.iter().map(of).collect())
        };
        let between: Vec<_> = self.domain_means.iter().map(between).collect::<Result<_>>()?;
        // By coalition of own players: by ground and product the means, and what weights are.
        let of = |coalition: usize| {
            check_cancelled(&self.stop)?;
            let present: Vec<bool> = (0..own.len()).map(|k| coalition >> k & 1 == 1).collect();
            if !present.contains(&false) {
                return Ok((None, vec![[1.0, 0.0]; distinct.len()]));
            }
            let weights = means.weights(&present, &x, &self.stop)?;
            let root = (reference as f64).sqrt();
            let length = |r: usize| (0..reference).map(|b| weights.matrix[(b, r)].abs()).sum::<f64>();
            let off = (0..distinct.len()).map(|r| [length(r).max(1.0), root * weights.error[r]]).collect();
            // Rows × reference rows.
            let by_row = weights.matrix.transpose();
            let of = |factors: &Vec<Vec<f64>>| {
                let rows = factors.first().map_or(0, |factor| factor.len() / reference);
                let mut rest = vec![0.0; rows * reference];
                multiply(&split(factors, &present, false), 0..rows * reference, &mut rest);
                by_row.matmul(&Matrix::from_row_major(reference, rows, rest))
            };
            let found: Vec<Vec<Matrix>> = between.iter().map(|all| all.iter().map(of).collect()).collect();
            Ok((Some(found), off))
        };
        let found: Vec<OfCoalition> =
            (0..1_usize << own.len()).into_par_iter().with_max_len(1).map(of).collect::<Result<_>>()?;
        let within =
            |coalition: usize| own.iter().enumerate().map(|(k, p)| (coalition >> p & 1) << k).sum::<usize>();
        let of_row = |g: usize, q: usize, r: usize| {
            in_blocks(players, self.domain(&self.domain_means[g]).rows.rows(), |coalition, out| match &found
                [within(coalition)]
            .0
            {
                Some(all) => out.copy_from_slice(all[g][q].row(r)),
                None => out.fill(1.0),
            })
        };
        let all = |g: usize| -> Vec<Vec<Vec<Lanes>>> {
            let product = |q: usize| (0..distinct.len()).into_par_iter().map(|r| of_row(g, q, r)).collect();
            (0..between[g].len()).map(product).collect()
        };
        let means = (0..self.domain_means.len()).map(all).collect();
        let largest = |r: usize| {
            found.iter().fold([1.0_f64, 0.0], |all, (_, off)| [all[0].max(off[r][0]), all[1].max(off[r][1])])
        };
        Ok(Given { numbers, means, off: (0..distinct.len()).map(largest).collect() })
    }
}
