//! Preferences as Gaussian processes: the log odds of a duel have a [prior covariance](PairKernel), and what
//! is known after some duels is found by
//! [Laplace's approximation](crate::fit).

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
use crate::explanation::Fact;
use crate::fit::hyperparameter_search::{self, HyperParameter, SearchOptions, SearchResult, add_log_priors};
use crate::fit::jaakkola_bound::maximise_bound;
use crate::fit::laplace::{LaplaceMode, LogisticLikelihood, mode_from};
use crate::kernel::{Kernel, Parameter};
use crate::kernel_model::{KernelExpansion, Link};
use crate::linalg::{Matrix, Sparse};
use crate::posterior::{Posterior, PosteriorCovariance, VarianceReduction};
use crate::table::Table;

/// Where tuning starts: what of the two shares is multiplied by how much, the nested model as it is, one that
/// is nearly a ranking, and one that is nearly none.
const SHARE_STARTS: [[f64; 2]; 3] = [[1.0, 1.0], [1.0, 0.01], [0.01, 1.0]];

/// Of fewer pairs that met the whole covariance costs little.
const FEW: usize = 400;

/// How the posterior of the log odds is approximated by a normal distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inference {
    /// Around its mode (Laplace's approximation).
    Laplace,
    /// By the one that makes the largest lower bound of the marginal likelihood, each logistic function
    /// having the best Gaussian below it (Jaakkola and Jordan 2000). A true bound, as a rule further from the
    /// truth than Laplace's approximation, which may be on either side of it. Cost n³ a step of tens.
    Bound,
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
    /// How the posterior is approximated.
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
    /// What is besides the mode.
    pub covariance: PosteriorCovariance,
    /// The prior as it was used.
    pub prior: PairKernel,
    /// The margin of ties as it was used.
    pub margin: Option<f64>,
    /// Laplace's approximation of the log marginal likelihood of the duels, or the lower bound.
    pub log_marginal_likelihood: f64,
    /// Steps of the optimiser, all runs together.
    pub steps: usize,
    /// Evaluations of the marginal likelihood, all runs together.
    pub evaluations: usize,
    /// What to look at: parameters that ended at a bound, runs that failed.
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

    /// As [`fit`](Self::fit), but tuned from where all starts lead with `fewer` of the duels: what takes most
    /// evaluations is done where these cost little.
    pub(super) fn fit_after(
        &self,
        tuning_subset: Option<&Duels>,
        items: &Table,
        duels: &Duels,
    ) -> Result<PreferenceFit> {
        self.check(&ObservedDuels { items, bags: None, duels })?;
        // Of items that met nobody nothing is learnt.
        let of = |duels: &Duels| {
            let (met, duels) = duels.without_idle_items();
            (items.select_rows(&met), duels)
        };
        let from = tuning_subset.filter(|_| self.tune).map(|fewer| {
            let (items, duels) = of(fewer);
            self.tune(&ObservedDuels { items: &items, bags: None, duels: &duels }, None)
        });
        let (items, duels) = of(duels);
        let from = from.transpose()?.map(|found| found.theta);
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
        let rows = |what: &str, expected: usize, found: usize, why: &str| {
            let (what, why) = (what.into(), why.into());
            if expected == found {
                return Ok(());
            }
            Err(Error::Shape { what, unit: "rows", expected, found, why })
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

    /// Refuses matrices over the pairs that met that no memory holds: the covariance and its factor, and when
    /// tuning slopes and what makes them.
    fn check_memory(&self, pairs: usize) -> Result<()> {
        let needed = pairs.saturating_mul(pairs).saturating_mul(if self.tune { 4 } else { 3 });
        crate::memory::ensure_free(needed).map_err(|most| {
            let allowed = format!(
                "a covariance between all of them takes {:.0} GB, of which {:.0} are free: fit through \
                 landmarks, which takes none (as many as there are items approximate nothing), or to fewer \
                 duels",
                8e-9 * needed as f64,
                8e-9 * most as f64
            );
            Error::parameter("pairs that met", pairs, allowed)
        })
    }

    fn fit_data(&self, data: &ObservedDuels<'_>, from: Option<&[f64]>) -> Result<PreferenceFit> {
        self.check(data)?;
        self.check_memory(data.duels.pairs().len())?;
        let watch = RunControl { stop: &self.stop, progress: &self.progress };
        let found = if self.tune { Some(self.tune(data, from)?) } else { None };
        let setting = self.setting();
        let PreferenceHyperParameters { prior, margin } =
            found.as_ref().map_or(setting.clone(), |own| setting.with_parameters(&own.theta));
        let (steps, evaluations, warnings) =
            found.map_or((0, 0, Vec::new()), |own| (own.steps, own.evaluations, own.warnings));
        let (grams, likelihood) = (data.item_grams(&prior), data.likelihood(margin));
        // With features the mode is found at little cost, and the whole matrix takes a step or two.
        let near = match self.features(&prior, &grams, data) {
            Some(features) => Some(mode_from(&features, &likelihood, None, watch.stop)?.alpha),
            None => None,
        };
        let gram = prior.gram(&grams, data.duels);
        let mode = self.mode(&gram, &likelihood, near.as_deref(), watch)?;
        let method = match self.inference {
            Inference::Laplace => "preferential Gaussian process (Laplace approximation)",
            Inference::Bound => "preferential Gaussian process (variational bound)",
        };
        let mut card = vec![
            Fact::new("model", method),
            Fact::new("duels", data.duels.count()),
            Fact::measured("share of a utility", prior.utility_variance),
            Fact::measured("share of the generalised part", prior.generalised_variance),
        ];
        let terms = prior.extra_utility_kernel.iter().flat_map(|k| &k.terms);
        card.extend(terms.map(|term| Fact::measured("share of a further utility", term.scale)));
        card.extend(prior.contexts.iter().map(|c| Fact::measured("shared by all contexts", c.shared)));
        card.extend(margin.map(|m| Fact::measured("margin of ties", m)));
        card.push(Fact::measured("log marginal likelihood", mode.value));
        card.extend(warnings.iter().map(|w| Fact::new("warning", w)));
        let (points, sums) = data.support_pairs()?;
        let mut coef = vec![0.0; points.rows()];
        for (i, alpha) in mode.alpha.iter().enumerate() {
            sums[i].iter().for_each(|(point, share)| coef[*point] += alpha * share);
        }
        let link = margin.map_or(Link::LatentLogistic, |margin| Link::LatentRaoKupper { margin });
        let model = pair_kernel::model(prior.wide_row_kernel(data.items.width()), points, coef, link, card)?;
        let roots = mode.root_weight.iter().zip(&sums);
        let weighted = roots.map(|(root, own)| own.iter().map(move |(point, share)| (*point, root * share)));
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

    /// The coordinates of the largest evidence with the weak priors: where several starts lead, or `from`,
    /// coordinates to which others led.
    fn tune(&self, data: &ObservedDuels<'_>, from: Option<&[f64]>) -> Result<SearchResult> {
        let watch = RunControl { stop: &self.stop, progress: &self.progress };
        let start = self.setting();
        let one = |times: [f64; 2], restarts: usize| {
            let mut coordinates = start.parameters(times);
            let nearer = from.into_iter().flatten().zip(&mut coordinates);
            nearer.for_each(|(at, c)| c.parameter.log_value = *at);
            let parameters: Vec<Parameter> = coordinates.iter().map(|c| c.parameter.clone()).collect();
            let bounds: Vec<(f64, f64)> = coordinates.iter().map(HyperParameter::bounds).collect();
            let mut near = None;
            let objective = |theta: &[f64]| {
                let found = self.value_and_gradient(&start.with_parameters(theta), data, &mut near, watch)?;
                Ok(add_log_priors(&coordinates, theta, found))
            };
            let search = SearchOptions {
                bounds: Some(&bounds),
                restarts,
                seed: self.seed,
                ..SearchOptions::default()
            };
            hyperparameter_search::maximise(&parameters, 0..parameters.len(), search, watch, objective)
        };
        let (first, others) = (SHARE_STARTS[0], &SHARE_STARTS[1..]);
        let mut best = one(first, if from.is_none() { self.restarts } else { 0 })?;
        let both = self.prior.utility_variance > 0.0 && self.prior.generalised_variance > 0.0;
        for times in others.iter().filter(|_| both && from.is_none()) {
            let found = one(*times, 0)?;
            let (steps, evaluations) = (best.steps + found.steps, best.evaluations + found.evaluations);
            let better = if found.value > best.value { found } else { best };
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
        (plain && pairs.len() >= FEW)
            .then(|| PairFeatures::of(prior, grams, pairs, pairs.len() / 3))
            .flatten()
    }

    fn mode(
        &self,
        gram: &Matrix,
        likelihood: &LogisticLikelihood,
        warm_start: Option<&[f64]>,
        watch: RunControl<'_>,
    ) -> Result<LaplaceMode> {
        match self.inference {
            Inference::Laplace => mode_from(gram, likelihood, warm_start, watch.stop),
            Inference::Bound => maximise_bound(gram, likelihood, watch.stop),
        }
    }

    /// The log marginal likelihood of duels, approximate or its bound, and its gradient in the setting's
    /// coordinates. Newton's method starts `near` the last mode, which is replaced by this one.
    fn value_and_gradient(
        &self,
        setting: &PreferenceHyperParameters,
        data: &ObservedDuels<'_>,
        warm_start: &mut Option<Vec<f64>>,
        watch: RunControl<'_>,
    ) -> Result<(f64, Vec<f64>)> {
        check_cancelled(watch.stop)?;
        let PreferenceHyperParameters { prior, margin } = setting;
        let grams = data.item_grams(prior);
        let likelihood = data.likelihood(*margin);
        let contexts = data.duels.contexts().map(|c| &c.table);
        if let Some(features) = self.features(prior, &grams, data) {
            let mode = mode_from(&features, &likelihood, warm_start.as_deref(), watch.stop)?;
            let (by, margin) = features.slopes(&mode, &likelihood);
            let value = mode.value;
            *warm_start = Some(mode.alpha);
            return Ok((value, setting.gradient(data.items, contexts, &by, margin)));
        }
        let gram = prior.gram(&grams, data.duels);
        if gram.data().iter().any(|v| !v.is_finite()) {
            return Err(Error::Overflow {
                what: "the prior covariance of duels".into(),
                remedy: "check the kernel's parameters",
            });
        }
        let mode = self.mode(&gram, &likelihood, warm_start.as_deref(), watch)?;
        *warm_start = Some(mode.alpha.clone());
        let value = mode.value;
        let slopes = mode.slopes(&gram, &likelihood);
        let mut by = prior.gradient(&grams, data.duels, &slopes.gram);
        if let Some(bags) = data.bags {
            by.grams.items = bags.to_items(&by.grams.items);
            by.grams.extra_utility_kernel = by.grams.extra_utility_kernel.map(|alone| bags.to_items(&alone));
        }
        Ok((value, setting.gradient(data.items, contexts, &by, slopes.margin)))
    }

    /// What [`log_marginal_likelihood`](Self::log_marginal_likelihood) takes: the logarithms of the shares
    /// that are not 0 and of the scales of further utilities, the kernel's parameters, with contexts the
    /// logit of what they share (unless it is 0 or 1) and their kernel's parameters, and the logarithm of the
    /// margin.
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

    /// The same for duels among bags.
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
        self.value_and_gradient(&self.setting().with_parameters(theta), data, &mut None, RunControl::nobody())
    }
}

impl PreferenceFit {
    /// The posterior of the log odds.
    pub fn posterior(&self) -> Posterior<'_> {
        Posterior::of(&self.model, &self.covariance)
    }

    /// The probability that the left item of each pair wins, averaged over the posterior. (Pairs in contexts:
    /// [`wide_rows_in`](super::wide_rows_in) and
    /// [`Prediction::of`](crate::Prediction::of).)
    ///
    /// # Errors
    /// As [`Table::align_to`].
    pub fn probability(&self, items: &Table, pairs: &[Pair]) -> Result<Vec<f64>> {
        let rows = wide_rows(items, pairs)?;
        let found = crate::Prediction::of(&self.model, Some(&self.covariance), &rows)?;
        let probabilities = found.probabilities.map(|p| (0..pairs.len()).map(|r| p[(r, 1)]).collect());
        probabilities.ok_or_else(|| Error::Format { problem: "the model has no probabilities".into() })
    }
}
