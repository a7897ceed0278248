//! `riesz test two-sample`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::discrepancy::{MmdEstimator, TwoSampleTest};
use riesz::model_card::CardEntry;
use riesz::{Column, ColumnKind, Table};
use riesz_report::{TestSubject, largest_witnesses};

use super::output::{TestOutput, form, kernels, settings};
use crate::args::{Global, TestArgs};
use crate::console::{Console, note_once, with_progress};
use crate::exit::{Failure, Result};
use crate::io::cells::FRONT_END;
use crate::io::columns::Columns;
use crate::io::units::Units;

/// Arguments of `test two-sample`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz test two-sample last_year.csv this_year.csv
  riesz test two-sample patients.csv --by sex -o differ.html
  riesz test two-sample a.parquet b.parquet --length-scale-multiples 0.25,0.5,1,2,4 -o differ.csv
  riesz test two-sample a.csv b.csv --estimator linear          millions of rows

MMD² (maximum mean discrepancy) is 0 if both samples have the same distribution, and with the
default kernel only then. The table of features has the columns feature, value, null_low,
null_high, pvalue and adjusted_pvalue, and marginal and marginal_pvalue for the test of each
feature by itself.")]
pub struct Args {
    /// First sample, CSV or Parquet; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub first: PathBuf,
    /// Second sample; its columns are matched by name
    #[arg(value_hint = ValueHint::FilePath, conflicts_with = "split_column")]
    pub second: Option<PathBuf>,
    /// Split one table into two samples: by the two values of this column, or COL=VALUE against all other
    /// rows
    #[arg(long = "by", value_name = "COL[=VALUE]")]
    pub split_column: Option<String>,
    /// Estimator of MMD²: over all pairs of rows (unbiased; or biased, which is never negative), or over
    /// consecutive blocks of rows, in time that grows linearly (block; or linear, which has blocks of 2)
    #[arg(long, value_name = "WAY", value_parser = ["unbiased", "biased", "linear", "block"], default_value = "unbiased")]
    pub estimator: String,
    /// Rows of a block [default: the square root of the number of rows]
    #[arg(long, value_name = "ROWS")]
    pub block_size: Option<usize>,
    /// Treatment of missing cells: stop with an error; leave their rows out; or compare missingness too: a
    /// missing category is a category of its own, and for a column of numbers the median of both samples
    /// fills the gaps, with an extra column that marks them
    #[arg(long, value_name = "WAY", value_enum, default_value_t)]
    pub missing: MissingCells,
    /// The test.
    #[command(flatten)]
    pub test: TestArgs,
}

/// Treatment of missing cells in the compared samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum MissingCells {
    /// They are an error.
    #[default]
    Error,
    /// Their rows are left out, and counted.
    Drop,
    /// Whether a cell is missing is compared too.
    Compare,
}

/// The level of missing categories.
const MISSING: &str = "(missing)";

/// Reads two samples, tests whether they differ, and writes the result.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = form(&args.test, global)?;
    let TwoSamples { first, second, names } = read(args, &console)?;
    let (n, m) = (first.rows(), second.rows());
    let estimator = match (args.estimator.as_str(), args.block_size) {
        ("block", size) => MmdEstimator::Block(size.unwrap_or((n.min(m) as f64).sqrt() as usize).max(2)),
        (_, Some(_)) => {
            return Err(Failure::input("--block-size is an option of --estimator block: leave it out"));
        }
        ("biased", _) => MmdEstimator::Biased,
        ("linear", _) => MmdEstimator::LINEAR,
        _ => MmdEstimator::Unbiased,
    };
    if let MmdEstimator::Block(q) = estimator {
        let used = n.min(m) / q * q;
        if used < n.max(m) {
            console.note(format!("note: blocks of {q} rows use the first {used} rows of each sample"));
        }
    }
    let pooled = riesz::discrepancy::pooled(&first, &second)?;
    let test = TwoSampleTest {
        kernels: kernels(&args.test, &pooled)?,
        estimator,
        settings: settings(&args.test, global, &pooled)?,
    };
    let message = format!("comparing {n} with {m} rows");
    let mut result =
        with_progress(&console, &message, &test.settings.progress, || test.run(&first, &second))?;
    if let Some(attributions) = &mut result.attributions {
        let run = &mut attributions.explanation.provenance.run;
        run.extend([CardEntry::new("first sample", &names[0]), CardEntry::new("second sample", &names[1])]);
    }
    let finding = TestOutput {
        subject: TestSubject::Samples([&names[0], &names[1]]),
        result: &result,
        // Witness functions are computed only for a page.
        witnesses: &|| Ok(largest_witnesses(&first, &second, &result)?),
    };
    finding.write(&args.test, format, &console)
}

struct TwoSamples {
    first: Table,
    second: Table,
    names: [String; 2],
}

