//! Bridges between studies: the shared columns through which an effect passes, and the check that they carry
//! all of it.

use std::collections::BTreeMap;

use super::graph::{Graph, Nodes};
use super::identification::Bridge;
use crate::error::{Error, IdentificationError, Result};

/// Studies in a row, as the graph knows them.
pub(crate) struct StudySequence<'a> {
    pub graph: &'a Graph,
    /// The treatments that affect the outcome; empty where none does.
    pub treatments: &'a Nodes,
    /// All that are set.
    pub set: &'a Nodes,
    pub outcome: usize,
    /// The columns of each study.
    pub studies: &'a [Nodes],
    /// The variables whose mechanism differs in a study.
    pub differs: &'a BTreeMap<usize, Nodes>,
}

/// For each pair of studies the columns that link them.
pub(crate) type BridgeSets = Vec<Nodes>;

impl StudySequence<'_> {
    /// The columns that studies `k` and `k + 1` share and that can be conditioned on.
    pub fn shared(&self, k: usize) -> Nodes {
        let excluded = &Nodes::from([self.outcome]) | self.treatments;
        &(&self.studies[k] & &self.studies[k + 1]) - &excluded
    }

    /// The bridges that carry the effect, computed backwards from the outcome: shared causes of the outcome,
    /// without those that are uninformative about the later variables.
    ///
    /// That causes of the outcome are enough, and that leaving out what says nothing costs nothing, is shown
    /// in `tests/all/causal_worlds.rs` by trying all sets: a separating set exists among the shared columns
    /// if and only if those that are causes separate, and what the outcome does not depend on given the
    /// others can go (contraction).
    pub fn effect_bridges(&self) -> Result<BridgeSets> {
        let n_bridges = self.studies.len() - 1;
        let outcome = Nodes::from([self.outcome]);
        let causes = self.graph.causes(&outcome);
        let mut bridges = vec![Nodes::new(); n_bridges];
        let mut goal = outcome.clone();
        for k in (0..n_bridges).rev() {
            let shared = self.shared(k);
            if shared.is_empty() {
                return Err(self.no_bridge(k));
            }
            bridges[k] = markov_boundary_subset(self.graph, &goal, &(&shared & &causes));
            goal = bridges[k].clone();
        }
        // do-calculus, rule 3: all treatments here affect the bridge if it carries their effect, so arrows
        // into them stay.
        for (k, bridge) in bridges.iter().enumerate() {
            let before = if k == 0 { self.treatments } else { &bridges[k - 1] };
            self.screens_off(k, before, &outcome, bridge)?;
        }
        self.is_transportable(&bridges)?;
        Ok(bridges)
    }

    /// The bridges where no effect is carried: empty ones, unless populations differ in something that the
    /// outcome depends on and for which shared columns, that no treatment changes, can account.
    pub fn no_effect_bridges(&self) -> Result<BridgeSets> {
        let n_bridges = self.studies.len() - 1;
        let empty = vec![Nodes::new(); n_bridges];
        if self.is_transportable(&empty).is_ok() {
            return Ok(empty);
        }
        let outcome = Nodes::from([self.outcome]);
        let usable = &self.graph.causes(&outcome) - &self.graph.effects(self.set);
        let (mut bridges, mut goal) = (empty, outcome.clone());
        for k in (0..n_bridges).rev() {
            bridges[k] = markov_boundary_subset(self.graph, &goal, &(&self.shared(k) & &usable));
            goal = bridges[k].clone();
        }
        for k in 1..n_bridges {
            self.screens_off(k, &bridges[k - 1], &outcome, &bridges[k])?;
        }
        self.is_transportable(&bridges)?;
        Ok(bridges)
    }

    fn no_bridge(&self, k: usize) -> Error {
        let columns = |study: usize| self.graph.named(&self.studies[study]);
        Error::causal(IdentificationError::NoBridge {
            study: k,
            columns1: columns(k),
            columns2: columns(k + 1),
        })
    }

    /// Whether `outcome` depends on `on` through a bridge alone.
    fn screens_off(&self, k: usize, on: &Nodes, outcome: &Nodes, bridge: &Nodes) -> Result<()> {
        let Some(open_path) = self.graph.path(on, outcome, bridge) else { return Ok(()) };
        let excluded = &(&(bridge | on) | outcome) | self.treatments;
        let causes = &self.graph.causes(outcome) - &excluded;
        let serves = |further: &Nodes| {
            let with = &(&self.shared(k) & &self.graph.causes(outcome)) | further;
            self.graph.separated(on, outcome, &with)
        };
        Err(Error::causal(IdentificationError::Unmediated {
            study: k,
            outcome: self.graph.name(self.outcome).into(),
            on: self.graph.named(on.difference(bridge)),
            conditions: self.graph.named(bridge),
            open_path,
            would_help: helpful_variables(self.graph, &causes, serves),
        }))
    }

    /// Whether the conditional distribution that a study gives for its bridge holds in the first study's
    /// population: no difference between the two affects it.
    fn is_transportable(&self, bridges: &[Nodes]) -> Result<()> {
        let none = Nodes::new();
        for (k, bridge) in bridges.iter().enumerate() {
            let from = k + 1;
            let outcome = bridges.get(from).cloned().unwrap_or_else(|| Nodes::from([self.outcome]));
            for study in [0, from] {
                for &variable in self.differs.get(&study).unwrap_or(&none) {
                    let name = format!("[study {}]", study + 1);
                    let (graph, difference) = self.graph.with_latent_cause(&name, variable);
                    if let Some(open_path) = graph.path(&[difference].into(), &outcome, bridge) {
                        return Err(Error::causal(IdentificationError::NotTransportable {
                            from,
                            to: 0,
                            outcome: self.graph.named(&outcome),
                            conditions: self.graph.named(bridge),
                            variable: self.graph.name(variable).into(),
                            open_path,
                        }));
                    }
                }
            }
        }
        Ok(())
    }

    /// The bridges by name, split into what the treatments affect and the rest.
    pub fn named_bridges(&self, bridges: &[Nodes]) -> Vec<Bridge> {
        let effects = self.graph.effects(self.treatments);
        let named = |(k, bridge): (usize, &Nodes)| Bridge {
            mediators: self.graph.named(&(bridge & &effects)),
            passive: self.graph.named(&(bridge - &effects)),
            unused: self.graph.named(&(&self.shared(k) - bridge)),
        };
        bridges.iter().enumerate().map(named).collect()
    }
}

