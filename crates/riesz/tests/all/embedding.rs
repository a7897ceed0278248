//! Conditional mean embeddings against their definition, in plain code.

use std::sync::atomic::AtomicBool;

use riesz::embedding::{ConditionalMean, ConditionalMeanEmbeddings, Weights, leave_one_out};
use riesz::kernel::{Profile, Stationary};
use riesz::{
    Approximation, Conditioning, ConditioningKernel, ConjugateGradients, Error, Kernel, Matrix, Result,
    Ridge, Table,
};

use crate::common::{number, table};
use crate::observational::solve;

static GO_ON: AtomicBool = AtomicBool::new(false);

/// Computes `(K + η diag(1/w))⁻¹ k(x)` for each row x; if `centered`, the difference of the sum from 1 is
/// distributed by w.
fn definition(
    k: impl Fn(&[f64], &[f64]) -> f64,
    reference: &Table,
    w: &[f64],
    ridge: f64,
    centered: bool,
    x: &Table,
) -> Vec<Vec<f64>> {
    let rows: Vec<Vec<f64>> = (0..reference.rows()).map(|b| reference.row(b)).collect();
    let a: Vec<Vec<f64>> = (0..rows.len())
        .map(|b| {
            let entry = |c: usize| k(&rows[b], &rows[c]) + if b == c { ridge / w[b] } else { 0.0 };
            (0..rows.len()).map(entry).collect()
        })
        .collect();
    let row_weights = |i: usize| {
        let mut solution = solve(a.clone(), rows.iter().map(|row| k(row, &x.row(i))).collect());
        let missing = if centered { 1.0 - solution.iter().sum::<f64>() } else { 0.0 };
        solution.iter_mut().zip(w).for_each(|(f, w)| *f += missing * w);
        solution
    };
    (0..x.rows()).map(row_weights).collect()
}

/// Returns the largest ratio of error to bound, and the largest bound.
fn excess(actual: &Weights, expected: &[Vec<f64>]) -> (f64, f64) {
    let mut largest = (0.0_f64, 0.0_f64);
    for (r, expected) in expected.iter().enumerate() {
        let square: f64 = expected.iter().enumerate().map(|(b, e)| (actual.matrix[(b, r)] - e).powi(2)).sum();
        largest = (largest.0.max(square.sqrt() / actual.error[r]), largest.1.max(actual.error[r]));
    }
    largest
}

fn matern(columns: &[usize], u: &[f64], v: &[f64]) -> f64 {
    let r =
        columns.iter().map(|&j| 3.0 * ((u[j] - v[j]) / (1.0 + 0.2 * j as f64)).powi(2)).sum::<f64>().sqrt();
    (1.0 + r) * (-r).exp()
}

fn gaussian(columns: &[usize], u: &[f64], v: &[f64]) -> f64 {
    let term = |&j: &usize| ((u[j] - v[j]) / (1.0 + 0.2 * j as f64)).powi(2) / 2.0;
    (-columns.iter().map(term).sum::<f64>()).exp()
}

fn own_scales(d: usize) -> Vec<f64> {
    (0..d).map(|j| 1.0 + 0.2 * j as f64).collect()
}

fn isotropic(d: usize) -> Kernel {
    let (columns, length_scale) = ((0..d).collect(), own_scales(d));
    Stationary { profile: Profile::Matern32, columns, length_scale, ard: true, isotropic: true }.into()
}

fn gradients(tolerance: f64) -> Approximation {
    Approximation::ConjugateGradients(ConjugateGradients { tolerance, landmarks: 10, iterations: 500 })
}

