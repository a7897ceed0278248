//! What `explain` and `report` share: a model and a question made ready for a table, and the table explained chunk by chunk.

use std::path::Path;

use riesz::explanation::Fact;
use riesz::format::model::SavedModel;
use riesz::{Exactness, Explainer, Explanation, Table};

use crate::args::{GameArgs, TableArgs};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::games::{about_model, robustness};
use crate::io::input::{OpenTable, described};
use crate::io::typing::Conforming;

/// Numbers that a JSON explanation may hold. It is one object of whole arrays, for plots and reports that need all
/// rows at once, so unlike the tables it cannot stream; beyond this a table is the right form.
pub const JSON_NUMBERS: usize = 20_000_000;

/// A model that is ready to explain the rows of a table.
pub struct Explaining<'a> {
    /// The model and the question.
    pub explainer: Explainer<'a>,
    /// The rows.
    pub rows: Conforming,
    /// What is said of the run.
    pub facts: Vec<Fact>,
    /// Numbers that a row of the answer takes.
    pub width: usize,
}

impl<'a> Explaining<'a> {
    /// For a model and its file.
    pub fn of(
        (saved, file): (&'a SavedModel, &Path),
        rows: OpenTable,
        game: &GameArgs,
        table: &TableArgs,
        seed: u64,
        console: &Console,
    ) -> Result<Self> {
        let (question, own) = about_model(game, table, saved, seed, console)?;
        let explainer = Explainer::new(&saved.model, question)?;
        let players = explainer.groups().players().len();
        let width = saved.model.columns().len() + (players + 4) * saved.model.outputs();
        let described_rows = rows.path.as_deref().map_or(Ok(rows.name.clone()), described)?;
        let mut facts = vec![Fact::new("model file", described(file)?), Fact::new("rows", described_rows)];
        facts.extend(own);
        let bound = robustness(game, &explainer, &saved.model)?;
        bound.iter().for_each(|fact| console.note(format!("{}: {}", fact.name, fact.value)));
        facts.extend(bound);
        Ok(Self { explainer, rows: Conforming::new(rows, saved.model.columns(), width)?, facts, width })
    }
}

/// Explains rows chunk by chunk, and hands each chunk on with its rows numbered from the first of all. Returns their number.
pub fn each(
    rows: &mut Conforming,
    console: &Console,
    mut explain: impl FnMut(&Table) -> Result<Explanation>,
    mut take: impl FnMut(Explanation) -> Result<()>,
) -> Result<usize> {
    let progress = console.progress("explaining");
    let mut done = 0;
    while let Some(table) = rows.next()? {
        let mut chunk = explain(&table)?;
        chunk.row_numbers.iter_mut().for_each(|row| *row += done);
        done += chunk.rows();
        take(chunk)?;
        progress.say(format!("{done} rows explained"));
    }
    Ok(done)
}

/// What is said of all rows together.
#[derive(Debug, Default)]
pub struct Certificate {
    /// None if values need not add up.
    residual: Option<f64>,
    bound: f64,
    failed: Option<usize>,
    /// The largest standard error, if values are estimated.
    std_error: Option<f64>,
}

impl Certificate {
    /// Takes in some rows.
    pub fn include(&mut self, chunk: &Explanation) {
        if let Exactness::Estimated { std_error, .. } = &chunk.exactness {
            let largest = std_error.iter().copied().fold(0.0, f64::max);
            self.std_error = Some(self.std_error.unwrap_or(0.0).max(largest));
        }
        if let Exactness::Exact { bound } = &chunk.exactness {
            self.bound = bound.iter().fold(self.bound, |most, bound| most.max(*bound));
        }
        let Some(certificate) = chunk.certificate() else { return };
        self.residual = Some(self.residual.unwrap_or(0.0).max(certificate.residual));
        if !certificate.holds {
            self.failed = self.failed.or(chunk.row_numbers.first().copied());
        }
    }

    /// In words.
    pub fn words(&self) -> String {
        if let Some(largest) = self.std_error {
            return format!("estimated: standard errors up to {largest:.1e}");
        }
        match self.residual {
            Some(residual) => format!(
                "exact: values add up to the predictions within {residual:.1e} (proved bound {:.1e})",
                self.bound
            ),
            None => format!("exact: each value is within {:.1e} (proved bound)", self.bound),
        }
    }

    /// Whether every residual is within its bound.
    pub fn check(&self) -> Result<()> {
        match self.failed {
            None => Ok(()),
            Some(row) => Err(Failure::Check(format!(
                "the certificate fails in the rows from {row} on: residual {:.1e} exceeds the proved bound",
                self.residual.unwrap_or(f64::NAN)
            ))),
        }
    }
}

/// Whether an explanation whose rows take `width` numbers each can be held as a whole.
pub fn within_limit(explanation: &Explanation, width: usize) -> Result<()> {
    if explanation.rows().saturating_mul(width) <= JSON_NUMBERS {
        return Ok(());
    }
    Err(Failure::input(format!(
        "a JSON explanation holds all rows at once, and more than {} are too many: use .csv or .parquet, which stream",
        JSON_NUMBERS / width.max(1)
    )))
}
