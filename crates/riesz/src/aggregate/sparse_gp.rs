//! Many rows: a process learnt from sums over bags through its values at inducing points, in closed form.
//!
//! Rows are seen through `Φ = PᵀK(X, W)` alone, the sums over bags of the kernel's features at the points W,
//! so that work is linear in their number and memory does not depend on it. For normal targets the best
//! distribution of the values at W is explicit, and so is the evidence that it gives, which kernel and noise
//! maximise, without minibatches. Source: Titsias 2009; of sums over bags Law et al. 2018, and Chau, Bouabid
//! and Sejdinovic 2021 (appendix), who climb to it by steps. Ours, and the default: what points leave
//! unexplained of a sum counts as its noise (as Snelson and Ghahramani 2006 have it of rows). The bound
//! charges for it instead, so that where bags are many kernels come out smoother than the map is, and
//! intervals too narrow.

mod collapsed;
mod features;
mod through;
mod turns;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use collapsed::Collapsed;
use features::Features;
use through::Through;

use super::Bags;
use super::aggregate_fit::LeaveOneOut;
use super::bag_gram::BagRows;
use super::mediation::Mediation;
use super::observation_operator::ObservationOperator;
use super::tuning::default_prior;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result, sized};
use crate::explanation::Fact;
use crate::fit::TunedParameters;
use crate::fit::hyperparameter_search::{self, HyperParameter, SearchOptions, SearchResult, add_log_priors};
use crate::kernel::{Kernel, Parameter};
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, dot};
use crate::posterior::{Posterior, PosteriorCovariance, VarianceReduction};
use crate::random::{Random, SeedableRng, index};
use crate::table::Table;

/// How sums are known through inducing points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Approximation {
    /// What points leave unexplained of a sum is noise of its own: the fully independent training
    /// conditional, of sums.
    #[default]
    Fitc,
    /// It lowers a bound of the evidence, the variational free energy, which the distribution of the values
    /// at the points maximises.
    Vfe,
}

