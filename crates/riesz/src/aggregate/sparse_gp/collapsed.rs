//! The evidence of sums over bags of a process that is known through its values at inducing points, which are
//! integrated out.
//!
//! With `Φ = PᵀK(X, W)`, `K(W, W) = LLᵀ`, `Ψ = L⁻¹Φᵀ`, noise variances C (diagonal), residuals `r = z - β s`
//! and what points leave unexplained of each sum, `gap = diag(PᵀK(X, X)P - ΨᵀΨ)`:
//!
//! ```text
//! VFE   = log N(r; 0, ΨᵀΨ + C) - ½ tr C⁻¹ gap         (Titsias 2009)
//! FITC  = log N(r; 0, ΨᵀΨ + C + gap)                  (Snelson and Ghahramani 2006, of sums instead of rows)
//! ```
//!
//! Either is `log N(r; 0, ΨᵀΨ + D)` and a penalty. Through `Λ = I + ΨD⁻¹Ψᵀ` everything is of the size of the
//! points or linear in the number of bags. The constant mean β is that which makes it largest, by generalised
//! least squares, unless it is given.

use super::Approximation;
use super::features::Features;
use super::through::Through;
use crate::aggregate::bag_gram::BagRows;
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::fit::whitening::WhitenedInducing;
use crate::kernel::Kernel;
use crate::linalg::{Cholesky, Matrix, dot};
use crate::table::Table;

/// At one kernel and noise.
pub(super) struct Collapsed {
    pub value: f64,
    /// β.
    pub mean: f64,
    /// `V⁻¹r` with `V = ΨᵀΨ + D`, one a bag.
    pub residual: Vec<f64>,
    /// Coefficients of the points.
    pub alpha: Vec<f64>,
    /// The same of the whitened points, `Lᵀα`.
    whitened: Vec<f64>,
    /// L.
    pub points: WhitenedInducing,
    /// `ΨD⁻¹Ψᵀ`, which is `Λ - I`.
    told: Matrix,
    /// `Λ⁻¹`.
    left: Matrix,
    /// `D^-½ Ψᵀ`, a row a bag, and the same times `I - Λ⁻¹`.
    psi: Matrix,
    half: Matrix,
    /// D.
    spread: Vec<f64>,
    /// What gaps and noises move the value by.
    by_gap: Vec<f64>,
    pub by_noise: Vec<f64>,
    /// The diagonal of `V⁻¹`.
    pub precision: Vec<f64>,
    /// What points leave unexplained of the variances of sums: not counted in V, and all together in units of
    /// noise variances, halved.
    pub besides: Vec<f64>,
    pub unexplained: f64,
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
    /// Of `targets` whose sums of a constant 1 are `ones`. The mean is learnt unless it is given. Cost O(bags
    /// points² + points³).
    pub fn new(
        kernel: &Kernel,
        points: &Table,
        features: &Features,
        (approximation, noise): (Approximation, &[f64]),
        (targets, ones): (&[f64], &[f64]),
        given: Option<f64>,
    ) -> Result<Self> {
        let bags = targets.len();
        let own = WhitenedInducing::new(kernel, points)?;
        let factor = &own.factor;
        let mut psi = features.phi.clone();
        factor.solve_lower_right(&mut psi);
        // Less than 0 is rounding, or what samples of rows are off.
        let gap = |b: usize| (features.prior[b] - dot(psi.row(b), psi.row(b))).max(0.0);
        let gap: Vec<f64> = (0..bags).map(gap).collect();
        let counts = approximation == Approximation::Fitc;
        let spread = |(c, gap): (&f64, &f64)| if counts { c + gap } else { *c };
        let spread: Vec<f64> = noise.iter().zip(&gap).map(spread).collect();
        let roots: Vec<f64> = spread.iter().map(|d| 1.0 / d.sqrt()).collect();
        (0..bags).for_each(|b| psi.row_mut(b).iter_mut().for_each(|v| *v *= roots[b]));
        let told = psi.gram_of_columns();
        let mut lambda = told.clone();
        lambda.add_diagonal(|_| 1.0);
        let lambda = Cholesky::new(lambda, "what targets tell of the inducing points")?;
        // V⁻¹v, and Λ⁻¹ΨD⁻¹v on the way.
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
        let precision =
            |b: usize| (1.0 - dot(psi.row(b), psi.row(b)) + dot(psi.row(b), half.row(b))) / spread[b];
        let precision: Vec<f64> = (0..bags).map(precision).collect();
        let logs: f64 = spread.iter().map(|d| d.ln()).sum();
        let unexplained = 0.5 * gap.iter().zip(noise).map(|(g, c)| g / c).sum::<f64>();
        let value = -0.5
            * (dot(&r, &residual) + lambda.log_det() + logs + bags as f64 * std::f64::consts::TAU.ln())
            - if counts { 0.0 } else { unexplained };
        let told_of = |b: usize| 0.5 * (residual[b].powi(2) - precision[b]);
        let by_gap = |b: usize| match approximation {
            _ if gap[b] == 0.0 => 0.0,
            Approximation::Fitc => told_of(b),
            Approximation::Vfe => -0.5 / noise[b],
        };
        let by_gap = (0..bags).map(by_gap).collect();
        let more = |b: usize| if counts { 0.0 } else { 0.5 * gap[b] / noise[b].powi(2) };
        let by_noise = (0..bags).map(|b| told_of(b) + more(b)).collect();
        let besides = if counts { vec![0.0; bags] } else { gap };
        if !value.is_finite() {
            let what = "the log marginal likelihood through inducing points".into();
            return Err(Error::Overflow { what, remedy: "check the kernel's parameters and the noise" });
        }
        Ok(Self {
            value,
            mean,
            residual,
            alpha: alpha.data().to_vec(),
            whitened: inner,
            points: own,
            told,
            left,
            psi,
            half,
            spread,
            by_gap,
            by_noise,
            precision,
            besides,
            unexplained,
            of_mean,
        })
    }

