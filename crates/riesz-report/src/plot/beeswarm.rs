//! A plot with one dot for each row and player: the value on the horizontal axis, the feature value as
//! colour.

use super::*;
use crate::svg::coordinate;

/// One dot for each row and player: value on the axis, feature value as colour.
pub(super) static PLOT: Plot = Plot {
    name: "beeswarm",
    help: "One dot for each row and feature: value on the axis, feature value as colour",
    shows: Shows::Everything,
    draw,
};

/// Height of a line in pixels.
const PITCH: f64 = 34.0;

/// The dots of a line.
struct Dots<'e> {
    line: PlayerLine,
    values: Vec<f64>,
    colours: Option<Colours<'e>>,
    /// Half of the interval of each dot, if there are few rows.
    half_widths: Vec<Option<f64>>,
}

impl<'e> Dots<'e> {
    fn new(e: &'e Explanation, o: usize, line: PlayerLine) -> Self {
        Self {
            values: (0..e.rows()).map(|i| line.sum(e.row_values(i, o))).collect(),
            colours: line.player.and_then(|j| Colours::for_player(e, j)),
            half_widths: (0..dot_intervals(e).0).map(|i| interval_half_width(e, i, o, &line.sets)).collect(),
            line,
        }
    }

    /// The names of the colours of levels.
    fn levels(&self) -> &[(Paint, String)] {
        self.colours.as_ref().map_or(&[][..], Colours::names)
    }

    /// The ends of the whiskers.
    fn whiskers(&self) -> impl Iterator<Item = f64> {
        let dots = self.values.iter().zip(&self.half_widths);
        dots.filter_map(|(v, half_width)| Some([v - (*half_width)?, v + (*half_width)?])).flatten()
    }

    /// Draws the line with its middle at `y`.
    fn draw(&self, canvas: &mut Canvas, y: f64, room: f64, scale: Scale) {
        if let Some(j) = self.line.player {
            canvas.open_player(j);
        }
        canvas.rect(0.0, y - PITCH / 2.0, room + 18.0, PITCH, Paint::Paper, 1.0);
        if self.levels().is_empty() {
            canvas.text((room + 14.0, y), &self.line.name, Anchor::End, Paint::Ink, room);
        } else {
            canvas.text((room + 14.0, y - 7.0), &self.line.name, Anchor::End, Paint::Ink, room);
            legend_line(canvas, (room + 14.0, y + 8.0), self.levels(), room);
        }
        let diameter = if self.values.len() > 1000 { 3.4 } else { 4.6 };
        let offsets = swarm(&self.values, scale, diameter, PITCH * 0.84);
        let dots: Vec<(f64, f64, Paint)> = (0..self.values.len())
            .map(|i| {
                let paint = self.colours.as_ref().map_or(Paint::Neutral, |c| c.paint(i));
                (scale.pixel(self.values[i]), y + offsets[i], paint)
            })
            .collect();
        let rules =
            dots.iter().zip(&self.values).zip(&self.half_widths).filter_map(|((dot, v), half_width)| {
                let half_width = (*half_width)?;
                Some([(scale.pixel(v - half_width), dot.1), (scale.pixel(v + half_width), dot.1)])
            });
        canvas.rules(&rules.collect::<Vec<_>>(), Paint::Neutral, 0.4);
        canvas.dots(&dots, diameter);
        if self.line.player.is_some() {
            canvas.close();
        }
    }
}

fn draw(e: &Explanation, options: &PlotOptions) -> Svg {
    let (width, n, o) = (options.width as f64, e.rows(), options.output);
    let lines = PlayerLine::list(e, e.ranking(o), options.max_display).into_iter();
    let lines: Vec<Dots<'_>> = lines.map(|line| Dots::new(e, o, line)).collect();
    // Each level in the line of levels needs room for its dot and spaces too.
    let levels = |line: &Dots<'_>| line.levels().iter().map(|(_, name)| format!("{name}oooo")).collect();
    let room = label_room(lines.iter().flat_map(|line| [line.line.name.clone(), levels(line)]), width);
    let top = 10.0;
    let bottom = top + PITCH * lines.len() as f64;
    let values = lines.iter().flat_map(|line| line.values.iter().copied());
    let extent = values.chain([0.0]).chain(lines.iter().flat_map(Dots::whiskers));
    let scale = Scale::covering(extent, room + 22.0, width - 64.0);
    let mut canvas = Canvas::new(options.theme);
    x_axis(&mut canvas, scale, top, bottom, &(value_name(e, o) + dot_intervals(e).1));
    let zero = scale.pixel(0.0);
    canvas.line((zero, top), (zero, bottom), Paint::Muted, false);
    for (k, line) in lines.iter().enumerate() {
        line.draw(&mut canvas, top + PITCH * (k as f64 + 0.5), room, scale);
    }
    if lines.iter().filter_map(|line| line.colours.as_ref()).any(|c| c.names().is_empty()) {
        let high = (top + 200.0).min(bottom).max(top + 30.0);
        // The feature values of duels are differences.
        let name = if e.duels.is_some() { "left − right" } else { "Feature value" };
        colour_bar(&mut canvas, (width - 50.0, 44.0), (top, high), (["Low", "High"], name), Paint::Ramp);
    }
    let names = lines.iter().filter(|line| line.line.player.is_some()).map(|line| &line.line.name[..]);
    let names: Vec<&str> = names.take(3).collect();
    let [_, plural] = e.row_words();
    let about = format!(
        "One dot for each of {n} {plural} and each feature: dots to the right raise the model’s output, dots \
         to the left lower it. Orange dots are high feature values, blue dots low ones, and each category \
         has its own colour. Most important: {}.",
        names.join(", ")
    );
    // The position of the axis, for pages that show the row under the pointer.
    let axis = format!(
        " data-lo=\"{:e}\" data-hi=\"{:e}\" data-from=\"{}\" data-to=\"{}\"",
        scale.lo,
        scale.hi,
        coordinate(scale.from),
        coordinate(scale.to)
    );
    let title = format!("{} of all {plural}", capital(&e.index.names()));
    canvas.finish(width, bottom + 42.0, &title, &about, &axis)
}

/// Vertical offsets of the dots from the middle line. Dots in the same narrow bin are stacked alternately
/// above and below the line, and squeezed to `height` if a stack is taller.
fn swarm(values: &[f64], scale: Scale, diameter: f64, height: f64) -> Vec<f64> {
    let bin_of = |v: f64| ((scale.pixel(v) - scale.from) / (diameter * 0.6)).floor() as i64;
    let mut stacks = std::collections::BTreeMap::<i64, Vec<usize>>::new();
    for (i, &v) in values.iter().enumerate() {
        stacks.entry(bin_of(v)).or_default().push(i);
    }
    let max_height = stacks.values().map(Vec::len).max().unwrap_or(1).max(2);
    let step = (diameter * 0.55).min(height / (max_height - 1) as f64);
    let mut offsets = vec![0.0; values.len()];
    for stack in stacks.values() {
        for (k, &i) in stack.iter().enumerate() {
            let rank = k.div_ceil(2) as f64;
            offsets[i] = if k % 2 == 0 { -rank * step } else { rank * step };
        }
    }
    offsets
}
