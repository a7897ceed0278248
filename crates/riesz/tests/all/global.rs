//! Sobol indices, SAGE values and components against sums over all combinations of the players' rows, and
//! against published closed forms.

use riesz::fit::{GaussianProcess, GpFit, KernelRidge};
use riesz::global::{Components, Labels, Sage};
use riesz::kernel::{Categorical, Linear, Profile};
use riesz::{
    Background, Explainer, Explanation, Kernel, KernelExpansion, Matrix, Players, Sensitivity, SobolIndices,
    Table, ValueIndex,
};

use crate::common::{Stream, largest_difference, stationary, table, with_threads};

/// All rows that independent players form, with their probabilities, and the row of the inputs from which
/// each player's values come.
struct Grid {
    rows: Table,
    weights: Vec<f64>,
    taken: Vec<Vec<usize>>,
}

fn grid(inputs: &Background, players: &[Vec<usize>]) -> Grid {
    let n = inputs.rows.rows();
    let raw = inputs.weights.clone().unwrap_or_else(|| vec![1.0; n]);
    let total: f64 = raw.iter().sum();
    let (mut rows, mut weights, mut indices) = (Vec::new(), Vec::new(), Vec::new());
    for mut k in 0..n.pow(players.len() as u32) {
        let (mut row, mut weight, mut taken) = (inputs.rows.row(0), 1.0, Vec::new());
        for columns in players {
            columns.iter().for_each(|&j| row[j] = inputs.rows.get(k % n, j));
            weight *= raw[k % n] / total;
            taken.push(k % n);
            k /= n;
        }
        rows.push(row);
        weights.push(weight);
        indices.push(taken);
    }
    Grid { rows: Table::from_rows(&rows).unwrap(), weights, taken: indices }
}

impl Grid {
    /// Returns `Σ M_gh c_gh`, where the quadratic form M is the variance of the conditional mean given the
    /// players of `mask`.
    fn value(&self, mask: usize, entry: &dyn Fn(usize, usize) -> f64) -> f64 {
        let agree = |g: usize, h: usize| {
            (0..self.taken[g].len()).all(|j| mask >> j & 1 == 0 || self.taken[g][j] == self.taken[h][j])
        };
        let count = self.weights.len();
        let mut sum = 0.0;
        for g in 0..count {
            let probability: f64 = (0..count).filter(|&h| agree(g, h)).map(|h| self.weights[h]).sum();
            for h in 0..count {
                let pair = self.weights[g] * self.weights[h];
                let mean = if agree(g, h) { pair / probability } else { 0.0 };
                sum += (mean - pair) * entry(g, h);
            }
        }
        sum
    }
}

fn factorial(k: usize) -> f64 {
    (1..=k).map(|i| i as f64).product()
}

/// Returns first-order, Shapley and total values of each player by their definitions, from the values of all
/// coalitions.
fn definitions(values: &[f64], p: usize) -> [Vec<f64>; 3] {
    let full = values.len() - 1;
    let first = (0..p).map(|j| values[1 << j]).collect();
    let total = (0..p).map(|j| values[full] - values[full & !(1 << j)]).collect();
    let shapley = |j: usize| -> f64 {
        let coalitions = (0..values.len()).filter(|mask| mask >> j & 1 == 0);
        coalitions
            .map(|mask| {
                let s = mask.count_ones() as usize;
                factorial(s) * factorial(p - 1 - s) / factorial(p) * (values[mask | 1 << j] - values[mask])
            })
            .sum()
    };
    [first, (0..p).map(shapley).collect(), total]
}

fn linear(j: usize) -> Kernel {
    Linear { columns: vec![j], center: vec![0.3], scale: vec![1.2] }.into()
}

fn kernels() -> Vec<Kernel> {
    let gaussian = stationary(Profile::Gaussian, 0, 1.3)
        * stationary(Profile::Matern32, 1, 0.7)
        * stationary(Profile::Gaussian, 2, 2.0);
    let category = Kernel::from(Categorical { columns: [3], similarity: 0.4 });
    let joint_linear = Linear { columns: vec![0, 1, 2], center: vec![0.1; 3], scale: vec![1.0; 3] };
    vec![
        gaussian.clone() * category.clone(),
        0.7 * (gaussian * category)
            + linear(0) * stationary(Profile::Gaussian, 2, 1.0)
            + Kernel::constant(2.0),
        Kernel::from(joint_linear) + linear(0) * linear(1) * linear(3),
    ]
}

