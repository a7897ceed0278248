//! Covariances of values that are computed from coalitions, and functions that all covariances of values
//! share.

use rayon::prelude::*;

use super::Explainer;
use crate::attribution::coalition_covariance::RowPairs;
use crate::attribution::index_computation::IndexComputation;
use crate::attribution::row_batches;
use crate::attribution::rule::InclusionMeasure;
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::explanation::{Explanation, Provenance};
use crate::index::ValueIndex;
use crate::linalg::Matrix;
use crate::model_card::CardEntry;
use crate::posterior::{Functionals, Posterior};
use crate::table::{Player, Players, Table};

impl Explainer<'_> {
    /// Returns the [shares of the variance](Explainer::variance_shares) as an explanation, for tables, plots
    /// and pages. Its predictions are the variances of f at the rows, and its base value is the variance of
    /// the base value. A player's value is the change from the latter to the former due to the player's
    /// presence. Units are the squared units of the output. Exact up to rounding, for which no bound is
    /// stated.
    ///
    /// # Errors
    /// As [`variance_shares`](Explainer::variance_shares).
    pub fn explain_variance(&self, rows: &Table) -> Result<Explanation> {
        let posterior = self.posterior()?;
        let shares = self.variance_shares(rows)?;
        let data = rows.align_to(self.model.columns())?;
        let (n, p) = (data.rows(), self.groups().players().len());
        let share_rows = || (0..n).flat_map(|r| shares.iter().map(move |output_shares| output_shares.row(r)));
        let names: Vec<String> =
            self.model.output_names.iter().map(|name| format!("variance of {name}")).collect();
        let variance_text = "the variance of the output under the posterior, in squared units";
        Ok(Explanation {
            values: share_rows().flat_map(|row| &row[..p]).copied().collect(),
            base_values: share_rows().map(|row| row[p]).collect(),
            predictions: posterior.variance(&data)?.into_data(),
            provenance: Provenance::of_run(
                self.engine.game_name(),
                self.describe_absence(),
                self.model.facts(),
                [CardEntry::new("explained", variance_text)],
            ),
            ..Explanation::of_rows(self.groups().players(), &names, data)
        })
    }
}

/// Returns the measure over which values of single players are averaged.
pub(super) fn player_measure(index: ValueIndex, recipe: &IndexComputation) -> Result<&InclusionMeasure> {
    match recipe {
        IndexComputation::Players(measure) => Ok(measure),
        IndexComputation::Unions(_) | IndexComputation::Sets { .. } => {
            let allowed = "functionals and covariances are available only for values of single features: \
                           Shapley, Banzhaf, Beta-Shapley and other semivalues";
            Err(Error::parameter("index", index, allowed))
        }
    }
}

/// Checks that columns that are swapped belong to the same player.
pub(super) fn check_mirror(groups: &Players, mirror: Option<&[usize]>) -> Result<()> {
    let Some(mirror) = mirror else { return Ok(()) };
    let torn = |player: &&Player| player.columns.iter().any(|&j| !player.columns.contains(&mirror[j]));
    match groups.players().iter().find(torn) {
        None => Ok(()),
        Some(player) => {
            let allowed = "covariances of values of duels need features with the columns of both items: give \
                           groups of left and right columns";
            Err(Error::parameter("feature", &player.name, allowed))
        }
    }
}

/// Returns the covariance of the values of `players` players in each row under `posterior`, rows × outputs ×
/// players × players, for a game that values coalitions. It takes functionals of `together` rows at a time.
pub(super) fn by_coalitions(
    rows: &Table,
    (players, together): (usize, usize),
    posterior: &Posterior<'_>,
    control: RunControl<'_>,
    functionals: impl Fn(&Table, RowPairs) -> Result<Functionals>,
) -> Result<Vec<f64>> {
    let pairs = if posterior.prior_scale() > 0.0 { RowPairs::Same } else { RowPairs::None };
    let mut out = Vec::new();
    control.progress.start(rows.rows());
    for chunk in row_batches(rows.rows(), together) {
        let chunk_functionals = check_finite(functionals(&rows.select_rows(&chunk), pairs)?)?;
        let row_covariance =
            |r: usize| posterior.covariance(&select(&chunk_functionals, r * players..(r + 1) * players));
        let covariances: Vec<Vec<Matrix>> = (0..chunk.len()).into_par_iter().map(row_covariance).collect();
        covariances.iter().flatten().for_each(|covariance| out.extend(symmetric_entries(covariance)));
        chunk.iter().for_each(|_| control.step());
    }
    Ok(out)
}

/// Rejects a skew f in the observational game of whole rows, which does not draw the absent columns of both
/// sides in the same way.
pub(super) fn reject_skew(mirror: Option<&[usize]>) -> Result<()> {
    if mirror.is_none() {
        return Ok(());
    }
    let allowed = "covariances of values of duels need a game with a background or a baseline, or the game \
                   of independent parts with one part per item";
    Err(Error::parameter("game", "observational", allowed))
}

/// Selects a range of functionals.
fn select(functionals: &Functionals, range: std::ops::Range<usize>) -> Functionals {
    let (points, columns): (Vec<usize>, Vec<usize>) =
        ((0..functionals.columns.rows()).collect(), range.clone().collect());
    Functionals {
        columns: functionals.columns.select(&points, &columns),
        prior_covariance: functionals.prior_covariance.select(&columns, &columns),
        constants: functionals.constants[range].to_vec(),
    }
}

/// The entries of a covariance, made symmetric and with variances of at least 0, because rounding may violate
/// both.
pub(super) fn symmetric_entries(covariance: &Matrix) -> impl Iterator<Item = f64> {
    let p = covariance.rows();
    (0..p * p).map(move |position| {
        let (j, l) = (position / p, position % p);
        if j == l {
            return covariance[(j, j)].max(0.0);
        }
        0.5 * (covariance[(j.min(l), j.max(l))] + covariance[(j.max(l), j.min(l))])
    })
}

/// Checks that the functionals are finite numbers.
pub(super) fn check_finite(functionals: Functionals) -> Result<Functionals> {
    if functionals.columns.data().iter().chain(functionals.prior_covariance.data()).any(|v| !v.is_finite()) {
        return Err(Error::overflow(
            "a covariance of values",
            "rows are too far from the data the model was fitted on",
        ));
    }
    Ok(functionals)
}
