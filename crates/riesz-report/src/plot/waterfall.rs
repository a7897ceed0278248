//! The values of one row as steps from the base value to the prediction.

use super::*;

/// From the base value to one row's prediction, one step for each player.
pub(super) static PLOT: Plot = Plot {
    name: "waterfall",
    help: "From the base value to one row's prediction, one step for each feature",
    shows: Shows::OneRow,
    draw,
};

fn draw(e: &Explanation, options: &PlotOptions) -> Svg {
    let (width, row, o) = (options.width as f64, options.row, options.output);
    let values = e.row_values(row, o);
    let (base, prediction) = (e.base_values[row * e.outputs() + o], e.predictions[row * e.outputs() + o]);
    let (named, omitted) = split_at_max_display(format::order_by_magnitude(values), options.max_display);
    // The largest step is at the top, and the base value at the bottom.
    let mut lines: Vec<(String, f64, Option<f64>)> = named
        .iter()
        .map(|&j| (format::label(e, row, j), values[j], interval_half_width(e, row, o, &[j])))
        .collect();
    if !omitted.is_empty() {
        let sum = omitted.iter().map(|&j| values[j]).sum();
        lines.push((rest_label(e, omitted.len()), sum, interval_half_width(e, row, o, &omitted)));
    }
    lines.extend(unattributed_residual(e, row, o).map(|(name, residual)| (name, residual, None)));
    let mut ends = vec![base];
    for (_, value, _) in lines.iter().rev() {
        ends.push(ends[ends.len() - 1] + value);
    }
    ends.reverse();
    let whisker = |k: usize, half_width: f64| [ends[k] - half_width, ends[k] + half_width];
    let whiskers = lines.iter().enumerate().filter_map(|(k, line)| Some(whisker(k, line.2?)));
    let room = label_room(lines.iter().map(|l| &l.0), width);
    let (pitch, top) = (28.0, 34.0);
    let bottom = top + pitch * lines.len() as f64;
    // Room for the numbers to the right of the arrows, wider with intervals.
    let numbers = if has_intervals(e) { 104.0 } else { 56.0 };
    let extent = ends.iter().copied().chain(whiskers.flatten());
    let scale = Scale::covering(extent, room + 24.0, width - numbers);
    let mut canvas = Canvas::new(options.theme);
    x_axis(&mut canvas, scale, top, bottom, "");
    let base_x = scale.pixel(base);
    let end_x = scale.pixel(ends[0]);
    canvas.line((end_x, top - 8.0), (end_x, top + pitch / 2.0), Paint::Muted, true);
    canvas.line((base_x, top), (base_x, bottom + 18.0), Paint::Muted, true);
    let written = |quantity: &str, x: f64| format!("{quantity} = {}", format::number(x));
    inner_text(&mut canvas, (end_x, top - 18.0), &written("f(x)", prediction), Paint::Ink, width);
    inner_text(&mut canvas, (base_x, bottom + 30.0), &written("base value", base), Paint::Ink, width);
    for (k, (name, value, half_width)) in lines.iter().enumerate() {
        let y = top + pitch * (k as f64 + 0.5);
        canvas.text((room + 14.0, y), name, Anchor::End, Paint::Ink, room);
        let (from, to) = (scale.pixel(ends[k + 1]), scale.pixel(ends[k]));
        arrow(&mut canvas, from, to, y, 9.0, Paint::for_sign(*value));
        canvas.line((from, y), (from, y + pitch), Paint::Muted, true);
        let text = format::signed_within(*value, *half_width);
        let mut end = from.max(to);
        if let Some([low, high]) =
            half_width.map(|half_width| whisker(k, half_width).map(|end| scale.pixel(end)))
        {
            canvas.whisker(low, high, y);
            end = end.max(high);
        }
        canvas.text((end + 6.0, y), &text, Anchor::Start, Paint::Ink, numbers + 24.0);
    }
    let names: Vec<String> =
        lines.iter().take(3).map(|l| format!("{}: {}", l.0, format::signed_within(l.1, l.2))).collect();
    let about = format!(
        "{}: from the base value {} to the prediction {}. Largest steps: {}.{}",
        row_title(e, row),
        format::number(base),
        format::number(prediction),
        names.join("; "),
        if has_intervals(e) { " Whiskers are 95 % intervals." } else { "" }
    );
    let title = format!("Waterfall of {}", e.row_name(row));
    canvas.finish(width, bottom + 44.0, &title, &about, "")
}

/// Draws a block arrow from `from` to `to`, at least one pixel long.
pub(super) fn arrow(canvas: &mut Canvas, from: f64, to: f64, y: f64, half_height: f64, paint: Paint) {
    let direction = if to < from { -1.0 } else { 1.0 };
    let to = from + direction * (to - from).abs().max(1.0);
    let neck = to - direction * (to - from).abs().min(6.0);
    canvas.polygon(
        &[
            (from, y - half_height),
            (neck, y - half_height),
            (to, y),
            (neck, y + half_height),
            (from, y + half_height),
        ],
        paint,
        1.0,
    );
}
