//! Probabilities through the link, against coalitions valued by predictions.

use proptest::prelude::*;
use riesz::attribution::enumeration::semivalue;
use riesz::attribution::sampled_shapley::Budget;
use riesz::fit::KernelLogisticRegression;
use riesz::kernel::Linear;
use riesz::{
    Background, Exactness, Explainer, Explanation, Game, Kernel, KernelExpansion, Matrix, Players, Question,
    Table, ValueIndex,
};

use crate::common::{Stream, names, with_threads};

/// Returns a classifier with `classes` classes, a background and rows.
fn setup(d: usize, classes: usize, seed: u64) -> (KernelExpansion, Background, Table) {
    let mut s = Stream(seed);
    let x = s.normals(60, d);
    let labels: Vec<usize> =
        (0..60).map(|i| ((x.get(i, 0) + x.get(i, d - 1) * x.get(i, 0) + 9.0) as usize) % classes).collect();
    let kernel = Kernel::gaussian(&vec![1.5; d]);
    let model = KernelLogisticRegression::new(kernel, 0.01).fit(&x, &labels, &names(classes)).unwrap().model;
    let background =
        Background { rows: s.normals(7, d), weights: Some((0..7).map(|b| 1.0 + b as f64).collect()) };
    (model, background, s.normals(3, d))
}

fn question(game: Game, index: ValueIndex) -> Question {
    Question { probabilities: true, ..Question::from(game).with_index(index) }
}

/// Returns the mean probability of a class over the background with the present features' values.
fn coalition_value(
    model: &KernelExpansion,
    background: &Background,
    x: &[f64],
    present: &[bool],
    class: usize,
) -> f64 {
    let weights = background.weights.as_ref().unwrap();
    let total: f64 = weights.iter().sum();
    let mixed: Vec<Vec<f64>> = (0..background.rows.rows())
        .map(|b| (0..x.len()).map(|j| if present[j] { x[j] } else { background.rows.get(b, j) }).collect())
        .collect();
    let outputs = model.predict(&Table::from_rows(&mixed).unwrap()).unwrap();
    (0..mixed.len()).map(|b| weights[b] / total * model.probabilities(outputs.row(b)).unwrap()[class]).sum()
}

fn bound(explanation: &Explanation) -> &[f64] {
    let Exactness::Exact { bound } = &explanation.exactness else { panic!("not exact") };
    bound
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn values_are_those_of_predictions(d in 2..6_usize, classes in 2..4_usize, seed in 0..1000_u64) {
        let (model, background, rows) = setup(d, classes, seed);
        for (index, of_size) in [
            (ValueIndex::Shapley, (0..d).map(|s| 1.0 / (d as f64 * binomial(d - 1, s))).collect::<Vec<_>>()),
            (ValueIndex::Banzhaf { inclusion_probability: 0.5 }, vec![0.5_f64.powi(d as i32 - 1); d]),
        ] {
            let game = Game::Interventional { background: background.clone() };
            let explanation = Explainer::new(&model, question(game, index)).unwrap().explain(&rows).unwrap();
            explanation.validate().unwrap();
            let shown = if classes == 2 { vec![1] } else { (0..classes).collect() };
            prop_assert_eq!(explanation.output_names.len(), shown.len());
            for i in 0..rows.rows() {
                for (o, &class) in shown.iter().enumerate() {
                    let x = rows.row(i);
                    let truth = semivalue(d, &of_size, |s| coalition_value(&model, &background, &x, s, class));
                    let allowed = bound(&explanation)[i * shown.len() + o] + 1e-13;
                    for (value, truth) in explanation.row_values(i, o).iter().zip(&truth) {
                        prop_assert!((value - truth).abs() <= allowed, "{}: {} {}", index, value, truth);
                    }
                    prop_assert!(allowed < 1e-8);
                }
            }
            if index == ValueIndex::Shapley {
                let certificate = explanation.certificate().unwrap();
                prop_assert!(certificate.holds, "{:?}", certificate);
            }
        }
    }
}

