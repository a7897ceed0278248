//! Stationary factors: a profile of the scaled distance, per column or over all columns jointly.

use serde::{Deserialize, Serialize};

use super::profile::{Profile, Shape, with_shape};
use super::{Columns, Factor, FactorKind, Parameter, Structure};
use crate::error::{Error, Result};
use crate::simd::{Simd, dispatch, fma};

/// `Π_c g(|u_c - v_c| / ℓ_c)` over its columns, or with `isotropic`, `g(√Σ_c (u_c - v_c)² / ℓ_c²)`.
///
/// The Gaussian profile is both at once. The other isotropic forms (Matérn and rational quadratic as
/// scikit-learn defines them) tie their columns together and have no product form over several players.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stationary {
    /// The profile g.
    #[serde(flatten)]
    pub profile: Profile,
    /// The table's columns it reads.
    pub columns: Vec<usize>,
    /// ℓ_c, one a column, in the column's units.
    pub lengthscale: Vec<f64>,
    /// Whether the length scales are tuned one by one (automatic relevance determination) or by a common multiple.
    pub ard: bool,
    /// Whether distance is taken over all columns jointly.
    pub isotropic: bool,
}

impl Stationary {
    fn joint(&self) -> bool {
        self.isotropic && self.columns.len() > 1 && self.profile != Profile::Gaussian
    }
}

impl FactorKind for Stationary {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn structure(&self) -> Structure {
        if self.joint() { Structure::Joint } else { Structure::Separable }
    }

    fn validate(&self) -> Result<()> {
        if self.lengthscale.len() != self.columns.len() {
            return Err(Error::Shape {
                what: "lengthscale".into(),
                unit: "numbers",
                expected: self.columns.len(),
                found: self.lengthscale.len(),
                why: "one a column of the factor".into(),
            });
        }
        if let Some(bad) = self.lengthscale.iter().find(|l| !(l.is_finite() && **l > 0.0)) {
            return Err(Error::parameter("lengthscale", bad, "length scales are positive numbers"));
        }
        match self.profile {
            Profile::RationalQuadratic { alpha } if !(alpha.is_finite() && alpha > 0.0) => {
                Err(Error::parameter("alpha", alpha, "the rational quadratic's alpha is a positive number"))
            }
            _ => Ok(()),
        }
    }

    fn multiply_column(&self, isa: crate::simd::Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        let inverse = 1.0 / self.lengthscale[slot];
        with_shape!(self.profile, shape => column(isa, shape, u, v, inverse, out));
    }

