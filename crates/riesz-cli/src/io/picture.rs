//! Pictures as files, and checks of their names.

use std::path::Path;

use riesz_report::{Svg, png};

use super::output::write_all;
use crate::exit::{Failure, Result};

/// Number of pixels of a PNG file per unit of the drawing, in each direction.
const SCALE: f32 = 2.0;

/// Whether a picture with this file name is in pixels; other extensions than .svg and .png are refused.
pub fn in_pixels(path: &Path) -> Result<bool> {
    match path.extension().map(|end| end.to_ascii_lowercase()) {
        Some(end) if end == "svg" => Ok(false),
        Some(end) if end == "png" => Ok(true),
        _ => Err(Failure::input(format!("{}: the name of a picture ends in .svg or .png", path.display()))),
    }
}

/// Refuses a page whose file name does not end in .html or .htm.
pub fn check_page_name(path: Option<&Path>) -> Result<()> {
    let ending = path.and_then(Path::extension).map(|end| end.to_ascii_lowercase());
    match (path, ending) {
        (Some(path), Some(end)) if end != "html" && end != "htm" => Err(Failure::input(format!(
            "{}: this is a page, whose name must end in .html; 'riesz explain' writes tables, and 'riesz \
             plot' pictures",
            path.display()
        ))),
        _ => Ok(()),
    }
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
