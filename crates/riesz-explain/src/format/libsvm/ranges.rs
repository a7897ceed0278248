//! Range files of LIBSVM's `svm-scale` (option `-s`), and the conversion of models on scaled data to the
//! user's units.
//!
//! `svm-scale` maps feature j from its range `[min_j, max_j]` in the training data to `[lower, upper]`, and
//! with `-y` the target too. Features that are constant in the training data are not in the file; their
//! scaled value is 0.

use std::collections::BTreeMap;

use super::PASSED;
use super::write::digits;
use crate::error::{Error, Result};
use crate::kernel::{Factor, Kernel, Linear, Polynomial, Sigmoid, Stationary};
use crate::kernel_model::{KernelExpansion, Link};
use crate::table::Table;

const FORMAT: &str = "svm-scale range file";

/// The linear map from the interval `[min, max]` to the interval `[lower, upper]`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scaling {
    min: f64,
    max: f64,
    lower: f64,
    upper: f64,
}

impl Scaling {
    /// The derivative of the scaled number in the number.
    fn slope(self) -> f64 {
        (self.upper - self.lower) / (self.max - self.min)
    }

    /// The number whose scaled value is 0.
    fn center(self) -> f64 {
        self.unscaled(0.0)
    }

    fn unscaled(self, scaled: f64) -> f64 {
        if scaled == self.lower {
            self.min
        } else if scaled == self.upper {
            self.max
        } else {
            self.min + (scaled - self.lower) / self.slope()
        }
    }
}

/// The scaling that `svm-scale` applies to data.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranges {
    target: Option<Scaling>,
    /// The scaling of each feature, by its number from 1.
    features: BTreeMap<usize, Scaling>,
}

/// Reads a range file, as `svm-scale -s FILE` writes it.
///
/// # Errors
/// [`Error::Parse`] with the line.
pub fn read_ranges(bytes: &[u8]) -> Result<Ranges> {
    let problem = |line: usize, problem: String| Error::Parse { format: FORMAT, line, problem };
    let text = std::str::from_utf8(bytes)
        .map_err(|_| problem(1, "the file is not text: 'svm-scale -s FILE' writes range files".into()))?;
    let mut lines = text
        .trim_start_matches('\u{feff}')
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split_ascii_whitespace().collect::<Vec<_>>()))
        .filter(|(_, words)| !words.is_empty());
    let numbers = |(line, words): (usize, Vec<&str>), count: usize| -> Result<(usize, Vec<f64>)> {
        let values: Option<Vec<f64>> =
            words.iter().map(|word| word.parse::<f64>().ok().filter(|value| value.is_finite())).collect();
        match values.filter(|values| values.len() == count) {
            Some(values) => Ok((line, values)),
            None => Err(problem(line, format!("{count} finite numbers are expected here"))),
        }
    };
    let interval = |(line, values): (usize, Vec<f64>)| {
        let (min, max) = (values[values.len() - 2], values[values.len() - 1]);
        match max - min {
            width if width.is_finite() && width > 0.0 => Ok((min, max)),
            _ => Err(problem(line, format!("{min} to {max} is no range: the second number must be larger"))),
        }
    };
    let cut_off = || problem(text.lines().count().max(1), "the file is cut off".into());
    let unknown = |line: usize| {
        let why = "a range file begins with 'x', or with 'y' if the target is scaled too: \
                   'svm-scale -s FILE' writes it";
        problem(line, why.into())
    };
    let mut next = || lines.next().ok_or_else(cut_off);
    let (mut line, mut first) = next()?;
    let mut target = None;
    if first == ["y"] {
        let (lower, upper) = interval(numbers(next()?, 2)?)?;
        let (min, max) = interval(numbers(next()?, 2)?)?;
        target = Some(Scaling { min, max, lower, upper });
        (line, first) = next()?;
    }
    if first != ["x"] {
        return Err(unknown(line));
    }
    let (lower, upper) = interval(numbers(next()?, 2)?)?;
    let mut features = BTreeMap::new();
    for feature_line in lines {
        let (line, values) = numbers(feature_line, 3)?;
        if values[0].fract() != 0.0 || !(1.0..=super::read::MAX_WIDTH as f64).contains(&values[0]) {
            return Err(problem(line, format!("{} is no feature's number: they count from 1", values[0])));
        }
        let number = values[0];
        let (min, max) = interval((line, values))?;
        if features.insert(number as usize, Scaling { min, max, lower, upper }).is_some() {
            return Err(problem(line, format!("the feature {number} stands twice")));
        }
    }
    Ok(Ranges { target, features })
}

