//! Sparse Gaussian process regression (Titsias 2009) with inducing points.

mod collapsed_bound;
mod evidence;
mod posterior_from_statistics;
mod sufficient_statistics;

use collapsed_bound::CollapsedBound;
use evidence::SparseData;
pub(crate) use posterior_from_statistics::InducingLaplace;
pub use posterior_from_statistics::SparsePosterior;
pub use sufficient_statistics::KernelSums;

use super::target_scaling::{ScaledTargets, check_noise, check_row_noise, noise_entries};
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::gp::average::{HyperPosterior, PosteriorMixture, WithPosterior};
use crate::gp::hyperparameters::{ThetaReader, TunedParameters, with_default_priors};
use crate::gp::inducing_points::inducing_points;
use crate::gp::search::{self, SearchOptions, SearchResult};
use crate::kernel::{Kernel, Parameter};
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, select};
use crate::model_card::CardEntry;
use crate::posterior::{Posterior, PosteriorCovariance};
use crate::table::Table;

/// Default number of rows that tuning uses; with more rows it uses a random sample of them.
const TUNING_ROWS: usize = 20_000;

/// The inducing points, which are not tuned.
#[derive(Debug, Clone, PartialEq)]
pub enum InducingPoints {
    /// This number of points, or the number of distinct rows if that is smaller, chosen by
    /// [`inducing_points`](super::inducing_points) with the seed.
    Count(usize),
    /// These points: rows of the same columns.
    Points(Table),
}

/// Gaussian process regression of many rows through few inducing points. The model is that of
/// [`GaussianProcess`](super::GaussianProcess); its posterior is approximated by the best one that depends on
/// the data only through f at the inducing points (Titsias 2009, "Variational learning of inducing variables
/// in sparse Gaussian processes"). Kernel and noise are tuned by maximising the lower bound of the evidence,
/// which additional points never lower. Its error is at most the difference between the upper and the lower
/// bound.
///
/// ```
/// use riesz::fit::SparseGaussianProcess;
/// use riesz::{Kernel, Matrix, Table};
///
/// let rows: Vec<[f64; 1]> = (0..500).map(|i| [f64::from(i) / 50.0]).collect();
/// let y = Matrix::column_vector(rows.iter().map(|r| 10.0 + r[0].sin()).collect());
/// let fit = SparseGaussianProcess::new(Kernel::gaussian(&[1.0]), 0.1, 20).fit(&Table::from_rows(&rows)?, &y)?;
/// assert_eq!(fit.model.support_points.rows(), 20);
/// let new = Table::from_rows(&[[3.31], [60.0]])?;
/// let (mean, sd) = (fit.model.predict(&new)?, fit.posterior().sd(&new)?);
/// assert!((mean[(0, 0)] - (10.0 + 3.31_f64.sin())).abs() < 0.01);
/// assert!(sd[(0, 0)] < 0.01 && sd[(1, 0)] > 0.1); // far from the data it knows little
/// assert!(fit.lower <= fit.upper);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SparseGaussianProcess {
    /// The prior covariance, from which tuning starts. With `normalize_y` in units of the normalised target.
    pub kernel: Kernel,
    /// Variance of the noise, > 0, from which tuning starts. With `normalize_y` in units of the normalised
    /// target.
    pub noise: f64,
    /// Known error variances ≥ 0 of single rows, in addition to `noise`, always in squared units of the
    /// original target. `None` for none.
    pub row_noise: Option<Vec<f64>>,
    /// The inducing points.
    pub inducing: InducingPoints,
    /// Whether targets are scaled, as in
    /// [`GaussianProcess::normalize_y`](super::GaussianProcess::normalize_y).
    pub normalize_y: bool,
    /// The hyperparameters that are tuned.
    pub tune: TunedParameters,
    /// With more rows than this, tuning uses a sample of this size, drawn with the seed; the model is fitted
    /// to all rows. `None` for 20,000.
    pub tuning_rows: Option<usize>,
    /// Bounds of the parameters, as in [`GaussianProcess::bounds`](super::GaussianProcess::bounds).
    pub bounds: Option<Vec<(f64, f64)>>,
    /// Runs of the optimiser from random points within the bounds, in addition to the run from the start.
    pub restarts: usize,
    /// Seed of these random points, of the inducing points and of the sample of rows for tuning. The result
    /// depends on the seed, but not on the number of threads.
    pub seed: u64,
}

