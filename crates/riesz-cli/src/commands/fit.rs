//! `riesz fit`.

mod streamed;

use std::path::{Path, PathBuf};

use clap::ValueHint;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use riesz::columns::FEW_ROWS;
use riesz::fit::nystrom::Kind;
use riesz::fit::{FitTask, FittedModel, MODELS, ModelKind, OptionalInput, OutputType, Target};
use riesz::format::model::SavedModel;
use riesz::kernel::{ColumnScaling, KernelExpression};
use riesz::model_card::CardEntry;
use riesz::question::{Source, Subject};
use riesz::setting_schema::SettingValues;
use riesz::shapley_penalty::{self, ValuePrior};
use riesz::{ColumnKind, Error, Explainer, Game, Kernel, Matrix, Players, Prediction, Question, Table};

use crate::args::{FeatureNames, Global, ModelSettings, Protected, RowArgs, SettingArgs, TableArgs};
use crate::console::{Console, aligned, with_progress};
use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::dataset::{Dataset, single};
use crate::io::input::OpenTable;
use crate::io::models::{MODELS_OF_AVERAGE, ModelOrAverage};
use crate::io::names::listed_columns;
use crate::io::output::Output;
use crate::question_args::read_groups;

const FIT_EXAMPLES: &str = "\
Examples:
  riesz fit train.csv --target price -o m.riesz
  riesz fit train.csv --target price --model gp --kernel 'rbf(ard)' --restarts 3 -o m.riesz
  riesz fit heart_scale --target label --model svc -o m.riesz      rows in LIBSVM's format
  riesz fit train.csv --target churn --model svc --c auto --class-weight balanced -o m.riesz
  riesz fit train.csv --target price --model krr --kernel 'rbf(age, bmi) + 0.5*linear' -o m.riesz
  cat train.csv | riesz fit - --target y1,y2 --model krr -o m.riesz
  riesz fit 'data/*.parquet' --target price --landmarks 2000 --checkpoint work -o m.riesz
  riesz fit train.csv --target price --protect age --strength 100 --protect-game observational -o m.riesz";

/// Arguments of `fit`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = format!("{FIT_EXAMPLES}\n\n{}", riesz::kernel::help_text()))]
pub struct Args {
    /// Table with a header row, CSV or Parquet; '-' is standard input. With --landmarks: several tables,
    /// folders of tables, or a pattern in quotes
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub data: Vec<PathBuf>,
    /// Column or columns to predict
    #[arg(long, value_name = "COL,…", required = true)]
    pub target: Vec<String>,
    /// Kind of model
    #[arg(long, default_value = "krr", value_parser = model_kinds())]
    pub model: &'static ModelKind,
    /// Kernel expression [default: rbf]
    #[arg(long, value_name = "EXPR")]
    pub kernel: Option<String>,
    /// Settings of the kind of model.
    #[command(flatten)]
    pub settings: SettingArgs<ModelSettings>,
    /// (gp) Column of known noise variances of single rows, in the target's squared units
    #[arg(long, value_name = "COL")]
    pub row_noise: Option<String>,
    /// (krr, klr, svc, svr) Column of positive row weights
    #[arg(long, value_name = "COL")]
    pub sample_weight: Option<String>,
    /// Columns to leave out
    #[arg(long, value_name = "COL,…")]
    pub ignore: Vec<String>,
    /// Columns whose numbers are codes of categories
    #[arg(long, value_name = "COL,…")]
    pub categorical: Vec<String>,
    /// Treatment of rows with missing cells.
    #[command(flatten)]
    pub rows: RowArgs,
    /// Use columns (and the target of svr and gp) as they are instead of standardising them
    #[arg(long, visible_alias = "no-standardize")]
    pub no_standardise: bool,
    /// Features of later explanations, 'name=col,col;name=col', or a file with one group per line
    #[arg(long, value_name = "GROUPS")]
    pub groups: Option<String>,
    /// (all but gpc) Features, or groups of --groups, on which the model shall not rely: their Shapley values
    /// at the training rows are penalised
    #[arg(long, value_name = "FEATURE,…")]
    pub protect: Vec<String>,
    /// Strength of the penalty, which is STRENGTH/n times the sum of squared values
    #[arg(
        long,
        value_name = "STRENGTH",
        default_value_t = 1.0,
        requires = "protect",
        allow_negative_numbers = true
    )]
    pub strength: f64,
    /// Range in which values are not penalised, instead of 0,0: '0,inf' penalises negative values, '-1,1'
    /// values outside this band, '2,2' the distance from 2; for one target or two classes
    #[arg(
        long,
        value_name = "LOW,HIGH",
        requires = "protect",
        allow_hyphen_values = true,
        value_parser = read_range
    )]
    pub protect_range: Option<(f64, f64)>,
    /// Penalise the differences between the values of the protected features, so that they get equal values
    #[arg(long, requires = "protect")]
    pub protect_equal: bool,
    /// The game of the penalised values, and its settings; the observational game also removes the
    /// information that other features have about the protected ones.
    #[command(flatten)]
    pub protection: SettingArgs<Protected>,
    /// (gp, gpc, others with --bootstrap or --jackknife) Keep the posterior in the file, for 'predict --std',
    /// 'explain --covariance' and the class probabilities of gpc; for krr and klr with --landmarks it is an
    /// estimate of the error of the landmarks. It adds 4 n² bytes for n rows (16 MB for 2,000), with three
    /// classes or more per class; each refit adds 8 n bytes. With the default kernel and 5 to 300 rows, gp
    /// and gpc are then averaged over 64 samples of the hyper-parameters, each with its posterior; for one
    /// model add --hyperparameter-samples 0
    #[arg(long)]
    pub posterior: bool,
    /// (with --landmarks) Folder in which finished units of work are kept: after an interruption the same
    /// command continues from there
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub checkpoint: Option<PathBuf>,
    /// (with --checkpoint) Choose landmarks and stop: print the folder for 'riesz distributed statistics' and
    /// 'riesz distributed solve'
    #[arg(long)]
    pub plan_only: bool,
    /// Model file to write
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Options for reading the table.
    #[command(flatten)]
    pub table: TableArgs,
    /// Names of the features of a LIBSVM data file.
    #[command(flatten)]
    pub feature_names: FeatureNames,
}

