//! Causal graphs: arrows between variables, and hidden common causes.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::parse;
use crate::error::{Error, IdentificationError, Result};

/// Variables, given by their indices.
pub(crate) type Nodes = BTreeSet<usize>;

/// A directed acyclic graph of causes. An arrow means that a variable is a direct cause of another, and `A
/// <-> B` that the two have an unmeasured common cause. A missing arrow means that there is no direct effect.
/// A graph serialises as its text.
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

/// A note on how a text was read. It is not part of the graph: comparisons of graphs ignore it.
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
    /// The plain form has chains of arrows `A -> B <- C`, and `A <-> B` for a hidden common cause; `;` or the
    /// end of the line ends a chain. Names with spaces or special characters are in double quotes, `#` starts
    /// a comment, and `A, B -> C` means two arrows. Other formats are DOT (`digraph { … }`, `dir=both` for
    /// `<->`), DAGitty's text (`dag { … }`, `[latent]` for unmeasured variables), GML, node-link JSON of
    /// networkx, adjacency matrices as CSV (rows are causes; for LiNGAM's and causal-learn's see
    /// [`Graph::note`]), bnlearn's model string, the structure of BIF, lavaan's model text, and Tetrad's
    /// text.
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

    /// Returns a sentence on how an ambiguous text was read. In an adjacency matrix of 0 and 1 the rows are
    /// causes, unless its first cell is `from` (rows are causes) or `to` (rows are effects). A matrix of
    /// other numbers needs one of these two cells, or causal-learn's marks -1 and 1 at the ends of each edge.
    pub fn note(&self) -> Option<&str> {
        self.note.0.as_deref()
    }

    /// Creates a graph of these variables and of those that occur only in arrows; `confounded` are pairs with
    /// a hidden common cause.
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
        let mut indices = std::collections::HashMap::new();
        let mut names: Vec<String> = Vec::new();
        for name in variables.iter().map(AsRef::as_ref).chain(ends) {
            indices.entry(name).or_insert_with(|| {
                names.push(name.into());
                names.len() - 1
            });
        }
        if names.is_empty() {
            return Err(Error::too_few("the graph", 1, "variable is"));
        }
        let pair = |(a, b): &(A, A)| (indices[a.as_ref()], indices[b.as_ref()]);
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

    /// Returns the variables, in the order in which they first occur.
    pub fn variables(&self) -> &[String] {
        &self.names[..self.variables]
    }

    /// Returns the variables that the graph declares unmeasured, even if a table has a column for them.
    pub fn latent(&self) -> Vec<&str> {
        self.latent.iter().map(|&v| self.names[v].as_str()).collect()
    }

    /// Returns pairs of a cause and its direct effect, in the order of the causes.
    pub fn arrows(&self) -> Vec<(&str, &str)> {
        let arrows_from = |v: usize| {
            self.children[v].iter().map(move |&child| (&self.names[v][..], &self.names[child][..]))
        };
        (0..self.variables).flat_map(arrows_from).collect()
    }

    /// Returns pairs of variables with an unmeasured common cause.
    pub fn confounded(&self) -> Vec<(&str, &str)> {
        let pair = |cause: usize| match self.children[cause][..] {
            [a, b] => Some((&self.names[a][..], &self.names[b][..])),
            _ => None,
        };
        (self.variables..self.nodes()).filter_map(pair).collect()
    }

    /// Returns the direct causes of any of these variables.
    ///
    /// # Errors
    /// [`IdentificationError::UnknownVariable`].
    pub fn parents<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<&str>> {
        let nodes = self.node_indices(names)?;
        Ok(self.visible_names(nodes.iter().flat_map(|&v| &self.parents[v]).copied().collect()))
    }

    /// Returns all direct and indirect causes of any of these variables, without the variables themselves.
    ///
    /// # Errors
    /// [`IdentificationError::UnknownVariable`].
    pub fn ancestors<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<&str>> {
        let nodes = self.node_indices(names)?;
        Ok(self.visible_names(&self.causes(&nodes) - &nodes))
    }

    /// Returns all direct and indirect effects of any of these variables, without the variables themselves.
    ///
    /// # Errors
    /// [`IdentificationError::UnknownVariable`].
    pub fn descendants<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<&str>> {
        let nodes = self.node_indices(names)?;
        Ok(self.visible_names(&self.effects(&nodes) - &nodes))
    }

    /// Returns the graph without arrows into some variables, as in an intervention that sets them.
    ///
    /// # Errors
    /// [`IdentificationError::UnknownVariable`].
    pub fn without_edges_into<S: AsRef<str>>(&self, variables: &[S]) -> Result<Self> {
        Ok(self.without_edges(&self.node_indices(variables)?, &Nodes::new()))
    }

    /// Returns the graph without arrows out of some variables, that is without their effects.
    ///
    /// # Errors
    /// [`IdentificationError::UnknownVariable`].
    pub fn without_edges_out_of<S: AsRef<str>>(&self, variables: &[S]) -> Result<Self> {
        Ok(self.without_edges(&Nodes::new(), &self.node_indices(variables)?))
    }

    /// Returns the indices of variables.
    pub(crate) fn node_indices<S: AsRef<str>>(&self, names: &[S]) -> Result<Nodes> {
        names.iter().map(|name| self.node_index(name.as_ref())).collect()
    }

    pub(crate) fn node_index(&self, name: &str) -> Result<usize> {
        self.find_node(name).ok_or_else(|| {
            let variables = self.variables().to_vec();
            Error::causal(IdentificationError::UnknownVariable {
                name: name.into(),
                near: similar_names(name, &variables),
                variables,
            })
        })
    }

    /// Returns the variables that a study with these columns measured: columns that are not in the graph, or
    /// that it declares latent, are ignored.
    pub(crate) fn measured<S: AsRef<str>>(&self, columns: &[S]) -> Nodes {
        let nodes = columns.iter().filter_map(|column| self.find_node(column.as_ref()));
        nodes.filter(|&v| !self.is_latent(v)).collect()
    }

    pub(crate) fn find_node(&self, name: &str) -> Option<usize> {
        self.variables().iter().position(|variable| variable == name)
    }

    /// Returns the number of nodes, including hidden ones.
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

    /// Returns the names of nodes.
    pub(crate) fn named<'n>(&self, nodes: impl IntoIterator<Item = &'n usize>) -> Vec<String> {
        nodes.into_iter().map(|&v| self.names[v].clone()).collect()
    }

    /// Returns the nodes and all their causes, including hidden ones.
    pub(crate) fn causes(&self, nodes: &Nodes) -> Nodes {
        reachable(nodes, |v| self.parents[v].iter().copied())
    }

    /// Returns the nodes and all their effects.
    pub(crate) fn effects(&self, nodes: &Nodes) -> Nodes {
        reachable(nodes, |v| self.children[v].iter().copied())
    }

    /// Returns the members of a set that affect `outcome` when all members are set. A member that acts only
    /// through others has no effect then.
    pub(crate) fn with_effect(&self, set: &Nodes, outcome: usize) -> Nodes {
        let intervened = self.without_edges(set, &Nodes::new());
        set.iter().copied().filter(|&v| intervened.effects(&[v].into()).contains(&outcome)).collect()
    }

    /// Returns the graph without arrows into some nodes and out of others.
    pub(crate) fn without_edges(&self, into: &Nodes, out_of: &Nodes) -> Self {
        let mut graph = self.clone();
        for v in 0..self.nodes() {
            let is_removed = |a: usize, b: usize| into.contains(&b) || out_of.contains(&a);
            graph.parents[v].retain(|&a| !is_removed(a, v));
            graph.children[v].retain(|&b| !is_removed(v, b));
        }
        graph
    }

    /// Returns the graph with an additional cause of one variable, and the index of this cause.
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

    fn visible_names(&self, nodes: Nodes) -> Vec<&str> {
        nodes.into_iter().filter(|&v| !self.is_hidden(v)).map(|v| self.names[v].as_str()).collect()
    }

    /// Finds a cycle; its last node is its first one.
    fn cycle(&self) -> Option<Vec<usize>> {
        let mut unvisited_parents: Vec<usize> = self.parents.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = (0..self.nodes()).filter(|&v| unvisited_parents[v] == 0).collect();
        while let Some(v) = ready.pop() {
            for &child in &self.children[v] {
                unvisited_parents[child] -= 1;
                if unvisited_parents[child] == 0 {
                    ready.push(child);
                }
            }
        }
        // Every node that is not visited has a parent that is not visited. Going back from parent to parent
        // therefore reaches a node twice.
        let mut walk = vec![(0..self.nodes()).find(|&v| unvisited_parents[v] > 0)?];
        loop {
            let current = walk[walk.len() - 1];
            let parent = *self.parents[current].iter().find(|&&parent| unvisited_parents[parent] > 0)?;
            if let Some(start) = walk.iter().position(|&v| v == parent) {
                let mut cycle = walk.split_off(start);
                cycle.push(parent);
                cycle.reverse();
                return Some(cycle);
            }
            walk.push(parent);
        }
    }
}

