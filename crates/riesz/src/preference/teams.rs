//! Duels between bags of items: teams, baskets, sets of pictures. The log odds of two bags L and R are the
//! mean of those of their members, `g(L, R) = Σ_ab m_La m_Rb g(a, b)`, where M (bags × items) has the
//! members' shares m. The kernel matrix of bags is therefore `M K Mᵀ`, where K is that of items, and the
//! model is again one of pairs of items.

use std::collections::{BTreeMap, BTreeSet};

use super::pair_kernel::{Pair, wide_rows_in};
use crate::error::{Error, Result, sized};
use crate::linalg::{Matrix, Sparse};
use crate::table::Table;

/// The members of each bag, and their shares.
///
/// ```
/// use riesz::preference::ItemBags;
///
/// let bags = ItemBags::new(3, 2, &[0, 0, 1], &[0, 1, 2], Some(&[1.0, 3.0, 5.0]))?;
/// assert_eq!(bags.members(0).collect::<Vec<_>>(), [(0, 0.25), (1, 0.75)]);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ItemBags {
    /// Items × bags; columns sum to 1.
    members: Sparse,
}

/// The competitors in duels: the rows of a table of items, or bags of these rows. Arguments of the type
/// `impl Into<Competitors>` are the table of items, or the pair of this table and the bags.
#[derive(Debug, Clone, Copy)]
pub struct Competitors<'a> {
    /// The items.
    pub items: &'a Table,
    /// The bags of these items, if duels are between bags.
    pub bags: Option<&'a ItemBags>,
}

impl<'a> From<&'a Table> for Competitors<'a> {
    fn from(items: &'a Table) -> Self {
        Self { items, bags: None }
    }
}

impl<'a> From<(&'a Table, &'a ItemBags)> for Competitors<'a> {
    fn from((items, bags): (&'a Table, &'a ItemBags)) -> Self {
        Self { items, bags: Some(bags) }
    }
}

impl Competitors<'_> {
    /// Returns the number of bags, or of items if there are no bags.
    pub fn count(&self) -> usize {
        self.bags.map_or(self.items.rows(), ItemBags::count)
    }

    /// Returns the items of a competitor and their shares.
    ///
    /// # Panics
    /// If it is a bag that does not exist.
    pub(super) fn members(&self, competitor: usize) -> Vec<(usize, f64)> {
        self.bags.map_or_else(|| vec![(competitor, 1.0)], |bags| bags.members(competitor).collect())
    }

    /// Returns for each item its sum of the competitors' numbers, of which a bag's members have shares.
    pub(super) fn sums_of_items(&self, of_competitors: Vec<f64>) -> Vec<f64> {
        match self.bags {
            None => of_competitors,
            Some(bags) => bags.sums_of_items(&of_competitors),
        }
    }

    /// Checks that bags consist of these items, and that the competitors of all pairs exist.
    pub(super) fn check(&self, pairs: &[Pair]) -> Result<()> {
        if let Some(bags) = self.bags {
            sized("the table of items", "rows", bags.items(), self.items.rows(), "one per item of the bags")?;
        }
        let (noun, count) = (if self.bags.is_some() { "bag" } else { "item" }, self.count());
        match pairs.iter().flat_map(|&(l, r)| [l, r]).find(|number| *number >= count) {
            None => Ok(()),
            Some(number) => {
                let allowed = format!("there are {count} {noun}s, numbered from 0");
                Err(Error::parameter(noun, number, allowed))
            }
        }
    }
}

impl ItemBags {
    /// Creates bags from memberships: the bag and the item of each, both numbered from 0, and its weight in
    /// the bag (1 by default). Weights are normalised to shares.
    ///
    /// # Errors
    /// [`Error::Shape`]; [`Error::Parameter`] for a bag or an item that does not exist, a weight that is not
    /// positive, and a bag without members.
    pub fn new(
        items: usize,
        bags: usize,
        bag: &[usize],
        item: &[usize],
        weight: Option<&[f64]>,
    ) -> Result<Self> {
        let expected = bag.len();
        for (list, length) in [("item", item.len())].into_iter().chain(weight.map(|w| ("weight", w.len()))) {
            sized(list, "numbers", expected, length, "one per membership")?;
        }
        let mut members_by_bag: Vec<Vec<(usize, f64)>> = vec![Vec::new(); bags];
        for (i, (&b, &a)) in bag.iter().zip(item).enumerate() {
            let weight = weight.map_or(1.0, |w| w[i]);
            let error = |quantity: &str, value: String, allowed: String| {
                Err(Error::parameter(format!("{quantity} of membership {}", i + 1), value, allowed))
            };
            if a >= items {
                return error("item", a.to_string(), format!("there are {items} items, numbered from 0"));
            }
            if !(weight.is_finite() && weight > 0.0) {
                return error("weight", weight.to_string(), "weights are positive numbers".into());
            }
            match members_by_bag.get_mut(b) {
                Some(members) => members.push((a, weight)),
                None => {
                    return error("bag", b.to_string(), format!("there are {bags} bags, numbered from 0"));
                }
            }
        }
        if let Some(empty_bag) = members_by_bag.iter().position(Vec::is_empty) {
            return Err(Error::parameter(
                "bag",
                empty_bag,
                "a bag needs members: leave its duels out, or give it members",
            ));
        }
        for members in &mut members_by_bag {
            let total: f64 = members.iter().map(|(_, w)| w).sum();
            members.iter_mut().for_each(|(_, w)| *w /= total);
        }
        Ok(Self { members: Sparse::from_columns(items, members_by_bag)? })
    }

