//! One self-contained page about a map learnt from bags: the map, how sure it is, what features make of it,
//! and of bags what was observed and why. No network, no script.

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

/// What stands on the page.
#[derive(Debug, Clone)]
pub struct DownscalePage<'p> {
    /// The page's title.
    pub title: &'p str,
    /// What the map is of on its natural scale: "rate", "probability", or the model's output.
    pub what: &'p str,
    /// How outputs, which are explained, stand for that.
    pub link: Link,
    /// Places of rows, from left to right and from bottom to top.
    pub places: [&'p [f64]; 2],
    /// What these are called.
    pub axes: [&'p str; 2],
    /// Of each row the posterior mean on the natural scale.
    pub mean: &'p [f64],
    /// Of each row the posterior standard deviation of the output.
    pub sd: &'p [f64],
    /// Of all rows; its first output is shown.
    pub explanation: &'p Explanation,
    /// Of bags of rows.
    pub bags: Option<PageBags<'p>>,
}

/// Bags of rows.
#[derive(Debug, Clone)]
pub struct PageBags<'p> {
    /// The column with their names.
    pub column: &'p str,
    /// Their names.
    pub names: &'p [String],
    /// How many rows each has.
    pub rows: &'p [usize],
    /// The column of the rows' weights, if they have some.
    pub weight: Option<&'p str>,
    /// The sums of the rows' weights.
    pub mass: &'p [f64],
    /// What the map makes of each, and of all rows together.
    pub map: (&'p [f64], f64),
    /// What that is of the rows, in words: "the mean over people of the map’s rate".
    pub is: &'p str,
    /// What was observed, and the name of it; not a number where nothing was.
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
    let own = [("means", page.mean.len()), ("standard deviations", page.sd.len())];
    for (what, found) in own.into_iter().chain(page.places.map(|own| ("places", own.len()))) {
        one_each(what, n, found, "one a row")?;
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
    let draw = |head: &str, says: &str, shown: &Shown<'_>, title: &str| -> Result<Value> {
        let svg = inline(places_map(page.places, shown, page.axes, title, &options(WIDTH))?);
        Ok(context! { head, says, svg })
    };
    let numbers = |values| Shown::Numbers { values, ends: None };
    let (what, output) = (page.what, &e.output_names[0]);
    let names: Vec<String> = (0..e.sets()).map(|j| e.set_name(j)).collect();
    let first: Vec<usize> = (0..n).map(|i| largest(e.row_values(i, 0))).collect();
    let maps = [
        draw(&capital(what), &span("", page.mean), &numbers(page.mean), what)?,
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
    let of = |j: usize| -> Vec<f64> { (0..n).map(|i| e.row_values(i, 0)[j]).collect() };
    let (order, mean_abs) = (e.ranking(0), e.mean_abs(0));
    let drawn = &order[..order.len().min(MOST_FEATURES)];
    let each: Vec<Vec<f64>> = drawn.iter().map(|&j| of(j)).collect();
    // All on one scale, by which colours can be compared.
    let reach = each.iter().flatten().fold(0.0, |most: f64, v| most.max(v.abs()));
    let features = drawn
        .iter()
        .zip(&each)
        .map(|(&j, values)| {
            let shown = Shown::Numbers { values, ends: Some([-reach, reach]) };
            draw(&names[j], &span("", values), &shown, &format!("value of {}", names[j]))
        })
        .collect::<Result<Vec<_>>>()?;
    let decimals = Decimals::of(&e.values, 4);
    let table: Vec<Value> = order
        .iter()
        .map(|&j| {
            let values = of(j);
            let [low, high] = ends(&values);
            let share = first.iter().filter(|own| **own == j).count() as f64 / n as f64;
            let cells = vec![
                decimals.told(mean_abs[j]),
                decimals.signed(low),
                decimals.signed(high),
                format!("{} %", fixed(100.0 * share, 1)),
            ];
            context! { name => names[j].clone(), cells }
        })
        .collect();
    let page = context! {
        title => page.title,
        lead => format!("{} of {n} rows, how sure it is, and what features make of it.", capital(what)),
        pictures => true,
        sure => how_sure(page.link),
        maps,
        bars,
        says => what_values_are(page),
        features,
        left => order.len() - drawn.len(),
        reach => number(reach),
        table,
        bags => page.bags.as_ref().map(|own| of_bags(own, page)).transpose()?,
        exactness => minijinja::value::Serde(exactness(e)),
        provenance => minijinja::value::Serde(&e.provenance),
    };
    written(TEMPLATE, page)
}

/// What standard deviations are of.
fn how_sure(link: Link) -> String {
    let own = match link {
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
        "{own} Both are by the best hyper-parameters, which are too sure of themselves where bags are few."
    )
}

/// What is explained, from where, and what it adds up to.
fn what_values_are(page: &DownscalePage<'_>) -> String {
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
fn of_bags(own: &PageBags<'_>, page: &DownscalePage<'_>) -> Result<Value> {
    let ([e, all], count) = (own.explanation, own.names.len());
    let observed = own.observed.map_or(count, |(_, found)| found.len());
    let lists = [own.rows.len(), own.mass.len(), own.map.0.len(), e.rows(), observed];
    lists.into_iter().try_for_each(|found| one_each("numbers of bags", count, found, "one a bag"))?;
    let off: Option<Vec<f64>> =
        own.observed.map(|(_, found)| found.iter().zip(own.map.0).map(|(z, map)| z - map).collect());
    let mut order: Vec<usize> = (0..count).collect();
    if let Some(off) = &off {
        // Bags that nothing was observed of come last.
        let size = |k: usize| if off[k].is_nan() { -1.0 } else { off[k].abs() };
        order.sort_by(|&a, &b| size(b).total_cmp(&size(a)));
    }
    order.truncate(MOST_BAGS);
    let ranking = page.explanation.ranking(0);
    let (shown, rest) = ranking.split_at(ranking.len().min(MOST_FEATURES));
    let mut columns = vec![own.column.to_string(), "rows".into()];
    columns.extend(own.weight.map(String::from));
    columns.extend(own.observed.map(|(name, _)| format!("observed {name}")));
    columns.push("map".into());
    columns.extend(own.observed.map(|_| "difference".into()));
    columns.extend(["why".into(), "base value".to_string()]);
    columns.extend(shown.iter().map(|&j| e.set_name(j)));
    columns.extend((!rest.is_empty()).then(|| format!("{} others", rest.len())));
    // Equal decimals, so that numbers of a column can be compared at a glance.
    let seen = own.observed.map_or(&[][..], |(_, found)| found);
    let maps = Decimals::of(own.map.0.iter().chain(seen), 4);
    let offs = Decimals::of(off.iter().flatten(), 3);
    let parts_of = Decimals::of(&e.values, 3);
    let masses = Decimals::of(own.mass, 4);
    let known = |x: f64, text: String| if x.is_nan() { "–".into() } else { text };
    type Line<'l> = (&'l str, usize, f64, f64);
    let line = |(name, size, mass, map): Line<'_>,
                [seen, off]: [f64; 2],
                why: String,
                (e, k): (&Explanation, usize)| {
        let mut cells = vec![size.to_string()];
        cells.extend(own.weight.map(|_| masses.told(mass)));
        cells.extend(own.observed.map(|_| known(seen, maps.told(seen))));
        cells.push(maps.told(map));
        cells.extend(own.observed.map(|_| known(off, offs.signed(off))));
        let values = e.row_values(k, 0);
        let mut parts = vec![parts_of.told(e.base_values[k])];
        parts.extend(shown.iter().map(|&j| parts_of.signed(values[j])));
        parts.extend((!rest.is_empty()).then(|| parts_of.signed(rest.iter().map(|&j| values[j]).sum())));
        context! { name, cells, why, parts }
    };
    let whole = own.mass.iter().sum::<f64>();
    let mut rows = vec![line(
        ("all rows", own.rows.iter().sum(), whole, own.map.1),
        [f64::NAN; 2],
        String::new(),
        (all, 0),
    )];
    rows.extend(order.iter().map(|&k| {
        let seen = [
            own.observed.map_or(f64::NAN, |(_, found)| found[k]),
            off.as_ref().map_or(f64::NAN, |off| off[k]),
        ];
        let times = if own.unit == TargetUnit::Sum { own.mass[k] / whole } else { 1.0 };
        let own = (&own.names[k][..], own.rows[k], own.mass[k], own.map.0[k]);
        line(own, seen, why((e, k), all, times, page.link), (e, k))
    }));
    let says = says_of_bags(own, page.link, off.as_deref());
    Ok(context! { head => format!("By {}", own.column), says, columns, rows })
}

/// What the table of bags is.
fn says_of_bags(own: &PageBags<'_>, link: Link, off: Option<&[f64]>) -> String {
    let count = own.names.len();
    let mut text = format!("Of each bag the map says {}. ", own.is);
    if let Some(off) = off {
        let seen: Vec<f64> = off.iter().copied().filter(|v| !v.is_nan()).collect();
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
    let which = match (count > MOST_BAGS, off.is_some()) {
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
fn why((e, k): (&Explanation, usize), all: &Explanation, times: f64, link: Link) -> String {
    let values: Vec<f64> =
        e.row_values(k, 0).iter().zip(all.row_values(0, 0)).map(|(own, all)| own - times * all).collect();
    let above = e.predictions[k] - times * all.predictions[0];
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].abs().total_cmp(&values[a].abs()));
    // A sum of one would only hide a name.
    let keep = if order.len() <= SPOKEN + 1 { order.len() } else { SPOKEN };
    let decimals = Decimals::of(values.iter().chain([&above]), 3);
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
            format!("{} {} average", decimals.told(above.abs()), if above < 0.0 { "below" } else { "above" })
        }
    };
    format!("{begin}: {}", parts.join(", "))
}

/// How many decimals numbers that stand together have.
struct Decimals(Option<usize>);

impl Decimals {
    /// So many significant digits of the largest; `None` where that is no use.
    fn of<'v>(values: impl IntoIterator<Item = &'v f64>, significant: i32) -> Self {
        let largest = values.into_iter().filter(|v| !v.is_nan()).fold(0.0, |most: f64, v| most.max(v.abs()));
        let usual = (1e-3..1e6).contains(&largest);
        Self(usual.then(|| (significant - 1 - largest.log10().floor() as i32).max(0) as usize))
    }

    fn told(&self, x: f64) -> String {
        self.0.map_or_else(|| number(short(x)), |decimals| fixed(x, decimals))
    }

    /// With a sign in front, also of gains.
    fn signed(&self, x: f64) -> String {
        let text = self.told(x);
        if x > 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b)) { format!("+{text}") } else { text }
    }
}

/// To three significant digits.
fn short(x: f64) -> f64 {
    format!("{x:.2e}").parse().unwrap_or(x)
}

fn ends(values: &[f64]) -> [f64; 2] {
    values.iter().fold([f64::INFINITY, f64::NEG_INFINITY], |all, v| [all[0].min(*v), all[1].max(*v)])
}

fn span(of: &str, values: &[f64]) -> String {
    let [low, high] = ends(values).map(short);
    format!("{of}from {} to {}", number(low), number(high))
}

/// Where the largest number is, up or down.
fn largest(values: &[f64]) -> usize {
    let first = |best: usize, j: usize| if values[j].abs() > values[best].abs() { j } else { best };
    (0..values.len()).fold(0, first)
}

fn one_each(what: &str, expected: usize, found: usize, why: &str) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let what = format!("the list of {what}");
    Err(Error::Shape { what, unit: "entries", expected, found, why: why.into() })
}