fn read(args: &Args, console: &Console) -> Result<TwoSamples> {
    let test = &args.test;
    let source = |path: &PathBuf| {
        let mut file = test.table.source(path);
        file.options.drop_missing = args.missing == MissingCells::Drop;
        file.options.missing_remedy =
            ", leave its row out with --missing drop, or compare what is missing with --missing compare";
        file
    };
    let rows = source(&args.first).open()?;
    let (name, header) = (rows.name.clone(), rows.header().to_vec());
    let test = &test.for_header(&header);
    rows.column_indices(test.ignore.iter().chain(&test.categorical))?;
    let split_by = args.split_column.as_deref().map(|text| split(text, &header));
    let split_column = split_by.as_ref().map(|(column, _)| column.clone());
    let features: Vec<String> = header
        .iter()
        .filter(|c| !test.ignore.contains(c) && split_column.as_ref() != Some(c))
        .cloned()
        .collect();
    if features.is_empty() {
        return Err(Failure::input(format!("{name}: no column is left to compare; ignore fewer columns")));
    }
    let mut column_names = features.clone();
    column_names.extend(split_column.clone());
    let columns = Columns::read(rows, &column_names)?;
    if let Some((column, value)) = split_by {
        let table = tables(&[&columns], &features, &test.categorical, args.missing, console)?.remove(0);
        let (levels, codes) = columns.levels(&column)?;
        let level = match &value {
            Some(value) => levels.iter().position(|l| l == value).ok_or_else(|| {
                let level_list = riesz::error::listed(&levels);
                Failure::input(format!(
                    "{name}: column '{column}' is never '{value}'; its values are: {level_list}"
                ))
            })?,
            None if levels.len() == 2 => 0,
            None => {
                let level_list = riesz::error::listed(&levels);
                return Err(Failure::input(format!(
                    "{name}: column '{column}' has {} values ({level_list}): two samples need two; compare \
                     one with all others by --by '{column}=VALUE'",
                    levels.len()
                )));
            }
        };
        let rows_where = |in_level: bool| -> Vec<usize> {
            (0..table.rows()).filter(|&i| (codes[i] == level as f64) == in_level).collect()
        };
        let first = format!("{column} = {}", levels[level]);
        let second = match levels.as_slice() {
            [_, _] => format!("{column} = {}", levels[1 - level]),
            _ => "all others".into(),
        };
        return Ok(TwoSamples {
            first: table.select_rows(&rows_where(true)),
            second: table.select_rows(&rows_where(false)),
            names: [first, second],
        });
    }
    let Some(second) = &args.second else {
        return Err(Failure::input("give a second table, or --by COL to split the first"));
    };
    let rows = source(second).open()?;
    let extra: Vec<&String> =
        rows.header().iter().filter(|c| !features.contains(c) && !test.ignore.contains(c)).collect();
    if !extra.is_empty() {
        let extra = riesz::error::listed(&extra);
        console.warn(format!("{} has columns that {name} lacks, which are left out: {extra}", rows.name));
    }
    let second_columns = Columns::read(rows, &features)?;
    let mut samples =
        tables(&[&columns, &second_columns], &features, &test.categorical, args.missing, console)?;
    let second = samples.remove(1);
    Ok(TwoSamples { first: samples.remove(0), second, names: [name, second_columns.name] })
}

/// The samples as tables with the same columns. A column that holds text in any sample is categorical in all.
fn tables(
    samples: &[&Columns],
    features: &[String],
    stated_categorical: &[String],
    missing: MissingCells,
    console: &Console,
) -> Result<Vec<Table>> {
    let categorical = categorical_columns(samples, features, stated_categorical)?;
    for feature in &categorical {
        warn_of_spellings(samples, feature)?;
    }
    if missing != MissingCells::Compare {
        let table = |sample: &&Columns| {
            let table = sample.table_as_given(features, &categorical)?;
            sample.check(&table, stated_categorical, console)?;
            Ok(table)
        };
        return samples.iter().map(table).collect();
    }
    tables_with_missing(samples, features, &categorical, console)
}

/// The categorical features: those that the user states, and those that hold text in any sample. Refuses
/// numeric features whose units differ.
fn categorical_columns(
    samples: &[&Columns],
    features: &[String],
    stated_categorical: &[String],
) -> Result<Vec<String>> {
    let (mut categorical, mut units) = (stated_categorical.to_vec(), Units::default());
    for feature in features.iter().filter(|feature| !stated_categorical.contains(feature)) {
        // All samples are visited, so that the notes of each are printed.
        let is_text = samples.iter().map(|sample| sample.is_categorical(feature, true));
        let is_text = is_text.collect::<Result<Vec<_>>>()?;
        let sample_with = |text: bool| {
            is_text.iter().position(|sample_is_text| *sample_is_text == text).map(|k| samples[k])
        };
        if let (Some(text), Some(numbers)) = (sample_with(true), sample_with(false)) {
            note_once(&format!(
                "warning: column '{feature}' holds numbers in {} and text in {}, so its numbers are compared \
                 as categories: correct one of them, or give {}",
                numbers.name,
                text.name,
                FRONT_END.choice(feature, "text")
            ));
        }
        if is_text.contains(&true) {
            categorical.push(feature.clone());
        } else {
            samples.iter().try_for_each(|sample| units.add(sample, std::slice::from_ref(feature)))?;
        }
    }
    Ok(categorical)
}

