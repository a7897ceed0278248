//! What an answer rests on, in words.

use std::collections::BTreeMap;

use super::identification::{How, Identification, Source};
use crate::refusal::and;

/// Whether one or several ("is", "are").
fn be(names: &[String]) -> &'static str {
    if names.len() == 1 { "is" } else { "are" }
}

/// Everything that must hold for the answer to be right, what the graph says first.
pub(super) fn assumptions(found: &Identification, differs: &BTreeMap<usize, Vec<String>>) -> Vec<String> {
    let mut said = Vec::new();
    let by_graph = found.source != Source::User;
    if by_graph {
        said.push("the graph is right: it lacks no arrow and no hidden common cause".into());
    }
    let (treatments, outcome) = (and(&found.treatments), &found.outcome);
    let first = found.bridges.first();
    // A single table needs no number.
    let within = if first.is_some() { "in study 1 " } else { "" };
    let of_study = if first.is_some() { " in study 1" } else { "" };
    let affected = first.map_or_else(|| outcome.clone(), |bridge| and(&bridge.mediators));
    match &found.how {
        How::Constant => {}
        How::Randomized { .. } => {
            said.push(format!(
                "{treatments} {} assigned by chance{of_study}",
                if found.treatments.len() == 1 { "was" } else { "were" }
            ));
        }
        How::Sequential { steps } => {
            let mut before: Vec<String> = Vec::new();
            for step in steps {
                before.extend(step.adjust.iter().cloned());
                if !before.is_empty() {
                    said.push(format!(
                        "{within}every value of {} occurs at every value of {}",
                        step.treatment,
                        and(&before)
                    ));
                }
                before.push(step.treatment.clone());
            }
        }
        How::BackDoor { adjust, .. } => {
            if !by_graph {
                let all = if adjust.is_empty() {
                    "nothing confounds".into()
                } else {
                    format!("{} {} all that confounds", and(adjust), be(adjust))
                };
                said.push(format!("{all} {treatments} and {affected}{of_study}"));
            }
            if !adjust.is_empty() && !by_graph {
                said.push(format!("{treatments} does not affect {}", and(adjust)));
            }
        }
        How::Formula { .. } => {
            said.push("in study 1 every combination of values that the formula conditions on occurs".into())
        }
        How::FrontDoor { through, .. } => {
            if !by_graph {
                said.push(format!(
                    "{} carries the whole effect of {treatments} on {affected}{of_study}, and \
                                   nothing but {treatments} confounds it with either",
                    and(through)
                ));
            }
            said.push(format!(
                "{within}every value of {} occurs at every value of {treatments}",
                and(through)
            ));
        }
    }
    let adjust = found.adjustment();
    if !adjust.is_empty() && !found.is_constant() {
        said.push(format!("{within}every value of {treatments} occurs at every value of {}", and(adjust)));
    }
    if !by_graph {
        let stages: Vec<String> = found.bridges.iter().map(|bridge| and(&bridge.columns())).collect();
        if !stages.is_empty() {
            said.push(format!("{outcome} depends on {treatments} only through {}", stages.join(", then ")));
        }
    }
    for (k, bridge) in found.bridges.iter().enumerate() {
        let next = found.bridges.get(k + 1).map(|next| and(&next.columns()));
        let what = next
            .map_or_else(|| format!("the mean of {outcome}"), |next| format!("the distribution of {next}"));
        let columns = bridge.columns();
        let given = if columns.is_empty() { String::new() } else { format!(" given {}", and(&columns)) };
        let mut apart: Vec<String> =
            [0, k + 1].iter().filter_map(|study| differs.get(study)).flatten().cloned().collect();
        apart.sort();
        apart.dedup();
        let apart = match apart.as_slice() {
            [] => String::new(),
            names => format!(
                ", as they differ in nothing that matters but {}, which does not change it",
                and(names)
            ),
        };
        said.push(format!("{what}{given} is the same in studies 1 and {}{apart}", k + 2));
    }
    said
}
