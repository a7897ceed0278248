//! One self-contained page about a map learnt from bags: the map, its uncertainty, its explanation by
//! features, and for bags the observed values and their explanation. No network, no script.

use minijinja::{Value, context};
use riesz::aggregate::TargetUnit;
use riesz::kernel_model::Link;
use riesz::{Error, Explanation, Result};

use crate::format::{fixed, number};
use crate::html::{exactness, inline, written};
use crate::plot::{Plot, PlotOptions, Shown, capital, places_map, render};
use crate::svg::Theme;

const TEMPLATE: &str = include_str!("../assets/downscale.html");

/// Features whose values have maps and columns of their own, the most important ones.
const MOST_FEATURES: usize = 12;

/// Bags that are listed.
const MOST_BAGS: usize = 200;

/// Features that say in words why a bag is what it is.
const SPOKEN: usize = 3;

/// Width of a map in pixels; it is drawn as wide as there is room.
const WIDTH: u32 = 460;

/// The contents of the page.
#[derive(Debug, Clone)]
pub struct DownscalePage<'p> {
    /// The page's title.
    pub title: &'p str,
    /// The quantity of the map on its natural scale: "rate", "probability", or the model's output.
    pub quantity: &'p str,
    /// The link between the explained outputs and that quantity.
    pub link: Link,
    /// Places of rows, from left to right and from bottom to top.
    pub places: [&'p [f64]; 2],
    /// The names of the coordinates.
    pub axes: [&'p str; 2],
    /// The posterior mean of each row on the natural scale.
    pub mean: &'p [f64],
    /// The posterior standard deviation of the output of each row.
    pub sd: &'p [f64],
    /// The explanation of all rows; its first output is shown.
    pub explanation: &'p Explanation,
    /// The bags of rows, if there are some.
    pub bags: Option<PageBags<'p>>,
}

/// Bags of rows.
#[derive(Debug, Clone)]
pub struct PageBags<'p> {
    /// The column with their names.
    pub column: &'p str,
    /// Their names.
    pub names: &'p [String],
    /// The number of rows of each bag.
    pub rows: &'p [usize],
    /// The column of the rows' weights, if they have some.
    pub weight: Option<&'p str>,
    /// The sums of the rows' weights.
    pub mass: &'p [f64],
    /// The map's value for each bag, and for all rows.
    pub map: (&'p [f64], f64),
    /// A description of that value in terms of rows: "the mean over people of the map’s rate".
    pub is: &'p str,
    /// The name of the observed quantity, and its values; not a number where nothing was observed.
    pub observed: Option<(&'p str, &'p [f64])>,
    /// Means or sums of the rows' outputs explained, a row a bag, and likewise those of all rows together.
    pub explanation: [&'p Explanation; 2],
    /// Which of the two.
    pub unit: TargetUnit,
}

/// The page as one HTML file that opens from disk and loads nothing.
///
/// # Errors
/// As [`render_map`](crate::render_map) and [`render`]; [`Error::Shape`] unless there is one of all lists for
/// each row and bag.
pub fn downscale_report(page: &DownscalePage<'_>) -> Result<String> {
    let e = page.explanation;
    let n = e.rows();
    let lists = [("means", page.mean.len()), ("standard deviations", page.sd.len())];
    for (list, count) in lists.into_iter().chain(page.places.map(|coordinates| ("places", coordinates.len())))
    {
        one_each(list, n, count, "one a row")?;
    }
    let options = |width| PlotOptions {
        theme: Theme::Auto,
        width,
        max_display: MOST_FEATURES,
        ..PlotOptions::default()
    };
    let bar = Plot::named("bar")?;
    let bars: Vec<String> =
        [720, 330].into_iter().map(|w| Ok(inline(render(e, bar, &options(w))?))).collect::<Result<_>>()?;
    let draw = |head: &str, caption: &str, shown: &Shown<'_>, title: &str| -> Result<Value> {
        let svg = inline(places_map(page.places, shown, page.axes, title, &options(WIDTH))?);
        Ok(context! { head, caption, svg })
    };
    let numbers = |values| Shown::Numbers { values, ends: None };
    let (quantity, output) = (page.quantity, &e.output_names[0]);
    let names: Vec<String> = (0..e.sets()).map(|j| e.set_name(j)).collect();
    let first: Vec<usize> = (0..n).map(|i| largest(e.row_values(i, 0))).collect();
    let maps = [
        draw(&capital(quantity), &span("", page.mean), &numbers(page.mean), quantity)?,
        draw(
            "How sure",
            &span("standard deviation ", page.sd),
            &numbers(page.sd),
            &format!("sd of {output}"),
        )?,
        draw(
            "Top feature",
            "whose value is the largest, up or down",
            &Shown::Levels { of: &first, names: &names },
            "top feature",
        )?,
    ];
    let values_of = |j: usize| -> Vec<f64> { (0..n).map(|i| e.row_values(i, 0)[j]).collect() };
    let (order, mean_abs) = (e.ranking(0), e.mean_abs(0));
    let drawn = &order[..order.len().min(MOST_FEATURES)];
    let drawn_values: Vec<Vec<f64>> = drawn.iter().map(|&j| values_of(j)).collect();
    // All on one scale, by which colours can be compared.
    let reach = drawn_values.iter().flatten().fold(0.0, |maximum: f64, v| maximum.max(v.abs()));
    let features = drawn
        .iter()
        .zip(&drawn_values)
        .map(|(&j, values)| {
            let shown = Shown::Numbers { values, ends: Some([-reach, reach]) };
            draw(&names[j], &span("", values), &shown, &format!("value of {}", names[j]))
        })
        .collect::<Result<Vec<_>>>()?;
    let decimals = Decimals::for_values(&e.values, 4);
    let table: Vec<Value> = order
        .iter()
        .map(|&j| {
            let values = values_of(j);
            let [low, high] = ends(&values);
            let share = first.iter().filter(|top| **top == j).count() as f64 / n as f64;
            let cells = vec![
                decimals.write(mean_abs[j]),
                decimals.signed(low),
                decimals.signed(high),
                format!("{} %", fixed(100.0 * share, 1)),
            ];
            context! { name => names[j].clone(), cells }
        })
        .collect();
    let page = context! {
        title => page.title,
        lead => format!("{} of {n} rows, how sure it is, and what features make of it.", capital(quantity)),
        pictures => true,
        sure => how_sure(page.link),
        maps,
        bars,
        caption => caption_of_values(page),
        features,
        left => order.len() - drawn.len(),
        reach => number(reach),
        table,
        bags => page.bags.as_ref().map(|page_bags| of_bags(page_bags, page)).transpose()?,
        exactness => minijinja::value::Serde(exactness(e)),
        provenance => minijinja::value::Serde(&e.provenance),
    };
    written(TEMPLATE, page)
}

/// A sentence about the standard deviations of the map.
fn how_sure(link: Link) -> String {
    let sentence = match link {
        Link::Log => {
            "The map is the posterior mean of the rate; the standard deviation is that of its logarithm."
        }
        Link::Logit => {
            "The map is the posterior mean of the probability; the standard deviation is that of its log \
             odds."
        }
        _ => {
            "The map is the posterior mean, and the standard deviation that of the same posterior, noise \
             not included."
        }
    };
    format!(
        "{sentence} Both are by the best hyper-parameters, which are too sure of themselves where bags are \
         few."
    )
}

/// A sentence about the explained quantity, the baseline, and the sum of the values.
fn caption_of_values(page: &DownscalePage<'_>) -> String {
    let e = page.explanation;
    let (base, output) = (number(e.base_values[0]), &e.output_names[0]);
    let counts = match page.link {
        Link::Log => {
            " Explained is the logarithm of the rate: exp(value) is the factor by which a feature raises it."
        }
        Link::Logit => {
            " Explained are the log odds of a success: exp(value) is the factor by which a feature raises \
             the odds."
        }
        _ => "",
    };
    let functional = match &e.provenance.game[..] {
        "functional" => {
            " The base value is then no mean of predictions: compare values between rows and features, or \
             give a background, whose rows each row is then compared with."
        }
        _ => "",
    };
    format!(
        "A bar is the mean |Shapley value| of a feature over all {} rows. In each row values add up to \
         {output} less the base value, {base}. {}.{functional}{counts}",
        e.rows(),
        capital(&e.provenance.absent)
    )
}

/// The table of bags, after a line of all rows.
fn of_bags(bags: &PageBags<'_>, page: &DownscalePage<'_>) -> Result<Value> {
    let ([e, all_rows], count) = (bags.explanation, bags.names.len());
    let observed = bags.observed.map_or(count, |(_, values)| values.len());
    let lists = [bags.rows.len(), bags.mass.len(), bags.map.0.len(), e.rows(), observed];
    lists.into_iter().try_for_each(|actual| one_each("numbers of bags", count, actual, "one a bag"))?;
    let differences: Option<Vec<f64>> =
        bags.observed.map(|(_, values)| values.iter().zip(bags.map.0).map(|(z, map)| z - map).collect());
    let mut order: Vec<usize> = (0..count).collect();
    if let Some(differences) = &differences {
        // Bags that nothing was observed of come last.
        let size = |k: usize| if differences[k].is_nan() { -1.0 } else { differences[k].abs() };
        order.sort_by(|&a, &b| size(b).total_cmp(&size(a)));
    }
    order.truncate(MOST_BAGS);
    let ranking = page.explanation.ranking(0);
    let (shown, omitted) = ranking.split_at(ranking.len().min(MOST_FEATURES));
    let mut columns = vec![bags.column.to_string(), "rows".into()];
    columns.extend(bags.weight.map(String::from));
    columns.extend(bags.observed.map(|(name, _)| format!("observed {name}")));
    columns.push("map".into());
    columns.extend(bags.observed.map(|_| "difference".into()));
    columns.extend(["why".into(), "base value".to_string()]);
    columns.extend(shown.iter().map(|&j| e.set_name(j)));
    columns.extend((!omitted.is_empty()).then(|| format!("{} others", omitted.len())));
    // Equal decimals, so that numbers of a column can be compared at a glance.
    let seen = bags.observed.map_or(&[][..], |(_, values)| values);
    let maps = Decimals::for_values(bags.map.0.iter().chain(seen), 4);
    let offs = Decimals::for_values(differences.iter().flatten(), 3);
    let parts_of = Decimals::for_values(&e.values, 3);
    let masses = Decimals::for_values(bags.mass, 4);
    let known = |x: f64, text: String| if x.is_nan() { "–".into() } else { text };
    type Line<'l> = (&'l str, usize, f64, f64);
    let line = |(name, size, mass, map): Line<'_>,
                [seen, off]: [f64; 2],
                why: String,
                (e, k): (&Explanation, usize)| {
        let mut cells = vec![size.to_string()];
        cells.extend(bags.weight.map(|_| masses.write(mass)));
        cells.extend(bags.observed.map(|_| known(seen, maps.write(seen))));
        cells.push(maps.write(map));
        cells.extend(bags.observed.map(|_| known(off, offs.signed(off))));
        let values = e.row_values(k, 0);
        let mut parts = vec![parts_of.write(e.base_values[k])];
        parts.extend(shown.iter().map(|&j| parts_of.signed(values[j])));
        parts
            .extend((!omitted.is_empty()).then(|| parts_of.signed(omitted.iter().map(|&j| values[j]).sum())));
        context! { name, cells, why, parts }
    };
    let total_mass = bags.mass.iter().sum::<f64>();
    let mut rows = vec![line(
        ("all rows", bags.rows.iter().sum(), total_mass, bags.map.1),
        [f64::NAN; 2],
        String::new(),
        (all_rows, 0),
    )];
    rows.extend(order.iter().map(|&k| {
        let seen = [
            bags.observed.map_or(f64::NAN, |(_, values)| values[k]),
            differences.as_ref().map_or(f64::NAN, |list| list[k]),
        ];
        let times = if bags.unit == TargetUnit::Sum { bags.mass[k] / total_mass } else { 1.0 };
        let line_of_bag = (&bags.names[k][..], bags.rows[k], bags.mass[k], bags.map.0[k]);
        line(line_of_bag, seen, why((e, k), all_rows, times, page.link), (e, k))
    }));
    let caption = caption_of_bags(bags, page.link, differences.as_deref());
    Ok(context! { head => format!("By {}", bags.column), caption, columns, rows })
}

