//! Predictions of models of counts, as columns of a table: rates of events, or probabilities of a success.

use riesz::kernel_model::Link;
use riesz::model_average;
use riesz::{KernelExpansion, Matrix, NaturalScalePrediction, Posterior, Table};

/// The two-sided 95 % quantile of the normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;

/// The names of the quantity that a count model predicts and of its latent scale; `None` for other models.
pub fn counted(model: &KernelExpansion) -> Option<[&'static str; 2]> {
    match model.link {
        Link::Log => Some(["rate", "log_rate"]),
        Link::Logit => Some(["probability", "log_odds"]),
        _ => None,
    }
}

/// The column names of [`predictions`] for a model of counts.
pub fn names([rate, link]: [&str; 2]) -> Vec<String> {
    let ends = ["", "_median", "_low", "_high"].map(|end| format!("{rate}{end}"));
    ends.into_iter().chain([link.to_string(), format!("{link}_std")]).collect()
}

/// The column names of [`predictions`]; `output` is the name of a regression's output.
pub fn column_names(model: &KernelExpansion, output: &str) -> Vec<String> {
    match counted(model) {
        Some(counted) => names(counted),
        None => ["", "_std", "_low", "_high"].map(|end| format!("{output}{end}")).into(),
    }
}

/// Predictions of posteriors with weights that add up to 1. For each row of a model of counts: the mean of
/// the rate, its median, the ends of its 95 % interval, the latent mean and its standard deviation. For each
/// row of a regression: the output, its standard deviation, and the ends of its 95 % interval.
pub fn predictions(parts: &[(f64, Posterior<'_>)], rows: &Table) -> riesz::Result<Vec<Vec<f64>>> {
    match parts {
        [(_, posterior)] if counted(posterior.mean()).is_some() => with_intervals(posterior, rows),
        [(_, posterior)] => regression_predictions(posterior, rows),
        _ => mixture_predictions(parts, rows),
    }
}

fn with_intervals(posterior: &Posterior<'_>, rows: &Table) -> riesz::Result<Vec<Vec<f64>>> {
    let NaturalScalePrediction { mean, median, low, high } =
        NaturalScalePrediction::new(posterior, rows, NORMAL)?;
    let latent = posterior.mean().predict(rows)?.column(0);
    Ok(vec![mean, median, low, high, latent, posterior.sd(rows)?.column(0)])
}

/// The rate of each row at the mean of the latent function, which is the rate's median.
pub fn median_rates(model: &KernelExpansion, latent_mean: &Matrix) -> Vec<f64> {
    latent_mean.column(0).into_iter().map(|f| model.link.inverse_link(f)).collect()
}

fn regression_predictions(posterior: &Posterior<'_>, rows: &Table) -> riesz::Result<Vec<Vec<f64>>> {
    let prediction = NaturalScalePrediction::new(posterior, rows, NORMAL)?;
    Ok(vec![prediction.mean, posterior.sd(rows)?.column(0), prediction.low, prediction.high])
}

/// Number of halvings of a bisection, which reach the precision of a double.
const HALVINGS: usize = 60;

/// Predictions of several posteriors. The latent function of a row has a mixture of normal distributions; its
/// quantiles are found by bisection.
fn mixture_predictions(parts: &[(f64, Posterior<'_>)], rows: &Table) -> riesz::Result<Vec<Vec<f64>>> {
    let mut moments = Vec::new();
    let model = parts[0].1.mean();
    for (weight, posterior) in parts {
        moments.push((*weight, posterior.mean().predict(rows)?.column(0), posterior.sd(rows)?.column(0)));
    }
    let [mean, sd, low, high] = normal_mixture(&moments);
    let natural = |latent: Vec<f64>| latent.into_iter().map(|f| model.link.inverse_link(f)).collect();
    if counted(model).is_some() {
        let median = quantiles(&moments, 0.0);
        let ends = [median, low, high].map(natural);
        let [median, low, high] = ends;
        return Ok(vec![model_average::natural_mean(parts, rows)?, median, low, high, mean, sd]);
    }
    Ok(vec![mean, sd, low, high])
}

/// For each of several quantities that have mixtures of normal distributions: the mean, the standard
/// deviation, and the ends of the 95 % interval. Each part of a mixture has its weight, and the means and
/// standard deviations of all quantities.
pub fn normal_mixture(parts: &[(f64, Vec<f64>, Vec<f64>)]) -> [Vec<f64>; 4] {
    let indices = 0..parts.first().map_or(0, |part| part.1.len());
    let mean: Vec<f64> = indices.clone().map(|i| parts.iter().map(|(w, m, _)| w * m[i]).sum()).collect();
    let variance =
        |i: usize| parts.iter().map(|(w, m, s)| w * (s[i] * s[i] + (m[i] - mean[i]).powi(2))).sum::<f64>();
    let sd = indices.map(|i| variance(i).sqrt()).collect();
    [mean, sd, quantiles(parts, -NORMAL), quantiles(parts, NORMAL)]
}

/// The quantile of each quantity of [`normal_mixture`] at the probability that a standard normal number is
/// below `sds`.
fn quantiles(parts: &[(f64, Vec<f64>, Vec<f64>)], sds: f64) -> Vec<f64> {
    let part_of = |i: usize| parts.iter().map(move |(weight, mean, sd)| (*weight, mean[i], sd[i]));
    let count = parts.first().map_or(0, |part| part.1.len());
    (0..count).map(|i| mixture_quantile(&part_of(i).collect::<Vec<_>>(), sds)).collect()
}

/// The quantile of a mixture of normal distributions (weight, mean, standard deviation) at the probability
/// that a standard normal number is below `sds`.
fn mixture_quantile(parts: &[(f64, f64, f64)], sds: f64) -> f64 {
    let below = |x: f64, (weight, mean, sd): &(f64, f64, f64)| {
        // `positive` is the probability that a normal number is positive.
        weight * riesz::explanation::normal::positive(x - mean, *sd)
    };
    let probability = riesz::explanation::normal::positive(sds, 1.0);
    let quantiles = || parts.iter().map(|(_, mean, sd)| mean + sds * sd);
    let (mut low, mut high) =
        (quantiles().fold(f64::INFINITY, f64::min), quantiles().fold(f64::NEG_INFINITY, f64::max));
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        let total: f64 = parts.iter().map(|part| below(middle, part)).sum();
        if total < probability { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}
