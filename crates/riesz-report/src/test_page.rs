//! A self-contained HTML page about a two-sample or independence test: verdict, features, pictures and
//! provenance. The page loads nothing and has no script.

use minijinja::{Value, context};
use riesz::Result;
use riesz::discrepancy::{FeatureAttributions, TestResult, Witness};

use crate::format::{number, pvalue};
use crate::html::{exactness, render_wide_and_narrow, written};
use crate::plot::{PlotOptions, attributions, render_null, render_test, render_witness};

const TEMPLATE: &str = include_str!("../assets/test.html");

/// The contents of the page.
#[derive(Debug, Clone)]
pub struct TestPage<'p> {
    /// The page's title.
    pub title: &'p str,
    /// The verdict, in a sentence.
    pub verdict: &'p str,
    /// The result of the test.
    pub result: &'p TestResult,
    /// Witness functions of single columns, which show where the samples differ.
    pub witnesses: &'p [Witness],
    /// Maximum number of features that the plot shows by name; the table has all.
    pub max_display: usize,
}

/// Returns the page as one HTML file that opens from disk and loads nothing.
///
/// # Errors
/// As [`render_test`].
pub fn test_report(page: &TestPage<'_>) -> Result<String> {
    let result = page.result;
    let options = PlotOptions { max_display: page.max_display, ..PlotOptions::default() };
    let attributions = attributions(result)?;
    let e = &attributions.explanation;
    let statistic = &e.output_names[0];
    let witnesses = page
        .witnesses
        .iter()
        .map(|w| {
            let plots = render_wide_and_narrow(720, &options, |o| render_witness(w, o))?;
            Ok(context! { column => w.column.as_str(), plots })
        })
        .collect::<Result<Vec<_>>>()?;
    let null = if result.null.is_empty() {
        None
    } else {
        Some(render_wide_and_narrow(720, &options, |o| render_null(result, statistic, o))?)
    };
    let page = context! {
        title => page.title,
        verdict => page.verdict,
        statistic => statistic.as_str(),
        features => e.sets(),
        absent => e.provenance.absent.as_str(),
        significance => attributions.significance.is_some(),
        alone => marginal_pvalues(attributions).is_some(),
        dimmed => attributions.marginal.is_none(),
        beyond => attributions.higher_order.as_ref().map(|term| context! {
            statistic => number(term.statistic),
            pvalue => term.pvalue.map(pvalue),
        }),
        bars => render_wide_and_narrow(720, &options, |o| render_test(result, o))?,
        null => null,
        rows => features(attributions),
        kernels => kernels(result),
        witnesses => witnesses,
        exactness => minijinja::value::Serde(exactness(e)),
        provenance => minijinja::value::Serde(&e.provenance),
    };
    written(TEMPLATE, page)
}

/// The p-values of tests of single features, if there are any.
fn marginal_pvalues(attributions: &FeatureAttributions) -> Option<&Vec<f64>> {
    attributions.marginal.as_ref().and_then(|marginal| marginal.pvalues.as_ref())
}

/// The rows of the table of features, the largest contribution first.
fn features(attributions: &FeatureAttributions) -> Vec<Value> {
    let (e, significance) = (&attributions.explanation, attributions.significance.as_ref());
    let marginal_pvalues = marginal_pvalues(attributions);
    let row = |&j: &usize| {
        let band = |[low, high]: [f64; 2]| format!("{} … {}", number(low), number(high));
        context! {
            name => e.set_name(j),
            value => number(e.row_values(0, 0)[j]),
            band => significance.map(|s| band(s.bands[j])),
            pvalue => significance.map(|s| pvalue(s.pvalues[j])),
            adjusted => significance.map(|s| pvalue(s.adjusted[j])),
            alone => marginal_pvalues.map(|pvalues| pvalue(pvalues[j])),
            found => significance.is_some_and(|s| s.adjusted[j] <= 0.05),
        }
    };
    attributions.order().iter().map(row).collect()
}

/// The rows of the table of kernels.
fn kernels(result: &TestResult) -> Vec<Value> {
    let rows = result.by_kernel.iter().map(|k| {
        context! {
            formula => k.kernel.formula(),
            statistic => number(k.statistic),
            pvalue => k.pvalue.map(pvalue),
        }
    });
    rows.collect()
}