    /// Returns the number of bags.
    pub fn count(&self) -> usize {
        self.members.cols()
    }

    /// Returns the number of items.
    pub fn items(&self) -> usize {
        self.members.rows()
    }

    /// Returns the items of a bag and their shares, which sum to 1.
    ///
    /// # Panics
    /// If the bag does not exist.
    pub fn members(&self, bag: usize) -> impl Iterator<Item = (usize, f64)> {
        self.members.column(bag)
    }

    /// Returns the mean rows `M F` (bags × q) of the rows F (items × q) of the members.
    pub(super) fn means(&self, rows: &Matrix) -> Matrix {
        self.members.transpose_times(rows)
    }

    /// Returns the mean columns (levels × bags) of the columns (levels × items) of the members. Each level
    /// occurs at most once in a column.
    pub(super) fn mean_columns(&self, columns: &Sparse) -> Result<Sparse> {
        let mean_column = |bag: usize| {
            let mut sums: BTreeMap<usize, f64> = BTreeMap::new();
            for (item, share) in self.members(bag) {
                columns.column(item).for_each(|(level, v)| *sums.entry(level).or_default() += share * v);
            }
            sums
        };
        Sparse::from_columns(columns.rows(), (0..self.count()).map(mean_column))
    }

    /// Returns for each item the sum over the bags of its share times the bag's number, `Mᵀ v`: the adjoint
    /// of taking means.
    fn sums_of_items(&self, of_bags: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.items()];
        for (bag, value) in of_bags.iter().enumerate() {
            self.members(bag).for_each(|(item, share)| sums[item] += share * value);
        }
        sums
    }

    /// Returns the items of these bags, ascending, and the bags with the numbers of these items.
    pub(super) fn select(&self, bags: &[usize]) -> Result<(Vec<usize>, Self)> {
        let members = || bags.iter().map(|&bag| self.members(bag));
        let items: BTreeSet<usize> = members().flatten().map(|(item, _)| item).collect();
        let new_indices: BTreeMap<usize, usize> = items.iter().copied().zip(0..).collect();
        let columns = members().map(|bag| bag.map(|(item, share)| (new_indices[&item], share)));
        let members = Sparse::from_columns(items.len(), columns)?;
        Ok((items.into_iter().collect(), Self { members }))
    }

    /// Returns `M K Mᵀ` (bags × bags) for a matrix K (items × items).
    pub(super) fn to_bags(&self, items: &Matrix) -> Matrix {
        symmetric_product(items, |matrix| self.members.transpose_times(matrix))
    }

    /// Returns the derivatives in a matrix between items, from those in the matrix between bags.
    pub(super) fn to_items(&self, bags: &Matrix) -> Matrix {
        symmetric_product(bags, |matrix| self.members.matmul(matrix))
    }

    /// Returns the wide rows of all pairs of members of each pair of bags, and their weights in its log odds
    /// (rows × pairs), for
    /// [`Posterior::weighted_sum_functionals`](crate::Posterior::weighted_sum_functionals). `contexts` has
    /// one row per pair of bags, if the model has contexts.
    ///
    /// # Errors
    /// As [`wide_rows_in`]; [`Error::Parameter`] for a bag that does not exist.
    pub fn duels(&self, items: &Table, pairs: &[Pair], contexts: Option<&Table>) -> Result<(Table, Sparse)> {
        let (mut rows, mut pair_of_row, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (p, &(l, r)) in pairs.iter().enumerate() {
            if let Some(bag) = [l, r].into_iter().find(|bag| *bag >= self.count()) {
                return Err(Error::parameter(
                    "bag",
                    bag,
                    format!("there are {} bags, numbered from 0", self.count()),
                ));
            }
            let first_row = rows.len();
            let mut member_pairs = Vec::new();
            for (a, m) in self.members(l) {
                for (b, q) in self.members(r) {
                    member_pairs.push((first_row + member_pairs.len(), m * q));
                    rows.push((a, b));
                    pair_of_row.push(p);
                }
            }
            weights.push(member_pairs);
        }
        let contexts = contexts.map(|c| c.select_rows(&pair_of_row));
        let wide = wide_rows_in(items, &rows, contexts.as_ref())?;
        Ok((wide, Sparse::from_columns(rows.len(), weights)?))
    }
}

/// Returns the symmetric product `A K Aᵀ`, where K is symmetric and `multiply_by_a` multiplies A by a matrix.
fn symmetric_product(k: &Matrix, multiply_by_a: impl Fn(&Matrix) -> Matrix) -> Matrix {
    let mut out = multiply_by_a(&multiply_by_a(k).transpose());
    out.mirror_upper();
    out
}