/// `z_b = Σ_i w_i f(x_i) + ε_b` over the rows i of bag b, with f a Gaussian process around a constant, known
/// through its values at inducing points; the variance of `ε_b` is
/// `noise + row_noise Σ_i w_i² + known_noise_b`.
///
/// ```
/// use riesz::aggregate::{Bags, SparseAggregateProcess, TargetUnit, inducing_points};
/// use riesz::{Kernel, Table};
///
/// let rows: Vec<[f64; 1]> = (0..400).map(|i| [f64::from(i) / 100.0]).collect();
/// let (x, bag) = (Table::from_rows(&rows)?, (0..400).map(|i| i / 20).collect::<Vec<_>>());
/// let bags = Bags::new(&bag, 20, None, TargetUnit::Mean)?;
/// let means: Vec<f64> = rows.chunks(20).map(|b| b.iter().map(|r| r[0].sin()).sum::<f64>() / 20.0).collect();
/// let points = inducing_points(&x, 15, 0)?;
/// let fit = SparseAggregateProcess::new(Kernel::gaussian(&[1.0]), points).fit(&x, &bags, &means)?;
/// let (mean, sd) = (fit.model.predict(&x)?, fit.posterior().sd(&x)?);
/// assert!((0..400).all(|i| (mean[(i, 0)] - rows[i][0].sin()).abs() < 0.02 + 3.0 * sd[(i, 0)]));
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SparseAggregateProcess {
    /// The prior covariance of rows, in units of the [standardised](Self::normalize) target; where tuning
    /// starts.
    pub kernel: Kernel,
    /// The inducing points W: rows of the same columns, as [`inducing_points`](super::inducing_points)
    /// chooses them, centroids of bags, or others. None twice.
    pub points: Table,
    /// Variance of the noise of every target, > 0, in squared units of the standardised target; where tuning
    /// starts.
    pub noise: f64,
    /// Variance > 0 of independent noise of single rows, in the same units; where its tuning starts. `None`
    /// for none.
    pub row_noise: Option<f64>,
    /// How uncertain the regression on mediators is, > 0, for [`fit_data`](Self::fit_data): its variance
    /// counts so many times, in the same units, as noise of each target by itself; where its tuning starts.
    /// `None` where it is certain, and without mediated targets.
    pub mediation_noise: Option<f64>,
    /// Known variances ≥ 0 of single targets' errors, in squared units of the target. `None` for none.
    pub known_noise: Option<Vec<f64>>,
    /// How targets without rows are made of bags with rows, for [`fit_data`](Self::fit_data): where the
    /// choice of that begins.
    pub mediation: Option<Mediation>,
    /// The constant around which f varies. `None` for that which makes the evidence largest (generalised
    /// least squares); it then counts as known.
    pub mean: Option<f64>,
    /// Whether kernel and noise are in units of the spread that targets have around a constant f, for a mean
    /// over rows their standard deviation.
    pub normalize: bool,
    /// How sums are known through the points.
    pub approximation: Approximation,
    /// What is tuned: kernel, noise (with that of rows), both or nothing.
    pub tune: TunedParameters,
    /// Whether tuned parameters are believed to be near their starts, as by
    /// [`Conventions::Regularised`](super::Conventions::Regularised).
    pub priors: bool,
    /// Bounds for [`parameters`](Self::parameters), as of
    /// [`GaussianProcess::bounds`](crate::fit::GaussianProcess::bounds).
    pub bounds: Option<Vec<(f64, f64)>>,
    /// Runs of the optimiser from random places within the bounds, besides the run from the start.
    pub restarts: usize,
    /// Seed of these places, and of a sample of bags.
    pub seed: u64,
    /// Where there are at least twice as many bags, tuning begins with a sample of so many, and goes on from
    /// where all runs led with all bags, until a step adds hardly anything to the evidence. 1,000 by default.
    pub tuning_bags: usize,
    /// Set by another thread to give up.
    pub stop: Arc<AtomicBool>,
    /// Read by another thread to see how far it is: evaluations.
    pub progress: Arc<Progress>,
}

/// A process learnt from sums.
#[derive(Debug, Clone)]
pub struct SparseAggregateFit {
    /// The posterior mean over the inducing points, in the target's units, as are kernel and noise from here
    /// on; its intercept is the constant mean.
    pub model: KernelExpansion,
    /// What is besides: `Q = K⁻¹ - (K + ΦᵀD⁻¹Φ)⁻¹` over the points, K their gram matrix and D the targets'
    /// variances given what f is there.
    pub covariance: PosteriorCovariance,
    /// Variance of the noise of every target.
    pub noise: f64,
    /// Variance of the noise of rows; 0 without.
    pub row_noise: f64,
    /// How uncertain the regression on mediators is; 0 without.
    pub mediation_noise: f64,
    /// The logarithm of the targets' density as the approximation has it; by [`Approximation::Vfe`] it is at
    /// least that.
    pub log_marginal_likelihood: f64,
    /// `½ tr C⁻¹(PᵀKP - ΨᵀΨ)`: what points leave unexplained of the sums, in units of the noise, which is
    /// what a bound loses; of the size of 1 or more, more points make a better map.
    pub unexplained: f64,
    /// One a bag: the posterior mean of its sum.
    pub fitted: Vec<f64>,
    /// What the model expects of each target without having seen it; kernel, noise and points stay. Exactly
    /// that of fitting anew, but that a mean that is learnt does not count as known.
    pub left_out: LeaveOneOut,
    /// The standard error of the evidence where pairs of bags are sampled; 0 where they are not.
    pub evidence_error: f64,
    /// How targets without rows were made of bags with rows.
    pub mediation: Option<Mediation>,
    /// What was added to the diagonal of the points' gram matrix.
    pub jitter: f64,
    /// The parameters used, in the order and on the scale of [`SparseAggregateProcess::parameters`].
    pub theta: Vec<f64>,
    /// Steps of the optimiser, all runs together.
    pub steps: usize,
    /// Evaluations of the evidence, all runs together.
    pub evaluations: usize,
    /// What to look at.
    pub warnings: Vec<String>,
}

