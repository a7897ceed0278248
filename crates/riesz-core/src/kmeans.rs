//! k-means clustering, and the agreement of two partitions.

use rayon::prelude::*;

use crate::linalg::{Matrix, squared_distance};
use crate::random::{Random, RngExt, SeedableRng, hash};

/// Maximum number of steps from each start.
const MAX_STEPS: usize = 300;

/// A partition of the rows of a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct KMeans {
    /// The index of each row's cluster. Clusters are numbered in the order of their first rows.
    pub labels: Vec<usize>,
    /// The sum of squared distances between rows and the means of their clusters.
    pub inertia: f64,
}

impl KMeans {
    /// The best result of Lloyd's algorithm from `starts` random k-means++ initialisations (Arthur and
    /// Vassilvitskii 2007). An empty cluster takes the row that is farthest from its cluster's mean. Cost
    /// O(rows k columns) per step.
    ///
    /// # Panics
    /// If there are no rows, or if k is 0 or exceeds the number of rows.
    pub fn fit(x: &Matrix, k: usize, starts: usize, seed: u64) -> Self {
        Self::with_max_steps(x, k, starts, seed, MAX_STEPS)
    }

    /// Clusters as [`fit`](Self::fit) does, with at most `steps` steps.
    pub fn with_max_steps(x: &Matrix, k: usize, starts: usize, seed: u64, steps: usize) -> Self {
        assert!((1..=x.rows()).contains(&k), "{k} clusters of {} rows", x.rows());
        let run = |start: u64| {
            lloyd(x, kmeanspp_seeds(x, k, &mut Random::seed_from_u64(hash([seed, start]))), steps)
        };
        let runs: Vec<Self> = (0..starts.max(1) as u64).into_par_iter().map(run).collect();
        let first = |best: Self, other: Self| if other.inertia < best.inertia { other } else { best };
        let Self { labels, inertia } =
            runs.into_iter().reduce(first).unwrap_or_else(|| lloyd(x, vec![0], steps));
        Self { labels: renumbered(&labels), inertia }
    }
}

/// Initial centres by k-means++: each row is drawn with a probability proportional to its squared distance
/// from the nearest earlier one.
fn kmeanspp_seeds(x: &Matrix, k: usize, random: &mut Random) -> Vec<usize> {
    let mut chosen = vec![random.random_range(0..x.rows())];
    let mut nearest_square = vec![f64::INFINITY; x.rows()];
    while chosen.len() < k {
        let newest = chosen[chosen.len() - 1];
        nearest_square.iter_mut().enumerate().for_each(|(i, nearest_square)| {
            *nearest_square = nearest_square.min(squared_distance(x.row(i), x.row(newest)))
        });
        let mut threshold = random.random::<f64>() * nearest_square.iter().sum::<f64>();
        let drawn = nearest_square.iter().position(|nearest_square| {
            threshold -= nearest_square;
            threshold < 0.0
        });
        // If all remaining rows equal a chosen one, no row is drawn: take the first row that is not chosen
        // yet.
        let next = drawn.or_else(|| (0..x.rows()).find(|i| !chosen.contains(i)));
        chosen.push(next.unwrap_or(0));
    }
    chosen
}

fn lloyd(x: &Matrix, chosen: Vec<usize>, steps: usize) -> KMeans {
    let (n, k) = (x.rows(), chosen.len());
    let mut centers: Vec<Vec<f64>> = chosen.iter().map(|&i| x.row(i).to_vec()).collect();
    let mut labels = vec![usize::MAX; n];
    for _ in 0..steps {
        let nearest = |i: usize| {
            let mut best = (0, f64::INFINITY);
            for (c, center) in centers.iter().enumerate() {
                let distance = squared_distance(x.row(i), center);
                if distance < best.1 {
                    best = (c, distance);
                }
            }
            best.0
        };
        let mut next: Vec<usize> = (0..n).into_par_iter().map(nearest).collect();
        let mut filled = vec![false; k];
        next.iter().for_each(|&c| filled[c] = true);
        for empty in 0..k {
            if !filled[empty] {
                let shared = |i: &usize| next.iter().filter(|l| **l == next[*i]).count() > 1;
                let distance_to_center = |i: &usize| squared_distance(x.row(*i), &centers[next[*i]]);
                if let Some(farthest) = (0..n)
                    .filter(shared)
                    .max_by(|a, b| distance_to_center(a).total_cmp(&distance_to_center(b)))
                {
                    next[farthest] = empty;
                }
            }
        }
        if next == labels {
            break;
        }
        labels = next;
        let mut members = vec![Vec::new(); k];
        labels.iter().enumerate().for_each(|(i, &c)| members[c].push(i));
        for (cluster_members, center) in members.iter().zip(&mut centers) {
            for (j, value) in center.iter_mut().enumerate() {
                *value = cluster_members.iter().map(|&i| x[(i, j)]).sum::<f64>()
                    / cluster_members.len().max(1) as f64;
            }
        }
    }
    let inertia = labels.iter().enumerate().map(|(i, &c)| squared_distance(x.row(i), &centers[c])).sum();
    KMeans { labels, inertia }
}

/// The labels, renumbered in the order in which they first occur.
pub fn renumbered(labels: &[usize]) -> Vec<usize> {
    let order = order(labels);
    labels.iter().map(|l| order.iter().position(|o| o == l).unwrap_or(0)).collect()
}

/// The labels that occur, in the order of their first members.
pub fn order(labels: &[usize]) -> Vec<usize> {
    let mut order = Vec::new();
    labels.iter().for_each(|l| {
        if !order.contains(l) {
            order.push(*l);
        }
    });
    order
}

/// The adjusted Rand index of two partitions of the same elements, corrected for chance (Hubert and Arabie
/// 1985). It is 1 for equal partitions, and 0 on average for random ones.
///
/// # Panics
/// If the partitions have different numbers of elements.
pub fn adjusted_rand(a: &[usize], b: &[usize]) -> f64 {
    assert_eq!(a.len(), b.len(), "partitions of the same things");
    let pairs = |count: usize| (count * count.saturating_sub(1)) as f64 / 2.0;
    let (a, b) = (renumbered(a), renumbered(b));
    let cluster_count = |l: &[usize]| l.iter().max().map_or(0, |m| m + 1);
    let mut table = Matrix::zeros(cluster_count(&a), cluster_count(&b));
    a.iter().zip(&b).for_each(|(&i, &j)| table[(i, j)] += 1.0);
    let sum = |counts: Vec<f64>| counts.into_iter().map(|c| pairs(c as usize)).sum::<f64>();
    let joint_pairs = sum(table.data().to_vec());
    let rows = sum((0..table.rows()).map(|i| table.row(i).iter().sum()).collect());
    let cols = sum((0..table.cols()).map(|j| table.column(j).iter().sum()).collect());
    let (expected, largest) = (rows * cols / pairs(a.len()).max(1.0), 0.5 * (rows + cols));
    // Both partitions are a single cluster, or both consist of singletons.
    if largest == expected { 1.0 } else { (joint_pairs - expected) / (largest - expected) }
}
