//! Bags of rows with weights.

use std::collections::BTreeMap;

use crate::error::{Error, Result, sized};
use crate::linalg::Sparse;

/// The aggregate of a bag's rows that is observed as its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TargetUnit {
    /// The weighted mean, as for temperatures or rates. The weights of a bag are divided by their sum.
    #[default]
    Mean,
    /// The weighted sum, as for totals. Weights are in units of the total.
    Sum,
}

/// The rows of each bag with their weights.
///
/// ```
/// use riesz::aggregate::{Bags, TargetUnit};
///
/// let bags = Bags::new(&[0, 0, 1], 2, Some(&[1.0, 3.0, 5.0]), TargetUnit::Mean)?;
/// assert_eq!(bags.weights().column(0).collect::<Vec<_>>(), [(0, 0.25), (1, 0.75)]);
/// assert_eq!(bags.weight_sums(), [4.0, 5.0]);
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Bags {
    weights: Sparse,
    weight_sums: Vec<f64>,
    unit: TargetUnit,
}

impl Bags {
    /// Bags from the bag of each row, numbered from 0, and the weight of each row, by default 1. Rows in
    /// several bags need [`from_memberships`](Self::from_memberships).
    ///
    /// # Errors
    /// [`Error::Shape`] unless there is one weight per row; [`Error::Parameter`] for a bag number that
    /// doesn't exist, a weight that is not positive, and a bag without rows.
    pub fn new(bag: &[usize], bags: usize, weight: Option<&[f64]>, unit: TargetUnit) -> Result<Self> {
        Self::from_memberships(&(0..bag.len()).collect::<Vec<_>>(), bag.len(), bag, bags, weight, unit)
    }

    /// Bags from memberships, each given by its row, its bag and its weight. Rows are numbered from 0 to
    /// `rows` - 1. A row may be in several bags, which then share its noise.
    ///
    /// # Errors
    /// Those of [`new`](Self::new); [`Error::Parameter`] for a row number that doesn't exist.
    pub fn from_memberships(
        row: &[usize],
        rows: usize,
        bag: &[usize],
        bags: usize,
        weight: Option<&[f64]>,
        unit: TargetUnit,
    ) -> Result<Self> {
        let weights = weight.map_or(bag.len(), <[f64]>::len);
        for (list, length) in [("the list of weights", weights), ("the list of rows", row.len())] {
            sized(list, "numbers", bag.len(), length, "one for each row")?;
        }
        let mut members_by_bag: Vec<Vec<(usize, f64)>> = vec![Vec::new(); bags];
        for (index, (&row, &b)) in row.iter().zip(bag).enumerate() {
            let weight = weight.map_or(1.0, |w| w[index]);
            if !(weight.is_finite() && weight > 0.0) {
                let name = format!("weight of row {}", index + 1);
                return Err(Error::parameter(name, weight, "weights are positive numbers"));
            }
            let Some(members) = members_by_bag.get_mut(b) else {
                let name = format!("bag of row {}", index + 1);
                return Err(Error::parameter(name, b, format!("there are {bags} bags, numbered from 0")));
            };
            members.push((row, weight));
        }
        if let Some(empty) = members_by_bag.iter().position(Vec::is_empty) {
            return Err(Error::parameter(format!("bag {empty}"), "empty", "a bag needs at least one row"));
        }
        let mass: Vec<f64> = members_by_bag.iter().map(|bag| bag.iter().map(|(_, w)| w).sum()).collect();
        if unit == TargetUnit::Mean {
            for (members, mass) in members_by_bag.iter_mut().zip(&mass) {
                members.iter_mut().for_each(|(_, w)| *w /= mass);
            }
        }
        Ok(Self { weights: Sparse::from_columns(rows, members_by_bag)?, weight_sums: mass, unit })
    }

    /// The number of bags.
    pub fn count(&self) -> usize {
        self.weight_sums.len()
    }

    /// The matrix P (rows × bags): the weight of each row in the target of each bag.
    pub fn weights(&self) -> &Sparse {
        &self.weights
    }

    /// The sum of the given weights of the rows of each bag.
    pub fn weight_sums(&self) -> &[f64] {
        &self.weight_sums
    }

    /// The aggregate that is observed.
    pub fn unit(&self) -> TargetUnit {
        self.unit
    }
}

/// The targets without a bag, which are observed through mediators.
pub(super) fn unmatched_targets(bag_of_target: &[Option<usize>]) -> Vec<usize> {
    (0..bag_of_target.len()).filter(|&t| bag_of_target[t].is_none()).collect()
}

/// Checks that the bag of a target exists.
pub(super) fn check_bag_number(target: usize, bag: Option<usize>, bags: usize) -> Result<()> {
    let Some(unknown) = bag.filter(|b| *b >= bags) else { return Ok(()) };
    let allowed = format!("there are {bags} bags, numbered from 0");
    Err(Error::parameter(format!("bag of target {}", target + 1), unknown, allowed))
}

/// Returns `PᵀP` (bags × bags): the sums of squared weights on the diagonal, and the sums of products of the
/// weights of shared rows off it.
pub(super) fn bag_overlaps(weights: &Sparse) -> Result<Sparse> {
    let mut row_memberships: Vec<Vec<(usize, f64)>> = vec![Vec::new(); weights.rows()];
    for b in 0..weights.cols() {
        weights.column(b).for_each(|(i, w)| row_memberships[i].push((b, w)));
    }
    let mut columns: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); weights.cols()];
    for memberships in &row_memberships {
        for (b, w) in memberships {
            memberships.iter().for_each(|(c, w2)| *columns[*b].entry(*c).or_default() += w * w2);
        }
    }
    Sparse::from_columns(weights.cols(), columns)
}
