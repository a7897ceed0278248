//! Conditional mean embeddings as Gaussian processes, against conditioning of dense joint distributions.

use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use riesz::conditional_mean::{BayesianConditionalMean, ConditionalMeanFit, RidgeChoice};
use riesz::embedding::ConditionalMean;
use riesz::kernel::{Linear, Profile};
use riesz::linalg::{Cholesky, dot};
use riesz::{Conditioning, ConditioningKernel, Error, Kernel, Matrix, Ridge, Table};

use crate::aggregate::sum;
use crate::aggregate_regressed::Normal;
use crate::common::{Stream, largest_difference, stationary, table};

fn kernel_x() -> Kernel {
    1.2 * Kernel::gaussian(&[0.9, 1.3])
}

fn kernel_y() -> Kernel {
    stationary(Profile::Exponential, 0, 0.8)
}

fn linear() -> Kernel {
    Linear { columns: vec![0], center: vec![0.0], scale: vec![1.0] }.into()
}

/// The prior with fixed hyper-parameters and the conventions of the source.
fn published(ridge: f64) -> BayesianConditionalMean {
    BayesianConditionalMean {
        kernel_x: Some(kernel_x()),
        kernel_y: Some(kernel_y()),
        ridge: RidgeChoice::Fixed(ridge),
        tune_kernel: false,
        scale: Some(1.0),
        centered: false,
        ..BayesianConditionalMean::default()
    }
}

fn centered(ridge: f64) -> BayesianConditionalMean {
    BayesianConditionalMean { centered: true, scale: None, ..published(ridge) }
}

/// Rows of X, and of Y that depend on them.
fn sample(n: usize, seed: u64) -> (Table, Table) {
    let mut stream = Stream(seed);
    let x = stream.normals(n, 2);
    let y: Vec<[f64; 1]> =
        (0..n).map(|i| [(1.5 * x.get(i, 0)).sin() + 0.3 * x.get(i, 1) + 0.4 * stream.normal()]).collect();
    (x, Table::from_rows(&y).unwrap())
}

/// The Kronecker product of two matrices.
fn kronecker(a: &Matrix, b: &Matrix) -> Matrix {
    let (rows, cols) = (b.rows(), b.cols());
    Matrix::from_fn(a.rows() * rows, a.cols() * cols, |i, j| {
        a[(i / rows, j / cols)] * b[(i % rows, j % cols)]
    })
}

/// Propositions 4.3.2, B.17 to B.20 with the training rows as the measure: all values of the embedding at
/// pairs of a row of X and a row of Y have a joint normal prior, and those of training rows are observed. The
/// density of the observations is (4.13), whose data term does not depend on Y.
#[test]
fn posterior_is_dense_conditioning_of_all_pairs() {
    let (n, ridge) = (8, 0.05);
    let (x, y) = (table(3, n, 2), table(30, n, 1));
    let (queries, points) = (table(90, 2, 2), table(60, 3, 1));
    let fit = published(ridge).fit(&x, &y).unwrap();
    let (all_x, all_y) = (x.stack(&queries).unwrap(), y.stack(&points).unwrap());
    let with_rows = kernel_y().cross_gram(&all_y, &y);
    let mut dominant = with_rows.matmul(&with_rows.transpose());
    dominant.scale(1.0 / n as f64);
    let prior = kronecker(&kernel_x().gram(&all_x), &dominant);
    // Observed pairs first, then pairs of a query and a point.
    let pair = |i: usize, j: usize| i * all_y.rows() + j;
    let observed = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
    let query_pairs = (n..n + 2).flat_map(|i| (n..n + 3).map(move |j| (i, j)));
    let order: Vec<usize> = observed.chain(query_pairs).map(|(i, j)| pair(i, j)).collect();
    let mut covariance = prior.select(&order, &order);
    let identity = Matrix::identity(n);
    let kernel_matrix_y = dominant.block(0..n, 0..n);
    let noise = kronecker(&identity, &kernel_matrix_y);
    for i in 0..n * n {
        (0..n * n).for_each(|j| covariance[(i, j)] += n as f64 * ridge * noise[(i, j)]);
    }
    let observations = kernel_y().gram(&y);
    let normal = Normal { mean: vec![0.0; order.len()], covariance };
    let (truth, log_density) = normal.condition(observations.data());
    let functions = kernel_y().cross_gram(&y, &points);
    let expectation = fit.expectation(&functions, None, &queries).unwrap();
    for i in 0..2 {
        for j in 0..3 {
            assert!((expectation.means[(i, j)] - truth.mean[3 * i + j]).abs() < 1e-9);
            let expected = [0, 1].map(|other| truth.covariance[(3 * i + j, 3 * other + j)]);
            let actual = [0, 1].map(|other| expectation.covariance(j)[(i, other)]);
            assert!(largest_difference(&actual, &expected) < 1e-9, "{actual:?} {expected:?}");
        }
    }
    // (4.13) with its constant; the data term is the same for any Y.
    let mut gram = kernel_x().gram(&x);
    gram.add_diagonal(|_| n as f64 * ridge);
    let (factor_x, factor_y) =
        (Cholesky::new(gram, "X").unwrap(), Cholesky::new(kernel_matrix_y, "Y").unwrap());
    let size = n as f64;
    let data_term = size * factor_x.inverse().trace();
    let expected = -0.5
        * (size * (factor_x.log_det() + factor_y.log_det())
            + data_term
            + size * size * std::f64::consts::TAU.ln());
    assert!((log_density - expected).abs() < 1e-6, "{log_density} {expected}");
}

