//! The data of downscaling: rows, the bags that aggregate them, and targets.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::mediation::Mediators;
use super::row_bags::{Bags, TargetUnit, unmatched_targets};
use crate::checks::{check_finite, check_rows, check_spread, not_negative};
use crate::discrepancy::{TestSettings, TwoSampleTest};
use crate::error::{Error, Result, listed, sized};
use crate::fit::mean_variance_of_sums;
use crate::kernel::Kernel;
use crate::linalg::{mean, squared_deviations};
use crate::model_card::CardEntry;
use crate::table::Table;

/// Value of a Gaussian kernel at a distance of three length scales.
const DISTANT_KERNEL_VALUE: f64 = 0.011_108_996_538_242_306;

/// Minimum share of matched targets, which have rows of their own. Below it, predictions rely on the
/// mediators.
const MIN_MATCHED_SHARE: f64 = 0.02;

/// Maximum numbers of rows and bags for an exact fit; larger data need inducing points.
const MAX_EXACT_ROWS: usize = 10_000;
const MAX_EXACT_BAGS: usize = 4_000;

/// Maximum number of rows for an exact fit with mediated targets: fits through inducing points then also need
/// all pairs of rows.
const MAX_EXACT_MEDIATED_ROWS: usize = 50_000;

/// Minimum and maximum numbers of mediators whose distributions are compared, and the level of the test.
const MIN_COMPARED: usize = 10;
const MAX_COMPARED: usize = 300;
const SHIFT_LEVEL: f64 = 0.01;

/// Maximum of the default number of inducing points.
const MAX_POINTS: usize = 1_000;

/// Largest deviation of fitted targets from the targets that may be rounding, in standard deviations of the
/// targets.
const ROUNDING_TOLERANCE: f64 = 1e-6;

/// The data of downscaling: rows, the bags that aggregate them, and targets.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregates {
    /// Covariates of single rows.
    pub rows: Table,
    /// The rows of each bag.
    pub bags: Bags,
    /// The value of each target.
    pub targets: Vec<f64>,
    /// The bag of each target, whose rows it aggregates; `None` for mediated targets.
    pub bag_of_target: Vec<Option<usize>>,
    /// The known noise variance ≥ 0 of each target, in addition to the noise; `None` for none.
    pub target_noise: Option<Vec<f64>>,
    /// Covariates of both bags and targets without rows.
    pub mediators: Option<Mediators>,
}

/// Returns inducing points with the columns of the rows, after a check that there are any.
pub(super) fn aligned_points(points: &Table, rows: &Table) -> Result<Table> {
    let points = points.align_to(rows.columns())?;
    if points.rows() == 0 {
        return Err(Error::too_few("the table of inducing points", 1, "point is"));
    }
    Ok(points)
}

impl Aggregates {
    /// Data with one target per bag, in the order of the bags.
    pub fn matched(rows: Table, bags: Bags, targets: Vec<f64>) -> Self {
        let bag_of_target = (0..targets.len()).map(Some).collect();
        Self { rows, bags, targets, bag_of_target, target_noise: None, mediators: None }
    }

    /// The number of mediated targets, which have no rows of their own.
    pub fn mediated(&self) -> usize {
        self.bag_of_target.iter().filter(|bag| bag.is_none()).count()
    }

    /// The default number of inducing points; `None` for an exact fit. The fit is exact for up to 10,000
    /// rows, counted once for each of their bags, and 4,000 bags, or for up to 50,000 rows if there are
    /// mediated targets. Otherwise the number of inducing points is twice the number of targets, but between
    /// 200 and 1,000.
    pub fn usual_points(&self) -> Option<usize> {
        let (_, row_indices, _) = self.bags.weights().raw_parts();
        let large = match self.mediated() {
            0 => row_indices.len() > MAX_EXACT_ROWS || self.bags.count() > MAX_EXACT_BAGS,
            _ => row_indices.len() > MAX_EXACT_MEDIATED_ROWS,
        };
        large.then(|| (2 * self.targets.len()).clamp(200, MAX_POINTS))
    }

