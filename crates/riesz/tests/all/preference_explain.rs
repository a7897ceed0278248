//! Values of duels against their definition: all coalitions and all pairs of background items.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use riesz::Progress;
use riesz::attribution::enumeration::shapley;
use riesz::embedding::{Conditioning, ConditioningKernel, Ridge};
use riesz::explanation::{Exactness, Explanation};
use riesz::game::{Background, Part};
use riesz::preference::{
    DuelGame, DuelQuestion, Duels, LandmarkProcess, Pair, PreferenceFit, PreferenceProcess, explain,
    wide_rows,
};
use riesz::{Game, Kernel, KernelExpansion, Matrix, Players, Question, Table};

use crate::common::Stream;

pub(crate) const DUELS: [Pair; 5] = [(0, 7), (7, 0), (3, 11), (4, 4), (9, 2)];

pub(crate) fn fit(utility: f64, generalised: f64, seed: u64) -> (Table, PreferenceFit) {
    let mut s = Stream(seed);
    let items = s.normals(14, 3);
    let (mut left, mut right, mut outcome) = (vec![], vec![], vec![]);
    while left.len() < 40 {
        let mut item = || (s.uniform() * 14.0) as usize;
        let (l, r) = (item(), item());
        if l != r {
            left.push(l);
            right.push(r);
            outcome.push(f64::from(u8::from(s.uniform() < 0.6)));
        }
    }
    let duels = Duels::new(14, &left, &right, &outcome, None).unwrap();
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[1.3, 0.9, 2.0]));
    (process.tune, process.prior.utility_variance, process.prior.generalised_variance) =
        (false, utility, generalised);
    (items.clone(), process.fit(&items, &duels).unwrap())
}

pub(crate) fn ask(model: &KernelExpansion, rows: &Table, question: &DuelQuestion) -> Explanation {
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
    explain(model, None, rows, question, &stop, &progress).unwrap()
}

pub(crate) fn background(items: &Table, weights: Option<Vec<f64>>) -> Background {
    Background { rows: items.clone(), weights }
}

/// Returns the log odds of a duel whose absent features are from b on the left and from `other` on the right.
fn mixed(model: &KernelExpansion, duel: &[f64], present: &[bool], b: &[f64], other: &[f64]) -> f64 {
    let d = present.len();
    let row: Vec<f64> = (0..d)
        .map(|j| if present[j] { duel[j] } else { b[j] })
        .chain((0..d).map(|j| if present[j] { duel[d + j] } else { other[j] }))
        .chain(duel[2 * d..].iter().copied())
        .collect();
    let table = Table::from_column_major(model.columns().to_vec(), 1, row).unwrap();
    model.predict(&table).unwrap()[(0, 0)]
}

fn close(explanation: &Explanation, expected: &[Vec<f64>], proved: f64) {
    let Exactness::Exact { bound } = &explanation.exactness else { panic!("exact") };
    for (i, expected_row) in expected.iter().enumerate() {
        for (a, b) in explanation.row_values(i, 0).iter().zip(expected_row) {
            assert!((a - b).abs() < 1e-12, "{a} {b}");
        }
        assert!(bound[i] < proved, "{}", bound[i]);
        assert_eq!(explanation.base_values[i], 0.0);
        let sum: f64 = explanation.row_values(i, 0).iter().sum();
        assert!((sum - explanation.predictions[i]).abs() <= bound[i]);
    }
}