/// The samples as tables in which missing cells are compared: as a level of categorical columns, and as a
/// further column for numeric ones.
fn tables_with_missing(
    samples: &[&Columns],
    features: &[String],
    categorical: &[String],
    console: &Console,
) -> Result<Vec<Table>> {
    let mut columns: Vec<Vec<(Column, Vec<f64>)>> = vec![Vec::new(); samples.len()];
    for feature in features {
        if categorical.contains(feature) {
            for (sample, columns) in samples.iter().zip(&mut columns) {
                let (mut levels, mut codes) = sample.levels_or_missing(feature)?;
                if codes.iter().any(|code| code.is_nan()) {
                    let missing_code = levels.len() as f64;
                    codes.iter_mut().filter(|code| code.is_nan()).for_each(|code| *code = missing_code);
                    levels.push(MISSING.into());
                }
                let kind = ColumnKind::Categorical { levels };
                columns.push((Column { name: feature.clone(), kind }, codes));
            }
        } else {
            add_numeric_columns(&mut columns, samples, feature, console)?;
        }
    }
    let table = |(entries, sample): (Vec<(Column, Vec<f64>)>, &&Columns)| {
        let (names, values): (Vec<Column>, Vec<Vec<f64>>) = entries.into_iter().unzip();
        Ok(Table::from_column_major(names, sample.rows(), values.concat())?)
    };
    columns.into_iter().zip(samples).map(table).collect()
}

/// Adds to each sample a numeric feature, in which the median replaces missing numbers, and a column that
/// says which numbers are missing.
fn add_numeric_columns(
    columns: &mut [Vec<(Column, Vec<f64>)>],
    samples: &[&Columns],
    feature: &str,
    console: &Console,
) -> Result<()> {
    let numbers = samples.iter().map(|s| s.numbers_or_missing(feature)).collect::<Result<Vec<_>>>()?;
    let mut present: Vec<f64> = numbers.iter().flatten().copied().filter(|v| !v.is_nan()).collect();
    let count: usize = numbers.iter().map(Vec::len).sum();
    if present.is_empty() {
        console.warn(format!("column '{feature}' has no values and is left out"));
        return Ok(());
    }
    let lacks_values = numbers.iter().any(|sample| sample.iter().all(|v| v.is_nan()));
    if lacks_values {
        console.warn(format!(
            "column '{feature}' has no values in one sample, so that only whether they are missing is \
             compared"
        ));
    }
    present.sort_unstable_by(f64::total_cmp);
    let median = present[present.len() / 2];
    for (numbers, columns) in numbers.into_iter().zip(columns) {
        let missing_codes = numbers.iter().map(|v| f64::from(u8::from(v.is_nan()))).collect();
        let filled = numbers.iter().map(|v| if v.is_nan() { median } else { *v }).collect();
        if !lacks_values {
            columns.push((Column::numeric(feature), filled));
        }
        if present.len() < count {
            let levels = vec!["no".into(), "yes".into()];
            let name = format!("{feature} is missing");
            columns.push((Column { name, kind: ColumnKind::Categorical { levels } }, missing_codes));
        }
    }
    Ok(())
}

/// Warns if two samples spell a category with different capitalisation.
fn warn_of_spellings(samples: &[&Columns], feature: &str) -> Result<()> {
    let [first, second] = samples else { return Ok(()) };
    let (levels, second_levels) = (first.levels_or_missing(feature)?.0, second.levels_or_missing(feature)?.0);
    let differs = |level: &&String| !levels.contains(level);
    let pair = second_levels.iter().filter(differs).find_map(|other| {
        Some((levels.iter().find(|level| level.to_lowercase() == other.to_lowercase())?, other))
    });
    if let Some((level, other)) = pair {
        note_once(&format!(
            "warning: column '{feature}': '{level}' in {} and '{other}' in {} differ in case only and are \
             two categories: correct the tables if they are one",
            first.name, second.name
        ));
    }
    Ok(())
}

/// Parses `COL` or `COL=VALUE`; a column's name may hold an equals sign.
fn split(text: &str, header: &[String]) -> (String, Option<String>) {
    match text.split_once('=') {
        Some((column, value)) if !header.iter().any(|h| h == text) => (column.into(), Some(value.into())),
        _ => (text.into(), None),
    }
}