fn close(indices: &SobolIndices, o: usize, truth: &[Vec<f64>; 3], variance: f64) {
    let computed = [indices.first_order(o), indices.effects(o), indices.total_order(o)];
    for (actual, truth) in computed.into_iter().zip(truth) {
        let error = largest_difference(actual, truth);
        assert!(
            error <= indices.bound(o) + 1e-13 * variance,
            "{error} {} {actual:?} {truth:?}",
            indices.bound(o)
        );
    }
    assert!((indices.variance(o) - variance).abs() <= indices.bound(o) + 1e-13 * variance);
    assert!(indices.bound(o) < 1e-9 * variance, "{} of {variance}", indices.bound(o));
    assert!(indices.explanation.certificate().is_none_or(|c| c.holds));
}

/// Kernels of one product and of several, factors of all signs, groups, weights and duplicates, two outputs,
/// more points than a tile.
#[test]
fn indices_follow_their_definitions() {
    let mut s = Stream(41);
    for kernel in kernels() {
        let points = s.normals_and_levels(45, 4);
        let coef = Matrix::from_row_major(45, 2, (0..90).map(|_| s.signed()).collect());
        let model = KernelExpansion::new(kernel, points.clone(), coef, vec![5.0, -1.0]).unwrap();
        let rows = s.normals_and_levels(3, 4).stack(&points.select_rows(&[7])).unwrap();
        let weighted = Background { rows: rows.clone(), weights: Some(vec![1.0, 2.0, 0.5, 1.5]) };
        let twice = Background::from(rows.select_rows(&[0, 1, 1, 2]));
        let names: Vec<String> = points.columns().iter().map(|c| c.name.clone()).collect();
        let grouped =
            Players::named(points.columns(), &[("both", vec![names[0].as_str(), names[3].as_str()])])
                .unwrap();
        for (inputs, groups) in [(weighted, None), (twice.clone(), None), (twice, Some(grouped))] {
            let players: Vec<Vec<usize>> = match &groups {
                Some(groups) => groups.players().iter().map(|p| p.columns.clone()).collect(),
                None => (0..4).map(|j| vec![j]).collect(),
            };
            let p = players.len();
            let sensitivity = Sensitivity { groups: groups.clone(), ..Sensitivity::default() };
            let indices = sensitivity.run(&model, &inputs).unwrap();
            let moebius = Sensitivity { groups, index: "moebius".parse().unwrap(), ..Sensitivity::default() };
            let moebius = moebius.run(&model, &inputs).unwrap().explanation;
            let grid = grid(&inputs, &players);
            let f = model.predict(&grid.rows).unwrap();
            for o in 0..2 {
                let values: Vec<f64> =
                    (0..1 << p).map(|mask| grid.value(mask, &|g, h| f[(g, o)] * f[(h, o)])).collect();
                close(&indices, o, &definitions(&values, p), values[(1 << p) - 1]);
                assert!(indices.explanation.certificate().unwrap().holds);
                let (first, effects, total) =
                    (indices.first_order(o), indices.effects(o), indices.total_order(o));
                let slack = 2.0 * indices.bound(o);
                assert!((0..p).all(|j| first[j] <= effects[j] + slack && effects[j] <= total[j] + slack));
                for (k, value) in moebius.row_values(0, o).iter().enumerate() {
                    let truth = match moebius.subsets.as_ref().unwrap()[k][..] {
                        [j] => values[1 << j],
                        [j, l] => values[1 << j | 1 << l] - values[1 << j] - values[1 << l],
                        _ => panic!(),
                    };
                    assert!((value - truth).abs() < 1e-10, "{k} {value} {truth}");
                }
            }
        }
    }
}

