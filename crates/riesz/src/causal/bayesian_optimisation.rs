//! Bayesian optimisation of treatments, with the posterior of an effect across studies as the prior.
//!
//! Source: Aglietti et al. 2020 (causal Bayesian optimisation), Chau 2023 (thesis), section 4.4.

use super::acquisition::Acquisition;
use super::domain::Domain;
use super::sequential_update::UpdatedEffect;
use super::uncertainty_parts::DataSupport;
use crate::error::{Error, Result, sized};
use crate::linalg::descending;
use crate::table::Table;

/// Treatments that are set together, with the posterior of their effect. Arms are compared by the values of
/// their best trials.
#[derive(Debug, Clone)]
pub struct TreatmentArm<'a> {
    /// The posterior of the effect.
    pub believed: UpdatedEffect<'a>,
    /// The treatments that may be tried.
    pub domain: Domain,
    /// The cost of a trial: one number for all, or one per row of the domain.
    pub costs: Vec<f64>,
}

/// Options of the choice of treatments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AcquisitionSearch {
    /// The acquisition function.
    pub acquisition: Acquisition,
    /// Whether small outcomes are wanted.
    pub minimize: bool,
    /// Whether only treatments that the studies support may be tried.
    pub supported: bool,
    /// Seed of the candidates between bounds, from which the search of several numeric treatments starts.
    pub seed: u64,
}

/// A treatment to try.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// Index of its arm, from 0.
    pub arm: usize,
    /// Its treatments, in the order of the effect's columns.
    pub treatments: Vec<f64>,
    /// The value of the acquisition function.
    pub acquisition: f64,
    /// The expected improvement over the best so far, regardless of cost.
    pub expected_improvement: f64,
    /// Posterior mean of its effect.
    pub mean: f64,
    /// Posterior standard deviation of its effect.
    pub sd: f64,
    /// Whether the studies support the treatment.
    pub supported: bool,
}

/// The best treatment so far, on which suggestions should improve.
#[derive(Debug, Clone, PartialEq)]
pub struct Incumbent {
    /// Index of its arm, from 0.
    pub arm: usize,
    /// Its treatments, in the order of the effect's columns.
    pub treatments: Vec<f64>,
    /// Posterior mean of its effect.
    pub mean: f64,
}

/// Initial rows of an arm's domain, and the cost of each.
type Candidates = (Table, Vec<f64>);

/// Means, standard deviations and support of treatments.
type Marginals = (Vec<f64>, Vec<f64>, Vec<DataSupport>);

