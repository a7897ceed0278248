//! Duels with sides and abilities, contexts, ties, bags and the likelihood bound, against dense formulas,
//! quadrature and finite differences; and invariances.

use faer::linalg::solvers::{DenseSolveCore, Solve};
use faer::{Mat, Side};
use riesz::format::model::{self, SavedModel};
use riesz::kernel::Categorical;

use riesz::preference::{
    ContextKernel, Duels, HomeSide, Inference, ItemBags, Pair, PairKernel, PreferenceFit, PreferenceProcess,
    prepare_entries, wide_rows, wide_rows_in,
};
use riesz::table::{Column, ColumnKind};
use riesz::{AggregatePrediction, Kernel, Prediction, Table};

use crate::common::Stream;

fn sigma(g: f64) -> f64 {
    1.0 / (1.0 + (-g).exp())
}

/// A list of single duels.
struct Case {
    items: Table,
    /// Contexts: a number and a level, one row per duel.
    contexts: Table,
    left: Vec<usize>,
    right: Vec<usize>,
    outcome: Vec<f64>,
    weight: Vec<f64>,
    home: Vec<HomeSide>,
}

fn case(items: usize, duels: usize, seed: u64) -> Case {
    let mut s = Stream(seed);
    let table = s.normals(items, 2);
    let (mut cells, mut levels) = (vec![], vec![]);
    let (mut left, mut right, mut outcome, mut weight, mut home) = (vec![], vec![], vec![], vec![], vec![]);
    while left.len() < duels {
        let mut item = || (s.uniform() * items as f64) as usize;
        let (l, r) = (item(), item());
        if l != r {
            left.push(l);
            right.push(r);
            outcome.push(if s.uniform() < 0.25 { 0.5 } else { f64::from(u8::from(s.uniform() < 0.6)) });
            weight.push(0.5 + s.uniform());
            home.push([HomeSide::Left, HomeSide::Right, HomeSide::Nobody][(3.0 * s.uniform()) as usize]);
            // There are few different contexts, so that some repeat.
            cells.push((3.0 * s.uniform()).floor());
            levels.push((2.0 * s.uniform()).floor());
        }
    }
    let kind = ColumnKind::Categorical { levels: ["clay", "grass"].map(String::from).to_vec() };
    let columns = vec![Column::numeric("heat"), Column { name: "ground".into(), kind }];
    let contexts = Table::from_column_major(columns, duels, [cells, levels].concat()).unwrap();
    Case { items: table, contexts, left, right, outcome, weight, home }
}

impl Case {
    fn duels(&self) -> Duels {
        let n = self.items.rows();
        Duels::new(n, &self.left, &self.right, &self.outcome, Some(&self.weight)).unwrap()
    }

    fn in_contexts(&self) -> Duels {
        let n = self.items.rows();
        let weight = Some(&self.weight[..]);
        Duels::in_contexts(n, &self.left, &self.right, &self.outcome, weight, &self.contexts).unwrap()
    }

    fn pairs(&self) -> Vec<Pair> {
        self.left.iter().copied().zip(self.right.iter().copied()).collect()
    }

    /// Returns both parts of the prior for items, by their definition.
    fn nested(&self, prior: &PairKernel, (l, r): Pair, (a, b): Pair) -> f64 {
        let k = |a: usize, b: usize| prior.items.eval(&self.items.row(a), &self.items.row(b));
        prior.utility_variance * (k(l, a) + k(r, b) - k(l, b) - k(r, a))
            + prior.generalised_variance * (k(l, a) * k(r, b) - k(l, b) * k(r, a))
    }

    /// Returns the log likelihood of a duel and two derivatives: exact for half wins, by differences of the
    /// three cases with a margin.
    fn likelihood(&self, i: usize, g: f64, margin: Option<f64>) -> [f64; 3] {
        let (y, w) = (self.outcome[i], self.weight[i]);
        let Some(m) = margin else {
            let value = y * sigma(g).ln() + (1.0 - y) * sigma(-g).ln();
            return [w * value, w * (y - sigma(g)), -w * sigma(g) * sigma(-g)];
        };
        let value = |g: f64| {
            let (won, lost) = (sigma(g - m), sigma(-g - m));
            let p = if y == 1.0 {
                won
            } else if y == 0.0 {
                lost
            } else {
                ((2.0 * m).exp() - 1.0) * won * lost
            };
            w * p.ln()
        };
        let first = |h: f64| (value(g + h) - value(g - h)) / (2.0 * h);
        let second = |h: f64| (value(g + h) - 2.0 * value(g) + value(g - h)) / (h * h);
        [value(g), (4.0 * first(1e-3) - first(2e-3)) / 3.0, (4.0 * second(1e-3) - second(2e-3)) / 3.0]
    }

