//! Every kind of model in the registry: settings and inputs are used or refused by name, and the fit by name
//! equals the estimator's.

use riesz::fit::cross_validation::{
    ClassScore, GridAxis, cross_validate, cross_validate_classes, folds, stratified_folds,
};
use riesz::fit::{
    FitTask, FittedModel, GaussianProcess, GaussianProcessClassifier, KernelLogisticRegression, KernelRidge,
    MODELS, ModelKind, OptionalInput, OutputType, Penalty, SupportVectorClassifier, SupportVectorRegressor,
    Target, TunedParameters,
};
use riesz::{Error, Kernel, KernelExpansion, Matrix, Table};
use serde_json::{Value, json};

use crate::common::Stream;
use crate::question::example;

fn rows() -> Table {
    let rows: Vec<[f64; 2]> =
        (0..24).map(|i| [f64::from(i) / 6.0 - 2.0, f64::from(i * i % 7) / 3.0 - 1.0]).collect();
    Table::from_rows(&rows).unwrap()
}

fn numbers() -> Vec<f64> {
    (0..24).map(|i| (f64::from(i) / 4.0).sin() * 30.0 + 100.0 + f64::from(i * i % 5)).collect()
}

fn classes() -> (Vec<usize>, Vec<String>) {
    ((0..24).map(|i| i * i % 3 % 2).collect(), vec!["no".into(), "yes".into()])
}

fn target(kind: &ModelKind) -> Target {
    let (labels, classes) = classes();
    match kind.predicts {
        OutputType::Class => Target::Classes { labels, classes },
        _ => Target::Numbers(Matrix::column_vector(numbers())),
    }
}

fn kernel() -> Kernel {
    Kernel::gaussian(&[1.5, 0.8])
}

/// Fits a kind of model with these settings, weights if it takes any, and a seed.
fn fitted(name: &str, settings: Value, weights: Option<Vec<f64>>) -> Result<FittedModel, Error> {
    let (kind, x) = (ModelKind::named(name).unwrap(), rows());
    let mut task = FitTask::new(&x, target(kind), kernel());
    let Value::Object(settings) = settings else { panic!("not an object") };
    task.settings = kind.values(settings)?;
    (task.sample_weight, task.seed) = (weights, 3);
    kind.fit(&task)
}

fn assert_same_predictions(fitted: &KernelExpansion, direct: &KernelExpansion) {
    let new = Table::from_rows(&[[0.3, -0.2], [-1.4, 0.9]]).unwrap();
    assert_eq!(fitted.predict(&new).unwrap(), direct.predict(&new).unwrap());
    assert_eq!(fitted.support_points.rows(), direct.support_points.rows());
}

#[test]
fn settings_and_inputs_are_used_or_refused_by_name() {
    for kind in MODELS {
        for setting in ModelKind::all_settings() {
            let is_accepted = kind.settings.iter().any(|candidate| candidate.name == setting.name);
            match kind.values([(setting.name.to_string(), example(setting))]) {
                Ok(values) => assert!(is_accepted && values.names().eq([setting.name])),
                Err(Error::Unused { setting: name, belongs }) => {
                    assert!(
                        !is_accepted
                            && name == setting.name
                            && belongs.ends_with(&format!("not to {}", kind.name))
                    );
                }
                Err(error) => panic!("{}: {error}", setting.name),
            }
            assert!(!setting.help.is_empty());
        }
        let x = rows();
        let none = |_: &Kernel| {
            Ok(Penalty { functionals: Matrix::zeros(24, 1), strength: 1.0, ranges: None, sampled: None })
        };
        for input in [OptionalInput::SampleWeight, OptionalInput::RowNoise, OptionalInput::Penalty] {
            let mut task = FitTask::new(&x, target(kind), kernel());
            task.settings = kind.values([]).unwrap();
            match input {
                OptionalInput::SampleWeight => task.sample_weight = Some(vec![1.0; 24]),
                OptionalInput::RowNoise => task.row_noise = Some(vec![0.1; 24]),
                OptionalInput::Penalty => task.penalty = Some(&none),
            }
            match kind.fit(&task) {
                Err(Error::Unused { setting, .. }) => {
                    assert!(!kind.takes.contains(&input) && setting == input.name());
                }
                // The leave-one-out error of krr does not support weights, so that the ridge must be given.
                Err(Error::Parameter { name, .. }) => {
                    assert_eq!((name.as_str(), kind.name), ("ridge", "krr"))
                }
                other => assert!(other.is_ok() && kind.takes.contains(&input), "{} {input:?}", kind.name),
            }
        }
    }
    assert!(
        fitted("krr", json!({"alpha": 1}), None).unwrap_err().to_string().contains("it is one of ridge, ")
    );
}

