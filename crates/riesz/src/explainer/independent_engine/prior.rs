//! How values vary together under the prior.
//!
//! A coalition is worth a sum of values of f at rows whose parts are weighted apart, so under a term of the
//! kernel, a product of one factor a part, two coalitions S and T vary together by the product over parts of
//! [what their weighted rows of the part have in common](crate::attribution::mixtures). For a skew f the same
//! is taken away where the parts of T have changed places: the left item of S against the right one of T. A
//! part that a term does not read counts 1 there, as it does in values. Source: our own; the game, Hu, Chau,
//! Ferrando Huertas and Sejdinovic 2022 (Pref-SHAP).

use std::borrow::Cow;

use rayon::prelude::*;

use super::IndependentPartsEngine;
use crate::attribution::coalition_covariance::{MixedKernels, PairIndex, add_counted, subsets};
use crate::control::check_cancelled;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::kernel::player_products::PlayerProduct;
use crate::linalg::Matrix;
use crate::memory;
use crate::table::Table;

/// Numbers that what coalitions have in common takes together at a time.
const NUMBERS: usize = 1 << 24;

/// Parts in which unions of coalitions are summed up.
const SUMS: usize = 32;

/// Which columns of the model a part's kernel reads: its own, or those in whose places they are.
#[derive(Debug, Clone, PartialEq)]
struct Face {
    /// Of the columns.
    part: usize,
    /// In the order of the domain's.
    columns: Vec<usize>,
}

/// Two faces of a domain, whose kernel compares them.
#[derive(Debug, PartialEq)]
struct Meeting {
    domain: usize,
    faces: [Face; 2],
    /// Whose columns the domain's are, by players' places.
    owner: Vec<usize>,
    /// Players of the part, none where it is always present.
    own: Vec<usize>,
}

/// A product of what faces have in common: a term of the kernel, or of its mirrored half.
struct Product {
    scale: f64,
    meetings: Vec<usize>,
}

/// By coalition of a part's own players, the weights of its reference rows, rows × reference. None where they
/// are the reference's own.
type Weights = Option<Vec<Matrix>>;

/// What there is between two faces.
enum Between {
    /// Of parts that are always present: between rows.
    Rows(Matrix),
    /// The products of the domain's kernel, with their scales.
    Mixed(Vec<(f64, MixedKernels)>),
}

/// By union of coalitions of a part's own players, what all pairs of coalitions have in common that have it.
type Common = Vec<Vec<f64>>;

