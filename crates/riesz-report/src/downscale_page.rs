//! A self-contained HTML page about a map learnt from bags. It shows the map, its uncertainty, its
//! explanation by features, and the observed and explained values of the bags. The page loads nothing and has
//! no script.

use minijinja::{Value, context};
use riesz::aggregate::TargetUnit;
use riesz::kernel_model::Link;
use riesz::{Explanation, Result};

use crate::format::{fixed, number, order_by_magnitude, range};
use crate::html::{exactness, inline, render_wide_and_narrow, written};
use crate::plot::{Places, Plot, PlotOptions, Shown, capital, check_length, render, render_value_map};
use crate::svg::Theme;

const TEMPLATE: &str = include_str!("../assets/downscale.html");

/// Maximum number of features that have a map and a column; these are the most important ones.
const MOST_FEATURES: usize = 12;

/// Maximum number of bags in the table.
const MOST_BAGS: usize = 200;

/// Maximum number of features that the description of a bag names, see [`why`].
const SPOKEN: usize = 3;

/// Width of a map in pixels, before the page scales it to the available room.
const WIDTH: u32 = 620;

/// The contents of the page.
#[derive(Debug, Clone)]
pub struct DownscalePage<'p> {
    /// The page's title.
    pub title: &'p str,
    /// The name of the mapped quantity on its natural scale: "rate", "probability", or the model's output.
    pub quantity: &'p str,
    /// The link between the explained outputs and the mapped quantity.
    pub link: Link,
    /// The points or areas of the rows.
    pub places: Places<'p>,
    /// The names of the coordinates.
    pub axes: [&'p str; 2],
    /// The posterior mean of each row on the natural scale.
    pub mean: &'p [f64],
    /// The posterior standard deviation of the output of each row.
    pub sd: &'p [f64],
    /// The number of models with other hyper-parameters of which the map is an average; 1 if it is of the
    /// best hyper-parameters.
    pub n_models: usize,
    /// The explanation of all rows; its first output is shown.
    pub explanation: &'p Explanation,
    /// The bags of rows, if any.
    pub bags: Option<PageBags<'p>>,
}

/// The bags of rows, with their observed and explained values.
#[derive(Debug, Clone)]
pub struct PageBags<'p> {
    /// The column with the names of the bags.
    pub column: &'p str,
    /// The names of the bags.
    pub names: &'p [String],
    /// The number of rows of each bag.
    pub rows: &'p [usize],
    /// The column of the rows' weights, if any.
    pub weight: Option<&'p str>,
    /// The sum of the rows' weights in each bag.
    pub mass: &'p [f64],
    /// The map's value for each bag, and for all rows together.
    pub map: (&'p [f64], f64),
    /// A description of the map's value in terms of rows: "the mean over people of the map’s rate".
    pub is: &'p str,
    /// The name of the observed quantity, and its value for each bag; NaN where nothing was observed.
    pub observed: Option<(&'p str, &'p [f64])>,
    /// Explanations of the mean or sum of the rows' outputs: one with a row for each bag, and one of all
    /// rows.
    pub explanation: [&'p Explanation; 2],
    /// Whether the explanations are of means or of sums.
    pub unit: TargetUnit,
}

/// Returns the page as one HTML file that opens from disk and loads nothing.
///
/// # Errors
/// As [`render_map`](crate::render_map) and [`render`]; [`Error::Shape`](riesz::Error::Shape) unless every
/// list has one entry for each row, or for each bag.
pub fn downscale_report(page: &DownscalePage<'_>) -> Result<String> {
    let e = page.explanation;
    let n = e.rows();
    let lists = [("means", page.mean.len()), ("standard deviations", page.sd.len())];
    for (list, count) in lists.into_iter().chain([("places", page.places.count())]) {
        check_length(list, n, count, "one for each row")?;
    }
    let bar = Plot::named("bar")?;
    let options = PlotOptions { max_display: MOST_FEATURES, ..PlotOptions::default() };
    let bars = render_wide_and_narrow(720, &options, |options| render(e, bar, options))?;
    let top_features: Vec<usize> = (0..n).map(|i| largest(e.row_values(i, 0))).collect();
    let maps = maps(page, &top_features)?;
    let order = e.ranking(0);
    let shown_features = &order[..order.len().min(MOST_FEATURES)];
    let (features, max_magnitude) = feature_maps(page, shown_features)?;
    let quantity = capital(page.quantity);
    let page = context! {
        title => page.title,
        lead => format!("{quantity} of {n} rows, its uncertainty and its explanation by features."),
        pictures => true,
        sure => uncertainty_sentences(page.link, page.n_models),
        maps,
        bars,
        caption => caption_of_values(page),
        features,
        left => order.len() - shown_features.len(),
        reach => number(max_magnitude),
        table => feature_table(e, &order, &top_features),
        bags => page.bags.as_ref().map(|page_bags| bag_table(page_bags, page)).transpose()?,
        exactness => minijinja::value::Serde(exactness(e)),
        provenance => minijinja::value::Serde(&e.provenance),
    };
    written(TEMPLATE, page)
}

impl DownscalePage<'_> {
    /// A map with its headline and caption.
    fn map(&self, headline: &str, caption: &str, shown: &Shown<'_>, title: &str) -> Result<Value> {
        let options = PlotOptions { theme: Theme::Auto, width: WIDTH, ..PlotOptions::default() };
        let svg = inline(render_value_map(self.places, shown, self.axes, title, &options)?);
        Ok(context! { head => headline, caption, svg })
    }
}

