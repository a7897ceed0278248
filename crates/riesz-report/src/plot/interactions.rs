//! A matrix of interactions: a cell for each pair of features, and single features on the diagonal.

use super::interaction_strengths::{InteractionStrengths, notes};
use super::*;

/// A matrix with a cell for each pair of features, and single features on the diagonal.
pub(super) static PLOT: Plot = Plot {
    name: "interactions",
    help: "Pairs of features as a matrix of colours, with features alone on the diagonal",
    shows: Shows::Interactions,
    draw,
};

/// Minimum distance of two lines of text, in pixels.
const PITCH: f64 = 15.0;

/// Opacity of the strongest colour; text on it has a contrast of 4.5 in both themes.
const FULL: f64 = 0.55;

fn draw(e: &Explanation, options: &PlotOptions) -> Svg {
    let (width, o) = (options.width as f64, options.output);
    let strengths = InteractionStrengths::new(e, o);
    let names = |players: &[usize]| players.iter().map(|&j| &e.players[j].name[..]).collect::<Vec<_>>();
    let room = label_room(names(&strengths.players(options.max_display)), width);
    let (left, right) = (room + 22.0, width - 72.0);
    let players = strengths.players(options.max_display.min(((right - left) / PITCH) as usize));
    let (names, matrix) = (names(&players), strengths.matrix(&players));
    let across = ((right - left) / players.len() as f64).min(72.0);
    // Single features usually have much larger values, so that pairs on their scale would be pale.
    let magnitude = |maximum: f64, v: &f64| maximum.max(v.abs());
    let largest_single = players.iter().map(|&j| &strengths.single_values[j]).fold(0.0, magnitude);
    let largest = matrix.iter().enumerate().flat_map(|(k, row)| &row[..k]).fold(0.0, magnitude);
    let mut canvas = Canvas::new(options.theme);
    let top = column_names(&mut canvas, &names, left, across);
    let field = Field { left, top, across, down: across.clamp(PITCH, 30.0) };
    let bottom = top + field.down * players.len() as f64;
    for (k, row) in matrix.iter().enumerate() {
        let (_, y) = field.corner(k, 0);
        canvas.open_player(strengths.single_sets[players[k]]);
        canvas.rect(0.0, y, room + 18.0, field.down, Paint::Paper, 1.0);
        canvas.text((left - 8.0, y + field.down / 2.0), names[k], Anchor::End, Paint::Ink, room);
        canvas.close();
        for (l, &value) in row.iter().enumerate() {
            let (x, y) = field.corner(k, l);
            let opacity = opacity(value, if k == l { largest_single } else { largest });
            canvas.rect(x, y, across - 1.0, field.down - 1.0, strengths.paint(value), opacity);
        }
    }
    field.draw_diagonal(&mut canvas, players.len());
    let numbers = numbers(&matrix, largest_single.max(largest), strengths.signed, across - 6.0);
    for (k, row) in numbers.iter().flatten().enumerate() {
        for (l, text) in row.iter().enumerate() {
            let centre = (left + (l as f64 + 0.5) * across, top + (k as f64 + 0.5) * field.down);
            canvas.text_on(centre, text);
        }
    }
    let (x, height) = (left + across * players.len() as f64 + 8.0, (bottom - top).clamp(40.0, 160.0));
    draw_scale(&mut canvas, &strengths, (x, top), height, largest);
    let quantity = capital(&strengths.quantity(e, o));
    let mut below = vec![format!(
        "{quantity}. Framed cells on the diagonal are single features; their colours have their own scale, \
         up to {}. Each pair has two cells, each with its whole value.",
        format::number(largest_single)
    )];
    below.extend(strengths.larger_sentence(e));
    below.extend(strengths.omitted_sentence(players.len()));
    let end = notes(&mut canvas, (12.0, bottom.max(top + height) + 16.0), &below, width - 40.0);
    let colours = if strengths.signed {
        "orange raises the output, blue lowers it"
    } else {
        "stronger for larger values"
    };
    let about = format!(
        "{quantity} of {} features and their pairs in colour, {colours}.{}{}",
        players.len(),
        strengths.strongest(e),
        below[1..].iter().map(|sentence| format!(" {sentence}")).collect::<String>()
    );
    canvas.finish(width, end + 4.0, "Features and their interactions", &about, "")
}

