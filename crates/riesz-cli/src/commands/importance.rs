//! `riesz importance`.

mod function;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::ValueHint;
use riesz::format::model::SavedModel;
use riesz::global::{Curve, Labels, Sage, SageValues, SampledIndices};
use riesz::model_average::{self, ModelPart};
use riesz::model_card::CardEntry;
use riesz::table::level_of_text;
use riesz::{Background, Explanation, Matrix, Players, Sensitivity, SobolIndices, Table, ValueIndex};
use riesz_report::{
    ImportancePage, Overall, PlotOptions, importance_curves, importance_report, importance_title,
    render_overall, sage_record, sobol_record,
};

use self::function::Function;
use crate::args::{CellArgs, FeatureArgs, Global, TableArgs};
use crate::console::{Console, printable, with_progress};
use crate::exit::{Failure, Result};
use crate::explain_run::Certificate;
use crate::io::columns::Columns;
use crate::io::input::OpenTable;
use crate::io::models::{ModelOrAverage, read_average};
use crate::io::output::write_all;
use crate::io::picture::write_picture;
use crate::io::write::{Cells, TableWriter};
use crate::output_format::{Form, RESULTS};
use crate::question_args::read_groups;

/// Largest number of features that a page shows by name.
const SHOWN: usize = 20;

/// Arguments of `importance`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz importance m.riesz train.csv                       Sobol indices and Shapley effects
  riesz importance m.riesz train.csv --groups 'blood=s1,s2,s3' -o importance.svg
  riesz importance m.riesz train.csv -o importance.html    a page, with curves of the first features
  riesz importance m.riesz train.csv --index moebius       with pairs: second-order Sobol indices
  riesz importance m.riesz test.csv --target price         SAGE values: how features reduce the loss
  riesz importance m.riesz test.csv --target price --background train.csv -o sage.csv
  riesz importance m.riesz new.csv --unseen none --missing impute
  riesz importance 'cmd:python3 forest.py' train.csv --ignore price

Without --target: shares of the variance of the model's output, which are exact for features that
are independent of each other, each distributed as in the rows. With --target: the reduction of the
mean squared error, or of the log loss for classes, by each feature. An output whose variance does
not exceed its error has no shares: their cells are empty. Shares of a program, and of an average
over hyper-parameters without --posterior, are estimates with standard errors. The inputs of a program
are all columns of the rows but those of --target and --ignore. For the mean |value| of explained rows
see 'riesz explain' and 'riesz plot bar'.")]
pub struct Args {
    /// Model file (riesz, or LIBSVM), or 'cmd:COMMAND': a program, as for 'riesz explain'
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of rows, CSV or Parquet; '-' is standard input; other columns are ignored
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// Columns with the true values, one for each output of the model: attribute the loss rather than the
    /// variance
    #[arg(long, value_name = "COL,…", value_delimiter = ',')]
    pub target: Vec<String>,
    /// With --target: background rows, from which absent features take their values [default: the rows]
    #[arg(long, value_name = "TABLE", value_hint = ValueHint::FilePath, requires = "target")]
    pub background: Option<PathBuf>,
    /// With --target: largest number of background rows, drawn with --seed
    #[arg(long, value_name = "N", default_value_t = 100, requires = "target")]
    pub background_rows: usize,
    /// With --target: number of random orders of features, if there are too many coalitions to visit all
    /// [default: 256]
    #[arg(long, value_name = "N", requires = "target")]
    pub orders: Option<usize>,
    /// For a program, or an average without --posterior: number of rows at which outputs are computed
    /// [default: 65536]
    #[arg(long, value_name = "N", conflicts_with = "target")]
    pub evaluations: Option<usize>,
    /// For a program: columns of the rows that are no inputs of it
    #[arg(long, value_name = "COL,…")]
    pub ignore: Vec<String>,
    /// Index whose shares of the variance tables and pictures show, as for 'riesz explain'
    #[arg(long, value_name = "INDEX", default_value = "shapley", conflicts_with = "target")]
    pub index: ValueIndex,
    /// For a model with a posterior: the posterior mean of the importance, instead of the importance for the
    /// posterior mean function
    #[arg(long, conflicts_with = "target")]
    pub posterior: bool,
    /// Columns that count as one feature, 'blood=s1,s2;body=bmi', or a file with one group per line. Put
    /// columns that depend on each other into one group
    #[arg(long, value_name = "GROUPS")]
    pub groups: Option<String>,
    /// Where to write the result: a page (.html), a picture (.svg, .png), a table (.csv, .parquet), or
    /// everything (.json)
    /// [default: text on standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Options for reading tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// Information that LIBSVM files do not contain.
    #[command(flatten)]
    pub features: FeatureArgs,
    /// Treatment of cells that the model cannot use.
    #[command(flatten)]
    pub cells: CellArgs,
}

