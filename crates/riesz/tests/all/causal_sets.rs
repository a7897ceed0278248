//! Back-door and front-door sets of one study against their definitions, by all subsets and all paths of
//! random graphs.

use std::collections::BTreeSet;

use riesz::Error;
use riesz::causal::{CausalQuery, EffectStrategy, IdentificationError, Strategy, identify};

use crate::causal_graph::{Net, Set, below, draw, minimal, name, names, number, subsets};
use crate::common::Stream;

/// Pearl's back-door criterion, for `given` among it and no effect of a treatment: behind the treatments
/// nothing is open.
pub fn is_back_door(net: &Net, x: &Set, y: &Set, set: &Set) -> bool {
    set.is_disjoint(&net.descendants(x)) && net.without_arrows(&Set::new(), x).separated(x, y, set)
}

/// Pearl's front-door criterion, by its three sentences, within each value of `passive`.
pub fn is_front_door(net: &Net, x: &Set, y: &Set, set: &Set, passive: &Set) -> bool {
    let directed = |path: &Vec<usize>| path.windows(2).all(|w| net.arrows.contains(&(w[0], w[1])));
    let mut paths = x.iter().flat_map(|&a| y.iter().flat_map(move |&b| net.paths(a, b)));
    let intercepts = paths.all(|path| !directed(&path) || path.iter().any(|v| set.contains(v)));
    intercepts
        && set.is_disjoint(passive)
        && net.without_arrows(&Set::new(), x).separated(x, set, passive)
        && net.without_arrows(&Set::new(), set).separated(set, y, &(x | passive))
}

/// A hidden common cause, for which only a front door can make up, and no arrow between the two.
pub fn confound(net: &mut Net, x: usize, y: usize) {
    net.arrows.remove(&(x, y));
    let twice =
        (net.variables..net.nodes).any(|h| net.arrows.contains(&(h, x)) && net.arrows.contains(&(h, y)));
    if !twice {
        net.arrows.extend([(net.nodes, x), (net.nodes, y)]);
        net.nodes += 1;
    }
}

/// A treatment and an outcome, most often an effect of it.
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

