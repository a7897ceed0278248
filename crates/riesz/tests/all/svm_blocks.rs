//! Support vector machines on working sets of all sizes, against their optimality conditions. Rows are as in
//! data frames, with categories, constant columns and duplicates.

use proptest::prelude::*;
use riesz::fit::{OneClassSupportVector, SupportVectorClassifier, SupportVectorRegressor};
use riesz::{Kernel, Table};

use crate::common::{names, with_threads};

/// Returns rows of `levels` one-hot columns, a constant one, and columns with few values or many.
fn rows(n: usize, levels: usize, seed: u64, has_equal_rows: bool) -> Vec<Vec<f64>> {
    let mut state = seed | 1;
    let mut random = move |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    (0..n)
        .map(|_| {
            let (level, coarse, fine) = (random(levels).min(random(levels)), random(3), random(1000));
            let mut row: Vec<f64> = (0..levels).map(|l| f64::from(u8::from(l == level))).collect();
            let extra = if has_equal_rows { [0.0; 2] } else { [coarse as f64, fine as f64 / 200.0] };
            row.extend([7.0, extra[0], extra[1]]);
            if has_equal_rows {
                row[..levels].fill(0.0);
            }
            row
        })
        .collect()
}

/// Returns a label, flipped for some rows and seeds, so that classes may overlap.
fn label(row: &[f64], r: usize, seed: u64) -> usize {
    let signal = row[0] + row[row.len() - 1].sin() > 0.4;
    usize::from(signal ^ (seed >> (r % 61)).is_multiple_of(8))
}

