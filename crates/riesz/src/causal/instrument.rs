//! Instruments: variables that affect a treatment, and the outcome only through it.

use super::graph::{Graph, Nodes};
use crate::error::{Instrument, Result};

/// Finds an instrument among the measured variables for the effect of a treatment on an outcome; one without
/// covariates is preferred. Returns `None` if there is no instrument, or if the treatment does not affect the
/// outcome.
///
/// ```
/// use riesz::causal::{Graph, instrument};
///
/// let graph = Graph::parse("W -> Z -> X -> Y; W -> Y; X <-> Y")?;
/// let instrument = instrument(&graph, "X", "Y", &["W", "X", "Y", "Z"])?.ok_or("no instrument")?;
/// assert_eq!((instrument.variable.as_str(), instrument.conditioning), ("Z", vec!["W".to_string()]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`IdentificationError::UnknownVariable`](crate::causal::IdentificationError::UnknownVariable) for the
/// treatment or outcome.
pub fn instrument<S: AsRef<str>>(
    graph: &Graph,
    treatment: &str,
    outcome: &str,
    measured: &[S],
) -> Result<Option<Instrument>> {
    let (treatment, outcome) = (graph.node_index(treatment)?, graph.node_index(outcome)?);
    Ok(find(graph, treatment, outcome, &graph.measured(measured)))
}

/// Computes [`instrument`] for variables given by their indices.
pub(super) fn find(graph: &Graph, treatment: usize, outcome: usize, measured: &Nodes) -> Option<Instrument> {
    let (treatment_set, outcomes) = (Nodes::from([treatment]), Nodes::from([outcome]));
    if !graph.effects(&treatment_set).contains(&outcome) {
        return None;
    }
    let candidates = &(measured - &graph.effects(&treatment_set)) - &outcomes;
    let backdoor_graph = graph.without_edges(&Nodes::new(), &treatment_set);
    let unconditional = candidates.iter().map(|&z| (z, Nodes::new()));
    let unconditional =
        unconditional.filter(|(z, empty_set)| backdoor_graph.separated(&[*z].into(), &outcomes, empty_set));
    let conditional = candidates
        .iter()
        .filter_map(|&z| Some((z, nearest_separator(&backdoor_graph, z, outcome, &candidates)?)));
    let (z, conditioning) = unconditional
        .chain(conditional)
        .find(|(z, conditioning)| !graph.separated(&[*z].into(), &treatment_set, conditioning))?;
    Some(Instrument { variable: graph.name(z).into(), conditioning: graph.named(&conditioning) })
}

/// Returns the separating set of z and the outcome that is nearest to the outcome; `None` if nothing
/// separates them. If any variable is an instrument given any set, then some variable is one given its
/// nearest separating set (van der Zander, Textor and Liśkiewicz 2015).
fn nearest_separator(graph: &Graph, z: usize, outcome: usize, usable: &Nodes) -> Option<Nodes> {
    let (from, to) = (Nodes::from([z]), Nodes::from([outcome]));
    let set = &(usable & &graph.causes(&(&from | &to))) - &from;
    graph.separated(&from, &to, &set).then(|| graph.nearest_separator(&from, &to, &set, &Nodes::new()))
}
