//! Search for the value of one setting: the given value, or the one with the best score on held-out folds.

use super::cross_validation::{
    ClassScore, CrossValidation, GridAxis, cross_validate_classes_until, cross_validate_until, folds,
    stratified_folds,
};
use super::task::{AUTO, FOLDS, FitTask, SEARCH_ROWS};
use crate::error::{Result, unused};
use crate::kernel::Kernel;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Matrix, select};
use crate::model_card::CardEntry;
use crate::random::{Random, SeedableRng, SliceRandom, hash};
use crate::table::Table;

/// Ridges of the search, smoothest first.
pub(super) const RIDGES: [f64; 6] = [10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4];
/// Penalty parameters C of the search, smoothest first.
pub(super) const C_GRID: [f64; 5] = [0.1, 1.0, 10.0, 100.0, 1000.0];
/// Multiples of the kernel's length scales in the search, smoothest first.
const LENGTH_SCALE_MULTIPLES: [f64; 5] = [4.0, 2.0, 1.0, 0.5, 0.25];
/// Maximum number of rows in a search by folds, unless the setting `search_rows` is given.
const ROWS_OF_FOLDS: usize = 1000;
/// Minimum number of rows of a class on which hyper-parameters are tuned.
const MIN_ROWS_OF_CLASS: usize = 5;
/// Constant that makes the draw of rows independent of the draw of folds.
const SEED: u64 = 0x5ea6_c4e5;

/// The chosen value and kernel, with entries for the model card and warnings.
pub(super) struct GridChoice {
    pub value: f64,
    pub kernel: Kernel,
    pub facts: Vec<CardEntry>,
    pub warnings: Vec<String>,
}

/// A search over candidate values of a setting. `default` is `None` if the setting is chosen by a search by
/// default.
pub(super) struct GridSearch<'a> {
    pub task: &'a FitTask<'a>,
    pub setting: &'static str,
    pub values: &'static [f64],
    pub default: Option<f64>,
}

