//! Bradley and Terry's model (1952), the baseline of all others: each item has an ability β, and the log odds
//! of a duel are the difference of two. With covariates abilities are linear, `β_i = θᵀx_i`.
//!
//! A ridge λ on the coefficients is the prior N(0, 1/λ), so the model is a Gaussian process with the utility
//! `k(i, j) = [i = j]/λ`, or a linear kernel; but its few coefficients make it cheap for any number of duels.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::duels::Duels;
use super::pair_kernel::{self, Pair, wide_columns};
use super::paired_logistic::{PairedLogistic, PairedLogisticMode};
use crate::control::RunControl;
use crate::error::{Error, Result, listed};
use crate::explanation::Fact;
use crate::fit::hyperparameter_search::{self, SearchOptions};
use crate::kernel::{Categorical, Kernel, Linear, Parameter};
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::Matrix;
use crate::posterior::{Posterior, PosteriorCovariance, VarianceReduction};
use crate::table::{Column, ColumnKind, Table};

/// Models with more coefficients say nothing of their covariance in files, which takes 32 of their square in
/// bytes.
const COVARIANCE: usize = 1000;

/// How much coefficients are drawn to 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AbilityRidge {
    /// λ of the penalty `½ λ Σ β²`, ≥ 0. At 0 the likelihood alone is maximised, where it has a maximum.
    Fixed(f64),
    /// Random effects: λ by Laplace's approximation of the marginal likelihood, times the weak prior of a
    /// [utility's share](super::PreferenceProcess).
    Evidence,
}

/// Bradley and Terry's model of duels.
///
/// ```
/// use riesz::preference::{AbilityRidge, BradleyTerry, Duels};
///
/// // Two players, of whom the first won three duels of four.
/// let duels = Duels::new(2, &[0, 0, 0, 1], &[1, 1, 1, 0], &[1.0; 4], None)?;
/// let names = ["Ada".to_string(), "Bob".to_string()];
/// let fit = BradleyTerry::new(AbilityRidge::Fixed(0.0)).fit(&names, &duels)?;
/// assert!((fit.coef[0] - fit.coef[1] - 3.0_f64.ln()).abs() < 1e-9);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct BradleyTerry {
    /// How much coefficients are drawn to 0.
    pub ridge: AbilityRidge,
    /// Set by another thread to give up.
    pub stop: Arc<AtomicBool>,
}

/// A fitted model of Bradley and Terry.
#[derive(Debug, Clone)]
pub struct BradleyTerryFit {
    /// The log odds that the left item wins over wide rows: of the items' names (`left_item`, `right_item`),
    /// or of their covariates.
    pub model: KernelExpansion,
    /// How sure the coefficients are: the posterior given a ridge, of maximum likelihood the asymptotic
    /// covariance. `None` for more than 1,000 coefficients.
    pub covariance: Option<PosteriorCovariance>,
    /// Abilities, one an item, whose sum is 0 (NaN where a maximum of the likelihood says nothing: for items
    /// without duels); or the coefficients of covariates, a unit of the column.
    pub coef: Vec<f64>,
    /// λ as it was used. That of covariates is for columns divided by their standard deviations among the
    /// items.
    pub ridge: f64,
    /// Of the duels at the maximum.
    pub log_likelihood: f64,
    /// Laplace's approximation of the log marginal likelihood, where the ridge was chosen by it.
    pub log_marginal_likelihood: Option<f64>,
    /// Newton steps, or evaluations of the marginal likelihood.
    pub steps: usize,
    /// What people should know: several components, items that never won or never lost.
    pub notes: Vec<String>,
    differences: PairedLogistic,
    mode: PairedLogisticMode,
    /// Standard deviations of the parameters, where their covariance was made.
    errors: Option<Vec<f64>>,
    /// What coefficients were divided by.
    units: Vec<f64>,
    /// Items of the model by their numbers in the duels.
    places: Vec<Option<usize>>,
}

