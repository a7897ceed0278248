//! The plots people know from explanations, one file each, and the list of them.

mod bar;
mod beeswarm;
mod causal_graph;
mod component;
mod dependence;
mod effect;
mod force;
mod heatmap;
mod importance;
mod interaction_strengths;
mod interactions;
mod map;
mod matrix;
mod network;
mod null;
mod null_intervals;
mod ranking;
mod waterfall;
mod witness;

pub use importance::Overall;
pub(crate) use map::Shown;
use riesz::causal::{Estimand, Graph, Identification};
use riesz::discrepancy::{TestResult, Witness};
use riesz::global::Curve;
use riesz::preference::Rankability;
use riesz::{ColumnKind, Error, Explanation, Matrix, Result};

use crate::effect::EffectPage;
use crate::format::{self, single_column};
use crate::svg::{Anchor, Canvas, FONT, LEVELS, Paint, Svg, Theme};

/// All plots of explanations. A new one is its file and a line here.
pub static PLOTS: [&Plot; 8] = [
    &beeswarm::PLOT,
    &bar::PLOT,
    &waterfall::PLOT,
    &dependence::PLOT,
    &heatmap::PLOT,
    &force::PLOT,
    &interactions::PLOT,
    &network::PLOT,
];

/// A plot of an explanation.
#[derive(Debug)]
pub struct Plot {
    /// The name users type.
    pub name: &'static str,
    /// A description of the plot.
    pub help: &'static str,
    /// The part of an explanation that it shows.
    pub shows: Shows,
    draw: fn(&Explanation, &PlotOptions) -> Svg,
}

/// The part of an explanation that a plot shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// All rows and players.
    Everything,
    /// [`PlotOptions::row`].
    OneRow,
    /// [`PlotOptions::player`].
    OnePlayer,
    /// All rows, of explanations that have [interactions](Plot::can_show).
    Interactions,
}

impl Plot {
    /// Whether `explanation` has what this plot shows, which of interactions is an index of them.
    pub fn can_show(&self, explanation: &Explanation) -> bool {
        self.shows != Shows::Interactions || explanation.index.order() > 1
    }

    /// The plot of this name.
    ///
    /// # Errors
    /// [`Error::Parameter`] lists the names.
    pub fn named(name: &str) -> Result<&'static Self> {
        PLOTS.into_iter().find(|plot| plot.name == name).ok_or_else(|| {
            Error::parameter("plot", name, format!("one of {}", PLOTS.map(|plot| plot.name).join(", ")))
        })
    }
}

/// Options of plots.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotOptions {
    /// Which of the model's outputs, from 0.
    pub output: usize,
    /// The row of waterfall and force plots, from 0.
    pub row: usize,
    /// The player of dependence plots; the most important one if `None`.
    pub player: Option<usize>,
    /// The player whose feature value colours dependence plots.
    pub color_by: Option<usize>,
    /// Most players shown by name; the others are summed up.
    pub max_display: usize,
    /// Colours.
    pub theme: Theme,
    /// Width in pixels, at least 280.
    pub width: u32,
}

impl Default for PlotOptions {
    fn default() -> Self {
        Self {
            output: 0,
            row: 0,
            player: None,
            color_by: None,
            max_display: 10,
            theme: Theme::Light,
            width: 720,
        }
    }
}

/// Draws `plot` of `explanation`. The same input gives the same bytes everywhere.
///
/// # Errors
/// [`Error::Shape`] for an inconsistent explanation, [`Error::TooFew`] without rows or players,
/// [`Error::NotFinite`] for values that cannot be drawn, [`Error::Parameter`] for options out of range,
/// [`Error::Format`] for an explanation that does not have [what the plot shows](Plot::can_show).
pub fn render(explanation: &Explanation, plot: &Plot, options: &PlotOptions) -> Result<Svg> {
    check(explanation)?;
    in_range("output", options.output, explanation.outputs())?;
    if plot.shows == Shows::OneRow {
        in_range("row", options.row, explanation.rows())?;
    }
    if plot.shows == Shows::OnePlayer {
        for player in options.player.iter().chain(&options.color_by) {
            in_range("player", *player, explanation.sets())?;
        }
    }
    if !plot.can_show(explanation) {
        return Err(Error::Format {
            problem: format!(
                "the explanation has {} of single features and no interactions to draw: explain with \
                 --index k-sii, or another index of pairs",
                explanation.index.names()
            ),
        });
    }
    fits(options)?;
    Ok((plot.draw)(explanation, options))
}

