//! Items ranked by utility, with their ranks and cycles of three items.

use riesz::preference::{CyclicTriad, Rankability};

use super::interaction_strengths::notes;
use super::*;

/// Width of the lane of a circle, and how far its arrows bend.
const LANE: f64 = 34.0;
const BULGE: f64 = 11.0;
/// Most circles drawn.
const CIRCLES: usize = 4;
/// Height of a rung.
const PITCH: f64 = 20.0;

/// Draws items of these names, the best on top, at most [`PlotOptions::max_display`] of them.
pub(super) fn draw(rankability: &Rankability, names: &[String], options: &PlotOptions) -> Svg {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|&i| rankability.rank[i]);
    order.truncate(options.max_display);
    let rung: Vec<Option<usize>> =
        (0..names.len()).map(|i| order.iter().position(|&other| other == i)).collect();
    let is_drawn = |t: &&CyclicTriad| t.items.iter().all(|&i| rung[i].is_some());
    let circles: Vec<&CyclicTriad> = rankability.triangles.iter().filter(is_drawn).collect();
    let missing = rankability.triangles.len() - circles.len();
    let circles = &circles[..circles.len().min(CIRCLES)];

    let width = options.width as f64;
    let shown: Vec<String> = order.iter().map(|&i| names[i].clone()).collect();
    let place = |i: usize| {
        format!(
            "{} ({}–{})",
            rankability.rank[i], rankability.rank_interval[i].0, rankability.rank_interval[i].1
        )
    };
    let columns = [
        ("place", order.iter().map(|&i| place(i)).collect::<Vec<_>>()),
        ("best", order.iter().map(|&i| probability_text(rankability.best[i])).collect()),
    ];
    let widths = columns.iter().map(|(title, cells)| {
        cells
            .iter()
            .map(String::as_str)
            .chain([*title])
            .map(|t| format::text_width(t, FONT))
            .fold(0.0, f64::max)
    });
    let widths: Vec<f64> = widths.collect();
    let columns_width = LANE * circles.len() as f64 + widths.iter().map(|w| w + 14.0).sum::<f64>();
    let room = label_room(&shown, width).min(width * 0.3);
    let (left, right, top) = (room + 22.0, (width - columns_width - 12.0).max(room + 80.0), 30.0);
    let bottom = top + PITCH * order.len() as f64;
    let heights: Vec<f64> = (0..order.len()).map(|k| top + PITCH * (k as f64 + 0.5)).collect();

    let mut canvas = Canvas::new(options.theme);
    let ends =
        order.iter().flat_map(|&i| [rankability.utility_interval[i].0, rankability.utility_interval[i].1]);
    let scale = Scale::covering(ends.chain([0.0]), left, right);
    x_axis(
        &mut canvas,
        scale,
        top,
        bottom,
        &format!("utility, {:.0} % intervals", 100.0 * rankability.level),
    );
    canvas.line((scale.pixel(0.0), top), (scale.pixel(0.0), bottom), Paint::Muted, true);
    let reach = right + LANE * circles.len() as f64;
    for (k, &i) in order.iter().enumerate() {
        let y = heights[k];
        canvas.line((left, y), (reach, y), Paint::Grid, false);
        canvas.text((left - 8.0, y), &names[i], Anchor::End, Paint::Ink, room);
        let (low, high) = rankability.utility_interval[i];
        canvas.whisker(scale.pixel(low), scale.pixel(high), y);
        canvas.disc((scale.pixel(rankability.utility[i]), y), 4.0, Paint::Down);
    }
    for (k, circle) in circles.iter().enumerate() {
        let rungs = circle.items.map(|i| heights[rung[i].unwrap_or(0)]);
        let (x, paint) = (right + LANE * (k as f64 + 0.5), Paint::Level(k % LEVELS.len()));
        arrows(&mut canvas, rungs, x, paint);
        canvas.text((x, top - 14.0), &probability_text(circle.probability), Anchor::Middle, paint, LANE);
    }
    let mut x = reach + 8.0;
    for ((title, cells), wide) in columns.iter().zip(&widths) {
        x += wide;
        canvas.text((x, top - 14.0), title, Anchor::End, Paint::Ink, *wide + 8.0);
        for (text, y) in cells.iter().zip(&heights) {
            canvas.text((x, *y), text, Anchor::End, Paint::Muted, *wide + 8.0);
        }
        x += 14.0;
    }
    let below = names.len() - order.len();
    let remarks = [
        (!circles.is_empty()).then(|| {
            "Arrows: circles of three, each of whom beats the next, and how probable they are.".to_string()
        }),
        (below > 0)
            .then(|| format!("Not drawn: {below} {} below.", if below == 1 { "item" } else { "items" })),
        (missing > 0).then(|| {
            format!(
                "{missing} of the {} most probable circles need one of them.",
                rankability.triangles.len()
            )
        }),
    ];
    let remarks: Vec<String> = remarks.into_iter().flatten().collect();
    let end = notes(&mut canvas, (24.0, bottom + 54.0), &remarks, width - 48.0);
    let first: Vec<String> = order.iter().take(3).map(|&i| names[i].clone()).collect();
    let about = format!(
        "{} items by utility, a rung each, with intervals, places and probabilities of being the best. On \
         top: {}. {} circles of three.",
        order.len(),
        first.join(", "),
        circles.len()
    );
    canvas.finish(width, end.max(bottom + 46.0), "Ladder of items", &about, "")
}

/// Three rungs and the arrows between them, from who wins to who loses.
fn arrows(canvas: &mut Canvas, rungs: [f64; 3], x: f64, paint: Paint) {
    let mut sorted = rungs;
    sorted.sort_by(f64::total_cmp);
    let middle = sorted[1];
    for (k, &from) in rungs.iter().enumerate() {
        let to = rungs[(k + 1) % 3];
        // Steps bend to the left, the way over both to the right.
        let bulge = if from == middle || to == middle { -BULGE } else { BULGE };
        let point = |t: f64| (x + bulge * 4.0 * t * (1.0 - t), from + (to - from) * t);
        let short = 5.0 / (to - from).abs().max(10.0);
        let curve: Vec<(f64, f64)> =
            (0..=12).map(|step| point((1.0 - short) * f64::from(step) / 12.0)).collect();
        canvas.polyline(&curve, paint);
        // The head lies along the end of the curve.
        let ((x0, y0), (x1, y1)) = (point(1.0 - 2.2 * short), point(1.0 - 0.6 * short));
        let size = (x1 - x0).hypot(y1 - y0).max(1e-9);
        let (dx, dy) = ((x1 - x0) / size, (y1 - y0) / size);
        let base = (x1 - 7.0 * dx, y1 - 7.0 * dy);
        canvas.polygon(
            &[(x1, y1), (base.0 - 3.2 * dy, base.1 + 3.2 * dx), (base.0 + 3.2 * dy, base.1 - 3.2 * dx)],
            paint,
        );
    }
    for y in rungs {
        canvas.disc((x, y), 2.6, paint);
    }
}

/// A probability with two digits, never rounded to certainty.
pub(super) fn probability_text(p: f64) -> String {
    match p {
        p if p == 0.0 || p == 1.0 => format!("{p}"),
        p if p < 0.005 => "<.01".into(),
        p if p >= 0.995 => ">.99".into(),
        p => format!("{p:.2}").trim_start_matches('0').into(),
    }
}