impl BradleyTerry {
    /// With this ridge.
    pub fn new(ridge: AbilityRidge) -> Self {
        Self { ridge, stop: Arc::default() }
    }

    /// Abilities of items, which have these names. Cost a Newton step: some ten to a hundred times the number
    /// of pairs that met; where the ridge is chosen items³ an evaluation (some ten).
    ///
    /// # Errors
    /// [`Error::Target`] without a ridge where no maximum exists: for items that never won or never lost, and
    /// wherever wins do not connect all (Ford 1957);
    /// [`Error::Parameter`]; [`Error::Shape`]; [`Error::NotConverged`]; [`Error::Interrupted`].
    pub fn fit(&self, names: &[String], duels: &Duels) -> Result<BradleyTerryFit> {
        if names.len() != duels.items() {
            return Err(covariance_shape("the list of names", "names", duels.items(), names.len()));
        }
        let mut notes = Vec::new();
        let unpenalised = self.ridge == AbilityRidge::Fixed(0.0);
        if let Some(problem) = disconnected_reason(duels, names) {
            if unpenalised {
                let problem = format!(
                    "have no Bradley-Terry abilities without a ridge: {problem}; set a ridge above 0"
                );
                return Err(Error::Target { name: "duels".into(), problem });
            }
            notes.push(format!("{problem}: only the ridge keeps abilities finite, or comparable"));
        }
        // Of items without duels a maximum of the likelihood says nothing.
        let met = duel_weights(duels);
        let known: Vec<usize> = (0..names.len()).filter(|&i| !unpenalised || met[i] > 0.0).collect();
        let mut places = vec![None; names.len()];
        known.iter().enumerate().for_each(|(at, &i)| places[i] = Some(at));
        let number = |i: usize| places[i].unwrap_or_default();
        let pairs = duels.pairs().iter().map(|&(l, r)| (number(l), number(r))).collect();
        let differences = PairedLogistic::of_items(known.len(), pairs, duels);
        let found = self.solve(&differences)?;
        let theta = &found.mode.theta;
        let coef = places.iter().map(|at| at.map_or(f64::NAN, |at| theta[at])).collect();

        // Every item against the first one, whose share in the sums is minus that of all others: its ability,
        // as abilities sum up to 0.
        let levels: Vec<String> = known.iter().map(|&i| names[i].clone()).collect();
        let columns =
            wide_columns(&[Column { name: "item".into(), kind: ColumnKind::Categorical { levels } }]);
        let others = || 1..known.len();
        let left = others().flat_map(|i| [i, 0]);
        let values: Vec<f64> = left.chain(others().flat_map(|i| [0, i])).map(|i| i as f64).collect();
        let points = Table::from_column_major(columns, 2 * (known.len() - 1), values)?;
        let factor = |column: usize| Kernel::from(Categorical { columns: [column], similarity: 0.0 });
        let signed = others().flat_map(|i| [theta[i], -theta[i]]).collect();
        let model = expansion("Bradley-Terry", factor(0) + factor(1), points, signed, duels, &found, &notes)?;
        let mut errors = None;
        let covariance = if known.len() <= COVARIANCE {
            let mut all = differences.covariance(&found.mode)?;
            errors = Some(roots(&all));
            let own = all.data().iter().sum::<f64>() / (known.len() * known.len()) as f64;
            all.data_mut().iter_mut().for_each(|c| *c -= own);
            let mut q = Matrix::zeros(model.support_points.rows(), model.support_points.rows());
            for (i, j) in others().flat_map(|i| others().map(move |j| (i, j))) {
                // Of differences all is told by those from the first item, as rows of the centred covariance
                // sum up to 0.
                let c = all[(i, j)];
                for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    q[(2 * (i - 1) + a, 2 * (j - 1) + b)] = if a == b { -c } else { c };
                }
            }
            Some(covariance_from_matrix(q))
        } else {
            None
        };
        let units = vec![1.0; known.len()];
        let BradleyTerrySolution { mode, ridge, value, steps } = found;
        let log_likelihood = mode.log_likelihood;
        Ok(BradleyTerryFit {
            model,
            covariance,
            coef,
            ridge,
            log_likelihood,
            log_marginal_likelihood: value,
            steps,
            notes,
            differences,
            mode,
            errors,
            units,
            places,
        })
    }

    /// Abilities that are linear in the items' columns, which are numbers. Cost a Newton step: pairs times
    /// columns, and columns³.
    ///
    /// # Errors
    /// [`Error::WrongKind`] for categorical columns; [`Error::Target`] without a ridge for columns that
    /// depend on one another, and where one weighted sum of them tells all winners;
    /// [`Error::Parameter`]; [`Error::Shape`]; [`Error::Interrupted`].
    pub fn fit_linear(&self, items: &Table, duels: &Duels) -> Result<BradleyTerryFit> {
        if items.rows() != duels.items() {
            return Err(covariance_shape("the table of items", "rows", duels.items(), items.rows()));
        }
        if let Some(column) = items.columns().iter().find(|c| c.kind != ColumnKind::Numeric) {
            let (found, expected) = ("categories", "numbers (write an indicator column for each level)");
            return Err(Error::WrongKind { column: column.name.clone(), found, expected });
        }
        let (n, d) = (items.rows(), items.width());
        let (mut center, mut units) = (vec![0.0; d], vec![1.0; d]);
        for j in 0..d {
            let column = items.column(j);
            center[j] = column.iter().sum::<f64>() / n as f64;
            let spread = (column.iter().map(|v| (v - center[j]).powi(2)).sum::<f64>() / n as f64).sqrt();
            if spread > 1e-12 * center[j].abs() {
                units[j] = spread;
            }
        }
        let scaled = (0..n * d).map(|at| (items.get(at / d, at % d) - center[at % d]) / units[at % d]);
        let x = Matrix::from_row_major(n, d, scaled.collect());
        let differences = PairedLogistic::of_features(x, duels);
        let found = self.solve(&differences)?;
        let theta = &found.mode.theta;
        // Point j is one unit of column j ahead on the left and one behind on the right.
        let columns = wide_columns(items.columns());
        let at = |j: usize, p: usize, sign: f64| center[j] + if j == p { sign * units[j] } else { 0.0 };
        let values = (0..2 * d).flat_map(|j| {
            let sign = if j < d { 1.0 } else { -1.0 };
            (0..d).map(move |p| (j % d, p, sign))
        });
        let points = Table::from_column_major(columns, d, values.map(|(j, p, s)| at(j, p, s)).collect())?;
        let side = |first: usize| {
            let columns = (first..first + d).collect();
            Kernel::from(Linear { columns, center: center.clone(), scale: units.clone() })
        };
        let name = "linear Bradley-Terry";
        let model = expansion(name, side(0) + side(d), points, theta.clone(), duels, &found, &[])?;
        let mut q = differences.covariance(&found.mode)?;
        let errors = Some(roots(&q));
        q.data_mut().iter_mut().for_each(|v| *v = -*v);
        let coef = theta.iter().zip(&units).map(|(t, u)| t / u).collect();
        let BradleyTerrySolution { mode, ridge, value, steps } = found;
        let log_likelihood = mode.log_likelihood;
        Ok(BradleyTerryFit {
            model,
            covariance: Some(covariance_from_matrix(q)),
            coef,
            ridge,
            log_likelihood,
            log_marginal_likelihood: value,
            steps,
            notes: Vec::new(),
            differences,
            mode,
            errors,
            units,
            places: Vec::new(),
        })
    }

    fn solve(&self, differences: &PairedLogistic) -> Result<BradleyTerrySolution> {
        let watch = RunControl { stop: &self.stop, progress: RunControl::nobody().progress };
        if let AbilityRidge::Fixed(ridge) = self.ridge {
            if !(ridge.is_finite() && ridge >= 0.0) {
                return Err(Error::parameter("ridge", ridge, "it is finite and not negative"));
            }
            let mode = differences.mode(ridge, &self.stop)?;
            let steps = mode.steps;
            return Ok(BradleyTerrySolution { mode, ridge, value: None, steps });
        }
        let start = [Parameter { name: "ridge".into(), log_value: -2.0 * 1.5_f64.ln() }];
        let objective = |theta: &[f64]| {
            let (value, slope) = differences.evidence(theta[0].exp(), &self.stop)?;
            let z = (theta[0] - start[0].log_value) / 3.0;
            Ok((value - 0.5 * z * z, vec![slope - z / 3.0]))
        };
        let found =
            hyperparameter_search::maximise(&start, 0..1, SearchOptions::default(), watch, objective)?;
        let ridge = found.theta[0].exp();
        let (value, _) = differences.evidence(ridge, &self.stop)?;
        let mode = differences.mode(ridge, &self.stop)?;
        Ok(BradleyTerrySolution { mode, ridge, value: Some(value), steps: found.evaluations })
    }
}

