//! The proved bound against exact values by other means: fractions of integers, closed forms, and sums and
//! products that are rounded once or have twice the digits.

use riesz::discrepancy::{AttributionRequest, FactorKind, MmdEstimator, TestSettings};
use riesz::kernel::{Categorical, Linear, Periodic, Polynomial, Profile, Stationary};
use riesz::{
    Background, Conditioning, Exactness, Explainer, Explanation, Game, IndependenceTest, Kernel,
    KernelExpansion, Matrix, Players, Question, Result, Table, TwoSampleTest,
};

use crate::common::{Stream, stationary};

fn linear(column: usize, center: f64, scale: f64) -> Kernel {
    Linear { columns: vec![column], center: vec![center], scale: vec![scale] }.into()
}

fn model(kernel: Kernel, points: &[Vec<f64>], coef: &[f64]) -> Result<KernelExpansion> {
    KernelExpansion::new(kernel, Table::from_rows(points)?, Matrix::column_vector(coef.to_vec()), vec![0.0])
}

fn explain(kernel: Kernel, points: &[Vec<f64>], coef: &[f64], x: &[f64], game: Game) -> Result<Explanation> {
    let model = model(kernel, points, coef)?;
    let explanation = Explainer::new(&model, game)?.explain(&Table::from_rows(&[x.to_vec()])?)?;
    explanation.validate()?;
    assert!(explanation.certificate().unwrap().holds, "{:?}", explanation.certificate());
    Ok(explanation)
}

/// Returns the value and its bound for one support point with one column and coefficient 1.
fn single_point_value(kernel: Kernel, point: f64, x: f64, game: Game) -> Result<(f64, f64)> {
    let explanation = explain(kernel, &[vec![point]], &[1.0], &[x], game)?;
    Ok((explanation.values[0], bound(&explanation)))
}

fn bound(explanation: &Explanation) -> f64 {
    let Exactness::Exact { bound } = &explanation.exactness else { panic!("not exact") };
    bound[0]
}

fn table(column: &[f64]) -> Table {
    Table::from_rows(&column.iter().map(|v| [*v]).collect::<Vec<_>>()).unwrap()
}

fn baseline(row: &[f64]) -> Game {
    Game::Baseline { point: Table::from_rows(&[row.to_vec()]).unwrap() }
}

/// Returns `a - b` and its rounding error.
fn difference(a: f64, b: f64) -> (f64, f64) {
    let d = a - b;
    let back = d - a;
    (d, (a - (d - back)) - (b + back))
}

/// Returns `a / b` and its rounding error.
fn quotient(a: (f64, f64), b: f64) -> (f64, f64) {
    let q = a.0 / b;
    (q, ((-q).mul_add(b, a.0) + a.1) / b)
}

/// Returns `a²/2` with twice the digits.
fn half_square(a: (f64, f64)) -> (f64, f64) {
    let s = a.0 * a.0;
    (0.5 * s, 0.5 * a.0.mul_add(a.0, -s) + a.0 * a.1)
}

/// Returns a Gaussian factor to the last digits.
fn gaussian(u: f64, v: f64, length_scale: f64) -> f64 {
    let s = half_square(quotient(difference(u, v), length_scale));
    (-s.0).exp() * (1.0 - s.1)
}

fn marginal(rows: &[Vec<f64>]) -> Game {
    Game::MarginalProduct { background: Background::from(Table::from_rows(rows).unwrap()) }
}

#[test]
fn means_that_cancel() {
    for (x, background, truth) in [
        (0.0, [1e16, 1.0, -1e16], -1.0 / 3.0),
        (2.0, [1.0, 1e16, -1e16], 5.0 / 3.0),
        (0.0, [3e15, -3e15 + 2.0, 7.0], -3.0),
    ] {
        let rows: Vec<Vec<f64>> = background.iter().map(|b| vec![*b]).collect();
        let (value, bound) = single_point_value(linear(0, 0.0, 1.0), 1.0, x, marginal(&rows)).unwrap();
        assert!((value - truth).abs() <= bound, "{value} {truth} {bound:e}");
    }
}

