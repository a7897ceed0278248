//! Processes learnt from counts, against their definition with dense matrices, grid sums and refits.

use riesz::aggregate::{
    Aggregates, BagSmoother, BagWeighting, Bags, Conventions, CountProcess, Family, Mediators, TargetUnit,
    TunedCounts, Tuning, count_inducing_points,
};
use riesz::fit::GaussianProcessClassifier;
use riesz::linalg::{Cholesky, dot};
use riesz::prediction::NaturalScalePrediction;
use riesz::{Error, Kernel, Matrix, Table};

use crate::common::{Stream, largest_difference, table, with_threads};

const SIZES: [usize; 6] = [1, 9, 4, 12, 3, 8];

/// 37 rows in 6 unequal bags; two rows are in two bags.
fn bags(unit: TargetUnit) -> (Table, Bags) {
    let mut bag: Vec<usize> = SIZES.iter().enumerate().flat_map(|(b, &n)| vec![b; n]).collect();
    bag.rotate_left(5);
    let mut rows: Vec<usize> = (0..37).collect();
    rows.extend([30, 33]);
    bag.extend([1, 1]);
    let weight: Vec<f64> = (0..39).map(|i| 0.5 + f64::from(i as u32 % 7)).collect();
    (table(3, 37, 2), Bags::from_memberships(&rows, 37, &bag, 6, Some(&weight), unit).unwrap())
}

/// Five counts of either family; if `mediated`, two of them have no rows.
fn data(family: &Family, mediated: bool) -> Aggregates {
    let unit = if *family == Family::Poisson { TargetUnit::Sum } else { TargetUnit::Mean };
    let (rows, bags) = bags(unit);
    let bag_of_target = if mediated {
        vec![Some(3), None, Some(1), None, Some(4)]
    } else {
        vec![Some(3), Some(0), Some(1), Some(5), Some(4)]
    };
    let totals = (unit == TargetUnit::Sum).then(|| (0..5).map(|t| 20.0 + f64::from(t)).collect());
    let mediators = Some(Mediators { bags: table(50, 6, 2), targets: table(80, 5, 2), totals });
    Aggregates {
        rows,
        bags,
        targets: vec![7.0, 0.0, 23.0, 9.0, 2.0],
        bag_of_target,
        target_noise: None,
        mediators,
    }
}

fn binomial() -> Family {
    Family::Binomial { trials: vec![9.0, 12.0, 40.0, 10.0, 14.0] }
}

fn kernel() -> Kernel {
    0.8 * Kernel::gaussian(&[0.8, 1.1])
}

fn process(data: &Aggregates, family: Family) -> CountProcess {
    let smoothing = Some(BagSmoother::new(Kernel::gaussian(&[0.9, 1.4])));
    CountProcess { smoothing, ..CountProcess::new(kernel(), count_inducing_points(data, 0).unwrap(), family) }
}

fn cases() -> Vec<(Aggregates, CountProcess)> {
    let mut cases = Vec::new();
    for family in [Family::Poisson, binomial()] {
        for mediated in [false, true] {
            let data = data(&family, mediated);
            let base = process(&data, family.clone());
            cases.push((data.clone(), CountProcess { mediation_dispersion: 0.0, ..base.clone() }));
            cases.push((
                data.clone(),
                CountProcess { dispersion: 0.3, mediation_dispersion: 0.05, ..base.clone() },
            ));
            let points = base.points.select_rows(&(0..9).collect::<Vec<_>>());
            cases.push((data, CountProcess { points, prior_mean: Some(-0.3), ..base }));
        }
    }
    cases
}

