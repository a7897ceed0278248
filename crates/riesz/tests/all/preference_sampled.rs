//! Values of duels from sampled coalitions, and contexts that follow their conditional distribution, against
//! the values of all coalitions.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use riesz::attribution::enumeration::shapley;
use riesz::attribution::sampled_shapley::Budget;
use riesz::embedding::{Approximation, Conditioning, ConditioningKernel, ConjugateGradients, Ridge};
use riesz::explanation::{Exactness, Explanation};
use riesz::game::Part;
use riesz::preference::{DuelGame, DuelQuestion, Pair, explain, wide_rows};
use riesz::{Kernel, KernelExpansion, Matrix, Progress, Table};

use crate::common::Stream;
use crate::preference_explain::{ask, background, with_contexts};

/// The ridge of all conditional distributions.
const RIDGE: f64 = 0.02;

const DUELS: [Pair; 5] = [(0, 7), (7, 0), (3, 11), (4, 4), (9, 2)];

/// A generalised model of duels between 16 items of `d` columns whose kernel reads the first `active` ones.
fn model(d: usize, active: usize, seed: u64) -> (KernelExpansion, Table) {
    let mut s = Stream(seed);
    let items = s.normals(16, d);
    let pairs: Vec<Pair> = (0..14).map(|i| (i, (i * 5 + 2) % 16)).filter(|(l, r)| l != r).collect();
    let ordered_pairs: Vec<Pair> = pairs.iter().flat_map(|&(l, r)| [(l, r), (r, l)]).collect();
    let item = item_kernel(active);
    let kernel =
        0.5 * item.clone() + 0.5 * item.shift_columns(d) + 1.5 * (item.clone() * item.shift_columns(d));
    let coef: Vec<f64> = pairs.iter().map(|_| s.normal()).flat_map(|a| [a, -a]).collect();
    let points = wide_rows(&items, &ordered_pairs).unwrap();
    (KernelExpansion::new(kernel, points, Matrix::column_vector(coef), vec![0.0]).unwrap(), items)
}

fn item_kernel(active: usize) -> Kernel {
    Kernel::gaussian(&(0..active).map(|j| 1.2 + 0.3 * j as f64).collect::<Vec<_>>())
}

fn conditioning(kernel: Kernel) -> Conditioning {
    Conditioning {
        ridge: Ridge::Fixed(RIDGE),
        kernel: ConditioningKernel::Given(kernel),
        ..Conditioning::default()
    }
}

fn observational(items: &Table, conditioning: Conditioning) -> DuelQuestion {
    DuelQuestion::new(DuelGame::Observational(background(items, None), conditioning))
}

fn sampled(question: DuelQuestion, coalitions: usize) -> DuelQuestion {
    DuelQuestion { budget: Some(Budget { coalitions, std_error: None, seed: 3 }), ..question }
}

fn std_error(explanation: &Explanation) -> &[f64] {
    let Exactness::Estimated { std_error, .. } = &explanation.exactness else { panic!("estimated") };
    std_error
}

/// Checks that estimates lie within their standard errors of the exact values, add up to the log odds, and
/// change their sign with the sides.
fn check_estimates(estimate: &Explanation, exact: &Explanation) {
    let errors = std_error(estimate);
    let mut scores = Vec::new();
    for ((a, b), error) in estimate.values.iter().zip(&exact.values).zip(errors) {
        assert!((a - b).abs() <= 4.5 * error + 1e-12, "{a} {b} {error}");
        if *error > 0.0 {
            scores.push(((a - b) / error).powi(2));
        }
    }
    let mean_score = scores.iter().sum::<f64>() / scores.len() as f64;
    assert!(mean_score < 1.6, "{mean_score}");
    for i in 0..estimate.rows() {
        let sum: f64 = estimate.row_values(i, 0).iter().sum();
        assert!((sum - estimate.predictions[i]).abs() < 1e-12);
        assert_eq!(estimate.base_values[i], 0.0);
    }
    let opposite: Vec<f64> = estimate.row_values(0, 0).iter().map(|v| -v).collect();
    assert_eq!(estimate.row_values(1, 0), opposite);
    assert!(
        estimate
            .row_values(3, 0)
            .iter()
            .chain(&errors[3 * estimate.sets()..4 * estimate.sets()])
            .all(|v| *v == 0.0)
    );
}

