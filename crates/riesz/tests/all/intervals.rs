//! Estimates lie inside their intervals, on random small problems and in the far tails.

use riesz::fit::{GaussianProcess, TunedParameters};
use riesz::kernel_model::Link;
use riesz::linalg::Sparse;
use riesz::prediction::NaturalScalePrediction;
use riesz::preference::{
    AbilityRidge, BradleyTerry, DuelLogOdds, Duels, PairKernel, PreferenceProcess, Rankability,
    RankingRequest, wide_rows,
};
use riesz::{Explainer, Game, Kernel, Matrix, Question, Table};

use crate::common::Stream;

/// Checks that an estimate is between the ends of its interval.
fn inside(label: &str, low: f64, estimate: f64, high: f64) {
    assert!(low <= estimate && estimate <= high, "{label}: {estimate} is outside [{low}, {high}]");
}

fn sigma(g: f64) -> f64 {
    1.0 / (1.0 + (-g).exp())
}

/// Returns items with one or two columns, and some duels with ties.
fn problem(seed: u64) -> (Table, Duels) {
    let mut s = Stream(seed);
    let items = s.normals(6, 2);
    let (mut left, mut right, mut outcome) = (Vec::new(), Vec::new(), Vec::new());
    while left.len() < 14 {
        let (l, r) = ((s.uniform() * 6.0) as usize, (s.uniform() * 6.0) as usize);
        if l != r {
            left.push(l);
            right.push(r);
            outcome.push([1.0, 0.0, 0.5][(s.uniform() * 3.0) as usize]);
        }
    }
    (items, Duels::new(6, &left, &right, &outcome, None).unwrap())
}

/// With a margin δ, the log odds of a win of the left item are g - δ, and their interval is that of g minus
/// δ. (A former bug ignored the margin in the interval of the probability.)
#[test]
fn the_probability_of_a_win_lies_in_its_interval() {
    for seed in 0..12 {
        let (items, duels) = problem(seed);
        let pairs: Vec<(usize, usize)> =
            (0..6).flat_map(|l| (0..6).map(move |r| (l, r))).filter(|(l, r)| l != r).collect();
        for margin in [None, Some(0.2), Some(2.3)] {
            for share in [0.5, 4.0, 2000.0] {
                let kernel = Kernel::gaussian(&[1.0, 1.0]);
                let prior = PairKernel::new(kernel, share, 0.3 * share);
                let plain = PreferenceProcess::new(Kernel::constant(1.0));
                let process = PreferenceProcess { prior, margin, tune: false, ..plain };
                let fit = process.fit(&items, &duels).unwrap();
                let rows = wide_rows(&items, &pairs).unwrap();
                let odds = DuelLogOdds::of_rows(&fit.model, Some(&fit.covariance), &rows).unwrap();
                let unit_columns = (0..pairs.len()).map(|i| [(i, 1.0)]);
                let sums = Sparse::from_columns(pairs.len(), unit_columns).unwrap();
                let of_sums = DuelLogOdds::of_sums(&fit.model, Some(&fit.covariance), &rows, &sums).unwrap();
                for (i, &(l, r)) in pairs.iter().enumerate() {
                    for odds in [&odds, &of_sums] {
                        let estimate = odds.win_probability(i).unwrap();
                        let [low, high] = estimate.interval;
                        inside("a win", low, estimate.probability, high);
                        let (mean, sd) = (odds.mean[i] - margin.unwrap_or(0.0), odds.sd.as_ref().unwrap()[i]);
                        assert!((odds.log_odds(i) - mean).abs() < 1e-12);
                        let ends = [-1.96, 1.96].map(|z| sigma(mean + z * sd));
                        // The central interval, extended to the mean of the probability.
                        let central = [ends[0].min(estimate.probability), ends[1].max(estimate.probability)];
                        assert!((low - central[0]).abs() < 1e-4 && (high - central[1]).abs() < 1e-4);
                        // The probabilities of win, loss and tie sum to 1.
                        let other = pairs.iter().position(|pair| *pair == (r, l)).unwrap();
                        let lost = odds.win_probability(other).unwrap().probability;
                        let tie = estimate.tie.unwrap_or(0.0);
                        assert!((estimate.probability + lost + tie - 1.0).abs() < 1e-9);
                        assert_eq!(estimate.tie.is_some(), margin.is_some());
                    }
                }
            }
        }
    }
}

