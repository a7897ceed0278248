//! The prior covariance of values.
//!
//! A coalition's value is a sum of values of f at rows, whose weights are a product over parts. A term of the
//! kernel is a product of one factor per part. Under a term, the covariance of the values of two coalitions S
//! and T is therefore a product over parts of the [weighted means of the part's
//! factor](crate::attribution::mixtures) between the rows of S and those of T. For a skew f, the same product
//! with the columns of T swapped is subtracted: the left item of S against the right item of T. A part whose
//! columns a term does not read has the factor 1. The covariances are derived here; the game is that of Hu,
//! Chau, Ferrando Huertas and Sejdinovic 2022 (Pref-SHAP).

use std::borrow::Cow;

use rayon::prelude::*;

use super::IndependentPartsEngine;
use crate::attribution::coalition_covariance::{
    MixedKernels, PairIndex, add_counted, add_over_unions, subsets,
};
use crate::attribution::coalition_tables::restricted_coalition;
use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::kernel::player_products::PlayerProduct;
use crate::linalg::{Matrix, add_to, multiply_entries};
use crate::memory;
use crate::memory::refill;
use crate::table::Table;

/// The number of doubles that the kernel sums of pairs of coalitions may hold at a time.
const NUMBERS: usize = 1 << 24;

/// The columns of the model that a part's kernel reads: its own, or those that are swapped with them.
#[derive(Debug, Clone, PartialEq)]
struct ColumnView {
    /// The part of the columns.
    part: usize,
    /// The columns in the order of the domain's.
    columns: Vec<usize>,
}

/// Two column views of a domain, which its kernel compares.
#[derive(Debug, PartialEq)]
struct ViewPair {
    domain: usize,
    faces: [ColumnView; 2],
    /// The players of the domain's columns, by their positions.
    owner: Vec<usize>,
    /// The players of the part; empty if it is always present.
    part_players: Vec<usize>,
}

/// A product of kernel sums, one per view pair: a term of the kernel, or of its mirrored half.
struct Product {
    scale: f64,
    face_pairs: Vec<usize>,
}

/// For each coalition of a part's players, the weights of its reference rows (rows × reference); `None` if
/// they are the reference's weights for every coalition.
type Weights = Option<Vec<Matrix>>;

/// The kernel between two column views.
enum CrossKernel {
    /// The kernel between rows, for parts that are always present.
    Rows(Matrix),
    /// The products of the domain's kernel, with their scales.
    Mixed(Vec<(f64, MixedKernels)>),
}

/// For each union of coalitions of a part's players, the kernel sums of all pairs of coalitions with that
/// union.
type UnionTerms = Vec<Vec<f64>>;