/// Independent, paired, matches and baseline games against means over pairs of items, coalition by coalition.
#[test]
fn values_are_those_of_all_pairs_of_items() {
    let (items, fit) = fit(0.7, 1.9, 1);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let weights: Vec<f64> = (0..6).map(|i| 1.0 + f64::from(i)).collect();
    let chosen = items.select_rows(&[1, 2, 5, 8, 12, 13]);
    let match_pairs: Vec<Pair> = vec![(0, 3), (5, 6), (13, 1)];
    let matches = wide_rows(&items, &match_pairs).unwrap();
    let total: f64 = weights.iter().sum();
    let row = |i: usize| chosen.row(i);
    let mut all_pairs = Vec::new();
    for a in 0..6 {
        for b in 0..6 {
            all_pairs.push((row(a), row(b), weights[a] * weights[b] / total / total));
        }
    }
    let paired = (0..6).map(|a| (row(a), row(a), weights[a] / total)).collect::<Vec<_>>();
    let both_orders = match_pairs.iter().flat_map(|&(l, r)| [(l, r), (r, l)]);
    let both_orders = both_orders.map(|(l, r)| (items.row(l), items.row(r), 1.0 / 6.0)).collect::<Vec<_>>();
    let single_pair = vec![(row(3), row(3), 1.0)];
    for (game, pairs) in [
        (DuelGame::Independent(background(&chosen, Some(weights.clone()))), all_pairs),
        (DuelGame::Paired(background(&chosen, Some(weights.clone()))), paired),
        (DuelGame::Matches(matches), both_orders),
        (DuelGame::Baseline(chosen.select_rows(&[3])), single_pair),
    ] {
        let explanation = ask(&fit.model, &rows, &DuelQuestion::new(game));
        let values = |i: usize| {
            shapley(3, |s| pairs.iter().map(|(b, o, w)| w * mixed(&fit.model, &rows.row(i), s, b, o)).sum())
        };
        close(&explanation, &(0..5).map(values).collect::<Vec<_>>(), 1e-11);
        // The reversed duel has the opposite values, to the last bit; a duel of equal items has values 0.
        let opposite: Vec<f64> = explanation.row_values(0, 0).iter().map(|v| -v).collect();
        assert_eq!(explanation.row_values(1, 0), opposite);
        assert_eq!(explanation.row_values(3, 0), [0.0; 3]);
        assert_eq!(explanation.predictions[3], 0.0);
    }
}

/// For a difference of utilities the independent and paired games agree, and their values are differences of
/// the items' own values.
#[test]
fn utility_values_are_differences_between_items() {
    let (items, fit) = fit(1.4, 0.0, 2);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let reference = || background(&items, None);
    let independent = ask(&fit.model, &rows, &DuelQuestion::new(DuelGame::Independent(reference())));
    let paired = ask(&fit.model, &rows, &DuelQuestion::new(DuelGame::Paired(reference())));
    let utility = |x: &[f64]| mixed(&fit.model, &[x, &items.row(5)].concat(), &[true; 3], x, x);
    let item_values = |item: usize| {
        shapley(3, |s| {
            let mix = |b: usize| -> Vec<f64> {
                (0..3).map(|j| if s[j] { items.get(item, j) } else { items.get(b, j) }).collect()
            };
            (0..14).map(|b| utility(&mix(b)) / 14.0).sum()
        })
    };
    for (i, &(l, r)) in DUELS.iter().enumerate() {
        let (l, r) = (item_values(l), item_values(r));
        for k in 0..3 {
            let (a, b) = (independent.row_values(i, 0)[k], paired.row_values(i, 0)[k]);
            assert!((a - b).abs() < 1e-12 && (a - (l[k] - r[k])).abs() < 1e-12, "{a} {b}");
        }
    }
}

/// Observational values against two separate conditional mean embeddings, one per side, in plain code.
#[test]
fn observational_values_are_those_of_two_embeddings() {
    let (items, fit) = fit(0.7, 1.9, 3);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let kernel = Kernel::gaussian(&[1.3, 0.9, 2.0]);
    let (n, ridge) = (14, 0.02);
    for is_explicit in [true, false] {
        let conditioning_kernel =
            if is_explicit { ConditioningKernel::Given(kernel.clone()) } else { ConditioningKernel::Auto };
        let conditioning =
            Conditioning { ridge: Ridge::Fixed(ridge), kernel: conditioning_kernel, ..Default::default() };
        let game = DuelGame::Observational(background(&items, None), conditioning);
        let explanation = ask(&fit.model, &rows, &DuelQuestion::new(game));
        let weights = |x: &[f64], s: &[bool]| -> Vec<f64> {
            if !s.contains(&true) {
                return vec![1.0 / n as f64; n];
            }
            let scales = [1.3, 0.9, 2.0];
            let k = |u: &[f64], v: &[f64]| {
                let apart = (0..3).filter(|&j| s[j]).map(|j| ((u[j] - v[j]) / scales[j]).powi(2));
                (-0.5 * apart.sum::<f64>()).exp()
            };
            let mut gram = Matrix::zeros(n, n);
            for a in 0..n {
                for b in 0..n {
                    gram[(a, b)] = k(&items.row(a), &items.row(b));
                }
            }
            gram.add_diagonal(|_| n as f64 * ridge);
            let right: Vec<f64> = (0..n).map(|b| k(&items.row(b), x)).collect();
            let weights = riesz::linalg::lu_solve(&gram, &right);
            let missing = 1.0 - weights.iter().sum::<f64>();
            weights.iter().map(|w| w + missing / n as f64).collect()
        };
        let values = |i: usize| {
            let row = rows.row(i);
            shapley(3, |s| {
                if !s.contains(&false) {
                    return mixed(&fit.model, &row, s, &row, &row);
                }
                let (l, r) = (weights(&row[..3], s), weights(&row[3..], s));
                let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
                pairs
                    .map(|(a, b)| l[a] * r[b] * mixed(&fit.model, &row, s, &items.row(a), &items.row(b)))
                    .sum()
            })
        };
        close(&explanation, &(0..5).map(values).collect::<Vec<_>>(), 1e-8);
        let opposite: Vec<f64> = explanation.row_values(0, 0).iter().map(|v| -v).collect();
        assert_eq!(explanation.row_values(1, 0), opposite);
    }
}

