//! Numbers of places as a map: rows with two coordinates in the cells of a raster, coloured from low to high.

use super::*;

/// The most cells along the longer side: more cannot be told apart, and pages get heavy.
const MOST: usize = 240;

/// A cell of the raster.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    sum: f64,
    count: usize,
}

/// Draws values at places, those of a cell as their mean. Places are drawn as far apart in both directions; longitude and latitude as they appear at the middle latitude.
pub(super) fn draw(
    [x, y]: [&[f64]; 2],
    values: &[f64],
    (names, title): ([&str; 2], &str),
    options: &PlotOptions,
) -> Svg {
    let width = options.width as f64;
    let (left, right, top) = (72.0, width - 104.0, 12.0);
    let [spans_x, spans_y] = [x, y].map(span);
    let stretch =
        if is_degrees(names) { ((spans_y[0] + spans_y[1]) / 2.0).to_radians().cos().max(0.05) } else { 1.0 };
    let [wide, tall] = [(spans_x[1] - spans_x[0]) * stretch, spans_y[1] - spans_y[0]];
    let scale = ((right - left) / wide).min(1.2 * width / tall);
    let (field, bottom) = (wide * scale, top + tall * scale);
    let [columns, rows] = [cells(x, spans_x), cells(y, spans_y)];
    let mut raster = vec![Cell::default(); columns * rows];
    for ((&x, &y), &value) in x.iter().zip(y).zip(values) {
        let cell = &mut raster[place(y, spans_y, rows) * columns + place(x, spans_x, columns)];
        *cell = Cell { sum: cell.sum + value, count: cell.count + 1 };
    }
    let mean = |cell: &Cell| cell.sum / cell.count as f64;
    let shown = raster.iter().filter(|cell| cell.count > 0).map(mean);
    let [low, high] = shown.fold([f64::INFINITY, f64::NEG_INFINITY], |all, v| [all[0].min(v), all[1].max(v)]);
    let mut canvas = Canvas::new(options.theme);
    let (across, up) = (field / columns as f64, (bottom - top) / rows as f64);
    for (at, cell) in raster.iter().enumerate().filter(|(_, cell)| cell.count > 0) {
        let (column, row) = ((at % columns) as f64, (at / columns) as f64);
        let share = if high > low { (mean(cell) - low) / (high - low) } else { 0.5 };
        let (x, y) = (left + across * column, bottom - up * (row + 1.0));
        // A little wider than the cell, or paper shows between neighbours.
        canvas.rect(x, y, across + 0.3, up + 0.3, Paint::Ramp(share), 1.0);
    }
    let across = Scale { lo: spans_x[0], hi: spans_x[1], from: left, to: left + field };
    let upwards = Scale { lo: spans_y[0], hi: spans_y[1], from: bottom, to: top };
    for (value, label) in across.ticks(80.0) {
        canvas.text((across.at(value), bottom + 14.0), &label, Anchor::Middle, Paint::Muted, 76.0);
    }
    for (value, label) in upwards.ticks(48.0) {
        canvas.text((left - 8.0, upwards.at(value)), &label, Anchor::End, Paint::Muted, left - 26.0);
    }
    canvas.text((left + field / 2.0, bottom + 32.0), names[0], Anchor::Middle, Paint::Muted, field);
    canvas.text_up((14.0, (top + bottom) / 2.0), names[1], bottom - top);
    let ends = [low, high].map(format::number);
    colour_bar(&mut canvas, left + field + 16.0, top, bottom.min(top + 220.0), &ends[0], &ends[1], title);
    let about =
        format!("A map of {} places: {title} from {} (blue) to {} (orange).", values.len(), ends[0], ends[1]);
    canvas.finish(width, bottom + 46.0, title, &about, "")
}

/// From half a cell before the first to half a cell behind the last.
fn span(places: &[f64]) -> [f64; 2] {
    let [low, high] =
        places.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |all, v| [all[0].min(*v), all[1].max(*v)]);
    let half = step(places, high - low) / 2.0;
    [low - half, high + half]
}

/// How far places are apart: the median distance of different neighbours, at least the share of the whole that one of the most cells takes.
fn step(places: &[f64], whole: f64) -> f64 {
    let mut sorted = places.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut apart: Vec<f64> = sorted.windows(2).map(|w| w[1] - w[0]).filter(|d| *d > 1e-4 * whole).collect();
    apart.sort_by(f64::total_cmp);
    let typical = apart.get(apart.len() / 2).copied().unwrap_or(1.0);
    if whole > 0.0 { typical.max(whole / (MOST - 1) as f64) } else { typical }
}

fn cells(places: &[f64], span: [f64; 2]) -> usize {
    let whole = span[1] - span[0];
    ((whole / step(places, whole)).round() as usize).clamp(1, MOST)
}

fn place(value: f64, span: [f64; 2], count: usize) -> usize {
    (((value - span[0]) / (span[1] - span[0]) * count as f64) as usize).min(count - 1)
}

fn is_degrees(names: [&str; 2]) -> bool {
    let [x, y] = names.map(|name| name.to_lowercase());
    ["lon", "long", "longitude", "lng"].contains(&&x[..]) && ["lat", "latitude"].contains(&&y[..])
}
