//! The form of every fitted model, a kernel expansion: `f_o(x) = intercept_o + Σ_i coef_io k(x_i, x)` for
//! output o.
//!
//! Models fitted by riesz and imported models have this form: ridge regression, support vector machines and
//! Gaussian processes. Explanations, files and predictions use only this type. Everything is in the user's
//! units.

pub mod parts;
mod probability;

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::control::check_cancelled;
use crate::error::{Error, Result, sized};
use crate::kernel::player_products::RadialApproximation;
use crate::kernel::{ColumnRanges, Columns, Kernel};
use crate::linalg::{Matrix, index_pairs, min_max};
use crate::model_card::CardEntry;
use crate::simd::Isa;
use crate::table::{Column, ColumnKind, Table};
pub use probability::{PlattScaling, ProbabilityLink};

/// The number of support points at which the spread of the outputs is computed.
const SPREAD_ROWS: usize = 64;

/// The link from outputs to the predicted quantity. Explanations refer to the outputs, before the link.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// The outputs are the predictions (regression).
    Identity,
    /// Outputs are decision values. One output: class 1 if positive. One output per pair of classes, in the
    /// order (0,1), (0,2), …, (1,2), …: the class with most votes (LIBSVM). If the model card has LIBSVM's
    /// `probA` and `probB`, they convert outputs to probabilities ([`PlattScaling`]).
    Vote,
    /// One output: the log-odds of class 1.
    Logistic,
    /// One output per class: logarithms of unnormalised probabilities.
    Softmax,
    /// One output: the posterior mean of a latent function, which the logistic function maps to a probability
    /// (Gaussian process classification). Its sign gives the class. [`Prediction`](crate::Prediction)
    /// averages probabilities over the posterior.
    LatentLogistic,
    /// One output per class: the output of [`LatentLogistic`](Self::LatentLogistic) for this class against
    /// the others. Probabilities, and with them the class, need the posterior.
    LatentOneVsRest,
    /// One output g as in [`LatentLogistic`](Self::LatentLogistic), and three classes. The second class has
    /// the probability `σ(g - margin)`, the first `σ(-g - margin)`, and the third, a tie, the rest (Rao and
    /// Kupper 1967).
    #[serde(rename = "latent_ties")]
    LatentRaoKupper {
        /// The advantage, in log odds, beyond which a side wins, > 0.
        margin: f64,
    },
    /// One output: the logarithm of a rate, observed through counts of events.
    Log,
    /// One output: the log odds of a success, observed through counts of successes among trials. This is a
    /// regression: rows have no class.
    Logit,
}

impl Link {
    /// Whether probabilities are averages over the posterior of latent functions.
    pub(crate) fn is_latent(self) -> bool {
        matches!(self, Self::LatentLogistic | Self::LatentOneVsRest | Self::LatentRaoKupper { .. })
    }

    /// The predicted quantity for an output, an increasing function of the output: the output itself, a rate
    /// or a probability.
    #[inline]
    pub fn inverse_link(self, output: f64) -> f64 {
        match self {
            Self::Log => output.exp(),
            Self::Logistic | Self::LatentLogistic | Self::Logit => logistic(output),
            _ => output,
        }
    }
}

/// Name of the model card's entry for support points at which the kernel vanishes. Products are 0 there, so
/// removing a factor from them has no meaning.
pub const VANISHING_REFERENCE_FACT: &str = "support points where the kernel vanishes";

/// A fitted model: a kernel expansion with its outputs' names, link and classes.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelExpansion {
    /// The kernel, in the units of the columns of `points`.
    pub kernel: Kernel,
    /// The support points, n × d.
    pub support_points: Table,
    /// Dual coefficients, n × outputs.
    pub coef: Matrix,
    /// Intercept of each output.
    pub intercept: Vec<f64>,
    /// Name of each output.
    pub output_names: Vec<String>,
    /// Link from outputs to predictions.
    pub link: Link,
    /// Names of the classes; empty for regression.
    pub classes: Vec<String>,
    /// The model card: the kind of model, and how it was fitted.
    pub model_card: Vec<CardEntry>,
}

/// Default names of outputs: `y`, or `y1 … ym`.
pub fn default_names(outputs: usize) -> Vec<String> {
    if outputs == 1 { vec!["y".into()] } else { (1..=outputs).map(|o| format!("y{o}")).collect() }
}

