//! Preferential Gaussian processes. The log odds of a duel have a [prior covariance](PairKernel), and their
//! posterior is computed by Laplace's approximation or a variational bound.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::choices::{Choices, PairChoices};
use super::duels::Duels;
use super::fair_preferences::{self, FairPreferences};
use super::hyperparameters::PreferenceHyperParameters;
use super::low_rank::PairFeatures;
use super::observed_duels::{ObservedDuels, UsedDuels};
use super::pair_kernel::{self, ItemGrams, Pair, PairKernel, default_kernel, wide_rows};
use super::teams::{Competitors, ItemBags};
use crate::control::{Progress, RunControl, check_cancelled};
use crate::error::{Error, Result, sized};
use crate::fit::Penalty;
use crate::gp::average::{HyperPosterior, PosteriorMixture, WithPosterior, draws_per_profile};
use crate::gp::hyperparameters::{HyperParameter, add_log_priors};
use crate::gp::inference::Inference;
use crate::gp::laplace::{self, JointCovariance};
use crate::gp::search::{self, SearchOptions, SearchResult, best_profile, best_search};
use crate::kernel::{ColumnScaling, Kernel, Parameter, Profile};
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::model_card::CardEntry;
use crate::posterior::{Posterior, PosteriorCovariance};
use crate::table::Table;

/// Factors of the utility and the generalised variance at the starting points of tuning: the given variances,
/// nearly only a utility, and nearly only the generalised part.
const VARIANCE_FACTORS: [[f64; 2]; 3] = [[1.0, 1.0], [1.0, 0.01], [0.01, 1.0]];

/// Default number of draws of hyper-parameters, and the numbers of compared pairs with draws by default.
const DEFAULT_DRAWS: usize = 64;
const AVERAGED_PAIRS: RangeInclusive<usize> = 5..=300;

/// Number of compared pairs below which the dense covariance is cheap.
const SMALL_PAIR_COUNT: usize = 400;

/// Gaussian process model of duels: `P(l beats r) = σ(g(l, r))` with a skew-symmetric Gaussian process `g`
/// over pairs of items.
///
/// With `prior.generalised_variance` 0 this is a preferential Gaussian process with a utility, which ranks
/// the items. With `prior.utility_variance` 0 it is a generalised preferential Gaussian process. By default
/// it has both parts, and tuning determines their variances.
///
/// ```
/// use riesz::preference::{Duels, PreferenceProcess};
/// use riesz::{Kernel, Table};
///
/// // Each item is beaten by the next one around a circle.
/// let angles: Vec<[f64; 1]> = (0..9).map(|i| [f64::from(i) / 9.0]).collect();
/// let items = Table::from_rows(&angles)?;
/// let (left, right): (Vec<usize>, Vec<usize>) = (0..9).map(|i| ((i + 1) % 9, i)).unzip();
/// let duels = Duels::new(9, &left, &right, &[1.0; 9], None)?;
/// let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.1]));
/// (process.tune, process.prior.generalised_variance) = (false, 25.0);
/// let fit = process.fit(&items, &duels)?;
/// let chance = fit.probability(&items, &[(1, 0), (0, 8)])?;
/// assert!(chance[0] > 0.6 && chance[1] > 0.6); // 1 beats 0, which beats 8
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PreferenceProcess {
    /// The prior of duels, from which tuning starts.
    pub prior: PairKernel,
    /// `None`: a tie is half a win for either item. Otherwise ties are a third outcome (Rao and Kupper 1967):
    /// with the margin m > 0, `P(win) = σ(g - m)`, `P(loss) = σ(-g - m)`, and a tie has the remaining
    /// probability. Tuning starts from this margin. Evidences with and without a margin are not comparable,
    /// because their outcomes differ.
    pub margin: Option<f64>,
    /// The approximation of the posterior.
    pub inference: Inference,
    /// Whether variances and the kernel's parameters are tuned, by maximising the approximate marginal
    /// likelihood times weakly informative priors. One standard deviation of the prior is a factor of e for
    /// length scales and of e^1.5 for other parameters, around the start. For variances it is a factor of e³
    /// around 1.5². Few duels contain little information about these parameters.
    pub tune: bool,
    /// Profiles of stationary kernels that tuning compares with that of the items' kernel by their marginal
    /// likelihoods; none by default.
    pub profiles: Vec<Profile>,
    /// Number of runs of the optimiser from random points within the bounds, in addition to those from the
    /// starting points.
    pub restarts: usize,
    /// Seed of these random points.
    pub seed: u64,
    /// A penalty on the values of features, by which the model relies less on them. Hyper-parameters are
    /// tuned without it, and models with it are not averaged.
    pub fair: Option<FairPreferences>,
    /// Flag that another thread sets to cancel the fit.
    pub stop: Arc<AtomicBool>,
    /// Progress of tuning in evaluations, which another thread may read.
    pub progress: Arc<Progress>,
}

