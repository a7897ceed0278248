//! Identification across studies against simulated models: random graphs of binary variables with random
//! probabilities. The truncated factorisation gives their effects, and summation gives the studies' tables.
//! Identified effects must equal the true ones for all probabilities. Effects that nothing identifies must be
//! refused.

use std::collections::BTreeMap;

use riesz::Error;
use riesz::causal::{CausalQuery, EffectStrategy, Identification, IdentificationError, Strategy, identify};

use crate::causal_formula;
use crate::causal_graph::{Net, Set, below, draw, name, names, number, subsets};
use crate::causal_sequential;
use crate::causal_sets::{confound, is_back_door, is_front_door, some_effect};
use crate::common::Stream;

/// For each node, the probability of 1 given its parents' values, which are the bits of the index.
pub type Tables = Vec<Vec<f64>>;

pub fn tables(net: &Net, s: &mut Stream) -> Tables {
    let parents = |v: usize| net.arrows.iter().filter(|e| e.1 == v).count();
    (0..net.nodes).map(|v| (0..1 << parents(v)).map(|_| 0.1 + 0.8 * s.uniform()).collect()).collect()
}

/// Returns the probability of each state, bit v of which is the value of v; `forced` are set by an
/// intervention.
pub fn joint(net: &Net, tables: &Tables, forced: &BTreeMap<usize, usize>) -> Vec<f64> {
    let parents: Vec<Vec<usize>> =
        (0..net.nodes).map(|v| net.arrows.iter().filter(|e| e.1 == v).map(|e| e.0).collect()).collect();
    (0..1_usize << net.nodes)
        .map(|state| {
            (0..net.nodes)
                .map(|v| {
                    let value = state >> v & 1;
                    if let Some(&set) = forced.get(&v) {
                        return f64::from(u8::from(set == value));
                    }
                    let index =
                        parents[v].iter().enumerate().map(|(i, &p)| (state >> p & 1) << i).sum::<usize>();
                    if value == 1 { tables[v][index] } else { 1.0 - tables[v][index] }
                })
                .product()
        })
        .collect()
}

/// Returns the probability that the nodes of `mask` have the values of `state`.
pub fn share(joint: &[f64], mask: usize, state: usize) -> f64 {
    joint.iter().enumerate().filter(|(other, _)| (other ^ state) & mask == 0).map(|(_, p)| p).sum()
}

/// Returns the conditional probability p(`target` | `condition`), with all variables at their values in
/// `state`.
pub fn conditional(joint: &[f64], target: usize, condition: usize, state: usize) -> f64 {
    share(joint, target | condition, state) / share(joint, condition, state)
}

pub fn mask(names: &[String]) -> usize {
    names.iter().fold(0, |mask, name| mask | 1 << number(name))
}

/// Returns all values of the nodes of a mask.
pub fn states(mask: usize) -> Vec<usize> {
    (0..=mask).filter(|state| state & !mask == 0).collect()
}

/// Computes E[outcome | do(treatments)] from the studies' tables alone, by the formula of the identification.
fn effect_from_tables(
    identification: &Identification,
    studies: &[Vec<f64>],
    dose: usize,
    outcome: usize,
) -> f64 {
    let first = &studies[0];
    let x = mask(&identification.treatments);
    let bridges: Vec<usize> = identification.bridges.iter().map(|b| mask(&b.columns())).collect();
    // The mean of the outcome given a study's bridge, from the last study backwards.
    let mut mean: BTreeMap<usize, f64> = BTreeMap::new();
    let t = 1 << outcome;
    for k in (0..bridges.len()).rev() {
        let study = &studies[k + 1];
        let bridge_mean = |b: usize| match bridges.get(k + 1) {
            None => conditional(study, t, bridges[k], b | t),
            Some(&next) => {
                let new_columns = next & !bridges[k];
                states(new_columns)
                    .into_iter()
                    .map(|o| conditional(study, new_columns, bridges[k], b | o) * mean[&(o | (b & next))])
                    .sum()
            }
        };
        mean = states(bridges[k]).into_iter().map(|b| (b, bridge_mean(b))).collect();
    }
    let (y, w) = match identification.bridges.first() {
        None => (t, 0),
        Some(bridge) => (mask(&bridge.mediators), mask(&bridge.passive)),
    };
    let value = |state: usize| {
        if bridges.is_empty() { f64::from(u8::from(state & t != 0)) } else { mean[&(state & (y | w))] }
    };
    match &identification.strategy {
        EffectStrategy::Constant => match bridges.first() {
            None => share(first, t, t),
            Some(&bridge) => states(bridge).into_iter().map(|b| share(first, bridge, b) * mean[&b]).sum(),
        },
        EffectStrategy::Randomized { adjust } | EffectStrategy::BackDoor { adjust, .. } => {
            let z = mask(adjust);
            assert_eq!(w & !z, 0, "what is passive is adjusted for");
            states(z | y)
                .into_iter()
                .map(|a| share(first, z, a) * conditional(first, y, x | z, dose | a) * value(a))
                .sum()
        }
        EffectStrategy::FrontDoor { mediators, .. } => {
            let m = mask(mediators);
            let inner = |b: usize| -> f64 {
                states(x)
                    .into_iter()
                    .map(|x2| conditional(first, x, w, b | x2) * conditional(first, y, m | x | w, b | x2))
                    .sum()
            };
            states(m | y | w)
                .into_iter()
                .map(|b| share(first, w, b) * conditional(first, m, x | w, dose | b) * inner(b) * value(b))
                .sum()
        }
        EffectStrategy::Formula { expression, .. } => states(y | w)
            .into_iter()
            .map(|a| {
                let (formula, definitions) = (&expression.formula, &expression.definitions);
                causal_formula::value(formula, definitions, first, dose | a) * value(a)
            })
            .sum(),
        EffectStrategy::Sequential { steps } => causal_sequential::g_formula(steps, first, dose, outcome),
        other => panic!("{other:?}"),
    }
}

