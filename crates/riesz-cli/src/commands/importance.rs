//! `riesz importance`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::ValueHint;
use riesz::explanation::Fact;
use riesz::format::model::SavedModel;
use riesz::global::{Components, Curve, Labels, Sage, SageValues};
use riesz::table::level_of_text;
use riesz::{Background, Explanation, Matrix, Posterior, Sensitivity, SobolIndices, Table, ValueIndex};
use riesz_report::{ImportancePage, Overall, PlotOptions, importance_report, render_overall};
use serde_json::json;

use crate::args::{FeatureArgs, Global, TableArgs};
use crate::console::{Console, printable, watched};
use crate::explaining::Certificate;
use crate::failure::{Failure, Result};
use crate::form::Form;
use crate::games::read_groups;
use crate::io::columns::Columns;
use crate::io::models::read_model;
use crate::io::output::write_all;
use crate::io::picture::write_picture;
use crate::io::write::{Cells, TableWriter};

/// Most curves that a page has, and most features that it shows by name.
const CURVES: usize = 3;
const SHOWN: usize = 20;

/// Arguments of `importance`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz importance m.riesz train.csv                       Sobol indices and Shapley effects
  riesz importance m.riesz train.csv --groups 'blood=s1,s2,s3' -o importance.svg
  riesz importance m.riesz train.csv -o importance.html    a page, with curves of the first features
  riesz importance m.riesz train.csv --index moebius       with pairs: second-order Sobol indices
  riesz importance m.riesz test.csv --target price         SAGE values: what features take off the loss
  riesz importance m.riesz test.csv --target price --background train.csv -o sage.csv

Without --target: shares of the variance of the model's output, exact, where features are
independent of each other and each is distributed as in the rows. With it: how much each feature
takes off the mean squared error, or the log loss of classes. An output that does not vary by more
than its error has no shares: their cells are empty. For the mean |value| of explained rows see
'riesz explain' and 'riesz plot bar'.")]
pub struct Args {
    /// Model file (riesz, or LIBSVM)
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of rows, CSV or Parquet; '-' is standard input; columns that nobody asks for are ignored
    #[arg(value_hint = ValueHint::FilePath)]
    pub rows: PathBuf,
    /// The column with the truth, of as many outputs as the model has: attribute the loss rather than the
    /// variance
    #[arg(long, value_name = "COL,…", value_delimiter = ',')]
    pub target: Vec<String>,
    /// With --target: rows that absent features are taken from [default: the rows]
    #[arg(long, value_name = "TABLE", value_hint = ValueHint::FilePath, requires = "target")]
    pub background: Option<PathBuf>,
    /// With --target: at most so many background rows, drawn with --seed
    #[arg(long, value_name = "N", default_value_t = 100, requires = "target")]
    pub background_rows: usize,
    /// With --target: random orders of features, where all coalitions are more
    #[arg(long, value_name = "N", default_value_t = 256, requires = "target")]
    pub permutations: usize,
    /// Which share of the variance tables and pictures show, as for 'riesz explain'
    #[arg(long, value_name = "INDEX", default_value = "shapley", conflicts_with = "target")]
    pub index: ValueIndex,
    /// Of a model with a posterior: the mean over the functions that it thinks possible, not that of its mean
    /// function
    #[arg(long, conflicts_with = "target")]
    pub posterior: bool,
    /// Columns that count as one feature, 'blood=s1,s2;body=bmi', or a file with one group a line. Columns
    /// that depend on each other belong together
    #[arg(long, value_name = "GROUPS")]
    pub groups: Option<String>,
    /// Where to write the result: a page (.html), a picture (.svg, .png), a table (.csv, .parquet), or
    /// everything (.json)
    /// [default: words on standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How to read the tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// What LIBSVM's files do not say.
    #[command(flatten)]
    pub features: FeatureArgs,
}