/// A fitted model of duels.
#[derive(Debug, Clone)]
pub struct PreferenceFit {
    /// The log odds that the left item wins, over [wide rows](super::wide_columns) and their contexts. The
    /// support points are the compared pairs in both orders.
    pub model: KernelExpansion,
    /// Variance reduction relative to the prior.
    pub covariance: PosteriorCovariance,
    /// The prior with the tuned hyper-parameters.
    pub prior: PairKernel,
    /// The tuned margin of ties.
    pub margin: Option<f64>,
    /// Laplace's approximation of the log marginal likelihood of the duels, or its lower bound.
    pub log_marginal_likelihood: f64,
    /// Total number of optimiser steps over all runs.
    pub steps: usize,
    /// Total number of evaluations of the marginal likelihood over all runs.
    pub evaluations: usize,
    /// Warnings: parameters that ended at a bound, runs that failed.
    pub warnings: Vec<String>,
    /// Tuned hyper-parameters, with the profile of the fit and with profiles that are nearly as likely.
    optima: Vec<ProfileOptimum>,
}

/// The result of tuning.
struct Optimum {
    search: SearchResult,
    /// Optima with the chosen profile and with profiles that are nearly as likely, best first.
    optima: Vec<ProfileOptimum>,
}

/// The optimum with a profile of the kernel: hyper-parameters at the start, which have this profile, and the
/// tuned parameters.
#[derive(Debug, Clone)]
struct ProfileOptimum {
    start: PreferenceHyperParameters,
    theta: Vec<f64>,
}

impl ProfileOptimum {
    fn hyperparameters(&self) -> PreferenceHyperParameters {
        self.start.with_parameters(&self.theta)
    }
}

