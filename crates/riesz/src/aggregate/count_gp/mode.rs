//! The mode of f given counts, and what Laplace's approximation around it makes of the evidence.
//!
//! f is known by its values at inducing points, through independent normal numbers v: `f_i = β + F_i v` with
//! `F = K(X, W)L⁻ᵀ`, `K(W, W) = LLᵀ`. Of a target whose sum is `g_t = Σ_i A_it h(f_i)`, with slopes
//! `D_it = A_it h'(f_i)` and `ψ_t = Σ_i D_it F_i`, and counts that say ω_t of it (their Fisher information),
//!
//! ```text
//! J(β, v) = Σ_t log p(z_t | g_t) - ½ vᵀv        Λ = I + Σ_t ω_t ψ_t ψ_tᵀ        log p(z) ≈ max J - ½ log det Λ
//! ```
//!
//! Λ is that of the process whose sums are observed with noise `1/ω_t` and weights D (Gauss-Newton): all that
//! is known of normal targets is known of counts around their mode. The way there takes the second
//! derivatives themselves, by conjugate gradients that Λ preconditions, and Λ where these bend the wrong way:
//! the logarithm of a sum of exponentials is convex.

use super::cross::Cross;
use super::family::Family;
use super::said::Said;
use crate::aggregate::observation_operator::ObservationOperator;
use crate::error::{Error, Result};
use crate::linalg::{Cholesky, Matrix, dot};

/// Steps allowed, and halvings of each.
const STEPS: usize = 200;
const HALVINGS: usize = 40;

/// Conjugate gradients end at this part of the residual, or after so many steps.
const INNER: f64 = 1e-10;
const MOST_INNER: usize = 200;

/// At the mode a step promises to raise J by no more than that part of it, or by little that the step before
/// did not make any less: that is rounding.
const STILL: f64 = 1e-18;
const LITTLE: f64 = 1e-9;
const LESS: f64 = 0.1;

/// What is known of f but for the kernel: how targets are made, and what they are.
pub(super) struct Observed<'a> {
    pub operator: &'a ObservationOperator,
    pub family: &'a Family,
    pub counts: &'a [f64],
    /// Of each target, 0 for none.
    pub dispersions: Vec<f64>,
    /// β if it is given.
    pub given: Option<f64>,
    /// Where the search begins: the rate that all rows have alike.
    pub level: f64,
}

/// β and v, or a direction in which they move.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub beta: f64,
    pub v: Vec<f64>,
}

/// What f is at a place, and what counts say of it there.
pub(super) struct Here {
    pub place: Place,
    /// Coefficients of the points, `L⁻ᵀv`.
    pub alpha: Vec<f64>,
    /// By membership: f.
    f: Vec<f64>,
    /// Of targets the sums, and of rests.
    pub sums: Vec<[f64; 2]>,
    pub said: Vec<Said>,
    /// J.
    pub value: f64,
}

/// How J bends there.
pub(super) struct Bend {
    /// By membership: D without B, and the same of second derivatives.
    pub slopes: Vec<f64>,
    pub bends: Vec<f64>,
    /// The latter times what the targets of its bag say of it: the diagonal of the log likelihood's second
    /// derivatives.
    curve: Vec<f64>,
    /// Of targets ψ, points × targets, and the sums of D.
    pub psi: Matrix,
    pub ones: Vec<f64>,
    /// `Λ - I`, and Λ.
    pub told: Matrix,
    pub lambda: Cholesky,
    /// Where β is learnt: `Λ⁻¹` of its column of the augmented Λ, and what is left of its diagonal without
    /// that.
    border: Option<(Vec<f64>, f64)>,
}

/// The mode.
pub(super) struct Mode {
    pub here: Here,
    pub bend: Bend,
    /// The approximation of the logarithm of the evidence.
    pub value: f64,
    /// Steps taken.
    pub steps: usize,
}

impl Place {
    fn dot(&self, other: &Self) -> f64 {
        self.beta * other.beta + dot(&self.v, &other.v)
    }

    fn moved(&self, times: f64, by: &Self) -> Self {
        let v = self.v.iter().zip(&by.v).map(|(v, b)| v + times * b).collect();
        Self { beta: self.beta + times * by.beta, v }
    }
}

/// `L⁻ᵀv`.
pub(super) fn upper(factor: &Cholesky, v: &[f64]) -> Vec<f64> {
    let mut column = Matrix::column_vector(v.to_vec());
    factor.solve_upper_in_place(&mut column);
    column.data().to_vec()
}

/// `L⁻¹v`.
pub(super) fn lower(factor: &Cholesky, v: &[f64]) -> Vec<f64> {
    let mut column = Matrix::column_vector(v.to_vec());
    factor.solve_lower_in_place(&mut column);
    column.data().to_vec()
}

/// `Bᵀ of_bags`, and `B of_targets`, of vectors.
pub(super) fn to_targets(operator: &ObservationOperator, of_bags: Vec<f64>) -> Vec<f64> {
    operator.transpose_times(&Matrix::column_vector(of_bags)).data().to_vec()
}

