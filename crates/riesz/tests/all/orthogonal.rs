//! Tests with orthogonal factors, against their definition and by simulation of their power and level.

use proptest::prelude::*;
use riesz::attribution::enumeration::shapley;
use riesz::discrepancy::{
    AttributionRequest, FactorKind, IndependenceTest, MmdEstimator, TestResult, TestSettings, TwoSampleTest,
};
use riesz::kernel::{Linear, Polynomial};
use riesz::{Error, Kernel, Players, Table};

use crate::common::{Stream, Terms};
use crate::discrepancy::{ESTIMATORS, RUNS, drawn, kernel, level, rows, settings, terms};

/// For each term its scale and, for each player, the centered kernel k̃ between all rows.
type Centered = Vec<(f64, Vec<Option<Vec<Vec<f64>>>>)>;

/// The smallest variance of a player's kernel over these rows, by which its rounding error is divided.
fn smallest_variance(points: &[Vec<f64>], terms: &Terms, players: &[Vec<usize>]) -> f64 {
    let n = points.len() as f64;
    let mut smallest = 1.0_f64;
    for (_, factors) in terms {
        for player in players {
            let kernels: Vec<&Kernel> =
                factors.iter().filter(|(j, _)| player.contains(j)).map(|(_, k)| k).collect();
            let k = |u: &[f64], v: &[f64]| -> f64 { kernels.iter().map(|f| f.eval(u, v)).product() };
            let diagonal: f64 = points.iter().map(|u| k(u, u)).sum::<f64>() / n;
            let mean: f64 = points
                .iter()
                .flat_map(|u| points.iter().map(move |v| (u, v)))
                .map(|(u, v)| k(u, v))
                .sum::<f64>()
                / (n * n);
            if diagonal - mean >= 1e-14 {
                smallest = smallest.min(diagonal - mean);
            }
        }
    }
    smallest
}

/// The kernels of the players, centered over all rows by the definition.
fn centered(points: &[Vec<f64>], terms: &Terms, players: &[Vec<usize>]) -> Centered {
    let n = points.len();
    let player_kernel = |factors: &[(usize, Kernel)], player: &[usize]| -> Option<Vec<Vec<f64>>> {
        let kernels: Vec<&Kernel> =
            factors.iter().filter(|(j, _)| player.contains(j)).map(|(_, k)| k).collect();
        if kernels.is_empty() {
            return None;
        }
        let k: Vec<Vec<f64>> = points
            .iter()
            .map(|u| points.iter().map(|v| kernels.iter().map(|f| f.eval(u, v)).product()).collect())
            .collect();
        let means: Vec<f64> = k.iter().map(|row| row.iter().sum::<f64>() / n as f64).collect();
        let mean = means.iter().sum::<f64>() / n as f64;
        let variance = (0..n).map(|i| k[i][i]).sum::<f64>() / n as f64 - mean;
        // A centred factor of a column that is constant over all rows (possible for few rows of levels) is 0.
        let variance = if variance < 1e-14 { f64::INFINITY } else { variance };
        Some(
            (0..n)
                .map(|i| (0..n).map(|j| (k[i][j] - means[i] - means[j] + mean) / variance).collect())
                .collect(),
        )
    };
    terms
        .iter()
        .map(|(scale, factors)| (*scale, players.iter().map(|p| player_kernel(factors, p)).collect()))
        .collect()
}

/// Returns sums over pairs of rows by order: of one player, of two players (those present), and of more
/// (all).
fn orders(
    centered: &Centered,
    w: &dyn Fn(usize, usize) -> f64,
    n: usize,
    present: &dyn Fn(usize) -> bool,
) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for (scale, players) in centered {
        let matrices: Vec<&Vec<Vec<f64>>> =
            players.iter().enumerate().filter(|(p, _)| present(*p)).filter_map(|(_, k)| k.as_ref()).collect();
        for i in 0..n {
            for j in 0..n {
                let f: Vec<f64> = matrices.iter().map(|k| k[i][j]).collect();
                let first_order: f64 = f.iter().sum();
                let mut two = 0.0;
                for a in 0..f.len() {
                    two += f[a + 1..].iter().map(|b| f[a] * b).sum::<f64>();
                }
                let full: f64 = f.iter().map(|v| 1.0 + v).product::<f64>() - 1.0;
                for (sum, v) in sums.iter_mut().zip([first_order, two, full - first_order - two]) {
                    *sum += scale * w(i, j) * v;
                }
            }
        }
    }
    sums
}

