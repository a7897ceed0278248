//! Comparison of an explanation with a new one of the same rows.

use std::collections::{HashMap, HashSet};

use riesz::error::listed;
use riesz::format::explanation_json::SavedExplanation;
use riesz::{ClassDecisions, ColumnKind, Exactness, Explanation, Table};

use super::comparison::{Comparison, Differences, Location};
use super::{STANDARD_ERRORS, check_rows_exist, largest, sums};
use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::explain_run::Explaining;

/// Provenance entries that, with the seed, determine the sample of estimated values.
const SAMPLE_SIZES: [&str; 2] = ["coalitions valued", "orders per background row"];

/// The explanation to check, and the differences that were found.
struct Recomputation<'e> {
    stated: &'e Explanation,
    decisions: Option<&'e ClassDecisions>,
    /// Positions of the rows that are still to be compared, by their numbers.
    unmatched: HashMap<usize, usize>,
    /// Accepted differences of predictions, base values, values and standard errors due to rounding.
    rounding: [f64; 4],
    predictions: Differences,
    bases: Differences,
    values: Differences,
    std_errors: Differences,
    cells: Differences,
    decided: Differences,
    /// Whether all estimates were compared with the same sample.
    is_same_sample: bool,
    /// Accepted errors of sums due to proved bounds, by row and output.
    bounds: HashMap<usize, f64>,
}

/// Compares with a new explanation of the rows with these numbers, or of all rows: predictions, base values,
/// values and decisions.
pub fn compare(
    stated: &SavedExplanation,
    explaining: Explaining<'_>,
    tolerance: f64,
    selected: Option<HashSet<usize>>,
    console: &Console,
) -> Result<Vec<Comparison>> {
    let (explanation, decisions) = (&stated.explanation, stated.decisions.as_ref());
    let is_selected = |row: &usize| selected.as_ref().is_none_or(|rows| rows.contains(row));
    let numbers = explanation.row_numbers.iter().enumerate();
    let unmatched: HashMap<usize, usize> =
        numbers.filter(|(_, row)| is_selected(row)).map(|(position, row)| (*row, position)).collect();
    let std_errors = match &explanation.exactness {
        Exactness::Estimated { std_error, .. } => &std_error[..],
        _ => &[],
    };
    let sizes = [&explanation.predictions, &explanation.base_values, &explanation.values, std_errors];
    let mut recomputation = Recomputation {
        stated: explanation,
        decisions,
        rounding: sizes.map(|numbers| tolerance * largest(numbers)),
        unmatched,
        predictions: Differences::default(),
        bases: Differences::default(),
        values: Differences::default(),
        std_errors: Differences::default(),
        cells: Differences::default(),
        decided: Differences::default(),
        is_same_sample: true,
        bounds: HashMap::new(),
    };
    let rows = recomputation.unmatched.keys().copied().collect();
    let quiet = Console::new(true);
    let take = |chunk: SavedExplanation| recomputation.compare_chunk(&chunk);
    explaining.restricted_to(rows).for_each_chunk(&quiet, take, decisions.is_some())?;
    check_rows_exist(recomputation.unmatched.keys())?;
    console.note(format!("{} rows compared", selected.map_or(explanation.rows(), |rows| rows.len())));
    Ok(recomputation.finish(tolerance))
}

