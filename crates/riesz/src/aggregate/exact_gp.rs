//! Exact Gaussian processes with aggregated observations. No matrix between rows is kept: matrices have the
//! size of the numbers of bags and targets.
//!
//! X has N rows, which P (N × J) aggregates to J bags; the observation operator B (J × M) maps bags to M
//! targets. The targets are `z = Aᵀf(X) + e` with `A = PB`, and `U = PᵀK(X, X)P` (J × J) is the covariance of
//! the bags:
//!
//! ```text
//! V = BᵀUB + C,   C = σ²I + diag(ν) + ς² BᵀPᵀPB + ω²S,   a = V⁻¹(z - Aᵀm),   E f(x) = m + k(x, X) P B a
//! ```
//!
//! ν (M) are the known noise variances, and S (M × M) is the covariance of the regression on mediators. The
//! coefficient of a row is its weight times its bag's element of `Ba`, and the fitted targets differ from the
//! targets by `C a`. Sources: Chau 2023, chapter 3, for the mean and covariance, and its appendix A.6.2 for
//! the noise of rows. The term ω²S is ours.

use std::sync::atomic::AtomicBool;

use super::aggregate_data::Aggregates;
use super::aggregate_fit::AggregateFit;
use super::bag_gram::BagRows;
use super::mediation::{Mediation, regresses_targets};
use super::observation_operator::ObservationOperator;
use super::row_bags::{TargetUnit, bag_overlaps};
use crate::checks::{not_negative, positive};
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::gp::exact::{NormalEvidence, check_evidence, check_mean, mean_and_residuals};
use crate::gp::hyperparameters::ThetaReader;
use crate::kernel::{Kernel, Parameter};
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Cholesky, Matrix, Sparse, add_multiple, dot};
use crate::model_card::CardEntry;
use crate::posterior::{PosteriorCovariance, VarianceReduction};

/// The noise variance of targets without error, in squared units of the standardised target.
const NEGLIGIBLE_NOISE: f64 = 1e-10;

/// Gaussian process with aggregated observations.
///
/// ```
/// use riesz::aggregate::{AggregateGaussianProcess, Aggregates, Bags, TargetUnit};
/// use riesz::{Kernel, Table};
///
/// // Means of x² over ten bags of twenty rows each.
/// let x: Vec<[f64; 1]> = (0..200).map(|i| [f64::from(i) / 100.0 - 1.0]).collect();
/// let bag: Vec<usize> = (0..200).map(|i| i / 20).collect();
/// let mean = |b: usize| x[20 * b..20 * b + 20].iter().map(|r| r[0] * r[0]).sum::<f64>() / 20.0;
/// let bags = Bags::new(&bag, 10, None, TargetUnit::Mean)?;
/// let data = Aggregates::matched(Table::from_rows(&x)?, bags, (0..10).map(mean).collect());
/// let fit = AggregateGaussianProcess::new(Kernel::gaussian(&[0.5]), 1e-6).fit(&data)?;
/// let prediction = fit.model.predict(&Table::from_rows(&[[0.0], [0.5]])?)?;
/// assert!(prediction[(0, 0)].abs() < 0.01 && (prediction[(1, 0)] - 0.25).abs() < 0.01);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateGaussianProcess {
    /// The prior covariance k of f. With `normalize_y` the kernel and the variances are in units of the
    /// targets' variance.
    pub kernel: Kernel,
    /// The variance σ² > 0 of the noise of a target. Targets that are
    /// [regressed](super::MediationTarget::Targets) on mediators have the ridge as noise variance instead.
    /// Where all targets are regressed, σ² may be 0.
    pub noise: f64,
    /// The variance ς² ≥ 0 of the noise of a row, which is averaged within bags.
    pub row_noise: f64,
    /// The factor ω² ≥ 0 of the covariance of the regression on mediators; where targets are regressed, the
    /// variance of ties.
    pub mediation_noise: f64,
    /// The regression on mediators for targets without rows.
    pub mediation: Option<Mediation>,
    /// The prior mean m of f; `None` for the constant that fits the targets best (generalised least squares).
    pub prior_mean: Option<f64>,
    /// Whether variances are in units of the targets' variance around their mean. For sums, this is the
    /// variance of the sums divided by their weights. The targets are not centred: the model has a prior mean
    /// instead.
    pub normalize_y: bool,
}

