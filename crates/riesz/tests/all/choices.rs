//! Choices from sets: against duels for sets of two, a dense Newton method written out, finite differences,
//! quadrature, and subsets by enumeration.

use std::sync::atomic::AtomicBool;

use riesz::model_average::ModelPart;
use riesz::preference::{
    Choices, Duels, Inference, Pair, PairKernel, Places, PreferenceFit, PreferenceProcess, SetRows,
    choice_probabilities, prepare_choices, prepare_entries, rows_of_sets, wide_rows,
};
use riesz::{Kernel, Matrix, Table};

use crate::common::Stream;

/// Returns the chosen items, each with a place of its own.
fn ranked(chosen: &[Vec<usize>]) -> Vec<Vec<Vec<usize>>> {
    chosen.iter().map(|items| items.iter().map(|item| vec![*item]).collect()).collect()
}

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
    (items, Choices::new(8, &sets, &ranked(&chosen), Some(&weights)).unwrap())
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

/// Compares the gradient of the evidence in the hyper-parameters with central differences, at values that are
/// `offset` above those of the process.
fn assert_evidence_gradient(process: &PreferenceProcess, items: &Table, choices: &Choices, offset: f64) {
    let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value + offset).collect();
    let (_, gradient) = process.log_marginal_likelihood_of_choices(items, choices, &theta).unwrap();
    for (i, slope) in gradient.iter().enumerate() {
        let value = |step: f64| {
            let mut moved = theta.clone();
            moved[i] += step;
            process.log_marginal_likelihood_of_choices(items, choices, &moved).unwrap().0
        };
        assert_near(*slope, (value(1e-4) - value(-1e-4)) / 2e-4, 1e-6);
    }
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
        let as_choices = Choices::new(7, &sets, &ranked(&chosen), Some(&weight)).unwrap();
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

/// Sets of 3 to 4 of six items, with one, two or three chosen items, or a ranking with a shared place.
fn subset_case() -> (Table, Vec<Vec<usize>>, Vec<Places>, Choices) {
    let items = Stream(8).normals(6, 2);
    let sets = vec![vec![0, 1, 2], vec![3, 1, 5, 4], vec![0, 2, 4], vec![5, 2, 3, 0], vec![1, 2, 0]];
    let chosen = vec![
        vec![vec![2, 0]],
        vec![vec![5, 3, 1]],
        vec![vec![4]],
        vec![vec![2], vec![0, 5]],
        vec![vec![0, 2]],
    ];
    let choices = Choices::new(6, &sets, &chosen, None).unwrap();
    (items, sets, chosen, choices)
}

/// Returns the logarithm of the probability of the places of a set, with the sum over subsets written out.
/// `score` returns the score of an item among options.
fn log_probability(set: &[usize], places: &[Vec<usize>], score: &dyn Fn(usize, &[usize]) -> f64) -> f64 {
    let (mut remaining, mut value) = (set.to_vec(), 0.0);
    for place in places {
        let sum = |subset: &[usize]| subset.iter().map(|a| score(*a, &remaining)).sum::<f64>();
        let members = |mask: u32| -> Vec<usize> {
            (0..remaining.len()).filter(|i| mask >> i & 1 == 1).map(|i| remaining[i]).collect()
        };
        let subsets = (0..1_u32 << remaining.len()).map(members).filter(|s| s.len() == place.len());
        value += sum(place) - subsets.map(|s| sum(&s).exp()).sum::<f64>().ln();
        remaining.retain(|item| !place.contains(item));
    }
    value
}

