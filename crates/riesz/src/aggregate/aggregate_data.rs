//! The data of downscaling: rows, the bags that aggregate them, and targets.

use super::mediation::Mediators;
use super::row_bags::{Bags, TargetUnit};
use crate::error::{Error, Result};
use crate::fit::mean_variance_of_sums;
use crate::kernel::Kernel;
use crate::table::Table;

/// Value of a Gaussian kernel at a distance of three length scales.
const DISTANT_KERNEL_VALUE: f64 = 0.011_108_996_538_242_306;

/// Smallest share of targets with rows of their own for which predictions rest on rows.
const MIN_MATCHED_SHARE: f64 = 0.02;

/// More rows or bags are learnt from through inducing points, at most so many.
const MOST_ROWS: usize = 10_000;
const MOST_BAGS: usize = 4_000;

/// Inducing points cost what rows do where targets are mediated, up to so many: pairs of all rows are looked
/// at.
const MOST_MEDIATED_ROWS: usize = 50_000;
const MOST_POINTS: usize = 1_000;

/// The data of downscaling: rows, the bags that aggregate them, and targets.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregates {
    /// Covariates of single rows.
    pub rows: Table,
    /// Which rows make which bag.
    pub bags: Bags,
    /// The value of each target.
    pub targets: Vec<f64>,
    /// For each target the bag whose rows it aggregates, or `None` if it is predicted through mediators.
    pub bag_of_target: Vec<Option<usize>>,
    /// For each target the known variance ≥ 0 of its error, in addition to the noise; `None` for none.
    pub target_noise: Option<Vec<f64>>,
    /// Covariates that both bags and targets without rows have.
    pub mediators: Option<Mediators>,
}

impl Aggregates {
    /// Data with one target per bag, in the order of the bags.
    pub fn matched(rows: Table, bags: Bags, targets: Vec<f64>) -> Self {
        let bag_of_target = (0..targets.len()).map(Some).collect();
        Self { rows, bags, targets, bag_of_target, target_noise: None, mediators: None }
    }

    /// The number of targets that have no rows of their own.
    pub fn mediated(&self) -> usize {
        self.bag_of_target.iter().filter(|bag| bag.is_none()).count()
    }

    /// Through how many inducing points so many rows and bags are learnt from by default: `None`, exactly, up
    /// to 10,000 rows, each counted in all of its bags, and 4,000 bags, or 50,000 rows where targets are
    /// mediated; beyond twice as many as targets, from 200 to 1,000.
    pub fn usual_points(&self) -> Option<usize> {
        let (_, places, _) = self.bags.weights().raw_parts();
        let large = match self.mediated() {
            0 => places.len() > MOST_ROWS || self.bags.count() > MOST_BAGS,
            _ => places.len() > MOST_MEDIATED_ROWS,
        };
        large.then(|| (2 * self.targets.len()).clamp(200, MOST_POINTS))
    }

    /// Warnings about the data: hardly any target has rows of its own, or targets that are declared to be
    /// sums decrease with the weights of their rows.
    pub fn warnings(&self) -> Vec<String> {
        let means = self.bags.unit() == TargetUnit::Sum && self.targets_look_like_means();
        let warning = "targets are to be sums, but do not grow with the weights of their rows, as sums do: \
                       are they means?";
        self.few_matched_warning().into_iter().chain(means.then(|| warning.into())).collect()
    }

    /// A warning if fewer than one in fifty targets have rows of their own.
    pub fn few_matched_warning(&self) -> Option<String> {
        let (count, matched) = (self.targets.len(), self.targets.len() - self.mediated());
        ((matched as f64) < MIN_MATCHED_SHARE * count as f64).then(|| {
            format!(
                "{matched} of {count} targets have rows of their own: what is said of rows rests on the \
                 mediators, and left-out targets do not tell how good these are"
            )
        })
    }