impl Args {
    /// The kernel expression.
    pub fn kernel(&self) -> &str {
        self.kernel.as_deref().unwrap_or("rbf")
    }

    /// The settings of the model; refuses settings and inputs that this kind of model does not have.
    pub fn values(&self) -> Result<SettingValues> {
        let kind = self.model;
        let inputs = [
            (OptionalInput::Penalty, !self.protect.is_empty()),
            (OptionalInput::RowNoise, self.row_noise.is_some()),
            (OptionalInput::SampleWeight, self.sample_weight.is_some()),
        ];
        let admitted = inputs
            .into_iter()
            .filter(|(_, is_given)| *is_given)
            .try_for_each(|(input, _)| kind.check_input(input));
        admitted.map_err(SettingArgs::<ModelSettings>::with_flag)?;
        // A posterior of refits can be kept for any kind; fits through landmarks have an estimate at hand.
        let refits = ["n_bootstrap", "jackknife", "n_landmarks"]
            .iter()
            .any(|name| self.settings.value(name).is_some());
        if self.posterior && !refits {
            kind.require("posterior", |kind| kind.posterior)
                .map_err(SettingArgs::<ModelSettings>::with_flag)?;
        }
        if let Some(duplicate) = self.target.iter().enumerate().find(|(k, t)| self.target[..*k].contains(t)) {
            return Err(Failure::input(format!("--target names '{}' twice: leave one out", duplicate.1)));
        }
        if self.target.len() > 1 && kind.predicts != OutputType::Numbers {
            return Err(Failure::input(format!(
                "--model {} takes one --target: fit one model a target, or use krr or gp",
                kind.name
            )));
        }
        let raw = self.no_standardise && kind.settings.iter().any(|setting| setting.name == "normalize_y");
        let raw = raw.then(|| ("normalize_y".to_string(), false.into()));
        let values = self.settings.to_pairs().chain(raw);
        kind.values(values).map_err(|error| self.settings.with_option(error))
    }
}

/// The kinds of model by name.
fn model_kinds() -> impl TypedValueParser<Value = &'static ModelKind> {
    let names = MODELS.map(|kind| PossibleValue::new(kind.name).help(kind.help));
    PossibleValuesParser::new(names).try_map(|name| ModelKind::named(&name).ok_or("no such kind of model"))
}

