//! Block decomposition for all support vector machines with one equality constraint.
//!
//! The dual problems are written in the coefficients β of the expansion, signs included:
//!
//! ```text
//! min ½ βᵀKβ + qᵀβ + ε Σ|β_r|   subject to   Σβ_r fixed,  lower_r ≤ β_r ≤ upper_r
//! ```
//!
//! Classification has q = -y (y = ±1) and bounds [0, C] or [-C, 0]. ε-insensitive regression has q = -y and
//! bounds [-C, C]. One-class has q = 0 and bounds [0, 1]. In this form gradient updates need no signs, and
//! regression needs one variable per row instead of two: the kink of ε|β| at 0 is a breakpoint at which a
//! step ends. Candidate steps and the stopping rule are those of LIBSVM's formulation.
//!
//! Each iteration chooses a working set, computes its gram matrix and solves the problem on it pair by pair.
//! It then updates all gradients with kernel values that are not stored (Joachims 1999; Wen et al.,
//! ThunderSVM, JMLR 2018). The size of the set grows with the number of free coefficients, so that the last
//! sets contain all of them. Rows whose coefficient is at a bound, with a gradient that keeps it there, are
//! set aside (shrinking) and checked again before the end (Chang and Lin, ACM TIST 2011, section 5).

use std::sync::atomic::AtomicBool;

use super::smo::solve_smo;
use super::variables::Variables;
use super::working_set::WorkingSet;
use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::kernel::{Kernel, Points};
use crate::linalg::select;
use crate::table::Table;

/// Number of rows in a working set in addition to 5/4 of the free ones, if memory allows.
const SET: usize = 512;
/// Minimum size of a working set, whatever memory allows. Steps on fewer rows are hardly better than steepest
/// descent, and slow.
const MIN_SET_SIZE: usize = 64;
/// A working set is solved until its violation is this share of the violation of all rows.
const INNER: f64 = 0.2;

/// A dual problem.
pub(super) struct Problem<'a> {
    pub kernel: &'a Kernel,
    pub x: &'a Table,
    /// The vector q.
    pub linear: Vec<f64>,
    /// Half-width ε of the insensitive tube; there is a kink at 0 only if it is positive.
    pub epsilon: f64,
    pub lower: Vec<f64>,
    pub upper: Vec<f64>,
    /// A feasible β to start from.
    pub start: Vec<f64>,
    /// Set to `true` to cancel.
    pub stop: &'a AtomicBool,
}

/// Settings of the solver.
#[derive(Clone, Copy)]
pub(super) struct SolverSettings {
    pub tolerance: f64,
    pub cache_bytes: usize,
    pub max_iterations: Option<usize>,
    /// Whether to return the current solution after `max_iterations`, instead of an error.
    pub keep_unfinished: bool,
    pub shrinking: bool,
}

/// Solution of a dual problem: `f(x) = Σ β_r k(x_r, x) + intercept`.
pub(super) struct Solution {
    pub beta: Vec<f64>,
    pub intercept: f64,
    pub iterations: usize,
    pub converged: bool,
    pub objective: f64,
}

/// Solves the problem. Cost: O(n) kernel values per change of a row's coefficient by a working set; memory
/// O(n d), and the memory of the set.
pub(super) fn solve(problem: Problem<'_>, settings: SolverSettings) -> Result<Solution> {
    Solver::new(problem, settings)?.run()
}

struct Solver<'a> {
    settings: SolverSettings,
    stop: &'a AtomicBool,
    linear: Vec<f64>,
    variables: Variables,
    points: Points<'a>,
    /// Number of columns of the table.
    width: usize,
    /// The active rows, ascending.
    active: Vec<usize>,
    shrunk: Option<ShrunkState<'a>>,
    set: WorkingSet,
}

/// The state for work on a subset of the rows.
struct ShrunkState<'a> {
    /// The points of the active rows.
    active: Points<'a>,
    /// The coefficients when the first rows were set aside, and the gradient of all rows at that time.
    beta: Vec<f64>,
    gradient: Vec<f64>,
}

