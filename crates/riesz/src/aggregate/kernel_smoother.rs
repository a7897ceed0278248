//! Prediction of counts without rows by averages over bags with rows. The weights are not negative, because
//! rates are positive.
//!
//! The weights of a regression on mediators ([`ObservationOperator::new`]) may be negative. The weights of a
//! kernel smoother (Nadaraya 1964, Watson 1964) are not. The weight of bag b in target t is `ℓ(y_b, ỹ_t)`,
//! divided by the sum of these weights over bags. The length scales of ℓ are chosen by the prediction of
//! left-out bags. This is an addition of riesz: the source has no mediated counts.

use super::mediation::{BagWeighting, Mediators, check_loo_inputs};
use super::observation_operator::ObservationOperator;
use super::row_bags::{Bags, TargetUnit, check_bag_number};
use crate::control::RunControl;
use crate::error::{Error, Result, sized};
use crate::gp::hyperparameters::{HyperParameter, log_values};
use crate::gp::search::minimise_loo_loss;
use crate::kernel::{Kernel, Parameter};
use crate::linalg::{Matrix, dot, multiply_entries};
use crate::table::Table;

/// A kernel smoother of bags on mediators.
#[derive(Debug, Clone, PartialEq)]
pub struct BagSmoother {
    /// The kernel ℓ between mediators, which is not negative. Its scale has no effect.
    pub kernel: Kernel,
    /// The weight of a bag: its mass, or one.
    pub counts: BagWeighting,
}

impl BagSmoother {
    /// A smoother in which all bags have the same weight.
    pub fn new(kernel: Kernel) -> Self {
        Self { kernel, counts: BagWeighting::One }
    }

    /// The operator B. The column of a matched target selects its bag. The other targets are averages over
    /// bags with rows. For sums, a target is its total times the average of the bags' sums divided by their
    /// mass. Cost JM kernel values.
    ///
    /// # Errors
    /// Those of [`ObservationOperator::new`]; [`Error::Parameter`] for a target whose mediators are similar
    /// to those of no bag, and for a kernel with negative values.
    pub fn operator(
        &self,
        bags: &Bags,
        bag_of_target: &[Option<usize>],
        mediators: &Mediators,
    ) -> Result<ObservationOperator> {
        let j = bags.count();
        let Mediators { bags: bag_table, targets: target_table, totals } = mediators;
        sized("the table of mediators of bags", "rows", j, bag_table.rows(), "one for each bag with rows")?;
        sized(
            "the table of mediators of targets",
            "rows",
            bag_of_target.len(),
            target_table.rows(),
            "one for each target",
        )?;
        self.kernel.validate(bag_table.width())?;
        let similarity = self.kernel.cross_gram(bag_table, target_table);
        if similarity.data().iter().any(|k| !(k.is_finite() && *k >= 0.0)) {
            let why = "a kernel smoother needs a kernel that is nowhere negative, such as rbf or matern32";
            return Err(Error::parameter("kernel of the mediators", self.kernel.formula(), why));
        }
        let mass = bags.weight_sums();
        let mut weights = Matrix::zeros(j, bag_of_target.len());
        for (t, bag) in bag_of_target.iter().enumerate() {
            if let Some(b) = *bag {
                check_bag_number(t, *bag, j)?;
                weights[(b, t)] = 1.0;
                continue;
            }
            let given_total = totals.as_ref().and_then(|totals| totals.get(t));
            let total = match (bags.unit(), given_total) {
                (TargetUnit::Mean, _) => 1.0,
                (TargetUnit::Sum, Some(total)) if total.is_finite() && *total > 0.0 => *total,
                (TargetUnit::Sum, _) => {
                    let allowed =
                        "a sum that is predicted from mediators needs the positive sum of its weights";
                    let given_total = given_total.map_or("none".into(), f64::to_string);
                    return Err(Error::parameter(format!("total of target {}", t + 1), given_total, allowed));
                }
            };
            let raw: Vec<f64> = (0..j).map(|b| similarity[(b, t)] * self.bag_weight(mass[b])).collect();
            let total_weight: f64 = raw.iter().sum();
            if total_weight <= f64::MIN_POSITIVE {
                let allowed = "no bag with rows has similar ones: leave the target out, or give the \
                               mediators a longer length scale";
                return Err(Error::parameter(
                    format!("mediators of target {}", t + 1),
                    "far from all",
                    allowed,
                ));
            }
            for (b, weight) in raw.iter().enumerate() {
                let unit = if bags.unit() == TargetUnit::Sum { mass[b] } else { 1.0 };
                weights[(b, t)] = total * weight / (total_weight * unit);
            }
        }
        Ok(ObservationOperator::from_weights(weights))
    }

