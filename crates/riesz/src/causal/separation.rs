//! d-separation by the Bayes ball, with the open path.

use std::collections::VecDeque;

use super::graph::{Graph, Nodes, pruned, without_node};
use crate::error::Result;

impl Graph {
    /// Whether the graph implies that `a` and `b` are independent given `conditioning` (d-separation by the
    /// Bayes ball in O(variables + arrows): Shachter 1998). Conditioning variables are ignored in `a` and
    /// `b`.
    ///
    /// # Errors
    /// [`IdentificationError::UnknownVariable`](crate::causal::IdentificationError::UnknownVariable).
    pub fn d_separated<S: AsRef<str>>(&self, a: &[S], b: &[S], conditioning: &[S]) -> Result<bool> {
        Ok(self.separated(&self.node_indices(a)?, &self.node_indices(b)?, &self.node_indices(conditioning)?))
    }

    /// Returns a shortest path that leaves `a` and `b` dependent given `conditioning`, such as `statin <- bmi
    /// -> volume`; `None` if they are d-separated.
    ///
    /// # Errors
    /// [`IdentificationError::UnknownVariable`](crate::causal::IdentificationError::UnknownVariable).
    pub fn open_path<S: AsRef<str>>(&self, a: &[S], b: &[S], conditioning: &[S]) -> Result<Option<String>> {
        Ok(self.path(&self.node_indices(a)?, &self.node_indices(b)?, &self.node_indices(conditioning)?))
    }

    pub(crate) fn separated(&self, a: &Nodes, b: &Nodes, conditioning: &Nodes) -> bool {
        path(self, a, b, conditioning).is_none()
    }

    /// Reduces a set that separates two sets of nodes to the separating set next to `to`, which keeps all
    /// members of `kept`. Adjusting close to the outcome has the lowest variance (Henckel, Perković and
    /// Maathuis 2022; Rotnitzky and Smucler 2020). All candidates are causes, and a separating set of causes
    /// stays separating when causes are added. Removing one variable after another therefore ends at a
    /// minimal set.
    pub(crate) fn nearest_separator(&self, from: &Nodes, to: &Nodes, set: &Nodes, kept: &Nodes) -> Nodes {
        let touches = |v: usize| !self.separated(to, &[v].into(), &without_node(set, v));
        let near: Nodes = set.iter().copied().filter(|&v| kept.contains(&v) || touches(v)).collect();
        let candidates = &near - kept;
        pruned(near, candidates, |_, less| self.separated(from, to, less))
    }

    pub(crate) fn path(&self, a: &Nodes, b: &Nodes, conditioning: &Nodes) -> Option<String> {
        path(self, a, b, conditioning).map(|path| words(self, &path))
    }
}

/// Returns a shortest path that is open given `conditioning`, from a node of `from` to a node of `to`; `None`
/// if the two are d-separated. Conditioning nodes are ignored in `from` and `to`.
///
/// The ball moves along arrows in either direction. At an unconditioned node it goes on, unless it arrives
/// and would leave along arrows that both point to the node (a collider). At a collider it goes on if the
/// node or an effect of it is conditioned on. Each node is visited at most once from above and once from
/// below: O(nodes + arrows). A shortest such walk visits no node twice.
fn path(graph: &Graph, from: &Nodes, to: &Nodes, conditioning: &Nodes) -> Option<Vec<usize>> {
    let n = graph.nodes();
    let mask = |nodes: &Nodes| {
        let mut is_in = vec![false; n];
        nodes.iter().for_each(|&v| is_in[v] = true);
        is_in
    };
    let (is_given, opens, is_goal) = (mask(conditioning), mask(&graph.causes(conditioning)), mask(to));
    // A state is a node and whether the ball came from one of its children (0) or parents (1).
    let mut came: Vec<Option<usize>> = vec![None; 2 * n];
    let mut open: VecDeque<usize> = VecDeque::new();
    for v in from.iter().copied().filter(|&v| !is_given[v]) {
        came[2 * v] = Some(2 * v);
        open.push_back(2 * v);
    }
    while let Some(state) = open.pop_front() {
        let (v, from_parent) = (state / 2, state % 2 == 1);
        if is_goal[v] && !is_given[v] {
            return Some(way(&came, state));
        }
        let up = if from_parent { opens[v] } else { !is_given[v] };
        let ups = graph.parents_of(v).iter().filter(|_| up).map(|&parent| 2 * parent);
        let downs = graph.children_of(v).iter().filter(|_| !is_given[v]).map(|&child| 2 * child + 1);
        for next in ups.chain(downs) {
            if came[next].is_none() {
                came[next] = Some(state);
                open.push_back(next);
            }
        }
    }
    None
}

fn way(came: &[Option<usize>], end: usize) -> Vec<usize> {
    let states = std::iter::successors(Some(end), |&state| came[state].filter(|&before| before != state));
    let mut way: Vec<usize> = states.map(|state| state / 2).collect();
    way.reverse();
    way
}

/// Writes a path as `statin <- bmi -> volume`, with hidden common causes as `<->`.
fn words(graph: &Graph, path: &[usize]) -> String {
    let mut text = String::new();
    for (i, &v) in path.iter().enumerate() {
        let ends = i == 0 || i + 1 == path.len();
        if graph.is_hidden(v) && !ends {
            text += " <-> ";
            continue;
        }
        if let Some(&before) = i.checked_sub(1).and_then(|j| path.get(j)) {
            let after_hidden = graph.is_hidden(before) && i > 1;
            let arrow = if graph.children_of(before).contains(&v) { " -> " } else { " <- " };
            text += if after_hidden { "" } else { arrow };
        }
        text += graph.name(v);
    }
    text
}
