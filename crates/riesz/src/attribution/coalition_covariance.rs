//! Kernels between weighted rows that are mixed of a row and reference rows, for all pairs of coalitions.
//!
//! A coalition S makes of a row x and the reference rows b, with weights `W_S`, the weighted rows
//! `(x_S, b_-S)`; another, T, the same of a row x' and reference rows c, which may be others. Under a product
//! with a factor a player, the sum of the kernel between all of either, weighted, is
//!
//! `k_{S∩T}(x, x') Σ_{b,c} (W_S,b k_{T∖S}(b, x')) k_{-(S∪T)}(b, c) (W'_T,c k_{S∖T}(x, c))`.
//!
//! What is in the middle depends on the union U of S and T alone, and T∖S is U∖S, S∖T is U∖T: so for each U
//! one product of a matrix, reference², with as many vectors as U has subsets serves all pairs, 3^players ·
//! reference² together. Source: our own.

use crate::kernel::Kernel;
use crate::linalg::{Matrix, dot};
use crate::table::Table;

/// Players up to which values have covariances where coalitions are looked at pair by pair: each more takes
/// three to four times as long, and in the game of independent parts four times the memory.
pub(crate) const MOST_PLAYERS: usize = 12;

/// Reference rows, and the rows that are mixed with them.
pub(crate) type MixedRows<'t> = (&'t Table, &'t Table);

/// Factors of a product between the rows of either side.
pub(crate) struct MixedKernels {
    /// Of each player between reference rows.
    reference: Vec<Matrix>,
    /// Of each set of players between one side's reference rows and the other's rows, rows × reference; one
    /// for both sides if they are the same.
    mixed: Vec<Vec<Matrix>>,
    /// Of each set of players between rows.
    present: Vec<Matrix>,
}

impl MixedKernels {
    /// Of factors, one a player; the second side if it is another than the first.
    pub(crate) fn new(kernels: &[Kernel], first: MixedRows<'_>, second: Option<MixedRows<'_>>) -> Self {
        let other = second.unwrap_or(first);
        let between = |u: &Table, v: &Table| {
            let mut all = vec![Matrix::from_row_major(u.rows(), v.rows(), vec![1.0; u.rows() * v.rows()])];
            for set in 1..1_usize << kernels.len() {
                // All but the largest player's, times this one's.
                let player = set.ilog2() as usize;
                let known = set ^ 1 << player;
                if known == 0 {
                    all.push(kernels[player].cross_gram(u, v));
                    continue;
                }
                let mut own = all[1 << player].clone();
                multiply_entrywise(&mut own, &all[known]);
                all.push(own);
            }
            all
        };
        let gram = |kernel: &Kernel| match second {
            Some((reference, _)) => kernel.cross_gram(first.0, reference),
            None => kernel.gram(first.0),
        };
        let back = second.map(|(reference, _)| between(first.1, reference));
        Self {
            reference: kernels.iter().map(gram).collect(),
            mixed: [between(other.1, first.0)].into_iter().chain(back).collect(),
            present: between(first.1, other.1),
        }
    }

    /// Between reference rows, of those who are not in `union`.
    pub(crate) fn absent(&self, union: usize) -> Matrix {
        let mut absent = self.reference.iter().enumerate().filter(|(j, _)| union >> j & 1 == 0);
        let size = &self.reference[0];
        let ones = || Matrix::from_row_major(size.rows(), size.cols(), vec![1.0; size.data().len()]);
        let mut out = absent.next().map_or_else(ones, |(_, own)| own.clone());
        absent.for_each(|(_, own)| multiply_entrywise(&mut out, own));
        out
    }

    /// Adds, for all two coalitions of this union, `scale` times the sum over the rows that one makes of row
    /// r and the other of row s, to the number where
    /// [`Places`] has them. `absent` is [that of the union](Self::absent), `same` says whether both sides are
    /// one, rows included; `left` and `right` are the weights of coalitions.
    pub(crate) fn add<'w>(
        &self,
        places: &PairIndex,
        (absent, scale): (&Matrix, f64),
        ((r, s), same): ((usize, usize), bool),
        (left, right): (impl Fn(usize) -> &'w [f64], impl Fn(usize) -> &'w [f64]),
        out: &mut [f64],
    ) {
        let union = places.union;
        // A row a subset.
        let side = |weights: &dyn Fn(usize) -> &'w [f64], mixed: &[Matrix], other: usize| {
            let width = mixed[0].cols();
            let mut all = Vec::with_capacity(places.subsets.len() * width);
            for &set in &places.subsets {
                let own = weights(set).iter().zip(mixed[union ^ set].row(other));
                all.extend(own.map(|(weight, factor)| weight * factor));
            }
            Matrix::from_row_major(places.subsets.len(), width, all)
        };
        let first = side(&left, &self.mixed[0], s);
        let second = (!same).then(|| side(&right, &self.mixed[self.mixed.len() - 1], r));
        let (products, second) = (first.matmul(absent), second.as_ref().unwrap_or(&first));
        for (at, &one) in places.subsets.iter().enumerate() {
            for common in subsets(one) {
                let set = union ^ one | common;
                let sum = dot(products.row(at), second.row(places.rank[set]));
                out[places.of(set, common)] += scale * self.present[common][(r, s)] * sum;
            }
        }
    }
}

