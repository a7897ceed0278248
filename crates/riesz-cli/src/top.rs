//! The pairs with the largest interactions of each row as a table: `explain --top-interactions`.

use std::path::Path;

use riesz::explanation::TopInteractions;

use crate::args::Format;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::explain_run::{ExplainRequest, Prepared};
use crate::io::input::OpenTable;
use crate::io::models::read_model;
use crate::io::write::{Cells, TableWriter};
use crate::program;

/// The limits of the search.
#[derive(Clone, Copy)]
pub struct SearchLimits {
    /// The number of pairs to list for a row.
    pub count: usize,
    /// The largest number of pairs to examine.
    pub limit: Option<usize>,
}

/// Columns of the table.
const COLUMNS: [&str; 8] = ["row", "output", "rank", "feature_1", "feature_2", "value", "bound", "left_out"];

/// Number of numeric cells of a line.
const NUMBERS: usize = 6;

/// Searches the pairs of each row in chunks, and writes the table.
pub fn run(
    model: &Path,
    rows: OpenTable,
    request: &ExplainRequest<'_>,
    limits: SearchLimits,
    (path, format): (Option<&Path>, Format),
    console: &Console,
) -> Result<()> {
    if program::command(model).is_some() {
        let reason = "--top-interactions needs a model with a kernel, and cannot be used with a program: \
                      leave it out";
        return Err(Failure::input(reason));
    }
    let saved = request.cells.admit(read_model(model, Some(&rows), request.features)?)?;
    let numbers_per_row = Some(limits.count.saturating_mul(NUMBERS));
    let Prepared { explainer, mut rows, .. } =
        Prepared::new((&saved, model), rows, request, numbers_per_row, console)?;
    let progress = console.progress("searching");
    let name = rows.name().to_string();
    let names = COLUMNS.map(String::from).to_vec();
    let mut table = TableWriter::open(path, format, names, lines(None, 0))?;
    let (mut done, mut bound, mut searched, mut incomplete) = (0, 0.0_f64, 0, 0);
    while let Some(chunk) = rows.next()? {
        let interactions = explainer.top_interactions(&chunk, limits.count, limits.limit);
        let interactions =
            interactions.map_err(|e| request.game.settings.with_option(e)).map_err(|e| e.about(&name))?;
        for game in &interactions.by_game {
            bound = bound.max(game.bound);
            searched = searched.max(game.searched);
            incomplete += usize::from(!game.is_complete());
        }
        table.rows(lines(Some(&interactions), done))?;
        done += interactions.rows();
        progress.say(format!("{done} rows searched"));
    }
    rows.facts().iter().for_each(|fact| console.note(format!("note: {}", fact.value)));
    table.finish()?;
    console.note(format!(
        "{done} rows searched, up to {searched} pairs evaluated per row; exact: each value is within \
         {bound:.1e} (proved bound){}",
        match incomplete {
            0 => String::new(),
            count => format!(
                "; {count} lists may lack a stronger pair, within the bound in left_out: raise --max-pairs"
            ),
        }
    ));
    Ok(())
}

/// One line per pair; the first row has the number `from`.
fn lines(interactions: Option<&TopInteractions>, from: usize) -> Vec<Cells> {
    let (mut rows, mut ranks) = (Vec::new(), Vec::new());
    let (mut outputs, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
    let (mut values, mut bounds, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(top) = interactions {
        for (g, game) in top.by_game.iter().enumerate() {
            for (rank, pair) in (1..).zip(&game.pairs) {
                rows.push((from + g / top.outputs()) as i64);
                outputs.push(top.output_names[g % top.outputs()].clone());
                ranks.push(rank);
                let [j, l] = pair.players.map(|player| top.players[player].name.clone());
                first.push(j);
                second.push(l);
                values.push(pair.value);
                bounds.push(game.bound);
                left_out.push(game.left_out);
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