/// Products of linear factors of integers, against exact fractions.
#[test]
fn means_of_whole_numbers() {
    let mut s = Stream(3);
    for _ in 0..2000 {
        let n = 1 + (s.uniform() * 6.0) as usize;
        let integer = |s: &mut Stream, size: f64| (s.signed() * size).round();
        let mut background: Vec<Vec<f64>> =
            (0..n).map(|_| vec![integer(&mut s, 1e11), integer(&mut s, 9.0)]).collect();
        // The sum of the background's first column is often small.
        let remainder: f64 = background[1..].iter().map(|b| b[0]).sum();
        background[0][0] = integer(&mut s, 3.0) - remainder;
        let (p, x) = ([integer(&mut s, 9.0), 1.0], [integer(&mut s, 9.0), integer(&mut s, 9.0)]);
        let kernel = linear(0, 0.0, 1.0) * linear(1, 0.0, 1.0);
        let explanation = explain(kernel, &[p.to_vec()], &[1.0], &x, marginal(&background)).unwrap();
        let sum = |j: usize| background.iter().map(|b| b[j] as i128).sum::<i128>() * p[j] as i128;
        let present = |j: usize| n as i128 * p[j] as i128 * x[j] as i128;
        for (j, l) in [(0, 1), (1, 0)] {
            let truth = ((present(j) - sum(j)) * (present(l) + sum(l))) as f64 / (2 * n * n) as f64;
            let error = (explanation.values[j] - truth).abs();
            assert!(
                error <= bound(&explanation) + f64::EPSILON * truth.abs(),
                "{error:e} {:e}",
                bound(&explanation)
            );
        }
    }
}

#[test]
fn polynomials_that_cancel() {
    let kernel = |degree| -> Kernel {
        let (columns, center, scale) = (vec![0], vec![0.0], vec![1.0]);
        Polynomial { columns, center, scale, gamma: 1.0, coef0: 1.0, degree }.into()
    };
    let far = -1.0 / 3.0 * (1.0 + 1e-15);
    let mut s = Stream(5);
    let drawn = (0..2000).map(|_| (1.0 + 9.0 * s.uniform(), s.signed() * 1e-15, s.signed() * 1e-12));
    for (p, near, far) in std::iter::once((3.0, 0.0, -3.0 * far - 1.0)).chain(drawn) {
        let (x, b) = (-1.0 / p * (1.0 + near), -1.0 / p * (1.0 + far));
        for degree in [1, 2, 3] {
            let (value, bound) = single_point_value(kernel(degree), p, x, baseline(&[b])).unwrap();
            // Each base is rounded once.
            let evaluate = |v: f64| p.mul_add(v, 1.0).powi(degree as i32);
            let truth = evaluate(x) - evaluate(b);
            assert!((value - truth).abs() <= bound + 8e-16 * truth.abs(), "{p} {value} {truth} {bound:e}");
        }
    }
    // Several columns within one player.
    let value_and_bound = |kernel: Kernel| {
        let model = model(kernel, &[vec![3.0, 1e16]], &[1.0]).unwrap();
        let groups = Players::named(model.columns(), &[("both", vec!["x0", "x1"])]).unwrap();
        let game = baseline(&[-1.0 / 3.0, 0.0]);
        let question = Question::from(game).with_players(Some(groups));
        let rows = Table::from_rows(&[[1e16 / 3.0, -1.0]]).unwrap();
        let explanation = Explainer::new(&model, question).unwrap().explain(&rows).unwrap();
        assert!(explanation.certificate().unwrap().holds);
        (explanation.values[0], bound(&explanation))
    };
    let (center, scale) = (vec![0.0; 2], vec![1.0; 2]);
    let (value, bound) = value_and_bound(Linear { columns: vec![0, 1], center, scale }.into());
    let product = 3.0 * (1e16 / 3.0);
    let truth = 3.0_f64.mul_add(1e16 / 3.0, -product) + (product - 1e16) + 1.0;
    assert!((value - truth).abs() <= bound, "{value} {truth} {bound:e}");
}

/// An exponential factor with a large argument, multiplied by an inner product above 1.
#[test]
fn exponentials_times_large_numbers() {
    let mut s = Stream(7);
    for _ in 0..5000 {
        let size = 10.0_f64.powf(100.0 * s.uniform());
        let (p, x) = (size * (1.0 + s.uniform()), -size * (1.0 + s.uniform()));
        let length_scale = size * (0.06 + s.uniform());
        let kernel = stationary(Profile::Gaussian, 0, length_scale) * linear(0, 0.0, 1.0);
        let (value, bound) = single_point_value(kernel, p, x, Game::Functional).unwrap();
        let truth = p * x * gaussian(p, x, length_scale) - 1.0;
        let error = (value - truth).abs() - 1e-15 * (truth.abs() + 1.0);
        assert!(error <= bound, "{p} {x} {length_scale}: {value} {truth}, {error:e} > {bound:e}");
    }
}