    fn multiply_all(&self, isa: crate::simd::Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        if self.joint() || self.profile == Profile::Gaussian && self.columns.len() > 1 {
            // Squared distances first, then the profile once.
            let mut square = vec![0.0; out.len()];
            for (&j, l) in self.columns.iter().zip(&self.lengthscale) {
                add_square(isa, u.column(j), v[j], 1.0 / l, &mut square);
            }
            with_shape!(self.profile, shape => of_square(isa, shape, &square, out));
        } else {
            for (slot, &j) in self.columns.iter().enumerate() {
                self.multiply_column(isa, slot, u.column(j), v[j], out);
            }
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut all = Vec::new();
        if self.ard {
            all.extend(
                self.columns
                    .iter()
                    .zip(&self.lengthscale)
                    .map(|(j, &l)| Parameter { name: format!("lengthscale[{j}]"), log_value: l.ln() }),
            );
        } else if let Some(&l) = self.lengthscale.first() {
            all.push(Parameter { name: "lengthscale".into(), log_value: l.ln() });
        }
        if let Profile::RationalQuadratic { alpha } = self.profile {
            all.push(Parameter { name: "alpha".into(), log_value: alpha.ln() });
        }
        all
    }

    fn set_parameters(&mut self, log_values: &[f64]) {
        if self.ard {
            for (l, v) in self.lengthscale.iter_mut().zip(log_values) {
                *l = v.exp();
            }
        } else if let Some(&first) = self.lengthscale.first() {
            let ratio = log_values[0].exp() / first;
            for l in &mut self.lengthscale {
                *l *= ratio;
            }
        }
        if let (Profile::RationalQuadratic { alpha }, Some(v)) = (&mut self.profile, log_values.last()) {
            *alpha = v.exp();
        }
    }

    fn log_gradient(&self, u: Columns<'_>, v: &[f64], out: &mut [Vec<f64>]) {
        let n = u.len();
        let lengths = if self.ard { self.columns.len() } else { usize::from(!self.columns.is_empty()) };
        let scaled: Vec<Vec<f64>> = self
            .columns
            .iter()
            .zip(&self.lengthscale)
            .map(|(&j, l)| u.column(j).iter().map(|x| ((x - v[j]) / l).abs()).collect())
            .collect();
        for o in out.iter_mut() {
            o.fill(0.0);
        }
        with_shape!(self.profile, shape => for i in 0..n {
            if self.joint() {
                let square: f64 = scaled.iter().map(|c| c[i] * c[i]).sum();
                let slope = if square > 0.0 { shape.slope(square.sqrt()) / square } else { 0.0 };
                for (slot, c) in scaled.iter().enumerate() {
                    out[if self.ard { slot } else { 0 }][i] += slope * c[i] * c[i];
                }
            } else {
                for (slot, c) in scaled.iter().enumerate() {
                    out[if self.ard { slot } else { 0 }][i] += shape.slope(c[i]);
                }
            }
        });
        if let Profile::RationalQuadratic { alpha } = self.profile {
            let of = |s: f64| {
                let q = s / (2.0 * alpha);
                alpha * (q / (1.0 + q) - q.ln_1p())
            };
            for i in 0..n {
                let squares = scaled.iter().map(|c| c[i] * c[i]);
                out[lengths][i] = if self.joint() { of(squares.sum()) } else { squares.map(of).sum() };
            }
        }
    }

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        let all = self.columns.iter().zip(&self.lengthscale).filter(|(j, _)| kept(**j));
        let (columns, lengthscale): (Vec<usize>, Vec<f64>) = all.unzip();
        (!columns.is_empty()).then(|| Factor::Stationary(Self { columns, lengthscale, ..self.clone() }))
    }

    fn formula(&self) -> String {
        let span = |l: &[f64]| {
            let (low, high) = l.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &x| (a.min(x), b.max(x)));
            if low == high { format!("{low:.4}") } else { format!("{low:.4}…{high:.4}") }
        };
        let joint = if self.joint() { ", isotropic" } else { "" };
        let alpha = match self.profile {
            Profile::RationalQuadratic { alpha } => format!(", alpha={alpha:.4}"),
            _ => String::new(),
        };
        format!("{}(lengthscale={}{alpha}{joint})", self.profile.name(), span(&self.lengthscale))
    }
}

#[inline(always)]
fn column_body<V: Simd, S: Shape>(shape: S, u: &[f64], v: f64, inverse: f64, out: &mut [f64]) {
    for (o, &x) in out.iter_mut().zip(u) {
        *o *= shape.at_distance::<V>(((x - v) * inverse).abs());
    }
}

#[inline(always)]
fn add_square_body<V: Simd>(u: &[f64], v: f64, inverse: f64, out: &mut [f64]) {
    for (o, &x) in out.iter_mut().zip(u) {
        let r = (x - v) * inverse;
        *o = fma::<V>(r, r, *o);
    }
}

#[inline(always)]
fn of_square_body<V: Simd, S: Shape>(shape: S, square: &[f64], out: &mut [f64]) {
    for (o, &s) in out.iter_mut().zip(square) {
        *o *= shape.at_square::<V>(s);
    }
}

dispatch! {
    fn column[S: Shape](shape: S, u: &[f64], v: f64, inverse: f64, out: &mut [f64]) = column_body::<V, S>
}
dispatch! {
    fn add_square(u: &[f64], v: f64, inverse: f64, out: &mut [f64]) = add_square_body::<V>
}
dispatch! {
    fn of_square[S: Shape](shape: S, square: &[f64], out: &mut [f64]) = of_square_body::<V, S>
}
