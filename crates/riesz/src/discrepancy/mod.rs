//! Discrepancy between two samples (MMD²) and dependence (HSIC), tested and attributed to features.
//!
//! [`TwoSampleTest`] compares the rows of two tables by their maximum mean discrepancy. [`IndependenceTest`]
//! tests by the Hilbert–Schmidt independence criterion whether the rows of one table depend on those of
//! another. Both statistics are sums of a kernel over pairs of rows, and with an absent feature's factor
//! replaced by 1 they are games, whose Shapley values are the exact contributions of features (Mohammadi,
//! Chau and Muandet 2025, §6). Permutations give p-values for the statistic and for every feature.
//! [`FactorKind`] chooses the factors: by default orthogonal ones, with which no feature hides another.
//!
//! ```
//! use riesz::{Table, TwoSampleTest};
//!
//! let row = |i: u32| [f64::from(i * 7 % 11), f64::from(i * 5 % 13)];
//! let x: Vec<[f64; 2]> = (0..60).map(row).collect();
//! let z: Vec<[f64; 2]> = (60..110).map(row).map(|[a, b]| [a, b + 5.0]).collect();
//! let result = TwoSampleTest::default().run(&Table::from_rows(&x)?, &Table::from_rows(&z)?)?;
//! assert!(result.pvalue.is_some_and(|p| p < 0.01));
//! let attributions = result.attributions.unwrap();
//! let values = &attributions.explanation.values;
//! assert!((values[0] + values[1] - result.statistic).abs() < 1e-12);
//! let significance = attributions.significance.unwrap();
//! assert!(significance.adjusted[0] > 0.05 && significance.adjusted[1] < 0.01);
//! # Ok::<(), riesz::Error>(())
//! ```

mod conditional;
pub mod feature_ranking;
mod hsic;
mod kernels;
mod mmd;
mod null;
mod orthogonal;
mod pair_sums;
mod points;
mod witness;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

pub use conditional::residuals;
pub use kernels::{FactorKind, default_kernel, lengthscale_grid};
pub use mmd::MmdEstimator;
pub use witness::{Witness, witness};

use crate::attribution::rule::InclusionMeasure;
use crate::attribution::sets::index_of;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation, Provenance};
use crate::index::ValueIndex;
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::model_card::CardEntry;
use crate::table::{ColumnKind, Players, Table};
use hsic::{CentredKernel, WildBootstrapNull};
use kernels::without_constant_terms;
use mmd::{SampleLabels, reference, row_arrangement};
use orthogonal::FeatureChannels;
use pair_sums::{ChannelSums, NullDraws, PARTS, PairMask, PairWeights, SamplePairs};

/// The attribution of a test's statistic to features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttributionRequest {
    /// Nothing: the statistic alone. The only choice for kernels that tie players together.
    Nothing,
    /// Their Shapley values.
    Values,
    /// Their Shapley values, and how these are distributed if there is nothing to find.
    #[default]
    Significance,
}

/// Settings that both tests share.
#[derive(Debug, Clone)]
pub struct TestSettings {
    /// The factors of the kernel that are summed up.
    pub factors: FactorKind,
    /// The attribution to features.
    pub attribute: AttributionRequest,
    /// The players of the attribution, by default one per column.
    pub groups: Option<Players>,
    /// Whether interactions of pairs of features are computed, in O(n² features²).
    pub interactions: bool,
    /// Draws from the null distribution, up to 100,000; none gives no p-values. A p-value is at least
    /// 1/(draws + 1), and the draws take memory in proportion to the rows.
    pub permutations: usize,
    /// Their seed.
    pub seed: u64,
    /// Set by another thread to give up.
    pub stop: Arc<AtomicBool>,
    /// Read by another thread to see how far the work is.
    pub progress: Arc<Progress>,
}

impl Default for TestSettings {
    fn default() -> Self {
        Self {
            factors: FactorKind::default(),
            attribute: AttributionRequest::default(),
            groups: None,
            interactions: false,
            permutations: 1000,
            seed: 0,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }
}

/// Do two samples come from the same distribution?
#[derive(Debug, Clone, Default)]
pub struct TwoSampleTest {
    /// The kernels between rows: by default [`FactorKind::default_kernel`] of the pooled sample. Several make
    /// an aggregated test: the largest of their studentised statistics counts, and its p-value allows for the
    /// choice.
    pub kernels: Vec<Kernel>,
    /// The estimator of MMD².
    pub estimator: MmdEstimator,
    /// The other settings.
    pub settings: TestSettings,
}

/// Where the null distribution of HSIC comes from.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Null {
    /// Permutations of the rows of Y: exact if rows are independent of each other.
    #[default]
    Permutation,
    /// A wild bootstrap for rows that are a stationary time series: its process forgets over so many rows.
    /// Valid as the number of rows grows, for the biased estimator (Chwialkowski, Sejdinovic and Gretton
    /// 2014).
    WildBootstrap(f64),
}

