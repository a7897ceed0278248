//! How conditional distributions are learnt.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::kernel::{
    Categorical, ColumnScaling, Kernel, Lengthscale, Profile, Stationary, Structure, Term, lengthscales,
};
use crate::table::{ColumnKind, Table};

/// How much a conditional mean embedding is smoothed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ridge {
    /// A given η > 0. It is multiplied by the number of reference rows.
    Fixed(f64),
    /// The η of a grid from 1e-6 to 1 that predicts left-out reference rows best; where embeddings are given
    /// any of several blocks of columns, over sets of blocks of all sizes.
    #[default]
    CrossValidated,
}

/// What conditional distributions are learnt through.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approximation {
    /// All reference rows, by a factorisation: O(n³) for each set of columns, and n² numbers for each block
    /// of columns and thread.
    #[default]
    Exact,
    /// All reference rows, by iteration: O(n² r) a step for r rows, and n · r numbers for each set of columns
    /// of a batch.
    ConjugateGradients(ConjugateGradients),
    /// The projection on so many of the reference rows, drawn at random (Nyström): O(n m²).
    Landmarks(usize),
    /// So many random Fourier features: O(n m²).
    RandomFeatures(usize),
}

/// Preconditioned block conjugate gradients: the way to use more reference rows than fit into memory as
/// matrices.
///
/// The right sides of all rows share their search directions, and the sets of columns of a batch share the
/// kernel's factors, which are computed tile by tile in each step and not kept. The preconditioner is
/// Nyström's. Sources: Rudi, Carratino and Rosasco 2017 (the preconditioner); O'Leary 1980, Ji and Li 2017
/// (blocks).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ConjugateGradients {
    /// How far the weights of reference rows may be off, relative to what they are computed from: between 0
    /// and 1. What is left of the residual becomes part of each value's error bound.
    pub tolerance: f64,
    /// Reference rows that the preconditioner is made of; none without one. It decides how many steps are
    /// taken, and no value.
    pub landmarks: usize,
    /// Steps after which a set of columns is given up.
    pub iterations: usize,
}

impl Default for ConjugateGradients {
    /// A relative error of 1e-6, 500 landmarks, 500 steps.
    fn default() -> Self {
        Self { tolerance: 1e-6, landmarks: 500, iterations: 500 }
    }
}

/// The kernel that says how alike rows are in what is conditioned on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConditioningKernel {
    /// The model's own if it is one product over columns, all of them, of bounded factors; else a Gaussian
    /// with each column's median length scale, and equality of categories.
    #[default]
    Auto,
    /// The model's own, of whatever form, taken to the columns that are given: a Matérn kernel of the
    /// distance over all columns becomes one of the distance over these. For products over columns that is
    /// leaving out the others' factors; for other kernels it is what is published (Chau, Hu, Gonzalez and
    /// Sejdinovic 2022, equation C.5). Its terms' scales are divided by their sum, so that a ridge means the
    /// same whatever the scale.
    OwnFamily,
    /// One product of factors, of scale 1. A factor that ties columns together is taken to those that are
    /// given.
    Given(Kernel),
}

impl From<Option<Kernel>> for ConditioningKernel {
    /// The one that is given, if there is one.
    fn from(given: Option<Kernel>) -> Self {
        given.map_or(Self::Auto, Self::Given)
    }
}

impl ConditioningKernel {
    /// The kernel that is meant for these rows, where `own` is the model's.
    ///
    /// # Errors
    /// [`Error::Parameter`] if there is no model; those of [`Kernel::validate`].
    pub(crate) fn kernel(&self, own: Option<&Kernel>, rows: &Table) -> Result<Kernel> {
        let kernel = match (self, own) {
            (Self::Given(kernel), _) => kernel.clone(),
            (Self::OwnFamily, Some(own)) => {
                let total: f64 = own.terms.iter().map(|term| term.scale).sum();
                let of = |t: &Term| Term { scale: t.scale / total, factors: t.factors.clone() };
                Kernel { terms: own.terms.iter().map(of).collect() }
            }
            (Self::OwnFamily, None) => {
                let allowed = "there is no model with a kernel of its own to take it from: give the kernel";
                return Err(Error::parameter(
                    "kernel of the conditional mean embedding",
                    "own family",
                    allowed,
                ));
            }
            (Self::Auto, own) => match own.and_then(|own| bounded_product(own, rows.width())) {
                Some(own) => own,
                None => median_gaussian(rows)?,
            },
        };
        kernel.validate(rows.width())?;
        Ok(kernel)
    }
}

