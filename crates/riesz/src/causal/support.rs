//! Support of a query by the data: the share of its prior variance that each study's rows explain.

/// Support of a query by the studies.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DataSupport {
    /// From 0 to 1: how much of the prior variance of where the first study leads its rows take away, `G/F`.
    pub variance_explained_by_first: f64,
    /// From 0 to 1: how much of the prior variance of the outcome there those after it take away.
    pub resolved_by_rest: f64,
    /// Effective number of rows of the first study that determine the query, `(Σ|E|)²/Σ E²`.
    pub effective_rows: f64,
    /// `Σ E`: 1 where rows determine the effect entirely, less where it returns to the constant.
    pub weight_sum: f64,
    /// From 0 to 1: how much of the prior variance of who is asked about rows take away. 1 for all people of
    /// the study, or a population.
    pub population_explained: f64,
    /// From 0 to 1: the share of these for whom such a treatment was near, within two standard deviations of
    /// what their covariates lead one to expect, or a level that these give at least 5 %. 1 where the effect
    /// is not averaged over covariates, or its numbers were given.
    pub overlap: f64,
}

/// Smallest share from which a query counts as supported.
const SUPPORTED: f64 = 0.5;

impl DataSupport {
    /// Adds another, times its weight.
    pub(super) fn add(&mut self, weight: f64, other: Self) {
        self.variance_explained_by_first += weight * other.variance_explained_by_first;
        self.resolved_by_rest += weight * other.resolved_by_rest;
        self.effective_rows += weight * other.effective_rows;
        self.weight_sum += weight * other.weight_sum;
        self.population_explained += weight * other.population_explained;
        self.overlap += weight * other.overlap;
    }

    /// Whether the studies support the query: the first study, and those after it, explain at least half of
    /// the prior variance, rows do so for the covariates of the target population, and for at least half of
    /// this population such a treatment was near. Elsewhere the effect is an extrapolation of the model.
    pub fn is_supported(&self) -> bool {
        [self.variance_explained_by_first, self.resolved_by_rest, self.population_explained, self.overlap]
            .iter()
            .all(|share| *share >= SUPPORTED)
    }
}
