//! Pictures of interactions: values in their cells, the strongest features drawn, the others summarised in
//! words.

use riesz::Explanation;
use riesz_report::{Plot, PlotOptions, Theme, png, render, report};

use crate::common::{explanation, interactions};

fn drawn(e: &Explanation, name: &str, options: &PlotOptions) -> String {
    let svg = render(e, Plot::named(name).unwrap(), options).unwrap();
    assert!(!svg.text.contains("NaN") && !svg.text.contains("inf"), "{name}");
    svg.text
}

/// Returns the texts of the chosen text elements, in document order.
fn texts(svg: &str, keep: impl Fn(&roxmltree::Node) -> bool) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let elements = document.descendants().filter(|node| node.has_tag_name("text") && keep(node));
    elements.map(|node| node.text().unwrap_or("").to_string()).collect()
}

fn in_cells(svg: &str) -> Vec<f64> {
    let cell_texts = texts(svg, |node| node.attribute("class") == Some("on"));
    cell_texts.iter().map(|text| text.replace('−', "-").parse().unwrap()).collect()
}

/// Returns the paths with a stroke width: colour, width and opacity, from the weakest to the strongest.
fn edges(svg: &str) -> Vec<(String, f64, f64)> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let paths = document
        .descendants()
        .filter(|node| node.attribute("stroke-width").is_some() && node.has_tag_name("path"));
    let number = |node: &roxmltree::Node, name| node.attribute(name).unwrap().parse().unwrap();
    paths
        .map(|n| {
            (n.attribute("stroke").unwrap().into(), number(&n, "stroke-width"), number(&n, "stroke-opacity"))
        })
        .collect()
}

/// Returns the matrix of the listed values: singles first, then pairs in lexicographic order.
fn matrix(e: &Explanation, p: usize, output: usize) -> Vec<f64> {
    let mean = |k: usize| {
        let values: Vec<f64> =
            (0..e.rows()).map(|i| e.values[(i * e.outputs() + output) * e.sets() + k]).collect();
        if let [single] = values[..] {
            single
        } else {
            values.iter().map(|v| v.abs()).sum::<f64>() / values.len() as f64
        }
    };
    let mut list = Vec::new();
    for (a, b) in (0..p * p).map(|k| (k / p, k % p)) {
        let (low, high) = (a.min(b), a.max(b));
        let before: usize = (0..low).map(|j| p - 1 - j).sum();
        list.push(if a == b { mean(a) } else { mean(p + before + high - low - 1) });
    }
    list
}

#[test]
fn cells_hold_the_values_of_their_pairs() {
    let names = ["a", "b", "c", "d", "e"];
    for (n, order) in [(1, 2), (6, 2), (6, 3), (1, 4)] {
        let e = interactions(n, &names, 2, order);
        for output in [0, 1] {
            let svg = drawn(&e, "interactions", &PlotOptions { output, ..Default::default() });
            let (shown, truth) = (in_cells(&svg), matrix(&e, 5, output));
            assert_eq!(shown.len(), 25);
            for (x, y) in shown.iter().zip(&truth) {
                assert!((x - y).abs() <= 0.00501, "{n} rows, order {order}: {x} for {y}");
            }
            assert_eq!(shown.iter().any(|v| *v < 0.0), n == 1);
        }
    }
}

#[test]
fn players_that_take_part_in_least_are_left_out_first() {
    // Mean absolute values, and the signed values of one row.
    for (n, strongest) in [(4, "4"), (1, "−4")] {
        weakest_features_are_left_out(interactions(n, &["a", "b", "c", "d", "e"], 1, 3), strongest);
    }
}

