//! Reading, preparing and fitting duels: what the commands of preferences that learn from duels share.

use std::path::{Path, PathBuf};

use clap::{ValueEnum, ValueHint};
use riesz::error::listed;
use riesz::kernel::{ColumnScaling, KernelExpression};
use riesz::model_average::{ModelAverage, few_samples_warning};
use riesz::preference::{
    ABILITY, AbilityRidge, BradleyTerry, ChoiceEntries, Choices, ContextKernel, Duels, HOME, ItemBags,
    LandmarkProcess, PreferenceFit, PreferenceProcess, prepare_choices, prepare_entries,
};
use riesz::{Kernel, KernelExpansion, PosteriorCovariance, Table};

use crate::args::TableArgs;
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::bags::Teams;
use crate::io::duels::{
    ContextArgs, ContextColumns, DuelArgs, IndexedDuels, ItemArgs, Items, Names, OutcomeColumns,
    RequestedColumns, read_one,
};

/// The tables of items and duels, and the model that is fitted to them.
#[derive(Debug, Clone, clap::Args)]
pub struct Learn {
    /// Table of items, one per row, CSV or Parquet. Without it the first table is one of duels: between names
    /// without properties, or with the columns of both items in each row, left_x and right_x for each column
    /// x
    #[arg(value_hint = ValueHint::FilePath)]
    pub items: PathBuf,
    /// Table of duels between items, given by name
    #[arg(value_hint = ValueHint::FilePath)]
    pub duels: Option<PathBuf>,
    /// Kernel between items, an expression; 'riesz fit --help-all' describes kernels [default: rbf(ard), or
    /// the same with a Matérn profile if the duels are more likely under it]
    #[arg(long, value_name = "EXPR")]
    pub kernel: Option<String>,
    /// Use columns as they are instead of standardising them; each item counts once
    #[arg(long, visible_alias = "no-standardize")]
    pub no_standardise: bool,
    /// Keep the kernel as it is given instead of tuning it
    #[arg(long)]
    pub no_tuning: bool,
    /// Number of further starts of the tuning, from random values
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub restarts: usize,
    /// Number of samples of the hyper-parameters from their posterior over which predictions are averaged; 0
    /// takes the best ones [default: 64 if 5 to 300 pairs met, without landmarks, otherwise 0]
    #[arg(long, value_name = "N")]
    pub hyperparameter_samples: Option<usize>,
    /// Options for reading items.
    #[command(flatten)]
    pub item_options: ItemArgs,
    /// Options for reading duels.
    #[command(flatten)]
    pub duel_options: DuelArgs,
    /// Options for reading tables.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Effects that are not properties of the items.
#[derive(Debug, Clone, clap::Args)]
pub struct EffectArgs {
    /// Treatment of ties: half a win for each side, or an outcome of their own, with a margin that is tuned
    /// (Rao and Kupper)
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    pub ties: Ties,
    /// Give each item an ability that its columns do not explain, as in Bradley and Terry's model; its
    /// variance is tuned. New items have an ability with the prior's variance. This is the default with
    /// --model nested and utility, unless a table has the columns of both items in each row, or --members or
    /// --no-tuning is given. Items with names only always have an ability
    #[arg(long)]
    pub ability: bool,
    /// Give items no ability of their own
    #[arg(long, conflicts_with = "ability")]
    pub no_ability: bool,
    /// Column with the side at home: left, right or none, or the item's name; the home advantage is learnt
    #[arg(long, value_name = "COL")]
    pub home: Option<String>,
}

/// Effects beyond the items' columns, landmarks, and contexts.
#[derive(Debug, Clone, clap::Args)]
pub struct Further {
    /// Abilities, home and ties.
    #[command(flatten)]
    pub effects: EffectArgs,
    /// Number of landmarks among the items, for many thousand duels; 'all' is without approximation, and
    /// 'none' uses a matrix between all pairs that met instead. With landmarks the file holds no posterior
    /// [default: 250 if more than 2,000 pairs met]
    #[arg(long, value_name = "M|all|none")]
    pub landmarks: Option<Landmarks>,
    /// With landmarks: number of landmarks among the distinct contexts
    #[arg(long, value_name = "M", default_value_t = 32)]
    pub context_landmarks: usize,
    /// Contexts of duels.
    #[command(flatten)]
    pub contexts: ContextArgs,
}

const NAMES_ONLY: &str = "items with names only have abilities, for which --model generalised and linear do \
                          not apply: leave --model out";

/// Kinds of models of duels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Model {
    /// The sum of a utility and a generalised preferential Gaussian process.
    #[default]
    Nested,
    /// A utility, which gives a ranking.
    Utility,
    /// The generalised preferential Gaussian process.
    Generalised,
    /// Weighted sums of the items' columns.
    Linear,
    /// An ability for each item, independent of its columns (Bradley and Terry).
    #[value(alias = "bradley_terry")]
    BradleyTerry,
}

