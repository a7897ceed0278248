//! The likelihood of choices from sets of options: the multinomial logit model (Luce 1959), which for
//! rankings is that of Plackett (1975).

use super::{JointLikelihood, LocalCurvature};
use crate::error::Result;
use crate::linalg::{Matrix, Sparse, symmetric_eigen};

/// The choices from a set of options.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionSet {
    /// The latent quantity of each option; `None` for an option whose latent quantity is 0.
    pub latents: Vec<Option<usize>>,
    /// For each option, the total weight of the choices of it.
    pub weights: Vec<f64>,
}

/// Likelihood of choices given latent quantities g (n), the log odds of each option against one with g = 0:
/// `log P = Σ_sets Σ_a w_a [g_a - log Σ_b exp g_b]`, where a and b are options of the set and w_a is the
/// weight of the choices of a. It is concave in g.
pub struct ChoiceLikelihood {
    /// The number of latent quantities n.
    pub latents: usize,
    /// The sets of options.
    pub sets: Vec<OptionSet>,
}

impl OptionSet {
    fn total_weight(&self) -> f64 {
        self.weights.iter().sum()
    }

    fn latent_values(&self, g: &[f64]) -> Vec<f64> {
        self.latents.iter().map(|latent| latent.map_or(0.0, |i| g[i])).collect()
    }

    /// Returns the columns of a matrix S (options × options - 1) with `S Sᵀ = w (diag(p) - p pᵀ)`, where w is
    /// the total weight and p are the probabilities of the options: the Cholesky factor of the covariance of
    /// a multinomial distribution (Tanabe and Sagae 1992). With the remaining probability `r_k = p_k + … +
    /// p_m` of m options, column k has `√(p_k r_{k+1} / r_k)` in row k and `-p_a √(p_k / (r_k r_{k+1}))` in
    /// later rows a.
    fn root_columns(&self, g: &[f64]) -> Vec<Vec<(usize, f64)>> {
        let (p, w) = (softmax(&self.latent_values(g)), self.total_weight());
        let m = p.len();
        let mut remaining = vec![0.0; m + 1];
        (0..m).rev().for_each(|k| remaining[k] = remaining[k + 1] + p[k]);
        let column = |k: usize| {
            let scale = if remaining[k + 1] > 0.0 {
                (w * p[k] / (remaining[k] * remaining[k + 1])).sqrt()
            } else {
                0.0
            };
            let entry = |a: usize| if a == k { scale * remaining[k + 1] } else { -scale * p[a] };
            (k..m).filter_map(|a| Some((self.latents[a]?, entry(a)))).collect()
        };
        (0..m.saturating_sub(1)).map(column).collect()
    }
}

/// Returns the probabilities `exp g_a / Σ_b exp g_b`.
fn softmax(g: &[f64]) -> Vec<f64> {
    let largest = g.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = g.iter().map(|v| (v - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|v| v / total).collect()
}

/// Returns `log Σ_b exp g_b`, stable for large |g|.
fn log_sum_exp(g: &[f64]) -> f64 {
    let largest = g.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // The largest term is 1; the remaining terms are added to it by ln_1p, which is exact for two options.
    let position = g.iter().position(|v| *v == largest);
    let smaller = g.iter().enumerate().filter(|(a, _)| Some(*a) != position);
    largest + smaller.map(|(_, v)| (v - largest).exp()).sum::<f64>().ln_1p()
}

impl ChoiceLikelihood {
    /// Returns W (n × n), minus the Hessian of the log likelihood at g.
    fn curvature(&self, g: &[f64]) -> Matrix {
        let mut out = Matrix::zeros(self.latents, self.latents);
        for set in &self.sets {
            for column in set.root_columns(g) {
                for (i, s) in &column {
                    column.iter().for_each(|(j, t)| out[(*i, *j)] += s * t);
                }
            }
        }
        out
    }

    /// Returns the derivatives in g of `-½ tr(C W)`, for a matrix C (n × n) that does not depend on g, such
    /// as the posterior covariance. For a set with total weight w, with the diagonal c of C and `q = C p`,
    /// the derivative in g_k is `-½ w p_k (e_k - Σ_a p_a e_a)` with `e = c - 2 q`.
    pub fn curvature_trace_gradient(&self, g: &[f64], c: &Matrix) -> Vec<f64> {
        let mut out = vec![0.0; self.latents];
        for set in &self.sets {
            let p = softmax(&set.latent_values(g));
            let entry = |a: usize, b: usize| match (set.latents[a], set.latents[b]) {
                (Some(i), Some(j)) => c[(i, j)],
                _ => 0.0,
            };
            let e: Vec<f64> = (0..p.len())
                .map(|a| entry(a, a) - 2.0 * (0..p.len()).map(|b| entry(a, b) * p[b]).sum::<f64>())
                .collect();
            let mean: f64 = p.iter().zip(&e).map(|(p, e)| p * e).sum();
            for (a, latent) in set.latents.iter().enumerate() {
                if let Some(k) = latent {
                    out[*k] -= 0.5 * set.total_weight() * p[a] * (e[a] - mean);
                }
            }
        }
        out
    }
}

impl JointLikelihood for ChoiceLikelihood {
    type Root = Sparse;

    fn latents(&self) -> usize {
        self.latents
    }

    fn log_likelihood(&self, g: &[f64]) -> f64 {
        let of_set = |set: &OptionSet| {
            let values = set.latent_values(g);
            let log_total = log_sum_exp(&values);
            let terms = values.iter().zip(&set.weights).filter(|(_, w)| **w > 0.0);
            terms.map(|(v, w)| w * (v - log_total)).sum::<f64>()
        };
        self.sets.iter().map(of_set).sum()
    }

    /// Returns the root S of W (n × r), where r is the sum over sets of the number of options minus one, or
    /// n if this is smaller.
    fn local(&self, g: &[f64]) -> Result<LocalCurvature<Sparse>> {
        let mut gradient = vec![0.0; self.latents];
        for set in &self.sets {
            let (p, w) = (softmax(&set.latent_values(g)), set.total_weight());
            for ((latent, p), chosen) in set.latents.iter().zip(&p).zip(&set.weights) {
                if let Some(i) = latent {
                    gradient[*i] += chosen - w * p;
                }
            }
        }
        let mut columns: Vec<Vec<(usize, f64)>> =
            self.sets.iter().flat_map(|set| set.root_columns(g)).collect();
        if columns.len() > self.latents {
            let (values, vectors) = symmetric_eigen(&self.curvature(g))?;
            let scaled = |c: usize| {
                let scale = values[c].max(0.0).sqrt();
                (0..self.latents).map(|i| (i, scale * vectors[(i, c)])).collect()
            };
            columns = (0..values.len()).map(scaled).collect();
        }
        let mut curved = vec![0.0; self.latents];
        for column in &columns {
            let product: f64 = column.iter().map(|(i, s)| s * g[*i]).sum();
            column.iter().for_each(|(i, s)| curved[*i] += s * product);
        }
        let target = curved.iter().zip(&gradient).map(|(w, d)| w + d).collect();
        Ok(LocalCurvature { gradient, target, root: Sparse::from_columns(self.latents, columns)? })
    }

    fn weight(&self, i: usize) -> f64 {
        let sets = self.sets.iter().filter(|set| set.latents.contains(&Some(i)));
        sets.map(OptionSet::total_weight).sum()
    }
}
