//! The importance of features for a program or an average of models, estimated from outputs at mixed rows.

use std::cell::RefCell;
use std::fmt::Write as _;

use riesz::global::{Labels, Sage, SampledIndices, SampledSensitivity};
use riesz::model_average;
use riesz::model_card::CardEntry;
use riesz::{Background, Explanation, Matrix, Players, Table, ValueIndex};
use riesz_report::sampled_sobol_record;

use super::{Args, Importance, ImportanceOutput, loss_output, number_labels, order};
use crate::args::Global;
use crate::console::{Console, printable, with_progress};
use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::input::OpenTable;
use crate::io::models::ModelOrAverage;
use crate::io::names::listed_columns;
use crate::io::write::Cells;
use crate::program::outputs_of;
use crate::question_args::read_groups;

/// Number of rows at which a function is evaluated, by default.
const EVALUATIONS: usize = 65_536;

/// Outputs at rows, with their names if it states them.
type Evaluate<'c> = dyn Fn(&Table) -> Result<(Matrix, Option<Vec<String>>)> + 'c;

/// A function whose importance is estimated: a program, or an average of models.
pub(super) struct Function<'c> {
    evaluate: Box<Evaluate<'c>>,
    /// The names of the outputs, once it has stated them.
    names: RefCell<Option<Vec<String>>>,
    /// The description of a program; empty for a model, whose description is added to all its results.
    facts: Vec<CardEntry>,
}

impl<'c> Function<'c> {
    fn program(command: &'c str) -> Self {
        Self {
            evaluate: Box::new(move |rows| outputs_of(command, rows)),
            names: RefCell::default(),
            facts: vec![CardEntry::new("model", "a program"), CardEntry::new("command", command)],
        }
    }

    /// The mean output of an average.
    pub(super) fn average(model: &'c ModelOrAverage) -> Self {
        let (best, parts) = (&model.best.model, model.parts());
        Self {
            evaluate: Box::new(move |rows| {
                Ok((model_average::mean(&parts, rows)?, Some(best.output_names.clone())))
            }),
            names: RefCell::default(),
            facts: Vec::new(),
        }
    }

    fn evaluate(&self, rows: &Table) -> Result<Matrix> {
        let (outputs, header) = (self.evaluate)(rows)?;
        if let Some(names) = header.filter(|names| names.len() == outputs.cols()) {
            *self.names.borrow_mut() = Some(names);
        }
        Ok(outputs)
    }

    /// Adds the function to an explanation of its outputs.
    fn describe(&self, explanation: &mut Explanation) {
        explanation.provenance.model.clone_from(&self.facts);
    }
}

/// The importance of features for a program: shares of the variance, or SAGE values with --target.
pub(super) fn importance(
    args: &Args,
    global: &Global,
    command: &str,
    rows: OpenTable,
    console: &Console,
) -> Result<ImportanceOutput> {
    if let Some(option) = option_of_models(args) {
        return Err(Failure::input(format!(
            "{option} needs a model, and cannot be used with a program: leave it out"
        )));
    }
    let ignored = listed_columns(&args.ignore, rows.header());
    rows.column_indices(&ignored)?;
    let is_input = |name: &&String| !args.target.contains(name) && !ignored.contains(name);
    let names: Vec<String> = rows.header().iter().filter(is_input).cloned().collect();
    if names.is_empty() {
        return Err(Failure::input(format!("{}: no column is left as an input of the program", rows.name)));
    }
    let columns = Columns::read(rows, &[&names[..], &args.target].concat())?;
    let x = columns.table(&names, &[], console)?;
    let groups = args.groups.as_deref().map(|text| read_groups(text, x.columns())).transpose()?;
    let program = Function::program(command);
    match args.target.as_slice() {
        [] => variance(args, global, &program, (x, groups), console),
        target => {
            let labels = labels(&columns, target, &program, &x.select_rows(&[0]))?;
            loss(args, global, &program, (x, labels, groups), console)
        }
    }
}