fn rational(alpha: f64) -> Kernel {
    stationary(Profile::RationalQuadratic { alpha }, 0, 1.0)
}

#[test]
fn extreme_parameters_are_refused_or_right() {
    let refused = |kernel: Kernel, name: &str| {
        let error = model(kernel, &[vec![0.5]], &[1.0]).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("a positive number, from 1e-"), "{error}");
    };
    refused(linear(0, 0.0, 1e170), "scale");
    refused(rational(1e308), "alpha");
    refused(rational(1e-310), "alpha");
    refused(stationary(Profile::Gaussian, 0, 1e-310), "length_scale");
    refused(Periodic { columns: [0], period: 1e-300, length_scale: 1.0 }.into(), "period");
    // exp(-α ln(1 + r²/(2α))) where r² leaves the range of doubles.
    for (alpha, r) in
        [(1e-3_f64, 1e200_f64), (1e-3, 1e3), (1e-100, 1e100), (2.0, 1e-3), (1e100, 3.0), (1e-2, 1e154)]
    {
        let z: f64 = (0.5 * r / alpha) * r;
        let log = if z < 1e300 { z.ln_1p() } else { 2.0 * f64::ln(r) - f64::ln(2.0 * alpha) };
        let truth = (-alpha * log).exp_m1();
        let (value, bound) = single_point_value(rational(alpha), 0.0, r, Game::Functional).unwrap();
        assert!(bound < 1e-12 && (value - truth).abs() <= bound, "{alpha} {r}: {value} {truth} {bound:e}");
    }
}

#[test]
fn factors_below_the_range_of_doubles() {
    // The factor e^-708 rounds to 0, and the coefficient is huge.
    let r = |s: f64| (2.0 * s).sqrt();
    let rbf = |j| stationary(Profile::Gaussian, j, 1.0);
    let explanation = explain(rbf(0), &[vec![0.0]], &[1e300], &[r(708.0)], baseline(&[r(720.0)])).unwrap();
    let truth = 1e300 * ((-708.0_f64).exp() - (-720.0_f64).exp());
    assert!(
        (explanation.values[0] - truth).abs() <= bound(&explanation),
        "{} {truth} {:e}",
        explanation.values[0],
        bound(&explanation)
    );
    // A factor that the present and the absent side share.
    let (x, b) = ([r(708.0), 0.0], [r(708.0), 1.0]);
    let explanation = explain(rbf(0) * rbf(1), &[vec![0.0; 2]], &[1e300], &x, baseline(&b)).unwrap();
    let truth = 1e300 * (-708.0_f64).exp() * (1.0 - (-0.5_f64).exp());
    assert!(
        (explanation.values[1] - truth).abs() <= bound(&explanation),
        "{} {truth} {:e}",
        explanation.values[1],
        bound(&explanation)
    );
    // Many factors that are not small, but whose product is.
    let d = 800;
    let kernel = Kernel::gaussian(&vec![1.0; d]);
    let (x, b) = (vec![r(1.0); d], [vec![r(1.0); d - 1], vec![0.0]].concat());
    let explanation = explain(kernel, &[vec![0.0; d]], &[1e300], &x, baseline(&b)).unwrap();
    let truth = 1e300 * (-799.0_f64).exp() * (-1.0_f64).exp_m1();
    assert!(
        (explanation.values[d - 1] - truth).abs() <= bound(&explanation),
        "{} {truth}",
        explanation.values[d - 1]
    );
    // An inner product multiplies an underflowing exponential.
    for (lift, row) in [(1e140, 708.0), (1e140, 700.0)] {
        let kernel = rbf(0) * linear(1, 0.0, 1.0) * linear(2, 0.0, 1.0);
        let points = [vec![0.0, lift, lift]];
        let explanation =
            explain(kernel, &points, &[1.0], &[r(row), lift, lift], baseline(&[r(row), 0.0, lift])).unwrap();
        let truth = lift * lift * (-row).exp() * lift * lift;
        assert!(
            (explanation.values[1] - truth).abs() <= bound(&explanation),
            "{} {truth}",
            explanation.values[1]
        );
    }
}

