//! KernelSHAP of functions, against the exact engines on kernel models and against known conditional
//! expectations.

use std::sync::atomic::AtomicBool;

use riesz::attribution::enumeration::shapley;
use riesz::attribution::kernel_shap::{kernel_shap, kernel_shap_from};
use riesz::attribution::sampled_shapley::{Budget, SampleState};
use riesz::explanation::Sampling;
use riesz::{
    Background, ConditionalModel, Conditioning, ConditioningKernel, Exactness, Explainer, Explanation, Game,
    Kernel, KernelExpansion, Matrix, Players, Result, Table,
};

use crate::common::{about, model, number, table};

fn run(
    model: &KernelExpansion,
    rows: &Table,
    game: &Game,
    groups: &Players,
    coalitions: usize,
) -> Explanation {
    let question = about(game, groups).with_budget(Budget { coalitions, std_error: None, seed: 3 });
    kernel_shap(|x: &Table| model.predict(x), rows, &question, 100).unwrap()
}

fn std_error(explanation: &Explanation) -> &[f64] {
    let Exactness::Estimated { std_error, .. } = &explanation.exactness else { panic!("not estimated") };
    std_error
}

fn coalitions(explanation: &Explanation) -> usize {
    explanation.provenance.run.iter().find(|f| f.name == "coalitions valued").unwrap().value.parse().unwrap()
}

/// Returns the observational game with this reference and conditional model.
fn drawn(reference: impl Into<Background>, conditional: ConditionalModel) -> Game {
    Game::Observational { reference: reference.into(), conditional }
}

/// KernelSHAP of a model's predictions equals the exact explanation of its kernel expansion.
#[test]
fn kernel_models_are_explained_as_by_exact_engines() {
    let model = model(Kernel::gaussian(&[1.2; 5]), 12, 5);
    let rows = table(300, 3, 5);
    let weights = Some((1..=9).map(f64::from).collect());
    let background = Background { rows: table(50, 9, 5), weights };
    let kernel = Kernel::gaussian(&[1.0, 0.9, 1.1, 1.3, 0.8]);
    for groups in [
        Players::singletons(rows.columns()),
        Players::named(rows.columns(), &[("a", vec!["x0", "x4"])]).unwrap(),
    ] {
        let conditioning = Conditioning {
            kernel: ConditioningKernel::Given(kernel.clone()),
            ..Conditioning::with_ridge(0.01)
        };
        let ways = [
            Game::Interventional { background: background.clone() },
            Game::Observational { reference: background.clone(), conditional: conditioning.into() },
        ];
        for game in ways {
            // The intercept is not shrunk, whether it is known or not: both games agree for a model without
            // intercept.
            let plain = KernelExpansion { intercept: vec![0.0; 2], ..model.clone() };
            let model = if matches!(game, Game::Interventional { .. }) { &model } else { &plain };
            let expected = Explainer::new(model, about(&game, &groups)).unwrap().explain(&rows).unwrap();
            let actual = run(model, &rows, &game, &groups, 4096);
            if matches!(game, Game::Interventional { .. }) {
                let Exactness::Exact { bound } = &actual.exactness else { panic!("not exact") };
                assert!(actual.certificate().unwrap().holds);
                for (k, (a, b)) in actual.values.iter().zip(&expected.values).enumerate() {
                    let bound = bound[k / groups.players().len()];
                    assert!((a - b).abs() <= bound.max(1e-12) && bound < 1e-11, "{a} {b} {bound}");
                }
                assert_eq!(coalitions(&actual), 1 << groups.players().len());
            }
            assert!(actual.base_values.iter().zip(&expected.base_values).all(|(a, b)| (a - b).abs() < 1e-12));
        }
    }
}