/// The operator A, rows × targets, by the definition of its smoother.
fn operator(data: &Aggregates, process: &CountProcess) -> Matrix {
    let mediators = data.mediators.as_ref().unwrap();
    let mass = data.bags.weight_sums();
    let ell = process.smoothing.as_ref().unwrap().kernel.cross_gram(&mediators.bags, &mediators.targets);
    let mut out = Matrix::zeros(data.rows.rows(), data.bag_of_target.len());
    for (t, bag) in data.bag_of_target.iter().enumerate() {
        let kernel_sum: f64 = (0..6).map(|b| ell[(b, t)]).sum();
        for b in 0..6 {
            let total = mediators.totals.as_ref().map_or(1.0, |totals| totals[t] / mass[b]);
            let weight = match bag {
                Some(bag) => f64::from(*bag == b),
                None => total * ell[(b, t)] / kernel_sum,
            };
            data.bags.weights().column(b).for_each(|(i, w)| out[(i, t)] += weight * w);
        }
    }
    out
}

/// Returns the log probability of a target, its derivative by g, the information from its variance, and its
/// mean.
fn likelihood_terms(process: &CountProcess, data: &Aggregates, t: usize, g: f64) -> [f64; 4] {
    let z = data.targets[t];
    let log_factorial = |n: f64| (1..=n as usize).map(|k| (k as f64).ln()).sum::<f64>();
    let mediated = data.bag_of_target[t].is_none();
    let dispersion = if mediated { process.mediation_dispersion } else { process.dispersion };
    // The logarithm of (x)(x + 1)…(x + k - 1), and its derivative by x.
    let rising = |x: f64, k: f64| (0..k as usize).map(|j| (x + j as f64).ln()).sum::<f64>();
    let slope = |x: f64, k: f64| (0..k as usize).map(|j| 1.0 / (x + j as f64)).sum::<f64>();
    let s = 1.0 / dispersion;
    match &process.family {
        Family::Poisson if dispersion == 0.0 => [z * g.ln() - g - log_factorial(z), z / g - 1.0, 1.0 / g, g],
        Family::Poisson => {
            let p = g / (s + g);
            let value = rising(s, z) - log_factorial(z) + s * (1.0 - p).ln() + z * p.ln();
            [value, z / g - (z + s) / (g + s), 1.0 / (g + dispersion * g * g), g]
        }
        Family::Binomial { trials } => {
            let n = trials[t];
            let ways = log_factorial(n) - log_factorial(z) - log_factorial(n - z);
            if dispersion == 0.0 {
                let value = z * g.ln() + (n - z) * (1.0 - g).ln() + ways;
                return [value, z / g - (n - z) / (1.0 - g), n / (g * (1.0 - g)), n * g];
            }
            let (a, b) = (g * s, (1.0 - g) * s);
            let value = ways + rising(a, z) + rising(b, n - z) - rising(s, n);
            let variance = n * g * (1.0 - g) * (1.0 + (n - 1.0) / (1.0 + s));
            [value, s * (slope(a, z) - slope(b, n - z)), n * n / variance, n * g]
        }
    }
}

fn rate(family: &Family, f: f64) -> [f64; 2] {
    match family {
        Family::Poisson => [f.exp(), f.exp()],
        Family::Binomial { .. } => {
            let p = 1.0 / (1.0 + (-f).exp());
            [p, p * (1.0 - p)]
        }
    }
}

