//! Averages of memberships over the local maxima of the bound.
//!
//! The variational posterior of one maximum is nearly certain of every membership. If other maxima are nearly
//! as high, the data do not decide between them. The bound at a maximum is about the logarithm of the
//! posterior mass around it, so maxima are weighted by the exponential of their bounds.

use super::mixture::Mixture;
use crate::linalg::Matrix;

/// Maxima whose bounds differ by less are taken for the same one with other numbers of clusters.
const SAME_BOUND: f64 = 1e-3;

/// Maxima that are lower than the best one by more have hardly any weight.
const MAX_DIFFERENCE: f64 = 5.0;

/// Returns the maxima that are not the same, from the highest one, `best`, without those that are much lower.
pub(super) fn distinct_maxima(best: &Mixture, maxima: &[Mixture]) -> Vec<Mixture> {
    let mut distinct = vec![best.clone()];
    for maximum in maxima {
        let is_known = distinct.iter().any(|known| (known.bound() - maximum.bound()).abs() < SAME_BOUND);
        if !is_known && best.bound() - maximum.bound() < MAX_DIFFERENCE {
            distinct.push(maximum.clone());
        }
    }
    distinct
}

/// Returns the mean memberships of distinct maxima, items × clusters, with the clusters of the first one.
pub(super) fn average_memberships(maxima: &[Mixture]) -> Matrix {
    let best = &maxima[0];
    let weights: Vec<f64> = maxima.iter().map(|m| (m.bound() - best.bound()).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut mean = Matrix::zeros(best.memberships.rows(), best.memberships.cols());
    for (maximum, weight) in maxima.iter().zip(&weights) {
        mean.add_times(weight / total, &match_clusters(&maximum.memberships, &best.memberships));
    }
    mean
}

/// Returns memberships with their clusters in the order of those of `reference` that they overlap most with.
fn match_clusters(memberships: &Matrix, reference: &Matrix) -> Matrix {
    let count = reference.cols();
    let overlap = reference.transpose().matmul(memberships);
    let mut pairs: Vec<(usize, usize)> = (0..count * count).map(|k| (k / count, k % count)).collect();
    pairs.sort_by(|&a, &b| overlap[b].total_cmp(&overlap[a]));
    let mut cluster_of = vec![None; count];
    for (cluster, other) in pairs {
        if cluster_of[cluster].is_none() && !cluster_of.contains(&Some(other)) {
            cluster_of[cluster] = Some(other);
        }
    }
    let entry = |i: usize, c: usize| cluster_of[c].map_or(0.0, |other| memberships[(i, other)]);
    Matrix::from_fn(memberships.rows(), count, entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maximum(labels: &[usize], bound: f64) -> Mixture {
        let memberships = Matrix::from_fn(labels.len(), 3, |i, c| f64::from(u8::from(labels[i] == c)));
        Mixture { memberships, bounds: vec![bound] }
    }

    #[test]
    fn memberships_are_weighted_by_bounds_and_clusters_are_matched() {
        let best = maximum(&[0, 0, 1, 1, 2, 2], -5.0);
        // The second has another label for the third item, and other numbers of clusters; the third is the
        // best one with other numbers, and the last is too low.
        let maxima = [
            best.clone(),
            maximum(&[2, 2, 2, 0, 1, 1], -6.0),
            maximum(&[1, 1, 0, 0, 2, 2], -5.0),
            maximum(&[0, 1, 2, 0, 1, 2], -40.0),
        ];
        let mean = average_memberships(&distinct_maxima(&best, &maxima));
        let other = 1.0 / (1.0 + 1_f64.exp());
        for (i, expected) in [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [other, 1.0 - other, 0.0]].iter().enumerate()
        {
            (0..3).for_each(|c| assert!((mean[(i, c)] - expected[c]).abs() < 1e-12, "{i} {c}"));
        }
        assert!((3..6).all(|i| (mean[(i, [1, 2, 2][i - 3])] - 1.0).abs() < 1e-12));
    }
}