/// The first given option that only a model has.
fn option_of_models(args: &Args) -> Option<String> {
    let options = [("--posterior", args.posterior), ("--index", args.index != ValueIndex::Shapley)];
    let first = options.iter().find(|(_, is_given)| *is_given).map(|(option, _)| (*option).to_string());
    first.or_else(|| args.cells.first_given()).or_else(|| args.features.first_given().map(String::from))
}

/// Estimates of the shares of the variance.
pub(super) fn variance(
    args: &Args,
    global: &Global,
    function: &Function<'_>,
    (x, groups): (Table, Option<Players>),
    console: &Console,
) -> Result<ImportanceOutput> {
    let players = groups.as_ref().map_or(x.width(), |groups| groups.players().len());
    let (evaluations, rows_per_sample) = (args.evaluations.unwrap_or(EVALUATIONS), 3 * players + 1);
    if evaluations < 2 * rows_per_sample {
        return Err(Failure::input(format!(
            "--evaluations {evaluations} is too small: give at least {} for {players} features",
            2 * rows_per_sample
        )));
    }
    let samples = evaluations / rows_per_sample;
    let sensitivity = SampledSensitivity { groups, samples, seed: global.seed, ..Default::default() };
    let message = format!("estimating the parts of the variance from {samples} samples");
    let inputs = Background::from(x);
    let mut indices = with_progress(console, &message, &sensitivity.progress, || {
        sensitivity.run(&inputs, |rows| function.evaluate(rows))
    })?;
    let explanation = &mut indices.explanation;
    function.describe(explanation);
    explanation.output_names =
        function.names.borrow().clone().unwrap_or_else(|| match indices.variance.len() {
            1 => vec!["y".into()],
            several => (1..=several).map(|o| format!("y{o}")).collect(),
        });
    explanation.provenance.run.push(CardEntry::new("seed", global.seed));
    let json_error = |e: serde_json::Error| Failure::input(format!("the indices cannot be written: {e}"));
    Ok(ImportanceOutput {
        columns: variance_columns(&indices),
        text: variance_text(&indices),
        json: sampled_sobol_record(&indices).map_err(json_error)?,
        importance: Importance::Estimated(indices),
        curves: Vec::new(),
    })
}

/// Positions of the players of an output in all lists, the largest Shapley effect first.
fn ordered_positions(indices: &SampledIndices, output: usize) -> Vec<usize> {
    let p = indices.explanation.players.len();
    let positions = output * p..(output + 1) * p;
    order(&indices.effects.values[positions]).into_iter().map(|j| output * p + j).collect()
}

fn variance_columns(indices: &SampledIndices) -> Vec<(&'static str, Cells)> {
    let (explanation, m) = (&indices.explanation, indices.variance.len());
    let p = explanation.players.len();
    let positions: Vec<usize> = (0..m).flat_map(|o| ordered_positions(indices, o)).collect();
    let texts = |text: &dyn Fn(usize) -> String| Cells::Texts(positions.iter().map(|&k| text(k)).collect());
    let numbers = |list: &[f64]| Cells::Numbers(positions.iter().map(|&k| list[k]).collect());
    let SampledIndices { first_order, effects, total_order, .. } = indices;
    vec![
        ("output", texts(&|k| explanation.output_names[k / p].clone())),
        ("feature", texts(&|k| explanation.players[k % p].name.clone())),
        ("first_order", numbers(&first_order.values)),
        ("first_order_std_error", numbers(&first_order.std_error)),
        ("shapley_effect", numbers(&effects.values)),
        ("shapley_effect_std_error", numbers(&effects.std_error)),
        ("total_order", numbers(&total_order.values)),
        ("total_order_std_error", numbers(&total_order.std_error)),
        ("variance", Cells::Numbers(positions.iter().map(|&k| indices.variance[k / p]).collect())),
    ]
}

