//! The two tables of downscaling, rows and bags, joined by the names of the bags.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};
use riesz::aggregate::{Aggregates, BagJoin, Bags, Family, Mediators, TargetUnit, join};
use riesz::{Error, Table};

use crate::args::{RowArgs, TableArgs};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::duels::names_of;
use crate::io::input::OpenTable;
use crate::io::names::listed_columns;

/// The tables of training data, and the meaning of their columns.
#[derive(Debug, Clone, clap::Args)]
pub struct AggregateArgs {
    /// Table of rows (pixels, villages, persons), CSV or Parquet: the bag of each row, and its covariates.
    /// Without a second table: a table of areas, one line per area with its covariates and its target
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// Table of bags (districts, coarse pixels), one line per bag: its name, target, and other columns
    #[arg(value_hint = ValueHint::FilePath, requires = "bag")]
    pub bags: Option<PathBuf>,
    /// Column of the bags' names, in both tables; with a single table, the names of the areas
    #[arg(long, value_name = "COL")]
    pub bag: Option<String>,
    /// Column of bags with the targets; an empty cell means no target
    #[arg(long, value_name = "COL")]
    pub target: String,
    /// Column of positive weights of rows (area, people) [default: all 1]; for counts the population or the
    /// expected number of events, so that the map is a rate or a standardised ratio
    #[arg(long, value_name = "COL", visible_alias = "exposure")]
    pub weight: Option<String>,
    /// Targets are weighted sums of rows, in the unit of the weights, instead of means; the map is then per
    /// unit of weight
    #[arg(long)]
    pub sum: bool,
    /// Type of targets: numbers, counts of events among the weights (poisson: cases among people), or counts
    /// of successes among trials (binomial)
    #[arg(long, value_enum, default_value_t = FamilyName::Gaussian)]
    pub family: FamilyName,
    /// (--family binomial) Column of bags with the numbers of trials; the target counts the successes
    #[arg(long, value_name = "COL")]
    pub trials: Option<String>,
    /// Columns of bags that relate bags without rows to bags with rows (latitude, year): targets of bags
    /// without rows are learnt through these mediators
    #[arg(long, value_name = "COL,…")]
    pub mediators: Vec<String>,
    /// Choice of the targets that are learnt through --mediators
    #[arg(long, value_enum, default_value_t = OperatorName::Auto)]
    pub operator: OperatorName,
    /// Column of rows with their names, for bags that overlap: a row has a line for each of its bags, and
    /// these lines share its noise
    #[arg(long, value_name = "COL")]
    pub row: Option<String>,
    /// (sums or poisson counts with --mediators) Column of bags with the sums of their weights
    #[arg(long, value_name = "COL")]
    pub total: Option<String>,
    /// Column of bags with known standard deviations of the errors of the targets, in addition to the noise
    #[arg(long, value_name = "COL")]
    pub target_std: Option<String>,
    /// Leave out targets of bags without rows; without mediators such bags are an error otherwise
    #[arg(long)]
    pub drop_unmatched: bool,
    /// Columns of rows on which the map depends [default: all except bag, weight and name]
    #[arg(long, value_name = "COL,…", conflicts_with = "ignore")]
    pub features: Vec<String>,
    /// Columns of rows to leave out
    #[arg(long, value_name = "COL,…")]
    pub ignore: Vec<String>,
    /// Columns whose numbers are codes of categories
    #[arg(long, value_name = "COL,…")]
    pub categorical: Vec<String>,
    /// Treatment of rows with missing cells.
    #[command(flatten)]
    pub missing: RowArgs,
    /// Options for reading the tables.
    #[command(flatten)]
    pub table: TableArgs,
}

/// The type of targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FamilyName {
    /// Numbers: means or sums
    Gaussian,
    /// Counts of events, in proportion to the weights
    Poisson,
    /// Counts of successes among trials
    Binomial,
}

