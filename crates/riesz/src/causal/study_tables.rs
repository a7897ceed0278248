//! Preparation of [`Studies`] from tables: selects the columns that an effect needs and the rows without
//! missing values, in a canonical order.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::caveats::Caveat;
use super::identification::{EffectStrategy, Identification};
use super::names::{distinct, sorted};
use super::stages::Stage;
use super::studies::{IdentificationRoute, Studies, Study};
use super::treatment_variation;
use crate::error::{Error, IdentificationError, Result, sized};
use crate::linalg::min_max;
use crate::table::{Column, ColumnKind, Table};

/// Minimum number of complete rows.
const MIN_ROWS: usize = 5;

/// Share of rows that are repeated, or unmatched in the next study, up to which no caveat is reported.
const NEGLIGIBLE_SHARE: f64 = 0.05;

/// Columns of a study as measured, with `n` numbers each. A missing value is NaN.
#[derive(Debug, Clone, Default)]
pub struct MeasuredColumns {
    /// Names and kinds of the columns, with numbers or codes of levels.
    pub columns: Vec<(Column, Vec<f64>)>,
}

/// Studies from which an effect is learnt, and their caveats.
#[derive(Debug, Clone)]
pub struct PreparedStudies {
    /// Complete rows, with the same levels of a column in each study.
    pub studies: Studies,
    /// For each mediator the share of rows whose values do not occur in the next study; the largest share if
    /// several studies share the mediator.
    pub unmatched: BTreeMap<String, f64>,
    /// Warnings for the user.
    pub caveats: Vec<Caveat>,
}

impl Identification {
    /// Returns the columns of the first study that are averaged over, or that intercept the effect
    /// (front-door), in alphabetical order.
    fn averaged_columns(&self) -> Vec<String> {
        match &self.strategy {
            EffectStrategy::FrontDoor { mediators, .. } => sorted(mediators),
            _ => sorted(self.adjustment()),
        }
    }

    /// Returns the mediators of each bridge in alphabetical order.
    fn mediators(&self) -> Vec<Vec<String>> {
        self.bridges.iter().map(|bridge| sorted(&bridge.mediators)).collect()
    }

    /// Returns the columns other than mediators that the last two studies share.
    fn shared_passive_columns(&self) -> Vec<String> {
        self.bridges.last().map_or(vec![], |bridge| sorted(&bridge.passive))
    }

    /// Returns the columns that the effect needs from each study.
    ///
    /// # Errors
    /// [`IdentificationError::NoEffect`]; [`IdentificationError::NotComputed`] for an effect that is
    /// identified but not estimated; errors of [`Identification::estimable`].
    pub fn needed(&self) -> Result<Vec<Vec<String>>> {
        self.estimable()?;
        if self.treatments.is_empty() || self.is_constant() {
            let (description, outcome) = (self.to_string(), self.outcome.clone());
            return Err(Error::causal(IdentificationError::NoEffect { finding: description, outcome }));
        }
        if self.is_single_table() {
            let columns: Vec<String> = self.stages().iter().flat_map(Stage::columns).collect();
            return Ok(vec![distinct(self.treatments.iter().chain(&columns).chain([&self.outcome]))]);
        }
        let passive = distinct(self.bridges.iter().flat_map(|bridge| &bridge.passive));
        let is_front_door = matches!(self.strategy, EffectStrategy::FrontDoor { .. });
        if !passive.is_empty() && (is_front_door || self.bridges.len() > 1) {
            let way = if is_front_door { "front doors" } else { "chains of three studies or more" };
            return Err(Error::causal(IdentificationError::NotComputed {
                outcome: self.outcome.clone(),
                passive,
                way,
            }));
        }
        let bridges = self.mediators();
        let mut study_columns = [vec![self.treatments.clone()], bridges.clone()].concat();
        let responses = bridges.into_iter().chain([vec![self.outcome.clone()]]);
        study_columns.iter_mut().zip(responses).for_each(|(columns, responses)| columns.extend(responses));
        study_columns[0].extend(self.averaged_columns());
        if let Some(last_columns) = study_columns.last_mut() {
            last_columns.extend(self.shared_passive_columns());
        }
        Ok(study_columns.iter().map(distinct).collect())
    }
}

