//! The regression on mediators: covariates that both bags with rows and targets without rows have.

use super::row_bags::Bags;
use crate::error::{Error, Result};
use crate::fit::positive;
use crate::kernel::{Kernel, Parameter};
use crate::linalg::{Cholesky, Matrix};
use crate::table::Table;

/// The weight of a bag in the regression on mediators: its ridge is λ Σ weights / its own weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BagWeighting {
    /// Its mass: every row is an example (CMP). The same as [`One`](Self::One) where all bags have the same
    /// mass.
    Mass,
    /// One: every bag is an example (S-CMP).
    #[default]
    One,
}

/// The response of the regression on mediators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MediationTarget {
    /// The embeddings of the rows of bags (CMP, S-CMP).
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
    /// The weight of a bag. Where targets are regressed, each bag has weight one.
    pub counts: BagWeighting,
    /// Whether the responses are centred at the mean over all bags, weighted by their mass:
    pub centred: bool,
    /// The response of the regression.
    pub regressed: MediationTarget,
}

impl Mediation {
    /// S-CMP, centred.
    pub fn new(kernel: Kernel, ridge: f64) -> Self {
        Self { kernel, ridge, counts: BagWeighting::One, centred: true, regressed: MediationTarget::Rows }
    }

    /// The kernel's parameters and the logarithm of the ridge.
    pub fn parameters(&self) -> Vec<Parameter> {
        let ridge = Parameter { name: "ridge".into(), log_value: self.ridge.ln() };
        self.kernel.parameters().into_iter().chain([ridge]).collect()
    }

    /// The mediation with other values of its [`parameters`](Self::parameters).
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
                let total: f64 = mass.iter().sum();
                mass.iter().map(|bag_mass| self.ridge * total / bag_mass).collect()
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
            return Err(Error::Overflow { subject: "the mediators' kernel".into(), remedy });
        }
        Ok((Cholesky::new(gram, "kernel matrix of mediators plus ridge")?, ridges))
    }

    /// The loss of stage 1 when it predicts each bag from all others, `Σ_b ‖μ_b - μ̂_b‖² / J` in the function
    /// space of the kernel of rows, and its derivatives in the [`parameters`](Self::parameters). Closed form:
    /// with `K = (L + R)⁻¹` the residual over the bags is `K_·b / K_bb`, and centred, minus the others' mean
    /// times the sum of the residual. `gram` is between the bags' means, J × J. Ridges are those of all bags.
    /// Cost J³.
    ///
    /// # Errors
    /// [`Error::TooFew`] for fewer than two bags; [`Error::Parameter`]; [`Error::Overflow`];
    /// [`Error::NotPositiveDefinite`].
    ///
    /// # Panics
    /// Unless there is one row of mediators, and of `gram`, for each bag.
    pub fn loo_loss(&self, bags: &Bags, mediators: &Table, gram: &Matrix) -> Result<(f64, Vec<f64>)> {
        let j = bags.count();
        assert_eq!((j, j, j), (mediators.rows(), gram.rows(), gram.cols()), "one a bag");
        if j < 2 {
            return Err(Error::TooFew { subject: "the list of bags".into(), needed: 2, unit: "bags are" });
        }
        let (factor, ridges) = self.factor(bags, mediators)?;
        let inverse = factor.inverse();
        let (mass, total_mass) = (bags.weight_sums(), bags.weight_sums().iter().sum::<f64>());
        // Residuals, one per row, and centred residuals.
        let mut residuals = inverse.clone();
        for b in 0..j {
            let diagonal = inverse[(b, b)];
            residuals.row_mut(b).iter_mut().for_each(|v| *v /= diagonal);
        }
        let share = |b: usize, c: usize| if c == b { 0.0 } else { mass[c] / (total_mass - mass[b]) };
        let mut centred = residuals.clone();
        for b in (0..j).filter(|_| self.centred) {
            let sum: f64 = residuals.row(b).iter().sum();
            centred.row_mut(b).iter_mut().enumerate().for_each(|(c, v)| *v -= share(b, c) * sum);
        }
        let mut slopes = centred.matmul(gram);
        let loss = crate::linalg::dot(slopes.data(), centred.data()) / j as f64;
        // Derivatives in the residuals, then in the inverse, then in L + R.
        for b in 0..j {
            let row = slopes.row_mut(b);
            let mean: f64 = if self.centred { (0..j).map(|c| share(b, c) * row[c]).sum() } else { 0.0 };
            row.iter_mut().for_each(|v| *v = 2.0 / j as f64 * (*v - mean));
            row[b] -= crate::linalg::dot(residuals.row(b), row);
            row.iter_mut().for_each(|v| *v /= inverse[(b, b)]);
        }
        let derivative = inverse.matmul(&slopes).matmul(&inverse);
        let mut weights = derivative.transpose();
        weights.data_mut().iter_mut().zip(derivative.data()).for_each(|(t, entry)| *t = -0.5 * (*t + entry));
        let mut gradient = self.kernel.gradient(mediators, &weights);
        gradient.push((0..j).map(|b| weights[(b, b)] * ridges[b]).sum());
        Ok((loss, gradient))
    }
}

/// Covariates that bags with rows and mediated targets both have.
#[derive(Debug, Clone, PartialEq)]
pub struct Mediators {
    /// Mediators of bags with rows, J × d.
    pub bags: Table,
    /// Mediators of targets, M × d.
    pub targets: Table,
    /// For targets that are sums, the sum of the weights of each; those of matched targets are not used.
    pub totals: Option<Vec<f64>>,
}
