//! Settings of conditional mean embeddings.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::kernel::{
    Categorical, ColumnScaling, Kernel, LengthScale, Profile, Stationary, Structure, Term, length_scales,
};
use crate::table::{ColumnKind, Table};

/// The ridge of a conditional mean embedding.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ridge {
    /// A given η > 0, which is multiplied by the number of reference rows.
    Fixed(f64),
    /// The η of a grid from 1e-6 to 1 that best predicts left-out reference rows. For embeddings given any
    /// subset of several blocks of columns, the loss is averaged over sets of blocks of all sizes.
    #[default]
    CrossValidated,
}

/// The approximation of a conditional mean embedding.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approximation {
    /// All reference rows, by a factorisation: O(n³) for each set of columns, and n² numbers for each block
    /// of columns and each thread.
    #[default]
    Exact,
    /// All reference rows, by iteration: O(n² r) per step for r rows, and n · r numbers for each set of
    /// columns of a batch.
    ConjugateGradients(ConjugateGradients),
    /// The projection onto this number m of reference rows, drawn at random (Nyström): O(n m²).
    Landmarks(usize),
    /// This number m of random Fourier features: O(n m²).
    RandomFeatures(usize),
}

impl Approximation {
    /// The approximation that a number of landmarks or a tolerance of conjugate gradients selects; exact
    /// without either. Landmarks take precedence.
    pub fn selected(landmarks: Option<usize>, tolerance: Option<f64>) -> Self {
        match (landmarks, tolerance) {
            (Some(count), _) => Self::Landmarks(count),
            (None, Some(tolerance)) => {
                Self::ConjugateGradients(ConjugateGradients { tolerance, ..ConjugateGradients::default() })
            }
            (None, None) => Self::Exact,
        }
    }
}

/// Preconditioned block conjugate gradients, for reference rows whose kernel matrices exceed the memory.
///
/// The right-hand sides of all rows share their search directions. The sets of columns of a batch share the
/// kernel's factors, which are computed tile by tile in each step and not stored. The preconditioner is a
/// Nyström approximation. Sources: Rudi, Carratino and Rosasco 2017 (preconditioner); O'Leary 1980, Ji and Li
/// 2017 (blocks).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ConjugateGradients {
    /// Tolerated relative error of the weights of reference rows, between 0 and 1. The remaining residual
    /// becomes part of each value's error bound.
    pub tolerance: f64,
    /// Number of reference rows of the preconditioner; 0 for no preconditioner. It affects the number of
    /// steps, while the result stays within the tolerance.
    pub landmarks: usize,
    /// Maximum number of steps for a set of columns.
    pub iterations: usize,
}

impl Default for ConjugateGradients {
    /// A relative error of 1e-6, 500 landmarks, 500 steps.
    fn default() -> Self {
        Self { tolerance: 1e-6, landmarks: 500, iterations: 500 }
    }
}

/// The kernel of the conditioning columns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConditioningKernel {
    /// The model's kernel if it is one product over columns that reads all columns through separable factors.
    /// Otherwise a Gaussian with each column's median length scale, and equality of categories.
    #[default]
    Auto,
    /// The model's kernel, of any form, restricted to the conditioning columns: a Matérn kernel of the
    /// distance over all columns becomes one of the distance over these. For products over columns this
    /// leaves out the other columns' factors. For other kernels it is the published method (Chau, Hu,
    /// Gonzalez and Sejdinovic 2022, equation C.5). The terms' scales are divided by their sum, so that the
    /// meaning of a ridge does not depend on the scale.
    OwnFamily,
    /// One product of factors with scale 1. A joint function of several columns is restricted to the
    /// conditioning columns.
    Given(Kernel),
}

impl From<Option<Kernel>> for ConditioningKernel {
    /// The given kernel, if there is one.
    fn from(kernel: Option<Kernel>) -> Self {
        kernel.map_or(Self::Auto, Self::Given)
    }
}

impl ConditioningKernel {
    /// The kernel for these rows; `model_kernel` is the model's kernel, if there is a model.
    ///
    /// # Errors
    /// [`Error::Parameter`] if there is no model; the errors of [`Kernel::validate`].
    pub(crate) fn kernel(&self, model_kernel: Option<&Kernel>, rows: &Table) -> Result<Kernel> {
        let kernel = match (self, model_kernel) {
            (Self::Given(kernel), _) => kernel.clone(),
            (Self::OwnFamily, Some(family)) => {
                let total: f64 = family.terms.iter().map(|term| term.scale).sum();
                let normalised = |t: &Term| Term { scale: t.scale / total, factors: t.factors.clone() };
                Kernel { terms: family.terms.iter().map(normalised).collect() }
            }
            (Self::OwnFamily, None) => {
                let allowed = "there is no model whose kernel could be used: give the kernel";
                let name = "kernel of the conditional mean embedding";
                return Err(Error::parameter(name, "own family", allowed));
            }
            (Self::Auto, model_kernel) => model_kernel
                .and_then(|kernel| bounded_product(kernel, rows.width()))
                .map_or_else(|| median_gaussian(rows), Ok)?,
        };
        kernel.validate(rows.width())?;
        Ok(kernel)
    }
}

