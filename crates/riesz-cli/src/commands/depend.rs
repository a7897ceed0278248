//! `riesz depend`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::discrepancy::{IndependenceTest, Null, TestResult, residuals};
use riesz::explanation::Fact;
use riesz::kernel::{ColumnScaling, KernelExpression};
use riesz::{Kernel, Table};

use crate::args::{Global, RowArgs, TestArgs};
use crate::console::{Console, watched};
use crate::failure::{Failure, Result};
use crate::finding::{Finding, brief, form, kernels, settings};
use crate::io::columns::Columns;
use crate::io::names::listed_columns;

/// Arguments of `depend`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz depend data.csv --target y
  riesz depend data.csv --target y1,y2 -o depend.html
  riesz depend data.csv --target y --given age           beyond what age says of both
  riesz depend series.csv --target y --wild-bootstrap 20  rows are a time series

HSIC (Hilbert-Schmidt independence criterion) is 0 if, and with the default kernels only if, the
target is independent of the other columns. The table of features has the columns feature, value,
null_low, null_high, pvalue, adjusted_pvalue, and of each feature by itself alone and alone_pvalue.")]
pub struct Args {
    /// Table with a header row, CSV or Parquet; '-' is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub data: PathBuf,
    /// Column or columns that may depend on the others
    #[arg(long, value_name = "COL,…", required = true)]
    pub target: Vec<String>,
    /// Take away first what these columns say of the means of target and features (conditional independence;
    /// numbers only)
    #[arg(long, value_name = "COL,…")]
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
    /// Rows are a stationary time series whose memory fades over so many rows: a wild bootstrap in place of
    /// permutations
    #[arg(long, value_name = "ROWS")]
    pub wild_bootstrap: Option<f64>,
    /// What becomes of rows with missing cells.
    #[command(flatten)]
    pub rows: RowArgs,
    /// The test.
    #[command(flatten)]
    pub test: TestArgs,
}

/// Reads, tests whether targets depend on features, and writes what was found.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = form(&args.test, global)?;
    let test = &args.test;
    let rows = args.rows.of(test.table.source(&args.data)).open()?;
    let (name, header) = (rows.name.clone(), rows.header().to_vec());
    let args = &Args {
        target: listed_columns(&args.target, &header),
        given: listed_columns(&args.given, &header),
        test: args.test.of(&header),
        ..args.clone()
    };
    let test = &args.test;
    rows.places(args.target.iter().chain(&args.given).chain(&test.ignore).chain(&test.categorical))?;
    if let Some(both) = args.given.iter().find(|c| args.target.contains(c)) {
        return Err(Failure::input(format!("column '{both}' cannot be a target and given: leave one out")));
    }
    let features: Vec<String> = header
        .iter()
        .filter(|c| !args.target.contains(c) && !args.given.contains(c) && !test.ignore.contains(c))
        .cloned()
        .collect();
    if features.is_empty() {
        return Err(Failure::input(format!("{name}: no column is left that the target could depend on")));
    }
    let wanted: Vec<String> = features.iter().chain(&args.target).chain(&args.given).cloned().collect();
    let columns = Columns::read(rows, &wanted)?;
    let table = |names: &[String]| columns.table(names, &test.categorical, &console);
    let (mut x, mut y) = (table(&features)?, table(&args.target)?);
    if !args.given.is_empty() {
        let given = table(&args.given)?;
        let progress = console.progress("taking away what is given");
        (x, y) = (residuals(&x, &given)?, residuals(&y, &given)?);
        drop(progress);
    }
    // The kernels belong to the features and the targets, whichever of them the statistic is shared out to.
    let target_kernel = args.target_kernel.as_deref().map(|text| expression(text, &y, args)).transpose()?;
    let (by, other) = if args.by_target { (&y, &x) } else { (&x, &y) };
    let (own, others) = if args.by_target {
        let of_features = kernels(test, &x)?;
        if of_features.len() > 1 {
            return Err(Failure::input(
                "with --by-target there is one kernel of the features: give one --kernel",
            ));
        }
        (target_kernel.into_iter().collect(), of_features.into_iter().next())
    } else {
        (kernels(test, &x)?, target_kernel)
    };
    let hsic = IndependenceTest {
        kernels: own,
        target_kernel: others,
        unbiased: args.estimator == "unbiased",
        null: args.wild_bootstrap.map_or(Null::Permutation, Null::WildBootstrap),
        settings: settings(test, global, by)?,
    };
    let message = format!("testing {} rows", x.rows());
    let mut found = watched(&console, &message, &hsic.settings.progress, || hsic.run(by, other))?;
    if let Some(attributions) = &mut found.attributions {
        let run = &mut attributions.explanation.provenance.run;
        run.extend([Fact::new("data", &name), Fact::new("target", args.target.join(", "))]);
        if !args.given.is_empty() {
            run.push(Fact::new("given", args.given.join(", ")));
        }
    }
    let finding = Finding {
        name: "HSIC",
        title: format!("What {} depends on", args.target.join(", ")),
        verdict: verdict(&found, args),
        found: &found,
        witnesses: &|| Ok(Vec::new()),
    };
    finding.write(test, format, &console)
}

fn expression(text: &str, y: &Table, args: &Args) -> Result<Kernel> {
    let units =
        if args.test.no_standardise { ColumnScaling::raw(y.width()) } else { ColumnScaling::standardised(y) };
    Ok(KernelExpression::parse(text)?.resolve(y, &units)?)
}

fn verdict(found: &TestResult, args: &Args) -> String {
    let target = args.target.join(", ");
    let beyond = match args.given.as_slice() {
        [] => String::new(),
        given => format!(" beyond what {} says of both", given.join(", ")),
    };
    let value = brief(found.statistic);
    match found.pvalue {
        None => format!("HSIC of {target} and the features is {value}{beyond}; no test was asked for."),
        Some(p) if p <= 0.05 => format!(
            "{target} depends on the features{beyond}: if it did not, HSIC would be {value} or larger with \
             probability {p:.3}."
        ),
        Some(p) => format!(
            "No dependence of {target} on the features is seen{beyond}: without any, HSIC would be {value} \
             or larger with probability {p:.3}."
        ),
    }
}
