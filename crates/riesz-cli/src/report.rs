//! `riesz report`.

use riesz::explanation::Fact;
use riesz::{Exactness, Explainer, Explanation};
use riesz_report::ReportOptions;

use crate::args::{Global, ReportArgs};
use crate::console::Console;
use crate::explain::{Certificate, within_limit};
use crate::failure::{Failure, Result};
use crate::games::{about_model, robustness};
use crate::io::models::{Found, complete, read_any};
use crate::io::output::write_all;
use crate::io::typing::Conforming;

/// Writes the page, after explaining if it is given a model.
pub fn run(args: &ReportArgs, global: &Global, console: Console) -> Result<()> {
    if global.format.is_some() {
        return Err(Failure::input("a report is always HTML: leave --format out"));
    }
    let rows = args.rows.as_deref().map(|path| args.table.source(path).open()).transpose()?;
    let header = rows.as_ref().map_or(&[][..], |rows| rows.header());
    let explanation = match (read_any(&args.file, header)?, rows) {
        (Found::Explanation(..), _) if let Some(option) = args.game.given() => {
            return Err(Failure::input(format!(
                "{} is an explanation, which has no use for {option}: leave it out, or give a model and rows",
                args.file.display()
            )));
        }
        (Found::Explanation(explanation, _), rows) => complete(*explanation, &args.file, rows, &console)?,
        (Found::Model(..), None) => {
            let name = args.file.display();
            return Err(Failure::input(format!("{name} is a model: say which rows to explain, after it")));
        }
        (Found::Model(saved, _), Some(rows)) => {
            let (question, own) = about_model(&args.game, &args.table, &saved, global.seed, &console)?;
            let explainer = Explainer::new(&saved.model, question)?;
            let width = saved.model.columns().len()
                + (explainer.groups().players().len() + 4) * saved.model.outputs();
            let mut facts = vec![Fact::new("model file", args.file.display()), Fact::new("rows", &rows.name)];
            facts.extend(own);
            facts.extend(robustness(&args.game, &explainer, &saved.model)?);
            let mut rows = Conforming::new(rows, saved.model.columns(), width)?;
            let progress = console.progress("explaining");
            let mut all: Option<Explanation> = None;
            while let Some(table) = rows.next()? {
                let mut chunk = explainer.explain(&table)?;
                let done = all.as_ref().map_or(0, Explanation::rows);
                chunk.row_numbers.iter_mut().for_each(|row| *row += done);
                match &mut all {
                    None => all = Some(chunk),
                    Some(all) => all.append(chunk)?,
                }
                if let Some(all) = &all {
                    within_limit(all, width)?;
                    progress.say(format!("{} rows explained", all.rows()));
                }
            }
            let mut all = all.ok_or_else(|| Failure::input("there are no rows to explain"))?;
            all.provenance.run.extend(facts);
            all
        }
    };
    let options = ReportOptions { title: args.title.clone(), ..ReportOptions::default() };
    write_all(args.output.as_deref(), riesz_report::report(&explanation, &options)?.as_bytes())?;
    let mut certificate = Certificate::default();
    certificate.include(&explanation);
    if !matches!(explanation.exactness, Exactness::Unstated) {
        console.note(certificate.words());
    }
    certificate.check()
}
