//! The categorical factor: 1 between equal levels, and a smaller constant between different ones.

use serde::{Deserialize, Serialize};

use super::registry::{Argument, ArgumentField, ArgumentType, ArgumentValues, FactorSchema};
use super::{ColumnRanges, Columns, Factor, KernelFactor, Parameter, RoundingBound};
use crate::simd::Isa;

const SIMILARITY: Argument =
    Argument::new("similarity", ArgumentType::Fraction, 0.5, "value for two different levels, from 0 to 1");

/// 1 for equal levels of a column and `similarity` for different levels. Positive definite for
/// `0 ≤ similarity ≤ 1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Categorical {
    /// The column, as a list of one.
    pub columns: [usize; 1],
    /// The similarity of two different levels, in [0, 1].
    pub similarity: f64,
}

impl Categorical {
    pub(super) const DECLARED: &'static [&'static FactorSchema] = &[&FactorSchema {
        names: &["categorical"],
        python: "Categorical",
        formula: "1 if equal, else similarity",
        categorical: true,
        arguments: &[SIMILARITY],
        make: |columns, values| {
            let similarity = values.number(SIMILARITY.name);
            columns.into_iter().map(|j| Self { columns: [j], similarity }.into()).collect()
        },
    }];

    /// The factor on one column with the default similarity, ½.
    pub fn on_column(column: usize) -> Self {
        Self { columns: [column], similarity: SIMILARITY.default }
    }
}

/// The logit of a similarity, clamped to [1e-9, 1 - 1e-9]; tuning moves the logit, so that the similarity
/// stays in (0, 1).
fn similarity_logit(p: f64) -> f64 {
    let p = p.clamp(1e-9, 1.0 - 1e-9);
    (p / (1.0 - p)).ln()
}

impl KernelFactor for Categorical {
    columns_and_arguments!(similarity);

    fn is_identity(&self) -> bool {
        self.similarity == 0.0
    }

    fn multiply_column(&self, _: Isa, _: usize, u: &[f64], v: f64, out: &mut [f64]) {
        for (o, &x) in out.iter_mut().zip(u) {
            *o *= if x == v { 1.0 } else { self.similarity };
        }
    }

    /// One parameter: the logit (not the logarithm) of the similarity, so that it stays in (0, 1).
    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter { name: "similarity (logit)".into(), log_value: similarity_logit(self.similarity) }]
    }

    fn set_parameters(&mut self, log_values: &[f64]) {
        self.similarity = 1.0 / (1.0 + (-log_values[0]).exp());
    }

    fn log_gradient(&self, u: Columns<'_>, v: &[f64], out: &mut [Vec<f64>]) {
        let j = self.columns[0];
        for (o, &x) in out[0].iter_mut().zip(u.column(j)) {
            *o = if x == v[j] { 0.0 } else { 1.0 - self.similarity };
        }
    }

    fn min_within(&self, delta: &[f64]) -> Option<f64> {
        let changed = |d: &f64| f64::from(u8::from(*d > 0.0));
        Some(self.value_at_difference(&delta.iter().map(changed).collect::<Vec<_>>()))
    }

    fn precision(&self, _: &[usize], _: &ColumnRanges) -> RoundingBound {
        RoundingBound::new(1.0, 0.0, 0.0)
    }

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        kept(self.columns[0]).then(|| self.clone().into())
    }
}
