//! The model of Bradley and Terry (1952), the baseline of all models of duels. Each item i has an ability
//! β_i, and the log odds of a duel are the difference of the two abilities. With covariates x_i, abilities
//! are linear, `β_i = θᵀx_i`.
//!
//! A ridge λ on the coefficients is the prior N(0, 1/λ). So the model is a Gaussian process with the utility
//! kernel `k(i, j) = [i = j]/λ`, or a linear kernel; but it has few coefficients and is cheap for any number
//! of duels.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::comparison_graph::add_to_both;
use super::duels::Duels;
use super::pair_kernel::{self, Pair, wide_columns};
use super::paired_logistic::{PairedLogistic, PairedLogisticMode, RidgeEvidence, no_maximum};
use crate::error::{Error, Result, listed, sized};
use crate::kernel::{Categorical, Kernel, Linear};
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Matrix, Sparse, dot, mean};
use crate::model_card::CardEntry;
use crate::posterior::{Posterior, PosteriorCovariance, VarianceReduction};
use crate::table::{Column, ColumnKind, Table};

/// The largest number of coefficients for which files contain their covariance, which needs 4 times the
/// square of this number in bytes.
const MAX_COVARIANCE_COEFS: usize = 1000;

/// Largest distance of the logarithm of a chosen ridge from the mean of its prior, and largest step.
const MAX_LOG_RIDGE_CHANGE: f64 = 11.5;
const MAX_LOG_RIDGE_STEP: f64 = 3.0;
/// Largest step of the logarithm of the ridge after which the evidence is not evaluated again.
const LAST_LOG_RIDGE_STEP: f64 = 1e-4;
/// Maximal number of evaluations of the evidence.
const MAX_EVIDENCE_EVALUATIONS: usize = 60;

/// The choice of the ridge on the coefficients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AbilityRidge {
    /// The factor λ ≥ 0 of the penalty `½ λ Σ β²`. At 0 the likelihood alone is maximised, if it has a
    /// maximum.
    Fixed(f64),
    /// Random effects: λ maximises Laplace's approximation of the marginal likelihood times the weakly
    /// informative prior of a [utility's variance](super::PreferenceProcess).
    Evidence,
}

/// Bradley and Terry's model of duels.
///
/// ```
/// use riesz::preference::{AbilityRidge, BradleyTerry, Duels};
///
/// // Two players; the first one won three of four duels.
/// let duels = Duels::new(2, &[0, 0, 0, 1], &[1, 1, 1, 0], &[1.0; 4], None)?;
/// let names = ["Ada".to_string(), "Bob".to_string()];
/// let fit = BradleyTerry::new(AbilityRidge::Fixed(0.0)).fit(&names, &duels)?;
/// assert!((fit.coef[0] - fit.coef[1] - 3.0_f64.ln()).abs() < 1e-9);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct BradleyTerry {
    /// The ridge on the coefficients.
    pub ridge: AbilityRidge,
    /// Another thread sets this flag to stop the fit.
    pub stop: Arc<AtomicBool>,
}

/// A fitted model of Bradley and Terry.
#[derive(Debug, Clone)]
pub struct BradleyTerryFit {
    /// The log odds that the left item wins, as a function of wide rows: of the items' names (`left_item`,
    /// `right_item`), or of their covariates.
    pub model: KernelExpansion,
    /// Covariance of the coefficients: that of the posterior given a ridge, or the asymptotic covariance of
    /// maximum likelihood. `None` for more than 1,000 coefficients.
    pub covariance: Option<PosteriorCovariance>,
    /// One ability per item, with sum 0; NaN for items without duels if there is no ridge, because the
    /// likelihood does not determine their abilities. In the linear model, one coefficient per covariate, per
    /// unit of the column.
    pub coef: Vec<f64>,
    /// The ridge λ that was used. For covariates it applies to columns divided by their standard deviations
    /// over the items.
    pub ridge: f64,
    /// The log likelihood of the duels at the maximum.
    pub log_likelihood: f64,
    /// Laplace's approximation of the log marginal likelihood, if it was used to choose the ridge.
    pub log_marginal_likelihood: Option<f64>,
    /// The number of Newton steps, or of evaluations of the marginal likelihood.
    pub steps: usize,
    /// Notes for the user: several components, items that never won or never lost.
    pub notes: Vec<String>,
    regression: PairedLogistic,
    mode: PairedLogisticMode,
    /// Standard deviations of the parameters, if their covariance was computed.
    parameter_sd: Option<Vec<f64>>,
    /// The units by which the columns were divided.
    units: Vec<f64>,
    /// For each item of the duels, its index in the model.
    indices: Vec<Option<usize>>,
}