/// Where the tuning of the noise starts.
const START: f64 = 0.03;

/// Steps that add less to the evidence of many bags tell no parameters apart.
const MIN_EVIDENCE_GAIN: f64 = 0.01;

/// Targets, and what is known of them at any parameters.
struct SparseTargets {
    values: Vec<f64>,
    /// Known variances of their errors.
    known: Vec<f64>,
    /// By target the sum of weights, and what its variance has of the noise of rows, the sum of their
    /// squares, or of that of mediation, the variance of its regression.
    weight_sums: Vec<f64>,
    weight_norms: Vec<f64>,
    /// The squared unit of kernel and noise.
    variance: f64,
    rows: BagRows,
    points: Table,
    /// How they are made of bags, where they are not the bags.
    through: Option<Through>,
}

impl SparseTargets {
    /// Those of some bags, by the same unit.
    fn of_bags(&self, bags: &[usize]) -> Self {
        let of = |all: &[f64]| bags.iter().map(|&b| all[b]).collect();
        Self {
            values: of(&self.values),
            known: of(&self.known),
            weight_sums: of(&self.weight_sums),
            weight_norms: of(&self.weight_norms),
            variance: self.variance,
            rows: self.rows.of_bags(bags),
            points: self.points.clone(),
            through: None,
        }
    }

    /// Sums over their rows with the points, and with `slopes` what their gradient takes.
    fn features(&self, kernel: &Kernel, slopes: bool, watch: RunControl<'_>) -> Result<Features> {
        let own = self.rows.features(kernel, &self.points, slopes, watch)?;
        match &self.through {
            None => Ok(own),
            Some(through) => through.features(own, &self.rows, kernel, watch.stop),
        }
    }
}

