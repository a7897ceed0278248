//! `riesz test independence`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::discrepancy::{IndependenceTest, Null, residuals};
use riesz::kernel::{ColumnScaling, KernelExpression};
use riesz::model_card::CardEntry;
use riesz::{Kernel, Table};
use riesz_report::TestSubject;

use super::output::{TestOutput, form, kernels, settings};
use crate::args::{Global, RowArgs, TestArgs};
use crate::console::{Console, with_progress};
use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::names::listed_columns;

/// Arguments of `test independence`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz test independence data.csv --target y
  riesz test independence data.csv --target y1,y2 -o depend.html
  riesz test independence data.csv --target y --given age           conditional dependence, given age
  riesz test independence series.csv --target y --wild-bootstrap 20  rows are a time series

HSIC (Hilbert-Schmidt independence criterion) is 0 if the target is independent of the other
columns, and with the default kernels only then. The table of features has the columns feature,
value, null_low, null_high, pvalue and adjusted_pvalue, and marginal and marginal_pvalue for the
test of each feature by itself.")]
pub struct Args {
    /// Table with a header row, CSV or Parquet; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub data: PathBuf,
    /// Column or columns that may depend on the others
    #[arg(long, value_name = "COL,…", required = true)]
    pub target: Vec<String>,
    /// Test conditional dependence: first subtract the means of target and features given these columns
    /// (numbers only)
    #[arg(long = "given", value_name = "COL,…")]
    pub conditioning: Vec<String>,
    /// Kernel between targets, an expression [default: as for features]
    #[arg(long, value_name = "EXPR")]
    pub target_kernel: Option<String>,
    /// Estimator of HSIC
    #[arg(long, value_name = "WAY", value_parser = ["biased", "unbiased"], default_value = "biased")]
    pub estimator: String,
    /// The columns to which the statistic is attributed
    #[arg(long, value_name = "SIDE", value_enum, default_value_t)]
    pub attribute_to: Attributed,
    /// Treat rows as a stationary time series whose autocorrelation decays over ROWS rows: use a wild
    /// bootstrap instead of permutations
    #[arg(long, value_name = "ROWS")]
    pub wild_bootstrap: Option<f64>,
    /// Treatment of rows with missing cells.
    #[command(flatten)]
    pub rows: RowArgs,
    /// The test.
    #[command(flatten)]
    pub test: TestArgs,
}

/// The columns to which the statistic is attributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Attributed {
    /// The features.
    #[default]
    Features,
    /// The targets.
    Targets,
}

/// Reads the table, tests whether the targets depend on the features, and writes the result.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = form(&args.test, global)?;
    let test = &args.test;
    let rows = args.rows.apply_to(test.table.source(&args.data)).open()?;
    let (name, header) = (rows.name.clone(), rows.header().to_vec());
    let args = &Args {
        target: listed_columns(&args.target, &header),
        conditioning: listed_columns(&args.conditioning, &header),
        test: args.test.for_header(&header),
        ..args.clone()
    };
    let test = &args.test;
    rows.column_indices(
        args.target.iter().chain(&args.conditioning).chain(&test.ignore).chain(&test.categorical),
    )?;
    if let Some(shared) = args.conditioning.iter().find(|c| args.target.contains(c)) {
        return Err(Failure::input(format!(
            "column '{shared}' is in both --target and --given: leave it out of one"
        )));
    }
    let features: Vec<String> = header
        .iter()
        .filter(|c| !args.target.contains(c) && !args.conditioning.contains(c) && !test.ignore.contains(c))
        .cloned()
        .collect();
    if features.is_empty() {
        return Err(Failure::input(format!("{name}: no column is left as a feature; ignore fewer columns")));
    }
    let column_names: Vec<String> =
        features.iter().chain(&args.target).chain(&args.conditioning).cloned().collect();
    let columns = Columns::read(rows, &column_names)?;
    let table = |names: &[String]| columns.table(names, &test.categorical, &console);
    let (mut x, mut y) = (table(&features)?, table(&args.target)?);
    if !args.conditioning.is_empty() {
        let conditions = table(&args.conditioning)?;
        let progress = console.progress("regressing on the conditioning columns");
        (x, y) = (residuals(&x, &conditions)?, residuals(&y, &conditions)?);
        drop(progress);
    }
    // `--kernel` is for features and `--target-kernel` for targets, whichever of them get the attributions.
    let target_kernel = args.target_kernel.as_deref().map(|text| expression(text, &y, args)).transpose()?;
    let (attributed, other) = if args.attribute_to == Attributed::Targets { (&y, &x) } else { (&x, &y) };
    let (feature_kernels, other_kernel) = if args.attribute_to == Attributed::Targets {
        let kernels_of_features = kernels(test, &x)?;
        if kernels_of_features.len() > 1 {
            return Err(Failure::input(
                "--attribute-to targets takes one kernel of the features: give one --kernel",
            ));
        }
        (target_kernel.into_iter().collect(), kernels_of_features.into_iter().next())
    } else {
        (kernels(test, &x)?, target_kernel)
    };
    let hsic = IndependenceTest {
        kernels: feature_kernels,
        target_kernel: other_kernel,
        unbiased: args.estimator == "unbiased",
        null: args.wild_bootstrap.map_or(Null::Permutation, Null::WildBootstrap),
        settings: settings(test, global, attributed)?,
    };
    let message = format!("testing {} rows", x.rows());
    let mut result =
        with_progress(&console, &message, &hsic.settings.progress, || hsic.run(attributed, other))?;
    if let Some(attributions) = &mut result.attributions {
        let run = &mut attributions.explanation.provenance.run;
        run.extend([CardEntry::new("data", &name), CardEntry::new("target", args.target.join(", "))]);
        if !args.conditioning.is_empty() {
            run.push(CardEntry::new("given", args.conditioning.join(", ")));
        }
    }
    let (target, conditions) = (args.target.join(", "), args.conditioning.join(", "));
    let finding = TestOutput {
        subject: TestSubject::Dependence { target: &target, conditions: &conditions },
        result: &result,
        witnesses: &|| Ok(Vec::new()),
    };
    finding.write(test, format, &console)
}

fn expression(text: &str, y: &Table, args: &Args) -> Result<Kernel> {
    let units =
        if args.test.no_standardise { ColumnScaling::raw(y.width()) } else { ColumnScaling::standardised(y) };
    Ok(KernelExpression::parse(text)?.resolve(y, &units)?)
}
