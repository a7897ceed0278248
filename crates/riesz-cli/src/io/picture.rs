//! Pictures as files, and checks of their names.

use std::path::Path;

use riesz_report::{Svg, png};

use super::output::write_all;
use crate::exit::Result;
use crate::output_format::PICTURES;

/// Number of pixels of a PNG file per unit of the drawing, in each direction.
const SCALE: f32 = 2.0;

/// Whether a picture with this file name is in pixels; other endings than .svg and .png are refused.
pub fn in_pixels(path: &Path) -> Result<bool> {
    PICTURES.check(path)?;
    Ok(path.extension().is_some_and(|end| end.eq_ignore_ascii_case("png")))
}

/// Writes a picture in the format of its file name's ending.
pub fn drawn(path: &Path, picture: Svg) -> Result<()> {
    write_picture(Some(path), picture, in_pixels(path)?)
}

/// Writes a picture as PNG (`pixels`) or as SVG.
pub fn write_picture(path: Option<&Path>, picture: Svg, pixels: bool) -> Result<()> {
    let bytes = if pixels { png(&picture, SCALE)? } else { picture.text.into_bytes() };
    write_all(path, &bytes)
}
