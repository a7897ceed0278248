//! Identification of an effect across studies from a graph and the measured columns.

use std::collections::BTreeMap;

use super::adjustment::{AdjustmentSets, EffectGraph};
use super::assumptions::assumptions;
use super::general::general;
use super::graph::{Graph, Nodes};
use super::identification::{CausalQuery, EffectStrategy, Identification, Provenance, Strategy};
use super::instrument;
use super::names::distinct;
use super::sequential::{SequentialStep, admissible_sequence};
use super::transport_bridges::{StudySequence, helpful_variables};
use super::user_sets;
use crate::error::{Error, Hedge, IdentificationError, Result, listed};

/// Identifies `E[outcome | do(treatments)]` from studies that measured different columns, or explains why it
/// is not identified.
///
/// 1. Treatments that do not affect the outcome when the others are set are separated. If no treatment
///    affects it, its mean is constant.
/// 2. The *bridge* between a study and the next consists of shared columns: causes of the outcome on which it
///    depends. It contains mediators, which the treatments affect, and passive columns. The outcome must be
///    independent of the treatments given the first bridge (do-calculus, rule 3), and of every bridge given
///    the next. Differences between populations must be independent of a study's outcome given its bridge.
/// 3. The effect on the mediators in the first study follows by adjusting for causes, including passive
///    columns (back-door). Otherwise it follows through columns that carry all of it (front-door). In a
///    single study with several treatments it may also follow by adjusting before each treatment for its
///    confounders (sequential back-door). If none of these applies, the complete algorithm
///    ([`effect_formula`](super::effect_formula)) searches for another formula of the first study's columns.
///    Such a formula is reported ([`EffectStrategy::Formula`](crate::causal::EffectStrategy::Formula)) but
///    not estimated. If there is none, a hedge is the reason ([`IdentificationError::NotIdentified`]).
///
/// A variable is unmeasured in a study that has no column of its name, and in all studies if the graph
/// declares it latent. Randomised treatments are randomised in the first study only; elsewhere people choose
/// them as in the graph.
///
/// ```
/// use riesz::causal::{CausalQuery, Graph, identify};
///
/// let graph = Graph::parse("age -> statin; age -> psa; bmi -> statin; bmi -> psa; statin -> psa; psa -> volume")?;
/// let columns = |names: &str| names.split(' ').map(String::from).collect::<Vec<_>>();
/// let query = CausalQuery {
///     treatments: columns("statin"),
///     outcome: "volume".into(),
///     studies: vec![columns("statin age bmi psa"), columns("psa volume")],
///     ..CausalQuery::default()
/// };
/// let identification = identify(Some(&graph), &query)?;
/// assert_eq!(identification.adjustment(), ["age", "bmi"]);
/// assert_eq!(identification.to_string(), "back-door, adjusting for age and bmi; volume depends on statin only through psa");
///
/// let blind = CausalQuery { studies: vec![columns("statin age psa"), columns("psa volume")], ..query };
/// let refused = identify(Some(&graph), &blind).unwrap_err().to_string();
/// assert!(refused.ends_with("statin <- bmi -> psa stays open; measuring bmi in study 1 would help"));
/// # Ok::<(), riesz::Error>(())
/// ```
///
/// # Errors
/// [`Error::Causal`] with every [`IdentificationError`]; [`Error::TooFew`] without studies or treatments;
/// [`Error::DuplicateName`]; [`Error::Parameter`] if `differs` names a study that does not exist, or if there
/// is neither a graph nor a set.
pub fn identify(graph: Option<&Graph>, query: &CausalQuery) -> Result<Identification> {
    if query.studies.is_empty() {
        return Err(Error::too_few("the list of studies", 1, "study is"));
    }
    if query.treatments.is_empty() {
        return Err(Error::too_few("the list of treatments", 1, "treatment is"));
    }
    for (i, name) in query.treatments.iter().enumerate() {
        if query.treatments[..i].contains(name) {
            return Err(Error::DuplicateName { name: name.clone() });
        }
    }
    if query.treatments.contains(&query.outcome) {
        return Err(Error::causal(IdentificationError::TreatmentIsOutcome { name: query.outcome.clone() }));
    }
    for (study, names) in &query.differs {
        if *study >= query.studies.len() || query.studies.len() < 2 {
            let allowed = match query.studies.len() {
                1 => "there is one study, so that no other one can differ".into(),
                count => format!("studies are numbered from 1 to {count}"),
            };
            return Err(Error::parameter("differs", format!("{}: {}", study + 1, listed(names)), allowed));
        }
    }
    match graph {
        Some(graph) => identify_by_graph(graph, query),
        None => user_sets::assume_without_graph(query),
    }
}