#[test]
fn weights_given_any_blocks_are_those_of_the_definition() {
    let (d, n) = (4, 40);
    let (reference, x) = (table(0, n, d), table(300, 3, d));
    let blocks = [vec![0, 3], vec![1], vec![2]];
    let raw: Vec<f64> = (0..n).map(|b| f64::from((b % 5) as u8)).collect();
    let total: f64 = raw.iter().sum();
    // Rows with weight 0 are omitted.
    let positive: Vec<usize> = (0..n).filter(|&b| raw[b] > 0.0).collect();
    let w: Vec<f64> = positive.iter().map(|&b| raw[b] / total).collect();
    type KernelFunction = fn(&[usize], &[f64], &[f64]) -> f64;
    for (kernel, similarity) in [
        (isotropic(d), matern as KernelFunction),
        (Kernel::gaussian(&own_scales(d)), gaussian as KernelFunction),
    ] {
        for (centered, ridge) in [(true, 1e-3), (false, 1e-1)] {
            for approximation in [Approximation::Exact, gradients(1e-6), gradients(1e-3)] {
                let kernel = ConditioningKernel::Given(kernel.clone());
                let conditioning =
                    Conditioning { kernel, centered, approximation, ..Conditioning::with_ridge(ridge) };
                let means =
                    ConditionalMeanEmbeddings::fit(&reference, Some(&raw), &blocks, &conditioning, &GO_ON)
                        .unwrap();
                for mask in [[true, false, false], [false, true, true], [true, true, true]] {
                    let on = blocks.iter().zip(mask).filter(|(_, on)| *on);
                    let columns: Vec<usize> = on.flat_map(|(block, _)| block.clone()).collect();
                    let k = |u: &[f64], v: &[f64]| similarity(&columns, u, v);
                    let expected = definition(k, &reference.select_rows(&positive), &w, ridge, centered, &x);
                    let actual = means.weights(&mask, &x, &GO_ON).unwrap();
                    let row_weights =
                        |r: usize| positive.iter().map(|&b| actual.matrix[(b, r)]).collect::<Vec<f64>>();
                    let rows: Vec<Vec<f64>> = (0..x.rows()).map(row_weights).collect();
                    let kept = Weights {
                        matrix: Matrix::from_row_major(x.rows(), positive.len(), rows.concat()).transpose(),
                        ..actual.clone()
                    };
                    let (over, bound) = excess(&kept, &expected);
                    assert!(over <= 1.0 && bound < 2e-2, "{approximation:?} {mask:?}: {over} {bound}");
                    assert!(approximation != Approximation::Exact || bound < 1e-8, "{bound}");
                    // The residual of conjugate gradients is more than rounding.
                    assert!(approximation != gradients(1e-3) || bound > 1e-7 || over > 1e-4);
                    assert!((0..n).filter(|&b| raw[b] == 0.0).all(|b| actual.matrix[(b, 0)] == 0.0));
                    if centered {
                        let sum: f64 = (0..n).map(|b| actual.matrix[(b, 1)]).sum();
                        assert!((sum - 1.0).abs() < 1e-12);
                    }
                }
                assert_eq!(means.weights(&[true; 3], &x.select_rows(&[]), &GO_ON).unwrap().matrix.cols(), 0);
                let nothing = means.weights(&[false; 3], &x, &GO_ON).unwrap();
                assert!((0..n).all(|b| (nothing.matrix[(b, 2)] - raw[b] / total).abs() < 1e-16));
            }
        }
    }
}

#[test]
fn one_set_of_columns_takes_any_kernel() {
    let (d, n) = (2, 60);
    let (reference, x) = (table(0, n, d), table(300, 4, d));
    let w = vec![1.0 / n as f64; n];
    let columns = [0, 1];
    let sum = 0.5 * isotropic(d) + 2.0 * Kernel::gaussian(&own_scales(d));
    let summed = |u: &[f64], v: &[f64]| 0.5 * matern(&columns, u, v) + 2.0 * gaussian(&columns, u, v);
    let fit = |kernel: &Kernel, approximation| {
        let kernel = ConditioningKernel::Given(kernel.clone());
        let conditioning = Conditioning { kernel, approximation, ..Conditioning::with_ridge(1e-2) };
        ConditionalMean::fit(&reference, None, None, &conditioning, &GO_ON)
    };
    let expected = definition(summed, &reference, &w, 1e-2, true, &x);
    for (approximation, limit) in
        [(Approximation::Exact, 1.0), (gradients(1e-8), 1.0), (Approximation::Landmarks(n), 1e6)]
    {
        let actual = fit(&sum, approximation).unwrap().weights(&x, &GO_ON).unwrap();
        let (over, bound) = excess(&actual, &expected);
        assert!(over <= limit && bound < 1e-5, "{approximation:?}: {over} {bound}");
    }
    // Random features also approximate the weights, better with more features.
    let gaussian_kernel = Kernel::gaussian(&own_scales(d));
    let expected = definition(|u, v| gaussian(&columns, u, v), &reference, &w, 1e-2, true, &x);
    let far = |count| {
        let fitted = fit(&gaussian_kernel, Approximation::RandomFeatures(count)).unwrap();
        let weights = fitted.weights(&x, &GO_ON).unwrap().matrix;
        let squared_error =
            |r: usize| (0..n).map(|b| (weights[(b, r)] - expected[r][b]).powi(2)).sum::<f64>();
        (0..4).map(squared_error).sum::<f64>().sqrt()
    };
    let errors = [30, 300, 3000].map(far);
    assert!(errors[0] > errors[1] && errors[1] > errors[2] && errors[2] < 0.05, "{errors:?}");
    assert!(fit(&sum, Approximation::RandomFeatures(9)).err().unwrap().to_string().contains("use landmarks"));
}

