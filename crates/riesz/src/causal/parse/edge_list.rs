//! Tables of edges: the first line has the names of two columns, `from,to`, and each further line an edge.

use super::{Parsed, Result, lines, parse_error};

/// Names of the two columns, for a cause and an effect.
const TITLES: [(&str, &str); 6] = [
    ("from", "to"),
    ("source", "target"),
    ("parent", "child"),
    ("cause", "effect"),
    ("tail", "head"),
    ("u", "v"),
];

/// Returns the two cells of a line; `None` for another number of cells, or for characters of other formats.
fn cells(line: &str) -> Option<(&str, &str)> {
    let (a, b) = line.trim().split_once([',', ';', '\t'])?;
    let clean =
        |cell: &str| !cell.is_empty() && !cell.contains([',', ';', '\t', '<', '>', '=', '{', '}', '[', '~']);
    let (a, b) = (a.trim().trim_matches('"'), b.trim().trim_matches('"'));
    (clean(a) && clean(b) && !a.contains("->") && !b.contains("->")).then_some((a, b))
}

fn has_titles(text: &str) -> bool {
    lines(text).next().and_then(|(_, line)| cells(line)).is_some_and(|(a, b)| {
        TITLES.iter().any(|(from, to)| a.eq_ignore_ascii_case(from) && b.eq_ignore_ascii_case(to))
    })
}

pub(super) fn recognises(text: &str) -> bool {
    has_titles(text) || lines(text).count() > 1 && lines(text).all(|(_, line)| cells(line).is_some())
}

pub(super) fn read(text: &str) -> Result<Parsed> {
    if !has_titles(text) {
        return parse_error(
            1,
            "each line has two names and no arrow: write 'from,to' above them if these are edges, or \
             arrows, a -> b",
        );
    }
    let mut graph = Parsed::default();
    for (number, line) in lines(text).skip(1) {
        let Some((from, to)) = cells(line) else {
            return parse_error(number, "two names are needed, of a cause and an effect");
        };
        graph.edge(from, to, false);
    }
    Ok(graph)
}
