//! An effect, a contrast or a slope at single treatments, for tables and curves: they need no joint
//! covariance.

use std::fmt;

use super::effect::{Effect, EffectEstimate};
use super::estimand::Estimand;
use super::uncertainty_parts::{DataSupport, UncertaintyCause};
use crate::error::{Error, Result};
use crate::explanation::normal;
use crate::linalg::{min_max, sorted};
use crate::table::{ColumnKind, Table};

/// Number of treatments in a chunk; the joint covariance has the square of this number of entries.
const CHUNK_ROWS: usize = 256;

/// Share of the first study's doses outside the [default grid](default_doses), on each side.
const GRID_MARGIN: f64 = 0.025;

/// Maximum number of different doses that are shown as they are.
const MAX_SHOWN_DOSES: usize = 10;

/// Maximum number of treatments whose values are combined.
const MAX_COMBINED_TREATMENTS: usize = 4;

/// Default number of doses of a curve.
pub const DEFAULT_DOSE_COUNT: usize = 50;

/// An effect at some treatments, without their joint covariance.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pointwise {
    /// Posterior means.
    pub mean: Vec<f64>,
    /// Variances by cause, in the order of the causes; their sum is the variance.
    pub causes: Vec<(UncertaintyCause, Vec<f64>)>,
    /// Support of each treatment by the studies; for contrasts and slopes the smaller support of both ends.
    pub support: Vec<DataSupport>,
}

impl Effect {
    /// Returns the estimand at each row of treatments, with its variance. The cost is that of
    /// [`evaluate`](Self::evaluate) for each chunk of 256 rows.
    ///
    /// # Errors
    /// Errors of [`Estimand::weights_at`].
    pub fn pointwise(&self, treatments: &Table, estimand: &Estimand) -> Result<Pointwise> {
        let mut pointwise = Pointwise::default();
        for chunk in treatments.chunks(CHUNK_ROWS) {
            let sums = estimand.weights_at(&chunk, self.treatments())?;
            pointwise.add(sums.estimate(self.evaluate(&sums.treatments)?));
        }
        pointwise.causes.sort_by_key(|(cause, _)| *cause);
        Ok(pointwise)
    }
}

impl Pointwise {
    fn add(&mut self, estimate: EffectEstimate) {
        let count = self.mean.len();
        for (cause, part) in &estimate.causes {
            let index =
                self.causes.iter().position(|(other_cause, _)| other_cause == cause).unwrap_or_else(|| {
                    self.causes.push((*cause, vec![0.0; count]));
                    self.causes.len() - 1
                });
            self.causes[index].1.extend(part.diagonal().map(|variance| variance.max(0.0)));
        }
        self.mean.extend(estimate.mean);
        self.support.extend(estimate.support);
    }

    /// Returns the standard deviation at each treatment.
    pub fn sd(&self) -> Vec<f64> {
        let variance = |i: usize| self.causes.iter().map(|(_, variances)| variances[i]).sum::<f64>();
        (0..self.mean.len()).map(|i| variance(i).sqrt()).collect()
    }

    /// Returns the interval at each treatment: the mean plus and minus a normal quantile times the standard
    /// deviation.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a level that is not between 0 and 1.
    pub fn interval(&self, level: f64) -> Result<Vec<[f64; 2]>> {
        if !(level > 0.0 && level < 1.0) {
            return Err(Error::parameter("level", level, "it is between 0 and 1"));
        }
        let quantile = normal::quantile((1.0 + level) / 2.0);
        let moments = self.mean.iter().zip(self.sd());
        Ok(moments.map(|(mean, sd)| [mean - quantile * sd, mean + quantile * sd]).collect())
    }

    /// Returns the share of each cause in the variance, summed over all treatments; 0 without variance.
    pub fn variance_shares(&self) -> Vec<(UncertaintyCause, f64)> {
        let sums: Vec<f64> = self.causes.iter().map(|(_, variances)| variances.iter().sum()).collect();
        let total: f64 = sums.iter().sum();
        let share = |sum: f64| if total > 0.0 { sum / total } else { 0.0 };
        self.causes.iter().zip(sums).map(|((cause, _), sum)| (*cause, share(sum))).collect()
    }

    /// Whether the studies support each treatment, see [`DataSupport::is_supported`].
    pub fn supported(&self) -> Vec<bool> {
        self.support.iter().map(DataSupport::is_supported).collect()
    }
}

impl fmt::Display for UncertaintyCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Study(number) => write!(f, "study {}", number + 1),
            Self::Outcome => f.write_str("outcome regression"),
            Self::Stage(number) => write!(f, "stage {}", number + 1),
            Self::Interaction => f.write_str("interaction"),
            Self::Adjustment => f.write_str("adjustment"),
            Self::Hyperparameters => f.write_str("hyper-parameters"),
        }
    }
}

/// Returns combinations of treatments at which an effect of several treatments is shown. They combine three
/// numbers per treatment, the quartiles of the rows' values. A treatment with at most three different
/// numbers, or with levels, contributes all its values.
///
/// # Errors
/// [`Error::Shape`] for more than four treatments, which have too many combinations.
pub fn usual_combinations(treatments: &Table) -> Result<Table> {
    let (width, max_width) = (treatments.width(), MAX_COMBINED_TREATMENTS);
    if width > max_width {
        return Err(Error::shape(
            "the table of treatments",
            "columns",
            max_width,
            width,
            format!(
                "more than {max_width} treatments have too many combinations: give a table of treatments"
            ),
        ));
    }
    let mut rows: Vec<Vec<f64>> = vec![Vec::new()];
    for j in 0..width {
        let mut sorted_values = sorted(treatments.column(j));
        let mut quartiles = [1, 2, 3].map(|k| sorted_values[k * (sorted_values.len() - 1) / 4]).to_vec();
        quartiles.dedup();
        sorted_values.dedup();
        let is_numeric = treatments.columns()[j].kind == ColumnKind::Numeric;
        let values = if is_numeric && sorted_values.len() > 3 { quartiles } else { sorted_values };
        rows =
            rows.into_iter().flat_map(|row| values.iter().map(move |v| [&row[..], &[*v]].concat())).collect();
    }
    Table::from_named_rows(treatments.columns().to_vec(), &rows)
}

/// Returns treatments at which an effect is shown: `count` equidistant doses (usually [`DEFAULT_DOSE_COUNT`])
/// over the middle 95 % of a study's doses. If there are few different doses, or if the treatment has levels,
/// these are returned instead.
///
/// # Errors
/// [`Error::Shape`] for several treatments, which have no natural order.
pub fn default_doses(treatments: &Table, count: usize) -> Result<Table> {
    crate::error::sized("the table of treatments", "columns", 1, treatments.width(), "a curve is along one")?;
    let mut sorted_doses = sorted(treatments.column(0));
    let margin_count = (GRID_MARGIN * sorted_doses.len() as f64) as usize;
    let (low, high) = min_max(&sorted_doses[margin_count..sorted_doses.len() - margin_count]);
    sorted_doses.dedup();
    let is_categorical = matches!(treatments.columns()[0].kind, ColumnKind::Categorical { .. });
    let values = if is_categorical || sorted_doses.len() <= MAX_SHOWN_DOSES || low == high {
        sorted_doses
    } else {
        let step = (high - low) / count.max(2).saturating_sub(1) as f64;
        (0..count).map(|k| low + step * k as f64).collect()
    };
    Table::from_column_major(treatments.columns().to_vec(), values.len(), values)
}
