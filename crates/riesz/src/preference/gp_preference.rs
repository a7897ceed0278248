//! Preferential Gaussian processes: the log odds of a duel have a [prior covariance](PairKernel), and the
//! posterior given duels is computed by [Laplace's approximation](crate::fit).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::duels::Duels;
use super::hyperparameters::PreferenceHyperParameters;
use super::low_rank::PairFeatures;
use super::observed_duels::ObservedDuels;
use super::pair_kernel::{self, ItemGrams, Pair, PairKernel, wide_rows};
use super::teams::ItemBags;
use crate::control::{Progress, RunControl, check_cancelled};
use crate::error::{Error, Result};
use crate::fit::hyperparameter_search::{self, HyperParameter, SearchOptions, SearchResult, add_log_priors};
use crate::fit::jaakkola_bound::maximise_bound;
use crate::fit::laplace::{LaplaceMode, LogisticLikelihood, mode_from};
use crate::kernel::{Kernel, Parameter};
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Matrix, Sparse};
use crate::model_card::CardEntry;
use crate::posterior::{Posterior, PosteriorCovariance, VarianceReduction};
use crate::table::Table;

/// Where tuning starts: what of the two shares is multiplied by how much, the nested model as it is, one that
/// is nearly a ranking, and one that is nearly none.
const SHARE_STARTS: [[f64; 2]; 3] = [[1.0, 1.0], [1.0, 0.01], [0.01, 1.0]];

/// Number of compared pairs below which the whole covariance costs little.
const SMALL_PAIR_COUNT: usize = 400;

/// Normal approximations of the posterior of the log odds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inference {
    /// Around its mode (Laplace's approximation).
    Laplace,
    /// The approximation with the largest lower bound of the marginal likelihood, where each logistic
    /// function is bounded by the best Gaussian below it (Jaakkola and Jordan 2000). It is a true bound, and
    /// as a rule further from the truth than Laplace's approximation, whose error may have either sign. Cost
    /// n³ per step, with some tens of steps.
    JaakkolaBound,
}

/// `P(l beats r) = σ(g(l, r))` with `g` a skew Gaussian process over pairs of items.
///
/// With `generalised` 0 it is a preferential Gaussian process (a utility, and so a ranking), with `utility` 0
/// a generalised one; by default it is both, and the data say which.
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
    /// The prior of duels; where tuning starts.
    pub prior: PairKernel,
    /// `None`: a tie is half a win for either. Else ties are outcomes of their own (Rao and Kupper 1967):
    /// with the margin m > 0, `P(win) = σ(g - m)`, `P(loss) = σ(-g - m)`, and the rest is a tie's. Tuning
    /// starts from it. The two know different things of outcomes, so their evidences do not compare.
    pub margin: Option<f64>,
    /// The approximation of the posterior.
    pub inference: Inference,
    /// Whether shares and the kernel's parameters are tuned, by maximising the approximate marginal
    /// likelihood times weak priors around the start: a factor of e (one standard deviation) for length
    /// scales, of 1.5² e³ for shares, of e^1.5 for others. Few duels say little of them.
    pub tune: bool,
    /// Runs of the optimiser from random places within the bounds, besides those from the starts.
    pub restarts: usize,
    /// Seed of these places.
    pub seed: u64,
    /// Set by another thread to give up.
    pub stop: Arc<AtomicBool>,
    /// Read by another thread to see how far tuning is: evaluations.
    pub progress: Arc<Progress>,
}