fn coefficients(n: usize, support: &[usize], coef: &riesz::Matrix) -> Vec<f64> {
    let mut beta = vec![0.0; n];
    support.iter().enumerate().for_each(|(index, &r)| beta[r] = coef[(index, 0)]);
    beta
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn classification_is_optimal(
        n in 2..300_usize,
        levels in 1..14_usize,
        seed in any::<u64>(),
        alike in prop::bool::weighted(0.1),
        log_c in -6.0..4.0_f64,
        set in 2..400_usize,
        shrinking in any::<bool>(),
    ) {
        let rows = rows(n, levels, seed, alike);
        let x = Table::from_rows(&rows).unwrap();
        let labels: Vec<usize> = (0..n).map(|r| if r < 2 { r } else { label(&rows[r], r, seed) }).collect();
        let weight: Vec<f64> = (0..n).map(|r| f64::from((r % 4) as u32 + 1) / 2.0).collect();
        let c = 10_f64.powf(log_c);
        let mut svc = SupportVectorClassifier::new(Kernel::gaussian(&vec![1.5; levels + 3]), c);
        svc.sample_weight = Some(weight.clone());
        (svc.tolerance, svc.cache_bytes, svc.shrinking) = (1e-5, set * set * 16, shrinking);
        let fit = svc.fit(&x, &labels, &names(2)).unwrap();
        let f = fit.model.predict(&x).unwrap();
        let beta = coefficients(n, &fit.support, &fit.model.coef);
        prop_assert!(beta.iter().sum::<f64>().abs() <= 1e-9 * c * n as f64);
        for r in 0..n {
            let sign = if labels[r] == 1 { 1.0 } else { -1.0 };
            let (alpha, bound, margin) = (sign * beta[r], c * weight[r], sign * f[(r, 0)]);
            prop_assert!((0.0..=bound).contains(&alpha));
            prop_assert!(alpha == bound || margin >= 1.0 - 2e-5, "row {r}: {alpha} of {bound}, margin \
                {margin}");
            prop_assert!(alpha == 0.0 || margin <= 1.0 + 2e-5, "row {r}: {alpha} of {bound}, margin \
                {margin}");
        }
    }

    #[test]
    fn regression_is_optimal(
        n in 2..300_usize,
        levels in 1..14_usize,
        seed in any::<u64>(),
        alike in prop::bool::weighted(0.1),
        log_c in -6.0..3.0_f64,
        epsilon in prop_oneof![Just(0.0), 0.01..1.0_f64],
        set in 2..400_usize,
    ) {
        let rows = rows(n, levels, seed, alike);
        let x = Table::from_rows(&rows).unwrap();
        let y: Vec<f64> = (0..n).map(|r| rows[r][0] + f64::from((seed >> (r % 59)) as u32 & 7) / 4.0).collect();
        let c = 10_f64.powf(log_c);
        let mut svr = SupportVectorRegressor::new(Kernel::gaussian(&vec![1.5; levels + 3]), c, epsilon);
        (svr.tolerance, svr.cache_bytes) = (1e-5, set * set * 16);
        let fit = svr.fit(&x, &y).unwrap();
        let f = fit.model.predict(&x).unwrap();
        let beta = coefficients(n, &fit.support, &fit.model.coef);
        prop_assert!(beta.iter().sum::<f64>().abs() <= 1e-9 * c * n as f64);
        for r in 0..n {
            let residual = y[r] - f[(r, 0)];
            prop_assert!(beta[r].abs() <= c);
            let upper = if beta[r] >= 0.0 { epsilon } else { -epsilon };
            prop_assert!(beta[r] == c || residual <= upper + 2e-5, "row {r}: {} with {residual}", beta[r]);
            let lower = if beta[r] > 0.0 { epsilon } else { -epsilon };
            prop_assert!(beta[r] == -c || residual >= lower - 2e-5, "row {r}: {} with {residual}", beta[r]);
        }
    }

    /// f ≥ 0 where β = 0, f = 0 strictly between the bounds, f ≤ 0 at the bound; Σβ = ν n.
    #[test]
    fn one_class_is_optimal(
        n in 2..300_usize,
        levels in 1..14_usize,
        seed in any::<u64>(),
        alike in prop::bool::weighted(0.1),
        nu in 0.01..1.0_f64,
        set in 2..400_usize,
    ) {
        let x = Table::from_rows(&rows(n, levels, seed, alike)).unwrap();
        let mut machine = OneClassSupportVector::new(Kernel::gaussian(&vec![1.5; levels + 3]), nu);
        (machine.tolerance, machine.cache_bytes) = (1e-5, set * set * 16);
        let fit = machine.fit(&x).unwrap();
        let f = fit.model.predict(&x).unwrap();
        let beta = coefficients(n, &fit.support, &fit.model.coef);
        prop_assert!((beta.iter().sum::<f64>() - nu * n as f64).abs() <= 1e-9 * n as f64);
        for r in 0..n {
            prop_assert!((0.0..=1.0).contains(&beta[r]));
            prop_assert!(beta[r] == 1.0 || f[(r, 0)] >= -2e-5, "row {r}: {} with {}", beta[r], f[(r, 0)]);
            prop_assert!(beta[r] == 0.0 || f[(r, 0)] <= 2e-5, "row {r}: {} with {}", beta[r], f[(r, 0)]);
        }
    }
}

/// With many working sets and with shrinking, results are bit-identical for any number of threads.
#[test]
fn threads_do_not_change_a_bit() {
    let n = 2500;
    let rows = rows(n, 12, 99, false);
    let x = Table::from_rows(&rows).unwrap();
    let labels: Vec<usize> = (0..n).map(|r| label(&rows[r], r, 0x5a3c_96e1_77d2_0f48)).collect();
    let kernels =
        [Kernel::gaussian(&[1.5; 15]), Kernel::gaussian(&[1.5; 15]) + 0.1 * Kernel::gaussian(&[9.0; 15])];
    for kernel in kernels {
        let mut svc = SupportVectorClassifier::new(kernel, 10.0);
        svc.cache_bytes = 200 * 200 * 16;
        let fit = |threads: usize| with_threads(threads, || svc.fit(&x, &labels, &names(2)).unwrap());
        let (serial, parallel) = (fit(1), fit(3));
        assert!(serial.support.len() > 400);
        assert_eq!(
            (&serial.model, serial.iterations, serial.objective),
            (&parallel.model, parallel.iterations, parallel.objective)
        );
    }
}
