//! `riesz inspect`.

mod table;

use std::path::PathBuf;

use clap::ValueHint;
use riesz::explanation::{Exactness, Sampling};
use riesz::format::model::SavedModel;
use riesz::kernel_model::{Link, ProbabilityLink};
use riesz::model_average::ModelAverage;
use riesz::model_card::CardEntry;
use riesz::{Column, ColumnKind, Explanation, KernelExpansion};
use serde_json::{Value, json};

use crate::args::{FeatureArgs, Global, TableArgs};
use crate::console::aligned;
use crate::exit::Result;
use crate::io::input::read_file;
use crate::io::models::{FileContent, is_known, read_bytes};
use crate::io::output::write_all;
use table::TableContents;

/// Arguments of `inspect`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz inspect m.riesz
  riesz inspect why.json --format json
  riesz inspect train.csv                         each column's detected type, and the reason
  riesz inspect train.csv --column zip=text

For a table, each column is shown with its type (numbers or categories) and the reason, its number
of missing cells and of distinct values, their range or the most frequent ones, and remarks on
doubtful cells.")]
pub struct Args {
    /// Model, explanation or table; '-' is a table from standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Where to write the result [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Options for reading tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// Information that LIBSVM files do not contain.
    #[command(flatten)]
    pub features: FeatureArgs,
}

/// Prints the contents of a file.
pub fn run(args: &Args, global: &Global) -> Result<()> {
    let as_json = global.is_json_requested()?;
    let bytes = read_file(&args.file)?;
    if !is_known(&args.file, &bytes)? {
        let open_table = || args.table.source(&args.file).open_bytes(bytes.clone());
        let table = open_table().and_then(|rows| TableContents::read(rows, Some(&open_table)));
        let contents = match table {
            // A file with the extension of a model gets the error message for models, not that for tables.
            Err(_) if args.file.extension().is_some_and(|e| e == "riesz" || e == "model") => {
                return read_bytes(&args.file, bytes, None, &args.features).map(|_| ());
            }
            table => table?,
        };
        let text = if as_json { format!("{:#}\n", contents.record()) } else { contents.text() };
        return write_all(args.output.as_deref(), text.as_bytes());
    }
    let (facts, record) = match read_bytes(&args.file, bytes, None, &args.features)? {
        FileContent::Model(model, format) => {
            let mut facts = model_facts(&model.best, format);
            let mut record = model_record(&model.best, format);
            if let Some(ModelAverage { models, effective_sample_size }) = &model.average {
                facts.push(CardEntry::new("models", models.len()));
                facts.push(CardEntry::measured("effective sample size", *effective_sample_size));
                record["average"] = json!({
                    "weights": models.iter().map(|part| part.weight).collect::<Vec<f64>>(),
                    "kernels": models.iter().map(|part| part.model.kernel.formula()).collect::<Vec<String>>(),
                    "effective_sample_size": effective_sample_size,
                });
            }
            (facts, record)
        }
        FileContent::Explanation(saved, format) => {
            let explanation = saved.explanation;
            (explanation_facts(&explanation, format), explanation_record(&explanation, format))
        }
    };
    let text = if as_json { format!("{record:#}\n") } else { aligned(&facts) };
    write_all(args.output.as_deref(), text.as_bytes())
}

/// Largest number of parameters that are listed one by one.
const MOST_PARAMETERS: usize = 100;

/// Parameters of factors that have a value for each column, as one entry for each column.
fn scales_by_column(model: &KernelExpansion) -> Vec<CardEntry> {
    let mut facts = Vec::new();
    for factor in model.kernel.terms.iter().flat_map(|term| &term.factors) {
        let columns = factor.columns();
        for (name, values) in factor.values().0 {
            let column_scales =
                columns.iter().zip(&values).filter(|_| columns.len() > 1 && values.len() == columns.len());
            facts.extend(
                column_scales.map(|(&j, value)| {
                    CardEntry::new(format!("{name} of {}", model.columns()[j].name), value)
                }),
            );
        }
    }
    if facts.len() > MOST_PARAMETERS {
        let omitted = facts.len() - MOST_PARAMETERS;
        facts.truncate(MOST_PARAMETERS);
        facts.push(CardEntry::new("of other columns", format!("{omitted} more numbers, see --format json")));
    }
    facts
}