/// A fitted sparse Gaussian process.
#[derive(Debug, Clone)]
pub struct SparseGpFit {
    /// The posterior mean in the targets' units, as an expansion over the inducing points. With one target
    /// its kernel and [`noise`](Self::noise) are in these (squared) units too. Several normalised targets
    /// have one [`scale`](PosteriorCovariance::scale) each.
    pub model: KernelExpansion,
    /// The posterior covariance: `Q = K_ZZ⁻¹ - (K_ZZ + K_ZX N⁻¹ K_XZ)⁻¹` (m × m for m inducing points Z),
    /// where the diagonal matrix N holds the noise variances of the rows X.
    pub covariance: PosteriorCovariance,
    /// Variance of the noise, in the kernel's units.
    pub noise: f64,
    /// Lower bound of `log p(y)`, the log density of the targets in their original units.
    pub lower: f64,
    /// Upper bound of `log p(y)` (Titsias 2014, "Variational inference for Gaussian and determinantal point
    /// processes").
    pub upper: f64,
    /// The jitter on the diagonal of `K_ZZ`, in the kernel's units.
    pub jitter: f64,
    /// The parameters used, in the order and on the scale of [`SparseGaussianProcess::parameters`].
    pub theta: Vec<f64>,
    /// Total number of optimiser steps over all runs.
    pub steps: usize,
    /// Total number of evaluations of the bound over all runs.
    pub evaluations: usize,
    /// Warnings: parameters that ended at a bound, runs that failed.
    pub warnings: Vec<String>,
}

impl SparseGaussianProcess {
    /// Returns a process with this number of inducing points on normalised targets. Kernel and noise are
    /// tuned from these values, without restarts.
    pub fn new(kernel: Kernel, noise: f64, landmarks: usize) -> Self {
        Self {
            kernel,
            noise,
            row_noise: None,
            inducing: InducingPoints::Count(landmarks),
            normalize_y: true,
            tune: TunedParameters::KernelAndNoise,
            tuning_rows: None,
            bounds: None,
            restarts: 0,
            seed: 0,
        }
    }

