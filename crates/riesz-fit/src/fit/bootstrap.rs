//! Bootstrap (Efron 1979): the sampling variability of a model, for models without a posterior.
//!
//! The model is fitted again to rows that are drawn with replacement from its training rows. A refit has its
//! support points among the same rows, with other coefficients. All linear functions of f, including Shapley
//! values, are therefore computed for all refits from one functional per row. The result is a
//! [`Covariance`](crate::Covariance) like that of a posterior.
//!
//! It estimates how much values would vary with a new sample from the same distribution, for this kernel and
//! these settings. It includes neither the bias of the model (penalties shrink) nor the variation from the
//! choice of the kernel and the settings. For classifiers, rows are drawn within each class, as many as the
//! class has. Every refit then has all classes, and the class sizes are regarded as fixed.

use rayon::prelude::*;

use super::task::{FitTask, FittedModel};
use super::{KernelRidge, positive_places};
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Cholesky, Matrix, mean};
use crate::model_card::CardEntry;
use crate::posterior::{PosteriorCovariance, Refitted, VarianceReduction};
use crate::random::{Random, RngExt, SeedableRng, hash};
use crate::setting_schema::{Range, Setting};
use crate::table::Table;

pub(super) const BOOTSTRAP: Setting = Setting::new(
    "n_bootstrap",
    "N",
    Range::Count(2),
    "Also fit N times to rows drawn with replacement from the table (for classifiers within classes), \
     with the seed, to estimate the sampling variability of values and predictions \
     ('explain --covariance'; keep it in the file with --posterior)",
);

/// The reason why a further penalty excludes refits.
pub(super) const PENALTY_CONFLICT: &str =
    "protected features need all rows, but a refit lacks some of them: leave one of the two settings out";

/// The draws of all refits.
struct BootstrapPlan {
    /// Strata: lists of rows. From each list, as many rows as it has are drawn with replacement.
    strata: Vec<Vec<usize>>,
    count: usize,
    seed: u64,
}

/// The result of a refit.
pub(super) struct BootstrapRefit {
    /// Indices in the table of the support points.
    pub rows: Vec<usize>,
    /// Rows × outputs.
    pub coef: Matrix,
    /// One number per output.
    pub intercept: Vec<f64>,
    pub converged: bool,
}

impl BootstrapRefit {
    /// The refit from a model with these rows as support points.
    pub fn from_model(rows: Vec<usize>, model: KernelExpansion, converged: bool) -> Self {
        Self { rows, coef: model.coef, intercept: model.intercept, converged }
    }
}

impl BootstrapPlan {
    /// The number of times that each of n rows is drawn for one refit.
    fn counts(&self, n: usize, refit: usize) -> Vec<f64> {
        let mut random = Random::seed_from_u64(hash([self.seed, refit as u64]));
        let mut counts = vec![0.0; n];
        for rows in &self.strata {
            (0..rows.len())
                .for_each(|_| counts[rows[random.random_range(0..rows.len() as u32) as usize]] += 1.0);
        }
        counts
    }

    /// Runs all refits to n rows. The argument of `refit` is the number of times that each row was drawn.
    /// There is one step of progress per refit.
    fn refits(
        &self,
        n: usize,
        control: RunControl<'_>,
        refit: impl Fn(Vec<f64>) -> Result<BootstrapRefit> + Sync,
    ) -> Result<Vec<BootstrapRefit>> {
        crate::memory::check_allocation("bootstrap", self.count, 2 * n)?;
        let run_refit = |b: usize| {
            control.check_cancelled()?;
            let outcome = refit(self.counts(n, b));
            control.step();
            outcome
        };
        (0..self.count).into_par_iter().map(run_refit).collect()
    }
}

/// Differences of the refits from their mean, with `rows` (ascending) as support points; one entry per
/// output.
fn refit_differences(refits: &[BootstrapRefit], rows: &[usize], seed: u64) -> Vec<VarianceReduction> {
    let outputs = refits.first().map_or(0, |refit| refit.intercept.len());
    let reduction = |o: usize| {
        let (mut coef, mut intercept) = (Matrix::zeros(rows.len(), refits.len()), vec![0.0; refits.len()]);
        for (b, refit) in refits.iter().enumerate() {
            scatter(refit, o, rows, |i, value| coef[(i, b)] = value);
            intercept[b] = refit.intercept[o];
        }
        (0..rows.len()).for_each(|i| center(coef.row_mut(i)));
        center(&mut intercept);
        VarianceReduction::RefitDifferences { coef, intercept, method: Refitted::Drawn { seed } }
    };
    (0..outputs).map(reduction).collect()
}

