//! Gaussian processes learnt from aggregates, against their definition: conditioning with dense matrices.

use std::sync::Arc;

use riesz::aggregate::{
    AggregateFit, AggregateGaussianProcess, Aggregates, BagWeighting, Bags, Conventions, Mediation,
    Mediators, ObservationOperator, TargetUnit, Tuning,
};
use riesz::fit::{GaussianProcess, TunedParameters};
use riesz::format::model::{SavedModel, from_bytes, to_bytes};
use riesz::kernel::Profile;
use riesz::linalg::{Cholesky, Sparse, dot};
use riesz::{Error, Kernel, Matrix, Posterior, Table};

use crate::common::{Stream, largest_difference, stationary, table, with_threads};

pub fn dense(sparse: &Sparse) -> Matrix {
    let mut out = Matrix::zeros(sparse.rows(), sparse.cols());
    for j in 0..sparse.cols() {
        sparse.column(j).for_each(|(i, w)| out[(i, j)] += w);
    }
    out
}

pub fn sum(a: &Matrix, times: f64, b: &Matrix) -> Matrix {
    let data = a.data().iter().zip(b.data()).map(|(a, b)| a + times * b).collect();
    Matrix::from_row_major(a.rows(), a.cols(), data)
}

fn inverse(matrix: Matrix) -> Matrix {
    Cholesky::new(matrix, "test").unwrap().inverse()
}

/// 37 rows in 6 unequal bags, one of a single row, and some rows in two of them.
fn bags(unit: TargetUnit) -> (Table, Bags) {
    let sizes = [1, 9, 4, 12, 3, 8];
    let mut bag: Vec<usize> = sizes.iter().enumerate().flat_map(|(b, &n)| vec![b; n]).collect();
    // The rows of a bag are not consecutive.
    bag.rotate_left(5);
    let mut rows: Vec<usize> = (0..37).collect();
    // Two rows of another bag are also in this one.
    rows.extend([30, 33]);
    bag.extend([1, 1]);
    let x = table(3, 37, 2);
    let weight: Vec<f64> = (0..39).map(|i| 0.5 + f64::from(i as u32 % 7)).collect();
    (x, Bags::from_memberships(&rows, 37, &bag, 6, Some(&weight), unit).unwrap())
}

fn mediators(unit: TargetUnit, targets: usize) -> Mediators {
    let totals = (unit == TargetUnit::Sum).then(|| (0..targets).map(|t| 20.0 + t as f64).collect());
    Mediators { bags: table(50, 6, 2), targets: table(80, targets, 2), totals }
}

pub fn mediation(counts: BagWeighting, centered: bool) -> Mediation {
    Mediation { counts, centered, ..Mediation::new(Kernel::gaussian(&[0.9, 1.4]), 0.05) }
}

/// Data with five targets; `bag_of_target` gives the bag of each that has rows.
pub fn data(unit: TargetUnit, bag_of_target: [Option<usize>; 5]) -> Aggregates {
    let (rows, bags) = bags(unit);
    let times = if unit == TargetUnit::Sum { 25.0 } else { 1.0 };
    let targets = [0.3, -1.2, 0.8, 2.0, -0.4].map(|z| z * times).to_vec();
    let mediators = Some(mediators(unit, 5));
    let target_noise = Some(vec![0.0, 0.1, 0.02, 0.0, 0.3].into_iter().map(|v: f64| v * times).collect());
    Aggregates { rows, bags, targets, bag_of_target: bag_of_target.to_vec(), target_noise, mediators }
}

pub const MATCHED: [Option<usize>; 5] = [Some(3), Some(0), Some(1), Some(5), Some(4)];
pub const MIXED: [Option<usize>; 5] = [Some(3), None, Some(1), None, Some(4)];
pub const MEDIATED: [Option<usize>; 5] = [None; 5];

pub fn process(mediation: Option<Mediation>) -> AggregateGaussianProcess {
    AggregateGaussianProcess {
        normalize_y: false,
        mediation,
        ..AggregateGaussianProcess::new(kernel(), 0.07)
    }
}

fn kernel() -> Kernel {
    1.3 * Kernel::gaussian(&[0.8, 1.1]) + 0.4 * stationary(Profile::Matern32, 1, 0.5)
}

/// The matrix B and the regression covariance S of an observation operator, by their formulas.
pub fn operator(data: &Aggregates, mediation: &Mediation) -> (Matrix, Matrix) {
    let (j, m) = (data.bags.count(), data.bag_of_target.len());
    let mass = data.bags.weight_sums();
    let total_mass: f64 = mass.iter().sum();
    let Mediators { bags, targets, totals } = data.mediators.as_ref().unwrap();
    let mut gram = mediation.kernel.gram(bags);
    gram.add_diagonal(|b| match mediation.counts {
        BagWeighting::Mass => mediation.ridge * total_mass / mass[b],
        BagWeighting::One => mediation.ridge * j as f64,
    });
    let cross = mediation.kernel.cross_gram(bags, targets);
    let ki = inverse(gram);
    let mut b = ki.matmul(&cross);
    let mut s = sum(&mediation.kernel.gram(targets), -1.0, &cross.transpose().matmul(&b));
    for t in 0..m {
        let missing = 1.0 - (0..j).map(|r| b[(r, t)]).sum::<f64>();
        for r in 0..j {
            let centre = if mediation.centered { mass[r] / total_mass * missing } else { 0.0 };
            let unit = totals.as_ref().map_or(1.0, |totals| totals[t] / mass[r]);
            b[(r, t)] = (b[(r, t)] + centre) * unit;
            if let Some(bag) = data.bag_of_target[t] {
                b[(r, t)] = if bag == r { 1.0 } else { 0.0 };
            }
        }
    }
    for t in 0..m {
        for u in 0..m {
            let units = totals.as_ref().map_or(1.0, |totals| totals[t] * totals[u]);
            let open = data.bag_of_target[t].is_none() && data.bag_of_target[u].is_none();
            s[(t, u)] *= if open { units } else { 0.0 };
        }
    }
    (b, s)
}

