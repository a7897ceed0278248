//! Plots of explanations, tests, effects and rankings, one file each, and the list of plots of explanations.

mod banded_curve;
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
pub use map::{Area, Places};
use riesz::causal::{Estimand, Graph, Identification};
use riesz::discrepancy::{FeatureAttributions, TestResult, Witness};
use riesz::global::Curve;
use riesz::preference::Rankability;
use riesz::{ColumnKind, Error, Exactness, Explanation, Matrix, Result};

use crate::effect::EffectPage;
use crate::format::{self, single_column};
use crate::svg::{Anchor, Canvas, FONT, LEVELS, Paint, Svg, Theme};

/// All plots of explanations. A new plot needs its file and a line here.
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
    /// Whether `explanation` has the data of this plot; plots of interactions need an interaction index.
    pub fn can_show(&self, explanation: &Explanation) -> bool {
        self.shows != Shows::Interactions || explanation.index.order() > 1
    }

    /// The plot with this name.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an unknown name; it lists the known ones.
    pub fn named(name: &str) -> Result<&'static Self> {
        PLOTS.into_iter().find(|plot| plot.name == name).ok_or_else(|| {
            Error::parameter("plot", name, format!("one of {}", PLOTS.map(|plot| plot.name).join(", ")))
        })
    }
}

