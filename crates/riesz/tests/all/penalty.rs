//! Shapley-regularised training against its closed form and optimality conditions, and its effect on
//! protected values.

use riesz::attribution::sampled_shapley::Budget;
use riesz::fit::{
    GaussianProcess, KernelLogisticRegression, KernelRidge, Penalty, SupportVectorClassifier,
    SupportVectorRegressor, TunedParameters,
};
use riesz::linalg::{Cholesky, lu_solve};
use riesz::shapley_penalty::ValuePrior;
use riesz::{
    Approximation, Conditioning, Explainer, Game, Kernel, KernelExpansion, Matrix, Question, Table,
    shapley_penalty,
};

use crate::common::{number, table};

/// Returns a kernel whose gram matrix is far from singular.
fn kernel() -> Kernel {
    Kernel::gaussian(&[0.25, 0.3, 0.2])
}

fn games(x: &Table) -> [Game; 2] {
    [
        Game::Interventional { background: x.clone().into() },
        Game::Observational {
            reference: x.clone().into(),
            conditional: Conditioning::with_ridge(0.01).into(),
        },
    ]
}

fn functionals(x: &Table, game: Game, player: usize) -> Matrix {
    let blank = KernelExpansion::new(kernel(), x.clone(), Matrix::zeros(x.rows(), 1), vec![0.0]).unwrap();
    Explainer::new(&blank, game).unwrap().functionals(x, &[player]).unwrap().remove(0)
}

fn targets(x: &Table, outputs: usize) -> Matrix {
    let target = |i: usize, o: usize| (x.get(i, 0) * (o + 1) as f64).sin() + x.get(i, 1) * x.get(i, 2);
    let n = x.rows();
    Matrix::from_row_major(n, outputs, (0..n * outputs).map(|t| target(t / outputs, t % outputs)).collect())
}