#[test]
fn weights_equal_those_of_the_ridge_embedding() {
    let ((x, y), queries, go_on) = (sample(40, 3), table(90, 5, 2), AtomicBool::new(false));
    for (prior, is_centered) in [(centered(0.02), true), (published(0.02), false)] {
        let kernel = Kernel::gaussian(&[0.9, 1.3]);
        let prior = BayesianConditionalMean { kernel_x: Some(kernel.clone()), ..prior };
        let conditioning = Conditioning {
            ridge: Ridge::Fixed(0.02),
            kernel: ConditioningKernel::Given(kernel),
            centered: is_centered,
            ..Conditioning::default()
        };
        let embedding = ConditionalMean::fit(&x, None, Some(&y), &conditioning, &go_on).unwrap();
        let expected = embedding.weights(&queries, &go_on).unwrap().matrix.transpose();
        let weights = prior.fit(&x, &y).unwrap().weights(&queries).unwrap();
        assert!(largest_difference(weights.data(), expected.data()) < 1e-12);
    }
}

/// The expectation of a function is Gaussian process regression of its values, with the prior variance V and
/// the noise λV.
#[test]
fn expectations_are_regressions_of_the_values() {
    let ((x, y), queries) = (sample(25, 5), table(90, 4, 2));
    let fit = centered(0.03).fit(&x, &y).unwrap();
    let values: Vec<f64> = (0..25).map(|i| y.get(i, 0).powi(2)).collect();
    let mean = values.iter().sum::<f64>() / 25.0;
    let deviations: Vec<f64> = values.iter().map(|v| v - mean).collect();
    let variance = fit.scale * dot(&deviations, &deviations) / 25.0;
    let mut gram = kernel_x().gram(&x);
    gram.add_diagonal(|_| 25.0 * 0.03);
    gram.scale(variance);
    let (factor, mut cross) = (Cholesky::new(gram, "test").unwrap(), kernel_x().cross_gram(&x, &queries));
    cross.scale(variance);
    let means = cross.transpose().matvec(&factor.solve_vector(&deviations));
    let mut prior = kernel_x().gram(&queries);
    prior.scale(variance);
    let covariance = sum(&prior, -1.0, &cross.transpose().matmul(&factor.solve(cross.clone())));
    let expectation = fit.expectation(&Matrix::column_vector(values), None, &queries).unwrap();
    (0..4).for_each(|i| assert!((expectation.means[(i, 0)] - mean - means[i]).abs() < 1e-10));
    assert!(largest_difference(expectation.covariance(0).data(), covariance.data()) < 1e-10);
    let sds = expectation.standard_deviations();
    (0..4).for_each(|i| assert!((sds[(i, 0)].powi(2) - covariance[(i, i)]).abs() < 1e-10));
}

/// For one column of Y and a linear kernel the profile likelihood is that of a Gaussian process of this
/// column with the best variance.
#[test]
fn evidence_of_a_linear_kernel_is_that_of_a_process() {
    let (x, y) = sample(20, 8);
    let prior = BayesianConditionalMean { kernel_y: Some(linear()), ..centered(0.04) };
    let fit = prior.fit(&x, &y).unwrap();
    let mean = y.column(0).iter().sum::<f64>() / 20.0;
    let deviations: Vec<f64> = y.column(0).iter().map(|v| v - mean).collect();
    let log_density = |variance: f64| {
        let mut covariance = kernel_x().gram(&x);
        covariance.add_diagonal(|_| 20.0 * 0.04);
        covariance.scale(variance);
        let factor = Cholesky::new(covariance, "test").unwrap();
        let square = dot(&factor.solve_vector(&deviations), &deviations);
        -0.5 * (square + factor.log_det() + 20.0 * std::f64::consts::TAU.ln())
    };
    let variance = fit.scale * dot(&deviations, &deviations) / 20.0;
    assert!((log_density(variance) - fit.log_evidence).abs() < 1e-9);
    for factor in [0.5, 0.9, 1.1, 2.0] {
        assert!(log_density(factor * variance) < fit.log_evidence);
    }
}

