//! Complete identification. Formulas are compared with the truncated factorisation of random models of binary
//! variables. Hedges are compared with their definition, and with pairs of models that agree on all measured
//! variables.

use std::collections::{BTreeMap, BTreeSet};

use riesz::causal::{EffectFormula, Formula, Graph, Hedge, effect_formula};

use crate::causal_graph::{Net, Set, below, draw, names, number};
use crate::causal_simulations::{joint, mask, share, states, tables};
use crate::common::Stream;

/// Returns the value of a formula if the variables have the bits of `state`; `observed` is the observed joint
/// distribution.
pub fn value(formula: &Formula, definitions: &[Formula], observed: &[f64], state: usize) -> f64 {
    let part = |part: &Formula, state: usize| value(part, definitions, observed, state);
    match formula {
        Formula::Probability { variables, conditioning } => {
            let (joint_mask, conditioning_mask) = (mask(variables), mask(conditioning));
            share(observed, joint_mask | conditioning_mask, state) / share(observed, conditioning_mask, state)
        }
        Formula::Sum { over, body } => {
            let over = mask(over);
            states(over).into_iter().map(|v| part(body, (state & !over) | v)).sum()
        }
        Formula::Product(factors) => factors.iter().map(|factor| part(factor, state)).product(),
        Formula::Quotient { numerator, denominator } => part(numerator, state) / part(denominator, state),
        Formula::Defined { index, arguments } => {
            let definition = &definitions[*index];
            assert!(definition.free().is_subset(&arguments.iter().cloned().collect()));
            part(definition, state)
        }
    }
}

/// Returns the joint distribution of the first variables.
fn visible(joint: &[f64], variables: usize) -> Vec<f64> {
    let mut observed = vec![0.0; 1 << variables];
    joint.iter().enumerate().for_each(|(state, p)| observed[state & ((1 << variables) - 1)] += p);
    observed
}

/// Pairs of nodes.
type Edges = BTreeSet<(usize, usize)>;

/// Returns arrows and bidirected edges between measured nodes, from all paths without measured nodes between
/// the ends.
fn projected(net: &Net, measured: &Set) -> (Edges, Edges) {
    let passes_unmeasured = |path: &[usize]| path[1..path.len() - 1].iter().all(|v| !measured.contains(v));
    let is_directed = |path: &[usize]| path.windows(2).all(|w| net.arrows.contains(&(w[0], w[1])));
    let mut has_directed_path = BTreeMap::new();
    for a in 0..net.nodes {
        for &b in measured.iter().filter(|&&b| b != a) {
            let has_path =
                net.paths(a, b).into_iter().any(|path| passes_unmeasured(&path) && is_directed(&path));
            has_directed_path.insert((a, b), has_path);
        }
    }
    let is_linked = |a: usize, b: usize| has_directed_path.get(&(a, b)) == Some(&true);
    let (mut arrows, mut edges) = (BTreeSet::new(), BTreeSet::new());
    for &a in measured {
        for &b in measured.iter().filter(|&&b| b != a) {
            if is_linked(a, b) {
                arrows.insert((a, b));
            }
            if (0..net.nodes).any(|u| !measured.contains(&u) && is_linked(u, a) && is_linked(u, b)) {
                edges.insert((a.min(b), a.max(b)));
            }
        }
    }
    (arrows, edges)
}

fn reached(from: &Set, edges: &[(usize, usize)]) -> Set {
    let mut reachable = from.clone();
    loop {
        let neighbours: Set = edges.iter().filter(|e| reachable.contains(&e.0)).map(|e| e.1).collect();
        if neighbours.is_subset(&reachable) {
            return reachable;
        }
        reachable.extend(neighbours);
    }
}

fn numbers(names: &[String]) -> Set {
    names.iter().map(|name| number(name)).collect()
}