/// The aggregation operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OperatorName {
    /// Through mediators for targets without rows of their own
    Auto,
    /// Never through mediators: all targets have rows of their own
    Matched,
    /// Through mediators for all targets, also those with rows of their own
    Mediated,
    /// For comparison, for means: targets without rows are regressed on mediators, and the predictions for
    /// bags with rows become their targets, with the predictions' covariance
    Pseudo,
    /// For comparison, for means: means of bags with rows are tied to that regression by a variance, and all
    /// parameters are tuned together
    TwoSided,
}

impl OperatorName {
    /// The name as given on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Matched => "matched",
            Self::Mediated => "mediated",
            Self::Pseudo => "pseudo",
            Self::TwoSided => "two-sided",
        }
    }

    /// Whether targets, rather than rows, are regressed on mediators.
    pub fn regresses(self) -> bool {
        matches!(self, Self::Pseudo | Self::TwoSided)
    }
}

/// The training data with their names.
pub struct Aggregated {
    /// Rows, bags and targets.
    pub data: Aggregates,
    /// The likelihood of targets, if they are counts.
    pub family: Option<Family>,
    /// The files' names.
    pub source: String,
    /// The name of each target's bag.
    pub targets: Vec<String>,
    /// The names of the bags with rows.
    pub bags: Vec<String>,
    /// Notes about data that were left out.
    pub notes: Vec<String>,
}

impl Aggregated {
    /// The name of each row of a table of areas, which is that of its bag.
    pub fn names_of_areas(&self) -> Vec<String> {
        let mut names = vec![String::new(); self.data.rows.rows()];
        for (b, name) in self.bags.iter().enumerate() {
            self.data.bags.weights().column(b).for_each(|(i, _)| names[i].clone_from(name));
        }
        names
    }
}

/// The columns of the training data.
struct TrainingColumns {
    rows: Columns,
    /// The table of bags; `None` if the table of rows has the targets.
    bags: Option<Columns>,
    /// The columns on which the map depends.
    features: Vec<String>,
    /// The columns that relate bags to each other.
    mediators: Vec<String>,
    /// The columns whose numbers are codes of categories.
    categorical: Vec<String>,
    /// The names of the files.
    source: String,
}

impl TrainingColumns {
    /// The table with the targets.
    fn bags(&self) -> &Columns {
        self.bags.as_ref().unwrap_or(&self.rows)
    }
}

impl AggregateArgs {
    /// Reads and joins the tables.
    pub fn read(&self, console: &Console) -> Result<Aggregated> {
        self.check()?;
        let tables = self.tables()?;
        let (rows, bags, mediators) = (&tables.rows, tables.bags(), &tables.mediators);
        let row_bags = self.names_in(rows)?;
        let row_bags: Vec<&str> = row_bags.iter().map(String::as_str).collect();
        let names = self.names_in(bags)?;
        let targets = bags.numbers_or_missing(&self.target)?;
        let (joined, mediated) = self.joined(&row_bags, &names, &targets, !mediators.is_empty())?;
        let covariates = rows.table(&tables.features, &tables.categorical, console)?;
        let (covariates, row_of_line) = self.distinct_rows(rows, covariates, &joined, &row_bags)?;
        let weight = self.weight.as_ref().map(|name| weights(rows, name, |i| row_bags[i])).transpose()?;
        let weight =
            weight.map(|row_weights| joined.rows.iter().map(|&i| row_weights[i]).collect::<Vec<_>>());
        let unit = if self.sums() { TargetUnit::Sum } else { TargetUnit::Mean };
        let family = self.family(bags, &names, &targets, &joined)?;
        let target_names: Vec<String> = joined.targets.iter().map(|&b| names[b].clone()).collect();
        let bag_names: Vec<String> = joined.with_rows.iter().map(|&b| names[b].clone()).collect();
        let data = Aggregates {
            bags: Bags::from_memberships(
                &row_of_line,
                covariates.rows(),
                &joined.bag,
                bag_names.len(),
                weight.as_deref(),
                unit,
            )?,
            rows: covariates,
            targets: joined.targets.iter().map(|&b| targets[b]).collect(),
            bag_of_target: joined.matched.clone(),
            target_noise: self.known_variances(bags, &names, &joined)?,
            mediators: if mediated {
                let table = bags.table(mediators, &tables.categorical, console)?;
                Some(self.coarse(&table, bags, &names, &joined)?)
            } else {
                None
            },
        };
        let source = tables.source;
        Ok(Aggregated { data, family, source, targets: target_names, bags: bag_names, notes: joined.notes })
    }

