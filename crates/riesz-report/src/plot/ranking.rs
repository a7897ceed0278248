//! Items ranked by utility, with their ranks and cycles of three items.

use riesz::preference::{CyclicTriad, Rankability};

use super::interaction_strengths::notes;
use super::*;

/// Width of the lane of a cycle, in pixels.
const LANE: f64 = 34.0;
/// Horizontal distance by which the arrows of a cycle bulge, in pixels.
const BULGE: f64 = 11.0;
/// Maximum number of drawn cycles.
const CIRCLES: usize = 4;
/// Height of an item's line, in pixels.
const PITCH: f64 = 20.0;

/// A column of texts beside the items.
struct TextColumn {
    title: &'static str,
    cells: Vec<String>,
    width: f64,
}

impl TextColumn {
    fn new(title: &'static str, cells: Vec<String>) -> Self {
        let width = widest(cells.iter().map(String::as_str).chain([title]), 0.0);
        Self { title, cells, width }
    }

    /// Draws the column with its right end at `x`.
    fn draw(&self, canvas: &mut Canvas, x: f64, top: f64, heights: &[f64]) {
        canvas.text((x, top - 14.0), self.title, Anchor::End, Paint::Ink, self.width + 8.0);
        for (text, y) in self.cells.iter().zip(heights) {
            canvas.text((x, *y), text, Anchor::End, Paint::Muted, self.width + 8.0);
        }
    }
}

/// The columns of places, with their intervals, and of probabilities of being the best.
fn columns(rankability: &Rankability, order: &[usize]) -> [TextColumn; 2] {
    let rank_text = |&i: &usize| {
        let (low, high) = rankability.rank_interval[i];
        format!("{} ({low}–{high})", rankability.rank[i])
    };
    [
        TextColumn::new("place", order.iter().map(rank_text).collect()),
        TextColumn::new("best", order.iter().map(|&i| probability_text(rankability.best[i])).collect()),
    ]
}

/// Draws at most [`PlotOptions::max_display`] items with their names, the best on top.
pub(super) fn draw(rankability: &Rankability, names: &[String], options: &PlotOptions) -> Svg {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|&i| rankability.rank[i]);
    order.truncate(options.max_display);
    let line_of_item: Vec<Option<usize>> =
        (0..names.len()).map(|i| order.iter().position(|&other| other == i)).collect();
    let is_drawn = |t: &&CyclicTriad| t.items.iter().all(|&i| line_of_item[i].is_some());
    let circles: Vec<&CyclicTriad> = rankability.triangles.iter().filter(is_drawn).collect();
    let missing = rankability.triangles.len() - circles.len();
    let circles = &circles[..circles.len().min(CIRCLES)];

    let width = options.width as f64;
    let columns = columns(rankability, &order);
    let lanes = LANE * circles.len() as f64;
    let columns_width = lanes + columns.iter().map(|column| column.width + 14.0).sum::<f64>();
    let room = label_room(order.iter().map(|&i| &names[i]), width).min(width * 0.3);
    let (left, right, top) = (room + 22.0, (width - columns_width - 12.0).max(room + 80.0), 30.0);
    let bottom = top + PITCH * order.len() as f64;
    let heights: Vec<f64> = (0..order.len()).map(|k| top + PITCH * (k as f64 + 0.5)).collect();

    let mut canvas = Canvas::new(options.theme);
    let ends =
        order.iter().flat_map(|&i| [rankability.utility_interval[i].0, rankability.utility_interval[i].1]);
    let scale = Scale::covering(ends.chain([0.0]), left, right);
    let axis = format!("utility, {:.0} % intervals", 100.0 * rankability.level);
    x_axis(&mut canvas, scale, top, bottom, &axis);
    canvas.line((scale.pixel(0.0), top), (scale.pixel(0.0), bottom), Paint::Muted, true);
    for (&i, &y) in order.iter().zip(&heights) {
        canvas.line((left, y), (right + lanes, y), Paint::Grid, false);
        canvas.text((left - 8.0, y), &names[i], Anchor::End, Paint::Ink, room);
        let (low, high) = rankability.utility_interval[i];
        canvas.whisker(scale.pixel(low), scale.pixel(high), y);
        canvas.disc((scale.pixel(rankability.utility[i]), y), 4.0, Paint::Down);
    }
    for (k, circle) in circles.iter().enumerate() {
        let rungs = circle.items.map(|i| heights[line_of_item[i].unwrap_or(0)]);
        let (x, paint) = (right + LANE * (k as f64 + 0.5), Paint::Level(k % LEVELS.len()));
        arrows(&mut canvas, rungs, x, paint);
        canvas.text((x, top - 14.0), &probability_text(circle.probability), Anchor::Middle, paint, LANE);
    }
    let mut x = right + lanes + 8.0;
    for column in &columns {
        x += column.width;
        column.draw(&mut canvas, x, top, &heights);
        x += 14.0;
    }
    let remarks = remarks(circles.len(), names.len() - order.len(), (missing, rankability.triangles.len()));
    let end = notes(&mut canvas, (24.0, bottom + 54.0), &remarks, width - 48.0);
    let first: Vec<&str> = order.iter().take(3).map(|&i| &names[i][..]).collect();
    let about = format!(
        "{} items by utility, with intervals, places and probabilities of being the best. On top: {}. {} \
         cycles of three.",
        order.len(),
        first.join(", "),
        circles.len()
    );
    canvas.finish(width, end.max(bottom + 46.0), "Ladder of items", &about, "")
}

