//! What LIBSVM's files say beside the machine: probabilities, sigmoid kernels and svm-scale's ranges, against
//! LIBSVM's own numbers (`scripts/oracles/libsvm_files.py`) and enumeration.

use std::path::Path;

use riesz::explainer::PredictionFunction;
use riesz::format::libsvm::{Features, Ranges, read_ranges, read_with, write};
use riesz::kernel_model::ProbabilityLink;
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

/// The cases whose files are called so: the model in the user's units, rows, and LIBSVM's decision values.
fn cases(of: impl Fn(&str) -> bool) -> Vec<(Value, KernelExpansion, Table, Matrix)> {
    let all = fixture("svm/files.json");
    let chosen = all["cases"].as_array().unwrap().iter().filter(|case| of(case["file"].as_str().unwrap()));
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
    let found: Vec<_> = chosen.map(read).collect();
    assert!(!found.is_empty());
    found
}

fn near(found: f64, expected: f64, room: f64, what: &str) {
    assert!((found - expected).abs() <= room, "{what}: {found}, not {expected}");
}

#[test]
fn decision_values_are_libsvms_in_the_users_units() {
    for (case, model, x, decisions) in cases(|_| true) {
        let size = decisions.data().iter().fold(1.0_f64, |most, v| most.max(v.abs()));
        let found = model.predict(&x).unwrap();
        for (found, expected) in found.data().iter().zip(decisions.data()) {
            near(*found, *expected, 1e-11 * size, case["file"].as_str().unwrap());
        }
    }
}

#[test]
fn probabilities_are_libsvms() {
    for (case, model, x, _) in cases(|file| file.contains("probability")) {
        let labels: Vec<&str> =
            case["labels"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
        let found = Prediction::of(&model, None, &x).unwrap().probabilities.unwrap();
        for (i, expected) in case["probabilities"].as_array().unwrap().iter().enumerate() {
            for (label, expected) in labels.iter().zip(numbers(expected)) {
                let class = model.classes.iter().position(|class| class == label).unwrap();
                near(found[(i, class)], expected, 1e-12, &format!("{label} in row {i}"));
            }
        }
        // They survive both file formats.
        let again = read_with(write(&model).unwrap().as_bytes(), Some(x.width()), Features::default());
        assert_eq!(ProbabilityLink::of_model(&again.unwrap()), ProbabilityLink::of_model(&model));
    }
}

/// Shapley values of a function by all coalitions, rows × outputs × columns.
fn enumerated(f: impl Fn(&Table) -> Matrix, rows: &Table, background: &Table) -> Vec<f64> {
    let d = rows.width();
    let mut values = Vec::new();
    for i in 0..rows.rows() {
        let worth: Vec<Vec<f64>> = (0..1_usize << d)
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
        for o in 0..worth[0].len() {
            for j in 0..d {
                let others = (0..1_usize << d).filter(|s| s >> j & 1 == 0);
                let share = others.map(|s| {
                    let size = s.count_ones();
                    let weight = factorial(size) * factorial(d as u32 - size - 1) / factorial(d as u32);
                    weight * (worth[s | 1 << j][o] - worth[s][o])
                });
                values.push(share.sum());
            }
        }
    }
    values
}

fn check_values(found: &Explanation, expected: &[f64]) {
    let Exactness::Exact { bound } = &found.exactness else { panic!("{:?}", found.exactness) };
    assert!(found.certificate().unwrap().holds && bound.iter().all(|bound| *bound < 1e-11), "{bound:?}");
    assert_eq!(found.values.len(), expected.len());
    for (k, (found_value, expected)) in found.values.iter().zip(expected).enumerate() {
        near(*found_value, *expected, 1e-12 + bound[k / found.players.len()], &format!("value {k}"));
    }
}

#[test]
fn probabilities_are_explained_by_all_coalitions() {
    for (_, model, x, _) in cases(|file| file.contains("probability")) {
        let (rows, background) = (x.select_rows(&[0, 1, 2]), x.select_rows(&[3, 4, 5, 6]));
        let shown = if model.classes.len() == 2 { vec![1] } else { (0..model.classes.len()).collect() };
        let f = |rows: &Table| {
            let all = Prediction::of(&model, None, rows).unwrap().probabilities.unwrap();
            let cells = (0..all.rows()).flat_map(|i| shown.iter().map(move |&k| (i, k)));
            Matrix::from_row_major(all.rows(), shown.len(), cells.map(|at| all[at]).collect())
        };
        let game = Game::Interventional { background: Background::from(background.clone()) };
        let question = Question { probabilities: true, ..Question::from(game) };
        let found = Explainer::new(&model, question).unwrap().explain(&rows).unwrap();
        check_values(&found, &enumerated(f, &rows, &background));
    }
}

#[test]
fn sigmoid_models_are_explained_by_their_predictions() {
    for (_, model, x, _) in cases(|file| file.contains("sigmoid")) {
        let (rows, background) = (x.select_rows(&[0, 1]), x.select_rows(&[3, 4, 5]));
        let function = PredictionFunction::new(&model, None, false);
        assert!(matches!(function.without_exact_values(None), Some(Error::NotProduct { .. })));
        let game = Game::Interventional { background: Background::from(background.clone()) };
        for estimator in [ValueEstimator::KernelShap, ValueEstimator::Permutation { per_reference: 9 }] {
            let question = Question { estimator, ..Question::from(game.clone()) };
            let found = function.explain(&rows, 0, &question).unwrap();
            check_values(&found, &enumerated(|rows| model.predict(rows).unwrap(), &rows, &background));
            assert_eq!(found.output_names, model.output_names);
        }
    }
    // A model with exact values has no need of them.
    let (_, model, ..) = cases(|file| file.starts_with("scaled_rbf")).swap_remove(0);
    assert!(PredictionFunction::new(&model, None, false).without_exact_values(None).is_none());
}

#[test]
fn features_have_the_names_that_are_given() {
    let file = bytes("scaled_rbf.model");
    let names: Vec<String> =
        ["radius", "texture", "perimeter", "area", "smooth", "compact"].map(String::from).into();
    let model = read_with(&file, None, Features { names: &names, ranges: None }).unwrap();
    assert!(model.columns().iter().map(|column| &column.name).eq(&names));
    let few = read_with(&file, None, Features { names: &names[..3], ranges: None }).unwrap_err();
    assert!(few.to_string().contains("above the 3 features"), "{few}");
    let twice = vec!["a".to_string(); 6];
    let twice = read_with(&file, None, Features { names: &twice, ranges: None }).unwrap_err();
    assert!(matches!(twice, Error::DuplicateName { .. }));
}

#[test]
fn wrong_range_files_are_refused() {
    let good = "y\n-1 1\n39 332\nx\n0 2\n1 27 79\n3 1 2\n";
    let ranges = read_ranges(good.as_bytes()).unwrap();
    assert_eq!((ranges.width(), &ranges), (3, &read_ranges(good.replace('\n', "\r\n").as_bytes()).unwrap()));
    for (from, to, at, words) in [
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
                assert!(line == at && problem.contains(words), "{to}: line {line}: {problem}");
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
    let few = read_ranges(b"x\n-1 1\n1 0 1\n").unwrap();
    assert!(refused(&few, "scaled_rbf.model").contains("feature = 2"));
    let own = String::from_utf8(bytes("scaled_rbf.range")).unwrap();
    let with_target = read_ranges(format!("y\n-1 1\n0 5\n{own}").as_bytes()).unwrap();
    assert!(refused(&with_target, "scaled_rbf.model").contains("scales the target"));
}