impl Recomputation<'_> {
    fn compare_chunk(&mut self, chunk: &SavedExplanation) -> Result<()> {
        let (stated, computed) = (self.stated, &chunk.explanation);
        let outputs = positions(&stated.output_names, &computed.output_names, "output")?;
        let names = |values_of: &Explanation| {
            (0..values_of.sets()).map(|k| values_of.set_name(k)).collect::<Vec<_>>()
        };
        let sets = match computed.sets() {
            0 => Vec::new(),
            _ => positions(&names(stated), &names(computed), "feature")?,
        };
        let is_same_sample = has_same_sample(stated, computed);
        self.is_same_sample &= is_same_sample;
        for (i, row) in computed.row_numbers.iter().enumerate() {
            let Some(position) = self.unmatched.remove(row) else { continue };
            compare_cells((&stated.data, position), (&computed.data, i), *row, &mut self.cells);
            for (o, &p) in outputs.iter().enumerate() {
                self.compare_output((position, o), (computed, i, p), &sets, is_same_sample);
            }
            if let (Some(decisions), Some(computed)) = (self.decisions, &chunk.decisions) {
                compare_decisions((decisions, position), (computed, i), *row, &mut self.decided);
            }
        }
        Ok(())
    }

    /// Compares the numbers of one row and output. `sets` has the position of each stated value.
    fn compare_output(
        &mut self,
        (position, o): (usize, usize),
        (computed, i, p): (&Explanation, usize, usize),
        sets: &[usize],
        is_same_sample: bool,
    ) {
        let stated = self.stated;
        let (g, f) = (position * stated.outputs() + o, i * computed.outputs() + p);
        let bound = 2.0 * proved_bound(computed, f);
        self.bounds.insert(g, bound);
        let location = |feature: Option<String>| location(stated, position, o, feature);
        let [predictions, bases, values, errors] = self.rounding.map(|rounding| bound + rounding);
        self.predictions.add(stated.predictions[g], computed.predictions[f], predictions, || location(None));
        self.bases.add(stated.base_values[g], computed.base_values[f], bases, || location(None));
        for (k, &l) in sets.iter().enumerate() {
            let value_location = || location(Some(stated.set_name(k)));
            let pair = [std_error(stated, g, k), std_error(computed, f, l)];
            let sampling =
                if is_same_sample { 0.0 } else { STANDARD_ERRORS * pair.iter().flatten().sum::<f64>() };
            let (value, recomputed) = (stated.row_values(position, o)[k], computed.row_values(i, p)[l]);
            self.values.add(value, recomputed, values + sampling, value_location);
            if let ([Some(error), Some(recomputed)], true) = (pair, is_same_sample) {
                self.std_errors.add(error, recomputed, errors, value_location);
            }
        }
    }

    fn finish(self, tolerance: f64) -> Vec<Comparison> {
        let mut comparisons = vec![
            sums(self.stated, &self.bounds, tolerance),
            self.predictions.compared("predictions"),
            self.bases.compared("base values"),
            self.values.compared("values"),
        ];
        if let Exactness::Estimated { std_error, .. } = &self.stated.exactness {
            comparisons.push(match self.is_same_sample {
                true => self.std_errors.compared("standard errors"),
                false => Comparison::information(
                    "standard errors",
                    format!(
                        "stated by the file, up to {:.1e}, and not checked: values may differ by \
                         {STANDARD_ERRORS} of them",
                        largest(std_error)
                    ),
                ),
            });
        }
        comparisons.push(match self.cells.count {
            0 => Comparison::information("cells of the rows", "not in the file"),
            _ => self.cells.compared("cells of the rows"),
        });
        if self.decided.count > 0 {
            comparisons.push(self.decided.compared("decisions"));
        }
        comparisons
    }
}

/// The location of a number of an explanation.
pub fn location(
    explanation: &Explanation,
    position: usize,
    output: usize,
    feature: Option<String>,
) -> Location {
    let output = (explanation.outputs() > 1).then(|| explanation.output_names[output].clone());
    Location { row: explanation.row_numbers[position], feature, output, quantity: None }
}

/// The position in `actual` of each name in `expected`; the names must be the same up to order.
pub fn positions(expected: &[String], actual: &[String], kind: &str) -> Result<Vec<usize>> {
    let position_of: HashMap<&String, usize> =
        actual.iter().enumerate().map(|(position, name)| (name, position)).collect();
    let positions = expected.iter().map(|name| {
        position_of.get(name).copied().ok_or_else(|| {
            let actual_names = listed(actual);
            Failure::Check(format!(
                "the explanation has the {kind} '{name}', but the model has: {actual_names}"
            ))
        })
    });
    let positions = positions.collect::<Result<Vec<_>>>()?;
    match actual.iter().find(|name| !expected.contains(name)) {
        Some(missing) => Err(Failure::Check(format!("the explanation lacks the {kind} '{missing}'"))),
        None => Ok(positions),
    }
}

