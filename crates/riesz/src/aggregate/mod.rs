//! Downscaling: a function of single rows (pixels, villages, persons) is learnt from averages or totals over
//! bags of rows.
//!
//! There is one model: `f ~ GP(m, k)`, `z = Aᵀ f(X) + e` with `A = P B`. P (rows × bags) holds the weights of
//! rows in bags, and B (bags × targets) maps bags with rows to targets. B is the identity if bags and targets
//! match, and otherwise a regression on common coarse covariates, the mediators. The result is a
//! [`KernelExpansion`](crate::KernelExpansion) with its [`PosteriorCovariance`](crate::PosteriorCovariance),
//! so it has the same predictions and explanations as any other model. Source: Chau 2023 (thesis), chapter 3;
//! Chau, Bouabid and Sejdinovic 2021.

mod aggregate_data;
mod aggregate_fit;
mod bag_gram;
mod conditional_mean_process;
mod count_gp;
mod exact_gp;
mod join_tables;
mod kernel_smoother;
mod mediation;
mod mediator_regression;
mod observation_operator;
mod row_bags;
mod sparse_gp;
mod tuning;

pub use crate::gp::average::{PosteriorMixture, WithPosterior};
pub use crate::gp::inducing_points::inducing_points;
pub use crate::gp::leave_one_out::LeaveOneOut;
pub use aggregate_data::Aggregates;
pub use aggregate_fit::AggregateFit;
pub use count_gp::{CountFit, CountProcess, Family, TunedCounts, count_inducing_points};
pub use exact_gp::AggregateGaussianProcess;
pub use join_tables::{BagJoin, join};
pub use kernel_smoother::BagSmoother;
pub use mediation::{BagWeighting, Mediation, MediationTarget, Mediators};
pub use observation_operator::ObservationOperator;
pub use row_bags::{Bags, TargetUnit};
pub use sparse_gp::{Approximation, SparseAggregateFit, SparseAggregateProcess, TunedProfile};
pub use tuning::{Conventions, DEFAULT_KERNEL, TunedAggregate, Tuning};
