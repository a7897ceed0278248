//! The common part of `downscale fit` and `downscale check`: fits a Gaussian process to tables of rows and
//! bags.

use std::sync::Arc;

use riesz::aggregate::{
    AggregateGaussianProcess, Aggregates, Approximation, Conventions, DEFAULT_KERNEL, LeaveOneOut, Mediation,
    SparseAggregateProcess, TargetUnit, Tuning, inducing_points,
};
use riesz::fit::TunedParameters;
use riesz::kernel::{ColumnScaling, KernelExpression, Profile};
use riesz::model_card::CardEntry;
use riesz::{Kernel, KernelExpansion, PosteriorCovariance, Table};

use crate::console::{Console, with_progress};
use crate::exit::{Failure, Result};
use crate::io::aggregates::{AggregateArgs, Aggregated, FamilyName, OperatorName};
use crate::io::duels::first_of;

/// Kernel at which the tuning of the mediators' kernel starts.
pub(super) const MEDIATOR_KERNEL: &str = "rbf(length_scale=0.5, ard)";

/// Names of entries of the model card: how targets aggregate rows, and the column of the rows' weights.
pub(super) const TARGETS_ARE: &str = "targets are";
pub(super) const WEIGHTS: &str = "weights of rows";

/// The training data and the settings of the fit.
#[derive(Debug, Clone, clap::Args)]
pub struct Learn {
    /// The tables.
    #[command(flatten)]
    pub data: AggregateArgs,
    /// Kernel between rows, an expression, at which tuning starts; 'riesz fit --help-all' describes kernels
    /// [default: rbf(length_scale=1, ard), or matern52 or matern32 if the marginal likelihood is larger]
    #[arg(long, value_name = "EXPR")]
    pub kernel: Option<String>,
    /// Variance of the noise of a target, in units of the targets' variance, at which tuning starts [default:
    /// 0.03]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub noise: Option<f64>,
    /// (counts) Overdispersion relative to the family (which makes it negative binomial, or beta-binomial),
    /// at which tuning starts [default: none; counts through mediators always have it]
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.0,
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    pub dispersion: f64,
    /// Use columns as they are instead of standardising them
    #[arg(long, visible_alias = "no-standardize")]
    pub no_standardise: bool,
    /// Keep kernel and noise fixed instead of tuning them
    #[arg(long)]
    pub no_tuning: bool,
    /// Use the conventions of the published experiments: mediators are not centered and have a fixed ridge of
    /// 0.01; all other parameters are tuned by the marginal likelihood alone; inducing points use a
    /// variational bound (VFE)
    #[arg(long)]
    pub published: bool,
    /// Make the map add up to the targets exactly, as if they had no noise: for means and sums over the bags'
    /// own rows
    #[arg(long, conflicts_with_all = ["noise", "published", "inducing", "target_std", "mediators"])]
    pub exact_totals: bool,
    /// Number of inducing points [default: an exact fit up to 10,000 rows and 4,000 bags, with mediators up
    /// to 50,000 rows; beyond that up to 1,000 points]
    #[arg(long, value_name = "N")]
    pub inducing: Option<usize>,
}

/// A fitted map with its data.
pub struct Fitted {
    /// The map.
    pub model: KernelExpansion,
    /// The posterior covariance.
    pub covariance: PosteriorCovariance,
    /// The training data.
    pub aggregated: Aggregated,
    /// The model's estimate of each target.
    pub fitted: Vec<f64>,
    /// The prediction of each target from the others; `None` for a single target.
    pub left_out: Option<LeaveOneOut>,
}

impl Learn {
    /// Reads the data and fits; prints a description of the data, and warnings.
    pub fn fitted(&self, seed: u64, console: &Console) -> Result<Fitted> {
        let aggregated = self.checked_data(console)?;
        let data = &aggregated.data;
        if let Some(family) = aggregated.family.clone() {
            return self.counted(family, aggregated, seed, console);
        }
        let start = self.start(data)?;
        self.note_points(data, console);
        let mut fitted = match self.points(data) {
            Some(points) => self.fit_sparse(points, start, aggregated, seed, console)?,
            None => self.exactly(start, aggregated, console)?,
        };
        fitted.model.output_names = vec![self.data.target.clone()];
        self.extend_model_card(&mut fitted);
        Ok(fitted)
    }

