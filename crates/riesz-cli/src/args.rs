//! What the command line understands.

mod discrepancy;
mod question;
mod settings;

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use riesz::fit::{Input, MODELS, ModelKind, Predicts};
use riesz::setting::Values;

pub use discrepancy::{CompareArgs, DependArgs, SelectArgs, TestArgs};
pub use question::GameArgs;
pub use settings::{OfModel, Protected, SettingArgs};

use crate::failure::{Failure, Result};
use crate::io::input::Source;

const EXAMPLES: &str = "\
Examples:
  riesz demo -o report.html                                   see it at work on bundled data
  riesz fit train.csv --target price --model gp -o m.riesz    fit a Gaussian process
  riesz predict m.riesz new.csv                               predictions as CSV
  riesz explain m.riesz new.csv -o why.csv                    one exact value a row and feature
  riesz explain m.riesz new.csv --background train.csv -o why.parquet
  riesz explain libsvm.model new.csv --game baseline --baseline typical.csv
  riesz explain m.riesz new.csv -o why.json && riesz plot beeswarm why.json -o why.svg
  riesz compare a.csv b.csv -o differ.html                    what makes two samples differ
  riesz depend data.csv --target price                        what a column depends on
  riesz inspect m.riesz                                       what is in the file";

/// Kernel machines that explain themselves with exact Shapley values.
#[derive(Debug, Parser)]
#[command(name = "riesz", version, before_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "General options")]
pub struct Global {
    /// Number of threads; results are the same for any number [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,
    /// Say nothing but errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Seed of everything random (restarts, samples of the background)
    #[arg(long, global = true, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Format of the result [default: from the output's extension, else CSV for tables and text for words]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
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
    /// For reading on a terminal.
    Text,
    /// A picture that scales.
    Svg,
    /// A picture in pixels.
    Png,
}

impl Global {
    /// The format of a table: as asked, or by the extension of `output`, or CSV.
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
            (None, Some(other)) => Err(Failure::input(format!(
                "tables are written as .csv, .parquet or .json, not as .{other}: give one of these endings, or --format; \
                 pages and pictures are made by 'riesz report' and 'riesz plot'"
            ))),
        }
    }

    /// Whether words should be JSON.
    pub fn json_words(&self) -> Result<bool> {
        match self.format {
            None | Some(Format::Text) => Ok(false),
            Some(Format::Json) => Ok(true),
            Some(_) => Err(Failure::input("this command answers in words: use --format text or json")),
        }
    }
}