/// Returns a model of duels in contexts that change the effects of the items' features.
pub(crate) fn with_contexts(seed: u64) -> (KernelExpansion, Table, Table) {
    let mut s = Stream(seed);
    let items = s.normals(10, 2);
    let pairs: Vec<Pair> = (0..12).map(|i| (i % 10, (i * 3 + 1) % 10)).filter(|(l, r)| l != r).collect();
    let contexts = s.normals(pairs.len(), 2);
    let ordered_pairs: Vec<Pair> = pairs.iter().flat_map(|&(l, r)| [(l, r), (r, l)]).collect();
    let wide = wide_rows(&items, &ordered_pairs).unwrap();
    let columns = wide.columns().iter().cloned().chain(["surface", "wind"].map(riesz::Column::numeric));
    let values = wide.column_major().iter().copied();
    let cells = |j: usize| (0..ordered_pairs.len()).map(move |i| (i / 2, j));
    let values = values.chain((0..2).flat_map(cells).map(|(i, j)| contexts.get(i, j))).collect();
    let points = Table::from_column_major(columns.collect(), ordered_pairs.len(), values).unwrap();
    let coef: Vec<f64> = pairs.iter().map(|_| s.normal()).flat_map(|a| [a, -a]).collect();
    let item = Kernel::gaussian(&[1.0, 1.5]);
    let pair =
        0.8 * item.clone() + 0.8 * item.shift_columns(2) + 1.7 * (item.clone() * item.shift_columns(2));
    let kernel = pair * (Kernel::constant(0.3) + 0.7 * Kernel::gaussian(&[0.9, 1.1]).shift_columns(4));
    let model = KernelExpansion::new(kernel, points, Matrix::column_vector(coef), vec![0.0]).unwrap();
    (model, items, contexts)
}