/// Sentences about the drawn cycles, the items below the drawn ones, and the cycles with such items.
fn remarks(drawn_cycles: usize, omitted_items: usize, (missing, cycles): (usize, usize)) -> Vec<String> {
    let arrows = "Arrows: cycles of three items, each of which beats the next, with their probabilities.";
    let items = if omitted_items == 1 { "item" } else { "items" };
    let omitted_cycles =
        format!("{missing} of the {cycles} most probable cycles contain an item that is not drawn.");
    let remarks = [
        (drawn_cycles > 0).then(|| arrows.to_string()),
        (omitted_items > 0).then(|| format!("Not drawn: {omitted_items} {items} below.")),
        (missing > 0).then_some(omitted_cycles),
    ];
    remarks.into_iter().flatten().collect()
}

/// Draws the three arrows of a cycle between the lines of its items, from winner to loser.
fn arrows(canvas: &mut Canvas, rungs: [f64; 3], x: f64, paint: Paint) {
    let mut sorted = rungs;
    sorted.sort_by(f64::total_cmp);
    let middle = sorted[1];
    for (k, &from) in rungs.iter().enumerate() {
        let to = rungs[(k + 1) % 3];
        // Arrows between neighbouring lines bend to the left, the long arrow to the right.
        let curvature = if from == middle || to == middle { -BULGE } else { BULGE };
        let point = |t: f64| (x + curvature * 4.0 * t * (1.0 - t), from + (to - from) * t);
        let head_share = 5.0 / (to - from).abs().max(10.0);
        let curve: Vec<(f64, f64)> =
            (0..=12).map(|step| point((1.0 - head_share) * f64::from(step) / 12.0)).collect();
        canvas.polyline(&curve, paint);
        // The head has the direction of the end of the curve.
        arrow_head(canvas, [2.2, 0.6].map(|t| point(1.0 - t * head_share)), [7.0, 3.2], paint);
    }
    for y in rungs {
        canvas.disc((x, y), 2.6, paint);
    }
}

/// Writes a probability with two digits; it is never rounded to 0 or 1.
pub(super) fn probability_text(p: f64) -> String {
    match p {
        p if p == 0.0 || p == 1.0 => format!("{p}"),
        p if p < 0.005 => "<.01".into(),
        p if p >= 0.995 => ">.99".into(),
        p => format!("{p:.2}").trim_start_matches('0').into(),
    }
}