/// Where the pairs of coalitions stand that have one union: 3 to the power of its players.
pub(crate) struct PairIndex {
    pub(crate) union: usize,
    /// Ascending.
    subsets: Vec<usize>,
    /// By subset, which it is.
    rank: Vec<usize>,
    /// By subset, the sum of powers of 3 of its players' places in the union.
    powers: Vec<usize>,
}

impl PairIndex {
    pub(crate) fn new(union: usize) -> Self {
        let subsets: Vec<usize> = subsets(union).collect();
        let (mut rank, mut powers) = (vec![0; union + 1], vec![0; union + 1]);
        for (at, &set) in subsets.iter().enumerate() {
            rank[set] = at;
            // Bit by bit of the rank, in which the players of the union close up.
            powers[set] = (0..union.count_ones()).map(|k| (at >> k & 1) * 3_usize.pow(k)).sum();
        }
        Self { union, subsets, rank, powers }
    }

    /// How many pairs there are.
    pub(crate) fn count(union: usize) -> usize {
        3_usize.pow(union.count_ones())
    }

    /// The place of the pair of any coalition with `second`, which share `common`: each player is in the
    /// first alone, in the second alone, or in both.
    pub(crate) fn of(&self, second: usize, common: usize) -> usize {
        self.power(second) + self.power(common)
    }

    /// What the players of a coalition add to a place.
    pub(crate) fn power(&self, coalition: usize) -> usize {
        self.powers[coalition]
    }
}

/// Adds the numbers of all two coalitions that have this union, given as `number(second, common)`, each times
/// what the first counts in values of players, which are rows of `out`, and the second in those that are its
/// columns.
pub(crate) fn add_counted(
    union: usize,
    (left, right): (&[Vec<f64>], &[Vec<f64>]),
    number: impl Fn(usize, usize) -> f64,
    out: &mut Matrix,
) {
    let mut sums = vec![0.0; out.cols()];
    for one in subsets(union) {
        sums.fill(0.0);
        for common in subsets(one) {
            let other = union ^ one | common;
            let own = number(other, common);
            sums.iter_mut().zip(&right[other]).for_each(|(sum, count)| *sum += count * own);
        }
        for (j, count) in left[one].iter().enumerate() {
            out.row_mut(j).iter_mut().zip(&sums).for_each(|(out, sum)| *out += count * sum);
        }
    }
}

/// The covariance of the values of all players in so many rows, player after player in each row, from blocks
/// of pairs of rows, players × players.
pub(crate) fn player_covariance(
    rows: usize,
    players: usize,
    blocks: impl Iterator<Item = ((usize, usize), Matrix)>,
) -> Matrix {
    let mut out = Matrix::zeros(rows * players, rows * players);
    for ((r, s), block) in blocks {
        for (at, value) in block.data().iter().enumerate() {
            let (j, l) = (r * players + at / players, s * players + at % players);
            // Within a row rounding leaves it less than symmetric.
            let value = if r == s { 0.5 * (value + block[(at % players, at / players)]) } else { *value };
            (out[(j, l)], out[(l, j)]) = (value, value);
        }
    }
    out
}

/// Between which rows the prior covariance is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowPairs {
    /// Any two.
    All,
    /// Each and itself.
    Same,
    /// None.
    None,
}

impl RowPairs {
    /// The pairs of so many rows, each once.
    pub(crate) fn of(self, rows: usize) -> Vec<(usize, usize)> {
        match self {
            Self::All => (0..rows).flat_map(|r| (r..rows).map(move |s| (r, s))).collect(),
            Self::Same => (0..rows).map(|r| (r, r)).collect(),
            Self::None => Vec::new(),
        }
    }
}

/// Entry by entry.
fn multiply_entrywise(out: &mut Matrix, other: &Matrix) {
    out.data_mut().iter_mut().zip(other.data()).for_each(|(a, b)| *a *= b);
}

/// All subsets of a set, itself and the empty one included, ascending.
pub(crate) fn subsets(set: usize) -> impl Iterator<Item = usize> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let own = next?;
        next = (own != set).then(|| own.wrapping_sub(set) & set);
        Some(own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_coalitions_has_a_place_of_its_own() {
        for union in [0, 0b1, 0b1011, 0b110_100] {
            let places = PairIndex::new(union);
            let mut found: Vec<usize> = subsets(union)
                .flat_map(|one| subsets(one).map(move |common| (union ^ one | common, common)))
                .map(|(other, common)| places.of(other, common))
                .collect();
            found.sort_unstable();
            assert_eq!(found, (0..PairIndex::count(union)).collect::<Vec<_>>());
        }
    }
}