/// What there is to write.
struct Found {
    /// Names of columns and their numbers, by feature and output.
    columns: Vec<(&'static str, Cells)>,
    words: String,
    json: serde_json::Value,
    /// What a picture shows.
    of: Of,
    /// What the page has besides.
    curves: Vec<Curve>,
}

/// What was taken apart.
enum Of {
    Variance(SobolIndices),
    Loss(SageValues, Explanation),
}

impl Of {
    fn overall(&self) -> Overall<'_> {
        match self {
            Self::Variance(found) => Overall::Variance(found),
            Self::Loss(found, explanation) => Overall::Loss { found, explanation },
        }
    }

    fn explanation(&mut self) -> &mut Explanation {
        match self {
            Self::Variance(found) => &mut found.explanation,
            Self::Loss(_, explanation) => explanation,
        }
    }
}

/// Reads, computes and writes.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let path = args.output.as_deref();
    let form = Form::of(path, global).map_err(|other| {
        Failure::input(format!(
            "importance is written as .html, .svg, .png, .csv, .parquet, .json or .txt, not as .{other}"
        ))
    })?;
    let rows = args.features.open(&args.table, &args.rows)?;
    let saved = read_model(&args.model, Some(&rows), &args.features)?;
    let names: Vec<String> = saved.model.columns().iter().map(|c| c.name.clone()).collect();
    let wanted: Vec<String> = names.iter().chain(&args.target).cloned().collect();
    let columns = Columns::read(rows, &wanted)?;
    let x = typed(&columns, &saved)?;
    let mut found = match args.target.as_slice() {
        [] => of_variance(args, &saved, x, matches!(form, Form::Page), &console)?,
        target => {
            let labels = labels(&saved, &columns, target)?;
            of_loss(args, global, &saved, (x, labels), &console)?
        }
    };
    let run = &mut found.of.explanation().provenance.run;
    run.push(Fact::new("rows", args.rows.display().to_string()));
    if !args.target.is_empty() {
        run.push(Fact::new("target", args.target.join(", ")));
        let from = args.background.as_ref().unwrap_or(&args.rows);
        run.push(Fact::new(
            "background",
            format!("{}, at most {} rows", from.display(), args.background_rows),
        ));
        run.push(Fact::new("seed", global.seed.to_string()));
    }
    let mut certificate = Certificate::default();
    certificate.include(found.of.explanation());
    match form {
        Form::Text => write_all(path, found.words.as_bytes())?,
        Form::Json => write_all(path, format!("{:#}\n", found.json).as_bytes())?,
        Form::Table(format) => {
            TableWriter::whole(path, format, found.columns)?;
        }
        Form::Picture { pixels } => {
            let picture = render_overall(&found.of.overall(), &PlotOptions::default())?;
            write_picture(path, picture, pixels)?;
        }
        Form::Page => {
            let title = match args.target.as_slice() {
                [] => "Which features matter".to_string(),
                target => format!("What takes off the loss of {}", target.join(", ")),
            };
            let page = ImportancePage {
                title: &title,
                found: found.of.overall(),
                curves: &found.curves,
                max_display: SHOWN,
            };
            write_all(path, importance_report(&page)?.as_bytes())?;
        }
    }
    certificate.check()
}

/// The model's columns, of which those that it takes for categories are.
pub(super) fn typed(columns: &Columns, saved: &SavedModel) -> Result<Table> {
    columns.table_like(saved.model.columns())
}

fn labels(saved: &SavedModel, columns: &Columns, target: &[String]) -> Result<Labels> {
    let (model, name) = (&saved.model, &target[0]);
    if model.classes.is_empty() {
        let own = target.iter().map(|name| columns.numbers(name)).collect::<Result<Vec<_>>>()?;
        let numbers = (0..own[0].len()).flat_map(|i| own.iter().map(move |column| column[i])).collect();
        return Ok(Labels::Numbers(Matrix::from_row_major(own[0].len(), own.len(), numbers)));
    }
    let (levels, codes) = columns.levels(name)?;
    let class = |level: &String| {
        level_of_text(&model.classes, level).ok_or_else(|| {
            let known = model.classes.join(", ");
            Failure::input(format!("column '{name}' holds '{level}', but the model's classes are: {known}"))
        })
    };
    let classes = levels.iter().map(class).collect::<Result<Vec<_>>>()?;
    Ok(Labels::Classes(codes.iter().map(|code| classes[*code as usize]).collect()))
}

