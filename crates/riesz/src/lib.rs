//! Kernel machines that explain themselves.
//!
//! A fitted kernel model is an *expansion* `f(x) = β₀ + Σ_i α_i k(x_i, x)`; a question about it is a
//! *game*; an engine answers the game, and the answer is an *explanation*. Each noun is a module, and data
//! moves down this list:
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | numbers with named columns; groups of columns as players |
//! | [`kernel`] | sums of products of factors over columns |
//! | [`kernel_model`] | the one form of every fitted model |
//! | [`posterior`] | how sure a model is: variances, joint covariances, samples |
//! | [`prediction`] | what a model says of rows: outputs, classes, probabilities |
//! | [`setting_schema`] | settings by name, as front ends hand them over |
//! | [`fit`] | estimators, which yield expansions and posteriors |
//! | [`mod@format`] | files of models and explanations, our own and other programs' |
//! | [`embedding`] | conditional mean embeddings of any columns given any others |
//! | [`game`] | what an absent feature means |
//! | [`mod@question`] | a game, its players, budget and seed; settings by name |
//! | [`explainer`] | a model and a question, ready for rows |
//! | [`attribution`] | the engines that compute values |
//! | [`explanation`] | the answer: values, how exact they are, where they come from |
//! | [`global`] | which features matter overall, and how sure that is |
//! | [`discrepancy`] | two-sample and independence tests, attributed to features |
//! | [`preference`] | who beats whom: duels, the prior of pairs, fitted models of them |
//! | [`causal`] | causal graphs, and whether and how effects follow from them across studies |
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
pub mod index;
pub mod kernel;
pub mod kernel_model;
mod kmeans;
mod lbfgsb;
pub mod linalg;
mod memory;
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
