//! How sure values are that come from coalitions, and what covariances have in common.

use rayon::prelude::*;

use super::{Engine, Explainer, NO_POSTERIOR};
use crate::attribution::observational::ObservationalGame;
use crate::attribution::observational::covariance::Pairs;
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation, Fact, Provenance};
use crate::index::Index;
use crate::linalg::Matrix;
use crate::posterior::{Functionals, Posterior};
use crate::table::Table;

impl Explainer<'_> {
    /// The [shares of the variance](Explainer::variance_shares) as an explanation, for tables, plots and pages: its predictions are the variances of f at the rows,
    /// its base value that of the base value, and values say by how much each player's being known moves the one towards the other. In the squared units of
    /// the output; exact to rounding, of which there is no bound.
    ///
    /// # Errors
    /// As [`variance_shares`](Explainer::variance_shares).
    pub fn explain_variance(&self, rows: &Table) -> Result<Explanation> {
        let posterior =
            self.posterior.ok_or_else(|| Error::parameter("covariance", self.sure, NO_POSTERIOR))?;
        let shares = self.variance_shares(rows)?;
        let data = rows.conform(self.model.columns())?;
        let (n, p) = (data.rows(), self.groups().players().len());
        let each = || (0..n).flat_map(|r| shares.iter().map(move |own| own.row(r)));
        let game = match &self.engine {
            Engine::Products(engine) => engine.game.name(),
            Engine::Conditioning(_) | Engine::Probabilities(_) | Engine::Independent(_) => "",
        };
        let told =
            "the variance of the output under the posterior, in squared units: how unsure the model is";
        Ok(Explanation {
            index: Index::Shapley,
            players: self.groups().players().to_vec(),
            subsets: None,
            output_names: self.model.output_names.iter().map(|name| format!("variance of {name}")).collect(),
            values: each().flat_map(|row| &row[..p]).copied().collect(),
            base_values: each().map(|row| row[p]).collect(),
            predictions: posterior.variance(&data)?.data().to_vec(),
            data,
            row_numbers: (0..n).collect(),
            exactness: Exactness::Unstated,
            uncertainty: None,
            duels: None,
            provenance: Provenance {
                game: game.into(),
                absent: self.absent(),
                model: self.model.facts(),
                run: vec![Fact::new("riesz", env!("CARGO_PKG_VERSION")), Fact::new("explained", told)],
            },
        })
    }
}

/// The covariance of the values of each row of the observational game under `posterior`, rows × outputs × players × players.
pub(super) fn by_coalitions(
    game: &ObservationalGame<'_>,
    rows: &Table,
    posterior: &Posterior<'_>,
) -> Result<Vec<f64>> {
    if posterior.mirror().is_some() {
        let allowed =
            "of duels it is known how sure values are in games that take a background or a baseline";
        return Err(Error::parameter("game", "observational", allowed));
    }
    let pairs = if posterior.prior() > 0.0 { Pairs::Same } else { Pairs::None };
    let p = game.groups.players().len();
    let mut out = Vec::new();
    let together = game.rows_with_covariances();
    for start in (0..rows.rows()).step_by(together) {
        let chunk: Vec<usize> = (start..rows.rows().min(start + together)).collect();
        let all = finite(game.posterior_functionals(&rows.select_rows(&chunk), pairs)?)?;
        let of = |r: usize| posterior.covariance(&part(&all, r * p..(r + 1) * p));
        let found: Vec<Vec<Matrix>> = (0..chunk.len()).into_par_iter().map(of).collect();
        found.iter().flatten().for_each(|covariance| out.extend(entries(covariance)));
    }
    Ok(out)
}

/// Some of many functionals.
fn part(all: &Functionals, some: std::ops::Range<usize>) -> Functionals {
    let of = |matrix: &Matrix, rows: std::ops::Range<usize>| {
        let (count, own) = (rows.len(), rows.flat_map(|i| &matrix.row(i)[some.clone()]).copied().collect());
        Matrix::from_row_major(count, some.len(), own)
    };
    Functionals {
        columns: of(&all.columns, 0..all.columns.rows()),
        prior: of(&all.prior, some.clone()),
        constants: all.constants[some.clone()].to_vec(),
    }
}

/// The entries of a covariance, which rounding may leave less than symmetric, and a variance of 0 below it.
pub(super) fn entries(covariance: &Matrix) -> impl Iterator<Item = f64> {
    let p = covariance.rows();
    (0..p * p).map(move |at| {
        let (j, l) = (at / p, at % p);
        if j == l {
            return covariance[(j, j)].max(0.0);
        }
        0.5 * (covariance[(j.min(l), j.max(l))] + covariance[(j.max(l), j.min(l))])
    })
}

/// The functionals, if they are numbers.
pub(super) fn finite(all: Functionals) -> Result<Functionals> {
    if all.columns.data().iter().chain(all.prior.data()).any(|v| !v.is_finite()) {
        return Err(Error::Overflow {
            what: "a covariance of values".into(),
            remedy: "rows are too far from the data the model was fitted on",
        });
    }
    Ok(all)
}
