//! The polynomial factor: a power of an inner product plus a constant.

use serde::{Deserialize, Serialize};

use super::linear::{CENTER, InnerProduct, SCALE, inner_product};
use super::registry::{Argument, ArgumentType, ArgumentValues, DefaultValue, FactorSchema};
use super::{ColumnRanges, Columns, Factor, KernelFactor, Parameter, Power, RoundingBound, Structure};
use crate::simd::Isa;

const DEGREE: Argument =
    Argument::new("degree", ArgumentType::Whole(100), 3.0, "the power, a whole number up to 100");
pub(super) const GAMMA: Argument = Argument {
    ungiven: DefaultValue::OverColumns,
    ..Argument::new("gamma", ArgumentType::Positive, 1.0, "multiplies the inner product")
};
pub(super) const COEF0: Argument = Argument::new(
    "coef0",
    ArgumentType::Number,
    1.0,
    "added to the inner product; if negative, not positive definite",
);

/// `(gamma Σ_c (u_c - center_c)(v_c - center_c) / scale_c² + coef0)^degree`, a joint function of its columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Polynomial {
    /// The table's columns that the factor reads.
    pub columns: Vec<usize>,
    /// Centre that is subtracted from each column.
    pub center: Vec<f64>,
    /// Scale by which each column is divided.
    pub scale: Vec<f64>,
    /// Multiplier of the inner product, > 0.
    pub gamma: f64,
    /// Offset that is added to the scaled inner product. If it is negative, the kernel is not positive
    /// definite.
    pub coef0: f64,
    /// The power, ≥ 1.
    pub degree: u32,
}

impl Polynomial {
    pub(super) const DECLARED: &'static [&'static FactorSchema] = &[&FactorSchema {
        names: &["polynomial", "poly"],
        python: "Polynomial",
        formula: "(gamma u·v + coef0)^degree",
        categorical: false,
        arguments: &[DEGREE, GAMMA, COEF0, CENTER.in_python(""), SCALE.in_python("")],
        make: |columns, values| {
            vec![
                Self {
                    columns,
                    center: values.list(CENTER.name).to_vec(),
                    scale: values.list(SCALE.name).to_vec(),
                    gamma: values.number(GAMMA.name),
                    coef0: values.number(COEF0.name),
                    degree: values.number(DEGREE.name) as u32,
                }
                .into(),
            ]
        },
    }];

    inner_product!();
}

/// The parameters of a function of `gamma` times the inner product plus `coef0`, which is tuned if positive.
pub(super) fn gamma_and_coef0(gamma: f64, coef0: f64) -> Vec<Parameter> {
    let offset = (coef0 > 0.0).then(|| Parameter::logarithm(COEF0.name, coef0));
    std::iter::once(Parameter::logarithm(GAMMA.name, gamma)).chain(offset).collect()
}

/// Sets the parameters that [`gamma_and_coef0`] returns.
pub(super) fn set_gamma_and_coef0(gamma: &mut f64, coef0: &mut f64, log_values: &[f64]) {
    *gamma = log_values[0].exp();
    if let Some(v) = log_values.get(1) {
        *coef0 = v.exp();
    }
}

/// Writes the derivatives for the parameters that [`gamma_and_coef0`] returns. `log_derivative` is the
/// derivative of the factor's logarithm by `gamma · inner + coef0`.
pub(super) fn write_log_gradient(
    inner: Vec<f64>,
    (gamma, coef0): (f64, f64),
    log_derivative: impl Fn(f64) -> f64,
    out: &mut [Vec<f64>],
) {
    for (i, inner) in inner.into_iter().enumerate() {
        let over = log_derivative(gamma * inner + coef0);
        out[0][i] = over * gamma * inner;
        if coef0 > 0.0 {
            out[1][i] = over * coef0;
        }
    }
}

impl KernelFactor for Polynomial {
    columns_and_schema!();

    fn structure(&self) -> Structure {
        if self.columns.len() == 1 { Structure::Separable } else { Structure::Joint }
    }

    fn power(&self) -> Option<Power<'_>> {
        let Self { columns, center, scale, gamma, coef0: constant, degree } = self;
        Some(Power { columns, center, scale, gamma: *gamma, constant: *constant, degree: *degree })
    }

    fn values(&self) -> ArgumentValues {
        ArgumentValues(vec![
            (DEGREE.name, vec![f64::from(self.degree)]),
            (GAMMA.name, vec![self.gamma]),
            (COEF0.name, vec![self.coef0]),
            (CENTER.name, self.center.clone()),
            (SCALE.name, self.scale.clone()),
        ])
    }

    fn multiply_column(&self, _: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        let power = |inner: f64| (inner + self.coef0).powi(self.degree as i32);
        self.inner_product().multiply_column(slot, self.gamma, (u, v), power, out);
    }

    fn multiply_all(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        for (o, inner) in out.iter_mut().zip(self.inner_product().with_row(u, v, |term| term)) {
            *o *= (self.gamma * inner + self.coef0).powi(self.degree as i32);
        }
    }

    fn positive_definite(&self) -> bool {
        self.coef0 >= 0.0
    }

    fn bounded(&self) -> bool {
        false
    }

    fn cancels(&self) -> bool {
        true
    }

    fn multiply_size(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        for (o, inner) in out.iter_mut().zip(self.inner_product().with_row(u, v, f64::abs)) {
            *o *= (self.gamma * inner + self.coef0.abs()).powi(self.degree as i32);
        }
    }

    /// The bound of the base's rounding error, times the degree.
    fn precision(&self, slots: &[usize], reach: &ColumnRanges) -> RoundingBound {
        let inner = self.inner_product().precision(slots, reach);
        let (degree, base) = (f64::from(self.degree), self.gamma * inner.top + self.coef0.abs());
        let top = base.powi(self.degree as i32);
        // The tiny error of the base times the derivative of the power, plus the error of a subnormal power.
        let lost = degree * base.max(1.0).powi(self.degree as i32 - 1) * (self.gamma + 1.0) * inner.tiny;
        RoundingBound { units: degree * (inner.units + 4.0), top, tiny: lost + f64::MIN_POSITIVE, ..inner }
    }

    fn parameters(&self) -> Vec<Parameter> {
        gamma_and_coef0(self.gamma, self.coef0)
    }

    fn set_parameters(&mut self, log_values: &[f64]) {
        set_gamma_and_coef0(&mut self.gamma, &mut self.coef0, log_values);
    }

    fn log_gradient(&self, u: Columns<'_>, v: &[f64], out: &mut [Vec<f64>]) {
        let degree = f64::from(self.degree);
        let inner = self.inner_product().with_row(u, v, |term| term);
        // If the base is 0, the kernel is 0 and its derivative is taken as 0.
        let derivative = |base: f64| if base == 0.0 { 0.0 } else { degree / base };
        write_log_gradient(inner, (self.gamma, self.coef0), derivative, out);
    }

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        let (columns, center, scale) = self.inner_product().restricted(kept);
        Some(Self { columns, center, scale, ..self.clone() }.into())
    }

    fn roundings(&self) -> f64 {
        f64::from(self.degree) * (12 * self.columns.len() + 8) as f64
    }
}