impl SparseAggregateProcess {
    /// A process whose kernel and noise are tuned from there on, on standardised targets, around a constant
    /// that is learnt.
    pub fn new(kernel: Kernel, points: Table) -> Self {
        Self {
            kernel,
            points,
            noise: START,
            row_noise: None,
            mediation_noise: None,
            known_noise: None,
            mediation: None,
            mean: None,
            normalize: true,
            approximation: Approximation::default(),
            tune: TunedParameters::KernelAndNoise,
            priors: true,
            bounds: None,
            restarts: 0,
            seed: 0,
            tuning_bags: 1000,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }

    /// Names and starts of what can be tuned: the kernel's parameters, then the logarithms of the noise and
    /// of that of rows, or mediation.
    pub fn parameters(&self) -> Vec<Parameter> {
        let noise = [
            ("noise", Some(self.noise)),
            ("row noise", self.row_noise),
            ("mediation noise", self.mediation_noise),
        ];
        let noise = noise.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let noise = noise.map(|(name, value)| Parameter { name: name.into(), log_value: value.ln() });
        self.kernel.parameters().into_iter().chain(noise).collect()
    }

    fn watch(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }

    /// Fits to the targets of bags of rows of `x`. Cost of an evaluation O(rows points columns), O(rows²
    /// columns) of each bag, O(bags points²) and O(points³); memory O(bags points), times the number of
    /// parameters up to 256 MB.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`]; [`Error::Target`] if
    /// targets to be standardised are constant; [`Error::Overflow`];
    /// [`Error::NotPositiveDefinite`] where points are too near each other; [`Error::Interrupted`].
    pub fn fit(&self, x: &Table, bags: &Bags, targets: &[f64]) -> Result<SparseAggregateFit> {
        self.fit_targets(&self.check(x, bags, None, targets)?, self.parameters())
    }

    /// As [`fit`](Self::fit), of targets that a matrix B makes of bags. Cost of an evaluation besides: N²/2
    /// kernels for N rows up to 50,000; beyond, those of samples of rows for pairs of different bags, 4 times
    /// 10,000, and [`evidence_error`](SparseAggregateFit::evidence_error) says how well the evidence is known
    /// then; with J bags and M targets J²M. Memory JM and J².
    ///
    /// # Errors
    /// As [`fit`](Self::fit); [`Error::Parameter`] with noise of rows, which such targets share.
    pub fn fit_through(
        &self,
        x: &Table,
        bags: &Bags,
        operator: &ObservationOperator,
        targets: &[f64],
    ) -> Result<SparseAggregateFit> {
        self.fit_targets(&self.check(x, bags, Some(operator), targets)?, self.parameters())
    }

    /// With tuning that begins at these parameters.
    fn fit_targets(
        &self,
        targets: &SparseTargets,
        mut parameters: Vec<Parameter>,
    ) -> Result<SparseAggregateFit> {
        let watch = self.watch();
        let (of_kernel, all) = (self.kernel.parameters().len(), parameters.len());
        let free = match self.tune {
            TunedParameters::Nothing => all..all,
            TunedParameters::Kernel => 0..of_kernel,
            TunedParameters::Noise => of_kernel..all,
            TunedParameters::KernelAndNoise => 0..all,
        };
        let tuned = !free.is_empty();
        let many = tuned && targets.through.is_none() && targets.values.len() / 2 >= self.tuning_bags.max(1);
        let (bounds, restarts, seed) = (self.bounds.as_deref(), self.restarts, self.seed);
        // Where rows are sampled, the evidence is not known better than that either.
        let sampled = targets.through.as_ref().is_some_and(|own| !own.pairs.0.is_empty());
        let enough = if many || sampled { MIN_EVIDENCE_GAIN } else { 0.0 };
        let mut search =
            SearchOptions { bounds, restarts, seed, min_gain: enough, ..SearchOptions::default() };
        let (mut steps, mut evaluations, mut warnings) = (0, 0, Vec::new());
        if many {
            let mut random = Random::seed_from_u64(seed);
            let mut some = index::sample(&mut random, targets.values.len(), self.tuning_bags).into_vec();
            some.sort_unstable();
            let found = self.tune(&targets.of_bags(&some), &parameters, free.clone(), search, watch)?;
            parameters.iter_mut().zip(&found.theta).for_each(|(p, at)| p.log_value = *at);
            (steps, evaluations, warnings) = (found.steps, found.evaluations, found.warnings);
            // The evidence is a sum over bags, but for what is believed.
            let times = targets.values.len() as f64 / self.tuning_bags as f64;
            let curvature = found.curvature.times(times);
            search = SearchOptions { bounds, min_gain: enough, curvature, ..SearchOptions::default() };
        }
        let mut found = self.tune(targets, &parameters, free, search, watch)?;
        (found.steps, found.evaluations) = (found.steps + steps, found.evaluations + evaluations);
        found.warnings.extend(warnings);
        found.warnings.dedup();
        let (kernel, _) = self.at(targets, &found.theta);
        let features = targets.features(&kernel, false, watch)?;
        let state = self.state(targets, &found.theta, &features)?;
        self.result(targets, kernel, &features, &state, found, tuned)
    }

    /// Where the evidence, with what is believed of the parameters, is largest, as a search from these finds
    /// it.
    fn tune(
        &self,
        targets: &SparseTargets,
        from: &[Parameter],
        free: Range<usize>,
        search: SearchOptions<'_>,
        watch: RunControl<'_>,
    ) -> Result<SearchResult> {
        let slopes = free.contains(&0);
        let of = |(i, parameter): (usize, Parameter)| match self.priors && free.contains(&i) {
            true => default_prior(parameter),
            false => HyperParameter { parameter, weak: None },
        };
        let coordinates: Vec<HyperParameter> = self.parameters().into_iter().enumerate().map(of).collect();
        // Sums do not change with the noise alone.
        let mut same = None;
        let objective = |theta: &[f64]| {
            let (kernel, _) = self.at(targets, theta);
            let features = match same.take() {
                Some(features) => features,
                None => targets.features(&kernel, slopes, watch)?,
            };
            let state = self.state(targets, theta, &features)?;
            watch.check_cancelled()?;
            let gradient = self.gradient(targets, theta, &state, &features, slopes, watch)?;
            same = (!slopes).then_some(features);
            Ok(add_log_priors(&coordinates, theta, (state.value, gradient)))
        };
        hyperparameter_search::maximise(from, free, search, watch, objective)
    }

    /// The evidence, as the approximation has it, and its gradient in `theta`, which has the order and scale
    /// of [`parameters`](Self::parameters); without what is believed of these.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn log_marginal_likelihood(
        &self,
        x: &Table,
        bags: &Bags,
        targets: &[f64],
        theta: &[f64],
    ) -> Result<(f64, Vec<f64>)> {
        self.evidence_of(&self.check(x, bags, None, targets)?, theta)
    }

