//! Explanations of mixtures of models, such as averages over hyper-parameters.

use super::{ConditioningPart, Dispersion, Exactness, Explanation, Uncertainty};
use crate::error::{Error, Result, sized};
use crate::linalg::add_multiple;

impl Explanation {
    /// Returns the explanation of a mixture of models with weights that add up to 1, from the explanations of
    /// the same rows for each model. Values are means. Their covariance is the mean covariance plus the
    /// covariance of the values between the models (law of total covariance). The result has no duels, whose
    /// probabilities are not those of one model.
    ///
    /// # Errors
    /// [`Error::TooFew`] without explanations; [`Error::Shape`] unless all have the same rows, outputs and
    /// sets.
    pub fn mixed(mut parts: Vec<(f64, Self)>) -> Result<Self> {
        if parts.len() == 1 {
            return Ok(parts.remove(0).1);
        }
        let Some((_, first)) = parts.first() else {
            return Err(Error::too_few("the list of explanations", 1, "explanation is"));
        };
        for (_, part) in &parts {
            sized(
                "an explanation",
                "values",
                first.values.len(),
                part.values.len(),
                "as many as the others",
            )?;
        }
        let mean = |list: &dyn Fn(&Self) -> Option<Vec<f64>>| -> Option<Vec<f64>> {
            let mut sum = Vec::new();
            for (weight, part) in &parts {
                let terms = list(part)?;
                sum.resize(terms.len(), 0.0);
                add_multiple(&mut sum, *weight, &terms);
            }
            Some(sum)
        };
        let values = mean(&|part| Some(part.values.clone())).unwrap_or_default();
        let bound = mean(&|part| match &part.exactness {
            Exactness::Exact { bound } => Some(part.with_rounding(bound, parts.len())),
            _ => None,
        });
        let std_error = mean(&|part| match &part.exactness {
            // The models share their draws.
            Exactness::Estimated { std_error, .. } => Some(std_error.clone()),
            _ => None,
        });
        let exactness = match (&first.exactness, bound, std_error) {
            (_, Some(bound), _) => Exactness::Exact { bound },
            (Exactness::Estimated { sampling, .. }, _, Some(std_error)) => {
                Exactness::Estimated { std_error, sampling: *sampling }
            }
            _ => Exactness::Unknown,
        };
        let dispersion = match first.uncertainty.as_ref().map(|uncertainty| &uncertainty.dispersion) {
            None => None,
            Some(Dispersion::Covariance(_)) => {
                mean(&|part| part.second_moments(&values)).map(Dispersion::Covariance)
            }
            Some(Dispersion::Sd(_)) => mean(&|part| part.squares(&values))
                .map(|variances| Dispersion::Sd(variances.into_iter().map(f64::sqrt).collect())),
        };
        let source = first.uncertainty.as_ref().and_then(|uncertainty| uncertainty.source);
        let conditioning_mean = |list: fn(&ConditioningPart) -> &Vec<f64>| {
            mean(&|part| part.uncertainty.as_ref()?.conditioning.as_ref().map(|part| list(part).clone()))
        };
        let conditioning = conditioning_mean(|part| &part.covariance)
            .zip(conditioning_mean(|part| &part.unexplained_share))
            .map(|(covariance, unexplained_share)| ConditioningPart { covariance, unexplained_share });
        Ok(Self {
            base_values: mean(&|part| Some(part.base_values.clone())).unwrap_or_default(),
            predictions: mean(&|part| Some(part.predictions.clone())).unwrap_or_default(),
            values,
            exactness,
            uncertainty: dispersion.map(|dispersion| Uncertainty { dispersion, source, conditioning }),
            duels: None,
            ..first.clone()
        })
    }

    /// Returns error bounds with the rounding of a weighted sum of `count` explanations.
    fn with_rounding(&self, bound: &[f64], count: usize) -> Vec<f64> {
        let m = self.outputs();
        let rounding = f64::EPSILON * (count + self.sets()) as f64;
        let size = |game: usize| {
            let values: f64 = self.row_values(game / m, game % m).iter().map(|v| v.abs()).sum();
            self.predictions[game].abs() + self.base_values[game].abs() + values
        };
        bound.iter().enumerate().map(|(game, bound)| bound + rounding * size(game)).collect()
    }

