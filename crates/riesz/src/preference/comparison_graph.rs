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

/// Returns for each item the ends of the edges that start at it.
pub(super) fn adjacency(items: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new(); items];
    edges.into_iter().for_each(|(from, to)| out[from].push(to));
    out
}

/// Returns the items that can be reached from `start`, ascending.
pub(super) fn reachable(start: usize, neighbours: &[Vec<usize>]) -> Vec<usize> {
    let (mut visited, mut stack) = (vec![false; neighbours.len()], vec![start]);
    visited[start] = true;
    while let Some(item) = stack.pop() {
        for &neighbour in &neighbours[item] {
            if !std::mem::replace(&mut visited[neighbour], true) {
                stack.push(neighbour);
            }
        }
    }
    (0..visited.len()).filter(|&item| visited[item]).collect()
}