/// The ridge is the value of the grid with the smallest leave-one-out loss of the response.
#[test]
fn the_ridge_is_chosen_by_what_is_predicted() {
    let n = 80;
    let x: Vec<[f64; 1]> = (0..n).map(|i| [number(i, 0)]).collect();
    let follows: Vec<[f64; 1]> = x.iter().map(|x| [(2.0 * x[0]).sin()]).collect();
    let noise: Vec<[f64; 1]> = (0..n).map(|i| [number(7 * i + 3, 2)]).collect();
    let [x, follows, noise] = [x, follows, noise].map(|rows| Table::from_rows(&rows).unwrap());
    let ridge = |target| {
        let mean = ConditionalMean::fit(&x, None, Some(target), &Conditioning::default(), &GO_ON).unwrap();
        mean.ridge()
    };
    let (tight, loose) = (ridge(&follows), ridge(&noise));
    assert!(tight < 0.1 * loose, "{tight} {loose}");
    // The median distance is the kernel's length scale; all rows are different.
    let median = |table: &Table| {
        let scale = riesz::kernel::length_scales(
            table,
            &[0],
            &riesz::kernel::ColumnScaling::raw(1),
            riesz::kernel::LengthScale::MedianPerFeature,
        );
        Kernel::gaussian(&scale.unwrap()).gram(table)
    };
    let grid = [1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0];
    let losses =
        leave_one_out(&median(&x), &median(&noise), &vec![1.0 / n as f64; n], &grid, &GO_ON).unwrap();
    let best = (0..grid.len()).min_by(|&a, &b| losses[a].total_cmp(&losses[b])).unwrap();
    assert_eq!(grid[best], loose);
}

#[test]
fn invalid_input_is_named() {
    let (reference, x) = (table(0, 20, 2), table(300, 2, 2));
    let message = |weights: Option<&[f64]>, blocks: &[Vec<usize>], conditioning: Conditioning| -> String {
        let fit = ConditionalMeanEmbeddings::fit(&reference, weights, blocks, &conditioning, &GO_ON);
        fit.err().unwrap().to_string()
    };
    let singles = [vec![0], vec![1]];
    let fixed = || Conditioning::with_ridge(0.1);
    for blocks in [[vec![0], vec![0]], [vec![0], vec![2]]] {
        assert!(message(None, &blocks, fixed()).contains("one of the table's 2 columns"));
    }
    assert!(message(Some(&[1.0; 3]), &singles, fixed()).contains("list of reference weights"));
    assert!(message(Some(&[-1.0; 20]), &singles, fixed()).contains("reference weight = -1"));
    assert!(message(Some(&[0.0; 20]), &singles, fixed()).contains("sum of the reference weights = 0"));
    assert!(message(None, &singles, Conditioning::with_ridge(0.0)).contains("ridge = 0"));
    let own_family = Conditioning { kernel: ConditioningKernel::OwnFamily, ..fixed() };
    assert!(message(None, &singles, own_family).contains("give the kernel"));
    let sum = Kernel::gaussian(&[1.0, 1.0]) + Kernel::constant(1.0);
    let sum = Conditioning { kernel: ConditioningKernel::Given(sum), ..fixed() };
    assert!(message(None, &singles, sum).contains("one product of factors"));
    let wide = Conditioning { kernel: ConditioningKernel::Given(Kernel::gaussian(&[1.0; 3])), ..fixed() };
    assert!(message(None, &singles, wide).contains("2 columns"));
    let little_memory = Conditioning { memory: Some(1000), ..fixed() };
    assert!(
        message(None, &singles, little_memory).contains("conditional mean embeddings on 20 reference rows")
    );
    let means = ConditionalMeanEmbeddings::fit(&reference, None, &singles, &fixed(), &GO_ON).unwrap();
    assert!(means.weights(&[true], &x, &GO_ON).unwrap_err().to_string().contains("one flag for each of the"));
    let fit = |target: Option<&Table>| {
        ConditionalMean::fit(&reference, None, target, &Conditioning::default(), &GO_ON)
            .err()
            .unwrap()
            .to_string()
    };
    assert!(fit(None).contains("target column or a given ridge"));
    assert!(fit(Some(&x)).contains("one per row of the conditions"));
}

/// A set stop flag interrupts every step.
#[test]
fn it_stops() {
    let (reference, x) = (table(0, 30, 2), table(300, 2, 2));
    let (stop, blocks) = (AtomicBool::new(true), [vec![0], vec![1]]);
    let interrupted = |result: Result<()>| assert_eq!(result, Err(Error::Interrupted));
    for approximation in
        [Approximation::Exact, gradients(1e-6), Approximation::Landmarks(5), Approximation::RandomFeatures(5)]
    {
        let conditioning = Conditioning { approximation, ..Conditioning::with_ridge(0.1) };
        let means = ConditionalMeanEmbeddings::fit(&reference, None, &blocks, &conditioning, &GO_ON).unwrap();
        interrupted(means.weights(&[true, false], &x, &stop).map(drop));
        let chosen = Conditioning { ridge: Ridge::CrossValidated, ..conditioning };
        interrupted(ConditionalMeanEmbeddings::fit(&reference, None, &blocks, &chosen, &stop).map(drop));
        interrupted(
            ConditionalMean::fit(&reference, None, Some(&x.select_rows(&[0; 30])), &chosen, &stop).map(drop),
        );
    }
    let exact = Conditioning::with_ridge(0.1);
    interrupted(ConditionalMeanEmbeddings::fit(&reference, None, &blocks, &exact, &stop).map(drop));
    interrupted(ConditionalMean::fit(&reference, None, None, &exact, &stop).map(drop));
}
