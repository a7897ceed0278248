//! Every draw of a null distribution equals the same statistic computed directly from its weights, pair by
//! pair.

use std::sync::atomic::AtomicBool;

use super::hsic::{CenteredKernel, WildBootstrapNull};
use super::kernels::FactorKind;
use super::mmd::{SampleLabels, row_arrangement};
use super::pair_sums::{ChannelSums, MmdEstimator, NullDraws, PairWeights, SamplePairs};
use crate::attribution::rule::InclusionMeasure;
use crate::control::{Progress, RunControl};
use crate::kernel::{ColumnScaling, Kernel, KernelExpression};
use crate::random::{Random, RngExt, SeedableRng, StandardNormal};
use crate::table::{Players, Table};

const D: usize = 3;

fn sample(n: usize, seed: u64) -> Table {
    let mut random = Random::seed_from_u64(seed);
    let rows: Vec<[f64; D]> = (0..n).map(|_| [(); D].map(|()| random.sample(StandardNormal))).collect();
    Table::from_rows(&rows).unwrap()
}

/// Compares all draws of the statistic with `Σ_ij W_ij v_ij`, where v is the kernel, and the sum of the
/// players' values with the same sum for `k(x_i, x_j) - 1`.
fn compare(
    table: &Table,
    estimator: MmdEstimator,
    draws: &dyn NullDraws,
    sums: &ChannelSums,
    w: impl Fn(usize, usize, usize) -> f64,
) {
    let n = table.rows();
    let kernel = Kernel::gaussian(&[1.0; D]);
    for b in 0..draws.count() {
        let (mut statistic, mut total) = (0.0, 0.0);
        for i in 0..n {
            for j in 0..n {
                if i == j && estimator != MmdEstimator::Biased {
                    continue;
                }
                statistic += w(b, i, j) * kernel.eval(&table.row(i), &table.row(j));
                total += w(b, i, j);
            }
        }
        let statistic_of_draw = sums.draws(0)[b];
        assert!((statistic_of_draw - statistic).abs() < 1e-12, "draw {b}: {statistic_of_draw} {statistic}");
        let values: f64 = (1..=D).map(|p| sums.draws(p)[b]).sum();
        assert!((values - (statistic - total)).abs() < 1e-12, "draw {b}: {values} {statistic} {total}");
    }
}

fn sums(
    table: &Table,
    kernel: &Kernel,
    estimator: MmdEstimator,
    weights: &dyn PairWeights,
    draws: &dyn NullDraws,
) -> ChannelSums {
    let groups = Players::singletons(table.columns());
    let pairs = SamplePairs::new(
        table,
        kernel,
        Some(&groups),
        InclusionMeasure::default(),
        estimator,
        FactorKind::Product,
    )
    .unwrap();
    let control = RunControl { stop: &AtomicBool::new(false), progress: &Progress::default() };
    pairs.sum(weights, Some(draws), D + 1, control).unwrap()
}

/// Returns the weights of all pairs, row by row with padding.
fn rows_of_weights(weights: &dyn PairWeights, n: usize) -> Vec<Vec<f64>> {
    let row = |i| {
        let mut row = vec![0.0; n.next_multiple_of(8)];
        weights.row(i, &(0..row.len()), &mut row);
        row
    };
    (0..n).map(row).collect()
}

#[test]
fn relabelled_statistics_equal_direct_sums() {
    let kernel = Kernel::gaussian(&[1.0; D]);
    let (n, m) = (70, 83);
    for estimator in [MmdEstimator::Unbiased, MmdEstimator::Biased, MmdEstimator::Block(7)] {
        let table = sample(n + m, 1).select_rows(&row_arrangement(estimator, n, m));
        let labels = SampleLabels::new(estimator, n, m);
        let draws = labels.permutations(table.rows(), 5, 3);
        let computed = sums(&table, &kernel, labels.estimator, &labels, &draws);
        let label_draws = draws.prepare(&(0..table.rows().next_multiple_of(8)));
        let label = |b: usize, i: usize| label_draws[b * table.rows().next_multiple_of(8) + i];
        compare(&table, labels.estimator, &draws, &computed, |b, i, j| {
            let (label_i, label_j) = (label(b, i), label(b, j));
            let biased = f64::from(u8::from(estimator == MmdEstimator::Biased));
            let pairs = |n: usize| n as f64 * (n as f64 - 1.0 + biased);
            match estimator {
                MmdEstimator::Block(q) if i / (2 * q) != j / (2 * q) || i % q == j % q => 0.0,
                MmdEstimator::Block(q) => label_i * label_j / ((n.min(m) / q) * q * (q - 1)) as f64,
                _ if label_i != label_j => -1.0 / (n * m) as f64,
                _ if label_i == 1.0 => 1.0 / pairs(n),
                _ => 1.0 / pairs(m),
            }
        });
        // A relabelling keeps the sizes of the samples.
        let size: f64 = (0..table.rows()).map(|i| label(2, i)).sum();
        let expected = if let MmdEstimator::Block(_) = estimator { 0.0 } else { n as f64 };
        assert_eq!(size, expected);
    }
}