impl BradleyTerry {
    /// Creates the model with this ridge.
    pub fn new(ridge: AbilityRidge) -> Self {
        Self { ridge, stop: Arc::default() }
    }

    /// Fits one ability per item; `names` are the items' names. Cost of a Newton step: about 10 to 100 times
    /// the number of compared pairs; if the ridge is chosen, items³ for each of about 5 evaluations.
    ///
    /// # Errors
    /// [`Error::Target`] without a ridge if the likelihood has no maximum: for items that never won or never
    /// lost, and if wins do not connect all items (Ford 1957); [`Error::Parameter`]; [`Error::Shape`];
    /// [`Error::NotConverged`]; [`Error::Interrupted`].
    pub fn fit(&self, names: &[String], duels: &Duels) -> Result<BradleyTerryFit> {
        sized("the list of names", "names", duels.items(), names.len(), "one per item of the duels")?;
        let mut notes = Vec::new();
        let unpenalised = self.ridge == AbilityRidge::Fixed(0.0);
        if let Some(problem) = disconnected_reason(duels, names) {
            if unpenalised {
                return Err(no_maximum("Bradley-Terry abilities", &problem));
            }
            notes.push(format!("{problem}: only the ridge keeps abilities finite, or comparable"));
        }
        // Without a ridge, the likelihood does not determine the abilities of items without duels.
        let mut duel_weight = vec![0.0; names.len()];
        add_to_both(&mut duel_weight, duels.pairs(), duels.weight());
        let rated: Vec<usize> = (0..names.len()).filter(|&i| !unpenalised || duel_weight[i] > 0.0).collect();
        let n = rated.len();
        let mut indices = vec![None; names.len()];
        rated.iter().enumerate().for_each(|(index, &i)| indices[i] = Some(index));
        let index_of = |i: usize| indices[i].unwrap_or_default();
        let pairs = duels.pairs().iter().map(|&(l, r)| (index_of(l), index_of(r))).collect();
        let regression = PairedLogistic::from_items(n, pairs, duels);
        let solution = self.solve(&regression)?;
        let theta = &solution.mode.theta;
        let coef = indices.iter().map(|index| index.map_or(f64::NAN, |index| theta[index])).collect();

        // One pair of points per other item against the first item. The total coefficient of the first item
        // is minus the sum of the other abilities, which is its own ability because abilities sum to 0.
        let levels: Vec<String> = rated.iter().map(|&i| names[i].clone()).collect();
        let columns =
            wide_columns(&[Column { name: "item".into(), kind: ColumnKind::Categorical { levels } }]);
        let other_items = || 1..n;
        let left = other_items().flat_map(|i| [i, 0]);
        let values: Vec<f64> = left.chain(other_items().flat_map(|i| [0, i])).map(|i| i as f64).collect();
        let points = Table::from_column_major(columns, 2 * (n - 1), values)?;
        let kernel = |column: usize| Kernel::from(Categorical { columns: [column], similarity: 0.0 });
        let point_coef = other_items().flat_map(|i| [theta[i], -theta[i]]).collect();
        let model =
            expansion("Bradley-Terry", kernel(0) + kernel(1), points, point_coef, duels, &solution, &notes)?;
        let units = vec![1.0; n];
        let mut fit = BradleyTerryFit { notes, indices, ..solution.into_fit(model, coef, regression, units) };
        if n <= MAX_COVARIANCE_COEFS {
            let factor = fit.regression.centred_precision(&fit.mode)?;
            let variances = fit.regression.ability_variances(&factor, fit.ridge);
            fit.parameter_sd = Some(variances.iter().map(|v| v.sqrt()).collect());
            // Points are the pairs (i, 0) and (0, i) for each other item i.
            let columns = (0..n - 1).map(|i| [(2 * i, 1.0), (2 * i + 1, -1.0)]);
            let operator = Sparse::from_columns(2 * (n - 1), columns)?;
            let reduction = vec![VarianceReduction::Precision { operator, factor }];
            fit.covariance = Some(PosteriorCovariance {
                prior_scale: 0.0,
                ..PosteriorCovariance::new(reduction, vec![1.0])
            });
        }
        Ok(fit)
    }