    /// Checks the options and reads the data; prints a description of the data, and warnings.
    pub(super) fn checked_data(&self, console: &Console) -> Result<Aggregated> {
        if let Some(noise) = self.noise.filter(|noise| !(noise.is_finite() && *noise > 0.0)) {
            return Err(Failure::input(format!("--noise {noise} is not a positive number: give a variance")));
        }
        self.check()?;
        let aggregated = self.data.read(console)?;
        let data = &aggregated.data;
        console.note(self.described(data));
        // With `auto` all targets are learnt through mediators if hardly any has rows, so that this needs no
        // warning.
        let few_matched = data.few_matched_warning().filter(|_| self.data.operator != OperatorName::Auto);
        let warnings = data.warnings().into_iter().filter(|warning| few_matched.as_ref() != Some(warning));
        aggregated.notes.iter().cloned().chain(warnings).for_each(|note| console.warn(note));
        Ok(aggregated)
    }

    /// The conventions of tuning.
    pub(super) fn conventions(&self) -> Conventions {
        if self.published { Conventions::Published } else { Conventions::Regularised }
    }

    /// The process at which tuning starts.
    pub(super) fn start(&self, data: &Aggregates) -> Result<AggregateGaussianProcess> {
        let kernel = self.resolved(self.kernel_expression(), &data.rows)?;
        let mut start = self.conventions().start(kernel, self.mediator_kernel(data)?, data);
        start.noise = self.noise.unwrap_or(start.noise);
        if self.exact_totals {
            start = start.with_exact_targets();
        }
        let operator = self.data.operator;
        Ok(match operator.regresses() {
            true => start.regressing_targets(operator == OperatorName::TwoSided, data),
            false => start,
        })
    }

    /// The expression of the kernel between rows at which tuning starts.
    pub(super) fn kernel_expression(&self) -> &str {
        self.kernel.as_deref().unwrap_or(DEFAULT_KERNEL)
    }

    /// The profiles that tuning compares with that of the default kernel.
    pub(super) fn profiles(&self) -> Vec<Profile> {
        if self.kernel.is_none() { self.conventions().rougher_profiles() } else { Vec::new() }
    }

    /// The kernel between mediators at which tuning starts; `None` without mediators.
    pub(super) fn mediator_kernel(&self, data: &Aggregates) -> Result<Option<Kernel>> {
        let Some(mediators) = &data.mediators else { return Ok(None) };
        self.resolved(MEDIATOR_KERNEL, &mediators.bags.stack(&mediators.targets)?).map(Some)
    }

    /// Adds the entries of the model card that only the command line writes.
    pub(super) fn extend_model_card(&self, fitted: &mut Fitted) {
        let facts =
            fitted.facts(if self.exact_totals { "which is rounding" } else { "which is taken for noise" });
        let card = &mut fitted.model.model_card;
        if !card.iter().any(|fact| fact.name == TARGETS_ARE) {
            let unit = if self.data.sums() { "weighted sums of rows" } else { "weighted means of rows" };
            card.push(CardEntry::new(TARGETS_ARE, unit));
        }
        card.extend(self.data.weight.as_ref().map(|name| CardEntry::new(WEIGHTS, name)));
        card.extend(self.exact_totals.then(|| CardEntry::new("totals", "exact")));
        card.extend(facts);
    }

    /// Refuses options that exclude each other.
    fn check(&self) -> Result<()> {
        let operator = self.data.operator;
        let conflicts = [
            (self.data.sum, "--sum: divide sums by their weights"),
            (self.published, "--published, which takes mediated or matched"),
            (self.inducing.is_some(), "--inducing, as it learns exactly: leave it out"),
        ];
        if let Some((_, reason)) = conflicts.iter().find(|(applies, _)| *applies && operator.regresses()) {
            return Err(Failure::input(format!(
                "--operator {} cannot be used with {reason}",
                operator.name()
            )));
        }
        if !(self.dispersion.is_finite() && self.dispersion >= 0.0) {
            return Err(Failure::input(format!(
                "--dispersion {} is not a number of at least 0: give one",
                self.dispersion
            )));
        }
        if self.dispersion > 0.0 && self.data.family == FamilyName::Gaussian {
            return Err(Failure::input("--dispersion is for counts: use --noise, or give --family"));
        }
        if self.exact_totals && self.data.family != FamilyName::Gaussian {
            return Err(Failure::input(
                "--exact-totals cannot be used with counts, which are random given their rates: leave it out",
            ));
        }
        Ok(())
    }

