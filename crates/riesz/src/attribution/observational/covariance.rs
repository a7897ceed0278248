//! How sure values of the observational game are: what they are of f.
//!
//! With the weights `W_S(x)` of the reference rows, a coalition is worth a sum of values of f,
//!
//! `v(S) = Σ_b W_S(x)_b f(x_S, b_-S) + (1 - Σ_b W_S(x)_b) v(∅)`, `v(∅) = Σ_b w_b f(b)`,
//!
//! (the second part only where weights are centred), because the kernel's factors of present and absent players are the kernel at the mixed row; where it has no
//! such factors f is taken at the reference rows themselves. The weights come from the reference alone, whatever the kernel that they are learnt with, so values are
//! linear in f, and under a prior of covariance k that is a sum of products
//!
//! `cov(v(S; x), v(T; x')) = k_{S∩T}(x, x') Σ_{b,c} (W_S(x)_b k_{T∖S}(b, x')) k_{-(S∪T)}(b, c) (W_T(x')_c k_{S∖T}(x, c))`.
//!
//! What is in the middle depends on the union U of S and T alone, and T∖S is U∖S, S∖T is U∖T: so for each U one product of a matrix, reference², with as many
//! vectors as U has subsets serves all pairs. Source: our own; the game, Chau, Hu, Gonzalez and Sejdinovic 2022.

use rayon::prelude::*;

use super::{Averaged, ObservationalGame, Product, by_row};
use crate::attribution::coalitions::{Coalition, definition_weight};
use crate::error::{Error, Result};
use crate::linalg::{Matrix, Sparse, dot};
use crate::posterior::{Functionals, kernel_sums, prior_of_sums};
use crate::stop::check;
use crate::table::Table;

/// Players up to which there are covariances: each more takes three times as long.
const MOST_PLAYERS: usize = 12;

/// Numbers that weights and functionals take together at a time.
const NUMBERS: usize = 1 << 24;

/// Parts in which unions of coalitions are summed up.
const PARTS: usize = 32;

/// What there is at some rows: for each coalition, by its players' bits, the weights of the reference rows, reference × rows; and for each
/// row what each coalition counts in the values of players.
struct Weighed {
    weights: Vec<Matrix>,
    counts: Vec<Vec<Vec<f64>>>,
}

