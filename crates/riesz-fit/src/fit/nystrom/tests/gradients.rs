//! Conjugate gradients against double-double least squares, and against the same fits in other orders.

use super::*;

/// A plan of conjugate gradients, with its survey.
fn by_gradients(
    data: &LabelledRows,
    kernel: &Kernel,
    (landmarks, ridge): (usize, f64),
    limit: usize,
    quick: bool,
) -> (FitPlan, DataSurvey) {
    let choice = LandmarkChoice { landmarks, folds: 1, centered: true, seed: 3 };
    let survey = surveyed(data, limit);
    let model = Model::Gradients { ridge, survey: survey.digest(), sampled: limit, quick };
    (FitPlan::new(&survey, kernel.clone(), model, choice).unwrap(), survey)
}

/// The solution after passes over parts of the rows.
fn descended(
    plan: &FitPlan,
    survey: &DataSurvey,
    data: &LabelledRows,
    intercept: bool,
    tolerance: f64,
    parts: &[usize],
) -> FitState {
    let job = Job { intercept, tolerance, ..Job::new(plan.landmarks.rows()) };
    let mut fitting = FitState::new(plan, &job, InitialInput::Survey(survey)).unwrap();
    while let Some(coefficients) = fitting.next_coefficients().cloned() {
        fitting.apply_pass(&pass_in_parts(plan, &coefficients, data, parts)).unwrap();
    }
    assert!(fitting.has_model());
    fitting
}

/// Conjugate gradients end at the fit in double-double arithmetic, within the certificate and the tolerance.
/// The cases have weak and strong ridges, weights, two targets of which one is a thousand times as far from
/// 0, and fits with and without an intercept.
#[test]
fn conjugate_gradients_end_at_the_exact_fit() {
    for (case, (weighted, intercept, ridge)) in
        [(false, true, 0.1), (true, true, 1e-2), (true, false, 0.5), (false, false, 1e-3)]
            .into_iter()
            .enumerate()
    {
        let data = rows(900, 3, 2, weighted, case as u64);
        let kernel = 2.0 * Kernel::gaussian(&[0.8, 1.0, 1.2]);
        let new = rows(40, 3, 2, weighted, 99).x;
        let mut passes = Vec::new();
        for (tolerance, quick) in [(1e-2, true), (1e-6, false)] {
            let (plan, survey) = by_gradients(&data, &kernel, (60, ridge), 240, quick);
            let truth = exact(&plan, &data, ridge, intercept, &new);
            let fitting = descended(&plan, &survey, &data, intercept, tolerance, &[900]);
            let solution = fitting.solution().unwrap();
            let predictions = solution.model().unwrap().predict(&new).unwrap();
            let bounds = solution.bounds(&new).unwrap().expect("a certificate");
            let errors = solution.training_error().unwrap();
            for i in 0..40 {
                for o in 0..2 {
                    let (distance, error) = ((predictions[(i, o)] - truth[i][o]).abs(), errors[o].sqrt());
                    let rounding = 1e-13 * (1000.0 + truth[i][o].abs());
                    assert!(distance <= bounds[(i, o)] + rounding, "{case} {distance} {}", bounds[(i, o)]);
                    assert!(
                        distance <= tolerance * error + rounding,
                        "{case} {tolerance} {distance} {error}"
                    );
                }
            }
            let at_landmarks = solution.bounds(&plan.landmarks).unwrap().unwrap();
            let within_tolerance = |o: usize| {
                at_landmarks.column(o).iter().all(|b| *b <= 1.1 * tolerance * errors[o].sqrt() + 1e-9)
            };
            assert!(within_tolerance(0) && within_tolerance(1), "{case} {tolerance}");
            passes.push(fitting.passes());
        }
        println!("{case} {passes:?}");
        assert!(passes[0] < passes[1] && passes[1] < 40, "{passes:?}");
    }
}

/// Conjugate gradients end within the tolerance or report that they don't, even for rows that are rare in the
/// sample and for weights of any size.
#[test]
fn conjugate_gradients_keep_their_tolerance() {
    let mut data = rows(900, 2, 1, true, 6);
    for i in 0..900 {
        data.y.data_mut()[i] += if data.x.get(i, 0) > 2.3 { 1e4 } else { 0.0 };
    }
    let kernel = written("laplacian(length_scale=1)", &data.x);
    let solve = |scale: f64, ridge: f64| {
        let mut scaled = data.clone();
        scaled.weights.as_mut().unwrap().iter_mut().for_each(|w| *w *= scale);
        let (plan, survey) = by_gradients(&scaled, &kernel, (100, ridge * scale), 150, true);
        let fitting = descended(&plan, &survey, &scaled, true, 1e-3, &[900]);
        let solution = fitting.solution().unwrap().clone();
        let bounds = solution.bounds(&plan.landmarks).unwrap().unwrap();
        let largest = bounds.data().iter().fold(0.0, |maximum: f64, b| maximum.max(*b));
        (fitting.passes(), largest / solution.training_error().unwrap()[0].sqrt(), solution)
    };
    let (passes, largest, solution) = solve(1.0, 0.1);
    assert!(largest <= 1.1e-3 && solution.fell_short().is_none(), "{largest} {passes}");
    for scale in [1e-14, 1e10] {
        let (scaled_passes, largest_bound, _) = solve(scale, 0.1);
        assert!(
            largest_bound <= 1.1e-3 && scaled_passes.abs_diff(passes) <= 3,
            "{scale}: {largest_bound}, {scaled_passes} and {passes}"
        );
    }
    // Sums of squares that overflow give an error.
    let mut huge = rows(300, 2, 1, false, 6);
    huge.y.data_mut().iter_mut().for_each(|y| *y *= 1e160);
    let (plan, survey) = by_gradients(&huge, &kernel, (30, 0.1), 90, true);
    let mut fitting = FitState::new(&plan, &Job::new(30), InitialInput::Survey(&survey)).unwrap();
    let pass = DataPass::from_rows(&plan, fitting.next_coefficients().unwrap(), &huge, 0).unwrap();
    assert!(fitting.apply_pass(&pass).unwrap_err().to_string().contains("larger units"));
}

