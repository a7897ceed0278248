//! A self-contained HTML report of an explanation: static plots, the data as JSON, a script and a style
//! sheet. The page loads nothing.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use minijinja::{Environment, context};
use riesz::explanation::{Dispersion, Duel, Sampling, UncertaintySource};
use riesz::{ClassDecisions, ColumnKind, Error, Exactness, Explanation, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::format::{fixed, number, order_by_magnitude, scientific, single_column};
use crate::plot::{Plot, PlotOptions, capital, check, render, row_title, shown_std_error};
use crate::svg::{Svg, Theme, variables};

const HEAD: &str = include_str!("../assets/head.html");
const TEMPLATE: &str = include_str!("../assets/report.html");
const SCRIPT: &str = include_str!("../assets/report.js");
const STYLE: &str = include_str!("../assets/report.css");

/// Options of the page.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportOptions {
    /// The page's title.
    pub title: String,
    /// Maximum number of players that the plots show by name.
    pub max_display: usize,
    /// Maximum number of rows drawn and listed; importance is always computed from all rows.
    pub max_rows: usize,
    /// The decisions of a classifier about the rows.
    pub decisions: Option<ClassDecisions>,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self { title: "Explanation".into(), max_display: 12, max_rows: 2000, decisions: None }
    }
}

/// Returns the page as one HTML file that opens from disk and loads nothing.
///
/// # Errors
/// As [`render`] for an explanation that is inconsistent, empty or not finite; [`Error::Parameter`] for
/// options out of range.
pub fn report(explanation: &Explanation, options: &ReportOptions) -> Result<String> {
    check(explanation)?;
    if options.max_rows == 0 {
        return Err(Error::parameter("max_rows", 0, "at least 1"));
    }
    let rows = drawn_rows(explanation, options.max_rows);
    let drawn = explanation.select_rows(&rows);
    let mut outputs = Vec::new();
    for (o, name) in explanation.output_names.iter().enumerate() {
        let plot = |e: &Explanation, name: &str, width: u32| -> Result<String> {
            let narrow = width < 480;
            let max_display = if narrow { options.max_display.min(8) } else { options.max_display };
            let options =
                PlotOptions { output: o, theme: Theme::Auto, width, max_display, ..PlotOptions::default() };
            Ok(inline(render(e, Plot::named(name)?, &options)?))
        };
        // Pictures of interactions, if the explanation has any.
        let pairs = |name: &str, width: u32| -> Result<Option<String>> {
            if Plot::named(name)?.can_show(explanation) {
                plot(explanation, name, width).map(Some)
            } else {
                Ok(None)
            }
        };
        outputs.push(context! {
            name => name.as_str(),
            meaning => options.decisions.as_ref().map(|d| d.meaning[o].as_str()),
            sure => uncertainty_text(explanation, o)?,
            bar => plot(explanation, "bar", 720)?,
            bar_narrow => plot(explanation, "bar", 320)?,
            beeswarm => plot(&drawn, "beeswarm", 720)?,
            beeswarm_narrow => plot(&drawn, "beeswarm", 320)?,
            interactions => pairs("interactions", 720)?,
            interactions_narrow => pairs("interactions", 320)?,
            network => pairs("network", 720)?,
            network_narrow => pairs("network", 320)?,
            dependence => plot(&drawn, "dependence", 720)?,
            waterfall => plot(&drawn, "waterfall", 720)?,
        });
    }
    let pairs = explanation.subsets.iter().flatten().filter(|set| set.len() > 1).count();
    let page = context! {
        title => options.title.as_str(),
        script => SCRIPT,
        script_hash => hash(SCRIPT),
        outputs => outputs,
        rows => explanation.rows(),
        words => minijinja::value::Serde(row_texts(explanation)),
        drawn => rows.len(),
        players => explanation.sets() - pairs,
        pairs => pairs,
        larger => explanation.index.order() > 2,
        value => explanation.index.name(),
        values => capital(&explanation.index.names()),
        meaning => explanation.index.meaning(),
        shares_all => explanation.index.is_efficient(),
        provenance => minijinja::value::Serde(&explanation.provenance),
        explained => fact(explanation, "explained"),
        mean => fact(explanation, "mean"),
        exactness => minijinja::value::Serde(exactness(explanation)),
        // Inside a script element only `<` can end the element or open a comment.
        data => data(&drawn, explanation, options.decisions.as_ref().map(|d| decisions_of_rows(d, &rows)))?.to_string().replace('<', "\\u003c"),
    };
    written(TEMPLATE, page)
}