/// Weights by mass equal the regression in which every row is an example with its bag's mediator.
#[test]
fn mass_weights_equal_regression_on_replicated_rows() {
    let sizes = [1, 9, 4, 12];
    let bag: Vec<usize> = sizes.iter().enumerate().flat_map(|(b, &n)| vec![b; n]).collect();
    let bags = Bags::new(&bag, 4, None, TargetUnit::Mean).unwrap();
    let (of_bags, of_targets) = (table(5, 4, 2), table(30, 3, 2));
    let ell = Kernel::gaussian(&[0.7, 1.0]);
    let repeated = of_bags.select_rows(&bag);
    let mut gram = ell.gram(&repeated);
    gram.add_diagonal(|_| 26.0 * 0.03);
    let expected = inverse(gram).matmul(&ell.cross_gram(&repeated, &of_targets));
    let mediators = Mediators { bags: of_bags, targets: of_targets, totals: None };
    let bag_of_target = [None; 3];
    for (counts, equal) in [(BagWeighting::Mass, true), (BagWeighting::One, false)] {
        let mediation = Mediation { counts, centered: false, ..Mediation::new(ell.clone(), 0.03) };
        let operator =
            ObservationOperator::new(&bags, &bag_of_target, Some((&mediation, &mediators))).unwrap();
        let by_row = dense(bags.weights()).matmul(&operator.matrix());
        let gap = largest_difference(by_row.data(), expected.data());
        assert!((gap < 1e-12) == equal, "{counts:?}: {gap}");
    }
    // With bags of equal size the two weightings agree.
    let equal = Bags::new(&[0, 0, 1, 1, 2, 2, 3, 3], 4, None, TargetUnit::Mean).unwrap();
    let operator_matrix = |counts| {
        let mediation = Mediation { counts, ..Mediation::new(ell.clone(), 0.03) };
        ObservationOperator::new(&equal, &bag_of_target, Some((&mediation, &mediators))).unwrap().matrix()
    };
    assert!(
        largest_difference(
            operator_matrix(BagWeighting::Mass).data(),
            operator_matrix(BagWeighting::One).data()
        ) < 1e-14
    );
}

#[test]
fn centring_keeps_constants() {
    for counts in [BagWeighting::Mass, BagWeighting::One] {
        for bag_of_target in [MIXED, MEDIATED] {
            let data = data(TargetUnit::Mean, bag_of_target);
            let mediators = data.mediators.as_ref().unwrap();
            let operator = |centered| {
                ObservationOperator::new(
                    &data.bags,
                    &bag_of_target,
                    Some((&mediation(counts, centered), mediators)),
                )
                .unwrap()
            };
            let constant = Matrix::column_vector(vec![1.0; 6]);
            let kept = operator(true).transpose_times(&constant);
            assert!(kept.data().iter().all(|v| (v - 1.0).abs() < 1e-13), "{kept:?}");
            assert!(operator(false).transpose_times(&constant).data().iter().any(|v| (v - 1.0).abs() > 0.05));
        }
    }
}

#[test]
fn operators_match_their_formulas() {
    for unit in [TargetUnit::Mean, TargetUnit::Sum] {
        for bag_of_target in [MATCHED, MIXED, MEDIATED] {
            for counts in [BagWeighting::Mass, BagWeighting::One] {
                for centered in [false, true] {
                    let (data, mediation) = (data(unit, bag_of_target), mediation(counts, centered));
                    let observation_operator = ObservationOperator::new(
                        &data.bags,
                        &bag_of_target,
                        Some((&mediation, data.mediators.as_ref().unwrap())),
                    )
                    .unwrap();
                    let (b, s) = operator(&data, &mediation);
                    assert!(largest_difference(observation_operator.matrix().data(), b.data()) < 1e-12);
                    match observation_operator.regression_covariance() {
                        Some(variance) => {
                            let size = s.data().iter().fold(1.0, |a: f64, v| a.max(v.abs()));
                            assert!(largest_difference(variance.data(), s.data()) < 1e-12 * size)
                        }
                        None => assert!(bag_of_target == MATCHED),
                    }
                    let weights = Matrix::from_row_major(6, 2, (0..12).map(f64::from).collect());
                    let products = b.transpose().matmul(&weights);
                    let actual = observation_operator.transpose_times(&weights);
                    assert!(largest_difference(actual.data(), products.data()) < 1e-10);
                }
            }
        }
    }
}

/// Central differences of a function of several parameters.
fn differences(center: &[f64], f: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let step = 1e-5;
    let moved = |p: usize, shift: f64| {
        let mut theta = center.to_vec();
        theta[p] += shift;
        f(&theta)
    };
    (0..center.len()).map(|p| (moved(p, step) - moved(p, -step)) / (2.0 * step)).collect()
}

fn theta(parameters: &[riesz::kernel::Parameter]) -> Vec<f64> {
    parameters.iter().map(|p| p.log_value).collect()
}

#[test]
fn operator_gradients_match_finite_differences() {
    let mut stream = Stream(7);
    for unit in [TargetUnit::Mean, TargetUnit::Sum] {
        for bag_of_target in [MIXED, MEDIATED] {
            for (counts, centered) in
                [(BagWeighting::Mass, true), (BagWeighting::One, false), (BagWeighting::One, true)]
            {
                let (data, mediation) = (data(unit, bag_of_target), mediation(counts, centered));
                let mediators = data.mediators.as_ref().unwrap();
                let by_matrix = Matrix::from_row_major(6, 5, (0..30).map(|_| stream.signed()).collect());
                let asymmetric = Matrix::from_row_major(5, 5, (0..25).map(|_| stream.signed()).collect());
                let by_variance = sum(&asymmetric, 1.0, &asymmetric.transpose());
                let value = |theta: &[f64]| {
                    let operator = ObservationOperator::new(
                        &data.bags,
                        &bag_of_target,
                        Some((&mediation.with_parameters(theta), mediators)),
                    )
                    .unwrap();
                    dot(operator.matrix().data(), by_matrix.data())
                        + dot(operator.regression_covariance().unwrap().data(), by_variance.data())
                };
                let parameters = theta(&mediation.parameters());
                let operator =
                    ObservationOperator::new(&data.bags, &bag_of_target, Some((&mediation, mediators)))
                        .unwrap();
                let gradient = operator.gradient(&by_matrix, Some(&by_variance));
                let expected = differences(&parameters, value);
                let size = value(&parameters).abs().max(1.0);
                assert!(largest_difference(&gradient, &expected) < 1e-8 * size, "{gradient:?} {expected:?}");
            }
        }
    }
}