impl BradleyTerryFit {
    /// Standard deviations of [`coef`](Self::coef). Those of abilities are around a mean of 0 of all, unless
    /// a ridge says where 0 is. Cost coefficients³ where there are more than 1,000.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`].
    pub fn std_errors(&self) -> Result<Vec<f64>> {
        let all = match &self.errors {
            Some(errors) => errors,
            None => &roots(&self.differences.covariance(&self.mode)?),
        };
        let own = |i: usize| all[i];
        Ok(if self.places.is_empty() {
            self.units.iter().enumerate().map(|(j, unit)| own(j) / unit).collect()
        } else {
            self.places.iter().map(|at| at.map_or(f64::NAN, own)).collect()
        })
    }

    /// The mean and covariance of the abilities of all items, as
    /// [`Ranking::of_abilities`](super::RankingRequest::of_abilities) takes them. Cost items³.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a linear model, and where an item had no duels while there is no ridge;
    /// [`Error::NotPositiveDefinite`].
    pub fn abilities(&self) -> Result<(Vec<f64>, Matrix)> {
        if self.places.is_empty() {
            return Err(Error::parameter("model", "linear", "abilities are those of items, not of columns"));
        }
        if let Some(item) = self.places.iter().position(Option::is_none) {
            let allowed = "it was in no duel: only a ridge above 0 says anything of it";
            return Err(Error::parameter("item", item, allowed));
        }
        Ok((self.coef.clone(), self.differences.covariance(&self.mode)?))
    }

