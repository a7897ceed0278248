//! Posteriors against textbook formulas in plain loops, and samples against the covariance from which they
//! are drawn.

use riesz::fit::{GaussianProcess, GaussianProcessClassifier, GpFit, TunedParameters};
use riesz::kernel::{Linear, Profile};
use riesz::linalg::{Cholesky, Sparse};
use riesz::posterior::VarianceReduction;
use riesz::{Kernel, KernelExpansion, Link, Matrix, Posterior, PosteriorCovariance, Prediction, Table};

/// Returns distinct pseudo-random numbers.
fn wave(n: usize, phase: f64) -> Vec<f64> {
    (0..n).map(|i| (1.7 * i as f64 + phase).sin() + 0.3 * (0.9 * (i * i) as f64 + phase).cos()).collect()
}

fn rows(n: usize, phase: f64) -> Table {
    let (a, b) = (wave(n, phase), wave(n, 2.0 * phase + 1.0));
    Table::from_rows(&(0..n).map(|i| [2.0 * a[i], b[i]]).collect::<Vec<_>>()).unwrap()
}

fn kernel() -> Kernel {
    1.3 * Kernel::stationary(Profile::Matern52, &[1.2, 0.8]) + 0.4 * Kernel::gaussian(&[2.0, 3.0])
}

type Dense = Vec<Vec<f64>>;

fn times(a: &Dense, b: &Dense) -> Dense {
    let sum = |row: &[f64], j: usize| row.iter().zip(b).map(|(v, other)| v * other[j]).sum();
    a.iter().map(|row| (0..b[0].len()).map(|j| sum(row, j)).collect()).collect()
}

