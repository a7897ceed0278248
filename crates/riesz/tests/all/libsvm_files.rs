//! Content of LIBSVM's files in addition to the machine: probabilities, sigmoid kernels and svm-scale's
//! ranges, against LIBSVM's own numbers (`scripts/oracles/libsvm_files.py`) and enumeration.

use std::path::Path;

use riesz::explainer::PredictionFunction;
use riesz::format::libsvm::{Features, Ranges, read_ranges, read_with, write};
use riesz::kernel_model::ProbabilityLink;
use riesz::model_average::ModelPart;
use riesz::question::ValueEstimator;
use riesz::{
    Background, Error, Exactness, Explainer, Explanation, Game, KernelExpansion, Matrix, Prediction,
    Question, Table,
};
use serde_json::Value;

use crate::common::{fixture, numbers};

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/svm").join(name)).unwrap()
}

/// Returns the cases with chosen file names: the model in the user's units, rows, and LIBSVM's decision
/// values.
fn cases(is_chosen: impl Fn(&str) -> bool) -> Vec<(Value, KernelExpansion, Table, Matrix)> {
    let oracle = fixture("svm/files.json");
    let chosen =
        oracle["cases"].as_array().unwrap().iter().filter(|case| is_chosen(case["file"].as_str().unwrap()));
    let matrix = |rows: &Value| rows.as_array().unwrap().iter().map(numbers).collect::<Vec<_>>();
    let read = |case: &Value| {
        let (rows, decisions) = (matrix(&case["x"]), matrix(&case["decision"]));
        let x = Table::from_rows(&rows).unwrap();
        let ranges = case["range"].as_str().map(|name| read_ranges(&bytes(name)).unwrap());
        let features = Features { names: &[], ranges: ranges.as_ref() };
        let file = bytes(case["file"].as_str().unwrap());
        let model = read_with(&file, Some(x.width()), features).unwrap();
        let decisions = Matrix::from_row_major(x.rows(), model.outputs(), decisions.concat());
        (case.clone(), model, x, decisions)
    };
    let loaded: Vec<_> = chosen.map(read).collect();
    assert!(!loaded.is_empty());
    loaded
}

fn near(actual: f64, expected: f64, room: f64, label: &str) {
    assert!((actual - expected).abs() <= room, "{label}: {actual}, not {expected}");
}

#[test]
fn decision_values_are_libsvms_in_the_users_units() {
    for (case, model, x, decisions) in cases(|_| true) {
        let size = decisions.data().iter().fold(1.0_f64, |largest, v| largest.max(v.abs()));
        let prediction = model.predict(&x).unwrap();
        for (actual, expected) in prediction.data().iter().zip(decisions.data()) {
            near(*actual, *expected, 1e-11 * size, case["file"].as_str().unwrap());
        }
    }
}