fn check_ranking(ranking: &Rankability) {
    for i in 0..ranking.utility.len() {
        let (low, high) = ranking.utility_interval[i];
        inside("utility", low, ranking.utility[i], high);
        let (low, high) = ranking.rank_interval[i];
        inside("rank", low as f64, ranking.rank[i] as f64, high as f64);
    }
    let (low, middle, high) = ranking.cyclic_share_interval;
    inside("cyclic share", low, middle, high);
}

#[test]
fn utilities_and_places_lie_in_their_intervals() {
    for seed in 0..8 {
        let (items, duels) = problem(seed);
        let prior = PairKernel::new(Kernel::gaussian(&[1.0, 1.0]), 2.0, 1.0);
        let plain = PreferenceProcess::new(Kernel::constant(1.0));
        let fit = PreferenceProcess { prior, tune: false, ..plain }.fit(&items, &duels).unwrap();
        // Half of the time, two draws are on the same side of the mean.
        for draws in [2, 64] {
            let ranking = RankingRequest { draws: Some(draws), seed, ..RankingRequest::default() };
            check_ranking(&ranking.summarise_log_odds(&fit.flow(&items).unwrap()).unwrap());
            let names: Vec<String> = (0..6).map(|i| i.to_string()).collect();
            let fit = BradleyTerry::new(AbilityRidge::Fixed(0.5)).fit(&names, &duels).unwrap();
            let (mean, covariance) = fit.abilities().unwrap();
            check_ranking(&ranking.of_abilities(&mean, &covariance).unwrap());
        }
    }
    // The item with the best mean is rarely the first of many items with much larger uncertainty.
    let mut covariance = Matrix::zeros(60, 60);
    covariance.add_diagonal(|i| if i == 0 { 1e-6 } else { 1.0 });
    let mean: Vec<f64> = (0..60).map(|i| if i == 0 { 0.01 } else { 0.0 }).collect();
    let rankability = RankingRequest::default().of_abilities(&mean, &covariance).unwrap();
    check_ranking(&rankability);
    assert!(
        rankability.rank[0] == 1 && rankability.rank_interval[0].1 > 30,
        "{:?}",
        rankability.rank_interval[0]
    );
}

/// Rates are exponentials: the mean of a log-normal variable with a standard deviation above 3.92 is above
/// its central interval.
#[test]
fn rates_and_probabilities_lie_in_their_intervals() {
    let mut s = Stream(3);
    let (x, new) = (s.normals(12, 1), s.normals(9, 1));
    let y = Matrix::column_vector((0..12).map(|i| x.get(i, 0).sin()).collect());
    for scale in [0.5, 4.0, 25.0] {
        let mut gp = GaussianProcess::new(scale * Kernel::gaussian(&[0.3]), 0.1);
        gp.tune = TunedParameters::Nothing;
        let mut fit = gp.fit(&x, &y).unwrap();
        for link in [Link::Identity, Link::Log, Link::Logit] {
            fit.model.link = link;
            let rates = NaturalScalePrediction::new(&fit.posterior(), &new, 1.96).unwrap();
            for i in 0..9 {
                inside("mean", rates.low[i], rates.mean[i], rates.high[i]);
                inside("median", rates.low[i], rates.median[i], rates.high[i]);
            }
        }
    }
}

#[test]
fn values_and_their_importance_lie_in_their_intervals() {
    let mut s = Stream(4);
    let x = s.normals(15, 3);
    let y = Matrix::column_vector((0..15).map(|i| x.get(i, 0) * x.get(i, 1)).collect());
    let mut gp = GaussianProcess::new(Kernel::gaussian(&[1.0, 1.0, 2.0]), 0.1);
    gp.tune = TunedParameters::Nothing;
    let fit = gp.fit(&x, &y).unwrap();
    let question = Question::from(Game::Interventional { background: x.clone().into() }).with_covariance();
    let explainer = Explainer::new(&fit.model, question).unwrap();
    let explanation = explainer.with_posterior(Some(&fit.covariance)).unwrap().explain(&x).unwrap();
    for (value, [low, high]) in explanation.values.iter().zip(explanation.interval(0.95).unwrap()) {
        inside("value", low, *value, high);
    }
    let importance = explanation.importance(0);
    let ends = importance.interval(0.95).unwrap();
    for (mean, [low, high]) in importance.mean_abs.iter().zip(&ends) {
        inside("importance", *low, *mean, *high);
    }
}
