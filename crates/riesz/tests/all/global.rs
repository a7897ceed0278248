//! Variances taken apart, against sums over all rows that independent players can make, and against published
//! closed forms.

use riesz::fit::{GaussianProcess, KernelRidge};
use riesz::global::{Components, Labels, Sage};
use riesz::kernel::{Categorical, Linear, Profile};
use riesz::{
    Background, Explainer, Kernel, KernelExpansion, Matrix, Players, Sensitivity, SobolIndices, Table,
    ValueIndex,
};

use crate::common::{Stream, largest_difference, stationary, table, with_threads};

/// All rows that players make who are independent of each other, with their probabilities, and which row of
/// the inputs each player took.
struct Grid {
    rows: Table,
    weights: Vec<f64>,
    taken: Vec<Vec<usize>>,
}

fn grid(inputs: &Background, players: &[Vec<usize>]) -> Grid {
    let n = inputs.rows.rows();
    let raw = inputs.weights.clone().unwrap_or_else(|| vec![1.0; n]);
    let total: f64 = raw.iter().sum();
    let (mut rows, mut weights, mut all) = (Vec::new(), Vec::new(), Vec::new());
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
        all.push(taken);
    }
    Grid { rows: Table::from_rows(&rows).unwrap(), weights, taken: all }
}

impl Grid {
    /// `Σ M_gh c_gh` where M makes of a function its variance given the players of `mask`.
    fn value(&self, mask: usize, of: &dyn Fn(usize, usize) -> f64) -> f64 {
        let same = |g: usize, h: usize| {
            (0..self.taken[g].len()).all(|j| mask >> j & 1 == 0 || self.taken[g][j] == self.taken[h][j])
        };
        let count = self.weights.len();
        let mut sum = 0.0;
        for g in 0..count {
            let together: f64 = (0..count).filter(|&h| same(g, h)).map(|h| self.weights[h]).sum();
            for h in 0..count {
                let pair = self.weights[g] * self.weights[h];
                let mean = if same(g, h) { pair / together } else { 0.0 };
                sum += (mean - pair) * of(g, h);
            }
        }
        sum
    }
}

fn factorial(k: usize) -> f64 {
    (1..=k).map(|i| i as f64).product()
}

