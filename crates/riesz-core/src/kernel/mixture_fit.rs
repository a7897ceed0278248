//! Least-squares fits of a radial function by a short sum of Gaussians, with variable projection.
//!
//! The fit minimises `Σ_i (F(s_i) - Σ_k w_k exp(-u_k s_i))²` over the logarithms of the rates u, on a grid of
//! squared distances s that is dense in their logarithm. For given rates the weights w are a linear
//! least-squares problem, so only the rates are searched, by the Levenberg–Marquardt method with Kaufman's
//! Jacobian (Golub and Pereyra 2003). The number of Gaussians grows by one at a time. Each fit starts from
//! the rates of the two shorter ones, which lie on curves that change little with the number of Gaussians.

use super::gaussian_mixture::GaussianTerm;
use crate::linalg::{add_multiple, dot, max_abs};

/// The largest number of Gaussians that is tried. With more, the exponentials are linearly dependent up to
/// rounding.
const MAX_TERMS: usize = 60;

/// Maximal numbers of Levenberg–Marquardt steps, and of dampings that are tried for a step.
const MAX_STEPS: usize = 60;
const MAX_DAMPINGS: usize = 30;

/// A function of the squared distance, on `[0, max_square]`.
pub(super) struct Target<'f> {
    pub(super) function: &'f dyn Fn(f64) -> f64,
    pub(super) max_square: f64,
    /// The number of roundings of the function, relative to its value.
    pub(super) rounding: f64,
}

/// Returns the first fit, by the number of Gaussians, that `accept` accepts among fits whose largest error on
/// a grid is at most `tolerance`. Returns `None` if there is none.
pub(super) fn shortest_mixture<M>(
    target: &Target<'_>,
    tolerance: f64,
    accept: impl Fn(Vec<GaussianTerm>) -> Option<M>,
) -> Option<M> {
    // A function that hardly decreases, as a rational quadratic with a small shape, has rates on the range's
    // scale.
    let widest = -target.max_square.min(1e6).ln();
    let mut shorter = Iterate::initial(target, -3.0).or_else(|| Iterate::initial(target, widest - 3.0))?;
    let mut longest = shorter.clone();
    for count in 3..=MAX_TERMS {
        let current_error = longest.max_error(target);
        if current_error <= tolerance
            && let Some(mixture) = accept(longest.terms())
        {
            return Some(mixture);
        }
        // The first start whose fit is clearly better than the shorter fit is good enough.
        let mut best: Option<(f64, Iterate)> = None;
        for start in starts(&longest.log_rates, &shorter.log_rates, count) {
            let Some(iterate) = Iterate::fit(target, start) else { continue };
            let error = iterate.max_error(target);
            if best.as_ref().is_none_or(|(lowest, _)| error < *lowest) {
                best = Some((error, iterate));
            }
            if error < 0.9 * current_error {
                break;
            }
        }
        let (error, iterate) = best?;
        if error >= current_error {
            return None;
        }
        shorter = std::mem::replace(&mut longest, iterate);
    }
    None
}

/// Initial log rates of `count` Gaussians, in descending order, from those of one and two fewer.
fn starts(longest: &[f64], shorter: &[f64], count: usize) -> Vec<Vec<f64>> {
    let mut starts = Vec::new();
    let resampled = resample(longest, count);
    if shorter.len() < longest.len() {
        let before = resample(shorter, count);
        let extrapolated: Vec<f64> = resampled.iter().zip(&before).map(|(a, b)| 2.0 * a - b).collect();
        if extrapolated.is_sorted_by(|a, b| a > b) {
            starts.push(extrapolated);
        }
    }
    starts.push(resampled);
    let (top, bottom) = (longest[0] + 0.7, longest[longest.len() - 1] - 0.5);
    starts.push((0..count).map(|k| top + (bottom - top) * k as f64 / (count - 1) as f64).collect());
    starts
}

/// Interpolates `values`, given at the positions `(k + ½) / n` for n values, at those for `count` values, by
/// cubic polynomials through the four nearest values.
fn resample(values: &[f64], count: usize) -> Vec<f64> {
    let (n, used) = (values.len(), values.len().min(4));
    let interpolate = |k: usize| {
        let position = (k as f64 + 0.5) * n as f64 / count as f64 - 0.5;
        let below = (used / 2).saturating_sub(1);
        let first = (position.max(0.0).floor() as usize).saturating_sub(below).min(n - used);
        let local = position - first as f64;
        let basis = |i: usize| -> f64 {
            let other_positions = (0..used).filter(|&j| j != i);
            other_positions.map(|j| (local - j as f64) / (i as f64 - j as f64)).product()
        };
        (0..used).map(|i| basis(i) * values[first + i]).sum()
    };
    (0..count).map(interpolate).collect()
}

