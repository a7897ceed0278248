//! Value of information: the reduction of an effect's variance by one more row of a study, which does not
//! depend on the row's outcome.

use super::effect::{Effect, Model};
use super::study_chain::{ChainedOutcome, StudyLink};
use super::target_population::PopulationWeights;
use crate::error::{Error, Result, sized};
use crate::linalg::Matrix;
use crate::table::Table;

/// Weighted sums of an outcome at rows (`weights`, sums × rows), plus multiples of its constant
/// (`constants`).
struct WeightedSums {
    rows: Table,
    weights: Matrix,
    constants: Vec<f64>,
}

impl Effect {
    /// Returns the reduction of the variance of sums `Σ_q weights_sq g(x_q)` by one more row, for each of
    /// `rows`: sums × rows. The sums are effects, or contrasts of effects at treatments, with weights `sums`
    /// (sums × treatments). A row has the columns from which study number `study`, from 0, predicts:
    /// treatments and covariates of the first study, mediators of others. It does not have the predicted
    /// columns, which make no difference.
    ///
    /// Hyper-parameters stay fixed, and so do the covariates that are averaged over. For study s, the part
    /// [`UncertaintyCause::Study(s)`](super::UncertaintyCause::Study) decreases, and for the first study the
    /// interaction as well. A Gaussian observation reduces a variance by the squared covariance with it,
    /// divided by its own variance. This is `(E K̄(y, ỹ))² / (k̄(ỹ, ỹ) + σ²)` in the last study and `V r(x,
    /// ω)² / (r(ω, ω) + λ)` in others. Both are equal to refits, with the same landmarks if there are any.
    /// Cost n² (rows + treatments) per draw for n rows, or landmarks.
    ///
    /// # Errors
    /// Errors of [`Table::align_to`]; [`Error::Shape`]; [`Error::Parameter`] for a study that does not exist;
    /// [`Error::Unused`] for front doors, and if the outcome depends on covariates that studies share.
    pub fn variance_reduction_per_row(
        &self,
        treatments: &Table,
        sums: &Matrix,
        study: usize,
        rows: &Table,
    ) -> Result<Matrix> {
        let why = "one per row of treatments";
        sized("the weights of treatments", "columns", treatments.rows(), sums.cols(), why)?;
        let mut reduction = Matrix::zeros(sums.rows(), rows.rows());
        for (weight, model) in self.models() {
            let model_reduction = match model {
                Model::Link(link) => {
                    link.variance_reduction_per_row(self, (treatments, sums), study, rows)?
                }
                Model::Iterated(iterated) if study == 0 => iterated.variance_reduction_per_row(
                    &treatments.align_to(iterated.treatments.columns())?,
                    sums,
                    rows,
                )?,
                Model::Iterated(_) => {
                    return Err(Error::parameter(
                        "study",
                        study,
                        "the effect is from one table, which is study 0",
                    ));
                }
            };
            reduction.add_times(weight, &model_reduction);
        }
        Ok(reduction)
    }
}

/// Returns scale times squared covariances (`crossed`, rows × sums) divided by the variances of the rows:
/// sums × rows.
fn variance_reduction(crossed: &Matrix, variances: &[f64], scale: f64) -> Matrix {
    let mut out = crossed.transpose();
    for s in 0..out.rows() {
        out.row_mut(s).iter_mut().zip(variances).for_each(|(v, variance)| *v = scale * *v * *v / variance);
    }
    out
}