/// Checks the definition of a hedge, and returns the arrows and bidirected edges of the measured variables.
fn assert_hedge(net: &Net, measured: &Set, x: &Set, y: &Set, hedge: &Hedge) {
    let (larger, smaller) = (numbers(&hedge.larger), numbers(&hedge.smaller));
    let (arrows, edges) = projected(net, measured);
    assert!(smaller.is_subset(&larger) && smaller.is_disjoint(x) && larger.is_subset(measured));
    assert_eq!(numbers(&hedge.treatments), &larger & x);
    assert!(!hedge.treatments.is_empty());
    let edges_in = |set: &Set| -> Edges {
        edges.iter().filter(|e| set.contains(&e.0) && set.contains(&e.1)).copied().collect()
    };
    for set in [&larger, &smaller] {
        let directed: Vec<(usize, usize)> =
            edges_in(set).into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        let first = set.iter().next().copied().into_iter().collect();
        assert_eq!(&reached(&first, &directed), set, "hidden common causes connect each set");
    }
    let named: Edges =
        hedge.confounded.iter().map(|(a, b)| (number(a).min(number(b)), number(a).max(number(b)))).collect();
    assert_eq!(named, edges_in(&larger));
    let back = |inside: &dyn Fn(usize) -> bool, cut: &Set| -> Vec<(usize, usize)> {
        let kept = arrows.iter().filter(|e| inside(e.0) && inside(e.1) && !cut.contains(&e.1));
        kept.map(|&(a, b)| (b, a)).collect()
    };
    assert_eq!(reached(&smaller, &back(&|v| larger.contains(&v), &Set::new())), larger);
    assert!(smaller.is_subset(&reached(y, &back(&|_| true, x))));
}

/// A model of binary variables whose values are parities of fair coins and of other variables.
struct Parities {
    order: Vec<usize>,
    /// For each variable the coins and the variables whose sum has its parity.
    terms: BTreeMap<usize, (Vec<usize>, Vec<usize>)>,
    coins: usize,
}

impl Parities {
    /// Returns the number of occurrences of each state among all outcomes of the coins.
    fn counts(&self, forced: &BTreeMap<usize, usize>) -> BTreeMap<usize, usize> {
        let mut counts = BTreeMap::new();
        for coins in 0..1_usize << self.coins {
            let mut state = 0_usize;
            for &v in &self.order {
                let (variable_coins, parents) = &self.terms[&v];
                let sum = variable_coins.iter().map(|c| coins >> c & 1).sum::<usize>()
                    + parents.iter().map(|p| state >> p & 1).sum::<usize>();
                state |= forced.get(&v).copied().unwrap_or(sum % 2) << v;
            }
            *counts.entry(state).or_default() += 1;
        }
        counts
    }
}

/// Returns the two models of Shpitser and Pearl's proof that a hedge excludes identification. Returns `None`
/// if a path from the smaller set to the outcomes passes through the larger one. They are models of a graph
/// in which all variables are measured.
fn indistinguishable(net: &Net, x: &Set, y: &Set, hedge: &Hedge) -> Option<[Parities; 2]> {
    let variables: Set = (0..net.variables).collect();
    let (arrows, edges) = projected(net, &variables);
    let (larger, smaller) = (numbers(&hedge.larger), numbers(&hedge.smaller));
    let mut order: Vec<usize> = variables.iter().copied().collect();
    order.sort_by_key(|&v| variables.iter().filter(|&&u| net.descendants(&[u].into()).contains(&v)).count());
    // A spanning tree of coins, first within the smaller set.
    let mut tree: Vec<(usize, usize)> = Vec::new();
    for part in [&smaller, &larger] {
        for &(a, b) in edges.iter().filter(|e| part.contains(&e.0) && part.contains(&e.1)) {
            let directed: Vec<(usize, usize)> = tree.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
            if !reached(&[a].into(), &directed).contains(&b) {
                tree.push((a, b));
            }
        }
    }
    // Each member that is not a root has one child. It is in the smaller set if the member is; otherwise it
    // is nearer to that set.
    let mut child: BTreeMap<usize, usize> = BTreeMap::new();
    for &v in order.iter().rev().filter(|v| larger.contains(v)) {
        let inside = if smaller.contains(&v) { &smaller } else { &larger };
        let is_connected = |w: &usize| smaller.contains(w) || child.contains_key(w);
        let child_node = inside.iter().copied().find(|w| arrows.contains(&(v, *w)) && is_connected(w));
        child.extend(child_node.map(|w| (v, w)));
    }
    let mut frontier: Vec<usize> = smaller.iter().copied().filter(|v| !child.contains_key(v)).collect();
    let to_outcome = net.without_arrows(x, &Set::new());
    let reaches_outcome = |v: usize| !to_outcome.descendants(&[v].into()).is_disjoint(y);
    while let Some(v) = frontier.pop() {
        if y.contains(&v) || child.contains_key(&v) {
            continue;
        }
        let child_node =
            (0..net.variables).find(|&w| to_outcome.arrows.contains(&(v, w)) && reaches_outcome(w))?;
        if larger.contains(&child_node) {
            return None;
        }
        child.insert(v, child_node);
        frontier.push(child_node);
    }
    let model = |second: bool| {
        let terms = order.iter().map(|&v| {
            let is_kept = |u: usize| !(second && smaller.contains(&v) && !smaller.contains(&u));
            let other_end = |(a, b): (usize, usize)| if a == v { Some(b) } else { (b == v).then_some(a) };
            let coins = (0..tree.len()).filter(|&c| other_end(tree[c]).is_some_and(is_kept)).collect();
            let parents = child.iter().filter(|&(&u, &w)| w == v && is_kept(u)).map(|(&u, _)| u).collect();
            (v, (coins, parents))
        });
        Parities { order: order.clone(), terms: terms.collect(), coins: tree.len() }
    };
    Some([model(false), model(true)])
}

