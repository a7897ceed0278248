//! Values of duels along random orders against exact ones.

use riesz::explanation::{Exactness, Explanation};
use riesz::game::Background;
use riesz::preference::{
    DuelGame, DuelQuestion, Duels, LandmarkProcess, Pair, PreferenceProcess, explain, wide_rows,
};
use riesz::{Kernel, KernelExpansion, Table};

use crate::common::Stream;
use crate::preference_explain::{DUELS, ask, background, fit, with_contexts};

fn errors(explanation: &Explanation) -> &[f64] {
    let Exactness::Estimated { std_error, .. } = &explanation.exactness else { panic!("estimated") };
    std_error
}

/// Checks that values ± 1.96 standard errors cover the exact ones in at least 93% of cases, add up to the log
/// odds, change sign with the sides, and do not depend on the other duels of the question.
fn check_coverage(model: &KernelExpansion, rows: &Table, question: &DuelQuestion) {
    let exact = ask(model, rows, question);
    assert!(matches!(exact.exactness, Exactness::Exact { .. }));
    let sets = exact.sets();
    let (mut covered, mut total, mut squared_error, mut squared_se) = (0, 0, 0.0, 0.0);
    for seed in 0..60 {
        let along = DuelQuestion { permutations: Some(40), seed, ..question.clone() };
        let explanation = ask(model, rows, &along);
        for i in 0..rows.rows() {
            let sum: f64 = explanation.row_values(i, 0).iter().sum();
            assert!((sum - explanation.predictions[i]).abs() < 1e-12);
            assert!((explanation.predictions[i] - exact.predictions[i]).abs() < 1e-12);
            assert_eq!(explanation.base_values[i], 0.0);
        }
        for (k, se) in errors(&explanation).iter().enumerate().filter(|(_, se)| **se > 0.0) {
            let error = explanation.values[k] - exact.values[k];
            covered += usize::from(error.abs() <= 1.96 * se);
            total += 1;
            squared_error += error * error;
            squared_se += se * se;
        }
        if seed == 3 {
            let single = ask(model, &rows.select_rows(&[1]), &along);
            assert_eq!(single.values, explanation.values[sets..2 * sets]);
            // Row 1 is row 0 with swapped sides.
            let opposite: Vec<f64> = explanation.row_values(0, 0).iter().map(|v| -v).collect();
            assert_eq!(explanation.row_values(1, 0), opposite);
            assert_eq!(errors(&explanation)[..sets], errors(&explanation)[sets..2 * sets]);
        }
    }
    assert!(covered as f64 >= 0.93 * total as f64, "{covered} of {total}");
    // The standard errors are not too large. Two players have one order and its reverse only, which are exact
    // against all items.
    assert!(squared_se < 4.0 * squared_error || squared_error < 1e-20, "{squared_se} {squared_error}");
}

#[test]
fn orders_estimate_every_game_with_a_background() {
    let (items, fit) = fit(0.7, 1.9, 1);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let chosen = items.select_rows(&[1, 2, 5, 8, 12, 13]);
    let weights: Vec<f64> = (0..6).map(|i| 1.0 + f64::from(i)).collect();
    let match_pairs: Vec<Pair> = vec![(0, 3), (5, 6), (13, 1)];
    for game in [
        DuelGame::Independent(background(&chosen, None)),
        DuelGame::Independent(background(&chosen, Some(weights.clone()))),
        DuelGame::Paired(background(&chosen, None)),
        DuelGame::Paired(background(&chosen, Some(weights))),
        DuelGame::Matches(wide_rows(&items, &match_pairs).unwrap()),
        DuelGame::Baseline(chosen.select_rows(&[3])),
    ] {
        check_coverage(&fit.model, &rows, &DuelQuestion::new(game));
    }
    let explanation = ask(
        &fit.model,
        &rows,
        &DuelQuestion {
            permutations: Some(20),
            ..DuelQuestion::new(DuelGame::Paired(background(&chosen, None)))
        },
    );
    // Two equal items have the value 0, with standard error 0.
    assert_eq!((explanation.row_values(3, 0), &errors(&explanation)[9..12]), (&[0.0; 3][..], &[0.0; 3][..]));
}

#[test]
fn orders_keep_contexts_or_draw_them() {
    let (model, items, contexts) = with_contexts(5);
    let rows = model.support_points.select_rows(&[0, 1, 6]);
    let columns = ["surface", "wind"].map(riesz::Column::numeric).to_vec();
    let contexts =
        Table::from_column_major(columns, contexts.rows(), contexts.column_major().to_vec()).unwrap();
    let item_background: Background = background(&items.select_rows(&[2, 4, 7]), None);
    for game in [DuelGame::Independent(item_background.clone()), DuelGame::Paired(item_background)] {
        let question = DuelQuestion::new(game);
        check_coverage(&model, &rows, &question);
        let context_background = Some(contexts.select_rows(&[0, 3, 4, 9]).into());
        check_coverage(&model, &rows, &DuelQuestion { contexts: context_background, ..question });
    }
}

/// Landmarks have nearly all pairs, whose sum is a product of matrices; a group of columns is one player.
#[test]
fn orders_serve_landmarks_and_groups() {
    let mut s = Stream(8);
    let items = s.normals(40, 4);
    let (left, right): (Vec<usize>, Vec<usize>) =
        (0..120).map(|i| (i % 40, (i * 7 + 3) % 40)).filter(|(l, r)| l != r).unzip();
    let outcome: Vec<f64> = left.iter().map(|_| f64::from(u8::from(s.uniform() < 0.5))).collect();
    let duels = Duels::new(40, &left, &right, &outcome, None).unwrap();
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[1.0, 2.0, 1.5, 1.2]));
    process.tune = false;
    let fit = LandmarkProcess { landmarks: 12, draws: 0, ..LandmarkProcess::new(process) };
    let model = fit.fit(&items, &duels).unwrap().model.unwrap();
    let rows = wide_rows(&items, &[(0, 20), (20, 0), (5, 31)]).unwrap();
    let game = DuelGame::Paired(background(&items.select_rows(&[1, 8, 9, 30]), None));
    let groups = vec![("both".to_string(), vec!["x1".to_string(), "x3".to_string()])];
    check_coverage(&model, &rows, &DuelQuestion { groups, ..DuelQuestion::new(game) });
}

#[test]
fn unsupported_questions_for_orders_are_refused() {
    let (items, fit) = fit(0.7, 1.9, 1);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let (stop, progress) = (std::sync::Arc::default(), std::sync::Arc::default());
    let refusal = |question: &DuelQuestion| {
        explain(&fit.model, None, &rows, question, &stop, &progress).unwrap_err().to_string()
    };
    let paired = || DuelQuestion {
        permutations: Some(50),
        ..DuelQuestion::new(DuelGame::Paired(background(&items, None)))
    };
    assert!(refusal(&DuelQuestion { permutations: Some(15), ..paired() }).contains("at least 16"));
    assert!(refusal(&DuelQuestion { covariance: true, ..paired() }).contains("without covariances"));
    assert!(
        refusal(&DuelQuestion { index: "banzhaf".parse().unwrap(), ..paired() }).contains("Shapley values")
    );
    assert!(
        refusal(&DuelQuestion { game: Some(DuelGame::Functional), ..paired() }).contains("background rows")
    );
    assert!(refusal(&DuelQuestion { game: None, ..paired() }).contains("background rows"));
}
