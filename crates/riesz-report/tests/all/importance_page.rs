//! Pictures and pages of overall importance and of components, with adversarial names.

use riesz::global::{Components, Curve, Labels, Sage};
use riesz::kernel::{Categorical, Linear};
use riesz::{Background, Column, ColumnKind, Error, Kernel, KernelExpansion, Matrix, Sensitivity, Table};
use riesz_report::{
    ImportancePage, Overall, PlotOptions, Theme, importance_report, png, render_component, render_overall,
};

/// Returns a model of two outputs and three features, of which the last has no influence.
fn model() -> (KernelExpansion, Table) {
    let names = ["<script>alert(1)</script>", "a & \"b\"", "nothing"];
    let columns: Vec<Column> = names.into_iter().map(Column::numeric).collect();
    let values = (0..60).map(|k| f64::from(k % 20 * (k / 20 + 3) % 7)).collect();
    let x = Table::from_column_major(columns, 20, values).unwrap();
    let coef = Matrix::from_row_major(20, 2, (0..40).map(|k| f64::from(k).sin()).collect());
    let kernel = Kernel::gaussian(&[2.0, 3.0, 1e9]);
    (KernelExpansion::new(kernel, x.clone(), coef, vec![0.0; 2]).unwrap(), x)
}

#[test]
fn pages_are_well_formed_and_reproducible() {
    let (model, x) = model();
    let inputs = Background::from(x.clone());
    let variance = Sensitivity::default().run(&model, &inputs).unwrap();
    let truth = Labels::Numbers(Matrix::from_row_major(20, 2, (0..40).map(|k| f64::from(k).cos()).collect()));
    let loss = Sage::default().run(&model, &x, &truth, &inputs).unwrap();
    assert!(loss.values.iter().any(|v| *v < 0.0), "{:?}", loss.values);
    let explanation = loss.explanation(&model, &x, 0).unwrap();
    let components = Components::new(&model, &inputs, None).unwrap();
    let curves: Vec<Curve> =
        [vec![0], vec![0, 1]].iter().map(|set| components.curve_along(set, &x, None).unwrap()).collect();
    let rankings = [Overall::Variance(&variance), Overall::Loss { values: &loss, explanation: &explanation }];
    for (overall, words) in rankings.into_iter().zip(["total order", "standard error over rows"]) {
        let page = ImportancePage { title: "<b>", ranking: overall, curves: &curves, max_display: 2 };
        let text = importance_report(&page).unwrap();
        assert!(text.contains(words) && text.contains("&lt;b&gt;") && !text.contains("<script>"), "{text}");
        assert_eq!(text, importance_report(&page).unwrap());
        // Nothing is loaded, and all tags are closed.
        assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("src="));
        for tag in ["section", "table", "svg", "div", "tr"] {
            let opened =
                text.matches(&format!("<{tag}>")).count() + text.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, text.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        for (theme, width) in [(Theme::Dark, 280), (Theme::Light, 720)] {
            let options = PlotOptions { theme, width, max_display: 1, ..PlotOptions::default() };
            let picture = render_overall(&overall, &options).unwrap();
            assert!(picture.text.contains("others") || picture.text.contains("Sum of 2"), "{}", picture.text);
            png(&picture, 1.0).unwrap();
            for curve in &curves {
                png(&render_component(curve, &options).unwrap(), 1.0).unwrap();
            }
        }
        let out_of_range = PlotOptions { output: 2, ..PlotOptions::default() };
        assert!(matches!(render_overall(&overall, &out_of_range), Err(Error::Parameter { .. })));
        assert!(render_component(&curves[0], &out_of_range).is_err());
    }
}

/// The bar of a negative value has the opposite direction and another colour.
#[test]
fn what_makes_a_model_worse_is_seen() {
    let (model, x) = model();
    let truth = Labels::Numbers(Matrix::zeros(20, 2));
    let loss = Sage::default().run(&model, &x, &truth, &Background::from(x.clone())).unwrap();
    assert!(loss.values[..2].iter().all(|v| *v < 0.0));
    let explanation = loss.explanation(&model, &x, 0).unwrap();
    let picture =
        render_overall(&Overall::Loss { values: &loss, explanation: &explanation }, &PlotOptions::default())
            .unwrap();
    let bar = |colour: &str| picture.text.matches(&format!("height=\"16\" fill=\"{colour}\"")).count();
    // A value of 0 may have rounding errors of either sign.
    let (worse, better) = (bar("#d55e00"), bar("#1f6fb2"));
    assert!(worse >= 2 && worse + better == 3 && picture.text.contains("95 % interval"), "{}", picture.text);
}

/// Bars of levels are side by side, and a single point also gives a picture.
#[test]
fn components_of_levels_are_bars() {
    let level = ColumnKind::Categorical { levels: vec!["<u>".into(), "v".into()] };
    let columns = vec![Column { name: "kind".into(), kind: level }, Column::numeric("x")];
    let x = Table::from_column_major(
        columns,
        6,
        vec![0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0],
    )
    .unwrap();
    let number = Linear { columns: vec![1], center: vec![1.0], scale: vec![1.0] };
    let kernel = Kernel::from(Categorical { columns: [0], similarity: 0.3 }) * Kernel::from(number);
    let coef = Matrix::column_vector(vec![1.0, -1.0, 0.5, 0.25, 0.1, 0.7]);
    let model = KernelExpansion::new(kernel, x.clone(), coef, vec![0.0]).unwrap();
    let components = Components::new(&model, &Background::from(x.clone()), None).unwrap();
    for set in [vec![0], vec![1], vec![0, 1]] {
        let curve = components.curve_along(&set, &x, None).unwrap();
        let picture = render_component(&curve, &PlotOptions::default()).unwrap();
        assert_eq!(picture.text.contains("&lt;u&gt;"), set[0] == 0);
        assert!(!picture.text.contains("NaN") && !picture.text.contains("inf"));
        png(&picture, 1.0).unwrap();
    }
}
