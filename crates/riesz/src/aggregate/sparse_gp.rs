//! Aggregated observations of many rows: a process learnt from sums over bags through inducing points, in
//! closed form.
//!
//! Rows enter only through `Φ = PᵀK(X, W)`, the sums over bags of the kernel's features at the inducing
//! points W, so that work is linear in their number and memory does not depend on it. For normal targets the
//! optimal distribution of the values at W is explicit, and so is the resulting evidence, which is maximised
//! over kernel and noise without minibatches. Sources: Titsias 2009; for sums over bags Law et al. 2018, and
//! Chau, Bouabid and Sejdinovic 2021 (appendix), who optimise it by gradient steps. The default is ours: the
//! variance of a sum that the points leave unexplained counts as noise of this sum (as Snelson and Ghahramani
//! 2006 do for rows). The variational bound subtracts a penalty for it instead, so that with many bags
//! kernels come out smoother than the map is, and intervals too narrow.

mod alternating_tuning;
mod bag_features;
mod collapsed;
mod mediated_features;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bag_features::BagFeatures;
use collapsed::CollapsedEvidence;
use mediated_features::MediatedFeatures;

use super::Bags;
use super::aggregate_fit::LeaveOneOut;
use super::bag_gram::BagRows;
use super::mediation::Mediation;
use super::observation_operator::ObservationOperator;
use super::tuning::default_prior;
use crate::control::{Progress, RunControl};
use crate::error::{Error, Result, sized};
use crate::fit::TunedParameters;
use crate::fit::hyperparameter_search::{self, HyperParameter, SearchOptions, SearchResult, add_log_priors};
use crate::kernel::{Kernel, Parameter};
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, dot};
use crate::model_card::CardEntry;
use crate::posterior::{Posterior, PosteriorCovariance, VarianceReduction};
use crate::random::{Random, SeedableRng, index};
use crate::table::Table;

/// Approximation of the covariance of sums by inducing points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Approximation {
    /// The unexplained variance of a sum is additional noise: the fully independent training conditional, for
    /// sums.
    #[default]
    Fitc,
    /// The unexplained variance lowers a bound of the evidence, the variational free energy, which is
    /// maximised by the distribution of the values at the points.
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
    /// Variance > 0 of the regression on mediators, for [`fit_data`](Self::fit_data), in the units of the
    /// noise: as many times the regression's covariance counts as independent noise of each target. Tuning
    /// starts here. `None` where the regression is taken as certain, and without mediated targets.
    pub mediation_noise: Option<f64>,
    /// Known variances ≥ 0 of single targets' errors, in squared units of the target. `None` for none.
    pub known_noise: Option<Vec<f64>>,
    /// The regression on mediators for targets without rows, for [`fit_data`](Self::fit_data): the start of
    /// its tuning.
    pub mediation: Option<Mediation>,
    /// The constant prior mean of f. `None` for the one with the largest evidence (generalised
    pub mean: Option<f64>,
    /// Whether kernel and noise are in units of the spread that targets have around a constant f, for a mean
    /// over rows their standard deviation.
    pub normalize: bool,
    /// The approximation by the points.
    pub approximation: Approximation,
    /// The parameters that are tuned: kernel, noise (with that of rows), both or none.
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
    /// Variance reduction relative to the prior: `Q = K⁻¹ - (K + ΦᵀD⁻¹Φ)⁻¹` over the points, where K is their
    /// gram matrix and D holds the targets' variances given the values of f at the points.
    pub covariance: PosteriorCovariance,
    /// Variance of the noise of every target.
    pub noise: f64,
    /// Variance of the noise of rows; 0 without.
    pub row_noise: f64,
    /// Variance of the regression on mediators; 0 without mediators.
    pub mediation_noise: f64,
    /// The logarithm of the targets' density as the approximation has it; by [`Approximation::Vfe`] it is at
    /// least that.
    pub log_marginal_likelihood: f64,
    /// `½ tr C⁻¹(PᵀKP - ΨᵀΨ)`: what points leave unexplained of the sums, in units of the noise, which is
    /// what a bound loses; of the size of 1 or more, more points make a better map.
    pub unexplained: f64,
    /// One a bag: the posterior mean of its sum.
    pub fitted: Vec<f64>,
    /// Predictions of each target from all others, with the same kernel, noise and points. They equal those
    /// of fitting again, but include the uncertainty of an estimated mean.
    pub left_out: LeaveOneOut,
    /// The standard error of the evidence where pairs of rows are sampled; 0 where they are not.
    pub evidence_error: f64,
    /// The regression on mediators that was used for targets without rows.
    pub mediation: Option<Mediation>,
    /// Jitter added to the diagonal of the gram matrix of the points.
    pub jitter: f64,
    /// The parameters used, in the order and on the scale of [`SparseAggregateProcess::parameters`].
    pub theta: Vec<f64>,
    /// Steps of the optimiser, all runs together.
    pub steps: usize,
    /// Evaluations of the evidence, all runs together.
    pub evaluations: usize,
    /// Warnings.
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
    /// For each target the sum of its weights; and the factor of the row noise in its variance, the sum of
    /// squared weights, or the factor of the mediation noise, the variance of its regression.
    weight_sums: Vec<f64>,
    weight_norms: Vec<f64>,
    /// The squared unit of kernel and noise.
    variance: f64,
    rows: BagRows,
    points: Table,
    /// The map from bags to targets, where targets are not the bags.
    mediated: Option<MediatedFeatures>,
}