/// Renders a page from its template, after the head that all pages share.
pub(crate) fn written(template: &str, page: minijinja::Value) -> Result<String> {
    let page = context! { style => STYLE, style_hash => hash(STYLE), ..page };
    // The name ends in .html, so that minijinja escapes the inserted values.
    Environment::new()
        .render_named_str("page.html", &[HEAD, template].concat(), page)
        .map_err(|e| Error::Format { problem: format!("the page cannot be written: {e}") })
}

/// Evenly spaced rows, at most `max_rows` and few enough for a page of some megabytes.
fn drawn_rows(explanation: &Explanation, max_rows: usize) -> Vec<usize> {
    let n = explanation.rows();
    let numbers = explanation.outputs() * explanation.sets() + explanation.data.width();
    let count = n.min(max_rows).min((400_000 / numbers).max(50));
    (0..count).map(|k| k * n / count).collect()
}

/// The picture as part of a page, without the colour variables, which the page's style sheet defines.
pub(crate) fn inline(svg: Svg) -> String {
    svg.text.replace(&variables(), "").replace(" xmlns=\"http://www.w3.org/2000/svg\"", "")
}

/// The pictures of a page for wide and for narrow windows.
pub(crate) fn render_wide_and_narrow(
    wide: u32,
    options: &PlotOptions,
    draw: impl Fn(&PlotOptions) -> Result<Svg>,
) -> Result<Vec<String>> {
    let options = |width| PlotOptions { width, theme: Theme::Auto, ..options.clone() };
    [wide, 330].into_iter().map(|width| Ok(inline(draw(&options(width))?))).collect()
}

/// Sentences about the whiskers, and about the probability that the most important feature matters more than
/// the second one; `None` if there are no whiskers.
fn uncertainty_text(e: &Explanation, output: usize) -> Result<Option<String>> {
    let Some(uncertainty) = &e.uncertainty else {
        let [_, plural] = e.row_words();
        let text = "Whiskers of single values are 95 % intervals of the estimates: ± 1.96 standard errors.";
        let means = format!(" Those of means are 95 % intervals over {plural}.");
        let means = if e.rows() > 1 { &means } else { "" };
        return Ok(shown_std_error(e).map(|_| format!("{text}{means}")));
    };
    let mut text = match uncertainty.source {
        Some(UncertaintySource::Bootstrap { draws, .. }) => format!(
            "Whiskers are 95 % intervals: ± 1.96 standard deviations of the values over {draws} refits of \
             the model to bootstrap samples of its rows."
        ),
        Some(UncertaintySource::Jackknife { rows }) => format!(
            "Whiskers are 95 % intervals: ± 1.96 jackknife standard deviations, from refits of the model \
             without each of its {rows} rows."
        ),
        Some(UncertaintySource::Landmarks { .. }) => {
            "Whiskers are 95 % intervals for the values of a fit with all rows as support points, estimated \
            from fits with fewer landmarks. They do not cover the dependence of the model on its sample."
                .into()
        }
        _ => "Whiskers are 95 % intervals: each value lies in its interval with 95 % probability under the \
              posterior."
            .into(),
    };
    text += " ";
    let [singular, plural] = e.row_words();
    text += &format!(
        "The whiskers of means use the mean standard deviation over {plural}, an upper bound of the standard \
         deviation of the mean."
    );
    if let (Dispersion::Covariance(_), [first, second, ..]) =
        (&uncertainty.dispersion, &e.ranking(output)[..])
    {
        let probability = e.mean_probability_stronger(output, *first, *second)?;
        let (first, second) = (e.set_name(*first), e.set_name(*second));
        text += &format!(
            " In a {singular} picked at random, {first} matters more than {second} with a probability of {}.",
            share(probability)
        );
    }
    Ok(Some(text))
}

/// Writes a probability with two decimals; it is never rounded to 0 or 1.
fn share(p: f64) -> String {
    match p {
        p if p < 0.005 && p > 0.0 => "less than 0.01".into(),
        p if p > 0.995 && p < 1.0 => "more than 0.99".into(),
        p => fixed(p, 2),
    }
}

