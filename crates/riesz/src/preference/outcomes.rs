//! Recorded outcomes of duels: one word or number per duel, the scores of both sides, or counts of wins.
//!
//! A column of words is read with one vocabulary that contains all of its cells. So `L` means the left side
//! in a column with `R`, and a loss in a column with `W`. If two vocabularies contain all cells and disagree,
//! the column is rejected.

use std::collections::HashMap;

use super::duel_sides::HomeSide;
use crate::error::{Error, Result};

/// Outcomes of duels between a left and a right item, as recorded in the rows of a table. Missing cells are
/// `None` or NaN.
#[derive(Debug, Clone, Copy)]
pub enum Record<'a> {
    /// The left item won each of this number of duels: a table of winners and losers.
    Winners(usize),
    /// A column of words or numbers, see [`OUTCOME_WORDS`].
    Outcomes {
        /// The column's name.
        column: &'a str,
        /// One cell per row.
        cells: &'a [Option<String>],
        /// The names of the left and of the right items, one per row, if outcomes may be the winner's name.
        names: Option<[&'a [String]; 2]>,
    },
    /// A column of numbers, with the meanings of [`OUTCOME_WORDS`].
    Numbers {
        /// The column's name.
        column: &'a str,
        /// One number per row.
        numbers: &'a [f64],
    },
    /// The scores of both sides: the higher one wins, and equal scores are a tie.
    Scores {
        /// The names of the two columns.
        columns: [&'a str; 2],
        /// The scores of the left and of the right side.
        scores: [&'a [f64]; 2],
    },
    /// The numbers of duels that each side won, and of ties if given: one row represents many duels.
    Wins {
        /// The names of the columns of wins.
        columns: [&'a str; 2],
        /// The wins of the left and of the right side.
        wins: [&'a [f64]; 2],
        /// The name of the column of ties, and the ties.
        ties: Option<(&'a str, &'a [f64])>,
    },
}

/// The treatment of a row without an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingOutcome {
    /// The row is rejected.
    #[default]
    Refuse,
    /// The row is left out.
    Drop,
}

/// The duels of a table, ready for [`Duels::new`](super::Duels::new).
#[derive(Debug, Clone, PartialEq)]
pub struct Outcomes {
    /// For each duel, its row in the table, ascending. A row of counts makes up to three entries: wins of
    /// each side, and ties.
    pub rows: Vec<usize>,
    /// For each duel, its outcome: 1 if the left item won, 0 if the right one did, ½ for a tie, or the share
    /// that the left item won.
    pub outcome: Vec<f64>,
    /// For each duel, its weight; `None` if all are 1.
    pub weight: Option<Vec<f64>>,
    /// The number of duels, including those that counts represent.
    pub count: usize,
    /// The rows without an outcome, which were left out.
    pub missing: Vec<usize>,
}

/// The outcomes that a column may contain, for messages and help.
pub const OUTCOME_WORDS: &str = "left, right or tie; win, loss or draw; W, L or D; home, away or draw; H, A \
                                 or D; model_a, model_b or tie (also assistant_a, response_1, player_1 and \
                                 the like); A, B or tie; 1, 0 or 0.5, or another share of a win; 1, -1 or \
                                 0; 1, 2 or X; a score such as 2-1, 1-0 or 1/2-1/2; or the winner's name";

/// Words for a tie in every vocabulary.
const TIE_WORDS: &[&str] =
    &["tie", "tied", "draw", "drawn", "equal", "tie (bothbad)", "tie (both bad)", "bothbad", "both bad"];

/// The mark of an unfinished game in chess notation (PGN).
const UNFINISHED: &str = "*";

/// A vocabulary of words for the outcomes of duels.
struct Vocabulary {
    left: &'static [&'static str],
    right: &'static [&'static str],
    /// Words for a tie in addition to [`TIE_WORDS`].
    tie: &'static [&'static str],
}