impl StudyLink {
    fn variance_reduction_per_row(
        &self,
        effect: &Effect,
        (treatments, by): (&Table, &Matrix),
        study: usize,
        rows: &Table,
    ) -> Result<Matrix> {
        let unused = |belongs: &str| {
            let setting = "the value of another row".into();
            Error::Unused { setting, belongs: belongs.into() }
        };
        if self.shares() {
            return Err(unused("effects whose studies share no covariates that the outcome depends on"));
        }
        let queried = treatments.align_to(self.points.columns())?;
        let weights_by_query = by.transpose();
        let columns = self.kernel.cross_gram(&self.points, &queried).matmul(&weights_by_query);
        let phi = self.query_embedding.row_cross_covariance(&columns);
        if study > self.study {
            let constants = (0..by.rows()).map(|s| by.row(s).iter().sum()).collect();
            let rows_of = self.mediators().clone();
            let sums = WeightedSums { rows: rows_of, weights: self.solver.weights(&phi), constants };
            return self.outcome.variance_reduction_per_row(sums, study, rows);
        }
        // Rows of the first study, from their kernel with the query, with the study's points and between the
        // rows themselves.
        let x = rows.align_to(self.points.columns())?;
        let mut with_points = self.kernel.cross_gram(&self.points, &x);
        let mut row_kernel = self.kernel.diagonal(&x);
        let mut with_query = self.kernel.cross_gram(&x, &queried).matmul(&weights_by_query);
        match (&self.covariate_block, &effect.population()) {
            (Some(block), Some(PopulationWeights { covariates, weights, .. })) => {
                let z = rows.align_to(block.rows.columns())?;
                let of_people = block.kernel.cross_gram(&z, covariates).matvec(weights);
                let between = block.kernel.cross_gram(&block.rows, &z);
                with_points.data_mut().iter_mut().zip(between.data()).for_each(|(v, k)| *v *= k);
                row_kernel.iter_mut().zip(block.kernel.diagonal(&z)).for_each(|(x, z)| *x *= z);
                with_query.scale_rows(of_people);
            }
            _ if self.is_direct() => {}
            _ => return Err(unused("effects that are averaged over covariates, or need no adjustment")),
        }
        Ok(self.row_variance_reduction(&phi, with_query, &with_points, &row_kernel))
    }

    /// Returns the variance reduction. `phi` is the embedding of queries at points. The kernels are those of
    /// new rows with queries, of points with new rows, and of new rows with themselves.
    fn row_variance_reduction(
        &self,
        phi: &Matrix,
        with_query: Matrix,
        with_points: &Matrix,
        prior_variances: &[f64],
    ) -> Matrix {
        let (crossed, mut left) =
            self.solver.posterior_of_rows(phi, with_points, with_query, prior_variances);
        left.iter_mut().for_each(|v| *v += self.ridge);
        variance_reduction(&crossed, &left, self.scale())
    }
}

impl ChainedOutcome {
    fn variance_reduction_per_row(&self, sums: WeightedSums, study: usize, rows: &Table) -> Result<Matrix> {
        let number = match self {
            Self::Process(process) => process.study,
            Self::Link(link) => link.study,
        };
        let (points, kernel) = (self.points(), self.kernel());
        let weights_by_query = sums.weights.transpose();
        let columns = kernel.cross_gram(points, &sums.rows).matmul(&weights_by_query);
        match self {
            Self::Link(link) if study > number => {
                let weights = link.solver.weights(&link.query_embedding.row_cross_covariance(&columns));
                let next =
                    WeightedSums { rows: link.mediators().clone(), weights, constants: sums.constants };
                link.outcome.variance_reduction_per_row(next, study, rows)
            }
            _ if study > number => {
                let allowed = format!("it is a number from 0 to {number}");
                Err(Error::parameter("study", study, allowed))
            }
            Self::Link(link) => {
                let x = rows.align_to(points.columns())?;
                let phi = link.query_embedding.row_cross_covariance(&columns);
                let with_query = kernel.cross_gram(&x, &sums.rows).matmul(&weights_by_query);
                Ok(link.row_variance_reduction(
                    &phi,
                    with_query,
                    &kernel.cross_gram(points, &x),
                    &kernel.diagonal(&x),
                ))
            }
            Self::Process(process) => {
                let y = rows.align_to(points.columns())?;
                let with_query = kernel.cross_gram(&y, &sums.rows).matmul(&weights_by_query);
                Ok(process.row_variance_reduction((&columns, &sums.constants), with_query, &y))
            }
        }
    }
}

impl super::outcome_gp::OutcomeGp {
    /// Returns the variance reduction for functionals, their kernel with new rows, and the new rows.
    pub(super) fn row_variance_reduction(
        &self,
        (columns, constants): (&Matrix, &[f64]),
        mut with_query: Matrix,
        y: &Table,
    ) -> Matrix {
        let level = self.intercept_variance();
        with_query.add_outer(std::iter::repeat(level), constants);
        let phi = self.with_points(columns, constants);
        let of_rows = self.with_points(&self.kernel().cross_gram(self.points(), y), &vec![1.0; y.rows()]);
        let prior_variances: Vec<f64> = self.kernel().diagonal(y).iter().map(|v| v + level).collect();
        let (crossed, mut left) =
            self.solver().posterior_of_rows(&phi, &of_rows, with_query, &prior_variances);
        left.iter_mut().for_each(|v| *v += self.noise());
        variance_reduction(&crossed, &left, 1.0)
    }
}
