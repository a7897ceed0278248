//! Terms of a kernel that are powers of a sum over the columns of several players. They are not products over
//! players, but the values of their games follow from the moments of the sum.

use super::{ColumnRanges, Columns, Factor, Kernel, Polynomial, RoundingBound, Term};
use crate::error::Result;
use crate::kernel::player_products::{PlayerProduct, RadialApproximation};
use crate::table::{Column, Players};

/// Highest degree that is accepted; the factorials of higher degrees are not exact in double precision.
const HIGHEST: u32 = 20;

/// A term of the kernel that is a [`Polynomial`] over columns of several players.
#[derive(Debug, Clone)]
pub struct PolynomialTerm<'k> {
    /// Scale that multiplies the power.
    pub scale: f64,
    /// The players that own the columns, ascending.
    pub players: Vec<usize>,
    /// The end of each player's columns in `slots`: the columns of player k end at `ends[k]`.
    pub ends: Vec<usize>,
    /// Indices of the columns in the power, player by player.
    slots: Vec<usize>,
    power: &'k Polynomial,
    factor: &'k Factor,
}

impl<'k> PolynomialTerm<'k> {
    /// The power of this term; `None` if the term is not a power over several players. `owner` gives the
    /// player of each column.
    fn from_term(term: &'k Term, owner: &[usize]) -> Option<Self> {
        let [factor @ Factor::Polynomial(power @ Polynomial { degree: 1..=HIGHEST, .. })] = &term.factors[..]
        else {
            return None;
        };
        let player_of = |slot: &usize| owner[power.columns[*slot]];
        let mut slots: Vec<usize> = (0..power.columns.len()).collect();
        slots.sort_by_key(player_of);
        let (mut players, mut ends) = (Vec::new(), Vec::new());
        for slots_of_player in slots.chunk_by(|a, b| player_of(a) == player_of(b)) {
            players.push(player_of(&slots_of_player[0]));
            ends.push(ends.last().unwrap_or(&0) + slots_of_player.len());
        }
        (players.len() > 1).then_some(Self { scale: term.scale, players, ends, slots, power, factor })
    }

    /// The degree of the polynomial.
    pub fn degree(&self) -> usize {
        self.power.degree as usize
    }

    /// The constant that is added to the sum over columns.
    pub fn constant(&self) -> f64 {
        self.power.coef0
    }

    /// The number of columns in the sum.
    pub fn columns(&self) -> usize {
        self.slots.len()
    }

    /// The values of a row minus the centre, player by player.
    pub fn centered(&self, row: &[f64]) -> Vec<f64> {
        let distance = |&slot: &usize| row[self.power.columns[slot]] - self.power.center[slot];
        self.slots.iter().map(distance).collect()
    }

    /// The coefficient of each centered value in the sum, for each row of `u`: column by column, player by
    /// player.
    pub fn slopes(&self, u: Columns<'_>) -> Vec<f64> {
        let Polynomial { columns, center, scale, gamma, .. } = self.power;
        let slopes_of = |&slot: &usize| {
            let (center, square) = (center[slot], scale[slot] * scale[slot]);
            u.column(columns[slot]).iter().map(move |u| gamma * ((u - center) / square))
        };
        self.slots.iter().flat_map(slopes_of).collect()
    }

    /// Bound of the rounding error of this term's values.
    pub fn precision(&self, ranges: &ColumnRanges) -> RoundingBound {
        self.factor.precision_of_all(ranges)
    }

    /// The formula of the factor, and the names of its columns.
    pub fn describe(&self, columns: &[Column]) -> (String, String) {
        self.factor.describe(columns)
    }
}

impl Kernel {
    /// Splits the kernel among the players into products and powers. Sums of Gaussians replace radial factors
    /// over columns of different players.
    ///
    /// # Errors
    /// [`Error::NotProduct`](crate::Error::NotProduct) if a term is neither.
    pub fn products_and_powers(
        &self,
        columns: &[Column],
        groups: &Players,
        approximation: &RadialApproximation,
    ) -> Result<(Vec<PlayerProduct<'_>>, Vec<PolynomialTerm<'_>>)> {
        let owner = groups.player_of_column(columns.len());
        let (mut products, mut powers) = (Vec::new(), Vec::new());
        for term in &self.terms {
            match PolynomialTerm::from_term(term, &owner) {
                Some(power) => powers.push(power),
                None => products.extend(term.split(columns, &owner, Some(approximation))?),
            }
        }
        Ok((products, powers))
    }
}
