//! Adjustment sets and front doors that the user gives: checked against the graph if there is one, otherwise
//! assumed.

use super::adjustment::EffectGraph;
use super::assumptions::assumptions;
use super::graph::{Graph, Nodes};
use super::identification::{Bridge, CausalQuery, EffectStrategy, Identification, Provenance, Strategy};
use crate::error::{Error, IdentificationError, Result, listed};

const ADJUSTED: &str = "adjusted for";
const FRONT: &str = "a front door";

fn invalid_set_error(name: &str, role: &'static str, why: impl Into<String>) -> Error {
    Error::causal(IdentificationError::UnfitVariable { name: name.into(), role, why: why.into() })
}

/// Returns the indices of the given columns of study 1.
fn columns(graph: &Graph, query: &CausalQuery, set: &[String], role: &'static str) -> Result<Nodes> {
    let places = graph.node_indices(set)?;
    for &v in &places {
        query.measured(0, graph.name(v), role)?;
        if graph.is_latent(v) {
            return Err(invalid_set_error(
                graph.name(v),
                role,
                "the graph declares it latent, that is unmeasured",
            ));
        }
    }
    Ok(places)
}

/// Checks adjustment for a given set together with the passive columns.
pub(super) fn check_adjustment_set(
    effect: &EffectGraph<'_>,
    query: &CausalQuery,
    set: &[String],
) -> Result<EffectStrategy> {
    let graph = effect.graph;
    let adjustment = columns(graph, query, set, ADJUSTED)?;
    let affected = graph.effects(effect.treatments);
    for &v in &adjustment {
        let name = graph.name(v);
        if effect.treatments.contains(&v) {
            return Err(invalid_set_error(name, ADJUSTED, "it is a treatment"));
        }
        if affected.contains(&v) {
            return Err(invalid_set_error(
                name,
                ADJUSTED,
                "it is an effect of the treatment, so that adjusting for it would change that effect",
            ));
        }
    }
    let (behind, with) = (effect.backdoor_graph(), &adjustment | effect.passive);
    match behind.path(effect.treatments, effect.outcomes, &with) {
        None => Ok(EffectStrategy::BackDoor {
            adjust: graph.named(&with),
            alternatives: Vec::new(),
            listed: false,
        }),
        Some(open_path) => Err(Error::causal(IdentificationError::UnfitSet {
            set: graph.named(&with),
            role: "adjusting for",
            treatments: graph.named(effect.treatments),
            outcomes: graph.named(effect.outcomes),
            open_path,
            instead: effect.back_door().map(|sets| graph.named(&sets.sets[0])),
        })),
    }
}

/// Checks a given front door.
pub(super) fn check_front_door(
    effect: &EffectGraph<'_>,
    query: &CausalQuery,
    set: &[String],
) -> Result<EffectStrategy> {
    let graph = effect.graph;
    let mediators = columns(graph, query, set, FRONT)?;
    for &v in &mediators {
        let name = graph.name(v);
        if effect.treatments.contains(&v) {
            return Err(invalid_set_error(name, FRONT, "it is a treatment"));
        }
        if effect.outcomes.contains(&v) || effect.passive.contains(&v) {
            return Err(invalid_set_error(
                name,
                FRONT,
                "it is the outcome, or a column that the studies share",
            ));
        }
    }
    if effect.front_door_holds(&mediators) {
        return Ok(EffectStrategy::FrontDoor {
            mediators: graph.named(&mediators),
            conditioning: graph.named(effect.passive),
            alternatives: Vec::new(),
            listed: false,
        });
    }
    Err(Error::causal(IdentificationError::UnfitSet {
        set: graph.named(&mediators),
        role: "a front door through",
        treatments: graph.named(effect.treatments),
        outcomes: graph.named(effect.outcomes),
        open_path: front_door_violation(effect, &mediators),
        instead: effect.front_door().map(|sets| graph.named(&sets.sets[0])),
    }))
}

/// Returns a path that prevents a set from being a front door: one that avoids it, or one that confounds it.
fn front_door_violation(effect: &EffectGraph<'_>, set: &Nodes) -> String {
    let (graph, none) = (effect.graph, Nodes::new());
    let conditioned = effect.treatments | effect.passive;
    // Without arrows into treatments, and among causes of the outcomes, a path that is open from a treatment
    // given nothing is a directed path.
    let past = graph.without_edges(effect.treatments, set);
    let past =
        past.without_edges(&(&(0..graph.nodes()).collect::<Nodes>() - &past.causes(effect.outcomes)), &none);
    past.path(effect.treatments, effect.outcomes, &none)
        .filter(|_| !effect.intercepts_all_paths(set))
        .or_else(|| effect.backdoor_graph().path(effect.treatments, set, effect.passive))
        .or_else(|| graph.without_edges(&none, set).path(set, effect.outcomes, &conditioned))
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
    let (set, role) = match &query.strategy {
        Strategy::Derive => {
            return Err(Error::parameter(
                "graph",
                "none",
                "without a graph, say which columns to adjust for, the front door, or that treatments were \
                 randomized",
            ));
        }
        Strategy::Randomized => (&[][..], ADJUSTED),
        Strategy::Adjust(set) => (set.as_slice(), ADJUSTED),
        Strategy::FrontDoor(set) => (set.as_slice(), FRONT),
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
        let mut shared: Vec<String> = Vec::new();
        for name in pair[0].iter().filter(|name| pair[1].contains(name) && !excluded(name)) {
            if !shared.contains(name) {
                shared.push(name.clone());
            }
        }
        let (passive, mediators): (Vec<_>, Vec<_>) =
            shared.into_iter().partition(|name| !is_front && set.contains(name));
        if mediators.is_empty() {
            let (columns1, columns2) = (pair[0].clone(), pair[1].clone());
            return Err(Error::causal(IdentificationError::NoBridge { study: k, columns1, columns2 }));
        }
        bridges.push(Bridge { mediators, passive, unused: Vec::new() });
    }
    let strategy = match &query.strategy {
        Strategy::FrontDoor(set) => EffectStrategy::FrontDoor {
            mediators: set.clone(),
            conditioning: Vec::new(),
            alternatives: Vec::new(),
            listed: false,
        },
        Strategy::Adjust(set) => {
            EffectStrategy::BackDoor { adjust: set.clone(), alternatives: Vec::new(), listed: false }
        }
        _ => EffectStrategy::Randomized { adjust: Vec::new() },
    };
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