/// Whether any choice of shared columns and of a set identifies the effect in two studies, by the definitions
/// alone.
fn is_identified_by_definition(net: &Net, x: &Set, y: usize, studies: &[Set], strategy: &Strategy) -> bool {
    let shared = &(&studies[0] & &studies[1]) - &(x | &[y].into());
    let affected = net.descendants(x);
    subsets(&shared).into_iter().any(|bridge| {
        let (mediators, passive) = (&bridge & &affected, &bridge - &affected);
        if mediators.is_empty() || !net.separated(x, &[y].into(), &bridge) {
            return false;
        }
        // Front doors within values of columns that the bridge does not need are not searched.
        let bridge_without = |v: usize| bridge.iter().copied().filter(|&w| w != v).collect::<Set>();
        let needed = bridge.iter().all(|&v| !net.separated(x, &[y].into(), &bridge_without(v)));
        let candidates = &(&studies[0] - x) - &mediators;
        *strategy == Strategy::Randomized
            || subsets(&candidates).into_iter().any(|z| {
                (z.is_superset(&passive) && is_back_door(net, x, &mediators, &z))
                    || (needed && is_front_door(net, x, &mediators, &z, &passive))
            })
    })
}

/// A graph, treatments, an outcome and studies.
type Simulation = (Net, Set, usize, Vec<Set>);

fn random_simulation(s: &mut Stream, round: usize, studies: usize) -> Simulation {
    let mut net = Net::random(s, 5 + round % 2, 0.4, round % 3);
    let (first, y) = some_effect(&net, s);
    if round.is_multiple_of(4) {
        confound(&mut net, first, y);
    }
    let mut x: Set = [first].into();
    let candidates: Set = (0..net.variables).filter(|&v| v != y).collect();
    if round.is_multiple_of(5) {
        x.extend(draw(s, &candidates, 0.2));
    }
    let mut columns: Vec<Set> = (0..studies).map(|_| &draw(s, &candidates, 0.8) - &x).collect();
    columns[0].extend(&x);
    columns[studies - 1].insert(y);
    (net, x, y, columns)
}

/// A chain from the treatment through a column of each bridge to the outcome, and other variables that affect
/// it.
fn chain_simulation(s: &mut Stream, studies: usize) -> Simulation {
    let (length, n_covariates) = (studies + 1, 3);
    let mut net = Net {
        variables: length + n_covariates,
        nodes: length + n_covariates,
        arrows: (1..length).map(|v| (v - 1, v)).collect(),
    };
    for w in length..length + n_covariates {
        for v in 0..w {
            if s.uniform() < 0.3 {
                net.arrows.insert((w, v));
            }
        }
    }
    if s.uniform() < 0.2 {
        // A front door before the first bridge, measured in study 1.
        net.arrows.remove(&(0, 1));
        let (m, h) = (net.variables - 1, net.nodes);
        net.arrows.retain(|&(a, b)| a != m && b != m);
        net.arrows.extend([(0, m), (m, 1), (h, 0), (h, 1)]);
        for w in length..m {
            if s.uniform() < 0.5 {
                net.arrows.insert((w, m));
            }
        }
        net.nodes += 1;
    } else if s.uniform() < 0.3 {
        let (a, b) = (below(s, 2), 2 + below(s, net.variables - 2));
        net.arrows.extend([(net.nodes, a), (net.nodes, b)]);
        net.nodes += 1;
    }
    let covariates: Set = (length..length + n_covariates).collect();
    let columns = (0..studies).map(|k| &draw(s, &covariates, 0.75) | &[k, k + 1].into()).collect();
    (net, [0].into(), length - 1, columns)
}

