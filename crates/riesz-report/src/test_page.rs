//! A self-contained HTML page about a two-sample or independence test: verdict, features, pictures and
//! provenance. The page loads nothing and has no script.

use minijinja::{Value, context};
use riesz::discrepancy::{FeatureAttributions, TestResult, Witness, witness};
use riesz::model_card::CardEntry;
use riesz::{Result, Table};

use crate::format::{number, pvalue};
use crate::html::{exactness, render_wide_and_narrow, written};
use crate::plot::{PlotOptions, attributions, render_null, render_test, render_witness};

const TEMPLATE: &str = include_str!("../assets/test.html");

/// Number of features whose witness functions are shown on the page.
const WITNESSES: usize = 4;

/// The subject of a test, from which its title and its verdict are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestSubject<'n> {
    /// A two-sample test by MMD², with the names of the first and of the second sample.
    Samples([&'n str; 2]),
    /// An independence test by HSIC.
    Dependence {
        /// The name of the target.
        target: &'n str,
        /// The names of the columns that are given; empty if there are none.
        conditions: &'n str,
    },
}

impl TestSubject<'_> {
    /// The name of the statistic.
    pub fn statistic(&self) -> &'static str {
        match self {
            Self::Samples(_) => "MMD²",
            Self::Dependence { .. } => "HSIC",
        }
    }

    /// The title of the page.
    pub fn title(&self) -> String {
        match self {
            Self::Samples([first, second]) => format!("{first} against {second}"),
            Self::Dependence { target, .. } => format!("What {target} depends on"),
        }
    }

    /// The result in a sentence.
    pub fn verdict(&self, result: &TestResult) -> String {
        match self {
            Self::Samples(names) => verdict_on_samples(result, *names),
            Self::Dependence { target, conditions: "" } => verdict_on_dependence(result, target, ""),
            Self::Dependence { target, conditions } => {
                verdict_on_dependence(result, target, &format!(" given {conditions}"))
            }
        }
    }

    /// The result as riesz writes it to JSON files.
    ///
    /// # Errors
    /// An error of `serde_json` for a result that has no JSON form.
    pub fn record(&self, result: &TestResult) -> serde_json::Result<serde_json::Value> {
        let verdict = self.verdict(result);
        let head = serde_json::json!({
            "format": "riesz-test", "version": 2, "test": self.statistic(), "verdict": verdict
        });
        crate::format::record(head, result)
    }
}

fn verdict_on_samples(result: &TestResult, [first, second]: [&str; 2]) -> String {
    let value = brief(result.statistic);
    match result.pvalue {
        None => format!("MMD² between {first} and {second} is {value}; no test was requested."),
        Some(p) if p <= 0.05 => format!(
            "The samples differ: if {first} and {second} had one distribution, MMD² would be {value} or \
             larger with probability {p:.3}."
        ),
        Some(p) => format!(
            "No difference is seen: if {first} and {second} had one distribution, MMD² would be {value} or \
             larger with probability {p:.3}."
        ),
    }
}

fn verdict_on_dependence(result: &TestResult, target: &str, condition: &str) -> String {
    let value = brief(result.statistic);
    match result.pvalue {
        None => format!("HSIC of {target} and the features is {value}{condition}; no test was requested."),
        Some(p) if p <= 0.05 => format!(
            "{target} depends on the features{condition}: if it did not, HSIC would be {value} or larger \
             with probability {p:.3}."
        ),
        Some(p) => format!(
            "No dependence of {target} on the features is seen{condition}: without any, HSIC would be \
             {value} or larger with probability {p:.3}."
        ),
    }
}

/// A statistic, to four significant digits.
fn brief(value: f64) -> String {
    let rounded = format!("{value:.3e}").parse().unwrap_or(value);
    CardEntry::measured("", rounded).value
}

/// Returns the witness functions of two samples along the single-column features with the largest values, for
/// the page of their test.
///
/// # Errors
/// As [`witness`].
pub fn largest_witnesses(first: &Table, second: &Table, result: &TestResult) -> Result<Vec<Witness>> {
    let Some(attributions) = &result.attributions else { return Ok(Vec::new()) };
    let explanation = &attributions.explanation;
    let kernel = &result.by_kernel[result.chosen].kernel;
    let order = attributions.order();
    let columns = order.iter().filter_map(|&j| match explanation.players[j].columns.as_slice() {
        [one] => Some(explanation.data.columns()[*one].name.as_str()),
        _ => None,
    });
    columns.take(WITNESSES).map(|column| witness(first, second, Some(kernel), column)).collect()
}

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
