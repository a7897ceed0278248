//! The plan of a fit: kernel, landmarks and rounding units, on which all parts of the work must agree. Its
//! digest identifies all results that were computed with it.

use serde::{Deserialize, Serialize};

use super::landmarks::randomly_pivoted_cholesky;
use super::parts::digest;
use super::survey::DataSurvey;
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::gp::inducing_points::distinct_rows_except;
use crate::kernel::{FixedRows, Kernel};
use crate::linalg::Matrix;
use crate::simd::{InstructionSet, Isa};
use crate::table::Table;

/// Version of the integers in statistics; plans of other versions are rejected.
const FORMAT: u32 = 3;

/// Number of rows that a survey keeps: minimum per landmark, default, and maximum per landmark.
const KEPT: (usize, usize, usize) = (3, 10_000, 20);
/// Number of candidate rows per landmark, and the minimum number of candidates.
const CANDIDATES: (usize, usize) = (3, 6000);
/// Maximum number of landmarks that are chosen by pivoted Cholesky. Further landmarks are drawn at random:
/// choosing them gains less than its cost, which grows with the cube of their number.
const PIVOTED: usize = 5000;

/// Options of the choice of landmarks and of the division of rows into folds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LandmarkChoice {
    /// The maximum number of landmarks.
    pub landmarks: usize,
    /// Number of folds of cross-validation; 1 for none.
    pub folds: usize,
    /// Whether the middle of the targets' range is subtracted from them. A model with an intercept adds it
    /// back.
    pub centered: bool,
    /// Seed of the landmarks, the candidates and the folds.
    pub seed: u64,
}

impl LandmarkChoice {
    /// The number of rows that a [`DataSurvey`] keeps for the choice.
    pub fn candidates(&self) -> usize {
        let (min_factor, default_count, max_factor) = KEPT;
        self.landmarks
            .saturating_mul(max_factor)
            .min(default_count.max(self.landmarks.saturating_mul(min_factor)))
            .max(2000)
    }
}

/// Centre and unit of a target's fixed-point numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FixedPointScale {
    /// The centre, which is subtracted.
    pub center: f64,
    /// The unit, by which the difference is divided: a power of two that is at least as large as all
    /// differences.
    pub unit: f64,
}

/// Prior mean and noise of a Gaussian process, learnt on the sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GpPrior {
    /// Variance of the noise, in the kernel's units.
    pub noise: f64,
    /// The prior mean.
    pub mean: f64,
}

/// The kind of model, with its parameters that were learnt on the sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// Kernel ridge regression from statistics. Its ridge is chosen when the equations are solved.
    Ridge,
    /// Kernel ridge regression by conjugate gradients.
    Gradients {
        /// The ridge.
        ridge: f64,
        /// The digest of the survey whose sample gives the starting values.
        survey: String,
        /// Number of sample rows for the starting values.
        sampled: usize,
        /// Whether kernel values are computed by the fast method, whose rounding error is larger.
        quick: bool,
    },
    /// A Gaussian process.
    Process(GpPrior),
    /// Classification of two classes.
    Classes {
        /// Names of the classes.
        names: Vec<String>,
        /// The latent function that distinguishes the classes.
        #[serde(rename = "by")]
        latent_function: LatentFunction,
        /// Starting values of Newton's method (landmarks and a constant); empty for 0.
        start: Vec<f64>,
    },
}

/// Assumption about the latent function of a classification.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatentFunction {
    /// Logistic regression with this ridge.
    Penalised(f64),
    /// A Gaussian process whose prior covariance is the kernel.
    Process,
}

/// Plan of a fit: all settings that the results of its parts depend on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FitPlan {
    format: u32,
    /// Whether this machine fuses multiplication and addition, which decides the last bits of kernel values.
    #[serde(rename = "fused")]
    has_fma: bool,
    /// The kernel.
    pub kernel: Kernel,
    /// The kind of model.
    pub model: Model,
    /// The landmarks.
    pub landmarks: Table,
    /// The share of the kernel's trace over the candidates that the landmarks leave unexplained. Only the
    /// first 5,000 landmarks count.
    pub unexplained: f64,
    /// The number of rows in the survey.
    pub rows: u64,
    /// A power of two that no kernel value exceeds.
    pub bound: f64,
    /// Fixed-point scale of each target.
    pub targets: Vec<FixedPointScale>,
    /// The largest weight, if rows have weights.
    pub largest_weight: Option<f64>,
    /// Number of folds into which rows are divided.
    pub folds: usize,
    /// Seed of the folds.
    pub seed: u64,
}