/// Contexts that are always present, absent together with the items, and absent with the items present.
#[test]
fn contexts_are_players_or_not() {
    let (model, items, contexts) = with_contexts(5);
    let rows = model.support_points.select_rows(&[0, 1, 6]);
    let columns = ["surface", "wind"].map(riesz::Column::numeric).to_vec();
    let contexts =
        Table::from_column_major(columns, contexts.rows(), contexts.column_major().to_vec()).unwrap();
    let chosen = items.select_rows(&[2, 4, 7]);
    let context_sample = contexts.select_rows(&[0, 3, 4, 9]);
    let item_background = || background(&chosen, None);
    let mix = |row: &[f64], s: &[bool], a: usize, b: usize, c: Option<usize>| {
        let mut row = row.to_vec();
        for j in 0..2 {
            if let (Some(c), false) = (c, s.get(2 + j).copied().unwrap_or(true)) {
                row[4 + j] = context_sample.get(c, j);
            }
        }
        mixed(&model, &row, &s[..2], &chosen.row(a), &chosen.row(b))
    };
    let nine = || (0..9).map(|i| (i / 3, i % 3));
    let three = || (0..3).map(|i| (i, i));
    for (paired, game) in
        [(false, DuelGame::Independent(item_background())), (true, DuelGame::Paired(item_background()))]
    {
        let pairs: Vec<Pair> = if paired { three().collect() } else { nine().collect() };
        let pair_weight = 1.0 / pairs.len() as f64;
        let question = DuelQuestion::new(game);
        let explanation = ask(&model, &rows, &question);
        let values = |i: usize| {
            shapley(2, |s| pairs.iter().map(|&(a, b)| pair_weight * mix(&rows.row(i), s, a, b, None)).sum())
        };
        close(&explanation, &(0..3).map(values).collect::<Vec<_>>(), 1e-11);
        assert_eq!(explanation.players.len(), 2);
        let joint = DuelQuestion { contexts: Some(background(&context_sample, None).into()), ..question };
        let explanation = ask(&model, &rows, &joint);
        let values = |i: usize| {
            shapley(4, |s| {
                let combinations = pairs.iter().flat_map(|&(a, b)| (0..4).map(move |c| (a, b, c)));
                combinations.map(|(a, b, c)| pair_weight / 4.0 * mix(&rows.row(i), s, a, b, Some(c))).sum()
            })
        };
        close(&explanation, &(0..3).map(values).collect::<Vec<_>>(), 1e-11);
        let opposite: Vec<f64> = explanation.row_values(0, 0).iter().map(|v| -v).collect();
        assert_eq!(explanation.row_values(1, 0), opposite);
    }
    // Items are always present: the base value is the mean over contexts.
    let contexts_only = DuelQuestion {
        game: None,
        contexts: Some(background(&context_sample, None).into()),
        ..DuelQuestion::new(DuelGame::Functional)
    };
    let explanation = ask(&model, &rows, &contexts_only);
    for i in 0..3 {
        let coalition_value = |s: &[bool]| -> f64 {
            (0..4).map(|c| mix(&rows.row(i), &[&[true, true], s].concat(), 0, 0, Some(c)) / 4.0).sum()
        };
        let values = shapley(2, coalition_value);
        assert!(explanation.row_values(i, 0).iter().zip(&values).all(|(a, b)| (a - b).abs() < 1e-12));
        assert!((explanation.base_values[i] - coalition_value(&[false, false])).abs() < 1e-12);
    }
    assert_eq!(explanation.base_values[0], -explanation.base_values[1]);
}

/// The game of independent parts, with groups and several indices, against all combinations of rows as one
/// background.
#[test]
fn independent_parts_match_all_combinations_of_rows() {
    let (items, fit) = fit(0.7, 1.9, 7);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let groups =
        Players::named(fit.model.columns(), &[("both", vec!["left_x0", "right_x0", "right_x1"])]).unwrap();
    let combinations: Vec<Pair> = (0..4).flat_map(|a| (4..9).map(move |b| (a, b))).collect();
    let part = |rows: &Table, columns: std::ops::Range<usize>| {
        let names = fit.model.columns()[columns].to_vec();
        Part::from(Table::from_column_major(names, rows.rows(), rows.column_major().to_vec()).unwrap())
    };
    let (first, second) = (items.select_rows(&[0, 1, 2, 3]), items.select_rows(&[4, 5, 6, 7, 8]));
    let parts = vec![part(&first, 0..3), part(&second, 3..6)];
    let joint_game = Game::Interventional { background: wide_rows(&items, &combinations).unwrap().into() };
    for index in ["shapley", "banzhaf", "k-sii", "fsii(3)"] {
        let explanation_of = |game: Game| {
            let question = Question::from(game).with_players(Some(groups.clone()));
            let question = question.with_index(index.parse().unwrap());
            riesz::Explainer::new(&fit.model, question).unwrap().explain(&rows).unwrap()
        };
        let apart = explanation_of(Game::Independent { parts: parts.clone() });
        let expected = explanation_of(joint_game.clone());
        assert_eq!(apart.subsets, expected.subsets);
        for (a, b) in apart.values.iter().zip(&expected.values) {
            assert!((a - b).abs() < 1e-12, "{index} {a} {b}");
        }
        for (a, b) in apart.base_values.iter().zip(&expected.base_values) {
            assert!((a - b).abs() < 1e-12);
        }
        assert!(apart.certificate().is_none_or(|c| c.holds));
    }
}