/// Choice of landmarks among the items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landmarks {
    /// At most this many; all items if there are fewer.
    Most(usize),
    /// No landmarks: the model uses a matrix between the pairs that met.
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

/// If more than `DENSE` pairs met, `LANDMARKS` landmarks are used by default.
const DENSE: usize = 2000;
const LANDMARKS: usize = 250;

/// Treatment of ties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Ties {
    /// A tie is half a win for each side.
    #[default]
    Half,
    /// A tie is an outcome of its own.
    Model,
}

/// Training data in the form that a fit requires, and the model.
pub struct PreparedDuels {
    /// The items; an item has two rows if it was both at home and away.
    pub items: Table,
    /// The bags of items, if duels are between bags.
    pub bags: Option<ItemBags>,
    /// The duels.
    pub duels: Duels,
    /// The model before it is fitted.
    pub process: PreferenceProcess,
    /// The names of the items and their duels, if a Bradley-Terry model of abilities alone applies: items
    /// without columns, and duels without home, contexts and a model of ties.
    pub abilities: Option<(Vec<String>, Duels)>,
}

/// A fitted model of duels.
pub struct Fitted {
    /// Kernel expansion over wide rows, which hold the columns of both items.
    pub model: KernelExpansion,
    /// The posterior covariance.
    pub covariance: Option<PosteriorCovariance>,
    /// The average over hyper-parameters, if there is one.
    pub average: Option<ModelAverage>,
    /// Warnings of the fit.
    pub warnings: Vec<String>,
}

impl Fitted {
    /// A fit whose hyper-parameters are not averaged.
    fn single(
        model: KernelExpansion,
        covariance: Option<PosteriorCovariance>,
        warnings: Vec<String>,
    ) -> Self {
        Self { model, covariance, average: None, warnings }
    }
}

impl Learn {
    /// Reads items and duels, with homes and contexts if requested.
    pub fn read(
        &self,
        home: Option<&String>,
        contexts: Option<&ContextArgs>,
        console: &Console,
    ) -> Result<(Items, IndexedDuels)> {
        let Some(path) = &self.duels else {
            let rows = self.table.source(&self.items).open()?;
            return read_one(
                rows,
                &self.item_options,
                self.requested_columns(home, contexts),
                &self.duel_options,
                console,
            );
        };
        let items = Items::read(&self.items, &self.item_options, &self.table, console)?;
        let duels = self.read_duels(path, &items.names, (home, contexts), console)?;
        Ok((items, duels))
    }