/// Log rates in descending order with their weights.
#[derive(Clone)]
struct Iterate {
    log_rates: Vec<f64>,
    weights: Vec<f64>,
    cost: f64,
}

/// The linear least-squares problem at given log rates.
struct Projection {
    iterate: Iterate,
    basis: Orthonormal,
    exponentials: Vec<Vec<f64>>,
    residual: Vec<f64>,
}

impl Iterate {
    /// The best fit of two Gaussians among pairs of log rates from 4 down to `lowest`.
    fn initial(target: &Target<'_>, lowest: f64) -> Option<Self> {
        let candidates: Vec<f64> = (0..8).map(|k| 4.0 + (lowest - 4.0) * f64::from(k) / 7.0).collect();
        let pairs = (0..8).flat_map(|i| (i + 1..8).map(move |j| (i, j)));
        let fits = pairs.filter_map(|(i, j)| Self::fit(target, vec![candidates[i], candidates[j]]));
        fits.map(|fit| (fit.max_error(target), fit)).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, fit)| fit)
    }

    /// The fit from a start; `None` if some weight is not positive.
    fn fit(target: &Target<'_>, start: Vec<f64>) -> Option<Self> {
        let grid = grid(&start, target, [0.003, 200.0], 60.max(10 * start.len()));
        let values: Vec<f64> = grid.iter().map(|&s| (target.function)(s)).collect();
        let mut current = project(start, &grid, &values);
        let mut damping = 1e-3;
        for _ in 0..MAX_STEPS {
            let Some(next) = improve(&current, &grid, &values, &mut damping) else { break };
            let gain = 1.0 - next.iterate.cost / current.iterate.cost;
            current = next;
            if gain < 1e-7 {
                break;
            }
        }
        let mut iterate = current.iterate;
        if !iterate.is_positive() {
            return None;
        }
        let mut order: Vec<usize> = (0..iterate.log_rates.len()).collect();
        order.sort_by(|&i, &j| iterate.log_rates[j].total_cmp(&iterate.log_rates[i]));
        iterate.weights = order.iter().map(|&k| iterate.weights[k]).collect();
        iterate.log_rates = order.iter().map(|&k| iterate.log_rates[k]).collect();
        Some(iterate)
    }

    fn is_positive(&self) -> bool {
        self.weights.iter().all(|w| *w > 0.0)
    }

    fn terms(&self) -> Vec<GaussianTerm> {
        let term = |(weight, log_rate): (&f64, &f64)| GaussianTerm { weight: *weight, rate: log_rate.exp() };
        self.weights.iter().zip(&self.log_rates).map(term).collect()
    }

    /// The largest error on a grid that is finer and wider than that of the fit.
    fn max_error(&self, target: &Target<'_>) -> f64 {
        let terms = self.terms();
        let error = |s: f64| {
            let sum: f64 = terms.iter().map(|term| term.weight * (-term.rate * s).exp()).sum();
            ((target.function)(s) - sum).abs()
        };
        let grid = grid(&self.log_rates, target, [0.001, 300.0], 40 * terms.len() + 500);
        grid.into_iter().map(error).fold(0.0, f64::max)
    }
}

/// 0, and `count` squared distances with equal ratios between them, on the scales of the rates.
fn grid(log_rates: &[f64], target: &Target<'_>, [near, far]: [f64; 2], count: usize) -> Vec<f64> {
    let (top, bottom) = log_rates.iter().fold((f64::MIN, f64::MAX), |(t, b), l| (t.max(*l), b.min(*l)));
    let low = near.ln() - top;
    let high = target.max_square.ln().min(far.ln() - bottom);
    let step = (high - low) / (count - 1) as f64;
    std::iter::once(0.0).chain((0..count).map(|i| (low + step * i as f64).exp())).collect()
}

fn project(log_rates: Vec<f64>, grid: &[f64], values: &[f64]) -> Projection {
    let exponential = |l: &f64| -> Vec<f64> {
        let rate = l.exp();
        grid.iter().map(|s| (-rate * s).exp()).collect()
    };
    let exponentials: Vec<Vec<f64>> = log_rates.iter().map(exponential).collect();
    let basis = Orthonormal::new(exponentials.clone());
    let (weights, residual) = basis.least_squares(values);
    let cost = dot(&residual, &residual);
    Projection { iterate: Iterate { log_rates, weights, cost }, basis, exponentials, residual }
}