    /// Returns coefficients, curvatures and Laplace's evidence under a dense covariance of the duels.
    fn laplace(&self, k: &Mat<f64>, margin: Option<f64>) -> (Vec<f64>, Vec<f64>, f64) {
        let n = self.left.len();
        let (mut g, mut alpha) = (vec![0.0; n], vec![0.0; n]);
        let derivatives_at = |g: &[f64]| (0..n).map(|i| self.likelihood(i, g[i], margin)).collect::<Vec<_>>();
        for _ in 0..80 {
            let derivatives = derivatives_at(&g);
            let system =
                Mat::from_fn(n, n, |i, j| f64::from(u8::from(i == j)) - derivatives[i][2] * k[(i, j)]);
            let residual = Mat::from_fn(n, 1, |i, _| derivatives[i][1] - alpha[i]);
            let step = system.partial_piv_lu().solve(&residual);
            (0..n).for_each(|i| alpha[i] += 0.8 * step[(i, 0)]);
            g = (0..n).map(|i| (0..n).map(|j| k[(i, j)] * alpha[j]).sum()).collect();
        }
        let derivatives = derivatives_at(&g);
        let curves: Vec<f64> = derivatives.iter().map(|row| -row[2]).collect();
        let b = Mat::from_fn(n, n, |i, j| {
            f64::from(u8::from(i == j)) + (curves[i] * curves[j]).sqrt() * k[(i, j)]
        });
        let log_det: f64 = b.self_adjoint_eigenvalues(Side::Lower).unwrap().iter().map(|v| v.ln()).sum();
        let quadratic: f64 = alpha.iter().zip(&g).map(|(a, g)| a * g).sum();
        let value = derivatives.iter().map(|row| row[0]).sum::<f64>() - 0.5 * quadratic - 0.5 * log_det;
        (alpha, curves, value)
    }

    /// Compares a fit with conditioning on single duels. The arguments are the duels' covariance, the cross
    /// covariances with the queries, and the queries' prior variances.
    fn conditioned(
        &self,
        fit: &PreferenceFit,
        margin: Option<f64>,
        k: &Mat<f64>,
        queries: (&[Vec<f64>], &[f64]),
        actual: (&[f64], &[f64]),
    ) {
        let n = self.left.len();
        let (alpha, curves, value) = self.laplace(k, margin);
        let tolerance = if margin.is_some() { 1e-7 } else { 1e-9 };
        let evidence = fit.log_marginal_likelihood;
        assert!((evidence - value).abs() < tolerance, "{evidence} {value}");
        let noisy = Mat::from_fn(n, n, |i, j| k[(i, j)] + if i == j { 1.0 / curves[i] } else { 0.0 });
        let inverse = noisy.partial_piv_lu().inverse();
        for (r, cross) in queries.0.iter().enumerate() {
            let mean: f64 = cross.iter().zip(&alpha).map(|(c, a)| c * a).sum();
            assert!((actual.0[r] - mean).abs() < tolerance, "{} {mean}", actual.0[r]);
            let known: f64 =
                (0..n).map(|i| (0..n).map(|j| cross[i] * inverse[(i, j)] * cross[j]).sum::<f64>()).sum();
            let variance = queries.1[r] - known;
            assert!((actual.1[r] - variance).abs() < 10.0 * tolerance, "{} {variance}", actual.1[r]);
        }
    }
}

fn process(utility_kernel: Option<Kernel>, contexts: Option<ContextKernel>) -> PreferenceProcess {
    let prior = PairKernel {
        extra_utility_kernel: utility_kernel,
        contexts,
        ..PairKernel::new(Kernel::gaussian(&[1.3, 0.8]), 1.2, 0.7)
    };
    PreferenceProcess { prior, tune: false, ..PreferenceProcess::new(Kernel::constant(1.0)) }
}

fn of_contexts() -> ContextKernel {
    let ground = Kernel::from(Categorical { columns: [1], similarity: 0.3 });
    let heat = Kernel::gaussian(&[1.7]);
    ContextKernel { kernel: heat.clone() * ground + 0.4 * heat, shared: 0.35 }
}

fn predictive_moments(fit: &PreferenceFit, rows: &Table) -> (Vec<f64>, Vec<f64>) {
    let variance = fit.posterior().variance(rows).unwrap();
    (fit.model.predict(rows).unwrap().data().to_vec(), variance.data().to_vec())
}

