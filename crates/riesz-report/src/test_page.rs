//! One self-contained page about a two-sample or independence test: verdict, features, pictures, provenance.
//! No network, no script.

use minijinja::context;
use riesz::discrepancy::{TestResult, Witness};
use riesz::{Error, Result};

use crate::format::{number, pvalue};
use crate::html::{exactness, inline, written};
use crate::plot::{PlotOptions, render_null, render_test, render_witness};
use crate::svg::{Svg, Theme};

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
    /// Where the samples differ, column by column.
    pub witnesses: &'p [Witness],
    /// Most features shown by name in the plot; the table has all.
    pub max_display: usize,
}

/// The page as one HTML file that opens from disk and loads nothing.
///
/// # Errors
/// As [`render_test`].
pub fn test_report(page: &TestPage<'_>) -> Result<String> {
    let result = page.result;
    let options = |width| PlotOptions {
        theme: Theme::Auto,
        width,
        max_display: page.max_display,
        ..PlotOptions::default()
    };
    let both_widths = |draw: &dyn Fn(&PlotOptions) -> Result<Svg>| -> Result<Vec<String>> {
        [720, 330].into_iter().map(|width| Ok(inline(draw(&options(width))?))).collect()
    };
    let Some(attributions) = &result.attributions else {
        return Err(Error::TooFew {
            subject: "the list of attributions".into(),
            needed: 1,
            unit: "feature is",
        });
    };
    let e = &attributions.explanation;
    let values = e.row_values(0, 0);
    let order = attributions.order();
    let marginal_pvalues = attributions.marginal.as_ref().and_then(|marginal| marginal.pvalues.as_ref());
    let rows: Vec<_> = order
        .iter()
        .map(|&j| {
            let significance = attributions.significance.as_ref();
            context! {
                name => e.set_name(j),
                value => number(values[j]),
                band => significance.map(|s| format!("{} … \
                                                      {}", number(s.bands[j][0]), number(s.bands[j][1]))),
                pvalue => significance.map(|s| pvalue(s.pvalues[j])),
                adjusted => significance.map(|s| pvalue(s.adjusted[j])),
                alone => marginal_pvalues.map(|pvalues| pvalue(pvalues[j])),
                found => significance.is_some_and(|s| s.adjusted[j] <= 0.05),
            }
        })
        .collect();
    let kernels: Vec<_> = result
        .by_kernel
        .iter()
        .map(|k| {
            context! {
                formula => k.kernel.formula(),
                statistic => number(k.statistic),
                pvalue => k.pvalue.map(pvalue),
            }
        })
        .collect();
    let statistic = &e.output_names[0];
    let witnesses = page
        .witnesses
        .iter()
        .map(|w| {
            Ok(context! { column => w.column.as_str(), plots => both_widths(&|o| render_witness(w, o))? })
        })
        .collect::<Result<Vec<_>>>()?;
    let null = if result.null.is_empty() {
        None
    } else {
        Some(both_widths(&|o| render_null(result, statistic, o))?)
    };
    let page = context! {
        title => page.title,
        verdict => page.verdict,
        statistic => statistic.as_str(),
        features => values.len(),
        absent => e.provenance.absent.as_str(),
        significance => attributions.significance.is_some(),
        alone => marginal_pvalues.is_some(),
        dimmed => attributions.marginal.is_none(),
        beyond => attributions.higher_order.as_ref().map(|term| context! {
            statistic => number(term.statistic),
            pvalue => term.pvalue.map(pvalue),
        }),
        bars => both_widths(&|o| render_test(result, o))?,
        null => null,
        rows => rows,
        kernels => kernels,
        witnesses => witnesses,
        exactness => minijinja::value::Serde(exactness(e)),
        provenance => minijinja::value::Serde(&e.provenance),
    };
    written(TEMPLATE, page)
}
