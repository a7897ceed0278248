//! Questions: the settings, their subjects, and reading a question back from its file.

use riesz::question::{SETTINGS, Settings, Source, Subject, ValueEstimator};
use riesz::setting_schema::{Range, Setting};
use riesz::{
    Background, ConditionalModel, Error, Explainer, Game, Kernel, KernelExpansion, Matrix, Players, Question,
    Table,
};
use serde_json::{Value, json};

const SUBJECTS: [Subject; 4] = [Subject::Model, Subject::Function, Subject::Program, Subject::Protection];

fn settings(input: Value) -> Result<Settings, Error> {
    let Value::Object(map) = input else { panic!("not an object") };
    Settings::new(map)
}

fn rows() -> Table {
    let rows: Vec<[f64; 3]> =
        (0..20).map(|i| [f64::from(i).sin(), f64::from(i % 7), f64::from(i).cos()]).collect();
    Table::from_rows(&rows).unwrap()
}

fn ask(input: Value, subject: Subject) -> Result<Question, Error> {
    settings(input)?.question(subject, Some(Source::Background), |_| Ok(rows().into()))
}

fn model() -> KernelExpansion {
    let coef = Matrix::column_vector((0..20).map(|i| f64::from(i % 3) - 1.0).collect());
    KernelExpansion::new(Kernel::gaussian(&[1.0, 3.0, 0.7]), rows(), coef, vec![0.5]).unwrap()
}

/// Returns an allowed value of a setting.
pub fn example(setting: &Setting) -> Value {
    match setting.range {
        Range::Choice(words) => json!(words[words.len() - 1]),
        Range::Switch => json!(false),
        Range::Count(minimum) => json!(minimum + 5),
        Range::Positive { .. } | Range::NotNegative | Range::Tuned => json!(0.01),
        Range::ClassWeight => json!("balanced"),
        Range::Index => json!("banzhaf(0.3)"),
        Range::Unions => json!([["x0", "x1"], "x2"]),
        Range::Kernel => json!("rbf(length_scale=2)"),
    }
}

#[test]
fn a_setting_is_used_or_refused_by_its_name() {
    let mut used = vec![[false; 4]; SETTINGS.len()];
    for (s, &subject) in SUBJECTS.iter().enumerate() {
        for game in Game::NAMES {
            for estimator in [None, Some("permutation"), Some("kernel_shap")] {
                for conditional in [None, Some("gaussian")] {
                    let mut base =
                        json!({ "game": game, "estimator": estimator, "conditional": conditional });
                    if game == "causal" {
                        base["components"] = json!([["x0", "x1"], "x2"]);
                    }
                    if ask(base.clone(), subject).is_err() {
                        continue;
                    }
                    for (index, setting) in SETTINGS.iter().map(|entry| &entry.setting).enumerate() {
                        let mut input = base.clone();
                        if input[setting.name].is_null() {
                            input[setting.name] = example(setting);
                        }
                        match ask(input, subject) {
                            Ok(_) => used[index][s] = true,
                            Err(Error::Unused { setting: name, belongs }) => {
                                assert_eq!(name, setting.name);
                                assert!(!belongs.is_empty());
                            }
                            Err(error) => panic!("{subject:?}, {game}, {}: {error}", setting.name),
                        }
                    }
                }
            }
        }
    }
    for (setting, used) in SETTINGS.iter().zip(used) {
        let serves = SUBJECTS.map(|subject| setting.applies_to(subject));
        assert_eq!(serves, used, "{}", setting.setting.name);
        assert!(serves.contains(&true) && !setting.setting.help.is_empty());
    }
}

#[test]
fn refusals_name_the_allowed_values() {
    for (input, words) in [
        (json!({"conditional_ridge": -1}), "conditional_ridge = -1 is not allowed: it is a positive number"),
        (json!({"conditional_ridge": "much"}), "conditional_ridge = 'much' is not allowed"),
        (
            json!({"n_conditional_landmarks": 0}),
            "n_conditional_landmarks = 0 is not allowed: it is a whole number from 1",
        ),
        (json!({"n_conditional_landmarks": 2.5}), "n_conditional_landmarks = 2.5"),
        (json!({"cg_tol": 1}), "it is a number between 0 and 1"),
        (
            json!({"n_conditional_samples": 1}),
            "n_conditional_samples = 1 is not allowed: it is a whole number from 2",
        ),
        (json!({"game": "shap"}), "game = 'shap' is not allowed: it is one of functional, baseline"),
        (json!({"centered": 1}), "it is true or false"),
        (json!({"conditioning_kernel": "rbg"}), "rbg"),
        (json!({"conditioning_kernel": {"terms": 3}}), "it is a kernel"),
        (json!({"coalition": 3}), "setting = coalition is not allowed: it is one of game, index"),
    ] {
        let error = settings(input.clone()).unwrap_err().to_string();
        assert!(error.contains(words), "{input}: {error}");
    }
    assert_eq!(settings(json!({"conditional_ridge": null})).unwrap(), Settings::default());
}

