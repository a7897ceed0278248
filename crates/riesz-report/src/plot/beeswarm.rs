//! One dot for each row and player: the value across, the feature value in colour.

use super::*;

/// One dot a row and player: value across, feature value in colour.
pub(super) static PLOT: Plot = Plot {
    name: "beeswarm",
    help: "One dot a row and player: value across, feature value in colour",
    shows: Shows::Everything,
    draw,
};

fn draw(e: &Explanation, options: &PlotOptions) -> Svg {
    let (width, n, o) = (options.width as f64, e.rows(), options.output);
    let (named, omitted) = shown(e.ranking(o), options.max_display);
    let mut lines: Vec<(Option<usize>, String, Vec<f64>)> = named
        .iter()
        .map(|&j| (Some(j), e.set_name(j), (0..n).map(|i| e.row_values(i, o)[j]).collect()))
        .collect();
    if !omitted.is_empty() {
        let sum = |i| omitted.iter().map(|&j| e.row_values(i, o)[j]).sum();
        lines.push((None, rest_label(e, omitted.len()), (0..n).map(sum).collect()));
    }
    let colours: Vec<Option<Colours<'_>>> =
        lines.iter().map(|(player, ..)| player.and_then(|j| Colours::for_player(e, j))).collect();
    let numbers = colours.iter().flatten().any(|c| c.names().is_empty());
    let labels = lines.iter().zip(&colours).flat_map(|(line, colours)| {
        let names = colours.as_ref().map_or(&[][..], Colours::names);
        // A line of levels is as wide as they are, with their dots and spaces.
        let levels: String = names.iter().map(|(_, name)| format!("{name}oooo")).collect();
        [line.1.clone(), levels]
    });
    let room = label_room(&labels.collect::<Vec<_>>(), width);
    let (pitch, top) = (34.0, 10.0);
    let bottom = top + pitch * lines.len() as f64;
    // Half of the interval of each dot, where they are few.
    let with_intervals = if n <= MAX_ROWS_WITH_INTERVALS { n } else { 0 };
    let reach_of = |player: &Option<usize>, i: usize| match player {
        Some(j) => reach(e, i, o, &[*j]),
        None => reach(e, i, o, &omitted),
    };
    let reaches: Vec<Vec<Option<f64>>> =
        lines.iter().map(|(player, ..)| (0..with_intervals).map(|i| reach_of(player, i)).collect()).collect();
    let whiskers = lines.iter().zip(&reaches).flat_map(|(line, reaches)| {
        line.2.iter().zip(reaches).filter_map(|(v, reach)| Some([v - (*reach)?, v + (*reach)?])).flatten()
    });
    let extent = lines.iter().flat_map(|l| l.2.iter().copied()).chain([0.0]).chain(whiskers);
    let scale = Scale::covering(extent, room + 22.0, width - 64.0);
    let mut canvas = Canvas::new(options.theme);
    let intervals = if with_intervals > 0 { interval_label(e) } else { "" };
    x_axis(&mut canvas, scale, top, bottom, &(value_name(e, o) + intervals));
    let zero = scale.pixel(0.0);
    canvas.line((zero, top), (zero, bottom), Paint::Muted, false);
    let diameter = if n > 1000 { 3.4 } else { 4.6 };
    for (k, (player, name, values)) in lines.iter().enumerate() {
        let y = top + pitch * (k as f64 + 0.5);
        if let Some(j) = player {
            canvas.open_player(*j);
        }
        canvas.rect(0.0, y - pitch / 2.0, room + 18.0, pitch, Paint::Paper, 1.0);
        let names = colours[k].as_ref().map_or(&[][..], Colours::names);
        if names.is_empty() {
            canvas.text((room + 14.0, y), name, Anchor::End, Paint::Ink, room);
        } else {
            canvas.text((room + 14.0, y - 7.0), name, Anchor::End, Paint::Ink, room);
            legend_line(&mut canvas, (room + 14.0, y + 8.0), names, room);
        }
        let offsets = swarm(values, scale, diameter, pitch * 0.84);
        let dots: Vec<(f64, f64, Paint)> = (0..n)
            .map(|i| {
                let paint = colours[k].as_ref().map_or(Paint::Neutral, |c| c.paint(i));
                (scale.pixel(values[i]), y + offsets[i], paint)
            })
            .collect();
        let rules = dots.iter().zip(values).zip(&reaches[k]).filter_map(|((dot, v), reach)| {
            let reach = (*reach)?;
            Some([(scale.pixel(v - reach), dot.1), (scale.pixel(v + reach), dot.1)])
        });
        canvas.rules(&rules.collect::<Vec<_>>(), Paint::Neutral, 0.4);
        canvas.dots(&dots, diameter);
        if player.is_some() {
            canvas.close();
        }
    }
    let high = (top + 200.0).min(bottom);
    // Of duels feature values are differences.
    let colour_name = if e.duels.is_some() { "left − right" } else { "Feature value" };
    if numbers {
        colour_bar(
            &mut canvas,
            (width - 50.0, 44.0),
            (top, high.max(top + 30.0)),
            ["Low", "High"],
            colour_name,
        );
    }
    let names: Vec<String> = named.iter().take(3).map(|&j| e.set_name(j)).collect();
    let [_, plural] = e.row_words();
    let about = format!(
        "One dot for each of {n} {plural} and each feature: to the right it raises the model’s output, to \
         the left it lowers it; orange dots are high feature values, blue dots low ones, and categories have \
         colours of their own. Most important: {}.",
        names.join(", ")
    );
    // Where the axis lies, for pages that show the row under the pointer.
    let axis = format!(
        " data-lo=\"{:e}\" data-hi=\"{:e}\" data-from=\"{}\" data-to=\"{}\"",
        scale.lo,
        scale.hi,
        coordinate(scale.from),
        coordinate(scale.to)
    );
    canvas.finish(
        width,
        bottom + 42.0,
        &format!("{} of all {plural}", capital(&e.index.names())),
        &about,
        &axis,
    )
}

/// Offsets from the middle line: points in the same narrow bin are stacked alternately above and below it,
/// squeezed to `height` if one stack is taller.
fn swarm(values: &[f64], scale: Scale, diameter: f64, height: f64) -> Vec<f64> {
    let bin_of = |v: f64| ((scale.pixel(v) - scale.from) / (diameter * 0.6)).floor() as i64;
    let mut stacks = std::collections::BTreeMap::<i64, Vec<usize>>::new();
    for (i, &v) in values.iter().enumerate() {
        stacks.entry(bin_of(v)).or_default().push(i);
    }
    let tallest = stacks.values().map(Vec::len).max().unwrap_or(1).max(2);
    let step = (diameter * 0.55).min(height / (tallest - 1) as f64);
    let mut offsets = vec![0.0; values.len()];
    for stack in stacks.values() {
        for (k, &i) in stack.iter().enumerate() {
            let rank = k.div_ceil(2) as f64;
            offsets[i] = if k % 2 == 0 { -rank * step } else { rank * step };
        }
    }
    offsets
}

use crate::svg::coordinate;
