//! `riesz prefer fit`.

use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};
use riesz::error::listed;
use riesz::explanation::Fact;
use riesz::format::model::{SavedModel, to_bytes};
use riesz::kernel::{KernelExpression, Units};
use riesz::preference::{Duels, PreferenceProcess, Sides};
use riesz::{Groups, Table};

use crate::args::{Global, TableArgs};
use crate::console::{Console, aligned, watched};
use crate::failure::{Failure, Result};
use crate::io::duels::{DuelArgs, ItemArgs, Items, Met, read_wide};
use crate::io::output::Output;

/// Arguments of `prefer fit`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer fit players.csv matches.csv --id name -o m.riesz
  riesz prefer fit phones.csv votes.csv --sides first,second --outcome choice -o m.riesz
  riesz prefer fit wide.csv --outcome won -o m.riesz          columns left_price, right_price, …, won")]
pub struct Args {
    /// How tables and the model are read and made.
    #[command(flatten)]
    pub learn: Learn,
    /// Leave the posterior out of the file, which then says no probabilities; it takes 4 n² bytes for n pairs that met
    #[arg(long)]
    pub no_posterior: bool,
    /// Model file to write
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// What `fit` and `evaluate` read, and the model that they fit.
#[derive(Debug, Clone, clap::Args)]
pub struct Learn {
    /// Table of items, one a row, CSV or Parquet; or without a table of duels one whose rows have the columns of both items
    #[arg(value_hint = ValueHint::FilePath)]
    pub items: PathBuf,
    /// Table of duels between the items' names
    #[arg(value_hint = ValueHint::FilePath)]
    pub duels: Option<PathBuf>,
    /// What the log odds may be: a difference of utilities, with which there is a ranking; any function that changes its sign with the sides, cycles
    /// included; or their sum, of which the data say how much there is of each
    #[arg(long, value_name = "MODEL", value_enum, default_value_t)]
    pub model: Model,
    /// Kernel between items, an expression; 'riesz fit --help' says which there are
    #[arg(long, value_name = "EXPR", default_value = "rbf(ard)")]
    pub kernel: String,
    /// Take columns as they are instead of standardising them, once an item
    #[arg(long, visible_alias = "no-standardize")]
    pub no_standardise: bool,
    /// Keep the kernel as it is written instead of tuning it
    #[arg(long)]
    pub no_tuning: bool,
    /// Further starts of the tuning, from random places
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub restarts: usize,
    /// How items are read.
    #[command(flatten)]
    pub of_items: ItemArgs,
    /// How duels are read.
    #[command(flatten)]
    pub of_duels: DuelArgs,
    /// How to read the tables.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Kinds of models of duels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Model {
    /// Both.
    #[default]
    Nested,
    /// A ranking.
    Utility,
    /// The generalised preferential Gaussian process.
    Generalised,
}

impl Learn {
    /// Items and duels.
    pub fn read(&self, console: &Console) -> Result<(Items, Met)> {
        let Some(path) = &self.duels else {
            return read_wide(&self.items, (&self.of_items, &self.of_duels, &self.table), console);
        };
        let items = Items::read(&self.items, &self.of_items, &self.table, console)?;
        let met = Met::read(self.table.source(path).open()?, &items, &self.of_duels, true)?;
        Ok((items, met))
    }