/// The embedding's weights around the mean: `v(S) = mean + Σ_b W_b (f(x_S, b) - mean)`, the observational
/// game of the function minus its mean.
#[test]
fn an_embedding_weighs_the_reference() {
    let model = model(Kernel::gaussian(&[1.2; 4]), 12, 4);
    let rows = table(300, 2, 4);
    let reference: Background = table(50, 9, 4).into();
    let kernel = Kernel::gaussian(&[1.0, 0.9, 1.1, 1.3]);
    let conditioning =
        Conditioning { kernel: ConditioningKernel::Given(kernel.clone()), ..Conditioning::with_ridge(0.01) };
    let game = Game::Observational { reference: reference.clone(), conditional: conditioning.into() };
    let groups = Players::singletons(rows.columns());
    let actual = run(&model, &rows, &game, &groups, 4096);
    // The function minus its mean over the reference is an expansion with another intercept.
    let mean: Vec<f64> = {
        let predictions = model.predict(&reference.rows).unwrap();
        (0..2).map(|o| predictions.column(o).iter().sum::<f64>() / 9.0).collect()
    };
    for o in 0..2 {
        // f - mean = kernel part + (intercept - mean): the constant is multiplied by Σ_b W_b too.
        let single_output = KernelExpansion::new(
            Kernel::gaussian(&[1.2; 4]) + Kernel::constant(1.0),
            model.support_points.stack(&table(0, 1, 4)).unwrap(),
            Matrix::column_vector(model.coef.column(o).into_iter().chain([0.0]).collect()),
            vec![0.0],
        )
        .unwrap();
        // A coefficient at a distant point adjusts the constant: with it, the coefficients of the constant
        // kernel sum to intercept - mean.
        let total: f64 = single_output.coef.column(0).iter().sum();
        let mut coef = single_output.coef.column(0);
        let far = Table::from_rows(&[[1e6, 1e6, 1e6, 1e6]]).unwrap();
        let points = model.support_points.stack(&far).unwrap();
        coef[12] = model.intercept[o] - mean[o] - total;
        let shifted = KernelExpansion::new(
            single_output.kernel.clone(),
            points,
            Matrix::column_vector(coef),
            vec![mean[o]],
        )
        .unwrap();
        let expected = Explainer::new(&shifted, game.clone()).unwrap().explain(&rows).unwrap();
        for i in 0..2 {
            for j in 0..4 {
                let (a, b) = (actual.values[(i * 2 + o) * 4 + j], expected.values[i * 4 + j]);
                assert!((a - b).abs() < 1e-9, "{a} {b}");
            }
        }
    }
}

/// Returns a sample with exactly known mean and covariance: normal numbers, shifted and transformed.
fn normal_sample() -> (Table, Vec<f64>, [[f64; 3]; 3]) {
    let n = 200;
    let raw: Vec<[f64; 3]> =
        (0..n).map(|i| [7.0, 73.0, 41.0].map(|g| ((i as f64 * g / n as f64).fract() - 0.5) * 3.4)).collect();
    let rows: Vec<Vec<f64>> =
        raw.iter().map(|r| vec![1.0 + r[0], 0.8 * r[0] + 0.6 * r[1], r[2] - 0.5 * r[1]]).collect();
    let mean: Vec<f64> = (0..3).map(|j| rows.iter().map(|r| r[j]).sum::<f64>() / n as f64).collect();
    let mut covariance = [[0.0; 3]; 3];
    for (i, line) in covariance.iter_mut().enumerate() {
        for (j, value) in line.iter_mut().enumerate() {
            *value = rows.iter().map(|r| (r[i] - mean[i]) * (r[j] - mean[j])).sum::<f64>() / (n as f64 - 1.0);
        }
    }
    (Table::from_rows(&rows).unwrap(), mean, covariance)
}

/// `E[a·X | X_S = x_S]` for a normal X.
fn conditional(a: &[f64; 3], mean: &[f64], c: &[[f64; 3]; 3], present: &[bool], x: &[f64]) -> f64 {
    let known: Vec<usize> = (0..3).filter(|&j| present[j]).collect();
    let centered: Vec<f64> = known.iter().map(|&j| x[j] - mean[j]).collect();
    let solved: Vec<f64> = match known.as_slice() {
        [] => vec![],
        [i] => vec![centered[0] / c[*i][*i]],
        [i, j] => {
            let det = c[*i][*i] * c[*j][*j] - c[*i][*j] * c[*j][*i];
            vec![
                (c[*j][*j] * centered[0] - c[*i][*j] * centered[1]) / det,
                (c[*i][*i] * centered[1] - c[*j][*i] * centered[0]) / det,
            ]
        }
        _ => return (0..3).map(|j| a[j] * x[j]).sum(),
    };
    (0..3)
        .map(|j| {
            let guess = mean[j] + known.iter().zip(&solved).map(|(&k, s)| c[j][k] * s).sum::<f64>();
            a[j] * if present[j] { x[j] } else { guess }
        })
        .sum()
}