#[test]
fn left_out_bag_loss_equals_that_of_refits() {
    let data = data(TargetUnit::Mean, MEDIATED);
    let table = &data.mediators.as_ref().unwrap().bags;
    let p = dense(data.bags.weights());
    let gram = p.transpose().matmul(&kernel().gram(&data.rows)).matmul(&p);
    let mass = data.bags.weight_sums();
    let total_mass: f64 = mass.iter().sum();
    for counts in [BagWeighting::Mass, BagWeighting::One] {
        for centered in [false, true] {
            let mediation = mediation(counts, centered);
            let mut expected = 0.0;
            for b in 0..6 {
                let kept: Vec<usize> = (0..6).filter(|c| *c != b).collect();
                let mut kept_gram = mediation.kernel.gram(&table.select_rows(&kept));
                kept_gram.add_diagonal(|c| match counts {
                    BagWeighting::Mass => mediation.ridge * total_mass / mass[kept[c]],
                    BagWeighting::One => mediation.ridge * 6.0,
                });
                let cross = mediation.kernel.cross_gram(&table.select_rows(&kept), &table.select_rows(&[b]));
                let weights = inverse(kept_gram).matmul(&cross).column(0);
                let missing = 1.0 - weights.iter().sum::<f64>();
                // The residual as coefficients of all bags' means.
                let mut residual = [0.0; 6];
                residual[b] = 1.0;
                for (c, w) in kept.iter().zip(weights) {
                    let centre = if centered { mass[*c] / (total_mass - mass[b]) * missing } else { 0.0 };
                    residual[*c] = -w - centre;
                }
                expected += dot(&gram.matvec(&residual), &residual) / 6.0;
            }
            let (loss, gradient) = mediation.loo_loss(&data.bags, table, &gram).unwrap();
            assert!((loss - expected).abs() < 1e-12 * expected, "{loss} {expected}");
            let slopes = differences(&theta(&mediation.parameters()), |theta| {
                mediation.with_parameters(theta).loo_loss(&data.bags, table, &gram).unwrap().0
            });
            assert!(largest_difference(&gradient, &slopes) < 1e-8, "{gradient:?} {slopes:?}");
        }
    }
}

/// The posterior by definition: mean and covariance of f at `x`, the evidence, `C` and the prior mean.
struct Conditioned {
    mean: Vec<f64>,
    covariance: Matrix,
    evidence: f64,
    noise: Matrix,
    weights: Vec<f64>,
    center: f64,
    a: Matrix,
}

fn conditioned(process: &AggregateGaussianProcess, data: &Aggregates, x: &Table) -> Conditioned {
    let none = mediation(BagWeighting::One, true);
    let (b, s) = operator(data, process.mediation.as_ref().unwrap_or(&none));
    let p = dense(data.bags.weights());
    let a = p.matmul(&b);
    let k = process.kernel.gram(&data.rows);
    let mut noise = a.transpose().matmul(&a);
    noise.data_mut().iter_mut().for_each(|v| *v *= process.row_noise);
    noise = sum(&noise, process.mediation_noise, &s);
    let known = data.target_noise.clone().unwrap_or_else(|| vec![0.0; 5]);
    noise.add_diagonal(|t| process.noise + known[t]);
    let v = sum(&a.transpose().matmul(&k).matmul(&a), 1.0, &noise);
    let vi = inverse(v.clone());
    let constants = a.transpose().matvec(&vec![1.0; data.rows.rows()]);
    let center = process.prior_mean.unwrap_or_else(|| {
        dot(&vi.matvec(&constants), &data.targets) / dot(&vi.matvec(&constants), &constants)
    });
    let residual: Vec<f64> = data.targets.iter().zip(&constants).map(|(z, c)| z - center * c).collect();
    let weights = vi.matvec(&residual);
    let h = process.kernel.cross_gram(x, &data.rows).matmul(&a);
    let mean = h.matvec(&weights).iter().map(|v| v + center).collect();
    let taken = h.matmul(&vi).matmul(&h.transpose());
    let covariance = sum(&process.kernel.gram(x), -1.0, &taken);
    let log_det = Cholesky::new(v, "test").unwrap().log_det();
    let evidence =
        -0.5 * (dot(&weights, &residual) + log_det + residual.len() as f64 * std::f64::consts::TAU.ln());
    Conditioned { mean, covariance, evidence, noise, weights, center, a }
}

/// Processes and data with all kinds of operators, means and noises.
fn cases() -> Vec<(AggregateGaussianProcess, Aggregates)> {
    let mut cases = Vec::new();
    for unit in [TargetUnit::Mean, TargetUnit::Sum] {
        for bag_of_target in [MATCHED, MIXED, MEDIATED] {
            for (counts, centered) in [
                (BagWeighting::Mass, false),
                (BagWeighting::Mass, true),
                (BagWeighting::One, false),
                (BagWeighting::One, true),
            ] {
                for (mediation_noise, row_noise) in [(0.0, 0.0), (0.3, 0.0), (0.0, 0.4), (0.2, 0.6)] {
                    let prior_mean = (counts == BagWeighting::One).then_some(-0.7);
                    let process = process(Some(mediation(counts, centered)));
                    // Sums are about twenty times as large as means.
                    let noise = if unit == TargetUnit::Sum { 30.0 } else { 0.07 };
                    let own_process =
                        AggregateGaussianProcess { noise, mediation_noise, row_noise, prior_mean, ..process };
                    cases.push((own_process, data(unit, bag_of_target)));
                }
            }
        }
    }
    cases
}

#[test]
fn fits_are_conditional_distributions() {
    let x = table(200, 4, 2);
    for (process, data) in cases() {
        let truth = conditioned(&process, &data, &x);
        let fit = process.fit(&data).unwrap();
        let prediction = fit.model.predict(&x).unwrap();
        assert!(largest_difference(prediction.data(), &truth.mean) < 1e-10, "{process:?}");
        assert!((fit.log_marginal_likelihood - truth.evidence).abs() < 1e-10 * truth.evidence.abs());
        assert!((fit.model.intercept[0] - truth.center).abs() < 1e-11 * truth.center.abs().max(1.0));
        let posterior = fit.posterior();
        let covariance = &posterior.covariance(&posterior.functionals_at(&x).unwrap())[0];
        assert!(largest_difference(covariance.data(), truth.covariance.data()) < 1e-11);
        let variance = posterior.variance(&x).unwrap();
        (0..4).for_each(|i| assert!((variance[(i, 0)] - truth.covariance[(i, i)]).abs() < 1e-11));
        // Posterior of bags and targets, and fitted values.
        let p = dense(data.bags.weights());
        let at_rows = conditioned(&process, &data, &data.rows);
        let (means, covariance) = fit.bag_posterior();
        let size = p.data().iter().fold(1.0, |a: f64, v| a.max(*v));
        assert!(largest_difference(&means, &p.transpose().matvec(&at_rows.mean)) < 1e-9 * size);
        let expected = p.transpose().matmul(&at_rows.covariance).matmul(&p);
        assert!(largest_difference(covariance.data(), expected.data()) < 1e-9 * size * size);
        let fitted = fit.fitted();
        assert!(largest_difference(&fitted, &at_rows.a.transpose().matvec(&at_rows.mean)) < 1e-8);
        assert!(largest_difference(fit.weights(), &truth.weights) < 1e-9);
        let residual: Vec<f64> = data.targets.iter().zip(&fitted).map(|(z, f)| z - f).collect();
        assert!(largest_difference(&residual, &truth.noise.matvec(fit.weights())) < 1e-9);
        // Leverages sum up to the prediction, and are its derivatives by the targets.
        let shares = fit.target_leverage(&x).unwrap();
        let constants = at_rows.a.transpose().matvec(&vec![1.0; data.rows.rows()]);
        let centered: Vec<f64> =
            data.targets.iter().zip(&constants).map(|(z, c)| z - truth.center * c).collect();
        let sums: Vec<f64> = shares.matvec(&centered).iter().map(|v| v + truth.center).collect();
        assert!(largest_difference(&sums, &truth.mean) < 1e-9);
        let mut revised = data.clone();
        revised.targets[2] += 1.0;
        let again = AggregateGaussianProcess { prior_mean: Some(truth.center), ..process };
        let again = again.fit(&revised).unwrap().model;
        let moved = again.predict(&x).unwrap();
        (0..4).for_each(|i| assert!((moved[(i, 0)] - truth.mean[i] - shares[(i, 2)]).abs() < 1e-9));
        let slopes = p.matmul(&fit.weight_sensitivities()).column(2);
        let moved = again.coef.data().iter().zip(fit.model.coef.data()).map(|(b, a)| b - a);
        assert!(largest_difference(&slopes, &moved.collect::<Vec<_>>()) < 1e-9);
    }
}

