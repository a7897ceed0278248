//! Columns of a table of duels: which columns hold the two sides, and which one holds the outcome.

use crate::error::{Error, Result, listed};

/// The columns of the two sides and of the outcome that are used unless others are named: those of riesz, and
/// those of tables in which people compare answers of two language models.
const LAYOUTS: [([&str; 2], &str); 2] = [(["left", "right"], "outcome"), (["model_a", "model_b"], "winner")];

/// Names of columns that a table of duels may have, in place of the usual ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedDuelColumns<'a> {
    /// The columns of winners and losers.
    pub winner_and_loser: [&'a str; 2],
    /// The columns of the left and the right side; `None` for the usual ones.
    pub sides: Option<[&'a str; 2]>,
    /// The column of outcomes; `None` for the usual one.
    pub outcome: Option<&'a str>,
}

impl Default for NamedDuelColumns<'_> {
    fn default() -> Self {
        Self { winner_and_loser: ["winner", "loser"], sides: None, outcome: None }
    }
}

/// The columns of the two sides of a table of duels.
///
/// ```
/// use riesz::preference::{DuelColumns, NamedDuelColumns};
///
/// let header = ["model_a", "model_b", "winner"].map(String::from);
/// let columns = DuelColumns::find(&header, NamedDuelColumns::default()).unwrap();
/// assert_eq!(columns.sides, ["model_a", "model_b"]);
/// assert_eq!(columns.outcome.as_deref(), Some("winner"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuelColumns {
    /// The columns of the left and the right side, or of winners and losers.
    pub sides: [String; 2],
    /// The column of outcomes, which the table may lack; `None` if the sides are winners and losers.
    pub outcome: Option<String>,
}

impl DuelColumns {
    /// Returns the columns in a table with this header: winners and losers if it has both; otherwise the
    /// named sides, or `left` and `right`, or `model_a` and `model_b`. `None` if it has none of these.
    pub fn find(header: &[String], named: NamedDuelColumns<'_>) -> Option<Self> {
        let has_both = |sides: &[&str; 2]| sides.iter().all(|side| header.iter().any(|name| name == side));
        if has_both(&named.winner_and_loser) {
            return Some(Self { sides: named.winner_and_loser.map(String::from), outcome: None });
        }
        let candidates = match named.sides {
            Some(sides) => vec![sides],
            None => LAYOUTS.map(|(sides, _)| sides).into(),
        };
        let sides = candidates.into_iter().find(has_both)?;
        let outcome = Some(outcome_column(sides[0], named.outcome));
        Some(Self { sides: sides.map(String::from), outcome })
    }

    /// Returns the columns in a table that must have them, with the column of outcomes unless the outcomes
    /// are given in another way.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the table lacks the columns.
    pub fn required(header: &[String], named: NamedDuelColumns<'_>, reads_outcome: bool) -> Result<Self> {
        let columns = Self::find(header, named);
        let lacks_outcome = |columns: &Self| {
            reads_outcome && columns.outcome.as_ref().is_some_and(|outcome| !header.contains(outcome))
        };
        match columns {
            Some(columns) if !lacks_outcome(&columns) => Ok(columns),
            Some(Self { sides: [left, right], outcome: Some(outcome) }) => {
                let allowed = format!(
                    "duels with the sides '{left}' and '{right}' need the column '{outcome}', or their \
                     outcomes, scores or wins in another way"
                );
                Err(Error::parameter("columns of duels", listed(header), allowed))
            }
            _ => {
                let [winner, loser] = named.winner_and_loser;
                let [left, right] = named.sides.unwrap_or(LAYOUTS[0].0);
                let outcome = outcome_column(left, named.outcome);
                let allowed = format!(
                    "duels need the columns '{winner}' and '{loser}', or '{left}', '{right}' and \
                     '{outcome}', or columns that are named"
                );
                Err(Error::parameter("columns of duels", listed(header), allowed))
            }
        }
    }
}

/// Returns the column of outcomes of a table whose left side is in column `left`, unless it is `named`.
pub fn outcome_column(left: &str, named: Option<&str>) -> String {
    let layout = LAYOUTS.iter().find(|([column, _], _)| *column == left);
    named.unwrap_or(layout.unwrap_or(&LAYOUTS[0]).1).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn winners_and_losers_precede_sides() {
        let header = |text: &str| text.split(',').map(String::from).collect::<Vec<String>>();
        let find = |text: &str| DuelColumns::find(&header(text), NamedDuelColumns::default());
        assert_eq!(find("left,right,winner,loser").unwrap().sides, ["winner", "loser"]);
        assert_eq!(find("winner,model_b,model_a").unwrap().sides, ["model_a", "model_b"]);
        assert_eq!(find("right,left").unwrap().outcome.as_deref(), Some("outcome"));
        assert_eq!(find("a,b"), None);
        let named = NamedDuelColumns { sides: Some(["a", "b"]), outcome: Some("c"), ..Default::default() };
        let columns = DuelColumns::find(&header("a,b,left,right"), named).unwrap();
        assert_eq!((columns.sides, columns.outcome), (["a".into(), "b".into()], Some("c".into())));
        let error = DuelColumns::required(&header("model_a,model_b"), NamedDuelColumns::default(), true);
        assert!(error.unwrap_err().to_string().contains("'winner'"));
        assert!(DuelColumns::required(&header("left,right"), NamedDuelColumns::default(), false).is_ok());
    }
}
