//! Adjacency matrices as CSV, with the variables' names in the first line, and optionally in the first
//! column.
//!
//! In a matrix of 0 and 1, rows are causes of columns, as in networkx, igraph, pgmpy and bnlearn. In LiNGAM's
//! matrices rows are effects and entries are coefficients. A matrix of other numbers is therefore refused
//! unless its first cell is `from` (rows are causes) or `to` (rows are effects). A matrix with an entry -1
//! for each edge's tail and 1 for its head is causal-learn's: the entry in row i and column j is the mark at
//! i of the edge between i and j.

use super::{Parsed, Result, lines, parse_error};

/// Returns the value of an entry: a number, or 0 for an empty cell.
fn number(cell: &str) -> Option<f64> {
    match cell.to_lowercase().as_str() {
        "" | "nan" | "na" | "false" => Some(0.0),
        "true" => Some(1.0),
        cell => cell.parse().ok(),
    }
}

fn delimiter(text: &str) -> Option<char> {
    let (_, first) = lines(text).next()?;
    [',', ';', '\t', ' '].into_iter().find(|c| first.trim_end().contains(*c))
}

/// Returns the cells of a line without their quotes; several blanks count as one delimiter.
fn cells(line: &str, delimiter: char) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.trim_end_matches(['\r', '\n']).chars() {
        match c {
            '"' => quoted = !quoted,
            c if c == delimiter && !quoted => cells.push(std::mem::take(&mut cell).trim().to_string()),
            c => cell.push(c),
        }
    }
    cells.push(cell.trim().to_string());
    if delimiter == ' ' {
        cells.retain(|cell| !cell.is_empty());
    }
    cells
}

pub(super) fn recognises(text: &str) -> bool {
    let Some(delimiter) = delimiter(text) else { return false };
    let Some((_, second)) = lines(text).nth(1) else { return false };
    let row = cells(second, delimiter);
    row.len() > 1
        && row[1..].iter().all(|cell| number(cell).is_some())
        && row[1..].iter().any(|cell| !cell.is_empty())
}

/// A square matrix with the names of its variables.
struct Matrix {
    /// The text of the first cell.
    corner: String,
    names: Vec<String>,
    rows: Vec<Vec<f64>>,
}

pub(super) fn read(text: &str) -> Result<Parsed> {
    let matrix = matrix(text)?;
    let mut parsed = Parsed { variables: matrix.names.clone(), ..Parsed::default() };
    let entries = || matrix.rows.iter().flatten().copied();
    let has_marks =
        entries().all(|v| [-1.0, 0.0, 1.0, 2.0].contains(&v)) && entries().any(|v| v == -1.0 || v == 2.0);
    let n = matrix.names.len();
    let symmetric = (0..n).all(|i| (0..n).all(|j| (matrix.rows[i][j] == 0.0) == (matrix.rows[j][i] == 0.0)));
    if has_marks && symmetric {
        read_edge_marks(&matrix, &mut parsed)?;
        return Ok(parsed);
    }
    let transposed = match matrix.corner.to_lowercase().as_str() {
        "to" => true,
        "from" => false,
        _ if entries().all(|v| v == 0.0 || v == 1.0) => {
            parsed.note = Some(
                "the graph is an adjacency matrix: rows are taken for causes of columns; if rows are \
                 effects, as in LiNGAM, write 'to' in its first cell"
                    .into(),
            );
            false
        }
        _ => {
            return parse_error(
                1,
                "for coefficients it is not clear whether rows are causes or effects: write 'from' in the \
                 first cell if rows are causes of columns, 'to' if rows are effects, as in LiNGAM",
            );
        }
    };
    for i in 0..n {
        for j in (0..n).filter(|&j| matrix.rows[i][j] != 0.0) {
            let (from, to) = if transposed { (j, i) } else { (i, j) };
            if i < j && matrix.rows[j][i] != 0.0 {
                let problem = format!(
                    "'{}' and '{}' have an arrow to each other: remove one; for a hidden common cause \
                     use another format",
                    matrix.names[i], matrix.names[j]
                );
                return parse_error(i + 2, problem);
            }
            parsed.edge(&matrix.names[from], &matrix.names[to], false);
        }
    }
    Ok(parsed)
}

/// Adds edges by the marks at both ends: a tail (-1), a head (1), or a circle (2), which leaves both
/// possible.
fn read_edge_marks(matrix: &Matrix, graph: &mut Parsed) -> Result<()> {
    let n = matrix.names.len();
    for i in 0..n {
        for j in (i + 1..n).filter(|&j| matrix.rows[i][j] != 0.0) {
            let (a, b) = (&matrix.names[i], &matrix.names[j]);
            match (matrix.rows[i][j], matrix.rows[j][i]) {
                (-1.0, 1.0) => graph.edge(a, b, false),
                (1.0, -1.0) => graph.edge(b, a, false),
                (1.0, 1.0) => graph.edge(a, b, true),
                _ => {
                    let problem = format!(
                        "the edge between '{a}' and '{b}' has no direction: an arrow has the mark -1 in \
                         the row of its cause and 1 in that of its effect"
                    );
                    return parse_error(i + 2, problem);
                }
            }
        }
    }
    Ok(())
}

fn matrix(text: &str) -> Result<Matrix> {
    let delimiter = delimiter(text).unwrap_or(',');
    let mut rows_of_cells = lines(text).map(|(line, content)| (line, cells(content, delimiter)));
    let (first, mut header) = rows_of_cells.next().unwrap_or_default();
    let body: Vec<(usize, Vec<String>)> = rows_of_cells.collect();
    if header.iter().all(|cell| number(cell).is_some()) {
        return parse_error(first, "the first line has no names: write the variables' names there");
    }
    // If rows begin with their names, the header has an additional first cell, or is one cell shorter than
    // the rows.
    let width = body.first().map_or(0, |(_, row)| row.len());
    let has_row_names = body.len() + 1 == width;
    let corner = if has_row_names && header.len() == width { header.remove(0) } else { String::new() };
    if body.len() != header.len() {
        let (rows, columns) = (body.len(), header.len());
        return parse_error(
            first,
            format!(
                "there are {rows} rows for {columns} names: a matrix has one row and one column per name"
            ),
        );
    }
    if let Some(k) = (0..header.len()).find(|&k| header[k].is_empty() || header[..k].contains(&header[k])) {
        return parse_error(
            first,
            format!("the name of column {} is empty or occurs twice: give each column its own", k + 1),
        );
    }
    let mut rows = Vec::new();
    for (k, (line, mut row)) in body.into_iter().enumerate() {
        if row.len() != header.len() + usize::from(has_row_names) {
            return parse_error(
                line,
                format!("{} cells for {} names: give one for each", row.len(), header.len()),
            );
        }
        if has_row_names {
            let name = row.remove(0);
            if name != header[k] && name.parse::<usize>().ok() != Some(k) {
                let problem = format!(
                    "row {} is called '{name}', but column {} '{}': give both the same order",
                    k + 1,
                    k + 1,
                    header[k]
                );
                return parse_error(line, problem);
            }
        }
        let mut values = Vec::new();
        for (cell, column) in row.iter().zip(&header) {
            let Some(value) = number(cell).filter(|v| v.is_finite()) else {
                return parse_error(
                    line,
                    format!("'{cell}' in column '{column}' is not a number: write 0 or 1"),
                );
            };
            values.push(value);
        }
        rows.push(values);
    }
    Ok(Matrix { corner, names: header, rows })
}
