//! The polynomial factor: a power of an inner product plus a constant.

use serde::{Deserialize, Serialize};

use super::linear::{CENTER, InnerProduct, SCALE, inner_product};
use super::registry::{Argument, ArgumentField, ArgumentType, ArgumentValues, DefaultValue, FactorSchema};
use super::{ColumnRanges, Columns, Factor, KernelFactor, Parameter, RoundingBound, Structure};
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
        make: from_arguments!(degree, gamma, coef0, center, scale),
    }];

    inner_product!();

    fn value(&self, base: f64) -> f64 {
        base.powi(self.degree as i32)
    }

    fn size(&self, base: f64) -> f64 {
        self.value(base)
    }

    /// If the base is 0, the kernel is 0 and its derivative is taken as 0.
    fn log_derivative(&self, base: f64) -> f64 {
        if base == 0.0 { 0.0 } else { f64::from(self.degree) / base }
    }
}

/// Implements what functions of `z = gamma · inner product + coef0` have in common. `value(z)` is the
/// function, `log_derivative(z)` the derivative of its logarithm, and `size(z)` its size if z is a sum of
/// absolute values.
macro_rules! function_of_inner_product {
    () => {
        fn structure(&self) -> Structure {
            if self.columns.len() == 1 { Structure::Separable } else { Structure::Joint }
        }

        fn multiply_column(&self, _: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
            let value = |inner: f64| self.value(inner + self.coef0);
            self.inner_product().multiply_column(slot, self.gamma, (u, v), value, out);
        }

        fn multiply_all(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
            let value = |inner: f64| self.value(self.gamma * inner + self.coef0);
            self.inner_product().multiply_all((u, v), |term| term, value, out);
        }

        fn multiply_size(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
            let size = |inner: f64| self.size(self.gamma * inner + self.coef0.abs());
            self.inner_product().multiply_all((u, v), f64::abs, size, out);
        }

        /// Always false: even if the factor is bounded, its size, in which terms do not cancel, is not.
        fn bounded(&self) -> bool {
            false
        }

        fn cancels(&self) -> bool {
            true
        }

        /// `gamma`, and `coef0` if it is positive.
        fn parameters(&self) -> Vec<Parameter> {
            let offset = (self.coef0 > 0.0).then(|| Parameter::logarithm(COEF0.name, self.coef0));
            std::iter::once(Parameter::logarithm(GAMMA.name, self.gamma)).chain(offset).collect()
        }

        fn set_parameters(&mut self, log_values: &[f64]) {
            self.gamma = log_values[0].exp();
            if let Some(v) = log_values.get(1) {
                self.coef0 = v.exp();
            }
        }

        fn log_gradient(&self, u: Columns<'_>, v: &[f64], out: &mut [Vec<f64>]) {
            for (i, inner) in self.inner_product().with_row(u, v, |term| term).into_iter().enumerate() {
                let log_derivative = self.log_derivative(self.gamma * inner + self.coef0);
                out[0][i] = log_derivative * self.gamma * inner;
                if self.coef0 > 0.0 {
                    out[1][i] = log_derivative * self.coef0;
                }
            }
        }

        fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
            let (columns, center, scale) = self.inner_product().restricted(kept);
            Some(Self { columns, center, scale, ..self.clone() }.into())
        }
    };
}
pub(super) use function_of_inner_product;

impl KernelFactor for Polynomial {
    columns_and_arguments!(degree, gamma, coef0, center, scale);
    function_of_inner_product!();

    fn positive_definite(&self) -> bool {
        self.coef0 >= 0.0
    }

    /// The bound of the base's rounding error, times the degree.
    fn precision(&self, slots: &[usize], ranges: &ColumnRanges) -> RoundingBound {
        let inner = self.inner_product().precision(slots, ranges);
        let (degree, base) = (f64::from(self.degree), self.gamma * inner.top + self.coef0.abs());
        let top = self.value(base);
        // The tiny error of the base times the derivative of the power, plus the error of a subnormal power.
        let tiny_error =
            degree * base.max(1.0).powi(self.degree as i32 - 1) * (self.gamma + 1.0) * inner.tiny;
        RoundingBound {
            units: degree * (inner.units + 4.0),
            top,
            tiny: tiny_error + f64::MIN_POSITIVE,
            ..inner
        }
    }

    fn roundings(&self) -> f64 {
        f64::from(self.degree) * (12 * self.columns.len() + 8) as f64
    }
}
