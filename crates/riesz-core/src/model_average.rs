//! Averages of models over hyper-parameters: predictions of a mixture of posteriors.

use std::sync::atomic::AtomicBool;

use crate::error::{Error, Result};
use crate::kernel_model::{KernelExpansion, Link, argmax};
use crate::linalg::Matrix;
use crate::posterior::{Posterior, PosteriorCovariance};
use crate::prediction::{NaturalScalePrediction, Prediction};
use crate::random::{Random, RngExt, SeedableRng, hash};
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

impl<'m> ModelPart<'m> {
    /// A single model with the weight 1.
    pub fn single(model: &'m KernelExpansion, covariance: Option<&'m PosteriorCovariance>) -> Self {
        Self { weight: 1.0, model, covariance }
    }
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
}

/// Predicts the rows of `x`, at the cost of all models: means of outputs and of probabilities over the
/// models. The class is the most probable one, or without probabilities that of the mean outputs.
///
/// # Errors
/// Errors of [`Prediction::new_with_control`]; [`Error::TooFew`] without models.
pub fn predict(parts: &[ModelPart<'_>], x: &Table, stop: &AtomicBool) -> Result<Prediction> {
    let predictions = parts
        .iter()
        .map(|part| Ok((part.weight, Prediction::new_with_control(part.model, part.covariance, x, stop)?)));
    let mut predictions = predictions.collect::<Result<Vec<_>>>()?;
    if predictions.len() == 1 {
        return Ok(predictions.remove(0).1);
    }
    let outputs = weighted_sum(predictions.iter().map(|(weight, part)| Some((*weight, &part.outputs))));
    let outputs = outputs.ok_or_else(no_models)?;
    let probabilities =
        predictions.iter().map(|(weight, part)| Some((*weight, part.probabilities.as_ref()?)));
    let probabilities = weighted_sum(probabilities);
    let most_probable = |p: &Matrix| (0..p.rows()).map(|i| argmax(p.row(i))).collect::<Vec<_>>();
    let by_outputs = || (0..outputs.rows()).map(|i| parts[0].model.predicted_class(outputs.row(i))).collect();
    let classes = probabilities.as_ref().map(most_probable).or_else(by_outputs);
    Ok(Prediction { outputs, classes, probabilities })
}

/// Returns the means over the models of f at the rows of `x`, rows × outputs.
///
/// # Errors
/// Errors of [`KernelExpansion::predict`]; [`Error::TooFew`] without models.
pub fn mean(parts: &[ModelPart<'_>], x: &Table) -> Result<Matrix> {
    if let [part] = parts {
        return part.model.predict(x);
    }
    let outputs = parts.iter().map(|part| Ok((part.weight, part.model.predict(x)?)));
    let outputs = outputs.collect::<Result<Vec<_>>>()?;
    weighted_sum(outputs.iter().map(|(weight, f)| Some((*weight, f)))).ok_or_else(no_models)
}

/// Returns the posteriors of the models with their weights; `None` if a model has none.
///
/// # Errors
/// Errors of [`Posterior::new`].
pub fn posteriors<'m>(parts: &[ModelPart<'m>]) -> Result<Option<Vec<(f64, Posterior<'m>)>>> {
    let posteriors = parts.iter().map(|part| {
        let posterior = part.covariance.map(|covariance| Posterior::new(part.model, covariance));
        posterior.transpose().map(|posterior| Some((part.weight, posterior?)))
    });
    posteriors.collect()
}