/// Do the rows of two tables depend on each other?
#[derive(Debug, Clone, Default)]
pub struct IndependenceTest {
    /// The kernels between rows of X, as for [`TwoSampleTest`].
    pub kernels: Vec<Kernel>,
    /// The kernel between rows of Y, by default [`default_kernel`] of Y.
    pub target_kernel: Option<Kernel>,
    /// Whether the estimator is unbiased (Song and others 2012, equation 5) rather than `tr(KHLH)/(n-1)²`
    /// (Gretton, Bousquet, Smola and Schölkopf 2005).
    pub unbiased: bool,
    /// Where the null distribution comes from.
    pub null: Null,
    /// The rest.
    pub settings: TestSettings,
}

/// The result of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// MMD² or HSIC; with several kernels that of the one whose studentised statistic is largest.
    pub statistic: f64,
    /// Its p-value, from at least one draw.
    pub pvalue: Option<f64>,
    /// The statistic in every draw from the null distribution.
    pub null: Vec<f64>,
    /// Statistic and p-value, adjusted for their number, of each kernel.
    pub by_kernel: Vec<PerKernelResult>,
    /// The kernel, as a number in `by_kernel`, that statistic and attributions belong to.
    pub chosen: usize,
    /// The contributions of features.
    pub attributions: Option<FeatureAttributions>,
}

/// The result of a test with one kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PerKernelResult {
    /// The kernel.
    pub kernel: Kernel,
    /// The statistic.
    pub statistic: f64,
    /// Its p-value, adjusted for the number of kernels.
    pub pvalue: Option<f64>,
}

/// The contributions of features to a statistic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeatureAttributions {
    /// Shapley values that add up to the statistic: one row, whose data are the sample's means and most
    /// frequent levels.
    pub explanation: Explanation,
    /// The comparison of the contributions with the null distribution.
    pub significance: Option<Significance>,
    /// The interactions of pairs of features.
    pub interactions: Option<Interactions>,
    /// The statistic of each feature alone, with orthogonal factors.
    #[serde(rename = "alone")]
    pub marginal: Option<MarginalStatistic>,
    /// The part that only three or more features show together, in which no single feature has a share; with
    /// orthogonal factors of three features or more.
    #[serde(rename = "beyond")]
    pub higher_order: Option<HigherOrderInteraction>,
}

/// The statistic of each feature alone, whatever the others do: MMD² or HSIC of its own kernel factor, scaled
/// to a mean of 1 on the diagonal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarginalStatistic {
    /// For each player.
    pub values: Vec<f64>,
    /// Their p-values, from draws.
    pub pvalues: Option<Vec<f64>>,
}

/// The statistic that only three or more features show together: that of all orthogonal factors multiplied,
/// less that of single features and of pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HigherOrderInteraction {
    /// The statistic.
    pub statistic: f64,
    /// Its p-value, from draws.
    pub pvalue: Option<f64>,
}

impl FeatureAttributions {
    /// The players, from the largest to the smallest value.
    pub fn order(&self) -> Vec<usize> {
        let values = &self.explanation.values;
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
        order
    }
}

/// Shapley interaction values (players × players): off the diagonal half of the Shapley interaction index of
/// the pair (Grabisch and Roubens 1999), on it what is left of the player's Shapley value. Rows add up to
/// Shapley values, and all entries to the statistic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interactions {
    /// The values.
    pub values: Matrix,
    /// A bound on the error of each, quadrature and rounding.
    pub bound: f64,
}

/// Shapley values beside their distribution under the test's null hypothesis.
///
/// The null hypothesis is that of the whole test: the samples come from one distribution, or X and Y are
/// independent. `adjusted` controls the chance of naming any feature if it holds. Where it does not, a
/// feature that is itself distributed alike can have a value other than 0, because Shapley values share out
/// what features do together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Significance {
    /// For each feature, the probability of a value at least as large. One-sided: with product factors a
    /// value below those of the null distribution is no evidence about the feature, because the others hide
    /// it.
    pub pvalues: Vec<f64>,
    /// These p-values, adjusted for the number of features by the step-down maximum of studentised values
    /// (Westfall and Young 1993).
    pub adjusted: Vec<f64>,
    /// For each feature, the central 95 % of its values.
    pub bands: Vec<[f64; 2]>,
}

