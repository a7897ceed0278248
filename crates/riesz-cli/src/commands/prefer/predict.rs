//! `riesz prefer predict`.

use std::path::PathBuf;

use clap::ValueHint;
use riesz::format::model::SavedModel;
use riesz::preference::{HOME, Home, Pair, Sides, wide_rows_in};
use riesz::table::level_of_text;
use riesz::{Column, ColumnKind, Expansion, Posterior, Prediction, Table};

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
  riesz prefer predict m.riesz players.csv --left Ann                  against everybody
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
    /// One duel: the left item's name; without --right its duels with all others
    #[arg(long, value_name = "ITEM", conflicts_with = "duels")]
    pub left: Option<String>,
    /// The right item's name
    #[arg(long, value_name = "ITEM", requires = "left")]
    pub right: Option<String>,
    /// One duel, or one item's: who is at home, left, right or none
    #[arg(long, value_name = "SIDE", requires = "left")]
    pub at_home: Option<String>,
    /// One duel, or one item's: its context, column=value,column=value
    #[arg(long, value_name = "CONTEXT", requires = "left")]
    pub context: Option<String>,
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
    /// The model, the items in its columns, the pairs that are asked about, and these as wide rows.
    pub fn read(&self, console: &Console) -> Result<(SavedModel, Items, Vec<Pair>, Table)> {
        let saved = self.cells.admit(read_model(&self.model, &[])?)?;
        let about = |e| Failure::from(e).about(&self.model.display().to_string());
        let sides = Sides::of(saved.model.columns()).map_err(about)?;
        let known = item_points(&saved, &sides)?;
        let items = Items::for_model(&self.items, (&self.of_items, &self.table, self.cells), &known)?;
        let around: Vec<Column> = sides.contexts.iter().map(|&j| saved.model.columns()[j].clone()).collect();
        let met = match (&self.left, &self.right, &self.duels) {
            (Some(left), right, _) => {
                let left = items.place(left)?;
                let others = match right {
                    Some(right) => vec![items.place(right)?],
                    None => (0..items.ids.len()).filter(|other| *other != left).collect(),
                };
                self.named(left, others, &around)?
            }
            (None, _, Some(path)) => {
                Met::read(self.table.source(path).open()?, &items, &self.of_duels, Some(&around), console)?
            }
            _ => return Err(Failure::input("say which duels: a table, or --left ITEM --right ITEM")),
        };
        if met.left.is_empty() {
            return Err(Failure::input(format!("{}: there is nobody else to meet", items.name)));
        }
        let pairs: Vec<Pair> = met.left.iter().copied().zip(met.right.iter().copied()).collect();
        let rows = rows_in(&saved.model, &items.table, &pairs, &met)?;
        Ok((saved, items, pairs, rows))
    }

    /// Duels of an item with others, all in the same circumstances.
    fn named(&self, left: usize, right: Vec<usize>, around: &[Column]) -> Result<Met> {
        let count = right.len();
        let home = match self.at_home.as_deref() {
            None | Some("none") => Home::Nobody,
            Some("left") => Home::Left,
            Some("right") => Home::Right,
            Some(other) => {
                return Err(Failure::input(format!("--at-home {other}: left, right or none")));
            }
        };
        let given: Vec<(&str, &str)> = self
            .context
            .iter()
            .flat_map(|text| text.split(','))
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        let mut values = Vec::new();
        for column in around {
            let Some((_, value)) = given.iter().find(|(name, _)| *name == column.name) else {
                return Err(Failure::input(format!(
                    "the model was fitted to duels in contexts: say --context {}=…",
                    column.name
                )));
            };
            let cell = match &column.kind {
                ColumnKind::Numeric => value.parse().ok().filter(|v: &f64| v.is_finite()),
                ColumnKind::Categorical { levels } => level_of_text(levels, value).map(|code| code as f64),
            };
            let cell = cell.ok_or_else(|| {
                Failure::input(format!("--context {}={value}: the model knows no such value", column.name))
            })?;
            values.extend(std::iter::repeat_n(cell, count));
        }
        if let Some((name, _)) = given.iter().find(|(name, _)| around.iter().all(|c| c.name != *name)) {
            return Err(Failure::input(format!("--context {name}: the model was fitted without it")));
        }
        let contexts = (!around.is_empty()).then(|| Table::from_column_major(around.to_vec(), count, values));
        Ok(Met {
            left: vec![left; count],
            right,
            outcome: None,
            weight: None,
            home: self.at_home.is_some().then(|| vec![home; count]),
            contexts: contexts.transpose()?,
        })
    }
}

