//! Studies from their tables: which columns an effect needs, the graph says, and these are read.

use riesz::causal::{Gathered, Graph, Identification, Measured, gather, identify};
use riesz::{Column, ColumnKind};

use super::Args;
use crate::failure::{Failure, Result};
use crate::io::names::listed_columns;
use crate::io::typing::Columns;

/// How the effect follows, and the studies with what that needs.
pub fn studies(args: &Args, graph: Option<&Graph>) -> Result<(Identification, Gathered)> {
    if args.studies.len() < 2 {
        return Err(Failure::input(
            "an effect across studies needs two tables or more: with both treatment and outcome in one, 'riesz fit' and 'riesz explain' say what goes with what",
        ));
    }
    let open = |file| args.table.source(file).open();
    let tables = args.studies.iter().map(|file| open(file)).collect::<Result<Vec<_>>>()?;
    let headers: Vec<Vec<String>> = tables.iter().map(|table| table.header().to_vec()).collect();
    let mut known: Vec<String> = graph.map_or(vec![], |graph| graph.variables().to_vec());
    known.extend(headers.iter().flatten().cloned());
    let categorical = listed_columns(&args.categorical, &known);
    if let Some(name) = categorical.iter().find(|name| !headers.iter().flatten().any(|own| own == *name)) {
        return Err(Failure::input(format!("--categorical: no study has a column '{name}'")));
    }
    let found = identify(graph, &args.effect.query(&known, headers)?)?;
    let needed = found.needed()?;
    let measured = tables.into_iter().zip(&needed).map(|(table, names)| {
        let columns = Columns::read(table, names)?;
        let each = names.iter().map(|name| measured(&columns, name, categorical.contains(name)));
        Ok(Measured { columns: each.collect::<Result<_>>()? })
    });
    let measured = measured.collect::<Result<Vec<_>>>()?;
    Ok((found.clone(), gather(&found, &measured)?))
}

fn measured(columns: &Columns, name: &str, categorical: bool) -> Result<(Column, Vec<f64>)> {
    if !categorical && !columns.is_text(name, "")? {
        return Ok((Column::numeric(name), columns.numbers_or_missing(name)?));
    }
    let (levels, codes) = columns.levels_or_missing(name)?;
    Ok((Column { name: name.into(), kind: ColumnKind::Categorical { levels } }, codes))
}
