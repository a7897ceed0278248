//! The likelihood of choices from sets of options: the multinomial logit model (Luce 1959), which for
//! rankings is that of Plackett (1975), and for several options that are chosen together the conditional
//! likelihood of logistic regression (Cox 1972).

use std::collections::BTreeMap;

use super::subsets::{covariance_trace_gradient, inclusion_probabilities, joint_inclusion, log_total};
use super::{JointLikelihood, LocalCurvature};
use crate::error::Result;
use crate::linalg::{Matrix, Sparse, symmetric_eigen};

/// A linear function of latent quantities: their indices and coefficients.
pub type LinearForm = Vec<(usize, f64)>;

/// The choices of `count` options from a set of options.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionSet {
    /// The score of each option.
    pub scores: Vec<LinearForm>,
    /// The number of options that are chosen together.
    pub count: usize,
    /// For each option, the total weight of the choices that include it.
    pub weights: Vec<f64>,
}

/// Likelihood of choices given latent quantities g (n). With the scores v of options, linear in g, it is
/// `log P = Σ_sets Σ_a w_a v_a - w log e_k(exp v)`, where a is an option of the set, w_a is the weight of the
/// choices that include it, w of all choices, and e_k is the elementary symmetric polynomial of degree k, the
/// number of options that are chosen together. It is concave in g.
pub struct ChoiceLikelihood {
    /// The number of latent quantities n.
    pub latents: usize,
    /// The sets of options.
    pub sets: Vec<OptionSet>,
}

impl OptionSet {
    /// Returns the total weight of the choices from the set.
    fn total_weight(&self) -> f64 {
        self.weights.iter().sum::<f64>() / self.count as f64
    }

    fn score_values(&self, g: &[f64]) -> Vec<f64> {
        self.scores.iter().map(|score| score.iter().map(|(i, c)| c * g[*i]).sum()).collect()
    }

    /// Returns the columns of a matrix S (latent quantities × some) with `S Sᵀ = W` for this set.
    fn root_columns(&self, g: &[f64]) -> Result<Vec<LinearForm>> {
        let values = self.score_values(g);
        let columns = if self.count == 1 {
            multinomial_root(&inclusion_probabilities(&values, 1))
        } else {
            let joint = joint_inclusion(&values, self.count);
            let m = values.len();
            let covariance = Matrix::from_fn(m, m, |a, b| {
                0.5 * (joint[(a, b)] + joint[(b, a)]) - joint[(a, a)] * joint[(b, b)]
            });
            let (eigenvalues, vectors) = symmetric_eigen(&covariance)?;
            // The number of chosen options is fixed, so that one eigenvalue is 0.
            let scaled = |c: usize| {
                let scale = eigenvalues[c].max(0.0).sqrt();
                (0..m).map(|a| scale * vectors[(a, c)]).collect::<Vec<f64>>()
            };
            (0..m).filter(|c| eigenvalues[*c] > 0.0).map(scaled).collect()
        };
        let scale = self.total_weight().sqrt();
        Ok(columns.iter().map(|column| self.in_latents(column, scale)).collect())
    }

    /// Returns `scale Σ_a column_a v_a` as a linear form in the latent quantities.
    fn in_latents(&self, column: &[f64], scale: f64) -> LinearForm {
        let mut out: BTreeMap<usize, f64> = BTreeMap::new();
        for (score, value) in self.scores.iter().zip(column).filter(|(_, value)| **value != 0.0) {
            score.iter().for_each(|(i, c)| *out.entry(*i).or_default() += scale * c * value);
        }
        out.into_iter().collect()
    }
}