/// Posterior means of quadratic forms: the form of the mean function plus a trace term of the covariance.
#[test]
fn expected_indices_are_means_over_the_posterior() {
    let mut s = Stream(3);
    for kernel in kernels() {
        let (x, y) = (s.normals_and_levels(40, 4), (0..80).map(|_| s.signed()).collect());
        let fit = GaussianProcess::new(kernel, 0.3).fit(&x, &Matrix::from_row_major(40, 2, y)).unwrap();
        let inputs = Background { rows: s.normals_and_levels(3, 4), weights: Some(vec![1.0, 0.4, 2.0]) };
        let indices =
            Sensitivity::default().posterior_mean_indices(&fit.model, &fit.covariance, &inputs).unwrap();
        let players: Vec<Vec<usize>> = (0..4).map(|j| vec![j]).collect();
        let grid = grid(&inputs, &players);
        let f = fit.model.predict(&grid.rows).unwrap();
        let posterior = fit.posterior();
        let covariance = posterior.covariance(&posterior.functionals_at(&grid.rows).unwrap());
        for o in 0..2 {
            let second_moment = |g: usize, h: usize| f[(g, o)] * f[(h, o)] + covariance[o][(g, h)];
            let values: Vec<f64> = (0..16).map(|mask| grid.value(mask, &second_moment)).collect();
            close(&indices, o, &definitions(&values, 4), values[15]);
        }
    }
}

/// If inputs are support points, indices of draws equal those of posterior draws at all inputs.
#[test]
fn draws_are_those_of_the_posterior() {
    let mut s = Stream(31);
    let rows: Vec<[f64; 2]> = (0..25).map(|i| [f64::from(i / 5), f64::from(i % 5) * 1.3]).collect();
    let x = Table::from_rows(&rows).unwrap();
    let y = Matrix::from_row_major(25, 2, (0..50).map(|_| s.signed()).collect());
    let fit = GaussianProcess::new(Kernel::gaussian(&[1.5, 1.5]), 0.5).fit(&x, &y).unwrap();
    let (inputs, draws) = (Background::from(x.clone()), 300);
    let indices =
        Sensitivity::default().indices_of_draws(&fit.model, &fit.covariance, &inputs, (draws, 7)).unwrap();
    let posterior = fit.posterior();
    let samples = posterior.sample(&posterior.functionals_at(&x).unwrap(), draws, 7).unwrap();
    for o in 0..2 {
        for k in 0..draws {
            let f = samples.values[o].column(k);
            let mean = f.iter().sum::<f64>() / 25.0;
            let variance = f.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 25.0;
            assert!((indices.variance(o * draws + k) - variance).abs() < 1e-6 * variance, "{o} {k}");
            let of_first = |a: usize| f[5 * a..5 * a + 5].iter().sum::<f64>() / 5.0 - mean;
            let first = (0..5).map(|a| of_first(a).powi(2)).sum::<f64>() / 5.0;
            assert!((indices.first_order(o * draws + k)[0] - first).abs() < 1e-6 * variance);
        }
        // The mean over draws approaches the posterior mean.
        let expected =
            Sensitivity::default().posterior_mean_indices(&fit.model, &fit.covariance, &inputs).unwrap();
        let effects: Vec<f64> = (0..draws).map(|k| indices.effects(o * draws + k)[1]).collect();
        let mean = effects.iter().sum::<f64>() / draws as f64;
        let error = (effects.iter().map(|v| (v - mean).powi(2)).sum::<f64>()).sqrt() / draws as f64;
        assert!((mean - expected.effects(o)[1]).abs() < 4.5 * error);
    }
    assert!(Sensitivity::default().indices_of_draws(&fit.model, &fit.covariance, &inputs, (0, 0)).is_err());
}

/// Ishigami's function `sin x₁ + a sin² x₂ + b x₃⁴ sin x₁` as a kernel expansion, against its published
/// indices.
#[test]
fn ishigamis_function_has_its_published_indices() {
    use std::f64::consts::PI;
    let (a, b) = (7.0, 0.1);
    let mut s = Stream(9);
    let rows: Vec<[f64; 3]> = (0..350).map(|_| [0; 3].map(|_| PI * s.signed())).collect();
    let f = |x: &[f64; 3]| x[0].sin() + a * x[1].sin().powi(2) + b * x[2].powi(4) * x[0].sin();
    let factor = |j| stationary(Profile::Gaussian, j, 2.0);
    let kernel = factor(0) * factor(2) + factor(1);
    let y = Matrix::column_vector(rows.iter().map(f).collect());
    let fit = KernelRidge::new(kernel, 1e-7).fit(&Table::from_rows(&rows).unwrap(), &y).unwrap();
    let inputs: Vec<[f64; 3]> = (0..100).map(|k| [(f64::from(k) + 0.5) * PI / 50.0 - PI; 3]).collect();
    let inputs = Background::from(Table::from_rows(&inputs).unwrap());
    let indices = Sensitivity::default().run(&fit.model, &inputs).unwrap();
    let (first, second) = (0.5 * (1.0 + b * PI.powi(4) / 5.0).powi(2), a * a / 8.0);
    let interaction = b * b * PI.powi(8) * (1.0 / 18.0 - 1.0 / 50.0);
    let variance = first + second + interaction;
    let near = |a: f64, b: f64| assert!((a - b).abs() < 2e-3 * variance, "{a} {b}");
    near(indices.variance(0), variance);
    for (j, truth) in [first, second, 0.0].into_iter().enumerate() {
        near(indices.first_order(0)[j], truth);
    }
    for (j, truth) in [first + interaction / 2.0, second, interaction / 2.0].into_iter().enumerate() {
        near(indices.effects(0)[j], truth);
    }
    for (j, truth) in [first + interaction, second, interaction].into_iter().enumerate() {
        near(indices.total_order(0)[j], truth);
    }
    assert!(indices.explanation.certificate().unwrap().holds, "{:?}", indices.explanation.certificate());
}

