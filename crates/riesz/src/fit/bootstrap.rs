//! How far a model varies from sample to sample, where it has no posterior: refits to rows drawn anew from
//! its own (the bootstrap, Efron 1979).
//!
//! A refit has its points among the same rows, and other coefficients, so that everything linear in f, its
//! Shapley values too, is found for all refits by one functional a row: a [`Covariance`](crate::Covariance)
//! like that of a posterior. It says how far values would vary if rows were drawn anew from where these came
//! from, at this kernel and these settings; neither how wrong the model is on average (penalties shrink), nor
//! what choosing kernel and settings adds. Of classifiers rows are drawn class by class, as many as the class
//! has, so that every refit knows all classes: how many rows a class has is taken for granted.

use rayon::prelude::*;

use super::KernelRidge;
use super::task::{FitTask, FittedModel};
use crate::control::RunControl;
use crate::error::{Error, Result};
use crate::explanation::Fact;
use crate::kernel_model::KernelExpansion;
use crate::linalg::{Cholesky, Matrix};
use crate::posterior::{PosteriorCovariance, Refitted, VarianceReduction};
use crate::random::{Random, RngExt, SeedableRng, hash};
use crate::setting_schema::{Range, Setting};
use crate::table::Table;

pub(super) const BOOTSTRAP: Setting = Setting {
    name: "bootstrap",
    placeholder: "N",
    range: Range::Count(2),
    bare: None,
    help: "Also fit N times to rows drawn anew from the table (of classifiers class by class), with the \
           seed, to say how far values and predictions vary from sample to sample ('explain --covariance'; \
           keep it in the file with --posterior)",
};

/// Why there are no refits under a further penalty.
pub(super) const PENALTY_CONFLICT: &str =
    "protected features are protected at all rows, of which a refit lacks some: leave one of the two out";

/// Rows drawn anew, refit by refit.
pub(super) struct BootstrapPlan {
    /// Rows that are drawn from together, each list as often as it is long.
    pub(super) strata: Vec<Vec<usize>>,
    pub(super) count: usize,
    pub(super) seed: u64,
}

/// What a refit found.
pub(super) struct BootstrapRefit {
    /// Its points, rows of the table.
    pub(super) rows: Vec<usize>,
    /// Rows × outputs.
    pub(super) coef: Matrix,
    /// One an output.
    pub(super) intercept: Vec<f64>,
    pub(super) converged: bool,
}

impl BootstrapRefit {
    /// Of a model whose points are these rows.
    pub(super) fn of(rows: Vec<usize>, model: KernelExpansion, converged: bool) -> Self {
        Self { rows, coef: model.coef, intercept: model.intercept, converged }
    }
}

impl BootstrapPlan {
    /// How often each of n rows is drawn, for one refit.
    fn counts(&self, n: usize, refit: usize) -> Vec<f64> {
        let mut random = Random::seed_from_u64(hash([self.seed, refit as u64]));
        let mut counts = vec![0.0; n];
        for rows in &self.strata {
            (0..rows.len())
                .for_each(|_| counts[rows[random.random_range(0..rows.len() as u32) as usize]] += 1.0);
        }
        counts
    }

    /// All refits to n rows, by how often each counts; a step each.
    fn refits(
        &self,
        n: usize,
        watch: RunControl<'_>,
        refit: impl Fn(Vec<f64>) -> Result<BootstrapRefit> + Sync,
    ) -> Result<Vec<BootstrapRefit>> {
        crate::memory::check_allocation("bootstrap", self.count, 2 * n)?;
        let one = |b: usize| {
            watch.check_cancelled()?;
            let found = refit(self.counts(n, b));
            watch.step();
            found
        };
        (0..self.count).into_par_iter().map(one).collect()
    }
}

/// How far refits differ, over points that are these rows, ascending; for each output.
fn refit_differences(refits: &[BootstrapRefit], rows: &[usize], seed: u64) -> Vec<VarianceReduction> {
    let outputs = refits.first().map_or(0, |one| one.intercept.len());
    let known = |o: usize| {
        let (mut coef, mut intercept) = (Matrix::zeros(rows.len(), refits.len()), vec![0.0; refits.len()]);
        for (b, own) in refits.iter().enumerate() {
            scatter(own, o, rows, |i, value| coef[(i, b)] = value);
            intercept[b] = own.intercept[o];
        }
        (0..rows.len()).for_each(|i| center(coef.row_mut(i)));
        center(&mut intercept);
        VarianceReduction::RefitDifferences { coef, intercept, of: Refitted::Drawn { seed } }
    };
    (0..outputs).map(known).collect()
}

