//! L-BFGS-B: minimisation of a smooth function within bounds, for a few (to a few hundred) logarithmic
//! parameters of a likelihood, where one evaluation costs far more than everything done here.
//!
//! Limited-memory BFGS (Nocedal 1980) on the variables that are not held at a bound by the gradient, with
//! steps projected onto the bounds (Bertsekas 1982) and a line search for the weak Wolfe conditions along the
//! projected path (Lewis and Overton 2013).

use std::collections::VecDeque;

use crate::linalg::dot;

/// Steps remembered.
const MEMORY: usize = 10;
/// Stop when no projected gradient component is larger.
const GRADIENT_TOLERANCE: f64 = 1e-5;
/// Stop when a step lowers the value by less than this, relative to the value (or to 1).
const VALUE_TOLERANCE: f64 = 1e-10;
/// Steps allowed.
const MAX_STEPS: usize = 1000;
/// Evaluations allowed in one line search.
const MAX_TRIALS: usize = 25;

/// The curvature of a function: changes of the point, and the corresponding changes of the gradient, the
/// latest last.
#[derive(Debug, Clone, Default)]
pub(crate) struct LbfgsMemory(VecDeque<(Vec<f64>, Vec<f64>)>);

impl LbfgsMemory {
    /// The memory of `factor` times the function.
    pub(crate) fn times(mut self, factor: f64) -> Self {
        self.0.iter_mut().for_each(|(_, y)| y.iter_mut().for_each(|y| *y *= factor));
        self
    }
}

/// Where a minimisation ended.
#[derive(Debug, Clone)]
pub(crate) struct MinimizeResult {
    /// The point.
    pub x: Vec<f64>,
    /// The function's value there.
    pub value: f64,
    /// Steps taken.
    pub steps: usize,
    /// Function evaluations.
    pub evaluations: usize,
    /// Whether it stopped by a tolerance, and not by the number of steps.
    pub converged: bool,
    /// The curvature of the function at the minimum.
    pub curvature: LbfgsMemory,
}

