//! Downscaling: a function of single rows (pixels, villages, persons) that is learnt from averages or totals
//! over bags of rows.
//!
//! There is one model: `f ~ GP(m, k)`, `z = Aᵀ f(X) + e` with `A = P B`. P holds the weights of rows in bags,
//! and B maps bags with rows to targets: it is the identity where bags and targets match, and a regression on
//! common coarse covariates, the mediators, where they do not. The result is a
//! [`KernelExpansion`](crate::KernelExpansion) with its [`PosteriorCovariance`](crate::PosteriorCovariance),
//! so that predictions and explanations are those of any model. Source: Chau 2023 (thesis), chapter 3; Chau,
//! Bouabid and Sejdinovic 2021.

mod aggregate_data;
mod aggregate_fit;
mod averaged;
mod bag_gram;
mod count_gp;
mod exact_gp;
mod exact_totals;
mod join_tables;
mod kernel_smoother;
mod mediation;
mod mediator_regression;
mod observation_operator;
mod row_bags;
mod sparse_gp;
mod tuning;

pub use crate::fit::hyperparameter_average::PosteriorMixture;
pub use crate::fit::inducing_points;
pub use aggregate_data::Aggregates;
pub use aggregate_fit::{AggregateFit, LeaveOneOut};
pub use count_gp::{CountFit, CountProcess, Family, TunedCounts, count_inducing_points};
pub use exact_gp::AggregateGaussianProcess;
pub use join_tables::{BagJoin, join};
pub use kernel_smoother::BagSmoother;
pub use mediation::{BagWeighting, Mediation, MediationTarget, Mediators};
pub use observation_operator::ObservationOperator;
pub use row_bags::{Bags, TargetUnit};
pub use sparse_gp::{Approximation, SparseAggregateFit, SparseAggregateProcess};
pub use tuning::{Conventions, TunedAggregate, Tuning};
