//! A short table of explanations for reading on a terminal.

use std::fmt::Write as _;

use riesz::Explanation;
use riesz_report::number;

use crate::console::printable;
use crate::exit::Result;

/// Number of rows whose values are shown.
const ROWS: usize = 4;
/// Number of features that are shown.
const FEATURES: usize = 20;

/// For each output the mean absolute value of every feature over all rows, and the values of the first rows.
/// The memory does not grow with the number of rows.
#[derive(Default)]
pub struct ExplanationSummary {
    rows: usize,
    /// For each output, the sum of absolute values over rows of each feature.
    sums: Vec<Vec<f64>>,
    /// The first rows.
    first: Option<Explanation>,
}

impl ExplanationSummary {
    /// Adds the next rows.
    pub fn include(&mut self, explanation: &Explanation) -> Result<()> {
        let rows = explanation.rows();
        self.rows += rows;
        self.sums.resize(explanation.outputs(), vec![0.0; explanation.sets()]);
        for (o, sums) in self.sums.iter_mut().enumerate() {
            let means = explanation.mean_abs(o);
            sums.iter_mut().zip(means).for_each(|(sum, mean)| *sum += mean * rows as f64);
        }
        let missing = ROWS - self.first.as_ref().map_or(0, Explanation::rows);
        if missing > 0 {
            let next = explanation.select_rows(&(0..missing.min(rows)).collect::<Vec<_>>());
            match &mut self.first {
                Some(first) => first.concat_rows(next)?,
                none => *none = Some(next),
            }
        }
        Ok(())
    }

    /// The table as text; empty without rows.
    pub fn text(&self) -> String {
        let Some(first) = &self.first else { return String::new() };
        (0..self.sums.len()).map(|o| self.output_text(first, o)).collect::<Vec<_>>().join("\n")
    }

    fn output_text(&self, first: &Explanation, output: usize) -> String {
        let sums = &self.sums[output];
        let mut order: Vec<usize> = (0..sums.len()).collect();
        order.sort_by(|&a, &b| sums[b].total_cmp(&sums[a]));
        let shown = &order[..order.len().min(FEATURES)];
        let by_row = |cell: &dyn Fn(usize) -> String| (0..first.rows()).map(cell).collect::<Vec<_>>();
        let numbers = |list: &[f64]| by_row(&|i| number(list[i * first.outputs() + output]));
        let mut lines = vec![
            (
                printable(&first.output_names[output]),
                "mean |value|".to_string(),
                by_row(&|i| format!("row {}", first.row_numbers[i])),
            ),
            ("base value".into(), String::new(), numbers(&first.base_values)),
        ];
        lines.extend(shown.iter().map(|&k| {
            let mean = number(sums[k] / self.rows as f64);
            (printable(&first.set_name(k)), mean, by_row(&|i| number(first.row_values(i, output)[k])))
        }));
        lines.push(("prediction".into(), String::new(), numbers(&first.predictions)));
        lines.extend(order_probabilities(first, output).into_iter().map(|(name, cells)| {
            (name, String::new(), cells.into_iter().map(|p| format!("{p:.3}")).collect::<Vec<_>>())
        }));
        let size = |text: &String| text.chars().count();
        let name_width = lines.iter().map(|(name, ..)| size(name)).max().unwrap_or(0);
        let width = lines.iter().flat_map(|(_, _, cells)| cells).map(size).max().unwrap_or(0);
        let mut text = String::new();
        for (name, mean, cells) in &lines {
            let _ = write!(text, "{name:name_width$}  {mean:>12}");
            for cell in cells {
                let _ = write!(text, "  {cell:>width$}");
            }
            text.push('\n');
        }
        if order.len() > shown.len() {
            let _ = writeln!(text, "and {} more features", order.len() - shown.len());
        }
        text
    }
}

/// Number of the largest values whose order is assessed, and of draws for it.
const TOP: usize = 3;
const DRAWS: usize = 10_000;

/// The probability that the largest |value| of each row is larger than the second, and that the three largest
/// are the true ones; empty if the covariance of values is unknown.
fn order_probabilities(first: &Explanation, output: usize) -> Vec<(String, Vec<f64>)> {
    let rows = || 0..first.rows();
    let largest_pair = |i: usize| {
        let values = first.row_values(i, output);
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|&a, &b| values[b].abs().total_cmp(&values[a].abs()));
        first.probability_larger_magnitude((i, output), *order.first()?, *order.get(1)?).ok()
    };
    let mut lines = Vec::new();
    if let Some(cells) = rows().map(largest_pair).collect::<Option<Vec<_>>>() {
        lines.push(("P(1st |value| > 2nd)".to_string(), cells));
    }
    let top = |i| first.probability_of_top((i, output), TOP, DRAWS, 0).map(|share| share.value).ok();
    if first.sets() > TOP
        && let Some(cells) = rows().map(top).collect::<Option<Vec<_>>>()
    {
        lines.push((format!("P(true top {TOP})"), cells));
    }
    lines
}
