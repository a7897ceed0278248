//! How sure values are that come from coalitions, and what covariances have in common.

use rayon::prelude::*;

use super::{Explainer, GameEngine, NO_POSTERIOR};
use crate::attribution::coalition_covariance::RowPairs;
use crate::attribution::index_computation::IndexComputation;
use crate::attribution::rule::InclusionMeasure;
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::explanation::{Exactness, Explanation, Fact, Provenance};
use crate::index::ValueIndex;
use crate::linalg::Matrix;
use crate::posterior::{Functionals, Posterior};
use crate::table::{Player, Players, Table};

impl Explainer<'_> {
    /// The [shares of the variance](Explainer::variance_shares) as an explanation, for tables, plots and
    /// pages: its predictions are the variances of f at the rows, its base value that of the base value, and
    /// values say by how much each player's being known moves the one towards the other. In the squared units
    /// of the output; exact to rounding, of which there is no bound.
    ///
    /// # Errors
    /// As [`variance_shares`](Explainer::variance_shares).
    pub fn explain_variance(&self, rows: &Table) -> Result<Explanation> {
        let posterior = self
            .posterior
            .ok_or_else(|| Error::parameter("covariance", self.with_covariance, NO_POSTERIOR))?;
        let shares = self.variance_shares(rows)?;
        let data = rows.align_to(self.model.columns())?;
        let (n, p) = (data.rows(), self.groups().players().len());
        let each = || (0..n).flat_map(|r| shares.iter().map(move |own| own.row(r)));
        let game = match &self.engine {
            GameEngine::Products(engine) => engine.game.name(),
            GameEngine::Conditioning(_) | GameEngine::Probabilities(_) | GameEngine::Independent(_) => "",
        };
        let told =
            "the variance of the output under the posterior, in squared units: how unsure the model is";
        Ok(Explanation {
            index: ValueIndex::Shapley,
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
                absent: self.describe_absence(),
                model: self.model.facts(),
                run: vec![Fact::new("riesz", env!("CARGO_PKG_VERSION")), Fact::new("explained", told)],
            },
        })
    }
}

/// What is averaged over, where values are of players one by one.
pub(super) fn player_measure(index: ValueIndex, recipe: &IndexComputation) -> Result<&InclusionMeasure> {
    match recipe {
        IndexComputation::Players(measure) => Ok(measure),
        IndexComputation::Unions(_) | IndexComputation::Sets { .. } => {
            let allowed = "functionals and covariances are those of values of players one by one: Shapley, \
                           Banzhaf, Beta-Shapley and other semivalues";
            Err(Error::parameter("index", index, allowed))
        }
    }
}

/// Whether columns that change places belong to one player.
pub(super) fn check_mirror(groups: &Players, mirror: Option<&[usize]>) -> Result<()> {
    let Some(mirror) = mirror else { return Ok(()) };
    let torn = |player: &&Player| player.columns.iter().any(|&j| !player.columns.contains(&mirror[j]));
    match groups.players().iter().find(torn) {
        None => Ok(()),
        Some(player) => {
            let allowed = "how sure values of duels are is known where a player is a feature of both items: \
                           give groups of left and right columns";
            Err(Error::parameter("player", &player.name, allowed))
        }
    }
}

/// The covariance of the values of so many players in each row of a game that values coalitions under
/// `posterior`, rows × outputs × players × players, from functionals of so many rows at a time.
pub(super) fn by_coalitions(
    rows: &Table,
    (players, together): (usize, usize),
    posterior: &Posterior<'_>,
    watch: RunControl<'_>,
    functionals: impl Fn(&Table, RowPairs) -> Result<Functionals>,
) -> Result<Vec<f64>> {
    let pairs = if posterior.prior_scale() > 0.0 { RowPairs::Same } else { RowPairs::None };
    let mut out = Vec::new();
    watch.progress.start(rows.rows());
    for start in (0..rows.rows()).step_by(together) {
        let chunk: Vec<usize> = (start..rows.rows().min(start + together)).collect();
        let all = check_finite(functionals(&rows.select_rows(&chunk), pairs)?)?;
        let of = |r: usize| posterior.covariance(&select(&all, r * players..(r + 1) * players));
        let found: Vec<Vec<Matrix>> = (0..chunk.len()).into_par_iter().map(of).collect();
        found.iter().flatten().for_each(|covariance| out.extend(symmetric_entries(covariance)));
        chunk.iter().for_each(|_| watch.step());
    }
    Ok(out)
}

/// Refuses a skew f in the observational game of whole rows, whose absent columns of either side are not
/// drawn alike.
pub(super) fn reject_skew(mirror: Option<&[usize]>) -> Result<()> {
    if mirror.is_none() {
        return Ok(());
    }
    let allowed = "of duels it is known how sure values are in games that take a background or a baseline, \
                   and in the game of independent parts, an item each";
    Err(Error::parameter("game", "observational", allowed))
}

/// Some of many functionals.
fn select(all: &Functionals, some: std::ops::Range<usize>) -> Functionals {
    let of = |matrix: &Matrix, rows: std::ops::Range<usize>| {
        let (count, own) = (rows.len(), rows.flat_map(|i| &matrix.row(i)[some.clone()]).copied().collect());
        Matrix::from_row_major(count, some.len(), own)
    };
    Functionals {
        columns: of(&all.columns, 0..all.columns.rows()),
        prior_scale: of(&all.prior_scale, some.clone()),
        constants: all.constants[some.clone()].to_vec(),
    }
}

/// The entries of a covariance, which rounding may leave less than symmetric, and a variance of 0 below it.
pub(super) fn symmetric_entries(covariance: &Matrix) -> impl Iterator<Item = f64> {
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
pub(super) fn check_finite(all: Functionals) -> Result<Functionals> {
    if all.columns.data().iter().chain(all.prior_scale.data()).any(|v| !v.is_finite()) {
        return Err(Error::Overflow {
            what: "a covariance of values".into(),
            remedy: "rows are too far from the data the model was fitted on",
        });
    }
    Ok(all)
}