#[test]
fn evidence_gradients_match_finite_differences() {
    for (process, data) in cases() {
        let parameters = theta(&process.parameters());
        let (value, gradient) = process.log_marginal_likelihood(&data, &parameters).unwrap();
        let rows = data.rows.select_rows(&[0]);
        assert!((value - conditioned(&process, &data, &rows).evidence).abs() < 1e-10 * value.abs());
        let expected = differences(&parameters, |theta| {
            conditioned(&process.with_parameters(theta), &data, &rows).evidence
        });
        // Differences of large numbers lose digits.
        let size = gradient.iter().fold(100.0, |a: f64, v| a.max(v.abs()));
        assert!(
            largest_difference(&gradient, &expected) < 1e-8 * size,
            "{process:?}: {gradient:?} {expected:?}"
        );
    }
}

#[test]
fn left_out_targets_are_those_of_refits() {
    for (process, data) in cases() {
        let left_out = process.fit(&data).unwrap().leave_one_out().unwrap();
        for t in 0..5 {
            let kept: Vec<usize> = (0..5).filter(|u| *u != t).collect();
            let none = mediation(BagWeighting::One, true);
            let (b, s) = operator(&data, process.mediation.as_ref().unwrap_or(&none));
            let truth = conditioned(&process, &data, &data.rows);
            let k = process.kernel.gram(&data.rows);
            let a = dense(data.bags.weights()).matmul(&b);
            let v = sum(&a.transpose().matmul(&k).matmul(&a), 1.0, &truth.noise);
            let _ = s;
            let kept_covariance = Matrix::from_row_major(
                4,
                4,
                kept.iter().flat_map(|i| kept.iter().map(|j| v[(*i, *j)])).collect(),
            );
            let vi = inverse(kept_covariance);
            let cross: Vec<f64> = kept.iter().map(|i| v[(*i, t)]).collect();
            let constants = a.transpose().matvec(&vec![1.0; data.rows.rows()]);
            let c: Vec<f64> = kept.iter().map(|i| constants[*i]).collect();
            let z: Vec<f64> = kept.iter().map(|i| data.targets[*i]).collect();
            let w = vi.matvec(&cross);
            let (mean, mut variance) = match process.prior_mean {
                Some(mean) => (mean, v[(t, t)] - dot(&w, &cross)),
                None => {
                    // Universal kriging.
                    let information = dot(&vi.matvec(&c), &c);
                    let gap = constants[t] - dot(&w, &c);
                    (
                        dot(&vi.matvec(&c), &z) / information,
                        v[(t, t)] - dot(&w, &cross) + gap * gap / information,
                    )
                }
            };
            variance = variance.max(0.0);
            let residual: Vec<f64> = z.iter().zip(&c).map(|(z, c)| z - mean * c).collect();
            let expected = mean * constants[t] + dot(&w, &residual);
            let size = data.targets.iter().fold(1.0, |a: f64, z| a.max(z.abs()));
            assert!((left_out.mean[t] - expected).abs() < 1e-9 * size, "{} {expected}", left_out.mean[t]);
            assert!((left_out.variance[t] / variance - 1.0).abs() < 1e-8);
        }
        let scores = &left_out.scores;
        let inside = scores.iter().filter(|s| s.abs() < 1.5).count();
        assert_eq!(left_out.coverage(1.5), inside as f64 / 5.0);
    }
}

#[test]
fn bags_of_one_row_are_ordinary_regression() {
    let (x, y) = (table(0, 30, 2), (0..30).map(|i| (f64::from(i) / 5.0).sin()).collect::<Vec<_>>());
    let bags = Bags::new(&(0..30).collect::<Vec<_>>(), 30, None, TargetUnit::Mean).unwrap();
    let data = Aggregates::matched(x.clone(), bags, y.clone());
    // The mean that ordinary regression subtracts.
    let center = y.iter().sum::<f64>() / 30.0;
    for normalize_y in [false, true] {
        let gp = GaussianProcess {
            normalize_y,
            tune: TunedParameters::Nothing,
            ..GaussianProcess::new(Kernel::gaussian(&[0.8, 0.9]), 0.1)
        };
        let expected = gp.fit(&x, &Matrix::column_vector(y.clone())).unwrap();
        let prior_mean = Some(if normalize_y { center } else { 0.0 });
        let process = AggregateGaussianProcess::new(Kernel::gaussian(&[0.8, 0.9]), 0.1);
        let fit = AggregateGaussianProcess { normalize_y, prior_mean, ..process }.fit(&data).unwrap();
        let new = table(400, 6, 2);
        let mean_and_sd = |posterior: Posterior<'_>| {
            let mean = posterior.mean().predict(&new).unwrap();
            [mean.data().to_vec(), posterior.sd(&new).unwrap().data().to_vec()].concat()
        };
        assert!(
            largest_difference(&mean_and_sd(fit.posterior()), &mean_and_sd(expected.posterior())) < 1e-12
        );
        assert!((fit.log_marginal_likelihood - expected.log_marginal_likelihood).abs() < 1e-10);
    }
}

