//! A component of a model's functional ANOVA: a curve with its band for one column, a coloured surface for
//! two.

use riesz::global::{Axis, Curve};

use super::banded_curve::BandedCurve;
use super::*;

/// Number of colour steps on either side of 0.
const STEPS: f64 = 20.0;

pub(super) fn draw(component: &Curve, options: &PlotOptions) -> Svg {
    match &component.axes[..] {
        [axis] => curve(component, axis, options),
        [first, second, ..] => surface(component, [first, second], options),
        [] => Canvas::new(options.theme).finish(options.width as f64, 10.0, "Nothing", "", ""),
    }
}

/// The name of a component.
fn name(curve: &Curve, output: usize) -> String {
    let suffix = if curve.output_names.len() > 1 {
        format!(" ({})", curve.output_names[output])
    } else {
        String::new()
    };
    format!("component of {}{suffix}", curve.players.join(" × "))
}

/// Width of the margin beside the field, with room for any number.
const MARGIN: f64 = 104.0;

/// The position of grid point `k` on the axis; levels are one apart.
fn position(axis: &Axis, k: usize) -> f64 {
    if axis.levels.is_some() { k as f64 } else { axis.grid[k] }
}

fn curve(component: &Curve, axis: &Axis, options: &PlotOptions) -> Svg {
    let (count, name) = (axis.grid.len(), name(component, options.output));
    let value = |k: usize| component.values[(k, options.output)];
    let ends = |k: usize| {
        let half_width = component.sd.as_ref().map_or(0.0, |sd| NORMAL_QUANTILE * sd[(k, options.output)]);
        [value(k) - half_width, value(k) + half_width]
    };
    let band = if component.sd.is_some() { ", with the middle 95 % of the posterior" } else { "" };
    let about = format!("The {name} along it{band}; its mean is 0.");
    let title = capital(&name);
    let curve = BandedCurve {
        column: &axis.column,
        levels: axis.levels.as_deref(),
        positions: (0..count).map(|k| position(axis, k)).collect(),
        values: (0..count).map(value).collect(),
        ends: (0..count).map(ends).collect(),
        has_band: component.sd.is_some(),
        quantity: name,
        left: MARGIN,
        spacing: 36.0,
        line_paint: Paint::Down,
        bar_paint: |_| Paint::Down,
    };
    curve.draw(options, &title, &about)
}

/// The ends of the cell of grid point `k`: half way to its neighbours, and symmetric for the first and last.
fn cell_edges(axis: &Axis, k: usize) -> [f64; 2] {
    let half_step = |a: usize, b: usize| (position(axis, b) - position(axis, a)) / 2.0;
    let [below, above] = match (k, axis.grid.len() - 1) {
        (_, 0) => [0.5, 0.5],
        (0, _) => [half_step(0, 1); 2],
        (k, end) if k == end => [half_step(k - 1, k); 2],
        (k, _) => [half_step(k - 1, k), half_step(k, k + 1)],
    };
    [position(axis, k) - below, position(axis, k) + above]
}

fn surface(component: &Curve, [first, second]: [&Axis; 2], options: &PlotOptions) -> Svg {
    let (width, o) = (options.width as f64, options.output);
    let (left, right, top, bottom) = (MARGIN, width - MARGIN, 12.0, 330.0);
    let mut canvas = Canvas::new(options.theme);
    let across = Scale::for_column(first.levels.as_deref(), &first.grid, left, right);
    let upwards = Scale::for_column(second.levels.as_deref(), &second.grid, bottom, top);
    let levels = first.levels.as_deref();
    column_axis(&mut canvas, across, levels, (top, bottom), &first.column, right - left);
    let count = second.grid.len();
    let largest = (0..component.values.rows()).fold(0.0, |m: f64, r| m.max(component.values[(r, o)].abs()));
    let level = |v: f64| if largest > 0.0 { (v / largest * STEPS).round() } else { 0.0 };
    for a in 0..first.grid.len() {
        // With whole pixels neighbours neither overlap nor leave a gap.
        let [x0, x1] = cell_edges(first, a).map(|v| across.pixel(v).clamp(left, right).round());
        for b in 0..count {
            let [y0, y1] = cell_edges(second, b).map(|v| upwards.pixel(v).clamp(top, bottom).round());
            let v = level(component.values[(a * count + b, o)]);
            if v != 0.0 {
                canvas.rect(x0, y1, x1 - x0, y0 - y1, Paint::for_sign(v), v.abs() / STEPS);
            }
        }
    }
    match &second.levels {
        Some(levels) => levels.iter().enumerate().for_each(|(k, level)| {
            y_label(&mut canvas, left, upwards.pixel(k as f64), level);
        }),
        None => upwards.ticks(40.0).into_iter().for_each(|(value, label)| {
            y_label(&mut canvas, left, upwards.pixel(value), &label);
        }),
    }
    canvas.vertical_text((14.0, (top + bottom) / 2.0), &second.column, bottom - top);
    signed_bar(&mut canvas, (right + 10.0, top), 160.0, largest, MARGIN - 22.0);
    let about = format!(
        "The {} in colour, orange above 0 and blue below: {}.",
        name(component, o),
        match &component.players[..] {
            [_] => "the effect of its two columns, alone and together",
            _ => "the joint effect of the two beyond their separate effects",
        }
    );
    canvas.finish(width, bottom + 42.0, &capital(&name(component, o)), &about, "")
}
