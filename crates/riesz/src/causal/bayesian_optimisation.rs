//! Which treatments to try next: Bayesian optimisation with an effect across studies as the prior.
//!
//! Source: Aglietti et al. 2020 (causal Bayesian optimisation), Chau 2023 (thesis), section 4.4.

use super::acquisition::Acquisition;
use super::domain::{Domain, table};
use super::sequential_update::UpdatedEffect;
use super::support::DataSupport;
use crate::error::{Error, Result, sized};
use crate::table::Table;

/// Treatments that are set together, with what is believed of their effect. Several are compared by what a
/// trial is worth.
#[derive(Debug, Clone)]
pub struct TreatmentArm<'a> {
    /// What is believed of the effect.
    pub believed: UpdatedEffect<'a>,
    /// What may be tried.
    pub domain: Domain,
    /// What a trial costs: one number for all of them, or one a row of the domain.
    pub costs: Vec<f64>,
}

/// How treatments are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AcquisitionSearch {
    /// What a trial is worth.
    pub acquisition: Acquisition,
    /// Whether small outcomes are wanted.
    pub minimize: bool,
    /// Whether only treatments that the studies tell may be tried.
    pub supported: bool,
    /// Where the search of several numeric treatments begins.
    pub seed: u64,
}

/// A treatment to try.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// The number of its arm, from 0.
    pub arm: usize,
    /// Its treatments, in the order of the effect's columns.
    pub treatments: Vec<f64>,
    /// What trying it is worth.
    pub acquisition: f64,
    /// By how much it is expected to improve on the best so far, whatever it costs.
    pub expected_improvement: f64,
    /// The mean and standard deviation of its effect as believed.
    pub mean: f64,
    /// See `mean`.
    pub sd: f64,
    /// Whether the studies tell it.
    pub supported: bool,
}

/// What suggestions are to improve on.
#[derive(Debug, Clone, PartialEq)]
pub struct Incumbent {
    /// The number of its arm, from 0.
    pub arm: usize,
    /// Its treatments, in the order of the effect's columns.
    pub treatments: Vec<f64>,
    /// The mean of its effect as believed.
    pub mean: f64,
}

/// Rows of an arm to begin with, and what each costs.
type Candidates = (Table, Vec<f64>);

/// Means, standard deviations, and how the studies stand to treatments.
type Marginals = (Vec<f64>, Vec<f64>, Vec<DataSupport>);

