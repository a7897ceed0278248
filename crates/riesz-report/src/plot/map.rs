//! Numbers of places as a map: rows with two coordinates in the cells of a raster, coloured from low to high.

use super::*;

/// The most cells along the longer side: more cannot be told apart, and pages get heavy.
const MOST: usize = 240;

/// Cells along either side of the raster that tells where there are places at all.
const COARSE: usize = 40;

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
    let middle = |ends: [f64; 2]| (ends[0] + ends[1]) / 2.0;
    let stretch = if is_degrees(names) { middle(ends(y)).to_radians().cos().max(0.05) } else { 1.0 };
    let apart = spacing([x, y], stretch);
    let steps = [step(x, apart / stretch), step(y, apart)];
    let [spans_x, spans_y] = [span(x, steps[0]), span(y, steps[1])];
    let [wide, tall] = [(spans_x[1] - spans_x[0]) * stretch, spans_y[1] - spans_y[0]];
    let scale = ((right - left) / wide).min(1.2 * width / tall);
    let (field, bottom) = (wide * scale, top + tall * scale);
    let [columns, rows] = [cells(spans_x, steps[0]), cells(spans_y, steps[1])];
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
    let labels = ends.each_ref().map(String::as_str);
    colour_bar(&mut canvas, (left + field + 16.0, 76.0), (top, bottom.min(top + 220.0)), labels, title);
    let about =
        format!("A map of {} places: {title} from {} (blue) to {} (orange).", values.len(), ends[0], ends[1]);
    canvas.finish(width, bottom + 46.0, title, &about, "")
}

fn ends(places: &[f64]) -> [f64; 2] {
    places.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |all, v| [all[0].min(*v), all[1].max(*v)])
}

/// From half a cell before the first to half a cell behind the last.
fn span(places: &[f64], step: f64) -> [f64; 2] {
    let [low, high] = ends(places);
    [low - step / 2.0, high + step / 2.0]
}

/// How far places are apart, as if they were a grid over the area where there are some: that of the cells of a coarse raster that have one.
fn spacing([x, y]: [&[f64]; 2], stretch: f64) -> f64 {
    let spans = [ends(x), ends(y)].map(|[low, high]| [low, if high > low { high } else { low + 1.0 }]);
    let mut some = vec![false; COARSE * COARSE];
    x.iter().zip(y).for_each(|(&x, &y)| {
        some[place(y, spans[1], COARSE) * COARSE + place(x, spans[0], COARSE)] = true;
    });
    let share = some.iter().filter(|own| **own).count() as f64 / some.len() as f64;
    let [wide, tall] = spans.map(|[low, high]| high - low);
    (share * wide * stretch * tall / x.len() as f64).sqrt()
}

/// The side of a cell: where places are a grid the median distance of different neighbours, and where they are scattered what they are `apart`; at least the share of the whole that one
/// of the most cells takes.
fn step(places: &[f64], apart: f64) -> f64 {
    let [low, high] = ends(places);
    let whole = high - low;
    let mut sorted = places.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut between: Vec<f64> =
        sorted.windows(2).map(|w| w[1] - w[0]).filter(|d| *d > 1e-4 * whole).collect();
    between.sort_by(f64::total_cmp);
    let grid = between.get(between.len() / 2).copied().unwrap_or(1.0);
    // Of a grid there are far fewer different coordinates than places.
    let scattered = grid < 0.7 * apart && between.len() > 2 * (places.len() as f64).sqrt() as usize;
    let own = if scattered { 1.2 * apart } else { grid };
    if whole > 0.0 { own.max(whole / (MOST - 1) as f64) } else { own }
}

fn cells([low, high]: [f64; 2], step: f64) -> usize {
    (((high - low) / step).round() as usize).clamp(1, MOST)
}

fn place(value: f64, span: [f64; 2], count: usize) -> usize {
    (((value - span[0]) / (span[1] - span[0]) * count as f64) as usize).min(count - 1)
}

fn is_degrees(names: [&str; 2]) -> bool {
    let [x, y] = names.map(|name| name.to_lowercase());
    ["lon", "long", "longitude", "lng"].contains(&&x[..]) && ["lat", "latitude"].contains(&&y[..])
}