/// The smallest subset of candidates given which the others are independent of `goal` (its Markov boundary);
/// candidates in the goal stay.
fn markov_boundary_subset(graph: &Graph, goal: &Nodes, candidates: &Nodes) -> Nodes {
    let mut kept = candidates.clone();
    for &v in candidates.iter().filter(|v| !goal.contains(v)) {
        let mut reduced = kept.clone();
        reduced.remove(&v);
        if graph.separated(goal, &[v].into(), &reduced) {
            kept = reduced;
        }
    }
    kept
}

/// Which further variables would make `serves` true: each that does by itself; else one list that does
/// together, hidden causes among them where named ones are not enough.
pub(crate) fn helpful_variables(
    graph: &Graph,
    candidates: &Nodes,
    serves: impl Fn(&Nodes) -> bool,
) -> Vec<Vec<String>> {
    let words = |v: usize| {
        if graph.is_hidden(v) { format!("what is behind {}", graph.name(v)) } else { graph.name(v).into() }
    };
    let single_candidates = |hidden: bool| -> Vec<Vec<String>> {
        let matching = candidates.iter().copied().filter(|&v| graph.is_hidden(v) == hidden);
        matching.filter(|&v| serves(&[v].into())).map(|v| vec![words(v)]).collect()
    };
    for hidden in [false, true] {
        let single = single_candidates(hidden);
        if !single.is_empty() {
            return single;
        }
    }
    let named: Nodes = candidates.iter().copied().filter(|&v| !graph.is_hidden(v)).collect();
    for start in [&named, candidates] {
        if !serves(start) {
            continue;
        }
        let mut set = start.clone();
        for v in start {
            set.remove(v);
            if !serves(&set) {
                set.insert(*v);
            }
        }
        return vec![set.into_iter().map(words).collect()];
    }
    Vec::new()
}