/// The importance in all output formats.
struct ImportanceOutput {
    /// Columns of the table with their names, one row per feature and output.
    columns: Vec<(&'static str, Cells)>,
    text: String,
    json: serde_json::Value,
    /// The indices shown in a picture.
    importance: Importance,
    /// The curves on the page.
    curves: Vec<Curve>,
}

/// The attributed quantity: the variance of the output, or the loss.
enum Importance {
    Variance(SobolIndices),
    Estimated(SampledIndices),
    Loss(SageValues, Explanation),
}

impl Importance {
    fn overall(&self) -> Overall<'_> {
        match self {
            Self::Variance(indices) => Overall::Variance(indices),
            Self::Estimated(indices) => Overall::Estimated(indices),
            Self::Loss(values, explanation) => Overall::Loss { values, explanation },
        }
    }

    fn explanation(&mut self) -> &mut Explanation {
        match self {
            Self::Variance(indices) => &mut indices.explanation,
            Self::Estimated(indices) => &mut indices.explanation,
            Self::Loss(_, explanation) => explanation,
        }
    }
}

/// Computes the importance and writes it.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let path = args.output.as_deref();
    let form = Form::choose(path, global, RESULTS)?;
    let rows = args.features.open(&args.table, &args.rows)?;
    let (mut result, facts) = match crate::program::command(&args.model) {
        Some(command) => (function::importance(args, global, command, rows, &console)?, Vec::new()),
        None => model_importance(args, global, rows, matches!(form, Form::Page), &console)?,
    };
    let run = &mut result.importance.explanation().provenance.run;
    run.push(CardEntry::new("rows", args.rows.display().to_string()));
    if !args.target.is_empty() {
        run.push(CardEntry::new("target", args.target.join(", ")));
        let from = args.background.as_ref().unwrap_or(&args.rows);
        run.push(CardEntry::new(
            "background",
            format!("{}, at most {} rows", from.display(), args.background_rows),
        ));
        run.push(CardEntry::new("seed", global.seed.to_string()));
    }
    run.extend(facts);
    let mut certificate = Certificate::default();
    certificate.include(result.importance.explanation());
    match form {
        Form::Text => write_all(path, result.text.as_bytes())?,
        Form::Json => write_all(path, format!("{:#}\n", result.json).as_bytes())?,
        Form::Table(format) => {
            TableWriter::write_columns(path, format, result.columns)?;
        }
        Form::Picture { pixels } => {
            let picture = render_overall(&result.importance.overall(), &PlotOptions::default())?;
            write_picture(path, picture, pixels)?;
        }
        Form::Page => {
            let page = ImportancePage {
                title: &importance_title(&args.target),
                ranking: result.importance.overall(),
                curves: &result.curves,
                max_display: SHOWN,
            };
            write_all(path, importance_report(&page)?.as_bytes())?;
        }
    }
    certificate.check()
}

/// The importance of features for a model, and provenance entries of its rows.
fn model_importance(
    args: &Args,
    global: &Global,
    rows: OpenTable,
    curves: bool,
    console: &Console,
) -> Result<(ImportanceOutput, Vec<CardEntry>)> {
    let model = read_average(&args.model, Some(&rows), &args.features)?.admitted(&args.cells)?;
    let saved = &model.best;
    let names: Vec<String> = saved.model.columns().iter().map(|c| c.name.clone()).collect();
    let column_names: Vec<String> = names.iter().chain(&args.target).cloned().collect();
    let columns = Columns::read(rows, &column_names)?;
    let (x, mut facts) = rows_for_model(&columns, saved, args.cells, console)?;
    let groups = args.groups.as_deref().map(|text| read_groups(text, saved.model.columns())).transpose()?;
    let groups = groups.or_else(|| saved.groups.clone());
    let is_estimated = model.average.is_some() && !args.posterior && args.target.is_empty();
    check_options(args, is_estimated)?;
    let mut output = match args.target.as_slice() {
        [] if is_estimated => {
            function::variance(args, global, &Function::average(&model), (x, groups), console)?
        }
        [] => variance_importance(args, (&model, groups), x, curves, console)?,
        target => {
            let labels = labels(saved, &columns, target)?;
            loss_importance(args, global, (&model, groups), (x, labels), &mut facts, console)?
        }
    };
    output.importance.explanation().provenance.model = model.facts();
    Ok((output, facts))
}