fn check(
    result: &TestResult,
    (centered, smallest_variance): (&Centered, f64),
    w: &dyn Fn(usize, usize) -> f64,
    n: usize,
) {
    let attributions = result.attributions.as_ref().unwrap();
    let (values, marginal) = (&attributions.explanation.values, attributions.marginal.as_ref().unwrap());
    let p = values.len();
    let close = |a: f64, b: f64, label: &str| {
        assert!((a - b).abs() < 1e-10 * (1.0 + b.abs()), "{label}: {a} {b}");
    };
    let [first_order, two, higher_order] = orders(centered, w, n, &|_| true);
    close(result.statistic, first_order + two, "statistic");
    match &attributions.higher_order {
        Some(remainder) => close(remainder.statistic, higher_order, "beyond"),
        None => assert!(p < 3),
    }
    let expected = shapley(p, |coalition| {
        let [first_order, two, _] = orders(centered, w, n, &|j| coalition[j]);
        first_order + two
    });
    let bound = attributions.explanation.certificate().unwrap();
    assert!(bound.holds, "{bound:?}");
    for j in 0..p {
        close(values[j], expected[j], "value");
        assert!((values[j] - expected[j]).abs() <= bound.bound + 1e-12);
        close(marginal.values[j], orders(centered, w, n, &|l| l == j)[0], "alone");
    }
    let interactions = attributions.interactions.as_ref().unwrap();
    for j in 0..p {
        for l in 0..p {
            let expected = match j == l {
                true => marginal.values[j],
                false => orders(centered, w, n, &|k| k == j || k == l)[1] / 2.0,
            };
            close(interactions.values[(j, l)], expected, "pair");
        }
    }
    // The bound of the pairs exceeds that of the values, from which the values of features alone are
    // computed.
    assert!(
        interactions.bound * smallest_variance < 1e-8 && (interactions.bound > bound.bound || p < 2),
        "{} {smallest_variance}",
        interactions.bound
    );
}

fn attribution_settings(groups: Option<Players>) -> TestSettings {
    TestSettings { groups, attribute: AttributionRequest::Values, interactions: true, ..settings(0, 0) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn two_samples_follow_the_definition(
        seed in any::<u64>(), d in 1..6_usize, n in 4..14_usize, m in 4..14_usize, count in 1..3_usize, which in 0..4_usize,
    ) {
        let (x, z, kernel_terms, groups, players) = drawn(seed, d, [n, m], count);
        let estimator = ESTIMATORS[which];
        let players: Vec<Vec<usize>> = players.players().iter().map(|p| p.columns.clone()).collect();
        let result = TwoSampleTest { kernels: vec![kernel(&kernel_terms)], estimator, settings: attribution_settings(groups) }.run(&x, &z).unwrap();
        // With blocks, only the rows in blocks are used for centring.
        let q = match estimator { MmdEstimator::Block(q) => q, _ => 1 };
        let blocks = n.min(m) / q;
        let (n, m) = if q > 1 { (q * blocks, q * blocks) } else { (n, m) };
        let pooled: Vec<Vec<f64>> = rows(&x)[..n].iter().chain(&rows(&z)[..m]).cloned().collect();
        let w = |i: usize, j: usize| {
            let (a, b) = (i < n, j < n);
            let biased = f64::from(u8::from(estimator == MmdEstimator::Biased));
            let pairs = |n: usize| n as f64 * (n as f64 - 1.0 + biased);
            let sign = if a == b { 1.0 } else { -1.0 };
            let (position, other) = (if a { i } else { i - n }, if b { j } else { j - n });
            match estimator {
                MmdEstimator::Block(q) if position / q != other / q || position == other => 0.0,
                MmdEstimator::Block(q) => sign / (blocks * q * (q - 1)) as f64,
                _ if a != b => -1.0 / (n * m) as f64,
                MmdEstimator::Unbiased if i == j => 0.0,
                _ => 1.0 / pairs(if a { n } else { m }),
            }
        };
        let variance = smallest_variance(&pooled, &kernel_terms, &players);
        check(&result, (&centered(&pooled, &kernel_terms, &players), variance), &w, n + m);
        if estimator == MmdEstimator::Biased {
            let attributions = result.attributions.unwrap();
            prop_assert!(attributions.explanation.values.iter().chain(&attributions.marginal.unwrap().values).all(|v| *v > -1e-10));
        }
    }

    #[test]
    fn dependence_follows_the_definition(
        seed in any::<u64>(), d in 1..6_usize, n in 5..16_usize, count in 1..3_usize,
    ) {
        let mut s = Stream(seed);
        let (x, y, kernel_terms, target) = (s.normals_and_levels(n, d), s.normals(n, 2), terms(count, d, &mut s), terms(2, 2, &mut s));
        let target = kernel(&target);
        let test = IndependenceTest {
            kernels: vec![kernel(&kernel_terms)], target_kernel: Some(target.clone()), settings: attribution_settings(None), ..IndependenceTest::default()
        };
        let l: Vec<Vec<f64>> = rows(&y).iter().map(|u| rows(&y).iter().map(|v| target.eval(u, v)).collect()).collect();
        let mean = |i: usize| l[i].iter().sum::<f64>() / n as f64;
        let grand_mean = (0..n).map(mean).sum::<f64>() / n as f64;
        let w = |i: usize, j: usize| (l[i][j] - mean(i) - mean(j) + grand_mean) / ((n - 1) * (n - 1)) as f64;
        let players: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).collect();
        let variance = smallest_variance(&rows(&x), &kernel_terms, &players);
        check(&test.run(&x, &y).unwrap(), (&centered(&rows(&x), &kernel_terms, &players), variance), &w, n);
    }
}

