//! The contents of a map's page and pictures: means, standard deviations and explanations of the rows, and
//! their aggregates over bags.

use riesz::aggregate::{Bags, TargetUnit};
use riesz::kernel_model::Link;
use riesz::linalg::Sparse;
use riesz::model_average;
use riesz::{Error, Exactness, Explainer, Explanation, KernelExpansion, Posterior, Result, Table};

use crate::{DownscalePage, PageBags, Places};

/// A map of rows, with its uncertainty and its explanation.
#[derive(Debug, Clone)]
pub struct MapContent {
    /// The posterior mean of each row on the natural scale.
    pub mean: Vec<f64>,
    /// The posterior standard deviation of the output of each row.
    pub sd: Vec<f64>,
    /// The number of models of which the map is an average.
    pub n_models: usize,
    /// The explanation of the output of each row.
    pub explanation: Explanation,
    /// The name of the mapped quantity on its natural scale.
    pub quantity: String,
    /// The link between the explained outputs and the mapped quantity.
    pub link: Link,
}

/// The explainer of a map: of the interventional game if there is a background, and otherwise of the
/// functional game.
fn explainer<'m>(model: &'m KernelExpansion, background: Option<&Table>) -> Result<Explainer<'m>> {
    match background {
        Some(background) => Explainer::interventional(model, background),
        None => Explainer::functional(model),
    }
}

/// Explains a map at these rows, in the interventional game if there is a background, and otherwise in the
/// functional game. The map is a mixture of models with weights that add up to 1.
///
/// # Errors
/// Errors of [`Explainer::interventional`], [`Explainer::functional`], [`Explainer::explain`] and
/// [`Explanation::mixed`].
pub fn explain_map<'m>(
    models: impl IntoIterator<Item = (f64, &'m KernelExpansion)>,
    rows: &Table,
    background: Option<&Table>,
) -> Result<Explanation> {
    let explained =
        models.into_iter().map(|(weight, model)| Ok((weight, explainer(model, background)?.explain(rows)?)));
    Explanation::mixed(explained.collect::<Result<_>>()?)
}

fn models<'m>(parts: &[(f64, Posterior<'m>)]) -> impl Iterator<Item = (f64, &'m KernelExpansion)> {
    parts.iter().map(|(weight, posterior)| (*weight, posterior.mean()))
}

