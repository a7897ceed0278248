//! LIBSVM model files: real ones (made by `scripts/oracles/svm.py`), round trips, and damaged or arbitrary
//! input.

use proptest::prelude::*;
use riesz::fit::{SupportVectorClassifier, SupportVectorRegressor};
use riesz::format::libsvm::{read, write};
use riesz::kernel::{Linear, Polynomial, Profile, Stationary};
use riesz::{Error, Kernel, KernelExpansion, Link, Matrix, Table};

use crate::common::{fixture, numbers};

const FILES: [(&str, &str); 7] = [
    ("c_svc_rbf.model", include_str!("../data/svm/c_svc_rbf.model")),
    ("c_svc_poly_3_classes.model", include_str!("../data/svm/c_svc_poly_3_classes.model")),
    ("c_svc_linear_probability.model", include_str!("../data/svm/c_svc_linear_probability.model")),
    ("nu_svc_rbf.model", include_str!("../data/svm/nu_svc_rbf.model")),
    ("one_class_rbf.model", include_str!("../data/svm/one_class_rbf.model")),
    ("epsilon_svr_rbf.model", include_str!("../data/svm/epsilon_svr_rbf.model")),
    ("nu_svr_linear.model", include_str!("../data/svm/nu_svr_linear.model")),
];

/// Asserts that models are equal except for the names of columns and the order of points.
fn assert_same_model(a: &KernelExpansion, b: &KernelExpansion) {
    assert_eq!(a.kernel, b.kernel);
    assert_eq!(a.support_points, b.support_points);
    assert_eq!(a.coef, b.coef);
    assert_eq!(a.intercept, b.intercept);
    assert_eq!((a.link, &a.classes), (b.link, &b.classes));
}

#[test]
fn files_of_libsvm_predict_as_libsvm() {
    let oracle = fixture("svm/libsvm.json");
    let cases = oracle["cases"].as_array().unwrap();
    assert_eq!(cases.len(), FILES.len());
    for (case, (name, text)) in cases.iter().zip(FILES) {
        assert_eq!(case["file"], name);
        let rows: Vec<Vec<f64>> = case["x"].as_array().unwrap().iter().map(numbers).collect();
        let x = Table::from_rows(&rows).unwrap();
        let model = read(text.as_bytes(), Some(x.width())).unwrap();
        let ours = model.predict(&x).unwrap();
        for (r, row) in case["decision"].as_array().unwrap().iter().enumerate() {
            for (a, b) in numbers(row).iter().zip(ours.row(r)) {
                assert!((a - b).abs() <= 1e-12 * a.abs().max(10.0), "{name}, row {r}: {b}, not {a}");
            }
        }
        for (r, label) in case["predicted"].as_array().unwrap().iter().enumerate() {
            assert_eq!(
                model.classes[model.predicted_class(ours.row(r)).unwrap()],
                label.as_str().unwrap(),
                "{name}"
            );
        }
        // The written model is read back bit for bit, including its card.
        let again = read(write(&model).unwrap().as_bytes(), Some(x.width())).unwrap();
        assert_eq!(model, again, "{name}");
        let dos = text.replace('\n', "\r\n");
        assert_eq!(model, read(dos.as_bytes(), Some(x.width())).unwrap(), "{name} with CRLF");
    }
}

#[test]
fn labels_keep_libsvms_meaning() {
    let two = "svm_type c_svc\nkernel_type linear\nnr_class 2\ntotal_sv 2\nrho -0.5\nlabel 1 -1\nnr_sv 1 \
               1\nSV\n1e0 1:+1 \n-1 2:.5\n\n";
    let model = read(two.as_bytes(), None).unwrap();
    assert_eq!(model.classes, ["-1", "1"]);
    assert_eq!(model.output_names, ["1 vs -1"]);
    let x = Table::from_rows(&[[3.0, 1.0], [-3.0, 1.0]]).unwrap();
    let outputs = model.predict(&x).unwrap();
    assert_eq!(outputs.data(), [3.0, -3.0]);
    assert_eq!(
        (model.predicted_class(outputs.row(0)), model.predicted_class(outputs.row(1))),
        (Some(1), Some(0))
    );
    // With the labels in the other order, the value keeps LIBSVM's sign, positive for the first label.
    let model = read(two.replace("label 1 -1", "label -1 1").as_bytes(), None).unwrap();
    assert_eq!(model.classes, ["1", "-1"]);
    assert_eq!(model.predict(&x).unwrap().data(), [3.0, -3.0]);
}

