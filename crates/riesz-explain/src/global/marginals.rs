//! Factors of a model's products under the marginal distributions of its inputs: the distinct values of each
//! player's columns with their probabilities, and for each support point the factors at these values and
//! their means.

use std::collections::HashMap;

use rayon::prelude::*;

use crate::control::RunControl;
use crate::error::Result;
use crate::game::{Background, ReferenceRows, TERMS};
use crate::kernel::Columns;
use crate::kernel::player_products::PlayerProduct;
use crate::kernel::rounding_bounds::{ColumnRanges, RoundingBound};
use crate::kernel_model::KernelExpansion;
use crate::linalg::add_to;
use crate::linalg::small_dense::add_outer_product;
use crate::simd::{Isa, LANES};
use crate::table::{Players, Table};

/// The number of support points in a panel.
pub(super) const TILE: usize = 32;

/// The number of a player's values over which products are summed in one step.
const BATCH_VALUES: usize = 64;

/// The distribution of inputs with independent players, whose marginals are those of a table.
pub(super) struct InputMarginals {
    /// For each player, the distinct values of its columns with their probabilities: whole rows, of which
    /// only the player's columns matter.
    pub(super) atoms: Vec<ReferenceRows>,
    /// The smallest and the largest number of each column.
    pub(super) reach: Vec<[f64; 2]>,
    /// The number of roundings of a probability.
    pub(super) roundings: usize,
}

impl InputMarginals {
    /// Creates the distribution; rows that are equal in a player's columns are merged.
    pub(super) fn new(inputs: &Background, model: &KernelExpansion, groups: &Players) -> Result<Self> {
        let reference = ReferenceRows::new(inputs, model.columns())?;
        let table: Table = reference.table(model.columns())?;
        let count = reference.rows.len();
        let (total, roundings) = match inputs.weights {
            Some(_) => (1.0, 3 + 2 * count),
            None => (count as f64, 1),
        };
        let weight = |i: usize| if inputs.weights.is_some() { reference.weights[i] } else { 1.0 };
        let distinct_values = |columns: &[usize]| {
            let mut seen: HashMap<Vec<u64>, usize> = HashMap::new();
            let mut atoms = ReferenceRows { rows: Vec::new(), weights: Vec::new() };
            for (i, row) in reference.rows.iter().enumerate() {
                // 0 and -0 are one number.
                let key = columns.iter().map(|&j| (row[j] + 0.0).to_bits()).collect();
                let position = *seen.entry(key).or_insert(atoms.rows.len());
                if position == atoms.rows.len() {
                    atoms.rows.push(row.clone());
                    atoms.weights.push(0.0);
                }
                atoms.weights[position] += weight(i);
            }
            atoms.weights.iter_mut().for_each(|w| *w /= total);
            atoms
        };
        let atoms = groups.players().iter().map(|player| distinct_values(&player.columns)).collect();
        Ok(Self {
            atoms,
            reach: ColumnRanges::per_column(Columns::from_row(&table, 0), table.width()),
            roundings,
        })
    }
}

/// The factors of one product for the support points of a panel.
#[derive(Default)]
pub(super) struct FactorPanel {
    /// For each factor, values of the player × points (points vary fastest): the factor times the square root
    /// of the value's probability.
    factors: Vec<Vec<f64>>,
    /// For each factor and point, the mean over the values.
    pub(super) means: Vec<[f64; TILE]>,
    /// For each factor and point, the root mean square of magnitudes, an upper bound on means of products.
    pub(super) sizes: Vec<[f64; TILE]>,
}

impl FactorPanel {
    /// Adds `Σ_b π_b k(x_i, b) k'(x_c, b)` to `out`, points × points, over the values b with probabilities
    /// π_b. Here k is factor `k` of this product and k' factor `l` of another product, both of the same
    /// player. The index i of a point of this panel varies slowest.
    pub(super) fn products(&self, k: usize, other: &Self, l: usize, out: &mut [f64]) {
        let (left_chunks, right_chunks) =
            (self.factors[k].chunks(TILE * BATCH_VALUES), other.factors[l].chunks(TILE * BATCH_VALUES));
        let mut batch_sums = [0.0; TILE * TILE];
        for (left, right) in left_chunks.zip(right_chunks) {
            batch_sums.fill(0.0);
            add_outer_product(&mut batch_sums, right, left, TILE);
            add_to(out, &batch_sums);
        }
    }
}