impl TwoSampleTest {
    /// Compares the rows of `x` and of `z`, whose columns are matched by name. Cost O((n + m)² d), and for
    /// each draw O((n + m)²) for each feature; with blocks of q rows O((n + m) q) in place of the squares.
    /// Memory does not grow with the number of pairs.
    ///
    /// Exact level: under the null hypothesis the p-value is at most α with probability at most α.
    ///
    /// # Errors
    /// [`Error::TooFew`], [`Error::UnknownColumn`], [`Error::WrongKind`]; [`Error::NotProduct`] for kernels
    /// that tie features together, unless nothing is attributed; [`Error::Interrupted`].
    pub fn run(&self, x: &Table, z: &Table) -> Result<TestResult> {
        self.settings.check()?;
        let pooled = pooled(x, z)?;
        let (n, m) = (x.rows(), z.rows());
        let needed = match self.estimator {
            MmdEstimator::Block(q) if q < 2 => {
                return Err(Error::parameter("block size", q, "at least 2 rows"));
            }
            MmdEstimator::Block(q) => q,
            MmdEstimator::Unbiased | MmdEstimator::Biased => 2,
        };
        for (sample_name, rows) in [("the first sample", n), ("the second sample", m)] {
            if rows < needed {
                return Err(Error::TooFew { subject: sample_name.into(), needed, unit: "rows are" });
            }
        }
        let kernels = self.settings.kernels(&self.kernels, &pooled)?;
        let sample = pooled.select_rows(&row_arrangement(self.estimator, n, m));
        let labels = SampleLabels::new(self.estimator, n, m);
        let relabelled = labels.permutations(sample.rows(), self.settings.permutations, self.settings.seed);
        let estimator = match self.estimator {
            MmdEstimator::Unbiased => "unbiased".into(),
            MmdEstimator::Biased => "biased".into(),
            MmdEstimator::Block(q) => format!("blocks of {q} rows"),
        };
        let facts = vec![
            CardEntry::new("statistic", "MMD² between two samples"),
            CardEntry::new("estimator", estimator),
            CardEntry::new("rows of the first sample", n),
            CardEntry::new("rows of the second sample", m),
        ];
        self.settings.run_test(TestSpec {
            sample: &sample,
            reference: &reference(self.estimator, sample.rows()),
            kernels,
            mask: labels.mask(),
            weights: &labels,
            draws: (self.settings.permutations > 0).then_some(&relabelled),
            game: "mmd",
            statistic: "MMD²",
            meaning_of_absence: "samples are compared without it",
            facts,
        })
    }
}

impl IndependenceTest {
    /// Asks whether row i of `x` depends on row i of `y`. Cost O(n² d), and for each draw O(n²) per feature.
    /// Memory does not grow with the number of pairs, but for 8 n² bytes up to n = 4096 rows.
    ///
    /// # Errors
    /// [`Error::Shape`] for tables of unequal length, [`Error::TooFew`], [`Error::Target`] for a `y` that
    /// does not vary; [`Error::Parameter`];
    /// [`Error::NotProduct`] for kernels that tie features together, unless nothing is attributed;
    /// [`Error::Interrupted`].
    pub fn run(&self, x: &Table, y: &Table) -> Result<TestResult> {
        self.settings.check()?;
        let n = x.rows();
        same_rows(x, y)?;
        let needed = if self.unbiased { 4 } else { 2 };
        if n < needed {
            return Err(Error::TooFew { subject: "the sample".into(), needed, unit: "rows are" });
        }
        is_nonconstant(y, self.unbiased)?;
        let kernels = self.settings.kernels(&self.kernels, x)?;
        let target = match &self.target_kernel {
            Some(kernel) => {
                kernel.validate(y.width())?;
                kernel.clone()
            }
            None => default_kernel(y)?,
        };
        let TestSettings { permutations, seed, .. } = self.settings;
        let summed = without_constant_terms(&target, y);
        let centred = CentredKernel::new(y, &summed, self.unbiased, permutations > 0);
        let draws: Option<Box<dyn NullDraws + '_>> = match self.null {
            Null::WildBootstrap(forgets) if !(forgets.is_finite() && forgets > 0.0) => {
                let allowed = "a positive number of rows over which dependence fades";
                return Err(Error::parameter("wild bootstrap", forgets, allowed));
            }
            Null::WildBootstrap(_) if self.unbiased => {
                let allowed = "with the wild bootstrap the estimator is the biased one";
                return Err(Error::parameter("estimator", "unbiased", allowed));
            }
            _ if permutations == 0 => None,
            Null::Permutation => Some(Box::new(centred.permuted(permutations, seed))),
            Null::WildBootstrap(forgets) => {
                Some(Box::new(WildBootstrapNull::new(&centred, permutations, forgets, seed)))
            }
        };
        let facts = vec![
            CardEntry::new("statistic", "HSIC of two sets of columns"),
            CardEntry::new(
                "estimator",
                if self.unbiased { "unbiased" } else { "biased, (n - 1)⁻² tr(KHLH)" },
            ),
            CardEntry::new("rows", n),
            CardEntry::new("kernel of the target", target.formula()),
        ];
        self.settings.run_test(TestSpec {
            sample: x,
            reference: &(0..n).collect::<Vec<_>>(),
            kernels,
            mask: centred.mask(),
            weights: &centred,
            draws: draws.as_deref(),
            game: "hsic",
            statistic: "HSIC",
            meaning_of_absence: "dependence is measured without it",
            facts,
        })
    }
}

