//! Causal graphs: arrows between variables, and hidden common causes.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::parse;
use crate::error::{Error, IdentificationError, Result};

/// Variables by their numbers.
pub(crate) type Nodes = BTreeSet<usize>;

/// A directed graph without cycles, where an arrow says that a variable is a direct cause of another, and
/// `A <-> B` that the two have a common cause that nobody measured. What it leaves out it denies: no arrow is
/// no direct effect. It serialises as its text.
///
/// ```
/// use riesz::causal::Graph;
///
/// let graph = Graph::parse("age -> statin; statin -> psa -> volume; age -> psa")?;
/// assert_eq!(graph.ancestors(&["psa"])?, ["age", "statin"]);
/// assert!(graph.d_separated(&["statin"], &["volume"], &["psa"])?);
/// let path = graph.open_path(&["statin"], &["volume"], &[])?;
/// assert_eq!(path.as_deref(), Some("statin -> psa -> volume"));
/// # Ok::<(), riesz::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Graph {
    /// Names of the variables, followed by those of the hidden common causes.
    names: Vec<String>,
    variables: usize,
    latent: Nodes,
    parents: Vec<Vec<usize>>,
    children: Vec<Vec<usize>>,
    note: Note,
}

/// A note on how a text was read. It is no part of the graph: graphs are compared without it.
#[derive(Debug, Clone, Default)]
struct Note(Option<String>);

impl PartialEq for Note {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Note {}

impl Graph {
    /// Reads a graph from its text, whose format is recognised by its content.
    ///
    /// The plain form has chains of arrows `A -> B <- C`, `A <-> B` where a common cause is hidden, ended by
    /// `;` or a line's end; names with spaces or signs in double quotes; `#` before comments; `A, B -> C` for
    /// two arrows. DOT (`digraph { … }`, `dir=both` for `<->`) and DAGitty's text (`dag { … }`, `[latent]`
    /// for what is not measured) are read too; and GML, node-link JSON of networkx, adjacency matrices as CSV
    /// (rows are causes; LiNGAM's and causal-learn's as [`Graph::note`] says), bnlearn's model string, the
    /// structure of BIF, lavaan's model text, and Tetrad's text.
    ///
    /// # Errors
    /// [`Error::Parse`] with the format and the line; [`IdentificationError::SelfLoop`],
    /// [`IdentificationError::CyclicGraph`].
    pub fn parse(text: &str) -> Result<Self> {
        let parsed = parse::parse(text)?;
        let mut graph = Self::new(&parsed.variables, &parsed.arrows, &parsed.confounded)?;
        graph.latent = graph.node_indices(&parsed.latent)?;
        graph.note = Note(parsed.note);
        Ok(graph)
    }

    /// A sentence on how an ambiguous text was read: of an adjacency matrix of 0 and 1 rows are taken for
    /// causes unless its first cell is `from` (rows are causes) or `to` (rows are effects). A matrix of other
    /// numbers needs one of the two, or the marks -1 and 1 of causal-learn at the ends of each edge.
    pub fn note(&self) -> Option<&str> {
        self.note.0.as_deref()
    }

    /// A graph of these variables, and those that only arrows name; `confounded` are pairs with a hidden
    /// common cause.
    ///
    /// # Errors
    /// [`IdentificationError::SelfLoop`], [`IdentificationError::CyclicGraph`]; [`Error::TooFew`] without
    /// variables.
    pub fn new<V: AsRef<str>, A: AsRef<str>>(
        variables: &[V],
        arrows: &[(A, A)],
        confounded: &[(A, A)],
    ) -> Result<Self> {
        let ends = arrows.iter().chain(confounded).flat_map(|(a, b)| [a.as_ref(), b.as_ref()]);
        let mut places = std::collections::HashMap::new();
        let mut names: Vec<String> = Vec::new();
        for name in variables.iter().map(AsRef::as_ref).chain(ends) {
            places.entry(name).or_insert_with(|| {
                names.push(name.into());
                names.len() - 1
            });
        }
        if names.is_empty() {
            return Err(Error::TooFew { subject: "the graph".into(), needed: 1, unit: "variable is" });
        }
        let pair = |(a, b): &(A, A)| (places[a.as_ref()], places[b.as_ref()]);
        let directed: BTreeSet<(usize, usize)> = arrows.iter().map(pair).collect();
        let hidden: BTreeSet<(usize, usize)> =
            confounded.iter().map(pair).map(|(a, b)| (a.min(b), a.max(b))).collect();
        if let Some((a, _)) = directed.iter().chain(&hidden).find(|(a, b)| a == b) {
            return Err(Error::causal(IdentificationError::SelfLoop { name: names[*a].clone() }));
        }
        let variables = names.len();
        let mut graph = Self {
            latent: Nodes::new(),
            parents: vec![Vec::new(); variables],
            children: vec![Vec::new(); variables],
            note: Note::default(),
            variables,
            names,
        };
        directed.iter().for_each(|&(a, b)| graph.connect(a, b));
        for &(a, b) in &hidden {
            let cause = graph.add(format!("{} <-> {}", graph.names[a], graph.names[b]));
            graph.connect(cause, a);
            graph.connect(cause, b);
        }
        match graph.cycle() {
            Some(cycle) => {
                Err(Error::causal(IdentificationError::CyclicGraph { cycle: graph.named(&cycle) }))
            }
            None => Ok(graph),
        }
    }

