//! Downscaling: a function of single rows (pixels, villages, persons) learnt from averages or totals over
//! bags of them.
//!
//! One model: `f ~ GP(m, k)`, `z = Aᵀ f(X) + e` with `A = P B`, where P says which rows make which bag, and B
//! how targets are made of bags with rows: one each where bags and targets match; through coarse covariates
//! that both have, the mediators, where they do not. The answer is an [`Expansion`](crate::Expansion) with
//! its
//! [`Covariance`](crate::Covariance), so that whatever predicts or explains these does so here. Source: Chau
//! 2023 (thesis), chapter 3; Chau, Bouabid and Sejdinovic 2021.

mod averaged;
mod bags;
mod counts;
mod data;
mod exact;
mod fitted;
mod join;
mod mediation;
mod operator;
mod regressed;
mod rows;
mod smoothing;
mod sparse;
mod totals;
mod tune;

pub use crate::fit::average::Averaged;
pub use crate::fit::inducing_points;
pub use bags::{Bags, Unit};
pub use counts::{CountFit, CountProcess, Family, TunedCounts, count_points};
pub use data::Aggregates;
pub use exact::AggregateGaussianProcess;
pub use fitted::{AggregateFit, LeftOut};
pub use join::{Joined, join};
pub use mediation::{Counts, Mediation, Mediators, Regressed};
pub use operator::Operator;
pub use smoothing::Smoothing;
pub use sparse::{Approximation, SparseAggregateFit, SparseAggregateProcess};
pub use tune::{Conventions, Tuned, Tuning};
