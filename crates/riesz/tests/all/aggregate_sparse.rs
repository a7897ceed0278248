//! Processes learnt from sums over bags through inducing points, against the definitions in dense matrices.

use riesz::aggregate::{
    AggregateGaussianProcess, Aggregates, Approximation, Bags, Mediation, MediationTarget, Mediators,
    ObservationOperator, SparseAggregateFit, SparseAggregateProcess, TargetUnit, Tuning, inducing_points,
};
use riesz::fit::{GaussianProcess, TunedParameters};
use riesz::kernel::{Categorical, Profile, Stationary};
use riesz::linalg::{Sparse, lu_solve, symmetric_eigen};
use riesz::table::{Column, ColumnKind};
use riesz::{Kernel, Matrix, Table};

use crate::common::{Stream, table, with_threads};

/// A sum of terms of all kinds: joint distance over two columns, one column, a product, two length scales
/// tied together.
fn kernel() -> Kernel {
    let two = |profile, ard, isotropic| -> Kernel {
        Stationary { profile, columns: vec![0, 1], length_scale: vec![0.8, 1.1], ard, isotropic }.into()
    };
    let single = |profile, column, length_scale| -> Kernel {
        let (columns, length_scale) = (vec![column], vec![length_scale]);
        Stationary { profile, columns, length_scale, ard: true, isotropic: false }.into()
    };
    0.7 * two(Profile::Matern32, true, true)
        + 0.4 * single(Profile::Gaussian, 2, 0.9)
        + 0.3
            * two(Profile::RationalQuadratic { alpha: 0.8 }, false, true)
            * single(Profile::Matern52, 2, 1.3)
        + 0.2 * two(Profile::Gaussian, true, false)
}

/// Bags of 1 to 9 rows in random order, with weights.
fn problem(unit: TargetUnit) -> (Table, Bags, Vec<usize>, Vec<f64>, Vec<f64>) {
    let (x, mut stream) = (table(0, 40, 3), Stream(5));
    let bag: Vec<usize> =
        (0..40).map(|i| if i < 9 { i } else { [8, 1, 2, 8, 4, 5, 2, 7, 8, 0][i % 10] }).collect();
    let weights: Vec<f64> = (0..40).map(|_| 0.2 + stream.uniform()).collect();
    let bags = Bags::new(&bag, 9, Some(&weights), unit).unwrap();
    let f = |i: usize| (2.0 * x.get(i, 0)).sin() + x.get(i, 2) + 3.0;
    let targets =
        (0..9).map(|b| bags.weights().column(b).map(|(i, w)| w * f(i)).sum::<f64>() + 0.1 * stream.normal());
    let targets = targets.collect();
    (x, bags, bag, weights, targets)
}

fn times(a: &Matrix, factor: f64) -> Matrix {
    Matrix::from_row_major(a.rows(), a.cols(), a.data().iter().map(|v| factor * v).collect())
}

fn plus(a: &Matrix, b: &Matrix) -> Matrix {
    Matrix::from_row_major(a.rows(), a.cols(), a.data().iter().zip(b.data()).map(|(a, b)| a + b).collect())
}

fn identity(n: usize, value: impl Fn(usize) -> f64) -> Matrix {
    let mut out = Matrix::zeros(n, n);
    out.add_diagonal(value);
    out
}

fn inverse(a: &Matrix) -> Matrix {
    let n = a.rows();
    let unit = |j: usize| (0..n).map(|i| f64::from(u8::from(i == j))).collect::<Vec<f64>>();
    Matrix::from_row_major(n, n, (0..n).flat_map(|j| lu_solve(a, &unit(j))).collect()).transpose()
}

fn log_det(a: &Matrix) -> f64 {
    symmetric_eigen(a).unwrap().0.iter().map(|v| v.ln()).sum()
}

fn dense(p: &Sparse) -> Matrix {
    p.matmul(&identity(p.cols(), |_| 1.0))
}

fn trace(a: &Matrix) -> f64 {
    (0..a.rows()).map(|i| a[(i, i)]).sum()
}

fn largest(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).fold(0.0, |maximum: f64, (a, b)| maximum.max((a - b).abs()))
}

/// The dense definition: gram matrices of rows and of points (with jitter), sums over bags, and noise of
/// targets.
struct Dense {
    /// Points × points.
    k: Matrix,
    /// Bags × points.
    phi: Matrix,
    /// Bags × bags.
    u: Matrix,
    c: Matrix,
    /// Variances of targets given the values at the points.
    d: Matrix,
    z: Vec<f64>,
    constants: Vec<f64>,
}

impl Dense {
    fn new(
        kernel: &Kernel,
        jitter: f64,
        (x, points): (&Table, &Table),
        bags: &Bags,
        c: Vec<f64>,
        z: &[f64],
    ) -> Self {
        let p = dense(bags.weights()).transpose();
        let k = plus(&kernel.gram(points), &identity(points.rows(), |_| jitter));
        let phi = p.matmul(&kernel.cross_gram(x, points));
        let u = p.matmul(&kernel.gram(x)).matmul(&p.transpose());
        let constants = (0..bags.count()).map(|b| p.row(b).iter().sum()).collect();
        let c = identity(c.len(), |b| c[b]);
        Self { k, phi, u, d: c.clone(), c, z: z.to_vec(), constants }
    }