/// Minimises `f`, which gives a value and a gradient, from `start` with `lower ≤ x ≤ upper`, until two steps
/// in turn lower it by no more than `enough` or one by hardly anything. The first step is guided by how the
/// function is known to bend. Where `f` gives `None` or a number that is not finite, it counts as infinite.
/// `None` if it is so at the start.
pub(crate) fn minimize(
    start: &[f64],
    bounds: &[(f64, f64)],
    enough: f64,
    known: LbfgsMemory,
    mut f: impl FnMut(&[f64]) -> Option<(f64, Vec<f64>)>,
) -> Option<MinimizeResult> {
    let project = |x: &[f64]| -> Vec<f64> {
        x.iter().zip(bounds).map(|(v, &(low, high))| v.clamp(low, high)).collect()
    };
    let mut evaluations = 0;
    let mut evaluate = |x: &[f64]| {
        evaluations += 1;
        f(x).filter(|(value, gradient)| value.is_finite() && gradient.iter().all(|g| g.is_finite()))
    };
    let mut x = project(start);
    let (mut value, mut gradient) = evaluate(&x)?;
    let LbfgsMemory(mut pairs) = known;
    let (mut steps, mut converged, mut before) = (0, false, f64::INFINITY);
    while steps < MAX_STEPS {
        let at_bound = |i: usize| {
            let (low, high) = bounds[i];
            (x[i] <= low && gradient[i] >= 0.0) || (x[i] >= high && gradient[i] <= 0.0)
        };
        let reduced: Vec<f64> = (0..x.len()).map(|i| if at_bound(i) { 0.0 } else { gradient[i] }).collect();
        let largest = reduced.iter().fold(0.0_f64, |a, g| a.max(g.abs()));
        let gradient_step: Vec<f64> = x.iter().zip(&gradient).map(|(v, g)| v - g).collect();
        let projected =
            project(&gradient_step).iter().zip(&x).fold(0.0_f64, |a, (p, v)| a.max((p - v).abs()));
        if projected <= GRADIENT_TOLERANCE {
            converged = true;
            break;
        }
        let free: Vec<bool> = (0..x.len()).map(|i| !at_bound(i)).collect();
        let mut direction = quasi_newton(&pairs, &reduced, &free);
        if dot(&direction, &reduced) >= 0.0 {
            pairs.clear();
            direction = reduced.iter().map(|g| -g).collect();
        }
        let slope = dot(&direction, &reduced);
        // (step length's lower and upper ends, best point so far)
        let (mut low, mut high, mut best) = (0.0, f64::INFINITY, None);
        let mut t = if pairs.is_empty() { (1.0 / largest).min(1.0) } else { 1.0 };
        for _ in 0..MAX_TRIALS {
            let target: Vec<f64> = x.iter().zip(&direction).map(|(v, d)| v + t * d).collect();
            let trial = project(&target);
            let predicted: f64 = (0..x.len()).map(|i| gradient[i] * (trial[i] - x[i])).sum();
            match evaluate(&trial) {
                Some((v, g)) if predicted < 0.0 && v <= value + 1e-4 * predicted => {
                    let ahead: f64 =
                        (0..x.len()).filter(|&i| trial[i] == target[i]).map(|i| g[i] * direction[i]).sum();
                    best = Some((trial, v, g));
                    if ahead >= 0.9 * slope {
                        break;
                    }
                    low = t;
                }
                _ => high = t,
            }
            t = if high.is_finite() { 0.5 * (low + high) } else { 2.0 * t };
        }
        let Some((next, v, g)) = best else {
            if pairs.is_empty() {
                // Not even a short step downhill helps: the value is at its rounding error.
                converged = true;
                break;
            }
            pairs.clear();
            continue;
        };
        steps += 1;
        let s: Vec<f64> = next.iter().zip(&x).map(|(a, b)| a - b).collect();
        let y: Vec<f64> = g.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        if dot(&s, &y) > 1e-12 * dot(&y, &y).max(dot(&s, &s)) {
            if pairs.len() == MEMORY {
                pairs.pop_front();
            }
            pairs.push_back((s, y));
        }
        let gained = value - v;
        let scale = value.abs().max(v.abs()).max(1.0);
        (x, value, gradient) = (next, v, g);
        if gained <= VALUE_TOLERANCE * scale || gained.max(before) <= enough {
            converged = true;
            break;
        }
        before = gained;
    }
    Some(MinimizeResult { x, value, steps, evaluations, converged, curvature: LbfgsMemory(pairs) })
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
        q.iter_mut().zip(s.iter()).for_each(|(q, s)| *q += (a - b) * s);
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
    fn finds_the_bottom_of_the_banana() {
        for d in [2, 5, 100] {
            let minimum =
                minimize(&vec![-1.2; d], &vec![(-5.0, 5.0); d], 0.0, LbfgsMemory::default(), rosenbrock)
                    .unwrap();
            assert!(minimum.converged && minimum.x.iter().all(|v| (v - 1.0).abs() < 1e-4), "{minimum:?}");
            assert!(minimum.evaluations < 800, "{} evaluations in {d} variables", minimum.evaluations);
        }
    }

    /// The curvature of one minimisation helps that of a function with the same curvature.
    #[test]
    fn goes_on_from_what_is_known() {
        let bounds = vec![(-5.0, 5.0); 20];
        let first = minimize(&[-1.2; 20], &bounds, 0.0, LbfgsMemory::default(), rosenbrock).unwrap();
        let near: Vec<f64> =
            first.x.iter().enumerate().map(|(i, v)| v + 0.01 * ((7 * i) as f64).sin()).collect();
        let tenfold =
            |x: &[f64]| rosenbrock(x).map(|(v, g)| (10.0 * v, g.iter().map(|g| 10.0 * g).collect()));
        let run = |known| minimize(&near, &bounds, 1e-4, known, tenfold).unwrap();
        let (anew, on) = (run(LbfgsMemory::default()), run(first.curvature.times(10.0)));
        assert!(anew.value < 1e-3 && on.value < 1e-3);
        assert!(on.evaluations < anew.evaluations, "{} {}", on.evaluations, anew.evaluations);
    }

    #[test]
    fn ends_where_little_is_gained() {
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
            let gap = minimum.x.iter().zip(&expected).fold(0.0_f64, |a, (u, v)| a.max((u - v).abs()));
            assert!(gap < 2e-4, "{gap} after {} steps", minimum.steps);
        }
    }

    #[test]
    fn goes_round_where_the_function_is_undefined() {
        // ln is defined on one side only, and the first step would leave it.
        let f = |x: &[f64]| (x[0] > 0.0).then(|| (x[0] - 0.01 * x[0].ln(), vec![1.0 - 0.01 / x[0]]));
        let minimum = minimize(&[0.9], &[(-1e9, 1e9)], 0.0, LbfgsMemory::default(), f).unwrap();
        assert!((minimum.x[0] - 0.01).abs() < 1e-5, "{minimum:?}");
        assert!(minimize(&[-1.0], &[(-2.0, 2.0)], 0.0, LbfgsMemory::default(), f).is_none());
    }
}
