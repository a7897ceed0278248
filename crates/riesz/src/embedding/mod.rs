//! Conditional mean embeddings: what the rest of a row is like, given some of its columns.
//!
//! From reference rows `x_b` with weights `w_b` and a product kernel with one factor a player, the embedding of the rest of a
//! row given the players S at `x` is the weighted sum of the reference rows with the weights
//! `(K_S + η diag(1/w))⁻¹ k_S(x)`: a ridge regression on `x_S` whose targets are whole rows. With equal weights the ridge is `n η`.
//! Source: Song, Huang, Smola and Fukumizu 2009; Chau, Hu, Gonzalez and Sejdinovic 2022 (RKHS-SHAP), §3.

mod ridge;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::kernel::{
    Categorical, Columns, Factor, Kernel, Lengthscale, Profile, Stationary, Structure, Term, Units,
    lengthscales,
};
use crate::linalg::dot;
use crate::simd::Isa;
use crate::table::{ColumnKind, Groups, Table};

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

/// Conditional mean embeddings on reference rows, for any set of present players.
pub(crate) struct ConditionalMean {
    rows: Table,
    weights: Vec<f64>,
    kernel: Kernel,
    groups: Groups,
    /// By player: the factor between any two reference rows, column by column. Empty where the kernel has no factor of the
    /// player, which then says nothing of the others.
    grams: Vec<Vec<f64>>,
    ridge: f64,
}

impl ConditionalMean {
    /// Prepares embeddings given any players of `groups`. The weights are positive and sum to 1. Cost O(players · n²), and that of choosing the ridge.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a ridge that is not positive, or a kernel that is a sum; [`Error::NotProduct`] for one that ties
    /// players together.
    pub(crate) fn new(
        rows: Table,
        weights: Vec<f64>,
        kernel: Kernel,
        groups: &Groups,
        ridge: Ridge,
        seed: u64,
    ) -> Result<Self> {
        kernel.validate(rows.width())?;
        let n = rows.rows();
        let mut embedding =
            Self { rows, weights, kernel, groups: groups.clone(), grams: Vec::new(), ridge: 0.0 };
        embedding.grams = embedding.factors(&embedding.rows)?;
        embedding.ridge = match ridge {
            Ridge::Fixed(value) if value.is_finite() && value > 0.0 => value,
            Ridge::Fixed(value) => return Err(Error::parameter("ridge", value, "it is a positive number")),
            Ridge::CrossValidated => ridge::choose(&embedding.grams, n, seed)?,
        };
        Ok(embedding)
    }

    /// The kernel on what is conditioned on.
    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// η.
    pub(crate) fn ridge(&self) -> f64 {
        self.ridge
    }

    /// The reference rows.
    pub(crate) fn rows(&self) -> &Table {
        &self.rows
    }

    /// By player, the factor between any two reference rows.
    pub(crate) fn grams(&self) -> &[Vec<f64>] {
        &self.grams
    }

    /// The mean of numbers that belong to the reference rows.
    pub(crate) fn mean(&self, numbers: &[f64]) -> f64 {
        dot(numbers, &self.weights)
    }

    /// `η / w_b`: what is added to the diagonal.
    pub(crate) fn shift(&self, row: usize) -> f64 {
        self.ridge / self.weights[row]
    }

    /// By player, the factor between each reference row and each row of `x`: reference rows of the first row of `x`, then of the
    /// second, …
    pub(crate) fn factors(&self, x: &Table) -> Result<Vec<Vec<f64>>> {
        let products = self.kernel.products(self.rows.columns(), &self.groups)?;
        let [product] = products.as_slice() else {
            return Err(Error::parameter(
                "kernel of the conditional mean embedding",
                self.kernel.formula(),
                "it is one product of factors; leave it out for a Gaussian with the columns' median length scales",
            ));
        };
        let mut factors = vec![Vec::new(); self.groups.players().len()];
        for (k, &player) in product.players.iter().enumerate() {
            factors[player] = between(&self.rows, x, |u, v, out| product.factor(Isa::detect(), k, u, v, out));
        }
        Ok(factors)
    }
}

/// `fill(rows of u, row of x, out)` for every row of `x`, one after the other.
pub(crate) fn between(
    u: &Table,
    x: &Table,
    fill: impl Fn(Columns<'_>, &[f64], &mut [f64]) + Sync,
) -> Vec<f64> {
    let mut out = vec![0.0; u.rows() * x.rows()];
    out.par_chunks_mut(u.rows().max(1))
        .enumerate()
        .for_each(|(i, out)| fill(Columns::of(u, 0), &x.row(i), out));
    out
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
            ColumnKind::Categorical { .. } => {
                Factor::Categorical(Categorical { columns: [j], similarity: 0.0 })
            }
            ColumnKind::Numeric => Factor::Stationary(Stationary {
                profile: Profile::Gaussian,
                columns: vec![j],
                lengthscale: lengthscales(rows, &[j], &units, Lengthscale::MedianPerFeature)?,
                ard: true,
                isotropic: false,
            }),
        });
    }
    Ok(Kernel { terms: vec![Term { scale: 1.0, factors }] })
}
