//! Discrepancy between two samples (MMD²) and dependence of two tables (HSIC), with tests and attributions to
//! features.
//!
//! [`TwoSampleTest`] compares the rows of two tables by their maximum mean discrepancy. [`IndependenceTest`]
//! tests with the Hilbert–Schmidt independence criterion whether the rows of one table depend on those of
//! another. Both statistics are sums of a kernel over pairs of rows. If an absent feature's factor is
//! replaced by 1 they are games, whose Shapley values are the exact contributions of features (Mohammadi,
//! Chau and Muandet 2025, §6). Permutations give p-values for the statistic and for every feature.
//! [`FactorKind`] selects the factors: by default orthogonal ones, with which no feature hides another.
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
pub use kernels::{FactorKind, default_kernel, length_scale_grid};
pub use pair_sums::MmdEstimator;
pub use witness::{Witness, witness};

use crate::attribution::rule::InclusionMeasure;
use crate::attribution::sets::index_of;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result, sized};
use crate::explanation::{Exactness, Explanation, Provenance};
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::model_card::CardEntry;
use crate::table::{ColumnKind, Players, Table};
use hsic::{CenteredKernel, WildBootstrapNull};
use kernels::{kernel_or_default, without_constant_terms};
use mmd::{SampleLabels, reference_rows, row_arrangement};
use orthogonal::FeatureChannels;
use pair_sums::{ChannelSums, NullDraws, PARTS, PairWeights, SamplePairs};

/// The scope of the attribution of a test's statistic to features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttributionRequest {
    /// No attribution, only the statistic: the only choice for kernels that tie players together.
    Nothing,
    /// The Shapley values of features.
    Values,
    /// The Shapley values of features, and their distribution under the null hypothesis.
    #[default]
    Significance,
}

/// Settings that both tests share.
#[derive(Debug, Clone)]
pub struct TestSettings {
    /// The kernel factors from which the statistic is computed.
    pub factors: FactorKind,
    /// The attribution to features.
    pub attribute: AttributionRequest,
    /// The players of the attribution, by default one per column.
    pub groups: Option<Players>,
    /// Whether interactions of pairs of features are computed, in O(n² features²).
    pub interactions: bool,
    /// The number of draws from the null distribution, up to 100,000; with 0 there are no p-values. A p-value
    /// is at least 1/(draws + 1). The memory for the draws is proportional to the number of rows.
    pub permutations: usize,
    /// The seed of the draws.
    pub seed: u64,
    /// A flag that another thread sets to cancel the test.
    pub stop: Arc<AtomicBool>,
    /// The progress of the test, for other threads to read.
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

/// A test of whether two samples come from the same distribution, by MMD².
#[derive(Debug, Clone, Default)]
pub struct TwoSampleTest {
    /// The kernels between rows, by default [`FactorKind::default_kernel`] of the pooled sample. Several
    /// kernels make an aggregated test: its statistic is the largest studentised statistic, and its p-value
    /// allows for this choice.
    pub kernels: Vec<Kernel>,
    /// The estimator of MMD².
    pub estimator: MmdEstimator,
    /// Settings that both tests share.
    pub settings: TestSettings,
}

/// The method by which the null distribution of HSIC is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Null {
    /// Permutations of the rows of Y: exact if rows are independent of each other.
    #[default]
    Permutation,
    /// A wild bootstrap for rows that are a stationary time series. The number is that of the rows over which
    /// the correlation of its process decreases to 1/e. Valid as the number of rows grows, for the biased
    /// estimator (Chwialkowski, Sejdinovic and Gretton 2014).
    WildBootstrap(f64),
}

/// A test of whether the rows of two tables depend on each other, by HSIC.
#[derive(Debug, Clone, Default)]
pub struct IndependenceTest {
    /// The kernels between rows of X, as for [`TwoSampleTest`].
    pub kernels: Vec<Kernel>,
    /// The kernel between rows of Y, by default [`default_kernel`] of Y.
    pub target_kernel: Option<Kernel>,
    /// Whether the estimator is unbiased (Song and others 2012, equation 5) rather than `tr(KHLH)/(n-1)²`
    /// (Gretton, Bousquet, Smola and Schölkopf 2005).
    pub unbiased: bool,
    /// The method by which the null distribution is drawn.
    pub null: Null,
    /// Settings that both tests share.
    pub settings: TestSettings,
}

