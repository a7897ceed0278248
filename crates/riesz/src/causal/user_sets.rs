//! Adjustment sets and front doors that the user gives: checked against the graph if there is one, otherwise
//! assumed.

use super::adjustment::{AdjustmentSets, EffectGraph};
use super::assumptions::assumptions;
use super::graph::{Graph, Nodes};
use super::identification::{Bridge, CausalQuery, EffectStrategy, Identification, Provenance, Strategy};
use super::names::distinct;
use crate::error::{Error, IdentificationError, Result, listed};

const ADJUSTED: &str = "adjusted for";
const FRONT: &str = "a front door";

fn invalid_set_error(name: &str, role: &'static str, why: impl Into<String>) -> Error {
    Error::causal(IdentificationError::UnfitVariable { name: name.into(), role, why: why.into() })
}

/// Checks that a study measured a variable.
pub(super) fn check_measured(
    graph: &Graph,
    query: &CausalQuery,
    study: usize,
    v: usize,
    role: &'static str,
) -> Result<()> {
    query.measured(study, graph.name(v), role)?;
    if graph.is_latent(v) {
        let why = "the graph declares it latent, that is unmeasured";
        return Err(invalid_set_error(graph.name(v), role, why));
    }
    Ok(())
}

/// Returns the indices of the given columns of study 1, of which none may be a treatment or a member of
/// `excluded`, for the reason `why`.
fn columns(
    effect: &EffectGraph<'_>,
    query: &CausalQuery,
    (set, role): (&[String], &'static str),
    (excluded, why): (&Nodes, &str),
) -> Result<Nodes> {
    let graph = effect.graph;
    let nodes = graph.node_indices(set)?;
    nodes.iter().try_for_each(|&v| check_measured(graph, query, 0, v, role))?;
    for &v in &nodes {
        if effect.treatments.contains(&v) {
            return Err(invalid_set_error(graph.name(v), role, "it is a treatment"));
        }
        if excluded.contains(&v) {
            return Err(invalid_set_error(graph.name(v), role, why));
        }
    }
    Ok(nodes)
}

/// Returns the error for a set that does not identify the effect, with sets that do.
fn unfit_set(
    effect: &EffectGraph<'_>,
    set: &Nodes,
    role: &'static str,
    open_path: String,
    alternatives: Option<AdjustmentSets>,
) -> Error {
    let graph = effect.graph;
    Error::causal(IdentificationError::UnfitSet {
        set: graph.named(set),
        role,
        treatments: graph.named(effect.treatments),
        outcomes: graph.named(effect.outcomes),
        open_path,
        instead: alternatives.map(|sets| graph.named(&sets.sets[0])),
    })
}

/// Checks adjustment for a given set together with the passive columns.
pub(super) fn check_adjustment_set(
    effect: &EffectGraph<'_>,
    query: &CausalQuery,
    set: &[String],
) -> Result<EffectStrategy> {
    let graph = effect.graph;
    let why = "it is an effect of the treatment, so that adjusting for it would change that effect";
    let affected = graph.effects(effect.treatments);
    let adjustment = columns(effect, query, (set, ADJUSTED), (&affected, why))?;
    let (backdoor_graph, conditioning) = (effect.backdoor_graph(), &adjustment | effect.passive);
    match backdoor_graph.path(effect.treatments, effect.outcomes, &conditioning) {
        None => Ok(EffectStrategy::BackDoor {
            adjust: graph.named(&conditioning),
            alternatives: Vec::new(),
            listed: false,
        }),
        Some(path) => Err(unfit_set(effect, &conditioning, "adjusting for", path, effect.back_door())),
    }
}

/// Checks a given front door.
pub(super) fn check_front_door(
    effect: &EffectGraph<'_>,
    query: &CausalQuery,
    set: &[String],
) -> Result<EffectStrategy> {
    let graph = effect.graph;
    let why = "it is the outcome, or a column that the studies share";
    let mediators = columns(effect, query, (set, FRONT), (&(effect.outcomes | effect.passive), why))?;
    if effect.front_door_holds(&mediators) {
        return Ok(EffectStrategy::FrontDoor {
            mediators: graph.named(&mediators),
            conditioning: graph.named(effect.passive),
            alternatives: Vec::new(),
            listed: false,
        });
    }
    let path = front_door_violation(effect, &mediators);
    Err(unfit_set(effect, &mediators, "a front door through", path, effect.front_door()))
}

/// Returns a path that prevents a set from being a front door: one that avoids it, or one that confounds it.
fn front_door_violation(effect: &EffectGraph<'_>, set: &Nodes) -> String {
    let (graph, no_nodes) = (effect.graph, Nodes::new());
    let conditioned = effect.treatments | effect.passive;
    // Without arrows into treatments, and among causes of the outcomes, a path that is open from a treatment
    // given nothing is a directed path.
    let intervened = graph.without_edges(effect.treatments, set);
    let intervened = intervened.without_edges(
        &(&(0..graph.nodes()).collect::<Nodes>() - &intervened.causes(effect.outcomes)),
        &no_nodes,
    );
    intervened
        .path(effect.treatments, effect.outcomes, &no_nodes)
        .filter(|_| !effect.intercepts_all_paths(set))
        .or_else(|| effect.backdoor_graph().path(effect.treatments, set, effect.passive))
        .or_else(|| graph.without_edges(&no_nodes, set).path(set, effect.outcomes, &conditioned))
        .unwrap_or_default()
}

/// Identifies an effect without a graph: the given strategy is assumed, and the result reports this.
pub(super) fn assume_without_graph(query: &CausalQuery) -> Result<Identification> {
    if let Some(names) = query.differs.values().next() {
        return Err(Error::parameter(
            "differs",
            listed(names),
            "only a graph can decide whether a difference matters",
        ));
    }
    let (set, role, strategy) = match &query.strategy {
        Strategy::Derive => {
            return Err(Error::parameter(
                "graph",
                "none",
                "without a graph, say which columns to adjust for, the front door, or that treatments were \
                 randomized",
            ));
        }
        Strategy::Randomized => (&[][..], ADJUSTED, EffectStrategy::Randomized { adjust: Vec::new() }),
        Strategy::Adjust(set) => {
            let (adjust, alternatives) = (set.clone(), Vec::new());
            (&set[..], ADJUSTED, EffectStrategy::BackDoor { adjust, alternatives, listed: false })
        }
        Strategy::FrontDoor(set) => {
            let (mediators, conditioning, alternatives) = (set.clone(), Vec::new(), Vec::new());
            let strategy = EffectStrategy::FrontDoor { mediators, conditioning, alternatives, listed: false };
            (&set[..], FRONT, strategy)
        }
    };
    let last_study = query.studies.len() - 1;
    for name in &query.treatments {
        query.measured(0, name, "a treatment")?;
    }
    query.measured(last_study, &query.outcome, "the outcome")?;
    for name in set {
        query.measured(0, name, role)?;
        if query.treatments.contains(name) {
            return Err(invalid_set_error(name, role, "it is a treatment"));
        }
        if *name == query.outcome {
            return Err(invalid_set_error(name, role, "it is the outcome"));
        }
    }
    let is_front = role == FRONT;
    let mut bridges = Vec::new();
    for (k, pair) in query.studies.windows(2).enumerate() {
        let excluded = |name: &&String| {
            query.treatments.contains(name) || **name == query.outcome || (is_front && set.contains(name))
        };
        let shared = distinct(pair[0].iter().filter(|name| pair[1].contains(name) && !excluded(name)));
        let (passive, mediators): (Vec<_>, Vec<_>) =
            shared.into_iter().partition(|name| !is_front && set.contains(name));
        if mediators.is_empty() {
            let (columns1, columns2) = (pair[0].clone(), pair[1].clone());
            return Err(Error::causal(IdentificationError::NoBridge { study: k, columns1, columns2 }));
        }
        bridges.push(Bridge { mediators, passive, unused: Vec::new() });
    }
    let mut identification = Identification {
        treatments: query.treatments.clone(),
        without_effect: Vec::new(),
        outcome: query.outcome.clone(),
        strategy,
        source: Provenance::User,
        bridges,
        assumptions: Vec::new(),
        unknown: Vec::new(),
    };
    identification.assumptions = assumptions(&identification, &query.differs);
    Ok(identification)
}