/// More threads than any machine has cores for are a slip, and could bring it down.
fn threads(text: &str) -> std::result::Result<usize, String> {
    const MOST: usize = 1024;
    match text.parse() {
        Ok(count) if (1..=MOST).contains(&count) => Ok(count),
        _ => Err(format!("it is a whole number from 1 to {MOST}")),
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Fit a model to a table
    Fit(Box<FitArgs>),
    /// Predict the rows of a table
    Predict(PredictArgs),
    /// Explain the predictions for the rows of a table
    Explain(ExplainArgs),
    /// Test whether two samples differ, and say in which features
    Compare(Box<CompareArgs>),
    /// Test whether a target depends on the other columns, and say on which
    Depend(Box<DependArgs>),
    /// Rank features by what a target depends on
    Select(SelectArgs),
    /// Draw an explanation
    Plot(PlotArgs),
    /// Write a page about an explanation that opens in any browser, offline
    Report(ReportArgs),
    /// Show what a model or explanation file holds
    Inspect(InspectArgs),
    /// Turn a model file into a LIBSVM model file, or back
    Convert(ConvertArgs),
    /// Fit, explain and report on bundled diabetes data
    Demo(DemoArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

/// A table to read.
#[derive(Debug, Clone, Args)]
pub struct TableArgs {
    /// Separator of CSV columns: one character, or 'tab' [default: comma; tab in .tsv files]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub delimiter: Option<u8>,
}

impl TableArgs {
    /// The table at `path`.
    pub fn source(&self, path: &Path) -> Source {
        Source { path: path.to_path_buf(), delimiter: self.delimiter }
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

const FIT_EXAMPLES: &str = "\
Examples:
  riesz fit train.csv --target price -o m.riesz
  riesz fit train.csv --target price --model gp --kernel 'rbf(ard)' --restarts 3 -o m.riesz
  riesz fit train.csv --target churn --model svc --c auto --class-weight balanced -o m.riesz
  riesz fit train.csv --target price --model krr --kernel 'rbf(age, bmi) + 0.5*linear' -o m.riesz
  cat train.csv | riesz fit - --target y1,y2 --model krr -o m.riesz
  riesz fit train.csv --target price --protect age --strength 100 --protect-game observational -o m.riesz";

/// Arguments of `fit`.
#[derive(Debug, Args)]
#[command(before_help = format!("{FIT_EXAMPLES}\n\n{}", riesz::kernel::help()))]
pub struct FitArgs {
    /// Table with a header row, CSV or Parquet; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub data: PathBuf,
    /// Column or columns to predict
    #[arg(long, value_name = "COL", value_delimiter = ',', required = true)]
    pub target: Vec<String>,
    /// Kind of model
    #[arg(long, default_value = "krr", value_parser = model_kinds())]
    pub model: &'static ModelKind,
    /// Kernel expression
    #[arg(long, value_name = "EXPR", default_value = "rbf")]
    pub kernel: String,
    /// Settings of the kind of model.
    #[command(flatten)]
    pub settings: SettingArgs<OfModel>,
    /// Column of known noise variances of single rows, in the target's squared units, for gp
    #[arg(long, value_name = "COL")]
    pub row_noise: Option<String>,
    /// Column of positive row weights
    #[arg(long, value_name = "COL")]
    pub sample_weight: Option<String>,
    /// Columns to leave out
    #[arg(long, value_name = "COL", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Columns whose numbers are names of categories
    #[arg(long, value_name = "COL", value_delimiter = ',')]
    pub categorical: Vec<String>,
    /// Take columns (and the target of svr and gp) as they are instead of standardising them
    #[arg(long, visible_alias = "no-standardize")]
    pub no_standardise: bool,
    /// Players of later explanations, 'name=col,col;name=col', or a file with one group a line
    #[arg(long, value_name = "GROUPS")]
    pub groups: Option<String>,
    /// Features, or groups of --groups, that krr or klr is not to lean on: their Shapley values at the training rows
    /// are penalised
    #[arg(long, value_name = "FEATURE", value_delimiter = ',')]
    pub protect: Vec<String>,
    /// How strongly: the penalty is STRENGTH/n times the sum of squared values
    #[arg(
        long,
        value_name = "STRENGTH",
        default_value_t = 1.0,
        requires = "protect",
        allow_negative_numbers = true
    )]
    pub strength: f64,
    /// The game of these values, and its settings; the observational one also takes away what other features say of the protected ones.
    #[command(flatten)]
    pub protection: SettingArgs<Protected>,
    /// Keep the posterior of gp or gpc in the file: 'predict --std' and the class probabilities of gpc need it. It adds 4 n²
    /// bytes for n rows (16 MB for 2,000), with three classes or more for each
    #[arg(long)]
    pub posterior: bool,
    /// Model file to write
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How to read the table.
    #[command(flatten)]
    pub table: TableArgs,
}

impl FitArgs {
    /// The settings of the model, after refusing what this kind of model has no use for.
    pub fn values(&self) -> Result<Values> {
        let kind = self.model;
        let given = [
            (Input::Penalty, !self.protect.is_empty()),
            (Input::RowNoise, self.row_noise.is_some()),
            (Input::SampleWeight, self.sample_weight.is_some()),
        ];
        let admitted =
            given.into_iter().filter(|(_, given)| *given).try_for_each(|(input, _)| kind.admit(input));
        admitted.map_err(SettingArgs::<OfModel>::flagged)?;
        if self.posterior {
            kind.needs("posterior", |kind| kind.posterior).map_err(SettingArgs::<OfModel>::flagged)?;
        }
        if let Some(twice) = self.target.iter().enumerate().find(|(k, t)| self.target[..*k].contains(t)) {
            return Err(Failure::input(format!("--target names '{}' twice: leave one out", twice.1)));
        }
        if self.target.len() > 1 && kind.predicts != Predicts::Numbers {
            return Err(Failure::input(format!(
                "--model {} takes one --target: fit one model a target, or use krr or gp",
                kind.name
            )));
        }
        let raw = self.no_standardise && kind.settings.iter().any(|setting| setting.name == "normalize_y");
        let raw = raw.then(|| ("normalize_y".to_string(), false.into()));
        let given = self.settings.all().chain(raw);
        kind.values(given).map_err(|error| self.settings.spelt(error))
    }
}

/// The kinds of model by name.
fn model_kinds() -> impl TypedValueParser<Value = &'static ModelKind> {
    let names = MODELS.map(|kind| PossibleValue::new(kind.name).help(kind.help));
    PossibleValuesParser::new(names).try_map(|name| ModelKind::named(&name).ok_or("no such kind of model"))
}

/// Arguments of `predict`.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  riesz predict m.riesz new.csv
  riesz predict m.riesz new.parquet -o predictions.parquet
  riesz predict m.riesz new.csv --std                         of 'fit --model gp --posterior'
  cat new.csv | riesz predict m.riesz - --format json")]
pub struct PredictArgs {
    /// Model file (riesz, or LIBSVM, whose columns are x1, x2, …)
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of rows, CSV or Parquet; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// Give each output's standard deviation too, as OUTPUT_std, without the noise of a new observation; the model is a gp
    /// fitted with --posterior
    #[arg(long)]
    pub std: bool,
    /// Where to write the result [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How to read the table.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  riesz explain m.riesz new.csv | head                      features dropped from the model
  riesz explain m.riesz new.csv --background train.csv -o why.csv
  riesz explain m.riesz new.csv --game marginal-product --background train.csv -o why.parquet
  riesz explain m.riesz new.csv --game observational -o why.parquet
  riesz explain m.riesz new.csv --groups 'blood=s1,s2,s3' -o why.json
  riesz explain m.riesz new.csv --background train.csv --robustness 'bmi=0.5' -o why.json
  riesz explain 'cmd:python3 forest.py' new.csv --background train.csv --background-rows 50

The table has the columns row (from 0), output, base_value, prediction, residual, and one column
a player, and where values are estimated one column std_error:PLAYER. CSV and Parquet stream: memory
does not grow with the number of rows. Exit code 1: a residual exceeds its proved bound.")]
pub struct ExplainArgs {
    /// Model file (riesz, or LIBSVM, whose columns are x1, x2, …), or 'cmd:COMMAND': a program that gets rows as CSV on
    /// its standard input, in the columns of the background, and answers with a line of numbers a row (KernelSHAP)
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of rows, CSV or Parquet; '-' is standard input; columns that the model does not know are ignored
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// The question.
    #[command(flatten)]
    pub game: GameArgs,
    /// Where to write the result [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How to read the tables.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Arguments of `plot`.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  riesz plot beeswarm why.json -o why.svg
  riesz plot waterfall why.json --row 3 -o row3.png
  riesz plot beeswarm why.parquet rows.csv -o why.svg
  riesz plot dependence why.json --player bmi --color-by age -o bmi.svg --dark")]
pub struct PlotArgs {
    /// Kind of plot
    #[arg(value_parser = PossibleValuesParser::new(riesz_report::Plot::ALL.map(riesz_report::Plot::name)))]
    pub plot: String,
    /// Explanation written by 'riesz explain': JSON, or a table of values (CSV, Parquet)
    #[arg(value_hint = ValueHint::FilePath)]
    pub explanation: PathBuf,
    /// With a table of values: the rows that were explained, for their feature values
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: Option<PathBuf>,
    /// How to read the tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// Output of the model to show, by name or number from 0
    #[arg(long, value_name = "OUTPUT", default_value = "0")]
    pub show: String,
    /// Number of the row that waterfall and force plots show, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub row: usize,
    /// Player of dependence plots [default: the most important one]
    #[arg(long, value_name = "NAME")]
    pub player: Option<String>,
    /// Player whose feature value colours dependence plots
    #[arg(long, value_name = "NAME")]
    pub color_by: Option<String>,
    /// Most players shown by name
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub max_display: usize,
    /// Width in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 720)]
    pub width: u32,
    /// Light ink on a dark ground
    #[arg(long)]
    pub dark: bool,
    /// Picture to write, .svg or .png [default: SVG on standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Arguments of `inspect`.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  riesz inspect m.riesz
  riesz inspect why.json --format json")]
pub struct InspectArgs {
    /// Model or explanation file
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Where to write the result [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Arguments of `convert`.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  riesz convert m.riesz m.libsvm        for svm-predict and whatever else reads LIBSVM's models
  riesz convert svm.model m.riesz

A file whose name ends in .riesz becomes a riesz model, any other a LIBSVM model. LIBSVM's files
hold kernels of the form exp(-γ|x - x'|²), x·x' and (γ x·x' + c)^p in columns x1 … xd; names,
groups and the model card are lost. Fit with one length scale and --no-standardise to write them.")]
pub struct ConvertArgs {
    /// Model file (riesz, or LIBSVM, whose columns are x1, x2, …)
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Model file to write
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  riesz report why.json -o report.html
  riesz report m.riesz new.csv --background train.csv -o report.html")]
pub struct ReportArgs {
    /// Explanation written by 'riesz explain' (JSON, or a table of values), or a model
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// With a model: the rows to explain; with a table of values: the rows that were explained, for their feature values
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: Option<PathBuf>,
    /// The question, with a model.
    #[command(flatten)]
    pub game: GameArgs,
    /// Title of the page
    #[arg(long, value_name = "TEXT", default_value = "Explanation")]
    pub title: String,
    /// Page to write [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How to read the tables.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  riesz demo
  riesz demo -o report.html")]
pub struct DemoArgs {
    /// Page to write
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  riesz completions bash > ~/.local/share/bash-completion/completions/riesz
  riesz completions zsh > ~/.zfunc/_riesz
  riesz completions fish > ~/.config/fish/completions/riesz.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