#[test]
fn every_kind_fits_what_it_predicts_and_nothing_else() {
    let x = rows();
    for kind in MODELS {
        let fit = kind.fit(&FitTask::new(&x, target(kind), kernel())).unwrap();
        assert_eq!(fit.covariance.is_some(), kind.posterior, "{}", kind.name);
        assert_eq!(fit.model.classes.is_empty(), kind.predicts != OutputType::Class);
        assert!(fit.converged && ModelKind::named(kind.name).is_some_and(|named| std::ptr::eq(named, kind)));
        let other =
            MODELS.iter().find(|o| (o.predicts == OutputType::Class) != (kind.predicts == OutputType::Class));
        let wrong = kind.fit(&FitTask::new(&x, target(other.unwrap()), kernel()));
        assert!(matches!(wrong, Err(Error::Target { .. })));
        let two = Target::Numbers(Matrix::from_row_major(24, 2, [numbers(), numbers()].concat()));
        let several = kind.fit(&FitTask::new(&x, two, kernel()));
        assert_eq!(several.is_ok(), kind.predicts == OutputType::Numbers, "{}", kind.name);
    }
}

#[test]
fn fits_by_name_are_the_estimators_own() {
    let (x, y, (labels, names)) = (rows(), Matrix::column_vector(numbers()), classes());
    let w: Vec<f64> = (0..24).map(|i| 1.0 + f64::from(i % 3)).collect();

    let mut ridge = KernelRidge::new(kernel(), 0.3);
    (ridge.center, ridge.sample_weight) = (false, Some(w.clone()));
    let by_name = fitted("krr", json!({"ridge": 0.3, "fit_intercept": false}), Some(w.clone())).unwrap();
    assert_same_predictions(&by_name.model, &ridge.fit(&x, &y).unwrap().model);

    let mut logistic = KernelLogisticRegression::new(kernel(), 0.3);
    (logistic.sample_weight, logistic.fit_intercept) = (Some(w.clone()), false);
    logistic.class_weight = riesz::fit::ClassWeight::PerClass(vec![1.0, 3.0]);
    let settings = json!({"ridge": 0.3, "class_weight": {"yes": 3}, "fit_intercept": false});
    let by_name = fitted("klr", settings, Some(w.clone())).unwrap();
    let direct = logistic.fit(&x, &labels, &names).unwrap();
    assert_same_predictions(&by_name.model, &direct.model);
    assert_eq!((by_name.end, by_name.iterations), (Some(direct.end), vec![direct.iterations]));

    let mut svc = SupportVectorClassifier::new(kernel(), 2.0);
    (svc.sample_weight, svc.tolerance) = (Some(w.clone()), 1e-6);
    svc.class_weight = riesz::fit::ClassWeight::Balanced;
    let by_name =
        fitted("svc", json!({"c": 2, "tol": 1e-6, "class_weight": "balanced"}), Some(w.clone())).unwrap();
    let direct = svc.fit(&x, &labels, &names).unwrap();
    assert_same_predictions(&by_name.model, &direct.model);
    assert_eq!(by_name.support, Some(direct.support));

    let mut svr = SupportVectorRegressor::new(kernel(), 2.0, 0.5);
    svr.sample_weight = Some(w.clone());
    let by_name = fitted("svr", json!({"c": 2, "epsilon": 0.5, "normalize_y": false}), Some(w)).unwrap();
    assert_same_predictions(&by_name.model, &svr.fit(&x, &numbers()).unwrap().model);
    // With normalised targets, the model is that of the target in standard units.
    let scaled = fitted("svr", json!({"c": 2, "epsilon": 0.5}), None).unwrap().model;
    let (mean, sd) = {
        let mean = numbers().iter().sum::<f64>() / 24.0;
        (mean, (numbers().iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 24.0).sqrt())
    };
    let units: Vec<f64> = numbers().iter().map(|v| (v - mean) / sd).collect();
    let mut direct = SupportVectorRegressor::new(kernel(), 2.0, 0.5).fit(&x, &units).unwrap().model;
    direct.rescale(sd, mean);
    let (a, b) = (scaled.predict(&x).unwrap(), direct.predict(&x).unwrap());
    assert!(a.data().iter().zip(b.data()).all(|(a, b)| (a - b).abs() < 1e-9));

    for (settings, tune, noise) in [
        (json!({}), TunedParameters::KernelAndNoise, 0.1),
        (json!({"noise": 0.2}), TunedParameters::Kernel, 0.2),
        (json!({"fixed_kernel": true}), TunedParameters::Noise, 0.1),
        (json!({"noise": 0.2, "fixed_kernel": true}), TunedParameters::Nothing, 0.2),
    ] {
        let mut gp = GaussianProcess::new(kernel(), noise);
        (gp.tune, gp.seed) = (tune, 3);
        let (by_name, direct) = (fitted("gp", settings, None).unwrap(), gp.fit(&x, &y).unwrap());
        assert_same_predictions(&by_name.model, &direct.model);
        assert_eq!(by_name.noise, Some(direct.noise));
        assert_eq!(by_name.log_marginal_likelihood, Some(direct.log_marginal_likelihood));
        // Parameters that are not tuned stay the same.
        let (start, end) = (gp.parameters(), direct.theta);
        let moved: Vec<bool> = start.iter().zip(&end).map(|(s, e)| (s.log_value - e).abs() > 1e-12).collect();
        let kernel = matches!(tune, TunedParameters::Kernel | TunedParameters::KernelAndNoise);
        let noise = matches!(tune, TunedParameters::Noise | TunedParameters::KernelAndNoise);
        assert_eq!(moved, [vec![kernel; start.len() - 1], vec![noise]].concat(), "{tune:?}");
    }

    let mut gpc = GaussianProcessClassifier::new(kernel());
    (gpc.restarts, gpc.seed) = (1, 3);
    let by_name = fitted("gpc", json!({"restarts": 1}), None).unwrap();
    assert_same_predictions(&by_name.model, &gpc.fit(&x, &labels, &names).unwrap().model);
}