/// Returns the columns of a matrix S (options × options - 1) with `S Sᵀ = diag(p) - p pᵀ` for the
/// probabilities p of the options: the Cholesky factor of the covariance of a multinomial distribution
/// (Tanabe and Sagae 1992). With the remaining probability `r_k = p_k + … + p_m` of m options, column k has
/// `√(p_k r_{k+1} / r_k)` in row k and `-p_a √(p_k / (r_k r_{k+1}))` in later rows a.
fn multinomial_root(p: &[f64]) -> Vec<Vec<f64>> {
    let m = p.len();
    let mut remaining = vec![0.0; m + 1];
    (0..m).rev().for_each(|k| remaining[k] = remaining[k + 1] + p[k]);
    let column = |k: usize| {
        let scale =
            if remaining[k + 1] > 0.0 { (p[k] / (remaining[k] * remaining[k + 1])).sqrt() } else { 0.0 };
        let entry = |a: usize| match a.cmp(&k) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => scale * remaining[k + 1],
            std::cmp::Ordering::Greater => -scale * p[a],
        };
        (0..m).map(entry).collect()
    };
    (0..m.saturating_sub(1)).map(column).collect()
}

impl ChoiceLikelihood {
    /// Returns W (n × n), minus the Hessian of the log likelihood at g.
    fn curvature(&self, g: &[f64]) -> Result<Matrix> {
        let mut out = Matrix::zeros(self.latents, self.latents);
        for set in &self.sets {
            for column in set.root_columns(g)? {
                for (i, s) in &column {
                    column.iter().for_each(|(j, t)| out[(*i, *j)] += s * t);
                }
            }
        }
        Ok(out)
    }

    /// Returns the derivatives in g of `-½ tr(C W)`, for a matrix C (n × n) that does not depend on g, such
    /// as the posterior covariance.
    pub fn curvature_trace_gradient(&self, g: &[f64], c: &Matrix) -> Vec<f64> {
        let mut out = vec![0.0; self.latents];
        for set in &self.sets {
            let entry = |a: usize, b: usize| -> f64 {
                let terms = set.scores[a]
                    .iter()
                    .flat_map(|(i, s)| set.scores[b].iter().map(move |(j, t)| s * t * c[(*i, *j)]));
                terms.sum()
            };
            let m = set.scores.len();
            let by_options = Matrix::from_fn(m, m, entry);
            let gradient = covariance_trace_gradient(&set.score_values(g), set.count, &by_options);
            let scale = -0.5 * set.total_weight();
            set.in_latents(&gradient, scale).iter().for_each(|(i, slope)| out[*i] += slope);
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
            let values = set.score_values(g);
            // The part of each chosen option, so that equal large terms cancel.
            let log_total = log_total(&values, set.count) / set.count as f64;
            let terms = values.iter().zip(&set.weights).filter(|(_, w)| **w > 0.0);
            terms.map(|(v, w)| w * (v - log_total)).sum::<f64>()
        };
        self.sets.iter().map(of_set).sum()
    }

    /// Returns the root S of W (n × r), where r is the sum over sets of the number of options minus one, or
    /// n if this is smaller.
    fn local(&self, g: &[f64]) -> Result<LocalCurvature<Sparse>> {
        let mut gradient = vec![0.0; self.latents];
        let mut columns: Vec<LinearForm> = Vec::new();
        for set in &self.sets {
            let (p, w) = (inclusion_probabilities(&set.score_values(g), set.count), set.total_weight());
            let residuals: Vec<f64> = p.iter().zip(&set.weights).map(|(p, chosen)| chosen - w * p).collect();
            set.in_latents(&residuals, 1.0).iter().for_each(|(i, slope)| gradient[*i] += slope);
            columns.extend(set.root_columns(g)?);
        }
        if columns.len() > self.latents {
            let (values, vectors) = symmetric_eigen(&self.curvature(g)?)?;
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
        let of_set = |set: &OptionSet| {
            let forms = set.scores.iter().flatten();
            let coefficients = forms.filter(|(latent, _)| *latent == i).map(|(_, c)| c.abs());
            set.total_weight() * coefficients.sum::<f64>()
        };
        self.sets.iter().map(of_set).sum()
    }
}