/// Every invalid file is refused with the problem and its line.
#[test]
fn wrong_files_are_refused_with_the_line() {
    let good = "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho 0.1\nlabel 1 -1\n\
                nr_sv 1 1\nSV\n1 1:1 3:2 \n-1 2:0.5 \n";
    read(good.as_bytes(), None).unwrap();
    let cases: &[(&str, &str, usize, &str)] = &[
        ("svm_type c_svc", "svm_type c_svm", 1, "svm_type"),
        ("kernel_type rbf", "kernel_type sigmoid", 9, "'coef0' is missing"),
        ("kernel_type rbf", "kernel_type precomputed", 2, "data points"),
        ("kernel_type rbf", "kernel_type cubic", 2, "the kernels are"),
        ("kernel_type rbf", "kernel_type polynomial", 9, "'coef0' is missing"),
        ("gamma 0.5", "gamma nan", 3, "finite"),
        ("gamma 0.5", "gamma -1", 3, "positive"),
        ("gamma 0.5", "gamma 1 2", 3, "one"),
        ("gamma 0.5", "gamma", 3, "0 values"),
        ("gamma 0.5", "colour 3", 3, "not a field"),
        ("gamma 0.5", "svm_type c_svc", 3, "twice"),
        ("gamma 0.5", "gamma 0.5\nprobA 1 2", 4, "2 values instead of 1"),
        ("nr_class 2", "nr_class 1", 4, "at least 2"),
        ("nr_class 2", "nr_class 18446744073709551615", 6, "'rho' has 1 values"),
        ("nr_class 2", "nr_class 5000000000", 6, "'rho' has 1 values"),
        ("nr_class 2", "nr_class 99999999999999999999", 4, "whole number"),
        ("total_sv 2", "total_sv 9999999999999", 8, "add up"),
        ("total_sv 2", "total_sv -2", 5, "whole number"),
        ("rho 0.1", "rho inf", 6, "finite"),
        ("rho 0.1", "rho 0.1 0.2", 6, "2 values instead of 1"),
        ("label 1 -1", "label 1 1", 7, "twice"),
        ("label 1 -1", "label 1 a", 7, "whole number"),
        ("label 1 -1", "probA x", 9, "'label' is missing"),
        ("nr_sv 1 1", "nr_sv 1 2", 8, "add up"),
        ("nr_sv 1 1", "nr_sv 18446744073709551615 3", 8, "add up"),
        ("nr_sv 1 1", "nr_sv 2", 8, "1 values instead of 2"),
        ("1 1:1 3:2", "1 0:1 3:2", 10, "count from 1"),
        ("1 1:1 3:2", "1 3:1 1:2", 10, "ascend"),
        ("1 1:1 3:2", "1 3:1 3:2", 10, "ascend"),
        ("1 1:1 3:2", "1 1:1 4000000000:2", 10, "too large"),
        ("1 1:1 3:2", "1 1:1 3:NaN", 10, "finite"),
        ("1 1:1 3:2", "1 1:1 3", 10, "index:value"),
        ("1 1:1 3:2", "1:1 3:2", 10, "0 coefficients instead of 1"),
        ("1 1:1 3:2", "x 1:1 3:2", 10, "finite"),
        ("-1 2:0.5 \n", "", 10, "after 1 of 2"),
        ("-1 2:0.5 \n", "-1 2:0.5 \n-1 2:0.5 \n", 12, "more support vectors"),
        ("SV\n", "SV 3\n", 9, "nothing else"),
        ("SV\n", "", 9, "not a field"),
    ];
    for (from, to, expected_line, words) in cases {
        assert!(good.contains(from));
        match read(good.replacen(from, to, 1).as_bytes(), None) {
            Err(Error::Parse { format: "LIBSVM model", line, problem }) => {
                assert!(line == *expected_line && problem.contains(words), "{to}: line {line}: {problem}");
            }
            other => panic!("{to}: {other:?}"),
        }
    }
    let parse_error = |bytes: &[u8], width| match read(bytes, width) {
        Err(Error::Parse { line, problem, .. }) => (line, problem),
        other => panic!("{other:?}"),
    };
    assert_eq!(parse_error(b"svm_type c_svc\n\xff\xfe", None).0, 2);
    assert!(parse_error(b"", None).1.contains("cut off"));
    assert_eq!(parse_error(good.as_bytes(), Some(2)).0, 10);
    let empty = "svm_type epsilon_svr\nkernel_type linear\nnr_class 2\ntotal_sv 0\nrho -3\nSV\n";
    assert!(parse_error(empty.as_bytes(), None).1.contains("give the width"));
    assert_eq!(read(empty.as_bytes(), Some(3)).unwrap().intercept, [3.0]);
    assert!(matches!(read(good.as_bytes(), Some(0)), Err(Error::Parameter { .. })));
    // Many rows of a wide table need no more memory than the file justifies.
    let mut wide =
        "svm_type epsilon_svr\nkernel_type linear\nnr_class 2\ntotal_sv 1000\nrho 0\nSV\n".to_string();
    (0..1000).for_each(|_| wide += "1 1000000:1\n");
    assert!(parse_error(wide.as_bytes(), None).1.contains("too much memory"));
}