/// A home advantage is a utility `s_h² h h'` with h = ±1, and an ability a utility of the items' names.
#[test]
fn homes_and_names_are_further_utilities() {
    let case = case(8, 40, 5);
    let names: Vec<String> = (0..8).map(|i| format!("item {i}")).collect();
    let sides = (&case.left[..], &case.right[..]);
    let entries = prepare_entries(&case.items, sides, &case.outcome, Some(&case.home), Some(&names)).unwrap();
    let mut process = process(entries.extra_utility_kernel, None);
    let (home, id) = (0.6, 0.9);
    for (term, share) in process.prior.extra_utility_kernel.as_mut().unwrap().terms.iter_mut().zip([home, id])
    {
        term.scale = share;
    }
    let weight = Some(&case.weight[..]);
    let duels =
        Duels::new(entries.table.rows(), &entries.left, &entries.right, &case.outcome, weight).unwrap();
    let fit = process.fit(&entries.table, &duels).unwrap();
    let side = |home: HomeSide| match home {
        HomeSide::Left => 1.0,
        HomeSide::Right => -1.0,
        HomeSide::Nobody => 0.0,
    };
    let equal = |a: usize, b: usize| f64::from(u8::from(a == b));
    let between = |p: (Pair, HomeSide), q: (Pair, HomeSide)| {
        let ((l, r), (a, b)) = (p.0, q.0);
        case.nested(&process.prior, p.0, q.0)
            + home * side(p.1) * side(q.1)
            + id * (equal(l, a) + equal(r, b) - equal(l, b) - equal(r, a))
    };
    let observed: Vec<(Pair, HomeSide)> = case.pairs().into_iter().zip(case.home.iter().copied()).collect();
    let k = Mat::from_fn(40, 40, |i, j| between(observed[i], observed[j]));
    // Known items, and two unknown ones: 8 and 9 represent them, with the covariates of 1 and 2.
    let queries = [
        ((1, 2), HomeSide::Left),
        ((1, 2), HomeSide::Nobody),
        ((2, 1), HomeSide::Right),
        ((4, 4), HomeSide::Left),
    ];
    let wide: Vec<Vec<f64>> = queries
        .iter()
        .map(|&((l, r), home_side)| {
            let side_row = |item: usize, mine: HomeSide| {
                [case.items.row(item), vec![f64::from(u8::from(home_side == mine)), item as f64]].concat()
            };
            [side_row(l, HomeSide::Left), side_row(r, HomeSide::Right)].concat()
        })
        .collect();
    let strangers = [case.items.row(1), vec![0.0, 8.0], case.items.row(2), vec![0.0, 9.0]].concat();
    let wide = [wide, vec![strangers]].concat();
    let values = (0..8).flat_map(|j| wide.iter().map(move |row| row[j])).collect();
    let rows = Table::from_column_major(fit.model.columns().to_vec(), 5, values).unwrap();
    let mut cross: Vec<Vec<f64>> =
        queries.iter().map(|&p| observed.iter().map(|&q| between(p, q)).collect()).collect();
    let mut prior: Vec<f64> = queries.iter().map(|&p| between(p, p)).collect();
    cross.push(observed.iter().map(|q| case.nested(&process.prior, (1, 2), q.0)).collect());
    prior.push(case.nested(&process.prior, (1, 2), (1, 2)) + 2.0 * id);
    let (mean, variance) = predictive_moments(&fit, &rows);
    case.conditioned(&fit, None, &k, (&cross, &prior), (&mean, &variance));
    assert!((mean[0] + mean[2]).abs() < 1e-12, "who is at home goes with the side");
    assert!((mean[0] - mean[1]).abs() > 1e-3, "being at home counts");
    // Without home and abilities, items are unchanged.
    let plain = prepare_entries(&case.items, sides, &case.outcome, None, None).unwrap();
    assert_eq!((&plain.table, &plain.left, plain.extra_utility_kernel), (&case.items, &case.left, None));
}

/// The prior is multiplied by a kernel between contexts, and a pair is merged only within a context.
#[test]
fn contexts_multiply_the_prior() {
    let case = case(7, 60, 8);
    let contexts = of_contexts();
    let process = process(None, Some(contexts.clone()));
    let duels = case.in_contexts();
    assert!(duels.pairs().len() < 60 && duels.pairs().len() > case.duels().pairs().len());
    assert_eq!(duels.contexts().unwrap().table.rows(), 6);
    let fit = process.fit(&case.items, &duels).unwrap();
    let context_factor = |u: &[f64], v: &[f64]| 0.35 + 0.65 * contexts.kernel.eval(u, v);
    let (pairs, row) = (case.pairs(), |i: usize| case.contexts.row(i));
    let k = Mat::from_fn(60, 60, |i, j| {
        case.nested(&process.prior, pairs[i], pairs[j]) * context_factor(&row(i), &row(j))
    });
    let queries: Vec<Pair> = vec![(0, 1), (1, 0), (3, 3), (5, 2)];
    let query_contexts = case.contexts.select_rows(&[4, 4, 1, 9]);
    let rows = wide_rows_in(&case.items, &queries, Some(&query_contexts)).unwrap();
    let cross = |r: usize| -> Vec<f64> {
        (0..60)
            .map(|i| {
                case.nested(&process.prior, queries[r], pairs[i])
                    * context_factor(&query_contexts.row(r), &row(i))
            })
            .collect()
    };
    let cross: Vec<Vec<f64>> = (0..4).map(cross).collect();
    let prior: Vec<f64> = (0..4)
        .map(|r| {
            case.nested(&process.prior, queries[r], queries[r])
                * context_factor(&query_contexts.row(r), &query_contexts.row(r))
        })
        .collect();
    let (mean, variance) = predictive_moments(&fit, &rows);
    case.conditioned(&fit, None, &k, (&cross, &prior), (&mean, &variance));
    assert!((mean[0] + mean[1]).abs() < 1e-12 && mean[2].abs() < 1e-12);
    // Contexts that share everything have no effect.
    let shared_contexts = ContextKernel { shared: 1.0, ..contexts };
    let shared_process = PreferenceProcess {
        prior: PairKernel { contexts: Some(shared_contexts), ..process.prior },
        ..process
    };
    let none = self::process(None, None).fit(&case.items, &case.duels()).unwrap();
    let value = shared_process.fit(&case.items, &duels).unwrap().log_marginal_likelihood;
    assert!((value - none.log_marginal_likelihood).abs() < 1e-9);
}

