//! Back-door and front-door sets of one study against their definitions, by all subsets and all paths of
//! random graphs.

use std::collections::BTreeSet;

use riesz::Error;
use riesz::causal::{CausalQuery, EffectStrategy, Graph, IdentificationError, Strategy, identify};

use crate::causal_graph::{Net, Set, below, draw, minimal, name, names, number, subsets};
use crate::common::Stream;

/// Pearl's back-door criterion: the set contains `given` and no effect of a treatment, and it blocks all
/// back-door paths.
pub fn is_back_door(net: &Net, x: &Set, y: &Set, set: &Set) -> bool {
    set.is_disjoint(&net.descendants(x)) && net.without_arrows(&Set::new(), x).separated(x, y, set)
}

/// Pearl's front-door criterion, by its three conditions, within each value of `passive`.
pub fn is_front_door(net: &Net, x: &Set, y: &Set, set: &Set, passive: &Set) -> bool {
    let directed = |path: &Vec<usize>| path.windows(2).all(|w| net.arrows.contains(&(w[0], w[1])));
    let mut paths = x.iter().flat_map(|&a| y.iter().flat_map(move |&b| net.paths(a, b)));
    let intercepts = paths.all(|path| !directed(&path) || path.iter().any(|v| set.contains(v)));
    intercepts
        && set.is_disjoint(passive)
        && net.without_arrows(&Set::new(), x).separated(x, set, passive)
        && net.without_arrows(&Set::new(), set).separated(set, y, &(x | passive))
}

/// Adds a hidden common cause, which only a front door can adjust for, and removes the arrow between the two.
pub fn confound(net: &mut Net, x: usize, y: usize) {
    net.arrows.remove(&(x, y));
    let is_confounded =
        (net.variables..net.nodes).any(|h| net.arrows.contains(&(h, x)) && net.arrows.contains(&(h, y)));
    if !is_confounded {
        net.arrows.extend([(net.nodes, x), (net.nodes, y)]);
        net.nodes += 1;
    }
}

/// Returns a treatment and an outcome, which is usually an effect of it.
pub fn some_effect(net: &Net, s: &mut Stream) -> (usize, usize) {
    loop {
        let (x, y) = (below(s, net.variables), below(s, net.variables));
        if x != y && (net.descendants(&[x].into()).contains(&y) || s.uniform() < 0.05) {
            return (x, y);
        }
    }
}

fn numbers(names: &[String]) -> Set {
    names.iter().map(|n| number(n)).collect()
}

fn all_of(first: &[String], alternatives: &[Vec<String>]) -> BTreeSet<Set> {
    alternatives.iter().map(|set| numbers(set)).chain([numbers(first)]).collect()
}

/// A random graph with an effect, and what the definitions say about it.
struct Case {
    net: Net,
    graph: Graph,
    x: Set,
    y: usize,
    measured: Set,
    /// Treatments with a directed path to the outcome that avoids the other treatments.
    effective_treatments: Set,
    /// The measured variables that a set may contain.
    candidates: Set,
    /// Back-door sets.
    back: Vec<Set>,
    /// Front-door sets.
    front: Vec<Set>,
}

impl Case {
    fn random(s: &mut Stream, round: usize) -> Self {
        let mut net = Net::random(s, 4 + round % 4, 0.4, round % 4);
        let variables: Set = (0..net.variables).collect();
        let (first, y) = some_effect(&net, s);
        if round.is_multiple_of(2) {
            confound(&mut net, first, y);
        }
        let mut x: Set = [first].into();
        if round.is_multiple_of(3) {
            x.extend([(y + 1) % net.variables]);
        }
        let measured = &(&draw(s, &variables, 0.75) | &x) | &[y].into();
        let directed = |path: &Vec<usize>| path.windows(2).all(|w| net.arrows.contains(&(w[0], w[1])));
        let is_effective =
            |v: &usize| net.paths(*v, y).iter().any(|p| directed(p) && p[1..].iter().all(|w| !x.contains(w)));
        let effective_treatments: Set = x.iter().copied().filter(is_effective).collect();
        let outcome: Set = [y].into();
        let candidates = &measured - &(&effective_treatments | &outcome);
        let is_back = |z: &Set| is_back_door(&net, &effective_treatments, &outcome, z);
        let is_front = |z: &Set| is_front_door(&net, &effective_treatments, &outcome, z, &Set::new());
        let back = subsets(&candidates).into_iter().filter(is_back).collect();
        let front = subsets(&candidates).into_iter().filter(is_front).collect();
        Self { graph: net.graph(), net, x, y, measured, effective_treatments, candidates, back, front }
    }

    fn query(&self, measured: &Set) -> CausalQuery {
        CausalQuery {
            treatments: names(&self.x),
            outcome: name(self.y),
            studies: vec![names(measured)],
            ..CausalQuery::default()
        }
    }

    /// Every suggested variable helps, and no other single variable does. Returns the number of suggestions.
    fn assert_helps(&self, would_help: &[Vec<String>]) -> usize {
        let (graph, measured) = (&self.graph, &self.measured);
        let is_adjustable = |measured: &Set| {
            identify(Some(graph), &self.query(measured))
                .is_ok_and(|identification| identification.estimable().is_ok())
        };
        let hidden = would_help.iter().flatten().any(|name| name.starts_with("the hidden common cause"));
        let additions = if hidden { &[][..] } else { would_help };
        for addition in additions {
            assert!(is_adjustable(&(measured | &numbers(addition))), "{graph}: {addition:?}");
        }
        let single_helpers: Vec<String> = (0..self.net.variables)
            .filter(|v| !measured.contains(v) && is_adjustable(&(measured | &[*v].into())))
            .map(name)
            .collect();
        if !single_helpers.is_empty() {
            assert_eq!(would_help.concat(), single_helpers, "{graph}");
        }
        additions.len()
    }