    /// The variables, in the order in which they were first named.
    pub fn variables(&self) -> &[String] {
        &self.names[..self.variables]
    }

    /// Variables that the graph declares unmeasured, whatever tables hold.
    pub fn latent(&self) -> Vec<&str> {
        self.latent.iter().map(|&v| self.names[v].as_str()).collect()
    }

    /// Causes and their direct effects, by the order of causes.
    pub fn arrows(&self) -> Vec<(&str, &str)> {
        let arrows_from = |v: usize| {
            self.children[v].iter().map(move |&child| (&self.names[v][..], &self.names[child][..]))
        };
        (0..self.variables).flat_map(arrows_from).collect()
    }

    /// Pairs of variables with a common cause that nobody measured.
    pub fn confounded(&self) -> Vec<(&str, &str)> {
        let pair = |cause: usize| match self.children[cause][..] {
            [a, b] => Some((&self.names[a][..], &self.names[b][..])),
            _ => None,
        };
        (self.variables..self.nodes()).filter_map(pair).collect()
    }

    /// The direct causes of any of these variables.
    ///
    /// # Errors
    /// [`IdentificationError::UnknownVariable`].
    pub fn parents<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<&str>> {
        let nodes = self.node_indices(names)?;
        Ok(self.shown(nodes.iter().flat_map(|&v| &self.parents[v]).copied().collect()))
    }

    /// All causes of any of these variables, direct or not, without the variables themselves.
    ///
    /// # Errors
    /// [`IdentificationError::UnknownVariable`].
    pub fn ancestors<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<&str>> {
        let nodes = self.node_indices(names)?;
        Ok(self.shown(&self.causes(&nodes) - &nodes))
    }

    /// All effects of any of these variables, direct or not, without the variables themselves.
    ///
    /// # Errors
    /// [`IdentificationError::UnknownVariable`].
    pub fn descendants<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<&str>> {
        let nodes = self.node_indices(names)?;
        Ok(self.shown(&self.effects(&nodes) - &nodes))
    }

    /// The graph without arrows into some variables, as where these are set from outside.
    ///
    /// # Errors
    /// [`IdentificationError::UnknownVariable`].
    pub fn without_edges_into<S: AsRef<str>>(&self, variables: &[S]) -> Result<Self> {
        Ok(self.without_edges(&self.node_indices(variables)?, &Nodes::new()))
    }

    /// The graph without arrows out of some variables, which leaves their effects out.
    ///
    /// # Errors
    /// [`IdentificationError::UnknownVariable`].
    pub fn without_edges_out_of<S: AsRef<str>>(&self, variables: &[S]) -> Result<Self> {
        Ok(self.without_edges(&Nodes::new(), &self.node_indices(variables)?))
    }

    /// The numbers of variables.
    pub(crate) fn node_indices<S: AsRef<str>>(&self, names: &[S]) -> Result<Nodes> {
        names.iter().map(|name| self.place(name.as_ref())).collect()
    }

    pub(crate) fn place(&self, name: &str) -> Result<usize> {
        self.find_node(name).ok_or_else(|| {
            let variables = self.variables().to_vec();
            Error::causal(IdentificationError::UnknownVariable {
                name: name.into(),
                near: similar_names(name, &variables),
                variables,
            })
        })
    }

    pub(crate) fn find_node(&self, name: &str) -> Option<usize> {
        self.variables().iter().position(|variable| variable == name)
    }

    /// The number of nodes, including hidden ones.
    pub(crate) fn nodes(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn is_hidden(&self, node: usize) -> bool {
        node >= self.variables
    }

    pub(crate) fn is_latent(&self, node: usize) -> bool {
        self.latent.contains(&node)
    }

    pub(crate) fn parents_of(&self, node: usize) -> &[usize] {
        &self.parents[node]
    }

    pub(crate) fn children_of(&self, node: usize) -> &[usize] {
        &self.children[node]
    }

    pub(crate) fn name(&self, node: usize) -> &str {
        &self.names[node]
    }

    /// Names of nodes, for answers.
    pub(crate) fn named<'n>(&self, nodes: impl IntoIterator<Item = &'n usize>) -> Vec<String> {
        nodes.into_iter().map(|&v| self.names[v].clone()).collect()
    }

