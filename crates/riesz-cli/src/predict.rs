//! `riesz predict`.

use riesz::Expansion;

use crate::args::{Global, PredictArgs};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::models::read_model;
use crate::io::typing::Conforming;
use crate::io::write::{Cells, TableWriter};

/// Predicts chunk by chunk.
pub fn run(args: &PredictArgs, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let rows = args.table.source(&args.rows).open()?;
    let model = read_model(&args.model, rows.header())?.model;
    let mut rows = Conforming::new(rows, model.columns(), model.columns().len() + model.outputs())?;
    let mut writer: Option<TableWriter> = None;
    let progress = console.progress("predicting");
    let mut done = 0;
    while let Some(table) = rows.next()? {
        let outputs =
            model.predict(&table).map_err(|e| Failure::from(e).about(&args.rows.display().to_string()))?;
        let writer = match &mut writer {
            Some(writer) => writer,
            none => {
                let (names, example) = layout(&model);
                none.insert(TableWriter::open(args.output.as_deref(), format, names, example)?)
            }
        };
        let mut cells = layout(&model).1;
        for i in 0..table.rows() {
            fill(&model, (done + i) as i64, outputs.row(i), &mut cells);
        }
        writer.rows(cells)?;
        done += table.rows();
        progress.say(format!("{done} rows predicted"));
    }
    match writer {
        Some(writer) => writer.finish(),
        None => Ok(()),
    }
}

/// The columns: the outputs of a regression; the class of a classification, then its probabilities if the model has
/// them or else its decision values.
fn layout(model: &Expansion) -> (Vec<String>, Vec<Cells>) {
    let mut names = vec!["row".to_string()];
    let mut cells = vec![Cells::Integers(Vec::new())];
    let numbers = |names: &mut Vec<String>, cells: &mut Vec<Cells>, new: Vec<String>| {
        cells.extend(new.iter().map(|_| Cells::Numbers(Vec::new())));
        names.extend(new);
    };
    if model.classes.is_empty() {
        numbers(&mut names, &mut cells, model.output_names.clone());
        return (names, cells);
    }
    names.push("class".into());
    cells.push(Cells::Texts(Vec::new()));
    if model.probabilities(&vec![0.0; model.outputs()]).is_some() {
        numbers(&mut names, &mut cells, model.classes.iter().map(|c| format!("p({c})")).collect());
    } else {
        numbers(&mut names, &mut cells, model.output_names.clone());
    }
    (names, cells)
}

fn fill(model: &Expansion, row: i64, outputs: &[f64], cells: &mut [Cells]) {
    let class = model.class_of(outputs).and_then(|k| model.classes.get(k)).cloned().unwrap_or_default();
    let probabilities = model.probabilities(outputs);
    let mut numbers = probabilities.as_deref().unwrap_or(outputs).iter();
    for column in cells {
        match column {
            Cells::Integers(v) => v.push(row),
            Cells::Texts(v) => v.push(class.clone()),
            Cells::Numbers(v) => v.push(numbers.next().copied().unwrap_or(f64::NAN)),
        }
    }
}