    fn evidence_of(&self, targets: &SparseTargets, theta: &[f64]) -> Result<(f64, Vec<f64>)> {
        let watch = RunControl::nobody();
        hyperparameter_search::check("theta", "numbers", theta.len(), &self.parameters())?;
        let (kernel, _) = self.at(targets, theta);
        let features = targets.features(&kernel, true, watch)?;
        let state = self.state(targets, theta, &features)?;
        let gradient = self.gradient(targets, theta, &state, &features, true, watch)?;
        Ok((state.value, gradient))
    }

    /// Kernel and noises, of targets and of rows or mediation, in the target's units.
    fn at(&self, targets: &SparseTargets, theta: &[f64]) -> (Kernel, [f64; 2]) {
        let (kernel, noise) = theta.split_at(self.kernel.parameters().len());
        let noise = [0, 1].map(|i| noise.get(i).map_or(0.0, |v| targets.variance * v.exp()));
        (targets.variance * self.kernel.with_parameters(kernel), noise)
    }

    fn state(&self, targets: &SparseTargets, theta: &[f64], features: &Features) -> Result<Collapsed> {
        let (kernel, [noise, of_rows]) = self.at(targets, theta);
        let all =
            targets.weight_norms.iter().zip(&targets.known).map(|(s, known)| noise + of_rows * s + known);
        let given = (&targets.values[..], &targets.weight_sums[..]);
        let noise: Vec<f64> = all.collect();
        Collapsed::new(&kernel, &targets.points, features, (self.approximation, &noise), given, self.mean)
    }

    /// Of the evidence; zeros for the kernel's parameters if their slopes are not asked for.
    fn gradient(
        &self,
        targets: &SparseTargets,
        theta: &[f64],
        state: &Collapsed,
        features: &Features,
        slopes: bool,
        watch: RunControl<'_>,
    ) -> Result<Vec<f64>> {
        let (kernel, [noise, of_rows]) = self.at(targets, theta);
        let mut gradient = if slopes {
            state.by_kernel(
                &kernel,
                &targets.points,
                (&targets.rows, features, targets.through.as_ref()),
                watch,
            )?
        } else {
            vec![0.0; self.kernel.parameters().len()]
        };
        gradient.push(noise * state.by_noise.iter().sum::<f64>());
        if self.row_noise.or(self.mediation_noise).is_some() {
            gradient.push(of_rows * dot(&state.by_noise, &targets.weight_norms));
        }
        Ok(gradient)
    }

