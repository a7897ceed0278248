//! Skew functions of two items that are bilinear in features f of each: `g(l, r) = s_e f_lᵀ V f_r + s_u (f_l - f_r)ᵀ u` with V = -Vᵀ, and u and the upper triangle of V standard
//! normal beforehand. That is the [nested prior](super::PairKernel) with the kernel `f_lᵀ f_r`, whose posterior takes no matrix over duels here: Newton's method with conjugate
//! gradients, whose products cost O(items q² + pairs q) for q features.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::duels::Duels;
use super::pairs::Pair;
use crate::error::{Error, Result};
use crate::expansion::logistic;
use crate::fit::laplace::log_likelihood;
use crate::linalg::{Matrix, dot};
use crate::random::{Random, RngExt, StandardNormal};
use crate::simd::{Isa, LANES, Lanes, Simd, dispatch, fma};
use crate::stop::check;

/// Newton steps allowed, and conjugate gradients in each.
const MAX_NEWTON: usize = 60;
const MAX_GRADIENTS: usize = 2000;
/// What of a draw's right side is left: less than draws differ by.
const DRAW_TOLERANCE: f64 = 1e-2;

/// The weights of a skew function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Weights {
    /// V, q × q.
    pub pairs: Matrix,
    /// u.
    pub utility: Vec<f64>,
}

impl Weights {
    fn zeros(q: usize) -> Self {
        Self { pairs: Matrix::zeros(q, q), utility: vec![0.0; q] }
    }

    /// The inner product, in which each element of V counts once.
    fn dot(&self, other: &Self) -> f64 {
        0.5 * dot(self.pairs.data(), other.pairs.data()) + dot(&self.utility, &other.utility)
    }

    fn add(&mut self, times: f64, other: &Self) {
        let each = self.pairs.data_mut().iter_mut().zip(other.pairs.data());
        each.chain(self.utility.iter_mut().zip(&other.utility)).for_each(|(a, b)| *a += times * b);
    }

    fn multiply(&mut self, by: &Self) {
        let each = self.pairs.data_mut().iter_mut().zip(by.pairs.data());
        each.chain(self.utility.iter_mut().zip(&by.utility)).for_each(|(a, b)| *a *= b);
    }
}

dispatch! {
    /// The inner product of features.
    fn inner(a: &[f64], b: &[f64]) -> f64 = inner_body::<V>
}

#[inline(always)]
fn inner_body<V: Simd>(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let (mut even, mut odd) = (Lanes::ZERO, Lanes::ZERO);
    for (t, (a, b)) in a.iter().zip(b).enumerate() {
        let sum = if t % 2 == 0 { &mut even } else { &mut odd };
        *sum = Lanes(*a).fma::<V>(Lanes(*b), *sum);
    }
    let tail = a_rest.iter().zip(b_rest).fold(0.0, |sum, (a, b)| fma::<V>(*a, *b, sum));
    even.add::<V>(odd).sum() + tail
}

dispatch! {
    /// `sums += times v`.
    fn add_scaled(sums: &mut [f64], times: f64, v: &[f64]) = add_scaled_body::<V>
}

#[inline(always)]
fn add_scaled_body<V: Simd>(sums: &mut [f64], times: f64, v: &[f64]) {
    for (s, v) in sums.iter_mut().zip(v) {
        *s = fma::<V>(times, *v, *s);
    }
}

/// `g` of pairs of items with these features (items × q): skew to the bit. `shares` are s_u and s_e.
pub(super) fn log_odds(f: &Matrix, shares: [f64; 2], weights: &Weights, pairs: &[Pair]) -> Vec<f64> {
    let isa = Isa::detect();
    let [utility, generalised] = shares;
    let turned = (generalised > 0.0).then(|| f.matmul(&weights.pairs));
    let scores: Vec<f64> = (0..f.rows()).into_par_iter().map(|i| dot(f.row(i), &weights.utility)).collect();
    let of = |&(l, r): &Pair| {
        let (a, b, sign) = if l <= r { (l, r, 1.0) } else { (r, l, -1.0) };
        let both = turned.as_ref().map_or(0.0, |t| generalised * inner(isa, t.row(a), f.row(b)));
        if a == b { 0.0 } else { sign * (both + utility * (scores[a] - scores[b])) }
    };
    pairs.par_iter().map(of).collect()
}

/// Duels between items with features.
pub(super) struct Bilinear<'d> {
    f: &'d Matrix,
    transposed: Matrix,
    shares: [f64; 2],
    duels: &'d Duels,
    /// Where the pairs of each item as the first one start.
    starts: Vec<usize>,
}