    /// Fits abilities that are linear in the items' numeric columns. Cost of a Newton step: pairs times
    /// columns, and columns³.
    ///
    /// # Errors
    /// [`Error::WrongKind`] for categorical columns; [`Error::Target`] without a ridge for linearly dependent
    /// columns, and if one weighted sum of columns predicts all winners; [`Error::Parameter`];
    /// [`Error::Shape`]; [`Error::Interrupted`].
    pub fn fit_linear(&self, items: &Table, duels: &Duels) -> Result<BradleyTerryFit> {
        sized("the table of items", "rows", duels.items(), items.rows(), "one per item of the duels")?;
        if let Some(column) = items.columns().iter().find(|c| c.kind != ColumnKind::Numeric) {
            let (kind, expected) = ("categories", "numbers (write an indicator column for each level)");
            return Err(Error::WrongKind { column: column.name.clone(), actual: kind, expected });
        }
        let (n, d) = (items.rows(), items.width());
        let (mut center, mut units) = (vec![0.0; d], vec![1.0; d]);
        for j in 0..d {
            let column = items.column(j);
            center[j] = mean(column);
            let sd = (column.iter().map(|v| (v - center[j]).powi(2)).sum::<f64>() / n as f64).sqrt();
            if sd > 1e-12 * center[j].abs() {
                units[j] = sd;
            }
        }
        let x = Matrix::from_fn(n, d, |i, j| (items.get(i, j) - center[j]) / units[j]);
        let regression = PairedLogistic::from_features(x, duels);
        let solution = self.solve(&regression)?;
        let theta = &solution.mode.theta;
        // At point j, column j is one unit above its centre on the left, and one unit below on the right.
        let columns = wide_columns(items.columns());
        let coordinate =
            |j: usize, p: usize, sign: f64| center[j] + if j == p { sign * units[j] } else { 0.0 };
        let values = (0..2 * d).flat_map(|j| {
            let sign = if j < d { 1.0 } else { -1.0 };
            (0..d).map(move |p| (j % d, p, sign))
        });
        let points =
            Table::from_column_major(columns, d, values.map(|(j, p, s)| coordinate(j, p, s)).collect())?;
        let kernel = |first: usize| {
            let columns = (first..first + d).collect();
            Kernel::from(Linear { columns, center: center.clone(), scale: units.clone() })
        };
        let name = "linear Bradley-Terry";
        let model = expansion(name, kernel(0) + kernel(d), points, theta.clone(), duels, &solution, &[])?;
        let coef = theta.iter().zip(&units).map(|(t, u)| t / u).collect();
        let mut fit = solution.into_fit(model, coef, regression, units);
        let mut reduction = fit.regression.covariance(&fit.mode)?;
        fit.parameter_sd = Some(reduction.standard_deviations());
        reduction.map_in_place(|v| -v);
        fit.covariance = Some(PosteriorCovariance::dense(0.0, reduction));
        Ok(fit)
    }

    fn solve(&self, regression: &PairedLogistic) -> Result<BradleyTerrySolution> {
        if let AbilityRidge::Fixed(ridge) = self.ridge {
            crate::checks::not_negative("ridge", ridge, "it must be finite and 0 or more")?;
            let mode = regression.mode(ridge, None, &self.stop)?;
            let steps = mode.steps;
            return Ok(BradleyTerrySolution { mode, ridge, evidence: None, steps });
        }
        self.best_ridge(regression)
    }

