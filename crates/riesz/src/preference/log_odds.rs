//! Predictions of duels: log odds, their standard deviations, and win probabilities.

use super::left_right_columns::LeftRightColumns;
use super::pref_shap::probability_better;
use crate::attribution::std_error::NORMAL;
use crate::error::{Error, Result};
use crate::explanation::{Duel, WinProbability};
use crate::kernel_model::{KernelExpansion, Link, logistic};
use crate::linalg::{Matrix, Sparse, add_multiple};
use crate::model_average::ModelPart;
use crate::posterior::{Posterior, PosteriorCovariance};
use crate::prediction::{AggregatePrediction, Prediction, reaching};
use crate::table::Table;

/// Predictions of duels: the advantage of the left item of each duel and the probability that it wins. Each
/// list has one number per duel.
///
/// The model's output g is the left item's advantage. Without a margin of ties it is the log odds that the
/// left item wins. With a margin δ (Rao and Kupper 1967), `P(left wins) = σ(g - δ)` and
/// `P(right wins) = σ(-g - δ)`, so that the log odds of a win are `g - δ`.
#[derive(Debug, Clone, PartialEq)]
pub struct DuelLogOdds {
    /// The posterior means of g.
    pub mean: Vec<f64>,
    /// The posterior standard deviations of g; `None` without a posterior.
    pub sd: Option<Vec<f64>>,
    /// The probabilities that the left item wins, averaged over the posterior.
    pub probability: Option<Vec<f64>>,
    /// The probabilities of a tie, averaged over the posterior; `None` if the model has no margin of ties.
    pub tie: Option<Vec<f64>>,
    /// The margin of ties δ; 0 if the model has none.
    pub margin: f64,
}

impl DuelLogOdds {
    /// Returns predictions for duels as wide rows. Cost with a posterior O(n²) per duel for n compared pairs.
    ///
    /// # Errors
    /// As [`Prediction::new`]; [`Error::Parameter`](crate::Error::Parameter) if the model is not one of
    /// duels.
    pub fn of_rows(
        model: &KernelExpansion,
        covariance: Option<&PosteriorCovariance>,
        rows: &Table,
    ) -> Result<Self> {
        let sides = LeftRightColumns::from_columns(model.columns())?;
        let rows = rows.align_to(model.columns())?;
        let prediction = Prediction::new(model, covariance, &rows)?;
        let sd = covariance.map(|covariance| Posterior::new(model, covariance)?.sd(&rows)).transpose()?;
        // The log odds of two equal items are 0 for certain; rounding errors are removed.
        let same_items =
            |i: usize| sides.left.iter().zip(&sides.right).all(|(l, r)| rows.get(i, *l) == rows.get(i, *r));
        let zero_if_same_items = |column: &Matrix| -> Vec<f64> {
            (0..rows.rows()).map(|i| if same_items(i) { 0.0 } else { column[(i, 0)] }).collect()
        };
        Ok(Self {
            mean: zero_if_same_items(&prediction.outputs),
            sd: sd.as_ref().map(zero_if_same_items),
            ..Self::from_probabilities(model, prediction.probabilities.as_ref())
        })
    }

    /// Returns predictions for weighted sums of the log odds of duels, as for bags, with the rows and weights
    /// of [`ItemBags::duels`](super::ItemBags::duels). Only means are available without a posterior.
    ///
    /// # Errors
    /// As [`AggregatePrediction::new`].
    pub fn of_sums(
        model: &KernelExpansion,
        covariance: Option<&PosteriorCovariance>,
        rows: &Table,
        weights: &Sparse,
    ) -> Result<Self> {
        let Some(covariance) = covariance else {
            let mean = weights.transpose_times(&model.predict(rows)?);
            return Ok(Self { mean: mean.column(0), ..Self::from_probabilities(model, None) });
        };
        let prediction = AggregatePrediction::new(model, covariance, rows, weights)?;
        Ok(Self {
            mean: prediction.outputs.column(0),
            sd: Some(prediction.variance.column(0).into_iter().map(f64::sqrt).collect()),
            ..Self::from_probabilities(model, prediction.probabilities.as_ref())
        })
    }

