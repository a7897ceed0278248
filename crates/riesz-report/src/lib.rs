//! Pictures and pages from explanations: SVG plots, PNG files, and one self-contained HTML report.
//!
//! This crate computes nothing: every number shown comes from the [`Explanation`](riesz::Explanation), or is a
//! mean or sum of such numbers.

mod format;
mod html;
mod plot;
mod png;
mod svg;

pub use html::{ReportOptions, report};
pub use plot::{Plot, PlotOptions, render};
pub use png::png;
pub use svg::{Svg, Theme};