#[test]
fn sampled_coalitions_estimate_exact_values() {
    let (model, items) = model(9, 9, 1);
    let rows = wide_rows(&items, &DUELS).unwrap();
    for question in [
        observational(&items, conditioning(item_kernel(9))),
        DuelQuestion::new(DuelGame::Independent(background(&items, None))),
    ] {
        let exact = ask(&model, &rows, &question);
        assert!(matches!(exact.exactness, Exactness::Exact { .. }));
        check_estimates(&ask(&model, &rows, &sampled(question.clone(), 160)), &exact);
        // All coalitions, by the engine that samples.
        let budget = Budget { coalitions: 1 << 9, std_error: Some(1e-9), seed: 0 };
        let exhaustive = ask(&model, &rows, &DuelQuestion { budget: Some(budget), ..question });
        assert!(std_error(&exhaustive).iter().all(|error| *error < 1e-9));
        for (a, b) in exhaustive.values.iter().zip(&exact.values) {
            assert!((a - b).abs() < 1e-11, "{a} {b}");
        }
    }
}

/// With 20 players of which 6 matter, values are those of the game of these 6 columns.
#[test]
fn players_without_effect_leave_the_values_of_others() {
    let (wide_model, items) = model(20, 6, 2);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let estimate = ask(&wide_model, &rows, &observational(&items, conditioning(item_kernel(6))));
    assert_eq!(estimate.players.len(), 20);
    let active_items = items.select_columns(&[0, 1, 2, 3, 4, 5]);
    let kernel = wide_model.kernel.map_columns(&|j| if j < 20 { j } else { j - 14 });
    let points = wide_model.support_points.select_columns(&[0, 1, 2, 3, 4, 5, 20, 21, 22, 23, 24, 25]);
    let small_model = KernelExpansion::new(kernel, points, wide_model.coef.clone(), vec![0.0]).unwrap();
    let small_rows = wide_rows(&active_items, &DUELS).unwrap();
    let exact = ask(&small_model, &small_rows, &observational(&active_items, conditioning(item_kernel(6))));
    let mut expected = estimate.clone();
    for i in 0..estimate.rows() {
        let values = [exact.row_values(i, 0), &[0.0; 14]].concat();
        expected.values[i * 20..(i + 1) * 20].copy_from_slice(&values);
    }
    check_estimates(&estimate, &expected);
    assert!(std_error(&estimate).iter().any(|error| *error > 0.0));
}

/// Landmarks at all items and conjugate gradients give the values of the factorisation.
#[test]
fn approximations_agree_where_they_are_exact() {
    let (model, items) = model(8, 8, 4);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let values = |approximation| {
        let conditioning = Conditioning { approximation, ..conditioning(item_kernel(8)) };
        ask(&model, &rows, &sampled(observational(&items, conditioning), 100)).values
    };
    let exact = values(Approximation::Exact);
    let gradients = ConjugateGradients { tolerance: 1e-10, ..ConjugateGradients::default() };
    for approximation in [Approximation::Landmarks(16), Approximation::ConjugateGradients(gradients)] {
        for (a, b) in values(approximation).iter().zip(&exact) {
            assert!((a - b).abs() < 1e-6, "{approximation:?} {a} {b}");
        }
    }
}

#[test]
fn budgets_belong_to_games_of_coalitions() {
    let (model, items) = model(3, 3, 5);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let refusal = |question: DuelQuestion| {
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
        explain(&model, None, &rows, &sampled(question, 6), &stop, &progress).unwrap_err().to_string()
    };
    let question = observational(&items, conditioning(item_kernel(3)));
    assert!(refusal(DuelQuestion::new(DuelGame::Functional)).contains("value coalitions"));
    let banzhaf = DuelQuestion { index: "banzhaf".parse().unwrap(), ..question.clone() };
    assert!(refusal(banzhaf).contains("only Shapley values"));
    assert!(refusal(DuelQuestion { permutations: Some(16), ..question }).contains("one of the two"));
    // Interactions of many players have no estimate.
    let (wide_model, items) = self::model(20, 6, 2);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let pairs = DuelQuestion {
        index: "k-sii".parse().unwrap(),
        ..observational(&items, conditioning(item_kernel(6)))
    };
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
    let error = explain(&wide_model, None, &rows, &pairs, &stop, &progress).unwrap_err().to_string();
    assert!(error.contains("at most 16 features"), "{error}");
}

/// Values of duels in contexts, in plain code, where absent contexts follow a conditional mean embedding.
struct ConditionalContexts {
    model: KernelExpansion,
    contexts: Table,
}

impl ConditionalContexts {
    const SCALES: [f64; 2] = [0.8, 1.4];