fn weakest_features_are_left_out(mut e: Explanation, strongest: &str) {
    let sets = e.subsets.clone().unwrap();
    // c alone is the strongest, e has no effect, and b only has an effect within the set of three.
    for (k, value) in e.values.iter_mut().enumerate() {
        let set = &sets[k % sets.len()];
        *value = match set[..] {
            [2] => 9.0,
            [0, 1, 3] => -4.0,
            [0, 2] => 2.0,
            [2, 3] => 0.5,
            [0] => 1.0,
            _ => 0.0,
        };
    }
    for (limit, kept) in [(1, "c"), (2, "ac"), (3, "acd"), (4, "abcd"), (9, "abcde")] {
        let options = PlotOptions { max_display: limit, ..Default::default() };
        for name in ["interactions", "network"] {
            let svg = drawn(&e, name, &options);
            let ink =
                texts(&svg, |n| n.attribute("fill") == Some("#1d2229") && n.attribute("class").is_none());
            assert_eq!(ink.concat(), kept, "{name}");
            let out = 5 - kept.len();
            let caption = match out {
                0 => "drawn in full".to_string(),
                1 => "Not drawn: the feature with the smallest total |value|.".into(),
                _ => format!("Not drawn: the {out} features with the smallest total |value|."),
            };
            assert_eq!(svg.contains(&caption), out > 0, "{name} {limit}");
            assert!(
                svg.contains(&format!(
                    "Sets of three features: a × b × d {strongest}, a × b × c 0, a × b × e 0, and 7 more."
                )),
                "{name}"
            );
        }
        assert_eq!(
            edges(&drawn(&e, "network", &options)).len(),
            if kept.len() > 2 { 2 } else { kept.len() - 1 }
        );
    }
}

#[test]
fn line_widths_show_strengths_and_captions_the_others() {
    let names = ["a", "b", "c", "d"];
    let mut e = interactions(1, &names, 1, 2);
    // a, b, c, d, then ab, ac, ad, bc, bd, cd.
    e.values = vec![1.0, -4.0, 0.0, 0.25, 2.0, -1.0, 0.5, -0.25, 0.25, 0.0];
    let options = PlotOptions { max_display: 4, ..Default::default() };
    let svg = drawn(&e, "network", &options);
    let (up, down) = ("#d55e00", "#1f6fb2");
    let lines = edges(&svg);
    let truth = [(down, 0.25), (up, 0.5), (down, 1.0), (up, 2.0)];
    assert_eq!(lines.len(), 4);
    for ((colour, width, opacity), (expected_colour, value)) in lines.iter().zip(truth) {
        assert_eq!(colour, expected_colour);
        assert!(
            (width - (0.8 + 8.0 * value / 2.0)).abs() < 0.051
                && (opacity - (0.25 + 0.3 * value)).abs() < 0.006
        );
    }
    // Pairs of size 0.25, of 4 in all, are not drawn.
    assert!(
        svg.contains("The other 2 pairs hold 6.3 % of the total |value| of pairs.")
            || svg.contains("hold 6.2 %")
    );
    assert!(svg.contains("largest b −4;") && svg.contains("strongest a × b +2."));
    // Areas of discs are proportional to values: 4, 1 and 1/4 have radii in proportion 4, 2 and 1, and 0 the
    // smallest.
    let document = roxmltree::Document::parse(&svg).unwrap();
    let discs: Vec<(f64, String)> = document
        .descendants()
        .filter(|n| n.has_tag_name("circle") && n.attribute("fill") != Some("#ffffff"))
        .map(|n| (n.attribute("r").unwrap().parse().unwrap(), n.attribute("fill").unwrap().into()))
        .collect();
    let [a, b, c, d] = &discs[..] else { panic!("{discs:?}") };
    assert!((b.0 - 2.0 * a.0).abs() < 0.2 && (b.0 - 4.0 * d.0).abs() < 0.3 && c.0 == 2.5, "{discs:?}");
    assert_eq!([&a.1, &b.1, &d.1], [up, down, up]);
    // Means have no sign, and one colour.
    let averaged = interactions(5, &names, 1, 2);
    assert!(edges(&drawn(&averaged, "network", &options)).iter().all(|edge| edge.0 == down));
}

#[test]
fn explanations_without_interactions_are_refused() {
    for name in ["interactions", "network"] {
        let plot = Plot::named(name).unwrap();
        let refused = render(&explanation(3, &["a", "b"], 1), plot, &PlotOptions::default()).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains("Shapley values of single features") && text.contains("explain with --index k-sii"),
            "{text}"
        );
        // A selection of the sets is incomplete.
        let partial = interactions(3, &["a", "b", "c"], 1, 2).select(&[0, 1], &[0, 3], &[0]);
        assert!(render(&partial, plot, &PlotOptions::default()).is_err());
    }
}

