//! Choices from sets: against duels for sets of two, a dense Newton method written out, finite differences,
//! and quadrature.

use std::sync::atomic::AtomicBool;

use riesz::model_average::ModelPart;
use riesz::preference::{
    Choices, Duels, Inference, Pair, PairKernel, PreferenceFit, PreferenceProcess, SetRows,
    choice_probabilities, prepare_choices, prepare_entries, rows_of_sets, wide_rows,
};
use riesz::{Kernel, Matrix, Table};

use crate::common::Stream;

fn process(extra_utility: bool) -> PreferenceProcess {
    let kernel = Kernel::gaussian(&[1.3, 0.8]) + 0.2 * Kernel::gaussian(&[4.0]);
    let mut prior = PairKernel::new(kernel, 1.7, 0.0);
    prior.extra_utility_kernel = extra_utility.then(|| 0.6 * Kernel::gaussian(&[0.4]));
    PreferenceProcess { prior, tune: false, ..PreferenceProcess::new(Kernel::constant(1.0)) }
}

/// Sets of 2 to 4 of seven items, of which item 4 is in none, with rankings of different lengths.
fn case() -> (Table, Choices) {
    let items = Stream(5).normals(8, 2);
    let sets = [vec![0, 1, 2], vec![3, 1, 5, 6], vec![2, 6], vec![0, 5, 3], vec![0, 1, 2], vec![7, 2, 0, 5]];
    let chosen = [vec![2], vec![5, 1], vec![6], vec![0], vec![0], vec![7, 5, 0, 2]];
    let weights = [1.0, 2.0, 1.5, 1.0, 0.5, 1.0];
    (items, Choices::new(8, &sets, &chosen, Some(&weights)).unwrap())
}

/// The choices of [`case`] one by one: set, chosen item and weight.
fn stages() -> Vec<(Vec<usize>, usize, f64)> {
    vec![
        (vec![0, 1, 2], 2, 1.0),
        (vec![3, 1, 5, 6], 5, 2.0),
        (vec![3, 1, 6], 1, 2.0),
        (vec![2, 6], 6, 1.5),
        (vec![0, 5, 3], 0, 1.0),
        (vec![0, 1, 2], 0, 0.5),
        (vec![7, 2, 0, 5], 7, 1.0),
        (vec![2, 0, 5], 5, 1.0),
        (vec![2, 0], 0, 1.0),
    ]
}

fn pairs(n: usize) -> Vec<Pair> {
    (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).collect()
}

/// Returns the mean and the covariance of the log odds of all pairs of items.
fn moments(fit: &PreferenceFit, items: &Table) -> (Vec<f64>, Matrix) {
    let rows = wide_rows(items, &pairs(items.rows())).unwrap();
    let posterior = fit.posterior();
    let functionals = posterior.functionals_at(&rows).unwrap();
    (posterior.mean_of(&functionals).column(0), posterior.covariance(&functionals)[0].clone())
}

fn assert_near(actual: f64, expected: f64, tolerance: f64) {
    assert!((actual - expected).abs() <= tolerance * (1.0 + expected.abs()), "{actual} is not {expected}");
}

fn assert_moments_near(actual: &(Vec<f64>, Matrix), expected: &(Vec<f64>, Matrix), tolerance: f64) {
    actual.0.iter().zip(&expected.0).for_each(|(a, b)| assert_near(*a, *b, tolerance));
    actual.1.data().iter().zip(expected.1.data()).for_each(|(a, b)| assert_near(*a, *b, tolerance));
}

#[test]
fn sets_of_two_are_duels() {
    let items = Stream(5).normals(7, 2);
    // The first list of duels has fewer distinct pairs than items, the second one more.
    let tree = [(0, 1), (1, 2), (2, 1), (3, 4), (0, 1)];
    let dense =
        [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (2, 5), (1, 4), (0, 3), (2, 0), (0, 2), (6, 1)];
    for duels in [&tree[..], &dense[..]] {
        let (left, right): (Vec<usize>, Vec<usize>) = duels.iter().copied().unzip();
        let weight: Vec<f64> = (0..left.len()).map(|i| 1.0 + 0.25 * (i % 3) as f64).collect();
        let as_duels = Duels::new(7, &left, &right, &vec![1.0; left.len()], Some(&weight)).unwrap();
        let sets: Vec<Vec<usize>> = duels.iter().map(|(l, r)| vec![*r, *l]).collect();
        let chosen: Vec<Vec<usize>> = left.iter().map(|l| vec![*l]).collect();
        let as_choices = Choices::new(7, &sets, &chosen, Some(&weight)).unwrap();
        assert_eq!(as_choices.count(), left.len());
        for extra_utility in [false, true] {
            let process = process(extra_utility);
            let (a, b) =
                (process.fit(&items, &as_duels).unwrap(), process.fit_choices(&items, &as_choices).unwrap());
            assert_near(b.log_marginal_likelihood, a.log_marginal_likelihood, 1e-12);
            assert_moments_near(&moments(&b, &items), &moments(&a, &items), 1e-12);
            let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value + 0.1).collect();
            let of_duels = process.log_marginal_likelihood(&items, &as_duels, &theta).unwrap();
            let of_choices = process.log_marginal_likelihood_of_choices(&items, &as_choices, &theta).unwrap();
            assert_near(of_choices.0, of_duels.0, 1e-12);
            of_choices.1.iter().zip(&of_duels.1).for_each(|(a, b)| assert_near(*a, *b, 1e-11));
        }
    }
}