/// Fits the model and writes it.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let as_json = global.is_json_requested()?;
    if args.output.is_none() && !args.plan_only {
        return Err(Failure::input("no output file is given for the model: give -o FILE"));
    }
    let job =
        args.model.job(&args.values()?, global.seed).map_err(|error| args.settings.with_option(error))?;
    // Gaussian processes with row noise or several targets are fitted in memory, with landmarks or without.
    let job = job.filter(|job| {
        !matches!(job.kind, Kind::Process(_)) || args.row_noise.is_none() && args.target.len() == 1
    });
    let template = args.rows.apply_to(args.table.source(Path::new("")));
    let data = match &job {
        Some(_) => Some(Dataset::open(&args.data, &template)?),
        None => None,
    };
    let rows = open_rows(args, data.as_ref())?;
    if !args.feature_names.columns.is_empty() && (data.is_some() || !rows.is_sparse()) {
        return Err(Failure::input(format!(
            "--columns names the features of one LIBSVM data file, and {} is no such file: leave it out",
            rows.name
        )));
    }
    let header = rows.header().to_vec();
    let args = &Args {
        target: listed_columns(&args.target, &header),
        ignore: listed_columns(&args.ignore, &header),
        categorical: listed_columns(&args.categorical, &header),
        protect: listed_columns(&args.protect, &header),
        ..args.clone()
    };
    let settings = args.values()?;
    rows.column_indices(
        args.target
            .iter()
            .chain(&args.ignore)
            .chain(&args.categorical)
            .chain(&args.sample_weight)
            .chain(&args.row_noise)
            .chain(args.table.named()),
    )?;
    let is_feature = |c: &&String| {
        !args.target.contains(c)
            && !args.ignore.contains(c)
            && args.sample_weight.as_ref() != Some(c)
            && args.row_noise.as_ref() != Some(c)
    };
    let features: Vec<String> = header.iter().filter(is_feature).cloned().collect();
    if features.is_empty() {
        return Err(Failure::input(format!(
            "{}: no column is left as a feature; ignore fewer columns",
            rows.name
        )));
    }
    // The output is opened before the work, so that an unwritable path is reported first.
    let output = args.output.as_deref().map(|path| Output::open(Some(path))).transpose()?;
    let result = match (job, data) {
        (Some(job), Some(data)) => {
            streamed::check(args)?;
            drop(rows);
            streamed::run(args, data, &features, job, console)?
        }
        _ if args.checkpoint.is_some() || args.plan_only => {
            return Err(Failure::input(
                "--checkpoint and --plan-only are options of fits through landmarks: give --landmarks N \
                 (krr)",
            ));
        }
        _ => Some(in_memory(args, rows, &features, settings, global.seed, console)?),
    };
    let (Some(result), Some(output)) = (result, output) else { return Ok(()) };
    finished(args, result, output, as_json, console)
}

/// Opens the first file of the data set, or the only file of a fit in memory.
fn open_rows(args: &Args, data: Option<&Dataset>) -> Result<OpenTable> {
    match (data, single(&args.data)) {
        (Some(data), _) => data.first(),
        (None, Some(path)) => args.rows.apply_to(args.feature_names.tables(&args.table).source(path)).open(),
        (None, None) => Err(Failure::input(
            "several files can be read only with landmarks: give --landmarks N (krr), or one file",
        )),
    }
}

/// A fitted model with a description of its data.
struct Learnt {
    fitted: FittedModel,
    groups: Option<Players>,
    /// The name of the data.
    name: String,
    rows: u64,
    /// The units of columns that have one.
    units: Vec<(String, String)>,
    /// The training score of a classifier.
    score: Option<CardEntry>,
}

