//! Class probabilities as functions of a classifier's outputs: the logistic function, softmax, and Platt's
//! scaling of decision values with pairwise coupling, as in LIBSVM.
//!
//! Sources: Platt, "Probabilistic outputs for support vector machines" (2000); Wu, Lin and Weng, "Probability
//! estimates for multi-class classification by pairwise coupling" (JMLR 2004), second method.

use crate::kernel_model::{KernelExpansion, Link, logistic, normalize_to_one};
use crate::linalg::index_pairs;

/// LIBSVM's minimal distance of pairwise probabilities from 0 and 1.
const MIN_PROBABILITY: f64 = 1e-7;

/// The function from a row of outputs to the probabilities of the classes.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbabilityLink {
    /// One output: the log odds of the second of two classes.
    Logistic,
    /// One output per class: logarithms of unnormalised probabilities.
    Softmax,
    /// One decision value per pair of classes.
    Platt(PlattScaling),
}

/// Platt's scaling: the first class of pair p wins with probability `1/(1 + exp(slope_p f_p + offset_p))`,
/// where `f_p` is the decision value of the pair. For three classes or more, LIBSVM's iteration couples the
/// pairs, so the probabilities equal LIBSVM's.
#[derive(Debug, Clone, PartialEq)]
pub struct PlattScaling {
    /// LIBSVM's `probA`, one per pair.
    slope: Vec<f64>,
    /// LIBSVM's `probB`, one per pair.
    offset: Vec<f64>,
    /// The number of classes, at least 2.
    classes: usize,
}

impl PlattScaling {
    /// The scaling stored in a model card as the entries `probA` and `probB`, which come from LIBSVM's files.
    fn from_card(model: &KernelExpansion) -> Option<Self> {
        let classes = model.classes.len();
        let numbers = |name: &str| -> Option<Vec<f64>> {
            let words = model.fact(name)?.split_ascii_whitespace();
            let values: Option<Vec<f64>> = words.map(|word| word.parse().ok()).collect();
            values.filter(|numbers| numbers.len() == model.outputs() && numbers.iter().all(|v| v.is_finite()))
        };
        let (slope, offset) = (numbers("probA")?, numbers("probB")?);
        (classes >= 2).then_some(Self { slope, offset, classes })
    }

    /// The probability that the first class of the pair wins, as LIBSVM computes it.
    fn of_pair(&self, pair: usize, decision: f64) -> f64 {
        let exponent = decision * self.slope[pair] + self.offset[pair];
        let probability = if exponent >= 0.0 {
            (-exponent).exp() / (1.0 + (-exponent).exp())
        } else {
            1.0 / (1.0 + exponent.exp())
        };
        probability.clamp(MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    }

    /// The probabilities of the classes.
    fn probabilities(&self, decisions: &[f64]) -> Vec<f64> {
        let k = self.classes;
        if k == 2 {
            // Of two classes, the second has positive decision values.
            let second = self.of_pair(0, decisions[0]);
            return vec![1.0 - second, second];
        }
        let mut pairwise = vec![0.0; k * k];
        for (pair, (i, j)) in index_pairs(k).enumerate() {
            pairwise[i * k + j] = self.of_pair(pair, decisions[pair]);
            pairwise[j * k + i] = 1.0 - pairwise[i * k + j];
        }
        coupled(&pairwise, k)
    }
}

/// Probabilities p of k classes that minimise `½ Σ_i Σ_{j≠i} (r_ji p_i - r_ij p_j)²` subject to `Σ p = 1`,
/// where r (k × k) holds the pairwise probabilities. The iteration has LIBSVM's start and tolerance. A finer
/// tolerance would give other probabilities than `svm-predict -b 1`, by up to about 0.001.
fn coupled(pairwise: &[f64], k: usize) -> Vec<f64> {
    let mut quadratic = vec![0.0; k * k];
    for i in 0..k {
        for j in (0..k).filter(|j| *j != i) {
            quadratic[i * k + i] += pairwise[j * k + i] * pairwise[j * k + i];
            quadratic[i * k + j] = -pairwise[j * k + i] * pairwise[i * k + j];
        }
    }
    let mut p = vec![1.0 / k as f64; k];
    let tolerance = 0.005 / k as f64;
    for _ in 0..k.max(100) {
        let mut products: Vec<f64> =
            (0..k).map(|i| (0..k).map(|j| quadratic[i * k + j] * p[j]).sum()).collect();
        let mut value: f64 = p.iter().zip(&products).map(|(p, q)| p * q).sum();
        let largest = products.iter().map(|q| (q - value).abs()).fold(0.0, f64::max);
        if largest < tolerance {
            break;
        }
        for i in 0..k {
            let diagonal = quadratic[i * k + i];
            let step = (value - products[i]) / diagonal;
            p[i] += step;
            value = (value + step * (step * diagonal + 2.0 * products[i])) / ((1.0 + step) * (1.0 + step));
            for j in 0..k {
                products[j] = (products[j] + step * quadratic[i * k + j]) / (1.0 + step);
                p[j] /= 1.0 + step;
            }
        }
    }
    p
}

impl ProbabilityLink {
    /// The link of a model whose probabilities depend on the outputs alone; `None` for other models (see
    /// [`Link::LatentLogistic`]).
    pub fn of_model(model: &KernelExpansion) -> Option<Self> {
        match model.link {
            Link::Logistic => Some(Self::Logistic),
            Link::Softmax => Some(Self::Softmax),
            Link::Vote => PlattScaling::from_card(model).map(Self::Platt),
            Link::Identity
            | Link::Log
            | Link::Logit
            | Link::LatentLogistic
            | Link::LatentOneVsRest
            | Link::LatentRaoKupper { .. } => None,
        }
    }