type Counts = BTreeMap<&'static str, usize>;

/// Checks the identification of the effect of `x` on `y`: a formula by the truncated factorisation of a
/// random model, a hedge by its definition and by two models.
fn check(net: &Net, x: &Set, y: &Set, measured: &Set, s: &mut Stream, counts: &mut Counts) {
    let (graph, variables) = (net.graph(), net.variables);
    let result = effect_formula(&graph, &names(x), &names(y), &names(measured)).unwrap();
    let (dose, outcome) = (mask(&names(x)), mask(&names(y)));
    let forced = |set: usize| x.iter().map(|&v| (v, set >> v & 1)).collect::<BTreeMap<usize, usize>>();
    let formula = match result {
        Ok(formula) => formula,
        Err(hedge) => {
            *counts.entry("hedge").or_default() += 1;
            assert_hedge(net, measured, x, y, &hedge);
            if measured.len() < variables {
                return;
            }
            let Some([first, second]) = indistinguishable(net, x, y, &hedge) else { return };
            assert_eq!(first.counts(&BTreeMap::new()), second.counts(&BTreeMap::new()), "{graph}: {hedge:?}");
            let effect = |model: &Parities, set: usize| {
                let mut effect: BTreeMap<usize, usize> = BTreeMap::new();
                for (state, count) in model.counts(&forced(set)) {
                    *effect.entry(state & outcome).or_default() += count;
                }
                effect
            };
            let differ = states(dose).into_iter().any(|set| effect(&first, set) != effect(&second, set));
            assert!(differ, "{graph}: {hedge:?}");
            *counts.entry("two models").or_default() += 1;
            return;
        }
    };
    *counts.entry("formula").or_default() += 1;
    for (kind, holds) in [
        ("quotient", formula.to_string().contains('/')),
        ("any value", !formula.any_value.is_empty()),
        ("bound treatment", formula.to_string().contains('\'')),
        ("definition", !formula.definitions.is_empty()),
    ] {
        *counts.entry(kind).or_default() += usize::from(holds);
    }
    let tables = tables(net, s);
    let observed = visible(&joint(net, &tables, &BTreeMap::new()), variables);
    for set in states(dose) {
        let truth = visible(&joint(net, &tables, &forced(set)), variables);
        for state in states(((1 << variables) - 1) & !dose) {
            let state = state | set;
            let expected = share(&truth, outcome, state);
            let computed = value(&formula.formula, &formula.definitions, &observed, state);
            assert!((computed - expected).abs() < 1e-9, "{graph}: {formula}: {computed}, not {expected}");
        }
    }
}

#[test]
fn formulas_give_the_effect_and_hedges_exclude_one() {
    let mut s = Stream(2006);
    let mut counts = Counts::new();
    for round in 0..4000 {
        let variables = 3 + round % 4;
        let hidden = (round / 4) % (variables + 1);
        let net = Net::random(&mut s, variables, 0.5, hidden.min(variables * (variables - 1) / 2));
        let nodes: Set = (0..variables).collect();
        let mut y: Set = [below(&mut s, variables)].into();
        if round % 5 == 0 {
            y.extend([below(&mut s, variables)]);
        }
        let candidates = &nodes - &y;
        let mut x = draw(&mut s, &candidates, if round % 3 == 0 { 0.5 } else { 0.2 });
        x.extend(candidates.iter().copied().nth(below(&mut s, candidates.len().max(1))));
        if x.is_empty() {
            continue;
        }
        let measured = if round % 2 == 0 { nodes.clone() } else { &(&draw(&mut s, &nodes, 0.7) | &x) | &y };
        check(&net, &x, &y, &measured, &mut s, &mut counts);
    }
    for (kind, min_count) in [("hedge", 300), ("two models", 200), ("formula", 1000), ("bound treatment", 20)]
    {
        assert!(counts.get(kind).is_some_and(|&n| n >= min_count), "{kind}: {counts:?}");
    }
}