/// Whether both explanations are estimates from the same sample of coalitions or orders.
fn has_same_sample(stated: &Explanation, computed: &Explanation) -> bool {
    let seed = |explanation: &Explanation| match &explanation.exactness {
        Exactness::Estimated { sampling, .. } => sampling.as_ref().map(|sampling| sampling.seed),
        _ => None,
    };
    let size =
        |explanation: &Explanation| SAMPLE_SIZES.map(|name| fact(explanation, name).map(str::to_string));
    seed(stated).is_some() && seed(stated) == seed(computed) && size(stated) == size(computed)
}

/// The value of a provenance entry about the run.
pub fn fact<'e>(explanation: &'e Explanation, name: &str) -> Option<&'e str> {
    explanation.provenance.run.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_str())
}

/// Compares the cells of a row in two tables, for the columns that both have.
fn compare_cells(
    (stated, position): (&Table, usize),
    (computed, i): (&Table, usize),
    row: usize,
    cells: &mut Differences,
) {
    for (j, column) in stated.columns().iter().enumerate() {
        let Some(l) = computed.columns().iter().position(|other| other.name == column.name) else { continue };
        let location = || Location { row, feature: Some(column.name.clone()), output: None, quantity: None };
        let (cell, recomputed) = (stated.get(position, j), computed.get(i, l));
        match (&column.kind, &computed.columns()[l].kind) {
            // Levels are compared by name: codes depend on the table.
            (ColumnKind::Categorical { levels }, ColumnKind::Categorical { levels: others }) => {
                let level =
                    |levels: &[String], code: f64| levels.get(code as usize).cloned().unwrap_or_default();
                cells.add_text(&level(levels, cell), &level(others, recomputed), location);
            }
            _ => cells.add(cell, recomputed, 0.0, location),
        }
    }
}

/// Compares the class and the probabilities of a row.
fn compare_decisions(
    (stated, position): (&ClassDecisions, usize),
    (computed, i): (&ClassDecisions, usize),
    row: usize,
    decided: &mut Differences,
) {
    let location =
        |quantity: &str| Location { row, feature: None, output: None, quantity: Some(quantity.to_string()) };
    let class = |decisions: &ClassDecisions, i: usize| {
        let chosen = decisions.chosen.as_ref().and_then(|classes| classes.get(i));
        chosen.and_then(|class| decisions.classes.get(*class)).cloned().unwrap_or_else(|| "none".into())
    };
    decided.add_text(&class(stated, position), &class(computed, i), || location("class"));
    for (o, meaning) in computed.meaning.iter().enumerate() {
        let stated_meaning = stated.meaning.get(o).map_or("none", String::as_str);
        if stated_meaning != meaning {
            decided.add_text(stated_meaning, meaning, || location("meaning of an output"));
        }
        let probability = |decisions: &ClassDecisions, i: usize| {
            let (class, probabilities) = decisions.probabilities.get(o)?.as_ref()?;
            Some((decisions.classes.get(*class).cloned()?, probabilities.get(i).copied()?))
        };
        match (probability(stated, position), probability(computed, i)) {
            (Some((class, probability)), Some((recomputed_class, recomputed))) => {
                let location = || location(&format!("probability of {recomputed_class}"));
                if class != recomputed_class {
                    decided.add_text(&class, &recomputed_class, location);
                }
                decided.add(probability, recomputed, PROBABILITY_ROUNDING, location);
            }
            (None, None) => {}
            (stated, computed) => {
                let stated_text =
                    |is_stated: bool| if is_stated { "a probability" } else { "no probability" };
                decided.add_text(stated_text(stated.is_some()), stated_text(computed.is_some()), || {
                    location(meaning)
                });
            }
        }
    }
}

/// Accepted difference of probabilities.
const PROBABILITY_ROUNDING: f64 = 1e-9;

/// The proved bound on errors for row and output `g`; 0 if values are not exact.
fn proved_bound(explanation: &Explanation, g: usize) -> f64 {
    match &explanation.exactness {
        Exactness::Exact { bound } => bound[g],
        _ => 0.0,
    }
}

/// The standard error of the value of set `k` for row and output `g`; `None` if it is not estimated.
fn std_error(explanation: &Explanation, g: usize, k: usize) -> Option<f64> {
    match &explanation.exactness {
        Exactness::Estimated { std_error, .. } => std_error.get(g * explanation.sets() + k).copied(),
        _ => None,
    }
}