/// Hands over a refit's coefficients by their places among `rows`.
fn scatter(refit: &BootstrapRefit, o: usize, rows: &[usize], mut put: impl FnMut(usize, f64)) {
    for (at, row) in refit.rows.iter().enumerate() {
        if let Ok(i) = rows.binary_search(row) {
            put(i, refit.coef[(at, o)]);
        }
    }
}

/// A fit with what its refits say, where a task asks for them. `rows` are the model's points and `strata`
/// what is drawn from; a refit is told how often rows count, and varies in units of `unit`. The model is the
/// same, over the points of all refits.
pub(super) fn run_refits(
    task: &FitTask<'_>,
    mut fitted: FittedModel,
    rows: Vec<usize>,
    strata: Vec<Vec<usize>>,
    unit: f64,
    refit: impl Fn(Vec<f64>) -> Result<BootstrapRefit> + Sync,
) -> Result<FittedModel> {
    let Some(count) = task.settings.count(BOOTSTRAP.name) else { return Ok(fitted) };
    task.progress.start(count);
    let draws = BootstrapPlan { strata, count, seed: task.seed };
    let refits = draws.refits(task.x.rows(), task.watch(), refit)?;
    let mut all: Vec<usize> = refits.iter().flat_map(|own| &own.rows).chain(&rows).copied().collect();
    all.sort_unstable();
    all.dedup();
    let model = &mut fitted.model;
    let (mut coef, outputs) = (Matrix::zeros(all.len(), model.outputs()), model.outputs());
    let own = BootstrapRefit { rows, coef: model.coef.clone(), intercept: Vec::new(), converged: true };
    (0..outputs).for_each(|o| scatter(&own, o, &all, |i, value| coef[(i, o)] = value));
    (model.support_points, model.coef) = (task.x.select_rows(&all), coef);
    model.model_card.push(bootstrap_fact(count, task.seed));
    fitted.covariance = Some(PosteriorCovariance {
        prior_scale: 0.0,
        skew_swap: None,
        reduction: refit_differences(&refits, &all, task.seed),
        scale: vec![unit; outputs],
    });
    let unfinished = refits.iter().filter(|own| !own.converged).count();
    if unfinished > 0 {
        fitted.warnings.push(format!("{unfinished} of {count} refits stopped before they converged"));
    }
    Ok(fitted)
}

/// What the model's card says of refits.
pub(super) fn bootstrap_fact(count: usize, seed: u64) -> Fact {
    Fact::new("refits to rows drawn anew", format!("{count} (seed {seed})"))
}

/// The rows of each class that weigh something.
pub(super) fn rows_by_class(labels: &[usize], classes: usize, weights: &[f64]) -> Vec<Vec<usize>> {
    let of = |k: usize| (0..labels.len()).filter(|&r| labels[r] == k && weights[r] > 0.0).collect();
    (0..classes).map(of).collect()
}

impl KernelRidge {
    /// How far this regression varies, from `draws` refits to as many rows as there are, drawn with
    /// replacement: rows that are drawn twice weigh twice. For an
    /// [`Explainer`](crate::Explainer::with_posterior) or a [`Posterior`](crate::Posterior) of the model that
    /// [`fit`](Self::fit) gives. A standard deviation from N draws has itself a relative error of about
    /// `1 / √(2N)`: 5 % of 200. Cost: the gram matrix once, and a quarter of a fit a draw; memory n numbers a
    /// draw and target.
    ///
    /// # Errors
    /// As [`fit`](Self::fit); [`Error::Parameter`] for less than two draws, and with a further penalty, which
    /// is one on all rows.
    pub fn bootstrap(&self, x: &Table, y: &Matrix, draws: usize, seed: u64) -> Result<PosteriorCovariance> {
        self.bootstrap_until(x, y, draws, seed, RunControl::nobody())
    }

    /// As [`bootstrap`](Self::bootstrap), a step a draw.
    pub(super) fn bootstrap_until(
        &self,
        x: &Table,
        y: &Matrix,
        draws: usize,
        seed: u64,
        watch: RunControl<'_>,
    ) -> Result<PosteriorCovariance> {
        self.check(x, y)?;
        if draws < 2 {
            return Err(Error::parameter("bootstrap", draws, "at least 2 refits"));
        }
        if self.penalty.is_some() {
            return Err(Error::parameter("bootstrap", draws, PENALTY_CONFLICT));
        }
        let (gram, all) = (self.kernel.gram(x), Vec::from_iter(0..x.rows()));
        let drawn = BootstrapPlan { strata: vec![all.clone()], count: draws, seed };
        let refits = drawn.refits(x.rows(), watch, |counts| {
            let (coef, intercept) = self.refit(&gram, y, &counts)?;
            Ok(BootstrapRefit { rows: all.clone(), coef, intercept, converged: true })
        })?;
        Ok(PosteriorCovariance {
            prior_scale: 0.0,
            skew_swap: None,
            reduction: refit_differences(&refits, &all, seed),
            scale: vec![1.0; y.cols()],
        })
    }

