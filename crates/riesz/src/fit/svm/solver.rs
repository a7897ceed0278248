//! Sequential minimal optimisation for all support vector machines with one equality constraint.
//!
//! The dual problems are written in the coefficients β of the expansion, signs included:
//!
//! ```text
//! min ½ βᵀKβ + qᵀβ + ε Σ|β_r|   subject to   Σβ_r fixed,  lower_r ≤ β_r ≤ upper_r
//! ```
//!
//! Classification has q = -y (y = ±1) and bounds [0, C] or [-C, 0]; ε-insensitive regression has q = -y and bounds
//! [-C, C]; one-class has q = 0 and bounds [0, 1]. In this form no sign enters a gradient
//! update, and regression needs one variable a row where the textbook has two: the kink of ε|β| at 0 is a
//! breakpoint at which a step ends. Candidate steps and stopping rule are those of LIBSVM's formulation.
//!
//! Pairs are chosen by second-order information (Fan, Chen and Lin, JMLR 2005, WSS 2). Rows whose coefficient is at
//! a bound, with a gradient that keeps it there, are set aside (shrinking) and checked again before the end (Chang
//! and Lin, ACM TIST 2011, section 5).

use std::sync::atomic::AtomicBool;

use super::cache::GramRows;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::simd::{LANES, Simd, dispatch, fma};
use crate::stop::check;
use crate::table::Table;

/// Stands in for a curvature that is not positive, as in LIBSVM.
const TAU: f64 = 1e-12;

/// A dual problem.
pub(super) struct Problem<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) x: &'a Table,
    /// q.
    pub(super) linear: Vec<f64>,
    /// ε; the kink at 0 counts only if it is positive.
    pub(super) epsilon: f64,
    pub(super) lower: Vec<f64>,
    pub(super) upper: Vec<f64>,
    /// A feasible β to start from.
    pub(super) start: Vec<f64>,
    /// Set to give up.
    pub(super) stop: &'a AtomicBool,
}

/// How to solve it.
#[derive(Clone, Copy)]
pub(super) struct SolverSettings {
    pub(super) tolerance: f64,
    pub(super) cache_bytes: usize,
    pub(super) max_iterations: Option<usize>,
    /// Whether to return what there is when these are used up.
    pub(super) keep_unfinished: bool,
    pub(super) shrinking: bool,
}

/// Its solution: `f(x) = Σ β_r k(x_r, x) + intercept`.
pub(super) struct Solution {
    pub(super) beta: Vec<f64>,
    pub(super) intercept: f64,
    pub(super) iterations: usize,
    pub(super) converged: bool,
    pub(super) objective: f64,
}

/// Solves the problem. Cost O(iterations · (n + misses · n d)); memory O(n d) and the cache.
pub(super) fn solve(problem: Problem<'_>, settings: SolverSettings) -> Result<Solution> {
    if problem.x.rows() == 0 {
        return Ok(Solution {
            beta: Vec::new(),
            intercept: 0.0,
            iterations: 0,
            converged: true,
            objective: 0.0,
        });
    }
    Solver::new(problem, settings)?.run()
}

struct Solver<'a> {
    settings: SolverSettings,
    stop: &'a AtomicBool,
    epsilon: f64,
    rows: GramRows<'a>,
    n: usize,
    /// The first so many rows are worked on.
    active: usize,
    /// The original index of the row at each place.
    order: Vec<usize>,
    linear: Vec<f64>,
    lower: Vec<f64>,
    upper: Vec<f64>,
    beta: Vec<f64>,
    /// `Σ_s K_rs β_s + q_r`: the gradient without the kink.
    gradient: Vec<f64>,
    /// Added to the gradient for a step up: ±ε, or ∞ if β_r cannot grow.
    up: Vec<f64>,
    /// Added to the gradient for a step down: ±ε, or -∞ if β_r cannot fall.
    down: Vec<f64>,
    /// `Σ_s K_rs β_s` over the rows s that are at a bound other than 0.
    bounded: Vec<f64>,
    diagonal: Vec<f64>,
    unshrunk: bool,
}

