//! Trials of treatments: effects updated by trials, against one joint Gaussian distribution, and suggestions
//! of the next trials.

use riesz::causal::{
    Acquisition, AcquisitionSearch, Domain, Effect, EffectEstimate, EffectPrior, IdentificationRoute,
    OutcomeGpParameters, Parameters, Studies, Study, StudyParameters, Suggestion, TreatmentArm, Trials,
    UncertaintyCause, UpdatedEffect, log_expected_improvement,
};
use riesz::linalg::lu_solve;
use riesz::{Column, ColumnKind, Error, Kernel, Matrix, Table};

use crate::common::{Stream, with_threads};

const PRIORS: [&str; 6] = ["effect", "imp", "bayesime", "rank-one", "cbo", "none"];
const SEARCH: AcquisitionSearch =
    AcquisitionSearch { acquisition: Acquisition::LogEi, minimize: true, supported: false, seed: 3 };

fn column(name: &str, values: &[f64]) -> Table {
    Table::from_column_major(vec![Column::numeric(name)], values.len(), values.to_vec()).unwrap()
}

/// The effect of treatments through mediators `y` on `sin y`, with fixed parameters.
fn effect_of(treatments: Table, kernel: Kernel, y: &[f64]) -> Effect {
    let y2: Vec<f64> = (0..25).map(|i| -3.0 + 0.25 * f64::from(i)).collect();
    let outcome = y2.iter().map(|y| y.sin()).collect();
    let study =
        Study { treatments, route: IdentificationRoute::Direct, mediators: column("y", y), shared: None };
    let studies = Studies { studies: vec![study], points: column("y", &y2), outcome };
    let study_parameters =
        StudyParameters { treatments: kernel, covariates: None, ridge: 0.05, intercepting: None };
    let outcome =
        OutcomeGpParameters { kernel: Kernel::gaussian(&[1.0]), noise: 0.01, intercept_variance: 1.0 };
    studies
        .effect(&Parameters { studies: vec![study_parameters], outcome, adjustment: false, landmarks: None })
        .unwrap()
}

fn one_treatment_effect() -> Effect {
    let mut s = Stream(5);
    let x: Vec<f64> = (0..30).map(|_| s.signed() * 3.0).collect();
    let y: Vec<f64> = x.iter().map(|x| x + 0.1 * s.normal()).collect();
    effect_of(column("x", &x), Kernel::gaussian(&[1.0]), &y)
}

fn two_treatment_effect() -> Effect {
    let mut s = Stream(6);
    let rows: Vec<[f64; 2]> = (0..40).map(|_| [s.signed() * 2.0, s.signed() * 2.0]).collect();
    let y: Vec<f64> = rows.iter().map(|r| r[0] - 0.5 * r[1] * r[1] + 0.1 * s.normal()).collect();
    effect_of(Table::from_rows(&rows).unwrap(), Kernel::gaussian(&[1.0, 1.0]), &y)
}

fn trials_at(x: &[f64], outcomes: &[f64], noise: Option<f64>) -> Trials {
    Trials {
        treatments: column("x", x),
        outcomes: outcomes.to_vec(),
        noise: noise.map(|variance| vec![variance; x.len()]),
    }
}

fn arm<'a>(effect: &'a Effect, trials: &Trials, domain: Domain) -> TreatmentArm<'a> {
    TreatmentArm {
        believed: UpdatedEffect::new(effect, trials, EffectPrior::Effect).unwrap(),
        domain,
        costs: vec![1.0],
    }
}

/// Returns the mean and the covariance of a prior, by its definition.
fn moments(estimate: &EffectEstimate, name: &str) -> (Vec<f64>, Matrix) {
    let q = estimate.mean.len();
    let part = |cause: UncertaintyCause| {
        estimate.causes.iter().find(|(other_cause, _)| *other_cause == cause).unwrap().1.clone()
    };
    let rank_one_part = |m: Matrix| {
        let mut rank_one = Matrix::zeros(q, q);
        for i in 0..q {
            for j in 0..q {
                rank_one[(i, j)] = (m[(i, i)] * m[(j, j)]).sqrt();
            }
        }
        rank_one
    };
    let covariance = match name {
        "effect" => estimate.covariance.clone(),
        "imp" => part(UncertaintyCause::Study(1)),
        "bayesime" => part(UncertaintyCause::Study(0)),
        "rank-one" => rank_one_part(estimate.covariance.clone()),
        "cbo" => rank_one_part(part(UncertaintyCause::Study(1))),
        _ => return (vec![0.0; q], Matrix::zeros(q, q)),
    };
    (estimate.mean.clone(), covariance)
}

