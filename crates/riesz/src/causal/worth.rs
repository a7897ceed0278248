//! What one more row of a study would be worth: how much of the variance of an effect it would take away, whatever it turns out to be.

use super::effect::Effect;
use super::link::{Link, Outcome};
use super::people::People;
use crate::error::{Error, Result, sized};
use crate::linalg::{Matrix, dot};
use crate::posterior::Functionals;
use crate::table::Table;

/// A sum of what an outcome is at rows, times weights, and of its constant, so many times.
struct Sum {
    rows: Table,
    weights: Vec<f64>,
    constant: f64,
}

impl Effect {
    /// By how much one more row would lower the variance of `Σ_q by_q g(x_q)`, an effect or a contrast of effects at treatments: for each of `rows`, which has the columns that study number `study`, from 0, is
    /// told by (treatments and covariates of the first, mediators of others), but not what follows, which makes no difference.
    ///
    /// Hyper-parameters stay, and so do the covariates that are averaged over. Of study s it is the part [`Cause::Study(s)`](super::Cause::Study) and, for the first, the interaction that fall: a Gaussian
    /// observation lowers a variance by the squared covariance with it over its own variance, `(E K̄(y, ỹ))² / (k̄(ỹ, ỹ) + σ²)` in the last study and `V r(x, ω)² / (r(ω, ω) + λ)` in others. Both equal
    /// refits. Cost n³ + n² rows a draw.
    ///
    /// # Errors
    /// As [`Table::conform`]; [`Error::Shape`]; [`Error::Parameter`] for a study that is not there; [`Error::Unused`] for front doors and where the outcome depends on covariates that studies share.
    pub fn worth(&self, treatments: &Table, by: &[f64], study: usize, rows: &Table) -> Result<Vec<f64>> {
        sized(
            "the weights of treatments",
            "numbers",
            treatments.rows(),
            by.len(),
            "one a row of treatments",
        )?;
        let mut all = vec![0.0; rows.rows()];
        for (weight, link) in self.links() {
            let own = link.worth(self, (treatments, by), study, rows)?;
            all.iter_mut().zip(own).for_each(|(all, own)| *all += weight * own);
        }
        Ok(all)
    }
}

/// The squares of covariances over variances.
fn lowered(crossed: &[f64], variances: impl Fn(usize) -> f64) -> Vec<f64> {
    crossed.iter().enumerate().map(|(p, own)| own * own / variances(p)).collect()
}

impl Link {
    fn worth(
        &self,
        effect: &Effect,
        (treatments, by): (&Table, &[f64]),
        study: usize,
        rows: &Table,
    ) -> Result<Vec<f64>> {
        let unused = |belongs: &str| {
            let setting = "what one more row is worth".into();
            Error::Unused { setting, belongs: belongs.into() }
        };
        if self.shares() {
            return Err(unused("effects whose studies share no covariates that the outcome depends on"));
        }
        let given = effect.queries(self, treatments)?;
        let given = Functionals {
            columns: Matrix::column_vector(given.columns.matvec(by)),
            prior: Matrix::column_vector(vec![dot(&given.prior.matvec(by), by)]),
            constants: vec![by.iter().sum()],
        };
        let (weights, _) = self.weights(&given);
        if study > self.study {
            let sum = Sum {
                rows: self.mediators(),
                weights: weights.row(0).to_vec(),
                constant: given.constants[0],
            };
            return self.outcome.worth(sum, study, rows);
        }
        // Rows of the first study, by what its kernel makes of them with the query, with its rows and with themselves.
        let x = rows.conform(self.points.columns())?;
        let with_points = self.kernel.cross_gram(&self.points, &x);
        let own = self.kernel.diagonal(&x);
        let asked = treatments.conform(self.points.columns())?;
        let with_query = self.kernel.cross_gram(&x, &asked).matvec(by);
        let (with_query, with_rows, own) = match (&self.others, &effect.people()) {
            (Some(block), Some(People { covariates, weights, .. })) => {
                let z = rows.conform(block.rows.columns())?;
                let of_people = block.kernel.cross_gram(&z, covariates).matvec(weights);
                let mut with_rows = block.kernel.cross_gram(&block.rows, &z);
                with_rows.data_mut().iter_mut().zip(with_points.data()).for_each(|(v, k)| *v *= k);
                let own = own.iter().zip(block.kernel.diagonal(&z)).map(|(x, z)| x * z).collect();
                (with_query.iter().zip(of_people).map(|(x, z)| x * z).collect(), with_rows, own)
            }
            _ if self.is_direct() => (with_query, with_points, own),
            _ => return Err(unused("effects that are averaged over covariates, or are as they are seen")),
        };
        Ok(self.row_lowers(weights.row(0), &with_query, with_rows, &own))
    }

