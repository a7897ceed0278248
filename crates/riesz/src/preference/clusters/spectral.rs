//! Clusters by the singular vectors of log odds or of the comparisons themselves, as published, and by the
//! graph of their sizes.
//!
//! Where items of different clusters are not comparable, the matrix of log odds G is block diagonal up to the
//! order of items; with a utility in each block its rank is 2 a cluster. A skew matrix has its singular
//! values in equal pairs, here n_c times the standard deviation of the utility within c, and a pair spans
//! what both of its vectors make together: it is never split.

use crate::error::{Error, Result};
use crate::linalg::{Matrix, symmetric_eigen};

/// The singular values of a skew matrix, descending, and right singular vectors that belong to the first
/// `2 clusters` of them (rows × that many columns). Cost O(N³).
///
/// # Errors
/// [`Error::Parameter`] if there are not so many; [`Error::Overflow`].
pub fn singular_vectors(skew: &Matrix, clusters: usize) -> Result<(Vec<f64>, Matrix)> {
    let n = skew.rows();
    let kept = 2 * clusters;
    if kept > n {
        let allowed = format!("each takes two singular vectors, of which {n} items have {n}");
        return Err(Error::parameter("clusters", clusters, allowed));
    }
    let (values, vectors) = symmetric_eigen(&skew.transpose().matmul(skew))?;
    let singular = values.iter().rev().map(|v| v.max(0.0).sqrt()).collect();
    Ok((singular, last_columns(&vectors, kept)))
}

/// The last columns, the last one first.
fn last_columns(vectors: &Matrix, kept: usize) -> Matrix {
    let n = vectors.rows();
    let data = (0..n).flat_map(|i| (0..kept).map(move |c| vectors[(i, vectors.cols() - 1 - c)])).collect();
    Matrix::from_row_major(n, kept, data)
}

/// Where the items lie for spectral clustering by an affinity ≥ 0: the first eigenvectors of the normalised
/// graph, each over the roots of degrees (Shi and Malik 2000; Ng, Jordan and Weiss 2002), as scikit-learn's
/// `spectral_embedding` with `drop_first=False`. Cost O(N³).
///
/// # Errors
/// [`Error::Overflow`].
pub fn spectral_embedding(affinity: &Matrix, clusters: usize) -> Result<Matrix> {
    let n = affinity.rows();
    let mut normal = affinity.clone();
    (0..n).for_each(|i| normal[(i, i)] = 0.0);
    let degree = |i: usize| normal.row(i).iter().sum::<f64>();
    let root: Vec<f64> = (0..n).map(|i| Some(degree(i).sqrt()).filter(|d| *d > 0.0).unwrap_or(1.0)).collect();
    for i in 0..n {
        normal.row_mut(i).iter_mut().zip(&root).for_each(|(v, r)| *v /= r * root[i]);
    }
    let (_, vectors) = symmetric_eigen(&normal)?;
    let mut out = last_columns(&vectors, clusters);
    for i in 0..n {
        out.row_mut(i).iter_mut().for_each(|v| *v /= root[i]);
    }
    Ok(out)
}