#[test]
fn probabilities_are_libsvms() {
    for (case, model, x, _) in cases(|file| file.contains("probability")) {
        let labels: Vec<&str> =
            case["labels"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
        let actual = Prediction::new(&model, None, &x).unwrap().probabilities.unwrap();
        for (i, expected) in case["probabilities"].as_array().unwrap().iter().enumerate() {
            for (label, expected) in labels.iter().zip(numbers(expected)) {
                let class = model.classes.iter().position(|class| class == label).unwrap();
                near(actual[(i, class)], expected, 1e-12, &format!("{label} in row {i}"));
            }
        }
        // Both file formats keep them.
        let again = read_with(write(&model).unwrap().as_bytes(), Some(x.width()), Features::default());
        assert_eq!(ProbabilityLink::of_model(&again.unwrap()), ProbabilityLink::of_model(&model));
    }
}

/// Returns Shapley values of a function from all coalitions, rows × outputs × columns.
fn enumerated(f: impl Fn(&Table) -> Matrix, rows: &Table, background: &Table) -> Vec<f64> {
    let d = rows.width();
    let mut values = Vec::new();
    for i in 0..rows.rows() {
        let coalition_values: Vec<Vec<f64>> = (0..1_usize << d)
            .map(|s| {
                let mixed: Vec<Vec<f64>> = (0..background.rows())
                    .map(|b| {
                        let cell =
                            |j: usize| if s >> j & 1 == 1 { rows.get(i, j) } else { background.get(b, j) };
                        (0..d).map(cell).collect()
                    })
                    .collect();
                let answers = f(&Table::from_rows(&mixed).unwrap());
                let mean = |o: usize| answers.column(o).iter().sum::<f64>() / background.rows() as f64;
                (0..answers.cols()).map(mean).collect()
            })
            .collect();
        let factorial = |n: u32| (1..=n).map(f64::from).product::<f64>();
        for o in 0..coalition_values[0].len() {
            for j in 0..d {
                let coalitions = (0..1_usize << d).filter(|s| s >> j & 1 == 0);
                let share = coalitions.map(|s| {
                    let size = s.count_ones();
                    let weight = factorial(size) * factorial(d as u32 - size - 1) / factorial(d as u32);
                    weight * (coalition_values[s | 1 << j][o] - coalition_values[s][o])
                });
                values.push(share.sum());
            }
        }
    }
    values
}

fn check_values(explanation: &Explanation, expected: &[f64]) {
    let Exactness::Exact { bound } = &explanation.exactness else { panic!("{:?}", explanation.exactness) };
    assert!(
        explanation.certificate().unwrap().holds && bound.iter().all(|bound| *bound < 1e-11),
        "{bound:?}"
    );
    assert_eq!(explanation.values.len(), expected.len());
    for (k, (found_value, expected)) in explanation.values.iter().zip(expected).enumerate() {
        near(*found_value, *expected, 1e-12 + bound[k / explanation.players.len()], &format!("value {k}"));
    }
}

#[test]
fn probabilities_are_explained_by_all_coalitions() {
    for (_, model, x, _) in cases(|file| file.contains("probability")) {
        let (rows, background) = (x.select_rows(&[0, 1, 2]), x.select_rows(&[3, 4, 5, 6]));
        let shown = if model.classes.len() == 2 { vec![1] } else { (0..model.classes.len()).collect() };
        let f = |rows: &Table| {
            let all_probabilities = Prediction::new(&model, None, rows).unwrap().probabilities.unwrap();
            let cells = (0..all_probabilities.rows()).flat_map(|i| shown.iter().map(move |&k| (i, k)));
            Matrix::from_row_major(
                all_probabilities.rows(),
                shown.len(),
                cells.map(|cell| all_probabilities[cell]).collect(),
            )
        };
        let game = Game::Interventional { background: Background::from(background.clone()) };
        let question = Question { probabilities: true, ..Question::from(game) };
        let explanation = Explainer::new(&model, question).unwrap().explain(&rows).unwrap();
        check_values(&explanation, &enumerated(f, &rows, &background));
    }
}

#[test]
fn sigmoid_models_are_explained_by_their_predictions() {
    for (_, model, x, _) in cases(|file| file.contains("sigmoid")) {
        let (rows, background) = (x.select_rows(&[0, 1]), x.select_rows(&[3, 4, 5]));
        let function = PredictionFunction::new(&model, vec![ModelPart::single(&model, None)], false);
        assert!(matches!(function.without_exact_values(None), Some(Error::NotProduct { .. })));
        let game = Game::Interventional { background: Background::from(background.clone()) };
        for estimator in [ValueEstimator::KernelShap, ValueEstimator::Permutation { per_reference: 9 }] {
            let question = Question { estimator, ..Question::from(game.clone()) };
            let explanation = function.explain(&rows, 0, &question).unwrap();
            check_values(&explanation, &enumerated(|rows| model.predict(rows).unwrap(), &rows, &background));
            assert_eq!(explanation.output_names, model.output_names);
        }
    }
    // A model with exact values does not need sampled ones.
    let (_, model, ..) = cases(|file| file.starts_with("scaled_rbf")).swap_remove(0);
    assert!(
        PredictionFunction::new(&model, vec![ModelPart::single(&model, None)], false)
            .without_exact_values(None)
            .is_none()
    );
}

#[test]
fn features_have_the_names_that_are_given() {
    let file = bytes("scaled_rbf.model");
    let names: Vec<String> =
        ["radius", "texture", "perimeter", "area", "smooth", "compact"].map(String::from).into();
    let model = read_with(&file, None, Features { names: &names, ranges: None }).unwrap();
    assert!(model.columns().iter().map(|column| &column.name).eq(&names));
    let error = read_with(&file, None, Features { names: &names[..3], ranges: None }).unwrap_err();
    assert!(error.to_string().contains("larger than the given width of 3 features"), "{error}");
    let twice = vec!["a".to_string(); 6];
    let twice = read_with(&file, None, Features { names: &twice, ranges: None }).unwrap_err();
    assert!(matches!(twice, Error::DuplicateName { .. }));
}

#[test]
fn wrong_range_files_are_refused() {
    let good = "y\n-1 1\n39 332\nx\n0 2\n1 27 79\n3 1 2\n";
    let ranges = read_ranges(good.as_bytes()).unwrap();
    assert_eq!((ranges.width(), &ranges), (3, &read_ranges(good.replace('\n', "\r\n").as_bytes()).unwrap()));
    for (from, to, expected_line, words) in [
        ("y\n", "z\n", 1, "begins with 'x'"),
        ("-1 1", "1 -1", 2, "1 to -1 is no range"),
        ("39 332", "39", 3, "2 finite numbers"),
        ("x\n", "", 4, "begins with 'x'"),
        ("0 2", "0 inf", 5, "2 finite numbers"),
        ("1 27 79", "0 27 79", 6, "count from 1"),
        ("1 27 79", "1 79 79", 6, "79 to 79 is no range"),
        ("1 27 79", "1 27", 6, "3 finite numbers"),
        ("3 1 2", "1 1 2", 7, "stands twice"),
        ("x\n0 2\n1 27 79\n3 1 2\n", "", 3, "cut off"),
    ] {
        match read_ranges(good.replacen(from, to, 1).as_bytes()) {
            Err(Error::Parse { line, problem, .. }) => {
                assert!(line == expected_line && problem.contains(words), "{to}: line {line}: {problem}");
            }
            other => panic!("{to}: {other:?}"),
        }
    }
    assert!(read_ranges(b"").is_err() && read_ranges(b"x\n\xff").is_err());
    // Ranges of other data, and a scaled target of a classifier.
    let refused = |ranges: &Ranges, file: &str| {
        let features = Features { names: &[], ranges: Some(ranges) };
        read_with(&bytes(file), None, features).unwrap_err().to_string()
    };
    let narrow = read_ranges(b"x\n-1 1\n1 0 1\n").unwrap();
    assert!(refused(&narrow, "scaled_rbf.model").contains("feature = 2"));
    let range_text = String::from_utf8(bytes("scaled_rbf.range")).unwrap();
    let with_target = read_ranges(format!("y\n-1 1\n0 5\n{range_text}").as_bytes()).unwrap();
    assert!(refused(&with_target, "scaled_rbf.model").contains("scales the target"));
}
