//! Features of targets that an observation operator B (bags × targets) computes from bags. The sums with
//! points are `BᵀΦ`. The unexplained variances need `diag BᵀUB`, where `U = PᵀK(X, X)P` (bags × bags).
//!
//! U is exact for up to 50,000 rows. For more rows, only its diagonal is exact. The other entries are means
//! over a few samples of rows, which are drawn for each bag in proportion to their weights, with a seed. The
//! estimate for each pair of bags is unbiased. The samples stay the same while parameters are tuned, and
//! their differences give the standard error of the evidence.

use std::sync::atomic::AtomicBool;

use super::bag_features::BagFeatures;
use crate::aggregate::bag_gram::BagRows;
use crate::aggregate::observation_operator::ObservationOperator;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::{Matrix, add_to, dot};
use crate::random::{Random, SeedableRng};

/// The number of rows above which rows are sampled.
const MAX_EXACT_ROWS: usize = 50_000;

/// The number of samples, and the number of rows in each, at least one per bag.
const SAMPLE_COUNT: usize = 4;
const SAMPLE_ROWS: usize = 10_000;

/// Samples of rows for the covariances of different bags; empty where all rows are used.
pub(super) struct RowSamples(pub Vec<BagRows>);

impl RowSamples {
    pub fn new(rows: &BagRows, seed: u64) -> Self {
        let mut random = Random::seed_from_u64(seed);
        let large = rows.weights.len() > MAX_EXACT_ROWS;
        Self((0..SAMPLE_COUNT).filter(|_| large).map(|_| rows.sample(SAMPLE_ROWS, &mut random)).collect())
    }

    fn samples_or_all<'r>(&'r self, rows: &'r BagRows) -> impl Iterator<Item = &'r BagRows> {
        let all_rows = self.0.is_empty().then_some(rows);
        all_rows.into_iter().chain(&self.0)
    }

    /// Returns U under each of the samples, with the given diagonal.
    pub fn sampled_covariances<'r>(
        &'r self,
        rows: &'r BagRows,
        diagonal: &'r [f64],
        kernel: &'r Kernel,
        stop: &'r AtomicBool,
    ) -> impl Iterator<Item = Result<Matrix>> {
        self.samples_or_all(rows).map(move |sample| {
            let mut gram = sample.gram(kernel, stop)?;
            diagonal.iter().enumerate().for_each(|(b, variance)| gram[(b, b)] = *variance);
            Ok(gram)
        })
    }
}

/// The map from bags to targets.
pub(super) struct MediatedFeatures {
    pub operator: ObservationOperator,
    /// Bᵀ (targets × bags).
    weights: Matrix,
    pub samples: RowSamples,
}

impl MediatedFeatures {
    pub fn new(operator: &ObservationOperator, rows: &BagRows, seed: u64) -> Self {
        let weights = operator.matrix().transpose();
        Self { operator: operator.clone(), weights, samples: RowSamples::new(rows, seed) }
    }

    /// Replaces Φ by `BᵀΦ`, and the prior variances of bags by those of targets.
    pub fn features(
        &self,
        features: BagFeatures,
        rows: &BagRows,
        kernel: &Kernel,
        stop: &AtomicBool,
    ) -> Result<BagFeatures> {
        let (m, diagonal) = (self.weights.rows(), features.bag_variances.column(0));
        let mut priors = Vec::new();
        for gram in self.samples.sampled_covariances(rows, &diagonal, kernel, stop) {
            let product = self.operator.transpose_times(&gram?);
            priors.push((0..m).map(|t| dot(product.row(t), self.weights.row(t))).collect::<Vec<f64>>());
        }
        let mean =
            |t: usize| priors.iter().map(|sample_priors| sample_priors[t]).sum::<f64>() / priors.len() as f64;
        let prior = (0..m).map(mean).collect();
        let phi = self.operator.transpose_times(&features.phi);
        Ok(BagFeatures { phi, prior, priors, ..features })
    }

    /// Returns `B γ Bᵀ` (bags × bags), the derivatives of a function in U, given its derivatives γ in the
    /// unexplained variances of targets.
    pub fn grad_bag_covariance(&self, by_variance: &[f64]) -> Matrix {
        let mut scaled = self.weights.clone();
        scaled.scale_rows(by_variance.iter().copied());
        self.weights.transpose().matmul(&scaled)
    }

    /// Returns the gradient of `Σ_bb' weights[b, b'] U[b, b']`, over pairs of different bags, in the kernel's
    /// parameters.
    pub fn gradient(
        &self,
        rows: &BagRows,
        kernel: &Kernel,
        mut pair_weights: Matrix,
        stop: &AtomicBool,
    ) -> Result<Vec<f64>> {
        (0..pair_weights.rows()).for_each(|b| pair_weights[(b, b)] = 0.0);
        let count = self.samples.samples_or_all(rows).count() as f64;
        pair_weights.data_mut().iter_mut().for_each(|v| *v /= count);
        let mut total = vec![0.0; kernel.parameters().len()];
        for sample in self.samples.samples_or_all(rows) {
            add_to(&mut total, &sample.gradient(kernel, &pair_weights, stop)?);
        }
        Ok(total)
    }
}
