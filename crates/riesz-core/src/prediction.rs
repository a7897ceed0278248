//! Predictions of a fitted model at rows: outputs, classes and probabilities.

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::kernel_model::{KernelExpansion, Link, ProbabilityLink, argmax, logistic, normalize_to_one};
use crate::linalg::{Matrix, Sparse};
use crate::posterior::{Posterior, PosteriorCovariance};
use crate::table::Table;

/// The predictions of a model at the rows of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Rows × outputs.
    pub outputs: Matrix,
    /// The index of each row's class. `None` for regression, and if the most probable of several classes
    /// depends on a posterior that is not available.
    pub classes: Option<Vec<usize>>,
    /// Rows × classes. `None` for regression, if the probabilities depend on a posterior that is not
    /// available, and for support vector machines, except for those of LIBSVM's files with `probA` and
    /// `probB`.
    pub probabilities: Option<Matrix>,
}

impl Prediction {
    /// Predicts the rows of `x`. The probabilities of a Gaussian process classifier are averages over its
    /// posterior, `∫ σ(f) p(f | data) df`. They are nearer to ½ than the logistic function of the mean. With
    /// more than two classes they are divided by their sum. The integral is exact up to rounding;
    /// scikit-learn's sum of five error functions differs by up to 5e-4 (measured). The class is the most
    /// probable one.
    ///
    /// # Errors
    /// As [`KernelExpansion::predict`], [`Posterior::new`] and [`Posterior::variance`].
    pub fn new(model: &KernelExpansion, covariance: Option<&PosteriorCovariance>, x: &Table) -> Result<Self> {
        Self::new_with_control(model, covariance, x, &AtomicBool::new(false))
    }

    /// Predicts as [`new`](Self::new) does, unless another thread sets `stop` to cancel the work.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Error::Interrupted`].
    pub fn new_with_control(
        model: &KernelExpansion,
        covariance: Option<&PosteriorCovariance>,
        x: &Table,
        stop: &AtomicBool,
    ) -> Result<Self> {
        Self::of_outputs(model, covariance, x, model.predict_until(x, stop)?, stop)
    }

    /// Predicts as [`new_with_control`](Self::new_with_control) does, from known outputs of the model at the
    /// rows of `x`, such as those of an explanation.
    ///
    /// # Errors
    /// As [`new_with_control`](Self::new_with_control).
    pub fn of_outputs(
        model: &KernelExpansion,
        covariance: Option<&PosteriorCovariance>,
        x: &Table,
        outputs: Matrix,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let averages = match covariance.filter(|_| model.link.is_latent()) {
            Some(covariance) => {
                let variance = Posterior::new(model, covariance)?.with_cancel(stop).variance(x)?;
                Some(averaged_probabilities(model.link, &outputs, &variance))
            }
            None => None,
        };
        let rows = || (0..outputs.rows()).map(|i| outputs.row(i));
        let classes = match &averages {
            Some(p) => Some((0..p.rows()).map(|i| argmax(p.row(i))).collect()),
            None => rows().map(|row| model.predicted_class(row)).collect(),
        };
        let linked = || {
            let link = ProbabilityLink::of_model(model)?;
            let probabilities: Vec<_> = rows().map(|row| link.probabilities(row)).collect();
            Some(Matrix::from_row_major(outputs.rows(), model.classes.len(), probabilities.concat()))
        };
        let probabilities = averages.or_else(linked);
        Ok(Self { outputs, classes, probabilities })
    }
}

/// Returns the interval extended to include `estimate`: the mean of a skewed distribution may lie outside its
/// central interval.
pub fn reaching([low, high]: [f64; 2], estimate: f64) -> [f64; 2] {
    [low.min(estimate), high.max(estimate)]
}