/// With a single observed aggregate, the posterior mean changes by the covariance with it.
#[test]
fn one_bag_conditions_on_one_number() {
    let x = table(0, 12, 2);
    let bags = Bags::new(&[0; 12], 1, None, TargetUnit::Mean).unwrap();
    let data = Aggregates::matched(x.clone(), bags, vec![3.0]);
    let process = AggregateGaussianProcess { prior_mean: Some(1.0), ..process(None) };
    let fit = process.fit(&data).unwrap();
    let k = kernel();
    let mean = |v: &[f64]| v.iter().sum::<f64>() / 12.0;
    let total = mean(&(0..12).map(|i| mean(k.gram(&x).row(i))).collect::<Vec<_>>()) + 0.07;
    let query = table(90, 1, 2);
    let h = mean(k.cross_gram(&query, &x).row(0));
    assert!((fit.model.predict(&query).unwrap()[(0, 0)] - 1.0 - 2.0 * h / total).abs() < 1e-13);
    let variance = k.eval(&query.row(0), &query.row(0)) - h * h / total;
    assert!((fit.posterior().variance(&query).unwrap()[(0, 0)] - variance).abs() < 1e-13);
    assert!(fit.leave_one_out().unwrap_err().to_string().contains("2 targets"));
}

/// Bags larger than tiles: sums over pairs equal those over the whole matrix, and are bit-identical for any
/// number of threads.
#[test]
fn tiled_sums_equal_sums_over_pairs() {
    let n = 1500;
    let mut stream = Stream(3);
    let bag: Vec<usize> = (0..n).map(|i| if i % 3 == 0 { i % 40 } else { 40 + i % 2 }).collect();
    // Bags are renumbered without gaps.
    let mut used: Vec<usize> = bag.clone();
    used.sort_unstable();
    used.dedup();
    let bag: Vec<usize> = bag.iter().map(|b| used.binary_search(b).unwrap()).collect();
    let weight: Vec<f64> = (0..n).map(|_| 0.1 + stream.uniform()).collect();
    let bags = Bags::new(&bag, used.len(), Some(&weight), TargetUnit::Mean).unwrap();
    let rows = stream.normals(n, 2);
    let targets: Vec<f64> = (0..used.len()).map(|_| stream.normal()).collect();
    let data = Aggregates::matched(rows, bags, targets);
    let process = AggregateGaussianProcess { prior_mean: Some(0.2), ..process(None) };
    let fit = process.fit(&data).unwrap();
    let p = dense(data.bags.weights());
    let u = p.transpose().matmul(&process.kernel.gram(&data.rows)).matmul(&p);
    let (mean, covariance) = fit.bag_posterior();
    let mut v = u.clone();
    v.add_diagonal(|_| process.noise);
    let vi = inverse(v);
    let residual: Vec<f64> = data.targets.iter().map(|z| z - 0.2).collect();
    let expected: Vec<f64> = u.matmul(&vi).matvec(&residual).iter().map(|v| v + 0.2).collect();
    assert!(largest_difference(&mean, &expected) < 1e-11);
    let expected = sum(&u, -1.0, &u.matmul(&vi).matmul(&u));
    assert!(largest_difference(covariance.data(), expected.data()) < 1e-12);
    let parameters = theta(&process.parameters());
    let evidence =
        |threads| with_threads(threads, || process.log_marginal_likelihood(&data, &parameters).unwrap());
    let (value, gradient) = evidence(1);
    assert_eq!((value, gradient.clone()), evidence(3));
    let slopes = differences(&parameters, |theta| process.log_marginal_likelihood(&data, theta).unwrap().0);
    assert!(largest_difference(&gradient, &slopes) < 1e-6, "{gradient:?} {slopes:?}");
}

#[test]
fn files_keep_what_aggregates_say() {
    let (process, data) = cases().swap_remove(30);
    let fit = process.fit(&data).unwrap();
    let saved =
        SavedModel { model: fit.model.clone(), covariance: Some(fit.covariance.clone()), groups: None };
    let bytes = to_bytes(&saved).unwrap();
    let again = from_bytes(&bytes).unwrap();
    assert_eq!(bytes, to_bytes(&again).unwrap());
    let x = table(200, 4, 2);
    let covariance = again.covariance.unwrap();
    let posterior = Posterior::new(&again.model, &covariance).unwrap();
    assert_eq!(posterior.sd(&x).unwrap(), fit.posterior().sd(&x).unwrap());
}

/// Posterior intervals have their nominal coverage over draws of f and of targets from the process.
#[test]
fn posterior_intervals_cover_draws_of_the_process() {
    let mut stream = Stream(11);
    let (mut inside, mut squares, mut count) = (0.0, 0.0, 0.0);
    let x = table(200, 5, 2);
    for (process, mut data) in cases().into_iter().skip(1).step_by(9) {
        let process = AggregateGaussianProcess { prior_mean: Some(0.4), ..process };
        let truth = conditioned(&process, &data, &x);
        let all_rows = data.rows.stack(&x).unwrap();
        let (n, m) = (data.rows.rows(), data.targets.len());
        let mut gram = process.kernel.gram(&all_rows);
        gram.add_diagonal(|_| 1e-10);
        let factor = Cholesky::new(gram, "test").unwrap();
        let noise = Cholesky::new(truth.noise, "test").unwrap();
        for _ in 0..150 {
            let mut draw =
                |count: usize| Matrix::column_vector((0..count).map(|_| stream.normal()).collect());
            let f: Vec<f64> = factor.lower_times(&draw(n + 5)).data().iter().map(|v| v + 0.4).collect();
            let e = noise.lower_times(&draw(m));
            let z = truth.a.transpose().matvec(&f[..n]);
            data.targets = z.iter().zip(e.data()).map(|(z, e)| z + e).collect();
            let fit = process.fit(&data).unwrap();
            let (mean, sd) = (fit.model.predict(&x).unwrap(), fit.posterior().sd(&x).unwrap());
            for i in 0..5 {
                let score = (f[n + i] - mean[(i, 0)]) / sd[(i, 0)];
                (inside, squares, count) = (
                    inside + f64::from(u8::from(score.abs() < 1.959964)),
                    squares + score * score,
                    count + 1.0,
                );
            }
        }
    }
    let (coverage, mean) = (inside / count, squares / count);
    // The five rows of a draw are correlated: half of them count as independent; the limit is four standard
    // errors.
    let effective_count: f64 = count / 2.0;
    assert!((coverage - 0.95).abs() < 4.0 * (0.95 * 0.05 / effective_count).sqrt(), "{coverage} of {count}");
    assert!((mean - 1.0).abs() < 4.0 * (2.0 / effective_count).sqrt(), "{mean} of {count}");
}