/// A description of the table of bags.
fn caption_of_bags(bags: &PageBags<'_>, link: Link, differences_of_bags: Option<&[f64]>) -> String {
    let count = bags.names.len();
    let mut text = format!("Of each bag the map says {}. ", bags.is);
    if let Some(list) = differences_of_bags {
        let seen: Vec<f64> = list.iter().copied().filter(|v| !v.is_nan()).collect();
        if !seen.is_empty() {
            let mean = (seen.iter().map(|v| v * v).sum::<f64>() / seen.len() as f64).sqrt();
            text += &format!(
                "What was observed is off that by {} (root mean square of {} bags). ",
                number(mean),
                seen.len()
            );
        }
    }
    text += match link {
        Link::Log | Link::Logit => {
            "Explained is the weighted mean of its rows’ outputs, log rates or log odds, to which the base \
             value and features’ values add up exactly; that is not the logarithm of the sum. "
        }
        _ => {
            "By linearity its values are the same of its rows’ Shapley values, and as exact: with the base \
             value they add up to the map. "
        }
    };
    text += "In words a bag is compared with all rows together, whose values the first line has. ";
    let which = match (count > MOST_BAGS, differences_of_bags.is_some()) {
        (true, true) => format!(
            "The {MOST_BAGS} of {count} bags with the largest differences; ‘riesz downscale explain’ writes \
             all."
        ),
        (true, false) => {
            format!("The first {MOST_BAGS} of {count} bags; ‘riesz downscale explain’ writes all.")
        }
        (false, true) => "Those with the largest differences come first.".into(),
        (false, false) => String::new(),
    };
    text + &which
}

