//! Pages of maps and bags: cells of maps, listed bags and features, and adversarial names.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use resvg::tiny_skia::Pixmap;
use riesz::aggregate::TargetUnit;
use riesz::kernel_model::Link;
use riesz::{Error, Explanation};
use riesz_report::{DownscalePage, PageBags, Places, downscale_report};

use crate::common::explanation;

/// A page of a grid of 4 × 3 points, from the bottom left.
struct Grid {
    x: Vec<f64>,
    y: Vec<f64>,
    explanation: Explanation,
}

impl Grid {
    fn new(names: &[&str]) -> Self {
        let (x, y) = (0..12).map(|i| (f64::from(i % 4), f64::from(i / 4))).unzip();
        Self { x, y, explanation: explanation(12, names, 1) }
    }

    fn page<'p>(&'p self, bags: Option<PageBags<'p>>) -> DownscalePage<'p> {
        DownscalePage {
            n_models: 1,
            title: "<b>",
            quantity: "rate",
            link: Link::Identity,
            places: Places::Points([&self.x, &self.y]),
            axes: ["east", "north"],
            mean: &self.explanation.predictions,
            sd: &self.x,
            explanation: &self.explanation,
            bags,
        }
    }
}

/// Returns the pictures of a page.
fn pictures(page: &str) -> Vec<Pixmap> {
    let begin = "data:image/png;base64,";
    let text = |(start, _): (usize, &str)| page[start + begin.len()..].split('"').next().unwrap().to_string();
    let texts = page.match_indices(begin).map(text);
    texts.map(|text| Pixmap::decode_png(&BASE64_STANDARD.decode(text).unwrap()).unwrap()).collect()
}

fn colour(picture: &Pixmap, column: u32, row: u32) -> [u8; 4] {
    let pixel = picture.pixel(column, row).unwrap();
    [pixel.red(), pixel.green(), pixel.blue(), pixel.alpha()]
}

const BLUE: [u8; 4] = [31, 119, 190, 255];
const ORANGE: [u8; 4] = [217, 95, 2, 255];
const YELLOW: [u8; 4] = [244, 230, 30, 255];
const VIOLET: [u8; 4] = [70, 50, 126, 255];
const LEVELS: [[u8; 4]; 2] = [[0x4a, 0x6f, 0xd0, 255], [0xb0, 0x7d, 0x00, 255]];

#[test]
fn map_cells_show_values_of_their_places() {
    let mut grid = Grid::new(&["a", "b"]);
    // Feature b is the larger one, and negative, only at the two points on the top right.
    grid.explanation.values = (0..12).flat_map(|i| [2.0, if i >= 10 { -4.0 } else { 1.0 }]).collect();
    grid.explanation.predictions = grid.explanation.values.chunks(2).map(|v| 1.5 + v[0] + v[1]).collect();
    let text = downscale_report(&grid.page(None)).unwrap();
    let [mean, sd, top, first, second] = &pictures(&text)[..] else { panic!("five maps: {text}") };
    assert!([mean, sd, top, first, second].iter().all(|p| (p.width(), p.height()) == (4, 3)));
    // The rate is 4.5, and -0.5 on the top right, which is nearly grey; rows are written from the top.
    let nearly_zero = colour(mean, 3, 0);
    assert_eq!([colour(mean, 0, 0), colour(mean, 3, 2)], [ORANGE; 2]);
    assert!(nearly_zero[2] > nearly_zero[0] && nearly_zero[0] > 100, "{nearly_zero:?}");
    // Standard deviations have sequential colours.
    assert_eq!([colour(sd, 0, 1), colour(sd, 3, 1)], [YELLOW, VIOLET]);
    let of_top = [(0, 0, 0), (1, 0, 0), (2, 0, 1), (3, 0, 1), (3, 1, 0), (0, 2, 0)];
    for (column, row, level) in of_top {
        assert_eq!(colour(top, column, row), LEVELS[level], "{column} {row}");
    }
    // Features share one scale around 0: -4 to 4. The first is a, by mean |value|.
    assert_eq!(colour(second, 3, 0), BLUE);
    let middle = colour(first, 0, 0);
    assert!(middle != ORANGE && middle[0] > middle[2], "{middle:?}");
    assert!(text.contains("all on one scale, from −4 (blue) to 4 (orange)"), "{text}");
    assert!(text.contains("<td>83.3 %</td>") && text.contains("<td>16.7 %</td>"), "{text}");
    // Missing points are not painted, and a cell shows the most frequent feature of its points.
    let keep = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 11, 9, 9];
    let mut less = Grid { x: Vec::new(), y: Vec::new(), explanation: grid.explanation.select_rows(&keep) };
    less.x = keep.iter().map(|&i| grid.x[i]).collect();
    less.y = keep.iter().map(|&i| grid.y[i]).collect();
    // Two of the three points in the cell of point 9 now have feature b.
    less.explanation.values[24..28].copy_from_slice(&[0.5, 2.5, 0.5, 2.5]);
    less.explanation.predictions[12..].copy_from_slice(&[4.5, 4.5]);
    let top = &pictures(&downscale_report(&less.page(None)).unwrap())[2];
    assert_eq!(colour(top, 2, 1)[3], 0);
    assert_eq!(colour(top, 1, 0), LEVELS[1]);
}