#[test]
fn impossible_questions_are_refused_with_reasons() {
    let none = |input: Value, subject| {
        let rows = |_: &str| -> Result<Background, Error> { panic!("no rows are asked for") };
        settings(input).unwrap().question(subject, None, rows).unwrap_err().to_string()
    };
    assert!(none(json!({"game": "interventional"}), Subject::Model).contains("needs a background"));
    assert!(none(json!({}), Subject::Function).contains("needs a background"));
    let refusal = |input: Value, subject| ask(input, subject).unwrap_err().to_string();
    assert!(refusal(json!({"game": "functional"}), Subject::Model).contains("no use for a background"));
    assert!(refusal(json!({"game": "functional"}), Subject::Program).contains("whose kernel is known"));
    assert!(refusal(json!({"game": "baseline"}), Subject::Protection).contains("protected"));
    let causal = |components: Value, parents: Value| {
        let input = json!({"game": "causal", "components": components, "parents": parents});
        refusal(input, Subject::Model)
    };
    assert!(causal(Value::Null, Value::Null).contains("give components"));
    assert!(causal(json!([["x0", ["x1"]], "x2"]), Value::Null).contains("without further lists"));
    assert!(causal(json!(["x0", "x1", "x2"]), json!([[]])).contains("begins with a column"));
    let ordered = json!({"game": "interventional", "ordering": ["x0", ["x1", "x2"]]});
    assert!(refusal(ordered, Subject::Model).contains("the observational and the causal game"));
    let two = json!({"game": "observational", "n_conditional_landmarks": 3, "n_random_features": 3});
    assert!(
        refusal(two, Subject::Model)
            .contains("n_conditional_landmarks = 3 is not allowed: n_random_features is an alternative")
    );
    let along = json!({"game": "observational", "estimator": "permutation"});
    assert!(refusal(along, Subject::Function).contains("permutations estimate the interventional game"));
    let baseline = settings(json!({"game": "interventional"})).unwrap();
    let error = baseline.check(Subject::Model, Some(Source::Baseline)).unwrap_err().to_string();
    assert!(error.contains("it takes a background, not a baseline"));
}

#[test]
fn defaults_follow_from_subject_and_source() {
    let defaults = |subject, source| settings(json!({})).unwrap().check(subject, source).unwrap();
    assert_eq!(defaults(Subject::Model, None).game, "functional");
    assert_eq!(defaults(Subject::Model, Some(Source::Background)).game, "interventional");
    assert_eq!(defaults(Subject::Model, Some(Source::Baseline)).game, "baseline");
    assert_eq!(defaults(Subject::Function, Some(Source::Background)).estimator, "permutation");
    assert_eq!(defaults(Subject::Program, Some(Source::Background)).estimator, "kernel_shap");
    let question = ask(json!({}), Subject::Function).unwrap();
    assert_eq!(question.estimator, ValueEstimator::Permutation { per_reference: 2 });
    assert_eq!(question.budget.coalitions, 4096);
}

#[test]
fn questions_are_read_back_from_their_files() {
    let input = json!({
        "game": "observational", "conditional_ridge": 0.1, "centered": false,
        "conditioning_kernel": "rbf(length_scale=2)",
        "n_conditional_landmarks": 9, "n_coalitions": 100, "random_state": 7
    });
    let model = model();
    let groups = Players::named(model.columns(), &[("pair", vec!["x0", "x2"])]).unwrap();
    let causal = json!({
        "game": "causal", "components": ["x0", ["x1", "x2"]], "confounded": ["x2"], "parents": [["x1", "x0"]],
        "ordering": ["x0", ["x1", "x2"]], "conditional_ridge": 0.1
    });
    for question in [
        ask(causal, Subject::Model).unwrap(),
        ask(input, Subject::Model).unwrap().with_players(Some(groups)),
        ask(json!({}), Subject::Model).unwrap(),
        ask(json!({"game": "marginal-product"}), Subject::Model).unwrap(),
        Game::Functional.into(),
    ] {
        let text = serde_json::to_string(&question).unwrap();
        let mut again: Question = serde_json::from_str(&text).unwrap();
        if let (
            Game::Observational { conditional: ConditionalModel::Embedding(again), .. }
            | Game::Causal { conditioning: again, .. },
            Game::Observational { conditional: ConditionalModel::Embedding(first), .. }
            | Game::Causal { conditioning: first, .. },
        ) = (&mut again.game, &question.game)
        {
            // The memory limit depends on the machine.
            again.memory = first.memory;
        }
        assert_eq!(again, question);
        let few_rows = rows().select_rows(&[0, 5, 9]);
        let values = |question| Explainer::new(&model, question).unwrap().explain(&few_rows).unwrap().values;
        assert_eq!(values(again), values(question));
    }
}