/// Draws what features contribute to a test's statistic, with what they contribute under the null hypothesis.
///
/// # Errors
/// As [`render`]; [`Error::TooFew`] for a test that attributed nothing.
pub fn render_test(result: &TestResult, options: &PlotOptions) -> Result<Svg> {
    fits(options)?;
    match &result.attributions {
        Some(attributions) => {
            check(&attributions.explanation)?;
            Ok(null_intervals::draw(attributions, options))
        }
        None => {
            Err(Error::TooFew { subject: "the list of attributions".into(), needed: 1, unit: "feature is" })
        }
    }
}

/// Draws a test's statistic beside its null distribution.
///
/// # Errors
/// [`Error::TooFew`] without draws; [`Error::Parameter`] for options.
pub fn render_null(result: &TestResult, statistic: &str, options: &PlotOptions) -> Result<Svg> {
    fits(options)?;
    if result.null.is_empty() {
        return Err(Error::TooFew { subject: "the null distribution".into(), needed: 1, unit: "draw is" });
    }
    Ok(null::draw(result, statistic, options))
}

/// Draws where two samples differ along a column.
///
/// # Errors
/// [`Error::Parameter`] for options.
pub fn render_witness(curve: &Witness, options: &PlotOptions) -> Result<Svg> {
    fits(options)?;
    Ok(witness::draw(curve, options))
}

/// Draws which features matter overall.
///
/// # Errors
/// As [`render`].
pub fn render_overall(ranking: &Overall<'_>, options: &PlotOptions) -> Result<Svg> {
    let e = ranking.explanation();
    check(e)?;
    in_range("output", options.output, e.outputs())?;
    fits(options)?;
    Ok(importance::draw(ranking, options))
}

/// Draws a component of a model's functional ANOVA.
///
/// # Errors
/// [`Error::Parameter`] for options.
pub fn render_component(component: &Curve, options: &PlotOptions) -> Result<Svg> {
    in_range("output", options.output, component.output_names.len())?;
    fits(options)?;
    Ok(component::draw(component, options))
}

/// Draws an effect: along one treatment that is a number the curve with its band and what leaves it unsure,
/// else a line for each of the first treatments asked about.
///
/// # Errors
/// [`Error::TooFew`] without treatments; [`Error::NotFinite`] for numbers that cannot be drawn;
/// [`Error::Parameter`] for the level and options.
pub fn render_effect(page: &EffectPage<'_>, options: &PlotOptions) -> Result<Svg> {
    fits(options)?;
    let ends = page.effect.interval(page.level)?;
    if ends.is_empty() {
        return Err(Error::TooFew {
            subject: "the list of treatments".into(),
            needed: 1,
            unit: "treatment is",
        });
    }
    if let Some(row) = ends.iter().position(|interval| interval.iter().any(|v| v.abs() > 1e300 || v.is_nan()))
    {
        let (column, value) = (page.identification.outcome.clone(), ends[row][0]);
        return Err(Error::NotFinite { row, column, value });
    }
    Ok(effect::draw(page, &ends, options))
}

/// Draws a causal graph with what its variables are there for; hidden common causes are dashed.
///
/// # Errors
/// [`Error::Parameter`] for options.
pub fn render_causal_graph(
    graph: &Graph,
    identification: &Identification,
    options: &PlotOptions,
) -> Result<Svg> {
    fits(options)?;
    Ok(causal_graph::draw(graph, identification, options))
}

/// Draws numbers of places as a map: places of the coordinates `x` and `y` in the cells of a raster of at
/// most 240 × 240, those of a cell as their mean, coloured from the least to the largest. `names` are those
/// of the coordinates (longitude and latitude are told by them, and drawn as they appear at the middle
/// latitude), `title` that of the numbers.
///
/// # Errors
/// [`Error::Shape`] unless there is a number for each place; [`Error::TooFew`] without places;
/// [`Error::NotFinite`]; [`Error::Parameter`] for options.
pub fn render_map(
    [x, y]: [&[f64]; 2],
    values: &[f64],
    names: [&str; 2],
    title: &str,
    options: &PlotOptions,
) -> Result<Svg> {
    places_map([x, y], &Shown::Numbers { values, ends: None }, names, title, options)
}