/// Predictions on the natural scale (rates, probabilities, or the outputs themselves), one number per row.
#[derive(Debug, Clone, PartialEq)]
pub struct NaturalScalePrediction {
    /// The posterior mean.
    pub mean: Vec<f64>,
    /// The posterior median.
    pub median: Vec<f64>,
    /// The lower end of the central interval. The interval is extended to the mean if the mean lies outside,
    /// as it may for a skewed distribution.
    pub low: Vec<f64>,
    /// The upper end of the central interval.
    pub high: Vec<f64>,
}

impl NaturalScalePrediction {
    /// Predicts the rows of `x` by a model of one output. Intervals extend `sds` standard deviations of the
    /// output to either side (1.96 for 95 %) and are then transformed to the natural scale.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a model of several outputs; as [`KernelExpansion::predict`] and
    /// [`Posterior::variance`].
    pub fn new(posterior: &Posterior<'_>, x: &Table, sds: f64) -> Result<Self> {
        let model = posterior.mean();
        if model.outputs() != 1 {
            let allowed = "the natural scale needs a model of one output";
            return Err(Error::parameter("number of outputs", model.outputs(), allowed));
        }
        let (f, variance) = (model.predict(x)?.column(0), posterior.variance(x)?.column(0));
        let means_and_variances = || f.iter().zip(&variance);
        let quantile = |sds: f64| {
            means_and_variances()
                .map(|(f, v)| model.link.inverse_link(f + sds * v.sqrt()))
                .collect::<Vec<_>>()
        };
        let mean = |(f, v): (&f64, &f64)| match model.link {
            Link::Log => (f + 0.5 * v).exp(),
            Link::Logit | Link::Logistic | Link::LatentLogistic => logistic_normal_mean(*f, *v),
            _ => *f,
        };
        let mean: Vec<f64> = means_and_variances().map(mean).collect();
        let ends = quantile(-sds).into_iter().zip(quantile(sds)).zip(&mean);
        let (low, high) = ends.map(|((low, high), mean)| reaching([low, high], *mean).into()).unzip();
        Ok(Self { mean, median: quantile(0.0), low, high })
    }
}

/// Weighted sums of a model's outputs, with their posterior variances and probabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregatePrediction {
    /// Sums × outputs.
    pub outputs: Matrix,
    /// The posterior variances of the sums, sums × outputs.
    pub variance: Matrix,
    /// Sums × classes; `None` unless the model's probabilities are averages over a posterior.
    pub probabilities: Option<Matrix>,
}

impl AggregatePrediction {
    /// Predicts the sums whose weights are the columns of `weights` (rows of `x` × sums), for example duels
    /// between bags (`ItemBags::duels`).
    ///
    /// # Errors
    /// As [`Posterior::new`] and [`Posterior::weighted_sum_functionals`].
    pub fn new(
        model: &KernelExpansion,
        covariance: &PosteriorCovariance,
        x: &Table,
        weights: &Sparse,
    ) -> Result<Self> {
        let posterior = Posterior::new(model, covariance)?;
        let sums = posterior.weighted_sum_functionals(x, weights)?;
        let (outputs, covariances) = (posterior.mean_of(&sums), posterior.covariance(&sums));
        let mut variance = Matrix::zeros(outputs.rows(), outputs.cols());
        for (o, covariance) in covariances.iter().enumerate() {
            (0..outputs.rows()).for_each(|j| variance[(j, o)] = covariance[(j, j)].max(0.0));
        }
        let latent = model.link.is_latent();
        let probabilities = latent.then(|| averaged_probabilities(model.link, &outputs, &variance));
        Ok(Self { outputs, variance, probabilities })
    }
}

/// A classifier's predictions at explained rows, which reports show in addition to the explained outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassDecisions {
    /// For each output, its meaning: "log-odds of spam", for example.
    pub meaning: Vec<String>,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// For each row, the index of its class, if the model states it.
    pub chosen: Option<Vec<usize>>,
    /// For each output, the index of its class and the probability of this class by row, if the model states
    /// them.
    pub probabilities: Vec<Option<(usize, Vec<f64>)>>,
}

