//! Maps: points in the cells of a raster.

use riesz_report::{Area, Places, PlotOptions, Svg, Theme, render_map};

/// Returns cells as (x, y, width, height, colour), without the steps of the colour bar.
fn cells(svg: &Svg, colours: usize) -> Vec<([f64; 4], String)> {
    let document = roxmltree::Document::parse(&svg.text).unwrap();
    let rects = document.descendants().filter(|node| node.has_tag_name("rect") && node.has_attribute("x"));
    let rectangles = rects.map(|node| {
        let attribute = |name: &str| node.attribute(name).unwrap().parse::<f64>().unwrap();
        (["x", "y", "width", "height"].map(attribute), node.attribute("fill").unwrap_or_default().to_string())
    });
    rectangles.take(colours).collect()
}

/// Returns a grid of 4 × 3 cells with one point each, except one with two points and one with none.
fn grid() -> ([Vec<f64>; 2], Vec<f64>) {
    let indices = (0..12).filter(|i| *i != 6).chain([1]);
    let (x, y) = indices.map(|i| (-100.0 + f64::from(i % 4), 40.0 + f64::from(i / 4))).unzip();
    ([x, y], (0..12).map(f64::from).collect())
}

#[test]
fn cells_show_the_mean_of_their_places() {
    let ([x, y], mut values) = grid();
    let draw = |values: &[f64]| {
        render_map(Places::Points([&x, &y]), values, ["x", "y"], "rate <1>", &PlotOptions::default()).unwrap()
    };
    // The last point shares the cell of the second.
    values[11] = 5.0;
    let (apart, drawn_cells) = (draw(&values), cells(&draw(&values), 11));
    let colour = |column: usize, row: usize| {
        let mut columns: Vec<f64> = drawn_cells.iter().map(|(r, _)| r[0]).collect();
        let mut rows: Vec<f64> = drawn_cells.iter().map(|(r, _)| r[1]).collect();
        for list in [&mut columns, &mut rows] {
            list.sort_by(f64::total_cmp);
            list.dedup();
        }
        // The smallest y is at the bottom.
        let corner = [columns[column], rows[2 - row]];
        drawn_cells.iter().find(|(r, _)| r[..2] == corner).map(|(_, fill)| fill.clone())
    };
    assert_eq!(colour(2, 1), None);
    // (1 + 5) / 2 is the value of the fourth cell.
    assert_eq!(colour(1, 0), colour(3, 0));
    assert_ne!(colour(0, 0), colour(3, 2));
    // If x and y have the same unit, cells are squares.
    assert!(drawn_cells.iter().all(|(r, _)| (r[2] - r[3]).abs() < 1e-9 && r[2] > 1.0), "{drawn_cells:?}");
    assert!(apart.text.contains("rate &lt;1&gt;") && apart.text.contains("12 places"));
    let tiny: Vec<f64> = values.iter().map(|v| -1.23e-4 * (v + 1.0)).collect();
    assert!(!draw(&tiny).text.contains('…'));
    values[1] = 9.0;
    assert_ne!(apart.text, draw(&values).text);
}

#[test]
fn degrees_of_longitude_shrink_with_latitude() {
    let ([x, y], values) = grid();
    let draw = |names| {
        render_map(Places::Points([&x, &y]), &values, names, "rate", &PlotOptions::default()).unwrap()
    };
    let first_cell = |svg: &Svg| cells(svg, 1)[0].0;
    let [degrees, plain] = [["longitude", "lat"], ["east", "north"]].map(|names| first_cell(&draw(names)));
    let ratio = (degrees[2] - 0.3) / (degrees[3] - 0.3);
    assert!((ratio - 41.0_f64.to_radians().cos()).abs() < 1e-3, "{ratio}");
    assert!((plain[2] - plain[3]).abs() < 1e-9);
}

#[test]
fn maps_are_drawn_of_one_place_of_equal_values_and_of_many() {
    for theme in [Theme::Light, Theme::Dark] {
        let options = PlotOptions { theme, ..Default::default() };
        let single =
            render_map(Places::Points([&[3.0], &[4.0]]), &[7.0], ["x", "y"], "rate", &options).unwrap();
        assert!(!single.text.contains("NaN") && !single.text.contains("inf"));
        let indices: Vec<f64> = (0..90_000).map(f64::from).collect();
        let (x, y) =
            indices.iter().map(|i| ((i / 300.0).floor(), i % 300.0)).unzip::<_, _, Vec<f64>, Vec<f64>>();
        let raster =
            render_map(Places::Points([&x, &y]), &vec![1.0; indices.len()], ["x", "y"], "rate", &options)
                .unwrap();
        let count = raster.text.matches("<rect").count();
        // There are at most as many cells as the raster has, and no cell is empty.
        assert!((239 * 239..240 * 240 + 30).contains(&count), "{count}");
    }
}