/// The closed form `α = (K² + ridge K + (strength / n) Z Zᵀ)⁻¹ K y` (Proposition 7 of the paper).
#[test]
fn ridge_is_the_closed_form() {
    let x = table(0, 40, 3);
    let y = targets(&x, 2);
    let gram = kernel().gram(&x);
    for game in games(&x) {
        for (protected, strength, ridge) in
            [(vec![0], 5.0, 0.3), (vec![1, 2], 40.0, 0.1), (vec![0], 0.0, 0.3)]
        {
            let z: Vec<Matrix> = protected.iter().map(|&p| functionals(&x, game.clone(), p)).collect();
            let mut estimator = KernelRidge::new(kernel(), ridge);
            estimator.center = false;
            estimator.penalty = Some(Penalty::new(&z, strength));
            let fit = estimator.fit(&x, &y).unwrap();
            let mut system = gram.matmul(&gram);
            for z in &z {
                let zz = z.matmul(&z.transpose());
                system.data_mut().iter_mut().zip(zz.data()).for_each(|(s, v)| *s += strength / 40.0 * v);
            }
            system.data_mut().iter_mut().zip(gram.data()).for_each(|(s, k)| *s += ridge * k);
            let right = gram.matmul(&y);
            for o in 0..2 {
                let expected = lu_solve(&system, &right.column(o));
                for (actual, expected) in fit.model.coef.column(o).iter().zip(&expected) {
                    assert!((actual - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{actual} {expected}");
                }
            }
            // Leave-one-out predictions, with the same functionals of the other rows.
            if strength > 0.0 {
                continue;
            }
            let plain = KernelRidge { penalty: None, ..estimator }.fit(&x, &y).unwrap();
            assert!((plain.loo_error() - fit.loo_error()).abs() < 1e-10);
        }
    }
}

/// At the optimum of `Σ w loss + ridge/2 αᵀKα + (strength/n) ‖Zᵀα‖²` the gradient is zero: `K (p - y) + ridge
/// Kα + 2 (strength/n) Z Zᵀ α`.
#[test]
fn logistic_regression_meets_its_optimality_conditions() {
    let x = table(0, 40, 3);
    for classes in [2, 3] {
        let names: Vec<String> = (0..classes).map(|c| format!("c{c}")).collect();
        let labels: Vec<usize> = (0..40).map(|i| (i * i + i / 3) % classes).collect();
        for game in games(&x) {
            let z = functionals(&x, game, 1);
            let (ridge, strength) = (0.2, 7.0);
            let mut estimator = KernelLogisticRegression::new(kernel(), ridge);
            estimator.penalty = Some(Penalty::new(std::slice::from_ref(&z), strength));
            let model = estimator.fit(&x, &labels, &names).unwrap().model;
            let values = model.predict(&x).unwrap();
            let gram = kernel().gram(&x);
            let outputs = model.outputs();
            for o in 0..outputs {
                let residual: Vec<f64> = (0..40)
                    .map(|i| {
                        let class = if outputs == 1 { 1 } else { o };
                        model.probabilities(values.row(i)).unwrap()[class]
                            - f64::from(u8::from(labels[i] == class))
                    })
                    .collect();
                let coef = model.coef.column(o);
                let (fit, smooth) = (gram.matvec(&residual), gram.matvec(&coef));
                let penalty_term = z.matvec(&z.transpose().matvec(&coef));
                for i in 0..40 {
                    let gradient = fit[i] + ridge * smooth[i] + 2.0 * strength / 40.0 * penalty_term[i];
                    assert!(gradient.abs() < 1e-8, "{classes} classes, {o}: {gradient}");
                }
                assert!(residual.iter().sum::<f64>().abs() < 1e-8);
            }
        }
    }
}

/// A stronger penalty gives smaller protected values, and affects only these.
#[test]
fn protected_values_shrink_along_the_path() {
    let x = table(0, 60, 3);
    let y = targets(&x, 1);
    let wide = Kernel::gaussian(&[1.5, 1.5, 1.5]);
    for game in games(&x) {
        let blank = KernelExpansion::new(wide.clone(), x.clone(), Matrix::zeros(60, 1), vec![0.0]).unwrap();
        let z = Explainer::new(&blank, game.clone()).unwrap().functionals(&x, &[0]).unwrap().remove(0);
        let along = |strength: f64| {
            let mut estimator = KernelRidge::new(wide.clone(), 0.05);
            estimator.penalty = Some(Penalty::new(std::slice::from_ref(&z), strength));
            let model = estimator.fit(&x, &y).unwrap().model;
            let explanation = Explainer::new(&model, game.clone()).unwrap().explain(&x).unwrap();
            let error = model.predict(&x).unwrap();
            let error: f64 = error.data().iter().zip(y.data()).map(|(a, b)| (a - b).powi(2)).sum();
            (explanation.mean_abs(0), error)
        };
        let path: Vec<(Vec<f64>, f64)> = [0.0, 0.3, 10.0, 300.0, 1e4].map(along).to_vec();
        for pair in path.windows(2) {
            assert!(pair[1].0[0] < pair[0].0[0] && pair[1].1 > pair[0].1, "{pair:?}");
        }
        assert!(path[4].0[0] < 0.03 * path[0].0[0], "{path:?}");
        assert!((1..3).all(|j| path[4].0[j] > 0.2 * path[0].0[j]), "{path:?}");
    }
}

#[test]
fn invalid_penalties_are_refused() {
    let x = table(0, 10, 3);
    let mut estimator = KernelRidge::new(kernel(), 0.1);
    estimator.penalty = Some(Penalty::new(&[Matrix::zeros(9, 9)], 1.0));
    assert!(estimator.fit(&x, &targets(&x, 1)).unwrap_err().to_string().contains("9 rows, but 10"));
    estimator.penalty = Some(Penalty::new(&[Matrix::zeros(10, 10)], -1.0));
    assert!(estimator.fit(&x, &targets(&x, 1)).unwrap_err().to_string().contains("strength = -1"));
    assert!(estimator.loo_path(&x, &targets(&x, 1), &[0.1]).unwrap_err().to_string().contains("penalty"));
    // Two equal rows: a singular gram matrix.
    let twice = x.select_rows(&[0, 0, 1, 2, 3]);
    let mut estimator = KernelRidge::new(kernel(), 0.1);
    estimator.penalty = Some(Penalty::new(&[functionals(&twice, games(&twice)[0].clone(), 0)], 1.0));
    let model = estimator.fit(&twice, &targets(&twice, 1)).unwrap().model;
    let again = model.predict(&twice).unwrap();
    assert!((again[(0, 0)] - again[(1, 0)]).abs() < 1e-12 && Cholesky::new(kernel().gram(&x), "k").is_ok());
}

/// A path over strengths needs fewer steps than separate fits from zero, and gives the same models.
#[test]
fn logistic_paths_are_warm_started() {
    let x = table(0, 60, 3);
    let kernel = Kernel::gaussian(&[0.8, 0.8, 0.8]);
    for classes in [2, 3] {
        let names: Vec<String> = (0..classes).map(|c| format!("c{c}")).collect();
        let labels: Vec<usize> = (0..60)
            .map(|i| ((x.get(i, 0) + x.get(i, 1) + 3.0) as usize * classes / 6).min(classes - 1))
            .collect();
        let game = games(&x)[0].clone();
        let z = {
            let blank =
                KernelExpansion::new(kernel.clone(), x.clone(), Matrix::zeros(60, 1), vec![0.0]).unwrap();
            Explainer::new(&blank, game).unwrap().functionals(&x, &[0]).unwrap().remove(0)
        };
        let mut warm = KernelLogisticRegression::new(kernel.clone(), 0.01);
        let (mut from_zero, mut from_before) = (0, 0);
        for strength in [0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0] {
            warm.penalty = Some(Penalty::new(std::slice::from_ref(&z), strength));
            let cold =
                KernelLogisticRegression { start: None, ..warm.clone() }.fit(&x, &labels, &names).unwrap();
            let warm_fit = warm.fit(&x, &labels, &names).unwrap();
            from_zero += cold.iterations;
            from_before += warm_fit.iterations;
            assert!((warm_fit.objective - cold.objective).abs() < 1e-9 * cold.objective);
            let (a, b) = (warm_fit.model.predict(&x).unwrap(), cold.model.predict(&x).unwrap());
            assert!(a.data().iter().zip(b.data()).all(|(a, b)| (a - b).abs() < 1e-6), "{classes} {strength}");
            warm.start = Some(warm_fit.end);
        }
        println!("{classes} classes: {from_before} steps after one another, {from_zero} from zero");
        assert!(5 * from_before < 4 * from_zero, "{classes} classes: {from_before} {from_zero}");
        warm.start.as_mut().unwrap().intercept.push(0.0);
        assert!(warm.fit(&x, &labels, &names).unwrap_err().to_string().contains("intercepts"));
    }
}

/// Beyond 16 players the observational functional is estimated. It is exact with all coalitions, more
/// accurate with more of them, and nearly unbiased over seeds.
#[test]
fn sampled_functionals_converge_to_the_exact_one() {
    let (d, n) = (17, 5);
    let rows: Vec<Vec<f64>> = (0..n).map(|i| (0..d).map(|j| number(i, j)).collect()).collect();
    let x = Table::from_rows(&rows).unwrap();
    let kernel = Kernel::gaussian(&vec![3.0; d]);
    let game = Game::Observational {
        reference: x.clone().into(),
        conditional: Conditioning::with_ridge(0.01).into(),
    };
    let penalty = |coalitions: usize, seed: u64| {
        let budget = Budget { coalitions, std_error: None, seed };
        let question = Question::from(game.clone()).with_budget(budget);
        shapley_penalty::shapley_penalty(&kernel, &x, question, &["x2"], 2.0)
    };
    let exact = penalty(1 << 17, 0).unwrap();
    assert_eq!(exact.sampled, None);
    // The value of a model with one coefficient, by the explaining engine.
    let coef = Matrix::column_vector((0..n).map(|i| f64::from(u8::from(i == 1))).collect());
    let unit = KernelExpansion::new(kernel.clone(), x.clone(), coef, vec![0.0]).unwrap();
    let budget = Budget { coalitions: 1 << 17, ..Budget::default() };
    let question = Question::from(game.clone()).with_budget(budget);
    let values = Explainer::new(&unit, question).unwrap().explain(&x).unwrap();
    for r in 0..n {
        assert!((exact.functionals[(1, r)] - values.row_values(r, 0)[2]).abs() < 1e-10);
    }
    let error_and_bias = |coalitions: usize| {
        let (mut square, mut bias) = (0.0, vec![0.0; n * n]);
        for seed in 0..20 {
            let sampled = penalty(coalitions, seed).unwrap();
            assert_eq!(sampled.sampled, Some(coalitions));
            for (t, (a, b)) in sampled.functionals.data().iter().zip(exact.functionals.data()).enumerate() {
                square += (a - b).powi(2);
                bias[t] += (a - b) / 20.0;
            }
        }
        let typical = (square / 20.0).sqrt();
        (typical, bias.iter().map(|b| b * b).sum::<f64>().sqrt())
    };
    let size = exact.functionals.data().iter().map(|v| v * v).sum::<f64>().sqrt();
    let (small_sample, large_sample) = (error_and_bias(100), error_and_bias(3000));
    assert!(
        small_sample.0 < 0.2 * size && large_sample.0 < 0.3 * small_sample.0,
        "{small_sample:?} {large_sample:?} {size}"
    );
    assert!(
        small_sample.1 < 0.6 * small_sample.0 && large_sample.1 < 0.6 * large_sample.0,
        "{small_sample:?} {large_sample:?}"
    );
    assert!(penalty(33, 0).unwrap_err().to_string().contains("17 features takes at least 34"));
    let y = targets(&x, 1);
    let mut estimator = KernelRidge::new(kernel.clone(), 0.1);
    estimator.penalty = Some(penalty(100, 0).unwrap());
    let card = estimator.fit(&x, &y).unwrap().model.model_card;
    let penalty_fact = card.iter().find(|fact| fact.name == "penalty").unwrap();
    assert!(penalty_fact.value.contains("estimated from 100 coalitions"));
    estimator.penalty = Some(exact);
    assert!(estimator.fit(&x, &y).unwrap().model.model_card.iter().all(|fact| fact.name != "penalty"));
}

/// Penalties through landmarks and random features approach the exact ones; with all rows as landmarks they
/// agree.
#[test]
fn penalties_are_learnt_through_landmarks() {
    let x = table(0, 40, 3);
    let kernel = Kernel::gaussian(&[0.8, 0.8, 0.8]);
    let functionals_with = |approximation| {
        let conditioning = Conditioning { approximation, ..Conditioning::with_ridge(0.05) };
        let game = Game::Observational { reference: x.clone().into(), conditional: conditioning.into() };
        shapley_penalty::shapley_penalty(&kernel, &x, game, &["x0"], 1.0).unwrap().functionals
    };
    let far = |a: &Matrix, b: &Matrix| {
        let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
        norm(&mut a.data().iter().zip(b.data()).map(|(a, b)| a - b)) / norm(&mut b.data().iter().copied())
    };
    let exact = functionals_with(Approximation::Exact);
    let error_40 = far(&functionals_with(Approximation::Landmarks(40)), &exact);
    let (error_5, error_30) = (
        far(&functionals_with(Approximation::Landmarks(5)), &exact),
        far(&functionals_with(Approximation::Landmarks(30)), &exact),
    );
    let features = far(&functionals_with(Approximation::RandomFeatures(3000)), &exact);
    assert!(
        error_40 < 1e-5 && error_30 < error_5 && error_5 < 1.0 && features < 0.3,
        "{error_40} {error_30} {error_5} {features}"
    );
}

/// The values of a player at the training rows, by the explaining engine.
fn explained(model: &KernelExpansion, game: Game, x: &Table, player: usize) -> Vec<f64> {
    let explanation = Explainer::new(model, game).unwrap().explain(x).unwrap();
    (0..x.rows()).map(|i| explanation.row_values(i, 0)[player]).collect()
}

/// At the optimum of `|y - Kα|² + ridge αᵀKα + (strength/n) Σ d²` the gradient is zero, where d is the
/// distance of a value from its range. A strong penalty gives values within the range; a wide range changes
/// nothing.
#[test]
fn ranges_meet_their_optimality_conditions() {
    let x = table(0, 40, 3);
    let (y, gram) = (targets(&x, 1), kernel().gram(&x));
    let targets_by_row = |i: usize| 0.1 * (i as f64).sin();
    for game in games(&x) {
        for (strength, range, equal) in [
            (50.0, (0.0, f64::INFINITY), false),
            (1e4, (0.0, f64::INFINITY), false),
            (50.0, (-0.05, 0.1), false),
            (50.0, (f64::NEG_INFINITY, -0.1), false),
            (500.0, (0.2, 0.2), false),
            (500.0, (0.0, 0.0), true),
            (500.0, (-0.05, 0.05), true),
        ] {
            let prior = ValuePrior { strength, range, equal };
            let protected = if equal { vec!["x0", "x1"] } else { vec!["x0"] };
            let mut penalty =
                shapley_penalty::shapley_penalty(&kernel(), &x, game.clone(), &protected, prior).unwrap();
            if range == (0.2, 0.2) {
                penalty.ranges = Some((0..40).map(|i| (targets_by_row(i), targets_by_row(i))).collect());
            }
            let z = penalty.functionals.clone();
            let ranges = penalty.ranges.clone().unwrap_or_else(|| vec![(0.0, 0.0); 40]);
            let mut estimator = KernelRidge::new(kernel(), 0.3);
            (estimator.center, estimator.penalty) = (false, Some(penalty));
            let model = estimator.fit(&x, &y).unwrap().model;
            let alpha = model.coef.column(0);
            let values = z.transpose_matvec(&alpha);
            let expected = explained(&model, game.clone(), &x, 0);
            let second = explained(&model, game.clone(), &x, 1);
            for i in 0..40 {
                let value = if equal { expected[i] - second[i] } else { expected[i] };
                assert!((values[i] - value).abs() < 1e-9);
            }
            let distances: Vec<f64> =
                values.iter().zip(&ranges).map(|(v, (low, high))| v - v.max(*low).min(*high)).collect();
            let residual: Vec<f64> = gram
                .matvec(&alpha)
                .iter()
                .zip(y.data())
                .zip(&alpha)
                .map(|((f, y), a)| f - y + 0.3 * a)
                .collect();
            let (fit, pull) = (gram.matvec(&residual), z.matvec(&distances));
            for i in 0..40 {
                let gradient = fit[i] + strength / 40.0 * pull[i];
                assert!(gradient.abs() < 1e-8, "{prior:?}: {gradient}");
            }
            let largest = distances.iter().fold(0.0, |largest: f64, d| largest.max(d.abs()));
            let unpenalised = KernelRidge { penalty: None, ..estimator.clone() }.fit(&x, &y).unwrap().model;
            let before = z.transpose_matvec(&unpenalised.coef.column(0));
            let outside = before.iter().zip(&ranges).filter(|(v, r)| **v < r.0 || **v > r.1).count();
            assert!(outside > 5, "{prior:?}: {outside}");
            let distance = |(v, r): (&f64, &(f64, f64))| (v - v.max(r.0).min(r.1)).abs();
            let largest_before = before.iter().zip(&ranges).map(distance).fold(0.0, f64::max);
            assert!(
                largest < if strength == 1e4 { 0.1 } else { 1.0 } * largest_before,
                "{largest} {largest_before}"
            );
        }
        let wide = ValuePrior { strength: 1e3, range: (-1e3, 1e3), equal: false };
        let mut estimator = KernelRidge::new(kernel(), 0.3);
        let plain = estimator.fit(&x, &y).unwrap().model;
        estimator.penalty =
            Some(shapley_penalty::shapley_penalty(&kernel(), &x, game.clone(), &["x0"], wide).unwrap());
        let penalised = estimator.fit(&x, &y).unwrap().model;
        assert!(plain.coef.data().iter().zip(penalised.coef.data()).all(|(a, b)| (a - b).abs() < 1e-9));
    }
}

/// The gradient is zero for logistic regression too, whose inner problem is not quadratic.
#[test]
fn ranges_of_log_odds_meet_their_optimality_conditions() {
    let x = table(0, 40, 3);
    let gram = kernel().gram(&x);
    let names = ["no".to_string(), "yes".to_string()];
    let labels: Vec<usize> = (0..40).map(|i| (i * i + i / 3) % 2).collect();
    for (range, game) in [((0.0, f64::INFINITY), 0), ((-0.1, 0.2), 1), ((0.3, 0.3), 0)] {
        let game = games(&x)[game].clone();
        let (ridge, strength) = (0.2, 30.0);
        let prior = ValuePrior { strength, range, equal: false };
        let penalty = shapley_penalty::shapley_penalty(&kernel(), &x, game, &["x1"], prior).unwrap();
        let z = penalty.functionals.clone();
        let mut estimator = KernelLogisticRegression::new(kernel(), ridge);
        estimator.penalty = Some(penalty);
        let model = estimator.fit(&x, &labels, &names).unwrap().model;
        let predicted = model.predict(&x).unwrap();
        let alpha = model.coef.column(0);
        let values = z.transpose_matvec(&alpha);
        let distances: Vec<f64> = values.iter().map(|v| v - v.max(range.0).min(range.1)).collect();
        assert!(distances.iter().filter(|d| **d != 0.0).count() > 5);
        let residual: Vec<f64> = (0..40)
            .map(|i| 1.0 / (1.0 + (-predicted[(i, 0)]).exp()) - labels[i] as f64 + ridge * alpha[i])
            .collect();
        let (fit, pull) = (gram.matvec(&residual), z.matvec(&distances));
        for i in 0..40 {
            let gradient = fit[i] + 2.0 * strength / 40.0 * pull[i];
            assert!(gradient.abs() < 1e-8, "{range:?}: {gradient}");
        }
    }
    let prior = ValuePrior { strength: 1.0, range: (0.0, f64::INFINITY), equal: false };
    let penalty =
        shapley_penalty::shapley_penalty(&kernel(), &x, games(&x)[0].clone(), &["x1"], prior).unwrap();
    let mut estimator = KernelLogisticRegression::new(kernel(), 0.2);
    estimator.penalty = Some(penalty);
    let three: Vec<usize> = (0..40).map(|i| i % 3).collect();
    let names = ["a", "b", "c"].map(String::from);
    let error = estimator.fit(&x, &three, &names).unwrap_err().to_string();
    assert!(error.contains("ranges of values need one output"), "{error}");
}

/// Penalised support vector machines have no duality gap: for the dual coefficients β of the loss, the
/// coefficients are `α = α₀ + M⁻¹ K β` with `M = K + 2 (strength/n) Z Zᵀ`, and complementary slackness holds.
#[test]
fn support_vector_machines_are_penalised() {
    let x = table(0, 40, 3);
    let (gram, n) = (kernel().gram(&x), 40);
    let y = targets(&x, 1);
    for game in games(&x) {
        for (strength, range) in
            [(5.0, (0.0, 0.0)), (60.0, (0.0, 0.0)), (60.0, (0.0, f64::INFINITY)), (60.0, (0.1, 0.1))]
        {
            let prior = ValuePrior { strength, range, equal: false };
            let penalty =
                shapley_penalty::shapley_penalty(&kernel(), &x, game.clone(), &["x0"], prior).unwrap();
            let z = penalty.functionals.clone();
            let (c, epsilon) = (2.0, 0.05);
            let mut svr = SupportVectorRegressor::new(kernel(), c, epsilon);
            (svr.tolerance, svr.penalty) = (1e-10, Some(penalty.clone()));
            let regression = svr.fit(&x, y.data()).unwrap();
            let labels: Vec<usize> = (0..n).map(|i| usize::from(y[(i, 0)] > 0.3)).collect();
            let mut svc = SupportVectorClassifier::new(kernel(), c);
            (svc.tolerance, svc.penalty) = (1e-10, Some(penalty));
            let classifier = svc.fit(&x, &labels, &["no".into(), "yes".into()]).unwrap();
            assert_eq!(classifier.support.len(), n);
            for (model, is_classifier) in [(regression.model, false), (classifier.model, true)] {
                let alpha = model.coef.column(0);
                let f = model.predict(&x).unwrap().into_data();
                let values = z.transpose_matvec(&alpha);
                let distances: Vec<f64> = values.iter().map(|v| v - v.max(range.0).min(range.1)).collect();
                // Stationarity: K β = K α + 2 (strength/n) Z d gives the dual coefficients of the loss.
                let pull = z.matvec(&distances);
                let smooth = gram.matvec(&alpha);
                let right: Vec<f64> =
                    smooth.iter().zip(&pull).map(|(s, p)| s + 2.0 * strength / n as f64 * p).collect();
                let beta = lu_solve(&gram, &right);
                assert!(beta.iter().sum::<f64>().abs() < 1e-6);
                for i in 0..n {
                    let (slack, bound) = if is_classifier {
                        let sign = if labels[i] == 1 { 1.0 } else { -1.0 };
                        assert!(sign * beta[i] > -1e-6 && sign * beta[i] < c + 1e-6);
                        (sign * f[i] - 1.0, sign * beta[i])
                    } else {
                        assert!(beta[i].abs() < c + 1e-6);
                        (epsilon - (y[(i, 0)] - f[i]).abs(), beta[i].abs())
                    };
                    // Rows beyond the margin have no coefficient, rows within it the largest one.
                    assert!(slack < 1e-6 || bound < 1e-6, "{prior:?}, {is_classifier}: {slack} {bound}");
                    assert!(slack > -1e-6 || bound > c - 1e-6, "{prior:?}, {is_classifier}: {slack} {bound}");
                }
            }
        }
    }
    // Rows of weight 0 are no training rows; the pairs of three classes share the penalty.
    let kept: Vec<usize> = (0..n).filter(|i| i % 4 != 0).collect();
    let fewer = x.select_rows(&kept);
    let game = games(&fewer)[0].clone();
    let penalty = shapley_penalty::shapley_penalty(&kernel(), &fewer, game.clone(), &["x0"], 1e4).unwrap();
    let labels: Vec<usize> = (0..n).map(|i| (i * i + i / 3) % 3).collect();
    let names = ["a", "b", "c"].map(String::from);
    let mut svc = SupportVectorClassifier::new(kernel(), 2.0);
    svc.penalty = Some(penalty);
    svc.sample_weight = Some((0..n).map(|i| if i % 4 == 0 { 0.0 } else { 1.0 }).collect());
    let weighted = svc.fit(&x, &labels, &names).unwrap();
    assert_eq!(weighted.support, kept);
    svc.sample_weight = None;
    let reduced = svc.fit(&fewer, &kept.iter().map(|&i| labels[i]).collect::<Vec<_>>(), &names).unwrap();
    assert_eq!(weighted.model.coef, reduced.model.coef);
    let labels = kept.iter().map(|&i| labels[i]).collect::<Vec<_>>();
    svc.penalty = None;
    let plain = svc.fit(&fewer, &labels, &names).unwrap().model;
    let explain = |model| Explainer::new(model, game.clone()).unwrap().explain(&fewer).unwrap();
    let (importance, plain) = (explain(&reduced.model), explain(&plain));
    for o in 0..3 {
        let importance = importance.mean_abs(o);
        let plain = plain.mean_abs(o);
        assert!(importance[0] < 0.1 * plain[0], "{importance:?} {plain:?}");
    }
}

/// The penalised posterior is that of the Gaussian vector (f(X), f(X*)) given the targets and the noisy
/// values `Zᵀ K⁻¹ f(X)`; its mean is penalised ridge regression.
#[test]
fn processes_are_conditioned_on_their_values() {
    let (x, new) = (table(0, 25, 3), table(1, 6, 3));
    let y = targets(&x, 1);
    let (n, m, noise, strength) = (25, 6, 0.05, 3.0);
    let mut process = GaussianProcess::new(kernel(), noise);
    (process.tune, process.normalize_y) = (TunedParameters::Nothing, false);
    let plain = process.fit(&x, &y).unwrap();
    let mut ridge = KernelRidge::new(kernel(), noise);
    ridge.center = false;
    for game in games(&x) {
        for target in [0.0, 0.3] {
            let prior = ValuePrior { strength, range: (target, target), equal: false };
            let penalty =
                shapley_penalty::shapley_penalty(&kernel(), &x, game.clone(), &["x0"], prior).unwrap();
            let fit = plain.clone().with_penalty(&penalty).unwrap();
            ridge.penalty = Some(penalty.clone());
            let expected = ridge.fit(&x, &y).unwrap().model;
            let close = |a: &Matrix, b: &Matrix, tolerance: f64| {
                a.data().iter().zip(b.data()).all(|(a, b)| (a - b).abs() < tolerance)
            };
            assert!(close(&fit.model.coef, &expected.coef, 1e-8));
            // Joint conditioning: rows of A are the observed functionals of (f(X), f(X*)).
            let stacked = x.stack(&new).unwrap();
            let joint = kernel().gram(&stacked);
            let gram = kernel().gram(&x);
            let interpolant = Cholesky::new(gram, "gram").unwrap().solve(penalty.functionals.clone());
            let mut observed = Matrix::zeros(n + m, 2 * n);
            for i in 0..n {
                observed[(i, i)] = 1.0;
                (0..n).for_each(|j| observed[(i, n + j)] = interpolant[(i, j)]);
            }
            let cross = joint.matmul(&observed);
            let mut system = observed.transpose_matmul(&cross);
            system.add_diagonal(|k| if k < n { noise } else { n as f64 * noise / strength });
            let system = Cholesky::new(system, "system").unwrap();
            let mut data = y.data().to_vec();
            data.extend(vec![target; n]);
            let mean = cross.matmul(&system.solve(Matrix::column_vector(data)));
            let mut covariance = joint.clone();
            covariance.add_times(-1.0, &cross.matmul(&system.solve(cross.transpose())));
            let predicted = fit.model.predict(&stacked).unwrap();
            assert!(close(&predicted, &mean, 1e-8));
            let functionals = fit.posterior().functionals_at(&stacked).unwrap();
            assert!(close(&fit.posterior().covariance(&functionals)[0], &covariance, 1e-8));
            // The values are shrunk towards the target, and known better.
            let sd = |fit: &riesz::fit::GpFit| {
                let explainer = Explainer::new(&fit.model, game.clone()).unwrap();
                let values = explainer.posterior_functionals(&x).unwrap();
                let covariance = &fit.posterior().covariance(&values)[0];
                (0..n).map(|i| covariance[(3 * i, 3 * i)].sqrt()).sum::<f64>()
            };
            assert!(sd(&fit) < sd(&plain), "{} {}", sd(&fit), sd(&plain));
        }
    }
    let sign = ValuePrior { strength, range: (0.0, f64::INFINITY), equal: false };
    let penalty =
        shapley_penalty::shapley_penalty(&kernel(), &x, games(&x)[0].clone(), &["x0"], sign).unwrap();
    let error = plain.clone().with_penalty(&penalty).unwrap_err().to_string();
    assert!(error.contains("0 to inf") && error.contains("normal only with targets"), "{error}");
}

#[test]
fn impossible_ranges_are_refused() {
    let x = table(0, 10, 3);
    let game = games(&x)[0].clone();
    let fit = |range: (f64, f64)| {
        let prior = ValuePrior { strength: 1.0, range, equal: false };
        let mut estimator = KernelRidge::new(kernel(), 0.1);
        estimator.penalty =
            Some(shapley_penalty::shapley_penalty(&kernel(), &x, game.clone(), &["x0"], prior).unwrap());
        estimator.fit(&x, &targets(&x, 1))
    };
    for range in [(1.0, 0.0), (f64::NAN, 0.0), (f64::INFINITY, f64::INFINITY)] {
        assert!(fit(range).unwrap_err().to_string().contains("range of values"), "{range:?}");
    }
    let mut estimator = KernelRidge::new(kernel(), 0.1);
    let mut penalty = Penalty::new(&[functionals(&x, game.clone(), 0)], 1.0);
    penalty.ranges = Some(vec![(0.0, 1.0); 3]);
    estimator.penalty = Some(penalty.clone());
    assert!(estimator.fit(&x, &targets(&x, 1)).unwrap_err().to_string().contains("one for each functional"));
    penalty.ranges = Some(vec![(0.0, 1.0); 10]);
    estimator.penalty = Some(penalty);
    assert!(estimator.fit(&x, &targets(&x, 2)).unwrap_err().to_string().contains("need one output"));
    let equal = ValuePrior { strength: 1.0, range: (0.0, 0.0), equal: true };
    let error = shapley_penalty::shapley_penalty(&kernel(), &x, game, &["x0"], equal).unwrap_err();
    assert!(error.to_string().contains("features with equal values"), "{error}");
}
