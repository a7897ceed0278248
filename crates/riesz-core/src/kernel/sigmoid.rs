//! The sigmoid factor, which is not positive definite.

use serde::{Deserialize, Serialize};

use super::linear::{CENTER, InnerProduct, SCALE, inner_product};
use super::polynomial::{COEF0, GAMMA, function_of_inner_product};
use super::registry::{Argument, ArgumentField, ArgumentValues, FactorSchema};
use super::{ColumnRanges, Columns, Factor, KernelFactor, Parameter, RoundingBound, Structure};
use crate::simd::Isa;

/// The offset; LIBSVM and scikit-learn have the same default.
const OFFSET: Argument = Argument { default: 0.0, ..COEF0 };

/// `tanh(gamma Σ_c (u_c - center_c)(v_c - center_c) / scale_c² + coef0)`, a joint function of its columns. It
/// is not positive definite; LIBSVM and scikit-learn fit support vector machines with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sigmoid {
    /// The table's columns that the factor reads.
    pub columns: Vec<usize>,
    /// Centre that is subtracted from each column.
    pub center: Vec<f64>,
    /// Scale by which each column is divided.
    pub scale: Vec<f64>,
    /// Multiplier of the inner product, > 0.
    pub gamma: f64,
    /// Offset that is added to the scaled inner product.
    pub coef0: f64,
}

impl Sigmoid {
    pub(super) const DECLARED: &'static [&'static FactorSchema] = &[&FactorSchema {
        names: &["sigmoid"],
        python: "Sigmoid",
        formula: "tanh(gamma u·v + coef0)",
        categorical: false,
        arguments: &[GAMMA, OFFSET, CENTER.in_python(""), SCALE.in_python("")],
        make: from_arguments!(gamma, coef0, center, scale),
    }];

    inner_product!();

    fn value(&self, z: f64) -> f64 {
        z.tanh()
    }

    /// Uses `|tanh z| ≤ |z|`: an error of z is at least as large as the error of `tanh z`.
    fn size(&self, z: f64) -> f64 {
        z
    }

    fn log_derivative(&self, z: f64) -> f64 {
        let value = self.value(z);
        // If the kernel value is 0, its derivative is taken as 0.
        if value == 0.0 { 0.0 } else { (1.0 - value * value) / value }
    }
}

impl KernelFactor for Sigmoid {
    columns_and_arguments!(gamma, coef0, center, scale);
    function_of_inner_product!();

    fn positive_definite(&self) -> bool {
        false
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

    fn precision(&self, slots: &[usize], ranges: &ColumnRanges) -> RoundingBound {
        let inner = self.inner_product().precision(slots, ranges);
        let top = self.gamma * inner.top + self.coef0.abs();
        let tiny = (self.gamma + 1.0) * inner.tiny + f64::MIN_POSITIVE;
        RoundingBound { units: inner.units + 8.0, top, tiny, ..inner }
    }
}
