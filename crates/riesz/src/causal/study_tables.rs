//! From tables as people have them to [`Studies`]: the columns that an effect needs, of rows that have all of
//! them, in an order of their own.

use std::collections::{BTreeMap, BTreeSet};

use super::caveats::Caveat;
use super::identification::{How, Identification};
use super::stages::Stage;
use super::studies::{IdentificationRoute, Studies, Study};
use super::treatment_variation;
use crate::error::{Error, IdentificationError, Result, sized};
use crate::table::{Column, ColumnKind, Table};

/// Fewer complete rows than these tell nothing.
const MIN_ROWS: usize = 5;

/// Shares of rows, without a like in the next study or like another, that are not worth a word.
const FEW: f64 = 0.05;

/// Columns of a study as they were measured, `n` numbers each. A cell that has no value is not a number.
#[derive(Debug, Clone, Default)]
pub struct MeasuredColumns {
    /// Names and kinds, with the numbers or codes of levels.
    pub columns: Vec<(Column, Vec<f64>)>,
}

/// Studies to learn from, and what they leave in doubt.
#[derive(Debug, Clone)]
pub struct PreparedStudies {
    /// Complete rows, with the same levels of a column in each study.
    pub studies: Studies,
    /// Of each mediator the share of rows of a study whose values the next study has not; the largest, where
    /// several studies share it.
    pub unmatched: BTreeMap<String, f64>,
    /// What a reader should know.
    pub doubts: Vec<Caveat>,
}

impl Identification {
    /// The columns of the first study that are averaged over, or that intercept the effect (front-door), in
    /// alphabetical order.
    fn others(&self) -> Vec<String> {
        let mut names = match &self.how {
            How::FrontDoor { through, .. } => through.clone(),
            _ => self.adjustment().to_vec(),
        };
        names.sort_unstable();
        names
    }

    /// Of each bridge the mediators in alphabetical order.
    fn mediators(&self) -> Vec<Vec<String>> {
        let sorted = |own: &Vec<String>| {
            let mut own = own.clone();
            own.sort_unstable();
            own
        };
        self.bridges.iter().map(|bridge| sorted(&bridge.mediators)).collect()
    }

    /// What both of the last two studies know beside mediators.
    fn shared_passive_columns(&self) -> Vec<String> {
        let mut names = self.bridges.last().map_or(vec![], |bridge| bridge.passive.clone());
        names.sort_unstable();
        names
    }

    /// The columns that the effect needs of each study.
    ///
    /// # Errors
    /// [`IdentificationError::NoEffect`], [`IdentificationError::NotComputed`] for what follows from the
    /// studies but is not learnt; as
    /// [`Identification::estimable`].
    pub fn needed(&self) -> Result<Vec<Vec<String>>> {
        self.estimable()?;
        if self.treatments.is_empty() || self.is_constant() {
            let (found, outcome) = (self.to_string(), self.outcome.clone());
            return Err(Error::causal(IdentificationError::NoEffect { found, outcome }));
        }
        if self.is_single_table() {
            let mut names: Vec<String> = self.treatments.clone();
            for name in self.stages().iter().flat_map(Stage::columns).chain([self.outcome.clone()]) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            return Ok(vec![names]);
        }
        let mut passive: Vec<String> = Vec::new();
        for name in self.bridges.iter().flat_map(|bridge| &bridge.passive) {
            if !passive.contains(name) {
                passive.push(name.clone());
            }
        }
        let front = matches!(self.how, How::FrontDoor { .. });
        if !passive.is_empty() && (front || self.bridges.len() > 1) {
            let way = if front { "front doors" } else { "chains of three studies or more" };
            return Err(Error::causal(IdentificationError::NotComputed {
                outcome: self.outcome.clone(),
                passive,
                way,
            }));
        }
        let bridges = self.mediators();
        let mut before = vec![self.treatments.clone()];
        before.extend(bridges.iter().cloned());
        let after = bridges.iter().cloned().chain([vec![self.outcome.clone()]]);
        before.iter_mut().zip(after).for_each(|(own, after)| own.extend(after));
        before[0].extend(self.others());
        if let Some(last) = before.last_mut() {
            last.extend(self.shared_passive_columns());
        }
        for own in &mut before {
            let mut seen = BTreeSet::new();
            own.retain(|name| seen.insert(name.clone()));
        }
        Ok(before)
    }
}

