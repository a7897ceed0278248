//! Questions from arguments, for `explain` and `report`.

use std::path::Path;

use riesz::error::listed;
use riesz::explainer::PredictionFunction;
use riesz::format::model::SavedModel;
use riesz::game::StructureLists;
use riesz::kernel::ColumnScaling;
use riesz::model_card::CardEntry;
use riesz::question::{Source, Subject};
use riesz::{Background, Column, Explainer, KernelExpansion, Players, Question};

use crate::args::{CellArgs, Explained, GameArgs, SettingArgs, TableArgs, graph_from_text};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::input::{described, read_file};
use crate::io::model_rows::{CellPolicy, MissingCells, ModelRows, UnseenLevels};
use crate::io::models::ModelOrAverage;
use crate::io::names::listed_columns;

/// The given settings, with the causal structure of the given graph over these columns.
fn settings_with_graph(args: &GameArgs, columns: &[Column]) -> Result<SettingArgs<Explained>> {
    let Some(text) = &args.graph else { return Ok(args.settings.clone()) };
    if args.settings.value("game").is_none_or(|game| game != "causal") {
        return Err(Failure::input(
            "--graph belongs to the causal game: give --game causal, or leave it out",
        ));
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let StructureLists { components, confounded, parents } =
        graph_from_text(text)?.causal_structure(&names)?.to_lists();
    let settings = args.settings.clone().or("components", components.into()).or("parents", parents.into());
    Ok(if confounded.is_empty() { settings } else { settings.or("confounded", confounded.into()) })
}

/// The provenance entry of the given settings.
fn given_settings(settings: &SettingArgs<Explained>) -> Vec<CardEntry> {
    settings.as_text().map(|text| CardEntry::new("settings", text)).into_iter().collect()
}

/// Whether the options request the probabilities of a classifier.
pub fn asks_for_probabilities(args: &GameArgs) -> bool {
    args.settings.value("probabilities") == Some(&serde_json::Value::Bool(true))
}

/// The reason why values are computed from the model's predictions, as for any function: the model has no
/// exact values, or an estimator is requested. `None` if the values come from the model's kernel.
pub fn prediction_reason(args: &GameArgs, model: &ModelOrAverage) -> Result<Option<String>> {
    let against_rows = match args.settings.value("game").and_then(serde_json::Value::as_str) {
        None => source(args).is_some(),
        Some(game) => ["interventional", "baseline"].contains(&game) && source(args).is_some(),
    };
    if args.settings.value("estimator").is_some() {
        return Ok(Some("an estimator was requested".into()));
    }
    if !against_rows {
        return Ok(None);
    }
    let saved = &model.best;
    let groups = args.groups.as_deref().map(|text| read_groups(text, saved.model.columns())).transpose()?;
    let function = PredictionFunction::new(&saved.model, model.parts(), asks_for_probabilities(args));
    let refusal = function.without_exact_values(groups.or_else(|| saved.groups.clone()));
    Ok(refusal.map(|refusal| refusal.to_string()))
}

/// The question about a model that the options describe, and provenance entries of its rows. Reads the files
/// that the options name. `subject` is the model's kernel, or its predictions as those of any function.
pub fn question_about_model(
    args: &GameArgs,
    (table, cells): (&TableArgs, CellArgs),
    (saved, subject): (&SavedModel, Subject),
    seed: u64,
    console: &Console,
) -> Result<(Question, Vec<CardEntry>)> {
    if !args.ignore.is_empty() {
        return Err(Failure::input(
            "--ignore names background columns that are no inputs of a program; a model reads only its own \
             columns: leave it out",
        ));
    }
    let columns = saved.model.columns();
    let settings = settings_with_graph(args, columns)?;
    let mut facts = given_settings(&settings);
    let rows = |_: &str| match source(args) {
        Some((_, path)) => {
            let policy = cells.for_model(&saved.model.support_points)?;
            let rows = ModelRows::new(table.source(path).open()?, columns, policy, columns.len())?
                .with_units_of(&saved.model);
            read_background(path, args, table, rows, (seed, console), &mut facts)
        }
        None => {
            facts.push(CardEntry::new("reference rows", saved.model.support_points.rows()));
            Ok(saved.model.support_points.clone().into())
        }
    };
    let settings = match subject {
        Subject::Model => settings,
        // A function returns probabilities itself if they are requested.
        _ => settings.excluding(&["probabilities"]),
    };
    let question = settings.question(subject, source(args).map(|(s, _)| s), seed, rows)?;
    let groups = args.groups.as_deref().map(|text| read_groups(text, columns)).transpose()?;
    let question = question.with_players(groups.or_else(|| saved.groups.clone()));
    if args.settings.value("game").is_none() {
        console.note(format!("game: {} ({})", question.game.name(), question.game.absent()));
    }
    Ok((question, facts))
}

/// The question about a program that the options describe, provenance entries of its rows, and the input
/// columns of the program: those of the background.
pub fn question_about_program(
    args: &GameArgs,
    table: &TableArgs,
    seed: u64,
    console: &Console,
) -> Result<(Question, Vec<CardEntry>, Vec<Column>)> {
    if args.robustness.is_some() {
        return Err(Failure::input(
            "--robustness needs a model with a kernel, and cannot be used with a program: leave it out",
        ));
    }
    if args.graph.is_some() {
        return Err(Failure::input(
            "--graph needs a model with a kernel, and cannot be used with a program: leave it out",
        ));
    }
    let mut facts = given_settings(&args.settings);
    let rows = |_: &str| {
        let (_, path) = source(args)
            .ok_or_else(|| Failure::input("a program needs background rows: give --background FILE"))?;
        if path.as_os_str() == "-" {
            return Err(Failure::input(
                "the background of a program cannot come from standard input: give a file",
            ));
        }
        let rows = table.source(path).open()?;
        let ignored = listed_columns(&args.ignore, rows.header());
        rows.column_indices(&ignored)?;
        let is_feature = |c: &&String| args.background_weights.as_ref() != Some(*c) && !ignored.contains(*c);
        let names: Vec<String> = rows.header().iter().filter(is_feature).cloned().collect();
        if names.is_empty() {
            return Err(Failure::input(format!(
                "{}: no column is left as an input of the program",
                rows.name
            )));
        }
        let columns = Columns::read(rows, &names)?.table(&names, &[], console)?.columns().to_vec();
        let policy = CellPolicy { missing: MissingCells::Refuse(""), unseen: UnseenLevels::Refuse("") };
        let rows = ModelRows::new(table.source(path).open()?, &columns, policy, columns.len())?;
        read_background(path, args, table, rows, (seed, console), &mut facts)
    };
    let question = args.settings.question(Subject::Program, source(args).map(|(s, _)| s), seed, rows)?;
    let columns = question.game.rows().map_or_else(Vec::new, |rows| rows.columns().to_vec());
    let groups = args.groups.as_deref().map(|text| read_groups(text, &columns)).transpose()?;
    Ok((question.with_players(groups), facts, columns))
}

/// The file of the values of absent features, and its kind.
fn source(args: &GameArgs) -> Option<(Source, &Path)> {
    let background = args.background.as_deref().map(|path| (Source::Background, path));
    background.or_else(|| Some((Source::Baseline, args.baseline.as_deref()?)))
}

/// Entries for the bound of `--robustness`, if requested: the perturbation of columns, and the largest change
/// of values.
pub fn robustness(
    args: &GameArgs,
    explainer: &Explainer<'_>,
    model: &KernelExpansion,
) -> Result<Vec<CardEntry>> {
    let Some(text) = args.robustness.as_deref() else { return Ok(Vec::new()) };
    let columns = model.columns();
    let number = |text: &str| match text.trim().parse::<f64>() {
        Ok(delta) if delta.is_finite() && delta >= 0.0 => Ok(delta),
        _ => Err(Failure::input(format!(
            "--robustness: '{text}' cannot be read: give a number of at least 0, or \
             column=number,column=number"
        ))),
    };
    let (delta, moves) = if text.contains('=') {
        let mut delta = vec![0.0; columns.len()];
        // A column's name may hold commas, but a number does not: an entry ends at a comma after its equals
        // sign.
        let parts = text.split(',').fold(Vec::<String>::new(), |mut parts, piece| {
            match parts.last_mut() {
                Some(open) if !open.contains('=') => *open = format!("{open},{piece}"),
                _ => parts.push(piece.into()),
            }
            parts
        });
        for part in &parts {
            let (name, perturbation) = part.rsplit_once('=').unwrap_or(("", part));
            let j = columns.iter().position(|c| c.name == name.trim()).ok_or_else(|| {
                Failure::input(format!(
                    "--robustness: there is no column '{}'; the columns are: {}",
                    name.trim(),
                    listed(columns.iter().map(|c| &c.name))
                ))
            })?;
            delta[j] = number(perturbation)?;
        }
        (delta, text.to_string())
    } else {
        let count = number(text)?;
        let deviations = ColumnScaling::standardised(&model.support_points).scale;
        (
            deviations.iter().map(|s| count * s).collect(),
            format!("{count} standard deviations of each column"),
        )
    };
    let bounds = explainer.robustness(&delta)?;
    let label = "no value moves by more than";
    let bound_entry = match bounds.as_slice() {
        [bound] => CardEntry::measured(label, *bound),
        several => {
            let outputs_and_bounds = model.output_names.iter().zip(several);
            let bound_texts: Vec<String> = outputs_and_bounds
                .map(|(name, bound)| format!("{} ({name})", CardEntry::measured("", *bound).value))
                .collect();
            CardEntry::new(label, bound_texts.join(", "))
        }
    };
    Ok(vec![CardEntry::new("robustness to", moves), bound_entry])
}

fn read_background(
    path: &Path,
    args: &GameArgs,
    table: &TableArgs,
    mut model_rows: ModelRows,
    (seed, console): (u64, &Console),
    facts: &mut Vec<CardEntry>,
) -> Result<Background> {
    let rows = model_rows.read_all()?;
    let weights = match &args.background_weights {
        None => None,
        Some(_) if path.as_os_str() == "-" => {
            return Err(Failure::input(
                "a background with weights cannot come from standard input: give a file",
            ));
        }
        Some(name) => {
            let column = [name.clone()];
            Some(Columns::read(table.source(path).open()?, &column)?.numbers(name)?)
        }
    };
    let mut background = Background { rows, weights };
    if let Some(count) = args.background_rows.map(std::num::NonZeroUsize::get) {
        facts.push(CardEntry::new("seed", seed));
        let selected = background.rows.sample_rows(count, seed);
        background.weights = background.weights.map(|w| selected.iter().map(|&i| w[i]).collect());
        background.rows = background.rows.select_rows(&selected);
    }
    let treated = model_rows.facts();
    treated.iter().for_each(|fact| console.note(format!("note: {}", fact.value)));
    facts.push(CardEntry::new("background", described(path)?));
    facts.push(CardEntry::new("background rows", background.rows.rows()));
    facts.extend(
        treated
            .into_iter()
            .map(|fact| CardEntry::new(format!("{} of the background", fact.name), fact.value)),
    );
    Ok(background)
}

/// Parses groups `name=col,col;name=col`, or reads them from a file with one `name=col,col` per line.
pub fn read_groups(text: &str, columns: &[Column]) -> Result<Players> {
    let content = if text.contains('=') {
        text.replace(';', "\n")
    } else {
        String::from_utf8(read_file(Path::new(text))?)
            .map_err(|_| Failure::input(format!("the groups file {text} is not UTF-8 text")))?
    };
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for line in content.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let Some((name, members)) = line.split_once('=') else {
            return Err(Failure::input(format!(
                "the group '{line}' cannot be read: write name=column,column, and separate groups by ';' or \
                 new lines"
            )));
        };
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        let mut members = listed_columns(&[members.to_string()], &names);
        members.retain(|name| !name.is_empty());
        groups.push((name.trim().to_string(), members));
    }
    Ok(Players::named(columns, &groups)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read() {
        let columns = ["a", "b", "c"].map(Column::numeric);
        assert_eq!(read_groups("g = a, c", &columns).unwrap().players().len(), 2);
        assert!(read_groups("g=a;h", &columns).is_err());
        assert!(read_groups("g=z", &columns).is_err());
    }
}