#[test]
fn evidence_gradients_match_finite_differences() {
    let (x, y) = sample(18, 9);
    for prior in [centered(0.05), published(0.05)] {
        let theta: Vec<f64> =
            kernel_x().parameters().iter().map(|p| p.log_value).chain([0.3_f64.ln()]).collect();
        let (_, gradient) = prior.log_evidence(&x, &y, &theta).unwrap();
        for p in 0..theta.len() {
            let moved = |shift: f64| {
                let mut theta = theta.clone();
                theta[p] += shift;
                prior.log_evidence(&x, &y, &theta).unwrap().0
            };
            let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((gradient[p] - expected).abs() < 1e-6, "parameter {p}: {} {expected}", gradient[p]);
        }
        // Multiplying the kernel of X and the ridge by one factor changes nothing.
        assert!((gradient[0] + gradient[theta.len() - 1]).abs() < 1e-9);
    }
}

/// The evidence finds the column of X on which Y depends, and a larger ridge for more noise.
#[test]
fn evidence_chooses_the_hyperparameters() {
    let mut stream = Stream(12);
    let x = stream.normals(120, 2);
    let noise: Vec<f64> = (0..120).map(|_| stream.normal()).collect();
    let learn = |times: f64, ridge| {
        let y: Vec<[f64; 1]> = (0..120).map(|i| [(2.0 * x.get(i, 0)).sin() + times * noise[i]]).collect();
        let prior = BayesianConditionalMean { ridge, ..BayesianConditionalMean::default() };
        prior.fit(&x, &Table::from_rows(&y).unwrap()).unwrap()
    };
    let length_scales = |fit: &ConditionalMeanFit| {
        let parameters = fit.kernel_x.parameters();
        let values = parameters.iter().filter(|p| p.is_length_scale()).map(|p| p.log_value.exp());
        values.collect::<Vec<f64>>()
    };
    let (clear, noisy) = (learn(0.1, RidgeChoice::Evidence), learn(1.0, RidgeChoice::Evidence));
    let lengths = length_scales(&clear);
    assert!(lengths[0] < 1.5 && lengths[1] > 5.0, "{lengths:?}");
    assert!(clear.ridge < 0.2 * noisy.ridge, "{} {}", clear.ridge, noisy.ridge);
    let left_out = learn(0.1, RidgeChoice::LeaveOneOut);
    assert!(clear.log_evidence > left_out.log_evidence + 10.0);
    // The kernel of X stays as it was.
    assert!(length_scales(&left_out).iter().all(|l| (0.7..1.4).contains(l)));
}

/// With a linear kernel the discrepancy is the difference of conditional means.
#[test]
fn discrepancies_of_a_linear_kernel_are_differences_of_means() {
    let ((x, y), queries) = (sample(30, 4), table(90, 4, 2));
    let fit = BayesianConditionalMean { kernel_y: Some(linear()), ..centered(0.03) }.fit(&x, &y).unwrap();
    let values = Matrix::column_vector(y.column(0).to_vec());
    let means = fit.expectation(&values, None, &queries).unwrap().means.column(0);
    let distances = fit.discrepancy(&queries, &queries.head(2)).unwrap();
    for i in 0..4 {
        for j in 0..2 {
            assert!((distances[(i, j)] - (means[i] - means[j]).abs()).abs() < 1e-7);
        }
    }
    let other = table(200, 7, 1);
    let mean = other.column(0).iter().sum::<f64>() / 7.0;
    let from_sample = fit.discrepancy_from_sample(&queries, &other).unwrap();
    (0..4).for_each(|i| assert!((from_sample[i] - (means[i] - mean).abs()).abs() < 1e-7));
}

