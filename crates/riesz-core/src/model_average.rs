//! Averages of models over hyper-parameters: predictions of a mixture of posteriors.

use std::sync::atomic::AtomicBool;

use crate::error::{Error, Result};
use crate::kernel_model::{KernelExpansion, argmax};
use crate::linalg::Matrix;
use crate::posterior::{Posterior, PosteriorCovariance};
use crate::prediction::Prediction;
use crate::table::Table;

/// A model with its weight in an average.
#[derive(Debug, Clone)]
pub struct WeightedModel {
    /// The weight; the weights of an average add up to 1.
    pub weight: f64,
    /// The model.
    pub model: KernelExpansion,
    /// Its posterior covariance, if there is one.
    pub covariance: Option<PosteriorCovariance>,
}

/// A model of the same rows and targets for several sets of hyper-parameters.
#[derive(Debug, Clone)]
pub struct ModelAverage {
    /// The models, at least one.
    pub models: Vec<WeightedModel>,
    /// The number of independent draws from the posterior of the hyper-parameters that would be as
    /// informative as the weighted models.
    pub effective_sample_size: f64,
}

/// A borrowed model with its weight in an average; a single model has the weight 1.
#[derive(Debug, Clone, Copy)]
pub struct ModelPart<'m> {
    /// The weight.
    pub weight: f64,
    /// The model.
    pub model: &'m KernelExpansion,
    /// Its posterior covariance, if there is one.
    pub covariance: Option<&'m PosteriorCovariance>,
}

/// The effective sample size below which an average is rough.
const FEW_SAMPLES: f64 = 10.0;

/// Returns a warning if an average has few effective samples of hyper-parameters.
pub fn few_samples_warning(effective_sample_size: f64) -> Option<String> {
    (effective_sample_size < FEW_SAMPLES).then(|| {
        format!(
            "the samples of hyper-parameters are worth {effective_sample_size:.1} independent ones, so the \
             average is rough: take more, such as 500 (n_hyperparameter_samples, --hyperparameter-samples)"
        )
    })
}

/// The predictions of an average.
#[derive(Debug, Clone, PartialEq)]
pub struct AveragedPrediction {
    /// Means of outputs and of probabilities over the models. The class is the most probable one.
    pub prediction: Prediction,
    /// Variances of f, rows × outputs, which include the differences between the models; `None` if some
    /// model has no posterior.
    pub variance: Option<Matrix>,
}

/// Models with a smaller weight are not part of an average.
const MIN_WEIGHT: f64 = 1e-3;

impl ModelAverage {
    /// Creates an average of models, without those of a weight below 0.001 unless all weights are that small.
    /// The weights are divided by their sum.
    pub fn new(mut models: Vec<WeightedModel>, effective_sample_size: f64) -> Self {
        let largest = models.iter().map(|part| part.weight).fold(0.0, f64::max);
        models.retain(|part| part.weight >= largest.min(MIN_WEIGHT));
        let total: f64 = models.iter().map(|part| part.weight).sum();
        models.iter_mut().for_each(|part| part.weight /= total);
        Self { models, effective_sample_size }
    }

    /// Returns the models.
    pub fn parts(&self) -> Vec<ModelPart<'_>> {
        let parts = self.models.iter().map(|WeightedModel { weight, model, covariance }| ModelPart {
            weight: *weight,
            model,
            covariance: covariance.as_ref(),
        });
        parts.collect()
    }

    /// Predicts the rows of `x`, at the cost of all models.
    ///
    /// # Errors
    /// As [`Prediction::new_with_control`]; [`Error::TooFew`] without models.
    pub fn predict(&self, x: &Table, stop: &AtomicBool) -> Result<AveragedPrediction> {
        let parts = self.models.iter().map(|part| {
            let covariance = part.covariance.as_ref();
            Ok((part, Prediction::new_with_control(&part.model, covariance, x, stop)?))
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let mean = |matrix: &dyn Fn(&Prediction) -> Option<&Matrix>| -> Option<Matrix> {
            let (first, prediction) = parts.first()?;
            let mut sum = matrix(prediction)?.clone();
            sum.scale(first.weight);
            for (part, prediction) in &parts[1..] {
                sum.add_times(part.weight, matrix(prediction)?);
            }
            Some(sum)
        };
        let Some(outputs) = mean(&|prediction| Some(&prediction.outputs)) else {
            return Err(Error::too_few("the list of models", 1, "model is"));
        };
        let probabilities = mean(&|prediction| prediction.probabilities.as_ref());
        let classes =
            probabilities.as_ref().map(|p| (0..p.rows()).map(|i| argmax(p.row(i))).collect::<Vec<_>>());
        let mut variance = Some(Matrix::zeros(outputs.rows(), outputs.cols()));
        for (part, prediction) in &parts {
            let Some((sum, covariance)) = variance.as_mut().zip(part.covariance.as_ref()) else {
                variance = None;
                break;
            };
            let mut part_variance = Posterior::new(&part.model, covariance)?.with_cancel(stop).variance(x)?;
            let entries = part_variance.data_mut().iter_mut().zip(prediction.outputs.data());
            entries.zip(outputs.data()).for_each(|((variance, f), mean)| *variance += (f - mean).powi(2));
            sum.add_times(part.weight, &part_variance);
        }
        Ok(AveragedPrediction { prediction: Prediction { outputs, classes, probabilities }, variance })
    }
}
