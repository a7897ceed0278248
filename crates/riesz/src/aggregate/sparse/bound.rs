//! The collapsed bound: the evidence of sums of a process that is known through its values at inducing points (Titsias 2009), here of sums over bags.
//!
//! With `Φ = PᵀK(X, W)`, `K(W, W) = LLᵀ`, `Ψ = L⁻¹Φᵀ`, noise variances C (diagonal) and residuals `r = z - β s`:
//!
//! ```text
//! bound = log N(r; 0, ΨᵀΨ + C) - ½ tr C⁻¹(PᵀK(X, X)P - ΨᵀΨ)
//! ```
//!
//! Through `Λ = I + ΨC⁻¹Ψᵀ` everything is of the size of the points or linear in the number of bags. The constant mean β is that which makes the bound largest, by generalised least
//! squares, unless it is given.

use super::features::Features;
use crate::aggregate::rows::Rows;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, dot, symmetric_eigen};
use crate::stop::Watch;
use crate::table::Table;

/// Added to the diagonal of `K(W, W)`, relative to its mean. Inducing variables that are seen through so much noise leave the bound a bound; that it is always the same leaves it
/// smooth.
const JITTER: f64 = 1e-10;

/// Parts of what is known of a point's prior variance that are smaller are left out.
const NEGLIGIBLE: f64 = 1e-14;

/// The bound at one kernel and noise.
pub(super) struct Collapsed {
    pub value: f64,
    /// β.
    pub mean: f64,
    /// `V⁻¹r` with `V = ΨᵀΨ + C`, one a bag.
    pub residual: Vec<f64>,
    /// Coefficients of the points.
    pub alpha: Vec<f64>,
    /// What was added to the diagonal of `K(W, W)`.
    pub jitter: f64,
    /// The same, relative to its mean.
    relative: f64,
    noise: Vec<f64>,
    factor: Cholesky,
    /// `ΨC⁻¹Ψᵀ`, which is `Λ - I`.
    told: Matrix,
    /// `Λ⁻¹`.
    left: Matrix,
    /// `C^-½ Ψᵀ(I - Λ⁻¹)`, a row a bag.
    half: Matrix,
    /// The diagonals of `V⁻¹`, and of `PᵀK(X, X)P - ΨᵀΨ`.
    pub precision: Vec<f64>,
    pub gap: Vec<f64>,
    /// `V⁻¹s`, and `sᵀV⁻¹s`, if the mean was learnt.
    pub of_mean: Option<(Vec<f64>, f64)>,
}

/// `Σ_i v_i m_i` over the rows of a matrix.
fn weighted(m: &Matrix, v: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; m.cols()];
    v.iter().enumerate().for_each(|(i, v)| out.iter_mut().zip(m.row(i)).for_each(|(o, x)| *o += v * x));
    out
}

impl Collapsed {
    /// Of `targets` whose sums of a constant 1 are `ones`. The mean is learnt unless it is given. Cost O(bags points² + points³).
    pub fn new(
        kernel: &Kernel,
        points: &Table,
        features: &Features,
        noise: Vec<f64>,
        (targets, ones): (&[f64], &[f64]),
        given: Option<f64>,
    ) -> Result<Self> {
        let (m, bags) = (points.rows(), targets.len());
        let mut gram = kernel.gram(points);
        let level = (0..m).map(|i| gram[(i, i)]).sum::<f64>() / m as f64;
        gram.add_diagonal(|_| JITTER * level);
        let factor = Cholesky::new(gram, "gram matrix of the inducing points")?;
        let jitter = JITTER * level + factor.jitter;
        // C^-½ Ψᵀ, a row a bag.
        let mut psi = features.phi.clone();
        let roots: Vec<f64> = noise.iter().map(|c| 1.0 / c.sqrt()).collect();
        (0..bags).for_each(|b| psi.row_mut(b).iter_mut().for_each(|v| *v *= roots[b]));
        factor.solve_lower_of_rows(&mut psi);
        let told = psi.inner();
        let mut lambda = told.clone();
        lambda.add_diagonal(|_| 1.0);
        let lambda = Cholesky::new(lambda, "what targets tell of the inducing points")?;
        // V⁻¹v, and Λ⁻¹ΨC⁻¹v on the way.
        let solve = |v: &[f64]| {
            let by: Vec<f64> = v.iter().zip(&roots).map(|(v, root)| v * root).collect();
            let inner = lambda.solve_vector(&weighted(&psi, &by));
            let explained = psi.matvec(&inner);
            let out: Vec<f64> = (0..bags).map(|b| (by[b] - explained[b]) * roots[b]).collect();
            (out, inner)
        };
        let (mean, of_mean) = match given {
            Some(mean) => (mean, None),
            None => {
                let (by, _) = solve(ones);
                let square = dot(&by, ones);
                (dot(&by, targets) / square, Some((by, square)))
            }
        };
        let r: Vec<f64> = targets.iter().zip(ones).map(|(z, s)| z - mean * s).collect();
        let (residual, inner) = solve(&r);
        let mut alpha = Matrix::column_vector(inner);
        factor.solve_upper_in_place(&mut alpha);
        let left = lambda.inverse();
        let mut known = left.clone();
        known.data_mut().iter_mut().for_each(|v| *v = -*v);
        known.add_diagonal(|_| 1.0);
        let half = psi.matmul(&known);
        let squares: Vec<f64> = (0..bags).map(|b| dot(psi.row(b), psi.row(b))).collect();
        let precision = |b: usize| (1.0 - (squares[b] - dot(psi.row(b), half.row(b)))) / noise[b];
        let precision = (0..bags).map(precision).collect();
        let gap: Vec<f64> = (0..bags).map(|b| features.own[(b, 0)] - noise[b] * squares[b]).collect();
        let logs: f64 = noise.iter().map(|c| c.ln()).sum();
        let missed: f64 = gap.iter().zip(&noise).map(|(g, c)| g / c).sum();
        let value = -0.5
            * (dot(&r, &residual)
                + lambda.log_det()
                + logs
                + bags as f64 * std::f64::consts::TAU.ln()
                + missed);
        if !value.is_finite() {
            let what = "the bound of the evidence".into();
            return Err(Error::Overflow { what, remedy: "check the kernel's parameters and the noise" });
        }
        Ok(Self {
            value,
            mean,
            residual,
            alpha: alpha.data().to_vec(),
            jitter,
            relative: jitter / level,
            noise,
            factor,
            told,
            left,
            half,
            precision,
            gap,
            of_mean,
        })
    }

