//! Conformance of all Gaussian process models: every likelihood, with every observation operator and every
//! inference that it has, against sums over a dense grid of the latent values, and every gradient of an
//! evidence against differences.
//!
//! Averages over hyper-parameters are compared with sums over a grid of hyper-parameters.
//!
//! A case has a latent vector f (at most four numbers) with a normal prior, and a log likelihood of f that
//! this file writes down from its definition. The grid gives the evidence, and the mean and standard
//! deviation of f.

use riesz::aggregate::{
    AggregateGaussianProcess, Aggregates, Approximation, Bags, CountProcess, Family, SparseAggregateProcess,
    TargetUnit,
};
use riesz::fit::{
    GaussianProcess, GaussianProcessClassifier, InducingPoints, PosteriorMixture, SparseGaussianProcess,
    TunedParameters, WithPosterior,
};
use riesz::kernel::Parameter;
use riesz::linalg::Cholesky;
use riesz::preference::{Duels, Inference, ItemBags, PreferenceProcess};
use riesz::{Kernel, Matrix, Posterior, Table};
use statrs::function::gamma::ln_gamma;

/// Spacing and reach of the grid, in standard deviations of the whitened latent values.
const STEP: f64 = 0.5;
const REACH: i32 = 13;

/// The evidence and the moments of f.
struct Exact {
    log_evidence: f64,
    mean: Vec<f64>,
    sd: Vec<f64>,
}

/// Sums over the grid: `f = mean + L v` with `LLᵀ = covariance` and v on the grid.
fn integrate(covariance: &Matrix, mean: f64, log_likelihood: &dyn Fn(&[f64]) -> f64) -> Exact {
    let n = covariance.rows();
    let factor = Cholesky::new(covariance.clone(), "prior covariance").unwrap();
    let lower = factor.lower_times(&Matrix::from_row_major(
        n,
        n,
        (0..n * n).map(|k| if k / n == k % n { 1.0 } else { 0.0 }).collect(),
    ));
    let (width, mut total) = (2 * REACH + 1, 0.0);
    let (mut sum, mut squares) = (vec![0.0; n], vec![0.0; n]);
    for point in 0..(width as usize).pow(n as u32) {
        let coordinate =
            |k: usize| f64::from((point / (width as usize).pow(k as u32)) as i32 % width - REACH) * STEP;
        let v: Vec<f64> = (0..n).map(coordinate).collect();
        let f: Vec<f64> = (0..n).map(|i| mean + (0..=i).map(|k| lower[(i, k)] * v[k]).sum::<f64>()).collect();
        let square: f64 = v.iter().map(|v| v * v).sum();
        let weight =
            (log_likelihood(&f) - 0.5 * square).exp() * (STEP / std::f64::consts::TAU.sqrt()).powi(n as i32);
        total += weight;
        for i in 0..n {
            sum[i] += weight * f[i];
            squares[i] += weight * f[i] * f[i];
        }
    }
    let mean: Vec<f64> = sum.iter().map(|s| s / total).collect();
    let sd = squares.iter().zip(&mean).map(|(s, m)| (s / total - m * m).sqrt()).collect();
    Exact { log_evidence: total.ln(), mean, sd }
}

/// Accuracy of an inference.
#[derive(Clone, Copy)]
enum Accuracy {
    /// Everything agrees up to rounding and the jitter.
    Exact,
    /// Laplace's approximation: evidence within this number of nats, means within this share of the prior
    /// standard deviation.
    Laplace(f64),
    /// A lower bound of the evidence, by at most this number of nats.
    LowerBound(f64),
}

/// The log evidence and its gradient at hyper-parameters on the tuning scale.
type Evidence<'a> = dyn Fn(&[f64]) -> (f64, Vec<f64>) + 'a;

/// A model, with its exact solution.
struct Case<'a> {
    name: String,
    accuracy: Accuracy,
    parameters: Vec<Parameter>,
    evidence: Box<Evidence<'a>>,
    /// Mean and standard deviation of f, where the model has a posterior over these rows.
    moments: Option<[Vec<f64>; 2]>,
    exact: Exact,
}

