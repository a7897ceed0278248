//! The strongest pairs against the values of all pairs, and against integrals over factors that are evaluated
//! one by one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use riesz::explanation::{Pair, Strongest, TopInteractions};
use riesz::index::Interaction;
use riesz::kernel::{Linear, Polynomial, Profile};
use riesz::{
    Error, Exactness, Explainer, Explanation, Game, Kernel, KernelExpansion, Matrix, Progress, Question,
    Table,
};

use crate::common::{Stream, stationary, with_threads};
use crate::exact::{PRODUCT_GAMES, case, game};
use crate::interactions::{KINDS, index};

fn ask(model: &KernelExpansion, game: &Game, kind: Interaction) -> Question {
    assert!(model.validate().is_ok());
    Question::from(game.clone()).with_index(index(kind, 2))
}

/// Checks the strongest pairs of one row and output against all values, whose errors are at most `tolerance`;
/// `complete` means that the search had no limit.
fn check(strongest: &Strongest, expected: &[Pair], tolerance: f64, count: usize, complete: bool) {
    let value = |players: [usize; 2]| {
        expected.iter().find(|pair| pair.players == players).map_or(0.0, |pair| pair.value)
    };
    assert!(strongest.pairs.len() <= count);
    for pair in &strongest.pairs {
        let truth = value(pair.players);
        assert!(
            (pair.value - truth).abs() <= strongest.bound + tolerance,
            "{pair:?} {truth} {} {tolerance}",
            strongest.bound
        );
    }
    assert!(strongest.pairs.is_sorted_by(|a, b| a.value.abs() >= b.value.abs()));
    let listed: Vec<[usize; 2]> = strongest.pairs.iter().map(|pair| pair.players).collect();
    for pair in expected.iter().filter(|pair| !listed.contains(&pair.players)) {
        assert!(pair.value.abs() <= strongest.left_out + tolerance, "{pair:?} {}", strongest.left_out);
        if complete {
            let threshold = if listed.len() < count { 0.0 } else { strongest.pairs[count - 1].value.abs() };
            assert!(
                pair.value.abs() <= threshold + 2.0 * strongest.bound + tolerance,
                "{pair:?} {threshold}"
            );
        }
    }
    assert!(!complete || strongest.is_complete());
}

fn pairs_of(explanation: &Explanation, i: usize, o: usize) -> Vec<Pair> {
    let sets = explanation.subsets.as_ref().unwrap().iter().zip(explanation.row_values(i, o));
    let pair = |(set, value): (&Vec<usize>, &f64)| match set[..] {
        [j, l] => Some(Pair { players: [j, l], value: *value }),
        _ => None,
    };
    sets.filter_map(pair).collect()
}

/// Compares with the values of all pairs of the same rows.
fn against_all(
    explainer: &Explainer<'_>,
    (rows, all): (&Table, &Explanation),
    count: usize,
    limit: Option<usize>,
) -> TopInteractions {
    let result = explainer.top_interactions(rows, count, limit).unwrap();
    let Exactness::Exact { bound } = &all.exactness else { panic!("not exact") };
    for (g, tolerance) in bound.iter().enumerate() {
        let (i, o) = (g / all.outputs(), g % all.outputs());
        check(result.of_row(i, o), &pairs_of(all, i, o), *tolerance, count, limit.is_none());
    }
    result
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_listed_are_the_largest(
        d in 1..9_usize,
        (terms, outputs) in (1..4_usize, 1..3_usize),
        seed: u64,
        kind in prop::sample::select(&KINDS[..]),
        count in prop::sample::select(&[1_usize, 3, 1000][..]),
        limit in prop::sample::select(&[None, Some(0_usize), Some(2), Some(9)][..]),
    ) {
        let case = case(d, 12, outputs, terms, seed);
        for name in PRODUCT_GAMES {
            let explainer = Explainer::new(&case.model, ask(&case.model, &game(&case, name), kind)).unwrap();
            let explanation = explainer.explain(&case.rows).unwrap();
            let result = against_all(&explainer, (&case.rows, &explanation), count, limit);
            prop_assert!(result.by_game.iter().all(|strongest| strongest.searched <= limit.unwrap_or(usize::MAX)));
        }
    }
}

/// Returns a model with terms of many players, with more pairs than one round of the search evaluates.
fn large_model(d: usize, n: usize, length_scale: impl Fn(usize) -> f64, s: &mut Stream) -> KernelExpansion {
    let length_scales: Vec<f64> = (0..d).map(length_scale).collect();
    let first = Kernel::gaussian(&length_scales);
    let second = (0..d / 2).fold(Kernel::constant(0.5), |product, j| {
        product * stationary(Profile::Matern52, 2 * j, 3.0 * length_scales[j])
    });
    // Factors of either sign, some of them 0.
    let linear = |j| Linear { columns: vec![j], center: vec![0.0], scale: vec![2.0] };
    let third = (2..40).fold(Kernel::from(linear(0)) * Kernel::from(linear(1)), |product, j| {
        product * stationary(Profile::Gaussian, j, 3.0 * length_scales[j])
    });
    let coef = Matrix::from_row_major(n, 2, (0..2 * n).map(|_| s.signed()).collect());
    KernelExpansion::new(first + second + third, s.normals(n, d), coef, vec![0.2, 0.1]).unwrap()
}