#[test]
fn bad_input_is_refused_with_a_message() {
    let base = data(TargetUnit::Mean, MATCHED);
    let error = |change: &dyn Fn(&mut AggregateGaussianProcess, &mut Aggregates)| {
        let (mut process, mut data) = (process(None), base.clone());
        change(&mut process, &mut data);
        process.fit(&data).unwrap_err().to_string()
    };
    assert!(error(&|_, d| d.bag_of_target[3] = Some(6)).contains("bag of target 4"));
    assert!(error(&|_, d| d.bag_of_target[3] = None).contains("needs mediators"));
    assert!(error(&|_, d| d.targets[1] = f64::NAN).contains("row 2 of column 'target'"));
    assert!(error(&|_, d| d.bag_of_target.truncate(4)).contains("one for each target"));
    assert!(error(&|_, d| d.target_noise = Some(vec![-1.0; 5])).contains("not negative"));
    assert!(error(&|p, _| p.noise = 0.0).contains("noise"));
    assert!(error(&|p, _| p.row_noise = f64::NAN).contains("row_noise"));
    let sum = |change: &dyn Fn(&mut Mediators)| {
        let mut data = data(TargetUnit::Sum, MIXED);
        change(data.mediators.as_mut().unwrap());
        process(Some(mediation(BagWeighting::One, true))).fit(&data).unwrap_err().to_string()
    };
    assert!(sum(&|m| m.totals = None).contains("sum of its weights"));
    assert!(sum(&|m| m.totals.as_mut().unwrap()[3] = 0.0).contains("total of target 4"));
    assert!(sum(&|m| m.bags = table(0, 5, 2)).contains("mediators of bags"));
    assert!(sum(&|m| m.targets = table(0, 3, 2)).contains("mediators of targets"));
    let constant = |_: &mut AggregateGaussianProcess, d: &mut Aggregates| d.targets = vec![2.0; 5];
    let (mut process, mut data) = (process(None), base.clone());
    constant(&mut process, &mut data);
    process.normalize_y = true;
    assert!(process.fit(&data).unwrap_err().to_string().contains("no spread"));
}

/// Means of a smooth function over eight stretches, matched.
fn stretches() -> Aggregates {
    let x: Vec<[f64; 1]> = (0..32).map(|i| [f64::from(i) / 16.0 - 1.0]).collect();
    let bags = Bags::new(&(0..32).map(|i| i / 4).collect::<Vec<_>>(), 8, None, TargetUnit::Mean).unwrap();
    let mean = |b: usize| {
        x[4 * b..4 * b + 4].iter().map(|r| (2.5 * r[0]).sin()).sum::<f64>() / 4.0 + 0.1 * [1.0, -1.0][b % 2]
    };
    let targets = (0..8).map(mean).collect();
    Aggregates::matched(Table::from_rows(&x).unwrap(), bags, targets)
}

/// Returns the log prior density of a parameter at a distance from its start. The parameters are scale,
/// length scale and noise.
fn weak(p: usize, distance: f64) -> f64 {
    match p {
        0 => -0.5 * distance.powi(2),
        1 => 1.0 - 0.5 * distance - (-0.5 * distance).exp(),
        _ => -0.5 * (distance / 1.5).powi(2),
    }
}

fn slope_of_weak(p: usize, distance: f64) -> f64 {
    (weak(p, distance + 1e-5) - weak(p, distance - 1e-5)) / 2e-5
}

#[test]
fn tuning_ends_at_a_maximum() {
    let data = stretches();
    let start = AggregateGaussianProcess::new(Kernel::gaussian(&[0.6]), 0.03);
    let initial = theta(&start.parameters());
    for conventions in [Conventions::Regularised, Conventions::Published] {
        let tuned = Tuning { conventions, ..Tuning::default() }.tune(&start, &data).unwrap();
        let optimum = theta(&tuned.process.parameters());
        let weigh = f64::from(u8::from(conventions == Conventions::Regularised));
        let posterior = |theta: &[f64]| {
            let (mut value, mut gradient) = start.log_marginal_likelihood(&data, theta).unwrap();
            for p in 0..3 {
                value += weigh * weak(p, theta[p] - initial[p]);
                gradient[p] += weigh * slope_of_weak(p, theta[p] - initial[p]);
            }
            (value, gradient)
        };
        let (value, gradient) = posterior(&optimum);
        assert!(gradient.iter().all(|g| g.abs() < 1e-3), "{conventions:?} {gradient:?}");
        assert!(
            value > posterior(&initial).0 && largest_difference(&optimum, &initial) > 0.1,
            "{optimum:?} {initial:?}"
        );
        assert!(
            (tuned.fit.log_marginal_likelihood - start.log_marginal_likelihood(&data, &optimum).unwrap().0)
                .abs()
                < 1e-9
        );
        assert!(tuned.evaluations > 5 && tuned.warnings.is_empty(), "{:?}", tuned.warnings);
    }
}

/// Twelve bags with rows, and twelve targets without, whose mediators are partly informative about the rows.
fn apart() -> Aggregates {
    let mut stream = Stream(5);
    let height: Vec<f64> = (0..24).map(|_| 2.0 * stream.signed()).collect();
    let rows: Vec<[f64; 2]> =
        (0..120).map(|i| [height[i / 10] + 0.3 * stream.normal(), stream.normal()]).collect();
    let bag: Vec<usize> = (0..120).map(|i| i / 10).collect();
    let bags = Bags::new(&bag, 12, None, TargetUnit::Mean).unwrap();
    let height_column = |range: std::ops::Range<usize>| {
        Table::from_rows(&height[range].iter().map(|h| [*h]).collect::<Vec<_>>())
    };
    let mediators = Some(Mediators {
        bags: height_column(0..12).unwrap(),
        targets: height_column(12..24).unwrap(),
        totals: None,
    });
    let targets = height[12..].iter().map(|h| 3.0 + h.sin() + 0.05 * stream.normal()).collect();
    let bag_of_target = vec![None; 12];
    Aggregates {
        rows: Table::from_rows(&rows).unwrap(),
        bags,
        targets,
        bag_of_target,
        target_noise: None,
        mediators,
    }
}

