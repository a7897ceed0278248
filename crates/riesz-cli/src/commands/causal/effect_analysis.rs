//! Further results of `causal effect`: Shapley values of the treatments, and the value of further rows.

use std::path::Path;

use riesz::causal::{Effect, Estimand, IdentificationRoute, Studies};
use riesz::model_card::CardEntry;
use riesz::{Exactness, Explainer, Explanation, Table};

use super::effect_output;
use super::studies::Read;
use crate::args::{Format, Global};
use crate::exit::{Failure, Result};
use crate::explain_run::{Certificate, write_explanation};
use crate::io::output::Output;
use crate::io::values;
use crate::io::write::{Cells, TableWriter};

/// Largest number of rows over which the value of a further row, or the values of absent mediators, are
/// averaged.
const MAX_ROWS: usize = 1000;

/// Exact Shapley values of the treatments at `points`, which add up to the effect minus its mean over the
/// `observed` treatments: the mean over the samples of the hyper-parameters, as values are linear.
pub fn explain(effect: &Effect, points: &Table, observed: &Table) -> Result<Explanation> {
    let mut mean: Option<Explanation> = None;
    for (weight, model, _) in effect.posteriors()? {
        let part = Explainer::interventional(&model, observed)?.explain(points)?;
        match &mut mean {
            None => mean = Some(weighted(part, weight)),
            Some(sum) => add(sum, &weighted(part, weight)),
        }
    }
    mean.ok_or_else(|| Failure::input("the effect has no model to explain"))
}

/// The explanation with all numbers multiplied by a weight from 0 to 1.
fn weighted(mut e: Explanation, weight: f64) -> Explanation {
    for list in [&mut e.values, &mut e.base_values, &mut e.predictions] {
        list.iter_mut().for_each(|number| *number *= weight);
    }
    if let Exactness::Exact { bound } = &mut e.exactness {
        // A product adds one rounding error.
        let size = e.values.iter().chain(&e.base_values).chain(&e.predictions).map(|v| v.abs()).sum::<f64>();
        bound.iter_mut().for_each(|bound| *bound = weight * *bound + f64::EPSILON * size);
    }
    e
}

/// Adds the numbers of an explanation of the same rows and features.
fn add(sum: &mut Explanation, part: &Explanation) {
    let lists = [
        (&mut sum.values, &part.values),
        (&mut sum.base_values, &part.base_values),
        (&mut sum.predictions, &part.predictions),
    ];
    for (list, numbers) in lists {
        list.iter_mut().zip(numbers).for_each(|(total, number)| *total += number);
    }
    if let (Exactness::Exact { bound }, Exactness::Exact { bound: further }) =
        (&mut sum.exactness, &part.exactness)
    {
        bound.iter_mut().zip(further).for_each(|(total, number)| *total += number);
    }
}

/// Writes the explanation as a table, or as JSON for plots and pages, and checks its certificate.
pub fn write(
    mut explanation: Explanation,
    (path, global): (&Path, &Global),
    facts: &[CardEntry],
) -> Result<()> {
    let format = Global { format: None, ..global.clone() }.table_format(Some(path))?;
    explanation.provenance.run.extend(facts.iter().cloned());
    let mut certificate = Certificate::default();
    certificate.include(&explanation);
    if format == Format::Json {
        write_explanation(Output::open(Some(path))?, &explanation, None)?;
    } else {
        let mut writer = values::Writer::open(Some(path), format, &explanation)?;
        writer.rows(&explanation)?;
        writer.finish(explanation.provenance.run.clone())?;
    }
    certificate.check()
}