    /// Whether a single table has both the covariates and the targets of each area.
    pub fn is_single_table(&self) -> bool {
        self.bags.is_none()
    }

    /// Reads the columns of the tables. A single table is read once, so it may be standard input.
    fn tables(&self) -> Result<TrainingColumns> {
        let rows = self.missing.apply_to(self.table.source(&self.rows)).open()?;
        let features = self.features_of(&rows)?;
        let target_columns = [&self.target].into_iter().chain(&self.total).chain(&self.target_std);
        let target_columns: Vec<&String> = target_columns.chain(&self.trials).collect();
        let row_columns = features.iter().chain(&self.bag).chain(&self.weight).chain(&self.row);
        let Some(path) = &self.bags else {
            let (source, columns) =
                (rows.name.clone(), distinct_names(row_columns.chain(target_columns.iter().copied())));
            let categorical = listed_columns(&self.categorical, rows.header());
            let rows = Columns::read(rows, &columns)?.without_zero_weights(self.weight.as_ref())?;
            let mediators = Vec::new();
            return Ok(TrainingColumns { rows, bags: None, features, mediators, categorical, source });
        };
        let bags = self.table.source(path).open()?;
        let mediators = listed_columns(&self.mediators, bags.header());
        let source = format!("{}, {}", rows.name, bags.name);
        let bag_columns = distinct_names(self.bag.iter().chain(target_columns).chain(&mediators));
        let categorical = listed_columns(&self.categorical, &[rows.header(), bags.header()].concat());
        let row_columns = distinct_names(row_columns);
        let (rows, bags) = (Columns::read(rows, &row_columns)?, Columns::read(bags, &bag_columns)?);
        let (rows, bags) = (rows.without_zero_weights(self.weight.as_ref())?, Some(bags));
        Ok(TrainingColumns { rows, bags, features, mediators, categorical, source })
    }

    /// The name of the bag in each line of a table; areas without a column of names are called by their
    /// rows.
    fn names_in(&self, table: &Columns) -> Result<Vec<String>> {
        let Some(bag) = &self.bag else {
            let name = |i| table.describe_row(i).split(" (").next().unwrap_or_default().to_string();
            return Ok((0..table.rows()).map(name).collect());
        };
        names_of(table, bag)
    }

    /// Whether targets are sums: with `--sum`, and for counts of events.
    pub fn sums(&self) -> bool {
        self.sum || self.family == FamilyName::Poisson
    }

