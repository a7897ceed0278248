//! MMD² and HSIC against their definitions in plain code, their attributions against enumeration, and the
//! levels of the tests against simulated null hypotheses.

use proptest::prelude::*;
use riesz::attribution::enumeration::shapley;
use riesz::discrepancy::feature_ranking::{Method, rank};
use riesz::discrepancy::{
    AttributionRequest, FactorKind, IndependenceTest, MmdEstimator, Null, TestResult, TestSettings,
    TwoSampleTest, default_kernel, length_scale_grid, residuals, witness,
};
use riesz::fit::KernelRidge;
use riesz::fit::cross_validation::default_ridges;
use riesz::kernel::{Categorical, Linear, Profile, Stationary};
use riesz::{Column, ColumnKind, Error, Kernel, Matrix, Players, Table};

use crate::common::{Stream, Terms, stationary, with_threads};

pub fn terms(count: usize, d: usize, s: &mut Stream) -> Terms {
    let factor = |j: usize, s: &mut Stream| -> Kernel {
        let length_scale = 0.5 + 2.0 * s.uniform();
        let stationary = |profile| stationary(profile, j, length_scale);
        match (s.uniform() * 5.0) as usize {
            0 => stationary(Profile::Exponential),
            1 => stationary(Profile::Matern32),
            2 => Categorical { columns: [j], similarity: 0.3 }.into(),
            3 => Linear { columns: vec![j], center: vec![0.2], scale: vec![1.5] }.into(),
            _ => stationary(Profile::Gaussian),
        }
    };
    (0..count)
        .map(|t| {
            // Some columns are missing from some terms.
            let term_columns: Vec<usize> = (0..d).filter(|&j| t == 0 || (j + t) % 3 > 0).collect();
            (0.3 + s.uniform(), term_columns.into_iter().map(|j| (j, factor(j, s))).collect())
        })
        .collect()
}

pub fn kernel(terms: &Terms) -> Kernel {
    let product = |(scale, factors): &(f64, Vec<(usize, Kernel)>)| {
        factors.iter().fold(Kernel::constant(*scale), |k, (_, f)| k * f.clone())
    };
    terms.iter().map(product).reduce(|a, b| a + b).unwrap()
}

/// `Σ_t scale Π_{j present} k_tj(u_j, v_j)`.
pub fn value(terms: &Terms, u: &[f64], v: &[f64], present: impl Fn(usize) -> bool) -> f64 {
    let product = |(scale, factors): &(f64, Vec<(usize, Kernel)>)| {
        factors.iter().filter(|(j, _)| present(*j)).fold(*scale, |p, (_, f)| p * f.eval(u, v))
    };
    terms.iter().map(product).sum()
}

/// Computes MMD² from its definition.
pub fn mmd(
    x: &[Vec<f64>],
    z: &[Vec<f64>],
    estimator: MmdEstimator,
    k: &dyn Fn(&[f64], &[f64]) -> f64,
) -> f64 {
    let (n, m) = (x.len(), z.len());
    let cross = |x: &[Vec<f64>], z: &[Vec<f64>]| -> f64 {
        x.iter().flat_map(|u| z.iter().map(move |v| k(u, v))).sum::<f64>() / (x.len() * z.len()) as f64
    };
    let within_mean = |x: &[Vec<f64>]| -> f64 {
        let mut sum = 0.0;
        for i in 0..x.len() {
            for j in 0..x.len() {
                sum += if i == j { 0.0 } else { k(&x[i], &x[j]) };
            }
        }
        sum / (x.len() * (x.len() - 1)) as f64
    };
    match estimator {
        MmdEstimator::Unbiased => within_mean(x) + within_mean(z) - 2.0 * cross(x, z),
        MmdEstimator::Biased => cross(x, x) + cross(z, z) - 2.0 * cross(x, z),
        MmdEstimator::Block(q) => {
            let blocks = n.min(m) / q;
            let mut sum = 0.0;
            for from in (0..blocks).map(|b| b * q) {
                for i in from..from + q {
                    for j in (from..from + q).filter(|&j| j != i) {
                        sum += k(&x[i], &x[j]) + k(&z[i], &z[j]) - k(&x[i], &z[j]) - k(&z[i], &x[j]);
                    }
                }
            }
            sum / (blocks * q * (q - 1)) as f64
        }
    }
}

pub fn matrix(rows: &[Vec<f64>], k: &dyn Fn(&[f64], &[f64]) -> f64) -> Vec<Vec<f64>> {
    rows.iter().map(|u| rows.iter().map(|v| k(u, v)).collect()).collect()
}

/// `tr(K H L H) / (n-1)²`.
pub fn hsic_biased(k: &[Vec<f64>], l: &[Vec<f64>]) -> f64 {
    let n = k.len();
    let h = |i: usize, j: usize| f64::from(u8::from(i == j)) - 1.0 / n as f64;
    let mut trace = 0.0;
    for a in 0..n {
        for b in 0..n {
            for c in 0..n {
                for d in 0..n {
                    trace += k[a][b] * h(b, c) * l[c][d] * h(d, a);
                }
            }
        }
    }
    trace / ((n - 1) * (n - 1)) as f64
}

