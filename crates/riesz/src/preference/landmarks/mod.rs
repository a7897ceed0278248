//! Preferences of many duels: the [nested prior](PairKernel) with kernels that are known through some items
//! and contexts, the landmarks.
//!
//! With [features](nystrom) of items by Nyström's approximation, a skew function that is bilinear in them and
//! linear in their difference has exactly the nested prior of the approximate kernel: q landmarks make q (q +
//! 1)/2 weights, far more than q pairs of items would. Features of contexts multiply those: each has such a
//! function of its own. Landmarks that are all items, and all contexts, approximate nothing.

mod expansion;
mod function;
mod known;
mod nystrom;

pub use function::{LandmarkFunction, LandmarkParameters};

use super::bilinear_skew::{ComparedPairs, SkewModel};
use super::duels::Duels;
use super::gp_preference::{Inference, PreferenceProcess};
use super::observed_duels::ObservedDuels;
use crate::error::{Error, Result};
use crate::kernel_model::{KernelExpansion, VANISHING_REFERENCE_FACT};
use crate::model_card::CardEntry;
use crate::random::{Random, SeedableRng};
use crate::table::Table;

use function::TrainingData;
use known::PreferenceFeatureMaps;

/// A [`PreferenceProcess`] for many duels.
///
/// ```
/// use riesz::preference::{Duels, LandmarkProcess, PreferenceProcess, wide_rows};
/// use riesz::{Kernel, Table};
///
/// let worth: Vec<[f64; 1]> = (0..40).map(|i| [f64::from(i) / 40.0]).collect();
/// let items = Table::from_rows(&worth)?;
/// let (winners, losers): (Vec<usize>, Vec<usize>) = (0..39).map(|i| (i + 1, i)).unzip();
/// let duels = Duels::new(40, &winners, &losers, &[1.0; 39], None)?;
/// let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.5]));
/// process.tune = false;
/// let exact = process.fit(&items, &duels)?;
/// let fit = LandmarkProcess { landmarks: 10, ..LandmarkProcess::new(process) }.fit(&items, &duels)?;
/// // Ten landmarks know forty items on a line as well as all of these do.
/// let (log_odds, row) = (fit.function.log_odds(&items, &[(39, 0)], None)?, wide_rows(&items, &[(39, 0)])?);
/// assert!((log_odds[0] - exact.model.predict(&row)?[(0, 0)]).abs() < 1e-3);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LandmarkProcess {
    /// The prior, whether it is tuned, and the seed of all that is random.
    pub process: PreferenceProcess,
    /// The maximum number of landmarks among the items. With as many as there are items (more do no harm) the
    /// prior is exact: this is the exact fit for many duels, whose products take items³ operations for any
    /// number of compared pairs, without a matrix over these.
    pub landmarks: usize,
    /// The maximum number of landmarks among the different contexts.
    pub context_landmarks: usize,
    /// Number of compared pairs, drawn at random, on which hyper-parameters are tuned: Laplace's evidence
    /// takes the cube of this number.
    pub tuning_pairs: usize,
    /// Draws from the posterior, from which standard deviations are estimated; 0 for none. The standard error
    /// of one is `1/√(2 draws)` of it: 9 % for 64.
    pub draws: usize,
    /// Newton's method ends where the slope is this share of the one that it starts with. In a numpy
    /// prototype with 250 landmarks and 40,000 duels log odds were off by some 1e-4 where 1e-6 was left, and
    /// by 1e-2 after half as many products.
    pub tolerance: f64,
}

/// A fitted model of many duels.
#[derive(Debug, Clone)]
pub struct LandmarkFit {
    /// The log odds that the left item wins: what predicts.
    pub function: LandmarkFunction,
    /// This function over [wide rows](super::wide_columns), as an expansion over q (q - 1) pairs of
    /// landmarks, with 2q further points for the utility, for each landmark of contexts; and some for home
    /// and ability. Its probabilities are the logistic function of the mean, without ties. Or the reason why
    /// there is none: a utility takes a kernel that vanishes far from all items, as Gaussian and Matérn
    /// kernels do; further utilities take their own columns; and there are at most 2²⁶ numbers.
    pub model: std::result::Result<KernelExpansion, &'static str>,
    /// The share of the items' variance that the landmarks do not explain.
    pub unknown: f64,
    /// The share of the different contexts' variance that the landmarks do not explain; 0 without contexts.
    pub unknown_contexts: f64,
    /// The log likelihood of the duels at the mode.
    pub log_likelihood: f64,
    /// Laplace's approximation of the log marginal likelihood of the duels that were used for tuning.
    pub log_marginal_likelihood: Option<f64>,
    /// Newton steps, and products with the Hessian.
    pub steps: [usize; 2],
    /// Warnings of tuning, and of contexts that are far from their landmarks.
    pub warnings: Vec<String>,
}

/// Pairs that met, fewer than which do not say from where to tune.
const MIN_TUNING_PAIRS: usize = 200;

/// The share of contexts' variance that is too much not to know.
const MAX_UNEXPLAINED_CONTEXTS: f64 = 0.1;

