//! A further penalty on linear functionals of the model: Shapley-regularised training where the functionals
//! are Shapley values (Chau, Hu, Gonzalez and Sejdinovic 2022, §4).
//!
//! Let K (n × n) be the gram matrix, α (n) the coefficients, and Z (n × functionals) the contribution of each
//! coefficient to each functional. The estimator minimises
//! `loss(K α) + ridge αᵀ K α + (strength / n) ‖Zᵀ α‖²`. This equals the estimator without the penalty on
//! another gram matrix, `K̃ = K M⁻¹ K` with `M = K + c Z Zᵀ` and `c = strength / (n ridge)`. If γ are its
//! coefficients there, the penalised model has the coefficients `α = M⁻¹ K γ` and the predictions
//! `K α = K̃ γ`. Every estimator that works on a gram matrix can therefore be penalised. For squared loss the
//! result is the paper's Proposition 7, `α = (K² + ridge K + (strength / n) Z Zᵀ)⁻¹ K y`.

use crate::checks::not_negative;
use crate::error::{Result, sized};
use crate::linalg::{Cholesky, Matrix};
use crate::model_card::CardEntry;

/// The penalty `(strength / n) Σ (Σ_i functional_i coef_i)²`, summed over functionals and outputs, for n
/// rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Penalty {
    /// Contribution of a row's coefficient to each functional, rows × functionals. Several n × n matrices
    /// from `Explainer::functionals` are placed side by side.
    pub functionals: Matrix,
    /// Factor of the penalty; not negative.
    pub strength: f64,
    /// The number of coalitions from which the functionals are estimated, for the model card; `None` if they
    /// are exact.
    pub sampled: Option<usize>,
}

/// A gram matrix K̃ on which the estimator without the penalty equals the estimator with it.
pub(crate) struct PenalisedGram {
    /// `K̃` (n × n).
    pub gram: Matrix,
    /// The matrix `T` in the coefficients `α = L⁻ᵀ R⁻ᵀ T γ`.
    whitened_gram: Matrix,
    lower: Cholesky,
    inner: Cholesky,
}

impl Penalty {
    /// One penalty on several matrices of functionals.
    pub fn new(functionals: &[Matrix], strength: f64) -> Self {
        let rows = functionals.first().map_or(0, Matrix::rows);
        let side_by_side = (0..rows).flat_map(|i| functionals.iter().flat_map(move |f| f.row(i).to_vec()));
        let cols = functionals.iter().map(Matrix::cols).sum();
        Self {
            functionals: Matrix::from_row_major(rows, cols, side_by_side.collect()),
            strength,
            sampled: None,
        }
    }

    /// Entries for the model card.
    pub fn facts(&self) -> impl Iterator<Item = CardEntry> {
        let sampled =
            self.sampled.map(|count| format!("its values are estimated from {count} coalitions of features"));
        [CardEntry::measured("strength of the penalty", self.strength)]
            .into_iter()
            .chain(sampled.map(|words| CardEntry::new("penalty", words)))
    }

    /// Includes the penalty in the gram matrix. `ridge` is the factor of `αᵀ K α` in the objective. Cost
    /// O(n² (n + functionals)).
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape), [`Error::Parameter`](crate::Error::Parameter);
    /// [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite) for the gram matrix.
    pub(crate) fn apply(&self, gram: Matrix, ridge: f64) -> Result<PenalisedGram> {
        let n = gram.rows();
        let (subject, why) = ("the matrix of penalised functionals", "one for each training row");
        sized(subject, "rows", n, self.functionals.rows(), why)?;
        not_negative("strength", self.strength, "it must not be negative")?;
        // K = L Lᵀ and V = L⁻¹ Z: M = L (I + c V Vᵀ) Lᵀ = L R Rᵀ Lᵀ, and K̃ = L (R Rᵀ)⁻¹ Lᵀ = Tᵀ T with T =
        // R⁻¹ Lᵀ.
        let lower = Cholesky::new(gram, "gram matrix")?;
        let mut v = self.functionals.clone();
        lower.solve_lower_in_place(&mut v);
        let mut inner = v.matmul(&v.transpose());
        let c = self.strength / (n as f64 * ridge);
        inner.scale(c);
        inner.add_diagonal(|_| 1.0);
        let inner = Cholesky::new(inner, "matrix of the penalty")?;
        let mut whitened_gram = Matrix::zeros(n, n);
        for i in 0..n {
            for j in i..n {
                whitened_gram[(i, j)] = lower.lower()[(j, i)];
            }
        }
        inner.solve_lower_in_place(&mut whitened_gram);
        let gram = whitened_gram.transpose().matmul(&whitened_gram);
        Ok(PenalisedGram { gram, whitened_gram, lower, inner })
    }
}

impl PenalisedGram {
    /// Converts coefficients on `gram` (n × outputs) to coefficients of the model.
    pub fn to_coefficients(&self, coef: &Matrix) -> Matrix {
        let mut coef = self.whitened_gram.matmul(coef);
        self.inner.solve_upper_in_place(&mut coef);
        self.lower.solve_upper_in_place(&mut coef);
        coef
    }
}