    /// Coefficients and intercepts where rows are there so many times.
    fn refit(&self, gram: &Matrix, y: &Matrix, counts: &[f64]) -> Result<(Matrix, Vec<f64>)> {
        let there: Vec<usize> = (0..counts.len()).filter(|&i| counts[i] > 0.0).collect();
        let weights: Vec<f64> = there.iter().map(|&i| counts[i] * self.weight(i)).collect();
        let rows = there.iter().flat_map(|&i| y.row(i)).copied().collect();
        let own = Self { sample_weight: Some(weights), ..self.clone() };
        let (targets, intercept) = own.centred(&Matrix::from_row_major(there.len(), y.cols(), rows));
        let of = |&i: &usize| there.iter().map(move |&j| (i, j)).collect::<Vec<_>>();
        let entries = there.iter().flat_map(of).map(|at| gram[at]).collect();
        let mut part = Matrix::from_row_major(there.len(), there.len(), entries);
        part.add_diagonal(|i| self.ridge / own.weight(i));
        let found = Cholesky::new(part, "gram matrix plus ridge")?.solve(targets);
        let mut coef = Matrix::zeros(counts.len(), y.cols());
        there.iter().enumerate().for_each(|(at, &i)| coef.row_mut(i).copy_from_slice(found.row(at)));
        Ok((coef, intercept))
    }
}