#[test]
fn pages_are_well_formed_and_long_tables_are_cut() {
    let names: Vec<String> = (0..15).map(|j| format!("<f{j}> & \"more\"")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let grid = Grid::new(&names);
    let (bags, total) = (explanation(250, &names, 1), explanation(1, &names, 1));
    let called: Vec<String> = (0..250).map(|b| format!("<i>{b:03}")).collect();
    let (mass, seen): (Vec<f64>, Vec<f64>) = (0..250)
        .map(|b| (1.0, if b == 0 { f64::NAN } else { bags.predictions[b] + f64::from(b as u32) }))
        .unzip();
    let table = PageBags {
        column: "<district>",
        names: &called,
        rows: &[7; 250],
        weight: Some("people"),
        mass: &mass,
        map: (&bags.predictions, 3.5),
        is: "the mean",
        observed: Some(("rate", &seen)),
        explanation: [&bags, &total],
        unit: TargetUnit::Mean,
    };
    let text = downscale_report(&grid.page(Some(table.clone()))).unwrap();
    for tag in ["section", "table", "svg", "div", "tr", "figure", "td", "th"] {
        let opened = text.matches(&format!("<{tag}>")).count() + text.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, text.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert!(!text.contains("<i>") && !text.contains("<f0>") && !text.contains("<district>"));
    assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("src="));
    // The bags with the largest differences, in descending order.
    assert!(text.contains("lists the 200 of 250 bags with the largest differences"), "{text}");
    let order: Vec<usize> =
        (0..250).map(|b| text.find(&format!("i&gt;{:03}", 249 - b)).unwrap_or(usize::MAX)).collect();
    assert!(order.is_sorted() && order[199] < usize::MAX && order[200] == usize::MAX);
    assert_eq!(text.matches("<figure>").count(), 3 + 12);
    assert!(
        text.contains("except the 3 least important ones")
            && text.contains("<th scope=\"col\">3 others</th>")
    );
    let unseen = PageBags { observed: None, weight: None, ..table.clone() };
    let text = downscale_report(&grid.page(Some(unseen))).unwrap();
    assert!(text.contains("lists the first 200 of 250 bags") && !text.contains("difference</th>"), "{text}");
    // For sums, a bag is compared with its share of the total.
    let sums = PageBags { unit: TargetUnit::Sum, mass: &[2.0; 250], ..table.clone() };
    assert_ne!(downscale_report(&grid.page(Some(sums))).unwrap(), text);
    let broken = PageBags { rows: &[7], ..table };
    assert!(matches!(downscale_report(&grid.page(Some(broken))), Err(Error::Shape { .. })));
    let short = DownscalePage { mean: &[1.0], ..grid.page(None) };
    assert!(matches!(downscale_report(&short), Err(Error::Shape { .. })));
}

#[test]
fn observed_counts_are_whole_numbers() {
    let grid = Grid::new(&["a", "b"]);
    let (bags, total) = (explanation(2, &["a", "b"], 1), explanation(1, &["a", "b"], 1));
    let names = ["north", "south"].map(String::from);
    let page = |observed: &[f64]| {
        let table = PageBags {
            column: "district",
            names: &names,
            rows: &[6, 6],
            weight: Some("people"),
            mass: &[1200.0, 900.0],
            map: (&[95.25, 7.5], 102.75),
            is: "the sum",
            observed: Some(("cases", observed)),
            explanation: [&bags, &total],
            unit: TargetUnit::Sum,
        };
        downscale_report(&grid.page(Some(table))).unwrap()
    };
    let counts = page(&[95.0, 8.0]);
    assert!(
        ["<td>95</td>", "<td>8</td>", "<td>1200</td>"].iter().all(|cell| counts.contains(cell)),
        "{counts}"
    );
    assert!(!counts.contains("<td>95.0</td>"));
    assert!(page(&[95.5, 8.0]).contains("<td>95.50</td>"));
}
