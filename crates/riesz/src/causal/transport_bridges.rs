//! Bridges between studies: the shared columns through which an effect passes, with the check that they carry
//! the whole effect.

use std::collections::BTreeMap;

use super::graph::{Graph, Nodes, pruned};
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
        if let Some(study) = (0..self.studies.len() - 1).rev().find(|&k| self.shared(k).is_empty()) {
            let [columns1, columns2] = [study, study + 1].map(|k| self.graph.named(&self.studies[k]));
            return Err(Error::causal(IdentificationError::NoBridge { study, columns1, columns2 }));
        }
        self.checked_bridges(&self.graph.causes(&[self.outcome].into()))
    }

    /// Returns the bridges if there is no effect. They are empty, unless populations differ in something on
    /// which the outcome depends. The bridges then contain shared columns that account for the difference and
    /// that no treatment changes.
    pub fn no_effect_bridges(&self) -> Result<BridgeSets> {
        let empty = vec![Nodes::new(); self.studies.len() - 1];
        if self.is_transportable(&empty).is_ok() {
            return Ok(empty);
        }
        self.checked_bridges(&(&self.graph.causes(&[self.outcome].into()) - &self.graph.effects(self.set)))
    }

    /// Returns the shared columns among `usable` that are informative about the later variables, computed
    /// backwards from the outcome, after checking that they are bridges.
    fn checked_bridges(&self, usable: &Nodes) -> Result<BridgeSets> {
        let outcome = Nodes::from([self.outcome]);
        let mut bridges = vec![Nodes::new(); self.studies.len() - 1];
        let mut goal = outcome.clone();
        for k in (0..bridges.len()).rev() {
            bridges[k] = markov_boundary_subset(self.graph, &goal, &(&self.shared(k) & usable));
            goal = bridges[k].clone();
        }
        // Rule 3 of do-calculus: if the bridge carries the effect, all treatments affect it, so that arrows
        // into them remain. Without an effect there are no treatments here.
        for (k, bridge) in bridges.iter().enumerate() {
            let previous_bridge = if k == 0 { self.treatments } else { &bridges[k - 1] };
            self.screens_off(k, previous_bridge, &outcome, bridge)?;
        }
        self.is_transportable(&bridges)?;
        Ok(bridges)
    }

    /// Checks that `outcome` depends on `sources` only through a bridge.
    fn screens_off(&self, k: usize, sources: &Nodes, outcome: &Nodes, bridge: &Nodes) -> Result<()> {
        let Some(open_path) = self.graph.path(sources, outcome, bridge) else { return Ok(()) };
        let excluded = &(&(bridge | sources) | outcome) | self.treatments;
        let causes = &self.graph.causes(outcome) - &excluded;
        let suffices = |further: &Nodes| {
            let conditioning = &(&self.shared(k) & &self.graph.causes(outcome)) | further;
            self.graph.separated(sources, outcome, &conditioning)
        };
        Err(Error::causal(IdentificationError::Unmediated {
            study: k,
            outcome: self.graph.name(self.outcome).into(),
            on: self.graph.named(sources.difference(bridge)),
            conditions: self.graph.named(bridge),
            open_path,
            would_help: helpful_variables(self.graph, &causes, suffices),
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
    pruned(candidates.clone(), candidates - goal, |v, smaller| graph.separated(goal, &[v].into(), smaller))
}

/// Returns further variables that would make `suffices` true: each variable that does so alone, otherwise one
/// list of variables that do so together. The list contains hidden causes if named variables are not enough.
pub(crate) fn helpful_variables(
    graph: &Graph,
    candidates: &Nodes,
    suffices: impl Fn(&Nodes) -> bool,
) -> Vec<Vec<String>> {
    let label = |v: usize| {
        if graph.is_hidden(v) {
            format!("the hidden common cause {}", graph.name(v))
        } else {
            graph.name(v).into()
        }
    };
    for hidden in [false, true] {
        let matching = candidates.iter().copied().filter(|&v| graph.is_hidden(v) == hidden);
        let sufficient = matching.filter(|&v| suffices(&[v].into()));
        let single: Vec<Vec<String>> = sufficient.map(|v| vec![label(v)]).collect();
        if !single.is_empty() {
            return single;
        }
    }
    let named: Nodes = candidates.iter().copied().filter(|&v| !graph.is_hidden(v)).collect();
    for start in [&named, candidates] {
        if !suffices(start) {
            continue;
        }
        let set = pruned(start.clone(), start.iter().copied(), |_, smaller| suffices(smaller));
        return vec![set.into_iter().map(label).collect()];
    }
    Vec::new()
}
