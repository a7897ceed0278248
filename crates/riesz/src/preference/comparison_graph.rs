//! The graph whose nodes are items and whose edges are compared pairs: sums over the edges of each node.

use crate::linalg::Matrix;

/// Adds the number of each pair to the entries of both of its items.
pub(super) fn add_to_both(out: &mut [f64], pairs: &[(usize, usize)], pair_values: &[f64]) {
    for (&(l, r), v) in pairs.iter().zip(pair_values) {
        out[l] += v;
        out[r] += v;
    }
}

/// Adds the number of each pair to the entry of its first item, and subtracts it from that of its second
/// item: the adjoint of taking differences of items.
pub(super) fn add_differences(
    out: &mut [f64],
    pairs: &[(usize, usize)],
    pair_values: impl IntoIterator<Item = f64>,
) {
    for (&(l, r), v) in pairs.iter().zip(pair_values) {
        out[l] += v;
        out[r] -= v;
    }
}

/// Adds the product of a vector and the Laplacian of the graph with these weights of edges. Fastest for pairs
/// that are sorted by their first items.
pub(super) fn add_laplacian_product(
    out: &mut [f64],
    pairs: &[(usize, usize)],
    weights: &[f64],
    vector: &[f64],
) {
    let mut weights = weights.iter();
    for run in pairs.chunk_by(|a, b| a.0 == b.0) {
        let (first, mut sum) = (run[0].0, 0.0);
        for (&(_, second), weight) in run.iter().zip(&mut weights) {
            let flow = weight * (vector[first] - vector[second]);
            sum += flow;
            out[second] -= flow;
        }
        out[first] += sum;
    }
}

/// Returns the Laplacian (items × items) of the graph with these weights of edges.
pub(super) fn laplacian(items: usize, pairs: &[(usize, usize)], weights: &[f64]) -> Matrix {
    let mut out = Matrix::zeros(items, items);
    for (&(l, r), w) in pairs.iter().zip(weights) {
        out[(l, l)] += w;
        out[(r, r)] += w;
        out[(l, r)] -= w;
        out[(r, l)] -= w;
    }
    out
}

/// For each item, the ends of the edges that start at it, in one array for all items.
pub(super) struct Adjacency {
    /// For each item, the index of its first entry in `ends`; and the number of edges.
    starts: Vec<usize>,
    ends: Vec<usize>,
}

impl Adjacency {
    /// Collects edges by the items at which they start; `edges` returns the same edges each time.
    pub fn new<E: Iterator<Item = (usize, usize)>>(items: usize, edges: impl Fn() -> E) -> Self {
        let mut starts = vec![0; items + 1];
        edges().for_each(|(from, _)| starts[from + 1] += 1);
        (0..items).for_each(|item| starts[item + 1] += starts[item]);
        let (mut positions, mut ends) = (starts.clone(), vec![0; starts[items]]);
        for (from, to) in edges() {
            ends[positions[from]] = to;
            positions[from] += 1;
        }
        Self { starts, ends }
    }

    /// Returns the ends of the edges that start at an item, in the order of the edges.
    pub fn ends(&self, item: usize) -> &[usize] {
        &self.ends[self.starts[item]..self.starts[item + 1]]
    }

    /// Returns the items that can be reached from `start`, ascending.
    pub fn reachable(&self, start: usize) -> Vec<usize> {
        let mut visited = vec![false; self.starts.len() - 1];
        let mut stack = vec![start];
        visited[start] = true;
        while let Some(item) = stack.pop() {
            for &neighbour in self.ends(item) {
                if !std::mem::replace(&mut visited[neighbour], true) {
                    stack.push(neighbour);
                }
            }
        }
        (0..visited.len()).filter(|&item| visited[item]).collect()
    }
}