impl ClassDecisions {
    /// Returns the decisions of a model from its predictions; `None` for regression.
    pub fn new(model: &KernelExpansion, predicted: &Prediction) -> Option<Self> {
        let (classes, m) = (&model.classes, model.outputs());
        if classes.is_empty() {
            return None;
        }
        // The class of an output: the second of two classes, or one class per output.
        let class = |o: usize| match (m, classes.len()) {
            (1, 2) => Some(1),
            (m, k) if m == k && model.link != Link::Vote => Some(o),
            _ => None,
        };
        let meaning = |o: usize| match (class(o), model.link) {
            (Some(k), Link::Logistic) => format!("log-odds of {}", classes[k]),
            (Some(k), Link::Softmax) => {
                format!("logarithm of the unnormalised probability of {}", classes[k])
            }
            (Some(k), Link::LatentLogistic | Link::LatentOneVsRest) => {
                format!("mean of the latent function, which increases with the probability of {}", classes[k])
            }
            (_, Link::LatentRaoKupper { .. }) => {
                format!("mean of the latent log odds, which increase with the probability of {}", classes[1])
            }
            (Some(k), _) => format!("decision value, positive for {}", classes[k]),
            (None, _) => format!("decision value of {}", model.output_names[o]),
        };
        let probability = |o: usize| {
            let (probabilities, k) = (predicted.probabilities.as_ref()?, class(o)?);
            Some((k, probabilities.column(k)))
        };
        Some(Self {
            meaning: (0..m).map(meaning).collect(),
            classes: classes.clone(),
            chosen: predicted.classes.clone(),
            probabilities: (0..m).map(probability).collect(),
        })
    }

    /// Returns the decisions of a model whose probabilities are explained: the probability of the second of
    /// two classes, or of all classes.
    pub fn of_probabilities(model: &KernelExpansion, predicted: &Prediction) -> Self {
        let classes = &model.classes;
        let shown: Vec<usize> = if classes.len() == 2 { vec![1] } else { (0..classes.len()).collect() };
        let probability = |&k: &usize| predicted.probabilities.as_ref().map(|p| (k, p.column(k)));
        Self {
            meaning: shown.iter().map(|&k| format!("probability of {}", classes[k])).collect(),
            classes: classes.clone(),
            chosen: predicted.classes.clone(),
            probabilities: shown.iter().map(probability).collect(),
        }
    }

    /// Returns the decisions for a selection of the rows and outputs, in this order.
    pub fn select(&self, rows: &[usize], outputs: &[usize]) -> Self {
        let selected = |values: &Vec<f64>| rows.iter().map(|&i| values[i]).collect::<Vec<_>>();
        let probability =
            |o: &usize| self.probabilities[*o].as_ref().map(|(k, values)| (*k, selected(values)));
        Self {
            meaning: outputs.iter().map(|&o| self.meaning[o].clone()).collect(),
            classes: self.classes.clone(),
            chosen: self.chosen.as_ref().map(|classes| rows.iter().map(|&i| classes[i]).collect()),
            probabilities: outputs.iter().map(probability).collect(),
        }
    }

    /// Appends the decisions for further rows by the same model.
    pub fn append(&mut self, other: Self) {
        if let (Some(classes), Some(new_classes)) = (&mut self.chosen, other.chosen) {
            classes.extend(new_classes);
        }
        for (output_probabilities, new_output_probabilities) in
            self.probabilities.iter_mut().zip(other.probabilities)
        {
            if let (Some((_, values)), Some((_, new_values))) =
                (output_probabilities, new_output_probabilities)
            {
                values.extend(new_values);
            }
        }
    }

