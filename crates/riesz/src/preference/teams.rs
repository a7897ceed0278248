//! Duels between bags of items: teams, baskets, sets of pictures. The log odds of two bags are the mean of
//! those of their members, `g(L, R) = Σ_ab m_La m_Rb g(a, b)`, so the kernel between bags is `M K Mᵀ`, and
//! the model one of pairs of items again.

use super::pair_kernel::{Pair, wide_rows_in};
use crate::error::{Error, Result};
use crate::linalg::{Matrix, Sparse};
use crate::table::Table;

/// Which items make each bag, and with which share.
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
    /// Items × bags; columns sum up to 1.
    members: Sparse,
}

impl ItemBags {
    /// Of each membership the bag and the item, both numbered from 0, and how much it counts in the bag, by
    /// default 1; shares are made of that.
    ///
    /// # Errors
    /// [`Error::Shape`]; [`Error::Parameter`] for a bag or an item that is not there, a weight that is not
    /// positive, and a bag without members.
    pub fn new(
        items: usize,
        bags: usize,
        bag: &[usize],
        item: &[usize],
        weight: Option<&[f64]>,
    ) -> Result<Self> {
        let expected = bag.len();
        for (what, found) in [("item", item.len())].into_iter().chain(weight.map(|w| ("weight", w.len()))) {
            if found != expected {
                let why = "one a membership".into();
                return Err(Error::Shape { what: what.into(), unit: "numbers", expected, found, why });
            }
        }
        let mut own: Vec<Vec<(usize, f64)>> = vec![Vec::new(); bags];
        for (i, (&b, &a)) in bag.iter().zip(item).enumerate() {
            let weight = weight.map_or(1.0, |w| w[i]);
            let bad = |what: &str, value: String, allowed: String| {
                Err(Error::parameter(format!("{what} of membership {}", i + 1), value, allowed))
            };
            if a >= items {
                return bad("item", a.to_string(), format!("there are {items} items, from 0"));
            }
            if !(weight.is_finite() && weight > 0.0) {
                return bad("weight", weight.to_string(), "weights are positive numbers".into());
            }
            match own.get_mut(b) {
                Some(members) => members.push((a, weight)),
                None => return bad("bag", b.to_string(), format!("there are {bags} bags, from 0")),
            }
        }
        if let Some(empty) = own.iter().position(Vec::is_empty) {
            return Err(Error::parameter(
                "bag",
                empty,
                "a bag has members: leave its duels out, or give it some",
            ));
        }
        for members in &mut own {
            let total: f64 = members.iter().map(|(_, w)| w).sum();
            members.iter_mut().for_each(|(_, w)| *w /= total);
        }
        Ok(Self { members: Sparse::from_columns(items, own)? })
    }

    /// Number of bags.
    pub fn count(&self) -> usize {
        self.members.cols()
    }

    /// Number of items.
    pub fn items(&self) -> usize {
        self.members.rows()
    }

    /// The items of a bag and their shares, which sum up to 1.
    ///
    /// # Panics
    /// If there is no such bag.
    pub fn members(&self, bag: usize) -> impl Iterator<Item = (usize, f64)> {
        self.members.column(bag)
    }

    /// `M K Mᵀ`, between bags, of a matrix between items.
    pub(super) fn to_bags(&self, items: &Matrix) -> Matrix {
        let half = self.members.transpose_times(items);
        let mut out = self.members.transpose_times(&half.transpose());
        out.mirror_upper();
        out
    }

    /// Slopes by a matrix between items, of those by the one between bags.
    pub(super) fn to_items(&self, bags: &Matrix) -> Matrix {
        let half = self.members.matmul(bags);
        let mut out = self.members.matmul(&half.transpose());
        out.mirror_upper();
        out
    }

    /// Wide rows of all pairs of members of each pair of bags, and how much they count in its log odds (rows
    /// × pairs): what
    /// [`Posterior::weighted_sum_functionals`](crate::Posterior::weighted_sum_functionals) takes. `contexts` has a row
    /// a pair of bags, if the model has contexts.
    ///
    /// # Errors
    /// As [`wide_rows_in`]; [`Error::Parameter`] for a bag that is not there.
    pub fn duels(&self, items: &Table, pairs: &[Pair], contexts: Option<&Table>) -> Result<(Table, Sparse)> {
        let (mut rows, mut places, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (p, &(l, r)) in pairs.iter().enumerate() {
            if let Some(bag) = [l, r].into_iter().find(|bag| *bag >= self.count()) {
                return Err(Error::parameter("bag", bag, format!("there are {} bags, from 0", self.count())));
            }
            let from = rows.len();
            let mut own = Vec::new();
            for (a, m) in self.members(l) {
                for (b, q) in self.members(r) {
                    own.push((from + own.len(), m * q));
                    rows.push((a, b));
                    places.push(p);
                }
            }
            weights.push(own);
        }
        let contexts = contexts.map(|c| c.select_rows(&places));
        let wide = wide_rows_in(items, &rows, contexts.as_ref())?;
        Ok((wide, Sparse::from_columns(rows.len(), weights)?))
    }
}
