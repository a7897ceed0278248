//! All rows side by side, values in colour, predictions above.

use super::*;

/// All rows side by side, values in colour, predictions above.
pub(super) static PLOT: Plot = Plot {
    name: "heatmap",
    help: "All rows side by side, values in colour, predictions above",
    shows: Shows::Everything,
    draw,
};

fn draw(e: &Explanation, options: &PlotOptions) -> Svg {
    let (width, n, o) = (options.width as f64, e.rows(), options.output);
    let (named, omitted) = shown(e.ranking(o), options.max_display);
    let mut names: Vec<String> = named.iter().map(|&j| e.set_name(j)).collect();
    if !omitted.is_empty() {
        names.push(rest_label(e, omitted.len()));
    }
    let line_value = |i: usize, k: usize| -> f64 {
        let values = e.row_values(i, o);
        named.get(k).map_or_else(|| omitted.iter().map(|&j| values[j]).sum(), |&j| values[j])
    };
    // Rows from the highest to the lowest sum of values; ties keep their order.
    let total: Vec<f64> = (0..n).map(|i| e.row_values(i, o).iter().sum()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| total[b].total_cmp(&total[a]));
    let room = label_room(&names, width);
    let (left, right, top, pitch) = (room + 22.0, width - 62.0, 74.0, 24.0);
    // At most one stripe every two pixels: a stripe of several rows shows their mean.
    let stripes = n.min(((right - left) / 2.0) as usize).max(1);
    let rows_of = |s: usize| &order[s * n / stripes..((s + 1) * n / stripes).max(s * n / stripes + 1)];
    let mean = |s: usize, f: &dyn Fn(usize) -> f64| {
        let rows = rows_of(s);
        rows.iter().map(|&i| f(i) / rows.len() as f64).sum::<f64>()
    };
    let cells: Vec<Vec<f64>> =
        (0..names.len()).map(|k| (0..stripes).map(|s| mean(s, &|i| line_value(i, k))).collect()).collect();
    let mut sizes: Vec<f64> = cells.iter().flatten().map(|v| v.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    // The strongest colour is the 99% quantile, so that one outlier does not pale the rest.
    let quantile = sizes[((sizes.len() - 1) as f64 * 0.99) as usize];
    let largest = if quantile > 0.0 { quantile } else { sizes[sizes.len() - 1] };
    let bottom = top + pitch * names.len() as f64;
    let step = (right - left) / stripes as f64;
    let mut canvas = Canvas::new(options.theme);

    let predictions: Vec<f64> =
        (0..stripes).map(|s| mean(s, &|i| e.predictions[i * e.outputs() + o])).collect();
    let f_scale = Scale::covering(predictions.iter().copied(), top - 10.0, 12.0);
    for (value, label) in f_scale.ticks(28.0) {
        let y = f_scale.pixel(value);
        canvas.line((left, y), (right, y), Paint::Grid, false);
        canvas.text((right + 6.0, y), &label, Anchor::Start, Paint::Muted, 54.0);
    }
    canvas.text((left - 8.0, (top + 2.0) / 2.0), "f(x)", Anchor::End, Paint::Ink, room);
    let points: Vec<(f64, f64)> = predictions
        .iter()
        .enumerate()
        .map(|(s, &f)| (left + (s as f64 + 0.5) * step, f_scale.pixel(f)))
        .collect();
    canvas.polyline(&points, Paint::Ink);

    let level = |v: f64| if largest > 0.0 { (v / largest * 20.0).clamp(-20.0, 20.0).round() } else { 0.0 };
    for (k, name) in names.iter().enumerate() {
        let y = top + pitch * k as f64;
        canvas.text((left - 8.0, y + pitch / 2.0), name, Anchor::End, Paint::Ink, room);
        let mut start = 0;
        for s in 1..=stripes {
            if s == stripes || level(cells[k][s]) != level(cells[k][start]) {
                let v = level(cells[k][start]);
                let (x, w) = (left + start as f64 * step, (s - start) as f64 * step);
                canvas.rect(x, y, w, pitch - 1.0, Paint::of_sign(v), v.abs() / 20.0);
                start = s;
            }
        }
    }
    let [_, plural] = e.row_words();
    let order_name = if stripes < n {
        format!("{plural} by prediction (means of neighbours)")
    } else {
        format!("{plural} by prediction")
    };
    canvas.text(
        ((left + right) / 2.0, bottom + 14.0),
        &order_name,
        Anchor::Middle,
        Paint::Muted,
        right - left,
    );
    let (x, height) = (right + 8.0, (bottom - top).min(160.0));
    for k in 0..21 {
        let v = 1.0 - k as f64 / 10.0;
        canvas.rect(x, top + height * k as f64 / 21.0, 6.0, height / 21.0 + 0.3, Paint::of_sign(v), v.abs());
    }
    for (y, v) in [(top + 5.0, largest), (top + height - 5.0, -largest)] {
        canvas.text((x + 10.0, y), &format::signed(v), Anchor::Start, Paint::Muted, 52.0);
    }
    let target = if e.index.is_efficient() { "the prediction" } else { "the model’s output" };
    let about = format!(
        "{} of {n} {plural} in colour: orange raises {target}, blue lowers it; predictions above.",
        capital(&e.index.names())
    );
    canvas.finish(width, bottom + 28.0, &format!("Heat map of {}", e.index.names()), &about, "")
}