    fn bag_weight(&self, mass: f64) -> f64 {
        match self.counts {
            BagWeighting::Mass => mass,
            BagWeighting::One => 1.0,
        }
    }

    /// The leave-one-bag-out loss, `Σ_b ‖μ_b - Σ_c W_bc μ_c‖² / J` in the function space of the kernel of
    /// rows, and its derivatives with respect to the parameters of ℓ. μ_b is the embedding of bag b, and W (J
    /// × J) holds the weights of the other bags. `gram` (J × J) is the gram matrix of the bags' means. Cost
    /// J³.
    ///
    /// # Errors
    /// [`Error::TooFew`] for fewer than two bags; [`Error::Overflow`] if no other bag is similar to a bag.
    ///
    /// # Panics
    /// Unless `mediators` and `gram` have one row per bag.
    pub fn loo_loss(&self, bags: &Bags, mediators: &Table, gram: &Matrix) -> Result<(f64, Vec<f64>)> {
        let j = check_loo_inputs(bags, mediators, gram)?;
        self.kernel.validate(mediators.width())?;
        let bag_weights: Vec<f64> = bags.weight_sums().iter().map(|mass| self.bag_weight(*mass)).collect();
        let mut weights = self.kernel.gram(mediators);
        let mut row_sums = vec![0.0; j];
        for (b, sum) in row_sums.iter_mut().enumerate() {
            let row = weights.row_mut(b);
            multiply_entries(row, &bag_weights);
            row[b] = 0.0;
            *sum = row.iter().sum();
            if !(sum.is_finite() && *sum > f64::MIN_POSITIVE) {
                return Err(Error::overflow(
                    "a mean over bags with mediators like these",
                    "use longer length scales of the mediators",
                ));
            }
            row.iter_mut().for_each(|w| *w /= *sum);
        }
        let smoothed = weights.matmul(gram);
        let mut loss = 0.0;
        let mut by_kernel = Matrix::zeros(j, j);
        for b in 0..j {
            let (w, u) = (weights.row(b), smoothed.row(b));
            loss += gram[(b, b)] - 2.0 * u[b] + dot(w, u);
            let derivative: Vec<f64> = (0..j).map(|c| 2.0 / j as f64 * (u[c] - gram[(b, c)])).collect();
            let mean = dot(w, &derivative);
            for c in (0..j).filter(|c| *c != b) {
                by_kernel[(b, c)] = bag_weights[c] * (derivative[c] - mean) / row_sums[b];
            }
        }
        let mut symmetric = by_kernel.transpose();
        symmetric.add_times(1.0, &by_kernel);
        symmetric.scale(0.5);
        Ok((loss / j as f64, self.kernel.gradient(mediators, &symmetric)))
    }

    /// The smoother with the smallest loss on left-out bags. Weakly informative priors keep its length scales
    /// near their initial values, as if the errors of bags were normal with an unknown variance. `gram` is
    /// that of [`loo_loss`](Self::loo_loss).
    pub(super) fn tune(
        &self,
        bags: &Bags,
        mediators: &Table,
        gram: &Matrix,
        control: RunControl<'_>,
    ) -> Result<Self> {
        let with_prior = |parameter: Parameter| match parameter.is_length_scale() {
            true => HyperParameter::with_normal_prior(parameter, 0.8),
            // The loss doesn't depend on the scale.
            false => HyperParameter::fixed(parameter),
        };
        let coordinates: Vec<HyperParameter> = self.kernel.parameters().into_iter().map(with_prior).collect();
        let start = log_values(&self.kernel.parameters());
        let with_parameters =
            |theta: &[f64]| Self { kernel: self.kernel.with_parameters(theta), counts: self.counts };
        let loss = |theta: &[f64]| with_parameters(theta).loo_loss(bags, mediators, gram);
        let optimum = minimise_loo_loss(&coordinates, &start, bags.count(), control, loss)?;
        Ok(with_parameters(&optimum.theta))
    }
}
