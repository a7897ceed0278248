//! Gaussian processes for counts of bags, such as cases in populations or successes in trials.
//!
//! The logarithm of the rate of a row (or its log odds) is a Gaussian process f. The mean of a count is the
//! weighted sum of the rates of its bag's rows.
//!
//! The posterior is Laplace's approximation around the mode, with the Fisher information of the counts
//! (Gauss-Newton). It equals the posterior of a process whose sums are observed with Gaussian noise. The
//! result is therefore a [`KernelExpansion`] of f with its [`PosteriorCovariance`]. f is represented by its
//! values at inducing points; where these are all rows, nothing else is approximated.
//!
//! Sources: the model is that of Law et al. 2018, who maximise a bound of its evidence. The iteration is
//! common in spatial statistics (Yousefi, Smith and Álvarez 2019; Nandi et al. 2023 also sum over pixels).

mod cross_kernel;
mod laplace;
mod laplace_gradient;
mod leave_one_out;

pub use crate::gp::likelihood::counts::Family;

use cross_kernel::CrossKernel;
use laplace::{CountObservations, LatentState, Mode};

use super::aggregate_data::{Aggregates, aligned_points};
use super::bag_gram::BagRows;
use super::kernel_smoother::BagSmoother;
use super::observation_operator::ObservationOperator;
use super::row_bags::TargetUnit;
use super::tuning::{Conventions, MIN_TARGETS, Tuning};
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::gp::average::{HyperPosterior, PosteriorMixture, WithPosterior, draws_per_profile};
use crate::gp::exact::check_mean;
use crate::gp::hyperparameters::{HyperParameter, ThetaReader, add_log_priors, log_values};
use crate::gp::inducing_points::{distinct, inducing_points};
use crate::gp::leave_one_out::LeaveOneOut;
use crate::gp::likelihood::counts::{CountLikelihood, RateSum};
use crate::gp::search::{SearchResult, best_profile, best_search, maximise_within_priors};
use crate::gp::whitened_inducing::WhitenedInducing;
use crate::kernel::{Kernel, Parameter};
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::model_card::CardEntry;
use crate::posterior::{Posterior, PosteriorCovariance};
use crate::table::Table;

/// The largest number of distinct rows for which every row is an inducing point.
const MAX_ROWS_AS_POINTS: usize = 1_000;

/// The starting value of the dispersion of mediated counts.
const MEDIATION_DISPERSION: f64 = 0.1;

/// A Gaussian process with counts of bags as observations, whose exponential or logistic function is a rate.
///
/// ```
/// use riesz::aggregate::{Aggregates, Bags, CountProcess, Family, TargetUnit, count_inducing_points};
/// use riesz::{Kernel, Table};
///
/// // Cases among 100 people in each of 200 villages, counted by district. The rate doubles per 0.7 of x.
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
    /// The distribution of the counts.
    pub family: Family,
    /// The smoother that predicts counts without rows from bags with rows.
    pub smoothing: Option<BagSmoother>,
    /// Overdispersion of the counts relative to their family, 0 for none: the variance of a gamma factor of
    /// the rate (counts are then negative binomial), or for successes φ, where `φ/(1 + φ)` is the correlation
    /// of two trials of a target (beta-binomial).
    pub dispersion: f64,
    /// Overdispersion of counts that are predicted through mediators: the variation of their rates around the
    /// prediction of the smoother.
    pub mediation_dispersion: f64,
    /// The prior mean of f; `None` for the constant with the most probable mode.
    pub prior_mean: Option<f64>,
}

/// A fitted process of counts.
#[derive(Debug, Clone)]
pub struct CountFit {
    /// The posterior mode of f as an expansion over the inducing points. Its [link](KernelExpansion::link)
    /// relates f to rates.
    pub model: KernelExpansion,
    /// The posterior covariance. It ignores the uncertainty of an estimated prior mean.
    pub covariance: PosteriorCovariance,
    /// The smoother, if counts were predicted through mediators.
    pub smoothing: Option<BagSmoother>,
    /// The dispersions of counts with rows and of counts through mediators.
    pub dispersions: [f64; 2],
    /// Laplace's approximation of the log probability of the counts, at the given or the estimated prior
    /// mean.
    pub log_marginal_likelihood: f64,
    /// The mean of each target's count at the mode.
    pub fitted: Vec<f64>,
    /// Predictions of each target from all other targets.
    pub left_out: LeaveOneOut,
    /// Jitter added to the diagonal of the gram matrix of the inducing points.
    pub jitter: f64,
    /// The number of steps of the last search for the mode.
    pub steps: usize,
}

