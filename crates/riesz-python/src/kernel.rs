//! The registry of factors, and kernels as Python's classes say them.

use pyo3::prelude::*;
use riesz::Kernel;
use riesz::kernel::{Declaration, Term, registry};

use crate::refuse;

/// A scale and factors, each by its kind, its columns and its arguments.
type Written = (f64, Vec<(String, Vec<usize>, Vec<(String, Vec<f64>)>)>);

/// What the library says of a kind of factor.
#[pyclass(frozen, get_all, module = "riesz._core")]
pub(crate) struct FactorKind {
    /// Its names in expressions.
    names: Vec<&'static str>,
    /// Its class in `riesz.kernels`.
    python: &'static str,
    /// How an expression writes it, with its defaults there.
    usage: String,
    formula: &'static str,
    /// The name of each argument, its name in the class (empty where it has none), and its default there.
    arguments: Vec<(&'static str, &'static str, f64)>,
}

/// Every kind of factor.
#[pyfunction]
pub(crate) fn factors() -> Vec<FactorKind> {
    let kind = |one: &Declaration| FactorKind {
        names: one.names.to_vec(),
        python: one.python,
        usage: one.usage(),
        formula: one.formula,
        arguments: one.arguments.iter().map(|a| (a.name, a.python, a.default)).collect(),
    };
    registry().map(kind).collect()
}

/// A sum of products in riesz's JSON form.
#[pyfunction]
pub(crate) fn kernel(terms: Vec<Written>) -> PyResult<String> {
    let mut kernel = Kernel { terms: Vec::with_capacity(terms.len()) };
    for (scale, factors) in terms {
        let mut term = Term { scale, factors: Vec::with_capacity(factors.len()) };
        for (name, columns, arguments) in &factors {
            let kind =
                Declaration::named(name).ok_or_else(|| refuse(format!("there is no kernel '{name}'")))?;
            let given: Vec<_> =
                arguments.iter().map(|(name, values)| (name.as_str(), values.clone())).collect();
            term.factors.extend(kind.factors(columns, &given).map_err(refuse)?);
        }
        kernel.terms.push(term);
    }
    serde_json::to_string(&kernel).map_err(refuse)
}

/// The inverse of `kernel`.
#[pyfunction]
pub(crate) fn kernel_terms(json: &str) -> PyResult<Vec<Written>> {
    let kernel: Kernel = serde_json::from_str(json).map_err(refuse)?;
    let term = |term: &Term| {
        let factors = term.factors.iter().map(|factor| {
            let values = factor.values().0.into_iter().map(|(name, values)| (name.to_string(), values));
            (factor.declaration().names[0].to_string(), factor.columns().to_vec(), values.collect())
        });
        (term.scale, factors.collect())
    };
    Ok(kernel.terms.iter().map(term).collect())
}