/// Draws a map like [`render_map`], of numbers or levels.
pub(crate) fn places_map(
    [x, y]: [&[f64]; 2],
    shown: &Shown<'_>,
    names: [&str; 2],
    title: &str,
    options: &PlotOptions,
) -> Result<Svg> {
    fits(options)?;
    if x.is_empty() {
        return Err(Error::TooFew { subject: "the list of places".into(), needed: 1, unit: "place is" });
    }
    let (count, values) = match shown {
        Shown::Numbers { values, .. } => (values.len(), *values),
        Shown::Levels { of: levels, .. } => (levels.len(), &[][..]),
    };
    for (name, numbers) in names.iter().zip([x, y]).chain([(&title, values)]) {
        if let Some(row) = numbers.iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite { row, column: (*name).into(), value: numbers[row] });
        }
    }
    [x.len(), y.len()]
        .into_iter()
        .try_for_each(|count_of_places| one_each("numbers", count, count_of_places))?;
    Ok(map::draw([x, y], shown, (names, title), options))
}

/// Draws items of these names by utility, a rung each, with places and the most probable circles of three.
///
/// # Errors
/// [`Error::Shape`] unless there is a name for each item; [`Error::TooFew`] without items;
/// [`Error::Parameter`] for options.
pub fn render_ladder(ranking: &Rankability, names: &[String], options: &PlotOptions) -> Result<Svg> {
    fits(options)?;
    one_each("names", ranking.utility.len(), names.len())?;
    Ok(ranking::draw(ranking, names, options))
}

/// Draws how probable it is that the row's item beats the column's (items × items); items of a cluster,
/// numbered from 0, stand together.
///
/// # Errors
/// [`Error::Shape`] unless there is a row, a column, a name, and a cluster if any, for each item;
/// [`Error::TooFew`] without items; [`Error::Parameter`] for what is no probability, and for options.
pub fn render_preference_matrix(
    probabilities: &Matrix,
    names: &[String],
    clusters: Option<&[usize]>,
    options: &PlotOptions,
) -> Result<Svg> {
    fits(options)?;
    let n = probabilities.rows();
    one_each("columns", n, probabilities.cols())?;
    one_each("names", n, names.len())?;
    clusters.iter().try_for_each(|labels| one_each("clusters", n, labels.len()))?;
    let apart = |index: &usize| index / n != index % n;
    if let Some(wrong) =
        (0..n * n).filter(apart).map(|index| probabilities.data()[index]).find(|p| !(0.0..=1.0).contains(p))
    {
        return Err(Error::parameter("probability", wrong, "from 0 to 1"));
    }
    Ok(matrix::draw(probabilities, names, clusters, options))
}

/// Whether there is one for each item.
fn one_each(name: &str, expected: usize, actual: usize) -> Result<()> {
    if expected == 0 {
        return Err(Error::TooFew { subject: "the list of items".into(), needed: 1, unit: "item is" });
    }
    if expected == actual {
        return Ok(());
    }
    Err(Error::Shape {
        subject: format!("the list of {name}"),
        unit: "entries",
        expected,
        actual,
        why: "one an item".into(),
    })
}

fn in_range(name: &str, index: usize, count: usize) -> Result<()> {
    if index < count {
        Ok(())
    } else {
        Err(Error::parameter(name, index, format!("from 0 to {}", count.max(1) - 1)))
    }
}

fn fits(options: &PlotOptions) -> Result<()> {
    if !(280..=10_000).contains(&options.width) {
        return Err(Error::parameter("width", options.width, "from 280 to 10000 pixels"));
    }
    if options.max_display == 0 {
        return Err(Error::parameter("max_display", 0, "at least 1"));
    }
    Ok(())
}