/// First-order, Shapley and total values of each player by their definitions, from the values of all
/// coalitions.
fn definitions(values: &[f64], p: usize) -> [Vec<f64>; 3] {
    let all = values.len() - 1;
    let first = (0..p).map(|j| values[1 << j]).collect();
    let total = (0..p).map(|j| values[all] - values[all & !(1 << j)]).collect();
    let shapley = |j: usize| -> f64 {
        let others = (0..values.len()).filter(|mask| mask >> j & 1 == 0);
        others
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
    let all = Linear { columns: vec![0, 1, 2], center: vec![0.1; 3], scale: vec![1.0; 3] };
    vec![
        gaussian.clone() * category.clone(),
        0.7 * (gaussian * category)
            + linear(0) * stationary(Profile::Gaussian, 2, 1.0)
            + Kernel::constant(2.0),
        Kernel::from(all) + linear(0) * linear(1) * linear(3),
    ]
}

fn close(found: &SobolIndices, o: usize, truth: &[Vec<f64>; 3], variance: f64) {
    let own = [found.first_order(o), found.effects(o), found.total_order(o)];
    for (own, truth) in own.into_iter().zip(truth) {
        let off = largest_difference(own, truth);
        assert!(off <= found.bound(o) + 1e-13 * variance, "{off} {} {own:?} {truth:?}", found.bound(o));
    }
    assert!((found.variance(o) - variance).abs() <= found.bound(o) + 1e-13 * variance);
    assert!(found.bound(o) < 1e-9 * variance, "{} of {variance}", found.bound(o));
    assert!(found.explanation.certificate().is_none_or(|c| c.holds));
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
        let both = Players::named(points.columns(), &[("both", vec![names[0].as_str(), names[3].as_str()])])
            .unwrap();
        for (inputs, groups) in [(weighted, None), (twice.clone(), None), (twice, Some(both))] {
            let players: Vec<Vec<usize>> = match &groups {
                Some(groups) => groups.players().iter().map(|p| p.columns.clone()).collect(),
                None => (0..4).map(|j| vec![j]).collect(),
            };
            let p = players.len();
            let found = Sensitivity { groups: groups.clone(), ..Sensitivity::default() };
            let found = found.run(&model, &inputs).unwrap();
            let moebius = Sensitivity { groups, index: "moebius".parse().unwrap(), ..Sensitivity::default() };
            let moebius = moebius.run(&model, &inputs).unwrap().explanation;
            let grid = grid(&inputs, &players);
            let f = model.predict(&grid.rows).unwrap();
            for o in 0..2 {
                let values: Vec<f64> =
                    (0..1 << p).map(|mask| grid.value(mask, &|g, h| f[(g, o)] * f[(h, o)])).collect();
                close(&found, o, &definitions(&values, p), values[(1 << p) - 1]);
                assert!(found.explanation.certificate().unwrap().holds);
                let (first, effects, total) = (found.first_order(o), found.effects(o), found.total_order(o));
                let slack = 2.0 * found.bound(o);
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

/// The mean over a posterior of quadratic forms: that of the mean function, and the covariance's trace.
#[test]
fn expected_indices_are_means_over_the_posterior() {
    let mut s = Stream(3);
    for kernel in kernels() {
        let (x, y) = (s.normals_and_levels(40, 4), (0..80).map(|_| s.signed()).collect());
        let fit = GaussianProcess::new(kernel, 0.3).fit(&x, &Matrix::from_row_major(40, 2, y)).unwrap();
        let inputs = Background { rows: s.normals_and_levels(3, 4), weights: Some(vec![1.0, 0.4, 2.0]) };
        let found = Sensitivity::default().expected(&fit.model, &fit.covariance, &inputs).unwrap();
        let players: Vec<Vec<usize>> = (0..4).map(|j| vec![j]).collect();
        let grid = grid(&inputs, &players);
        let f = fit.model.predict(&grid.rows).unwrap();
        let posterior = fit.posterior();
        let covariance = posterior.covariance(&posterior.functionals_at(&grid.rows).unwrap());
        for o in 0..2 {
            let of = |g: usize, h: usize| f[(g, o)] * f[(h, o)] + covariance[o][(g, h)];
            let values: Vec<f64> = (0..16).map(|mask| grid.value(mask, &of)).collect();
            close(&found, o, &definitions(&values, 4), values[15]);
        }
    }
}

/// Where inputs are support points, draws are exact: as those of the posterior at all of them.
#[test]
fn draws_are_those_of_the_posterior() {
    let mut s = Stream(31);
    let rows: Vec<[f64; 2]> = (0..25).map(|i| [f64::from(i / 5), f64::from(i % 5) * 1.3]).collect();
    let x = Table::from_rows(&rows).unwrap();
    let y = Matrix::from_row_major(25, 2, (0..50).map(|_| s.signed()).collect());
    let fit = GaussianProcess::new(Kernel::gaussian(&[1.5, 1.5]), 0.5).fit(&x, &y).unwrap();
    let (inputs, draws) = (Background::from(x.clone()), 300);
    let found =
        Sensitivity::default().indices_of_draws(&fit.model, &fit.covariance, &inputs, (draws, 7)).unwrap();
    let posterior = fit.posterior();
    let samples = posterior.sample(&posterior.functionals_at(&x).unwrap(), draws, 7).unwrap();
    for o in 0..2 {
        for k in 0..draws {
            let f = samples.values[o].column(k);
            let mean = f.iter().sum::<f64>() / 25.0;
            let variance = f.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 25.0;
            assert!((found.variance(o * draws + k) - variance).abs() < 1e-6 * variance, "{o} {k}");
            let of_first = |a: usize| f[5 * a..5 * a + 5].iter().sum::<f64>() / 5.0 - mean;
            let first = (0..5).map(|a| of_first(a).powi(2)).sum::<f64>() / 5.0;
            assert!((found.first_order(o * draws + k)[0] - first).abs() < 1e-6 * variance);
        }
        // Their mean is what is expected.
        let expected = Sensitivity::default().expected(&fit.model, &fit.covariance, &inputs).unwrap();
        let own: Vec<f64> = (0..draws).map(|k| found.effects(o * draws + k)[1]).collect();
        let mean = own.iter().sum::<f64>() / draws as f64;
        let error = (own.iter().map(|v| (v - mean).powi(2)).sum::<f64>()).sqrt() / draws as f64;
        assert!((mean - expected.effects(o)[1]).abs() < 4.5 * error);
    }
    assert!(Sensitivity::default().indices_of_draws(&fit.model, &fit.covariance, &inputs, (0, 0)).is_err());
}

/// Ishigami's function `sin x₁ + a sin² x₂ + b x₃⁴ sin x₁` through a kernel expansion, against its published
/// indices.
#[test]
fn ishigamis_function_has_its_published_indices() {
    use std::f64::consts::PI;
    let (a, b) = (7.0, 0.1);
    let mut s = Stream(9);
    let rows: Vec<[f64; 3]> = (0..350).map(|_| [0; 3].map(|_| PI * s.signed())).collect();
    let f = |x: &[f64; 3]| x[0].sin() + a * x[1].sin().powi(2) + b * x[2].powi(4) * x[0].sin();
    let one = |j| stationary(Profile::Gaussian, j, 2.0);
    let kernel = one(0) * one(2) + one(1);
    let y = Matrix::column_vector(rows.iter().map(f).collect());
    let fit = KernelRidge::new(kernel, 1e-7).fit(&Table::from_rows(&rows).unwrap(), &y).unwrap();
    let inputs: Vec<[f64; 3]> = (0..100).map(|k| [(f64::from(k) + 0.5) * PI / 50.0 - PI; 3]).collect();
    let inputs = Background::from(Table::from_rows(&inputs).unwrap());
    let found = Sensitivity::default().run(&fit.model, &inputs).unwrap();
    let (first, second) = (0.5 * (1.0 + b * PI.powi(4) / 5.0).powi(2), a * a / 8.0);
    let both = b * b * PI.powi(8) * (1.0 / 18.0 - 1.0 / 50.0);
    let variance = first + second + both;
    let near = |a: f64, b: f64| assert!((a - b).abs() < 2e-3 * variance, "{a} {b}");
    near(found.variance(0), variance);
    for (j, truth) in [first, second, 0.0].into_iter().enumerate() {
        near(found.first_order(0)[j], truth);
    }
    for (j, truth) in [first + both / 2.0, second, both / 2.0].into_iter().enumerate() {
        near(found.effects(0)[j], truth);
    }
    for (j, truth) in [first + both, second, both].into_iter().enumerate() {
        near(found.total_order(0)[j], truth);
    }
    assert!(found.explanation.certificate().unwrap().holds, "{:?}", found.explanation.certificate());
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
    let (one, two) = (with_threads(1, find), with_threads(3, find));
    assert_eq!(one, two);
    let certificate = one.explanation.certificate().unwrap();
    // Relative to what is added up: coefficients of all pairs of points.
    let size = model.coef.data().iter().map(|c| c.abs()).sum::<f64>().powi(2);
    assert!(certificate.holds && certificate.bound < 1e-12 * size, "{certificate:?} {size}");
    assert!(one.scale(0).is_some_and(|scale| (scale * one.variance(0) - 1.0).abs() < 1e-15));
}

#[test]
fn what_cannot_be_taken_apart_is_refused() {
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
    // Together they are one player, who explains everything.
    let names: Vec<&str> = model.columns().iter().map(|c| c.name.as_str()).collect();
    let groups = Players::named(model.columns(), &[("both", names)]).unwrap();
    let whole = Sensitivity { groups: Some(groups), ..Sensitivity::default() }.run(&model, &inputs).unwrap();
    assert!((whole.first_order(0)[0] - whole.variance(0)).abs() <= whole.bound(0));
    // A model that does not vary has no shares.
    let flat =
        KernelExpansion::new(Kernel::constant(1.0), table(0, 3, 2), Matrix::zeros(3, 1), vec![1.0]).unwrap();
    let flat = Sensitivity::default().run(&flat, &inputs).unwrap();
    assert!(flat.scale(0).is_none() && flat.explanation.index == ValueIndex::Shapley);
}

/// Two outputs, or two classes.
fn fitted(s: &mut Stream, d: usize) -> (KernelExpansion, Table) {
    let x = s.normals(30, d);
    let coef = Matrix::from_row_major(30, 2, (0..60).map(|_| s.signed()).collect());
    (KernelExpansion::new(Kernel::gaussian(&vec![1.5; d]), x.clone(), coef, vec![0.2, -0.1]).unwrap(), x)
}

/// Mean outputs, or probabilities, of a row with absent players from the background, one by one.
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
        let own = if classes { model.probabilities(out.row(0)).unwrap() } else { out.row(0).to_vec() };
        mean.iter_mut().zip(own).for_each(|(sum, v)| *sum += weight / total * v);
    }
    mean
}

/// The definition, by brute force; where orders are drawn, within their error.
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
        let found = Sage::default().run(&model, &x, &labels, &background).unwrap();
        assert!(found.sampling_error.is_none() && found.coalitions == 16);
        assert!(largest_difference(&found.values, &truth) < 1e-12, "{:?} {truth:?}", found.values);
        assert!((found.base_loss + values[0]).abs() < 1e-12 && (found.loss + values[15]).abs() < 1e-12);
        let sum: f64 = found.values.iter().sum();
        assert!((sum - (found.base_loss - found.loss)).abs() < 1e-12);
        // By row the same, so that errors over rows are those of a mean.
        for j in 0..d {
            let by_row: Vec<f64> = (0..6)
                .map(|i| definitions(&(0..1 << d).map(|mask| -loss(i, mask)).collect::<Vec<_>>(), d)[1][j])
                .collect();
            let mean = by_row.iter().sum::<f64>() / 6.0;
            let error = (by_row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 30.0).sqrt();
            assert!((found.std_error.as_ref().unwrap()[j] - error).abs() < 1e-12);
        }
        // One order and its reverse say nothing of how far others are.
        let one = Sage { permutations: 1, ..Sage::default() }.run(&model, &x, &labels, &background);
        assert!(one.unwrap_err().to_string().contains("permutations"));
        let sum: f64 = found.values.iter().sum();
        assert!((sum - (found.base_loss - found.loss)).abs() < 1e-12);
        let plain = found.explanation(&model, &x, 0).unwrap();
        plain.validate().unwrap();
        assert!(plain.residuals()[0].abs() < 1e-12);
    }
    let error =
        Sage::default().run(&model, &x, &Labels::Classes(vec![2; 6]), &background).unwrap_err().to_string();
    assert!(error.contains("from 0 to 1"), "{error}");
    assert!(Sage::default().run(&model, &x, &Labels::Classes(vec![0; 5]), &background).is_err());
}

