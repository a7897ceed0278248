//! Global explanations of averages of models over hyper-parameters.

use super::{Components, Curve, SobolIndices};
use crate::error::Result;
use crate::explanation::Explanation;
use crate::game::Background;
use crate::linalg::{Matrix, add_multiple};
use crate::model_average::{ModelPart, mixture_moments};
use crate::posterior::Posterior;
use crate::table::{Player, Players, Table};

/// The components of the models of an average, or of a single model, with their posteriors.
pub struct AverageComponents<'m> {
    parts: Vec<(f64, Components<'m>, Option<Posterior<'m>>)>,
}

impl<'m> AverageComponents<'m> {
    /// Prepares the components of models; arguments as for [`Components::new`]. Posteriors that are none of
    /// data are left out.
    ///
    /// # Errors
    /// As [`Components::new`] and [`Posterior::new`].
    pub fn new(parts: &[ModelPart<'m>], inputs: &Background, groups: Option<&Players>) -> Result<Self> {
        let prepared = parts.iter().map(|part| {
            let of_data = part.covariance.filter(|covariance| covariance.is_of_data());
            let posterior = of_data.map(|covariance| Posterior::new(part.model, covariance)).transpose()?;
            Ok((part.weight, Components::new(part.model, inputs, groups.cloned())?, posterior))
        });
        Ok(Self { parts: prepared.collect::<Result<_>>()? })
    }

    /// Returns the players.
    pub fn players(&self) -> &[Player] {
        self.parts.first().map_or(&[], |(_, components, _)| components.players())
    }

    /// Returns the component of a set of players at given rows, rows × outputs, as [`Components::evaluate`]
    /// does for one model. It is the mean over the models. If all models have posteriors, it has standard
    /// deviations, which include the differences between the models.
    ///
    /// # Errors
    /// As [`Components::evaluate`] and [`Components::sd`].
    pub fn evaluate(&self, set: &[usize], rows: &Table) -> Result<(Matrix, Option<Matrix>)> {
        let moments = self.parts.iter().map(|(weight, components, posterior)| {
            let sd = posterior.as_ref().map(|posterior| components.sd(set, rows, posterior)).transpose()?;
            Ok((*weight, components.evaluate(set, rows)?, sd))
        });
        mixture_moments(moments.collect::<Result<_>>()?)
    }

    /// Returns the component of a set of players on a grid, as [`Components::curve_along`] does for one
    /// model.
    ///
    /// # Errors
    /// As [`Components::curve_along`].
    pub fn curve_along(&self, set: &[usize], table: &Table) -> Result<Curve> {
        let curves = self.parts.iter().map(|(weight, components, posterior)| {
            Ok((*weight, components.curve_along(set, table, posterior.as_ref())?))
        });
        Curve::mixed(curves.collect::<Result<_>>()?)
    }
}

impl SobolIndices {
    /// Returns the means of the indices of several models with weights that add up to 1. The mean of
    /// [posterior means](super::Sensitivity::posterior_mean_indices) is the posterior mean under a mixture of
    /// posteriors. Means of indices of mean functions are no indices of the mean of these functions.
    ///
    /// # Errors
    /// As [`Explanation::mixed`].
    pub fn mixed(mut parts: Vec<(f64, Self)>) -> Result<Self> {
        if parts.len() == 1 {
            return Ok(parts.remove(0).1);
        }
        let explanations = parts.iter().map(|(weight, part)| (*weight, part.explanation.clone()));
        let explanation = Explanation::mixed(explanations.collect())?;
        let players = explanation.players.len();
        let mean = |list: &dyn Fn(&Self) -> &[f64]| {
            let mut sum = vec![0.0; explanation.outputs() * players];
            parts.iter().for_each(|(weight, part)| add_multiple(&mut sum, *weight, list(part)));
            sum
        };
        let (first_order, total_order, effects) =
            (mean(&|part| &part.first_order), mean(&|part| &part.total_order), mean(&|part| &part.effects));
        // All these numbers are at most the variance, to which the rounding of sums is relative.
        let rounding = f64::EPSILON * (parts.len() + players) as f64;
        let bound_of = |o: usize| {
            let bounds = parts.iter().map(|(weight, part)| weight * part.bound[o]);
            bounds.sum::<f64>() + rounding * explanation.predictions[o].abs()
        };
        let bound = (0..explanation.outputs()).map(bound_of).collect();
        Ok(Self { explanation, first_order, total_order, effects, bound })
    }
}

impl Curve {
    /// Returns the mean of the curves of several models on the same grid, with weights that add up to 1. Its
    /// standard deviations include the differences between the models.
    fn mixed(curves: Vec<(f64, Self)>) -> Result<Self> {
        let axes = curves
            .first()
            .map(|(_, first)| (first.players.clone(), first.axes.clone(), first.output_names.clone()));
        let moments = curves.into_iter().map(|(weight, curve)| (weight, curve.values, curve.sd));
        let (values, sd) = mixture_moments(moments.collect())?;
        let (players, axes, output_names) = axes.unwrap_or_default();
        Ok(Self { players, axes, output_names, values, sd })
    }
}