/// Words with the same meaning in every column. Numbers from 0 to 1 and scores are also read.
const WORDS: Vocabulary = Vocabulary {
    left: &[
        "left",
        "first",
        "win",
        "won",
        "home",
        "white",
        "true",
        "yes",
        "model a",
        "model 1",
        "assistant a",
        "response a",
        "response 1",
        "answer a",
        "option a",
        "candidate a",
        "player 1",
        "team 1",
        "team a",
        "a>b",
        "a>>b",
        ">",
    ],
    right: &[
        "right",
        "second",
        "loss",
        "lose",
        "lost",
        "away",
        "black",
        "false",
        "no",
        "model b",
        "model 2",
        "assistant b",
        "response b",
        "response 2",
        "answer b",
        "option b",
        "candidate b",
        "player 2",
        "team 2",
        "team b",
        "b>a",
        "b>>a",
        "a<b",
        "a<<b",
        "<",
    ],
    tie: &["a=b", "b=a", "="],
};

/// Words whose meaning depends on the other words of their column.
const LETTERS: [Vocabulary; 7] = [
    Vocabulary { left: &["w"], right: &["l"], tie: &["d", "t"] },
    Vocabulary { left: &["l"], right: &["r"], tie: &["t"] },
    Vocabulary { left: &["h"], right: &["a"], tie: &["d"] },
    Vocabulary { left: &["a"], right: &["b"], tie: &["t", "c"] },
    Vocabulary { left: &["+"], right: &["-"], tie: &["="] },
    // French and German: victoire, nul, défaite; Sieg, unentschieden, Niederlage.
    Vocabulary { left: &["v"], right: &["d"], tie: &["n"] },
    Vocabulary { left: &["s"], right: &["n"], tie: &["u"] },
];

/// Numbers that are codes of an outcome, if they are not all from 0 to 1.
const CODES: [Vocabulary; 2] = [
    Vocabulary { left: &["1"], right: &["-1"], tie: &["0"] },
    Vocabulary { left: &["1"], right: &["2"], tie: &["x"] },
];

impl Vocabulary {
    fn read(&self, word: &str) -> Option<f64> {
        if self.left.contains(&word) {
            return Some(1.0);
        }
        if self.right.contains(&word) {
            return Some(0.0);
        }
        (self.tie.contains(&word) || TIE_WORDS.contains(&word)).then_some(0.5)
    }
}

/// Returns a cell in lower case, with plain hyphens, fractions and blanks.
fn normalise(cell: &str) -> String {
    let simplify = |c: char| match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => "-".to_string(),
        '½' => "1/2".to_string(),
        '_' | '\u{a0}' => " ".to_string(),
        c => c.to_lowercase().collect(),
    };
    let text: String = cell.trim().chars().map(simplify).collect();
    text.replace(" - ", "-").replace(" : ", ":")
}

/// Reads a number, including the fraction 1/2.
fn parse_number(text: &str) -> Option<f64> {
    if text == "1/2" {
        return Some(0.5);
    }
    text.parse().ok().filter(|v: &f64| v.is_finite())
}

/// Returns a whole number without decimals, as codes are written: `1.0` is `1`.
fn code_text(word: &str) -> String {
    parse_number(word).map_or_else(|| word.to_string(), |v| (v + 0.0).to_string())
}

/// Returns the outcome from the scores of the two sides.
fn score_outcome(left: f64, right: f64) -> f64 {
    match left.total_cmp(&right) {
        _ if left == right => 0.5,
        std::cmp::Ordering::Greater => 1.0,
        _ => 0.0,
    }
}

/// Reads an unambiguous word, a share of a win, or a score such as `2-1`.
fn word_outcome(word: &str) -> Option<f64> {
    let share = || parse_number(word).filter(|v| (0.0..=1.0).contains(v));
    let score = || {
        let (left, right) = word.split_once(['-', ':'])?;
        let score = |text: &str| parse_number(text).filter(|v| *v >= 0.0);
        Some(score_outcome(score(left)?, score(right)?))
    };
    WORDS.read(word).or_else(share).or_else(score)
}

