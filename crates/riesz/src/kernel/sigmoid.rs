//! The sigmoid factor, which is not positive definite.

use serde::{Deserialize, Serialize};

use super::linear::{CENTER, SCALE, add_inner, inner_precision, restricted_units};
use super::polynomial::{COEF0, GAMMA};
use super::registry::{Argument, ArgumentValues, FactorSchema};
use super::{ColumnRanges, Columns, Factor, KernelFactor, Parameter, RoundingBound, Structure};
use crate::simd::Isa;

/// LIBSVM's and scikit-learn's default.
const OFFSET: Argument = Argument { default: 0.0, ..COEF0 };

/// `tanh(gamma Σ_c (u_c - center_c)(v_c - center_c) / scale_c² + coef0)`, which ties its columns together and
/// is not positive definite: LIBSVM and scikit-learn fit support vector machines with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sigmoid {
    /// The table's columns it reads.
    pub columns: Vec<usize>,
    /// Subtracted from each column.
    pub center: Vec<f64>,
    /// Each column is divided by this.
    pub scale: Vec<f64>,
    /// Multiplies the inner product, > 0.
    pub gamma: f64,
    /// Added to it.
    pub coef0: f64,
}

impl Sigmoid {
    pub(super) const DECLARED: &'static [&'static FactorSchema] = &[&FactorSchema {
        names: &["sigmoid"],
        python: "Sigmoid",
        formula: "tanh(gamma u·v + coef0)",
        categorical: false,
        arguments: &[GAMMA, OFFSET, CENTER.in_python(""), SCALE.in_python("")],
        make: |columns, values| {
            vec![
                Self {
                    columns,
                    center: values.list(CENTER.name).to_vec(),
                    scale: values.list(SCALE.name).to_vec(),
                    gamma: values.number(GAMMA.name),
                    coef0: values.number(OFFSET.name),
                }
                .into(),
            ]
        },
    }];

    /// The inner products of the rows of `u` with `v`, of whose terms `term` is taken.
    fn inner(&self, u: Columns<'_>, v: &[f64], term: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut inner = vec![0.0; u.len()];
        add_inner(&self.columns, &self.center, &self.scale, u, v, term, &mut inner);
        inner
    }
}

impl KernelFactor for Sigmoid {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn structure(&self) -> Structure {
        if self.columns.len() == 1 { Structure::Separable } else { Structure::Joint }
    }

    fn declaration(&self) -> &'static FactorSchema {
        Self::DECLARED[0]
    }

    fn values(&self) -> ArgumentValues {
        ArgumentValues(vec![
            (GAMMA.name, vec![self.gamma]),
            (OFFSET.name, vec![self.coef0]),
            (CENTER.name, self.center.clone()),
            (SCALE.name, self.scale.clone()),
        ])
    }

    fn positive_definite(&self) -> bool {
        false
    }

    fn multiply_column(&self, _: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        let (center, scale) = (self.center[slot], self.scale[slot]);
        let slope = self.gamma * (v - center) / (scale * scale);
        for (o, &x) in out.iter_mut().zip(u) {
            *o *= ((x - center) * slope + self.coef0).tanh();
        }
    }

    fn multiply_all(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        for (o, inner) in out.iter_mut().zip(self.inner(u, v, |term| term)) {
            *o *= (self.gamma * inner + self.coef0).tanh();
        }
    }

    /// False: the factor is bounded, but its size, in which terms do not cancel, is not.
    fn bounded(&self) -> bool {
        false
    }

    fn cancels(&self) -> bool {
        true
    }

    fn cancels_by_column(&self) -> bool {
        true
    }

    fn multiply_column_size(&self, _: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        let (center, scale) = (self.center[slot], self.scale[slot]);
        let slope = self.gamma * ((v - center) / (scale * scale)).abs();
        for (o, &x) in out.iter_mut().zip(u) {
            *o *= (x - center).abs() * slope + self.coef0.abs();
        }
    }

    /// `|tanh z| ≤ |z|`, and an error of z is no smaller than that of its hyperbolic tangent.
    fn multiply_size(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        for (o, inner) in out.iter_mut().zip(self.inner(u, v, f64::abs)) {
            *o *= self.gamma * inner + self.coef0.abs();
        }
    }

    fn precision(&self, slots: &[usize], reach: &ColumnRanges) -> RoundingBound {
        let inner = inner_precision(&self.columns, &self.center, &self.scale, slots, reach);
        let top = self.gamma * inner.top + self.coef0.abs();
        let tiny = (self.gamma + 1.0) * inner.tiny + f64::MIN_POSITIVE;
        RoundingBound { units: inner.units + 8.0, top, tiny, ..inner }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = vec![Parameter { name: GAMMA.name.into(), log_value: self.gamma.ln() }];
        if self.coef0 > 0.0 {
            parameters.push(Parameter { name: OFFSET.name.into(), log_value: self.coef0.ln() });
        }
        parameters
    }

    fn set_parameters(&mut self, log_values: &[f64]) {
        self.gamma = log_values[0].exp();
        if let Some(v) = log_values.get(1) {
            self.coef0 = v.exp();
        }
    }

    fn log_gradient(&self, u: Columns<'_>, v: &[f64], out: &mut [Vec<f64>]) {
        for (i, inner) in self.inner(u, v, |term| term).into_iter().enumerate() {
            let value = (self.gamma * inner + self.coef0).tanh();
            // Where the kernel is 0, so is its product with this logarithmic derivative taken to be.
            let over = if value == 0.0 { 0.0 } else { (1.0 - value * value) / value };
            out[0][i] = over * self.gamma * inner;
            if self.coef0 > 0.0 {
                out[1][i] = over * self.coef0;
            }
        }
    }

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        let (columns, center, scale) = restricted_units(&self.columns, &self.center, &self.scale, kept);
        Some(Self { columns, center, scale, ..self.clone() }.into())
    }

    fn roundings(&self) -> f64 {
        (12 * self.columns.len() + 8) as f64
    }
}