    /// The FITC approximation: the variance that the points leave unexplained is added to the noise.
    fn fitc(mut self) -> Self {
        let missed = plus(&self.u, &times(&self.explained(), -1.0));
        self.d = plus(&self.c, &identity(self.z.len(), |b| missed[(b, b)]));
        self
    }

    /// `ΦK⁻¹Φᵀ`.
    fn explained(&self) -> Matrix {
        self.phi.matmul(&inverse(&self.k)).matmul(&self.phi.transpose())
    }

    fn mean(&self) -> f64 {
        let weights = lu_solve(&plus(&self.explained(), &self.d), &self.constants);
        let sum = |v: &[f64]| weights.iter().zip(v).map(|(a, b)| a * b).sum::<f64>();
        sum(&self.z) / sum(&self.constants)
    }

    fn residual(&self) -> Vec<f64> {
        let mean = self.mean();
        self.z.iter().zip(&self.constants).map(|(z, s)| z - mean * s).collect()
    }

    fn normal(r: &[f64], v: &Matrix) -> f64 {
        let a = lu_solve(v, r);
        let square: f64 = r.iter().zip(&a).map(|(r, a)| r * a).sum();
        -0.5 * (square + log_det(v) + r.len() as f64 * std::f64::consts::TAU.ln())
    }

    fn bound(&self) -> f64 {
        let s = self.explained();
        let missed = inverse(&self.c).matmul(&plus(&self.u, &times(&s, -1.0)));
        Self::normal(&self.residual(), &plus(&s, &self.c)) - 0.5 * trace(&missed)
    }

    /// Returns the optimal normal distribution of the values at the points: its mean and its covariance `S =
    /// (K⁻¹ + K⁻¹ΦᵀD⁻¹ΦK⁻¹)⁻¹`.
    fn best(&self) -> (Vec<f64>, Matrix) {
        let (k, c) = (inverse(&self.k), inverse(&self.d));
        let g = self.phi.matmul(&k);
        let s = inverse(&plus(&k, &g.transpose().matmul(&c).matmul(&g)));
        let weighted_residual = g.transpose().matmul(&c).matvec(&self.residual());
        (s.matvec(&weighted_residual), s)
    }

    /// Returns `E log p(z | f) - KL(q ‖ p)` for a normal distribution q of the values at the points.
    fn elbo(&self, mean: &[f64], s: &Matrix) -> f64 {
        let (k, c) = (inverse(&self.k), inverse(&self.c));
        let g = self.phi.matmul(&k);
        let left: Vec<f64> = self.residual().iter().zip(g.matvec(mean)).map(|(r, m)| r - m).collect();
        let variance =
            plus(&plus(&self.u, &times(&self.explained(), -1.0)), &g.matmul(s).matmul(&g.transpose()));
        let likelihood = Self::normal(&left, &self.c) - 0.5 * trace(&c.matmul(&variance));
        let inner: f64 = k.matvec(mean).iter().zip(mean).map(|(a, b)| a * b).sum();
        let size = mean.len() as f64;
        likelihood - 0.5 * (trace(&k.matmul(s)) + inner - size + log_det(&self.k) - log_det(s))
    }
}

/// A process with fixed kernel and noises, in the target's units, with all kinds of noise.
fn fixed(points: Table, known: bool) -> SparseAggregateProcess {
    let mut process = SparseAggregateProcess::new(kernel(), points);
    (process.noise, process.row_noise) = (0.05, Some(0.3));
    process.known_noise = known.then(|| (0..9).map(|b| 0.01 * b as f64).collect());
    (process.normalize, process.tune) = (false, TunedParameters::Nothing);
    process
}

fn noise(bags: &Bags, known: bool) -> Vec<f64> {
    let squares = |b: usize| bags.weights().column(b).map(|(_, w)| w * w).sum::<f64>();
    (0..9).map(|b| 0.05 + 0.3 * squares(b) + if known { 0.01 * b as f64 } else { 0.0 }).collect()
}

fn reference(fit: &SparseAggregateFit, x: &Table, bags: &Bags, c: Vec<f64>, z: &[f64]) -> Dense {
    Dense::new(&fit.model.kernel, fit.jitter, (x, &fit.model.support_points), bags, c, z)
}