#[test]
fn searches_of_many_players_respect_limits_and_bounds() {
    let mut s = Stream(11);
    let relevant = |j: usize| 4.0 * 1.03_f64.powi(j as i32);
    for (equal, kind) in [
        (false, Interaction::KSii),
        (true, Interaction::Fsii),
        (false, Interaction::Stii),
        (true, Interaction::Bii),
    ] {
        let model = large_model(180, 24, |j| if equal { 30.0 } else { relevant(j) }, &mut s);
        let (rows, background) = (s.normals(2, 180), s.normals(3, 180));
        for game in [Game::Functional, Game::Interventional { background: background.into() }] {
            let explainer = Explainer::new(&model, ask(&model, &game, kind)).unwrap();
            let (every, n_pairs) = (explainer.explain(&rows).unwrap(), 180 * 179 / 2);
            for (count, limit) in [(10, None), (3000, None), (20_000, None), (10, Some(50)), (10, Some(6000))]
            {
                let result = against_all(&explainer, (&rows, &every), count, limit);
                for strongest in &result.by_game {
                    assert!(strongest.searched <= limit.unwrap_or(n_pairs));
                    assert!(
                        equal || limit.is_some() || count > 10 || strongest.searched < n_pairs / 2,
                        "{}",
                        strongest.searched
                    );
                    assert!(
                        strongest.bound < 1e-9
                            && (count < n_pairs || strongest.left_out <= 2.0 * strongest.bound)
                    );
                }
            }
        }
    }
}

/// Computes `∫ ρ(t) Σ c Π_{l≠j,k} ((1-t) b_l + t a_l) (a_j - b_j)(a_k - b_k) dt` by Simpson's rule, from
/// tables of these players' factors.
fn integrals(samples: &[(f64, Vec<f64>, Vec<f64>)], players: &[usize], kind: Interaction) -> Vec<Pair> {
    let density = |t: f64| match kind {
        Interaction::Stii => 2.0 * (1.0 - t),
        Interaction::Fsii => 6.0 * t * (1.0 - t),
        _ => 1.0,
    };
    let steps = 200;
    let node = |k: usize| {
        let weight = if k == 0 || k == steps {
            1.0
        } else if k % 2 == 1 {
            4.0
        } else {
            2.0
        };
        let t = k as f64 / steps as f64;
        (t, weight / (3 * steps) as f64 * density(t))
    };
    let nodes: Vec<(f64, f64)> = match kind {
        Interaction::Moebius => vec![(0.0, 1.0)],
        Interaction::Bii | Interaction::Fbii => vec![(0.5, 1.0)],
        _ => (0..=steps).map(node).collect(),
    };
    let mut sums = vec![0.0; players.len() * players.len()];
    for (coef, a, b) in samples {
        for (t, weight) in &nodes {
            let f: Vec<f64> = (0..a.len()).map(|l| (1.0 - t) * b[l] + t * a[l]).collect();
            let product: f64 = coef * weight * f.iter().product::<f64>();
            let ratio: Vec<f64> = (0..a.len()).map(|l| (a[l] - b[l]) / f[l]).collect();
            for (j, ratio_j) in ratio.iter().enumerate().filter(|(_, entry)| **entry != 0.0) {
                for l in j + 1..players.len() {
                    sums[j * players.len() + l] += product * ratio_j * ratio[l];
                }
            }
        }
    }
    let pair =
        |j: usize, l: usize| Pair { players: [players[j], players[l]], value: sums[j * players.len() + l] };
    (0..players.len())
        .flat_map(|j| (j + 1..players.len()).map(move |l| (j, l)))
        .map(|(j, l)| pair(j, l))
        .collect()
}

