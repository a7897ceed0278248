//! Clusters by the singular vectors of log odds or of the comparisons themselves, as published, and by
//! spectral clustering of their absolute values.
//!
//! If items of different clusters are not comparable, the matrix of log odds is block diagonal up to the
//! order of items. With a utility in each block, its rank is 2 per cluster. The singular values of a skew
//! matrix are equal in pairs. Here the pair of cluster c has the value n_c times the standard deviation of
//! the utility within c, where n_c is the number of its items. Only the space that both vectors of a pair
//! span is determined, so a pair is never split.

use crate::error::{Error, Result};
use crate::linalg::{Matrix, symmetric_eigen};

/// Returns the singular values of a skew matrix, descending, and the right singular vectors of the first
/// `2 clusters` of them (rows × 2 clusters). Cost O(N³).
///
/// # Errors
/// [`Error::Parameter`] if there are fewer singular values; [`Error::Overflow`].
pub fn singular_vectors(skew: &Matrix, clusters: usize) -> Result<(Vec<f64>, Matrix)> {
    let n = skew.rows();
    let n_vectors = 2 * clusters;
    if n_vectors > n {
        let allowed = format!("each cluster needs two singular vectors, and {n} items have {n}");
        return Err(Error::parameter("clusters", clusters, allowed));
    }
    let (values, vectors) = symmetric_eigen(&skew.transpose().matmul(skew))?;
    let singular = values.iter().rev().map(|v| v.max(0.0).sqrt()).collect();
    Ok((singular, last_columns(&vectors, n_vectors)))
}

/// Returns the last columns, the last one first.
fn last_columns(vectors: &Matrix, n_vectors: usize) -> Matrix {
    Matrix::from_fn(vectors.rows(), n_vectors, |i, c| vectors[(i, vectors.cols() - 1 - c)])
}

/// Returns the coordinates of the items for spectral clustering by an affinity ≥ 0. They are the first
/// eigenvectors of the normalised graph, divided by the square roots of degrees (Shi and Malik 2000; Ng,
/// Jordan and Weiss 2002), as in scikit-learn's `spectral_embedding` with `drop_first=False`. Cost O(N³).
///
/// # Errors
/// [`Error::Overflow`].
pub fn spectral_embedding(affinity: &Matrix, clusters: usize) -> Result<Matrix> {
    let n = affinity.rows();
    let mut normalised = affinity.clone();
    (0..n).for_each(|i| normalised[(i, i)] = 0.0);
    let degree = |i: usize| normalised.row(i).iter().sum::<f64>();
    let root: Vec<f64> = (0..n).map(|i| Some(degree(i).sqrt()).filter(|d| *d > 0.0).unwrap_or(1.0)).collect();
    for i in 0..n {
        normalised.row_mut(i).iter_mut().zip(&root).for_each(|(v, r)| *v /= r * root[i]);
    }
    let (_, vectors) = symmetric_eigen(&normalised)?;
    let mut out = last_columns(&vectors, clusters);
    for i in 0..n {
        out.row_mut(i).iter_mut().for_each(|v| *v /= root[i]);
    }
    Ok(out)
}