fn transposed(a: &Dense) -> Dense {
    (0..a[0].len()).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

/// Returns the inverse and the determinant, by Gaussian elimination.
fn inverse(matrix: &Dense) -> (Dense, f64) {
    let n = matrix.len();
    let mut left = matrix.clone();
    let mut right: Dense = (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    let mut determinant = 1.0;
    for k in 0..n {
        let pivot = left[k][k];
        determinant *= pivot;
        for j in 0..n {
            left[k][j] /= pivot;
            right[k][j] /= pivot;
        }
        for i in (0..n).filter(|&i| i != k) {
            let factor = left[i][k];
            for j in 0..n {
                left[i][j] -= factor * left[k][j];
                right[i][j] -= factor * right[k][j];
            }
        }
    }
    (right, determinant)
}

fn between(kernel: &Kernel, a: &Table, b: &Table) -> Dense {
    (0..a.rows()).map(|i| (0..b.rows()).map(|j| kernel.eval(&a.row(i), &b.row(j))).collect()).collect()
}

fn dense(a: &Sparse) -> Dense {
    let mut out = vec![vec![0.0; a.cols()]; a.rows()];
    for j in 0..a.cols() {
        a.column(j).for_each(|(i, weight)| out[i][j] += weight);
    }
    out
}

fn gap(actual: &Matrix, expected: &Dense) -> f64 {
    assert_eq!((actual.rows(), actual.cols()), (expected.len(), expected[0].len()));
    let largest = expected.iter().flatten().fold(1e-300_f64, |a, v| a.max(v.abs()));
    actual.data().iter().zip(expected.concat()).fold(0.0_f64, |a, (f, e)| a.max((f - e).abs())) / largest
}

/// Overlapping sums of 300 rows, in more than one block of rows: a total, means, a difference, a row that
/// occurs twice, one row.
fn operator(n: usize) -> Sparse {
    let mut columns: Vec<Vec<(usize, f64)>> = vec![
        (0..n).map(|i| (i, 1.0 / n as f64)).collect(),
        vec![(0, 1.0), (n - 1, -1.0)],
        vec![(3, 0.25), (1, 0.5), (3, 0.5)],
        vec![(2, 1.0)],
    ];
    columns.extend((0..6).map(|b| (b..n).step_by(6).map(|i| (i, 0.2 + i as f64 / n as f64)).collect()));
    Sparse::from_columns(n, columns).unwrap()
}

fn observing(a: &Sparse) -> GaussianProcess {
    let mut gp = GaussianProcess::new(kernel(), 0.05);
    (gp.tune, gp.normalize_y) = (TunedParameters::Nothing, false);
    gp.operator = Some(a.clone());
    gp
}

/// The posterior given `z = Aᵀf(X) + ε`, of f and of its sums over other rows, equals conditioning of a
/// normal distribution.
#[test]
fn observed_sums_are_conditioning() {
    let (x, new) = (rows(300, 0.3), rows(140, 5.0));
    let a = operator(300);
    let m = a.cols();
    let z = Matrix::from_row_major(m, 2, wave(2 * m, 0.7));
    let mut gp = observing(&a);
    let extra: Vec<f64> = (0..m).map(|j| 0.01 * j as f64).collect();
    gp.row_noise = Some(extra.clone());
    let fit = gp.fit(&x, &z).unwrap();

    let weights = dense(&a);
    let mut v = times(&transposed(&weights), &times(&between(&kernel(), &x, &x), &weights));
    (0..m).for_each(|j| v[j][j] += 0.05 + extra[j]);
    let (inverted, determinant) = inverse(&v);
    let targets: Dense = (0..m).map(|j| z.row(j).to_vec()).collect();
    let alpha = times(&inverted, &targets);
    let h = times(&between(&kernel(), &new, &x), &weights);
    let mean = times(&h, &alpha);
    let prior = between(&kernel(), &new, &new);
    let explained = times(&times(&h, &inverted), &transposed(&h));
    let covariance: Dense =
        prior.iter().zip(&explained).map(|(p, e)| p.iter().zip(e).map(|(p, e)| p - e).collect()).collect();
    let quadratic: f64 = alpha.concat().iter().zip(targets.concat()).map(|(a, z)| a * z).sum();
    let evidence = -0.5 * quadratic - determinant.ln() - m as f64 * std::f64::consts::TAU.ln();

    assert!((fit.log_marginal_likelihood - evidence).abs() < 1e-9 * evidence.abs());
    assert!(gap(&fit.model.predict(&new).unwrap(), &mean) < 1e-10);
    let posterior = fit.posterior();
    let sd: Dense = (0..140).map(|i| vec![covariance[i][i].sqrt(); 2]).collect();
    assert!(gap(&posterior.sd(&new).unwrap(), &sd) < 1e-9);
    for actual in posterior.covariance(&posterior.functionals_at(&new).unwrap()) {
        assert!(gap(&actual, &covariance) < 1e-9);
    }
    let sums = operator(140);
    let functionals = posterior.weighted_sum_functionals(&new, &sums).unwrap();
    let w = dense(&sums);
    assert!(gap(&posterior.mean_of(&functionals), &times(&transposed(&w), &mean)) < 1e-10);
    let expected = times(&transposed(&w), &times(&covariance, &w));
    for actual in posterior.covariance(&functionals) {
        assert!(gap(&actual, &expected) < 1e-9);
    }
}

/// A constant is multiplied by the sum of the weights, in the fit and in functionals.
#[test]
fn sums_of_a_shifted_function_shift_by_their_weights() {
    let (x, a) = (rows(40, 0.3), operator(40));
    let m = a.cols();
    let sums: Vec<f64> = (0..m).map(|j| a.column(j).map(|(_, w)| w).sum()).collect();
    let z = wave(m, 0.7);
    let shifted = |offset: f64, times: f64| {
        let mut gp = observing(&a);
        gp.normalize_y = true;
        let z = z.iter().zip(&sums).map(|(z, sum)| times * z + offset * sum).collect();
        gp.fit(&x, &Matrix::column_vector(z)).unwrap()
    };
    let (plain, moved) = (shifted(0.0, 1.0), shifted(1000.0, 3.0));
    let new = rows(9, 4.0);
    let mean_and_sd = |fit: &GpFit| (fit.model.predict(&new).unwrap(), fit.posterior().sd(&new).unwrap());
    let ((mean, sd), (mean_moved, sd_moved)) = (mean_and_sd(&plain), mean_and_sd(&moved));
    for i in 0..9 {
        assert!((3.0 * mean[(i, 0)] + 1000.0 - mean_moved[(i, 0)]).abs() < 1e-8);
        assert!((3.0 * sd[(i, 0)] - sd_moved[(i, 0)]).abs() < 1e-9);
    }
    // The posterior means of the observed sums equal the sums of the predictions.
    let posterior = moved.posterior();
    let actual = posterior.mean_of(&posterior.weighted_sum_functionals(&x, &a).unwrap());
    let fitted = moved.model.predict(&x).unwrap();
    for j in 0..m {
        let expected: f64 = a.column(j).map(|(i, w)| w * fitted[(i, 0)]).sum();
        assert!((actual[(j, 0)] - expected).abs() < 1e-9 * expected.abs().max(1.0));
    }
    // Two normalised targets each have their own unit.
    let targets = z.iter().flat_map(|z| [*z, 3.0 * *z]).collect();
    let mut gp = observing(&a);
    gp.normalize_y = true;
    let joint_fit = gp.fit(&x, &Matrix::from_row_major(m, 2, targets)).unwrap();
    let sds = joint_fit.posterior().sd(&new).unwrap();
    assert!((0..9).all(|i| (sds[(i, 0)] - sd[(i, 0)]).abs() < 1e-9 && (sds[(i, 1)] - 3.0 * sd[(i, 0)]).abs() < 1e-9));
    let evidence = 2.0 * plain.log_marginal_likelihood - m as f64 * 3.0_f64.ln();
    assert!((joint_fit.log_marginal_likelihood - evidence).abs() < 1e-9);
}

#[test]
fn the_gradient_for_sums_matches_finite_differences() {
    let (x, a) = (rows(40, 0.3), operator(40));
    let m = a.cols();
    for (targets, normalize, noisy) in [(1, true, true), (2, false, true), (2, true, false)] {
        let z = Matrix::from_row_major(m, targets, wave(targets * m, 0.7));
        let mut gp = observing(&a);
        gp.normalize_y = normalize;
        gp.row_noise = noisy.then(|| (0..m).map(|j| 0.02 * j as f64).collect());
        let theta: Vec<f64> = gp.parameters().iter().map(|p| p.log_value).collect();
        let evidence = |k: usize, h: f64| {
            let mut theta = theta.clone();
            theta[k] += h;
            gp.log_marginal_likelihood(&x, &z, &theta).unwrap().0
        };
        let slope = |k: usize, h: f64| (evidence(k, h) - evidence(k, -h)) / (2.0 * h);
        let (value, gradient) = gp.log_marginal_likelihood(&x, &z, &theta).unwrap();
        assert!((value - gp.fit(&x, &z).unwrap().log_marginal_likelihood).abs() < 1e-12);
        for (k, actual) in gradient.iter().enumerate() {
            let expected = (4.0 * slope(k, 1e-4) - slope(k, 2e-4)) / 3.0;
            assert!((actual - expected).abs() < 1e-8 * (1.0 + expected.abs()), "{k}: {actual} {expected}");
            assert!(expected.abs() > 1e-4, "{k} has no slope to compare");
        }
        gp.tune = TunedParameters::KernelAndNoise;
        assert!(gp.fit(&x, &z).unwrap().log_marginal_likelihood > value + 0.1);
    }
}

/// The identity operator changes nothing, and means over equal rows act as one row with the noise divided by
/// their number.
#[test]
fn sums_of_single_and_of_equal_rows_are_regression() {
    let (x, new) = (rows(30, 0.3), rows(20, 4.0));
    let y = Matrix::column_vector(wave(30, 0.7).iter().map(|v| 5.0 + v).collect());
    let moments = |fit: &GpFit| {
        let (mean, sd) = (fit.model.predict(&new).unwrap(), fit.posterior().sd(&new).unwrap());
        [mean.data(), sd.data()].concat()
    };
    let close = |a: &GpFit, b: &GpFit| moments(a).iter().zip(moments(b)).all(|(a, b)| (a - b).abs() < 1e-9);
    let mut gp = observing(&Sparse::diagonal(vec![1.0; 30]));
    gp.normalize_y = true;
    let identity = gp.fit(&x, &y).unwrap();
    gp.operator = None;
    let plain = gp.fit(&x, &y).unwrap();
    assert!(close(&identity, &plain));
    assert!((identity.log_marginal_likelihood - plain.log_marginal_likelihood).abs() < 1e-9);

    // Every row is repeated r times, r from 1 to 4, each with its own error; the means are observed.
    let several: Vec<usize> = (0..30).flat_map(|i| vec![i; 1 + i % 4]).collect();
    let observations: Vec<f64> =
        several.iter().zip(wave(several.len(), 0.2)).map(|(i, e)| y.data()[*i] + 0.2 * e).collect();
    let mut gp = observing(&Sparse::diagonal(Vec::new()));
    (gp.operator, gp.noise) = (None, 0.3);
    let repeated = x.select_rows(&several);
    let apart = gp.fit(&repeated, &Matrix::column_vector(observations.clone())).unwrap();
    let members = |i: usize| (0..several.len()).filter(|k| several[*k] == i).collect::<Vec<_>>();
    let share = |i: usize| 1.0 / members(i).len() as f64;
    let columns = (0..30).map(|i| members(i).into_iter().map(|k| (k, share(i))).collect::<Vec<_>>());
    gp.operator = Some(Sparse::from_columns(several.len(), columns).unwrap());
    gp.row_noise = Some((0..30).map(|i| 0.3 * share(i) - 0.05).collect());
    gp.noise = 0.05;
    let means: Vec<f64> =
        (0..30).map(|i| members(i).iter().map(|&k| observations[k] * share(i)).sum()).collect();
    let averaged = gp.fit(&repeated, &Matrix::column_vector(means.clone())).unwrap();
    gp.operator = None;
    let weighted = gp.fit(&x, &Matrix::column_vector(means)).unwrap();
    assert!(close(&apart, &averaged) && close(&averaged, &weighted));
}

#[test]
fn operators_that_do_not_fit_are_refused() {
    let x = rows(5, 0.3);
    let message = |a: Sparse, z: usize, noise: Option<usize>| {
        let mut gp = observing(&a);
        gp.row_noise = noise.map(|n| vec![0.0; n]);
        gp.fit(&x, &Matrix::column_vector(wave(z, 0.1))).unwrap_err().to_string()
    };
    let eye = |n: usize| Sparse::diagonal(vec![1.0; n]);
    assert!(message(eye(4), 4, None).contains("a column of the operator has 4 numbers, but 5 are expected"));
    assert!(
        message(eye(5), 3, None).contains("the target has 3 numbers, but 5 are expected (one per column")
    );
    assert!(message(eye(5), 5, Some(4)).contains("one per observation"));
    let empty = Sparse::from_columns(5, [vec![(0, 1.0)], vec![]]).unwrap();
    assert!(message(empty, 2, None).starts_with("column 2 of the operator"));
    assert!(message(Sparse::from_columns(5, [[]; 0]).unwrap(), 0, None).contains("at least 1"));
    assert!(Sparse::from_columns(5, [[(5, 1.0)]]).unwrap_err().to_string().contains("row = 5"));
    assert!(Sparse::from_columns(5, [[(0, f64::NAN)]]).unwrap_err().to_string().contains("finite"));
    assert!(Sparse::new(5, vec![0, 2, 1], vec![0], vec![1.0]).unwrap_err().to_string().contains("decrease"));
    assert!(Sparse::new(5, vec![0, 2], vec![0], vec![1.0]).unwrap_err().to_string().contains("places"));
    assert!(Sparse::new(5, vec![], vec![], vec![]).is_err());
}

/// A reduction Q as a low-rank factor, as a Cholesky factor of its inverse and as a matrix; and a negative Q.
#[test]
fn forms_of_variance_reduction_agree() {
    let (x, new) = (rows(25, 0.3), rows(140, 4.0));
    let kernel = kernel();
    let mut noisy = kernel.gram(&x);
    noisy.add_diagonal(|_| 0.2);
    let coef = Matrix::from_row_major(25, 1, wave(25, 0.1));
    let model = KernelExpansion::new(kernel.clone(), x.clone(), coef, vec![0.0]).unwrap();
    let factor = Cholesky::new(noisy, "matrix").unwrap();
    let q = factor.inverse();
    // Q = F Fᵀ with F = L⁻ᵀ.
    let mut f = Matrix::zeros(25, 25);
    f.add_diagonal(|_| 1.0);
    factor.solve_upper_in_place(&mut f);
    let precision_factor = factor.clone();
    let with_reduction = |prior: f64, known: VarianceReduction| PosteriorCovariance {
        prior_scale: prior,
        mirror: None,
        reduction: vec![known],
        scale: vec![2.0],
    };
    let forms = [
        with_reduction(1.0, VarianceReduction::CholeskyInverse { operator: None, factor }),
        with_reduction(1.0, VarianceReduction::LowRank(f)),
        with_reduction(1.0, VarianceReduction::Dense(q.clone())),
    ];
    let answers: Vec<[Matrix; 2]> = forms
        .iter()
        .map(|form| {
            let posterior = Posterior::new(&model, form).unwrap();
            let joint = posterior.covariance(&posterior.functionals_at(&new).unwrap()).remove(0);
            [posterior.variance(&new).unwrap(), joint]
        })
        .collect();
    for answer in &answers {
        for (actual, first) in answer.iter().zip(&answers[0]) {
            assert!(actual.data().iter().zip(first.data()).all(|(a, b)| (a - b).abs() < 1e-11));
        }
        assert!((0..140).all(|i| (answer[0][(i, 0)] - answer[1][(i, i)]).abs() < 1e-11));
    }
    // With zero prior variance and -Q, the added variance equals the reduction.
    let mut minus = q;
    minus.data_mut().iter_mut().for_each(|v| *v = -*v);
    let operator = Sparse::diagonal(vec![1.0; 25]);
    let precision = VarianceReduction::Precision { operator, factor: precision_factor };
    for added in [VarianceReduction::Dense(minus), precision] {
        let added = with_reduction(0.0, added);
        let posterior = Posterior::new(&model, &added).unwrap();
        let functionals = posterior.functionals_at(&new).unwrap();
        let (variance, joint) = (posterior.variance(&new).unwrap(), posterior.covariance(&functionals));
        let with_prior = PosteriorCovariance { prior_scale: 1.0, ..added.clone() };
        let has_no_prior = matches!(added.reduction[0], VarianceReduction::Precision { .. });
        assert_eq!(Posterior::new(&model, &with_prior).is_err(), has_no_prior);
        let prior = kernel.gram(&new);
        let sum_of = |i: usize| variance[(i, 0)] + answers[0][0][(i, 0)];
        assert!((0..140).all(|i| (4.0 * prior[(i, i)] - sum_of(i)).abs() < 1e-11));
        let pairs = prior.data().iter().zip(joint[0].data()).zip(answers[0][1].data());
        assert!(pairs.into_iter().all(|((prior, added), first)| (4.0 * prior - added - first).abs() < 1e-11));
    }
}

/// Laplace's posterior covariance equals that of a regression with noise `1/π(1 - π)` (Rasmussen and Williams
/// 2006, equation 3.24).
#[test]
fn laplaces_posterior_is_a_regression() {
    let (x, new) = (rows(25, 0.3), rows(9, 4.0));
    let y = wave(25, 0.7);
    let labels: Vec<usize> = y.iter().map(|v| usize::from(*v > -0.5) + usize::from(*v > 0.4)).collect();
    let mut gpc = GaussianProcessClassifier::new(kernel());
    gpc.tune = false;
    let fit = gpc.fit(&x, &labels, &["a", "b", "c"].map(String::from)).unwrap();
    let posterior = fit.posterior();
    let covariances = posterior.covariance(&posterior.functionals_at(&new).unwrap());
    for (o, actual) in covariances.iter().enumerate() {
        // The coefficients are y - π.
        let p = |i: usize| f64::from(u8::from(labels[i] == o)) - fit.model.coef[(i, o)];
        let mut v = between(&kernel(), &x, &x);
        (0..25).for_each(|i| v[i][i] += 1.0 / (p(i) * (1.0 - p(i))));
        let h = between(&kernel(), &new, &x);
        let known = times(&times(&h, &inverse(&v).0), &transposed(&h));
        let prior = between(&kernel(), &new, &new);
        let expected: Dense =
            prior.iter().zip(known).map(|(p, k)| p.iter().zip(k).map(|(p, k)| p - k).collect()).collect();
        assert!(gap(actual, &expected) < 1e-10);
    }
}

/// Draws have the mean and covariance of the posterior, are independent between outputs, and depend on the
/// seed only.
#[test]
fn samples_have_the_posterior_distribution() {
    let (x, new) = (rows(30, 0.3), rows(60, 4.0));
    let y = Matrix::from_row_major(30, 2, wave(60, 0.7).iter().map(|v| 3.0 * v + 10.0).collect());
    let mut gp = GaussianProcess::new(kernel(), 0.3);
    gp.tune = TunedParameters::Nothing;
    let fit = gp.fit(&x, &y).unwrap();
    let posterior = fit.posterior();
    let functionals = posterior.weighted_sum_functionals(&new, &operator(60)).unwrap();
    let (mean, covariance) = (posterior.mean_of(&functionals), posterior.covariance(&functionals));
    const N: usize = 20_000;
    let samples = posterior.sample(&functionals, N, 7).unwrap();
    assert_eq!(samples.jitter, [0.0, 0.0]);
    let m = mean.rows();
    let moment = |o: usize, i: usize, p: usize, j: usize| {
        let (a, b) = (samples.values[o].row(i), samples.values[p].row(j));
        a.iter().zip(b).map(|(a, b)| (a - mean[(i, o)]) * (b - mean[(j, p)])).sum::<f64>() / N as f64
    };
    for o in 0..2 {
        for i in 0..m {
            let average = samples.values[o].row(i).iter().sum::<f64>() / N as f64;
            let error = (covariance[o][(i, i)] / N as f64).sqrt();
            assert!((average - mean[(i, o)]).abs() < 4.5 * error, "{o} {i}: {average}");
            for j in 0..=i {
                let variance_product = covariance[o][(i, i)] * covariance[o][(j, j)];
                let error = ((variance_product + covariance[o][(i, j)].powi(2)) / N as f64).sqrt();
                assert!((moment(o, i, o, j) - covariance[o][(i, j)]).abs() < 4.5 * error, "{o} {i} {j}");
                let across = (covariance[0][(i, i)] * covariance[1][(j, j)] / N as f64).sqrt();
                assert!(moment(0, i, 1, j).abs() < 4.5 * across, "{i} {j}");
            }
        }
    }
    let with = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| posterior.sample(&functionals, 10, seed).unwrap().values)
    };
    assert_eq!(with(1, 7), with(3, 7));
    assert_ne!(with(1, 7), with(1, 8));
}