/// The studies that `found` needs of these tables, one a study, which have those columns. Rows that lack one
/// of these are left out; their order is made their own, so that rounding does not depend on that in which
/// they came. Cost besides sorting O(n p⁴) for n rows and p covariates.
///
/// # Errors
/// As [`Identification::needed`]; [`Error::UnknownColumn`]; [`Error::NotFinite`] for infinite numbers;
/// [`IdentificationError::FewRows`], [`IdentificationError::Constant`], [`IdentificationError::TextOutcome`];
/// [`IdentificationError::NoCommonSupport`] for mediators of which two studies have no value in common.
pub fn gather(found: &Identification, tables: &[MeasuredColumns]) -> Result<PreparedStudies> {
    let needed = found.needed()?;
    sized("the list of tables", "entries", needed.len(), tables.len(), "one a study")?;
    let mut doubts = Vec::new();
    let each = needed.iter().zip(tables).enumerate();
    let mut own = each
        .map(|(k, (names, table))| complete(k, names, table, &mut doubts))
        .collect::<Result<Vec<MeasuredColumns>>>()?;
    for name in needed.iter().flatten().collect::<BTreeSet<_>>() {
        share_levels(&mut own, name);
    }
    for (k, table) in own.iter_mut().enumerate() {
        let last = k + 1 == needed.len();
        for (column, values) in &table.columns {
            let classes = if found.is_single_table() { two_classes(column, values) } else { None };
            let is_text = column.kind != ColumnKind::Numeric && classes.is_none();
            if last && column.name == found.outcome && is_text {
                let name = column.name.clone();
                return Err(Error::causal(IdentificationError::TextOutcome { name, study: k }));
            }
            if values.iter().all(|v| v == &values[0]) {
                let (name, rows) = (column.name.clone(), values.len());
                return Err(Error::causal(IdentificationError::Constant { name, rows, study: k }));
            }
        }
        table.sort();
    }
    if found.is_single_table() {
        return single(found, &own[0], doubts);
    }
    let (bridges, passive, others) = (found.mediators(), found.shared_passive_columns(), found.others());
    let mut unmatched: BTreeMap<String, f64> = BTreeMap::new();
    for (k, names) in bridges.iter().enumerate() {
        let shared = if k + 1 == bridges.len() { &passive[..] } else { &[] };
        for name in names.iter().chain(shared) {
            let (share, doubt) = mediator_overlap(k, own[k].of(name)?, own[k + 1].of(name)?)?;
            let most = unmatched.entry(name.clone()).or_default();
            *most = most.max(share);
            doubts.extend(doubt);
        }
    }
    let front = matches!(found.how, How::FrontDoor { .. });
    if !front && !others.is_empty() {
        let covariates = own[0].table(&others)?;
        for name in &found.treatments {
            let left = treatment_variation::residual_treatment_variance(
                &own[0].table(std::slice::from_ref(name))?,
                &covariates,
            )?;
            if left < treatment_variation::NEARLY_DETERMINED {
                doubts.push(Caveat::Decided { treatment: name.clone(), by: others.clone(), left });
            }
        }
    }
    let mut studies = Vec::with_capacity(bridges.len());
    for (k, after) in bridges.iter().enumerate() {
        let before = if k == 0 { &found.treatments } else { &bridges[k - 1] };
        let route = match () {
            () if k > 0 || others.is_empty() => IdentificationRoute::Direct,
            () if front => IdentificationRoute::FrontDoor(own[0].table(&others)?),
            () => IdentificationRoute::BackDoor(own[0].table(&others)?),
        };
        let shared = (k + 1 == bridges.len() && !passive.is_empty()).then(|| own[0].table(&passive));
        studies.push(Study {
            treatments: own[k].table(before)?,
            route,
            mediators: own[k].table(after)?,
            shared: shared.transpose()?,
        });
    }
    let last = &own[bridges.len()];
    let points = [&bridges[bridges.len() - 1][..], &passive].concat();
    let studies =
        Studies { studies, points: last.table(&points)?, outcome: last.of(&found.outcome)?.1.clone() };
    Ok(PreparedStudies { studies, unmatched, doubts })
}

/// For an outcome of two levels, or of the numbers 0 and 1, the one that counts as 1, and the outcome in
/// these numbers.
fn two_classes(column: &Column, values: &[f64]) -> Option<(String, Vec<f64>)> {
    let is_binary = match &column.kind {
        ColumnKind::Numeric => values.iter().all(|v| *v == 0.0 || *v == 1.0),
        ColumnKind::Categorical { levels } => levels.len() == 2,
    };
    is_binary.then(|| (column.format(1.0), values.to_vec()))
}

