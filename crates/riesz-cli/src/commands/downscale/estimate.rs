//! `riesz downscale estimate`: fits and predicts at once, averaged over hyper-parameters.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use riesz::aggregate::{AggregateFit, Tuning};
use riesz::format::model::SavedModel;
use riesz::model_average::{ModelAverage, WeightedModel, few_samples_warning};
use riesz::{KernelExpansion, Posterior, PosteriorCovariance, Table};

use super::map_rows::{RowOptions, labels, rows_of};
use super::shared_fit::Learn;
use crate::args::{CellArgs, Global};
use crate::console::{Console, with_progress};
use crate::exit::{Failure, Result};
use crate::io::aggregates::Aggregated;
use crate::io::columns::Columns;
use crate::io::write::{Cells, TableWriter, row_labels};
use crate::rates;

/// Arguments of `downscale estimate`.
#[derive(Debug, Clone, clap::Args)]
#[command(before_help = "\
Examples:
  riesz downscale estimate areas.csv --target cases --exposure population --family poisson -o rates.csv
  riesz downscale estimate rows.csv bags.csv --bag district --target rate --at new.csv -o map.csv
  riesz downscale estimate rows.csv bags.csv --bag district --target rate --target-contributions
  riesz downscale estimate rows.csv bags.csv --bag district --target rate --mediators latitude,year \
    --at-mediators places.csv

Fits as 'riesz downscale fit --hyperparameter-samples' does and predicts rows at once, without a
model file. The predictions are averages over samples from the posterior of the hyper-parameters,
weighted by their likelihood: with few targets their intervals are wider than those of the best
hyper-parameters alone. The columns are those of 'riesz downscale predict'.

With --at-mediators the predictions are means of the map over the rows of a bag with these mediators,
which need no rows: the conditional mean process. They have the uncertainty of the map and of the
regression on mediators, without the noise of targets; for sums they are per unit of weight.")]
pub struct Args {
    /// The training data and the settings of the fit.
    #[command(flatten)]
    pub learn: Learn,
    /// Table of rows to predict [default: the rows of the fit]
    #[arg(long = "at", value_name = "FILE", value_hint = ValueHint::FilePath, group = "queries")]
    pub rows_file: Option<PathBuf>,
    /// Table of --mediators at which to predict the mean of the map over rows; for exact fits to numbers
    #[arg(
        long = "at-mediators",
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        group = "queries",
        conflicts_with = "target_contributions"
    )]
    pub mediators_file: Option<PathBuf>,
    /// (--at, --at-mediators) Column of rows with their names, which the result has in place of row numbers;
    /// a single table of areas has those of --bag
    #[arg(long, value_name = "COL", requires = "queries")]
    pub id: Option<String>,
    /// Number of samples of the hyper-parameters; 0 for the best hyper-parameters only
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub hyperparameter_samples: usize,
    /// Write the contribution of each target to each prediction instead: a column for each target, and one
    /// for the prior mean. They add up to the prediction. For exact fits to numbers
    #[arg(long)]
    pub target_contributions: bool,
    /// Where to write the table [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Fits with weights that add up to 1, one for each sample of the hyper-parameters.
enum Mixture {
    /// Exact fits to numbers.
    Exact(Vec<(f64, AggregateFit)>),
    /// Fits to counts, or through inducing points.
    Approximate(Vec<(f64, KernelExpansion, PosteriorCovariance)>),
}

