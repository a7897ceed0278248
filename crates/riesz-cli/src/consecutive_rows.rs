//! Explains rows whose numbers have gaps by a function of consecutive rows: estimates draw from a seed and
//! the number of the first row.

use riesz::{Error, Explanation, Table};

/// Explains rows with these numbers by a function of consecutive rows and the number of their first one.
pub fn explain_consecutive<E: From<Error>>(
    table: &Table,
    numbers: &[usize],
    mut explain: impl FnMut(&Table, usize) -> std::result::Result<Explanation, E>,
) -> std::result::Result<Explanation, E> {
    let mut positions = 0..table.rows();
    let mut runs = numbers.chunk_by(|number, next| number + 1 == *next);
    let mut next_run = || {
        let run = runs.next()?;
        Some((table.select_rows(&positions.by_ref().take(run.len()).collect::<Vec<_>>()), run[0]))
    };
    let Some((first_rows, first)) = next_run() else { return explain(table, 0) };
    let mut explanation = explain(&first_rows, first)?;
    while let Some((rows, first)) = next_run() {
        explanation.concat_rows(explain(&rows, first)?)?;
    }
    Ok(explanation)
}
