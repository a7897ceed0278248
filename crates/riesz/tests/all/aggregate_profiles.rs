//! The choice of the profile of the kernel of rows by the marginal likelihood.

use riesz::aggregate::{
    AggregateGaussianProcess, Aggregates, Bags, SparseAggregateProcess, TargetUnit, TunedAggregate, Tuning,
};
use riesz::kernel::{ColumnScaling, KernelExpression, Profile};
use riesz::{Kernel, Table};

use crate::common::Stream;

/// Means over bags of a function with kinks.
fn kinks() -> Aggregates {
    let mut s = Stream(4);
    let x: Vec<[f64; 1]> = (0..240).map(|_| [6.0 * s.uniform() - 3.0]).collect();
    let mut order: Vec<usize> = (0..240).collect();
    order.sort_by(|a, b| x[*a][0].total_cmp(&x[*b][0]));
    let rows = Table::from_rows(&order.iter().map(|i| x[*i]).collect::<Vec<_>>()).unwrap();
    let bag: Vec<usize> = (0..240).map(|i| i / 4).collect();
    let f = |x: f64| ((2.0 * x).rem_euclid(2.0) - 1.0).abs();
    let targets = (0..60).map(|b| (0..4).map(|i| f(rows.get(4 * b + i, 0))).sum::<f64>() / 4.0).collect();
    Aggregates::matched(rows, Bags::new(&bag, 60, None, TargetUnit::Mean).unwrap(), targets)
}

/// Tuning chooses the profile with the largest marginal likelihood, and the average weighs profiles by their
/// evidences. Fits through inducing points choose it too.
#[test]
fn profiles_are_chosen_by_their_evidence() {
    let data = kinks();
    let start = AggregateGaussianProcess::new(Kernel::gaussian(&[1.0]), 0.03);
    let tuning = Tuning { profiles: Profile::MATERN.to_vec(), ..Tuning::default() };
    let tuned = tuning.tune(&start, &data).unwrap();
    let tuned_with = |profile: Profile| {
        let start = AggregateGaussianProcess { kernel: start.kernel.with_profile(profile), ..start.clone() };
        Tuning::default().tune(&start, &data).unwrap()
    };
    let [gaussian, smoother, rough] =
        [Profile::Gaussian, Profile::Matern52, Profile::Matern32].map(tuned_with);
    let evidence = |tuned: &TunedAggregate| tuned.fit.log_marginal_likelihood;
    assert!(evidence(&gaussian) + 3.0 < evidence(&smoother).max(evidence(&rough)));
    let formula = |tuned: &TunedAggregate| tuned.process.kernel.formula();
    let chosen = [&smoother, &rough].into_iter().find(|other| formula(other) == formula(&tuned)).unwrap();
    assert!((evidence(&tuned) - evidence(chosen)).abs() < 1e-9, "{} {}", evidence(&tuned), evidence(chosen));
    assert!(tuned.alternatives.iter().all(|other| other.kernel.formula().contains("matern")));
    // An average of two profiles.
    let processes = [rough.process.clone(), smoother.process.clone()];
    let separate: Vec<_> = processes
        .iter()
        .map(|process| tuning.average(&start, std::slice::from_ref(process), &data, 40, 3).unwrap())
        .collect();
    let combined = tuning.average(&start, &processes, &data, 80, 3).unwrap();
    let odds = (separate[1].log_evidence - separate[0].log_evidence).exp();
    let share: f64 = (combined.fits.iter())
        .filter(|(_, fit)| fit.model.kernel.formula().contains("matern52"))
        .map(|(weight, _)| weight)
        .sum();
    assert!((share - odds / (1.0 + odds)).abs() < 2e-4, "{share} {odds}");
    // Through inducing points; the evidence of the chosen kernel at the chosen parameters is that of the fit.
    let points = data.rows.select_rows(&(0..60).map(|b| 4 * b).collect::<Vec<_>>());
    let sparse = SparseAggregateProcess {
        profiles: Profile::MATERN.to_vec(),
        ..SparseAggregateProcess::new(start.kernel.clone(), points)
    };
    let fit = sparse.fit(&data.rows, &data.bags, &data.targets).unwrap();
    assert!(Profile::MATERN.map(|profile| start.kernel.with_profile(profile)).contains(&fit.start_kernel));
    let chosen = SparseAggregateProcess { kernel: fit.start_kernel.clone(), ..sparse };
    let (value, _) =
        chosen.log_marginal_likelihood(&data.rows, &data.bags, &data.targets, &fit.theta).unwrap();
    assert!((value - fit.log_marginal_likelihood).abs() < 1e-9, "{value}");
}

/// A kernel without stationary factors is tuned once.
#[test]
fn other_kernels_have_no_profiles() {
    let data = kinks();
    let kernel = KernelExpression::parse("polynomial(degree=2)").unwrap();
    let kernel = kernel.resolve(&data.rows, &ColumnScaling::standardised(&data.rows)).unwrap();
    let start = AggregateGaussianProcess::new(kernel, 0.03);
    let plain = Tuning::default().tune(&start, &data).unwrap();
    let compared =
        Tuning { profiles: Profile::MATERN.to_vec(), ..Tuning::default() }.tune(&start, &data).unwrap();
    assert!(compared.alternatives.is_empty() && compared.evaluations == plain.evaluations);
}
