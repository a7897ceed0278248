//! Targets regressed on mediators, against two consecutive regressions written with dense matrices.

use riesz::aggregate::{
    AggregateGaussianProcess, Aggregates, Bags, Conventions, Mediation, MediationTarget, Mediators,
    TargetUnit, Tuning,
};
use riesz::linalg::{Cholesky, dot};
use riesz::{Kernel, Matrix, Table};

use crate::aggregate::{dense, sum};
use crate::common::{Stream, largest_difference, table};

/// Data with 30 rows in 6 bags and 7 targets; `bag_of_target` gives the bag of each target that has rows.
fn data(bag_of_target: [Option<usize>; 7]) -> Aggregates {
    let sizes = [1, 9, 4, 5, 3, 8];
    let bag: Vec<usize> = sizes.iter().enumerate().flat_map(|(b, &n)| vec![b; n]).collect();
    let weight: Vec<f64> = (0..30).map(|i| 0.5 + f64::from(i % 7)).collect();
    Aggregates {
        rows: table(3, 30, 2),
        bags: Bags::new(&bag, 6, Some(&weight), TargetUnit::Mean).unwrap(),
        targets: vec![0.3, -1.2, 0.8, 2.0, -0.4, 1.1, 0.2],
        bag_of_target: bag_of_target.to_vec(),
        target_noise: Some(vec![0.0, 0.1, 0.02, 0.0, 0.3, 0.0, 0.05]),
        mediators: Some(Mediators { bags: table(50, 6, 2), targets: table(80, 7, 2), totals: None }),
    }
}

const MIXED: [Option<usize>; 7] = [Some(3), None, Some(1), None, None, Some(4), None];
const MEDIATED: [Option<usize>; 7] = [None; 7];

fn process(ties: f64, row_noise: f64, noise: f64, prior_mean: Option<f64>) -> AggregateGaussianProcess {
    let kernel = 1.7 * Kernel::gaussian(&[0.9, 1.4]);
    AggregateGaussianProcess {
        mediation: Some(Mediation { regressed: MediationTarget::Targets, ..Mediation::new(kernel, 0.06) }),
        mediation_noise: ties,
        row_noise,
        prior_mean,
        normalize_y: false,
        ..AggregateGaussianProcess::new(1.3 * Kernel::gaussian(&[0.8, 1.1]), noise)
    }
}

/// Processes and data of all kinds: some or all targets mediated, several noises, a learnt or given mean.
pub fn cases() -> Vec<(AggregateGaussianProcess, Aggregates)> {
    let mut cases = Vec::new();
    for (bag_of_target, noise) in [(MIXED, 0.07), (MEDIATED, 0.0)] {
        for (ties, row_noise) in [(0.0, 0.0), (0.2, 0.0), (0.1, 0.4)] {
            for prior_mean in [None, Some(-0.7)] {
                cases.push((process(ties, row_noise, noise, prior_mean), data(bag_of_target)));
            }
        }
    }
    cases
}

/// A normal distribution of a vector.
pub struct Normal {
    pub mean: Vec<f64>,
    pub covariance: Matrix,
}

impl Normal {
    /// Conditions on observations of the first coordinates. Returns the distribution of the others, and the
    /// log density of the observations.
    pub fn condition(&self, seen: &[f64]) -> (Self, f64) {
        let (n, m) = (self.mean.len(), seen.len());
        let block = |rows: std::ops::Range<usize>, cols: std::ops::Range<usize>| {
            let cells = rows.clone().flat_map(|i| cols.clone().map(move |j| (i, j)));
            Matrix::from_row_major(
                rows.len(),
                cols.len(),
                cells.map(|index| self.covariance[index]).collect(),
            )
        };
        let factor = Cholesky::new(block(0..m, 0..m), "test").unwrap();
        let residual: Vec<f64> = seen.iter().zip(&self.mean).map(|(z, m)| z - m).collect();
        let weights = factor.solve_vector(&residual);
        let log =
            -0.5 * (dot(&weights, &residual) + factor.log_det() + m as f64 * std::f64::consts::TAU.ln());
        let cross = block(m..n, 0..m);
        let mean = cross.matvec(&weights).iter().zip(&self.mean[m..]).map(|(v, m)| v + m).collect();
        let taken = cross.matmul(&factor.solve(cross.transpose()));
        (Self { mean, covariance: sum(&block(m..n, m..n), -1.0, &taken) }, log)
    }
}

