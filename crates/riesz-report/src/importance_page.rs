//! A self-contained HTML page about global importance: bars, a table, curves, exactness and provenance. The
//! page loads nothing and has no script.

use minijinja::context;
use riesz::global::{AverageComponents, Curve, SageValues, SampledIndices, SobolIndices};
use riesz::model_average::ModelPart;
use riesz::{Background, Players, Result, ValueIndex};
use serde_json::{Value, json};

use crate::format::{fixed, number, scientific};
use crate::html::{exactness, render_wide_and_narrow, written};
use crate::plot::{Overall, PlotOptions, capital, render_component, render_overall};

const TEMPLATE: &str = include_str!("../assets/importance.html");

/// The contents of the page.
#[derive(Debug, Clone)]
pub struct ImportancePage<'p> {
    /// The page's title.
    pub title: &'p str,
    /// The importance of features.
    pub ranking: Overall<'p>,
    /// Components of the model's functional ANOVA; they are drawn for the first output.
    pub curves: &'p [Curve],
    /// Maximum number of features that the plot shows by name; the table has all.
    pub max_display: usize,
}

/// Number of curves on a page.
const CURVES: usize = 3;

/// Returns the title of a page about the importance for the model's output, or for its loss on these targets.
pub fn importance_title(targets: &[String]) -> String {
    match targets {
        [] => "Importance of features".to_string(),
        targets => format!("Reduction of the loss of {} by features", targets.join(", ")),
    }
}

/// Returns the curves of the components with the largest Shapley effects on the first output, among features
/// that are single columns, for the page of these indices of a model or an average.
///
/// # Errors
/// As [`AverageComponents::new`] and [`AverageComponents::curve_along`].
pub fn importance_curves(
    models: &[ModelPart<'_>],
    inputs: &Background,
    groups: Option<&Players>,
    indices: &SobolIndices,
) -> Result<Vec<Curve>> {
    let components = AverageComponents::new(models, inputs, groups)?;
    let effects = indices.effects(0);
    let drawn = order(effects)
        .into_iter()
        .filter(|&j| components.players()[j].columns.len() == 1 && effects[j] > 0.0);
    drawn.take(CURVES).map(|j| components.curve_along(&[j], &inputs.rows)).collect()
}

/// Returns Sobol indices as riesz writes them to JSON files.
///
/// # Errors
/// An error of `serde_json` for indices that have no JSON form.
pub fn sobol_record(indices: &SobolIndices) -> serde_json::Result<Value> {
    crate::format::record(json!({ "format": "riesz-sobol", "version": 1 }), indices)
}

/// Returns estimated Sobol indices as riesz writes them to JSON files.
///
/// # Errors
/// An error of `serde_json` for indices that have no JSON form.
pub fn sampled_sobol_record(indices: &SampledIndices) -> serde_json::Result<Value> {
    crate::format::record(json!({ "format": "riesz-sobol-estimates", "version": 1 }), indices)
}

/// Returns SAGE values as riesz writes them to JSON files.
///
/// # Errors
/// An error of `serde_json` for values that have no JSON form.
pub fn sage_record(values: &SageValues) -> serde_json::Result<Value> {
    crate::format::record(json!({ "format": "riesz-sage", "version": 1 }), values)
}

/// The part of the page about one output.
struct Part {
    head: String,
    caption: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
    note: String,
}

/// Returns the page as one HTML file that opens from disk and loads nothing.
///
/// # Errors
/// As [`render_overall`].
pub fn importance_report(page: &ImportancePage<'_>) -> Result<String> {
    let options = |output| PlotOptions { output, max_display: page.max_display, ..PlotOptions::default() };
    let e = page.ranking.explanation();
    let mut outputs = Vec::new();
    for o in 0..e.outputs() {
        let bars =
            render_wide_and_narrow(720, &options(o), |options| render_overall(&page.ranking, options))?;
        let Part { head, caption, columns, rows, note } = match &page.ranking {
            Overall::Variance(indices) => variance_part(indices, o),
            Overall::Estimated(indices) => estimated_variance_part(indices, o),
            Overall::Loss { values, .. } => loss_part(values, &page.ranking),
        };
        let rows: Vec<_> = rows.iter().map(|(name, cells)| context! { name, cells }).collect();
        outputs.push(context! { head, caption, columns, rows, note, bars });
    }
    let components = page
        .curves
        .iter()
        .map(|curve| {
            let names: Vec<&str> = curve.axes.iter().map(|axis| axis.column.as_str()).collect();
            let kind = if names.len() == 1 { "alone" } else { "together" };
            let name = format!("{} {kind}", names.join(" and "));
            let plots = render_wide_and_narrow(720, &options(0), |o| render_component(curve, o))?;
            Ok(context! { name, plots })
        })
        .collect::<Result<Vec<_>>>()?;
    let certificate = match &page.ranking {
        Overall::Variance(_) | Overall::Estimated(_) => exactness(e),
        Overall::Loss { values: found, .. } => sage_exactness(found),
    };
    let page = context! {
        title => page.title,
        lead => capital(&format!("{}.", e.provenance.absent)),
        outputs,
        components,
        exactness => minijinja::value::Serde(certificate),
        provenance => minijinja::value::Serde(&e.provenance),
    };
    written(TEMPLATE, page)
}

/// Positions of the values from the largest to the smallest.
fn order(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].total_cmp(&values[a]));
    order
}