impl SparseTargets {
    /// The targets of some bags, in the same units.
    fn of_bags(&self, bags: &[usize]) -> Self {
        let select = |numbers: &[f64]| bags.iter().map(|&b| numbers[b]).collect();
        Self {
            values: select(&self.values),
            known: select(&self.known),
            weight_sums: select(&self.weight_sums),
            weight_norms: select(&self.weight_norms),
            variance: self.variance,
            rows: self.rows.of_bags(bags),
            points: self.points.clone(),
            mediated: None,
        }
    }

    /// Sums of kernel values with the points, and with `slopes` also what their gradient needs.
    fn features(&self, kernel: &Kernel, slopes: bool, control: RunControl<'_>) -> Result<BagFeatures> {
        let bag_features = self.rows.features(kernel, &self.points, slopes, control)?;
        match &self.mediated {
            None => Ok(bag_features),
            Some(mediated) => mediated.features(bag_features, &self.rows, kernel, control.stop),
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

    fn control(&self) -> RunControl<'_> {
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

    /// [`fit`](Self::fit) for targets that an operator B makes from bags. Cost of an evaluation in addition:
    /// N²/2 kernel values for N rows up to 50,000; beyond, those of samples of rows for pairs of different
    /// bags, 4 times 10,000, where [`evidence_error`](SparseAggregateFit::evidence_error) is the standard
    /// error of the evidence; with J bags and M targets J²M. Memory JM and J².
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

    /// The fit whose tuning begins at these parameters.
    fn fit_targets(
        &self,
        targets: &SparseTargets,
        mut parameters: Vec<Parameter>,
    ) -> Result<SparseAggregateFit> {
        let control = self.control();
        let (of_kernel, count) = (self.kernel.parameters().len(), parameters.len());
        let free = match self.tune {
            TunedParameters::Nothing => count..count,
            TunedParameters::Kernel => 0..of_kernel,
            TunedParameters::Noise => of_kernel..count,
            TunedParameters::KernelAndNoise => 0..count,
        };
        let tuned = !free.is_empty();
        let tune_on_subset =
            tuned && targets.mediated.is_none() && targets.values.len() / 2 >= self.tuning_bags.max(1);
        let (bounds, restarts, seed) = (self.bounds.as_deref(), self.restarts, self.seed);
        // Where rows are sampled, the evidence has at least this error.
        let sampled = targets.mediated.as_ref().is_some_and(|mediated| !mediated.pairs.0.is_empty());
        let enough = if tune_on_subset || sampled { MIN_EVIDENCE_GAIN } else { 0.0 };
        let mut search =
            SearchOptions { bounds, restarts, seed, min_gain: enough, ..SearchOptions::default() };
        let (mut steps, mut evaluations, mut warnings) = (0, 0, Vec::new());
        if tune_on_subset {
            let mut random = Random::seed_from_u64(seed);
            let mut subset = index::sample(&mut random, targets.values.len(), self.tuning_bags).into_vec();
            subset.sort_unstable();
            let subset_optimum =
                self.tune(&targets.of_bags(&subset), &parameters, free.clone(), search, control)?;
            parameters.iter_mut().zip(&subset_optimum.theta).for_each(|(p, value)| p.log_value = *value);
            (steps, evaluations, warnings) =
                (subset_optimum.steps, subset_optimum.evaluations, subset_optimum.warnings);
            // The evidence is a sum over bags, except for the priors.
            let times = targets.values.len() as f64 / self.tuning_bags as f64;
            let curvature = subset_optimum.curvature.times(times);
            search = SearchOptions { bounds, min_gain: enough, curvature, ..SearchOptions::default() };
        }
        let mut optimum = self.tune(targets, &parameters, free, search, control)?;
        (optimum.steps, optimum.evaluations) = (optimum.steps + steps, optimum.evaluations + evaluations);
        optimum.warnings.extend(warnings);
        optimum.warnings.dedup();
        let (kernel, _) = self.hyperparameters(targets, &optimum.theta);
        let features = targets.features(&kernel, false, control)?;
        let state = self.state(targets, &optimum.theta, &features)?;
        self.result(targets, kernel, &features, &state, optimum, tuned)
    }

    /// The maximum of the evidence times the priors, searched from these parameters.
    fn tune(
        &self,
        targets: &SparseTargets,
        from: &[Parameter],
        free: Range<usize>,
        search: SearchOptions<'_>,
        control: RunControl<'_>,
    ) -> Result<SearchResult> {
        let slopes = free.contains(&0);
        let hyperparameter = |(i, parameter): (usize, Parameter)| match self.priors && free.contains(&i) {
            true => default_prior(parameter),
            false => HyperParameter { parameter, weak: None },
        };
        let coordinates: Vec<HyperParameter> =
            self.parameters().into_iter().enumerate().map(hyperparameter).collect();
        // Sums do not change with the noise alone.
        let mut cached_features = None;
        let objective = |theta: &[f64]| {
            let (kernel, _) = self.hyperparameters(targets, theta);
            let features = match cached_features.take() {
                Some(features) => features,
                None => targets.features(&kernel, slopes, control)?,
            };
            let state = self.state(targets, theta, &features)?;
            control.check_cancelled()?;
            let gradient = self.gradient(targets, theta, &state, &features, slopes, control)?;
            cached_features = (!slopes).then_some(features);
            Ok(add_log_priors(&coordinates, theta, (state.value, gradient)))
        };
        hyperparameter_search::maximise(from, free, search, control, objective)
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
        let control = RunControl::none();
        hyperparameter_search::check("theta", "numbers", theta.len(), &self.parameters())?;
        let (kernel, _) = self.hyperparameters(targets, theta);
        let features = targets.features(&kernel, true, control)?;
        let state = self.state(targets, theta, &features)?;
        let gradient = self.gradient(targets, theta, &state, &features, true, control)?;
        Ok((state.value, gradient))
    }

    /// Kernel, and noise variances of targets and of rows or mediation, in the target's units.
    fn hyperparameters(&self, targets: &SparseTargets, theta: &[f64]) -> (Kernel, [f64; 2]) {
        let (kernel, noise) = theta.split_at(self.kernel.parameters().len());
        let noise = [0, 1].map(|i| noise.get(i).map_or(0.0, |v| targets.variance * v.exp()));
        (targets.variance * self.kernel.with_parameters(kernel), noise)
    }

    fn state(
        &self,
        targets: &SparseTargets,
        theta: &[f64],
        features: &BagFeatures,
    ) -> Result<CollapsedEvidence> {
        let (kernel, [noise, of_rows]) = self.hyperparameters(targets, theta);
        let variances =
            targets.weight_norms.iter().zip(&targets.known).map(|(s, known)| noise + of_rows * s + known);
        let sums = (&targets.values[..], &targets.weight_sums[..]);
        let noise: Vec<f64> = variances.collect();
        CollapsedEvidence::new(
            &kernel,
            &targets.points,
            features,
            (self.approximation, &noise),
            sums,
            self.mean,
        )
    }

    /// Gradient of the evidence; zeros for the kernel's parameters if their derivatives are not requested.
    fn gradient(
        &self,
        targets: &SparseTargets,
        theta: &[f64],
        state: &CollapsedEvidence,
        features: &BagFeatures,
        slopes: bool,
        control: RunControl<'_>,
    ) -> Result<Vec<f64>> {
        let (kernel, [noise, of_rows]) = self.hyperparameters(targets, theta);
        let mut gradient = if slopes {
            state.kernel_gradient(
                &kernel,
                &targets.points,
                (&targets.rows, features, targets.mediated.as_ref()),
                control,
            )?
        } else {
            vec![0.0; self.kernel.parameters().len()]
        };
        gradient.push(noise * state.grad_noise.iter().sum::<f64>());
        if self.row_noise.or(self.mediation_noise).is_some() {
            gradient.push(of_rows * dot(&state.grad_noise, &targets.weight_norms));
        }
        Ok(gradient)
    }

    /// Checks that variances and the mean are usable with this number of targets.
    fn check_parameters(&self, targets: usize) -> Result<()> {
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
            sized("known_noise", "numbers", targets, known.len(), "one a bag")?;
            if let Some(bad) = known.iter().find(|v| !(v.is_finite() && **v >= 0.0)) {
                return Err(Error::parameter("known_noise", bad, "variances are not negative"));
            }
        }
        Ok(())
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
                subject: "the table of inducing points".into(),
                needed: 1,
                unit: "point is",
            });
        }
        let min_targets = if self.mean.is_none() || self.normalize { 2 } else { 1 };
        if values.len() < min_targets {
            let subject = format!("a list of {} target(s)", values.len());
            return Err(Error::TooFew { subject, needed: min_targets, unit: "targets are" });
        }
        if let Some(row) = values.iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite { row, column: "target".into(), value: values[row] });
        }
        self.check_parameters(values.len())?;
        let numbers_per_point = values.len().max(bags.count()).saturating_add(4 * points.rows());
        crate::memory::check_allocation("number of inducing points", points.rows(), numbers_per_point)?;
        let weights = bags.weights();
        let sum = |b: usize, transform: fn(f64) -> f64| weights.column(b).map(|(_, w)| transform(w)).sum();
        let mut responses: Vec<f64> = (0..bags.count()).map(|b| sum(b, |w| w)).collect();
        let mut squares = (0..bags.count()).map(|b| sum(b, |w| w * w)).collect();
        if let Some(operator) = operator {
            responses = operator.transpose_times(&Matrix::column_vector(responses)).column(0);
            let regression_variance = |t: usize| {
                operator.regression_covariance().map_or(0.0, |covariance| covariance[(t, t)].max(0.0))
            };
            squares = (0..values.len()).map(regression_variance).collect();
        }
        let variance = if self.normalize { target_variance(values, &responses, self.mean)? } else { 1.0 };
        let known = self.known_noise.clone().unwrap_or_else(|| vec![0.0; values.len()]);
        let rows = BagRows::new(x, bags.weights());
        let mediated = operator.map(|operator| MediatedFeatures::new(operator, &rows, self.seed));
        Ok(SparseTargets {
            values: values.to_vec(),
            known,
            weight_sums: responses,
            weight_norms: squares,
            variance,
            rows,
            points,
            mediated,
        })
    }

    fn result(
        &self,
        targets: &SparseTargets,
        kernel: Kernel,
        features: &BagFeatures,
        state: &CollapsedEvidence,
        optimum: SearchResult,
        tuned: bool,
    ) -> Result<SparseAggregateFit> {
        let (_, [noise, other]) = self.hyperparameters(targets, &optimum.theta);
        let [row_noise, mediation_noise] = [self.row_noise, self.mediation_noise]
            .map(|given_noise| if given_noise.is_some() { other } else { 0.0 });
        let bags = targets.values.len();
        let fitted =
            (0..bags).map(|b| state.mean * targets.weight_sums[b] + dot(features.phi.row(b), &state.alpha));
        let (mut expected, mut variance) = (Vec::new(), Vec::new());
        for (b, precision) in state.precision.iter().enumerate() {
            // Without its target the estimated mean is another one, and its uncertainty counts (Dubrule
            // 1983).
            let of_mean = state
                .gls_mean_terms
                .as_ref()
                .map_or(0.0, |(solved_ones, square)| solved_ones[b] * solved_ones[b] / square);
            expected.push(targets.values[b] - state.residual[b] / (precision - of_mean));
            variance.push(1.0 / (precision - of_mean) + state.uncounted_residual[b]);
        }
        let left_out = LeaveOneOut::normal(targets.values.clone(), expected, variance);
        let (points, alpha) = (targets.points.clone(), Matrix::column_vector(state.alpha.clone()));
        let mut model = KernelExpansion::new(kernel, points, alpha, vec![state.mean])?;
        model.model_card = vec![
            CardEntry::new("model", "Gaussian process of sums over bags, through inducing points"),
            CardEntry::measured("noise, in squared units of the target", noise),
            CardEntry::new("bags", bags),
            CardEntry::new("inducing points", targets.points.rows()),
            CardEntry::measured(
                match self.approximation {
                    Approximation::Fitc => "log marginal likelihood (FITC)",
                    Approximation::Vfe => "bound of the log marginal likelihood",
                },
                state.value,
            ),
            CardEntry::measured("what the points leave unexplained, by the noise", state.unexplained),
            CardEntry::measured("jitter", state.points.jitter),
        ];
        let evidence_error = state.standard_error(&features.priors);
        if evidence_error > 0.0 {
            let entry_name = "standard error of the log marginal likelihood, by samples of rows";
            model.model_card.push(CardEntry::measured(entry_name, evidence_error));
        }
        if self.row_noise.is_some() {
            model
                .model_card
                .insert(2, CardEntry::measured("noise of rows, in squared units of the target", row_noise));
        }
        if self.mediation_noise.is_some() {
            let entry_name = "noise of mediation, in squared units of the target";
            model.model_card.insert(2, CardEntry::measured(entry_name, mediation_noise));
        }
        model.model_card.extend(optimum.facts(tuned.then_some(self.restarts)));
        let known = vec![VarianceReduction::LowRank(state.root()?)];
        let SearchResult { theta, steps, evaluations, warnings, .. } = optimum;
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

/// The variance of f that targets show around a constant f: the given one, or the best by least squares.
fn target_variance(values: &[f64], responses: &[f64], mean: Option<f64>) -> Result<f64> {
    let square = dot(responses, responses);
    let mean = mean.unwrap_or_else(|| dot(values, responses) / square);
    let variance = values.iter().zip(responses).map(|(z, s)| (z - s * mean).powi(2)).sum::<f64>() / square;
    if variance.sqrt() > 1e-12 * mean.abs() && variance > 0.0 && variance.is_finite() {
        return Ok(variance);
    }
    let problem = format!(
        "has no spread around {mean:.4e} a row: there is nothing to learn, or set normalize to false"
    );
    Err(Error::Target { name: "target".into(), problem })
}

impl SparseAggregateFit {
    /// The posterior of f.
    pub fn posterior(&self) -> Posterior<'_> {
        Posterior::new_unchecked(&self.model, &self.covariance)
    }
}

