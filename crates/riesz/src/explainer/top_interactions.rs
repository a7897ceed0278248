//! The strongest pairs of rows, where there are too many to list.

use super::{Explainer, GameEngine, MAX_SETS, check_sets};
use crate::attribution::top_pair_search::SearchLimits;
use crate::error::{Error, Result};
use crate::explanation::{TopInteractions, check_top};
use crate::table::Table;

impl Explainer<'_> {
    /// The `count` strongest pairs of each of `rows`, by the size of their interactions, for an index of
    /// pairs: exactly, with a bound on the size of whatever is not listed, and without the values of all. For
    /// any number of players, where [`explain`](Self::explain) would list a row's 50 million pairs of 10,000.
    ///
    /// No interaction is larger than the product of two numbers that come at the cost of Shapley values, one
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
    /// let found = Explainer::new(&model, question)?.top_interactions(&model.support_points.select_rows(&[3]), 5, None)?;
    /// let strongest = found.of_row(0, 0);
    /// assert!(strongest.pairs.len() == 5 && strongest.is_complete() && strongest.searched < 300 * 299 / 4);
    /// # Ok::<(), riesz::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`explain`](Self::explain); [`Error::Parameter`] for an index of players alone or of larger sets,
    /// and for 0 pairs.
    pub fn top_interactions(
        &self,
        rows: &Table,
        count: usize,
        limit: Option<usize>,
    ) -> Result<TopInteractions> {
        let index = match &self.engine {
            GameEngine::Products(engine) => engine.index,
            GameEngine::Probabilities(engine) => engine.question.index,
            GameEngine::Independent(engine) => engine.question.index,
            GameEngine::Conditioning(_) => {
                let allowed = "where absent players are guessed from present ones there are values of \
                               single players alone: ask in another game";
                return Err(Error::parameter("top interactions", count, allowed));
            }
        };
        check_top(index, count)?;
        if let GameEngine::Products(engine) = &self.engine {
            let wanted = SearchLimits { count, limit: limit.unwrap_or(usize::MAX) };
            if let Some(found) = engine.strongest(rows, wanted)? {
                return Ok(found);
            }
            let players = engine.groups.players().len();
            if check_sets(index, players).is_err() {
                let allowed = format!(
                    "of a polynomial that ties columns together all pairs are valued, and {players} players \
                     have more than {MAX_SETS}: group them"
                );
                return Err(Error::parameter("index", index, allowed));
            }
        }
        TopInteractions::of(&self.explain(rows)?, count)
    }
}
