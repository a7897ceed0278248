//! How queries stand to studies: how much of what is asked their rows tell.

/// How a query stands to the studies.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DataSupport {
    /// From 0 to 1: how much of the prior variance of where the first study leads its rows take away, `G/F`.
    pub variance_explained_by_first: f64,
    /// From 0 to 1: how much of the prior variance of the outcome there those after it take away.
    pub resolved_by_rest: f64,
    /// By how many rows of the first study the query is told, `(Σ|E|)²/Σ E²`.
    pub effective_rows: f64,
    /// `Σ E`: 1 where all is told by rows, less where it returns to the constant.
    pub weight_sum: f64,
    /// From 0 to 1: how much of the prior variance of who is asked about rows take away. 1 for all people of
    /// the study, or a population.
    pub population_explained: f64,
    /// From 0 to 1: the share of these for whom such a treatment was near, within two standard deviations of
    /// what their covariates lead one to expect, or a level that these give at least 5 %. 1 where the effect
    /// is not averaged over covariates, or its numbers were given.
    pub overlap: f64,
}

/// What is told to less than that is not told.
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

    /// Whether the studies tell it: the first, and those after it, take away half of the prior variance or
    /// more, as rows do of who is asked about, and for half of these such a treatment was near. Elsewhere it
    /// is what the model makes of rows that are far away.
    pub fn is_supported(&self) -> bool {
        [self.variance_explained_by_first, self.resolved_by_rest, self.population_explained, self.overlap]
            .iter()
            .all(|own| *own >= SUPPORTED)
    }
}
