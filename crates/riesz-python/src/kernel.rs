//! The registry of kernel factors for Python, and conversion of the kernel classes to riesz's JSON form.

use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use riesz::kernel::{ColumnScaling, LengthScale};
use riesz::kernel::{FactorSchema, Term, registry};
use riesz::{Column, Kernel};

use crate::{raise, refuse, table};

/// A term of a kernel: its scale and its factors, each with its kind, columns and arguments.
type Written = (f64, Vec<(String, Vec<usize>, Vec<(String, Vec<f64>)>)>);

/// An argument of a factor: its name, its name in the Python class (empty if it has none), and its default.
type Argument = (&'static str, &'static str, f64);

/// Every kind of factor: its name, its class in `riesz.kernels`, and its arguments.
#[pyfunction]
pub(crate) fn factors() -> Vec<(&'static str, &'static str, Vec<Argument>)> {
    let arguments =
        |schema: &FactorSchema| schema.arguments.iter().map(|a| (a.name, a.python, a.default)).collect();
    registry().map(|schema| (schema.names[0], schema.python, arguments(schema))).collect()
}

/// The help text about kernel expressions.
#[pyfunction]
pub(crate) fn kernel_help() -> String {
    riesz::kernel::help_text()
}

/// The length scale of each column by a rule, "median" or "median_per_feature".
#[pyfunction]
pub(crate) fn length_scales(rows: PyReadonlyArray2<'_, f64>, rule: &str) -> PyResult<Vec<f64>> {
    let rule = match rule {
        "median" => LengthScale::Median,
        "median_per_feature" => LengthScale::MedianPerFeature,
        _ => return Err(refuse(format!("unknown rule '{rule}' for length scales"))),
    };
    let rows = rows.as_array();
    let rows = table(&Column::numbered(rows.ncols()), rows).map_err(refuse)?;
    let columns: Vec<usize> = (0..rows.width()).collect();
    riesz::kernel::length_scales(&rows, &columns, &ColumnScaling::raw(rows.width()), rule).map_err(raise)
}

/// A kernel, as a sum of terms, in riesz's JSON form.
#[pyfunction]
pub(crate) fn kernel(terms: Vec<Written>) -> PyResult<String> {
    let mut kernel = Kernel { terms: Vec::with_capacity(terms.len()) };
    for (scale, factors) in terms {
        let mut term = Term { scale, factors: Vec::with_capacity(factors.len()) };
        for (name, columns, arguments) in &factors {
            let kind =
                FactorSchema::named(name).ok_or_else(|| refuse(format!("there is no kernel '{name}'")))?;
            let named_values: Vec<_> =
                arguments.iter().map(|(name, values)| (name.as_str(), values.clone())).collect();
            term.factors.extend(kind.factors(columns, &named_values).map_err(refuse)?);
        }
        kernel.terms.push(term);
    }
    serde_json::to_string(&kernel).map_err(refuse)
}

/// The terms of a kernel in riesz's JSON form, the inverse of [`kernel`].
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
