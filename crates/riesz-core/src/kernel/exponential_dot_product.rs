//! The exponential of an inner product: the kernel of multiplicative models, a sum of products of all orders.

use serde::{Deserialize, Serialize};

use super::linear::{CENTER, InnerProduct, SCALE, inner_product};
use super::polynomial::GAMMA;
use super::registry::{ArgumentField, ArgumentValues, FactorSchema};
use super::{ColumnRanges, Columns, Factor, KernelFactor, Parameter, RoundingBound};
use crate::simd::Isa;

/// `exp(gamma Σ_c (u_c - center_c)(v_c - center_c) / scale_c²)`, a product over columns c. It is positive
/// definite. A model with one support point β is `e^{β·v}`, a generalised linear model with a log link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExponentialDotProduct {
    /// The table's columns that the factor reads.
    pub columns: Vec<usize>,
    /// Centre that is subtracted from each column.
    pub center: Vec<f64>,
    /// Scale by which each column is divided.
    pub scale: Vec<f64>,
    /// Multiplier of the inner product, > 0.
    pub gamma: f64,
}

impl ExponentialDotProduct {
    pub(super) const DECLARED: &'static [&'static FactorSchema] = &[&FactorSchema {
        names: &["exponential_dot_product"],
        python: "ExponentialDotProduct",
        formula: "exp(gamma u·v)",
        categorical: false,
        arguments: &[GAMMA, CENTER, SCALE],
        make: from_arguments!(gamma, center, scale),
    }];

    inner_product!();
}

impl KernelFactor for ExponentialDotProduct {
    columns_and_arguments!(gamma, center, scale);

    fn multiply_column(&self, _: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        self.inner_product().multiply_column(slot, self.gamma, (u, v), f64::exp, out);
    }

    /// Exponents are summed before the exponential is taken, since partial products of exponentials could
    /// leave the range of doubles.
    fn multiply_all(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        self.inner_product().multiply_all((u, v), |term| self.gamma * term, f64::exp, out);
    }

    fn bounded(&self) -> bool {
        false
    }

    /// The absolute error of each exponent is six roundings; the relative error of an exponential is the
    /// absolute error of its exponent.
    fn precision(&self, slots: &[usize], ranges: &ColumnRanges) -> RoundingBound {
        let exponent_of = |&slot: &usize| {
            let [u, v] = ranges.max_distance_from(self.columns[slot], self.center[slot]);
            self.gamma * u * (v / (self.scale[slot] * self.scale[slot]))
        };
        let exponent: f64 = slots.iter().map(exponent_of).sum();
        let units = 6.1 * exponent + 4.0 * slots.len() as f64;
        // An exponential with a smaller exponent is subnormal.
        let tiny = if exponent < 700.0 { 0.0 } else { f64::MIN_POSITIVE };
        RoundingBound { units, per_log: 0.0, deepest: 0.0, top: exponent.min(700.0).exp(), tiny }
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter::logarithm(GAMMA.name, self.gamma)]
    }

    fn set_parameters(&mut self, log_values: &[f64]) {
        self.gamma = log_values[0].exp();
    }

    fn log_gradient(&self, u: Columns<'_>, v: &[f64], out: &mut [Vec<f64>]) {
        out[0].copy_from_slice(&self.inner_product().with_row(u, v, |term| self.gamma * term));
    }

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        let (columns, center, scale) = self.inner_product().restricted(kept);
        (!columns.is_empty()).then(|| Self { columns, center, scale, gamma: self.gamma }.into())
    }
}