/// Rao and Kupper's three outcomes: evidence, probabilities averaged over the posterior, and files that keep
/// the margin.
#[test]
fn ties_can_be_outcomes() {
    let case = case(7, 50, 12);
    let margin = 0.8;
    let process = PreferenceProcess { margin: Some(margin), ..process(None, None) };
    let fit = process.fit(&case.items, &case.duels()).unwrap();
    let pairs = case.pairs();
    let k = Mat::from_fn(50, 50, |i, j| case.nested(&process.prior, pairs[i], pairs[j]));
    let queries: Vec<Pair> = vec![(0, 1), (1, 0), (5, 5), (6, 2)];
    let cross: Vec<Vec<f64>> =
        queries.iter().map(|&p| pairs.iter().map(|&q| case.nested(&process.prior, p, q)).collect()).collect();
    let prior: Vec<f64> = queries.iter().map(|&p| case.nested(&process.prior, p, p)).collect();
    let rows = wide_rows(&case.items, &queries).unwrap();
    let (mean, variance) = predictive_moments(&fit, &rows);
    case.conditioned(&fit, Some(margin), &k, (&cross, &prior), (&mean, &variance));
    let prediction = Prediction::new(&fit.model, Some(&fit.covariance), &rows).unwrap();
    let p = prediction.probabilities.unwrap();
    assert_eq!(fit.model.classes, ["right", "left", "tie"]);
    for r in 0..4 {
        // The three cases, by a fine sum.
        let (mut sums, mut total) = ([0.0; 3], 0.0);
        for step in -4000..=4000 {
            let z = f64::from(step) / 400.0;
            let (density, g) = ((-0.5 * z * z).exp(), mean[r] + variance[r].sqrt() * z);
            let (won, lost) = (sigma(g - margin), sigma(-g - margin));
            let cases = [lost, won, ((2.0 * margin).exp() - 1.0) * won * lost];
            sums.iter_mut().zip(cases).for_each(|(sum, p)| *sum += density * p);
            total += density;
        }
        (0..3).for_each(|c| assert!((p[(r, c)] - sums[c] / total).abs() < 1e-12));
    }
    assert!((p[(0, 0)] - p[(1, 1)]).abs() < 1e-12 && p[(2, 2)] > p[(0, 2)]);
    let saved = model::to_bytes(&SavedModel {
        model: fit.model.clone(),
        covariance: Some(fit.covariance.clone()),
        groups: None,
    })
    .unwrap();
    let again = model::from_bytes(&saved).unwrap();
    let twice = Prediction::new(&again.model, again.covariance.as_ref(), &rows).unwrap();
    assert_eq!(twice.probabilities.unwrap().data().len(), p.data().len());
    assert_eq!(again.model.link, fit.model.link);
    // Without any difference between items, they tie as often as in the duels.
    let tied = case.duels();
    let share = tied.ties().iter().sum::<f64>() / tied.weight().iter().sum::<f64>();
    let m = tied.margin();
    assert!((((2.0 * m).exp() - 1.0) * sigma(-m) * sigma(-m) - share).abs() < 1e-12);
    // Shares of wins are neither wins nor ties.
    let shares = Duels::new(7, &[0], &[1], &[0.3], None).unwrap();
    let error = process.fit(&case.items, &shares).unwrap_err().to_string();
    assert!(error.contains("a tie (0.5)"), "{error}");
}

fn bags(items: usize) -> ItemBags {
    // Bags that share members; the last is a single item.
    ItemBags::new(items, 5, &[0, 0, 1, 1, 1, 2, 2, 3, 3, 4], &[0, 1, 1, 2, 3, 4, 5, 6, 0, 3], None).unwrap()
}