fn column_words(column: &Column) -> String {
    match &column.kind {
        ColumnKind::Numeric => column.name.clone(),
        ColumnKind::Categorical { levels } => format!("{} ({})", column.name, shortened(levels, 8)),
    }
}

fn shortened(names: &[String], limit: usize) -> String {
    if names.len() <= limit {
        return names.join(", ");
    }
    format!("{}, … {} in all", names[..limit].join(", "), names.len())
}

/// The source of a classifier's probabilities.
fn probability_summary(saved: &SavedModel) -> Option<&'static str> {
    let latent = matches!(
        saved.model.link,
        Link::LatentLogistic | Link::LatentOneVsRest | Link::LatentRaoKupper { .. }
    );
    match ProbabilityLink::of_model(&saved.model) {
        _ if saved.model.classes.is_empty() => None,
        Some(ProbabilityLink::Platt(_)) => Some("from decision values, by probA and probB"),
        Some(_) => Some("from outputs"),
        None if latent && saved.covariance.is_some() => Some("averages over the posterior"),
        None if latent => Some("none: they need the posterior"),
        None => Some("none"),
    }
}

fn model_facts(saved: &SavedModel, format: &str) -> Vec<CardEntry> {
    let model = &saved.model;
    let columns: Vec<String> = model.columns().iter().map(column_words).collect();
    let mut facts = vec![CardEntry::new("file", format)];
    facts.extend(model.model_card.iter().cloned());
    facts.push(CardEntry::new("kernel", model.kernel.formula()));
    facts.extend(scales_by_column(model));
    facts.push(CardEntry::new("support points", model.support_points.rows()));
    facts.push(CardEntry::new("columns", format!("{}: {}", columns.len(), shortened(&columns, 30))));
    facts.push(CardEntry::new("outputs", shortened(&model.output_names, 30)));
    if !model.classes.is_empty() {
        facts.push(CardEntry::new("classes", shortened(&model.classes, 30)));
    }
    if let Some(probability_text) = probability_summary(saved) {
        facts.push(CardEntry::new("probabilities", probability_text));
    }
    let status = match &saved.covariance {
        Some(covariance) if covariance.is_of_data() => "held",
        Some(_) => "held, for the error of landmarks",
        None => "not held",
    };
    facts.push(CardEntry::new("posterior", status));
    if let Some(groups) = &saved.groups {
        let names: Vec<String> = groups.players().iter().map(|p| p.name.clone()).collect();
        facts.push(CardEntry::new("features", shortened(&names, 30)));
    }
    let explained = riesz::Explainer::new(
        model,
        riesz::Question::from(riesz::Game::Functional).with_players(saved.groups.clone()),
    );
    let efficient = explained.map_or_else(|e| e.to_string(), |_| "yes".into());
    facts.push(CardEntry::new("exact values", efficient));
    facts
}

fn model_record(saved: &SavedModel, format: &str) -> Value {
    let model = &saved.model;
    json!({
        "file": format,
        "card": model.model_card,
        "kernel": model.kernel,
        "kernel_formula": model.kernel.formula(),
        "support_points": model.support_points.rows(),
        "columns": model.columns(),
        "outputs": model.output_names,
        "intercept": model.intercept,
        "link": model.link,
        "classes": model.classes,
        "posterior": saved.covariance.is_some(),
        "features": saved.groups.as_ref().map(|g| g.players()),
    })
}