#[test]
fn not_a_number_is_not_an_answer() {
    let kernel = Periodic { columns: [0], period: 1e-150, length_scale: 1.0 };
    let error = single_point_value(kernel.into(), 1e200, -1e200, Game::Functional).unwrap_err().to_string();
    assert!(error.contains("periodic") && error.contains("x0"), "{error}");
    let error =
        single_point_value(linear(0, 0.0, 1e-100), 1e200, 1.0, baseline(&[1e200])).unwrap_err().to_string();
    assert!(error.contains("linear") && error.contains("x0"), "{error}");
}

/// The smallest positive coefficient.
#[test]
fn subnormal_coefficients_are_certified() {
    for coef in [5e-324, 1e-310, -3e-308, 1e-290] {
        for background in [vec![vec![0.3, 0.7]], vec![vec![0.3, 0.1], vec![-2.0, 0.4], vec![0.0, 0.0]]] {
            let game = Game::Interventional { background: Table::from_rows(&background).unwrap().into() };
            let points = [vec![0.1, 0.9], vec![0.5, 0.5], vec![2.0, -1.0]];
            explain(Kernel::gaussian(&[1.0, 2.0]), &points, &[coef; 3], &[0.6, 0.2], game).unwrap();
        }
    }
}

/// Bounds of ordinary explanations are within a few hundred roundings of the summed terms.
#[test]
fn ordinary_bounds_are_tight() {
    let (d, n) = (10, 300);
    let mut s = Stream(11);
    let mut rows = |n: usize| (0..n).map(|_| (0..d).map(|_| s.normal()).collect()).collect::<Vec<Vec<f64>>>();
    let (points, background, x) = (rows(n), rows(100), rows(1).remove(0));
    let coef: Vec<f64> = (0..n).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
    let kernel = Kernel::gaussian(&vec![5.0; d]);
    for (game, limit) in [
        (Game::Functional, 600.0),
        (Game::Interventional { background: Table::from_rows(&background).unwrap().into() }, 1000.0),
        (marginal(&background), 1000.0),
    ] {
        let explanation = explain(kernel.clone(), &points, &coef, &x, game.clone()).unwrap();
        let units = bound(&explanation) / (f64::EPSILON / 2.0 * n as f64);
        assert!(units < limit, "{}: {units}", game.name());
    }
}

/// With one player, a value is a prediction minus a mean: `e^{-r²/2}` far from the support point.
#[test]
fn observational_tails() {
    let mut s = Stream(13);
    for _ in 0..300 {
        let points: Vec<f64> = (0..3).map(|_| 15.0 + 3.0 * s.uniform()).collect();
        let game = Game::Observational {
            reference: table(&points[1..]).into(),
            conditional: Conditioning::with_ridge(100.0).into(),
        };
        let (value, bound) =
            single_point_value(stationary(Profile::Gaussian, 0, 1.0), 0.0, points[0], game).unwrap();
        let kernel_value = |v: f64| gaussian(0.0, v, 1.0);
        let truth = kernel_value(points[0]) - 0.5 * (kernel_value(points[1]) + kernel_value(points[2]));
        assert!((value - truth).abs() <= bound, "{points:?}: {value:e} {truth:e} {bound:e}");
    }
    // Two columns: with one reference row, the exact value follows from `W = k/(k + η)`.
    for _ in 0..300 {
        let [x, b] = [(); 2].map(|()| [15.0 + 3.0 * s.uniform(), 15.0 + 3.0 * s.uniform()]);
        let b = if s.uniform() < 0.5 { b } else { [b[0], 0.3] };
        let ridge = 100.0;
        let point = Table::from_rows(&[b]).unwrap();
        let (mut conditioning, kernel) = (Conditioning::with_ridge(ridge), Kernel::gaussian(&[1.0, 1.0]));
        conditioning.centered = false;
        let game = Game::Observational { reference: point.into(), conditional: conditioning.into() };
        let explanation = explain(kernel, &[vec![0.0; 2]], &[1.0], &x, game).unwrap();
        let kernel_value = |v: f64| gaussian(0.0, v, 1.0);
        let single_value = |j: usize| {
            let weight = gaussian(x[j], b[j], 1.0) / (1.0 + ridge);
            kernel_value(x[j]) * kernel_value(b[1 - j]) * weight
        };
        let (grand, none) =
            (kernel_value(x[0]) * kernel_value(x[1]), kernel_value(b[0]) * kernel_value(b[1]));
        for j in 0..2 {
            let truth = 0.5 * (single_value(j) - none) + 0.5 * (grand - single_value(1 - j));
            assert!(
                (explanation.values[j] - truth).abs() <= bound(&explanation),
                "{x:?} {b:?} {:e} {truth:e}",
                explanation.values[j]
            );
        }
    }
}

