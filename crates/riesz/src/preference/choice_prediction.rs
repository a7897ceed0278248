//! Probabilities of [choices](super::choices) from sets of items, averaged over the posterior of a model of
//! duels.

use std::sync::atomic::AtomicBool;

use super::choices::{mean_log_odds, pairs_of_set};
use super::log_odds::DuelLogOdds;
use super::pair_kernel::{Pair, wide_rows};
use super::pairwise_log_odds::psd_root;
use super::wide_row_prior::WideRowPrior;
use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::gp::likelihood::choices::LinearForm;
use crate::gp::likelihood::inclusion_probabilities;
use crate::kernel_model::Link;
use crate::linalg::Matrix;
use crate::model_average::ModelPart;
use crate::posterior::Posterior;
use crate::random::{Random, RngExt, SeedableRng, StandardNormal, hash};
use crate::table::Table;

/// The default number of draws, with which standard errors are at most 0.005.
pub const DEFAULT_CHOICE_DRAWS: usize = 10_000;

/// The probabilities with which each item of a set is among the chosen ones.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceProbabilities {
    /// One probability per item of the set.
    pub probability: Vec<f64>,
    /// Their Monte Carlo standard errors; 0 for sets of two items, whose probabilities are computed by
    /// quadrature.
    pub std_error: Vec<f64>,
}

/// Returns the probabilities with which each item is among the `count` items that are chosen from each set of
/// the rows of `items`, averaged over the posterior of the log odds. `parts` is a model or a mixture of
/// models, with weights that add up to 1. Results depend on the seed and each set's position alone. Cost n²
/// for each of p pairs and n compared pairs, and p² for each of the draws, where p is m - 1 for a set of m
/// items and models with a utility alone, and otherwise m (m - 1) / 2.
///
/// # Errors
/// As [`Table::align_to`]; [`Error::TooFew`] for a set of fewer than two items, without models, and for fewer
/// than two draws; [`Error::Parameter`] for an item that does not exist, a `count` that is not between 1 and
/// one less than the items of a set, and for models without a posterior or with ties; [`Error::Interrupted`].
pub fn choice_probabilities(
    parts: &[ModelPart<'_>],
    items: &Table,
    (sets, count): (&[Vec<usize>], usize),
    (draws, seed): (usize, u64),
    stop: &AtomicBool,
) -> Result<Vec<ChoiceProbabilities>> {
    if draws < 2 {
        return Err(Error::parameter("n_samples", draws, "probabilities need 2 or more samples"));
    }
    let mut has_cycles = false;
    for part in parts {
        has_cycles |= WideRowPrior::from_model(part.model)?.generalised.is_some();
        if matches!(part.model.link, Link::LatentRaoKupper { .. }) {
            let allowed = "choices need a model without ties as an outcome: fit ties as halves";
            return Err(Error::parameter("model", "with ties", allowed));
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
        if !(1..set.len()).contains(&count) {
            let allowed = format!("at least 1 and less than the {} items of set {}", set.len(), s + 1);
            return Err(Error::parameter("n_chosen", count, allowed));
        }
        let positions: Vec<usize> = (0..set.len()).collect();
        let (pairs, scores): (Vec<Pair>, Vec<LinearForm>) = if has_cycles {
            let pairs: Vec<Pair> = pairs_of_set(&positions).collect();
            let scores = mean_log_odds(&positions, |pair| pairs.partition_point(|other| *other < pair));
            (pairs, scores)
        } else {
            let against_first = |i: &usize| if *i == 0 { Vec::new() } else { vec![(*i - 1, 1.0)] };
            ((1..set.len()).map(|i| (i, 0)).collect(), positions.iter().map(against_first).collect())
        };
        let rows = wide_rows(items, &pairs.iter().map(|(a, b)| (set[*a], set[*b])).collect::<Vec<_>>())?;
        if set.len() > 2 {
            return sampled_probabilities(parts, &rows, (&scores, count), draws, hash([seed, s as u64]));
        }
        let odds = DuelLogOdds::of_average(parts, &rows, None)?;
        let left = odds.probability.ok_or_else(no_posterior)?[0];
        let probability = if pairs[0] == (0, 1) { vec![left, 1.0 - left] } else { vec![1.0 - left, left] };
        Ok(ChoiceProbabilities { probability, std_error: vec![0.0; 2] })
    };
    sets.iter().enumerate().map(predict).collect()
}

fn no_posterior() -> Error {
    Error::parameter("posterior", "none", "probabilities of choices need a model with a posterior")
}

/// Returns the probabilities of `count` choices from a set, from draws of the log odds of `rows`. Scores are
/// linear in them.
fn sampled_probabilities(
    parts: &[ModelPart<'_>],
    rows: &Table,
    (scores, count): (&[LinearForm], usize),
    draws: usize,
    seed: u64,
) -> Result<ChoiceProbabilities> {
    let m = scores.len();
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
            let log_odds: Vec<f64> = mean.iter().zip(root.matvec(&z)).map(|(m, v)| m + v).collect();
            let score = |form: &LinearForm| form.iter().map(|(i, c)| c * log_odds[*i]).sum();
            let scores: Vec<f64> = scores.iter().map(score).collect();
            for (a, probability) in inclusion_probabilities(&scores, count).into_iter().enumerate() {
                sums[a] += probability;
                squares[a] += probability.powi(2);
            }
        }
        done = end;
    }
    let n = done.max(1) as f64;
    let variance = |(sum, square): (&f64, &f64)| (square / n - (sum / n).powi(2)).max(0.0);
    Ok(ChoiceProbabilities {
        probability: sums.iter().map(|sum| sum / n).collect(),
        std_error: sums.iter().zip(&squares).map(|pair| (variance(pair) / n).sqrt()).collect(),
    })
}
