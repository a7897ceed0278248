//! What is regressed on mediators, covariates that bags with rows and targets without rows both have, and
//! how.

use super::row_bags::Bags;
use crate::error::{Error, Result};
use crate::fit::positive;
use crate::kernel::{Kernel, Parameter};
use crate::linalg::{Cholesky, Matrix};
use crate::table::Table;

/// What a bag counts in the regression on mediators: its ridge is λ Σ counts / its own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BagWeighting {
    /// Its mass: every row is an example (CMP). The same as [`One`](Self::One) where all bags have the same
    /// mass.
    Mass,
    /// One: every bag is an example (S-CMP).
    #[default]
    One,
}

/// What is regressed on mediators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MediationTarget {
    /// What rows of bags are like (CMP, S-CMP).
    #[default]
    Rows,
    /// Targets, of means: `z_j = g(ỹ_j) + ε_j` with a Gaussian process g of mediators, to which means over
    /// bags are tied, `f̄_b = g(y_b) + τ_b`. The variance of τ is the
    /// [`mediation_noise`](super::AggregateGaussianProcess::mediation_noise); where it is 0, the predictions
    /// of g at bags are pseudo-targets, with their covariance. For comparison (ours).
    Targets,
}

/// The regression on mediators.
#[derive(Debug, Clone, PartialEq)]
pub struct Mediation {
    /// ℓ, between mediators. Where rows are regressed its scale is the ridge in disguise: dividing both by it
    /// changes nothing. Where targets are it is the prior variance of g.
    pub kernel: Kernel,
    /// λ > 0; where targets are regressed, the variance of ε.
    pub ridge: f64,
    /// What a bag counts. Where targets are regressed, each counts one.
    pub counts: BagWeighting,
    /// Whether what is regressed are differences from the mean over all bags, weighted by their mass:
    /// constants are kept, where else they shrink (ours). Where targets are regressed, they always are: g has
    /// the mean of f.
    pub centred: bool,
    /// What is regressed.
    pub regressed: MediationTarget,
}

impl Mediation {
    /// S-CMP, centred.
    pub fn new(kernel: Kernel, ridge: f64) -> Self {
        Self { kernel, ridge, counts: BagWeighting::One, centred: true, regressed: MediationTarget::Rows }
    }

    /// Those of the kernel and the logarithm of the ridge.
    pub fn parameters(&self) -> Vec<Parameter> {
        let ridge = Parameter { name: "ridge".into(), log_value: self.ridge.ln() };
        self.kernel.parameters().into_iter().chain([ridge]).collect()
    }

    /// The same with other [`parameters`](Self::parameters).
    ///
    /// # Panics
    /// If their number is another.
    pub fn with_parameters(&self, theta: &[f64]) -> Self {
        let (kernel, ridge) = theta.split_at(theta.len() - 1);
        Self { kernel: self.kernel.with_parameters(kernel), ridge: ridge[0].exp(), ..self.clone() }
    }

    /// In squared units of the targets, of which `variance` is one here: kernel and ridge of targets that are
    /// regressed. Of rows they have no unit.
    pub fn scale_units(self, variance: f64) -> Self {
        match self.regressed {
            MediationTarget::Rows => self,
            MediationTarget::Targets => {
                Self { kernel: variance * self.kernel, ridge: variance * self.ridge, ..self }
            }
        }
    }

    fn ridges(&self, bags: &Bags) -> Vec<f64> {
        let mass = bags.weight_sums();
        match self.counts {
            BagWeighting::Mass => {
                let all: f64 = mass.iter().sum();
                mass.iter().map(|own| self.ridge * all / own).collect()
            }
            BagWeighting::One => vec![self.ridge * mass.len() as f64; mass.len()],
        }
    }

