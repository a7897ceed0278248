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

use crate::error::{Error, Result};

pub(crate) use plain::quoted;

/// The content of a text in one of the formats.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// In the order in which they are first named.
    pub variables: Vec<String>,
    pub arrows: Vec<(String, String)>,
    pub confounded: Vec<(String, String)>,
    pub latent: Vec<String>,
    /// A note on how an ambiguous text was read.
    pub note: Option<String>,
}

/// A format of graphs.
struct Format {
    /// Whether a text is of this format, which its reader then says what is wrong with.
    recognises: fn(&str) -> bool,
    read: fn(&str) -> Result<Parsed>,
}

/// The formats, in the order in which they are tried; the last takes every text.
const FORMATS: [Format; 9] = [
    Format { recognises: node_link::recognises, read: node_link::read },
    Format { recognises: bnlearn::recognises, read: bnlearn::read },
    Format { recognises: gml::recognises, read: gml::read },
    Format { recognises: bif::recognises, read: bif::read },
    Format { recognises: tetrad::recognises, read: tetrad::read },
    Format { recognises: lavaan::recognises, read: lavaan::read },
    Format { recognises: adjacency::recognises, read: adjacency::read },
    Format { recognises: edge_list::recognises, read: edge_list::read },
    Format { recognises: |_| true, read: plain::read },
];

pub(crate) fn parse(text: &str) -> Result<Parsed> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with("<?xml") || text.trim_start().starts_with("<graphml") {
        return wrong("graph", 1, "XML is not read: save the graph as GML, BIF, JSON, DOT or DAGitty's text");
    }
    let formats = &FORMATS;
    let format =
        formats.iter().find(|format| (format.recognises)(text)).unwrap_or(&formats[formats.len() - 1]);
    (format.read)(text)
}

impl Parsed {
    /// Adds a variable unless it is there.
    fn variable(&mut self, name: &str) {
        if !self.variables.iter().any(|known| known == name) {
            self.variables.push(name.into());
        }
    }

    /// Adds an arrow, or with `both` a hidden common cause, between two variables.
    fn edge(&mut self, from: &str, to: &str, bidirected: bool) {
        self.variable(from);
        self.variable(to);
        let edges = if bidirected { &mut self.confounded } else { &mut self.arrows };
        edges.push((from.into(), to.into()));
    }
}

fn wrong<T>(format: &'static str, line: usize, problem: impl Into<String>) -> Result<T> {
    Err(Error::Parse { format, line, problem: problem.into() })
}

/// The line, from 1, on which a byte of a text is.
fn line_at(text: &str, offset: usize) -> usize {
    1 + text[..offset].matches('\n').count()
}

/// The names and values that the attributes of a node or edge have in GML and in JSON.
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

    /// Whether an edge stands for a hidden common cause.
    fn bidirected(&self) -> bool {
        self.is("dir", &["both"])
            || self.is("bidirected", &["1", "true", "yes"])
            || ["type", "edge_type", "arrow"]
                .into_iter()
                .any(|name| self.is(name, &["bidirected", "<->", "both"]))
    }
}
