//! What absent features are filled in with, for models that are known by their answers alone: the rows of a background, or draws
//! from the distribution of the absent features given the present ones.

use crate::embedding::Conditioning;
use crate::game::{Background, Game};

/// What takes the place of absent features.
#[derive(Debug, Clone, PartialEq)]
pub enum Absence {
    /// The rows of a background, whatever the present features are: the interventional game.
    Background(Background),
    /// Draws from a normal distribution with the reference's mean and covariance, given the present features (Aas, Jullum and Løland
    /// 2021, §3.1).
    Gaussian {
        /// The rows that mean and covariance come from.
        reference: Background,
        /// Draws for each coalition and row, at least 2.
        draws: usize,
    },
    /// The same for normal scores: each column is first mapped to a normal distribution through its ranks (§3.2 there).
    Copula {
        /// The rows that ranks and correlations come from.
        reference: Background,
        /// Draws for each coalition and row, at least 2.
        draws: usize,
    },
    /// The reference rows, weighted by a conditional mean embedding given the present features (RKHS-SHAP).
    Embedding {
        /// The rows from which conditional distributions are learnt.
        reference: Background,
        /// How they are learnt; by default with a Gaussian kernel and median length scales.
        conditioning: Conditioning,
    },
}

impl Absence {
    /// What the reference or background is.
    pub fn background(&self) -> &Background {
        match self {
            Self::Background(rows) => rows,
            Self::Gaussian { reference, .. }
            | Self::Copula { reference, .. }
            | Self::Embedding { reference, .. } => reference,
        }
    }

    /// In a sentence for people.
    pub fn absent(&self) -> String {
        let rows = self.background().rows.rows();
        match self {
            Self::Background(_) => Game::Interventional { background: self.background().clone() }.absent(),
            Self::Gaussian { draws, .. } => format!(
                "absent features are {draws} draws from a normal distribution given the present ones, with mean and covariance of {rows} rows"
            ),
            Self::Copula { draws, .. } => format!(
                "absent features are {draws} draws from a Gaussian copula given the present ones, with ranks and correlations of {rows} rows"
            ),
            Self::Embedding { .. } => format!(
                "absent features follow their distribution given the present ones, learnt from {rows} reference rows"
            ),
        }
    }
}