#[test]
fn trials_condition_every_prior_as_one_gaussian() {
    let effect = one_treatment_effect();
    let x: [f64; 5] = [-2.0, -0.7, 0.4, 1.1, 2.5];
    let outcomes = [0.3, -0.8, 0.9, 0.2, -0.4];
    let queries = [-1.5, 0.0, 0.4, 2.2];
    let doses: Vec<f64> = x.iter().chain(&queries).copied().collect();
    let estimate = effect.evaluate(&column("x", &doses)).unwrap();
    let mut s = Stream(5);
    let study_doses: Vec<f64> = (0..30).map(|_| s.signed() * 3.0).collect();
    let range = study_doses.iter().cloned().fold(f64::MIN, f64::max)
        - study_doses.iter().cloned().fold(f64::MAX, f64::min);
    for name in PRIORS {
        let trials = trials_at(&x, &outcomes, Some(0.02));
        let updated = UpdatedEffect::new(&effect, &trials, EffectPrior::named(name).unwrap()).unwrap();
        let parameters = updated.parameters();
        let (mean, mut covariance) = moments(&estimate, name);
        for i in 0..9 {
            for j in 0..9 {
                let r = (doses[i] - doses[j]) / range / parameters.length_scale;
                covariance[(i, j)] += parameters.variance * (-0.5 * r * r).exp();
            }
        }
        let mut trial_gram = Matrix::zeros(5, 5);
        for i in 0..5 {
            trial_gram.row_mut(i).copy_from_slice(&covariance.row(i)[..5]);
        }
        trial_gram.add_diagonal(|_| 0.02);
        let mut residual: Vec<f64> = (0..5).map(|i| outcomes[i] - mean[i]).collect();
        let mut constant = 0.0;
        if name == "none" {
            let solution = lu_solve(&trial_gram, &[1.0; 5]);
            constant = solution.iter().zip(&residual).map(|(a, b)| a * b).sum::<f64>()
                / solution.iter().sum::<f64>();
            residual.iter_mut().for_each(|v| *v -= constant);
        }
        let posterior = updated.evaluate(&column("x", &queries)).unwrap();
        for a in 0..4 {
            let weights = lu_solve(&trial_gram, &covariance.row(5 + a)[..5]);
            let expected =
                mean[5 + a] + constant + weights.iter().zip(&residual).map(|(w, v)| w * v).sum::<f64>();
            assert!((posterior.mean[a] - expected).abs() < 1e-9, "{name}: {} {expected}", posterior.mean[a]);
            for b in 0..4 {
                let explained: f64 = (0..5).map(|i| weights[i] * covariance[(5 + b, i)]).sum();
                let expected_covariance = covariance[(5 + a, 5 + b)] - explained;
                assert!((posterior.covariance[(a, b)] - expected_covariance).abs() < 1e-9, "{name}");
            }
        }
    }
}

/// Values of log(φ(z) + z Φ(z)) with 17 digits, computed by mpmath with 160.
#[test]
fn log_expected_improvement_is_exact_in_the_tail() {
    let reference_values = [
        (3.0, 1.0987396653277077),
        (0.5, -0.3598276837450638),
        (-0.5, -1.6205162643873199),
        (-0.999999, -2.4851191214417687),
        (-1.0, -2.4851210257126413),
        (-1.000001, -2.4851229299842355),
        (-3.0, -7.869686059603029),
        (-10.0, -55.55312203612235),
        (-40.0, -808.29856835662),
        (-1000.0, -500014.73445209116),
        (-1e8, -5_000_000_000_000_037.8),
    ];
    for (z, expected) in reference_values {
        let actual = log_expected_improvement(z, 1.0);
        assert!((actual - expected).abs() <= 4e-15 * f64::abs(expected).max(1.0), "{z}: {actual} {expected}");
        let scaled = log_expected_improvement(2.5 * z, 2.5) - 2.5_f64.ln();
        assert!((scaled - expected).abs() <= 1e-14 * f64::abs(expected).max(1.0), "{z}: {scaled}");
    }
    assert_eq!(log_expected_improvement(2.0, 0.0), 2.0_f64.ln());
    assert_eq!(log_expected_improvement(-2.0, 0.0), f64::NEG_INFINITY);
}