/// Gram matrices, factorisation and evidence at one set of parameters, without gradients.
struct AggregateState {
    rows: BagRows,
    kernel: Kernel,
    operator: ObservationOperator,
    gram: Matrix,
    /// Derivatives of U in the kernel's parameters, if they were requested and fit into the cache.
    slopes: Vec<Matrix>,
    /// `U + ς² PᵀP`.
    noisy_bag_covariance: Matrix,
    /// `PᵀP`, if rows have noise.
    overlaps: Option<Sparse>,
    /// Evidence of the targets, conditional on the ties, which come first and are observed to be 0.
    evidence: NormalEvidence,
    mean: f64,
    /// Responses of bags, and of ties and targets, to a constant function 1.
    bag_responses: Vec<f64>,
    responses: Vec<f64>,
    variance: f64,
}

impl AggregateGaussianProcess {
    /// Creates a process with an estimated prior mean, noise of targets only, variances in units of the
    /// targets' variance, and no mediation.
    pub fn new(kernel: Kernel, noise: f64) -> Self {
        Self {
            kernel,
            noise,
            row_noise: 0.0,
            mediation_noise: 0.0,
            mediation: None,
            prior_mean: None,
            normalize_y: true,
        }
    }

    /// Returns the process for targets without error, whose map aggregates to them up to rounding (the
    /// pycnophylactic property of Tobler 1979). Its noise is 1e-10 of the targets' variance, and it has no
    /// noise of rows. Tuning changes the noise, so apply this to the tuned process too.
    pub fn with_exact_targets(self) -> Self {
        Self { noise: NEGLIGIBLE_NOISE, row_noise: 0.0, ..self }
    }

    /// Returns the names and logarithms of the tunable parameters: the kernel's parameters, the three noise
    /// variances where they are not 0, and the mediation's parameters.
    pub fn parameters(&self) -> Vec<Parameter> {
        let noises =
            [("noise", self.noise), ("row noise", self.row_noise), ("mediation noise", self.mediation_noise)];
        let mut tunable = self.kernel.parameters();
        tunable.extend(
            noises
                .into_iter()
                .filter(|(_, value)| *value > 0.0)
                .map(|(name, value)| Parameter::logarithm(name, value)),
        );
        tunable.extend(self.mediation.iter().flat_map(Mediation::parameters));
        tunable
    }

    /// Returns the process with the values `theta` of its [`parameters`](Self::parameters).
    ///
    /// # Panics
    /// If `theta` does not have one number for each parameter.
    pub fn with_parameters(&self, theta: &[f64]) -> Self {
        let mut reader = ThetaReader::new(theta);
        let mut process = self.clone();
        process.kernel = reader.kernel(&self.kernel);
        let noises = [&mut process.noise, &mut process.row_noise, &mut process.mediation_noise];
        noises.into_iter().filter(|variance| **variance > 0.0).for_each(|variance| *variance = reader.exp());
        if let Some(mediation) = &mut process.mediation {
            *mediation = mediation.with_parameters(reader.take(mediation.parameters().len()));
        }
        reader.finish();
        process
    }

    /// Conditions on the targets, without tuning. Cost: N²/2 kernel values for N rows, and J³ + J²M + M³ with
    /// J bags and M targets. Memory: J² and M², and JM where targets are mediated.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::TooFew`], [`Error::NotFinite`] and [`Error::Parameter`] for invalid data
    /// and parameters; [`Error::Target`] if the targets are to be normalised and have no spread;
    /// [`Error::Overflow`]. Where the covariance of the targets is singular, [`Error::Parameter`] names the
    /// two targets with the largest correlation.
    pub fn fit(&self, data: &Aggregates) -> Result<AggregateFit> {
        self.fit_until(data, RunControl::none())
    }

    pub(super) fn fit_until(&self, data: &Aggregates, control: RunControl<'_>) -> Result<AggregateFit> {
        let state = self.state(data, false, control.stop)?;
        let AggregateState {
            kernel,
            operator,
            gram,
            evidence: NormalEvidence { factor, alpha, value, .. },
            mean,
            bag_responses,
            responses,
            variance,
            ..
        } = state;
        let bag_weights = operator.times(&alpha);
        let p = data.bags.weights();
        let mut model = KernelExpansion::new(kernel, data.rows.clone(), p.matmul(&bag_weights), vec![mean])?;
        let jitter = factor.jitter;
        model.model_card = vec![
            CardEntry::new("model", "Gaussian process with aggregated observations"),
            CardEntry::new(
                "targets are",
                match data.bags.unit() {
                    TargetUnit::Mean => "weighted means of rows",
                    TargetUnit::Sum => "weighted sums of rows",
                },
            ),
        ];
        model.model_card.extend(data.facts());
        model.model_card.extend([
            CardEntry::measured("noise", variance * self.noise),
            CardEntry::measured("noise of a row", variance * self.row_noise),
            CardEntry::measured("noise of mediation", variance * self.mediation_noise),
            CardEntry::measured("log marginal likelihood", value),
            CardEntry::measured("jitter", jitter),
        ]);
        if operator.regression.is_some() {
            model
                .model_card
                .push(CardEntry::new("regressed on mediators", "targets, to which bags with rows are tied"));
        }
        // B L⁻ᵀ.
        let mut whitened = operator.transpose_times(&Matrix::identity(p.cols()));
        factor.solve_lower_in_place(&mut whitened);
        let reduction =
            VarianceReduction::ThroughOperator { operator: p.clone(), factor: whitened.transpose() };
        Ok(AggregateFit {
            process: self.clone(),
            model,
            covariance: PosteriorCovariance::new(vec![reduction], vec![1.0]),
            operator,
            log_marginal_likelihood: value,
            variance,
            jitter,
            bag_weights: p.clone(),
            targets: data.targets.clone(),
            gram,
            factor,
            weights: alpha.into_data(),
            bag_responses,
            responses,
        })
    }

