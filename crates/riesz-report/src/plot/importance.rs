//! Global importance of features: shares of the variance of an output, or reductions of a loss.

use riesz::global::{SageValues, SampledIndices, SobolIndices};

use super::*;

/// The global importance of features, by variance or by loss.
#[derive(Debug, Clone, Copy)]
pub enum Overall<'a> {
    /// Parts of the variance of the model's outputs.
    Variance(&'a SobolIndices),
    /// Estimated parts of the variance of a function's outputs.
    Estimated(&'a SampledIndices),
    /// Parts of the reduction of the loss by the model.
    Loss {
        /// The SAGE values.
        values: &'a SageValues,
        /// [The same values](SageValues::explanation), with standard errors over rows and orders together.
        explanation: &'a Explanation,
    },
}

/// A bar of the plot.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// The ends of the whisker across the bar: an interval, or the first-order and the total index.
    pub(crate) range: Option<[f64; 2]>,
}

impl Overall<'_> {
    /// The explanation with one row of values.
    pub(crate) fn explanation(&self) -> &Explanation {
        match self {
            Self::Variance(indices) => &indices.explanation,
            Self::Estimated(indices) => &indices.explanation,
            Self::Loss { explanation, .. } => explanation,
        }
    }

    /// Whether values are shares of a variance, rather than parts of a variance or loss.
    pub(crate) fn is_share(&self, output: usize) -> bool {
        match self {
            Self::Variance(indices) => indices.scale(output).is_some(),
            Self::Estimated(indices) => indices.variance[output] > 0.0,
            Self::Loss { .. } => false,
        }
    }

    /// The quantity of the bars.
    pub(crate) fn quantity(&self, output: usize) -> String {
        let e = self.explanation();
        match self {
            Self::Variance(_) | Self::Estimated(_) => {
                let part = if self.is_share(output) { "share" } else { "part" };
                let name =
                    if e.index == riesz::ValueIndex::Shapley { e.value_name() } else { e.index.name() };
                format!("{part} of the variance of {}: {name}", e.output_names[output])
            }
            Self::Loss { values: found, .. } => format!("reduction of mean {}: SAGE value", found.measure),
        }
    }

    /// The meaning of the [ranges](Line::range); `None` if the bars have none.
    pub(crate) fn range(&self) -> Option<&'static str> {
        match self {
            Self::Variance(indices) => (indices.explanation.index == riesz::ValueIndex::Shapley)
                .then_some("first-order to total index"),
            Self::Estimated(_) => Some("95 % interval"),
            Self::Loss { values: found, .. } => found.std_error.is_some().then_some("95 % interval"),
        }
    }

    /// One bar for each set of features, the largest value first.
    pub(crate) fn lines(&self, output: usize) -> Vec<Line> {
        let e = self.explanation();
        let scale = match self {
            Self::Variance(indices) => indices.scale(output).unwrap_or(1.0),
            Self::Estimated(indices) if self.is_share(output) => 1.0 / indices.variance[output],
            Self::Estimated(_) | Self::Loss { .. } => 1.0,
        };
        let values = e.row_values(0, output);
        let range = |k: usize| match (self, &e.exactness) {
            (Self::Variance(indices), _) if self.range().is_some() => {
                Some([scale * indices.first_order(output)[k], scale * indices.total_order(output)[k]])
            }
            (Self::Estimated(indices), _) if self.is_share(output) => {
                let error = indices.effects.std_error[output * e.sets() + k];
                Some([-1.0, 1.0].map(|side| scale * values[k] + side * NORMAL_QUANTILE * error))
            }
            (Self::Loss { .. }, riesz::Exactness::Estimated { std_error, .. }) => {
                Some([-1.0, 1.0].map(|side| values[k] + side * NORMAL_QUANTILE * std_error[k]))
            }
            _ => None,
        };
        let line = |k: usize| Line { name: e.set_name(k), value: scale * values[k], range: range(k) };
        let mut lines: Vec<Line> = (0..e.sets()).map(line).collect();
        lines.sort_by(|a, b| b.value.total_cmp(&a.value));
        lines
    }
}

