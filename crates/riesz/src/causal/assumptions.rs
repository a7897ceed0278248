//! Sentences that state the assumptions of an identification.

use std::collections::BTreeMap;

use super::identification::{EffectStrategy, Identification, Provenance};
use crate::name_lists::and;

/// Returns "is" for one name and "are" for several.
fn be(names: &[String]) -> &'static str {
    if names.len() == 1 { "is" } else { "are" }
}

/// The sentences about one identification, and the phrases that they share.
struct Sentences<'i> {
    identification: &'i Identification,
    /// Whether the identification rests on a graph, rather than on a strategy that the user states.
    has_graph: bool,
    treatments: String,
    /// The outcome, or the columns that study 1 shares with the next study.
    affected: String,
    /// "in study 1 " at the beginning of a sentence, and " in study 1" at its end; empty with a single table.
    in_study: (&'static str, &'static str),
    sentences: Vec<String>,
}

/// Returns the assumptions under which the identification is valid, beginning with the graph.
pub(super) fn assumptions(
    identification: &Identification,
    differs: &BTreeMap<usize, Vec<String>>,
) -> Vec<String> {
    let first = identification.bridges.first();
    let mut list = Sentences {
        identification,
        has_graph: identification.source != Provenance::User,
        treatments: and(&identification.treatments),
        affected: first.map_or_else(|| identification.outcome.clone(), |bridge| and(&bridge.mediators)),
        in_study: if first.is_some() { ("in study 1 ", " in study 1") } else { ("", "") },
        sentences: Vec::new(),
    };
    if list.has_graph {
        list.sentences.push("the graph is right: it lacks no arrow and no hidden common cause".into());
    }
    list.add_strategy();
    let adjust = identification.adjustment();
    if !adjust.is_empty() && !identification.is_constant() {
        list.add_overlap(&list.treatments.clone(), adjust);
    }
    let stages: Vec<String> = identification.bridges.iter().map(|bridge| and(&bridge.columns())).collect();
    if !list.has_graph && !stages.is_empty() {
        let (outcome, treatments) = (&identification.outcome, &list.treatments);
        list.sentences
            .push(format!("{outcome} depends on {treatments} only through {}", stages.join(", then ")));
    }
    for k in 0..identification.bridges.len() {
        list.add_bridge(k, differs);
    }
    list.sentences
}

impl Sentences<'_> {
    /// Adds the assumption that every value of `treatments` occurs at each value of the columns
    /// `conditioning`.
    fn add_overlap(&mut self, treatments: &str, conditioning: &[String]) {
        let (in_study, _) = self.in_study;
        self.sentences.push(format!(
            "{in_study}every value of {treatments} occurs at every value of {}",
            and(conditioning)
        ));
    }

    /// Adds the assumptions on which the identification strategy rests.
    fn add_strategy(&mut self) {
        let (treatments, affected, (_, in_study)) =
            (self.treatments.clone(), self.affected.clone(), self.in_study);
        match &self.identification.strategy {
            EffectStrategy::Constant => {}
            EffectStrategy::Randomized { .. } => {
                let was = if self.identification.treatments.len() == 1 { "was" } else { "were" };
                self.sentences.push(format!("{treatments} {was} assigned by chance{in_study}"));
            }
            EffectStrategy::Sequential { steps } => {
                let mut earlier: Vec<String> = Vec::new();
                for step in steps {
                    earlier.extend(step.adjust.iter().cloned());
                    if !earlier.is_empty() {
                        self.add_overlap(&step.treatment, &earlier);
                    }
                    earlier.push(step.treatment.clone());
                }
            }
            EffectStrategy::BackDoor { .. } if self.has_graph => {}
            EffectStrategy::BackDoor { adjust, .. } if adjust.is_empty() => {
                self.sentences.push(format!("nothing confounds {treatments} and {affected}{in_study}"));
            }
            EffectStrategy::BackDoor { adjust, .. } => {
                let (names, be) = (and(adjust), be(adjust));
                self.sentences
                    .push(format!("{names} {be} all that confounds {treatments} and {affected}{in_study}"));
                self.sentences.push(format!("{treatments} does not affect {names}"));
            }
            EffectStrategy::Formula { .. } => self
                .sentences
                .push("in study 1 every combination of values that the formula conditions on occurs".into()),
            EffectStrategy::FrontDoor { mediators, .. } => {
                let names = and(mediators);
                if !self.has_graph {
                    self.sentences.push(format!(
                        "{names} carries the whole effect of {treatments} on {affected}{in_study}, and \
                         nothing but {treatments} confounds it with either"
                    ));
                }
                self.add_overlap(&names, &self.identification.treatments);
            }
        }
    }

    /// Adds the assumption that a distribution is the same in studies 1 and k + 2.
    fn add_bridge(&mut self, k: usize, differs: &BTreeMap<usize, Vec<String>>) {
        let bridges = &self.identification.bridges;
        let quantity = bridges.get(k + 1).map_or_else(
            || format!("the mean of {}", self.identification.outcome),
            |next| format!("the distribution of {}", and(&next.columns())),
        );
        let columns = bridges[k].columns();
        let condition = if columns.is_empty() { String::new() } else { format!(" given {}", and(&columns)) };
        let mut differing: Vec<String> =
            [0, k + 1].iter().filter_map(|study| differs.get(study)).flatten().cloned().collect();
        differing.sort();
        differing.dedup();
        let exception = match differing.as_slice() {
            [] => String::new(),
            names => format!(
                ", as the only relevant difference between them is in {}, which does not change it",
                and(names)
            ),
        };
        self.sentences
            .push(format!("{quantity}{condition} is the same in studies 1 and {}{exception}", k + 2));
    }
}
