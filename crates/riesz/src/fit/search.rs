//! A setting as it is given, or the one that does best on held-out folds: how kinds of model choose what is left to them.

use super::selection::{
    Axis, ClassScore, CrossValidation, cross_validate, cross_validate_classes, folds, stratified_folds,
};
use super::task::{AUTO, FOLDS, Task};
use crate::error::{Error, Result};
use crate::expansion::Expansion;
use crate::explanation::Fact;
use crate::kernel::Kernel;
use crate::linalg::Matrix;
use crate::table::Table;

/// Ridges that are tried, smoothest first.
pub(super) const RIDGES: [f64; 6] = [10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4];
/// Prices of errors that are tried, smoothest first.
pub(super) const PRICES: [f64; 5] = [0.1, 1.0, 10.0, 100.0, 1000.0];
/// Multiples of the kernel's length scales that are tried, smoothest first.
const MULTIPLES: [f64; 5] = [4.0, 2.0, 1.0, 0.5, 0.25];

/// What was chosen, and how it did.
pub(super) struct Chosen {
    pub value: f64,
    pub kernel: Kernel,
    pub facts: Vec<Fact>,
    pub warnings: Vec<String>,
}

/// What a search tries: the values of a setting, and its value where nothing is said (`None` for a search).
pub(super) struct Search<'a> {
    pub task: &'a Task<'a>,
    pub setting: &'static str,
    pub values: &'static [f64],
    pub default: Option<f64>,
}

impl Search<'_> {
    /// The value, if it is not left to a search.
    pub fn given(&self) -> Option<f64> {
        match self.task.settings.get(self.setting) {
            None => self.default,
            Some(word) if word.as_str() == Some(AUTO) => None,
            Some(number) => number.as_f64(),
        }
    }

    /// For models of numbers `y`; `unit` says in which units their squared errors are.
    pub fn of_numbers(
        &self,
        y: &Matrix,
        unit: &str,
        fit: impl Fn(Kernel, f64, Option<Vec<f64>>, &Table, &Matrix) -> Result<Expansion> + Sync,
    ) -> Result<Chosen> {
        self.best(&format!("mean squared error{unit}"), |grid, kernel_of| {
            let folds = folds(self.task.x.rows(), self.folds(), self.task.seed)?;
            cross_validate(grid, self.task.x, y, &folds, |point, x, y, rows| {
                fit(kernel_of(point[1]), point[0], self.weights(rows), x, y)
            })
        })
    }

    /// For models of classes.
    pub fn of_classes(
        &self,
        score: ClassScore,
        fit: impl Fn(Kernel, f64, Option<Vec<f64>>, &Table, &[usize]) -> Result<Expansion> + Sync,
    ) -> Result<Chosen> {
        let name = match score {
            ClassScore::LogLoss => "log loss",
            ClassScore::Accuracy => "accuracy",
        };
        self.best(name, |grid, kernel_of| {
            let (labels, classes) = self.task.labels()?;
            let folds = stratified_folds(labels, classes, self.folds(), self.task.seed)?;
            cross_validate_classes(
                grid,
                self.task.x,
                labels,
                classes,
                &folds,
                score,
                |point, x, labels, rows| fit(kernel_of(point[1]), point[0], self.weights(rows), x, labels),
            )
        })
    }

    /// The value that is given, or the best of all times multiples of the length scales by `score`, which gets the grid and how a multiple
    /// makes a kernel.
    fn best(
        &self,
        name: &str,
        score: impl FnOnce(&[Vec<f64>], &(dyn Fn(f64) -> Kernel + Sync)) -> Result<CrossValidation>,
    ) -> Result<Chosen> {
        let kernel = &self.task.kernel;
        if let Some(value) = self.given() {
            if self.task.settings.get(FOLDS.name).is_some() {
                let belongs = format!("{} = '{AUTO}', and here it is {value}", self.setting);
                return Err(Error::Unused { setting: FOLDS.name.into(), belongs });
            }
            return Ok(Chosen { value, kernel: kernel.clone(), facts: Vec::new(), warnings: Vec::new() });
        }
        let kernel_of = |multiple| kernel.with_lengthscales_times(multiple).unwrap_or_else(|| kernel.clone());
        let fixed = self.task.fixed_kernel() || kernel.with_lengthscales_times(1.0).is_none();
        let multiples = if fixed { &[1.0][..] } else { &MULTIPLES };
        let axes =
            [Axis::new(self.setting, self.values), Axis::new("multiple of the length scales", multiples)];
        let grid = Axis::grid(&axes);
        let scores = score(&grid, &kernel_of)?;
        let (point, best) = (&grid[scores.best], &scores.scores[scores.best]);
        let (count, mean, error) = (self.folds(), best.mean, best.std_error);
        let how = format!("{name} on {count} held-out folds: {mean:.4} ± {error:.4}");
        let multiple = (!fixed).then(|| Fact::new("multiple of the length scales", point[1]));
        Ok(Chosen {
            value: point[0],
            kernel: kernel_of(point[1]),
            facts: std::iter::once(Fact::new("chosen by", how)).chain(multiple).collect(),
            warnings: Axis::edges(&axes, scores.best),
        })
    }

    fn folds(&self) -> usize {
        self.task.settings.count(FOLDS.name).unwrap_or(5)
    }

    fn weights(&self, rows: &[usize]) -> Option<Vec<f64>> {
        self.task.weights_of(rows)
    }
}