    /// The model before it is fitted, for these items.
    pub fn process(&self, items: &Table, seed: u64) -> Result<PreferenceProcess> {
        let units = if self.no_standardise { Units::raw(items.width()) } else { Units::standardised(items) };
        let kernel = KernelExpression::parse(&self.kernel)?.resolve(items, &units)?;
        let mut process = PreferenceProcess::new(kernel);
        match self.model {
            Model::Nested => {}
            Model::Utility => process.prior.generalised = 0.0,
            Model::Generalised => process.prior.utility = 0.0,
        }
        (process.tune, process.restarts, process.seed) = (!self.no_tuning, self.restarts, seed);
        Ok(process)
    }
}

/// The duels as the library has them.
pub fn duels(items: &Items, met: &Met) -> Result<Duels> {
    let outcome = met.outcome.as_deref().ok_or_else(|| Failure::input("duels have no outcome"))?;
    Ok(Duels::new(items.table.rows(), &met.left, &met.right, outcome, met.weight.as_deref())?)
}

/// What can be seen of duels before anything is fitted: who met whom.
pub fn described(items: &Items, duels: &Duels, console: &Console) {
    let (mut won, mut lost) = (vec![false; duels.items()], vec![false; duels.items()]);
    for (&(l, r), &share) in duels.pairs().iter().zip(duels.outcome()) {
        (won[l], lost[r]) = (won[l] || share > 0.0, lost[r] || share > 0.0);
        (won[r], lost[l]) = (won[r] || share < 1.0, lost[l] || share < 1.0);
    }
    let count = |of: &dyn Fn(usize) -> bool| (0..duels.items()).filter(|&i| of(i)).count();
    let components = duels.components();
    let parts = match &components[..] {
        [_] => "one connected component".to_string(),
        all => format!(
            "{} components of {} items between which properties alone tell who is better",
            all.len(),
            listed(all.iter().take(5).map(|own| own.len().to_string()))
        ),
    };
    console.note(format!(
        "{} duels ({} pairs met), {} items, {parts}; {} items never lost, {} never won",
        duels.count(),
        duels.pairs().len(),
        duels.items(),
        count(&|i| won[i] && !lost[i]),
        count(&|i| lost[i] && !won[i]),
    ));
    let absent: Vec<&String> =
        (0..duels.items()).filter(|&i| !won[i] && !lost[i]).map(|i| &items.ids[i]).collect();
    if !absent.is_empty() {
        console.note(format!(
            "note: {} items met nobody ({}); what they are worth is told by their properties",
            absent.len(),
            listed(absent.iter().take(5))
        ));
    }
    if components.len() > 1 {
        console.warn("the duels fall into components: a comparison across them rests on properties alone");
    }
}

/// Reads, fits and writes.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let as_json = global.json_words()?;
    let Some(path) = args.output.as_deref() else {
        return Err(Failure::input("say where to write the model: -o FILE"));
    };
    let (items, met) = args.learn.read(&console)?;
    let duels = duels(&items, &met)?;
    described(&items, &duels, &console);
    let process = args.learn.process(&items.table, global.seed)?;
    let mut output = Output::open(Some(path))?;
    let (message, done) = (format!("fitting {} pairs", duels.pairs().len()), process.progress.clone());
    let fit = watched(&console, &message, &done, || process.fit(&items.table, &duels))?;
    fit.warnings.iter().for_each(|warning| console.warn(warning));
    let mut model = fit.model;
    model.card.push(Fact::new("data", &items.name));
    model.card.push(Fact::new("items", items.table.rows()));
    model.card.push(Fact::new("standardised", if args.learn.no_standardise { "no" } else { "yes" }));
    model.card.push(Fact::new("kernel expression", &args.learn.kernel));
    model.card.push(Fact::new("riesz", env!("CARGO_PKG_VERSION")));
    let sides = Sides::of(model.columns())?;
    let both =
        |c: &riesz::Column| (c.name.clone(), vec![format!("left_{}", c.name), format!("right_{}", c.name)]);
    let players: Vec<(String, Vec<String>)> = sides.items(model.columns()).iter().map(both).collect();
    let groups = Some(Groups::named(model.columns(), &players)?);
    let mut summary = model.card.clone();
    summary.push(Fact::new("kernel of items", fit.prior.items.formula()));
    let covariance = Some(fit.covariance).filter(|_| !args.no_posterior);
    let bytes = to_bytes(&SavedModel { model, covariance, groups })?;
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