/// Prepares the studies that `identification` needs from these tables, one per study. Rows without a needed
/// value are omitted. Rows are sorted, so that rounding does not depend on their original order. The cost in
/// addition to sorting is O(n p⁴) for n rows and p covariates.
///
/// # Errors
/// Errors of [`Identification::needed`]; [`Error::UnknownColumn`]; [`Error::NotFinite`] for infinite numbers;
/// [`IdentificationError::FewRows`], [`IdentificationError::Constant`], [`IdentificationError::TextOutcome`];
/// [`IdentificationError::NoCommonSupport`] for mediators of which two studies have no value in common.
pub fn gather(identification: &Identification, tables: &[MeasuredColumns]) -> Result<PreparedStudies> {
    let needed = identification.needed()?;
    sized("the list of tables", "entries", needed.len(), tables.len(), "one per study")?;
    let mut caveats = Vec::new();
    let indexed = needed.iter().zip(tables).enumerate();
    let mut complete_tables = indexed
        .map(|(k, (names, table))| complete_rows(k, names, table, &mut caveats))
        .collect::<Result<Vec<MeasuredColumns>>>()?;
    for name in needed.iter().flatten().collect::<BTreeSet<_>>() {
        share_levels(&mut complete_tables, name);
    }
    for (k, table) in complete_tables.iter_mut().enumerate() {
        check_columns(identification, k, k + 1 == needed.len(), table)?;
        table.sort();
    }
    if identification.is_single_table() {
        return single(identification, &complete_tables[0], caveats);
    }
    let (bridges, passive, averaged) = (
        identification.mediators(),
        identification.shared_passive_columns(),
        identification.averaged_columns(),
    );
    let unmatched = unmatched_shares(&bridges, &passive, &complete_tables, &mut caveats)?;
    let is_front_door = matches!(identification.strategy, EffectStrategy::FrontDoor { .. });
    if !is_front_door && !averaged.is_empty() {
        let treatments = &identification.treatments;
        caveats.extend(nearly_determined(&complete_tables[0], treatments, &averaged, false)?);
    }
    let mut studies = Vec::with_capacity(bridges.len());
    let treatment_names = std::iter::once(&identification.treatments).chain(&bridges);
    for (table, (treatment_names, mediator_names)) in
        complete_tables.iter().zip(treatment_names.zip(&bridges))
    {
        let (treatments, mediators) = (table.table(treatment_names)?, table.table(mediator_names)?);
        studies.push(Study { treatments, route: IdentificationRoute::Direct, mediators, shared: None });
    }
    if !averaged.is_empty() {
        let covariates = complete_tables[0].table(&averaged)?;
        let route =
            if is_front_door { IdentificationRoute::FrontDoor } else { IdentificationRoute::BackDoor };
        studies[0].route = route(covariates);
    }
    if let (Some(last), false) = (studies.last_mut(), passive.is_empty()) {
        last.shared = Some(complete_tables[0].table(&passive)?);
    }
    let outcome_table = &complete_tables[bridges.len()];
    let points = [&bridges[bridges.len() - 1][..], &passive].concat();
    let studies = Studies {
        studies,
        points: outcome_table.table(&points)?,
        outcome: outcome_table.column(&identification.outcome)?.1.clone(),
    };
    Ok(PreparedStudies { studies, unmatched, caveats })
}

/// Checks that no column of study `k` is constant, and that the outcome, in the last study, is numeric or has
/// two classes.
fn check_columns(
    identification: &Identification,
    k: usize,
    is_last: bool,
    table: &MeasuredColumns,
) -> Result<()> {
    for (column, values) in &table.columns {
        let has_classes = identification.is_single_table() && positive_class(column, values).is_some();
        let is_text = column.kind != ColumnKind::Numeric && !has_classes;
        if is_last && column.name == identification.outcome && is_text {
            let name = column.name.clone();
            return Err(Error::causal(IdentificationError::TextOutcome { name, study: k }));
        }
        if values.iter().all(|v| v == &values[0]) {
            let (name, rows) = (column.name.clone(), values.len());
            return Err(Error::causal(IdentificationError::Constant { name, rows, study: k }));
        }
    }
    Ok(())
}