/// The name of the model card's entry for the unit of a column.
fn unit_entry(column: &str) -> String {
    format!("unit of {column}")
}

impl KernelExpansion {
    /// A regression model with outputs named `y` or `y1 … ym`.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn new(kernel: Kernel, points: Table, coef: Matrix, intercept: Vec<f64>) -> Result<Self> {
        let output_names = default_names(intercept.len());
        let model = Self {
            kernel,
            support_points: points,
            coef,
            intercept,
            output_names,
            link: Link::Identity,
            classes: Vec::new(),
            model_card: Vec::new(),
        };
        model.validate()?;
        Ok(model)
    }

    /// The unit in which the training data gave a column, such as `kg` or `$`; `None` if the data gave no
    /// unit or the unit is unknown.
    pub fn unit_of(&self, column: &str) -> Option<&str> {
        self.fact(&unit_entry(column))
    }

    /// The value of the model card's entry with this name.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.model_card.iter().find(|entry| entry.name == name).map(|entry| entry.value.as_str())
    }

    /// Records the unit of a column in the model card.
    pub fn set_unit(&mut self, column: &str, unit: &str) {
        self.model_card.push(CardEntry::new(unit_entry(column), unit));
    }

    /// The model card, extended by the kernel and the number of support points.
    pub fn facts(&self) -> Vec<CardEntry> {
        let own_entries = [
            CardEntry::new("kernel", self.kernel.formula()),
            CardEntry::new("support points", self.support_points.rows()),
        ];
        self.model_card.iter().cloned().chain(own_entries).collect()
    }

    /// Checks sizes, ranges and finiteness. Code that builds a model from external data calls this.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Parameter`], [`Error::TooFew`].
    pub fn validate(&self) -> Result<()> {
        let m = self.intercept.len();
        if m == 0 {
            return Err(Error::too_few("the list of outputs", 1, "output is"));
        }
        if self.support_points.width() == 0 {
            return Err(Error::too_few("the table of support points", 1, "column is"));
        }
        sized(
            "the coefficient matrix",
            "rows",
            self.support_points.rows(),
            self.coef.rows(),
            "one per support point",
        )?;
        sized("the coefficient matrix", "columns", m, self.coef.cols(), "one per output")?;
        sized("the list of output names", "names", m, self.output_names.len(), "one per output")?;
        let classes = self.classes.len();
        match self.link {
            Link::Identity => {}
            Link::Log | Link::Logit => {
                sized("the model", "outputs", 1, m, "its output is the logarithm of a rate")?;
                sized("the model", "classes", 0, classes, "its output is the logarithm of a rate")?;
            }
            Link::Logistic | Link::LatentLogistic => {
                sized("the model", "classes", 2, classes, "its link is logistic")?
            }
            Link::LatentRaoKupper { margin } => {
                sized("the model", "classes", 3, classes, "its link has ties")?;
                if !(margin.is_finite() && margin > 0.0) {
                    return Err(Error::parameter(
                        "margin",
                        margin,
                        "the margin of ties is a positive number",
                    ));
                }
            }
            Link::Softmax | Link::LatentOneVsRest => {
                sized("the model", "classes", m, classes, "one per output")?
            }
            Link::Vote => sized(
                "the model",
                "outputs",
                classes * classes.saturating_sub(1) / 2,
                m,
                "one per pair of classes",
            )?,
        }
        if self.coef.data().iter().chain(&self.intercept).any(|c| !c.is_finite()) {
            return Err(Error::parameter(
                "coef or intercept",
                "NaN or infinite",
                "coefficients are finite numbers",
            ));
        }
        self.kernel.validate(self.support_points.width())
    }

    /// Multiplies all outputs by `scale` and adds `shift`, which undoes the standardisation of a target.
    pub fn rescale(&mut self, scale: f64, shift: f64) {
        self.coef.scale(scale);
        self.intercept.iter_mut().for_each(|b| *b = *b * scale + shift);
    }

    /// This model with one more level in each categorical column ([`Table::with_unknown_level`]), for cells
    /// whose level was not in the training data. No support point has this level, so its factors are the
    /// factors of two different levels.
    ///
    /// # Errors
    /// [`Error::Parameter`] if a factor reads the codes of levels as numbers.
    pub fn with_unknown_level(mut self) -> Result<Self> {
        let factors = self.kernel.terms.iter().flat_map(|term| &term.factors);
        for factor in factors.filter(|factor| !factor.declaration().categorical) {
            let numeric = |j: &&usize| self.columns()[**j].kind == ColumnKind::Numeric;
            if let Some(&j) = factor.columns().iter().find(|j| !numeric(j)) {
                let why = "unseen levels need a kernel that only compares levels for equality";
                let value = format!("{} over '{}'", factor.declaration().names[0], self.columns()[j].name);
                return Err(Error::parameter("kernel", value, why));
            }
        }
        self.support_points = self.support_points.with_unknown_level();
        Ok(self)
    }

    /// The columns, with their names and kinds.
    pub fn columns(&self) -> &[Column] {
        self.support_points.columns()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.intercept.len()
    }

    /// The outputs at the rows of `x`, rows × outputs. Columns are matched by name. Cost O(rows · n · d).
    ///
    /// # Errors
    /// As [`Table::align_to`]; [`Error::Overflow`] if an output is not finite.
    pub fn predict(&self, x: &Table) -> Result<Matrix> {
        self.predict_until(x, &AtomicBool::new(false))
    }

    /// Predicts as [`predict`](Self::predict) does; another thread can cancel it by setting `stop`.
    ///
    /// # Errors
    /// As [`predict`](Self::predict); [`Error::Interrupted`].
    pub fn predict_until(&self, x: &Table, stop: &AtomicBool) -> Result<Matrix> {
        let x = x.align_to(self.columns())?;
        let m = self.outputs();
        let isa = Isa::detect();
        let coef_by_output = self.coef.transpose();
        let mut out = Matrix::zeros(x.rows(), m);
        out.data_mut().par_chunks_mut(m).enumerate().try_for_each_init(
            || (Vec::new(), vec![0.0; self.support_points.rows()]),
            |(buffer, k), (i, row)| {
                check_cancelled(stop)?;
                self.kernel.row(isa, Columns::from_row(&self.support_points, 0), &x.row(i), buffer, k);
                for (o, y) in row.iter_mut().enumerate() {
                    *y = self.intercept[o] + crate::linalg::dot(coef_by_output.row(o), k);
                }
                Ok(())
            },
        )?;
        check_overflow(&out, "prediction")?;
        Ok(out)
    }

    /// Returns the accuracy to which radial factors over several players are approximated. It is chosen such
    /// that twice the error of an output, which bounds that of a Shapley value, is at most `relative_error`
    /// times the spread of the outputs at the support points; at best with an error of 1e-12 for each factor.
    /// `other_ranges` are the ranges of the columns in other rows, if there are any.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Overflow`].
    pub fn radial_approximation(
        &self,
        relative_error: f64,
        other_ranges: Option<&[[f64; 2]]>,
        stop: &AtomicBool,
    ) -> Result<RadialApproximation> {
        let width = self.support_points.width();
        let mut ranges = ColumnRanges::per_column(Columns::from_row(&self.support_points, 0), width);
        for ([low, high], other) in ranges.iter_mut().zip(other_ranges.into_iter().flatten()) {
            (*low, *high) = (low.min(other[0]), high.max(other[1]));
        }
        let column_widths = ranges.iter().map(|[low, high]| (high - low).max(0.0)).collect();
        let mut tolerance: f64 = 1.0;
        if self.kernel.is_radial() {
            let n = self.support_points.rows();
            let sampled: Vec<usize> = (0..n).step_by(n.div_ceil(SPREAD_ROWS).max(1)).collect();
            let outputs = self.predict_until(&self.support_points.select_rows(&sampled), stop)?;
            let scale: f64 = self.kernel.terms.iter().map(|term| term.scale.abs()).sum();
            for o in 0..self.outputs() {
                let (low, high) = min_max(&outputs.column(o));
                let sizes = self.absolute_coefficients(o);
                let error = relative_error * (high - low) / (2.0 * scale * sizes);
                tolerance = tolerance.min(if error > 0.0 { error } else { 0.0 });
            }
        }
        Ok(RadialApproximation { column_widths, tolerance })
    }

    /// The sum of the absolute coefficients of output `o`.
    pub fn absolute_coefficients(&self, o: usize) -> f64 {
        (0..self.coef.rows()).map(|i| self.coef[(i, o)].abs()).sum()
    }

    /// The index of the predicted class for one row of outputs. `None` for regression, and if the class needs
    /// more than the outputs (see [`Link::LatentOneVsRest`]).
    pub fn predicted_class(&self, outputs: &[f64]) -> Option<usize> {
        match self.link {
            Link::Identity
            | Link::LatentOneVsRest
            | Link::LatentRaoKupper { .. }
            | Link::Log
            | Link::Logit => None,
            Link::Softmax => Some(argmax(outputs)),
            Link::Vote if self.classes.len() != 2 => {
                let mut votes = vec![0.0; self.classes.len()];
                for ((i, j), &value) in index_pairs(votes.len()).zip(outputs) {
                    votes[if value > 0.0 { i } else { j }] += 1.0;
                }
                Some(argmax(&votes))
            }
            Link::Logistic | Link::LatentLogistic | Link::Vote => Some(usize::from(outputs[0] > 0.0)),
        }
    }

    /// Class probabilities for one row of outputs. `None` if the model has no probabilities, or if they need
    /// more than the outputs (see [`Link::LatentLogistic`]). For many rows, build the [`ProbabilityLink`]
    /// once.
    pub fn probabilities(&self, outputs: &[f64]) -> Option<Vec<f64>> {
        ProbabilityLink::of_model(self).map(|link| link.probabilities(outputs))
    }
}

