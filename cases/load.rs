//! The cases of this folder, as the tests of the library and of the command line read them.

use riesz::{Conditioning, Game, Kernel, KernelExpansion, Matrix, Table};
use serde::Deserialize;

/// A model, a question and the answers of a program that is no part of riesz (see
/// `scripts/oracles/cases.py`).
pub struct Case {
    pub name: String,
    pub model: KernelExpansion,
    pub game: Game,
    pub rows: Table,
    /// The precision of the other program's values.
    digits: f64,
    /// Rows × outputs × players.
    values: Vec<f64>,
    /// Rows × outputs, as the predictions.
    base_values: Vec<f64>,
    predictions: Vec<f64>,
}

#[derive(Deserialize)]
struct File {
    name: String,
    source: String,
    game: String,
    kernel: Kernel,
    points: Vec<Vec<f64>>,
    coef: Vec<Vec<f64>>,
    intercept: Vec<f64>,
    background: Option<Vec<Vec<f64>>>,
    ridge: Option<f64>,
    rows: Vec<Vec<f64>>,
    values: Vec<Vec<Vec<f64>>>,
    base_values: Vec<f64>,
    predictions: Vec<Vec<f64>>,
}

impl From<File> for Case {
    fn from(file: File) -> Self {
        let table = |rows: &[Vec<f64>]| Table::from_rows(rows).unwrap();
        let coef = Matrix::from_row_major(file.coef.len(), file.intercept.len(), file.coef.concat());
        let background = || table(file.background.as_ref().unwrap());
        Self {
            game: match file.game.as_str() {
                "functional" => Game::Functional,
                "baseline" => Game::Baseline { point: background() },
                "interventional" => Game::Interventional { background: background().into() },
                "marginal-product" => Game::MarginalProduct { background: background().into() },
                "observational" => Game::Observational {
                    reference: background().into(),
                    conditional: Conditioning::with_ridge(file.ridge.unwrap()).into(),
                },
                other => panic!("unknown game {other}"),
            },
            name: file.name,
            model: KernelExpansion::new(file.kernel, table(&file.points), coef, file.intercept).unwrap(),
            rows: table(&file.rows),
            // shap solves its least squares with about eight digits.
            digits: if file.source.starts_with("shap") { 1e-7 } else { 0.0 },
            values: file.values.concat().concat(),
            base_values: file.base_values.repeat(file.rows.len()),
            predictions: file.predictions.concat(),
        }
    }
}

/// All of them.
pub fn cases() -> Vec<Case> {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases")).unwrap();
    let files = folder.map(|entry| entry.unwrap().path()).filter(|path| path.extension().unwrap() == "json");
    let read = |path| serde_json::from_slice::<File>(&std::fs::read(path).unwrap()).unwrap().into();
    let cases: Vec<Case> = files.map(read).collect();
    assert!(cases.len() >= 9);
    cases
}

impl Case {
    /// Holds an answer to the other program's, with a tolerance for each value.
    pub fn check(
        &self,
        by: &str,
        [base_values, predictions, values]: [&[f64]; 3],
        tolerance: impl Fn(usize) -> f64,
    ) {
        let assert_near =
            |quantity: &str, actual: &[f64], expected: &[f64], tolerance: &dyn Fn(usize) -> f64| {
                assert_eq!(actual.len(), expected.len(), "{} by {by}: {quantity}", self.name);
                for (k, (a, b)) in actual.iter().zip(expected).enumerate() {
                    let gap = (a - b).abs() / b.abs().max(1.0);
                    assert!(gap <= tolerance(k), "{} by {by}: {quantity} {k} is {a}, not {b}", self.name);
                }
            };
        assert_near("base value", base_values, &self.base_values, &|_| 1e-11);
        assert_near("prediction", predictions, &self.predictions, &|_| 1e-11);
        assert_near("value", values, &self.values, &|k| tolerance(k).max(self.digits));
    }
}