fn of_variance(args: &Args, saved: &SavedModel, x: Table, curves: bool, console: &Console) -> Result<Found> {
    let model = &saved.model;
    let groups = args.groups.as_deref().map(|text| read_groups(text, model.columns())).transpose()?;
    let sensitivity = Sensitivity {
        groups: groups.or_else(|| saved.groups.clone()),
        index: args.index,
        ..Sensitivity::default()
    };
    let inputs = Background::from(x);
    let message = format!("taking apart the variance over {} rows", inputs.rows.rows());
    let found =
        watched(console, &message, &sensitivity.progress, || match (&saved.covariance, args.posterior) {
            (Some(covariance), true) => Ok(sensitivity.expected(model, covariance, &inputs)?),
            (None, true) => Err(Failure::input(
                "the file holds no posterior, which --posterior needs: fit it with 'riesz fit --model gp \
                 --posterior'",
            )),
            (_, false) => Ok(sensitivity.run(model, &inputs)?),
        })?;
    let words = variance_words(&found);
    let explanation = found.explanation.clone();
    let outputs = &explanation.output_names;
    let mut texts = [Vec::new(), Vec::new()];
    let mut numbers = [const { Vec::new() }; 6];
    for (o, output) in outputs.iter().enumerate() {
        for j in order(found.effects(o)) {
            texts[0].push(output.clone());
            texts[1].push(explanation.players[j].name.clone());
            // A table leaves out what is no number.
            let scale = found.scale(o).unwrap_or(f64::NAN);
            let own = [found.first_order(o)[j], found.effects(o)[j], found.total_order(o)[j]];
            own.iter().zip(&mut numbers).for_each(|(v, out)| out.push(v * scale));
            numbers[3].push(own[1]);
            numbers[4].push(found.variance(o));
            numbers[5].push(found.bound(o));
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
    let broken = |e: serde_json::Error| Failure::input(format!("the indices cannot be written: {e}"));
    let mut json = json!({ "format": "riesz-sobol", "version": 1 });
    if let (Some(own), serde_json::Value::Object(found)) =
        (json.as_object_mut(), serde_json::to_value(&found).map_err(broken)?)
    {
        own.extend(found);
    }
    let curves =
        if curves { first_curves(saved, &sensitivity, &inputs, found.effects(0))? } else { Vec::new() };
    Ok(Found { columns, words, json, of: Of::Variance(found), curves })
}

/// The components of the features with the largest effects, of those that are one column.
fn first_curves(
    saved: &SavedModel,
    asked: &Sensitivity,
    inputs: &Background,
    effects: &[f64],
) -> Result<Vec<Curve>> {
    let components = Components::new(&saved.model, inputs, asked.groups.clone())?;
    let known = saved.covariance.as_ref().filter(|own| own.is_of_data());
    let posterior = known.map(|own| Posterior::new(&saved.model, own)).transpose()?;
    let drawn = order(effects)
        .into_iter()
        .filter(|&j| components.players()[j].columns.len() == 1 && effects[j] > 0.0);
    let curve = |j: usize| Ok(components.curve_along(&[j], &inputs.rows, posterior.as_ref())?);
    drawn.take(CURVES).map(curve).collect()
}

/// From the largest to the smallest.
fn order(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    order
}

fn variance_words(found: &SobolIndices) -> String {
    let explanation = &found.explanation;
    let names: Vec<String> = explanation.players.iter().map(|p| printable(&p.name)).collect();
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).max(7);
    let mut text = String::new();
    for (o, output) in explanation.output_names.iter().enumerate() {
        let (variance, bound) = (found.variance(o), found.bound(o));
        let _ = writeln!(
            text,
            "variance of {}: {variance:.6e} (proved bound on errors {bound:.1e})",
            printable(output)
        );
        let Some(scale) = found.scale(o) else {
            text.push_str("it does not vary by more than its error: there are no shares\n\n");
            continue;
        };
        let _ = writeln!(text, "\n{:width$}  first-order  Shapley effect  total", "feature");
        for j in order(found.effects(o)) {
            let [first, effect, total] =
                [found.first_order(o), found.effects(o), found.total_order(o)].map(|list| scale * list[j]);
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
    let _ = writeln!(text, "Features count as independent of each other, each distributed as in the rows.");
    text
}

fn of_loss(
    args: &Args,
    global: &Global,
    saved: &SavedModel,
    (x, labels): (Table, Labels),
    console: &Console,
) -> Result<Found> {
    let model = &saved.model;
    let groups = args.groups.as_deref().map(|text| read_groups(text, model.columns())).transpose()?;
    let background = match &args.background {
        None => x.clone(),
        Some(path) => {
            let names: Vec<String> = model.columns().iter().map(|c| c.name.clone()).collect();
            typed(&Columns::read(args.features.tables(&args.table).source(path).open()?, &names)?, saved)?
        }
    };
    let background = background.select_rows(&background.sample_rows(args.background_rows, global.seed));
    let sage = Sage {
        groups: groups.or_else(|| saved.groups.clone()),
        permutations: args.permutations,
        seed: global.seed,
        ..Sage::default()
    };
    let message = format!("attributing the loss of {} rows", x.rows());
    let found = watched(console, &message, &sage.progress, || {
        sage.run(model, &x, &labels, &Background::from(background))
    })?;
    let explanation = found.explanation(model, &x, global.seed)?;
    let order = order(&found.values);
    let pick = |list: &[f64]| Cells::Numbers(order.iter().map(|&j| list[j]).collect());
    let names = order.iter().map(|&j| found.players[j].name.clone()).collect();
    let mut columns = vec![("feature", Cells::Texts(names)), ("value", pick(&found.values))];
    columns.extend(found.std_error.as_ref().map(|own| ("std_error", pick(own))));
    columns.extend(found.sampling_error.as_ref().map(|own| ("sampling_error", pick(own))));
    let broken = |e: serde_json::Error| Failure::input(format!("the values cannot be written: {e}"));
    let mut json = json!({ "format": "riesz-sage", "version": 1 });
    if let (Some(own), serde_json::Value::Object(found)) =
        (json.as_object_mut(), serde_json::to_value(&found).map_err(broken)?)
    {
        own.extend(found);
    }
    let words = loss_words(&found, &order);
    Ok(Found { words, columns, json, of: Of::Loss(found, explanation), curves: Vec::new() })
}

fn loss_words(found: &SageValues, order: &[usize]) -> String {
    let names: Vec<String> = found.players.iter().map(|p| printable(&p.name)).collect();
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).max(7);
    let (base, loss) = (found.base_loss, found.loss);
    let mut text = format!(
        "mean {} of {} rows: {loss:.6e}; of the mean prediction: {base:.6e}\n\n",
        found.measure, found.rows
    );
    let head = found.std_error.as_ref().map_or("", |_| "  std. error over rows");
    let of_orders = found.sampling_error.as_ref().map_or("", |_| "  over orders");
    let _ = writeln!(text, "{:width$}     SAGE value{head}{of_orders}", "feature");
    for &j in order {
        let _ = write!(text, "{:width$}  {:>13.6e}", names[j], found.values[j]);
        if let Some(own) = &found.std_error {
            let _ = write!(text, "  {:>20.2e}", own[j]);
        }
        if let Some(own) = &found.sampling_error {
            let _ = write!(text, "  {:>11.2e}", own[j]);
        }
        text.push('\n');
    }
    let exact =
        if found.sampling_error.is_some() { "of random orders" } else { "all of them: exact for these rows" };
    let _ = writeln!(text, "\n{} coalitions of features were valued, {exact}.", found.coalitions);
    text
}