    fn requested_columns<'a>(
        &'a self,
        home: Option<&'a String>,
        contexts: Option<&'a ContextArgs>,
    ) -> RequestedColumns<'a> {
        let context_columns = match contexts {
            Some(args) if !args.contexts.is_empty() || args.users.is_some() => ContextColumns::Named(args),
            _ => ContextColumns::Nothing,
        };
        RequestedColumns {
            sides: &self.duel_options.sides,
            outcome: OutcomeColumns::Fitted(&self.duel_options),
            home,
            contexts: context_columns,
        }
    }

    /// Reads duels between these items or bags.
    pub fn read_duels(
        &self,
        path: &Path,
        names: &Names,
        (home, contexts): (Option<&String>, Option<&ContextArgs>),
        console: &Console,
    ) -> Result<IndexedDuels> {
        IndexedDuels::read(
            self.table.source(path).open()?,
            names,
            self.requested_columns(home, contexts),
            console,
        )
    }

    /// The average over hyper-parameters around a fit without landmarks, if there is one.
    pub fn average(
        &self,
        process: &PreferenceProcess,
        fit: &PreferenceFit,
        (items, bags, duels): (&Table, Option<&ItemBags>, &Duels),
        console: &Console,
    ) -> Result<Option<ModelAverage>> {
        let draws = self.hyperparameter_samples.unwrap_or_else(|| process.default_draws(duels));
        if draws == 0 {
            return Ok(None);
        }
        let average = match bags {
            Some(bags) => process.average_bags(fit, items, bags, duels, draws)?,
            None => process.average(fit, items, duels, draws)?,
        };
        let average = Some(average.into_models());
        warn_of_few_samples(average.as_ref(), console);
        Ok(average)
    }

    /// Prepares items and choices for a fit: the model before it is fitted, and the entries of the choices.
    pub fn prepare_choices(
        &self,
        model: Model,
        effects: &EffectArgs,
        items: &Items,
        choices: &Choices,
        seed: u64,
    ) -> Result<(PreferenceProcess, ChoiceEntries)> {
        if matches!(model, Model::Linear | Model::BradleyTerry) {
            let reason = "--choices need --model nested, utility or generalised";
            return Err(Failure::input(reason));
        }
        let names_only = items.table.width() == 0;
        if names_only && model == Model::Generalised {
            return Err(Failure::input(NAMES_ONLY));
        }
        let mut process = self.process(model, &items.table, seed)?;
        let by_default = model != Model::Generalised && !self.no_tuning && !effects.no_ability;
        let has_ability = effects.ability || by_default || names_only;
        refuse_reserved(items, &[(has_ability, ABILITY)])?;
        let names = has_ability.then_some(&items.names.ids[..]);
        let mut entries = prepare_choices(&items.table, choices, names)?;
        process.prior.extra_utility_kernel = entries.extra_utility_kernel.take();
        Ok((process, entries))
    }

    /// Fits a model to choices.
    pub fn fit_choices(
        &self,
        process: &PreferenceProcess,
        entries: &ChoiceEntries,
        console: &Console,
    ) -> Result<Fitted> {
        self.check_samples(false)?;
        let (items, choices) = (&entries.table, &entries.choices);
        let fit = process.fit_choices(items, choices)?;
        let draws = self.hyperparameter_samples.unwrap_or_else(|| process.default_draws_of_choices(choices));
        let average =
            (draws > 0).then(|| process.average_choices(&fit, items, choices, draws)).transpose()?;
        let average = average.map(|average| average.into_models());
        warn_of_few_samples(average.as_ref(), console);
        Ok(Fitted { average, ..Fitted::single(fit.model, Some(fit.covariance), fit.warnings) })
    }

    fn check_samples(&self, has_landmarks: bool) -> Result<()> {
        let Some(samples) = self.hyperparameter_samples.filter(|samples| *samples > 0) else { return Ok(()) };
        let reason = match samples {
            1 => "1 is no average",
            _ if self.no_tuning => "--no-tuning keeps hyper-parameters as they are",
            _ if has_landmarks => "fits through landmarks are not averaged",
            _ => return Ok(()),
        };
        Err(Failure::input(format!("--hyperparameter-samples {samples}: {reason}: give 0 or leave it out")))
    }

    /// The model of these items before it is fitted.
    pub fn process(&self, model: Model, items: &Table, seed: u64) -> Result<PreferenceProcess> {
        if items.width() == 0 {
            // Without columns the model consists of abilities alone.
            let mut process = PreferenceProcess::new(Kernel::constant(1.0));
            (process.prior.utility_variance, process.prior.generalised_variance) = (0.0, 0.0);
            (process.tune, process.restarts, process.seed) = (!self.no_tuning, self.restarts, seed);
            return Ok(process);
        }
        let units = if self.no_standardise {
            ColumnScaling::raw(items.width())
        } else {
            ColumnScaling::standardised(items)
        };
        let mut process = match &self.kernel {
            Some(expression) => {
                PreferenceProcess::new(KernelExpression::parse(expression)?.resolve(items, &units)?)
            }
            None => PreferenceProcess::with_default_kernel(items, &units)?,
        };
        match model {
            Model::Nested | Model::Linear | Model::BradleyTerry => {}
            Model::Utility => process.prior.generalised_variance = 0.0,
            Model::Generalised => process.prior.utility_variance = 0.0,
        }
        (process.tune, process.restarts, process.seed) = (!self.no_tuning, self.restarts, seed);
        Ok(process)
    }
}

