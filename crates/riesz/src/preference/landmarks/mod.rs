//! Models of many duels: the [nested prior](PairKernel) with a Nyström approximation of its kernels through
//! some items and contexts, the landmarks.
//!
//! With Nyström [features](nystrom) of items, a skew function that is bilinear in the features plus linear in
//! their difference has exactly the nested prior of the approximate kernel. So q landmarks give q (q + 1)/2
//! weights, far more than q pairs of items would. Features of contexts multiply these: each has its own such
//! function. If all items and all contexts are landmarks, nothing is approximated.
//!
//! The log odds of two bags of items are the mean of those of their members. As the function is bilinear in
//! the features plus linear in their difference, it takes the mean features of a bag in place of the features
//! of an item, and the landmarks are items as before (Chau 2023, appendix D.2, equations D.12-D.13).

mod expansion;
mod feature_maps;
mod function;
mod nystrom;

pub use function::{LandmarkFunction, LandmarkParameters};

use super::bilinear_skew::{ComparedPairs, SkewModel};
use super::comparison_graph::add_to_both;
use super::duels::Duels;
use super::gp_preference::{PreferenceFit, PreferenceProcess};
use super::observed_duels::ObservedDuels;
use super::teams::{Competitors, ItemBags};
use crate::error::{Error, Result};
use crate::gp::inference::Inference;
use crate::kernel_model::{KernelExpansion, VANISHING_REFERENCE_FACT};
use crate::linalg::Matrix;
use crate::model_card::CardEntry;
use crate::random::{Random, SeedableRng};
use crate::table::Table;

use feature_maps::PreferenceFeatureMaps;
use function::TrainingData;

/// A [`PreferenceProcess`] for many duels.
///
/// ```
/// use riesz::preference::{Duels, LandmarkProcess, PreferenceProcess, wide_rows};
/// use riesz::{Kernel, Table};
///
/// let abilities: Vec<[f64; 1]> = (0..40).map(|i| [f64::from(i) / 40.0]).collect();
/// let items = Table::from_rows(&abilities)?;
/// let (winners, losers): (Vec<usize>, Vec<usize>) = (0..39).map(|i| (i + 1, i)).unzip();
/// let duels = Duels::new(40, &winners, &losers, &[1.0; 39], None)?;
/// let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.5]));
/// process.tune = false;
/// let exact = process.fit(&items, &duels)?;
/// let fit = LandmarkProcess { landmarks: 10, ..LandmarkProcess::new(process) }.fit(&items, &duels)?;
/// // Ten landmarks suffice for forty items on a line.
/// let (log_odds, row) = (fit.function.log_odds(&items, &[(39, 0)], None)?, wide_rows(&items, &[(39, 0)])?);
/// assert!((log_odds[0] - exact.model.predict(&row)?[(0, 0)]).abs() < 1e-3);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LandmarkProcess {
    /// The prior, whether it is tuned, and the seed of all random draws.
    pub process: PreferenceProcess,
    /// The largest number of landmarks among the items. If all items are landmarks (a larger number has the
    /// same effect) the prior is exact. This is the exact fit for many duels: its products cost items³ for
    /// any number of compared pairs, and need no matrix between pairs.
    pub landmarks: usize,
    /// The largest number of landmarks among the distinct contexts.
    pub context_landmarks: usize,
    /// The number of compared pairs, drawn at random, on which hyper-parameters are tuned: the cost of
    /// Laplace's evidence is the cube of this number.
    pub tuning_pairs: usize,
    /// The number of draws from the posterior from which standard deviations are estimated; 0 for none. Their
    /// relative standard error is `1/√(2 draws)`: 9 % for 64.
    pub draws: usize,
    /// Newton's method ends when the gradient is this share of the initial one. In a numpy prototype with 250
    /// landmarks and 40,000 duels, the log odds had errors of about 1e-4 at 1e-6, and of 1e-2 after half as
    /// many products.
    pub tolerance: f64,
}

