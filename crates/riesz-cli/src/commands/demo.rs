//! `riesz demo`: fits, explains and reports on bundled data.

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::PathBuf;
use std::time::Instant;

use clap::ValueHint;
use riesz::fit::{GaussianProcess, SupportVectorRegressor};
use riesz::kernel::{ColumnScaling, KernelExpression};
use riesz::model_card::CardEntry;
use riesz::{Explainer, Explanation, Game, KernelExpansion, Matrix, Table};
use riesz_report::ReportOptions;
use serde_json::json;

use crate::args::Global;
use crate::console::Console;
use crate::exit::Result;
use crate::explain_run::Certificate;
use crate::io::columns::Columns;
use crate::io::input::OpenTable;
use crate::io::output::write_all;
use crate::output_format::PAGES;

/// The bundled data: 442 patients, ten measurements and disease progression a year later.
const DIABETES: &str = include_str!("../../data/diabetes.csv");
/// Number of background rows, from which absent features take their values.
const BACKGROUND: usize = 100;
/// Number of features shown in the table.
const SHOWN: usize = 6;

/// Arguments of `demo`.
#[derive(Debug, clap::Args)]
#[command(before_help = "\
Examples:
  riesz demo
  riesz demo -o report.html")]
pub struct Args {
    /// Page to write
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = PAGES.parser())]
    pub output: Option<PathBuf>,
}

/// Fits two models, explains every row and prints the most important features.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let as_json = global.is_json_requested()?;
    let start = Instant::now();
    let rows = OpenTable::csv(Box::new(Cursor::new(DIABETES)), b',', "the bundled diabetes data")?;
    let header = rows.header().to_vec();
    let (target, features) = header.split_last().map_or((String::new(), &[][..]), |(t, f)| (t.clone(), f));
    let columns = Columns::read(rows, &header)?;
    let x = columns.table(features, &["sex".to_string()], &console)?;
    let y = columns.numbers(&target)?;
    let background = x.select_rows(&x.sample_rows(BACKGROUND, global.seed));

    let progress = console.progress("fitting");
    let mut explanations = Vec::new();
    for (title, fit) in MODELS {
        progress.say(format!("fitting a {title}"));
        let mut model = fit(&x, &y)?;
        model.output_names = vec![format!("{target}, {title}")];
        model.model_card.iter_mut().for_each(|fact| fact.name = format!("{title}: {}", fact.name));
        progress.say(format!("explaining the {title}"));
        explanations.push((title, explain(&model, &x, &background, global.seed)?));
    }
    drop(progress);

    let mut certificate = Certificate::default();
    explanations.iter().for_each(|(_, e)| certificate.include(e));
    let text = if as_json { record(&explanations) } else { table(&explanations) };
    write_all(None, text.as_bytes())?;
    console.note(certificate.description());
    let mut remaining = explanations.into_iter().map(|(_, e)| e);
    if let (Some(path), Some(mut page)) = (&args.output, remaining.next()) {
        remaining.try_for_each(|other| page.concat_outputs(other))?;
        let options =
            ReportOptions { title: "Diabetes progression, explained".into(), ..ReportOptions::default() };
        write_all(Some(path), riesz_report::report(&page, &options)?.as_bytes())?;
        console.note(format!("report: {} (open it in a browser)", path.display()));
    }
    console.note(format!("done in {:.1} s", start.elapsed().as_secs_f64()));
    certificate.check()
}

/// Function that fits a model to features (n × d) and a target (n).
type Fit = fn(&Table, &[f64]) -> Result<KernelExpansion>;

/// The models of the demonstration, each with the function that fits it.
const MODELS: [(&str, Fit); 2] =
    [("Gaussian process", gaussian_process), ("support vector machine", support_vector_machine)];

/// Fits a Gaussian process with a length scale for each feature, tuned by the marginal likelihood.
fn gaussian_process(x: &Table, y: &[f64]) -> Result<KernelExpansion> {
    let kernel = KernelExpression::parse("rbf(ard)")?.resolve(x, &ColumnScaling::standardised(x))?;
    Ok(GaussianProcess::new(kernel, 0.1).fit(x, &Matrix::column_vector(y.to_vec()))?.model)
}

fn support_vector_machine(x: &Table, y: &[f64]) -> Result<KernelExpansion> {
    let kernel = KernelExpression::parse("rbf")?.resolve(x, &ColumnScaling::standardised(x))?;
    // C = 50 and ε = 5 are in the units of the target, whose standard deviation is 77.
    Ok(SupportVectorRegressor::new(kernel, 50.0, 5.0).fit(x, y)?.model)
}

fn explain(model: &KernelExpansion, x: &Table, background: &Table, seed: u64) -> Result<Explanation> {
    let game = Game::Interventional { background: background.clone().into() };
    let mut explanation = Explainer::new(model, game)?.explain(x)?;
    explanation.provenance.run.extend([
        CardEntry::new("rows", "bundled diabetes data (442 patients)"),
        CardEntry::new("background", format!("{} of these rows", background.rows())),
        CardEntry::new("seed", seed),
    ]);
    Ok(explanation)
}

/// The most important features of each model side by side.
fn table(explanations: &[(&str, Explanation)]) -> String {
    let mut text = String::from("mean |Shapley value| of disease progression, 442 patients\n\n");
    for (title, _) in explanations {
        let _ = write!(text, "{title:<28}");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    let rankings: Vec<_> = explanations.iter().map(|(_, e)| (e, e.ranking(0), e.mean_abs(0))).collect();
    for rank in 0..SHOWN {
        for (explanation, ranking, mean) in &rankings {
            if let Some(&j) = ranking.get(rank) {
                let _ = write!(text, "  {:<8}{:>10.3}        ", explanation.players[j].name, mean[j]);
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn record(explanations: &[(&str, Explanation)]) -> String {
    let models: Vec<_> = explanations
        .iter()
        .map(|(title, e)| {
            let mean = e.mean_abs(0);
            let features: Vec<_> = e
                .ranking(0)
                .into_iter()
                .map(|j| json!({ "feature": e.players[j].name, "mean_abs": mean[j] }))
                .collect();
            json!({ "model": title, "features": features })
        })
        .collect();
    format!("{:#}\n", json!(models))
}
