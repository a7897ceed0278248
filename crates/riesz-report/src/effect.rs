//! The answer to a causal query, with its identification, support and uncertainty. Pages, pictures and the
//! command line share it.

use std::collections::BTreeMap;

use riesz::causal::{Estimand, Graph, Identification, Pointwise, Studies};
use riesz::model_card::CardEntry;
use riesz::{ColumnKind, Table};

use crate::format::{fixed, number, range};

/// The contents of the page.
#[derive(Debug, Clone)]
pub struct EffectPage<'p> {
    /// The identification of the effect.
    pub identification: &'p Identification,
    /// The graph, if there is one.
    pub graph: Option<&'p Graph>,
    /// The training data.
    pub studies: &'p Studies,
    /// The treatments at which the effect is evaluated, a row for each.
    pub treatments: &'p Table,
    /// The estimand at these treatments.
    pub estimand: &'p Estimand,
    /// The posterior of the effect at these treatments.
    pub effect: &'p Pointwise,
    /// A description of the population: "all people of study 1".
    pub population: &'p str,
    /// Probability of the intervals.
    pub level: f64,
    /// For each mediator, the share of rows of a study whose values the next study does not have.
    pub unmatched: &'p BTreeMap<String, f64>,
    /// Warnings, as sentences without full stops.
    pub doubts: &'p [String],
    /// The provenance.
    pub run: &'p [CardEntry],
}

impl EffectPage<'_> {
    /// The estimand in do-notation, as the label of an axis.
    pub(crate) fn axis(&self) -> String {
        let names: Vec<&str> = self.treatments.columns().iter().map(|column| &column.name[..]).collect();
        let notation = format!("E[{} | do({})]", self.identification.outcome, names.join(", "));
        match self.estimand {
            Estimand::Level => notation,
            Estimand::Contrast(_) => format!("{notation} minus the baseline’s"),
            Estimand::Slope { treatment: by, .. } => format!("slope of {notation} by {by}"),
        }
    }

    /// The treatments of a row in words.
    pub(crate) fn label(&self, row: usize) -> String {
        assigned(self.treatments, row)
    }

    /// The observed doses of the first treatment of study 1; for an effect from one table, of its only
    /// treatment.
    pub(crate) fn doses(&self) -> &[f64] {
        if let ([name], true) = (&self.identification.treatments[..], self.identification.is_single_table()) {
            let points = &self.studies.points;
            return points.index_of(name).map_or(&[], |j| points.column(j));
        }
        self.studies.studies.first().map_or(&[], |first| first.treatments.column(0))
    }

    /// The answer in one or two sentences: the treatments with the lowest and the highest mean outcome among
    /// the supported ones.
    pub fn answer(&self) -> String {
        let supported = self.effect.supported();
        let supported_rows: Vec<usize> = (0..supported.len()).filter(|&i| supported[i]).collect();
        let compare_means = |a: &&usize, b: &&usize| self.effect.mean[**a].total_cmp(&self.effect.mean[**b]);
        let (Some(&low), Some(&high)) =
            (supported_rows.iter().min_by(compare_means), supported_rows.iter().max_by(compare_means))
        else {
            return format!(
                "{} do not support an estimate of the effect on {} at any of these treatments: the model \
                 extrapolates from rows far away.",
                if self.identification.is_single_table() { "The data" } else { "The studies" },
                self.identification.outcome
            );
        };
        let sd = self.effect.sd();
        let with_interval = |i: usize| {
            let ends = self.effect.interval(self.level).map_or([f64::NAN; 2], |ends| ends[i]);
            let [mean, from, to] = [self.effect.mean[i], ends[0], ends[1]].map(|v| rounded(v, sd[i]));
            format!("{mean} ({} % interval {from} to {to})", number(100.0 * self.level))
        };
        let intervention = format!("If {} were treated alike", self.population);
        let mean_name = format!("the mean of {}", self.identification.outcome);
        let mean = format!("{mean_name} would");
        let treatment_text = |i: usize| format!("with {}", self.label(i));
        let ([lowest, highest], [lowest_text, highest_text]) =
            ([low, high].map(with_interval), [low, high].map(treatment_text));
        let remark = match supported_rows.len() == supported.len() {
            true => String::new(),
            false => format!(
                " Of {} treatments {} support {}; at the others the model extrapolates from rows far away.",
                supported.len(),
                if self.identification.is_single_table() { "the data" } else { "the studies" },
                supported_rows.len()
            ),
        };
        let range = format!("{lowest}, {lowest_text}, and {highest}, {highest_text}");
        let text = match (self.estimand, low == high) {
            (Estimand::Level, true) => format!("{intervention}, {mean} be {lowest} {lowest_text}."),
            (Estimand::Level, false) => format!(
                "{intervention}, {mean} be lowest, {lowest}, {lowest_text}, and highest, {highest}, \
                 {highest_text}."
            ),
            (Estimand::Contrast(base), true) => {
                let base = assigned(base, 0);
                format!("{intervention}, {mean} change by {lowest} {lowest_text} instead of {base}.")
            }
            (Estimand::Contrast(base), false) => {
                let base = assigned(base, 0);
                format!("{intervention} instead of with {base}, {mean} change by between {range}.")
            }
            (Estimand::Slope { treatment, .. }, true) => format!(
                "{intervention}, a little more {treatment} would change {mean_name} by {lowest} per unit \
                 {lowest_text}."
            ),
            (Estimand::Slope { treatment, .. }, false) => format!(
                "{intervention}, a little more {treatment} would change {mean_name} by between {lowest} \
                 per unit, {lowest_text}, and {highest}, {highest_text}."
            ),
        };
        text + &remark
    }

    /// Whether the effect is drawn as a curve: there is one treatment, and it is numeric.
    pub(crate) fn is_curve(&self) -> bool {
        self.treatments.width() == 1
            && self.treatments.rows() > 1
            && self.treatments.columns()[0].kind == ColumnKind::Numeric
    }
}

/// A row of the table as `name = value and name = value`.
pub(crate) fn assigned(table: &Table, row: usize) -> String {
    let cell = |j: usize| format!("{} = {}", table.columns()[j].name, cell_text(table, row, j));
    (0..table.width()).map(cell).collect::<Vec<_>>().join(" and ")
}

pub(crate) fn cell_text(table: &Table, row: usize, j: usize) -> String {
    let (column, value) = (&table.columns()[j], table.get(row, j));
    if column.kind == ColumnKind::Numeric { number(value) } else { column.format(value) }
}

/// The cells of a column. Numbers have equal decimals, four significant digits of their range.
pub(crate) fn column_cells(table: &Table, j: usize) -> Vec<String> {
    let cells = table.column(j);
    let [low, high] = range(cells.iter().copied());
    let size = (high - low) / 100.0;
    let numeric = table.columns()[j].kind == ColumnKind::Numeric && cells.iter().any(|v| v.fract() != 0.0);
    (0..cells.len()).map(|i| if numeric { rounded(cells[i], size) } else { cell_text(table, i, j) }).collect()
}

/// A number with the decimals of the first two significant digits of its standard deviation `sd`.
pub(crate) fn rounded(value: f64, sd: f64) -> String {
    let large = value.abs() >= 1e6;
    if !(sd > 0.0 && sd.is_finite()) || large || sd < 1e-6 {
        return number(value);
    }
    fixed(value, (1.0 - sd.log10().floor()).clamp(0.0, 8.0) as usize)
}
