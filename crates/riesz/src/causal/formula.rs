//! Formulas that express an effect by conditional probabilities of measured variables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// A formula of sums, products and quotients of conditional probabilities. Each variable in it represents a
/// value of that variable. A sum binds its variables within its body, regardless of their values outside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Formula<V = String> {
    /// The probability of the values of some variables given those of others.
    Probability {
        /// The variables.
        #[serde(rename = "of")]
        variables: Vec<V>,
        /// The conditioning variables.
        #[serde(rename = "given")]
        conditioning: Vec<V>,
    },
    /// The sum of a formula over all values of some variables.
    Sum {
        /// The variables.
        over: Vec<V>,
        /// The summand.
        body: Box<Formula<V>>,
    },
    /// The product of formulas.
    Product(Vec<Formula<V>>),
    /// A formula divided by another.
    Quotient {
        /// The formula.
        numerator: Box<Formula<V>>,
        /// The denominator.
        denominator: Box<Formula<V>>,
    },
    /// A formula that is defined separately because it occurs several times: see
    /// [`EffectFormula::definitions`].
    Defined {
        /// Its index among the definitions, from 0.
        index: usize,
        /// The variables on whose values it depends.
        arguments: Vec<V>,
    },
}

/// The distribution of outcomes under an intervention, as a simplified [`Formula`] of measured variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectFormula {
    /// The outcomes, whose joint distribution the formula gives.
    pub outcomes: Vec<String>,
    /// The treatments, which are set to values.
    pub treatments: Vec<String>,
    /// The distribution.
    pub formula: Formula,
    /// The formulas to which [`Formula::Defined`] refers; a definition refers only to earlier ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<Formula>,
    /// Variables on which the formula depends in form only: its value is the same for all their values.
    pub any_value: Vec<String>,
}

impl<V: Ord + Clone> Formula<V> {
    /// Returns the probability of some variables given others.
    pub(super) fn probability(
        variables: impl IntoIterator<Item = V>,
        conditioning: impl IntoIterator<Item = V>,
    ) -> Self {
        Self::Probability {
            variables: variables.into_iter().collect(),
            conditioning: conditioning.into_iter().collect(),
        }
    }

    /// Returns the free variables, which are all variables that no sum binds.
    pub fn free(&self) -> BTreeSet<V> {
        match self {
            Self::Probability { variables, conditioning } => {
                variables.iter().chain(conditioning).cloned().collect()
            }
            Self::Sum { over, body } => {
                let mut free = body.free();
                free.retain(|v| !over.contains(v));
                free
            }
            Self::Product(factors) => factors.iter().flat_map(Self::free).collect(),
            Self::Quotient { numerator, denominator } => {
                numerator.free().into_iter().chain(denominator.free()).collect()
            }
            Self::Defined { arguments, .. } => arguments.iter().cloned().collect(),
        }
    }