#[test]
fn sets_are_those_of_the_definitions() {
    let mut s = Stream(7);
    let (mut counts, mut helping) = ([0; 5], 0);
    for round in 0..1000 {
        let net = Net::random(&mut s, 4 + round % 4, 0.4, round % 4);
        let variables: Set = (0..net.variables).collect();
        let (mut net, (first, y)) = (net.clone(), some_effect(&net, &mut s));
        if round % 2 == 0 {
            confound(&mut net, first, y);
        }
        let graph = net.graph();
        let mut x: Set = [first].into();
        if round % 3 == 0 {
            x.extend([(y + 1) % net.variables]);
        }
        let measured = &(&draw(&mut s, &variables, 0.75) | &x) | &[y].into();
        let query = |measured: &Set| CausalQuery {
            treatments: names(&x),
            outcome: name(y),
            studies: vec![names(measured)],
            ..CausalQuery::default()
        };
        let result = identify(Some(&graph), &query(&measured));
        // Of the treatments those count that have a directed path past the others.
        let directed = |path: &Vec<usize>| path.windows(2).all(|w| net.arrows.contains(&(w[0], w[1])));
        let acts =
            |v: &usize| net.paths(*v, y).iter().any(|p| directed(p) && p[1..].iter().all(|w| !x.contains(w)));
        let acting: Set = x.iter().copied().filter(acts).collect();
        let outcome: Set = [y].into();
        let free = &measured - &(&acting | &outcome);
        let back: Vec<Set> =
            subsets(&free).into_iter().filter(|z| is_back_door(&net, &acting, &outcome, z)).collect();
        let front: Vec<Set> = subsets(&free)
            .into_iter()
            .filter(|z| is_front_door(&net, &acting, &outcome, z, &Set::new()))
            .collect();
        let is_adjustable = |measured: &Set| {
            identify(Some(&graph), &query(measured))
                .is_ok_and(|identification| identification.estimable().is_ok())
        };
        // What is said to help does, and no other single variable does.
        let mut assert_helps = |would_help: &[Vec<String>]| {
            let hidden = would_help.iter().flatten().any(|name| name.starts_with("what is behind"));
            for addition in would_help.iter().filter(|_| !hidden) {
                helping += 1;
                assert!(is_adjustable(&(&measured | &numbers(addition))), "{graph}: {addition:?}");
            }
            let single_helpers: Vec<String> = (&variables - &measured)
                .iter()
                .filter(|v| is_adjustable(&(&measured | &[**v].into())))
                .map(|&v| name(v))
                .collect();
            if !single_helpers.is_empty() {
                assert_eq!(would_help.concat(), single_helpers, "{graph}");
            }
        };
        match result {
            Ok(identification) => {
                assert_eq!(numbers(&identification.treatments), acting);
                match &identification.strategy {
                    EffectStrategy::Constant => {
                        assert!(acting.is_empty());
                        counts[0] += 1;
                    }
                    EffectStrategy::BackDoor { adjust, alternatives: others, listed } => {
                        assert!(listed);
                        assert_eq!(all_of(adjust, others), minimal(&back), "{graph}");
                        assert_eq!(others.len() + 1, minimal(&back).len());
                        counts[1] += 1;
                    }
                    EffectStrategy::FrontDoor {
                        mediators: through,
                        conditioning: given,
                        alternatives: others,
                        listed,
                    } => {
                        assert!(*listed && given.is_empty() && back.is_empty());
                        assert_eq!(all_of(through, others), minimal(&front), "{graph}");
                        counts[2] += 1 + usize::from(through.len() > 1);
                    }
                    EffectStrategy::Formula { would_help, .. } => {
                        assert!(back.is_empty() && front.is_empty() && !acting.is_empty(), "{graph}");
                        assert_helps(would_help);
                        counts[4] += 1;
                    }
                    // Which sequences are admissible is tested with them.
                    EffectStrategy::Sequential { steps } => {
                        assert!(back.is_empty() && front.is_empty() && steps.len() > 1);
                    }
                    other => panic!("{other:?}"),
                }
            }
            Err(Error::Causal(refusal)) => {
                let IdentificationError::NotIdentified { open_paths, would_help, .. } = *refusal else {
                    panic!("{refusal}")
                };
                assert!(back.is_empty() && front.is_empty() && !acting.is_empty(), "{graph}");
                assert_eq!(open_paths.len(), 1);
                counts[3] += 1;
                assert_helps(&would_help);
            }
            Err(other) => panic!("{other}"),
        }
        // A set that is given is taken if and only if the definition takes it.
        let set = draw(&mut s, &free, 0.5);
        let with = |strategy| identify(Some(&graph), &CausalQuery { strategy, ..query(&measured) });
        if !acting.is_empty() {
            assert_eq!(
                with(Strategy::Adjust(names(&set))).is_ok(),
                is_back_door(&net, &acting, &outcome, &set),
                "{graph}: {set:?}"
            );
            let refused = with(Strategy::FrontDoor(names(&set)));
            assert_eq!(
                refused.is_ok(),
                is_front_door(&net, &acting, &outcome, &set, &Set::new()),
                "{graph}: {set:?}"
            );
            if let Err(Error::Causal(refusal)) = refused {
                assert!(
                    matches!(&*refusal, IdentificationError::UnfitSet { open_path, .. } if !open_path.is_empty()),
                    "{graph}: {set:?}"
                );
            }
            assert_eq!(
                with(Strategy::Randomized).unwrap().strategy,
                EffectStrategy::Randomized { adjust: vec![] }
            );
        }
    }
    assert!(helping > 25 && counts.iter().all(|&n| n > 10), "{counts:?} {helping}");
}

/// Many candidates: one minimal set, by the definition.
#[test]
fn large_graphs_have_one_minimal_set() {
    let mut s = Stream(11);
    for round in 0..6 {
        let m = 14 + round;
        // Each confounder has its own way to both ends, some through others.
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
        let EffectStrategy::BackDoor { adjust, alternatives: others, listed } =
            identify(Some(&graph), &query).unwrap().strategy
        else {
            panic!()
        };
        assert!(!listed && others.is_empty());
        let expected: BTreeSet<String> = (0..m).map(|i| format!("d{i}")).collect();
        assert_eq!(adjust.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}
