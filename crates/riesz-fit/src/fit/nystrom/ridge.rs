//! Kernel ridge regression through landmarks from statistics, its correction, and its certificate.
//!
//! K (n × (m + 1)) holds the kernel values of the n rows with the m landmarks and a column of ones, each row
//! times the square root of its weight. P (m + 1 square) is the landmarks' gram matrix, with a row and a
//! column of 0. The coefficients θ of `min Σ_i w_i (y_i - f(x_i))² + λ‖f‖²` over functions f of the landmarks
//! and a constant solve `A θ = Kᵀy` with `A = KᵀK + λP`. The statistics hold `Â`, which is A with K rounded
//! to K̂.

use super::certificate::{Certificate, ResidualMeasurement, SpectralBound};
use super::coefficients::Coefficients;
use super::equations::{RidgeSpec, RidgeTrials, best_trial, choose, solved, with_constant};
use super::gradients::{CgStage, CgState};
use super::nested::{LandmarkErrorEstimate, NestedFits};
use super::plan::{FitPlan, Model};
use super::residual::ResidualPass;
use super::sample::{SamplePreconditioner, penalty_times};
use super::statistics::Statistics;
use super::survey::DataSurvey;
use crate::checks::check_overflow;
use crate::error::{Error, Result};
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Cholesky, Matrix, dot, max_abs, mean};
use crate::model_card::CardEntry;
use crate::table::Table;

/// A solution of the normal equations, and what is known about its error.
#[derive(Debug, Clone)]
pub struct RidgeSolution {
    plan: FitPlan,
    coefficients: Coefficients,
    /// The ridge, given or chosen.
    pub ridge: f64,
    /// The ridges that were compared, with half and a quarter of the landmarks too; empty without folds.
    pub tried: Vec<RidgeTrials>,
    intercept: bool,
    rows: u64,
    /// The sum of the weights; 0 until it is known.
    weight: f64,
    /// Cholesky factor of `Â`, or of the sample's equations.
    factor: Cholesky,
    /// State of conjugate gradients; `None` for the direct solution.
    descent: Option<CgProgress>,
    /// Bounds on the spectrum of A, for the certificate; `None` where rounding may dominate.
    spectral_bound: Option<SpectralBound>,
    certificate: Option<Certificate>,
    residual: Option<Vec<f64>>,
    /// Whether one more correction would remove most of the bound.
    correction_helps: bool,
    /// The bound and the root mean squared error of the target with the largest ratio, over the first
    /// landmarks.
    pub(super) largest_bound: Option<(f64, f64)>,
    /// See [`missing`](Self::missing).
    missing: Option<LandmarkErrorEstimate>,
}

/// State of conjugate gradients.
#[derive(Debug, Clone)]
struct CgProgress {
    run: CgState,
    /// The starting values: (landmarks and constant) × targets.
    start: Matrix,
    tolerance: f64,
    /// The number of rows of the sample.
    sampled: usize,
    /// The sum of the weights in the sample.
    weight: f64,
    /// The largest `√(kᵀ(LLᵀ)⁻¹k)` at a landmark, with kernel values k.
    leverage_norm: f64,
    /// The largest ratio of a residual norm to its required value at the last measurement.
    last_ratio: f64,
    /// Whether the iteration ended above the tolerance.
    fell_short: bool,
}

/// The Euclidean norms of the columns.
fn column_norms(matrix: &Matrix) -> Vec<f64> {
    (0..matrix.cols()).map(|o| dot(&matrix.column(o), &matrix.column(o)).sqrt()).collect()
}

/// Number of landmarks, from the first on, at which the bound is evaluated.
const MAX_CHECKED: usize = 500;

impl RidgeSolution {
    /// Solves the normal equations. Cost O(landmarks³), for every ridge and fold if there are several ridges.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a ridge that is not positive, or several ridges without folds;
    /// [`Error::TooFew`] for fewer than two rows; [`Error::NotPositiveDefinite`].
    pub fn new(plan: &FitPlan, statistics: Statistics, penalties: &RidgeSpec) -> Result<Self> {
        let RidgeSpec { ridges, intercept } = penalties;
        ridges.iter().try_for_each(|ridge| crate::checks::positive("ridge", *ridge))?;
        statistics.check_two_rows()?;
        let (ridge, tried) = match ridges[..] {
            [] => return Err(Error::parameter("ridge", "none", "give at least one ridge")),
            [one] => (one, Vec::new()),
            _ => choose(plan, &statistics, penalties)?,
        };
        let sums = statistics.sums(plan, |_| true);
        // The statistics are as large as the matrix that follows.
        drop(statistics);
        let (rows, weight) = (sums.rows, sums.gram[(plan.size() - 1, plan.size() - 1)]);
        let (values, factor, trace) = solved(plan, sums, ridge, *intercept)?;
        let values = with_constant(values, plan, *intercept);
        let rounding = plan.rounding(rows, 1);
        let spectral_bound = SpectralBound::new(&factor, trace, 0, rounding);
        let missing =
            NestedFits { plan, factor: &factor, ridge, values: &values, rows, weight, rounding }.missing();
        Ok(Self {
            plan: plan.clone(),
            coefficients: Coefficients::new(values),
            ridge,
            tried,
            intercept: *intercept,
            rows,
            weight,
            missing,
            correction_helps: false,
            largest_bound: None,
            factor,
            descent: None,
            spectral_bound,
            certificate: None,
            residual: None,
        })
    }

