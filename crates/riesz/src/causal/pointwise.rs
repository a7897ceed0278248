//! An effect, a contrast or a slope of it, treatment by treatment: for tables and curves, which need no joint
//! covariance.

use std::fmt;

use super::effect::{Effect, Told};
use super::estimand::Estimand;
use super::support::DataSupport;
use super::uncertainty_parts::UncertaintyCause;
use crate::error::{Error, Result};
use crate::explanation::normal;
use crate::table::{ColumnKind, Table};

/// Treatments at once: their joint covariance has the square of these.
const AT_ONCE: usize = 256;

/// The share of the first study's doses outside a [usual grid](usual_doses), on each side.
const GRID_MARGIN: f64 = 0.025;

/// Doses that are no more than these are shown as they are.
const FEW_DOSES: usize = 10;

/// So many treatments are combined with each other.
const MOST_COMBINED: usize = 4;

/// Doses of a curve that is asked for at no others.
pub const DEFAULT_DOSE_COUNT: usize = 50;

/// An effect at some treatments, one by one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pointwise {
    /// Posterior means.
    pub mean: Vec<f64>,
    /// Variances by cause, in their order; these add up to the variance.
    pub causes: Vec<(UncertaintyCause, Vec<f64>)>,
    /// How each treatment stands to the studies; of contrasts and slopes the lesser of both ends.
    pub standing: Vec<DataSupport>,
}

impl Effect {
    /// What is asked of the effect, at each row of treatments, with its own variance. Cost as
    /// [`at`](Self::at), some rows at a time.
    ///
    /// # Errors
    /// As [`Estimand::weights_at`].
    pub fn pointwise(&self, treatments: &Table, estimand: &Estimand) -> Result<Pointwise> {
        let mut all = Pointwise::default();
        let rows: Vec<usize> = (0..treatments.rows()).collect();
        for some in rows.chunks(AT_ONCE) {
            let sums = estimand.weights_at(&treatments.select_rows(some), self.treatments())?;
            all.add(sums.estimate(&self.at(&sums.treatments)?));
        }
        all.causes.sort_by_key(|(cause, _)| *cause);
        Ok(all)
    }
}

impl Pointwise {
    fn add(&mut self, told: Told) {
        let (before, count) = (self.mean.len(), told.mean.len());
        for (cause, part) in &told.causes {
            let place = self.causes.iter().position(|(own, _)| own == cause).unwrap_or_else(|| {
                self.causes.push((*cause, vec![0.0; before]));
                self.causes.len() - 1
            });
            self.causes[place].1.extend((0..count).map(|i| part[(i, i)].max(0.0)));
        }
        self.mean.extend(told.mean);
        self.standing.extend(told.standing);
    }

    /// The standard deviation of each.
    pub fn sd(&self) -> Vec<f64> {
        let variance = |i: usize| self.causes.iter().map(|(_, own)| own[i]).sum::<f64>();
        (0..self.mean.len()).map(|i| variance(i).sqrt()).collect()
    }

    /// The ends of the interval of each: its mean and as many standard deviations as of a normal
    /// distribution.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a level that is not between 0 and 1.
    pub fn interval(&self, level: f64) -> Result<Vec<[f64; 2]>> {
        if !(level > 0.0 && level < 1.0) {
            return Err(Error::parameter("level", level, "it is between 0 and 1"));
        }
        let reach = normal::quantile((1.0 + level) / 2.0);
        let each = self.mean.iter().zip(self.sd());
        Ok(each.map(|(mean, sd)| [mean - reach * sd, mean + reach * sd]).collect())
    }

    /// Of each cause the share of the variance, over all treatments together; 0 where there is none.
    pub fn variance_shares(&self) -> Vec<(UncertaintyCause, f64)> {
        let sums: Vec<f64> = self.causes.iter().map(|(_, own)| own.iter().sum()).collect();
        let all: f64 = sums.iter().sum();
        let share = |sum: f64| if all > 0.0 { sum / all } else { 0.0 };
        self.causes.iter().zip(sums).map(|((cause, _), sum)| (*cause, share(sum))).collect()
    }

    /// Whether the studies tell each, see [`DataSupport::is_supported`].
    pub fn supported(&self) -> Vec<bool> {
        self.standing.iter().map(DataSupport::is_supported).collect()
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

/// Treatments to show an effect of several treatments at: all combinations of three numbers each, the
/// quartiles of those that the rows have, or of all numbers or levels where these are three or
/// fewer.
///
/// # Errors
/// [`Error::Shape`] for more than four treatments, which have too many combinations.
pub fn usual_combinations(treatments: &Table) -> Result<Table> {
    let (width, most) = (treatments.width(), MOST_COMBINED);
    if width > most {
        let why =
            format!("of more than {most} treatments combinations are too many: give a table of treatments");
        return Err(Error::Shape {
            what: "the table of treatments".into(),
            unit: "columns",
            expected: most,
            found: width,
            why,
        });
    }
    let mut rows: Vec<Vec<f64>> = vec![Vec::new()];
    for j in 0..width {
        let mut own = treatments.column(j).to_vec();
        own.sort_unstable_by(f64::total_cmp);
        let mut quartiles = [1, 2, 3].map(|k| own[k * (own.len() - 1) / 4]).to_vec();
        quartiles.dedup();
        own.dedup();
        let is_numeric = treatments.columns()[j].kind == ColumnKind::Numeric;
        let values = if is_numeric && own.len() > 3 { quartiles } else { own };
        rows =
            rows.into_iter().flat_map(|row| values.iter().map(move |v| [&row[..], &[*v]].concat())).collect();
    }
    let values = (0..width).flat_map(|j| rows.iter().map(move |row| row[j])).collect();
    Table::from_column_major(treatments.columns().to_vec(), rows.len(), values)
}

/// Treatments to show an effect at, of those that a study has: `count` doses (by habit
/// [`DEFAULT_DOSE_COUNT`]) at equal distances over the middle 95 % of them; all different doses where they
/// are few, and all levels that are seen.
///
/// # Errors
/// [`Error::Shape`] for several treatments: these have no usual order.
pub fn default_doses(treatments: &Table, count: usize) -> Result<Table> {
    crate::error::sized("the table of treatments", "columns", 1, treatments.width(), "a curve is along one")?;
    let mut own = treatments.column(0).to_vec();
    own.sort_unstable_by(f64::total_cmp);
    let cut = (GRID_MARGIN * own.len() as f64) as usize;
    let inside = own.iter().copied().skip(cut).take(own.len() - 2 * cut);
    let (low, high) = inside.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    own.dedup();
    let levels = matches!(treatments.columns()[0].kind, ColumnKind::Categorical { .. });
    let values = if levels || own.len() <= FEW_DOSES || low == high {
        own
    } else {
        let step = (high - low) / count.max(2).saturating_sub(1) as f64;
        (0..count).map(|k| low + step * k as f64).collect()
    };
    Table::from_column_major(treatments.columns().to_vec(), values.len(), values)
}