/// A published graph: arrows, bidirected edges, treatments, and whether the effect on the last variable is
/// identified. Variables have indices in the order of their names.
type Published = (&'static str, &'static [(usize, usize)], &'static [(usize, usize)], &'static [usize], bool);

const PUBLISHED: [Published; 14] = [
    // X, Y: the bow arc, and an instrument Z before it (Z, X, Y).
    ("Pearl 2009, figure 3.9 (a)", &[(0, 1)], &[(0, 1)], &[0], false),
    ("Pearl 2009, instrument", &[(0, 1), (1, 2)], &[(1, 2)], &[1], false),
    // X, Z, Y: the treatment and its child are confounded; treatment and outcome; child and outcome.
    ("confounded child", &[(0, 1), (1, 2)], &[(0, 1)], &[0], false),
    ("front door", &[(0, 1), (1, 2)], &[(0, 2)], &[0], true),
    ("Pearl 2009, figure 3.8 (b)", &[(0, 1), (1, 2)], &[(1, 2)], &[0], true),
    ("front door with a direct effect", &[(0, 1), (1, 2), (0, 2)], &[(0, 2)], &[0], false),
    // Z, X, Y: an observed confounder that is itself confounded with either variable.
    ("Pearl 2009, figure 3.8 (c)", &[(0, 1), (0, 2), (1, 2)], &[(0, 2)], &[1], true),
    ("Pearl 2009, figure 3.8 (d)", &[(0, 1), (0, 2), (1, 2)], &[(0, 1)], &[1], true),
    ("both", &[(0, 1), (0, 2), (1, 2)], &[(0, 1), (0, 2)], &[1], false),
    // X, Z1, Z2, Y.
    ("Pearl 2009, figure 3.8 (f)", &[(0, 1), (0, 3), (1, 2), (1, 3), (2, 3)], &[(0, 2), (1, 3)], &[0], true),
    // X, Z1, Z2, Z3, Y.
    (
        "Pearl 2009, figure 3.8 (g)",
        &[(0, 1), (1, 4), (2, 0), (2, 1), (2, 3), (3, 4)],
        &[(0, 4), (0, 2), (0, 3), (4, 2)],
        &[0],
        true,
    ),
    // X1, Z, X2, Y.
    ("Pearl 2009, figure 4.4", &[(0, 1), (0, 3), (0, 2), (1, 2), (2, 3)], &[(0, 1), (1, 3)], &[0, 2], true),
    // W1, W2, X, Y.
    ("napkin", &[(0, 1), (1, 2), (2, 3)], &[(0, 2), (0, 3)], &[2], true),
    // W1, W2, W3, W4, W5, X, Y.
    (
        "Tian 2002, page 90",
        &[(0, 1), (2, 3), (1, 5), (3, 5), (5, 6)],
        &[(0, 5), (0, 6), (0, 2), (2, 1), (2, 4), (4, 3)],
        &[5],
        true,
    ),
];

fn net(variables: usize, arrows: &[(usize, usize)], edges: &[(usize, usize)]) -> Net {
    let mut all_arrows: Edges = arrows.iter().copied().collect();
    let hidden = edges.iter().enumerate();
    all_arrows.extend(hidden.flat_map(|(k, &(a, b))| [(variables + k, a), (variables + k, b)]));
    Net { variables, nodes: variables + edges.len(), arrows: all_arrows }
}

#[test]
fn published_graphs_are_identified_as_in_the_literature() {
    let mut s = Stream(1995);
    for (label, arrows, edges, treatments, identified) in PUBLISHED {
        let outcome = arrows.iter().map(|e| e.1).max().unwrap();
        let net = net(outcome + 1, arrows, edges);
        let nodes: Set = (0..=outcome).collect();
        let mut counts = Counts::new();
        let x: Set = treatments.iter().copied().collect();
        check(&net, &x, &[outcome].into(), &nodes, &mut s, &mut counts);
        assert_eq!(counts.contains_key("formula"), identified, "{label}");
        assert_eq!(counts.contains_key("two models"), !identified, "{label}");
    }
}