/// The opacity of a value if `full` has the strongest colour.
fn opacity(value: f64, full: f64) -> f64 {
    if full > 0.0 { value.abs() / full * FULL } else { 0.0 }
}

/// Draws the names above the columns, level if all fit and otherwise upright, and returns the y below them.
fn column_names(canvas: &mut Canvas, names: &[&str], left: f64, across: f64) -> f64 {
    let widest = widest(names, 0.0);
    let level = widest <= across - 6.0;
    let head = if level { 22.0 } else { widest.min(150.0) + 14.0 };
    for (k, name) in names.iter().enumerate() {
        let x = left + (k as f64 + 0.5) * across;
        if level {
            canvas.text((x, head - 11.0), name, Anchor::Middle, Paint::Muted, across);
        } else {
            let long = format::text_width(name, FONT).min(head - 14.0);
            canvas.vertical_text((x + FONT * 0.36, head - 7.0 - long / 2.0), name, head - 14.0);
        }
    }
    head
}

/// The field of cells: its corner, and the size of a cell.
struct Field {
    left: f64,
    top: f64,
    across: f64,
    down: f64,
}

impl Field {
    /// The upper left corner of a cell.
    fn corner(&self, row: usize, column: usize) -> (f64, f64) {
        (self.left + self.across * column as f64, self.top + self.down * row as f64)
    }

    /// Frames the cells of single features.
    fn draw_diagonal(&self, canvas: &mut Canvas, count: usize) {
        for k in 0..count {
            let (x, y) = self.corner(k, k);
            let (x1, y1) = (x + self.across - 1.0, y + self.down - 1.0);
            canvas.polyline(&[(x, y), (x1, y), (x1, y1), (x, y1), (x, y)], Paint::Muted);
        }
    }
}

/// Draws the scale of the colours of pairs.
fn draw_scale(
    canvas: &mut Canvas,
    strengths: &InteractionStrengths,
    (x, top): (f64, f64),
    height: f64,
    largest: f64,
) {
    let lowest = if strengths.signed { -largest } else { 0.0 };
    colour_steps(canvas, [x, top, 6.0, height], 21, |k| {
        let v = largest + (lowest - largest) * k / 20.0;
        (strengths.paint(v), opacity(v, largest))
    });
    for (y, v) in [(top + 5.0, largest), (top + height - 5.0, lowest)] {
        canvas.text((x + 10.0, y), &strengths.write(brief(v)), Anchor::Start, Paint::Muted, 48.0);
    }
}

/// Rounds to three significant digits.
fn brief(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// All values with equal decimals, as many as fit into cells of width `room`; `None` if cells are too narrow.
fn numbers(matrix: &[Vec<f64>], largest: f64, signed: bool, room: f64) -> Option<Vec<Vec<String>>> {
    if !(1e-4..1e6).contains(&largest) {
        return None;
    }
    let write = |v: f64, decimals: usize| {
        let text = format::fixed(v, decimals);
        let gain = signed && v > 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b));
        if gain { format!("+{text}") } else { text }
    };
    [3, 2].into_iter().find_map(|significant| {
        let decimals = (f64::from(significant - 1) - largest.log10().floor()).max(0.0) as usize;
        let texts: Vec<Vec<String>> =
            matrix.iter().map(|row| row.iter().map(|&v| write(v, decimals)).collect()).collect();
        texts.iter().flatten().all(|text| format::text_width(text, FONT) <= room).then_some(texts)
    })
}