fn variance_part(indices: &SobolIndices, o: usize) -> Part {
    let e = &indices.explanation;
    let (name, variance, bound) = (&e.output_names[o], indices.variance(o), indices.bound(o));
    let share = |part: f64| indices.scale(o).map_or_else(|| "–".into(), |scale| fixed(scale * part, 4));
    let mut columns = vec!["feature".to_string()];
    let rows: Vec<(String, Vec<String>)> = if e.index == ValueIndex::Shapley {
        columns.extend(
            ["first-order", "Shapley effect", "total order", "part of the variance"].map(String::from),
        );
        let row = |j: usize| {
            let shares = [indices.first_order(o)[j], indices.effects(o)[j], indices.total_order(o)[j]];
            let cells = shares.map(share).into_iter().chain([number(shares[1])]).collect();
            (e.players[j].name.clone(), cells)
        };
        order(indices.effects(o)).into_iter().map(row).collect()
    } else {
        columns.extend(["share".to_string(), "part of the variance".to_string()]);
        let values = e.row_values(0, o);
        let row = |k: usize| (e.set_name(k), vec![share(values[k]), number(values[k])]);
        order(values).into_iter().map(row).collect()
    };
    let caption = match indices.scale(o) {
        Some(_) if e.index == ValueIndex::Shapley => format!(
            "The variance of {name} is {}. A bar is a feature’s Shapley effect, its share of the variance. \
             The line across it runs from the feature’s first-order index to its total index: a long line \
             shows strong interactions with other features.",
            number(variance)
        ),
        Some(_) => format!(
            "The variance of {name} is {}. A bar is a share of the variance: {}.",
            number(variance),
            e.index.name()
        ),
        None => format!(
            "The variance of {name} does not exceed its error bound, {}, so that shares are not defined: \
             bars are parts of the variance, all of which may be errors.",
            scientific(bound, 1)
        ),
    };
    let share_bound = indices
        .scale(o)
        .map_or(String::new(), |scale| format!(", each share within {}", scientific(scale * bound, 1)));
    let note = format!("Each part of the variance is exact within {}{share_bound}.", scientific(bound, 1));
    Part { head: format!("Sources of the variance of {name}"), caption, columns, rows, note }
}