impl ObservationalGame<'_> {
    /// Whether values have covariances: where they are exact, of a few players.
    pub(crate) fn check_covariances(&self) -> Result<()> {
        let p = self.groups.players().len();
        if let Some(because) = self.budget.sampled_because(p) {
            let allowed = format!(
                "in the observational game they take all coalitions, but here values are estimated: {because}"
            );
            return Err(Error::parameter("covariance", true, allowed));
        }
        if p > MOST_PLAYERS {
            let allowed = format!(
                "in the observational game there are covariances of up to {MOST_PLAYERS} features, and here are {p}: group them"
            );
            return Err(Error::parameter("covariance", true, allowed));
        }
        Ok(())
    }

    /// How many rows to ask for at a time.
    pub(crate) fn rows_with_covariances(&self) -> usize {
        let each = self.means.learnt().rows.rows() + self.model.points.rows();
        (NUMBERS / (each << self.groups.players().len())).clamp(1, 64)
    }

    /// The values of all players in all rows as functionals of f, player after player in each row. The prior covariance is that of all of them, or of those of each
    /// row alone (0 between rows), or none at all. Cost 3^players · reference² for each pair of rows, and 2^players times what weights cost.
    pub(crate) fn posterior_functionals(&self, rows: &Table, prior: Pairs) -> Result<Functionals> {
        self.check_covariances()?;
        let data = rows.conform(self.model.columns())?;
        let weighed = self.weighed(&data)?;
        match &self.averaged {
            Averaged::Outputs(..) => self.of_reference_rows(&data, &weighed, prior),
            Averaged::Factors(products) => {
                let (n, p) = (data.rows(), self.groups.players().len());
                let columns = self.columns(products, &data)?;
                let pairs: Vec<(usize, usize)> = (0..n)
                    .flat_map(|r| (r..n).map(move |s| (r, s)))
                    .filter(|pair| prior.takes(*pair))
                    .collect();
                let blocks = self.of_prior(products, &data, &weighed, &pairs)?;
                let mut joint = Matrix::zeros(n * p, n * p);
                for ((r, s), block) in pairs.into_iter().zip(blocks) {
                    for (at, value) in block.data().iter().enumerate() {
                        let (j, l) = (r * p + at / p, s * p + at % p);
                        // Within a row rounding leaves it less than symmetric.
                        let value = if r == s { 0.5 * (value + block[(at % p, at / p)]) } else { *value };
                        (joint[(j, l)], joint[(l, j)]) = (value, value);
                    }
                }
                Ok(Functionals { columns, prior: joint, constants: vec![0.0; n * p] })
            }
        }
    }

    fn weighed(&self, data: &Table) -> Result<Weighed> {
        let p = self.groups.players().len();
        let all = (1_usize << p) - 1;
        let learnt = self.means.learnt();
        let of = |mask: usize| -> Result<Matrix> {
            check(&self.stop)?;
            // Everybody is worth f(x), whatever the weights; nobody the mean.
            let present = if mask == all { vec![false; p] } else { coalition(mask, p).present().to_vec() };
            Ok(self.means.uncentred(&present, data, &self.stop)?.matrix)
        };
        let weights = (0..=all).into_par_iter().map(of).collect::<Result<Vec<_>>>()?;
        let by_definition = |mask| (0..p).map(|j| definition_weight(&coalition(mask, p), j)).collect();
        let own: Vec<Vec<f64>> = (0..=all).map(by_definition).collect();
        let counts = (0..data.rows()).map(|r| {
            let mut counts = own.clone();
            for mask in (1..all).filter(|_| self.centred) {
                let sum: f64 = (0..learnt.rows.rows()).map(|b| weights[mask][(b, r)]).sum();
                counts[0]
                    .iter_mut()
                    .zip(&own[mask])
                    .for_each(|(nobody, count)| *nobody += count * (1.0 - sum));
            }
            counts
        });
        let counts = counts.collect();
        Ok(Weighed { weights, counts })
    }

    /// The functionals at support points, points × (rows × players).
    fn columns(&self, products: &[Product], data: &Table) -> Result<Matrix> {
        let points = &self.model.points;
        let (n, count, p) = (points.rows(), data.rows(), self.groups.players().len());
        let mean = |k: &[f64]| self.means.learnt().mean(k);
        let nobody = by_row(self.model, &self.means.learnt().rows, points, mean, &self.stop)?;
        let everybody = by_row(self.model, data, points, <[f64]>::to_vec, &self.stop)?;
        let valuation = self.valuation(data)?;
        let of = |mask: usize| valuation.functionals(products, &[(coalition(mask, p), 1.0)], &nobody);
        let worth = (1..(1 << p) - 1).into_par_iter().map(of).collect::<Result<Vec<Vec<f64>>>>()?;
        let share = 1.0 / p as f64;
        let mut out = Matrix::zeros(n, count * p);
        for i in 0..n {
            let row = out.row_mut(i);
            for r in 0..count {
                row[r * p..(r + 1) * p].fill(share * (everybody[i][r] - nobody[i]));
            }
        }
        for (mask, worth) in (1..).zip(&worth) {
            let weights: Vec<f64> = (0..p).map(|j| definition_weight(&coalition(mask, p), j)).collect();
            for i in 0..n {
                let row = out.row_mut(i).chunks_exact_mut(p).enumerate();
                row.for_each(|(r, own)| {
                    own.iter_mut().zip(&weights).for_each(|(v, weight)| *v += weight * worth[i + n * r]);
                });
            }
        }
        Ok(out)
    }

    /// The prior covariance of values, players × players, for each pair of rows.
    fn of_prior(
        &self,
        products: &[Product],
        data: &Table,
        weighed: &Weighed,
        pairs: &[(usize, usize)],
    ) -> Result<Vec<Matrix>> {
        let p = self.groups.players().len();
        let mut out = vec![Matrix::zeros(p, p); pairs.len()];
        if pairs.is_empty() {
            return Ok(out);
        }
        for product in products {
            let factors = Factors::new(product, &self.means.learnt().rows, data);
            // A fixed number of parts, each summed in order, whatever the number of threads.
            let part = |from: usize| {
                let mut sums = vec![Matrix::zeros(p, p); pairs.len()];
                for union in (from..1 << p).step_by(PARTS) {
                    check(&self.stop)?;
                    let absent = factors.absent(union);
                    for (sum, pair) in sums.iter_mut().zip(pairs) {
                        factors.add(weighed, union, &absent, *pair, sum);
                    }
                }
                Ok(sums)
            };
            let parts = (0..PARTS).into_par_iter().map(part).collect::<Result<Vec<_>>>()?;
            for sums in &parts {
                for (out, sum) in out.iter_mut().zip(sums) {
                    let both = out.data_mut().iter_mut().zip(sum.data());
                    both.for_each(|(out, v)| *out += product.scale * v);
                }
            }
        }
        Ok(out)
    }

    /// Where f is taken at the reference rows, and at the row that is explained.
    fn of_reference_rows(&self, data: &Table, weighed: &Weighed, prior: Pairs) -> Result<Functionals> {
        let rows = &self.means.learnt().rows;
        let (n, reference, p) = (data.rows(), rows.rows(), self.groups.players().len());
        let all = weighed.weights.len() - 1;
        let of = |at: usize| {
            let (r, j) = (at / p, at % p);
            let counts = &weighed.counts[r];
            let sum =
                move |b: usize| (0..all).map(|s| counts[s][j] * weighed.weights[s][(b, r)]).sum::<f64>();
            (0..reference).map(move |b| (b, sum(b))).chain([(reference + r, counts[all][j])])
        };
        let (at, weights) = (rows.stack(data)?, Sparse::from_columns(reference + n, (0..n * p).map(of))?);
        let kernel = &self.model.kernel;
        let joint = match prior {
            Pairs::None => Matrix::zeros(n * p, n * p),
            _ => prior_of_sums(kernel, &at, &weights),
        };
        let columns = kernel_sums(kernel, &self.model.points, &at, &weights);
        // An intercept is part of what everybody and nobody are worth alike.
        Ok(Functionals { columns, prior: joint, constants: vec![0.0; n * p] })
    }
}