/// The maps of the mean, of the standard deviation and of the feature with the largest value, `top_features`.
fn maps(page: &DownscalePage<'_>, top_features: &[usize]) -> Result<[Value; 3]> {
    let (e, quantity) = (page.explanation, page.quantity);
    let numbers = |values| Shown::Numbers { values, ends: None };
    let names: Vec<String> = (0..e.sets()).map(|j| e.set_name(j)).collect();
    let (sd, output) = (span("standard deviation ", page.sd), &e.output_names[0]);
    let caption = "the feature whose Shapley value is the largest in magnitude";
    let levels = Shown::Levels { codes: top_features, names: &names };
    Ok([
        page.map(&capital(quantity), &span("", page.mean), &numbers(page.mean), quantity)?,
        page.map("Uncertainty", &sd, &numbers(page.sd), &format!("std of {output}"))?,
        page.map("Feature with the largest effect", caption, &levels, "largest effect")?,
    ])
}

fn values_of(e: &Explanation, j: usize) -> Vec<f64> {
    (0..e.rows()).map(|i| e.row_values(i, 0)[j]).collect()
}

/// The maps of the values of features, and the end of their scale. All maps have one scale, so that their
/// colours can be compared.
fn feature_maps(page: &DownscalePage<'_>, shown_features: &[usize]) -> Result<(Vec<Value>, f64)> {
    let e = page.explanation;
    let values: Vec<Vec<f64>> = shown_features.iter().map(|&j| values_of(e, j)).collect();
    let max_magnitude = values.iter().flatten().fold(0.0, |maximum: f64, v| maximum.max(v.abs()));
    let map = |(&j, values): (&usize, &Vec<f64>)| {
        let (name, shown) =
            (e.set_name(j), Shown::Numbers { values, ends: Some([-max_magnitude, max_magnitude]) });
        page.map(&name, &span("", values), &shown, &format!("value of {name}"))
    };
    Ok((shown_features.iter().zip(&values).map(map).collect::<Result<_>>()?, max_magnitude))
}

/// The rows of the table of features. `top_features` is the feature with the largest value in each row.
fn feature_table(e: &Explanation, order: &[usize], top_features: &[usize]) -> Vec<Value> {
    let (decimals, mean_abs) = (Decimals::for_values(&e.values, 4), e.mean_abs(0));
    let row = |&j: &usize| {
        let [low, high] = range(values_of(e, j));
        let share = top_features.iter().filter(|feature| **feature == j).count() as f64 / e.rows() as f64;
        let cells = vec![
            decimals.write(mean_abs[j]),
            decimals.signed(low),
            decimals.signed(high),
            format!("{} %", fixed(100.0 * share, 1)),
        ];
        context! { name => e.set_name(j), cells }
    };
    order.iter().map(row).collect()
}