/// Refuses options that have no effect for a model. Without a posterior, shares of an average are estimates.
fn check_options(args: &Args, is_estimated: bool) -> Result<()> {
    if !args.ignore.is_empty() {
        return Err(Failure::input("--ignore is an option for programs: leave it out"));
    }
    if args.evaluations.is_some() && !is_estimated {
        return Err(Failure::input(
            "--evaluations is an option for programs, and for averages without --posterior: leave it out",
        ));
    }
    if is_estimated && args.index != ValueIndex::Shapley {
        let reason = "--index needs exact shares: for an average over hyper-parameters, add --posterior";
        return Err(Failure::input(reason));
    }
    Ok(())
}

/// The rows in the model's columns, and provenance entries about cells that the model cannot use.
pub(super) fn rows_for_model(
    columns: &Columns,
    saved: &SavedModel,
    cells: CellArgs,
    console: &Console,
) -> Result<(Table, Vec<CardEntry>)> {
    let policy = cells.for_model(&saved.model.support_points)?;
    let (table, facts) = columns.table_for_model(saved.model.columns(), &policy)?;
    facts.iter().for_each(|fact| console.note(format!("note: {}", fact.value)));
    Ok((table, facts))
}

fn number_labels(columns: &Columns, target: &[String]) -> Result<Labels> {
    let targets = target.iter().map(|name| columns.numbers(name)).collect::<Result<Vec<_>>>()?;
    let numbers = (0..targets[0].len()).flat_map(|i| targets.iter().map(move |column| column[i])).collect();
    Ok(Labels::Numbers(Matrix::from_row_major(targets[0].len(), targets.len(), numbers)))
}

fn labels(saved: &SavedModel, columns: &Columns, target: &[String]) -> Result<Labels> {
    let (model, name) = (&saved.model, &target[0]);
    if model.classes.is_empty() {
        return number_labels(columns, target);
    }
    let (levels, codes) = columns.levels(name)?;
    let class = |level: &String| {
        level_of_text(&model.classes, level).ok_or_else(|| {
            let class_list = model.classes.join(", ");
            Failure::input(format!(
                "column '{name}' holds '{level}', but the model's classes are: {class_list}"
            ))
        })
    };
    let classes = levels.iter().map(class).collect::<Result<Vec<_>>>()?;
    Ok(Labels::Classes(codes.iter().map(|code| classes[*code as usize]).collect()))
}

