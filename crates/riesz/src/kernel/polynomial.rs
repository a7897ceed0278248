//! The polynomial factor: a power of an inner product plus a constant.

use serde::{Deserialize, Serialize};

use super::linear::{CENTER, SCALE, add_inner, inner_precision, restricted_units};
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
    "is added to it; negative, models can be read, and few be fitted",
);

/// `(gamma Σ_c (u_c - center_c)(v_c - center_c) / scale_c² + coef0)^degree`, which ties its columns together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Polynomial {
    /// The table's columns it reads.
    pub columns: Vec<usize>,
    /// Subtracted from each column.
    pub center: Vec<f64>,
    /// Each column is divided by this.
    pub scale: Vec<f64>,
    /// Multiplies the inner product, > 0.
    pub gamma: f64,
    /// Added to it. Below 0 the kernel is not positive definite.
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

    fn base(&self, u: Columns<'_>, v: &[f64], term: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut inner = vec![0.0; u.len()];
        add_inner(&self.columns, &self.center, &self.scale, u, v, term, &mut inner);
        inner
    }
}

impl KernelFactor for Polynomial {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn structure(&self) -> Structure {
        if self.columns.len() == 1 { Structure::Separable } else { Structure::Joint }
    }

    fn power(&self) -> Option<Power<'_>> {
        let Self { columns, center, scale, gamma, coef0: constant, degree } = self;
        Some(Power { columns, center, scale, gamma: *gamma, constant: *constant, degree: *degree })
    }

    fn declaration(&self) -> &'static FactorSchema {
        Self::DECLARED[0]
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
        let (center, scale) = (self.center[slot], self.scale[slot]);
        let slope = self.gamma * (v - center) / (scale * scale);
        for (o, &x) in out.iter_mut().zip(u) {
            *o *= ((x - center) * slope + self.coef0).powi(self.degree as i32);
        }
    }

    fn multiply_all(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        for (o, inner) in out.iter_mut().zip(self.base(u, v, |term| term)) {
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
        for (o, inner) in out.iter_mut().zip(self.base(u, v, f64::abs)) {
            *o *= (self.gamma * inner + self.coef0.abs()).powi(self.degree as i32);
        }
    }

    /// The bound of the base's rounding error, times the degree.
    fn precision(&self, slots: &[usize], reach: &ColumnRanges) -> RoundingBound {
        let inner = inner_precision(&self.columns, &self.center, &self.scale, slots, reach);
        let (degree, base) = (f64::from(self.degree), self.gamma * inner.top + self.coef0.abs());
        let top = base.powi(self.degree as i32);
        // An error of the base, lifted by the other bases; a power that is subnormal.
        let lost = degree * base.max(1.0).powi(self.degree as i32 - 1) * (self.gamma + 1.0) * inner.tiny;
        RoundingBound { units: degree * (inner.units + 4.0), top, tiny: lost + f64::MIN_POSITIVE, ..inner }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = vec![Parameter { name: "gamma".into(), log_value: self.gamma.ln() }];
        if self.coef0 > 0.0 {
            parameters.push(Parameter { name: "coef0".into(), log_value: self.coef0.ln() });
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
        let degree = f64::from(self.degree);
        for (i, inner) in self.base(u, v, |term| term).into_iter().enumerate() {
            let base = self.gamma * inner + self.coef0;
            // Where the base is 0 so is the kernel, and the product with this logarithmic derivative.
            let over = if base == 0.0 { 0.0 } else { degree / base };
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
        f64::from(self.degree) * (12 * self.columns.len() + 8) as f64
    }
}