/// Between which rows the prior covariance is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// Any two.
    All,
    /// Each and itself.
    Same,
    /// None.
    None,
}

impl Pairs {
    fn takes(self, (r, s): (usize, usize)) -> bool {
        match self {
            Self::All => true,
            Self::Same => r == s,
            Self::None => false,
        }
    }
}

/// The coalition of the players whose bits are set.
fn coalition(mask: usize, players: usize) -> Coalition {
    Coalition::new((0..players).map(|j| mask >> j & 1 == 1).collect())
}

/// Factors of a product of the kernel.
struct Factors {
    /// Of each player between reference rows.
    reference: Vec<Matrix>,
    /// Of each set of players between reference rows and explained ones, reference × rows.
    mixed: Vec<Matrix>,
    /// Of each set of players between explained rows.
    present: Vec<Matrix>,
}

impl Factors {
    fn new(product: &Product, reference: &Table, data: &Table) -> Self {
        let of_sets = |single: Vec<Matrix>| {
            let ones = vec![1.0; single[0].data().len()];
            let mut out = vec![Matrix::from_row_major(single[0].rows(), single[0].cols(), ones)];
            for set in 1..1_usize << single.len() {
                // All but the largest player's, times this one's.
                let player = set.ilog2() as usize;
                let mut own = single[player].clone();
                multiply(&mut own, &out[set ^ 1 << player]);
                out.push(own);
            }
            out
        };
        let each = |v: &Table, u: &Table| product.kernels.iter().map(|k| k.cross_gram(u, v)).collect();
        Self {
            reference: product.kernels.iter().map(|k| k.gram(reference)).collect(),
            mixed: of_sets(each(data, reference)),
            present: of_sets(each(data, data)),
        }
    }

    /// Between reference rows, of those who are not in `union`.
    fn absent(&self, union: usize) -> Matrix {
        let size = self.reference[0].rows();
        let mut out = Matrix::from_row_major(size, size, vec![1.0; size * size]);
        let absent = self.reference.iter().enumerate().filter(|(j, _)| union >> j & 1 == 0);
        absent.for_each(|(_, own)| multiply(&mut out, own));
        out
    }

    /// Adds the covariances of all two coalitions that have this union, each times what they count in values of players.
    fn add(
        &self,
        weighed: &Weighed,
        union: usize,
        absent: &Matrix,
        (r, s): (usize, usize),
        out: &mut Matrix,
    ) {
        let size = absent.rows();
        let subsets: Vec<usize> = subsets(union).collect();
        // A row a subset.
        let side = |x: usize, other: usize| {
            let of = |set: usize| {
                let (weights, mixed) = (&weighed.weights[set], &self.mixed[union ^ set]);
                (0..size).map(move |b| weights[(b, x)] * mixed[(b, other)])
            };
            let data = subsets.iter().flat_map(|set| of(*set)).collect();
            Matrix::from_row_major(subsets.len(), size, data)
        };
        let left = side(r, s);
        let right = if r == s { left.matmul(absent) } else { side(s, r).matmul(absent) };
        // Subsets of the union are numbered by what they have of its bits, in order.
        let mut place = vec![0; union + 1];
        subsets.iter().enumerate().for_each(|(at, set)| place[*set] = at);
        let p = out.rows();
        let mut sums = vec![0.0; p];
        for (at, one) in subsets.iter().enumerate() {
            sums.fill(0.0);
            for common in self::subsets(*one) {
                let other = union ^ one | common;
                let covariance = self.present[common][(r, s)] * dot(left.row(at), right.row(place[other]));
                let counts = &weighed.counts[s][other];
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count * covariance);
            }
            for (j, count) in weighed.counts[r][*one].iter().enumerate() {
                out.row_mut(j).iter_mut().zip(&sums).for_each(|(out, sum)| *out += count * sum);
            }
        }
    }
}

/// Entry by entry.
fn multiply(out: &mut Matrix, other: &Matrix) {
    out.data_mut().iter_mut().zip(other.data()).for_each(|(a, b)| *a *= b);
}

/// All subsets of a set, itself and the empty one included, ascending.
fn subsets(set: usize) -> impl Iterator<Item = usize> {
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let own = next?;
        next = (own != set).then(|| own.wrapping_sub(set) & set);
        Some(own)
    })
}