/// The mode of the posterior of the weights.
pub(super) struct Mode {
    pub weights: Weights,
    /// By pair, the slope of the log likelihood.
    pub alpha: Vec<f64>,
    /// By pair, what the likelihood curves by.
    curve: Vec<f64>,
    pub log_likelihood: f64,
    /// Newton steps, and products with the Hessian.
    pub steps: usize,
    pub products: usize,
}

impl<'d> Bilinear<'d> {
    /// With features of all items, and s_u and s_e.
    pub fn new(f: &'d Matrix, shares: [f64; 2], duels: &'d Duels) -> Self {
        let mut starts = vec![0; f.rows() + 1];
        duels.pairs().iter().for_each(|p| starts[p.0 + 1] += 1);
        (0..f.rows()).for_each(|i| starts[i + 1] += starts[i]);
        Self { f, transposed: f.transpose(), shares, duels, starts }
    }

    fn log_odds(&self, weights: &Weights) -> Vec<f64> {
        log_odds(self.f, self.shares, weights, self.duels.pairs())
    }

    /// `Σ_p by_p f_l f_rᵀ` less its transpose, and `Σ_p by_p (f_l - f_r)`, times the shares: the adjoint of [`log_odds`](Self::log_odds).
    fn adjoint(&self, by_pair: &[f64]) -> Weights {
        let (q, [utility, generalised]) = (self.f.cols(), self.shares);
        let mut out = Weights::zeros(q);
        let isa = Isa::detect();
        if generalised > 0.0 {
            let mut sums = Matrix::zeros(self.f.rows(), q);
            sums.data_mut().par_chunks_mut(q).enumerate().for_each(|(l, row)| {
                for p in self.starts[l]..self.starts[l + 1] {
                    add_scaled(isa, row, by_pair[p], self.f.row(self.duels.pairs()[p].1));
                }
            });
            let all = self.transposed.matmul(&sums);
            out.pairs.data_mut().par_chunks_mut(q).enumerate().for_each(|(i, row)| {
                row.iter_mut().enumerate().for_each(|(j, v)| *v = generalised * (all[(i, j)] - all[(j, i)]));
            });
        }
        if utility > 0.0 {
            let mut sums = vec![0.0; self.f.rows()];
            for (&(l, r), v) in self.duels.pairs().iter().zip(by_pair) {
                sums[l] += utility * v;
                sums[r] -= utility * v;
            }
            out.utility = self.transposed.matvec(&sums);
        }
        out
    }

    /// The mode, where so much of the slope at 0 is left.
    ///
    /// # Errors
    /// [`Error::NotConverged`]; [`Error::Interrupted`].
    pub fn mode(&self, tolerance: f64, stop: &AtomicBool) -> Result<Mode> {
        let (y, w) = (self.duels.outcome(), self.duels.weight());
        let n = y.len();
        let mut weights = Weights::zeros(self.f.cols());
        let mut g = vec![0.0; n];
        let mut likelihood = log_likelihood(y, |i| w[i], &g);
        let mut objective = likelihood;
        let (mut first, mut left, mut products) = (None, f64::INFINITY, 0);
        for steps in 0..MAX_NEWTON {
            check(stop)?;
            let p: Vec<f64> = g.iter().map(|&g| logistic(g)).collect();
            let alpha: Vec<f64> = (0..n).map(|i| w[i] * (y[i] - p[i])).collect();
            let curve: Vec<f64> = (0..n).map(|i| w[i] * p[i] * (1.0 - p[i])).collect();
            let target = self.adjoint(&alpha);
            let mut slope = target.clone();
            slope.add(-1.0, &weights);
            let size = slope.dot(&slope).sqrt();
            let whole = *first.get_or_insert(size.max(1e-300));
            left = size / whole;
            if left <= tolerance {
                return Ok(Mode {
                    weights: target,
                    alpha,
                    curve,
                    log_likelihood: likelihood,
                    steps,
                    products,
                });
            }
            let (step, own) = self.solve(&curve, &slope, left.sqrt().min(0.1), stop)?;
            products += own;
            let step_g = self.log_odds(&step);
            let (slant, bend, ahead) = (weights.dot(&weights), step.dot(&step), weights.dot(&step));
            let mut t = 1.0;
            loop {
                let next_g: Vec<f64> = g.iter().zip(&step_g).map(|(g, s)| g + t * s).collect();
                let found = log_likelihood(y, |i| w[i], &next_g);
                let next = found - 0.5 * (slant + 2.0 * t * ahead + t * t * bend);
                // Near the mode the objective changes by less than its rounding error.
                if next >= objective - 1e-12 * objective.abs().max(1.0) || t < 1e-10 {
                    weights.add(t, &step);
                    (g, likelihood, objective) = (next_g, found, next);
                    break;
                }
                t *= 0.5;
            }
        }
        Err(Error::NotConverged {
            method: "Newton's method for preferences with landmarks",
            iterations: MAX_NEWTON,
            change: left,
            remedy: "lower the kernel's scale",
        })
    }