#[test]
fn auto_settings_are_the_best_on_held_out_folds() {
    let (x, y, (labels, names)) = (rows(), Matrix::column_vector(numbers()), classes());
    let axes = |name: &str, values: &[f64]| {
        GridAxis::grid(&[GridAxis::new(name, values), GridAxis::new("multiple", &[4.0, 2.0, 1.0, 0.5, 0.25])])
    };
    let scaled_kernel = |multiple: f64| kernel().with_length_scales_times(multiple).unwrap();

    let grid = axes("ridge", &[10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4]);
    let parts = folds(24, 4, 3).unwrap();
    let best = cross_validate(&grid, &x, &y, &parts, |p, x, y, _| {
        Ok(KernelRidge::new(scaled_kernel(p[1]), p[0]).fit(x, y)?.model)
    });
    let best = &grid[best.unwrap().best];
    let tuned = fitted("krr", json!({"folds": 4}), None).unwrap().model;
    assert_same_predictions(
        &tuned,
        &KernelRidge::new(scaled_kernel(best[1]), best[0]).fit(&x, &y).unwrap().model,
    );

    // Weights apply in the folds too: half of the rows contradict the other half, with negligible weights.
    let w: Vec<f64> = (0..24).map(|i| if i % 2 == 0 { 1.0 } else { 1e-6 }).collect();
    let opposite: Vec<f64> = numbers().iter().zip(&w).map(|(v, w)| if *w < 1.0 { -v } else { *v }).collect();
    let y = Matrix::column_vector(opposite);
    let best = cross_validate(&grid, &x, &y, &parts, |p, x, y, rows| {
        let mut ridge = KernelRidge::new(scaled_kernel(p[1]), p[0]);
        ridge.sample_weight = Some(rows.iter().map(|&i| w[i]).collect());
        Ok(ridge.fit(x, y)?.model)
    });
    let best = &grid[best.unwrap().best];
    let mut direct = KernelRidge::new(scaled_kernel(best[1]), best[0]);
    direct.sample_weight = Some(w.clone());
    let mut task = FitTask::new(&x, Target::Numbers(y.clone()), kernel());
    task.settings = ModelKind::named("krr").unwrap().values([("folds".into(), json!(4))]).unwrap();
    (task.sample_weight, task.seed) = (Some(w), 3);
    assert_same_predictions(
        &ModelKind::named("krr").unwrap().fit(&task).unwrap().model,
        &direct.fit(&x, &y).unwrap().model,
    );

    let parts = stratified_folds(&labels, &names, 5, 3).unwrap();
    let best =
        cross_validate_classes(&grid, &x, &labels, &names, &parts, ClassScore::LogLoss, |p, x, l, _| {
            Ok(KernelLogisticRegression::new(scaled_kernel(p[1]), p[0]).fit(x, l, &names)?.model)
        });
    let best = &grid[best.unwrap().best];
    let tuned = fitted("klr", json!({"ridge": "auto"}), None).unwrap();
    let direct = KernelLogisticRegression::new(scaled_kernel(best[1]), best[0])
        .fit(&x, &labels, &names)
        .unwrap()
        .model;
    assert_same_predictions(&tuned.model, &direct);
    let fact = |name: &str| {
        tuned.model.model_card.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone())
    };
    assert!(fact("chosen by").unwrap().starts_with("log loss on 5 held-out folds: "));
    assert_eq!(fact("multiple of the length scales").unwrap(), best[1].to_string());

    let grid = axes("c", &[0.1, 1.0, 10.0, 100.0, 1000.0]);
    let parts = stratified_folds(&labels, &names, 3, 3).unwrap();
    let best =
        cross_validate_classes(&grid, &x, &labels, &names, &parts, ClassScore::Accuracy, |p, x, l, _| {
            Ok(SupportVectorClassifier::new(scaled_kernel(p[1]), p[0]).fit(x, l, &names)?.model)
        });
    let best = &grid[best.unwrap().best];
    let tuned = fitted("svc", json!({"c": "auto", "folds": 3}), None).unwrap().model;
    assert_same_predictions(
        &tuned,
        &SupportVectorClassifier::new(scaled_kernel(best[1]), best[0])
            .fit(&x, &labels, &names)
            .unwrap()
            .model,
    );
}

