//! One-class support vector machine (Schölkopf, Platt, Shawe-Taylor, Smola and Williamson 2001).

use super::solver::{Problem, SolverSettings, solve};
use super::{CACHE_BYTES, TOLERANCE, check_tolerance, support_vectors};
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::kernel_model::{KernelExpansion, Link};
use crate::model_card::CardEntry;
use crate::table::Table;

/// One-class machine, which finds the region where the rows are dense:
/// `min ½‖f‖² - ρ ν n + Σ_i max(0, ρ - f(x_i))`, in LIBSVM's scaling (β from 0 to 1, `Σβ = ν n`).
#[derive(Debug, Clone)]
pub struct OneClassSupportVector {
    /// The kernel.
    pub kernel: Kernel,
    /// At most this share of the rows is outside, and at least this share are support vectors. In (0, 1].
    pub nu: f64,
    /// The largest accepted violation of the optimality conditions.
    pub tolerance: f64,
    /// Memory for working sets and their gram matrices in bytes, 200 MB by default.
    pub cache_bytes: usize,
    /// Maximum number of steps; `None` for LIBSVM's rule, the larger of 10⁷ and 100 n.
    pub max_iterations: Option<usize>,
    /// Whether rows whose coefficients have probably converged are set aside.
    pub shrinking: bool,
}

/// A fitted one-class machine.
#[derive(Debug, Clone)]
pub struct OneClassFit {
    /// The model with one output, which is positive inside; the classes are "-1" (outside) and "1" (inside).
    pub model: KernelExpansion,
    /// Indices of the rows that are support vectors, ascending.
    pub support: Vec<usize>,
    /// Number of steps.
    pub iterations: usize,
    /// Dual objective `½ βᵀKβ`.
    pub objective: f64,
}

impl OneClassSupportVector {
    /// A machine with LIBSVM's tolerance.
    pub fn new(kernel: Kernel, nu: f64) -> Self {
        Self {
            kernel,
            nu,
            tolerance: TOLERANCE,
            cache_bytes: CACHE_BYTES,
            max_iterations: None,
            shrinking: true,
        }
    }

    /// Fits to the rows of `x`. Cost as for classification, and ν n rows of the gram matrix for the start.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::TooFew`]; [`Error::NotConverged`]; [`Error::Overflow`] if kernel values
    /// are not finite.
    pub fn fit(&self, x: &Table) -> Result<OneClassFit> {
        let n = x.rows();
        crate::checks::check_rows(x, n, 1)?;
        self.kernel.validate(x.width())?;
        check_tolerance(self.tolerance)?;
        if !(self.nu > 0.0 && self.nu <= 1.0) {
            return Err(Error::parameter("nu", self.nu, "it must be above 0 and at most 1"));
        }
        let total = self.nu * n as f64;
        let problem = Problem {
            kernel: &self.kernel,
            x,
            linear: vec![0.0; n],
            epsilon: 0.0,
            lower: vec![0.0; n],
            upper: vec![1.0; n],
            start: (0..n).map(|r| (total - r as f64).clamp(0.0, 1.0)).collect(),
            stop: RunControl::none().stop,
        };
        let settings = SolverSettings {
            tolerance: self.tolerance,
            cache_bytes: self.cache_bytes,
            max_iterations: self.max_iterations,
            keep_unfinished: false,
            shrinking: self.shrinking,
        };
        let solution = solve(problem, settings)?;
        let (support, coef) = support_vectors(n, &[((0..n).collect(), solution.beta)]);
        let model = KernelExpansion {
            kernel: self.kernel.clone(),
            support_points: x.select_rows(&support),
            coef,
            intercept: vec![solution.intercept],
            output_names: vec!["inside".into()],
            link: Link::Vote,
            classes: vec!["-1".into(), "1".into()],
            model_card: vec![
                CardEntry::new("model", "one-class support vector machine"),
                CardEntry::new("nu", self.nu),
                CardEntry::new("support vectors", format!("{} of {n} rows", support.len())),
                CardEntry::new("svm_type", "one_class"),
            ],
        };
        model.validate()?;
        Ok(OneClassFit { model, support, iterations: solution.iterations, objective: solution.objective })
    }
}
