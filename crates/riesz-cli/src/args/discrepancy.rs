//! Arguments of `compare`, `depend` and `select`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::TableArgs;

/// What both tests take.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The test")]
pub struct TestArgs {
    /// Kernel between rows, an expression as in 'riesz fit'. Several make an aggregated test, whose p-value allows for
    /// the choice among them [default: a Gaussian of median length scale, times equality of categories]
    #[arg(long, value_name = "EXPR")]
    pub kernel: Vec<String>,
    /// An aggregated test of the kernel with its length scales multiplied by each of these: 0.25,0.5,1,2,4
    #[arg(long, value_name = "MULTIPLES", value_delimiter = ',')]
    pub lengthscales: Vec<f64>,
    /// Take columns as they are instead of standardising them
    #[arg(long, visible_alias = "no-standardize")]
    pub no_standardise: bool,
    /// Draws from the null distribution, with --seed; 0 for no p-values
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub permutations: usize,
    /// Columns that count as one feature, 'blood=s1,s2;body=bmi', or a file with one group a line
    #[arg(long, value_name = "GROUPS")]
    pub groups: Option<String>,
    /// Also share the statistic out to pairs of features (in text and JSON)
    #[arg(long)]
    pub interactions: bool,
    /// The statistic alone, without features: for kernels that tie columns together, and quicker
    #[arg(long, conflicts_with_all = ["groups", "interactions"])]
    pub statistic_only: bool,
    /// Columns to leave out
    #[arg(long, value_name = "COL", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Columns whose numbers are names of categories
    #[arg(long, value_name = "COL", value_delimiter = ',')]
    pub categorical: Vec<String>,
    /// Most features shown by name in pictures and text
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_display: usize,
    /// Title of the page [default: what is tested]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Where to write the result: a page (.html), a picture of the features (.svg, .png), a table of them (.csv, .parquet), or everything (.json)
    /// [default: words on standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How to read the tables.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  riesz compare last_year.csv this_year.csv
  riesz compare patients.csv --by sex -o differ.html
  riesz compare a.parquet b.parquet --lengthscales 0.25,0.5,1,2,4 -o differ.csv
  riesz compare a.csv b.csv --estimator linear          millions of rows

MMD² (maximum mean discrepancy) is 0 if, and with the default kernel only if, rows are distributed
alike. The table of features has the columns feature, value, null_low, null_high, p_value and
adjusted_p_value.")]
pub struct CompareArgs {
    /// First sample, CSV or Parquet; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub first: PathBuf,
    /// Second sample; its columns are matched by name
    #[arg(value_hint = ValueHint::FilePath, conflicts_with = "by")]
    pub second: Option<PathBuf>,
    /// One table in place of two: compare rows by the two values of this column, or COL=VALUE with all others
    #[arg(long, value_name = "COL[=VALUE]")]
    pub by: Option<String>,
    /// How MMD² is estimated: over all pairs of rows (unbiased, or biased and never negative), or over consecutive blocks
    /// in time that grows linearly (linear: blocks of 2)
    #[arg(long, value_name = "WAY", value_parser = ["unbiased", "biased", "linear", "block"], default_value = "unbiased")]
    pub estimator: String,
    /// Rows of a block [default: the square root of the number of rows]
    #[arg(long, value_name = "ROWS")]
    pub block_size: Option<usize>,
    /// The test.
    #[command(flatten)]
    pub test: TestArgs,
}

/// Arguments of `depend`.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  riesz depend data.csv --target y
  riesz depend data.csv --target y1,y2 -o depend.html
  riesz depend data.csv --target y --given age           beyond what age says of both
  riesz depend series.csv --target y --wild-bootstrap 20  rows are a time series

HSIC (Hilbert-Schmidt independence criterion) is 0 if, and with the default kernels only if, the
target is independent of the other columns. The table of features has the columns feature, value,
null_low, null_high, p_value and adjusted_p_value.")]
pub struct DependArgs {
    /// Table with a header row, CSV or Parquet; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub data: PathBuf,
    /// Column or columns that may depend on the others
    #[arg(long, value_name = "COL", value_delimiter = ',', required = true)]
    pub target: Vec<String>,
    /// Take away first what these columns say of the means of target and features (conditional independence; numbers only)
    #[arg(long, value_name = "COL", value_delimiter = ',')]
    pub given: Vec<String>,
    /// Kernel between targets, an expression [default: as for features]
    #[arg(long, value_name = "EXPR")]
    pub target_kernel: Option<String>,
    /// How HSIC is estimated
    #[arg(long, value_name = "WAY", value_parser = ["biased", "unbiased"], default_value = "biased")]
    pub estimator: String,
    /// Share the statistic out to the targets instead of the features
    #[arg(long)]
    pub by_target: bool,
    /// Rows are a stationary time series whose memory fades over so many rows: a wild bootstrap in place of permutations
    #[arg(long, value_name = "ROWS")]
    pub wild_bootstrap: Option<f64>,
    /// The test.
    #[command(flatten)]
    pub test: TestArgs,
}

/// Arguments of `select`.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  riesz select data.csv --target y
  riesz select data.csv --target y --features 10 -o best.csv
  riesz select data.csv --target y --features 10 --method lasso

The result is a table with the columns rank, feature and score, best first.")]
pub struct SelectArgs {
    /// Table with a header row, CSV or Parquet; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub data: PathBuf,
    /// Column or columns that features are selected for
    #[arg(long, value_name = "COL", value_delimiter = ',', required = true)]
    pub target: Vec<String>,
    /// How many features to name [default: all]
    #[arg(long, value_name = "N")]
    pub features: Option<usize>,
    /// By Shapley values of HSIC, by backward elimination (BAHSIC), or by HSIC-Lasso
    #[arg(long, value_name = "WAY", default_value = "shapley",
        value_parser = clap::builder::PossibleValuesParser::new(riesz::discrepancy::selection::Method::NAMES))]
    pub method: String,
    /// Columns to leave out
    #[arg(long, value_name = "COL", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Columns whose numbers are names of categories
    #[arg(long, value_name = "COL", value_delimiter = ',')]
    pub categorical: Vec<String>,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How to read the table.
    #[command(flatten)]
    pub table: TableArgs,
}