/// Returns many rows of a target of two waves; the classes are its sign, with two rows of a third class.
fn large_sample() -> (Table, Vec<f64>, Vec<usize>) {
    let rows: Vec<[f64; 2]> =
        (0..300).map(|i| [f64::from(i * 37 % 300) / 50.0, f64::from(i * 91 % 300) / 50.0]).collect();
    let y: Vec<f64> = rows.iter().map(|r| r[0].sin() + (2.0 * r[1]).cos()).collect();
    let mut labels: Vec<usize> = y.iter().map(|v| usize::from(*v > 0.0)).collect();
    (labels[7], labels[200]) = (2, 2);
    (Table::from_rows(&rows).unwrap(), y, labels)
}

#[test]
fn searches_use_a_sample_of_many_rows() {
    let (x, y, labels) = large_sample();
    let names: Vec<String> = ["down", "up", "odd"].map(String::from).to_vec();
    let numbers = || Target::Numbers(Matrix::column_vector(y.clone()));
    let classes = || Target::Classes { labels: labels.clone(), classes: names.clone() };
    let two =
        || Target::Classes { labels: labels.iter().map(|l| l % 2).collect(), classes: names[..2].to_vec() };
    for (name, target, settings, expected) in [
        (
            "krr",
            numbers(),
            json!({"search_rows": 60}),
            "leave-one-out of 60 of 300 rows, drawn with the seed",
        ),
        ("krr", numbers(), json!({"search_rows": 299, "folds": 3}), "3 held-out folds of 299 of 300 rows"),
        ("krr", numbers(), json!({"search_rows": 300}), "leave-one-out"),
        (
            "svr",
            numbers(),
            json!({"c": "auto", "search_rows": 60}),
            "5 held-out folds of 60 of 300 rows, drawn",
        ),
        (
            "klr",
            two(),
            json!({"search_rows": 60}),
            "5 held-out folds of 61 of 300 rows, drawn with the seed: ",
        ),
        // Both rows of the rare class are included.
        (
            "svc",
            classes(),
            json!({"c": "auto", "folds": 2, "search_rows": 60}),
            "2 held-out folds of 62 of 300 rows",
        ),
    ] {
        let kind = ModelKind::named(name).unwrap();
        let Value::Object(settings) = settings else { unreachable!() };
        let fit = |seed: u64| {
            let mut task = FitTask::new(&x, target.clone(), Kernel::gaussian(&[1.0, 1.0]));
            task.settings = kind.values(settings.clone()).unwrap();
            task.sample_weight = (kind.name == "svr").then(|| (0..300).map(|i| f64::from(i % 3)).collect());
            task.seed = seed;
            let fit = kind.fit(&task).unwrap();
            // The final fit after a search by folds counts as steps of the search.
            let (stage, share) = (task.progress.stage(), task.progress.share());
            let is_search = stage.starts_with("choosing ") && share > 0.0 && share <= 1.0;
            assert!(is_search || stage == "fitting to all rows", "{stage}: {share}");
            fit
        };
        let (first, again) = (fit(1), fit(1));
        assert_eq!(first.model.coef, again.model.coef);
        let card_entry = first.model.model_card.iter().find(|fact| fact.name == "chosen by").unwrap();
        assert!(card_entry.value.contains(expected), "{name}: {}", card_entry.value);
        assert_eq!(card_entry.value.contains("of 300 rows"), expected.contains("of 300 rows"), "{name}");
        // The chosen value is used for all rows, and is reported to the last digit.
        assert!(first.chosen.is_some_and(|value| value > 0.0));
        if name == "krr" {
            assert_eq!(first.model.support_points.rows(), 300);
            let direct = KernelRidge::new(first.model.kernel.clone(), first.chosen.unwrap());
            let direct = direct.fit(&x, &Matrix::column_vector(y.clone())).unwrap();
            assert_eq!(direct.model.coef, first.model.coef);
        }
    }
}

