//! Regression of targets on mediators: the other way to learn from targets without rows, for comparison.
//!
//! The common part of targets and of bags with rows is a function of mediators, `g ~ GP(m, ω²ℓ)`: targets are
//! noisy values of it, `z_j = g(ỹ_j) + ε_j`, and means of bags are tied to it, `f̄_b = g(y_b) + τ_b`. Given
//! z, the values of g at bags are *pseudo-targets* with a mean and a covariance C̃, and f is observed through
//! these with the noise `C̃ + τ²I`. The code does not form pseudo-targets: a tie is an observation `0 = f̄_b
//! - g(y_b) - τ_b`, whose error is correlated with those of the targets,
//!
//! ```text
//! cov = diag(τ², ε²) + ω² s s'ℓ,   s = -1 at ties and 1 at targets,
//! ```
//!
//! so that everything else is as for targets of bags. The marginal likelihood is that of the targets given
//! that the ties hold, `p(z | ties)`. The joint density `p(z) p(pseudo-targets)` has no maximum: it grows
//! without bound where f and g are constant and ties exact. This is ours; pseudo-targets without their
//! covariance are the references of Chau 2023, table 3.1.

use super::aggregate_data::Aggregates;
use super::mediation::{Mediation, Mediators};
use crate::error::{Error, Result, sized};
use crate::fit::positive;
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, dot};
use crate::table::Table;

/// The part of the targets' and ties' covariance that g makes.
#[derive(Debug, Clone)]
pub(super) struct MediatorGp {
    kernel: Kernel,
    ridge: f64,
    /// Mediators of bags, then of targets without rows.
    rows: Table,
    /// Index among ties and targets, and sign, of each value of g.
    signed_positions: Vec<(usize, f64)>,
    /// `s s'ℓ` between these values.
    covariance: Matrix,
}

fn covariance(kernel: &Kernel, rows: &Table) -> Result<Matrix> {
    let gram = kernel.gram(rows);
    if gram.data().iter().all(|v| v.is_finite()) {
        return Ok(gram);
    }
    let remedy = "standardise the mediators or change their kernel's parameters";
    Err(Error::Overflow { subject: "the mediators' kernel".into(), remedy })
}

impl MediatorGp {
    /// `open` are the targets without rows; ties of all `bags` come before targets.
    pub fn new(mediation: &Mediation, mediators: &Mediators, open: &[usize], bags: usize) -> Result<Self> {
        positive("ridge of the mediators", mediation.ridge)?;
        mediation.kernel.validate(mediators.bags.width())?;
        sized("the table of mediators of bags", "rows", bags, mediators.bags.rows(), "one a bag with rows")?;
        let rows = mediators.bags.stack(&mediators.targets.select_rows(open))?;
        let targets = open.iter().map(|t| (bags + t, 1.0));
        let places: Vec<(usize, f64)> = (0..bags).map(|b| (b, -1.0)).chain(targets).collect();
        let mut covariance = covariance(&mediation.kernel, &rows)?;
        for (i, (_, sign)) in places.iter().enumerate() {
            covariance.row_mut(i).iter_mut().zip(&places).for_each(|(v, (_, other))| *v *= sign * other);
        }
        Ok(Self {
            kernel: mediation.kernel.clone(),
            ridge: mediation.ridge,
            rows,
            signed_positions: places,
            covariance,
        })
    }

    /// The places of targets without rows.
    fn unmatched_targets(&self) -> impl Iterator<Item = usize> {
        self.signed_positions.iter().filter(|(_, sign)| *sign > 0.0).map(|(t, _)| *t)
    }

    /// The number of ties.
    pub fn tie_count(&self) -> usize {
        self.signed_positions.len() - self.unmatched_targets().count()
    }

    /// Adds so many times this and ε to the covariance of ties and targets.
    pub fn add_to(&self, out: &mut Matrix, times: f64) {
        for (i, (t, _)) in self.signed_positions.iter().enumerate() {
            self.signed_positions
                .iter()
                .enumerate()
                .for_each(|(k, (u, _))| out[(*t, *u)] += times * self.covariance[(i, k)]);
        }
        self.unmatched_targets().for_each(|t| out[(t, t)] += times * self.ridge);
    }

