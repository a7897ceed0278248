//! Conditional mean embeddings by random Fourier features instead of all reference rows. With the features
//! `Φ_S` (m × n) of the n reference rows and the rows' weights `w`, the weights at x are
//! `W_S(x) = diag(w) Φ_Sᵀ (Φ_S diag(w) Φ_Sᵀ + η I)⁻¹ φ_S(x)`. Cost O(n m²) instead of O(n³).

use super::blockwise_kernel::BlockKernel;
use crate::error::{Error, Result};
use crate::random::{Random, RngExt, SeedableRng};
use crate::table::Table;

/// Random Fourier features `√(2/m) cos(Σ_{j∈S} ω_ij x_j + b_i)` (Rahimi and Recht 2007). The frequency ω_ij
/// is drawn from the spectral density of the kernel's factor of column j. So the features of a set of blocks
/// depend on its columns alone.
pub(super) struct RandomFourierFeatures {
    /// For each block: its columns, and for each column one frequency per feature.
    blocks: Vec<Vec<(usize, Vec<f64>)>>,
    /// One shift for each feature.
    shift: Vec<f64>,
}

impl RandomFourierFeatures {
    pub(super) fn new(kernel: &BlockKernel, count: usize, seed: u64) -> Result<Self> {
        let mut random = Random::seed_from_u64(seed ^ 0x5EED_F0F0);
        let factors = kernel.factors().ok_or_else(|| unknown(kernel.kernel.formula()))?;
        let mut blocks = vec![Vec::new(); factors.len()];
        for factor in &kernel.kernel.terms[0].factors {
            for (slot, &j) in factor.columns().iter().enumerate() {
                let drawn: Option<Vec<f64>> =
                    (0..count).map(|_| factor.frequency(slot, &mut random)).collect();
                let drawn = drawn.ok_or_else(|| unknown(factor.formula()))?;
                kernel.block(j).into_iter().for_each(|b| blocks[b].push((j, drawn.clone())));
            }
        }
        let shift = (0..count).map(|_| random.random_range(0.0..std::f64::consts::TAU)).collect();
        Ok(Self { blocks, shift })
    }

    pub(super) fn count(&self) -> usize {
        self.shift.len()
    }

    /// For each block, the contribution of its columns to the arguments of the features: row by row of `x`,
    /// the features of a row being contiguous.
    pub(super) fn phases(&self, x: &Table) -> Vec<Vec<f64>> {
        let of_block = |columns: &Vec<(usize, Vec<f64>)>| {
            let mut out = vec![0.0; if columns.is_empty() { 0 } else { self.count() * x.rows() }];
            for (j, frequencies) in columns {
                for (row, out) in out.chunks_exact_mut(self.count()).enumerate() {
                    let value = x.get(row, *j);
                    out.iter_mut().zip(frequencies).for_each(|(o, w)| *o += w * value);
                }
            }
            out
        };
        self.blocks.iter().map(of_block).collect()
    }

    /// Writes the features of rows, given the arguments' contributions of the conditioning blocks.
    pub(super) fn features(&self, arguments: &[&[f64]], out: &mut [f64]) {
        let scale = (2.0 / self.count() as f64).sqrt();
        for (row, out) in out.chunks_exact_mut(self.count()).enumerate() {
            let range = row * self.count()..(row + 1) * self.count();
            out.copy_from_slice(&self.shift);
            for argument in arguments {
                out.iter_mut().zip(&argument[range.clone()]).for_each(|(o, a)| *o += a);
            }
            out.iter_mut().for_each(|o| *o = scale * o.cos());
        }
    }
}

fn unknown(kernel: String) -> Error {
    let allowed = "random features need a product over columns with known spectral densities: use \
                   landmarks instead";
    Error::parameter("kernel of the conditional mean embedding", kernel, allowed)
}
