//! Values of product games as functionals of f, and their covariances under a posterior of the model.

use rayon::prelude::*;

use super::{FUNCTIONALS, ProductEngine};
use crate::attribution::index_computation::IndexComputation;
use crate::attribution::prior_value_covariance::ValueCovariance;
use crate::attribution::row_batches;
use crate::attribution::rule::InclusionMeasure;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result};
use crate::explainer::value_covariance::{check_finite, check_mirror, player_measure, symmetric_entries};
use crate::linalg::Matrix;
use crate::posterior::{Functionals, Posterior};
use crate::table::Table;

/// The reason why the functional game has no covariances for most kernels.
pub(super) const NO_PROJECTION: &str = "covariances in the functional game need a kernel whose factors are \
                                        all anova, each of other columns: fit with such a kernel, or take a \
                                        game with a background or a baseline";

impl ProductEngine<'_> {
    /// Returns the prior covariance of the players' values.
    fn prior<'a>(&'a self, mirror: Option<&'a [usize]>) -> Result<ValueCovariance<'a>> {
        let measure = self.measure()?;
        if let Some(power) = self.powers.first() {
            let (factor, columns) = power.power.describe(self.model.columns());
            return Err(Error::NotProduct { factor, columns });
        }
        let players = self.groups.players().len();
        check_mirror(&self.groups, mirror)?;
        ValueCovariance::new(&self.products, &self.absent, players, mirror, (measure, self.isa))
            .ok_or_else(|| Error::parameter("game", self.game.name(), NO_PROJECTION))
    }

    /// Returns the prior covariance of the players' values under `posterior`. Returns `None` if the posterior
    /// has no prior part, because then any linear values have covariances.
    pub(super) fn prior_covariance<'a>(
        &'a self,
        posterior: &Posterior<'a>,
    ) -> Result<Option<ValueCovariance<'a>>> {
        self.measure()?;
        (posterior.prior_scale() > 0.0).then(|| self.prior(posterior.mirror())).transpose()
    }

    /// Returns the measure over which values of single players are averaged.
    pub(super) fn measure(&self) -> Result<InclusionMeasure> {
        player_measure(self.index, &IndexComputation::new(self.index, self.unions.as_ref())).cloned()
    }

    /// Returns the values of all players in all rows as functionals of f, in the order of rows, then players.
    pub(super) fn value_functionals(&self, rows: &Table, mirror: Option<&[usize]>) -> Result<Functionals> {
        let values = self.prior(mirror)?;
        let data = rows.align_to(self.model.columns())?;
        let (n, p) = (data.rows(), self.groups.players().len());
        let by_player = self.player_functionals(&data, &(0..p).collect::<Vec<_>>(), self.control())?;
        self.progress.start(n * (n + 1) / 2);
        functionals(&by_player, 0..n, values.covariance(&data.row_vectors(0..n), self.control())?)
    }

    /// Returns the covariance of the values of each row under `posterior`, rows × outputs × players ×
    /// players. A row needs no more memory than its functionals.
    pub(super) fn row_covariances(&self, rows: &Table, posterior: &Posterior<'_>) -> Result<Vec<f64>> {
        let values = self.prior_covariance(posterior)?;
        let data = rows.align_to(self.model.columns())?;
        let (n, m, p) = (data.rows(), self.model.outputs(), self.groups.players().len());
        let players: Vec<usize> = (0..p).collect();
        let batch_size = (8 * FUNCTIONALS / (self.model.support_points.rows() * p).max(1)).clamp(1, 64);
        let quiet = Progress::default();
        self.progress.start(n);
        let mut out = Vec::with_capacity(n * m * p * p);
        for chunk in row_batches(n, batch_size) {
            let control = RunControl { stop: &self.stop, progress: &quiet };
            let chunk_rows = data.select_rows(&chunk);
            let by_player = self.player_functionals(&chunk_rows, &players, control)?;
            let row_covariance = |r: usize| -> Result<Vec<Matrix>> {
                let covariance =
                    values.as_ref().map(|values| values.covariance(&[chunk_rows.row(r)], control));
                let prior = covariance.unwrap_or_else(|| Ok(Matrix::zeros(p, p)))?;
                let covariance = posterior.covariance(&functionals(&by_player, r..r + 1, prior)?);
                self.control().step();
                Ok(covariance)
            };
            let covariances =
                (0..chunk.len()).into_par_iter().map(row_covariance).collect::<Result<Vec<_>>>()?;
            for covariance in covariances.iter().flatten() {
                out.extend(symmetric_entries(covariance));
            }
        }
        Ok(out)
    }
}

/// Returns the functionals of a range of rows, from functionals by player.
fn functionals(by_player: &[Matrix], rows: std::ops::Range<usize>, prior: Matrix) -> Result<Functionals> {
    let (p, n) = (by_player.len(), rows.len());
    let mut columns = Matrix::zeros(by_player.first().map_or(0, Matrix::rows), n * p);
    for (j, player_functionals) in by_player.iter().enumerate() {
        for i in 0..player_functionals.rows() {
            rows.clone()
                .enumerate()
                .for_each(|(r, row)| columns[(i, r * p + j)] = player_functionals[(i, row)]);
        }
    }
    check_finite(Functionals { columns, prior_covariance: prior, constants: vec![0.0; n * p] })
}
