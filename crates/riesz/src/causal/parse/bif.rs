//! The structure of a Bayesian network in BIF, as bnlearn and pgmpy write it: `probability ( Y | X, Z ) { …
//! }` gives the parents of a variable. Probabilities are not read.

use super::{Parsed, Result, line_at, parse_error};

pub(super) fn recognises(text: &str) -> bool {
    let text = uncommented(text);
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    ["network", "variable"].contains(&first)
        && words.take(6).any(|word| word.contains('{'))
        && !text.contains("->")
}

/// Replaces comments by blanks, which preserves lines and offsets.
fn uncommented(text: &str) -> String {
    let (mut out, mut remaining) = (String::new(), text);
    loop {
        let line = remaining
            .find("//")
            .map(|start| (start, remaining[start..].find('\n').unwrap_or(remaining.len() - start)));
        let block = remaining.find("/*").map(|start| {
            (start, remaining[start..].find("*/").map_or(remaining.len() - start, |end| end + 2))
        });
        let Some((start, length)) = [line, block].into_iter().flatten().min() else { return out + remaining };
        out += &remaining[..start];
        out.extend(remaining[start..start + length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        remaining = &remaining[start + length..];
    }
}

pub(super) fn read(text: &str) -> Result<Parsed> {
    let text = uncommented(text);
    let mut graph = Parsed::default();
    let mut offset = 0;
    while let Some(start) = text[offset..].find(|c: char| !c.is_whitespace()) {
        let start = offset + start;
        let line = line_at(&text, start);
        let (head, body) = match text[start..].find('{') {
            Some(brace) => (&text[start..start + brace], start + brace),
            None => return parse_error(line, "a block has no braces: write 'variable X { … }'"),
        };
        let (word, head_rest) = head
            .trim()
            .split_at(head.find(|c: char| c.is_whitespace() || c == '(').unwrap_or(head.trim().len()));
        match word {
            "network" => {}
            "variable" => {
                let name = unquoted(head_rest);
                if name.is_empty() {
                    return parse_error(line, "a variable has no name: write 'variable X { … }'");
                }
                if !graph.variable(&name) {
                    return parse_error(
                        line,
                        format!("'{name}' is declared twice: remove one of its blocks"),
                    );
                }
            }
            "probability" => parents(head_rest, line, &mut graph)?,
            other => {
                return parse_error(
                    line,
                    format!("'{other}' is not a block: blocks are network, variable and probability"),
                );
            }
        }
        let Some(length) = closing(&text[body..]) else {
            return parse_error(line, "the block's brace is not closed: add }");
        };
        offset = body + length;
    }
    Ok(graph)
}

fn unquoted(name: &str) -> String {
    name.trim().trim_matches('"').to_string()
}

/// Reads the parents from `( Y | X, Z )`.
fn parents(head: &str, line: usize, graph: &mut Parsed) -> Result<()> {
    let inner = head.trim().strip_prefix('(').and_then(|head| head.strip_suffix(')'));
    let Some(inner) = inner else {
        return parse_error(
            line,
            "a probability names its variables in brackets: write 'probability ( Y | X, Z ) { … }'",
        );
    };
    let (child, parent_list) = inner.split_once('|').unwrap_or((inner, ""));
    let child = unquoted(child);
    let parents: Vec<String> = parent_list.split(',').map(unquoted).filter(|name| !name.is_empty()).collect();
    for name in parents.iter().chain([&child]) {
        if !graph.variables.contains(name) {
            return parse_error(
                line,
                format!("'{name}' is not declared: add 'variable {name} {{ … }}' before it"),
            );
        }
    }
    parents.iter().for_each(|parent| graph.edge(parent, &child, false));
    Ok(())
}

/// Returns the number of bytes of a block in braces, including inner braces.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (i, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(i + 1),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}