#[test]
fn many_players_add_up_and_threads_change_nothing() {
    let (mut s, d) = (Stream(8), 30);
    let model = {
        let coef = Matrix::column_vector((0..70).map(|_| s.signed()).collect());
        KernelExpansion::new(Kernel::gaussian(&vec![5.0; d]), s.normals(70, d), coef, vec![0.0]).unwrap()
    };
    let inputs = Background::from(s.normals(50, d));
    let find = || Sensitivity::default().run(&model, &inputs).unwrap();
    let (serial, two) = (with_threads(1, find), with_threads(3, find));
    assert_eq!(serial, two);
    let certificate = serial.explanation.certificate().unwrap();
    // Relative to the size of the summands: coefficients of all pairs of points.
    let size = model.coef.data().iter().map(|c| c.abs()).sum::<f64>().powi(2);
    assert!(certificate.holds && certificate.bound < 1e-12 * size, "{certificate:?} {size}");
    assert!(serial.scale(0).is_some_and(|scale| (scale * serial.variance(0) - 1.0).abs() < 1e-15));
}

#[test]
fn kernels_without_product_form_are_refused() {
    let kernel: Kernel = riesz::kernel::Polynomial {
        columns: vec![0, 1],
        center: vec![0.0; 2],
        scale: vec![1.0; 2],
        gamma: 1.0,
        coef0: 1.0,
        degree: 3,
    }
    .into();
    let model = crate::common::model(kernel, 8, 2);
    let inputs = Background::from(table(0, 8, 2));
    let error = Sensitivity::default().run(&model, &inputs).unwrap_err().to_string();
    assert!(error.contains("polynomial") || error.contains('x'), "{error}");
    // As one player, the columns explain everything.
    let names: Vec<&str> = model.columns().iter().map(|c| c.name.as_str()).collect();
    let groups = Players::named(model.columns(), &[("both", names)]).unwrap();
    let grouped =
        Sensitivity { groups: Some(groups), ..Sensitivity::default() }.run(&model, &inputs).unwrap();
    assert!((grouped.first_order(0)[0] - grouped.variance(0)).abs() <= grouped.bound(0));
    // A constant model has no shares.
    let flat =
        KernelExpansion::new(Kernel::constant(1.0), table(0, 3, 2), Matrix::zeros(3, 1), vec![1.0]).unwrap();
    let flat = Sensitivity::default().run(&flat, &inputs).unwrap();
    assert!(flat.scale(0).is_none() && flat.explanation.index == ValueIndex::Shapley);
}

/// Returns a fitted model of two outputs, or of two classes.
fn fitted(s: &mut Stream, d: usize) -> (KernelExpansion, Table) {
    let x = s.normals(30, d);
    let coef = Matrix::from_row_major(30, 2, (0..60).map(|_| s.signed()).collect());
    (KernelExpansion::new(Kernel::gaussian(&vec![1.5; d]), x.clone(), coef, vec![0.2, -0.1]).unwrap(), x)
}

/// Returns mean outputs, or probabilities, of a row, with absent players from each row of the background.
fn mixed(
    model: &KernelExpansion,
    x: &[f64],
    background: &Background,
    mask: usize,
    classes: bool,
) -> Vec<f64> {
    let raw = background.weights.clone().unwrap_or_else(|| vec![1.0; background.rows.rows()]);
    let total: f64 = raw.iter().sum();
    let mut mean = vec![0.0; 2];
    for (b, weight) in raw.iter().enumerate() {
        let row: Vec<f64> =
            (0..x.len()).map(|j| if mask >> j & 1 == 1 { x[j] } else { background.rows.get(b, j) }).collect();
        let out = model.predict(&Table::from_rows(&[row]).unwrap()).unwrap();
        let output = if classes { model.probabilities(out.row(0)).unwrap() } else { out.row(0).to_vec() };
        mean.iter_mut().zip(output).for_each(|(sum, v)| *sum += weight / total * v);
    }
    mean
}

