//! Options that several commands share.

mod causal_query;
mod discrepancy;
mod question;
mod settings;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use riesz::format::model::SavedModel;
use riesz::{KernelExpansion, Table};

pub use causal_query::{CauseArgs, graph_from_text};
pub use discrepancy::{TestArgs, factors};
pub use question::GameArgs;
pub use settings::{Explained, ModelSettings, Protected, SettingArgs};

use crate::exit::{Failure, Result};
use crate::io::csv::Decimal;
use crate::io::input::{OpenTable, ReadOptions, TableFile};
use crate::io::model_rows::{CellPolicy, MissingCells, UnseenLevels, typical_value};

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "General options")]
pub struct Global {
    /// Number of threads; results are the same for any number [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,
    /// Print nothing but errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Seed of all random draws (restarts, samples of the background)
    #[arg(long, global = true, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Format of the result [default: from the output's extension, else CSV for tables and text for other
    /// results]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Same as --format json
    #[arg(long, global = true, conflicts_with = "format")]
    pub json: bool,
}

/// Formats of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated values.
    Csv,
    /// JSON.
    Json,
    /// Apache Parquet.
    Parquet,
    /// Text for reading on a terminal.
    Text,
    /// A vector picture.
    Svg,
    /// A picture in pixels.
    Png,
}

/// Parses a number of threads. Numbers above 1,024 are refused: they are mistakes, and could exhaust the
/// machine.
fn threads(text: &str) -> std::result::Result<usize, String> {
    const MAX_THREADS: usize = 1024;
    match text.parse() {
        Ok(count) if (1..=MAX_THREADS).contains(&count) => Ok(count),
        _ => Err(format!("it is a whole number from 1 to {MAX_THREADS}")),
    }
}

/// A table to read.
#[derive(Debug, Clone, Args)]
pub struct TableArgs {
    /// Separator of the columns of a text file: one character, or 'tab' [default: found in the first line: a
    /// comma, or else a semicolon, tab or bar]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// Notation of numbers in text: 0.5 or 0,5 [default: .]
    #[arg(long, value_name = "MARK", value_enum, hide_possible_values = true)]
    pub decimal: Option<Decimal>,
    /// Encoding of a text file [default: UTF-8, or UTF-16 where a byte order mark says so]
    #[arg(long, value_name = "NAME")]
    pub encoding: Option<String>,
    /// Sheet of a workbook [default: the only one that has cells]
    #[arg(long, value_name = "NAME")]
    pub sheet: Option<String>,
    /// Types of columns whose type is detected wrongly: 'zip=text,age=number'; 'riesz inspect' shows the
    /// detected types
    #[arg(long, value_name = "NAME=KIND,…", value_parser = column_choices)]
    pub column: Vec<ColumnChoices>,
    /// Cells that mean a missing value, besides empty ones, NA, N/A, NaN and null: '-9999,?'
    #[arg(long, value_name = "CELL,…", value_delimiter = ',', allow_hyphen_values = true)]
    pub na_values: Vec<String>,
    /// Names of the features of LIBSVM data files, for commands that have an option for them.
    #[arg(skip)]
    pub features: Vec<String>,
}

impl TableArgs {
    /// The table at `path`.
    pub fn source(&self, path: &Path) -> TableFile {
        let options = ReadOptions {
            delimiter: self.delimiter,
            decimal: self.decimal,
            encoding: self.encoding.clone(),
            sheet: self.sheet.clone(),
            columns: self.column.iter().flat_map(|choices| choices.0.iter().cloned()).collect(),
            na_values: self.na_values.clone(),
            features: self.features.clone(),
            ..ReadOptions::default()
        };
        TableFile { path: path.to_path_buf(), options }
    }

    /// The columns whose type the user has given.
    pub fn named(&self) -> impl Iterator<Item = &String> {
        self.column.iter().flat_map(|choices| choices.0.iter().map(|(name, _)| name))
    }
}

/// Columns with their types: true for numbers, false for text.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnChoices(Vec<(String, bool)>);

fn column_choices(text: &str) -> std::result::Result<ColumnChoices, String> {
    let (mut choices, mut name) = (Vec::new(), String::new());
    // A column's name may hold commas and equals signs.
    for piece in text.split(',') {
        name = if name.is_empty() { piece.to_string() } else { format!("{name},{piece}") };
        let kind = name.rsplit_once('=').map(|(column, kind)| (column.trim().to_string(), kind.trim()));
        let number = match &kind {
            Some((_, "number" | "numeric" | "numbers")) => true,
            Some((_, "text" | "category")) => false,
            _ => continue,
        };
        choices.extend(kind.map(|(column, _)| (column, number)));
        name.clear();
    }
    match name.is_empty() && !choices.is_empty() {
        true => Ok(ColumnChoices(choices)),
        false => {
            Err("give a list of columns, each followed by =text or =number: 'zip=text,age=number'".into())
        }
    }
}

/// Treatment of training rows with missing cells.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct RowArgs {
    /// Treatment of rows with a missing value (an empty cell, NA, N/A, NaN, null, or one of --na-values):
    /// stop with an error, or leave the row out
    #[arg(long, value_name = "WAY", value_enum, default_value_t)]
    pub missing: MissingRows,
}

/// Treatment of rows with missing cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum MissingRows {
    /// They are an error.
    #[default]
    Error,
    /// They are left out, and counted.
    Drop,
}

impl RowArgs {
    /// The table; rows with missing cells are left out if `--missing drop` was given.
    pub fn apply_to(self, mut file: TableFile) -> TableFile {
        file.options.drop_missing = self.missing == MissingRows::Drop;
        file.options.missing_remedy = ", or leave its row out with --missing drop";
        file
    }
}