/// The coefficients don't depend on the division of the work or the number of threads, and results of other
/// plans are refused.
#[test]
fn conjugate_gradients_are_the_same_however_the_work_is_divided() {
    let data = rows(900, 3, 2, true, 5);
    let (plan, survey) = by_gradients(&data, &Kernel::gaussian(&[1.0; 3]), (50, 0.1), 120, true);
    let uninterrupted = descended(&plan, &survey, &data, true, 1e-4, &[900]);
    let coefficients = uninterrupted.solution().unwrap().coefficients();
    for (threads, parts) in [(1, vec![900]), (3, vec![1, 300, 599])] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let other = pool.install(|| descended(&plan, &survey, &data, true, 1e-4, &parts));
        assert_eq!(other.solution().unwrap().coefficients(), coefficients);
    }
    let other = surveyed(&data, 121);
    assert!(RidgeSolution::of_sample(&plan, &other, true, 1e-4).unwrap_err().to_string().contains("survey"));
    let job = Job::new(50);
    assert!(FitState::new(&plan, &job, InitialInput::Nothing).is_err());
    let mut fitting = FitState::new(&plan, &job, InitialInput::Survey(&survey)).unwrap();
    let incomplete = select(&data, 0..800);
    let part = DataPass::from_rows(&plan, fitting.next_coefficients().unwrap(), &incomplete, 0).unwrap();
    assert!(fitting.apply_pass(&part).unwrap_err().to_string().contains("800 rows"));
    let direct = planned(&data, &Kernel::gaussian(&[1.0; 3]), 50, 1);
    assert!(RidgeSolution::of_sample(&direct, &survey, true, 1e-4).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    /// Conjugate gradients end for random problems, and no fit is farther from exact arithmetic than its
    /// certificate states.
    #[test]
    fn certificates_of_gradients_hold(seed: u64, n in 40usize..250, d in 1usize..4, m in 2usize..25, log_ridge in -5.0..2.0, length in 0.3..3.0, weighted: bool, intercept: bool, sampled in 1usize..6, quick: bool, log_tolerance in -7.0..-1.0) {
        let data = rows(n, d, 1, weighted, seed);
        let ridge = 10.0_f64.powf(log_ridge);
        let (plan, survey) = by_gradients(&data, &Kernel::gaussian(&vec![length; d]), (m, ridge), sampled * m, quick);
        let fitting = descended(&plan, &survey, &data, intercept, 10.0_f64.powf(log_tolerance), &[n]);
        let solution = fitting.solution().unwrap();
        let new = rows(20, d, 1, false, seed ^ 1).x;
        if let Some(bounds) = solution.bounds(&new).unwrap() {
            let truth = exact(&plan, &data, ridge, intercept, &new);
            let predictions = solution.model().unwrap().predict(&new).unwrap();
            for i in 0..20 {
                let distance = (predictions[(i, 0)] - truth[i][0]).abs();
                let allowed = bounds[(i, 0)] + 1e-15 * (1.0 + truth[i][0].abs());
                prop_assert!(distance <= allowed, "{} {}", distance, bounds[(i, 0)]);
            }
        }
    }
}

/// The solver is chosen by size, with the ridge of the sample, unless a solver is requested.
#[test]
fn solvers_are_chosen_by_size() {
    let data = rows(3000, 2, 1, false, 7);
    let kernel = Kernel::gaussian(&[0.3; 2]);
    let survey = |job: &Job| {
        let mut survey = job.survey(data.x.columns(), 1, false);
        survey.add(&data).unwrap();
        survey
    };
    let plan = |job: Job| {
        let survey = survey(&job);
        let tuned = job.tuned(&survey, kernel.clone()).unwrap();
        job.plan(&survey, tuned).unwrap()
    };
    assert_eq!(plan(Job { ridge: Some(0.1), ..Job::new(40) }).model, Model::Ridge);
    let requested = plan(Job { ridge: Some(0.1), solver: Some(Solver::Cg), ..Job::new(40) });
    assert!(matches!(requested.model, Model::Gradients { ridge: 0.1, .. }));
    let job = Job { solver: Some(Solver::Cg), fixed_kernel: true, ..Job::new(40) };
    let chosen = plan(job.clone());
    let Model::Gradients { ridge, .. } = chosen.model else { panic!("{:?}", chosen.model) };
    let direct = plan(Job { solver: Some(Solver::Direct), fixed_kernel: true, ..Job::new(40) });
    let sample = Statistics::from_rows(&direct, &survey(&job).sample().unwrap(), 0).unwrap();
    assert_eq!(RidgeSolution::new(&direct, sample, &job.penalties()).unwrap().ridge, ridge);
    let fitted = fit_rows(data.clone(), kernel.clone(), &job, &FitControl::default()).unwrap();
    let fact =
        |name: &str| fitted.model.model_card.iter().find(|fact| fact.name == name).unwrap().value.to_string();
    assert_eq!(fact("solver"), "conjugate gradients");
}
