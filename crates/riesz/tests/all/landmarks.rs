//! Differences between fits through landmarks and fits with all rows as support points, and their estimates.

use riesz::explanation::UncertaintySource;
use riesz::fit::nystrom::{
    Classifier, DataPass, DataSurvey, FitPlan, FitState, GpTuning, InitialData, InitialInput, Job, Kind,
    LabelledRows, LandmarkChoice, Model, RidgeSolution, RidgeSpec, Solver, Statistics,
};
use riesz::fit::{FittedModel, GaussianProcess, KernelLogisticRegression, TunedParameters};
use riesz::linalg::Cholesky;
use riesz::{Explainer, Game, Kernel, KernelExpansion, Matrix, Posterior, Question};

use crate::common::Stream;

struct Case {
    rows: usize,
    columns: usize,
    length_scale: f64,
    ridge: f64,
    landmarks: usize,
    noise: f64,
    weighted: bool,
}

/// Returns the minimiser over all functions and a constant, in dense form.
fn dense(rows: &LabelledRows, kernel: &Kernel, ridge: f64) -> KernelExpansion {
    let (n, t) = (rows.len(), rows.y.cols());
    let mut matrix = kernel.gram(&rows.x);
    for i in 0..n {
        matrix[(i, i)] += ridge / rows.weights.as_ref().map_or(1.0, |w| w[i]);
    }
    let factor = Cholesky::new(matrix, "gram").unwrap();
    let ones_solution = factor.solve_vector(&vec![1.0; n]);
    let mut coef = factor.solve(rows.y.clone());
    let total: f64 = ones_solution.iter().sum();
    let mut intercept = Vec::new();
    for o in 0..t {
        let shift = coef.column(o).iter().sum::<f64>() / total;
        (0..n).for_each(|i| coef[(i, o)] -= shift * ones_solution[i]);
        intercept.push(shift);
    }
    KernelExpansion::new(kernel.clone(), rows.x.clone(), coef, intercept).unwrap()
}

/// Returns the root mean square difference, and the share of differences within ± 1.96 standard deviations.
fn rms_and_coverage(full: &[f64], approximate: &[f64], sd: &[f64]) -> (f64, f64) {
    let n = full.len() as f64;
    let differences: Vec<f64> = full.iter().zip(approximate).map(|(a, b)| (a - b).abs()).collect();
    let n_covered = differences.iter().zip(sd).filter(|(difference, sd)| **difference <= 1.96 * **sd).count();
    ((differences.iter().map(|v| v * v).sum::<f64>() / n).sqrt(), n_covered as f64 / n)
}

impl Case {
    /// Random rows with two noisy outputs, sums of waves.
    fn rows(&self, s: &mut Stream) -> LabelledRows {
        let (n, d) = (self.rows, self.columns);
        let x = s.normals(n, d);
        let waves = s.normals(8, d);
        let truth = |row: &[f64]| -> f64 {
            let along = |w: usize| -> f64 { row.iter().zip(waves.row(w)).map(|(x, w)| x * w).sum() };
            (0..8).map(|w| (2.0 * along(w) / (d as f64).sqrt()).sin()).sum()
        };
        let noise = s.normals(n, 2);
        let y = (0..n).flat_map(|i| {
            let (row, noise) = (x.row(i), noise.row(i));
            [truth(&row) + self.noise * noise[0], 100.0 + 20.0 * row[0].cos() + 10.0 * self.noise * noise[1]]
        });
        let y = Matrix::from_row_major(n, 2, y.collect());
        let weights = self.weighted.then(|| (0..n).map(|_| 1.3 + s.signed()).collect());
        LabelledRows::new(x, y, weights).unwrap()
    }
}