#[cfg(test)]
mod tests {
    use super::mediated_features::SampledRowPairs;
    use super::*;
    use crate::aggregate::{Mediators, TargetUnit};

    /// The gradient of the evidence for targets with an operator agrees with finite differences, for all
    /// pairs of rows and for samples of them.
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
        let bag_of_target = [Some(4), None, None, None, None, Some(0), None];
        let operator =
            ObservationOperator::new(&bags, &bag_of_target, Some((&mediation, &mediators))).unwrap();
        let points = x.select_rows(&(0..12).map(|i| 6 * i).collect::<Vec<_>>());
        let mut process = SparseAggregateProcess::new(Kernel::gaussian(&[0.8, 1.3]), points);
        process.mediation_noise = Some(0.2);
        let z: Vec<f64> = (0..7).map(|t| value(11 * t).sin()).collect();
        let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
        let mut targets = process.check(&x, &bags, Some(&operator), &z).unwrap();
        let approximations = [Approximation::Fitc, Approximation::Vfe];
        for (sampled, approximation) in
            approximations.into_iter().flat_map(|kind| [(false, kind), (true, kind)])
        {
            let process = SparseAggregateProcess { approximation, ..process.clone() };
            targets.mediated.as_mut().unwrap().pairs = SampledRowPairs(Vec::new());
            if sampled {
                let mut random = Random::seed_from_u64(1);
                let pairs = (0..3).map(|_| targets.rows.sample(30, &mut random)).collect();
                targets.mediated.as_mut().unwrap().pairs = SampledRowPairs(pairs);
            }
            let (value, gradient) = process.evidence_of(&targets, &theta).unwrap();
            for i in 0..theta.len() {
                let evidence = |step: f64| {
                    let mut moved = theta.clone();
                    moved[i] += step;
                    process.evidence_of(&targets, &moved).unwrap().0
                };
                let slope = (evidence(1e-5) - evidence(-1e-5)) / 2e-5;
                assert!(
                    (slope - gradient[i]).abs() < 1e-5 * value.abs().max(1.0),
                    "{i}: {slope} {}",
                    gradient[i]
                );
            }
        }
    }

    /// Sampled rows give unbiased estimates of the covariances of bags, with correct standard errors.
    #[test]
    fn samples_stand_for_all_rows() {
        let value = |i: usize| ((i * 7919) % 1013) as f64 / 400.0;
        let rows: Vec<[f64; 2]> = (0..300).map(|i| [value(2 * i), value(2 * i + 1)]).collect();
        let x = Table::from_rows(&rows).unwrap();
        let (bag, weights): (Vec<usize>, Vec<f64>) = (0..300).map(|i| (i % 5, 0.2 + value(i))).unzip();
        let bags = Bags::new(&bag, 5, Some(&weights), TargetUnit::Mean).unwrap();
        let (bag_rows, kernel) = (BagRows::new(&x, bags.weights()), Kernel::gaussian(&[0.8, 1.3]));
        let (mut random, control) = (Random::seed_from_u64(3), RunControl::none());
        let exact = bag_rows.gram(&kernel, control.stop).unwrap();
        let draws: Vec<Matrix> =
            (0..400).map(|_| bag_rows.sample(60, &mut random).gram(&kernel, control.stop).unwrap()).collect();
        for (b, c) in [(0, 1), (2, 4), (3, 1)] {
            let mean = draws.iter().map(|draw| draw[(b, c)]).sum::<f64>() / 400.0;
            let square = draws.iter().map(|draw| (draw[(b, c)] - mean).powi(2)).sum::<f64>() / 400.0;
            let standardised_error = (mean - exact[(b, c)]) / (square / 400.0).sqrt();
            assert!(standardised_error.abs() < 4.0 && square > 0.0, "{standardised_error}");
        }
    }
}
