//! The linear factor: a sum of products of centered and scaled columns.

use serde::{Deserialize, Serialize};

use super::registry::{Argument, ArgumentField, ArgumentType, ArgumentValues, FactorSchema};
use super::{ColumnRanges, Columns, Factor, KernelFactor, Parameter, RoundingBound, Structure};
use crate::simd::Isa;

pub(super) const CENTER: Argument =
    Argument::new("center", ArgumentType::Centers, 0.0, "subtracted from each column");
pub(super) const SCALE: Argument =
    Argument::new("scale", ArgumentType::Scales, 1.0, "each column is divided by it");

/// `Σ_c (u_c - center_c)(v_c - center_c) / scale_c²`: a sum of one-column products, which the engines expand
/// into terms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Linear {
    /// The table's columns that the factor reads.
    pub columns: Vec<usize>,
    /// Centre that is subtracted from each column.
    pub center: Vec<f64>,
    /// Scale by which each column is divided.
    pub scale: Vec<f64>,
}

impl Linear {
    pub(super) const DECLARED: &'static [&'static FactorSchema] = &[&FactorSchema {
        names: &["linear"],
        python: "Linear",
        formula: "u·v",
        categorical: false,
        arguments: &[CENTER, SCALE],
        make: from_arguments!(center, scale),
    }];

    inner_product!();
}

/// The inner product of centered and scaled columns.
pub(super) struct InnerProduct<'f> {
    pub columns: &'f [usize],
    pub center: &'f [f64],
    pub scale: &'f [f64],
}

/// Defines the inner product of a factor's columns, with its centres and scales.
macro_rules! inner_product {
    () => {
        fn inner_product(&self) -> InnerProduct<'_> {
            InnerProduct { columns: &self.columns, center: &self.center, scale: &self.scale }
        }
    };
}
pub(super) use inner_product;

impl InnerProduct<'_> {
    /// The columns that `kept` accepts, with their centres and scales.
    pub fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> (Vec<usize>, Vec<f64>, Vec<f64>) {
        let slots: Vec<usize> = (0..self.columns.len()).filter(|&slot| kept(self.columns[slot])).collect();
        let select = |numbers: &[f64]| slots.iter().map(|&slot| numbers[slot]).collect();
        (slots.iter().map(|&slot| self.columns[slot]).collect(), select(self.center), select(self.scale))
    }

    /// `Σ_c term((u_ic - center_c)(v_c - center_c) / scale_c²)` for each row i of `u`.
    pub fn with_row(&self, u: Columns<'_>, v: &[f64], term: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut inner = vec![0.0; u.len()];
        for ((&j, c), s) in self.columns.iter().zip(self.center).zip(self.scale) {
            let slope = (v[j] - c) / (s * s);
            for (o, &x) in inner.iter_mut().zip(u.column(j)) {
                *o += term((x - c) * slope);
            }
        }
        inner
    }

    /// Multiplies `out[i]` by the function of the sum that [`with_row`](Self::with_row) returns for row i.
    pub fn multiply_all(
        &self,
        (u, v): (Columns<'_>, &[f64]),
        term: impl Fn(f64) -> f64,
        function: impl Fn(f64) -> f64,
        out: &mut [f64],
    ) {
        out.iter_mut().zip(self.with_row(u, v, term)).for_each(|(o, inner)| *o *= function(inner));
    }

    /// Multiplies `out[i]` by the function of `gamma` times the term of one column.
    pub fn multiply_column(
        &self,
        slot: usize,
        gamma: f64,
        (u, v): (&[f64], f64),
        function: impl Fn(f64) -> f64,
        out: &mut [f64],
    ) {
        let (center, scale) = (self.center[slot], self.scale[slot]);
        let slope = gamma * (v - center) / (scale * scale);
        for (o, &x) in out.iter_mut().zip(u) {
            *o *= function((x - center) * slope);
        }
    }

    /// Bound of the rounding error over the columns `columns[slot]`. Each term takes six roundings.
    pub fn precision(&self, slots: &[usize], ranges: &ColumnRanges) -> RoundingBound {
        let (mut top, mut tiny) = (0.0, 0.0);
        for &slot in slots {
            let [u, v] = ranges.max_distance_from(self.columns[slot], self.center[slot]);
            top += u * (v / (self.scale[slot] * self.scale[slot]));
            // The slope may be subnormal.
            tiny += 5e-324 * (1.0 + u);
        }
        RoundingBound { units: (6 + slots.len()) as f64, per_log: 0.0, deepest: 0.0, top, tiny }
    }
}

impl KernelFactor for Linear {
    columns_and_arguments!(center, scale);

    fn structure(&self) -> Structure {
        if self.columns.len() == 1 { Structure::Separable } else { Structure::Additive }
    }

    fn recenter(&mut self, center: &dyn Fn(usize) -> f64) {
        self.columns.iter().zip(&mut self.center).for_each(|(&j, column_center)| *column_center = center(j));
    }

    fn multiply_column(&self, _: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        self.inner_product().multiply_column(slot, 1.0, (u, v), |inner| inner, out);
    }

    fn multiply_all(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        self.inner_product().multiply_all((u, v), |term| term, |inner| inner, out);
    }

    fn bounded(&self) -> bool {
        false
    }

    fn cancels(&self) -> bool {
        self.columns.len() > 1
    }

    fn multiply_size(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        self.inner_product().multiply_all((u, v), f64::abs, |inner| inner, out);
    }

    fn precision(&self, slots: &[usize], ranges: &ColumnRanges) -> RoundingBound {
        self.inner_product().precision(slots, ranges)
    }

    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }

    fn set_parameters(&mut self, _: &[f64]) {}

    fn log_gradient(&self, _: Columns<'_>, _: &[f64], _: &mut [Vec<f64>]) {}

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        let (columns, center, scale) = self.inner_product().restricted(kept);
        Some(Self { columns, center, scale }.into())
    }
}