/// Returns the inverse and the logarithm of the determinant by Gauss-Jordan elimination with pivoting.
fn inverse(matrix: &Matrix) -> (Matrix, f64) {
    let n = matrix.rows();
    let mut a = matrix.clone();
    let mut out = Matrix::from_fn(n, n, |i, j| f64::from(u8::from(i == j)));
    let mut log_det = 0.0;
    for c in 0..n {
        let pivot = (c..n).max_by(|i, j| a[(*i, c)].abs().total_cmp(&a[(*j, c)].abs())).unwrap();
        for j in 0..n {
            (a[(c, j)], a[(pivot, j)]) = (a[(pivot, j)], a[(c, j)]);
            (out[(c, j)], out[(pivot, j)]) = (out[(pivot, j)], out[(c, j)]);
        }
        log_det += a[(c, c)].abs().ln();
        let scale = a[(c, c)];
        for j in 0..n {
            a[(c, j)] /= scale;
            out[(c, j)] /= scale;
        }
        for i in (0..n).filter(|i| *i != c) {
            let factor = a[(i, c)];
            for j in 0..n {
                a[(i, j)] -= factor * a[(c, j)];
                out[(i, j)] -= factor * out[(c, j)];
            }
        }
    }
    (out, log_det)
}

/// Returns the posterior of the utilities of all items by Newton's method with dense inverses: mean,
/// covariance, and Laplace's log marginal likelihood.
fn dense_posterior(items: &Table, process: &PreferenceProcess) -> (Vec<f64>, Matrix, f64) {
    let n = items.rows();
    let prior = &process.prior;
    let mut k = prior.items.gram(items);
    k.scale(prior.utility_variance);
    k.add_times(1.0, &prior.extra_utility_kernel.as_ref().unwrap().gram(items));
    let (precision, _) = inverse(&k);
    let mut f = vec![0.0; n];
    for _ in 0..60 {
        let (gradient, w, _) = derivatives(&f);
        let mut total = precision.clone();
        total.add_times(1.0, &w);
        let (covariance, _) = inverse(&total);
        let residual: Vec<f64> =
            (0..n).map(|i| gradient[i] - (0..n).map(|j| precision[(i, j)] * f[j]).sum::<f64>()).collect();
        let step = covariance.matvec(&residual);
        f.iter_mut().zip(step).for_each(|(f, s)| *f += 0.8 * s);
    }
    let (_, w, log_likelihood) = derivatives(&f);
    let mut total = precision.clone();
    total.add_times(1.0, &w);
    let (covariance, _) = inverse(&total);
    let mut b = k.matmul(&w);
    b.add_diagonal(|_| 1.0);
    let (_, log_det) = inverse(&b);
    let quadratic: f64 =
        (0..n).map(|i| f[i] * precision.row(i).iter().zip(&f).map(|(p, f)| p * f).sum::<f64>()).sum();
    (f, covariance, log_likelihood - 0.5 * quadratic - 0.5 * log_det)
}

/// Returns the gradient, minus the Hessian and the value of the log likelihood of [`stages`] in the
/// utilities.
fn derivatives(f: &[f64]) -> (Vec<f64>, Matrix, f64) {
    let n = f.len();
    let (mut gradient, mut w, mut value) = (vec![0.0; n], Matrix::zeros(n, n), 0.0);
    for (set, chosen, weight) in stages() {
        let total: f64 = set.iter().map(|a| f[*a].exp()).sum();
        gradient[chosen] += weight;
        value += weight * (f[chosen] - total.ln());
        for a in &set {
            let p = f[*a].exp() / total;
            gradient[*a] -= weight * p;
            w[(*a, *a)] += weight * p;
            set.iter().for_each(|b| w[(*a, *b)] -= weight * p * f[*b].exp() / total);
        }
    }
    (gradient, w, value)
}