/// No variance remains at rows observed without noise, and where the prior variance is 0. The jitter reports
/// this.
#[test]
fn draws_of_known_values_are_these_values() {
    let x = rows(12, 0.3);
    let y = wave(12, 0.7);
    let mut gp = GaussianProcess::new(kernel(), 1e-13);
    (gp.tune, gp.normalize_y) = (TunedParameters::Nothing, false);
    let fit = gp.fit(&x, &Matrix::column_vector(y.clone())).unwrap();
    let posterior = fit.posterior();
    let twice = x.select_rows(&(0..24).map(|i| i % 12).collect::<Vec<_>>());
    let samples = posterior.sample(&posterior.functionals_at(&twice).unwrap(), 50, 1).unwrap();
    assert!(samples.jitter[0] > 0.0 && samples.jitter[0] < 1e-6, "{:?}", samples.jitter);
    assert!((0..24).all(|i| samples.values[0].row(i).iter().all(|v| (v - y[i % 12]).abs() < 1e-2)));
    let linear = Linear { columns: vec![0, 1], center: vec![0.0; 2], scale: vec![1.0; 2] };
    gp.kernel = linear.into();
    let fit = gp.fit(&x, &Matrix::column_vector(y)).unwrap();
    let origin = Table::from_rows(&[[0.0, 0.0]]).unwrap();
    let posterior = fit.posterior();
    let samples = posterior.sample(&posterior.functionals_at(&origin).unwrap(), 5, 1).unwrap();
    assert!(samples.values[0].data().iter().all(|v| v.abs() < 1e-90));
}

