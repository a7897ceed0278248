//! Conditional mean embeddings: what the rest of a row is like, given some of its columns.
//!
//! From reference rows `x_b` with weights `w_b` and a product kernel with one factor a player, the embedding of the rest of a
//! row given the players S at `x` is the weighted sum of the reference rows with the weights
//! `(K_S + η diag(1/w))⁻¹ k_S(x)`: a ridge regression on `x_S` whose targets are whole rows. With equal weights the ridge is `n η`.
//! They are computed as `D^½ (D^½ K_S D^½ + η I)⁻¹ D^½ k_S(x)` with `D = diag(w)`, which small weights do not upset.
//! Source: Song, Huang, Smola and Fukumizu 2009; Chau, Hu, Gonzalez and Sejdinovic 2022 (RKHS-SHAP), §3.

mod factored;
mod features;
mod iterative;
mod memory;
mod ridge;
mod tiles;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::kernel::products::PlayerProduct;
use crate::kernel::{
    Categorical, Kernel, Lengthscale, Profile, Stationary, Structure, Term, Units, lengthscales,
};
use crate::linalg::dot;
use crate::random::Random;
use crate::table::{ColumnKind, Groups, Table};
pub(crate) use factored::{ConditionalMean, System, between, multiply, products, split};
pub(crate) use iterative::{IterativeMean, Solved};
pub(crate) use tiles::{Tiles, blocks};

/// How much a conditional mean embedding is smoothed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ridge {
    /// A given η > 0. It is multiplied by the number of reference rows.
    Fixed(f64),
    /// The η of a grid from 1e-6 to 1 that predicts left-out reference rows best, over coalitions of all sizes.
    #[default]
    CrossValidated,
}

/// What conditional distributions are learnt through.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approximation {
    /// All reference rows, by a factorisation: O(n³) for each coalition, and n² numbers for each player and thread.
    #[default]
    Exact,
    /// All reference rows, by iteration: O(n² r) a step for r rows explained, and n · r numbers for each coalition of a batch.
    ConjugateGradients(ConjugateGradients),
    /// The projection on so many of the reference rows, drawn at random (Nyström): O(n m²).
    Landmarks(usize),
    /// So many random Fourier features: O(n m²).
    RandomFeatures(usize),
}

/// Preconditioned block conjugate gradients: the way to use more reference rows than fit into memory as matrices.
///
/// The right sides of all rows explained share their search directions, and the coalitions of a batch share the kernel's factors, which
/// are computed tile by tile in each step and not kept. The preconditioner is Nyström's. Sources: Rudi, Carratino and Rosasco 2017 (the
/// preconditioner); O'Leary 1980, Ji and Li 2017 (blocks).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ConjugateGradients {
    /// How far the weights of reference rows may be off, relative to what they are computed from: between 0 and 1. What is left of the
    /// residual becomes part of each value's error bound.
    pub tolerance: f64,
    /// Reference rows that the preconditioner is made of; none without one. It decides how many steps are taken, and no value.
    pub landmarks: usize,
    /// Steps after which a coalition is given up.
    pub iterations: usize,
}

impl Default for ConjugateGradients {
    /// A relative error of 1e-6, 500 landmarks, 500 steps.
    fn default() -> Self {
        Self { tolerance: 1e-6, landmarks: 500, iterations: 500 }
    }
}

/// How conditional distributions are learnt from reference rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conditioning {
    /// How much they are smoothed.
    pub ridge: Ridge,
    /// The kernel that says how alike rows are in what is conditioned on, one product of factors: by default the model's own
    /// if it is one bounded product over all columns, else a Gaussian with each column's median length scale.
    pub kernel: Option<Kernel>,
    /// What they are learnt through.
    pub approximation: Approximation,
    /// Whether what is predicted is shrunk towards its mean over the reference (default), so that a model that says the same everywhere gives
    /// nobody any value. The weights of reference rows sum to less than 1, and as published what is predicted is shrunk towards
    /// the model's intercept.
    pub centred: bool,
    /// Seed of landmarks, features, and of the sample that the ridge is chosen on.
    pub seed: u64,
    /// Bytes of memory that may be taken: what would take more is refused beforehand, with [`Error::Memory`]. `None`, the
    /// default, for no limit. A matter of the machine, and no part of a question's serialised form.
    #[serde(skip)]
    pub memory: Option<u64>,
}

