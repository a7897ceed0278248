//! The polynomial factor.

use serde::{Deserialize, Serialize};

use super::linear::{add_inner, restricted_units, validate_units};
use super::{Columns, Factor, FactorKind, Parameter, Structure};
use crate::error::{Error, Result};
use crate::simd::Isa;

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
    /// Added to it, ≥ 0.
    pub coef0: f64,
    /// The power, ≥ 1.
    pub degree: u32,
}

impl Polynomial {
    fn base(&self, u: Columns<'_>, v: &[f64]) -> Vec<f64> {
        let mut inner = vec![0.0; u.len()];
        add_inner(&self.columns, &self.center, &self.scale, u, v, &mut inner);
        inner
    }
}

impl FactorKind for Polynomial {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn structure(&self) -> Structure {
        if self.columns.len() == 1 { Structure::Separable } else { Structure::Joint }
    }

    fn validate(&self) -> Result<()> {
        validate_units(&self.columns, &self.center, &self.scale)?;
        if !(self.gamma.is_finite() && self.gamma > 0.0) {
            return Err(Error::parameter("gamma", self.gamma, "it is a positive number"));
        }
        if !(self.coef0.is_finite() && self.coef0 >= 0.0) {
            return Err(Error::parameter("coef0", self.coef0, "it is not negative"));
        }
        if self.degree == 0 || self.degree > 100 {
            return Err(Error::parameter("degree", self.degree, "it is a whole number from 1 to 100"));
        }
        Ok(())
    }

    fn multiply_column(&self, _: Isa, slot: usize, u: &[f64], v: f64, out: &mut [f64]) {
        let (center, scale) = (self.center[slot], self.scale[slot]);
        let slope = self.gamma * (v - center) / (scale * scale);
        for (o, &x) in out.iter_mut().zip(u) {
            *o *= ((x - center) * slope + self.coef0).powi(self.degree as i32);
        }
    }

    fn multiply_all(&self, _: Isa, u: Columns<'_>, v: &[f64], out: &mut [f64]) {
        for (o, inner) in out.iter_mut().zip(self.base(u, v)) {
            *o *= (self.gamma * inner + self.coef0).powi(self.degree as i32);
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let mut all = vec![Parameter { name: "gamma".into(), log_value: self.gamma.ln() }];
        if self.coef0 > 0.0 {
            all.push(Parameter { name: "coef0".into(), log_value: self.coef0.ln() });
        }
        all
    }

    fn set_parameters(&mut self, log_values: &[f64]) {
        self.gamma = log_values[0].exp();
        if let Some(v) = log_values.get(1) {
            self.coef0 = v.exp();
        }
    }

    fn log_gradient(&self, u: Columns<'_>, v: &[f64], out: &mut [Vec<f64>]) {
        let degree = f64::from(self.degree);
        for (i, inner) in self.base(u, v).into_iter().enumerate() {
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
        Some(Factor::Polynomial(Self { columns, center, scale, ..self.clone() }))
    }

    fn roundings(&self) -> f64 {
        f64::from(self.degree) * (12 * self.columns.len() + 8) as f64
    }

    fn formula(&self) -> String {
        format!("polynomial(degree={}, gamma={:.4}, coef0={:.4})", self.degree, self.gamma, self.coef0)
    }
}
