//! A short table of explanations for reading on a terminal.

use std::fmt::Write as _;

use riesz::Explanation;
use riesz_report::number;

use crate::console::printable;

/// Number of rows whose values are shown.
const ROWS: usize = 4;
/// Number of features that are shown.
const FEATURES: usize = 20;

/// For each output the mean absolute value of every feature over all rows, and the values of the first rows.
/// The memory does not grow with the number of rows.
#[derive(Default)]
pub struct ExplanationSummary {
    rows: usize,
    outputs: Vec<Summary>,
}

/// The summary of an output.
struct Summary {
    name: String,
    features: Vec<String>,
    /// Sums of absolute values over rows, by feature.
    sums: Vec<f64>,
    /// The first rows.
    first: Vec<Row>,
}

/// The explanation of a row.
struct Row {
    number: usize,
    base_value: f64,
    prediction: f64,
    values: Vec<f64>,
}

impl ExplanationSummary {
    /// Adds the next rows.
    pub fn include(&mut self, explanation: &Explanation) {
        if self.outputs.is_empty() {
            let features: Vec<String> =
                (0..explanation.sets()).map(|k| printable(&explanation.set_name(k))).collect();
            let summary = |name: &String| Summary {
                name: printable(name),
                sums: vec![0.0; features.len()],
                features: features.clone(),
                first: Vec::new(),
            };
            self.outputs = explanation.output_names.iter().map(summary).collect();
        }
        self.rows += explanation.rows();
        for (o, summary) in self.outputs.iter_mut().enumerate() {
            for i in 0..explanation.rows() {
                let values = explanation.row_values(i, o);
                summary.sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value.abs());
                if summary.first.len() < ROWS {
                    let cell = i * explanation.outputs() + o;
                    summary.first.push(Row {
                        number: explanation.row_numbers[i],
                        base_value: explanation.base_values[cell],
                        prediction: explanation.predictions[cell],
                        values: values.to_vec(),
                    });
                }
            }
        }
    }

    /// The table as text.
    pub fn text(&self) -> String {
        self.outputs.iter().map(|summary| summary.text(self.rows)).collect::<Vec<_>>().join("\n")
    }
}

impl Summary {
    fn text(&self, rows: usize) -> String {
        let mut order: Vec<usize> = (0..self.sums.len()).collect();
        order.sort_by(|&a, &b| self.sums[b].total_cmp(&self.sums[a]));
        let shown = &order[..order.len().min(FEATURES)];
        let columns = |value: &dyn Fn(&Row) -> String| self.first.iter().map(value).collect::<Vec<_>>();
        let mut lines = vec![
            (self.name.clone(), "mean |value|".to_string(), columns(&|row| format!("row {}", row.number))),
            ("base value".into(), String::new(), columns(&|row| number(row.base_value))),
        ];
        lines.extend(shown.iter().map(|&j| {
            let mean = number(self.sums[j] / rows as f64);
            (self.features[j].clone(), mean, columns(&|row| number(row.values[j])))
        }));
        lines.push(("prediction".into(), String::new(), columns(&|row| number(row.prediction))));
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
