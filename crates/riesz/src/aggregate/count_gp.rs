//! Counts of bags: cases among people, successes among trials. The logarithm of the rate of a row (or its log
//! odds) is a Gaussian process, and a count is of the sum of the rates of its bag's rows.
//!
//! The posterior is Laplace's approximation around the mode, with the information that counts are expected to
//! give (Gauss-Newton): that of a process whose sums are observed with noise, so that the answer is again an
//! [`Expansion`](crate::Expansion) of f with its [`Covariance`](crate::Covariance). f is known through its
//! values at inducing points; where these are all rows, nothing else is approximated. Sources: the model is
//! that of Law et al. 2018, who bound its evidence instead; the iteration that of spatial statistics
//! (Yousefi, Smith and Álvarez 2019; Nandi et al. 2023 sum over pixels likewise).

mod cross;
mod dispersion;
mod family;
mod left_out;
mod mode;
mod said;
mod slopes;

pub use family::Family;

use cross::Cross;
use mode::{Mode, Observed, Place};

use super::aggregate_data::Aggregates;
use super::aggregate_fit::LeaveOneOut;
use super::bag_gram::BagRows;
use super::kernel_smoother::BagSmoother;
use super::observation_operator::ObservationOperator;
use super::row_bags::TargetUnit;
use super::tuning::{Conventions, MIN_TARGETS, Tuning, default_prior};
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::explanation::Fact;
use crate::fit::hyperparameter_average::{HyperPosterior, PosteriorMixture, mixture_moments};
use crate::fit::hyperparameter_search::{self, HyperParameter, SearchResult, add_log_priors};
use crate::fit::inducing::{distinct, inducing_points};
use crate::fit::whitening::WhitenedInducing;
use crate::kernel::{Kernel, Parameter};
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::posterior::{Posterior, PosteriorCovariance, VarianceReduction};
use crate::table::Table;

/// Up to so many different rows are inducing points all of them, and nothing is approximated by these.
const ALL_ROWS: usize = 1_000;

/// Where the tuning of a dispersion of mediated counts starts.
const MEDIATION_DISPERSION: f64 = 0.1;

/// A process whose exponential, or logistic function, is a rate, known by counts of bags.
///
/// ```
/// use riesz::aggregate::{Aggregates, Bags, CountProcess, Family, TargetUnit, count_inducing_points};
/// use riesz::{Kernel, Table};
///
/// // Cases among 100 people in each of 200 villages, known by district of ten; twice as many where x is larger by 0.7.
/// let x: Vec<[f64; 1]> = (0..200).map(|i| [f64::from(i) / 100.0]).collect();
/// let bag: Vec<usize> = (0..200).map(|i| i / 10).collect();
/// let bags = Bags::new(&bag, 20, Some(&[100.0; 200]), TargetUnit::Sum)?;
/// let cases = |b: usize| x[10 * b..10 * b + 10].iter().map(|r| 100.0 * 0.05 * r[0].exp()).sum::<f64>().round();
/// let data = Aggregates::matched(Table::from_rows(&x)?, bags, (0..20).map(cases).collect());
/// let points = count_inducing_points(&data, 0)?;
/// let fit = CountProcess::new(Kernel::gaussian(&[1.0]), points, Family::Poisson).fit(&data)?;
/// let f = fit.model.predict(&Table::from_rows(&[[0.0], [1.5]])?)?;
/// assert!((f[(1, 0)] - f[(0, 0)] - 1.5).abs() < 0.2);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CountProcess {
    /// The prior covariance of f, the logarithm of a rate or its log odds.
    pub kernel: Kernel,
    /// The inducing points, as [`count_inducing_points`] chooses them.
    pub points: Table,
    /// How counts come about.
    pub family: Family,
    /// How counts without rows are made of bags with rows.
    pub smoothing: Option<BagSmoother>,
    /// By how much counts vary more than their family, 0 for not at all: the variance of a gamma factor of
    /// the rate (then counts are negative binomial), or of successes φ, of which `φ/(1 + φ)` is the
    /// correlation of two trials of a target (beta-binomial).
    pub dispersion: f64,
    /// The same of counts through mediators, instead: by how much their rates vary around what the smoother
    /// says.
    pub mediation_dispersion: f64,
    /// The prior mean of f; `None` for the constant with which the mode is the most probable.
    pub prior_mean: Option<f64>,
}