pub(super) fn to_bags(operator: &ObservationOperator, of_targets: Vec<f64>) -> Vec<f64> {
    operator.times(&Matrix::column_vector(of_targets)).data().to_vec()
}

impl Observed<'_> {
    /// Everything but derivatives.
    fn at(&self, cross: &Cross<'_>, factor: &Cholesky, place: Place) -> Result<Here> {
        let alpha = upper(factor, &place.v);
        let (f, rows) = (cross.values(place.beta, &alpha)?, cross.rows);
        let mut of_bags = Matrix::zeros(rows.bags(), 2);
        for b in 0..rows.bags() {
            for i in rows.range(b) {
                let (weight, part) = (rows.weights[i], self.family.part(f[i]));
                of_bags[(b, 0)] += weight * part.of;
                of_bags[(b, 1)] += weight * part.rest;
            }
        }
        let sums = self.operator.transpose_times(&of_bags);
        let sums: Vec<[f64; 2]> = (0..sums.rows()).map(|t| [sums[(t, 0)], sums[(t, 1)]]).collect();
        let said = |(t, z): (usize, &f64)| {
            let [g, rest] = sums[t];
            self.family.said(t, *z, self.dispersions[t], g, rest)
        };
        let said: Vec<Said> = self.counts.iter().enumerate().map(said).collect();
        let value = said.iter().map(|s| s.value).sum::<f64>() - 0.5 * dot(&place.v, &place.v);
        Ok(Here { place, alpha, f, sums, said, value })
    }

    /// First and second derivatives. Cost a pass over the kernel, O(targets points²) and O(points³).
    fn bend(&self, cross: &Cross<'_>, factor: &Cholesky, here: &Here) -> Result<Bend> {
        let (rows, said) = (cross.rows, &here.said);
        let by_bags = to_bags(self.operator, said.iter().map(|s| s.slope).collect());
        let (mut slopes, mut bends) = (vec![0.0; here.f.len()], vec![0.0; here.f.len()]);
        let (mut curve, mut ones) = (vec![0.0; here.f.len()], vec![0.0; rows.bags()]);
        for b in 0..rows.bags() {
            for i in rows.range(b) {
                let (weight, part) = (rows.weights[i], self.family.part(here.f[i]));
                (slopes[i], bends[i]) = (weight * part.slope, weight * part.bend);
                curve[i] = by_bags[b] * bends[i];
                ones[b] += slopes[i];
            }
        }
        // A row a target.
        let mut scaled = self.operator.transpose_times(&cross.sums(&slopes)?);
        factor.solve_lower_right(&mut scaled);
        let psi = scaled.transpose();
        for (t, own) in said.iter().enumerate() {
            let root = own.information.sqrt();
            scaled.row_mut(t).iter_mut().for_each(|v| *v *= root);
        }
        let (told, ones) = (scaled.gram_of_columns(), to_targets(self.operator, ones));
        let mut lambda = told.clone();
        lambda.add_diagonal(|_| 1.0);
        if lambda.data().iter().any(|v| !v.is_finite()) {
            let what = "what counts tell of the inducing points".into();
            return Err(Error::Overflow { what, remedy: "check the kernel's parameters and the weights" });
        }
        let lambda = Cholesky::new(lambda, "what counts tell of the inducing points")?;
        let border = self.given.is_none().then(|| {
            let by: Vec<f64> = ones.iter().zip(said).map(|(s, own)| s * own.information).collect();
            let column = psi.matvec(&by);
            let solved = lambda.solve_vector(&column);
            let left = dot(&by, &ones) - dot(&column, &solved);
            (solved, left.max(f64::MIN_POSITIVE))
        });
        Ok(Bend { slopes, bends, curve, psi, ones, told, lambda, border })
    }

    fn gradient(&self, here: &Here, bend: &Bend) -> Place {
        let slopes: Vec<f64> = here.said.iter().map(|s| s.slope).collect();
        let v = bend.psi.matvec(&slopes).iter().zip(&here.place.v).map(|(s, v)| s - v).collect();
        Place { beta: if self.given.is_some() { 0.0 } else { dot(&bend.ones, &slopes) }, v }
    }

    /// Minus the second derivatives of J, times a direction.
    fn curvature(
        &self,
        cross: &Cross<'_>,
        factor: &Cholesky,
        (here, bend): (&Here, &Bend),
        d: &Place,
    ) -> Result<Place> {
        let (own, all) = cross.weigh(&bend.curve, d.beta, &upper(factor, &d.v))?;
        let moved = bend.moved(d);
        let by: Vec<f64> = moved.iter().zip(&here.said).map(|(q, s)| q * s.bend).collect();
        let (own, told) = (lower(factor, &own), bend.psi.matvec(&by));
        let v = d.v.iter().zip(own).zip(told).map(|((d, own), told)| d - own - told).collect();
        let beta = if self.given.is_some() { 0.0 } else { -all - dot(&bend.ones, &by) };
        Ok(Place { beta, v })
    }

    /// `H⁻¹ right`, H minus the second derivatives; and whether H bent the wrong way, where the answer is
    /// worth nothing.
    pub fn solve(
        &self,
        cross: &Cross<'_>,
        factor: &Cholesky,
        at: (&Here, &Bend),
        right: &Place,
    ) -> Result<(Place, bool)> {
        let mut x = Place { beta: 0.0, v: vec![0.0; right.v.len()] };
        let mut residual = right.clone();
        let mut by = at.1.precondition(&residual);
        let (mut direction, mut size) = (by.clone(), residual.dot(&by));
        let end = INNER * INNER * size;
        for _ in 0..MOST_INNER {
            if size <= end || size <= f64::MIN_POSITIVE {
                break;
            }
            let bent = self.curvature(cross, factor, at, &direction)?;
            let curve = direction.dot(&bent);
            if curve.is_nan() || curve <= 0.0 {
                return Ok((x, true));
            }
            let step = size / curve;
            x = x.moved(step, &direction);
            residual = residual.moved(-step, &bent);
            by = at.1.precondition(&residual);
            let next = residual.dot(&by);
            direction = by.moved(next / size, &direction);
            size = next;
        }
        Ok((x, false))
    }

    /// The mode, from `from` or from where all rows have the same rate, whichever is better.
    pub fn mode(&self, cross: &Cross<'_>, factor: &Cholesky, from: Option<&Place>) -> Result<Mode> {
        let beta = self.given.unwrap_or(self.level);
        let mut here = self.at(cross, factor, Place { beta, v: vec![0.0; cross.points.rows()] })?;
        if let Some(from) = from {
            let other = self.at(cross, factor, from.clone())?;
            if other.value > here.value {
                here = other;
            }
        }
        if !here.value.is_finite() {
            let what = "the likelihood of the counts".into();
            return Err(Error::Overflow { what, remedy: "check the weights and the prior mean" });
        }
        let (mut steps, mut before) = (0, f64::INFINITY);
        loop {
            let bend = self.bend(cross, factor, &here)?;
            let gradient = self.gradient(&here, &bend);
            let (mut step, wrong) = self.solve(cross, factor, (&here, &bend), &gradient)?;
            if wrong {
                step = bend.precondition(&gradient);
            }
            let rise = gradient.dot(&step);
            let size = 1.0 + here.value.abs();
            let rounding = rise <= LITTLE * size && rise >= LESS * before;
            let last = steps == STEPS || rise.is_nan() || rise <= STILL * size || rounding;
            before = rise;
            let next = if last { None } else { self.line(cross, factor, &here, (&step, rise))? };
            let Some(next) = next else {
                let value = here.value - 0.5 * bend.lambda.log_det();
                return Ok(Mode { here, bend, value, steps });
            };
            (here, steps) = (next, steps + 1);
        }
    }

    /// As far along `step` as J rises enough; nothing where it does not to rounding.
    fn line(
        &self,
        cross: &Cross<'_>,
        factor: &Cholesky,
        here: &Here,
        (step, rise): (&Place, f64),
    ) -> Result<Option<Here>> {
        let mut times = 1.0;
        for _ in 0..HALVINGS {
            let next = self.at(cross, factor, here.place.moved(times, step))?;
            if next.value >= here.value + 1e-4 * times * rise {
                return Ok(Some(next));
            }
            // Nothing is to be seen of so small a rise.
            if times * rise < 1e-14 * (1.0 + here.value.abs()) {
                let same = (next.value - here.value).abs() < 1e-13 * (1.0 + here.value.abs());
                return Ok((same && times == 1.0).then_some(next));
            }
            times *= 0.5;
        }
        Ok(None)
    }
}

