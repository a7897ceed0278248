//! What downscaling learns from: rows, the bags that they make, and targets.

use super::mediation::Mediators;
use super::row_bags::{Bags, TargetUnit};
use crate::error::{Error, Result};
use crate::fit::mean_variance_of_sums;
use crate::kernel::Kernel;
use crate::table::Table;

/// What a Gaussian kernel says of three length scales.
const FAR: f64 = 0.011_108_996_538_242_306;

/// Targets with rows of their own that are fewer than this share of all say hardly anything.
const FEW: f64 = 0.02;

/// More rows or bags are learnt from through inducing points, at most so many.
const MOST_ROWS: usize = 10_000;
const MOST_BAGS: usize = 4_000;

/// Inducing points cost what rows do where targets are mediated, up to so many: pairs of all rows are looked
/// at.
const MOST_MEDIATED_ROWS: usize = 50_000;
const MOST_POINTS: usize = 1_000;

/// What is known: rows, the bags that they make, and targets.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregates {
    /// Covariates of single rows.
    pub rows: Table,
    /// Which rows make which bag.
    pub bags: Bags,
    /// Of each target its value.
    pub targets: Vec<f64>,
    /// Of each target the bag whose rows make it, or nothing where mediators are to say.
    pub own: Vec<Option<usize>>,
    /// Of each target the known variance ≥ 0 of its error, on top of the noise; `None` for none.
    pub target_noise: Option<Vec<f64>>,
    /// What bags and targets without rows both have.
    pub mediators: Option<Mediators>,
}

impl Aggregates {
    /// A target a bag, in their order.
    pub fn matched(rows: Table, bags: Bags, targets: Vec<f64>) -> Self {
        let own = (0..targets.len()).map(Some).collect();
        Self { rows, bags, targets, own, target_noise: None, mediators: None }
    }

    /// How many targets have no rows of their own.
    pub fn mediated(&self) -> usize {
        self.own.iter().filter(|own| own.is_none()).count()
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

    /// What to look at before these are learnt from, in words: hardly any target that has rows of its own,
    /// and targets that are to be sums and shrink with the weights of their rows.
    pub fn doubts(&self) -> Vec<String> {
        let means = self.bags.unit() == TargetUnit::Sum && self.look_like_means();
        let told = "targets are to be sums, but do not grow with the weights of their rows, as sums do: are \
                    they means?";
        self.hardly_matched().into_iter().chain(means.then(|| told.into())).collect()
    }

    /// Where hardly any target has rows of its own, less than one of fifty, that in words.
    pub fn hardly_matched(&self) -> Option<String> {
        let (all, matched) = (self.targets.len(), self.targets.len() - self.mediated());
        ((matched as f64) < FEW * all as f64).then(|| {
            format!(
                "{matched} of {all} targets have rows of their own: what is said of rows rests on the \
                 mediators, and left-out targets do not tell how good these are"
            )
        })
    }

    /// Whether the sizes of targets fall as weights of their rows rise, by the correlation of five or more,
    /// as those of means do and those of sums hardly.
    pub fn look_like_means(&self) -> bool {
        let matched = self.targets.iter().zip(&self.own).filter_map(|(z, own)| Some((z.abs(), (*own)?)));
        let (sizes, mass): (Vec<f64>, Vec<f64>) =
            matched.map(|(z, b)| (z, self.bags.weight_sums()[b])).unzip();
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let (middle, typical) = (mean(&mass), mean(&sizes));
        let spread = mass.iter().fold(0.0, |most: f64, m| most.max((m - middle).abs()));
        let together: f64 = mass.iter().zip(&sizes).map(|(m, z)| (m - middle) * (z - typical)).sum();
        let differ = sizes.iter().any(|size| *size != sizes[0]);
        sizes.len() >= 5 && differ && spread > 1e-9 * middle && together < 0.0
    }

    /// The mediated targets whose mediators are, by their kernel, less like those of each bag with rows than
    /// three length scales of a Gaussian kernel are: little is known of these. Cost J² + JM kernels.
    pub fn far(&self, kernel: &Kernel) -> Vec<usize> {
        let Some(mediators) = &self.mediators else { return Vec::new() };
        let most = kernel.gram(&mediators.bags).data().iter().fold(0.0, |most: f64, k| most.max(*k));
        let alike = kernel.cross_gram(&mediators.targets, &mediators.bags);
        let is_far = |t: &usize| alike.row(*t).iter().all(|k| *k < FAR * most);
        (0..self.own.len()).filter(|&t| self.own[t].is_none()).filter(is_far).collect()
    }

    pub(super) fn check(&self) -> Result<()> {
        let m = self.targets.len();
        crate::fit::check(&self.rows, self.bags.weights().rows(), 1)?;
        if m == 0 {
            return Err(Error::TooFew { what: "the list of targets".into(), needed: 1, unit: "target is" });
        }
        let noise = self.target_noise.as_ref();
        let lists = [("the list of the targets' bags", self.own.len())];
        let noises = noise.map(|noise| ("the list of the targets' variances", noise.len()));
        if let Some((what, found)) = lists.into_iter().chain(noises).find(|(_, found)| *found != m) {
            let (what, why) = (what.into(), "one a target".into());
            return Err(Error::Shape { what, unit: "entries", expected: m, found, why });
        }
        if let Some(row) = self.targets.iter().position(|z| !z.is_finite()) {
            return Err(Error::NotFinite { row, column: "target".into(), value: self.targets[row] });
        }
        if let Some(bad) = noise.into_iter().flatten().find(|v| !(v.is_finite() && **v >= 0.0)) {
            return Err(Error::parameter("variance of a target", bad, "variances are not negative"));
        }
        Ok(())
    }

    /// The square by which variances are multiplied where targets are normalised: for sums that of means over
    /// their weights.
    pub(super) fn spread(&self) -> Result<f64> {
        let totals = self.mediators.as_ref().and_then(|m| m.totals.as_ref());
        let size = |(t, own): (usize, &Option<usize>)| match (self.bags.unit(), own) {
            (TargetUnit::Mean, _) => 1.0,
            (TargetUnit::Sum, Some(bag)) => self.bags.weight_sums().get(*bag).copied().unwrap_or(1.0),
            (TargetUnit::Sum, None) => totals.and_then(|all| all.get(t)).copied().unwrap_or(1.0),
        };
        let sizes: Vec<f64> = self.own.iter().enumerate().map(size).collect();
        let (mean, spread) = mean_variance_of_sums(&self.targets, &sizes, &sizes);
        if spread.sqrt() > 1e-12 * mean.abs() && spread > 0.0 && spread.is_finite() {
            return Ok(spread);
        }
        let problem = format!(
            "has no spread to normalise by (mean {mean:.4e}, variance {spread:.1e}): there is nothing to \
             learn, or set normalize_y to false"
        );
        Err(Error::Target { name: "of bags".into(), problem })
    }
}
