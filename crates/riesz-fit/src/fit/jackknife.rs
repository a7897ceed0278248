//! Jackknife (Tukey 1958; Efron and Stein 1981): the sampling variability of kernel ridge regression, from
//! fits that leave out one row at a time.
//!
//! Let `A = K + ridge diag(1/w)` (n × n), targets t (n) and coefficients `c = A⁻¹ t`. The coefficients
//! without row i are `c - A⁻¹e_i c_i / (A⁻¹)_ii`, with 0 at i (a block inverse). Here t are the given targets
//! minus the mean of the other rows. All n refits therefore cost one inverse.
//!
//! Like the [bootstrap](super::KernelRidge::bootstrap) it estimates how much values would vary with a new
//! sample, for this kernel and ridge, and not the bias of the model. It involves no random numbers. For
//! linear functions of the coefficients, such as Shapley values, its variance is on average too large rather
//! than too small (Efron and Stein 1981).

use super::KernelRidge;
use super::bootstrap::{PENALTY_CONFLICT, center};
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::linalg::{Cholesky, Matrix};
use crate::posterior::{PosteriorCovariance, Refitted, VarianceReduction};
use crate::setting_schema::{Range, Setting};
use crate::table::Table;

pub(super) const JACKKNIFE: Setting = Setting::new(
    "jackknife",
    "BOOL",
    Range::Switch,
    "Estimate the sampling variability of values and predictions by leaving out one row after the \
     other, in closed form ('explain --covariance'; keep it in the file with --posterior, which takes \
     8 n² bytes)",
)
.with_bare("true");

impl KernelRidge {
    /// Sampling variability of this regression by the jackknife. The covariance of linear functions of the
    /// model is `(n - 1)/n` times the sum of squares, about their mean, of their n values without each row.
    /// The result is for an `Explainer` or a
    /// [`Posterior`](riesz_core::Posterior) of the model that [`fit`](Self::fit) returns. Cost n³; memory n²
    /// numbers, and n² more per target.
    ///
    /// # Errors
    /// Those of [`fit`](Self::fit); [`Error::TooFew`] for fewer than three rows; [`Error::Parameter`] for an
    /// estimator with a further penalty, which refers to all rows.
    pub fn jackknife(&self, x: &Table, y: &Matrix) -> Result<PosteriorCovariance> {
        self.jackknife_until(x, y, RunControl::none())
    }

    /// [`jackknife`](Self::jackknife) with progress and cancellation.
    pub(super) fn jackknife_until(
        &self,
        x: &Table,
        y: &Matrix,
        control: RunControl<'_>,
    ) -> Result<PosteriorCovariance> {
        self.check(x, y)?;
        crate::checks::check_rows(x, y.rows(), 3)?;
        if self.penalty.is_some() {
            return Err(Error::parameter(JACKKNIFE.name, true, PENALTY_CONFLICT));
        }
        control.check_cancelled()?;
        let n = x.rows();
        let mut gram = self.kernel.gram(x);
        gram.add_diagonal(|i| self.ridge / self.weight(i));
        let inverse = Cholesky::new(gram, "gram matrix plus ridge")?.inverse();
        control.check_cancelled()?;
        let (targets, intercept) = self.centered(y);
        let coef = inverse.matmul(&targets);
        // Coefficients for a constant target of 1: a change of the mean changes the coefficients by a
        // multiple of them.
        let coef_of_ones = inverse.matvec(&vec![1.0; n]);
        let total: f64 = (0..n).map(|i| self.weight(i)).sum();
        let reduction = |o: usize| {
            // Change of the mean when row i is left out.
            let mean_change: Vec<f64> = (0..n)
                .map(|i| {
                    if self.center {
                        -self.weight(i) * targets[(i, o)] / (total - self.weight(i))
                    } else {
                        0.0
                    }
                })
                .collect();
            let mut out = Matrix::zeros(n, n);
            for k in 0..n {
                for i in 0..n {
                    let shifted = coef[(i, o)] - mean_change[i] * coef_of_ones[i];
                    out[(k, i)] = coef[(k, o)]
                        - mean_change[i] * coef_of_ones[k]
                        - inverse[(k, i)] * shifted / inverse[(i, i)];
                }
                scaled(out.row_mut(k));
            }
            let mut intercept: Vec<f64> = mean_change.iter().map(|m| intercept[o] + m).collect();
            scaled(&mut intercept);
            VarianceReduction::RefitDifferences { coef: out, intercept, method: Refitted::Jackknife }
        };
        Ok(PosteriorCovariance::of_refits((0..y.cols()).map(reduction).collect(), vec![1.0; y.cols()]))
    }
}