/// Writes the text form: DAGitty's if variables are latent.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |v: usize| parse::quoted(&self.names[v]);
        // The variables come first, so that the text keeps their order.
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

/// Returns the nodes that are reached from some nodes by steps from a node to one of `next`, including the
/// nodes themselves.
pub(crate) fn reachable<I: Iterator<Item = usize>>(from: &Nodes, next: impl Fn(usize) -> I) -> Nodes {
    let (mut reached, mut frontier) = (from.clone(), from.iter().copied().collect::<Vec<_>>());
    while let Some(v) = frontier.pop() {
        frontier.extend(next(v).filter(|&w| reached.insert(w)));
    }
    reached
}

/// Returns a set without a node.
pub(crate) fn without_node(set: &Nodes, node: usize) -> Nodes {
    let mut remaining = set.clone();
    remaining.remove(&node);
    remaining
}

/// Removes from a set one candidate after another for which `holds` is true of the candidate and the
/// remaining set.
pub(crate) fn pruned(
    mut set: Nodes,
    candidates: impl IntoIterator<Item = usize>,
    holds: impl Fn(usize, &Nodes) -> bool,
) -> Nodes {
    for v in candidates {
        let smaller = without_node(&set, v);
        if holds(v, &smaller) {
            set = smaller;
        }
    }
    set
}

/// Returns the names that are spelt similarly to `name`: equal up to case, or with a small edit distance.
pub(crate) fn similar_names(name: &str, candidates: &[String]) -> Vec<String> {
    let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let name_letters = letters(name);
    let max_distance = (name_letters.len() / 3).min(2);
    candidates
        .iter()
        .filter(|candidate| edit_distance(&name_letters, &letters(candidate)) <= max_distance)
        .cloned()
        .collect()
}

/// Returns the Levenshtein distance: the number of letters to insert, delete or change.
fn edit_distance(a: &[char], b: &[char]) -> usize {
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
