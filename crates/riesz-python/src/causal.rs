//! Causal graphs for Python: reads graphs, identifies effects, and returns the results as texts and JSON.

use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use riesz::Error;
use riesz::causal::{
    CausalQuery, Graph, Identification, effect_formula, identify, instrument, sequential_adjustment,
};
use riesz::game::StructureLists;

use crate::{raise, refuse};

/// A graph as Python passes it.
#[derive(FromPyObject)]
pub enum GraphInput {
    /// The text of the graph, in one of the known formats.
    Text(String),
    /// The variables and the arrows of the graph.
    Arrows(Vec<String>, Vec<(String, String)>),
}

impl GraphInput {
    fn graph(&self) -> PyResult<Graph> {
        let graph = match self {
            Self::Text(text) => Graph::parse(text),
            Self::Arrows(variables, arrows) => Graph::new(variables, arrows, &[]),
        }
        .map_err(raise)?;
        if let Some(note) = graph.note() {
            let message = std::ffi::CString::new(note).map_err(refuse)?;
            Python::attach(|py| PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 3))?;
        }
        Ok(graph)
    }
}

/// A causal query: its graph, and the identification of its effect.
pub struct Question {
    pub graph: Option<Graph>,
    pub identification: Identification,
}

impl Question {
    pub fn new(graph: Option<GraphInput>, query: &str) -> PyResult<Self> {
        let graph = graph.map(|input| input.graph()).transpose()?;
        let query: CausalQuery = serde_json::from_str(query).map_err(refuse)?;
        let identification = identify(graph.as_ref(), &query).map_err(raise)?;
        Ok(Self { graph, identification })
    }
}

/// The identification of an effect in JSON, and in a sentence. If the effect is not identified, the JSON has
/// the reason.
#[pyfunction]
pub fn identify_effect(graph: Option<GraphInput>, query: &str) -> PyResult<(String, String)> {
    let graph = graph.map(|input| input.graph()).transpose()?;
    let query: CausalQuery = serde_json::from_str(query).map_err(refuse)?;
    match identify(graph.as_ref(), &query) {
        Ok(identification) => {
            Ok((serde_json::to_string(&identification).map_err(refuse)?, identification.to_string()))
        }
        Err(Error::Causal(refusal)) => match refusal.not_identified_record() {
            Some(record) => Ok((record.to_string(), refusal.to_string())),
            None => Err(raise(Error::Causal(refusal))),
        },
        Err(error) => Err(raise(error)),
    }
}

/// The formula of an effect as text and in JSON; if there is no formula, `None` and the hedge in JSON.
#[pyfunction]
pub fn formula_of_effect(
    graph: GraphInput,
    treatments: Vec<String>,
    outcomes: Vec<String>,
    measured: Option<Vec<String>>,
) -> PyResult<(Option<String>, String)> {
    let graph = graph.graph()?;
    let measured = measured.unwrap_or_else(|| graph.variables().to_vec());
    let outcome_formula = effect_formula(&graph, &treatments, &outcomes, &measured).map_err(raise)?;
    match outcome_formula {
        Ok(formula) => Ok((Some(formula.to_string()), serde_json::to_string(&formula).map_err(refuse)?)),
        Err(hedge) => Ok((None, serde_json::to_string(&hedge).map_err(refuse)?)),
    }
}

/// Finds an instrument and its covariates; `None` if there is no instrument.
#[pyfunction]
pub fn find_instrument(
    graph: GraphInput,
    treatment: &str,
    outcome: &str,
    measured: Option<Vec<String>>,
) -> PyResult<Option<(String, Vec<String>)>> {
    let graph = graph.graph()?;
    let measured = measured.unwrap_or_else(|| graph.variables().to_vec());
    let candidate = instrument(&graph, treatment, outcome, &measured).map_err(raise)?;
    Ok(candidate.map(|tool| (tool.variable, tool.conditioning)))
}

/// Treatments, each with its covariates.
type Sequence = Vec<(String, Vec<String>)>;

/// Finds the treatments in causal order, each with its covariates; `None` if no sequence identifies the
/// effect.
#[pyfunction]
pub fn find_sequence(
    graph: GraphInput,
    treatments: Vec<String>,
    outcome: &str,
    measured: Option<Vec<String>>,
) -> PyResult<Option<Sequence>> {
    let graph = graph.graph()?;
    let measured = measured.unwrap_or_else(|| graph.variables().to_vec());
    let adjustment = sequential_adjustment(&graph, &treatments, outcome, &measured).map_err(raise)?;
    Ok(adjustment.map(|steps| steps.into_iter().map(|step| (step.treatment, step.adjust)).collect()))
}

/// The parts of a graph: variables, unmeasured variables, arrows, and pairs with a hidden common cause.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn graph_parts(
    graph: GraphInput,
) -> PyResult<(Vec<String>, Vec<String>, Vec<(String, String)>, Vec<(String, String)>)> {
    let graph = graph.graph()?;
    let owned =
        |pairs: Vec<(&str, &str)>| pairs.into_iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
    let latent = graph.latent().into_iter().map(String::from).collect();
    Ok((graph.variables().to_vec(), latent, owned(graph.arrows()), owned(graph.confounded())))
}

/// The causal structure of some variables: the components, one column of each confounded one, and for each
/// component a column followed by its parents.
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn causal_components(
    graph: GraphInput,
    variables: Vec<String>,
) -> PyResult<(Vec<Vec<String>>, Vec<String>, Vec<Vec<String>>)> {
    let structure = graph.graph()?.causal_structure(&variables).map_err(raise)?;
    let StructureLists { components, confounded, parents } = structure.to_lists();
    Ok((components, confounded, parents))
}

/// Describes an open path between `a` and `b` given `conditioning`; `None` if they are d-separated.
#[pyfunction]
pub fn open_path(
    graph: GraphInput,
    a: Vec<String>,
    b: Vec<String>,
    conditioning: Vec<String>,
) -> PyResult<Option<String>> {
    graph.graph()?.open_path(&a, &b, &conditioning).map_err(raise)
}
