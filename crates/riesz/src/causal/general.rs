//! Complete identification of P(y | do(x)) in graphs with hidden common causes.
//!
//! V are the measured causes of the outcomes Y. D are the members of V that remain causes when the treatments
//! are set. The effect is `Σ_{D∖Y} Π_i Q[D_i]` over the districts D_i of D, where `Q[C](v) = P(c | do(v∖c))`.
//! Each Q[D_i] is computed from Q[S], the observed factor of the district S of V that contains D_i. The
//! computation alternates between summing over variables that are no causes of D_i and dividing into
//! districts. If neither is possible, S and D_i form a hedge: two models agree in every distribution of the
//! measured variables and differ in P(y | do(x)).
//!
//! Source: Tian and Pearl 2002; Huang and Valtorta 2006; Shpitser and Pearl 2006, who proved completeness.

use super::formula::{EffectFormula, Formula};
use super::graph::{Graph, Nodes};
use super::projection::MixedGraph;
use crate::error::{Error, Hedge, IdentificationError, Result};

/// Maximum number of probabilities in a factor that is repeated; larger factors get a definition when they
/// are used more than once.
const MAX_REPEATED_SIZE: usize = 2;

/// Returns the distribution of some outcomes under an intervention on some treatments, as a formula of
/// measured variables. If there is no such formula, returns the hedge that proves it.
///
/// Unmeasured variables, and those that the graph declares latent, may confound and mediate; names in
/// `measured` that are not in the graph are ignored.
///
/// ```
/// use riesz::causal::{Graph, effect_formula};
///
/// let names = ["W1", "W2", "X", "Y"];
/// let napkin = Graph::parse("W1 -> W2 -> X -> Y; W1 <-> X; W1 <-> Y")?;
/// let formula = effect_formula(&napkin, &["X"], &["Y"], &names)?.map_err(|_| "not identified")?;
/// assert_eq!(
///     formula.to_string(),
///     "P(Y | do(X)) = [Σ_W1 P(W1) P(X, Y | W1, W2)] / [Σ_W1 P(W1) P(X | W1, W2)], for any value of W2"
/// );
/// let hedge = effect_formula(&Graph::parse("X -> Y; X <-> Y")?, &["X"], &["Y"], &names)?.unwrap_err();
/// assert_eq!((hedge.larger.join(" "), hedge.smaller.join(" ")), ("X Y".into(), "Y".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`IdentificationError::UnknownVariable`]; [`IdentificationError::UnfitVariable`] for a treatment or
/// outcome that is not measured; [`IdentificationError::TreatmentIsOutcome`].
pub fn effect_formula<S: AsRef<str>>(
    graph: &Graph,
    treatments: &[S],
    outcomes: &[S],
    measured: &[S],
) -> Result<std::result::Result<EffectFormula, Hedge>> {
    let (treatments, outcomes) = (graph.node_indices(treatments)?, graph.node_indices(outcomes)?);
    if let Some(&common) = treatments.intersection(&outcomes).next() {
        return Err(Error::causal(IdentificationError::TreatmentIsOutcome {
            name: graph.name(common).into(),
        }));
    }
    let measured = graph.measured(measured);
    let roles = [(&treatments, "a treatment"), (&outcomes, "an outcome")];
    for (&v, role) in roles.into_iter().flat_map(|(set, role)| set.iter().map(move |v| (v, role))) {
        if !measured.contains(&v) {
            let (name, why) = (graph.name(v).into(), "it is not measured".into());
            return Err(Error::causal(IdentificationError::UnfitVariable { name, role, why }));
        }
    }
    Ok(general(graph, &treatments, &outcomes, &measured))
}

/// Computes [`effect_formula`] for measured variables given by their indices.
pub(super) fn general(
    graph: &Graph,
    treatments: &Nodes,
    outcomes: &Nodes,
    measured: &Nodes,
) -> std::result::Result<EffectFormula, Hedge> {
    let mixed = MixedGraph::project(graph, measured);
    let order = mixed.causal_order();
    let mut search = Search { graph: &mixed, order: &order, definitions: Vec::new() };
    let formula = match search.effect(treatments, outcomes) {
        Ok(formula) => formula.merged(),
        Err((larger, smaller)) => {
            let pair = |(a, b): (usize, usize)| (graph.name(a).into(), graph.name(b).into());
            return Err(Hedge {
                treatments: graph.named(larger.intersection(treatments)),
                confounded: mixed.bidirected(&larger).into_iter().map(pair).collect(),
                larger: graph.named(&larger),
                smaller: graph.named(&smaller),
            });
        }
    };
    let definitions = search.definitions;
    let any_value = &(&formula.free() - treatments) - outcomes;
    let name = |v: &usize| graph.name(*v).to_string();
    Ok(EffectFormula {
        outcomes: graph.named(outcomes),
        treatments: graph.named(treatments),
        formula: formula.map(&name),
        definitions: definitions.iter().map(|definition| definition.map(&name)).collect(),
        any_value: graph.named(&any_value),
    })
}

/// The factor Q[T] of a set T.
enum Factor {
    /// A product over the members in causal order: the probability of each member given earlier variables.
    Chain(Vec<(usize, Formula<usize>)>),
    /// Any other formula.
    General(Formula<usize>),
}

