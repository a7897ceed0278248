//! A scatter plot of one player's values against its feature's values.

use super::*;

/// One player's value against its feature's value.
pub(super) static PLOT: Plot = Plot {
    name: "dependence",
    help: "The value of one feature against the feature itself",
    shows: Shows::OnePlayer,
    draw,
};

fn draw(e: &Explanation, options: &PlotOptions) -> Svg {
    let (width, n, o) = (options.width as f64, e.rows(), options.output);
    let player = options.player.unwrap_or_else(|| e.ranking(o)[0]);
    let name = &e.set_name(player);
    let values: Vec<f64> = (0..n).map(|i| e.row_values(i, o)[player]).collect();
    let column = single_column(e, player);
    let xs: Vec<f64> = match column {
        Some(j) => e.data.column(j).to_vec(),
        None => e.row_numbers.iter().map(|&i| i as f64).collect(),
    };
    let levels = column.and_then(|j| match &e.data.columns()[j].kind {
        ColumnKind::Categorical { levels } => Some(&levels[..]),
        ColumnKind::Numeric => None,
    });
    let (left, right, top, bottom) = (72.0, width - 66.0, 12.0, 330.0);
    let x_scale = Scale::for_column(levels, &xs, left, right);
    // Half of the interval of each dot, if there are few rows.
    let (with_intervals, intervals) = dot_intervals(e);
    let half_widths: Vec<f64> =
        (0..with_intervals).map_while(|i| interval_half_width(e, i, o, &[player])).collect();
    let whiskers = || values.iter().zip(&half_widths).map(|(v, half_width)| [v - half_width, v + half_width]);
    let y_scale = Scale::covering(values.iter().copied().chain(whiskers().flatten()), bottom, top);
    let mut canvas = Canvas::new(options.theme);
    let [singular, plural] = e.row_words();
    let axis_name = match column {
        // The column of a duel is the difference between both items.
        Some(j) if e.duels.is_some() => e.data.columns()[j].name.clone(),
        Some(_) => name.clone(),
        None => match e.set_columns(player).len() {
            0 => format!("{singular} (the explanation has no feature values)"),
            columns => format!("{singular} ({name} has {columns} columns and no single value)"),
        },
    };
    column_axis(&mut canvas, x_scale, levels, (top, bottom), &axis_name, right - left + 60.0);
    y_axis(&mut canvas, y_scale, (left, right), 50.0);
    if y_scale.lo < 0.0 && y_scale.hi > 0.0 {
        canvas.line((left, y_scale.pixel(0.0)), (right, y_scale.pixel(0.0)), Paint::Muted, false);
    }
    let quantity = format!("{} of {name}{intervals}", e.index.name());
    canvas.vertical_text((14.0, (top + bottom) / 2.0), &quantity, bottom - top);
    let colour = options.color_by.and_then(|j| Colours::for_player(e, j));
    let width_of_jitter = if levels.is_some() { 0.5 } else { 0.0 };
    let dots: Vec<(f64, f64, Paint)> = (0..n)
        .map(|i| {
            let paint = colour.as_ref().map_or(Paint::Down, |c| c.paint(i));
            (x_scale.pixel(xs[i] + width_of_jitter * jitter(i)), y_scale.pixel(values[i]), paint)
        })
        .collect();
    let rules = dots.iter().zip(whiskers()).map(|(dot, ends)| ends.map(|end| (dot.0, y_scale.pixel(end))));
    canvas.rules(&rules.collect::<Vec<_>>(), Paint::Neutral, 0.5);
    canvas.dots(&dots, 5.0);
    match (options.color_by, &colour) {
        (Some(j), Some(colour)) if colour.names().is_empty() => {
            let (position, ends) = ((width - 52.0, 44.0), (top, bottom - 60.0));
            colour_bar(&mut canvas, position, ends, (["Low", "High"], &e.set_name(j)), Paint::Ramp);
        }
        (Some(_), Some(colour)) => legend(&mut canvas, width - 58.0, top, colour.names(), 56.0),
        _ => {}
    }
    let about = format!(
        "A dot for each of {n} {plural}: the value of {name} on the horizontal axis, its {} on the vertical.",
        e.index.name()
    );
    canvas.finish(width, bottom + 42.0, &format!("Dependence on {name}"), &about, "")
}