/// Returns inducing points for counts: all distinct rows if there are at most 1,000. Otherwise
/// [`inducing_points`] chooses two points for each target, but at least 200 and at most 1,000.
///
/// # Errors
/// As [`inducing_points`].
pub fn count_inducing_points(data: &Aggregates, seed: u64) -> Result<Table> {
    let rows = distinct(&data.rows);
    if rows.rows() <= MAX_ROWS_AS_POINTS {
        return Ok(rows);
    }
    inducing_points(&data.rows, (2 * data.targets.len()).clamp(200, MAX_ROWS_AS_POINTS), seed)
}

impl CountProcess {
    /// Creates a process with an estimated prior mean, no mediators and no overdispersion. Where
    /// [`smoothing`](Self::smoothing) is set, the dispersion of counts through mediators starts at 0.1.
    pub fn new(kernel: Kernel, points: Table, family: Family) -> Self {
        Self {
            kernel,
            points,
            family,
            smoothing: None,
            dispersion: 0.0,
            mediation_dispersion: MEDIATION_DISPERSION,
            prior_mean: None,
        }
    }

    /// Returns the parameters that the marginal likelihood tunes: the kernel's parameters and the logarithms
    /// of the dispersions that are not 0. The dispersion of mediated counts is one of these where there is a
    /// smoother.
    pub fn parameters(&self) -> Vec<Parameter> {
        let tuned_dispersions = self.tuned().into_iter().flatten();
        let dispersions = tuned_dispersions.map(|(name, value)| Parameter::logarithm(name, value));
        self.kernel.parameters().into_iter().chain(dispersions).collect()
    }

