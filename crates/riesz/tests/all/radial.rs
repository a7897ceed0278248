//! Radial kernels over columns of several players, whose values are computed from sums of Gaussians, against
//! predictions with the kernels themselves for all coalitions.

use proptest::prelude::*;
use riesz::attribution::enumeration::shapley;
use riesz::discrepancy::{AttributionRequest, FactorKind, IndependenceTest, MmdEstimator, TestSettings};
use riesz::discrepancy::{TestResult, TwoSampleTest};
use riesz::fit::{GaussianProcess, KernelRidge};
use riesz::global::Sensitivity;
use riesz::kernel::{Categorical, Linear, Profile, Stationary};
use riesz::linalg::Sparse;
use riesz::{
    Background, Exactness, Explainer, Game, Kernel, KernelExpansion, Matrix, Players, Table, ValueIndex,
};

use crate::common::Stream;
use crate::covariance::{close, sums};
use crate::discrepancy::{hsic_biased, matrix, mmd, rows, settings};
use crate::interactions::moebius;
use crate::powers::{Case, check, indices};

fn profiles() -> Vec<Profile> {
    vec![
        Profile::Matern52,
        Profile::Matern32,
        Profile::Exponential,
        Profile::RationalQuadratic { alpha: 1.0 },
        Profile::RationalQuadratic { alpha: 0.3 },
        Profile::RationalQuadratic { alpha: 1e5 },
        Profile::Cauchy,
        Profile::InverseMultiquadric,
        Profile::Matern { nu: 0.9 },
        Profile::Matern { nu: 4.0 },
    ]
}

fn radial(profile: Profile, columns: Vec<usize>, s: &mut Stream) -> Kernel {
    let length_scale = columns.iter().map(|_| 1.0 + s.uniform()).collect();
    Stationary { profile, columns, length_scale, ard: true, isotropic: true }.into()
}

/// A model of a radial kernel of `d` columns; for some seeds with other factors and terms.
fn case(d: usize, profile: Profile, outputs: usize, seed: u64) -> Case {
    let mut s = Stream(seed);
    let mut kernel = 0.7 * radial(profile, (0..d).collect(), &mut s);
    if seed.is_multiple_of(3) {
        kernel = kernel * Kernel::gaussian(&vec![1.7; d])
            + 0.4 * radial(Profile::RationalQuadratic { alpha: 2.0 }, vec![d - 1, 0], &mut s);
    }
    if seed % 5 == 1 {
        kernel = kernel + Kernel::from(Linear { columns: vec![1], center: vec![0.1], scale: vec![1.4] });
    }
    let n = 9;
    let coef = Matrix::from_row_major(n, outputs, (0..n * outputs).map(|_| s.signed()).collect());
    let intercept = (0..outputs).map(|o| o as f64 - 0.5).collect();
    let points = s.normals(n, d);
    let model = KernelExpansion::new(kernel, points, coef, intercept).unwrap();
    let background = Background { rows: s.normals(3, d), weights: Some(vec![0.5, 1.0, 0.25]) };
    Case { model, rows: s.normals(2, d), background }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn values_are_those_of_the_kernel_itself(
        d in 2..6_usize,
        profile in prop::sample::select(profiles()),
        outputs in 1..3_usize,
        seed: u64,
        index in prop::sample::select(indices()),
    ) {
        let players: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).collect();
        let tight = if index == ValueIndex::Shapley { 1e-8 } else { f64::INFINITY };
        check(&case(d, profile, outputs, seed), index, None, &players, tight);
    }

    #[test]
    fn groups_are_players(
        profile in prop::sample::select(profiles()), seed: u64, index in prop::sample::select(indices()),
    ) {
        let case = case(5, profile, 1, seed);
        let names: Vec<String> = case.model.columns().iter().map(|c| c.name.clone()).collect();
        let pair = ("both".to_string(), vec![names[1].clone(), names[4].clone()]);
        let groups = Players::named(case.model.columns(), &[pair]).unwrap();
        let players: Vec<Vec<usize>> = groups.players().iter().map(|p| p.columns.clone()).collect();
        check(&case, index, Some(groups), &players, f64::INFINITY);
    }
}