/// The U-statistic over all ordered quadruples of different rows (Gretton, Bousquet, Smola and Schölkopf
/// 2005, lemma 1).
pub fn hsic_unbiased(k: &[Vec<f64>], l: &[Vec<f64>]) -> f64 {
    let n = k.len();
    let (mut sum, mut count) = (0.0, 0.0);
    for a in 0..n {
        for b in (0..n).filter(|&b| b != a) {
            for c in (0..n).filter(|&c| c != a && c != b) {
                for d in (0..n).filter(|&d| d != a && d != b && d != c) {
                    sum += k[a][b] * (l[a][b] + l[c][d] - 2.0 * l[a][c]);
                    count += 1.0;
                }
            }
        }
    }
    sum / count
}

pub fn rows(table: &Table) -> Vec<Vec<f64>> {
    (0..table.rows()).map(|i| table.row(i)).collect()
}

pub fn settings(permutations: usize, seed: u64) -> TestSettings {
    TestSettings { permutations, seed, ..TestSettings::default() }
}

/// Settings of the published tests, whose kernels have product factors.
fn published(permutations: usize, seed: u64) -> TestSettings {
    TestSettings { factors: FactorKind::Product, ..settings(permutations, seed) }
}

fn check(result: &TestResult, truth: impl Fn(&[bool]) -> f64) {
    let explanation = &result.attributions.as_ref().unwrap().explanation;
    let p = explanation.players.len();
    let total = truth(&vec![true; p]);
    assert!((result.statistic - total).abs() < 1e-12 * (1.0 + total.abs()), "{} {total}", result.statistic);
    assert!(truth(&vec![false; p]).abs() < 1e-11);
    let expected = shapley(p, truth);
    for (value, expected) in explanation.values.iter().zip(&expected) {
        assert!((value - expected).abs() < 1e-12 * (1.0 + total.abs()), "{value} {expected}");
    }
    let certificate = explanation.certificate().unwrap();
    assert!(certificate.holds && certificate.bound < 1e-8, "{certificate:?}");
}

pub const ESTIMATORS: [MmdEstimator; 4] =
    [MmdEstimator::Unbiased, MmdEstimator::Biased, MmdEstimator::LINEAR, MmdEstimator::Block(3)];

/// Two samples, a kernel, and players: from three columns on, two of them make one.
pub fn drawn(
    seed: u64,
    d: usize,
    [n, m]: [usize; 2],
    count: usize,
) -> (Table, Table, Terms, Option<Players>, Players) {
    let mut s = Stream(seed);
    let (x, z, kernel_terms) =
        (s.normals_and_levels(n, d), s.normals_and_levels(m, d), terms(count, d, &mut s));
    let groups = (d > 2).then(|| Players::named(x.columns(), &[("both", vec!["x0", "x2"])]).unwrap());
    let players = groups.clone().unwrap_or_else(|| Players::singletons(x.columns()));
    (x, z, kernel_terms, groups, players)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn mmd_and_its_values_follow_the_definition(
        seed in any::<u64>(), d in 1..6_usize, n in 4..14_usize, m in 4..14_usize, count in 1..3_usize, which in 0..4_usize,
    ) {
        let (x, z, kernel_terms, groups, players) = drawn(seed, d, [n, m], count);
        let estimator = ESTIMATORS[which];
        let settings = TestSettings { groups, attribute: AttributionRequest::Values, ..published(0, 0) };
        let test = TwoSampleTest { kernels: vec![kernel(&kernel_terms)], estimator, settings };
        let result = test.run(&x, &z).unwrap();
        prop_assert!(result.pvalue.is_none());
        check(&result, |coalition| {
            let present = |j: usize| players.players().iter().zip(coalition).any(|(p, &is_present)| is_present && p.columns.contains(&j));
            mmd(&rows(&x), &rows(&z), estimator, &|u, v| value(&kernel_terms, u, v, present))
        });
    }

    #[test]
    fn hsic_and_its_values_follow_the_definition(
        seed in any::<u64>(), d in 1..5_usize, n in 5..9_usize, count in 1..3_usize, unbiased in any::<bool>(),
    ) {
        let mut s = Stream(seed);
        let (x, y, kernel_terms, target) = (s.normals_and_levels(n, d), s.normals(n, 2), terms(count, d, &mut s), terms(2, 2, &mut s));
        let test = IndependenceTest {
            kernels: vec![kernel(&kernel_terms)],
            target_kernel: Some(kernel(&target)),
            unbiased,
            settings: TestSettings { attribute: AttributionRequest::Values, ..published(0, 0) },
            ..IndependenceTest::default()
        };
        let l = matrix(&rows(&y), &|u, v| value(&target, u, v, |_| true));
        check(&test.run(&x, &y).unwrap(), |coalition| {
            let k = matrix(&rows(&x), &|u, v| value(&kernel_terms, u, v, |j| coalition[j]));
            if unbiased { hsic_unbiased(&k, &l) } else { hsic_biased(&k, &l) }
        });
    }
}