#[test]
fn fit_matches_the_dense_definition() {
    let approximations = [Approximation::Fitc, Approximation::Vfe];
    for (unit, approximation) in
        approximations.into_iter().flat_map(|kind| [(TargetUnit::Mean, kind), (TargetUnit::Sum, kind)])
    {
        let (x, bags, _, _, z) = problem(unit);
        let points = table(100, 7, 3);
        let process = SparseAggregateProcess { approximation, ..fixed(points.clone(), true) };
        let fit = process.fit(&x, &bags, &z).unwrap();
        let mut dense = reference(&fit, &x, &bags, noise(&bags, true), &z);
        let mut evidence = dense.bound();
        if approximation == Approximation::Fitc {
            dense = dense.fitc();
            evidence = Dense::normal(&dense.residual(), &plus(&dense.explained(), &dense.d));
        }
        let error = (fit.log_marginal_likelihood - evidence).abs();
        assert!(error < 1e-10 * evidence.abs(), "{} {evidence}", fit.log_marginal_likelihood);
        assert!((fit.model.intercept[0] - dense.mean()).abs() < 1e-10);
        // The posterior of the values at the points, mapped to rows and to bags.
        let (mean, s) = dense.best();
        let (new, k) = (table(60, 8, 3), inverse(&dense.k));
        let h = fit.model.kernel.cross_gram(&new, &points).matmul(&k);
        let expected: Vec<f64> = h.matvec(&mean).iter().map(|m| dense.mean() + m).collect();
        assert!(largest(fit.model.predict(&new).unwrap().data(), &expected) < 1e-10);
        let less = plus(&dense.k, &times(&s, -1.0));
        let prior = fit.model.kernel.gram(&new);
        let covariance = plus(&prior, &times(&h.matmul(&less).matmul(&h.transpose()), -1.0));
        let posterior = fit.posterior();
        let actual = &posterior.covariance(&posterior.functionals_at(&new).unwrap())[0];
        assert!(largest(actual.data(), covariance.data()) < 1e-10);
        let sds: Vec<f64> = (0..8).map(|i| covariance[(i, i)].sqrt()).collect();
        assert!(largest(posterior.sd(&new).unwrap().data(), &sds) < 1e-10);
        let g = dense.phi.matmul(&k);
        let fitted: Vec<f64> =
            (0..9).map(|b| dense.mean() * dense.constants[b] + g.matvec(&mean)[b]).collect();
        assert!(largest(&fit.fitted, &fitted) < 1e-10);
        let missed = plus(&dense.u, &times(&dense.explained(), -1.0));
        assert!((fit.unexplained - 0.5 * trace(&inverse(&dense.c).matmul(&missed))).abs() < 1e-9);
        // Residuals of the targets are the estimated noise.
        let sums = posterior.weighted_sum_functionals(&x, bags.weights()).unwrap();
        assert!(largest(posterior.mean_of(&sums).data(), &fit.fitted) < 1e-10);
    }
}

#[test]
fn no_other_distribution_has_a_higher_bound() {
    let (x, bags, _, _, z) = problem(TargetUnit::Mean);
    let process =
        SparseAggregateProcess { approximation: Approximation::Vfe, ..fixed(table(100, 5, 3), true) };
    let fit = process.fit(&x, &bags, &z).unwrap();
    let dense = reference(&fit, &x, &bags, noise(&bags, true), &z);
    let (mean, s) = dense.best();
    assert!(
        (dense.elbo(&mean, &s) - fit.log_marginal_likelihood).abs() < 1e-9,
        "{} {}",
        dense.elbo(&mean, &s),
        fit.log_marginal_likelihood
    );
    let mut stream = Stream(9);
    for _ in 0..20 {
        let moved: Vec<f64> = mean.iter().map(|m| m + 0.01 * stream.normal()).collect();
        assert!(dense.elbo(&moved, &s) < fit.log_marginal_likelihood);
        let root = Matrix::from_row_major(5, 5, (0..25).map(|_| 0.05 * stream.normal()).collect());
        let wider = plus(&s, &root.matmul(&root.transpose()));
        assert!(dense.elbo(&mean, &wider) < fit.log_marginal_likelihood);
    }
}

#[test]
fn the_bound_is_below_the_evidence_and_reaches_it_where_all_rows_are_points() {
    let (x, bags, _, _, z) = problem(TargetUnit::Sum);
    let exact = {
        let mut process = GaussianProcess::new(kernel(), 0.05);
        let squares = noise(&bags, true).iter().map(|c| c - 0.05).collect();
        (process.normalize_y, process.tune) = (false, TunedParameters::Nothing);
        (process.row_noise, process.operator) = (Some(squares), Some(bags.weights().clone()));
        process.fit(&x, &Matrix::column_vector(z.clone()))
    };
    let exact = exact.unwrap();
    let fit = |points: &Table| {
        let mut process = fixed(points.clone(), true);
        (process.mean, process.approximation) = (Some(0.0), Approximation::Vfe);
        process.fit(&x, &bags, &z).unwrap()
    };
    let mut previous = f64::NEG_INFINITY;
    for m in [3, 10, 25] {
        let sparse = fit(&x.select_rows(&(0..m).collect::<Vec<_>>()));
        assert!(
            sparse.log_marginal_likelihood > previous
                && sparse.log_marginal_likelihood < exact.log_marginal_likelihood,
            "{m} {}",
            sparse.log_marginal_likelihood
        );
        previous = sparse.log_marginal_likelihood;
    }
    let full = fit(&x);
    assert!(
        (full.log_marginal_likelihood - exact.log_marginal_likelihood).abs() < 1e-6,
        "{} {}",
        full.log_marginal_likelihood,
        exact.log_marginal_likelihood
    );
    assert!(full.unexplained.abs() < 1e-6);
    let new = table(60, 8, 3);
    let (mean, other) = (full.model.predict(&new).unwrap(), exact.model.predict(&new).unwrap());
    assert!(largest(mean.data(), other.data()) < 1e-6);
    let (sd, other) = (full.posterior().sd(&new).unwrap(), exact.posterior().sd(&new).unwrap());
    assert!(largest(sd.data(), other.data()) < 1e-6);
}