/// Sentences about the mean and the standard deviation that the map shows.
fn uncertainty_sentences(link: Link, n_models: usize) -> String {
    let sentence = match link {
        Link::Log => {
            "The map shows the posterior mean of the rate; the standard deviation refers to its logarithm."
        }
        Link::Logit => {
            "The map shows the posterior mean of the probability; the standard deviation refers to its \
             log odds."
        }
        _ => {
            "The map shows the posterior mean; the standard deviation belongs to the same posterior and \
             does not include noise."
        }
    };
    let hyperparameters = match n_models {
        1 => {
            "use the best hyper-parameters only, which understates the uncertainty where bags are few".into()
        }
        count => format!("are averages over {count} models with other hyper-parameters"),
    };
    format!("{sentence} Both {hyperparameters}.")
}

/// Sentences about the bars, the sum of the values, and the explained quantity.
fn caption_of_values(page: &DownscalePage<'_>) -> String {
    let e = page.explanation;
    let (base, output) = (number(e.base_values[0]), &e.output_names[0]);
    let effect_text = match page.link {
        Link::Log => {
            " The explained quantity is the logarithm of the rate: a feature multiplies the rate by \
             exp(value)."
        }
        Link::Logit => {
            " The explained quantity is the log odds of a success: a feature multiplies the odds by \
             exp(value)."
        }
        _ => "",
    };
    let functional = match &e.provenance.game[..] {
        "functional" => {
            " In this game the base value is not a mean of predictions: compare values between rows and \
             features, or give a background, with whose rows each row is then compared."
        }
        _ => "",
    };
    format!(
        "Each bar is the mean |Shapley value| of a feature over all {} rows. In each row the values add up \
         to {output} minus the base value, {base}. {}.{functional}{effect_text}",
        e.rows(),
        capital(&e.provenance.absent)
    )
}

