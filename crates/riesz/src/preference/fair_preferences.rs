//! Fair preferences: a penalty on the Pref-SHAP values of protected features at the training duels (Chau
//! 2023, §6.5), as [`shapley_penalty`](crate::shapley_penalty) has for other models.
//!
//! The posterior mode minimises `-Σ log p(outcome | g) + ½ gᵀK⁻¹g + (strength / pairs) Σ φ²`, where the sum
//! is over the values φ of the protected features at the compared pairs. φ is that of the interpolant of the
//! log odds g at these pairs, a linear functional of its coefficients.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::games::DuelQuestion;
use super::observed_duels::{PairMode, SparseWeights};
use super::pref_shap::DuelRequest;
use crate::control::Progress;
use crate::error::{Error, Result};
use crate::fit::{DualFit, Penalty};
use crate::kernel::Kernel;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, add_multiple};
use crate::table::Table;

/// A penalty on the values of features of both items.
#[derive(Debug, Clone)]
pub struct FairPreferences {
    /// Names of the protected players of the question.
    pub protected: Vec<String>,
    /// Factor of the penalty; not negative.
    pub strength: f64,
    /// The game of the values, observational or of independent items, and its players.
    pub question: DuelQuestion,
}

impl FairPreferences {
    /// Returns the penalty on a model with this kernel of wide rows. The support points are the compared
    /// pairs in both orders, and `point_shares` has the points of each observed pair with their shares.
    pub(super) fn penalty(
        &self,
        kernel: &Kernel,
        points: &Table,
        point_shares: &[SparseWeights],
        stop: &Arc<AtomicBool>,
    ) -> Result<Penalty> {
        if self.protected.is_empty() {
            return Err(Error::too_few("the list of protected features", 1, "feature is"));
        }
        let blank =
            KernelExpansion::new(kernel.clone(), points.clone(), Matrix::zeros(points.rows(), 1), vec![0.0])?;
        // Values change their sign with the sides, so that one order of each pair has all of them.
        let rows = points.select_rows(&(0..points.rows()).step_by(2).collect::<Vec<_>>());
        let progress = Arc::new(Progress::default());
        let of_points =
            DuelRequest::functionals(&blank, &rows, &self.question, &self.protected, (stop, &progress))?;
        let of_pairs = of_points.iter().map(|functionals| {
            let mut of_pairs = Matrix::zeros(point_shares.len(), functionals.cols());
            for (pair, shares) in point_shares.iter().enumerate() {
                for (point, share) in shares {
                    add_multiple(of_pairs.row_mut(pair), *share, functionals.row(*point));
                }
            }
            of_pairs
        });
        Ok(Penalty::new(&of_pairs.collect::<Vec<_>>(), self.strength))
    }
}

/// Returns the coefficients of the posterior mode with a penalty, and the mode on the penalised gram matrix.
/// `approximate` returns the mode for a prior covariance of the pairs.
pub(super) fn penalised_mode(
    penalty: &Penalty,
    gram: &Matrix,
    approximate: impl Fn(&Matrix) -> Result<PairMode>,
) -> Result<(Vec<f64>, PairMode)> {
    // The negative log posterior has the factor ½ before its quadratic form.
    // The loss is only needed for ranges, which this penalty does not have.
    let (mode, coef) = penalty.fit(
        gram.clone(),
        0.5,
        |_, _| 0.0,
        |penalised| {
            let mode = approximate(&penalised.gram())?;
            let coef = Matrix::column_vector(mode.alpha.clone());
            Ok(DualFit { result: mode, coef, intercept: 0.0 })
        },
    )?;
    Ok((coef.into_data(), mode))
}