impl IndependentPartsEngine<'_> {
    /// What meets what, and in which products.
    fn meetings(&self, mirror: Option<&[usize]>) -> (Vec<Meeting>, Vec<Product>) {
        let face = |columns: Vec<usize>| {
            let part = self.columns.iter().position(|own| columns.first().is_some_and(|j| own.contains(j)));
            Face { part: part.unwrap_or(0), columns }
        };
        let mut meetings: Vec<Meeting> = Vec::new();
        let mut products = Vec::new();
        for (term, own) in self.model.kernel.terms.iter().zip(&self.parts.terms) {
            if own.sides.is_empty() {
                continue;
            }
            for (sign, mirror) in [(1.0, None)].into_iter().chain(mirror.map(|mirror| (-1.0, Some(mirror)))) {
                let of = |view: &usize| {
                    let (view, ground) =
                        (&self.parts.views[*view], &self.domain_means[self.means_of_view[*view]]);
                    let other =
                        mirror.map_or(view.columns.clone(), |m| view.columns.iter().map(|&j| m[j]).collect());
                    let faces = [face(view.columns.clone()), face(other)];
                    let own = self.source_of_part[view.part]
                        .map_or(Vec::new(), |s| players_of(&self.sources[s].owner));
                    let (domain, owner) = (view.domain, ground.owner.clone());
                    let meeting = Meeting { domain, faces, owner, own };
                    let known = meetings.iter().position(|m| *m == meeting);
                    known.unwrap_or_else(|| {
                        meetings.push(meeting);
                        meetings.len() - 1
                    })
                };
                let meetings = own.sides.iter().map(of).collect();
                products.push(Product { scale: sign * term.scale, meetings });
            }
        }
        (meetings, products)
    }

    /// The prior covariance of the values of those who can be absent, for each pair of rows.
    pub(super) fn of_prior(
        &self,
        data: &Table,
        mirror: Option<&[usize]>,
        pairs: &[(usize, usize)],
    ) -> Result<Vec<Matrix>> {
        let (meetings, products) = self.meetings(mirror);
        // Which way round two faces meet makes no difference to a row and itself.
        let twin = |m: &Meeting| {
            let [a, b] = &m.faces;
            meetings.iter().position(|own| own.domain == m.domain && own.faces == [b.clone(), a.clone()])
        };
        let twins: Vec<Option<usize>> = meetings.iter().map(twin).collect();
        let numbers: usize = meetings.iter().map(Meeting::pairs).sum();
        self.check_memory(&meetings)?;
        let weights = self.weights(data)?;
        let counts = self.weighing.coalition_coefficients();
        let between: Vec<Between> = meetings.iter().map(|m| self.between(m, data)).collect::<Result<_>>()?;
        let mut out = Vec::with_capacity(pairs.len());
        for pairs in pairs.chunks((NUMBERS / numbers.max(1)).max(1)) {
            // By meeting and pair; nothing where the twin has it.
            let mut tables: Vec<Vec<Common>> = Vec::new();
            for (k, meeting) in meetings.iter().enumerate() {
                let own = |&(r, s): &(usize, usize)| r != s || twins[k].is_none_or(|twin| twin >= k);
                let needed: Vec<(usize, usize)> = pairs.iter().filter(|pair| own(pair)).copied().collect();
                let mut found = self.in_common(meeting, &between[k], &weights, &needed)?.into_iter();
                let of = |pair| if own(pair) { found.next().unwrap_or_default() } else { Common::new() };
                tables.push(pairs.iter().map(of).collect());
            }
            for (at, &(r, s)) in pairs.iter().enumerate() {
                let read = |k: usize| match twins[k] {
                    Some(twin) if r == s && twin < k => (&tables[twin][at], true),
                    _ => (&tables[k][at], false),
                };
                let tables: Vec<(&Common, bool)> = (0..meetings.len()).map(read).collect();
                out.push(self.summed(&meetings, &products, &tables, &counts)?);
            }
        }
        Ok(out)
    }

    /// Refuses what no memory holds: pairs of coalitions of one row, and kernels between reference rows.
    fn check_memory(&self, meetings: &[Meeting]) -> Result<()> {
        let threads = rayon::current_num_threads();
        let of =
            |m: &Meeting| m.pairs() + (m.own.len() + threads) * self.references(m).iter().product::<usize>();
        memory::ensure_free(meetings.iter().map(of).sum()).map_err(|_| {
            let allowed = "there is no memory for what all pairs of coalitions, and all pairs of reference \
                           rows, have in common: group columns, or take fewer reference rows";
            Error::parameter("covariance", true, allowed)
        })
    }

    /// How many reference rows either face has.
    fn references(&self, meeting: &Meeting) -> [usize; 2] {
        let of =
            |face: &Face| self.source_of_part[face.part].map_or(0, |s| self.sources[s].reference.rows.len());
        [of(&meeting.faces[0]), of(&meeting.faces[1])]
    }

    /// How many rows to ask for at a time.
    pub(super) fn rows_with_covariances(&self, mirror: Option<&[usize]>) -> usize {
        let of = |m: &Meeting| m.pairs() + (self.references(m).iter().sum::<usize>() << m.own.len());
        let meetings: usize = self.meetings(mirror).0.iter().map(of).sum();
        let columns = self.model.support_points.rows() * self.groups.players().len();
        (NUMBERS / (meetings + columns).max(1)).clamp(1, 64)
    }

    fn between(&self, meeting: &Meeting, data: &Table) -> Result<Between> {
        let domain = &self.parts.domains[meeting.domain];
        let names = domain.rows.columns();
        let rows = |face: &Face| -> Result<Table> {
            let values = face.columns.iter().flat_map(|&j| data.column(j)).copied().collect();
            Table::from_column_major(names.to_vec(), data.rows(), values)
        };
        let [first, second] = &meeting.faces;
        let (own, other) = (rows(first)?, rows(second)?);
        if meeting.own.is_empty() {
            return Ok(Between::Rows(domain.kernel.cross_gram(&own, &other)));
        }
        let reference = |face: &Face| -> Result<Table> {
            let rows = self.source_of_part[face.part].map_or(&[][..], |s| &self.sources[s].reference.rows);
            let place = |j: &usize| self.columns[face.part].iter().position(|own| own == j);
            let places: Vec<usize> = face.columns.iter().filter_map(place).collect();
            let values = places.iter().flat_map(|&k| rows.iter().map(move |row| row[k])).collect();
            Table::from_column_major(names.to_vec(), rows.len(), values)
        };
        let (own_reference, other_reference) = (reference(first)?, reference(second)?);
        let other = (first != second).then_some((&other_reference, &other));
        let of = |product: &PlayerProduct<'_>| {
            let all = product.kernels(self.players());
            let kernels: Vec<Kernel> = meeting.own.iter().map(|&p| all[p].clone()).collect();
            (product.scale, MixedKernels::new(&kernels, (&own_reference, &own), other))
        };
        let products = domain.kernel.split(names, &meeting.owner)?;
        Ok(Between::Mixed(products.iter().map(of).collect()))
    }

    /// For each of these pairs of rows.
    fn in_common(
        &self,
        meeting: &Meeting,
        between: &Between,
        weights: &[Weights],
        pairs: &[(usize, usize)],
    ) -> Result<Vec<Common>> {
        let products = match between {
            Between::Rows(all) => return Ok(pairs.iter().map(|&pair| vec![vec![all[pair]]]).collect()),
            Between::Mixed(products) => products,
        };
        let [first, second] = &meeting.faces;
        let of_face = |face: &Face, row: usize| {
            let (own, source) =
                (&weights[face.part], self.source_of_part[face.part].map(|s| &self.sources[s]));
            move |set: usize| match own {
                Some(all) => all[set].row(row),
                None => source.map_or(&[][..], |source| &source.reference.weights),
            }
        };
        let of_union = |union: usize| -> Result<Vec<Vec<f64>>> {
            check_cancelled(&self.stop)?;
            let places = PairIndex::new(union);
            let mut out = vec![vec![0.0; PairIndex::count(union)]; pairs.len()];
            for (scale, mixtures) in products {
                let absent = mixtures.absent(union);
                for (out, &(r, s)) in out.iter_mut().zip(pairs) {
                    let same = r == s && first == second;
                    let sides = (of_face(first, r), of_face(second, s));
                    mixtures.add(&places, (&absent, *scale), ((r, s), same), sides, out);
                }
            }
            Ok(out)
        };
        let unions = (0..1_usize << meeting.own.len()).into_par_iter().with_max_len(1);
        let found = unions.map(of_union).collect::<Result<Vec<_>>>()?;
        let mut out: Vec<Common> = vec![Vec::with_capacity(found.len()); pairs.len()];
        for all in found {
            out.iter_mut().zip(all).for_each(|(out, own)| out.push(own));
        }
        Ok(out)
    }

    /// The prior covariance of values, from what coalitions have in common by meeting, some of them the other
    /// way round.
    fn summed(
        &self,
        meetings: &[Meeting],
        products: &[Product],
        tables: &[(&Common, bool)],
        counts: &[Vec<f64>],
    ) -> Result<Matrix> {
        let players = self.players();
        let part = |from: usize| {
            let (mut sums, mut own) = (Matrix::zeros(players, players), Vec::new());
            for union in (from..1 << players).step_by(SUMS) {
                check_cancelled(&self.stop)?;
                let places = PairIndex::new(union);
                let each = meetings.iter().zip(tables);
                let numbers: Vec<Cow<'_, [f64]>> = each
                    .map(|(meeting, (table, turned))| meeting.of_union(&places, table, *turned))
                    .collect();
                let mut all = vec![0.0; PairIndex::count(union)];
                for product in products {
                    own.clear();
                    own.resize(all.len(), product.scale);
                    for &meeting in &product.meetings {
                        own.iter_mut().zip(&*numbers[meeting]).for_each(|(own, number)| *own *= number);
                    }
                    all.iter_mut().zip(&own).for_each(|(all, own)| *all += own);
                }
                let number = |other, common| all[places.of(other, common)];
                add_counted(union, (counts, counts), number, &mut sums);
            }
            Ok(sums)
        };
        // A fixed number of parts, each summed in order, whatever the number of threads.
        let parts = (0..SUMS).into_par_iter().map(part).collect::<Result<Vec<Matrix>>>()?;
        let mut out = Matrix::zeros(players, players);
        for sums in &parts {
            out.data_mut().iter_mut().zip(sums.data()).for_each(|(out, v)| *out += v);
        }
        Ok(out)
    }

    /// By part the weights of its reference rows.
    fn weights(&self, data: &Table) -> Result<Vec<Weights>> {
        let n = data.rows();
        let mut out: Vec<Weights> = self.columns.iter().map(|_| None).collect();
        for (s, source) in self.sources.iter().enumerate() {
            let Some(means) = &source.conditional else { continue };
            // Parts that share a source are asked for together.
            let parts: Vec<usize> =
                (0..self.source_of_part.len()).filter(|&p| self.source_of_part[p] == Some(s)).collect();
            let names = means.learnt().rows.columns().to_vec();
            let column = |k: usize| parts.iter().flat_map(move |&p| data.column(self.columns[p][k])).copied();
            let values = (0..names.len()).flat_map(column).collect();
            let x = Table::from_column_major(names, parts.len() * n, values)?;
            let own = players_of(&source.owner).len();
            let all = (1_usize << own) - 1;
            let of = |coalition: usize| -> Result<Matrix> {
                check_cancelled(&self.stop)?;
                // With everybody there is the row itself, whatever the weights, which sum to 1.
                let present =
                    (0..own).map(|k| coalition < all && coalition >> k & 1 == 1).collect::<Vec<_>>();
                Ok(means.weights(&present, &x, &self.stop)?.matrix.transpose())
            };
            let found = (0..=all).into_par_iter().map(of).collect::<Result<Vec<Matrix>>>()?;
            for (at, &p) in parts.iter().enumerate() {
                let rows = |all: &Matrix| {
                    let own = all.data()[at * n * all.cols()..(at + 1) * n * all.cols()].to_vec();
                    Matrix::from_row_major(n, all.cols(), own)
                };
                out[p] = Some(found.iter().map(rows).collect());
            }
        }
        Ok(out)
    }
}