/// The part of a plan's file that is read before the rest.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl FitPlan {
    /// Chooses landmarks among the rows that the survey kept. Cost O(candidates landmarks²).
    ///
    /// # Errors
    /// Those of the kernel; [`Error::TooFew`] without rows.
    pub fn new(survey: &DataSurvey, kernel: Kernel, model: Model, choice: LandmarkChoice) -> Result<Self> {
        let sample = survey.sample()?;
        kernel.validate(sample.x.width())?;
        let bound = match kernel.max_value() {
            Some(largest) => largest,
            None if survey.largest_kernel > 0.0 => survey.largest_kernel,
            None => {
                let allowed = "its largest value depends on the rows: look at all of them with it first";
                return Err(Error::parameter("kernel", kernel.formula(), allowed));
            }
        };
        // Rows are in the order of their hashes, so the first ones are a random part of the sample.
        let ((rows_per_landmark, min_candidates), n_pivoted) = (CANDIDATES, choice.landmarks.min(PIVOTED));
        let n_candidates = sample.len().min((n_pivoted * rows_per_landmark).max(min_candidates));
        let candidates = sample.x.head(n_candidates);
        let mut choice_of_rows =
            randomly_pivoted_cholesky(&kernel, &candidates, n_pivoted, choice.seed, RunControl::none())?;
        if choice_of_rows.rows.len() == PIVOTED {
            choice_of_rows.rows.extend(distinct_rows_except(
                &sample.x,
                &choice_of_rows.rows,
                choice.landmarks - PIVOTED,
            ));
        }
        let scale = |(low, high): &(f64, f64)| {
            let center = if choice.centered { low / 2.0 + high / 2.0 } else { 0.0 };
            FixedPointScale {
                center,
                unit: next_power_of_two((high - center).abs().max((low - center).abs())),
            }
        };
        Ok(Self {
            format: FORMAT,
            has_fma: has_fma(),
            model,
            landmarks: sample.x.select_rows(&choice_of_rows.rows),
            unexplained: choice_of_rows.unexplained,
            rows: survey.rows,
            bound: next_power_of_two(bound),
            targets: survey.ranges.iter().map(scale).collect(),
            largest_weight: (survey.largest_weight > 0.0).then_some(survey.largest_weight),
            folds: choice.folds.max(1),
            seed: choice.seed,
            kernel,
        })
    }

    /// Upper bound on the rounding error of the kernel matrix of `rows` rows with the landmarks and a
    /// constant, in the Frobenius norm. Kernel values have `slices` slices.
    pub(super) fn rounding(&self, rows: u64, slices: i32) -> f64 {
        let step =
            0.5_f64.powi(22 + 21 * (slices - 1)) * self.bound * self.largest_weight.unwrap_or(1.0).sqrt();
        step * (rows as f64 * (self.landmarks.rows() + 1) as f64).sqrt()
    }

    /// The landmarks, prepared for kernel values with many rows. Where a pass computes no gram matrix, these
    /// kernel values take most of its time.
    pub(super) fn anchors(&self) -> FixedRows<'_> {
        match self.model {
            Model::Gradients { quick: true, .. } | Model::Classes { .. } => {
                FixedRows::new(&self.kernel, &self.landmarks)
            }
            Model::Gradients { quick: false, .. } | Model::Ridge | Model::Process(_) => {
                FixedRows::exact(&self.kernel, &self.landmarks)
            }
        }
    }

    /// The bound of feature `j`: that of the kernel for landmarks, 1 for the constant, which comes last.
    pub(super) fn feature_bound(&self, j: usize) -> f64 {
        if j + 1 < self.size() { self.bound } else { 1.0 }
    }

    /// Size of the normal equations: the number of landmarks plus 1 for the constant.
    pub(super) fn size(&self) -> usize {
        self.landmarks.rows() + 1
    }

    /// SHA-256 of the plan, which identifies the plan and all results that follow from it.
    pub fn digest(&self) -> String {
        digest(&self.to_bytes())
    }

    /// The bytes of the plan as a file in JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a plan from the bytes of a file.
    ///
    /// # Errors
    /// [`Error::Format`] for a file that is not a plan, or one from a machine with other arithmetic.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let foreign = |e: serde_json::Error| Error::format(format!("this is not a plan of riesz: {e}"));
        let Version { format: version } = serde_json::from_slice(bytes).map_err(foreign)?;
        if version != FORMAT {
            return Err(Error::format(format!(
                "this plan has format {version}, but this version of riesz uses format {FORMAT}: make a new \
                 plan"
            )));
        }
        let plan: Self = serde_json::from_slice(bytes).map_err(foreign)?;
        if plan.has_fma != has_fma() {
            let differ = "the plan comes from a machine that rounds a product and a sum together, and \
                          this machine does not (or the other way round), so results would differ in \
                          their last bits: make the plan on a machine of this kind";
            return Err(Error::format(differ));
        }
        plan.kernel.validate(plan.landmarks.width())?;
        let sound = plan.bound > 0.0
            && plan.bound.is_finite()
            && plan.landmarks.rows() > 0
            && plan.folds > 0
            && plan.targets.iter().all(|t| t.unit > 0.0 && t.unit.is_finite() && t.center.is_finite())
            && plan.largest_weight.is_none_or(|w| w > 0.0 && w.is_finite())
            && match &plan.model {
                Model::Classes { start, .. } => start.is_empty() || start.len() == plan.size(),
                _ => true,
            };
        if !sound {
            return Err(Error::format("this plan is damaged: make a new plan"));
        }
        Ok(plan)
    }
}

/// The smallest power of two that is at least v; 1 for v ≤ 0.
fn next_power_of_two(v: f64) -> f64 {
    if v <= 0.0 {
        return 1.0;
    }
    let mut power = 2.0_f64.powi(v.log2().floor().clamp(-1000.0, 1000.0) as i32);
    while power < v {
        power *= 2.0;
    }
    power
}

/// Whether this machine fuses multiplication and addition into one rounding.
fn has_fma() -> bool {
    !matches!(Isa::detect().instruction_set(), InstructionSet::Plain)
}

impl FixedPointScale {
    /// `v` in the target's unit.
    pub(super) fn to_unit(self, v: f64) -> f64 {
        (v - self.center) / self.unit
    }
}

/// The penalty's matrix P: the landmarks' gram matrix, with a row and a column of 0 for the constant.
pub(super) fn penalty(plan: &FitPlan) -> Matrix {
    let (m, p) = (plan.landmarks.rows(), plan.size());
    let gram = plan.kernel.gram(&plan.landmarks);
    let mut out = Matrix::zeros(p, p);
    (0..m).for_each(|i| out.row_mut(i)[..m].copy_from_slice(gram.row(i)));
    out
}
