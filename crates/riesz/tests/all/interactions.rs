//! Interaction indices against their published formulas in the Möbius transform, from all coalitions.

use proptest::prelude::*;
use riesz::index::Interaction;
use riesz::kernel::{Linear, Profile};
use riesz::{
    Exactness, Explainer, Explanation, Game, Kernel, KernelExpansion, Matrix, Players, Question, Table,
    ValueIndex,
};

use crate::common::{Stream, stationary, value, with_threads};
use crate::exact::{Case, PRODUCT_GAMES, case, game};

pub const KINDS: [Interaction; 7] = [
    Interaction::Sii,
    Interaction::KSii,
    Interaction::Stii,
    Interaction::Fsii,
    Interaction::Bii,
    Interaction::Fbii,
    Interaction::Moebius,
];

/// Bernoulli numbers.
const BERNOULLI: [f64; 8] = [1.0, -0.5, 1.0 / 6.0, 0.0, -1.0 / 30.0, 0.0, 1.0 / 42.0, 0.0];

fn binomial(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n as f64 - i as f64) / (i as f64 + 1.0)).product()
}

/// Returns the weight of m(S), s = |S|, in the index of a subset of `size` players of S.
pub fn weight(kind: Interaction, order: usize, size: usize, s: usize) -> f64 {
    let sign = if (order - size) % 2 == 1 { -1.0 } else { 1.0 };
    match kind {
        Interaction::Sii => 1.0 / (s - size + 1) as f64,
        // The sum over larger sets with r additional players, up to the order.
        Interaction::KSii => {
            let term =
                |r: usize| BERNOULLI[r] * binomial(s - size, r) / (s as f64 - size as f64 - r as f64 + 1.0);
            (0..=(order - size).min(s - size)).map(term).sum()
        }
        Interaction::Stii if size == order => 1.0 / binomial(s, order),
        // Tsai, Yeh and Ravikumar 2023, theorems 17 and 19.
        Interaction::Fsii if s > order => {
            sign * size as f64 / (order + size) as f64 * binomial(order, size) * binomial(s - 1, order)
                / binomial(s + order - 1, order + size)
        }
        Interaction::Fbii if s > order => {
            sign * 0.5_f64.powi((s - size) as i32) * binomial(s - size - 1, order - size)
        }
        Interaction::Bii => 0.5_f64.powi((s - size) as i32),
        _ => f64::from(u8::from(s == size)),
    }
}

pub fn index(kind: Interaction, order: usize) -> ValueIndex {
    ValueIndex::Interaction { kind, order }
}

fn explain(case: &Case, game: &Game, index: ValueIndex) -> Explanation {
    let question = Question::from(game.clone()).with_index(index);
    let explanation = Explainer::new(&case.model, question).unwrap().explain(&case.rows).unwrap();
    explanation.validate().unwrap();
    explanation
}

fn bound(explanation: &Explanation) -> &[f64] {
    let Exactness::Exact { bound } = &explanation.exactness else { panic!("not exact") };
    bound
}

