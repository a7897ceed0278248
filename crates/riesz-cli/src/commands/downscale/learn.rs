//! What `downscale fit` and `downscale check` share: two tables in, a fitted process out.

use riesz::aggregate::{
    AggregateGaussianProcess, Aggregates, Approximation, Conventions, LeaveOneOut, Mediation,
    SparseAggregateProcess, TargetUnit, Tuning, inducing_points,
};
use riesz::explanation::Fact;
use riesz::fit::TunedParameters;
use riesz::kernel::{ColumnScaling, KernelExpression};
use riesz::{Kernel, KernelExpansion, PosteriorCovariance, Table};

use crate::console::{Console, watched};
use crate::failure::{Failure, Result};
use crate::io::aggregates::{AggregateArgs, Aggregated, FamilyName, OperatorName};
use crate::io::duels::first_of;

/// Where the tuning of the mediators' kernel starts.
pub(super) const MEDIATOR_KERNEL: &str = "rbf(lengthscale=0.5, ard)";

/// The facts of a model that say what it was learnt from: what targets are of rows, and the column of their
/// weights.
pub(super) const TARGETS_ARE: &str = "targets are";
pub(super) const WEIGHTS: &str = "weights of rows";

/// What is learnt from, and how.
#[derive(Debug, Clone, clap::Args)]
pub struct Learn {
    /// The tables.
    #[command(flatten)]
    pub given: AggregateArgs,
    /// Kernel between rows, an expression, where tuning starts; 'riesz fit --help' says which there are
    #[arg(long, value_name = "EXPR", default_value = "rbf(lengthscale=1, ard)")]
    pub kernel: String,
    /// Variance of the noise of a target, in units of the targets' variance; where tuning starts [default:
    /// 0.03]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub noise: Option<f64>,
    /// (counts) By how much counts vary more than their family (then negative binomial, or beta-binomial),
    /// where tuning starts [default: not at all; counts through mediators always do]
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.0,
        hide_default_value = true,
        allow_negative_numbers = true
    )]
    pub dispersion: f64,
    /// Take columns as they are instead of standardising them
    #[arg(long, visible_alias = "no-standardize")]
    pub no_standardise: bool,
    /// Keep kernel and noise as they are instead of tuning them
    #[arg(long)]
    pub no_tuning: bool,
    /// The conventions of the published experiments: mediators not centred, with a ridge of 0.01 as it is,
    /// and all else by the marginal likelihood alone; inducing points by a bound (VFE)
    #[arg(long)]
    pub published: bool,
    /// Make the map add up to the targets exactly, as if they had no noise: for means and sums of rows of
    /// their own
    #[arg(long, conflicts_with_all = ["noise", "published", "inducing", "se", "mediators"])]
    pub exact_totals: bool,
    /// Learn through so many inducing points [default: exactly up to 10,000 rows and 4,000 bags, with
    /// mediators 50,000 rows, beyond through up to 1,000]
    #[arg(long, value_name = "N")]
    pub inducing: Option<usize>,
}

/// A fitted process.
pub struct Fitted {
    /// The map.
    pub model: KernelExpansion,
    /// How sure it is.
    pub covariance: PosteriorCovariance,
    /// What was learnt from.
    pub given: Aggregated,
    /// What the map makes of each target.
    pub fitted: Vec<f64>,
    /// What the others say of each; `None` of a single one.
    pub left_out: Option<LeaveOneOut>,
}

impl Learn {
    /// Reads and fits, and says what was read and what to look at.
    pub fn fitted(&self, seed: u64, console: &Console) -> Result<Fitted> {
        if let Some(noise) = self.noise.filter(|noise| !(noise.is_finite() && *noise > 0.0)) {
            return Err(Failure::input(format!("--noise {noise}: a variance is a positive number")));
        }
        self.check()?;
        let given = self.given.read(console)?;
        let data = &given.data;
        console.note(self.described(data));
        // That hardly any target has rows of its own is no news where all are to be learnt from through
        // mediators.
        let few = data.hardly_matched().filter(|_| self.given.operator != OperatorName::Auto);
        let doubts = data.doubts().into_iter().filter(|doubt| few.as_ref() != Some(doubt));
        given.notes.iter().cloned().chain(doubts).for_each(|note| console.warn(note));
        if let Some(family) = given.family.clone() {
            return self.counted(family, given, seed, console);
        }
        let kernel = self.resolved(&self.kernel, &data.rows)?;
        let every = data.mediators.as_ref().map(|own| own.bags.stack(&own.targets)).transpose()?;
        let of_mediators = every.map(|every| self.resolved(MEDIATOR_KERNEL, &every)).transpose()?;
        let conventions = if self.published { Conventions::Published } else { Conventions::Regularised };
        let mut start = conventions.start(kernel, of_mediators, data);
        start.noise = self.noise.unwrap_or(start.noise);
        if self.exact_totals {
            start = start.with_exact_targets();
        }
        let operator = self.given.operator;
        if operator.regresses() {
            start = start.regressing_targets(operator == OperatorName::TwoSided, data);
        }
        let mut found = match self.points(data, console) {
            Some(points) => self.through(points, start, given, seed, console)?,
            None => self.exactly(start, conventions, given, console)?,
        };
        found.model.output_names = vec![self.given.target.clone()];
        self.say_more(&mut found);
        Ok(found)
    }