    /// Solves the normal equations of a survey's sample, which give the starting values of conjugate
    /// gradients. The iteration ends when the largest bound at a landmark is `tolerance` times the root mean
    /// squared error. Cost O(landmarks³ + sample landmarks²).
    ///
    /// # Errors
    /// [`Error::Format`] if the survey is not the plan's, or the plan is of another kind;
    /// [`Error::Parameter`] for a tolerance that is not positive; [`Error::NotPositiveDefinite`].
    pub fn of_sample(plan: &FitPlan, survey: &DataSurvey, intercept: bool, tolerance: f64) -> Result<Self> {
        crate::checks::positive("tolerance", tolerance)?;
        let Model::Gradients { ridge, survey: digest, sampled, .. } = &plan.model else {
            return Err(Error::format("this plan is not for conjugate gradients"));
        };
        if *digest != survey.digest() {
            return Err(Error::format("this survey is not the one from which the plan was made"));
        }
        crate::checks::positive("ridge", *ridge)?;
        let sample = survey.sample()?.head(*sampled);
        let preconditioner = SamplePreconditioner::new(plan, &sample, *ridge, intercept)?;
        let SamplePreconditioner { factor, trace, .. } = &preconditioner;
        let spectral_bound = SpectralBound::new(factor, *trace, preconditioner.rounding_count(), 0.0);
        let rows = preconditioner.rows;
        let start = with_constant(preconditioner.solution, plan, intercept);
        // Measured points change predictions by about a tenth of the target's unit.
        let weight: f64 = sample.weights.as_ref().map_or(rows as f64, |w| w.iter().sum());
        let probe_norms = plan.targets.iter().map(|t| 0.1 * t.unit * weight.sqrt());
        let mut solution = Self {
            plan: plan.clone(),
            coefficients: Coefficients::new(start.clone()),
            ridge: *ridge,
            tried: Vec::new(),
            intercept,
            rows: plan.rows,
            weight: 0.0,
            missing: None,
            correction_helps: false,
            largest_bound: None,
            factor: preconditioner.factor,
            descent: None,
            spectral_bound,
            certificate: None,
            residual: None,
        };
        let run = CgState::new(probe_norms.collect());
        let leverage_norm = max_abs(&solution.leverage_norm(&solution.looked_at()));
        solution.descent = Some(CgProgress {
            run,
            start,
            tolerance,
            sampled: rows,
            weight,
            leverage_norm,
            last_ratio: f64::INFINITY,
            fell_short: false,
        });
        Ok(solution)
    }

    /// The coefficients of the solution, or those at which the next pass is needed.
    pub fn coefficients(&self) -> &Coefficients {
        &self.coefficients
    }

    /// Whether the solution comes from the statistics of all rows.
    pub(super) fn is_direct(&self) -> bool {
        self.descent.is_none()
    }

    /// Whether the solution is final.
    pub fn is_found(&self) -> bool {
        self.descent.as_ref().is_none_or(|descent| descent.run.stage == CgStage::Done)
    }

    /// Corrects the solution by its residual, and bounds its distance from the exact solution, unless
    /// rounding may dominate. `residual` is the residual of all rows at [`coefficients`](Self::coefficients).
    ///
    /// # Errors
    /// [`Error::Format`] for a residual of another number of rows.
    pub fn correct(&mut self, residual: &ResidualPass) -> Result<()> {
        let (equation_residual, squares) = self.residual(residual)?;
        let t = equation_residual.cols();
        let mut solved = equation_residual;
        self.factor.solve_lower_in_place(&mut solved);
        let norms = column_norms(&solved);
        self.factor.solve_upper_in_place(&mut solved);
        let certificate = self.spectral_bound.map(|bound| bound.after_step(&self.measured(&squares), &norms));
        self.correction_helps =
            self.spectral_bound.zip(certificate.as_ref()).is_some_and(|(bound, certificate)| {
                let radius = certificate.radius.as_ref();
                radius.is_some_and(|radius| {
                    (0..t).any(|o| bound.next_step_reduction(norms[o]) > 0.5 * radius[o])
                })
            });
        self.coefficients.values.add_times(1.0, &solved);
        self.store_certificate(certificate, squares)
    }