/// A fitted model of duels.
#[derive(Debug, Clone)]
pub struct PreferenceFit {
    /// The log odds that the left item wins, over [wide rows](super::wide_columns) and their contexts: an
    /// expansion whose points are the pairs that met, and the same the other way round.
    pub model: KernelExpansion,
    /// Variance reduction relative to the prior, around the mode.
    pub covariance: PosteriorCovariance,
    /// The prior with the hyper-parameters that were used.
    pub prior: PairKernel,
    /// The margin of ties as it was used.
    pub margin: Option<f64>,
    /// Laplace's approximation of the log marginal likelihood of the duels, or the lower bound.
    pub log_marginal_likelihood: f64,
    /// Steps of the optimiser, all runs together.
    pub steps: usize,
    /// Evaluations of the marginal likelihood, all runs together.
    pub evaluations: usize,
    /// Warnings: parameters that ended at a bound, runs that failed.
    pub warnings: Vec<String>,
}

impl PreferenceProcess {
    /// Both parts, tuned from shares of 1.5² in squared log odds.
    pub fn new(kernel: Kernel) -> Self {
        Self {
            prior: PairKernel::new(kernel, 2.25, 2.25),
            margin: None,
            inference: Inference::Laplace,
            tune: true,
            restarts: 0,
            seed: 0,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }

    /// Fits to duels among the rows of `items`. Cost, with n pairs that met, n³/3 a Newton step (some ten);
    /// when tuning n³ and O(items² parameters) more for each evaluation.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Shape`]; [`Error::Overflow`]; [`Error::NotPositiveDefinite`];
    /// [`Error::NotConverged`]; [`Error::Interrupted`].
    pub fn fit(&self, items: &Table, duels: &Duels) -> Result<PreferenceFit> {
        self.fit_after(None, items, duels)
    }

    /// [`fit`](Self::fit) with tuning that starts at the optimum for a subset of the duels: most evaluations
    /// then cost little.
    pub(super) fn fit_after(
        &self,
        tuning_subset: Option<&Duels>,
        items: &Table,
        duels: &Duels,
    ) -> Result<PreferenceFit> {
        self.check(&ObservedDuels { items, bags: None, duels })?;
        // Items without duels hold no information.
        let compact = |duels: &Duels| {
            let (with_duels, duels) = duels.without_idle_items();
            (items.select_rows(&with_duels), duels)
        };
        let from = tuning_subset.filter(|_| self.tune).map(|fewer| {
            let (items, duels) = compact(fewer);
            self.tune(&ObservedDuels { items: &items, bags: None, duels: &duels }, None)
        });
        let (items, duels) = compact(duels);
        let from = from.transpose()?.map(|optimum| optimum.theta);
        self.fit_data(&ObservedDuels { items: &items, bags: None, duels: &duels }, from.as_deref())
    }

    /// Fits to duels among bags of the rows of `items`; the model is one of pairs of items, of which
    /// [`ItemBags::duels`] makes log odds of bags. Cost as of
    /// [`fit`](Self::fit), and predictions take each pair of items that are members of bags that met.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_bags(&self, items: &Table, bags: &ItemBags, duels: &Duels) -> Result<PreferenceFit> {
        self.fit_data(&ObservedDuels { items, bags: Some(bags), duels }, None)
    }

    fn setting(&self) -> PreferenceHyperParameters {
        PreferenceHyperParameters { prior: self.prior.clone(), margin: self.margin }
    }