/// Compares with the integral of the gain.
#[test]
fn expected_improvement_is_the_mean_gain() {
    for (improvement, sd) in [(0.3, 0.7), (-0.9, 0.5), (-2.0, 1.0)] {
        let steps = 400_000;
        let mean_gain: f64 = (0..steps)
            .map(|i| -9.0 + 18.0 * (f64::from(i) + 0.5) / f64::from(steps))
            .map(|e| {
                (improvement + sd * e).max(0.0) * (-0.5 * e * e).exp() / (2.0 * std::f64::consts::PI).sqrt()
            })
            .sum();
        let mean_gain = mean_gain * 18.0 / f64::from(steps);
        assert!((log_expected_improvement(improvement, sd) - mean_gain.ln()).abs() < 1e-7);
    }
}

/// The suggestion is the best row of a grid, computed by hand, for each acquisition function.
#[test]
fn suggestion_is_the_best_row_of_a_grid() {
    let effect = one_treatment_effect();
    let trials = trials_at(&[1.0, -2.0], &[0.5, -0.2], Some(0.01));
    let grid: Vec<f64> = (0..61).map(|i| -3.0 + 0.1 * f64::from(i)).collect();
    let updated = UpdatedEffect::new(&effect, &trials, EffectPrior::Effect).unwrap();
    let (mean, sd, _) = updated.marginals(&column("x", &grid)).unwrap();
    let at_trials = updated.evaluate(&trials.treatments).unwrap().mean;
    for minimize in [true, false] {
        let sign = if minimize { -1.0 } else { 1.0 };
        let best = at_trials.iter().map(|m| sign * m).fold(f64::MIN, f64::max);
        type Score<'a> = Box<dyn Fn(usize) -> f64 + 'a>;
        let scores: [(&str, Score<'_>); 3] = [
            ("log-ei", Box::new(|i| log_expected_improvement(sign * mean[i] - best, sd[i]))),
            ("ei", Box::new(|i| log_expected_improvement(sign * mean[i] - best, sd[i]).exp())),
            ("ucb", Box::new(|i| sign * mean[i] - best + 2.0 * sd[i])),
        ];
        for (name, score) in &scores {
            let search =
                AcquisitionSearch { acquisition: Acquisition::named(name).unwrap(), minimize, ..SEARCH };
            let arms = [arm(&effect, &trials, Domain::Rows(column("x", &grid)))];
            let suggestion = search.suggest(&arms, 1).unwrap().remove(0);
            let index = (0..61).reduce(|a, b| if score(b) > score(a) { b } else { a }).unwrap();
            assert_eq!(suggestion.treatments, [grid[index]], "{name}");
            assert!(
                (suggestion.acquisition - score(index)).abs() < 1e-8
                    && (suggestion.mean - mean[index]).abs() < 1e-10
            );
            let gain = log_expected_improvement(sign * mean[index] - best, sd[index]).exp();
            assert!((suggestion.expected_improvement - gain).abs() < 1e-10, "{name}");
            let incumbent = search.best(&arms).unwrap();
            assert!(
                (incumbent.mean - sign * best).abs() < 1e-8 && [1.0, -2.0].contains(&incumbent.treatments[0])
            );
            // Without trials it is the best of all rows.
            let untried = [arm(&effect, &trials_at(&[], &[], None), Domain::Rows(column("x", &grid)))];
            let incumbent = search.best(&untried).unwrap();
            let (means, ..) = untried[0].believed.marginals(&column("x", &grid)).unwrap();
            let index = (0..61).reduce(|a, b| if sign * means[b] > sign * means[a] { b } else { a }).unwrap();
            assert_eq!((&incumbent.treatments[..], incumbent.mean), (&[grid[index]][..], means[index]));
        }
    }
}

/// The second of two suggestions is the one after the first has had its expected outcome.
#[test]
fn batches_are_chosen_one_by_one() {
    let effect = one_treatment_effect();
    let domain = || Domain::Between(vec![(-3.0, 3.0)]);
    let trials = trials_at(&[1.0, -2.0], &[0.5, -0.2], Some(0.01));
    let batch = SEARCH.suggest(&[arm(&effect, &trials, domain())], 2).unwrap();
    let next = trials_at(&[1.0, -2.0, batch[0].treatments[0]], &[0.5, -0.2, batch[0].mean], Some(0.01));
    let second = SEARCH.suggest(&[arm(&effect, &next, domain())], 1).unwrap().remove(0);
    assert_eq!(batch[1].treatments, second.treatments);
    assert!((batch[1].mean - second.mean).abs() < 1e-10 && (batch[1].sd - second.sd).abs() < 1e-10);
    assert_ne!(batch[0].treatments, batch[1].treatments);
}

#[test]
fn exact_trials_are_interpolated_and_noisy_trials_shrunk() {
    let effect = one_treatment_effect();
    let (x, outcomes) = ([-2.0, 0.0, 1.5, 2.5], [1.5, -0.6, 0.0, 0.8]);
    let exact =
        UpdatedEffect::new(&effect, &trials_at(&x, &outcomes, Some(0.0)), EffectPrior::Effect).unwrap();
    let posterior = exact.evaluate(&column("x", &x)).unwrap();
    for i in 0..4 {
        assert!((posterior.mean[i] - outcomes[i]).abs() < 1e-6);
        assert!(posterior.covariance[(i, i)].abs() < 1e-6);
    }
    let before = effect.evaluate(&column("x", &x)).unwrap().mean;
    let noisy =
        UpdatedEffect::new(&effect, &trials_at(&x[..1], &outcomes[..1], Some(1.0)), EffectPrior::Effect)
            .unwrap();
    let after = noisy.evaluate(&column("x", &x[..1])).unwrap().mean[0];
    assert!(after > before[0] + 1e-4 && after < before[0] + 0.5 * (outcomes[0] - before[0]));
}

/// Deviations that vary fast give a short length scale, and large ones a large variance. Before the fourth
/// trial nothing is estimated.
#[test]
fn discrepancy_parameters_are_learnt_from_trials() {
    let effect = one_treatment_effect();
    let x: Vec<f64> = (0..12).map(|i| -2.75 + 0.5 * f64::from(i)).collect();
    let effect_means = effect.evaluate(&column("x", &x)).unwrap().mean;
    let fitted_parameters = |count: usize, discrepancy: &dyn Fn(f64) -> f64| {
        let outcomes: Vec<f64> = x.iter().zip(&effect_means).map(|(x, m)| m + discrepancy(*x)).collect();
        let trials = trials_at(&x[..count], &outcomes[..count], Some(1e-4));
        UpdatedEffect::new(&effect, &trials, EffectPrior::Effect).unwrap().parameters()
    };
    let (fast, slow) =
        (fitted_parameters(12, &|x| (9.0 * x).sin()), fitted_parameters(12, &|x| (0.9 * x).sin()));
    assert!(fast.length_scale < slow.length_scale, "{fast:?} {slow:?}");
    assert!(
        fitted_parameters(12, &|x| 3.0 * (2.0 * x).sin()).variance > fitted_parameters(12, &|_| 0.0).variance
    );
    assert_eq!(fitted_parameters(3, &|x| (9.0 * x).sin()), fitted_parameters(3, &|_| 0.0));
}

/// Trials overcome studies that understate the effect and misplace its minimum.
#[test]
fn trials_overcome_a_misleading_prior() {
    let effect = one_treatment_effect();
    let grid: Vec<f64> = (0..61).map(|i| -3.0 + 0.1 * f64::from(i)).collect();
    let estimate = effect.evaluate(&column("x", &grid)).unwrap();
    let sd = (0..61).map(|i| estimate.covariance[(i, i)].sqrt()).sum::<f64>() / 61.0;
    let truth = |x: f64| 5.0 * sd + (x - 1.7).powi(2) / 8.0;
    let (mut x, mut outcomes) = (vec![-2.0], vec![truth(-2.0)]);
    for _ in 0..14 {
        let trials = trials_at(&x, &outcomes, Some(1e-6));
        let arms = [arm(&effect, &trials, Domain::Rows(column("x", &grid)))];
        let next = SEARCH.suggest(&arms, 1).unwrap()[0].treatments[0];
        x.push(next);
        outcomes.push(truth(next));
    }
    let lowest = outcomes.iter().cloned().fold(f64::MAX, f64::min);
    assert!(lowest - 5.0 * sd < 0.01 * truth(-3.0), "{x:?}");
}

/// With two bounded treatments, the suggestion is at least as good as the best of a fine grid.
#[test]
fn local_search_improves_on_a_fine_grid() {
    let effect = two_treatment_effect();
    let trials = Trials {
        treatments: Table::from_rows(&[[0.0, 0.0], [1.0, -1.0]]).unwrap(),
        outcomes: vec![0.1, 0.4],
        noise: None,
    };
    let bounds = Domain::Between(vec![(-2.0, 2.0), (-2.0, 2.0)]);
    let suggestion = SEARCH.suggest(&[arm(&effect, &trials, bounds)], 1).unwrap().remove(0);
    let side = |i: usize| -2.0 + i as f64 / 20.0;
    let fine: Vec<[f64; 2]> = (0..81 * 81).map(|i| [side(i / 81), side(i % 81)]).collect();
    let fine = Domain::Rows(Table::from_rows(&fine).unwrap());
    let best = SEARCH.suggest(&[arm(&effect, &trials, fine)], 1).unwrap().remove(0);
    assert!(suggestion.acquisition > best.acquisition - 1e-3, "{suggestion:?} {best:?}");
    assert!(suggestion.treatments.iter().all(|v| v.abs() <= 2.0));
}

#[test]
fn all_levels_are_combined_with_numbers() {
    let kinds = vec![
        Column::numeric("x"),
        Column {
            name: "drug".into(),
            kind: ColumnKind::Categorical { levels: vec!["a".into(), "b".into(), "c".into()] },
        },
    ];
    let rows = Domain::Between(vec![(0.0, 1.0)]).rows(&kinds, 0).unwrap();
    assert_eq!(rows.rows(), 3 * 201);
    for level in 0..3 {
        assert_eq!(rows.column(1).iter().filter(|v| **v == f64::from(level)).count(), 201);
    }
    assert_eq!((rows.get(0, 0), rows.get(200, 0)), (0.0, 1.0));
    let levels = Domain::Between(vec![]).rows(&kinds[1..], 0).unwrap();
    assert_eq!(levels.column(0), [0.0, 1.0, 2.0]);
}

/// A costly arm is tried only if its gain is larger in proportion to its cost.
#[test]
fn arms_are_compared_by_gain_for_cost() {
    let (one_dimensional, other) = (one_treatment_effect(), two_treatment_effect());
    let no_trials = |width: usize| Trials {
        treatments: if width == 1 { column("x", &[]) } else { no_treatments() },
        outcomes: vec![],
        noise: None,
    };
    let rows = Domain::Rows(Table::from_rows(&[[0.5, 0.5], [-1.5, 0.0]]).unwrap());
    let suggestion_at_costs = |costs: [f64; 2]| {
        let arms = [
            TreatmentArm {
                costs: vec![costs[0]],
                ..arm(&one_dimensional, &no_trials(1), Domain::Rows(column("x", &[0.2, -1.5])))
            },
            TreatmentArm { costs: vec![costs[1]], ..arm(&other, &no_trials(2), rows.clone()) },
        ];
        SEARCH.suggest(&arms, 1).unwrap().remove(0)
    };
    let (first, second) = (suggestion_at_costs([1.0, 1e6]), suggestion_at_costs([1e6, 1.0]));
    assert_eq!((first.arm, second.arm), (0, 1));
    let doubled = suggestion_at_costs([2.0, 1e6]);
    assert!((first.acquisition - doubled.acquisition - 2.0_f64.ln()).abs() < 1e-12);
}

fn no_treatments() -> Table {
    Table::from_column_major(vec![Column::numeric("x0"), Column::numeric("x1")], 0, vec![]).unwrap()
}

#[test]
fn supported_search_tries_only_supported_treatments() {
    let effect = one_treatment_effect();
    let trials = trials_at(&[0.0], &[-5.0], Some(0.0));
    let rows = column("x", &[0.5, 1.0, 40.0]);
    let search = AcquisitionSearch { supported: true, ..SEARCH };
    let unrestricted =
        SEARCH.suggest(&[arm(&effect, &trials, Domain::Rows(rows.clone()))], 1).unwrap().remove(0);
    assert!(unrestricted.treatments == [40.0] && !unrestricted.supported, "{unrestricted:?}");
    let restricted = search.suggest(&[arm(&effect, &trials, Domain::Rows(rows))], 3).unwrap();
    assert!(restricted.iter().all(|suggestion| suggestion.supported && suggestion.treatments[0] < 2.0));
    let unsupported_arm = [arm(&effect, &trials, Domain::Rows(column("x", &[40.0])))];
    assert!(
        search.suggest(&unsupported_arm, 1).unwrap_err().to_string().contains("the studies support none")
    );
}

#[test]
fn suggestions_do_not_depend_on_threads_or_runs() {
    let effect = two_treatment_effect();
    let trials =
        Trials { treatments: Table::from_rows(&[[0.0, 0.0]]).unwrap(), outcomes: vec![0.1], noise: None };
    let run = |threads: usize| -> Vec<Suggestion> {
        with_threads(threads, || {
            let bounds = Domain::Between(vec![(-2.0, 2.0), (-2.0, 2.0)]);
            SEARCH.suggest(&[arm(&effect, &trials, bounds)], 2).unwrap()
        })
    };
    let first = run(1);
    assert_eq!(first, run(4));
    assert_eq!(first, run(1));
}

#[test]
fn invalid_input_is_refused_by_name() {
    let effect = one_treatment_effect();
    let refused =
        |trials: &Trials| UpdatedEffect::new(&effect, trials, EffectPrior::Effect).unwrap_err().to_string();
    assert!(refused(&trials_at(&[0.0], &[f64::NAN], None)).contains("outcome of a trial = NaN"));
    assert!(refused(&trials_at(&[0.0], &[1.0, 2.0], None)).contains("outcomes has 2 numbers"));
    assert!(refused(&trials_at(&[0.0], &[1.0], Some(-1.0))).contains("noise of a trial = -1"));
    let repeated_trials = |noise| trials_at(&[0.0, 1.0, 0.0], &[1.0, 2.0, 3.0], Some(noise));
    assert!(refused(&repeated_trials(0.0)).contains("they are given as exact, and differ"));
    assert!(UpdatedEffect::new(&effect, &repeated_trials(0.1), EffectPrior::Effect).is_ok());
    let misnamed = Trials { treatments: column("dose", &[0.0]), ..trials_at(&[0.0], &[1.0], None) };
    assert!(matches!(
        UpdatedEffect::new(&effect, &misnamed, EffectPrior::Effect),
        Err(Error::UnknownColumn { name, .. }) if name == "x"
    ));
    assert!(EffectPrior::named("best").is_err() && Acquisition::named("pi").is_err());
    let trials = trials_at(&[0.0], &[1.0], None);
    let error = |domain: Domain, costs: Vec<f64>, acquisition: Acquisition| {
        let search = AcquisitionSearch { acquisition, ..SEARCH };
        let arms = [TreatmentArm { costs, ..arm(&effect, &trials, domain) }];
        search.suggest(&arms, 1).unwrap_err().to_string()
    };
    let bounds = |low: f64, high: f64| Domain::Between(vec![(low, high)]);
    assert!(error(bounds(1.0, 0.0), vec![1.0], Acquisition::LogEi).contains("bounds of x = (1, 0)"));
    assert!(error(Domain::Between(vec![]), vec![1.0], Acquisition::LogEi).contains("bounds has 0 pairs"));
    assert!(
        error(Domain::Rows(column("x", &[])), vec![1.0], Acquisition::LogEi).contains("candidates is empty")
    );
    assert!(error(bounds(0.0, 1.0), vec![0.0], Acquisition::LogEi).contains("cost = 0"));
    assert!(error(bounds(0.0, 1.0), vec![1.0; 3], Acquisition::LogEi).contains("costs has 3 numbers"));
    let ucb = Acquisition::Ucb { deviations: 2.0 };
    let rows = Domain::Rows(column("x", &[0.0, 1.0]));
    assert!(error(rows, vec![1.0, 2.0], ucb).contains("ucb with costs"));
}

#[test]
fn names_round_trip() {
    for name in EffectPrior::NAMES {
        assert_eq!(EffectPrior::named(name).unwrap().name(), name);
    }
    for name in Acquisition::NAMES {
        assert_eq!(Acquisition::named(name).unwrap().name(), name);
    }
}

/// A flat prior takes only the mean outcome from the studies, which is the expected outcome of trials.
#[test]
fn flat_prior_without_trials_predicts_the_mean_outcome() {
    let effect = one_treatment_effect();
    let no_trials = trials_at(&[], &[], None);
    let posterior = UpdatedEffect::new(&effect, &no_trials, EffectPrior::Flat)
        .unwrap()
        .evaluate(&column("x", &[-0.5, 1.0]))
        .unwrap();
    // Far from all rows the effect is the constant.
    let constant = effect.evaluate(&column("x", &[1e6])).unwrap().mean[0];
    assert!(
        posterior.mean.iter().all(|mean| (mean - constant).abs() < 1e-9),
        "{:?} {constant}",
        posterior.mean
    );
}