/// Whether the explanation can be drawn at all.
pub(crate) fn check(explanation: &Explanation) -> Result<()> {
    explanation.validate()?;
    let (n, m, p) = (explanation.rows(), explanation.outputs(), explanation.sets());
    for (subject, size, unit) in [
        ("the explanation", n, "row is"),
        ("the explanation", m, "output is"),
        ("the explanation", p, "player is"),
    ] {
        if size == 0 {
            return Err(Error::TooFew { subject: subject.into(), needed: 1, unit });
        }
    }
    if !explanation.is_complete() {
        return Err(Error::Format {
            problem: "the explanation is a selection of values, which do not add up to the predictions: \
                      draw or report the whole"
                .into(),
        });
    }
    // Far from overflow, so that sums and axis ranges are finite too.
    let drawable = |x: f64| x.abs() < 1e300;
    let not_finite = |row, column: String, value| Err(Error::NotFinite { row, column, value });
    if let Some(k) = explanation.values.iter().position(|&v| !drawable(v)) {
        let name = format!("value of {}", explanation.set_name(k % p));
        return not_finite(k / (m * p), name, explanation.values[k]);
    }
    for (name, list) in [("base value", &explanation.base_values), ("prediction", &explanation.predictions)] {
        if let Some(k) = list.iter().position(|&v| !drawable(v)) {
            return not_finite(k / m, name.into(), list[k]);
        }
    }
    for (j, column) in explanation.data.columns().iter().enumerate() {
        if let Some(row) = explanation.data.column(j).iter().position(|&v| !drawable(v)) {
            return not_finite(row, column.name.clone(), explanation.data.get(row, j));
        }
    }
    Ok(())
}

/// The players shown by name, most important first, and those summed up in a last line.
fn shown(order: Vec<usize>, max_display: usize) -> (Vec<usize>, Vec<usize>) {
    // A sum of one would only hide a name.
    let keep = if order.len() <= max_display + 1 { order.len() } else { max_display };
    let (named, omitted) = order.split_at(keep);
    (named.to_vec(), omitted.to_vec())
}

fn rest_label(e: &Explanation, count: usize) -> String {
    format!("Sum of {count} {}", if e.subsets.is_some() { "others" } else { "other features" })
}

/// A linear map from numbers to pixels.
#[derive(Clone, Copy)]
struct Scale {
    lo: f64,
    hi: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// Covers `values` with some air; never empty.
    fn covering(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut lo, mut hi) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        if lo > hi {
            (lo, hi) = (0.0, 0.0);
        }
        let size = lo.abs().max(hi.abs());
        let pad = if hi - lo > size * 1e-12 {
            (hi - lo) * 0.04
        } else if size > 0.0 {
            size * 0.5
        } else {
            1.0
        };
        Self { lo: lo - pad, hi: hi + pad, from, to }
    }

    fn pixel(self, value: f64) -> f64 {
        self.from + (value - self.lo) / (self.hi - self.lo) * (self.to - self.from)
    }

    fn ticks(self, spacing: f64) -> Vec<(f64, String)> {
        let count = ((self.to - self.from).abs() / spacing).floor().max(2.0) as usize;
        format::ticks(self.lo, self.hi, count)
    }
}

/// A horizontal axis below a field from `top` to `bottom`: grid lines, labels, name.
fn x_axis(canvas: &mut Canvas, scale: Scale, top: f64, bottom: f64, name: &str) {
    for (value, label) in scale.ticks(80.0) {
        let x = scale.pixel(value);
        canvas.line((x, top), (x, bottom), Paint::Grid, false);
        canvas.text((x, bottom + 12.0), &label, Anchor::Middle, Paint::Muted, 100.0);
    }
    let middle = (scale.from + scale.to) / 2.0;
    canvas.text((middle, bottom + 30.0), name, Anchor::Middle, Paint::Muted, scale.to - scale.from + 60.0);
}

/// Room for labels to the left of a plot: as wide as the widest, at most 40% of the picture, 30% of a narrow
/// one.
fn label_room(labels: &[String], width: f64) -> f64 {
    labels
        .iter()
        .map(|l| format::text_width(l, FONT))
        .fold(30.0, f64::max)
        .min(width * if width < 480.0 { 0.3 } else { 0.4 })
}

/// The meaning of the colours of dots.
struct Colours<'e> {
    column: &'e [f64],
    scale: ColourScale,
}