/// The next iterate, with all weights positive and a lower cost; `None` if no damping leads to one.
fn improve(current: &Projection, grid: &[f64], values: &[f64], damping: &mut f64) -> Option<Projection> {
    let Projection { iterate, basis, exponentials, residual } = current;
    // Kaufman's approximation of the Jacobian: the derivatives of the model, without their part in its span.
    let derivative = |k: usize| -> Vec<f64> {
        let slope = -iterate.log_rates[k].exp() * iterate.weights[k];
        let mut column: Vec<f64> = exponentials[k].iter().zip(grid).map(|(e, s)| e * slope * s).collect();
        basis.remove_span(&mut column);
        column
    };
    let jacobian = Orthonormal::new((0..iterate.log_rates.len()).map(derivative).collect());
    let projected: Vec<f64> = jacobian.columns.iter().map(|q| dot(q, residual)).collect();
    let largest = jacobian.max_column_norm();
    for _ in 0..MAX_DAMPINGS {
        let mut step = jacobian.damped_solution(&projected, damping.sqrt() * largest);
        let size = max_abs(&step);
        if size > 0.5 {
            step.iter_mut().for_each(|d| *d *= 0.5 / size);
        }
        let log_rates = iterate.log_rates.iter().zip(&step).map(|(l, d)| l + d).collect();
        let next = project(log_rates, grid, values);
        if next.iterate.cost < iterate.cost && next.iterate.is_positive() {
            *damping /= 8.0;
            return Some(next);
        }
        *damping *= 4.0;
    }
    None
}

/// Orthonormal columns and the triangular matrix R of a QR factorisation, by Gram–Schmidt steps that are
/// repeated once.
struct Orthonormal {
    columns: Vec<Vec<f64>>,
    /// For each column, its coefficients in the columns up to itself.
    triangle: Vec<Vec<f64>>,
}

impl Orthonormal {
    fn new(mut columns: Vec<Vec<f64>>) -> Self {
        let mut triangle = Vec::with_capacity(columns.len());
        for k in 0..columns.len() {
            let (before, rest) = columns.split_at_mut(k);
            let column = &mut rest[0];
            let mut coefficients = vec![0.0; k + 1];
            for _ in 0..2 {
                for (q, coefficient) in before.iter().zip(&mut coefficients) {
                    let projection = dot(q, column);
                    add_multiple(column, -projection, q);
                    *coefficient += projection;
                }
            }
            let norm = dot(column, column).sqrt();
            if norm > 0.0 {
                column.iter_mut().for_each(|v| *v /= norm);
            }
            coefficients[k] = norm;
            triangle.push(coefficients);
        }
        Self { columns, triangle }
    }

    fn remove_span(&self, vector: &mut [f64]) {
        for _ in 0..2 {
            for q in &self.columns {
                let projection = dot(q, vector);
                add_multiple(vector, -projection, q);
            }
        }
    }

    fn max_column_norm(&self) -> f64 {
        self.triangle.iter().map(|column| dot(column, column).sqrt()).fold(0.0, f64::max)
    }

    /// The solution of `R x = b`.
    fn solve(&self, mut b: Vec<f64>) -> Vec<f64> {
        for k in (0..b.len()).rev() {
            let column = &self.triangle[k];
            b[k] = if column[k] > 0.0 { b[k] / column[k] } else { 0.0 };
            let solution = b[k];
            b.iter_mut().zip(&column[..k]).for_each(|(b, r)| *b -= r * solution);
        }
        b
    }

    /// The weights of the columns that fit `values` best, and the residual.
    fn least_squares(&self, values: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let mut residual = values.to_vec();
        let mut projected = vec![0.0; self.columns.len()];
        for _ in 0..2 {
            for (q, total) in self.columns.iter().zip(&mut projected) {
                let projection = dot(q, &residual);
                add_multiple(&mut residual, -projection, q);
                *total += projection;
            }
        }
        (self.solve(projected), residual)
    }

    /// The minimiser of `|R x - b|² + |damping x|²`.
    fn damped_solution(&self, b: &[f64], damping: f64) -> Vec<f64> {
        let size = b.len();
        let stacked = |k: usize| {
            let mut column = vec![0.0; 2 * size];
            column[..=k].copy_from_slice(&self.triangle[k]);
            column[size + k] = damping;
            column
        };
        let mut values = b.to_vec();
        values.resize(2 * size, 0.0);
        Self::new((0..size).map(stacked).collect()).least_squares(&values).0
    }
}