    /// Warnings about the data: few targets have rows of their own, or targets that are declared as sums
    /// decrease with the weights of their rows.
    pub fn warnings(&self) -> Vec<String> {
        let look_like_means = self.bags.unit() == TargetUnit::Sum && self.targets_look_like_means();
        let warning = "the targets are declared as sums, but do not grow with the weights of their rows: \
                       are they means?";
        self.few_matched_warning().into_iter().chain(look_like_means.then(|| warning.into())).collect()
    }

    /// A warning if fewer than one in fifty targets have rows of their own.
    pub fn few_matched_warning(&self) -> Option<String> {
        let (count, matched) = (self.targets.len(), self.targets.len() - self.mediated());
        ((matched as f64) < MIN_MATCHED_SHARE * count as f64).then(|| {
            format!(
                "{matched} of {count} targets have rows of their own: predictions at rows rely on the \
                 mediators, and left-out targets do not measure their quality"
            )
        })
    }

    /// Whether the absolute values of targets decrease as the weights of their rows increase, by the
    /// correlation over at least five targets. Means often decrease; sums hardly ever do.
    pub fn targets_look_like_means(&self) -> bool {
        let matched =
            self.targets.iter().zip(&self.bag_of_target).filter_map(|(z, bag)| Some((z.abs(), (*bag)?)));
        let (sizes, mass): (Vec<f64>, Vec<f64>) =
            matched.map(|(z, b)| (z, self.bags.weight_sums()[b])).unzip();
        let (mean_mass, mean_size) = (mean(&mass), mean(&sizes));
        let max_deviation = mass.iter().map(|m| (m - mean_mass).abs()).fold(0.0, f64::max);
        let covariance: f64 = mass.iter().zip(&sizes).map(|(m, z)| (m - mean_mass) * (z - mean_size)).sum();
        let sizes_vary = sizes.iter().any(|size| *size != sizes[0]);
        sizes.len() >= 5 && sizes_vary && max_deviation > 1e-9 * mean_mass && covariance < 0.0
    }

    /// The mediated targets whose mediators are far from those of all bags with rows: by the given kernel,
    /// farther than three length scales of a Gaussian kernel. Predictions for them are nearly the prior. Cost
    /// J² + JM kernel values.
    pub fn distant_mediators(&self, kernel: &Kernel) -> Vec<usize> {
        let Some(mediators) = &self.mediators else { return Vec::new() };
        let max_value = kernel.gram(&mediators.bags).data().iter().copied().fold(0.0, f64::max);
        let similarity = kernel.cross_gram(&mediators.targets, &mediators.bags);
        let is_far = |t: &usize| similarity.row(*t).iter().all(|k| *k < DISTANT_KERNEL_VALUE * max_value);
        unmatched_targets(&self.bag_of_target).into_iter().filter(is_far).collect()
    }

    /// A warning if the mediators of targets without rows and those of bags with rows differ in distribution,
    /// by a two-sample test with MMD² at level 0.01; it names the columns that differ. The regression on
    /// mediators then predicts where it has few observations. At most 300 rows of each are compared, which
    /// `seed` draws; fewer than 10 are not compared.
    ///
    /// # Errors
    /// As [`TwoSampleTest::run`].
    pub fn mediator_shift_warning(&self, seed: u64, stop: Arc<AtomicBool>) -> Result<Option<String>> {
        let Some(mediators) = &self.mediators else { return Ok(None) };
        let targets = mediators.targets.select_rows(&unmatched_targets(&self.bag_of_target));
        if mediators.bags.rows().min(targets.rows()) < MIN_COMPARED {
            return Ok(None);
        }
        let sample = |rows: &Table| rows.select_rows(&rows.sample_rows(MAX_COMPARED, seed));
        let settings = TestSettings { permutations: 999, seed, stop, ..TestSettings::default() };
        let test = TwoSampleTest { settings, ..TwoSampleTest::default() };
        let result = test.run(&sample(&mediators.bags), &sample(&targets))?;
        let (Some(pvalue), Some(attributions)) = (result.pvalue, result.attributions) else {
            return Ok(None);
        };
        if pvalue > SHIFT_LEVEL {
            return Ok(None);
        }
        let adjusted = attributions.significance.as_ref().map(|significance| &significance.adjusted);
        let differs = |k: &usize| adjusted.is_some_and(|pvalues| pvalues[*k] <= SHIFT_LEVEL);
        let order = attributions.order();
        let mut players: Vec<usize> = order.iter().copied().filter(differs).collect();
        if players.is_empty() {
            players.extend(order.first());
        }
        let names =
            listed(players.iter().map(|&k| format!("'{}'", attributions.explanation.players[k].name)));
        Ok(Some(format!(
            "the mediators of targets without rows differ in distribution from those of bags with rows (MMD \
             test, p = {pvalue:.3}), mainly in {names}: the regression on mediators has few bags like some \
             targets"
        )))
    }