/// The decisions of a classifier for the drawn rows, in the form that the page's script reads.
fn decisions_of_rows(decisions: &ClassDecisions, rows: &[usize]) -> Value {
    let selected = decisions.select(rows, &(0..decisions.meaning.len()).collect::<Vec<_>>());
    let probability = |p: &Option<(usize, Vec<f64>)>| {
        p.as_ref().map(|(k, probabilities)| json!({ "class": k, "of": probabilities }))
    };
    json!({
        "classes": selected.classes,
        "chosen": selected.chosen,
        "probabilities": selected.probabilities.iter().map(probability).collect::<Vec<_>>(),
    })
}

fn data(drawn: &Explanation, full: &Explanation, decisions: Option<Value>) -> Result<Value> {
    let (n, m, p) = (drawn.rows(), drawn.outputs(), drawn.sets());
    let values_by_output = |list: &[f64]| -> Vec<Vec<f64>> {
        (0..m).map(|o| (0..n).map(|i| list[i * m + o]).collect()).collect()
    };
    let values_by_player = |list: &[f64]| -> Vec<Vec<Vec<f64>>> {
        let entry = |i: usize, o: usize, j: usize| list[(i * m + o) * p + j];
        (0..m).map(|o| (0..p).map(|j| (0..n).map(|i| entry(i, o, j)).collect()).collect()).collect()
    };
    let player = |k| {
        let columns = drawn.set_columns(k);
        json!({
            "name": drawn.set_name(k),
            "column": single_column(drawn, k),
            "size": columns.len(),
            "columns": columns,
        })
    };
    let columns: Vec<Value> = drawn
        .data
        .columns()
        .iter()
        .enumerate()
        .map(|(j, c)| {
            let levels = match &c.kind {
                ColumnKind::Categorical { levels } => Some(levels),
                ColumnKind::Numeric => None,
            };
            json!({ "name": c.name, "levels": levels, "values": drawn.data.column(j) })
        })
        .collect();
    let mut data = json!({
        "decisions": decisions,
        "rows": drawn.row_numbers,
        "words": drawn.row_words(),
        "names": (0..n).map(|i| drawn.row_name(i)).collect::<Vec<_>>(),
        "titles": (0..n).map(|i| row_title(drawn, i)).collect::<Vec<_>>(),
        "duels_text": drawn.duels.as_ref().map(|list| list.iter().map(Duel::words).collect::<Vec<_>>()),
        "duels": drawn.duels,
        "text": text_column(drawn),
        "outputs": drawn.output_names,
        "players": (0..p).map(player).collect::<Vec<_>>(),
        "columns": columns,
        "values": values_by_player(&drawn.values),
        "base": values_by_output(&drawn.base_values),
        "predictions": values_by_output(&drawn.predictions),
        "residuals": values_by_output(&drawn.residuals()),
        "pairs": drawn.subsets.is_some(),
        "value": drawn.index.name(),
        "shares_all": drawn.index.is_efficient(),
        "ranking": (0..m).map(|o| full.ranking(o)).collect::<Vec<_>>(),
    });
    if let Some(sd) = drawn.sd().or_else(|| shown_std_error(drawn).map(<[f64]>::to_vec)) {
        data["sd"] = json!(values_by_player(&sd));
        // For each row: the standard deviation of the waterfall's last sum, and the probability that its
        // first step is larger than its second.
        let (mut rest_deviations, mut first_is_stronger) = (Vec::new(), Vec::new());
        for (i, o) in (0..n * m).map(|g| (g / m, g % m)) {
            let values = drawn.row_values(i, o);
            let order = order_by_magnitude(values);
            rest_deviations.push(if p > STEPS + 1 { drawn.sd_of_sum(i, o, &order[STEPS..]) } else { None });
            first_is_stronger.push(match (drawn.covariance(i, o), &order[..]) {
                (Some(_), [a, b, ..]) => Some(share(drawn.probability_larger_magnitude((i, o), *a, *b)?)),
                _ => None,
            });
        }
        let values_by_output = |list: Vec<Value>| -> Vec<Vec<Value>> {
            (0..m).map(|o| list.iter().skip(o).step_by(m).cloned().collect()).collect()
        };
        data["rest_sd"] = json!(values_by_output(rest_deviations.into_iter().map(Value::from).collect()));
        data["first_is_stronger"] =
            json!(values_by_output(first_is_stronger.into_iter().map(Value::from).collect()));
    }
    Ok(data)
}

