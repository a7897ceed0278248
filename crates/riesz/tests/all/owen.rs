//! Owen values against their definition: means over the orders in which the members of every union are
//! consecutive.

use proptest::prelude::*;
use riesz::{Background, CoalitionStructure, Exactness, Explainer, Game, Question, ValueIndex};

use crate::common::{Stream, value, with_threads};
use crate::exact::{PRODUCT_GAMES, case, game};
use crate::powers;

fn player(j: usize) -> CoalitionStructure {
    CoalitionStructure::Player(format!("x{j}"))
}

/// Returns random unions of some of the players, some of them nested.
fn unions(d: usize, s: &mut Stream) -> Vec<CoalitionStructure> {
    let mut parts: Vec<CoalitionStructure> = (0..d).map(player).collect();
    for _ in 0..2 {
        let mut next: Vec<CoalitionStructure> = Vec::new();
        for part in parts {
            match next.last_mut() {
                Some(CoalitionStructure::Of(members)) if s.signed() > 0.0 && members.len() < 3 => {
                    members.push(part)
                }
                _ if s.signed() > -0.3 => next.push(CoalitionStructure::Of(vec![part])),
                _ => next.push(part),
            }
        }
        parts = next;
    }
    // Players that are not named are not in a union.
    if matches!(parts.last(), Some(CoalitionStructure::Player(_))) && parts.len() > 1 {
        parts.pop();
    }
    parts
}

/// Collects the members of every union.
fn members(union: &CoalitionStructure, member_lists: &mut Vec<Vec<usize>>) -> Vec<usize> {
    match union {
        CoalitionStructure::Player(name) => vec![name[1..].parse().unwrap()],
        CoalitionStructure::Of(parts) => {
            let union_members: Vec<usize> =
                parts.iter().flat_map(|part| members(part, member_lists)).collect();
            member_lists.push(union_members.clone());
            union_members
        }
    }
}

fn orders(d: usize) -> Vec<Vec<usize>> {
    if d == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(d - 1);
    let with = |order: &Vec<usize>| {
        let put = |position: usize| {
            let mut order = order.clone();
            order.insert(position, d - 1);
            order
        };
        (0..d).map(put).collect::<Vec<_>>()
    };
    shorter.iter().flat_map(with).collect()
}