impl Ranges {
    /// The largest feature number in the file.
    pub fn width(&self) -> usize {
        self.features.keys().next_back().copied().unwrap_or(0)
    }

    /// Converts a model of a LIBSVM file on scaled data to the same model on data in the user's units. If the
    /// target was scaled, the outputs are in the user's units too. Exact up to rounding.
    ///
    /// # Errors
    /// [`Error::Parameter`] if support vectors have a feature that the range file does not contain, or if the
    /// target was scaled and the model is not a regression; the errors of [`KernelExpansion::validate`].
    pub fn unscaled(&self, mut model: KernelExpansion) -> Result<KernelExpansion> {
        let (n, d) = (model.support_points.rows(), model.support_points.width());
        let mut values = model.support_points.column_major().to_vec();
        for (j, column) in values.chunks_mut(n.max(1)).enumerate().take(d) {
            match self.features.get(&(j + 1)) {
                Some(scaling) => column.iter_mut().for_each(|v| *v = scaling.unscaled(*v)),
                None if column.iter().all(|v| *v == 0.0) => {}
                None => {
                    let allowed = "support vectors have this feature, but the range file does not: it was \
                                   written for other data";
                    return Err(Error::parameter("feature", j + 1, allowed));
                }
            }
        }
        model.support_points = Table::from_column_major(model.support_points.columns().to_vec(), n, values)?;
        self.unscale_kernel(&mut model.kernel);
        if let Some(target) = self.target {
            if model.link != Link::Identity {
                let allowed = "the range file scales the target, but the model is not a regression";
                return Err(Error::parameter("range file", "y", allowed));
            }
            let scale = 1.0 / target.slope();
            model.rescale(scale, target.center());
            // LIBSVM's regressions store an estimate of the noise scale, which is rescaled too.
            for fact in model.model_card.iter_mut().filter(|fact| fact.name == PASSED[0]) {
                let words = fact.value.split_ascii_whitespace();
                let scaled = words.map(|word| word.parse::<f64>().map(|v| digits(v * scale)));
                if let Ok(numbers) = scaled.collect::<std::result::Result<Vec<_>, _>>() {
                    fact.value = numbers.join(" ");
                }
            }
        }
        model.validate()?;
        Ok(model)
    }

    /// Converts the kernel of scaled rows to a kernel of rows in the user's units. Features that are not in
    /// the file are removed from the kernel.
    fn unscale_kernel(&self, kernel: &mut Kernel) {
        let has_range = |j: &usize| self.features.contains_key(&(j + 1));
        let scalings =
            |columns: &[usize]| -> Vec<Scaling> { columns.iter().map(|j| self.features[&(j + 1)]).collect() };
        let unscale = |columns: &mut Vec<usize>, center: &mut Vec<f64>, scale: &mut Vec<f64>| {
            columns.retain(has_range);
            *center = scalings(columns).iter().map(|scaling| scaling.center()).collect();
            *scale = scalings(columns).iter().map(|scaling| 1.0 / scaling.slope()).collect();
        };
        for factor in kernel.terms.iter_mut().flat_map(|term| &mut term.factors) {
            match factor {
                Factor::Stationary(Stationary { columns, length_scale, ard, .. }) => {
                    let length = length_scale.first().copied().unwrap_or(1.0);
                    columns.retain(has_range);
                    *length_scale =
                        scalings(columns).iter().map(|scaling| length / scaling.slope()).collect();
                    *ard = true;
                }
                Factor::Linear(Linear { columns, center, scale })
                | Factor::Polynomial(Polynomial { columns, center, scale, .. })
                | Factor::Sigmoid(Sigmoid { columns, center, scale, .. }) => unscale(columns, center, scale),
                _ => {}
            }
        }
    }
}
