//! The exponential of an inner product, a sum of products of all orders: the kernel of multiplicative
//! models.

use serde::{Deserialize, Serialize};

use super::linear::{CENTER, SCALE, add_inner, restricted_units};
use super::polynomial::GAMMA;
use super::registry::{ArgumentValues, FactorSchema};
use super::{ColumnRanges, Columns, Factor, KernelFactor, Parameter, RoundingBound, Structure};
use crate::simd::Isa;

/// `exp(gamma Σ_c (u_c - center_c)(v_c - center_c) / scale_c²)`: a product over columns, and positive
/// definite. With one support point β it is `e^{β·v}`, a generalised linear model with a log link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExponentialDotProduct {
    /// The table's columns it reads.
    pub columns: Vec<usize>,
    /// Subtracted from each column.
    pub center: Vec<f64>,
    /// Each column is divided by this.
    pub scale: Vec<f64>,
    /// Multiplies the inner product, > 0.
    pub gamma: f64,
}

impl ExponentialDotProduct {
    pub(super) const DECLARED: &'static [&'static FactorSchema] = &[&FactorSchema {
        names: &["exponential_dot_product"],
        python: "ExponentialDotProduct",
        formula: "exp(gamma u·v)",
        categorical: false,
        arguments: &[GAMMA, CENTER, SCALE],
        make: |columns, values| {
            let (center, scale) = (values.list(CENTER.name).to_vec(), values.list(SCALE.name).to_vec());
            vec![Self { columns, center, scale, gamma: values.number(GAMMA.name) }.into()]
        },
    }];
}

impl KernelFactor for ExponentialDotProduct {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn structure(&self) -> Structure {
        Structure::Separable
    }

    fn declaration(&self) -> &'static FactorSchema {
        Self::DECLARED[0]
    }

    fn values(&self) -> ArgumentValues {
        ArgumentValues(vec![
            (GAMMA.name, vec![self.gamma]),
            (CENTER.name, self.center.clone()),
            (SCALE.name, self.scale.clone()),
        ])
    }

    fn multiply_column(&self, _: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        let (center, scale) = (self.center[slot], self.scale[slot]);
        let slope = self.gamma * (v - center) / (scale * scale);
        for (o, &x) in out.iter_mut().zip(u) {
            *o *= ((x - center) * slope).exp();
        }
    }

    /// Exponents are summed up, as products of their exponentials would leave the range of doubles on the
    /// way.
    fn multiply_all(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        let mut exponent = vec![0.0; out.len()];
        add_inner(&self.columns, &self.center, &self.scale, u, v, |term| self.gamma * term, &mut exponent);
        out.iter_mut().zip(exponent).for_each(|(o, e)| *o *= e.exp());
    }

    fn bounded(&self) -> bool {
        false
    }

    /// The absolute error of each exponent is six roundings; the relative error of an exponential is the
    /// absolute error of its exponent.
    fn precision(&self, slots: &[usize], reach: &ColumnRanges) -> RoundingBound {
        let exponent_of = |&slot: &usize| {
            let [u, v] = reach.max_distance_from(self.columns[slot], self.center[slot]);
            self.gamma * u * (v / (self.scale[slot] * self.scale[slot]))
        };
        let exponent: f64 = slots.iter().map(exponent_of).sum();
        let units = 6.1 * exponent + 4.0 * slots.len() as f64;
        // Below lie subnormal numbers.
        let tiny = if exponent < 700.0 { 0.0 } else { f64::MIN_POSITIVE };
        RoundingBound { units, per_log: 0.0, deepest: 0.0, top: exponent.min(700.0).exp(), tiny }
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter { name: GAMMA.name.into(), log_value: self.gamma.ln() }]
    }

    fn set_parameters(&mut self, log_values: &[f64]) {
        self.gamma = log_values[0].exp();
    }

    fn log_gradient(&self, u: Columns<'_>, v: &[f64], out: &mut [Vec<f64>]) {
        out[0].fill(0.0);
        add_inner(&self.columns, &self.center, &self.scale, u, v, |term| self.gamma * term, &mut out[0]);
    }

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        let (columns, center, scale) = restricted_units(&self.columns, &self.center, &self.scale, kept);
        (!columns.is_empty()).then(|| Self { columns, center, scale, gamma: self.gamma }.into())
    }
}