    /// Whether the magnitudes of targets decrease as the weights of their rows increase, by the correlation
    /// of at least five targets, as those of means do and those of sums hardly do.
    pub fn targets_look_like_means(&self) -> bool {
        let matched =
            self.targets.iter().zip(&self.bag_of_target).filter_map(|(z, bag)| Some((z.abs(), (*bag)?)));
        let (sizes, mass): (Vec<f64>, Vec<f64>) =
            matched.map(|(z, b)| (z, self.bags.weight_sums()[b])).unzip();
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let (middle, typical) = (mean(&mass), mean(&sizes));
        let max_deviation = mass.iter().fold(0.0, |maximum: f64, m| maximum.max((m - middle).abs()));
        let covariance: f64 = mass.iter().zip(&sizes).map(|(m, z)| (m - middle) * (z - typical)).sum();
        let differ = sizes.iter().any(|size| *size != sizes[0]);
        sizes.len() >= 5 && differ && max_deviation > 1e-9 * middle && covariance < 0.0
    }

    /// The mediated targets whose mediators are, by the given kernel, farther from those of every bag with
    /// rows than three length scales of a Gaussian kernel: predictions for them are nearly the prior. Cost J²
    /// + JM kernel values.
    pub fn distant_mediators(&self, kernel: &Kernel) -> Vec<usize> {
        let Some(mediators) = &self.mediators else { return Vec::new() };
        let largest = kernel.gram(&mediators.bags).data().iter().fold(0.0, |maximum: f64, k| maximum.max(*k));
        let similarity = kernel.cross_gram(&mediators.targets, &mediators.bags);
        let is_far = |t: &usize| similarity.row(*t).iter().all(|k| *k < DISTANT_KERNEL_VALUE * largest);
        (0..self.bag_of_target.len()).filter(|&t| self.bag_of_target[t].is_none()).filter(is_far).collect()
    }

    pub(super) fn check(&self) -> Result<()> {
        let m = self.targets.len();
        crate::fit::check(&self.rows, self.bags.weights().rows(), 1)?;
        if m == 0 {
            return Err(Error::TooFew {
                subject: "the list of targets".into(),
                needed: 1,
                unit: "target is",
            });
        }
        let noise = self.target_noise.as_ref();
        let lists = [("the list of the targets' bags", self.bag_of_target.len())];
        let noises = noise.map(|noise| ("the list of the targets' variances", noise.len()));
        if let Some((name, length)) = lists.into_iter().chain(noises).find(|(_, length)| *length != m) {
            let (subject, why) = (name.into(), "one a target".into());
            return Err(Error::Shape { subject, unit: "entries", expected: m, actual: length, why });
        }
        if let Some(row) = self.targets.iter().position(|z| !z.is_finite()) {
            return Err(Error::NotFinite { row, column: "target".into(), value: self.targets[row] });
        }
        if let Some(bad) = noise.into_iter().flatten().find(|v| !(v.is_finite() && **v >= 0.0)) {
            return Err(Error::parameter("variance of a target", bad, "variances are not negative"));
        }
        Ok(())
    }

    /// The variance of the targets, by which the model's variances are multiplied where targets are
    /// normalised; for sums that of the targets divided by their weights.
    pub(super) fn target_variance(&self) -> Result<f64> {
        let totals = self.mediators.as_ref().and_then(|m| m.totals.as_ref());
        let size = |(t, bag_index): (usize, &Option<usize>)| match (self.bags.unit(), bag_index) {
            (TargetUnit::Mean, _) => 1.0,
            (TargetUnit::Sum, Some(bag)) => self.bags.weight_sums().get(*bag).copied().unwrap_or(1.0),
            (TargetUnit::Sum, None) => {
                totals.and_then(|target_totals| target_totals.get(t)).copied().unwrap_or(1.0)
            }
        };
        let sizes: Vec<f64> = self.bag_of_target.iter().enumerate().map(size).collect();
        let (mean, mean_square) = mean_variance_of_sums(&self.targets, &sizes, &sizes);
        if mean_square.sqrt() > 1e-12 * mean.abs() && mean_square > 0.0 && mean_square.is_finite() {
            return Ok(mean_square);
        }
        let problem = format!(
            "has no spread to normalise by (mean {mean:.4e}, variance {mean_square:.1e}): there is nothing \
             to learn, or set normalize_y to false"
        );
        Err(Error::Target { name: "of bags".into(), problem })
    }
}