#[test]
fn gaussian_draws_give_known_conditional_expectations_within_their_errors() {
    let (reference, mean, covariance) = normal_sample();
    let x = [2.0, -0.5, 1.0];
    let rows = Table::from_rows(&[x]).unwrap();
    let a = [1.0, -2.0, 0.5];
    let truth = shapley(3, |present| conditional(&a, &mean, &covariance, present, &x));
    let linear = |t: &Table| -> Result<Matrix> {
        let row_value = |i: usize| (0..3).map(|j| a[j] * t.get(i, j)).sum();
        Ok(Matrix::column_vector((0..t.rows()).map(row_value).collect()))
    };
    let groups = Players::singletons(rows.columns());
    let game = drawn(reference, ConditionalModel::Gaussian { draws: 50 });
    let (mut covered, mut means, mut square, mut claimed) = (0, [0.0; 3], 0.0, 0.0);
    for seed in 0..400 {
        let budget = Budget { seed, ..Budget::default() };
        let explanation =
            kernel_shap(linear, &rows, &about(&game, &groups).with_budget(budget), 1 << 20).unwrap();
        let errors = std_error(&explanation);
        for j in 0..3 {
            covered += usize::from((explanation.values[j] - truth[j]).abs() <= 1.96 * errors[j]);
            means[j] += explanation.values[j] / 400.0;
            square += (explanation.values[j] - truth[j]).powi(2);
            claimed += errors[j] * errors[j];
        }
    }
    let coverage = covered as f64 / 1200.0;
    assert!((0.95..=1.0).contains(&coverage) && claimed < 3.0 * square, "{coverage} {claimed} {square}");
    assert!(means.iter().zip(&truth).all(|(a, b)| (a - b).abs() < 0.02), "{means:?} {truth:?}");
}

/// Intervals cover rare events, which few or none of a hundred draws contain: they allow for values of size
/// 1.
#[test]
fn rare_events_are_covered() {
    let (reference, mean, covariance) = normal_sample();
    let x = [-0.5, 0.3, 1.0];
    let rows = Table::from_rows(&[x]).unwrap();
    let groups = Players::singletons(rows.columns());
    for limit in [2.2, 3.4, 4.2] {
        let size = if limit > 2.5 { 1.0 } else { 10.0 };
        let event = |v: f64| if v > limit { size } else { 0.0 };
        let f = |t: &Table| -> Result<Matrix> {
            Ok(Matrix::column_vector(t.column(0).iter().map(|v| event(*v)).collect()))
        };
        let none = reference.column(0).iter().map(|v| event(*v)).sum::<f64>() / reference.rows() as f64;
        let truth = shapley(3, |present| match present {
            [false, false, false] => none,
            [true, ..] => event(x[0]),
            _ => {
                // The mean of a column given others, and of its squared deviation from that mean.
                let centre = conditional(&[1.0, 0.0, 0.0], &mean, &covariance, present, &x);
                let contribution = |j: usize| {
                    let moved = |step: f64| {
                        let mut point = x;
                        point[j] += step;
                        conditional(&[1.0, 0.0, 0.0], &mean, &covariance, present, &point)
                    };
                    (moved(1.0) - moved(0.0)) * covariance[0][j]
                };
                let explained: f64 = (1..3).filter(|&j| present[j]).map(contribution).sum();
                size * upper_tail((limit - centre) / (covariance[0][0] - explained).sqrt())
            }
        });
        let game = drawn(reference.clone(), ConditionalModel::Gaussian { draws: 100 });
        let (mut covered, runs) = (0, 150);
        for seed in 0..runs {
            let budget = Budget { seed, ..Budget::default() };
            let explanation =
                kernel_shap(f, &rows, &about(&game, &groups).with_budget(budget), 1 << 20).unwrap();
            let is_covered =
                |j: &usize| (explanation.values[*j] - truth[*j]).abs() <= 1.96 * std_error(&explanation)[*j];
            assert!(std_error(&explanation).iter().all(|e| *e > 0.0));
            covered += (0..3).filter(is_covered).count();
        }
        let coverage = f64::from(covered as u32) / (3.0 * runs as f64);
        assert!(coverage > 0.93, "{limit}: {coverage}");
    }
}

/// Returns the probability that a standard normal number is above `z`, by Simpson's rule.
fn upper_tail(z: f64) -> f64 {
    let (n, step) = (4000, (12.0 - z) / 4000.0);
    let density = |k: usize| (-0.5 * (z + step * k as f64).powi(2)).exp();
    let sum: f64 = (0..=n)
        .map(|k| if k == 0 || k == n { density(k) } else { density(k) * if k % 2 == 1 { 4.0 } else { 2.0 } })
        .sum();
    sum * step / 3.0 / (2.0 * std::f64::consts::PI).sqrt()
}