/// A duel between bags is the mean over duels of their members.
#[test]
fn bags_are_means_over_members() {
    let mut case = case(7, 40, 21);
    let bags = bags(7);
    // Duels among bags: the same draws, modulo the number of bags.
    for i in 0..40 {
        let (l, r) = (case.left[i] % 5, case.right[i] % 5);
        (case.left[i], case.right[i]) = if l == r { (l, (r + 1) % 5) } else { (l, r) };
    }
    let weight = Some(&case.weight[..]);
    for contexts in [None, Some(of_contexts())] {
        let duels = match contexts {
            None => Duels::new(5, &case.left, &case.right, &case.outcome, weight).unwrap(),
            Some(_) => {
                Duels::in_contexts(5, &case.left, &case.right, &case.outcome, weight, &case.contexts).unwrap()
            }
        };
        let process = process(None, contexts.clone());
        let fit = process.fit_bags(&case.items, &bags, &duels).unwrap();
        let row = |i: usize| case.contexts.row(i);
        let context_factor = |u: &[f64], v: &[f64]| {
            contexts.as_ref().map_or(1.0, |c| c.shared + (1.0 - c.shared) * c.kernel.eval(u, v))
        };
        // By definition: all members of all four bags.
        let between = |(l, r): Pair, (a, b): Pair| -> f64 {
            let mut sum = 0.0;
            for (i, m) in bags.members(l) {
                for (j, q) in bags.members(r) {
                    for (s, u) in bags.members(a) {
                        for (t, v) in bags.members(b) {
                            sum += m * q * u * v * case.nested(&process.prior, (i, j), (s, t));
                        }
                    }
                }
            }
            sum
        };
        let pairs = case.pairs();
        let k = Mat::from_fn(40, 40, |i, j| between(pairs[i], pairs[j]) * context_factor(&row(i), &row(j)));
        let queries: Vec<Pair> = vec![(0, 1), (3, 2), (2, 3), (4, 1)];
        let query_contexts = case.contexts.select_rows(&[0, 7, 7, 3]);
        let cross = |r: usize| -> Vec<f64> {
            (0..40)
                .map(|i| between(queries[r], pairs[i]) * context_factor(&query_contexts.row(r), &row(i)))
                .collect()
        };
        let cross: Vec<Vec<f64>> = (0..4).map(cross).collect();
        let prior: Vec<f64> = (0..4)
            .map(|r| {
                between(queries[r], queries[r])
                    * context_factor(&query_contexts.row(r), &query_contexts.row(r))
            })
            .collect();
        let (rows, sums) =
            bags.duels(&case.items, &queries, contexts.is_some().then_some(&query_contexts)).unwrap();
        let prediction = AggregatePrediction::new(&fit.model, &fit.covariance, &rows, &sums).unwrap();
        let (mean, variance) = (prediction.outputs.data(), prediction.variance.data());
        case.conditioned(&fit, None, &k, (&cross, &prior), (mean, variance));
        let p = prediction.probabilities.unwrap();
        assert!((p[(1, 1)] + p[(2, 1)] - 1.0).abs() < 1e-12);
    }
    // A bag of one item equals the item.
    let single =
        ItemBags::new(7, 7, &[0, 1, 2, 3, 4, 5, 6], &[0, 1, 2, 3, 4, 5, 6], Some(&[2.0; 7])).unwrap();
    let case = self::case(7, 30, 2);
    let process = process(None, None);
    let (a, b) = (
        process.fit(&case.items, &case.duels()).unwrap(),
        process.fit_bags(&case.items, &single, &case.duels()).unwrap(),
    );
    assert_eq!(
        (&a.model.support_points, a.model.coef.data()),
        (&b.model.support_points, b.model.coef.data())
    );
}

