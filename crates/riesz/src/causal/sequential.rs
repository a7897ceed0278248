//! Sequential back-door adjustment: the joint effect of several treatments, some of which may affect the
//! confounders of later ones (time-varying confounding).
//!
//! Treatments X_1, …, X_n in causal order have an admissible sequence of covariate sets Z_1, …, Z_n if two
//! conditions hold for each k. Z_k contains no effect of X_k, …, X_n. Y is independent of X_k given X_1, …,
//! X_{k-1} and Z_1, …, Z_k in the graph without arrows out of X_k and without arrows into X_{k+1}, …, X_n.
//! The effect is then the g-formula
//!
//! ```text
//! P(y | do(x_1, …, x_n))
//!     = Σ_{z_1 … z_n} P(y | x_1 … x_n, z_1 … z_n) Π_k P(z_k | x_1 … x_{k-1}, z_1 … z_{k-1})
//! ```
//!
//! Source: Pearl and Robins 1995, theorems 1 to 3; Robins 1986.

use serde::{Deserialize, Serialize};

use super::graph::{Graph, Nodes, pruned, without_node};
use crate::error::Result;

/// Maximum number of causal orders that are tried: all orders of six treatments of which none causes another.
const ORDERS: usize = 720;

/// One step of a sequential adjustment: a treatment, and the covariates that are measured before it and added
/// to the covariates of earlier steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequentialStep {
    /// The treatment X_k of this step.
    pub treatment: String,
    /// The covariates Z_k of this step, none of which is in an earlier step.
    pub adjust: Vec<String>,
}

/// Returns a sequence of covariate sets that identifies the joint effect of `treatments` on `outcome` by the
/// g-formula, in the causal order of the treatments; `None` if there is no such sequence.
///
/// `measured` are the columns of the study; names that are not in the graph, and variables that it declares
/// latent, are ignored. The steps contain the treatments that affect the outcome when all treatments are set;
/// the g-formula omits the others. There are no steps if no treatment affects the outcome, which then has its
/// observed distribution. All members of each set are necessary for its step.
///
/// The conditioning sets accumulate. For steps (A0, {L0}) and (A1, {L1}) the effect is `E[Y | do(a0, a1)] =
/// Σ_l0 P(l0) Σ_l1 P(l1 | a0, l0) E[Y | a0, a1, l0, l1]`. A step with an empty set adds no sum. If all sets
/// after the first are empty, the first is an ordinary back-door set.
///
/// All causal orders are tried for up to six treatments of which none causes another, and 720 orders for
/// more. Cost: O(variables · (variables + arrows)) per treatment and order.
///
/// ```
/// use riesz::causal::{Graph, sequential_adjustment};
///
/// let graph = Graph::parse("L0 -> A0, L1, Y; A0 -> L1, Y; L1 -> A1, Y; A1 -> Y; L1 <-> Y")?;
/// let steps = sequential_adjustment(&graph, &["A0", "A1"], "Y", &["L0", "A0", "L1", "A1", "Y"])?;
/// let steps = steps.ok_or("not identified")?;
/// assert_eq!((&steps[0].treatment[..], &steps[0].adjust[..]), ("A0", &["L0".to_string()][..]));
/// assert_eq!((&steps[1].treatment[..], &steps[1].adjust[..]), ("A1", &["L1".to_string()][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`IdentificationError::UnknownVariable`](crate::causal::IdentificationError::UnknownVariable) for a
/// treatment or outcome.
pub fn sequential_adjustment<S: AsRef<str>>(
    graph: &Graph,
    treatments: &[S],
    outcome: &str,
    measured: &[S],
) -> Result<Option<Vec<SequentialStep>>> {
    let (set, outcome) = (graph.node_indices(treatments)?, graph.node_index(outcome)?);
    Ok(admissible_sequence(graph, &graph.with_effect(&set, outcome), outcome, &graph.measured(measured)))
}

/// Returns the treatments in causal order, each with its covariates; `None` if no order has an admissible
/// sequence.
pub(crate) fn admissible_sequence(
    graph: &Graph,
    treatments: &Nodes,
    outcome: usize,
    measured: &Nodes,
) -> Option<Vec<SequentialStep>> {
    causal_orders(graph, treatments)
        .into_iter()
        .find_map(|order| admissible_in_order(graph, &order, outcome, measured))
}

/// Returns the orders of the treatments in which every treatment comes after its causes.
fn causal_orders(graph: &Graph, treatments: &Nodes) -> Vec<Vec<usize>> {
    let mut complete = Vec::new();
    let mut partial_orders: Vec<Vec<usize>> = vec![Vec::new()];
    while let Some(order) = partial_orders.pop() {
        if order.len() == treatments.len() {
            complete.push(order);
            if complete.len() == ORDERS {
                break;
            }
            continue;
        }
        let remaining: Nodes = treatments.iter().copied().filter(|v| !order.contains(v)).collect();
        let is_next = |v: usize| graph.causes(&[v].into()).intersection(&remaining).count() == 1;
        let next: Vec<usize> = remaining.iter().copied().filter(|&v| is_next(v)).collect();
        // The stack returns the last element first: orders come in the graph's order of variables.
        for v in next.into_iter().rev() {
            partial_orders.push(order.iter().copied().chain([v]).collect());
        }
    }
    complete
}

/// Returns the covariates of each treatment in a given order.
///
/// Minimal sets for the first treatments never remove admissible sets of later treatments (theorem 2 of Pearl
/// and Robins), so that no search is needed.
fn admissible_in_order(
    graph: &Graph,
    order: &[usize],
    outcome: usize,
    measured: &Nodes,
) -> Option<Vec<SequentialStep>> {
    let outcomes = Nodes::from([outcome]);
    let (mut conditioned, mut steps) = (Nodes::new(), Vec::new());
    for (k, &treatment) in order.iter().enumerate() {
        let later: Nodes = order[k + 1..].iter().copied().collect();
        let treatment_set = Nodes::from([treatment]);
        let backdoor_graph = graph.without_edges(&later, &treatment_set);
        // If any allowed set separates, the allowed causes of the separated and the conditioned variables do.
        let relevant = backdoor_graph.causes(&(&(&treatment_set | &outcomes) | &conditioned));
        let allowed = &(measured - &graph.effects(&(&treatment_set | &later))) - &(&conditioned | &outcomes);
        let adjust: Nodes = &allowed & &relevant;
        let separates =
            |adjust: &Nodes| backdoor_graph.separated(&treatment_set, &outcomes, &(adjust | &conditioned));
        if !separates(&adjust) {
            return None;
        }
        // Variables that are separated from the outcome are removed first, so that the sets stay near the
        // outcome.
        let is_dependent = |v: usize| {
            !backdoor_graph.separated(&outcomes, &[v].into(), &(&without_node(&adjust, v) | &conditioned))
        };
        let (dependent, independent): (Vec<usize>, Vec<usize>) =
            adjust.iter().copied().partition(|&v| is_dependent(v));
        let adjust =
            pruned(adjust, independent.into_iter().chain(dependent), |_, smaller| separates(smaller));
        conditioned.extend(&adjust);
        conditioned.insert(treatment);
        steps.push(SequentialStep { treatment: graph.name(treatment).into(), adjust: graph.named(&adjust) });
    }
    Some(steps)
}