/// The bound covers rounding errors of the base value, which dominate where background predictions are large.
#[test]
fn the_bound_covers_rounding_of_the_base_value() {
    for (d, n) in [(2, 7), (3, 13), (4, 100), (5, 997)] {
        let large = |row: &[f64]| if row.iter().all(|v| *v < 0.0) { 1e8 * (1.0 + 0.1 * row[0]) } else { 1.0 };
        let f = |t: &Table| -> Result<Matrix> {
            Ok(Matrix::column_vector((0..t.rows()).map(|i| large(&t.row(i))).collect()))
        };
        let background: Vec<Vec<f64>> =
            (0..n).map(|b| (0..d).map(|j| -0.1 - (number(b, j) + 1.0) / 3.0).collect()).collect();
        let rows = Table::from_rows(&[vec![1.0; d]]).unwrap();
        // Integer multiples of 2^-40.
        let unit = (1_u64 << 40) as f64;
        let sum: i128 = background.iter().map(|row| (large(row) * unit) as i128).sum();
        let game = Game::Interventional { background: Table::from_rows(&background).unwrap().into() };
        let explanation =
            kernel_shap(f, &rows, &about(&game, &Players::singletons(rows.columns())), 100).unwrap();
        let Exactness::Exact { bound } = &explanation.exactness else { panic!("not exact") };
        let (n, d) = (n as i128, d as i128);
        for value in &explanation.values {
            // value = (1 - sum / n) / d, times n d.
            let difference = (value * unit) as i128 * n * d - (unit as i128 * n - sum);
            let error = difference.abs() as f64 / (n * d) as f64 / unit;
            assert!(error <= bound[0] && bound[0] < 1e-3, "{d} {n}: {error:e} {:e}", bound[0]);
        }
        assert!(explanation.certificate().unwrap().holds);
    }
}

/// The unit of one column does not affect the others.
#[test]
fn gaussian_draws_do_not_mind_units() {
    let (reference, _, _) = normal_sample();
    let stretched = |t: &Table| {
        let rows: Vec<Vec<f64>> =
            (0..t.rows()).map(|i| vec![t.get(i, 0), t.get(i, 1), 1e8 * t.get(i, 2)]).collect();
        Table::from_rows(&rows).unwrap()
    };
    let x = reference.select_rows(&[17, 60]);
    let f = |t: &Table| -> Result<Matrix> { Ok(Matrix::column_vector(t.column(0).to_vec())) };
    let groups = Players::singletons(x.columns());
    let run = |reference: Table, rows: &Table| {
        let game = drawn(reference, ConditionalModel::Gaussian { draws: 400 });
        kernel_shap(f, rows, &about(&game, &groups), 1 << 20).unwrap()
    };
    let (plain, other) = (run(reference.clone(), &x), run(stretched(&reference), &stretched(&x)));
    let errors = std_error(&plain).iter().zip(std_error(&other));
    for ((a, b), (e, f)) in plain.values.iter().zip(&other.values).zip(errors) {
        assert!((a - b).abs() < 5.0 * e.hypot(*f) + 1e-3, "{a} {b} {e} {f}");
    }
}

/// Copula explanations do not change under monotone transformations of the columns, such as exponentials.
#[test]
fn copulas_are_invariant_to_monotone_transformations() {
    let (reference, _, _) = normal_sample();
    let exponentials = |t: &Table| {
        let rows: Vec<Vec<f64>> = (0..t.rows()).map(|i| t.row(i).iter().map(|v| v.exp()).collect()).collect();
        Table::from_rows(&rows).unwrap()
    };
    let x = reference.select_rows(&[17, 60]);
    let sum = |unbend: bool| {
        move |t: &Table| -> Result<Matrix> {
            let value = |v: f64| if unbend { v.ln() } else { v };
            let row_value = |i: usize| (0..3).map(|j| value(t.get(i, j)) * (j as f64 + 1.0)).sum();
            Ok(Matrix::column_vector((0..t.rows()).map(row_value).collect()))
        }
    };
    let groups = Players::singletons(x.columns());
    let run = |reference: Table, rows: &Table, unbend: bool| {
        let game = drawn(reference, ConditionalModel::Copula { draws: 40 });
        kernel_shap(sum(unbend), rows, &about(&game, &groups), 1 << 20).unwrap()
    };
    let (plain, curved) =
        (run(reference.clone(), &x, false), run(exponentials(&reference), &exponentials(&x), true));
    // The draws differ, because their seeds depend on the rows' values.
    let errors = std_error(&plain).iter().zip(std_error(&curved));
    for ((a, b), (e, f)) in plain.values.iter().zip(&curved.values).zip(errors) {
        assert!((a - b).abs() < 5.0 * e.hypot(*f) + 0.01, "{a} {b} {e} {f}");
    }
}

