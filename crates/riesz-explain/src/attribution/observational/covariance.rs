//! Covariance of the values of the observational game, as linear functionals of f.
//!
//! With the weights `W_S(x)` of the reference rows b, the value of a coalition S at a row x is a sum of
//! values of f,
//!
//! `v(S) = Σ_b W_S(x)_b f(x_S, b_-S) + (1 - Σ_b W_S(x)_b) v(∅)`, `v(∅) = Σ_b w_b f(b)`,
//!
//! because the product of the kernel's factors of present and absent players is the kernel at the mixed row
//! `(x_S, b_-S)`. The second term exists only if weights are centred. For a kernel without such factors, f is
//! evaluated at the reference rows themselves. The weights depend on the reference alone, whichever kernel
//! the embedding uses, so values are linear in f. Under a prior with covariance k, a sum of products,
//!
//! `cov(v(S; x), v(T; x')) = Σ_{b,c} W_S(x)_b W_T(x')_c k((x_S, b_-S), (x'_T, c_-T))`,
//!
//! which [`coalition_covariance`](crate::attribution::coalition_covariance) computes for all pairs of
//! coalitions. Sources: our own; the game, Chau, Hu, Gonzalez and Sejdinovic 2022.

use rayon::prelude::*;

use super::{ObservationalGame, Product, ValueRule};
use crate::attribution::coalition_covariance::{
    MOST_PLAYERS, MixedKernels, PairIndex, RowPairs, add_counted, add_over_unions, player_covariance,
};
use crate::attribution::sampled_shapley::{Coalition, definition_weight};
use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::linalg::{Matrix, Sparse};
use crate::posterior::{Functionals, cross_covariance_of_sums, prior_covariance_of_sums};
use crate::table::Table;

/// Largest count of numbers that weights and functionals take at a time.
const NUMBERS: usize = 1 << 24;

/// Weights at given rows. `weights` holds for each coalition, by its players' bits, the weights of the
/// reference rows (rows × reference). `value_coefficients` holds for each row the coefficients of each
/// coalition in the players' values.
struct CoalitionWeightTable {
    weights: Vec<Matrix>,
    value_coefficients: Vec<Vec<Vec<f64>>>,
}