impl Factor {
    fn formula(self) -> Formula<usize> {
        match self {
            Self::Chain(members) => Formula::product(members.into_iter().map(|(_, formula)| formula)),
            Self::General(formula) => formula,
        }
    }

    /// Returns Q[A] = Σ_{T∖A} Q[T] for an A that contains its causes in T.
    fn summed(self, over: &Nodes) -> Self {
        let Self::Chain(mut members) = self else { return Self::General(self.formula().sum(over)) };
        let mut remaining = over.clone();
        // A member on which no other member is conditioned sums to one.
        loop {
            let sums_to_one = |v: usize| {
                remaining.contains(&v)
                    && members.iter().all(|(w, factor)| *w == v || !factor.free().contains(&v))
            };
            let Some(k) = members.iter().position(|(v, _)| sums_to_one(*v)) else { break };
            remaining.remove(&members.remove(k).0);
        }
        let chain = Self::Chain(members);
        if remaining.is_empty() { chain } else { Self::General(chain.formula().sum(&remaining)) }
    }
}

/// The larger and the smaller set of a hedge.
type HedgeSets = (Nodes, Nodes);

/// A formula, or the sets of the hedge that proves that there is none.
type FormulaOrHedge = std::result::Result<Formula<usize>, HedgeSets>;

struct Search<'a> {
    graph: &'a MixedGraph,
    order: &'a [usize],
    definitions: Vec<Formula<usize>>,
}

impl Search<'_> {
    fn effect(&mut self, treatments: &Nodes, outcomes: &Nodes) -> FormulaOrHedge {
        let causes_of_outcomes = self.graph.ancestors(outcomes, &self.graph.nodes);
        let affecting = self.graph.ancestors(outcomes, &(&causes_of_outcomes - treatments));
        let mut factors = Vec::new();
        for district in self.graph.districts(self.order, &affecting) {
            let member = district.iter().copied().next();
            let observed = member.map(|v| self.graph.district(v, &causes_of_outcomes)).unwrap_or_default();
            let factor = self.observed(&observed, &causes_of_outcomes);
            factors.push(self.part(&district, observed, factor)?);
        }
        Ok(Formula::product(factors).sum(&(&affecting - outcomes)))
    }

    /// Returns Q[S] for a district S of the whole graph: each member is conditioned on the earlier variables
    /// on which it depends.
    fn observed(&self, district: &Nodes, affecting: &Nodes) -> Factor {
        let mut earlier = Nodes::new();
        let mut members = Vec::new();
        for &v in self.order.iter().filter(|v| affecting.contains(v)) {
            earlier.insert(v);
            if district.contains(&v) {
                let mut conditioning = self.graph.with_parents(&self.graph.district(v, &earlier), &earlier);
                conditioning.remove(&v);
                members.push((v, Formula::probability([v], conditioning)));
            }
        }
        Factor::Chain(members)
    }

    /// Computes Q[C] from Q[T], for districts C and T with C in T.
    fn part(&mut self, target: &Nodes, mut component: Nodes, mut factor: Factor) -> FormulaOrHedge {
        loop {
            let causes = self.graph.ancestors(target, &component);
            if causes == component && component != *target {
                return Err((component, target.clone()));
            }
            factor = factor.summed(&(&component - &causes));
            if causes == *target {
                return Ok(factor.formula());
            }
            let Some(&member) = target.iter().next() else { return Ok(factor.formula()) };
            component = self.graph.district(member, &causes);
            factor = self.divided(factor, &causes, &component);
        }
    }

    /// Computes Q[T] for a district T of the subgraph of A from Q[A]. It is the product over the members of
    /// T, in causal order, of Q[A up to the member] / Q[A before it]. Here Q of an initial part of A is the
    /// sum of Q[A] over the remaining variables.
    fn divided(&mut self, factor: Factor, affecting: &Nodes, district: &Nodes) -> Factor {
        let formula = match factor {
            factor if affecting == district => return factor,
            Factor::Chain(mut members) => {
                members.retain(|(v, _)| district.contains(v));
                return Factor::Chain(members);
            }
            Factor::General(formula) => self.define_if_large(formula),
        };
        let order: Vec<usize> = self.order.iter().copied().filter(|v| affecting.contains(v)).collect();
        let initial_part = |k: usize| formula.clone().sum(&order[k..].iter().copied().collect());
        let mut factors = Vec::new();
        let mut start = 0;
        // Quotients of consecutive members cancel.
        while start < order.len() {
            let run = order[start..].iter().take_while(|v| district.contains(v)).count();
            if run > 0 {
                let numerator = initial_part(start + run);
                factors.push(if start == 0 { numerator } else { numerator.divided_by(initial_part(start)) });
            }
            start += run.max(1);
        }
        Factor::General(Formula::product(factors))
    }

    /// Returns the formula, or a reference to its definition if it is too large to be written more than once.
    fn define_if_large(&mut self, formula: Formula<usize>) -> Formula<usize> {
        let formula = formula.merged();
        if formula.size() <= MAX_REPEATED_SIZE {
            return formula;
        }
        let arguments = formula.free().into_iter().collect();
        self.definitions.push(formula);
        Formula::Defined { index: self.definitions.len() - 1, arguments }
    }
}
