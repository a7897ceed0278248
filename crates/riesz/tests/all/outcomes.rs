//! Outcomes of duels read from words, scores and counts of wins, and refused inputs.

use riesz::Result;
use riesz::preference::{HomeSide, MissingOutcome, Outcomes, Record, read_homes};

fn texts(cells: &[&str]) -> Vec<Option<String>> {
    cells.iter().map(|cell| (!cell.is_empty()).then(|| (*cell).to_string())).collect()
}

fn read(cells: &[&str]) -> Result<Outcomes> {
    Record::Outcomes { column: "outcome", cells: &texts(cells), names: None }
        .read(None, MissingOutcome::Refuse)
}

#[test]
fn every_vocabulary_is_read() {
    for cells in [
        ["left", "right", "tie"],
        ["Left", " RIGHT ", "Draw"],
        ["win", "loss", "draw"],
        ["W", "L", "D"],
        ["L", "R", "tie"],
        ["home", "away", "draw"],
        ["H", "A", "D"],
        ["model_a", "model_b", "tie (bothbad)"],
        ["A", "B", "C"],
        ["1", "0", "0.5"],
        ["1.0", "0.0", "½"],
        ["1", "-1", "0"],
        ["1", "2", "X"],
        ["1-0", "0-1", "1/2-1/2"],
        ["1-0", "0–1", "½-½"],
        ["3:1", "0 - 2", "2-2"],
        ["true", "FALSE", "tie"],
        ["win", "0", "draw"],
        ["1", "2", "tie"],
        ["assistant_a", "assistant_b", "tie"],
        ["response_1", "response_2", "tie"],
        [">", "<", "="],
        ["+", "-", "="],
        ["A>>B", "B>A", "A=B"],
        ["V", "D", "N"],
        ["S", "N", "U"],
    ] {
        let outcomes = read(&cells).unwrap_or_else(|e| panic!("{cells:?}: {e}"));
        assert_eq!(outcomes.outcome, [1.0, 0.0, 0.5], "{cells:?}");
        assert_eq!(outcomes.rows, [0, 1, 2]);
    }
}

#[test]
fn a_winner_is_named_by_the_items_name() {
    let side = |names: [&str; 3]| names.map(String::from);
    let (left, right) = (side(["Ann", "Bob", "Cid"]), side(["Bob", "Cid", "Ann"]));
    let cells = texts(&["Bob", "Bob", "draw"]);
    let names = Some([&left[..], &right[..]]);
    let record = Record::Outcomes { column: "winner", cells: &cells, names };
    assert_eq!(record.read(None, MissingOutcome::Refuse).unwrap().outcome, [0.0, 1.0, 0.5]);
    // A name that belongs to neither item.
    let cells = texts(&["Bob", "Ann", "Ann"]);
    let record = Record::Outcomes { column: "winner", cells: &cells, names };
    let message = record.read(None, MissingOutcome::Refuse).unwrap_err().to_string();
    assert!(
        message.starts_with("row 2 of column 'winner' is 'Ann': the outcome of a duel is left"),
        "{message}"
    );
    // Items with the names of the sides.
    let (left, right) = (side(["a", "b", "a"]), side(["b", "a", "b"]));
    let cells = texts(&["a", "a", "b"]);
    let record = Record::Outcomes { column: "winner", cells: &cells, names: Some([&left, &right]) };
    let message = record.read(None, MissingOutcome::Refuse).unwrap_err().to_string();
    assert!(message.contains("row 2") && message.contains("which side it means"), "{message}");
}

#[test]
fn unknown_and_ambiguous_cells_are_refused() {
    let message = read(&["left", "7", "tie"]).unwrap_err().to_string();
    assert!(
        message.starts_with("row 2 of column 'outcome' is '7': the outcome of a duel is left, right or tie")
    );
    for cells in [&["L", "L"][..], &["a", "tie"], &["H", "B"], &["0", "1", "2"], &["left", "H"]] {
        assert!(read(cells).is_err(), "{cells:?}");
    }
}