impl Record<'_> {
    /// Returns the number of rows.
    fn rows(&self) -> usize {
        match self {
            Self::Winners(rows) => *rows,
            Self::Outcomes { cells, .. } => cells.len(),
            Self::Numbers { numbers, .. } => numbers.len(),
            Self::Scores { scores: [left, _], .. } => left.len(),
            Self::Wins { wins: [left, _], .. } => left.len(),
        }
    }

    /// Reads the duels. `weight` has one number per row, the weight of each of its duels, by default 1.
    ///
    /// # Errors
    /// [`Error::Cell`] for an invalid or ambiguous outcome, and for a missing one unless such rows are left
    /// out; [`Error::Shape`] for columns of different lengths; [`Error::TooFew`] if no row has an outcome.
    pub fn read(&self, weight: Option<&[f64]>, missing: MissingOutcome) -> Result<Outcomes> {
        let rows = self.rows();
        self.check_lengths(weight)?;
        let mut out =
            Outcomes { rows: Vec::new(), outcome: Vec::new(), weight: None, count: 0, missing: Vec::new() };
        if let Self::Wins { columns, wins, ties } = self {
            out.read_wins(*columns, *wins, *ties, weight)?;
        } else {
            let outcomes = match self {
                Self::Outcomes { column, cells, names } => words(column, cells, *names)?,
                Self::Numbers { column, numbers } => number_outcomes(column, numbers)?,
                Self::Scores { scores: [left, right], .. } => {
                    let outcome =
                        |(l, r): (&f64, &f64)| (!(l.is_nan() || r.is_nan())).then(|| score_outcome(*l, *r));
                    left.iter().zip(*right).map(outcome).collect()
                }
                _ => vec![Some(1.0); rows],
            };
            for (row, outcome) in outcomes.into_iter().enumerate() {
                match outcome {
                    Some(outcome) => out.push(row, outcome),
                    None => out.missing.push(row),
                }
            }
            out.count = out.rows.len();
            out.weight = weight.map(|row_weights| out.rows.iter().map(|&row| row_weights[row]).collect());
        }
        if let (Some(&row), MissingOutcome::Refuse) = (out.missing.first(), missing) {
            return Err(self.missing_outcome_error(row, out.missing.len()));
        }
        if out.rows.is_empty() {
            return Err(Error::too_few("the list of duels with an outcome", 1, "duel is"));
        }
        Ok(out)
    }

    fn check_lengths(&self, weight: Option<&[f64]>) -> Result<()> {
        let mut lengths: Vec<(&str, usize)> =
            weight.map(|row_weights| ("weight", row_weights.len())).into_iter().collect();
        match self {
            Self::Winners(_) | Self::Numbers { .. } | Self::Outcomes { names: None, .. } => {}
            Self::Outcomes { names: Some([left, right]), .. } => {
                lengths.extend([("left", left.len()), ("right", right.len())]);
            }
            Self::Scores { columns, scores: sides } | Self::Wins { columns, wins: sides, .. } => {
                lengths.push((columns[1], sides[1].len()));
            }
        }
        if let Self::Wins { ties: Some((name, ties)), .. } = self {
            lengths.push((name, ties.len()));
        }
        let why = "one per row of duels";
        lengths
            .into_iter()
            .try_for_each(|(name, length)| crate::error::sized(name, "entries", self.rows(), length, why))
    }

    /// Returns the error for a row without an outcome.
    fn missing_outcome_error(&self, row: usize, count: usize) -> Error {
        let column = match self {
            Self::Scores { columns, scores: [left, _] } => columns[usize::from(!left[row].is_nan())],
            Self::Outcomes { column, .. } | Self::Numbers { column, .. } => column,
            Self::Wins { columns, .. } => columns[0],
            Self::Winners(_) => "winner",
        };
        let count_text = if count > 1 { format!(" ({count} rows have none)") } else { String::new() };
        let problem = format!("the duel has no outcome{count_text}: fill it in, or leave such duels out");
        Error::Cell { row, column: column.into(), value: String::new(), problem }
    }
}

