//! Pictures that commands draw besides their results.

use std::path::Path;

use riesz_report::{Svg, png};

use super::output::write_all;
use crate::exit::{Failure, Result};

/// Pixels of PNG files in each direction for one of the drawing.
const SCALE: f32 = 2.0;

/// Whether a picture of this name is one in pixels.
pub fn in_pixels(path: &Path) -> Result<bool> {
    match path.extension().map(|end| end.to_ascii_lowercase()) {
        Some(end) if end == "svg" => Ok(false),
        Some(end) if end == "png" => Ok(true),
        _ => Err(Failure::input(format!("{}: the name of a picture ends in .svg or .png", path.display()))),
    }
}

/// Refuses the name of a page that says that it is something else.
pub fn check_page_name(path: Option<&Path>) -> Result<()> {
    let ending = path.and_then(Path::extension).map(|end| end.to_ascii_lowercase());
    match (path, ending) {
        (Some(path), Some(end)) if end != "html" && end != "htm" => Err(Failure::input(format!(
            "{}: this is a page, whose name ends in .html; tables are written by 'riesz explain', pictures \
             by 'riesz plot'",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes a picture as its file's name says.
pub fn drawn(path: &Path, picture: Svg) -> Result<()> {
    write_picture(Some(path), picture, in_pixels(path)?)
}

/// Writes a picture, as PNG if it is to be one in pixels, else as SVG.
pub fn write_picture(path: Option<&Path>, picture: Svg, pixels: bool) -> Result<()> {
    let bytes = if pixels { png(&picture, SCALE)? } else { picture.text.into_bytes() };
    write_all(path, &bytes)
}
