//! Latent projection: a mixed graph over the measured variables alone, with arrows and bidirected edges.
//!
//! `a -> b` remains if a directed path from a to b has no measured variable between them, and `a <-> b` if
//! two such paths lead to a and b from an unmeasured variable. Every distribution over the measured
//! variables, after any intervention on these, is the same in both graphs' models. Source: Verma and Pearl
//! 1990; Tian and Pearl 2002.

use super::graph::{Graph, Nodes};

/// A graph of arrows and bidirected edges between measured variables, which keep their numbers in the whole
/// graph.
#[derive(Debug, Clone)]
pub(crate) struct MixedGraph {
    pub nodes: Nodes,
    parents: Vec<Nodes>,
    siblings: Vec<Nodes>,
}

impl MixedGraph {
    /// The latent projection of a graph on what is measured.
    pub fn project(graph: &Graph, measured: &Nodes) -> Self {
        let n = graph.nodes();
        let mut parents = vec![Nodes::new(); n];
        let mut siblings = vec![Nodes::new(); n];
        for v in 0..n {
            let reached = measured_after(graph, v, measured);
            if measured.contains(&v) {
                for &w in &reached {
                    parents[w].insert(v);
                }
            } else {
                for &a in &reached {
                    siblings[a].extend(reached.iter().filter(|&&b| b != a));
                }
            }
        }
        Self { nodes: measured.clone(), parents, siblings }
    }

    /// The parents of some variables within a set, these variables among them.
    pub fn with_parents(&self, nodes: &Nodes, subset: &Nodes) -> Nodes {
        let mut with_parents = nodes.clone();
        for &v in nodes {
            with_parents.extend(self.parents[v].intersection(subset));
        }
        with_parents
    }

    /// Some variables and all their causes in the subgraph of a set.
    pub fn ancestors(&self, nodes: &Nodes, subset: &Nodes) -> Nodes {
        reachable(&self.parents, nodes, subset)
    }

    /// The district (c-component) of a variable in the subgraph of a set: all that bidirected edges connect
    /// with it.
    pub fn district(&self, node: usize, subset: &Nodes) -> Nodes {
        reachable(&self.siblings, &[node].into(), subset)
    }

    /// The districts of the subgraph of a set, in the order of their first members in `order`.
    pub fn districts(&self, order: &[usize], subset: &Nodes) -> Vec<Nodes> {
        let mut left = subset.clone();
        let mut districts = Vec::new();
        for &v in order {
            if left.contains(&v) {
                let district = self.district(v, subset);
                left = &left - &district;
                districts.push(district);
            }
        }
        districts
    }

    /// All variables, causes before their effects; of several that could be next, the first in the graph.
    pub fn causal_order(&self) -> Vec<usize> {
        let (mut left, mut order) = (self.nodes.clone(), Vec::new());
        while let Some(next) = left.iter().copied().find(|&v| self.parents[v].is_disjoint(&left)) {
            left.remove(&next);
            order.push(next);
        }
        order
    }

    /// Bidirected edges between members of a set, each once.
    pub fn bidirected(&self, subset: &Nodes) -> Vec<(usize, usize)> {
        let mut edges = Vec::new();
        for &a in subset {
            edges.extend(self.siblings[a].intersection(subset).filter(|&&b| a < b).map(|&b| (a, b)));
        }
        edges
    }
}

/// The measured variables that directed paths reach from `from` without passing another measured one.
fn measured_after(graph: &Graph, from: usize, measured: &Nodes) -> Nodes {
    let (mut seen, mut open) = (Nodes::new(), vec![from]);
    while let Some(v) = open.pop() {
        for &child in graph.children_of(v) {
            if seen.insert(child) && !measured.contains(&child) {
                open.push(child);
            }
        }
    }
    &seen & measured
}

fn reachable(neighbours: &[Nodes], from: &Nodes, subset: &Nodes) -> Nodes {
    let (mut reached, mut open) = (from.clone(), from.iter().copied().collect::<Vec<_>>());
    while let Some(v) = open.pop() {
        for &next in neighbours[v].intersection(subset) {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached
}
