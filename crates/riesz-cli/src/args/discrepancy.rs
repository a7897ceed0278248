//! Options of the tests of two samples and of independence.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use riesz::discrepancy::FactorKind;

use super::TableArgs;
use crate::io::names::listed_columns;

/// Parser of the name of a kind of kernel factors.
pub fn factors() -> impl TypedValueParser<Value = FactorKind> {
    PossibleValuesParser::new(FactorKind::NAMES)
        .try_map(|name| FactorKind::named(&name).ok_or("no such factors"))
}

/// Options that both tests share.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The test")]
pub struct TestArgs {
    /// Kernel factors: orthogonal factors of each feature and each pair, with which no feature hides another;
    /// or the product of all factors, as published, in which a strong feature hides the others
    #[arg(long, value_name = "WHICH", default_value = FactorKind::NAMES[0], value_parser = factors())]
    pub kernel_factors: FactorKind,
    /// Kernel between rows, an expression as in 'riesz fit'. Several kernels make an aggregated test, whose
    /// p-value accounts for the choice among them [default: a Gaussian with length scales from the data,
    /// times equality of categories]
    #[arg(long, value_name = "EXPR")]
    pub kernel: Vec<String>,
    /// Test with the kernel at several multiples of its length scales, aggregated: 0.25,0.5,1,2,4
    #[arg(long, value_name = "MULTIPLES", value_delimiter = ',')]
    pub length_scale_multiples: Vec<f64>,
    /// Use columns as they are instead of standardising them
    #[arg(long, visible_alias = "no-standardize")]
    pub no_standardise: bool,
    /// Number of draws from the null distribution; 0 for no p-values
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub permutations: usize,
    /// Columns that count as one feature, 'blood=s1,s2;body=bmi', or a file with one group per line
    #[arg(long, value_name = "GROUPS")]
    pub groups: Option<String>,
    /// Also attribute the statistic to pairs of features (in text and JSON)
    #[arg(long)]
    pub interactions: bool,
    /// Compute the statistic alone, without attribution to features: faster, and possible for kernels that
    /// do not factorise over columns
    #[arg(long, conflicts_with_all = ["groups", "interactions"])]
    pub no_attribution: bool,
    /// Columns to leave out
    #[arg(long, value_name = "COL,…")]
    pub ignore: Vec<String>,
    /// Columns whose numbers are codes of categories
    #[arg(long, value_name = "COL,…")]
    pub categorical: Vec<String>,
    /// Largest number of features shown by name in pictures and text
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_display: usize,
    /// Title of the page [default: the name of the test's data]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Where to write the result: a page (.html), a picture of the features (.svg, .png), a table of them
    /// (.csv, .parquet), or everything (.json) [default: text on standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Options for reading the tables.
    #[command(flatten)]
    pub table: TableArgs,
}

impl TestArgs {
    /// The options, with lists of columns resolved for a table with this header.
    pub fn for_header(&self, header: &[String]) -> Self {
        Self {
            ignore: listed_columns(&self.ignore, header),
            categorical: listed_columns(&self.categorical, header),
            ..self.clone()
        }
    }
}