impl MapContent {
    /// Computes the map of these rows, which are in the model's columns. The map is a mixture of posteriors
    /// with weights that add up to 1.
    ///
    /// # Errors
    /// Errors of [`explain_map`] and [`model_average::sd`].
    pub fn new(parts: &[(f64, Posterior<'_>)], rows: &Table, background: Option<&Table>) -> Result<Self> {
        let Some((_, first)) = parts.first() else {
            return Err(Error::too_few("the list of models", 1, "model is"));
        };
        let explanation = explain_map(models(parts), rows, background)?;
        let sd = model_average::sd(parts, rows)?.column(0);
        let model = first.mean();
        let mean = match model.link {
            Link::Log | Link::Logit => model_average::natural_mean(parts, rows)?,
            _ => explanation.predictions.clone(),
        };
        // The map shows rates or probabilities, but the output's name is "log rate of …" or "log odds of …".
        let output = &model.output_names[0];
        let quantity = match model.link {
            Link::Log => output.replacen("log rate", "rate", 1),
            Link::Logit => output.replacen("log odds", "probability", 1),
            _ => output.clone(),
        };
        Ok(Self { mean, sd, n_models: parts.len(), explanation, quantity, link: model.link })
    }

    /// The title of the page.
    pub fn title(&self) -> String {
        format!("A map of {}", self.quantity)
    }

    /// The page, without a table of bags.
    pub fn page<'p>(&'p self, title: &'p str, places: Places<'p>, axes: [&'p str; 2]) -> DownscalePage<'p> {
        DownscalePage {
            title,
            quantity: &self.quantity,
            link: self.link,
            places,
            axes,
            mean: &self.mean,
            sd: &self.sd,
            n_models: self.n_models,
            explanation: &self.explanation,
            bags: None,
        }
    }

    /// The aggregates of the map over bags; `unit` says whether bags are explained by means or by sums.
    ///
    /// # Errors
    /// As [`Explanation::average`].
    pub fn over_bags(&self, bags: &NamedBags, unit: TargetUnit) -> Result<MapOfBags> {
        let map_unit = match self.link {
            Link::Log => TargetUnit::Sum,
            Link::Logit => TargetUnit::Mean,
            _ => unit,
        };
        Ok(MapOfBags {
            map: bags.aggregate(&self.mean, map_unit),
            explanations: [
                bags.explained(&self.explanation, unit)?,
                bags.explain_all(&self.explanation, unit)?,
            ],
            rows: bags.sizes(),
            description: bags.description(self.link, map_unit),
            unit,
        })
    }
}

/// The aggregates of a map over bags.
#[derive(Debug, Clone)]
pub struct MapOfBags {
    /// The map's value for each bag, and for all rows together.
    pub map: (Vec<f64>, f64),
    /// The explanation of the bags, and that of all rows.
    pub explanations: [Explanation; 2],
    /// The number of rows of each bag.
    pub rows: Vec<usize>,
    /// A description of a bag's value in terms of its rows.
    pub description: String,
    /// Whether bags are explained by means or by sums.
    pub unit: TargetUnit,
}

impl MapOfBags {
    /// The table of bags of a page; `column` names the column of bags, and `observed` the observed quantity
    /// and its values.
    pub fn page<'p>(
        &'p self,
        bags: &'p NamedBags,
        column: &'p str,
        observed: Option<(&'p str, &'p [f64])>,
    ) -> PageBags<'p> {
        PageBags {
            column,
            names: &bags.names,
            rows: &self.rows,
            weight: bags.weight.as_deref(),
            mass: bags.mass(),
            map: (&self.map.0, self.map.1),
            is: &self.description,
            observed,
            explanation: [&self.explanations[0], &self.explanations[1]],
            unit: self.unit,
        }
    }
}

/// Bags of rows, with names and weights.
#[derive(Debug, Clone)]
pub struct NamedBags {
    /// The bags' names.
    pub names: Vec<String>,
    /// The column of the rows' weights, if there is one.
    pub weight: Option<String>,
    /// The bags, with weights as they were given.
    bags: Bags,
}

impl NamedBags {
    /// Bags from the number of each row's bag, and the rows' weights with the name of their column.
    ///
    /// # Errors
    /// As [`Bags::new`].
    pub fn new(
        names: Vec<String>,
        bag_of_row: &[usize],
        weight: Option<String>,
        weights: Option<&[f64]>,
    ) -> Result<Self> {
        let bags = Bags::new(bag_of_row, names.len(), weights, TargetUnit::Sum)?;
        Ok(Self { names, weight, bags })
    }

    /// The sum of the rows' weights in each bag.
    pub fn mass(&self) -> &[f64] {
        self.bags.weight_sums()
    }

    /// The number of rows of each bag.
    pub fn sizes(&self) -> Vec<usize> {
        (0..self.names.len()).map(|b| self.bags.weights().column(b).count()).collect()
    }

    /// Weighted means or sums of `values` (one per row): by bag, and over all rows.
    pub fn aggregate(&self, values: &[f64], unit: TargetUnit) -> (Vec<f64>, f64) {
        let sum = |b: usize| self.bags.weights().column(b).map(|(i, w)| w * values[i]).sum();
        let sums: Vec<f64> = (0..self.names.len()).map(sum).collect();
        let (total, mass) = (sums.iter().sum::<f64>(), self.mass());
        match unit {
            TargetUnit::Sum => (sums, total),
            TargetUnit::Mean => {
                let means = sums.iter().zip(mass).map(|(sum, mass)| sum / mass).collect();
                (means, total / mass.iter().sum::<f64>())
            }
        }
    }

