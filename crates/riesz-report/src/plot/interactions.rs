//! Every pair of features as a cell, with the values of single features on the diagonal.

use super::interaction_strengths::{InteractionStrengths, notes};
use super::*;

/// Every pair of features as a cell, with what each is worth alone on the diagonal.
pub(super) static PLOT: Plot = Plot {
    name: "interactions",
    help: "Pairs of features as a matrix of colours, with features alone on the diagonal",
    shows: Shows::Interactions,
    draw,
};

/// The least that tells a line of text from the next.
const PITCH: f64 = 15.0;

/// The strongest colour: as strong as text on it can be read, with a contrast of 4.5, in both themes.
const FULL: f64 = 0.55;

fn draw(e: &Explanation, options: &PlotOptions) -> Svg {
    let (width, o) = (options.width as f64, options.output);
    let strengths = InteractionStrengths::new(e, o);
    let names =
        |players: &[usize]| -> Vec<String> { players.iter().map(|&j| e.players[j].name.clone()).collect() };
    let room = label_room(&names(&strengths.players(options.max_display)), width);
    let (left, right) = (room + 22.0, width - 72.0);
    let players = strengths.players(options.max_display.min(((right - left) / PITCH) as usize));
    let (names, matrix) = (names(&players), strengths.matrix(&players));
    let across = ((right - left) / players.len() as f64).min(72.0);
    let down = across.clamp(PITCH, 30.0);
    let largest_of = |diagonal: bool| -> f64 {
        let cells = matrix
            .iter()
            .enumerate()
            .flat_map(|(k, row)| row.iter().enumerate().map(move |(l, v)| (k == l, v)));
        cells
            .filter(|(on_diagonal, _)| *on_diagonal == diagonal)
            .fold(0.0, |maximum: f64, (_, v)| maximum.max(v.abs()))
    };
    // Features alone are worth so much more, as a rule, that on one scale pairs would all be pale.
    let (largest_single, largest) = (largest_of(true), largest_of(false));
    let numbers = numbers(&matrix, largest_single.max(largest), strengths.signed, across - 6.0);
    let mut canvas = Canvas::new(options.theme);

    // Names above the columns: level if all fit, else upright.
    let widest = names.iter().map(|name| format::text_width(name, FONT)).fold(0.0, f64::max);
    let level = widest <= across - 6.0;
    let head = if level { 22.0 } else { widest.min(150.0) + 14.0 };
    for (k, name) in names.iter().enumerate() {
        let x = left + (k as f64 + 0.5) * across;
        if level {
            canvas.text((x, head - 11.0), name, Anchor::Middle, Paint::Muted, across);
        } else {
            let long = format::text_width(name, FONT).min(head - 14.0);
            canvas.text_up((x + FONT * 0.36, head - 7.0 - long / 2.0), name, head - 14.0);
        }
    }
    let bottom = head + down * players.len() as f64;
    let strength = |v: f64, full: f64| if full > 0.0 { v.abs() / full * FULL } else { 0.0 };
    for (k, row) in matrix.iter().enumerate() {
        let y = head + down * k as f64;
        canvas.open_player(strengths.single_sets[players[k]]);
        canvas.rect(0.0, y, room + 18.0, down, Paint::Paper, 1.0);
        canvas.text((left - 8.0, y + down / 2.0), &names[k], Anchor::End, Paint::Ink, room);
        canvas.close();
        for (l, &value) in row.iter().enumerate() {
            let x = left + across * l as f64;
            let full = if k == l { largest_single } else { largest };
            canvas.rect(x, y, across - 1.0, down - 1.0, strengths.paint(value), strength(value, full));
        }
    }
    for k in 0..players.len() {
        let (x, y) = (left + across * k as f64, head + down * k as f64);
        let (x1, y1) = (x + across - 1.0, y + down - 1.0);
        canvas.polyline(&[(x, y), (x1, y), (x1, y1), (x, y1), (x, y)], Paint::Muted);
    }
    for (k, row) in numbers.iter().flatten().enumerate() {
        for (l, text) in row.iter().enumerate() {
            let centre = (left + (l as f64 + 0.5) * across, head + (k as f64 + 0.5) * down);
            canvas.text_on(centre, text);
        }
    }
    let (x, height) = (left + across * players.len() as f64 + 8.0, (bottom - head).clamp(40.0, 160.0));
    let lowest = if strengths.signed { -largest } else { 0.0 };
    for k in 0..21 {
        let v = largest + (lowest - largest) * k as f64 / 20.0;
        let y = head + height * k as f64 / 21.0;
        canvas.rect(x, y, 6.0, height / 21.0 + 0.3, strengths.paint(v), strength(v, largest));
    }
    for (y, v) in [(head + 5.0, largest), (head + height - 5.0, lowest)] {
        canvas.text((x + 10.0, y), &strengths.write(brief(v)), Anchor::Start, Paint::Muted, 48.0);
    }
    let quantity = capital(&strengths.quantity(e, o));
    let mut below = vec![format!(
        "{quantity}. On the diagonal, in frames, features alone, with colours of their own scale, the \
         strongest for {}; each pair stands twice, each time with all of its value.",
        format::number(largest_single)
    )];
    below.extend(strengths.larger(e));
    below.extend(strengths.left_out(players.len()));
    let end = notes(&mut canvas, (12.0, bottom.max(head + height) + 16.0), &below, width - 40.0);
    let colours =
        if strengths.signed { "orange raises the output, blue lowers it" } else { "the stronger the larger" };
    let about = format!(
        "{quantity} of {} features and their pairs in colour, {colours}.{}{}",
        players.len(),
        strengths.strongest(e),
        below[1..].iter().map(|sentence| format!(" {sentence}")).collect::<String>()
    );
    canvas.finish(width, end + 4.0, "Features and their interactions", &about, "")
}

/// To three digits.
fn brief(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// All values in as many digits as fit into cells, equal ones so that they can be compared; `None` if cells
/// are too narrow.
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
