//! An effect as a table, in JSON and in words.

use riesz::causal::Estimand;
use riesz::{ColumnKind, Table};
use riesz_report::EffectPage;
use serde_json::{Value, json};

use super::asked;
use crate::commands::graph::check;
use crate::console::printable;
use crate::failure::Result;
use crate::io::write::Cells;

/// Rows that words have; the table has all.
const SHOWN: usize = 12;

/// Columns by their names.
pub type Named = Vec<(String, Cells)>;

/// The same, as tables are written.
pub fn named(columns: &Named) -> Vec<(&str, Cells)> {
    columns.iter().map(|(name, cells)| (&name[..], cells.clone())).collect()
}

/// Treatments of a column.
fn cells(at: &Table, j: usize) -> Cells {
    let (column, values) = (&at.columns()[j], at.column(j));
    match column.kind {
        ColumnKind::Numeric => Cells::Numbers(values.to_vec()),
        ColumnKind::Categorical { .. } => Cells::Texts(values.iter().map(|v| column.format(*v)).collect()),
    }
}

/// The columns of the table.
pub fn columns(page: &EffectPage<'_>) -> Result<Named> {
    let effect = page.effect;
    let (low, high) = effect.interval(page.level)?.into_iter().map(|[low, high]| (low, high)).unzip();
    let mut told = vec![
        ("mean".to_string(), Cells::Numbers(effect.mean.clone())),
        ("sd".into(), Cells::Numbers(effect.sd())),
        ("low".into(), Cells::Numbers(low)),
        ("high".into(), Cells::Numbers(high)),
        ("support".into(), Cells::Integers(effect.supported().into_iter().map(i64::from).collect())),
    ];
    for (cause, variance) in &effect.causes {
        told.push((format!("sd_{cause}"), Cells::Numbers(variance.iter().map(|v| v.sqrt()).collect())));
    }
    let standing =
        |of: fn(&riesz::causal::DataSupport) -> f64| Cells::Numbers(effect.standing.iter().map(of).collect());
    told.extend([
        ("resolved_by_first".to_string(), standing(|own| own.variance_explained_by_first)),
        ("resolved_by_rest".into(), standing(|own| own.resolved_by_rest)),
        ("effective_rows".into(), standing(|own| own.effective_rows)),
        ("people".into(), standing(|own| own.population_explained)),
        ("overlap".into(), standing(|own| own.overlap)),
    ]);
    Ok(beside(page.at, told))
}

/// Treatments, with what is told of them beside.
pub fn beside(at: &Table, told: Named) -> Named {
    let treatments = at.columns().iter().enumerate().map(|(j, column)| {
        let clash = told.iter().any(|(name, _)| *name == column.name);
        let name = if clash { format!("treatment {}", column.name) } else { column.name.clone() };
        (name, cells(at, j))
    });
    let treatments: Vec<_> = treatments.collect();
    treatments.into_iter().chain(told).collect()
}

/// Columns in JSON; whole numbers say whether the studies tell a row.
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

/// All in JSON.
pub fn record(page: &EffectPage<'_>) -> Result<Value> {
    let shares: serde_json::Map<String, Value> = page
        .effect
        .variance_shares()
        .into_iter()
        .map(|(cause, share)| (cause.to_string(), json!(share)))
        .collect();
    Ok(json!({
        "identification": check::record(page.found),
        "says": page.answer(),
        "of": page.whom,
        "baseline": match page.estimand {
            Estimand::Contrast(base) => Some(asked::told(base)),
            _ => None,
        },
        "slope": match page.estimand {
            Estimand::Slope { by, step } => Some(json!({ "by": by, "step": step })),
            _ => None,
        },
        "level": page.level,
        "effect": lists(columns(page)?),
        "shares_of_variance": shares,
        "unmatched": page.unmatched,
        "warnings": page.doubts,
        "provenance": page.run,
    }))
}

/// The names of treatments.
pub fn heads(at: &Table) -> Vec<String> {
    at.columns().iter().map(|column| printable(&column.name)).collect()
}

/// The treatments of a row.
pub fn treated(at: &Table, row: usize) -> Vec<String> {
    let cell = |j: usize| {
        let (column, value) = (&at.columns()[j], at.get(row, j));
        match column.kind {
            ColumnKind::Numeric => riesz_report::number(value),
            ColumnKind::Categorical { .. } => printable(&column.format(value)),
        }
    };
    (0..at.width()).map(cell).collect()
}

/// Lines of cells, with columns as wide as their widest cells.
pub fn aligned(lines: &[Vec<String>]) -> String {
    let width = |j: usize| lines.iter().map(|line| line[j].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines.first().map_or(0, Vec::len)).map(width).collect();
    let told = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  "))
    };
    lines.iter().map(told).collect()
}

/// The answer, a short table, and which study leaves it unsure.
pub fn words(page: &EffectPage<'_>) -> Result<String> {
    let short = |x: f64| riesz_report::number(x);
    let mut lines = vec![heads(page.at)];
    let interval = format!("{} % interval", short(100.0 * page.level));
    lines[0].extend(["mean", "sd", &interval, "support"].map(String::from));
    let (n, sd, ends) = (page.at.rows(), page.effect.sd(), page.effect.interval(page.level)?);
    let supported = page.effect.supported();
    let count = n.min(SHOWN);
    for i in (0..count).map(|k| k * (n - 1) / (count - 1).max(1)) {
        let mut line = treated(page.at, i);
        let [low, high] = ends[i];
        line.extend([short(page.effect.mean[i]), short(sd[i]), format!("{} to {}", short(low), short(high))]);
        line.push(if supported[i] { "yes" } else { "no" }.into());
        lines.push(line);
    }
    let mut text = format!("\n{}\n\n{}", printable(&page.answer()), aligned(&lines));
    if n > count {
        text += &format!("… ({n} rows in all; -o effect.csv writes them)\n");
    }
    let shares = page.effect.variance_shares();
    let shares: Vec<String> =
        shares.iter().map(|(cause, share)| format!("{cause} {:.0} %", 100.0 * share)).collect();
    Ok(format!("{text}\nthe variance is due to: {}\n", shares.join(", ")))
}
