//! The ANOVA factor: one plus a Gaussian factor from which its mean is subtracted. The functional ANOVA
//! decomposition of a model follows from this kernel (Durrande, Ginsbourger, Roustant and Carraro 2013; Lu,
//! Boukouvalas and Hensman 2022).

use serde::{Deserialize, Serialize};

use super::linear::{CENTER, InnerProduct, SCALE, inner_product};
use super::registry::{Argument, ArgumentField, ArgumentType, ArgumentValues, FactorSchema};
use super::rounding_bounds::TINY;
use super::stationary::{ARD, LENGTH_SCALE, set_length_scales, tuned_length_scales};
use super::{ColumnRanges, Columns, Factor, KernelFactor, Parameter, RoundingBound};
use crate::simd::{Isa, Simd, dispatch, exp_neg};

const VARIANCE: Argument = Argument::new(
    "variance",
    ArgumentType::Positive,
    1.0,
    "variance of each column's part, before its mean is subtracted",
);

/// `Π_c (1 + variance (k_c(u, v) - m_c(u) m_c(v) / M_c))` over its columns c. `k_c = exp(-r²/2)` is the RBF
/// kernel of column c, where r is the difference of the two values divided by the length scale. Its means are
/// `m_c(u) = E k_c(u, X)` and `M_c = E m_c(X)`, where X is normal with mean `center_c` and standard deviation
/// `scale_c`.
///
/// The term that is added to 1 is the kernel of those functions in the RKHS of `k_c` that have mean 0; they
/// are orthogonal to 1. Leaving a factor out of a product therefore averages over its column, which is
/// independent of the others. So the functional game is the functional ANOVA, and its base value is the mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Anova {
    /// The table's columns that the factor reads.
    pub columns: Vec<usize>,
    /// Length scale of each column, in the column's units.
    #[serde(alias = "lengthscale")]
    pub length_scale: Vec<f64>,
    /// The mean of each column.
    pub center: Vec<f64>,
    /// The standard deviation of each column, > 0.
    pub scale: Vec<f64>,
    /// Variance that multiplies the term added to 1, > 0.
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
        arguments: &[LENGTH_SCALE, VARIANCE, ARD, CENTER, SCALE],
        make: from_arguments!(length_scale, variance, ard, center, scale),
    }];

    inner_product!();

    /// The constants of one column.
    fn slot(&self, slot: usize) -> Slot {
        let (l, s) = (self.length_scale[slot], self.scale[slot]);
        // `ℓ² / (ℓ² + δ²)` and `δ² / (ℓ² + δ²)`.
        let (ratio, other) = (1.0 / (1.0 + (s / l).powi(2)), 1.0 / (1.0 + (l / s).powi(2)));
        // `ln (ℓ √(ℓ² + 2δ²) / (ℓ² + δ²)) = ln √(1 - other²)`.
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

/// Constants of one column in `1 + variance (exp(-r²/2) - exp(top - ratio (p² + q²)/2))`. r is the difference
/// of the two values divided by the length scale; p and q are their differences from the centre divided by
/// the length scale.
#[derive(Clone, Copy)]
struct Slot {
    center: f64,
    inverse: f64,
    /// `ℓ² / (ℓ² + δ²)`, where δ is the column's standard deviation.
    ratio: f64,
    /// The square root of `ratio`.
    root: f64,
    top: f64,
    variance: f64,
}

/// Multiplies `out` by the factor, or by its size: the factor with a sum instead of the difference.
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

dispatch! {
    fn value<V: Simd>(slot: Slot, u: &[f64], v: f64, out: &mut [f64]) {
        column_body::<V, false>(slot, u, v, out);
    }

    fn size<V: Simd>(slot: Slot, u: &[f64], v: f64, out: &mut [f64]) {
        column_body::<V, true>(slot, u, v, out);
    }
}

impl KernelFactor for Anova {
    columns_and_arguments!(length_scale, variance, ard, center, scale);

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

    /// Each exponential has an error of 4 units, plus 9 for each unit s of its exponent. The exponential,
    /// times the variance, is added to 1. So exponents far above `ln variance` contribute a small part of the
    /// sum: `max_s s y/(1 + y) ≤ ln⁺ variance + .28` with `y = variance e^{-s}`.
    fn precision(&self, slots: &[usize], _: &ColumnRanges) -> RoundingBound {
        let count = slots.len() as f64;
        let high = self.variance.ln().max(0.0);
        let (units, top) = (16.0 + 9.0 * high, 1.0 + 2.0 * self.variance);
        let tiny = count * self.variance * top.powf(count - 1.0) * TINY;
        RoundingBound { units: count * units, per_log: 0.0, deepest: 0.0, top: top.powf(count), tiny }
    }

    /// The value between equal rows is at least 1.
    fn roundings(&self) -> f64 {
        let count = self.columns.len() as f64;
        count * (16.0 + 9.0 * self.variance.ln().max(0.0)) * (1.0 + 2.0 * self.variance) + 8.0
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut parameters = tuned_length_scales(&self.columns, &self.length_scale, self.ard);
        parameters.push(Parameter::logarithm(VARIANCE.name, self.variance));
        parameters
    }

    fn set_parameters(&mut self, log_values: &[f64]) {
        let [length_scale @ .., variance] = log_values else { return };
        set_length_scales(&mut self.length_scale, self.ard, length_scale);
        self.variance = variance.exp();
    }

    fn log_gradient(&self, u: Columns<'_>, v: &[f64], out: &mut [Vec<f64>]) {
        out.iter_mut().for_each(|o| o.fill(0.0));
        let variance_index = out.len() - 1;
        for (slot, &j) in self.columns.iter().enumerate() {
            let column_slot = self.slot(slot);
            let s = self.scale[slot] * column_slot.inverse;
            // The derivative d top / d ln ℓ.
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
                // `ratio p² = (u - center)² / (ℓ² + δ²)`, which decreases as ℓ grows.
                let slope =
                    k * r * r - mean * (slope_of_top + column_slot.ratio * column_slot.ratio * squares);
                // The derivative of the logarithm is set to 0 at a value of 0.
                let inverse = if 1.0 + added == 0.0 { 0.0 } else { 1.0 / (1.0 + added) };
                out[length_index][i] += self.variance * slope * inverse;
                out[variance_index][i] += added * inverse;
            }
        }
    }

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        let (columns, center, scale) = self.inner_product().restricted(kept);
        let kept_lengths = self.columns.iter().zip(&self.length_scale).filter(|(j, _)| kept(**j));
        let length_scale = kept_lengths.map(|(_, l)| *l).collect();
        (!columns.is_empty()).then(|| Self { columns, length_scale, center, scale, ..self.clone() }.into())
    }
}