impl<'a> Solver<'a> {
    fn new(problem: Problem<'a>, settings: SolverSettings) -> Result<Self> {
        let n = problem.x.rows();
        let mut rows = GramRows::new(problem.kernel, problem.x, settings.cache_bytes);
        let diagonal = rows.diagonal();
        if diagonal.iter().any(|k| !k.is_finite()) {
            return Err(overflow());
        }
        let mut solver = Self {
            settings,
            stop: problem.stop,
            epsilon: problem.epsilon,
            rows,
            n,
            active: n,
            order: (0..n).collect(),
            gradient: problem.linear.clone(),
            linear: problem.linear,
            lower: problem.lower,
            upper: problem.upper,
            beta: problem.start,
            up: vec![0.0; n],
            down: vec![0.0; n],
            bounded: vec![0.0; n],
            diagonal,
            unshrunk: false,
        };
        for r in 0..n {
            solver.refresh(r);
            let beta = solver.beta[r];
            if beta != 0.0 {
                solver.rows.fetch(r, n);
                add(crate::Isa::detect(), &mut solver.gradient, solver.rows.row(r), beta);
                if solver.is_bounded(r) {
                    add(crate::Isa::detect(), &mut solver.bounded, solver.rows.row(r), beta);
                }
            }
        }
        Ok(solver)
    }

    fn run(mut self) -> Result<Solution> {
        let isa = crate::Isa::detect();
        let limit =
            self.settings.max_iterations.unwrap_or_else(|| 10_000_000.max(self.n.saturating_mul(100)));
        let period = self.n.min(1000);
        let stop = self.stop;
        let mut countdown = period;
        let (mut iterations, mut converged) = (0, true);
        let (mut value, mut i) = self.steepest();
        loop {
            check(stop)?;
            if countdown == 0 {
                countdown = period;
                if self.settings.shrinking {
                    self.shrink();
                    (value, i) = self.steepest();
                }
            }
            let mut choice = self.partner(value, i);
            if choice.gap < self.settings.tolerance && self.active < self.n {
                self.reconstruct();
                (value, i) = self.steepest();
                choice = self.partner(value, i);
                countdown = 1;
            }
            if choice.gap == f64::INFINITY {
                return Err(overflow());
            }
            if choice.gap < self.settings.tolerance {
                break;
            }
            if iterations >= limit && self.settings.keep_unfinished {
                self.reconstruct();
                converged = false;
                break;
            }
            if iterations >= limit {
                return Err(Error::NotConverged {
                    method: "the support vector solver (SMO)",
                    iterations,
                    change: choice.gap,
                    remedy: "standardise the columns, lower C, raise the tolerance or allow more iterations",
                });
            }
            iterations += 1;
            countdown -= 1;
            let j = choice.row;
            self.rows.fetch(j, self.active);
            let (change_i, change_j) = self.step(i, j);
            (value, i) = update(
                isa,
                &mut self.gradient[..self.active],
                &self.up[..self.active],
                self.rows.row(i),
                self.rows.row(j),
                change_i,
                change_j,
            );
        }
        if self.gradient.iter().any(|g| !g.is_finite()) {
            return Err(overflow());
        }
        Ok(self.finish(iterations, converged))
    }

    /// The least gradient among steps up, and its row.
    fn steepest(&self) -> (f64, usize) {
        least(crate::Isa::detect(), &self.gradient[..self.active], &self.up[..self.active])
    }

    /// Given the step up `i`, the step down that gains most, and the largest violation of optimality.
    fn partner(&mut self, value: f64, i: usize) -> Choice {
        if value == f64::INFINITY {
            return Choice { row: 0, gap: f64::NEG_INFINITY };
        }
        self.rows.fetch(i, self.active);
        best_partner(
            crate::Isa::detect(),
            &self.gradient[..self.active],
            &self.down[..self.active],
            &self.diagonal[..self.active],
            self.rows.row(i),
            value,
            self.diagonal[i],
        )
    }