    /// Returns `log p(z)`, conditional on the ties if there are any, and its gradient in `theta`, which has
    /// the order and scale of [`parameters`](Self::parameters). With `G = ½ (aaᵀ - V⁻¹)`, the derivatives in
    /// the kernel of rows are `Σ (BGBᵀ)_bb' (PᵀK'P)_bb'`, in the noises `tr(G C')`, and in B
    /// `2 (U + ς²PᵀP)BG + m Pᵀ1 aᵀ`. Cost up to twice that of [`fit`](Self::fit).
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    ///
    /// # Panics
    /// If `theta` does not have one number for each parameter.
    pub fn log_marginal_likelihood(&self, data: &Aggregates, theta: &[f64]) -> Result<(f64, Vec<f64>)> {
        self.with_parameters(theta).value_and_gradient(data, true, RunControl::none())
    }

    /// Returns the log evidence and its gradient, with or without the parameters of the mediation.
    pub(super) fn value_and_gradient(
        &self,
        data: &Aggregates,
        with_mediation: bool,
        control: RunControl<'_>,
    ) -> Result<(f64, Vec<f64>)> {
        let state = self.state(data, true, control.stop)?;
        let AggregateState { operator, evidence, variance, .. } = &state;
        let mut by_covariance = evidence.covariance_gradient();
        let product = operator.times(&by_covariance);
        let by_gram = operator.times(&product.transpose());
        let mut gradient: Vec<f64> = match &state.slopes[..] {
            [] => state.rows.gradient(&state.kernel, &by_gram, control.stop)?,
            slopes => slopes.iter().map(|slope| dot(by_gram.data(), slope.data())).collect(),
        };
        if self.noise > 0.0 {
            let sum: f64 = noisy_targets(operator, data).map(|i| by_covariance[(i, i)]).sum();
            gradient.push(variance * self.noise * sum);
        }
        if let Some(overlaps) = &state.overlaps {
            let columns = (0..overlaps.cols()).flat_map(|b| overlaps.column(b).map(move |(c, w)| (b, c, w)));
            let sum: f64 = columns.map(|(b, c, w)| by_gram[(b, c)] * w).sum();
            gradient.push(variance * self.row_noise * sum);
        }
        let mediation_variance = variance * self.mediation_noise;
        if self.mediation_noise > 0.0 {
            gradient.push(
                operator
                    .regression_covariance()
                    .map_or(0.0, |s| mediation_variance * dot(by_covariance.data(), s.data())),
            );
        }
        if let Some(mediation) = self.mediation.as_ref().filter(|_| with_mediation) {
            let derivatives = if let Some(regression) = &operator.regression {
                by_covariance.scale(*variance);
                regression.gradient(&by_covariance)
            } else {
                let mut by_matrix = state.noisy_bag_covariance.matmul(&product);
                by_matrix.scale(2.0);
                for b in 0..by_matrix.rows() {
                    let constant = state.mean * state.bag_responses[b];
                    add_multiple(by_matrix.row_mut(b), constant, evidence.alpha.data());
                }
                by_covariance.scale(mediation_variance);
                operator.gradient(&by_matrix, (mediation_variance > 0.0).then_some(&by_covariance))
            };
            let zeros = vec![0.0; mediation.parameters().len()];
            gradient.extend(if derivatives.is_empty() { zeros } else { derivatives });
        }
        Ok((state.evidence.value, gradient))
    }

    fn check(&self, data: &Aggregates) -> Result<()> {
        data.check()?;
        self.kernel.validate(data.rows.width())?;
        if !(regresses_targets(self.mediation.as_ref())
            && self.noise == 0.0
            && data.mediated() == data.targets.len())
        {
            positive("noise", self.noise)?;
        }
        for (name, value) in [("row_noise", self.row_noise), ("mediation_noise", self.mediation_noise)] {
            not_negative(name, value, "variances are not negative")?;
        }
        check_mean("prior_mean", self.prior_mean)
    }

