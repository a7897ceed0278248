//! An effect across studies with all that is said of it, as a page, a picture and the command line tell it.

use std::collections::BTreeMap;

use riesz::causal::{Estimand, Graph, Identification, Pointwise, Studies};
use riesz::explanation::Fact;
use riesz::{ColumnKind, Table};

use crate::format::{fixed, number};

/// What stands on the page.
#[derive(Debug, Clone)]
pub struct EffectPage<'p> {
    /// How the effect follows.
    pub found: &'p Identification,
    /// From what, if a graph says so.
    pub graph: Option<&'p Graph>,
    /// What it was learnt from.
    pub studies: &'p Studies,
    /// Treatments that it is said at.
    pub at: &'p Table,
    /// What is asked of the effect there.
    pub estimand: &'p Estimand,
    /// The answer.
    pub effect: &'p Pointwise,
    /// Of whom it is, in words: "all people of study 1".
    pub whom: &'p str,
    /// Probability of intervals.
    pub level: f64,
    /// Of each mediator the share of rows of a study whose values the next one has not.
    pub unmatched: &'p BTreeMap<String, f64>,
    /// What a reader should know, in sentences without full stops.
    pub doubts: &'p [String],
    /// How it came about.
    pub run: &'p [Fact],
}

impl EffectPage<'_> {
    /// What the effect is of, in the field's notation.
    pub(crate) fn axis(&self) -> String {
        let names: Vec<&str> = self.at.columns().iter().map(|column| &column.name[..]).collect();
        let own = format!("E[{} | do({})]", self.found.outcome, names.join(", "));
        match self.estimand {
            Estimand::Level => own,
            Estimand::Contrast(_) => format!("{own} less the baseline’s"),
            Estimand::Slope { by, .. } => format!("slope of {own} by {by}"),
        }
    }

    /// The treatments of a row in words.
    pub(crate) fn label(&self, row: usize) -> String {
        assigned(self.at, row)
    }

    /// The doses of the first study, or of the one table, if there is one treatment.
    pub(crate) fn doses(&self) -> &[f64] {
        if let ([name], true) = (&self.found.treatments[..], self.found.is_single_table()) {
            let points = &self.studies.points;
            return points.index_of(name).map_or(&[], |j| points.column(j));
        }
        self.studies.studies.first().map_or(&[], |first| first.treatments.column(0))
    }

    /// The answer in a sentence or two: at which treatment the outcome is lowest and highest, among those
    /// that the studies tell.
    pub fn answer(&self) -> String {
        let supported = self.effect.supported();
        let told: Vec<usize> = (0..supported.len()).filter(|&i| supported[i]).collect();
        let by_mean = |a: &&usize, b: &&usize| self.effect.mean[**a].total_cmp(&self.effect.mean[**b]);
        let (Some(&low), Some(&high)) = (told.iter().min_by(by_mean), told.iter().max_by(by_mean)) else {
            return format!(
                "{} do not tell the effect on {} at any of these treatments: what is shown there is what \
                 the model makes of rows far away.",
                if self.found.is_single_table() { "The data" } else { "The studies" },
                self.found.outcome
            );
        };
        let sd = self.effect.sd();
        let said = |i: usize| {
            let ends = self.effect.interval(self.level).map_or([f64::NAN; 2], |ends| ends[i]);
            let [mean, from, to] = [self.effect.mean[i], ends[0], ends[1]].map(|v| rounded(v, sd[i]));
            format!("{mean} ({} % interval {from} to {to})", number(100.0 * self.level))
        };
        let alike = format!("If {} were treated alike", self.whom);
        let mean_of = format!("the mean of {}", self.found.outcome);
        let mean = format!("{mean_of} would");
        let with = |i: usize| format!("with {}", self.label(i));
        let beyond = match told.len() == supported.len() {
            true => String::new(),
            false => format!(
                " Of {} treatments {} tell {}; elsewhere it is what the model makes of rows far away.",
                supported.len(),
                if self.found.is_single_table() { "the data" } else { "the studies" },
                told.len()
            ),
        };
        let text = match (self.estimand, low == high) {
            (Estimand::Level, true) => format!("{alike}, {mean} be {} {}.", said(low), with(low)),
            (Estimand::Level, false) => format!(
                "{alike}, {mean} be lowest, {}, {}, and highest, {}, {}.",
                said(low),
                with(low),
                said(high),
                with(high)
            ),
            (Estimand::Contrast(base), true) => {
                format!(
                    "{alike}, {mean} change by {} {} instead of {}.",
                    said(low),
                    with(low),
                    assigned(base, 0)
                )
            }
            (Estimand::Contrast(base), false) => format!(
                "{alike} instead of with {}, {mean} change by between {}, {}, and {}, {}.",
                assigned(base, 0),
                said(low),
                with(low),
                said(high),
                with(high)
            ),
            (Estimand::Slope { by, .. }, true) => {
                format!(
                    "{alike}, a little more {by} would change {mean_of} by {} a unit {}.",
                    said(low),
                    with(low)
                )
            }
            (Estimand::Slope { by, .. }, false) => format!(
                "{alike}, a little more {by} would change {mean_of} by between {} a unit, {}, and {}, {}.",
                said(low),
                with(low),
                said(high),
                with(high)
            ),
        };
        text + &beyond
    }

    /// Whether it is drawn as a curve: along one treatment that is a number.
    pub(crate) fn is_curve(&self) -> bool {
        self.at.width() == 1 && self.at.rows() > 1 && self.at.columns()[0].kind == ColumnKind::Numeric
    }
}

/// A row as `name = value and name = value`.
pub(crate) fn assigned(table: &Table, row: usize) -> String {
    let cell = |j: usize| format!("{} = {}", table.columns()[j].name, shown(table, row, j));
    (0..table.width()).map(cell).collect::<Vec<_>>().join(" and ")
}

pub(crate) fn shown(table: &Table, row: usize, j: usize) -> String {
    let (column, value) = (&table.columns()[j], table.get(row, j));
    if column.kind == ColumnKind::Numeric { number(value) } else { column.format(value) }
}

/// The cells of a column, numbers with equal decimals: four digits of their range.
pub(crate) fn of_column(table: &Table, j: usize) -> Vec<String> {
    let own = table.column(j);
    let (low, high) = own.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
    let size = (high - low) / 100.0;
    let numeric = table.columns()[j].kind == ColumnKind::Numeric && own.iter().any(|v| v.fract() != 0.0);
    (0..own.len()).map(|i| if numeric { rounded(own[i], size) } else { shown(table, i, j) }).collect()
}

/// As many decimals as a number that is unsure by `sd` deserves: two digits of this.
pub(crate) fn rounded(value: f64, sd: f64) -> String {
    let large = value.abs() >= 1e6;
    if !(sd > 0.0 && sd.is_finite()) || large || sd < 1e-6 {
        return number(value);
    }
    fixed(value, (1.0 - sd.log10().floor()).clamp(0.0, 8.0) as usize)
}