impl Learn {
    /// Prepares items and duels for a fit.
    pub fn prepare(
        &self,
        model: Model,
        effects: &EffectArgs,
        items: &Items,
        duels_read: &IndexedDuels,
        seed: u64,
    ) -> Result<PreparedDuels> {
        if model == Model::BradleyTerry {
            if effects.ability
                || effects.ties == Ties::Model
                || duels_read.home.is_some()
                || duels_read.contexts.is_some()
            {
                let reason = "--model bradley-terry cannot be used with --home, --ability, --contexts, \
                              --users or --ties model: leave them out, or use --model utility";
                return Err(Failure::input(reason));
            }
            let names = Items::names_only(items.names.source.clone(), items.names.ids.clone())?;
            return self.prepare(Model::Utility, effects, &names, duels_read, seed);
        }
        let names_only = items.table.width() == 0;
        if names_only && matches!(model, Model::Generalised | Model::Linear) {
            return Err(Failure::input(NAMES_ONLY));
        }
        // In a table with the columns of both items, items have no names by which they could be recognised.
        let by_default = matches!(model, Model::Nested | Model::Utility)
            && self.duels.is_some()
            && !self.no_tuning
            && !effects.no_ability;
        let has_ability = effects.ability || by_default;
        let reserved = [(has_ability, ABILITY), (duels_read.home.is_some(), HOME)];
        refuse_reserved(items, &reserved)?;
        let mut process = self.process(model, &items.table, seed)?;
        let names = (has_ability || names_only).then_some(&items.names.ids[..]);
        let entries = prepare_entries(
            &items.table,
            (&duels_read.left, &duels_read.right),
            duels_read.outcomes()?,
            duels_read.home.as_deref(),
            names,
        )?;
        process.prior.extra_utility_kernel = entries.extra_utility_kernel;
        let duels = self.duels_in(
            &mut process,
            effects,
            entries.table.rows(),
            (&entries.left, &entries.right),
            duels_read,
        )?;
        let has_plain_duels =
            duels_read.home.is_none() && duels_read.contexts.is_none() && effects.ties == Ties::Half;
        let abilities = match names_only && has_plain_duels {
            true => Some((items.names.ids.clone(), self::duels(&items.names, duels_read)?)),
            false => None,
        };
        Ok(PreparedDuels { items: entries.table, bags: None, duels, process, abilities })
    }