/// Returns [`PreparedStudies::unmatched`] for the mediators of each bridge and the passive columns of the
/// last one; adds a caveat for each column with little overlap.
fn unmatched_shares(
    bridges: &[Vec<String>],
    passive: &[String],
    tables: &[MeasuredColumns],
    caveats: &mut Vec<Caveat>,
) -> Result<BTreeMap<String, f64>> {
    let mut unmatched: BTreeMap<String, f64> = BTreeMap::new();
    for (k, names) in bridges.iter().enumerate() {
        let shared = if k + 1 == bridges.len() { passive } else { &[] };
        for name in names.iter().chain(shared) {
            let (share, caveat) = mediator_overlap(k, tables[k].column(name)?, tables[k + 1].column(name)?)?;
            let largest = unmatched.entry(name.clone()).or_default();
            *largest = largest.max(share);
            caveats.extend(caveat);
        }
    }
    Ok(unmatched)
}

/// Returns a caveat for each treatment that the covariates nearly determine. `additive` is whether the model
/// then assumes that there are no interactions.
fn nearly_determined(
    table: &MeasuredColumns,
    treatments: &[String],
    covariates: &[String],
    additive: bool,
) -> Result<Vec<Caveat>> {
    let covariate_table = table.table(covariates)?;
    let mut caveats = Vec::new();
    for name in treatments {
        let unexplained_share = treatment_variation::residual_treatment_variance(
            &table.table(std::slice::from_ref(name))?,
            &covariate_table,
        )?;
        if unexplained_share < treatment_variation::NEARLY_DETERMINED {
            let (treatment, covariates) = (name.clone(), covariates.to_vec());
            caveats.push(Caveat::Decided { treatment, covariates, left: unexplained_share, additive });
        }
    }
    Ok(caveats)
}

/// Returns the class that counts as 1, for an outcome with two levels or the numbers 0 and 1.
fn positive_class(column: &Column, values: &[f64]) -> Option<String> {
    let is_binary = match &column.kind {
        ColumnKind::Numeric => values.iter().all(|v| *v == 0.0 || *v == 1.0),
        ColumnKind::Categorical { levels } => levels.len() == 2,
    };
    is_binary.then(|| column.format(1.0))
}

/// Prepares an effect from a single table: all columns but the outcome are points, and there are no earlier
/// studies.
fn single(
    identification: &Identification,
    table: &MeasuredColumns,
    mut caveats: Vec<Caveat>,
) -> Result<PreparedStudies> {
    let needed: Vec<String> = table.columns.iter().map(|(column, _)| column.name.clone()).collect();
    let points: Vec<String> = needed.into_iter().filter(|name| *name != identification.outcome).collect();
    let stages = identification.stages();
    for stage in &stages {
        let covariates = [&stage.history[..], &stage.averaged].concat();
        if !covariates.is_empty() {
            caveats.extend(nearly_determined(table, &stage.treatments, &covariates, stages.len() == 1)?);
        }
    }
    let (column, values) = table.column(&identification.outcome)?;
    let positive = positive_class(column, values);
    caveats.extend(positive.map(|positive| Caveat::TwoClasses { outcome: column.name.clone(), positive }));
    let studies = Studies { studies: Vec::new(), points: table.table(&points)?, outcome: values.clone() };
    Ok(PreparedStudies { studies, unmatched: BTreeMap::new(), caveats })
}

impl MeasuredColumns {
    fn column(&self, name: &str) -> Result<&(Column, Vec<f64>)> {
        self.columns.iter().find(|(column, _)| column.name == name).ok_or_else(|| {
            let names: Vec<String> = self.columns.iter().map(|(column, _)| column.name.clone()).collect();
            Error::UnknownColumn { name: name.into(), known: crate::error::listed(&names) }
        })
    }