/// Returns the shares of p-values up to .05: by feature for values and for features alone, and for orders of
/// three or more.
fn power(
    runs: u64,
    d: usize,
    draw: impl Fn(&mut Stream) -> [Table; 2],
    kernels: &[Kernel],
    factors: FactorKind,
) -> (Vec<f64>, Vec<f64>, f64) {
    let (mut values, mut marginal, mut higher_order) = (vec![0.0; d], vec![0.0; d], 0.0);
    for seed in 0..runs {
        let mut s = Stream(seed);
        let [x, z] = draw(&mut s);
        let test = TwoSampleTest {
            kernels: kernels.to_vec(),
            settings: TestSettings { factors, ..settings(99, seed) },
            ..TwoSampleTest::default()
        };
        let attributions = test.run(&x, &z).unwrap().attributions.unwrap();
        let add = |out: &mut [f64], p: &[f64]| {
            out.iter_mut().zip(p).for_each(|(out, p)| *out += f64::from(u8::from(*p <= 0.05)) / runs as f64);
        };
        add(&mut values, &attributions.significance.unwrap().pvalues);
        if let Some(marginal_test) = attributions.marginal {
            add(&mut marginal, &marginal_test.pvalues.unwrap());
        }
        if let Some(order_test) = attributions.higher_order {
            add(std::slice::from_mut(&mut higher_order), &[order_test.pvalue.unwrap()]);
        }
    }
    (values, marginal, higher_order)
}

fn changed(s: &mut Stream, change: impl Fn(&mut [f64; 4])) -> Table {
    let rows: Vec<[f64; 4]> = (0..100)
        .map(|_| {
            let mut row = [(); 4].map(|()| s.normal());
            change(&mut row);
            row
        })
        .collect();
    Table::from_rows(&rows).unwrap()
}

/// Correlates two columns.
fn tie(row: &mut [f64; 4], j: usize, l: usize, correlation: f64) {
    row[l] = correlation * row[j] + (1.0 - correlation * correlation).sqrt() * row[l];
}