/// A column of numbers is read like their texts, with NaN for an empty cell.
#[test]
fn numbers_are_read_like_their_texts() {
    for numbers in [
        &[1.0, 0.0, 0.5, 0.25][..],
        &[1.0, -1.0, 0.0],
        &[1.0, f64::NAN, 0.0],
        &[f64::NAN, 1.0, -1.0],
        &[1.0, 2.0, 1.0],
        &[7.0, 0.0],
        &[f64::INFINITY, 1.0],
        &[f64::NAN],
    ] {
        let cells: Vec<Option<String>> =
            numbers.iter().map(|v| (!v.is_nan()).then(|| format!("{v:?}"))).collect();
        for missing in [MissingOutcome::Refuse, MissingOutcome::Drop] {
            let by_numbers = Record::Numbers { column: "outcome", numbers }.read(None, missing);
            let by_texts = Record::Outcomes { column: "outcome", cells: &cells, names: None };
            let messages = |result: Result<Outcomes>| result.map_err(|error| error.to_string());
            assert_eq!(messages(by_numbers), messages(by_texts.read(None, missing)), "{numbers:?}");
        }
    }
}

#[test]
fn missing_outcomes_are_refused_or_left_out() {
    let cells = texts(&["left", "", "*", "right"]);
    let record = Record::Outcomes { column: "outcome", cells: &cells, names: None };
    let message = record.read(None, MissingOutcome::Refuse).unwrap_err().to_string();
    assert!(message.starts_with("row 2 of column 'outcome' is empty"), "{message}");
    assert!(message.contains("(2 rows have none)"), "{message}");
    let outcomes = record.read(Some(&[1.0, 2.0, 3.0, 4.0]), MissingOutcome::Drop).unwrap();
    assert_eq!((outcomes.rows, outcomes.missing), (vec![0, 3], vec![1, 2]));
    assert_eq!((outcomes.outcome, outcomes.weight), (vec![1.0, 0.0], Some(vec![1.0, 4.0])));
    let record = Record::Scores { columns: ["l", "r"], scores: [&[2.0, f64::NAN], &[1.0, 3.0]] };
    assert!(
        record.read(None, MissingOutcome::Refuse).unwrap_err().to_string().contains("row 2 of column 'l'")
    );
    assert_eq!(record.read(None, MissingOutcome::Drop).unwrap().outcome, [1.0]);
}

#[test]
fn scores_and_wins_are_read() {
    let scores = Record::Scores { columns: ["l", "r"], scores: [&[2.0, 0.0, 1.0], &[1.0, 3.0, 1.0]] };
    assert_eq!(scores.read(None, MissingOutcome::Refuse).unwrap().outcome, [1.0, 0.0, 0.5]);
    let ties = Some(("ties", &[0.0, 2.0][..]));
    let wins = Record::Wins { columns: ["w1", "w2"], wins: [&[7.0, 1.0], &[3.0, 0.0]], ties };
    let outcomes = wins.read(Some(&[1.0, 0.5]), MissingOutcome::Refuse).unwrap();
    assert_eq!(outcomes.rows, [0, 0, 1, 1]);
    assert_eq!(outcomes.outcome, [1.0, 0.0, 1.0, 0.5]);
    assert_eq!(outcomes.weight, Some(vec![7.0, 3.0, 0.5, 1.0]));
    assert_eq!(outcomes.count, 13);
    let wins = Record::Wins { columns: ["w1", "w2"], wins: [&[7.0], &[-3.0]], ties: None };
    let message = wins.read(None, MissingOutcome::Refuse).unwrap_err().to_string();
    assert_eq!(message, "row 1 of column 'w2' is '-3': a count of duels is a number, 0 or more");
}

#[test]
fn the_side_at_home_may_be_named() {
    let side = |names: [&str; 4]| names.map(String::from);
    let (left, right) = (side(["a", "b", "c", "a"]), side(["b", "c", "a", "c"]));
    let home_sides =
        read_homes("venue", &texts(&["left", "c", "", "neutral"]), Some([&left, &right])).unwrap();
    assert_eq!(home_sides, [HomeSide::Left, HomeSide::Right, HomeSide::Nobody, HomeSide::Nobody]);
    let message =
        read_homes("venue", &texts(&["b", "a", "", ""]), Some([&left, &right])).unwrap_err().to_string();
    assert!(
        message.starts_with("row 2 of column 'venue' is 'a': the side at home is left, right or none"),
        "{message}"
    );
}