/// Smooth and rough functions, few and many columns, weak and strong ridges. Intervals of 95 % cover
/// predictions and Shapley values in at least 85 % of each case, and in 95 % on average. Distances have the
/// estimated size, or are smaller where fits converge fast, while they differ by a factor of forty between
/// cases.
#[test]
fn intervals_cover_the_landmark_error() {
    let case = |columns, length_scale, ridge, landmarks, noise, weighted| Case {
        rows: 1200,
        columns,
        length_scale,
        ridge,
        landmarks,
        noise,
        weighted,
    };
    let cases = [
        case(2, 1.0, 0.1, 60, 0.3, false),
        case(3, 1.5, 1.0, 120, 0.3, true),
        case(5, 2.0, 3.0, 120, 0.3, false),
        case(5, 2.0, 0.3, 320, 0.5, true),
        case(9, 3.0, 0.1, 150, 0.5, false),
        case(9, 3.0, 10.0, 100, 0.5, false),
        case(14, 4.0, 30.0, 80, 0.5, true),
    ];
    let (mut shares, mut ratios, mut smallest, mut largest) =
        (Vec::new(), Vec::new(), f64::INFINITY, 0.0_f64);
    for (seed, case) in cases.iter().enumerate() {
        let d = case.columns;
        let mut s = Stream(seed as u64 + 40);
        let rows = case.rows(&mut s);
        let kernel = Kernel::gaussian(&vec![case.length_scale; d]);

        let choice = LandmarkChoice { landmarks: case.landmarks, folds: 1, centered: true, seed: 1 };
        let mut survey = DataSurvey::new(rows.x.columns(), 2, case.weighted, choice.candidates(), 1);
        survey.add(&rows).unwrap();
        let plan = FitPlan::new(&survey, kernel.clone(), Model::Ridge, choice).unwrap();
        let statistics = Statistics::from_rows(&plan, &rows, 0).unwrap();
        let penalties = RidgeSpec { ridges: vec![case.ridge], intercept: true };
        let solution = RidgeSolution::new(&plan, statistics, &penalties).unwrap();
        let (model, missing) = (solution.model().unwrap(), solution.missing().unwrap());
        let (distance, covariance) = (&missing.distances, &missing.covariance);
        let full = dense(&rows, &kernel, case.ridge);

        let new = s.normals(400, d);
        let posterior = Posterior::new(&model, covariance).unwrap();
        assert_eq!(posterior.source(), UncertaintySource::Landmarks { doublings: 4 });
        let sd = posterior.sd(&new).unwrap();
        let (prediction, truth) = (model.predict(&new).unwrap(), full.predict(&new).unwrap());
        for o in 0..2 {
            let (rms, share) = rms_and_coverage(&truth.column(o), &prediction.column(o), &sd.column(o));
            let ratio = rms / distance[o];
            shares.push(share);
            ratios.push(ratio);
            assert!(share > 0.85 && ratio < 1.6, "case {seed}, output {o}: {share} within, {ratio}");
            (smallest, largest) = (smallest.min(distance[o]), largest.max(distance[o]));
        }

        let background = new.select_rows(&(0..12).collect::<Vec<_>>());
        let explained_rows = new.select_rows(&(20..80).collect::<Vec<_>>());
        let question = Question::from(Game::Interventional { background: background.into() });
        let explained = |model: &KernelExpansion| {
            Explainer::new(model, question.clone()).unwrap().explain(&explained_rows).unwrap()
        };
        let explainer = Explainer::new(&model, question.clone().with_covariance()).unwrap();
        let known = explainer.with_posterior(Some(covariance)).unwrap().explain(&explained_rows).unwrap();
        let (_, share) = rms_and_coverage(&explained(&full).values, &known.values, &known.sd().unwrap());
        shares.push(share);
        assert!(share > 0.85, "case {seed}: {share} of Shapley values within");
    }
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean > 0.95, "{mean} {shares:?}");
    ratios.sort_by(f64::total_cmp);
    assert!(ratios[0] > 0.003 && ratios[ratios.len() / 2] > 0.15, "{ratios:?}");
    assert!(largest > 20.0 * smallest, "{smallest} {largest}");
}