    /// Returns names and starting values of the tunable parameters, on the tuning scale: the kernel's
    /// parameters, then the logarithm of the noise.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = self.kernel.parameters();
        parameters.push(Parameter::logarithm("noise", self.noise));
        parameters
    }

    /// Fits the process to `y` (rows × targets). For n rows of d columns and m points the cost is O(n m (d +
    /// m) + m³), and the memory O(m²) in addition to the rows. Each evaluation of tuning has this cost for
    /// the rows that tuning uses, plus O(n m) per parameter.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`]; [`Error::Target`] if
    /// a target to be normalised is constant; [`Error::Overflow`] if the kernel overflows;
    /// [`Error::NotPositiveDefinite`].
    pub fn fit(&self, x: &Table, y: &Matrix) -> Result<SparseGpFit> {
        self.fit_until(x, y, RunControl::none())
    }

    /// Fits as [`fit`](Self::fit) does; each evaluation of the bound counts as one step of progress.
    pub(super) fn fit_until(&self, x: &Table, y: &Matrix, control: RunControl<'_>) -> Result<SparseGpFit> {
        let targets = self.check(x, y)?;
        let points = self.points(x)?;
        let own_noise = self.row_noise.as_deref();
        let data = SparseData { x, y: &targets.values, own_noise, points: &points, control };
        let result = self.search(data, targets.unit_variance)?;
        let tuned = result.evaluations > 0;
        let (kernel, noise) =
            if tuned { self.at_theta(&result.theta) } else { (self.kernel.clone(), self.noise) };
        let (kernel, noise) = (targets.unit_variance * kernel, targets.unit_variance * noise);
        crate::checks::check_range(&kernel, x)?;
        let SparsePosterior { mut coef, mut covariance, lower, upper, jitter } =
            data.collapsed(&kernel, noise)?.posterior()?;
        coef.scale_columns(targets.per_output_scale.iter().copied());
        let units = targets.log_density_shift();
        let (lower, upper) = (lower - units, upper - units);
        covariance.scale.clone_from(&targets.per_output_scale);
        let mut model = KernelExpansion::new(kernel, points, coef, targets.center)?;
        model.model_card = vec![
            CardEntry::new("model", "sparse Gaussian process regression"),
            CardEntry::new("landmarks", model.support_points.rows()),
        ];
        model.model_card.extend(noise_entries(noise, targets.unit_variance));
        if own_noise.is_some() {
            model.model_card.push(CardEntry::new("noise of single rows", "given"));
        }
        model.model_card.extend([
            CardEntry::measured("log marginal likelihood, at least", lower),
            CardEntry::measured("log marginal likelihood, at most", upper),
            CardEntry::measured("jitter", jitter),
        ]);
        if tuned && self.tuning_rows() < x.rows() {
            model.model_card.push(CardEntry::new("rows used for tuning", self.tuning_rows()));
        }
        model.model_card.extend(result.facts(tuned.then_some(self.restarts)));
        let SearchResult { theta, steps, evaluations, warnings, .. } = result;
        Ok(SparseGpFit {
            model,
            covariance,
            noise,
            lower,
            upper,
            jitter,
            theta,
            steps,
            evaluations,
            warnings,
        })
    }

    /// Returns the lower bound of the log evidence over all rows, and its gradient in `theta`, which has the
    /// order and scale of [`parameters`](Self::parameters). The bound is for the targets in their original
    /// units. For n rows of d columns and m points the cost is O(n m (d + m) + m³), plus O(n m) per
    /// parameter; memory O(m²) in addition to the rows.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn evidence_lower_bound(&self, x: &Table, y: &Matrix, theta: &[f64]) -> Result<(f64, Vec<f64>)> {
        let targets = self.check(x, y)?;
        search::check("theta", "numbers", theta.len(), &self.parameters())?;
        let (own_noise, control) = (self.row_noise.as_deref(), RunControl::none());
        let rows = SparseData { x, y: &targets.values, own_noise, points: &self.points(x)?, control };
        let (value, gradient) = self.evidence(rows, targets.unit_variance, theta)?;
        Ok((value - targets.log_density_shift(), gradient))
    }

    /// Returns the posterior averaged over `draws` draws of the tuned parameters, as
    /// [`GaussianProcess::average`](super::GaussianProcess::average) does. The lower bound over all rows
    /// replaces the marginal likelihood; the inducing points are the same for all draws.
    ///
    /// # Errors
    /// As [`fit`](Self::fit); [`Error::Parameter`] for fewer than 2 draws, and if nothing is tuned.
    pub fn average(
        &self,
        tuned: &SparseGpFit,
        x: &Table,
        y: &Matrix,
        draws: usize,
    ) -> Result<PosteriorMixture<SparseGpFit>> {
        self.average_until(tuned, x, y, draws, RunControl::none())
    }

    /// Averages as [`average`](Self::average) does; each evaluation of the bound counts as one step of
    /// progress.
    pub(super) fn average_until(
        &self,
        tuned: &SparseGpFit,
        x: &Table,
        y: &Matrix,
        draws: usize,
        control: RunControl<'_>,
    ) -> Result<PosteriorMixture<SparseGpFit>> {
        let process = Self { inducing: InducingPoints::Points(self.points(x)?), ..self.clone() };
        let parameters = self.parameters();
        let free = self.tune.free(parameters.len() - 1, parameters.len());
        let fit = |theta: &[f64]| {
            let (kernel, noise) = self.at_theta(theta);
            let fit = Self { kernel, noise, tune: TunedParameters::Nothing, ..process.clone() }.fit(x, y)?;
            Ok((fit.lower, fit))
        };
        let coordinates = with_default_priors(parameters, &free);
        HyperPosterior { coordinates: &coordinates, from: &tuned.theta, control }.average(
            |theta| process.evidence_lower_bound(x, y, theta),
            fit,
            draws,
            self.seed,
        )
    }

    /// Tunes the parameters on all rows, or on a sample of them.
    fn search(&self, data: SparseData<'_>, variance: f64) -> Result<SearchResult> {
        let parameters = self.parameters();
        let free = self.tune.free(parameters.len() - 1, parameters.len());
        let sample = (!free.is_empty() && self.tuning_rows() < data.x.rows()).then(|| {
            let indices = data.x.sample_rows(self.tuning_rows(), self.seed);
            let own_noise = data.own_noise.map(|row_noise| select(row_noise, &indices));
            (data.x.select_rows(&indices), data.y.select_rows(&indices), own_noise)
        });
        let rows = match &sample {
            None => data,
            Some((x, y, own_noise)) => SparseData { x, y, own_noise: own_noise.as_deref(), ..data },
        };
        let search = SearchOptions {
            bounds: self.bounds.as_deref(),
            restarts: self.restarts,
            seed: self.seed,
            ..SearchOptions::default()
        };
        search::maximise(&parameters, free, search, rows.control, |theta| {
            self.evidence(rows, variance, theta)
        })
    }

    fn evidence(&self, rows: SparseData<'_>, variance: f64, theta: &[f64]) -> Result<(f64, Vec<f64>)> {
        let (kernel, noise) = self.at_theta(theta);
        let (kernel, noise) = (variance * kernel, variance * noise);
        crate::checks::check_range(&kernel, rows.x)?;
        let bound: CollapsedBound = rows.collapsed(&kernel, noise)?;
        Ok((bound.value, rows.gradient(&kernel, noise, &bound)?))
    }

    fn at_theta(&self, theta: &[f64]) -> (Kernel, f64) {
        let mut reader = ThetaReader::new(theta);
        (reader.kernel(&self.kernel), reader.exp())
    }

    fn tuning_rows(&self) -> usize {
        self.tuning_rows.unwrap_or(TUNING_ROWS)
    }

    fn points(&self, x: &Table) -> Result<Table> {
        match &self.inducing {
            InducingPoints::Count(count) => inducing_points(x, *count, self.seed),
            InducingPoints::Points(points) if points.rows() == 0 => {
                Err(Error::too_few("the table of landmarks", 1, "row is"))
            }
            InducingPoints::Points(points) => points.align_to(x.columns()),
        }
    }

    fn check(&self, x: &Table, y: &Matrix) -> Result<ScaledTargets> {
        crate::checks::check_rows(x, y.rows(), 2)?;
        self.kernel.validate(x.width())?;
        check_noise(self.noise)?;
        if let Some(rows) = self.tuning_rows.filter(|rows| *rows < 2) {
            return Err(Error::parameter("tuning_rows", rows, "tuning needs at least two rows"));
        }
        if let Some(row_noise) = &self.row_noise {
            check_row_noise(row_noise, y, self.normalize_y, "one per row of the table")?;
        }
        ScaledTargets::new(y, None, self.normalize_y)
    }
}

impl SparseGpFit {
    /// Returns the posterior of f.
    pub fn posterior(&self) -> Posterior<'_> {
        Posterior::new_unchecked(&self.model, &self.covariance)
    }
}

impl WithPosterior for SparseGpFit {
    fn posterior(&self) -> Posterior<'_> {
        Self::posterior(self)
    }

    fn into_parts(self) -> (KernelExpansion, PosteriorCovariance) {
        (self.model, self.covariance)
    }
}
