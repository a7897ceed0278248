//! The values of one row as arrows that raise or lower the prediction.

use super::waterfall::arrow;
use super::*;

/// One row's values as arrows up and down that meet at the prediction.
pub(super) static PLOT: Plot = Plot {
    name: "force",
    help: "One row's values as arrows up and down that meet at the prediction",
    shows: Shows::OneRow,
    draw,
};

/// Width in pixels of the thinnest arrow that is drawn on its own.
const THIN: f64 = 6.0;

/// The y of the axis.
const AXIS: f64 = 56.0;

/// The y of the middle of the arrows.
const MIDDLE: f64 = 82.0;

/// The y of the first line of labels.
const LABELS: f64 = 113.0;

/// Half of the height of an arrow.
const HALF_HEIGHT: f64 = 13.0;

fn draw(e: &Explanation, options: &PlotOptions) -> Svg {
    let (width, row, o) = (options.width as f64, options.row, options.output);
    let residual = unattributed_residual(e, row, o);
    let values: Vec<f64> =
        e.row_values(row, o).iter().copied().chain(residual.as_ref().map(|l| l.1)).collect();
    let (base, prediction) = (e.base_values[row * e.outputs() + o], e.predictions[row * e.outputs() + o]);
    let order = format::order_by_magnitude(&values).into_iter().filter(|&j| values[j] != 0.0);
    let (up, down): (Vec<usize>, Vec<usize>) = order.partition(|&j| values[j] > 0.0);
    let sum = |list: &[usize]| list.iter().map(|&j| values[j]).sum::<f64>();
    // The largest arrows of both sides touch at the base value plus all values, which is the prediction.
    let prediction_point = base + sum(&up) + sum(&down);
    let ends = [prediction_point - sum(&up), prediction_point - sum(&down), base, prediction_point];
    let scale = Scale::covering(ends.into_iter(), 20.0, width - 20.0);
    let mut canvas = Canvas::new(options.theme);
    draw_axis(&mut canvas, scale);
    let forces = Forces { e, options, values: &values, residual: residual.map(|l| l.0), scale };
    let (mut lowest_label, mut sums) = (LABELS, Vec::new());
    for (list, side) in [(&up, -1.0), (&down, 1.0)] {
        let (lowest, shared) = forces.draw_side(&mut canvas, list, prediction_point, side);
        lowest_label = lowest.max(lowest_label);
        sums.extend(shared.map(|(end, text)| (end, side, text)));
    }
    let x = scale.pixel(prediction_point);
    canvas.line((x, AXIS), (x, lowest_label + 8.0), Paint::Ink, false);
    // The label of a shared arrow is below its end, which is the end of all arrows of its side.
    lowest_label += if sums.is_empty() { 0.0 } else { 18.0 };
    for (end, side, text) in sums {
        let anchor = if side < 0.0 { Anchor::Start } else { Anchor::End };
        canvas.text((end, lowest_label), &text, anchor, Paint::Muted, width / 2.0 - 30.0);
    }
    let base_x = scale.pixel(base);
    canvas.line((base_x, AXIS - 2.0), (base_x, MIDDLE + HALF_HEIGHT), Paint::Muted, true);
    let [prediction, base] = [prediction, base].map(format::number);
    inner_text(&mut canvas, (x, 12.0), &format!("f(x) = {prediction}"), Paint::Ink, width);
    inner_text(&mut canvas, (base_x, 30.0), &format!("base value = {base}"), Paint::Muted, width);
    let note = " Numbers after ± are half the lengths of 95 % intervals.";
    let about = format!(
        "{}: features that raise the prediction push from the left, features that lower it from the right; \
         they meet at {prediction}.{}",
        row_title(e, row),
        if has_intervals(e) { note } else { "" }
    );
    let title = format!("Forces on {}", e.row_name(row));
    canvas.finish(width, lowest_label + 18.0, &title, &about, "")
}

fn draw_axis(canvas: &mut Canvas, scale: Scale) {
    for (value, label) in scale.ticks(80.0) {
        let x = scale.pixel(value);
        canvas.line((x, AXIS), (x, AXIS + 5.0), Paint::Muted, false);
        canvas.text((x, AXIS - 8.0), &label, Anchor::Middle, Paint::Muted, 80.0);
    }
    canvas.line((scale.from, AXIS), (scale.to, AXIS), Paint::Grid, false);
}