/// Of a kernel that has no tables, with so many features that orders are drawn: within their errors.
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
    let found = with_threads(1, sampled);
    assert_eq!(found, with_threads(3, sampled));
    let errors = found.sampling_error.unwrap();
    for j in 0..d {
        // Student's .9999 quantile with 24 degrees of freedom is 4.6.
        assert!((found.values[j] - exact.values[j]).abs() < 4.6 * errors[j], "{j}");
        assert!(errors[j] < 0.5 * exact.values.iter().fold(0.0, |m: f64, v| m.max(v.abs())));
    }
    assert!((found.loss - exact.loss).abs() < 1e-15);
}

/// Squared errors by tables, where orders would be drawn: as by predictions for all coalitions, of a model
/// that is the same but has no tables.
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
        let found = with_threads(1, || run(&model, &sage));
        assert_eq!(found, with_threads(3, || run(&model, &sage)));
        assert!(found.sampling_error.is_none() && found.coalitions == 1 << d);
        // A factor that can be larger than 1 has no tables; this one counts for nothing.
        let mut other = model.clone();
        other.kernel = other.kernel + 1e-300 * linear(0);
        let truth = run(&other, &Sage { permutations: 1000, ..Sage::default() });
        assert!(truth.sampling_error.is_none());
        assert!(largest_difference(&found.values, &truth.values) < 1e-12);
        let errors = |own: &riesz::global::SageValues| own.std_error.clone().unwrap();
        assert!(largest_difference(&errors(&found), &errors(&truth)) < 1e-12);
        assert!((found.values.iter().sum::<f64>() - (found.base_loss - found.loss)).abs() < 1e-12);
    }
}