/// With all rows as inducing points, the derivative of the log likelihood at the mode is K⁻¹(f - β).
/// Evidence, covariance and means equal their formulas over the rows.
#[test]
fn all_rows_as_points_give_the_definition() {
    for (data, process) in cases().into_iter().filter(|(_, candidate)| candidate.prior_mean.is_none()) {
        let fit = process.fit(&data).unwrap();
        let (n, m) = (data.rows.rows(), data.targets.len());
        let f = fit.model.predict(&data.rows).unwrap().column(0);
        let beta = fit.model.intercept[0];
        let a = operator(&data, &process);
        let rates: Vec<[f64; 2]> = f.iter().map(|f| rate(&process.family, *f)).collect();
        let sum = |t: usize| (0..n).map(|i| a[(i, t)] * rates[i][0]).sum::<f64>();
        let terms: Vec<[f64; 4]> = (0..m).map(|t| likelihood_terms(&process, &data, t, sum(t))).collect();
        let slopes = |i: usize| (0..m).map(|t| a[(i, t)] * rates[i][1] * terms[t][1]).sum::<f64>();
        let pull: Vec<f64> = (0..n).map(slopes).collect();
        let gram = process.kernel.gram(&data.rows);
        let expected: Vec<f64> = gram.matvec(&pull).iter().map(|v| v + beta).collect();
        assert!(largest_difference(&f, &expected) < 1e-8, "{:?}", process.family);
        // β maximises the likelihood.
        assert!(pull.iter().sum::<f64>().abs() < 1e-8);
        // The information of f, n × n.
        let mut information = Matrix::zeros(n, n);
        for i in 0..n {
            for k in 0..n {
                let contributions =
                    (0..m).map(|t| terms[t][2] * a[(i, t)] * rates[i][1] * a[(k, t)] * rates[k][1]);
                information[(i, k)] = contributions.sum();
            }
        }
        let mut lambda = information.matmul(&gram);
        lambda.add_diagonal(|_| 1.0);
        // det(I + WK) by elimination.
        let mut log_det = 0.0;
        for c in 0..n {
            let pivot = lambda[(c, c)];
            log_det += pivot.ln();
            for r in c + 1..n {
                let times = lambda[(r, c)] / pivot;
                for k in c..n {
                    let v = lambda[(c, k)];
                    lambda[(r, k)] -= times * v;
                }
            }
        }
        let centered: Vec<f64> = f.iter().map(|f| f - beta).collect();
        let value = terms.iter().map(|s| s[0]).sum::<f64>() - 0.5 * dot(&centered, &pull) - 0.5 * log_det;
        assert!(
            (fit.log_marginal_likelihood - value).abs() < 1e-8,
            "{} {value}",
            fit.log_marginal_likelihood
        );
        let mean: Vec<f64> = terms.iter().map(|s| s[3]).collect();
        assert!(largest_difference(&fit.fitted, &mean) < 1e-8);
        // The covariance (K⁻¹ + W)⁻¹ of the rows, in any order.
        let mut precision = Cholesky::new(gram, "test").unwrap().inverse();
        precision.data_mut().iter_mut().zip(information.data()).for_each(|(p, w)| *p += w);
        let covariance = Cholesky::new(precision, "test").unwrap().inverse();
        let posterior = fit.posterior();
        let actual = &posterior.covariance(&posterior.functionals_at(&data.rows).unwrap())[0];
        assert!(largest_difference(actual.data(), covariance.data()) < 1e-6);
    }
}

#[test]
fn gradients_match_finite_differences() {
    for (data, process) in cases() {
        let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
        let mediated = process.mediation_dispersion > 0.0;
        assert_eq!(theta.len(), 3 + usize::from(process.dispersion > 0.0) + usize::from(mediated));
        let (_, gradient) = process.log_marginal_likelihood(&data, &theta).unwrap();
        for p in 0..theta.len() {
            let evidence = |shift: f64| {
                let mut moved = theta.clone();
                moved[p] += shift;
                process.log_marginal_likelihood(&data, &moved).unwrap().0
            };
            let h = 1e-3;
            let slope =
                (8.0 * (evidence(h) - evidence(-h)) - (evidence(2.0 * h) - evidence(-2.0 * h))) / (12.0 * h);
            let error = (gradient[p] - slope).abs();
            assert!(error < 1e-6 * slope.abs().max(0.1), "{:?} {p}: {} {slope}", process.family, gradient[p]);
        }
    }
}

