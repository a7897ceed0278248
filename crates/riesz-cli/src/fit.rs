//! `riesz fit`.

use riesz::explanation::Fact;
use riesz::format::model::{SavedModel, to_bytes};
use riesz::kernel::{KernelExpression, Units};
use riesz::{ColumnKind, Error, Expansion, Explainer, Game, Question, Table};

use crate::args::{FitArgs, Global};
use crate::console::Console;
use crate::estimators::Problem;
use crate::failure::{Failure, Result};
use crate::games::read_groups;
use crate::inspect::aligned;
use crate::io::output::Output;
use crate::io::typing::Columns;

/// Reads, fits and writes.
pub fn run(args: Box<FitArgs>, global: &Global, console: Console) -> Result<()> {
    let as_json = global.json_words()?;
    let Some(path) = args.output.as_deref() else {
        return Err(Failure::input("say where to write the model: -o FILE"));
    };
    args.check()?;
    let rows = args.table.source(&args.data).open()?;
    let name = rows.name.clone();
    let header = rows.header().to_vec();
    rows.places(
        args.target
            .iter()
            .chain(&args.ignore)
            .chain(&args.categorical)
            .chain(&args.sample_weight)
            .chain(&args.row_noise),
    )?;
    let left_out = |c: &&String| {
        !args.target.contains(c)
            && !args.ignore.contains(c)
            && args.sample_weight.as_ref() != Some(c)
            && args.row_noise.as_ref() != Some(c)
    };
    let features: Vec<String> = header.iter().filter(left_out).cloned().collect();
    if features.is_empty() {
        return Err(Failure::input(format!("{name}: no column is left to predict from")));
    }
    let wanted: Vec<String> = features
        .iter()
        .chain(&args.target)
        .chain(&args.sample_weight)
        .chain(&args.row_noise)
        .cloned()
        .collect();
    let expression = KernelExpression::parse(&args.kernel)?;
    let columns = Columns::read(rows, &wanted)?;
    let x = columns.table(&features, &args.categorical, &console)?;
    for column in x.columns() {
        if let ColumnKind::Categorical { levels } = &column.kind {
            console.note(format!("categorical column '{}': {} levels", column.name, levels.len()));
        }
    }
    let units = if args.no_standardise { Units::raw(x.width()) } else { Units::standardised(&x) };
    let kernel = expression.resolve(&x, &units)?;
    let groups = args.groups.as_deref().map(|g| read_groups(g, x.columns())).transpose()?;
    let weights = args.sample_weight.as_deref().map(|c| columns.numbers(c)).transpose()?;
    let problem = Problem {
        args: &args,
        columns: &columns,
        x: &x,
        kernel,
        weights,
        groups: groups.clone(),
        seed: global.seed,
        console,
    };
    // Opened before the work, so that a place that cannot be written to is found out first.
    let mut output = Output::open(Some(path))?;
    let progress = console.progress(&format!("fitting {} rows", x.rows()));
    let mut model = problem.fit()?;
    drop(progress);
    // Better known now than when the model is to be explained.
    if let Err(error @ Error::NotProduct { .. }) =
        Explainer::new(&model, Question::from(Game::Functional).with_players(groups.clone()))
    {
        console.note(format!(
            "note: explanations of this model will have {error}; the observational game takes any kernel"
        ));
    }
    model.card.push(Fact::new("data", &name));
    model.card.push(Fact::new("rows", x.rows()));
    model.card.push(Fact::new("standardised", if args.no_standardise { "no" } else { "yes" }));
    model.card.push(Fact::new("kernel expression", &args.kernel));
    model.card.push(Fact::new("riesz", env!("CARGO_PKG_VERSION")));
    model.card.extend(score(&model, &x, &columns, &args.target[0])?);
    let mut summary = model.card.clone();
    summary.push(Fact::new("columns", x.width()));
    summary.push(Fact::new("kernel", model.kernel.formula()));
    summary.push(Fact::new("support points", model.points.rows()));
    let bytes = to_bytes(&SavedModel { model, groups })?;
    let trouble = output.trouble();
    std::io::Write::write_all(&mut output, &bytes).map_err(|e| trouble.or(e))?;
    output.finish()?;
    if as_json {
        let record = serde_json::to_string_pretty(&summary).map_err(|e| Failure::input(e.to_string()))?;
        return crate::io::output::write_all(None, format!("{record}\n").as_bytes());
    }
    console.note(aligned(&summary));
    Ok(())
}

/// How well the model does on the rows it was fitted on.
fn score(model: &Expansion, x: &Table, columns: &Columns, target: &str) -> Result<Option<Fact>> {
    if model.classes.is_empty() {
        return Ok(None);
    }
    let outputs = model.predict(x)?;
    let n = x.rows();
    let (levels, codes) = columns.levels(target)?;
    let right = (0..n).filter(|&i| {
        let class = model.class_of(outputs.row(i)).and_then(|k| model.classes.get(k));
        class == levels.get(codes[i] as usize)
    });
    Ok(Some(Fact::new("training accuracy", format!("{:.4}", right.count() as f64 / n as f64))))
}