impl Case<'_> {
    fn check(&self) {
        let theta: Vec<f64> = self.parameters.iter().map(|p| p.log_value).collect();
        let (value, gradient) = (self.evidence)(&theta);
        let (error, name) = (value - self.exact.log_evidence, &self.name);
        let (within, tolerance) = match self.accuracy {
            Accuracy::Exact => (error.abs() < 1e-6, 1e-4),
            Accuracy::Laplace(nats) => (error.abs() < nats, nats),
            Accuracy::LowerBound(nats) => (error < 1e-9 && error > -nats, nats),
        };
        assert!(within, "{name}: the evidence has error {error:.2e}");
        assert_eq!(gradient.len(), theta.len(), "{name}");
        for (p, derivative) in gradient.iter().enumerate() {
            let moved = |step: f64| {
                let mut theta = theta.clone();
                theta[p] += step;
                (self.evidence)(&theta).0
            };
            let difference = (moved(1e-4) - moved(-1e-4)) / 2e-4;
            assert!(
                (derivative - difference).abs() < 1e-5 * (1.0 + difference.abs()),
                "{name}: the derivative in {} is {derivative}, the difference {difference}",
                self.parameters[p].name
            );
        }
        let Some([mean, sd]) = &self.moments else { return };
        for i in 0..mean.len() {
            let (exact_mean, exact_sd) = (self.exact.mean[i], self.exact.sd[i]);
            assert!((mean[i] - exact_mean).abs() < tolerance, "{name}: mean {} of {exact_mean}", mean[i]);
            assert!((sd[i] / exact_sd - 1.0).abs() < tolerance, "{name}: sd {} of {exact_sd}", sd[i]);
        }
    }
}

fn rows() -> Table {
    Table::from_rows(&[[-0.6], [0.1], [0.7], [1.5]]).unwrap()
}

fn kernel() -> Kernel {
    0.6 * Kernel::gaussian(&[0.9])
}

fn moments(posterior: &Posterior<'_>, x: &Table) -> Option<[Vec<f64>; 2]> {
    Some([posterior.mean().predict(x).unwrap().column(0), posterior.sd(x).unwrap().column(0)])
}

fn log_normal(z: f64, mean: f64, variance: f64) -> f64 {
    -0.5 * ((z - mean).powi(2) / variance + (std::f64::consts::TAU * variance).ln())
}

/// `ln σ(x)`.
fn log_logistic(x: f64) -> f64 {
    -(-x).exp().ln_1p()
}

/// The operator of an aggregate: weights of the four rows in each bag.
struct Operator {
    name: &'static str,
    bag: [usize; 4],
    weights: [f64; 4],
}

/// Values of rows, and sums over two bags.
const OPERATORS: [Operator; 2] = [
    Operator { name: "rows", bag: [0, 1, 2, 3], weights: [1.0; 4] },
    Operator { name: "bags", bag: [0, 0, 1, 1], weights: [1.0, 2.0, 1.5, 0.5] },
];

impl Operator {
    fn count(&self) -> usize {
        self.bag[3] + 1
    }

    fn bags(&self, unit: TargetUnit) -> Bags {
        Bags::new(&self.bag, self.count(), Some(&self.weights), unit).unwrap()
    }

    /// Weighted sums of a function of f over bags, or weighted means.
    fn apply(&self, unit: TargetUnit, values: impl Fn(usize) -> f64) -> Vec<f64> {
        let (mut sums, mut mass) = (vec![0.0; self.count()], vec![0.0; self.count()]);
        for i in 0..4 {
            sums[self.bag[i]] += self.weights[i] * values(i);
            mass[self.bag[i]] += self.weights[i];
        }
        match unit {
            TargetUnit::Sum => sums,
            TargetUnit::Mean => sums.iter().zip(&mass).map(|(sum, mass)| sum / mass).collect(),
        }
    }
}