/// Rows move by less than the resolution of `1 - k`.
#[test]
fn robustness_to_the_smallest_moves() {
    let reference = [0.0];
    for delta in [1e-6, 1e-9, 1e-12, 1e-15] {
        for (profile, slope) in [
            (Profile::Gaussian, (-0.5_f64).exp()),
            (Profile::Exponential, (-1.0_f64).exp()),
            (Profile::Matern52, {
                let q = 5.0_f64.sqrt();
                5.0 / 3.0 * (1.0 + q) * (-q).exp()
            }),
            (Profile::Matern32, 3.0 * (-(3.0_f64.sqrt())).exp()),
            (Profile::Cauchy, 0.5),
            (Profile::RationalQuadratic { alpha: 1.0 }, 1.0 / 2.25),
        ] {
            let model = model(stationary(profile, 0, 1.0), &[vec![1.0]], &[1.0]).unwrap();
            let explainer = Explainer::new(&model, baseline(&reference)).unwrap();
            let bound = explainer.robustness(&[delta]).unwrap()[0];
            assert!(bound >= 0.99 * slope * delta && bound < 1.0, "{profile:?} {delta:e}: {bound:e}");
            assert_eq!(explainer.robustness(&[0.0]).unwrap()[0], 0.0);
        }
        let kernel = Kernel::from(Periodic { columns: [0], period: 4.0, length_scale: 1.0 });
        let model = model(kernel, &[vec![1.0]], &[1.0]).unwrap();
        let bound = Explainer::new(&model, baseline(&reference)).unwrap().robustness(&[delta]).unwrap()[0];
        // A quarter of a period away.
        let slope = std::f64::consts::PI * (-1.0_f64).exp();
        assert!(bound >= 0.99 * slope * delta, "{delta:e}: {bound:e}");
    }
    // Coefficients that cancel: the norm of their difference is 1, but the Gram matrix loses it to rounding.
    let (near, size) = (2.0_f64.powi(-27), 2.0_f64.powi(27));
    let model =
        model(stationary(Profile::Gaussian, 0, 1.0), &[vec![0.0], vec![near]], &[size, -size]).unwrap();
    let explainer = Explainer::new(&model, baseline(&[0.0])).unwrap();
    let bound = explainer.robustness(&[1.0]).unwrap()[0];
    // The function is the derivative of the profile: r e^{-r²/2}.
    assert!((0.6..1e3).contains(&bound), "{bound}");
}

/// If all factors are 1, the values are rounding errors of sums.
#[test]
fn constants_other_than_one_are_certified() {
    let mut s = Stream(17);
    for n in [1, 3, 10, 50] {
        let kernel = 0.3 * Kernel::from(Categorical { columns: [0], similarity: 0.5 });
        let coef: Vec<f64> = (0..n).map(|_| s.signed()).collect();
        let points = vec![vec![1.0]; n];
        for game in [Game::Functional, baseline(&[1.0]), marginal(&points)] {
            explain(kernel.clone(), &points, &coef, &[1.0], game).unwrap();
        }
    }
}

/// Compensated sums keep the bound from growing with the number of points, as it would for plain summation.
#[test]
fn many_points_do_not_loosen_the_bound() {
    let mut s = Stream(23);
    let kernel = Kernel::gaussian(&[2.0; 3]);
    let mut loose = [200, 20_000].map(|n| {
        let points: Vec<Vec<f64>> = (0..n).map(|_| vec![s.signed(), s.signed(), s.signed()]).collect();
        let coef: Vec<f64> = (0..n).map(|_| s.signed()).collect();
        let size: f64 = coef.iter().map(|c| c.abs()).sum();
        let explanation =
            explain(kernel.clone(), &points, &coef, &[0.3, 0.1, -0.2], Game::Functional).unwrap();
        bound(&explanation) / size
    });
    loose.iter_mut().for_each(|l| *l /= f64::EPSILON);
    assert!(loose[1] < 2.0 * loose[0], "{loose:?}");
}