/// Returns the dividends m(S), indexed by the bits of S.
pub fn moebius(d: usize, coalition_value: impl Fn(&[bool]) -> f64) -> Vec<f64> {
    let mut m: Vec<f64> = (0..1_usize << d)
        .map(|mask| coalition_value(&(0..d).map(|j| mask >> j & 1 == 1).collect::<Vec<_>>()))
        .collect();
    for j in 0..d {
        for mask in (0..1_usize << d).filter(|mask| mask >> j & 1 == 1) {
            m[mask] -= m[mask ^ 1 << j];
        }
    }
    m
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn indices_are_their_definition(
        d in 1..7_usize,
        (terms, outputs) in (1..3_usize, 1..3_usize),
        seed: u64,
        kind in prop::sample::select(&KINDS[..]),
        order in prop::sample::select(&[2_usize, 2, 3, 4, 6, 8][..]),
    ) {
        let case = case(d, 12, outputs, terms, seed);
        let players: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).collect();
        for name in PRODUCT_GAMES {
            let game = game(&case, name);
            let explanation = explain(&case, &game, index(kind, order));
            let sets = explanation.subsets.as_ref().unwrap();
            prop_assert_eq!(Some(sets.len()), explanation.index.sets(d));
            prop_assert!(explanation.is_complete() && sets.iter().all(|set| set.len() <= order));
            if let Some(certificate) = explanation.certificate() {
                prop_assert!(certificate.holds, "{:?} {}: {:?}", kind, name, certificate);
            }
            prop_assert_eq!(explanation.certificate().is_some(), matches!(kind, Interaction::KSii | Interaction::Stii | Interaction::Fsii));
            for (g, bound) in bound(&explanation).iter().enumerate() {
                let (i, o) = (g / outputs, g % outputs);
                let x = case.rows.row(i);
                let m = moebius(d, |s| value(&case.model, &case.terms, &game, &x, o, &players, s));
                let size: f64 = m.iter().map(|v| v.abs()).sum();
                for (set, actual) in sets.iter().zip(explanation.row_values(i, o)) {
                    let members: usize = set.iter().map(|j| 1 << j).sum();
                    let supersets = (0..1_usize << d).filter(|mask| mask & members == members);
                    let truth: f64 =
                        supersets.map(|mask| weight(kind, order, set.len(), mask.count_ones() as usize) * m[mask]).sum();
                    // The oracle's sums have cancellation errors.
                    let gap = (actual - truth).abs();
                    let case = format!("{kind:?} {order} {name} {set:?}");
                    prop_assert!(gap <= bound + 1e-12 * (1.0 + size), "{case}: {actual} {truth} {bound}");
                }
            }
        }
    }
}

/// Columns with additive terms interact with nothing, and two columns in a product only with each other.
#[test]
fn columns_without_joint_terms_do_not_interact() {
    let mut s = Stream(5);
    let factor = |j| stationary(Profile::Matern32, j, 1.0);
    let kernel = factor(0) + factor(1) * factor(2) + 0.5 * factor(3);
    let points = s.normals(30, 4);
    let coef = Matrix::column_vector((0..30).map(|_| s.signed()).collect());
    let model = KernelExpansion::new(kernel, points, coef, vec![1.0]).unwrap();
    let (rows, background) = (s.normals(4, 4), s.normals(6, 4));
    let game = Game::Interventional { background: background.into() };
    for kind in KINDS {
        let question = Question::from(game.clone()).with_index(index(kind, 2));
        let explanation = Explainer::new(&model, question).unwrap().explain(&rows).unwrap();
        for (k, set) in
            explanation.subsets.as_ref().unwrap().iter().enumerate().filter(|(_, set)| set.len() == 2)
        {
            let values = (0..4).map(|i| explanation.row_values(i, 0)[k].abs());
            let largest = values.fold(0.0, f64::max);
            assert_eq!(largest > 1e-3, set[..] == [1, 2], "{kind:?} {set:?} {largest}");
        }
    }
}

/// A group is one player in pairs too, and the number of threads does not matter.
#[test]
fn groups_and_threads() {
    let case = case(5, 40, 1, 2, 9);
    let names: Vec<String> = case.model.columns().iter().map(|c| c.name.clone()).collect();
    let groups = Players::named(
        case.model.columns(),
        &[("both".to_string(), vec![names[1].clone(), names[3].clone()])],
    )
    .unwrap();
    let game = game(&case, "interventional");
    let question = Question::from(game).with_players(Some(groups)).with_index(index(Interaction::KSii, 2));
    let run = |threads| {
        with_threads(threads, || {
            Explainer::new(&case.model, question.clone()).unwrap().explain(&case.rows).unwrap()
        })
    };
    let (serial, four) = (run(1), run(4));
    assert_eq!(serial.values, four.values);
    assert_eq!(serial.sets(), 4 + 6);
    assert!(serial.certificate().unwrap().holds);
}

