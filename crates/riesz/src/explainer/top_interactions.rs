//! The pairs with the largest interactions of each row, where there are too many pairs to list.

use super::Explainer;
use crate::attribution::top_pair_search::SearchLimits;
use crate::error::Result;
use crate::explanation::TopInteractions;
use crate::table::Table;

impl Explainer<'_> {
    /// The `count` strongest pairs of each of `rows`, by the size of their interactions, for an index of
    /// pairs: exactly, with a bound on the size of whatever is not listed, and without the values of all. For
    /// any number of players, where [`explain`](Self::explain) would list a row's 50 million pairs of 10,000.
    ///
    /// No interaction is larger than the product of two numbers that cost as much as Shapley values, one
    /// a player. The search looks at the pairs whose products are largest, until no other can be among the
    /// strongest, or it has looked at `limit` pairs: few where some players matter more than others or a row
    /// is close to its reference but in some columns, and all where each matters as much. A look costs
    /// O(reference rows · n), and the value of a pair that may be among the strongest as many times that as
    /// there are nodes. It takes some 20 MB a thread and what is asked for, however many pairs there are. Of
    /// a polynomial that ties columns together, and of probabilities, it lists those of all pairs.
    ///
    /// ```
    /// use riesz::{KernelExpansion, Explainer, Game, Kernel, Matrix, Question, Table};
    ///
    /// let points: Vec<Vec<f64>> = (0..20).map(|i| (0..300).map(|j| f64::from((i * j + i) % 7)).collect()).collect();
    /// let lengthscales: Vec<f64> = (0..300).map(|j| 3.0 + f64::from(j)).collect();
    /// let coef = Matrix::column_vector((0..20).map(|i| f64::from(i % 3) - 1.0).collect());
    /// let model = KernelExpansion::new(Kernel::gaussian(&lengthscales), Table::from_rows(&points)?, coef, vec![0.0])?;
    /// let question = Question::from(Game::Functional).with_index("k-sii".parse()?);
    /// let top = Explainer::new(&model, question)?.top_interactions(&model.support_points.select_rows(&[3]), 5, None)?;
    /// let strongest = top.of_row(0, 0);
    /// assert!(strongest.pairs.len() == 5 && strongest.is_complete() && strongest.searched < 300 * 299 / 4);
    /// # Ok::<(), riesz::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Parameter`](crate::Error::Parameter) for an index of players alone or of larger sets,
    /// and for 0 pairs.
    pub fn top_interactions(
        &self,
        rows: &Table,
        count: usize,
        limit: Option<usize>,
    ) -> Result<TopInteractions> {
        self.engine.check_pairs(count)?;
        let limits = SearchLimits { count, limit: limit.unwrap_or(usize::MAX) };
        if let Some(interactions) = self.engine.strongest_pairs(rows, limits)? {
            return Ok(interactions);
        }
        TopInteractions::from_explanation(&self.explain(rows)?, count)
    }
}