/// The result of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// MMD² or HSIC; with several kernels, that of the kernel with the largest studentised statistic.
    pub statistic: f64,
    /// The p-value of the statistic, if there are draws.
    pub pvalue: Option<f64>,
    /// The statistic in every draw from the null distribution.
    pub null: Vec<f64>,
    /// For each kernel, its statistic and its p-value, which is adjusted for the number of kernels.
    pub by_kernel: Vec<PerKernelResult>,
    /// The index in `by_kernel` of the kernel of the statistic and the attributions.
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
    /// The p-value, adjusted for the number of kernels.
    pub pvalue: Option<f64>,
}

/// The contributions of features to a statistic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeatureAttributions {
    /// Shapley values, which sum to the statistic, as an explanation of one row, whose data are the sample's
    /// means and most frequent levels.
    pub explanation: Explanation,
    /// The comparison of the contributions with the null distribution.
    pub significance: Option<Significance>,
    /// The interactions of pairs of features.
    pub interactions: Option<Interactions>,
    /// The statistic of each feature alone, with orthogonal factors.
    #[serde(rename = "alone")]
    pub marginal: Option<MarginalStatistic>,
    /// The part of the statistic that only three or more features show together, in which no single feature
    /// has a share; for orthogonal factors of three features or more.
    #[serde(rename = "beyond")]
    pub higher_order: Option<HigherOrderInteraction>,
}

/// The statistic of each feature alone, independent of the other features: MMD² or HSIC of its own kernel
/// factor, scaled to a mean of 1 on the diagonal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarginalStatistic {
    /// The statistic of each player.
    pub values: Vec<f64>,
    /// The p-value of each statistic, if there are draws.
    pub pvalues: Option<Vec<f64>>,
}

/// The statistic that only three or more features show together: that of the product of all orthogonal
/// factors, minus those of single features and of pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HigherOrderInteraction {
    /// The statistic.
    pub statistic: f64,
    /// The p-value of the statistic, if there are draws.
    pub pvalue: Option<f64>,
}

impl FeatureAttributions {
    /// Returns the indices of the players, from the largest to the smallest value.
    pub fn order(&self) -> Vec<usize> {
        crate::linalg::descending(&self.explanation.values)
    }
}

/// Shapley interaction values, players × players. An entry off the diagonal is half of the Shapley
/// interaction index of the pair (Grabisch and Roubens 1999); the diagonal has the rest of each player's
/// Shapley value. Rows sum to Shapley values, and all entries to the statistic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interactions {
    /// The values.
    pub values: Matrix,
    /// A bound on the quadrature and rounding error of each value.
    pub bound: f64,
}

/// The comparison of Shapley values with their distribution under the test's null hypothesis.
///
/// The null hypothesis is that of the whole test: the samples come from one distribution, or X and Y are
/// independent. `adjusted` controls the probability of selecting any feature if it holds. If it does not
/// hold, a feature with equal distributions can have a value other than 0, because Shapley values divide the
/// joint effects of features among them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Significance {
    /// For each feature, the probability of a value at least as large. One-sided: with product factors, a
    /// value below the null distribution is no evidence about the feature, because other features hide it.
    pub pvalues: Vec<f64>,
    /// These p-values, adjusted for the number of features by the step-down maximum of studentised values
    /// (Westfall and Young 1993).
    pub adjusted: Vec<f64>,
    /// For each feature, the interval of the central 95 % of its null distribution.
    pub bands: Vec<[f64; 2]>,
}