    /// Bounds the distance of the unchanged solution from the exact one by its residual: one bound for all
    /// rows. There is no bound where landmarks are nearly linearly dependent.
    ///
    /// # Errors
    /// Those of [`correct`](Self::correct).
    pub fn prove(&mut self, residual: &ResidualPass) -> Result<()> {
        let (equation_residual, squares) = self.residual(residual)?;
        let certificate = self.measured(&squares).certify_directly(&equation_residual, self.intercept)?;
        self.store_certificate(certificate, squares)
    }

    /// Stores the certificate of the coefficients and the sums of squared residuals.
    fn store_certificate(&mut self, certificate: Option<Certificate>, squares: Vec<f64>) -> Result<()> {
        self.certificate = certificate.map(|c| c.with_rounding(&self.plan, &self.coefficients.values));
        self.residual = Some(squares);
        self.find_worst()
    }

    /// Root mean squared errors per target. An error below 1e-9 of the target's unit is replaced by this
    /// value, so that ratios remain finite.
    fn errors(&self) -> Option<Vec<f64>> {
        let errors_by_target = self.training_error()?.into_iter().zip(&self.plan.targets);
        let at_least = |error: f64, minimum: f64| if error < minimum { minimum } else { error };
        Some(errors_by_target.map(|(error, target)| at_least(error.sqrt(), 1e-9 * target.unit)).collect())
    }

    /// The first landmarks, at which the bounds are evaluated.
    fn looked_at(&self) -> Table {
        self.plan.landmarks.head(MAX_CHECKED)
    }

    fn find_worst(&mut self) -> Result<()> {
        let (Some(errors), Some(bounds)) = (self.errors(), self.bounds(&self.looked_at())?) else {
            self.largest_bound = None;
            return Ok(());
        };
        let largest = |o: usize| max_abs(&bounds.column(o));
        let bounds_and_errors = (0..bounds.cols()).map(|o| (largest(o), errors[o]));
        self.largest_bound = bounds_and_errors.max_by(|a, b| (a.0 * b.1).total_cmp(&(b.0 * a.1)));
        Ok(())
    }

    /// The largest proved bound at one of the first 500 landmarks, and the root mean squared error over the
    /// rows, for the target with the largest ratio. `None` unless the bound exceeds a hundredth of the error,
    /// or twice the tolerance of conjugate gradients.
    pub(super) fn bound_and_rmse(&self) -> Option<(f64, f64)> {
        let max_ratio = self.descent.as_ref().map_or(1e-2, |descent| 2.0 * descent.tolerance);
        self.largest_bound.filter(|(bound, error)| *bound > max_ratio * error)
    }

    /// Whether kernel values were computed by the fast method, with larger rounding errors.
    pub(super) fn is_quick(&self) -> bool {
        matches!(self.plan.model, Model::Gradients { quick: true, .. })
    }

    /// The number of iterations of conjugate gradients, if they ended above their tolerance.
    pub(super) fn fell_short(&self) -> Option<usize> {
        self.descent.as_ref().filter(|descent| descent.fell_short).map(|descent| descent.run.steps)
    }

    /// Whether another pass over all rows is useful after `passes` passes, if the user requested
    /// `corrections` corrections. A pass corrects, once more than requested where the bound is wide. After
    /// corrections without a certificate it bounds the error of the solution.
    pub fn wants_pass(&self, corrections: usize, passes: usize) -> bool {
        if let Some(descent) = &self.descent {
            return descent.run.stage != CgStage::Done;
        }
        passes < corrections
            || passes == corrections
                && corrections > 0
                && (self.corrects_more() || self.certificate.is_none())
    }

    /// Whether a correction beyond the requested ones would narrow the bound.
    fn corrects_more(&self) -> bool {
        self.correction_helps && self.bound_and_rmse().is_some()
    }

