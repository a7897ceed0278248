//! Variances taken apart, against sums over all rows that independent players can make, and against published closed forms.

use riesz::fit::{GaussianProcess, KernelRidge};
use riesz::kernel::{Categorical, Linear, Profile};
use riesz::{Background, Expansion, Groups, Index, Kernel, Matrix, Sensitivity, SobolIndices, Table};

use crate::common::{Stream, largest_difference, stationary, table, with_threads};

/// All rows that players make who are independent of each other, with their probabilities, and which row of the inputs each player took.
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

/// First-order, Shapley and total values of each player by their definitions, from the values of all coalitions.
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

/// Kernels of one product and of several, factors of all signs, groups, weights and duplicates, two outputs, more points than a tile.
#[test]
fn indices_follow_their_definitions() {
    let mut s = Stream(41);
    for kernel in kernels() {
        let points = s.normals_and_levels(45, 4);
        let coef = Matrix::from_row_major(45, 2, (0..90).map(|_| s.signed()).collect());
        let model = Expansion::new(kernel, points.clone(), coef, vec![5.0, -1.0]).unwrap();
        let rows = s.normals_and_levels(3, 4).stack(&points.select_rows(&[7])).unwrap();
        let weighted = Background { rows: rows.clone(), weights: Some(vec![1.0, 2.0, 0.5, 1.5]) };
        let twice = Background::from(rows.select_rows(&[0, 1, 1, 2]));
        let names: Vec<String> = points.columns().iter().map(|c| c.name.clone()).collect();
        let both =
            Groups::named(points.columns(), &[("both", vec![names[0].as_str(), names[3].as_str()])]).unwrap();
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
        let covariance = posterior.covariance(&posterior.at(&grid.rows).unwrap());
        for o in 0..2 {
            let of = |g: usize, h: usize| f[(g, o)] * f[(h, o)] + covariance[o][(g, h)];
            let values: Vec<f64> = (0..16).map(|mask| grid.value(mask, &of)).collect();
            close(&found, o, &definitions(&values, 4), values[15]);
        }
    }
}

/// Ishigami's function `sin x₁ + a sin² x₂ + b x₃⁴ sin x₁` through a kernel expansion, against its published indices.
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
        Expansion::new(Kernel::gaussian(&vec![5.0; d]), s.normals(70, d), coef, vec![0.0]).unwrap()
    };
    let inputs = Background::from(s.normals(50, d));
    let find = || Sensitivity::default().run(&model, &inputs).unwrap();
    let (one, two) = (with_threads(1, find), with_threads(3, find));
    assert_eq!(one, two);
    let certificate = one.explanation.certificate().unwrap();
    // Relative to what is added up: coefficients of all pairs of points.
    let size = model.coef.data().iter().map(|c| c.abs()).sum::<f64>().powi(2);
    assert!(certificate.holds && certificate.bound < 1e-12 * size, "{certificate:?} {size}");
    assert!(one.scale(0).is_some_and(|scale| scale * one.variance(0) == 1.0));
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
    let groups = Groups::named(model.columns(), &[("both", names)]).unwrap();
    let whole = Sensitivity { groups: Some(groups), ..Sensitivity::default() }.run(&model, &inputs).unwrap();
    assert!((whole.first_order(0)[0] - whole.variance(0)).abs() <= whole.bound(0));
    // A model that does not vary has no shares.
    let flat = Expansion::new(Kernel::constant(1.0), table(0, 3, 2), Matrix::zeros(3, 1), vec![1.0]).unwrap();
    let flat = Sensitivity::default().run(&flat, &inputs).unwrap();
    assert!(flat.scale(0).is_none() && flat.explanation.index == Index::Shapley);
}