#[test]
fn hostile_interactions_are_drawn() {
    let long = "words and ".repeat(500);
    let names = ["</script><script>alert(1)</script>", "\"'&<>", "naïve 变量 \u{1}", &long];
    let wide: Vec<String> = (0..60).map(|j| format!("feature number {j}")).collect();
    let wide: Vec<&str> = wide.iter().map(String::as_str).collect();
    let mut pairs = explanation(2, &wide, 1);
    let two = (0..60).flat_map(|a| (a + 1..60).map(move |b| vec![a, b]));
    pairs.subsets = Some((0..60).map(|j| vec![j]).chain(two).collect());
    pairs.index = "stii".parse().unwrap();
    pairs.values = (0..2 * 1830).map(|k| ((k * 53 % 211) as f64 - 105.0) / 40.0).collect();
    for mut e in [
        interactions(3, &names, 2, 4),
        interactions(1, &["a"], 1, 2),
        interactions(2, &["a", "b"], 1, 2),
        pairs,
    ] {
        for fill in [None, Some(0.0), Some(1e299), Some(-1e-300)] {
            fill.into_iter().for_each(|v| e.values.fill(v));
            for name in ["interactions", "network", "force", "waterfall", "bar"] {
                for (theme, width, max_display) in
                    [(Theme::Light, 720, 10), (Theme::Dark, 280, 1000), (Theme::Light, 280, 1)]
                {
                    let options = PlotOptions { theme, width, max_display, ..Default::default() };
                    let svg = render(&e, Plot::named(name).unwrap(), &options).unwrap();
                    roxmltree::Document::parse(&svg.text).unwrap_or_else(|x| panic!("{name}: {x}"));
                    assert!(!svg.text.contains("NaN") && !svg.text.contains("inf\""), "{name}");
                    assert_eq!(svg.text, drawn(&e, name, &options));
                    let low = svg.height < 2400 || !["interactions", "network", "force"].contains(&name);
                    assert!(low, "{name} is {} high", svg.height);
                }
            }
        }
    }
    let svg =
        render(&interactions(3, &names, 1, 2), Plot::named("network").unwrap(), &PlotOptions::default())
            .unwrap();
    png(&svg, 1.0).unwrap();
}

#[test]
fn the_page_shows_interactions_where_there_are_some() {
    let heading = "Which features interact";
    let page = report(&interactions(4, &["a", "b", "c"], 2, 2), &Default::default()).unwrap();
    assert_eq!(page.matches(heading).count(), 2);
    assert!(page.contains("of 4 rows and 3 features and 3 pairs"));
    let three = report(&interactions(4, &["a", "b", "c"], 1, 3), &Default::default()).unwrap();
    assert!(
        three.contains("of 4 rows and 3 features and 4 sets of them")
            && three.contains("Sets of three features: a × b × c")
    );
    assert_eq!(page.matches("<title>Network of interactions</title>").count(), 4);
    assert_eq!(page.matches("<title>Features and their interactions</title>").count(), 4);
    assert!(!report(&explanation(4, &["a", "b"], 1), &Default::default()).unwrap().contains(heading));
}

/// Forces that are too thin, or beyond `max_display`, share an arrow with the width of their sum.
#[test]
fn small_forces_share_an_arrow() {
    let mut e = interactions(1, &["a", "b", "c", "d"], 1, 2);
    e.values = vec![8.0, 4.0, -3.0, 0.01, 2.0, 0.02, 0.03, -0.01, -0.02, 0.04];
    e.predictions = vec![1.5 + e.values.iter().sum::<f64>()];
    let arrows = |svg: &str| svg.matches("Z\" fill=").count();
    let svg = drawn(&e, "force", &PlotOptions { width: 1600, ..Default::default() });
    // a, b, a × b and four small ones upwards; c and two small ones downwards.
    assert!(svg.contains(">Sum of 4 others (+0.1)<") && svg.contains(">Sum of 2 others (−0.03)<"), "{svg}");
    assert!(svg.contains("a × b (+2)"));
    assert_eq!(arrows(&svg), 6);
    let truncated = drawn(&e, "force", &PlotOptions { width: 1600, max_display: 1, ..Default::default() });
    assert!(truncated.contains(">Sum of 6 others (+6.1)<"));
    // A single one keeps its name.
    e.values[3..].fill(0.0);
    e.values[9] = 0.001;
    let single = drawn(&e, "force", &PlotOptions { width: 1600, ..Default::default() });
    assert!(single.contains("c × d (+0.001)") && !single.contains("Sum of"));
}
