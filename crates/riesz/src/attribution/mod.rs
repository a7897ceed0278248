//! Engines: from a game to its values.

pub mod coalitions;
pub mod enumeration;
pub mod permutation;
pub(crate) mod quadrature;
pub(crate) mod rule;