/// Fits rows in memory through landmarks.
fn fit_landmarks(job: &Job, kernel: &Kernel, rows: &LabelledRows) -> (FitPlan, FittedModel) {
    let mut survey = job.survey(rows.x.columns(), rows.y.cols(), rows.weights.is_some());
    survey.add(rows).unwrap();
    let plan = job.plan(&survey, job.tuned(&survey, kernel.clone()).unwrap()).unwrap();
    let statistics;
    let beginning = match plan.needs() {
        InitialData::Statistics => {
            statistics = Statistics::from_rows(&plan, rows, 0).unwrap();
            InitialInput::Statistics(statistics.clone())
        }
        InitialData::Survey => InitialInput::Survey(&survey),
        InitialData::Nothing => InitialInput::Nothing,
    };
    let mut fitting = FitState::new(&plan, job, beginning).unwrap();
    while let Some(coefficients) = fitting.next_coefficients().cloned() {
        fitting.apply_pass(&DataPass::from_rows(&plan, &coefficients, rows, 0).unwrap()).unwrap();
    }
    let fitted = fitting.fitted().unwrap();
    (plan, fitted)
}

/// Returns a number of the model card.
fn card_value(fitted: &FittedModel, name: &str) -> f64 {
    let entry = fitted.model.model_card.iter().find(|fact| fact.name.starts_with(name)).unwrap();
    entry.value.parse().unwrap()
}

/// Returns the estimated distance from the model card.
fn estimated(fitted: &FittedModel) -> f64 {
    card_value(fitted, "distance from all rows")
}

/// Returns rows of five columns whose target is a sum of waves plus noise.
fn waves(n: usize, noise: f64, seed: u64) -> LabelledRows {
    let mut s = Stream(seed);
    let (x, ways, errors) = (s.normals(n, 5), s.normals(6, 5), s.normals(n, 1));
    let y = (0..n).map(|i| {
        let along = |w: usize| -> f64 { x.row(i).iter().zip(ways.row(w)).map(|(x, w)| x * w).sum() };
        (0..6).map(|w| (0.9 * along(w)).sin()).sum::<f64>() + noise * errors.get(i, 0)
    });
    let y = Matrix::column_vector(y.collect());
    LabelledRows::new(x, y, None).unwrap()
}

/// Coverage of landmark errors of logistic regression, against the dense fit; the curvature defines the inner
/// product.
#[test]
fn intervals_cover_the_landmark_error_of_classifiers() {
    let (mut shares, mut ratios) = (Vec::new(), Vec::new());
    for (seed, (ridge, landmarks, length_scale)) in
        [(0.3, 60, 2.0), (1.0, 120, 2.0), (3.0, 60, 1.5), (0.1, 200, 3.0)].into_iter().enumerate()
    {
        let mut rows = waves(1000, 0.5, 70 + seed as u64);
        rows.y.data_mut().iter_mut().for_each(|y| *y = f64::from(u8::from(*y > 0.2)));
        let labels: Vec<usize> = rows.y.data().iter().map(|y| *y as usize).collect();
        let names = ["no".to_string(), "yes".to_string()];
        let kernel = Kernel::gaussian(&[length_scale; 5]);
        let kind = Kind::Classes { names: names.to_vec(), classifier: Classifier::Regression };
        let job = Job { ridge: Some(ridge), corrections: 0, kind, ..Job::new(landmarks) };
        let (_, fitted) = fit_landmarks(&job, &kernel, &rows);
        let full = KernelLogisticRegression::new(kernel, ridge).fit(&rows.x, &labels, &names).unwrap().model;
        let new = Stream(seed as u64).normals(300, 5);
        let posterior = Posterior::new(&fitted.model, fitted.covariance.as_ref().unwrap()).unwrap();
        assert_eq!(posterior.source(), UncertaintySource::Landmarks { doublings: 4 });
        let (prediction, truth, sd) =
            (fitted.model.predict(&new).unwrap(), full.predict(&new).unwrap(), posterior.sd(&new).unwrap());
        let (rms, share) = rms_and_coverage(truth.data(), prediction.data(), sd.data());
        assert!(share > 0.85, "case {seed}: {share} within");
        shares.push(share);
        ratios.push(rms / estimated(&fitted));
    }
    assert!(shares.iter().sum::<f64>() / 4.0 > 0.93, "{shares:?}");
    assert!(ratios.iter().all(|ratio| (0.05..1.6).contains(ratio)), "{ratios:?}");
}