#[test]
fn maps_refuse_invalid_places() {
    let draw = |x: &[f64], y: &[f64], v: &[f64]| {
        render_map(Places::Points([x, y]), v, ["east", "north"], "rate", &PlotOptions::default())
            .err()
            .map(|e| e.to_string())
    };
    let check_refusal = |x: &[f64], y: &[f64], v: &[f64], part: &str| {
        let message = draw(x, y, v).unwrap_or_default();
        assert!(message.contains(part), "{message}");
    };
    check_refusal(&[], &[], &[], "list of places");
    check_refusal(&[1.0, 2.0], &[1.0], &[1.0, 2.0], "2 are expected");
    check_refusal(&[1.0, f64::NAN], &[1.0, 2.0], &[1.0, 2.0], "'east'");
    check_refusal(&[1.0, 2.0], &[1.0, 2.0], &[1.0, f64::INFINITY], "'rate'");
}

/// Points without a grid are drawn in cells with about one point each, without gaps between neighbours.
#[test]
fn scattered_places_have_cells_without_gaps() {
    let coordinate = |i: u64, times: u64| (i * times % 10_007) as f64 / 10_007.0;
    let (x, y): (Vec<f64>, Vec<f64>) =
        (1..3000).map(|i| (coordinate(i, 7919), coordinate(i, 104_729))).unzip();
    let svg = render_map(Places::Points([&x, &y]), &x, ["x", "y"], "rate", &PlotOptions::default()).unwrap();
    let drawn_cells = cells(&svg, usize::MAX);
    let field: Vec<&[f64; 4]> =
        drawn_cells.iter().map(|(r, _)| r).filter(|r| (r[2] - drawn_cells[0].0[2]).abs() < 1e-9).collect();
    let sides = field.iter().map(|r| (r[2] - 0.3) * (r[3] - 0.3)).sum::<f64>();
    let drawn = (field[0][2] - 0.3) / (1.2 * (1.0_f64 / 2999.0).sqrt());
    assert!(sides / (drawn * drawn) > 0.6, "{}", sides / (drawn * drawn));
}

/// Red, green and blue of a colour, as shares of 1.
fn rgb(colour: &str) -> [f64; 3] {
    [1, 3, 5].map(|start| f64::from(u8::from_str_radix(&colour[start..start + 2], 16).unwrap()) / 255.0)
}

#[test]
fn numbers_of_one_sign_have_sequential_colours_and_others_diverging_ones() {
    let x: Vec<f64> = (0..5).map(f64::from).collect();
    let y = [0.0; 5];
    let colours = |values: [f64; 5]| {
        let svg = render_map(Places::Points([&x, &y]), &values, ["x", "y"], "rate", &PlotOptions::default())
            .unwrap();
        let mut drawn = cells(&svg, 5);
        drawn.sort_by(|a, b| a.0[0].total_cmp(&b.0[0]));
        (drawn.into_iter().map(|(_, fill)| fill).collect::<Vec<_>>(), svg.text)
    };
    // Larger numbers are darker, by the luminance of the sRGB standard.
    let luminance = |colour: &String| {
        let linear =
            rgb(colour).map(|c| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    };
    let (sequential, text) = colours([0.0, 1.0, 2.0, 3.0, 4.0]);
    assert!(
        sequential.windows(2).all(|pair| luminance(&pair[0]) > luminance(&pair[1]) + 0.02),
        "{sequential:?}"
    );
    assert!(text.contains("from 0 (yellow) to 4 (violet)"));
    // Zero is grey wherever it lies between numbers of both signs.
    let (diverging, text) = colours([-1.0, 0.0, 1.0, 2.0, 4.0]);
    let [red, green, blue] = rgb(&diverging[1]);
    assert!((red - green).abs() < 0.03 && (green - blue).abs() < 0.03, "{diverging:?}");
    assert!(rgb(&diverging[0])[2] > rgb(&diverging[0])[0] && rgb(&diverging[4])[0] > rgb(&diverging[4])[2]);
    assert!(
        text.contains("from -4 (blue) to 4 (orange)") || text.contains("from −4 (blue) to 4 (orange)"),
        "{text}"
    );
    assert!(sequential.iter().all(|colour| !diverging.contains(colour)));
}

#[test]
fn areas_are_checked() {
    let square = Area { name: "a".into(), rings: vec![vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]] };
    let draw = |areas: &[Area], values: &[f64]| {
        let options = PlotOptions::default();
        render_map(Places::Areas(areas), values, ["x", "y"], "rate", &options)
            .map_err(|error| error.to_string())
    };
    let single = std::slice::from_ref(&square);
    assert!(draw(single, &[1.0]).is_ok_and(|svg| svg.text.contains("A map of 1 areas")));
    assert!(draw(single, &[1.0, 2.0]).is_err());
    assert!(draw(&[Area::default()], &[1.0]).unwrap_err().contains("an area"));
    let mut broken = square;
    broken.rings[0][0][1] = f64::NAN;
    assert!(draw(&[broken], &[1.0]).unwrap_err().contains("'y'"));
}