fn explanation_facts(explanation: &Explanation, format: &str) -> Vec<CardEntry> {
    let provenance = &explanation.provenance;
    let mut facts = vec![
        CardEntry::new("file", format),
        CardEntry::new("values", explanation.index.names()),
        CardEntry::new("game", &provenance.game),
        CardEntry::new("absence", &provenance.absent),
        CardEntry::new("rows", explanation.rows()),
        CardEntry::new("outputs", shortened(&explanation.output_names, 30)),
        CardEntry::new("features", explanation.players.len()),
        CardEntry::new("exactness", exactness_words(explanation)),
    ];
    if let Some(uncertainty) = &explanation.uncertainty {
        let source = uncertainty.source.map_or_else(|| "not stated".into(), |source| source.to_string());
        facts.push(CardEntry::new("intervals (95 %)", source));
    }
    for (o, output) in explanation.output_names.iter().enumerate() {
        let (mean, sd) = (explanation.mean_abs(o), explanation.mean_abs_sd(o));
        let interval =
            |k: usize| sd.as_ref().map_or_else(String::new, |sd| format!(" ± {:.4}", 1.96 * sd[k]));
        let top: Vec<String> = explanation
            .ranking(o)
            .into_iter()
            .take(5)
            .map(|k| format!("{} {:.4}{}", explanation.set_name(k), mean[k], interval(k)))
            .collect();
        facts.push(CardEntry::new(format!("mean |value| of {output}"), top.join(", ")));
        facts.extend(order_facts(explanation, o));
        if o == 4 {
            break;
        }
    }
    facts.extend(provenance.model.iter().chain(&provenance.run).cloned());
    facts
}

/// Entries about the order of the five largest features: the posterior probability that |value| of a feature
/// is larger than that of the next, averaged over rows; none if the covariance of values is unknown.
fn order_facts(explanation: &Explanation, output: usize) -> Vec<CardEntry> {
    let ranking = explanation.ranking(output);
    let probability = |pair: &[usize]| {
        let p = explanation.mean_probability_stronger(output, pair[0], pair[1]).ok()?;
        let [a, b] = [pair[0], pair[1]].map(|k| explanation.set_name(k));
        Some(CardEntry::new(format!("P(|{a}| > |{b}|), mean over rows"), format!("{p:.3}")))
    };
    ranking.windows(2).take(4).filter_map(probability).collect()
}

fn exactness_words(explanation: &Explanation) -> String {
    match (&explanation.exactness, explanation.certificate()) {
        (_, Some(c)) if c.holds => {
            format!("exact: largest residual {:.1e}, proved bound {:.1e}", c.residual, c.bound)
        }
        (_, Some(c)) => format!("FAILED: largest residual {:.1e} exceeds the bound", c.residual),
        (Exactness::Estimated { sampling: Some(Sampling { evaluations, seed }), .. }, None) => {
            format!("estimated from {evaluations} evaluations (seed {seed})")
        }
        (Exactness::Estimated { sampling: None, .. }, None) => "estimated".into(),
        (Exactness::Exact { bound }, None) => {
            format!("exact: proved bound {:.1e}", bound.iter().fold(0.0, |m: f64, b| m.max(*b)))
        }
        (_, None) => "unknown: the table does not state it".into(),
    }
}

fn explanation_record(explanation: &Explanation, format: &str) -> Value {
    let importance: Vec<Value> = (0..explanation.outputs())
        .map(|o| {
            let names = (0..explanation.sets()).map(|k| explanation.set_name(k));
            let player_values: Vec<Value> = names
                .zip(explanation.mean_abs(o))
                .map(|(player, value)| json!({ "feature": player, "mean_abs": value }))
                .collect();
            json!({ "output": explanation.output_names[o], "features": player_values })
        })
        .collect();
    json!({
        "file": format,
        "rows": explanation.rows(),
        "outputs": explanation.output_names,
        "features": explanation.players,
        "importance": importance,
        "exactness": exactness_words(explanation),
        "provenance": explanation.provenance,
    })
}
