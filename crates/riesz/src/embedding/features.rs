//! Conditional mean embeddings through few features instead of all reference rows: `W_S(x) = diag(w) Φ_Sᵀ (Φ_S diag(w) Φ_Sᵀ + η I)⁻¹ φ_S(x)`
//! with m features for n reference rows costs O(n m²) instead of O(n³).

use crate::error::{Error, Result};
use crate::kernel::{Factor, Kernel};
use crate::random::Random;
use crate::table::{Groups, Table};

/// Frequencies of random Fourier features: `√(2/m) cos(Σ_{j∈S} ω_ij x_j + b_i)` (Rahimi and Recht 2007), where ω_ij is drawn from the spectral
/// density of the kernel's factor of column j, so that the features of a coalition use the columns of its players alone.
pub(super) struct Frequencies {
    /// By player: its columns, and for each feature a frequency a column.
    players: Vec<Vec<(usize, Vec<f64>)>>,
    /// One a feature.
    shift: Vec<f64>,
}

impl Frequencies {
    pub(super) fn new(
        kernel: &Kernel,
        columns: usize,
        groups: &Groups,
        count: usize,
        seed: u64,
    ) -> Result<Self> {
        let mut random = Random(seed ^ 0x5EED_F0F0);
        let owner = groups.owners(columns);
        let mut players = vec![Vec::new(); groups.players().len()];
        for factor in &kernel.terms[0].factors {
            for (slot, &j) in factor.columns().iter().enumerate() {
                let drawn: Option<Vec<f64>> =
                    (0..count).map(|_| factor.frequency(slot, &mut random)).collect();
                players[owner[j]].push((j, drawn.ok_or_else(|| unknown(factor))?));
            }
        }
        let shift = (0..count).map(|_| 2.0 * std::f64::consts::PI * random.uniform()).collect();
        Ok(Self { players, shift })
    }

    pub(super) fn count(&self) -> usize {
        self.shift.len()
    }

    /// By player, what its columns add to each feature's argument: all features of the first row of `x`, then of the second, …
    pub(super) fn arguments(&self, x: &Table) -> Vec<Vec<f64>> {
        let of_player = |columns: &Vec<(usize, Vec<f64>)>| {
            let mut out = vec![0.0; if columns.is_empty() { 0 } else { self.count() * x.rows() }];
            for (j, frequencies) in columns {
                for (row, out) in out.chunks_exact_mut(self.count()).enumerate() {
                    let value = x.get(row, *j);
                    out.iter_mut().zip(frequencies).for_each(|(o, w)| *o += w * value);
                }
            }
            out
        };
        self.players.iter().map(of_player).collect()
    }

    /// The features of rows, from the arguments of the players present.
    pub(super) fn features(&self, arguments: &[&[f64]], out: &mut [f64]) {
        let scale = (2.0 / self.count() as f64).sqrt();
        for (row, out) in out.chunks_exact_mut(self.count()).enumerate() {
            let own = row * self.count()..(row + 1) * self.count();
            out.copy_from_slice(&self.shift);
            for argument in arguments {
                out.iter_mut().zip(&argument[own.clone()]).for_each(|(o, a)| *o += a);
            }
            out.iter_mut().for_each(|o| *o = scale * o.cos());
        }
    }
}

fn unknown(factor: &Factor) -> Error {
    let allowed = "random features take products over columns whose spectral densities are known: use landmarks instead";
    Error::parameter("kernel of the conditional mean embedding", factor.formula(), allowed)
}