/// The table of bags; its first line is about all rows together.
fn bag_table(bags: &PageBags<'_>, page: &DownscalePage<'_>) -> Result<Value> {
    let ([e, all_rows], count) = (bags.explanation, bags.names.len());
    let observed = bags.observed.map_or(count, |(_, values)| values.len());
    let lists = [bags.rows.len(), bags.mass.len(), bags.map.0.len(), e.rows(), observed];
    lists
        .into_iter()
        .try_for_each(|actual| check_length("numbers of bags", count, actual, "one for each bag"))?;
    let differences: Option<Vec<f64>> =
        bags.observed.map(|(_, values)| values.iter().zip(bags.map.0).map(|(z, map)| z - map).collect());
    let order = listed_bags(count, differences.as_deref());
    let ranking = page.explanation.ranking(0);
    let (shown_features, omitted_features) = ranking.split_at(ranking.len().min(MOST_FEATURES));
    let mut columns = vec![bags.column.to_string(), "rows".into()];
    columns.extend(bags.weight.map(String::from));
    columns.extend(bags.observed.map(|(name, _)| format!("observed {name}")));
    columns.push("map".into());
    columns.extend(bags.observed.map(|_| "difference".into()));
    columns.extend(["why".into(), "base value".to_string()]);
    columns.extend(shown_features.iter().map(|&j| e.set_name(j)));
    columns.extend((!omitted_features.is_empty()).then(|| format!("{} others", omitted_features.len())));
    // Equal decimals make the numbers of a column easy to compare.
    let observed_values = bags.observed.map_or(&[][..], |(_, values)| values);
    let observed_decimals = Decimals::for_observations(observed_values, bags.map.0);
    let map_decimals = Decimals::for_values(bags.map.0.iter().chain(observed_values), 4);
    let difference_decimals = Decimals::for_values(differences.iter().flatten(), 3);
    let value_decimals = Decimals::for_values(&e.values, 3);
    let mass_decimals = Decimals::for_observations(bags.mass, bags.mass);
    let number_or_dash = |x: f64, text: String| if x.is_nan() { "–".into() } else { text };
    type Line<'l> = (&'l str, usize, f64, f64);
    let line = |(name, size, mass, map): Line<'_>,
                [observed_value, difference]: [f64; 2],
                comparison: String,
                (e, k): (&Explanation, usize)| {
        let mut cells = vec![size.to_string()];
        cells.extend(bags.weight.map(|_| mass_decimals.write(mass)));
        cells.extend(
            bags.observed.map(|_| number_or_dash(observed_value, observed_decimals.write(observed_value))),
        );
        cells.push(map_decimals.write(map));
        cells.extend(
            bags.observed.map(|_| number_or_dash(difference, difference_decimals.signed(difference))),
        );
        let values = e.row_values(k, 0);
        let mut parts = vec![value_decimals.write(e.base_values[k])];
        parts.extend(shown_features.iter().map(|&j| value_decimals.signed(values[j])));
        parts.extend(
            (!omitted_features.is_empty())
                .then(|| value_decimals.signed(omitted_features.iter().map(|&j| values[j]).sum())),
        );
        context! { name, cells, why => comparison, parts }
    };
    let total_mass = bags.mass.iter().sum::<f64>();
    let mut rows = vec![line(
        ("all rows", bags.rows.iter().sum(), total_mass, bags.map.1),
        [f64::NAN; 2],
        String::new(),
        (all_rows, 0),
    )];
    rows.extend(order.iter().map(|&k| {
        let observed_and_difference = [
            bags.observed.map_or(f64::NAN, |(_, values)| values[k]),
            differences.as_ref().map_or(f64::NAN, |list| list[k]),
        ];
        let scale = if bags.unit == TargetUnit::Sum { bags.mass[k] / total_mass } else { 1.0 };
        let line_of_bag = (&bags.names[k][..], bags.rows[k], bags.mass[k], bags.map.0[k]);
        line(
            line_of_bag,
            observed_and_difference,
            difference_text((e, k), all_rows, scale, page.link),
            (e, k),
        )
    }));
    let caption = caption_of_bags(bags, page.link, differences.as_deref());
    Ok(context! { head => format!("By {}", bags.column), caption, columns, rows })
}

/// The bags that the table lists: those with the largest differences first, and bags without an observation
/// last.
fn listed_bags(count: usize, differences: Option<&[f64]>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if let Some(differences) = differences {
        let size = |k: usize| if differences[k].is_nan() { -1.0 } else { differences[k].abs() };
        order.sort_by(|&a, &b| size(b).total_cmp(&size(a)));
    }
    order.truncate(MOST_BAGS);
    order
}

/// The description of the table of bags.
fn caption_of_bags(bags: &PageBags<'_>, link: Link, differences_of_bags: Option<&[f64]>) -> String {
    let count = bags.names.len();
    let mut text = format!("The map’s value for a bag is {}. ", bags.is);
    if let Some(list) = differences_of_bags {
        let finite_differences: Vec<f64> = list.iter().copied().filter(|v| !v.is_nan()).collect();
        if !finite_differences.is_empty() {
            let mean = (finite_differences.iter().map(|v| v * v).sum::<f64>()
                / finite_differences.len() as f64)
                .sqrt();
            text += &format!(
                "The observed values differ from it by {} (root mean square over {} bags). ",
                number(mean),
                finite_differences.len()
            );
        }
    }
    text += match link {
        Link::Log | Link::Logit => {
            "The explained quantity is the weighted mean of the rows’ outputs, which are log rates or log \
             odds; it is not the logarithm of the sum. The base value and the features’ values add up to it \
             exactly. "
        }
        _ => {
            "By linearity the values of a bag are the same mean or sum of its rows’ Shapley values, and \
             equally exact. With the base value they add up to the map’s value. "
        }
    };
    text += "The column ‘why’ compares a bag with all rows together, whose values are in the first line. ";
    let selection = match (count > MOST_BAGS, differences_of_bags.is_some()) {
        (true, true) => format!("the {MOST_BAGS} of {count} bags with the largest differences"),
        (true, false) => format!("the first {MOST_BAGS} of {count} bags"),
        (false, true) => return text + "Bags with the largest differences come first.",
        (false, false) => return text,
    };
    text + &format!("The table lists {selection}; ‘riesz downscale explain’ writes all.")
}