/// Computes f at `x` by two regressions. The first regresses the targets on mediators, which gives
/// pseudo-targets of bags. The second regresses f on these and on the targets with rows. The second result is
/// the log density of all targets given the ties: the density of the targets in the first regression plus
/// that in the second, minus that of the ties.
fn two_steps(process: &AggregateGaussianProcess, data: &Aggregates, x: &Table, mean: f64) -> (Normal, f64) {
    let (mediation, mediators) = (process.mediation.as_ref().unwrap(), data.mediators.as_ref().unwrap());
    let known = data.target_noise.as_ref().unwrap();
    let open: Vec<usize> = (0..7).filter(|t| data.bag_of_target[*t].is_none()).collect();
    // g where targets have no rows, with errors, then at bags.
    let rows = mediators.targets.select_rows(&open).stack(&mediators.bags).unwrap();
    let mut covariance = mediation.kernel.gram(&rows);
    open.iter().enumerate().for_each(|(k, t)| covariance[(k, k)] += mediation.ridge + known[*t]);
    let g = Normal { mean: vec![mean; rows.rows()], covariance };
    let (pseudo, first) = g.condition(&open.iter().map(|t| data.targets[*t]).collect::<Vec<_>>());
    // Pseudo-targets, targets with rows, then f at x.
    let p = dense(data.bags.weights());
    let matched: Vec<usize> = (0..7).filter(|t| data.bag_of_target[*t].is_some()).collect();
    let seen = 6 + matched.len();
    let mut operator = Matrix::zeros(30 + x.rows(), seen + x.rows());
    for i in 0..30 {
        (0..6).for_each(|b| operator[(i, b)] = p[(i, b)]);
        matched
            .iter()
            .enumerate()
            .for_each(|(k, t)| operator[(i, 6 + k)] = p[(i, data.bag_of_target[*t].unwrap())]);
    }
    (0..x.rows()).for_each(|i| operator[(30 + i, seen + i)] = 1.0);
    let mut gram = process.kernel.gram(&data.rows.stack(x).unwrap());
    (0..30).for_each(|i| gram[(i, i)] += process.row_noise);
    let mut covariance = operator.transpose().matmul(&gram).matmul(&operator);
    let mut ties = mediation.kernel.gram(&mediators.bags);
    for b in 0..6 {
        (0..6).for_each(|c| ties[(b, c)] += covariance[(b, c)]);
        ties[(b, b)] += process.mediation_noise;
    }
    let (_, of_ties) = Normal { mean: vec![0.0; 6], covariance: ties }.condition(&[0.0; 6]);
    for b in 0..6 {
        (0..6).for_each(|c| covariance[(b, c)] += pseudo.covariance[(b, c)]);
        covariance[(b, b)] += process.mediation_noise;
    }
    matched.iter().enumerate().for_each(|(k, t)| covariance[(6 + k, 6 + k)] += process.noise + known[*t]);
    let f = Normal { mean: vec![mean; seen + x.rows()], covariance };
    let values: Vec<f64> = pseudo.mean.into_iter().chain(matched.iter().map(|t| data.targets[*t])).collect();
    let (f, second) = f.condition(&values);
    (f, first + second - of_ties)
}

/// Returns the mean and the evidence; a learnt mean is at the vertex of a parabola.
fn evidence(process: &AggregateGaussianProcess, data: &Aggregates) -> (f64, f64) {
    let evidence_at = |mean: f64| two_steps(process, data, &table(0, 1, 2), mean).1;
    let mean = process.prior_mean.unwrap_or_else(|| vertex(evidence_at).0);
    (mean, evidence_at(mean))
}