    /// The noise variance of a target.
    pub fn noise(&self, bag: usize) -> f64 {
        self.noise[bag]
    }

    /// By how much every target's noise variance moves the bound: `½ (T_bb + gap_b/C_b²)` with `T = V⁻¹rrᵀV⁻¹ - V⁻¹`.
    pub fn by_noise(&self) -> Vec<f64> {
        let of =
            |b: usize| self.residual[b].powi(2) - self.precision[b] + self.gap[b] / self.noise[b].powi(2);
        (0..self.noise.len()).map(|b| 0.5 * of(b)).collect()
    }

    /// The gradient in the kernel's parameters. With `G = K(W, W)⁻¹Φᵀ` and `W = T + C⁻¹` it is `Σ dΦ∘WGᵀ - ½ tr GWGᵀdK(W, W) - ½ Σ_b C_b⁻¹ d(PᵀKP)_bb`, in which
    /// `WGᵀ = V⁻¹r αᵀ + C⁻¹Ψᵀ(I - Λ⁻¹)L⁻¹` and `GWGᵀ = ααᵀ + L⁻ᵀ(Λ - 2I + Λ⁻¹)L⁻¹`.
    pub fn by_kernel(
        &self,
        kernel: &Kernel,
        points: &Table,
        (rows, features): (&Rows, &Features),
        watch: Watch<'_>,
    ) -> Result<Vec<f64>> {
        let (m, bags) = (points.rows(), self.noise.len());
        let mut by_phi = self.half.clone();
        self.factor.solve_upper_of_rows(&mut by_phi);
        for b in 0..bags {
            let (a, root) = (self.residual[b], 1.0 / self.noise[b].sqrt());
            by_phi.row_mut(b).iter_mut().zip(&self.alpha).for_each(|(h, alpha)| *h = a * alpha + root * *h);
        }
        watch.check()?;
        let mut total = rows.contract(features, kernel, points, &by_phi, watch)?;
        let mut inner = self.told.clone();
        inner.data_mut().iter_mut().zip(self.left.data()).for_each(|(v, l)| *v += l);
        inner.add_diagonal(|_| -1.0);
        self.factor.solve_upper_in_place(&mut inner);
        self.factor.solve_upper_of_rows(&mut inner);
        let mut by_gram = inner;
        for i in 0..m {
            let own = self.alpha[i];
            by_gram.row_mut(i).iter_mut().zip(&self.alpha).for_each(|(v, a)| *v = -0.5 * (*v + own * a));
        }
        // The jitter is a multiple of the mean of the diagonal.
        let trace: f64 = (0..m).map(|i| by_gram[(i, i)]).sum();
        by_gram.add_diagonal(|_| self.relative * trace / m as f64);
        let of_gram = kernel.gradient(points, &by_gram);
        total.iter_mut().zip(&of_gram).for_each(|(t, g)| *t += g);
        for (b, c) in self.noise.iter().enumerate() {
            let own = &features.own.row(b)[1..];
            total.iter_mut().zip(own).for_each(|(t, d)| *t -= 0.5 * d / c);
        }
        Ok(total)
    }

    /// F with `FFᵀ = L⁻ᵀ(I - Λ⁻¹)L⁻¹`, which is `K(W, W)⁻¹ - (K(W, W) + ΦᵀC⁻¹Φ)⁻¹`, in as many columns as there are parts that count. Cost O(points³).
    pub fn root(&self) -> Result<Matrix> {
        let (values, vectors) = symmetric_eigen(&self.told)?;
        let kept: Vec<usize> = (0..values.len()).filter(|&k| values[k] > NEGLIGIBLE).collect();
        let mut root = Matrix::zeros(vectors.rows(), kept.len());
        for i in 0..vectors.rows() {
            for (o, &k) in root.row_mut(i).iter_mut().zip(&kept) {
                *o = vectors[(i, k)] * (values[k] / (1.0 + values[k])).sqrt();
            }
        }
        self.factor.solve_upper_in_place(&mut root);
        Ok(root)
    }
}