fn regression(kernel: Kernel) -> KernelExpansion {
    let points = Table::from_rows(&[[1.0, 2.0], [0.5, 0.0]]).unwrap();
    KernelExpansion::new(kernel, points, Matrix::column_vector(vec![1.0, -0.3]), vec![0.25]).unwrap()
}

#[test]
fn models_without_libsvm_form_say_why() {
    let linear =
        |center, scale: [f64; 2]| Linear { columns: vec![0, 1], center, scale: scale.to_vec() }.into();
    let reason = |model: &KernelExpansion| match write(model) {
        Err(Error::Format { problem }) => problem,
        other => panic!("{other:?}"),
    };
    let cases: [(Kernel, &str); 7] = [
        (Kernel::gaussian(&[1.0, 2.0]), "length scales differ"),
        (Kernel::gaussian(&[1.0]), "every column"),
        (Kernel::stationary(Profile::Matern32, &[1.0, 1.0]), "LIBSVM has no kernel"),
        (Kernel::gaussian(&[1.0, 1.0]) + Kernel::constant(1.0), "is a sum"),
        (linear(vec![0.0, 1.0], [1.0, 1.0]), "shifts"),
        (linear(vec![0.0, 0.0], [1.0, 2.0]), "unequally"),
        (Kernel::gaussian(&[1e-170, 1e-170]), "is too extreme for a gamma"),
    ];
    for (kernel, words) in cases {
        let why = reason(&regression(kernel));
        assert!(why.contains(words), "{why}");
    }
    let mut named = regression(Kernel::gaussian(&[1.0, 1.0]));
    (named.link, named.classes) = (Link::Vote, vec!["no".into(), "yes".into()]);
    assert!(reason(&named).contains("'no' is not a whole number"));
    named.classes = vec!["0".into(), "1".into()];
    assert!(write(&named).unwrap().contains("label 1 0\n"));
    named.link = Link::Logistic;
    assert!(reason(&named).contains("probability"));
}

#[test]
fn scales_are_absorbed() {
    let polynomial: Kernel = Polynomial {
        columns: vec![1, 0],
        center: vec![0.0; 2],
        scale: vec![2.0; 2],
        gamma: 0.3,
        coef0: 0.5,
        degree: 2,
    }
    .into();
    let linear: Kernel = Linear { columns: vec![0, 1], center: vec![0.0; 2], scale: vec![4.0; 2] }.into();
    let parts: Kernel = Stationary {
        profile: Profile::Gaussian,
        columns: vec![1],
        length_scale: vec![0.5],
        ard: true,
        isotropic: false,
    }
    .into();
    let x = Table::from_rows(&[[0.3, -1.0], [2.0, 0.1]]).unwrap();
    for kernel in [3.0 * polynomial, 0.7 * linear, 2.5 * (parts * Kernel::gaussian(&[0.5]))] {
        let model = regression(kernel);
        let again = read(write(&model).unwrap().as_bytes(), None).unwrap();
        let (a, b) = (model.predict(&x).unwrap(), again.predict(&x).unwrap());
        a.data().iter().zip(b.data()).for_each(|(a, b)| assert!((a - b).abs() <= 1e-14 * (1.0 + a.abs())));
    }
}