impl TwoSampleTest {
    /// Compares the rows of `x` and of `z`, whose columns are matched by name. Cost O((n + m)² d), and for
    /// each draw O((n + m)²) per feature; with blocks of q rows, O((n + m) q) replaces the squares. Memory
    /// does not depend on the number of pairs.
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
        let min_rows = match self.estimator {
            MmdEstimator::Block(q) if q < 2 => {
                return Err(Error::parameter("block size", q, "blocks need at least 2 rows"));
            }
            MmdEstimator::Block(q) => q,
            MmdEstimator::Unbiased | MmdEstimator::Biased => 2,
        };
        check_sizes([n, m], min_rows)?;
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
            reference: &reference_rows(self.estimator, sample.rows()),
            kernels,
            estimator: self.estimator,
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
    /// Tests whether row i of `x` depends on row i of `y`. Cost O(n² d), and for each draw O(n²) per feature.
    /// Memory does not depend on the number of pairs, except for 8 n² bytes up to n = 4096 rows.
    ///
    /// # Errors
    /// [`Error::Shape`] for tables of unequal length, [`Error::TooFew`], [`Error::Target`] for a `y` that
    /// does not vary; [`Error::Parameter`]; [`Error::NotProduct`] for kernels that tie features together,
    /// unless nothing is attributed; [`Error::Interrupted`].
    pub fn run(&self, x: &Table, y: &Table) -> Result<TestResult> {
        self.settings.check()?;
        let n = x.rows();
        same_rows(x, y)?;
        let min_rows = if self.unbiased { 4 } else { 2 };
        if n < min_rows {
            return Err(Error::too_few("the sample", min_rows, "rows are"));
        }
        is_nonconstant(y, self.unbiased)?;
        let kernels = self.settings.kernels(&self.kernels, x)?;
        let target = kernel_or_default(self.target_kernel.as_ref(), y)?;
        let TestSettings { permutations, seed, .. } = self.settings;
        let reduced_kernel = without_constant_terms(&target, y);
        let centered = CenteredKernel::new(y, &reduced_kernel, self.unbiased, permutations > 0);
        let draws: Option<Box<dyn NullDraws + '_>> = match self.null {
            Null::WildBootstrap(decay_rows) if !(decay_rows.is_finite() && decay_rows > 0.0) => {
                let allowed = "take a positive number of rows, over which dependence decays";
                return Err(Error::parameter("wild bootstrap", decay_rows, allowed));
            }
            Null::WildBootstrap(_) if self.unbiased => {
                let allowed = "the wild bootstrap needs the biased estimator";
                return Err(Error::parameter("estimator", "unbiased", allowed));
            }
            _ if permutations == 0 => None,
            Null::Permutation => Some(Box::new(centered.permuted(permutations, seed))),
            Null::WildBootstrap(decay_rows) => {
                Some(Box::new(WildBootstrapNull::new(&centered, permutations, decay_rows, seed)))
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
            estimator: centered.estimator(),
            weights: &centered,
            draws: draws.as_deref(),
            game: "hsic",
            statistic: "HSIC",
            meaning_of_absence: "dependence is measured without it",
            facts,
        })
    }
}

/// The largest number of draws; more are probably a mistake, and could exhaust memory.
const MAX_DRAWS: usize = 100_000;