/// With many items and players, samples of pairs are drawn: values are within standard errors, and exact with
/// all pairs.
#[test]
fn sampled_pairs_estimate_values_over_all_pairs() {
    let mut s = Stream(11);
    let items = s.normals(103, 14);
    let pairs: Vec<Pair> = (0..8).map(|i| (i, 20 + i)).collect();
    let duels = Duels::new(
        103,
        &pairs.iter().map(|p| p.0).collect::<Vec<_>>(),
        &pairs.iter().map(|p| p.1).collect::<Vec<_>>(),
        &[1.0; 8],
        None,
    )
    .unwrap();
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[3.0; 14]));
    process.tune = false;
    let fit = process.fit(&items, &duels).unwrap();
    let rows = wide_rows(&items, &[(0, 20), (20, 0)]).unwrap();
    let game = || DuelGame::Independent(background(&items, None));
    let with_shifts = |shifts: usize| {
        ask(&fit.model, &rows, &DuelQuestion { shifts, seed: 4, ..DuelQuestion::new(game()) })
    };
    let (sampled, complete) = (with_shifts(12), with_shifts(1000));
    let Exactness::Estimated { std_error, .. } = &sampled.exactness else { panic!("estimated") };
    let Exactness::Exact { bound } = &complete.exactness else { panic!("exact") };
    let every: Vec<Pair> = (0..103).flat_map(|a| (0..103).map(move |b| (a, b))).collect();
    let joint_game = Game::Interventional { background: wide_rows(&items, &every).unwrap().into() };
    let names: Vec<(String, Vec<String>)> =
        (0..14).map(|j| (format!("x{j}"), vec![format!("left_x{j}"), format!("right_x{j}")])).collect();
    let groups = Players::named(fit.model.columns(), &names).unwrap();
    let question = Question::from(joint_game).with_players(Some(groups));
    let expected = riesz::Explainer::new(&fit.model, question).unwrap().explain(&rows).unwrap();
    let mut far = 0;
    for k in 0..28 {
        let error = (complete.values[k] - expected.values[k]).abs();
        assert!(error < 1e-12 && error <= bound[k / 14] + 1e-15, "{error} {}", bound[k / 14]);
        far += usize::from((sampled.values[k] - expected.values[k]).abs() > 2.5 * std_error[k]);
        assert!(std_error[k] < 0.02);
    }
    assert!(far <= 1, "{far}");
    assert_eq!(sampled.row_values(1, 0), sampled.row_values(0, 0).iter().map(|v| -v).collect::<Vec<_>>());
    // If most portions are drawn, errors are small, and so are standard errors, which allow for the draws
    // that were not made. With standard errors of draws with replacement, the mean below would be a fifth as
    // large.
    let squares = (0..4).flat_map(|seed| {
        let explanation =
            ask(&fit.model, &rows, &DuelQuestion { shifts: 40, seed, ..DuelQuestion::new(game()) });
        let Exactness::Estimated { std_error, .. } = &explanation.exactness else { panic!("estimated") };
        (0..14)
            .map(|k| ((explanation.values[k] - expected.values[k]) / std_error[k]).powi(2))
            .collect::<Vec<f64>>()
    });
    let mean = squares.sum::<f64>() / 56.0;
    assert!((0.15..1.5).contains(&mean), "{mean}");
}

#[test]
fn invalid_questions_are_refused_with_reasons() {
    let (items, fit) = fit(0.7, 1.9, 1);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
    let refusal = |model: &KernelExpansion, rows: &Table, question: &DuelQuestion| {
        explain(model, None, rows, question, &stop, &progress).unwrap_err().to_string()
    };
    let game = DuelGame::Paired(background(&items, None));
    let mut lopsided = fit.model.clone();
    lopsided.intercept[0] = 0.5;
    assert!(refusal(&lopsided, &rows, &DuelQuestion::new(game.clone())).contains("change their sign"));
    let plain = KernelExpansion::new(
        Kernel::gaussian(&[1.0]),
        Table::from_rows(&[[0.0]]).unwrap(),
        Matrix::column_vector(vec![1.0]),
        vec![0.0],
    )
    .unwrap();
    let row = Table::from_rows(&[[0.0]]).unwrap();
    assert!(refusal(&plain, &row, &DuelQuestion::new(game.clone())).contains("left_x and right_x"));
    let contexts = DuelQuestion { contexts: Some(items.clone().into()), ..DuelQuestion::new(game) };
    assert!(refusal(&fit.model, &rows, &contexts).contains("without contexts"));
    let nothing = DuelQuestion { game: None, ..DuelQuestion::new(DuelGame::Functional) };
    assert!(refusal(&fit.model, &rows, &nothing).contains("no features"));
}