/// Items as a model's columns have them: at nobody's home, if it knows of one.
pub fn at_nobodys(model: &Expansion, items: &Table) -> Result<Table> {
    let known = Sides::of(model.columns())?.items(model.columns());
    if known.iter().all(|c| c.name != HOME) || items.index_of(HOME).is_ok() {
        return Ok(items.clone());
    }
    let columns = items.columns().iter().cloned().chain([Column::numeric(HOME)]).collect();
    let values = items.column_major().iter().copied().chain(std::iter::repeat_n(0.0, items.rows())).collect();
    Ok(Table::from_column_major(columns, items.rows(), values)?)
}

/// Duels between rows of the items' columns as wide rows of a model that may know of homes and contexts.
pub fn rows_in(model: &Expansion, items: &Table, pairs: &[Pair], met: &Met) -> Result<Table> {
    let known = Sides::of(model.columns())?.items(model.columns());
    let has_home = known.iter().any(|c| c.name == HOME) && items.index_of(HOME).is_err();
    if !has_home {
        if met.home.is_some() {
            return Err(Failure::input("the model was fitted without --home: leave it out"));
        }
        return Ok(wide_rows_in(items, pairs, met.contexts.as_ref())?);
    }
    // Every item twice: away, and at home.
    let n = items.rows();
    let mut columns = items.columns().to_vec();
    columns.push(Column::numeric(HOME));
    let twice = (0..items.width()).flat_map(|j| [items.column(j), items.column(j)].concat());
    let values = twice.chain((0..2 * n).map(|i| f64::from(u8::from(i >= n)))).collect();
    let both = Table::from_column_major(columns, 2 * n, values)?;
    let at = |i: usize, side: Home| usize::from(met.home.as_ref().is_some_and(|home| home[i] == side));
    let sided = |(i, &(l, r)): (usize, &Pair)| (l + n * at(i, Home::Left), r + n * at(i, Home::Right));
    let pairs: Vec<Pair> = pairs.iter().enumerate().map(sided).collect();
    Ok(wide_rows_in(&both, &pairs, met.contexts.as_ref())?)
}

/// The left items of a model's support points, by which cells are typed; whether they are at home is no column of theirs.
fn item_points(saved: &SavedModel, sides: &Sides) -> Result<Table> {
    let points = &saved.model.points;
    let own = sides.left.iter().zip(sides.items(points.columns()));
    let (places, columns): (Vec<&usize>, Vec<Column>) = own.filter(|(_, c)| c.name != HOME).unzip();
    let values = places.iter().flat_map(|j| points.column(**j)).copied().collect();
    Ok(Table::from_column_major(columns, points.rows(), values)?)
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
        // Of two alike nothing is unknown, and rounding means nothing.
        let sides = Sides::of(saved.model.columns())?;
        let alike =
            |i: usize| sides.left.iter().zip(&sides.right).all(|(l, r)| rows.get(i, *l) == rows.get(i, *r));
        let settled = |mut all: Vec<f64>, value: f64| -> Vec<f64> {
            (0..all.len()).filter(|&i| alike(i)).for_each(|i| all[i] = value);
            all
        };
        Ok(Self {
            mean: settled(column(&found.outputs, 0), 0.0),
            sd: sd.map(|sd| settled(column(&sd, 0), 0.0)),
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
    let (saved, items, pairs, rows) = args.asked.read(&console)?;
    let odds = Odds::of(&saved, &rows)?;
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
