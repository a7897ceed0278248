//! Fits to more rows than memory holds: rows are read in units of work, in several passes.

use std::time::Instant;

use riesz::Matrix;
use riesz::fit::nystrom::{
    Accumulator, Coefficients, DataPass, DataSurvey, FitControl, FitPlan, InitialData, Job, Kind,
    ResultStore, RowSource, expected_passes, fit, names,
};
use riesz::kernel::{ColumnScaling, KernelExpression};

use super::{Args, Learnt};
use crate::console::{Console, with_progress};
use crate::exit::{Failure, Result};
use crate::io::checkpoint::{Checkpoint, Request};
use crate::io::dataset::{Dataset, Reading, Roles};
use crate::question_args::read_groups;

/// Plans the fit and runs it; `None` if only a plan was requested.
pub fn run(
    args: &Args,
    data: Dataset,
    features: &[String],
    job: Job,
    console: Console,
) -> Result<Option<Learnt>> {
    let mut request = Request {
        riesz: env!("CARGO_PKG_VERSION").into(),
        roles: Roles {
            features: features.iter().map(riesz::Column::numeric).collect(),
            targets: args.target.clone(),
            weights: args.sample_weight.clone(),
            units: Vec::new(),
            classes: None,
        },
        data,
        kernel: args.kernel().to_string(),
        standardised: !args.no_standardise,
        job,
    };
    for column in request.roles.features.iter_mut().filter(|c| args.categorical.contains(&c.name)) {
        column.kind = riesz::ColumnKind::Categorical { levels: Vec::new() };
    }
    let folder = args.checkpoint.as_ref().map(|folder| folder.join(request.digest()));
    let mut store = folder.map_or_else(|| Ok(Checkpoint::none()), Checkpoint::open)?;
    let (request, plan, survey) = match (store.request()?, store.plan()?) {
        (Some(request), Some(plan)) => {
            console.note(format!(
                "continues with {}",
                store.folder().map_or(String::new(), |f| f.display().to_string())
            ));
            (request, plan, None)
        }
        _ => {
            let Roles { targets, weights, .. } = &request.roles;
            let names: Vec<String> = features.iter().chain(targets).chain(weights).cloned().collect();
            let first_rows = request.data.first_rows(&names)?;
            request.roles.units = first_rows.units(&names)?;
            request.roles.features =
                request.data.features(&first_rows, features, &args.categorical, &console)?;
            if let Kind::Classes { names, .. } = &mut request.job.kind {
                *names = classes(&request.data, &args.target[0], &console)?;
                request.roles.classes = Some(names.clone());
            }
            let (plan, survey) = planned(&request, &console)?;
            store.put_request(&request)?;
            if plan.needs() == InitialData::Survey {
                store.put(names::SURVEY, &survey.to_bytes())?;
            }
            store.put(names::PLAN, &plan.to_bytes())?;
            (request, plan, Some(survey))
        }
    };
    let units = request.data.count();
    console.note(description(&plan, units));
    if args.plan_only {
        let folder = store.folder().map_or(String::new(), |f| f.display().to_string());
        println!("{folder}");
        return Ok(None);
    }
    let mut reading = request.data.rows(&request.roles);
    let control = FitControl::default();
    store.loaded = 0;
    let mut fitted = with_progress(&console, "fitting", &control.progress.clone(), || {
        fit(&mut reading, &mut store, (&request.job, &plan, survey.as_ref()), units, &control)
    })?;
    if store.loaded > 0 {
        console.note(format!("{} results were kept from an earlier run", store.loaded));
    }
    if fitted.model.classes.is_empty() {
        fitted.model.output_names.clone_from(&request.roles.targets);
    }
    let groups = args.groups.as_deref().map(|g| read_groups(g, plan.landmarks.columns())).transpose()?;
    let units = request.roles.units.clone();
    Ok(Some(Learnt { fitted, groups, name: request.data.name(), rows: plan.rows, units, score: None }))
}

/// The two classes of a target.
fn classes(data: &Dataset, target: &String, console: &Console) -> Result<Vec<String>> {
    let name = std::slice::from_ref(target);
    let target_columns = data.features(&data.first_rows(name)?, name, name, console)?;
    match &target_columns[0].kind {
        riesz::ColumnKind::Categorical { levels } if levels.len() == 2 => Ok(levels.clone()),
        riesz::ColumnKind::Categorical { levels } => Err(Failure::input(format!(
            "the target '{target}' has {} classes, but classification through landmarks takes two: fit one \
             model for each class against the others",
            levels.len()
        ))),
        riesz::ColumnKind::Numeric => Err(Failure::input(format!("the target '{target}' holds no classes"))),
    }
}

