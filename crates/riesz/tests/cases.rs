//! The cases in `cases/`: values computed by other programs (see `scripts/oracles/cases.py`).

use serde::Deserialize;

use riesz::{Expansion, Explainer, Game, Kernel, Matrix, Table};

#[derive(Deserialize)]
struct Case {
    name: String,
    source: String,
    game: String,
    kernel: Kernel,
    points: Vec<Vec<f64>>,
    coef: Vec<Vec<f64>>,
    intercept: Vec<f64>,
    background: Option<Vec<Vec<f64>>>,
    rows: Vec<Vec<f64>>,
    /// rows × outputs × players
    values: Vec<Vec<Vec<f64>>>,
    base_values: Vec<f64>,
    predictions: Vec<Vec<f64>>,
}

#[test]
fn every_case() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let case: Case = serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap();
        let table = |rows: &[Vec<f64>]| Table::from_rows(rows).unwrap();
        let m = case.intercept.len();
        let coef = Matrix::from_row_major(case.coef.len(), m, case.coef.concat());
        let model = Expansion::new(case.kernel, table(&case.points), coef, case.intercept).unwrap();
        let background = || table(case.background.as_ref().unwrap());
        let game = match case.game.as_str() {
            "functional" => Game::Functional,
            "baseline" => Game::Baseline { point: background() },
            "interventional" => Game::Interventional { background: background().into() },
            "marginal-product" => Game::MarginalProduct { background: background().into() },
            other => panic!("unknown game {other}"),
        };
        let explanation = Explainer::new(&model, game, None).unwrap().explain(&table(&case.rows)).unwrap();
        assert!(explanation.certificate().unwrap().holds, "{}", case.name);
        // shap solves its least squares with about eight digits.
        let tolerance = if case.source.starts_with("shap") { 1e-7 } else { 1e-13 };
        for i in 0..case.rows.len() {
            for o in 0..m {
                let near = |a: f64, b: f64, tolerance: f64| {
                    assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{} row {i}: {a} {b}", case.name)
                };
                near(explanation.predictions[i * m + o], case.predictions[i][o], 1e-11);
                near(explanation.base_values[i * m + o], case.base_values[o], 1e-11);
                for (a, b) in explanation.row_values(i, o).iter().zip(&case.values[i][o]) {
                    near(*a, *b, tolerance);
                }
            }
        }
        seen += 1;
    }
    assert!(seen >= 8);
}