fn bound_of(exactness: &Exactness) -> &[f64] {
    let Exactness::Exact { bound } = exactness else { panic!("not exact") };
    bound
}

/// In the functional game an absent column leaves the distance: the kernel is the same function of fewer
/// columns.
#[test]
fn functional_values_are_those_of_distances_over_present_columns() {
    for (seed, profile) in profiles().into_iter().enumerate() {
        let (d, n, mut s) = (5, 12, Stream(seed as u64 + 40));
        let length_scale: Vec<f64> = (0..d).map(|_| 0.7 + s.uniform()).collect();
        let over = |columns: Vec<usize>| -> Kernel {
            let length_scale = columns.iter().map(|&j| length_scale[j]).collect();
            Stationary { profile, columns, length_scale, ard: true, isotropic: true }.into()
        };
        let coef: Vec<f64> = (0..n).map(|_| s.signed()).collect();
        let (points, x) = (s.normals(n, d), s.normals(1, d).row(0));
        let model = KernelExpansion::new(
            over((0..d).collect()),
            points.clone(),
            Matrix::column_vector(coef.clone()),
            vec![0.2],
        )
        .unwrap();
        let explanation = Explainer::functional(&model)
            .unwrap()
            .explain(&Table::from_rows(std::slice::from_ref(&x)).unwrap())
            .unwrap();
        let value = |present: &[bool]| -> f64 {
            let columns: Vec<usize> = (0..d).filter(|&j| present[j]).collect();
            let kernel = if columns.is_empty() { Kernel::constant(1.0) } else { over(columns) };
            (0..n).map(|i| coef[i] * kernel.eval(&points.row(i), &x)).sum()
        };
        let dividends = moebius(d, value);
        let bound = bound_of(&explanation.exactness)[0];
        assert!(bound < 1e-8);
        for (j, actual) in explanation.row_values(0, 0).iter().enumerate() {
            let truth: f64 = (0..dividends.len())
                .filter(|mask| mask >> j & 1 == 1)
                .map(|mask| dividends[mask] / f64::from(mask.count_ones()))
                .sum();
            assert!((actual - truth).abs() <= bound + 1e-13, "{profile:?} {j}: {actual} {truth} {bound}");
        }
    }
}

/// Products of a radial factor with a categorical one, and of two radial factors with common columns.
#[test]
fn radial_factors_multiply_other_factors() {
    let mut s = Stream(11);
    let category = Kernel::from(Categorical { columns: [3], similarity: 0.3 });
    let kernel = radial(Profile::Matern52, vec![0, 1], &mut s)
        * radial(Profile::Cauchy, vec![1, 2], &mut s)
        * category
        + 0.2 * radial(Profile::Matern32, vec![0, 2], &mut s);
    let n = 8;
    let coef = Matrix::column_vector((0..n).map(|_| s.signed()).collect());
    let points = s.normals_and_levels(n, 4);
    let model = KernelExpansion::new(kernel, points, coef, vec![0.0]).unwrap();
    let background = Background { rows: s.normals_and_levels(3, 4), weights: Some(vec![0.5, 1.0, 0.25]) };
    let case = Case { model, rows: s.normals_and_levels(2, 4), background };
    let players: Vec<Vec<usize>> = (0..4).map(|j| vec![j]).collect();
    for index in [ValueIndex::Shapley, "k-sii".parse().unwrap()] {
        check(&case, index, None, &players, f64::INFINITY);
    }
}

