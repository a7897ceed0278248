//! Bridges between studies: the shared columns through which an effect passes, with the check that they carry
//! the whole effect.

use std::collections::BTreeMap;

use super::graph::{Graph, Nodes};
use super::identification::Bridge;
use crate::error::{Error, IdentificationError, Result};

/// A sequence of studies, with their columns as nodes of the graph.
pub(crate) struct StudySequence<'a> {
    pub graph: &'a Graph,
    /// The treatments that affect the outcome; empty if none does.
    pub treatments: &'a Nodes,
    /// All treatments that are set.
    pub set: &'a Nodes,
    pub outcome: usize,
    /// The columns of each study.
    pub studies: &'a [Nodes],
    /// The variables whose mechanism differs in a study.
    pub differs: &'a BTreeMap<usize, Nodes>,
}

/// The columns that link each study to the next.
pub(crate) type BridgeSets = Vec<Nodes>;

impl StudySequence<'_> {
    /// Returns the columns that studies `k` and `k + 1` share and that can be conditioned on.
    pub fn shared(&self, k: usize) -> Nodes {
        let excluded = &Nodes::from([self.outcome]) | self.treatments;
        &(&self.studies[k] & &self.studies[k + 1]) - &excluded
    }

    /// Returns the bridges that carry the effect, computed backwards from the outcome: shared causes of the
    /// outcome, except those that are uninformative about the later variables.
    ///
    /// Causes of the outcome are enough: a separating set exists among the shared columns if and only if
    /// those that are causes separate. Columns on which the outcome does not depend given the others can be
    /// removed (contraction). `tests/all/causal_simulations.rs` shows both by trying all sets.
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
        // Rule 3 of do-calculus: if the bridge carries the effect, all treatments affect it, so that arrows
        // into them remain.
        for (k, bridge) in bridges.iter().enumerate() {
            let before = if k == 0 { self.treatments } else { &bridges[k - 1] };
            self.screens_off(k, before, &outcome, bridge)?;
        }
        self.is_transportable(&bridges)?;
        Ok(bridges)
    }

    /// Returns the bridges if there is no effect. They are empty, unless populations differ in something on
    /// which the outcome depends. The bridges then contain shared columns that account for the difference and
    /// that no treatment changes.
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

    /// Checks that `outcome` depends on `on` only through a bridge.
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

    /// Checks that the conditional distribution of a study given its bridge is valid in the first study's
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

    /// Returns the bridges by name, split into mediators, which the treatments affect, and passive columns.
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

/// Returns the smallest subset of candidates given which the others are independent of `goal` (its Markov
/// boundary); candidates in the goal stay.
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

/// Returns further variables that would make `serves` true: each variable that does so alone, otherwise one
/// list of variables that do so together. The list contains hidden causes if named variables are not enough.
pub(crate) fn helpful_variables(
    graph: &Graph,
    candidates: &Nodes,
    serves: impl Fn(&Nodes) -> bool,
) -> Vec<Vec<String>> {
    let words = |v: usize| {
        if graph.is_hidden(v) {
            format!("the hidden common cause {}", graph.name(v))
        } else {
            graph.name(v).into()
        }
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