/// The kernel without its scale, if it is one product over columns of separable factors that read all
/// columns.
fn bounded_product(kernel: &Kernel, width: usize) -> Option<Kernel> {
    let [term] = kernel.terms.as_slice() else { return None };
    let read: BTreeSet<usize> = kernel.columns_read().collect();
    let bounded = term.factors.iter().all(|factor| factor.structure() == Structure::Separable);
    let unscaled = || Kernel { terms: vec![Term { scale: 1.0, factors: term.factors.clone() }] };
    (bounded && read.len() == width).then(unscaled)
}

/// A Gaussian kernel with each column's median length scale, and equality of categories.
pub(super) fn median_gaussian(rows: &Table) -> Result<Kernel> {
    let units = ColumnScaling::raw(rows.width());
    let mut factors = Vec::new();
    for (j, column) in rows.columns().iter().enumerate() {
        factors.push(match &column.kind {
            ColumnKind::Categorical { .. } => Categorical { columns: [j], similarity: 0.0 }.into(),
            ColumnKind::Numeric => Stationary {
                profile: Profile::Gaussian,
                columns: vec![j],
                length_scale: length_scales(rows, &[j], &units, LengthScale::MedianPerFeature)?,
                ard: true,
                isotropic: false,
            }
            .into(),
        });
    }
    Ok(Kernel { terms: vec![Term { scale: 1.0, factors }] })
}

/// Settings of conditional distributions that are learnt from reference rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditioning {
    /// The ridge.
    pub ridge: Ridge,
    /// The kernel of the conditioning columns.
    pub kernel: ConditioningKernel,
    /// The approximation.
    pub approximation: Approximation,
    /// Whether weights are centered, which shrinks predictions towards their mean over the reference rows
    /// (default). A model's intercept then has no influence.
    pub centered: bool,
    /// Seed for landmarks, for features, and for the sample that chooses the ridge.
    pub seed: u64,
    /// Maximum memory in bytes; [`Error::Memory`] refuses larger embeddings before they start. `None`, the
    /// default, is no limit. The limit describes the machine, so it is not serialised.
    #[serde(skip)]
    pub memory: Option<u64>,
}

impl Default for Conditioning {
    fn default() -> Self {
        let (ridge, kernel) = (Ridge::default(), ConditioningKernel::default());
        Self { ridge, kernel, approximation: Approximation::default(), centered: true, seed: 0, memory: None }
    }
}

impl Conditioning {
    /// Default settings with a given ridge.
    pub fn with_ridge(ridge: f64) -> Self {
        Self { ridge: Ridge::Fixed(ridge), ..Self::default() }
    }

    /// Checks that embeddings fit into the memory: for `rows` reference rows, any subset of `blocks` blocks
    /// of columns, and `extra` additional doubles. Messages call the embeddings `name`.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn check_memory(&self, name: &str, rows: usize, blocks: usize, extra: f64) -> Result<()> {
        let Some(available) = self.memory else { return Ok(()) };
        let (n, p, threads) = (rows as f64, blocks as f64, rayon::current_num_threads() as f64);
        // Memory that all sets of blocks share, plus one system for each thread.
        let doubles = match self.approximation {
            Approximation::Exact => (p + threads) * n * n,
            Approximation::Landmarks(m) => {
                let m = m.min(rows) as f64;
                p * m * m + threads * m * (2.0 * m + n)
            }
            Approximation::RandomFeatures(m) => threads * m as f64 * (m as f64 + n),
            // Conjugate gradients process rows in batches that fit.
            Approximation::ConjugateGradients(_) => 0.0,
        };
        let needed = 8.0 * (doubles + extra);
        if needed <= available as f64 {
            return Ok(());
        }
        Err(Error::Memory { subject: format!("{name} on {rows} reference rows"), needed, available })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approximations_need_less_memory() {
        let check = |approximation, memory| {
            let conditioning = Conditioning { approximation, memory, ..Conditioning::default() };
            conditioning.check_memory("embeddings", 100_000, 10, 0.0)
        };
        let limit = Some(16 << 30);
        let refused = check(Approximation::Exact, limit).unwrap_err().to_string();
        assert!(refused.contains("100000 reference rows") && refused.contains("GB are free"), "{refused}");
        assert!(check(Approximation::Landmarks(100), limit).is_ok());
        assert!(check(Approximation::RandomFeatures(100), limit).is_ok());
        assert!(check(Approximation::Landmarks(usize::MAX), limit).is_err());
        assert!(check(Approximation::RandomFeatures(usize::MAX), limit).is_err());
        assert!(check(Approximation::Exact, None).is_ok());
    }
}
