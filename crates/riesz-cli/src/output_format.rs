//! The output form of a result, and the endings that the names of its files may have.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

use crate::args::{Format, Global};
use crate::exit::{Failure, Result};

/// A kind of result, with the endings that the names of its files may have.
#[derive(Debug, Clone, Copy)]
pub struct FileKind {
    /// The name of the results, for messages: "pages".
    name: &'static str,
    /// The endings, without the dot.
    endings: &'static [&'static str],
    /// The remedy for another kind of result, for messages; may be empty.
    remedy: &'static str,
    /// Whether a name may have no ending, as the result has one form only.
    one_form: bool,
}

/// Tables.
pub const TABLES: FileKind = FileKind {
    name: "tables",
    endings: &["csv", "parquet", "pq", "json"],
    remedy: "give one of these endings, or --format; pages and pictures are made by 'riesz report' and \
             'riesz plot'",
    one_form: false,
};

/// Explanations, which 'riesz plot' and 'riesz report' read.
pub const EXPLANATIONS: FileKind = FileKind {
    name: "explanations",
    endings: &["csv", "parquet", "pq", "json"],
    remedy: "'riesz report' makes a page of them",
    one_form: false,
};

/// Pictures.
pub const PICTURES: FileKind =
    FileKind { name: "pictures", endings: &["svg", "png"], remedy: "", one_form: false };

/// Pages.
pub const PAGES: FileKind = FileKind {
    name: "pages",
    endings: &["html", "htm"],
    remedy: "'riesz explain' writes tables, and 'riesz plot' pictures",
    one_form: true,
};

/// Maps, as pictures or pages.
pub const MAPS: FileKind = FileKind {
    name: "maps",
    endings: &["svg", "png", "html", "htm"],
    remedy: "'riesz downscale predict' writes tables",
    one_form: false,
};

/// Results in all forms: importance and tests.
pub const RESULTS: FileKind = FileKind {
    name: "results of this command",
    endings: &["html", "htm", "svg", "png", "csv", "parquet", "pq", "json", "txt"],
    remedy: "",
    one_form: false,
};

/// Causal effects.
pub const EFFECTS: FileKind = FileKind {
    name: "effects",
    endings: &["csv", "parquet", "pq", "svg", "png", "json", "txt"],
    remedy: "pages are written with --report page.html",
    one_form: false,
};

/// Suggested treatments.
pub const SUGGESTIONS: FileKind = FileKind {
    name: "suggestions",
    endings: &["csv", "parquet", "pq", "json", "txt"],
    remedy: "",
    one_form: false,
};

impl FileKind {
    /// The value parser of an option whose file's ending must be one of these.
    pub fn parser(self) -> impl TypedValueParser<Value = PathBuf> {
        PathBufValueParser::new().try_map(move |path| match self.has_ending(&path) {
            true => Ok(path),
            false => Err(self.refusal(&path)),
        })
    }

    /// Refuses a file whose ending is none of these.
    pub fn check(self, path: &Path) -> Result<()> {
        if self.has_ending(path) { Ok(()) } else { Err(Failure::input(self.refusal(path))) }
    }

    /// Whether the ending of a file is one of these; standard output has none.
    fn has_ending(self, path: &Path) -> bool {
        let ending = ending(path);
        path.as_os_str() == "-" || self.endings.contains(&&ending[..]) || ending.is_empty() && self.one_form
    }

    /// The sentence that refuses the ending of a file.
    fn refusal(self, path: &Path) -> String {
        let shown: Vec<String> = self
            .endings
            .iter()
            .filter(|ending| !["htm", "pq"].contains(*ending))
            .map(|ending| format!(".{ending}"))
            .collect();
        let list = match &shown[..] {
            [init @ .., last] if !init.is_empty() => format!("{} or {last}", init.join(", ")),
            _ => shown.concat(),
        };
        let refused = match &ending(path)[..] {
            "" => "without an ending".to_string(),
            other => format!("as .{other}"),
        };
        let remedy = if self.remedy.is_empty() { String::new() } else { format!("; {}", self.remedy) };
        format!("{}: {} are written as {list}, not {refused}{remedy}", path.display(), self.name)
    }
}

/// The ending of a file's name, without the dot, in lower case; empty if it has none.
fn ending(path: &Path) -> String {
    path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase()).unwrap_or_default()
}

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
    /// The form requested by `--format`, or by the ending of the output, which must be one of its kind.
    pub fn choose(path: Option<&Path>, global: &Global, kind: FileKind) -> Result<Self> {
        match (global.format, path) {
            (Some(Format::Text), _) | (None, None) => return Ok(Self::Text),
            (Some(Format::Json), _) => return Ok(Self::Json),
            (Some(Format::Svg), _) => return Ok(Self::Picture { pixels: false }),
            (Some(Format::Png), _) => return Ok(Self::Picture { pixels: true }),
            (Some(format @ (Format::Csv | Format::Parquet)), _) => return Ok(Self::Table(format)),
            (None, Some(path)) if ending(path).is_empty() => return Ok(Self::Text),
            (None, Some(path)) => kind.check(path)?,
        }
        Ok(match &path.map(ending).unwrap_or_default()[..] {
            "json" => Self::Json,
            "svg" => Self::Picture { pixels: false },
            "png" => Self::Picture { pixels: true },
            "csv" => Self::Table(Format::Csv),
            "parquet" | "pq" => Self::Table(Format::Parquet),
            "html" | "htm" => Self::Page,
            _ => Self::Text,
        })
    }
}

impl Global {
    /// The format of a table: `--format` if given, else by the extension of `output`, else CSV.
    pub fn table_format(&self, output: Option<&Path>) -> Result<Format> {
        let extension = output.and_then(Path::extension).map(|e| e.to_string_lossy().to_ascii_lowercase());
        match (self.format, extension.as_deref()) {
            (Some(Format::Text | Format::Svg | Format::Png), _) => {
                Err(Failure::input("this format is not for tables: use csv, json or parquet"))
            }
            (Some(format), _) => Ok(format),
            (None, Some("parquet" | "pq")) => Ok(Format::Parquet),
            (None, Some("json")) => Ok(Format::Json),
            (None, None | Some("csv")) => Ok(Format::Csv),
            (None, Some(_)) => match output {
                Some(path) => TABLES.check(path).map(|()| Format::Csv),
                None => Ok(Format::Csv),
            },
        }
    }

    /// The format of a table that can also be text for reading: text with `--format text`, and on a terminal
    /// without `--format` and output file.
    pub fn text_or_table(&self, output: Option<&Path>) -> Result<Format> {
        let for_terminal = output.is_none() && self.format.is_none() && std::io::stdout().is_terminal();
        match for_terminal || self.format == Some(Format::Text) {
            true => Ok(Format::Text),
            false => self.table_format(output),
        }
    }

    /// Whether a result other than a table is written as JSON.
    pub fn is_json_requested(&self) -> Result<bool> {
        match self.format {
            None | Some(Format::Text) => Ok(false),
            Some(Format::Json) => Ok(true),
            Some(_) => Err(Failure::input("this command writes text, not tables: use --format text or json")),
        }
    }
}