/// Fits the model to rows that are all in memory.
fn in_memory(
    args: &Args,
    rows: OpenTable,
    features: &[String],
    settings: SettingValues,
    seed: u64,
    console: Console,
) -> Result<Learnt> {
    let name = rows.name.clone();
    let column_names: Vec<String> = features
        .iter()
        .chain(&args.target)
        .chain(&args.sample_weight)
        .chain(&args.row_noise)
        .cloned()
        .collect();
    let expression = KernelExpression::parse(args.kernel())?;
    let columns = Columns::read(rows, &column_names)?.without_zero_weights(args.sample_weight.as_ref())?;
    let x = columns.table(features, &args.categorical, &console)?;
    for column in x.columns() {
        if let ColumnKind::Categorical { levels } = &column.kind {
            console.note(format!("categorical column '{}': {} levels", column.name, levels.len()));
        }
    }
    let units =
        if args.no_standardise { ColumnScaling::raw(x.width()) } else { ColumnScaling::standardised(&x) };
    let kernel = expression.resolve(&x, &units)?;
    let groups = args.groups.as_deref().map(|g| read_groups(g, x.columns())).transpose()?;
    let numbers = |name: &Option<String>| name.as_deref().map(|name| columns.numbers(name)).transpose();
    let mut task = FitTask::new(&x, target(args, &columns)?, kernel);
    (task.sample_weight, task.row_noise) = (numbers(&args.sample_weight)?, numbers(&args.row_noise)?);
    (task.settings, task.target_names, task.seed) = (settings, args.target.clone(), seed);
    if compares_profiles(args, &task) {
        let settings = args.settings.clone().or("rougher_profiles", true.into());
        task.settings = Args { settings, ..args.clone() }.values()?;
    }
    let question = protection(args, &x, groups.as_ref(), seed)?;
    let prior = ValuePrior {
        strength: args.strength,
        range: args.protect_range.unwrap_or((0.0, 0.0)),
        equal: args.protect_equal,
    };
    let penalty = question.map(|question| {
        let x = &x;
        move |kernel: &Kernel| {
            shapley_penalty::shapley_penalty(kernel, x, question.clone(), &args.protect, prior)
        }
    });
    task.penalty = penalty.as_ref().map(|penalty| penalty as _);
    let (message, done) = (format!("fitting {} rows", x.rows()), task.progress.clone());
    let fitted = with_progress(&console, &message, &done, || args.model.fit(&task));
    let fitted = fitted.map_err(|error| match error {
        // The library does not know the name of the label column.
        Error::Target { problem, .. } if args.model.predicts == OutputType::Class => {
            Error::Target { name: args.target[0].clone(), problem }.into()
        }
        error => args.settings.with_option(error),
    })?;
    let (model, covariance) = (&fitted.model, fitted.covariance.as_ref());
    let score = if model.classes.is_empty() {
        None
    } else {
        let predicted = Prediction::new(model, covariance, &x)?.classes.unwrap_or_default();
        Some(score(&predicted, &model.classes, &columns, &args.target[0])?)
    };
    let units = columns.units(features)?;
    Ok(Learnt { groups, name, rows: x.rows() as u64, units, score, fitted })
}

/// Whether the default kernel is compared with rougher profiles by default: in averages, which are the
/// default for posteriors of few rows.
fn compares_profiles(args: &Args, task: &FitTask<'_>) -> bool {
    let has_profiles = args.model.settings.iter().any(|setting| setting.name == "rougher_profiles");
    let samples = args.settings.value("n_hyperparameter_samples");
    let by_default = args.posterior && args.protect.is_empty() && task.default_draws() > 0;
    let is_averaged = samples.map_or(by_default, |samples| *samples != 0);
    let is_dense = args.settings.value("n_landmarks").is_none();
    has_profiles && is_averaged && is_dense && args.kernel.is_none()
}

/// Prints warnings and a summary of the model, and writes it.
fn finished(args: &Args, result: Learnt, output: Output, as_json: bool, console: Console) -> Result<()> {
    let Learnt { fitted, groups, name, rows, units, score } = result;
    fitted.warnings.iter().for_each(|warning| console.warn(warning));
    let (mut model, covariance) = (fitted.model, fitted.covariance);
    if !args.protect.is_empty() {
        let game = args.protection.value("game").and_then(|game| game.as_str()).unwrap_or("interventional");
        model
            .model_card
            .push(CardEntry::new("protected", format!("{} ({game} values)", args.protect.join(", "))));
    }
    // The user learns of these limits at the fit rather than at the first explanation.
    match Explainer::new(&model, Question::from(Game::Functional).with_players(groups.clone())).err() {
        Some(error @ Error::NotProduct { .. }) => console.note(format!(
            "note: explanations of this model will have {error}; with a background they are estimated from \
             its predictions, and the observational game takes any kernel"
        )),
        Some(error) => console
            .note(format!("note: explanations of this model will need a background or a baseline: {error}")),
        None => {}
    }
    units.iter().for_each(|(column, unit)| model.set_unit(column, unit));
    model.model_card.push(CardEntry::new("data", &name));
    if !model.model_card.iter().any(|fact| fact.name == "rows") {
        model.model_card.push(CardEntry::new("rows", rows));
    }
    model.model_card.push(CardEntry::new("standardised", if args.no_standardise { "no" } else { "yes" }));
    model.model_card.push(CardEntry::new("kernel expression", args.kernel()));
    model.model_card.push(CardEntry::new("riesz", env!("CARGO_PKG_VERSION")));
    model.model_card.extend(score);
    if args.model.posterior && !model.classes.is_empty() && !args.posterior {
        console
            .note("note: class probabilities need the posterior, which is kept in the file with --posterior");
    }
    let covariance = covariance.filter(|_| args.posterior);
    let mut summary = model.model_card.clone();
    summary.push(CardEntry::new("columns", model.support_points.width()));
    summary.push(CardEntry::new("kernel", model.kernel.formula()));
    summary.push(CardEntry::new("support points", model.support_points.rows()));
    let best = SavedModel { model, covariance, groups };
    let mut average = fitted.average;
    if let Some(average) = &mut average {
        summary.push(CardEntry::new(MODELS_OF_AVERAGE, average.models.len()));
        for part in &mut average.models {
            units.iter().for_each(|(column, unit)| part.model.set_unit(column, unit));
            part.covariance = part.covariance.take().filter(|_| args.posterior);
        }
    }
    written(&ModelOrAverage { best, average }.into_bytes()?, output, &summary, as_json, console)
}

