//! Covariances split by the cause of the uncertainty, and the support of a query by the data: the share of
//! its prior variance that each study's rows explain.

use crate::linalg::Matrix;

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

/// Adds a matrix to another.
pub(super) fn add_matrix(total: &mut Matrix, addend: &Matrix) {
    total.data_mut().iter_mut().zip(addend.data()).for_each(|(a, b)| *a += b);
}

/// Adds a part, times its weight, to the part with the same cause.
pub(super) fn add_part(parts: &mut CovarianceParts, cause: UncertaintyCause, weight: f64, part: &Matrix) {
    let place = parts.iter().position(|(other_cause, _)| *other_cause == cause).unwrap_or_else(|| {
        parts.push((cause, Matrix::zeros(part.rows(), part.cols())));
        parts.len() - 1
    });
    let matrix = &mut parts[place].1;
    matrix.data_mut().iter_mut().zip(part.data()).for_each(|(a, b)| *a += weight * b);
}

/// Returns the sum of all parts, for `count` functionals.
pub(super) fn sum_parts(parts: &CovarianceParts, count: usize) -> Matrix {
    let mut total = Matrix::zeros(count, count);
    parts.iter().for_each(|(_, part)| add_matrix(&mut total, part));
    total
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
    /// Adds another support times a weight.
    pub(super) fn add(&mut self, weight: f64, other: Self) {
        self.variance_explained_by_first += weight * other.variance_explained_by_first;
        self.resolved_by_rest += weight * other.resolved_by_rest;
        self.effective_rows += weight * other.effective_rows;
        self.weight_sum += weight * other.weight_sum;
        self.population_explained += weight * other.population_explained;
        self.overlap += weight * other.overlap;
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