    fn check(
        &self,
        x: &Table,
        bags: &Bags,
        operator: Option<&ObservationOperator>,
        values: &[f64],
    ) -> Result<SparseTargets> {
        crate::fit::check(x, x.rows(), 1)?;
        sized(
            "a column of the bags' weights",
            "numbers",
            x.rows(),
            bags.weights().rows(),
            "one a row of the table",
        )?;
        let (count, why) =
            operator.map_or((bags.count(), "one a bag"), |b| (b.targets(), "one a column of the operator"));
        sized("the list of targets", "numbers", count, values.len(), why)?;
        if let Some(operator) = operator {
            sized("the operator", "rows", bags.count(), operator.bags(), "one a bag")?;
        }
        if let Some(noise) = self.row_noise.filter(|_| operator.is_some()) {
            let allowed = "none where targets are made of bags by an operator, as they share it";
            return Err(Error::parameter("row_noise", noise, allowed));
        }
        if let Some(noise) = self.mediation_noise.filter(|_| operator.is_none()) {
            let allowed = "none where targets are bags with rows";
            return Err(Error::parameter("mediation_noise", noise, allowed));
        }
        self.kernel.validate(x.width())?;
        let points = self.points.align_to(x.columns())?;
        if points.rows() == 0 {
            return Err(Error::TooFew {
                what: "the table of inducing points".into(),
                needed: 1,
                unit: "point is",
            });
        }
        let least = if self.mean.is_none() || self.normalize { 2 } else { 1 };
        if values.len() < least {
            let what = format!("a list of {} target(s)", values.len());
            return Err(Error::TooFew { what, needed: least, unit: "targets are" });
        }
        if let Some(row) = values.iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite { row, column: "target".into(), value: values[row] });
        }
        let noises = [
            ("noise", Some(self.noise)),
            ("row_noise", self.row_noise),
            ("mediation_noise", self.mediation_noise),
        ];
        for (name, value) in noises {
            if let Some(bad) = value.filter(|v| !(v.is_finite() && *v > 0.0)) {
                return Err(Error::parameter(name, bad, "it is a positive number (a variance)"));
            }
        }
        if let Some(mean) = self.mean.filter(|v| !v.is_finite()) {
            return Err(Error::parameter("mean", mean, "it is a finite number"));
        }
        if let Some(known) = &self.known_noise {
            sized("known_noise", "numbers", values.len(), known.len(), "one a bag")?;
            if let Some(bad) = known.iter().find(|v| !(v.is_finite() && **v >= 0.0)) {
                return Err(Error::parameter("known_noise", bad, "variances are not negative"));
            }
        }
        let each = values.len().max(bags.count()).saturating_add(4 * points.rows());
        crate::memory::check_allocation("number of inducing points", points.rows(), each)?;
        let weights = bags.weights();
        let sum = |b: usize, of: fn(f64) -> f64| weights.column(b).map(|(_, w)| of(w)).sum();
        let mut ones: Vec<f64> = (0..bags.count()).map(|b| sum(b, |w| w)).collect();
        let mut squares = (0..bags.count()).map(|b| sum(b, |w| w * w)).collect();
        if let Some(operator) = operator {
            ones = operator.transpose_times(&Matrix::column_vector(ones)).column(0);
            let of = |t: usize| operator.regression_covariance().map_or(0.0, |own| own[(t, t)].max(0.0));
            squares = (0..values.len()).map(of).collect();
        }
        let variance = if self.normalize { spread(values, &ones, self.mean)? } else { 1.0 };
        let known = self.known_noise.clone().unwrap_or_else(|| vec![0.0; values.len()]);
        let rows = BagRows::new(x, bags.weights());
        let through = operator.map(|operator| Through::new(operator, &rows, self.seed));
        Ok(SparseTargets {
            values: values.to_vec(),
            known,
            weight_sums: ones,
            weight_norms: squares,
            variance,
            rows,
            points,
            through,
        })
    }

    fn result(
        &self,
        targets: &SparseTargets,
        kernel: Kernel,
        features: &Features,
        state: &Collapsed,
        found: SearchResult,
        tuned: bool,
    ) -> Result<SparseAggregateFit> {
        let (_, [noise, other]) = self.at(targets, &found.theta);
        let [row_noise, mediation_noise] =
            [self.row_noise, self.mediation_noise].map(|own| if own.is_some() { other } else { 0.0 });
        let bags = targets.values.len();
        let fitted =
            (0..bags).map(|b| state.mean * targets.weight_sums[b] + dot(features.phi.row(b), &state.alpha));
        let (mut expected, mut variance) = (Vec::new(), Vec::new());
        for (b, precision) in state.precision.iter().enumerate() {
            // Without its target the constant mean is another one, and how sure it is counts (Dubrule 1983).
            let of_mean = state.of_mean.as_ref().map_or(0.0, |(by, square)| by[b] * by[b] / square);
            expected.push(targets.values[b] - state.residual[b] / (precision - of_mean));
            variance.push(1.0 / (precision - of_mean) + state.besides[b]);
        }
        let left_out = LeaveOneOut::normal(targets.values.clone(), expected, variance);
        let (points, alpha) = (targets.points.clone(), Matrix::column_vector(state.alpha.clone()));
        let mut model = KernelExpansion::new(kernel, points, alpha, vec![state.mean])?;
        model.model_card = vec![
            Fact::new("model", "Gaussian process of sums over bags, through inducing points"),
            Fact::measured("noise, in squared units of the target", noise),
            Fact::new("bags", bags),
            Fact::new("inducing points", targets.points.rows()),
            Fact::measured(
                match self.approximation {
                    Approximation::Fitc => "log marginal likelihood (FITC)",
                    Approximation::Vfe => "bound of the log marginal likelihood",
                },
                state.value,
            ),
            Fact::measured("what the points leave unexplained, by the noise", state.unexplained),
            Fact::measured("jitter", state.points.jitter),
        ];
        let evidence_error = state.error(&features.priors);
        if evidence_error > 0.0 {
            let what = "standard error of the log marginal likelihood, by samples of rows";
            model.model_card.push(Fact::measured(what, evidence_error));
        }
        if self.row_noise.is_some() {
            model
                .model_card
                .insert(2, Fact::measured("noise of rows, in squared units of the target", row_noise));
        }
        if self.mediation_noise.is_some() {
            let what = "noise of mediation, in squared units of the target";
            model.model_card.insert(2, Fact::measured(what, mediation_noise));
        }
        model.model_card.extend(found.facts(tuned.then_some(self.restarts)));
        let known = vec![VarianceReduction::LowRank(state.root()?)];
        let SearchResult { theta, steps, evaluations, warnings, .. } = found;
        Ok(SparseAggregateFit {
            model,
            covariance: PosteriorCovariance {
                prior_scale: 1.0,
                skew_swap: None,
                reduction: known,
                scale: vec![1.0],
            },
            noise,
            row_noise,
            mediation_noise,
            log_marginal_likelihood: state.value,
            unexplained: state.unexplained,
            fitted: fitted.collect(),
            left_out,
            evidence_error,
            mediation: None,
            jitter: state.points.jitter,
            theta,
            steps,
            evaluations,
            warnings,
        })
    }
}