    /// The standard error of the value, by the prior variances of targets that samples of rows say; 0
    /// without.
    pub fn error(&self, priors: &[Vec<f64>]) -> f64 {
        let found: Vec<f64> = priors.iter().map(|own| dot(own, &self.by_gap)).collect();
        if found.len() < 2 {
            return 0.0;
        }
        let (count, mean) = (found.len() as f64, found.iter().sum::<f64>() / found.len() as f64);
        (found.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count * (count - 1.0))).sqrt()
    }

    /// The gradient in the kernel's parameters. With `G = K(W, W)⁻¹Φᵀ`, slopes γ by gaps and `W = T - 2γ` it
    /// is `Σ dΦ∘WGᵀ - ½ tr GWGᵀdK(W, W) + Σ_b γ_b d(PᵀKP)_bb`, and with `ε = 1 + 2γD`, which is 0 for the
    /// VFE, `WGᵀ = V⁻¹r αᵀ + D⁻¹Ψᵀ(I - Λ⁻¹ - ε)L⁻¹` and `GWGᵀ = ααᵀ + L⁻ᵀ(Λ - 2I + Λ⁻¹ - ΨεD⁻¹Ψᵀ)L⁻¹`.
    pub fn by_kernel(
        &self,
        kernel: &Kernel,
        points: &Table,
        (rows, features, through): (&BagRows, &Features, Option<&Through>),
        watch: RunControl<'_>,
    ) -> Result<Vec<f64>> {
        let (m, bags) = (points.rows(), self.spread.len());
        // In this order 0 is 0.
        let extra = self.by_gap.iter().zip(&self.spread).map(|(g, d)| (1.0 / d + 2.0 * g) * d);
        let extra: Vec<f64> = extra.collect();
        let mut inner = self.told.clone();
        inner.data_mut().iter_mut().zip(self.left.data()).for_each(|(v, l)| *v += l);
        inner.add_diagonal(|_| -1.0);
        let mut by_phi = self.half.clone();
        if extra.iter().any(|e| *e != 0.0) {
            let mut scaled = self.psi.clone();
            (0..bags).for_each(|b| scaled.row_mut(b).iter_mut().for_each(|v| *v *= extra[b]));
            by_phi.data_mut().iter_mut().zip(scaled.data()).for_each(|(h, s)| *h -= s);
            let more = self.psi.transpose().matmul(&scaled);
            inner.data_mut().iter_mut().zip(more.data()).for_each(|(v, more)| *v -= more);
        }
        self.points.factor.solve_upper_right(&mut by_phi);
        for b in 0..bags {
            let (a, root) = (self.residual[b], 1.0 / self.spread[b].sqrt());
            by_phi.row_mut(b).iter_mut().zip(&self.alpha).for_each(|(h, alpha)| *h = a * alpha + root * *h);
        }
        watch.check_cancelled()?;
        let mut by_own = self.by_gap.clone();
        let mut of_pairs = Vec::new();
        if let Some(own) = through {
            by_phi = own.operator.times(&by_phi);
            let by = own.by_gram(&self.by_gap);
            by_own = (0..by.rows()).map(|b| by[(b, b)]).collect();
            of_pairs = own.gradient(rows, kernel, by, watch.stop)?;
        }
        let mut total = rows.contract(features, kernel, points, &by_phi, watch)?;
        for i in 0..m {
            let own = self.whitened[i];
            inner.row_mut(i).iter_mut().zip(&self.whitened).for_each(|(v, w)| *v = -0.5 * (*v + own * w));
        }
        let of_gram = self.points.gram_gradient(kernel, points, inner);
        total.iter_mut().zip(&of_gram).for_each(|(t, g)| *t += g);
        for (b, by) in by_own.iter().enumerate() {
            let own = &features.own.row(b)[1..];
            total.iter_mut().zip(own).for_each(|(t, d)| *t += by * d);
        }
        total.iter_mut().zip(&of_pairs).for_each(|(t, d)| *t += d);
        Ok(total)
    }

    /// F with `FFᵀ = L⁻ᵀ(I - Λ⁻¹)L⁻¹`, which is `K(W, W)⁻¹ - (K(W, W) + ΦᵀD⁻¹Φ)⁻¹`, in as many columns as
    /// there are parts that count. Cost O(points³).
    pub fn root(&self) -> Result<Matrix> {
        self.points.reduction_root(&self.told)
    }
}