impl PreferenceProcess {
    /// Returns a process with both parts, tuned from variances of 1.5² in squared log odds.
    pub fn new(kernel: Kernel) -> Self {
        Self {
            prior: PairKernel::new(kernel, 2.25, 2.25),
            margin: None,
            inference: Inference::Laplace,
            tune: true,
            profiles: Vec::new(),
            restarts: 0,
            seed: 0,
            fair: None,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }

    /// Returns a process with the [default kernel](default_kernel) of these items, whose columns have these
    /// units. Tuning compares its Gaussian profile with Matérn profiles, because with a Gaussian kernel
    /// intervals are too narrow if utilities are not as smooth as its functions.
    ///
    /// # Errors
    /// As [`default_kernel`].
    pub fn with_default_kernel(items: &Table, units: &ColumnScaling) -> Result<Self> {
        Ok(Self { profiles: Profile::MATERN.to_vec(), ..Self::new(default_kernel(items, units)?) })
    }

    /// Returns the default number of draws for [`average`](Self::average). It is 64 for a tuned process and 5
    /// to 300 compared pairs, which contain little information about hyper-parameters, and otherwise 0.
    pub fn default_draws(&self, duels: &Duels) -> usize {
        self.draws_for(duels.pairs().len())
    }

    /// Returns the default number of draws for [`average_choices`](Self::average_choices), which is that for
    /// as many compared pairs as there are distinct sets.
    pub fn default_draws_of_choices(&self, choices: &Choices) -> usize {
        self.draws_for(choices.sets())
    }

    fn draws_for(&self, observations: usize) -> usize {
        if self.tune && self.fair.is_none() && AVERAGED_PAIRS.contains(&observations) {
            DEFAULT_DRAWS
        } else {
            0
        }
    }

    /// Fits the process to duels between the rows of `items`. For n compared pairs the cost is n³/3 for each
    /// of about ten Newton steps. Each evaluation of tuning costs n³ and O(items² parameters) more.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Shape`]; [`Error::Overflow`]; [`Error::NotPositiveDefinite`];
    /// [`Error::NotConverged`]; [`Error::Interrupted`].
    pub fn fit(&self, items: &Table, duels: &Duels) -> Result<PreferenceFit> {
        self.fit_after(None, items.into(), duels)
    }

    /// Fits as [`fit`](Self::fit) does, with tuning that starts at the optimum for a subset of the duels, so
    /// that most evaluations are cheap.
    pub(super) fn fit_after(
        &self,
        tuning_subset: Option<&Duels>,
        competitors: Competitors<'_>,
        duels: &Duels,
    ) -> Result<PreferenceFit> {
        self.check(&ObservedDuels::between(competitors, duels))?;
        let tune = |subset: &Duels| self.tune(&UsedDuels::select(competitors, subset)?.data());
        let optimum = tuning_subset.filter(|_| self.tune).map(tune).transpose()?;
        self.fit_data(&UsedDuels::select(competitors, duels)?.data(), optimum.as_ref())
    }

    /// Fits the process to duels between bags of the rows of `items`. The model is one of pairs of items,
    /// from which [`ItemBags::duels`] computes the log odds of bags. The cost is that of [`fit`](Self::fit);
    /// predictions evaluate all pairs of items of compared bags.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_bags(&self, items: &Table, bags: &ItemBags, duels: &Duels) -> Result<PreferenceFit> {
        self.fit_after(None, (items, bags).into(), duels)
    }

    /// Returns the posterior averaged over `draws` draws of the hyper-parameters, by importance sampling from
    /// their posterior under the priors of [`tune`](field@Self::tune). The draws start around `tuned`, a fit
    /// of this process with tuning. [Profiles](Self::profiles) that are nearly as likely as its profile have
    /// equal shares of the draws, and are weighted by their evidences. Probabilities are the
    /// [`expectation`](PosteriorMixture::expectation) of those of the fits.
    ///
    /// # Errors
    /// As [`fit`](Self::fit); [`Error::Parameter`] for fewer than 2 draws; [`Error::TooFew`] if `tuned` is
    /// not tuned.
    pub fn average(
        &self,
        tuned: &PreferenceFit,
        items: &Table,
        duels: &Duels,
        draws: usize,
    ) -> Result<PosteriorMixture<PreferenceFit>> {
        // Items without duels contain no information.
        let (with_duels, duels) = duels.without_unused_items();
        let items = items.select_rows(&with_duels);
        self.average_data(tuned, &ObservedDuels::new(&items, &duels), draws)
    }

    /// Returns the average for duels between bags of the rows of `items`, as [`average`](Self::average) does.
    ///
    /// # Errors
    /// As [`average`](Self::average).
    pub fn average_bags(
        &self,
        tuned: &PreferenceFit,
        items: &Table,
        bags: &ItemBags,
        duels: &Duels,
        draws: usize,
    ) -> Result<PosteriorMixture<PreferenceFit>> {
        self.average_data(tuned, &ObservedDuels::between((items, bags).into(), duels), draws)
    }

