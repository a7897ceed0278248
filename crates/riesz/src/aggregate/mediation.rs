//! The regression on mediators: coarse covariates of both bags with rows and targets without rows.

use super::row_bags::Bags;
use crate::checks::{check_overflow, positive};
use crate::error::{Error, Result};
use crate::gp::hyperparameters::ThetaReader;
use crate::kernel::{Kernel, Parameter};
use crate::linalg::{Cholesky, Matrix};
use crate::table::Table;

/// Weight of a bag in the regression on mediators: its ridge is λ Σ weights / its own weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BagWeighting {
    /// The mass of the bag: every row is an example (CMP). This equals [`One`](Self::One) if all bags have
    /// the same mass.
    Mass,
    /// Equal weights of all bags: every bag is an example (S-CMP).
    #[default]
    One,
}

/// The response of the regression on mediators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MediationTarget {
    /// The embeddings of the bags' rows (CMP, S-CMP).
    #[default]
    Rows,
    /// Targets that are means, `z_j = g(ỹ_j) + ε_j`, with a Gaussian process g of mediators. Means over bags
    /// are tied to g by `f̄_b = g(y_b) + τ_b`, where τ has the variance
    /// [`mediation_noise`](super::AggregateGaussianProcess::mediation_noise). If it is 0, the predictions of
    /// g at bags are pseudo-targets, with their covariance. This variant of riesz is meant for comparison.
    Targets,
}

/// Settings of the regression on mediators.
#[derive(Debug, Clone, PartialEq)]
pub struct Mediation {
    /// The kernel ℓ between mediators. If embeddings are regressed, only the ratio of its scale to the ridge
    /// matters. If targets are regressed, its scale is the prior variance of g.
    pub kernel: Kernel,
    /// The ridge λ > 0; if targets are regressed, the variance of ε.
    pub ridge: f64,
    /// The weight of a bag. If targets are regressed, each bag has weight one.
    pub counts: BagWeighting,
    /// Whether the responses are centered at their mean over all bags, weighted by mass.
    pub centered: bool,
    /// The response of the regression.
    pub regressed: MediationTarget,
}

impl Mediation {
    /// The centered S-CMP regression.
    pub fn new(kernel: Kernel, ridge: f64) -> Self {
        Self { kernel, ridge, counts: BagWeighting::One, centered: true, regressed: MediationTarget::Rows }
    }