    /// Entries of the model card: the numbers of bags and of targets.
    pub(super) fn facts(&self) -> [CardEntry; 3] {
        let mediated = self.mediated();
        [
            CardEntry::new("bags with rows", self.bags.count()),
            CardEntry::new("targets with rows of their own", self.bag_of_target.len() - mediated),
            CardEntry::new("targets through mediators", mediated),
        ]
    }

    pub(super) fn check(&self) -> Result<()> {
        let m = self.targets.len();
        check_rows(&self.rows, self.bags.weights().rows(), 1)?;
        if m == 0 {
            return Err(Error::too_few("the list of targets", 1, "target is"));
        }
        let noise = self.target_noise.as_ref();
        sized(
            "the list of the targets' bags",
            "entries",
            m,
            self.bag_of_target.len(),
            "one for each target",
        )?;
        let variances = noise.map_or(m, Vec::len);
        sized("the list of the targets' variances", "entries", m, variances, "one for each target")?;
        check_finite(&self.targets, 1)?;
        let allowed = "variances are not negative";
        noise.into_iter().flatten().try_for_each(|v| not_negative("variance of a target", *v, allowed))
    }

    /// The variance of the targets, by which the model's variances are multiplied if targets are normalised.
    /// For sums it is the variance of the targets divided by their weights.
    pub(super) fn target_variance(&self) -> Result<f64> {
        let totals = self.mediators.as_ref().and_then(|m| m.totals.as_ref());
        let target_weight = |(t, bag_index): (usize, &Option<usize>)| match (self.bags.unit(), bag_index) {
            (TargetUnit::Mean, _) => 1.0,
            (TargetUnit::Sum, Some(bag)) => self.bags.weight_sums().get(*bag).copied().unwrap_or(1.0),
            (TargetUnit::Sum, None) => {
                totals.and_then(|target_totals| target_totals.get(t)).copied().unwrap_or(1.0)
            }
        };
        let target_weights: Vec<f64> = self.bag_of_target.iter().enumerate().map(target_weight).collect();
        let (mean, mean_square) = mean_variance_of_sums(&self.targets, &target_weights, &target_weights);
        check_spread("of bags", mean, mean_square)?;
        Ok(mean_square)
    }

    /// Checks targets without error, as those of
    /// [`with_exact_targets`](super::AggregateGaussianProcess::with_exact_targets). Returns the target with
    /// the largest deviation beyond rounding, 1e-6 of the targets' standard deviation, and this deviation;
    /// `None` if all fitted values equal their targets up to rounding.
    ///
    /// # Panics
    /// Unless `fitted` has one number per target.
    pub fn largest_mismatch(&self, fitted: &[f64]) -> Option<(usize, f64)> {
        let targets = &self.targets;
        assert_eq!(targets.len(), fitted.len(), "one number for each target");
        let average = mean(targets);
        let sd = (squared_deviations(targets, average) / targets.len() as f64).sqrt();
        let deviations = targets.iter().zip(fitted).map(|(z, value)| (z - value).abs()).enumerate();
        deviations
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .filter(|(_, deviation)| deviation.is_nan() || *deviation > ROUNDING_TOLERANCE * sd)
    }
}