/// With one row and one trial per target, the Laplace approximation of a classifier.
#[test]
fn single_trials_of_single_rows_are_a_classifier() {
    let (x, n) = (table(0, 30, 2), 30);
    let labels: Vec<usize> = (0..n)
        .map(|i| usize::from(x.get(i, 0) + 0.4 * x.get(i, 1) > 0.2 - 0.3 * f64::from(i as u32 % 3)))
        .collect();
    let bags = Bags::new(&(0..n).collect::<Vec<_>>(), n, None, TargetUnit::Mean).unwrap();
    let data = Aggregates::matched(x.clone(), bags, labels.iter().map(|l| *l as f64).collect());
    let family = Family::Binomial { trials: vec![1.0; n] };
    let process = CountProcess { prior_mean: Some(0.0), ..CountProcess::new(kernel(), x.clone(), family) };
    let fit = process.fit(&data).unwrap();
    let mut classifier = GaussianProcessClassifier::new(kernel());
    classifier.tune = false;
    let expected = classifier.fit(&x, &labels, &["no".into(), "yes".into()]).unwrap();
    let new = table(200, 20, 2);
    let f = [fit.model.predict(&new).unwrap(), expected.model.predict(&new).unwrap()];
    assert!(largest_difference(f[0].data(), f[1].data()) < 1e-7);
    let sd = [fit.posterior().sd(&new).unwrap(), expected.posterior().sd(&new).unwrap()];
    assert!(largest_difference(sd[0].data(), sd[1].data()) < 1e-7);
    assert!((fit.log_marginal_likelihood - expected.log_marginal_likelihood).abs() < 1e-7);
    // The mean probability equals the classifier's.
    let rates = NaturalScalePrediction::new(&fit.posterior(), &new, 1.96).unwrap();
    let p = riesz::Prediction::new(&expected.model, Some(&expected.covariance), &new).unwrap();
    assert!(largest_difference(&rates.mean, &p.probabilities.unwrap().column(1)) < 1e-7);
    let ordered = |i: usize| rates.low[i] < rates.median[i] && rates.median[i] < rates.high[i];
    assert!((0..20).all(ordered));
}

/// Compares the evidence of three rows in two bags with a sum over a grid of f.
#[test]
fn the_evidence_is_near_the_integral() {
    let x = Table::from_rows(&[[0.0], [0.8], [2.0]]).unwrap();
    for (family, dispersion) in [Family::Poisson, Family::Binomial { trials: vec![8.0, 11.0] }]
        .into_iter()
        .flat_map(|family| [(family.clone(), 0.0), (family, 0.2)])
    {
        let unit = if family == Family::Poisson { TargetUnit::Sum } else { TargetUnit::Mean };
        let bags = Bags::new(&[0, 0, 1], 2, Some(&[3.0, 2.0, 4.0]), unit).unwrap();
        let data = Aggregates::matched(x.clone(), bags, vec![6.0, 3.0]);
        let process = CountProcess {
            prior_mean: Some(0.0),
            dispersion,
            ..CountProcess::new(0.5 * Kernel::gaussian(&[1.0]), x.clone(), family.clone())
        };
        let fit = process.fit(&data).unwrap();
        let lower = Cholesky::new(process.kernel.gram(&x), "test").unwrap();
        let (step, reach) = (0.2, 30_i32);
        let mut total = 0.0;
        for a in -reach..=reach {
            for b in -reach..=reach {
                for c in -reach..=reach {
                    let z = [a, b, c].map(|k| f64::from(k) * step);
                    let f = lower.lower_times(&Matrix::column_vector(z.to_vec())).column(0);
                    let [p, q, r] = [0, 1, 2].map(|i| rate(&family, f[i])[0]);
                    let g = match unit {
                        TargetUnit::Sum => [3.0 * p + 2.0 * q, 4.0 * r],
                        TargetUnit::Mean => [0.6 * p + 0.4 * q, r],
                    };
                    let log: f64 = (0..2).map(|t| likelihood_terms(&process, &data, t, g[t])[0]).sum();
                    total += (log - 0.5 * dot(&z, &z)).exp() * (step / std::f64::consts::TAU.sqrt()).powi(3);
                }
            }
        }
        let error = fit.log_marginal_likelihood - total.ln();
        assert!(error.abs() < 0.05, "{family:?} {dispersion} {error}");
    }
}

/// With a learnt mean, the fitted counts have the sum of the observed counts.
#[test]
fn all_counts_together_are_what_they_are() {
    let data = data(&Family::Poisson, false);
    let fit = process(&data, Family::Poisson).fit(&data).unwrap();
    assert!((fit.fitted.iter().sum::<f64>() - 41.0).abs() < 1e-8);
}