/// A fitted model of many duels.
#[derive(Debug, Clone)]
pub struct LandmarkFit {
    /// The log odds that the left item wins, as a function for predictions.
    pub function: LandmarkFunction,
    /// This function over [wide rows](super::wide_columns), as an expansion over q (q - 1) pairs of
    /// landmarks and 2q further points for the utility, for each landmark of contexts, and some points for
    /// home and ability. Its probabilities are the logistic function of the mean, without ties. Otherwise the
    /// reason why it is not available. A utility needs a kernel that vanishes far from all items, like
    /// Gaussian and Matérn kernels; further utilities need their own columns; and at most 2²⁶ numbers are
    /// allowed.
    pub model: std::result::Result<KernelExpansion, &'static str>,
    /// The share of the items' variance that the landmarks do not explain.
    pub unknown: f64,
    /// The share of the variance of distinct contexts that the landmarks do not explain; 0 without contexts.
    pub unknown_contexts: f64,
    /// The log likelihood of the duels at the mode.
    pub log_likelihood: f64,
    /// Laplace's approximation of the log marginal likelihood of the duels that were used for tuning.
    pub log_marginal_likelihood: Option<f64>,
    /// The numbers of Newton steps, and of products with the Hessian.
    pub steps: [usize; 2],
    /// Warnings of tuning, and of contexts that are far from their landmarks.
    pub warnings: Vec<String>,
}

/// The smallest number of compared pairs for a first tuning, which gives the start of the second one.
const MIN_TUNING_PAIRS: usize = 200;

/// The share of the contexts' variance above which a warning is given if it is unexplained.
const MAX_UNEXPLAINED_CONTEXTS: f64 = 0.1;

impl LandmarkProcess {
    /// Creates the settings with 250 landmarks of items and 32 of contexts, tuning on 1,500 pairs, 64 draws,
    /// and a tolerance of 1e-6.
    pub fn new(process: PreferenceProcess) -> Self {
        Self {
            process,
            landmarks: 250,
            context_landmarks: 32,
            tuning_pairs: 1500,
            draws: 64,
            tolerance: 1e-6,
        }
    }