/// The kernel without its scale, if it is one product over columns of bounded factors, which read them all.
fn bounded_product(kernel: &Kernel, width: usize) -> Option<Kernel> {
    let [term] = kernel.terms.as_slice() else { return None };
    let mut read: Vec<usize> = term.factors.iter().flat_map(|f| f.columns()).copied().collect();
    read.sort_unstable();
    read.dedup();
    let bounded = term.factors.iter().all(|factor| factor.structure() == Structure::Separable);
    let own = || Kernel { terms: vec![Term { scale: 1.0, factors: term.factors.clone() }] };
    (bounded && read.len() == width).then(own)
}

/// A Gaussian with each column's median length scale, and equality of categories.
pub(super) fn median_gaussian(rows: &Table) -> Result<Kernel> {
    let units = ColumnScaling::raw(rows.width());
    let mut factors = Vec::new();
    for (j, column) in rows.columns().iter().enumerate() {
        factors.push(match &column.kind {
            ColumnKind::Categorical { .. } => Categorical { columns: [j], similarity: 0.0 }.into(),
            ColumnKind::Numeric => Stationary {
                profile: Profile::Gaussian,
                columns: vec![j],
                lengthscale: lengthscales(rows, &[j], &units, Lengthscale::MedianPerFeature)?,
                ard: true,
                isotropic: false,
            }
            .into(),
        });
    }
    Ok(Kernel { terms: vec![Term { scale: 1.0, factors }] })
}

/// How conditional distributions are learnt from reference rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditioning {
    /// How much they are smoothed.
    pub ridge: Ridge,
    /// The kernel that says how alike rows are in what is conditioned on.
    pub kernel: ConditioningKernel,
    /// What they are learnt through.
    pub approximation: Approximation,
    /// Whether what is predicted is shrunk towards its mean over the reference (default), so that a model
    /// that says the same everywhere gives nobody any value. The weights of reference rows sum to less than
    /// 1, and as published what is predicted is shrunk towards the model's intercept, or 0 where there is no
    /// model.
    pub centred: bool,
    /// Seed of landmarks, features, and of the sample that the ridge is chosen on.
    pub seed: u64,
    /// Bytes of memory that may be taken: what would take more is refused beforehand, with [`Error::Memory`].
    /// `None`, the default, for no limit. A matter of the machine, and no part of a question's serialised
    /// form.
    #[serde(skip)]
    pub memory: Option<u64>,
}

impl Default for Conditioning {
    fn default() -> Self {
        let (ridge, kernel) = (Ridge::default(), ConditioningKernel::default());
        Self { ridge, kernel, approximation: Approximation::default(), centred: true, seed: 0, memory: None }
    }
}

impl Conditioning {
    /// With a given ridge.
    pub fn with_ridge(ridge: f64) -> Self {
        Self { ridge: Ridge::Fixed(ridge), ..Self::default() }
    }

    /// Refuses what would take more memory than there is: embeddings on so many reference rows given any of
    /// so many blocks of columns, and `more` doubles beside them. `whose` they are is said.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn check_memory(&self, whose: &str, rows: usize, blocks: usize, more: f64) -> Result<()> {
        let Some(available) = self.memory else { return Ok(()) };
        let (n, p, threads) = (rows as f64, blocks as f64, rayon::current_num_threads() as f64);
        // What all sets of blocks share, and the system of the one that each thread is at.
        let doubles = match self.approximation {
            Approximation::Exact => (p + threads) * n * n,
            Approximation::Landmarks(m) => {
                let m = m.min(rows) as f64;
                p * m * m + threads * m * (2.0 * m + n)
            }
            Approximation::RandomFeatures(m) => threads * m as f64 * (m as f64 + n),
            // Takes its rows in portions that fit.
            Approximation::ConjugateGradients(_) => 0.0,
        };
        let needed = 8.0 * (doubles + more);
        if needed <= available as f64 {
            return Ok(());
        }
        Err(Error::Memory { what: format!("{whose} on {rows} reference rows"), needed, available })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approximations_need_less() {
        let check = |approximation, memory| {
            let conditioning = Conditioning { approximation, memory, ..Conditioning::default() };
            conditioning.check_memory("embeddings", 100_000, 10, 0.0)
        };
        let some = Some(16 << 30);
        let refused = check(Approximation::Exact, some).unwrap_err().to_string();
        assert!(refused.contains("100000 reference rows") && refused.contains("GB are free"), "{refused}");
        assert!(check(Approximation::Landmarks(100), some).is_ok());
        assert!(check(Approximation::RandomFeatures(100), some).is_ok());
        assert!(check(Approximation::Landmarks(usize::MAX), some).is_err());
        assert!(check(Approximation::RandomFeatures(usize::MAX), some).is_err());
        assert!(check(Approximation::Exact, None).is_ok());
    }
}