    fn table(&self, names: &[String]) -> Result<Table> {
        let (mut columns, mut values, mut rows) = (Vec::new(), Vec::new(), 0);
        for name in names {
            let (column, column_values) = self.column(name)?;
            columns.push(column.clone());
            values.extend(column_values);
            rows = column_values.len();
        }
        Table::from_column_major(columns, rows, values)
    }

    /// Sorts rows by the columns, in reverse alphabetical order of their names.
    fn sort(&mut self) {
        let mut keys: Vec<usize> = (0..self.columns.len()).collect();
        keys.sort_by(|&a, &b| self.columns[b].0.name.cmp(&self.columns[a].0.name));
        let mut order: Vec<usize> = (0..self.columns.first().map_or(0, |(_, values)| values.len())).collect();
        order.sort_by(|&a, &b| {
            keys.iter().fold(Ordering::Equal, |ordering, &j| {
                let values = &self.columns[j].1;
                ordering.then_with(|| values[a].total_cmp(&values[b]))
            })
        });
        for (_, values) in &mut self.columns {
            // −0 becomes 0.
            *values = order.iter().map(|&i| values[i] + 0.0).collect();
        }
    }
}

/// Returns the rows that have a value in each of these columns.
fn complete_rows(
    study: usize,
    names: &[String],
    table: &MeasuredColumns,
    caveats: &mut Vec<Caveat>,
) -> Result<MeasuredColumns> {
    let needed_columns = names.iter().map(|name| table.column(name)).collect::<Result<Vec<_>>>()?;
    let count = needed_columns[0].1.len();
    for (column, values) in &needed_columns {
        sized(&format!("column '{}'", column.name), "rows", count, values.len(), "as many as the others")?;
        if let Some(row) = values.iter().position(|v| v.is_infinite()) {
            return Err(Error::not_finite(row, column.name.clone(), values[row]));
        }
    }
    let kept: Vec<usize> =
        (0..count).filter(|&i| needed_columns.iter().all(|(_, values)| !values[i].is_nan())).collect();
    let columns_with_missing = needed_columns.iter().filter(|(_, values)| values.iter().any(|v| v.is_nan()));
    let columns: Vec<String> = columns_with_missing.map(|(column, _)| column.name.clone()).collect();
    if kept.len() < MIN_ROWS {
        let missing_columns = if columns.is_empty() { vec![] } else { names.to_vec() };
        return Err(Error::causal(IdentificationError::FewRows {
            study,
            rows: kept.len(),
            complete_columns: missing_columns,
            needed: MIN_ROWS,
        }));
    }
    if !columns.is_empty() {
        caveats.push(Caveat::Holes { study, rows: count - kept.len(), total: count, columns });
    }
    let keep_rows = |(column, values): &(Column, Vec<f64>)| {
        (column.clone(), kept.iter().map(|&i| values[i]).collect::<Vec<f64>>())
    };
    let complete_table = MeasuredColumns { columns: needed_columns.into_iter().map(keep_rows).collect() };
    let rows = repeated(&complete_table);
    if rows as f64 > NEGLIGIBLE_SHARE * kept.len() as f64 {
        caveats.push(Caveat::Repeated { study, rows, total: kept.len() });
    }
    Ok(complete_table)
}

/// Returns the number of rows that repeat an earlier one; 0 if all columns are whole numbers, because units
/// then agree by chance.
fn repeated(table: &MeasuredColumns) -> usize {
    let is_continuous = |(column, values): &(Column, Vec<f64>)| {
        column.kind == ColumnKind::Numeric && values.iter().any(|v| v.fract() != 0.0)
    };
    if !table.columns.iter().any(is_continuous) {
        return 0;
    }
    let rows = table.columns.first().map_or(0, |(_, values)| values.len());
    let row =
        |i: usize| table.columns.iter().map(|(_, values)| (values[i] + 0.0).to_bits()).collect::<Vec<u64>>();
    rows - (0..rows).map(row).collect::<BTreeSet<_>>().len()
}

