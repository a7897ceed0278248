//! What is asked of an effect at treatments: its level, a contrast, or a slope. Each is a sum over two
//! treatments at most, so that its covariance is that of the joint posterior, exactly.

use super::effect::{Effect, Told};
use super::support::DataSupport;
use crate::error::{Error, Result, listed, sized};
use crate::kernel::mean_variance;
use crate::linalg::Matrix;
use crate::table::{ColumnKind, Table};

/// What is asked of an effect at each treatment.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Estimand {
    /// `E[outcome | do(treatment)]`.
    #[default]
    Level,
    /// The same less that at a baseline, which is one row of treatments.
    Contrast(Table),
    /// The slope by a treatment that is a number: the difference between `step` above and `step` below, over
    /// twice the step. What is left out is of the order of its square.
    Slope {
        /// The treatment.
        by: String,
        /// In its units, above 0.
        step: f64,
    },
}

/// Sums over treatments, one for each query.
#[derive(Debug, Clone, PartialEq)]
pub struct EstimandWeights {
    /// The treatments that an effect is to be asked at.
    pub treatments: Table,
    /// Of each query the places of its treatments, and their weights.
    pub terms: Vec<Vec<(usize, f64)>>,
}

/// The step of a slope, of the treatment's standard deviation in the first study.
const STEP: f64 = 0.01;

impl Estimand {
    /// The slope by one of the treatments that the first study has; with a single one it need not be named.
    /// The step is by default a hundredth of its standard deviation.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a treatment that is none or has levels, and a step that is not above 0.
    pub fn slope(studied: &Table, by: Option<&str>, step: Option<f64>) -> Result<Self> {
        let names: Vec<&str> = studied.columns().iter().map(|column| &column.name[..]).collect();
        let known = by.map_or((names.len() == 1).then_some(0), |by| names.iter().position(|own| *own == by));
        let j = known.ok_or_else(|| {
            let allowed = format!("it is by one of the treatments, {}", listed(&names));
            Error::parameter("slope", by.unwrap_or("none"), allowed)
        })?;
        if studied.columns()[j].kind != ColumnKind::Numeric {
            let allowed = "it is categorical and has no slope: ask for contrasts with a baseline";
            return Err(Error::parameter("slope", names[j], allowed));
        }
        let step = step.unwrap_or_else(|| STEP * mean_variance(studied.column(j)).1.sqrt());
        if !(step.is_finite() && step > 0.0) {
            return Err(Error::parameter("step of a slope", step, "it is a positive number"));
        }
        Ok(Self::Slope { by: names[j].to_string(), step })
    }

    /// It at each row of treatments, as sums over what the effect is asked at; `studied` are the treatments
    /// of the first study, of which columns are.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Shape`] for a baseline of more rows; [`Error::UnknownColumn`] for the
    /// treatment of a slope.
    pub fn weights_at(&self, treatments: &Table, studied: &Table) -> Result<EstimandWeights> {
        let at = treatments.align_to(studied.columns())?;
        let q = at.rows();
        match self {
            Self::Level => {
                Ok(EstimandWeights { treatments: at, terms: (0..q).map(|i| vec![(i, 1.0)]).collect() })
            }
            Self::Contrast(baseline) => {
                sized("the baseline", "rows", 1, baseline.rows(), "one treatment to compare with")?;
                let treatments = at.stack(&baseline.align_to(studied.columns())?)?;
                Ok(EstimandWeights { treatments, terms: (0..q).map(|i| vec![(i, 1.0), (q, -1.0)]).collect() })
            }
            Self::Slope { by, step } => {
                let j = at.index_of(by)?;
                let shifted = |by: f64| {
                    let mut values = at.column_major().to_vec();
                    values[j * q..(j + 1) * q].iter_mut().for_each(|v| *v += by);
                    Table::from_column_major(at.columns().to_vec(), q, values)
                };
                let (treatments, weight) = (shifted(*step)?.stack(&shifted(-step)?)?, 0.5 / step);
                let terms = (0..q).map(|i| vec![(i, weight), (q + i, -weight)]).collect();
                Ok(EstimandWeights { treatments, terms })
            }
        }
    }
}

impl EstimandWeights {
    /// Sums of what is told of the treatments, with causes in their order. How a sum stands to the studies is
    /// the lesser of its ends.
    pub fn estimate(&self, told: &Told) -> Told {
        let standing = self.terms.iter().map(|own| {
            let ends = own.iter().map(|(i, _)| told.standing[*i]);
            ends.reduce(|a, b| a.elementwise_min(&b)).unwrap_or_default()
        });
        let mut causes: Vec<_> =
            told.causes.iter().map(|(cause, part)| (*cause, self.covariance(part))).collect();
        causes.sort_by_key(|(cause, _)| *cause);
        Told {
            mean: self.terms.iter().map(|own| own.iter().map(|(i, w)| w * told.mean[*i]).sum()).collect(),
            covariance: self.covariance(&told.covariance),
            causes,
            standing: standing.collect(),
        }
    }

    /// Sums of the rows of a matrix that has one a treatment, draws for example.
    pub fn rows(&self, each: &Matrix) -> Matrix {
        let mut sums = Matrix::zeros(self.terms.len(), each.cols());
        for (q, own) in self.terms.iter().enumerate() {
            for (i, weight) in own {
                sums.row_mut(q).iter_mut().zip(each.row(*i)).for_each(|(sum, v)| *sum += weight * v);
            }
        }
        sums
    }

    fn covariance(&self, of: &Matrix) -> Matrix {
        self.rows(&self.rows(of).transpose())
    }

    /// The weights of queries, queries × treatments.
    fn weights(&self) -> Matrix {
        let mut weights = Matrix::zeros(self.terms.len(), self.treatments.rows());
        for (q, own) in self.terms.iter().enumerate() {
            own.iter().for_each(|(i, weight)| weights.row_mut(q)[*i] += weight);
        }
        weights
    }
}

impl Effect {
    /// The share of the variance of sums, all together, that one more row of a study would take away, for
    /// each of `rows`; see [`variance_reduction_per_row`](Self::variance_reduction_per_row).
    ///
    /// # Errors
    /// As [`variance_reduction_per_row`](Self::variance_reduction_per_row).
    pub fn share_taken(&self, sums: &EstimandWeights, study: usize, rows: &Table) -> Result<Vec<f64>> {
        let told = sums.estimate(&self.at(&sums.treatments)?);
        let variance: f64 = (0..sums.terms.len()).map(|q| told.covariance[(q, q)]).sum();
        let taken = self.variance_reduction_per_row(&sums.treatments, &sums.weights(), study, rows)?;
        // Of nothing nothing can be taken.
        let of =
            |row: usize| if variance > 0.0 { taken.column(row).iter().sum::<f64>() / variance } else { 0.0 };
        Ok((0..rows.rows()).map(of).collect())
    }
}

impl DataSupport {
    /// Each number the lesser of both.
    fn elementwise_min(&self, other: &Self) -> Self {
        Self {
            variance_explained_by_first: self
                .variance_explained_by_first
                .min(other.variance_explained_by_first),
            resolved_by_rest: self.resolved_by_rest.min(other.resolved_by_rest),
            effective_rows: self.effective_rows.min(other.effective_rows),
            weight_sum: self.weight_sum.min(other.weight_sum),
            population_explained: self.population_explained.min(other.population_explained),
            overlap: self.overlap.min(other.overlap),
        }
    }
}