/// Numbers less their mean, over the root of one less than their number.
pub(super) fn center(numbers: &mut [f64]) {
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    numbers.iter_mut().for_each(|v| *v = (*v - mean) / (count - 1.0).sqrt());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fit::{ModelKind, Target};
    use crate::{Explainer, Game, Kernel, Posterior, Question};

    /// Against refits of the estimator itself to repeated rows, and explanations of each.
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
        let (background, few) = (x.select_rows(&[1, 2, 3]), x.select_rows(&[4, 9]));
        let conditional = crate::Conditioning::with_ridge(0.1).into();
        for game in [
            Game::Interventional { background: background.clone().into() },
            Game::Functional,
            Game::Observational { reference: background.into(), conditional },
        ] {
            let question = Question::from(game).with_covariance();
            let explainer =
                Explainer::new(&model, question.clone()).unwrap().with_posterior(Some(&covariance)).unwrap();
            let found = explainer.explain(&few).unwrap();
            let (mut values, mut predicted) = (Vec::new(), Vec::new());
            for b in 0..draws {
                let times =
                    BootstrapPlan { strata: vec![(0..25).collect()], count: draws, seed }.counts(25, b);
                let drawn: Vec<usize> = (0..25).flat_map(|i| vec![i; times[i] as usize]).collect();
                let targets = drawn.iter().flat_map(|&i| y.row(i)).copied().collect();
                let fit =
                    estimator.fit(&x.select_rows(&drawn), &Matrix::from_row_major(25, 2, targets)).unwrap();
                let plain = Question { covariance: false, ..question.clone() };
                let explained = Explainer::new(&fit.model, plain).unwrap().explain(&few).unwrap();
                values.push(explained.values);
                predicted.push(explained.predictions);
            }
            let joint = |all: &[Vec<f64>], a: usize, b: usize| {
                let mean = |at: usize| all.iter().map(|v| v[at]).sum::<f64>() / draws as f64;
                let product = |v: &Vec<f64>| (v[a] - mean(a)) * (v[b] - mean(b));
                all.iter().map(product).sum::<f64>() / (draws as f64 - 1.0)
            };
            for (i, o) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let (own, from) = (found.covariance(i, o).unwrap(), (i * 2 + o) * 3);
                for (j, l) in (0..9).map(|at| (at / 3, at % 3)) {
                    let truth = joint(&values, from + j, from + l);
                    assert!(
                        (own[j * 3 + l] - truth).abs() < 1e-9,
                        "{i} {o} {j} {l}: {} {truth}",
                        own[j * 3 + l]
                    );
                }
            }
            // Predictions vary with their intercepts.
            let sd = Posterior::new(&model, &covariance).unwrap().sd(&few).unwrap();
            for at in 0..4 {
                assert!((sd.data()[at].powi(2) - joint(&predicted, at, at)).abs() < 1e-9);
            }
        }
    }

    /// Models whose points are some of the rows, against fits to repeated rows by name.
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
            let fit = |x: &Table, target: Target, more: Option<usize>| {
                let mut given = settings.as_object().unwrap().clone();
                given.extend(more.map(|draws| ("bootstrap".to_string(), draws.into())));
                let mut task = FitTask::new(x, target, Kernel::gaussian(&[1.0, 0.7]));
                (task.settings, task.seed) = (kind.values(given).unwrap(), seed);
                kind.fit(&task).unwrap()
            };
            let (plain, sure) = (fit(&x, target.clone(), None), fit(&x, target.clone(), Some(draws)));
            assert!(plain.covariance.is_none());
            // The same model, over more points.
            let few = x.select_rows(&[4, 9]);
            let predicted = [&plain, &sure].map(|fit| fit.model.predict(&few).unwrap());
            assert!(predicted[0].data().iter().zip(predicted[1].data()).all(|(a, b)| (a - b).abs() < 1e-12));
            let covariance = sure.covariance.unwrap();
            let question =
                Question::from(Game::Interventional { background: x.select_rows(&[1, 2, 3]).into() });
            let explainer = Explainer::new(&sure.model, question.clone().with_covariance()).unwrap();
            let found = explainer.with_posterior(Some(&covariance)).unwrap().explain(&few).unwrap();
            let strata = match &target {
                Target::Numbers(_) => vec![(0..n).collect()],
                Target::Classes { labels, classes } => rows_by_class(labels, classes.len(), &vec![1.0; n]),
            };
            let all: Vec<(Vec<f64>, Vec<f64>)> = (0..draws)
                .map(|b| {
                    let times = BootstrapPlan { strata: strata.clone(), count: draws, seed }.counts(n, b);
                    let drawn: Vec<usize> = (0..n).flat_map(|i| vec![i; times[i] as usize]).collect();
                    assert_eq!(drawn.len(), n);
                    let own = match &target {
                        Target::Numbers(y) => {
                            Target::Numbers(Matrix::column_vector(drawn.iter().map(|&i| y[(i, 0)]).collect()))
                        }
                        Target::Classes { labels, classes } => Target::Classes {
                            labels: drawn.iter().map(|&i| labels[i]).collect(),
                            classes: classes.clone(),
                        },
                    };
                    let refit = fit(&x.select_rows(&drawn), own, None).model;
                    let explained = Explainer::new(&refit, question.clone()).unwrap().explain(&few).unwrap();
                    (explained.values, explained.predictions)
                })
                .collect();
            let variance = |of: &dyn Fn(usize) -> f64| {
                let mean = (0..draws).map(of).sum::<f64>() / draws as f64;
                (0..draws).map(|b| (of(b) - mean).powi(2)).sum::<f64>() / (draws as f64 - 1.0)
            };
            let sd = Posterior::new(&sure.model, &covariance).unwrap().sd(&few).unwrap();
            for (g, own) in sd.data().iter().enumerate() {
                let truth = variance(&|b| all[b].1[g]).sqrt();
                assert!((own - truth).abs() < 1e-6 * truth, "{name} {g}: {own} {truth}");
            }
            for (v, own) in found.sd().unwrap().iter().enumerate() {
                let truth = variance(&|b| all[b].0[v]).sqrt();
                assert!((own - truth).abs() < 1e-6 * truth, "{name} {v}: {own} {truth}");
            }
        }
    }

    /// In the target's units, whichever it is learnt in.
    #[test]
    fn deviations_are_in_units_of_the_target() {
        let rows: Vec<[f64; 1]> = (0..20).map(|i| [f64::from(i) * 0.4]).collect();
        let x = Table::from_rows(&rows).unwrap();
        let sd = |unit: f64| {
            let y = Matrix::column_vector(rows.iter().map(|r| unit * (r[0].sin() + 5.0)).collect());
            let mut task = FitTask::new(&x, Target::Numbers(y), Kernel::gaussian(&[1.0]));
            let kind = ModelKind::named("svr").unwrap();
            let given = json!({"bootstrap": 5, "tol": 1e-12}).as_object().unwrap().clone();
            task.settings = kind.values(given).unwrap();
            let fit = kind.fit(&task).unwrap();
            Posterior::new(&fit.model, fit.covariance.as_ref().unwrap())
                .unwrap()
                .sd(&x)
                .unwrap()
                .data()
                .to_vec()
        };
        let (one, hundred) = (sd(1.0), sd(100.0));
        let size = hundred.iter().copied().fold(0.0, f64::max);
        assert!(size > 1.0 && one.iter().zip(hundred).all(|(a, b)| (100.0 * a - b).abs() < 1e-6 * size));
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
