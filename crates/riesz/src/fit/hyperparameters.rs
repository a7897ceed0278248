//! What of a Gaussian process is learnt from its data.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// What is tuned by maximising the marginal likelihood.
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
    /// Which of so many parameters, the noise the last of them.
    pub(super) fn free(self, all: usize) -> Range<usize> {
        let noise = all - 1;
        match self {
            Self::Nothing => all..all,
            Self::Kernel => 0..noise,
            Self::Noise => noise..all,
            Self::KernelAndNoise => 0..all,
        }
    }
}
