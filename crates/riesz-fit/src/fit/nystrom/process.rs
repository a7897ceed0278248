//! Gaussian process regression through landmarks (Titsias 2009) from sufficient statistics. The kernel and
//! the noise are learnt on the sample; the posterior then uses all rows.

use serde::{Deserialize, Serialize};

use super::nested::{LandmarkErrorEstimate, NestedFits};
use super::plan::{FitPlan, GpPrior, Model};
use super::rows::LabelledRows;
use super::statistics::Statistics;
use crate::error::{Error, Result, unused};
use crate::fit::task::FittedModel;
use crate::fit::{KernelSums, SparseGaussianProcess, TunedParameters};
use crate::kernel::Kernel;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Cholesky, Matrix};
use crate::model_card::CardEntry;

/// Maximum numbers of sample rows and inducing points with which the kernel and the noise are learnt.
const TUNING_SAMPLE: (usize, usize) = (10_000, 500);

/// Options for learning the kernel and the noise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpTuning {
    /// Variance of the noise: the initial value, or the value itself if the noise is not tuned.
    pub noise: f64,
    /// The parameters that are tuned.
    pub tune: TunedParameters,
    /// Whether the kernel and the noise are in units of the standardised target.
    pub normalize_y: bool,
    /// Number of further starting points of the optimisation.
    pub restarts: usize,
}

impl GpTuning {
    /// Learns the kernel and the prior on a sample, in the target's units.
    ///
    /// # Errors
    /// Those of the fit; [`Error::Target`] for more than one target, [`Error::Unused`] for weights.
    pub(super) fn prior(
        &self,
        sample: &LabelledRows,
        kernel: Kernel,
        landmarks: usize,
        seed: u64,
    ) -> Result<(Kernel, GpPrior)> {
        if sample.y.cols() != 1 {
            return Err(Error::target(
                "target",
                "has several columns: fit one Gaussian process for each target",
            ));
        }
        if sample.weights.is_some() {
            return Err(unused("sample_weight", "krr"));
        }
        let (rows, points) = TUNING_SAMPLE;
        let sample = sample.head(rows);
        let estimator = SparseGaussianProcess {
            tune: self.tune,
            normalize_y: self.normalize_y,
            restarts: self.restarts,
            seed,
            ..SparseGaussianProcess::new(kernel, self.noise, landmarks.min(points))
        };
        let fit = estimator.fit(&sample.x, &sample.y)?;
        Ok((fit.model.kernel, GpPrior { noise: fit.noise, mean: fit.model.intercept[0] }))
    }
}

/// The posterior given the statistics of all rows, under the plan's prior. Cost O(landmarks³).
///
/// # Errors
/// [`Error::Parameter`] if the plan has no prior; [`Error::NotPositiveDefinite`]; [`Error::TooFew`] for fewer
/// than two rows.
pub fn fit_gp(plan: &FitPlan, statistics: Statistics) -> Result<FittedModel> {
    let Model::Process(GpPrior { noise, mean }) = plan.model else {
        return Err(Error::parameter("plan", "of another kind of model", "a Gaussian process needs a prior"));
    };
    statistics.check_two_rows()?;
    let (sums, m) = (statistics.sums(plan, |_| true), plan.landmarks.rows());
    drop(statistics);
    let (constant, rows) = (sums.gram.column(m), sums.rows);
    // The statistics subtract the centre from the targets; the process subtracts its prior mean.
    let shift = plan.targets[0].center - mean;
    let targets = (0..m).map(|i| sums.cross[(i, 0)] + shift * constant[i]).collect();
    let sums = KernelSums {
        gram: sums.gram.truncate_square(m),
        targets: Matrix::column_vector(targets),
        squares: sums.squares[0] + shift * (2.0 * sums.cross[(m, 0)] + shift * constant[m]),
        prior: sums.diagonal,
        log_weights: 0.0,
        rows: usize::try_from(rows).unwrap_or(usize::MAX),
        rounding: plan.bound * 0.5_f64.powi(22),
    };
    let posterior = sums.posterior(&plan.kernel, &plan.landmarks, noise)?;
    let missing = landmark_error(plan, sums, noise, &posterior.coef);
    let mut model =
        KernelExpansion::new(plan.kernel.clone(), plan.landmarks.clone(), posterior.coef, vec![mean])?;
    model.model_card = vec![
        CardEntry::new("model", "Gaussian process regression through landmarks"),
        CardEntry::measured("noise", noise),
        CardEntry::measured("evidence lower bound", posterior.lower),
        CardEntry::measured("evidence upper bound", posterior.upper),
        CardEntry::measured(
            "divergence from the process of all rows, at most",
            posterior.upper - posterior.lower,
        ),
        CardEntry::measured("jitter", posterior.jitter),
        CardEntry::new("landmarks", m),
        CardEntry::measured("unexplained share of the kernel", plan.unexplained),
        CardEntry::new("rows", rows),
        CardEntry::new("plan", &plan.digest()[..16]),
    ];
    model.model_card.extend(missing.iter().flat_map(LandmarkErrorEstimate::facts));
    Ok(FittedModel {
        covariance: Some(posterior.covariance),
        noise: Some(noise),
        log_marginal_likelihood: Some(posterior.lower),
        ..model.into()
    })
}

/// Estimated distance of the posterior mean from the posterior mean with all rows as inducing points; `None`
/// where rounding dominates the estimate.
fn landmark_error(
    plan: &FitPlan,
    sums: KernelSums,
    noise: f64,
    values: &Matrix,
) -> Option<LandmarkErrorEstimate> {
    let mut matrix = sums.gram;
    matrix.add_times(noise, &plan.kernel.gram(&plan.landmarks));
    let rows = sums.rows as u64;
    let factor = &Cholesky::new(matrix, "matrix of the normal equations").ok()?;
    let (weight, rounding) = (sums.rows as f64, plan.rounding(rows, 1));
    NestedFits { plan, factor, ridge: noise, values, rows, weight, rounding }.missing()
}