    /// Returns the maximum for the ridge λ that maximises the evidence times its prior. The derivative in
    /// log λ is 0 there; the secant method finds this λ within a bracket.
    fn best_ridge(&self, regression: &PairedLogistic) -> Result<BradleyTerrySolution> {
        let prior_mean = -2.0 * 1.5_f64.ln();
        let mut bracket = [prior_mean - MAX_LOG_RIDGE_CHANGE, prior_mean + MAX_LOG_RIDGE_CHANGE];
        let log_prior = |log_ridge: f64| -(log_ridge - prior_mean).powi(2) / 18.0;
        let prior_derivative = |log_ridge: f64| -(log_ridge - prior_mean) / 9.0;
        let (mut log_ridge, mut start, mut previous) = (prior_mean, None, None);
        for steps in 1.. {
            let ridge = log_ridge.exp();
            let RidgeEvidence { value, derivative, mode, mode_derivative } =
                regression.evidence(ridge, start, &self.stop)?;
            let derivative = derivative + prior_derivative(log_ridge);
            bracket[usize::from(derivative < 0.0)] = log_ridge;
            let curvature = previous.map_or(0.0, |(log_ridge_before, derivative_before): (f64, f64)| {
                (derivative - derivative_before) / (log_ridge - log_ridge_before)
            });
            let step = if curvature < 0.0 {
                -derivative / curvature
            } else {
                // The fixed-point iteration of MacKay (1992).
                (1.0 + 2.0 * derivative / (ridge * dot(&mode.theta, &mode.theta))).max(0.0).ln()
            };
            let predicted = |change: f64| {
                let terms = mode.theta.iter().zip(&mode_derivative);
                Some(terms.map(|(theta, derivative)| theta + change * derivative).collect())
            };
            if step.abs() <= LAST_LOG_RIDGE_STEP {
                // The value is quadratic over the last step, up to an error of the order of the step's cube.
                let final_log_ridge = log_ridge + step;
                let mode = regression.mode(final_log_ridge.exp(), predicted(step), &self.stop)?;
                let evidence =
                    value + 0.5 * derivative * step + log_prior(log_ridge) - log_prior(final_log_ridge);
                return Ok(BradleyTerrySolution {
                    mode,
                    ridge: final_log_ridge.exp(),
                    evidence: Some(evidence),
                    steps,
                });
            }
            if bracket[1] - bracket[0] <= LAST_LOG_RIDGE_STEP || steps == MAX_EVIDENCE_EVALUATIONS {
                return Ok(BradleyTerrySolution { mode, ridge, evidence: Some(value), steps });
            }
            let mut next = log_ridge + step.clamp(-MAX_LOG_RIDGE_STEP, MAX_LOG_RIDGE_STEP);
            if !(bracket[0] < next && next < bracket[1]) {
                next = 0.5 * (bracket[0] + bracket[1]);
            }
            start = predicted(next - log_ridge);
            previous = Some((log_ridge, derivative));
            log_ridge = next;
        }
        unreachable!("the number of evaluations is limited")
    }
}

impl BradleyTerryFit {
    /// Returns the standard deviations of [`coef`](Self::coef). Those of abilities are relative to a mean
    /// ability of 0, unless a ridge fixes the origin. Cost coefficients³ for more than 1,000 coefficients.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`].
    pub fn std_errors(&self) -> Result<Vec<f64>> {
        let sd = match &self.parameter_sd {
            Some(parameter_sd) => parameter_sd,
            None => {
                let precision = self.regression.centred_precision(&self.mode)?;
                let variances = self.regression.ability_variances(&precision, self.ridge);
                &variances.iter().map(|v| v.sqrt()).collect()
            }
        };
        let sd_of = |i: usize| sd[i];
        Ok(if self.indices.is_empty() {
            self.units.iter().enumerate().map(|(j, unit)| sd_of(j) / unit).collect()
        } else {
            self.indices.iter().map(|index| index.map_or(f64::NAN, sd_of)).collect()
        })
    }

    /// Returns the mean and covariance of the abilities of all items, for
    /// [`RankingRequest::of_abilities`](super::RankingRequest::of_abilities). Cost items³.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a linear model, and for an item without duels if there is no ridge;
    /// [`Error::NotPositiveDefinite`].
    pub fn abilities(&self) -> Result<(Vec<f64>, Matrix)> {
        if self.indices.is_empty() {
            return Err(Error::parameter(
                "model",
                "linear",
                "a linear model has coefficients of columns, not abilities of items",
            ));
        }
        if let Some(item) = self.indices.iter().position(Option::is_none) {
            return Err(unknown_ability(item));
        }
        Ok((self.coef.clone(), self.regression.covariance(&self.mode)?))
    }

    /// Returns the differences of abilities with their standard deviations, for pairs of items by their
    /// indices in the duels. Cost coefficients³ for at most 3,000 coefficients; otherwise conjugate gradients
    /// for each pair, about 100 times the number of compared pairs.
    ///
    /// # Errors
    /// [`Error::Parameter`] for items that do not exist, or have no duels if there is no ridge;
    /// [`Error::NotConverged`]; [`Error::Interrupted`].
    pub fn differences(&self, pairs: &[Pair], stop: &AtomicBool) -> Result<Vec<(f64, f64)>> {
        let index_of = |item: usize| match self.indices.get(item) {
            Some(Some(index)) => Ok(*index),
            Some(None) => Err(unknown_ability(item)),
            None if self.indices.is_empty() && item < self.regression.items() => Ok(item),
            None => Err(Error::parameter("item", item, "there is no such item")),
        };
        let pairs =
            pairs.iter().map(|&(l, r)| Ok((index_of(l)?, index_of(r)?))).collect::<Result<Vec<Pair>>>()?;
        let sd = self.regression.standard_deviations(&self.mode, &pairs, stop)?;
        let g = self.regression.linear_predictor(&self.mode.theta);
        Ok(pairs.iter().zip(sd).map(|(&(l, r), sd)| (g[l] - g[r], sd)).collect())
    }