#[test]
fn gradients_match_finite_differences() {
    let approximations = [Approximation::Fitc, Approximation::Vfe];
    let cases =
        [(TargetUnit::Mean, true, None), (TargetUnit::Sum, false, Some(0.4)), (TargetUnit::Sum, true, None)];
    for (approximation, (unit, normalize, mean)) in
        approximations.into_iter().flat_map(|kind| cases.map(|c| (kind, c)))
    {
        let (x, bags, _, _, z) = problem(unit);
        let mut process = fixed(table(100, 6, 3), true);
        (process.normalize, process.mean, process.approximation) = (normalize, mean, approximation);
        let theta: Vec<f64> = process
            .parameters()
            .iter()
            .enumerate()
            .map(|(i, p)| p.log_value + 0.1 * (i as f64).sin())
            .collect();
        let (_, gradient) = process.log_marginal_likelihood(&x, &bags, &z, &theta).unwrap();
        assert_eq!(gradient.len(), 14);
        for p in 0..theta.len() {
            let evidence = |step: f64| {
                let mut moved = theta.clone();
                moved[p] += step;
                process.log_marginal_likelihood(&x, &bags, &z, &moved).unwrap().0
            };
            let h = 1e-3;
            let difference =
                (8.0 * (evidence(h) - evidence(-h)) - (evidence(2.0 * h) - evidence(-2.0 * h))) / (12.0 * h);
            let size = 1.0 + difference.abs();
            assert!((gradient[p] - difference).abs() < 1e-8 * size, "{p}: {} {difference}", gradient[p]);
        }
    }
}

#[test]
fn bags_of_one_row_are_a_sparse_regression() {
    // The same approximation in scikit-learn and other libraries: with bags of one row with weight 1, and all
    // rows as points, it is exact regression.
    let x = table(0, 15, 3);
    let bags = Bags::new(&(0..15).collect::<Vec<_>>(), 15, None, TargetUnit::Mean).unwrap();
    let z: Vec<f64> = (0..15).map(|i| x.get(i, 0).sin() + 0.3 * x.get(i, 1)).collect();
    let mut process = SparseAggregateProcess::new(kernel(), x.clone());
    (process.normalize, process.tune, process.mean, process.noise) =
        (false, TunedParameters::Nothing, Some(0.0), 0.1);
    let sparse = process.fit(&x, &bags, &z).unwrap();
    let mut process = GaussianProcess::new(kernel(), 0.1);
    (process.normalize_y, process.tune) = (false, TunedParameters::Nothing);
    let exact = process.fit(&x, &Matrix::column_vector(z)).unwrap();
    let new = table(60, 8, 3);
    assert!((sparse.log_marginal_likelihood - exact.log_marginal_likelihood).abs() < 1e-7);
    let (prediction, other) = (sparse.model.predict(&new).unwrap(), exact.model.predict(&new).unwrap());
    assert!(largest(prediction.data(), other.data()) < 1e-7);
}