/// The values of one row.
struct Forces<'e> {
    e: &'e Explanation,
    options: &'e PlotOptions,
    /// The values of the sets, and the residual if there is one.
    values: &'e [f64],
    /// The name of the residual.
    residual: Option<String>,
    scale: Scale,
}

impl Forces<'_> {
    /// Draws the arrows of one side from `prediction_point` outwards, with their labels. Returns the y of the
    /// lowest label, and the end and label of an arrow that values share.
    fn draw_side(
        &self,
        canvas: &mut Canvas,
        list: &[usize],
        prediction_point: f64,
        side: f64,
    ) -> (f64, Option<(f64, String)>) {
        let (scale, paint) = (self.scale, if side < 0.0 { Paint::Up } else { Paint::Down });
        let width_of_arrow = |j: usize| (scale.pixel(self.values[j]) - scale.pixel(0.0)).abs();
        let (named, omitted) = split_arrows(list, self.options.max_display, width_of_arrow);
        let inner = scale.pixel(prediction_point) + side * 6.0;
        let width = self.options.width as f64;
        let mut labels = Labels { inner, side, width, free: inner, line: 0, lowest: LABELS };
        let (mut tip, mut shared) = (prediction_point, None);
        for sets in named.chunks(1).chain((omitted.len() > 1).then_some(omitted)) {
            let value = sets.iter().map(|&j| self.values[j]).sum::<f64>();
            let next = tip - value;
            let (from, to) = (scale.pixel(next), scale.pixel(tip));
            if (from - to).abs() >= 0.3 {
                arrow(canvas, from, to + side, MIDDLE, HALF_HEIGHT, paint);
            }
            tip = next;
            let text = self.label(sets, value);
            if sets.len() > 1 {
                shared = Some((from, text));
            } else {
                labels.draw(canvas, &text);
            }
        }
        (labels.lowest, shared)
    }

    /// The name of a set, or of several, with its value and half of the interval.
    fn label(&self, sets: &[usize], value: f64) -> String {
        let (e, row) = (self.e, self.options.row);
        let name = match (sets, &self.residual) {
            ([j], Some(name)) if *j == e.sets() => name.clone(),
            ([j], _) => format::label(e, row, *j),
            _ => rest_label(e, sets.len()),
        };
        let are_sets = sets.iter().all(|&j| j < e.sets());
        let reach = if are_sets { interval_half_width(e, row, self.options.output, sets) } else { None };
        let name = format::shorten(&name, FONT, (self.options.width as f64 / 2.0 - 90.0).min(190.0));
        format!("{name} ({})", format::signed_within(value, reach))
    }
}

/// The labels of one side. They run outwards from `inner` on two lines; labels that do not fit are omitted.
struct Labels {
    inner: f64,
    side: f64,
    width: f64,
    /// Start of the next label.
    free: f64,
    line: u8,
    /// The y of the lowest label.
    lowest: f64,
}

impl Labels {
    fn draw(&mut self, canvas: &mut Canvas, text: &str) {
        let (text_width, width, is_right_side) =
            (format::text_width(text, FONT), self.width, self.side >= 0.0);
        let available_width = |free: f64| if is_right_side { width - 4.0 - free } else { free - 4.0 };
        while self.line < 2 && available_width(self.free) < text_width {
            (self.free, self.line) = (self.inner, self.line + 1);
        }
        if self.line < 2 {
            let y = LABELS + 16.0 * f64::from(self.line);
            let anchor = if is_right_side { Anchor::Start } else { Anchor::End };
            canvas.text((self.free, y), text, anchor, Paint::Ink, available_width(self.free));
            self.lowest = self.lowest.max(y);
            self.free += self.side * (text_width + 14.0);
        }
    }
}

/// Splits the values of one side into the first ones, each of which has its own arrow, and the rest, which
/// share one. Values share an arrow beyond `max_display`, or if theirs would be too thin. A single value
/// keeps its own.
fn split_arrows(
    list: &[usize],
    max_display: usize,
    arrow_width: impl Fn(usize) -> f64,
) -> (&[usize], &[usize]) {
    let shown_count = list.iter().take(max_display).take_while(|&&j| arrow_width(j) >= THIN).count();
    list.split_at(if list.len() <= shown_count + 1 { list.len() } else { shown_count })
}