    /// Returns the name and value of each of the two dispersions; `None` where a dispersion is not tuned.
    fn tuned(&self) -> [Option<(&'static str, f64)>; 2] {
        let unmediated = Some(("dispersion", self.dispersion));
        let mediated =
            self.smoothing.as_ref().map(|_| ("dispersion of mediated counts", self.mediation_dispersion));
        [unmediated, mediated].map(|named_value| named_value.filter(|(_, value)| *value > 0.0))
    }

    /// Returns the process with the values `theta` of its [`parameters`](Self::parameters).
    ///
    /// # Panics
    /// If `theta` does not have one number for each parameter.
    #[must_use]
    pub fn with_parameters(&self, theta: &[f64]) -> Self {
        let mut reader = ThetaReader::new(theta);
        let mut process = Self { kernel: reader.kernel(&self.kernel), ..self.clone() };
        let [dispersion, mediation_dispersion] = self.tuned().map(|tuned| tuned.map(|_| reader.exp()));
        process.dispersion = dispersion.unwrap_or(self.dispersion);
        process.mediation_dispersion = mediation_dispersion.unwrap_or(self.mediation_dispersion);
        reader.finish();
        process
    }

    /// Finds the posterior mode, without tuning. Bags of Poisson counts have the unit of sums, bags of
    /// binomial counts that of means; the targets are counts for both. Cost of a step: some passes over n
    /// rows times m points, O(targets m²) and O(m³). Memory: n m numbers, up to 512 MB.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`] and [`Error::Parameter`] for invalid data
    /// and parameters, such as counts that are not whole numbers; [`Error::Target`] for counts from which no
    /// rate can be estimated; [`Error::Overflow`]; [`Error::NotPositiveDefinite`] where points are too near
    /// each other.
    pub fn fit(&self, data: &Aggregates) -> Result<CountFit> {
        self.fit_from(data, &self.problem(data)?, None, RunControl::none())
    }

    /// Finds the mode, and starts the search at `warm_start` if it is given and has the larger objective.
    fn fit_from(
        &self,
        data: &Aggregates,
        problem: &CountProblem,
        warm_start: Option<&LatentState>,
        control: RunControl<'_>,
    ) -> Result<CountFit> {
        let observed = problem.observed(self, data, control)?;
        let mode = observed.mode(warm_start)?;
        self.result(data, &observed, &mode)
    }

    /// Returns Laplace's approximation of `log p(z)` and its gradient in `theta`, the values of the
    /// [`parameters`](Self::parameters). Cost about twice that of [`fit`](Self::fit).
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    ///
    /// # Panics
    /// As [`with_parameters`](Self::with_parameters).
    pub fn log_marginal_likelihood(&self, data: &Aggregates, theta: &[f64]) -> Result<(f64, Vec<f64>)> {
        let (problem, mut warm_start) = (self.problem(data)?, None);
        self.with_parameters(theta).value_and_gradient(data, &problem, &mut warm_start, RunControl::none())
    }

    /// Returns the log evidence and its gradient. The search for the mode starts at the last mode, if there
    /// is one.
    fn value_and_gradient(
        &self,
        data: &Aggregates,
        problem: &CountProblem,
        warm_start: &mut Option<LatentState>,
        control: RunControl<'_>,
    ) -> Result<(f64, Vec<f64>)> {
        let observed = problem.observed(self, data, control)?;
        let mode = observed.mode(warm_start.as_ref())?;
        let (mut gradient, by_dispersion) = laplace_gradient::evidence_gradient(&observed, &mode)?;
        for (k, _) in self.tuned().iter().enumerate().filter(|(_, tuned)| tuned.is_some()) {
            let derivative_of_target = |(t, derivative): (usize, &f64)| {
                if usize::from(data.bag_of_target[t].is_none()) == k { *derivative } else { 0.0 }
            };
            gradient.push(by_dispersion.iter().enumerate().map(derivative_of_target).sum());
        }
        *warm_start = Some(mode.evaluation.state);
        Ok((mode.value, gradient))
    }

    fn problem(&self, data: &Aggregates) -> Result<CountProblem> {
        data.check()?;
        self.kernel.validate(data.rows.width())?;
        let points = aligned_points(&self.points, &data.rows)?;
        crate::checks::check_range(&self.kernel, &data.rows)?;
        self.family.check(&data.targets)?;
        let (unit, name, why) = match self.family {
            Family::Poisson => (TargetUnit::Sum, "means", "counts of events are sums over rows"),
            Family::Binomial { .. } => (
                TargetUnit::Mean,
                "sums",
                "the probability of a success is a weighted mean of the rows' probabilities",
            ),
        };
        if data.bags.unit() != unit {
            return Err(Error::parameter("unit of bags", name, why));
        }
        if data.target_noise.is_some() {
            let why = "the family of the counts determines their variance: leave the variances out";
            return Err(Error::parameter("variances of targets' errors", "given", why));
        }
        for (name, value) in
            [("dispersion", self.dispersion), ("mediation_dispersion", self.mediation_dispersion)]
        {
            crate::checks::not_negative(name, value, "it is a number, not negative")?;
        }
        check_mean("prior_mean", self.prior_mean)?;
        crate::memory::check_allocation(
            "number of inducing points",
            points.rows(),
            data.targets.len() + 6 * points.rows(),
        )?;
        let operator = match (&self.smoothing, &data.mediators) {
            (Some(smoothing), Some(mediators)) if data.mediated() > 0 => {
                smoothing.operator(&data.bags, &data.bag_of_target, mediators)?
            }
            _ => ObservationOperator::new(&data.bags, &data.bag_of_target, None)?,
        };
        let weights = data.bags.weights();
        let exposures = operator.transpose_times_vector(weights.column_sums());
        let level = self.family.level(&data.targets, &exposures);
        Ok(CountProblem { rows: BagRows::new(&data.rows, weights), points, operator, level })
    }

    fn result(&self, data: &Aggregates, observed: &CountObservations<'_>, mode: &Mode) -> Result<CountFit> {
        let (evaluation, local, points) = (&mode.evaluation, &mode.local, &observed.points);
        let alpha = Matrix::column_vector(evaluation.alpha.clone());
        let table = observed.cross.points.clone();
        let mut model = KernelExpansion::new(self.kernel.clone(), table, alpha, vec![evaluation.state.beta])?;
        model.link = self.family.link();
        let mediated = data.mediated();
        model.model_card = vec![
            CardEntry::new("model", "Gaussian process with counts of bags"),
            CardEntry::new(
                "targets are",
                match self.family {
                    Family::Poisson => {
                        "counts of events (Poisson); the model is the logarithm of a rate per unit of weight"
                    }
                    Family::Binomial { .. } => {
                        "counts of successes (binomial); the model is the log odds of a success"
                    }
                },
            ),
        ];
        model.model_card.extend(data.facts());
        model.model_card.extend([
            CardEntry::new("inducing points", model.support_points.rows()),
            CardEntry::measured("log marginal likelihood (Laplace)", mode.value),
            CardEntry::measured("jitter", points.jitter),
        ]);
        let dispersions = [self.dispersion, if mediated > 0 { self.mediation_dispersion } else { 0.0 }];
        let named = ["dispersion", "dispersion of mediated counts"].into_iter().zip(dispersions);
        model.model_card.extend(
            named.filter(|(_, value)| *value > 0.0).map(|(name, value)| CardEntry::measured(name, value)),
        );
        let CountLikelihood { family, dispersions: target_dispersions, .. } = &observed.likelihood;
        let mean_count = |(t, sum): (usize, &RateSum)| family.moments(t, target_dispersions[t], *sum).0;
        Ok(CountFit {
            model,
            covariance: points.posterior_covariance(&local.information, 1)?,
            smoothing: self.smoothing.clone().filter(|_| mediated > 0),
            dispersions,
            log_marginal_likelihood: mode.value,
            fitted: evaluation.sums.iter().enumerate().map(mean_count).collect(),
            left_out: leave_one_out::leave_one_out(observed, evaluation, local),
            jitter: points.jitter,
            steps: mode.steps,
        })
    }
}

/// The data in the form in which all evaluations use them.
struct CountProblem {
    rows: BagRows,
    points: Table,
    operator: ObservationOperator,
    level: f64,
}

impl CountProblem {
    fn observed<'a>(
        &'a self,
        process: &'a CountProcess,
        data: &'a Aggregates,
        control: RunControl<'a>,
    ) -> Result<CountObservations<'a>> {
        let dispersion = |bag: &Option<usize>| match bag {
            Some(_) => process.dispersion,
            None => process.mediation_dispersion,
        };
        Ok(CountObservations {
            points: WhitenedInducing::new(&process.kernel, &self.points)?,
            cross: CrossKernel::new(&self.rows, &process.kernel, &self.points, control)?,
            operator: &self.operator,
            likelihood: CountLikelihood {
                family: &process.family,
                counts: &data.targets,
                dispersions: data.bag_of_target.iter().map(dispersion).collect(),
            },
            given_mean: process.prior_mean,
            level: self.level,
        })
    }
}