#[test]
fn sampled_coalitions_and_bad_input() {
    let model = model(Kernel::gaussian(&[1.2; 9]), 12, 9);
    let rows = table(300, 2, 9);
    let groups = Players::singletons(rows.columns());
    let game = Game::Interventional { background: table(50, 6, 9).into() };
    let (exact, sampled) =
        (run(&model, &rows, &game, &groups, 4096), run(&model, &rows, &game, &groups, 150));
    assert!(
        coalitions(&sampled) < coalitions(&exact) / 2 && matches!(exact.exactness, Exactness::Exact { .. })
    );
    for ((a, b), e) in exact.values.iter().zip(&sampled.values).zip(std_error(&sampled)) {
        assert!((a - b).abs() <= 6.0 * e + 1e-12, "{a} {b} {e}");
    }
    let refused = |game: &Game| {
        let f = |x: &Table| model.predict(x);
        kernel_shap(f, &rows, &about(game, &groups), 100).unwrap_err().to_string()
    };
    let single_row: Background = table(0, 1, 9).into();
    assert!(
        refused(&drawn(single_row.clone(), ConditionalModel::Gaussian { draws: 1 }))
            .contains("n_conditional_samples = 1")
    );
    assert!(refused(&drawn(single_row, ConditionalModel::Gaussian { draws: 9 })).contains("at least 2 rows"));
    // A constant column has a single value to draw.
    let constant: Vec<Vec<f64>> = (0..20).map(|i| vec![number(i, 0), 5.0]).collect();
    let reference: Background = Table::from_rows(&constant).unwrap().into();
    let rows = Table::from_rows(&[[0.3, 5.0]]).unwrap();
    let groups = Players::singletons(rows.columns());
    for game in [
        drawn(reference.clone(), ConditionalModel::Gaussian { draws: 20 }),
        drawn(reference, ConditionalModel::Copula { draws: 20 }),
    ] {
        let f = |x: &Table| -> Result<Matrix> { Ok(Matrix::column_vector(x.column(1).to_vec())) };
        let explanation = kernel_shap(f, &rows, &about(&game, &groups), 100).unwrap();
        assert!(explanation.values.iter().all(|v| v.abs() < 1e-3), "{:?}", explanation.values);
    }
}

/// Continued runs end in the same explanation as a single run, with backgrounds, draws and embeddings.
#[test]
fn continued_runs_equal_single_runs() {
    let model = model(Kernel::gaussian(&[1.2; 9]), 12, 9);
    let rows = table(300, 2, 9);
    let groups = Players::singletons(rows.columns());
    let reference: Background = table(50, 12, 9).into();
    let conditioning = Conditioning::with_ridge(0.05);
    for game in [
        Game::Interventional { background: reference.clone() },
        drawn(reference.clone(), ConditionalModel::Gaussian { draws: 5 }),
        drawn(reference, conditioning.into()),
    ] {
        for large in [300, 4096] {
            let mut sample = SampleState::default();
            let go_on = |coalitions, sample: &mut SampleState| {
                let (budget, mut n_evaluations) = (Budget { coalitions, std_error: None, seed: 3 }, 0);
                let f = |x: &Table| {
                    n_evaluations += x.rows();
                    model.predict(x)
                };
                let question = about(&game, &groups).with_budget(budget);
                let stop = AtomicBool::new(false);
                let explanation = kernel_shap_from(f, &rows, &question, 100, sample, &stop).unwrap();
                if let Exactness::Estimated { sampling, .. } = &explanation.exactness {
                    assert_eq!(*sampling, Some(Sampling { evaluations: n_evaluations, seed: 3 }));
                }
                (explanation, n_evaluations)
            };
            let (first, _) = go_on(120, &mut sample);
            let (mut grown, added) = go_on(large, &mut sample);
            let (single_run, n_evaluations) = go_on(large, &mut SampleState::default());
            assert!(added < n_evaluations && coalitions(&first) < coalitions(&grown));
            assert_eq!(sample.coalitions() + 2, coalitions(&grown));
            if let Exactness::Estimated { sampling: Some(sampling), .. } = &mut grown.exactness {
                sampling.evaluations = n_evaluations;
            }
            assert_eq!(single_run, grown);
        }
    }
}