    /// Uses the residual of such a pass for a correction, a certificate or a step of conjugate gradients.
    ///
    /// # Errors
    /// Those of [`correct`](Self::correct).
    pub fn apply_residual(
        &mut self,
        residual: &ResidualPass,
        corrections: usize,
        passes: usize,
    ) -> Result<()> {
        if let Some(descent) = self.descent.take() {
            return self.continue_cg(descent, residual);
        }
        if passes < corrections || self.corrects_more() {
            self.correct(residual)
        } else {
            self.prove(residual)
        }
    }

    /// Continues conjugate gradients with the residual of a pass.
    fn continue_cg(&mut self, mut descent: CgProgress, residual: &ResidualPass) -> Result<()> {
        let (mut equation_residual, squares) = self.residual(residual)?;
        self.factor.solve_lower_in_place(&mut equation_residual);
        let norms = column_norms(&equation_residual);
        if descent.run.stage == CgStage::Step {
            descent.run.step(&equation_residual)?;
        } else {
            let certificate =
                self.spectral_bound.map(|bound| bound.as_measured(&self.measured(&squares), &norms));
            self.store_certificate(certificate, squares)?;
            let errors = self.errors().unwrap_or_default();
            let remedy = "express the targets in larger units";
            check_overflow(&[&errors[..], &norms].concat(), "the sum of squared residuals", remedy)?;
            let norm_ratio = self.spectral_bound.map_or(1.0, |bound| bound.norm_ratio());
            let target_norms: Vec<f64> = errors
                .iter()
                .map(|error| descent.tolerance * error / (norm_ratio.powi(2) * descent.leverage_norm))
                .collect();
            let worst_ratio = norms
                .iter()
                .zip(&target_norms)
                .map(|(norm, target_norms)| norm / target_norms)
                .fold(0.0, f64::max);
            if worst_ratio <= 1.0 {
                descent.run.stage = CgStage::Done;
            } else if worst_ratio < 0.5 * descent.last_ratio && !descent.run.is_long() {
                // Half of the required norm leaves room for rounding errors.
                descent.run.restart(
                    equation_residual,
                    target_norms.iter().map(|target_norms| 0.5 * target_norms).collect(),
                )?;
            } else {
                // Another round did not help, so the rest is rounding error.
                descent.fell_short = true;
                descent.run.stage = CgStage::Done;
            }
            descent.last_ratio = worst_ratio;
        }
        if descent.run.stage == CgStage::Done {
            self.missing = self.nested(&descent).missing();
        } else {
            let mut step = descent.run.point(self.factor.size());
            self.factor.solve_upper_in_place(&mut step);
            self.coefficients.values.clone_from(&descent.start);
            self.coefficients.values.add_times(1.0, &step);
        }
        self.descent = Some(descent);
        Ok(())
    }