/// The squared spread of f that targets show around a constant f: that which fits best by least squares
/// unless it is given.
fn spread(values: &[f64], ones: &[f64], mean: Option<f64>) -> Result<f64> {
    let square = dot(ones, ones);
    let mean = mean.unwrap_or_else(|| dot(values, ones) / square);
    let spread = values.iter().zip(ones).map(|(z, s)| (z - s * mean).powi(2)).sum::<f64>() / square;
    if spread.sqrt() > 1e-12 * mean.abs() && spread > 0.0 && spread.is_finite() {
        return Ok(spread);
    }
    let problem = format!(
        "has no spread around {mean:.4e} a row: there is nothing to learn, or set normalize to false"
    );
    Err(Error::Target { name: "target".into(), problem })
}

impl SparseAggregateFit {
    /// The posterior of f.
    pub fn posterior(&self) -> Posterior<'_> {
        Posterior::of(&self.model, &self.covariance)
    }
}

#[cfg(test)]
mod tests {
    use super::through::Pairs;
    use super::*;
    use crate::aggregate::{Mediators, TargetUnit};

    /// Slopes of the evidence of targets that a matrix makes of bags are its differences, by all pairs of
    /// rows and by samples of them.
    #[test]
    fn slopes_through_mediators_are_differences() {
        let value = |i: usize| ((i * 7919) % 1013) as f64 / 400.0;
        let rows: Vec<[f64; 2]> = (0..80).map(|i| [value(2 * i), value(2 * i + 1)]).collect();
        let x = Table::from_rows(&rows).unwrap();
        let bags = Bags::new(&(0..80).map(|i| i % 9).collect::<Vec<_>>(), 9, None, TargetUnit::Mean).unwrap();
        let coarse = |from: usize, n: usize| {
            Table::from_rows(&(from..from + n).map(|i| [value(i)]).collect::<Vec<_>>()).unwrap()
        };
        let mediators = Mediators { bags: coarse(3, 9), targets: coarse(40, 7), totals: None };
        let mediation = Mediation::new(Kernel::gaussian(&[0.7]), 1e-2);
        let own = [Some(4), None, None, None, None, Some(0), None];
        let operator = ObservationOperator::new(&bags, &own, Some((&mediation, &mediators))).unwrap();
        let points = x.select_rows(&(0..12).map(|i| 6 * i).collect::<Vec<_>>());
        let mut process = SparseAggregateProcess::new(Kernel::gaussian(&[0.8, 1.3]), points);
        process.mediation_noise = Some(0.2);
        let z: Vec<f64> = (0..7).map(|t| value(11 * t).sin()).collect();
        let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
        let mut targets = process.check(&x, &bags, Some(&operator), &z).unwrap();
        let both = [Approximation::Fitc, Approximation::Vfe];
        for (sampled, approximation) in both.into_iter().flat_map(|own| [(false, own), (true, own)]) {
            let process = SparseAggregateProcess { approximation, ..process.clone() };
            targets.through.as_mut().unwrap().pairs = Pairs(Vec::new());
            if sampled {
                let mut random = Random::seed_from_u64(1);
                let pairs = (0..3).map(|_| targets.rows.sample(30, &mut random)).collect();
                targets.through.as_mut().unwrap().pairs = Pairs(pairs);
            }
            let (value, gradient) = process.evidence_of(&targets, &theta).unwrap();
            for i in 0..theta.len() {
                let at = |by: f64| {
                    let mut moved = theta.clone();
                    moved[i] += by;
                    process.evidence_of(&targets, &moved).unwrap().0
                };
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!(
                    (slope - gradient[i]).abs() < 1e-5 * value.abs().max(1.0),
                    "{i}: {slope} {}",
                    gradient[i]
                );
            }
        }
    }