/// The position of a parabola's maximum, and minus its second derivative.
fn vertex(parabola: impl Fn(f64) -> f64) -> (f64, f64) {
    let [below, middle, above] = [-1.0, 0.0, 1.0].map(parabola);
    let curvature = 2.0 * middle - below - above;
    (0.5 * (above - below) / curvature, curvature)
}

#[test]
fn fits_are_two_regressions_one_after_the_other() {
    let x = table(200, 4, 2);
    for (process, data) in cases() {
        let (mean, log) = evidence(&process, &data);
        let (truth, _) = two_steps(&process, &data, &x, mean);
        let fit = process.fit(&data).unwrap();
        assert!((fit.model.intercept[0] - mean).abs() < 1e-9, "{} {mean}", fit.model.intercept[0]);
        assert!((fit.log_marginal_likelihood - log).abs() < 1e-9, "{} {log}", fit.log_marginal_likelihood);
        assert!(largest_difference(fit.model.predict(&x).unwrap().data(), &truth.mean) < 1e-9);
        let posterior = fit.posterior();
        let covariance = &posterior.covariance(&posterior.functionals_at(&x).unwrap())[0];
        assert!(largest_difference(covariance.data(), truth.covariance.data()) < 1e-9);
        let p = dense(data.bags.weights());
        let (rows, _) = two_steps(&process, &data, &data.rows, mean);
        let (means, covariance) = fit.bag_posterior();
        assert!(largest_difference(&means, &p.transpose().matvec(&rows.mean)) < 1e-9);
        let expected = p.transpose().matmul(&rows.covariance).matmul(&p);
        assert!(largest_difference(covariance.data(), expected.data()) < 1e-9);
        // The change of predictions with a target.
        let shares = fit.target_leverage(&x).unwrap();
        assert_eq!((shares.rows(), shares.cols(), fit.weight_sensitivities().cols()), (4, 7, 7));
        for t in 0..7 {
            let mut revised = data.clone();
            revised.targets[t] += 1.0;
            let (moved, _) = two_steps(&process, &revised, &x, mean);
            (0..4).for_each(|i| assert!((moved.mean[i] - truth.mean[i] - shares[(i, t)]).abs() < 1e-9));
        }
        let centered: Vec<f64> =
            data.targets.iter().zip(fit.constants()).map(|(z, c)| z - mean * c).collect();
        let sums: Vec<f64> = shares.matvec(&centered).iter().map(|v| v + mean).collect();
        assert!(largest_difference(&sums, &truth.mean) < 1e-9);
        // Tweedie's formula for a normal density: the estimated noise is its variance times minus the
        // derivative of the log density by the target.
        let fitted = fit.fitted();
        for t in (0..7).filter(|t| data.bag_of_target[*t].is_none()) {
            let log_density = |shift: f64| {
                let mut revised = data.clone();
                revised.targets[t] += shift;
                two_steps(&process, &revised, &x, mean).1
            };
            let noise = process.mediation.as_ref().unwrap().ridge + data.target_noise.as_ref().unwrap()[t];
            let expected = data.targets[t] + noise * 0.5 * (log_density(1.0) - log_density(-1.0));
            assert!((fitted[t] - expected).abs() < 1e-9, "{} {expected}", fitted[t]);
        }
        for t in (0..7).filter(|t| data.bag_of_target[*t].is_some()) {
            assert!((fitted[t] - means[data.bag_of_target[t].unwrap()]).abs() < 1e-12);
        }
    }
}

#[test]
fn evidence_gradients_match_finite_differences() {
    for (process, data) in cases() {
        let parameters: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
        let (value, gradient) = process.log_marginal_likelihood(&data, &parameters).unwrap();
        assert!((value - evidence(&process, &data).1).abs() < 1e-9);
        assert_eq!(gradient.len(), parameters.len());
        for p in 0..parameters.len() {
            let moved = |shift: f64| {
                let mut theta = parameters.clone();
                theta[p] += shift;
                evidence(&process.with_parameters(&theta), &data).1
            };
            let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((gradient[p] - expected).abs() < 1e-6, "parameter {p}: {} {expected}", gradient[p]);
        }
    }
}

