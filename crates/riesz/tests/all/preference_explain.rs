//! Values of duels against the definition: all coalitions, all pairs of background items.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use riesz::Progress;
use riesz::attribution::enumeration::shapley;
use riesz::embedding::{Conditioning, ConditioningKernel, Ridge};
use riesz::explanation::{Exactness, Explanation};
use riesz::game::Background;
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

/// g at (l_S, b), (r_S, b').
fn mixed(model: &KernelExpansion, duel: &[f64], given: &[bool], b: &[f64], other: &[f64]) -> f64 {
    let d = given.len();
    let row: Vec<f64> = (0..d)
        .map(|j| if given[j] { duel[j] } else { b[j] })
        .chain((0..d).map(|j| if given[j] { duel[d + j] } else { other[j] }))
        .chain(duel[2 * d..].iter().copied())
        .collect();
    let table = Table::from_column_major(model.columns().to_vec(), 1, row).unwrap();
    model.predict(&table).unwrap()[(0, 0)]
}

fn close(found: &Explanation, expected: &[Vec<f64>], proved: f64) {
    let Exactness::Exact { bound } = &found.exactness else { panic!("exact") };
    for (i, own) in expected.iter().enumerate() {
        for (a, b) in found.row_values(i, 0).iter().zip(own) {
            assert!((a - b).abs() < 1e-12, "{a} {b}");
        }
        assert!(bound[i] < proved, "{}", bound[i]);
        assert_eq!(found.base_values[i], 0.0);
        let sum: f64 = found.row_values(i, 0).iter().sum();
        assert!((sum - found.predictions[i]).abs() <= bound[i]);
    }
}

/// Independent, paired, matches and baseline: means over pairs of items, coalition by coalition.
#[test]
fn values_are_those_of_all_pairs_of_items() {
    let (items, fit) = fit(0.7, 1.9, 1);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let weights: Vec<f64> = (0..6).map(|i| 1.0 + f64::from(i)).collect();
    let chosen = items.select_rows(&[1, 2, 5, 8, 12, 13]);
    let met: Vec<Pair> = vec![(0, 3), (5, 6), (13, 1)];
    let matches = wide_rows(&items, &met).unwrap();
    let total: f64 = weights.iter().sum();
    let row = |i: usize| chosen.row(i);
    let mut all = Vec::new();
    for a in 0..6 {
        for b in 0..6 {
            all.push((row(a), row(b), weights[a] * weights[b] / total / total));
        }
    }
    let paired = (0..6).map(|a| (row(a), row(a), weights[a] / total)).collect::<Vec<_>>();
    let either = met.iter().flat_map(|&(l, r)| [(l, r), (r, l)]);
    let either = either.map(|(l, r)| (items.row(l), items.row(r), 1.0 / 6.0)).collect::<Vec<_>>();
    let one = vec![(row(3), row(3), 1.0)];
    for (game, pairs) in [
        (DuelGame::Independent(background(&chosen, Some(weights.clone()))), all),
        (DuelGame::Paired(background(&chosen, Some(weights.clone()))), paired),
        (DuelGame::Matches(matches), either),
        (DuelGame::Baseline(chosen.select_rows(&[3])), one),
    ] {
        let found = ask(&fit.model, &rows, &DuelQuestion::new(game));
        let values = |i: usize| {
            shapley(3, |s| pairs.iter().map(|(b, o, w)| w * mixed(&fit.model, &rows.row(i), s, b, o)).sum())
        };
        close(&found, &(0..5).map(values).collect::<Vec<_>>(), 1e-11);
        // The other way round the same with the other sign, to the last bit; of two alike nothing.
        let opposite: Vec<f64> = found.row_values(0, 0).iter().map(|v| -v).collect();
        assert_eq!(found.row_values(1, 0), opposite);
        assert_eq!(found.row_values(3, 0), [0.0; 3]);
        assert_eq!(found.predictions[3], 0.0);
    }
}

