//! Conversion of SVG to PNG with a built-in font, so that every machine gives the same bytes.

use std::sync::Arc;

use resvg::{tiny_skia, usvg};
use riesz::{Error, Result};

use crate::svg::Svg;

/// The Latin and Greek letters of DejaVu Sans; the licence is in the same folder.
const FONT: &[u8] = include_bytes!("../assets/DejaVuSans-subset.ttf");

/// Returns the picture as a PNG file with `scale` pixels for each SVG pixel (2 is sharp on most screens). The
/// SVG must be drawn in [`Theme::Light`](crate::Theme::Light) or [`Theme::Dark`](crate::Theme::Dark).
///
/// # Errors
/// [`Error::Parameter`] for a scale out of range or a picture in [`Theme::Auto`](crate::Theme::Auto).
pub fn png(svg: &Svg, scale: f32) -> Result<Vec<u8>> {
    let side = svg.width.max(svg.height) as f32 * scale;
    if !(0.1..=10.0).contains(&scale) || side > 32_000.0 {
        return Err(Error::parameter(
            "scale",
            scale,
            "from 0.1 to 10, with at most 32000 pixels on each side",
        ));
    }
    if svg.text.contains("var(--rz-") {
        return Err(Error::parameter("theme", "auto", "light or dark for a PNG file"));
    }
    let broken = |problem: String| Error::Format {
        problem: format!("the picture cannot be converted to PNG: {problem}"),
    };
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(FONT.to_vec());
    let options = usvg::Options {
        fontdb: Arc::new(fonts),
        font_family: "DejaVu Sans".into(),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(&svg.text, &options).map_err(|e| broken(e.to_string()))?;
    let size = |pixels: u32| (pixels as f32 * scale).round().max(1.0) as u32;
    let mut pixmap = tiny_skia::Pixmap::new(size(svg.width), size(svg.height))
        .ok_or_else(|| broken("it is too large".into()))?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|e| broken(e.to_string()))
}
