//! The periodic factor (MacKay 1998): a Gaussian function of the sine of the difference.

use serde::{Deserialize, Serialize};

use super::registry::{Argument, ArgumentField, ArgumentType, ArgumentValues, DefaultValue, FactorSchema};
use super::{ColumnRanges, Factor, KernelFactor, Parameter, RoundingBound};
use crate::simd::Isa;

const PERIOD: Argument = Argument {
    ungiven: DefaultValue::Refused("for example periodic(month, period=12)"),
    ..Argument::new("period", ArgumentType::Positive, 1.0, "in the column's own units")
        .in_python("periodicity")
};
const LENGTH_SCALE: Argument =
    Argument::new("length_scale", ArgumentType::Positive, 1.0, "of periodic: a number without unit")
        .or("lengthscale");

/// `exp(-2 (sin(π (u-v)/period)/length_scale)²)` on one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Periodic {
    /// The column, as a list of one.
    pub columns: [usize; 1],
    /// Period in the column's units.
    pub period: f64,
    /// Length scale, without unit.
    #[serde(alias = "lengthscale")]
    pub length_scale: f64,
}

impl Periodic {
    pub(super) const DECLARED: &'static [&'static FactorSchema] = &[&FactorSchema {
        names: &["periodic"],
        python: "Periodic",
        formula: "exp(-2 (sin(π (u-v)/period)/length_scale)²)",
        categorical: false,
        arguments: &[PERIOD, LENGTH_SCALE],
        make: |columns, values| {
            let (period, length_scale) = (values.number(PERIOD.name), values.number(LENGTH_SCALE.name));
            columns.into_iter().map(|j| Self { columns: [j], period, length_scale }.into()).collect()
        },
    }];

    fn sine(&self, u: f64, v: f64) -> f64 {
        (std::f64::consts::PI * ((u - v) / self.period).rem_euclid(1.0)).sin()
    }
}

impl KernelFactor for Periodic {
    columns_and_arguments!(period, length_scale);

    fn multiply_column(&self, _: Isa, _: usize, u: &[f64], v: f64, out: &mut [f64]) {
        for (o, &x) in out.iter_mut().zip(u) {
            *o *= (-2.0 * (self.sine(x, v) / self.length_scale).powi(2)).exp();
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let named = [(PERIOD.name, self.period), (LENGTH_SCALE.name, self.length_scale)];
        named.map(|(name, value)| Parameter::logarithm(name, value)).to_vec()
    }

    fn set_parameters(&mut self, log_values: &[f64]) {
        self.period = log_values[0].exp();
        self.length_scale = log_values[1].exp();
    }

    fn log_gradient(&self, u: super::Columns<'_>, v: &[f64], out: &mut [Vec<f64>]) {
        let j = self.columns[0];
        for (i, &x) in u.column(j).iter().enumerate() {
            let n_periods = (x - v[j]) / self.period;
            let angle = std::f64::consts::PI * n_periods.rem_euclid(1.0);
            let square = (angle.sin() / self.length_scale).powi(2);
            out[0][i] =
                2.0 * std::f64::consts::PI * n_periods * (2.0 * angle).sin() / self.length_scale.powi(2);
            out[1][i] = 4.0 * square;
        }
    }

    fn min_within(&self, delta: &[f64]) -> Option<f64> {
        // The distance is largest at half a period.
        let j = self.columns[0];
        let mut largest_difference = delta.to_vec();
        largest_difference[j] = delta[j].min(self.period / 2.0);
        Some(self.value_at_difference(&largest_difference))
    }

    fn fall(&self, delta: &[f64]) -> Option<f64> {
        let sine = self.sine(delta[self.columns[0]].min(self.period / 2.0), 0.0);
        Some(-(-2.0 * (sine / self.length_scale).powi(2)).exp_m1())
    }

    /// The angle θ has an error of `π (2 periods + 3)` units. For an exponent E, `|dE/dθ| ≤ 2 √2 √E / ℓ`, and
    /// `√E ≤ (1 + E)/2`. Relative to a larger factor with exponent E' the bound is
    /// `√E' + max_z √z exp(-z) ≤ 1/2 + E'/2 + 0.43`.
    fn precision(&self, _: &[usize], ranges: &ColumnRanges) -> RoundingBound {
        let angle = std::f64::consts::PI * (2.0 * ranges.max_difference(self.columns[0]) / self.period + 3.0);
        let slope = 8.0_f64.sqrt() * angle / self.length_scale;
        // The remainder of the Taylor series: the square of the angle's error.
        let square = f64::EPSILON * (angle / self.length_scale).powi(2);
        let deepest = 2.0 / (self.length_scale * self.length_scale);
        RoundingBound::new(5.0 + 0.93 * slope + square, 8.0 + 0.5 * slope, deepest)
    }

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        kept(self.columns[0]).then(|| self.clone().into())
    }
}