/// Weights are the same with and without a cache.
#[test]
fn permuted_statistics_equal_direct_sums() {
    let (kernel, n) = (Kernel::gaussian(&[1.0; D]), 150);
    let (x, y) = (sample(n, 2), sample(n, 3));
    for (unbiased, cache) in [(false, true), (false, false), (true, true), (true, false)] {
        let centered = CenteredKernel::new(&y, &kernel, unbiased, cache);
        let draws = centered.permuted(37, 4);
        let computed = sums(&x, &kernel, centered.estimator(), &centered, &draws);
        let orders: Vec<Vec<usize>> =
            (0..37).map(|b| draws.order(b)[..n].iter().map(|&i| i as usize).collect()).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..n).collect::<Vec<_>>());
        }
        let weights = rows_of_weights(&centered, n);
        compare(&x, centered.estimator(), &draws, &computed, |b, i, j| weights[orders[b][i]][orders[b][j]]);
    }
}

/// The reference is `(H (E ∘ W) H)_ij`, computed entry by entry.
#[test]
fn wild_bootstrap_statistics_equal_direct_sums() {
    let (kernel, n) = (Kernel::gaussian(&[1.0; D]), 140);
    let (x, y) = (sample(n, 2), sample(n, 3));
    let centered = CenteredKernel::new(&y, &kernel, false, true);
    let draws = WildBootstrapNull::new(&centered, 4, 3.0, 5);
    let computed = sums(&x, &kernel, centered.estimator(), &centered, &draws);
    let process = draws.process();
    let weights = rows_of_weights(&centered, n);
    let weighted: Vec<Vec<Vec<f64>>> = process
        .iter()
        .map(|e| {
            let mut rows: Vec<Vec<f64>> =
                (0..n).map(|i| (0..n).map(|j| weights[i][j] * e[i] * e[j]).collect()).collect();
            let means: Vec<f64> = rows.iter().map(|r| r.iter().sum::<f64>() / n as f64).collect();
            let mean = means.iter().sum::<f64>() / n as f64;
            for i in 0..n {
                for j in 0..n {
                    rows[i][j] += mean - means[i] - means[j];
                }
            }
            rows
        })
        .collect();
    compare(&x, centered.estimator(), &draws, &computed, |b, i, j| weighted[b][i][j]);
    // The process has mean 0, variance 1 and correlation exp(-1/3) between adjacent rows.
    let values = WildBootstrapNull::new(&centered, 200, 3.0, 6).process().concat();
    let product =
        |lag: usize| values.iter().zip(&values[lag..]).map(|(a, b)| a * b).sum::<f64>() / values.len() as f64;
    assert!((product(0) - 1.0).abs() < 0.05 && (product(1) - (-1.0_f64 / 3.0).exp()).abs() < 0.05);
}

/// Without draws of the players' values, the sums of weighted pairs are those of each pair's channels.
#[test]
fn values_without_draws_equal_sums_of_channels() {
    let (n, control) = (90, RunControl { stop: &AtomicBool::new(false), progress: &Progress::default() });
    let (x, y) = (sample(n, 2), sample(n, 3));
    let groups = Players::singletons(x.columns());
    for kernel in ["rbf(length_scale=1.3)", "rbf(length_scale=2) * linear"] {
        let kernel = KernelExpression::parse(kernel).unwrap().resolve(&x, &ColumnScaling::raw(D)).unwrap();
        let labels = SampleLabels::new(MmdEstimator::Biased, 40, 50);
        let target = Kernel::gaussian(&[1.0; D]);
        let centered = CenteredKernel::new(&y, &target, false, true);
        for (weights, estimator) in
            [(&labels as &dyn PairWeights, labels.estimator), (&centered, centered.estimator())]
        {
            let pairs = |kernel| {
                SamplePairs::new(
                    &x,
                    kernel,
                    Some(&groups),
                    InclusionMeasure::default(),
                    estimator,
                    FactorKind::Product,
                )
                .unwrap()
            };
            let draws = labels.permutations(n, 3, 3);
            let by_channel = pairs(&kernel).sum(weights, Some(&draws), D + 1, control).unwrap();
            for draws in [None, Some(&draws as &dyn NullDraws)] {
                let sums = pairs(&kernel).sum(weights, draws, 1, control).unwrap();
                for (a, b) in sums.observed.iter().zip(&by_channel.observed) {
                    assert!((a - b).abs() <= sums.bound + by_channel.bound, "{a} {b}");
                }
                assert!(sums.bound < 1e-11 && sums.bound < 10.0 * by_channel.bound, "{}", sums.bound);
                assert_eq!((sums.observed.len(), sums.draws(0).len()), (D + 1, draws.map_or(0, |_| 3)));
                assert_eq!(sums.draws(0), by_channel.draws(0)[..sums.draws(0).len()]);
            }
        }
    }
}