impl TestSettings {
    fn check(&self) -> Result<()> {
        if self.permutations <= MAX_DRAWS {
            return Ok(());
        }
        Err(Error::parameter("n_permutations", self.permutations, format!("at most {MAX_DRAWS}")))
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

    /// Returns the pairs of the sample's rows under a kernel, with its own factors or with orthogonal ones.
    fn sample_pairs<'k>(
        &self,
        spec: &TestSpec<'_>,
        kernel: &'k Kernel,
        groups: &Players,
        control: RunControl<'_>,
    ) -> Result<SamplePairs<'k>> {
        let attributed = self.attribute != AttributionRequest::Nothing;
        let players = (attributed || self.factors == FactorKind::Orthogonal).then_some(groups);
        let new = |players| {
            let measure = InclusionMeasure::default();
            SamplePairs::new(spec.sample, kernel, players, measure, spec.estimator, self.factors)
        };
        match (new(players), self.factors) {
            (Ok(pairs), FactorKind::Orthogonal) => pairs.orthogonal(spec.reference, control),
            // A kernel that ties players together is one factor.
            (Err(Error::NotProduct { .. }), _) if !attributed => new(None),
            (pairs, _) => pairs,
        }
    }

    fn run_test(&self, mut spec: TestSpec<'_>) -> Result<TestResult> {
        let TestSpec { sample, weights, draws, .. } = spec;
        let groups = self.players(sample);
        let attributed = self.attribute != AttributionRequest::Nothing;
        let control = RunControl { stop: &self.stop, progress: &self.progress };
        let kernels: Vec<Kernel> = spec.kernels.iter().map(|k| without_constant_terms(k, sample)).collect();
        let pairs = |kernel| self.sample_pairs(&spec, kernel, &groups, control);
        let pairs_by_kernel = kernels.iter().map(pairs).collect::<Result<Vec<_>>>()?;
        let interactions = self.interactions && attributed;
        self.progress.start((pairs_by_kernel.len() + usize::from(interactions)) * PARTS);
        let sum = |pairs: &SamplePairs<'_>| {
            // Only the statistic is drawn if the significance of features is not requested.
            let drawn = if self.attribute == AttributionRequest::Significance { pairs.channels() } else { 1 };
            pairs.sum(weights, draws, drawn, control)
        };
        let sums = pairs_by_kernel.iter().map(sum).collect::<Result<Vec<_>>>()?;
        let scores: Vec<Vec<f64>> = sums.iter().map(|s| s.studentised(0)).collect();
        let all_zero = |scores: &Vec<f64>| scores.len() > MIN_DRAWS && scores.iter().all(|s| *s == 0.0);
        if scores.iter().all(all_zero) && sample.rows() > 3 && outlier_rows(sample) > 1 {
            let allowed = "its values differ only by rounding between these rows: choose shorter length \
                           scales, or standardise the columns";
            return Err(Error::parameter("kernel", spec.kernels[0].formula(), allowed));
        }
        let adjusted = null::step_down_p_values(&scores);
        let chosen =
            (0..sums.len()).rev().max_by(|&a, &b| scores[a][0].total_cmp(&scores[b][0])).unwrap_or(0);
        let has_draws = self.permutations > 0;
        let interactions =
            interactions.then(|| pairs_by_kernel[chosen].interactions(weights, control)).transpose()?;
        let by_kernel: Vec<PerKernelResult> = spec
            .kernels
            .iter()
            .zip(&sums)
            .zip(&adjusted)
            .map(|((kernel, sums), &p)| PerKernelResult {
                kernel: kernel.clone(),
                statistic: sums.observed[0],
                pvalue: has_draws.then_some(p),
            })
            .collect();
        let chosen_sums = &sums[chosen];
        let null = chosen_sums.draws(0);
        // One kernel needs no studentised scores; several are as significant as the most significant one.
        let pvalue = if sums.len() == 1 {
            null::pvalue(chosen_sums.observed[0], &null, chosen_sums.tie_tolerance(0))
        } else {
            adjusted[chosen]
        };
        let channels = pairs_by_kernel[chosen].extra_channels();
        let factors = match (self.factors, channels) {
            (FactorKind::Orthogonal, Some(_)) => "orthogonal, of features and of pairs of features",
            (FactorKind::Orthogonal, None) => "of the kernel, which has no product form",
            (FactorKind::Product, _) => "of the kernel",
        };
        spec.facts.extend([
            CardEntry::new("kernel", by_kernel[chosen].kernel.formula()),
            CardEntry::new("factors", factors),
            CardEntry::new("permutations", self.permutations),
            CardEntry::new("seed", self.seed),
        ]);
        let attributions = attributed.then(|| {
            let has_significance = has_draws && self.attribute == AttributionRequest::Significance;
            let explanation = spec.explanation(self.factors, &groups, chosen_sums);
            attributions(explanation, (&sums, chosen), channels, has_significance, interactions)
        });
        let statistic = chosen_sums.observed[0];
        let pvalue = has_draws.then_some(pvalue);
        Ok(TestResult { statistic, pvalue, null, by_kernel, chosen, attributions })
    }
}

/// The sample, kernels, weights and names of a test.
struct TestSpec<'q> {
    sample: &'q Table,
    /// The rows over which orthogonal factors are centered, which must be the same for all draws.
    reference: &'q [usize],
    kernels: Vec<Kernel>,
    /// The estimator, which determines the pairs of rows that count.
    estimator: MmdEstimator,
    weights: &'q dyn PairWeights,
    draws: Option<&'q dyn NullDraws>,
    game: &'q str,
    statistic: &'q str,
    meaning_of_absence: &'q str,
    facts: Vec<CardEntry>,
}

