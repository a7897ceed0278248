//! Downscaling: a function of single rows (pixels, villages, persons) learnt from averages or totals over bags of them.
//!
//! One model: `f ~ GP(m, k)`, `z = Aᵀ f(X) + e` with `A = P B`, where P says which rows make which bag, and B how targets are made of bags with rows: one each where bags
//! and targets match; through coarse covariates that both have, the mediators, where they do not. The answer is an [`Expansion`](crate::Expansion) with its
//! [`Covariance`](crate::Covariance), so that whatever predicts or explains these does so here. Source: Chau 2023 (thesis), chapter 3; Chau, Bouabid and Sejdinovic 2021.

mod bags;
mod inducing;
mod sparse;

pub use bags::{Bags, Unit};
pub use inducing::inducing_points;
pub use sparse::{LeftOut, SparseAggregateFit, SparseAggregateProcess};