/// The one table of an effect that needs no other: all columns but the outcome as points, and no study that
/// leads there.
fn single(
    found: &Identification,
    table: &MeasuredColumns,
    mut doubts: Vec<Caveat>,
) -> Result<PreparedStudies> {
    let needed: Vec<String> = table.columns.iter().map(|(column, _)| column.name.clone()).collect();
    let points: Vec<String> = needed.into_iter().filter(|name| *name != found.outcome).collect();
    for stage in found.stages() {
        let before = [&stage.history[..], &stage.averaged].concat();
        if before.is_empty() {
            continue;
        }
        let covariates = table.table(&before)?;
        for name in &stage.treatments {
            let left = treatment_variation::residual_treatment_variance(
                &table.table(std::slice::from_ref(name))?,
                &covariates,
            )?;
            if left < treatment_variation::NEARLY_DETERMINED {
                doubts.push(Caveat::Decided { treatment: name.clone(), by: before.clone(), left });
            }
        }
    }
    let (column, values) = table.of(&found.outcome)?;
    let outcome = match two_classes(column, values) {
        Some((positive, outcome)) => {
            doubts.push(Caveat::TwoClasses { outcome: found.outcome.clone(), positive });
            outcome
        }
        None => values.clone(),
    };
    let studies = Studies { studies: Vec::new(), points: table.table(&points)?, outcome };
    Ok(PreparedStudies { studies, unmatched: BTreeMap::new(), doubts })
}

impl MeasuredColumns {
    fn of(&self, name: &str) -> Result<&(Column, Vec<f64>)> {
        self.columns.iter().find(|(column, _)| column.name == name).ok_or_else(|| {
            let names: Vec<String> = self.columns.iter().map(|(column, _)| column.name.clone()).collect();
            Error::UnknownColumn { name: name.into(), known: crate::error::listed(&names) }
        })
    }

    fn table(&self, names: &[String]) -> Result<Table> {
        let (mut columns, mut values, mut rows) = (Vec::new(), Vec::new(), 0);
        for name in names {
            let (column, own) = self.of(name)?;
            columns.push(column.clone());
            values.extend(own);
            rows = own.len();
        }
        Table::from_column_major(columns, rows, values)
    }