/// Calls `put` with each coefficient of a refit and its position among `rows`.
fn scatter(refit: &BootstrapRefit, o: usize, rows: &[usize], mut put: impl FnMut(usize, f64)) {
    for (position, row) in refit.rows.iter().enumerate() {
        if let Ok(i) = rows.binary_search(row) {
            put(i, refit.coef[(position, o)]);
        }
    }
}

/// Adds the covariance of the refits to a fit, if the task requests refits. `rows` are the model's support
/// points, and `strata` the lists of rows to draw from. `refit` takes the number of times that each row was
/// drawn; its outputs are in units of `unit`. The predictions of the model remain the same, with the support
/// points of all refits.
pub(super) fn run_refits(
    task: &FitTask<'_>,
    mut fitted: FittedModel,
    rows: Vec<usize>,
    strata: Vec<Vec<usize>>,
    unit: f64,
    refit: impl Fn(Vec<f64>) -> Result<BootstrapRefit> + Sync,
) -> Result<FittedModel> {
    let Some(count) = task.settings.count(BOOTSTRAP.name) else { return Ok(fitted) };
    task.progress.start_stage("refitting to bootstrap samples", count);
    let draws = BootstrapPlan { strata, count, seed: task.seed };
    let refits = draws.refits(task.x.rows(), task.control(), refit)?;
    let mut support_rows: Vec<usize> =
        refits.iter().flat_map(|refit| &refit.rows).chain(&rows).copied().collect();
    support_rows.sort_unstable();
    support_rows.dedup();
    let model = &mut fitted.model;
    let (mut coef, outputs) = (Matrix::zeros(support_rows.len(), model.outputs()), model.outputs());
    let whole_fit = BootstrapRefit { rows, coef: model.coef.clone(), intercept: Vec::new(), converged: true };
    (0..outputs).for_each(|o| scatter(&whole_fit, o, &support_rows, |i, value| coef[(i, o)] = value));
    (model.support_points, model.coef) = (task.x.select_rows(&support_rows), coef);
    model.model_card.push(bootstrap_fact(count, task.seed));
    let differences = refit_differences(&refits, &support_rows, task.seed);
    fitted.covariance = Some(PosteriorCovariance::of_refits(differences, vec![unit; outputs]));
    let unfinished = refits.iter().filter(|refit| !refit.converged).count();
    if unfinished > 0 {
        fitted.warnings.push(format!("{unfinished} of {count} refits stopped before they converged"));
    }
    Ok(fitted)
}

/// The entry about refits for the model card.
pub(super) fn bootstrap_fact(count: usize, seed: u64) -> CardEntry {
    CardEntry::new("refits to rows drawn anew", format!("{count} (seed {seed})"))
}

/// The rows of each class that have a positive weight.
pub(super) fn rows_by_class(labels: &[usize], classes: usize, weights: &[f64]) -> Vec<Vec<usize>> {
    let rows_of_class =
        |k: usize| (0..labels.len()).filter(|&r| labels[r] == k && weights[r] > 0.0).collect();
    (0..classes).map(rows_of_class).collect()
}

impl KernelRidge {
    /// Sampling variability of this regression, from `draws` refits to n rows that are drawn with replacement
    /// from the n rows. A row that is drawn twice has twice its weight. The result is for an
    /// `Explainer` or a [`Posterior`](riesz_core::Posterior) of the model that
    /// [`fit`](Self::fit) returns. A standard deviation from N draws has a relative standard error of about
    /// `1 / √(2N)`: 5 % for 200 draws. Cost: the gram matrix once, and a quarter of a fit per draw; memory: n
    /// numbers per draw and target.
    ///
    /// # Errors
    /// Those of [`fit`](Self::fit); [`Error::Parameter`] for fewer than two draws, and for an estimator with
    /// a further penalty, which refers to all rows.
    pub fn bootstrap(&self, x: &Table, y: &Matrix, draws: usize, seed: u64) -> Result<PosteriorCovariance> {
        self.bootstrap_until(x, y, draws, seed, RunControl::none())
    }

