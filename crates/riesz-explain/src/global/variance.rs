//! The variance of a model's output as a product game.
//!
//! With independent players, the value of a coalition S is `v(S) = Var E[f(X) | X_S]`. Let
//! `f = β₀ + Σ_e w_e Π_j k_ej(X_j)`, where e counts the support points of each product of the kernel, and let
//! `m_ej = E k_ej(X_j)`. Then
//!
//! `v(S) = Σ_{e,e'} w_e w_e' (Π_{j∈S} E[k_ej k_e'j] Π_{j∉S} m_ej m_e'j - Π_j m_ej m_e'j)`,
//!
//! a product game over pairs. If f is a Gaussian process with the covariance
//! `s k(x, x') - k(x, X) Q k(X, x')`, then the mean of v(S) has a part for the mean function and a part for
//! the covariance: `w_e w_e'` becomes `w_e w_e' - Q_ee'`, and each product of the kernel adds s times its
//! scale times `Π_{j∈S} E k_j(X_j, X_j) Π_{j∉S} E k_j(X_j, X'_j) - Π_j E k_j(X_j, X'_j)`, where X' is an
//! independent copy of X.

use super::marginals::{FactorPanel, FactorTable, InputMarginals, TILE};
use crate::attribution::product::{ProductGame, ProductTerms, TermSink};
use crate::attribution::quadrature::{FLOOR, RoundingUnits, TermBatch};
use crate::control::RunControl;
use crate::error::Result;
use crate::game::{ReferenceRows, TERMS};
use crate::kernel::Columns;
use crate::kernel::player_products::PlayerProduct;
use crate::kernel::rounding_bounds::{ColumnRanges, RoundingBound};
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, max_abs};
use crate::memory::refill;
use crate::simd::{Isa, LANES, Lanes};
use crate::table::Players;

/// The terms of a posterior covariance: for each output the prior scale s, and the matrix `-Q`.
pub(super) struct PosteriorTerms {
    pub(super) prior_term: Vec<f64>,
    pub(super) negated_reductions: Vec<Matrix>,
}

/// The variance of a model's output as a product game of one row.
pub(super) struct VarianceGame<'m> {
    model: &'m KernelExpansion,
    products: Vec<PlayerProduct<'m>>,
    factors: Vec<FactorTable>,
    posterior_terms: Option<&'m PosteriorTerms>,
    /// For each product and factor, `E k(X, X)` and `E k(X, X')`, if there is a posterior.
    prior_term: Vec<Vec<[f64; 2]>>,
    prior_roundings: usize,
    /// The largest absolute weight of a pair of points, at least 1.
    heaviest: f64,
    parts: Vec<GamePart>,
}

/// A part of the sum that is computed in one step.
enum GamePart {
    /// The points of a panel of product `left`, with those of the same or a later product, `right`.
    Pairs { left: usize, right: usize, panel: usize },
    /// The prior variance of a product.
    Prior(usize),
}

/// The factors of two products by the players that both have. Those of players that only one product has are
/// independent of the rest.
struct SharedFactors {
    players: Vec<usize>,
    /// For each shared player, the number of its factor in each product.
    pairs: Vec<(usize, usize)>,
    left_only: Vec<usize>,
    right_only: Vec<usize>,
}

/// The error of a share, relative to the spread of the model's outputs, that the approximation of radial
/// factors aims at. The cost grows with the square of the number of products.
const APPROXIMATION_ERROR: f64 = 1e-7;

/// Working memory of one thread.
#[derive(Default)]
pub(super) struct Memory {
    present: Vec<f64>,
    absent: Vec<f64>,
    active: Vec<u32>,
}

