//! Rates that are benchmarked to counts: `downscale predict --bags`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use riesz::Posterior;
use riesz::format::model::SavedModel;
use riesz::kernel_model::Link;

use super::map_rows::{RowOptions, labels, rows_of};
use crate::args::TableArgs;
use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::duels::names_of;
use crate::io::input::OpenTable;
use crate::io::write::Cells;
use crate::rates;

/// Counts of bags to which rates are benchmarked.
#[derive(Debug, Clone, clap::Args)]
pub struct BenchmarkArgs {
    /// Table of bags with their counts, to which rates are benchmarked; the rows must be all rows of their
    /// bags
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires_all = ["bag", "target"])]
    pub bags: Option<PathBuf>,
    /// (--bags) Column of rows and of bags with the names of the bags
    #[arg(long, value_name = "COL", requires = "bags")]
    pub bag: Option<String>,
    /// (--bags) Column of bags with the counts; a bag without a count is not rescaled
    #[arg(long, value_name = "COL", requires = "bags")]
    pub target: Option<String>,
    /// (--bags) Column of weights of rows (people) [default: all 1]
    #[arg(long, value_name = "COL", requires = "bags", visible_alias = "exposure")]
    pub weight: Option<String>,
}

/// The predictions at rows, labelled by the column `id` or numbered, and the rates rescaled in each bag so that
/// the expected events equal its count.
pub fn columns(
    args: &BenchmarkArgs,
    (saved, file): (&SavedModel, &str),
    posteriors: &[(f64, Posterior<'_>)],
    (rows, id): (OpenTable, Option<&String>),
    options: RowOptions<'_>,
) -> Result<Vec<(String, Cells)>> {
    let (Some(bag), Some(path), Some(target)) = (&args.bag, &args.bags, &args.target) else {
        return Err(Failure::input("benchmarking needs --bags FILE, --bag COL and --target COL"));
    };
    if saved.model.link != Link::Log {
        return Err(Failure::input(format!(
            "--bags rescales rates of events, and {file} is not a map of rates, as 'riesz downscale fit \
             --family poisson' makes it: leave it out"
        )));
    }
    let further: Vec<&String> = [bag].into_iter().chain(&args.weight).chain(id).collect();
    let (columns, table, _) = rows_of(saved, rows, (&further, None), options)?;
    let weights = match &args.weight {
        Some(name) => columns.numbers(name)?,
        None => vec![1.0; table.rows()],
    };
    if let (Some(name), Some(i)) = (&args.weight, weights.iter().position(|weight| *weight < 0.0)) {
        return Err(Failure::input(format!(
            "{}: {} of column '{name}' is {}: weights are not negative",
            columns.name,
            columns.describe_row(i),
            weights[i]
        )));
    }
    let count_of_bag = counts(path, (bag, target), options.table)?;
    let (bags, codes) = columns.levels(bag)?;
    let bag_of_row: Vec<usize> = codes.iter().map(|code| *code as usize).collect();
    let predictions = rates::predictions(posteriors, &table)?;
    let mut expected = vec![0.0; bags.len()];
    for ((rate, &b), weight) in predictions[0].iter().zip(&bag_of_row).zip(&weights) {
        expected[b] += weight * rate;
    }
    let factor = |b: usize| match count_of_bag.get(&bags[b]) {
        Some(count) if !count.is_nan() && expected[b] > 0.0 => count / expected[b],
        _ => 1.0,
    };
    let factors: Vec<f64> = (0..bags.len()).map(factor).collect();
    let benchmarked = predictions[0].iter().zip(&bag_of_row).map(|(rate, &b)| rate * factors[b]).collect();
    let without_count = bags.iter().filter(|name| count_of_bag.get(*name).is_none_or(|z| z.is_nan())).count();
    if without_count > 0 {
        options
            .console
            .note(format!("note: {without_count} bags have no count, and their rates are not rescaled"));
    }
    let mut out = vec![labels(&columns, id, table.rows())?];
    let names = rates::column_names(&saved.model, "");
    out.extend(names.into_iter().zip(predictions.into_iter().map(Cells::Numbers)));
    out.push(("rate_benchmarked".into(), Cells::Numbers(benchmarked)));
    Ok(out)
}

/// The count of each bag; NaN if it is missing.
fn counts(path: &Path, (bag, target): (&String, &String), table: &TableArgs) -> Result<HashMap<String, f64>> {
    let columns = Columns::read(table.source(path).open()?, &[bag.clone(), target.clone()])?;
    let (names, values) = (names_of(&columns, bag)?, columns.numbers_or_missing(target)?);
    let mut count_of_bag = HashMap::new();
    for (i, (name, count)) in names.into_iter().zip(values).enumerate() {
        if count < 0.0 {
            return Err(Failure::input(format!(
                "{}: {} of column '{target}' is {count}: counts are not negative",
                columns.name,
                columns.describe_row(i)
            )));
        }
        if count_of_bag.insert(name.clone(), count).is_some() {
            return Err(Failure::input(format!(
                "{} has '{name}' twice: give one line per bag",
                columns.name
            )));
        }
    }
    Ok(count_of_bag)
}