    pub(super) fn resolved(&self, kernel: &str, table: &Table) -> Result<Kernel> {
        let units = if self.no_standardise {
            ColumnScaling::raw(table.width())
        } else {
            ColumnScaling::standardised(table)
        };
        Ok(KernelExpression::parse(kernel)?.resolve(table, &units)?)
    }

    /// A description of the data.
    fn described(&self, data: &Aggregates) -> String {
        let (total, mediated) = (data.targets.len(), data.mediated());
        let unit = match (data.bags.unit(), &self.data.weight) {
            _ if self.data.family == FamilyName::Poisson => match &self.data.weight {
                Some(weight) => format!("counts of events among '{weight}'"),
                None => "counts of events among rows".into(),
            },
            _ if let Some(trials) = &self.data.trials => format!("counts of successes among '{trials}'"),
            (TargetUnit::Sum, Some(weight)) => format!("sums of rows, each times its '{weight}'"),
            (TargetUnit::Sum, None) => "sums of rows".into(),
            (TargetUnit::Mean, Some(weight)) => format!("means of rows, weighted by '{weight}'"),
            (TargetUnit::Mean, None) => "means of rows".into(),
        };
        if self.data.is_single_table() {
            return format!("{total} areas, {unit}, each with a row of its own");
        }
        format!(
            "{total} targets, {unit}: {} with rows of their own, {mediated} through mediators; {} rows in {} \
             bags",
            total - mediated,
            data.rows.rows(),
            data.bags.count()
        )
    }

    /// The number of inducing points; `None` for an exact fit.
    pub(super) fn points(&self, data: &Aggregates) -> Option<usize> {
        let is_exact = self.exact_totals || self.data.operator.regresses();
        self.inducing.or(data.usual_points().filter(|_| !is_exact))
    }

    /// Prints how a fit to many rows is made, unless the number of inducing points is given.
    pub(super) fn note_points(&self, data: &Aggregates, console: &Console) {
        if self.inducing.is_some() || data.usual_points().is_none() {
            return;
        }
        let (rows, bags) = (data.rows.rows(), data.bags.count());
        console.note(match self.points(data) {
            None => format!(
                "note: the fit to {rows} rows in {bags} bags is exact, and visits all pairs of rows many \
                 times"
            ),
            Some(points) => format!(
                "note: the fit to {rows} rows in {bags} bags uses {points} inducing points; change their \
                 number with --inducing N, more points for a closer fit"
            ),
        });
    }

    fn exactly(
        &self,
        start: AggregateGaussianProcess,
        aggregated: Aggregated,
        console: &Console,
    ) -> Result<Fitted> {
        let tuning =
            Tuning { conventions: self.conventions(), profiles: self.profiles(), ..Tuning::default() };
        let data = &aggregated.data;
        let message = format!("fitting {} rows in {} bags", data.rows.rows(), data.bags.count());
        let (process, mut fit) = with_progress(console, &message, &tuning.progress, || {
            if self.no_tuning {
                return start.fit(data).map(|fit| (start, fit));
            }
            let tuned = tuning.tune(&start, data)?;
            tuned.warnings.iter().for_each(|warning| console.warn(warning));
            if self.exact_totals {
                let process = tuned.process.with_exact_targets();
                return process.fit(data).map(|fit| (process, fit));
            }
            Ok((tuned.process, tuned.fit))
        })
        .map_err(|error| aggregated.named(error))?;
        if let Some(mediation) = process.mediation.filter(|_| data.mediated() > 0) {
            fit.model.model_card.extend(aggregated.mediation_entries(mediation, fit.variance, console)?);
        }
        let left_out = (data.targets.len() > 1).then(|| fit.leave_one_out()).transpose()?;
        let fitted = fit.fitted();
        if self.exact_totals {
            aggregated.check_totals(&fitted)?;
        }
        Ok(Fitted { model: fit.model, covariance: fit.covariance, aggregated, fitted, left_out })
    }

