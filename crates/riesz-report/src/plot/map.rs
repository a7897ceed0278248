//! A map of places. Places that are points fall into the cells of a raster, which have the colour of the mean
//! number, or of the most frequent level, of their places. Places that are areas are drawn with their
//! outlines. Longitudes and latitudes are drawn in the equirectangular projection: longitudes are scaled by
//! the cosine of the middle latitude.

use super::*;

/// Maximum number of cells along each side; more would be too small to see and would make pages large.
const MAX_CELLS: usize = 240;

/// Number of cells along either side of the coarse raster that finds the occupied area.
const COARSE: usize = 40;

/// The numbers or levels that a map shows.
pub(crate) enum Shown<'v> {
    /// A number for each place; a cell shows their mean. Colours span `ends`, symmetric
    /// about 0, or else the range of the means.
    Numbers { values: &'v [f64], ends: Option<[f64; 2]> },
    /// A level for each place, as a position in `names`; a cell shows the most frequent level.
    Levels { codes: &'v [usize], names: &'v [String] },
}

/// The location of each row of a map.
#[derive(Debug, Clone, Copy)]
pub enum Places<'p> {
    /// A point for each row: all horizontal coordinates, and all vertical ones.
    Points([&'p [f64]; 2]),
    /// An area for each row.
    Areas(&'p [Area]),
}

impl Places<'_> {
    /// The number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Points([x, _]) => x.len(),
            Self::Areas(areas) => areas.len(),
        }
    }
}

/// An area, bounded by closed rings of points. A point is inside if a line from it to infinity crosses the
/// rings an odd number of times, so that rings within others are holes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Area {
    /// The area's name, which pictures show as a tooltip.
    pub name: String,
    /// The rings, each a list of points (horizontal, vertical).
    pub rings: Vec<Vec<[f64; 2]>>,
}

/// The colours of numbers between two ends.
struct NumberColours {
    ends: [f64; 2],
    /// Whether numbers have both signs, with 0 in the middle of a diverging ramp; otherwise the ramp is
    /// sequential.
    signed: bool,
}

impl NumberColours {
    /// The colours of numbers in `range`, or between stated `ends`, which are symmetric about 0.
    fn new(ends: Option<[f64; 2]>, range: [f64; 2]) -> Self {
        let largest = range[1].max(-range[0]);
        match ends {
            Some(ends) => Self { ends, signed: true },
            None if range[0] < 0.0 && range[1] > 0.0 => Self { ends: [-largest, largest], signed: true },
            None => Self { ends: range, signed: false },
        }
    }

    fn paint(&self, value: f64) -> Paint {
        let [low, high] = self.ends;
        self.paint_of_share(if high > low { (value - low) / (high - low) } else { 0.5 })
    }

    /// The colour of a share of the range, from 0 to 1.
    fn paint_of_share(&self, share: f64) -> Paint {
        if self.signed { Paint::Ramp(share) } else { Paint::Sequential(share) }
    }

    /// The names of the colours of the smallest and the largest number.
    fn names(&self) -> [&'static str; 2] {
        if self.signed { ["blue", "orange"] } else { ["yellow", "violet"] }
    }
}

/// Draws places with the same scale in both directions. Longitudes are scaled by the cosine of the middle
/// latitude.
pub(super) fn draw(
    places: Places<'_>,
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
    let field = Field::new(places, names);
    let [wide, tall] = field.size();
    let scale = ((right - left) / wide).min(1.2 * width / tall);
    let frame = [left, top, wide * scale, tall * scale];
    let mut canvas = Canvas::new(options.theme);
    let about = draw_field(&mut canvas, &field, (shown, title), (frame, room), options.theme);
    draw_axes(&mut canvas, field.spans(), frame, names);
    let kind = if matches!(places, Places::Areas(_)) { "areas" } else { "places" };
    let about = format!("A map of {} {kind}: {about}.", places.count());
    canvas.finish(width, top + tall * scale + 46.0, title, &about, "")
}

