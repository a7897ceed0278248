//! The conditional mean process at new mediators, against conditioning of dense joint distributions, and
//! against the predictions of left-out targets.

use riesz::Table;
use riesz::aggregate::{
    AggregateFit, AggregateGaussianProcess, Aggregates, BagWeighting, MediationTarget, TargetUnit,
};

use crate::aggregate::{MATCHED, MEDIATED, MIXED, data, dense, mediation, operator, process, sum};
use crate::aggregate_regressed::{Normal, cases};
use crate::common::{largest_difference, table};

/// The process of the tests with a regression on mediators, its noise, and noise of rows.
fn mediated(counts: BagWeighting, centered: bool, prior_mean: Option<f64>) -> AggregateGaussianProcess {
    AggregateGaussianProcess {
        mediation_noise: if centered { 0.6 } else { 0.0 },
        row_noise: 0.2,
        prior_mean,
        ..process(Some(mediation(counts, centered)))
    }
}

/// The posterior of g at `queries` by conditioning the joint normal distribution of targets and g, which are
/// targets without noise and with a total of 1.
fn dense_posterior(
    process: &AggregateGaussianProcess,
    data: &Aggregates,
    queries: &Table,
    prior_mean: f64,
) -> Normal {
    let (m, q) = (data.targets.len(), queries.rows());
    let mut extended = data.clone();
    extended.bag_of_target.extend(vec![None; q]);
    let mediators = extended.mediators.as_mut().unwrap();
    mediators.targets = mediators.targets.stack(queries).unwrap();
    mediators.totals.iter_mut().for_each(|totals| totals.extend(vec![1.0; q]));
    let (b, s) = operator(&extended, process.mediation.as_ref().unwrap());
    let row_weights = dense(data.bags.weights()).matmul(&b);
    let covariance = row_weights.transpose().matmul(&process.kernel.gram(&data.rows)).matmul(&row_weights);
    let mut covariance = sum(&covariance, process.mediation_noise, &s);
    let overlaps = row_weights.transpose().matmul(&row_weights);
    for t in 0..m {
        covariance[(t, t)] += process.noise + data.target_noise.as_ref().unwrap()[t];
        (0..m).for_each(|u| covariance[(t, u)] += process.row_noise * overlaps[(t, u)]);
    }
    let mean = row_weights.transpose().matvec(&vec![prior_mean; data.rows.rows()]);
    Normal { mean, covariance }.condition(&data.targets).0
}

#[test]
fn conditional_means_equal_dense_conditioning() {
    let queries = table(120, 3, 2);
    for unit in [TargetUnit::Mean, TargetUnit::Sum] {
        for bag_of_target in [MIXED, MEDIATED] {
            for (counts, centered, prior_mean) in [
                (BagWeighting::Mass, true, None),
                (BagWeighting::One, true, Some(0.4)),
                (BagWeighting::One, false, None),
            ] {
                let (data, process) = (data(unit, bag_of_target), mediated(counts, centered, prior_mean));
                let fit = process.fit(&data).unwrap();
                let truth = dense_posterior(&process, &data, &queries, fit.model.intercept[0]);
                let (means, covariance) = fit.conditional_means(&queries).unwrap();
                assert!(largest_difference(&means, &truth.mean) < 1e-9, "{means:?} {:?}", truth.mean);
                assert!(largest_difference(covariance.data(), truth.covariance.data()) < 1e-9);
                assert!(covariance.diagonal().all(|variance| variance > 1e-3));
            }
        }
    }
}

/// With normalised targets, g has the unit of the targets.
#[test]
fn conditional_means_have_the_unit_of_the_targets() {
    let queries = table(120, 3, 2);
    let process = AggregateGaussianProcess {
        normalize_y: true,
        row_noise: 0.0,
        ..mediated(BagWeighting::One, true, None)
    };
    let mut data = data(TargetUnit::Mean, MEDIATED);
    data.target_noise = None;
    let moments = |data: &Aggregates| process.fit(data).unwrap().conditional_means(&queries).unwrap();
    let (means, covariance) = moments(&data);
    data.targets.iter_mut().for_each(|z| *z = 3.0 * *z + 10.0);
    let (moved, scaled) = moments(&data);
    (0..3).for_each(|i| assert!((moved[i] - 3.0 * means[i] - 10.0).abs() < 1e-9));
    assert!(largest_difference(scaled.data(), sum(&covariance, 8.0, &covariance).data()) < 1e-9);
}