/// Surveys the rows in a first pass, and plans the fit.
fn planned(request: &Request, console: &Console) -> Result<(FitPlan, DataSurvey)> {
    let Roles { features, targets, weights, .. } = &request.roles;
    let mut survey = request.job.survey(features, targets.len(), weights.is_some());
    let mut reading = request.data.rows(&request.roles);
    let progress = console.progress("surveying the rows");
    for_each_unit(&request.data, &mut reading, |rows| {
        survey.add(rows)?;
        progress.say(format!("surveying the rows: {}", survey.rows));
        Ok(())
    })?;
    drop(progress);
    let sample = survey.sample()?;
    let units = if request.standardised {
        ColumnScaling::standardised(&sample.x)
    } else {
        ColumnScaling::raw(sample.x.width())
    };
    let kernel = KernelExpression::parse(&request.kernel)?.resolve(&sample.x, &units)?;
    let tuned = with_progress(console, "choosing length scales", &riesz::Progress::default(), || {
        request.job.tuned(&survey, kernel)
    })?;
    if !tuned.0.is_bounded() {
        let mut largest = survey.clone();
        for_each_unit(&request.data, &mut reading, |rows| {
            largest.add_kernel(&tuned.0, &rows.x);
            Ok(())
        })?;
        survey = largest;
    }
    let plan = with_progress(console, "choosing landmarks", &riesz::Progress::default(), || {
        request.job.plan(&survey, tuned)
    })?;
    estimate(&plan, &survey, request.job.corrections, console)?;
    Ok((plan, survey))
}

fn for_each_unit(
    data: &Dataset,
    reading: &mut Reading<'_>,
    mut work: impl FnMut(&riesz::fit::nystrom::LabelledRows) -> riesz::Result<()>,
) -> Result<()> {
    (0..data.count()).try_for_each(|unit| reading.read(unit, &mut work))
}

/// A description of the plan in one sentence.
fn description(plan: &FitPlan, units: u64) -> String {
    format!(
        "{} landmarks leave {:.2e} of the kernel unexplained; {units} unit{} of work{}; plan {}",
        plan.landmarks.rows(),
        plan.unexplained,
        if units == 1 { "" } else { "s" },
        if plan.needs() == InitialData::Survey { ", by conjugate gradients" } else { "" },
        &plan.digest()[..16]
    )
}

/// Number of sampled rows from which the running time is estimated.
const TIMED: usize = 2000;

/// Prints an estimate of the running time if it exceeds 30 s; it extrapolates from rows of the sample.
fn estimate(plan: &FitPlan, survey: &DataSurvey, corrections: usize, console: &Console) -> Result<()> {
    let rows = survey.sample()?.head(TIMED);
    let (grams, other_passes) = expected_passes(plan, corrections);
    let timed = |work: &dyn Fn() -> Result<()>| {
        let start = Instant::now();
        work()?;
        Ok::<_, Failure>(start.elapsed().as_secs_f64())
    };
    let pass = |curvature: bool| {
        let values = Matrix::zeros(plan.landmarks.rows() + 1, plan.targets.len());
        drop(DataPass::from_rows(plan, &Coefficients { values, curvature }, &rows, 0)?);
        Ok(())
    };
    let statistics = || {
        let mut accumulator = Accumulator::new(plan);
        accumulator.add(&rows)?;
        drop(accumulator.finish(0));
        Ok(())
    };
    let gram = match (grams, plan.needs()) {
        (0, _) => 0.0,
        (_, InitialData::Statistics) => timed(&statistics)?,
        _ => timed(&|| pass(true))?,
    };
    let other = if other_passes > 0 { timed(&|| pass(false))? } else { 0.0 };
    let seconds_per_row = (grams as f64 * gram + other_passes as f64 * other) / rows.len() as f64;
    let seconds = seconds_per_row * survey.rows as f64;
    if seconds > 30.0 {
        let minutes = seconds / 60.0;
        let long = if minutes < 120.0 {
            format!("{minutes:.0} minutes")
        } else {
            format!("{:.1} hours", minutes / 60.0)
        };
        console.note(format!("estimated time: about {long} for {} rows", survey.rows));
    }
    Ok(())
}

/// Refuses settings that a fit in units of work does not have.
pub fn check(args: &Args) -> Result<()> {
    if args.plan_only && args.checkpoint.is_none() {
        return Err(Failure::input("--plan-only keeps a plan in a folder: give one with --checkpoint DIR"));
    }
    if args.plan_only && args.groups.is_some() {
        return Err(Failure::input(
            "--groups are kept with a model, and --plan-only makes no model: give them to 'riesz explain'",
        ));
    }
    let unused = [("--row-noise", args.row_noise.is_some()), ("--protect", !args.protect.is_empty())];
    match unused.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => {
            Err(Failure::input(format!("{flag} is an option of fits without landmarks: leave it out")))
        }
        None => Ok(()),
    }
}