/// Samples that span several tiles, in two sizes.
#[test]
fn large_samples_follow_the_definition() {
    let mut s = Stream(5);
    let (x, z, kernel_terms) =
        (s.normals_and_levels(143, 3), s.normals_and_levels(201, 3), terms(1, 3, &mut s));
    for estimator in
        [MmdEstimator::Unbiased, MmdEstimator::Biased, MmdEstimator::LINEAR, MmdEstimator::Block(50)]
    {
        let settings = TestSettings { attribute: AttributionRequest::Values, ..published(0, 0) };
        let result =
            TwoSampleTest { kernels: vec![kernel(&kernel_terms)], estimator, settings }.run(&x, &z).unwrap();
        check(&result, |coalition| {
            mmd(&rows(&x), &rows(&z), estimator, &|u, v| value(&kernel_terms, u, v, |j| coalition[j]))
        });
    }
}

/// Interaction indices against their definition (Grabisch and Roubens 1999), over all coalitions without the
/// pair.
#[test]
fn interactions_follow_the_definition() {
    for (seed, d) in [(1, 2), (2, 4), (3, 6)] {
        let mut s = Stream(seed);
        let (x, z, kernel_terms) =
            (s.normals_and_levels(9, d), s.normals_and_levels(11, d), terms(2, d, &mut s));
        let settings =
            TestSettings { attribute: AttributionRequest::Values, interactions: true, ..published(0, 0) };
        let test =
            TwoSampleTest { kernels: vec![kernel(&kernel_terms)], settings, ..TwoSampleTest::default() };
        let attributions = test.run(&x, &z).unwrap().attributions.unwrap();
        let game = |mask: usize| {
            mmd(&rows(&x), &rows(&z), MmdEstimator::Unbiased, &|u, v| {
                value(&kernel_terms, u, v, |j| mask >> j & 1 == 1)
            })
        };
        let factorial = |k: usize| (1..=k).map(|i| i as f64).product::<f64>();
        let interactions = attributions.interactions.unwrap();
        for j in 0..d {
            for l in (0..d).filter(|&l| l != j) {
                let (a, b) = (1 << j, 1 << l);
                let mut index = 0.0;
                for mask in (0..1_usize << d).filter(|mask| mask & (a | b) == 0) {
                    let size = mask.count_ones() as usize;
                    let weight = factorial(size) * factorial(d - size - 2) / factorial(d - 1);
                    index += weight * (game(mask | a | b) - game(mask | a) - game(mask | b) + game(mask));
                }
                assert!((interactions.values[(j, l)] - index / 2.0).abs() < 1e-12, "{j} {l}");
            }
            let row: f64 = interactions.values.row(j).iter().sum();
            assert!((row - attributions.explanation.values[j]).abs() < 1e-12);
        }
        // The bound is at least twice the bound of a value for the index, plus that of the values in the
        // diagonal entries.
        let of_values = attributions.explanation.certificate().unwrap().bound;
        assert!(interactions.bound < 1e-9 && interactions.bound > 2.0 * of_values);
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let mut s = Stream(1);
    let (x, z) = (s.normals(300, 4), s.normals(250, 4));
    let two = TwoSampleTest { settings: settings(99, 3), ..TwoSampleTest::default() };
    let independence_test = IndependenceTest { settings: settings(99, 3), ..IndependenceTest::default() };
    let run = |threads| {
        let y = x.select_rows(&(50..300).collect::<Vec<_>>());
        with_threads(threads, || (two.run(&x, &z).unwrap(), independence_test.run(&z, &y).unwrap()))
    };
    assert_eq!(run(1), run(3));
}

/// Rejections at 5 % of true null hypotheses lie within 3 standard deviations of the binomial distribution.
pub fn level(runs: usize, at_most: bool, run: impl Fn(u64) -> f64) {
    let rejected = (0..runs as u64).filter(|&seed| run(seed) <= 0.05).count() as f64;
    let (mean, margin) = (0.05 * runs as f64, 3.0 * (0.05 * 0.95 * runs as f64).sqrt());
    let low = if at_most { 0.0 } else { mean - margin };
    assert!((low..mean + margin).contains(&rejected), "{rejected} of {runs}");
}

pub const RUNS: usize = 2000;

#[test]
fn two_sample_tests_keep_their_level() {
    for estimator in
        [MmdEstimator::Unbiased, MmdEstimator::Biased, MmdEstimator::LINEAR, MmdEstimator::Block(5)]
    {
        level(RUNS, false, |seed| {
            let mut s = Stream(seed);
            let (x, z) = (s.normals(20, 2), s.normals(20, 2));
            let settings = TestSettings { attribute: AttributionRequest::Nothing, ..settings(99, seed) };
            TwoSampleTest { estimator, settings, ..TwoSampleTest::default() }
                .run(&x, &z)
                .unwrap()
                .pvalue
                .unwrap()
        });
    }
}

#[test]
fn an_aggregated_test_keeps_its_level() {
    level(RUNS, false, |seed| {
        let mut s = Stream(seed);
        let (x, z) = (s.normals(20, 2), s.normals(25, 2));
        let kernels = length_scale_grid(&Kernel::gaussian(&[1.0, 1.0]), &[0.2, 0.5, 1.0, 3.0]);
        let settings = TestSettings { attribute: AttributionRequest::Nothing, ..settings(99, seed) };
        TwoSampleTest { kernels, settings, ..TwoSampleTest::default() }.run(&x, &z).unwrap().pvalue.unwrap()
    });
}

#[test]
fn independence_tests_keep_their_level() {
    for unbiased in [false, true] {
        level(RUNS, false, |seed| {
            let mut s = Stream(seed);
            let (x, y) = (s.normals(25, 2), s.normals(25, 1));
            let settings = TestSettings { attribute: AttributionRequest::Nothing, ..settings(99, seed) };
            let test = IndependenceTest { unbiased, settings, ..IndependenceTest::default() };
            test.run(&x, &y).unwrap().pvalue.unwrap()
        });
    }
}

/// Under the null hypothesis, any feature is reported in 5 % of samples, and so is a single feature that is
/// tested alone.
#[test]
fn feature_tests_keep_the_family_wise_error() {
    let run = |seed: u64, family: bool| {
        let mut s = Stream(seed);
        let (x, z) = (s.normals(20, 4), s.normals(20, 4));
        let result =
            TwoSampleTest { settings: settings(99, seed), ..TwoSampleTest::default() }.run(&x, &z).unwrap();
        let significance = result.attributions.unwrap().significance.unwrap();
        match family {
            true => significance.adjusted.iter().copied().fold(1.0, f64::min),
            false => significance.pvalues[2],
        }
    };
    level(RUNS, false, |seed| run(seed, true));
    level(RUNS, false, |seed| run(seed, false));
}

/// Feature tests of an aggregated test, which selects among several kernels, have the same levels.
#[test]
fn feature_tests_allow_for_the_choice_of_a_kernel() {
    let run = |seed: u64, family: bool| {
        let mut s = Stream(seed);
        let (x, z) = (s.normals(16, 3), s.normals(16, 3));
        let kernels = length_scale_grid(&Kernel::gaussian(&[1.0; 3]), &[0.1, 0.3, 1.0, 3.0]);
        let test = TwoSampleTest { kernels, settings: settings(99, seed), ..TwoSampleTest::default() };
        let significance = test.run(&x, &z).unwrap().attributions.unwrap().significance.unwrap();
        if family {
            significance.adjusted.iter().copied().fold(1.0, f64::min)
        } else {
            significance.pvalues[0]
        }
    };
    level(RUNS, true, |seed| run(seed, true));
    level(RUNS, true, |seed| run(seed, false));
}

fn autoregressive(n: usize, keep: f64, s: &mut Stream) -> Table {
    let mut value = s.normal() / (1.0 - keep * keep).sqrt();
    let series: Vec<[f64; 1]> = (0..n)
        .map(|_| {
            value = keep * value + s.normal();
            [value]
        })
        .collect();
    Table::from_rows(&series).unwrap()
}

/// For two independent series with autocorrelation, permutations report dependence, the wild bootstrap does
/// not.
#[test]
fn the_wild_bootstrap_bears_dependence_in_time() {
    let p = |null: Null, seed: u64| {
        let mut s = Stream(seed);
        let (x, y) = (autoregressive(150, 0.8, &mut s), autoregressive(150, 0.8, &mut s));
        let settings = TestSettings { attribute: AttributionRequest::Nothing, ..settings(199, seed) };
        IndependenceTest { null, settings, ..IndependenceTest::default() }
            .run(&x, &y)
            .unwrap()
            .pvalue
            .unwrap()
    };
    let rejected = |null: Null| (0..300).filter(|&seed| p(null, seed) <= 0.05).count();
    let (permutation, wild) = (rejected(Null::Permutation), rejected(Null::WildBootstrap(20.0)));
    assert!(permutation > 75, "{permutation}");
    // The nominal 5 % are 15 rejections; the bootstrap is valid as samples grow.
    assert!(wild < 30, "{wild}");
}

#[test]
fn power_is_that_of_a_plain_permutation_test() {
    // The same test in plain code, with its own permutations.
    let plain = |x: &[Vec<f64>], z: &[Vec<f64>], k: &Kernel, s: &mut Stream| {
        let pooled: Vec<Vec<f64>> = x.iter().chain(z).cloned().collect();
        let gram = matrix(&pooled, &|u, v| k.eval(u, v));
        let statistic = |order: &[usize]| {
            let (n, m) = (x.len(), z.len());
            let mut sum = 0.0;
            for (a, &i) in order.iter().enumerate() {
                for (b, &j) in order.iter().enumerate().filter(|(b, _)| *b != a) {
                    sum += gram[i][j]
                        * match (a < n, b < n) {
                            (true, true) => 1.0 / (n * (n - 1)) as f64,
                            (false, false) => 1.0 / (m * (m - 1)) as f64,
                            _ => -1.0 / (n * m) as f64,
                        };
                }
            }
            sum
        };
        let mut order: Vec<usize> = (0..pooled.len()).collect();
        let observed = statistic(&order);
        let mut larger = 1;
        for _ in 0..99 {
            for i in (1..order.len()).rev() {
                order.swap(i, (s.uniform() * (i + 1) as f64) as usize);
            }
            larger += usize::from(statistic(&order) >= observed);
        }
        f64::from(larger as u32) / 100.0
    };
    let kernel = Kernel::gaussian(&[1.5, 1.5]);
    let (mut ours, mut theirs) = (0, 0);
    for seed in 0..200 {
        let mut s = Stream(seed);
        let (x, shifted) = (s.normals(20, 2), s.normals(20, 2));
        let z =
            Table::from_rows(&rows(&shifted).iter().map(|r| [r[0] + 0.8, r[1]]).collect::<Vec<_>>()).unwrap();
        let settings = TestSettings { attribute: AttributionRequest::Nothing, ..published(99, seed) };
        let test = TwoSampleTest { kernels: vec![kernel.clone()], settings, ..TwoSampleTest::default() };
        ours += usize::from(test.run(&x, &z).unwrap().pvalue.unwrap() <= 0.05);
        theirs += usize::from(plain(&rows(&x), &rows(&z), &kernel, &mut s) <= 0.05);
    }
    assert!(theirs > 60 && theirs < 190, "{theirs}");
    assert!(ours.abs_diff(theirs) <= 12, "{ours} {theirs}");
}

#[test]
fn the_column_that_differs_is_named() {
    let mut s = Stream(3);
    let (x, z) = (s.normals(100, 5), s.normals(120, 5));
    let z =
        Table::from_rows(&rows(&z).iter().map(|r| [r[0], r[1], 2.0 * r[2], r[3], r[4]]).collect::<Vec<_>>())
            .unwrap();
    let result = TwoSampleTest::default().run(&x, &z).unwrap();
    let significance = result.attributions.unwrap().significance.unwrap();
    let named: Vec<usize> = (0..5).filter(|&j| significance.adjusted[j] <= 0.05).collect();
    assert_eq!(named, [2]);
    assert!(significance.bands[2][1] > significance.bands[2][0]);
}

/// X and Y depend on each other through Z alone.
#[test]
fn residuals_remove_dependence_through_a_covariate() {
    let mut s = Stream(8);
    let z = s.normals(200, 1);
    let noisy = |f: fn(f64) -> f64, s: &mut Stream| {
        Table::from_rows(&rows(&z).iter().map(|r| [f(r[0]) + 0.3 * s.normal()]).collect::<Vec<_>>()).unwrap()
    };
    let (x, y) = (noisy(f64::sin, &mut s), noisy(|v| v * v, &mut s));
    let test = IndependenceTest::default();
    let plain = test.run(&x, &y).unwrap().pvalue.unwrap();
    let conditional =
        test.run(&residuals(&x, &z).unwrap(), &residuals(&y, &z).unwrap()).unwrap().pvalue.unwrap();
    assert!(plain < 0.01 && conditional > 0.05, "{plain} {conditional}");
}

/// Each residual is that of a model fitted without its row, for one of the ridges.
#[test]
fn residuals_leave_one_out() {
    let mut s = Stream(4);
    let z = s.normals(25, 2);
    let x = Table::from_rows(
        &rows(&z).iter().map(|r| [r[0].sin() + r[1] + 0.3 * s.normal()]).collect::<Vec<_>>(),
    )
    .unwrap();
    let n = x.rows();
    let mean = x.column(0).iter().sum::<f64>() / n as f64;
    let scale = (x.column(0).iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
    let kernel = default_kernel(&z).unwrap();
    let left_out = |ridge: f64, i: usize| {
        let training: Vec<usize> = (0..n).filter(|&k| k != i).collect();
        let target = training.iter().map(|&k| (x.get(k, 0) - mean) / scale).collect();
        let mut estimator = KernelRidge::new(kernel.clone(), ridge);
        estimator.center = false;
        let model = estimator.fit(&z.select_rows(&training), &Matrix::column_vector(target)).unwrap().model;
        x.get(i, 0) - mean - scale * model.predict(&z.select_rows(&[i])).unwrap()[(0, 0)]
    };
    let actual = residuals(&x, &z).unwrap();
    let matches = |ridge: &f64| (0..n).all(|i| (actual.get(i, 0) - left_out(*ridge, i)).abs() < 1e-8);
    assert!(default_ridges().iter().any(matches));
}

#[test]
fn an_aggregated_test_finds_what_one_length_scale_misses() {
    let mut s = Stream(2);
    // The density oscillates fast: the median length scale is far too long.
    let z: Vec<[f64; 1]> = (0..400)
        .map(|_| {
            loop {
                let v = 6.0 * s.uniform();
                if s.uniform() < 0.5 * (1.0 + (12.0 * v).sin()) {
                    break [v];
                }
            }
        })
        .collect();
    let x: Vec<[f64; 1]> = (0..400).map(|_| [6.0 * s.uniform()]).collect();
    let (x, z) = (Table::from_rows(&x).unwrap(), Table::from_rows(&z).unwrap());
    let median = default_kernel(&x.stack(&z).unwrap()).unwrap();
    let p = |kernels| {
        TwoSampleTest { kernels, settings: published(499, 0), ..TwoSampleTest::default() }
            .run(&x, &z)
            .unwrap()
    };
    let (single, aggregated) =
        (p(vec![median.clone()]), p(length_scale_grid(&median, &[0.03, 0.1, 0.3, 1.0])));
    assert!(single.pvalue.unwrap() > 0.05 && aggregated.pvalue.unwrap() <= 0.01, "{single:?}");
    assert_eq!(aggregated.chosen, 0);
    assert_eq!(aggregated.statistic, aggregated.by_kernel[0].statistic);
}

/// The squared RKHS norm of the witness of one column is that column's biased MMD²; this is checked on a
/// finite sum.
#[test]
fn the_witness_is_a_difference_of_means() {
    let mut s = Stream(4);
    let (x, z) = (s.normals(30, 2), s.normals(20, 2));
    let kernel = Kernel::gaussian(&[0.7, 1.0]);
    let result = witness(&x, &z, Some(&kernel), "x0").unwrap();
    let mean = |t: &Table, point: f64| {
        t.column(0).iter().map(|v| (-(v - point).powi(2) / (2.0 * 0.49)).exp()).sum::<f64>() / t.rows() as f64
    };
    for (point, value) in result.grid.iter().zip(&result.values) {
        assert!((value - (mean(&x, *point) - mean(&z, *point))).abs() < 1e-14);
    }
    assert!(witness(&s.normals(1, 2), &z, Some(&kernel), "x0").is_err());
}

/// Intervals of witnesses of normal samples cover the closed form `ℓ (ℓ² + 1)^-½ exp(-(t - μ)²/(2 (ℓ² + 1)))`
/// of the mean of the kernel.
#[test]
fn the_witness_is_within_its_error() {
    let mut s = Stream(41);
    let length_scale = 0.7_f64;
    let variance = length_scale.powi(2) + 1.0;
    let mean =
        |t: f64, mu: f64| length_scale / variance.sqrt() * (-(t - mu).powi(2) / (2.0 * variance)).exp();
    for (n, m) in [(2, 2), (3, 40), (10, 10), (100, 50)] {
        let (mut covered, mut largest) = ([0; 101], 0.0_f64);
        for _ in 0..400 {
            let (x, z) = (s.normals(n, 1), s.normals(m, 1));
            let z: Vec<[f64; 1]> = z.column(0).iter().map(|v| [v + 1.0]).collect();
            let z = Table::from_rows(&z).unwrap();
            let result = witness(&x, &z, Some(&Kernel::gaussian(&[length_scale])), "x0").unwrap();
            for (k, point) in result.grid.iter().enumerate() {
                let error = (result.values[k] - (mean(*point, 0.0) - mean(*point, 1.0))).abs();
                covered[k] += usize::from(error <= 1.96 * result.std_error[k]);
                largest = largest.max(result.std_error[k]);
            }
        }
        // The grid depends on the samples: the middle point is between them, the first at the edge.
        assert!(covered.iter().all(|count| *count >= 376), "{n} {m}: {covered:?}");
        // The intervals are not too wide.
        assert!(n < 100 || largest < 0.12, "{largest}");
    }
}

#[test]
fn levels_of_either_sample_count() {
    let column = |levels: &[&str]| Column {
        name: "colour".into(),
        kind: ColumnKind::Categorical { levels: levels.iter().map(|l| (*l).to_string()).collect() },
    };
    let table = |levels: &[&str], codes: Vec<f64>| {
        Table::from_column_major(vec![column(levels)], codes.len(), codes).unwrap()
    };
    let x = table(&["red", "blue"], vec![0.0, 1.0, 0.0, 0.0]);
    let z = table(&["green", "red"], vec![0.0, 0.0, 1.0]);
    let test = TwoSampleTest {
        estimator: MmdEstimator::Biased,
        settings: published(0, 0),
        ..TwoSampleTest::default()
    };
    let result = test.run(&x, &z).unwrap();
    // Kernel ½ + ½ δ: half the squared distance of the frequencies (¾, ¼, 0) and (⅓, 0, ⅔).
    let truth = 0.5 * ((0.75_f64 - 1.0 / 3.0).powi(2) + 0.25_f64.powi(2) + (2.0_f64 / 3.0).powi(2));
    assert!((result.statistic - truth).abs() < 1e-14);
}

/// Unbiased estimates are 0 in every permutation if all rows but one are equal; the kernel is not at fault.
#[test]
fn a_single_odd_row_shows_nothing() {
    let (n, m) = (20, 15);
    let odd = |rows: usize, position: usize| {
        Table::from_rows(&(0..rows).map(|i| [f64::from(u8::from(i == position)), 0.0]).collect::<Vec<_>>())
            .unwrap()
    };
    let mut s = Stream(3);
    for settings in [settings(99, 0), published(99, 0)] {
        let two = TwoSampleTest { settings: settings.clone(), ..TwoSampleTest::default() };
        for position in [0, 1, 7] {
            assert_eq!(two.run(&odd(n, position), &odd(m, m)).unwrap().pvalue, Some(1.0));
            let independence_test = IndependenceTest {
                unbiased: true,
                settings: settings.clone(),
                ..IndependenceTest::default()
            };
            assert_eq!(independence_test.run(&odd(n, position), &s.normals(n, 1)).unwrap().pvalue, Some(1.0));
            let refused = independence_test.run(&s.normals(n, 1), &odd(n, position)).unwrap_err().to_string();
            assert!(refused.contains("the same in all rows but one"), "{refused}");
            IndependenceTest { settings: settings.clone(), ..IndependenceTest::default() }
                .run(&s.normals(n, 1), &odd(n, position))
                .unwrap();
        }
    }
}

#[test]
fn bad_input_is_named() {
    let mut s = Stream(0);
    let (x, single_row) = (s.normals(10, 2), s.normals(1, 2));
    let two = TwoSampleTest::default();
    assert!(matches!(two.run(&x, &single_row), Err(Error::TooFew { .. })));
    assert!(matches!(two.run(&single_row, &x), Err(Error::TooFew { .. })));
    assert!(matches!(two.run(&x, &s.normals(10, 1)), Err(Error::UnknownColumn { .. })));
    let block = TwoSampleTest { estimator: MmdEstimator::Block(1), ..TwoSampleTest::default() };
    assert!(matches!(block.run(&x, &x), Err(Error::Parameter { .. })));
    // All rows are equal, and the samples do not differ.
    let equal = Table::from_rows(&[[1.0, 2.0]; 5]).unwrap();
    let result = two.run(&equal, &equal).unwrap();
    assert!(result.statistic.abs() < 1e-15 && result.pvalue == Some(1.0));
    let excessive = TwoSampleTest { settings: settings(1_000_000, 0), ..TwoSampleTest::default() };
    assert!(matches!(excessive.run(&x, &x), Err(Error::Parameter { .. })));
    let stop = TwoSampleTest::default();
    stop.settings.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(stop.run(&x, &x), Err(Error::Interrupted));

    let joint: Kernel = Stationary {
        profile: Profile::Matern32,
        columns: vec![0, 1],
        length_scale: vec![1.0, 1.0],
        ard: false,
        isotropic: true,
    }
    .into();
    let tied = TwoSampleTest { kernels: vec![joint], ..TwoSampleTest::default() };
    assert!(matches!(tied.run(&x, &x), Err(Error::NotProduct { .. })));
    let settings = TestSettings { attribute: AttributionRequest::Nothing, ..TestSettings::default() };
    assert_eq!(TwoSampleTest { settings, ..tied }.run(&x, &x).unwrap().attributions, None);

    // A product of 600 linear factors of a million each is out of range.
    let wide = Table::from_rows(&vec![vec![1e3; 600]; 4]).unwrap();
    let linear = |j| Linear { columns: vec![j], center: vec![0.0], scale: vec![1.0] };
    let product = (0..600).map(|j| linear(j).into()).reduce(|a: Kernel, b: Kernel| a * b).unwrap();
    let overflows =
        TwoSampleTest { kernels: vec![product], settings: published(0, 0), ..TwoSampleTest::default() };
    assert!(matches!(overflows.run(&wide, &wide), Err(Error::Overflow { .. })));

    let depends = IndependenceTest::default();
    assert!(matches!(depends.run(&x, &single_row), Err(Error::Shape { .. })));
    assert!(matches!(depends.run(&equal, &equal), Err(Error::Target { .. })));
    let wild = |unbiased, rows| IndependenceTest {
        null: Null::WildBootstrap(rows),
        unbiased,
        ..IndependenceTest::default()
    };
    assert!(matches!(wild(true, 5.0).run(&x, &x), Err(Error::Parameter { .. })));
    assert!(matches!(wild(false, 0.0).run(&x, &x), Err(Error::Parameter { .. })));
}

/// The target y depends on x2 and on the product of x4 and x5.
fn relevant(n: usize, seed: u64) -> (Table, Table) {
    let mut s = Stream(seed);
    let x = s.normals(n, 8);
    let y: Vec<[f64; 1]> = rows(&x).iter().map(|r| [r[1].sin() + r[3] * r[4] + 0.1 * s.normal()]).collect();
    (x, Table::from_rows(&y).unwrap())
}

#[test]
fn every_method_finds_the_relevant_features() {
    let (x, y) = relevant(400, 1);
    for method in [Method::Shapley, Method::Backward, Method::Lasso] {
        let ranking = rank(&x, &y, method, FactorKind::Orthogonal, None, None, 3).unwrap();
        let mut best = ranking.order[..3].to_vec();
        best.sort_unstable();
        assert_eq!(best, [1, 3, 4], "{method:?} {ranking:?}");
        let mut sorted = ranking.order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..8).collect::<Vec<_>>());
    }
    assert!(matches!(
        rank(&x, &y, Method::Lasso, FactorKind::Orthogonal, Some(&Kernel::gaussian(&[1.0; 8])), None, 3),
        Err(Error::Parameter { .. })
    ));
}

