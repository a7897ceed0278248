//! A network of interactions: features on a circle, and lines between features that interact.

use std::f64::consts::{FRAC_PI_2, PI};

use super::interaction_strengths::{InteractionStrengths, notes};
use super::*;

/// Features on a circle, and lines between features that interact.
pub(super) static PLOT: Plot = Plot {
    name: "network",
    help: "Features on a circle, and lines between features that interact",
    shows: Shows::Interactions,
    draw,
};

fn draw(e: &Explanation, options: &PlotOptions) -> Svg {
    let (width, o) = (options.width as f64, options.output);
    let strengths = InteractionStrengths::new(e, o);
    let name = |j: usize| e.players[j].name.as_str();
    let widest = widest(strengths.players(options.max_display).into_iter().map(name), 30.0);
    let radius = (width / 2.0 - widest.min(0.2 * width) - 34.0).min(150.0);
    // Near the top and bottom, neighbouring names differ in height by 4π²/n² of the radius. The limit leaves
    // each name its own line.
    let limit = (radius * 4.0 * PI * PI / 15.0).sqrt() as usize;
    let players = strengths.players(options.max_display.min(limit));
    let n = players.len();
    let (x0, y0) = (width / 2.0, radius + 30.0);
    // Starting half a step from the top puts every name on one side.
    let angle = |k: usize| (k as f64 + 0.5) / n as f64 * 2.0 * PI - FRAC_PI_2;
    let position = |k: usize| (x0 + radius * angle(k).cos(), y0 + radius * angle(k).sin());
    let largest = players.iter().map(|&j| strengths.single_values[j].abs()).fold(0.0, f64::max);
    let room = (0.38 * 2.0 * PI * radius / n.max(3) as f64).min(22.0);
    // Areas are proportional to values.
    let size = |j: usize| {
        if largest > 0.0 { (strengths.single_values[j].abs() / largest).sqrt() * room } else { 0.0 }
    };
    let mut canvas = Canvas::new(options.theme);

    let drawn: Vec<(usize, usize, f64)> = strengths
        .pairs
        .iter()
        .filter_map(|&([a, b], v)| {
            Some((players.binary_search(&a).ok()?, players.binary_search(&b).ok()?, v))
        })
        .filter(|pair| pair.2 != 0.0)
        .take(options.max_display)
        .collect();
    let strongest = drawn.first().map_or(1.0, |pair| pair.2.abs());
    // The strongest pairs are drawn last, on top.
    for &(a, b, value) in drawn.iter().rev() {
        let part = value.abs() / strongest;
        canvas.edge(position(a), position(b), strengths.paint(value), 0.8 + 8.0 * part, 0.25 + 0.6 * part);
    }
    for (k, &j) in players.iter().enumerate() {
        let ((x, y), r) = (position(k), size(j).max(2.5));
        let side = if angle(k).cos() < 0.0 { -1.0 } else { 1.0 };
        canvas.open_player(strengths.single_sets[j]);
        canvas.disc((x, y), r + 1.5, Paint::Paper);
        let value = strengths.single_values[j];
        canvas.disc((x, y), r, if value == 0.0 { Paint::Neutral } else { strengths.paint(value) });
        let x_of_name = x + side * (r + 7.0);
        if angle(k).cos().abs() < 1e-9 {
            // The lowest name of an odd number has no side.
            canvas.text((x, y + r + 11.0), name(j), Anchor::Middle, Paint::Ink, width - 12.0);
        } else if side > 0.0 {
            canvas.text((x_of_name, y), name(j), Anchor::Start, Paint::Ink, width - x_of_name - 6.0);
        } else {
            canvas.text((x_of_name, y), name(j), Anchor::End, Paint::Ink, x_of_name - 6.0);
        }
        canvas.close();
    }
    let below = sentences(e, &strengths, o, &players, &drawn);
    let end = notes(&mut canvas, (12.0, y0 + radius + 50.0), &below, width - 40.0);
    let about = format!(
        "{} features on a circle and lines between {} pairs.{} {}",
        n,
        drawn.len(),
        strengths.strongest(e),
        below.join(" ")
    );
    canvas.finish(width, end + 4.0, "Network of interactions", &about, "")
}

/// Captions about the areas and widths, and about omitted pairs and features.
fn sentences(
    e: &Explanation,
    interactions: &InteractionStrengths,
    output: usize,
    players: &[usize],
    drawn: &[(usize, usize, f64)],
) -> Vec<String> {
    let top = players
        .iter()
        .copied()
        .max_by(|&a, &b| interactions.single_values[a].abs().total_cmp(&interactions.single_values[b].abs()));
    let largest_text = top.map_or_else(String::new, |j| {
        format!(
            "; largest {} {}",
            interaction_strengths::brief(&e.players[j].name),
            interactions.write(interactions.single_values[j])
        )
    });
    let pair = drawn.first().map_or_else(String::new, |&(a, b, v)| {
        format!("; strongest {}", interactions.pair(e, [players[a], players[b]], v))
    });
    let colours = if interactions.signed { " Orange raises the output, blue lowers it." } else { "" };
    let mut captions = vec![format!(
        "{}: single features are areas of discs{largest_text}; pairs are widths of lines{pair}.{colours}",
        capital(&interactions.quantity(e, output))
    )];
    let omitted = interactions.pairs.len() - drawn.len();
    if omitted > 0 {
        let total: f64 = interactions.pairs.iter().map(|pair| pair.1.abs()).sum();
        let shown_strength: f64 = drawn.iter().map(|pair| pair.2.abs()).sum();
        let share = if total > 0.0 { (total - shown_strength).max(0.0) / total * 100.0 } else { 0.0 };
        let (subject, verb) =
            if omitted == 1 { ("pair".into(), "holds") } else { (format!("{omitted} pairs"), "hold") };
        captions.push(format!(
            "The other {subject} {verb} {} % of the total |value| of pairs.",
            format::fixed(share, 1)
        ));
    }
    captions.extend(interactions.larger_sentence(e));
    captions.extend(interactions.omitted_sentence(players.len()));
    captions
}