/// A process learnt from counts.
#[derive(Debug, Clone)]
pub struct CountFit {
    /// The mode of f over the inducing points; its [link](KernelExpansion::link) says what rates are of it.
    pub model: KernelExpansion,
    /// How sure it is. A prior mean that was learnt counts as known.
    pub covariance: PosteriorCovariance,
    /// The smoother that was used, if there was one.
    pub smoothing: Option<BagSmoother>,
    /// The dispersions of counts with rows, and of those through mediators.
    pub dispersions: [f64; 2],
    /// Laplace's approximation of the logarithm of the probability of the counts, at the best prior mean if
    /// it is learnt.
    pub log_marginal_likelihood: f64,
    /// By target the mean of its count at the mode.
    pub fitted: Vec<f64>,
    /// What all other targets say of each.
    pub left_out: LeaveOneOut,
    /// What was added to the diagonal of the points' gram matrix.
    pub jitter: f64,
    /// Steps to the mode, the last time.
    pub steps: usize,
}

/// Inducing points for counts: all different rows up to 1,000, beyond twice as many as targets from 200 to
/// 1,000, as [`inducing_points`] chooses them.
///
/// # Errors
/// As [`inducing_points`].
pub fn count_inducing_points(data: &Aggregates, seed: u64) -> Result<Table> {
    let all = distinct(&data.rows);
    if all.rows() <= ALL_ROWS {
        return Ok(all);
    }
    inducing_points(&data.rows, (2 * data.targets.len()).clamp(200, ALL_ROWS), seed)
}

impl CountProcess {
    /// With a prior mean that is learnt, and no mediators. Counts are of their family but for those through
    /// mediators, where [`smoothing`](Self::smoothing) is set, whose dispersion begins with 0.1.
    pub fn new(kernel: Kernel, points: Table, family: Family) -> Self {
        let mediation_dispersion = MEDIATION_DISPERSION;
        Self {
            kernel,
            points,
            family,
            smoothing: None,
            dispersion: 0.0,
            mediation_dispersion,
            prior_mean: None,
        }
    }

    /// What is tuned by the marginal likelihood: the kernel's parameters, and the logarithms of dispersions
    /// that are not 0; that of mediated counts where there is a smoother.
    pub fn parameters(&self) -> Vec<Parameter> {
        let own = self.tuned().into_iter().flatten();
        let dispersions = own.map(|(name, value)| Parameter { name: name.into(), log_value: value.ln() });
        self.kernel.parameters().into_iter().chain(dispersions).collect()
    }

