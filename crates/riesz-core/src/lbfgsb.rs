//! L-BFGS-B: minimisation of a smooth function within bounds. It is meant for a few (up to a few hundred)
//! logarithmic parameters of a likelihood whose evaluation costs far more than the operations here.
//!
//! The method is limited-memory BFGS (Nocedal 1980) on the free variables, which the gradient does not hold
//! at a bound. Steps are projected onto the bounds (Bertsekas 1982). The line search along the projected path
//! uses the weak Wolfe conditions (Lewis and Overton 2013).

use std::collections::VecDeque;

use crate::linalg::{add_multiple, dot, max_abs};

/// Number of stored steps.
const MEMORY: usize = 10;
/// Largest component of the projected gradient at convergence.
const GRADIENT_TOLERANCE: f64 = 1e-5;
/// Decrease of the value in one step at convergence, relative to max(1, |value|).
const VALUE_TOLERANCE: f64 = 1e-10;
/// Maximal number of steps.
const MAX_STEPS: usize = 1000;
/// Maximal number of evaluations in one line search.
const MAX_TRIALS: usize = 25;

/// L-BFGS curvature pairs of a function: changes of the point with the corresponding changes of the gradient,
/// the latest pair last.
#[derive(Debug, Clone, Default)]
pub struct LbfgsMemory(VecDeque<(Vec<f64>, Vec<f64>)>);

impl LbfgsMemory {
    /// Returns the curvature pairs of `factor` times the function.
    pub fn times(mut self, factor: f64) -> Self {
        self.0.iter_mut().for_each(|(_, y)| y.iter_mut().for_each(|y| *y *= factor));
        self
    }
}

/// The result of a minimisation.
#[derive(Debug, Clone)]
pub struct MinimizeResult {
    /// The point.
    pub x: Vec<f64>,
    /// The function's value there.
    pub value: f64,
    /// Steps taken.
    pub steps: usize,
    /// Function evaluations.
    pub evaluations: usize,
    /// Whether a tolerance ended the minimisation, instead of the maximal number of steps.
    pub converged: bool,
    /// The last curvature pairs of the function.
    pub curvature: LbfgsMemory,
}