/// Attributions of a test's statistic are certified for samples of identical rows.
#[test]
fn constant_discrepancies_are_certified() {
    for (n, m) in [(3, 4), (7, 11), (10, 49), (100, 33)] {
        let kernels = vec![0.3 * Kernel::from(Categorical { columns: [0], similarity: 0.5 })];
        let settings = TestSettings {
            attribute: AttributionRequest::Values,
            permutations: 0,
            ..TestSettings::default()
        };
        let test = TwoSampleTest { kernels, settings, estimator: MmdEstimator::Biased };
        let result = test.run(&table(&vec![1.0; n]), &table(&vec![1.0; m])).unwrap();
        let certificate = result.attributions.unwrap().explanation.certificate().unwrap();
        assert!(certificate.holds, "{n} {m}: {certificate:?}");
    }
}

/// A player's polynomial of four columns that are nearly orthogonal between any two rows, against integer
/// arithmetic: the terms of an unbiased statistic cancel before they are summed.
#[test]
fn factors_of_several_columns_that_cancel_in_a_test() {
    let mut s = Stream(31);
    let signs = [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]];
    for factors in [FactorKind::Product, FactorKind::Orthogonal] {
        for _ in 0..20 {
            let mut integer = |_| (1 << 27) + (s.uniform() * 1000.0) as i128;
            let rows = signs.map(|row| row.map(|sign| sign * integer(sign)));
            let table = |rows: &[[i128; 4]]| {
                Table::from_rows(&rows.iter().map(|row| row.map(|v| v as f64)).collect::<Vec<_>>()).unwrap()
            };
            let kernel = Polynomial {
                columns: (0..4).collect(),
                center: vec![0.0; 4],
                scale: vec![1.0; 4],
                gamma: 1.0,
                coef0: 0.0,
                degree: 1,
            };
            let (x, z) = (table(&rows[..2]), table(&rows[2..]));
            let names = x.columns().iter().map(|c| c.name.clone()).collect();
            let settings = TestSettings {
                attribute: AttributionRequest::Values,
                permutations: 0,
                factors,
                groups: Some(Players::named(x.columns(), &[("all".to_string(), names)]).unwrap()),
                ..TestSettings::default()
            };
            let test =
                TwoSampleTest { kernels: vec![kernel.into()], settings, estimator: MmdEstimator::Unbiased };
            let explanation = test.run(&x, &z).unwrap().attributions.unwrap().explanation;
            let inner = |a: usize, b: usize| (0..4).map(|j| rows[a][j] * rows[b][j]).sum::<i128>();
            let twice =
                2 * (inner(0, 1) + inner(2, 3)) - (inner(0, 2) + inner(0, 3) + inner(1, 2) + inner(1, 3));
            // Centered under the pooled sample, and scaled by the variance: (4 Σ |u|² - |Σ u|²) / 16.
            let sums = [0, 1, 2, 3].map(|j| (0..4).map(|i| rows[i][j]).sum::<i128>());
            let variance =
                4 * (0..4).map(|i| inner(i, i)).sum::<i128>() - sums.map(|v| v * v).iter().sum::<i128>();
            let scale = if factors == FactorKind::Product { 1.0 } else { variance as f64 / 16.0 };
            let truth = twice as f64 / 2.0 / scale;
            let (error, bound) = ((explanation.values[0] - truth).abs(), bound(&explanation));
            assert!(error <= bound, "{factors:?}: {} for {truth}, {error} > {bound}", explanation.values[0]);
        }
    }
}