impl ObservationalGame<'_> {
    /// Checks that values have covariances: all coalitions are evaluated, and players are at most
    /// [`MOST_PLAYERS`].
    pub(crate) fn check_covariances(&self) -> Result<()> {
        let p = self.groups.players().len();
        if let Some(because) = self.budget.sampled_because(p) {
            let allowed = format!(
                "observational covariances require all coalitions, but here values are estimated: {because}"
            );
            return Err(Error::parameter("covariance", true, allowed));
        }
        if p > MOST_PLAYERS {
            let allowed = format!(
                "in the observational game there are covariances of up to {MOST_PLAYERS} features, and here \
                 are {p}: group them"
            );
            return Err(Error::parameter("covariance", true, allowed));
        }
        Ok(())
    }

    /// The number of rows to compute at a time.
    pub(crate) fn rows_with_covariances(&self) -> usize {
        let numbers_per_coalition = self.means.learnt().rows.rows() + self.model.support_points.rows();
        (NUMBERS / (numbers_per_coalition << self.groups.players().len())).clamp(1, 64)
    }

    /// The values of all players in all rows as functionals of f, player after player in each row. `prior`
    /// selects the pairs of rows whose prior covariance is computed; it is 0 for other pairs. Cost 3^players
    /// · reference² per pair of rows, plus 2^players times the cost of weights.
    pub(crate) fn posterior_functionals(&self, rows: &Table, prior: RowPairs) -> Result<Functionals> {
        self.check_covariances()?;
        let data = rows.align_to(self.model.columns())?;
        let weight_table = self.weight_table(&data)?;
        match &self.averaged {
            ValueRule::Outputs(..) => self.reference_row_covariance(&data, &weight_table, prior),
            ValueRule::Factors(products) => {
                let (n, p) = (data.rows(), self.groups.players().len());
                let columns = self.functional_columns(products, &data)?;
                let pairs = prior.row_pairs(n);
                let blocks = self.prior_covariance(products, &data, &weight_table, &pairs)?;
                let prior = player_covariance(n, p, pairs.into_iter().zip(blocks));
                Ok(Functionals { columns, prior_covariance: prior, constants: vec![0.0; n * p] })
            }
        }
    }

    fn weight_table(&self, data: &Table) -> Result<CoalitionWeightTable> {
        let p = self.groups.players().len();
        let grand = (1_usize << p) - 1;
        let coalition_weights = |mask: usize| -> Result<Matrix> {
            check_cancelled(&self.stop)?;
            // The grand coalition has the value f(x) for any weights, and the empty coalition the mean.
            let present =
                if mask == grand { vec![false; p] } else { Coalition::from_mask(mask, p).present().to_vec() };
            Ok(self.means.raw_weights(&present, data, &self.stop)?.matrix.transpose())
        };
        let weights = (0..=grand).into_par_iter().map(coalition_weights).collect::<Result<Vec<_>>>()?;
        let player_coefficients =
            |mask| (0..p).map(|j| definition_weight(&Coalition::from_mask(mask, p), j)).collect();
        let coefficients: Vec<Vec<f64>> = (0..=grand).map(player_coefficients).collect();
        let value_coefficients = (0..data.rows()).map(|r| {
            let mut value_coefficients = coefficients.clone();
            for mask in (1..grand).filter(|_| self.centered) {
                let sum: f64 = weights[mask].row(r).iter().sum();
                value_coefficients[0]
                    .iter_mut()
                    .zip(&coefficients[mask])
                    .for_each(|(empty, count)| *empty += count * (1.0 - sum));
            }
            value_coefficients
        });
        let value_coefficients = value_coefficients.collect();
        Ok(CoalitionWeightTable { weights, value_coefficients })
    }

    /// Functionals at the support points, points × (rows × players).
    fn functional_columns(&self, products: &[Product], data: &Table) -> Result<Matrix> {
        let points = &self.model.support_points;
        let (n, count, p) = (points.rows(), data.rows(), self.groups.players().len());
        let (empty_value, everybody) = self.end_functionals(data)?;
        let valuation = self.valuation(data)?;
        let coalition_functional = |mask: usize| {
            valuation.functionals(products, &[(Coalition::from_mask(mask, p), 1.0)], &empty_value)
        };
        let coalition_values =
            (1..(1 << p) - 1).into_par_iter().map(coalition_functional).collect::<Result<Vec<Vec<f64>>>>()?;
        let share = 1.0 / p as f64;
        let mut out = Matrix::zeros(n, count * p);
        for i in 0..n {
            let row = out.row_mut(i);
            for r in 0..count {
                row[r * p..(r + 1) * p].fill(share * (everybody[i][r] - empty_value[i]));
            }
        }
        for (mask, values) in (1..).zip(&coalition_values) {
            let weights: Vec<f64> =
                (0..p).map(|j| definition_weight(&Coalition::from_mask(mask, p), j)).collect();
            for i in 0..n {
                let row = out.row_mut(i).chunks_exact_mut(p).enumerate();
                row.for_each(|(r, row_values)| {
                    row_values
                        .iter_mut()
                        .zip(&weights)
                        .for_each(|(v, weight)| *v += weight * values[i + n * r]);
                });
            }
        }
        Ok(out)
    }

    /// Prior covariance of values, players × players, for each pair of rows.
    fn prior_covariance(
        &self,
        products: &[Product],
        data: &Table,
        weight_table: &CoalitionWeightTable,
        pairs: &[(usize, usize)],
    ) -> Result<Vec<Matrix>> {
        let p = self.groups.players().len();
        let mut out = vec![Matrix::zeros(p, p); pairs.len()];
        if pairs.is_empty() {
            return Ok(out);
        }
        for product in products {
            let factors = MixedKernels::new(&product.kernels, (&self.means.learnt().rows, data), None);
            // A fixed number of parts, each summed in order, makes results independent of the number of
            // threads.
            add_over_unions(p, &mut out, |union, sums| {
                check_cancelled(&self.stop)?;
                let (absent, pair_index) = (factors.absent(union), PairIndex::new(union));
                for (sum, &(r, s)) in sums.iter_mut().zip(pairs) {
                    let mut pair_sums = vec![0.0; PairIndex::count(union)];
                    let [left, right] =
                        [r, s].map(|row| move |set: usize| weight_table.weights[set].row(row));
                    let same_row = r == s;
                    factors.add(
                        &pair_index,
                        (&absent, product.scale),
                        ((r, s), same_row),
                        (left, right),
                        &mut pair_sums,
                    );
                    let number = |other, common| pair_sums[pair_index.pair_index(other, common)];
                    add_counted(
                        union,
                        (&weight_table.value_coefficients[r], &weight_table.value_coefficients[s]),
                        number,
                        sum,
                    );
                }
                Ok(())
            })?;
        }
        Ok(out)
    }

    /// Functionals and prior covariance if f is evaluated at the reference rows and at the explained row.
    fn reference_row_covariance(
        &self,
        data: &Table,
        weight_table: &CoalitionWeightTable,
        prior: RowPairs,
    ) -> Result<Functionals> {
        let rows = &self.means.learnt().rows;
        let (n, reference, p) = (data.rows(), rows.rows(), self.groups.players().len());
        let grand = weight_table.weights.len() - 1;
        let row_weights = |value: usize| {
            let (r, j) = (value / p, value % p);
            let value_coefficients = &weight_table.value_coefficients[r];
            let sum = move |b: usize| {
                (0..grand).map(|s| value_coefficients[s][j] * weight_table.weights[s][(r, b)]).sum::<f64>()
            };
            (0..reference).map(move |b| (b, sum(b))).chain([(reference + r, value_coefficients[grand][j])])
        };
        let (stacked_rows, weights) =
            (rows.stack(data)?, Sparse::from_columns(reference + n, (0..n * p).map(row_weights))?);
        let kernel = &self.model.kernel;
        let joint = match prior {
            RowPairs::None => Matrix::zeros(n * p, n * p),
            _ => prior_covariance_of_sums(kernel, &stacked_rows, &weights),
        };
        let columns = cross_covariance_of_sums(kernel, &self.model.support_points, &stacked_rows, &weights);
        // An intercept cancels, since it is part of the values of both the grand and the empty coalition.
        Ok(Functionals { columns, prior_covariance: joint, constants: vec![0.0; n * p] })
    }
}
