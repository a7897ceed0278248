//! Pages and pictures of effects across studies, with adversarial names.

use riesz::causal::{
    CausalFusion, CausalQuery, Estimand, Graph, Identification, MeasuredColumns, Pointwise, Studies,
    default_doses, gather, identify,
};
use riesz::{Column, Error, Table};
use riesz_report::{EffectPage, PlotOptions, effect_report, png, render_causal_graph, render_effect};

const DOSE: &str = "<script>alert(1)</script>";

struct World {
    graph: Graph,
    identification: Identification,
    studies: Studies,
    doses: Table,
    effect: Pointwise,
}

/// Returns two studies with doses up to 1, and their fused effect at doses up to 9.
fn world() -> World {
    let graph =
        format!("\"{DOSE}\" -> psa -> volume; age -> \"{DOSE}\"; age -> psa; age <-> diet; idle -> diet");
    let graph = Graph::parse(&graph).unwrap();
    let query = CausalQuery {
        treatments: vec![DOSE.into()],
        outcome: "volume".into(),
        studies: vec![vec!["age".into(), DOSE.into(), "psa".into()], vec!["psa".into(), "volume".into()]],
        ..CausalQuery::default()
    };
    let identification = identify(Some(&graph), &query).unwrap();
    let column = |name: &str, function: &dyn Fn(f64) -> f64| {
        (Column::numeric(name), (0..30).map(|i| function(f64::from(i))).collect())
    };
    let age = |i: f64| (1.7 * i).sin();
    let dose = |i: f64| 0.5 + 0.5 * (2.9 * i).cos();
    let first = vec![column("age", &age), column(DOSE, &dose), column("psa", &|i| age(i) - dose(i))];
    let second =
        vec![column("psa", &|i| 2.0 * (0.7 * i).sin()), column("volume", &|i| 5.0 * (0.7 * i).sin())];
    let studies =
        gather(&identification, &[MeasuredColumns { columns: first }, MeasuredColumns { columns: second }])
            .unwrap()
            .studies;
    let fused = CausalFusion { draws: 2, ..CausalFusion::default() }.fit(&studies).unwrap();
    let near = default_doses(&studies.studies[0].treatments, 20).unwrap();
    let far = Table::from_column_major(near.columns().to_vec(), 2, vec![5.0, 9.0]).unwrap();
    let doses = near.stack(&far).unwrap();
    let effect = fused.pointwise(&doses, &Estimand::Level).unwrap();
    World { graph, identification, studies, doses, effect }
}

#[test]
fn pages_state_supported_and_unsupported_effects() {
    let World { graph, identification: found, studies, doses: at, effect } = world();
    let doubts = ["<b>much</b> is in doubt".to_string()];
    let unmatched = [("psa".to_string(), 0.25)].into();
    let page = EffectPage {
        identification: &found,
        graph: Some(&graph),
        studies: &studies,
        treatments: &at,
        effect: &effect,
        estimand: &Estimand::Level,
        population: "all people of study 1",
        level: 0.95,
        unmatched: &unmatched,
        doubts: &doubts,
        run: &[],
    };
    let text = effect_report(&page).unwrap();
    for words in [
        "Assumptions",
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
    let supported = effect.supported().iter().filter(|is_supported| **is_supported).count();
    assert!(
        supported < 22
            && page.answer().contains(&format!("Of 22 treatments the studies support {supported};")),
        "{}",
        page.answer()
    );
    // The answer names no treatment that the studies do not support.
    assert!(!page.answer().contains(" = 9") && !page.answer().contains(" = 5"), "{}", page.answer());
    let bare_page = EffectPage { graph: None, doubts: &[], ..page.clone() };
    let text = effect_report(&bare_page).unwrap();
    assert!(text.contains("No graph was given") && !text.contains("Warnings"));
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
