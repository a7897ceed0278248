//! A self-contained HTML page about the effect of a treatment. It shows the answer, its identification, the
//! curve, and the causes of its uncertainty. The page loads nothing and has no script.

use minijinja::context;
use riesz::causal::{Estimand, IdentificationRoute, UncertaintyCause};
use riesz::error::listed;
use riesz::{Result, Table};

use crate::effect::{EffectPage, assigned, column_cells, rounded};
use crate::format::{fixed, number};
use crate::html::{render_wide_and_narrow, written};
use crate::plot::{PlotOptions, capital, render_causal_graph, render_effect};

const TEMPLATE: &str = include_str!("../assets/effect.html");

/// Maximum number of rows in the table; they are evenly spaced among all treatments.
const MOST_ROWS: usize = 100;

/// Maximum number of variables of a graph that is drawn.
const MOST_VARIABLES: usize = 40;

/// Returns the page as one HTML file that opens from disk and loads nothing.
///
/// # Errors
/// As [`render_effect`].
pub fn effect_report(page: &EffectPage<'_>) -> Result<String> {
    let (identification, effect) = (page.identification, page.effect);
    let options = PlotOptions::default();
    let drawn = page.graph.filter(|graph| graph.variables().len() <= MOST_VARIABLES);
    let graph = drawn
        .map(|graph| render_wide_and_narrow(640, &options, |o| render_causal_graph(graph, identification, o)))
        .transpose()?;
    let sd = effect.sd();
    let largest = |variances: &[f64]| variances.iter().fold(0.0, |m: f64, v| m.max(v.sqrt()));
    let shares = effect.variance_shares();
    let causes: Vec<_> = shares
        .iter()
        .zip(&effect.causes)
        .map(|((cause, share), (_, variances))| {
            let share = format!("{} %", fixed(100.0 * share, 1));
            context! { name => cause.to_string(), share, sd => number(largest(variances)), is => meaning(*cause, page) }
        })
        .collect();
    let (n, ends, supported) = (page.treatments.rows(), effect.interval(page.level)?, effect.supported());
    let count = n.min(MOST_ROWS);
    let mut columns: Vec<String> =
        page.treatments.columns().iter().map(|column| column.name.clone()).collect();
    columns.extend(["mean", "std"].map(String::from));
    columns.push(format!("{} % interval", number(100.0 * page.level)));
    columns.push(
        if page.identification.is_single_table() { "supported" } else { "supported by the studies" }.into(),
    );
    columns.extend(effect.causes.iter().map(|(cause, _)| format!("std, {cause}")));
    columns.extend(["resolved by study 1", "by later studies", "overlap"].map(String::from));
    // Equal decimals make the numbers of a column easy to compare.
    let mut sizes: Vec<f64> = sd.iter().copied().filter(|sd| *sd > 0.0).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let size = sizes.get(sizes.len() / 2).copied().unwrap_or(0.0);
    let write = |v: f64| rounded(v, size / 10.0);
    let doses: Vec<Vec<String>> =
        (0..page.treatments.width()).map(|j| column_cells(page.treatments, j)).collect();
    let rows: Vec<Vec<String>> = (0..count)
        .map(|k| k * (n - 1) / (count - 1).max(1))
        .map(|i| {
            let mut cells: Vec<String> = doses.iter().map(|column| column[i].clone()).collect();
            let [low, high] = ends[i].map(write);
            cells.extend([write(effect.mean[i]), write(sd[i]), format!("{low} to {high}")]);
            cells.push(if supported[i] { "yes" } else { "no" }.into());
            cells.extend(effect.causes.iter().map(|(_, variances)| write(variances[i].sqrt())));
            let support = &effect.support[i];
            cells.extend(
                [support.variance_explained_by_first, support.resolved_by_rest, support.overlap]
                    .map(|v| fixed(v, 2)),
            );
            cells
        })
        .collect();
    let title = format!("The effect of {} on {}", listed(&identification.treatments), identification.outcome);
    let single = page.identification.is_single_table();
    let context = context! {
        title,
        single,
        answer => page.answer(),
        doubts => page.doubts.iter().map(|text| capital(text)).collect::<Vec<_>>(),
        caption => caption(page),
        curves => render_wide_and_narrow(640, &options, |o| render_effect(page, o))?,
        identified => capital(&identification.to_string()),
        graph,
        assumptions => identification.assumptions.iter().map(|text| capital(text)).collect::<Vec<_>>(),
        unsure => main_cause(&shares),
        causes,
        studies => studies(page),
        matched => matched(page),
        columns,
        rows,
        about_rows => about_rows(count, n),
        run => minijinja::value::Serde(page.run),
    };
    written(TEMPLATE, context)
}

/// The caption of the picture.
fn caption(page: &EffectPage<'_>) -> String {
    let (people_treated, outcome) = (page.population, &page.identification.outcome);
    let quantity = match page.estimand {
        Estimand::Level => format!("The mean of {outcome} if {people_treated} had this treatment"),
        Estimand::Contrast(base) => format!(
            "The change in the mean of {outcome} if {people_treated} had this treatment instead of {}",
            assigned(base, 0)
        ),
        Estimand::Slope { treatment: by, .. } => {
            format!(
                "The change in the mean of {outcome} per unit of {by} if {people_treated} had this treatment"
            )
        }
    };
    let level = number(100.0 * page.level);
    if page.is_curve() {
        return format!(
            "{quantity}, with a {level} % band. Small strokes are observed doses. Where the field is \
             hatched, the data do not support the estimate."
        );
    }
    format!(
        "{quantity}, with {level} % intervals. Where a line is hatched, the data do not support the estimate."
    )
}