    /// Fits the process to choices between the rows of `items`. The model is one of the log odds of duels,
    /// which are choices from two items. For S distinct sets with m items each the cost is O(n³ + S m n²) for
    /// each of about ten Newton steps. Here n is the number of items in sets for a utility alone, and
    /// otherwise that of pairs of items in a common set.
    ///
    /// # Errors
    /// As [`fit`](Self::fit); [`Error::Parameter`] for contexts, a margin of ties, and another inference than
    /// Laplace's.
    pub fn fit_choices(&self, items: &Table, choices: &Choices) -> Result<PreferenceFit> {
        let (items, choices) = self.choice_data(items, choices)?;
        self.fit_data(&ObservedDuels::of_choices(&items, &choices), None)
    }

    /// Returns the average for choices between the rows of `items`, as [`average`](Self::average) does.
    ///
    /// # Errors
    /// As [`average`](Self::average) and [`fit_choices`](Self::fit_choices).
    pub fn average_choices(
        &self,
        tuned: &PreferenceFit,
        items: &Table,
        choices: &Choices,
        draws: usize,
    ) -> Result<PosteriorMixture<PreferenceFit>> {
        let (items, choices) = self.choice_data(items, choices)?;
        self.average_data(tuned, &ObservedDuels::of_choices(&items, &choices), draws)
    }

    /// Returns the log marginal likelihood of choices and its gradient in `theta`, as
    /// [`log_marginal_likelihood`](Self::log_marginal_likelihood) does.
    ///
    /// # Errors
    /// As [`fit_choices`](Self::fit_choices).
    pub fn log_marginal_likelihood_of_choices(
        &self,
        items: &Table,
        choices: &Choices,
        theta: &[f64],
    ) -> Result<(f64, Vec<f64>)> {
        let (items, choices) = self.choice_data(items, choices)?;
        self.log_marginal_likelihood_of(&ObservedDuels::of_choices(&items, &choices), theta)
    }

    /// Returns the items that are in a set and the choices between them, if this process can be fitted to
    /// choices.
    fn choice_data(&self, items: &Table, choices: &Choices) -> Result<(Table, PairChoices)> {
        sized("the table of items", "rows", choices.items(), items.rows(), "one per item of the choices")?;
        let unsupported = [
            ("margin", self.margin.is_some(), "none: a choice has no ties"),
            ("contexts", self.prior.contexts.is_some(), "none: choices have no contexts"),
            ("inference", self.inference != Inference::Laplace, "Laplace's: the bound is one of duels"),
        ];
        if let Some((name, _, allowed)) = unsupported.into_iter().find(|(_, is_set, _)| *is_set) {
            return Err(Error::parameter(name, "set", format!("for choices it must be {allowed}")));
        }
        let (used, choices) = choices.without_unused_items();
        Ok((items.select_rows(&used), choices.of_pairs(self.prior.generalised_variance > 0.0)?))
    }

    fn average_data(
        &self,
        tuned: &PreferenceFit,
        data: &ObservedDuels<'_>,
        draws: usize,
    ) -> Result<PosteriorMixture<PreferenceFit>> {
        self.check(data)?;
        if self.fair.is_some() {
            let allowed = "models with protected features are not averaged: set the number of draws to 0";
            return Err(Error::parameter("draws", draws, allowed));
        }
        let optima = &tuned.optima;
        if optima.is_empty() {
            return Err(Error::too_few("the list of tuned hyper-parameters", 1, "set is"));
        }
        let draws = draws_per_profile(draws, optima.len());
        let mixtures = optima.iter().map(|ProfileOptimum { start, theta }| {
            let process = Self { prior: start.prior.clone(), tune: false, ..self.clone() };
            let fit = |theta: &[f64]| {
                let PreferenceHyperParameters { prior, margin } = start.with_parameters(theta);
                let fit = Self { prior, margin, ..process.clone() }.fit_data(data, None)?;
                Ok((fit.log_marginal_likelihood, fit))
            };
            let control = RunControl { stop: &self.stop, progress: &self.progress };
            let coordinates = start.parameters([1.0; 2]);
            HyperPosterior { coordinates: &coordinates, from: theta, control }.average(
                |theta| process.log_marginal_likelihood_of(data, theta),
                fit,
                draws,
                self.seed,
            )
        });
        Ok(PosteriorMixture::combined(mixtures.collect::<Result<_>>()?))
    }