impl CountFit {
    /// Returns the posterior of f.
    pub fn posterior(&self) -> Posterior<'_> {
        Posterior::new_unchecked(&self.model, &self.covariance)
    }
}

impl WithPosterior for CountFit {
    fn posterior(&self) -> Posterior<'_> {
        Self::posterior(self)
    }

    fn into_parts(self) -> (KernelExpansion, PosteriorCovariance) {
        (self.model, self.covariance)
    }
}

impl Tuning {
    /// Tunes a process of counts from two starts, `start` and a process with longer length scales, and
    /// returns the better optimum. The objective is Laplace's approximation of the marginal likelihood, times
    /// weakly informative priors around `start` unless the published conventions are used. The kernel
    /// smoother of mediators is tuned first, by its predictions of left-out bags under the starting kernel.
    /// Cost: some tens of evaluations of the marginal likelihood per start.
    ///
    /// # Errors
    /// As [`CountProcess::fit`]; [`Error::Interrupted`].
    pub fn tune_counts(&self, start: &CountProcess, data: &Aggregates) -> Result<TunedCounts> {
        let control = self.control();
        let mut start = start.clone();
        if let (Some(smoothing), Some(mediators), true) =
            (&start.smoothing, &data.mediators, data.mediated() > 0)
        {
            data.check()?;
            let gram = super::tuning::bag_mean_gram(&start.kernel, data, control)?;
            start.smoothing = Some(smoothing.tune(&data.bags, &mediators.bags, &gram, control)?);
        }
        if data.targets.len() < MIN_TARGETS {
            let fit = start.fit(data)?;
            let warnings = vec![format!("fewer than {MIN_TARGETS} targets: nothing was tuned")];
            let alternatives = Vec::new();
            return Ok(TunedCounts { process: start, alternatives, fit, evaluations: 0, warnings });
        }
        let problem = start.problem(data)?;
        let coordinates = coordinates(&start);
        let priors = match self.conventions {
            Conventions::Regularised => &coordinates[..],
            Conventions::Published => &[],
        };
        let smoother = start.kernel.with_length_scales_times(3.0);
        let smoother = smoother.map(|kernel| CountProcess { kernel, ..start.clone() });
        let search = |process: CountProcess| {
            let mut warm_start: Option<LatentState> = None;
            let optimum =
                maximise_within_priors(&coordinates, &log_values(&process.parameters()), control, |theta| {
                    let process = process.with_parameters(theta);
                    let evaluation = process.value_and_gradient(data, &problem, &mut warm_start, control)?;
                    Ok(add_log_priors(priors, theta, evaluation))
                })?;
            let process = process.with_parameters(&optimum.theta);
            Ok((optimum, (process, warm_start)))
        };
        let first = best_search(start.clone(), smoother, search)?;
        let (optimum, mut candidates) = best_profile(first, &start.kernel, &self.profiles, |kernel| {
            search(CountProcess { kernel, ..start.clone() })
        })?;
        let (process, warm_start) = candidates.remove(0);
        let alternatives = candidates.into_iter().map(|(process, _)| process).collect();
        let mut fit = process.fit_from(data, &problem, warm_start.as_ref(), control)?;
        fit.model.model_card.extend(optimum.tuning_facts());
        let SearchResult { evaluations, warnings, .. } = optimum;
        Ok(TunedCounts { process, alternatives, fit, evaluations, warnings })
    }

