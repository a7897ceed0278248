//! A component of a model's functional ANOVA: along one column a curve with its band, over two a surface in
//! colours.

use riesz::global::{Axis, Curve};

use super::*;

/// Steps of a scale of colours to either side.
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

/// A scale along an axis, with its labels below.
fn along(canvas: &mut Canvas, axis: &Axis, (left, right): (f64, f64), (top, bottom): (f64, f64)) -> Scale {
    let Some(levels) = &axis.levels else {
        let scale = Scale::covering(axis.grid.iter().copied(), left, right);
        x_axis(canvas, scale, top, bottom, &axis.column);
        return scale;
    };
    let scale = Scale { lo: -0.5, hi: levels.len() as f64 - 0.5, from: left, to: right };
    let room = (right - left) / levels.len() as f64;
    let every = (30.0 / room).ceil().max(1.0) as usize;
    for (k, level) in levels.iter().enumerate().step_by(every) {
        let anchor = (scale.pixel(k as f64), bottom + 12.0);
        canvas.text(anchor, level, Anchor::Middle, Paint::Muted, room * every as f64 - 4.0);
    }
    canvas.text(
        ((left + right) / 2.0, bottom + 30.0),
        &axis.column,
        Anchor::Middle,
        Paint::Muted,
        right - left,
    );
    scale
}

/// Beside the field: room for any number.
const MARGIN: f64 = 104.0;

fn curve(component: &Curve, axis: &Axis, options: &PlotOptions) -> Svg {
    let (width, o) = (options.width as f64, options.output);
    let (left, right, top, bottom) = (MARGIN, width - 16.0, 12.0, 250.0);
    let value = |k: usize| component.values[(k, o)];
    let ends = |k: usize| {
        let reach = component.sd.as_ref().map_or(0.0, |sd| REACH * sd[(k, o)]);
        [value(k) - reach, value(k) + reach]
    };
    let count = axis.grid.len();
    let y_scale = Scale::covering((0..count).flat_map(ends).chain([0.0]), bottom, top);
    let mut canvas = Canvas::new(options.theme);
    let x_scale = along(&mut canvas, axis, (left, right), (top, bottom));
    for (value, label) in y_scale.ticks(36.0) {
        let y = y_scale.pixel(value);
        canvas.line((left, y), (right, y), Paint::Grid, false);
        canvas.text((left - 8.0, y), &label, Anchor::End, Paint::Muted, left - 26.0);
    }
    canvas.text_up((14.0, (top + bottom) / 2.0), &name(component, o), bottom - top);
    let zero = y_scale.pixel(0.0);
    if axis.levels.is_some() {
        for k in 0..count {
            let (x, y) = (x_scale.pixel(k as f64), y_scale.pixel(value(k)));
            canvas.rect(x - 8.0, zero.min(y), 16.0, (zero - y).abs(), Paint::Down, 1.0);
            if component.sd.is_some() {
                let [low, high] = ends(k).map(|v| y_scale.pixel(v));
                canvas.line((x, low), (x, high), Paint::Ink, false);
            }
        }
    } else {
        let side = |end: usize, k: usize| (x_scale.pixel(axis.grid[k]), y_scale.pixel(ends(k)[end]));
        if component.sd.is_some() {
            let outline: Vec<(f64, f64)> =
                (0..count).map(|k| side(1, k)).chain((0..count).rev().map(|k| side(0, k))).collect();
            canvas.area(&outline, Paint::Neutral, 0.3);
        }
        let line: Vec<(f64, f64)> =
            (0..count).map(|k| (x_scale.pixel(axis.grid[k]), y_scale.pixel(value(k)))).collect();
        canvas.polyline(&line, Paint::Down);
    }
    canvas.line((left, zero), (right, zero), Paint::Muted, false);
    let band = if component.sd.is_some() { ", with the middle 95 % of the posterior" } else { "" };
    let about = format!("The {} along it{band}; its mean is 0.", name(component, o));
    canvas.finish(width, bottom + 42.0, &capital(&name(component, o)), &about, "")
}