/// x0 differs strongly and x1 weakly. With the published factors and short length scales x1 is never found,
/// though its feature-alone test often finds it.
#[test]
fn a_strong_feature_does_not_hide_a_weak_one() {
    let draw = |s: &mut Stream| {
        [
            changed(s, |row| {
                row[0] += 2.5;
                row[1] += 0.5;
            }),
            changed(s, |_| ()),
        ]
    };
    let (values, marginal, _) = power(100, 4, draw, &[], FactorKind::Orthogonal);
    assert!(values[0] > 0.99 && values[1] > 0.6 && marginal[1] > 0.75, "{values:?} {marginal:?}");
    assert!(values[2] < 0.13 && values[3] < 0.13, "{values:?}");
    let short = [Kernel::gaussian(&[1.0; 4])];
    let (values, marginal, _) = power(40, 4, draw, &short, FactorKind::Orthogonal);
    assert!(values[1] > 0.4 && marginal[1] > 0.6, "{values:?} {marginal:?}");
    let (values, ..) = power(40, 4, draw, &short, FactorKind::Product);
    assert!(values[1] < 0.05, "{values:?}");
}

/// Samples that differ only in the dependence of two features: these two are found together, and no other
/// feature.
#[test]
fn a_difference_in_dependence_is_found() {
    let draw = |s: &mut Stream| [changed(s, |row| tie(row, 0, 1, 0.8)), changed(s, |_| ())];
    let (values, marginal, _) = power(100, 4, draw, &[], FactorKind::Orthogonal);
    assert!(values[0] > 0.75 && values[1] > 0.75, "{values:?}");
    assert!(
        values[2] < 0.13 && values[3] < 0.13 && marginal.iter().all(|p| *p < 0.13),
        "{values:?} {marginal:?}"
    );
}

/// Dependence that both samples share is not a difference, even if another feature differs.
#[test]
fn bystanders_are_not_named() {
    let draw = |s: &mut Stream| {
        [
            changed(s, |row| {
                row[0] += 2.5;
                tie(row, 2, 3, 0.9);
            }),
            changed(s, |row| tie(row, 2, 3, 0.9)),
        ]
    };
    let (values, ..) = power(100, 4, draw, &[], FactorKind::Orthogonal);
    assert!(values[0] > 0.99 && values[1..].iter().all(|p| *p < 0.13), "{values:?}");
}

/// The sign of one column is the product of the signs of two others: all margins and pairs have equal
/// distributions.
#[test]
fn higher_order_differences_are_one_number() {
    let parity = |row: &mut [f64; 4]| row[2] = row[2].abs() * (row[0] * row[1]).signum();
    let draw = |s: &mut Stream| [changed(s, parity), changed(s, |_| ())];
    let (values, _, higher_order) = power(60, 4, draw, &[], FactorKind::Orthogonal);
    assert!(higher_order > 0.8, "{higher_order}");
    assert!(values.iter().all(|p| *p < 0.2), "{values:?}");
}

/// Levels of the p-values of single features and of interactions of three or more under a true null
/// hypothesis.
#[test]
fn all_pvalues_keep_their_level() {
    let run = |seed: u64, which: usize| {
        let mut s = Stream(seed);
        let (x, z) = (s.normals(14, 3), s.normals(20, 3));
        let test = TwoSampleTest { settings: settings(99, seed), ..TwoSampleTest::default() };
        let attributions = test.run(&x, &z).unwrap().attributions.unwrap();
        match which {
            0 => attributions.marginal.unwrap().pvalues.unwrap()[1],
            _ => attributions.higher_order.unwrap().pvalue.unwrap(),
        }
    };
    level(RUNS, false, |seed| run(seed, 0));
    level(RUNS, false, |seed| run(seed, 1));
}

/// More rows are compared than are used for centring the factors.
#[test]
fn blocks_keep_their_level() {
    level(500, false, |seed| {
        let mut s = Stream(seed);
        let (x, z) = (s.normals(1100, 2), s.normals(1100, 2));
        let settings = TestSettings { attribute: AttributionRequest::Nothing, ..settings(99, seed) };
        let test = TwoSampleTest { estimator: MmdEstimator::LINEAR, settings, ..TwoSampleTest::default() };
        test.run(&x, &z).unwrap().pvalue.unwrap()
    });
}