    /// Moves β_i up and β_j down as far as the pair's problem says; returns the two changes.
    fn step(&mut self, i: usize, j: usize) -> (f64, f64) {
        let slope = (self.gradient[j] + self.down[j]) - (self.gradient[i] + self.up[i]);
        let curvature = self.diagonal[i] + self.diagonal[j] - 2.0 * self.rows.row(i)[j];
        let wanted = slope / if curvature > 0.0 { curvature } else { TAU };
        let kink = self.epsilon > 0.0;
        let (old_i, old_j) = (self.beta[i], self.beta[j]);
        let end_i = if kink && old_i < 0.0 { self.upper[i].min(0.0) } else { self.upper[i] };
        let end_j = if kink && old_j > 0.0 { self.lower[j].max(0.0) } else { self.lower[j] };
        let step = wanted.min(end_i - old_i).min(old_j - end_j);
        self.beta[i] = if step == end_i - old_i { end_i } else { old_i + step };
        self.beta[j] = if step == old_j - end_j { end_j } else { old_j - step };
        for (r, old) in [(i, old_i), (j, old_j)] {
            let was = self.bounded_at(r, old);
            let is = self.is_bounded(r);
            self.refresh(r);
            let change = match (was, is) {
                (false, true) => self.beta[r],
                (true, false) => -old,
                (true, true) => self.beta[r] - old,
                (false, false) => 0.0,
            };
            if change != 0.0 && self.settings.shrinking {
                // Both rows of the pair must stay in the cache: only these two are touched, and two always fit.
                self.rows.fetch(r, self.n);
                add(crate::Isa::detect(), &mut self.bounded, self.rows.row(r), change);
            }
        }
        (self.beta[i] - old_i, self.beta[j] - old_j)
    }

    fn bounded_at(&self, r: usize, beta: f64) -> bool {
        beta != 0.0 && (beta >= self.upper[r] || beta <= self.lower[r])
    }

    /// Whether β_r is at a bound other than 0.
    fn is_bounded(&self, r: usize) -> bool {
        self.bounded_at(r, self.beta[r])
    }

    /// Brings the offsets of row `r` up to date with its coefficient.
    fn refresh(&mut self, r: usize) {
        let beta = self.beta[r];
        self.up[r] = if beta >= self.upper[r] {
            f64::INFINITY
        } else if beta >= 0.0 {
            self.epsilon
        } else {
            -self.epsilon
        };
        self.down[r] = if beta <= self.lower[r] {
            f64::NEG_INFINITY
        } else if beta > 0.0 {
            self.epsilon
        } else {
            -self.epsilon
        };
    }

    /// Least gradient of steps up and largest of steps down, among the active rows.
    fn extremes(&self) -> (f64, f64) {
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
        for r in 0..self.active {
            low = low.min(self.gradient[r] + self.up[r]);
            high = high.max(self.gradient[r] + self.down[r]);
        }
        (low, high)
    }

    /// Sets aside the rows that no violating pair can contain.
    fn shrink(&mut self) {
        let (mut low, mut high) = self.extremes();
        if !self.unshrunk && high - low <= 10.0 * self.settings.tolerance {
            self.unshrunk = true;
            self.reconstruct();
            (low, high) = self.extremes();
        }
        // A step up from above every step down gains nothing with any partner, and the reverse.
        let idle = |s: &Self, r: usize| s.gradient[r] + s.up[r] > high && s.gradient[r] + s.down[r] < low;
        let mut pairs = Vec::new();
        let mut r = 0;
        while r < self.active {
            if idle(self, r) {
                self.active -= 1;
                while self.active > r && idle(self, self.active) {
                    self.active -= 1;
                }
                if self.active > r {
                    pairs.push((r, self.active));
                    self.exchange(r, self.active);
                }
            }
            r += 1;
        }
        self.rows.exchange(&pairs);
    }

    /// Exchanges two rows in all vectors but not in the cache.
    fn exchange(&mut self, a: usize, b: usize) {
        self.order.swap(a, b);
        for vector in [
            &mut self.linear,
            &mut self.lower,
            &mut self.upper,
            &mut self.beta,
            &mut self.gradient,
            &mut self.up,
            &mut self.down,
            &mut self.bounded,
            &mut self.diagonal,
        ] {
            vector.swap(a, b);
        }
    }

    /// Takes all rows back, with the gradient of those that were set aside computed afresh.
    fn reconstruct(&mut self) {
        let from = self.active;
        self.active = self.n;
        if from == self.n {
            return;
        }
        for r in from..self.n {
            self.gradient[r] = self.linear[r] + self.bounded[r];
        }
        for r in 0..self.n {
            if self.beta[r] != 0.0 && !self.is_bounded(r) {
                self.rows.fetch(r, self.n);
                add(
                    crate::Isa::detect(),
                    &mut self.gradient[from..],
                    &self.rows.row(r)[from..self.n],
                    self.beta[r],
                );
            }
        }
    }

