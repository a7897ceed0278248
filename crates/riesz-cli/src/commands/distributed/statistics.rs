//! `riesz distributed statistics`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::fit::nystrom::{
    Coefficients, DataPass, FitControl, InitialData, ResultStore, Statistics, names, pass, statistics,
};

use crate::args::Global;
use crate::console::{Console, with_progress};
use crate::exit::{Failure, Result};
use crate::io::checkpoint::{Checkpoint, planned};

const EXAMPLES: &str = "\
Examples:
  riesz fit 'data/*.parquet' --target y --landmarks 2000 --checkpoint DIR --plan-only    prints DIR/PLAN
  riesz distributed statistics DIR/PLAN --unit 17    one unit, on any machine that sees the files
  riesz distributed statistics DIR/PLAN --unit \"$SLURM_ARRAY_TASK_ID\"
  riesz distributed solve DIR/PLAN -o model.riesz     once all statistics are there
  riesz distributed statistics DIR/PLAN --unit 17 --pass    the unit's pass for a solution; then solve again";

/// Arguments of `distributed statistics`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = EXAMPLES)]
pub struct Args {
    /// Folder of a plan that 'riesz fit … --plan-only' made
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub plan: PathBuf,
    /// Units of work to process, counted from 0
    #[arg(long = "unit", value_name = "N", required = true, num_args = 1.., value_delimiter = ',')]
    pub units: Vec<u64>,
    /// Compute the unit's pass over the data at the coefficients of the last 'solve' instead of its
    /// statistics: for corrections, and for every step of klr, gpc and conjugate gradients
    #[arg(long)]
    pub pass: bool,
}

/// Computes missing statistics or passes, and stores them.
pub fn run(args: &Args, _: &Global, console: Console) -> Result<()> {
    let (mut store, request, plan) = planned(&args.plan)?;
    let mut reading = request.data.rows(&request.roles);
    let latest = if args.pass { Some(latest_coefficients(&mut store, &plan)?) } else { None };
    if latest.is_none() && plan.needs() != InitialData::Statistics {
        return Err(Failure::input(
            "fits by this plan use passes rather than statistics: run 'riesz distributed solve', and then this \
             command with --pass",
        ));
    }
    for &unit in &args.units {
        let description = reading.describe(unit)?;
        let control = FitControl::default();
        let (name, stored) = match &latest {
            None => {
                let name = names::statistics(unit);
                let stored = store.get(&name)?.map(|bytes| Statistics::from_bytes(&plan, &bytes).map(|_| ()));
                (name, stored)
            }
            Some(coefficients) => {
                let name = names::pass(coefficients, unit);
                let stored = store
                    .get(&name)?
                    .map(|bytes| DataPass::from_bytes(&plan, coefficients, &bytes).map(|_| ()));
                (name, stored)
            }
        };
        if let Some(result) = stored {
            result.map_err(|e| Failure::from(e).about(&name))?;
            console.note(format!("{name} exists already"));
            continue;
        }
        let message = format!("unit {unit}: {description}");
        let bytes = with_progress(&console, &message, &control.progress.clone(), || match &latest {
            None => statistics(&mut reading, &plan, unit, &control).map(|statistics| statistics.to_bytes()),
            Some(coefficients) => {
                pass(&mut reading, &plan, coefficients, unit, &control).map(|pass| pass.to_bytes())
            }
        })?;
        store.put(&name, &bytes)?;
        console.note(format!("{name}: {} bytes", bytes.len()));
    }
    Ok(())
}

/// The coefficients of the last solution.
fn latest_coefficients(store: &mut Checkpoint, plan: &riesz::fit::nystrom::FitPlan) -> Result<Coefficients> {
    let Some(bytes) = store.get(names::COEFFICIENTS)? else {
        return Err(Failure::input(
            "there are no coefficients of this plan: run 'riesz distributed solve' first (a Gaussian process \
             takes no passes)",
        ));
    };
    Ok(Coefficients::from_bytes(plan, &bytes)?)
}