/// Of a difference of utilities independent and paired are one, and the difference of the items' own values.
#[test]
fn utilities_have_values_of_their_own() {
    let (items, fit) = fit(1.4, 0.0, 2);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let own = || background(&items, None);
    let independent = ask(&fit.model, &rows, &DuelQuestion::new(DuelGame::Independent(own())));
    let paired = ask(&fit.model, &rows, &DuelQuestion::new(DuelGame::Paired(own())));
    let utility = |x: &[f64]| mixed(&fit.model, &[x, &items.row(5)].concat(), &[true; 3], x, x);
    let of = |item: usize| {
        shapley(3, |s| {
            let mix = |b: usize| -> Vec<f64> {
                (0..3).map(|j| if s[j] { items.get(item, j) } else { items.get(b, j) }).collect()
            };
            (0..14).map(|b| utility(&mix(b)) / 14.0).sum()
        })
    };
    for (i, &(l, r)) in DUELS.iter().enumerate() {
        let (l, r) = (of(l), of(r));
        for k in 0..3 {
            let (a, b) = (independent.row_values(i, 0)[k], paired.row_values(i, 0)[k]);
            assert!((a - b).abs() < 1e-12 && (a - (l[k] - r[k])).abs() < 1e-12, "{a} {b}");
        }
    }
}

/// Each side by its own conditional mean embedding, in plain code.
#[test]
fn observational_values_are_those_of_two_embeddings() {
    let (items, fit) = fit(0.7, 1.9, 3);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let kernel = Kernel::gaussian(&[1.3, 0.9, 2.0]);
    let (n, ridge) = (14, 0.02);
    for given in [true, false] {
        let own = if given { ConditioningKernel::Given(kernel.clone()) } else { ConditioningKernel::Auto };
        let conditioning = Conditioning { ridge: Ridge::Fixed(ridge), kernel: own, ..Default::default() };
        let game = DuelGame::Observational(background(&items, None), conditioning);
        let found = ask(&fit.model, &rows, &DuelQuestion::new(game));
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
        close(&found, &(0..5).map(values).collect::<Vec<_>>(), 1e-8);
        let opposite: Vec<f64> = found.row_values(0, 0).iter().map(|v| -v).collect();
        assert_eq!(found.row_values(1, 0), opposite);
    }
}

/// A model whose duels have a context, which changes what counts.
pub(crate) fn with_contexts(seed: u64) -> (KernelExpansion, Table, Table) {
    let mut s = Stream(seed);
    let items = s.normals(10, 2);
    let pairs: Vec<Pair> = (0..12).map(|i| (i % 10, (i * 3 + 1) % 10)).filter(|(l, r)| l != r).collect();
    let contexts = s.normals(pairs.len(), 2);
    let both: Vec<Pair> = pairs.iter().flat_map(|&(l, r)| [(l, r), (r, l)]).collect();
    let wide = wide_rows(&items, &both).unwrap();
    let columns = wide.columns().iter().cloned().chain(["surface", "wind"].map(riesz::Column::numeric));
    let values = wide.column_major().iter().copied();
    let of = |j: usize| (0..both.len()).map(move |i| (i / 2, j));
    let values = values.chain((0..2).flat_map(of).map(|(i, j)| contexts.get(i, j))).collect();
    let points = Table::from_column_major(columns.collect(), both.len(), values).unwrap();
    let coef: Vec<f64> = pairs.iter().map(|_| s.normal()).flat_map(|a| [a, -a]).collect();
    let item = Kernel::gaussian(&[1.0, 1.5]);
    let pair =
        0.8 * item.clone() + 0.8 * item.shift_columns(2) + 1.7 * (item.clone() * item.shift_columns(2));
    let kernel = pair * (Kernel::constant(0.3) + 0.7 * Kernel::gaussian(&[0.9, 1.1]).shift_columns(4));
    let model = KernelExpansion::new(kernel, points, Matrix::column_vector(coef), vec![0.0]).unwrap();
    (model, items, contexts)
}