    fn state(&self, data: &Aggregates, slopes: bool, stop: &AtomicBool) -> Result<AggregateState> {
        self.check(data)?;
        let variance = if self.normalize_y { data.target_variance()? } else { 1.0 };
        let kernel = if variance == 1.0 { self.kernel.clone() } else { variance * self.kernel.clone() };
        crate::checks::check_range(&kernel, &data.rows)?;
        let operator = ObservationOperator::new(
            &data.bags,
            &data.bag_of_target,
            self.mediation.as_ref().zip(data.mediators.as_ref()),
        )?;
        let ties = operator.tie_count();
        let rows = BagRows::new(&data.rows, data.bags.weights());
        let mut slopes =
            if slopes { rows.gram_and_slopes(&kernel, stop)? } else { vec![rows.gram(&kernel, stop)?] };
        let gram = slopes.remove(0);
        let (mut noisy_gram, mut overlaps) = (gram.clone(), None);
        if self.row_noise > 0.0 {
            let matrix = bag_overlaps(data.bags.weights())?;
            for b in 0..matrix.cols() {
                matrix.column(b).for_each(|(c, w)| noisy_gram[(b, c)] += variance * self.row_noise * w);
            }
            overlaps = Some(matrix);
        }
        let covariance = || {
            let mut v = operator.transpose_times(&operator.transpose_times(&noisy_gram).transpose());
            let mediation_variance = variance * self.mediation_noise;
            if let Some(s) = operator.regression_covariance().filter(|_| mediation_variance > 0.0) {
                v.add_times(mediation_variance, s);
            }
            if let Some(regression) = &operator.regression {
                regression.add_to(&mut v, variance);
            }
            noisy_targets(&operator, data).for_each(|t| v[(t, t)] += variance * self.noise);
            for (t, noise) in data.target_noise.iter().flatten().enumerate() {
                v[(ties + t, ties + t)] += noise;
            }
            v
        };
        let factor = Cholesky::new(covariance(), "covariance of the targets")
            .map_err(|e| nearly_duplicate_targets(e, ties, &covariance()))?;
        let bag_responses = data.bags.weights().column_sums();
        let responses = operator.constant_responses(&bag_responses);
        // Ties are observed to be 0.
        let targets = [&vec![0.0; ties][..], &data.targets].concat();
        let (mean, residual) = mean_and_residuals(&factor, &responses, &targets, self.prior_mean);
        let evidence = NormalEvidence::conditional(factor, &Matrix::column_vector(residual), ties);
        check_evidence(evidence.value, "the log marginal likelihood")?;
        Ok(AggregateState {
            rows,
            kernel,
            operator,
            gram,
            slopes,
            noisy_bag_covariance: noisy_gram,
            overlaps,
            evidence,
            mean,
            bag_responses,
            responses,
            variance,
        })
    }
}

/// Returns the indices of the targets that have the noise of the process: all except those that are regressed
/// on mediators.
fn noisy_targets(operator: &ObservationOperator, data: &Aggregates) -> impl Iterator<Item = usize> {
    let (no_regression, ties) = (operator.regression.is_none(), operator.tie_count());
    (0..data.bag_of_target.len())
        .filter(move |&t| no_regression || data.bag_of_target[t].is_some())
        .map(move |t| ties + t)
}

/// Returns the error for a singular covariance, which names the two targets or ties with the largest
/// correlation. The covariance holds ties first, then targets.
fn nearly_duplicate_targets(error: Error, ties: usize, covariance: &Matrix) -> Error {
    let name = |i: usize| match i.checked_sub(ties) {
        Some(t) => format!("target {}", t + 1),
        None => format!("the tie of bag {}", i + 1),
    };
    let pairs = (0..covariance.rows()).flat_map(|i| (0..i).map(move |j| (j, i)));
    let correlation = |(i, j): (usize, usize)| {
        covariance[(i, j)] / (covariance[(i, i)] * covariance[(j, j)]).sqrt().max(f64::MIN_POSITIVE)
    };
    let largest = pairs.map(|pair| (correlation(pair), pair)).max_by(|a, b| a.0.total_cmp(&b.0));
    match (error, largest) {
        (Error::NotPositiveDefinite { .. }, Some((r, (i, j)))) => {
            let allowed = "their covariance is singular: use more noise, or leave one of them out";
            Error::parameter(format!("{} and {}", name(i), name(j)), format!("correlated by {r:.6}"), allowed)
        }
        (error, _) => error,
    }
}