impl AcquisitionSearch {
    /// Suggests `count` treatments to try at once.
    ///
    /// Each suggestion after the first is chosen as if those before it had their expected outcomes, so that
    /// they differ (Ginsbourger et al. 2010). The best so far is the largest posterior mean among the tried
    /// treatments, which noise does not inflate. Before any trial it is the largest among all allowed
    /// treatments. Each suggestion costs as much as the effect at all rows of the domains.
    ///
    /// # Errors
    /// [`Error::TooFew`], [`Error::Shape`] and [`Error::Parameter`] for invalid domains and costs; errors of
    /// [`UpdatedEffect::evaluate`].
    pub fn suggest(&self, arms: &[TreatmentArm<'_>], count: usize) -> Result<Vec<Suggestion>> {
        let costs: Vec<f64> = arms.iter().flat_map(|arm| arm.costs.iter().copied()).collect();
        costs.iter().try_for_each(|cost| crate::checks::positive("cost", *cost))?;
        if matches!(self.acquisition, Acquisition::Ucb { .. }) && costs.iter().any(|c| *c != costs[0]) {
            let allowed = "a confidence bound cannot be divided by costs: use log-ei or ei";
            return Err(Error::parameter("acquisition", "ucb with costs", allowed));
        }
        let candidates = self.all_candidates(arms)?;
        let mut posteriors: Vec<UpdatedEffect<'_>> = arms.iter().map(|arm| arm.believed.clone()).collect();
        let mut suggestions: Vec<Suggestion> = Vec::with_capacity(count);
        for _ in 0..count {
            let next = self.next(arms, &posteriors, &candidates)?;
            let row = Table::from_named_rows(
                posteriors[next.arm].columns().to_vec(),
                std::slice::from_ref(&next.treatments),
            )?;
            posteriors[next.arm] = posteriors[next.arm].fantasy_update(&row, next.mean)?;
            suggestions.push(next);
        }
        Ok(suggestions)
    }

    /// Returns the treatment with the best posterior mean among the tried ones, or, before any trial, among
    /// all allowed ones. The cost is that of one suggestion.
    ///
    /// # Errors
    /// As [`suggest`](Self::suggest).
    pub fn best(&self, arms: &[TreatmentArm<'_>]) -> Result<Incumbent> {
        let incumbents_of_arm = |(arm, treatment_arm): (usize, &TreatmentArm<'_>)| {
            let rows = treatment_arm.believed.trials();
            let means = treatment_arm.believed.means_at_trials().into_iter().enumerate();
            means.map(|(i, mean)| Incumbent { arm, treatments: rows.row(i), mean }).collect::<Vec<_>>()
        };
        let mut incumbents: Vec<Incumbent> = arms.iter().enumerate().flat_map(incumbents_of_arm).collect();
        if incumbents.is_empty() {
            for (arm, (rows, _)) in self.all_candidates(arms)?.iter().enumerate() {
                let (means, ..) = arms[arm].believed.marginals(rows)?;
                incumbents.extend(means.into_iter().enumerate().map(|(i, mean)| Incumbent {
                    arm,
                    treatments: rows.row(i),
                    mean,
                }));
            }
        }
        // Ties go to the first.
        let best = incumbents
            .into_iter()
            .reduce(|a, b| if self.signed_objective(b.mean) > self.signed_objective(a.mean) { b } else { a });
        best.ok_or_else(no_candidates)
    }

    fn all_candidates(&self, arms: &[TreatmentArm<'_>]) -> Result<Vec<Candidates>> {
        let candidates: Vec<Candidates> =
            arms.iter().map(|arm| self.candidates(arm)).collect::<Result<_>>()?;
        if candidates.iter().all(|(rows, _)| rows.rows() == 0) {
            let allowed =
                "the studies support none of the candidates: allow all, or give other candidates or bounds";
            return Err(Error::parameter("supported", true, allowed));
        }
        Ok(candidates)
    }

    fn candidates(&self, arm: &TreatmentArm<'_>) -> Result<Candidates> {
        let rows = arm.domain.rows(arm.believed.columns(), self.seed)?;
        let costs = match &arm.costs[..] {
            [cost] => vec![*cost; rows.rows()],
            _ if arm.domain.needs_local_search() => {
                let allowed =
                    "several treatments between bounds have one cost: give candidates to set a cost for each";
                return Err(Error::parameter("costs", format!("{} numbers", arm.costs.len()), allowed));
            }
            costs => costs.to_vec(),
        };
        sized("costs", "numbers", rows.rows(), costs.len(), "one for all candidates, or one per candidate")?;
        if !self.supported {
            return Ok((rows, costs));
        }
        let (_, _, support) = arm.believed.marginals(&rows)?;
        let kept: Vec<usize> = (0..rows.rows()).filter(|&i| support[i].is_supported()).collect();
        Ok((rows.select_rows(&kept), kept.iter().map(|&i| costs[i]).collect()))
    }

    fn next(
        &self,
        arms: &[TreatmentArm<'_>],
        posteriors: &[UpdatedEffect<'_>],
        candidates: &[Candidates],
    ) -> Result<Suggestion> {
        let marginals =
            posteriors.iter().zip(candidates).map(|(posterior, (rows, _))| posterior.marginals(rows));
        let marginals_by_arm: Vec<Marginals> = marginals.collect::<Result<_>>()?;
        let mut means: Vec<f64> = posteriors.iter().flat_map(UpdatedEffect::means_at_trials).collect();
        if means.is_empty() {
            means = marginals_by_arm.iter().flat_map(|(mean, _, _)| mean.iter().copied()).collect();
        }
        let best = means.into_iter().map(|m| self.signed_objective(m)).fold(f64::NEG_INFINITY, f64::max);
        let mut chosen: Option<Suggestion> = None;
        for (arm, treatment_arm) in arms.iter().enumerate() {
            let (rows, costs) = &candidates[arm];
            let values = self.values(&marginals_by_arm[arm], costs, best);
            let starts = if treatment_arm.domain.needs_local_search() { STARTS } else { 1 };
            for i in descending(&values).into_iter().take(starts) {
                let optimum = treatment_arm.domain.compass_search(
                    rows.columns(),
                    (rows.row(i), values[i]),
                    |neighbours| {
                        let marginals = posteriors[arm].marginals(neighbours)?;
                        let mut values =
                            self.values(&marginals, &vec![treatment_arm.costs[0]; neighbours.rows()], best);
                        for (value, support) in values.iter_mut().zip(&marginals.2) {
                            if self.supported && !support.is_supported() {
                                *value = f64::NEG_INFINITY;
                            }
                        }
                        Ok(values)
                    },
                )?;
                let (treatments, acquisition) = optimum;
                if chosen.as_ref().is_none_or(|other| acquisition > other.acquisition) {
                    let row =
                        Table::from_named_rows(rows.columns().to_vec(), std::slice::from_ref(&treatments))?;
                    let (mean, sd, support) = posteriors[arm].marginals(&row)?;
                    let supported = support[0].is_supported();
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

    /// Returns the outcome with the sign for which larger is better.
    fn signed_objective(&self, outcome: f64) -> f64 {
        if self.minimize { -outcome } else { outcome }
    }

    fn values(&self, (mean, sd, _): &Marginals, costs: &[f64], best: f64) -> Vec<f64> {
        let moments = mean.iter().zip(sd).zip(costs);
        moments
            .map(|((mean, sd), cost)| self.acquisition.value(self.signed_objective(*mean) - best, *sd, *cost))
            .collect()
    }
}

/// Number of candidates from which the local search starts.
const STARTS: usize = 3;

fn no_candidates() -> Error {
    Error::too_few("candidates", 1, "row is")
}
