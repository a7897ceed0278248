//! An effect as a table, in JSON and as text.

use riesz::causal::{Estimand, Pointwise};
use riesz::{ColumnKind, Table};
use riesz_report::EffectPage;
use serde_json::{Value, json};

use super::check;
use super::query_rows;
use crate::console::printable;
use crate::exit::Result;
use crate::io::write::Cells;

/// Number of rows shown in text; the table has all.
const SHOWN: usize = 12;

/// Columns with their names.
pub type Named = Vec<(String, Cells)>;

/// The columns in the form that a table writer takes.
pub fn named(columns: &Named) -> Vec<(&str, Cells)> {
    columns.iter().map(|(name, cells)| (&name[..], cells.clone())).collect()
}

/// The values of a treatment, as a column of a table.
fn cells(treatments: &Table, j: usize) -> Cells {
    let (column, values) = (&treatments.columns()[j], treatments.column(j));
    match column.kind {
        ColumnKind::Numeric => Cells::Numbers(values.to_vec()),
        ColumnKind::Categorical { .. } => Cells::Texts(values.iter().map(|v| column.format(*v)).collect()),
    }
}

/// The columns of the table.
pub fn columns(page: &EffectPage<'_>) -> Result<Named> {
    let effect = page.effect;
    let (low, high) = effect.interval(page.level)?.into_iter().map(|[low, high]| (low, high)).unzip();
    let mut columns = vec![
        ("mean".to_string(), Cells::Numbers(effect.mean.clone())),
        ("std".into(), Cells::Numbers(effect.sd())),
        ("low".into(), Cells::Numbers(low)),
        ("high".into(), Cells::Numbers(high)),
        ("support".into(), Cells::Integers(effect.supported().into_iter().map(i64::from).collect())),
    ];
    for (cause, variance) in &effect.causes {
        columns.push((format!("std:{cause}"), Cells::Numbers(variance.iter().map(|v| v.sqrt()).collect())));
    }
    let support = |read: fn(&riesz::causal::DataSupport) -> f64| {
        Cells::Numbers(effect.support.iter().map(read).collect())
    };
    columns.extend([
        ("resolved_by_first".to_string(), support(|row| row.variance_explained_by_first)),
        ("resolved_by_rest".into(), support(|row| row.resolved_by_rest)),
        ("effective_rows".into(), support(|row| row.effective_rows)),
        ("people".into(), support(|row| row.population_explained)),
        ("overlap".into(), support(|row| row.overlap)),
    ]);
    Ok(with_treatments(page.treatments, columns))
}

/// The columns of the association.
pub fn association_columns(association: &Pointwise) -> Named {
    vec![
        ("association".into(), Cells::Numbers(association.mean.clone())),
        ("association_std".into(), Cells::Numbers(association.sd())),
    ]
}

/// The columns of the treatments, followed by these columns; a treatment whose name clashes is renamed.
pub fn with_treatments(rows: &Table, columns: Named) -> Named {
    let treatments = rows.columns().iter().enumerate().map(|(j, column)| {
        let clash = columns.iter().any(|(name, _)| *name == column.name);
        let name = if clash { format!("treatment {}", column.name) } else { column.name.clone() };
        (name, cells(rows, j))
    });
    let treatments: Vec<_> = treatments.collect();
    treatments.into_iter().chain(columns).collect()
}

/// Columns in JSON. Whole numbers are flags (1: the data support the row) and become booleans.
pub fn lists(columns: Named) -> Value {
    let list = |(name, cells)| {
        let value = match cells {
            Cells::Integers(v) => json!(v.iter().map(|v: &i64| *v == 1).collect::<Vec<_>>()),
            Cells::Numbers(v) => json!(v),
            Cells::Texts(v) => json!(v),
        };
        (name, value)
    };
    Value::Object(columns.into_iter().map(list).collect())
}

/// The effect with its identification, settings and provenance in JSON.
pub fn record(page: &EffectPage<'_>) -> Result<Value> {
    let shares: serde_json::Map<String, Value> = page
        .effect
        .variance_shares()
        .into_iter()
        .map(|(cause, share)| (cause.to_string(), json!(share)))
        .collect();
    Ok(json!({
        "identification": check::record(page.identification),
        "answer": page.answer(),
        "population": page.population,
        "baseline": match page.estimand {
            Estimand::Contrast(base) => Some(query_rows::row_text(base)),
            _ => None,
        },
        "slope": match page.estimand {
            Estimand::Slope { treatment, step } => Some(json!({ "by": treatment, "step": step })),
            _ => None,
        },
        "level": page.level,
        "effect": lists(columns(page)?),
        "variance_shares": shares,
        "unmatched": page.unmatched,
        "warnings": page.doubts,
        "provenance": page.run,
    }))
}

/// The names of treatments.
pub fn treatment_names(treatments: &Table) -> Vec<String> {
    treatments.columns().iter().map(|column| printable(&column.name)).collect()
}

/// The treatments of a row, as text.
pub fn treatment_cells(treatments: &Table, row: usize) -> Vec<String> {
    let cell = |j: usize| {
        let (column, value) = (&treatments.columns()[j], treatments.get(row, j));
        match column.kind {
            ColumnKind::Numeric => riesz_report::number(value),
            ColumnKind::Categorical { .. } => printable(&column.format(value)),
        }
    };
    (0..treatments.width()).map(cell).collect()
}

/// The cells of `lines` as text, right-aligned in columns.
pub fn aligned(lines: &[Vec<String>]) -> String {
    let width = |j: usize| lines.iter().map(|line| line[j].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines.first().map_or(0, Vec::len)).map(width).collect();
    let line_text = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  "))
    };
    lines.iter().map(line_text).collect()
}

/// The answer, a short table, and the shares of the variance by source, as text. The table has a column with
/// the association, if there is one.
pub fn text(page: &EffectPage<'_>, association: Option<&Pointwise>) -> Result<String> {
    let short = |x: f64| riesz_report::number(x);
    let mut lines = vec![treatment_names(page.treatments)];
    let interval = format!("{} % interval", short(100.0 * page.level));
    lines[0].extend(["mean", "std", &interval, "support"].map(String::from));
    lines[0].extend(association.map(|_| "association".to_string()));
    let (n, sd, ends) = (page.treatments.rows(), page.effect.sd(), page.effect.interval(page.level)?);
    let supported = page.effect.supported();
    let count = n.min(SHOWN);
    for i in (0..count).map(|k| k * (n - 1) / (count - 1).max(1)) {
        let mut line = treatment_cells(page.treatments, i);
        let [low, high] = ends[i];
        line.extend([short(page.effect.mean[i]), short(sd[i]), format!("{} to {}", short(low), short(high))]);
        line.push(if supported[i] { "yes" } else { "no" }.into());
        line.extend(association.map(|association| short(association.mean[i])));
        lines.push(line);
    }
    let mut text = format!("\n{}\n\n{}", printable(&page.answer()), aligned(&lines));
    if n > count {
        text += &format!("… ({n} rows in all; -o effect.csv writes all of them)\n");
    }
    let shares = page.effect.variance_shares();
    let shares: Vec<String> =
        shares.iter().map(|(cause, share)| format!("{cause} {:.0} %", 100.0 * share)).collect();
    Ok(format!("{text}\nthe variance is due to: {}\n", shares.join(", ")))
}