#[test]
fn fits_can_be_stopped() {
    let x = rows();
    for kind in MODELS {
        for word in [None, Some(json!("auto")), Some(json!(0.5))] {
            let setting = kind.settings.iter().find(|candidate| ["ridge", "c"].contains(&candidate.name));
            let Some(setting) = setting.map(|candidate| candidate.name).or(word.is_none().then_some("ridge"))
            else {
                continue;
            };
            let mut task = FitTask::new(&x, target(kind), kernel());
            task.settings = kind.values(word.map(|word| (setting.to_string(), word))).unwrap();
            task.stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(matches!(kind.fit(&task), Err(Error::Interrupted)), "{}", kind.name);
        }
    }
}

#[test]
fn folds_belong_to_what_is_left_to_them() {
    for (name, settings) in [
        ("krr", json!({"ridge": 0.5, "folds": 3})),
        ("klr", json!({"ridge": 0.5, "folds": 3})),
        ("svc", json!({"folds": 3})),
        ("svr", json!({"c": 2, "folds": 3})),
        ("krr", json!({"ridge": 0.5, "search_rows": 10})),
        ("svc", json!({"search_rows": 10})),
    ] {
        let error = fitted(name, settings, None).unwrap_err().to_string();
        assert!(
            (error.starts_with("folds belongs to ") || error.starts_with("search_rows belongs to "))
                && error.contains("= 'auto', but here it is"),
            "{error}"
        );
    }
}