/// For pairs of many players, bounds and certificates hold, and Möbius values equal the definition.
#[test]
fn pairs_of_many_players() {
    let (mut s, d) = (Stream(3), 60);
    let points = s.normals(50, d);
    let coef = Matrix::column_vector((0..50).map(|_| s.signed()).collect());
    let model = KernelExpansion::new(Kernel::gaussian(&vec![8.0; d]), points, coef, vec![0.0]).unwrap();
    let rows = s.normals(2, d);
    let explained = |kind| {
        let question = Question::from(Game::Functional).with_index(index(kind, 2));
        Explainer::new(&model, question).unwrap().explain(&rows).unwrap()
    };
    // Möbius values do not depend on the other players, so that these may be grouped.
    for kind in KINDS {
        let explanation = explained(kind);
        assert_eq!(explanation.sets(), d + d * (d - 1) / 2);
        assert!(bound(&explanation).iter().all(|b| *b < 1e-8), "{kind:?} {:?}", bound(&explanation));
        if let Some(certificate) = explanation.certificate() {
            assert!(certificate.holds && certificate.residual < 1e-10, "{kind:?} {certificate:?}");
        }
    }
    let explanation = explained(Interaction::Moebius);
    let factor = |i: usize, r: usize, j: usize| {
        (-(model.support_points.get(i, j) - rows.get(r, j)).powi(2) / 128.0).exp_m1()
    };
    for r in 0..2 {
        for (k, set) in explanation.subsets.as_ref().unwrap().iter().enumerate() {
            if set.iter().any(|&j| j > 2) {
                continue;
            }
            let truth: f64 = (0..50)
                .map(|i| model.coef[(i, 0)] * set.iter().map(|&j| factor(i, r, j)).product::<f64>())
                .sum();
            assert!((explanation.row_values(r, 0)[k] - truth).abs() <= bound(&explanation)[r], "{set:?}");
        }
    }
}

/// Rounding errors of means over many equal background rows stay within the bound, for a pair with an integer
/// value.
#[test]
fn many_background_rows_are_within_the_bound() {
    let linear = |j| -> Kernel { Linear { columns: vec![j], center: vec![0.0], scale: vec![1.0] }.into() };
    let points = Table::from_rows(&[[1.0, 1.0]]).unwrap();
    let model =
        KernelExpansion::new(linear(0) * linear(1), points, Matrix::column_vector(vec![1.0]), vec![0.0]);
    let (model, n) = (model.unwrap(), 100_000);
    let background = Table::from_rows(&vec![[-1.0, -1.0]; n]).unwrap();
    let row = Table::from_rows(&[[1.0, 1.0]]).unwrap();
    for kind in KINDS {
        let game = Game::Interventional { background: background.clone().into() };
        let question = Question::from(game).with_index(index(kind, 2));
        let explanation = Explainer::new(&model, question).unwrap().explain(&row).unwrap();
        let error = (explanation.values[2] - 4.0).abs();
        assert!(error <= bound(&explanation)[0], "{kind:?}: {error} {}", bound(&explanation)[0]);
    }
}

/// Explanations of single rows equal those of all rows, which are computed in blocks.
#[test]
fn single_rows_are_explained_as_all_rows() {
    let case = case(4, 30, 2, 2, 21);
    let game = game(&case, "baseline");
    let fsii = index(Interaction::Fsii, 3);
    let all_rows = explain(&case, &game, fsii);
    for i in 0..case.rows.rows() {
        let question = Question::from(game.clone()).with_index(fsii);
        let row: Table = case.rows.select_rows(&[i]);
        let single_row = Explainer::new(&case.model, question).unwrap().explain(&row).unwrap();
        for o in 0..2 {
            assert_eq!(single_row.row_values(0, o), all_rows.row_values(i, o));
        }
    }
}