/// Contexts always present, absent beside the items, and absent alone.
#[test]
fn contexts_are_players_or_not() {
    let (model, items, contexts) = with_contexts(5);
    let rows = model.support_points.select_rows(&[0, 1, 6]);
    let columns = ["surface", "wind"].map(riesz::Column::numeric).to_vec();
    let contexts =
        Table::from_column_major(columns, contexts.rows(), contexts.column_major().to_vec()).unwrap();
    let chosen = items.select_rows(&[2, 4, 7]);
    let some = contexts.select_rows(&[0, 3, 4, 9]);
    let own = || background(&chosen, None);
    let mix = |row: &[f64], s: &[bool], a: usize, b: usize, c: Option<usize>| {
        let mut row = row.to_vec();
        for j in 0..2 {
            if let (Some(c), false) = (c, s.get(2 + j).copied().unwrap_or(true)) {
                row[4 + j] = some.get(c, j);
            }
        }
        mixed(&model, &row, &s[..2], &chosen.row(a), &chosen.row(b))
    };
    let nine = || (0..9).map(|i| (i / 3, i % 3));
    let three = || (0..3).map(|i| (i, i));
    for (paired, game) in [(false, DuelGame::Independent(own())), (true, DuelGame::Paired(own()))] {
        let pairs: Vec<Pair> = if paired { three().collect() } else { nine().collect() };
        let each = 1.0 / pairs.len() as f64;
        let question = DuelQuestion::new(game);
        let found = ask(&model, &rows, &question);
        let values = |i: usize| {
            shapley(2, |s| pairs.iter().map(|&(a, b)| each * mix(&rows.row(i), s, a, b, None)).sum())
        };
        close(&found, &(0..3).map(values).collect::<Vec<_>>(), 1e-11);
        assert_eq!(found.players.len(), 2);
        let joint = DuelQuestion { contexts: Some(background(&some, None)), ..question };
        let found = ask(&model, &rows, &joint);
        let values = |i: usize| {
            shapley(4, |s| {
                let all = pairs.iter().flat_map(|&(a, b)| (0..4).map(move |c| (a, b, c)));
                all.map(|(a, b, c)| each / 4.0 * mix(&rows.row(i), s, a, b, Some(c))).sum()
            })
        };
        close(&found, &(0..3).map(values).collect::<Vec<_>>(), 1e-11);
        let opposite: Vec<f64> = found.row_values(0, 0).iter().map(|v| -v).collect();
        assert_eq!(found.row_values(1, 0), opposite);
    }
    // Items as they are: the base value is the mean over contexts.
    let alone = DuelQuestion {
        game: None,
        contexts: Some(background(&some, None)),
        ..DuelQuestion::new(DuelGame::Functional)
    };
    let found = ask(&model, &rows, &alone);
    for i in 0..3 {
        let of = |s: &[bool]| -> f64 {
            (0..4).map(|c| mix(&rows.row(i), &[&[true, true], s].concat(), 0, 0, Some(c)) / 4.0).sum()
        };
        let values = shapley(2, of);
        assert!(found.row_values(i, 0).iter().zip(&values).all(|(a, b)| (a - b).abs() < 1e-12));
        assert!((found.base_values[i] - of(&[false, false])).abs() < 1e-12);
    }
    assert_eq!(found.base_values[0], -found.base_values[1]);
}