    /// `L + R`, factored.
    pub(super) fn factor(&self, bags: &Bags, mediators: &Table) -> Result<(Cholesky, Vec<f64>)> {
        positive("ridge of the mediators", self.ridge)?;
        self.kernel.validate(mediators.width())?;
        let ridges = self.ridges(bags);
        let mut gram = self.kernel.gram(mediators);
        gram.add_diagonal(|b| ridges[b]);
        if gram.data().iter().any(|v| !v.is_finite()) {
            let remedy = "standardise the mediators or change their kernel's parameters";
            return Err(Error::Overflow { what: "the mediators' kernel".into(), remedy });
        }
        Ok((Cholesky::new(gram, "kernel matrix of mediators plus ridge")?, ridges))
    }

    /// What stage 1 loses when it predicts each bag from all others, `Σ_b ‖μ_b - μ̂_b‖² / J` in the function
    /// space of the kernel of rows, and its slopes by
    /// [`parameters`](Self::parameters). Closed form: with `K = (L + R)⁻¹` the residual is `K_·b / K_bb` over
    /// the bags, and centred minus the others' mean times the sum of that. `gram` is between the bags' means,
    /// J × J. Ridges are those of all bags. Cost J³.
    ///
    /// # Errors
    /// [`Error::TooFew`] for less than two bags; [`Error::Parameter`]; [`Error::Overflow`];
    /// [`Error::NotPositiveDefinite`].
    ///
    /// # Panics
    /// Unless there is a row of mediators, and of `gram`, a bag.
    pub fn loo_loss(&self, bags: &Bags, mediators: &Table, gram: &Matrix) -> Result<(f64, Vec<f64>)> {
        let j = bags.count();
        assert_eq!((j, j, j), (mediators.rows(), gram.rows(), gram.cols()), "one a bag");
        if j < 2 {
            return Err(Error::TooFew { what: "the list of bags".into(), needed: 2, unit: "bags are" });
        }
        let (factor, ridges) = self.factor(bags, mediators)?;
        let inverse = factor.inverse();
        let (mass, all) = (bags.weight_sums(), bags.weight_sums().iter().sum::<f64>());
        // Residuals, one a row, and what is taken of them by centring.
        let mut residuals = inverse.clone();
        for b in 0..j {
            let own = inverse[(b, b)];
            residuals.row_mut(b).iter_mut().for_each(|v| *v /= own);
        }
        let share = |b: usize, c: usize| if c == b { 0.0 } else { mass[c] / (all - mass[b]) };
        let mut centred = residuals.clone();
        for b in (0..j).filter(|_| self.centred) {
            let sum: f64 = residuals.row(b).iter().sum();
            centred.row_mut(b).iter_mut().enumerate().for_each(|(c, v)| *v -= share(b, c) * sum);
        }
        let mut slopes = centred.matmul(gram);
        let loss = crate::linalg::dot(slopes.data(), centred.data()) / j as f64;
        // By residuals, then by the inverse, then by L + R.
        for b in 0..j {
            let row = slopes.row_mut(b);
            let mean: f64 = if self.centred { (0..j).map(|c| share(b, c) * row[c]).sum() } else { 0.0 };
            row.iter_mut().for_each(|v| *v = 2.0 / j as f64 * (*v - mean));
            row[b] -= crate::linalg::dot(residuals.row(b), row);
            row.iter_mut().for_each(|v| *v /= inverse[(b, b)]);
        }
        let by = inverse.matmul(&slopes).matmul(&inverse);
        let mut weights = by.transpose();
        weights.data_mut().iter_mut().zip(by.data()).for_each(|(t, own)| *t = -0.5 * (*t + own));
        let mut gradient = self.kernel.gradient(mediators, &weights);
        gradient.push((0..j).map(|b| weights[(b, b)] * ridges[b]).sum());
        Ok((loss, gradient))
    }
}

/// Covariates that bags with rows and mediated targets both have.
#[derive(Debug, Clone, PartialEq)]
pub struct Mediators {
    /// Of bags with rows, J × d.
    pub bags: Table,
    /// Of targets, M × d.
    pub targets: Table,
    /// Where targets are sums, of each the sum of its weights; what is said of matched ones is not read.
    pub totals: Option<Vec<f64>>,
}