impl<'a> Solver<'a> {
    fn new(problem: Problem<'a>, settings: SolverSettings) -> Result<Self> {
        let n = problem.x.rows();
        let diagonal = problem.kernel.diagonal(problem.x);
        if diagonal.iter().any(|k| !k.is_finite()) {
            return Err(overflow());
        }
        let mut variables = Variables {
            epsilon: problem.epsilon,
            lower: problem.lower,
            upper: problem.upper,
            beta: problem.start,
            gradient: problem.linear.clone(),
            up_gain: vec![0.0; n],
            down_gain: vec![0.0; n],
            diagonal,
        };
        (0..n).for_each(|r| variables.set_value(r, variables.beta[r]));
        let mut solver = Self {
            settings,
            stop: problem.stop,
            linear: problem.linear,
            variables,
            points: Points::new(problem.kernel, problem.x),
            width: problem.x.width(),
            active: (0..n).collect(),
            shrunk: None,
            set: WorkingSet::new(n),
        };
        let start: Vec<usize> = (0..n).filter(|&r| solver.variables.beta[r] != 0.0).collect();
        let beta = select(&solver.variables.beta, &start);
        solver.add_to_gradient(&start, &beta)?;
        Ok(solver)
    }

    fn run(mut self) -> Result<Solution> {
        let n = self.variables.len();
        let limit = self.settings.max_iterations.unwrap_or_else(|| 10_000_000.max(n.saturating_mul(100)));
        let tolerance = self.settings.tolerance;
        // The gram matrices of the last and the next set are in memory together, with some copies of their
        // rows.
        let (numbers, d) = ((self.settings.cache_bytes / size_of::<f64>()) as f64, self.width as f64);
        let largest = ((d * d + 0.5 * numbers).sqrt() - d) as usize;
        let (mut iterations, mut rechecked) = (0, false);
        let converged = loop {
            check_cancelled(self.stop)?;
            let (low, high) = self.variables.violation_bounds(&self.active);
            let violation = high - low;
            // Near the end all rows are checked once, to find rows that were set aside too early. At the end
            // they are checked again.
            if self.shrunk.is_some() && (violation < tolerance || violation < 10.0 * tolerance && !rechecked)
            {
                rechecked = true;
                self.take_back()?;
                continue;
            }
            if violation < tolerance {
                break true;
            }
            if iterations >= limit {
                self.take_back()?;
                break false;
            }
            if self.settings.shrinking {
                self.set_aside(low, high);
            }
            let free = self.active.iter().filter(|&&r| self.variables.is_free(r)).count();
            let size = (free + free / 4 + SET).min(largest.max(MIN_SET_SIZE)).min(self.active.len());
            self.set.reselect(&self.variables, &self.active, (low, high), size, &self.points, self.stop)?;
            if self.set.gram.iter().any(|k| !k.is_finite()) {
                return Err(overflow());
            }
            let is_whole_problem = self.set.rows.len() == self.active.len();
            let target = if is_whole_problem { tolerance } else { (INNER * violation).max(0.5 * tolerance) };
            let mut inner = self.variables.select(&self.set.rows);
            let steps = solve_smo(&mut inner, &self.set.gram, target, limit - iterations, self.stop)?;
            if steps == 0 {
                return Err(overflow());
            }
            iterations += steps;
            self.take_over(&inner)?;
        };
        if !converged && !self.settings.keep_unfinished {
            let (low, high) = self.variables.violation_bounds(&self.active);
            return Err(Error::NotConverged {
                method: "the support vector solver (SMO)",
                iterations,
                change: high - low,
                remedy: "standardise the columns, lower C, raise the tolerance or allow more iterations",
            });
        }
        Ok(self.finish(iterations, converged))
    }

    /// Copies the working set's coefficients and updates the gradient.
    fn take_over(&mut self, inner: &Variables) -> Result<()> {
        let (mut changed_rows, mut changes) = (Vec::new(), Vec::new());
        for (&r, &beta) in self.set.rows.iter().zip(&inner.beta) {
            let change = beta - self.variables.beta[r];
            if change != 0.0 {
                changed_rows.push(r);
                changes.push(change);
                self.variables.set_value(r, beta);
            }
        }
        self.add_to_gradient(&changed_rows, &changes)
    }