    /// Weighted means or sums of the explanations of rows, one row per bag: values are linear in the
    /// prediction.
    ///
    /// # Errors
    /// As [`Explanation::average`].
    pub fn explained(&self, rows: &Explanation, unit: TargetUnit) -> Result<Explanation> {
        let means = rows.average(self.bags.weights())?;
        Ok(if unit == TargetUnit::Sum { times(means, self.mass()) } else { means })
    }

    /// The average explanation over all rows.
    fn explain_all(&self, rows: &Explanation, unit: TargetUnit) -> Result<Explanation> {
        let (_, rows_of_bags, weights) = self.bags.weights().raw_parts();
        let all_rows =
            Sparse::from_columns(rows.rows(), [rows_of_bags.iter().copied().zip(weights.iter().copied())])?;
        let mean = rows.average(&all_rows)?;
        Ok(if unit == TargetUnit::Sum { times(mean, &[self.mass().iter().sum()]) } else { mean })
    }

    /// A description of how a bag's value is aggregated from its rows' values.
    fn description(&self, link: Link, unit: TargetUnit) -> String {
        let (factor, weighting) = match &self.weight {
            Some(name) => (format!(", each times its ‘{name}’"), format!(", weighted by ‘{name}’")),
            None => Default::default(),
        };
        match (link, unit) {
            (Link::Log, _) => format!("the expected number of events, the sum of its rows’ rates{factor}"),
            (Link::Logit, _) => format!("the mean probability of its rows{weighting}"),
            (_, TargetUnit::Sum) => format!("the sum of its rows{factor}"),
            (_, TargetUnit::Mean) => format!("the mean of its rows{weighting}"),
        }
    }
}

/// The explanation with everything in row `i` multiplied by `factors[i]`.
fn times(mut e: Explanation, factors: &[f64]) -> Explanation {
    let (m, s) = (e.outputs(), e.sets());
    if let Exactness::Exact { bound } = &mut e.exactness {
        for (g, bound) in bound.iter_mut().enumerate() {
            let values: f64 = e.values[g * s..(g + 1) * s].iter().map(|v| v.abs()).sum();
            // Each product adds one rounding error.
            let size = values + e.predictions[g].abs() + e.base_values[g].abs();
            *bound = factors[g / m] * (*bound + f64::EPSILON * size);
        }
    }
    if let Exactness::Estimated { std_error, .. } = &mut e.exactness {
        std_error.iter_mut().enumerate().for_each(|(k, error)| *error *= factors[k / (m * s)]);
    }
    e.values.iter_mut().enumerate().for_each(|(k, value)| *value *= factors[k / (m * s)]);
    for list in [&mut e.base_values, &mut e.predictions] {
        list.iter_mut().enumerate().for_each(|(g, number)| *number *= factors[g / m]);
    }
    e
}

/// The quantity that a picture of a map shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapQuantity {
    /// The posterior mean on the natural scale.
    Mean,
    /// The posterior standard deviation of the output.
    Std,
    /// The Shapley values of the feature with this number.
    Feature(usize),
}

/// Returns the quantity at each row, and the title of its picture.
///
/// # Errors
/// As [`MapContent::new`].
pub fn map_values(
    quantity: MapQuantity,
    parts: &[(f64, Posterior<'_>)],
    rows: &Table,
    background: Option<&Table>,
) -> Result<(Vec<f64>, String)> {
    let Some((_, first)) = parts.first() else {
        return Err(Error::too_few("the list of models", 1, "model is"));
    };
    let output = &first.mean().output_names[0];
    Ok(match quantity {
        MapQuantity::Std => (model_average::sd(parts, rows)?.column(0), format!("std of {output}")),
        MapQuantity::Mean => {
            let name = match first.mean().link {
                Link::Log => "rate".to_string(),
                Link::Logit => "probability".to_string(),
                _ => output.clone(),
            };
            (model_average::natural_mean(parts, rows)?, name)
        }
        MapQuantity::Feature(j) => {
            let explanation = explain_map(models(parts), rows, background)?;
            let values =
                explanation.values.iter().skip(j).step_by(explanation.players.len()).copied().collect();
            (values, format!("value of {}", explanation.players[j].name))
        }
    })
}