    /// Refuses options that exclude each other.
    fn check(&self) -> Result<()> {
        let counts = self.family != FamilyName::Gaussian;
        let options_of_two_tables = [
            ("--mediators", !self.mediators.is_empty()),
            ("--row", self.row.is_some()),
            ("--drop-unmatched", self.drop_unmatched),
        ];
        if self.is_single_table()
            && let Some((option, _)) = options_of_two_tables.iter().find(|(_, is_given)| *is_given)
        {
            return Err(Failure::input(format!(
                "{option} relates two tables, and {} is a single one, whose rows are the areas: leave it \
                 out, or give the table of bags after the table of rows",
                self.rows.display()
            )));
        }
        if self.mediators.is_empty() && !matches!(self.operator, OperatorName::Auto | OperatorName::Matched) {
            return Err(Failure::input(format!(
                "--operator {} needs --mediators: give the columns of bags that relate bags to each other",
                self.operator.name()
            )));
        }
        let conflicts = [
            (
                self.operator == OperatorName::Matched && !self.mediators.is_empty(),
                "--operator matched does not use --mediators: leave them out, or use --operator auto",
            ),
            (
                self.operator.regresses() && counts,
                "--operator: a regression of targets needs numbers and cannot be used with counts: leave it \
                 out",
            ),
            (
                self.sum && self.family == FamilyName::Binomial,
                "--sum: successes among trials are not sums over rows: leave it out",
            ),
            (
                self.target_std.is_some() && counts,
                "--target-std cannot be used with counts, whose variance their family determines: leave it out",
            ),
            (
                self.total.is_some() && !self.sums(),
                "--total is an option of sums: leave it out, or give --sum",
            ),
            (
                self.trials.is_some() && self.family != FamilyName::Binomial,
                "--trials is an option of --family binomial",
            ),
            (
                self.trials.is_none() && self.family == FamilyName::Binomial,
                "--family binomial needs --trials: give the column of bags with the numbers of trials",
            ),
        ];
        match conflicts.into_iter().find(|(applies, _)| *applies) {
            Some((_, reason)) => Err(Failure::input(reason)),
            None => Ok(()),
        }
    }

    /// The likelihood of counts; an inconsistent count is reported with its bag.
    fn family(
        &self,
        bags: &Columns,
        names: &[String],
        targets: &[f64],
        joined: &BagJoin,
    ) -> Result<Option<Family>> {
        if self.family == FamilyName::Gaussian {
            return Ok(None);
        }
        let count_error = |column: &str, value: f64, b: usize, reason: &str| {
            let (file, value, bag) = (&bags.name, number_or_missing(value), &names[b]);
            Failure::input(format!("{file}: column '{column}' is {value} for bag '{bag}': {reason}"))
        };
        let is_count = |v: f64| v >= 0.0 && v.fract() == 0.0;
        if let Some(&b) = joined.targets.iter().find(|&&b| !is_count(targets[b])) {
            return Err(count_error(&self.target, targets[b], b, "counts are whole numbers of at least 0"));
        }
        let Some(column) = &self.trials else { return Ok(Some(Family::Poisson)) };
        let trials_of_bag = bags.numbers_or_missing(column)?;
        let trials_of_target = |&b: &usize| match trials_of_bag[b] {
            n if is_count(n) && n >= targets[b].max(1.0) => Ok(n),
            n => Err(count_error(
                column,
                n,
                b,
                "trials are a whole number, at least 1 and at least the successes",
            )),
        };
        let trials = joined.targets.iter().map(trials_of_target).collect::<Result<_>>()?;
        Ok(Some(Family::Binomial { trials }))
    }

    /// The columns on which the map depends.
    fn features_of(&self, rows: &OpenTable) -> Result<Vec<String>> {
        let header = rows.header();
        let [named, ignored] = [&self.features, &self.ignore].map(|list| listed_columns(list, header));
        let reserved = || self.bag.iter().chain(&self.weight).chain(&self.row);
        rows.column_indices(named.iter().chain(&ignored).chain(reserved()))?;
        // Where one table is given as rows and as bags, the targets and their errors stand in it too.
        let is_single_table = self.bags.as_ref().is_none_or(|bags| *bags == self.rows);
        let target_columns = || {
            let columns =
                [&self.target].into_iter().chain(&self.target_std).chain(&self.trials).chain(&self.total);
            columns.filter(|_| is_single_table)
        };
        let is_feature = |c: &&String| {
            !ignored.contains(c)
                && reserved().chain(target_columns()).all(|reserved_name| reserved_name != *c)
        };
        let features =
            if named.is_empty() { header.iter().filter(is_feature).cloned().collect() } else { named };
        if features.is_empty() {
            return Err(Failure::input(format!(
                "{}: no column is left as a feature; ignore fewer columns",
                rows.name
            )));
        }
        Ok(features)
    }

