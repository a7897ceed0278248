//! Kernel machines that explain themselves.
//!
//! A fitted model is a *kernel expansion* `f(x) = β₀ + Σ_i α_i k(x_i, x)`. A *game* defines the meaning of an
//! absent feature. An *engine* computes the game's values, and its result is an *explanation*. Each noun is a
//! module, and data moves down this list:
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | numbers with named columns; players, which are groups of columns |
//! | [`kernel`] | sums of products of factors over columns |
//! | [`kernel_model`] | the one form of every fitted model |
//! | [`model_card`] | entries that say how a model was fitted |
//! | [`posterior`] | the uncertainty of a model: variances, joint covariances, samples |
//! | [`prediction`] | predictions for rows: outputs, classes, probabilities |
//! | [`setting_schema`] | settings by name, as front ends pass them |
//! | [`fit`] | estimators: ridge and logistic regression, support vector machines, Gaussian processes |
//! | [`mod@format`] | files of models and explanations, also of other programs |
//! | [`embedding`] | conditional mean embeddings of any columns given any others |
//! | [`game`] | games: the meaning of an absent feature |
//! | [`mod@question`] | a game with its players, budget and seed |
//! | [`explainer`] | the engines of the games, prepared for a model |
//! | [`attribution`] | the algorithms that compute values |
//! | [`explanation`] | values with their exactness and provenance |
//! | [`global`] | global importance: Sobol indices, SAGE values, functional ANOVA |
//! | [`discrepancy`] | two-sample and independence tests, attributed to features |
//! | [`preference`] | preference models of duels, their values and rankings |
//! | [`aggregate`] | downscaling: models of aggregates over bags of rows |
//! | [`causal`] | causal graphs, identification, and effects across studies |
//! | [`linalg`] | matrices and their factorisations |
//!
//! ```
//! use riesz::fit::KernelRidge;
//! use riesz::{Explainer, Kernel, Matrix, Table};
//!
//! let rows: Vec<[f64; 2]> = (0..40).map(|i| [f64::from(i % 7), f64::from(i % 5)]).collect();
//! let x = Table::from_rows(&rows)?;
//! let y = Matrix::column_vector(rows.iter().map(|r| r[0] * r[1] + r[0]).collect());
//! let model = KernelRidge::new(Kernel::gaussian(&[3.0, 3.0]), 1e-3).fit(&x, &y)?.model;
//!
//! let explanation = Explainer::interventional(&model, &x)?.explain(&x.select_rows(&[6]))?;
//! let total = explanation.base_values[0] + explanation.values.iter().sum::<f64>();
//! assert!((total - explanation.predictions[0]).abs() < 1e-9);
//! // The values are exact, and the proved bound on their error says how exact.
//! assert!(explanation.certificate().is_some_and(|c| c.holds && c.bound < 1e-9));
//! # Ok::<(), riesz::Error>(())
//! ```

pub mod aggregate;
pub mod attribution;
pub mod causal;
mod checks;
mod coalition_structure;
pub mod columns;
mod control;
pub mod discrepancy;
pub mod embedding;
pub mod error;
pub mod explainer;
pub mod explanation;
pub mod fit;
pub mod format;
pub mod game;
pub mod global;
mod gp;
pub mod index;
pub mod kernel;
pub mod kernel_model;
mod kmeans;
mod lbfgsb;
pub mod linalg;
mod memory;
pub mod model_card;
pub mod posterior;
pub mod prediction;
pub mod preference;
pub mod question;
mod random;
mod refusal;
pub mod setting_schema;
pub mod shapley_penalty;
mod simd;
pub mod table;

pub use coalition_structure::CoalitionStructure;
pub use control::Progress;
pub use discrepancy::{IndependenceTest, TwoSampleTest};
pub use embedding::{Approximation, Conditioning, ConditioningKernel, ConjugateGradients, Ridge};
pub use error::{Error, Result};
pub use explainer::Explainer;
pub use explanation::{Exactness, Explanation};
pub use game::{Background, ConditionalModel, Game};
pub use global::{Sensitivity, SobolIndices};
pub use index::ValueIndex;
pub use kernel::Kernel;
pub use kernel_model::{KernelExpansion, Link};
pub use linalg::Matrix;
pub use posterior::{Posterior, PosteriorCovariance};
pub use prediction::{AggregatePrediction, ClassDecisions, NaturalScalePrediction, Prediction};
pub use question::Question;
pub use simd::Isa;
pub use table::{Column, ColumnKind, Players, Table};
