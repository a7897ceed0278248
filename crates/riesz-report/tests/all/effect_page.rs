//! Pages and pictures of effects across studies, with names meant to break them.

use riesz::causal::{
    Estimand, Fusion, Graph, Identification, MeasuredColumns, Pointwise, Query, Studies, default_doses,
    gather, identify,
};
use riesz::{Column, Error, Table};
use riesz_report::{EffectPage, PlotOptions, effect_report, png, render_causal_graph, render_effect};

const DOSE: &str = "<script>alert(1)</script>";

struct World {
    graph: Graph,
    found: Identification,
    studies: Studies,
    at: Table,
    effect: Pointwise,
}

/// A dose that is told up to 1, and asked about up to 9.
fn world() -> World {
    let graph =
        format!("\"{DOSE}\" -> psa -> volume; age -> \"{DOSE}\"; age -> psa; age <-> diet; idle -> diet");
    let graph = Graph::parse(&graph).unwrap();
    let query = Query {
        treatments: vec![DOSE.into()],
        outcome: "volume".into(),
        studies: vec![vec!["age".into(), DOSE.into(), "psa".into()], vec!["psa".into(), "volume".into()]],
        ..Query::default()
    };
    let found = identify(Some(&graph), &query).unwrap();
    let column = |name: &str, of: &dyn Fn(f64) -> f64| {
        (Column::numeric(name), (0..30).map(|i| of(f64::from(i))).collect())
    };
    let age = |i: f64| (1.7 * i).sin();
    let dose = |i: f64| 0.5 + 0.5 * (2.9 * i).cos();
    let first = vec![column("age", &age), column(DOSE, &dose), column("psa", &|i| age(i) - dose(i))];
    let second =
        vec![column("psa", &|i| 2.0 * (0.7 * i).sin()), column("volume", &|i| 5.0 * (0.7 * i).sin())];
    let studies = gather(&found, &[MeasuredColumns { columns: first }, MeasuredColumns { columns: second }])
        .unwrap()
        .studies;
    let fused = Fusion { draws: 2, ..Fusion::default() }.fit(&studies).unwrap();
    let near = default_doses(&studies.studies[0].treatments, 20).unwrap();
    let far = Table::from_column_major(near.columns().to_vec(), 2, vec![5.0, 9.0]).unwrap();
    let at = near.stack(&far).unwrap();
    let effect = fused.pointwise(&at, &Estimand::Level).unwrap();
    World { graph, found, studies, at, effect }
}

#[test]
fn pages_say_what_was_found_and_what_was_not() {
    let World { graph, found, studies, at, effect } = world();
    let doubts = ["<b>much</b> is in doubt".to_string()];
    let unmatched = [("psa".to_string(), 0.25)].into();
    let page = EffectPage {
        found: &found,
        graph: Some(&graph),
        studies: &studies,
        at: &at,
        effect: &effect,
        estimand: &Estimand::Level,
        whom: "all people of study 1",
        level: 0.95,
        unmatched: &unmatched,
        doubts: &doubts,
        run: &[],
    };
    let text = effect_report(&page).unwrap();
    for words in [
        "What must hold",
        "psa 25.0 %",
        "&lt;b&gt;much",
        "hatched",
        "hyper-parameters",
        "stroke-dasharray=\"4 4\"",
    ] {
        assert!(text.contains(words), "{words}");
    }
    assert!(
        !text.contains("<script")
            && !text.contains("http://")
            && !text.contains("https://")
            && !text.contains("<b>")
    );
    assert_eq!(text, effect_report(&page).unwrap());
    let told = effect.supported().iter().filter(|told| **told).count();
    assert!(
        told < 22 && page.answer().contains(&format!("Of 22 treatments the studies tell {told};")),
        "{}",
        page.answer()
    );
    // The answer names no treatment that the studies do not tell.
    assert!(!page.answer().contains(" = 9") && !page.answer().contains(" = 5"), "{}", page.answer());
    let without = EffectPage { graph: None, doubts: &[], ..page.clone() };
    let text = effect_report(&without).unwrap();
    assert!(text.contains("No graph was given") && !text.contains("What to bear in mind"));
    for width in [330, 720] {
        let options = PlotOptions { width, ..PlotOptions::default() };
        let pictures =
            [render_effect(&page, &options).unwrap(), render_causal_graph(&graph, &found, &options).unwrap()];
        for picture in pictures {
            assert!(!picture.text.contains("NaN") && !picture.text.contains("inf"), "{}", picture.text);
            assert!(!png(&picture, 1.0).unwrap().is_empty());
        }
    }
    let none = Pointwise::default();
    let empty = EffectPage { effect: &none, ..page.clone() };
    assert!(matches!(render_effect(&empty, &PlotOptions::default()), Err(Error::TooFew { .. })));
    let wide = EffectPage { level: 2.0, ..page };
    assert!(matches!(effect_report(&wide), Err(Error::Parameter { .. })));
}