/// A sentence about the largest cause of uncertainty.
fn main_cause(shares: &[(UncertaintyCause, f64)]) -> String {
    let Some((cause, share)) = shares.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|entry| entry.1 > 0.0)
    else {
        return "The effect has no variance at these treatments.".into();
    };
    let remedy = match cause {
        UncertaintyCause::Study(k) => format!("more rows of study {} would help most", k + 1),
        UncertaintyCause::Outcome | UncertaintyCause::Stage(_) => "more rows would help most".into(),
        UncertaintyCause::Interaction => {
            "study 1 leads to values that the next study rarely has, and more rows with these values would \
             help most"
                .into()
        }
        UncertaintyCause::Adjustment => "more people would help most".into(),
        UncertaintyCause::Hyperparameters => "more rows of any study would help most".into(),
    };
    format!(
        "The largest part of the variance over these treatments, {} %, is due to {cause}: {remedy}.",
        fixed(100.0 * share, 0)
    )
}

/// An explanation of a cause, for the table of causes.
fn meaning(cause: UncertaintyCause, page: &EffectPage<'_>) -> String {
    match cause {
        UncertaintyCause::Outcome => format!(
            "few or noisy rows determine the mean of {}, given treatments and covariates",
            page.identification.outcome
        ),
        UncertaintyCause::Stage(k) => format!(
            "few or noisy rows determine stage {} of the table, the distribution of {}",
            k + 1,
            page.identification.stages().get(k + 1).map_or_else(String::new, |next| listed(&next.history))
        ),
        UncertaintyCause::Adjustment if page.identification.is_single_table() => {
            "the effect is averaged over the people of the table, who are a sample".into()
        }
        UncertaintyCause::Interaction if page.identification.is_single_table() => {
            "a stage may lead to values that the next one rarely has".into()
        }
        UncertaintyCause::Study(0) => {
            "few or noisy rows determine the effect of the treatments on the shared variables".into()
        }
        UncertaintyCause::Study(k) if k == page.studies.studies.len() => {
            format!(
                "few or noisy rows determine the mean of {}, given the shared variables",
                page.identification.outcome
            )
        }
        UncertaintyCause::Study(_) => {
            "few or noisy rows determine the step from one of the shared variables to the next".into()
        }
        UncertaintyCause::Interaction => "a study may lead to values that later studies rarely have".into(),
        UncertaintyCause::Adjustment => {
            "the effect is averaged over the people of study 1, who are a sample".into()
        }
        UncertaintyCause::Hyperparameters => "length scales and noise are themselves estimated".into(),
    }
}

/// The rows of the table of studies.
fn studies(page: &EffectPage<'_>) -> Vec<minijinja::Value> {
    let names =
        |table: &Table| listed(table.columns().iter().map(|column| column.name.clone()).collect::<Vec<_>>());
    if page.identification.is_single_table() {
        return stages(page);
    }
    let mut lines: Vec<_> = page
        .studies
        .studies
        .iter()
        .enumerate()
        .map(|(k, study)| {
            let covariates = match &study.route {
                IdentificationRoute::Direct => String::new(),
                IdentificationRoute::BackDoor(table) => format!(", adjusted for {}", names(table)),
                IdentificationRoute::FrontDoor(table) => format!(", through {}", names(table)),
            };
            let caption = format!(
                "the effect of {} on {}{covariates}",
                names(&study.treatments),
                names(&study.mediators)
            );
            context! { name => (k + 1).to_string(), rows => study.treatments.rows(), caption }
        })
        .collect();
    let caption =
        format!("given {}, the mean of {}", names(&page.studies.points), page.identification.outcome);
    lines.push(
        context! { name => (lines.len() + 1).to_string(), rows => page.studies.points.rows(), caption },
    );
    lines
}

/// The rows of the table of stages, for an effect from one table.
fn stages(page: &EffectPage<'_>) -> Vec<minijinja::Value> {
    let stages = page.identification.stages();
    let lines = stages.iter().enumerate().map(|(k, fitted_stage)| {
        let conditions = listed(fitted_stage.columns());
        let averaged = match fitted_stage.averaged.is_empty() {
            true => String::new(),
            false => format!(", averaged over {}", listed(&fitted_stage.averaged)),
        };
        let quantity = match stages.get(k + 1) {
            None => format!("the mean of {}", page.identification.outcome),
            Some(next) => {
                let new: Vec<&String> =
                    next.history.iter().filter(|name| !fitted_stage.columns().contains(name)).collect();
                format!("the distribution of {}", listed(new))
            }
        };
        let caption = format!("{quantity}, given {conditions}{averaged}");
        context! { name => format!("stage {}", k + 1), rows => page.studies.points.rows(), caption }
    });
    lines.collect()
}

/// A sentence about the shares of rows of a study whose values the next study does not have.
fn matched(page: &EffectPage<'_>) -> String {
    if page.identification.is_single_table() {
        return "Each stage is a regression on all these rows. The variables that are averaged over keep \
                their values in the table."
            .into();
    }
    if page.unmatched.values().all(|share| *share == 0.0) {
        return "No shared variable of a study has values that the next study lacks.".into();
    }
    let share = |(name, share): (&String, &f64)| format!("{name} {} %", fixed(100.0 * share, 1));
    let shares: Vec<String> = page.unmatched.iter().map(share).collect();
    format!(
        "Share of a study’s rows whose values the next study lacks, so that the next study does not inform \
         them: {}.",
        shares.join(", ")
    )
}

fn about_rows(count: usize, n: usize) -> String {
    let selection = if count < n { format!("{count} of {n} treatments. ") } else { String::new() };
    format!(
        "{selection}‘Resolved’ is the share of the prior variance that a study explains. ‘Overlap’ is the \
         share of people for whom such a treatment was near. Supported treatments have half or more of each."
    )
}
