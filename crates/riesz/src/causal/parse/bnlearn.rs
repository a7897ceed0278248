//! bnlearn's model string: `[Z][X|Z][Y|X:Z]` has a bracket per node, with its parents after a bar.

use super::{Parsed, Result, line_at, parse_error};

pub(super) fn recognises(text: &str) -> bool {
    text.trim_start().starts_with('[')
}

pub(super) fn read(text: &str) -> Result<Parsed> {
    let mut graph = Parsed::default();
    let mut parents: Vec<(usize, String, String)> = Vec::new();
    let mut offset = 0;
    while let Some(start) = text[offset..].find(|c: char| !c.is_whitespace()) {
        let (start, line) = (offset + start, line_at(text, offset + start));
        let Some(inner) = text[start..].strip_prefix('[') else {
            return parse_error(line, "each node needs square brackets, as in [Z][X|Z][Y|X:Z]");
        };
        let Some(length) = inner.find([']', '[']).filter(|&end| inner[end..].starts_with(']')) else {
            return parse_error(line, "a square bracket is not closed: add ]");
        };
        offset = start + length + 2;
        let (name, parent_list) =
            inner[..length].split_once('|').map_or((&inner[..length], None), |(a, b)| (a, Some(b)));
        let name = name.trim();
        if name.is_empty()
            || parent_list.is_some_and(|list| list.split(':').any(|parent| parent.trim().is_empty()))
        {
            return parse_error(
                line,
                format!("a name is empty in [{}]: write nodes as [X|Z1:Z2]", &inner[..length]),
            );
        }
        if !graph.variable(name) {
            return parse_error(
                line,
                format!("'{name}' has two brackets: give all its parents in one, as in [X|Z1:Z2]"),
            );
        }
        let names = parent_list.into_iter().flat_map(|list| list.split(':'));
        parents.extend(names.map(|parent| (line, parent.trim().to_string(), name.to_string())));
    }
    for (line, parent, child) in parents {
        if !graph.variables.contains(&parent) {
            return parse_error(
                line,
                format!("'{parent}', a parent of '{child}', has no bracket of its own: add [{parent}]"),
            );
        }
        graph.edge(&parent, &child, false);
    }
    Ok(graph)
}