/// The Jaakkola bound is below the exact evidence by quadrature, equals its variational expectation, and is
/// maximal.
#[test]
fn the_jaakkola_bound_is_tight_and_below_the_evidence() {
    let items = Stream(3).normals(4, 2);
    let process = PreferenceProcess { inference: Inference::JaakkolaBound, ..process(None, None) };
    let laplace = self::process(None, None);
    for (left, right, outcome, weight) in [
        (vec![0, 2], vec![1, 3], vec![1.0, 1.0], vec![1.0, 1.0]),
        (vec![0, 1], vec![1, 2], vec![1.0, 0.5], vec![3.0, 2.0]),
        (vec![0, 0], vec![1, 2], vec![0.0, 1.0], vec![0.5, 6.0]),
    ] {
        let duels = Duels::new(4, &left, &right, &outcome, Some(&weight)).unwrap();
        let fit = process.fit(&items, &duels).unwrap();
        let bound = fit.log_marginal_likelihood;
        let case = Case { items: items.clone(), left, right, outcome, weight, ..self::case(4, 2, 1) };
        let pairs = case.pairs();
        let k: [[f64; 2]; 2] =
            [0, 1].map(|i| [0, 1].map(|j| case.nested(&process.prior, pairs[i], pairs[j])));
        // f = L z, summed over a fine grid of z.
        let l00 = k[0][0].sqrt();
        let l10 = k[1][0] / l00;
        let l11 = (k[1][1] - l10 * l10).sqrt();
        let (mut sum, mut total) = (0.0, 0.0);
        for a in -320..=320 {
            for b in -320..=320 {
                let (x, y) = (f64::from(a) / 40.0, f64::from(b) / 40.0);
                let density = (-0.5 * (x * x + y * y)).exp();
                let f = [l00 * x, l10 * x + l11 * y];
                let value: f64 = (0..2).map(|i| case.likelihood(i, f[i], None)[0]).sum();
                sum += density * value.exp();
                total += density;
            }
        }
        let exact = (sum / total).ln();
        let near = laplace.fit(&items, &duels).unwrap().log_marginal_likelihood;
        assert!(bound < exact && bound > exact - 0.4, "{bound} {exact} {near}");
        // The expectation of the bounded likelihood under q = N(m, V), minus KL(q | prior), with V = (K⁻¹ +
        // 2Λ)⁻¹ at the fixed point, which is computed anew here.
        let km = Mat::from_fn(2, 2, |i, j| k[i][j]);
        let linear_term = |i: usize| case.weight[i] * (case.outcome[i] - 0.5);
        let mut c = [1.0, 1.0];
        let elbo = |c: &[f64; 2]| {
            let lambda = |i: usize| case.weight[i] * (0.5 * c[i]).tanh() / (4.0 * c[i]);
            let inverse = km.partial_piv_lu().inverse();
            let precision =
                Mat::from_fn(2, 2, |i, j| inverse[(i, j)] + if i == j { 2.0 * lambda(i) } else { 0.0 });
            let v = precision.partial_piv_lu().inverse();
            let m: Vec<f64> = (0..2).map(|i| (0..2).map(|j| v[(i, j)] * linear_term(j)).sum()).collect();
            let expected: f64 = (0..2)
                .map(|i| {
                    let squares = m[i] * m[i] + v[(i, i)] - c[i] * c[i];
                    case.weight[i] * (sigma(c[i]).ln() - 0.5 * c[i]) + linear_term(i) * m[i]
                        - lambda(i) * squares
                })
                .sum();
            let det = |a: &Mat<f64>| a[(0, 0)] * a[(1, 1)] - a[(0, 1)] * a[(1, 0)];
            let trace: f64 = (0..2).map(|i| (0..2).map(|j| inverse[(i, j)] * v[(j, i)]).sum::<f64>()).sum();
            let mahalanobis: f64 =
                (0..2).map(|i| (0..2).map(|j| m[i] * inverse[(i, j)] * m[j]).sum::<f64>()).sum();
            let kl = 0.5 * (trace + mahalanobis - 2.0 + (det(&km) / det(&v)).ln());
            (expected - kl, [m[0] * m[0] + v[(0, 0)], m[1] * m[1] + v[(1, 1)]])
        };
        for _ in 0..4000 {
            c = elbo(&c).1.map(f64::sqrt);
        }
        assert!((elbo(&c).0 - bound).abs() < 1e-10, "{} {bound}", elbo(&c).0);
        for other in [[c[0] * 1.1, c[1]], [c[0], c[1] * 0.9]] {
            assert!(elbo(&other).0 < bound);
        }
        let rows = wide_rows(&items, &pairs).unwrap();
        let (mean, variance) = predictive_moments(&fit, &rows);
        for i in 0..2 {
            assert!((mean[i] * mean[i] + variance[i] - c[i] * c[i]).abs() < 1e-7);
        }
    }
    let tied = PreferenceProcess { margin: Some(0.5), ..process };
    let error = tied.fit(&items, &Duels::new(4, &[0], &[1], &[1.0], None).unwrap()).unwrap_err();
    assert!(error.to_string().contains("half a win"), "{error}");
}