    fn check(&self) -> Result<()> {
        let counts = [("n_landmarks", self.landmarks), ("n_context_landmarks", self.context_landmarks)];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(Error::parameter(*name, 0, "at least 1"));
        }
        if !(self.tolerance > 0.0 && self.tolerance < 1.0) {
            return Err(Error::parameter("tol", self.tolerance, "between 0 and 1"));
        }
        if self.process.inference != Inference::Laplace {
            let allowed = "landmarks need Laplace's approximation: fit without landmarks, which is possible \
                           for up to some thousand compared pairs";
            return Err(Error::parameter("n_landmarks", self.landmarks, allowed));
        }
        Ok(())
    }

    /// Fits duels between the rows of `items`. Cost with q landmarks, c of contexts and n compared pairs:
    /// O(items q²); and c (8 items q² + 8 n q) for each product with the Hessian, some hundred products, and
    /// some ten for each draw; and the tuning. A draw needs c q² numbers.
    ///
    /// # Errors
    /// As [`PreferenceProcess::fit`]; [`Error::Parameter`] for 0 landmarks, and if draws do not fit the
    /// memory.
    pub fn fit(&self, items: &Table, duels: &Duels) -> Result<LandmarkFit> {
        self.fit_between(items.into(), duels)
    }

    /// Fits duels between bags of the rows of `items`, which are the candidates for landmarks. The function
    /// predicts pairs of items and pairs of bags. The cost is that of [`fit`](Self::fit) for as many items as
    /// there are bags, plus O(items q² + memberships q) once.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_bags(&self, items: &Table, bags: &ItemBags, duels: &Duels) -> Result<LandmarkFit> {
        self.fit_between((items, bags).into(), duels)
    }

    fn fit_between(&self, competitors: Competitors<'_>, duels: &Duels) -> Result<LandmarkFit> {
        let process = &self.process;
        let stop = &process.stop;
        let data = ObservedDuels::between(competitors, duels);
        process.check(&data)?;
        self.check()?;
        let Competitors { items, bags } = competitors;
        let tuned = if process.tune { Some(self.tune(competitors, duels)?) } else { None };
        let log_marginal_likelihood = tuned.as_ref().map(|tuned| tuned.log_marginal_likelihood);
        let (prior, margin, mut warnings) = match tuned {
            Some(tuned) => (tuned.prior, tuned.margin, tuned.warnings),
            None => (process.prior.clone(), process.margin, Vec::new()),
        };
        let (contexts, compared) = (duels.contexts().map(|c| &c.table), ComparedPairs::of_duels(duels));
        let max_landmarks = [self.landmarks, self.context_landmarks];
        let (tables, weights) = ((competitors, contexts), total_weights(competitors, duels, &compared));
        let choice =
            PreferenceFeatureMaps::choose(&prior, tables, max_landmarks, &weights, process.seed, stop)?;
        let (feature_maps, features, interpolation, [unknown, unknown_contexts]) = choice;
        warnings.extend(context_warning(&interpolation.contexts, unknown_contexts));
        let (q, c) = (features.items.cols(), features.contexts.cols());
        let numbers_per_draw =
            c.saturating_mul(q.saturating_mul(q) + features.utilities.cols() + features.item_effects.rows());
        // Conjugate gradients need eight more such vectors.
        crate::memory::check_allocation("draws", self.draws + 8, numbers_per_draw)?;

        let skew_model = SkewModel::new(&features, &compared);
        let mode = skew_model.mode(&data.likelihood(margin), self.tolerance, stop)?;
        let mut random = Random::seed_from_u64(process.seed);
        let draws = (0..self.draws).map(|_| skew_model.posterior_draw(&mode.curvature, &mut random, stop));
        let draws = draws.collect::<Result<Vec<_>>>()?;
        let mut card = vec![
            CardEntry::new("model", "preferential Gaussian process (landmarks)"),
            CardEntry::new("duels", duels.count()),
            CardEntry::new("landmarks", feature_maps.items.landmarks.rows()),
            CardEntry::measured("share of variance that landmarks do not know", unknown),
        ];
        card.extend(prior.card_entries(items.columns()));
        if let (Some(context_kernel), Some(contexts)) = (&prior.contexts, &feature_maps.contexts) {
            card.push(CardEntry::measured("shared by all contexts", context_kernel.shared));
            card.push(CardEntry::new("landmarks of contexts", contexts.landmarks.rows()));
            card.push(CardEntry::measured("share of contexts that these do not know", unknown_contexts));
        }
        card.extend(margin.map(|m| CardEntry::measured("margin of ties", m)));
        card.push(CardEntry::measured("log likelihood", mode.log_likelihood));
        card.push(CardEntry::new("products with the Hessian", mode.products));
        if prior.utility_variance > 0.0 || prior.extra_utility_kernel.is_some() {
            card.push(CardEntry::new(VANISHING_REFERENCE_FACT, "those of the utility"));
        }
        card.extend(warnings.iter().map(|w| CardEntry::new("warning", w)));
        let model = feature_maps.expansion(
            &prior,
            margin,
            competitors,
            &interpolation,
            &compared,
            &mode.alpha,
            card,
        )?;
        let (items, bags, contexts) = (items.clone(), bags.cloned(), contexts.cloned());
        let training = TrainingData { items, bags, contexts, compared, curvature: mode.curvature };
        let function = LandmarkFunction { prior, margin, feature_maps, training, mean: mode.weights, draws };
        Ok(LandmarkFit {
            function,
            model,
            unknown,
            unknown_contexts,
            log_likelihood: mode.log_likelihood,
            log_marginal_likelihood,
            steps: [mode.steps, mode.products],
            warnings,
        })
    }

    /// Tunes the hyper-parameters on a sample of the duels, from the optimum for a third of it.
    fn tune(&self, competitors: Competitors<'_>, duels: &Duels) -> Result<PreferenceFit> {
        let sample = |pairs: usize| duels.sample(pairs, self.process.seed);
        let subset_pairs = self.tuning_pairs / 3;
        let first_sample = (subset_pairs >= MIN_TUNING_PAIRS && subset_pairs < duels.pairs().len())
            .then(|| sample(subset_pairs));
        self.process.fit_after(first_sample.as_ref(), competitors, &sample(self.tuning_pairs.max(1)))
    }
}

/// Returns the total weight of the duels of each item, of which a bag's members have shares, and of each
/// context.
fn total_weights(competitors: Competitors<'_>, duels: &Duels, compared: &ComparedPairs) -> [Vec<f64>; 2] {
    let mut of_competitors = vec![0.0; competitors.count()];
    add_to_both(&mut of_competitors, &compared.pairs, duels.weight());
    let mut of_contexts = vec![0.0; duels.contexts().map_or(1, |c| c.table.rows())];
    compared.contexts.iter().zip(duels.weight()).for_each(|(&c, w)| of_contexts[c] += w);
    [competitors.sums_of_items(of_competitors), of_contexts]
}

/// Warns if the landmarks of contexts leave much of their variance unexplained. `weights` are the
/// interpolation weights, contexts × landmarks.
fn context_warning(weights: &Matrix, unexplained: f64) -> Option<String> {
    (unexplained > MAX_UNEXPLAINED_CONTEXTS).then(|| {
        format!(
            "{} landmarks of {} contexts leave {:.0} % of their variance unexplained: take more",
            weights.cols(),
            weights.rows(),
            100.0 * unexplained
        )
    })
}