fn owen(d: usize, unions: &[CoalitionStructure], coalition_value: impl Fn(&[bool]) -> f64) -> Vec<f64> {
    let mut member_lists = Vec::new();
    unions.iter().for_each(|union| drop(members(union, &mut member_lists)));
    let contiguous = |order: &Vec<usize>| {
        member_lists.iter().all(|block| {
            let mut places: Vec<usize> =
                block.iter().map(|j| order.iter().position(|l| l == j).unwrap()).collect();
            places.sort_unstable();
            places.windows(2).all(|w| w[1] == w[0] + 1)
        })
    };
    let kept: Vec<Vec<usize>> = orders(d).into_iter().filter(contiguous).collect();
    let mut sum = vec![0.0; d];
    for order in &kept {
        let mut present = vec![false; d];
        let mut before = coalition_value(&present);
        for &j in order {
            present[j] = true;
            let after = coalition_value(&present);
            sum[j] += (after - before) / kept.len() as f64;
            before = after;
        }
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn values_are_means_over_orders(d in 1..6_usize, terms in 1..3_usize, outputs in 1..3_usize, seed: u64) {
        let case = case(d, 12, outputs, terms, seed);
        let unions = unions(d, &mut Stream(seed ^ 77));
        let players: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).collect();
        for name in PRODUCT_GAMES {
            let game = game(&case, name);
            let question = Question::from(game.clone()).with_unions(unions.clone());
            let explanation = Explainer::new(&case.model, question).unwrap().explain(&case.rows).unwrap();
            explanation.validate().unwrap();
            prop_assert_eq!(explanation.index, ValueIndex::Owen);
            let certificate = explanation.certificate().unwrap();
            prop_assert!(certificate.holds, "{} {:?}", name, certificate);
            let Exactness::Exact { bound } = &explanation.exactness else { panic!("not exact") };
            for (g, bound) in bound.iter().enumerate() {
                let x = case.rows.row(g / outputs);
                let coalition_value = |s: &[bool]| value(&case.model, &case.terms, &game, &x, g % outputs, &players, s);
                for (actual, truth) in explanation.row_values(g / outputs, g % outputs).iter().zip(owen(d, &unions, coalition_value)) {
                    prop_assert!((actual - truth).abs() <= bound + 1e-11 * truth.abs().max(1.0), "{}: {} {}", name, actual, truth);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Owen values of polynomial kernels, also combined with product kernels, against predictions for all
    /// coalitions.
    #[test]
    fn polynomial_owen_values_match_their_definition(d in 2..6_usize, degree in 1..9_u32, outputs in 1..3_usize, seed: u64) {
        let case = powers::case(d, degree, outputs, seed);
        let unions = unions(d, &mut Stream(seed ^ 77));
        let players: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).collect();
        for name in powers::GAMES {
            let question = Question::from(powers::game(&case, name)).with_unions(unions.clone());
            let explanation = Explainer::new(&case.model, question).unwrap().explain(&case.rows).unwrap();
            let certificate = explanation.certificate().unwrap();
            prop_assert!(certificate.holds, "{} {:?}", name, certificate);
            let Exactness::Exact { bound } = &explanation.exactness else { panic!("not exact") };
            for (g, bound) in bound.iter().enumerate() {
                let x = case.rows.row(g / outputs);
                let coalition_value = |s: &[bool]| powers::coalition_values(&case, name, &x, &players, s)[g % outputs];
                let truth = owen(d, &unions, coalition_value);
                let size: f64 = truth.iter().map(|v| v.abs()).fold(1.0, f64::max);
                for (actual, truth) in explanation.row_values(g / outputs, g % outputs).iter().zip(&truth) {
                    let allowed = bound.min(1e-8 * size) + 1e-11 * size;
                    prop_assert!((actual - truth).abs() <= allowed, "{}: {} {} \
                                                                     {}", name, actual, truth, bound);
                }
            }
        }
    }
}

/// Tabulated coalitions (few players, many background rows) have the mean of the values against single
/// background rows.
#[test]
fn tabulated_owen_values_are_means_over_rows() {
    for (d, unions) in [
        (3, r#"[["x0", "x2"]]"#),
        (6, r#"[["x0", ["x1", "x5"]], ["x2", "x3"]]"#),
        (9, r#"[[["x8", "x1"], ["x5", "x0", "x7"]], "x3"]"#),
    ] {
        let setup = crate::coalition_tables::setup(d, 60);
        let unions: Vec<CoalitionStructure> = serde_json::from_str(unions).unwrap();
        let ask = |game: Game| {
            let question = Question::from(game).with_unions(unions.clone());
            Explainer::new(&setup.model, question).unwrap().explain(&setup.rows).unwrap()
        };
        let rows = setup.background.rows.clone();
        let explanation = ask(Game::Interventional { background: Background::from(rows.clone()) });
        assert!(explanation.certificate().unwrap().holds);
        let Exactness::Exact { bound } = &explanation.exactness else { panic!("not exact") };
        let mut mean = vec![0.0; explanation.values.len()];
        for b in 0..60 {
            let baseline = ask(Game::Baseline { point: rows.select_rows(&[b]) });
            mean.iter_mut().zip(&baseline.values).for_each(|(m, v)| *m += v / 60.0);
        }
        for (g, bound) in bound.iter().enumerate() {
            for k in g * d..(g + 1) * d {
                let gap = (explanation.values[k] - mean[k]).abs();
                assert!(gap <= 2.0 * bound + 1e-14 && gap < 1e-12, "{d} {gap} {bound}");
            }
        }
    }
}

/// Unions of a single player, one union of all players, and the number of threads do not change the values.
#[test]
fn trivial_unions_and_threads_change_nothing() {
    let case = case(6, 300, 1, 2, 5);
    let game = game(&case, "interventional");
    let ask = |unions: &str| {
        let question = Question::from(game.clone()).with_unions(serde_json::from_str(unions).unwrap());
        Explainer::new(&case.model, question).unwrap().explain(&case.rows).unwrap()
    };
    let shapley = Explainer::new(&case.model, game.clone()).unwrap().explain(&case.rows).unwrap();
    for unions in [r#"["x0"]"#, r#"[["x0"], ["x3"]]"#, r#"[["x0", "x1", "x2", "x3", "x4", "x5"]]"#] {
        let explanation = ask(unions);
        assert!(
            explanation.values.iter().zip(&shapley.values).all(|(a, b)| (a - b).abs() < 1e-11),
            "{unions}"
        );
    }
    let unions = r#"[["x0", ["x1", "x5"]], ["x2", "x3"]]"#;
    assert_eq!(with_threads(1, || ask(unions)).values, with_threads(3, || ask(unions)).values);
}

#[test]
fn what_has_no_owen_values_is_refused() {
    let case = case(3, 10, 1, 1, 3);
    let ask = |unions: &str| {
        let question = Question::from(Game::Functional).with_unions(serde_json::from_str(unions).unwrap());
        Explainer::new(&case.model, question).err().unwrap().to_string()
    };
    assert!(ask(r#"[["x0", "x9"]]"#).contains("'x9'") && ask(r#"[["x0", "x0"]]"#).contains("one union"));
    assert!(ask("[]").contains("it takes unions"));
}