/// Why a bag is what it is, compared with so many times all rows, in words: "3.2 above average: rain +2.1,
/// height +0.9, 2 others +0.2". Differences of exact values are exact.
fn why((e, k): (&Explanation, usize), overall: &Explanation, times: f64, link: Link) -> String {
    let values: Vec<f64> = e
        .row_values(k, 0)
        .iter()
        .zip(overall.row_values(0, 0))
        .map(|(of_bag, of_all)| of_bag - times * of_all)
        .collect();
    let above = e.predictions[k] - times * overall.predictions[0];
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].abs().total_cmp(&values[a].abs()));
    // A sum of one would only hide a name.
    let keep = if order.len() <= SPOKEN + 1 { order.len() } else { SPOKEN };
    let decimals = Decimals::for_values(values.iter().chain([&above]), 3);
    let factor = |v: f64| fixed(v.exp(), 2);
    let part = |v: f64| if link == Link::Log { format!("×\u{a0}{}", factor(v)) } else { decimals.signed(v) };
    let mut parts: Vec<String> =
        order[..keep].iter().map(|&j| format!("{}\u{a0}{}", e.set_name(j), part(values[j]))).collect();
    if keep < order.len() {
        let sum = order[keep..].iter().map(|&j| values[j]).sum();
        parts.push(format!("{}\u{a0}others\u{a0}{}", order.len() - keep, part(sum)));
    }
    let begin = match link {
        Link::Log => format!("{} times the average rate", factor(above)),
        _ => {
            format!("{} {} average", decimals.write(above.abs()), if above < 0.0 { "below" } else { "above" })
        }
    };
    format!("{begin}: {}", parts.join(", "))
}