/// By hand: means, standard errors, quantiles, and the normal distribution function.
#[test]
fn importance_is_a_mean_with_its_error() {
    let (model, x) = fitted(&mut Stream(6), 3);
    let explanation = Explainer::interventional(&model, &x).unwrap().explain(&x).unwrap();
    for o in 0..2 {
        let found = explanation.importance(o);
        let column = |k: usize| (0..30).map(|i| explanation.row_values(i, o)[k].abs()).collect::<Vec<f64>>();
        let moments = |v: &[f64]| {
            let mean = v.iter().sum::<f64>() / 30.0;
            (mean, (v.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / 29.0 / 30.0).sqrt())
        };
        let spans = found.interval(0.95).unwrap();
        for k in 0..3 {
            let (mean, error) = moments(&column(k));
            assert!((found.mean_abs[k] - mean).abs() < 1e-14);
            assert!((found.std_error.as_ref().unwrap()[k] - error).abs() < 1e-14);
            // Student's .975 quantile with 29 degrees of freedom.
            assert!((spans[k][1] - mean - 2.045_229_642 * error).abs() < 1e-8);
            let mut sorted = column(k);
            sorted.sort_by(f64::total_cmp);
            assert!((found.quantiles[k][1] - (sorted[14] + sorted[15]) / 2.0).abs() < 1e-15);
            assert!((found.quantiles[k][0] - (0.55 * sorted[1] + 0.45 * sorted[2])).abs() < 1e-14);
        }
        for (pair, chance) in found.order.windows(2).zip(found.in_order.unwrap()) {
            let differences: Vec<f64> =
                column(pair[0]).iter().zip(column(pair[1])).map(|(a, b)| a - b).collect();
            let (mean, error) = moments(&differences);
            assert!((0.5..=1.0).contains(&chance));
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
            assert!((chance - 0.5 - integral * z / n as f64 / 3.0).abs() < 1e-9, "{chance} {z}");
        }
    }
    let one = explanation.select_rows(&[0]).importance(0);
    assert!(one.std_error.is_none() && one.in_order.is_none() && one.interval(0.9).is_none());
}

