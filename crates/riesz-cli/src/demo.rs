//! `riesz demo`: the whole path on bundled data.

use std::fmt::Write as _;
use std::io::Cursor;
use std::time::Instant;

use riesz::explanation::Fact;
use riesz::fit::KernelRidge;
use riesz::kernel::{KernelExpression, Units};
use riesz::{Explainer, Explanation, Game, Matrix, Table};
use riesz_report::ReportOptions;
use serde_json::json;

use crate::args::{DemoArgs, Global};
use crate::console::Console;
use crate::explain::Certificate;
use crate::failure::Result;
use crate::games::sample;
use crate::io::input::Rows;
use crate::io::output::write_all;
use crate::io::typing::Columns;

/// The bundled data: 442 patients, ten measurements and disease progression a year later.
const DIABETES: &str = include_str!("../data/diabetes.csv");
/// Rows from which absent features take their values.
const BACKGROUND: usize = 100;
/// Features shown in the table.
const SHOWN: usize = 6;

/// Fits two models, explains every row and shows what matters.
pub fn run(args: &DemoArgs, global: &Global, console: Console) -> Result<()> {
    let as_json = global.json_words()?;
    let start = Instant::now();
    let rows = Rows::csv(Box::new(Cursor::new(DIABETES)), b',', "the bundled diabetes data")?;
    let header = rows.header().to_vec();
    let (target, features) = header.split_last().map_or((String::new(), &[][..]), |(t, f)| (t.clone(), f));
    let columns = Columns::read(rows, &header)?;
    let x = columns.table(features, &["sex".to_string()], &console)?;
    let y = columns.numbers(&target)?;
    let background = x.select_rows(&sample(x.rows(), BACKGROUND, global.seed));

    let progress = console.progress("fitting");
    let models = [("ridge regression", "rbf", 2.0), ("ridge regression", "laplacian", 2.0)];
    let mut explanations = Vec::new();
    for (kind, kernel, ridge) in models {
        let kernel = KernelExpression::parse(kernel)?.resolve(&x, &Units::standardised(&x))?;
        let fit = KernelRidge::new(kernel, ridge).fit(&x, &Matrix::column_vector(y.clone()))?;
        let mut model = fit.model;
        model.output_names = vec![target.clone()];
        progress.say(format!("explaining the {kind}"));
        explanations.push((kind, explain(&model, &x, &background, global.seed)?));
    }
    drop(progress);

    let mut certificate = Certificate::default();
    explanations.iter().for_each(|(_, e)| certificate.include(e));
    let text = if as_json { record(&explanations) } else { table(&explanations) };
    write_all(None, text.as_bytes())?;
    if let (Some(path), Some((_, explanation))) = (&args.output, explanations.first()) {
        let options =
            ReportOptions { title: "Diabetes progression, explained".into(), ..ReportOptions::default() };
        write_all(Some(path), riesz_report::report(explanation, &options)?.as_bytes())?;
        console.note(format!("report: {}", path.display()));
    }
    console.note(certificate.words());
    console.note(format!("done in {:.1} s", start.elapsed().as_secs_f64()));
    certificate.check()
}

fn explain(model: &riesz::Expansion, x: &Table, background: &Table, seed: u64) -> Result<Explanation> {
    let game = Game::Interventional { background: background.clone().into() };
    let mut explanation = Explainer::new(model, game, None)?.explain(x)?;
    explanation.provenance.run.extend([
        Fact::new("rows", "bundled diabetes data (442 patients)"),
        Fact::new("background", format!("{} of these rows", background.rows())),
        Fact::new("seed", seed),
    ]);
    Ok(explanation)
}

/// The most important features of each model side by side.
fn table(explanations: &[(&str, Explanation)]) -> String {
    let mut text = String::from("mean |Shapley value| of disease progression, 442 patients\n\n");
    for (title, _) in explanations {
        let _ = write!(text, "{title:<28}");
    }
    text.push('\n');
    let rankings: Vec<_> = explanations.iter().map(|(_, e)| (e, e.ranking(0), e.mean_abs(0))).collect();
    for place in 0..SHOWN {
        for (explanation, ranking, mean) in &rankings {
            if let Some(&j) = ranking.get(place) {
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