fn identify_by_graph(graph: &Graph, query: &CausalQuery) -> Result<Identification> {
    let (set, outcome) = (graph.node_indices(&query.treatments)?, graph.node_index(&query.outcome)?);
    let studies: Vec<Nodes> = query.studies.iter().map(|columns| graph.measured(columns)).collect();
    let differs = query.differs.iter().map(|(&study, names)| Ok((study, graph.node_indices(names)?)));
    let differs = differs.collect::<Result<BTreeMap<_, _>>>()?;
    let treatments = graph.with_effect(&set, outcome);
    check_measured(graph, query, &treatments, outcome)?;
    let chain = StudySequence {
        graph,
        treatments: &treatments,
        set: &set,
        outcome,
        studies: &studies,
        differs: &differs,
    };
    let bridges = if treatments.is_empty() { chain.no_effect_bridges()? } else { chain.effect_bridges()? };
    let affected = graph.effects(&treatments);
    let (outcomes, passive) = match bridges.first() {
        None => (Nodes::from([outcome]), Nodes::new()),
        Some(bridge) => (bridge & &affected, bridge - &affected),
    };
    let randomized = query.strategy == Strategy::Randomized;
    let study_graph =
        if randomized { graph.without_edges(&treatments, &Nodes::new()) } else { graph.clone() };
    let effect = EffectGraph {
        graph: &study_graph,
        treatments: &treatments,
        outcomes: &outcomes,
        passive: &passive,
        measured: &studies[0],
    };
    let (strategy, source) = choose_strategy(&effect, query, bridges.is_empty())?;
    let in_query_order = |nodes: &Nodes| -> Vec<String> {
        query
            .treatments
            .iter()
            .filter(|name| graph.find_node(name).is_some_and(|v| nodes.contains(&v)))
            .cloned()
            .collect()
    };
    let mut identification = Identification {
        treatments: in_query_order(&treatments),
        without_effect: in_query_order(&(&set - &treatments)),
        outcome: query.outcome.clone(),
        strategy,
        source,
        bridges: chain.named_bridges(&bridges),
        assumptions: Vec::new(),
        unknown: distinct(query.studies.iter().flatten().filter(|name| graph.find_node(name).is_none())),
    };
    identification.assumptions = assumptions(&identification, &query.differs);
    Ok(identification)
}

/// Checks that the first study measured the treatments, and the last one the outcome.
fn check_measured(graph: &Graph, query: &CausalQuery, treatments: &Nodes, outcome: usize) -> Result<()> {
    let last_study = query.studies.len() - 1;
    for (study, v, role) in
        treatments.iter().map(|&v| (0, v, "a treatment")).chain([(last_study, outcome, "the outcome")])
    {
        user_sets::check_measured(graph, query, study, v, role)?;
    }
    Ok(())
}

/// Returns the strategy that the query requests, or else derives one, and its source.
fn choose_strategy(
    effect: &EffectGraph<'_>,
    query: &CausalQuery,
    single_study: bool,
) -> Result<(EffectStrategy, Provenance)> {
    Ok(match &query.strategy {
        _ if effect.treatments.is_empty() => (EffectStrategy::Constant, Provenance::Graph),
        Strategy::Derive => (strategy_from_graph(effect, single_study)?, Provenance::Graph),
        Strategy::Randomized => {
            (EffectStrategy::Randomized { adjust: effect.graph.named(effect.passive) }, Provenance::Graph)
        }
        Strategy::Adjust(set) => {
            (user_sets::check_adjustment_set(effect, query, set)?, Provenance::Confirmed)
        }
        Strategy::FrontDoor(set) => (user_sets::check_front_door(effect, query, set)?, Provenance::Confirmed),
    })
}

