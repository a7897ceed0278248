//! A curve along a column with its band, or bars with whiskers over the levels of a column.

use super::*;

/// Values along a column, with their intervals.
pub(super) struct BandedCurve<'c> {
    pub(super) column: &'c str,
    pub(super) levels: Option<&'c [String]>,
    /// Positions along the column's axis; the codes of levels.
    pub(super) positions: Vec<f64>,
    pub(super) values: Vec<f64>,
    /// The interval of each value.
    pub(super) ends: Vec<[f64; 2]>,
    /// Whether the intervals are drawn.
    pub(super) has_band: bool,
    /// The name of the values.
    pub(super) quantity: String,
    /// Width of the margin to the left of the field.
    pub(super) left: f64,
    /// Distance of the labels of the vertical axis, in pixels.
    pub(super) spacing: f64,
    pub(super) line_paint: Paint,
    pub(super) bar_paint: fn(f64) -> Paint,
}

impl BandedCurve<'_> {
    pub(super) fn draw(&self, options: &PlotOptions, title: &str, description: &str) -> Svg {
        let (width, left, top, bottom) = (options.width as f64, self.left, 12.0, 250.0);
        let right = width - 16.0;
        let y_scale = Scale::covering(self.ends.iter().flatten().copied().chain([0.0]), bottom, top);
        let x_scale = Scale::for_column(self.levels, &self.positions, left, right);
        let mut canvas = Canvas::new(options.theme);
        column_axis(&mut canvas, x_scale, self.levels, (top, bottom), self.column, right - left);
        y_axis(&mut canvas, y_scale, (left, right), self.spacing);
        canvas.vertical_text((14.0, (top + bottom) / 2.0), &self.quantity, bottom - top);
        match self.levels {
            Some(_) => self.draw_bars(&mut canvas, x_scale, y_scale),
            None => self.draw_line(&mut canvas, x_scale, y_scale),
        }
        canvas.line((left, y_scale.pixel(0.0)), (right, y_scale.pixel(0.0)), Paint::Muted, false);
        canvas.finish(width, bottom + 42.0, title, description, "")
    }

    fn draw_bars(&self, canvas: &mut Canvas, x_scale: Scale, y_scale: Scale) {
        for ((&position, &value), ends) in self.positions.iter().zip(&self.values).zip(&self.ends) {
            let (x, zero, y) = (x_scale.pixel(position), y_scale.pixel(0.0), y_scale.pixel(value));
            canvas.rect(x - 8.0, zero.min(y), 16.0, (zero - y).abs(), (self.bar_paint)(value), 1.0);
            if self.has_band {
                let [low, high] = ends.map(|v| y_scale.pixel(v));
                canvas.line((x, low), (x, high), Paint::Ink, false);
            }
        }
    }

    fn draw_line(&self, canvas: &mut Canvas, x_scale: Scale, y_scale: Scale) {
        let point = |k: usize, value: f64| (x_scale.pixel(self.positions[k]), y_scale.pixel(value));
        if self.has_band {
            draw_band(canvas, self.ends.len(), |k, end| point(k, self.ends[k][end]), Paint::Neutral, 0.3);
        }
        let line: Vec<(f64, f64)> = self.values.iter().enumerate().map(|(k, v)| point(k, *v)).collect();
        canvas.polyline(&line, self.line_paint);
    }
}

/// Draws the area between the lower points `side(k, 0)` and the upper points `side(k, 1)`, for `k < count`.
pub(super) fn draw_band(
    canvas: &mut Canvas,
    count: usize,
    side: impl Fn(usize, usize) -> (f64, f64),
    paint: Paint,
    opacity: f64,
) {
    let outline = (0..count).map(|k| side(k, 1)).chain((0..count).rev().map(|k| side(k, 0)));
    canvas.polygon(&outline.collect::<Vec<_>>(), paint, opacity);
}