/// Leave-one-out predictions of many counts, against refits without each count.
#[test]
fn left_out_counts_are_nearly_those_of_refits() {
    let mut stream = Stream(5);
    let (n, bags) = (240, 24);
    let x = stream.normals(n, 1);
    let order: Vec<usize> = {
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| x.get(*a, 0).total_cmp(&x.get(*b, 0)));
        order
    };
    let mut bag = vec![0; n];
    order.iter().enumerate().for_each(|(rank, &i)| bag[i] = rank / 10);
    let sums =
        |b: usize| (0..n).filter(|i| bag[*i] == b).map(|i| 2.0 * (0.7 * x.get(i, 0)).exp()).sum::<f64>();
    let poisson = |stream: &mut Stream, mean: f64| {
        let (mut k, mut p) = (0, stream.uniform());
        while p > (-mean).exp() {
            (k, p) = (k + 1, p * stream.uniform());
        }
        f64::from(k)
    };
    let counts: Vec<f64> = (0..bags).map(|b| poisson(&mut stream, sums(b))).collect();
    let partition = Bags::new(&bag, bags, Some(&vec![2.0; n]), TargetUnit::Sum).unwrap();
    let data = Aggregates::matched(x.clone(), partition, counts.clone());
    let plain = CountProcess::new(
        0.5 * Kernel::gaussian(&[1.0]),
        count_inducing_points(&data, 0).unwrap(),
        Family::Poisson,
    );
    for dispersion in [0.0, 0.15] {
        let process = CountProcess { dispersion, ..plain.clone() };
        let fit = process.fit(&data).unwrap();
        for t in [0, 7, 15, 23] {
            let mut reduced = data.clone();
            reduced.targets.remove(t);
            reduced.bag_of_target.remove(t);
            let refit = process.fit(&reduced).unwrap();
            let (members, weights): (Vec<usize>, Vec<f64>) = data.bags.weights().column(t).unzip();
            // The mean count, from draws of f.
            let posterior = refit.posterior();
            let draws = posterior
                .sample(&posterior.functionals_at(&x.select_rows(&members)).unwrap(), 20_000, 1)
                .unwrap();
            let sums: Vec<f64> = (0..20_000)
                .map(|k| weights.iter().enumerate().map(|(i, w)| w * draws.values[0][(i, k)].exp()).sum())
                .collect();
            let mean = sums.iter().sum::<f64>() / 20_000.0;
            let square = sums.iter().map(|s| s * s).sum::<f64>() / 20_000.0;
            let variance = (1.0 + dispersion) * square - mean * mean + mean;
            let (actual_mean, actual_variance) = (fit.left_out.mean[t], fit.left_out.variance[t]);
            assert!(
                (actual_mean - mean).abs() < 0.15 * variance.sqrt(),
                "{t}: {actual_mean} {mean} {variance}"
            );
            assert!((actual_variance / variance).ln().abs() < 0.35, "{t}: {actual_variance} {variance}");
        }
        let standardized =
            |t: usize| (fit.left_out.targets[t] - fit.left_out.mean[t]) / fit.left_out.variance[t].sqrt();
        // The scores are those of skewed distributions.
        assert!((0..bags).all(|t| (fit.left_out.scores[t] - standardized(t)).abs() < 0.3 + 0.2 * standardized(t).abs()));
        assert!(fit.left_out.coverage(1.96) > 0.8 && fit.left_out.nlpd() < 4.0);
    }
}

