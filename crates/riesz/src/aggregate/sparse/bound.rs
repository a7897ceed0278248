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
use super::through::Through;
use crate::aggregate::rows::Rows;
use crate::aggregate::whitened::Whitened;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, dot};
use crate::stop::Watch;
use crate::table::Table;

/// The bound at one kernel and noise.
pub(super) struct Collapsed {
    pub value: f64,
    /// β.
    pub mean: f64,
    /// `V⁻¹r` with `V = ΨᵀΨ + C`, one a bag.
    pub residual: Vec<f64>,
    /// Coefficients of the points.
    pub alpha: Vec<f64>,
    /// The same of the whitened points, `Lᵀα`.
    whitened: Vec<f64>,
    noise: Vec<f64>,
    /// L.
    pub points: Whitened,
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
        let bags = targets.len();
        let own = Whitened::new(kernel, points)?;
        let factor = &own.factor;
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
        let mut alpha = Matrix::column_vector(inner.clone());
        factor.solve_upper_in_place(&mut alpha);
        let left = lambda.inverse();
        let mut known = left.clone();
        known.data_mut().iter_mut().for_each(|v| *v = -*v);
        known.add_diagonal(|_| 1.0);
        let half = psi.matmul(&known);
        let squares: Vec<f64> = (0..bags).map(|b| dot(psi.row(b), psi.row(b))).collect();
        let precision = |b: usize| (1.0 - (squares[b] - dot(psi.row(b), half.row(b)))) / noise[b];
        let precision = (0..bags).map(precision).collect();
        let gap: Vec<f64> = (0..bags).map(|b| features.prior[b] - noise[b] * squares[b]).collect();
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
            whitened: inner,
            noise,
            points: own,
            told,
            left,
            half,
            precision,
            gap,
            of_mean,
        })
    }

    /// The standard error of the bound, by the prior variances of targets that samples of rows say; 0 without.
    pub fn error(&self, priors: &[Vec<f64>]) -> f64 {
        let missed = priors.iter().map(|own| own.iter().zip(&self.noise).map(|(v, c)| 0.5 * v / c).sum());
        let missed: Vec<f64> = missed.collect();
        if missed.len() < 2 {
            return 0.0;
        }
        let (count, mean) = (missed.len() as f64, missed.iter().sum::<f64>() / missed.len() as f64);
        (missed.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count * (count - 1.0))).sqrt()
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
        (rows, features, through): (&Rows, &Features, Option<&Through>),
        watch: Watch<'_>,
    ) -> Result<Vec<f64>> {
        let (m, bags) = (points.rows(), self.noise.len());
        let mut by_phi = self.half.clone();
        self.points.factor.solve_upper_of_rows(&mut by_phi);
        for b in 0..bags {
            let (a, root) = (self.residual[b], 1.0 / self.noise[b].sqrt());
            by_phi.row_mut(b).iter_mut().zip(&self.alpha).for_each(|(h, alpha)| *h = a * alpha + root * *h);
        }
        watch.check()?;
        let mut by_own: Vec<f64> = self.noise.iter().map(|c| -0.5 / c).collect();
        let mut of_pairs = Vec::new();
        if let Some(own) = through {
            by_phi = own.operator.times(&by_phi);
            let by = own.by_gram(&self.noise);
            by_own = (0..by.rows()).map(|b| by[(b, b)]).collect();
            of_pairs = own.gradient(rows, kernel, by, watch.stop)?;
        }
        let mut total = rows.contract(features, kernel, points, &by_phi, watch)?;
        let mut inner = self.told.clone();
        inner.data_mut().iter_mut().zip(self.left.data()).for_each(|(v, l)| *v += l);
        inner.add_diagonal(|_| -1.0);
        for i in 0..m {
            let own = self.whitened[i];
            inner.row_mut(i).iter_mut().zip(&self.whitened).for_each(|(v, w)| *v = -0.5 * (*v + own * w));
        }
        let of_gram = self.points.by_gram(kernel, points, inner);
        total.iter_mut().zip(&of_gram).for_each(|(t, g)| *t += g);
        for (b, by) in by_own.iter().enumerate() {
            let own = &features.own.row(b)[1..];
            total.iter_mut().zip(own).for_each(|(t, d)| *t += by * d);
        }
        total.iter_mut().zip(&of_pairs).for_each(|(t, d)| *t += d);
        Ok(total)
    }

    /// F with `FFᵀ = L⁻ᵀ(I - Λ⁻¹)L⁻¹`, which is `K(W, W)⁻¹ - (K(W, W) + ΦᵀC⁻¹Φ)⁻¹`, in as many columns as there are parts that count. Cost O(points³).
    pub fn root(&self) -> Result<Matrix> {
        self.points.root(&self.told)
    }
}