/// A constant column, one group of all columns, kernels without factors, many columns.
#[test]
fn degenerate_columns_groups_and_kernels() {
    let mut s = Stream(3);
    let with = |c: f64, s: &mut Stream| {
        Table::from_rows(&(0..30).map(|_| [s.normal(), c]).collect::<Vec<_>>()).unwrap()
    };
    let (x, z) = (with(3.0, &mut s), with(3.0, &mut s));
    let result = TwoSampleTest { settings: settings(99, 0), ..TwoSampleTest::default() }.run(&x, &z).unwrap();
    let attributions = result.attributions.unwrap();
    assert_eq!(
        (attributions.explanation.values[1], attributions.significance.unwrap().pvalues[1]),
        (0.0, 1.0)
    );
    assert_eq!(attributions.higher_order, None);

    // Two columns in one polynomial: a single factor if both columns are one player. Without attributions the
    // kernel is not split.
    let (center, scale) = (vec![0.0; 2], vec![1.0; 2]);
    let joint: Kernel =
        Polynomial { columns: vec![0, 1], center, scale, gamma: 1.0, coef0: 1.0, degree: 2 }.into();
    let test =
        |settings| TwoSampleTest { kernels: vec![joint.clone()], settings, ..TwoSampleTest::default() };
    assert!(matches!(test(settings(99, 0)).run(&x, &z), Err(Error::NotProduct { .. })));
    let groups = Some(Players::named(x.columns(), &[("both", vec!["x0", "x1"])]).unwrap());
    let grouped = test(TestSettings { groups, ..settings(99, 0) }).run(&x, &z).unwrap();
    let plain =
        test(TestSettings { attribute: AttributionRequest::Nothing, ..settings(99, 0) }).run(&x, &z).unwrap();
    assert_eq!(grouped.pvalue, plain.pvalue);

    // The joint statistic of many columns overflows, and is not reported.
    let (x, z) = (s.normals(6, 3000), s.normals(6, 3000));
    let estimator = MmdEstimator::Biased;
    let wide = TwoSampleTest { estimator, settings: settings(9, 0), ..TwoSampleTest::default() };
    let result = wide.run(&x, &z).unwrap();
    assert!(result.statistic.is_finite() && result.attributions.unwrap().higher_order.is_none());
}

/// An offset of a million does not reduce the power of a centered factor.
#[test]
fn offsets_do_not_take_the_power() {
    let mut s = Stream(1);
    let mut with = |shift: f64| {
        Table::from_rows(&(0..60).map(|_| [s.normal() + shift, s.normal()]).collect::<Vec<_>>()).unwrap()
    };
    let (x, z) = (with(1e6), with(1e6 + 1.0));
    let linear = Linear { columns: vec![0, 1], center: vec![0.0; 2], scale: vec![1.0; 2] };
    for factors in [FactorKind::Orthogonal, FactorKind::Product] {
        let settings = TestSettings { factors, ..settings(199, 0) };
        let test =
            TwoSampleTest { kernels: vec![linear.clone().into()], settings, ..TwoSampleTest::default() };
        assert_eq!(test.run(&x, &z).unwrap().pvalue, Some(0.005), "{factors:?}");
    }
}

/// Checks that the number of p-values up to .01 under true null hypotheses is at most three binomial standard
/// deviations above its mean.
fn rarely(runs: u64, run: impl Fn(u64) -> f64) {
    let rejected = (0..runs).filter(|&seed| run(seed) <= 0.01).count() as f64;
    let limit = 0.01 * runs as f64 + 3.0 * (0.01 * 0.99 * runs as f64).sqrt();
    assert!(rejected <= limit, "{rejected} of {runs}");
}

/// Samples of very different sizes, in which most relabellings tie: weights of few rows must not be computed
/// as differences of weights of many rows.
#[test]
fn a_sample_of_two_among_hundreds() {
    let coin = |n: usize, s: &mut Stream| {
        Table::from_rows(&(0..n).map(|_| [f64::from(u8::from(s.uniform() < 0.5))]).collect::<Vec<_>>())
            .unwrap()
    };
    let equal = Kernel::gaussian(&[1.0]);
    for (n, m) in [(600, 2), (2, 600), (3000, 2)] {
        for factors in [FactorKind::Orthogonal, FactorKind::Product] {
            rarely(if n > 2000 { 4 } else { 200 }, |seed| {
                let mut s = Stream(seed);
                let (x, z) = (coin(n, &mut s), coin(m, &mut s));
                let settings = TestSettings { factors, ..settings(99, seed) };
                let test =
                    TwoSampleTest { kernels: vec![equal.clone()], settings, ..TwoSampleTest::default() };
                let result = test.run(&x, &z).unwrap();
                if factors == FactorKind::Product {
                    // In integers: pairs of ones among all pairs.
                    let n_ones = |t: &Table| t.column(0).iter().sum::<f64>();
                    let (a, b) = (n_ones(&x), n_ones(&z));
                    let (n, m) = (n as f64, m as f64);
                    let pairs = a * (a - 1.0) / (n * (n - 1.0)) + b * (b - 1.0) / (m * (m - 1.0))
                        - 2.0 * a * b / (n * m);
                    let truth = 2.0 * pairs * (1.0 - (-0.5_f64).exp());
                    let bound =
                        result.attributions.as_ref().unwrap().explanation.certificate().unwrap().bound;
                    assert!(
                        (result.statistic - truth).abs() <= bound,
                        "{} {truth} {bound}",
                        result.statistic
                    );
                }
                result.pvalue.unwrap()
            });
        }
    }
}