/// The loss of a smoother is its loss on left-out bags, and its gradient matches finite differences.
#[test]
fn smoother_loss_is_leave_one_out_loss() {
    let (_, bags) = bags(TargetUnit::Mean);
    let mediators = table(50, 6, 2);
    let features = table(9, 6, 7);
    let rows: Vec<Vec<f64>> = (0..6).map(|b| features.row(b)).collect();
    let mut gram = Matrix::zeros(6, 6);
    (0..6).for_each(|b| (0..6).for_each(|c| gram[(b, c)] = dot(&rows[b], &rows[c])));
    for counts in [BagWeighting::One, BagWeighting::Mass] {
        let smoother = BagSmoother { kernel: Kernel::gaussian(&[0.9, 1.4]), counts };
        let (loss, gradient) = smoother.loo_loss(&bags, &mediators, &gram).unwrap();
        let mut expected = 0.0;
        for b in 0..6 {
            let weight = |c: usize| {
                let count = if counts == BagWeighting::Mass { bags.weight_sums()[c] } else { 1.0 };
                count * smoother.kernel.eval(&mediators.row(b), &mediators.row(c))
            };
            let kept: Vec<usize> = (0..6).filter(|c| *c != b).collect();
            let total: f64 = kept.iter().map(|c| weight(*c)).sum();
            for j in 0..7 {
                let mean: f64 = kept.iter().map(|c| weight(*c) / total * rows[*c][j]).sum();
                expected += (rows[b][j] - mean).powi(2) / 6.0;
            }
        }
        assert!((loss - expected).abs() < 1e-10 * expected);
        let theta: Vec<f64> = smoother.kernel.parameters().iter().map(|p| p.log_value).collect();
        for p in 0..theta.len() {
            let loss_at = |shift: f64| {
                let mut moved = theta.clone();
                moved[p] += shift;
                let kernel = smoother.kernel.with_parameters(&moved);
                BagSmoother { kernel, counts }.loo_loss(&bags, &mediators, &gram).unwrap().0
            };
            let slope = (loss_at(1e-5) - loss_at(-1e-5)) / 2e-5;
            assert!((gradient[p] - slope).abs() < 1e-6 * (1.0 + slope.abs()), "{p}: {} {slope}", gradient[p]);
        }
    }
}

/// Tuning learns rates within bags better than one rate per bag, with the same result for any number of
/// threads.
#[test]
fn tuning_finds_rates_within_bags() {
    let mut stream = Stream(11);
    let n = 600;
    let x = stream.normals(n, 2);
    let bag: Vec<usize> = (0..n).map(|i| ((x.get(i, 0) + 3.0) * 8.0).clamp(0.0, 47.0) as usize).collect();
    let mut used: Vec<usize> = bag.clone();
    used.sort_unstable();
    used.dedup();
    let bag: Vec<usize> = bag.iter().map(|b| used.binary_search(b).unwrap()).collect();
    let f: Vec<f64> = (0..n).map(|i| (1.5 * x.get(i, 0)).sin() - 2.0).collect();
    let weight: Vec<f64> = (0..n).map(|_| 20.0 + 80.0 * stream.uniform()).collect();
    let mut sums = vec![0.0; used.len()];
    (0..n).for_each(|i| sums[bag[i]] += weight[i] * f[i].exp());
    let counts: Vec<f64> = sums.iter().map(|s| (s + s.sqrt() * stream.normal()).max(0.0).round()).collect();
    let bags = Bags::new(&bag, used.len(), Some(&weight), TargetUnit::Sum).unwrap();
    let data = Aggregates::matched(x.clone(), bags, counts);
    let start = CountProcess::new(
        Kernel::gaussian(&[1.0, 1.0]),
        count_inducing_points(&data, 0).unwrap(),
        Family::Poisson,
    );
    let tune = |threads| with_threads(threads, || Tuning::default().tune_counts(&start, &data).unwrap());
    let TunedCounts { fit, evaluations, .. } = tune(1);
    let fitted = fit.model.predict(&x).unwrap().column(0);
    let error = |v: &[f64]| (v.iter().zip(&f).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / n as f64).sqrt();
    let rmse = error(&fitted);
    assert!(rmse < 0.2, "{rmse}");
    assert!(
        evaluations > 5 && fit.log_marginal_likelihood > start.fit(&data).unwrap().log_marginal_likelihood
    );
    let sd = fit.posterior().sd(&x).unwrap();
    let inside = (0..n).filter(|i| (fitted[*i] - f[*i]).abs() < 1.96 * sd[(*i, 0)]).count();
    assert!(inside as f64 > 0.85 * n as f64, "{inside}");
    assert_eq!(tune(2).fit.model.coef, fit.model.coef);
    let published = Tuning { conventions: Conventions::Published, ..Tuning::default() };
    let other = published.tune_counts(&start, &data).unwrap().fit;
    assert!(other.log_marginal_likelihood >= fit.log_marginal_likelihood - 1e-6);
}