/// The leave-one-out prediction of a target is its conditional density given the others, with the mean learnt
/// anew.
#[test]
fn left_out_targets_are_predicted_by_the_others() {
    for (process, data) in cases() {
        let left_out = process.fit(&data).unwrap().leave_one_out().unwrap();
        assert_eq!(left_out.mean.len(), 7);
        for t in 0..7 {
            let (mean, precision) = vertex(|shift| {
                let mut revised = data.clone();
                revised.targets[t] += shift;
                evidence(&process, &revised).1
            });
            assert!((left_out.mean[t] - data.targets[t] - mean).abs() < 1e-8);
            assert!((left_out.variance[t] * precision - 1.0).abs() < 1e-8);
        }
    }
}

/// Fifteen bags with rows, and fifteen targets without, whose mediators are partly informative about the
/// rows.
fn apart() -> Aggregates {
    let mut stream = Stream(5);
    let height: Vec<f64> = (0..30).map(|_| 2.0 * stream.signed()).collect();
    let rows: Vec<[f64; 2]> =
        (0..90).map(|i| [height[i / 6] + 0.3 * stream.normal(), stream.normal()]).collect();
    let bags = Bags::new(&(0..90).map(|i| i / 6).collect::<Vec<_>>(), 15, None, TargetUnit::Mean).unwrap();
    let height_column = |range: std::ops::Range<usize>| {
        Table::from_rows(&height[range].iter().map(|h| [*h]).collect::<Vec<_>>()).unwrap()
    };
    let targets = height[15..].iter().map(|h| 3.0 + h.sin() + 0.3 * stream.normal()).collect();
    let mediators =
        Some(Mediators { bags: height_column(0..15), targets: height_column(15..30), totals: None });
    let (rows, bag_of_target) = (Table::from_rows(&rows).unwrap(), vec![None; 15]);
    Aggregates { rows, bags, targets, bag_of_target, target_noise: None, mediators }
}

fn start(tied: bool, data: &Aggregates) -> AggregateGaussianProcess {
    let (kernel, mediators) = (Kernel::gaussian(&[1.0, 1.0]), Kernel::gaussian(&[0.6]));
    Conventions::Regularised.start(kernel, Some(mediators), data).regressing_targets(tied, data)
}

/// Returns the log prior density of a parameter at a distance from its start.
fn weak(name: &str, mediators: bool, distance: f64) -> f64 {
    match name {
        "scale" => -0.5 * distance.powi(2),
        _ if name.starts_with("length_scale") && mediators => -0.5 * (distance / 0.8).powi(2),
        _ if name.starts_with("length_scale") => 1.0 - 0.5 * distance - (-0.5 * distance).exp(),
        _ => -0.5 * (distance / 1.5).powi(2),
    }
}