/// Derives the strategy: back-door, otherwise front-door, otherwise sequential adjustment in a single study.
fn strategy_from_graph(effect: &EffectGraph<'_>, single_study: bool) -> Result<EffectStrategy> {
    let graph = effect.graph;
    let named_sets = |sets: &AdjustmentSets| -> (Vec<String>, Vec<Vec<String>>) {
        (graph.named(&sets.sets[0]), sets.sets[1..].iter().map(|set| graph.named(set)).collect())
    };
    if let Some(sets) = effect.back_door() {
        let (adjust, alternatives) = named_sets(&sets);
        return Ok(EffectStrategy::BackDoor { adjust, alternatives, listed: sets.is_complete });
    }
    if let Some(sets) = effect.front_door() {
        let (mediators, alternatives) = named_sets(&sets);
        return Ok(EffectStrategy::FrontDoor {
            mediators,
            conditioning: graph.named(effect.passive),
            alternatives,
            listed: sets.is_complete,
        });
    }
    if let Some(steps) = sequence(effect, single_study) {
        return Ok(EffectStrategy::Sequential { steps });
    }
    let affected = effect.outcomes | effect.passive;
    match general(graph, effect.treatments, &affected, effect.measured) {
        Ok(expression) => Ok(EffectStrategy::Formula {
            formula: expression.to_string(),
            expression,
            would_help: would_help(effect, single_study),
        }),
        Err(hedge) => Err(not_identified(effect, single_study, hedge)),
    }
}

/// Returns lists of variables, each of which would give an adjustment if it were measured too.
fn would_help(effect: &EffectGraph<'_>, single_study: bool) -> Vec<Vec<String>> {
    let all_nodes: Nodes = (0..effect.graph.nodes()).collect();
    let excluded = &(effect.measured | effect.treatments) | effect.outcomes;
    let suffices = |further: &Nodes| {
        let measured = effect.measured | further;
        let extended = EffectGraph { measured: &measured, ..*effect };
        extended.is_identified() || sequence(&extended, single_study).is_some()
    };
    helpful_variables(effect.graph, &(&all_nodes - &excluded), suffices)
}

/// Returns the treatments in causal order, each with the covariates that are adjusted for before it; `None`
/// if the outcome is not in the same study.
fn sequence(effect: &EffectGraph<'_>, single_study: bool) -> Option<Vec<SequentialStep>> {
    let outcome = *effect.outcomes.iter().next().filter(|_| single_study)?;
    admissible_sequence(effect.graph, effect.treatments, outcome, effect.measured)
}

fn not_identified(effect: &EffectGraph<'_>, single_study: bool, hedge: Hedge) -> Error {
    let graph = effect.graph;
    let (backdoor_graph, largest) = (effect.backdoor_graph(), effect.largest());
    let mut open_paths: Vec<String> = Vec::new();
    for &outcome in effect.outcomes {
        let path = backdoor_graph.path(effect.treatments, &[outcome].into(), &largest);
        open_paths.extend(path.filter(|path| !open_paths.contains(path)));
    }
    let adjusted = graph.named(&largest);
    let why = if adjusted.is_empty() {
        "neither by back-door (no column could be adjusted for) nor by front-door".into()
    } else {
        format!(
            "neither by back-door (adjusting for {}) nor by front-door",
            crate::name_lists::and(&adjusted)
        )
    };
    let mut pairs = effect.treatments.iter().zip(effect.outcomes);
    let is_single_pair = effect.treatments.len() == 1 && effect.outcomes.len() == 1;
    let instrument = pairs
        .next()
        .filter(|_| is_single_pair)
        .and_then(|(&x, &y)| instrument::find(graph, x, y, effect.measured));
    Error::causal(IdentificationError::NotIdentified {
        treatments: graph.named(effect.treatments),
        outcomes: graph.named(effect.outcomes),
        why,
        open_paths,
        would_help: would_help(effect, single_study),
        hedge,
        instrument,
    })
}