impl GridSearch<'_> {
    /// The value of the setting; `None` if a search chooses it.
    pub fn fixed_value(&self) -> Option<f64> {
        match self.task.settings.get(self.setting) {
            None => self.default,
            Some(word) if word.as_str() == Some(AUTO) => None,
            Some(number) => number.as_f64(),
        }
    }

    /// Chooses the value for a regression with targets `y`. `unit` is a text about the unit of the squared
    /// errors.
    pub fn regression(
        &self,
        y: &Matrix,
        unit: &str,
        fit: impl Fn(Kernel, f64, Option<Vec<f64>>, &Table, &Matrix) -> Result<KernelExpansion> + Sync,
    ) -> Result<GridChoice> {
        crate::checks::check_rows(self.task.x, y.rows(), 2)?;
        self.best(&format!("mean squared error{unit}"), None, |grid, kernel_of, drawn| {
            let y = y.select_rows(&drawn.rows);
            let folds = folds(drawn.rows.len(), self.folds(), self.task.seed)?;
            cross_validate_until(grid, &drawn.x, &y, &folds, self.task.control(), |point, x, y, rows| {
                fit(kernel_of(point[1]), point[0], self.weights(drawn, rows), x, y)
            })
        })
    }

    /// Chooses the value for a classification. Fits with successive values on the same fold start from the
    /// result of the previous fit in `M`.
    pub fn classification<M: Default>(
        &self,
        score: ClassScore,
        fit: impl Fn(Kernel, f64, Option<Vec<f64>>, &Table, &[usize], &mut M) -> Result<KernelExpansion> + Sync,
    ) -> Result<GridChoice> {
        let name = match score {
            ClassScore::LogLoss => "log loss",
            ClassScore::Accuracy => "accuracy",
        };
        let (labels, classes) = self.task.labels()?;
        super::check_labels(self.task.x, labels, classes)?;
        self.best(name, Some(labels), |grid, kernel_of, drawn| {
            let labels = select(labels, &drawn.rows);
            let folds = stratified_folds(&labels, classes, self.folds(), self.task.seed)?;
            let target = (labels.as_slice(), classes);
            let (chains, control) = (grid.len() / self.values.len(), self.task.control());
            let fit = |point: &Vec<f64>, x: &Table, labels: &[usize], rows: &[usize], memory: &mut M| {
                fit(kernel_of(point[1]), point[0], self.weights(drawn, rows), x, labels, memory)
            };
            cross_validate_classes_until((grid, chains), &drawn.x, target, &folds, score, control, fit)
        })
    }

    /// The given value, or the value and the multiple of the length scales with the best `score`. `score` is
    /// called with the grid, a function that makes a kernel from a multiple, and the rows of the search.
    fn best(
        &self,
        name: &str,
        labels: Option<&[usize]>,
        score: impl FnOnce(&[Vec<f64>], &(dyn Fn(f64) -> Kernel + Sync), &SearchRows) -> Result<CrossValidation>,
    ) -> Result<GridChoice> {
        let kernel = &self.task.kernel;
        if let Some(value) = self.fixed_value() {
            for setting in [FOLDS.name, SEARCH_ROWS.name] {
                if self.task.settings.get(setting).is_some() {
                    let belongs = format!("{} = '{AUTO}', but here it is {value}", self.setting);
                    return Err(unused(setting, &belongs));
                }
            }
            return Ok(GridChoice { value, kernel: kernel.clone(), facts: Vec::new(), warnings: Vec::new() });
        }
        let kernel_of =
            |multiple| kernel.with_length_scales_times(multiple).unwrap_or_else(|| kernel.clone());
        let fixed = self.task.fixed_kernel() || kernel.with_length_scales_times(1.0).is_none();
        let multiples = if fixed { &[1.0][..] } else { &LENGTH_SCALE_MULTIPLES };
        let axes = [
            GridAxis::new(self.setting, self.values),
            GridAxis::new("multiple of the length scales", multiples),
        ];
        let grid = GridAxis::grid(&axes);
        super::sample_weights(self.task.sample_weight.as_deref(), self.task.x)?;
        let drawn = self.drawn(ROWS_OF_FOLDS, labels);
        // The final fit has more rows than the fits on folds, and its cost grows with their cube.
        let relative_rows = self.task.x.rows() as f64 / drawn.rows.len() as f64 * self.folds() as f64
            / (self.folds() as f64 - 1.0);
        let scales = if fixed { "" } else { " and length scales" };
        let steps = grid.len() * self.folds() + relative_rows.powi(3).ceil() as usize;
        self.task.progress.start_stage(format!("choosing {}{scales}", self.setting), steps);
        let scores = score(&grid, &kernel_of, &drawn)?;
        let (point, best) = (&grid[scores.best], &scores.scores[scores.best]);
        let (count, mean, error) = (self.folds(), best.mean, best.std_error);
        let row_text = self.describe_rows(&drawn);
        let chosen_by = format!("{name} on {count} held-out folds{row_text}: {mean:.4} ± {error:.4}");
        let multiple = (!fixed).then(|| CardEntry::new("multiple of the length scales", point[1]));
        Ok(GridChoice {
            value: point[0],
            kernel: kernel_of(point[1]),
            facts: std::iter::once(CardEntry::new("chosen by", chosen_by)).chain(multiple).collect(),
            warnings: GridAxis::at_grid_edge(&axes, scores.best),
        })
    }

    fn folds(&self) -> usize {
        self.task.settings.count(FOLDS.name).unwrap_or(5)
    }

    /// The weights of the given rows of the search.
    fn weights(&self, drawn: &SearchRows, rows: &[usize]) -> Option<Vec<f64>> {
        let weights = self.task.sample_weight.as_ref()?;
        Some(rows.iter().map(|&i| weights[drawn.rows[i]]).collect())
    }

    /// Draws the rows of the search, at least as many of each class as there are folds.
    pub fn drawn(&self, max_rows: usize, labels: Option<&[usize]>) -> SearchRows {
        draw_rows(self.task, max_rows, labels, self.folds())
    }

    /// A text about the number of drawn rows; empty if all rows are used.
    pub fn describe_rows(&self, drawn: &SearchRows) -> String {
        if drawn.rows.len() == self.task.x.rows() {
            String::new()
        } else {
            format!(" of {}", drawn.describe(self.task))
        }
    }
}

