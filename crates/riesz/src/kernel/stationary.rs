//! Stationary factors: a profile of the scaled distance, per column or over all columns jointly.

use serde::{Deserialize, Serialize};

use super::profile::{PROFILES, Profile, Shape, with_shape};
use super::registry::{Argument, Declaration, Takes, Values};
use super::{Columns, Factor, FactorKind, Parameter, Structure};
use crate::random::Random;
use crate::simd::{Isa, Simd, dispatch, fma};

pub(super) const LENGTHSCALE: Argument = Argument::new(
    "lengthscale",
    Takes::Lengthscales,
    1.0,
    "in units of the columns' scale, or by a rule: median, median_per_feature, scale, auto",
)
.in_python("length_scale");
pub(super) const ARD: Argument =
    Argument::new("ard", Takes::Flag, 0.0, "tune the length scales of the columns one by one").in_python("");
pub(super) const ISOTROPIC: Argument =
    Argument::new("isotropic", Takes::Flag, 0.0, "one distance over all columns, which it ties together")
        .in_python("");

/// A factor of this profile.
pub(super) fn make(profile: Profile, columns: Vec<usize>, values: &Values) -> Vec<Factor> {
    let lengthscale = values.list(LENGTHSCALE.name).to_vec();
    let (ard, isotropic) = (values.flag(ARD.name), values.flag(ISOTROPIC.name));
    vec![Stationary { profile, columns, lengthscale, ard, isotropic }.into()]
}

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
    pub(super) const DECLARED: &'static [&'static Declaration] = PROFILES;

    fn joint(&self) -> bool {
        self.isotropic && self.columns.len() > 1 && !self.profile.radial()
    }
}

impl FactorKind for Stationary {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn structure(&self) -> Structure {
        if self.joint() { Structure::Joint } else { Structure::Separable }
    }

    fn declaration(&self) -> &'static Declaration {
        self.profile.declaration()
    }

    fn values(&self) -> Values {
        let mut all = vec![(LENGTHSCALE.name, self.lengthscale.clone())];
        all.extend(self.profile.parameters().into_iter().map(|(name, value)| (name, vec![value])));
        let flags = [(ARD.name, self.ard), (ISOTROPIC.name, self.isotropic)];
        all.extend(flags.map(|(name, flag)| (name, vec![f64::from(u8::from(flag))])));
        Values(all)
    }

    fn multiply_column(&self, isa: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        let inverse = 1.0 / self.lengthscale[slot];
        with_shape!(self.profile, shape => column(isa, shape, u, v, inverse, out));
    }

    fn multiply_all(&self, isa: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        if self.joint() || self.profile.radial() && self.columns.len() > 1 {
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
        let own = self.profile.parameters().into_iter();
        all.extend(own.map(|(name, value)| Parameter { name: name.into(), log_value: value.ln() }));
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
        let own = self.profile.parameters_mut();
        let from = log_values.len().saturating_sub(own.len());
        own.into_iter().zip(&log_values[from..]).for_each(|(p, v)| *p = v.exp());
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
        for (p, out) in out[lengths..].iter_mut().enumerate() {
            with_shape!(self.profile, shape => for (i, o) in out.iter_mut().enumerate() {
                let squares = scaled.iter().map(|c| c[i] * c[i]);
                let slope = |s| shape.parameter_slope(p, s);
                *o = if self.joint() { slope(squares.sum()) } else { squares.map(slope).sum() };
            });
        }
    }

    fn least(&self, delta: &[f64]) -> Option<f64> {
        Some(self.apart(delta))
    }

    fn frequency(&self, slot: usize, random: &mut Random) -> Option<f64> {
        let drawn = with_shape!(self.profile, shape => shape.frequency(random));
        drawn.filter(|_| !self.joint()).map(|w| w / self.lengthscale[slot])
    }

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        let all = self.columns.iter().zip(&self.lengthscale).filter(|(j, _)| kept(**j));
        let (columns, lengthscale): (Vec<usize>, Vec<f64>) = all.unzip();
        (!columns.is_empty()).then(|| Self { columns, lengthscale, ..self.clone() }.into())
    }

    fn formula(&self) -> String {
        self.declaration().written(&self.values(), if self.joint() { ISOTROPIC.name } else { "" })
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
