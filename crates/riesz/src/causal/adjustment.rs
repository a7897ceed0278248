//! Sets of columns that identify an effect in one study: back-door and front-door sets.

use super::graph::{Graph, Nodes, pruned};

/// Maximum number of candidates of which all sets are listed.
pub(crate) const MAX_LISTED_CANDIDATES: usize = 12;

/// The effect of some variables on others, in a study that measured some columns.
pub(crate) struct EffectGraph<'a> {
    /// The graph of this study: without arrows into randomised treatments.
    pub graph: &'a Graph,
    pub treatments: &'a Nodes,
    /// The outcomes: variables that the treatments affect.
    pub outcomes: &'a Nodes,
    /// The variables that must be conditioned on: columns that a later study conditions on too, none of them
    /// an effect of the treatments. Including them in the set gives the joint distribution p(outcomes,
    /// passive | do(treatments)) at no cost: a set Z that is valid for both jointly is valid together with
    /// them (weak union).
    pub passive: &'a Nodes,
    /// The study's columns.
    pub measured: &'a Nodes,
}

/// Adjustment sets, the default first; `is_complete` is false if there may be more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdjustmentSets {
    pub sets: Vec<Nodes>,
    pub is_complete: bool,
}

impl EffectGraph<'_> {
    /// Returns the graph without arrows out of the treatments: its open paths to the outcomes are no effect.
    pub fn backdoor_graph(&self) -> Graph {
        self.graph.without_edges(&Nodes::new(), self.treatments)
    }

    /// Returns the largest set that needs to be tested: measured causes of the treatments, the outcomes and
    /// the passive variables. If any set of allowed variables that contains the passive ones separates, this
    /// one does (van der Zander, Liśkiewicz and Textor 2019).
    pub fn largest(&self) -> Nodes {
        let related = &(self.treatments | self.outcomes) | self.passive;
        let allowed = self.measured - &(&self.graph.effects(self.treatments) | self.outcomes);
        &(&self.graph.causes(&related) & &allowed) | self.passive
    }

    /// Whether adjusting for a set of allowed variables gives the effect (Pearl's back-door criterion).
    pub fn adjusts(&self, backdoor_graph: &Graph, set: &Nodes) -> bool {
        backdoor_graph.separated(self.treatments, self.outcomes, set)
    }

    /// Whether there is a back-door or a front-door set.
    pub fn is_identified(&self) -> bool {
        self.adjusts(&self.backdoor_graph(), &self.largest()) || self.widest_front_door().is_some()
    }

    /// Returns the inclusion-minimal back-door sets, the one nearest to the outcomes first; `None` if there
    /// is none.
    pub fn back_door(&self) -> Option<AdjustmentSets> {
        let (backdoor_graph, largest) = (self.backdoor_graph(), self.largest());
        if !self.adjusts(&backdoor_graph, &largest) {
            return None;
        }
        let nearest =
            backdoor_graph.nearest_separator(self.treatments, self.outcomes, &largest, self.passive);
        let candidates: Vec<usize> = (&largest - self.passive).into_iter().collect();
        let is_complete = candidates.len() <= MAX_LISTED_CANDIDATES;
        let mut sets = vec![nearest];
        if is_complete {
            let with_passive = |chosen: Nodes| &chosen | self.passive;
            for set in
                minimal(&candidates, |chosen| self.adjusts(&backdoor_graph, &with_passive(chosen.clone())))
            {
                let set = with_passive(set);
                if set != sets[0] {
                    sets.push(set);
                }
            }
        }
        Some(AdjustmentSets { sets, is_complete })
    }

    /// Tests Pearl's front-door criterion within each value of the passive variables. The effect must pass
    /// through `set` alone. Given the passive variables, nothing may confound the treatments with `set`, and
    /// only the treatments may confound `set` with the outcomes.
    pub fn front_door_holds(&self, set: &Nodes) -> bool {
        self.intercepts_all_paths(set) && self.unconfounded_part(set).is_superset(set)
    }

    /// Whether every directed path from the treatments to the outcomes meets the set.
    pub fn intercepts_all_paths(&self, set: &Nodes) -> bool {
        self.graph.without_edges(&Nodes::new(), set).effects(self.treatments).is_disjoint(self.outcomes)
    }

    /// Returns the variables of a set that satisfy the front-door conditions other than interception. Each of
    /// these conditions holds for every member separately (composition holds for d-separation).
    pub fn unconfounded_part(&self, set: &Nodes) -> Nodes {
        let conditioned = self.treatments | self.passive;
        let (backdoor_graph, without_set_effects) =
            (self.backdoor_graph(), self.graph.without_edges(&Nodes::new(), set));
        let is_unconfounded = |v: usize| {
            let v = Nodes::from([v]);
            backdoor_graph.separated(self.treatments, &v, self.passive)
                && without_set_effects.separated(&v, self.outcomes, &conditioned)
        };
        set.iter().copied().filter(|&v| is_unconfounded(v)).collect()
    }

    /// Returns the largest front-door set; `None` if there is no front-door set.
    ///
    /// Members that fail are removed until none fails. A member that fails in a set fails in each of its
    /// subsets too, as these keep more arrows. Hence no valid set loses a member, and there is a valid set if
    /// and only if the remaining set intercepts all paths.
    pub fn widest_front_door(&self) -> Option<Nodes> {
        let mut remaining = &(self.measured - &(self.treatments | self.outcomes)) - self.passive;
        loop {
            let unconfounded = self.unconfounded_part(&remaining);
            if unconfounded == remaining {
                break;
            }
            remaining = unconfounded;
        }
        self.intercepts_all_paths(&remaining).then_some(remaining)
    }

    /// Returns front-door sets of which none contains another, smallest first; `None` if there is none.
    pub fn front_door(&self) -> Option<AdjustmentSets> {
        let widest = self.widest_front_door()?;
        let candidates: Vec<usize> = widest.iter().copied().collect();
        if candidates.len() <= MAX_LISTED_CANDIDATES {
            let sets = minimal(&candidates, |set| self.front_door_holds(set));
            return Some(AdjustmentSets { sets, is_complete: true });
        }
        let minimal = pruned(widest, candidates, |_, smaller| self.front_door_holds(smaller));
        Some(AdjustmentSets { sets: vec![minimal], is_complete: false })
    }
}

/// Returns all sets of candidates for which `holds` is true and false for every proper subset. They are
/// ordered by size, then in the variables' order.
fn minimal(candidates: &[usize], holds: impl Fn(&Nodes) -> bool) -> Vec<Nodes> {
    let chosen = |mask: u32| -> Nodes {
        candidates.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, &v)| v).collect()
    };
    let mut subsets: Vec<Nodes> = (0..1_u32 << candidates.len()).map(chosen).collect();
    subsets.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    let mut accepted: Vec<Nodes> = Vec::new();
    for set in subsets {
        if !accepted.iter().any(|subset| subset.is_subset(&set)) && holds(&set) {
            accepted.push(set);
        }
    }
    accepted
}