impl Default for Conditioning {
    fn default() -> Self {
        let (ridge, approximation) = (Ridge::default(), Approximation::default());
        Self { ridge, kernel: None, approximation, centred: true, seed: 0, memory: None }
    }
}

impl Conditioning {
    /// With a given ridge.
    pub fn with_ridge(ridge: f64) -> Self {
        Self { ridge: Ridge::Fixed(ridge), ..Self::default() }
    }
}

/// What all forms of conditional mean embeddings are learnt from.
pub(crate) struct Learnt {
    pub(crate) rows: Table,
    /// Positive; their sum is 1.
    pub(crate) weights: Vec<f64>,
    /// Says how alike rows are in what is conditioned on.
    pub(crate) kernel: Kernel,
    pub(crate) groups: Groups,
    /// η.
    pub(crate) ridge: f64,
}

impl Learnt {
    /// Checks the kernel, and chooses the ridge where none is given. The weights are positive and sum to 1.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a ridge that is not positive, or a kernel that is a sum; [`Error::NotProduct`] for one that ties
    /// players together; [`Error::Memory`].
    pub(crate) fn new(
        rows: Table,
        weights: Vec<f64>,
        kernel: Kernel,
        groups: &Groups,
        conditioning: &Conditioning,
    ) -> Result<Self> {
        kernel.validate(rows.width())?;
        conditioning.check_memory(rows.rows(), groups.players().len(), 0.0)?;
        let products = product(&kernel, &rows, groups)?;
        let ridge = match conditioning.ridge {
            Ridge::Fixed(value) if value.is_finite() && value > 0.0 => value,
            Ridge::Fixed(value) => return Err(Error::parameter("ridge", value, "it is a positive number")),
            Ridge::CrossValidated => {
                let (chosen, own) = ridge::rows(&rows, &weights, conditioning.seed);
                let chosen = rows.select_rows(&chosen);
                let factors = factored::factors(&products, groups, &chosen, &chosen);
                ridge::choose(&factors, &own, conditioning.seed)?
            }
        };
        Ok(Self { rows, weights, kernel, groups: groups.clone(), ridge })
    }

    /// The one product that the kernel is.
    pub(crate) fn product(&self) -> Result<PlayerProduct<'_>> {
        product(&self.kernel, &self.rows, &self.groups)
    }

    /// Some of the reference rows, drawn at random.
    fn landmarks(&self, count: usize, seed: u64) -> Table {
        let mut order: Vec<usize> = (0..self.rows.rows()).collect();
        Random(seed).shuffle(&mut order);
        order.truncate(count);
        self.rows.select_rows(&order)
    }

    /// The mean of numbers that belong to the reference rows.
    pub(crate) fn mean(&self, numbers: &[f64]) -> f64 {
        dot(numbers, &self.weights)
    }
}

/// The one product that the kernel is.
fn product<'k>(kernel: &'k Kernel, rows: &Table, groups: &Groups) -> Result<PlayerProduct<'k>> {
    let mut products = kernel.products(rows.columns(), groups)?;
    match (products.pop(), products.is_empty()) {
        (Some(product), true) if product.scale == 1.0 => Ok(product),
        _ => Err(Error::parameter(
            "kernel of the conditional mean embedding",
            kernel.formula(),
            "it is one product of factors, of scale 1; leave it out for a Gaussian with the columns' median length scales",
        )),
    }
}

/// The kernel that says how alike two rows are in what is conditioned on: the model's own if it is one product of bounded
/// factors over all columns, else a Gaussian with each column's median length scale and equality of categories.
pub(crate) fn default_kernel(model: &Kernel, rows: &Table) -> Result<Kernel> {
    if let [term] = model.terms.as_slice() {
        let mut read: Vec<usize> = term.factors.iter().flat_map(|f| f.columns()).copied().collect();
        read.sort_unstable();
        read.dedup();
        let bounded = term.factors.iter().all(|factor| factor.structure() == Structure::Separable);
        if bounded && read.len() == rows.width() {
            return Ok(Kernel { terms: vec![Term { scale: 1.0, factors: term.factors.clone() }] });
        }
    }
    let units = Units::raw(rows.width());
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