/// Asserts that g at the mediators of a left-out target, fitted without it, is the leave-one-out prediction.
fn assert_left_out(process: &AggregateGaussianProcess, data: &Aggregates, noise: f64) {
    let fit = process.fit(data).unwrap();
    let left_out = fit.leave_one_out().unwrap();
    let fitted = fit.fitted();
    let regresses_targets = process.mediation.as_ref().unwrap().regressed == MediationTarget::Targets;
    for t in (0..data.targets.len()).filter(|t| data.bag_of_target[*t].is_none()) {
        let mediators = data.mediators.as_ref().unwrap();
        let query = mediators.targets.select_rows(&[t]);
        let total = mediators.totals.as_ref().map_or(1.0, |totals| totals[t]);
        let g = |fit: &AggregateFit| {
            let (mean, covariance) = fit.conditional_means(&query).unwrap();
            (total * mean[0], total * total * covariance[(0, 0)])
        };
        // Fitted targets leave the error of a regression of rows to the noise.
        let is_fitted = process.mediation_noise == 0.0 || regresses_targets;
        let difference = (g(&fit).0 - fitted[t]).abs();
        assert!((difference < 1e-9 * total) == is_fitted, "{difference}");
        let mut reduced = data.clone();
        reduced.targets.remove(t);
        reduced.bag_of_target.remove(t);
        let removed_noise = reduced.target_noise.as_mut().unwrap().remove(t);
        let remaining: Vec<usize> = (0..data.targets.len()).filter(|u| *u != t).collect();
        let targets = reduced.mediators.as_mut().unwrap();
        targets.targets = targets.targets.select_rows(&remaining);
        if let Some(totals) = &mut targets.totals {
            totals.remove(t);
        }
        let (mean, variance) = g(&process.fit(&reduced).unwrap());
        assert!((mean - left_out.mean[t]).abs() < 1e-8 * total, "{mean} {}", left_out.mean[t]);
        let with_noise = variance + noise + removed_noise;
        assert!(
            (with_noise / left_out.variance[t] - 1.0).abs() < 1e-8,
            "{with_noise} {:?}",
            left_out.variance
        );
    }
}

#[test]
fn left_out_targets_are_conditional_means() {
    for unit in [TargetUnit::Mean, TargetUnit::Sum] {
        for bag_of_target in [MIXED, MEDIATED] {
            for centered in [false, true] {
                let process = AggregateGaussianProcess {
                    row_noise: 0.0,
                    ..mediated(BagWeighting::One, centered, Some(0.3))
                };
                assert_left_out(&process, &data(unit, bag_of_target), process.noise);
            }
        }
    }
}

/// Where targets are regressed on mediators, g is that regression, tied to the means of the bags.
#[test]
fn left_out_targets_are_values_of_the_regression_of_targets() {
    let given_mean = cases().into_iter().filter(|(process, _)| process.prior_mean.is_some());
    for (process, data) in given_mean {
        assert_left_out(&process, &data, process.mediation.as_ref().unwrap().ridge);
    }
}

#[test]
fn conditional_means_need_mediated_targets_and_their_columns() {
    let queries = table(120, 2, 2);
    let fit = |bag_of_target| {
        mediated(BagWeighting::One, true, None).fit(&data(TargetUnit::Mean, bag_of_target)).unwrap()
    };
    let error = fit(MATCHED).conditional_means(&queries).unwrap_err().to_string();
    assert!(error.contains("learnt through mediators"), "{error}");
    let error = fit(MEDIATED).conditional_means(&queries.select_columns(&[0])).unwrap_err().to_string();
    assert!(error.contains("x1"), "{error}");
    // Far from all mediators, the centered regression is the mean over all bags, with its full variance.
    let far = Table::from_rows(&[[100.0, 100.0], [-100.0, 100.0]]).unwrap();
    let (means, covariance) = fit(MEDIATED).conditional_means(&far).unwrap();
    assert!((means[0] - means[1]).abs() < 1e-12);
    assert!((covariance[(0, 0)] - covariance[(0, 1)] - 0.6).abs() < 1e-9);
}