/// Sparse rows of ten thousand players: the strongest pairs are found although a list of all pairs would be
/// too large.
#[test]
fn sparse_rows_of_ten_thousand_players() {
    let (d, n, filled) = (10_000, 12, 12);
    let mut s = Stream(21);
    let mut sparse = |rows: usize| -> Table {
        let row = |s: &mut Stream| {
            let mut row = vec![0.0; d];
            (0..filled).for_each(|_| row[(s.uniform() * d as f64) as usize] = s.normal());
            // Some columns are often non-zero.
            (0..6).for_each(|j| row[17 * j] = s.normal());
            row
        };
        Table::from_rows(&(0..rows).map(|_| row(&mut s)).collect::<Vec<_>>()).unwrap()
    };
    let (points, rows, background) = (sparse(n), sparse(2), sparse(2));
    let coef: Vec<f64> = (0..n).map(|i| ((7 * i) % 5) as f64 - 1.8).collect();
    let length_scale = 1.3;
    let kernel = Kernel::gaussian(&vec![length_scale; d]);
    let model =
        KernelExpansion::new(kernel, points.clone(), Matrix::column_vector(coef.clone()), vec![0.0]).unwrap();
    let factor = |u: f64, v: f64| (-0.5 * ((u - v) / length_scale).powi(2)).exp();
    for kind in KINDS {
        for game in [Game::Functional, Game::Interventional { background: background.clone().into() }] {
            let explainer = Explainer::new(&model, ask(&model, &game, kind)).unwrap();
            let count = 25;
            let result = explainer.top_interactions(&rows, count, None).unwrap();
            let refused = explainer.explain(&rows).unwrap_err().to_string();
            assert!(refused.contains("ask for the strongest alone"), "{refused}");
            for (i, strongest) in result.by_game.iter().enumerate() {
                let x = rows.row(i);
                let absent: Vec<Option<Vec<f64>>> = match game {
                    Game::Functional => vec![None],
                    _ => (0..2).map(|b| Some(background.row(b))).collect(),
                };
                let mut samples = Vec::new();
                for (p, c) in coef.iter().enumerate() {
                    let point = points.row(p);
                    let present: Vec<f64> = (0..d).map(|j| factor(point[j], x[j])).collect();
                    for row in &absent {
                        let b: Vec<f64> = match row {
                            None => vec![1.0; d],
                            Some(row) => (0..d).map(|j| factor(point[j], row[j])).collect(),
                        };
                        samples.push((c / absent.len() as f64, present.clone(), b));
                    }
                }
                let differs = |j: &usize| samples.iter().any(|(_, a, b)| a[*j] != b[*j]);
                let players: Vec<usize> = (0..d).filter(differs).collect();
                assert!((20..400).contains(&players.len()), "{}", players.len());
                // Factors that both sides share are multiplied into the coefficient.
                for (coef, a, b) in &mut samples {
                    let shared = (0..d).filter(|j| players.binary_search(j).is_err());
                    *coef *= shared.map(|j| a[j]).product::<f64>();
                    (*a, *b) =
                        (players.iter().map(|&j| a[j]).collect(), players.iter().map(|&j| b[j]).collect());
                }
                let expected = integrals(&samples, &players, kind);
                check(strongest, &expected, 1e-9, count, true);
                assert!(
                    strongest.pairs.len() == count && strongest.bound < 1e-7 && strongest.left_out > 1e-5,
                    "{strongest:?}"
                );
            }
        }
    }
}

/// Equal columns: tied pairs are ordered by their players.
#[test]
fn ties_and_short_lists() {
    let mut s = Stream(4);
    let columns = s.normals(12, 3);
    let wide = |table: &Table| {
        let row = |i: usize| (0..9).map(|j| table.get(i, j % 3)).collect::<Vec<f64>>();
        Table::from_rows(&(0..table.rows()).map(row).collect::<Vec<_>>()).unwrap()
    };
    let coef = Matrix::column_vector((0..12).map(|_| s.signed()).collect());
    let model = KernelExpansion::new(Kernel::gaussian(&[2.0; 9]), wide(&columns), coef, vec![0.0]).unwrap();
    let explainer = Explainer::new(&model, ask(&model, &Game::Functional, Interaction::Moebius)).unwrap();
    let rows = wide(&s.normals(2, 3));
    for count in [1, 4, 9, 35, 36, 37, usize::MAX] {
        let result = against_all(&explainer, (&rows, &explainer.explain(&rows).unwrap()), count, None);
        for strongest in &result.by_game {
            assert_eq!(strongest.pairs.len(), count.min(36));
            assert_eq!(strongest.left_out == 0.0, count >= 36);
            let sorted = strongest
                .pairs
                .windows(2)
                .all(|w| w[0].value.abs() > w[1].value.abs() || w[0].players < w[1].players);
            assert!(sorted && strongest.pairs.iter().all(|pair| pair.players[0] < pair.players[1]));
        }
    }
    // A row that differs from its baseline in one column, or in two.
    let point = rows.select_rows(&[0]);
    let game = Game::Baseline { point: point.clone() };
    let explainer = Explainer::new(&model, ask(&model, &game, Interaction::KSii)).unwrap();
    for differing in 0..3 {
        let mut row = point.row(0);
        (0..differing).for_each(|j| row[4 * j + 1] += 0.7);
        let row = Table::from_rows(&[row]).unwrap();
        let result = against_all(&explainer, (&row, &explainer.explain(&row).unwrap()), 5, None);
        assert_eq!(result.by_game[0].pairs.len(), usize::from(differing == 2));
        assert!(result.by_game[0].left_out <= result.by_game[0].bound);
    }
    // No rows, and an additive model, whose pairs are all 0.
    assert!(explainer.top_interactions(&rows.select_rows(&[]), 5, None).unwrap().by_game.is_empty());
    let sum = (1..9)
        .fold(stationary(Profile::Gaussian, 0, 1.0), |sum, j| sum + stationary(Profile::Matern32, j, 1.0));
    let model = KernelExpansion { kernel: sum, ..model.clone() };
    let explainer = Explainer::new(&model, ask(&model, &Game::Functional, Interaction::KSii)).unwrap();
    let result = against_all(&explainer, (&rows, &explainer.explain(&rows).unwrap()), 5, None);
    assert!(result.by_game.iter().all(|strongest| strongest.pairs.is_empty()
        && strongest.searched == 0
        && strongest.left_out < 1e-10));
}