#[test]
fn posterior_matches_dense_newton() {
    let (items, choices) = case();
    let process = process(true);
    let fit = process.fit_choices(&items, &choices).unwrap();
    let (f, covariance, evidence) = dense_posterior(&items, &process);
    let all_pairs = pairs(8);
    let mean = all_pairs.iter().map(|(i, j)| f[*i] - f[*j]).collect();
    let c = |i: usize, j: usize| covariance[(i, j)];
    let of_pairs = Matrix::from_fn(all_pairs.len(), all_pairs.len(), |p, q| {
        let ((i, j), (k, l)) = (all_pairs[p], all_pairs[q]);
        c(i, k) - c(i, l) - c(j, k) + c(j, l)
    });
    assert_moments_near(&moments(&fit, &items), &(mean, of_pairs), 1e-9);
    assert_near(fit.log_marginal_likelihood, evidence, 1e-9);
}

#[test]
fn evidence_gradient_matches_finite_differences() {
    let (items, choices) = case();
    let process = process(true);
    let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value + 0.2).collect();
    let (_, gradient) = process.log_marginal_likelihood_of_choices(&items, &choices, &theta).unwrap();
    for (i, slope) in gradient.iter().enumerate() {
        let value = |step: f64| {
            let mut moved = theta.clone();
            moved[i] += step;
            process.log_marginal_likelihood_of_choices(&items, &choices, &moved).unwrap().0
        };
        assert_near(*slope, (value(1e-4) - value(-1e-4)) / 2e-4, 1e-6);
    }
    // Tuning increases the evidence.
    let tuned = PreferenceProcess { tune: true, ..process.clone() };
    let fit = tuned.fit_choices(&items, &choices).unwrap();
    let start = process.fit_choices(&items, &choices).unwrap();
    assert!(fit.log_marginal_likelihood > start.log_marginal_likelihood);
    let average = tuned.average_choices(&fit, &items, &choices, 8).unwrap();
    assert!(average.into_models().models.len() > 1);
}

#[test]
fn rankings_are_sequences_of_choices() {
    let (_, ranked) = case();
    let (sets, rest): (Vec<Vec<usize>>, Vec<(usize, f64)>) =
        stages().into_iter().map(|(set, chosen, weight)| (set, (chosen, weight))).unzip();
    let (chosen, weights): (Vec<Vec<usize>>, Vec<f64>) = rest.into_iter().map(|(c, w)| (vec![c], w)).unzip();
    assert_eq!(ranked, Choices::new(8, &sets, &chosen, Some(&weights)).unwrap());
    assert_eq!((ranked.count(), ranked.sets()), (9, 8));
}

#[test]
fn abilities_of_items_in_sets_are_those_of_duels() {
    let items = Stream(3).normals(5, 2);
    let names: Vec<String> = (0..5).map(|i| format!("item {i}")).collect();
    let duels = [(0, 1), (1, 3), (3, 4), (4, 0), (0, 3)];
    let (left, right): (Vec<usize>, Vec<usize>) = duels.iter().copied().unzip();
    let entries = prepare_entries(&items, (&left, &right), &[1.0; 5], None, Some(&names)).unwrap();
    let sets: Vec<Vec<usize>> = duels.iter().map(|(l, r)| vec![*l, *r]).collect();
    let chosen: Vec<Vec<usize>> = left.iter().map(|l| vec![*l]).collect();
    let choices = Choices::new(5, &sets, &chosen, None).unwrap();
    let prepared = prepare_choices(&items, &choices, Some(&names)).unwrap();
    assert_eq!(prepared.table, entries.table);
    let mut process = process(false);
    process.prior.extra_utility_kernel = entries.extra_utility_kernel;
    assert_eq!(process.prior.extra_utility_kernel, prepared.extra_utility_kernel);
    let as_duels = Duels::new(4, &entries.left, &entries.right, &[1.0; 5], None).unwrap();
    let (a, b) = (
        process.fit(&entries.table, &as_duels).unwrap(),
        process.fit_choices(&prepared.table, &prepared.choices).unwrap(),
    );
    assert_moments_near(&moments(&b, &entries.table), &moments(&a, &entries.table), 1e-12);
}

