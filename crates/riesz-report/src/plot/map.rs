//! A map of places with two coordinates. Each cell of a raster has the colour of the mean number, or of the
//! most frequent level, of its places.

use super::*;

/// Maximum number of cells along each side; more would be too small to see and would make pages large.
const MAX_CELLS: usize = 240;

/// Number of cells along either side of the coarse raster that finds the occupied area.
const COARSE: usize = 40;

/// The numbers or levels that a map shows.
pub(crate) enum Shown<'v> {
    /// A number for each place; a cell shows their mean. Colours span `ends`, or else the range of the means.
    Numbers { values: &'v [f64], ends: Option<[f64; 2]> },
    /// A level for each place, as a position in `names`; a cell shows the most frequent level.
    Levels { codes: &'v [usize], names: &'v [String] },
}

/// Draws places with the same scale in both directions. Longitudes are scaled by the cosine of the middle
/// latitude.
pub(super) fn draw(
    coordinates: [&[f64]; 2],
    shown: &Shown<'_>,
    (names, title): ([&str; 2], &str),
    options: &PlotOptions,
) -> Svg {
    let width = options.width as f64;
    // The legend is as wide as its names, up to a limit.
    let room = match shown {
        Shown::Numbers { .. } => 76.0,
        Shown::Levels { names, .. } => widest(names.iter(), 76.0).min(0.3 * width) + DOT,
    };
    let (left, right, top) = (72.0, width - room - 28.0, 12.0);
    let grid = Grid::new(coordinates, names);
    let scale = ((right - left) / grid.wide).min(1.2 * width / grid.tall);
    let (field_width, bottom) = (grid.wide * scale, top + grid.tall * scale);
    let mut canvas = Canvas::new(options.theme);
    let legend_frame = (left + field_width + 16.0, room);
    let about = match shown {
        Shown::Numbers { values, ends } => {
            let means = grid.means(coordinates, values);
            let range = format::range(means.iter().flatten().copied());
            let [low, high] = ends.unwrap_or(range);
            let share = |v: f64| if high > low { (v - low) / (high - low) } else { 0.5 };
            let paints: Vec<_> = means.iter().map(|mean| mean.map(|v| Paint::Ramp(share(v)))).collect();
            grid.paint(&mut canvas, &paints, [left, top, field_width, bottom - top], options.theme);
            let ends = [low, high].map(format::number);
            let labels = ends.each_ref().map(String::as_str);
            colour_bar(&mut canvas, legend_frame, (top, bottom.min(top + 220.0)), labels, title);
            format!("{title} from {} (blue) to {} (orange)", ends[0], ends[1])
        }
        Shown::Levels { codes: levels, names } => {
            let colours = Colours::levels(levels.iter().copied(), names);
            let most_frequent = grid.most_frequent(coordinates, levels, names.len());
            let paints: Vec<_> = most_frequent.iter().map(|level| level.map(|k| colours.0[k])).collect();
            grid.paint(&mut canvas, &paints, [left, top, field_width, bottom - top], options.theme);
            legend(&mut canvas, legend_frame.0, top, &colours.1, room + 8.0);
            let labels: Vec<&str> = colours.1.iter().map(|(_, name)| name.as_str()).collect();
            format!("{title}: {}", labels.join(", "))
        }
    };
    let across = Scale { lo: grid.spans[0][0], hi: grid.spans[0][1], from: left, to: left + field_width };
    let upwards = Scale { lo: grid.spans[1][0], hi: grid.spans[1][1], from: bottom, to: top };
    for (value, label) in across.ticks(80.0) {
        canvas.text((across.pixel(value), bottom + 14.0), &label, Anchor::Middle, Paint::Muted, 76.0);
    }
    for (value, label) in upwards.ticks(48.0) {
        y_label(&mut canvas, left, upwards.pixel(value), &label);
    }
    canvas.text(
        (left + field_width / 2.0, bottom + 32.0),
        names[0],
        Anchor::Middle,
        Paint::Muted,
        field_width,
    );
    canvas.vertical_text((14.0, (top + bottom) / 2.0), names[1], bottom - top);
    let about = format!("A map of {} places: {about}.", coordinates[0].len());
    canvas.finish(width, bottom + 46.0, title, &about, "")
}

/// The raster of a map.
struct Grid {
    spans: [[f64; 2]; 2],
    /// Numbers of cells from left to right, and from bottom to top.
    cells: [usize; 2],
    wide: f64,
    tall: f64,
}

impl Grid {
    fn new([x, y]: [&[f64]; 2], names: [&str; 2]) -> Self {
        let middle = |ends: [f64; 2]| (ends[0] + ends[1]) / 2.0;
        let stretch = if is_degrees(names) { middle(ends(y)).to_radians().cos().max(0.05) } else { 1.0 };
        let typical_step = spacing([x, y], stretch);
        let steps = [step(x, typical_step / stretch), step(y, typical_step)];
        let spans = [span(x, steps[0]), span(y, steps[1])];
        let cells = [cells(spans[0], steps[0]), cells(spans[1], steps[1])];
        let [wide, tall] = spans.map(|[low, high]| high - low);
        Self { spans, cells, wide: wide * stretch, tall }
    }

    /// The number of the cell of a place; rows of cells start at the bottom.
    fn cell(&self, x: f64, y: f64) -> usize {
        let [columns, rows] = self.cells;
        cell_index(y, self.spans[1], rows) * columns + cell_index(x, self.spans[0], columns)
    }

