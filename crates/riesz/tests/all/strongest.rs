//! The strongest pairs against the values of all, and against integrals over factors that are evaluated one
//! by one.

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

/// Checks what was found of one row and output against all values, each of which is off by `off` at most:
/// `complete` says that the search was given no limit.
fn check(found: &Strongest, all: &[Pair], off: f64, count: usize, complete: bool) {
    let value =
        |players: [usize; 2]| all.iter().find(|pair| pair.players == players).map_or(0.0, |pair| pair.value);
    assert!(found.pairs.len() <= count);
    for pair in &found.pairs {
        let truth = value(pair.players);
        assert!((pair.value - truth).abs() <= found.bound + off, "{pair:?} {truth} {} {off}", found.bound);
    }
    assert!(found.pairs.is_sorted_by(|a, b| a.value.abs() >= b.value.abs()));
    let listed: Vec<[usize; 2]> = found.pairs.iter().map(|pair| pair.players).collect();
    for pair in all.iter().filter(|pair| !listed.contains(&pair.players)) {
        assert!(pair.value.abs() <= found.left_out + off, "{pair:?} {}", found.left_out);
        if complete {
            let least = if listed.len() < count { 0.0 } else { found.pairs[count - 1].value.abs() };
            assert!(pair.value.abs() <= least + 2.0 * found.bound + off, "{pair:?} {least}");
        }
    }
    assert!(!complete || found.is_complete());
}

fn pairs_of(explanation: &Explanation, i: usize, o: usize) -> Vec<Pair> {
    let sets = explanation.subsets.as_ref().unwrap().iter().zip(explanation.row_values(i, o));
    let pair = |(set, value): (&Vec<usize>, &f64)| match set[..] {
        [j, l] => Some(Pair { players: [j, l], value: *value }),
        _ => None,
    };
    sets.filter_map(pair).collect()
}

/// Against the values of all pairs of the same rows.
fn against_all(
    explainer: &Explainer<'_>,
    (rows, all): (&Table, &Explanation),
    count: usize,
    limit: Option<usize>,
) -> TopInteractions {
    let found = explainer.top_interactions(rows, count, limit).unwrap();
    let Exactness::Exact { bound } = &all.exactness else { panic!("not exact") };
    for (g, off) in bound.iter().enumerate() {
        let (i, o) = (g / all.outputs(), g % all.outputs());
        check(found.of_row(i, o), &pairs_of(all, i, o), *off, count, limit.is_none());
    }
    found
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
            let all = explainer.explain(&case.rows).unwrap();
            let found = against_all(&explainer, (&case.rows, &all), count, limit);
            prop_assert!(found.found.iter().all(|own| own.searched <= limit.unwrap_or(usize::MAX)));
        }
    }
}

/// Terms of many players, more pairs than one round takes.
fn many(d: usize, n: usize, lengthscale: impl Fn(usize) -> f64, s: &mut Stream) -> KernelExpansion {
    let lengthscales: Vec<f64> = (0..d).map(lengthscale).collect();
    let first = Kernel::gaussian(&lengthscales);
    let second = (0..d / 2).fold(Kernel::constant(0.5), |product, j| {
        product * stationary(Profile::Matern52, 2 * j, 3.0 * lengthscales[j])
    });
    // Factors of either sign, some of them 0.
    let linear = |j| Linear { columns: vec![j], center: vec![0.0], scale: vec![2.0] };
    let third = (2..40).fold(Kernel::from(linear(0)) * Kernel::from(linear(1)), |product, j| {
        product * stationary(Profile::Gaussian, j, 3.0 * lengthscales[j])
    });
    let coef = Matrix::from_row_major(n, 2, (0..2 * n).map(|_| s.signed()).collect());
    KernelExpansion::new(first + second + third, s.normals(n, d), coef, vec![0.2, 0.1]).unwrap()
}