/// More draws than anybody needs are a slip, and could exhaust memory.
const MOST_DRAWS: usize = 100_000;

impl TestSettings {
    fn check(&self) -> Result<()> {
        if self.permutations <= MOST_DRAWS {
            return Ok(());
        }
        Err(Error::parameter("permutations", self.permutations, format!("at most {MOST_DRAWS}")))
    }

    fn kernels(&self, kernels: &[Kernel], sample: &Table) -> Result<Vec<Kernel>> {
        if kernels.is_empty() {
            return Ok(vec![self.factors.default_kernel(sample, self.groups.as_ref())?]);
        }
        kernels.iter().try_for_each(|kernel| kernel.validate(sample.width()))?;
        Ok(kernels.to_vec())
    }

    fn players(&self, sample: &Table) -> Players {
        self.groups.clone().unwrap_or_else(|| Players::singletons(sample.columns()))
    }

    fn run_test(&self, question: TestSpec<'_>) -> Result<TestResult> {
        let TestSpec {
            sample,
            mask,
            weights,
            draws,
            game,
            statistic: name,
            meaning_of_absence: without,
            mut facts,
            ..
        } = question;
        let groups = self.players(sample);
        let attributed = self.attribute != AttributionRequest::Nothing;
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        let pairs = |kernel| -> Result<SamplePairs<'_>> {
            let players = (attributed || self.factors == FactorKind::Orthogonal).then_some(&groups);
            match (SamplePairs::new(sample, kernel, players, InclusionMeasure::default(), mask), self.factors)
            {
                (Ok(pairs), FactorKind::Orthogonal) => pairs.orthogonal(question.reference, control),
                // A kernel that ties players together is one factor.
                (Err(Error::NotProduct { .. }), _) if !attributed => {
                    SamplePairs::new(sample, kernel, None, InclusionMeasure::default(), mask)
                }
                (pairs, _) => pairs,
            }
        };
        let kernels: Vec<Kernel> =
            question.kernels.iter().map(|k| without_constant_terms(k, sample)).collect();
        let pairs_by_kernel = kernels.iter().map(pairs).collect::<Result<Vec<_>>>()?;
        let interactions = self.interactions && attributed;
        self.progress.start((pairs_by_kernel.len() + usize::from(interactions)) * PARTS);
        let sum = |pairs: &SamplePairs<'_>| {
            // Draws of the statistic alone where nothing more is asked of them.
            let drawn = if self.attribute == AttributionRequest::Significance { pairs.channels() } else { 1 };
            pairs.sum(weights, draws, drawn, control)
        };
        let sums = pairs_by_kernel.iter().map(sum).collect::<Result<Vec<_>>>()?;
        let scores: Vec<Vec<f64>> = sums.iter().map(|s| s.studentised(0)).collect();
        let silent = |scores: &Vec<f64>| scores.len() > MIN_DRAWS && scores.iter().all(|s| *s == 0.0);
        if scores.iter().all(silent) && sample.rows() > 3 && outlier_rows(sample) > 1 {
            let allowed = "one whose values differ by more than rounding between these rows; choose shorter \
                           length scales, or standardise the columns";
            return Err(Error::parameter("kernel", question.kernels[0].formula(), allowed));
        }
        let adjusted = null::step_down_p_values(&scores);
        let chosen =
            (0..sums.len()).rev().max_by(|&a, &b| scores[a][0].total_cmp(&scores[b][0])).unwrap_or(0);
        let tested = self.permutations > 0;
        let interactions =
            interactions.then(|| pairs_by_kernel[chosen].interactions(weights, control)).transpose()?;
        let by_kernel: Vec<PerKernelResult> = question
            .kernels
            .iter()
            .zip(&sums)
            .zip(&adjusted)
            .map(|((kernel, sums), &p)| PerKernelResult {
                kernel: kernel.clone(),
                statistic: sums.observed[0],
                pvalue: tested.then_some(p),
            })
            .collect();
        let chosen_sums = &sums[chosen];
        let null = chosen_sums.draws(0);
        // One kernel needs no studentising, and several are as significant as the most significant.
        let pvalue = if sums.len() == 1 {
            null::pvalue(chosen_sums.observed[0], &null, chosen_sums.tie_tolerance(0))
        } else {
            adjusted[chosen]
        };
        facts.push(CardEntry::new("kernel", by_kernel[chosen].kernel.formula()));
        facts.push(CardEntry::new(
            "factors",
            match (self.factors, pairs_by_kernel[chosen].extra_channels()) {
                (FactorKind::Orthogonal, Some(_)) => "orthogonal, of features and of pairs of features",
                (FactorKind::Orthogonal, None) => "of the kernel, which has no product form",
                (FactorKind::Product, _) => "of the kernel",
            },
        ));
        facts.push(CardEntry::new("permutations", self.permutations));
        facts.push(CardEntry::new("seed", self.seed));
        let attributions = attributed.then(|| {
            let absent = format!(
                "an absent feature's {} is replaced by 1: {without}",
                match self.factors {
                    FactorKind::Orthogonal => "orthogonal kernel factor",
                    FactorKind::Product => "kernel factor",
                }
            );
            let run = vec![CardEntry::new("riesz", env!("CARGO_PKG_VERSION"))];
            let provenance = Provenance { game: game.into(), absent, model: facts, run };
            let channels = pairs_by_kernel[chosen].extra_channels();
            let has_significance = tested && self.attribute == AttributionRequest::Significance;
            let explanation = Explanation {
                index: ValueIndex::Shapley,
                players: groups.players().to_vec(),
                subsets: None,
                output_names: vec![name.into()],
                values: chosen_sums.observed[1..=groups.players().len()].to_vec(),
                base_values: vec![0.0],
                predictions: vec![chosen_sums.observed[0]],
                data: sample.mean_row(),
                row_numbers: vec![0],
                exactness: Exactness::Exact { bound: vec![chosen_sums.bound] },
                uncertainty: None,
                duels: None,
                provenance,
            };
            attributions(explanation, (&sums, chosen), channels, has_significance, interactions)
        });
        let statistic = chosen_sums.observed[0];
        let pvalue = tested.then_some(pvalue);
        Ok(TestResult { statistic, pvalue, null, by_kernel, chosen, attributions })
    }
}