    /// Returns the posterior averaged over hyper-parameters by importance sampling, under weakly informative
    /// priors around `start`. The draws start around `tuned` (see [`PosteriorMixture`]). With several tuned
    /// processes, whose kernels have different profiles, the draws are divided among these, and weighted by
    /// their evidences. The kernel smoother of mediators is that of `tuned`.
    ///
    /// # Errors
    /// As [`CountProcess::fit`]; [`Error::Parameter`] for fewer than 2 draws; [`Error::Overflow`] if no draw
    /// has a likelihood; [`Error::Interrupted`].
    ///
    /// # Panics
    /// If `tuned` is empty, or `tuned` and `start` do not have the same parameters.
    pub fn average_counts(
        &self,
        start: &CountProcess,
        tuned: &[CountProcess],
        data: &Aggregates,
        draws: usize,
        seed: u64,
    ) -> Result<PosteriorMixture<CountFit>> {
        let (control, coordinates) = (self.control(), coordinates(start));
        let mixtures = tuned.iter().map(|process| {
            let (problem, mut warm_start) = (process.problem(data)?, None);
            let from = log_values(&process.parameters());
            let hyper_posterior = HyperPosterior { coordinates: &coordinates, from: &from, control };
            let evidence = |theta: &[f64]| {
                process.with_parameters(theta).value_and_gradient(data, &problem, &mut warm_start, control)
            };
            let fit = |theta: &[f64]| {
                let fit = process.with_parameters(theta).fit_from(data, &problem, None, control)?;
                Ok((fit.log_marginal_likelihood, fit))
            };
            hyper_posterior.average(evidence, fit, draws_per_profile(draws, tuned.len()), seed)
        });
        Ok(PosteriorMixture::combined(mixtures.collect::<Result<_>>()?))
    }
}

impl TunedCounts {
    /// Returns the process and its alternatives, over which [`Tuning::average_counts`] averages.
    pub fn processes(&self) -> Vec<CountProcess> {
        std::iter::once(&self.process).chain(&self.alternatives).cloned().collect()
    }
}

/// Returns all parameters of a process with their default priors.
fn coordinates(process: &CountProcess) -> Vec<HyperParameter> {
    process.parameters().into_iter().map(HyperParameter::with_default_prior).collect()
}

/// A process of counts with tuned hyper-parameters, and its fit to the data.
#[derive(Debug, Clone)]
pub struct TunedCounts {
    /// The process.
    pub process: CountProcess,
    /// Tuned processes with other [`profiles`](Tuning::profiles), whose log marginal likelihood, with priors,
    /// is at most 3 smaller.
    pub alternatives: Vec<CountProcess>,
    /// The fit of the process.
    pub fit: CountFit,
    /// The number of evaluations of the marginal likelihood in all searches.
    pub evaluations: usize,
    /// Warnings: parameters that ended at a bound, too few targets.
    pub warnings: Vec<String>,
}