/// The factors of a product at all support points.
pub(super) struct FactorTable {
    pub(super) panels: Vec<FactorPanel>,
    /// The rounding bound of each factor, and that of all factors together.
    pub(super) precision: (Vec<RoundingBound>, RoundingBound),
    /// For each factor, the number of roundings of its means and of means of its products, in addition to
    /// those of the factors.
    pub(super) roundings: Vec<usize>,
    /// Whether errors are relative to magnitudes.
    pub(super) relative_to_size: bool,
    /// Whether no factor is larger than 1.
    pub(super) bounded: bool,
}

impl FactorTable {
    /// Computes the factors of `product`. Cost and memory O(points · values) for each factor.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub(super) fn new(
        product: &PlayerProduct<'_>,
        model: &KernelExpansion,
        inputs: &InputMarginals,
        isa: Isa,
        control: RunControl<'_>,
    ) -> Result<Self> {
        let (n, d) = (model.support_points.rows(), model.support_points.width());
        let ranges = ColumnRanges {
            u: ColumnRanges::per_column(Columns::from_row(&model.support_points, 0), d),
            v: inputs.reach.clone(),
        };
        let relative_to_size = product.cancels(true);
        let panel = |from: usize| -> Result<FactorPanel> {
            let point_values =
                |j: usize| (0..TILE).map(move |i| model.support_points.get((from + i).min(n - 1), j));
            let points: Vec<f64> = (0..d).flat_map(point_values).collect();
            let u = Columns::new(&points, TILE, 0, TILE);
            let mut out = FactorPanel::default();
            for (k, &player) in product.players.iter().enumerate() {
                control.check_cancelled()?;
                let ReferenceRows { rows, weights } = &inputs.atoms[player];
                let mut factors = vec![0.0; rows.len() * TILE];
                let (mut mean, mut square, mut size) = ([0.0; TILE], [0.0; TILE], [0.0; TILE]);
                let chunks = rows.chunks(TERMS).zip(weights.chunks(TERMS));
                for ((rows, weights), factors) in chunks.zip(factors.chunks_mut(TERMS * TILE)) {
                    let mut batch_sums = [0.0; TILE];
                    for ((row, weight), out) in rows.iter().zip(weights).zip(factors.chunks_exact_mut(TILE)) {
                        product.factor(isa, k, u, row, out);
                        batch_sums.iter_mut().zip(&*out).for_each(|(sum, f)| *sum += weight * f);
                        // Another product's errors may be relative to sizes where those of this product are
                        // not.
                        if relative_to_size {
                            product.size(isa, k, u, row, &mut size);
                        } else {
                            size.copy_from_slice(out);
                        }
                        square.iter_mut().zip(size).for_each(|(sum, f)| *sum += weight * f * f);
                        let root = weight.sqrt();
                        out.iter_mut().for_each(|f| *f *= root);
                    }
                    add_to(&mut mean, &batch_sums);
                }
                out.factors.push(factors);
                out.means.push(mean);
                out.sizes.push(square.map(|s: f64| s.sqrt() * (1.0 + 1e-9)));
            }
            Ok(out)
        };
        let panels = (0..n).into_par_iter().step_by(TILE).map(panel).collect::<Result<_>>()?;
        let roundings = |player: &usize| {
            let count = inputs.atoms[*player].rows.len();
            let mean_roundings = TERMS + count.div_ceil(TERMS) + 3 + inputs.roundings;
            // Square roots of probabilities, multiplication by them, products, and sums in two steps.
            let product_roundings =
                8 + 2 * inputs.roundings + BATCH_VALUES + count.div_ceil(BATCH_VALUES) + LANES;
            product_roundings.max(2 * mean_roundings + 1)
        };
        Ok(Self {
            panels,
            precision: product.precision(&ranges),
            roundings: product.players.iter().map(roundings).collect(),
            relative_to_size,
            bounded: product.unbounded() == 0,
        })
    }
}
