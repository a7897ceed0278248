//! Covariance terms between all pairs of coalitions: kernels between weighted mixed rows, whose present
//! columns come from a row and whose absent columns come from reference rows.
//!
//! A coalition S, a row x and reference rows b with weights `W_S,b` give the weighted rows `(x_S, b_-S)`. A
//! coalition T, a row x' and reference rows c with weights `W'_T,c`, which may be other rows, give `(x'_T,
//! c_-T)`. For a product kernel k with one factor per player, the weighted sum of the kernel between the rows
//! of both sides is
//!
//! `k_{S∩T}(x, x') Σ_{b,c} (W_S,b k_{T∖S}(b, x')) k_{-(S∪T)}(b, c) (W'_T,c k_{S∖T}(x, c))`.
//!
//! The middle factor depends only on the union U of S and T; T∖S is U∖S, and S∖T is U∖T. For each U, one
//! product of a matrix (reference × reference) with as many vectors as U has subsets therefore serves all
//! pairs. This takes 3^players · reference² operations in total. Source: our own.

use rayon::prelude::*;

use crate::error::Result;
use crate::kernel::Kernel;
use crate::linalg::{Matrix, add_multiple, dot, multiply_entries};
use crate::table::Table;

/// Largest number of players for which covariances are computed from pairs of coalitions. Each additional
/// player takes three to four times as long and, in the game of independent parts, four times the memory.
pub const MOST_PLAYERS: usize = 12;

/// Reference rows, and the rows that are mixed with them.
pub(crate) type MixedRows<'t> = (&'t Table, &'t Table);

/// Factors of a product kernel between the rows of both sides.
pub(crate) struct MixedKernels {
    /// For each player, the kernel between reference rows (reference × reference).
    reference: Vec<Matrix>,
    /// For each set of players, the kernel between one side's reference rows and the other side's rows (rows
    /// × reference); one list serves both sides if they are the same.
    mixed: Vec<Vec<Matrix>>,
    /// For each set of players, the kernel between the rows of both sides.
    present: Vec<Matrix>,
}

impl MixedKernels {
    /// Builds the tables from one kernel per player; `second` is `None` if both sides are the same rows.
    pub(crate) fn new(kernels: &[Kernel], first: MixedRows<'_>, second: Option<MixedRows<'_>>) -> Self {
        let other = second.unwrap_or(first);
        let subset_products = |u: &Table, v: &Table| {
            let mut products =
                vec![Matrix::from_row_major(u.rows(), v.rows(), vec![1.0; u.rows() * v.rows()])];
            for set in 1..1_usize << kernels.len() {
                // The product without the largest player, times this player's kernel.
                let player = set.ilog2() as usize;
                let smaller_set = set ^ 1 << player;
                if smaller_set == 0 {
                    products.push(kernels[player].cross_gram(u, v));
                    continue;
                }
                let mut product = products[1 << player].clone();
                multiply_entries(product.data_mut(), products[smaller_set].data());
                products.push(product);
            }
            products
        };
        let gram = |kernel: &Kernel| match second {
            Some((reference, _)) => kernel.cross_gram(first.0, reference),
            None => kernel.gram(first.0),
        };
        let reversed = second.map(|(reference, _)| subset_products(first.1, reference));
        Self {
            reference: kernels.iter().map(gram).collect(),
            mixed: [subset_products(other.1, first.0)].into_iter().chain(reversed).collect(),
            present: subset_products(first.1, other.1),
        }
    }

    /// The kernel between reference rows over the players outside `union` (reference × reference).
    pub(crate) fn absent(&self, union: usize) -> Matrix {
        let mut absent = self.reference.iter().enumerate().filter(|(j, _)| union >> j & 1 == 0);
        let size = &self.reference[0];
        let all_ones = || Matrix::from_row_major(size.rows(), size.cols(), vec![1.0; size.data().len()]);
        let mut out = absent.next().map_or_else(all_ones, |(_, gram)| gram.clone());
        absent.for_each(|(_, gram)| multiply_entries(out.data_mut(), gram.data()));
        out
    }

    /// Adds kernel sums for all pairs of coalitions with this union: `scale` times the sum between the mixed
    /// rows of row r and of row s. [`PairIndex`] gives the index of each pair in `out`. `absent` is the
    /// [matrix of the union](Self::absent), and `same` says whether both sides are the same rows. `left` and
    /// `right` give the weights of a coalition.
    pub(crate) fn add<'w>(
        &self,
        pair_index: &PairIndex,
        (absent, scale): (&Matrix, f64),
        ((r, s), same): ((usize, usize), bool),
        (left, right): (impl Fn(usize) -> &'w [f64], impl Fn(usize) -> &'w [f64]),
        out: &mut [f64],
    ) {
        let union = pair_index.union;
        // One row per subset.
        let side = |weights: &dyn Fn(usize) -> &'w [f64], mixed: &[Matrix], other: usize| {
            let width = mixed[0].cols();
            let mut weighted = Vec::with_capacity(pair_index.subsets.len() * width);
            for &set in &pair_index.subsets {
                let products = weights(set).iter().zip(mixed[union ^ set].row(other));
                weighted.extend(products.map(|(weight, factor)| weight * factor));
            }
            Matrix::from_row_major(pair_index.subsets.len(), width, weighted)
        };
        let first = side(&left, &self.mixed[0], s);
        let second = (!same).then(|| side(&right, &self.mixed[self.mixed.len() - 1], r));
        let (products, second) = (first.matmul(absent), second.as_ref().unwrap_or(&first));
        for (position, &subset) in pair_index.subsets.iter().enumerate() {
            for common in subsets(subset) {
                let set = union ^ subset | common;
                let sum = dot(products.row(position), second.row(pair_index.rank[set]));
                out[pair_index.pair_index(set, common)] += scale * self.present[common][(r, s)] * sum;
            }
        }
    }
}