    fn hyperparameters(&self) -> PreferenceHyperParameters {
        PreferenceHyperParameters { prior: self.prior.clone(), margin: self.margin }
    }

    pub(super) fn check(&self, data: &ObservedDuels<'_>) -> Result<()> {
        let ObservedDuels { items, bags, duels, .. } = data;
        self.prior.check(items.width(), duels)?;
        let check_rows =
            |expected: usize, why: &str| sized("the table of items", "rows", expected, items.rows(), why);
        match bags {
            None => check_rows(duels.items(), "one per item of the duels")?,
            Some(bags) => {
                check_rows(bags.items(), "one per item of the bags")?;
                sized("the list of bags", "rows", duels.items(), bags.count(), "one per bag of the duels")?;
            }
        }
        let Some(margin) = self.margin else { return Ok(()) };
        if !(margin.is_finite() && margin > 0.0) {
            return Err(Error::parameter("margin", margin, "the margin of ties is a positive number"));
        }
        if duels.has_fractions() {
            let allowed = "with a margin of ties each duel is won (1 or 0) or a tie (0.5)";
            return Err(Error::parameter("outcome", "a share", allowed));
        }
        Ok(())
    }

    /// Checks that the matrices over the compared pairs fit into memory: the covariance and its factor, and
    /// for tuning also the gradient with its intermediate matrices.
    fn check_memory(&self, n_pairs: usize) -> Result<()> {
        let numbers = n_pairs.saturating_mul(n_pairs).saturating_mul(if self.tune { 4 } else { 3 });
        crate::memory::ensure_free(numbers).map_err(|free_memory| {
            let allowed = format!(
                "a covariance between all of them takes {:.0} GB, of which {:.0} are free: fit through \
                 landmarks, which need no such matrix (with one per item nothing is approximated), or to \
                 fewer duels",
                8e-9 * numbers as f64,
                8e-9 * free_memory as f64
            );
            Error::parameter("pairs that met", n_pairs, allowed)
        })
    }