/// Gives a column that is categorical in some study the same levels in all studies: the sorted levels of all
/// rows.
fn share_levels(tables: &mut [MeasuredColumns], name: &str) {
    let columns_with_name =
        || tables.iter().flat_map(|measured| &measured.columns).filter(|(column, _)| column.name == name);
    if columns_with_name().all(|(column, _)| column.kind == ColumnKind::Numeric) {
        return;
    }
    let texts = columns_with_name().flat_map(|(column, values)| values.iter().map(|v| column.format(*v)));
    let levels: Vec<String> = texts.collect::<BTreeSet<_>>().into_iter().collect();
    for (column, values) in tables.iter_mut().flat_map(|measured| &mut measured.columns) {
        if column.name == name {
            let code = |v: &f64| levels.partition_point(|level| *level < column.format(*v)) as f64;
            *values = values.iter().map(code).collect();
            column.kind = ColumnKind::Categorical { levels: levels.clone() };
        }
    }
}

/// Returns the share of rows whose mediator value does not occur in the next study, and a caveat if it is
/// large.
fn mediator_overlap(
    study: usize,
    (column, values): &(Column, Vec<f64>),
    (_, next_values): &(Column, Vec<f64>),
) -> Result<(f64, Option<Caveat>)> {
    let share_of = |predicate: &dyn Fn(f64) -> bool| {
        values.iter().filter(|v| predicate(**v)).count() as f64 / values.len() as f64
    };
    let no_common_support = |description: String, levels: bool| {
        let name = column.name.clone();
        Err(Error::causal(IdentificationError::NoCommonSupport { name, description, levels, study }))
    };
    let (share, unmatched_values) = match &column.kind {
        ColumnKind::Categorical { levels } => {
            let is_unmatched = |v: f64| !next_values.contains(&v);
            let share = share_of(&is_unmatched);
            let unmatched_levels =
                (0..levels.len()).filter(|&k| values.contains(&(k as f64)) && is_unmatched(k as f64));
            let unmatched_values: Vec<String> =
                unmatched_levels.map(|k| format!("'{}'", levels[k])).collect();
            if share == 1.0 {
                let description = format!(
                    "it is {} in study {}, which does not occur in study {}",
                    unmatched_values.join(" or "),
                    study + 1,
                    study + 2
                );
                return no_common_support(description, true);
            }
            (share, unmatched_values)
        }
        ColumnKind::Numeric => {
            let ((from, to), (low, high)) = (min_max(values), min_max(next_values));
            let [below, above] = [share_of(&|v| v < low), share_of(&|v| v > high)];
            if to < low || from > high {
                let [from, to, low, high] = [from, to, low, high].map(format_short);
                let description = format!(
                    "it is {from} to {to} in study {}, and {low} to {high} in study {}",
                    study + 1,
                    study + 2
                );
                return no_common_support(description, false);
            }
            let sides = [
                (format!("below {}", format_short(low)), below),
                (format!("above {}", format_short(high)), above),
            ];
            let large_sides = sides.into_iter().filter(|(_, share)| *share > NEGLIGIBLE_SHARE / 2.0);
            (below + above, large_sides.map(|(side, _)| side).collect())
        }
    };
    let caveat = (share > NEGLIGIBLE_SHARE).then(|| Caveat::Unmatched {
        name: column.name.clone(),
        study,
        places: unmatched_values,
        share,
    });
    Ok((share, caveat))
}

/// Formats a number with four significant digits.
fn format_short(x: f64) -> String {
    let Ok(rounded) = format!("{x:.3e}").parse::<f64>() else { return x.to_string() };
    let plain = rounded == 0.0 || (1e-4..1e6).contains(&rounded.abs());
    if plain { rounded.to_string() } else { format!("{rounded:e}") }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_short() {
        let texts = [0.0, -1234.56, 0.1 + 0.2, 1e-7 / 3.0, 7e8].map(super::format_short);
        assert_eq!(texts, ["0", "-1235", "0.3", "3.333e-8", "7e8"]);
    }
}