/// Indices of the pairs of coalitions with a given union; there are 3 to the power of its number of players.
pub(crate) struct PairIndex {
    pub(crate) union: usize,
    /// Subsets of the union, ascending.
    subsets: Vec<usize>,
    /// For each subset, its position in `subsets`.
    rank: Vec<usize>,
    /// For each subset, the sum of powers of 3 of its players' positions in the union: its contribution to a
    /// pair's index.
    pub(crate) powers: Vec<usize>,
}

impl PairIndex {
    pub(crate) fn new(union: usize) -> Self {
        let subsets: Vec<usize> = subsets(union).collect();
        let (mut rank, mut powers) = (vec![0; union + 1], vec![0; union + 1]);
        for (position, &set) in subsets.iter().enumerate() {
            rank[set] = position;
            // Bit k of the position belongs to the k-th player of the union.
            powers[set] = (0..union.count_ones()).map(|k| (position >> k & 1) * 3_usize.pow(k)).sum();
        }
        Self { union, subsets, rank, powers }
    }

    /// The number of pairs.
    pub(crate) fn count(union: usize) -> usize {
        3_usize.pow(union.count_ones())
    }

    /// Index of the pair of a coalition and `second` that share the players `common`. Each player of the
    /// union is in the first coalition alone, in the second alone, or in both.
    pub(crate) fn pair_index(&self, second: usize, common: usize) -> usize {
        self.powers[second] + self.powers[common]
    }
}

/// Adds to `out` (players × players) the sum of `number(second, common)` over all pairs of coalitions with
/// this union. Each number is multiplied by the first coalition's coefficients in the players' values
/// (`left`, rows of `out`) and by the second coalition's (`right`, columns).
pub(crate) fn add_counted(
    union: usize,
    (left, right): (&[Vec<f64>], &[Vec<f64>]),
    number: impl Fn(usize, usize) -> f64,
    out: &mut Matrix,
) {
    let mut sums = vec![0.0; out.cols()];
    for subset in subsets(union) {
        sums.fill(0.0);
        for common in subsets(subset) {
            let other = union ^ subset | common;
            add_multiple(&mut sums, number(other, common), &right[other]);
        }
        out.add_outer(left[subset].iter().copied(), &sums);
    }
}

/// Number of parts of a sum over unions, each of which is added up on its own.
const PARTS: usize = 32;

/// Adds to each matrix of `out` (players × players) its sum over all unions, to which `add` adds the terms of
/// one union. Unions are shared among threads; the order of additions is fixed.
pub(crate) fn add_over_unions(
    players: usize,
    out: &mut [Matrix],
    add: impl Fn(usize, &mut [Matrix]) -> Result<()> + Sync,
) -> Result<()> {
    let count = out.len();
    let part = |from: usize| {
        let mut sums = vec![Matrix::zeros(players, players); count];
        (from..1 << players).step_by(PARTS).try_for_each(|union| add(union, &mut sums))?;
        Ok(sums)
    };
    for sums in (0..PARTS).into_par_iter().map(part).collect::<Result<Vec<_>>>()? {
        out.iter_mut().zip(&sums).for_each(|(out, sum)| out.add_times(1.0, sum));
    }
    Ok(())
}

/// Covariance of the values of all players in `rows` rows, player after player in each row, from blocks
/// (players × players) of pairs of rows.
pub(crate) fn player_covariance(
    rows: usize,
    players: usize,
    blocks: impl Iterator<Item = ((usize, usize), Matrix)>,
) -> Matrix {
    let mut out = Matrix::zeros(rows * players, rows * players);
    for ((r, s), block) in blocks {
        for (index, value) in block.data().iter().enumerate() {
            let (j, l) = (r * players + index / players, s * players + index % players);
            // Within a row, rounding makes the block slightly asymmetric.
            let value =
                if r == s { 0.5 * (value + block[(index % players, index / players)]) } else { *value };
            (out[(j, l)], out[(l, j)]) = (value, value);
        }
    }
    out
}

/// Pairs of rows for which the prior covariance is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowPairs {
    /// All pairs of rows.
    All,
    /// Each row with itself.
    Same,
    /// No pairs.
    None,
}

impl RowPairs {
    /// The pairs of this number of rows, each once.
    pub(crate) fn row_pairs(self, rows: usize) -> Vec<(usize, usize)> {
        match self {
            Self::All => (0..rows).flat_map(|r| (r..rows).map(move |s| (r, s))).collect(),
            Self::Same => (0..rows).map(|r| (r, r)).collect(),
            Self::None => Vec::new(),
        }
    }
}

/// All subsets of a set, including itself and the empty set, ascending.
pub(crate) fn subsets(set: usize) -> impl Iterator<Item = usize> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let current = next?;
        next = (current != set).then(|| current.wrapping_sub(set) & set);
        Some(current)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_coalitions_has_a_place_of_its_own() {
        for union in [0, 0b1, 0b1011, 0b110_100] {
            let pair_index = PairIndex::new(union);
            let mut indices: Vec<usize> = subsets(union)
                .flat_map(|subset| subsets(subset).map(move |common| (union ^ subset | common, common)))
                .map(|(other, common)| pair_index.pair_index(other, common))
                .collect();
            indices.sort_unstable();
            assert_eq!(indices, (0..PairIndex::count(union)).collect::<Vec<_>>());
        }
    }
}