    /// The process through inducing points at which tuning starts.
    pub(super) fn sparse(
        &self,
        points: usize,
        start: AggregateGaussianProcess,
        data: &Aggregates,
        seed: u64,
    ) -> Result<SparseAggregateProcess> {
        Ok(SparseAggregateProcess {
            noise: start.noise,
            row_noise: Some(start.row_noise).filter(|noise| *noise > 0.0),
            mediation_noise: Some(start.mediation_noise).filter(|noise| *noise > 0.0),
            mediation: start.mediation,
            tune: if self.no_tuning { TunedParameters::Nothing } else { TunedParameters::KernelAndNoise },
            profiles: self.profiles(),
            priors: !self.published,
            approximation: if self.published { Approximation::Vfe } else { Approximation::Fitc },
            seed,
            ..SparseAggregateProcess::new(start.kernel, inducing_points(&data.rows, points, seed)?)
        })
    }

    fn fit_sparse(
        &self,
        points: usize,
        start: AggregateGaussianProcess,
        aggregated: Aggregated,
        seed: u64,
        console: &Console,
    ) -> Result<Fitted> {
        let data = &aggregated.data;
        let process = self.sparse(points, start, data, seed)?;
        let message = format!("fitting {} rows in {} bags", data.rows.rows(), data.bags.count());
        let fit = with_progress(console, &message, &process.progress, || process.fit_data(data));
        let mut fit = fit.map_err(|error| aggregated.named(error))?;
        if let Some(mediation) = fit.mediation.take() {
            fit.model.model_card.extend(aggregated.mediation_entries(mediation, 1.0, console)?);
        }
        fit.warnings.iter().for_each(|warning| console.warn(warning));
        let (fitted, left_out) = (fit.fitted, Some(fit.left_out));
        Ok(Fitted { model: fit.model, covariance: fit.covariance, aggregated, fitted, left_out })
    }
}

impl Aggregated {
    /// Returns an error if the fit does not reproduce the totals up to rounding.
    fn check_totals(&self, fitted: &[f64]) -> Result<()> {
        let Some((t, misfit)) = self.data.largest_mismatch(fitted) else { return Ok(()) };
        Err(Failure::input(format!(
            "--exact-totals: with this kernel no map meets the target of bag '{}' together with those of \
             similar bags; its error is {:.1e}: leave --exact-totals out for noise, or use a rougher \
             --kernel",
            self.targets[t], misfit
        )))
    }

    /// Model card entries for the regression on mediators, in squared units of the targets. Warns of distant
    /// mediators, whose targets are predicted badly, and of a shift of mediators.
    fn mediation_entries(
        &self,
        mediation: Mediation,
        variance: f64,
        console: &Console,
    ) -> Result<[CardEntry; 2]> {
        if let Some(warning) = self.data.mediator_shift_warning(0, Arc::default())? {
            console.warn(warning);
        }
        let distant_bags =
            self.data.distant_mediators(&mediation.kernel).into_iter().map(|t| self.targets[t].clone());
        let distant_bags: Vec<String> = distant_bags.collect();
        if !distant_bags.is_empty() {
            console.warn(format!(
                "the mediators of {} targets are far from those of all bags with rows, {}: their predictions \
                 are uncertain",
                distant_bags.len(),
                first_of(&distant_bags)
            ));
        }
        let scaled = mediation.scale_units(variance);
        Ok([
            CardEntry::new("kernel of mediators", scaled.kernel.formula()),
            CardEntry::measured("ridge of mediators", scaled.ridge),
        ])
    }
}

impl Fitted {
    /// Entries for the largest misfit and the leave-one-out predictions.
    fn facts(&self, misfit: &str) -> Vec<CardEntry> {
        let misfits = self.aggregated.data.targets.iter().zip(&self.fitted).map(|(z, estimate)| z - estimate);
        let largest_misfit =
            misfits.zip(&self.aggregated.targets).max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
        let describe = |(largest_misfit, bag): (f64, &String)| {
            let size = CardEntry::measured("", largest_misfit).value;
            CardEntry::new("largest misfit of a target", format!("{size} (bag '{bag}'), {misfit}"))
        };
        let mut facts: Vec<CardEntry> = largest_misfit.map(describe).into_iter().collect();
        if let Some(predictions) = &self.left_out {
            facts.push(CardEntry::measured("leave-one-out: RMSE", predictions.rmse()));
            facts.push(CardEntry::measured(
                "leave-one-out: share in the 95 % interval",
                predictions.coverage(1.96),
            ));
            facts.push(CardEntry::measured("leave-one-out: mean log density", -predictions.nlpd()));
        }
        facts
    }
}