    /// Adds `Σ changes k(·, moved)` to the gradient of the active rows.
    fn add_to_gradient(&mut self, changed_rows: &[usize], changes: &[f64]) -> Result<()> {
        let active = self.shrunk.as_ref().map_or(&self.points, |shrunk| &shrunk.active);
        let sums = active.sums(&self.points.select(changed_rows), changes, self.stop)?;
        for (&r, sum) in self.active.iter().zip(sums) {
            self.variables.gradient[r] += sum;
            if !self.variables.gradient[r].is_finite() {
                return Err(overflow());
            }
        }
        Ok(())
    }

    /// Shrinks: sets aside the rows that are in no violating pair, if there are enough of them to justify the
    /// copies.
    fn set_aside(&mut self, low: f64, high: f64) {
        // A step up whose gradient exceeds those of all steps down gains nothing with any partner, and the
        // reverse.
        let idle = |r: usize| self.variables.up_gradient(r) > high && self.variables.down_gradient(r) < low;
        let busy: Vec<usize> = self.active.iter().copied().filter(|&r| !idle(r)).collect();
        if 10 * busy.len() > 9 * self.active.len() {
            return;
        }
        let active = self.points.select(&busy);
        self.active = busy;
        match &mut self.shrunk {
            Some(shrunk) => shrunk.active = active,
            None => {
                let (beta, gradient) = (self.variables.beta.clone(), self.variables.gradient.clone());
                self.shrunk = Some(ShrunkState { active, beta, gradient });
            }
        }
    }

    /// Activates all rows. The gradient of the rows that were set aside follows from its old value and the
    /// coefficients that changed since.
    fn take_back(&mut self) -> Result<()> {
        let Some(shrunk) = self.shrunk.take() else { return Ok(()) };
        let n = self.variables.len();
        let mut idle = vec![true; n];
        self.active.iter().for_each(|&r| idle[r] = false);
        let idle: Vec<usize> = (0..n).filter(|&r| idle[r]).collect();
        let changed_rows: Vec<usize> = (0..n).filter(|&r| self.variables.beta[r] != shrunk.beta[r]).collect();
        let changes: Vec<f64> =
            changed_rows.iter().map(|&r| self.variables.beta[r] - shrunk.beta[r]).collect();
        idle.iter().for_each(|&r| self.variables.gradient[r] = shrunk.gradient[r]);
        // Only these rows are active during the update of their gradient.
        let active = self.points.select(&idle);
        (self.active, self.shrunk) = (idle, Some(ShrunkState { active, ..shrunk }));
        self.add_to_gradient(&changed_rows, &changes)?;
        (self.active, self.shrunk) = ((0..n).collect(), None);
        Ok(())
    }

    fn finish(self, iterations: usize, converged: bool) -> Solution {
        // The multiplier of the constraint: the mean gradient over free coefficients, whose gradients are all
        // equal at the optimum; or the middle of the interval of multipliers.
        let (mut sum, mut free) = (0.0, 0_usize);
        let mut objective = 0.0;
        for r in 0..self.variables.len() {
            let beta = self.variables.beta[r];
            objective += 0.5 * beta * (self.variables.gradient[r] + self.linear[r])
                + self.variables.epsilon * beta.abs();
            if self.variables.is_free(r) {
                sum += self.variables.up_gradient(r);
                free += 1;
            }
        }
        let rho = if free > 0 {
            sum / free as f64
        } else {
            let (low, high) = self.variables.violation_bounds(&self.active);
            match (low.is_finite(), high.is_finite()) {
                (true, true) => 0.5 * (low + high),
                (true, false) => low,
                (false, true) => high,
                (false, false) => 0.0,
            }
        };
        Solution { beta: self.variables.beta, intercept: -rho, iterations, converged, objective }
    }
}

fn overflow() -> Error {
    Error::overflow("the gram matrix", "standardise the columns or lower the kernel's degree")
}