#[test]
fn normal_targets_are_exact_for_every_operator_and_inference() {
    let (x, noise, prior_mean) = (rows(), 0.3, 0.2);
    for operator in &OPERATORS {
        let z = &[0.9, -0.4, 1.2, 0.1][..operator.count()];
        let unit = TargetUnit::Sum;
        let log_likelihood = |f: &[f64]| {
            let sums = operator.apply(unit, |i| f[i]);
            z.iter().zip(sums).map(|(z, g)| log_normal(*z, g, noise)).sum()
        };
        let exact = || integrate(&kernel().gram(&x), prior_mean, &log_likelihood);
        let data = Aggregates::matched(x.clone(), operator.bags(unit), z.to_vec());
        let process = AggregateGaussianProcess {
            normalize_y: false,
            prior_mean: Some(prior_mean),
            ..AggregateGaussianProcess::new(kernel(), noise)
        };
        let fit = process.fit(&data).unwrap();
        Case {
            name: format!("normal, {}, all rows", operator.name),
            accuracy: Accuracy::Exact,
            parameters: process.parameters(),
            evidence: Box::new(|theta| process.log_marginal_likelihood(&data, theta).unwrap()),
            moments: moments(&fit.posterior(), &x),
            exact: exact(),
        }
        .check();
        for approximation in [Approximation::Fitc, Approximation::Vfe] {
            let process = SparseAggregateProcess {
                noise,
                mean: Some(prior_mean),
                normalize: false,
                approximation,
                priors: false,
                tune: TunedParameters::Nothing,
                ..SparseAggregateProcess::new(kernel(), x.clone())
            };
            let bags = operator.bags(unit);
            let fit = process.fit(&x, &bags, z).unwrap();
            Case {
                name: format!("normal, {}, {approximation:?} with all rows as points", operator.name),
                accuracy: Accuracy::Exact,
                parameters: process.parameters(),
                evidence: Box::new(|theta| process.log_marginal_likelihood(&x, &bags, z, theta).unwrap()),
                moments: moments(&fit.posterior(), &x),
                exact: exact(),
            }
            .check();
        }
    }
    let y = Matrix::column_vector(vec![0.9, -0.4, 1.2, 0.1]);
    let log_likelihood = |f: &[f64]| (0..4).map(|i| log_normal(y[(i, 0)], f[i], noise)).sum();
    let exact = || integrate(&kernel().gram(&x), 0.0, &log_likelihood);
    let process = GaussianProcess {
        normalize_y: false,
        tune: TunedParameters::Nothing,
        ..GaussianProcess::new(kernel(), noise)
    };
    let fit = process.fit(&x, &y).unwrap();
    Case {
        name: "normal, rows, regression".into(),
        accuracy: Accuracy::Exact,
        parameters: process.parameters(),
        evidence: Box::new(|theta| process.log_marginal_likelihood(&x, &y, theta).unwrap()),
        moments: moments(&fit.posterior(), &x),
        exact: exact(),
    }
    .check();
    let process = SparseGaussianProcess {
        inducing: InducingPoints::Points(x.clone()),
        normalize_y: false,
        tune: TunedParameters::Nothing,
        ..SparseGaussianProcess::new(kernel(), noise, 4)
    };
    let fit = process.fit(&x, &y).unwrap();
    Case {
        name: "normal, rows, regression with all rows as inducing points".into(),
        accuracy: Accuracy::Exact,
        parameters: process.parameters(),
        evidence: Box::new(|theta| process.evidence_lower_bound(&x, &y, theta).unwrap()),
        moments: moments(&fit.posterior(), &x),
        exact: exact(),
    }
    .check();
}

/// The log likelihood of a count given its mean, from the definition of each distribution.
fn log_count(family: &Family, t: usize, z: f64, g: f64, dispersion: f64) -> f64 {
    let log_beta = |a: f64, b: f64| ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b);
    match family {
        Family::Poisson if dispersion == 0.0 => z * g.ln() - g - ln_gamma(z + 1.0),
        Family::Poisson => {
            let (r, p) = (1.0 / dispersion, 1.0 / (1.0 + dispersion * g));
            ln_gamma(z + r) - ln_gamma(r) - ln_gamma(z + 1.0) + r * p.ln() + z * (1.0 - p).ln()
        }
        Family::Binomial { trials } => {
            let n = trials[t];
            let ways = -(n + 1.0).ln() - log_beta(z + 1.0, n - z + 1.0);
            if dispersion == 0.0 {
                return ways + z * g.ln() + (n - z) * (1.0 - g).ln();
            }
            let (a, b) = (g / dispersion, (1.0 - g) / dispersion);
            ways + log_beta(z + a, n - z + b) - log_beta(a, b)
        }
    }
}

