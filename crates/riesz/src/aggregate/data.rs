//! What downscaling learns from: rows, the bags that they make, and targets.

use super::bags::{Bags, Unit};
use super::operator::Mediators;
use crate::error::{Error, Result};
use crate::fit::mean_variance_of_sums;
use crate::table::Table;

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

    /// The square by which variances are multiplied where targets are normalised: for sums that of means over their weights.
    pub(super) fn spread(&self) -> Result<f64> {
        let totals = self.mediators.as_ref().and_then(|m| m.totals.as_ref());
        let size = |(t, own): (usize, &Option<usize>)| match (self.bags.unit(), own) {
            (Unit::Mean, _) => 1.0,
            (Unit::Sum, Some(bag)) => self.bags.mass().get(*bag).copied().unwrap_or(1.0),
            (Unit::Sum, None) => totals.and_then(|all| all.get(t)).copied().unwrap_or(1.0),
        };
        let sizes: Vec<f64> = self.own.iter().enumerate().map(size).collect();
        let (mean, spread) = mean_variance_of_sums(&self.targets, &sizes, &sizes);
        if spread.sqrt() > 1e-12 * mean.abs() && spread > 0.0 && spread.is_finite() {
            return Ok(spread);
        }
        let problem = format!(
            "has no spread to normalise by (mean {mean:.4e}, variance {spread:.1e}): there is nothing to learn, or set normalize_y to false"
        );
        Err(Error::Target { name: "of bags".into(), problem })
    }
}
