//! Plots and HTML reports of explanations: SVG pictures, PNG files, and self-contained pages.
//!
//! This crate computes nothing new. Every number shown comes from the [`Explanation`](riesz::Explanation), or
//! is a mean or sum of its numbers.

mod downscale_page;
mod effect;
mod effect_page;
mod format;
mod geojson;
mod html;
mod importance_page;
mod map_content;
mod plot;
mod png;
mod svg;
mod test_page;

pub use downscale_page::{DownscalePage, PageBags, downscale_report};
pub use effect::EffectPage;
pub use effect_page::effect_report;
pub use format::number;
pub use geojson::RowAreas;
pub use html::{ReportOptions, report};
pub use importance_page::{
    ImportancePage, importance_curves, importance_report, importance_title, sage_record,
    sampled_sobol_record, sobol_record,
};
pub use map_content::{MapContent, MapOfBags, MapQuantity, NamedBags, explain_map, map_values};
pub use plot::{
    Area, Overall, PLOTS, Places, Plot, PlotOptions, Shows, render, render_causal_graph, render_component,
    render_effect, render_ladder, render_map, render_null, render_overall, render_preference_matrix,
    render_test, render_witness,
};
pub use png::png;
pub use svg::{Svg, Theme};
pub use test_page::{TestPage, TestSubject, largest_witnesses, test_report};