#[test]
fn counts_are_near_the_integral_for_every_operator() {
    let (x, prior_mean) = (rows(), -0.3);
    for operator in &OPERATORS {
        let trials = [7.0, 11.0, 9.0, 6.0][..operator.count()].to_vec();
        for (family, dispersion) in [Family::Poisson, Family::Binomial { trials }]
            .into_iter()
            .flat_map(|family| [(family.clone(), 0.0), (family, 0.15)])
        {
            let poisson = family == Family::Poisson;
            let unit = if poisson { TargetUnit::Sum } else { TargetUnit::Mean };
            let counts = vec![3.0, 4.0, 5.0, 1.0][..operator.count()].to_vec();
            let log_likelihood = |f: &[f64]| {
                let rate = |i: usize| if poisson { f[i].exp() } else { 1.0 / (1.0 + (-f[i]).exp()) };
                let means = operator.apply(unit, rate);
                let terms = counts.iter().zip(means).enumerate();
                terms.map(|(t, (z, g))| log_count(&family, t, *z, g, dispersion)).sum()
            };
            let data = Aggregates::matched(x.clone(), operator.bags(unit), counts.clone());
            let process = CountProcess {
                prior_mean: Some(prior_mean),
                dispersion,
                ..CountProcess::new(kernel(), x.clone(), family.clone())
            };
            let fit = process.fit(&data).unwrap();
            Case {
                name: format!("{family:?} with dispersion {dispersion}, {}", operator.name),
                accuracy: Accuracy::Laplace(0.1),
                parameters: process.parameters(),
                evidence: Box::new(|theta| process.log_marginal_likelihood(&data, theta).unwrap()),
                moments: moments(&fit.posterior(), &x),
                exact: integrate(&kernel().gram(&x), prior_mean, &log_likelihood),
            }
            .check();
        }
    }
}

#[test]
fn classes_are_near_the_integral() {
    let (x, labels) = (rows(), [0, 1, 1, 0]);
    let classes = ["no".to_string(), "yes".to_string()];
    let log_likelihood =
        |f: &[f64]| (0..4).map(|i| log_logistic(if labels[i] == 1 { f[i] } else { -f[i] })).sum();
    for (inference, accuracy) in
        [(Inference::Laplace, Accuracy::Laplace(0.1)), (Inference::JaakkolaBound, Accuracy::LowerBound(0.2))]
    {
        let standard = GaussianProcessClassifier::new(2.0 * kernel());
        let classifier = GaussianProcessClassifier { tune: false, inference, ..standard };
        let fit = classifier.fit(&x, &labels, &classes).unwrap();
        Case {
            name: format!("logistic, rows, {inference:?}"),
            accuracy,
            parameters: classifier.kernel.parameters(),
            evidence: Box::new(|theta| {
                classifier.log_marginal_likelihood(&x, &labels, &classes, theta).unwrap()
            }),
            moments: moments(&fit.posterior(), &x),
            exact: integrate(&classifier.kernel.gram(&x), 0.0, &log_likelihood),
        }
        .check();
    }
}