    /// Prepares the duels between bags for a fit.
    pub fn prepare_bags(
        &self,
        model: Model,
        effects: &EffectArgs,
        items: Items,
        teams: Teams,
        duels_read: &IndexedDuels,
        seed: u64,
    ) -> Result<PreparedDuels> {
        if effects.ability
            || duels_read.home.is_some()
            || matches!(model, Model::Linear | Model::BradleyTerry)
        {
            let reason = "--members cannot be used with --home, --ability, --model linear or bradley-terry: \
                          leave them out";
            return Err(Failure::input(reason));
        }
        if items.table.width() == 0 {
            let reason = "--members needs items with columns besides their names: give a table of items with \
                          columns";
            return Err(Failure::input(reason));
        }
        let mut process = self.process(model, &items.table, seed)?;
        let count = teams.names.ids.len();
        let duels =
            self.duels_in(&mut process, effects, count, (&duels_read.left, &duels_read.right), duels_read)?;
        Ok(PreparedDuels { items: items.table, bags: Some(teams.bags), duels, process, abilities: None })
    }

    /// The duels between `count` items or bags, in contexts if there are any, which also set the model's
    /// context kernel.
    fn duels_in(
        &self,
        process: &mut PreferenceProcess,
        effects: &EffectArgs,
        count: usize,
        (left, right): (&[usize], &[usize]),
        duels_read: &IndexedDuels,
    ) -> Result<Duels> {
        let (outcome, weight) = (duels_read.outcomes()?, duels_read.weight.as_deref());
        let duels = match &duels_read.contexts {
            None => Duels::new(count, left, right, outcome, weight)?,
            Some(contexts) => {
                process.prior.contexts = Some(ContextKernel::from_contexts(contexts)?);
                Duels::in_contexts(count, left, right, outcome, weight, contexts)?
            }
        };
        let duels = duels.with_count(duels_read.count);
        process.margin = (effects.ties == Ties::Model).then(|| duels.margin());
        Ok(duels)
    }
}

impl Further {
    /// The largest number of landmarks; `None` for a fit without landmarks.
    pub fn max_landmarks(&self, duels: &Duels) -> Option<usize> {
        match self.landmarks {
            Some(Landmarks::Most(count)) => Some(count),
            Some(Landmarks::Never) => None,
            None => (duels.pairs().len() > DENSE).then_some(LANDMARKS),
        }
    }

    /// Fits a model.
    pub fn fit(
        &self,
        model: Model,
        learn: &Learn,
        prepared: PreparedDuels,
        console: &Console,
    ) -> Result<Fitted> {
        let PreparedDuels { items, bags, duels, process, abilities } = prepared;
        if let Some((names, duels)) = abilities {
            let fit = BradleyTerry::new(AbilityRidge::Evidence).fit(&names, &duels)?;
            return Ok(Fitted::single(fit.model, fit.covariance, fit.notes));
        }
        if model == Model::Linear {
            if process.prior.extra_utility_kernel.is_some()
                || process.prior.contexts.is_some()
                || process.margin.is_some()
            {
                let reason = "--model linear cannot be used with --home, --ability, --contexts, --users or \
                              --ties model: leave them out, or use another model";
                return Err(Failure::input(reason));
            }
            let fit = BradleyTerry::new(AbilityRidge::Evidence).fit_linear(&items, &duels)?;
            return Ok(Fitted::single(fit.model, fit.covariance, fit.notes));
        }
        // Abilities alone are independent, so landmarks tell nothing about other items.
        let related = process.prior.utility_variance + process.prior.generalised_variance > 0.0;
        let max_landmarks = self.max_landmarks(&duels).filter(|_| related || self.landmarks.is_some());
        learn.check_samples(max_landmarks.is_some())?;
        if let Some(landmarks) = max_landmarks {
            let context_landmarks = self.context_landmarks;
            let landmark_process = LandmarkProcess::new(process.clone());
            let landmark_process =
                LandmarkProcess { landmarks, context_landmarks, draws: 0, ..landmark_process };
            let fit = match &bags {
                Some(bags) => landmark_process.fit_bags(&items, bags, &duels)?,
                None => landmark_process.fit(&items, &duels)?,
            };
            match fit.model {
                Ok(model) => return Ok(Fitted::single(model, None, fit.warnings)),
                Err(reason) if self.landmarks.is_some() => {
                    let message = format!(
                        "--landmarks: {reason}; a file can hold only a sum over landmarks: leave it out"
                    );
                    return Err(Failure::input(message));
                }
                // With the default number, the fit without landmarks is used instead.
                Err(_) => {}
            }
        }
        let fit = match &bags {
            Some(bags) => process.fit_bags(&items, bags, &duels)?,
            None => process.fit(&items, &duels)?,
        };
        let average = learn.average(&process, &fit, (&items, bags.as_ref(), &duels), console)?;
        Ok(Fitted { average, ..Fitted::single(fit.model, Some(fit.covariance), fit.warnings) })
    }
}