impl Bend {
    /// By how much the sums of targets move along a direction.
    pub fn moved(&self, d: &Place) -> Vec<f64> {
        let mut out: Vec<f64> = self.ones.iter().map(|s| s * d.beta).collect();
        for (k, v) in d.v.iter().enumerate() {
            out.iter_mut().zip(self.psi.row(k)).for_each(|(o, p)| *o += v * p);
        }
        out
    }

    /// The inverse of the augmented Λ, times a direction.
    pub fn precondition(&self, d: &Place) -> Place {
        let v = self.lambda.solve_vector(&d.v);
        let Some((border, left)) = &self.border else { return Place { beta: 0.0, v } };
        // The border is Λ⁻¹ of the column.
        let beta = (d.beta - dot(border, &d.v)) / left;
        Place { beta, v: v.iter().zip(border).map(|(v, b)| v - beta * b).collect() }
    }

    /// Of targets the variances of their sums g, as by the augmented Λ.
    pub fn variances(&self) -> Vec<f64> {
        let mut half = self.psi.clone();
        self.lambda.solve_lower_in_place(&mut half);
        let mut out = vec![0.0; self.ones.len()];
        for k in 0..half.rows() {
            out.iter_mut().zip(half.row(k)).for_each(|(o, h)| *o += h * h);
        }
        if let Some((border, left)) = &self.border {
            let through = self.moved(&Place { beta: 0.0, v: border.clone() });
            let each = out.iter_mut().zip(&self.ones).zip(&through);
            each.for_each(|((o, s), t)| *o += (s - t) * (s - t) / left);
        }
        out
    }
}