impl IndependentPartsEngine<'_> {
    /// Returns the distinct pairs of column views, and the products in which they occur.
    fn view_pairs(&self, mirror: Option<&[usize]>) -> (Vec<ViewPair>, Vec<Product>) {
        let face = |columns: Vec<usize>| {
            let part = self
                .game
                .columns
                .iter()
                .position(|part_columns| columns.first().is_some_and(|j| part_columns.contains(j)));
            ColumnView { part: part.unwrap_or(0), columns }
        };
        let mut face_pairs: Vec<ViewPair> = Vec::new();
        let mut products = Vec::new();
        for (term, sparse_term) in self.game.model.kernel.terms.iter().zip(&self.game.parts.terms) {
            if sparse_term.sides.is_empty() {
                continue;
            }
            for (sign, mirror) in [(1.0, None)].into_iter().chain(mirror.map(|mirror| (-1.0, Some(mirror)))) {
                let pair_index = |view: &usize| {
                    let (view, ground) = (
                        &self.game.parts.views[*view],
                        &self.game.domain_means[self.game.means_of_view[*view]],
                    );
                    let other =
                        mirror.map_or(view.columns.clone(), |m| view.columns.iter().map(|&j| m[j]).collect());
                    let faces = [face(view.columns.clone()), face(other)];
                    let part_players = self.game.source_of_part[view.part]
                        .map_or(Vec::new(), |s| players_of(&self.game.sources[s].owner));
                    let (domain, owner) = (view.domain, ground.owner.clone());
                    let face_pair = ViewPair { domain, faces, owner, part_players };
                    let existing = face_pairs.iter().position(|m| *m == face_pair);
                    existing.unwrap_or_else(|| {
                        face_pairs.push(face_pair);
                        face_pairs.len() - 1
                    })
                };
                let face_pairs = sparse_term.sides.iter().map(pair_index).collect();
                products.push(Product { scale: sign * term.scale, face_pairs });
            }
        }
        (face_pairs, products)
    }

    /// Returns the prior covariance of the values of the players that can be absent, for each pair of rows.
    pub(super) fn prior_covariance(
        &self,
        data: &Table,
        mirror: Option<&[usize]>,
        pairs: &[(usize, usize)],
    ) -> Result<Vec<Matrix>> {
        let (face_pairs, products) = self.view_pairs(mirror);
        // For a row and itself the order of the two views makes no difference.
        let twin = |m: &ViewPair| {
            let [a, b] = &m.faces;
            face_pairs
                .iter()
                .position(|other| other.domain == m.domain && other.faces == [b.clone(), a.clone()])
        };
        let twins: Vec<Option<usize>> = face_pairs.iter().map(twin).collect();
        let numbers: usize = face_pairs.iter().map(ViewPair::pairs).sum();
        self.check_memory(&face_pairs)?;
        let weights = self.weights(data)?;
        let coefficients = self.plan.weighing.coalition_coefficients();
        let cross_kernels: Vec<CrossKernel> =
            face_pairs.iter().map(|m| self.cross_kernel(m, data)).collect::<Result<_>>()?;
        let mut out = Vec::with_capacity(pairs.len());
        for pairs in pairs.chunks((NUMBERS / numbers.max(1)).max(1)) {
            // For each pair of views and each pair of rows; empty if the transposed twin has the terms.
            let mut tables: Vec<Vec<UnionTerms>> = Vec::new();
            for (k, face_pair) in face_pairs.iter().enumerate() {
                let is_needed = |&(r, s): &(usize, usize)| r != s || twins[k].is_none_or(|twin| twin >= k);
                let needed: Vec<(usize, usize)> =
                    pairs.iter().filter(|pair| is_needed(pair)).copied().collect();
                let mut terms =
                    self.union_terms(face_pair, &cross_kernels[k], &weights, &needed)?.into_iter();
                let pair_terms =
                    |pair| if is_needed(pair) { terms.next().unwrap_or_default() } else { UnionTerms::new() };
                tables.push(pairs.iter().map(pair_terms).collect());
            }
            for (position, &(r, s)) in pairs.iter().enumerate() {
                let read = |k: usize| match twins[k] {
                    Some(twin) if r == s && twin < k => (&tables[twin][position], true),
                    _ => (&tables[k][position], false),
                };
                let tables: Vec<(&UnionTerms, bool)> = (0..face_pairs.len()).map(read).collect();
                out.push(self.sum_pairs(&face_pairs, &products, &tables, &coefficients)?);
            }
        }
        Ok(out)
    }

    /// Rejects requests that exceed the memory for pairs of coalitions of one row and for kernels between
    /// reference rows.
    fn check_memory(&self, face_pairs: &[ViewPair]) -> Result<()> {
        let threads = rayon::current_num_threads();
        let numbers = |m: &ViewPair| {
            m.pairs() + (m.part_players.len() + threads) * self.references(m).iter().product::<usize>()
        };
        memory::ensure_free(face_pairs.iter().map(numbers).sum()).map_err(|_| {
            let allowed = "there is not enough memory for all pairs of coalitions and of reference rows: \
                           group columns, or take fewer reference rows";
            Error::parameter("covariance", true, allowed)
        })
    }

    /// The number of reference rows of each column view.
    fn references(&self, face_pair: &ViewPair) -> [usize; 2] {
        let reference_count = |face: &ColumnView| {
            self.game.source_of_part[face.part].map_or(0, |s| self.game.sources[s].reference.rows.len())
        };
        [reference_count(&face_pair.faces[0]), reference_count(&face_pair.faces[1])]
    }

    /// The number of rows whose covariances are computed at a time.
    pub(super) fn rows_with_covariances(&self, mirror: Option<&[usize]>) -> usize {
        let numbers_per_row =
            |m: &ViewPair| m.pairs() + (self.references(m).iter().sum::<usize>() << m.part_players.len());
        let face_pairs: usize = self.view_pairs(mirror).0.iter().map(numbers_per_row).sum();
        let columns = self.game.model.support_points.rows() * self.game.groups.players().len();
        (NUMBERS / (face_pairs + columns).max(1)).clamp(1, 64)
    }

    fn cross_kernel(&self, face_pair: &ViewPair, data: &Table) -> Result<CrossKernel> {
        let domain = &self.game.parts.domains[face_pair.domain];
        let names = domain.rows.columns();
        let rows = |face: &ColumnView| -> Result<Table> {
            let values = face.columns.iter().flat_map(|&j| data.column(j)).copied().collect();
            Table::from_column_major(names.to_vec(), data.rows(), values)
        };
        let [first, second] = &face_pair.faces;
        let (rows_of_first, other) = (rows(first)?, rows(second)?);
        if face_pair.part_players.is_empty() {
            return Ok(CrossKernel::Rows(domain.kernel.cross_gram(&rows_of_first, &other)));
        }
        let reference = |face: &ColumnView| -> Result<Table> {
            let rows =
                self.game.source_of_part[face.part].map_or(&[][..], |s| &self.game.sources[s].reference.rows);
            let position = |j: &usize| self.game.columns[face.part].iter().position(|column| column == j);
            let positions: Vec<usize> = face.columns.iter().filter_map(position).collect();
            let values = positions.iter().flat_map(|&k| rows.iter().map(move |row| row[k])).collect();
            Table::from_column_major(names.to_vec(), rows.len(), values)
        };
        let (own_reference, other_reference) = (reference(first)?, reference(second)?);
        let other = (first != second).then_some((&other_reference, &other));
        let mixed_product = |product: &PlayerProduct<'_>| {
            let player_kernels = product.kernels(self.game.active_players());
            let kernels: Vec<Kernel> =
                face_pair.part_players.iter().map(|&p| player_kernels[p].clone()).collect();
            (product.scale, MixedKernels::new(&kernels, (&own_reference, &rows_of_first), other))
        };
        let products = domain.kernel.split(names, &face_pair.owner, Some(&domain.radial_approximation()))?;
        Ok(CrossKernel::Mixed(products.iter().map(mixed_product).collect()))
    }

    /// Returns the kernel sums of all pairs of coalitions, for each pair of rows.
    fn union_terms(
        &self,
        face_pair: &ViewPair,
        cross_kernel: &CrossKernel,
        weights: &[Weights],
        pairs: &[(usize, usize)],
    ) -> Result<Vec<UnionTerms>> {
        let products = match cross_kernel {
            CrossKernel::Rows(kernel) => {
                return Ok(pairs.iter().map(|&pair| vec![vec![kernel[pair]]]).collect());
            }
            CrossKernel::Mixed(products) => products,
        };
        let [first, second] = &face_pair.faces;
        let face_weights = |face: &ColumnView, row: usize| {
            let (part_weights, source) =
                (&weights[face.part], self.game.source_of_part[face.part].map(|s| &self.game.sources[s]));
            move |set: usize| match part_weights {
                Some(weights_by_set) => weights_by_set[set].row(row),
                None => source.map_or(&[][..], |source| &source.reference.weights),
            }
        };
        let terms_of_union = |union: usize| -> Result<Vec<Vec<f64>>> {
            check_cancelled(&self.game.stop)?;
            let pair_index = PairIndex::new(union);
            let mut out = vec![vec![0.0; PairIndex::count(union)]; pairs.len()];
            for (scale, mixtures) in products {
                let absent = mixtures.absent(union);
                for (out, &(r, s)) in out.iter_mut().zip(pairs) {
                    let same_row = r == s && first == second;
                    let sides = (face_weights(first, r), face_weights(second, s));
                    mixtures.add(&pair_index, (&absent, *scale), ((r, s), same_row), sides, out);
                }
            }
            Ok(out)
        };
        let unions = (0..1_usize << face_pair.part_players.len()).into_par_iter().with_max_len(1);
        let terms_by_union = unions.map(terms_of_union).collect::<Result<Vec<_>>>()?;
        let mut out: Vec<UnionTerms> = vec![Vec::with_capacity(terms_by_union.len()); pairs.len()];
        for terms_by_pair in terms_by_union {
            out.iter_mut().zip(terms_by_pair).for_each(|(out, terms)| out.push(terms));
        }
        Ok(out)
    }

    /// Returns the prior covariance of the values, from the kernel sums of each pair of views, transposed if
    /// flagged.
    fn sum_pairs(
        &self,
        face_pairs: &[ViewPair],
        products: &[Product],
        tables: &[(&UnionTerms, bool)],
        coefficients: &[Vec<f64>],
    ) -> Result<Matrix> {
        let players = self.game.active_players();
        let mut out = [Matrix::zeros(players, players)];
        add_over_unions(players, &mut out, |union, sums| {
            check_cancelled(&self.game.stop)?;
            let mut product_terms = Vec::new();
            let pair_index = PairIndex::new(union);
            let pairs_with_tables = face_pairs.iter().zip(tables);
            let numbers: Vec<Cow<'_, [f64]>> = pairs_with_tables
                .map(|(face_pair, (table, transposed))| face_pair.for_union(&pair_index, table, *transposed))
                .collect();
            let mut totals = vec![0.0; PairIndex::count(union)];
            for product in products {
                refill(&mut product_terms, totals.len(), product.scale);
                for &face_pair in &product.face_pairs {
                    multiply_entries(&mut product_terms, &numbers[face_pair]);
                }
                add_to(&mut totals, &product_terms);
            }
            let number = |other, common| totals[pair_index.pair_index(other, common)];
            add_counted(union, (coefficients, coefficients), number, &mut sums[0]);
            Ok(())
        })?;
        let [covariance] = out;
        Ok(covariance)
    }

    /// Returns, for each part, the weights of its reference rows.
    fn weights(&self, data: &Table) -> Result<Vec<Weights>> {
        let n = data.rows();
        let mut out: Vec<Weights> = self.game.columns.iter().map(|_| None).collect();
        for (s, source) in self.game.sources.iter().enumerate() {
            let Some(means) = &source.conditional else { continue };
            // Parts that share a source are computed together.
            let parts: Vec<usize> = (0..self.game.source_of_part.len())
                .filter(|&p| self.game.source_of_part[p] == Some(s))
                .collect();
            let names = means.learnt().rows.columns().to_vec();
            let column =
                |k: usize| parts.iter().flat_map(move |&p| data.column(self.game.columns[p][k])).copied();
            let values = (0..names.len()).flat_map(column).collect();
            let x = Table::from_column_major(names, parts.len() * n, values)?;
            let player_count = players_of(&source.owner).len();
            let grand = (1_usize << player_count) - 1;
            let coalition_weights = |coalition: usize| -> Result<Matrix> {
                check_cancelled(&self.game.stop)?;
                // The grand coalition is the row itself for any weights that sum to 1.
                let present = (0..player_count)
                    .map(|k| coalition < grand && coalition >> k & 1 == 1)
                    .collect::<Vec<_>>();
                Ok(means.weights(&present, &x, &self.game.stop)?.matrix.transpose())
            };
            let weights_by_coalition =
                (0..=grand).into_par_iter().map(coalition_weights).collect::<Result<Vec<Matrix>>>()?;
            for (position, &p) in parts.iter().enumerate() {
                let rows: Vec<usize> = (position * n..(position + 1) * n).collect();
                out[p] =
                    Some(weights_by_coalition.iter().map(|weights| weights.select_rows(&rows)).collect());
            }
        }
        Ok(out)
    }
}

