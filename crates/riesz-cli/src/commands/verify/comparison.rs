//! Comparisons of stated with recomputed numbers, and their text.

use std::fmt::Write as _;

use riesz::error::listed;
use riesz::model_card::CardEntry;
use serde_json::{Value, json};

use crate::console::{aligned, printable};

/// Number of differences that are listed for each kind of number.
const LISTED: usize = 10;

/// The result of comparing one kind of numbers.
pub struct Comparison {
    pub subject: &'static str,
    /// Whether the numbers agree; `None` if they could not be compared, or are information only.
    pub agrees: Option<bool>,
    pub finding: String,
    /// The number of differences, and the first of them.
    differing: usize,
    differences: Vec<Difference>,
}

impl Comparison {
    /// Information that is no comparison of numbers.
    pub fn information(subject: &'static str, finding: impl Into<String>) -> Self {
        let finding = finding.into();
        Self { subject, agrees: None, finding, differing: 0, differences: Vec::new() }
    }

    /// Numbers that were not compared, for this reason.
    pub fn skipped(subject: &'static str, reason: impl std::fmt::Display) -> Self {
        Self::information(subject, format!("not compared: {reason}"))
    }

    /// The first difference and the number of differences, for an error.
    pub fn failure(&self) -> String {
        let first = self.differences.first().map(|first| format!("; first {}", first.text()));
        format!("{} do not agree: {}{}", self.subject, self.finding, first.unwrap_or_default())
    }

    fn record(&self) -> Value {
        json!({
            "subject": self.subject,
            "agrees": self.agrees,
            "finding": self.finding,
            "differing": self.differing,
            "differences": self.differences.iter().map(Difference::record).collect::<Vec<_>>(),
        })
    }
}

/// The location of a compared number.
pub struct Location {
    pub row: usize,
    pub feature: Option<String>,
    /// The output; `None` if there is only one.
    pub output: Option<String>,
    /// The compared quantity, if it is not a number of the row, output and feature.
    pub quantity: Option<String>,
}

/// A stated number that differs from the recomputed one.
struct Difference {
    location: Location,
    stated: Value,
    recomputed: Value,
    allowed: f64,
    /// The names of the two numbers.
    words: [&'static str; 2],
}

impl Difference {
    fn text(&self) -> String {
        let part = |word: &str, name: &Option<String>| {
            name.as_ref().map_or(String::new(), |name| format!(", {word} {}", printable(name)))
        };
        let Location { row, feature, output, quantity } = &self.location;
        let (feature, output, quantity) =
            (part("feature", feature), part("output", output), part("the", quantity));
        let bound =
            if self.stated.is_number() { format!(", allowed {:.1e}", self.allowed) } else { "".into() };
        let [stated, recomputed] = [&self.stated, &self.recomputed].map(|value| match value {
            Value::String(text) => printable(text),
            Value::Null => "no number".into(),
            number => number.to_string(),
        });
        let [first, second] = self.words;
        format!("row {row}{feature}{output}{quantity}: {first} {stated}, {second} {recomputed}{bound}")
    }

    fn record(&self) -> Value {
        let Self {
            location: Location { row, feature, output, quantity }, stated, recomputed, allowed, ..
        } = self;
        json!({
            "row": row, "feature": feature, "output": output, "quantity": quantity,
            "stated": stated, "recomputed": recomputed, "allowed": allowed,
        })
    }
}

/// Differences between stated and recomputed numbers, each with an allowed difference.
#[derive(Default)]
pub struct Differences {
    pub count: usize,
    largest: f64,
    allowed: f64,
    differing: usize,
    listed: Vec<Difference>,
    /// The names of the two numbers, if these are not a stated and a recomputed one.
    pub words: Option<[&'static str; 2]>,
}

impl Differences {
    /// Compares two numbers.
    pub fn add(&mut self, stated: f64, recomputed: f64, allowed: f64, location: impl FnOnce() -> Location) {
        let difference = (stated - recomputed).abs();
        self.count += 1;
        self.largest = self.largest.max(difference);
        self.allowed = self.allowed.max(allowed);
        if difference.is_nan() || difference > allowed {
            self.list((stated.into(), recomputed.into()), allowed, location);
        }
    }