/// Overdispersion is learnt, and averages over hyper-parameters equal sums over a grid.
#[test]
fn overdispersion_is_learnt_and_averaged_over() {
    let mut stream = Stream(3);
    let (n, bags) = (160, 80);
    let x = stream.normals(n, 1);
    let bag: Vec<usize> = (0..n).map(|i| i / 2).collect();
    // Rates are multiplied by factors with mean 1 and variance 0.25; the counts are large.
    let factor = |stream: &mut Stream| (0..4).map(|_| -stream.uniform().ln()).sum::<f64>() / 4.0;
    let counts: Vec<f64> = (0..bags)
        .map(|b| {
            let mean: f64 = (2 * b..2 * b + 2).map(|i| 40.0 * (0.5 * x.get(i, 0).sin()).exp()).sum();
            let mean = mean * factor(&mut stream);
            (mean + mean.sqrt() * stream.normal()).max(0.0).round()
        })
        .collect();
    let partition = Bags::new(&bag, bags, Some(&vec![40.0; n]), TargetUnit::Sum).unwrap();
    let data = Aggregates::matched(x.clone(), partition, counts);
    let points = Table::from_rows(&[[-2.0], [-1.0], [0.0], [1.0], [2.0]]).unwrap();
    let start = CountProcess {
        dispersion: 0.1,
        ..CountProcess::new(Kernel::gaussian(&[1.0]), points, Family::Poisson)
    };
    let tuned = Tuning::default().tune_counts(&start, &data).unwrap();
    let tuned_dispersion = tuned.process.dispersion;
    assert!((tuned_dispersion / 0.25).ln().abs() < 0.4, "{tuned_dispersion}");
    assert_eq!(tuned.fit.dispersions, [tuned_dispersion, 0.0]);
    let plain = CountProcess { dispersion: 0.0, ..start.clone() };
    let plain = Tuning::default().tune_counts(&plain, &data).unwrap();
    assert!(tuned.fit.log_marginal_likelihood > plain.fit.log_marginal_likelihood + 50.0);
    assert!(plain.fit.left_out.coverage(1.96) < 0.6 && tuned.fit.left_out.coverage(1.96) > 0.88);
    // The grid covers scales within a factor of e^4, length scales from e^-1.5 to e^10.4, and dispersions
    // within a factor of e.
    let initial: Vec<f64> = start.parameters().iter().map(|p| p.log_value).collect();
    let new = Table::from_rows(&[[-1.2], [0.3], [3.0]]).unwrap();
    let (mut total, mut mean, mut square) = (0.0, [0.0; 3], [0.0; 3]);
    let best = tuned.fit.log_marginal_likelihood;
    for place in 0..11 * 27 * 9 {
        let [i, j, k] = [place / (27 * 9), place / 9 % 27, place % 9].map(|k| k as f64);
        let (scale, length) = (-4.0 + 0.8 * i, -1.5 + 0.46 * j);
        let dispersion = tuned_dispersion.ln() + 0.25 * (k - 4.0);
        let process = start.with_parameters(&[initial[0] + scale, initial[1] + length, dispersion]);
        let fit = process.fit(&data).unwrap();
        let normal = -0.5 * (scale * scale + ((dispersion - initial[2]) / 1.5).powi(2));
        let prior = 1.0 - 0.5 * length - (-0.5 * length).exp() + normal;
        let weight = (fit.log_marginal_likelihood - best + prior).exp();
        let (prediction, variance) =
            (fit.model.predict(&new).unwrap(), fit.posterior().variance(&new).unwrap());
        total += weight;
        for r in 0..3 {
            mean[r] += weight * prediction[(r, 0)];
            square[r] += weight * (prediction[(r, 0)].powi(2) + variance[(r, 0)]);
        }
    }
    let average =
        |draws| Tuning::default().average_counts(&start, &tuned.processes(), &data, draws, 4).unwrap();
    let averaged = average(1_000);
    assert!(averaged.effective_sample_size > 400.0, "{}", averaged.effective_sample_size);
    let [predicted, sd] = <[Matrix; 2]>::from(averaged.predict(&new).unwrap()).map(|moment| moment.column(0));
    for r in 0..3 {
        let (mean, square) = (mean[r] / total, square[r] / total);
        let expected_sd = (square - mean * mean).sqrt();
        assert!((predicted[r] - mean).abs() < 0.05 * expected_sd, "{r}: {} {mean}", predicted[r]);
        assert!((sd[r] / expected_sd - 1.0).abs() < 0.05, "{r}: {} {expected_sd}", sd[r]);
    }
    assert_eq!(average(8).predict(&new).unwrap(), average(8).predict(&new).unwrap());
    assert!(Tuning::default().average_counts(&start, &tuned.processes(), &data, 0, 4).is_err());
}

