//! A matrix of the probabilities that the row's item beats the column's, as colours. Clusters are drawn
//! together.

use riesz::Matrix;

use super::interaction_strengths::notes;
use super::ranking::probability_text;
use super::*;

/// Maximum number of items for which cells have numbers.
const NUMBERS: usize = 12;
/// Minimum height of a row with a name, in pixels; smaller names would be illegible.
const SMALLEST: f64 = 9.0;

/// Draws items in the order of their clusters, and within a cluster by mean log odds against its other items.
pub(super) fn draw(
    probabilities: &Matrix,
    names: &[String],
    clusters: Option<&[usize]>,
    options: &PlotOptions,
) -> Svg {
    let (n, width) = (names.len(), options.width as f64);
    let groups = groups(probabilities, clusters);
    let order: Vec<usize> = groups.concat();
    let shown: Vec<&str> = order.iter().map(|&i| &names[i][..]).collect();
    let kinds: Vec<String> = match clusters {
        Some(_) => (1..=groups.len()).map(|k| format!("cluster {k}")).collect(),
        None => Vec::new(),
    };
    let room = label_room(&shown, width).min(width * 0.22);
    let legend_width = kinds.iter().map(|k| format::text_width(k, FONT) + 10.0).fold(0.0, f64::max) + 66.0;
    let side = (width - room - 30.0 - legend_width).max(120.0);
    let cell = (side / n as f64).min(56.0);
    let (left, top) = (room + 22.0, 12.0);
    let field = Field { left, top, side: cell * n as f64, cell, room };
    let bottom = top + field.side;
    // Names of columns read upwards if they are too long to fit beside each other.
    let longest = widest(&shown, 0.0);
    let (has_names, are_vertical) = (cell >= SMALLEST, longest > cell - 4.0);
    let names_height = match (has_names, are_vertical) {
        (false, _) => 10.0,
        (true, true) => longest.min(room) + 14.0,
        (true, false) => 22.0,
    };
    let mut canvas = Canvas::new(options.theme);
    for (r, &i) in order.iter().enumerate() {
        for (c, &j) in order.iter().enumerate().filter(|(c, _)| *c != r) {
            field.draw_cell(&mut canvas, (r, c), probabilities[(i, j)], n <= NUMBERS);
        }
        if has_names {
            field.draw_name(&mut canvas, r, shown[r], are_vertical);
        }
    }
    field.draw_clusters(&mut canvas, &groups, &kinds, legend_width);
    draw_scale(&mut canvas, (width - 46.0, top), (bottom - top).min(200.0));
    let remarks = ["Probability that the row’s item beats the column’s.".to_string()];
    let end = notes(&mut canvas, (24.0, bottom + names_height + 14.0), &remarks, width - 48.0);
    let about = format!(
        "A matrix of {n} items{}: orange where the row’s item is likely to beat the column’s, blue where it \
         is likely to lose.",
        if kinds.is_empty() { String::new() } else { format!(" in {} clusters", kinds.len()) }
    );
    canvas.finish(width, end, "Who beats whom", &about, "")
}

/// The square field of cells, with names to the left and below.
struct Field {
    left: f64,
    top: f64,
    side: f64,
    /// The side of a cell.
    cell: f64,
    /// The room of a name.
    room: f64,
}

impl Field {
    fn draw_cell(&self, canvas: &mut Canvas, (row, column): (usize, usize), p: f64, with_number: bool) {
        let cell = self.cell;
        let (x, y) = (self.left + cell * column as f64, self.top + cell * row as f64);
        let contrast = 2.0 * p - 1.0;
        canvas.rect(x, y, cell + 0.3, cell + 0.3, Paint::for_sign(contrast), contrast.abs().clamp(0.0, 1.0));
        if with_number && cell > 26.0 {
            canvas.text_on((x + cell / 2.0, y + cell / 2.0), &probability_text(p));
        }
    }

    /// Draws the name of the item in this row and column.
    fn draw_name(&self, canvas: &mut Canvas, row: usize, name: &str, is_vertical: bool) {
        let (offset, bottom) = (self.cell * (row as f64 + 0.5), self.top + self.side);
        canvas.text((self.left - 8.0, self.top + offset), name, Anchor::End, Paint::Ink, self.room);
        let x = self.left + offset;
        if is_vertical {
            let length = format::text_width(name, FONT).min(self.room);
            canvas.vertical_text((x + FONT * 0.36, bottom + 6.0 + length / 2.0), name, self.room);
        } else {
            canvas.text((x, bottom + 12.0), name, Anchor::Middle, Paint::Ink, self.cell);
        }
    }

    /// Draws lines between clusters, and their names to the right.
    fn draw_clusters(&self, canvas: &mut Canvas, groups: &[Vec<usize>], kinds: &[String], room: f64) {
        let (left, top, mut start) = (self.left, self.top, 0);
        let (right, bottom) = (left + self.side, top + self.side);
        for (k, group) in groups.iter().enumerate() {
            let from = self.cell * start as f64;
            let middle = self.cell * (start as f64 + group.len() as f64 / 2.0);
            if start > 0 {
                canvas.line((left, top + from), (right, top + from), Paint::Ink, false);
                canvas.line((left + from, top), (left + from, bottom), Paint::Ink, false);
            }
            if let Some(kind) = kinds.get(k) {
                canvas.text((right + 8.0, top + middle), kind, Anchor::Start, Paint::Muted, room);
            }
            start += group.len();
        }
    }
}

/// Draws the scale of colours, from probability 1 to 0.
fn draw_scale(canvas: &mut Canvas, (x, top): (f64, f64), height: f64) {
    colour_steps(canvas, [x, top, 8.0, height], 41, |k| {
        let contrast = 1.0 - k / 20.0;
        (Paint::for_sign(contrast), contrast.abs())
    });
    for (share, text) in [(0.0, "1"), (0.25, ".75"), (0.5, ".5"), (0.75, ".25"), (1.0, "0")] {
        let y = top + 5.0 + (height - 10.0) * share;
        canvas.text((x + 13.0, y), text, Anchor::Start, Paint::Muted, 30.0);
    }
}

/// The items of each cluster, sorted by their mean log odds against the other items of the cluster.
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