/// The mode of the log posterior of the log odds g of all pairs of items, whose prior covariance is `k`, by
/// Newton's method with derivatives by finite differences. Returns the mode, and Laplace's evidence.
fn dense_mode(k: &Matrix, log_likelihood: &dyn Fn(&[f64]) -> f64) -> (Vec<f64>, f64) {
    let n = k.rows();
    let step = 1e-3;
    let moved = |g: &[f64], changes: &[(usize, f64)]| {
        let mut moved = g.to_vec();
        changes.iter().for_each(|(i, by)| moved[*i] += by);
        log_likelihood(&moved)
    };
    let derivatives = |g: &[f64]| {
        let gradient: Vec<f64> =
            (0..n).map(|i| (moved(g, &[(i, step)]) - moved(g, &[(i, -step)])) / (2.0 * step)).collect();
        let w = Matrix::from_fn(n, n, |i, j| {
            let corner = |s: f64, t: f64| moved(g, &[(i, s * step), (j, t * step)]);
            -(corner(1.0, 1.0) - corner(1.0, -1.0) - corner(-1.0, 1.0) + corner(-1.0, -1.0))
                / (4.0 * step * step)
        });
        (gradient, w)
    };
    let mut g = vec![0.0; n];
    let mut alpha = g.clone();
    for _ in 0..30 {
        // g = K α with α the gradient: one Newton step is α = (I + W K)⁻¹ (W g + gradient).
        let (gradient, w) = derivatives(&g);
        let target: Vec<f64> = w.matvec(&g).iter().zip(&gradient).map(|(a, b)| a + b).collect();
        let mut system = w.matmul(k);
        system.add_diagonal(|_| 1.0);
        alpha = inverse(&system).0.matvec(&target);
        g = k.matvec(&alpha);
    }
    let (_, w) = derivatives(&g);
    let mut system = w.matmul(k);
    system.add_diagonal(|_| 1.0);
    let quadratic: f64 = alpha.iter().zip(&g).map(|(a, g)| a * g).sum();
    let evidence = log_likelihood(&g) - 0.5 * quadratic - 0.5 * inverse(&system).1;
    (g, evidence)
}

#[test]
fn subsets_and_cycles_match_enumeration() {
    let (items, sets, chosen, choices) = subset_case();
    let all_pairs = pairs(6);
    let sign_and_index = |a: usize, b: usize| {
        let index = |pair: Pair| all_pairs.iter().position(|other| *other == pair).unwrap();
        if a < b { (1.0, index((a, b))) } else { (-1.0, index((b, a))) }
    };
    for (utility, generalised) in [(1.7, 0.0), (0.9, 1.3), (0.0, 2.0)] {
        let mut process = process(false);
        (process.prior.utility_variance, process.prior.generalised_variance) = (utility, generalised);
        let k = process.prior.items.gram(&items);
        let prior_covariance = Matrix::from_fn(all_pairs.len(), all_pairs.len(), |p, q| {
            let ((i, j), (l, m)) = (all_pairs[p], all_pairs[q]);
            utility * (k[(i, l)] - k[(i, m)] - k[(j, l)] + k[(j, m)])
                + generalised * (k[(i, l)] * k[(j, m)] - k[(i, m)] * k[(j, l)])
        });
        let log_likelihood = |g: &[f64]| -> f64 {
            let score = |a: usize, options: &[usize]| {
                let terms = options.iter().filter(|b| **b != a).map(|b| sign_and_index(a, *b));
                terms.map(|(sign, index)| sign * g[index]).sum::<f64>() / options.len() as f64
            };
            sets.iter().zip(&chosen).map(|(set, places)| log_probability(set, places, &score)).sum()
        };
        let (g, evidence) = dense_mode(&prior_covariance, &log_likelihood);
        let fit = process.fit_choices(&items, &choices).unwrap();
        let (mean, _) = moments(&fit, &items);
        mean.iter().zip(&g).for_each(|(mean, g)| assert_near(*mean, *g, 2e-6));
        assert_near(fit.log_marginal_likelihood, evidence, 2e-6);
        assert_evidence_gradient(&process, &items, &choices, 0.1);
    }
}

