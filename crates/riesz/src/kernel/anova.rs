//! The ANOVA factor: one plus a Gaussian factor from which its mean is taken, so that the model's
//! functional ANOVA decomposition can be read from its kernel (Durrande, Ginsbourger, Roustant and Carraro
//! 2013; Lu, Boukouvalas and Hensman 2022).

use serde::{Deserialize, Serialize};

use super::linear::{CENTER, SCALE, restricted_units};
use super::registry::{Argument, ArgumentType, ArgumentValues, FactorSchema};
use super::rounding_bounds::TINY;
use super::stationary::{ARD, LENGTHSCALE, set_lengthscales, tuned_lengthscales};
use super::{ColumnRanges, Columns, Factor, KernelFactor, Parameter, RoundingBound, Structure};
use crate::simd::{Isa, Simd, dispatch, exp_neg};

const VARIANCE: Argument = Argument::new(
    "variance",
    ArgumentType::Positive,
    1.0,
    "of what columns add to 1, before their mean is taken away",
);

/// `Π_c (1 + variance (k_c(u, v) - m_c(u) m_c(v) / M_c))` over its columns, where `k = exp(-r²/2)` is the RBF
/// kernel of one column, and `m(u) = E k(u, X)` and `M = E m(X)` its means under X normal with mean
/// `center_c` and standard deviation `scale_c`.
///
/// What is added to 1 is the kernel of the functions of k's space that have mean 0. So 1 and they are
/// orthogonal, and in a product of such factors, leaving out one is to average over its column, which is
/// independent of the others: the functional game is the functional ANOVA, and its base value the mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Anova {
    /// The table's columns it reads.
    pub columns: Vec<usize>,
    /// One a column, in the column's units.
    pub lengthscale: Vec<f64>,
    /// The mean of each column.
    pub center: Vec<f64>,
    /// The standard deviation of each column, > 0.
    pub scale: Vec<f64>,
    /// Multiplies what is added to 1, > 0.
    pub variance: f64,
    /// Whether the length scales are tuned one by one or by a common multiple.
    pub ard: bool,
}

impl Anova {
    pub(super) const DECLARED: &'static [&'static FactorSchema] = &[&FactorSchema {
        names: &["anova"],
        python: "ANOVA",
        formula: "1 + variance (exp(-r²/2) less its mean)",
        categorical: false,
        arguments: &[LENGTHSCALE, VARIANCE, ARD, CENTER, SCALE],
        make: |columns, values| {
            let list = |argument: Argument| values.list(argument.name).to_vec();
            let (lengthscale, center, scale) = (list(LENGTHSCALE), list(CENTER), list(SCALE));
            let (variance, ard) = (values.number(VARIANCE.name), values.flag(ARD.name));
            vec![Self { columns, lengthscale, center, scale, variance, ard }.into()]
        },
    }];

    /// One column's.
    fn slot(&self, slot: usize) -> Slot {
        let (l, s) = (self.lengthscale[slot], self.scale[slot]);
        // The shares of ℓ² and of δ² in ℓ² + δ².
        let (ratio, other) = (1.0 / (1.0 + (s / l).powi(2)), 1.0 / (1.0 + (l / s).powi(2)));
        // ln (ℓ √(ℓ² + 2δ²) / (ℓ² + δ²)), which is ln √(1 - other²).
        let top =
            if ratio < 0.5 { 0.5 * (ratio * (2.0 - ratio)).ln() } else { 0.5 * (-other * other).ln_1p() };
        Slot {
            center: self.center[slot],
            inverse: 1.0 / l,
            ratio,
            root: ratio.sqrt(),
            top,
            variance: self.variance,
        }
    }
}

/// Constants of one column in `1 + variance (exp(-r²/2) - exp(top - ratio (p² + q²)/2))`, where r is the
/// distance of the two values over the length scale, and p and q are their distances from the centre over the
/// length scale.
#[derive(Clone, Copy)]
struct Slot {
    center: f64,
    inverse: f64,
    /// `ℓ² / (ℓ² + δ²)`, and its root.
    ratio: f64,
    root: f64,
    top: f64,
    variance: f64,
}

/// Multiplies `out` by the factor, or by its size: the factor with a sum in place of the difference.
#[inline(always)]
fn column_body<V: Simd, const SIZE: bool>(slot: Slot, u: &[f64], v: f64, out: &mut [f64]) {
    let inverse = slot.inverse * slot.root;
    let q = (v - slot.center) * inverse;
    let exponent = slot.top - 0.5 * (q * q);
    for (o, &x) in out.iter_mut().zip(u) {
        let (r, p) = ((x - v) * slot.inverse, (x - slot.center) * inverse);
        let (k, mean) = (exp_neg::<V>(-0.5 * (r * r)), exp_neg::<V>(exponent - 0.5 * (p * p)));
        *o *= 1.0 + slot.variance * if SIZE { k + mean } else { k - mean };
    }
}