    /// [`bootstrap`](Self::bootstrap) with progress and cancellation: one step per draw.
    pub(super) fn bootstrap_until(
        &self,
        x: &Table,
        y: &Matrix,
        draws: usize,
        seed: u64,
        control: RunControl<'_>,
    ) -> Result<PosteriorCovariance> {
        self.check(x, y)?;
        if draws < 2 {
            return Err(Error::parameter("n_bootstrap", draws, "request at least 2 refits"));
        }
        if self.penalty.is_some() {
            return Err(Error::parameter("n_bootstrap", draws, PENALTY_CONFLICT));
        }
        let (gram, rows) = (self.kernel.gram(x), Vec::from_iter(0..x.rows()));
        let drawn = BootstrapPlan { strata: vec![rows.clone()], count: draws, seed };
        let refits = drawn.refits(x.rows(), control, |counts| {
            let (coef, intercept) = self.refit(&gram, y, &counts)?;
            Ok(BootstrapRefit { rows: rows.clone(), coef, intercept, converged: true })
        })?;
        let differences = refit_differences(&refits, &rows, seed);
        Ok(PosteriorCovariance::of_refits(differences, vec![1.0; y.cols()]))
    }

    /// Coefficients and intercepts of a fit in which row i has the multiplicity `counts[i]`.
    fn refit(&self, gram: &Matrix, y: &Matrix, counts: &[f64]) -> Result<(Matrix, Vec<f64>)> {
        let drawn_rows = positive_places(counts);
        let weights: Vec<f64> = drawn_rows.iter().map(|&i| counts[i] * self.weight(i)).collect();
        let estimator = Self { sample_weight: Some(weights), ..self.clone() };
        let (targets, intercept) = estimator.centered(&y.select_rows(&drawn_rows));
        let mut part = gram.select(&drawn_rows, &drawn_rows);
        part.add_diagonal(|i| self.ridge / estimator.weight(i));
        let solution = Cholesky::new(part, "gram matrix plus ridge")?.solve(targets);
        let mut coef = Matrix::zeros(counts.len(), y.cols());
        drawn_rows
            .iter()
            .enumerate()
            .for_each(|(position, &i)| coef.row_mut(i).copy_from_slice(solution.row(position)));
        Ok((coef, intercept))
    }
}