    /// The nodes and all their causes, including hidden ones.
    pub(crate) fn causes(&self, nodes: &Nodes) -> Nodes {
        closure(&self.parents, nodes)
    }

    /// The nodes and all their effects.
    pub(crate) fn effects(&self, nodes: &Nodes) -> Nodes {
        closure(&self.children, nodes)
    }

    /// Without arrows into some nodes and out of others.
    pub(crate) fn without_edges(&self, into: &Nodes, out_of: &Nodes) -> Self {
        let mut graph = self.clone();
        for v in 0..self.nodes() {
            let lost = |a: usize, b: usize| into.contains(&b) || out_of.contains(&a);
            graph.parents[v].retain(|&a| !lost(a, v));
            graph.children[v].retain(|&b| !lost(v, b));
        }
        graph
    }

    /// The graph with one more cause of one variable, and its index.
    pub(crate) fn with_latent_cause(&self, name: &str, child: usize) -> (Self, usize) {
        let mut graph = self.clone();
        let cause = graph.add(name.into());
        graph.connect(cause, child);
        (graph, cause)
    }

    fn add(&mut self, name: String) -> usize {
        self.names.push(name);
        self.parents.push(Vec::new());
        self.children.push(Vec::new());
        self.names.len() - 1
    }

    fn connect(&mut self, from: usize, to: usize) {
        self.children[from].push(to);
        self.parents[to].push(from);
    }

    fn shown(&self, nodes: Nodes) -> Vec<&str> {
        nodes.into_iter().filter(|&v| !self.is_hidden(v)).map(|v| self.names[v].as_str()).collect()
    }

    /// A cycle, its first node again as its last.
    fn cycle(&self) -> Option<Vec<usize>> {
        let mut waits: Vec<usize> = self.parents.iter().map(Vec::len).collect();
        let mut free: Vec<usize> = (0..self.nodes()).filter(|&v| waits[v] == 0).collect();
        while let Some(v) = free.pop() {
            for &child in &self.children[v] {
                waits[child] -= 1;
                if waits[child] == 0 {
                    free.push(child);
                }
            }
        }
        // Every node that still waits has a parent that waits: going back from parent to parent reaches a
        // node twice.
        let mut way = vec![(0..self.nodes()).find(|&v| waits[v] > 0)?];
        loop {
            let current = way[way.len() - 1];
            let before = *self.parents[current].iter().find(|&&parent| waits[parent] > 0)?;
            if let Some(start) = way.iter().position(|&v| v == before) {
                let mut cycle = way.split_off(start);
                cycle.push(before);
                cycle.reverse();
                return Some(cycle);
            }
            way.push(before);
        }
    }
}

/// The text form; where variables are latent, DAGitty's.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |v: usize| parse::quoted(&self.names[v]);
        // Where no arrow names a variable before its turn, the order of variables survives.
        let mut parts: Vec<String> = (0..self.variables).map(name).collect();
        self.latent.iter().for_each(|&v| parts[v] += " [latent]");
        let quoted = parse::quoted;
        parts.extend(self.arrows().iter().map(|(a, b)| format!("{} -> {}", quoted(a), quoted(b))));
        parts.extend(self.confounded().iter().map(|(a, b)| format!("{} <-> {}", quoted(a), quoted(b))));
        let text = parts.join("; ");
        if self.latent.is_empty() { f.write_str(&text) } else { write!(f, "dag {{ {text} }}") }
    }
}

impl FromStr for Graph {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Graph {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<Graph> for String {
    fn from(graph: Graph) -> Self {
        graph.to_string()
    }
}

fn closure(next: &[Vec<usize>], from: &Nodes) -> Nodes {
    let (mut reached, mut open) = (from.clone(), from.iter().copied().collect::<Vec<_>>());
    while let Some(v) = open.pop() {
        open.extend(next[v].iter().copied().filter(|&w| reached.insert(w)));
    }
    reached
}

/// Names that are spelt similarly to `name`: equal up to case, or at most two letters away.
pub(crate) fn similar_names(name: &str, known: &[String]) -> Vec<String> {
    let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let name_letters = letters(name);
    let allowed = (name_letters.len() / 3).min(2);
    known.iter().filter(|other| distance(&name_letters, &letters(other)) <= allowed).cloned().collect()
}

/// Letters to put in, take out or change (Levenshtein).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let edits = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], edits);
        }
    }
    row[b.len()]
}