/// Draws rows of the task. These are all rows, unless there are more than the setting [`SEARCH_ROWS`], or
/// than `max_rows` if it is not set. Otherwise that number of rows is drawn at random, from each class in
/// proportion, but at least `min_rows` of a class.
fn draw_rows(task: &FitTask<'_>, max_rows: usize, labels: Option<&[usize]>, min_rows: usize) -> SearchRows {
    let (x, n) = (task.x, task.x.rows());
    let max_rows = task.settings.count(SEARCH_ROWS.name).unwrap_or(max_rows);
    if n <= max_rows {
        return SearchRows { rows: (0..n).collect(), x: x.clone() };
    }
    let labels = labels.filter(|labels| labels.len() == n).map_or_else(|| vec![0; n], <[usize]>::to_vec);
    let mut classes = vec![Vec::new(); labels.iter().max().map_or(0, |max_label| max_label + 1)];
    labels.iter().enumerate().for_each(|(i, &label)| classes[label].push(i));
    let mut random = Random::seed_from_u64(hash([task.seed, SEED]));
    let mut rows = Vec::with_capacity(max_rows + classes.len());
    for mut members in classes {
        members.shuffle(&mut random);
        let share = (members.len() * max_rows).div_ceil(n).max(min_rows).min(members.len());
        rows.extend_from_slice(&members[..share]);
    }
    rows.sort_unstable();
    SearchRows { x: x.select_rows(&rows), rows }
}

/// Draws the rows on which hyper-parameters are tuned, as the rows of a search; `None` if all rows are used.
///
/// # Errors
/// [`Error::Unused`](crate::Error::Unused) for the setting [`SEARCH_ROWS`] if nothing is tuned.
pub(super) fn tuning_sample(
    task: &FitTask<'_>,
    tuned: bool,
    max_rows: usize,
    labels: Option<&[usize]>,
) -> Result<Option<SearchRows>> {
    if !tuned {
        return match task.settings.get(SEARCH_ROWS.name) {
            Some(_) => Err(unused(SEARCH_ROWS.name, "fits with tuning")),
            None => Ok(None),
        };
    }
    let sample = draw_rows(task, max_rows, labels, MIN_ROWS_OF_CLASS);
    Ok(Some(sample).filter(|sample| sample.rows.len() < task.x.rows()))
}

/// Entries of the model card for tuning on a sample of the rows.
pub(super) fn tuning_entries(
    task: &FitTask<'_>,
    sample: &SearchRows,
    restarts: usize,
    steps: usize,
    warnings: &[String],
) -> Vec<CardEntry> {
    let warnings = warnings.iter().map(|w| CardEntry::new("warning", w));
    let entries = [
        CardEntry::new("tuned on", sample.describe(task)),
        CardEntry::new("restarts", restarts),
        CardEntry::new("optimiser steps", steps),
    ];
    entries.into_iter().chain(warnings).collect()
}

/// The rows of a search.
pub(super) struct SearchRows {
    /// Indices of the rows in the task's table, ascending.
    pub rows: Vec<usize>,
    pub x: Table,
}

impl SearchRows {
    /// A text about the number of rows.
    fn describe(&self, task: &FitTask<'_>) -> String {
        format!("{} of {} rows, drawn with the seed", self.rows.len(), task.x.rows())
    }
}