    /// Sorts rows by the columns, of which the last in the alphabet counts first.
    fn sort(&mut self) {
        let mut keys: Vec<usize> = (0..self.columns.len()).collect();
        keys.sort_by(|&a, &b| self.columns[b].0.name.cmp(&self.columns[a].0.name));
        let mut order: Vec<usize> = (0..self.columns.first().map_or(0, |(_, own)| own.len())).collect();
        let by = |&j: &usize, a: usize, b: usize| self.columns[j].1[a].total_cmp(&self.columns[j].1[b]);
        order.sort_by(|&a, &b| {
            keys.iter().map(|j| by(j, a, b)).find(|own| own.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        });
        for (_, own) in &mut self.columns {
            // −0 is 0.
            *own = order.iter().map(|&i| own[i] + 0.0).collect();
        }
    }
}

/// The rows that have a value in each of these columns.
fn complete(
    study: usize,
    names: &[String],
    table: &MeasuredColumns,
    doubts: &mut Vec<Caveat>,
) -> Result<MeasuredColumns> {
    let own = names.iter().map(|name| table.of(name)).collect::<Result<Vec<_>>>()?;
    let count = own[0].1.len();
    for (column, values) in &own {
        sized(&format!("column '{}'", column.name), "rows", count, values.len(), "as many as the others")?;
        if let Some(row) = values.iter().position(|v| v.is_infinite()) {
            return Err(Error::NotFinite { row, column: column.name.clone(), value: values[row] });
        }
    }
    let kept: Vec<usize> =
        (0..count).filter(|&i| own.iter().all(|(_, values)| !values[i].is_nan())).collect();
    let holes = own.iter().filter(|(_, values)| values.iter().any(|v| v.is_nan()));
    let columns: Vec<String> = holes.map(|(column, _)| column.name.clone()).collect();
    if kept.len() < MIN_ROWS {
        let of = if columns.is_empty() { vec![] } else { names.to_vec() };
        return Err(Error::causal(IdentificationError::FewRows {
            study,
            rows: kept.len(),
            of,
            needed: MIN_ROWS,
        }));
    }
    if !columns.is_empty() {
        doubts.push(Caveat::Holes { study, rows: count - kept.len(), of: count, columns });
    }
    let cut = |(column, values): &(Column, Vec<f64>)| {
        (column.clone(), kept.iter().map(|&i| values[i]).collect::<Vec<f64>>())
    };
    let complete = MeasuredColumns { columns: own.into_iter().map(cut).collect() };
    let rows = repeated(&complete);
    if rows as f64 > FEW * kept.len() as f64 {
        doubts.push(Caveat::Repeated { study, rows, of: kept.len() });
    }
    Ok(complete)
}

/// How many rows repeat an earlier one; 0 where nothing was measured finer than in whole numbers, in which
/// people are alike by chance.
fn repeated(table: &MeasuredColumns) -> usize {
    let fine = |(column, values): &(Column, Vec<f64>)| {
        column.kind == ColumnKind::Numeric && values.iter().any(|v| v.fract() != 0.0)
    };
    if !table.columns.iter().any(fine) {
        return 0;
    }
    let rows = table.columns.first().map_or(0, |(_, values)| values.len());
    let row =
        |i: usize| table.columns.iter().map(|(_, values)| (values[i] + 0.0).to_bits()).collect::<Vec<u64>>();
    rows - (0..rows).map(row).collect::<BTreeSet<_>>().len()
}

/// Gives a column that is categorical in a study the same levels in all of them: those that rows have,
/// sorted.
fn share_levels(tables: &mut [MeasuredColumns], name: &str) {
    let all = || tables.iter().flat_map(|own| &own.columns).filter(|(column, _)| column.name == name);
    if all().all(|(column, _)| column.kind == ColumnKind::Numeric) {
        return;
    }
    let texts = all().flat_map(|(column, values)| values.iter().map(|v| column.format(*v)));
    let levels: Vec<String> = texts.collect::<BTreeSet<_>>().into_iter().collect();
    for (column, values) in tables.iter_mut().flat_map(|own| &mut own.columns) {
        if column.name == name {
            let code = |v: &f64| levels.partition_point(|level| *level < column.format(*v)) as f64;
            *values = values.iter().map(code).collect();
            column.kind = ColumnKind::Categorical { levels: levels.clone() };
        }
    }
}

/// The share of rows whose mediator the next study does not know, and a doubt if it is large.
fn mediator_overlap(
    study: usize,
    (column, own): &(Column, Vec<f64>),
    (_, next): &(Column, Vec<f64>),
) -> Result<(f64, Option<Caveat>)> {
    let share_of =
        |is: &dyn Fn(f64) -> bool| own.iter().filter(|v| is(**v)).count() as f64 / own.len() as f64;
    let apart = |told: String, levels: bool| {
        let name = column.name.clone();
        Err(Error::causal(IdentificationError::NoCommonSupport { name, told, levels, study }))
    };
    let (share, places) = match &column.kind {
        ColumnKind::Categorical { levels } => {
            let unknown = |v: f64| !next.contains(&v);
            let share = share_of(&unknown);
            let named = (0..levels.len()).filter(|&k| own.contains(&(k as f64)) && unknown(k as f64));
            let places: Vec<String> = named.map(|k| format!("'{}'", levels[k])).collect();
            if share == 1.0 {
                let told = format!(
                    "it is {} in study {}, which study {} has not",
                    places.join(" or "),
                    study + 1,
                    study + 2
                );
                return apart(told, true);
            }
            (share, places)
        }
        ColumnKind::Numeric => {
            let [[from, to], [low, high]] = [column_range(own), column_range(next)];
            let [below, above] = [share_of(&|v| v < low), share_of(&|v| v > high)];
            if to < low || from > high {
                let [from, to, low, high] = [from, to, low, high].map(format_short);
                let told = format!(
                    "it is {from} to {to} in study {}, and {low} to {high} in study {}",
                    study + 1,
                    study + 2
                );
                return apart(told, false);
            }
            let sides = [
                (format!("below {}", format_short(low)), below),
                (format!("above {}", format_short(high)), above),
            ];
            let many = sides.into_iter().filter(|(_, share)| *share > FEW / 2.0);
            (below + above, many.map(|(side, _)| side).collect())
        }
    };
    let doubt = (share > FEW).then(|| Caveat::Unmatched { name: column.name.clone(), study, places, share });
    Ok((share, doubt))
}

fn column_range(values: &[f64]) -> [f64; 2] {
    values.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], &v| [low.min(v), high.max(v)])
}

/// Four significant digits.
fn format_short(x: f64) -> String {
    let Ok(rounded) = format!("{x:.3e}").parse::<f64>() else { return x.to_string() };
    let plain = rounded == 0.0 || (1e-4..1e6).contains(&rounded.abs());
    if plain { rounded.to_string() } else { format!("{rounded:e}") }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_short() {
        let told = [0.0, -1234.56, 0.1 + 0.2, 1e-7 / 3.0, 7e8].map(super::format_short);
        assert_eq!(told, ["0", "-1235", "0.3", "3.333e-8", "7e8"]);
    }
}
