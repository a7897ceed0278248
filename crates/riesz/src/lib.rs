//! Kernel machines that explain themselves.
//!
//! A fitted kernel model is an *expansion* `f(x) = β₀ + Σ_i α_i k(x_i, x)`; a question about it is a
//! *game*; an engine answers the game, and the answer is an *explanation*. Each noun is a module, and data
//! moves down this list:
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | numbers with named columns; players |
//! | [`explanation`] | the answer |

pub mod attribution;
pub mod error;
pub mod expansion;
pub mod explainer;
pub mod explanation;
pub mod fit;
pub mod format;
pub mod game;
pub mod kernel;
pub mod linalg;
mod optimize;
mod simd;
pub mod table;

pub use error::{Error, Result};
pub use expansion::{Expansion, Link};
pub use explainer::Explainer;
pub use explanation::{Exactness, Explanation};
pub use game::{Background, Game};
pub use kernel::Kernel;
pub use linalg::Matrix;
pub use simd::Isa;
pub use table::{Column, ColumnKind, Groups, Table};