enum ColourScale {
    /// Numbers: low (0, the 5 % quantile) to high (1, the 95 % quantile); nothing if they are equal.
    Place(f64, f64),
    /// Levels: by code the colour, and a name for each colour, the most frequent first.
    Levels(Vec<Paint>, Vec<(Paint, String)>),
}

impl<'e> Colours<'e> {
    /// `None` for groups, which have no single value.
    fn for_player(explanation: &'e Explanation, player: usize) -> Option<Self> {
        let j = single_column(explanation, player)?;
        let column = explanation.data.column(j);
        if let ColumnKind::Categorical { levels } = &explanation.data.columns()[j].kind {
            let (paints, names) = Self::levels(column.iter().map(|&v| v as usize), levels);
            return Some(Self { column, scale: ColourScale::Levels(paints, names) });
        }
        let mut sorted = column.to_vec();
        sorted.sort_by(f64::total_cmp);
        let quantile = |q: f64| sorted[((sorted.len() - 1) as f64 * q).round() as usize];
        let (mut lo, mut hi) = (quantile(0.05), quantile(0.95));
        if lo == hi {
            (lo, hi) = (quantile(0.0), quantile(1.0));
        }
        Some(Self { column, scale: ColourScale::Place(lo, hi) })
    }

    /// The colour of each level, and the names of the colours: the most frequent levels have colours of their
    /// own, the others share one.
    fn levels(codes: impl Iterator<Item = usize>, levels: &[String]) -> (Vec<Paint>, Vec<(Paint, String)>) {
        let mut counts = vec![0_usize; levels.len()];
        codes.for_each(|level| counts[level] += 1);
        let mut order: Vec<usize> = (0..levels.len()).filter(|&k| counts[k] > 0).collect();
        order.sort_by_key(|&k| std::cmp::Reverse(counts[k]));
        let rare = if order.len() > LEVELS.len() { order.split_off(LEVELS.len()) } else { Vec::new() };
        let mut paints = vec![Paint::Neutral; levels.len()];
        let mut names = Vec::new();
        for (k, &level) in order.iter().enumerate() {
            paints[level] = Paint::Level(k);
            names.push((Paint::Level(k), levels[level].clone()));
        }
        if !rare.is_empty() {
            names.push((Paint::Neutral, format!("{} others", rare.len())));
        }
        (paints, names)
    }

    fn paint(&self, row: usize) -> Paint {
        match &self.scale {
            ColourScale::Place(lo, hi) if lo == hi => Paint::Neutral,
            ColourScale::Place(lo, hi) => Paint::Ramp(((self.column[row] - lo) / (hi - lo)).clamp(0.0, 1.0)),
            ColourScale::Levels(paints, _) => paints[self.column[row] as usize],
        }
    }

    /// The names of colours, for levels.
    fn names(&self) -> &[(Paint, String)] {
        match &self.scale {
            ColourScale::Place(..) => &[],
            ColourScale::Levels(_, names) => names,
        }
    }
}

/// Width of a dot and the space around it before its name.
const DOT: f64 = 12.0;

/// Colours and their names in one line that ends at `right`, as many as fit, and dots for the rest.
fn legend_line(canvas: &mut Canvas, (right, y): (f64, f64), names: &[(Paint, String)], room: f64) {
    let width = |name: &str| (format::text_width(name, FONT) + DOT + 8.0).min(room);
    let mut count = names.len();
    let total_width = |count: usize| {
        let ellipsis = if count < names.len() { 14.0 } else { 0.0 };
        names[..count].iter().map(|(_, name)| width(name)).sum::<f64>() + ellipsis
    };
    while count > 1 && total_width(count) > room {
        count -= 1;
    }
    let mut x = right - total_width(count) + 8.0;
    if count < names.len() {
        canvas.text((right, y), "…", Anchor::End, Paint::Muted, 14.0);
    }
    for (paint, name) in &names[..count] {
        canvas.dots(&[(x + 4.0, y, *paint)], 7.0);
        canvas.text((x + DOT, y), name, Anchor::Start, Paint::Muted, width(name) - DOT - 6.0);
        x += width(name);
    }
}

