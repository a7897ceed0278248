//! The hyper-parameters of a Gaussian process that are learnt from data.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The parameters that are tuned by maximising the marginal likelihood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TunedParameters {
    /// Nothing: kernel and noise are taken as they are.
    Nothing,
    /// The kernel's parameters.
    Kernel,
    /// The noise.
    Noise,
    /// The kernel's parameters and the noise.
    KernelAndNoise,
}

impl TunedParameters {
    /// Indices of the tuned parameters among `count`, of which the last is the noise.
    pub(super) fn free(self, count: usize) -> Range<usize> {
        let noise = count - 1;
        match self {
            Self::Nothing => count..count,
            Self::Kernel => 0..noise,
            Self::Noise => noise..count,
            Self::KernelAndNoise => 0..count,
        }
    }
}
