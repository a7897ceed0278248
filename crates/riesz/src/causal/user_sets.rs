//! Sets that people give: checked against a graph where there is one, else taken on trust.

use super::adjustment::Effect;
use super::assumptions::assumptions;
use super::graph::{Graph, Nodes};
use super::identification::{Bridge, How, Identification, Query, Source, Strategy};
use crate::error::{Error, IdentificationError, Result, listed};

const ADJUSTED: &str = "adjusted for";
const FRONT: &str = "a front door";

fn invalid_set_error(name: &str, role: &'static str, why: impl Into<String>) -> Error {
    Error::causal(IdentificationError::UnfitVariable { name: name.into(), role, why: why.into() })
}

/// The numbers of the columns of study 1 that are given.
fn columns(graph: &Graph, query: &Query, set: &[String], role: &'static str) -> Result<Nodes> {
    let places = graph.places(set)?;
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

/// Adjusting for a given set, and what is passive with it.
pub(super) fn check_adjustment_set(effect: &Effect<'_>, query: &Query, set: &[String]) -> Result<How> {
    let graph = effect.graph;
    let given = columns(graph, query, set, ADJUSTED)?;
    let affected = graph.effects(effect.treatments);
    for &v in &given {
        let name = graph.name(v);
        if effect.treatments.contains(&v) {
            return Err(invalid_set_error(name, ADJUSTED, "it is a treatment"));
        }
        if affected.contains(&v) {
            return Err(invalid_set_error(
                name,
                ADJUSTED,
                "it is an effect of the treatment, and would take part of that away or add to it",
            ));
        }
    }
    let (behind, with) = (effect.backdoor_graph(), &given | effect.passive);
    match behind.path(effect.treatments, effect.outcomes, &with) {
        None => Ok(How::BackDoor { adjust: graph.named(&with), others: Vec::new(), listed: false }),
        Some(open_path) => Err(Error::causal(IdentificationError::UnfitSet {
            set: graph.named(&with),
            role: "adjusting for",
            treatments: graph.named(effect.treatments),
            outcomes: graph.named(effect.outcomes),
            open_path,
            instead: effect.back_door().map(|found| graph.named(&found.sets[0])),
        })),
    }
}

/// Through a given front door.
pub(super) fn check_front_door(effect: &Effect<'_>, query: &Query, set: &[String]) -> Result<How> {
    let graph = effect.graph;
    let given = columns(graph, query, set, FRONT)?;
    for &v in &given {
        let name = graph.name(v);
        if effect.treatments.contains(&v) {
            return Err(invalid_set_error(name, FRONT, "it is a treatment"));
        }
        if effect.outcomes.contains(&v) || effect.passive.contains(&v) {
            return Err(invalid_set_error(
                name,
                FRONT,
                "it is part of what the studies share, or the outcome",
            ));
        }
    }
    if effect.front_door_holds(&given) {
        return Ok(How::FrontDoor {
            through: graph.named(&given),
            given: graph.named(effect.passive),
            others: Vec::new(),
            listed: false,
        });
    }
    Err(Error::causal(IdentificationError::UnfitSet {
        set: graph.named(&given),
        role: "a front door through",
        treatments: graph.named(effect.treatments),
        outcomes: graph.named(effect.outcomes),
        open_path: front_door_violation(effect, &given),
        instead: effect.front_door().map(|found| graph.named(&found.sets[0])),
    }))
}

/// A path that keeps a set from being a front door: one past it, or one that confounds it.
fn front_door_violation(effect: &Effect<'_>, set: &Nodes) -> String {
    let (graph, none) = (effect.graph, Nodes::new());
    let held = effect.treatments | effect.passive;
    // Among causes of the outcomes, where treatments have no causes, what is open from a treatment given
    // nothing is a directed path.
    let past = graph.cut(effect.treatments, set);
    let past = past.cut(&(&(0..graph.nodes()).collect::<Nodes>() - &past.causes(effect.outcomes)), &none);
    past.path(effect.treatments, effect.outcomes, &none)
        .filter(|_| !effect.intercepts_all_paths(set))
        .or_else(|| effect.backdoor_graph().path(effect.treatments, set, effect.passive))
        .or_else(|| graph.cut(&none, set).path(set, effect.outcomes, &held))
        .unwrap_or_default()
}

/// Without a graph: what is given is taken for right, and the answer says so.
pub(super) fn assume_without_graph(query: &Query) -> Result<Identification> {
    if let Some(names) = query.differs.values().next() {
        return Err(Error::parameter(
            "differs",
            listed(names),
            "only a graph can tell whether a difference matters",
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
    let last = query.studies.len() - 1;
    for name in &query.treatments {
        query.measured(0, name, "a treatment")?;
    }
    query.measured(last, &query.outcome, "the outcome")?;
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
    let how = match &query.strategy {
        Strategy::FrontDoor(set) => {
            How::FrontDoor { through: set.clone(), given: Vec::new(), others: Vec::new(), listed: false }
        }
        Strategy::Adjust(set) => How::BackDoor { adjust: set.clone(), others: Vec::new(), listed: false },
        _ => How::Randomized { adjust: Vec::new() },
    };
    let mut found = Identification {
        treatments: query.treatments.clone(),
        without_effect: Vec::new(),
        outcome: query.outcome.clone(),
        how,
        source: Source::User,
        bridges,
        assumptions: Vec::new(),
        unknown: Vec::new(),
    };
    found.assumptions = assumptions(&found, &query.differs);
    Ok(found)
}