/// Where a legend breaks into lines that have room for their names: the end of each.
fn legend_breaks(names: &[(Paint, String)], room: f64) -> Vec<usize> {
    let (mut ends, mut used) = (Vec::new(), 0.0);
    for (k, (_, name)) in names.iter().enumerate() {
        let width = format::text_width(name, FONT) + DOT + 8.0;
        if k > 0 && used + width > room {
            ends.push(k);
            used = 0.0;
        }
        used += width;
    }
    ends.push(names.len());
    ends
}

/// Colours and their names in as many lines as it takes, of which the last is at `y`.
fn legend_lines(canvas: &mut Canvas, (right, y): (f64, f64), names: &[(Paint, String)], room: f64) {
    let (ends, mut from) = (legend_breaks(names, room), 0);
    for (k, &end) in ends.iter().enumerate() {
        legend_line(canvas, (right, y - 18.0 * (ends.len() - 1 - k) as f64), &names[from..end], room);
        from = end;
    }
}

/// Colours and their names below each other.
fn legend(canvas: &mut Canvas, x: f64, top: f64, names: &[(Paint, String)], room: f64) {
    for (k, (paint, name)) in names.iter().enumerate() {
        let y = top + 8.0 + 18.0 * k as f64;
        canvas.dots(&[(x + 4.0, y, *paint)], 7.0);
        canvas.text((x + DOT, y), name, Anchor::Start, Paint::Muted, room - DOT);
    }
}

/// Half of a 95 % interval, in standard deviations.
const REACH: f64 = 1.959_963_984_540_054;

/// Most rows whose dots have intervals of their own.
const MAX_ROWS_WITH_INTERVALS: usize = 200;

/// Half of the interval of a sum of values; `None` where it is not known.
fn reach(e: &Explanation, row: usize, output: usize, sets: &[usize]) -> Option<f64> {
    e.sd_of_sum(row, output, sets).map(|sd| REACH * sd)
}

/// The label of whiskers, if there are some.
fn interval_label(e: &Explanation) -> &'static str {
    if e.uncertainty.is_some() { ", 95 % intervals" } else { "" }
}

/// A vertical bar from low to high feature values, with its name.
fn colour_bar(
    canvas: &mut Canvas,
    (x, room): (f64, f64),
    (top, bottom): (f64, f64),
    [low, high]: [&str; 2],
    name: &str,
) {
    let steps = crate::svg::RAMP_STEPS;
    let step = (bottom - top) / steps as f64;
    for k in 0..steps {
        let t = 1.0 - k as f64 / (steps - 1) as f64;
        canvas.rect(x, top + k as f64 * step, 6.0, step + 0.4, Paint::Ramp(t), 1.0);
    }
    canvas.text((x + 11.0, top + 5.0), high, Anchor::Start, Paint::Muted, room);
    canvas.text((x + 11.0, bottom - 5.0), low, Anchor::Start, Paint::Muted, room);
    canvas.text_up((x + 20.0, (top + bottom) / 2.0), name, bottom - top - 50.0);
}

/// A jitter in −0.5..0.5 that is the same on every machine.
fn jitter(k: usize) -> f64 {
    // The golden ratio spreads any number of points evenly.
    ((k as f64 + 0.5) * 0.618_033_988_749_895).fract() - 0.5
}

/// The name of row `i` at the start of a title: "Row 3", or the names of the two items.
pub(crate) fn row_title(e: &Explanation, i: usize) -> String {
    if e.duels.is_some() { e.row_name(i) } else { capital(&e.row_name(i)) }
}

/// With a capital letter, for the beginning of a sentence.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The part of the difference between a row's prediction and the base value that its values leave; `None` for
/// values that add up to it.
fn left_over(explanation: &Explanation, row: usize, output: usize) -> Option<(String, f64)> {
    if explanation.index.is_efficient() {
        return None;
    }
    let game = row * explanation.outputs() + output;
    let shared: f64 = explanation.row_values(row, output).iter().sum();
    let left = explanation.predictions[game] - explanation.base_values[game] - shared;
    Some(("not shared out".into(), left))
}

/// "Shapley value", with the output's name if there are several.
fn value_name(explanation: &Explanation, output: usize) -> String {
    match explanation.outputs() {
        1 => explanation.value_name(),
        _ => format!("{} for {}", explanation.value_name(), explanation.output_names[output]),
    }
}