#[inline(always)]
fn value_body<V: Simd>(slot: Slot, u: &[f64], v: f64, out: &mut [f64]) {
    column_body::<V, false>(slot, u, v, out);
}

#[inline(always)]
fn size_body<V: Simd>(slot: Slot, u: &[f64], v: f64, out: &mut [f64]) {
    column_body::<V, true>(slot, u, v, out);
}

dispatch! {
    fn value(slot: Slot, u: &[f64], v: f64, out: &mut [f64]) = value_body::<V>
}
dispatch! {
    fn size(slot: Slot, u: &[f64], v: f64, out: &mut [f64]) = size_body::<V>
}

impl KernelFactor for Anova {
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
            (LENGTHSCALE.name, self.lengthscale.clone()),
            (VARIANCE.name, vec![self.variance]),
            (ARD.name, vec![f64::from(u8::from(self.ard))]),
            (CENTER.name, self.center.clone()),
            (SCALE.name, self.scale.clone()),
        ])
    }

    fn multiply_column(&self, isa: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        value(isa, self.slot(slot), u, v, out);
    }

    fn multiply_column_size(&self, isa: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        size(isa, self.slot(slot), u, v, out);
    }

    fn bounded(&self) -> bool {
        false
    }

    fn cancels(&self) -> bool {
        true
    }

    fn cancels_by_column(&self) -> bool {
        true
    }

    fn projects(&self) -> bool {
        true
    }

    /// Each exponential is off by 4 units and 9 for each unit of its depth. With the variance it is part of a
    /// sum with 1, of which what lies deeper than the variance is high is a small part:
    /// `max_s s y/(1 + y) ≤ ln⁺ variance + .28` with `y = variance e^{-s}`.
    fn precision(&self, slots: &[usize], _: &ColumnRanges) -> RoundingBound {
        let count = slots.len() as f64;
        let high = self.variance.ln().max(0.0);
        let (units, top) = (16.0 + 9.0 * high, 1.0 + 2.0 * self.variance);
        let tiny = count * self.variance * top.powf(count - 1.0) * TINY;
        RoundingBound { units: count * units, per_log: 0.0, deepest: 0.0, top: top.powf(count), tiny }
    }

    /// Between equal rows it is 1 at least.
    fn roundings(&self) -> f64 {
        let count = self.columns.len() as f64;
        count * (16.0 + 9.0 * self.variance.ln().max(0.0)) * (1.0 + 2.0 * self.variance) + 8.0
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = tuned_lengthscales(&self.columns, &self.lengthscale, self.ard);
        parameters.push(Parameter { name: VARIANCE.name.into(), log_value: self.variance.ln() });
        parameters
    }

    fn set_parameters(&mut self, log_values: &[f64]) {
        let [lengthscale @ .., variance] = log_values else { return };
        set_lengthscales(&mut self.lengthscale, self.ard, lengthscale);
        self.variance = variance.exp();
    }

    fn log_gradient(&self, u: Columns<'_>, v: &[f64], out: &mut [Vec<f64>]) {
        out.iter_mut().for_each(|o| o.fill(0.0));
        let variance_index = out.len() - 1;
        for (slot, &j) in self.columns.iter().enumerate() {
            let column_slot = self.slot(slot);
            let s = self.scale[slot] * column_slot.inverse;
            // d top / d ln ℓ.
            let slope_of_top = 1.0 + 1.0 / (1.0 + 2.0 * s * s) - 2.0 * column_slot.ratio;
            let length_index = if self.ard { slot } else { 0 };
            let q = (v[j] - column_slot.center) * column_slot.inverse;
            for (i, &x) in u.column(j).iter().enumerate() {
                let (r, p) =
                    ((x - v[j]) * column_slot.inverse, (x - column_slot.center) * column_slot.inverse);
                let squares = p * p + q * q;
                let (k, mean) =
                    ((-0.5 * r * r).exp(), (column_slot.top - 0.5 * column_slot.ratio * squares).exp());
                let added = self.variance * (k - mean);
                // ratio p² is (u - center)² / (ℓ² + δ²), which falls as ℓ grows.
                let slope =
                    k * r * r - mean * (slope_of_top + column_slot.ratio * column_slot.ratio * squares);
                // At a value of 0 the logarithm has no slope.
                let inverse = if 1.0 + added == 0.0 { 0.0 } else { 1.0 / (1.0 + added) };
                out[length_index][i] += self.variance * slope * inverse;
                out[variance_index][i] += added * inverse;
            }
        }
    }

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        let (columns, center, scale) = restricted_units(&self.columns, &self.center, &self.scale, kept);
        let kept_lengths = self.columns.iter().zip(&self.lengthscale).filter(|(j, _)| kept(**j));
        let lengthscale = kept_lengths.map(|(_, l)| *l).collect();
        (!columns.is_empty()).then(|| Self { columns, lengthscale, center, scale, ..self.clone() }.into())
    }
}
