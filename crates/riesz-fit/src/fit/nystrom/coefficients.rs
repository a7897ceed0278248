//! Coefficients at which a pass over the rows computes sums, and their files.

use serde::{Deserialize, Serialize};

use super::parts::digest;
use super::plan::FitPlan;
use crate::error::{Error, Result};
use crate::linalg::Matrix;

/// Coefficients of the landmarks and of a constant, in the units of the kernel and of the centered targets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Coefficients {
    /// Coefficients: (landmarks and constant) × targets.
    pub values: Matrix,
    /// Whether a pass at these coefficients also computes the curvature of a classification, which takes most
    /// of its time.
    pub curvature: bool,
}

impl Coefficients {
    /// Coefficients for a pass without the curvature.
    pub fn new(values: Matrix) -> Self {
        Self { values, curvature: false }
    }

    /// SHA-256 of the contents, which serves as a name.
    pub fn digest(&self) -> String {
        let mut bytes: Vec<u8> = self.values.data().iter().flat_map(|v| v.to_le_bytes()).collect();
        bytes.push(u8::from(self.curvature));
        digest(&bytes)
    }

    /// The bytes of the coefficients as a file in JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads coefficients from the bytes of a file.
    ///
    /// # Errors
    /// [`Error::Format`] for a file of another kind, or coefficients of a plan with another size.
    pub fn from_bytes(plan: &FitPlan, bytes: &[u8]) -> Result<Self> {
        let parsed: Self = serde_json::from_slice(bytes)
            .map_err(|e| Error::format(format!("the file doesn't contain coefficients: {e}")))?;
        if parsed.values.rows() != plan.size()
            || parsed.values.cols() != plan.targets.len()
            || parsed.values.data().len() != plan.size() * plan.targets.len()
        {
            return Err(Error::format("these coefficients belong to another plan"));
        }
        Ok(parsed)
    }
}