    /// Probabilities of the classes for one row of outputs.
    pub fn probabilities(&self, outputs: &[f64]) -> Vec<f64> {
        match self {
            Self::Logistic => {
                let p = logistic(outputs[0]);
                vec![1.0 - p, p]
            }
            Self::Softmax => {
                let top = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = outputs.iter().map(|o| (o - top).exp()).collect();
                normalize_to_one(&weights)
            }
            Self::Platt(scaling) => scaling.probabilities(outputs),
        }
    }

    /// The largest change of a probability relative to the largest change of an output. `None` if an
    /// iteration couples the pairs: it stops at a tolerance, so its result is discontinuous.
    pub fn steepness(&self) -> Option<f64> {
        match self {
            Self::Logistic | Self::Softmax => Some(0.5),
            Self::Platt(scaling) => (scaling.classes == 2).then(|| 0.25 * scaling.slope[0].abs()),
        }
    }

    /// A bound on the change of a probability by rounding inside the link, which for Platt's scaling is the
    /// rounding of the exponent. A few roundings of the probability itself are not included.
    pub fn rounding(&self, outputs: &[f64]) -> f64 {
        match self {
            Self::Platt(scaling) if scaling.classes == 2 => {
                let product = (scaling.slope[0] * outputs[0]).abs();
                0.25 * f64::EPSILON * (2.0 * product + scaling.offset[0].abs())
            }
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The minimiser in closed form: the solution of the linear system of the Lagrange conditions.
    fn minimiser(pairwise: &[f64], k: usize) -> Vec<f64> {
        use faer::prelude::Solve;
        let mut system = faer::Mat::<f64>::zeros(k + 1, k + 1);
        for i in 0..k {
            for j in (0..k).filter(|j| *j != i) {
                system[(i, i)] += pairwise[j * k + i].powi(2);
                system[(i, j)] = -pairwise[j * k + i] * pairwise[i * k + j];
            }
            (system[(i, k)], system[(k, i)]) = (1.0, 1.0);
        }
        let right = faer::Mat::from_fn(k + 1, 1, |i, _| f64::from(u8::from(i == k)));
        let solved = system.full_piv_lu().solve(&right);
        (0..k).map(|i| solved[(i, 0)]).collect()
    }

    #[test]
    fn coupling_is_near_the_minimiser() {
        for (k, seed) in [(3, 1.0_f64), (4, 2.0), (6, 3.0)] {
            let mut pairwise = vec![0.0; k * k];
            for i in 0..k {
                for j in i + 1..k {
                    pairwise[i * k + j] = 0.5 + 0.45 * (seed + 7.0 * i as f64 + 3.0 * j as f64).sin();
                    pairwise[j * k + i] = 1.0 - pairwise[i * k + j];
                }
            }
            let probabilities = coupled(&pairwise, k);
            assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-14);
            for (actual, exact) in probabilities.iter().zip(minimiser(&pairwise, k)) {
                assert!((actual - exact).abs() < 0.01, "{actual} {exact}");
            }
        }
    }
}