/// SAGE values against their definition by enumeration; sampled orders are within their errors.
#[test]
fn sage_values_follow_their_definition() {
    let mut s = Stream(12);
    let d = 4;
    let (mut model, _) = fitted(&mut s, d);
    let x = s.normals(6, d);
    let background = Background { rows: s.normals(3, d), weights: Some(vec![1.0, 3.0, 0.5]) };
    let numbers = Matrix::from_row_major(6, 2, (0..12).map(|_| s.signed()).collect());
    let classes = vec![0, 1, 1, 0, 1, 0];
    for labels in [Labels::Numbers(numbers.clone()), Labels::Classes(classes.clone())] {
        let of_classes = matches!(labels, Labels::Classes(_));
        if of_classes {
            (model.link, model.classes) = (riesz::Link::Softmax, crate::common::names(2));
        }
        let loss = |i: usize, mask: usize| -> f64 {
            let mean = mixed(&model, &x.row(i), &background, mask, of_classes);
            match &labels {
                Labels::Numbers(y) => (0..2).map(|o| (y[(i, o)] - mean[o]).powi(2)).sum(),
                Labels::Classes(classes) => -mean[classes[i]].ln(),
            }
        };
        let values: Vec<f64> =
            (0..1 << d).map(|mask| -(0..6).map(|i| loss(i, mask)).sum::<f64>() / 6.0).collect();
        let [_, truth, _] = definitions(&values, d);
        let result = Sage::default().run(&model, &x, &labels, &background).unwrap();
        assert!(result.sampling_error.is_none() && result.coalitions == 16);
        assert!(largest_difference(&result.values, &truth) < 1e-12, "{:?} {truth:?}", result.values);
        assert!((result.base_loss + values[0]).abs() < 1e-12 && (result.loss + values[15]).abs() < 1e-12);
        let sum: f64 = result.values.iter().sum();
        assert!((sum - (result.base_loss - result.loss)).abs() < 1e-12);
        // The values are means of values by row, so that standard errors over rows are those of a mean.
        for j in 0..d {
            let by_row: Vec<f64> = (0..6)
                .map(|i| definitions(&(0..1 << d).map(|mask| -loss(i, mask)).collect::<Vec<_>>(), d)[1][j])
                .collect();
            let mean = by_row.iter().sum::<f64>() / 6.0;
            let error = (by_row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 30.0).sqrt();
            assert!((result.std_error.as_ref().unwrap()[j] - error).abs() < 1e-12);
        }
        // A single order and its reverse give no estimate of the variance over orders.
        let single_order = Sage { permutations: 1, ..Sage::default() }.run(&model, &x, &labels, &background);
        assert!(single_order.unwrap_err().to_string().contains("n_orders"));
        let sum: f64 = result.values.iter().sum();
        assert!((sum - (result.base_loss - result.loss)).abs() < 1e-12);
        let plain = result.explanation(&model, &x, 0).unwrap();
        plain.validate().unwrap();
        assert!(plain.residuals()[0].abs() < 1e-12);
    }
    let error =
        Sage::default().run(&model, &x, &Labels::Classes(vec![2; 6]), &background).unwrap_err().to_string();
    assert!(error.contains("from 0 to 1"), "{error}");
    assert!(Sage::default().run(&model, &x, &Labels::Classes(vec![0; 5]), &background).is_err());
}