/// Rows beyond the range of the approximation have a wider bound, which holds.
#[test]
fn bounds_hold_for_rows_far_away() {
    for profile in [Profile::Cauchy, Profile::RationalQuadratic { alpha: 0.5 }, Profile::Matern32] {
        let case = case(3, profile, 1, 4);
        let far = Table::from_rows(&[vec![400.0, -3.0, 1e3], vec![1e5, 2e5, 0.0]]).unwrap();
        let explanation =
            Explainer::interventional(&case.model, &case.background.rows).unwrap().explain(&far).unwrap();
        assert!(explanation.certificate().unwrap().holds);
        for i in 0..2 {
            let x = far.row(i);
            let value = |present: &[bool]| -> f64 {
                let mixed = |b: usize| -> Vec<f64> {
                    (0..3).map(|j| if present[j] { x[j] } else { case.background.rows.get(b, j) }).collect()
                };
                let rows: Vec<Vec<f64>> = (0..3).map(mixed).collect();
                case.model.predict(&Table::from_rows(&rows).unwrap()).unwrap().data().iter().sum::<f64>()
                    / 3.0
            };
            let dividends = moebius(3, value);
            for j in 0..3 {
                let masks = (0..8_usize).filter(|mask| mask >> j & 1 == 1);
                let truth: f64 = masks.map(|mask| dividends[mask] / f64::from(mask.count_ones())).sum();
                let bound = bound_of(&explanation.exactness)[i];
                let gap = (explanation.row_values(i, 0)[j] - truth).abs();
                assert!(gap <= bound + 1e-13, "{profile:?} {i} {j}: {gap} {bound}");
            }
        }
    }
}

/// Values of the background's own kind: a machine whose coefficients are large and cancel, as those of nearly
/// interpolating fits do.
#[test]
fn bounds_hold_for_large_coefficients() {
    for profile in profiles() {
        let mut s = Stream(77);
        let (n, d) = (14, 4);
        let points = s.normals(n, d);
        let targets = Matrix::column_vector((0..n).map(|_| s.signed()).collect());
        let kernel = radial(profile, (0..d).collect(), &mut s);
        let fit = KernelRidge::new(kernel, 1e-6).fit(&points, &targets).unwrap();
        let background = Background { rows: s.normals(3, d), weights: Some(vec![0.5, 1.0, 0.25]) };
        let case = Case { model: fit.model, rows: s.normals(2, d), background };
        let players: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).collect();
        check(&case, ValueIndex::Shapley, None, &players, f64::INFINITY);
    }
}

/// Covariances of values under a process with a radial kernel, against those of sums of outputs.
#[test]
fn covariances_are_those_of_sums_of_outputs() {
    for profile in [Profile::Matern52, Profile::Matern32, Profile::RationalQuadratic { alpha: 0.7 }] {
        let (mut s, n, d) = (Stream(21), 10, 3);
        let points = s.normals(n, d);
        let targets = Matrix::column_vector((0..n).map(|_| s.signed()).collect());
        let kernel = radial(profile, (0..d).collect(), &mut s);
        let fit = GaussianProcess::new(kernel, 0.1).fit(&points, &targets).unwrap();
        let (background, rows) = (s.normals(3, d), s.normals(2, d));
        let background = Background { rows: background, weights: Some(vec![0.5, 1.0, 0.25]) };
        let game = Game::Interventional { background };
        let players: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).collect();
        let functionals =
            Explainer::new(&fit.model, game.clone()).unwrap().posterior_functionals(&rows).unwrap();
        let posterior = fit.posterior();
        let (mixtures, weights) = sums(&game, ValueIndex::Shapley, &rows, &players);
        let sparse = Sparse::from_columns(mixtures.len(), weights).unwrap();
        let truth =
            posterior.weighted_sum_functionals(&Table::from_rows(&mixtures).unwrap(), &sparse).unwrap();
        close(&functionals.prior_covariance, &truth.prior_covariance, "prior");
        close(&functionals.columns, &truth.columns, "columns");
        for (a, b) in posterior.covariance(&functionals).iter().zip(posterior.covariance(&truth)) {
            close(a, &b, "posterior");
        }
    }
}