    /// Returns the probabilities of the classes right, left, and with a margin of ties tie, without the
    /// advantages.
    fn from_probabilities(model: &KernelExpansion, probabilities: Option<&Matrix>) -> Self {
        let margin = match model.link {
            Link::LatentRaoKupper { margin } => margin,
            _ => 0.0,
        };
        Self {
            mean: Vec::new(),
            sd: None,
            probability: probabilities.map(|by_class| by_class.column(1)),
            tie: probabilities.filter(|by_class| by_class.cols() > 2).map(|by_class| by_class.column(2)),
            margin,
        }
    }

    /// Returns predictions under an average of models for duels as wide rows, or for weighted sums of the log
    /// odds of these rows. Means and probabilities are averages; variances are those of the mixture.
    ///
    /// # Errors
    /// As [`of_rows`](Self::of_rows) and [`of_sums`](Self::of_sums); [`Error::TooFew`] without models.
    pub fn of_average(parts: &[ModelPart<'_>], rows: &Table, sums: Option<&Sparse>) -> Result<Self> {
        let predict = |part: &ModelPart<'_>| match sums {
            None => Self::of_rows(part.model, part.covariance, rows),
            Some(weights) => Self::of_sums(part.model, part.covariance, rows, weights),
        };
        if let [part] = parts {
            return predict(part);
        }
        let predictions = parts.iter().map(|part| Ok((part.weight, predict(part)?)));
        Self::mixed(&predictions.collect::<Result<Vec<_>>>()?)
            .ok_or_else(|| Error::too_few("the list of models", 1, "model is"))
    }

    /// Returns the mixture of predictions; `None` if there are none.
    fn mixed(parts: &[(f64, Self)]) -> Option<Self> {
        let (_, first) = parts.first()?;
        let mean_of = |list: &dyn Fn(&Self) -> Option<&Vec<f64>>| -> Option<Vec<f64>> {
            let mut sum = vec![0.0; first.mean.len()];
            for (weight, part) in parts {
                add_multiple(&mut sum, *weight, list(part)?);
            }
            Some(sum)
        };
        let mean = mean_of(&|part| Some(&part.mean))?;
        let sd = parts.iter().map(|(weight, part)| {
            let moments = part.mean.iter().zip(part.sd.as_ref()?).zip(&mean);
            Some(moments.map(|((m, sd), mean)| weight * (sd * sd + (m - mean).powi(2))).collect::<Vec<f64>>())
        });
        let sd = sd.collect::<Option<Vec<_>>>().map(|variances| {
            (0..mean.len()).map(|i| variances.iter().map(|part| part[i]).sum::<f64>().sqrt()).collect()
        });
        Some(Self {
            sd,
            probability: mean_of(&|part| part.probability.as_ref()),
            tie: mean_of(&|part| part.tie.as_ref()),
            margin: parts.iter().map(|(weight, part)| weight * part.margin).sum(),
            mean,
        })
    }

    /// Returns the posterior mean of the log odds that the left item of duel i wins: its advantage minus the
    /// margin of ties.
    pub fn log_odds(&self, i: usize) -> f64 {
        self.mean[i] - self.margin
    }

    /// Returns the probability that the left item wins duel i, with its interval; `None` without a posterior.
    pub fn win_probability(&self, i: usize) -> Option<WinProbability> {
        let (mean, sd, probability) = (self.mean[i], self.sd.as_ref()?[i], self.probability.as_ref()?[i]);
        let interval = [-NORMAL, NORMAL].map(|z| logistic(self.log_odds(i) + z * sd));
        Some(WinProbability {
            probability,
            interval: reaching(interval, probability),
            tie: self.tie.as_ref().map(|tie| tie[i]),
            probability_better: probability_better(mean, sd),
        })
    }

    /// Returns the duels with the names of their items.
    ///
    /// # Panics
    /// Unless there is one name per duel on each side.
    pub fn duels(&self, left: &[String], right: &[String]) -> Vec<Duel> {
        assert!(left.len() == self.mean.len() && right.len() == self.mean.len(), "one name per duel");
        let duel = |(i, (left, right)): (usize, (&String, &String))| Duel {
            left: left.clone(),
            right: right.clone(),
            win_probability: self.win_probability(i),
        };
        left.iter().zip(right).enumerate().map(duel).collect()
    }
}