/// SAGE values of a kernel without tables, with so many features that orders are sampled, are within their
/// errors.
#[test]
fn sampled_sage_values_are_within_their_errors() {
    let (mut s, d) = (Stream(4), 9);
    let x = s.normals(20, d);
    let coef = Matrix::column_vector((0..20).map(|_| s.signed()).collect());
    let kernel: Kernel = riesz::kernel::Polynomial {
        columns: (0..d).collect(),
        center: vec![0.0; d],
        scale: vec![1.0; d],
        gamma: 0.1,
        coef0: 1.0,
        degree: 3,
    }
    .into();
    let model = KernelExpansion::new(kernel, x.clone(), coef, vec![0.0]).unwrap();
    let y = Labels::Numbers(Matrix::column_vector((0..20).map(|_| s.signed()).collect()));
    let background = Background::from(s.normals(4, d));
    let exact = Sage { permutations: 1000, ..Sage::default() }.run(&model, &x, &y, &background).unwrap();
    assert!(exact.sampling_error.is_none());
    let sampled = || Sage { permutations: 25, ..Sage::default() }.run(&model, &x, &y, &background).unwrap();
    let result = with_threads(1, sampled);
    assert_eq!(result, with_threads(3, sampled));
    let errors = result.sampling_error.unwrap();
    for j in 0..d {
        // Student's .9999 quantile with 24 degrees of freedom is 4.6.
        assert!((result.values[j] - exact.values[j]).abs() < 4.6 * errors[j], "{j}");
        assert!(errors[j] < 0.5 * exact.values.iter().fold(0.0, |m: f64, v| m.max(v.abs())));
    }
    assert!((result.loss - exact.loss).abs() < 1e-15);
}

/// SAGE values of squared errors from tables equal those of an equal model without tables, from all
/// coalitions.
#[test]
fn tabulated_sage_values_are_exact() {
    let mut s = Stream(40);
    for d in [1, 3, 10] {
        let (model, _) = fitted(&mut s, d);
        let (x, background) = (
            s.normals(21, d),
            Background { rows: s.normals(5, d), weights: Some(vec![1.0, 2.0, 0.5, 1.0, 3.0]) },
        );
        let y = Matrix::from_row_major(21, 2, (0..42).map(|_| s.signed()).collect());
        let sage = Sage { permutations: 2, ..Sage::default() };
        let run = |model: &KernelExpansion, sage: &Sage| {
            sage.run(model, &x, &Labels::Numbers(y.clone()), &background).unwrap()
        };
        let result = with_threads(1, || run(&model, &sage));
        assert_eq!(result, with_threads(3, || run(&model, &sage)));
        assert!(result.sampling_error.is_none() && result.coalitions == 1 << d);
        // A factor that can exceed 1 has no tables; the scale of this one is negligible.
        let mut other = model.clone();
        other.kernel = other.kernel + 1e-300 * linear(0);
        let truth = run(&other, &Sage { permutations: 1000, ..Sage::default() });
        assert!(truth.sampling_error.is_none());
        assert!(largest_difference(&result.values, &truth.values) < 1e-12);
        let errors = |estimate: &riesz::global::SageValues| estimate.std_error.clone().unwrap();
        assert!(largest_difference(&errors(&result), &errors(&truth)) < 1e-12);
        assert!((result.values.iter().sum::<f64>() - (result.base_loss - result.loss)).abs() < 1e-12);
    }
}

/// Importances against means, standard errors, quantiles and normal probabilities computed by hand.
#[test]
fn importance_is_a_mean_with_its_error() {
    let (model, x) = fitted(&mut Stream(6), 3);
    let explanation = Explainer::interventional(&model, &x).unwrap().explain(&x).unwrap();
    for o in 0..2 {
        let importance = explanation.importance(o);
        let column = |k: usize| (0..30).map(|i| explanation.row_values(i, o)[k].abs()).collect::<Vec<f64>>();
        let moments = |v: &[f64]| {
            let mean = v.iter().sum::<f64>() / 30.0;
            (mean, (v.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / 29.0 / 30.0).sqrt())
        };
        let spans = importance.interval(0.95).unwrap();
        for k in 0..3 {
            let (mean, error) = moments(&column(k));
            assert!((importance.mean_abs[k] - mean).abs() < 1e-14);
            assert!((importance.std_error.as_ref().unwrap()[k] - error).abs() < 1e-14);
            // Student's .975 quantile with 29 degrees of freedom.
            assert!((spans[k][1] - mean - 2.045_229_642 * error).abs() < 1e-8);
            let mut sorted = column(k);
            sorted.sort_by(f64::total_cmp);
            assert!((importance.quantiles[k][1] - (sorted[14] + sorted[15]) / 2.0).abs() < 1e-15);
            assert!((importance.quantiles[k][0] - (0.55 * sorted[1] + 0.45 * sorted[2])).abs() < 1e-14);
        }
        for (pair, probability) in importance.order.windows(2).zip(importance.in_order.unwrap()) {
            let differences: Vec<f64> =
                column(pair[0]).iter().zip(column(pair[1])).map(|(a, b)| a - b).collect();
            let (mean, error) = moments(&differences);
            assert!((0.5..=1.0).contains(&probability));
            // By Simpson's rule.
            let (z, n) = (mean / error, 2000);
            let density = |t: f64| (-0.5 * t * t).exp() / std::f64::consts::TAU.sqrt();
            let weight = |k: usize| {
                if k == 0 || k == n {
                    1.0
                } else if k % 2 == 1 {
                    4.0
                } else {
                    2.0
                }
            };
            let integral: f64 = (0..=n).map(|k| weight(k) * density(z * k as f64 / n as f64)).sum();
            assert!((probability - 0.5 - integral * z / n as f64 / 3.0).abs() < 1e-9, "{probability} {z}");
        }
    }
    let single_row = explanation.select_rows(&[0]).importance(0);
    assert!(
        single_row.std_error.is_none() && single_row.in_order.is_none() && single_row.interval(0.9).is_none()
    );
}