fn variance_importance(
    args: &Args,
    (model, groups): (&ModelOrAverage, Option<Players>),
    x: Table,
    curves: bool,
    console: &Console,
) -> Result<ImportanceOutput> {
    let models = model.parts();
    let sensitivity = Sensitivity { groups, index: args.index, ..Sensitivity::default() };
    let inputs = Background::from(x);
    let message = format!("decomposing the variance over {} rows", inputs.rows.rows());
    let sobol = with_progress(console, &message, &sensitivity.progress, || {
        let indices_of = |part: &ModelPart<'_>| match (part.covariance, args.posterior) {
            (Some(covariance), true) => {
                Ok((part.weight, sensitivity.posterior_mean_indices(part.model, covariance, &inputs)?))
            }
            (None, true) => Err(Failure::input(
                "--posterior needs a posterior, which the file does not hold: fit the model with 'riesz fit \
                 --model gp --posterior'",
            )),
            (_, false) => Ok((part.weight, sensitivity.run(part.model, &inputs)?)),
        };
        Ok::<_, Failure>(SobolIndices::mixed(models.iter().map(indices_of).collect::<Result<_>>()?)?)
    })?;
    let text = variance_text(&sobol);
    let explanation = sobol.explanation.clone();
    let outputs = &explanation.output_names;
    let mut texts = [Vec::new(), Vec::new()];
    let mut numbers = [const { Vec::new() }; 6];
    for (o, output) in outputs.iter().enumerate() {
        for j in order(sobol.effects(o)) {
            texts[0].push(output.clone());
            texts[1].push(explanation.players[j].name.clone());
            // NaN becomes an empty cell.
            let scale = sobol.scale(o).unwrap_or(f64::NAN);
            let shares = [sobol.first_order(o)[j], sobol.effects(o)[j], sobol.total_order(o)[j]];
            shares.iter().zip(&mut numbers).for_each(|(v, list)| list.push(v * scale));
            numbers[3].push(shares[1]);
            numbers[4].push(sobol.variance(o));
            numbers[5].push(sobol.bound(o));
        }
    }
    let [output, feature] = texts.map(Cells::Texts);
    let [first, effect, total, part, variance, bound] = numbers.map(Cells::Numbers);
    let columns = vec![
        ("output", output),
        ("feature", feature),
        ("first_order", first),
        ("shapley_effect", effect),
        ("total_order", total),
        ("variance_of_feature", part),
        ("variance", variance),
        ("bound", bound),
    ];
    let json_error = |e: serde_json::Error| Failure::input(format!("the indices cannot be written: {e}"));
    let json = sobol_record(&sobol).map_err(json_error)?;
    let curves = match curves {
        true => importance_curves(&models, &inputs, sensitivity.groups.as_ref(), &sobol)?,
        false => Vec::new(),
    };
    Ok(ImportanceOutput { columns, text, json, importance: Importance::Variance(sobol), curves })
}

/// The indices of `values` from the largest to the smallest.
fn order(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    order
}

fn variance_text(indices: &SobolIndices) -> String {
    let explanation = &indices.explanation;
    let names: Vec<String> = explanation.players.iter().map(|p| printable(&p.name)).collect();
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).max(7);
    let mut text = String::new();
    for (o, output) in explanation.output_names.iter().enumerate() {
        let (variance, bound) = (indices.variance(o), indices.bound(o));
        let _ = writeln!(
            text,
            "variance of {}: {variance:.6e} (proved bound on errors {bound:.1e})",
            printable(output)
        );
        let Some(scale) = indices.scale(o) else {
            text.push_str("the variance does not exceed its error: there are no shares\n\n");
            continue;
        };
        let _ = writeln!(text, "\n{:width$}  first-order  Shapley effect  total", "feature");
        for j in order(indices.effects(o)) {
            let [first, effect, total] = [indices.first_order(o), indices.effects(o), indices.total_order(o)]
                .map(|list| scale * list[j]);
            let _ = writeln!(text, "{:width$}  {first:>11.4}  {effect:>14.4}  {total:.4}", names[j]);
        }
        if explanation.index != ValueIndex::Shapley {
            let values = explanation.row_values(0, o);
            let sizes: Vec<f64> = values.iter().map(|v| v.abs()).collect();
            let _ = writeln!(text, "\nshares by {}", explanation.index.names());
            for k in order(&sizes).into_iter().take(20) {
                let _ = writeln!(text, "{}  {:.4}", printable(&explanation.set_name(k)), scale * values[k]);
            }
        }
        text.push('\n');
    }
    let _ = writeln!(text, "Features are treated as independent, each distributed as in the rows.");
    text
}

fn loss_importance(
    args: &Args,
    global: &Global,
    (model, groups): (&ModelOrAverage, Option<Players>),
    (x, labels): (Table, Labels),
    facts: &mut Vec<CardEntry>,
    console: &Console,
) -> Result<ImportanceOutput> {
    let (saved, best) = (&model.best, &model.best.model);
    let background = match &args.background {
        None => x.clone(),
        Some(path) => {
            let names: Vec<String> = best.columns().iter().map(|c| c.name.clone()).collect();
            let columns = Columns::read(args.features.tables(&args.table).source(path).open()?, &names)?;
            let (rows, background_facts) = rows_for_model(&columns, saved, args.cells, console)?;
            facts.extend(background_facts.into_iter().map(of_background));
            rows
        }
    };
    let background = background.select_rows(&background.sample_rows(args.background_rows, global.seed));
    let sage = Sage { groups, seed: global.seed, ..sage(args) };
    let message = format!("attributing the loss of {} rows", x.rows());
    let background = Background::from(background);
    let sage_values = with_progress(console, &message, &sage.progress, || match &model.average {
        None => sage.run(best, &x, &labels, &background),
        Some(average) => {
            if let Labels::Numbers(_) = labels {
                labels.check(best, x.rows())?;
            }
            let parts = average.parts();
            sage.run_function(|rows| predicted(&parts, rows, &labels, &sage.stop), &x, &labels, &background)
        }
    })?;
    let explanation = sage_values.explanation(best, &x, global.seed)?;
    loss_output(args, sage_values, explanation, console)
}

