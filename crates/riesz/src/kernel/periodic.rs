//! The periodic factor (MacKay 1998).

use serde::{Deserialize, Serialize};

use super::{Factor, FactorKind, Parameter, Structure};
use crate::error::{Error, Result};
use crate::simd::Isa;

/// `exp(-2 sin²(π (u - v) / period) / lengthscale²)` on one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Periodic {
    /// The column, as a list of one.
    pub columns: [usize; 1],
    /// Period in the column's units.
    pub period: f64,
    /// Length scale, without unit.
    pub lengthscale: f64,
}

impl Periodic {
    fn sine(&self, u: f64, v: f64) -> f64 {
        (std::f64::consts::PI * ((u - v) / self.period).rem_euclid(1.0)).sin()
    }
}

impl FactorKind for Periodic {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn structure(&self) -> Structure {
        Structure::Separable
    }

    fn validate(&self) -> Result<()> {
        for (name, value) in [("period", self.period), ("lengthscale", self.lengthscale)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::parameter(name, value, "it is a positive number"));
            }
        }
        Ok(())
    }

    fn multiply_column(&self, _: Isa, _: usize, u: &[f64], v: f64, out: &mut [f64]) {
        for (o, &x) in out.iter_mut().zip(u) {
            *o *= (-2.0 * (self.sine(x, v) / self.lengthscale).powi(2)).exp();
        }
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter { name: "period".into(), log_value: self.period.ln() },
            Parameter { name: "lengthscale".into(), log_value: self.lengthscale.ln() },
        ]
    }

    fn set_parameters(&mut self, log_values: &[f64]) {
        self.period = log_values[0].exp();
        self.lengthscale = log_values[1].exp();
    }

    fn log_gradient(&self, u: super::Columns<'_>, v: &[f64], out: &mut [Vec<f64>]) {
        let j = self.columns[0];
        for (i, &x) in u.column(j).iter().enumerate() {
            let turns = (x - v[j]) / self.period;
            let angle = std::f64::consts::PI * turns.rem_euclid(1.0);
            let square = (angle.sin() / self.lengthscale).powi(2);
            out[0][i] = 2.0 * std::f64::consts::PI * turns * (2.0 * angle).sin() / self.lengthscale.powi(2);
            out[1][i] = 4.0 * square;
        }
    }

    fn restricted(&self, kept: &dyn Fn(usize) -> bool) -> Option<Factor> {
        kept(self.columns[0]).then(|| Factor::Periodic(self.clone()))
    }

    fn formula(&self) -> String {
        format!("periodic(period={:.4}, lengthscale={:.4})", self.period, self.lengthscale)
    }
}