#[test]
fn left_out_targets_are_those_of_fitting_anew() {
    let approximations = [Approximation::Fitc, Approximation::Vfe];
    let cases = [(TargetUnit::Mean, None), (TargetUnit::Sum, None), (TargetUnit::Mean, Some(1.0))];
    for (approximation, (unit, mean_of)) in
        approximations.into_iter().flat_map(|kind| cases.map(|c| (kind, c)))
    {
        let (x, bags, bag, weights, z) = problem(unit);
        let mut process = fixed(table(100, 7, 3), false);
        (process.mean, process.approximation) = (mean_of, approximation);
        let fit = process.fit(&x, &bags, &z).unwrap();
        let c = noise(&bags, false);
        let (p, kernel) = (dense(bags.weights()), &process.kernel);
        let phi = p.transpose().matmul(&kernel.cross_gram(&x, &process.points));
        let q = phi.matmul(&inverse(&kernel.gram(&process.points))).matmul(&phi.transpose());
        let constants = p.transpose().matvec(&[1.0; 40]);
        let u = p.transpose().matmul(&kernel.gram(&x)).matmul(&p);
        let missed =
            |i: usize| if approximation == Approximation::Fitc { u[(i, i)] - q[(i, i)] } else { 0.0 };
        for b in [0, 3, 8] {
            let rows: Vec<usize> = (0..40).filter(|&i| bag[i] != b).collect();
            let renumbered: Vec<usize> = rows.iter().map(|&i| bag[i] - usize::from(bag[i] > b)).collect();
            let kept_weights: Vec<f64> = rows.iter().map(|&i| weights[i]).collect();
            let left = Bags::new(&renumbered, 8, Some(&kept_weights), unit).unwrap();
            let targets: Vec<f64> = (0..9).filter(|&j| j != b).map(|j| z[j]).collect();
            let anew = process.fit(&x.select_rows(&rows), &left, &targets).unwrap();
            let posterior = anew.posterior();
            let sums = posterior.weighted_sum_functionals(&x, bags.weights()).unwrap();
            let (mean, variance) = (posterior.mean_of(&sums)[(b, 0)], posterior.covariance(&sums)[0][(b, b)]);
            // The variance of a learnt mean (universal kriging).
            let kept: Vec<usize> = (0..9).filter(|&j| j != b).collect();
            let v = kept.iter().flat_map(|&i| kept.iter().map(move |&j| (i, j)));
            let v = v.map(|(i, j)| q[(i, j)] + if i == j { c[i] + missed(i) } else { 0.0 }).collect();
            let inverse = inverse(&Matrix::from_row_major(8, 8, v));
            let [cross, s]: [Vec<f64>; 2] =
                [kept.iter().map(|&i| q[(i, b)]).collect(), kept.iter().map(|&i| constants[i]).collect()];
            let solved = inverse.matvec(&s);
            let times = |a: &[f64]| a.iter().zip(&solved).map(|(a, b)| a * b).sum::<f64>();
            let mean_variance =
                if mean_of.is_none() { (constants[b] - times(&cross)).powi(2) / times(&s) } else { 0.0 };
            let actual = (fit.left_out.mean[b], fit.left_out.variance[b]);
            assert!((actual.0 - mean).abs() < 1e-9, "{actual:?} {mean}");
            assert!(
                (actual.1 - (variance + c[b] + mean_variance)).abs() < 1e-9,
                "{actual:?} {variance} {mean_variance}"
            );
        }
    }
}

#[test]
fn tuning_ends_at_a_maximum() {
    let (x, bags, _, _, z) = problem(TargetUnit::Mean);
    let mut process = fixed(table(100, 8, 3), false);
    (process.normalize, process.tune) = (true, TunedParameters::KernelAndNoise);
    let start: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
    let fit = process.fit(&x, &bags, &z).unwrap();
    // The bound plus the log priors is flat there, and higher than at the start.
    let weak = |i: usize, log_value: f64| {
        let apart = log_value - start[i];
        match process.parameters()[i].name.as_str() {
            name if name.starts_with("length_scale") => 1.0 - 0.5 * apart - (-0.5 * apart).exp(),
            "scale" => -0.5 * apart * apart,
            _ => -0.5 * (apart / 1.5).powi(2),
        }
    };
    let (value, gradient) = process.log_marginal_likelihood(&x, &bags, &z, &fit.theta).unwrap();
    let believed: f64 = (0..start.len()).map(|i| weak(i, fit.theta[i])).sum();
    assert!((value - fit.log_marginal_likelihood).abs() < 1e-10);
    assert!(value + believed > process.log_marginal_likelihood(&x, &bags, &z, &start).unwrap().0 + 0.1);
    for (i, g) in gradient.iter().enumerate() {
        let slope = (weak(i, fit.theta[i] + 1e-5) - weak(i, fit.theta[i] - 1e-5)) / 2e-5;
        assert!((g + slope).abs() < 2e-3, "{i}: {g} {slope}");
    }
    // Without priors the optimum is at least as high.
    process.priors = false;
    assert!(process.fit(&x, &bags, &z).unwrap().log_marginal_likelihood >= fit.log_marginal_likelihood);
    // If only the noise is tuned, the kernel stays fixed.
    process.tune = TunedParameters::Noise;
    let noise = process.fit(&x, &bags, &z).unwrap();
    assert_eq!(noise.theta[..12], start[..12]);
    let slope = process.log_marginal_likelihood(&x, &bags, &z, &noise.theta).unwrap().1;
    assert!(noise.theta[12] != start[12] && slope[12..].iter().all(|g| g.abs() < 1e-3), "{slope:?}");
}

