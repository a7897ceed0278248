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
use crate::explanation::Fact;
use crate::kernel_model::{KernelExpansion, VANISHING_REFERENCE_FACT};
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
    /// How many items are landmarks, at most. With as many as there are items (more do no harm) the prior is
    /// that of the process itself: the exact fit for many duels, whose products take items³ operations
    /// however many pairs met, and no matrix over these.
    pub landmarks: usize,
    /// How many of the different contexts are, at most.
    pub context_landmarks: usize,
    /// Tuning looks at so many of the pairs that met, drawn at random: Laplace's evidence takes their cube.
    /// From all starts at a third of them, if that is 200 at least, and then from the best of where these
    /// lead at all of them.
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
    /// The same function over [wide rows](super::wide_columns), as an expansion over pairs of landmarks, q
    /// (q - 1), and 2q points more for the utility beside them, for each landmark of contexts; and some for
    /// home and ability. What it says of probabilities is the logistic function of the mean, of ties nothing.
    /// Or why there is none: a utility takes a kernel that vanishes far from all items, as Gaussian and
    /// Matérn kernels do; further utilities take columns of their own; and 2²⁶ numbers are the most.
    pub model: std::result::Result<KernelExpansion, &'static str>,
    /// Of all items' variance, the share that landmarks do not know.
    pub unknown: f64,
    /// Of the different contexts' variance; 0 without contexts.
    pub unknown_contexts: f64,
    /// Of the duels at the mode.
    pub log_likelihood: f64,
    /// Laplace's approximation of the log marginal likelihood of the duels that tuning looked at.
    pub log_marginal_likelihood: Option<f64>,
    /// Newton steps, and products with the Hessian.
    pub steps: [usize; 2],
    /// What to look at: of tuning, and contexts that are far from their landmarks.
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

    /// Fits to duels among the rows of `items`. Cost with q landmarks, c of contexts and n pairs that met:
    /// O(items q²); c (8 items q² + 8 n q) a product with the Hessian, of which there are some hundred, and
    /// some ten for each draw; and tuning. A draw takes c q² numbers.
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
            let few = self.tuning_pairs / 3;
            let fewer = (few >= MIN_TUNING_PAIRS && few < duels.pairs().len()).then(|| sample(few));
            let tuned = process.fit_after(fewer.as_ref(), items, &sample(self.tuning_pairs.max(1)))?;
            (prior, margin) = (tuned.prior, tuned.margin);
            (value, warnings) = (Some(tuned.log_marginal_likelihood), tuned.warnings);
        }
        let around = duels.contexts();
        let met = ComparedPairs {
            pairs: duels.pairs().to_vec(),
            contexts: around.map_or_else(|| vec![0; duels.pairs().len()], |c| c.rows.clone()),
        };
        let mut counts = vec![0.0; items.rows()];
        let mut context_counts = vec![0.0; around.map_or(1, |c| c.table.rows())];
        for ((&(l, r), &context), w) in met.pairs.iter().zip(&met.contexts).zip(duels.weight()) {
            counts[l] += w;
            counts[r] += w;
            context_counts[context] += w;
        }
        let most = [self.landmarks, self.context_landmarks];
        let tables = (items, around.map(|c| &c.table));
        let found = PreferenceFeatureMaps::choose(
            &prior,
            tables,
            most,
            [&counts, &context_counts],
            process.seed,
            stop,
        )?;
        let (known, features, interpolated, [unknown, unknown_contexts]) = found;
        if unknown_contexts > MAX_UNEXPLAINED_CONTEXTS {
            warnings.push(format!(
                "{} landmarks of {} contexts leave {:.0} % of these unknown: take more",
                interpolated.contexts.cols(),
                interpolated.contexts.rows(),
                100.0 * unknown_contexts
            ));
        }
        let (q, c) = (features.items.cols(), features.contexts.cols());
        let each =
            c.saturating_mul(q.saturating_mul(q) + features.utilities.cols() + features.item_effects.rows());
        // Conjugate gradients keep as much besides.
        crate::memory::check_allocation("draws", self.draws + 8, each)?;

        let problem = SkewModel::new(&features, &met);
        let mode = problem.mode(&data.likelihood(margin), self.tolerance, stop)?;
        let mut random = Random::seed_from_u64(process.seed);
        let draws = (0..self.draws).map(|_| problem.posterior_draw(&mode.curve, &mut random, stop));
        let draws = draws.collect::<Result<Vec<_>>>()?;
        let mut card = vec![
            Fact::new("model", "preferential Gaussian process (landmarks)"),
            Fact::new("duels", duels.count()),
            Fact::new("landmarks", known.items.landmarks.rows()),
            Fact::measured("share of variance that landmarks do not know", unknown),
            Fact::measured("share of a utility", prior.utility_variance),
            Fact::measured("share of the generalised part", prior.generalised_variance),
        ];
        let terms = prior.extra_utility_kernel.iter().flat_map(|k| &k.terms);
        card.extend(terms.map(|term| Fact::measured("share of a further utility", term.scale)));
        if let (Some(own), Some(contexts)) = (&prior.contexts, &known.contexts) {
            card.push(Fact::measured("shared by all contexts", own.shared));
            card.push(Fact::new("landmarks of contexts", contexts.landmarks.rows()));
            card.push(Fact::measured("share of contexts that these do not know", unknown_contexts));
        }
        card.extend(margin.map(|m| Fact::measured("margin of ties", m)));
        card.push(Fact::measured("log likelihood", mode.log_likelihood));
        card.push(Fact::new("products with the Hessian", mode.products));
        if prior.utility_variance > 0.0 || prior.extra_utility_kernel.is_some() {
            card.push(Fact::new(VANISHING_REFERENCE_FACT, "those of the utility"));
        }
        card.extend(warnings.iter().map(|w| Fact::new("warning", w)));
        let model = known.expansion(&prior, margin, items, &interpolated, &met, &mode.alpha, card)?;
        let contexts = around.map(|c| c.table.clone());
        let learnt = TrainingData { items: items.clone(), contexts, met, curve: mode.curve };
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