/// Each component from means of the model over all rows that independent players make, by inclusion and
/// exclusion; that they sum up to f, have no mean, and are orthogonal with the variances that Sobol indices
/// say; and posteriors from sums over those rows.
#[test]
fn components_follow_their_definition() {
    let mut s = Stream(77);
    for kernel in kernels() {
        let (x, y) = (s.normals_and_levels(35, 4), (0..70).map(|_| s.signed()).collect());
        let fit = GaussianProcess::new(kernel, 0.3).fit(&x, &Matrix::from_row_major(35, 2, y)).unwrap();
        let inputs = Background { rows: s.normals_and_levels(3, 4), weights: Some(vec![1.0, 0.4, 2.0]) };
        let names: Vec<&str> = x.columns().iter().map(|c| c.name.as_str()).collect();
        let both = Players::named(x.columns(), &[("both", vec![names[1], names[2]])]).unwrap();
        for groups in [None, Some(both)] {
            let players: Vec<Vec<usize>> = match &groups {
                Some(groups) => groups.players().iter().map(|p| p.columns.clone()).collect(),
                None => (0..4).map(|j| vec![j]).collect(),
            };
            let p = players.len();
            let components = Components::new(&fit.model, &inputs, groups.clone()).unwrap();
            let grid = grid(&inputs, &players);
            // Two rows that are no inputs.
            let rows = s.normals_and_levels(2, 4);
            let (mut sums, mut mixtures, mut columns) = (vec![0.0; 4], Vec::new(), Vec::new());
            let found = |mask: usize| -> Vec<usize> { (0..p).filter(|j| mask >> j & 1 == 1).collect() };
            for mask in 0..1_usize << p {
                let set = found(mask);
                let at = components.at(&set, &rows).unwrap();
                at.data().iter().zip(&mut sums).for_each(|(v, sum)| *sum += v);
                let own = fit.posterior().mean_of(&components.functionals(&set, &rows).unwrap());
                assert!(largest_difference(own.data(), at.data()) < 1e-12);
                for r in 0..2 {
                    let mut column = Vec::new();
                    for part in (0..1_usize << p).filter(|part| part & !mask == 0) {
                        let sign = if (mask ^ part).count_ones() % 2 == 0 { 1.0 } else { -1.0 };
                        for (g, weight) in grid.weights.iter().enumerate() {
                            let mut row = grid.rows.row(g);
                            for j in found(part) {
                                players[j].iter().for_each(|&c| row[c] = rows.get(r, c));
                            }
                            column.push((mixtures.len(), sign * weight));
                            mixtures.push(row);
                        }
                    }
                    columns.push(column);
                }
            }
            let truth = fit.model.predict(&rows).unwrap();
            assert!(largest_difference(&sums, truth.data()) < 1e-10);
            let sparse = riesz::linalg::Sparse::from_columns(mixtures.len(), columns).unwrap();
            let truth = fit
                .posterior()
                .weighted_sum_functionals(&Table::from_rows(&mixtures).unwrap(), &sparse)
                .unwrap();
            let covariance = fit.posterior().covariance(&truth);
            let means = fit.posterior().mean_of(&truth);
            for mask in 0..1_usize << p {
                let own = components.functionals(&found(mask), &rows).unwrap();
                let at = components.at(&found(mask), &rows).unwrap();
                let posterior = fit.posterior().covariance(&own);
                for (r, q) in [(0, 0), (0, 1), (1, 1)] {
                    for o in 0..2 {
                        let expected = covariance[o][(2 * mask + r, 2 * mask + q)];
                        assert!((posterior[o][(r, q)] - expected).abs() < 1e-9, "{mask}");
                        assert!((at[(r, o)] - means[(2 * mask + r, o)]).abs() < 1e-9);
                    }
                }
            }
            // Over the inputs: no mean, orthogonal, variances of which Sobol indices are made.
            let sensitivity =
                Sensitivity { groups, index: "moebius".parse().unwrap(), ..Sensitivity::default() };
            let indices = sensitivity.run(&fit.model, &inputs).unwrap().explanation;
            let at: Vec<Matrix> = indices
                .subsets
                .as_ref()
                .unwrap()
                .iter()
                .map(|set| components.at(set, &grid.rows).unwrap())
                .collect();
            for (k, one) in at.iter().enumerate() {
                for (l, two) in at.iter().enumerate() {
                    let inner: f64 =
                        (0..grid.weights.len()).map(|g| grid.weights[g] * one[(g, 0)] * two[(g, 0)]).sum();
                    let truth = if k == l { indices.row_values(0, 0)[k] } else { 0.0 };
                    assert!((inner - truth).abs() < 1e-10, "{k} {l} {inner} {truth}");
                }
                let mean: f64 = (0..grid.weights.len()).map(|g| grid.weights[g] * one[(g, 0)]).sum();
                assert!(mean.abs() < 1e-11);
            }
        }
        let components = Components::new(&fit.model, &inputs, None).unwrap();
        assert!(components.at(&[1, 0], &x).is_err() && components.at(&[4], &x).is_err());
        // Along columns: as at rows like any other with places there.
        let posterior = fit.posterior();
        for set in [vec![0], vec![3], vec![0, 3], vec![1, 2]] {
            let curve = components.curve_along(&set, &x, Some(&posterior)).unwrap();
            let sizes: Vec<usize> = curve.axes.iter().map(|axis| axis.at.len()).collect();
            assert_eq!(curve.values.rows(), sizes.iter().product::<usize>());
            for (axis, &j) in curve.axes.iter().zip(&set) {
                assert_eq!(axis.column, x.columns()[j].name);
                let ends = x
                    .column(j)
                    .iter()
                    .fold([f64::INFINITY, f64::NEG_INFINITY], |[l, h], v| [v.min(l), v.max(h)]);
                assert_eq!([axis.at[0], axis.at[axis.at.len() - 1]], ends);
                assert!(axis.at.windows(2).all(|pair| pair[0] < pair[1]));
            }
            for r in [0, 1, curve.values.rows() / 2, curve.values.rows() - 1] {
                let mut row = x.row(11);
                let (first, last) = (r / sizes.get(1).unwrap_or(&1), r % sizes.get(1).unwrap_or(&1));
                for (&j, (axis, at)) in set.iter().zip(curve.axes.iter().zip([first, last])) {
                    row[j] = axis.at[at];
                }
                let row = Table::from_column_major(x.columns().to_vec(), 1, row).unwrap();
                let truth = components.at(&set, &row).unwrap();
                let covariance = posterior.covariance(&components.functionals(&set, &row).unwrap());
                for o in 0..2 {
                    assert!((curve.values[(r, o)] - truth[(0, o)]).abs() < 1e-12);
                    let sd = covariance[o][(0, 0)].max(0.0).sqrt();
                    assert!((curve.sd.as_ref().unwrap()[(r, o)] - sd).abs() < 1e-9);
                }
            }
        }
        assert!(
            components.curve_along(&[0, 1, 2], &x, None).is_err()
                && components.curve_along(&[], &x, None).is_err()
        );
    }
}