/// Checks that the numbers of rows × outputs are finite; `quantity` names them in the message.
pub(crate) fn check_overflow(numbers: &Matrix, quantity: &str) -> Result<()> {
    match numbers.data().iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(position) => Err(Error::overflow(
            format!("the {quantity} of row {}", position / numbers.cols() + 1),
            "its values are too far from the data the model was fitted on",
        )),
    }
}

/// The numbers divided by their sum; equal shares if all are 0.
pub(crate) fn normalize_to_one(weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| if total > 0.0 { w / total } else { 1.0 / weights.len() as f64 }).collect()
}

/// The logistic function `1/(1 + e^-f)`.
#[inline]
pub fn logistic(f: f64) -> f64 {
    1.0 / (1.0 + (-f).exp())
}

/// The index of the largest number; the first one if several are equal.
pub(crate) fn argmax(values: &[f64]) -> usize {
    (0..values.len()).fold(0, |best, k| if values[k] > values[best] { k } else { best })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::{ColumnScaling, KernelExpression};
    use crate::table::UNKNOWN_LEVEL;

    proptest! {
        /// An additional unseen level does not change the outputs for other levels, and its factor is the
        /// similarity of different levels.
        #[test]
        fn unseen_levels_equal_none(
            codes in prop::collection::vec(0_u8..3, 2..9), coef in prop::collection::vec(-3.0..3.0, 9), at in -2.0..2.0, similarity in 0.0..1.0,
        ) {
            let n = codes.len();
            let kind = ColumnKind::Categorical { levels: ["a", UNKNOWN_LEVEL, "b"].map(String::from).to_vec() };
            let columns = vec![Column::numeric("x"), Column { name: "c".into(), kind }];
            let values = (0..n).map(|i| i as f64 / 3.0).chain(codes.iter().map(|&c| f64::from(c))).collect();
            let points = Table::from_column_major(columns, n, values).unwrap();
            let text = format!("rbf(x, length_scale=1) * categorical(c, similarity={similarity})");
            let kernel = KernelExpression::parse(&text).unwrap().resolve(&points, &ColumnScaling::raw(2)).unwrap();
            let model = KernelExpansion::new(kernel, points.clone(), Matrix::column_vector(coef[..n].to_vec()), vec![0.5]).unwrap();
            let extended = model.clone().with_unknown_level().unwrap();
            let ColumnKind::Categorical { levels } = &extended.columns()[1].kind else { panic!("levels") };
            prop_assert_eq!(&levels[3], "((unseen))");
            let extended_points = points.align_to(extended.columns()).unwrap();
            prop_assert_eq!(model.predict(&points).unwrap(), extended.predict(&extended_points).unwrap());
            let rows = Table::from_column_major(extended.columns().to_vec(), 1, vec![at, 3.0]).unwrap();
            let part = |i: usize| coef[i] * (-(at - points.get(i, 0)).powi(2) / 2.0).exp() * similarity;
            let expected = 0.5 + (0..n).map(part).sum::<f64>();
            prop_assert!((extended.predict(&rows).unwrap().row(0)[0] - expected).abs() < 1e-12);
        }
    }
}