    /// Fits the process; tuning continues from `initial` if it is given.
    fn fit_data(&self, data: &ObservedDuels<'_>, initial: Option<&Optimum>) -> Result<PreferenceFit> {
        self.check(data)?;
        self.check_memory(data.duels.pairs().len())?;
        let tuned = match (self.tune, initial) {
            (false, _) => None,
            (true, None) => Some(self.tune(data)?),
            (true, Some(Optimum { optima, .. })) => {
                let (search, optimum) = self.search(data, &optima[0].start, Some(&optima[0].theta))?;
                Some(Optimum { search, optima: vec![optimum] })
            }
        };
        let (search, optima) = tuned.map(|tuned| (tuned.search, tuned.optima)).unzip();
        let optima = optima.unwrap_or_default();
        let PreferenceHyperParameters { prior, margin } =
            optima.first().map_or_else(|| self.hyperparameters(), ProfileOptimum::hyperparameters);
        let (steps, evaluations, warnings) =
            search.map_or((0, 0, Vec::new()), |search| (search.steps, search.evaluations, search.warnings));
        let grams = data.item_grams(&prior);
        // With features the mode is cheap, and Newton's method with the dense matrix then takes one or two
        // steps.
        let mode_of_features =
            |features| laplace::mode(&features, &data.likelihood(margin), None, &self.stop);
        let warm_start = self.features(&prior, &grams, data).map(mode_of_features).transpose()?;
        let gram = prior.gram(&grams, data.duels);
        let (points, point_shares) = data.support_pairs()?;
        let kernel = prior.wide_row_kernel(data.items.width());
        let penalty =
            self.fair.as_ref().map(|fair| fair.penalty(&kernel, &points, &point_shares, &self.stop));
        let penalty = penalty.transpose()?;
        let approximate = |gram: &Matrix, warm_start: Option<&[f64]>| {
            data.mode(self.inference, gram, margin, warm_start, &self.stop)
        };
        let (alpha, mode) = match &penalty {
            None => approximate(&gram, warm_start.as_ref().map(|mode| &mode.alpha[..]))
                .map(|mode| (mode.alpha.clone(), mode)),
            Some(penalty) => fair_preferences::penalised_mode(penalty, &gram, |gram| approximate(gram, None)),
        }?;
        let method = match self.inference {
            Inference::Laplace => "preferential Gaussian process (Laplace approximation)",
            Inference::JaakkolaBound => "preferential Gaussian process (variational bound)",
        };
        let data_name = if data.choices.is_some() { "choices" } else { "duels" };
        let mut card = vec![CardEntry::new("model", method), CardEntry::new(data_name, data.duels.count())];
        card.extend(prior.card_entries(data.items.columns()));
        card.extend(prior.contexts.iter().map(|c| CardEntry::measured("shared by all contexts", c.shared)));
        card.extend(margin.map(|m| CardEntry::measured("margin of ties", m)));
        card.push(CardEntry::measured("log marginal likelihood", mode.value));
        card.extend(penalty.iter().flat_map(Penalty::facts));
        card.extend(warnings.iter().map(|w| CardEntry::new("warning", w)));
        let mut coef = vec![0.0; points.rows()];
        for (i, alpha) in alpha.iter().enumerate() {
            point_shares[i].iter().for_each(|(point, share)| coef[*point] += alpha * share);
        }
        let link = pair_kernel::latent_link(margin);
        let model = pair_kernel::model(kernel, points, coef, link, card)?;
        let evidence = mode.value;
        let reduction = match &penalty {
            None => mode.reduction(&point_shares, model.support_points.rows()),
            Some(penalty) => {
                mode.penalised_reduction(&point_shares, model.support_points.rows(), gram, penalty)
            }
        };
        let reduction = vec![reduction?];
        let width = 2 * data.items.width();
        let swapped_column = |j: usize| if j < width { (j + width / 2) % width } else { j };
        let mirror = Some((0..model.support_points.width()).map(swapped_column).collect());
        let covariance = PosteriorCovariance { mirror, ..PosteriorCovariance::new(reduction, vec![1.0]) };
        Ok(PreferenceFit {
            model,
            covariance,
            prior,
            margin,
            log_marginal_likelihood: evidence,
            steps,
            evaluations,
            warnings,
            optima,
        })
    }

    /// Maximises the evidence times the priors, from several starting points. The search with each other
    /// profile starts at the optimum with the kernel's own profile.
    fn tune(&self, data: &ObservedDuels<'_>) -> Result<Optimum> {
        let start = self.hyperparameters();
        let first = self.search(data, &start, None)?;
        let theta = first.0.theta.clone();
        let (search, optima) = best_profile(first, &self.prior.items, &self.profiles, |items| {
            let mut start = start.clone();
            start.prior.items = items;
            self.search(data, &start, Some(&theta))
        })?;
        Ok(Optimum { search, optima })
    }

