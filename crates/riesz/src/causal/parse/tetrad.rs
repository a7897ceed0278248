//! Tetrad's text of a graph, which causal-learn also writes: nodes after `Graph Nodes:`, then one edge per
//! line after `Graph Edges:`, as in `1. X --> Y`.

use super::{Parsed, Result, parse_error};

pub(super) fn recognises(text: &str) -> bool {
    text.lines().any(|line| ["Graph Nodes:", "Graph Edges:"].contains(&line.trim()))
}

/// The list to which a line belongs.
#[derive(PartialEq)]
enum Part {
    Nodes,
    Edges,
    Other,
}

pub(super) fn read(text: &str) -> Result<Parsed> {
    let mut graph = Parsed::default();
    let mut part = Part::Other;
    for (i, line) in text.lines().enumerate() {
        let (number, line) = (i + 1, line.trim());
        match line {
            "" => {}
            "Graph Nodes:" => part = Part::Nodes,
            "Graph Edges:" => part = Part::Edges,
            _ if line.ends_with(':') => part = Part::Other,
            _ if part == Part::Nodes => {
                for name in line.split([';', ',']).map(str::trim).filter(|name| !name.is_empty()) {
                    let (name, latent) = unparenthesised(name);
                    graph.variable(name);
                    if latent {
                        graph.latent.push(name.into());
                    }
                }
            }
            _ if part == Part::Edges => edge(line, number, &mut graph)?,
            _ => {}
        }
    }
    Ok(graph)
}

/// Removes the parentheses that mark latent variables from a name, and returns whether it has them.
fn unparenthesised(name: &str) -> (&str, bool) {
    match name.strip_prefix('(').and_then(|name| name.strip_suffix(')')) {
        Some(inner) => (inner, true),
        None => (name, false),
    }
}

/// Reads `1. X --> Y`, with or without the number and properties of the edge.
fn edge(line: &str, number: usize, graph: &mut Parsed) -> Result<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let numbered = words
        .first()
        .and_then(|word| word.strip_suffix('.'))
        .is_some_and(|word| word.parse::<usize>().is_ok());
    let [from, arrow, to, ..] = words[usize::from(numbered)..] else {
        return parse_error(number, "an edge is two nodes and an arrow, as in '1. X --> Y'");
    };
    let ((from, _), (to, _)) = (unparenthesised(from), unparenthesised(to));
    for name in [from, to] {
        if !graph.variables.is_empty() && !graph.variables.iter().any(|node| node == name) {
            return parse_error(
                number,
                format!("'{name}' is not among the nodes: add it after 'Graph Nodes:'"),
            );
        }
    }
    match arrow {
        "-->" | "->" => graph.edge(from, to, false),
        "<--" | "<-" => graph.edge(to, from, false),
        "<->" | "<-->" => graph.edge(from, to, true),
        "---" | "o-o" | "o->" | "<-o" | "o--" | "--o" => {
            return parse_error(
                number,
                format!(
                    "the direction of '{from} {arrow} {to}' is not determined, but an effect needs it: \
                     write '-->', '<--', or '<->' for a hidden common cause"
                ),
            );
        }
        other => return parse_error(number, format!("'{other}' is no arrow: write '-->', '<--' or '<->'")),
    }
    Ok(())
}