/// The landmark error of the mean of a Gaussian process is within `√(2 KL)` standard deviations of the dense
/// mean.
#[test]
fn the_landmark_error_of_a_process_is_bounded() {
    let mut ratios = Vec::new();
    for (seed, (noise, landmarks)) in [(0.5, 60), (0.5, 150), (0.1, 300)].into_iter().enumerate() {
        let rows = waves(800, 0.5, 80 + seed as u64);
        let kernel = Kernel::gaussian(&[2.0; 5]);
        let learning = GpTuning { noise, tune: TunedParameters::Nothing, normalize_y: false, restarts: 0 };
        let job = Job { kind: Kind::Process(learning), corrections: 0, ..Job::new(landmarks) };
        let (_, fitted) = fit_landmarks(&job, &kernel, &rows);
        let mut dense = GaussianProcess::new(kernel, noise);
        (dense.tune, dense.normalize_y) = (TunedParameters::Nothing, false);
        let dense = dense.fit(&rows.x, &rows.y).unwrap();
        let new = Stream(seed as u64).normals(300, 5);
        let (prediction, truth) = (fitted.model.predict(&new).unwrap(), dense.model.predict(&new).unwrap());
        let sd = dense.posterior().sd(&new).unwrap();
        let (rms, _) = rms_and_coverage(truth.data(), prediction.data(), sd.data());
        ratios.push(rms / estimated(&fitted));
        let widest = (2.002 * card_value(&fitted, "divergence")).sqrt();
        for i in 0..300 {
            assert!(
                (prediction[(i, 0)] - truth[(i, 0)]).abs() <= widest * sd[(i, 0)],
                "case {seed}, row {i}"
            );
        }
        let (evidence, upper) = (dense.log_marginal_likelihood, card_value(&fitted, "evidence upper"));
        assert!(
            fitted.log_marginal_likelihood.unwrap() <= evidence && evidence <= upper + 1e-3 * upper.abs()
        );
    }
    assert!(ratios.iter().all(|ratio| (0.1..1.6).contains(ratio)), "{ratios:?}");
}

/// Conjugate gradients estimate about the same landmark error as the direct solution, from a sample of rows.
#[test]
fn intervals_cover_the_error_of_conjugate_gradients() {
    let mut shares = Vec::new();
    for (seed, (ridge, landmarks)) in [(0.3, 60), (3.0, 120), (1.0, 100)].into_iter().enumerate() {
        let rows = waves(1500, 0.5, 90 + seed as u64);
        let kernel = Kernel::gaussian(&[2.0; 5]);
        let fit_with = |solver| {
            let job =
                Job { ridge: Some(ridge), fixed_kernel: true, solver: Some(solver), ..Job::new(landmarks) };
            fit_landmarks(&job, &kernel, &rows).1
        };
        let (iterative, direct) = (fit_with(Solver::Cg), fit_with(Solver::Direct));
        let ratio = estimated(&iterative) / estimated(&direct);
        assert!((0.7..1.4).contains(&ratio), "case {seed}: {ratio}");
        let new = Stream(seed as u64).normals(300, 5);
        let sd = Posterior::new(&iterative.model, iterative.covariance.as_ref().unwrap())
            .unwrap()
            .sd(&new)
            .unwrap();
        let (prediction, truth) =
            (iterative.model.predict(&new).unwrap(), dense(&rows, &kernel, ridge).predict(&new).unwrap());
        shares.push(rms_and_coverage(truth.data(), prediction.data(), sd.data()).1);
    }
    assert!(
        shares.iter().all(|share| *share > 0.85) && shares.iter().sum::<f64>() / 3.0 > 0.93,
        "{shares:?}"
    );
}