fn binomial(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

/// Pairwise interactions add up to probabilities in both games, for any other rows of the question and number
/// of threads.
#[test]
fn pairs_add_up_to_probabilities() {
    let (model, background, rows) = setup(5, 3, 4);
    let point = background.rows.select_rows(&[2]);
    for game in [Game::Interventional { background }, Game::Baseline { point }] {
        let ask = |rows: &Table| {
            Explainer::new(&model, question(game.clone(), "k-sii".parse().unwrap()))
                .unwrap()
                .explain(rows)
                .unwrap()
        };
        let all_rows = with_threads(2, || ask(&rows));
        assert!(all_rows.certificate().unwrap().holds && all_rows.sets() == 15);
        let single_row = with_threads(1, || ask(&rows.select_rows(&[1])));
        assert_eq!(single_row.values, all_rows.values[3 * 15..6 * 15]);
        for i in 0..3 {
            let total: f64 = (0..3).map(|o| all_rows.predictions[i * 3 + o]).sum();
            assert!((total - 1.0).abs() < 1e-14);
        }
    }
}

/// Trivial unions change nothing, and the two members of a union share the value of the pair as one player.
#[test]
fn union_members_share_the_value_of_their_union() {
    let (model, background, rows) = setup(4, 3, 9);
    let game = Game::Interventional { background };
    let explanation_of = |question: Question| {
        let explanation = Explainer::new(&model, question).unwrap().explain(&rows).unwrap();
        assert!(explanation.certificate().unwrap().holds);
        explanation
    };
    let unions = |text: &str| {
        question(game.clone(), ValueIndex::Shapley).with_unions(serde_json::from_str(text).unwrap())
    };
    let shapley = explanation_of(question(game.clone(), ValueIndex::Shapley));
    let trivial = explanation_of(unions(r#"[["x0"], "x3"]"#));
    assert!(trivial.values.iter().zip(&shapley.values).all(|(a, b)| (a - b).abs() < 1e-14));
    let paired = explanation_of(unions(r#"[["x1", "x3"]]"#));
    let pair = [("pair".to_string(), vec!["x1".to_string(), "x3".to_string()])];
    let groups = Players::named(model.columns(), &pair).unwrap();
    let joint = explanation_of(question(game.clone(), ValueIndex::Shapley).with_players(Some(groups)));
    assert_ne!(paired.values, shapley.values);
    for (i, o) in (0..9).map(|g| (g / 3, g % 3)) {
        let (separate, combined) = (paired.row_values(i, o), joint.row_values(i, o));
        let pair_index = joint.players.iter().position(|p| p.name == "pair").unwrap();
        assert!((separate[1] + separate[3] - combined[pair_index]).abs() < 1e-13);
    }
}

/// With many players, values are estimated with small standard errors; unbounded factors, which are not
/// tabulated, use all coalitions.
#[test]
fn many_players_are_sampled() {
    let (model, background, rows) = setup(14, 2, 9);
    let game = Game::Interventional { background };
    let budget = Budget { coalitions: 400, ..Budget::default() };
    let explanation = Explainer::new(&model, question(game, ValueIndex::Shapley).with_budget(budget))
        .unwrap()
        .explain(&rows)
        .unwrap();
    assert!(
        matches!(&explanation.exactness, Exactness::Estimated { std_error, .. } if std_error.iter().all(|e| *e < 0.05))
    );
    assert!(explanation.residuals().iter().all(|r| r.abs() < 1e-9));
    assert_eq!(explanation.output_names, [model.classes[1].clone()]);

    let mut s = Stream(3);
    let x = s.normals(40, 3);
    let labels: Vec<usize> = (0..40).map(|i| usize::from(x.get(i, 0) + x.get(i, 2) > 0.0)).collect();
    let kernel: Kernel = Linear { columns: vec![0, 1, 2], center: vec![0.0; 3], scale: vec![1.0; 3] }.into();
    let model = KernelLogisticRegression::new(kernel, 0.1).fit(&x, &labels, &names(2)).unwrap().model;
    let point = x.select_rows(&[0]);
    let explainer =
        Explainer::new(&model, question(Game::Baseline { point: point.clone() }, ValueIndex::Shapley))
            .unwrap();
    let explanation = explainer.explain(&x.select_rows(&[5])).unwrap();
    let background = Background { rows: point, weights: Some(vec![1.0]) };
    let weights = [1.0 / 3.0, 1.0 / 6.0, 1.0 / 3.0];
    let truth = semivalue(3, &weights, |s| coalition_value(&model, &background, &x.row(5), s, 1));
    assert!(explanation.values.iter().zip(&truth).all(|(a, b)| (a - b).abs() < 1e-12));
}

#[test]
fn what_has_no_probabilities_is_refused() {
    let (model, background, rows) = setup(3, 2, 1);
    let refuse = |model: &KernelExpansion, question: Question| {
        Explainer::new(model, question).err().unwrap().to_string()
    };
    let regression = KernelExpansion::new(
        Kernel::gaussian(&[1.0; 3]),
        rows.clone(),
        Matrix::column_vector(vec![1.0; 3]),
        vec![0.0],
    )
    .unwrap();
    let game = Game::Interventional { background };
    assert!(refuse(&regression, question(game.clone(), ValueIndex::Shapley)).contains("probabilities"));
    assert!(
        refuse(&model, question(Game::Functional, ValueIndex::Shapley))
            .contains("baseline and the interventional")
    );
    let explainer = Explainer::new(&model, question(game, ValueIndex::Shapley)).unwrap();
    assert!(explainer.functionals(&rows, &[0]).is_err() && explainer.robustness(&[0.1; 3]).is_err());
}