/// A description of the difference between row `k` of `e` (a bag) and `times` times `overall` (all rows
/// together): "3.2 above average: rain +2.1, height +0.9, 2 others +0.2". Differences of exact values are
/// exact.
fn difference_text((e, k): (&Explanation, usize), overall: &Explanation, scale: f64, link: Link) -> String {
    let values: Vec<f64> = e
        .row_values(k, 0)
        .iter()
        .zip(overall.row_values(0, 0))
        .map(|(bag_value, overall_value)| bag_value - scale * overall_value)
        .collect();
    let difference = e.predictions[k] - scale * overall.predictions[0];
    let order = order_by_magnitude(&values);
    // A sum over a single feature would only hide its name.
    let shown_count = if order.len() <= SPOKEN + 1 { order.len() } else { SPOKEN };
    let decimals = Decimals::for_values(values.iter().chain([&difference]), 3);
    let factor = |v: f64| fixed(v.exp(), 2);
    let part = |v: f64| if link == Link::Log { format!("×\u{a0}{}", factor(v)) } else { decimals.signed(v) };
    let mut parts: Vec<String> =
        order[..shown_count].iter().map(|&j| format!("{}\u{a0}{}", e.set_name(j), part(values[j]))).collect();
    if shown_count < order.len() {
        let sum = order[shown_count..].iter().map(|&j| values[j]).sum();
        parts.push(format!("{}\u{a0}others\u{a0}{}", order.len() - shown_count, part(sum)));
    }
    let headline = match link {
        Link::Log => format!("{} times the average rate", factor(difference)),
        _ => {
            format!(
                "{} {} average",
                decimals.write(difference.abs()),
                if difference < 0.0 { "below" } else { "above" }
            )
        }
    };
    format!("{headline}: {}", parts.join(", "))
}

/// Number of decimals for the numbers of one column; `None` for very small or very large numbers.
struct Decimals(Option<usize>);

impl Decimals {
    /// The number of decimals that shows `significant` digits of the largest number.
    fn for_values<'v>(values: impl IntoIterator<Item = &'v f64>, significant: i32) -> Self {
        let max_magnitude =
            values.into_iter().filter(|v| !v.is_nan()).fold(0.0, |maximum: f64, v| maximum.max(v.abs()));
        let is_plain = (1e-3..1e6).contains(&max_magnitude);
        Self(is_plain.then(|| (significant - 1 - max_magnitude.log10().floor() as i32).max(0) as usize))
    }

    /// No decimals for observations that are whole numbers, such as counts; for others those of
    /// observations and fitted values together.
    fn for_observations(observed: &[f64], fitted: &[f64]) -> Self {
        let is_whole = |v: &f64| v.is_nan() || v.fract() == 0.0 && v.abs() < 1e15;
        if observed.iter().all(is_whole) {
            return Self(Some(0));
        }
        Self::for_values(observed.iter().chain(fitted), 4)
    }

    fn write(&self, x: f64) -> String {
        self.0.map_or_else(|| number(short(x)), |decimals| fixed(x, decimals))
    }

    /// The number with its sign, also if it is positive.
    fn signed(&self, x: f64) -> String {
        let text = self.write(x);
        if x > 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b)) { format!("+{text}") } else { text }
    }
}

/// Rounds to three significant digits.
fn short(x: f64) -> f64 {
    format!("{x:.2e}").parse().unwrap_or(x)
}

fn span(prefix: &str, values: &[f64]) -> String {
    let [low, high] = range(values.iter().copied()).map(short);
    format!("{prefix}from {} to {}", number(low), number(high))
}

/// The position of the number that is largest in magnitude.
fn largest(values: &[f64]) -> usize {
    let first = |best: usize, j: usize| if values[j].abs() > values[best].abs() { j } else { best };
    (0..values.len()).fold(0, first)
}