fn estimated_variance_part(indices: &SampledIndices, o: usize) -> Part {
    let (e, p) = (&indices.explanation, indices.explanation.players.len());
    let name = &e.output_names[o];
    let headings = ["feature", "first-order", "Shapley effect", "total order"].map(String::from);
    let share = |shares: &riesz::global::Shares, k: usize| match shares.values[k].is_nan() {
        true => "–".to_string(),
        false => format!("{} ± {}", fixed(shares.values[k], 4), fixed(shares.std_error[k], 4)),
    };
    let row = |j: usize| {
        let shares = [&indices.first_order, &indices.effects, &indices.total_order];
        let cells = shares.map(|shares| share(shares, o * p + j)).to_vec();
        (e.players[j].name.clone(), cells)
    };
    let rows = order(e.row_values(0, o)).into_iter().map(row).collect();
    let caption = format!(
        "The variance of {name} is about {}. A bar is a feature’s Shapley effect, its share of the variance, \
         and the line across it is the 95 % interval of the estimate.",
        number(indices.variance[o])
    );
    let note = format!(
        "Estimates ± standard errors, from {} rows at which the function was called.",
        indices.evaluations
    );
    let head = format!("Sources of the variance of {name}");
    Part { head, caption, columns: headings.to_vec(), rows, note }
}

fn loss_part(sage_values: &SageValues, drawn: &Overall<'_>) -> Part {
    let mut columns: Vec<String> = ["feature", "SAGE value"].map(String::from).into();
    let errors: Vec<(&str, &Vec<f64>)> = [
        ("standard error over rows", &sage_values.std_error),
        ("standard error over orders", &sage_values.sampling_error),
    ]
    .into_iter()
    .filter_map(|(name, values)| Some((name, values.as_ref()?)))
    .collect();
    columns.extend(errors.iter().map(|(name, _)| name.to_string()));
    let lines = drawn.lines(0);
    let has_intervals = lines.iter().all(|line| line.range.is_some());
    columns.extend(has_intervals.then(|| "95 % interval".to_string()));
    let rows = order(&sage_values.values)
        .into_iter()
        .zip(&lines)
        .map(|(j, line)| {
            let mut cells = vec![number(sage_values.values[j])];
            cells.extend(errors.iter().map(|(_, values)| number(values[j])));
            cells.extend(line.range.map(|[low, high]| format!("{} … {}", number(low), number(high))));
            (sage_values.players[j].name.clone(), cells)
        })
        .collect();
    let caption = format!(
        "The mean {} of the model over {} rows is {}; for its mean prediction alone it is {}. A bar is the \
         part of the difference that a feature removes. A feature with a bar below 0 makes the model worse.",
        sage_values.measure,
        sage_values.rows,
        number(sage_values.loss),
        number(sage_values.base_loss)
    );
    let note = "Intervals cover the choice of the rows, if these are a random sample.";
    let note = if has_intervals { note } else { "A single row gives no standard errors." };
    Part {
        head: format!("Reduction of the {} by feature", sage_values.measure),
        caption,
        columns,
        rows,
        note: note.into(),
    }
}

/// The exactness of SAGE values.
fn sage_exactness(sage_values: &SageValues) -> Value {
    let fact = |name: &str, value: String| json!({ "name": name, "value": value });
    let max_error = |errors: &Vec<f64>| number(errors.iter().copied().fold(0.0, f64::max));
    let mut facts = vec![fact("coalitions of features evaluated", sage_values.coalitions.to_string())];
    for (unit, errors) in [("rows", &sage_values.std_error), ("orders", &sage_values.sampling_error)] {
        let name = format!("largest standard error over {unit}");
        facts.extend(errors.as_ref().map(|errors| fact(&name, max_error(errors))));
    }
    let residual = (sage_values.base_loss - sage_values.loss - sage_values.values.iter().sum::<f64>()).abs();
    facts.push(fact("|residual|", scientific(residual, 1)));
    let (class, headline) = match sage_values.sampling_error {
        None => (
            "holds",
            "For these rows and this background the values are exact up to rounding: all coalitions of \
             features were evaluated. For other rows they are estimates.",
        ),
        Some(_) => (
            "estimated",
            "These values are estimates from random orders of the features; each coalition was evaluated \
             exactly for these rows and this background.",
        ),
    };
    json!({ "class": class, "headline": headline, "facts": facts })
}