/// The average over samples of the hyper-parameters, whose outputs have these names.
pub fn average(
    learn: &Learn,
    hyperparameter_samples: usize,
    (aggregated, output_names): (&Aggregated, &[String]),
    seed: u64,
    console: &Console,
) -> Result<ModelAverage> {
    let (mixture, size) = mixture(learn, hyperparameter_samples, aggregated, seed, console)?;
    let fits: Vec<(f64, KernelExpansion, PosteriorCovariance)> = match mixture {
        Mixture::Exact(fits) => fits.into_iter().map(|(w, fit)| (w, fit.model, fit.covariance)).collect(),
        Mixture::Approximate(fits) => fits,
    };
    let models = fits.into_iter().map(|(weight, mut model, covariance)| {
        model.output_names = output_names.to_vec();
        WeightedModel { weight, model, covariance: Some(covariance) }
    });
    let effective_sample_size = size.unwrap_or(1.0);
    if let Some(warning) = few_samples_warning(effective_sample_size) {
        console.warn(warning);
    }
    Ok(ModelAverage::new(models.collect(), effective_sample_size))
}

/// Refuses options of the fit with which there is no average.
pub fn check_samples(learn: &Learn, hyperparameter_samples: usize) -> Result<()> {
    if hyperparameter_samples == 1 {
        return Err(Failure::input("--hyperparameter-samples 1 is no average: give 0 or at least 2"));
    }
    let conflicts = [
        (learn.no_tuning, "--no-tuning, which keeps hyper-parameters as they are"),
        (learn.published, "--published, which takes the best hyper-parameters"),
        (learn.exact_totals, "--exact-totals"),
        (learn.data.operator.regresses(), "--operator pseudo and two-sided"),
    ];
    match conflicts.into_iter().find(|(is_given, _)| *is_given && hyperparameter_samples > 0) {
        Some((_, option)) => Err(Failure::input(format!(
            "samples of hyper-parameters cannot be used with {option}: give --hyperparameter-samples 0"
        ))),
        None => Ok(()),
    }
}

/// The fits, and the effective number of samples.
fn mixture(
    learn: &Learn,
    samples: usize,
    aggregated: &Aggregated,
    seed: u64,
    console: &Console,
) -> Result<(Mixture, Option<f64>)> {
    let data = &aggregated.data;
    let (conventions, profiles) = (learn.conventions(), learn.profiles());
    let tuning = Tuning { conventions, profiles, ..Tuning::default() };
    let message = format!("fitting {} rows in {} bags", data.rows.rows(), data.bags.count());
    if let Some(family) = aggregated.family.clone() {
        let start = learn.start_counts(family, data, seed)?;
        let fits = with_progress(console, &message, &tuning.progress, || -> riesz::Result<_> {
            if learn.no_tuning {
                return Ok((vec![(1.0, start.fit(data)?)], None));
            }
            let tuned = tuning.tune_counts(&start, data)?;
            if samples == 0 {
                return Ok((vec![(1.0, tuned.fit)], None));
            }
            let average = tuning.average_counts(&start, &tuned.processes(), data, samples, seed)?;
            Ok((average.fits, Some(average.effective_sample_size)))
        });
        let (fits, size) = fits.map_err(|error| aggregated.named(error))?;
        let parts = fits.into_iter().map(|(weight, fit)| (weight, fit.model, fit.covariance));
        return Ok((Mixture::Approximate(parts.collect()), size));
    }
    let start = learn.start(data)?;
    if let Some(points) = learn.points(data) {
        let process = learn.sparse(points, start, data, seed)?;
        let fits = with_progress(console, &message, &process.progress, || -> riesz::Result<_> {
            let fit = process.fit_data(data)?;
            fit.warnings.iter().for_each(|warning| console.warn(warning));
            if samples == 0 {
                return Ok((vec![(1.0, fit)], None));
            }
            let average = process.average_data(&fit, data, samples)?;
            Ok((average.fits, Some(average.effective_sample_size)))
        });
        let (fits, size) = fits.map_err(|error| aggregated.named(error))?;
        let parts = fits.into_iter().map(|(weight, fit)| (weight, fit.model, fit.covariance));
        return Ok((Mixture::Approximate(parts.collect()), size));
    }
    let fits = with_progress(console, &message, &tuning.progress, || -> riesz::Result<_> {
        if learn.no_tuning {
            return Ok((vec![(1.0, start.fit(data)?)], None));
        }
        let tuned = tuning.tune(&start, data)?;
        if samples == 0 {
            return Ok((vec![(1.0, tuned.fit)], None));
        }
        let average = tuning.average(&start, &tuned.processes(), data, samples, seed)?;
        Ok((average.fits, Some(average.effective_sample_size)))
    });
    let (fits, size) = fits.map_err(|error| aggregated.named(error))?;
    Ok((Mixture::Exact(fits), size))
}

