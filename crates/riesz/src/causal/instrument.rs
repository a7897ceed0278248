//! Instruments: variables that affect a treatment, and the outcome only through it.

use serde::{Deserialize, Serialize};

use super::graph::{Graph, Nodes, pruned, without_node};
use crate::error::Result;
use crate::refusal::and;

/// A variable Z that is an instrument for the effect of a treatment X on an outcome Y given covariates W.
/// Neither Z nor any of W is an effect of X. Z is independent of Y given W in the graph without arrows out of
/// X, and Z and X are dependent given W.
///
/// An instrument identifies the effect only under further assumptions: a linear effect, for example, is
/// cov(Z, Y | W) / cov(Z, X | W) (two-stage least squares). Source: Pearl 2009, section 7.4; Brito and Pearl
/// 2002.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instrument {
    /// The instrument Z.
    pub variable: String,
    /// The covariates W, all of which are necessary.
    #[serde(rename = "given")]
    pub conditioning: Vec<String>,
}

impl Instrument {
    /// Returns a sentence that describes the instrument and the conclusion that it allows.
    pub(crate) fn sentence(&self, treatment: &str) -> String {
        let condition = if self.conditioning.is_empty() {
            String::new()
        } else {
            format!(" given {}", and(&self.conditioning))
        };
        format!(
            "{} is an instrument for {treatment}{condition}, which gives the effect if that is linear \
             (two-stage least squares), but riesz does not estimate this",
            self.variable
        )
    }
}

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
    let (treatment, outcome) = (graph.place(treatment)?, graph.place(outcome)?);
    Ok(find(graph, treatment, outcome, &graph.measured(measured)))
}

/// Computes [`instrument`] for variables given by their indices.
pub(super) fn find(graph: &Graph, treatment: usize, outcome: usize, measured: &Nodes) -> Option<Instrument> {
    let (treatment_set, outcomes) = (Nodes::from([treatment]), Nodes::from([outcome]));
    if !graph.effects(&treatment_set).contains(&outcome) {
        return None;
    }
    let usable = &(measured - &graph.effects(&treatment_set)) - &outcomes;
    let behind = graph.without_edges(&Nodes::new(), &treatment_set);
    let plain = usable.iter().map(|&z| (z, Nodes::new()));
    let plain = plain.filter(|(z, none)| behind.separated(&[*z].into(), &outcomes, none));
    let conditioned =
        usable.iter().filter_map(|&z| Some((z, nearest_separator(&behind, z, outcome, &usable)?)));
    let (z, conditioning) = plain
        .chain(conditioned)
        .find(|(z, conditioning)| !graph.separated(&[*z].into(), &treatment_set, conditioning))?;
    Some(Instrument { variable: graph.name(z).into(), conditioning: graph.named(&conditioning) })
}

/// Returns the separating set of z and the outcome that is nearest to the outcome; `None` if nothing
/// separates them. If any variable is an instrument given any set, then some variable is one given its
/// nearest separating set (van der Zander, Textor and Liśkiewicz 2015).
fn nearest_separator(graph: &Graph, z: usize, outcome: usize, usable: &Nodes) -> Option<Nodes> {
    let (from, to) = (Nodes::from([z]), Nodes::from([outcome]));
    let set = &(usable & &graph.causes(&(&from | &to))) - &from;
    if !graph.separated(&from, &to, &set) {
        return None;
    }
    let touches = |v: &usize| !graph.separated(&to, &[*v].into(), &without_node(&set, *v));
    let near: Nodes = set.iter().copied().filter(touches).collect();
    Some(pruned(near.clone(), near, |_, less| graph.separated(&from, &to, less)))
}