fn surface(component: &Curve, [first, second]: [&Axis; 2], options: &PlotOptions) -> Svg {
    let (width, o) = (options.width as f64, options.output);
    let (left, right, top, bottom) = (MARGIN, width - MARGIN, 12.0, 330.0);
    let mut canvas = Canvas::new(options.theme);
    let across = along(&mut canvas, first, (left, right), (top, bottom));
    let upwards = match &second.levels {
        Some(levels) => Scale { lo: -0.5, hi: levels.len() as f64 - 0.5, from: bottom, to: top },
        None => Scale::covering(second.grid.iter().copied(), bottom, top),
    };
    let place = |axis: &Axis, k: usize| if axis.levels.is_some() { k as f64 } else { axis.grid[k] };
    // A cell reaches half way to its neighbours, and as far beyond the last.
    let edges = |axis: &Axis, k: usize| -> [f64; 2] {
        let position = |k: usize| place(axis, k);
        let end = axis.grid.len() - 1;
        let half_gap = |a: usize, b: usize| (position(b) - position(a)) / 2.0;
        let [below, above] = match (k, end) {
            (_, 0) => [0.5, 0.5],
            (0, _) => [half_gap(0, 1); 2],
            (k, end) if k == end => [half_gap(k - 1, k); 2],
            (k, _) => [half_gap(k - 1, k), half_gap(k, k + 1)],
        };
        [position(k) - below, position(k) + above]
    };
    let count = second.grid.len();
    let largest = (0..component.values.rows()).fold(0.0, |m: f64, r| m.max(component.values[(r, o)].abs()));
    let level = |v: f64| if largest > 0.0 { (v / largest * STEPS).round() } else { 0.0 };
    for a in 0..first.grid.len() {
        // Whole pixels, so that neighbours neither overlap nor leave a seam.
        let [x0, x1] = edges(first, a).map(|v| across.pixel(v).clamp(left, right).round());
        for b in 0..count {
            let [y0, y1] = edges(second, b).map(|v| upwards.pixel(v).clamp(top, bottom).round());
            let v = level(component.values[(a * count + b, o)]);
            if v != 0.0 {
                canvas.rect(x0, y1, x1 - x0, y0 - y1, Paint::of_sign(v), v.abs() / STEPS);
            }
        }
    }
    match &second.levels {
        Some(levels) => levels.iter().enumerate().for_each(|(k, level)| {
            canvas.text((left - 8.0, upwards.pixel(k as f64)), level, Anchor::End, Paint::Muted, left - 26.0);
        }),
        None => upwards.ticks(40.0).into_iter().for_each(|(value, label)| {
            canvas.text((left - 8.0, upwards.pixel(value)), &label, Anchor::End, Paint::Muted, left - 26.0);
        }),
    }
    canvas.text_up((14.0, (top + bottom) / 2.0), &second.column, bottom - top);
    let (x, height) = (right + 10.0, 160.0);
    for k in 0..21 {
        let v = 1.0 - k as f64 / 10.0;
        canvas.rect(x, top + height * k as f64 / 21.0, 6.0, height / 21.0 + 0.3, Paint::of_sign(v), v.abs());
    }
    for (y, v) in [(top + 5.0, largest), (top + height - 5.0, -largest)] {
        canvas.text((x + 10.0, y), &format::signed(v), Anchor::Start, Paint::Muted, MARGIN - 22.0);
    }
    let about = format!(
        "The {} in colour, orange above 0 and blue below: what {}.",
        name(component, o),
        match &component.players[..] {
            [_] => "its two columns do, each alone and both together",
            _ => "the two do together beyond what each does alone",
        }
    );
    canvas.finish(width, bottom + 42.0, &capital(&name(component, o)), &about, "")
}
