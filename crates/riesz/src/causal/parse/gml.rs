//! GML as networkx, igraph and DoWhy write it: `graph [ directed 1 node [ id 0 label "X" ] edge [ source 0
//! target 1 ] ]`.

use super::{Attributes, Parsed, Result, parse_error};

/// Recognises a text whose first word is `graph` before a square bracket, also after the header words of GML.
pub(super) fn recognises(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let compact: String = lines.flat_map(str::split_whitespace).collect::<String>().to_lowercase();
    let has_header = ["creator", "version"].iter().any(|word| compact.starts_with(word));
    compact.starts_with("graph[") || (has_header && compact.contains("graph["))
}

/// A value of GML.
enum Value {
    Text(String),
    List(Vec<Entry>),
}

struct Entry {
    key: String,
    value: Value,
    line: usize,
}

impl Entry {
    fn list(&self) -> Result<&[Self]> {
        match &self.value {
            Value::List(entries) => Ok(entries),
            Value::Text(_) => {
                parse_error(self.line, format!("'{}' needs a list in square brackets", self.key))
            }
        }
    }
}

fn attributes(entries: &[Entry]) -> Attributes {
    let texts = entries.iter().filter_map(|entry| match &entry.value {
        Value::Text(text) => Some((entry.key.clone(), text.clone())),
        Value::List(_) => None,
    });
    Attributes(texts.collect())
}

pub(super) fn read(text: &str) -> Result<Parsed> {
    let mut tokens = tokens(text)?;
    tokens.reverse();
    let entries = entries(&mut tokens, None)?;
    let Some(graph) = entries.iter().find(|entry| entry.key.eq_ignore_ascii_case("graph")) else {
        return parse_error(1, "there is no 'graph [ … ]'");
    };
    let parts = graph.list()?;
    if !attributes(parts).is("directed", &["1"]) {
        return parse_error(
            graph.line,
            "the edges have no direction: write 'directed 1' in the graph, in networkx by giving a DiGraph",
        );
    }
    let mut parsed = Parsed::default();
    let mut ids: Vec<(String, String)> = Vec::new();
    for node in parts.iter().filter(|entry| entry.key.eq_ignore_ascii_case("node")) {
        let node_attributes = attributes(node.list()?);
        let Some(id) = node_attributes.get("id").or_else(|| node_attributes.get("label")) else {
            return parse_error(node.line, "a node has no id: write 'id' and a number");
        };
        let name = node_attributes.get("label").or_else(|| node_attributes.get("name")).unwrap_or(id);
        if ids.iter().any(|(other, _)| other == id) || !parsed.variable(name) {
            return parse_error(
                node.line,
                format!("two nodes are called '{name}': give each its own id and label"),
            );
        }
        if node_attributes.latent() {
            parsed.latent.push(name.into());
        }
        ids.push((id.into(), name.into()));
    }
    for edge in parts.iter().filter(|entry| entry.key.eq_ignore_ascii_case("edge")) {
        let edge_attributes = attributes(edge.list()?);
        let end = |key: &str| {
            let Some(id) = edge_attributes.get(key) else {
                return parse_error(
                    edge.line,
                    format!("an edge has no {key}: write '{key}' and the id of a node"),
                );
            };
            let node =
                ids.iter().find(|(other, _)| other == id).or_else(|| ids.iter().find(|(_, name)| name == id));
            match node {
                Some((_, name)) => Ok(name.clone()),
                None => {
                    parse_error(edge.line, format!("an edge's {key} is {id}, which no node has as its id"))
                }
            }
        };
        parsed.edge(&end("source")?, &end("target")?, edge_attributes.bidirected());
    }
    Ok(parsed)
}

enum Token {
    Open,
    Close,
    Word(String),
    Quoted(String),
}

fn tokens(text: &str) -> Result<Vec<(Token, usize)>> {
    let (mut tokens, mut remaining, mut line) = (Vec::new(), text, 1);
    while let Some(first) = remaining.chars().next() {
        let length = match first {
            '[' | ']' => {
                tokens.push((if first == '[' { Token::Open } else { Token::Close }, line));
                1
            }
            '#' => remaining.find('\n').unwrap_or(remaining.len()),
            '"' => {
                let Some(end) = remaining[1..].find('"') else {
                    return parse_error(line, "a quote has no end: close it with \"");
                };
                tokens.push((Token::Quoted(unescaped(&remaining[1..=end])), line));
                end + 2
            }
            c if c.is_whitespace() => c.len_utf8(),
            _ => {
                let ends_word = |c: char| c.is_whitespace() || "[]\"".contains(c);
                let length = remaining.find(ends_word).unwrap_or(remaining.len());
                tokens.push((Token::Word(remaining[..length].into()), line));
                length
            }
        };
        line += remaining[..length].matches('\n').count();
        remaining = &remaining[length..];
    }
    Ok(tokens)
}

/// Replaces entities by their characters.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('&');
    let mut out = String::from(parts.next().unwrap_or_default());
    for part in parts {
        let entity = part.split_once(';').and_then(|(entity, rest)| Some((character(entity)?, rest)));
        let (c, rest) = entity.unwrap_or(('&', part));
        out.push(c);
        out += rest;
    }
    out
}

fn character(entity: &str) -> Option<char> {
    match entity {
        "quot" => Some('"'),
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "apos" => Some('\''),
        _ => {
            let number = entity.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

/// Reads keys and values up to the closing bracket of the list that was opened on line `opened`, or to the
/// end of the text. The tokens are in reverse order.
fn entries(tokens: &mut Vec<(Token, usize)>, opened: Option<usize>) -> Result<Vec<Entry>> {
    let mut list = Vec::new();
    loop {
        let (key, line) = match (tokens.pop(), opened) {
            (Some((Token::Word(key), line)), _) => (key, line),
            (Some((Token::Close, _)), Some(_)) | (None, None) => return Ok(list),
            (None, Some(line)) => return parse_error(line, "a square bracket is not closed: add ]"),
            (Some((_, line)), _) => {
                return parse_error(line, "a key is missing: each value needs a key before it");
            }
        };
        let value = match tokens.pop() {
            Some((Token::Word(text) | Token::Quoted(text), _)) => Value::Text(text),
            Some((Token::Open, line)) => Value::List(entries(tokens, Some(line))?),
            _ => return parse_error(line, format!("'{key}' has no value")),
        };
        list.push(Entry { key, value, line });
    }
}