#[test]
fn own_models_go_out_and_come_back() {
    let rows: Vec<[f64; 2]> = (0..40).map(|i| [(i as f64 * 0.7).sin(), (i as f64 * 1.3).cos()]).collect();
    let x = Table::from_rows(&rows).unwrap();
    let labels: Vec<usize> =
        rows.iter().map(|r| if r[0] > 0.3 { 2 } else { usize::from(r[1] > 0.0) }).collect();
    let kernel = Kernel::stationary(Profile::Gaussian, &[0.7, 0.7]);
    for classes in [3, 2] {
        let labels: Vec<usize> = labels.iter().map(|l| l % classes).collect();
        let names: Vec<String> = (0..classes).map(|c| c.to_string()).collect();
        let fit = SupportVectorClassifier::new(kernel.clone(), 3.0).fit(&x, &labels, &names).unwrap();
        let again = read(write(&fit.model).unwrap().as_bytes(), Some(2)).unwrap();
        assert_eq!(again.classes, fit.model.classes);
        assert_eq!(again.output_names, fit.model.output_names);
        let (a, b) = (fit.model.predict(&x).unwrap(), again.predict(&x).unwrap());
        a.data().iter().zip(b.data()).for_each(|(a, b)| assert!((a - b).abs() <= 1e-13));
    }
    let y: Vec<f64> = rows.iter().map(|r| r[0] * r[1]).collect();
    let fit = SupportVectorRegressor::new(kernel, 3.0, 0.01).fit(&x, &y).unwrap();
    let again = read(write(&fit.model).unwrap().as_bytes(), Some(2)).unwrap();
    assert_eq!((fit.model.coef, fit.model.intercept), (again.coef, again.intercept));
}

/// Doubles of all sizes that a model may contain.
fn double() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        -10.0..10.0_f64,
        (-300.0..300.0_f64, any::<bool>()).prop_map(|(e, s)| if s {
            10_f64.powf(e)
        } else {
            -(10_f64.powf(e))
        }),
    ]
}

prop_compose! {
    /// A classifier with support points sorted by class, as LIBSVM writes them.
    fn classifier()(k in 2..5_usize, counts in prop::collection::vec(0..4_usize, 5), d in 1..4_usize)(
        points in prop::collection::vec(double(), 20 * d),
        coef in prop::collection::vec(0.01..5.0_f64, 100),
        intercept in prop::collection::vec(double(), 10),
        length in 0.01..100.0_f64,
        k in Just(k), counts in Just(counts), d in Just(d),
    ) -> KernelExpansion {
        let owners: Vec<usize> = (0..k).flat_map(|c| vec![c; counts[c]]).collect();
        let n = owners.len();
        let pairs: Vec<(usize, usize)> = (0..k).flat_map(|i| (i + 1..k).map(move |j| (i, j))).collect();
        let mut matrix = Matrix::zeros(n, pairs.len());
        for (r, owner) in owners.iter().enumerate() {
            for (p, pair) in pairs.iter().enumerate() {
                let value = coef[(r * 7 + p) % 100];
                matrix[(r, p)] =
                    if pair.0 == *owner { value } else if pair.1 == *owner { -value } else { 0.0 };
            }
        }
        let columns = riesz::Column::numbered(d);
        let table = Table::from_column_major(columns, n, points[..n * d].to_vec()).unwrap();
        let kernel = Stationary {
            profile: Profile::Gaussian,
            columns: (0..d).collect(),
            length_scale: vec![length; d],
            ard: false,
            isotropic: true,
        };
        let mut model =
            KernelExpansion::new(kernel.into(), table, matrix, intercept[..pairs.len()].to_vec()).unwrap();
        model.link = Link::Vote;
        model.classes = (0..k).map(|c| (c as i32 * 5 - 7).to_string()).collect();
        model
    }
}

proptest! {
    #[test]
    fn round_trips_are_exact(model in classifier()) {
        let text = write(&model).unwrap();
        let again = read(text.as_bytes(), Some(model.support_points.width())).unwrap();
        assert_same_model(&model, &again);
        prop_assert_eq!(write(&again).unwrap().replace("svm_type nu_svc", "svm_type c_svc"), text);
    }

    /// Cut, overwritten, repeated and shuffled files give a model or an error, never a panic, and never need
    /// much memory.
    #[test]
    fn damaged_files_never_panic(
        file in 0..FILES.len(),
        cut in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        lines in prop::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>())),
        whole in any::<bool>(),
    ) {
        let mut bytes = FILES[file].1.as_bytes().to_vec();
        for (position, value) in changes {
            let position = position.index(bytes.len());
            // Often a character that may occur in a model file.
            bytes[position] = if value < 128 { b"0123456789 :-.e\n"[value as usize % 16] } else { value };
        }
        if let Some((a, b)) = lines {
            let mut all_lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
            let (a, b) = (a.index(all_lines.len()), b.index(all_lines.len()));
            all_lines.swap(a, b);
            bytes = all_lines.join(&b'\n');
        }
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        for width in [None, Some(5)] {
            if let Ok(model) = read(&bytes, width) {
                let again = read(write(&model).unwrap().as_bytes(), Some(model.support_points.width())).unwrap();
                prop_assert_eq!(again.intercept, model.intercept);
            }
        }
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes, None);
    }
}