/// Draws the places in their colours and the legend; returns a description of the colours.
fn draw_field(
    canvas: &mut Canvas,
    field: &Field<'_>,
    (shown, title): (&Shown<'_>, &str),
    (frame, room): ([f64; 4], f64),
    theme: Theme,
) -> String {
    let [left, top, field_width, height] = frame;
    let legend_frame = (left + field_width + 16.0, room);
    match shown {
        Shown::Numbers { values, ends } => {
            let means = field.means(values);
            let colours = NumberColours::new(*ends, format::range(means.iter().flatten().copied()));
            let paints: Vec<_> = means.iter().map(|mean| mean.map(|v| colours.paint(v))).collect();
            field.paint(canvas, &paints, |k| format::number(values[k]), (frame, theme));
            let ends = colours.ends.map(format::number);
            let labels = ends.each_ref().map(String::as_str);
            let bottom = top + height.min(220.0);
            colour_bar(canvas, legend_frame, (top, bottom), (labels, title), |share| {
                colours.paint_of_share(share)
            });
            let [low, high] = colours.names();
            format!("{title} from {} ({low}) to {} ({high})", ends[0], ends[1])
        }
        Shown::Levels { codes: levels, names } => {
            let colours = Colours::levels(levels.iter().copied(), names);
            let most_frequent = field.most_frequent(levels, names.len());
            let paints: Vec<_> = most_frequent.iter().map(|level| level.map(|k| colours.0[k])).collect();
            field.paint(canvas, &paints, |k| names[levels[k]].clone(), (frame, theme));
            legend(canvas, legend_frame.0, top, &colours.1, room + 8.0);
            let labels: Vec<&str> = colours.1.iter().map(|(_, name)| name.as_str()).collect();
            format!("{title}: {}", labels.join(", "))
        }
    }
}

/// Draws the labels of both axes around the field.
fn draw_axes(
    canvas: &mut Canvas,
    spans: [[f64; 2]; 2],
    [left, top, width, height]: [f64; 4],
    names: [&str; 2],
) {
    let bottom = top + height;
    let across = Scale { lo: spans[0][0], hi: spans[0][1], from: left, to: left + width };
    let upwards = Scale { lo: spans[1][0], hi: spans[1][1], from: bottom, to: top };
    for (value, label) in across.ticks(80.0) {
        canvas.text((across.pixel(value), bottom + 14.0), &label, Anchor::Middle, Paint::Muted, 76.0);
    }
    for (value, label) in upwards.ticks(48.0) {
        y_label(canvas, left, upwards.pixel(value), &label);
    }
    canvas.text((left + width / 2.0, bottom + 32.0), names[0], Anchor::Middle, Paint::Muted, width);
    canvas.vertical_text((14.0, (top + bottom) / 2.0), names[1], bottom - top);
}

/// The part of a picture that shows the places.
enum Field<'p> {
    /// A raster, and the points that fall into its cells.
    Raster(Grid, [&'p [f64]; 2]),
    /// Areas, the ranges of their coordinates, and the scale of the horizontal coordinate.
    Outlines { areas: &'p [Area], spans: [[f64; 2]; 2], stretch: f64 },
}

impl<'p> Field<'p> {
    fn new(places: Places<'p>, names: [&str; 2]) -> Self {
        let areas = match places {
            Places::Points(coordinates) => return Self::Raster(Grid::new(coordinates, names), coordinates),
            Places::Areas(areas) => areas,
        };
        let points = || areas.iter().flat_map(|area| area.rings.iter().flatten());
        let spans = [0, 1].map(|k| widened(format::range(points().map(|point| point[k]))));
        Self::Outlines { areas, spans, stretch: stretch(spans[1], names) }
    }

    fn spans(&self) -> [[f64; 2]; 2] {
        match self {
            Self::Raster(grid, _) => grid.spans,
            Self::Outlines { spans, .. } => *spans,
        }
    }

    /// Width and height, in units of the vertical coordinate.
    fn size(&self) -> [f64; 2] {
        match self {
            Self::Raster(grid, _) => [grid.wide, grid.tall],
            Self::Outlines { spans: [x, y], stretch, .. } => [(x[1] - x[0]) * stretch, y[1] - y[0]],
        }
    }

    /// The number of each cell or area; `None` for cells without places.
    fn means(&self, values: &[f64]) -> Vec<Option<f64>> {
        match self {
            Self::Raster(grid, coordinates) => grid.means(*coordinates, values),
            Self::Outlines { .. } => values.iter().copied().map(Some).collect(),
        }
    }

    /// The level of each cell or area; `None` for cells without places.
    fn most_frequent(&self, level_of_place: &[usize], levels: usize) -> Vec<Option<usize>> {
        match self {
            Self::Raster(grid, coordinates) => grid.most_frequent(*coordinates, level_of_place, levels),
            Self::Outlines { .. } => level_of_place.iter().copied().map(Some).collect(),
        }
    }

    /// Draws the cells or areas; `label` describes what an area shows.
    fn paint(
        &self,
        canvas: &mut Canvas,
        paints: &[Option<Paint>],
        label: impl Fn(usize) -> String,
        (frame, theme): ([f64; 4], Theme),
    ) {
        let (areas, [x, y]) = match self {
            Self::Raster(grid, _) => return grid.paint(canvas, paints, frame, theme),
            Self::Outlines { areas, spans, .. } => (areas, spans),
        };
        let [left, top, width, height] = frame;
        let across = Scale { lo: x[0], hi: x[1], from: left, to: left + width };
        let upwards = Scale { lo: y[0], hi: y[1], from: top + height, to: top };
        for (k, (area, paint)) in areas.iter().zip(paints).enumerate() {
            let ring = |ring: &Vec<[f64; 2]>| {
                ring.iter().map(|&[x, y]| (across.pixel(x), upwards.pixel(y))).collect()
            };
            let rings: Vec<Vec<(f64, f64)>> = area.rings.iter().map(ring).collect();
            let tooltip = format!("{}: {}", area.name, label(k));
            canvas.area(&rings, paint.unwrap_or(Paint::Neutral), &tooltip);
        }
    }
}

/// A range that is not empty.
fn widened([low, high]: [f64; 2]) -> [f64; 2] {
    if high > low { [low, high] } else { [low - 0.5, high + 0.5] }
}

/// The scale of the horizontal coordinate in units of the vertical one: the cosine of the middle latitude for
/// longitudes, else 1.
fn stretch([low, high]: [f64; 2], names: [&str; 2]) -> f64 {
    if is_degrees(names) { ((low + high) / 2.0).to_radians().cos().max(0.05) } else { 1.0 }
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
        let stretch = stretch(ends(y), names);
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