impl ViewPair {
    /// The number of pairs of coalitions.
    fn pairs(&self) -> usize {
        1 << (2 * self.part_players.len())
    }

    /// Returns the kernel sums of all pairs of coalitions with this union, which may contain players of other
    /// parts, for the pairs of views in the given or the transposed order.
    fn for_union<'t>(
        &self,
        pair_index: &PairIndex,
        table: &'t UnionTerms,
        transposed: bool,
    ) -> Cow<'t, [f64]> {
        let part_coalition = |coalition| restricted_coalition(coalition, &self.part_players);
        let part_union = part_coalition(pair_index.union);
        let numbers = &table[part_union];
        if part_union.count_ones() == pair_index.union.count_ones() && !transposed {
            return Cow::Borrowed(numbers);
        }
        let (part_index, mut powers) = (PairIndex::new(part_union), vec![0; pair_index.union + 1]);
        subsets(pair_index.union).for_each(|set| powers[set] = part_index.powers[part_coalition(set)]);
        let mut out = vec![0.0; PairIndex::count(pair_index.union)];
        for subset in subsets(pair_index.union) {
            for common in subsets(subset) {
                let other = pair_index.union ^ subset | common;
                let second = if transposed { subset } else { other };
                out[pair_index.pair_index(other, common)] = numbers[powers[second] + powers[common]];
            }
        }
        Cow::Owned(out)
    }
}

/// The distinct players of the columns, ascending.
fn players_of(owner: &[usize]) -> Vec<usize> {
    let mut players = owner.to_vec();
    players.sort_unstable();
    players.dedup();
    players
}
