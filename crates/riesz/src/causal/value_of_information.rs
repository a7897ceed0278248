//! Value of information: the reduction of an effect's variance by one more row of a study, which does not
//! depend on the row's outcome.

use super::effect::{Effect, Model};
use super::kernel_regression::KernelRegression;
use super::outcome_gp::{OutcomeGp, OutcomeGpParameters};
use super::study_chain::{ChainedOutcome, StudyLink};
use super::target_population::PopulationWeights;
use crate::error::{Error, Result, sized, unused};
use crate::linalg::{Matrix, multiply_entries};
use crate::table::Table;

/// The quantity that is computed here, in messages.
const SETTING: &str = "the value of another row";

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
                    link.check_unshared(SETTING)?;
                    let queried_rows = treatments.align_to(link.points.columns())?;
                    let constants = (0..sums.rows()).map(|s| sums.row(s).iter().sum()).collect();
                    let queried = WeightedSums { rows: queried_rows, weights: sums.clone(), constants };
                    link.variance_reduction_per_row(Some(self), queried, study, rows)?
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

/// Returns the scale times the squared covariances of sums with new rows, divided by the variances of the
/// rows with noise: sums × rows. The kernels are those of points with queries, of points with new rows, of
/// new rows with queries, and of each new row with itself.
fn variance_reduction(
    solver: &KernelRegression,
    (phi, with_points, with_query): (&Matrix, &Matrix, Matrix),
    prior_variances: &[f64],
    (noise, scale): (f64, f64),
) -> Matrix {
    let (covariances, variances) = solver.posterior_of_rows(phi, with_points, with_query, prior_variances);
    let mut out = covariances.transpose();
    for s in 0..out.rows() {
        let row = out.row_mut(s).iter_mut().zip(&variances);
        row.for_each(|(v, variance)| *v = scale * *v * *v / (variance + noise));
    }
    out
}

impl StudyLink {
    /// Returns the variance reductions of sums of this study's expectation. `effect` has the population if
    /// this is the first study.
    fn variance_reduction_per_row(
        &self,
        effect: Option<&Effect>,
        sums: WeightedSums,
        study: usize,
        rows: &Table,
    ) -> Result<Matrix> {
        let weights_by_query = sums.weights.transpose();
        let columns = self.kernel.cross_gram(&self.points, &sums.rows).matmul(&weights_by_query);
        let phi = self.query_embedding.row_cross_covariance(&columns);
        if study > self.study {
            let (mediators, weights) = (self.mediators.clone(), self.solver.weights(&phi));
            let next = WeightedSums { rows: mediators, weights, constants: sums.constants };
            return match &self.outcome {
                ChainedOutcome::Link(link) => link.variance_reduction_per_row(None, next, study, rows),
                ChainedOutcome::Process(process) => process.variance_reduction_per_row(&next, study, rows),
            };
        }
        let x = rows.align_to(self.points.columns())?;
        let mut with_points = self.kernel.cross_gram(&self.points, &x);
        let mut row_kernel = self.kernel.diagonal(&x);
        let mut with_query = self.kernel.cross_gram(&x, &sums.rows).matmul(&weights_by_query);
        match (&self.covariate_block, effect.map(Effect::population)) {
            (Some(block), Some(Some(PopulationWeights { covariates, weights, .. }))) => {
                let z = rows.align_to(block.rows.columns())?;
                let population_embedding = block.kernel.cross_gram(&z, covariates).matvec(weights);
                with_points.multiply(&block.kernel.cross_gram(&block.rows, &z));
                multiply_entries(&mut row_kernel, &block.kernel.diagonal(&z));
                with_query.scale_rows(population_embedding);
            }
            (None, _) if self.query_embedding.low_rank_part.is_none() => {}
            _ => {
                let belongs = "effects that are averaged over covariates, or need no adjustment";
                return Err(unused(SETTING, belongs));
            }
        }
        let kernels = (&phi, &with_points, with_query);
        Ok(variance_reduction(&self.solver, kernels, &row_kernel, (self.ridge, self.scale())))
    }
}

impl OutcomeGp {
    fn variance_reduction_per_row(&self, sums: &WeightedSums, study: usize, rows: &Table) -> Result<Matrix> {
        if study > self.study {
            let allowed = format!("it is a number from 0 to {}", self.study);
            return Err(Error::parameter("study", study, allowed));
        }
        let (kernel, points) = (&self.parameters.kernel, &self.points);
        let weights_by_query = sums.weights.transpose();
        let columns = kernel.cross_gram(points, &sums.rows).matmul(&weights_by_query);
        let y = rows.align_to(points.columns())?;
        let with_query = kernel.cross_gram(&y, &sums.rows).matmul(&weights_by_query);
        Ok(self.row_variance_reduction((&columns, &sums.constants), with_query, &y))
    }

    /// Returns the variance reduction for functionals, their kernel with new rows, and the new rows.
    pub(super) fn row_variance_reduction(
        &self,
        (columns, constants): (&Matrix, &[f64]),
        mut with_query: Matrix,
        y: &Table,
    ) -> Matrix {
        let OutcomeGpParameters { kernel, noise, intercept_variance } = &self.parameters;
        with_query.add_outer(std::iter::repeat(*intercept_variance), constants);
        let phi = self.with_points(columns, constants);
        let row_columns = self.with_points(&kernel.cross_gram(&self.points, y), &vec![1.0; y.rows()]);
        let prior_variances: Vec<f64> = kernel.diagonal(y).iter().map(|v| v + intercept_variance).collect();
        variance_reduction(&self.solver, (&phi, &row_columns, with_query), &prior_variances, (*noise, 1.0))
    }
}