/// The leave-one-out loss of stage 1 selects the mediators' kernel and ridge, at the tuned kernel of rows.
#[test]
fn stage_one_chooses_the_ridge() {
    let data = apart();
    let mediation = Conventions::Regularised.mediation(Kernel::gaussian(&[0.5]));
    let start = AggregateGaussianProcess {
        mediation_noise: 0.1,
        mediation: Some(mediation.clone()),
        ..AggregateGaussianProcess::new(Kernel::gaussian(&[1.0, 1.0]), 0.03)
    };
    let tuned = Tuning { rounds: 30, ..Tuning::default() }.tune(&start, &data).unwrap();
    let fitted = tuned.process.mediation.clone().unwrap();
    assert_eq!(fitted.kernel.terms[0].scale, 1.0);
    let p = dense(data.bags.weights());
    let gram = p.transpose().matmul(&tuned.process.kernel.gram(&data.rows)).matmul(&p);
    let (loss, slopes) = fitted.loo_loss(&data.bags, &data.mediators.as_ref().unwrap().bags, &gram).unwrap();
    let (optimum, from) = (theta(&fitted.parameters()), theta(&mediation.parameters()));
    for (p, sd) in [(1, 0.8), (2, 1.5)] {
        let slope = -6.0 * slopes[p] / loss - (optimum[p] - from[p]) / (sd * sd);
        assert!(slope.abs() < 0.05, "parameter {p}: {slope}");
    }
    // The maximum of the marginal likelihood is elsewhere.
    let parameters = theta(&tuned.process.parameters());
    let (_, gradient) = start.log_marginal_likelihood(&data, &parameters).unwrap();
    assert!(gradient[gradient.len() - 1].abs() > 0.05, "{gradient:?}");
    // With the published conventions the ridge is fixed and nothing is centered.
    let published = Conventions::Published;
    let mediation = published.mediation(Kernel::gaussian(&[0.5]));
    assert!(!mediation.centered && mediation.ridge == 0.01);
    let start = AggregateGaussianProcess { mediation: Some(mediation), mediation_noise: 0.0, ..start };
    let tuned = Tuning { conventions: published, ..Tuning::default() }.tune(&start, &data).unwrap();
    let fitted = tuned.process.mediation.clone().unwrap();
    assert!((fitted.ridge - 0.01).abs() < 1e-12 && (fitted.kernel.terms[0].scale - 1.0).abs() < 1e-12);
    let parameters = theta(&tuned.process.parameters());
    let (_, gradient) = start.log_marginal_likelihood(&data, &parameters).unwrap();
    // The scale, two length scales and noise of the rows' process, and the mediators' length scale; some may
    // be at a bound.
    if tuned.warnings.is_empty() {
        assert!([0, 1, 2, 3, 5].iter().all(|p| gradient[*p].abs() < 1e-2), "{gradient:?}");
    }
}

#[test]
fn few_targets_tune_nothing() {
    let mut data = stretches();
    data.targets.truncate(4);
    data.bag_of_target.truncate(4);
    let start = AggregateGaussianProcess::new(Kernel::gaussian(&[0.6]), 0.03);
    let tuned = Tuning::default().tune(&start, &data).unwrap();
    assert_eq!(tuned.process, start);
    assert!(tuned.warnings[0].contains("fewer than 5 targets"));
    let stopped = Tuning::default();
    stopped.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(stopped.tune(&start, &stretches()).unwrap_err().to_string().contains("interrupted"));
}

/// Compares averages over hyper-parameters with sums over a grid.
#[test]
fn hyperparameter_averages_equal_grid_sums() {
    let data = stretches();
    let start = AggregateGaussianProcess::new(Kernel::gaussian(&[0.6]), 0.03);
    let x = Table::from_rows(&[[-1.4], [0.1], [1.3]]).unwrap();
    let initial = theta(&start.parameters());
    // A coarser grid has an error as large as the tolerance. So does a grid that ends where long length
    // scales still have posterior mass.
    let steps = [25, 49, 25];
    let (mut logs, mut means, mut variances) = (Vec::new(), Vec::new(), Vec::new());
    for cell in 0..steps.iter().product() {
        let place = [cell % steps[0], cell / steps[0] % steps[1], cell / steps[0] / steps[1]];
        let z: Vec<f64> = (0..3).map(|p| 8.0 * place[p] as f64 / (steps[p] - 1) as f64 - 4.0).collect();
        let apart = [z[0], 2.5 * z[1] + 6.0, 1.5 * z[2]];
        let theta: Vec<f64> = (0..3).map(|p| initial[p] + apart[p]).collect();
        let fit = start.with_parameters(&theta).fit(&data).unwrap();
        logs.push(fit.log_marginal_likelihood + (0..3).map(|p| weak(p, apart[p])).sum::<f64>());
        means.push(fit.model.predict(&x).unwrap());
        variances.push(fit.posterior().variance(&x).unwrap());
    }
    let max_log = logs.iter().fold(f64::NEG_INFINITY, |a: f64, v| a.max(*v));
    let weights: Vec<f64> = logs.iter().map(|log| (log - max_log).exp()).collect();
    let total: f64 = weights.iter().sum();
    let tuned = Tuning::default().tune(&start, &data).unwrap().process;
    let average = Tuning::default().average(&start, std::slice::from_ref(&tuned), &data, 6000, 1).unwrap();
    assert!(
        average.effective_sample_size > 1000.0 && average.effective_sample_size <= 6000.0,
        "{}",
        average.effective_sample_size
    );
    assert!((average.fits.iter().map(|(w, _)| w).sum::<f64>() - 1.0).abs() < 1e-12);
    let [mean, sd] = <[Matrix; 2]>::from(average.predict(&x).unwrap()).map(|moment| moment.column(0));
    let plugged = tuned.fit(&data).unwrap().posterior().sd(&x).unwrap();
    for i in 0..3 {
        let expect = |quantity: &dyn Fn(usize) -> f64| {
            (0..weights.len()).map(|c| weights[c] * quantity(c)).sum::<f64>() / total
        };
        let center = expect(&|c| means[c][(i, 0)]);
        let between = expect(&|c| (means[c][(i, 0)] - center).powi(2));
        let variance = between + expect(&|c| variances[c][(i, 0)]);
        let apart = |fit: &AggregateFit| fit.model.predict(&x).unwrap()[(i, 0)] - mean[i];
        let squared_error: f64 = average.fits.iter().map(|(w, fit)| (w * apart(fit)).powi(2)).sum();
        let error = 4.0 * squared_error.sqrt() + 1e-4;
        assert!((mean[i] - center).abs() < error, "{} {center} {error}", mean[i]);
        // Standard error of the weighted mean of squares over the draws.
        let square = |fit: &AggregateFit| {
            let apart = fit.model.predict(&x).unwrap()[(i, 0)] - mean[i];
            apart * apart + fit.posterior().variance(&x).unwrap()[(i, 0)]
        };
        let actual = sd[i] * sd[i];
        let terms = average.fits.iter().map(|(w, fit)| (w * (square(fit) - actual)).powi(2));
        let error = 4.0 * terms.sum::<f64>().sqrt() + 1e-3 * variance;
        assert!((actual - variance).abs() < error, "{actual} {variance} {error}");
        // Between the rows, a few draws with short length scales dominate the variance.
        assert!(i == 1 || error < 0.25 * variance, "{error} {variance}");
        assert!(i == 1 || sd[i] > plugged[(i, 0)]);
    }
    assert_eq!(
        average.predict(&x).unwrap(),
        Tuning::default()
            .average(&start, std::slice::from_ref(&tuned), &data, 6000, 1)
            .unwrap()
            .predict(&x)
            .unwrap()
    );
    let stopped = Tuning { stop: Arc::new(true.into()), ..Tuning::default() };
    assert!(matches!(
        stopped.average(&start, std::slice::from_ref(&tuned), &data, 6000, 1),
        Err(Error::Interrupted)
    ));
}

