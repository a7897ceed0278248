//! External programs as models: 'cmd:COMMAND' in place of a model file. The program reads rows as CSV, with a
//! header, on its standard input, and writes one line of numbers per row on its standard output. A first line
//! that is not numeric names the outputs.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use riesz::attribution::kernel_shap::kernel_shap;
use riesz::attribution::permutation::estimate;
use riesz::model_card::CardEntry;
use riesz::question::ValueEstimator;
use riesz::{Explanation, Matrix, Question, Table};

use crate::consecutive_rows::explain_consecutive;
use crate::exit::{Failure, Result};

/// Largest number of rows per call of a program, which is started for each call.
const BATCH: usize = 1 << 20;

/// Largest average number of bytes of the answer to one row.
const LONGEST_LINE: u64 = 1 << 14;

/// The command, if `model` is one rather than a file.
pub fn command(model: &Path) -> Option<&str> {
    model.to_str()?.strip_prefix("cmd:")
}

/// The reason why a program cannot be explained.
pub enum ProgramError {
    /// Its values cannot be computed.
    Values(riesz::Error),
    /// The program failed, or its answer cannot be read.
    Program(Failure),
}

impl From<riesz::Error> for ProgramError {
    fn from(error: riesz::Error) -> Self {
        Self::Values(error)
    }
}

/// Explains rows of a program, which have these numbers in the table.
pub fn explain(
    command: &str,
    question: &Question,
    rows: &Table,
    numbers: &[usize],
) -> std::result::Result<Explanation, ProgramError> {
    let mut names: Option<Vec<String>> = None;
    let mut evaluate = |queried: &Table| -> std::result::Result<Matrix, ProgramError> {
        let (outputs, header) = outputs_of(command, queried).map_err(ProgramError::Program)?;
        names = names.take().or(header);
        Ok(outputs)
    };
    let mut explanation = match question.estimator {
        ValueEstimator::KernelShap => kernel_shap(&mut evaluate, rows, question, BATCH)?,
        ValueEstimator::Permutation { .. } => explain_consecutive(rows, numbers, |run, first_row| {
            estimate(&mut evaluate, run, first_row, question)
        })?,
    };
    explanation.row_numbers = numbers.to_vec();
    let outputs = explanation.outputs();
    if let Some(names) = names.filter(|names| names.len() == outputs) {
        explanation.output_names = names;
    }
    explanation.provenance.model =
        vec![CardEntry::new("model", "a program"), CardEntry::new("command", command)];
    Ok(explanation)
}

/// The outputs of the program for rows, and their names if it states them.
pub fn outputs_of(command: &str, rows: &Table) -> Result<(Matrix, Option<Vec<String>>)> {
    let program_error = |description: &str, error: &std::io::Error| {
        Failure::input(format!("the program '{command}' {description}: {error}"))
    };
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| program_error("does not start", &e))?;
    let input = csv_of(rows)?;
    let (stdin, mut stdout) = (child.stdin.take(), child.stdout.take());
    // The input is written while the output is read: a program may answer before it has read everything.
    let writer = std::thread::spawn(move || {
        // A program that does not read to the end closes its input early; its answers show whether this is an
        // error.
        stdin.map(|mut stdin| stdin.write_all(&input))
    });
    let mut text = String::new();
    let limit = (rows.rows() as u64 + 2) * LONGEST_LINE;
    let read = stdout.as_mut().map(|stdout| stdout.take(limit).read_to_string(&mut text)).transpose();
    if text.len() as u64 >= limit {
        drop(child.kill());
    }
    drop(stdout);
    let status = child.wait().map_err(|e| program_error("cannot be waited for", &e))?;
    drop(writer.join());
    read.map_err(|e| program_error("answers with bytes that are not text", &e))?;
    if text.len() as u64 >= limit {
        let row_count = rows.rows();
        return Err(Failure::input(format!(
            "the answer of the program '{command}' to {row_count} rows is too long: it must be one line of \
             numbers per row"
        )));
    }
    if !status.success() {
        let code = status
            .code()
            .map_or("was stopped by a signal".into(), |c| format!("ended with the exit code {c}"));
        return Err(Failure::input(format!("the program '{command}' {code}: it must end with 0")));
    }
    parse(&text, rows.rows(), command)
}

fn csv_of(rows: &Table) -> Result<Vec<u8>> {
    let csv_error =
        |e: csv::Error| Failure::input(format!("the rows cannot be written for the program: {e}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(rows.columns().iter().map(|c| &c.name)).map_err(csv_error)?;
    for i in 0..rows.rows() {
        let cells = rows.columns().iter().enumerate().map(|(j, c)| c.format(rows.get(i, j)));
        writer.write_record(cells).map_err(csv_error)?;
    }
    writer
        .into_inner()
        .map_err(|e| Failure::input(format!("the rows cannot be written for the program: {e}")))
}

fn parse(text: &str, rows: usize, command: &str) -> Result<(Matrix, Option<Vec<String>>)> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    let cells = |line: &str| -> Vec<String> {
        line.split(',').map(|c| c.trim().trim_matches('"').to_string()).collect()
    };
    let number = |cell: &String| cell.parse::<f64>();
    let names = lines.peek().map(|line| cells(line)).filter(|first| first.iter().any(|c| number(c).is_err()));
    if names.is_some() {
        lines.next();
    }
    let (mut numbers, mut count, mut outputs) = (Vec::new(), 0, None);
    for line in lines {
        let row: Vec<f64> =
            cells(line).iter().map(number).collect::<std::result::Result<_, _>>().map_err(|_| {
                Failure::input(format!("the program '{command}' answers with '{line}', which is not numbers"))
            })?;
        if *outputs.get_or_insert(row.len()) != row.len() {
            return Err(Failure::input(format!(
                "the program '{command}' answers with lines of different lengths"
            )));
        }
        numbers.extend(row);
        count += 1;
    }
    if count != rows {
        return Err(Failure::input(format!(
            "the program '{command}' answers with {count} lines of numbers to {rows} rows: it must write one \
             line per row"
        )));
    }
    Ok((Matrix::from_row_major(count, outputs.unwrap_or(0), numbers), names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_of_programs_are_lines_of_numbers() {
        let (outputs, names) = parse("a,b\n1,2\n\n3,-4e-3\n", 2, "p").unwrap();
        assert_eq!(
            (outputs.data(), names),
            (&[1.0, 2.0, 3.0, -4e-3][..], Some(vec!["a".into(), "b".into()]))
        );
        assert_eq!(parse("1\n2\n", 2, "p").unwrap().1, None);
        for (text, culprit) in
            [("1\n", "1 lines"), ("1\n2,3\n", "different lengths"), ("1\nx\n", "'x'"), ("", "0 lines")]
        {
            let error = parse(text, 2, "p").unwrap_err();
            assert!(matches!(&error, Failure::Input(m) if m.contains(culprit)), "{error:?}");
        }
    }
}
