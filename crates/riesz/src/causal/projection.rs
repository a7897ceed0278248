//! Latent projection: a mixed graph over the measured variables alone, with arrows and bidirected edges.
//!
//! The projection has `a -> b` if a directed path from a to b has no measured variable between them. It has
//! `a <-> b` if two such paths lead to a and b from an unmeasured variable. Both graphs allow the same
//! distributions of the measured variables, also after any intervention on them. Source: Verma and Pearl
//! 1990; Tian and Pearl 2002.

use super::graph::{Graph, Nodes, reachable, without_node};

/// A graph of arrows and bidirected edges between measured variables, which keep their indices in the whole
/// graph.
#[derive(Debug, Clone)]
pub(crate) struct MixedGraph {
    pub nodes: Nodes,
    parents: Vec<Nodes>,
    siblings: Vec<Nodes>,
}

impl MixedGraph {
    /// Returns the latent projection of a graph on the measured variables.
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

    /// Returns the parents of a variable.
    pub fn parents_of(&self, node: usize) -> &Nodes {
        &self.parents[node]
    }

    /// Returns some variables and their parents within a set.
    pub fn with_parents(&self, nodes: &Nodes, subset: &Nodes) -> Nodes {
        let mut with_parents = nodes.clone();
        for &v in nodes {
            with_parents.extend(self.parents[v].intersection(subset));
        }
        with_parents
    }

    /// Returns some variables and all their causes in the subgraph of a set.
    pub fn ancestors(&self, nodes: &Nodes, subset: &Nodes) -> Nodes {
        reachable(nodes, |v| self.parents[v].intersection(subset).copied())
    }

    /// Returns the district (c-component) of a variable in the subgraph of a set: all variables that
    /// bidirected edges connect with it.
    pub fn district(&self, node: usize, subset: &Nodes) -> Nodes {
        reachable(&[node].into(), |v| self.siblings[v].intersection(subset).copied())
    }

    /// Returns the districts of the subgraph of a set, in the order of their first members in `order`.
    pub fn districts(&self, order: &[usize], subset: &Nodes) -> Vec<Nodes> {
        let mut remaining = subset.clone();
        let mut districts = Vec::new();
        for &v in order {
            if remaining.contains(&v) {
                let district = self.district(v, subset);
                remaining = &remaining - &district;
                districts.push(district);
            }
        }
        districts
    }

    /// Returns all variables, causes before their effects; ties go to the first variable in the graph.
    pub fn causal_order(&self) -> Vec<usize> {
        let (mut remaining, mut order) = (self.nodes.clone(), Vec::new());
        while let Some(next) = remaining.iter().copied().find(|&v| self.parents[v].is_disjoint(&remaining)) {
            remaining.remove(&next);
            order.push(next);
        }
        order
    }

    /// Returns the bidirected edges between members of a set, each once.
    pub fn bidirected(&self, subset: &Nodes) -> Vec<(usize, usize)> {
        let mut edges = Vec::new();
        for &a in subset {
            edges.extend(self.siblings[a].intersection(subset).filter(|&&b| a < b).map(|&b| (a, b)));
        }
        edges
    }
}

/// Returns the measured variables that directed paths reach from `from` without passing another measured one.
fn measured_after(graph: &Graph, from: usize, measured: &Nodes) -> Nodes {
    let reached = reachable(&[from].into(), |v| {
        let continues = v == from || !measured.contains(&v);
        graph.children_of(v).iter().copied().filter(move |_| continues)
    });
    without_node(&(&reached & measured), from)
}