/// The column with the text whose words are the features: a categorical column named "text" or "the text"
/// that is not a feature.
fn text_column(e: &Explanation) -> Option<usize> {
    let is_text = |name: &str, kind: &ColumnKind| {
        matches!(kind, ColumnKind::Categorical { .. }) && ["text", "the text"].contains(&name)
    };
    let position = e.data.columns().iter().rposition(|c| is_text(&c.name, &c.kind))?;
    let is_feature = (0..e.sets()).any(|k| e.set_columns(k).contains(&position));
    (!is_feature && e.duels.is_none()).then_some(position)
}

/// Number of steps of the script's waterfall, before the sum of the others.
const STEPS: usize = 12;

/// The panel about exactness: its CSS class, its headline and its facts.
pub(crate) fn exactness(e: &Explanation) -> Value {
    let entry = |name: &str, value: String| json!({ "name": name, "value": value });
    match (&e.exactness, e.certificate()) {
        (Exactness::Estimated { std_error, sampling }, _) => {
            let max_error = std_error.iter().copied().fold(0.0, f64::max);
            let mut facts = vec![entry("largest standard error", number(max_error))];
            if let Some(Sampling { evaluations, seed }) = sampling {
                facts.push(entry("evaluations of the game", evaluations.to_string()));
                facts.push(entry("seed", seed.to_string()));
            }
            json!({ "class": "estimated", "headline": "These values are estimates.", "facts": facts })
        }
        (Exactness::Exact { bound }, None) => {
            let limit = scientific(bound.iter().fold(0.0, |m: f64, b| m.max(*b)), 1);
            json!({
                "class": "holds",
                "headline": "These values are exact: the error of each is below a proved limit.",
                "facts": [entry("proved limit of the error of a value", limit)],
            })
        }
        (_, Some(c)) => {
            let (residual, limit) = (scientific(c.residual, 1), scientific(c.bound, 1));
            json!({
                "class": if c.holds { "holds" } else { "fails" },
                "headline": if c.holds {
                    format!("These values are exact: they add up to the prediction within {residual} (proved \
                             limit {limit}).")
                } else {
                    "The check fails: in at least one row the values do not add up to the prediction within \
                     the proved limit. Do not rely on these values.".into()
                },
                "facts": [
                    entry("largest difference between a prediction and the sum of its values", residual),
                    entry("proved limit of this difference", limit),
                ],
            })
        }
        (_, None) => json!({
            "class": "estimated",
            "headline": if fact(e, "explained").is_some() {
                "These values are exact up to rounding, without a proved limit of their errors."
            } else {
                "The exactness of these values is unknown: the table that they come from does not state it."
            },
            "facts": [entry(
                "largest difference between a prediction and the sum of its values",
                scientific(e.residuals().iter().fold(0.0, |m: f64, r| m.max(r.abs())), 1),
            )],
        }),
    }
}

/// The page's words for rows and for the values of their features.
fn row_texts(e: &Explanation) -> Value {
    let [singular, plural] = e.row_words();
    if e.duels.is_none() {
        return json!({
            "one": singular,
            "many": plural,
            "title": "Rows",
            "search": "row number or value",
            "dots": "Orange dots are high feature values, blue dots low ones",
            "read": "",
        });
    }
    json!({
        "one": singular,
        "many": plural,
        "title": "Duels",
        "search": "name or value",
        "dots": "Orange dots are duels in which the left item has more of the feature than the right one, \
                 blue dots are duels in which it has less",
        "read": "Each feature describes both items: its number here is the left item’s minus the right \
                 item’s. If the sides are exchanged, all values change their sign.",
    })
}

/// The value of an entry of the provenance. "explained" is there if the explained quantity is not the model's
/// output, "mean" if the explanation is a mean over rows.
fn fact<'e>(e: &'e Explanation, name: &str) -> Option<&'e str> {
    e.provenance.run.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_str())
}

/// The hash of an inline script or style for a content security policy.
fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn hashes_are_those_of_the_standard() {
        assert_eq!(super::hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }
}