/// With all rows as points, mediated targets give the exact process, whatever the observation operator.
#[test]
fn with_all_rows_as_points_mediated_targets_are_those_of_the_exact_process() {
    let (x, bags, ..) = problem(TargetUnit::Mean);
    let coarse = |from: usize, n: usize| table(from, n, 2);
    let bag_of_target = [None, Some(3), None, None, Some(0), None, None, None];
    let mut stream = Stream(9);
    let z: Vec<f64> = (0..8).map(|_| stream.normal()).collect();
    for centered in [true, false] {
        for (mean, mediation_noise, row_noise) in
            [(None, 0.0, 0.0), (Some(0.3), 0.0, 0.0), (None, 0.4, 0.0), (None, 0.4, 0.7), (None, 0.0, 0.7)]
        {
            let mediation = Mediation { centered, ..Mediation::new(Kernel::gaussian(&[1.0; 2]), 0.02) };
            let mediators = Mediators { bags: coarse(300, 9), targets: coarse(400, 8), totals: None };
            let known: Vec<f64> = (0..8).map(|t| 0.01 * t as f64).collect();
            let mediated = Aggregates {
                bag_of_target: bag_of_target.to_vec(),
                target_noise: Some(known.clone()),
                mediators: Some(mediators.clone()),
                ..Aggregates::matched(x.clone(), bags.clone(), z.clone())
            };
            // The uncertainty of mediation and the noise of rows count as known noise of each target.
            let operator =
                ObservationOperator::new(&bags, &bag_of_target, Some((&mediation, &mediators))).unwrap();
            let row_weights = |t: usize| {
                let mut sums = vec![0.0; x.rows()];
                for bag in 0..9 {
                    let share = operator.matrix()[(bag, t)];
                    bags.weights().column(bag).for_each(|(i, w)| sums[i] += share * w);
                }
                sums.iter().map(|w| w * w).sum::<f64>()
            };
            let known_noise = |t: usize| {
                known[t]
                    + mediation_noise * operator.regression_covariance().unwrap()[(t, t)]
                    + row_noise * row_weights(t)
            };
            let data =
                Aggregates { target_noise: Some((0..8).map(known_noise).collect()), ..mediated.clone() };
            let exact = AggregateGaussianProcess {
                prior_mean: mean,
                normalize_y: false,
                mediation: Some(mediation.clone()),
                ..AggregateGaussianProcess::new(kernel(), 0.2)
            };
            let exact = exact.fit(&data).unwrap();
            let mut process = SparseAggregateProcess::new(kernel(), x.clone());
            (process.noise, process.mean, process.normalize) = (0.2, mean, false);
            (process.mediation, process.tune) = (Some(mediation), TunedParameters::Nothing);
            process.mediation_noise = Some(mediation_noise).filter(|noise| *noise > 0.0);
            process.row_noise = Some(row_noise).filter(|noise| *noise > 0.0);
            let fit = process.fit_data(&mediated).unwrap();
            assert_eq!((fit.mediation_noise, fit.row_noise), (mediation_noise, row_noise));
            assert!(
                (fit.log_marginal_likelihood - exact.log_marginal_likelihood).abs() < 1e-6
                    && fit.evidence_error == 0.0
            );
            assert!(fit.unexplained.abs() < 1e-6, "{}", fit.unexplained);
            let new = table(60, 8, 3);
            let [a, b] = [&fit.model, &exact.model].map(|model| model.predict(&new).unwrap());
            assert!(largest(a.data(), b.data()) < 1e-6);
            let [a, b] = [fit.posterior(), exact.posterior()].map(|posterior| posterior.sd(&new).unwrap());
            assert!(largest(a.data(), b.data()) < 1e-6);
            assert!(largest(&fit.fitted, &exact.fitted()) < 1e-6);
            let left_out = exact.leave_one_out().unwrap();
            assert!(largest(&fit.left_out.mean, &left_out.mean) < 1e-5);
            assert!(largest(&fit.left_out.variance, &left_out.variance) < 1e-5);
        }
    }
}

#[test]
fn mismatched_operators_are_refused() {
    let (x, bags, _, _, z) = problem(TargetUnit::Mean);
    let process = SparseAggregateProcess::new(kernel(), table(100, 5, 3));
    let three_bags = Bags::new(&[0, 1, 2], 3, None, TargetUnit::Mean).unwrap();
    let operator = ObservationOperator::new(&three_bags, &[Some(1); 9], None).unwrap();
    let error = process.fit_through(&x, &bags, &operator, &z).unwrap_err().to_string();
    assert!(error.contains("the operator"), "{error}");
    let operator = ObservationOperator::new(&bags, &[Some(1), Some(2)], None).unwrap();
    assert!(
        process.fit_through(&x, &bags, &operator, &z).unwrap_err().to_string().contains("list of targets")
    );
}