/// Each elimination step against HSIC of the remaining columns, from its definition.
#[test]
fn backward_elimination_follows_its_definition() {
    let (x, y) = relevant(20, 3);
    let l = matrix(&rows(&y), &|u, v| default_kernel(&y).unwrap().eval(u, v));
    let mut left: Vec<usize> = (0..8).collect();
    let mut gone = Vec::new();
    let columns = |list: &[usize]| -> Table {
        x.align_to(&list.iter().map(|&j| x.columns()[j].clone()).collect::<Vec<_>>()).unwrap()
    };
    while left.len() > 1 {
        // The kernel of all remaining columns, without one factor.
        let remaining = columns(&left);
        let kernel = default_kernel(&remaining).unwrap();
        let parameters = kernel.terms[0].factors[0].parameters();
        let length_scale = parameters[0].log_value.exp();
        let sd = |j: usize| {
            let c = remaining.column(j);
            let mean = c.iter().sum::<f64>() / c.len() as f64;
            (c.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / c.len() as f64).sqrt()
        };
        let common = length_scale / sd(0);
        let hsic_without = |out: usize| {
            let k = matrix(&rows(&remaining), &|u, v| {
                (0..left.len())
                    .filter(|&j| j != out)
                    .map(|j| (-((u[j] - v[j]) / (common * sd(j))).powi(2) / 2.0).exp())
                    .product()
            });
            hsic_unbiased(&k, &l)
        };
        let values: Vec<f64> = (0..left.len()).map(hsic_without).collect();
        let worst = (0..left.len()).max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap();
        gone.push(left.remove(worst));
    }
    gone.push(left[0]);
    gone.reverse();
    assert_eq!(rank(&x, &y, Method::Backward, FactorKind::Orthogonal, None, None, 3).unwrap().order, gone);
}