    /// Of both dispersions the name and value, if it is tuned.
    fn tuned(&self) -> [Option<(&'static str, f64)>; 2] {
        let own = Some(("dispersion", self.dispersion));
        let mediated =
            self.smoothing.as_ref().map(|_| ("dispersion of mediated counts", self.mediation_dispersion));
        [own, mediated].map(|each| each.filter(|(_, value)| *value > 0.0))
    }

    /// The same with these logarithms of [`parameters`](Self::parameters).
    ///
    /// # Panics
    /// If there are not as many.
    #[must_use]
    pub fn with_parameters(&self, theta: &[f64]) -> Self {
        assert_eq!(theta.len(), self.parameters().len(), "one number a parameter");
        let (kernel, rest) = theta.split_at(self.kernel.parameters().len());
        let mut rest = rest.iter();
        let mut own = [self.dispersion, self.mediation_dispersion];
        for (value, tuned) in own.iter_mut().zip(self.tuned()) {
            *value = tuned.and_then(|_| rest.next()).map_or(*value, |log| log.exp());
        }
        let [dispersion, mediation_dispersion] = own;
        Self { kernel: self.kernel.with_parameters(kernel), dispersion, mediation_dispersion, ..self.clone() }
    }

    /// Finds the mode; nothing is tuned. Targets of Poisson counts are sums, of binomial ones means, whose
    /// values are counts all the same. Cost a step some passes over n rows times m points, O(targets m²) and
    /// O(m³); memory n m numbers up to 512 MB.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`] and [`Error::Parameter`] for data and
    /// parameters that make no sense, such as counts that are no whole numbers; [`Error::Target`] for counts
    /// that say nothing of rates; [`Error::Overflow`]; [`Error::NotPositiveDefinite`] where points are too
    /// near each other.
    pub fn fit(&self, data: &Aggregates) -> Result<CountFit> {
        self.fit_from(data, &self.work(data)?, None, RunControl::nobody())
    }

    /// From a mode nearby, if one is known.
    fn fit_from(
        &self,
        data: &Aggregates,
        work: &CountProblem,
        warm_start: Option<&Place>,
        watch: RunControl<'_>,
    ) -> Result<CountFit> {
        let points = WhitenedInducing::new(&self.kernel, &work.points)?;
        let cross = Cross::new(&work.rows, &self.kernel, &work.points, watch)?;
        let mode = work.observed(self, data).mode(&cross, &points.factor, warm_start)?;
        self.result(data, work, &points, &mode)
    }

    /// Laplace's approximation of `log p(z)` and its slopes by `theta`, the logarithms of
    /// [`parameters`](Self::parameters). Cost about twice that of [`fit`](Self::fit).
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    ///
    /// # Panics
    /// As [`with_parameters`](Self::with_parameters).
    pub fn log_marginal_likelihood(&self, data: &Aggregates, theta: &[f64]) -> Result<(f64, Vec<f64>)> {
        let (work, mut from) = (self.work(data)?, None);
        self.with_parameters(theta).value_and_gradient(data, &work, &mut from, RunControl::nobody())
    }

    /// From the last mode, if there is one.
    fn value_and_gradient(
        &self,
        data: &Aggregates,
        work: &CountProblem,
        warm_start: &mut Option<Place>,
        watch: RunControl<'_>,
    ) -> Result<(f64, Vec<f64>)> {
        let points = WhitenedInducing::new(&self.kernel, &work.points)?;
        let cross = Cross::new(&work.rows, &self.kernel, &work.points, watch)?;
        let observed = work.observed(self, data);
        let mode = observed.mode(&cross, &points.factor, warm_start.as_ref())?;
        let (mut slopes, by_dispersion) = slopes::slopes(&observed, &cross, &points, &mode)?;
        for (k, _) in self.tuned().iter().enumerate().filter(|(_, own)| own.is_some()) {
            let of = |(t, slope): (usize, &f64)| {
                if usize::from(data.own[t].is_none()) == k { *slope } else { 0.0 }
            };
            slopes.push(by_dispersion.iter().enumerate().map(of).sum());
        }
        *warm_start = Some(mode.here.place);
        Ok((mode.value, slopes))
    }

    fn work(&self, data: &Aggregates) -> Result<CountProblem> {
        data.check()?;
        self.kernel.validate(data.rows.width())?;
        let points = self.points.align_to(data.rows.columns())?;
        if points.rows() == 0 {
            let what = "the table of inducing points".into();
            return Err(Error::TooFew { what, needed: 1, unit: "point is" });
        }
        crate::fit::check_range(&self.kernel, &data.rows)?;
        self.family.check(&data.targets)?;
        let (unit, name, why) = match self.family {
            Family::Poisson => (TargetUnit::Sum, "means", "counts of events are sums over rows"),
            Family::Binomial { .. } => (
                TargetUnit::Mean,
                "sums",
                "the probability of a success is a mean over rows, whose weights are in any unit",
            ),
        };
        if data.bags.unit() != unit {
            return Err(Error::parameter("unit of bags", name, why));
        }
        if data.target_noise.is_some() {
            let why = "how far counts are off is given by what they are: leave them out";
            return Err(Error::parameter("variances of targets' errors", "given", why));
        }
        for (what, value) in
            [("dispersion", self.dispersion), ("mediation_dispersion", self.mediation_dispersion)]
        {
            if !(value.is_finite() && value >= 0.0) {
                return Err(Error::parameter(what, value, "it is a number, not negative"));
            }
        }
        if let Some(mean) = self.prior_mean.filter(|mean| !mean.is_finite()) {
            return Err(Error::parameter("prior_mean", mean, "it is a finite number"));
        }
        crate::memory::check_allocation(
            "number of inducing points",
            points.rows(),
            data.targets.len() + 6 * points.rows(),
        )?;
        let operator = match (&self.smoothing, &data.mediators) {
            (Some(smoothing), Some(mediators)) if data.mediated() > 0 => {
                smoothing.operator(&data.bags, &data.own, mediators)?
            }
            _ => ObservationOperator::new(&data.bags, &data.own, None)?,
        };
        let weights = data.bags.weights();
        let ones: Vec<f64> = (0..weights.cols()).map(|b| weights.column(b).map(|(_, w)| w).sum()).collect();
        let exposures = operator.transpose_times(&Matrix::column_vector(ones)).data().to_vec();
        let level = self.family.level(&data.targets, &exposures);
        Ok(CountProblem { rows: BagRows::new(&data.rows, weights), points, operator, level })
    }

    fn result(
        &self,
        data: &Aggregates,
        work: &CountProblem,
        points: &WhitenedInducing,
        mode: &Mode,
    ) -> Result<CountFit> {
        let (here, bend) = (&mode.here, &mode.bend);
        let alpha = Matrix::column_vector(here.alpha.clone());
        let mut model =
            KernelExpansion::new(self.kernel.clone(), work.points.clone(), alpha, vec![here.place.beta])?;
        model.link = self.family.link();
        let mediated = data.mediated();
        model.model_card = vec![
            Fact::new("model", "Gaussian process known by counts"),
            Fact::new(
                "targets are",
                match self.family {
                    Family::Poisson => {
                        "counts of events (Poisson), the model the logarithm of a rate per unit of weight"
                    }
                    Family::Binomial { .. } => {
                        "counts of successes (binomial), the model the log odds of a success"
                    }
                },
            ),
            Fact::new("bags with rows", data.bags.count()),
            Fact::new("targets with rows of their own", data.own.len() - mediated),
            Fact::new("targets through mediators", mediated),
            Fact::new("inducing points", work.points.rows()),
            Fact::measured("log marginal likelihood (Laplace)", mode.value),
            Fact::measured("jitter", points.jitter),
        ];
        let dispersions = [self.dispersion, if mediated > 0 { self.mediation_dispersion } else { 0.0 }];
        let named = ["dispersion", "dispersion of mediated counts"].into_iter().zip(dispersions);
        model
            .model_card
            .extend(named.filter(|(_, own)| *own > 0.0).map(|(name, own)| Fact::measured(name, own)));
        let known = vec![VarianceReduction::LowRank(points.reduction_root(&bend.told)?)];
        Ok(CountFit {
            model,
            covariance: PosteriorCovariance {
                prior_scale: 1.0,
                skew_swap: None,
                reduction: known,
                scale: vec![1.0],
            },
            smoothing: self.smoothing.clone().filter(|_| mediated > 0),
            dispersions,
            log_marginal_likelihood: mode.value,
            fitted: here.said.iter().map(|s| s.mean).collect(),
            left_out: left_out::left_out(&work.observed(self, data), here, bend),
            jitter: points.jitter,
            steps: mode.steps,
        })
    }
}

/// What all evaluations share.
struct CountProblem {
    rows: BagRows,
    points: Table,
    operator: ObservationOperator,
    level: f64,
}

impl CountProblem {
    fn observed<'a>(&'a self, process: &'a CountProcess, data: &'a Aggregates) -> Observed<'a> {
        Observed {
            operator: &self.operator,
            family: &process.family,
            counts: &data.targets,
            dispersions: data
                .own
                .iter()
                .map(|own| if own.is_some() { process.dispersion } else { process.mediation_dispersion })
                .collect(),
            given: process.prior_mean,
            level: self.level,
        }
    }
}