    /// By the weights of a query, and by the kernel of new rows with it, with the study's rows and with themselves.
    fn row_lowers(&self, weights: &[f64], with_query: &[f64], with_rows: Matrix, own: &[f64]) -> Vec<f64> {
        let known = with_rows.transpose().matvec(weights);
        let crossed: Vec<f64> = with_query.iter().zip(known).map(|(all, known)| all - known).collect();
        let mut half = with_rows;
        self.factor.solve_lower_in_place(&mut half);
        let left = |p: usize| own[p] - (0..half.rows()).map(|i| half[(i, p)].powi(2)).sum::<f64>();
        let lowered = lowered(&crossed, |p| left(p).max(0.0) + self.ridge);
        lowered.iter().map(|own| own * self.scale()).collect()
    }
}

impl Outcome {
    fn worth(&self, sum: Sum, study: usize, rows: &Table) -> Result<Vec<f64>> {
        let number = match self {
            Self::Process(own) => own.study,
            Self::Link(own) => own.study,
        };
        let (points, kernel) = (self.points(), self.kernel());
        let columns = kernel.cross_gram(points, &sum.rows).matvec(&sum.weights);
        let prior = dot(&kernel.gram(&sum.rows).matvec(&sum.weights), &sum.weights);
        let given = Functionals {
            columns: Matrix::column_vector(columns),
            prior: Matrix::column_vector(vec![prior]),
            constants: vec![sum.constant],
        };
        match self {
            Self::Link(own) if study > number => {
                let (weights, _) = own.weights(&given);
                let next =
                    Sum { rows: own.mediators(), weights: weights.row(0).to_vec(), constant: sum.constant };
                own.outcome.worth(next, study, rows)
            }
            _ if study > number => {
                let allowed = format!("there are studies 0 to {number}");
                Err(Error::parameter("study", study, allowed))
            }
            Self::Link(own) => {
                let x = rows.conform(points.columns())?;
                let (weights, _) = own.weights(&given);
                let with_query = kernel.cross_gram(&x, &sum.rows).matvec(&sum.weights);
                let with_rows = kernel.cross_gram(points, &x);
                Ok(own.row_lowers(weights.row(0), &with_query, with_rows, &kernel.diagonal(&x)))
            }
            Self::Process(own) => {
                let y = rows.conform(points.columns())?;
                Ok(own.row_lowers(&given, &kernel.cross_gram(&y, &sum.rows).matvec(&sum.weights), &y))
            }
        }
    }
}

impl super::process::Process {
    /// By a functional, its kernel with new rows, and these.
    fn row_lowers(&self, given: &Functionals, with_query: &[f64], y: &Table) -> Vec<f64> {
        let constant = given.constants[0];
        let half = self.half(given);
        let columns = self.kernel().cross_gram(self.points(), y);
        let of_rows =
            self.half(&Functionals { columns, prior: Matrix::zeros(0, 0), constants: vec![1.0; y.rows()] });
        let known = of_rows.transpose().matvec(&half.column(0));
        let level = self.level();
        let crossed: Vec<f64> =
            with_query.iter().zip(known).map(|(all, known)| all + level * constant - known).collect();
        let own = self.kernel().diagonal(y);
        let left =
            |p: usize| own[p] + level - (0..of_rows.rows()).map(|i| of_rows[(i, p)].powi(2)).sum::<f64>();
        lowered(&crossed, |p| left(p).max(0.0) + self.noise())
    }
}