#[test]
fn threads_stops_and_progress() {
    let mut s = Stream(8);
    let model = large_model(150, 16, |j| 10.0 + j as f64, &mut s);
    let (rows, question) = (s.normals(3, 150), ask(&model, &Game::Functional, Interaction::KSii));
    let run = |threads| {
        with_threads(threads, || {
            Explainer::new(&model, question.clone()).unwrap().top_interactions(&rows, 30, None).unwrap()
        })
    };
    assert_eq!(run(1), run(3));
    let single_explainer = Explainer::new(&model, question.clone()).unwrap();
    let single_row = single_explainer.top_interactions(&rows.select_rows(&[2]), 30, None).unwrap();
    assert_eq!(single_row.by_game[..], run(2).by_game[4..]);
    let progress = Arc::new(Progress::default());
    let explainer = Explainer::new(&model, question.clone()).unwrap().with_progress(progress.clone());
    explainer.top_interactions(&rows, 30, None).unwrap();
    assert_eq!((progress.share(), progress.steps()), (1.0, 600));
    let stop = Arc::new(AtomicBool::new(false));
    let explainer = Explainer::new_with_control(&model, question, stop.clone()).unwrap();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(explainer.top_interactions(&rows, 30, None), Err(Error::Interrupted)));
}

#[test]
fn searches_without_pairs_are_refused() {
    let case = case(4, 12, 1, 1, 3);
    let game = game(&case, "interventional");
    let refusal = |index: &str, count| {
        let question = Question::from(game.clone()).with_index(index.parse().unwrap());
        let explainer = Explainer::new(&case.model, question).unwrap();
        explainer.top_interactions(&case.rows, count, None).unwrap_err().to_string()
    };
    for index in ["shapley", "banzhaf", "k-sii(3)"] {
        assert!(
            refusal(index, 5).contains("sii, k-sii, stii, fsii, bii, fbii or moebius"),
            "{}",
            refusal(index, 5)
        );
    }
    assert!(refusal("k-sii", 0).contains("at least one pair"));
    let explainer = Explainer::observational(&case.model).unwrap();
    assert!(explainer.top_interactions(&case.rows, 5, None).is_err());
    // Only explanations of all pairs are accepted.
    let pair_explainer = Explainer::new(&case.model, ask(&case.model, &game, Interaction::KSii)).unwrap();
    let explanation = pair_explainer.explain(&case.rows).unwrap();
    assert!(
        TopInteractions::from_explanation(&explanation, 2).is_ok()
            && TopInteractions::from_explanation(&explanation.select(&[0], &[0, 5], &[0]), 2).is_err()
    );
}

/// The pairs of a polynomial of several columns are found by listing all pairs.
#[test]
fn polynomial_pairs_are_searched_exhaustively() {
    let mut s = Stream(6);
    let power = Polynomial {
        columns: (0..6).collect(),
        center: vec![0.0; 6],
        scale: vec![1.0; 6],
        gamma: 0.3,
        coef0: 1.0,
        degree: 3,
    };
    let coef = Matrix::column_vector((0..10).map(|_| s.signed()).collect());
    let model = KernelExpansion::new(power.into(), s.normals(10, 6), coef, vec![0.0]).unwrap();
    let game = Game::Interventional { background: s.normals(4, 6).into() };
    for kind in [Interaction::KSii, Interaction::Fsii] {
        let explainer = Explainer::new(&model, ask(&model, &game, kind)).unwrap();
        let rows = s.normals(3, 6);
        let result = against_all(&explainer, (&rows, &explainer.explain(&rows).unwrap()), 4, None);
        assert!(
            result.by_game.iter().all(|strongest| strongest.searched == 15 && strongest.pairs.len() == 4)
        );
    }
}