#[test]
fn gradients_match_finite_differences() {
    let case = case(7, 30, 17);
    let names: Vec<String> = (0..7).map(|i| format!("item {i}")).collect();
    let sides = (&case.left[..], &case.right[..]);
    let entries = prepare_entries(&case.items, sides, &case.outcome, Some(&case.home), Some(&names)).unwrap();
    let weight = Some(&case.weight[..]);
    let rows = entries.table.rows();
    let named = |contexts: bool| {
        let sides = (&entries.left, &entries.right, &case.outcome);
        match contexts {
            true => Duels::in_contexts(rows, sides.0, sides.1, sides.2, weight, &case.contexts).unwrap(),
            false => Duels::new(rows, sides.0, sides.1, sides.2, weight).unwrap(),
        }
    };
    let folded: Vec<usize> = case.left.iter().map(|l| l % 5).collect();
    let opponents: Vec<usize> = folded.iter().zip(&case.right).map(|(l, r)| (l + 1 + r % 4) % 5).collect();
    let between = Duels::in_contexts(5, &folded, &opponents, &case.outcome, weight, &case.contexts).unwrap();
    let tied = |process| PreferenceProcess { margin: Some(0.7), ..process };
    let bound = |process| PreferenceProcess { inference: Inference::JaakkolaBound, ..process };
    let contexts = || Some(of_contexts());
    let utility_kernel = || entries.extra_utility_kernel.clone();
    let linear = Some(0.5 * Kernel::gaussian(&[2.0, 0.7]) + Kernel::gaussian(&[1.0]));
    let bags = bags(7);
    let table = &entries.table;
    type Evidence<'e> = Box<dyn Fn(&PreferenceProcess, &[f64]) -> (f64, Vec<f64>) + 'e>;
    let on = |duels: Duels| -> Evidence<'_> {
        Box::new(move |process, theta| process.log_marginal_likelihood(table, &duels, theta).unwrap())
    };
    let of_bags: Evidence<'_> = Box::new(|process, theta| {
        process.log_marginal_likelihood_of_bags(&case.items, &bags, &between, theta).unwrap()
    });
    let (plain, placed) = (on(named(false)), on(named(true)));
    let cases: Vec<(PreferenceProcess, &Evidence<'_>)> = vec![
        (process(utility_kernel(), None), &plain),
        (process(utility_kernel(), contexts()), &placed),
        (tied(process(utility_kernel(), contexts())), &placed),
        (bound(process(utility_kernel(), contexts())), &placed),
        (tied(process(linear.clone(), contexts())), &of_bags),
        (bound(process(linear, contexts())), &of_bags),
    ];
    for (process, evidence) in cases {
        let parameters = process.parameters();
        let theta: Vec<f64> = parameters.iter().map(|p| p.log_value).collect();
        let (_, gradient) = evidence(&process, &theta);
        assert_eq!(gradient.len(), theta.len());
        for p in 0..theta.len() {
            let value = |h: f64| {
                let mut theta = theta.clone();
                theta[p] += h;
                evidence(&process, &theta).0
            };
            let slope = |h: f64| (value(h) - value(-h)) / (2.0 * h);
            let difference = (4.0 * slope(1e-3) - slope(2e-3)) / 3.0;
            let name = &parameters[p].name;
            assert!((gradient[p] - difference).abs() < 1e-7, "{name}: {} {difference}", gradient[p]);
        }
    }
}

/// Merging repeated duels into weights, or swapping sides, changes no fit, for any likelihood and inference.
#[test]
fn merged_duels_give_the_same_fit() {
    let case = case(6, 40, 30);
    let (mut left, mut right, mut won, mut weight, mut rows) = (vec![], vec![], vec![], vec![], vec![]);
    for i in (0..40).rev() {
        // Each duel occurs twice with half its weight, once from either side.
        left.extend([case.left[i], case.right[i]]);
        right.extend([case.right[i], case.left[i]]);
        won.extend([case.outcome[i], 1.0 - case.outcome[i]]);
        weight.extend([0.5 * case.weight[i]; 2]);
        rows.extend([i; 2]);
    }
    let twice = case.contexts.select_rows(&rows);
    let other = Duels::in_contexts(6, &left, &right, &won, Some(&weight), &twice).unwrap();
    let original = case.in_contexts();
    for (margin, inference) in
        [(None, Inference::Laplace), (Some(0.4), Inference::Laplace), (None, Inference::JaakkolaBound)]
    {
        let process = PreferenceProcess { margin, inference, ..process(None, Some(of_contexts())) };
        let (a, b) =
            (process.fit(&case.items, &original).unwrap(), process.fit(&case.items, &other).unwrap());
        assert!((a.log_marginal_likelihood - b.log_marginal_likelihood).abs() < 1e-9);
        let rows = wide_rows_in(&case.items, &[(0, 3), (4, 1)], Some(&case.contexts.select_rows(&[0, 1])));
        let rows = rows.unwrap();
        let (p, q) = (predictive_moments(&a, &rows), predictive_moments(&b, &rows));
        for (x, y) in p.0.iter().zip(&q.0).chain(p.1.iter().zip(&q.1)) {
            assert!((x - y).abs() < 1e-8, "{x} {y}");
        }
    }
}