    pub(super) fn check(&self, data: &ObservedDuels<'_>) -> Result<()> {
        let ObservedDuels { items, bags, duels } = data;
        self.prior.check(items.width(), duels)?;
        let rows = |check_rows: &str, expected: usize, length: usize, why: &str| {
            let (subject, why) = (check_rows.into(), why.into());
            if expected == length {
                return Ok(());
            }
            Err(Error::Shape { subject, unit: "rows", expected, actual: length, why })
        };
        match bags {
            None => rows("the table of items", duels.items(), items.rows(), "one an item of the duels")?,
            Some(bags) => {
                rows("the table of items", bags.items(), items.rows(), "one an item of the bags")?;
                rows("the list of bags", duels.items(), bags.count(), "one a bag of the duels")?;
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

    /// Refuses matrices over the compared pairs that do not fit into memory: the covariance and its factor,
    /// and for tuning also the gradient with its intermediate matrices.
    fn check_memory(&self, pairs: usize) -> Result<()> {
        let needed = pairs.saturating_mul(pairs).saturating_mul(if self.tune { 4 } else { 3 });
        crate::memory::ensure_free(needed).map_err(|free_memory| {
            let allowed = format!(
                "a covariance between all of them takes {:.0} GB, of which {:.0} are free: fit through \
                 landmarks, which takes none (as many as there are items approximate nothing), or to fewer \
                 duels",
                8e-9 * needed as f64,
                8e-9 * free_memory as f64
            );
            Error::parameter("pairs that met", pairs, allowed)
        })
    }

    fn fit_data(&self, data: &ObservedDuels<'_>, from: Option<&[f64]>) -> Result<PreferenceFit> {
        self.check(data)?;
        self.check_memory(data.duels.pairs().len())?;
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        let optimum = if self.tune { Some(self.tune(data, from)?) } else { None };
        let setting = self.setting();
        let PreferenceHyperParameters { prior, margin } =
            optimum.as_ref().map_or(setting.clone(), |best| setting.with_parameters(&best.theta));
        let (steps, evaluations, warnings) =
            optimum.map_or((0, 0, Vec::new()), |best| (best.steps, best.evaluations, best.warnings));
        let (grams, likelihood) = (data.item_grams(&prior), data.likelihood(margin));
        // With features the mode costs little, and Newton's method with the whole matrix then takes a step or
        // two.
        let near = match self.features(&prior, &grams, data) {
            Some(features) => Some(mode_from(&features, &likelihood, None, control.stop)?.alpha),
            None => None,
        };
        let gram = prior.gram(&grams, data.duels);
        let mode = self.mode(&gram, &likelihood, near.as_deref(), control)?;
        let method = match self.inference {
            Inference::Laplace => "preferential Gaussian process (Laplace approximation)",
            Inference::JaakkolaBound => "preferential Gaussian process (variational bound)",
        };
        let mut card = vec![
            CardEntry::new("model", method),
            CardEntry::new("duels", data.duels.count()),
            CardEntry::measured("share of a utility", prior.utility_variance),
            CardEntry::measured("share of the generalised part", prior.generalised_variance),
        ];
        let terms = prior.extra_utility_kernel.iter().flat_map(|k| &k.terms);
        card.extend(terms.map(|term| CardEntry::measured("share of a further utility", term.scale)));
        card.extend(prior.contexts.iter().map(|c| CardEntry::measured("shared by all contexts", c.shared)));
        card.extend(margin.map(|m| CardEntry::measured("margin of ties", m)));
        card.push(CardEntry::measured("log marginal likelihood", mode.value));
        card.extend(warnings.iter().map(|w| CardEntry::new("warning", w)));
        let (points, sums) = data.support_pairs()?;
        let mut coef = vec![0.0; points.rows()];
        for (i, alpha) in mode.alpha.iter().enumerate() {
            sums[i].iter().for_each(|(point, share)| coef[*point] += alpha * share);
        }
        let link = margin.map_or(Link::LatentLogistic, |margin| Link::LatentRaoKupper { margin });
        let model = pair_kernel::model(prior.wide_row_kernel(data.items.width()), points, coef, link, card)?;
        let roots = mode.root_weight.iter().zip(&sums);
        let weighted =
            roots.map(|(root, members)| members.iter().map(move |(point, share)| (*point, root * share)));
        let operator = Some(Sparse::from_columns(model.support_points.rows(), weighted)?);
        let known = vec![VarianceReduction::CholeskyInverse { operator, factor: mode.factor }];
        let width = 2 * data.items.width();
        let place = |j: usize| if j < width { (j + width / 2) % width } else { j };
        let mirror = Some((0..model.support_points.width()).map(place).collect());
        let covariance =
            PosteriorCovariance { prior_scale: 1.0, skew_swap: mirror, reduction: known, scale: vec![1.0] };
        let log_marginal_likelihood = mode.value;
        Ok(PreferenceFit {
            model,
            covariance,
            prior,
            margin,
            log_marginal_likelihood,
            steps,
            evaluations,
            warnings,
        })
    }

    /// The maximum of the evidence times the priors: the best of several starts, or the optimum reached from
    /// `from`.
    fn tune(&self, data: &ObservedDuels<'_>, from: Option<&[f64]>) -> Result<SearchResult> {
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        let start = self.setting();
        let search_from = |times: [f64; 2], restarts: usize| {
            let mut coordinates = start.parameters(times);
            let nearer = from.into_iter().flatten().zip(&mut coordinates);
            nearer.for_each(|(value, c)| c.parameter.log_value = *value);
            let parameters: Vec<Parameter> = coordinates.iter().map(|c| c.parameter.clone()).collect();
            let bounds: Vec<(f64, f64)> = coordinates.iter().map(HyperParameter::bounds).collect();
            let mut near = None;
            let objective = |theta: &[f64]| {
                let evaluation =
                    self.value_and_gradient(&start.with_parameters(theta), data, &mut near, control)?;
                Ok(add_log_priors(&coordinates, theta, evaluation))
            };
            let search = SearchOptions {
                bounds: Some(&bounds),
                restarts,
                seed: self.seed,
                ..SearchOptions::default()
            };
            hyperparameter_search::maximise(&parameters, 0..parameters.len(), search, control, objective)
        };
        let (first, other_starts) = (SHARE_STARTS[0], &SHARE_STARTS[1..]);
        let mut best = search_from(first, if from.is_none() { self.restarts } else { 0 })?;
        let both_parts = self.prior.utility_variance > 0.0 && self.prior.generalised_variance > 0.0;
        for times in other_starts.iter().filter(|_| both_parts && from.is_none()) {
            let optimum = search_from(*times, 0)?;
            let (steps, evaluations) = (best.steps + optimum.steps, best.evaluations + optimum.evaluations);
            let better = if optimum.value > best.value { optimum } else { best };
            best = SearchResult { steps, evaluations, ..better };
        }
        Ok(best)
    }

    /// Features of the duels' prior covariance, where these make Laplace's approximation cheaper than the
    /// whole matrix does.
    fn features<'a>(
        &self,
        prior: &'a PairKernel,
        grams: &'a ItemGrams,
        data: &'a ObservedDuels<'_>,
    ) -> Option<PairFeatures<'a>> {
        let pairs = data.duels.pairs();
        let plain = self.inference == Inference::Laplace && data.bags.is_none() && prior.contexts.is_none();
        (plain && pairs.len() >= SMALL_PAIR_COUNT)
            .then(|| PairFeatures::from_grams(prior, grams, pairs, pairs.len() / 3))
            .flatten()
    }

    fn mode(
        &self,
        gram: &Matrix,
        likelihood: &LogisticLikelihood,
        warm_start: Option<&[f64]>,
        control: RunControl<'_>,
    ) -> Result<LaplaceMode> {
        match self.inference {
            Inference::Laplace => mode_from(gram, likelihood, warm_start, control.stop),
            Inference::JaakkolaBound => maximise_bound(gram, likelihood, control.stop),
        }
    }

    /// The log marginal likelihood of duels, approximate or its bound, and its gradient in the
    /// hyper-parameters. Newton's method starts at the last mode, `warm_start`, which is replaced by this
    /// one.
    fn value_and_gradient(
        &self,
        setting: &PreferenceHyperParameters,
        data: &ObservedDuels<'_>,
        warm_start: &mut Option<Vec<f64>>,
        control: RunControl<'_>,
    ) -> Result<(f64, Vec<f64>)> {
        check_cancelled(control.stop)?;
        let PreferenceHyperParameters { prior, margin } = setting;
        let grams = data.item_grams(prior);
        let likelihood = data.likelihood(*margin);
        let contexts = data.duels.contexts().map(|c| &c.table);
        if let Some(features) = self.features(prior, &grams, data) {
            let mode = mode_from(&features, &likelihood, warm_start.as_deref(), control.stop)?;
            let (gradients, margin) = features.slopes(&mode, &likelihood);
            let value = mode.value;
            *warm_start = Some(mode.alpha);
            return Ok((value, setting.gradient(data.items, contexts, &gradients, margin)));
        }
        let gram = prior.gram(&grams, data.duels);
        if gram.data().iter().any(|v| !v.is_finite()) {
            return Err(Error::Overflow {
                subject: "the prior covariance of duels".into(),
                remedy: "check the kernel's parameters",
            });
        }
        let mode = self.mode(&gram, &likelihood, warm_start.as_deref(), control)?;
        *warm_start = Some(mode.alpha.clone());
        let value = mode.value;
        let slopes = mode.gradient(&gram, &likelihood);
        let mut gradients = prior.gradient(&grams, data.duels, &slopes.gram);
        if let Some(bags) = data.bags {
            gradients.grams.items = bags.to_items(&gradients.grams.items);
            gradients.grams.extra_utility_kernel =
                gradients.grams.extra_utility_kernel.map(|extra_gradient| bags.to_items(&extra_gradient));
        }
        Ok((value, setting.gradient(data.items, contexts, &gradients, slopes.margin)))
    }

    /// The arguments of [`log_marginal_likelihood`](Self::log_marginal_likelihood): the logarithms of the
    /// variances that are not 0 and of the scales of further utilities, the kernel's parameters, with
    /// contexts the logit of the shared part (unless it is 0 or 1) and their kernel's parameters, and the
    /// logarithm of the margin.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.setting().parameters([1.0; 2]).into_iter().map(|c| c.parameter).collect()
    }

