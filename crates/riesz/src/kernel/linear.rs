//! The linear factor.

use serde::{Deserialize, Serialize};

use super::{Columns, Factor, FactorKind, Parameter, Structure};
use crate::error::{Error, Result};
use crate::simd::Isa;

/// `Σ_c (u_c - center_c)(v_c - center_c) / scale_c²` over its columns: a sum of one-column products, which the
/// engines take apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Linear {
    /// The table's columns it reads.
    pub columns: Vec<usize>,
    /// Subtracted from each column.
    pub center: Vec<f64>,
    /// Each column is divided by this.
    pub scale: Vec<f64>,
}

/// Checks the shift and scale that [`Linear`] and [`super::Polynomial`] share.
pub(super) fn validate_units(columns: &[usize], center: &[f64], scale: &[f64]) -> Result<()> {
    if center.len() != columns.len() || scale.len() != columns.len() {
        return Err(Error::Shape {
            what: "center and scale of the factor".into(),
            unit: "numbers",
            expected: columns.len(),
            found: center.len().min(scale.len()),
            why: "one a column of the factor".into(),
        });
    }
    if let Some(bad) = center.iter().find(|c| !c.is_finite()) {
        return Err(Error::parameter("center", bad, "centers are finite numbers"));
    }
    if let Some(bad) = scale.iter().find(|s| !(s.is_finite() && **s > 0.0)) {
        return Err(Error::parameter("scale", bad, "scales are positive numbers"));
    }
    Ok(())
}

/// Columns, shift and scale of the columns that are kept.
pub(super) fn restricted_units(
    columns: &[usize],
    center: &[f64],
    scale: &[f64],
    kept: &dyn Fn(usize) -> bool,
) -> (Vec<usize>, Vec<f64>, Vec<f64>) {
    let slots: Vec<usize> = (0..columns.len()).filter(|&slot| kept(columns[slot])).collect();
    let of = |numbers: &[f64]| slots.iter().map(|&slot| numbers[slot]).collect();
    (slots.iter().map(|&slot| columns[slot]).collect(), of(center), of(scale))
}

/// `out[i] += Σ_c (u_ic - center_c)(v_c - center_c) / scale_c²`.
pub(super) fn add_inner(
    columns: &[usize],
    center: &[f64],
    scale: &[f64],
    u: Columns<'_>,
    v: &[f64],
    out: &mut [f64],
) {
    for ((&j, c), s) in columns.iter().zip(center).zip(scale) {
        let slope = (v[j] - c) / (s * s);
        for (o, &x) in out.iter_mut().zip(u.column(j)) {
            *o += (x - c) * slope;
        }
    }
}

impl FactorKind for Linear {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn structure(&self) -> Structure {
        if self.columns.len() == 1 { Structure::Separable } else { Structure::Additive }
    }

    fn validate(&self) -> Result<()> {
        validate_units(&self.columns, &self.center, &self.scale)
    }

    fn multiply_column(&self, _: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        let (center, scale) = (self.center[slot], self.scale[slot]);
        let slope = (v - center) / (scale * scale);
        for (o, &x) in out.iter_mut().zip(u) {
            *o *= (x - center) * slope;
        }
    }

    fn multiply_all(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        let mut inner = vec![0.0; out.len()];
        add_inner(&self.columns, &self.center, &self.scale, u, v, &mut inner);
        for (o, i) in out.iter_mut().zip(&inner) {
            *o *= i;
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    fn set_parameters(&mut self, _: &[f64]) {}

    fn log_gradient(&self, _: Columns<'_>, _: &[f64], _: &mut [Vec<f64>]) {}

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        let (columns, center, scale) = restricted_units(&self.columns, &self.center, &self.scale, kept);
        Some(Factor::Linear(Self { columns, center, scale }))
    }

    fn formula(&self) -> String {
        "linear".into()
    }
}
