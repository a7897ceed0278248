//! Shapley-regularised training: a penalty on the Shapley values of protected features at the training rows
//! (Chau, Hu, Gonzalez and Sejdinovic 2022, §4). With the interventional game the model becomes robust to a
//! shift of these features. With the observational game the influence of their proxies is removed too.
//!
//! Prior knowledge about values has the same form: a [sign, a target or a band](ValuePrior::range), or
//! [equal values](ValuePrior::equal) of two features.
//!
//! [`shapley_penalty`] returns a penalty for [`KernelRidge`](crate::fit::KernelRidge),
//! [`KernelLogisticRegression`](crate::fit::KernelLogisticRegression),
//! [`SupportVectorClassifier`](crate::fit::SupportVectorClassifier),
//! [`SupportVectorRegressor`](crate::fit::SupportVectorRegressor) and, after its fit, a
//! [`GaussianProcess`](crate::fit::GpFit::with_penalty).
//!
//! ```
//! use riesz::fit::KernelRidge;
//! use riesz::{Explainer, Game, Kernel, Matrix, Table};
//!
//! let rows: Vec<[f64; 2]> = (0..40).map(|i| [(i as f64 * 0.7).sin(), (i as f64 * 0.3).cos()]).collect();
//! let x = Table::from_rows(&rows)?;
//! let y = Matrix::column_vector(rows.iter().map(|r| r[0] + r[1]).collect());
//! let kernel = Kernel::gaussian(&[1.0, 1.0]);
//! let game = Game::Interventional { background: x.clone().into() };
//!
//! let penalty = riesz::shapley_penalty::shapley_penalty(&kernel, &x, game.clone(), &["x0"], 1000.0)?;
//! let mut estimator = KernelRidge::new(kernel.clone(), 0.1);
//! estimator.penalty = Some(penalty);
//! let model = estimator.fit(&x, &y)?.model;
//! let importance = Explainer::new(&model, game)?.explain(&x)?.mean_abs(0);
//! assert!(importance[0] < 0.3 * importance[1]);
//! # Ok::<(), riesz::Error>(())
//! ```

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::checks::not_negative;
use crate::error::{Error, Result, listed};
use crate::explainer::Explainer;
use crate::fit::Penalty;
use crate::kernel::Kernel;
use crate::kernel_model::KernelExpansion;
use crate::linalg::Matrix;
use crate::question::Question;
use crate::table::Table;

/// Prior knowledge about Shapley values, and the strength with which deviations from it are penalised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValuePrior {
    /// Factor of the penalty; not negative.
    pub strength: f64,
    /// The lower and the upper end of the range in which values are not penalised. `(0, 0)` penalises their
    /// size, `(0, ∞)` negative values, `(t, t)` the distance from a target, `(-b, b)` values outside a band.
    pub range: (f64, f64),
    /// Whether the differences between the values of successive protected players are penalised instead of
    /// the values. With the range `(0, 0)` the players get equal values.
    pub equal: bool,
}

impl From<f64> for ValuePrior {
    /// A penalty of this strength on the size of the values.
    fn from(strength: f64) -> Self {
        Self { strength, range: (0.0, 0.0), equal: false }
    }
}

/// The penalty `(strength / n) Σ d²`, where d is the distance of a value φ from the range of the prior; for a
/// number as the prior it is `(strength / n) Σ φ²`. The sum is over the values of the players of `question`
/// with names in `protected`, at the n rows of `x`, to which a model with this kernel will be fitted. The
/// cost is the cost of explaining these rows.
///
/// In the observational game with more than 16 players the values are estimated from a sample of coalitions
/// within the budget, unless the budget allows all of them. The penalty and the fitted model then report the
/// sampling. [`Conditioning`](crate::Conditioning) has landmarks and random features for many rows.
///
/// # Errors
/// [`Error::Parameter`] for a negative strength; [`Error::UnknownColumn`] for an unknown player;
/// [`Error::TooFew`] if `protected` is empty, or has one player whose values are to equal others; the errors
/// of [`Explainer::functionals`].
pub fn shapley_penalty<S: AsRef<str>>(
    kernel: &Kernel,
    x: &Table,
    question: impl Into<Question>,
    protected: &[S],
    prior: impl Into<ValuePrior>,
) -> Result<Penalty> {
    penalty_until(kernel, x, question, protected, prior, Arc::default())
}

/// Computes [`shapley_penalty`]; another thread can cancel it by setting `stop`.
///
/// # Errors
/// As [`shapley_penalty`]; [`Error::Interrupted`].
pub fn penalty_until<S: AsRef<str>>(
    kernel: &Kernel,
    x: &Table,
    question: impl Into<Question>,
    protected: &[S],
    prior: impl Into<ValuePrior>,
    stop: Arc<AtomicBool>,
) -> Result<Penalty> {
    let prior = prior.into();
    // Checked first, because the functionals take long.
    not_negative("strength", prior.strength, "it must not be negative")?;
    if protected.is_empty() {
        return Err(Error::too_few("the list of protected features", 1, "feature is"));
    }
    if prior.equal && protected.len() == 1 {
        return Err(Error::too_few("the list of features with equal values", 2, "features are"));
    }
    let blank = KernelExpansion::new(kernel.clone(), x.clone(), Matrix::zeros(x.rows(), 1), vec![0.0])?;
    let explainer = Explainer::new_with_control(&blank, question, stop)?;
    let players = explainer.groups().players();
    let number = |name: &S| {
        players.iter().position(|p| p.name == name.as_ref()).ok_or_else(|| {
            let known = listed(players.iter().map(|p| &p.name));
            Error::UnknownColumn { name: name.as_ref().into(), known }
        })
    };
    let protected = protected.iter().map(number).collect::<Result<Vec<_>>>()?;
    let mut functionals = explainer.functionals(x, &protected)?;
    if prior.equal {
        for player in 1..functionals.len() {
            let (before, after) = functionals.split_at_mut(player);
            before[player - 1].add_times(-1.0, &after[0]);
        }
        functionals.pop();
    }
    let penalty = Penalty::new(&functionals, prior.strength);
    let ranges = (prior.range != (0.0, 0.0)).then(|| vec![prior.range; penalty.functionals.cols()]);
    Ok(Penalty { ranges, sampled: explainer.sampled_functionals(), ..penalty })
}