    /// The mean of each cell; `None` for cells without places.
    fn means(&self, [x, y]: [&[f64]; 2], values: &[f64]) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0_usize); self.cells[0] * self.cells[1]];
        for ((&x, &y), value) in x.iter().zip(y).zip(values) {
            let (sum, count) = &mut sums[self.cell(x, y)];
            (*sum, *count) = (*sum + value, *count + 1);
        }
        sums.iter().map(|(sum, count)| (*count > 0).then(|| sum / *count as f64)).collect()
    }

    /// The most frequent level of each cell; `None` for cells without places.
    fn most_frequent(
        &self,
        [x, y]: [&[f64]; 2],
        level_of_place: &[usize],
        levels: usize,
    ) -> Vec<Option<usize>> {
        let mut counts = vec![0_usize; self.cells[0] * self.cells[1] * levels];
        for ((&x, &y), level) in x.iter().zip(y).zip(level_of_place) {
            counts[self.cell(x, y) * levels + level] += 1;
        }
        let first = |counts_of_cell: &[usize]| {
            let highest = counts_of_cell.iter().copied().max().filter(|largest| *largest > 0)?;
            counts_of_cell.iter().position(|count| *count == highest)
        };
        counts.chunks(levels).map(first).collect()
    }

    /// Draws the cells in the field from (left, top) with this `width` and `height`.
    fn paint(
        &self,
        canvas: &mut Canvas,
        paints: &[Option<Paint>],
        [left, top, width, height]: [f64; 4],
        theme: Theme,
    ) {
        let [columns, rows] = self.cells;
        if theme == Theme::Auto {
            // Pages embed an image, since shapes take a hundred times its bytes. Its rows start at the top.
            let from_top: Vec<Option<Paint>> =
                paints.chunks(columns).rev().flat_map(|row| row.iter().copied()).collect();
            canvas.picture([left, top, width, height], &from_top, columns);
            return;
        }
        let (across, up) = (width / columns as f64, height / rows as f64);
        for (cell, paint) in paints.iter().enumerate().filter_map(|(cell, paint)| Some((cell, (*paint)?))) {
            let (column, row) = ((cell % columns) as f64, (cell / columns) as f64);
            let (x, y) = (left + across * column, top + height - up * (row + 1.0));
            // Slightly larger rectangles leave no gaps between neighbours.
            canvas.rect(x, y, across + 0.3, up + 0.3, paint, 1.0);
        }
    }
}

fn ends(coordinates: &[f64]) -> [f64; 2] {
    format::range(coordinates.iter().copied())
}

/// The range of the coordinates, extended by half a cell at both ends.
fn span(coordinates: &[f64], step: f64) -> [f64; 2] {
    let [low, high] = ends(coordinates);
    [low - step / 2.0, high + step / 2.0]
}

/// The mean distance of neighbouring places, from the area of the occupied cells of a coarse raster.
fn spacing([x, y]: [&[f64]; 2], stretch: f64) -> f64 {
    let spans = [ends(x), ends(y)].map(|[low, high]| [low, if high > low { high } else { low + 1.0 }]);
    let mut occupied = vec![false; COARSE * COARSE];
    x.iter().zip(y).for_each(|(&x, &y)| {
        occupied[cell_index(y, spans[1], COARSE) * COARSE + cell_index(x, spans[0], COARSE)] = true;
    });
    let share = occupied.iter().filter(|flag| **flag).count() as f64 / occupied.len() as f64;
    let [wide, tall] = spans.map(|[low, high]| high - low);
    (share * wide * stretch * tall / x.len() as f64).sqrt()
}

/// The side of a cell along one coordinate. For places on a grid it is the median distance of distinct
/// neighbouring coordinates, for scattered places 1.2 times their mean distance `typical_step`. It is
/// at least large enough for [`MAX_CELLS`] cells.
fn step(coordinates: &[f64], typical_step: f64) -> f64 {
    let [low, high] = ends(coordinates);
    let extent = high - low;
    let mut sorted = coordinates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut gaps: Vec<f64> = sorted.windows(2).map(|w| w[1] - w[0]).filter(|d| *d > 1e-4 * extent).collect();
    gaps.sort_by(f64::total_cmp);
    let grid = gaps.get(gaps.len() / 2).copied().unwrap_or(1.0);
    // A grid has far fewer distinct coordinates than places.
    let scattered = grid < 0.7 * typical_step && gaps.len() > 2 * (coordinates.len() as f64).sqrt() as usize;
    let size = if scattered { 1.2 * typical_step } else { grid };
    if extent > 0.0 { size.max(extent / (MAX_CELLS - 1) as f64) } else { size }
}

fn cells([low, high]: [f64; 2], step: f64) -> usize {
    (((high - low) / step).round() as usize).clamp(1, MAX_CELLS)
}

fn cell_index(value: f64, span: [f64; 2], count: usize) -> usize {
    (((value - span[0]) / (span[1] - span[0]) * count as f64) as usize).min(count - 1)
}

fn is_degrees(names: [&str; 2]) -> bool {
    let [x, y] = names.map(|name| name.to_lowercase());
    ["lon", "long", "longitude", "lng"].contains(&&x[..]) && ["lat", "latitude"].contains(&&y[..])
}