/// The covariance of an uncertain function adds to that of the embedding, by sums over all rows.
#[test]
fn uncertain_functions_add_their_covariance() {
    let ((x, y), queries) = (sample(15, 6), table(90, 3, 2));
    let fit = centered(0.05).fit(&x, &y).unwrap();
    let values = Matrix::column_vector((0..15).map(|i| y.get(i, 0).cos()).collect());
    let covariance = kernel_y().gram(&y);
    let expectation = fit.expectation(&values, Some(&covariance), &queries).unwrap();
    let certain = fit.expectation(&values, None, &queries).unwrap();
    assert_eq!(expectation.means, certain.means);
    let weights = fit.weights(&queries).unwrap();
    let centred = |a: usize| covariance[(a, a)] - covariance.row(a).iter().sum::<f64>() / 15.0;
    let uncertainty = (0..15).map(centred).sum::<f64>() / 15.0;
    for i in 0..3 {
        for j in 0..3 {
            let of_function: f64 = (0..15)
                .flat_map(|a| (0..15).map(move |b| (a, b)))
                .map(|(a, b)| weights[(i, a)] * covariance[(a, b)] * weights[(j, b)])
                .sum();
            let expected =
                certain.covariance(0)[(i, j)] + certain.residual[(i, j)] * uncertainty + of_function;
            assert!((expectation.covariance(0)[(i, j)] - expected).abs() < 1e-12);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Centred weights add up to 1, the covariance is positive semi-definite and at most the prior's, far
    /// queries have the prior, and the order of the rows does not matter.
    #[test]
    fn embeddings_have_the_properties_of_posteriors(
        seed in 0..1000_u64,
        n in 4..30_usize,
        log_ridge in -8.0..0.0_f64,
    ) {
        let (x, y) = sample(n, seed);
        let prior = centered(log_ridge.exp());
        let fit = prior.fit(&x, &y).unwrap();
        let queries = Stream(seed + 1).normals(6, 2);
        let weights = fit.weights(&queries).unwrap();
        for i in 0..6 {
            prop_assert!((weights.row(i).iter().sum::<f64>() - 1.0).abs() < 1e-10);
        }
        let mut residual = fit.residual_covariance(&queries).unwrap();
        prop_assert!(residual.diagonal().all(|v| v <= 1.2 * fit.scale * (1.0 + 1e-12)));
        residual.add_diagonal(|_| 1e-9 * fit.scale);
        prop_assert_eq!(Cholesky::new(residual, "covariance").unwrap().jitter, 0.0);
        let far = Table::from_rows(&[[1e3, -1e3]]).unwrap();
        prop_assert!(fit.weights(&far).unwrap().data().iter().all(|w| (w - 1.0 / n as f64).abs() < 1e-12));
        prop_assert!((fit.residual_covariance(&far).unwrap()[(0, 0)] - 1.2 * fit.scale).abs() < 1e-12);
        let distances = fit.discrepancy(&queries, &queries).unwrap();
        for (i, j, k) in [(0, 1, 2), (3, 4, 5), (1, 5, 0)] {
            prop_assert!(distances[(i, k)] <= distances[(i, j)] + distances[(j, k)] + 1e-9);
            prop_assert!((distances[(i, j)] - distances[(j, i)]).abs() < 1e-9);
        }
        let reversed: Vec<usize> = (0..n).rev().collect();
        let other = prior.fit(&x.select_rows(&reversed), &y.select_rows(&reversed)).unwrap();
        let moved = other.weights(&queries).unwrap();
        for i in 0..6 {
            (0..n).for_each(|b| assert!((moved[(i, b)] - weights[(i, n - 1 - b)]).abs() < 1e-8));
        }
        prop_assert!((other.log_evidence - fit.log_evidence).abs() < 1e-8 * (1.0 + fit.log_evidence.abs()));
    }
}

#[test]
fn invalid_data_and_settings_are_refused() {
    let (x, y) = sample(10, 2);
    let error = |prior: BayesianConditionalMean, x: &Table, y: &Table| prior.fit(x, y).unwrap_err();
    assert!(matches!(error(centered(0.1), &x, &y.head(9)), Error::Shape { .. }));
    assert!(matches!(error(centered(0.1), &x.head(2), &y.head(2)), Error::TooFew { .. }));
    assert!(error(centered(0.0), &x, &y).to_string().contains("ridge"));
    let scaled = BayesianConditionalMean { scale: Some(-1.0), ..centered(0.1) };
    assert!(error(scaled, &x, &y).to_string().contains("scale"));
    let constant = Table::from_rows(&[[2.0]; 10]).unwrap();
    assert!(error(centered(0.1), &x, &constant).to_string().contains("same in all rows"));
    let fit = centered(0.1).fit(&x, &y).unwrap();
    let short = Matrix::column_vector(vec![0.0; 9]);
    assert!(matches!(fit.expectation(&short, None, &x), Err(Error::Shape { .. })));
    assert!(fit.weights(&y).unwrap_err().to_string().contains("x1"));
    assert!(matches!(fit.discrepancy_from_sample(&x, &y.head(0)), Err(Error::TooFew { .. })));
}