    /// The solution as nested fits in the inner product of the sample.
    fn nested(&self, descent: &CgProgress) -> NestedFits<'_> {
        let ridge = self.ridge * descent.sampled as f64 / self.plan.rows as f64;
        NestedFits {
            plan: &self.plan,
            factor: &self.factor,
            ridge,
            values: &self.coefficients.values,
            rows: self.rows,
            weight: descent.weight,
            rounding: 0.0,
        }
    }

    fn measured<'s>(&'s self, squares: &'s [f64]) -> ResidualMeasurement<'s> {
        let (plan, rows, weight, ridge) = (&self.plan, self.rows, self.weight, self.ridge);
        let (coefficients, kernel_precision) = (&self.coefficients.values, plan.anchors().precision());
        ResidualMeasurement { plan, rows, weight, ridge, coefficients, squares, kernel_precision }
    }

    /// `Kᵀe - λPθ`, and `Σ e²`.
    fn residual(&mut self, residual: &ResidualPass) -> Result<(Matrix, Vec<f64>)> {
        if residual.rows() != self.rows {
            return Err(Error::format(format!(
                "the residual has {} rows, but the fit has {}",
                residual.rows(),
                self.rows
            )));
        }
        let (cross, squares, weight) = residual.sums(&self.plan);
        self.weight = weight;
        // Without an intercept the constant has no equation.
        let size = self.factor.size();
        let (mut equation_residual, theta) =
            (cross.first_rows(size), self.coefficients.values.first_rows(size));
        let penalty_gradient = penalty_times(&self.plan, &theta);
        equation_residual.add_times(-self.ridge, &penalty_gradient);
        Ok((equation_residual, squares))
    }

    /// Certificate of the distance from the exact fit with the same landmarks; `None` before a correction,
    /// and where rounding may dominate the solution.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    /// The proved bound at each row of `x`, rows × targets; see [`Certificate`].
    ///
    /// # Errors
    /// Those of [`Table::align_to`].
    pub fn bounds(&self, x: &Table) -> Result<Option<Matrix>> {
        let Some(certificate) = &self.certificate else { return Ok(None) };
        let x = x.align_to(self.plan.landmarks.columns())?;
        let t = self.plan.targets.len();
        let local = certificate.radius.as_ref().map(|radius| (radius, self.leverage_norm(&x)));
        let bound = |k: usize| {
            let anywhere = certificate.anywhere[k % t];
            local.as_ref().map_or(anywhere, |(radius, leverage_norm)| {
                (radius[k % t] * leverage_norm[k / t] + certificate.rounding[k % t]).min(anywhere)
            })
        };
        let bounds = (0..x.rows() * t).map(bound).collect();
        Ok(Some(Matrix::from_row_major(x.rows(), t, bounds)))
    }

    /// `√(kᵀ(LLᵀ)⁻¹k)` at each row of a table with the plan's columns.
    fn leverage_norm(&self, x: &Table) -> Vec<f64> {
        let mut kernels = self.plan.kernel.cross_gram(&self.plan.landmarks, x).into_data();
        // With an intercept the last row is that of the constant.
        kernels.resize(self.factor.size() * x.rows(), 1.0);
        let mut whitened = Matrix::from_row_major(self.factor.size(), x.rows(), kernels);
        self.factor.solve_lower_in_place(&mut whitened);
        whitened.column_dots(&whitened).into_iter().map(f64::sqrt).collect()
    }

    /// The weighted mean squared error over the rows before the last correction, one number per target;
    /// `None` before a pass measured it.
    pub fn training_error(&self) -> Option<Vec<f64>> {
        self.residual.as_ref().map(|squares| squares.iter().map(|s| s / self.weight).collect())
    }

    /// Estimated distance from the fit with all rows as support points, from fits with a half, a quarter and
    /// so on of the landmarks. It is the root mean square over rows, one number per target, with a covariance
    /// for predictions, Shapley values and all other linear functions of the model. `None` for fewer than
    /// four landmarks, for fewer rows than landmarks where these are a part of the plan's rows, and where
    /// rounding dominates the differences.
    pub fn missing(&self) -> Option<&LandmarkErrorEstimate> {
        self.missing.as_ref()
    }

    /// The number of rows of the fit.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The fitted model.
    ///
    /// # Errors
    /// Those of an expansion.
    pub fn model(&self) -> Result<KernelExpansion> {
        let (plan, t) = (&self.plan, self.plan.targets.len());
        let m = plan.landmarks.rows();
        let values = &self.coefficients.values;
        let coef = values.first_rows(m);
        let intercept =
            (0..t).map(|o| if self.intercept { plan.targets[o].center + values[(m, o)] } else { 0.0 });
        let mut model =
            KernelExpansion::new(plan.kernel.clone(), plan.landmarks.clone(), coef, intercept.collect())?;
        model.model_card = self.facts();
        Ok(model)
    }

    fn facts(&self) -> Vec<CardEntry> {
        let mut facts = vec![
            CardEntry::new("model", "kernel ridge regression through landmarks"),
            CardEntry::measured("ridge", self.ridge),
            CardEntry::new("solver", if self.is_direct() { "direct" } else { "conjugate gradients" }),
            CardEntry::measured("jitter", self.factor.jitter),
            CardEntry::new("landmarks", self.plan.landmarks.rows()),
            CardEntry::measured("unexplained share of the kernel", self.plan.unexplained),
            CardEntry::new("rows", self.rows),
            CardEntry::new("plan", &self.plan.digest()[..16]),
        ];
        if let Some(descent) = &self.descent {
            facts.extend([
                CardEntry::new("steps", descent.run.steps),
                CardEntry::new("rows that it started from", descent.sampled),
                CardEntry::measured("tolerance", descent.tolerance),
            ]);
        }
        if let Some(error) = self.training_error() {
            facts.push(CardEntry::measured("mean squared error of the rows", mean(&error)));
        }
        if let Some(best) = best_trial(&self.tried, self.plan.landmarks.rows()) {
            facts.push(CardEntry::measured("held-out mean squared error", best.error));
        }
        facts.extend(self.missing.iter().flat_map(LandmarkErrorEstimate::facts));
        facts.push(match &self.certificate {
            Some(Certificate { radius: Some(radius), .. }) => {
                CardEntry::measured("radius of the certificate", max_abs(radius))
            }
            Some(certificate) => {
                CardEntry::measured("certificate: at any row at most", max_abs(&certificate.anywhere))
            }
            None => CardEntry::new("certificate", "none"),
        });
        facts
    }
}
