//! The output form of a result.

use std::path::Path;

use crate::args::{Format, Global};

/// The form of a result that can be text, a table, JSON, a picture or a page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// Text for reading.
    Text,
    /// A table.
    Table(Format),
    /// JSON with everything.
    Json,
    /// A picture.
    Picture {
        /// PNG rather than SVG.
        pixels: bool,
    },
    /// A page.
    Page,
}

impl Form {
    /// The form requested by `--format`, or by the extension of the output. An unknown extension is returned
    /// as the error.
    pub fn choose(path: Option<&Path>, global: &Global) -> Result<Self, String> {
        let ending = path.and_then(Path::extension).map(|end| end.to_string_lossy().to_ascii_lowercase());
        Ok(match (global.format, ending.as_deref()) {
            (Some(Format::Text), _) | (None, None | Some("txt")) => Self::Text,
            (Some(Format::Json), _) | (None, Some("json")) => Self::Json,
            (Some(Format::Svg), _) | (None, Some("svg")) => Self::Picture { pixels: false },
            (Some(Format::Png), _) | (None, Some("png")) => Self::Picture { pixels: true },
            (Some(format @ (Format::Csv | Format::Parquet)), _) => Self::Table(format),
            (None, Some("csv")) => Self::Table(Format::Csv),
            (None, Some("parquet" | "pq")) => Self::Table(Format::Parquet),
            (None, Some("html" | "htm")) => Self::Page,
            (None, Some(other)) => return Err(other.to_string()),
        })
    }
}
