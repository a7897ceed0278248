//! Kernel ridge regression against scikit-learn on the same data: coefficients and predictions.

use riesz::fit::KernelRidge;
use riesz::{Kernel, Matrix, Table};

use crate::common::{fixture, matrix};

fn close(actual: &Matrix, expected: &Matrix, label: &str) {
    let largest = expected.data().iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    assert_eq!(actual.data().len(), expected.data().len());
    for (f, e) in actual.data().iter().zip(expected.data()) {
        assert!((f - e).abs() < 1e-9 * largest, "{label}: {f} {e}");
    }
}

#[test]
fn scikit_learn_agrees() {
    let reference = fixture("ridge/scikit_learn.json");
    let rows: Vec<Vec<f64>> = serde_json::from_value(reference["x"].clone()).unwrap();
    let (train, test) = (Table::from_rows(&rows[..45]).unwrap(), Table::from_rows(&rows[45..]).unwrap());
    let y = matrix(&reference["y"]);
    let cases = reference["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 16);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let kernel: Kernel = serde_json::from_value(case["kernel"].clone()).unwrap();
        let mut estimator = KernelRidge::new(kernel, case["ridge"].as_f64().unwrap());
        estimator.center = false;
        estimator.sample_weight = serde_json::from_value(case["sample_weight"].clone()).unwrap();
        let fit = estimator.fit(&train, &y).unwrap();
        assert_eq!(fit.jitter, 0.0, "{name}");
        close(&fit.model.coef, &matrix(&case["dual_coef"]), name);
        close(&fit.model.predict(&test).unwrap(), &matrix(&case["predictions"]), name);
    }
}