#[test]
fn searches_of_many_players_end_where_they_should() {
    let mut s = Stream(11);
    let relevant = |j: usize| 4.0 * 1.03_f64.powi(j as i32);
    for (equal, kind) in [
        (false, Interaction::KSii),
        (true, Interaction::Fsii),
        (false, Interaction::Stii),
        (true, Interaction::Bii),
    ] {
        let model = many(180, 24, |j| if equal { 30.0 } else { relevant(j) }, &mut s);
        let (rows, background) = (s.normals(2, 180), s.normals(3, 180));
        for game in [Game::Functional, Game::Interventional { background: background.into() }] {
            let explainer = Explainer::new(&model, ask(&model, &game, kind)).unwrap();
            let (every, all) = (explainer.explain(&rows).unwrap(), 180 * 179 / 2);
            for (count, limit) in [(10, None), (3000, None), (20_000, None), (10, Some(50)), (10, Some(6000))]
            {
                let found = against_all(&explainer, (&rows, &every), count, limit);
                for own in &found.found {
                    assert!(own.searched <= limit.unwrap_or(all));
                    assert!(
                        equal || limit.is_some() || count > 10 || own.searched < all / 2,
                        "{}",
                        own.searched
                    );
                    assert!(own.bound < 1e-9 && (count < all || own.left_out <= 2.0 * own.bound));
                }
            }
        }
    }
}

/// `∫ ρ(t) Σ c Π_{l≠j,k} ((1-t) b_l + t a_l) (a_j - b_j)(a_k - b_k) dt` by Simpson's rule, from tables of
/// these players' factors.
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
            let all: f64 = coef * weight * f.iter().product::<f64>();
            let ratio: Vec<f64> = (0..a.len()).map(|l| (a[l] - b[l]) / f[l]).collect();
            for (j, own) in ratio.iter().enumerate().filter(|(_, own)| **own != 0.0) {
                for l in j + 1..players.len() {
                    sums[j * players.len() + l] += all * own * ratio[l];
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

/// Ten thousand players, of whom a row has a few: pairs that have values, and none that a list of all could
/// hold.
#[test]
fn sparse_rows_of_ten_thousand_players() {
    let (d, n, filled) = (10_000, 12, 12);
    let mut s = Stream(21);
    let mut sparse = |rows: usize| -> Table {
        let row = |s: &mut Stream| {
            let mut row = vec![0.0; d];
            (0..filled).for_each(|_| row[(s.uniform() * d as f64) as usize] = s.normal());
            // Some columns are often filled.
            (0..6).for_each(|j| row[17 * j] = s.normal());
            row
        };
        Table::from_rows(&(0..rows).map(|_| row(&mut s)).collect::<Vec<_>>()).unwrap()
    };
    let (points, rows, background) = (sparse(n), sparse(2), sparse(2));
    let coef: Vec<f64> = (0..n).map(|i| ((7 * i) % 5) as f64 - 1.8).collect();
    let lengthscale = 1.3;
    let kernel = Kernel::gaussian(&vec![lengthscale; d]);
    let model =
        KernelExpansion::new(kernel, points.clone(), Matrix::column_vector(coef.clone()), vec![0.0]).unwrap();
    let factor = |u: f64, v: f64| (-0.5 * ((u - v) / lengthscale).powi(2)).exp();
    for kind in KINDS {
        for game in [Game::Functional, Game::Interventional { background: background.clone().into() }] {
            let explainer = Explainer::new(&model, ask(&model, &game, kind)).unwrap();
            let count = 25;
            let found = explainer.top_interactions(&rows, count, None).unwrap();
            let refused = explainer.explain(&rows).unwrap_err().to_string();
            assert!(refused.contains("ask for the strongest alone"), "{refused}");
            for (i, own) in found.found.iter().enumerate() {
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
                // What both sides share is a coefficient.
                for (coef, a, b) in &mut samples {
                    let shared = (0..d).filter(|j| players.binary_search(j).is_err());
                    *coef *= shared.map(|j| a[j]).product::<f64>();
                    (*a, *b) =
                        (players.iter().map(|&j| a[j]).collect(), players.iter().map(|&j| b[j]).collect());
                }
                let all = integrals(&samples, &players, kind);
                check(own, &all, 1e-9, count, true);
                assert!(own.pairs.len() == count && own.bound < 1e-7 && own.left_out > 1e-5, "{own:?}");
            }
        }
    }
}

/// Equal columns: their pairs are as large as each other, and come by their players.
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
        let found = against_all(&explainer, (&rows, &explainer.explain(&rows).unwrap()), count, None);
        for own in &found.found {
            assert_eq!(own.pairs.len(), count.min(36));
            assert_eq!(own.left_out == 0.0, count >= 36);
            let sorted = own
                .pairs
                .windows(2)
                .all(|w| w[0].value.abs() > w[1].value.abs() || w[0].players < w[1].players);
            assert!(sorted && own.pairs.iter().all(|pair| pair.players[0] < pair.players[1]));
        }
    }
    // A row that is its own baseline but for one column, or for two.
    let point = rows.select_rows(&[0]);
    let game = Game::Baseline { point: point.clone() };
    let explainer = Explainer::new(&model, ask(&model, &game, Interaction::KSii)).unwrap();
    for differing in 0..3 {
        let mut row = point.row(0);
        (0..differing).for_each(|j| row[4 * j + 1] += 0.7);
        let row = Table::from_rows(&[row]).unwrap();
        let found = against_all(&explainer, (&row, &explainer.explain(&row).unwrap()), 5, None);
        assert_eq!(found.found[0].pairs.len(), usize::from(differing == 2));
        assert!(found.found[0].left_out <= found.found[0].bound);
    }
    // Nothing to explain, and an additive model, whose pairs are all 0.
    assert!(explainer.top_interactions(&rows.select_rows(&[]), 5, None).unwrap().found.is_empty());
    let sum = (1..9)
        .fold(stationary(Profile::Gaussian, 0, 1.0), |sum, j| sum + stationary(Profile::Matern32, j, 1.0));
    let model = KernelExpansion { kernel: sum, ..model.clone() };
    let explainer = Explainer::new(&model, ask(&model, &Game::Functional, Interaction::KSii)).unwrap();
    let found = against_all(&explainer, (&rows, &explainer.explain(&rows).unwrap()), 5, None);
    assert!(found.found.iter().all(|own| own.pairs.is_empty() && own.searched == 0 && own.left_out < 1e-10));
}