    /// The differences of abilities, and their standard deviations: for items by their numbers in the duels.
    /// Cost coefficients³ where there are 3,000 at most; otherwise conjugate gradients, some hundred times
    /// the number of pairs that met, each.
    ///
    /// # Errors
    /// [`Error::Parameter`] for items that are not there, or had no duels while there is no ridge;
    /// [`Error::NotConverged`]; [`Error::Interrupted`].
    pub fn differences(&self, pairs: &[Pair], stop: &AtomicBool) -> Result<Vec<(f64, f64)>> {
        let place = |item: usize| match self.places.get(item) {
            Some(Some(at)) => Ok(*at),
            Some(None) => Err(Error::parameter(
                "item",
                item,
                "it was in no duel: only a ridge above 0 says anything of it",
            )),
            None if self.places.is_empty() && item < self.differences.items() => Ok(item),
            None => Err(Error::parameter("item", item, "there is no such item")),
        };
        let pairs = pairs.iter().map(|&(l, r)| Ok((place(l)?, place(r)?))).collect::<Result<Vec<Pair>>>()?;
        let sd = self.differences.standard_deviations(&self.mode, &pairs, stop)?;
        let g = self.differences.linear_predictor(&self.mode.theta);
        Ok(pairs.iter().zip(sd).map(|(&(l, r), sd)| (g[l] - g[r], sd)).collect())
    }

    /// The mean and covariance of the log odds of wide rows, where it is known.
    pub fn posterior(&self) -> Option<Posterior<'_>> {
        self.covariance.as_ref().map(|covariance| Posterior::of(&self.model, covariance))
    }
}