/// Fits, averages and writes the predictions.
pub fn run(args: &Args, global: &Global, console: Console) -> Result<()> {
    let format = global.table_format(args.output.as_deref())?;
    check_samples(&args.learn, args.hyperparameter_samples)?;
    let aggregated = args.learn.checked_data(&console)?;
    let mediators =
        args.mediators_file.as_deref().map(|path| args.mediators(path, &aggregated)).transpose()?;
    if args.target_contributions && aggregated.family.is_some() {
        return Err(Failure::input(
            "--target-contributions cannot be used with counts, whose map is not linear in them: leave it \
             out",
        ));
    }
    if args.target_contributions && args.learn.points(&aggregated.data).is_some() {
        return Err(Failure::input(
            "--target-contributions cannot be used with fits through inducing points: leave it out, or give \
             fewer rows and no --inducing",
        ));
    }
    if aggregated.family.is_none() {
        args.learn.note_points(&aggregated.data, &console);
    }
    let (mixture, effective_size) =
        mixture(&args.learn, args.hyperparameter_samples, &aggregated, global.seed, &console)?;
    if let Some(warning) = effective_size.and_then(few_samples_warning) {
        console.warn(warning);
    }
    if let (Some((mediators, labels)), Mixture::Exact(fits)) = (mediators, &mixture) {
        let columns = conditional_means(fits, &mediators, &args.learn.data.target)?;
        let columns = [labels].into_iter().chain(columns).collect::<Vec<_>>();
        let columns = columns.iter().map(|(name, cells)| (&name[..], cells.clone())).collect();
        return TableWriter::write_columns(args.output.as_deref(), format, columns);
    }
    let parts: Vec<(f64, &KernelExpansion, &PosteriorCovariance)> = match &mixture {
        Mixture::Exact(fits) => fits.iter().map(|(w, fit)| (*w, &fit.model, &fit.covariance)).collect(),
        Mixture::Approximate(fits) => {
            fits.iter().map(|(w, model, covariance)| (*w, model, covariance)).collect()
        }
    };
    let (rows, labels) = args.rows(parts[0].1, &aggregated, &console)?;
    let mut columns = vec![labels];
    match &mixture {
        Mixture::Exact(fits) if args.target_contributions => {
            columns.extend(contributions(fits, &aggregated, &rows)?);
        }
        _ => {
            let posterior = |(w, model, covariance)| Ok((w, Posterior::new(model, covariance)?));
            let posteriors: Vec<(f64, Posterior<'_>)> =
                parts.iter().copied().map(posterior).collect::<Result<_>>()?;
            let names = rates::column_names(parts[0].1, &args.learn.data.target);
            let cells = rates::predictions(&posteriors, &rows)?.into_iter().map(Cells::Numbers);
            columns.extend(names.into_iter().zip(cells));
        }
    }
    let columns = columns.iter().map(|(name, cells)| (&name[..], cells.clone())).collect();
    TableWriter::write_columns(args.output.as_deref(), format, columns)
}

impl Args {
    /// The mediators of `--at-mediators`, and the column that labels them. Refuses fits that do not use
    /// mediators, or that cannot be asked at mediators.
    fn mediators(&self, path: &Path, aggregated: &Aggregated) -> Result<(Table, (String, Cells))> {
        let refuse = |reason: &str| Err(Failure::input(format!("--at-mediators {reason}")));
        if aggregated.family.is_some() {
            return refuse("is for numbers, not for counts, whose map is not linear in them: leave it out");
        }
        if self.learn.points(&aggregated.data).is_some() {
            return refuse(
                "cannot be used with fits through inducing points, which keep no rows: leave it out, or give \
                 fewer rows and no --inducing",
            );
        }
        let Some(mediators) = &aggregated.data.mediators else {
            return refuse(
                "needs targets that are learnt through mediators: give --mediators, and --operator mediated \
                 if every bag has rows",
            );
        };
        let mediator_columns = mediators.bags.columns();
        let names = mediator_columns.iter().map(|column| column.name.clone()).chain(self.id.clone());
        let columns = Columns::read(self.learn.data.table.source(path).open()?, &names.collect::<Vec<_>>())?;
        let policy = CellArgs::default().for_model(&mediators.bags)?;
        let (table, _) = columns.table_for_model(mediator_columns, &policy)?;
        let labels = labels(&columns, self.id.as_ref(), table.rows())?;
        Ok((table, labels))
    }

    /// The rows to predict, in the columns of the model, and the column that labels them.
    fn rows(
        &self,
        model: &KernelExpansion,
        aggregated: &Aggregated,
        console: &Console,
    ) -> Result<(Table, (String, Cells))> {
        let Some(path) = &self.rows_file else {
            let (rows, columns) = (aggregated.data.rows.clone(), &self.learn.data);
            let named = columns.bag.as_ref().filter(|_| columns.is_single_table());
            let names = named.map(|column| (column, aggregated.names_of_areas()));
            let labels = row_labels(names, 0..rows.rows());
            return Ok((rows, labels));
        };
        let options = RowOptions { table: &self.learn.data.table, cells: CellArgs::default(), console };
        let rows = options.table.source(path).open()?;
        let saved = SavedModel { model: model.clone(), covariance: None, groups: None };
        let further: Vec<&String> = self.id.iter().collect();
        let (columns, table, _) = rows_of(&saved, rows, (&further, None), options)?;
        let labels = labels(&columns, self.id.as_ref(), table.rows())?;
        Ok((table, labels))
    }
}

/// The mean of the map given each row of mediators, with its standard deviation and its 95 % interval.
fn conditional_means(
    fits: &[(f64, AggregateFit)],
    mediators: &Table,
    target: &str,
) -> Result<Vec<(String, Cells)>> {
    let moments = |(weight, fit): &(f64, AggregateFit)| {
        let (means, covariance) = fit.conditional_means(mediators)?;
        Ok((*weight, means, covariance.standard_deviations()))
    };
    let moments: Vec<(f64, Vec<f64>, Vec<f64>)> = fits.iter().map(moments).collect::<Result<_>>()?;
    let ends = ["", "_std", "_low", "_high"].map(|end| format!("{target}{end}"));
    Ok(ends.into_iter().zip(rates::normal_mixture(&moments).map(Cells::Numbers)).collect())
}

/// The contributions of the prior mean and of each target to the prediction of each row.
fn contributions(
    fits: &[(f64, AggregateFit)],
    aggregated: &Aggregated,
    rows: &Table,
) -> Result<Vec<(String, Cells)>> {
    let targets = &aggregated.data.targets;
    let mut prior_mean = vec![0.0; rows.rows()];
    let mut sums = vec![vec![0.0; rows.rows()]; targets.len()];
    for (weight, fit) in fits {
        let (mean, leverage) = (fit.model.intercept[0], fit.target_leverage(rows)?);
        prior_mean.iter_mut().for_each(|sum| *sum += weight * mean);
        for (t, sum) in sums.iter_mut().enumerate() {
            let difference = targets[t] - mean * fit.constants()[t];
            sum.iter_mut().enumerate().for_each(|(i, v)| *v += weight * leverage[(i, t)] * difference);
        }
    }
    let names = aggregated.targets.iter().map(|name| format!("target {name}"));
    let columns = names.zip(sums.into_iter().map(Cells::Numbers));
    Ok([("prior_mean".to_string(), Cells::Numbers(prior_mean))].into_iter().chain(columns).collect())
}