fn variance_text(indices: &SampledIndices) -> String {
    let explanation = &indices.explanation;
    let p = explanation.players.len();
    let names: Vec<String> = explanation.players.iter().map(|player| printable(&player.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(7);
    let mut text = String::new();
    for (o, output) in explanation.output_names.iter().enumerate() {
        let variance = indices.variance[o];
        let _ = writeln!(text, "variance of {}: {variance:.6e}", printable(output));
        if variance <= 0.0 {
            text.push_str("the output was constant: there are no shares\n\n");
            continue;
        }
        let _ = writeln!(
            text,
            "\n{:width$}  {:>17}  {:>17}  {:>17}",
            "feature", "first-order", "Shapley effect", "total"
        );
        for k in ordered_positions(indices, o) {
            let share =
                |list: &riesz::global::Shares| format!("{:>8.4} ± {:.4}", list.values[k], list.std_error[k]);
            let [first, effect, total] =
                [&indices.first_order, &indices.effects, &indices.total_order].map(share);
            let _ = writeln!(text, "{:width$}  {first:>17}  {effect:>17}  {total:>17}", names[k % p]);
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "Estimates ± standard errors, from {} rows at which the outputs were computed. Features are treated \
         as independent, each distributed as in the rows.",
        indices.evaluations
    );
    text
}

/// The true values of rows: numbers, or classes if the program has one probability per class.
fn labels(columns: &Columns, target: &[String], program: &Function<'_>, row: &Table) -> Result<Labels> {
    let outputs = program.evaluate(row)?;
    let m = outputs.cols();
    let is_class = target.len() == 1 && (m > 1 || columns.is_categorical(&target[0], false)?);
    if !is_class {
        if target.len() != m {
            return Err(Failure::input(format!(
                "the program has {m} outputs, and --target names {} columns: give one column for each \
                 output, or one column of classes",
                target.len()
            )));
        }
        return number_labels(columns, target);
    }
    let sum: f64 = outputs.data().iter().sum();
    if m == 1 || outputs.data().iter().any(|v| *v < 0.0) || (sum - 1.0).abs() > 1e-6 {
        return Err(Failure::input(format!(
            "column '{}' has classes, and the program's outputs are not their probabilities: give a program \
             that writes one probability per class",
            target[0]
        )));
    }
    let (levels, codes) = columns.levels(&target[0])?;
    let stated = program.names.borrow().clone().filter(|names| levels.iter().all(|l| names.contains(l)));
    let classes = match stated {
        Some(names) => names,
        None if levels.len() == m => levels.clone(),
        None => {
            return Err(Failure::input(format!(
                "column '{}' has {} classes, and the program has {m} outputs: let it write one probability \
                 per class, with the classes in its first line",
                target[0],
                levels.len()
            )));
        }
    };
    let position =
        |code: &f64| classes.iter().position(|class| *class == levels[*code as usize]).unwrap_or(0);
    Ok(Labels::Classes(codes.iter().map(position).collect()))
}

fn loss(
    args: &Args,
    global: &Global,
    program: &Function<'_>,
    (x, labels, groups): (Table, Labels, Option<Players>),
    console: &Console,
) -> Result<ImportanceOutput> {
    let background = match &args.background {
        None => x.clone(),
        Some(path) => {
            let names: Vec<String> = x.columns().iter().map(|column| column.name.clone()).collect();
            Columns::read(args.table.source(path).open()?, &names)?.table(&names, &[], console)?
        }
    };
    let background = background.select_rows(&background.sample_rows(args.background_rows, global.seed));
    let background = background.align_to(x.columns())?;
    let sage = Sage { groups, seed: global.seed, ..super::sage(args) };
    let message = format!("attributing the loss of {} rows", x.rows());
    let values = with_progress(console, &message, &sage.progress, || {
        sage.run_function(|rows| program.evaluate(rows), &x, &labels, &Background::from(background))
    })?;
    let mut explanation = values.explanation_of_function(&x, global.seed);
    program.describe(&mut explanation);
    loss_output(args, values, explanation, console)
}