/// Triples of many players: dividends of three do not depend on the other players, and shares of three add
/// up.
#[test]
fn triples_of_many_players() {
    let (mut s, d) = (Stream(4), 30);
    let points = s.normals(70, d);
    let coef = Matrix::column_vector((0..70).map(|_| s.signed()).collect());
    let model = KernelExpansion::new(Kernel::gaussian(&vec![5.0; d]), points, coef, vec![0.5]).unwrap();
    let (rows, background) = (s.normals(2, d), s.normals(3, d));
    for game in [Game::Functional, Game::Interventional { background: background.into() }] {
        for kind in KINDS {
            let question = Question::from(game.clone()).with_index(index(kind, 3));
            let explanation = Explainer::new(&model, question).unwrap().explain(&rows).unwrap();
            assert_eq!(explanation.sets(), 30 + 435 + 4060);
            assert!(bound(&explanation).iter().all(|b| *b < 1e-9), "{kind:?} {:?}", bound(&explanation));
            if let Some(certificate) = explanation.certificate() {
                assert!(certificate.holds, "{kind:?} {certificate:?}");
            }
            if kind != Interaction::Moebius || !matches!(game, Game::Functional) {
                continue;
            }
            let factor = |i: usize, r: usize, j: usize| {
                (-(model.support_points.get(i, j) - rows.get(r, j)).powi(2) / 50.0).exp_m1()
            };
            for (r, bound) in bound(&explanation).iter().enumerate() {
                for (k, set) in explanation.subsets.as_ref().unwrap().iter().enumerate().step_by(17) {
                    let summand =
                        |i: usize| model.coef[(i, 0)] * set.iter().map(|&j| factor(i, r, j)).product::<f64>();
                    let truth: f64 = (0..70).map(summand).sum();
                    assert!((explanation.row_values(r, 0)[k] - truth).abs() <= *bound, "{set:?}");
                }
            }
        }
    }
}

/// Vanishing factors, and products beyond the range of doubles, for which division fails, against the
/// definition.
#[test]
fn vanishing_and_extreme_factors_are_handled() {
    let factor = |j| -> Kernel { Linear { columns: vec![j], center: vec![0.0], scale: vec![1.0] }.into() };
    let d = 6;
    let kernel = (1..d).fold(factor(0), |product, j| product * factor(j));
    for (size, scale) in [(1.0, 1.0), (1e-60, 1e200), (1e45, 1e-300)] {
        // The kernel consists of products of columns, and the point is scaled.
        let point = |v: [f64; 6]| Table::from_rows(&[v.map(|v| v * size)]).unwrap();
        let model = KernelExpansion::new(
            kernel.clone(),
            Table::from_rows(&[[1.0; 6]]).unwrap(),
            Matrix::column_vector(vec![scale]),
            vec![0.0],
        )
        .unwrap();
        let (x, b) = ([2.0, -1.0, 0.0, 3.0, 0.5, -2.0], [1.0, 1.0, 0.0, -3.0, 0.5, 2.0]);
        for mended in [false, true] {
            let (mut x, mut b) = (x, b);
            if mended {
                (x[2], b[2]) = (1.0, -1.0);
            }
            let game = Game::Baseline { point: point(b) };
            for kind in KINDS {
                for order in [2, 3, 4] {
                    let question = Question::from(game.clone()).with_index(index(kind, order));
                    let explanation = Explainer::new(&model, question).unwrap().explain(&point(x));
                    let Ok(explanation) = explanation else {
                        panic!("{kind:?} {size}");
                    };
                    let magnitude = size.powi(3) * scale * size.powi(3);
                    let m = moebius(d, |s| (0..d).map(|j| if s[j] { x[j] } else { b[j] }).product());
                    for (set, actual) in
                        explanation.subsets.as_ref().unwrap().iter().zip(explanation.row_values(0, 0))
                    {
                        let members: usize = set.iter().map(|j| 1 << j).sum();
                        let supersets = (0..1_usize << d).filter(|mask| mask & members == members);
                        let truth: f64 = supersets
                            .map(|mask| weight(kind, order, set.len(), mask.count_ones() as usize) * m[mask])
                            .sum();
                        let gap = (actual / magnitude - truth).abs();
                        assert!(
                            gap < 1e-11,
                            "{kind:?} {order} {set:?} {size}: {} {truth}",
                            actual / magnitude
                        );
                    }
                }
            }
        }
    }
}