/// Random changes of published graphs whose formulas have quotients and definitions.
#[test]
fn formulas_with_quotients_give_the_effect() {
    let mut s = Stream(404);
    let mut counts = Counts::new();
    for round in 0..1500 {
        let (_, arrows, edges, treatments, _) = PUBLISHED[10 + round % 4];
        let outcome = arrows.iter().map(|e| e.1).max().unwrap();
        let pair = |s: &mut Stream| {
            let (a, b) = (below(s, outcome + 1), below(s, outcome + 1));
            (a.min(b), a.max(b))
        };
        let mut edges: Edges = edges.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
        let mut arrows: Edges = arrows.iter().copied().collect();
        for _ in 0..below(&mut s, 3) {
            let (added, removed) = (pair(&mut s), pair(&mut s));
            arrows.remove(&removed);
            if added.0 != added.1 && (round % 4 != 0 || added.1 == outcome) {
                arrows.insert(added);
            }
        }
        for _ in 0..below(&mut s, 3) {
            let (added, removed) = (pair(&mut s), pair(&mut s));
            edges.remove(&removed);
            if added.0 != added.1 {
                edges.insert(added);
            }
        }
        let net = net(outcome + 1, &Vec::from_iter(arrows), &Vec::from_iter(edges));
        let x: Set = treatments.iter().copied().collect();
        let nodes = (0..=outcome).collect();
        check(&net, &x, &[outcome].into(), &nodes, &mut s, &mut counts);
    }
    for kind in ["hedge", "two models", "formula", "quotient", "any value", "definition", "bound treatment"] {
        assert!(counts.get(kind).is_some_and(|&n| n >= 10), "{kind}: {counts:?}");
    }
}

fn identify_effect(text: &str, treatments: &str, outcome: &str) -> Result<EffectFormula, Hedge> {
    let graph = Graph::parse(text).unwrap();
    let treatments: Vec<&str> = treatments.split(' ').collect();
    let variables: Vec<&str> = graph.variables().iter().map(String::as_str).collect();
    effect_formula(&graph, &treatments, &[outcome], &variables).unwrap()
}

#[test]
fn formulas_read_as_in_textbooks() {
    for (text, treatments, expected) in [
        ("X -> Y", "X", "P(Y | do(X)) = P(Y | X)"),
        ("Z -> X -> Y; Z -> Y", "X", "P(Y | do(X)) = Σ_Z P(Z) P(Y | Z, X)"),
        ("X -> M -> Y; X <-> Y", "X", "P(Y | do(X)) = Σ_M P(M | X) Σ_X' P(X') P(Y | X', M)"),
        ("X -> Z -> Y; Z <-> Y", "X", "P(Y | do(X)) = P(Y | X)"),
        ("X; Y", "X", "P(Y | do(X)) = P(Y)"),
        (
            "W1 -> W2 -> X -> Y; W1 <-> X; W1 <-> Y",
            "X",
            "P(Y | do(X)) = [Σ_W1 P(W1) P(X, Y | W1, W2)] / [Σ_W1 P(W1) P(X | W1, W2)], for any value of W2",
        ),
        (
            "X -> Z1 -> Y; Z2 -> X; Z2 -> Z1; Z2 -> Z3 -> Y; X <-> Y; X <-> Z2; X <-> Z3; Y <-> Z2",
            "X",
            "P(Y | do(X)) = Σ_{Z1, Z2, Z3} P(Z2, Z3) [Σ_X' P(X' | Z2, Z3) P(Y | X', Z1, Z2, Z3)] P(Z1 | X, \
             Z2)",
        ),
        (
            "W1 -> W2; W3 -> W4; W2, W4 -> X -> Y; W1 <-> X; W1 <-> Y; W1 <-> W3 <-> W2; W3 <-> W5 <-> W4",
            "X",
            "P(Y | do(X)) = Q1(W2, W4, X, Y) / [Σ_Y' Q1(W2, W4, X, Y')], where Q1(W2, W4, X, Y) = Σ_W1 P(W1) \
             Σ_W3 P(W3 | W1, W2) P(X, Y | W1, W2, W3, W4), for any value of W2 and W4",
        ),
        (
            "L0 -> A0, L1, Y; A0 -> L1, Y; L1 -> A1, Y; A1 -> Y; L1 <-> Y",
            "A0 A1",
            "P(Y | do(A0, A1)) = Σ_{L0, L1} P(L0) P(L1 | L0, A0) P(Y | L0, A0, L1, A1)",
        ),
    ] {
        assert_eq!(identify_effect(text, treatments, "Y").unwrap().to_string(), expected);
    }
}
