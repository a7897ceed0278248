//! Covariances split by the cause of the uncertainty, and the support of a query by the data: the share of
//! its prior variance that each study's rows explain.

use crate::linalg::{Matrix, dot, low_rank_factor};

/// Causes of an effect's uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UncertaintyCause {
    /// The study with this index, from 0: few rows near the query, or noise.
    Study(usize),
    /// The regression of the outcome in an effect from one table: few rows near the query, or noise.
    Outcome,
    /// The stage with this index, from 0, before the regression of the outcome in an effect from one table.
    Stage(usize),
    /// Two studies or stages together: the first may lead to mediators at which the second has little
    /// information.
    Interaction,
    /// The sampling of units in a study whose covariates are averaged over.
    Adjustment,
    /// Length scales, noises and ridges: the spread of the means in a mixture over these.
    Hyperparameters,
}

/// The covariance of functionals by cause.
pub(super) type CovarianceParts = Vec<(UncertaintyCause, Matrix)>;

/// Adds a part, times its weight, to the part with the same cause.
pub(super) fn add_part(parts: &mut CovarianceParts, cause: UncertaintyCause, weight: f64, mut part: Matrix) {
    if let Some((_, sum)) = parts.iter_mut().find(|(other_cause, _)| *other_cause == cause) {
        return sum.add_times(weight, &part);
    }
    if weight != 1.0 {
        part.scale(weight);
    }
    parts.push((cause, part));
}

/// Returns the sum of all parts, for `count` functionals.
pub(super) fn sum_parts(parts: &CovarianceParts, count: usize) -> Matrix {
    let mut total = Matrix::zeros(count, count);
    parts.iter().for_each(|(_, part)| total.add_times(1.0, part));
    total
}

/// Returns the variance of functional i, the sum of all parts.
pub(super) fn total_variance(parts: &CovarianceParts, i: usize) -> f64 {
    parts.iter().map(|(_, part)| part[(i, i)]).sum()
}

/// Share of the trace of a covariance that a low-rank factor may omit.
const MAX_OMITTED_SHARE: f64 = 1e-3;

/// Returns uncertain values as a matrix with a row for each. The first column is the mean. The outer product
/// of the other columns is the covariance, up to a thousandth of its trace.
pub(super) fn mean_and_root(means: impl IntoIterator<Item = f64>, covariance: &Matrix) -> Matrix {
    let root = low_rank_factor(covariance, MAX_OMITTED_SHARE);
    let means = Matrix::column_vector(means.into_iter().collect());
    Matrix::side_by_side(covariance.rows(), [&means, &root].into_iter())
}

/// Returns the share of a prior variance `total` that data explain if they leave the variance `residual`.
pub(super) fn explained_share(residual: f64, total: f64) -> f64 {
    if total > 0.0 { (1.0 - residual / total).clamp(0.0, 1.0) } else { 0.0 }
}

/// Support of a query by the studies.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DataSupport {
    /// Share of the first study's prior variance that its rows explain, `1 - R/F`, from 0 to 1.
    pub variance_explained_by_first: f64,
    /// Share of the outcome's prior variance that the later studies' rows explain, at the mediators of the
    /// query, from 0 to 1.
    pub resolved_by_rest: f64,
    /// Effective number of rows of the first study that determine the query, `(Σ|E|)²/Σ E²`.
    pub effective_rows: f64,
    /// `Σ E`: 1 if rows determine the effect entirely, less where it returns to the constant.
    pub weight_sum: f64,
    /// Share of the prior variance of the population's covariates that rows explain, from 0 to 1; 1 for all
    /// units of the study, or a given population.
    pub population_explained: f64,
    /// Share of the population for which such a treatment was near, from 0 to 1. A number is near within two
    /// standard deviations of its expectation given covariates, and a level if its probability is at least 5
    /// %. The share is 1 if the effect is not averaged over covariates, or if its parameters were given.
    pub overlap: f64,
}

/// Minimum share of a supported query.
const SUPPORTED: f64 = 0.5;

impl DataSupport {
    /// Returns the support of a query from the weights of the first study's rows and the shares of variance
    /// that the first study and the later ones explain, for a population that is known.
    pub(super) fn from_weights(weights: &[f64], explained_by_first: f64, explained_by_later: f64) -> Self {
        let (sum, absolute_sum): (f64, f64) = (weights.iter().sum(), weights.iter().map(|e| e.abs()).sum());
        Self {
            variance_explained_by_first: explained_by_first,
            resolved_by_rest: explained_by_later,
            effective_rows: if absolute_sum > 0.0 {
                absolute_sum * absolute_sum / dot(weights, weights)
            } else {
                0.0
            },
            weight_sum: sum,
            population_explained: 1.0,
            overlap: 1.0,
        }
    }

    /// Combines each number with that of another support.
    pub(super) fn combined(self, other: Self, combine: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            variance_explained_by_first: combine(
                self.variance_explained_by_first,
                other.variance_explained_by_first,
            ),
            resolved_by_rest: combine(self.resolved_by_rest, other.resolved_by_rest),
            effective_rows: combine(self.effective_rows, other.effective_rows),
            weight_sum: combine(self.weight_sum, other.weight_sum),
            population_explained: combine(self.population_explained, other.population_explained),
            overlap: combine(self.overlap, other.overlap),
        }
    }

    /// Whether the studies support the query. The first study, and the later ones, must explain at least half
    /// of the prior variance, and rows at least half of the variance of the population's covariates. At least
    /// half of this population must have had such a treatment near. Without support the effect is an
    /// extrapolation of the model.
    pub fn is_supported(&self) -> bool {
        [self.variance_explained_by_first, self.resolved_by_rest, self.population_explained, self.overlap]
            .iter()
            .all(|share| *share >= SUPPORTED)
    }
}
