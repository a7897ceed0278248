//! Causal data fusion: effects across studies of which none measured both the treatment and the outcome.
//!
//! [`Graph`] says what causes what. [`identify`] says whether, how and under which assumptions an effect follows from it and the columns that studies have, or refuses
//! with the path that is open and what would help ([`Refusal`]). A graph is never learnt from data.
//! Source: Chau 2023 (thesis), chapter 4; Pearl 2009; van der Zander, Liśkiewicz and Textor 2019.

mod adjustment;
mod answer;
mod assumptions;
mod bridge;
mod given;
mod graph;
mod identify;
mod parse;
mod separation;

pub use crate::error::Refusal;
pub use answer::{Bridge, How, Identification, Query, Source, Strategy};
pub use graph::Graph;
pub use identify::identify;
