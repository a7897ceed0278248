//! A further penalty on linear functionals of the model: Shapley-regularised training where the functionals
//! are Shapley values (Chau, Hu, Gonzalez and Sejdinovic 2022, §4).
//!
//! With the gram matrix K and functionals Z (a column holds what each coefficient adds to one functional),
//! the estimator minimises `loss(K α) + ridge αᵀ K α + (strength / n) ‖Zᵀ α‖²`. That is the same estimator
//! without the penalty on another gram matrix `K̃ = K M⁻¹ K`, `M = K + c Z Zᵀ`, `c = strength / (n ridge)`:
//! if `γ` are its coefficients there, `α = M⁻¹ K γ` are those of the penalised model, and it predicts
//! `K α = K̃ γ`. So every estimator that works on a gram matrix can be penalised. For squared loss it is the
//! paper's Proposition 7, `α = (K² + ridge K + (strength / n) Z Zᵀ)⁻¹ K y`.

use crate::error::{Error, Result};
use crate::linalg::{Cholesky, Matrix};
use crate::model_card::CardEntry;

/// `(strength / n) Σ (Σ_i functional_i coef_i)²` over functionals and outputs, where n is the number of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Penalty {
    /// Rows × functionals: what a coefficient 1 of the row adds to the functional. Several n × n matrices
    /// from
    /// [`Explainer::functionals`](crate::Explainer::functionals) stand side by side.
    pub functionals: Matrix,
    /// Not negative.
    pub strength: f64,
    /// The number of coalitions from which the functionals are estimated, for the model card; `None` if they
    /// are exact.
    pub sampled: Option<usize>,
}

/// A gram matrix on which the estimator without the penalty is the estimator with it.
pub(crate) struct PenalisedGram {
    /// `K̃`.
    pub(crate) gram: Matrix,
    /// The matrix `T` in the coefficients `α = L⁻ᵀ R⁻ᵀ T γ`.
    whitened_gram: Matrix,
    lower: Cholesky,
    inner: Cholesky,
}

impl Penalty {
    /// Several matrices of functionals as one penalty.
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

    /// For the model card.
    pub(crate) fn facts(&self) -> impl Iterator<Item = CardEntry> {
        let sampled =
            self.sampled.map(|count| format!("its values are estimated from {count} coalitions of features"));
        [CardEntry::measured("strength of the penalty", self.strength)]
            .into_iter()
            .chain(sampled.map(|words| CardEntry::new("penalty", words)))
    }

    /// Includes the penalty in the gram matrix; `ridge` is the factor of `αᵀ K α` in the objective. Cost
    /// O(n³) and O(n² · functionals).
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Parameter`]; [`Error::NotPositiveDefinite`] for the gram matrix.
    pub(crate) fn apply(&self, gram: Matrix, ridge: f64) -> Result<PenalisedGram> {
        let n = gram.rows();
        if self.functionals.rows() != n {
            return Err(Error::Shape {
                subject: "the matrix of penalised functionals".into(),
                unit: "rows",
                expected: n,
                actual: self.functionals.rows(),
                why: "one a row that the model is fitted on".into(),
            });
        }
        if !(self.strength.is_finite() && self.strength >= 0.0) {
            return Err(Error::parameter("strength", self.strength, "it is a number that is not negative"));
        }
        // K = L Lᵀ and V = L⁻¹ Z: M = L (I + c V Vᵀ) Lᵀ = L R Rᵀ Lᵀ, and K̃ = L (R Rᵀ)⁻¹ Lᵀ = Tᵀ T with T =
        // R⁻¹ Lᵀ.
        let lower = Cholesky::new(gram, "gram matrix")?;
        let mut v = self.functionals.clone();
        lower.solve_lower_in_place(&mut v);
        let mut inner = v.matmul(&v.transpose());
        let c = self.strength / (n as f64 * ridge);
        inner.data_mut().iter_mut().for_each(|x| *x *= c);
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
    /// From coefficients on `gram` (n × outputs) to those of the model.
    pub(crate) fn to_coefficients(&self, coef: &Matrix) -> Matrix {
        let mut coef = self.whitened_gram.matmul(coef);
        self.inner.solve_upper_in_place(&mut coef);
        self.lower.solve_upper_in_place(&mut coef);
        coef
    }
}