    /// Joins rows and targets by their bags; also returns whether mediators are used.
    fn joined(
        &self,
        rows: &[&str],
        bags: &[String],
        targets: &[f64],
        mediators: bool,
    ) -> Result<(BagJoin, bool)> {
        let is_observed: Vec<bool> = targets.iter().map(|z| !z.is_nan()).collect();
        let with_option = |error: riesz::Error| {
            Failure::input(error.to_string().replace("(drop_unmatched)", "(--drop-unmatched)"))
        };
        let join_with =
            |mediators| join(rows, bags, &is_observed, mediators, self.drop_unmatched).map_err(with_option);
        let mut joined = join_with(mediators)?;
        if self.operator == OperatorName::Mediated {
            joined.matched.fill(None);
        }
        if !mediators || joined.matched.contains(&None) {
            return Ok((joined, mediators));
        }
        let mut joined = join_with(false)?;
        joined.notes.push("all targets have rows of their own, so mediators are not used".into());
        Ok((joined, false))
    }

    /// The distinct rows, and the index of the row of each used line.
    fn distinct_rows(
        &self,
        rows: &Columns,
        x: Table,
        joined: &BagJoin,
        bags: &[&str],
    ) -> Result<(Table, Vec<usize>)> {
        let Some(column) = &self.row else {
            let x = if joined.rows.len() == x.rows() { x } else { x.select_rows(&joined.rows) };
            return Ok((x, (0..joined.rows.len()).collect()));
        };
        let names = names_of(rows, column)?;
        let (mut row_indices, mut memberships) = (HashMap::new(), HashSet::new());
        let (mut first_lines, mut row_of_line) = (Vec::new(), Vec::new());
        for (&line, bag) in joined.rows.iter().zip(&joined.bag) {
            let (name, bag_name) = (&names[line], bags[line]);
            let index = *row_indices.entry(name).or_insert_with(|| {
                first_lines.push(line);
                first_lines.len() - 1
            });
            let first_line: usize = first_lines[index];
            if let Some(j) = (0..x.width()).find(|&j| x.get(line, j) != x.get(first_line, j)) {
                return Err(Failure::input(format!(
                    "{}: row '{name}' is in bag '{}' and in bag '{bag_name}' with a different '{}': a row \
                     must have the same covariates in all of its bags",
                    rows.name,
                    bags[first_line],
                    x.columns()[j].name
                )));
            }
            if !memberships.insert((index, *bag)) {
                return Err(Failure::input(format!(
                    "{}: row '{name}' is in bag '{bag_name}' twice: give one line for each of its bags",
                    rows.name
                )));
            }
            row_of_line.push(index);
        }
        Ok((x.select_rows(&first_lines), row_of_line))
    }

    /// The variance of each target's known error.
    fn known_variances(
        &self,
        bags: &Columns,
        names: &[String],
        joined: &BagJoin,
    ) -> Result<Option<Vec<f64>>> {
        let Some(column) = &self.target_std else { return Ok(None) };
        let errors = bags.numbers_or_missing(column)?;
        let square = |&b: &usize| match errors[b] {
            se if se >= 0.0 => Ok(se * se),
            se => Err(Failure::input(format!(
                "{}: column '{column}' is {} for bag '{}': standard errors are not negative; give 0 for none",
                bags.name,
                number_or_missing(se),
                names[b]
            ))),
        };
        Ok(Some(joined.targets.iter().map(square).collect::<Result<_>>()?))
    }

    /// Mediators of bags with rows and of targets; for mediated sums also the sums of weights.
    fn coarse(&self, table: &Table, bags: &Columns, names: &[String], joined: &BagJoin) -> Result<Mediators> {
        let (bag_mediators, targets) =
            (table.select_rows(&joined.with_rows), table.select_rows(&joined.targets));
        let is_constant = |j: &usize| {
            bag_mediators.column(*j).iter().chain(targets.column(*j)).all(|v| *v == bag_mediators.get(0, *j))
        };
        if let Some(j) = (0..table.width()).find(is_constant) {
            let column = &table.columns()[j];
            return Err(Failure::input(format!(
                "{}: mediator '{}' is {} for all bags, so it does not relate any of them: leave it out",
                bags.name,
                column.name,
                column.format(bag_mediators.get(0, j))
            )));
        }
        let totals = self.sums().then(|| self.totals(bags, names, joined)).transpose()?;
        Ok(Mediators { bags: bag_mediators, targets, totals })
    }

