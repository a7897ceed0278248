//! Plots and the report page: structure, escaping, determinism and hostile input.

use riesz::explanation::{Dispersion, Uncertainty, UncertaintySource};
use riesz::table::Player;
use riesz::{Column, ColumnKind, Exactness, Explanation, Table};
use riesz_report::{PLOTS, Plot, PlotOptions, Theme, png, render, report};

use crate::common::explanation;

fn draw_all(e: &Explanation) -> Vec<String> {
    let mut texts = Vec::new();
    for plot in PLOTS {
        for (theme, width) in [(Theme::Light, 720), (Theme::Dark, 280), (Theme::Auto, 500)] {
            let drawn =
                render(e, plot, &PlotOptions { theme, width, color_by: Some(0), ..Default::default() });
            if !plot.can_show(e) {
                assert!(drawn.unwrap_err().to_string().contains("--index k-sii"), "{}", plot.name);
                continue;
            }
            let svg = drawn.unwrap();
            roxmltree::Document::parse(&svg.text).unwrap_or_else(|x| panic!("{}: {x}", plot.name));
            assert!(!svg.text.contains("NaN") && !svg.text.contains("inf\""), "{}", plot.name);
            texts.push(svg.text);
        }
    }
    texts
}

#[test]
fn every_plot_has_a_name() {
    for plot in PLOTS {
        assert!(std::ptr::eq(Plot::named(plot.name).unwrap(), plot) && !plot.help.is_empty());
    }
    assert!(Plot::named("pie").unwrap_err().to_string().contains("beeswarm"));
}

#[test]
fn every_point_is_drawn_and_bytes_repeat() {
    let e = explanation(57, &["a", "b", "c"], 1);
    let options = PlotOptions::default();
    let count = |name| render(&e, Plot::named(name).unwrap(), &options).unwrap().text.matches("h0").count();
    assert_eq!(count("beeswarm"), 57 * 3);
    assert_eq!(count("dependence"), 57);
    assert_eq!(draw_all(&e), draw_all(&e));
    assert_eq!(report(&e, &Default::default()).unwrap(), report(&e, &Default::default()).unwrap());
}

#[test]
fn png_has_the_right_size_and_draws_dots_and_letters() {
    let svg =
        render(&explanation(20, &["a", "b"], 1), Plot::named("beeswarm").unwrap(), &PlotOptions::default())
            .unwrap();
    let bytes = png(&svg, 2.0).unwrap();
    assert_eq!(bytes, png(&svg, 2.0).unwrap());
    let image = resvg::tiny_skia::Pixmap::decode_png(&bytes).unwrap();
    assert_eq!((image.width(), image.height()), (svg.width * 2, svg.height * 2));
    // Without the dots, or without the letters, the picture differs.
    for (from, to) in [("h0", ""), ("<text", "<text visibility=\"hidden\"")] {
        let changed = riesz_report::Svg { text: svg.text.replace(from, to), ..svg.clone() };
        assert_ne!(bytes, png(&changed, 2.0).unwrap(), "{from}");
    }
    let auto = PlotOptions { theme: Theme::Auto, ..Default::default() };
    assert!(
        png(&render(&explanation(2, &["a"], 1), Plot::named("bar").unwrap(), &auto).unwrap(), 2.0).is_err()
    );
}