    /// Returns the covariances of values plus the products of their differences from `mean`; `None` without
    /// covariances.
    fn second_moments(&self, mean: &[f64]) -> Option<Vec<f64>> {
        let Dispersion::Covariance(covariance) = &self.uncertainty.as_ref()?.dispersion else { return None };
        let s = self.sets();
        let moment = |(index, covariance): (usize, &f64)| {
            let (game, k, l) = (index / (s * s), index / s % s, index % s);
            let difference = |set: usize| self.values[game * s + set] - mean[game * s + set];
            covariance + difference(k) * difference(l)
        };
        Some(covariance.iter().enumerate().map(moment).collect())
    }

    /// Returns the variances of values plus the squares of their differences from `mean`; `None` without
    /// standard deviations.
    fn squares(&self, mean: &[f64]) -> Option<Vec<f64>> {
        let Dispersion::Sd(sd) = &self.uncertainty.as_ref()?.dispersion else { return None };
        let moments = sd.iter().zip(&self.values).zip(mean);
        Some(moments.map(|((sd, value), mean)| sd * sd + (value - mean).powi(2)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;
    use crate::posterior::UncertaintySource;

    /// An explanation with other values, and a covariance with this variance and no correlations.
    fn part(shift: f64, variance: f64) -> Explanation {
        let mut part = example();
        let s = part.sets();
        part.values.iter_mut().enumerate().for_each(|(v, value)| *value += shift * (1 + v % s) as f64);
        let covariance = (0..part.values.len() * s)
            .map(|index| if index / s % s == index % s { variance } else { 0.0 })
            .collect();
        part.uncertainty = Some(Uncertainty {
            dispersion: Dispersion::Covariance(covariance),
            source: Some(UncertaintySource::Posterior),
            conditioning: None,
        });
        part
    }

    #[test]
    fn mixtures_have_the_total_covariance() {
        let (weights, shifts, variances) = ([0.25, 0.75], [0.4, -0.8], [0.3, 0.1]);
        let parts: Vec<_> = (0..2).map(|p| (weights[p], part(shifts[p], variances[p]))).collect();
        let mixed = Explanation::mixed(parts.clone()).unwrap();
        let s = mixed.sets();
        let mean_shift = 0.25 * 0.4 - 0.75 * 0.8;
        for (v, value) in mixed.values.iter().enumerate() {
            let expected = example().values[v] + mean_shift * (1 + v % s) as f64;
            assert!((value - expected).abs() < 1e-14, "{v}");
        }
        let Dispersion::Covariance(covariance) = &mixed.uncertainty.as_ref().unwrap().dispersion else {
            panic!("covariances were given")
        };
        let between = 0.25 * (0.4 - mean_shift).powi(2) + 0.75 * (-0.8 - mean_shift).powi(2);
        for (index, entry) in covariance.iter().enumerate() {
            let (k, l) = (index / s % s, index % s);
            let mean_covariance = if k == l { 0.25 * 0.3 + 0.75 * 0.1 } else { 0.0 };
            let expected = mean_covariance + between * ((1 + k) * (1 + l)) as f64;
            assert!((entry - expected).abs() < 1e-14, "{index}");
        }
        // Standard deviations alone.
        let sds: Vec<_> = parts
            .iter()
            .zip(variances)
            .map(|((weight, part), variance)| {
                let dispersion = Dispersion::Sd(vec![variance.sqrt(); part.values.len()]);
                (
                    *weight,
                    Explanation {
                        uncertainty: Some(Uncertainty { dispersion, source: None, conditioning: None }),
                        ..part.clone()
                    },
                )
            })
            .collect();
        let Dispersion::Sd(sd) = Explanation::mixed(sds).unwrap().uncertainty.unwrap().dispersion else {
            panic!("standard deviations were given")
        };
        for (v, sd) in sd.iter().enumerate() {
            assert!((sd * sd - covariance[v / s * s * s + v % s * (s + 1)]).abs() < 1e-14, "{v}");
        }
        assert!(mixed.certificate().is_some());
        assert!(Explanation::mixed(vec![]).is_err());
    }
}