    /// The kernel's parameters and the logarithm of the ridge.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.kernel.parameters().into_iter().chain([Parameter::logarithm("ridge", self.ridge)]).collect()
    }

    /// The mediation with other values of its [`parameters`](Self::parameters).
    ///
    /// # Panics
    /// If `theta` has another length.
    pub fn with_parameters(&self, theta: &[f64]) -> Self {
        let mut reader = ThetaReader::new(theta);
        let mediation = Self { kernel: reader.kernel(&self.kernel), ridge: reader.exp(), ..self.clone() };
        reader.finish();
        mediation
    }

    /// Multiplies the kernel and the ridge by `variance` if targets are regressed. Kernel and ridge of
    /// regressed embeddings have no unit, and remain.
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

    /// The Cholesky factor of `L + R`, and the ridges.
    pub(super) fn factor(&self, bags: &Bags, mediators: &Table) -> Result<(Cholesky, Vec<f64>)> {
        positive("ridge of the mediators", self.ridge)?;
        self.kernel.validate(mediators.width())?;
        let ridges = self.ridges(bags);
        let mut gram = self.kernel.gram(mediators);
        gram.add_diagonal(|b| ridges[b]);
        check_mediators_kernel(&gram)?;
        Ok((Cholesky::new(gram, "kernel matrix of mediators plus ridge")?, ridges))
    }

    /// The leave-one-bag-out loss of stage 1, `Σ_b ‖μ_b - μ̂_b‖² / J` in the function space of the kernel of
    /// rows, and its derivatives with respect to the [`parameters`](Self::parameters). In closed form, with
    /// `K = (L + R)⁻¹`, the coefficients of the residual over the bags are `K_·b / K_bb`. Centring subtracts
    /// the mean of the other bags times the sum of these coefficients. `gram` (J × J) is the gram matrix of
    /// the bags' means. The ridges are those of all bags. Cost J³.
    ///
    /// # Errors
    /// [`Error::TooFew`] for fewer than two bags; [`Error::Parameter`]; [`Error::Overflow`];
    /// [`Error::NotPositiveDefinite`].
    ///
    /// # Panics
    /// Unless `mediators` and `gram` have one row per bag.
    pub fn loo_loss(&self, bags: &Bags, mediators: &Table, gram: &Matrix) -> Result<(f64, Vec<f64>)> {
        let j = check_loo_inputs(bags, mediators, gram)?;
        let (factor, ridges) = self.factor(bags, mediators)?;
        let inverse = factor.inverse();
        let (mass, total_mass) = (bags.weight_sums(), bags.weight_sums().iter().sum::<f64>());
        // Coefficients of the residuals, one residual per row, without and with centring.
        let mut residuals = inverse.clone();
        for b in 0..j {
            let diagonal = inverse[(b, b)];
            residuals.row_mut(b).iter_mut().for_each(|v| *v /= diagonal);
        }
        let share = |b: usize, c: usize| if c == b { 0.0 } else { mass[c] / (total_mass - mass[b]) };
        let mut centered = residuals.clone();
        for b in (0..j).filter(|_| self.centered) {
            let sum: f64 = residuals.row(b).iter().sum();
            centered.row_mut(b).iter_mut().enumerate().for_each(|(c, v)| *v -= share(b, c) * sum);
        }
        let mut by_residuals = centered.matmul(gram);
        let loss = crate::linalg::dot(by_residuals.data(), centered.data()) / j as f64;
        // Derivatives with respect to the residuals, then to the inverse, then to L + R.
        for b in 0..j {
            let row = by_residuals.row_mut(b);
            let mean: f64 = if self.centered { (0..j).map(|c| share(b, c) * row[c]).sum() } else { 0.0 };
            row.iter_mut().for_each(|v| *v = 2.0 / j as f64 * (*v - mean));
            row[b] -= crate::linalg::dot(residuals.row(b), row);
            row.iter_mut().for_each(|v| *v /= inverse[(b, b)]);
        }
        let by_kernel = inverse.matmul(&by_residuals).matmul(&inverse);
        let mut weights = by_kernel.transpose();
        weights.add_times(1.0, &by_kernel);
        weights.scale(-0.5);
        let mut gradient = self.kernel.gradient(mediators, &weights);
        gradient.push((0..j).map(|b| weights[(b, b)] * ridges[b]).sum());
        Ok((loss, gradient))
    }
}

/// Whether there is a regression on mediators whose response are the targets.
pub(super) fn regresses_targets(mediation: Option<&Mediation>) -> bool {
    mediation.is_some_and(|mediation| mediation.regressed == MediationTarget::Targets)
}

/// Checks that values computed from the mediators' kernel are finite.
pub(super) fn check_mediators_kernel(values: &Matrix) -> Result<()> {
    let remedy = "standardise the mediators or change their kernel's parameters";
    check_overflow(values.data(), "the mediators' kernel", remedy)
}

/// Checks the inputs of a leave-one-bag-out loss and returns the number of bags.
///
/// # Panics
/// Unless `mediators` and `gram` have one row per bag.
pub(super) fn check_loo_inputs(bags: &Bags, mediators: &Table, gram: &Matrix) -> Result<usize> {
    let j = bags.count();
    assert_eq!((j, j, j), (mediators.rows(), gram.rows(), gram.cols()), "one row for each bag");
    if j < 2 {
        return Err(Error::too_few("the list of bags", 2, "bags are"));
    }
    Ok(j)
}

/// Covariates of both bags with rows and mediated targets.
#[derive(Debug, Clone, PartialEq)]
pub struct Mediators {
    /// Mediators of bags with rows, J × d.
    pub bags: Table,
    /// Mediators of targets, M × d.
    pub targets: Table,
    /// Sum of the weights of each target if targets are sums; entries of matched targets are not used.
    pub totals: Option<Vec<f64>>,
}