impl CountFit {
    /// The posterior of f.
    pub fn posterior(&self) -> Posterior<'_> {
        Posterior::of(&self.model, &self.covariance)
    }
}

impl PosteriorMixture<CountFit> {
    /// Mean and standard deviation of f, the logarithm of a rate or its log odds, at rows, one each: of the
    /// mixture. Cost that of all fits.
    ///
    /// # Errors
    /// As [`KernelExpansion::predict`].
    pub fn predict(&self, x: &Table) -> Result<(Vec<f64>, Vec<f64>)> {
        mixture_moments(self.fits.iter().map(|(weight, fit)| (*weight, fit.posterior())), x)
    }
}

impl Tuning {
    /// Tunes a process of counts from two starts, `start` and one that is smoother, and takes the better:
    /// Laplace's approximation of the marginal likelihood, times weak priors around `start` but as published.
    /// A smoother of mediators is the one that predicts best the bags that are left out, by the kernel at the
    /// start. Cost: some tens of evaluations of the marginal likelihood each.
    ///
    /// # Errors
    /// As [`CountProcess::fit`]; [`Error::Interrupted`].
    pub fn tune_counts(&self, start: &CountProcess, data: &Aggregates) -> Result<TunedCounts> {
        let watch = self.watch();
        let mut start = start.clone();
        if let (Some(smoothing), Some(mediators), true) =
            (&start.smoothing, &data.mediators, data.mediated() > 0)
        {
            data.check()?;
            let gram = super::tuning::bag_mean_gram(&start.kernel, data, watch)?;
            start.smoothing = Some(smoothing.tune(&data.bags, &mediators.bags, &gram, watch)?);
        }
        if data.targets.len() < MIN_TARGETS {
            let fit = start.fit(data)?;
            let warnings = vec![format!("fewer than {MIN_TARGETS} targets: nothing was tuned")];
            return Ok(TunedCounts { process: start, fit, evaluations: 0, warnings });
        }
        let work = start.work(data)?;
        let coordinates = coordinates(&start);
        let priors = match self.conventions {
            Conventions::Regularised => &coordinates[..],
            Conventions::Published => &[],
        };
        let smoother = start.kernel.with_lengthscales_times(3.0);
        let smoother = smoother.map(|kernel| CountProcess { kernel, ..start.clone() });
        let mut best: Option<(SearchResult, Option<Place>)> = None;
        let (mut steps, mut evaluations) = (0, 0);
        for process in [Some(start.clone()), smoother].into_iter().flatten() {
            let mut from = None;
            let found = hyperparameter_search::maximise_within_priors(
                &coordinates,
                &logs(&process),
                watch,
                |theta| {
                    let process = start.with_parameters(theta);
                    let found = process.value_and_gradient(data, &work, &mut from, watch)?;
                    Ok(add_log_priors(priors, theta, found))
                },
            )?;
            (steps, evaluations) = (steps + found.steps, evaluations + found.evaluations);
            if best.as_ref().is_none_or(|(best, _)| found.value > best.value) {
                best = Some((found, from));
            }
        }
        let (process, warnings, from) = match best {
            Some((best, from)) => (start.with_parameters(&best.theta), best.warnings, from),
            None => (start, Vec::new(), None),
        };
        let mut fit = process.fit_from(data, &work, from.as_ref(), watch)?;
        fit.model.model_card.push(Fact::new("optimiser steps", steps));
        fit.model.model_card.extend(warnings.iter().map(|w| Fact::new("warning", w)));
        Ok(TunedCounts { process, fit, evaluations, warnings })
    }