/// Options of plots.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotOptions {
    /// The drawn output of the model, from 0.
    pub output: usize,
    /// The row of waterfall and force plots, from 0.
    pub row: usize,
    /// The player of dependence plots; the most important one if `None`.
    pub player: Option<usize>,
    /// The player whose feature value colours dependence plots.
    pub color_by: Option<usize>,
    /// Maximum number of players shown by name; the others are summed up.
    pub max_display: usize,
    /// The colours.
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
/// [`Error::Format`] for an explanation [without the data of the plot](Plot::can_show).
pub fn render(explanation: &Explanation, plot: &Plot, options: &PlotOptions) -> Result<Svg> {
    check(explanation)?;
    check_index("output", options.output, explanation.outputs())?;
    if plot.shows == Shows::OneRow {
        check_index("row", options.row, explanation.rows())?;
    }
    if plot.shows == Shows::OnePlayer {
        for player in options.player.iter().chain(&options.color_by) {
            check_index("feature", *player, explanation.sets())?;
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
    check_options(options)?;
    Ok((plot.draw)(explanation, options))
}

/// Draws the contributions of features to a test's statistic, with their intervals under the null hypothesis.
///
/// # Errors
/// As [`render`]; [`Error::TooFew`] for a test without attributions.
pub fn render_test(result: &TestResult, options: &PlotOptions) -> Result<Svg> {
    check_options(options)?;
    let attributions = attributions(result)?;
    check(&attributions.explanation)?;
    Ok(null_intervals::draw(attributions, options))
}

/// The attributions of a test, which it needs.
pub(crate) fn attributions(result: &TestResult) -> Result<&FeatureAttributions> {
    let missing =
        || Error::TooFew { subject: "the list of attributions".into(), needed: 1, unit: "feature is" };
    result.attributions.as_ref().ok_or_else(missing)
}

/// Draws a test's statistic beside its null distribution.
///
/// # Errors
/// [`Error::TooFew`] without draws; [`Error::Parameter`] for options.
pub fn render_null(result: &TestResult, statistic: &str, options: &PlotOptions) -> Result<Svg> {
    check_options(options)?;
    check_not_empty("the null distribution", result.null.len(), "draw is")?;
    Ok(null::draw(result, statistic, options))
}

/// Draws the witness function along a column, which shows where two samples differ.
///
/// # Errors
/// [`Error::Parameter`] for options.
pub fn render_witness(curve: &Witness, options: &PlotOptions) -> Result<Svg> {
    check_options(options)?;
    Ok(witness::draw(curve, options))
}

/// Draws the global importance of features.
///
/// # Errors
/// As [`render`].
pub fn render_overall(ranking: &Overall<'_>, options: &PlotOptions) -> Result<Svg> {
    let e = ranking.explanation();
    check(e)?;
    check_index("output", options.output, e.outputs())?;
    check_options(options)?;
    Ok(importance::draw(ranking, options))
}

/// Draws a component of a model's functional ANOVA.
///
/// # Errors
/// [`Error::Parameter`] for options.
pub fn render_component(component: &Curve, options: &PlotOptions) -> Result<Svg> {
    check_index("output", options.output, component.output_names.len())?;
    check_options(options)?;
    Ok(component::draw(component, options))
}

/// Draws an effect. For one numeric treatment this is a curve with its band and the causes of its
/// uncertainty, otherwise a line for each of the first queried treatments.
///
/// # Errors
/// [`Error::TooFew`] without treatments; [`Error::NotFinite`] for numbers that cannot be drawn;
/// [`Error::Parameter`] for the level and options.
pub fn render_effect(page: &EffectPage<'_>, options: &PlotOptions) -> Result<Svg> {
    check_options(options)?;
    let ends = page.effect.interval(page.level)?;
    check_not_empty("the list of treatments", ends.len(), "treatment is")?;
    if let Some(row) = ends.iter().position(|interval| interval.iter().any(|v| v.abs() > 1e300 || v.is_nan()))
    {
        let (column, value) = (page.identification.outcome.clone(), ends[row][0]);
        return Err(Error::NotFinite { row, column, value });
    }
    Ok(effect::draw(page, &ends, options))
}

/// Draws a causal graph with the roles of its variables; arcs for hidden common causes are dashed.
///
/// # Errors
/// [`Error::Parameter`] for options.
pub fn render_causal_graph(
    graph: &Graph,
    identification: &Identification,
    options: &PlotOptions,
) -> Result<Svg> {
    check_options(options)?;
    Ok(causal_graph::draw(graph, identification, options))
}

/// Draws numbers as a map. Places that are points fall into the cells of a raster of at most 240 × 240, and a
/// cell shows the mean of its `values`; areas are drawn with their outlines. Numbers of one sign have
/// sequential colours from the smallest to the largest, and numbers of both signs diverging colours around 0.
///
/// `names` are the names of the coordinates, and `title` names the values. Coordinates with the names of
/// longitude and latitude are scaled by the cosine of the middle latitude.
///
/// # Errors
/// [`Error::Shape`] unless there is a number for each place; [`Error::TooFew`] without places;
/// [`Error::NotFinite`] for coordinates and values; [`Error::Parameter`] for options and for an area without
/// points.
pub fn render_map(
    places: Places<'_>,
    values: &[f64],
    names: [&str; 2],
    title: &str,
    options: &PlotOptions,
) -> Result<Svg> {
    render_value_map(places, &Shown::Numbers { values, ends: None }, names, title, options)
}

/// Draws a map like [`render_map`], of numbers or levels.
pub(crate) fn render_value_map(
    places: Places<'_>,
    shown: &Shown<'_>,
    names: [&str; 2],
    title: &str,
    options: &PlotOptions,
) -> Result<Svg> {
    check_options(options)?;
    check_not_empty("the list of places", places.count(), "place is")?;
    let (count, values) = match shown {
        Shown::Numbers { values, .. } => (values.len(), *values),
        Shown::Levels { codes: levels, .. } => (levels.len(), &[][..]),
    };
    check_finite(title, values)?;
    match places {
        Places::Points([x, y]) => {
            check_finite(names[0], x)?;
            check_finite(names[1], y)?;
            check_one_per_item("numbers", count, y.len())?;
        }
        Places::Areas(areas) => {
            for area in areas {
                let count: usize = area.rings.iter().map(Vec::len).sum();
                check_not_empty("an area", count, "point is")?;
                for (k, name) in names.iter().enumerate() {
                    let coordinates: Vec<f64> = area.rings.iter().flatten().map(|point| point[k]).collect();
                    check_finite(name, &coordinates)?;
                }
            }
        }
    }
    check_one_per_item("numbers", count, places.count())?;
    Ok(map::draw(places, shown, (names, title), options))
}

fn check_finite(name: &str, numbers: &[f64]) -> Result<()> {
    match numbers.iter().position(|v| !v.is_finite()) {
        Some(row) => Err(Error::NotFinite { row, column: name.into(), value: numbers[row] }),
        None => Ok(()),
    }
}

/// Draws items in the order of their utility, with their ranks and the most probable cycles of three items.
///
/// # Errors
/// [`Error::Shape`] unless there is a name for each item; [`Error::TooFew`] without items;
/// [`Error::Parameter`] for options.
pub fn render_ladder(ranking: &Rankability, names: &[String], options: &PlotOptions) -> Result<Svg> {
    check_options(options)?;
    check_one_per_item("names", ranking.utility.len(), names.len())?;
    Ok(ranking::draw(ranking, names, options))
}

/// Draws `probabilities` (items × items): the probability that the row's item beats the column's. Items with
/// the same number in `clusters` (from 0) are drawn together.
///
/// # Errors
/// [`Error::Shape`] unless there is a row, a column, a name, and a cluster if any, for each item;
/// [`Error::TooFew`] without items; [`Error::Parameter`] for entries outside 0..=1, and for options.
pub fn render_preference_matrix(
    probabilities: &Matrix,
    names: &[String],
    clusters: Option<&[usize]>,
    options: &PlotOptions,
) -> Result<Svg> {
    check_options(options)?;
    let n = probabilities.rows();
    check_one_per_item("columns", n, probabilities.cols())?;
    check_one_per_item("names", n, names.len())?;
    clusters.iter().try_for_each(|labels| check_one_per_item("clusters", n, labels.len()))?;
    let is_off_diagonal = |index: &usize| index / n != index % n;
    if let Some(invalid) = (0..n * n)
        .filter(is_off_diagonal)
        .map(|index| probabilities.data()[index])
        .find(|p| !(0.0..=1.0).contains(p))
    {
        return Err(Error::parameter("probability", invalid, "from 0 to 1"));
    }
    Ok(matrix::draw(probabilities, names, clusters, options))
}

/// Checks that a list has one entry for each of the `expected` items.
fn check_one_per_item(name: &str, expected: usize, actual: usize) -> Result<()> {
    check_not_empty("the list of items", expected, "item is")?;
    check_length(name, expected, actual, "one for each item")
}

/// Checks the number of entries of a list; `reason` says where the `expected` one comes from.
pub(crate) fn check_length(name: &str, expected: usize, actual: usize, reason: &str) -> Result<()> {
    if expected == actual {
        return Ok(());
    }
    let subject = format!("the list of {name}");
    Err(Error::Shape { subject, unit: "entries", expected, actual, why: reason.into() })
}

fn check_not_empty(subject: &str, count: usize, unit: &'static str) -> Result<()> {
    if count > 0 { Ok(()) } else { Err(Error::TooFew { subject: subject.into(), needed: 1, unit }) }
}

fn check_index(name: &str, index: usize, count: usize) -> Result<()> {
    if index < count {
        Ok(())
    } else {
        Err(Error::parameter(name, index, format!("from 0 to {}", count.max(1) - 1)))
    }
}

fn check_options(options: &PlotOptions) -> Result<()> {
    if !(280..=10_000).contains(&options.width) {
        return Err(Error::parameter("width", options.width, "from 280 to 10000 pixels"));
    }
    if options.max_display == 0 {
        return Err(Error::parameter("max_display", 0, "at least 1"));
    }
    Ok(())
}

/// Checks that an explanation can be drawn.
pub(crate) fn check(explanation: &Explanation) -> Result<()> {
    explanation.validate()?;
    let (n, m, p) = (explanation.rows(), explanation.outputs(), explanation.sets());
    for (count, unit) in [(n, "row is"), (m, "output is"), (p, "feature is")] {
        check_not_empty("the explanation", count, unit)?;
    }
    if !explanation.is_complete() {
        return Err(Error::Format {
            problem: "the explanation is a selection of values, which do not add up to the predictions: \
                      draw or report the whole explanation"
                .into(),
        });
    }
    // Numbers far from overflow keep sums and axis ranges finite.
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

/// The players shown by name, the most important first, and the players summed up in a last line.
fn split_at_max_display(order: Vec<usize>, max_display: usize) -> (Vec<usize>, Vec<usize>) {
    // A sum over a single player would only hide its name.
    let shown_count = if order.len() <= max_display + 1 { order.len() } else { max_display };
    let (named, omitted) = order.split_at(shown_count);
    (named.to_vec(), omitted.to_vec())
}

/// A line of a plot: a player, or the omitted ones together.
struct PlayerLine {
    player: Option<usize>,
    name: String,
    sets: Vec<usize>,
}

impl PlayerLine {
    /// The lines of the most important players, and of the sum of the others.
    fn list(e: &Explanation, order: Vec<usize>, max_display: usize) -> Vec<Self> {
        let (named, omitted) = split_at_max_display(order, max_display);
        let player_line = |j: usize| Self { player: Some(j), name: e.set_name(j), sets: vec![j] };
        let mut lines: Vec<Self> = named.into_iter().map(player_line).collect();
        if !omitted.is_empty() {
            lines.push(Self { player: None, name: rest_label(e, omitted.len()), sets: omitted });
        }
        lines
    }

    fn sum(&self, values: &[f64]) -> f64 {
        self.sets.iter().map(|&j| values[j]).sum()
    }
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
    /// A scale that covers `values` with a margin; its range is never empty.
    fn covering(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let [mut lo, mut hi] = format::range(values);
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

    /// A scale of the codes of `levels`, or else one that covers numbers.
    fn for_column(levels: Option<&[String]>, numbers: &[f64], from: f64, to: f64) -> Self {
        match levels {
            Some(levels) => Self { lo: -0.5, hi: levels.len().max(1) as f64 - 0.5, from, to },
            None => Self::covering(numbers.iter().copied(), from, to),
        }
    }

    fn pixel(self, value: f64) -> f64 {
        self.from + (value - self.lo) / (self.hi - self.lo) * (self.to - self.from)
    }

    fn ticks(self, spacing: f64) -> Vec<(f64, String)> {
        let count = ((self.to - self.from).abs() / spacing).floor().max(2.0) as usize;
        format::ticks(self.lo, self.hi, count)
    }
}

/// Draws a horizontal axis below a field from `top` to `bottom`: grid lines, labels and name.
fn x_axis(canvas: &mut Canvas, scale: Scale, top: f64, bottom: f64, name: &str) {
    for (value, label) in scale.ticks(80.0) {
        let x = scale.pixel(value);
        canvas.line((x, top), (x, bottom), Paint::Grid, false);
        canvas.text((x, bottom + 12.0), &label, Anchor::Middle, Paint::Muted, 100.0);
    }
    let middle = (scale.from + scale.to) / 2.0;
    canvas.text((middle, bottom + 30.0), name, Anchor::Middle, Paint::Muted, scale.to - scale.from + 60.0);
}

/// Draws the horizontal axis of a column: the names of its levels, or numbers as [`x_axis`]. `name_room` is
/// the room of the column's name below levels.
fn column_axis(
    canvas: &mut Canvas,
    scale: Scale,
    levels: Option<&[String]>,
    (top, bottom): (f64, f64),
    name: &str,
    name_room: f64,
) {
    let Some(levels) = levels else { return x_axis(canvas, scale, top, bottom, name) };
    let room = (scale.to - scale.from) / levels.len().max(1) as f64;
    let step = (30.0 / room).ceil().max(1.0) as usize;
    for (k, level) in levels.iter().enumerate().step_by(step) {
        let position = (scale.pixel(k as f64), bottom + 12.0);
        canvas.text(position, level, Anchor::Middle, Paint::Muted, room * step as f64 - 4.0);
    }
    let position = ((scale.from + scale.to) / 2.0, bottom + 30.0);
    canvas.text(position, name, Anchor::Middle, Paint::Muted, name_room);
}

/// Draws the grid lines and labels of a vertical axis.
fn y_axis(canvas: &mut Canvas, scale: Scale, (left, right): (f64, f64), spacing: f64) {
    for (value, label) in scale.ticks(spacing) {
        let y = scale.pixel(value);
        canvas.line((left, y), (right, y), Paint::Grid, false);
        y_label(canvas, left, y, &label);
    }
}

/// Draws a label of the vertical axis of a field that starts at `left`.
fn y_label(canvas: &mut Canvas, left: f64, y: f64, label: &str) {
    canvas.text((left - 8.0, y), label, Anchor::End, Paint::Muted, left - 26.0);
}

/// Draws centered text, moved to the inside of the picture.
fn inner_text(canvas: &mut Canvas, (x, y): (f64, f64), text: &str, paint: Paint, width: f64) {
    let half_width = format::text_width(text, FONT) / 2.0 + 2.0;
    let x = x.clamp(half_width, (width - half_width).max(half_width));
    canvas.text((x, y), text, Anchor::Middle, paint, width);
}

/// Draws the head of an arrow from `from` to `to`, with its length and half of its width.
fn arrow_head(canvas: &mut Canvas, [from, to]: [(f64, f64); 2], [length, side]: [f64; 2], paint: Paint) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let distance = dx.hypot(dy).max(1e-9);
    let (dx, dy) = (dx / distance, dy / distance);
    let base = (to.0 - length * dx, to.1 - length * dy);
    let corner = |side: f64| (base.0 - side * dy, base.1 + side * dx);
    canvas.polygon(&[to, corner(side), corner(-side)], paint, 1.0);
}

/// The width of the widest text, at least `minimum`.
fn widest<T: AsRef<str>>(texts: impl IntoIterator<Item = T>, minimum: f64) -> f64 {
    texts.into_iter().map(|text| format::text_width(text.as_ref(), FONT)).fold(minimum, f64::max)
}

/// Width of the labels to the left of a plot: the widest label, but at most 40 % of the picture, or 30 % of a
/// narrow one.
fn label_room<T: AsRef<str>>(labels: impl IntoIterator<Item = T>, width: f64) -> f64 {
    widest(labels, 30.0).min(width * if width < 480.0 { 0.3 } else { 0.4 })
}

/// The meaning of the colours of dots.
struct Colours<'e> {
    column: &'e [f64],
    scale: ColourScale,
}

enum ColourScale {
    /// Numbers: the 5 % quantile (low, 0) and the 95 % quantile (high, 1); equal ones give no colours.
    Place(f64, f64),
    /// Levels: the colour of each level by its code, and the names of the colours, the most frequent first.
    Levels(Vec<Paint>, Vec<(Paint, String)>),
}

impl<'e> Colours<'e> {
    /// The colours of a player's feature values; `None` for groups, which have no single value.
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

    /// The colour of each level, and the names of the colours. Each of the most frequent levels has its own
    /// colour; the others share one.
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

    /// The names of the colours; empty for numbers.
    fn names(&self) -> &[(Paint, String)] {
        match &self.scale {
            ColourScale::Place(..) => &[],
            ColourScale::Levels(_, names) => names,
        }
    }
}

/// Width of a legend's dot with the space before its name.
const DOT: f64 = 12.0;

/// Draws colours and their names in one line that ends at `right`. An ellipsis replaces names that do not
/// fit.
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

/// The ends of the lines into which a legend of width `room` breaks, as positions in `names`.
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

/// Draws colours and their names in as many lines as necessary; the last line is at `y`.
fn legend_lines(canvas: &mut Canvas, (right, y): (f64, f64), names: &[(Paint, String)], room: f64) {
    let (ends, mut from) = (legend_breaks(names, room), 0);
    for (k, &end) in ends.iter().enumerate() {
        legend_line(canvas, (right, y - 18.0 * (ends.len() - 1 - k) as f64), &names[from..end], room);
        from = end;
    }
}

/// Draws colours and their names below each other.
fn legend(canvas: &mut Canvas, x: f64, top: f64, names: &[(Paint, String)], room: f64) {
    for (k, (paint, name)) in names.iter().enumerate() {
        let y = top + 8.0 + 18.0 * k as f64;
        canvas.dots(&[(x + 4.0, y, *paint)], 7.0);
        canvas.text((x + DOT, y), name, Anchor::Start, Paint::Muted, room - DOT);
    }
}

/// Half of a 95 % interval of a normal distribution, in standard deviations.
const NORMAL_QUANTILE: f64 = 1.959_963_984_540_054;

/// Maximum number of rows whose dots have intervals.
const MAX_ROWS_WITH_INTERVALS: usize = 200;

/// The standard errors of estimated values, if these have no uncertainty of the model that is shown instead.
pub(crate) fn shown_std_error(e: &Explanation) -> Option<&[f64]> {
    match &e.exactness {
        Exactness::Estimated { std_error, .. } if e.uncertainty.is_none() => Some(std_error),
        _ => None,
    }
}

/// Half of the 95 % interval of a sum of values, or of one estimate; `None` if it is not known.
fn interval_half_width(e: &Explanation, row: usize, output: usize, sets: &[usize]) -> Option<f64> {
    let sd = match (shown_std_error(e), sets) {
        (Some(std_error), [k]) => Some(std_error[(row * e.outputs() + output) * e.sets() + k]),
        (Some(_), _) => None,
        (None, _) => e.sd_of_sum(row, output, sets),
    };
    sd.map(|sd| NORMAL_QUANTILE * sd)
}

/// Whether single values have whiskers.
fn has_intervals(e: &Explanation) -> bool {
    e.uncertainty.is_some() || shown_std_error(e).is_some()
}

/// The label of whiskers; empty if there are none.
fn interval_label(e: &Explanation) -> &'static str {
    match has_intervals(e) {
        true if e.uncertainty.is_none() => ", 95 % intervals of the estimates",
        true => ", 95 % intervals",
        false => "",
    }
}

/// The number of rows whose dots have intervals, and the label of these intervals.
fn dot_intervals(e: &Explanation) -> (usize, &'static str) {
    if e.rows() > MAX_ROWS_WITH_INTERVALS { (0, "") } else { (e.rows(), interval_label(e)) }
}

/// Draws a vertical bar of `steps` colours and their opacities.
fn colour_steps(canvas: &mut Canvas, frame: [f64; 4], steps: usize, colour: impl Fn(f64) -> (Paint, f64)) {
    let [x, top, width, height] = frame;
    for k in 0..steps {
        let (paint, opacity) = colour(k as f64);
        let y = top + height * k as f64 / steps as f64;
        canvas.rect(x, y, width, height / steps as f64 + 0.3, paint, opacity);
    }
}

/// Draws a vertical bar of the colours of values from `largest` down to `-largest`, with labels.
fn signed_bar(canvas: &mut Canvas, (x, top): (f64, f64), height: f64, largest: f64, room: f64) {
    colour_steps(canvas, [x, top, 6.0, height], 21, |k| {
        let v = 1.0 - k / 10.0;
        (Paint::for_sign(v), v.abs())
    });
    for (y, v) in [(top + 5.0, largest), (top + height - 5.0, -largest)] {
        canvas.text((x + 10.0, y), &format::signed(v), Anchor::Start, Paint::Muted, room);
    }
}

/// Draws a vertical bar of colours from low to high values, with its name; `paint` gives the colour of a
/// share of the range.
fn colour_bar(
    canvas: &mut Canvas,
    (x, room): (f64, f64),
    (top, bottom): (f64, f64),
    ([low, high], name): ([&str; 2], &str),
    paint: impl Fn(f64) -> Paint,
) {
    let steps = crate::svg::RAMP_STEPS;
    let step = (bottom - top) / steps as f64;
    for k in 0..steps {
        let t = 1.0 - k as f64 / (steps - 1) as f64;
        canvas.rect(x, top + k as f64 * step, 6.0, step + 0.4, paint(t), 1.0);
    }
    canvas.text((x + 11.0, top + 5.0), high, Anchor::Start, Paint::Muted, room);
    canvas.text((x + 11.0, bottom - 5.0), low, Anchor::Start, Paint::Muted, room);
    canvas.vertical_text((x + 20.0, (top + bottom) / 2.0), name, bottom - top - 50.0);
}

/// The jitter of the `k`-th dot, in −0.5..0.5, the same on every machine.
fn jitter(k: usize) -> f64 {
    // The golden ratio spreads any number of points evenly.
    ((k as f64 + 0.5) * 0.618_033_988_749_895).fract() - 0.5
}

/// The name of row `i` at the start of a title: "Row 3", or the names of the two items.
pub(crate) fn row_title(e: &Explanation, i: usize) -> String {
    if e.duels.is_some() { e.row_name(i) } else { capital(&e.row_name(i)) }
}

/// `text` with a capital first letter, for the beginning of a sentence.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The name and size of the residual `prediction − base value − Σ values` of a row; `None` for efficient
/// indices, whose values add up to the difference.
fn unattributed_residual(explanation: &Explanation, row: usize, output: usize) -> Option<(String, f64)> {
    if explanation.index.is_efficient() {
        return None;
    }
    let game = row * explanation.outputs() + output;
    let sum: f64 = explanation.row_values(row, output).iter().sum();
    let residual = explanation.predictions[game] - explanation.base_values[game] - sum;
    Some(("not shared out".into(), residual))
}

/// "Shapley value", with the output's name if there are several.
fn value_name(explanation: &Explanation, output: usize) -> String {
    match explanation.outputs() {
        1 => explanation.value_name(),
        _ => format!("{} for {}", explanation.value_name(), explanation.output_names[output]),
    }
}