#[test]
fn hostile_explanations_are_drawn_or_refused() {
    let long = "x".repeat(5000);
    let names = ["</script><script>alert(1)</script>", "\"'&<>", "naïve 变量 \u{1}", &long];
    let mut e = explanation(9, &names, 2);
    draw_all(&e);
    let page = report(&e, &Default::default()).unwrap();
    assert!(!page.contains("<script>alert") && !page.contains("http:") && !page.contains("https:"));
    assert_eq!(page.matches("</script>").count(), 2);
    // A group, a categorical column, and one row.
    e.players = vec![
        Player { name: "group".into(), columns: vec![0, 1] },
        Player { name: "c".into(), columns: vec![2] },
        Player { name: "d".into(), columns: vec![3] },
        Player { name: "none".into(), columns: vec![] },
    ];
    draw_all(&e);
    report(&e, &Default::default()).unwrap();
    let level =
        Column { name: "c".into(), kind: ColumnKind::Categorical { levels: vec!["<a>".into(), "b".into()] } };
    let mut e = explanation(2, &["c"], 1);
    e.data = Table::from_column_major(vec![level], 2, vec![0.0, 1.0]).unwrap();
    assert!(draw_all(&e).iter().any(|t| t.contains("c = &lt;a&gt;")));
    report(&e, &Default::default()).unwrap();

    for (n, p) in [(1, 1), (1, 1000), (3, 40), (3000, 2)] {
        let names: Vec<String> = (0..p).map(|j| format!("f{j}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut e = explanation(n, &names, 1);
        draw_all(&e);
        assert_eq!(report(&e, &Default::default()).unwrap().contains("evenly spaced"), n > 2000);
        e.values.fill(0.0);
        draw_all(&e);
        report(&e, &Default::default()).unwrap();
        e.values.fill(1e299);
        draw_all(&e);
        e.values[0] = f64::NAN;
        assert!(render(&e, Plot::named("bar").unwrap(), &PlotOptions::default()).is_err());
        e.values.pop();
        assert!(report(&e, &Default::default()).is_err());
    }
    assert!(
        render(&explanation(0, &["a"], 1), Plot::named("bar").unwrap(), &PlotOptions::default()).is_err()
    );
    let e = explanation(2, &["a"], 1);
    for options in [
        PlotOptions { row: 2, ..Default::default() },
        PlotOptions { output: 1, ..Default::default() },
        PlotOptions { width: 0, ..Default::default() },
        PlotOptions { max_display: 0, ..Default::default() },
    ] {
        assert!(render(&e, Plot::named("waterfall").unwrap(), &options).is_err());
    }
}

/// Levels have no order: none is low or high. Each has its own colour and name, and the rarest ones share
/// one.
#[test]
fn levels_have_colours_of_their_own() {
    let levels: Vec<String> = (0..9).map(|k| format!("level {k}")).collect();
    let column = Column { name: "c".into(), kind: ColumnKind::Categorical { levels } };
    // Level k occurs in 9 - k rows.
    let codes: Vec<f64> = (0..9).flat_map(|k| vec![f64::from(k); 9 - k as usize]).collect();
    let mut e = explanation(codes.len(), &["c"], 1);
    e.data = Table::from_column_major(vec![column], codes.len(), codes).unwrap();
    let options = PlotOptions { color_by: Some(0), width: 900, ..Default::default() };
    for name in ["beeswarm", "dependence"] {
        let text = render(&e, Plot::named(name).unwrap(), &options).unwrap().text;
        assert!(!text.contains(">Low<") && !text.contains(">High<"), "{name}");
        assert!(text.contains(">level 0<"), "{name}");
        for colour in ["#4a6fd0", "#b07d00", "#00856f", "#c2416b", "#8a5fbf", "#5b7f1c", "#868d96"] {
            assert!(text.contains(colour), "{name} {colour}");
        }
    }
    let dependence = render(&e, Plot::named("dependence").unwrap(), &options).unwrap().text;
    assert!(dependence.contains(">3 others<"));
}

#[test]
fn the_functional_game_is_not_read_as_changes_of_the_prediction() {
    let mut e = explanation(3, &["a", "b"], 1);
    let note = "do not read them as changes of the prediction";
    assert!(!report(&e, &Default::default()).unwrap().contains(note));
    e.provenance.game = "functional".into();
    let page = report(&e, &Default::default()).unwrap();
    assert!(page.contains(note) && !page.contains("raised the prediction"));
}

#[test]
fn a_broken_certificate_is_said_loudly() {
    let mut e = explanation(3, &["a"], 1);
    e.predictions[0] += 1.0;
    assert!(report(&e, &Default::default()).unwrap().contains("The check fails"));
}

/// Returns an explanation with uncertainty: three players with correlated values, one of far larger variance.
fn uncertain_explanation(n: usize) -> Explanation {
    let root = [0.1, 0.2, 3.0];
    let covariance = |k: usize| root[k / 3] * root[k % 3] * if k / 3 == k % 3 { 1.0 } else { 0.5 };
    let covariances = (0..n * 9).map(|k| covariance(k % 9)).collect();
    let uncertainty = Uncertainty {
        dispersion: Dispersion::Covariance(covariances),
        source: Some(UncertaintySource::Posterior),
        conditioning: None,
    };
    Explanation { uncertainty: Some(uncertainty), ..explanation(n, &["a", "b", "c"], 1) }
}

#[test]
fn intervals_are_drawn_where_they_are_known() {
    let e = uncertain_explanation(20);
    for (with, plain) in draw_all(&e).iter().zip(draw_all(&explanation(20, &["a", "b", "c"], 1))) {
        let heat = with.contains("Values as colours") || *with == plain;
        assert_eq!(with.contains("95 %"), !heat, "{with}");
    }
    let waterfall = render(&e, Plot::named("waterfall").unwrap(), &PlotOptions::default()).unwrap().text;
    // A whisker and two caps each, and numbers with half the widths of their intervals.
    assert_eq!(waterfall.matches("stroke-opacity=\"1.00\"").count(), 3);
    assert!(waterfall.contains("± 5.9") && waterfall.contains("± 0.2<"), "{waterfall}");
    // With many rows, dots have no whiskers.
    let dots = render(&uncertain_explanation(300), Plot::named("beeswarm").unwrap(), &PlotOptions::default())
        .unwrap()
        .text;
    assert!(!dots.contains("95 %"));
    let page = report(&e, &Default::default()).unwrap();
    assert!(page.contains("In a row picked at random, ") && page.contains("matters more than"));
    assert!(page.contains("\"first_is_stronger\"") && page.contains("\"sd\""));
    // Refits are not draws of a Gaussian process, and a table has no covariances between values.
    let source = Some(UncertaintySource::Bootstrap { draws: 50, seed: 1 });
    let dispersion = Dispersion::Sd(e.sd().unwrap());
    let bootstrapped =
        Explanation { uncertainty: Some(Uncertainty { dispersion, source, conditioning: None }), ..e };
    draw_all(&bootstrapped);
    let page = report(&bootstrapped, &Default::default()).unwrap();
    assert!(page.contains("50 refits") && !page.contains("picked at random"));
}

/// Estimates have whiskers of 1.96 standard errors, if no uncertainty of the model is shown.
#[test]
fn standard_errors_are_whiskers() {
    let exact = explanation(20, &["a", "b", "c"], 1);
    let std_error: Vec<f64> = (0..exact.values.len()).map(|k| 10.0 / (1 + k % 3) as f64).collect();
    let exactness = Exactness::Estimated { std_error, sampling: None };
    let e = Explanation { exactness, ..exact };
    let draw = |e: &Explanation, name: &str| {
        render(e, Plot::named(name).unwrap(), &PlotOptions::default()).unwrap().text
    };
    let waterfall = draw(&e, "waterfall");
    assert_eq!(waterfall.matches("stroke-opacity=\"1.00\"").count(), 3);
    // 1.96 times 10, 5 and 10 / 3, to two digits.
    for half_width in ["± 20<", "± 9.8<", "± 6.5<"] {
        assert!(waterfall.contains(half_width), "{half_width}: {waterfall}");
    }
    for name in ["beeswarm", "dependence"] {
        assert!(draw(&e, name).contains("95 % intervals of the estimates"), "{name}");
    }
    let single = e.select_rows(&[0]);
    assert!(draw(&single, "bar").contains("95 % intervals of the estimates"));
    assert!(draw(&e, "bar").contains("95 % interval over rows"));
    let page = report(&e, &Default::default()).unwrap();
    assert!(page.contains("\"sd\"") && page.contains("± 1.96 standard errors"));
    let dispersion = Dispersion::Sd(vec![1.0; e.values.len()]);
    let certain =
        Explanation { uncertainty: Some(Uncertainty { dispersion, source: None, conditioning: None }), ..e };
    assert!(!draw(&certain, "beeswarm").contains("of the estimates"));
}
