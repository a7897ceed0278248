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
//! | [`model_average`] | averages of models over hyper-parameters |
//! | [`prediction`] | predictions for rows: outputs, classes, probabilities |
//! | [`setting_schema`] | settings by name, as front ends pass them |
//! | [`fit`] | estimators: ridge and logistic regression, support vector machines, Gaussian processes |
//! | [`mod@format`] | files of models and explanations, also of other programs |
//! | [`embedding`] | conditional mean embeddings of any columns given any others |
//! | [`mod@conditional_mean`] | these embeddings as Gaussian processes: expectations with their uncertainty |
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
pub mod causal;
pub mod conditional_mean;
pub mod discrepancy;
pub mod preference;
pub mod shapley_penalty;

pub use riesz_core::{
    AggregatePrediction, ClassDecisions, Column, ColumnKind, Error, Isa, Kernel, KernelExpansion, Link,
    Matrix, NaturalScalePrediction, Players, Posterior, PosteriorCovariance, Prediction, Progress, Result,
    Table, ValueIndex,
};
#[doc(inline)]
pub use riesz_core::{
    CoalitionStructure, columns, error, index, kernel, kernel_model, linalg, model_average, model_card,
    posterior, prediction, setting_schema, table,
};
pub(crate) use riesz_core::{checks, control, kmeans, memory, name_lists, random, simd};
pub use riesz_explain::{
    Approximation, Background, CausalComponent, CausalStructure, ConditionalModel, Conditioning,
    ConditioningKernel, ConjugateGradients, Exactness, Explainer, Explanation, Game, Question, Ridge,
    Sensitivity, SobolIndices,
};
#[doc(inline)]
pub use riesz_explain::{attribution, embedding, explainer, explanation, format, game, global, question};
#[doc(inline)]
pub use riesz_fit::fit;
pub(crate) use riesz_fit::gp;

pub use discrepancy::{IndependenceTest, TwoSampleTest};