/// Duels of items, and of bags of items: the latent values are the log odds of three pairs, whose prior
/// covariance is written down from the kernel of items.
#[test]
fn duels_are_near_the_integral_for_every_operator_and_inference() {
    let items = rows();
    let pairs = [(0, 1), (1, 2), (2, 0)];
    let (left, right): (Vec<usize>, Vec<usize>) = pairs.into_iter().unzip();
    let members = ItemBags::new(4, 3, &[0, 0, 1, 2], &[0, 3, 1, 2], Some(&[1.0, 3.0, 1.0, 1.0])).unwrap();
    let shares =
        Matrix::from_row_major(3, 4, vec![0.25, 0.0, 0.0, 0.75, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    for bags in [false, true] {
        let gram = kernel().gram(&items);
        let gram = if bags { shares.matmul(&gram).matmul(&shares.transpose()) } else { gram };
        let (utility, generalised) = (1.4, 0.8);
        let covariance = Matrix::from_row_major(
            3,
            3,
            (0..9)
                .map(|k| {
                    let ((l, r), (l2, r2)) = (pairs[k / 3], pairs[k % 3]);
                    let [ll, rr, lr, rl] = [(l, l2), (r, r2), (l, r2), (r, l2)].map(|(a, b)| gram[(a, b)]);
                    utility * (ll + rr - lr - rl) + generalised * (ll * rr - lr * rl)
                })
                .collect(),
        );
        for (margin, inference, accuracy) in [
            (None, Inference::Laplace, Accuracy::Laplace(0.1)),
            (Some(0.4), Inference::Laplace, Accuracy::Laplace(0.1)),
            (None, Inference::JaakkolaBound, Accuracy::LowerBound(0.2)),
        ] {
            let outcome = [1.0, if margin.is_some() { 0.5 } else { 0.0 }, 1.0];
            let duels = Duels::new(if bags { 3 } else { 4 }, &left, &right, &outcome, None).unwrap();
            let mut process = PreferenceProcess::new(kernel());
            (process.tune, process.margin, process.inference) = (false, margin, inference);
            (process.prior.utility_variance, process.prior.generalised_variance) = (utility, generalised);
            let m = margin.unwrap_or(0.0);
            let log_probability = |g: f64, outcome: f64| match outcome {
                1.0 => log_logistic(g - m),
                0.0 => log_logistic(-g - m),
                _ => (1.0 - log_logistic(g - m).exp() - log_logistic(-g - m).exp()).ln(),
            };
            let log_likelihood = |g: &[f64]| g.iter().zip(outcome).map(|(g, o)| log_probability(*g, o)).sum();
            Case {
                name: format!(
                    "duels of {}, margin {margin:?}, {inference:?}",
                    if bags { "bags" } else { "items" }
                ),
                accuracy,
                parameters: process.parameters(),
                evidence: Box::new(|theta| {
                    let evidence = match bags {
                        true => process.log_marginal_likelihood_of_bags(&items, &members, &duels, theta),
                        false => process.log_marginal_likelihood(&items, &duels, theta),
                    };
                    evidence.unwrap()
                }),
                moments: None,
                exact: integrate(&covariance, 0.0, &log_likelihood),
            }
            .check();
        }
    }
}

/// A tuned hyper-parameter: its offsets from the start on a grid, with the logarithm of its prior there.
struct Axis(Vec<(f64, f64)>);

impl Axis {
    /// A log-normal prior.
    fn normal(mean: f64, sd: f64) -> Self {
        Self((-20..=20).map(|k| 0.2 * f64::from(k)).map(|z| (mean + sd * z, -0.5 * z * z)).collect())
    }

    /// The prior of a length scale, whose tail towards long ones is long.
    fn length_scale() -> Self {
        let log_prior = |t: f64| -0.5 * t - (-0.5 * t).exp();
        Self((-20..=100).map(|k| 0.25 * f64::from(k)).map(|t| (t, log_prior(t))).collect())
    }
}

/// Compares an average with the sum over the grid of `axes`. `fit_at` returns the log evidence and a fit for
/// offsets of the tuned hyper-parameters from their start.
fn check_average<F: WithPosterior>(
    name: &str,
    average: &PosteriorMixture<F>,
    axes: &[Axis],
    fit_at: impl Fn(&[f64]) -> (f64, F),
    x: &Table,
) {
    let (mut logs, mut moments, mut prior_total) = (Vec::new(), Vec::new(), 0.0);
    let moments_of = |fit: &F| {
        let posterior = fit.posterior();
        let (mean, variance) = (posterior.mean().predict(x).unwrap(), posterior.variance(x).unwrap());
        let second_moment = |i: usize| variance[(i, 0)] + mean[(i, 0)].powi(2);
        (0..x.rows()).map(|i| [mean[(i, 0)], second_moment(i)]).collect::<Vec<_>>()
    };
    for mut point in 0..axes.iter().map(|axis| axis.0.len()).product::<usize>() {
        let (mut offsets, mut log_prior) = (Vec::new(), 0.0);
        for Axis(nodes) in axes {
            let (offset, log) = nodes[point % nodes.len()];
            (point, log_prior) = (point / nodes.len(), log_prior + log);
            offsets.push(offset);
        }
        let (log_evidence, fit) = fit_at(&offsets);
        logs.push(log_evidence + log_prior);
        prior_total += log_prior.exp();
        moments.push(moments_of(&fit));
    }
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    let effective = average.effective_sample_size;
    assert!(effective > 300.0, "{name}: an effective sample size of {effective}");
    let log_evidence = largest + (total / prior_total).ln();
    let error = average.log_evidence - log_evidence;
    assert!(error.abs() < 4.0 / effective.sqrt(), "{name}: log evidence {error} from {log_evidence}");
    let (mean, sd) = average.predict(x).unwrap();
    let drawn: Vec<(f64, Vec<[f64; 2]>)> =
        average.fits.iter().map(|(weight, fit)| (*weight, moments_of(fit))).collect();
    for i in 0..x.rows() {
        let averaged = [mean[(i, 0)], sd[(i, 0)].powi(2) + mean[(i, 0)].powi(2)];
        for k in 0..2 {
            let exact = weights.iter().zip(&moments).map(|(w, m)| w * m[i][k]).sum::<f64>() / total;
            // Standard error of a mean with importance weights.
            let terms = drawn.iter().map(|(weight, m)| (weight * (m[i][k] - exact)).powi(2));
            let tolerance = 4.0 * terms.sum::<f64>().sqrt() + 1e-4;
            let error = averaged[k] - exact;
            assert!(error.abs() < tolerance, "{name}: moment {k} of row {i}: {} is not {exact}", averaged[k]);
            assert!(tolerance < 0.2 * (exact.abs() + 1.0), "{name}: {tolerance} can't fail");
        }
    }
}

/// The mixture of several models weighs each by its evidence.
#[test]
fn combined_mixtures_are_weighted_by_evidence() {
    let mixture = |log_evidence: f64, fits: Vec<(f64, &'static str)>| PosteriorMixture {
        fits,
        effective_sample_size: 2.0,
        log_evidence,
    };
    let mixtures = vec![
        mixture(-1000.0, vec![(0.25, "a"), (0.75, "b")]),
        mixture(-1000.0 + 3.0_f64.ln(), vec![(0.5, "c"), (0.5, "d")]),
        mixture(-2000.0, vec![(1.0, "impossible")]),
    ];
    let combined = PosteriorMixture::combined(mixtures);
    let expected = [(0.0625, "a"), (0.1875, "b"), (0.375, "c"), (0.375, "d")];
    assert_eq!(combined.fits.len(), expected.len());
    for ((weight, fit), (expected_weight, expected_fit)) in combined.fits.iter().zip(expected) {
        assert!((weight - expected_weight).abs() < 1e-12 && *fit == expected_fit, "{weight} {fit}");
    }
    assert!((combined.effective_sample_size - 1.0 / (0.0625 / 2.0 + 0.5625 / 2.0)).abs() < 1e-9);
    assert!((combined.log_evidence - (-1000.0 + (4.0_f64 / 3.0).ln())).abs() < 1e-9);
}

#[test]
fn averages_over_hyperparameters_equal_sums_over_a_grid() {
    let x = Table::from_rows(&[[-1.1], [-0.6], [0.1], [0.4], [0.7], [1.5]]).unwrap();
    let new = Table::from_rows(&[[0.3], [2.5]]).unwrap();
    let y = Matrix::column_vector(vec![-0.3, -0.4, 0.9, 1.2, 0.8, 0.1]);
    let kernel_at = |kernel: &Kernel, offsets: &[f64]| {
        let moved = kernel.parameters().into_iter().zip(offsets).map(|(p, offset)| p.log_value + offset);
        kernel.with_parameters(&moved.collect::<Vec<_>>())
    };
    let kernel_axes = || [Axis::normal(0.0, 1.0), Axis::length_scale()];

    let standard = GaussianProcess { tune: TunedParameters::Kernel, ..GaussianProcess::new(kernel(), 0.2) };
    let fit_at = |offsets: &[f64]| {
        let kernel = kernel_at(&kernel(), offsets);
        let process = GaussianProcess { kernel, tune: TunedParameters::Nothing, ..standard.clone() };
        let fit = process.fit(&x, &y).unwrap();
        (fit.log_marginal_likelihood, fit)
    };
    let tuned = standard.fit(&x, &y).unwrap();
    let average = standard.average(&tuned, &x, &y, 3_000).unwrap();
    check_average("regression", &average, &kernel_axes(), fit_at, &new);
    let noise = GaussianProcess { tune: TunedParameters::Noise, ..standard.clone() };
    let fit_at = |offsets: &[f64]| {
        let noise = 0.2 * offsets[0].exp();
        let fit = GaussianProcess { noise, tune: TunedParameters::Nothing, ..standard.clone() }.fit(&x, &y);
        let fit = fit.unwrap();
        (fit.log_marginal_likelihood, fit)
    };
    let average = noise.average(&noise.fit(&x, &y).unwrap(), &x, &y, 1_000).unwrap();
    check_average("noise of a regression", &average, &[Axis::normal(0.0, 1.5)], fit_at, &new);
    assert!(standard.average(&tuned, &x, &y, 0).is_err());
    let fixed = GaussianProcess { tune: TunedParameters::Nothing, ..standard.clone() };
    let error = fixed.average(&tuned, &x, &y, 10).unwrap_err().to_string();
    assert!(error.contains("at least one hyper-parameter that is not fixed"), "{error}");

    let sparse = SparseGaussianProcess {
        inducing: InducingPoints::Points(x.select_rows(&[0, 2, 5])),
        tune: TunedParameters::Kernel,
        ..SparseGaussianProcess::new(kernel(), 0.2, 3)
    };
    let fit_at = |offsets: &[f64]| {
        let kernel = kernel_at(&kernel(), offsets);
        let process = SparseGaussianProcess { kernel, tune: TunedParameters::Nothing, ..sparse.clone() };
        let fit = process.fit(&x, &y).unwrap();
        (fit.lower, fit)
    };
    let average = sparse.average(&sparse.fit(&x, &y).unwrap(), &x, &y, 3_000).unwrap();
    check_average("sparse regression", &average, &kernel_axes(), fit_at, &new);

    let (labels, classes) = ([0, 0, 1, 1, 1, 0], ["no".to_string(), "yes".to_string()]);
    let classifier = GaussianProcessClassifier::new(2.0 * kernel());
    let fit_at = |offsets: &[f64]| {
        let kernel = kernel_at(&classifier.kernel, offsets);
        let fit = GaussianProcessClassifier { kernel, tune: false, ..classifier.clone() };
        let fit = fit.fit(&x, &labels, &classes).unwrap();
        (fit.log_marginal_likelihood, fit)
    };
    let tuned = classifier.fit(&x, &labels, &classes).unwrap();
    let average = classifier.average(&tuned, &x, (&labels, &classes), 3_000).unwrap();
    check_average("classification", &average, &kernel_axes(), fit_at, &new);

    let left = [1, 2, 3, 3, 4, 5, 4];
    let duels = Duels::new(6, &left, &[0, 1, 0, 5, 5, 0, 1], &[1.0; 7], None).unwrap();
    let mut process = PreferenceProcess::new(kernel());
    process.prior.generalised_variance = 0.0;
    let fit_at = |offsets: &[f64]| {
        let mut fixed = PreferenceProcess { tune: false, ..process.clone() };
        fixed.prior.utility_variance *= offsets[0].exp();
        fixed.prior.items = kernel_at(&kernel(), &[0.0, offsets[1]]);
        let fit = fixed.fit(&x, &duels).unwrap();
        (fit.log_marginal_likelihood, fit)
    };
    let tuned = process.fit(&x, &duels).unwrap();
    let average = process.average(&tuned, &x, &duels, 3_000).unwrap();
    let axes = [Axis::normal(0.0, 3.0), Axis::normal(0.0, 1.0)];
    let pairs = riesz::preference::wide_rows(&x, &[(0, 3), (4, 5)]).unwrap();
    check_average("preferences", &average, &axes, fit_at, &pairs);
    let wins = average.expectation(|fit| Ok(Matrix::column_vector(fit.probability(&x, &[(3, 0)])?))).unwrap();
    assert!(wins[(0, 0)] > 0.6 && wins[(0, 0)] < 1.0, "{}", wins[(0, 0)]);
}
