//! Sequential adjustment against enumeration of all sequences of covariate sets, and its g-formula against
//! the truncated factorisation of random models of binary variables.

use std::collections::BTreeMap;

use riesz::causal::{Graph, SequentialStep, sequential_adjustment};

use crate::causal_graph::{Net, Set, draw, name, names, number, subsets};
use crate::causal_sets::some_effect;
use crate::causal_simulations::{conditional, joint, mask, share, states, tables};
use crate::common::Stream;

/// Returns all orders of some numbers.
fn orders(items: &Set) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![vec![]];
    }
    let mut permutations = Vec::new();
    for &first in items {
        let remaining: Set = items.iter().copied().filter(|&v| v != first).collect();
        permutations.extend(orders(&remaining).into_iter().map(|order| [vec![first], order].concat()));
    }
    permutations
}

/// Whether the treatments `order[k..]` have admissible sets given the variables `conditioning`, by testing
/// all sets.
fn has_sequence(net: &Net, order: &[usize], k: usize, y: usize, measured: &Set, conditioning: &Set) -> bool {
    let Some(&x) = order.get(k) else { return true };
    let (current, later): (Set, Set) = ([x].into(), order[k + 1..].iter().copied().collect());
    let backdoor_net = net.without_arrows(&later, &current);
    let excluded = &(&net.descendants(&(&current | &later)) | conditioning) | &[y].into();
    subsets(&(measured - &excluded)).into_iter().any(|z| {
        let adjusted = &z | conditioning;
        backdoor_net.separated(&current, &[y].into(), &adjusted)
            && has_sequence(net, order, k + 1, y, measured, &(&adjusted | &current))
    })
}

/// Returns the value of the g-formula of some steps at the treatments' values in `dose`.
pub fn g_formula(steps: &[SequentialStep], observed: &[f64], dose: usize, y: usize) -> f64 {
    let covariates = steps.iter().fold(0, |bits, step| bits | mask(&step.adjust));
    let treatments = steps.iter().fold(0, |bits, step| bits | mask(std::slice::from_ref(&step.treatment)));
    let (x, t) = (dose & treatments, 1 << y);
    let term = |z: usize| {
        let state = x | z | t;
        let mut weight = conditional(observed, t, treatments | covariates, state);
        let mut history = 0;
        for step in steps {
            weight *= conditional(observed, mask(&step.adjust), history, state);
            history |= mask(&step.adjust) | mask(std::slice::from_ref(&step.treatment));
        }
        weight
    };
    states(covariates).into_iter().map(term).sum()
}

#[test]
fn sequences_exist_where_enumeration_finds_one_and_give_the_effect() {
    let mut s = Stream(39);
    // Counts: not identified; identified; identified with covariates after the first treatment; no effect.
    let mut counts = [0; 4];
    for round in 0..3000 {
        let net = Net::random(&mut s, 5 + round % 2, 0.45, round % 4);
        let (first, y) = some_effect(&net, &mut s);
        let candidates: Set = (0..net.variables).filter(|&v| v != y).collect();
        let causes: Set =
            candidates.iter().copied().filter(|&v| net.descendants(&[v].into()).contains(&y)).collect();
        let mut x: Set = &draw(&mut s, &causes, 0.4) | &[first].into();
        x.extend(draw(&mut s, &candidates, 0.1));
        let measured = &(&draw(&mut s, &candidates, 0.85) | &x) | &[y].into();
        let graph = net.graph();
        let sequence = sequential_adjustment(&graph, &names(&x), &name(y), &names(&measured)).unwrap();
        let intervened = net.without_arrows(&x, &Set::new());
        let effective_treatments: Set =
            x.iter().copied().filter(|&v| intervened.descendants(&[v].into()).contains(&y)).collect();
        let is_causal_order = |order: &Vec<usize>| {
            (0..order.len()).all(|k| {
                net.descendants(&[order[k]].into()).is_disjoint(&order[..k].iter().copied().collect())
            })
        };
        let exists = orders(&effective_treatments)
            .into_iter()
            .filter(is_causal_order)
            .any(|order| has_sequence(&net, &order, 0, y, &measured, &Set::new()));
        assert_eq!(sequence.is_some(), exists, "{graph}: {x:?} on {y}, measured {measured:?}");
        let Some(steps) = sequence else {
            counts[0] += 1;
            continue;
        };
        assert_eq!(steps.iter().map(|step| number(&step.treatment)).collect::<Set>(), effective_treatments);
        counts[1] += 1;
        counts[2] += usize::from(steps.iter().skip(1).any(|step| !step.adjust.is_empty()));
        counts[3] += usize::from(steps.is_empty());
        let tables = tables(&net, &mut s);
        let observed = joint(&net, &tables, &BTreeMap::new());
        for dose in states(mask(&names(&x))) {
            let forced = x.iter().map(|&v| (v, dose >> v & 1)).collect();
            let truth = share(&joint(&net, &tables, &forced), 1 << y, 1 << y);
            let value = g_formula(&steps, &observed, dose, y);
            assert!((value - truth).abs() < 1e-9, "{graph}: {steps:?}: {value} {truth}");
        }
    }
    assert!(counts.iter().all(|&n| n > 30), "{counts:?}");
}

#[test]
fn time_varying_confounders_are_adjusted_for_in_time() {
    let graph =
        Graph::parse("L0 -> A0\nL0 -> L1\nL0 -> Y\nA0 -> L1\nL1 -> A1\nA0 -> Y\nL1 -> Y\nA1 -> Y").unwrap();
    let steps = |treatments: &[&str], measured: &[&str]| {
        sequential_adjustment(&graph, treatments, "Y", measured).unwrap()
    };
    let step = |treatment: &str, adjust: &[&str]| SequentialStep {
        treatment: treatment.into(),
        adjust: adjust.iter().map(|name| name.to_string()).collect(),
    };
    let variables = ["L0", "A0", "L1", "A1", "Y", "other"];
    assert_eq!(steps(&["A1", "A0"], &variables), Some(vec![step("A0", &["L0"]), step("A1", &["L1"])]));
    assert_eq!(steps(&["A1"], &variables), Some(vec![step("A1", &["L1"])]));
    assert_eq!(steps(&["A0", "A1"], &["A0", "L1", "A1", "Y"]), None);
    assert_eq!(steps(&["A0", "A1"], &["L0", "A0", "A1", "Y"]), None);
    let latent = Graph::parse("dag { l [latent]; a -> l; l -> b; l -> y; b -> y }").unwrap();
    assert_eq!(sequential_adjustment(&latent, &["a", "b"], "y", &["a", "l", "b", "y"]).unwrap(), None);
    assert!(sequential_adjustment(&latent, &["c"], "y", &["a"]).is_err());
}
