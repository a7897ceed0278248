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
        let is_dependent = |v: usize| !self.separated(to, &[v].into(), &without_node(set, v));
        let nearest: Nodes = set.iter().copied().filter(|&v| kept.contains(&v) || is_dependent(v)).collect();
        let candidates = &nearest - kept;
        pruned(nearest, candidates, |_, smaller| self.separated(from, to, smaller))
    }

    pub(crate) fn path(&self, a: &Nodes, b: &Nodes, conditioning: &Nodes) -> Option<String> {
        path(self, a, b, conditioning).map(|path| path_text(self, &path))
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
    let (is_conditioned, opens_collider, is_goal) =
        (mask(conditioning), mask(&graph.causes(conditioning)), mask(to));
    // A state is a node and whether the ball came from one of its children (0) or parents (1).
    let mut predecessors: Vec<Option<usize>> = vec![None; 2 * n];
    let mut queue: VecDeque<usize> = VecDeque::new();
    for v in from.iter().copied().filter(|&v| !is_conditioned[v]) {
        predecessors[2 * v] = Some(2 * v);
        queue.push_back(2 * v);
    }
    while let Some(state) = queue.pop_front() {
        let (v, came_from_parent) = (state / 2, state % 2 == 1);
        if is_goal[v] && !is_conditioned[v] {
            return Some(trace_back(&predecessors, state));
        }
        let moves_up = if came_from_parent { opens_collider[v] } else { !is_conditioned[v] };
        let parent_states = graph.parents_of(v).iter().filter(|_| moves_up).map(|&parent| 2 * parent);
        let child_states =
            graph.children_of(v).iter().filter(|_| !is_conditioned[v]).map(|&child| 2 * child + 1);
        for next in parent_states.chain(child_states) {
            if predecessors[next].is_none() {
                predecessors[next] = Some(state);
                queue.push_back(next);
            }
        }
    }
    None
}

fn trace_back(predecessors: &[Option<usize>], end: usize) -> Vec<usize> {
    let states =
        std::iter::successors(Some(end), |&state| predecessors[state].filter(|&previous| previous != state));
    let mut trace_back: Vec<usize> = states.map(|state| state / 2).collect();
    trace_back.reverse();
    trace_back
}

/// Writes a path as `statin <- bmi -> volume`, with hidden common causes as `<->`.
fn path_text(graph: &Graph, path: &[usize]) -> String {
    let mut text = String::new();
    for (i, &v) in path.iter().enumerate() {
        let is_end = i == 0 || i + 1 == path.len();
        if graph.is_hidden(v) && !is_end {
            text += " <-> ";
            continue;
        }
        if let Some(&previous) = i.checked_sub(1).and_then(|j| path.get(j)) {
            let after_hidden = graph.is_hidden(previous) && i > 1;
            let arrow = if graph.children_of(previous).contains(&v) { " -> " } else { " <- " };
            text += if after_hidden { "" } else { arrow };
        }
        text += graph.name(v);
    }
    text
}