    /// The sum of weights for each target that is a sum without rows; 1 for other targets, whose sums are not
    /// used.
    fn totals(&self, bags: &Columns, names: &[String], joined: &BagJoin) -> Result<Vec<f64>> {
        let Some(column) = &self.total else {
            return Err(Failure::input(
                "sums learnt through mediators need --total: give the column of bags with the sums of \
                 weights (people, area)",
            ));
        };
        let column_totals = bags.numbers_or_missing(column)?;
        let total_of_target = |(matched_bag, &b): (&Option<usize>, &usize)| match matched_bag {
            Some(_) => Ok(1.0),
            None if column_totals[b] > 0.0 => Ok(column_totals[b]),
            None => Err(Failure::input(format!(
                "{}: column '{column}' is {} for bag '{}': totals are positive numbers",
                bags.name,
                number_or_missing(column_totals[b]),
                names[b]
            ))),
        };
        joined.matched.iter().zip(&joined.targets).map(total_of_target).collect()
    }
}

impl Aggregated {
    /// The error with names of bags in place of the library's numbers: "target 3" becomes "target 'north'".
    pub fn named(&self, error: Error) -> Failure {
        let Error::Parameter { name, value, allowed } = error else { return error.into() };
        let name = with_names(&name, "target ", &self.targets);
        let name = with_names(&name, "tie of bag ", &self.bags);
        Error::Parameter { name, value, allowed }.into()
    }
}

/// The text with names in place of the numbers, counted from 1, that follow `prefix`.
fn with_names(text: &str, prefix: &str, names: &[String]) -> String {
    let mut pieces = text.split(prefix);
    let mut renamed = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        let name = piece[..digits].parse::<usize>().ok().and_then(|number| names.get(number.checked_sub(1)?));
        renamed += prefix;
        match name {
            Some(name) => renamed += &format!("'{name}'{}", &piece[digits..]),
            None => renamed += piece,
        }
    }
    renamed
}

/// Reads the weights of rows, which must be positive; `bag` gives the name of a row's bag for messages.
pub fn weights<'b>(rows: &Columns, name: &str, bag: impl Fn(usize) -> &'b str) -> Result<Vec<f64>> {
    let row_weights = rows.numbers(name)?;
    if let Some(i) = row_weights.iter().position(|w| *w <= 0.0) {
        return Err(Failure::input(format!(
            "{}: row {} of column '{name}', in bag '{}', is {}: weights are positive numbers; leave out rows \
             without weight",
            rows.name,
            i + 1,
            bag(i),
            row_weights[i]
        )));
    }
    Ok(row_weights)
}

/// A number as text, or "missing".
pub fn number_or_missing(number: f64) -> String {
    if number.is_nan() { "missing".into() } else { number.to_string() }
}

/// The distinct names.
fn distinct_names<'n>(names: impl Iterator<Item = &'n String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    names.for_each(|name| {
        if !distinct.contains(name) {
            distinct.push(name.clone());
        }
    });
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bags_have_names() {
        let names: Vec<String> = (1..=12).map(|k| format!("n{k}")).collect();
        let named = |text: &str| with_names(text, "target ", &names);
        assert_eq!(named("target 2 and target 12"), "target 'n2' and target 'n12'");
        assert_eq!(named("target 13, target 0, target x"), "target 13, target 0, target x");
        assert_eq!(named("the tie of bag 3"), "the tie of bag 3");
        assert_eq!(with_names("the tie of bag 3", "tie of bag ", &names), "the tie of bag 'n3'");
    }
}
