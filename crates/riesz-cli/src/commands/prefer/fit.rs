//! `riesz prefer fit`.

use std::path::PathBuf;

use clap::{ValueEnum, ValueHint};
use riesz::error::listed;
use riesz::explanation::Fact;
use riesz::format::model::SavedModel;
use riesz::kernel::{KernelExpression, Units};
use riesz::preference::{
    AbilityRidge, BradleyTerry, ContextKernel, Duels, LandmarkProcess, PreferenceProcess, Sides, entrants,
};
use riesz::{Covariance, Expansion, Groups, Table};

use crate::args::{Global, TableArgs};
use crate::commands::fit::written;
use crate::console::{Console, watched};
use crate::failure::{Failure, Result};
use crate::io::duels::{DuelArgs, ItemArgs, Items, Met, read_wide};
use crate::io::output::Output;

/// Arguments of `prefer fit`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz prefer fit players.csv matches.csv --id name -o m.riesz
  riesz prefer fit phones.csv votes.csv --sides first,second --outcome choice -o m.riesz
  riesz prefer fit wide.csv --outcome won -o m.riesz          columns left_price, right_price, …, won
  riesz prefer fit players.csv matches.csv --home venue --contexts surface,season -o m.riesz
  riesz prefer fit phones.csv many_votes.csv --contexts season --landmarks 100 -o m.riesz

Abilities of items besides their columns, bags of items and new users are Python's: riesz.PreferenceClassifier.")]
pub struct Args {
    /// How tables and the model are read and made.
    #[command(flatten)]
    pub learn: Learn,
    /// What the log odds may be: a difference of utilities, with which there is a ranking; any function that changes its sign with the sides, cycles
    /// included; or their sum, of which the data say how much there is of each
    #[arg(long, value_name = "MODEL", value_enum, default_value_t)]
    pub model: Model,
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
    /// Kernel between items, an expression; 'riesz fit --help' says which there are
    #[arg(long, value_name = "EXPR", default_value = "rbf(ard)")]
    pub kernel: String,
    /// Take columns as they are instead of standardising them, once an item
    #[arg(long, visible_alias = "no-standardize")]
    pub no_standardise: bool,
    /// Keep the kernel as it is written instead of tuning it
    #[arg(long)]
    pub no_tuning: bool,
    /// What a tie is: half a win for either, or an outcome of its own, with a margin that is tuned (Rao and Kupper)
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub ties: Ties,
    /// Know items through so many of them, for many thousand duels; 'all' approximates nothing, and 'none' takes a matrix between all pairs that met instead. Then the
    /// file holds no posterior [default: 250 where more than 2,000 pairs met]
    #[arg(long, value_name = "M|all|none")]
    pub landmarks: Option<Landmarks>,
    /// With landmarks know contexts through so many of the different ones
    #[arg(long, value_name = "M", default_value_t = 32)]
    pub context_landmarks: usize,
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
    /// Weighted sums of the items' columns.
    Linear,
}

/// Through how many landmarks items are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landmarks {
    /// So many, or all items if there are no more.
    Most(usize),
    /// None: a matrix between the pairs that met.
    Never,
}

impl std::str::FromStr for Landmarks {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "all" => Ok(Self::Most(usize::MAX)),
            "none" => Ok(Self::Never),
            _ => text.parse().map(Self::Most).map_err(|_| "a number, 'all' or 'none'".into()),
        }
    }
}

/// More pairs that met are taken through landmarks, by default so many.
const DENSE: usize = 2000;
const LANDMARKS: usize = 250;

/// What a tie is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Ties {
    /// Half a win for either.
    #[default]
    Half,
    /// An outcome of its own.
    Model,
}

/// Items as they were in duels, the duels, and a model that knows how they met.
pub struct Arranged {
    /// The items, twice where they were at home and away.
    pub items: Table,
    /// The duels.
    pub duels: Duels,
    /// The model before it is fitted.
    pub process: PreferenceProcess,
}

/// A fitted model of duels.
pub struct Fitted {
    /// Over wide rows.
    pub model: Expansion,
    /// How sure it is.
    pub covariance: Option<Covariance>,
    /// What to look at.
    pub warnings: Vec<String>,
}

impl Learn {
    /// Items and duels.
    pub fn read(&self, console: &Console) -> Result<(Items, Met)> {
        let Some(path) = &self.duels else {
            return read_wide(&self.items, (&self.of_items, &self.of_duels, &self.table), console);
        };
        let items = Items::read(&self.items, &self.of_items, &self.table, console)?;
        let met = Met::read(self.table.source(path).open()?, &items, &self.of_duels, None, console)?;
        Ok((items, met))
    }

