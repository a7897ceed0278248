//! The strongest pairs of each row as a table: `explain --top-interactions`.

use std::path::Path;

use riesz::explanation::TopInteractions;

use crate::args::Format;
use crate::console::Console;
use crate::explaining::{Asked, Prepared};
use crate::failure::{Failure, Result};
use crate::io::input::OpenTable;
use crate::io::models::read_model;
use crate::io::write::{Cells, TableWriter};
use crate::program;

/// What is looked for.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// How many pairs of a row.
    pub count: usize,
    /// How many are looked at, at most.
    pub limit: Option<usize>,
}

/// Columns of the table.
const COLUMNS: [&str; 8] = ["row", "output", "rank", "feature_1", "feature_2", "value", "bound", "left_out"];

/// Numbers of a line beside texts.
const NUMBERS: usize = 6;

/// Finds them chunk by chunk.
pub fn run(
    model: &Path,
    rows: OpenTable,
    asked: &Asked<'_>,
    wanted: Wanted,
    (path, format): (Option<&Path>, Format),
    console: &Console,
) -> Result<()> {
    if program::command(model).is_some() {
        let why = "--top-interactions takes a model whose kernel is known: a program has Shapley values of \
                   single features";
        return Err(Failure::input(why));
    }
    let saved = asked.cells.admit(read_model(model, Some(&rows), asked.features)?)?;
    let listed = Some(wanted.count.saturating_mul(NUMBERS));
    let Prepared { explainer, mut rows, .. } = Prepared::new((&saved, model), rows, asked, listed, console)?;
    let progress = console.progress("searching");
    let name = rows.name().to_string();
    let names = COLUMNS.map(String::from).to_vec();
    let mut table = TableWriter::open(path, format, names, lines(None, 0))?;
    let (mut done, mut bound, mut searched, mut incomplete) = (0, 0.0_f64, 0, 0);
    while let Some(chunk) = rows.next()? {
        let found = explainer.top_interactions(&chunk, wanted.count, wanted.limit);
        let found = found.map_err(|e| asked.game.settings.spelt(e)).map_err(|e| e.about(&name))?;
        for own in &found.found {
            bound = bound.max(own.bound);
            searched = searched.max(own.searched);
            incomplete += usize::from(!own.is_complete());
        }
        table.rows(lines(Some(&found), done))?;
        done += found.rows();
        progress.say(format!("{done} rows searched"));
    }
    rows.facts().iter().for_each(|fact| console.note(format!("note: {}", fact.value)));
    table.finish()?;
    console.note(format!(
        "{done} rows searched, up to {searched} pairs looked at in each; exact: each value is within \
         {bound:.1e} (proved bound){}",
        match incomplete {
            0 => String::new(),
            some => format!(
                "; of {some} lists a stronger pair may be missing, see left_out: raise \
                             --max-pairs"
            ),
        }
    ));
    Ok(())
}

/// A line a pair, of rows from this one on.
fn lines(found: Option<&TopInteractions>, from: usize) -> Vec<Cells> {
    let (mut rows, mut ranks) = (Vec::new(), Vec::new());
    let (mut outputs, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
    let (mut values, mut bounds, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(all) = found {
        for (g, own) in all.found.iter().enumerate() {
            for (rank, pair) in (1..).zip(&own.pairs) {
                rows.push((from + g / all.outputs()) as i64);
                outputs.push(all.output_names[g % all.outputs()].clone());
                ranks.push(rank);
                let [j, l] = pair.players.map(|player| all.players[player].name.clone());
                first.push(j);
                second.push(l);
                values.push(pair.value);
                bounds.push(own.bound);
                left_out.push(own.left_out);
            }
        }
    }
    vec![
        Cells::Integers(rows),
        Cells::Texts(outputs),
        Cells::Integers(ranks),
        Cells::Texts(first),
        Cells::Texts(second),
        Cells::Numbers(values),
        Cells::Numbers(bounds),
        Cells::Numbers(left_out),
    ]
}