impl<'m> VarianceGame<'m> {
    /// Creates the game. Cost and memory O(points · inputs) for each factor of the kernel; with a prior
    /// O(inputs²).
    ///
    /// # Errors
    /// [`Error::NotProduct`](crate::Error::NotProduct) if the kernel ties columns of different players
    /// together; [`Error::Interrupted`](crate::Error::Interrupted).
    pub(super) fn new(
        model: &'m KernelExpansion,
        groups: &Players,
        inputs: &InputMarginals,
        posterior_terms: Option<&'m PosteriorTerms>,
        isa: Isa,
        control: RunControl<'_>,
    ) -> Result<Self> {
        let approximation =
            model.radial_approximation(APPROXIMATION_ERROR, Some(&inputs.reach), control.stop)?;
        let products = model.kernel.approximate_products(model.columns(), groups, &approximation)?;
        let factors = |product| FactorTable::new(product, model, inputs, isa, control);
        let factors = products.iter().map(factors).collect::<Result<Vec<_>>>()?;
        let mut parts = Vec::new();
        for (left, product) in products.iter().enumerate() {
            for (right, other) in products.iter().enumerate().skip(left) {
                // Products without a common player are independent.
                if product.players.iter().any(|player| other.players.contains(player)) {
                    let panels = 0..factors[left].panels.len();
                    parts.extend(panels.map(|panel| GamePart::Pairs { left, right, panel }));
                }
            }
        }
        let mut prior = Vec::new();
        if posterior_terms.is_some() {
            for product in &products {
                let means =
                    |k: usize| prior_means(product, k, &inputs.atoms[product.players[k]], isa, control);
                prior.push((0..product.players.len()).map(means).collect::<Result<_>>()?);
            }
            parts.extend((0..products.len()).map(GamePart::Prior));
        }
        let max_values = inputs.atoms.iter().map(|atoms| atoms.rows.len()).max().unwrap_or(0);
        let prior_roundings = 2 * (TERMS + max_values.div_ceil(TERMS) + inputs.roundings + 4);
        let largest = |numbers: &[f64]| max_abs(numbers).max(1.0);
        let negated_reductions = posterior_terms
            .iter()
            .flat_map(|terms| &terms.negated_reductions)
            .map(|negated_reductions| largest(negated_reductions.data()));
        let heaviest = negated_reductions.fold(largest(model.coef.data()).powi(2), |total, v| total + v);
        Ok(Self {
            model,
            products,
            factors,
            posterior_terms,
            prior_term: prior,
            prior_roundings,
            heaviest,
            parts,
        })
    }

    /// For each output, a bound on the error of every coalition's variance that comes from radial factors'
    /// approximation, given the output's `variance`. With g a coalition's mean of the outputs and δ its
    /// error, it is at most `2 |Cov(g, δ)| + Var(δ)`. The posterior's terms are bounded one by one.
    pub(super) fn approximation_errors(&self, reach: &[[f64; 2]], variance: &[f64]) -> Vec<f64> {
        let points = Columns::from_row(&self.model.support_points, 0);
        let ranges = ColumnRanges { u: ColumnRanges::per_column(points, reach.len()), v: reach.to_vec() };
        let between_inputs = ColumnRanges { u: ranges.v.clone(), v: ranges.v.clone() };
        let error_in =
            |ranges| self.products.iter().map(|p| p.approximation_error(ranges)).fold(0.0, |sum, e| sum + e);
        let error: f64 = error_in(&ranges);
        if error == 0.0 {
            return vec![0.0; variance.len()];
        }
        let size: f64 =
            self.products.iter().map(|p| p.scale.abs() * p.precision(&ranges).1.top.max(1.0)).sum();
        let output_error = |(o, variance): (usize, &f64)| {
            let mean_error = error * self.model.absolute_coefficients(o);
            let posterior_error = self.posterior_terms.map_or(0.0, |terms| {
                let reductions: f64 = terms.negated_reductions[o].data().iter().map(|v| v.abs()).sum();
                2.0 * terms.prior_term[o].abs() * error_in(&between_inputs)
                    + reductions * error * (2.0 * size + error)
            });
            mean_error * (2.0 * variance.max(0.0).sqrt() + mean_error) + posterior_error
        };
        variance.iter().enumerate().map(output_error).collect()
    }

    /// Returns the weight of the pair of points i and c for output o.
    fn pair_weight(&self, o: usize, i: usize, c: usize) -> f64 {
        let coef_product = self.model.coef[(i, o)] * self.model.coef[(c, o)];
        self.posterior_terms.map_or(coef_product, |terms| coef_product + terms.negated_reductions[o][(i, c)])
    }

    /// Returns the rounding of all factors of two products together, including those of players that only one
    /// of them has.
    fn rounding(&self, left: usize, right: usize) -> RoundingUnits {
        let (left_table, two) = (&self.factors[left], &self.factors[right]);
        let means: usize = left_table.roundings.iter().chain(&two.roundings).sum();
        let (p, q) = (&left_table.precision.1, &two.precision.1);
        let units = p.units + q.units + (means + self.products[left].players.len() + 4) as f64;
        let mut rounding =
            RoundingUnits::new(units, p.per_log.max(q.per_log), self.model.support_points.width());
        // Roundings of the sums over tiles, and of the sum over parts.
        let sums = 4 * (TILE + TILE / LANES + left_table.panels.len() + self.parts.len() + 64);
        (rounding.units, rounding.sums) = (rounding.units + sums as f64, sums as f64);
        let top = |bounds: &[RoundingBound]| bounds.iter().fold(1.0, |max_top: f64, f| max_top.max(f.top));
        rounding.tiny = (p.tiny + q.tiny) * top(&left_table.precision.0).max(top(&two.precision.0));
        let scale = (self.products[left].scale * self.products[right].scale).abs().max(1.0);
        // With several outputs the coefficients are applied afterwards.
        rounding.floor = FLOOR * scale * if self.model.outputs() == 1 { self.heaviest } else { 1.0 };
        rounding
    }

