//! All rows side by side: the values as colours, and the predictions above them.

use super::*;

/// All rows side by side, values as colours, predictions above.
pub(super) static PLOT: Plot = Plot {
    name: "heatmap",
    help: "All rows side by side, values as colours, predictions above",
    shows: Shows::Everything,
    draw,
};

/// Height of a line of cells, in pixels.
const PITCH: f64 = 24.0;

fn draw(e: &Explanation, options: &PlotOptions) -> Svg {
    let (width, n, o) = (options.width as f64, e.rows(), options.output);
    let lines = PlayerLine::list(e, e.ranking(o), options.max_display);
    let room = label_room(lines.iter().map(|line| &line.name), width);
    let (left, right, top) = (room + 22.0, width - 62.0, 74.0);
    // A stripe is at least two pixels wide.
    let stripes = Stripes::new(e, o, ((right - left) / 2.0) as usize);
    let cells_of = |line: &PlayerLine| stripes.means(|i| line.sum(e.row_values(i, o)));
    let cells: Vec<Vec<f64>> = lines.iter().map(cells_of).collect();
    let largest = strongest(&cells);
    let bottom = top + PITCH * lines.len() as f64;
    let mut canvas = Canvas::new(options.theme);
    let predictions = stripes.means(|i| e.predictions[i * e.outputs() + o]);
    draw_predictions(&mut canvas, &predictions, (left, right), top, room);
    for (k, line) in lines.iter().enumerate() {
        let y = top + PITCH * k as f64;
        canvas.text((left - 8.0, y + PITCH / 2.0), &line.name, Anchor::End, Paint::Ink, room);
        draw_cells(&mut canvas, &cells[k], largest, (left, right), y);
    }
    let [_, plural] = e.row_words();
    let means = if stripes.count < n { " (means of neighbours)" } else { "" };
    let order_name = format!("{plural} by prediction{means}");
    let middle = ((left + right) / 2.0, bottom + 14.0);
    canvas.text(middle, &order_name, Anchor::Middle, Paint::Muted, right - left);
    signed_bar(&mut canvas, (right + 8.0, top), (bottom - top).min(160.0), largest, 52.0);
    let target = if e.index.is_efficient() { "the prediction" } else { "the model’s output" };
    let about = format!(
        "{} of {n} {plural} in colour: orange raises {target}, blue lowers it; predictions above.",
        capital(&e.index.names())
    );
    canvas.finish(width, bottom + 28.0, &format!("Heat map of {}", e.index.names()), &about, "")
}

/// The stripes of the picture, each with one row or with neighbouring rows.
struct Stripes {
    /// The rows from the highest to the lowest sum of values; ties keep their order.
    order: Vec<usize>,
    count: usize,
}

impl Stripes {
    fn new(e: &Explanation, o: usize, max_count: usize) -> Self {
        let total: Vec<f64> = (0..e.rows()).map(|i| e.row_values(i, o).iter().sum()).collect();
        let mut order: Vec<usize> = (0..e.rows()).collect();
        order.sort_by(|&a, &b| total[b].total_cmp(&total[a]));
        Self { order, count: e.rows().min(max_count).max(1) }
    }

    /// The mean of `f` over the rows of each stripe.
    fn means(&self, f: impl Fn(usize) -> f64) -> Vec<f64> {
        let start = |s: usize| s * self.order.len() / self.count;
        let mean = |s: usize| {
            let rows = &self.order[start(s)..start(s + 1).max(start(s) + 1)];
            rows.iter().map(|&i| f(i) / rows.len() as f64).sum::<f64>()
        };
        (0..self.count).map(mean).collect()
    }
}

/// The value with the strongest colour: the 99 % quantile of magnitudes, so that one outlier does not make
/// all others pale.
fn strongest(cells: &[Vec<f64>]) -> f64 {
    let mut sizes: Vec<f64> = cells.iter().flatten().map(|v| v.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let quantile = sizes[((sizes.len() - 1) as f64 * 0.99) as usize];
    if quantile > 0.0 { quantile } else { sizes[sizes.len() - 1] }
}

/// Draws the mean prediction of each stripe as a line above `bottom`.
fn draw_predictions(
    canvas: &mut Canvas,
    predictions: &[f64],
    (left, right): (f64, f64),
    bottom: f64,
    room: f64,
) {
    let scale = Scale::covering(predictions.iter().copied(), bottom - 10.0, 12.0);
    for (value, label) in scale.ticks(28.0) {
        let y = scale.pixel(value);
        canvas.line((left, y), (right, y), Paint::Grid, false);
        canvas.text((right + 6.0, y), &label, Anchor::Start, Paint::Muted, 54.0);
    }
    canvas.text((left - 8.0, (bottom + 2.0) / 2.0), "f(x)", Anchor::End, Paint::Ink, room);
    let step = (right - left) / predictions.len() as f64;
    let point = |(s, &f): (usize, &f64)| (left + (s as f64 + 0.5) * step, scale.pixel(f));
    canvas.polyline(&predictions.iter().enumerate().map(point).collect::<Vec<_>>(), Paint::Ink);
}

/// Draws a line of cells; neighbours of the same colour are one rectangle.
fn draw_cells(canvas: &mut Canvas, values: &[f64], largest: f64, (left, right): (f64, f64), y: f64) {
    let level = |v: f64| if largest > 0.0 { (v / largest * 20.0).clamp(-20.0, 20.0).round() } else { 0.0 };
    let step = (right - left) / values.len() as f64;
    let mut start = 0;
    for s in 1..=values.len() {
        let v = level(values[start]);
        if s == values.len() || level(values[s]) != v {
            let (x, width) = (left + start as f64 * step, (s - start) as f64 * step);
            canvas.rect(x, y, width, PITCH - 1.0, Paint::for_sign(v), v.abs() / 20.0);
            start = s;
        }
    }
}