impl LandmarkProcess {
    /// With 250 landmarks of items and 32 of contexts, tuned on 1,500 pairs, 64 draws, to a tolerance of
    /// 1e-6.
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
        let counts = [("landmarks", self.landmarks), ("context_landmarks", self.context_landmarks)];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(Error::parameter(*name, 0, "at least 1"));
        }
        if !(self.tolerance > 0.0 && self.tolerance < 1.0) {
            return Err(Error::parameter("tol", self.tolerance, "between 0 and 1"));
        }
        if self.process.inference != Inference::Laplace {
            let allowed = "they know nothing of the bound: fit without landmarks, which takes up to some \
                           thousand pairs that met";
            return Err(Error::parameter("landmarks", self.landmarks, allowed));
        }
        Ok(())
    }

    /// Fits duels among the rows of `items`. Cost with q landmarks, c of contexts and n compared pairs:
    /// O(items q²); c (8 items q² + 8 n q) for each product with the Hessian, of which there are some
    /// hundred, and some ten for each draw; and tuning. A draw takes c q² numbers.
    ///
    /// # Errors
    /// As [`PreferenceProcess::fit`]; [`Error::Parameter`] without landmarks, and if draws do not fit into
    /// memory.
    pub fn fit(&self, items: &Table, duels: &Duels) -> Result<LandmarkFit> {
        let process = &self.process;
        let stop = &process.stop;
        let data = ObservedDuels { items, bags: None, duels };
        process.check(&data)?;
        self.check()?;
        let (mut prior, mut margin) = (process.prior.clone(), process.margin);
        let (mut value, mut warnings) = (None, Vec::new());
        if process.tune {
            let sample = |pairs: usize| duels.sample(pairs, process.seed);
            let subset_pairs = self.tuning_pairs / 3;
            let fewer = (subset_pairs >= MIN_TUNING_PAIRS && subset_pairs < duels.pairs().len())
                .then(|| sample(subset_pairs));
            let tuned = process.fit_after(fewer.as_ref(), items, &sample(self.tuning_pairs.max(1)))?;
            (prior, margin) = (tuned.prior, tuned.margin);
            (value, warnings) = (Some(tuned.log_marginal_likelihood), tuned.warnings);
        }
        let context_data = duels.contexts();
        let compared = ComparedPairs {
            pairs: duels.pairs().to_vec(),
            contexts: context_data.map_or_else(|| vec![0; duels.pairs().len()], |c| c.rows.clone()),
        };
        let mut counts = vec![0.0; items.rows()];
        let mut context_counts = vec![0.0; context_data.map_or(1, |c| c.table.rows())];
        for ((&(l, r), &context), w) in compared.pairs.iter().zip(&compared.contexts).zip(duels.weight()) {
            counts[l] += w;
            counts[r] += w;
            context_counts[context] += w;
        }
        let max_landmarks = [self.landmarks, self.context_landmarks];
        let tables = (items, context_data.map(|c| &c.table));
        let choice = PreferenceFeatureMaps::choose(
            &prior,
            tables,
            max_landmarks,
            [&counts, &context_counts],
            process.seed,
            stop,
        )?;
        let (known, features, interpolated, [unknown, unknown_contexts]) = choice;
        if unknown_contexts > MAX_UNEXPLAINED_CONTEXTS {
            warnings.push(format!(
                "{} landmarks of {} contexts leave {:.0} % of these unknown: take more",
                interpolated.contexts.cols(),
                interpolated.contexts.rows(),
                100.0 * unknown_contexts
            ));
        }
        let (q, c) = (features.items.cols(), features.contexts.cols());
        let numbers_per_draw =
            c.saturating_mul(q.saturating_mul(q) + features.utilities.cols() + features.item_effects.rows());
        // Conjugate gradients need eight more such vectors.
        crate::memory::check_allocation("draws", self.draws + 8, numbers_per_draw)?;

        let problem = SkewModel::new(&features, &compared);
        let mode = problem.mode(&data.likelihood(margin), self.tolerance, stop)?;
        let mut random = Random::seed_from_u64(process.seed);
        let draws = (0..self.draws).map(|_| problem.posterior_draw(&mode.curvature, &mut random, stop));
        let draws = draws.collect::<Result<Vec<_>>>()?;
        let mut card = vec![
            CardEntry::new("model", "preferential Gaussian process (landmarks)"),
            CardEntry::new("duels", duels.count()),
            CardEntry::new("landmarks", known.items.landmarks.rows()),
            CardEntry::measured("share of variance that landmarks do not know", unknown),
            CardEntry::measured("share of a utility", prior.utility_variance),
            CardEntry::measured("share of the generalised part", prior.generalised_variance),
        ];
        let terms = prior.extra_utility_kernel.iter().flat_map(|k| &k.terms);
        card.extend(terms.map(|term| CardEntry::measured("share of a further utility", term.scale)));
        if let (Some(context_kernel), Some(contexts)) = (&prior.contexts, &known.contexts) {
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
        let model = known.expansion(&prior, margin, items, &interpolated, &compared, &mode.alpha, card)?;
        let contexts = context_data.map(|c| c.table.clone());
        let learnt = TrainingData { items: items.clone(), contexts, compared, curvature: mode.curvature };
        let function = LandmarkFunction { prior, margin, known, learnt, mean: mode.weights, draws };
        Ok(LandmarkFit {
            function,
            model,
            unknown,
            unknown_contexts,
            log_likelihood: mode.log_likelihood,
            log_marginal_likelihood: value,
            steps: [mode.steps, mode.products],
            warnings,
        })
    }
}
