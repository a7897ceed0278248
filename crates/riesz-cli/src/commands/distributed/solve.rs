//! `riesz distributed solve`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::ValueHint;
use riesz::fit::FittedModel;
use riesz::fit::nystrom::{
    DataPass, FitPlan, FitState, InitialData, InitialInput, ResultStore, Statistics, kept_survey, names,
};
use riesz::format::model::{SavedModel, to_bytes};
use riesz::model_card::CardEntry;

use crate::args::Global;
use crate::commands::fit::written;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::checkpoint::{Checkpoint, Request, planned};
use crate::io::input::{name_of, read_file};
use crate::io::output::Output;

const EXAMPLES: &str = "\
Examples:
  riesz distributed solve DIR/PLAN -o model.riesz    from the statistics of all units in the folder
  riesz distributed solve DIR/PLAN --statistics all.stat -o model.riesz    from merged statistics
  until riesz distributed solve DIR/PLAN -o model.riesz; do    klr, gpc and conjugate gradients: pass by pass
    for unit in 0 1 2 3; do riesz distributed statistics DIR/PLAN --unit $unit --pass; done; done";

/// Arguments of `distributed solve`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = EXAMPLES)]
pub struct Args {
    /// Folder of a plan
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub plan: PathBuf,
    /// Merged statistics [default: the statistics of all units in the folder]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub statistics: Option<PathBuf>,
    /// (krr, klr) Keep an estimate of the error of landmarks in the file, for 'predict --std' and 'explain
    /// --covariance'. The posterior of gp and gpc is always kept
    #[arg(long)]
    pub posterior: bool,
    /// Model file to write
    #[arg(long, short, value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
}

/// Solves the fit, continues with the available passes, and writes the model.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let as_json = global.is_json_requested()?;
    let (mut store, request, plan) = planned(&args.plan)?;
    let output = Output::open(Some(&args.output))?;
    let every = || (0..request.data.count()).collect::<BTreeSet<u64>>();
    if args.statistics.is_some() && plan.needs() != InitialData::Statistics {
        let problem = "--statistics cannot be used with this plan, which is solved pass by pass: leave it \
                       out";
        return Err(Failure::input(problem));
    }
    let (units, mut fitting) = match plan.needs() {
        InitialData::Statistics => {
            let statistics = all_statistics(args, &mut store, &request, &plan, console)?;
            (
                statistics.units().clone(),
                FitState::new(&plan, &request.job, InitialInput::Statistics(statistics))?,
            )
        }
        InitialData::Survey => {
            let survey = kept_survey(&mut store)?;
            (every(), FitState::new(&plan, &request.job, InitialInput::Survey(&survey))?)
        }
        InitialData::Nothing => (every(), FitState::new(&plan, &request.job, InitialInput::Nothing)?),
    };
    while let Some(coefficients) = fitting.next_coefficients().cloned() {
        store.put(names::COEFFICIENTS, &coefficients.to_bytes())?;
        let mut total = DataPass::empty(&plan, &coefficients);
        let mut missing = None;
        for &unit in &units {
            let name = names::pass(&coefficients, unit);
            match store.get(&name)? {
                Some(bytes) => {
                    let pass = DataPass::from_bytes(&plan, &coefficients, &bytes);
                    total.merge(&pass.map_err(|e| Failure::from(e).about(&name))?)?;
                }
                None => missing = missing.or(Some(unit)),
            }
        }
        if let Some(unit) = missing {
            let message = format!(
                "{} after {} passes: run 'riesz distributed statistics {} --unit {unit} --pass' for every unit, \
                 then solve again",
                fitting.missing_stage(),
                fitting.passes(),
                name_of(&args.plan)
            );
            if !fitting.has_model() {
                return Err(Failure::input(message));
            }
            console.note(message);
            break;
        }
        fitting.apply_pass(&total)?;
    }
    finished((&request, args.posterior), fitting.fitted()?, output, as_json, console)
}

/// The merged statistics of `--statistics`, or the sum over all units in the folder.
fn all_statistics(
    args: &Args,
    store: &mut Checkpoint,
    request: &Request,
    plan: &FitPlan,
    console: Console,
) -> Result<Statistics> {
    let units = request.data.count();
    let total = match &args.statistics {
        Some(path) => {
            let about = |e: riesz::Error| Failure::from(e).about(&name_of(path));
            Statistics::from_bytes(plan, &read_file(path)?).map_err(about)?
        }
        None => {
            let mut total = Statistics::empty(plan);
            for unit in 0..units {
                let name = names::statistics(unit);
                let bytes = store.get(&name)?.ok_or_else(|| {
                    Failure::input(format!(
                        "the statistics of unit {unit} are missing: run 'riesz distributed statistics {} --unit \
                         {unit}'",
                        name_of(&args.plan)
                    ))
                })?;
                total.merge(
                    &Statistics::from_bytes(plan, &bytes).map_err(|e| Failure::from(e).about(&name))?,
                )?;
            }
            total
        }
    };
    if total.units().len() as u64 != units {
        console.warn(format!(
            "the statistics cover {} of {units} units: the fit uses only the rows of these",
            total.units().len()
        ));
    }
    Ok(total)
}

/// Writes the model; the posterior of a Gaussian process is always kept, an estimated error only on request.
fn finished(
    (request, posterior): (&Request, bool),
    fitted: FittedModel,
    output: Output,
    as_json: bool,
    console: Console,
) -> Result<()> {
    fitted.warnings.iter().for_each(|warning| console.warn(warning));
    let mut model = fitted.model;
    let covariance = fitted.covariance.filter(|covariance| posterior || covariance.is_of_data());
    if model.classes.is_empty() {
        model.output_names.clone_from(&request.roles.targets);
    }
    model.model_card.push(CardEntry::new("data", request.data.name()));
    model.model_card.push(CardEntry::new("standardised", if request.standardised { "yes" } else { "no" }));
    model.model_card.push(CardEntry::new("kernel expression", &request.kernel));
    model.model_card.push(CardEntry::new("riesz", env!("CARGO_PKG_VERSION")));
    let summary = model.model_card.clone();
    let saved = SavedModel { model, covariance, groups: None };
    written(&to_bytes(&saved)?, output, &summary, as_json, console)
}
