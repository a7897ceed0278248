//! Causal graphs for Python: texts and names in, answers out.

use pyo3::prelude::*;
use riesz::causal::{Graph, Identification, Query, identify};

use crate::{raise, refuse};

/// A graph as it comes.
#[derive(FromPyObject)]
pub enum Given {
    /// Its text.
    Text(String),
    /// Its variables and arrows.
    Arrows(Vec<String>, Vec<(String, String)>),
}

impl Given {
    fn graph(&self) -> PyResult<Graph> {
        match self {
            Self::Text(text) => Graph::parse(text),
            Self::Arrows(variables, arrows) => Graph::new(variables, arrows, &[]),
        }
        .map_err(raise)
    }
}

/// A question and how its answer follows.
pub struct Question {
    pub graph: Option<Graph>,
    pub found: Identification,
}

impl Question {
    pub fn new(graph: Option<Given>, query: &str) -> PyResult<Self> {
        let graph = graph.map(|given| given.graph()).transpose()?;
        let query: Query = serde_json::from_str(query).map_err(refuse)?;
        let found = identify(graph.as_ref(), &query).map_err(raise)?;
        Ok(Self { graph, found })
    }
}

/// Whether and how an effect is identified: the answer in JSON, and in a sentence.
#[pyfunction]
pub fn identify_effect(graph: Option<Given>, query: &str) -> PyResult<(String, String)> {
    let found = Question::new(graph, query)?.found;
    Ok((serde_json::to_string(&found).map_err(refuse)?, found.to_string()))
}

/// A path that is open between variables given others, in words; none where they are d-separated.
#[pyfunction]
pub fn open_path(
    graph: Given,
    a: Vec<String>,
    b: Vec<String>,
    given: Vec<String>,
) -> PyResult<Option<String>> {
    graph.graph()?.open_path(&a, &b, &given).map_err(raise)
}
