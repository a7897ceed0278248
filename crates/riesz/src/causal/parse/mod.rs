//! Texts of causal graphs in the formats of other packages, recognised by their content.

mod adjacency;
mod bif;
mod bnlearn;
mod edge_list;
mod gml;
mod lavaan;
mod node_link;
mod plain;
mod tetrad;

use crate::error::{self, Error};

pub(crate) use plain::quoted;

/// The content of a text in one of the formats.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// Variables in the order in which they first occur.
    pub variables: Vec<String>,
    pub arrows: Vec<(String, String)>,
    pub confounded: Vec<(String, String)>,
    pub latent: Vec<String>,
    /// A note on how an ambiguous text was read.
    pub note: Option<String>,
}

/// A value, or the line, from 1, and the description of a problem of a text.
type Result<T> = std::result::Result<T, (usize, String)>;

/// A format of graphs.
struct Format {
    /// The name in error messages.
    name: &'static str,
    /// Whether a text is in this format, so that its reader reports the errors.
    recognises: fn(&str) -> bool,
    read: fn(&str) -> Result<Parsed>,
}

/// The formats, in the order in which they are tried; the last accepts every text.
const FORMATS: [Format; 10] = [
    Format { name: "graph", recognises: is_xml, read: |_| parse_error(1, XML_PROBLEM) },
    Format { name: "JSON graph", recognises: node_link::recognises, read: node_link::read },
    Format { name: "bnlearn model string", recognises: bnlearn::recognises, read: bnlearn::read },
    Format { name: "GML graph", recognises: gml::recognises, read: gml::read },
    Format { name: "BIF network", recognises: bif::recognises, read: bif::read },
    Format { name: "Tetrad graph", recognises: tetrad::recognises, read: tetrad::read },
    Format { name: "lavaan model", recognises: lavaan::recognises, read: lavaan::read },
    Format { name: "adjacency matrix", recognises: adjacency::recognises, read: adjacency::read },
    Format { name: "edge list", recognises: edge_list::recognises, read: edge_list::read },
    Format { name: "graph", recognises: |_| true, read: plain::read },
];

/// The problem of a text in XML.
const XML_PROBLEM: &str = "XML is not read: save the graph as GML, BIF, JSON, DOT or DAGitty's text";

fn is_xml(text: &str) -> bool {
    ["<?xml", "<graphml"].iter().any(|start| text.trim_start().starts_with(start))
}

pub(crate) fn parse(text: &str) -> error::Result<Parsed> {
    let text = text.trim_start_matches('\u{feff}');
    let default_format = &FORMATS[FORMATS.len() - 1];
    let format = FORMATS.iter().find(|format| (format.recognises)(text)).unwrap_or(default_format);
    (format.read)(text).map_err(|(line, problem)| Error::Parse { format: format.name, line, problem })
}

impl Parsed {
    /// Adds a variable if it is new, and returns whether it is.
    fn variable(&mut self, name: &str) -> bool {
        let is_new = !self.variables.iter().any(|variable| variable == name);
        if is_new {
            self.variables.push(name.into());
        }
        is_new
    }

    /// Adds an arrow, or if `bidirected` a hidden common cause, between two variables.
    fn edge(&mut self, from: &str, to: &str, bidirected: bool) {
        self.variable(from);
        self.variable(to);
        let edges = if bidirected { &mut self.confounded } else { &mut self.arrows };
        edges.push((from.into(), to.into()));
    }
}

fn parse_error<T>(line: usize, problem: impl Into<String>) -> Result<T> {
    Err((line, problem.into()))
}

/// Returns the lines of a text that are not blank, with their numbers from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(i, line)| (i + 1, line)).filter(|(_, line)| !line.trim().is_empty())
}

/// Returns the line, from 1, of a byte of a text.
fn line_at(text: &str, offset: usize) -> usize {
    1 + text[..offset].matches('\n').count()
}

/// Names and values of a node's or edge's attributes in GML and in JSON.
struct Attributes(Vec<(String, String)>);

impl Attributes {
    fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(attribute, _)| attribute.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn is(&self, name: &str, values: &[&str]) -> bool {
        self.get(name).is_some_and(|text| values.iter().any(|value| text.eq_ignore_ascii_case(value)))
    }

    /// Whether a node is declared unmeasured.
    fn latent(&self) -> bool {
        const YES: [&str; 3] = ["1", "true", "yes"];
        self.is("observed", &["0", "false", "no"])
            || ["latent", "hidden", "unobserved"].into_iter().any(|name| self.is(name, &YES))
    }

    /// Whether an edge represents a hidden common cause.
    fn bidirected(&self) -> bool {
        self.is("dir", &["both"])
            || self.is("bidirected", &["1", "true", "yes"])
            || ["type", "edge_type", "arrow"]
                .into_iter()
                .any(|name| self.is(name, &["bidirected", "<->", "both"]))
    }
}
