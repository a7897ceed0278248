//! The probability that the row's item beats the column's, in colours; clusters are drawn together.

use riesz::Matrix;

use super::interaction_strengths::notes;
use super::ranking::probability_text;
use super::*;

/// Up to so many items have numbers in their cells.
const NUMBERS: usize = 12;
/// Names smaller than this cannot be read: rows closer to each other have none.
const SMALLEST: f64 = 9.0;

/// Draws items in their clusters' order, within a cluster by mean log odds against its own.
pub(super) fn draw(
    probabilities: &Matrix,
    names: &[String],
    clusters: Option<&[usize]>,
    options: &PlotOptions,
) -> Svg {
    let n = names.len();
    let groups = groups(probabilities, clusters);
    let order: Vec<usize> = groups.concat();
    let width = options.width as f64;
    let shown: Vec<String> = order.iter().map(|&i| names[i].clone()).collect();
    let kinds: Vec<String> = match clusters {
        Some(_) => (1..=groups.len()).map(|k| format!("cluster {k}")).collect(),
        None => Vec::new(),
    };
    let room = label_room(&shown, width).min(width * 0.22);
    let legend_width = kinds.iter().map(|k| format::text_width(k, FONT) + 10.0).fold(0.0, f64::max) + 66.0;
    let side = (width - room - 30.0 - legend_width).max(120.0);
    let cell = (side / n as f64).min(56.0);
    let named = cell >= SMALLEST;
    // Names of columns read upwards where they are too long to stand beside each other.
    let longest = shown.iter().map(|name| format::text_width(name, FONT)).fold(0.0, f64::max);
    let upright = longest > cell - 4.0;
    let below = if !named {
        10.0
    } else if upright {
        longest.min(room) + 14.0
    } else {
        22.0
    };
    let (left, top) = (room + 22.0, 12.0);
    let (right, bottom) = (left + cell * n as f64, top + cell * n as f64);
    let mut canvas = Canvas::new(options.theme);
    for (r, &i) in order.iter().enumerate() {
        for (c, &j) in order.iter().enumerate().filter(|(c, _)| *c != r) {
            let (x, y, p) = (left + cell * c as f64, top + cell * r as f64, probabilities[(i, j)]);
            let lead = 2.0 * p - 1.0;
            canvas.rect(x, y, cell + 0.3, cell + 0.3, Paint::of_sign(lead), lead.abs().clamp(0.0, 1.0));
            if n <= NUMBERS && cell > 26.0 {
                canvas.text_on((x + cell / 2.0, y + cell / 2.0), &probability_text(p));
            }
        }
        if named {
            let offset = cell * (r as f64 + 0.5);
            canvas.text((left - 8.0, top + offset), &shown[r], Anchor::End, Paint::Ink, room);
            if upright {
                let length = format::text_width(&shown[r], FONT).min(room);
                canvas.text_up((left + offset + FONT * 0.36, bottom + 6.0 + length / 2.0), &shown[r], room);
            } else {
                canvas.text((left + offset, bottom + 12.0), &shown[r], Anchor::Middle, Paint::Ink, cell);
            }
        }
    }
    let mut start = 0;
    for (k, group) in groups.iter().enumerate() {
        let (from, middle) = (cell * start as f64, cell * (start as f64 + group.len() as f64 / 2.0));
        if start > 0 {
            canvas.line((left, top + from), (right, top + from), Paint::Ink, false);
            canvas.line((left + from, top), (left + from, bottom), Paint::Ink, false);
        }
        if let Some(kind) = kinds.get(k) {
            canvas.text((right + 8.0, top + middle), kind, Anchor::Start, Paint::Muted, legend_width);
        }
        start += group.len();
    }
    // The scale: from sure to lose to sure to win.
    let (x, height) = (width - 46.0, (bottom - top).min(200.0));
    for k in 0..41 {
        let lead = 1.0 - f64::from(k) / 20.0;
        let y = top + height * f64::from(k) / 41.0;
        canvas.rect(x, y, 8.0, height / 41.0 + 0.3, Paint::of_sign(lead), lead.abs());
    }
    for (height_share, text) in [(0.0, "1"), (0.25, ".75"), (0.5, ".5"), (0.75, ".25"), (1.0, "0")] {
        canvas.text(
            (x + 13.0, top + 5.0 + (height - 10.0) * height_share),
            text,
            Anchor::Start,
            Paint::Muted,
            30.0,
        );
    }
    let remarks = ["How probable it is that the row’s item beats the column’s.".to_string()];
    let end = notes(&mut canvas, (24.0, bottom + below + 14.0), &remarks, width - 48.0);
    let about = format!(
        "A matrix of {n} items{}: orange where the row’s item is likely to beat the column’s, blue where it \
         is likely to lose.",
        if kinds.is_empty() { String::new() } else { format!(" in {} clusters", kinds.len()) }
    );
    canvas.finish(width, end, "Who beats whom", &about, "")
}

/// Items of each cluster, by mean log odds against those of their own cluster.
fn groups(probabilities: &Matrix, clusters: Option<&[usize]>) -> Vec<Vec<usize>> {
    let n = probabilities.rows();
    let count = clusters.map_or(1, |labels| labels.iter().max().map_or(0, |highest| highest + 1));
    let members_of =
        |k: usize| (0..n).filter(|&i| clusters.is_none_or(|labels| labels[i] == k)).collect::<Vec<_>>();
    let odds = |p: f64| {
        let p = p.clamp(1e-9, 1.0 - 1e-9);
        (p / (1.0 - p)).ln()
    };
    let sorted = |mut cluster: Vec<usize>| {
        let members = cluster.clone();
        let sum =
            |i: usize| members.iter().filter(|&&j| j != i).map(|&j| odds(probabilities[(i, j)])).sum::<f64>();
        let utility: Vec<f64> = (0..n).map(sum).collect();
        cluster.sort_by(|&a, &b| utility[b].total_cmp(&utility[a]));
        cluster
    };
    (0..count).map(members_of).filter(|members| !members.is_empty()).map(sorted).collect()
}