impl TestSpec<'_> {
    /// Returns the values of the features as an explanation of the sample's mean row.
    fn explanation(self, factors: FactorKind, groups: &Players, sums: &ChannelSums) -> Explanation {
        let absent = format!(
            "an absent feature's {} is replaced by 1: {}",
            match factors {
                FactorKind::Orthogonal => "orthogonal kernel factor",
                FactorKind::Product => "kernel factor",
            },
            self.meaning_of_absence
        );
        let run = vec![CardEntry::new("riesz", env!("CARGO_PKG_VERSION"))];
        Explanation {
            values: sums.observed[1..=groups.players().len()].to_vec(),
            base_values: vec![0.0],
            predictions: vec![sums.observed[0]],
            exactness: Exactness::Exact { bound: vec![sums.bound] },
            provenance: Provenance { game: self.game.into(), absent, model: self.facts, run },
            ..Explanation::of_rows(groups.players(), &[self.statistic.into()], self.sample.mean_row())
        }
    }
}

/// Divides each pair's interaction index between its two players; see [`Interactions`].
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

/// Returns a channel's p-value and its studentised scores. The observed value of the chosen kernel is
/// compared with the largest score of each draw over all kernels.
fn scores(sums: &[ChannelSums], chosen: usize, channel: usize) -> (f64, Vec<f64>) {
    let mut scores = sums[chosen].studentised(channel);
    for other in sums {
        let draws = other.studentised(channel);
        scores[1..].iter_mut().zip(&draws[1..]).for_each(|(s, d)| *s = s.max(*d));
    }
    (null::pvalue(scores[0], &scores[1..], 0.0), scores)
}

/// Returns the statistics of features under the chosen kernel. They include the significance if there are
/// draws, and the interactions if pair indices were computed (with a bound on their errors). Orthogonal
/// factors, whose channels are `channels`, also give the marginal and higher-order statistics.
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

/// Returns the significance of the features' values.
fn significance(sums: &[ChannelSums], chosen: usize, players: usize) -> Significance {
    let (pvalues, scores): (Vec<f64>, Vec<_>) = (1..=players).map(|j| scores(sums, chosen, j)).unzip();
    let bands = (1..=players).map(|j| null::central_interval(&sums[chosen].draws(j), 0.95)).collect();
    Significance { pvalues, adjusted: null::step_down_p_values(&scores), bands }
}

/// The number of draws that cannot all be equal by chance.
const MIN_DRAWS: usize = 19;

/// Returns the number of rows that differ from the others, which are all equal; 2 means 2 or more. If it is
/// 1, kernels are sums of functions of one row each, which unbiased estimators cancel.
fn outlier_rows(sample: &Table) -> usize {
    let differing_rows = |row: usize| {
        let differs = |&i: &usize| (0..sample.width()).any(|j| sample.column(j)[i] != sample.column(j)[row]);
        (0..sample.rows()).filter(differs).take(2).count()
    };
    (0..sample.rows().min(2)).map(differing_rows).min().unwrap_or(0)
}

/// Returns the rows of `x`, then those of `z`, with columns matched by name. The levels of a column are those
/// of both tables.
///
/// # Errors
/// As [`Table::align_to`].
pub fn pooled(x: &Table, z: &Table) -> Result<Table> {
    let mut columns = x.columns().to_vec();
    for column in &mut columns {
        let ColumnKind::Categorical { levels } = &mut column.kind else { continue };
        let other = &z.columns()[z.index_of(&column.name)?];
        if let ColumnKind::Categorical { levels: other_levels } = &other.kind {
            let new: Vec<String> = other_levels.iter().filter(|l| !levels.contains(l)).cloned().collect();
            levels.extend(new);
        }
    }
    x.align_to(&columns)?.stack(&z.align_to(&columns)?)
}

fn same_rows(x: &Table, y: &Table) -> Result<()> {
    sized("the target", "rows", x.rows(), y.rows(), "one per row of the features")
}

/// Checks that the two samples have enough rows.
fn check_sizes([n, m]: [usize; 2], min_rows: usize) -> Result<()> {
    for (sample_name, rows) in [("the first sample", n), ("the second sample", m)] {
        if rows < min_rows {
            return Err(Error::too_few(sample_name, min_rows, "rows are"));
        }
    }
    Ok(())
}

fn is_nonconstant(y: &Table, unbiased: bool) -> Result<()> {
    let problem = match outlier_rows(y) {
        0 => "is the same in all rows, so nothing can depend on it",
        1 if unbiased => {
            "is the same in all rows but one, so unbiased estimates are always 0: take the biased estimator"
        }
        _ => return Ok(()),
    };
    let name = y.columns().iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    Err(Error::target(name, problem))
}

#[cfg(test)]
mod tests;