    /// Returns the posterior of the log odds of wide rows; `None` if there is no covariance.
    pub fn posterior(&self) -> Option<Posterior<'_>> {
        self.covariance.as_ref().map(|covariance| Posterior::new_unchecked(&self.model, covariance))
    }
}

fn unknown_ability(item: usize) -> Error {
    let allowed = "it was in no duel, so its ability is known only with a ridge above 0";
    Error::parameter("item", item, allowed)
}

/// The maximum for a ridge that was given or chosen.
struct BradleyTerrySolution {
    mode: PairedLogisticMode,
    ridge: f64,
    evidence: Option<f64>,
    steps: usize,
}

impl BradleyTerrySolution {
    /// Returns the fit without covariances, notes and parameter indices.
    fn into_fit(
        self,
        model: KernelExpansion,
        coef: Vec<f64>,
        regression: PairedLogistic,
        units: Vec<f64>,
    ) -> BradleyTerryFit {
        BradleyTerryFit {
            model,
            covariance: None,
            coef,
            ridge: self.ridge,
            log_likelihood: self.mode.log_likelihood,
            log_marginal_likelihood: self.evidence,
            steps: self.steps,
            notes: Vec::new(),
            regression,
            mode: self.mode,
            parameter_sd: None,
            units,
            indices: Vec::new(),
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "the parts of an expansion")]
fn expansion(
    name: &str,
    kernel: Kernel,
    points: Table,
    coef: Vec<f64>,
    duels: &Duels,
    solution: &BradleyTerrySolution,
    notes: &[String],
) -> Result<KernelExpansion> {
    let mut card = vec![
        CardEntry::new("model", name),
        CardEntry::new("duels", duels.count()),
        CardEntry::measured("ridge", solution.ridge),
        CardEntry::measured("log likelihood", solution.mode.log_likelihood),
    ];
    card.extend(solution.evidence.map(|value| CardEntry::measured("log marginal likelihood", value)));
    card.extend(notes.iter().map(|note| CardEntry::new("note", note)));
    pair_kernel::model(kernel, points, coef, Link::Logistic, card)
}

/// Returns the reason why the likelihood of abilities has no maximum: a graph of several components, items
/// that never won or lost, or groups without wins over the others. `None` if it has a maximum.
fn disconnected_reason(duels: &Duels, names: &[String]) -> Option<String> {
    if duels.is_strongly_connected() {
        return None;
    }
    let components = duels.components();
    if components.len() > 1 {
        let sizes = listed(components.iter().map(|c| c.len().to_string()));
        return Some(format!(
            "the items fall into {} groups, of sizes {sizes}, without duels between them",
            components.len()
        ));
    }
    let [mut won, mut lost] = [vec![0.0; names.len()], vec![0.0; names.len()]];
    for (&(l, r), share) in duels.pairs().iter().zip(duels.outcome()) {
        for (winner, loser, share) in [(l, r, *share), (r, l, 1.0 - share)] {
            won[winner] += share;
            lost[loser] += share;
        }
    }
    let listing = |group: &[usize]| {
        let ellipsis = if group.len() > 5 { ", …" } else { "" };
        group.iter().take(5).map(|&i| &names[i][..]).collect::<Vec<_>>().join(", ") + ellipsis
    };
    let describe_group = |verb: &str, counts: &[f64], other: &[f64]| {
        let group: Vec<usize> = (0..names.len()).filter(|&i| counts[i] == 0.0 && other[i] > 0.0).collect();
        (!group.is_empty()).then(|| format!("{} never {verb} ({})", item_count(group.len()), listing(&group)))
    };
    let one_sided: Vec<String> = [describe_group("won", &won, &lost), describe_group("lost", &lost, &won)]
        .into_iter()
        .flatten()
        .collect();
    if !one_sided.is_empty() {
        return Some(one_sided.join(" and "));
    }
    let group = duels.winless_items()?;
    Some(format!("{} ({}) never beat any of the others", item_count(group.len()), listing(&group)))
}

fn item_count(items: usize) -> String {
    if items == 1 { "1 item".into() } else { format!("{items} items") }
}