/// Refuses items with a column whose name the model uses itself.
fn refuse_reserved(items: &Items, reserved: &[(bool, &str)]) -> Result<()> {
    let is_column = |(used, name): &&(bool, &str)| *used && items.table.index_of(name).is_ok();
    match reserved.iter().find(is_column) {
        None => Ok(()),
        Some((_, name)) => Err(Failure::input(format!(
            "items have a column '{name}', a name that the model needs itself: rename it, or leave it out \
             (--ignore {name})"
        ))),
    }
}

fn warn_of_few_samples(average: Option<&ModelAverage>, console: &Console) {
    if let Some(warning) = average.and_then(|average| few_samples_warning(average.effective_sample_size)) {
        console.warn(warning);
    }
}

/// The duels by items or bags alone, without homes and contexts.
pub fn duels(names: &Names, duels_read: &IndexedDuels) -> Result<Duels> {
    let duels = Duels::new(
        names.ids.len(),
        &duels_read.left,
        &duels_read.right,
        duels_read.outcomes()?,
        duels_read.weight.as_deref(),
    )?;
    Ok(duels.with_count(duels_read.count))
}

/// Prints a description of the duels before the fit: their number, connected components, and items without
/// duels.
pub fn described(names: &Names, duels: &Duels, names_only: bool, console: &Console) {
    let noun = names.noun;
    if names_only {
        console.note(format!(
            "note: the {noun}s have only names, so each has an ability, as in Bradley and Terry's model"
        ));
    }
    let (mut won, mut lost) = (vec![false; duels.items()], vec![false; duels.items()]);
    for (&(l, r), &share) in duels.pairs().iter().zip(duels.outcome()) {
        (won[l], lost[r]) = (won[l] || share > 0.0, lost[r] || share > 0.0);
        (won[r], lost[l]) = (won[r] || share < 1.0, lost[l] || share < 1.0);
    }
    let count = |predicate: &dyn Fn(usize) -> bool| (0..duels.items()).filter(|&i| predicate(i)).count();
    let components = duels.components();
    let parts = match &components[..] {
        [_] => "one connected component".to_string(),
        all => format!(
            "{} components of {} {noun}s, between which {}",
            all.len(),
            listed(all.iter().take(5).map(|component| component.len().to_string())),
            if names_only { "there is no information" } else { "only properties are informative" }
        ),
    };
    console.note(format!(
        "{} duels ({} pairs met), {} {noun}s, {parts}; {} {noun}s never lost, {} never won",
        duels.count(),
        duels.pairs().len(),
        duels.items(),
        count(&|i| won[i] && !lost[i]),
        count(&|i| lost[i] && !won[i]),
    ));
    let absent: Vec<&String> =
        (0..duels.items()).filter(|&i| !won[i] && !lost[i]).map(|i| &names.ids[i]).collect();
    if !absent.is_empty() {
        console.note(format!(
            "note: {} {noun}s have no duels ({}); {}",
            absent.len(),
            listed(absent.iter().take(5)),
            if names_only {
                "their abilities are those of the prior"
            } else {
                "their utilities are predicted from their properties"
            }
        ));
    }
    if components.len() > 1 {
        let basis = if names_only { "the prior, in which all are equal" } else { "properties alone" };
        console.warn(format!("the duels fall into components: a comparison across them depends on {basis}"));
    }
}
