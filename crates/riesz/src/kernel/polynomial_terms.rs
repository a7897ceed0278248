//! Terms of a kernel that are powers of a sum over columns of several players: no product over players, and
//! yet no more than the moments of that sum decide their games.

use super::{ColumnRanges, Columns, Factor, Kernel, RoundingBound, Term};
use crate::error::{Result, listed};
use crate::kernel::player_products::PlayerProduct;
use crate::table::{Column, Players};

/// A higher degree would lose its factorial's digits.
const HIGHEST: u32 = 20;

/// `(constant + gamma Σ_c (u_c - center_c)(v_c - center_c) / scale_c²)^degree`.
#[derive(Debug, Clone, Copy)]
pub struct Power<'f> {
    pub(super) columns: &'f [usize],
    pub(super) center: &'f [f64],
    pub(super) scale: &'f [f64],
    pub(super) gamma: f64,
    pub(super) constant: f64,
    pub(super) degree: u32,
}

/// A term of the sum that is such a power, over columns of several players.
#[derive(Debug, Clone)]
pub(crate) struct PolynomialTerm<'k> {
    /// Multiplies the power.
    pub(crate) scale: f64,
    /// The players who own its columns, ascending.
    pub(crate) players: Vec<usize>,
    /// Of the columns, player by player: those of the k-th end here.
    pub(crate) ends: Vec<usize>,
    /// The columns' places in the power, player by player.
    slots: Vec<usize>,
    power: Power<'k>,
    factor: &'k Factor,
}

impl<'k> PolynomialTerm<'k> {
    /// `term`, if it is one; `owner` says to whom each column belongs.
    fn of(term: &'k Term, owner: &[usize]) -> Option<Self> {
        let [factor] = &term.factors[..] else { return None };
        let power = factor.power().filter(|power| (1..=HIGHEST).contains(&power.degree))?;
        let of = |slot: &usize| owner[power.columns[*slot]];
        let mut slots: Vec<usize> = (0..power.columns.len()).collect();
        slots.sort_by_key(of);
        let (mut players, mut ends) = (Vec::new(), Vec::new());
        for own in slots.chunk_by(|a, b| of(a) == of(b)) {
            players.push(of(&own[0]));
            ends.push(ends.last().unwrap_or(&0) + own.len());
        }
        (players.len() > 1).then_some(Self { scale: term.scale, players, ends, slots, power, factor })
    }

    pub(crate) fn degree(&self) -> usize {
        self.power.degree as usize
    }

    /// What the sum has besides its columns.
    pub(crate) fn constant(&self) -> f64 {
        self.power.constant
    }

    /// How many columns it reads.
    pub(crate) fn columns(&self) -> usize {
        self.slots.len()
    }

    /// A row's distances from the centre, player by player.
    pub(crate) fn centred(&self, row: &[f64]) -> Vec<f64> {
        let of = |&slot: &usize| row[self.power.columns[slot]] - self.power.center[slot];
        self.slots.iter().map(of).collect()
    }

    /// What multiplies these distances in the sum, for each row of `u`: column by column, player by player.
    pub(crate) fn slopes(&self, u: Columns<'_>) -> Vec<f64> {
        let Power { columns, center, scale, gamma, .. } = self.power;
        let of = |&slot: &usize| {
            let (center, square) = (center[slot], scale[slot] * scale[slot]);
            u.column(columns[slot]).iter().map(move |u| gamma * ((u - center) / square))
        };
        self.slots.iter().flat_map(of).collect()
    }

    /// How far predictions of it can be from the truth.
    pub(crate) fn precision(&self, reach: &ColumnRanges) -> RoundingBound {
        self.factor.precision_of_all(reach)
    }

    /// Its formula, and the names of its columns.
    pub(crate) fn describe(&self, columns: &[Column]) -> (String, String) {
        let name = |&j: &usize| columns[j].name.as_str();
        (self.factor.formula(), listed(self.factor.columns().iter().map(name)))
    }
}

impl Kernel {
    /// Splits the kernel among the players, into products and powers.
    ///
    /// # Errors
    /// [`Error::NotProduct`](crate::Error::NotProduct) if a term is neither.
    pub(crate) fn products_and_powers(
        &self,
        columns: &[Column],
        groups: &Players,
    ) -> Result<(Vec<PlayerProduct<'_>>, Vec<PolynomialTerm<'_>>)> {
        let owner = groups.player_of_column(columns.len());
        let (mut products, mut powers) = (Vec::new(), Vec::new());
        for term in &self.terms {
            match PolynomialTerm::of(term, &owner) {
                Some(power) => powers.push(power),
                None => products.extend(term.split(columns, &owner)?),
            }
        }
        Ok((products, powers))
    }
}