impl Meeting {
    /// How many pairs of coalitions it has.
    fn pairs(&self) -> usize {
        1 << (2 * self.own.len())
    }

    /// The part's own players of a coalition.
    fn within(&self, coalition: usize) -> usize {
        self.own.iter().enumerate().map(|(k, p)| (coalition >> p & 1) << k).sum()
    }

    /// What all pairs of coalitions have in common whose union, of players of other parts too, has these
    /// places, where the two are the other way round or not.
    fn of_union<'t>(&self, places: &PairIndex, table: &'t Common, turned: bool) -> Cow<'t, [f64]> {
        let own = self.within(places.union);
        let numbers = &table[own];
        if own.count_ones() == places.union.count_ones() && !turned {
            return Cow::Borrowed(numbers);
        }
        let (within, mut powers) = (PairIndex::new(own), vec![0; places.union + 1]);
        subsets(places.union).for_each(|set| powers[set] = within.power(self.within(set)));
        let mut out = vec![0.0; PairIndex::count(places.union)];
        for one in subsets(places.union) {
            for common in subsets(one) {
                let other = places.union ^ one | common;
                let second = if turned { one } else { other };
                out[places.of(other, common)] = numbers[powers[second] + powers[common]];
            }
        }
        Cow::Owned(out)
    }
}

/// To whom columns belong, each player once.
fn players_of(owner: &[usize]) -> Vec<usize> {
    let mut own = owner.to_vec();
    own.sort_unstable();
    own.dedup();
    own
}