/// Kinds of strategies and refusals, with the number of studies, that the simulations must meet.
const KINDS: [&str; 23] = [
    "Constant 1",
    "Constant 2",
    "Constant 3",
    "BackDoor 1",
    "BackDoor 2",
    "BackDoor 3",
    "FrontDoor 1",
    "FrontDoor 2",
    "Formula 1",
    "Formula 2",
    "Randomized 2",
    "Randomized 3",
    "BackDoor passive",
    "Randomized passive",
    "Constant passive",
    "FrontDoor passive",
    "NoBridge 2",
    "Unmediated 2",
    "Unmediated 3",
    "NotIdentified 1",
    "NotIdentified 2",
    "NotTransportable 2",
    "differing",
];

/// The tables of the studies, of which the first defines the effect, and the others differ where `differs`
/// states it; and the distributions that the studies show.
fn simulated_studies(
    net: &Net,
    x: &Set,
    (count, differs): (usize, &BTreeMap<usize, Set>),
    strategy: &Strategy,
    s: &mut Stream,
) -> (Vec<Tables>, Vec<Vec<f64>>) {
    let base_tables = tables(net, s);
    let study_tables: Vec<Tables> = (0..count)
        .map(|k| {
            let changed_tables = tables(net, s);
            let differs = |v: usize| differs.get(&k).is_some_and(|set| set.contains(&v));
            (0..net.nodes)
                .map(|v| if differs(v) { changed_tables[v].clone() } else { base_tables[v].clone() })
                .collect()
        })
        .collect();
    let mut distributions: Vec<Vec<f64>> =
        study_tables.iter().map(|tables| joint(net, tables, &BTreeMap::new())).collect();
    if *strategy == Strategy::Randomized {
        let intervened = net.without_arrows(x, &Set::new());
        let mut tables = study_tables[0].clone();
        x.iter().for_each(|&v| tables[v] = vec![0.3]);
        distributions[0] = joint(&intervened, &tables, &BTreeMap::new());
    }
    (study_tables, distributions)
}

#[test]
fn identified_effects_equal_the_truth_in_every_model() {
    let mut s = Stream(3);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..4000 {
        let studies = 1 + round % 3;
        let (net, x, y, columns) = if round % 2 == 0 {
            random_simulation(&mut s, round / 2, studies)
        } else {
            chain_simulation(&mut s, studies)
        };
        let graph = net.graph();
        let variables: Set = (0..net.variables).collect();
        let mut differs = BTreeMap::new();
        if studies > 1 && round % 8 < 3 {
            differs.insert(below(&mut s, studies), draw(&mut s, &variables, 0.2));
        }
        let strategy = if round % 7 == 0 { Strategy::Randomized } else { Strategy::Derive };
        let query = CausalQuery {
            treatments: names(&x),
            outcome: name(y),
            studies: columns.iter().map(names).collect(),
            strategy: strategy.clone(),
            differs: differs.iter().map(|(&k, v)| (k, names(v))).collect(),
        };
        let identification = match identify(Some(&graph), &query) {
            Ok(identification) => identification,
            Err(Error::Causal(refusal)) => {
                let kind = format!("{refusal:?}").split(' ').next().unwrap().to_string();
                *counts.entry(format!("{kind} {studies}")).or_default() += 1;
                if studies == 2
                    && x.len() == 1
                    && !matches!(*refusal, IdentificationError::NotTransportable { .. })
                {
                    assert!(
                        !is_identified_by_definition(&net, &x, y, &columns, &strategy),
                        "{graph}\n{query:?}\n{refusal}"
                    );
                }
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        if studies == 2 && x.len() == 1 && identification.estimable().is_err() {
            assert!(
                !is_identified_by_definition(&net, &x, y, &columns, &strategy),
                "{graph}\n{query:?}\n{identification}"
            );
        }
        let kind = format!("{:?}", identification.strategy).split(' ').next().unwrap().to_string();
        *counts.entry(format!("{kind} {studies}")).or_default() += 1;
        if identification.bridges.iter().any(|bridge| !bridge.passive.is_empty()) {
            *counts.entry(format!("{kind} passive")).or_default() += 1;
        }
        if !differs.values().all(Set::is_empty) {
            *counts.entry("differing".into()).or_default() += 1;
        }
        let (study_tables, distributions) =
            simulated_studies(&net, &x, (studies, &differs), &strategy, &mut s);
        let all_x = mask(&query.treatments);
        for dose in states(all_x) {
            let forced = x.iter().map(|&v| (v, dose >> v & 1)).collect();
            let truth = share(&joint(&net, &study_tables[0], &forced), 1 << y, 1 << y);
            let computed = effect_from_tables(
                &identification,
                &distributions,
                dose & mask(&identification.treatments),
                y,
            );
            assert!(
                (computed - truth).abs() < 1e-9,
                "{graph}\n{query:?}\n{identification}\n{computed} {truth}"
            );
        }
    }
    for kind in KINDS {
        assert!(counts.get(kind).is_some_and(|&n| n > 4), "{kind}: {counts:?}");
    }
}