/// A utility learnt through landmarks is expanded with distant points: games with a background ignore them,
/// and removal is refused.
#[test]
fn landmark_models_have_the_values_of_exact_models() {
    let mut s = Stream(21);
    let items = s.normals(9, 3);
    let pairs: Vec<Pair> = (0..30).map(|i| (i % 9, (i * 2 + 1) % 9)).filter(|(l, r)| l != r).collect();
    let (left, right): (Vec<usize>, Vec<usize>) = pairs.iter().copied().unzip();
    let outcome: Vec<f64> = pairs.iter().map(|_| f64::from(u8::from(s.uniform() < 0.6))).collect();
    let duels = Duels::new(9, &left, &right, &outcome, None).unwrap();
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[1.3, 0.9, 2.0]));
    (process.tune, process.prior.utility_variance, process.prior.generalised_variance) = (false, 0.7, 1.9);
    let exact = process.fit(&items, &duels).unwrap().model;
    let landmark_process =
        LandmarkProcess { landmarks: 9, draws: 0, tolerance: 1e-10, ..LandmarkProcess::new(process) };
    let landmark_model = landmark_process.fit(&items, &duels).unwrap().model.unwrap();
    let rows = wide_rows(&items, &[(0, 7), (3, 5), (4, 4)]).unwrap();
    let reference = || background(&items, None);
    let conditioning = Conditioning {
        ridge: Ridge::Fixed(0.02),
        kernel: ConditioningKernel::Given(Kernel::gaussian(&[1.3, 0.9, 2.0])),
        ..Default::default()
    };
    for game in [
        DuelGame::Independent(reference()),
        DuelGame::Paired(reference()),
        DuelGame::Baseline(items.select_rows(&[2])),
        DuelGame::Observational(reference(), conditioning),
    ] {
        let question = DuelQuestion::new(game);
        let (a, b) = (ask(&exact, &rows, &question), ask(&landmark_model, &rows, &question));
        for (a, b) in a.values.iter().zip(&b.values) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
    let refusal =
        explain(&landmark_model, None, &rows, &DuelQuestion::new(DuelGame::Functional), &stop, &progress);
    assert!(refusal.unwrap_err().to_string().contains("where its kernel vanishes"));
}

/// Equal support points are merged, and bounds cover the rounding of merged coefficients, also if large ones
/// cancel.
#[test]
fn bounds_cover_cancelling_coefficients() {
    let (items, _) = fit(0.7, 1.9, 1);
    let kernel = Kernel::gaussian(&[1.0, 1.0, 1.0]);
    let wide = kernel.clone() * kernel.shift_columns(3);
    let rows = wide_rows(&items, &[(0, 7)]).unwrap();
    let points =
        |times: usize| wide_rows(&items, &[vec![(1, 2); times], vec![(2, 1); times]].concat()).unwrap();
    let explanation_of = |coef: &[f64]| {
        let signed_coef: Vec<f64> = coef.iter().copied().chain(coef.iter().map(|c| -c)).collect();
        let model = KernelExpansion::new(
            wide.clone(),
            points(coef.len()),
            Matrix::column_vector(signed_coef),
            vec![0.0],
        )
        .unwrap();
        ask(&model, &rows, &DuelQuestion::new(DuelGame::Independent(background(&items, None))))
    };
    let (explanation, truth) = (explanation_of(&[1e16, 1.0, 1.0, -1e16]), explanation_of(&[2.0]));
    let Exactness::Exact { bound } = &explanation.exactness else { panic!("exact") };
    for (a, b) in explanation.values.iter().zip(&truth.values) {
        assert!((a - b).abs() <= bound[0], "{a} {b} {}", bound[0]);
    }
    assert!(bound[0] > 1e-3);
}

/// Contexts whose names could be those of an item's columns.
#[test]
fn names_of_contexts_are_their_own() {
    let (items, _) = fit(0.7, 1.9, 1);
    for name in ["left_rest", "right_rest", "x1"] {
        let contexts =
            Table::from_column_major(vec![riesz::Column::numeric(name)], 2, vec![0.0, 1.0]).unwrap();
        let duels = Duels::in_contexts(14, &[0, 1], &[2, 3], &[1.0, 0.0], None, &contexts).unwrap();
        let mut process = PreferenceProcess::new(Kernel::gaussian(&[1.0; 3]));
        process.tune = false;
        process.prior.contexts =
            Some(riesz::preference::ContextKernel { kernel: Kernel::gaussian(&[1.0]), shared: 0.5 });
        assert!(process.fit(&items, &duels).unwrap_err().to_string().contains("rename it"), "{name}");
    }
}