    /// The model before it is fitted, for these items.
    pub fn process(&self, model: Model, items: &Table, seed: u64) -> Result<PreferenceProcess> {
        let units = if self.no_standardise { Units::raw(items.width()) } else { Units::standardised(items) };
        let kernel = KernelExpression::parse(&self.kernel)?.resolve(items, &units)?;
        let mut process = PreferenceProcess::new(kernel);
        match model {
            Model::Nested | Model::Linear => {}
            Model::Utility => process.prior.generalised = 0.0,
            Model::Generalised => process.prior.utility = 0.0,
        }
        (process.tune, process.restarts, process.seed) = (!self.no_tuning, self.restarts, seed);
        Ok(process)
    }
}

impl Learn {
    /// Items and duels ready to be learnt from.
    pub fn arranged(&self, model: Model, items: &Items, met: &Met, seed: u64) -> Result<Arranged> {
        let mut process = self.process(model, &items.table, seed)?;
        let outcome = met.outcome.as_deref().ok_or_else(|| Failure::input("duels have no outcome"))?;
        let own = entrants(&items.table, (&met.left, &met.right), outcome, met.home.as_deref(), None)?;
        process.prior.alone = own.alone;
        let (count, weight) = (own.table.rows(), met.weight.as_deref());
        let duels = match &met.contexts {
            None => Duels::new(count, &own.left, &own.right, outcome, weight)?,
            Some(contexts) => {
                let kernel =
                    KernelExpression::parse("rbf(ard)")?.resolve(contexts, &Units::standardised(contexts))?;
                process.prior.contexts = Some(ContextKernel { kernel, shared: 0.5 });
                Duels::in_contexts(count, &own.left, &own.right, outcome, weight, contexts)?
            }
        };
        process.margin = (self.ties == Ties::Model).then(|| duels.margin());
        Ok(Arranged { items: own.table, duels, process })
    }

    /// Through how many landmarks, if any.
    pub fn most_landmarks(&self, duels: &Duels) -> Option<usize> {
        match self.landmarks {
            Some(Landmarks::Most(most)) => Some(most),
            Some(Landmarks::Never) => None,
            None => (duels.pairs().len() > DENSE).then_some(LANDMARKS),
        }
    }

    /// Fits a model.
    pub fn fit(&self, model: Model, Arranged { items, duels, process }: Arranged) -> Result<Fitted> {
        if model == Model::Linear {
            if process.prior.alone.is_some() || process.prior.contexts.is_some() || process.margin.is_some() {
                let why = "--model linear knows nothing of --home, --contexts and --ties model: leave them out, or take another model";
                return Err(Failure::input(why));
            }
            let fit = BradleyTerry::new(AbilityRidge::Evidence).fit_linear(&items, &duels)?;
            return Ok(Fitted { model: fit.model, covariance: fit.covariance, warnings: fit.notes });
        }
        if let Some(landmarks) = self.most_landmarks(&duels) {
            let context_landmarks = self.context_landmarks;
            let own = LandmarkProcess::new(process.clone());
            let fit =
                LandmarkProcess { landmarks, context_landmarks, draws: 0, ..own }.fit(&items, &duels)?;
            match fit.model {
                Ok(model) => return Ok(Fitted { model, covariance: None, warnings: fit.warnings }),
                Err(why) if self.landmarks.is_some() => {
                    let told =
                        format!("--landmarks: {why}; a file holds a model of landmarks as a sum over these");
                    return Err(Failure::input(told));
                }
                // By default there is another way.
                Err(_) => {}
            }
        }
        let fit = process.fit(&items, &duels)?;
        Ok(Fitted { model: fit.model, covariance: Some(fit.covariance), warnings: fit.warnings })
    }
}

/// The duels by their items alone, to see who met whom.
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
    described(&items, &duels(&items, &met)?, &console);
    let arranged = args.learn.arranged(args.model, &items, &met, global.seed)?;
    if let Some(most) = args.learn.most_landmarks(&arranged.duels).filter(|_| args.model != Model::Linear)
        && args.learn.landmarks.is_none()
    {
        console.note(format!(
            "note: {} pairs met, so items are known through {} landmarks, and the file holds no posterior; --landmarks says otherwise",
            arranged.duels.pairs().len(),
            most.min(items.table.rows())
        ));
    }
    let output = Output::open(Some(path))?;
    let message = format!("fitting {} pairs", arranged.duels.pairs().len());
    let done = arranged.process.progress.clone();
    let fit = watched(&console, &message, &done, || args.learn.fit(args.model, arranged))?;
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
    let summary = model.facts();
    let covariance = fit.covariance.filter(|_| !args.no_posterior);
    written(&SavedModel { model, covariance, groups }, output, &summary, as_json, console)
}