    /// Solves `(I + ΨᵀWΨ) x = b` by conjugate gradients until so much of b is left, and how many products that took.
    fn solve(
        &self,
        curve: &[f64],
        b: &Weights,
        relative: f64,
        stop: &AtomicBool,
    ) -> Result<(Weights, usize)> {
        let inverse = self.preconditioner(curve);
        let times = |v: &Weights| {
            let mut g = self.log_odds(v);
            g.iter_mut().zip(curve).for_each(|(g, w)| *g *= w);
            let mut out = self.adjoint(&g);
            out.add(1.0, v);
            out
        };
        let scaled = |r: &Weights| {
            let mut z = r.clone();
            z.multiply(&inverse);
            z
        };
        let (mut x, mut r) = (Weights::zeros(self.f.cols()), b.clone());
        let target = relative * relative * b.dot(b);
        let mut z = scaled(&r);
        let mut direction = z.clone();
        let mut size = r.dot(&z);
        for step in 0..MAX_GRADIENTS {
            if r.dot(&r) <= target {
                return Ok((x, step));
            }
            check(stop)?;
            let image = times(&direction);
            let t = size / direction.dot(&image);
            x.add(t, &direction);
            r.add(-t, &image);
            z = scaled(&r);
            let next = r.dot(&z);
            let keep = next / size;
            std::mem::swap(&mut direction, &mut z);
            direction.add(keep, &z);
            size = next;
        }
        Err(Error::NotConverged {
            method: "the method of conjugate gradients for preferences with landmarks",
            iterations: MAX_GRADIENTS,
            change: (r.dot(&r) / b.dot(b)).sqrt(),
            remedy: "lower the kernel's scale, or take fewer landmarks",
        })
    }

    /// The inverse of the Hessian's diagonal, that of u exactly, and that of V for pairs of random items whose features have no second moments with one another.
    fn preconditioner(&self, curve: &[f64]) -> Weights {
        let (q, [utility, generalised]) = (self.f.cols(), self.shares);
        let (mut moments, mut apart, mut total) = (vec![0.0; q], vec![0.0; q], 0.0);
        for (&(l, r), w) in self.duels.pairs().iter().zip(curve) {
            total += w;
            let rows = self.f.row(l).iter().zip(self.f.row(r));
            for ((m, a), (l, r)) in moments.iter_mut().zip(&mut apart).zip(rows) {
                *m += 0.5 * w * (l * l + r * r);
                *a += w * (l - r) * (l - r);
            }
        }
        let mut out = Weights::zeros(q);
        let scale = 2.0 * generalised * generalised / f64::max(total, 1e-300);
        for i in 0..q {
            for (out, m) in out.pairs.row_mut(i).iter_mut().zip(&moments) {
                *out = 1.0 / (1.0 + scale * (moments[i] * m));
            }
            out.utility[i] = 1.0 / (1.0 + utility * utility * apart[i]);
        }
        out
    }

    /// A draw from the posterior, less its mean: `H⁻¹(Ψᵀ W^½ ε + ε₀)`, whose covariance is H⁻¹.
    ///
    /// # Errors
    /// As [`mode`](Self::mode).
    pub fn draw(&self, mode: &Mode, random: &mut Random, stop: &AtomicBool) -> Result<Weights> {
        let q = self.f.cols();
        let mut normal = || random.sample::<f64, _>(StandardNormal);
        let noise: Vec<f64> = mode.curve.iter().map(|w| w.sqrt() * normal()).collect();
        let mut b = self.adjoint(&noise);
        for i in 0..q {
            for j in 0..i {
                let v = normal();
                b.pairs[(i, j)] -= v;
                b.pairs[(j, i)] += v;
            }
        }
        b.utility.iter_mut().for_each(|u| *u += normal());
        Ok(self.solve(&mode.curve, &b, DRAW_TOLERANCE, stop)?.0)
    }
}
