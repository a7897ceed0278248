//! Owen values against their definition: means over the orders in which the members of every union come one
//! after the other.

use proptest::prelude::*;
use riesz::{Background, CoalitionStructure, Exactness, Explainer, Game, Question, ValueIndex};

use crate::common::{Stream, value, with_threads};
use crate::exact::{PRODUCT_GAMES, case, game};
use crate::powers;

fn player(j: usize) -> CoalitionStructure {
    CoalitionStructure::Player(format!("x{j}"))
}

/// Unions of some of the players at random, some within others.
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
    // Who is not named stands alone.
    if matches!(parts.last(), Some(CoalitionStructure::Player(_))) && parts.len() > 1 {
        parts.pop();
    }
    parts
}

/// The members of every union.
fn members(union: &CoalitionStructure, all: &mut Vec<Vec<usize>>) -> Vec<usize> {
    match union {
        CoalitionStructure::Player(name) => vec![name[1..].parse().unwrap()],
        CoalitionStructure::Of(parts) => {
            let own: Vec<usize> = parts.iter().flat_map(|part| members(part, all)).collect();
            all.push(own.clone());
            own
        }
    }
}

fn orders(d: usize) -> Vec<Vec<usize>> {
    if d == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(d - 1);
    let with = |order: &Vec<usize>| {
        let put = |at: usize| {
            let mut order = order.clone();
            order.insert(at, d - 1);
            order
        };
        (0..d).map(put).collect::<Vec<_>>()
    };
    shorter.iter().flat_map(with).collect()
}

fn owen(d: usize, unions: &[CoalitionStructure], worth: impl Fn(&[bool]) -> f64) -> Vec<f64> {
    let mut together = Vec::new();
    unions.iter().for_each(|union| drop(members(union, &mut together)));
    let contiguous = |order: &Vec<usize>| {
        together.iter().all(|own| {
            let mut places: Vec<usize> =
                own.iter().map(|j| order.iter().position(|l| l == j).unwrap()).collect();
            places.sort_unstable();
            places.windows(2).all(|w| w[1] == w[0] + 1)
        })
    };
    let kept: Vec<Vec<usize>> = orders(d).into_iter().filter(contiguous).collect();
    let mut sum = vec![0.0; d];
    for order in &kept {
        let mut present = vec![false; d];
        let mut before = worth(&present);
        for &j in order {
            present[j] = true;
            let after = worth(&present);
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
            let found = Explainer::new(&case.model, question).unwrap().explain(&case.rows).unwrap();
            found.validate().unwrap();
            prop_assert_eq!(found.index, ValueIndex::Owen);
            let certificate = found.certificate().unwrap();
            prop_assert!(certificate.holds, "{} {:?}", name, certificate);
            let Exactness::Exact { bound } = &found.exactness else { panic!("not exact") };
            for (g, bound) in bound.iter().enumerate() {
                let x = case.rows.row(g / outputs);
                let worth = |s: &[bool]| value(&case.model, &case.terms, &game, &x, g % outputs, &players, s);
                for (found, truth) in found.row_values(g / outputs, g % outputs).iter().zip(owen(d, &unions, worth)) {
                    prop_assert!((found - truth).abs() <= bound + 1e-11 * truth.abs().max(1.0), "{}: {} {}", name, found, truth);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Of polynomial kernels, beside products, by predictions for all coalitions.
    #[test]
    fn powers_are_shared_out_by_levels(d in 2..6_usize, degree in 1..9_u32, outputs in 1..3_usize, seed: u64) {
        let case = powers::case(d, degree, outputs, seed);
        let unions = unions(d, &mut Stream(seed ^ 77));
        let players: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).collect();
        for name in powers::GAMES {
            let question = Question::from(powers::game(&case, name)).with_unions(unions.clone());
            let found = Explainer::new(&case.model, question).unwrap().explain(&case.rows).unwrap();
            let certificate = found.certificate().unwrap();
            prop_assert!(certificate.holds, "{} {:?}", name, certificate);
            let Exactness::Exact { bound } = &found.exactness else { panic!("not exact") };
            for (g, bound) in bound.iter().enumerate() {
                let x = case.rows.row(g / outputs);
                let worth = |s: &[bool]| powers::worth(&case, name, &x, &players, s)[g % outputs];
                let truth = owen(d, &unions, worth);
                let size: f64 = truth.iter().map(|v| v.abs()).fold(1.0, f64::max);
                for (found, truth) in found.row_values(g / outputs, g % outputs).iter().zip(&truth) {
                    let allowed = bound.min(1e-8 * size) + 1e-11 * size;
                    prop_assert!((found - truth).abs() <= allowed, "{}: {} {} {}", name, found, truth, bound);
                }
            }
        }
    }
}

/// With few players and many background rows, where coalitions are tabulated: the mean of the games against
/// single rows, which are not.
#[test]
fn tables_share_out_by_levels() {
    for (d, unions) in [
        (3, r#"[["x0", "x2"]]"#),
        (6, r#"[["x0", ["x1", "x5"]], ["x2", "x3"]]"#),
        (9, r#"[[["x8", "x1"], ["x5", "x0", "x7"]], "x3"]"#),
    ] {
        let setup = crate::tables::setup(d, 60);
        let unions: Vec<CoalitionStructure> = serde_json::from_str(unions).unwrap();
        let ask = |game: Game| {
            let question = Question::from(game).with_unions(unions.clone());
            Explainer::new(&setup.model, question).unwrap().explain(&setup.rows).unwrap()
        };
        let rows = setup.background.rows.clone();
        let found = ask(Game::Interventional { background: Background::from(rows.clone()) });
        assert!(found.certificate().unwrap().holds);
        let Exactness::Exact { bound } = &found.exactness else { panic!("not exact") };
        let mut mean = vec![0.0; found.values.len()];
        for b in 0..60 {
            let own = ask(Game::Baseline { point: rows.select_rows(&[b]) });
            mean.iter_mut().zip(&own.values).for_each(|(m, v)| *m += v / 60.0);
        }
        for (g, bound) in bound.iter().enumerate() {
            for k in g * d..(g + 1) * d {
                let gap = (found.values[k] - mean[k]).abs();
                assert!(gap <= 2.0 * bound + 1e-14 && gap < 1e-12, "{d} {gap} {bound}");
            }
        }
    }
}

/// Unions of one, and one of all, change nothing; threads neither.
#[test]
fn unions_that_change_nothing() {
    let case = case(6, 300, 1, 2, 5);
    let game = game(&case, "interventional");
    let ask = |unions: &str| {
        let question = Question::from(game.clone()).with_unions(serde_json::from_str(unions).unwrap());
        Explainer::new(&case.model, question).unwrap().explain(&case.rows).unwrap()
    };
    let shapley = Explainer::new(&case.model, game.clone()).unwrap().explain(&case.rows).unwrap();
    for unions in [r#"["x0"]"#, r#"[["x0"], ["x3"]]"#, r#"[["x0", "x1", "x2", "x3", "x4", "x5"]]"#] {
        let found = ask(unions);
        assert!(found.values.iter().zip(&shapley.values).all(|(a, b)| (a - b).abs() < 1e-11), "{unions}");
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