    /// Compares two texts.
    pub fn add_text(&mut self, stated: &str, recomputed: &str, location: impl FnOnce() -> Location) {
        self.count += 1;
        if stated != recomputed {
            self.list((stated.into(), recomputed.into()), 0.0, location);
        }
    }

    fn list(
        &mut self,
        (stated, recomputed): (Value, Value),
        allowed: f64,
        location: impl FnOnce() -> Location,
    ) {
        self.differing += 1;
        if self.listed.len() < LISTED {
            let words = self.words.unwrap_or(["stated", "recomputed"]);
            self.listed.push(Difference { location: location(), stated, recomputed, allowed, words });
        }
    }

    /// The result of all comparisons.
    pub fn compared(self, subject: &'static str) -> Comparison {
        let Self { count, largest, allowed, differing, listed: differences, .. } = self;
        let finding = match differing {
            0 => format!("{count} agree within {largest:.1e} (allowed {allowed:.1e})"),
            _ => format!("{differing} of {count} differ, by up to {largest:.1e}"),
        };
        Comparison { subject, agrees: Some(differing == 0), finding, differing, differences }
    }
}

/// One sentence about all comparisons of an explanation with `model`. `rows` describes the rows that were
/// recomputed, if these are not all.
pub fn verdict(comparisons: &[Comparison], model: &str, rows: Option<&str>) -> Comparison {
    let named = |agrees: bool| {
        let is_such = |c: &&Comparison| c.agrees == Some(agrees);
        comparisons.iter().filter(is_such).map(|c| c.subject).collect::<Vec<_>>()
    };
    let (differing, agreeing) = (named(false), named(true));
    let is_skipped = |c: &&Comparison| c.agrees.is_none() && c.finding.starts_with("not compared");
    let skipped: Vec<&str> = comparisons.iter().filter(is_skipped).map(|c| c.subject).collect();
    let is_loose = comparisons.iter().any(|c| c.subject == "standard errors" && c.agrees.is_none());
    let margin = if is_loose { "; values were only compared within 5 standard errors" } else { "" };
    let scope = rows.map_or(String::new(), |rows| format!(", in {rows}"));
    let finding = match (differing.is_empty(), skipped.contains(&"values")) {
        (false, _) => format!("the explanation does not agree with {model}: {} differ", listed(&differing)),
        (true, true) => format!(
            "incomplete: {} agree with {model}, but {} were not compared",
            listed(&agreeing),
            listed(&skipped)
        ),
        (true, false) => format!("the explanation agrees with {model}{scope}: {}{margin}", listed(&agreeing)),
    };
    let agrees = Some(differing.is_empty());
    Comparison { agrees, ..Comparison::information("verdict", finding) }
}

/// The comparisons as text: one line for each, and the differences.
pub fn text(comparisons: &[Comparison]) -> String {
    let fact = |comparison: &Comparison| CardEntry::new(comparison.subject, &comparison.finding);
    let mut text = aligned(&comparisons.iter().map(fact).collect::<Vec<_>>());
    for comparison in comparisons.iter().filter(|comparison| comparison.differing > 0) {
        let _ = writeln!(text, "\n{} that differ:", comparison.subject);
        comparison.differences.iter().for_each(|difference| {
            let _ = writeln!(text, "  {}", difference.text());
        });
        let unlisted = comparison.differing - comparison.differences.len();
        if unlisted > 0 {
            let _ = writeln!(text, "  and {unlisted} more");
        }
    }
    text
}

/// The comparisons as JSON.
pub fn records(comparisons: &[Comparison]) -> Value {
    Value::from(comparisons.iter().map(Comparison::record).collect::<Vec<_>>())
}
