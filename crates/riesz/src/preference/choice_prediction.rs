//! Probabilities of choices from sets of items, averaged over the posterior of a model of duels that has a
//! utility alone.

use std::sync::atomic::AtomicBool;

use super::log_odds::DuelLogOdds;
use super::pair_kernel::{Pair, wide_rows};
use super::pairwise_log_odds::psd_root;
use super::wide_row_prior::WideRowPrior;
use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::kernel_model::Link;
use crate::linalg::Matrix;
use crate::model_average::ModelPart;
use crate::posterior::Posterior;
use crate::random::{Random, RngExt, SeedableRng, StandardNormal, hash};
use crate::table::Table;

/// The default number of draws, with which standard errors are at most 0.005.
pub const DEFAULT_CHOICE_DRAWS: usize = 10_000;

/// The probabilities with which each item of a set is chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceProbabilities {
    /// One probability per item of the set.
    pub probability: Vec<f64>,
    /// Their Monte Carlo standard errors; 0 for sets of two items, whose probabilities are computed by
    /// quadrature.
    pub std_error: Vec<f64>,
}

/// Returns the probabilities `E exp f_a / Σ_b exp f_b` of choices from sets of the rows of `items`, averaged
/// over the posterior of the utility f. `parts` is a model or a mixture of models, with weights that add up
/// to 1. Results depend on the seed and each set's position alone. Cost n² for each item of a set and n
/// compared pairs, and m² for each of the draws from a set of m items.
///
/// # Errors
/// As [`Table::align_to`]; [`Error::TooFew`] for a set of fewer than two items, without models, and for fewer
/// than two draws; [`Error::Parameter`] for an item that does not exist, and for models without a posterior,
/// with cycles or with ties; [`Error::Interrupted`].
pub fn choice_probabilities(
    parts: &[ModelPart<'_>],
    items: &Table,
    sets: &[Vec<usize>],
    (draws, seed): (usize, u64),
    stop: &AtomicBool,
) -> Result<Vec<ChoiceProbabilities>> {
    if draws < 2 {
        return Err(Error::parameter("n_samples", draws, "probabilities need 2 or more samples"));
    }
    for part in parts {
        let has_cycles = WideRowPrior::from_model(part.model)?.generalised.is_some();
        if has_cycles || matches!(part.model.link, Link::LatentRaoKupper { .. }) {
            let form = if has_cycles { "with cycles" } else { "with ties" };
            let allowed = "choices need a utility alone, without ties as an outcome: fit the utility model";
            return Err(Error::parameter("model", form, allowed));
        }
    }
    let predict = |(s, set): (usize, &Vec<usize>)| {
        check_cancelled(stop)?;
        if set.len() < 2 {
            return Err(Error::too_few(format!("set {}", s + 1), 2, "items are"));
        }
        if let Some(item) = set.iter().find(|item| **item >= items.rows()) {
            let allowed = format!("there are {} items, numbered from 0", items.rows());
            return Err(Error::parameter(format!("item of set {}", s + 1), item, allowed));
        }
        let against_first: Vec<Pair> = set[1..].iter().map(|item| (*item, set[0])).collect();
        let rows = wide_rows(items, &against_first)?;
        if set.len() > 2 {
            return sampled_probabilities(parts, &rows, draws, hash([seed, s as u64]));
        }
        let odds = DuelLogOdds::of_average(parts, &rows, None)?;
        let probability = odds.probability.ok_or_else(no_posterior)?[0];
        Ok(ChoiceProbabilities { probability: vec![1.0 - probability, probability], std_error: vec![0.0; 2] })
    };
    sets.iter().enumerate().map(predict).collect()
}

fn no_posterior() -> Error {
    Error::parameter("posterior", "none", "probabilities of choices need a model with a posterior")
}

/// Returns the probabilities of choices from a set, from draws of the log odds of all its items but the first
/// against the first.
fn sampled_probabilities(
    parts: &[ModelPart<'_>],
    rows: &Table,
    draws: usize,
    seed: u64,
) -> Result<ChoiceProbabilities> {
    let m = rows.rows() + 1;
    let (mut sums, mut squares) = (vec![0.0; m], vec![0.0; m]);
    let mut random = Random::seed_from_u64(seed);
    let (mut done, mut total_weight) = (0, 0.0);
    for part in parts {
        let posterior = Posterior::new(part.model, part.covariance.ok_or_else(no_posterior)?)?;
        let functionals = posterior.functionals_at(&rows.align_to(part.model.columns())?)?;
        let mean = posterior.mean_of(&functionals).column(0);
        let root: Matrix = psd_root(&posterior.covariance(&functionals)[0], f64::EPSILON)?;
        // Each model has its share of the draws, up to rounding.
        total_weight += part.weight;
        let end = (draws as f64 * total_weight).round().min(draws as f64) as usize;
        for _ in done..end {
            let z: Vec<f64> = (0..root.cols()).map(|_| random.sample(StandardNormal)).collect();
            let log_odds = std::iter::once(0.0).chain(mean.iter().zip(root.matvec(&z)).map(|(m, v)| m + v));
            let log_odds: Vec<f64> = log_odds.collect();
            let largest = log_odds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = log_odds.iter().map(|v| (v - largest).exp()).collect();
            let total: f64 = weights.iter().sum();
            for (a, weight) in weights.iter().enumerate() {
                sums[a] += weight / total;
                squares[a] += (weight / total).powi(2);
            }
        }
        done = end;
    }
    let count = done.max(1) as f64;
    let variance = |(sum, square): (&f64, &f64)| (square / count - (sum / count).powi(2)).max(0.0);
    Ok(ChoiceProbabilities {
        probability: sums.iter().map(|sum| sum / count).collect(),
        std_error: sums.iter().zip(&squares).map(|pair| (variance(pair) / count).sqrt()).collect(),
    })
}