/// Subtracts the mean and divides by √(count - 1).
pub(super) fn center(numbers: &mut [f64]) {
    let count = numbers.len() as f64;
    let mean = mean(numbers);
    numbers.iter_mut().for_each(|v| *v = (*v - mean) / (count - 1.0).sqrt());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fit::{ModelKind, Target};
    use riesz::{Explainer, Game, Kernel, Posterior, Question};

    /// Covariances agree with refits of the estimator to resampled rows, and with explanations of these
    /// refits.
    #[test]
    fn covariances_are_those_of_refits() {
        let rows: Vec<[f64; 3]> =
            (0..25).map(|i| [1.0, 0.7, 0.3].map(|s| (f64::from(i) * s + s).sin() * 2.0)).collect();
        let x = Table::from_rows(&rows).unwrap();
        let y = rows.iter().flat_map(|r| [r[0] * r[1] + 3.0 * r[2] + 5.0, r[0] - r[1]]).collect();
        let y = Matrix::from_row_major(25, 2, y);
        let estimator = KernelRidge::new(Kernel::gaussian(&[1.0, 0.7, 2.0]), 0.3);
        let (draws, seed) = (7, 11);
        let covariance = estimator.bootstrap(&x, &y, draws, seed).unwrap();
        let model = estimator.fit(&x, &y).unwrap().model;
        let (background, new_rows) = (x.select_rows(&[1, 2, 3]), x.select_rows(&[4, 9]));
        let conditional = riesz::Conditioning::with_ridge(0.1).into();
        for game in [
            Game::Interventional { background: background.clone().into() },
            Game::Functional,
            Game::Observational { reference: background.into(), conditional },
        ] {
            let question = Question::from(game).with_covariance();
            let explainer =
                Explainer::new(&model, question.clone()).unwrap().with_posterior(Some(&covariance)).unwrap();
            let explained_rows = explainer.explain(&new_rows).unwrap();
            let (mut values, mut predicted) = (Vec::new(), Vec::new());
            for b in 0..draws {
                let times =
                    BootstrapPlan { strata: vec![(0..25).collect()], count: draws, seed }.counts(25, b);
                let drawn: Vec<usize> = (0..25).flat_map(|i| vec![i; times[i] as usize]).collect();
                let targets = drawn.iter().flat_map(|&i| y.row(i)).copied().collect();
                let fit =
                    estimator.fit(&x.select_rows(&drawn), &Matrix::from_row_major(25, 2, targets)).unwrap();
                let plain = Question { covariance: false, ..question.clone() };
                let explained = Explainer::new(&fit.model, plain).unwrap().explain(&new_rows).unwrap();
                values.push(explained.values);
                predicted.push(explained.predictions);
            }
            let joint = |draws_of_values: &[Vec<f64>], a: usize, b: usize| {
                let mean =
                    |position: usize| draws_of_values.iter().map(|v| v[position]).sum::<f64>() / draws as f64;
                let product = |v: &Vec<f64>| (v[a] - mean(a)) * (v[b] - mean(b));
                draws_of_values.iter().map(product).sum::<f64>() / (draws as f64 - 1.0)
            };
            for (i, o) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let (covariance_of_values, from) =
                    (explained_rows.covariance(i, o).unwrap(), (i * 2 + o) * 3);
                for (j, l) in (0..9).map(|cell| (cell / 3, cell % 3)) {
                    let truth = joint(&values, from + j, from + l);
                    assert!(
                        (covariance_of_values[j * 3 + l] - truth).abs() < 1e-9,
                        "{i} {o} {j} {l}: {} {truth}",
                        covariance_of_values[j * 3 + l]
                    );
                }
            }
            // Predictions include the variation of their intercepts.
            let sd = Posterior::new(&model, &covariance).unwrap().sd(&new_rows).unwrap();
            for cell in 0..4 {
                assert!((sd.data()[cell].powi(2) - joint(&predicted, cell, cell)).abs() < 1e-9);
            }
        }
    }

    /// Models with some of the rows as support points agree with fits to resampled rows.
    #[test]
    fn refits_of_all_kinds_are_fits_to_repeated_rows() {
        let n = 24;
        let rows: Vec<[f64; 2]> =
            (0..n).map(|i| [1.0, 0.7].map(|s| (i as f64 * s + s).sin() * 2.0)).collect();
        let x = Table::from_rows(&rows).unwrap();
        let numbers =
            Target::Numbers(Matrix::column_vector(rows.iter().map(|r| r[0] * r[1] + 3.0).collect()));
        let labels = |k: usize| -> Vec<usize> { (0..n).map(|i| (i * i + i / 5) % k).collect() };
        let classes = |k: usize| Target::Classes {
            labels: labels(k),
            classes: (0..k).map(|c| format!("class {c}")).collect(),
        };
        let settings = [
            ("svr", numbers, json!({"c": 2.0, "epsilon": 0.3, "normalize_y": false, "tol": 1e-10})),
            ("svc", classes(2), json!({"c": 2.0, "tol": 1e-10, "class_weight": "balanced"})),
            ("svc", classes(3), json!({"c": 2.0, "tol": 1e-10})),
            ("klr", classes(2), json!({"ridge": 0.3, "fixed_kernel": true})),
            ("klr", classes(3), json!({"ridge": 0.3, "class_weight": "balanced"})),
        ];
        let (draws, seed) = (6, 11);
        for (name, target, settings) in settings {
            let kind = ModelKind::named(name).unwrap();
            let fit = |x: &Table, target: Target, n_draws: Option<usize>| {
                let mut values = settings.as_object().unwrap().clone();
                values.extend(n_draws.map(|draws| ("n_bootstrap".to_string(), draws.into())));
                let mut task = FitTask::new(x, target, Kernel::gaussian(&[1.0, 0.7]));
                (task.settings, task.seed) = (kind.values(values).unwrap(), seed);
                kind.fit(&task).unwrap()
            };
            let (plain, bootstrapped) = (fit(&x, target.clone(), None), fit(&x, target.clone(), Some(draws)));
            assert!(plain.covariance.is_none());
            // The predictions are the same, with more support points.
            let new_rows = x.select_rows(&[4, 9]);
            let predicted = [&plain, &bootstrapped].map(|fit| fit.model.predict(&new_rows).unwrap());
            assert!(predicted[0].data().iter().zip(predicted[1].data()).all(|(a, b)| (a - b).abs() < 1e-12));
            let covariance = bootstrapped.covariance.unwrap();
            let question =
                Question::from(Game::Interventional { background: x.select_rows(&[1, 2, 3]).into() });
            let explainer = Explainer::new(&bootstrapped.model, question.clone().with_covariance()).unwrap();
            let explained_rows =
                explainer.with_posterior(Some(&covariance)).unwrap().explain(&new_rows).unwrap();
            let strata = match &target {
                Target::Numbers(_) => vec![(0..n).collect()],
                Target::Classes { labels, classes } => rows_by_class(labels, classes.len(), &vec![1.0; n]),
            };
            let refits: Vec<(Vec<f64>, Vec<f64>)> = (0..draws)
                .map(|b| {
                    let times = BootstrapPlan { strata: strata.clone(), count: draws, seed }.counts(n, b);
                    let drawn: Vec<usize> = (0..n).flat_map(|i| vec![i; times[i] as usize]).collect();
                    assert_eq!(drawn.len(), n);
                    let drawn_target = match &target {
                        Target::Numbers(y) => {
                            Target::Numbers(Matrix::column_vector(drawn.iter().map(|&i| y[(i, 0)]).collect()))
                        }
                        Target::Classes { labels, classes } => Target::Classes {
                            labels: drawn.iter().map(|&i| labels[i]).collect(),
                            classes: classes.clone(),
                        },
                    };
                    let refit = fit(&x.select_rows(&drawn), drawn_target, None).model;
                    let explained =
                        Explainer::new(&refit, question.clone()).unwrap().explain(&new_rows).unwrap();
                    (explained.values, explained.predictions)
                })
                .collect();
            let variance = |value_of_refit: &dyn Fn(usize) -> f64| {
                let mean = (0..draws).map(value_of_refit).sum::<f64>() / draws as f64;
                (0..draws).map(|b| (value_of_refit(b) - mean).powi(2)).sum::<f64>() / (draws as f64 - 1.0)
            };
            let sd = Posterior::new(&bootstrapped.model, &covariance).unwrap().sd(&new_rows).unwrap();
            for (g, actual) in sd.data().iter().enumerate() {
                let truth = variance(&|b| refits[b].1[g]).sqrt();
                assert!((actual - truth).abs() < 1e-6 * truth, "{name} {g}: {actual} {truth}");
            }
            for (v, actual) in explained_rows.sd().unwrap().iter().enumerate() {
                let truth = variance(&|b| refits[b].0[v]).sqrt();
                assert!((actual - truth).abs() < 1e-6 * truth, "{name} {v}: {actual} {truth}");
            }
        }
    }

    /// Standard deviations scale with the units of the target.
    #[test]
    fn deviations_are_in_units_of_the_target() {
        let rows: Vec<[f64; 1]> = (0..20).map(|i| [f64::from(i) * 0.4]).collect();
        let x = Table::from_rows(&rows).unwrap();
        let sd = |unit: f64| {
            let y = Matrix::column_vector(rows.iter().map(|r| unit * (r[0].sin() + 5.0)).collect());
            let mut task = FitTask::new(&x, Target::Numbers(y), Kernel::gaussian(&[1.0]));
            let kind = ModelKind::named("svr").unwrap();
            let values = json!({"n_bootstrap": 5, "tol": 1e-12}).as_object().unwrap().clone();
            task.settings = kind.values(values).unwrap();
            let fit = kind.fit(&task).unwrap();
            Posterior::new(&fit.model, fit.covariance.as_ref().unwrap())
                .unwrap()
                .sd(&x)
                .unwrap()
                .data()
                .to_vec()
        };
        let (unscaled, hundred) = (sd(1.0), sd(100.0));
        let size = hundred.iter().copied().fold(0.0, f64::max);
        assert!(size > 1.0 && unscaled.iter().zip(hundred).all(|(a, b)| (100.0 * a - b).abs() < 1e-6 * size));
    }

    #[test]
    fn the_number_of_threads_does_not_matter() {
        let x = Table::from_rows(&[[1.0], [2.0], [4.0], [7.0], [1.5]]).unwrap();
        let y = Matrix::column_vector(vec![1.0, 0.0, 2.0, 1.0, 3.0]);
        let estimator = KernelRidge::new(Kernel::gaussian(&[1.0]), 0.1);
        let find = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            format!("{:?}", pool.install(|| estimator.bootstrap(&x, &y, 20, 3).unwrap()))
        };
        assert_eq!(find(1), find(4));
        assert!(estimator.bootstrap(&x, &y, 1, 3).unwrap_err().to_string().contains("at least 2"));
    }
}