#[test]
fn threads_stops_and_progress() {
    let mut s = Stream(8);
    let model = many(150, 16, |j| 10.0 + j as f64, &mut s);
    let (rows, question) = (s.normals(3, 150), ask(&model, &Game::Functional, Interaction::KSii));
    let run = |threads| {
        with_threads(threads, || {
            Explainer::new(&model, question.clone()).unwrap().top_interactions(&rows, 30, None).unwrap()
        })
    };
    assert_eq!(run(1), run(3));
    let alone = Explainer::new(&model, question.clone()).unwrap();
    let alone = alone.top_interactions(&rows.select_rows(&[2]), 30, None).unwrap();
    assert_eq!(alone.found[..], run(2).found[4..]);
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
fn what_has_no_strongest_pairs_is_told() {
    let case = case(4, 12, 1, 1, 3);
    let game = game(&case, "interventional");
    let told = |index: &str, count| {
        let question = Question::from(game.clone()).with_index(index.parse().unwrap());
        let explainer = Explainer::new(&case.model, question).unwrap();
        explainer.top_interactions(&case.rows, count, None).unwrap_err().to_string()
    };
    for index in ["shapley", "banzhaf", "k-sii(3)"] {
        assert!(
            told(index, 5).contains("sii, k-sii, stii, fsii, bii, fbii or moebius"),
            "{}",
            told(index, 5)
        );
    }
    assert!(told("k-sii", 0).contains("at least one pair"));
    let explainer = Explainer::observational(&case.model).unwrap();
    assert!(explainer.top_interactions(&case.rows, 5, None).is_err());
    // Of explanations, only those of all pairs.
    let all = Explainer::new(&case.model, ask(&case.model, &game, Interaction::KSii)).unwrap();
    let all = all.explain(&case.rows).unwrap();
    assert!(
        TopInteractions::of(&all, 2).is_ok()
            && TopInteractions::of(&all.select(&[0], &[0, 5], &[0]), 2).is_err()
    );
}

/// A polynomial of several columns, whose pairs are found among all.
#[test]
fn powers_list_theirs() {
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
        let found = against_all(&explainer, (&rows, &explainer.explain(&rows).unwrap()), 4, None);
        assert!(found.found.iter().all(|own| own.searched == 15 && own.pairs.len() == 4));
    }
}