/// Tuning alternates between mediators and kernel, as for the exact process, which equals this one with all
/// rows as points.
#[test]
fn tuning_alternates_between_mediators_and_kernel() {
    let (x, bags, ..) = problem(TargetUnit::Mean);
    let (coarse, targets) = (table(300, 9, 2), table(400, 8, 2));
    let data = Aggregates {
        bag_of_target: vec![None; 8],
        mediators: Some(Mediators { bags: coarse, targets, totals: None }),
        ..Aggregates::matched(x.clone(), bags, (0..8).map(|t| (t as f64).sin()).collect())
    };
    let start = Mediation::new(Kernel::gaussian(&[1.0; 2]), 0.02);
    let mut process = SparseAggregateProcess::new(kernel(), x.clone());
    process.mediation = Some(start.clone());
    let fit = process.fit_data(&data).unwrap();
    let fitted = fit.mediation.unwrap();
    let exact = AggregateGaussianProcess {
        mediation: Some(start.clone()),
        ..AggregateGaussianProcess::new(kernel(), process.noise)
    };
    let tuned = Tuning::default().tune(&exact, &data).unwrap().process;
    let logs = |mediation: &Mediation| mediation.parameters().iter().map(|p| p.log_value).collect::<Vec<_>>();
    let expected: Vec<f64> = tuned.parameters().iter().map(|p| p.log_value).collect();
    assert!(largest(&[&fit.theta[..], &logs(&fitted)].concat(), &expected) < 1e-3);
    process.mediation = Some(Mediation { regressed: MediationTarget::Targets, ..start.clone() });
    assert!(process.fit_data(&data).unwrap_err().to_string().contains("regressed on mediators"));
    process.mediation = Some(start.clone());
    process.row_noise = Some(0.1);
    let noisy = process.fit_data(&data).unwrap();
    assert!(noisy.row_noise > 0.0 && noisy.theta.len() == fit.theta.len() + 1, "{}", noisy.row_noise);
    process.row_noise = None;
    process.priors = false;
    assert_eq!(process.fit_data(&data).unwrap().mediation, Some(start));
}

#[test]
fn tuning_of_many_bags_starts_on_a_sample() {
    let (x, mut stream) = (table(0, 600, 3), Stream(8));
    let bags = Bags::new(&(0..600).map(|i| i % 60).collect::<Vec<_>>(), 60, None, TargetUnit::Mean).unwrap();
    let f = |i: usize| (2.0 * x.get(i, 0)).sin() + x.get(i, 2);
    let sum = |b: usize| bags.weights().column(b).map(|(i, w)| w * f(i)).sum::<f64>();
    let z: Vec<f64> = (0..60).map(|b| sum(b) + 0.05 * stream.normal()).collect();
    let kernel = Kernel::gaussian(&[1.0; 3]);
    let mut process = SparseAggregateProcess::new(kernel, inducing_points(&x, 40, 0).unwrap());
    process.priors = false;
    let full = process.fit(&x, &bags, &z).unwrap();
    process.tuning_bags = 30;
    let staged = process.fit(&x, &bags, &z).unwrap();
    assert!(
        (full.log_marginal_likelihood - staged.log_marginal_likelihood).abs() < 0.05,
        "{} {}",
        full.log_marginal_likelihood,
        staged.log_marginal_likelihood
    );
    assert!(full.theta != staged.theta && process.fit(&x, &bags, &z).unwrap().theta == staged.theta);
    // If there are fewer than twice as many bags, all are used from the start.
    process.tuning_bags = 31;
    assert_eq!(process.fit(&x, &bags, &z).unwrap().theta, full.theta);
}

#[test]
fn another_thread_sees_how_far_it_is_and_stops_it() {
    let (x, bags, _, _, z) = problem(TargetUnit::Mean);
    let process = SparseAggregateProcess::new(kernel(), table(100, 8, 3));
    let fit = process.fit(&x, &bags, &z).unwrap();
    assert_eq!(process.progress.steps(), fit.evaluations);
    process.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(matches!(process.fit(&x, &bags, &z), Err(riesz::Error::Interrupted)));
}

#[test]
fn the_unit_of_the_target_does_not_matter() {
    let (x, bags, _, _, z) = problem(TargetUnit::Sum);
    let mut process = SparseAggregateProcess::new(kernel(), table(100, 8, 3));
    // Tuning stops by the size of the bound, which depends on the unit; the fit for given parameters does
    // not.
    (process.row_noise, process.tune) = (Some(0.1), TunedParameters::Nothing);
    let original = process.fit(&x, &bags, &z).unwrap();
    let hundreds: Vec<f64> = z.iter().map(|v| 100.0 * v).collect();
    let other = process.fit(&x, &bags, &hundreds).unwrap();
    let new = table(60, 8, 3);
    for (a, b) in [
        (original.model.predict(&new).unwrap(), other.model.predict(&new).unwrap()),
        (original.posterior().sd(&new).unwrap(), other.posterior().sd(&new).unwrap()),
    ] {
        assert!(largest(&a.data().iter().map(|v| 100.0 * v).collect::<Vec<_>>(), b.data()) < 1e-9);
    }
    assert!(
        (original.log_marginal_likelihood - other.log_marginal_likelihood - 9.0 * 100.0_f64.ln()).abs()
            < 1e-9
    );
    assert!((other.noise / original.noise / 1e4 - 1.0).abs() < 1e-12);
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let (x, mut stream) = (table(0, 900, 3), Stream(3));
    let bag: Vec<usize> = (0..900).map(|i| if i < 600 { 0 } else { 1 + i % 30 }).collect();
    let bags = Bags::new(&bag, 31, None, TargetUnit::Mean).unwrap();
    let z: Vec<f64> = (0..31).map(|_| stream.normal()).collect();
    let run = || {
        let points = inducing_points(&x, 270, 1).unwrap();
        let mut process = SparseAggregateProcess::new(kernel(), points);
        process.tune = TunedParameters::Noise;
        let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
        let fit = process.fit(&x, &bags, &z).unwrap();
        (
            fit.model.coef,
            fit.theta,
            fit.left_out,
            process.log_marginal_likelihood(&x, &bags, &z, &theta).unwrap(),
        )
    };
    assert_eq!(with_threads(1, run), with_threads(2, run));
}

