//! The cases in `cases/`, by way of files: a model file, tables in, a table out.

mod common;

use std::fmt::Write;

use riesz::format::model::{SavedModel, to_bytes};
use riesz::{Expansion, Kernel, Matrix, Table};
use serde::Deserialize;

use common::{Place, cells};

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
    values: Vec<Vec<Vec<f64>>>,
    base_values: Vec<f64>,
    predictions: Vec<Vec<f64>>,
}

fn csv_text(rows: &[Vec<f64>]) -> String {
    let d = rows[0].len();
    let mut text = (1..=d).map(|j| format!("x{j}")).collect::<Vec<_>>().join(",") + "\n";
    for row in rows {
        let cells: Vec<String> = row.iter().map(|v| format!("{v:?}")).collect();
        writeln!(text, "{}", cells.join(",")).unwrap();
    }
    text
}

#[test]
fn every_case() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases");
    let place = Place::new();
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let case: Case = serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap();
        let m = case.intercept.len();
        let coef = Matrix::from_row_major(case.coef.len(), m, case.coef.concat());
        let points = Table::from_rows(&case.points).unwrap();
        let model = Expansion::new(case.kernel, points, coef, case.intercept).unwrap();
        place.write("m.riesz", to_bytes(&SavedModel { model, covariance: None, groups: None }).unwrap());
        place.write("rows.csv", csv_text(&case.rows));
        let options = match &case.background {
            None => String::new(),
            Some(rows) => {
                place.write("b.csv", csv_text(rows));
                format!("{} b.csv", if case.game == "baseline" { "--baseline" } else { "--background" })
            }
        };
        let (out, _) = place.good(&format!("explain m.riesz rows.csv --game {} {options}", case.game));
        let tolerance = if case.source.starts_with("shap") { 1e-7 } else { 1e-13 };
        for (k, line) in cells(&out)[1..].iter().enumerate() {
            let (i, o) = (k / m, k % m);
            let near = |text: &str, b: f64, tolerance: f64| {
                let a: f64 = text.parse().unwrap();
                assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{} row {i}: {a} {b}", case.name);
            };
            assert_eq!(line[0], i.to_string());
            near(&line[2], case.base_values[o], 1e-11);
            near(&line[3], case.predictions[i][o], 1e-11);
            for (text, b) in line[5..].iter().zip(&case.values[i][o]) {
                near(text, *b, tolerance);
            }
        }
        assert_eq!(cells(&out).len(), 1 + case.rows.len() * m);
        seen += 1;
    }
    assert!(seen >= 8);
}