/// Weights of HSIC from a periodic kernel of a target that spans many periods, most digits of which are lost
/// to rounding.
#[test]
fn targets_of_many_periods() {
    let mut s = Stream(37);
    for _ in 0..200 {
        let (n, period, length_scale) = (4, 0.3, 0.2);
        let y: Vec<f64> = (0..n).map(|_| 1e8 * s.signed()).collect();
        let x: Vec<f64> = (0..n).map(|_| s.signed()).collect();
        let test = IndependenceTest {
            kernels: vec![Kernel::gaussian(&[1.0])],
            target_kernel: Some(Periodic { columns: [0], period, length_scale }.into()),
            settings: TestSettings {
                attribute: AttributionRequest::Values,
                permutations: 0,
                factors: FactorKind::Product,
                ..TestSettings::default()
            },
            ..IndependenceTest::default()
        };
        let explanation = test.run(&table(&x), &table(&y)).unwrap().attributions.unwrap().explanation;
        let gram = |k: &dyn Fn(usize, usize) -> f64| {
            Matrix::from_row_major(n, n, (0..n * n).map(|t| k(t / n, t % n)).collect())
        };
        let l = gram(&|i, j| {
            let (ratio, correction) = quotient(difference(y[i], y[j]), period);
            (-2.0
                * ((std::f64::consts::PI * ((ratio - ratio.round()) + correction)).sin() / length_scale)
                    .powi(2))
            .exp()
        });
        let k = gram(&|i, j| (-0.5 * (x[i] - x[j]).powi(2)).exp());
        let mean = |i: usize| l.row(i).iter().sum::<f64>() / n as f64;
        let grand_mean = (0..n).map(mean).sum::<f64>() / n as f64;
        let pairs = (0..n * n).map(|t| (t / n, t % n));
        let truth = pairs.map(|(i, j)| k[(i, j)] * (l[(i, j)] - mean(i) - mean(j) + grand_mean)).sum::<f64>()
            / (n as f64 - 1.0).powi(2);
        let (error, bound) = ((explanation.values[0] - truth).abs(), bound(&explanation));
        assert!(error <= bound + 1e-14, "{} for {truth}: {error} > {bound}", explanation.values[0]);
    }
}

/// Sine and exponential many periods away, against a period count with twice the digits.
#[test]
fn many_periods() {
    let mut s = Stream(19);
    for _ in 0..5000 {
        let period = 0.05 + s.uniform();
        let length_scale = 0.1 + 0.9 * s.uniform() * s.uniform();
        let n_periods = 10.0_f64.powf(s.uniform() * 6.0);
        let (u, v) = (n_periods * period * s.uniform(), -n_periods * period * s.uniform());
        let (ratio, correction) = quotient(difference(u, v), period);
        let angle = std::f64::consts::PI * ((ratio - ratio.round()) + correction);
        let truth = (-2.0 * (angle.sin() / length_scale).powi(2)).exp_m1();
        let kernel = Periodic { columns: [0], period, length_scale };
        let (value, bound) = single_point_value(kernel.into(), u, v, Game::Functional).unwrap();
        let rounding = 20.0 * f64::EPSILON;
        assert!(
            (value - truth).abs() <= bound + rounding * truth.abs(),
            "{u} {v} {period} {length_scale} {bound:e}"
        );
    }
}

/// Isotropic kernels within one player, far apart.
#[test]
fn one_player_of_several_columns() {
    let mut s = Stream(23);
    for _ in 0..500 {
        let d = 6;
        let kernel: Kernel = Stationary {
            profile: Profile::Gaussian,
            columns: (0..d).collect(),
            length_scale: vec![0.3; d],
            ard: false,
            isotropic: true,
        }
        .into();
        let x: Vec<f64> = (0..d).map(|_| 4.0 * s.uniform()).collect();
        let b: Vec<f64> = (0..d).map(|_| 4.0 * s.uniform()).collect();
        let model = model(kernel, &[vec![0.0; d]], &[1.0]).unwrap();
        let names = ["x0", "x1", "x2", "x3", "x4", "x5"].to_vec();
        let groups = Players::named(model.columns(), &[("all", names)]).unwrap();
        let question = Question::from(baseline(&b)).with_players(Some(groups));
        let result = Explainer::new(&model, question)
            .unwrap()
            .explain(&Table::from_rows(std::slice::from_ref(&x)).unwrap());
        let explanation = result.unwrap();
        let kernel_value = |row: &[f64]| row.iter().map(|v| gaussian(0.0, *v, 0.3)).product::<f64>();
        let truth = kernel_value(&x) - kernel_value(&b);
        assert!((explanation.values[0] - truth).abs() <= bound(&explanation) + 2e-15 * truth.abs());
        assert!(explanation.certificate().unwrap().holds);
    }
}