    /// Derivatives, in the parameters of the [`Mediation`], of a function whose derivatives in the covariance
    /// of ties and targets are `weights`.
    pub fn gradient(&self, covariance_weights: &Matrix) -> Vec<f64> {
        let mut weights = Matrix::zeros(self.signed_positions.len(), self.signed_positions.len());
        for (i, (t, sign)) in self.signed_positions.iter().enumerate() {
            let row = weights.row_mut(i).iter_mut().zip(&self.signed_positions);
            row.for_each(|(v, (u, other))| *v = sign * other * covariance_weights[(*t, *u)]);
        }
        let mut gradient = self.kernel.gradient(&self.rows, &weights);
        gradient.push(self.ridge * self.unmatched_targets().map(|t| covariance_weights[(t, t)]).sum::<f64>());
        gradient
    }

    /// Sets the responses of ties and targets to a constant 1 in `responses`, where those of matched targets
    /// already stand: g has the same mean as f, and ties are differences.
    pub fn constants(&self, responses: &mut [f64]) {
        self.signed_positions
            .iter()
            .for_each(|(t, sign)| responses[*t] = if *sign > 0.0 { 1.0 } else { 0.0 });
    }

    /// The posterior mean of g where targets have no rows, from the mean of f and the weights a of ties and
    /// targets times `scale`.
    pub fn fitted(&self, mean: f64, times: f64, weights: &[f64], out: &mut [f64]) {
        let tied_weights: Vec<f64> = self.signed_positions.iter().map(|(t, _)| weights[*t]).collect();
        for (i, t) in self.unmatched_targets().enumerate() {
            out[t] = mean + times * dot(self.covariance.row(self.tie_count() + i), &tied_weights);
        }
    }
}

/// The logarithm of the density of the targets without rows by their regression on mediators alone, at the
/// best mean unless it is given, and its slopes by the parameters of the
/// [`Mediation`]. Cost M³ for M of these.
pub(super) fn log_evidence(
    mediation: &Mediation,
    data: &Aggregates,
    variance: f64,
    mean: Option<f64>,
) -> Result<(f64, Vec<f64>)> {
    let open: Vec<usize> =
        (0..data.bag_of_target.len()).filter(|&t| data.bag_of_target[t].is_none()).collect();
    let Some(mediators) = &data.mediators else { return Ok((0.0, vec![0.0; mediation.parameters().len()])) };
    let (rows, ridge) = (mediators.targets.select_rows(&open), variance * mediation.ridge);
    let kernel = variance * mediation.kernel.clone();
    let mut gram = covariance(&kernel, &rows)?;
    let known = |k: usize| data.target_noise.as_ref().map_or(0.0, |known| known[open[k]]);
    gram.add_diagonal(|k| ridge + known(k));
    let factor = Cholesky::new(gram, "covariance of the targets")?;
    let z: Vec<f64> = open.iter().map(|&t| data.targets[t]).collect();
    let solved_ones = factor.solve_vector(&vec![1.0; z.len()]);
    let mean = mean.unwrap_or_else(|| dot(&solved_ones, &z) / solved_ones.iter().sum::<f64>());
    let residual: Vec<f64> = z.iter().map(|z| z - mean).collect();
    let weights = factor.solve_vector(&residual);
    let tau = std::f64::consts::TAU.ln();
    let value = -0.5 * (dot(&weights, &residual) + factor.log_det() + z.len() as f64 * tau);
    let mut weight_matrix = factor.inverse();
    for (k, a) in weights.iter().enumerate() {
        weight_matrix.row_mut(k).iter_mut().zip(&weights).for_each(|(v, b)| *v = 0.5 * (a * b - *v));
    }
    let mut gradient = kernel.gradient(&rows, &weight_matrix);
    gradient.push(ridge * (0..z.len()).map(|k| weight_matrix[(k, k)]).sum::<f64>());
    Ok((value, gradient))
}