impl Outcomes {
    fn push(&mut self, row: usize, outcome: f64) {
        self.rows.push(row);
        self.outcome.push(outcome);
    }

    /// Reads counts of wins and ties; a row in which one of them is missing has no outcome.
    fn read_wins(
        &mut self,
        columns: [&str; 2],
        wins: [&[f64]; 2],
        ties: Option<(&str, &[f64])>,
        weight: Option<&[f64]>,
    ) -> Result<()> {
        let mut weights = Vec::new();
        let mut total = 0.0;
        let count_columns = [(columns[0], wins[0], 1.0), (columns[1], wins[1], 0.0)];
        let count_columns: Vec<(&str, &[f64], f64)> =
            count_columns.into_iter().chain(ties.map(|(name, ties)| (name, ties, 0.5))).collect();
        for row in 0..wins[0].len() {
            if count_columns.iter().any(|(_, counts, _)| counts[row].is_nan()) {
                self.missing.push(row);
                continue;
            }
            for &(column, counts, outcome) in &count_columns {
                let count = counts[row];
                if !(count.is_finite() && count >= 0.0) {
                    let problem = "a count of duels is a number, 0 or more".into();
                    return Err(Error::Cell {
                        row,
                        column: column.into(),
                        value: count.to_string(),
                        problem,
                    });
                }
                if count > 0.0 {
                    self.push(row, outcome);
                    weights.push(count * weight.map_or(1.0, |row_weights| row_weights[row]));
                    total += count;
                }
            }
        }
        self.count = total.round() as usize;
        self.weight = Some(weights);
        Ok(())
    }
}

/// Reads numbers: shares of a win if all are from 0 to 1, otherwise the words that they are written as.
fn number_outcomes(column: &str, numbers: &[f64]) -> Result<Vec<Option<f64>>> {
    let present = |v: &f64| (!v.is_nan()).then_some(*v);
    if numbers.iter().filter_map(present).all(|v| (0.0..=1.0).contains(&v)) {
        return Ok(numbers.iter().map(present).collect());
    }
    let cells: Vec<Option<String>> = numbers.iter().map(|v| present(v).map(|v| format!("{v:?}"))).collect();
    words(column, &cells, None)
}

/// A column of cells by its different words.
struct WordColumn<'a> {
    cells: &'a [Option<String>],
    /// For each row, the index of its word; `None` for a missing cell and an unfinished game.
    word_of_row: Vec<Option<usize>>,
    /// The different words, [normalised](normalise).
    words: Vec<String>,
}

impl<'a> WordColumn<'a> {
    fn new(cells: &'a [Option<String>]) -> Self {
        let (mut words, mut known) = (Vec::new(), HashMap::new());
        let mut word_of = |cell: &'a str| {
            *known.entry(cell).or_insert_with(|| {
                let word = normalise(cell);
                (word != UNFINISHED).then(|| {
                    words.push(word);
                    words.len() - 1
                })
            })
        };
        let word_of_row = cells.iter().map(|cell| word_of(cell.as_deref()?)).collect();
        Self { cells, word_of_row, words }
    }

    /// Returns the outcomes of the rows by a reading of words.
    fn read(&self, read: &dyn Fn(&str) -> Option<f64>) -> Vec<Option<f64>> {
        let outcomes: Vec<Option<f64>> = self.words.iter().map(|word| read(word)).collect();
        self.word_of_row.iter().map(|word| outcomes[(*word)?]).collect()
    }

    /// Returns the outcomes of the rows if cells are the name of the winner, or a word for a tie.
    fn read_names(&self, [left, right]: [&[String]; 2]) -> Vec<Option<f64>> {
        let winner = |(row, cell): (usize, &Option<String>)| {
            let name = cell.as_deref()?.trim();
            match (left[row].trim() == name, right[row].trim() == name) {
                (true, _) => Some(1.0),
                (_, true) => Some(0.0),
                _ => TIE_WORDS.contains(&&self.words[self.word_of_row[row]?][..]).then_some(0.5),
            }
        };
        self.cells.iter().enumerate().map(winner).collect()
    }

    /// Whether a reading has the outcome of every row that is not missing.
    fn is_complete(&self, reading: &[Option<f64>]) -> bool {
        reading.iter().zip(&self.word_of_row).all(|(outcome, word)| outcome.is_some() || word.is_none())
    }
}