#[test]
fn defaults_and_warnings_follow_from_the_data() {
    // The sums of the bags of 2 and 9 rows decrease with the number of rows. The last target is mediated, and
    // its mediator is far from all bags.
    let sizes = [2, 9, 3, 4, 5];
    let bag: Vec<usize> = sizes.iter().enumerate().flat_map(|(b, &n)| vec![b; n]).collect();
    let rows = table(7, bag.len(), 2);
    let near = |count: u32| -> Vec<[f64; 1]> { (0..count).map(|b| [f64::from(b)]).collect() };
    let mut of_targets = near(5);
    of_targets.extend([[4.0 + 2.9], [4.0 + 3.1]]);
    let aggregates = |unit: TargetUnit| Aggregates {
        rows: rows.clone(),
        bags: Bags::new(&bag, 5, None, unit).unwrap(),
        targets: vec![9.0, -1.0, 8.0, 7.0, 6.0, 3.0, 2.0],
        bag_of_target: vec![Some(0), Some(1), Some(2), Some(3), Some(4), None, None],
        target_noise: None,
        mediators: Some(Mediators {
            bags: Table::from_rows(&near(5)).unwrap(),
            targets: Table::from_rows(&of_targets).unwrap(),
            totals: None,
        }),
    };
    let means = aggregates(TargetUnit::Mean);
    assert_eq!((means.mediated(), means.usual_points()), (2, None));
    assert_eq!(means.distant_mediators(&(5.0 * Kernel::gaussian(&[1.0]))), [6]);
    assert!(means.warnings().is_empty());
    let [doubt] = &aggregates(TargetUnit::Sum).warnings()[..] else { panic!("one doubt") };
    assert!(doubt.contains("are they means?"), "{doubt}");
    let sums = Aggregates { targets: vec![2.0, 9.0, 3.0, 4.0, 5.0, 3.0, 2.0], ..aggregates(TargetUnit::Sum) };
    assert!(sums.warnings().is_empty());
    // One matched target of 51 is less than 2 %.
    let mut mostly_mediated = means.clone();
    mostly_mediated.bag_of_target = vec![None; 51];
    (mostly_mediated.targets, mostly_mediated.bag_of_target[7]) = (vec![1.0; 51], Some(0));
    assert!(
        mostly_mediated.warnings()[0].starts_with("1 of 51 targets have rows"),
        "{:?}",
        mostly_mediated.warnings()
    );
    mostly_mediated.bag_of_target[8] = Some(1);
    assert!(mostly_mediated.warnings().is_empty());
    let kernels = || (Kernel::gaussian(&[1.0, 1.0]), Some(Kernel::gaussian(&[1.0])));
    let noises = |conventions: Conventions, data: &Aggregates| {
        let (kernel, mediators) = kernels();
        let start = conventions.start(kernel, mediators, data);
        [start.noise, start.row_noise, start.mediation_noise, start.mediation.unwrap().ridge]
    };
    assert_eq!(noises(Conventions::Regularised, &means), [0.03, 0.1, 0.1, 0.001]);
    assert_eq!(noises(Conventions::Published, &means), [0.03, 0.0, 0.0, 0.01]);
    // Bags of 2 and 8 rows, each with its own target.
    let bag: Vec<usize> = [2, 8].iter().enumerate().flat_map(|(b, &n)| vec![b; n]).collect();
    let even = Aggregates::matched(
        table(8, 10, 2),
        Bags::new(&bag, 2, None, TargetUnit::Mean).unwrap(),
        vec![1.0, 2.0],
    );
    assert_eq!(noises(Conventions::Regularised, &even), [0.03, 0.0, 0.0, 0.001]);
    let usual_points = |rows: usize, targets: usize| {
        let bag: Vec<usize> = (0..rows).map(|i| i % targets).collect();
        let x = Table::from_rows(&vec![[0.0]; rows]).unwrap();
        let bags = Bags::new(&bag, targets, None, TargetUnit::Mean).unwrap();
        Aggregates::matched(x, bags, vec![0.0; targets]).usual_points()
    };
    assert_eq!(
        [usual_points(10_000, 50), usual_points(10_001, 50), usual_points(10_001, 300)],
        [None, Some(200), Some(600)]
    );
    assert_eq!([usual_points(4_000, 4_000), usual_points(4_001, 4_001)], [None, Some(1_000)]);
}

/// A shift of the mediators of targets without rows is found at the stated level, and the shifted column is
/// named.
#[test]
fn shifts_of_mediators_are_named() {
    let (n_bags, n_targets) = (40, 40);
    let warning = |seed: u64, shift: f64| {
        let mut stream = Stream(seed * 7919 + 13);
        let mut normal = |count: usize, add: f64| {
            let rows: Vec<[f64; 2]> = (0..count).map(|_| [stream.normal(), stream.normal() + add]).collect();
            Table::from_rows(&rows).unwrap()
        };
        let bags =
            Bags::new(&(0..2 * n_bags).map(|i| i / 2).collect::<Vec<_>>(), n_bags, None, TargetUnit::Mean);
        let data = Aggregates {
            bag_of_target: vec![None; n_targets],
            mediators: Some(Mediators {
                bags: normal(n_bags, 0.0),
                targets: normal(n_targets, shift),
                totals: None,
            }),
            ..Aggregates::matched(table(0, 2 * n_bags, 2), bags.unwrap(), vec![0.0; n_targets])
        };
        data.mediator_shift_warning(seed, Arc::default()).unwrap()
    };
    let false_warnings = (0..60).filter(|&seed| warning(seed, 0.0).is_some()).count();
    assert!(false_warnings <= 4, "{false_warnings}");
    for seed in 0..5 {
        let text = warning(seed, 1.5).unwrap();
        assert!(text.contains("'x1'") && !text.contains("'x0'") && text.contains("p = 0.0"), "{text}");
    }
}