/// Tuning recovers the simulated model: an advantage of the home side, and a context that reverses duels.
#[test]
fn tuning_finds_sides_and_contexts() {
    let mut s = Stream(9);
    let items = s.normals(12, 1);
    let (mut left, mut right, mut won, mut home, mut cells) = (vec![], vec![], vec![], vec![], vec![]);
    while left.len() < 220 {
        let (l, r) = ((12.0 * s.uniform()) as usize, (12.0 * s.uniform()) as usize);
        if l != r {
            let (at_left, is_reversed) = (s.uniform() < 0.5, s.uniform() < 0.5);
            let difference = items.get(l, 0) - items.get(r, 0);
            let g = if is_reversed { -2.0 } else { 2.0 } * difference + if at_left { 1.5 } else { -1.5 };
            left.push(l);
            right.push(r);
            home.push(if at_left { HomeSide::Left } else { HomeSide::Right });
            cells.push(f64::from(u8::from(is_reversed)));
            won.push(f64::from(u8::from(s.uniform() < sigma(g))));
        }
    }
    let contexts = Table::from_column_major(vec![Column::numeric("turned")], 220, cells).unwrap();
    let fit = |home: Option<&[HomeSide]>, contexts: Option<&Table>| {
        let entries = prepare_entries(&items, (&left, &right), &won, home, None).unwrap();
        let mut process = PreferenceProcess::new(Kernel::gaussian(&[1.0]));
        (process.prior.extra_utility_kernel, process.prior.generalised_variance) =
            (entries.extra_utility_kernel, 0.0);
        let rows = entries.table.rows();
        let duels = match contexts {
            Some(contexts) => {
                let kernel = Kernel::gaussian(&[1.0]);
                process.prior.contexts = Some(ContextKernel { kernel, shared: 0.5 });
                Duels::in_contexts(rows, &entries.left, &entries.right, &won, None, contexts).unwrap()
            }
            None => Duels::new(rows, &entries.left, &entries.right, &won, None).unwrap(),
        };
        process.fit(&entries.table, &duels).unwrap()
    };
    let (full, no_home, none) =
        (fit(Some(&home), Some(&contexts)), fit(None, Some(&contexts)), fit(None, None));
    let value = |fit: &PreferenceFit| fit.log_marginal_likelihood;
    assert!(value(&full) > value(&no_home) + 10.0, "{} {}", value(&full), value(&no_home));
    assert!(value(&no_home) > value(&none) + 10.0, "{} {}", value(&no_home), value(&none));
    assert!(full.prior.contexts.unwrap().shared < 0.5);
}

#[test]
fn invalid_duels_are_refused_with_reasons() {
    let items = Stream(1).normals(4, 1);
    let message = |l: &[usize], r: &[usize], won: &[f64], home: &[HomeSide], names: Option<&[String]>| {
        prepare_entries(&items, (l, r), won, Some(home), names).unwrap_err().to_string()
    };
    let (left, no_home) = (HomeSide::Left, HomeSide::Nobody);
    assert!(message(&[0], &[1], &[1.0], &[no_home], None).contains("nobody in all duels"));
    let refusal = message(&[0, 2], &[1, 3], &[1.0, 0.0], &[left, HomeSide::Right], None);
    assert!(refusal.contains("home") && refusal.contains("won all 2 duels"), "{refusal}");
    assert!(message(&[0], &[4], &[1.0], &[left], None).contains("there are 4 items"));
    assert!(message(&[2], &[2], &[1.0], &[left], None).contains("meets itself"));
    assert!(message(&[0], &[1], &[1.0], &[left; 2], None).contains("one per duel"));
    assert!(message(&[0], &[1], &[1.0], &[left], Some(&[])).contains("one per item"));
    let twice = ["a", "b", "a", "c"].map(String::from);
    let error = prepare_entries(&items, (&[0], &[1]), &[1.0], None, Some(&twice)).unwrap_err().to_string();
    assert!(error.contains("a name of its own"), "{error}");
    let contexts = Stream(2).normals(2, 1);
    let short = Duels::in_contexts(4, &[0], &[1], &[1.0], None, &contexts).unwrap_err().to_string();
    assert!(short.contains("table of contexts"), "{short}");
    let duels = Duels::in_contexts(4, &[0, 1], &[1, 2], &[1.0, 0.0], None, &contexts).unwrap();
    let say = |process: PreferenceProcess, duels: &Duels| process.fit(&items, duels).unwrap_err().to_string();
    let with = |prior: PairKernel| PreferenceProcess { prior, ..process(None, None) };
    let prior = PairKernel::new(Kernel::gaussian(&[1.0]), 1.0, 1.0);
    assert!(say(with(prior.clone()), &duels).contains("give the prior a kernel of contexts"));
    let with_sharing = |shared: f64| {
        let contexts = Some(ContextKernel { kernel: Kernel::gaussian(&[1.0]), shared });
        with(PairKernel { contexts, ..prior.clone() })
    };
    assert!(say(with_sharing(1.5), &duels).contains("from 0 to 1"));
    let plain = Duels::new(4, &[0], &[1], &[1.0], None).unwrap();
    assert!(say(with_sharing(0.5), &plain).contains("give the duels their contexts"));
    let margin = PreferenceProcess { margin: Some(0.0), ..with(prior) };
    assert!(say(margin, &plain).contains("positive number"));
    let bags = |bag: &[usize], item: &[usize], weight: Option<&[f64]>| {
        ItemBags::new(4, 2, bag, item, weight).unwrap_err().to_string()
    };
    assert!(bags(&[0, 0], &[1, 2], None).contains("a bag needs members"));
    assert!(bags(&[0, 2], &[1, 2], None).contains("there are 2 bags"));
    assert!(bags(&[0, 1], &[1, 9], None).contains("there are 4 items"));
    assert!(bags(&[0, 1], &[1, 2], Some(&[1.0, -1.0])).contains("positive"));
    assert!(bags(&[0, 1], &[1], None).contains("one per membership"));
    let rows = wide_rows_in(&items, &[(0, 1)], Some(&contexts)).unwrap_err().to_string();
    assert!(rows.contains("one per pair"), "{rows}");
}
