//! What one more row of a study would be worth: how much of the variance of an effect it would take away,
//! whatever it turns out to be.

use super::effect::{Effect, Model};
use super::study_chain::{Link, Outcome};
use super::target_population::PopulationWeights;
use crate::error::{Error, Result, sized};
use crate::linalg::Matrix;
use crate::table::Table;

/// Sums of what an outcome is at rows, times weights (sums × rows), and of its constant, so many times.
struct WeightedSums {
    rows: Table,
    weights: Matrix,
    constants: Vec<f64>,
}

impl Effect {
    /// By how much one more row would lower the variance of sums `Σ_q by_sq g(x_q)`, effects or contrasts of
    /// effects at treatments (sums × treatments): sums × rows, for each of `rows`, which has the columns that
    /// study number `study`, from 0, is told by (treatments and covariates of the first, mediators of
    /// others), but not what follows, which makes no difference.
    ///
    /// Hyper-parameters stay, and so do the covariates that are averaged over. Of study s it is the part
    /// [`UncertaintyCause::Study(s)`](super::UncertaintyCause::Study) and, for the first, the interaction
    /// that fall: a Gaussian observation lowers a variance by the squared covariance with it over its own
    /// variance, `(E K̄(y, ỹ))² / (k̄(ỹ, ỹ) + σ²)` in the last study and `V r(x, ω)² / (r(ω, ω) + λ)` in
    /// others. Both equal refits, by the same landmarks if there are any. Cost n² (rows + treatments) a draw
    /// of n rows, or landmarks.
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Shape`]; [`Error::Parameter`] for a study that is not there;
    /// [`Error::Unused`] for front doors and where the outcome depends on covariates that studies share.
    pub fn variance_reduction_per_row(
        &self,
        treatments: &Table,
        by: &Matrix,
        study: usize,
        rows: &Table,
    ) -> Result<Matrix> {
        let why = "one a row of treatments";
        sized("the weights of treatments", "columns", treatments.rows(), by.cols(), why)?;
        let mut all = Matrix::zeros(by.rows(), rows.rows());
        for (weight, model) in self.models() {
            let own = match model {
                Model::Link(link) => link.variance_reduction_per_row(self, (treatments, by), study, rows)?,
                Model::Iterated(own) if study == 0 => {
                    own.worth(&treatments.align_to(own.treatments.columns())?, by, rows)?
                }
                Model::Iterated(_) => {
                    return Err(Error::parameter("study", study, "the effect is from one table, number 0"));
                }
            };
            all.data_mut().iter_mut().zip(own.data()).for_each(|(all, own)| *all += weight * own);
        }
        Ok(all)
    }
}

/// The squares of covariances (rows × sums) over variances of rows, times a scale: sums × rows.
fn variance_reduction(crossed: &Matrix, variances: &[f64], scale: f64) -> Matrix {
    let mut out = crossed.transpose();
    for s in 0..out.rows() {
        out.row_mut(s).iter_mut().zip(variances).for_each(|(v, own)| *v = scale * *v * *v / own);
    }
    out
}

impl Link {
    fn variance_reduction_per_row(
        &self,
        effect: &Effect,
        (treatments, by): (&Table, &Matrix),
        study: usize,
        rows: &Table,
    ) -> Result<Matrix> {
        let unused = |belongs: &str| {
            let setting = "what one more row is worth".into();
            Error::Unused { setting, belongs: belongs.into() }
        };
        if self.shares() {
            return Err(unused("effects whose studies share no covariates that the outcome depends on"));
        }
        let asked = treatments.align_to(self.points.columns())?;
        let turned = by.transpose();
        let columns = self.kernel.cross_gram(&self.points, &asked).matmul(&turned);
        let phi = self.reading.row_cross_covariance(&columns);
        if study > self.study {
            let constants = (0..by.rows()).map(|s| by.row(s).iter().sum()).collect();
            let rows_of = self.mediators().clone();
            let sums = WeightedSums { rows: rows_of, weights: self.solver.weights(&phi), constants };
            return self.outcome.variance_reduction_per_row(sums, study, rows);
        }
        // Rows of the first study, by what its kernel makes of them with the query, with its points and with
        // themselves.
        let x = rows.align_to(self.points.columns())?;
        let mut with_points = self.kernel.cross_gram(&self.points, &x);
        let mut own = self.kernel.diagonal(&x);
        let mut with_query = self.kernel.cross_gram(&x, &asked).matmul(&turned);
        match (&self.others, &effect.population()) {
            (Some(block), Some(PopulationWeights { covariates, weights, .. })) => {
                let z = rows.align_to(block.rows.columns())?;
                let of_people = block.kernel.cross_gram(&z, covariates).matvec(weights);
                let between = block.kernel.cross_gram(&block.rows, &z);
                with_points.data_mut().iter_mut().zip(between.data()).for_each(|(v, k)| *v *= k);
                own.iter_mut().zip(block.kernel.diagonal(&z)).for_each(|(x, z)| *x *= z);
                for (p, of_people) in of_people.iter().enumerate() {
                    with_query.row_mut(p).iter_mut().for_each(|v| *v *= of_people);
                }
            }
            _ if self.is_direct() => {}
            _ => return Err(unused("effects that are averaged over covariates, or are as they are seen")),
        }
        Ok(self.row_variance_reduction(&phi, with_query, &with_points, &own))
    }

    /// By what points make of queries, and by the kernel of new rows with these, of points with them and of
    /// them with themselves.
    fn row_variance_reduction(
        &self,
        phi: &Matrix,
        with_query: Matrix,
        with_points: &Matrix,
        own: &[f64],
    ) -> Matrix {
        let (crossed, mut left) = self.solver.posterior_of_rows(phi, with_points, with_query, own);
        left.iter_mut().for_each(|v| *v += self.ridge);
        variance_reduction(&crossed, &left, self.scale())
    }
}

impl Outcome {
    fn variance_reduction_per_row(&self, sums: WeightedSums, study: usize, rows: &Table) -> Result<Matrix> {
        let number = match self {
            Self::Process(own) => own.study,
            Self::Link(own) => own.study,
        };
        let (points, kernel) = (self.points(), self.kernel());
        let turned = sums.weights.transpose();
        let columns = kernel.cross_gram(points, &sums.rows).matmul(&turned);
        match self {
            Self::Link(own) if study > number => {
                let weights = own.solver.weights(&own.reading.row_cross_covariance(&columns));
                let next = WeightedSums { rows: own.mediators().clone(), weights, constants: sums.constants };
                own.outcome.variance_reduction_per_row(next, study, rows)
            }
            _ if study > number => {
                let allowed = format!("there are studies 0 to {number}");
                Err(Error::parameter("study", study, allowed))
            }
            Self::Link(own) => {
                let x = rows.align_to(points.columns())?;
                let phi = own.reading.row_cross_covariance(&columns);
                let with_query = kernel.cross_gram(&x, &sums.rows).matmul(&turned);
                Ok(own.row_variance_reduction(
                    &phi,
                    with_query,
                    &kernel.cross_gram(points, &x),
                    &kernel.diagonal(&x),
                ))
            }
            Self::Process(own) => {
                let y = rows.align_to(points.columns())?;
                let with_query = kernel.cross_gram(&y, &sums.rows).matmul(&turned);
                Ok(own.row_variance_reduction((&columns, &sums.constants), with_query, &y))
            }
        }
    }
}

impl super::outcome_gp::OutcomeGp {
    /// By functionals, their kernel with new rows, and these.
    pub(super) fn row_variance_reduction(
        &self,
        (columns, constants): (&Matrix, &[f64]),
        mut with_query: Matrix,
        y: &Table,
    ) -> Matrix {
        let level = self.intercept_variance();
        for p in 0..with_query.rows() {
            with_query.row_mut(p).iter_mut().zip(constants).for_each(|(v, c)| *v += level * c);
        }
        let phi = self.with_points(columns, constants);
        let of_rows = self.with_points(&self.kernel().cross_gram(self.points(), y), &vec![1.0; y.rows()]);
        let own: Vec<f64> = self.kernel().diagonal(y).iter().map(|v| v + level).collect();
        let (crossed, mut left) = self.solver().posterior_of_rows(&phi, &of_rows, with_query, &own);
        left.iter_mut().for_each(|v| *v += self.noise());
        variance_reduction(&crossed, &left, 1.0)
    }
}