pub(super) fn draw(ranking: &Overall<'_>, options: &PlotOptions) -> Svg {
    let (e, width) = (ranking.explanation(), options.width as f64);
    let mut lines = ranking.lines(options.output);
    // Omitted values are the smallest in magnitude.
    let order = format::order_by_magnitude(&lines.iter().map(|l| l.value).collect::<Vec<_>>());
    let (mut named, omitted) = split_at_max_display(order, options.max_display);
    named.sort_unstable();
    let sum_of_omitted = Line {
        name: rest_label(e, omitted.len()),
        value: omitted.iter().map(|&k| lines[k].value).sum(),
        range: None,
    };
    let mut k = 0;
    lines.retain(|_| {
        k += 1;
        named.contains(&(k - 1))
    });
    let players = lines.len();
    if !omitted.is_empty() {
        lines.push(sum_of_omitted);
    }
    let largest = lines.iter().fold(0.0, |m: f64, l| m.max(l.value.abs()));
    let digits = (3.0 - largest.log10().floor()).clamp(0.0, 4.0) as usize;
    let write =
        |x: f64| if (1e-2..1e6).contains(&largest) { format::fixed(x, digits) } else { format::number(x) };
    let room = label_room(lines.iter().map(|l| &l.name), width);
    let numbers = widest(lines.iter().map(|l| write(l.value)), 0.0);
    let (pitch, top) = (26.0, if ranking.range().is_some() { 30.0 } else { 10.0 });
    let bottom = top + pitch * lines.len() as f64;
    let ends = lines.iter().flat_map(|l| [0.0, l.value].into_iter().chain(l.range.into_iter().flatten()));
    let mut scale = Scale::covering(ends, room + 22.0, width - numbers - 26.0);
    if lines.iter().all(|l| l.value >= 0.0 && l.range.is_none_or(|[low, _]| low >= 0.0)) {
        scale.lo = 0.0;
    }
    let mut canvas = Canvas::new(options.theme);
    // A narrow picture has no room for a longer name.
    let axis = if width < 480.0 { e.value_name() } else { ranking.quantity(options.output) };
    x_axis(&mut canvas, scale, top, bottom, &axis);
    if let Some(range) = ranking.range() {
        let (y, x) = (12.0, room + 22.0);
        canvas.whisker(x, x + 22.0, y);
        canvas.text((x + 30.0, y), range, Anchor::Start, Paint::Muted, width - x - 40.0);
    }
    for (k, line) in lines.iter().enumerate() {
        let y = top + pitch * (k as f64 + 0.5);
        canvas.text((room + 14.0, y), &line.name, Anchor::End, Paint::Ink, room);
        let (zero, end) = (scale.pixel(0.0), scale.pixel(line.value));
        let paint = match line.value {
            _ if k >= players => Paint::Neutral,
            v if v < 0.0 => Paint::Up,
            _ => Paint::Down,
        };
        canvas.rect(zero.min(end), y - 8.0, (end - zero).abs(), 16.0, paint, 1.0);
        if let Some([low, high]) = line.range {
            canvas.whisker(scale.pixel(low), scale.pixel(high), y);
        }
        canvas.text((width - 8.0, y), &write(line.value), Anchor::End, Paint::Ink, numbers + 20.0);
    }
    canvas.line((scale.pixel(0.0), top), (scale.pixel(0.0), bottom), Paint::Muted, false);
    let about = format!(
        "Bars of the {}{}. Largest: {}.",
        ranking.quantity(options.output),
        ranking.range().map_or_else(String::new, |range| format!(", with the {range} across")),
        lines.iter().take(3).map(|l| format!("{} {}", l.name, write(l.value))).collect::<Vec<_>>().join(", ")
    );
    canvas.finish(width, bottom + 42.0, "Importance of features", &about, "")
}