/// The sums, weights and names of a test.
struct TestSpec<'q> {
    sample: &'q Table,
    /// The rows whose distribution orthogonal factors are centred by: no draw may change them.
    reference: &'q [usize],
    kernels: Vec<Kernel>,
    mask: PairMask,
    weights: &'q dyn PairWeights,
    draws: Option<&'q dyn NullDraws>,
    game: &'q str,
    statistic: &'q str,
    meaning_of_absence: &'q str,
    facts: Vec<CardEntry>,
}

/// Distributes each pair's index to its two players; see [`Interactions`].
fn split_pair_indices(values: &[f64], indices: &[f64]) -> Matrix {
    let p = values.len();
    let mut out = Matrix::zeros(p, p);
    for j in 0..p {
        out[(j, j)] += values[j];
        for l in j + 1..p {
            let half_index = indices[index_of(p, j, l)] / 2.0;
            (out[(j, l)], out[(l, j)]) = (half_index, half_index);
            out[(j, j)] -= half_index;
            out[(l, l)] -= half_index;
        }
    }
    out
}

/// A channel's p-value and its studentised scores. Where a kernel was chosen, the observed value is compared
/// with the largest score that a draw has with any kernel.
fn scores(sums: &[ChannelSums], chosen: usize, channel: usize) -> (f64, Vec<f64>) {
    let mut scores = sums[chosen].studentised(channel);
    for other in sums {
        let draws = other.studentised(channel);
        scores[1..].iter_mut().zip(&draws[1..]).for_each(|(s, d)| *s = s.max(*d));
    }
    (null::pvalue(scores[0], &scores[1..], 0.0), scores)
}