/// The coefficients satisfy the optimality conditions of HSIC-Lasso, computed from whole gram matrices.
#[test]
fn the_lasso_is_optimal() {
    let (x, y) = relevant(60, 5);
    let centered = |table: &Table| -> Vec<f64> {
        let k = matrix(&rows(table), &|u, v| default_kernel(table).unwrap().eval(u, v));
        let n = k.len();
        let means: Vec<f64> = k.iter().map(|r| r.iter().sum::<f64>() / n as f64).collect();
        let mean = means.iter().sum::<f64>() / n as f64;
        let mut entries = Vec::new();
        for i in 0..n {
            entries.extend((0..n).map(|j| k[i][j] - means[i] - means[j] + mean));
        }
        let length = entries.iter().map(|v| v * v).sum::<f64>().sqrt();
        entries.iter().map(|v| v / length).collect()
    };
    let columns: Vec<Vec<f64>> =
        x.columns().iter().map(|c| centered(&x.align_to(std::slice::from_ref(c)).unwrap())).collect();
    let target = centered(&y);
    let ranking = rank(&x, &y, Method::Lasso, FactorKind::Orthogonal, None, None, 4).unwrap();
    let residual: Vec<f64> = (0..target.len())
        .map(|t| target[t] - columns.iter().zip(&ranking.scores).map(|(c, a)| a * c[t]).sum::<f64>())
        .collect();
    let gradient: Vec<f64> =
        columns.iter().map(|c| c.iter().zip(&residual).map(|(a, b)| a * b).sum::<f64>()).collect();
    let active: Vec<usize> = (0..8).filter(|&j| ranking.scores[j] > 0.0).collect();
    assert!(active.len() >= 4);
    let penalty = gradient[active[0]];
    for j in 0..8 {
        if ranking.scores[j] > 0.0 {
            assert!((gradient[j] - penalty).abs() < 1e-8, "{gradient:?}");
        } else {
            assert!(gradient[j] <= penalty + 1e-8, "{gradient:?}");
        }
    }
}