    /// Checks that the decisions have this number of rows and outputs; code that reads them from a file calls
    /// this.
    ///
    /// # Errors
    /// [`Error::Format`].
    pub fn validate(&self, rows: usize, outputs: usize) -> Result<()> {
        let classes = self.classes.len();
        let chosen = |classes_by_row: &Vec<usize>| {
            classes_by_row.len() == rows && classes_by_row.iter().all(|&k| k < classes)
        };
        let probable = |(k, values): &(usize, Vec<f64>)| {
            *k < classes && values.len() == rows && values.iter().all(|p| (0.0..=1.0).contains(p))
        };
        let fits = self.meaning.len() == outputs
            && self.probabilities.len() == outputs
            && self.chosen.iter().all(chosen)
            && self.probabilities.iter().flatten().all(probable);
        let problem =
            || format!("the classes and probabilities do not match {rows} rows and {outputs} outputs");
        if fits { Ok(()) } else { Err(Error::format(problem())) }
    }
}

/// Returns the probabilities of the classes in each row, from means and variances (both rows × outputs) of
/// latent functions.
pub fn averaged_probabilities(link: Link, mean: &Matrix, variance: &Matrix) -> Matrix {
    let latent = mean.data().par_iter().zip(variance.data());
    let (classes, rows) = if let Link::LatentRaoKupper { margin } = link {
        let outcome_probabilities = |(mean, variance): (&f64, &f64)| {
            let (win, loss) = (
                logistic_normal_mean(mean - margin, *variance),
                logistic_normal_mean(-mean - margin, *variance),
            );
            // The three probabilities add up to 1.
            vec![loss, win, (1.0 - win - loss).max(0.0)]
        };
        (3, latent.map(outcome_probabilities).collect::<Vec<_>>())
    } else {
        let latent_probabilities: Vec<f64> =
            latent.map(|(mean, variance)| logistic_normal_mean(*mean, *variance)).collect();
        match mean.cols() {
            1 => (2, latent_probabilities.iter().map(|p| vec![1.0 - p, *p]).collect()),
            m => (m, latent_probabilities.chunks(m).map(normalize_to_one).collect()),
        }
    };
    Matrix::from_row_major(mean.rows(), classes, rows.concat())
}

/// Returns `E σ(f)` for normal f, by the trapezoidal rule. For functions that are analytic in a strip around
/// the real line its error decreases like `exp(-2π · half-width of the strip / step)` (Trefethen and Weideman
/// 2014). The poles of `σ(mean + s z)` lie π/s from the real line, and the normal density alone requires
/// steps of at most 0.7.
pub fn logistic_normal_mean(mean: f64, variance: f64) -> f64 {
    const REACH: f64 = 8.5;
    const MAX_STEPS: f64 = 1e6;
    let s = variance.sqrt();
    let count = (REACH / (0.6 / s).min(0.7)).ceil().min(MAX_STEPS);
    let step = REACH / count;
    let (mut sum, mut total) = (0.0, 0.0);
    for k in -(count as i64)..=count as i64 {
        let z = k as f64 * step;
        let density = (-0.5 * z * z).exp();
        sum += density * logistic(mean + s * z);
        total += density;
    }
    sum / total
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symmetry, the limit of zero variance, and the limit of large variance, a probit function of the mean.
    #[test]
    fn the_average_of_the_logistic_function() {
        for (mean, variance) in [(0.0, 3.0), (1.3, 0.2), (-4.0, 17.0), (2.0, 1e4)] {
            let (p, q) = (logistic_normal_mean(mean, variance), logistic_normal_mean(-mean, variance));
            assert!((p + q - 1.0).abs() < 1e-14, "{p} {q}");
        }
        assert!((logistic_normal_mean(1.3, 0.0) - logistic(1.3)).abs() < 1e-15);
        // E σ(f) = ∫ σ'(t) Φ((m - t)/s) dt, and Φ is nearly ½ + φ(0)(m - t)/s.
        let expected = 0.5 + 2.0 / (std::f64::consts::TAU * 1e10).sqrt();
        assert!((logistic_normal_mean(2.0, 1e10) - expected).abs() < 1e-12);
    }
}