/// Of the diagonal.
fn roots(covariance: &Matrix) -> Vec<f64> {
    (0..covariance.rows()).map(|i| covariance[(i, i)].max(0.0).sqrt()).collect()
}

/// A solution.
struct BradleyTerrySolution {
    mode: PairedLogisticMode,
    ridge: f64,
    value: Option<f64>,
    steps: usize,
}

fn covariance_shape(what: &str, unit: &'static str, expected: usize, found: usize) -> Error {
    Error::Shape { what: what.into(), unit, expected, found, why: "one an item of the duels".into() }
}

/// What is known of coefficients that have their covariance as a whole, of which none is a prior.
fn covariance_from_matrix(q: Matrix) -> PosteriorCovariance {
    PosteriorCovariance {
        prior_scale: 0.0,
        skew_swap: None,
        reduction: vec![VarianceReduction::Dense(q)],
        scale: vec![1.0],
    }
}

#[allow(clippy::too_many_arguments, reason = "what an expansion is made of")]
fn expansion(
    name: &str,
    kernel: Kernel,
    points: Table,
    coef: Vec<f64>,
    duels: &Duels,
    found: &BradleyTerrySolution,
    notes: &[String],
) -> Result<KernelExpansion> {
    let mut card = vec![
        Fact::new("model", name),
        Fact::new("duels", duels.count()),
        Fact::measured("ridge", found.ridge),
        Fact::measured("log likelihood", found.mode.log_likelihood),
    ];
    card.extend(found.value.map(|value| Fact::measured("log marginal likelihood", value)));
    card.extend(notes.iter().map(|note| Fact::new("note", note)));
    pair_kernel::model(kernel, points, coef, Link::Logistic, card)
}

/// How much duels weigh that each item was in.
fn duel_weights(duels: &Duels) -> Vec<f64> {
    let mut all = vec![0.0; duels.items()];
    for (&(l, r), weight) in duels.pairs().iter().zip(duels.weight()) {
        all[l] += weight;
        all[r] += weight;
    }
    all
}

/// Why the likelihood of abilities has no maximum, if it has none: a graph of several components, items that
/// never won or lost, or groups without wins over the others.
fn disconnected_reason(duels: &Duels, names: &[String]) -> Option<String> {
    let components = duels.components();
    if components.len() > 1 {
        let sizes = listed(components.iter().map(|c| c.len().to_string()));
        return Some(format!(
            "the items fall into {} groups, of sizes {sizes}, without duels between them",
            components.len()
        ));
    }
    if duels.is_strongly_connected() {
        return None;
    }
    let [mut won, mut lost] = [vec![0.0; names.len()], vec![0.0; names.len()]];
    for (&(l, r), share) in duels.pairs().iter().zip(duels.outcome()) {
        for (winner, loser, share) in [(l, r, *share), (r, l, 1.0 - share)] {
            won[winner] += share;
            lost[loser] += share;
        }
    }
    let few = |what: &str, by: &[f64], other: &[f64]| {
        let own: Vec<&str> =
            (0..names.len()).filter(|&i| by[i] == 0.0 && other[i] > 0.0).map(|i| &names[i][..]).collect();
        let more = if own.len() > 5 { ", …" } else { "" };
        let shown = own.iter().take(5).copied().collect::<Vec<_>>().join(", ");
        (!own.is_empty()).then(|| format!("{} never {what} ({shown}{more})", count(own.len())))
    };
    let alone: Vec<String> =
        [few("won", &won, &lost), few("lost", &lost, &won)].into_iter().flatten().collect();
    if !alone.is_empty() {
        return Some(alone.join(" and "));
    }
    let group = duels.winless_items()?;
    let shown = group.iter().take(5).map(|&i| &names[i][..]).collect::<Vec<_>>().join(", ");
    let more = if group.len() > 5 { ", …" } else { "" };
    Some(format!("{} ({shown}{more}) never beat any of the others", count(group.len())))
}

fn count(items: usize) -> String {
    if items == 1 { "1 item".into() } else { format!("{items} items") }
}