/// Players in groups, other indices, and the general game of parts against all combinations of rows as one
/// background.
#[test]
fn parts_are_all_combinations_of_their_rows() {
    let (items, fit) = fit(0.7, 1.9, 7);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let groups =
        Players::named(fit.model.columns(), &[("both", vec!["left_x0", "right_x0", "right_x1"])]).unwrap();
    let all: Vec<Pair> = (0..4).flat_map(|a| (4..9).map(move |b| (a, b))).collect();
    let part = |rows: &Table, columns: std::ops::Range<usize>| {
        let names = fit.model.columns()[columns].to_vec();
        Background::from(Table::from_column_major(names, rows.rows(), rows.column_major().to_vec()).unwrap())
    };
    let (first, second) = (items.select_rows(&[0, 1, 2, 3]), items.select_rows(&[4, 5, 6, 7, 8]));
    let parts = vec![part(&first, 0..3), part(&second, 3..6)];
    let together = Game::Interventional { background: wide_rows(&items, &all).unwrap().into() };
    for index in ["shapley", "banzhaf", "k-sii", "fsii(3)"] {
        let of = |game: Game| {
            let question = Question::from(game).with_players(Some(groups.clone()));
            let question = question.with_index(index.parse().unwrap());
            riesz::Explainer::new(&fit.model, question).unwrap().explain(&rows).unwrap()
        };
        let apart = of(Game::Independent { parts: parts.clone(), conditional: None });
        let expected = of(together.clone());
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

/// Of many items and players portions of pairs are drawn: within their standard errors, and exact where all
/// are.
#[test]
fn portions_of_pairs_estimate_all() {
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
    let of = |shifts: usize| {
        ask(&fit.model, &rows, &DuelQuestion { shifts, seed: 4, ..DuelQuestion::new(game()) })
    };
    let (some, all) = (of(12), of(1000));
    let Exactness::Estimated { std_error, .. } = &some.exactness else { panic!("estimated") };
    let Exactness::Exact { bound } = &all.exactness else { panic!("exact") };
    let every: Vec<Pair> = (0..103).flat_map(|a| (0..103).map(move |b| (a, b))).collect();
    let one = Game::Interventional { background: wide_rows(&items, &every).unwrap().into() };
    let names: Vec<(String, Vec<String>)> =
        (0..14).map(|j| (format!("x{j}"), vec![format!("left_x{j}"), format!("right_x{j}")])).collect();
    let groups = Players::named(fit.model.columns(), &names).unwrap();
    let question = Question::from(one).with_players(Some(groups));
    let expected = riesz::Explainer::new(&fit.model, question).unwrap().explain(&rows).unwrap();
    let mut far = 0;
    for k in 0..28 {
        let off = (all.values[k] - expected.values[k]).abs();
        assert!(off < 1e-12 && off <= bound[k / 14] + 1e-15, "{off} {}", bound[k / 14]);
        far += usize::from((some.values[k] - expected.values[k]).abs() > 2.5 * std_error[k]);
        assert!(std_error[k] < 0.02);
    }
    assert!(far <= 1, "{far}");
    assert_eq!(some.row_values(1, 0), some.row_values(0, 0).iter().map(|v| -v).collect::<Vec<_>>());
    // Where most portions are drawn, little is left to err by, and standard errors say so: they allow for
    // draws that were not made, but are not those of draws with replacement, of which squared errors would be
    // a fifth of this.
    let squares = (0..4).flat_map(|seed| {
        let found = ask(&fit.model, &rows, &DuelQuestion { shifts: 40, seed, ..DuelQuestion::new(game()) });
        let Exactness::Estimated { std_error, .. } = &found.exactness else { panic!("estimated") };
        (0..14).map(|k| ((found.values[k] - expected.values[k]) / std_error[k]).powi(2)).collect::<Vec<f64>>()
    });
    let mean = squares.sum::<f64>() / 56.0;
    assert!((0.15..1.5).contains(&mean), "{mean}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let (items, fit) = fit(0.7, 1.9, 1);
    let rows = wide_rows(&items, &DUELS).unwrap();
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
    let told = |model: &KernelExpansion, rows: &Table, question: &DuelQuestion| {
        explain(model, None, rows, question, &stop, &progress).unwrap_err().to_string()
    };
    let game = DuelGame::Paired(background(&items, None));
    let mut lopsided = fit.model.clone();
    lopsided.intercept[0] = 0.5;
    assert!(told(&lopsided, &rows, &DuelQuestion::new(game.clone())).contains("change their sign"));
    let plain = KernelExpansion::new(
        Kernel::gaussian(&[1.0]),
        Table::from_rows(&[[0.0]]).unwrap(),
        Matrix::column_vector(vec![1.0]),
        vec![0.0],
    )
    .unwrap();
    let row = Table::from_rows(&[[0.0]]).unwrap();
    assert!(told(&plain, &row, &DuelQuestion::new(game.clone())).contains("left_x and right_x"));
    let contexts = DuelQuestion { contexts: Some(background(&items, None)), ..DuelQuestion::new(game) };
    assert!(told(&fit.model, &rows, &contexts).contains("without contexts"));
    let nothing = DuelQuestion { game: None, ..DuelQuestion::new(DuelGame::Functional) };
    assert!(told(&fit.model, &rows, &nothing).contains("no players"));
}

/// A utility that was learnt through landmarks stands beside rows that are far from everything: games with a
/// background do not see them, and removal is refused.
#[test]
fn landmarks_are_explained_as_what_they_stand_for() {
    let mut s = Stream(21);
    let items = s.normals(9, 3);
    let pairs: Vec<Pair> = (0..30).map(|i| (i % 9, (i * 2 + 1) % 9)).filter(|(l, r)| l != r).collect();
    let (left, right): (Vec<usize>, Vec<usize>) = pairs.iter().copied().unzip();
    let outcome: Vec<f64> = pairs.iter().map(|_| f64::from(u8::from(s.uniform() < 0.6))).collect();
    let duels = Duels::new(9, &left, &right, &outcome, None).unwrap();
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[1.3, 0.9, 2.0]));
    (process.tune, process.prior.utility_variance, process.prior.generalised_variance) = (false, 0.7, 1.9);
    let exact = process.fit(&items, &duels).unwrap().model;
    let through =
        LandmarkProcess { landmarks: 9, draws: 0, tolerance: 1e-10, ..LandmarkProcess::new(process) };
    let through = through.fit(&items, &duels).unwrap().model.unwrap();
    let rows = wide_rows(&items, &[(0, 7), (3, 5), (4, 4)]).unwrap();
    let own = || background(&items, None);
    let conditioning = Conditioning {
        ridge: Ridge::Fixed(0.02),
        kernel: ConditioningKernel::Given(Kernel::gaussian(&[1.3, 0.9, 2.0])),
        ..Default::default()
    };
    for game in [
        DuelGame::Independent(own()),
        DuelGame::Paired(own()),
        DuelGame::Baseline(items.select_rows(&[2])),
        DuelGame::Observational(own(), conditioning),
    ] {
        let question = DuelQuestion::new(game);
        let (a, b) = (ask(&exact, &rows, &question), ask(&through, &rows, &question));
        for (a, b) in a.values.iter().zip(&b.values) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
    let told = explain(&through, None, &rows, &DuelQuestion::new(DuelGame::Functional), &stop, &progress);
    assert!(told.unwrap_err().to_string().contains("where its kernel vanishes"));
}

/// Support points that are one are summed up, and rounding is that of what was summed: large coefficients
/// that cancel.
#[test]
fn bounds_count_what_cancels() {
    let (items, _) = fit(0.7, 1.9, 1);
    let kernel = Kernel::gaussian(&[1.0, 1.0, 1.0]);
    let wide = kernel.clone() * kernel.shift_columns(3);
    let rows = wide_rows(&items, &[(0, 7)]).unwrap();
    let points =
        |times: usize| wide_rows(&items, &[vec![(1, 2); times], vec![(2, 1); times]].concat()).unwrap();
    let of = |coef: &[f64]| {
        let both: Vec<f64> = coef.iter().copied().chain(coef.iter().map(|c| -c)).collect();
        let model =
            KernelExpansion::new(wide.clone(), points(coef.len()), Matrix::column_vector(both), vec![0.0])
                .unwrap();
        ask(&model, &rows, &DuelQuestion::new(DuelGame::Independent(background(&items, None))))
    };
    let (found, truth) = (of(&[1e16, 1.0, 1.0, -1e16]), of(&[2.0]));
    let Exactness::Exact { bound } = &found.exactness else { panic!("exact") };
    for (a, b) in found.values.iter().zip(&truth.values) {
        assert!((a - b).abs() <= bound[0], "{a} {b} {}", bound[0]);
    }
    assert!(bound[0] > 1e-3);
}

/// Contexts that would be taken for an item's column.
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
