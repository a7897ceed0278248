//! Where along a column the first of two samples has more mass than the second.

use riesz::discrepancy::Witness;

use super::*;

pub(super) fn draw(w: &Witness, options: &PlotOptions) -> Svg {
    let width = options.width as f64;
    let (left, right, top, bottom) = (72.0, width - 16.0, 12.0, 250.0);
    // Two standard errors to either side.
    let ends: Vec<[f64; 2]> =
        w.values.iter().zip(&w.std_error).map(|(v, e)| [v - 2.0 * e, v + 2.0 * e]).collect();
    let y_scale = Scale::covering(ends.iter().flatten().copied().chain([0.0]), bottom, top);
    let mut canvas = Canvas::new(options.theme);
    let x_scale = match &w.levels {
        Some(levels) => {
            let scale = Scale { lo: -0.5, hi: levels.len().max(1) as f64 - 0.5, from: left, to: right };
            let room = (right - left) / levels.len().max(1) as f64;
            let every = (30.0 / room).ceil().max(1.0) as usize;
            for (k, level) in levels.iter().enumerate().step_by(every) {
                let position = (scale.pixel(k as f64), bottom + 12.0);
                canvas.text(position, level, Anchor::Middle, Paint::Muted, room * every as f64 - 4.0);
            }
            let position = ((left + right) / 2.0, bottom + 30.0);
            canvas.text(position, &w.column, Anchor::Middle, Paint::Muted, right - left);
            scale
        }
        None => {
            let scale = Scale::covering(w.grid.iter().copied(), left, right);
            x_axis(&mut canvas, scale, top, bottom, &w.column);
            scale
        }
    };
    for (value, label) in y_scale.ticks(50.0) {
        let y = y_scale.pixel(value);
        canvas.line((left, y), (right, y), Paint::Grid, false);
        canvas.text((left - 8.0, y), &label, Anchor::End, Paint::Muted, left - 26.0);
    }
    canvas.text_up((14.0, (top + bottom) / 2.0), "witness function", bottom - top);
    let x_at = |k: usize| x_scale.pixel(w.grid[k]);
    if w.levels.is_some() {
        for k in 0..w.grid.len() {
            let (zero, y) = (y_scale.pixel(0.0), y_scale.pixel(w.values[k]));
            canvas.rect(x_at(k) - 8.0, zero.min(y), 16.0, (zero - y).abs(), Paint::of_sign(w.values[k]), 1.0);
            let [low, high] = ends[k].map(|v| y_scale.pixel(v));
            canvas.line((x_at(k), low), (x_at(k), high), Paint::Ink, false);
        }
    } else {
        let side = |end: usize, k: usize| (x_at(k), y_scale.pixel(ends[k][end]));
        let count = w.grid.len();
        let outline: Vec<(f64, f64)> =
            (0..count).map(|k| side(1, k)).chain((0..count).rev().map(|k| side(0, k))).collect();
        canvas.area(&outline, Paint::Neutral, 0.3);
        let line: Vec<(f64, f64)> =
            (0..w.grid.len()).map(|k| (x_at(k), y_scale.pixel(w.values[k]))).collect();
        canvas.polyline(&line, Paint::Up);
    }
    canvas.line((left, y_scale.pixel(0.0)), (right, y_scale.pixel(0.0)), Paint::Muted, false);
    let about = format!(
        "The witness function along {}, with a band of two standard errors: above 0 the first sample has \
         more mass, below 0 the second.",
        w.column
    );
    canvas.finish(width, bottom + 42.0, &format!("Where the samples differ along {}", w.column), &about, "")
}