#[test]
fn tied_tuning_is_joint_and_untied_tuning_alternates() {
    let data = apart();
    for tied in [true, false] {
        let start = start(tied, &data);
        let names = start.parameters();
        let count = start.mediation.as_ref().unwrap().parameters().len();
        let n_process_parameters = names.len() - count;
        assert_eq!(
            (names[n_process_parameters].name.as_str(), n_process_parameters),
            ("scale", if tied { 4 } else { 3 })
        );
        let tuned = Tuning::default().tune(&start, &data).unwrap();
        let optimum: Vec<f64> = tuned.process.parameters().iter().map(|p| p.log_value).collect();
        assert!(tuned.warnings.is_empty(), "{:?}", tuned.warnings);
        let posterior = |p: usize, shift: f64| {
            let mut theta = optimum.clone();
            theta[p] += shift;
            let process = start.with_parameters(&theta);
            let log = if tied || p < n_process_parameters {
                start.log_marginal_likelihood(&data, &theta).unwrap().0
            } else {
                // The evidence of the targets alone, in their units, without bags.
                let variance = {
                    let mean = data.targets.iter().sum::<f64>() / 15.0;
                    data.targets.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / 15.0
                };
                let mediation = process.mediation.unwrap();
                let mut covariance =
                    (variance * mediation.kernel).gram(&data.mediators.as_ref().unwrap().targets);
                covariance.add_diagonal(|_| variance * mediation.ridge);
                let log_density = |mean: f64| {
                    Normal { mean: vec![mean; 15], covariance: covariance.clone() }.condition(&data.targets).1
                };
                log_density(vertex(log_density).0)
            };
            log + weak(&names[p].name, p >= n_process_parameters, theta[p] - names[p].log_value)
        };
        for p in 0..optimum.len() {
            let slope = (posterior(p, 1e-4) - posterior(p, -1e-4)) / 2e-4;
            assert!(slope.abs() < 0.01, "{tied}: parameter {p} of {n_process_parameters} + {count}: {slope}");
        }
        let moved = names.iter().zip(&optimum).fold(0.0, |a: f64, (p, b)| a.max((p.log_value - b).abs()));
        assert!(moved > 0.1, "{optimum:?}");
        // The map follows the relation that the mediator reveals.
        let fitted = tuned.fit.model.predict(&data.rows).unwrap().column(0);
        let truth: Vec<f64> = (0..90).map(|i| 3.0 + data.rows.row(i)[0].sin()).collect();
        let squared_error =
            |estimate: &dyn Fn(usize) -> f64| (0..90).map(|i| (estimate(i) - truth[i]).powi(2)).sum::<f64>();
        assert!(
            squared_error(&|i| fitted[i]) < 0.5 * squared_error(&|_| 3.0),
            "{} {}",
            squared_error(&|i| fitted[i]),
            squared_error(&|_| 3.0)
        );
        if tied {
            let averaged = Tuning::default().average(&start, &tuned.processes(), &data, 600, 1).unwrap();
            assert!(
                averaged.effective_sample_size > 1.0 && averaged.fits.len() > 1,
                "{}",
                averaged.effective_sample_size
            );
            let [mean, sd] =
                <[Matrix; 2]>::from(averaged.predict(&data.rows).unwrap()).map(|moment| moment.column(0));
            assert!(
                squared_error(&|i| mean[i]) < 0.5 * squared_error(&|_| 3.0),
                "{}",
                squared_error(&|i| mean[i])
            );
            let inside = (0..90).filter(|&i| (mean[i] - truth[i]).abs() < 1.96 * sd[i]).count();
            assert!(inside > 70, "{inside} of 90");
        }
    }
}

#[test]
fn bad_input_is_refused_with_a_message() {
    let error =
        |process: &AggregateGaussianProcess, data: &Aggregates| process.fit(data).unwrap_err().to_string();
    assert!(error(&process(0.1, 0.0, 0.0, None), &data(MIXED)).contains("noise"));
    let mut sums = data(MEDIATED);
    sums.bags = Bags::new(&(0..30).map(|i| i % 6).collect::<Vec<_>>(), 6, None, TargetUnit::Sum).unwrap();
    assert!(error(&process(0.1, 0.0, 0.0, None), &sums).contains("divide sums by their weights"));
    let mut mismatched = data(MEDIATED);
    mismatched.mediators.as_mut().unwrap().targets = table(0, 4, 2);
    assert!(error(&process(0.1, 0.0, 0.0, None), &mismatched).contains("mediators of targets"));
    mismatched.mediators.as_mut().unwrap().bags = table(0, 4, 2);
    mismatched.mediators.as_mut().unwrap().targets = table(0, 7, 2);
    assert!(error(&process(0.1, 0.0, 0.0, None), &mismatched).contains("mediators of bags"));
    let mut certain = process(0.1, 0.0, 0.0, None);
    certain.mediation.as_mut().unwrap().ridge = 0.0;
    assert!(error(&certain, &data(MEDIATED)).contains("ridge of the mediators"));
    // Two exact ties to the same value, of bags with the same rows.
    let mut twins = data(MEDIATED);
    twins.rows = table(3, 30, 2).select_rows(&[0; 30]);
    twins.mediators.as_mut().unwrap().bags = table(50, 6, 2).select_rows(&[0; 6]);
    let text = process(0.0, 0.0, 0.0, None).fit(&twins).map(|fit| fit.jitter);
    assert!(text.is_ok_and(|jitter| jitter > 0.0));
}