    fn finish(self, iterations: usize, converged: bool) -> Solution {
        // The multiplier of the constraint: the mean gradient over free coefficients, which are all equal at
        // the optimum, or the middle of the interval of multipliers.
        let (mut sum, mut free) = (0.0, 0_usize);
        let mut objective = 0.0;
        for r in 0..self.n {
            let beta = self.beta[r];
            objective += 0.5 * beta * (self.gradient[r] + self.linear[r]) + self.epsilon * beta.abs();
            if self.up[r].is_finite() && self.up[r] == self.down[r] {
                sum += self.gradient[r] + self.up[r];
                free += 1;
            }
        }
        let rho = if free > 0 {
            sum / free as f64
        } else {
            let (low, high) = self.extremes();
            match (low.is_finite(), high.is_finite()) {
                (true, true) => 0.5 * (low + high),
                (true, false) => low,
                (false, true) => high,
                (false, false) => 0.0,
            }
        };
        let mut beta = vec![0.0; self.n];
        for (place, &r) in self.order.iter().enumerate() {
            beta[r] = self.beta[place];
        }
        Solution { beta, intercept: -rho, iterations, converged, objective }
    }
}

fn overflow() -> Error {
    Error::Overflow {
        what: "the gram matrix".into(),
        remedy: "the kernel is too large at these rows: standardise the columns or lower the degree",
    }
}

/// The step down chosen for a step up, and the largest violation among all pairs.
#[derive(Clone, Copy)]
struct Choice {
    row: usize,
    gap: f64,
}

#[inline(always)]
fn add_body<V: Simd>(out: &mut [f64], row: &[f64], factor: f64) {
    for (o, k) in out.iter_mut().zip(row) {
        *o = fma::<V>(factor, *k, *o);
    }
}

// Searching for the place of an extreme value does not vectorise; its value does. These loops find the value block
// by block, and then look for the place in one block.
const BLOCK: usize = 256;

#[inline(always)]
fn lower(best: &mut [f64; LANES], l: usize, v: f64) {
    best[l] = if v < best[l] { v } else { best[l] };
}

#[inline(always)]
fn least_of(lanes: [f64; LANES]) -> f64 {
    lanes.into_iter().fold(f64::INFINITY, |a, b| if b < a { b } else { a })
}

/// The least `gradient + up`, and the first place that has it.
#[inline(always)]
fn least_body<V: Simd>(gradient: &[f64], up: &[f64]) -> (f64, usize) {
    let (mut value, mut at) = (f64::INFINITY, 0);
    for (block, (g, u)) in gradient.chunks(BLOCK).zip(up.chunks(BLOCK)).enumerate() {
        let least = g.iter().zip(u).fold(f64::INFINITY, |a, (g, u)| a.min(g + u));
        if least < value {
            (value, at) = (least, block);
        }
    }
    (value, first_equal(gradient, up, at, value))
}

#[inline(always)]
fn first_equal(gradient: &[f64], up: &[f64], block: usize, value: f64) -> usize {
    let from = block * BLOCK;
    let found = gradient[from..].iter().zip(&up[from..]).position(|(g, u)| g + u == value);
    from + found.unwrap_or(0)
}

/// `gradient += change_i row_i + change_j row_j`, and [`least_body`] of the result in the same pass.
#[inline(always)]
fn update_body<V: Simd>(
    gradient: &mut [f64],
    up: &[f64],
    row_i: &[f64],
    row_j: &[f64],
    change_i: f64,
    change_j: f64,
) -> (f64, usize) {
    let (mut value, mut at) = (f64::INFINITY, 0);
    let blocks = gradient.chunks_mut(BLOCK).zip(up.chunks(BLOCK));
    let blocks = blocks.zip(row_i.chunks(BLOCK).zip(row_j.chunks(BLOCK)));
    for (block, ((g, u), (ki, kj))) in blocks.enumerate() {
        let n = g.len();
        let mut best = [f64::INFINITY; LANES];
        let (g8, g_rest) = g.as_chunks_mut::<LANES>();
        let (u8, u_rest) = u[..n].as_chunks::<LANES>();
        let (i8, i_rest) = ki[..n].as_chunks::<LANES>();
        let (j8, j_rest) = kj[..n].as_chunks::<LANES>();
        for (((g, u), ki), kj) in g8.iter_mut().zip(u8).zip(i8).zip(j8) {
            for l in 0..LANES {
                g[l] = fma::<V>(change_j, kj[l], fma::<V>(change_i, ki[l], g[l]));
                lower(&mut best, l, g[l] + u[l]);
            }
        }
        for l in 0..g_rest.len() {
            g_rest[l] = fma::<V>(change_j, j_rest[l], fma::<V>(change_i, i_rest[l], g_rest[l]));
            lower(&mut best, l, g_rest[l] + u_rest[l]);
        }
        let least = least_of(best);
        if least < value {
            (value, at) = (least, block);
        }
    }
    (value, first_equal(gradient, up, at, value))
}