#[test]
fn fits_that_stop_early_say_so() {
    for (name, settings) in [
        ("klr", json!({"ridge": 1e-4, "max_iter": 2})),
        ("svc", json!({"c": 1000, "max_iter": 2})),
        ("svr", json!({"c": 1000, "max_iter": 2})),
    ] {
        let fit = fitted(name, settings, None).unwrap();
        assert!(!fit.converged);
        assert!(fit.warnings.iter().any(|w| w.starts_with("stopped at max_iter = 2, before it converged: ")));
    }
    let unknown = fitted("svc", json!({"class_weight": {"perhaps": 2}}), None).unwrap_err().to_string();
    assert!(unknown.contains(
        "class_weight = 'perhaps' is not allowed: it is not a class of the target; classes: no, yes"
    ));
}

/// Hyper-parameters are tuned on a sample of many rows; the fit with these parameters has all rows.
#[test]
fn processes_are_tuned_on_a_sample_of_many_rows() {
    let mut stream = Stream(5);
    let x = stream.normals(160, 2);
    let f = |i: usize| (2.0 * x.get(i, 0)).sin() + 0.5 * x.get(i, 1);
    let y = Matrix::column_vector((0..160).map(|i| f(i) + 0.1 * stream.normal()).collect());
    let labels: Vec<usize> = (0..160).map(|i| usize::from(f(i) > 0.0)).collect();
    let classes = vec!["no".to_string(), "yes".to_string()];
    let kernel = Kernel::gaussian(&[1.0, 1.0]);
    for (name, target) in [("gp", Target::Numbers(y.clone())), ("gpc", Target::Classes { labels, classes })] {
        let kind = ModelKind::named(name).unwrap();
        let fit = |settings: serde_json::Value, seed: u64| {
            let mut task = FitTask::new(&x, target.clone(), kernel.clone());
            let settings = settings.as_object().unwrap().clone();
            (task.settings, task.seed) = (kind.values(settings).unwrap(), seed);
            kind.fit(&task)
        };
        let all_rows = fit(json!({}), 0).unwrap();
        let sampled = fit(json!({"search_rows": 80}), 0).unwrap();
        let card = |fit: &FittedModel| {
            fit.model.model_card.iter().find(|entry| entry.name == "tuned on").map(|e| e.value.clone())
        };
        assert_eq!(card(&all_rows), None);
        assert_eq!(card(&sampled).unwrap(), "80 of 160 rows, drawn with the seed");
        assert_eq!(sampled.model.support_points.rows(), 160);
        // The evidence of all rows is largest at the parameters tuned on all rows, and not much smaller at
        // those of the sample.
        let [best, near] = [&all_rows, &sampled].map(|fit| fit.log_marginal_likelihood.unwrap());
        assert!(near <= best + 1e-6 && near > best - 5.0, "{name}: {near} {best}");
        // The fit is that with the sample's parameters on all rows.
        let fixed = fit(json!({"fixed_kernel": true}), 0).unwrap();
        assert!(fixed.log_marginal_likelihood.unwrap() < near);
        let again = fit(json!({"search_rows": 80}), 0).unwrap();
        assert_eq!(again.model, sampled.model);
        assert!(fit(json!({"search_rows": 80}), 1).unwrap().model.coef != sampled.model.coef);
        assert_eq!(fit(json!({"search_rows": 160}), 0).unwrap().model, all_rows.model);
        let unused = match name {
            "gp" => fit(json!({"search_rows": 80, "fixed_kernel": true, "noise": 0.1}), 0),
            _ => fit(json!({"search_rows": 80, "fixed_kernel": true}), 0),
        };
        assert!(unused.unwrap_err().to_string().contains("search_rows belongs to fits with tuning"));
        let landmarks = fit(json!({"search_rows": 80, "n_landmarks": 10}), 0).unwrap_err().to_string();
        assert!(landmarks.contains("search_rows belongs to fits without landmarks"), "{landmarks}");
    }
}