/// Returns the standard deviations of f at the rows of `x`, rows × outputs, under a mixture of posteriors
/// with weights that add up to 1. They include the differences between the models.
///
/// # Errors
/// Errors of [`KernelExpansion::predict`] and [`Posterior::variance`]; [`Error::TooFew`] without posteriors.
pub fn sd(posteriors: &[(f64, Posterior<'_>)], x: &Table) -> Result<Matrix> {
    if let [(_, posterior)] = posteriors {
        return posterior.sd(x);
    }
    let moments = posteriors
        .iter()
        .map(|(weight, posterior)| Ok((*weight, posterior.mean().predict(x)?, Some(posterior.sd(x)?))));
    let (_, sd) = mixture_moments(moments.collect::<Result<_>>()?)?;
    sd.ok_or_else(no_models)
}

/// Returns the mean of a mixture with these weights, means and standard deviations, and its standard
/// deviations, which include the differences between the means; `None` if some are missing.
///
/// # Errors
/// [`Error::TooFew`] without parts.
pub fn mixture_moments(mut parts: Vec<(f64, Matrix, Option<Matrix>)>) -> Result<(Matrix, Option<Matrix>)> {
    if parts.len() == 1 {
        let (_, mean, sd) = parts.remove(0);
        return Ok((mean, sd));
    }
    let means = parts.iter().map(|(weight, values, _)| Some((*weight, values)));
    let mean = weighted_sum(means).ok_or_else(no_models)?;
    let mut variance = Some(Matrix::zeros(mean.rows(), mean.cols()));
    for (weight, values, sd) in &parts {
        variance = variance.zip(sd.as_ref()).map(|(mut sum, sd)| {
            let moments = sd.data().iter().zip(values.data()).zip(mean.data());
            sum.data_mut()
                .iter_mut()
                .zip(moments)
                .for_each(|(sum, ((sd, value), mean))| *sum += weight * (sd * sd + (value - mean).powi(2)));
            sum
        });
    }
    if let Some(variance) = &mut variance {
        variance.data_mut().iter_mut().for_each(|variance| *variance = variance.sqrt());
    }
    Ok((mean, variance))
}

/// Returns the means over the models of each row's output on its natural scale: a rate or a probability for
/// models of counts.
///
/// # Errors
/// Errors of [`KernelExpansion::predict`] and [`NaturalScalePrediction::new`].
pub fn natural_mean(posteriors: &[(f64, Posterior<'_>)], x: &Table) -> Result<Vec<f64>> {
    let mut means = vec![0.0; x.rows()];
    for (weight, posterior) in posteriors {
        let mean = match posterior.mean().link {
            Link::Log | Link::Logit => NaturalScalePrediction::new(posterior, x, 0.0)?.mean,
            _ => posterior.mean().predict(x)?.column(0),
        };
        means.iter_mut().zip(mean).for_each(|(sum, mean)| *sum += weight * mean);
    }
    Ok(means)
}

/// Draws f at the rows of `x` jointly under a mixture of posteriors with weights that add up to 1. Each draw
/// is one of a model that is drawn by its weight. Returns a matrix for each output, rows × draws.
///
/// # Errors
/// Errors of [`Posterior::sample`]; [`Error::TooFew`] without posteriors.
pub fn sample(
    posteriors: &[(f64, Posterior<'_>)],
    x: &Table,
    draws: usize,
    seed: u64,
) -> Result<Vec<Matrix>> {
    let Some((_, first)) = posteriors.first() else { return Err(no_models()) };
    let mut random = Random::seed_from_u64(seed);
    let mut draws_of_model = vec![Vec::new(); posteriors.len()];
    for draw in 0..draws {
        let (position, mut total) = (random.random::<f64>(), 0.0);
        let ends = posteriors.iter().map(|(weight, _)| {
            total += weight;
            total
        });
        let model = ends.take_while(|end| *end <= position).count().min(posteriors.len() - 1);
        draws_of_model[model].push(draw);
    }
    let outputs = first.mean().outputs();
    let mut values = vec![Matrix::zeros(x.rows(), draws); outputs];
    for (k, columns) in draws_of_model.iter().enumerate().filter(|(_, columns)| !columns.is_empty()) {
        let posterior = &posteriors[k].1;
        // A single model has the draws of this seed.
        let seed = if posteriors.len() == 1 { seed } else { hash([seed, k as u64]) };
        let drawn = posterior.sample(&posterior.functionals_at(x)?, columns.len(), seed)?;
        for (output, drawn) in values.iter_mut().zip(&drawn.values) {
            for i in 0..x.rows() {
                columns.iter().zip(drawn.row(i)).for_each(|(draw, f)| output[(i, *draw)] = *f);
            }
        }
    }
    Ok(values)
}

fn no_models() -> Error {
    Error::too_few("the list of models", 1, "model is")
}

/// The sum of weighted matrices; `None` if there are none, or if one is missing.
fn weighted_sum<'m>(mut parts: impl Iterator<Item = Option<(f64, &'m Matrix)>>) -> Option<Matrix> {
    let (weight, first) = parts.next()??;
    let mut sum = first.clone();
    sum.scale(weight);
    for part in parts {
        let (weight, matrix) = part?;
        sum.add_times(weight, matrix);
    }
    Some(sum)
}