/// The predicted class has the largest mean probability, which need not have the largest latent mean. It
/// needs the posterior.
#[test]
fn classes_are_averaged_over_the_posterior() {
    let points = Table::from_rows(&[[0.0]]).unwrap();
    let coef = Matrix::from_row_major(1, 3, vec![1.0, 0.8, -3.0]);
    let mut model =
        KernelExpansion::new(9.0 * Kernel::gaussian(&[1.0]), points.clone(), coef, vec![-8.0, -6.4, 24.0])
            .unwrap();
    (model.link, model.classes) = (Link::LatentOneVsRest, ["a", "b", "c"].map(String::from).to_vec());
    // Latent means 1, 0.8 and -3 at 0; variances 9, 0 and 9.
    let known = |known: f64| VarianceReduction::Dense(Matrix::from_row_major(1, 1, vec![known]));
    let covariance = PosteriorCovariance {
        prior_scale: 1.0,
        mirror: None,
        reduction: vec![known(0.0), known(1.0 / 9.0), known(0.0)],
        scale: vec![1.0; 3],
    };
    let prediction = Prediction::new(&model, Some(&covariance), &points).unwrap();
    assert!(prediction.outputs.row(0).iter().zip([1.0, 0.8, -3.0]).all(|(f, e)| (f - e).abs() < 1e-12));
    // Simpson's rule over ten standard deviations.
    let average = |mean: f64, sd: f64| {
        let steps = 20_000;
        let term = |k: usize| {
            let t = -10.0 + 20.0 * k as f64 / steps as f64;
            let weight = if k == 0 || k == steps { 1.0 } else { 2.0 + 2.0 * (k % 2) as f64 };
            weight * (-0.5 * t * t).exp() / (1.0 + (-mean - sd * t).exp())
        };
        (0..=steps).map(term).sum::<f64>() * 20.0 / steps as f64 / 3.0 / std::f64::consts::TAU.sqrt()
    };
    let averages = [average(1.0, 3.0), average(0.8, 0.0), average(-3.0, 3.0)];
    let total: f64 = averages.iter().sum();
    let probabilities = prediction.probabilities.unwrap();
    for (p, expected) in probabilities.row(0).iter().zip(averages) {
        assert!((p - expected / total).abs() < 1e-9, "{p} {expected}");
    }
    assert_eq!(prediction.classes, Some(vec![1]));
    let mean_only = Prediction::new(&model, None, &points).unwrap();
    assert_eq!((mean_only.classes, mean_only.probabilities), (None, None));

    // For two classes the sign of the mean determines the more probable one, but not its probability.
    let coef = Matrix::from_row_major(1, 1, vec![0.1]);
    let mut two = KernelExpansion::new(model.kernel.clone(), points.clone(), coef, vec![0.0]).unwrap();
    (two.link, two.classes) = (Link::LatentLogistic, ["a", "b"].map(String::from).to_vec());
    let mean_only = Prediction::new(&two, None, &points).unwrap();
    assert_eq!((mean_only.classes, mean_only.probabilities), (Some(vec![1]), None));
    let binary_covariance =
        PosteriorCovariance { prior_scale: 1.0, mirror: None, reduction: vec![known(0.0)], scale: vec![1.0] };
    let prediction = Prediction::new(&two, Some(&binary_covariance), &points).unwrap();
    assert!((prediction.probabilities.unwrap()[(0, 1)] - average(0.9, 3.0)).abs() < 1e-9);
    assert_eq!(prediction.classes, Some(vec![1]));
}
