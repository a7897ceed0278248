//! Tables of duels for Python: their columns, and the comparison of models on held out duels.

use pyo3::prelude::*;
use riesz::preference::{
    DuelColumns, Evaluation, NamedDuelColumns, ProbabilityScores, ScoreSummary, Split, TestDuels,
};

use crate::{raise, refuse};

/// The columns of the two sides and of the outcome in a table of duels with this header; the outcome is
/// `None` if the sides are winners and losers. `sides` and `outcome` are names that the user gives.
#[pyfunction]
pub(crate) fn duel_columns(
    header: Vec<String>,
    sides: Option<(String, String)>,
    outcome: Option<&str>,
    reads_outcome: bool,
) -> PyResult<([String; 2], Option<String>)> {
    let mut named = NamedDuelColumns { outcome, ..NamedDuelColumns::default() };
    if let Some((left, right)) = &sides {
        // Named sides replace the usual columns of winners and losers, too.
        named.sides = Some([left, right]);
        named.winner_and_loser = ["", ""];
    }
    let columns = DuelColumns::required(&header, named, reads_outcome).map_err(raise)?;
    Ok((columns.sides, columns.outcome))
}

/// The time of each level of a column of times: its number, or the rank of its date.
#[pyfunction]
pub(crate) fn times_of_levels(column: &str, levels: Vec<String>) -> PyResult<Vec<f64>> {
    riesz::preference::times_of_levels(column, &levels).map_err(raise)
}

/// Duels with the items on either side, their outcomes, and the number of duels that each entry represents.
type DuelList = (Vec<usize>, Vec<usize>, Vec<f64>, Option<Vec<f64>>);

/// The held out unit ("pairs", "duels", "items", "time" or "context") with the times or contexts of duels,
/// the share that is held out, the number of repeats, and the seed.
type SplitInput = (String, Vec<f64>, f64, usize, u64);

/// Accuracy, area under the curve, and log loss.
type Scores = (f64, f64, f64);

/// An error of Python or of the core.
struct Raised(PyErr);

impl From<riesz::Error> for Raised {
    fn from(error: riesz::Error) -> Self {
        Self(raise(error))
    }
}

/// Means of scores, their standard deviations over several splits, and the mean difference of the log loss
/// from that of the best model with its standard error.
type Summary = (Scores, Option<Scores>, (f64, f64));

/// The scores of `models` models over splits of the duels. `probabilities(model, training, test, seed)`
/// returns the probabilities that the left items win.
#[pyfunction]
pub(crate) fn evaluate_duels(
    duels: DuelList,
    splits: SplitInput,
    models: usize,
    probabilities: &Bound<'_, PyAny>,
) -> PyResult<Vec<Summary>> {
    let ((left, right, outcome, counts), (unit, values, share, repeats, seed)) = (duels, splits);
    let contexts: Vec<usize> = values.iter().map(|value| *value as usize).collect();
    let unit = match &unit[..] {
        "pairs" => Split::Pairs,
        "duels" => Split::Duels,
        "items" => Split::Items,
        "time" => Split::Time(&values),
        "context" => Split::Contexts(&contexts),
        other => return Err(refuse(format!("there is no split by '{other}'"))),
    };
    let evaluation = Evaluation {
        left: &left,
        right: &right,
        outcome: &outcome,
        counts: counts.as_deref(),
        unit,
        share,
        repeats,
        seed,
    };
    let models: Vec<usize> = (0..models).collect();
    let summaries = evaluation.run::<_, Raised>(&models, |model, split: &TestDuels| {
        let arguments = (*model, split.training.clone(), split.test.clone(), split.seed);
        probabilities.call1(arguments).and_then(|result| result.extract()).map_err(Raised)
    });
    let scores = |s: &ProbabilityScores| (s.accuracy, s.auc, s.log_loss);
    let summaries = summaries.map_err(|Raised(error)| error)?;
    let summary_of = |summary: &ScoreSummary| {
        let difference = summary.difference.map_or((0.0, 0.0), |d| (d.mean, d.std_error));
        (scores(&summary.mean), summary.std.as_ref().map(scores), difference)
    };
    Ok(summaries.iter().map(summary_of).collect())
}
