//! Estimands of an effect at treatments: its level, a contrast, or a slope. Each is a weighted sum over at
//! most two treatments, so that its covariance follows exactly from the joint posterior.

use super::effect::{Effect, EffectEstimate};
use crate::error::{Error, Result, listed, sized};
use crate::kernel::mean_variance;
use crate::linalg::{Matrix, add_multiple};
use crate::table::{ColumnKind, Table};

/// The quantity that is estimated at each treatment.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Estimand {
    /// `E[outcome | do(treatment)]`.
    #[default]
    Level,
    /// The level minus the level at a baseline, which is one row of treatments.
    Contrast(Table),
    /// The slope with respect to a numeric treatment: the difference between the levels at `step` above and
    /// `step` below, divided by twice the step. Its error is of the order of the squared step.
    Slope {
        /// The treatment.
        treatment: String,
        /// Step in the treatment's units, above 0.
        step: f64,
    },
}

/// Weighted sums over treatments, one for each query.
#[derive(Debug, Clone, PartialEq)]
pub struct EstimandWeights {
    /// The treatments at which the effect is evaluated.
    pub treatments: Table,
    /// For each query the indices of its treatments and their weights.
    pub terms: Vec<Vec<(usize, f64)>>,
}

/// Default step of a slope, as a share of the treatment's standard deviation in the first study.
const STEP: f64 = 0.01;

impl Estimand {
    /// Returns the slope with respect to one of the first study's treatments; a single treatment need not be
    /// named. The default step is a hundredth of the treatment's standard deviation.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a column that is not a numeric treatment, and for a step that is not
    /// positive.
    pub fn slope(studied: &Table, treatment: Option<&str>, step: Option<f64>) -> Result<Self> {
        let names: Vec<&str> = studied.columns().iter().map(|column| &column.name[..]).collect();
        let position = treatment.map_or((names.len() == 1).then_some(0), |treatment| {
            names.iter().position(|name| *name == treatment)
        });
        let j = position.ok_or_else(|| {
            let allowed = format!("it is by one of the treatments, {}", listed(&names));
            Error::parameter("slope", treatment.unwrap_or("none"), allowed)
        })?;
        if studied.columns()[j].kind != ColumnKind::Numeric {
            let allowed = "it is categorical and has no slope: use contrasts with a baseline";
            return Err(Error::parameter("slope", names[j], allowed));
        }
        let step = step.unwrap_or_else(|| STEP * mean_variance(studied.column(j)).1.sqrt());
        crate::checks::positive("step of a slope", step)?;
        Ok(Self::Slope { treatment: names[j].to_string(), step })
    }

    /// Returns the estimand at each row of treatments, as weighted sums over rows at which the effect is
    /// evaluated; `studied` are the treatments of the first study, which define the columns.
    ///
    /// # Errors
    /// Errors of [`Table::align_to`]; [`Error::Shape`] for a baseline that is not one row;
    /// [`Error::UnknownColumn`] for the treatment of a slope.
    pub fn weights_at(&self, treatments: &Table, studied: &Table) -> Result<EstimandWeights> {
        let queried = treatments.align_to(studied.columns())?;
        let q = queried.rows();
        let (treatments, terms) = match self {
            Self::Level => (queried, (0..q).map(|i| vec![(i, 1.0)]).collect()),
            Self::Contrast(baseline) => {
                sized("the baseline", "rows", 1, baseline.rows(), "one treatment to compare with")?;
                let treatments = queried.stack(&baseline.align_to(studied.columns())?)?;
                (treatments, (0..q).map(|i| vec![(i, 1.0), (q, -1.0)]).collect())
            }
            Self::Slope { treatment, step } => {
                let j = queried.index_of(treatment)?;
                let shifted = |shift: f64| {
                    let mut values = queried.column_major().to_vec();
                    values[j * q..(j + 1) * q].iter_mut().for_each(|v| *v += shift);
                    Table::from_column_major(queried.columns().to_vec(), q, values)
                };
                let (treatments, weight) = (shifted(*step)?.stack(&shifted(-step)?)?, 0.5 / step);
                (treatments, (0..q).map(|i| vec![(i, weight), (q + i, -weight)]).collect())
            }
        };
        Ok(EstimandWeights { treatments, terms })
    }
}

impl EstimandWeights {
    /// Returns the weighted sums of an estimate at the treatments, with causes in their order. The support of
    /// a sum is the smallest support of its terms.
    pub fn estimate(&self, mut effect: EffectEstimate) -> EffectEstimate {
        if self.is_identity() {
            effect.causes.sort_by_key(|(cause, _)| *cause);
            return effect;
        }
        let support = self.terms.iter().map(|query_terms| {
            let supports = query_terms.iter().map(|(i, _)| effect.support[*i]);
            supports.reduce(|a, b| a.combined(b, f64::min)).unwrap_or_default()
        });
        let mut causes: Vec<_> =
            effect.causes.iter().map(|(cause, part)| (*cause, self.covariance(part))).collect();
        causes.sort_by_key(|(cause, _)| *cause);
        EffectEstimate {
            mean: self
                .terms
                .iter()
                .map(|query_terms| query_terms.iter().map(|(i, w)| w * effect.mean[*i]).sum())
                .collect(),
            covariance: self.covariance(&effect.covariance),
            causes,
            support: support.collect(),
        }
    }

    /// Whether each sum is the value at the treatment with the same index.
    fn is_identity(&self) -> bool {
        self.terms.len() == self.treatments.rows()
            && self.terms.iter().enumerate().all(|(q, terms)| terms[..] == [(q, 1.0)])
    }

    /// Returns weighted sums of the rows of a matrix with one row per treatment, for example of draws.
    pub fn rows(&self, row_values: &Matrix) -> Matrix {
        let mut sums = Matrix::zeros(self.terms.len(), row_values.cols());
        for (q, query_terms) in self.terms.iter().enumerate() {
            for (i, weight) in query_terms {
                add_multiple(sums.row_mut(q), *weight, row_values.row(*i));
            }
        }
        sums
    }

    fn covariance(&self, matrix: &Matrix) -> Matrix {
        self.rows(&self.rows(matrix).transpose())
    }
}

impl Effect {
    /// Returns for each of `rows` the share of the sums' total variance that one more such row of a study
    /// would remove; see [`variance_reduction_per_row`](Self::variance_reduction_per_row).
    ///
    /// # Errors
    /// Errors of [`variance_reduction_per_row`](Self::variance_reduction_per_row).
    pub fn share_taken(&self, sums: &EstimandWeights, study: usize, rows: &Table) -> Result<Vec<f64>> {
        let estimate = sums.estimate(self.evaluate(&sums.treatments)?);
        let variance = estimate.covariance.trace();
        let weights = sums.rows(&Matrix::identity(sums.treatments.rows()));
        let reduction = self.variance_reduction_per_row(&sums.treatments, &weights, study, rows)?;
        // Without variance nothing can be removed.
        let share_of = |row: usize| {
            if variance > 0.0 { reduction.column(row).iter().sum::<f64>() / variance } else { 0.0 }
        };
        Ok((0..rows.rows()).map(share_of).collect())
    }
}