#[test]
fn inducing_points_are_few_and_near() {
    let x = table(0, 3000, 3);
    let points = inducing_points(&x, 40, 7).unwrap();
    assert_eq!((points.rows(), points), (40, inducing_points(&x, 40, 7).unwrap()));
    let distance = |points: &Table| -> f64 {
        let far = |i: usize, p: usize| (0..3).map(|j| (x.get(i, j) - points.get(p, j)).powi(2)).sum::<f64>();
        (0..3000).map(|i| (0..points.rows()).map(|p| far(i, p)).fold(f64::INFINITY, f64::min)).sum()
    };
    let points = inducing_points(&x, 40, 7).unwrap();
    let random = x.select_rows(&x.sample_rows(40, 1));
    assert!(distance(&points) < 0.75 * distance(&random), "{} {}", distance(&points), distance(&random));
    // There are at most as many points as distinct rows.
    let twice = x.select_rows(&[0, 1, 2, 0, 1, 2, 2]);
    assert_eq!(inducing_points(&twice, 5, 0).unwrap(), x.select_rows(&[0, 1, 2]));
    assert!(inducing_points(&x, 0, 0).unwrap_err().to_string().contains("inducing points"));
}

#[test]
fn points_of_levels_are_rows() {
    let levels = ["a", "b", "c"].map(String::from).to_vec();
    let columns =
        vec![Column { name: "c".into(), kind: ColumnKind::Categorical { levels } }, Column::numeric("x")];
    let values = (0..300).map(|i| (i % 3) as f64).chain((0..300).map(|i| (i / 3) as f64 / 50.0)).collect();
    let x = Table::from_column_major(columns, 300, values).unwrap();
    let points = inducing_points(&x, 12, 0).unwrap();
    let rows: Vec<Vec<f64>> = (0..300).map(|i| x.row(i)).collect();
    assert!(points.rows() == 12 && (0..12).all(|p| rows.contains(&points.row(p))));
    assert!((0..3).all(|level| points.column(0).contains(&f64::from(level))));
    let kernel: Kernel = Categorical::on_column(0).into();
    let moved = Stationary {
        profile: Profile::Gaussian,
        columns: vec![1],
        length_scale: vec![1.0],
        ard: true,
        isotropic: false,
    };
    let kernel = kernel * moved.into();
    let bag: Vec<usize> = (0..300).map(|i| 3 * (i / 30) + i % 3).collect();
    let bags = Bags::new(&bag, 30, None, TargetUnit::Mean).unwrap();
    let f = |i: usize| x.get(i, 0) + x.get(i, 1).sin();
    let z: Vec<f64> = (0..30).map(|b| bags.weights().column(b).map(|(i, w)| w * f(i)).sum()).collect();
    let fit = SparseAggregateProcess::new(kernel, points).fit(&x, &bags, &z).unwrap();
    let mean = fit.model.predict(&x).unwrap();
    assert!((0..300).all(|i| (mean[(i, 0)] - f(i)).abs() < 0.3));
}

#[test]
fn bad_input_is_named() {
    let (x, bags, _, _, z) = problem(TargetUnit::Mean);
    let process = || SparseAggregateProcess::new(kernel(), table(100, 5, 3));
    let error =
        |process: &SparseAggregateProcess, z: &[f64]| process.fit(&x, &bags, z).unwrap_err().to_string();
    assert!(error(&process(), &z[1..]).contains("one per bag"));
    let mut bad = z.clone();
    bad[3] = f64::NAN;
    assert!(error(&process(), &bad).contains("target"));
    assert!(error(&process(), &[2.0; 9]).contains("has no spread"));
    for set in [0, 1, 2, 3] {
        let mut process = process();
        match set {
            0 => process.noise = 0.0,
            1 => process.row_noise = Some(-1.0),
            2 => process.known_noise = Some(vec![0.1; 8]),
            _ => process.known_noise = Some(vec![-0.1; 9]),
        }
        assert!(error(&process, &z).contains(["noise", "row_noise", "known_noise", "known_noise"][set]));
    }
    let other = SparseAggregateProcess::new(kernel(), Table::from_rows(&[[1.0, 2.0]]).unwrap());
    assert!(other.fit(&x, &bags, &z).is_err());
}