/// The predictions of an average for these labels: outputs, or probabilities of classes.
fn predicted(
    parts: &[ModelPart<'_>],
    rows: &Table,
    labels: &Labels,
    stop: &AtomicBool,
) -> riesz::Result<Matrix> {
    match labels {
        Labels::Numbers(_) => model_average::mean(parts, rows),
        Labels::Classes(_) => {
            let allowed = "class probabilities need the posterior: fit the model with --posterior";
            let probabilities = model_average::predict(parts, rows, stop)?.probabilities;
            probabilities.ok_or_else(|| riesz::Error::parameter("target", "classes", allowed))
        }
    }
}

/// The computation of SAGE values that the options describe.
fn sage(args: &Args) -> Sage {
    let default = Sage::default();
    Sage { permutations: args.orders.unwrap_or(default.permutations), ..default }
}

/// SAGE values in all output formats.
fn loss_output(
    args: &Args,
    sage_values: SageValues,
    explanation: Explanation,
    console: &Console,
) -> Result<ImportanceOutput> {
    if args.orders.is_some() && sage_values.sampling_error.is_none() {
        console.note(
            "note: --orders has no effect: all coalitions were evaluated, which needs no random orders",
        );
    }
    let order = order(&sage_values.values);
    let ordered = |list: &[f64]| Cells::Numbers(order.iter().map(|&j| list[j]).collect());
    let names = order.iter().map(|&j| sage_values.players[j].name.clone()).collect();
    let mut columns = vec![("feature", Cells::Texts(names)), ("value", ordered(&sage_values.values))];
    columns.extend(sage_values.std_error.as_ref().map(|errors| ("std_error", ordered(errors))));
    columns.extend(sage_values.sampling_error.as_ref().map(|errors| ("sampling_error", ordered(errors))));
    let json_error = |e: serde_json::Error| Failure::input(format!("the values cannot be written: {e}"));
    let json = sage_record(&sage_values).map_err(json_error)?;
    let text = loss_text(&sage_values, &order);
    Ok(ImportanceOutput {
        text,
        columns,
        json,
        importance: Importance::Loss(sage_values, explanation),
        curves: Vec::new(),
    })
}

/// A provenance entry about rows, as one about the background.
fn of_background(fact: CardEntry) -> CardEntry {
    CardEntry::new(format!("{} of the background", fact.name), fact.value)
}

fn loss_text(sage_values: &SageValues, order: &[usize]) -> String {
    let names: Vec<String> = sage_values.players.iter().map(|p| printable(&p.name)).collect();
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).max(7);
    let (base, loss) = (sage_values.base_loss, sage_values.loss);
    let mut text = format!(
        "mean {} of {} rows: {loss:.6e}; of the mean prediction: {base:.6e}\n\n",
        sage_values.measure, sage_values.rows
    );
    let row_heading = sage_values.std_error.as_ref().map_or("", |_| "  std. error over rows");
    let order_heading = sage_values.sampling_error.as_ref().map_or("", |_| "  over orders");
    let _ = writeln!(text, "{:width$}     SAGE value{row_heading}{order_heading}", "feature");
    for &j in order {
        let _ = write!(text, "{:width$}  {:>13.6e}", names[j], sage_values.values[j]);
        if let Some(errors) = &sage_values.std_error {
            let _ = write!(text, "  {:>20.2e}", errors[j]);
        }
        if let Some(errors) = &sage_values.sampling_error {
            let _ = write!(text, "  {:>11.2e}", errors[j]);
        }
        text.push('\n');
    }
    let sampling = if sage_values.sampling_error.is_some() {
        "from random orders"
    } else {
        "all of them: exact for these rows"
    };
    let _ = writeln!(text, "\n{} coalitions of features were evaluated, {sampling}.", sage_values.coalitions);
    text
}