/// Components at `rows`, outside the inputs, and their posteriors against inclusion-exclusion sums over the
/// grid; they sum to f.
fn assert_inclusion_exclusion(
    fit: &GpFit,
    components: &Components<'_>,
    grid: &Grid,
    players: &[Vec<usize>],
    rows: &Table,
) {
    let p = players.len();
    let (mut sums, mut mixtures, mut columns) = (vec![0.0; 4], Vec::new(), Vec::new());
    let members = |mask: usize| -> Vec<usize> { (0..p).filter(|j| mask >> j & 1 == 1).collect() };
    for mask in 0..1_usize << p {
        let set = members(mask);
        let component = components.evaluate(&set, rows).unwrap();
        component.data().iter().zip(&mut sums).for_each(|(v, sum)| *sum += v);
        let posterior_mean = fit.posterior().mean_of(&components.functionals(&set, rows).unwrap());
        assert!(largest_difference(posterior_mean.data(), component.data()) < 1e-12);
        for r in 0..2 {
            let mut column = Vec::new();
            for part in (0..1_usize << p).filter(|part| part & !mask == 0) {
                let sign = if (mask ^ part).count_ones() % 2 == 0 { 1.0 } else { -1.0 };
                for (g, weight) in grid.weights.iter().enumerate() {
                    let mut row = grid.rows.row(g);
                    for j in members(part) {
                        players[j].iter().for_each(|&c| row[c] = rows.get(r, c));
                    }
                    column.push((mixtures.len(), sign * weight));
                    mixtures.push(row);
                }
            }
            columns.push(column);
        }
    }
    let truth = fit.model.predict(rows).unwrap();
    assert!(largest_difference(&sums, truth.data()) < 1e-10);
    let sparse = riesz::linalg::Sparse::from_columns(mixtures.len(), columns).unwrap();
    let truth =
        fit.posterior().weighted_sum_functionals(&Table::from_rows(&mixtures).unwrap(), &sparse).unwrap();
    let covariance = fit.posterior().covariance(&truth);
    let means = fit.posterior().mean_of(&truth);
    for mask in 0..1_usize << p {
        let functionals = components.functionals(&members(mask), rows).unwrap();
        let component = components.evaluate(&members(mask), rows).unwrap();
        let posterior = fit.posterior().covariance(&functionals);
        for (r, q) in [(0, 0), (0, 1), (1, 1)] {
            for o in 0..2 {
                let expected = covariance[o][(2 * mask + r, 2 * mask + q)];
                assert!((posterior[o][(r, q)] - expected).abs() < 1e-9, "{mask}");
                assert!((component[(r, o)] - means[(2 * mask + r, o)]).abs() < 1e-9);
            }
        }
    }
}

/// Over the inputs the components have mean 0, are orthogonal, and their variances are the Sobol indices.
fn assert_orthogonal(components: &Components<'_>, grid: &Grid, indices: &Explanation) {
    let evaluated: Vec<Matrix> = indices
        .subsets
        .as_ref()
        .unwrap()
        .iter()
        .map(|set| components.evaluate(set, &grid.rows).unwrap())
        .collect();
    for (k, component) in evaluated.iter().enumerate() {
        for (l, two) in evaluated.iter().enumerate() {
            let inner: f64 =
                (0..grid.weights.len()).map(|g| grid.weights[g] * component[(g, 0)] * two[(g, 0)]).sum();
            let truth = if k == l { indices.row_values(0, 0)[k] } else { 0.0 };
            assert!((inner - truth).abs() < 1e-10, "{k} {l} {inner} {truth}");
        }
        let mean: f64 = (0..grid.weights.len()).map(|g| grid.weights[g] * component[(g, 0)]).sum();
        assert!(mean.abs() < 1e-11);
    }
}