/// A point with the function's value and gradient there.
struct Iterate {
    x: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

/// A descent direction with the function's slope along it, and the first step length to try.
struct SearchDirection {
    direction: Vec<f64>,
    slope: f64,
    first_step: f64,
}

/// Minimises `f`, which returns a value and a gradient, from `start` within `bounds` (lower and upper, one
/// pair per variable). The minimisation ends if the projected gradient is small, if one step lowers the value
/// by a negligible amount, or if two successive steps each lower it by at most `enough`. The curvature pairs
/// `memory` determine the first step. `None` or a number that is not finite from `f` counts as infinite.
/// Returns `None` if `f` is infinite at the start.
pub fn minimize(
    start: &[f64],
    bounds: &[(f64, f64)],
    enough: f64,
    memory: LbfgsMemory,
    mut f: impl FnMut(&[f64]) -> Option<(f64, Vec<f64>)>,
) -> Option<MinimizeResult> {
    let mut evaluations = 0;
    let mut evaluate = |x: Vec<f64>| {
        evaluations += 1;
        f(&x)
            .filter(|(value, gradient)| value.is_finite() && gradient.iter().all(|g| g.is_finite()))
            .map(|(value, gradient)| Iterate { x, value, gradient })
    };
    let mut current = evaluate(project(start, bounds))?;
    let LbfgsMemory(mut pairs) = memory;
    let (mut steps, mut converged, mut previous_gain) = (0, false, f64::INFINITY);
    while steps < MAX_STEPS {
        let Some(search) = search_direction(&current, bounds, &mut pairs) else {
            converged = true;
            break;
        };
        let Some(next) = line_search(&current, &search, bounds, &mut evaluate) else {
            if pairs.is_empty() {
                // No step along the negative gradient lowers the value: it is minimal up to rounding errors.
                converged = true;
                break;
            }
            pairs.clear();
            continue;
        };
        steps += 1;
        let s: Vec<f64> = next.x.iter().zip(&current.x).map(|(a, b)| a - b).collect();
        let y: Vec<f64> = next.gradient.iter().zip(&current.gradient).map(|(a, b)| a - b).collect();
        if dot(&s, &y) > 1e-12 * dot(&y, &y).max(dot(&s, &s)) {
            if pairs.len() == MEMORY {
                pairs.pop_front();
            }
            pairs.push_back((s, y));
        }
        let gain = current.value - next.value;
        let scale = current.value.abs().max(next.value.abs()).max(1.0);
        current = next;
        if gain <= VALUE_TOLERANCE * scale || gain.max(previous_gain) <= enough {
            converged = true;
            break;
        }
        previous_gain = gain;
    }
    let Iterate { x, value, .. } = current;
    Some(MinimizeResult { x, value, steps, evaluations, converged, curvature: LbfgsMemory(pairs) })
}

fn project(x: &[f64], bounds: &[(f64, f64)]) -> Vec<f64> {
    x.iter().zip(bounds).map(|(v, &(low, high))| v.clamp(low, high)).collect()
}

/// Returns the quasi-Newton direction in the variables that the gradient does not hold at a bound, or
/// steepest descent if that is no descent direction; `None` if the projected gradient is within the
/// tolerance.
fn search_direction(
    Iterate { x, gradient, .. }: &Iterate,
    bounds: &[(f64, f64)],
    pairs: &mut VecDeque<(Vec<f64>, Vec<f64>)>,
) -> Option<SearchDirection> {
    let at_bound = |i: usize| {
        let (low, high) = bounds[i];
        (x[i] <= low && gradient[i] >= 0.0) || (x[i] >= high && gradient[i] <= 0.0)
    };
    let reduced: Vec<f64> = (0..x.len()).map(|i| if at_bound(i) { 0.0 } else { gradient[i] }).collect();
    let largest = max_abs(&reduced);
    let gradient_step: Vec<f64> = x.iter().zip(gradient).map(|(v, g)| v - g).collect();
    let projected =
        project(&gradient_step, bounds).iter().zip(x).fold(0.0_f64, |a, (p, v)| a.max((p - v).abs()));
    if projected <= GRADIENT_TOLERANCE {
        return None;
    }
    let free: Vec<bool> = (0..x.len()).map(|i| !at_bound(i)).collect();
    let mut direction = quasi_newton(pairs, &reduced, &free);
    if dot(&direction, &reduced) >= 0.0 {
        pairs.clear();
        direction = reduced.iter().map(|g| -g).collect();
    }
    let slope = dot(&direction, &reduced);
    let first_step = if pairs.is_empty() { (1.0 / largest).min(1.0) } else { 1.0 };
    Some(SearchDirection { direction, slope, first_step })
}

/// Returns a point along the projected path that meets the weak Wolfe conditions, or else the last one that
/// lowers the value enough, if any.
fn line_search(
    Iterate { x, value, gradient }: &Iterate,
    search: &SearchDirection,
    bounds: &[(f64, f64)],
    mut evaluate: impl FnMut(Vec<f64>) -> Option<Iterate>,
) -> Option<Iterate> {
    let SearchDirection { direction, slope, first_step } = search;
    let (mut low, mut high, mut best, mut t) = (0.0, f64::INFINITY, None, *first_step);
    for _ in 0..MAX_TRIALS {
        let target: Vec<f64> = x.iter().zip(direction).map(|(v, d)| v + t * d).collect();
        let trial = project(&target, bounds);
        let predicted: f64 = (0..x.len()).map(|i| gradient[i] * (trial[i] - x[i])).sum();
        match evaluate(trial) {
            Some(trial) if predicted < 0.0 && trial.value <= value + 1e-4 * predicted => {
                let unclamped = (0..x.len()).filter(|&i| trial.x[i] == target[i]);
                let trial_slope: f64 = unclamped.map(|i| trial.gradient[i] * direction[i]).sum();
                best = Some(trial);
                if trial_slope >= 0.9 * slope {
                    break;
                }
                low = t;
            }
            _ => high = t,
        }
        t = if high.is_finite() { 0.5 * (low + high) } else { 2.0 * t };
    }
    best
}

/// Minus the inverse Hessian approximation times the gradient, by the two-loop recursion over the free
/// variables.
fn quasi_newton(pairs: &VecDeque<(Vec<f64>, Vec<f64>)>, reduced: &[f64], free: &[bool]) -> Vec<f64> {
    let on_free = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).zip(free).filter(|(_, free)| **free).map(|((x, y), _)| x * y).sum()
    };
    let mut q: Vec<f64> = reduced.iter().map(|g| -g).collect();
    let mut used = Vec::with_capacity(pairs.len());
    for (s, y) in pairs.iter().rev() {
        let curvature = on_free(s, y);
        if curvature > 1e-12 * on_free(y, y) {
            let a = on_free(s, &q) / curvature;
            q.iter_mut().zip(y).for_each(|(q, y)| *q -= a * y);
            used.push((s, y, a, curvature));
        }
    }
    if let Some((_, y, _, curvature)) = used.first() {
        let scale = curvature / on_free(y, y);
        q.iter_mut().for_each(|q| *q *= scale);
    }
    for (s, y, a, curvature) in used.iter().rev() {
        let b = on_free(y, &q) / curvature;
        add_multiple(&mut q, a - b, s);
    }
    q.iter_mut().zip(free).filter(|(_, free)| !**free).for_each(|(q, _)| *q = 0.0);
    q
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Σ 100 (x_{i+1} - x_i²)² + (1 - x_i)².
    fn rosenbrock(x: &[f64]) -> Option<(f64, Vec<f64>)> {
        let mut value = 0.0;
        let mut gradient = vec![0.0; x.len()];
        for i in 0..x.len() - 1 {
            let (a, b) = (x[i + 1] - x[i] * x[i], 1.0 - x[i]);
            value += 100.0 * a * a + b * b;
            gradient[i] += -400.0 * a * x[i] - 2.0 * b;
            gradient[i + 1] += 200.0 * a;
        }
        Some((value, gradient))
    }

    #[test]
    fn finds_the_minimum_of_rosenbrocks_function() {
        for d in [2, 5, 100] {
            let minimum =
                minimize(&vec![-1.2; d], &vec![(-5.0, 5.0); d], 0.0, LbfgsMemory::default(), rosenbrock)
                    .unwrap();
            assert!(minimum.converged && minimum.x.iter().all(|v| (v - 1.0).abs() < 1e-4), "{minimum:?}");
            assert!(minimum.evaluations < 800, "{} evaluations in {d} variables", minimum.evaluations);
        }
    }

    /// The curvature pairs of one minimisation save evaluations for a function with proportional curvature.
    #[test]
    fn curvature_pairs_save_evaluations() {
        let bounds = vec![(-5.0, 5.0); 20];
        let first = minimize(&[-1.2; 20], &bounds, 0.0, LbfgsMemory::default(), rosenbrock).unwrap();
        let start: Vec<f64> =
            first.x.iter().enumerate().map(|(i, v)| v + 0.01 * ((7 * i) as f64).sin()).collect();
        let tenfold =
            |x: &[f64]| rosenbrock(x).map(|(v, g)| (10.0 * v, g.iter().map(|g| 10.0 * g).collect()));
        let run = |memory| minimize(&start, &bounds, 1e-4, memory, tenfold).unwrap();
        let (cold, warm) = (run(LbfgsMemory::default()), run(first.curvature.times(10.0)));
        assert!(cold.value < 1e-3 && warm.value < 1e-3);
        assert!(warm.evaluations < cold.evaluations, "{} {}", warm.evaluations, cold.evaluations);
    }

    #[test]
    fn ends_when_the_value_falls_little() {
        let [converged, enough] = [0.0, 1e-2].map(|enough| {
            minimize(&[-1.2; 5], &[(-5.0, 5.0); 5], enough, LbfgsMemory::default(), rosenbrock).unwrap()
        });
        assert!(enough.converged && enough.steps < converged.steps, "{} {}", enough.steps, converged.steps);
        assert!(
            enough.value - converged.value < 1e-2 && enough.value > converged.value,
            "{} {}",
            enough.value,
            converged.value
        );
    }

    /// Minima at the bounds are found: Schittkowski's problem 4 (bounds active at (1, 1.. )), and the
    /// Rosenbrock function with its valley cut off, where x₀ ≤ 0.5 leaves the minimum at (0.5, 0.25).
    #[test]
    fn stops_at_the_bounds() {
        let minimum =
            minimize(&[-1.2, 1.0], &[(-2.0, 0.5), (-2.0, 2.0)], 0.0, LbfgsMemory::default(), rosenbrock)
                .unwrap();
        assert!((minimum.x[0] - 0.5).abs() < 1e-9 && (minimum.x[1] - 0.25).abs() < 1e-5, "{minimum:?}");
        let corner =
            minimize(&[3.0, 3.0], &[(1.5, 4.0), (-4.0, 2.0)], 0.0, LbfgsMemory::default(), rosenbrock)
                .unwrap();
        // At x₁ = 2 the value over x₀ ≥ 1.5 is least where 400 (x₀² - 2) x₀ + 2 (x₀ - 1) = 0, below 1.5.
        assert!(corner.x[0] == 1.5 && corner.x[1] == 2.0, "{corner:?}");
        let fixed =
            minimize(&[0.0, 7.0], &[(-9.0, 9.0), (7.0, 7.0)], 0.0, LbfgsMemory::default(), rosenbrock)
                .unwrap();
        assert!(fixed.x[1] == 7.0 && (fixed.x[0] - 2.643).abs() < 0.01, "{fixed:?}");
    }

    /// Convex quadratics with random bounds have the minimum of coordinate descent, which cannot fail on
    /// them.
    #[test]
    fn agrees_with_coordinate_descent() {
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        };
        for _ in 0..50 {
            let d = 8;
            let root: Vec<Vec<f64>> = (0..d).map(|_| (0..d).map(|_| draw()).collect()).collect();
            let h = |i: usize, j: usize| dot(&root[i], &root[j]) + if i == j { 0.05 } else { 0.0 };
            let c: Vec<f64> = (0..d).map(|_| 3.0 * draw()).collect();
            let bounds: Vec<(f64, f64)> = (0..d).map(|_| (-draw().abs(), draw().abs())).collect();
            let slope = |x: &[f64], i: usize| (0..d).map(|j| h(i, j) * x[j]).sum::<f64>() - c[i];
            let mut expected = vec![0.0; d];
            for _ in 0..20_000 {
                for i in 0..d {
                    let free = expected[i] - slope(&expected, i) / h(i, i);
                    expected[i] = free.clamp(bounds[i].0, bounds[i].1);
                }
            }
            let result = minimize(&vec![0.9; d], &bounds, 0.0, LbfgsMemory::default(), |x| {
                let g: Vec<f64> = (0..d).map(|i| slope(x, i)).collect();
                Some((0.5 * (dot(x, &g) - dot(x, &c)), g))
            });
            let minimum = result.unwrap();
            let max_error = minimum.x.iter().zip(&expected).fold(0.0_f64, |a, (u, v)| a.max((u - v).abs()));
            assert!(max_error < 2e-4, "{max_error} after {} steps", minimum.steps);
        }
    }

    #[test]
    fn steps_avoid_points_where_the_function_is_undefined() {
        // ln is defined for positive numbers only, and the first step would leave them.
        let f = |x: &[f64]| (x[0] > 0.0).then(|| (x[0] - 0.01 * x[0].ln(), vec![1.0 - 0.01 / x[0]]));
        let minimum = minimize(&[0.9], &[(-1e9, 1e9)], 0.0, LbfgsMemory::default(), f).unwrap();
        assert!((minimum.x[0] - 0.01).abs() < 1e-5, "{minimum:?}");
        assert!(minimize(&[-1.0], &[(-2.0, 2.0)], 0.0, LbfgsMemory::default(), f).is_none());
    }
}