    /// Returns the number of probabilities and references in the formula.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Probability { .. } | Self::Defined { .. } => 1,
            Self::Sum { body, .. } => body.size(),
            Self::Product(factors) => factors.iter().map(Self::size).sum(),
            Self::Quotient { numerator, denominator } => numerator.size() + denominator.size(),
        }
    }

    /// Returns the product of formulas, with nested products flattened.
    pub(super) fn product(factors: impl IntoIterator<Item = Self>) -> Self {
        let mut flat = Vec::new();
        for factor in factors {
            match factor {
                Self::Product(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        if flat.len() == 1 { flat.remove(0) } else { Self::Product(flat) }
    }

    /// Returns the sum of this formula over some variables. A probability sums to one over its own variables
    /// if no other factor contains them.
    pub(super) fn sum(self, over: &BTreeSet<V>) -> Self {
        let mut over = over.clone();
        let mut body = self;
        if let Self::Sum { over: inner, body: inner_body } = &body
            && inner.iter().all(|v| !over.contains(v))
        {
            over.extend(inner.iter().cloned());
            body = (**inner_body).clone();
        }
        let mut factors = match body {
            Self::Product(factors) => factors,
            other => vec![other],
        };
        while let Some((i, v)) = summand(&factors, &over) {
            over.remove(&v);
            match &mut factors[i] {
                Self::Probability { variables, .. } if variables.len() > 1 => variables.retain(|w| *w != v),
                _ => drop(factors.remove(i)),
            }
        }
        let body = Self::product(factors);
        if over.is_empty() { body } else { Self::Sum { over: over.into_iter().collect(), body: body.into() } }
    }

    /// Returns this formula divided by another.
    pub(super) fn divided_by(self, denominator: Self) -> Self {
        let divided = match &denominator {
            Self::Product(factors) if factors.is_empty() => return self,
            Self::Probability { variables, conditioning } => self.conditioned(variables, conditioning),
            _ => None,
        };
        divided.unwrap_or_else(|| Self::Quotient { numerator: self.into(), denominator: denominator.into() })
    }

    /// Returns the formula divided by P(divisor | conditioning), if one of its factors is P(divisor, rest |
    /// conditioning): that factor becomes P(rest | divisor, conditioning).
    fn conditioned(&self, divisor: &[V], conditioning: &[V]) -> Option<Self> {
        match self {
            Self::Probability { variables, conditioning: factor_conditioning } => {
                let conditions: BTreeSet<V> = conditioning.iter().cloned().collect();
                let same_conditions =
                    factor_conditioning.iter().cloned().collect::<BTreeSet<V>>() == conditions;
                if !same_conditions || divisor.iter().any(|v| !variables.contains(v)) {
                    return None;
                }
                let other_variables: Vec<V> =
                    variables.iter().filter(|v| !divisor.contains(v)).cloned().collect();
                let conditions = divisor.iter().cloned().chain(conditions).collect::<BTreeSet<V>>();
                Some(if other_variables.is_empty() {
                    Self::Product(Vec::new())
                } else {
                    Self::probability(other_variables, conditions)
                })
            }
            Self::Product(factors) => {
                let divided = |i: usize| Some((i, factors[i].conditioned(divisor, conditioning)?));
                let (i, divided) = (0..factors.len()).find_map(divided)?;
                let mut factors = factors.clone();
                factors[i] = divided;
                Some(Self::product(factors))
            }
            Self::Sum { over, body }
                if !over.iter().any(|v| divisor.contains(v) || conditioning.contains(v)) =>
            {
                Some(body.conditioned(divisor, conditioning)?.sum(&over.iter().cloned().collect()))
            }
            _ => None,
        }
    }

    /// Returns the formula with products of conditional probabilities joined: P(a | b, c) P(b | c) = P(a, b |
    /// c).
    pub(super) fn merged(self) -> Self {
        match self {
            Self::Sum { over, body } => body.merged().sum(&over.into_iter().collect()),
            Self::Quotient { numerator, denominator } => numerator.merged().divided_by(denominator.merged()),
            Self::Product(factors) => {
                let mut factors: Vec<Self> = factors.into_iter().map(Self::merged).collect();
                while let Some((i, j, joint)) = chained(&factors) {
                    factors[i.min(j)] = joint;
                    factors.remove(i.max(j));
                }
                Self::product(factors)
            }
            other => other,
        }
    }

    /// Returns the formula with other names of variables.
    pub(super) fn map<W>(&self, name: &impl Fn(&V) -> W) -> Formula<W> {
        let names = |variables: &[V]| variables.iter().map(name).collect();
        match self {
            Self::Probability { variables, conditioning } => {
                Formula::Probability { variables: names(variables), conditioning: names(conditioning) }
            }
            Self::Sum { over, body } => Formula::Sum { over: names(over), body: body.map(name).into() },
            Self::Product(factors) => {
                Formula::Product(factors.iter().map(|factor| factor.map(name)).collect())
            }
            Self::Quotient { numerator, denominator } => Formula::Quotient {
                numerator: numerator.map(name).into(),
                denominator: denominator.map(name).into(),
            },
            Self::Defined { index, arguments } => {
                Formula::Defined { index: *index, arguments: names(arguments) }
            }
        }
    }
}

/// Returns a variable of `over` that occurs in only one factor, which is a probability of it, and the
/// factor's index.
fn summand<V: Ord + Clone>(factors: &[Formula<V>], over: &BTreeSet<V>) -> Option<(usize, V)> {
    over.iter().find_map(|v| {
        let mut occurrences = (0..factors.len()).filter(|&i| factors[i].free().contains(v));
        let (i, second_factor) = (occurrences.next()?, occurrences.next());
        let is_variable =
            matches!(&factors[i], Formula::Probability { variables, .. } if variables.contains(v));
        (is_variable && second_factor.is_none()).then(|| (i, v.clone()))
    })
}

/// Finds two factors P(a | b, c) and P(b | c) that the chain rule joins. Returns their indices and P(a, b |
/// c).
fn chained<V: Ord + Clone>(factors: &[Formula<V>]) -> Option<(usize, usize, Formula<V>)> {
    for (i, first) in factors.iter().enumerate() {
        let Formula::Probability { variables, conditioning } = first else { continue };
        let conditions: BTreeSet<V> = conditioning.iter().cloned().collect();
        for (j, second) in factors.iter().enumerate().filter(|(j, _)| *j != i) {
            let Formula::Probability { variables: second_variables, conditioning: second_conditioning } =
                second
            else {
                continue;
            };
            if second_variables.iter().chain(second_conditioning).cloned().collect::<BTreeSet<V>>()
                == conditions
            {
                let joint = second_variables.iter().chain(variables).cloned().collect::<Vec<V>>();
                return Some((i, j, Formula::probability(joint, second_conditioning.iter().cloned())));
            }
        }
    }
    None
}

/// Displayed names of the variables in a part of a formula: a bound variable has a prime if its name is in
/// use outside its sum.
type Scope = BTreeMap<String, String>;

fn listed(names: &[String], scope: &Scope) -> String {
    let shown: Vec<&str> = names.iter().map(|name| scope.get(name).unwrap_or(name).as_str()).collect();
    shown.join(", ")
}

impl Formula {
    /// Writes a part of a formula, in brackets or without.
    fn part(&self, scope: &Scope, brackets: bool) -> String {
        let text = self.written(scope);
        if brackets { format!("[{text}]") } else { text }
    }

    fn written(&self, scope: &Scope) -> String {
        match self {
            Self::Probability { variables, conditioning } if conditioning.is_empty() => {
                format!("P({})", listed(variables, scope))
            }
            Self::Probability { variables, conditioning } => {
                format!("P({} | {})", listed(variables, scope), listed(conditioning, scope))
            }
            Self::Sum { over, body } => {
                let mut inner = scope.clone();
                for v in over {
                    let mut shown = v.clone();
                    while inner.values().any(|name_in_use| *name_in_use == shown) {
                        shown.push('\'');
                    }
                    inner.insert(v.clone(), shown);
                }
                let over = match over.as_slice() {
                    [name] => inner[name].clone(),
                    names => format!("{{{}}}", listed(names, &inner)),
                };
                format!("Σ_{over} {}", body.part(&inner, matches!(**body, Self::Quotient { .. })))
            }
            Self::Product(factors) if factors.is_empty() => "1".into(),
            Self::Product(factors) => {
                let last_index = factors.len() - 1;
                let written = factors.iter().enumerate().map(|(i, factor)| {
                    let is_open = matches!(factor, Self::Sum { .. }) && i < last_index;
                    factor.part(scope, is_open || matches!(factor, Self::Quotient { .. }))
                });
                written.collect::<Vec<_>>().join(" ")
            }
            Self::Quotient { numerator, denominator } => {
                let operand = |part: &Self| {
                    let is_atom = matches!(part, Self::Probability { .. } | Self::Defined { .. });
                    part.part(scope, !is_atom)
                };
                format!("{} / {}", operand(numerator), operand(denominator))
            }
            Self::Defined { index, arguments } => {
                format!("Q{}({})", index + 1, listed(arguments, scope))
            }
        }
    }
}

fn free_names(formula: &Formula) -> Scope {
    formula.free().into_iter().map(|name| (name.clone(), name)).collect()
}

/// Writes `P(Y | do(X)) = Σ_Z P(Z) P(Y | X, Z)`, followed by the definitions and the variables of any value.
impl fmt::Display for EffectFormula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut scope = free_names(&self.formula);
        let outside = self.outcomes.iter().chain(&self.treatments);
        scope.extend(outside.map(|name| (name.clone(), name.clone())));
        let (outcomes, treatments) = (self.outcomes.join(", "), self.treatments.join(", "));
        write!(f, "P({outcomes} | do({treatments})) = {}", self.formula.written(&scope))?;
        for (k, definition) in self.definitions.iter().enumerate() {
            let word = if k == 0 { ", where" } else { " and" };
            let scope = free_names(definition);
            let arguments = definition.free().into_iter().collect::<Vec<_>>().join(", ");
            write!(f, "{word} Q{}({arguments}) = {}", k + 1, definition.written(&scope))?;
        }
        if !self.any_value.is_empty() {
            write!(f, ", for any value of {}", crate::name_lists::and(&self.any_value))?;
        }
        Ok(())
    }
}