#[test]
fn choice_probabilities_match_quadrature() {
    let (items, choices) = case();
    let process = process(true);
    let fit = process.fit_choices(&items, &choices).unwrap();
    let (f, covariance, _) = dense_posterior(&items, &process);
    let part = ModelPart::single(&fit.model, Some(&fit.covariance));
    let (a, b, c) = (3, 0, 4);
    let stop = AtomicBool::new(false);
    let sets = [vec![a, b, c], vec![a, b], vec![b, a]];
    let predicted = choice_probabilities(&[part], &items, &sets, (40_000, 1), &stop).unwrap();
    // A grid over the two log odds against the first item.
    let mean = [f[b] - f[a], f[c] - f[a]];
    let cov = |i: usize, j: usize| {
        covariance[(i, j)] - covariance[(i, a)] - covariance[(a, j)] + covariance[(a, a)]
    };
    let l11 = cov(b, b).sqrt();
    let l21 = cov(b, c) / l11;
    let l22 = (cov(c, c) - l21 * l21).sqrt();
    let (mut sums, mut total, mut two) = ([0.0; 3], 0.0, 0.0);
    let node = |k: usize| -7.0 + 14.0 * (k as f64 + 0.5) / 300.0;
    for (x, y) in (0..300).flat_map(|i| (0..300).map(move |j| (i, j))).map(|(i, j)| (node(i), node(j))) {
        let weight = (-0.5 * (x * x + y * y)).exp();
        let g = [0.0, mean[0] + l11 * x, mean[1] + l21 * x + l22 * y];
        let sum: f64 = g.iter().map(|v| v.exp()).sum();
        sums.iter_mut().zip(g).for_each(|(s, v)| *s += weight * v.exp() / sum);
        two += weight / (1.0 + g[1].exp());
        total += weight;
    }
    for (i, sum) in sums.iter().enumerate() {
        let (p, error) = (predicted[0].probability[i], predicted[0].std_error[i]);
        assert!(error > 1e-4 && (p - sum / total).abs() < 5.0 * error, "{p} {}", sum / total);
    }
    assert_near(predicted[0].probability.iter().sum(), 1.0, 1e-12);
    assert_near(predicted[1].probability[0], two / total, 1e-9);
    assert_near(predicted[2].probability[1], two / total, 1e-9);
    assert_eq!(predicted[1].std_error, [0.0, 0.0]);
    let repeated = choice_probabilities(&[part], &items, &sets, (40_000, 1), &stop).unwrap();
    assert_eq!(repeated, predicted);
    for wrong in [vec![0], vec![0, 9]] {
        assert!(choice_probabilities(&[part], &items, &[wrong], (100, 1), &stop).is_err());
    }
}

#[test]
fn rows_of_sets_are_in_the_order_of_places() {
    let sets = ["b", "a", "b", "a", "b"].map(String::from);
    let rows = rows_of_sets(&sets, &[2.0, 0.0, 0.0, 1.0, 1.0]).unwrap();
    let expected = [(vec![0, 2, 4], vec![4, 0]), (vec![1, 3], vec![3])];
    assert_eq!(rows, expected.map(|(items, chosen)| SetRows { items, chosen }));
    assert_eq!(rows, rows_of_sets(&sets, &[2.0, f64::NAN, 0.0, 7.0, 1.0]).unwrap());
    let error = |chosen: [f64; 5]| rows_of_sets(&sets, &chosen).unwrap_err().to_string();
    assert!(error([1.0, 0.0, 0.0, 1.0, 1.0]).contains("set 'b'"));
    assert!(error([1.0, 0.0, 0.0, 0.0, 0.0]).contains("set 'a'"));
    assert!(error([1.5, 0.0, 0.0, 0.0, 0.0]).contains("row 1"));
}

#[test]
fn wrong_choices_are_refused() {
    let refused = |set: &[usize], chosen: &[usize]| {
        Choices::new(3, &[set.to_vec()], &[chosen.to_vec()], None).unwrap_err().to_string()
    };
    assert!(refused(&[0, 3], &[0]).contains("there are 3 items"));
    assert!(refused(&[0, 0, 1], &[0]).contains("listed once"));
    assert!(refused(&[0], &[0]).contains("two or more items"));
    assert!(refused(&[0, 1], &[]).contains("one item or more"));
    assert!(refused(&[0, 1], &[2]).contains("items of their set"));
    assert!(refused(&[0, 1, 2], &[1, 1]).contains("each chosen once"));
    assert!(Choices::new(3, &[vec![0, 1]], &[vec![0]], Some(&[-1.0])).is_err());
    assert!(Choices::new(3, &[], &[], None).is_err());
    let (items, choices) = case();
    let mut nested = process(false);
    nested.prior.generalised_variance = 1.0;
    let bound = PreferenceProcess { inference: Inference::JaakkolaBound, ..process(false) };
    let margin = PreferenceProcess { margin: Some(0.5), ..process(false) };
    for wrong in [nested, bound, margin] {
        assert!(wrong.fit_choices(&items, &choices).is_err());
    }
    assert!(process(false).fit_choices(&items.select_rows(&[0, 1]), &choices).is_err());
}