    /// Maximises the evidence times the priors around `start`, from several starting points, or from
    /// `initial_theta` alone.
    fn search(
        &self,
        data: &ObservedDuels<'_>,
        start: &PreferenceHyperParameters,
        initial_theta: Option<&[f64]>,
    ) -> Result<(SearchResult, ProfileOptimum)> {
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        let search_from = |(factors, restarts): ([f64; 2], usize)| {
            let mut coordinates = start.parameters(factors);
            let initial_values = initial_theta.into_iter().flatten().zip(&mut coordinates);
            initial_values.for_each(|(value, c)| c.parameter.log_value = *value);
            let parameters: Vec<Parameter> = coordinates.iter().map(|c| c.parameter.clone()).collect();
            let bounds: Vec<(f64, f64)> = coordinates.iter().map(HyperParameter::bounds).collect();
            let mut warm_start = None;
            let objective = |theta: &[f64]| {
                let current = start.with_parameters(theta);
                let evaluation = self.value_and_gradient(&current, data, &mut warm_start, &self.stop)?;
                Ok(add_log_priors(&coordinates, theta, evaluation))
            };
            let search = SearchOptions {
                bounds: Some(&bounds),
                restarts,
                seed: self.seed,
                ..SearchOptions::default()
            };
            Ok((search::maximise(&parameters, 0..parameters.len(), search, control, objective)?, ()))
        };
        let has_both_parts = self.prior.utility_variance > 0.0 && self.prior.generalised_variance > 0.0;
        let first_start = (VARIANCE_FACTORS[0], if initial_theta.is_none() { self.restarts } else { 0 });
        let other_starts = VARIANCE_FACTORS[1..].iter().filter(|_| has_both_parts && initial_theta.is_none());
        let (best, ()) = best_search(first_start, other_starts.map(|factors| (*factors, 0)), search_from)?;
        let theta = best.theta.clone();
        Ok((best, ProfileOptimum { start: start.clone(), theta }))
    }