/// Names of the features of LIBSVM files.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "LIBSVM files")]
pub struct FeatureNames {
    /// Names of the features 1, 2, … of LIBSVM models and data files, in this order. Other tables have
    /// columns of these names [default: x0, x1, …]
    #[arg(long, value_name = "COL,…", value_delimiter = ',')]
    pub columns: Vec<String>,
}

impl FeatureNames {
    /// The names of the features; empty if none were given.
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|name| name.trim().to_string()).collect()
    }

    /// Reading options with which the features of LIBSVM data files have these names.
    pub fn tables(&self, table: &TableArgs) -> TableArgs {
        TableArgs { features: self.names(), ..table.clone() }
    }
}

/// Information that LIBSVM files do not contain.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "LIBSVM files")]
pub struct FeatureArgs {
    /// Names of the features.
    #[command(flatten)]
    pub feature_names: FeatureNames,
    /// The features 1, 2, … of a LIBSVM model are the columns of the table of rows, in their order
    #[arg(long, conflicts_with = "columns")]
    pub columns_in_order: bool,
    /// Range file of 'svm-scale -s' for a LIBSVM model that was fitted on scaled data. Rows are then given in
    /// the units of the unscaled data, and outputs are in the units of the target if that was scaled too
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, visible_alias = "scale-ranges")]
    pub scale: Option<PathBuf>,
}

impl FeatureArgs {
    /// Reading options with which the features of LIBSVM data files have the given names.
    pub fn tables(&self, table: &TableArgs) -> TableArgs {
        self.feature_names.tables(table)
    }

    /// Opens a table, whose features have the given names if it is a LIBSVM data file.
    pub fn open(&self, table: &TableArgs, path: &Path) -> Result<OpenTable> {
        self.tables(table).source(path).open()
    }

    /// The first option that was given.
    pub fn first_given(&self) -> Option<&'static str> {
        let options = [
            ("--scale", self.scale.is_some()),
            ("--columns", !self.feature_names.columns.is_empty()),
            ("--columns-in-order", self.columns_in_order),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }
}

/// Treatment of cells that a model cannot use.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Cells that the model cannot take")]
pub struct CellArgs {
    /// Treatment of a category that the model has not seen: stop with an error, or treat it as a new
    /// category, which differs from each known one as much as these differ from each other; all unseen
    /// categories are the same one
    #[arg(long, value_name = "WAY", value_enum, default_value_t)]
    pub unseen: Unseen,
    /// Treatment of a missing value (an empty cell, NA, N/A, NaN, null): stop with an error, or fill in the
    /// median of its column, or the most frequent category, among the model's support points (all training
    /// rows, except for support vector machines); for a program, among the rows of the background
    #[arg(long, value_name = "WAY", value_enum, default_value_t)]
    pub missing: MissingCellPolicy,
}

/// Treatment of categories that a model has not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Unseen {
    /// They are an error.
    #[default]
    Error,
    /// They are one new category, which differs from all known ones.
    None,
}

/// Treatment of missing values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum MissingCellPolicy {
    /// They are an error.
    #[default]
    Error,
    /// They are filled in.
    Impute,
}

impl CellArgs {
    /// The first option that was given.
    pub fn first_given(&self) -> Option<String> {
        let options = [
            ("--unseen", self.unseen != Unseen::Error),
            ("--missing", self.missing != MissingCellPolicy::Error),
        ];
        options.iter().find(|(_, is_given)| *is_given).map(|(option, _)| (*option).to_string())
    }

    /// Prepares a model that was read from a file. With `--unseen none` its categorical columns get a level
    /// for unseen categories.
    pub fn admit(&self, saved: SavedModel) -> Result<SavedModel> {
        Ok(SavedModel { model: self.with_unseen_levels(saved.model)?, ..saved })
    }

    /// The model as [`admit`](Self::admit) prepares it.
    pub fn with_unseen_levels(&self, model: KernelExpansion) -> Result<KernelExpansion> {
        Ok(if self.unseen == Unseen::None { model.with_unknown_level()? } else { model })
    }

    /// The cell policy for a model that was [admitted](Self::admit).
    pub fn for_model(&self, points: &Table) -> Result<CellPolicy> {
        Ok(CellPolicy {
            missing: self.filling(points, "the model's support points")?,
            unseen: match self.unseen {
                Unseen::Error => UnseenLevels::Refuse("; --unseen none takes it for none of these"),
                Unseen::None => UnseenLevels::UseLast,
            },
        })
    }

    /// The cell policy for a program whose background is `rows`.
    pub fn for_program(&self, rows: &Table) -> Result<CellPolicy> {
        if self.unseen != Unseen::Error {
            return Err(Failure::input(
                "--unseen none needs a model, which lists its categories; a program takes the categories of \
                 its background: add a background row with the new category, or leave --unseen out",
            ));
        }
        Ok(CellPolicy { missing: self.filling(rows, "the background")?, unseen: UnseenLevels::Refuse("") })
    }

    fn filling(&self, rows: &Table, source: &'static str) -> Result<MissingCells> {
        if self.missing == MissingCellPolicy::Error {
            return Ok(MissingCells::Refuse(", or give --missing impute"));
        }
        if rows.rows() == 0 {
            return Err(Failure::input(format!(
                "--missing impute takes typical values of {source}, which has no rows: fill the values in \
                 yourself"
            )));
        }
        Ok(MissingCells::Fill { values: (0..rows.width()).map(|j| typical_value(rows, j)).collect(), source })
    }
}

fn delimiter(text: &str) -> std::result::Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"\"\r\n.-".contains(byte) => {
            Ok(*byte)
        }
        _ => Err("give one character such as ';', or 'tab'".into()),
    }
}