/// The number of decimals of numbers in one column.
struct Decimals(Option<usize>);

impl Decimals {
    /// Decimals for this number of significant digits of the largest number; `None` for very small or large
    /// numbers.
    fn for_values<'v>(values: impl IntoIterator<Item = &'v f64>, significant: i32) -> Self {
        let largest =
            values.into_iter().filter(|v| !v.is_nan()).fold(0.0, |maximum: f64, v| maximum.max(v.abs()));
        let usual = (1e-3..1e6).contains(&largest);
        Self(usual.then(|| (significant - 1 - largest.log10().floor() as i32).max(0) as usize))
    }

    fn write(&self, x: f64) -> String {
        self.0.map_or_else(|| number(short(x)), |decimals| fixed(x, decimals))
    }

    /// With a sign in front, also of gains.
    fn signed(&self, x: f64) -> String {
        let text = self.write(x);
        if x > 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b)) { format!("+{text}") } else { text }
    }
}

/// To three significant digits.
fn short(x: f64) -> f64 {
    format!("{x:.2e}").parse().unwrap_or(x)
}

fn ends(values: &[f64]) -> [f64; 2] {
    values
        .iter()
        .fold([f64::INFINITY, f64::NEG_INFINITY], |extremes, v| [extremes[0].min(*v), extremes[1].max(*v)])
}

fn span(prefix: &str, values: &[f64]) -> String {
    let [low, high] = ends(values).map(short);
    format!("{prefix}from {} to {}", number(low), number(high))
}

/// Where the largest number is, up or down.
fn largest(values: &[f64]) -> usize {
    let first = |best: usize, j: usize| if values[j].abs() > values[best].abs() { j } else { best };
    (0..values.len()).fold(0, first)
}

fn one_each(name: &str, expected: usize, actual: usize, why: &str) -> Result<()> {
    if expected == actual {
        return Ok(());
    }
    let subject = format!("the list of {name}");
    Err(Error::Shape { subject, unit: "entries", expected, actual, why: why.into() })
}