#[test]
fn invalid_counts_are_refused() {
    let poisson = data(&Family::Poisson, true);
    let base = process(&poisson, Family::Poisson);
    let error = |data: &Aggregates, candidate: &CountProcess| candidate.fit(data).unwrap_err().to_string();
    for (bad, word) in [(1.5, "count of target 2"), (-1.0, "count of target 2"), (f64::NAN, "NaN")] {
        let mut data = poisson.clone();
        data.targets[1] = bad;
        assert!(error(&data, &base).contains(word), "{}", error(&data, &base));
    }
    let zeros = Aggregates { targets: vec![0.0; 5], ..poisson.clone() };
    assert!(error(&zeros, &base).contains("only counts of 0"));
    let noisy = Aggregates { target_noise: Some(vec![0.1; 5]), ..poisson.clone() };
    assert!(error(&noisy, &base).contains("leave the variances out"));
    let none = CountProcess { smoothing: None, ..base.clone() };
    assert!(error(&poisson, &none).contains("needs mediators"));
    assert!(error(&data(&binomial(), false), &base).contains("sums over rows"));
    let mut far = poisson.clone();
    if let Some(mediators) = &mut far.mediators {
        mediators.targets = Table::from_rows(&[[900.0, 0.0]; 5]).unwrap();
    }
    assert!(error(&far, &base).contains("mediators of target 2"));
    let mut total = poisson.clone();
    if let Some(mediators) = &mut total.mediators {
        mediators.totals = None;
    }
    assert!(error(&total, &base).contains("total of target 2"));
    let negative = BagSmoother::new(
        riesz::kernel::Linear { columns: vec![0, 1], scale: vec![1.0, 1.0], center: vec![0.0, 0.0] }.into(),
    );
    let negative = CountProcess { smoothing: Some(negative), ..base };
    assert!(error(&poisson, &negative).contains("nowhere negative"));
    let trials = |trials: Vec<f64>| {
        let family = Family::Binomial { trials };
        let data = data(&family, false);
        error(&data, &process(&data, family.clone()))
    };
    assert!(trials(vec![9.0, 12.0, 22.0, 10.0, 14.0]).contains("trials of target 3"));
    assert!(trials(vec![9.0, 12.0]).contains("list of trials"));
    assert!(trials(vec![7.0, 0.0, 23.0, 9.0, 2.0]).contains("trials of target 2"));
    let family = Family::Binomial { trials: vec![7.0, 1.0, 23.0, 9.0, 2.0] };
    let mut saturated = data(&family, false);
    saturated.targets[1] = 1.0;
    assert!(matches!(process(&saturated, family).fit(&saturated), Err(Error::Target { .. })));
}