    /// A given set is accepted if and only if it satisfies the definition.
    fn assert_given(&self, set: &Set) {
        let (Self { net, graph, effective_treatments, .. }, outcome) = (self, &[self.y].into());
        let identify_with =
            |strategy| identify(Some(graph), &CausalQuery { strategy, ..self.query(&self.measured) });
        if !effective_treatments.is_empty() {
            assert_eq!(
                identify_with(Strategy::Adjust(names(set))).is_ok(),
                is_back_door(net, effective_treatments, outcome, set),
                "{graph}: {set:?}"
            );
            let refused = identify_with(Strategy::FrontDoor(names(set)));
            assert_eq!(
                refused.is_ok(),
                is_front_door(net, effective_treatments, outcome, set, &Set::new()),
                "{graph}: {set:?}"
            );
            if let Err(Error::Causal(refusal)) = refused {
                assert!(
                    matches!(&*refusal, IdentificationError::UnfitSet { open_path, .. } if !open_path.is_empty()),
                    "{graph}: {set:?}"
                );
            }
            assert_eq!(
                identify_with(Strategy::Randomized).unwrap().strategy,
                EffectStrategy::Randomized { adjust: vec![] }
            );
        }
    }
}

#[test]
fn sets_match_the_definitions() {
    let mut s = Stream(7);
    let (mut counts, mut suggestion_count) = ([0; 5], 0);
    for round in 0..1000 {
        let case = Case::random(&mut s, round);
        match identify(Some(&case.graph), &case.query(&case.measured)) {
            Ok(identification) => {
                assert_eq!(numbers(&identification.treatments), case.effective_treatments);
                match &identification.strategy {
                    EffectStrategy::Constant => {
                        assert!(case.effective_treatments.is_empty());
                        counts[0] += 1;
                    }
                    EffectStrategy::BackDoor { adjust, alternatives, listed } => {
                        assert!(listed);
                        assert_eq!(all_of(adjust, alternatives), minimal(&case.back), "{}", case.graph);
                        assert_eq!(alternatives.len() + 1, minimal(&case.back).len());
                        counts[1] += 1;
                    }
                    EffectStrategy::FrontDoor { mediators, conditioning, alternatives, listed } => {
                        assert!(*listed && conditioning.is_empty() && case.back.is_empty());
                        assert_eq!(all_of(mediators, alternatives), minimal(&case.front), "{}", case.graph);
                        counts[2] += 1 + usize::from(mediators.len() > 1);
                    }
                    EffectStrategy::Formula { would_help, .. } => {
                        assert!(
                            case.back.is_empty()
                                && case.front.is_empty()
                                && !case.effective_treatments.is_empty(),
                            "{}",
                            case.graph
                        );
                        suggestion_count += case.assert_helps(would_help);
                        counts[4] += 1;
                    }
                    // Admissible sequences have their own tests.
                    EffectStrategy::Sequential { steps } => {
                        assert!(case.back.is_empty() && case.front.is_empty() && steps.len() > 1);
                    }
                    other => panic!("{other:?}"),
                }
            }
            Err(Error::Causal(refusal)) => {
                let IdentificationError::NotIdentified { open_paths, would_help, .. } = *refusal else {
                    panic!("{refusal}")
                };
                assert!(
                    case.back.is_empty() && case.front.is_empty() && !case.effective_treatments.is_empty(),
                    "{}",
                    case.graph
                );
                assert_eq!(open_paths.len(), 1);
                counts[3] += 1;
                suggestion_count += case.assert_helps(&would_help);
            }
            Err(other) => panic!("{other}"),
        }
        case.assert_given(&draw(&mut s, &case.candidates, 0.5));
    }
    assert!(suggestion_count > 25 && counts.iter().all(|&n| n > 10), "{counts:?} {suggestion_count}");
}

/// With many candidates there is one minimal set, by the definition.
#[test]
fn large_graphs_have_one_minimal_set() {
    let mut s = Stream(11);
    for round in 0..6 {
        let m = 14 + round;
        // Each confounder has its own paths to both ends, some through other variables.
        let mut text = "x -> y".to_string();
        for i in 0..m {
            text += &format!("; c{i} -> x; d{i} -> y; c{i} -> d{i}");
            if s.uniform() < 0.3 {
                text += &format!("; c{i} -> c{}", (i + 1).min(m - 1) + usize::from(i + 1 == m) * 100);
            }
        }
        let graph = riesz::causal::Graph::parse(&text).unwrap();
        let query = CausalQuery {
            treatments: vec!["x".into()],
            outcome: "y".into(),
            studies: vec![graph.variables().to_vec()],
            ..CausalQuery::default()
        };
        let EffectStrategy::BackDoor { adjust, alternatives, listed } =
            identify(Some(&graph), &query).unwrap().strategy
        else {
            panic!()
        };
        assert!(!listed && alternatives.is_empty());
        let expected: BTreeSet<String> = (0..m).map(|i| format!("d{i}")).collect();
        assert_eq!(adjust.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}