    /// Returns features of the duels' prior covariance if they make Laplace's approximation cheaper than the
    /// dense matrix.
    fn features<'a>(
        &self,
        prior: &'a PairKernel,
        grams: &'a ItemGrams,
        data: &'a ObservedDuels<'_>,
    ) -> Option<PairFeatures<'a>> {
        let pairs = data.duels.pairs();
        let supported =
            self.inference == Inference::Laplace && data.bags.is_none() && prior.contexts.is_none();
        let supported = supported && data.choices.is_none();
        (supported && pairs.len() >= SMALL_PAIR_COUNT)
            .then(|| PairFeatures::from_grams(prior, grams, pairs, pairs.len() / 3))
            .flatten()
    }

    /// Returns the approximate log marginal likelihood of duels, or its bound, and the gradient in the
    /// hyper-parameters. Newton's method starts at the previous mode, `warm_start`, which is then replaced by
    /// the new mode.
    fn value_and_gradient(
        &self,
        hyperparameters: &PreferenceHyperParameters,
        data: &ObservedDuels<'_>,
        warm_start: &mut Option<Vec<f64>>,
        stop: &AtomicBool,
    ) -> Result<(f64, Vec<f64>)> {
        check_cancelled(stop)?;
        let PreferenceHyperParameters { prior, margin } = hyperparameters;
        let grams = data.item_grams(prior);
        let contexts = data.duels.contexts().map(|c| &c.table);
        let likelihood = data.likelihood(*margin);
        if let Some(features) = self.features(prior, &grams, data) {
            let mode = laplace::mode(&features, &likelihood, warm_start.as_deref(), stop)?;
            let (gradients, margin) = features.gradient(&mode, &likelihood);
            *warm_start = Some(mode.alpha);
            return Ok((mode.value, hyperparameters.gradient(data.items, contexts, &gradients, margin)));
        }
        let gram = prior.gram(&grams, data.duels);
        if gram.data().iter().any(|v| !v.is_finite()) {
            return Err(Error::overflow("the prior covariance of duels", "check the kernel's parameters"));
        }
        if let Some(likelihood) = data.choices {
            let mode = laplace::joint_mode(&JointCovariance(&gram), likelihood, warm_start.as_deref(), stop)?;
            let gradients = prior.gradient(&grams, data.duels, &mode.gradient(&gram, likelihood));
            *warm_start = Some(mode.alpha);
            return Ok((mode.value, hyperparameters.gradient(data.items, None, &gradients, 0.0)));
        }
        let mode = self.inference.approximate(&gram, &likelihood, warm_start.as_deref(), stop)?;
        *warm_start = Some(mode.alpha.clone());
        let value = mode.value;
        let mode_gradient = mode.gradient(&gram, &likelihood);
        let mut gradients = prior.gradient(&grams, data.duels, &mode_gradient.gram);
        if let Some(bags) = data.bags {
            gradients.grams.items = bags.to_items(&gradients.grams.items);
            gradients.grams.extra_utility_kernel =
                gradients.grams.extra_utility_kernel.map(|extra_gradient| bags.to_items(&extra_gradient));
        }
        Ok((value, hyperparameters.gradient(data.items, contexts, &gradients, mode_gradient.parameter)))
    }

    /// Returns the arguments of [`log_marginal_likelihood`](Self::log_marginal_likelihood): the logarithms of
    /// the variances that are not 0 and of the scales of further utilities; the kernel's parameters; with
    /// contexts the logit of the shared part (unless it is 0 or 1) and the parameters of the context kernel;
    /// the logarithm of the margin.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.hyperparameters().parameters([1.0; 2]).into_iter().map(|c| c.parameter).collect()
    }

    /// Returns Laplace's approximation of the log marginal likelihood, or its bound, and the gradient in
    /// `theta`, which has the order and scale of [`parameters`](Self::parameters). For n compared pairs the
    /// cost is about ten times n³/3, plus n³.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn log_marginal_likelihood(
        &self,
        items: &Table,
        duels: &Duels,
        theta: &[f64],
    ) -> Result<(f64, Vec<f64>)> {
        self.log_marginal_likelihood_of(&ObservedDuels::new(items, duels), theta)
    }

    /// Returns the log marginal likelihood of duels between bags and its gradient in `theta`.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn log_marginal_likelihood_of_bags(
        &self,
        items: &Table,
        bags: &ItemBags,
        duels: &Duels,
        theta: &[f64],
    ) -> Result<(f64, Vec<f64>)> {
        self.log_marginal_likelihood_of(&ObservedDuels::between((items, bags).into(), duels), theta)
    }

    fn log_marginal_likelihood_of(&self, data: &ObservedDuels<'_>, theta: &[f64]) -> Result<(f64, Vec<f64>)> {
        self.check(data)?;
        search::check("theta", "numbers", theta.len(), &self.parameters())?;
        let hyperparameters = self.hyperparameters().with_parameters(theta);
        self.value_and_gradient(&hyperparameters, data, &mut None, RunControl::none().stop)
    }
}

impl PreferenceFit {
    /// Returns the posterior of the log odds.
    pub fn posterior(&self) -> Posterior<'_> {
        Posterior::new_unchecked(&self.model, &self.covariance)
    }

    /// Returns the probability that the left item of each pair wins, averaged over the posterior. For pairs
    /// in contexts use [`wide_rows_in`](super::wide_rows_in) and [`Prediction::new`](crate::Prediction::new).
    ///
    /// # Errors
    /// As [`Table::align_to`].
    pub fn probability(&self, items: &Table, pairs: &[Pair]) -> Result<Vec<f64>> {
        let rows = wide_rows(items, pairs)?;
        let prediction = crate::Prediction::new(&self.model, Some(&self.covariance), &rows)?;
        let probabilities = prediction.probabilities.map(|by_class| by_class.column(1));
        probabilities.ok_or_else(|| Error::format("the model has no probabilities"))
    }
}

impl WithPosterior for PreferenceFit {
    fn posterior(&self) -> Posterior<'_> {
        Self::posterior(self)
    }

    fn into_parts(self) -> (KernelExpansion, PosteriorCovariance) {
        (self.model, self.covariance)
    }
}