impl AcquisitionSearch {
    /// So many treatments to try at once. Each but the first is chosen as if those before it turned out as
    /// expected, so that they are not all the same (Ginsbourger et al. 2010). What is best so far is the best
    /// mean of what was tried, which noise does not flatter, or where nothing was tried of all that may be.
    /// Cost by suggestion that of the effect at all rows of the domains.
    ///
    /// # Errors
    /// [`Error::TooFew`], [`Error::Shape`] and [`Error::Parameter`] for domains and costs that cannot be; as
    /// [`UpdatedEffect::at`].
    pub fn suggest(&self, arms: &[TreatmentArm<'_>], count: usize) -> Result<Vec<Suggestion>> {
        let costs: Vec<f64> = arms.iter().flat_map(|arm| arm.costs.iter().copied()).collect();
        if let Some(bad) = costs.iter().find(|c| !(c.is_finite() && **c > 0.0)) {
            return Err(Error::parameter("cost", bad, "it is a positive number"));
        }
        if matches!(self.acquisition, Acquisition::Ucb { .. }) && costs.iter().any(|c| *c != costs[0]) {
            let allowed = "a bound is not a gain that costs could divide: use log-ei or ei";
            return Err(Error::parameter("acquisition", "ucb with costs", allowed));
        }
        let candidates = self.all_candidates(arms)?;
        let mut beliefs: Vec<UpdatedEffect<'_>> = arms.iter().map(|arm| arm.believed.clone()).collect();
        let mut found: Vec<Suggestion> = Vec::with_capacity(count);
        for _ in 0..count {
            let next = self.next(arms, &beliefs, &candidates)?;
            let row = table(beliefs[next.arm].columns(), std::slice::from_ref(&next.treatments))?;
            beliefs[next.arm] = beliefs[next.arm].fantasy_update(&row, next.mean)?;
            found.push(next);
        }
        Ok(found)
    }

    /// What is best so far, by its mean as believed: of what was tried, or where nothing was of all that may
    /// be. Cost as that of a suggestion.
    ///
    /// # Errors
    /// As [`suggest`](Self::suggest).
    pub fn best(&self, arms: &[TreatmentArm<'_>]) -> Result<Incumbent> {
        let tried = |(arm, own): (usize, &TreatmentArm<'_>)| {
            let rows = own.believed.trials();
            let each = own.believed.means_at_trials().into_iter().enumerate();
            each.map(|(i, mean)| Incumbent { arm, treatments: rows.row(i), mean }).collect::<Vec<_>>()
        };
        let mut all: Vec<Incumbent> = arms.iter().enumerate().flat_map(tried).collect();
        if all.is_empty() {
            for (arm, (rows, _)) in self.all_candidates(arms)?.iter().enumerate() {
                let (means, ..) = arms[arm].believed.marginals(rows)?;
                all.extend(means.into_iter().enumerate().map(|(i, mean)| Incumbent {
                    arm,
                    treatments: rows.row(i),
                    mean,
                }));
            }
        }
        // The first of equals.
        let found = all
            .into_iter()
            .reduce(|a, b| if self.signed_objective(b.mean) > self.signed_objective(a.mean) { b } else { a });
        found.ok_or_else(no_candidates)
    }

    fn all_candidates(&self, arms: &[TreatmentArm<'_>]) -> Result<Vec<Candidates>> {
        let candidates: Vec<Candidates> =
            arms.iter().map(|arm| self.candidates(arm)).collect::<Result<_>>()?;
        if candidates.iter().all(|(rows, _)| rows.rows() == 0) {
            let allowed =
                "the studies tell none of the candidates: let all be tried, or give other ones, or bounds";
            return Err(Error::parameter("supported", true, allowed));
        }
        Ok(candidates)
    }

    fn candidates(&self, arm: &TreatmentArm<'_>) -> Result<Candidates> {
        let rows = arm.domain.rows(arm.believed.columns(), self.seed)?;
        let costs = match &arm.costs[..] {
            [one] => vec![*one; rows.rows()],
            _ if arm.domain.is_searched() => {
                let allowed =
                    "several treatments between bounds have one cost: give candidates with a cost each";
                return Err(Error::parameter("costs", format!("{} numbers", arm.costs.len()), allowed));
            }
            own => own.to_vec(),
        };
        sized("costs", "numbers", rows.rows(), costs.len(), "one, or one a candidate")?;
        if !self.supported {
            return Ok((rows, costs));
        }
        let (_, _, standing) = arm.believed.marginals(&rows)?;
        let kept: Vec<usize> = (0..rows.rows()).filter(|&i| standing[i].is_supported()).collect();
        Ok((rows.select_rows(&kept), kept.iter().map(|&i| costs[i]).collect()))
    }

    fn next(
        &self,
        arms: &[TreatmentArm<'_>],
        beliefs: &[UpdatedEffect<'_>],
        candidates: &[Candidates],
    ) -> Result<Suggestion> {
        let each = beliefs.iter().zip(candidates).map(|(belief, (rows, _))| belief.marginals(rows));
        let told: Vec<Marginals> = each.collect::<Result<_>>()?;
        let mut means: Vec<f64> = beliefs.iter().flat_map(UpdatedEffect::means_at_trials).collect();
        if means.is_empty() {
            means = told.iter().flat_map(|(mean, _, _)| mean.iter().copied()).collect();
        }
        let best = means.into_iter().map(|m| self.signed_objective(m)).fold(f64::NEG_INFINITY, f64::max);
        let mut chosen: Option<Suggestion> = None;
        for (arm, own) in arms.iter().enumerate() {
            let (rows, costs) = &candidates[arm];
            let values = self.values(&told[arm], costs, best);
            let mut order: Vec<usize> = (0..values.len()).collect();
            order.sort_by(|&i, &j| values[j].total_cmp(&values[i]));
            let starts = if own.domain.is_searched() { STARTS } else { 1 };
            for &i in order.iter().take(starts) {
                let climbed = own.domain.climb(rows.columns(), (rows.row(i), values[i]), |around| {
                    let each = beliefs[arm].marginals(around)?;
                    let mut values = self.values(&each, &vec![own.costs[0]; around.rows()], best);
                    for (value, standing) in values.iter_mut().zip(&each.2) {
                        if self.supported && !standing.is_supported() {
                            *value = f64::NEG_INFINITY;
                        }
                    }
                    Ok(values)
                })?;
                let (treatments, acquisition) = climbed;
                if chosen.as_ref().is_none_or(|other| acquisition > other.acquisition) {
                    let row = table(rows.columns(), std::slice::from_ref(&treatments))?;
                    let (mean, sd, standing) = beliefs[arm].marginals(&row)?;
                    let supported = standing[0].is_supported();
                    chosen = Some(Suggestion {
                        arm,
                        treatments,
                        acquisition,
                        expected_improvement: Acquisition::Ei.value(
                            self.signed_objective(mean[0]) - best,
                            sd[0],
                            1.0,
                        ),
                        mean: mean[0],
                        sd: sd[0],
                        supported,
                    });
                }
            }
        }
        chosen.ok_or_else(no_candidates)
    }

    /// An outcome such that larger is better.
    fn signed_objective(&self, outcome: f64) -> f64 {
        if self.minimize { -outcome } else { outcome }
    }

    fn values(&self, (mean, sd, _): &Marginals, costs: &[f64], best: f64) -> Vec<f64> {
        let each = mean.iter().zip(sd).zip(costs);
        each.map(|((mean, sd), cost)| self.acquisition.value(self.signed_objective(*mean) - best, *sd, *cost))
            .collect()
    }
}

/// Candidates from which the local search begins.
const STARTS: usize = 3;

fn no_candidates() -> Error {
    Error::TooFew { what: "candidates".into(), needed: 1, unit: "row is" }
}