/// Sobol indices, against variances of conditional means over all combinations of the inputs' values.
#[test]
fn sobol_indices_are_those_of_the_kernel_itself() {
    for profile in [Profile::Matern52, Profile::Cauchy] {
        let case = case(3, profile, 1, 8);
        let inputs = case.background.rows.clone();
        let result = Sensitivity::default().run(&case.model, &Background::from(inputs.clone())).unwrap();
        let row = |cells: [usize; 3]| (0..3).map(|j| inputs.get(cells[j], j)).collect::<Vec<f64>>();
        let grid: Vec<[usize; 3]> = (0..27).map(|k| [k % 3, k / 3 % 3, k / 9]).collect();
        let table = Table::from_rows(&grid.iter().map(|cells| row(*cells)).collect::<Vec<_>>()).unwrap();
        let outputs = case.model.predict(&table).unwrap().column(0);
        let variance_of = |present: &[bool]| -> f64 {
            let key = |cells: &[usize; 3]| -> Vec<usize> {
                (0..3).map(|j| if present[j] { cells[j] } else { 0 }).collect()
            };
            let mean_of = |cells: &[usize; 3]| -> f64 {
                let matching: Vec<f64> = grid
                    .iter()
                    .zip(&outputs)
                    .filter(|(c, _)| key(c) == key(cells))
                    .map(|(_, f)| *f)
                    .collect();
                matching.iter().sum::<f64>() / matching.len() as f64
            };
            let means: Vec<f64> = grid.iter().map(mean_of).collect();
            let mean = means.iter().sum::<f64>() / 27.0;
            means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / 27.0
        };
        let dividends = moebius(3, variance_of);
        let bound = result.bound(0);
        assert!(bound < 1e-4 * variance_of(&[true; 3]), "{bound}");
        for (j, actual) in result.explanation.values.iter().enumerate() {
            let masks = (0..8_usize).filter(|mask| mask >> j & 1 == 1);
            let truth: f64 = masks.map(|mask| dividends[mask] / f64::from(mask.count_ones())).sum();
            assert!((actual - truth).abs() <= bound + 1e-13, "{profile:?} {j}: {actual} {truth} {bound}");
        }
    }
}

/// Values of discrepancies, in which absent columns leave the distance.
#[test]
fn discrepancies_are_those_of_distances_over_present_columns() {
    for (seed, profile) in profiles().into_iter().enumerate() {
        let (d, mut s) = (4, Stream(seed as u64 + 300));
        let length_scale: Vec<f64> = (0..d).map(|_| 0.7 + s.uniform()).collect();
        let over = |columns: Vec<usize>| -> Kernel {
            let length_scale = columns.iter().map(|&j| length_scale[j]).collect();
            Stationary { profile, columns, length_scale, ard: true, isotropic: true }.into()
        };
        let kernel_of = |coalition: &[bool]| {
            let columns: Vec<usize> = (0..d).filter(|&j| coalition[j]).collect();
            if columns.is_empty() { Kernel::constant(1.0) } else { over(columns) }
        };
        let product = TestSettings {
            factors: FactorKind::Product,
            attribute: AttributionRequest::Values,
            ..settings(0, 0)
        };
        let check = |result: &TestResult, truth: &dyn Fn(&[bool]) -> f64| {
            let explanation = &result.attributions.as_ref().unwrap().explanation;
            let bound = bound_of(&explanation.exactness)[0];
            assert!(explanation.certificate().unwrap().holds && bound < 1e-10, "{profile:?} {bound}");
            let expected = shapley(d, truth);
            let total = (result.statistic, truth(&vec![true; d]));
            for (actual, expected) in explanation.values.iter().copied().zip(expected).chain([total]) {
                assert!((actual - expected).abs() <= bound + 1e-15, "{profile:?}: {actual} {expected}");
            }
        };
        let (x, z) = (s.normals(9, d), s.normals(7, d));
        let kernels = vec![over((0..d).collect())];
        for estimator in [MmdEstimator::Unbiased, MmdEstimator::Biased] {
            let settings = product.clone();
            let test = TwoSampleTest { kernels: kernels.clone(), estimator, settings };
            check(&test.run(&x, &z).unwrap(), &|coalition| {
                let kernel = kernel_of(coalition);
                mmd(&rows(&x), &rows(&z), estimator, &|u, v| kernel.eval(u, v))
            });
        }
        let (target, target_kernel) = (s.normals(9, 2), Kernel::gaussian(&[1.0, 1.5]));
        let test = IndependenceTest {
            kernels,
            target_kernel: Some(target_kernel.clone()),
            settings: product,
            ..IndependenceTest::default()
        };
        let l = matrix(&rows(&target), &|u, v| target_kernel.eval(u, v));
        check(&test.run(&x, &target).unwrap(), &|coalition| {
            let kernel = kernel_of(coalition);
            hsic_biased(&matrix(&rows(&x), &|u, v| kernel.eval(u, v)), &l)
        });
    }
}
