//! Plots and the page of two-sample tests: structure, escaping and hostile input.

use riesz::discrepancy::{AttributionRequest, TestResult, TestSettings, TwoSampleTest, Witness, witness};
use riesz::{Column, ColumnKind, Error, Table};
use riesz_report::{
    PlotOptions, TestPage, Theme, png, render_null, render_test, render_witness, test_report,
};

/// Returns two samples of a numeric and a categorical column, with names that contain HTML.
fn samples() -> (Table, Table) {
    let columns = vec![
        Column::numeric("<b>a & \"b\"</b>"),
        Column {
            name: "colour".into(),
            kind: ColumnKind::Categorical { levels: vec!["red".into(), "</script>".into()] },
        },
    ];
    let table = |shift: f64| {
        let numbers = (0..30).map(|i| f64::from(i * 7 % 11) + shift);
        let values = numbers.chain((0..30).map(|i| f64::from(i % 2))).collect();
        Table::from_column_major(columns.clone(), 30, values).unwrap()
    };
    (table(0.0), table(3.0))
}

fn run_test(permutations: usize) -> (TestResult, Vec<Witness>) {
    let (x, z) = samples();
    let settings = TestSettings { permutations, ..TestSettings::default() };
    let result = TwoSampleTest { settings, ..TwoSampleTest::default() }.run(&x, &z).unwrap();
    let witnesses = x.columns().iter().map(|c| witness(&x, &z, None, &c.name).unwrap()).collect();
    (result, witnesses)
}

fn options() -> Vec<PlotOptions> {
    let plot_options = |theme, width| PlotOptions { theme, width, ..PlotOptions::default() };
    vec![plot_options(Theme::Light, 720), plot_options(Theme::Dark, 280), plot_options(Theme::Auto, 500)]
}

#[test]
fn pictures_are_well_formed() {
    for permutations in [0, 99] {
        let (result, witnesses) = run_test(permutations);
        for options in options() {
            let mut pictures = vec![render_test(&result, &options).unwrap()];
            pictures.extend(witnesses.iter().map(|w| render_witness(w, &options).unwrap()));
            match render_null(&result, "MMD²", &options) {
                Ok(picture) => pictures.push(picture),
                Err(error) => assert!(permutations == 0 && matches!(error, Error::TooFew { .. })),
            }
            for picture in &pictures {
                roxmltree::Document::parse(&picture.text).unwrap();
                assert!(!picture.text.contains("NaN") && !picture.text.contains("inf\""));
                if options.theme != Theme::Auto {
                    png(picture, 1.0).unwrap();
                }
            }
            // One band per feature, if there are permutations.
            let bands = pictures[0].text.matches("fill-opacity=\"0.30\"").count();
            assert_eq!(bands, if permutations > 0 { 2 } else { 0 });
        }
    }
    let (result, _) = run_test(9);
    assert!(render_test(&result, &PlotOptions { width: 10, ..PlotOptions::default() }).is_err());
    assert!(render_test(&result, &PlotOptions { max_display: 0, ..PlotOptions::default() }).is_err());
}

#[test]
fn test_page_is_complete_escaped_and_self_contained() {
    let (result, witnesses) = run_test(99);
    let page = TestPage {
        title: "before & <after>",
        verdict: "They differ.",
        result: &result,
        witnesses: &witnesses,
        max_display: 10,
    };
    let text = test_report(&page).unwrap();
    assert!(text.contains("before &amp; &lt;after&gt;") && text.contains("They differ."));
    assert!(!text.contains("<b>a &") && !text.contains("<script"));
    assert!(!text.contains("http://") && !text.contains("https://"));
    assert!(text.contains("(proved limit") && text.contains("adjusted p-value"));
    assert_eq!(text, test_report(&page).unwrap());
    let (x, z) = samples();
    let settings =
        TestSettings { attribute: AttributionRequest::Nothing, permutations: 9, ..TestSettings::default() };
    let bare = TwoSampleTest { settings, ..TwoSampleTest::default() }.run(&x, &z).unwrap();
    assert!(matches!(test_report(&TestPage { result: &bare, ..page }), Err(Error::TooFew { .. })));
}