#[test]
fn all_but_one_item_are_chosen_as_one_is_left() {
    // Two of three items are chosen with the probability that the third one is chosen under -f.
    let (items, _) = case();
    let sets = vec![vec![0, 1, 2], vec![1, 3, 5], vec![2, 3, 6]];
    let [two, left] = [[[0, 2], [1, 3], [2, 6]], [[1, 1], [5, 5], [3, 3]]];
    let chosen_pairs: Vec<Vec<Vec<usize>>> = two.iter().map(|place| vec![place.to_vec()]).collect();
    let chosen_items: Vec<Vec<Vec<usize>>> = left.iter().map(|place| vec![vec![place[0]]]).collect();
    let fit = |chosen| {
        let choices = Choices::new(8, &sets, chosen, None).unwrap();
        process(false).fit_choices(&items, &choices).unwrap()
    };
    let (chosen, remaining) = (fit(&chosen_pairs), fit(&chosen_items));
    assert_near(chosen.log_marginal_likelihood, remaining.log_marginal_likelihood, 1e-12);
    let (a, b) = (moments(&chosen, &items), moments(&remaining, &items));
    assert_moments_near(&a, &(b.0.iter().map(|mean| -mean).collect(), b.1), 1e-10);
}

#[test]
fn probabilities_with_cycles_and_of_subsets_match_draws_of_the_log_odds() {
    let (items, _, _, choices) = subset_case();
    let mut process = process(false);
    process.prior.generalised_variance = 1.3;
    let fit = process.fit_choices(&items, &choices).unwrap();
    let part = ModelPart::single(&fit.model, Some(&fit.covariance));
    let set = [4, 0, 2, 5];
    let stop = AtomicBool::new(false);
    // Quadrature over six log odds would take too long, so that other draws are the reference.
    let set_pairs: Vec<Pair> = pairs(4).into_iter().map(|(i, j)| (set[i], set[j])).collect();
    let posterior = fit.posterior();
    let functionals = posterior.functionals_at(&wide_rows(&items, &set_pairs).unwrap()).unwrap();
    let mean = posterior.mean_of(&functionals).column(0);
    let root = riesz::linalg::symmetric_eigen(&posterior.covariance(&functionals)[0]).unwrap();
    let mut stream = Stream(4);
    let normals = stream.normals(60_000, 6);
    for count in [1, 2] {
        let mut sums = [0.0; 4];
        for draw in 0..normals.rows() {
            let g: Vec<f64> = (0..6)
                .map(|p| {
                    let term = |c: usize| root.1[(p, c)] * root.0[c].max(0.0).sqrt() * normals.get(draw, c);
                    mean[p] + (0..6).map(term).sum::<f64>()
                })
                .collect();
            let score = |a: usize, options: &[usize]| {
                let term = |b: usize| {
                    let index = |pair: Pair| pairs(4).iter().position(|other| *other == pair).unwrap();
                    if a < b { g[index((a, b))] } else { -g[index((b, a))] }
                };
                options.iter().filter(|b| **b != a).map(|b| term(*b)).sum::<f64>() / options.len() as f64
            };
            let subsets: Vec<Vec<usize>> = match count {
                1 => (0..4).map(|a| vec![a]).collect(),
                _ => pairs(4).into_iter().map(|(a, b)| vec![a, b]).collect(),
            };
            for subset in subsets {
                let p = log_probability(&[0, 1, 2, 3], std::slice::from_ref(&subset), &score).exp();
                subset.iter().for_each(|a| sums[*a] += p / normals.rows() as f64);
            }
        }
        let sets = [set.to_vec()];
        let predicted = choice_probabilities(&[part], &items, (&sets, count), (60_000, 1), &stop).unwrap();
        for (i, expected) in sums.iter().enumerate() {
            let (p, error) = (predicted[0].probability[i], predicted[0].std_error[i]);
            assert!(error > 1e-5 && (p - expected).abs() < 6.0 * error, "{p} is not {expected}");
        }
        assert_near(predicted[0].probability.iter().sum(), count as f64, 1e-12);
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
    assert_evidence_gradient(&process, &items, &choices, 0.2);
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
    let (_, choices) = case();
    let (sets, rest): (Vec<Vec<usize>>, Vec<(usize, f64)>) =
        stages().into_iter().map(|(set, chosen, weight)| (set, (chosen, weight))).unzip();
    let (chosen, weights): (Vec<Vec<usize>>, Vec<f64>) = rest.into_iter().map(|(c, w)| (vec![c], w)).unzip();
    assert_eq!(choices, Choices::new(8, &sets, &ranked(&chosen), Some(&weights)).unwrap());
    assert_eq!((choices.count(), choices.sets()), (9, 8));
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
    let choices = Choices::new(5, &sets, &ranked(&chosen), None).unwrap();
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
    let predicted = choice_probabilities(&[part], &items, (&sets, 1), (40_000, 1), &stop).unwrap();
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
    let repeated = choice_probabilities(&[part], &items, (&sets, 1), (40_000, 1), &stop).unwrap();
    assert_eq!(repeated, predicted);
    for count in [0, 2] {
        assert!(choice_probabilities(&[part], &items, (&sets[1..], count), (100, 1), &stop).is_err());
    }
    for wrong in [vec![0], vec![0, 9]] {
        assert!(choice_probabilities(&[part], &items, (&[wrong], 1), (100, 1), &stop).is_err());
    }
}

#[test]
fn rows_of_sets_are_in_the_order_of_places() {
    let sets = ["b", "a", "b", "a", "b"].map(String::from);
    let rows = rows_of_sets(&sets, &[2.0, 0.0, 0.0, 1.0, 1.0]).unwrap();
    let expected = [(vec![0, 2, 4], vec![vec![4], vec![0]]), (vec![1, 3], vec![vec![3]])];
    assert_eq!(rows, expected.map(|(items, chosen)| SetRows { items, chosen }));
    assert_eq!(rows, rows_of_sets(&sets, &[2.0, f64::NAN, 0.0, 7.0, 1.0]).unwrap());
    let shared_place = rows_of_sets(&sets, &[1.0, 1.0, 2.0, 0.0, 1.0]).unwrap();
    assert_eq!(shared_place[0].chosen, [vec![0, 4], vec![2]]);
    let error = |chosen: [f64; 5]| rows_of_sets(&sets, &chosen).unwrap_err().to_string();
    assert!(error([1.0, 0.0, 0.0, 0.0, 0.0]).contains("set 'a'"));
    assert!(error([1.5, 0.0, 0.0, 0.0, 0.0]).contains("row 1"));
}

#[test]
fn wrong_choices_are_refused() {
    let refused = |set: &[usize], chosen: &[usize]| {
        let chosen = ranked(&[chosen.to_vec()]);
        Choices::new(3, &[set.to_vec()], &chosen, None).unwrap_err().to_string()
    };
    assert!(refused(&[0, 3], &[0]).contains("there are 3 items"));
    assert!(refused(&[0, 0, 1], &[0]).contains("listed once"));
    assert!(refused(&[0], &[0]).contains("two or more items"));
    assert!(refused(&[0, 1], &[]).contains("one item or more"));
    assert!(refused(&[0, 1], &[2]).contains("items of their set"));
    assert!(refused(&[0, 1, 2], &[1, 1]).contains("each chosen once"));
    let of_all = Choices::new(3, &[vec![0, 1]], &[vec![vec![1, 0]]], None).unwrap_err().to_string();
    assert!(of_all.contains("a choice of all items"));
    assert!(Choices::new(3, &[vec![0, 1]], &[vec![vec![0]]], Some(&[-1.0])).is_err());
    assert!(Choices::new(3, &[], &[], None).is_err());
    let (items, choices) = case();
    let bound = PreferenceProcess { inference: Inference::JaakkolaBound, ..process(false) };
    let margin = PreferenceProcess { margin: Some(0.5), ..process(false) };
    for wrong in [bound, margin] {
        assert!(wrong.fit_choices(&items, &choices).is_err());
    }
    assert!(process(false).fit_choices(&items.select_rows(&[0, 1]), &choices).is_err());
}