    /// The log marginal likelihood, Laplace's approximation or the bound, and its gradient, in `theta`, which
    /// is as [`parameters`](Self::parameters). Cost some ten times n³/3 and n³, with n pairs that met.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn log_marginal_likelihood(
        &self,
        items: &Table,
        duels: &Duels,
        theta: &[f64],
    ) -> Result<(f64, Vec<f64>)> {
        self.log_marginal_likelihood_of(&ObservedDuels { items, bags: None, duels }, theta)
    }

    /// The log marginal likelihood of duels among bags.
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
        self.log_marginal_likelihood_of(&ObservedDuels { items, bags: Some(bags), duels }, theta)
    }

    fn log_marginal_likelihood_of(&self, data: &ObservedDuels<'_>, theta: &[f64]) -> Result<(f64, Vec<f64>)> {
        self.check(data)?;
        hyperparameter_search::check("theta", "numbers", theta.len(), &self.parameters())?;
        self.value_and_gradient(&self.setting().with_parameters(theta), data, &mut None, RunControl::none())
    }
}

impl PreferenceFit {
    /// The posterior of the log odds.
    pub fn posterior(&self) -> Posterior<'_> {
        Posterior::new_unchecked(&self.model, &self.covariance)
    }

    /// The probability that the left item of each pair wins, averaged over the posterior. (Pairs in contexts:
    /// [`wide_rows_in`](super::wide_rows_in) and
    /// [`Prediction::new`](crate::Prediction::new).)
    ///
    /// # Errors
    /// As [`Table::align_to`].
    pub fn probability(&self, items: &Table, pairs: &[Pair]) -> Result<Vec<f64>> {
        let rows = wide_rows(items, pairs)?;
        let prediction = crate::Prediction::new(&self.model, Some(&self.covariance), &rows)?;
        let probabilities = prediction.probabilities.map(|p| (0..pairs.len()).map(|r| p[(r, 1)]).collect());
        probabilities.ok_or_else(|| Error::Format { problem: "the model has no probabilities".into() })
    }
}