/// Ten splits of six rows, and kernels that are nearly constant: tied sums differ by rounding.
#[test]
fn an_aggregated_test_of_six_rows_keeps_its_level() {
    let kernels: Vec<Kernel> = [3e3, 1e4].iter().map(|l| Kernel::gaussian(&[*l])).collect();
    for factors in [FactorKind::Orthogonal, FactorKind::Product] {
        rarely(1000, |seed| {
            let mut s = Stream(seed);
            let (x, z) = (s.normals(3, 1), s.normals(3, 1));
            let settings = TestSettings { factors, ..settings(199, seed) };
            TwoSampleTest { kernels: kernels.clone(), settings, ..TwoSampleTest::default() }
                .run(&x, &z)
                .unwrap()
                .pvalue
                .unwrap()
        });
    }
}

/// The bound covers rounding errors in the centring of HSIC weights, against centring without cancellation.
#[test]
fn the_bound_covers_rounding_of_centring() {
    for seed in 0..50 {
        let mut s = Stream(seed);
        let (n, wide) = (8, 10_f64.powf(1.0 + 4.0 * s.uniform()));
        let (x, y) = (s.normals(n, 2), s.normals(n, 1));
        // exp(-r²/2ℓ²) - 1, centered like the kernel.
        let l: Vec<Vec<f64>> = (0..n)
            .map(|i| (0..n).map(|j| (-((y.get(i, 0) - y.get(j, 0)) / wide).powi(2) / 2.0).exp_m1()).collect())
            .collect();
        let mean = |i: usize| l[i].iter().sum::<f64>() / n as f64;
        let grand_mean = (0..n).map(mean).sum::<f64>() / n as f64;
        let kernel = Kernel::gaussian(&[1.0, 1.0]);
        let mut truth = 0.0;
        for i in 0..n {
            for j in 0..n {
                let w = (l[i][j] - mean(i) - mean(j) + grand_mean) / ((n - 1) * (n - 1)) as f64;
                truth += w * kernel.eval(&x.row(i), &x.row(j));
            }
        }
        let test = IndependenceTest {
            kernels: vec![kernel],
            target_kernel: Some(Kernel::gaussian(&[wide])),
            settings: TestSettings { factors: FactorKind::Product, ..settings(0, 0) },
            ..IndependenceTest::default()
        };
        let result = test.run(&x, &y).unwrap();
        let bound = result.attributions.unwrap().explanation.certificate().unwrap().bound;
        assert!((result.statistic - truth).abs() <= bound, "{wide}: {} {truth} {bound}", result.statistic);
        assert!(bound < 1e-12);
    }
}

/// A kernel that is constant on all rows is refused rather than given p = 1.
#[test]
fn kernels_that_are_lost_in_rounding_are_refused() {
    let mut s = Stream(1);
    let (x, z) = (s.normals(20, 2), s.normals(20, 2));
    let test = |factors| TwoSampleTest {
        kernels: vec![Kernel::gaussian(&[1e12, 1e12])],
        settings: TestSettings { factors, ..settings(99, 0) },
        ..TwoSampleTest::default()
    };
    for factors in [FactorKind::Orthogonal, FactorKind::Product] {
        assert!(matches!(test(factors).run(&x, &z), Err(Error::Parameter { .. })), "{factors:?}");
    }
}