/// The row of largest `(violation)² / curvature` with `value`, and the largest violation.
#[inline(always)]
fn best_partner_body<V: Simd>(
    gradient: &[f64],
    down: &[f64],
    diagonal: &[f64],
    row_i: &[f64],
    value: f64,
    diagonal_i: f64,
) -> Choice {
    // Gains and violations are negated, so that the best is the least.
    let gain = |g: f64, d: f64, k: f64, r: f64| {
        let excess = value - (g + d);
        let curvature = (diagonal_i + k) - 2.0 * r;
        let curvature = if curvature > 0.0 { curvature } else { TAU };
        let negative = if excess < 0.0 { excess } else { 0.0 };
        (excess, -(negative * negative) / curvature)
    };
    let (mut most, mut at, mut gap) = (0.0, None, f64::INFINITY);
    let blocks = gradient.chunks(BLOCK).zip(down.chunks(BLOCK));
    let blocks = blocks.zip(diagonal.chunks(BLOCK).zip(row_i.chunks(BLOCK)));
    for (block, ((g, d), (k, r))) in blocks.enumerate() {
        let n = g.len();
        let mut best = [0.0; LANES];
        let mut gaps = [f64::INFINITY; LANES];
        let (g8, g_rest) = g.as_chunks::<LANES>();
        let (d8, d_rest) = d[..n].as_chunks::<LANES>();
        let (k8, k_rest) = k[..n].as_chunks::<LANES>();
        let (r8, r_rest) = r[..n].as_chunks::<LANES>();
        for (((g, d), k), r) in g8.iter().zip(d8).zip(k8).zip(r8) {
            for l in 0..LANES {
                let (excess, gain) = gain(g[l], d[l], k[l], r[l]);
                lower(&mut gaps, l, excess);
                lower(&mut best, l, gain);
            }
        }
        for l in 0..g_rest.len() {
            let (excess, gain) = gain(g_rest[l], d_rest[l], k_rest[l], r_rest[l]);
            lower(&mut gaps, l, excess);
            lower(&mut best, l, gain);
        }
        gap = least_of(gaps).min(gap);
        let best = least_of(best);
        if best < most {
            (most, at) = (best, Some(block));
        }
    }
    let parts =
        |from: usize| (from..gradient.len()).map(|s| (s, gradient[s], down[s], diagonal[s], row_i[s]));
    let row = match at {
        Some(block) => parts(block * BLOCK).find(|&(_, g, d, k, r)| gain(g, d, k, r).1 == most),
        // No violation, or gains too small for a double: then the largest violation decides.
        None => parts(0).find(|&(_, g, d, k, r)| gain(g, d, k, r).0 == gap),
    };
    Choice { row: row.map_or(0, |part| part.0), gap: -gap }
}

dispatch! {
    fn add(out: &mut [f64], row: &[f64], factor: f64) = add_body::<V>
}
dispatch! {
    fn least(gradient: &[f64], up: &[f64]) -> (f64, usize) = least_body::<V>
}
dispatch! {
    fn update(
        gradient: &mut [f64],
        up: &[f64],
        row_i: &[f64],
        row_j: &[f64],
        change_i: f64,
        change_j: f64,
    ) -> (f64, usize) = update_body::<V>
}
dispatch! {
    fn best_partner(
        gradient: &[f64],
        down: &[f64],
        diagonal: &[f64],
        row_i: &[f64],
        value: f64,
        diagonal_i: f64,
    ) -> Choice = best_partner_body::<V>
}
