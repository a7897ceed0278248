//! The linear factor: a sum of products of centred and scaled columns.

use serde::{Deserialize, Serialize};

use super::registry::{Argument, ArgumentType, ArgumentValues, FactorSchema};
use super::{ColumnRanges, Columns, Factor, KernelFactor, Parameter, RoundingBound, Structure};
use crate::simd::Isa;

pub(super) const CENTER: Argument =
    Argument::new("center", ArgumentType::Centers, 0.0, "subtracted from each column");
pub(super) const SCALE: Argument =
    Argument::new("scale", ArgumentType::Scales, 1.0, "each column is divided by it");

/// `Σ_c (u_c - center_c)(v_c - center_c) / scale_c²` over its columns: a sum of one-column products, which
/// the engines take apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Linear {
    /// The table's columns it reads.
    pub columns: Vec<usize>,
    /// Subtracted from each column.
    pub center: Vec<f64>,
    /// Each column is divided by this.
    pub scale: Vec<f64>,
}

impl Linear {
    pub(super) const DECLARED: &'static [&'static FactorSchema] = &[&FactorSchema {
        names: &["linear"],
        python: "Linear",
        formula: "u·v",
        categorical: false,
        arguments: &[CENTER, SCALE],
        make: |columns, values| {
            let (center, scale) = (values.list(CENTER.name).to_vec(), values.list(SCALE.name).to_vec());
            vec![Self { columns, center, scale }.into()]
        },
    }];
}

/// Columns, shift and scale of the columns that are kept.
pub(super) fn restricted_units(
    columns: &[usize],
    center: &[f64],
    scale: &[f64],
    kept: &dyn Fn(usize) -> bool,
) -> (Vec<usize>, Vec<f64>, Vec<f64>) {
    let slots: Vec<usize> = (0..columns.len()).filter(|&slot| kept(columns[slot])).collect();
    let select = |numbers: &[f64]| slots.iter().map(|&slot| numbers[slot]).collect();
    (slots.iter().map(|&slot| columns[slot]).collect(), select(center), select(scale))
}

/// `out[i] += Σ_c term((u_ic - center_c)(v_c - center_c) / scale_c²)`.
pub(super) fn add_inner(
    columns: &[usize],
    center: &[f64],
    scale: &[f64],
    u: Columns<'_>,
    v: &[f64],
    term: impl Fn(f64) -> f64,
    out: &mut [f64],
) {
    for ((&j, c), s) in columns.iter().zip(center).zip(scale) {
        let slope = (v[j] - c) / (s * s);
        for (o, &x) in out.iter_mut().zip(u.column(j)) {
            *o += term((x - c) * slope);
        }
    }
}

/// Bound of the rounding error of an inner product over the columns with these slots. Each term takes six
/// roundings.
pub(super) fn inner_precision(
    columns: &[usize],
    center: &[f64],
    scale: &[f64],
    slots: &[usize],
    reach: &ColumnRanges,
) -> RoundingBound {
    let (mut top, mut tiny) = (0.0, 0.0);
    for &slot in slots {
        let [u, v] = reach.max_distance_from(columns[slot], center[slot]);
        top += u * (v / (scale[slot] * scale[slot]));
        // A slope that is subnormal.
        tiny += 5e-324 * (1.0 + u);
    }
    RoundingBound { units: (6 + slots.len()) as f64, per_log: 0.0, deepest: 0.0, top, tiny }
}

impl KernelFactor for Linear {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn structure(&self) -> Structure {
        if self.columns.len() == 1 { Structure::Separable } else { Structure::Additive }
    }

    fn declaration(&self) -> &'static FactorSchema {
        Self::DECLARED[0]
    }

    fn recenter(&mut self, center: &dyn Fn(usize) -> f64) {
        self.columns.iter().zip(&mut self.center).for_each(|(&j, column_center)| *column_center = center(j));
    }

    fn values(&self) -> ArgumentValues {
        ArgumentValues(vec![(CENTER.name, self.center.clone()), (SCALE.name, self.scale.clone())])
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
        add_inner(&self.columns, &self.center, &self.scale, u, v, |term| term, &mut inner);
        for (o, i) in out.iter_mut().zip(&inner) {
            *o *= i;
        }
    }

    fn bounded(&self) -> bool {
        false
    }

    fn cancels(&self) -> bool {
        self.columns.len() > 1
    }

    fn multiply_size(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        let mut inner = vec![0.0; out.len()];
        add_inner(&self.columns, &self.center, &self.scale, u, v, f64::abs, &mut inner);
        out.iter_mut().zip(&inner).for_each(|(o, i)| *o *= i);
    }

    fn precision(&self, slots: &[usize], reach: &ColumnRanges) -> RoundingBound {
        inner_precision(&self.columns, &self.center, &self.scale, slots, reach)
    }

    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    fn set_parameters(&mut self, _: &[f64]) {}

    fn log_gradient(&self, _: Columns<'_>, _: &[f64], _: &mut [Vec<f64>]) {}

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        let (columns, center, scale) = restricted_units(&self.columns, &self.center, &self.scale, kept);
        Some(Self { columns, center, scale }.into())
    }
}
