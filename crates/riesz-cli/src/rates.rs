//! Predictions of models of counts, as columns of a table: rates of events, or probabilities of a success.

use riesz::kernel_model::Link;
use riesz::{KernelExpansion, NaturalScalePrediction, Posterior, Table};

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

/// The column names of [`with_intervals`].
pub fn names([rate, link]: [&str; 2]) -> Vec<String> {
    let ends = ["", "_median", "_low", "_high"].map(|end| format!("{rate}{end}"));
    ends.into_iter().chain([link.to_string(), format!("{link}_std")]).collect()
}

/// For each row: the posterior mean of the rate, its median, the ends of its 95 % interval, the latent mean
/// and its standard deviation.
pub fn with_intervals(posterior: &Posterior<'_>, rows: &Table) -> riesz::Result<Vec<Vec<f64>>> {
    let NaturalScalePrediction { mean, median, low, high } =
        NaturalScalePrediction::new(posterior, rows, NORMAL)?;
    let latent = posterior.mean().predict(rows)?.column(0);
    Ok(vec![mean, median, low, high, latent, posterior.sd(rows)?.column(0)])
}

/// The posterior mean rate of each row; without a posterior the rate at the mean of the latent function,
/// which is the median.
pub fn mean_rates(
    model: &KernelExpansion,
    posterior: Option<&Posterior<'_>>,
    rows: &Table,
) -> riesz::Result<Vec<f64>> {
    match posterior {
        Some(posterior) => Ok(NaturalScalePrediction::new(posterior, rows, NORMAL)?.mean),
        None => Ok(model.predict(rows)?.column(0).into_iter().map(|f| model.link.inverse_link(f)).collect()),
    }
}

/// For each row of a regression: the output, its standard deviation, and the ends of its 95 % interval.
pub fn regression_predictions(posterior: &Posterior<'_>, rows: &Table) -> riesz::Result<Vec<Vec<f64>>> {
    let prediction = NaturalScalePrediction::new(posterior, rows, NORMAL)?;
    Ok(vec![prediction.mean, posterior.sd(rows)?.column(0), prediction.low, prediction.high])
}