/// Writes a model file, and prints a summary of the model.
pub fn written(
    bytes: &[u8],
    mut output: Output,
    summary: &[CardEntry],
    as_json: bool,
    console: Console,
) -> Result<()> {
    let first_error = output.first_error();
    std::io::Write::write_all(&mut output, bytes).map_err(|e| first_error.or(e))?;
    output.finish()?;
    if as_json {
        let record = serde_json::to_string_pretty(summary).map_err(|e| Failure::input(e.to_string()))?;
        return crate::io::output::write_all(None, format!("{record}\n").as_bytes());
    }
    console.note(aligned(summary));
    Ok(())
}

/// The target in the form that the kind of model requires.
fn target(args: &Args, columns: &Columns) -> Result<Target> {
    if args.model.predicts != OutputType::Class {
        let columns_of_targets =
            args.target.iter().map(|name| columns.numbers(name)).collect::<Result<Vec<_>>>()?;
        let m = columns_of_targets.len();
        let values = (0..columns_of_targets[0].len() * m).map(|k| columns_of_targets[k % m][k / m]).collect();
        return Ok(Target::Numbers(Matrix::from_row_major(columns_of_targets[0].len(), m, values)));
    }
    let name = &args.target[0];
    let (classes, codes) = columns.levels(name)?;
    if classes.len() < 2 {
        return Err(Failure::input(format!(
            "the target '{name}' has one value only, '{}': a classifier needs at least two classes",
            classes.first().map_or("", String::as_str)
        )));
    }
    let fractions = classes.iter().any(|class| class.parse::<f64>().is_ok_and(|value| value.fract() != 0.0));
    let too_many = classes.len() > 50 && classes.len() * 10 > codes.len()
        || codes.len() >= FEW_ROWS && classes.len() * 2 > codes.len()
        || fractions && classes.len() > 10;
    if too_many {
        return Err(Failure::input(format!(
            "the target '{name}' has {} values in {} rows, which look like measurements rather than classes: \
             use a regression (krr, svr or gp)",
            classes.len(),
            codes.len()
        )));
    }
    Ok(Target::Classes { labels: codes.into_iter().map(|code| code as usize).collect(), classes })
}

/// Reads a range from its two ends.
fn read_range(text: &str) -> std::result::Result<(f64, f64), String> {
    let ends: Vec<f64> = text.split(',').map_while(|end| end.trim().parse().ok()).collect();
    match ends[..] {
        [low, high] if low <= high => Ok((low, high)),
        _ => Err("give a lower and an upper end, such as 0,inf or -1,1".into()),
    }
}

/// The question whose Shapley values are penalised; `None` if no features are protected.
fn protection(args: &Args, x: &Table, groups: Option<&Players>, seed: u64) -> Result<Option<Question>> {
    if args.protect.is_empty() {
        return Ok(None);
    }
    let rows = |_: &str| Ok(x.clone().into());
    let question = args.protection.question(Subject::Protection, Some(Source::Background), seed, rows)?;
    Ok(Some(question.with_players(groups.cloned())))
}

/// The training accuracy of a classifier.
fn score(predicted: &[usize], classes: &[String], columns: &Columns, target: &str) -> Result<CardEntry> {
    let (levels, codes) = columns.levels(target)?;
    let right =
        predicted.iter().zip(&codes).filter(|(k, code)| classes.get(**k) == levels.get(**code as usize));
    let share = right.count() as f64 / predicted.len() as f64;
    Ok(CardEntry::new("training accuracy", format!("{share:.4}")))
}