    /// What the model's card says besides what the library does.
    pub(super) fn say_more(&self, found: &mut Fitted) {
        let facts =
            found.facts(if self.exact_totals { "which is rounding" } else { "which is taken for noise" });
        let card = &mut found.model.model_card;
        if !card.iter().any(|fact| fact.name == TARGETS_ARE) {
            let what = if self.given.sums() { "weighted sums of rows" } else { "weighted means of rows" };
            card.push(Fact::new(TARGETS_ARE, what));
        }
        card.extend(self.given.weight.as_ref().map(|name| Fact::new(WEIGHTS, name)));
        card.extend(self.exact_totals.then(|| Fact::new("totals", "exact")));
        card.extend(facts);
    }

    /// Options that do not go together.
    fn check(&self) -> Result<()> {
        let operator = self.given.operator;
        let regressed = [
            (self.given.sum, "--sum: divide sums by their weights"),
            (self.published, "--published, which takes mediated or matched"),
            (self.inducing.is_some(), "--inducing, as it learns exactly: leave it out"),
        ];
        if let Some((_, why)) = regressed.iter().find(|(is, _)| *is && operator.regresses()) {
            return Err(Failure::input(format!("--operator {} cannot be used with {why}", operator.name())));
        }
        if !(self.dispersion.is_finite() && self.dispersion >= 0.0) {
            return Err(Failure::input(format!(
                "--dispersion {}: it is a number, not negative",
                self.dispersion
            )));
        }
        if self.dispersion > 0.0 && self.given.family == FamilyName::Gaussian {
            return Err(Failure::input("--dispersion is of counts: take --noise, or say --family"));
        }
        if self.exact_totals && self.given.family != FamilyName::Gaussian {
            return Err(Failure::input(
                "--exact-totals: counts vary by what they are, and rates do not add up to them: leave it out",
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

    /// What was read, in words.
    fn described(&self, data: &Aggregates) -> String {
        let (all, mediated) = (data.targets.len(), data.mediated());
        let what = match (data.bags.unit(), &self.given.weight) {
            _ if self.given.family == FamilyName::Poisson => match &self.given.weight {
                Some(weight) => format!("counts of events among '{weight}'"),
                None => "counts of events among rows".into(),
            },
            _ if let Some(trials) = &self.given.trials => format!("counts of successes among '{trials}'"),
            (TargetUnit::Sum, Some(weight)) => format!("sums of rows, each times its '{weight}'"),
            (TargetUnit::Sum, None) => "sums of rows".into(),
            (TargetUnit::Mean, Some(weight)) => format!("means of rows, weighted by '{weight}'"),
            (TargetUnit::Mean, None) => "means of rows".into(),
        };
        format!(
            "{all} targets, {what}: {} with rows of their own, {mediated} through mediators; {} rows in {} \
             bags",
            all - mediated,
            data.rows.rows(),
            data.bags.count()
        )
    }

    /// Through how many inducing points.
    fn points(&self, data: &Aggregates, console: &Console) -> Option<usize> {
        let usual = data.usual_points().filter(|_| self.inducing.is_none());
        let (rows, bags) = (data.rows.rows(), data.bags.count());
        if usual.is_some() && (self.exact_totals || self.given.operator.regresses()) {
            console.note(format!(
                "note: {rows} rows in {bags} bags are learnt from exactly, which looks at all pairs of rows \
                 many times"
            ));
            return None;
        }
        if let Some(points) = usual {
            console.note(format!(
                "note: {rows} rows in {bags} bags are learnt from through {points} inducing points; \
                 --inducing N says otherwise, more points for a closer fit"
            ));
        }
        self.inducing.or(usual)
    }

    fn exactly(
        &self,
        start: AggregateGaussianProcess,
        conventions: Conventions,
        given: Aggregated,
        console: &Console,
    ) -> Result<Fitted> {
        let (tuning, data) = (Tuning { conventions, ..Tuning::default() }, &given.data);
        let message = format!("fitting {} rows in {} bags", data.rows.rows(), data.bags.count());
        let (process, mut fit) = watched(console, &message, &tuning.progress, || {
            if self.no_tuning {
                return start.fit(data).map(|fit| (start, fit));
            }
            let found = tuning.tune(&start, data)?;
            found.warnings.iter().for_each(|warning| console.warn(warning));
            if self.exact_totals {
                let process = found.process.with_exact_targets();
                return process.fit(data).map(|fit| (process, fit));
            }
            Ok((found.process, found.fit))
        })
        .map_err(|error| given.named(error))?;
        if let Some(own) = process.mediation.filter(|_| data.mediated() > 0) {
            fit.model.model_card.extend(given.of_mediators(own, fit.variance, console));
        }
        let left_out = (data.targets.len() > 1).then(|| fit.left_out()).transpose()?;
        let fitted = fit.fitted();
        if self.exact_totals {
            given.met(&fitted)?;
        }
        Ok(Fitted { model: fit.model, covariance: fit.covariance, given, fitted, left_out })
    }

    fn through(
        &self,
        points: usize,
        start: AggregateGaussianProcess,
        given: Aggregated,
        seed: u64,
        console: &Console,
    ) -> Result<Fitted> {
        let data = &given.data;
        let process = SparseAggregateProcess {
            noise: start.noise,
            row_noise: Some(start.row_noise).filter(|noise| *noise > 0.0),
            mediation_noise: Some(start.mediation_noise).filter(|noise| *noise > 0.0),
            mediation: start.mediation,
            tune: if self.no_tuning { TunedParameters::Nothing } else { TunedParameters::KernelAndNoise },
            priors: !self.published,
            approximation: if self.published { Approximation::Vfe } else { Approximation::Fitc },
            seed,
            ..SparseAggregateProcess::new(start.kernel, inducing_points(&data.rows, points, seed)?)
        };
        let message = format!("fitting {} rows in {} bags", data.rows.rows(), data.bags.count());
        let fit = watched(console, &message, &process.progress, || process.fit_data(data));
        let mut fit = fit.map_err(|error| given.named(error))?;
        if let Some(own) = fit.mediation.take() {
            fit.model.model_card.extend(given.of_mediators(own, 1.0, console));
        }
        fit.warnings.iter().for_each(|warning| console.warn(warning));
        let (fitted, left_out) = (fit.fitted, Some(fit.left_out));
        Ok(Fitted { model: fit.model, covariance: fit.covariance, given, fitted, left_out })
    }
}

impl Aggregated {
    /// Refuses totals that are not met but for rounding.
    fn met(&self, fitted: &[f64]) -> Result<()> {
        let Some((t, off)) = self.data.largest_mismatch(fitted) else { return Ok(()) };
        Err(Failure::input(format!(
            "--exact-totals: no map that this kernel can tell meets the target of bag '{}', off by {:.1e}, \
             beside those of bags like it: leave --exact-totals out for noise, or take a rougher --kernel",
            self.targets[t], off
        )))
    }

    /// What was found of the regression on mediators, by the squared unit of the targets; those of which it
    /// says little are warned of.
    fn of_mediators(&self, own: Mediation, variance: f64, console: &Console) -> [Fact; 2] {
        let far = self.data.far(&own.kernel).into_iter().map(|t| self.targets[t].clone());
        let far: Vec<String> = far.collect();
        if !far.is_empty() {
            console.warn(format!(
                "the mediators of {} targets are far from those of all bags with rows, {}: of these little \
                 is known",
                far.len(),
                first_of(&far)
            ));
        }
        let own = own.scale_units(variance);
        [
            Fact::new("kernel of mediators", own.kernel.formula()),
            Fact::measured("ridge of mediators", own.ridge),
        ]
    }
}

impl Fitted {
    /// How well targets are met, and left out.
    fn facts(&self, misfit: &str) -> Vec<Fact> {
        let misfits = self.given.data.targets.iter().zip(&self.fitted).map(|(z, own)| z - own);
        let largest = misfits.zip(&self.given.targets).max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
        let told = |(off, bag): (f64, &String)| {
            let size = Fact::measured("", off).value;
            Fact::new("largest misfit of a target", format!("{size} (bag '{bag}'), {misfit}"))
        };
        let mut facts: Vec<Fact> = largest.map(told).into_iter().collect();
        if let Some(own) = &self.left_out {
            facts.push(Fact::measured("left-out targets: RMSE", own.rmse()));
            facts.push(Fact::measured("left-out targets: coverage of 95 %", own.coverage(1.96)));
            facts.push(Fact::measured("left-out targets: mean log density", -own.nlpd()));
        }
        facts
    }
}