/// Subtracts the mean and scales, so that the sum of squares is the jackknife variance.
fn scaled(numbers: &mut [f64]) {
    let n = numbers.len() as f64;
    center(numbers);
    numbers.iter_mut().for_each(|v| *v *= (n - 1.0) / n.sqrt());
}

#[cfg(test)]
mod tests {
    use super::*;
    use riesz::{Explainer, Game, Kernel, Posterior, Question};

    /// Variances agree with refits without each row, with and without weights and an intercept.
    #[test]
    fn variances_are_those_of_refits_without_a_row() {
        let n = 12;
        let rows: Vec<[f64; 2]> =
            (0..n).map(|i| [1.0, 0.7].map(|s| (i as f64 * s + s).sin() * 2.0)).collect();
        let x = Table::from_rows(&rows).unwrap();
        let y = rows.iter().flat_map(|r| [r[0] * r[1] + 5.0, r[0] - r[1]]).collect();
        let y = Matrix::from_row_major(n, 2, y);
        let weights: Vec<f64> = (0..n).map(|i| 0.5 + (i % 3) as f64).collect();
        for (center, sample_weight) in [(true, None), (true, Some(weights.clone())), (false, Some(weights))] {
            let mut estimator = KernelRidge::new(Kernel::gaussian(&[1.0, 0.7]), 0.3);
            (estimator.center, estimator.sample_weight) = (center, sample_weight);
            let covariance = estimator.jackknife(&x, &y).unwrap();
            let model = estimator.fit(&x, &y).unwrap().model;
            let new_rows = x.select_rows(&[4, 9]);
            let question = Question::from(Game::Functional);
            let explainer = Explainer::new(&model, question.clone().with_covariance()).unwrap();
            let explained_rows =
                explainer.with_posterior(Some(&covariance)).unwrap().explain(&new_rows).unwrap();
            let refits: Vec<Vec<f64>> = (0..n)
                .map(|i| {
                    let kept: Vec<usize> = (0..n).filter(|&k| k != i).collect();
                    let targets = kept.iter().flat_map(|&k| y.row(k).to_vec()).collect();
                    let mut reduced = estimator.clone();
                    reduced.sample_weight =
                        reduced.sample_weight.map(|w| kept.iter().map(|&k| w[k]).collect());
                    let fit = reduced.fit(&x.select_rows(&kept), &Matrix::from_row_major(n - 1, 2, targets));
                    let fit = fit.unwrap().model;
                    let explained =
                        Explainer::new(&fit, question.clone()).unwrap().explain(&new_rows).unwrap();
                    explained.values.into_iter().chain(explained.predictions).collect()
                })
                .collect();
            let joint = |a: usize, b: usize| {
                let mean = |position: usize| refits.iter().map(|v| v[position]).sum::<f64>() / n as f64;
                let sum: f64 = refits.iter().map(|v| (v[a] - mean(a)) * (v[b] - mean(b))).sum();
                sum * (n as f64 - 1.0) / n as f64
            };
            for (g, (j, l)) in (0..4).flat_map(|g| [(g, (0, 0)), (g, (0, 1)), (g, (1, 1))]) {
                let (actual, truth) = (
                    explained_rows.covariance(g / 2, g % 2).unwrap()[j * 2 + l],
                    joint(g * 2 + j, g * 2 + l),
                );
                assert!(
                    (actual - truth).abs() < 1e-10 * truth.abs().max(0.01),
                    "{g} {j} {l}: {actual} {truth}"
                );
            }
            let sd = Posterior::new(&model, &covariance).unwrap().sd(&new_rows).unwrap();
            for g in 0..4 {
                assert!((sd.data()[g].powi(2) - joint(8 + g, 8 + g)).abs() < 1e-10);
            }
        }
        let estimator = KernelRidge::new(Kernel::gaussian(&[1.0, 0.7]), 0.3);
        let two = Matrix::column_vector(vec![0.0, 1.0]);
        assert!(estimator.jackknife(&x.select_rows(&[0, 1]), &two).unwrap_err().to_string().contains("3"));
    }
}