/// The statistics of features by the chosen kernel, around their explanation: significance where draws tell it,
/// pair indices where they were computed with a bound on their errors, and with orthogonal factors, whose
/// channels these are, the marginal and higher-order statistics.
fn attributions(
    explanation: Explanation,
    (sums, chosen): (&[ChannelSums], usize),
    channels: Option<FeatureChannels>,
    has_significance: bool,
    pair_indices: Option<(Vec<f64>, f64)>,
) -> FeatureAttributions {
    let (observed, players) = (&sums[chosen].observed, explanation.players.len());
    let pvalue = |channel| scores(sums, chosen, channel).0;
    let marginal = channels.map(|channels| MarginalStatistic {
        values: (0..players).map(|j| observed[channels.marginal(j)]).collect(),
        pvalues: has_significance.then(|| (0..players).map(|j| pvalue(channels.marginal(j))).collect()),
    });
    let higher_order = channels.filter(|_| players > 2).and_then(|channels| {
        let (statistic, channel) = (observed[channels.higher_order()], channels.higher_order());
        let pvalue = || has_significance.then(|| pvalue(channel));
        statistic.is_finite().then(|| HigherOrderInteraction { statistic, pvalue: pvalue() })
    });
    let interactions = pair_indices.map(|(indices, bound)| Interactions {
        values: split_pair_indices(&explanation.values, &indices),
        bound: bound + sums[chosen].bound,
    });
    let significance = has_significance.then(|| significance(sums, chosen, players));
    FeatureAttributions { explanation, significance, interactions, marginal, higher_order }
}

/// Features against the null distribution.
fn significance(sums: &[ChannelSums], chosen: usize, players: usize) -> Significance {
    let (pvalues, scores): (Vec<f64>, Vec<_>) = (1..=players).map(|j| scores(sums, chosen, j)).unzip();
    let bands = (1..=players).map(|j| null::central_interval(&sums[chosen].draws(j), 0.95)).collect();
    Significance { pvalues, adjusted: null::step_down_p_values(&scores), bands }
}

/// Draws that cannot all be the same by chance.
const MIN_DRAWS: usize = 19;

/// The number of rows that differ from the others, which are equal; 2 stands for more. Where it is 1, kernels
/// are sums of a function of either row, which unbiased estimators cancel.
fn outlier_rows(sample: &Table) -> usize {
    let unlike = |row: usize| {
        let differs = |&i: &usize| (0..sample.width()).any(|j| sample.column(j)[i] != sample.column(j)[row]);
        (0..sample.rows()).filter(differs).take(2).count()
    };
    (0..sample.rows().min(2)).map(unlike).min().unwrap_or(0)
}

/// The rows of `x`, then those of `z` with columns matched by name. A level that only one of them has is a
/// level of both.
///
/// # Errors
/// As [`Table::align_to`].
pub fn pooled(x: &Table, z: &Table) -> Result<Table> {
    let mut columns = x.columns().to_vec();
    for column in &mut columns {
        let ColumnKind::Categorical { levels } = &mut column.kind else { continue };
        let other = &z.columns()[z.index_of(&column.name)?];
        if let ColumnKind::Categorical { levels: more } = &other.kind {
            let new: Vec<String> = more.iter().filter(|l| !levels.contains(l)).cloned().collect();
            levels.extend(new);
        }
    }
    x.align_to(&columns)?.stack(&z.align_to(&columns)?)
}

fn same_rows(x: &Table, y: &Table) -> Result<()> {
    if x.rows() == y.rows() {
        return Ok(());
    }
    let (expected, actual) = (x.rows(), y.rows());
    let why = "one for each row of the features".into();
    Err(Error::Shape { subject: "the target".into(), unit: "rows", expected, actual, why })
}

fn is_nonconstant(y: &Table, unbiased: bool) -> Result<()> {
    let problem = match outlier_rows(y) {
        0 => "is the same in all rows, so nothing can depend on it",
        1 if unbiased => {
            "is the same in all rows but one, where unbiased estimates are always 0: take the biased \
             estimator"
        }
        _ => return Ok(()),
    };
    let name = y.columns().iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    Err(Error::Target { name, problem: problem.into() })
}

#[cfg(test)]
mod tests;
