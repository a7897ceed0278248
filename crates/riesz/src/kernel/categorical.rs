//! The categorical factor: equal or not.

use serde::{Deserialize, Serialize};

use super::{Columns, Factor, FactorKind, Parameter, Structure};
use crate::error::{Error, Result};
use crate::simd::Isa;

/// 1 for equal levels, `similarity` for different ones, on one column. Positive definite for
/// `0 ≤ similarity ≤ 1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Categorical {
    /// The column, as a list of one.
    pub columns: [usize; 1],
    /// The similarity of two different levels, in [0, 1].
    pub similarity: f64,
}

/// Tuning keeps the similarity within these bounds through a logistic map.
fn logit(p: f64) -> f64 {
    let p = p.clamp(1e-9, 1.0 - 1e-9);
    (p / (1.0 - p)).ln()
}

impl FactorKind for Categorical {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn structure(&self) -> Structure {
        Structure::Separable
    }

    fn validate(&self) -> Result<()> {
        if (0.0..=1.0).contains(&self.similarity) {
            return Ok(());
        }
        Err(Error::parameter("similarity", self.similarity, "it lies between 0 and 1"))
    }

    fn multiply_column(&self, _: Isa, _: usize, u: &[f64], v: f64, out: &mut [f64]) {
        for (o, &x) in out.iter_mut().zip(u) {
            *o *= if x == v { 1.0 } else { self.similarity };
        }
    }

    /// One parameter: the logit (not the logarithm) of the similarity, so that it stays in (0, 1).
    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter { name: "similarity (logit)".into(), log_value: logit(self.similarity) }]
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

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        kept(self.columns[0]).then(|| Factor::Categorical(self.clone()))
    }

    fn formula(&self) -> String {
        format!("categorical(similarity={:.4})", self.similarity)
    }
}