    /// The posterior, averaged over hyper-parameters under the weak priors around `start` by importance
    /// draws, which begin around `tuned` (see [`PosteriorMixture`]). A smoother of mediators stays as it was
    /// tuned.
    ///
    /// # Errors
    /// As [`CountProcess::fit`]; [`Error::TooFew`] without draws; [`Error::Overflow`] if no draw has a
    /// likelihood; [`Error::Interrupted`].
    ///
    /// # Panics
    /// If `tuned` is a process with other parameters.
    pub fn average_counts(
        &self,
        start: &CountProcess,
        tuned: &CountProcess,
        data: &Aggregates,
        draws: usize,
        seed: u64,
    ) -> Result<PosteriorMixture<CountFit>> {
        let (watch, work) = (self.watch(), tuned.work(data)?);
        let mut from = None;
        let surface = HyperPosterior { coordinates: &coordinates(start), from: &logs(tuned), watch };
        let posterior =
            |theta: &[f64]| tuned.with_parameters(theta).value_and_gradient(data, &work, &mut from, watch);
        let fit = |theta: &[f64]| {
            let fit = tuned.with_parameters(theta).fit_from(data, &work, None, watch)?;
            Ok((fit.log_marginal_likelihood, fit))
        };
        surface.average(posterior, fit, draws, seed)
    }
}

/// Of all parameters of a process what is believed of them.
fn coordinates(process: &CountProcess) -> Vec<HyperParameter> {
    process.parameters().into_iter().map(default_prior).collect()
}

fn logs(process: &CountProcess) -> Vec<f64> {
    process.parameters().iter().map(|p| p.log_value).collect()
}

/// A process of counts with the hyper-parameters that were chosen, and what it makes of the data.
#[derive(Debug, Clone)]
pub struct TunedCounts {
    /// The process.
    pub process: CountProcess,
    /// Its fit.
    pub fit: CountFit,
    /// Evaluations of the marginal likelihood, all together.
    pub evaluations: usize,
    /// What to look at: parameters that ended at a bound, too few targets.
    pub warnings: Vec<String>,
}