    fn pairs(
        &self,
        (left, right, panel): (usize, usize, usize),
        memory: &mut Memory,
        reader: &mut TermSink<'_>,
    ) -> Result<()> {
        let (left_table, two) = (&self.factors[left], &self.factors[right]);
        let shared = SharedFactors::new(&self.products[left].players, &self.products[right].players);
        let players = &shared.players;
        let scale = self.products[left].scale * self.products[right].scale;
        let relative_to_size = left_table.relative_to_size || two.relative_to_size;
        let bounded = left_table.bounded && two.bounded;
        let (n, size) = (self.model.support_points.rows(), TILE * TILE);
        let Memory { present, absent, active } = memory;
        fill_active(players.len(), active);
        let mut rounding = self.rounding(left, right);
        let left_panel = &left_table.panels[panel];
        let first = if left == right { panel } else { 0 };
        for (index, other) in two.panels.iter().enumerate().skip(first) {
            shared.fill_sides(left_panel, other, present, absent);
            let folded = |means: &[[f64; TILE]], kept: &[usize]| -> [f64; TILE] {
                std::array::from_fn(|i| kept.iter().map(|&k| means[k][i]).product())
            };
            let (own_means, other_means) =
                (folded(&left_panel.means, &shared.left_only), folded(&other.means, &shared.right_only));
            if bounded {
                rounding.decay = neg_log_bound(&own_means) + neg_log_bound(&other_means);
            }
            let folded_all = |sizes: &[[f64; TILE]]| folded(sizes, &(0..sizes.len()).collect::<Vec<_>>());
            let (sizes, other_sizes) = (folded_all(&left_panel.sizes), folded_all(&other.sizes));
            for row in 0..TILE.min(n - panel * TILE) {
                let i = panel * TILE + row;
                // Pairs are unordered.
                let from = if left == right && index == panel { row / LANES * LANES } else { 0 };
                let lanes = |lane_value: &dyn Fn(usize) -> f64| -> Vec<Lanes> {
                    let block = |from: usize| Lanes(std::array::from_fn(|l| lane_value(from + l)));
                    (from..TILE).step_by(LANES).map(block).collect()
                };
                let weights = lanes(&|c| scale * own_means[row] * other_means[c]);
                let tops = relative_to_size.then(|| lanes(&|c| (scale * sizes[row] * other_sizes[c]).abs()));
                let coef = |o: usize| {
                    lanes(&|c| {
                        let c = index * TILE + c;
                        match c {
                            c if c >= n || left == right && c < i => 0.0,
                            c if left == right && c == i => self.pair_weight(o, i, c),
                            c => 2.0 * self.pair_weight(o, i, c),
                        }
                    })
                };
                let coef: Vec<Vec<Lanes>> = (0..self.model.outputs()).map(coef).collect();
                reader.add_terms(&ProductTerms {
                    row: 0,
                    point: index * TILE + from,
                    players,
                    run: TermBatch {
                        a: present,
                        b: Some(absent),
                        stride: size,
                        offset: row * TILE + from,
                        active,
                        players: players.len(),
                        weights: &weights,
                        sizes: tops.as_deref(),
                        tinies: &[],
                        rounding,
                    },
                    coef: &coef,
                    is_last: true,
                })?;
            }
        }
        Ok(())
    }

    /// Adds the term of the prior variance of product p.
    fn prior_term(
        &self,
        p: usize,
        posterior_terms: &PosteriorTerms,
        memory: &mut Memory,
        reader: &mut TermSink<'_>,
    ) -> Result<()> {
        let Memory { present, absent, active } = memory;
        let (product, means) = (&self.products[p], &self.prior_term[p]);
        let count = means.len();
        fill_active(count, active);
        let side = |column: usize, out: &mut Vec<f64>| {
            out.clear();
            out.extend(means.iter().flat_map(|sides| [sides[column]; LANES]));
            out.extend([1.0; LANES]);
        };
        side(0, present);
        side(1, absent);
        let mut rounding = self.rounding(p, p);
        rounding.units += (count * self.prior_roundings) as f64;
        let first_lane = |v: f64| Lanes(std::array::from_fn(|l| if l == 0 { v } else { 0.0 }));
        let weights = [first_lane(product.scale)];
        let coef: Vec<Vec<Lanes>> = posterior_terms.prior_term.iter().map(|s| vec![first_lane(*s)]).collect();
        // `E k(X, X)` is at least `E k(X, X')`, and at least as large as either mean of magnitudes.
        let tops = self.factors[p].relative_to_size.then(|| {
            vec![first_lane(
                product.scale.abs()
                    * means.iter().map(|[own, mean]| own.abs().max(mean.abs())).product::<f64>(),
            )]
        });
        reader.add_terms(&ProductTerms {
            row: 0,
            point: 0,
            players: &product.players,
            run: TermBatch {
                a: present,
                b: Some(absent),
                stride: LANES,
                offset: 0,
                active,
                players: count,
                weights: &weights,
                sizes: tops.as_deref(),
                tinies: &[],
                rounding,
            },
            coef: &coef,
            is_last: true,
        })
    }
}