/// Writes the parts of an estimand that pass through each mediator of the first two studies, as a table with
/// the treatments, a column for each mediator, the part that does not depend on the treatment, and the sum.
pub fn write_mediators(
    effect: &Effect,
    (points, estimand, mean): (&Table, &Estimand, &[f64]),
    studies: &Studies,
    (path, global): (&Path, &Global),
) -> Result<()> {
    let format = Global { format: None, ..global.clone() }.table_format(Some(path))?;
    let Some(first) = studies.studies.first() else {
        return Err(Failure::input(
            "--explain-mediators needs two or more studies, and this effect is from one table: leave it out",
        ));
    };
    // Absent mediators take the values of rows of the next study.
    let next = studies.studies.get(1).map_or(&studies.points, |study| &study.treatments);
    let mediators = next.align_to(first.mediators.columns())?;
    let values = effect.mediator_values(points, estimand, &spaced_rows(&mediators))?;
    let names = mediators.columns().iter().map(|column| format!("through {}", column.name));
    let parts = names.enumerate().map(|(j, name)| (name, Cells::Numbers(values.column(j))));
    let base = |(q, mean): (usize, &f64)| mean - values.row(q).iter().sum::<f64>();
    let base_values = mean.iter().enumerate().map(base).collect();
    let totals = [
        ("base_value".to_string(), Cells::Numbers(base_values)),
        ("mean".to_string(), Cells::Numbers(mean.to_vec())),
    ];
    let columns = effect_output::with_treatments(points, parts.chain(totals).collect());
    TableWriter::write_columns(Some(path), format, effect_output::named(&columns))
}

/// The rows, or [`MAX_ROWS`] evenly spaced ones if there are more.
fn spaced_rows(rows: &Table) -> Table {
    let n = rows.rows();
    let count = n.min(MAX_ROWS);
    rows.select_rows(&(0..count).map(|i| i * n / count).collect::<Vec<_>>())
}

/// For each study, its name and the share of the variance of the estimand that one more row like its rows
/// would remove on average, whatever the row's outcome.
pub fn value_of_information(
    effect: &Effect,
    (points, estimand): (&Table, &Estimand),
    read: &Read,
) -> Result<Vec<(String, f64)>> {
    let sums = estimand.weights_at(points, effect.treatments())?;
    let inputs = read.study_inputs()?;
    let names = |k: usize| match inputs.len() {
        1 => "the table".to_string(),
        _ => format!("study {}", k + 1),
    };
    let share = |(k, rows): (usize, &Table)| {
        let shares = effect.share_taken(&sums, k, &spaced_rows(rows))?;
        Ok((names(k), shares.iter().sum::<f64>() / shares.len() as f64))
    };
    inputs.iter().enumerate().map(share).collect()
}

/// The value of information as text.
pub fn information_text(shares: &[(String, f64)]) -> String {
    let line = |(name, share): &(String, f64)| {
        format!("one more row of {name} would remove {} of the variance\n", percent(*share))
    };
    shares.iter().map(line).collect()
}

fn percent(share: f64) -> String {
    format!("{} %", riesz_report::number(100.0 * share))
}

impl Read {
    /// The columns from which each study predicts: treatments and covariates of studies before the last,
    /// mediators of the last; of a single table, treatments and covariates.
    fn study_inputs(&self) -> Result<Vec<Table>> {
        if self.identification.is_single_table() {
            return Ok(vec![joined_columns(&self.treatments()?, self.covariates()?.as_ref())?]);
        }
        let studies = &self.gathered.studies;
        let inputs = studies.studies.iter().map(|study| {
            let covariates = match &study.route {
                IdentificationRoute::BackDoor(covariates) => Some(covariates),
                _ => None,
            };
            joined_columns(&study.treatments, covariates)
        });
        let mut inputs: Vec<Table> = inputs.collect::<Result<_>>()?;
        inputs.push(studies.points.clone());
        Ok(inputs)
    }
}

/// A table with the columns of both tables.
fn joined_columns(left: &Table, right: Option<&Table>) -> Result<Table> {
    let Some(right) = right else { return Ok(left.clone()) };
    let columns = [left.columns(), right.columns()].concat();
    let values = [left.column_major(), right.column_major()].concat();
    Ok(Table::from_column_major(columns, left.rows(), values)?)
}
