//! Targets that are made of bags by a matrix B, as mediators make them: sums with points are `BᵀΦ`, and what
//! points leave unexplained takes `diag BᵀUB` with `U = PᵀK(X, X)P` between all bags.
//!
//! U is exact up to some tens of thousands of rows. Beyond, its diagonal is, and the rest is the mean over a
//! few samples of rows, drawn by a seed for each bag by their weights: no pair of bags is estimated with a
//! bias, the samples stay the same while parameters are tuned, and how they differ says how well the evidence
//! is known.

use std::sync::atomic::AtomicBool;

use super::features::Features;
use crate::aggregate::bag_gram::BagRows;
use crate::aggregate::observation_operator::ObservationOperator;
use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::{Matrix, dot};
use crate::random::{Random, SeedableRng};

/// More rows are sampled.
const MOST: usize = 50_000;

/// So many samples, of so many rows each or one a bag.
const SAMPLES: usize = 4;
const SAMPLE: usize = 10_000;

/// Rows that stand for pairs of different bags: all, or samples of them.
pub(super) struct Pairs(pub Vec<BagRows>);

impl Pairs {
    pub fn new(rows: &BagRows, seed: u64) -> Self {
        let mut random = Random::seed_from_u64(seed);
        let large = rows.weights.len() > MOST;
        Self((0..SAMPLES).filter(|_| large).map(|_| rows.sample(SAMPLE, &mut random)).collect())
    }

    fn each<'r>(&'r self, rows: &'r BagRows) -> impl Iterator<Item = &'r BagRows> {
        let all = self.0.is_empty().then_some(rows);
        all.into_iter().chain(&self.0)
    }

    /// U by each of the samples, of which the diagonal is known.
    pub fn grams<'r>(
        &'r self,
        rows: &'r BagRows,
        diagonal: &'r [f64],
        kernel: &'r Kernel,
        stop: &'r AtomicBool,
    ) -> impl Iterator<Item = Result<Matrix>> {
        self.each(rows).map(move |sample| {
            let mut gram = sample.gram(kernel, stop)?;
            diagonal.iter().enumerate().for_each(|(b, own)| gram[(b, b)] = *own);
            Ok(gram)
        })
    }
}

/// How targets are made of bags.
pub(super) struct Through {
    pub operator: ObservationOperator,
    /// Bᵀ, targets × bags.
    weights: Matrix,
    pub pairs: Pairs,
}

impl Through {
    pub fn new(operator: &ObservationOperator, rows: &BagRows, seed: u64) -> Self {
        let weights = operator.matrix().transpose();
        Self { operator: operator.clone(), weights, pairs: Pairs::new(rows, seed) }
    }

    /// `BᵀΦ` instead of Φ, and what is known before of targets instead of bags.
    pub fn features(
        &self,
        features: Features,
        rows: &BagRows,
        kernel: &Kernel,
        stop: &AtomicBool,
    ) -> Result<Features> {
        let (m, diagonal) = (self.weights.rows(), features.own.column(0));
        let mut priors = Vec::new();
        for gram in self.pairs.grams(rows, &diagonal, kernel, stop) {
            let half = self.operator.transpose_times(&gram?);
            priors.push((0..m).map(|t| dot(half.row(t), self.weights.row(t))).collect::<Vec<f64>>());
        }
        let mean = |t: usize| priors.iter().map(|own| own[t]).sum::<f64>() / priors.len() as f64;
        let prior = (0..m).map(mean).collect();
        let phi = self.operator.transpose_times(&features.phi);
        Ok(Features { phi, prior, priors, ..features })
    }

    /// `B γ Bᵀ`, what U moves, with what gaps of targets do.
    pub fn by_gram(&self, by_gap: &[f64]) -> Matrix {
        let mut scaled = self.weights.clone();
        for (t, by) in by_gap.iter().enumerate() {
            scaled.row_mut(t).iter_mut().for_each(|v| *v *= by);
        }
        self.weights.transpose().matmul(&scaled)
    }

    /// The slopes of `Σ_bb' by[b, b'] U[b, b']` over pairs of different bags.
    pub fn gradient(
        &self,
        rows: &BagRows,
        kernel: &Kernel,
        mut by: Matrix,
        stop: &AtomicBool,
    ) -> Result<Vec<f64>> {
        (0..by.rows()).for_each(|b| by[(b, b)] = 0.0);
        let count = self.pairs.each(rows).count() as f64;
        by.data_mut().iter_mut().for_each(|v| *v /= count);
        let mut total = vec![0.0; kernel.parameters().len()];
        for sample in self.pairs.each(rows) {
            let own = sample.gradient(kernel, &by, stop)?;
            total.iter_mut().zip(own).for_each(|(t, v)| *t += v);
        }
        Ok(total)
    }
}