impl SharedFactors {
    /// Creates the lists for two products with these players.
    fn new(p: &[usize], q: &[usize]) -> Self {
        let pairs: Vec<(usize, usize)> = p
            .iter()
            .enumerate()
            .filter_map(|(k, player)| Some((k, q.iter().position(|o| o == player)?)))
            .collect();
        Self {
            players: pairs.iter().map(|&(k, _)| p[k]).collect(),
            pairs,
            left_only: (0..p.len()).filter(|&k| !q.contains(&p[k])).collect(),
            right_only: (0..q.len()).filter(|&l| !p.contains(&q[l])).collect(),
        }
    }

    /// Fills the sides of all pairs of points of two panels: means of products of factors (`present`), and
    /// products of their means (`absent`), followed by ones.
    fn fill_sides(
        &self,
        left: &FactorPanel,
        right: &FactorPanel,
        present: &mut Vec<f64>,
        absent: &mut Vec<f64>,
    ) {
        let (players, size) = (self.players.len(), TILE * TILE);
        refill(present, (players + 1) * size, 0.0);
        refill(absent, (players + 1) * size, 1.0);
        present[players * size..].fill(1.0);
        let sides = present.chunks_exact_mut(size).zip(absent.chunks_exact_mut(size));
        for (&(k, l), (present, absent)) in self.pairs.iter().zip(sides) {
            left.products(k, right, l, present);
            for (row, mean) in absent.chunks_exact_mut(TILE).zip(&left.means[k]) {
                row.iter_mut().zip(&right.means[l]).for_each(|(out, m)| *out = mean * m);
            }
        }
    }
}

/// Writes the numbers of `count` factors, and pads them to whole groups with the number of the factor of
/// ones.
fn fill_active(count: usize, active: &mut Vec<u32>) {
    active.clear();
    active.extend(0..count as u32);
    active.resize(count.next_multiple_of(4), count as u32);
}

/// Returns a bound on `-ln` of numbers of at most 1; zeros are skipped, because they make their term 0.
fn neg_log_bound(numbers: &[f64]) -> f64 {
    -numbers.iter().filter(|v| **v > 0.0).fold(1.0, |min_number: f64, v| min_number.min(*v)).ln()
}

/// Returns `E k(X, X)` and `E k(X, X')` of factor k.
fn prior_means(
    product: &PlayerProduct<'_>,
    k: usize,
    atoms: &ReferenceRows,
    isa: Isa,
    control: RunControl<'_>,
) -> Result<[f64; 2]> {
    let (ReferenceRows { rows, weights }, columns) = (atoms, atoms.column_major());
    let count = rows.len();
    let u = Columns::new(&columns, count, 0, count);
    let mut factor = vec![0.0; count];
    let (mut diagonal_mean, mut mean) = (0.0, 0.0);
    for (from, (batch, own_weights)) in rows.chunks(TERMS).zip(weights.chunks(TERMS)).enumerate() {
        control.check_cancelled()?;
        let mut sums = [0.0; 2];
        for (position, (row, weight)) in batch.iter().zip(own_weights).enumerate() {
            product.factor(isa, k, u, row, &mut factor);
            let inner: f64 = factor
                .chunks(TERMS)
                .zip(weights.chunks(TERMS))
                .map(|(f, w)| f.iter().zip(w).map(|(f, w)| f * w).sum::<f64>())
                .sum();
            sums[0] += weight * factor[from * TERMS + position];
            sums[1] += weight * inner;
        }
        diagonal_mean += sums[0];
        mean += sums[1];
    }
    Ok([diagonal_mean, mean])
}

impl ProductGame for VarianceGame<'_> {
    type Memory = Memory;

    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn terms(&self, part: usize, memory: &mut Memory, reader: &mut TermSink<'_>) -> Result<()> {
        reader.begin_tile(&(0..1), &(0..0));
        match (&self.parts[part], self.posterior_terms) {
            (&GamePart::Pairs { left, right, panel }, _) => {
                self.pairs((left, right, panel), memory, reader)?
            }
            (GamePart::Prior(p), Some(posterior_terms)) => {
                self.prior_term(*p, posterior_terms, memory, reader)?
            }
            (GamePart::Prior(_), None) => {}
        }
        reader.finish_tile()
    }
}
