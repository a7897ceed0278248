//! `riesz fit`.

use riesz::explanation::Fact;
use riesz::fit::KernelRidge;
use riesz::format::model::{SavedModel, to_bytes};
use riesz::kernel::{KernelExpression, Units};
use riesz::{ColumnKind, Expansion, Kernel, Matrix, Table};

use crate::args::{FitArgs, Global, ModelKind};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::games::read_groups;
use crate::inspect::aligned;
use crate::io::output::Output;
use crate::io::typing::Columns;

/// What every kind of model is fitted from.
struct Problem<'a> {
    args: &'a FitArgs,
    columns: &'a Columns,
    x: &'a Table,
    kernel: Kernel,
    weights: Option<Vec<f64>>,
    console: Console,
}

/// Reads, fits and writes.
pub fn run(args: Box<FitArgs>, global: &Global, console: Console) -> Result<()> {
    let as_json = global.json_words()?;
    let Some(path) = args.output.as_deref() else {
        return Err(Failure::input("say where to write the model: -o FILE"));
    };
    let rows = args.table.source(&args.data).open()?;
    let name = rows.name.clone();
    let header = rows.header().to_vec();
    for column in args.target.iter().chain(&args.ignore).chain(&args.categorical).chain(&args.sample_weight) {
        rows.index_of(column)?;
    }
    let left_out = |c: &&String| {
        !args.target.contains(c) && !args.ignore.contains(c) && args.sample_weight.as_ref() != Some(c)
    };
    let features: Vec<String> = header.iter().filter(left_out).cloned().collect();
    if features.is_empty() {
        return Err(Failure::input(format!("{name}: no column is left to predict from")));
    }
    let wanted: Vec<String> =
        features.iter().chain(&args.target).chain(&args.sample_weight).cloned().collect();
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
    let problem = Problem { args: &args, columns: &columns, x: &x, kernel, weights, console };
    // Opened before the work, so that a place that cannot be written to is found out first.
    let mut output = Output::open(Some(path))?;
    let progress = console.progress(&format!("fitting {} rows", x.rows()));
    let mut model = match args.model {
        ModelKind::Krr => problem.ridge()?,
    };
    drop(progress);
    model.card.push(Fact::new("data", &name));
    model.card.push(Fact::new("rows", x.rows()));
    model.card.push(Fact::new("standardised", if args.no_standardise { "no" } else { "yes" }));
    model.card.push(Fact::new("kernel expression", &args.kernel));
    model.card.push(Fact::new("riesz", env!("CARGO_PKG_VERSION")));
    model.card.extend(problem.score(&model)?);
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

impl Problem<'_> {
    /// The targets as numbers, rows × targets.
    fn targets(&self) -> Result<Matrix> {
        let mut all = Vec::with_capacity(self.args.target.len());
        for name in &self.args.target {
            all.push(self.columns.numbers(name)?);
        }
        let (n, m) = (self.x.rows(), all.len());
        let values = (0..n * m).map(|k| all[k % m][k / m]).collect();
        Ok(Matrix::from_row_major(n, m, values))
    }

    fn ridge(&self) -> Result<Expansion> {
        let y = self.targets()?;
        let mut estimator = KernelRidge::new(self.kernel.clone(), 1.0);
        estimator.sample_weight = self.weights.clone();
        estimator.ridge = match self.args.ridge.as_str() {
            "auto" if self.weights.is_some() => {
                return Err(Failure::input(
                    "--ridge auto takes no --sample-weight: give the ridge as a number",
                ));
            }
            "auto" => {
                let ridges: Vec<f64> = (-24..=12).map(|k| 10f64.powf(f64::from(k) / 4.0)).collect();
                let errors = estimator.loo_path(self.x, &y, &ridges)?;
                let best = (0..ridges.len()).min_by(|a, b| errors[*a].total_cmp(&errors[*b])).unwrap_or(0);
                if best == 0 || best + 1 == ridges.len() {
                    self.console
                        .warn(format!("the best ridge, {}, is at the end of the range tried", ridges[best]));
                }
                ridges[best]
            }
            number => positive("--ridge", number)?,
        };
        let mut model = estimator.fit(self.x, &y)?.model;
        model.output_names.clone_from(&self.args.target);
        Ok(model)
    }

    /// How well the model does on the rows it was fitted on.
    fn score(&self, model: &Expansion) -> Result<Option<Fact>> {
        let outputs = model.predict(self.x)?;
        let n = self.x.rows();
        if model.classes.is_empty() {
            return Ok(None);
        }
        let (levels, codes) = self.columns.levels(&self.args.target[0])?;
        let right = (0..n).filter(|&i| {
            let class = model.class_of(outputs.row(i)).and_then(|k| model.classes.get(k));
            class == levels.get(codes[i] as usize)
        });
        Ok(Some(Fact::new("training accuracy", format!("{:.4}", right.count() as f64 / n as f64))))
    }
}

fn positive(option: &str, text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(v) if v.is_finite() && v > 0.0 => Ok(v),
        _ => Err(Failure::input(format!("{option} {text} is not a positive number"))),
    }
}
