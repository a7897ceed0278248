//! Of whom an effect is asked: of all people of the first study, or of others.

use super::effect::Effect;
use super::link::{Link, Outcome};
use super::reading::Reading;
use super::tune::regression;
use crate::error::{Error, Result, sized};
use crate::linalg::{Cholesky, Matrix, dot};
use crate::table::Table;

/// People, by the covariates of the first study that its effect is averaged over.
#[derive(Debug, Clone)]
pub enum Whom {
    /// Another population: rows of these covariates, and weights that add up to 1.
    Population(Table, Vec<f64>),
    /// Those who were treated so (one row of treatments): the effect of another treatment on them.
    Treated(Table),
    /// Those of whom some covariates are these (one row).
    Like(Table),
}

impl Effect {
    /// The same effect on others. Whom is known by what the study's covariates are like given treatments, or given some of them, is a regression whose kernel and ridge are those that tell rows that are
    /// left out best. What it leaves open counts as [`Cause::Adjustment`](super::Cause::Adjustment), with the mean effect on its rows, not how uncertain that is; a population counts as known. Cost n³.
    ///
    /// # Errors
    /// [`Error::Unused`] where no covariates are averaged over; as [`Table::conform`]; [`Error::Parameter`] for weights that do not add up to 1, and more rows than one.
    pub fn of(&self, whom: &Whom) -> Result<Self> {
        let of = |(weight, own): &(f64, Outcome)| match own {
            Outcome::Link(link) => Ok((*weight, Outcome::Link(Box::new(asked(link, whom)?)))),
            Outcome::Process(_) => Ok((*weight, own.clone())),
        };
        Ok(Self::new(self.parts().iter().map(of).collect::<Result<_>>()?))
    }
}

fn asked(link: &Link, whom: &Whom) -> Result<Link> {
    let Some(others) = &link.others else {
        let belongs =
            "effects that are averaged over covariates (back-door): this one does not depend on any";
        return Err(Error::Unused { setting: "whom the effect is on".into(), belongs: belongs.into() });
    };
    if link.shares() {
        let belongs = "effects whose studies share no covariates that the outcome depends on";
        return Err(Error::Unused { setting: "whom the effect is on".into(), belongs: belongs.into() });
    }
    match whom {
        Whom::Population(members, weights) => {
            let members = members.conform(others.rows.columns())?;
            sized("the list of weights", "numbers", members.rows(), weights.len(), "one a member")?;
            let sum: f64 = weights.iter().sum();
            if sum.is_nan() || (sum - 1.0).abs() > 1e-6 || weights.iter().any(|w| *w < 0.0) {
                let allowed = "they are not negative and add up to 1";
                return Err(Error::parameter("weights of members", format!("a sum of {sum}"), allowed));
            }
            let with_rows = others.kernel.cross_gram(&others.rows, &members);
            let reading = Reading::of_members(&with_rows, &others.kernel.gram(&members), weights);
            Ok(link.read(reading, None))
        }
        Whom::Treated(at) => {
            let at = one(at.conform(link.points.columns())?)?;
            let gram = others.kernel.gram(&others.rows);
            let (weights, open) = like(&link.points, &at, &gram)?;
            let reading = Reading::of_members(&gram, &gram, &weights);
            Ok(link.read(reading, Some(half(link, &gram, open))))
        }
        Whom::Like(at) => {
            let of = |own: &crate::table::Column| others.rows.index_of(&own.name);
            let places = at.columns().iter().map(of).collect::<Result<Vec<_>>>()?;
            let rows = others.rows.select_columns(&places);
            let at = one(at.conform(rows.columns())?)?;
            // Members of the study with what is given instead of their own.
            let mut columns: Vec<Vec<f64>> =
                (0..others.rows.width()).map(|j| others.rows.column(j).to_vec()).collect();
            places.iter().enumerate().for_each(|(k, j)| columns[*j].fill(at.get(0, k)));
            let members =
                Table::from_column_major(others.rows.columns().to_vec(), rows.rows(), columns.concat())?;
            let (with_rows, gram) =
                (others.kernel.cross_gram(&others.rows, &members), others.kernel.gram(&members));
            let (weights, open) = match places.len() == members.width() {
                // All of them are alike.
                true => (vec![1.0 / members.rows() as f64; members.rows()], 0.0),
                false => like(&rows, &at, &gram)?,
            };
            let reading = Reading::of_members(&with_rows, &gram, &weights);
            Ok(link.read(reading, Some(half(link, &with_rows, open))))
        }
    }
}

fn one(at: Table) -> Result<Table> {
    match at.rows() {
        1 => Ok(at),
        rows => Err(Error::parameter("whom the effect is on", format!("{rows} rows"), "it is one row")),
    }
}

/// How much members count for those who are as `at`, by a regression of functions with this kernel on `rows`, and what share of the prior variance it leaves open.
fn like(rows: &Table, at: &Table, of: &Matrix) -> Result<(Vec<f64>, f64)> {
    let (kernel, ridge) = regression(rows, of)?;
    let mut gram = kernel.gram(rows);
    gram.add_diagonal(|_| ridge);
    let cross = kernel.cross_gram(rows, at).column(0);
    let weights = Cholesky::new(gram, "kernel matrix of what is given plus ridge")?.solve_vector(&cross);
    let open = kernel.diagonal(at)[0] - dot(&weights, &cross);
    Ok((weights, open.max(0.0)))
}

/// A root of what is left open of the distribution of members: of a query with members, by the kernel of rows with members.
fn half(link: &Link, with_rows: &Matrix, open: f64) -> Matrix {
    let scale = (open / with_rows.cols() as f64).sqrt();
    let mut half = with_rows.clone();
    for (i, h) in link.solved().iter().enumerate() {
        half.row_mut(i).iter_mut().for_each(|v| *v *= scale * h);
    }
    half
}
