//! `riesz prefer predict`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::format::model::SavedModel;
use riesz::preference::{Pair, Sides, wide_rows};
use riesz::{Posterior, Prediction, Table};

use crate::args::{CellArgs, Global, TableArgs};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::duels::{DuelArgs, ItemArgs, Items, Met};
use crate::io::models::read_model;
use crate::io::write::{Cells, TableWriter};

/// Arguments of `prefer predict`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer predict m.riesz players.csv --left Ann --right Bob
  riesz prefer predict m.riesz players.csv matches.csv -o odds.csv

The table has the columns left and right, log_odds that the left one wins with their standard deviation, the probability that it wins
(averaged over the posterior) with a 95 % interval of the probability, and superiority: how sure it is that it is the better one.")]
pub struct Args {
    /// Which duels.
    #[command(flatten)]
    pub asked: Asked,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// A model of duels, items and duels between them.
#[derive(Debug, Clone, clap::Args)]
pub struct Asked {
    /// Model file of 'riesz prefer fit'
    #[arg(value_hint = ValueHint::FilePath)]
    pub model: PathBuf,
    /// Table of items with the columns that the model knows
    #[arg(value_hint = ValueHint::FilePath)]
    pub items: PathBuf,
    /// Table of duels between the items' names; without outcomes, too
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "left")]
    pub duels: Option<PathBuf>,
    /// One duel: the left item's name
    #[arg(long, value_name = "ITEM", requires = "right", conflicts_with = "duels")]
    pub left: Option<String>,
    /// The right item's name
    #[arg(long, value_name = "ITEM", requires = "left")]
    pub right: Option<String>,
    /// How items are read.
    #[command(flatten)]
    pub of_items: ItemArgs,
    /// How duels are read.
    #[command(flatten)]
    pub of_duels: DuelArgs,
    /// How to read the tables.
    #[command(flatten)]
    pub table: TableArgs,
    /// What becomes of cells that the model cannot take.
    #[command(flatten)]
    pub cells: CellArgs,
}

impl Asked {
    /// The model, the items in its columns, and the pairs that are asked about.
    pub fn read(&self) -> Result<(SavedModel, Items, Vec<Pair>)> {
        let saved = self.cells.admit(read_model(&self.model, &[])?)?;
        let about = |e| Failure::from(e).about(&self.model.display().to_string());
        let sides = Sides::of(saved.model.columns()).map_err(about)?;
        let known = item_points(&saved, &sides)?;
        let items = Items::for_model(&self.items, (&self.of_items, &self.table, self.cells), &known)?;
        let pairs = match (&self.left, &self.right, &self.duels) {
            (Some(left), Some(right), _) => vec![(items.place(left)?, items.place(right)?)],
            (_, _, Some(path)) => {
                let met = Met::read(self.table.source(path).open()?, &items, &self.of_duels, false)?;
                met.left.into_iter().zip(met.right).collect()
            }
            _ => return Err(Failure::input("say which duels: a table, or --left ITEM --right ITEM")),
        };
        Ok((saved, items, pairs))
    }
}

/// The left items of a model's support points, by which cells are typed.
fn item_points(saved: &SavedModel, sides: &Sides) -> Result<Table> {
    let points = &saved.model.points;
    let values = sides.left.iter().flat_map(|&j| points.column(j)).copied().collect();
    Ok(Table::from_column_major(sides.items(points.columns()), points.rows(), values)?)
}

/// What is known of duels.
pub struct Odds {
    /// The mean log odds.
    pub mean: Vec<f64>,
    /// Their standard deviation; none without a posterior.
    pub sd: Option<Vec<f64>>,
    /// That the left item wins, averaged over the posterior.
    pub probability: Option<Vec<f64>>,
}

impl Odds {
    /// Of wide rows.
    pub fn of(saved: &SavedModel, rows: &Table) -> Result<Self> {
        let found = Prediction::of(&saved.model, saved.covariance.as_ref(), rows)?;
        let posterior = saved.covariance.as_ref().map(|own| Posterior::new(&saved.model, own)).transpose()?;
        let sd = posterior.map(|own| own.sd(rows)).transpose()?;
        let column = |m: &riesz::Matrix, k: usize| (0..rows.rows()).map(|i| m[(i, k)]).collect();
        Ok(Self {
            mean: column(&found.outputs, 0),
            sd: sd.map(|sd| column(&sd, 0)),
            probability: found.probabilities.map(|p| column(&p, 1)),
        })
    }

    /// The 95 % interval of the probability of duel i.
    pub fn interval(&self, i: usize) -> Option<[f64; 2]> {
        let sd = self.sd.as_ref()?[i];
        Some([-1.96, 1.96].map(|z| logistic(self.mean[i] + z * sd)))
    }

    /// How sure it is that the left item is the better one.
    pub fn superiority(&self, i: usize) -> Option<f64> {
        Some(riesz::preference::superiority(self.mean[i], self.sd.as_ref()?[i]))
    }
}

fn logistic(g: f64) -> f64 {
    1.0 / (1.0 + (-g).exp())
}

/// Reads, predicts and writes.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    let (saved, items, pairs) = args.asked.read()?;
    let odds = Odds::of(&saved, &wide_rows(&items.table, &pairs)?)?;
    if odds.sd.is_none() {
        console.note(format!(
            "note: {} holds no posterior, which probabilities need, so these are the mean log odds alone",
            args.asked.model.display()
        ));
    }
    let id = |side: fn(&Pair) -> usize| pairs.iter().map(|p| items.ids[side(p)].clone()).collect();
    let mut names = vec!["left", "right", "log_odds"];
    let mut cells =
        vec![Cells::Texts(id(|p| p.0)), Cells::Texts(id(|p| p.1)), Cells::Numbers(odds.mean.clone())];
    if let (Some(sd), Some(probability)) = (&odds.sd, &odds.probability) {
        names.extend(["log_odds_std", "probability", "probability_low", "probability_high", "superiority"]);
        let each = |of: &dyn Fn(usize) -> Option<f64>| {
            Cells::Numbers((0..pairs.len()).map(|i| of(i).unwrap_or(f64::NAN)).collect())
        };
        cells.extend([
            Cells::Numbers(sd.clone()),
            Cells::Numbers(probability.clone()),
            each(&|i| odds.interval(i).map(|own| own[0])),
            each(&|i| odds.interval(i).map(|own| own[1])),
            each(&|i| odds.superiority(i)),
        ]);
    }
    let names = names.into_iter().map(String::from).collect();
    let mut table = TableWriter::open(args.output.as_deref(), format, names, cells.clone())?;
    table.rows(cells)?;
    table.finish()
}
