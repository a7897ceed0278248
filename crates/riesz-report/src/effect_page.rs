//! One self-contained page about the effect of a treatment across studies: the answer, how it follows, the curve, and which study leaves it unsure. No network, no script.

use std::collections::BTreeMap;

use minijinja::context;
use riesz::causal::{Cause, Graph, Identification, Pointwise, Route, Studies};
use riesz::error::listed;
use riesz::explanation::Fact;
use riesz::{ColumnKind, Result, Table};

use crate::format::{fixed, number};
use crate::html::{inline, written};
use crate::plot::{PlotOptions, capital, render_causal_graph, render_effect};
use crate::svg::{Svg, Theme};

const TEMPLATE: &str = include_str!("../assets/effect.html");

/// Rows of the table, evenly taken of all.
const MOST_ROWS: usize = 100;

/// Variables of a graph that is drawn.
const MOST_VARIABLES: usize = 40;

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
    /// The effect there, or what it is more than at the baseline.
    pub effect: &'p Pointwise,
    /// The treatment that others are compared with, a row.
    pub baseline: Option<&'p Table>,
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
        if self.baseline.is_some() { format!("{own} less the baseline’s") } else { own }
    }

    /// The treatments of a row in words.
    pub(crate) fn label(&self, row: usize) -> String {
        assigned(self.at, row)
    }

    /// The doses of the first study, if there is one treatment.
    pub(crate) fn doses(&self) -> &[f64] {
        self.studies.studies.first().map_or(&[], |first| first.treatments.column(0))
    }

    /// The answer in a sentence or two: at which treatment the outcome is lowest and highest, among those that the studies tell.
    pub fn answer(&self) -> String {
        let supported = self.effect.supported();
        let told: Vec<usize> = (0..supported.len()).filter(|&i| supported[i]).collect();
        let by_mean = |a: &&usize, b: &&usize| self.effect.mean[**a].total_cmp(&self.effect.mean[**b]);
        let (Some(&low), Some(&high)) = (told.iter().min_by(by_mean), told.iter().max_by(by_mean)) else {
            return format!(
                "The studies do not tell the effect on {} at any of these treatments: what is shown there is what the model makes of rows far away.",
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
        let mean = format!("the mean of {} would", self.found.outcome);
        let with = |i: usize| format!("with {}", self.label(i));
        let beyond = match told.len() == supported.len() {
            true => String::new(),
            false => format!(
                " Of {} treatments the studies tell {}; elsewhere it is what the model makes of rows far away.",
                supported.len(),
                told.len()
            ),
        };
        let text = match (self.baseline, low == high) {
            (None, true) => format!("{alike}, {mean} be {} {}.", said(low), with(low)),
            (None, false) => format!(
                "{alike}, {mean} be lowest, {}, {}, and highest, {}, {}.",
                said(low),
                with(low),
                said(high),
                with(high)
            ),
            (Some(base), true) => {
                format!(
                    "{alike}, {mean} change by {} {} instead of {}.",
                    said(low),
                    with(low),
                    assigned(base, 0)
                )
            }
            (Some(base), false) => format!(
                "{alike} instead of with {}, {mean} change by between {}, {}, and {}, {}.",
                assigned(base, 0),
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
fn assigned(table: &Table, row: usize) -> String {
    let cell = |j: usize| format!("{} = {}", table.columns()[j].name, shown(table, row, j));
    (0..table.width()).map(cell).collect::<Vec<_>>().join(" and ")
}

fn shown(table: &Table, row: usize, j: usize) -> String {
    let (column, value) = (&table.columns()[j], table.get(row, j));
    if column.kind == ColumnKind::Numeric { number(value) } else { column.format(value) }
}

/// The cells of a column, numbers with equal decimals: four digits of their range.
fn of_column(table: &Table, j: usize) -> Vec<String> {
    let own = table.column(j);
    let (low, high) = own.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
    let size = (high - low) / 100.0;
    let numeric = table.columns()[j].kind == ColumnKind::Numeric && own.iter().any(|v| v.fract() != 0.0);
    (0..own.len()).map(|i| if numeric { rounded(own[i], size) } else { shown(table, i, j) }).collect()
}

/// As many decimals as a number that is unsure by `sd` deserves: two digits of this.
fn rounded(value: f64, sd: f64) -> String {
    let large = value.abs() >= 1e6;
    if !(sd > 0.0 && sd.is_finite()) || large || sd < 1e-6 {
        return number(value);
    }
    fixed(value, (1.0 - sd.log10().floor()).clamp(0.0, 8.0) as usize)
}

/// The page as one HTML file that opens from disk and loads nothing.
///
/// # Errors
/// As [`render_effect`].
pub fn effect_report(page: &EffectPage<'_>) -> Result<String> {
    let (found, effect) = (page.found, page.effect);
    let options = |width| PlotOptions { theme: Theme::Auto, width, ..PlotOptions::default() };
    let both = |draw: &dyn Fn(&PlotOptions) -> Result<Svg>| -> Result<Vec<String>> {
        [640, 330].into_iter().map(|width| Ok(inline(draw(&options(width))?))).collect()
    };
    let drawn = page.graph.filter(|graph| graph.variables().len() <= MOST_VARIABLES);
    let graph = drawn.map(|graph| both(&|options| render_causal_graph(graph, found, options))).transpose()?;
    let sd = effect.sd();
    let largest = |own: &[f64]| own.iter().fold(0.0, |m: f64, v| m.max(v.sqrt()));
    let shares = effect.shares();
    let causes: Vec<_> = shares
        .iter()
        .zip(&effect.causes)
        .map(|((cause, share), (_, own))| {
            let share = format!("{} %", fixed(100.0 * share, 1));
            context! { name => cause.to_string(), share, sd => number(largest(own)), is => meaning(*cause, page) }
        })
        .collect();
    let (n, ends, supported) = (page.at.rows(), effect.interval(page.level)?, effect.supported());
    let count = n.min(MOST_ROWS);
    let mut columns: Vec<String> = page.at.columns().iter().map(|column| column.name.clone()).collect();
    columns.extend(["mean", "sd"].map(String::from));
    columns.push(format!("{} % interval", number(100.0 * page.level)));
    columns.push("told by the studies".into());
    columns.extend(effect.causes.iter().map(|(cause, _)| format!("sd, {cause}")));
    columns.extend(["resolved by study 1", "by those after it", "overlap"].map(String::from));
    // Equal decimals, so that numbers of a column can be compared at a glance.
    let mut sizes: Vec<f64> = sd.iter().copied().filter(|sd| *sd > 0.0).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let size = sizes.get(sizes.len() / 2).copied().unwrap_or(0.0);
    let told = |v: f64| rounded(v, size / 10.0);
    let doses: Vec<Vec<String>> = (0..page.at.width()).map(|j| of_column(page.at, j)).collect();
    let rows: Vec<Vec<String>> = (0..count)
        .map(|k| k * (n - 1) / (count - 1).max(1))
        .map(|i| {
            let mut cells: Vec<String> = doses.iter().map(|own| own[i].clone()).collect();
            let [low, high] = ends[i].map(told);
            cells.extend([told(effect.mean[i]), told(sd[i]), format!("{low} to {high}")]);
            cells.push(if supported[i] { "yes" } else { "no" }.into());
            cells.extend(effect.causes.iter().map(|(_, own)| told(own[i].sqrt())));
            let own = &effect.standing[i];
            cells.extend([own.resolved_by_first, own.resolved_by_rest, own.overlap].map(|v| fixed(v, 2)));
            cells
        })
        .collect();
    let title = format!("The effect of {} on {}", listed(&found.treatments), found.outcome);
    let context = context! {
        title,
        answer => page.answer(),
        doubts => page.doubts.iter().map(|text| capital(text)).collect::<Vec<_>>(),
        says => says(page),
        curves => both(&|options| render_effect(page, options))?,
        identified => capital(&found.to_string()),
        graph,
        assumptions => found.assumptions.iter().map(|text| capital(text)).collect::<Vec<_>>(),
        unsure => unsure(&shares),
        causes,
        studies => studies(page),
        matched => matched(page),
        columns,
        rows,
        about_rows => about_rows(count, n),
        run => minijinja::value::Serde(page.run),
    };
    written(TEMPLATE, context)
}

/// What the picture shows.
fn says(page: &EffectPage<'_>) -> String {
    let (whom, outcome) = (page.whom, &page.found.outcome);
    let what = match page.baseline {
        None => format!("The mean of {outcome} if {whom} were treated so"),
        Some(base) => format!(
            "By how much the mean of {outcome} would change if {whom} were treated so instead of with {}",
            assigned(base, 0)
        ),
    };
    let level = number(100.0 * page.level);
    if page.is_curve() {
        return format!(
            "{what}, with a {level} % band. Small strokes are doses that people of study 1 had. Where the field is hatched, the studies do not tell it."
        );
    }
    format!("{what}, with {level} % intervals. Where a line is hatched, the studies do not tell it.")
}

/// What leaves the effect unsure, in a sentence.
fn unsure(shares: &[(Cause, f64)]) -> String {
    let Some((cause, share)) = shares.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|own| own.1 > 0.0)
    else {
        return "Nothing does.".into();
    };
    let remedy = match cause {
        Cause::Study(k) => format!("more rows of study {} would help most", k + 1),
        Cause::Interaction => {
            "study 1 leads where the next one knows little, and rows of that would help most there".into()
        }
        Cause::Adjustment => "more people in study 1 would help most".into(),
        Cause::Hyperparameters => "more rows of any study would tell how smooth it is".into(),
    };
    format!(
        "The largest part of the variance over these treatments, {} %, is due to {cause}: {remedy}.",
        fixed(100.0 * share, 0)
    )
}

/// What a cause is.
fn meaning(cause: Cause, page: &EffectPage<'_>) -> String {
    match cause {
        Cause::Study(0) => {
            "what treatments do to what studies share is known by few rows, or noisy ones".into()
        }
        Cause::Study(k) if k == page.studies.studies.len() => {
            format!(
                "what {} is, given what studies share, is known by few rows, or noisy ones",
                page.found.outcome
            )
        }
        Cause::Study(_) => {
            "how one of the things that studies share leads to the next is known by few rows, or noisy ones"
                .into()
        }
        Cause::Interaction => "a study may lead to where those after it know little".into(),
        Cause::Adjustment => "who happens to be in study 1, over whom the effect is averaged".into(),
        Cause::Hyperparameters => "how smooth and how noisy all this is".into(),
    }
}

/// What each study says.
fn studies(page: &EffectPage<'_>) -> Vec<minijinja::Value> {
    let names =
        |table: &Table| listed(table.columns().iter().map(|column| column.name.clone()).collect::<Vec<_>>());
    let mut all: Vec<_> = page
        .studies
        .studies
        .iter()
        .enumerate()
        .map(|(k, own)| {
            let by = match &own.route {
                Route::Direct => String::new(),
                Route::BackDoor(others) => format!(", adjusted for {}", names(others)),
                Route::FrontDoor(others) => format!(", through {}", names(others)),
            };
            let says = format!("what {} does to {}{by}", names(&own.treatments), names(&own.mediators));
            context! { name => (k + 1).to_string(), rows => own.treatments.rows(), says }
        })
        .collect();
    let says = format!("what {} says of {}", names(&page.studies.points), page.found.outcome);
    all.push(context! { name => (all.len() + 1).to_string(), rows => page.studies.points.rows(), says });
    all
}

/// How far studies know the same values of what they share.
fn matched(page: &EffectPage<'_>) -> String {
    if page.unmatched.values().all(|share| *share == 0.0) {
        return "Of what studies share, none has values beyond those of the study after it.".into();
    }
    let share = |(name, share): (&String, &f64)| format!("{name} {} %", fixed(100.0 * share, 1));
    let each: Vec<String> = page.unmatched.iter().map(share).collect();
    format!(
        "Rows of a study whose values the next one has not, so that it says nothing of what comes after: {}.",
        each.join(", ")
    )
}

fn about_rows(count: usize, n: usize) -> String {
    let some = if count < n { format!("{count} of {n} treatments. ") } else { String::new() };
    format!(
        "{some}Resolved is the share of the prior variance that a study takes away; overlap the share of people for whom such a treatment was near. The studies tell \
         what has half or more of each."
    )
}