/// Values along columns equal those at arbitrary rows with the same entries.
fn assert_curves(fit: &GpFit, components: &Components<'_>, x: &Table) {
    let posterior = fit.posterior();
    for set in [vec![0], vec![3], vec![0, 3], vec![1, 2]] {
        let curve = components.curve_along(&set, x, Some(&posterior)).unwrap();
        let sizes: Vec<usize> = curve.axes.iter().map(|axis| axis.grid.len()).collect();
        assert_eq!(curve.values.rows(), sizes.iter().product::<usize>());
        for (axis, &j) in curve.axes.iter().zip(&set) {
            assert_eq!(axis.column, x.columns()[j].name);
            let ends =
                x.column(j).iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[l, h], v| [v.min(l), v.max(h)]);
            assert_eq!([axis.grid[0], axis.grid[axis.grid.len() - 1]], ends);
            assert!(axis.grid.windows(2).all(|pair| pair[0] < pair[1]));
        }
        for r in [0, 1, curve.values.rows() / 2, curve.values.rows() - 1] {
            let mut row = x.row(11);
            let (first, second) = (r / sizes.get(1).unwrap_or(&1), r % sizes.get(1).unwrap_or(&1));
            for (&j, (axis, position)) in set.iter().zip(curve.axes.iter().zip([first, second])) {
                row[j] = axis.grid[position];
            }
            let row = Table::from_column_major(x.columns().to_vec(), 1, row).unwrap();
            let truth = components.evaluate(&set, &row).unwrap();
            let covariance = posterior.covariance(&components.functionals(&set, &row).unwrap());
            for o in 0..2 {
                assert!((curve.values[(r, o)] - truth[(0, o)]).abs() < 1e-12);
                let sd = covariance[o][(0, 0)].max(0.0).sqrt();
                assert!((curve.sd.as_ref().unwrap()[(r, o)] - sd).abs() < 1e-9);
            }
        }
    }
    assert!(
        components.curve_along(&[0, 1, 2], x, None).is_err() && components.curve_along(&[], x, None).is_err()
    );
}

/// Components and their posteriors against inclusion-exclusion sums. They sum to f, have mean 0 and are
/// orthogonal, and their variances equal the Sobol indices.
#[test]
fn components_follow_their_definition() {
    let mut s = Stream(77);
    for kernel in kernels() {
        let (x, y) = (s.normals_and_levels(35, 4), (0..70).map(|_| s.signed()).collect());
        let fit = GaussianProcess::new(kernel, 0.3).fit(&x, &Matrix::from_row_major(35, 2, y)).unwrap();
        let inputs = Background { rows: s.normals_and_levels(3, 4), weights: Some(vec![1.0, 0.4, 2.0]) };
        let names: Vec<&str> = x.columns().iter().map(|c| c.name.as_str()).collect();
        let grouped = Players::named(x.columns(), &[("both", vec![names[1], names[2]])]).unwrap();
        for groups in [None, Some(grouped)] {
            let players: Vec<Vec<usize>> = match &groups {
                Some(groups) => groups.players().iter().map(|p| p.columns.clone()).collect(),
                None => (0..4).map(|j| vec![j]).collect(),
            };
            let components = Components::new(&fit.model, &inputs, groups.clone()).unwrap();
            let grid = grid(&inputs, &players);
            // Two rows outside the inputs.
            let rows = s.normals_and_levels(2, 4);
            assert_inclusion_exclusion(&fit, &components, &grid, &players, &rows);
            let sensitivity =
                Sensitivity { groups, index: "moebius".parse().unwrap(), ..Sensitivity::default() };
            let indices = sensitivity.run(&fit.model, &inputs).unwrap().explanation;
            assert_orthogonal(&components, &grid, &indices);
        }
        let components = Components::new(&fit.model, &inputs, None).unwrap();
        assert!(components.evaluate(&[1, 0], &x).is_err() && components.evaluate(&[4], &x).is_err());
        assert_curves(&fit, &components, &x);
    }
}