    /// Samples of rows say of pairs of bags on average what all rows say, and their standard error is as
    /// large as they are off.
    #[test]
    fn samples_stand_for_all_rows() {
        let value = |i: usize| ((i * 7919) % 1013) as f64 / 400.0;
        let rows: Vec<[f64; 2]> = (0..300).map(|i| [value(2 * i), value(2 * i + 1)]).collect();
        let x = Table::from_rows(&rows).unwrap();
        let (bag, weights): (Vec<usize>, Vec<f64>) = (0..300).map(|i| (i % 5, 0.2 + value(i))).unzip();
        let bags = Bags::new(&bag, 5, Some(&weights), TargetUnit::Mean).unwrap();
        let (all, kernel) = (BagRows::new(&x, bags.weights()), Kernel::gaussian(&[0.8, 1.3]));
        let (mut random, watch) = (Random::seed_from_u64(3), RunControl::nobody());
        let exact = all.gram(&kernel, watch.stop).unwrap();
        let draws: Vec<Matrix> =
            (0..400).map(|_| all.sample(60, &mut random).gram(&kernel, watch.stop).unwrap()).collect();
        for (b, c) in [(0, 1), (2, 4), (3, 1)] {
            let mean = draws.iter().map(|own| own[(b, c)]).sum::<f64>() / 400.0;
            let square = draws.iter().map(|own| (own[(b, c)] - mean).powi(2)).sum::<f64>() / 400.0;
            let off = (mean - exact[(b, c)]) / (square / 400.0).sqrt();
            assert!(off.abs() < 4.0 && square > 0.0, "{off}");
        }
    }
}