    fn weights(&self, x: &[f64], s: &[bool]) -> Vec<f64> {
        let count = self.contexts.rows();
        if !s.contains(&true) {
            return vec![1.0 / count as f64; count];
        }
        let k = |u: &[f64], v: &[f64]| {
            let apart = (0..2).filter(|&j| s[j]).map(|j| ((u[j] - v[j]) / Self::SCALES[j]).powi(2));
            (-0.5 * apart.sum::<f64>()).exp()
        };
        let mut gram = Matrix::zeros(count, count);
        for (a, b) in (0..count).flat_map(|a| (0..count).map(move |b| (a, b))) {
            gram[(a, b)] = k(&self.contexts.row(a), &self.contexts.row(b));
        }
        gram.add_diagonal(|_| count as f64 * RIDGE);
        let right: Vec<f64> = (0..count).map(|b| k(&self.contexts.row(b), x)).collect();
        let weights = riesz::linalg::lu_solve(&gram, &right);
        let missing = 1.0 - weights.iter().sum::<f64>();
        weights.iter().map(|w| w + missing / count as f64).collect()
    }

    /// The output whose absent columns of items are those of a pair, averaged over absent contexts.
    fn value(&self, row: &[f64], s: &[bool], pair: (&[f64], &[f64])) -> f64 {
        let output = |context: Option<usize>| {
            let mut cells = row.to_vec();
            for j in 0..2 {
                if !s[j] {
                    (cells[j], cells[2 + j]) = (pair.0[j], pair.1[j]);
                }
                if let (Some(c), false) = (context, s[2 + j]) {
                    cells[4 + j] = self.contexts.get(c, j);
                }
            }
            let table = Table::from_column_major(self.model.columns().to_vec(), 1, cells).unwrap();
            self.model.predict(&table).unwrap()[(0, 0)]
        };
        if !s[2..].contains(&false) {
            return output(None);
        }
        let weights = self.weights(&row[4..], &s[2..]);
        weights.iter().enumerate().map(|(c, weight)| weight * output(Some(c))).sum()
    }
}

/// Contexts that follow their conditional distribution (proposition 7.3.4).
#[test]
fn conditional_contexts_are_means_over_an_embedding() {
    let (model, items, contexts) = with_contexts(5);
    let rows = model.support_points.select_rows(&[0, 1, 6]);
    let columns = ["surface", "wind"].map(riesz::Column::numeric).to_vec();
    let contexts =
        Table::from_column_major(columns, contexts.rows(), contexts.column_major().to_vec()).unwrap();
    let conditional = Some(conditioning(Kernel::gaussian(&ConditionalContexts::SCALES)));
    let part = Part { background: background(&contexts, None), conditional };
    let truth = ConditionalContexts { model, contexts };
    // Items are always present.
    let question =
        DuelQuestion { game: None, contexts: Some(part.clone()), ..DuelQuestion::new(DuelGame::Functional) };
    for budget in [None, Some(Budget { coalitions: 2, std_error: Some(1e-9), seed: 0 })] {
        let explanation = ask(&truth.model, &rows, &DuelQuestion { budget, ..question.clone() });
        for i in 0..3 {
            let row = rows.row(i);
            let value = |s: &[bool]| truth.value(&row, &[&[true; 2], s].concat(), (&[], &[]));
            for (a, b) in explanation.row_values(i, 0).iter().zip(&shapley(2, value)) {
                assert!((a - b).abs() < 1e-12, "{a} {b}");
            }
            assert!((explanation.base_values[i] - value(&[false; 2])).abs() < 1e-12);
        }
        assert!(explanation.provenance.absent.contains("given the present ones"));
    }
    // Items are drawn independently of them.
    let chosen = items.select_rows(&[2, 4, 7]);
    let game = DuelGame::Independent(background(&chosen, None));
    let explanation =
        ask(&truth.model, &rows, &DuelQuestion { contexts: Some(part), ..DuelQuestion::new(game) });
    for i in 0..3 {
        let row = rows.row(i);
        let value = |s: &[bool]| -> f64 {
            let pairs = (0..9).map(|k| (chosen.row(k / 3), chosen.row(k % 3)));
            pairs.map(|(l, r)| truth.value(&row, s, (&l, &r)) / 9.0).sum()
        };
        for (a, b) in explanation.row_values(i, 0).iter().zip(&shapley(4, value)) {
            assert!((a - b).abs() < 1e-12, "{a} {b}");
        }
    }
}