/// Reads outcomes with the vocabulary that contains all cells.
fn words(column: &str, cells: &[Option<String>], names: Option<[&[String]; 2]>) -> Result<Vec<Option<f64>>> {
    let texts = WordColumn::new(cells);
    let mut readings = vec![texts.read(&word_outcome)];
    readings.extend(LETTERS.iter().map(|vocabulary| texts.read(&|word| vocabulary.read(word))));
    // Numbers from 0 to 1 are shares of a win; others may be codes. The numbers 1 and 2 are read as codes of
    // sides only if the column has an X or another word for a tie.
    let has_ties = texts.words.iter().any(|word| word == "x" || TIE_WORDS.contains(&word.as_str()));
    let codes = CODES.iter().filter(|vocabulary| vocabulary.tie != ["x"] || has_ties);
    if !texts.is_complete(&readings[0]) {
        readings.extend(codes.map(|vocabulary| texts.read(&|word| vocabulary.read(&code_text(word)))));
    }
    readings.extend(names.map(|names| texts.read_names(names)));
    let candidates: Vec<&Vec<Option<f64>>> =
        readings.iter().filter(|reading| texts.is_complete(reading)).collect();
    let cell_error = |row: usize, problem: String| {
        let value = cells[row].clone().unwrap_or_default();
        Err(Error::Cell { row, column: column.into(), value, problem })
    };
    let Some(outcomes) = candidates.first() else {
        let n_read = |reading: &Vec<Option<f64>>| reading.iter().flatten().count();
        // If several readings are equally complete, the first one is used: the vocabulary of whole words.
        let best = readings.iter().rev().max_by_key(|reading| n_read(reading)).unwrap_or(&readings[0]);
        let is_unread = |&row: &usize| best[row].is_none() && texts.word_of_row[row].is_some();
        let row = (0..cells.len()).find(is_unread).unwrap_or(0);
        return cell_error(row, format!("the outcome of a duel is {OUTCOME_WORDS}"));
    };
    let is_ambiguous = |row: &usize| candidates.iter().any(|reading| reading[*row] != outcomes[*row]);
    if let Some(row) = (0..cells.len()).find(is_ambiguous) {
        let problem = "the column's other cells do not show which side it means: write left, right or tie";
        return cell_error(row, problem.into());
    }
    Ok((*outcomes).clone())
}

/// Returns the side at home in each duel. A cell is left, right, none, or the name of one of the two items; a
/// missing cell means none.
///
/// # Errors
/// [`Error::Cell`] for any other text.
pub fn read_homes(
    column: &str,
    cells: &[Option<String>],
    names: Option<[&[String]; 2]>,
) -> Result<Vec<HomeSide>> {
    let side = |row: usize, cell: &str| match (normalise(cell).as_str(), names) {
        ("left", _) => Some(HomeSide::Left),
        ("right", _) => Some(HomeSide::Right),
        ("none" | "neutral" | "nobody", _) => Some(HomeSide::Nobody),
        (_, Some([left, _])) if left[row].trim() == cell.trim() => Some(HomeSide::Left),
        (_, Some([_, right])) if right[row].trim() == cell.trim() => Some(HomeSide::Right),
        _ => None,
    };
    let read_home = |(row, cell): (usize, &Option<String>)| {
        let Some(cell) = cell else { return Ok(HomeSide::Nobody) };
        side(row, cell).ok_or_else(|| Error::Cell {
            row,
            column: column.into(),
            value: cell.clone(),
            problem: "the side at home is left, right or none, or the name of one of the two items".into(),
        })
    };
    cells.iter().enumerate().map(read_home).collect()
}
