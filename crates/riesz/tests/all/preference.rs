//! Preference models of duels against dense formulas, finite differences and invariances.

use faer::linalg::solvers::{DenseSolveCore, Solve};
use faer::{Mat, Side};
use riesz::explanation::{Dispersion, Uncertainty};
use riesz::kernel::Profile;
use riesz::linalg::Sparse;
use riesz::preference::{
    ContextKernel, Duels, LandmarkProcess, Pair, PairKernel, PreferenceFit, PreferenceProcess,
    prepare_entries, wide_rows, wide_rows_in,
};
use riesz::{Column, Explainer, Game, Kernel, Players, Question, Table};

use crate::common::Stream;

fn sigma(g: f64) -> f64 {
    1.0 / (1.0 + (-g).exp())
}

struct Case {
    items: Table,
    left: Vec<usize>,
    right: Vec<usize>,
    outcome: Vec<f64>,
    weight: Vec<f64>,
}

/// Duels with repeats, both orders, ties and weights.
fn case(items: usize, duels: usize, seed: u64) -> Case {
    let mut s = Stream(seed);
    let table = s.normals(items, 3);
    let mut case = Case { items: table, left: vec![], right: vec![], outcome: vec![], weight: vec![] };
    while case.left.len() < duels {
        let mut item = || (s.uniform() * items as f64) as usize;
        let (l, r) = (item(), item());
        if l != r {
            case.left.push(l);
            case.right.push(r);
            case.outcome.push(if s.uniform() < 0.1 { 0.5 } else { f64::from(u8::from(s.uniform() < 0.6)) });
            case.weight.push(0.5 + s.uniform());
        }
    }
    case
}

impl Case {
    fn duels(&self) -> Duels {
        let n = self.items.rows();
        Duels::new(n, &self.left, &self.right, &self.outcome, Some(&self.weight)).unwrap()
    }

    /// Returns the prior covariance of single duels, by its definition.
    fn covariance(&self, prior: &PairKernel, other: &[Pair]) -> Mat<f64> {
        let k = |a: usize, b: usize| prior.items.eval(&self.items.row(a), &self.items.row(b));
        Mat::from_fn(self.left.len(), other.len(), |i, j| {
            let ((l, r), (a, b)) = ((self.left[i], self.right[i]), other[j]);
            prior.utility_variance * (k(l, a) + k(r, b) - k(l, b) - k(r, a))
                + prior.generalised_variance * (k(l, a) * k(r, b) - k(l, b) * k(r, a))
        })
    }

    /// Returns the coefficients and curvatures of the duels at the mode, by damped Newton steps, and
    /// Laplace's evidence.
    fn laplace(&self, prior: &PairKernel) -> (Vec<f64>, Vec<f64>, f64) {
        let n = self.left.len();
        let pairs: Vec<Pair> = self.left.iter().copied().zip(self.right.iter().copied()).collect();
        let k = self.covariance(prior, &pairs);
        let mut g = vec![0.0; n];
        let mut alpha = vec![0.0; n];
        let curve = |i: usize, g: f64| self.weight[i] * sigma(g) * sigma(-g);
        for _ in 0..200 {
            // One Newton step on α from the equations α = w (y - σ(Kα)).
            let system = Mat::from_fn(n, n, |i, j| f64::from(u8::from(i == j)) + curve(i, g[i]) * k[(i, j)]);
            let residual =
                Mat::from_fn(n, 1, |i, _| self.weight[i] * (self.outcome[i] - sigma(g[i])) - alpha[i]);
            let step = system.partial_piv_lu().solve(&residual);
            for i in 0..n {
                alpha[i] += 0.7 * step[(i, 0)];
            }
            for i in 0..n {
                g[i] = (0..n).map(|j| k[(i, j)] * alpha[j]).sum();
            }
        }
        let likelihood: f64 = (0..n)
            .map(|i| {
                let (won, lost) = (-(-g[i]).exp().ln_1p(), -g[i].exp().ln_1p());
                self.weight[i] * (self.outcome[i] * won + (1.0 - self.outcome[i]) * lost)
            })
            .sum();
        let b = Mat::from_fn(n, n, |i, j| {
            f64::from(u8::from(i == j)) + (curve(i, g[i]) * curve(j, g[j])).sqrt() * k[(i, j)]
        });
        let log_det: f64 = b.self_adjoint_eigenvalues(Side::Lower).unwrap().iter().map(|v| v.ln()).sum();
        let quadratic: f64 = alpha.iter().zip(&g).map(|(a, g)| a * g).sum();
        let weights = (0..n).map(|i| curve(i, g[i])).collect();
        (alpha, weights, likelihood - 0.5 * quadratic - 0.5 * log_det)
    }
}

fn processes() -> Vec<PreferenceProcess> {
    let kernel = Kernel::gaussian(&[1.3, 0.8, 2.0]);
    let two = kernel.clone() + 0.3 * Kernel::gaussian(&[5.0]);
    [(kernel.clone(), 2.0, 0.7), (kernel.clone(), 2.0, 0.0), (kernel, 0.0, 1.5), (two, 1.0, 1.0)]
        .into_iter()
        .map(|(items, utility, generalised)| PreferenceProcess {
            prior: PairKernel::new(items, utility, generalised),
            tune: false,
            ..PreferenceProcess::new(Kernel::constant(1.0))
        })
        .collect()
}

/// Mean, variance and evidence against conditioning by definition, duel by duel: merging repeats and ties
/// loses no information.
#[test]
fn fits_are_laplaces_approximation() {
    let case = case(12, 40, 3);
    let query_pairs: Vec<Pair> = vec![(0, 1), (1, 0), (4, 4), (7, 2), (11, 3)];
    for process in processes() {
        let fit = process.fit(&case.items, &case.duels()).unwrap();
        let (alpha, weights, value) = case.laplace(&process.prior);
        assert!(
            (fit.log_marginal_likelihood - value).abs() < 1e-9,
            "{} {value}",
            fit.log_marginal_likelihood
        );
        let rows = wide_rows(&case.items, &query_pairs).unwrap();
        let (mean, variance) = (fit.model.predict(&rows).unwrap(), fit.posterior().variance(&rows).unwrap());
        let cross = case.covariance(&process.prior, &query_pairs);
        let duel_pairs: Vec<Pair> = case.left.iter().copied().zip(case.right.iter().copied()).collect();
        let k = case.covariance(&process.prior, &duel_pairs);
        let n = duel_pairs.len();
        let noisy = Mat::from_fn(n, n, |i, j| k[(i, j)] + if i == j { 1.0 / weights[i] } else { 0.0 });
        let inverse = noisy.partial_piv_lu().inverse();
        let joint = &fit.posterior().covariance(&fit.posterior().functionals_at(&rows).unwrap())[0];
        for (r, &(a, b)) in query_pairs.iter().enumerate() {
            let truth: f64 = (0..n).map(|i| alpha[i] * cross[(i, r)]).sum();
            assert!((mean[(r, 0)] - truth).abs() < 1e-9, "{} {truth}", mean[(r, 0)]);
            let items = |x: usize, y: usize| process.prior.items.eval(&case.items.row(x), &case.items.row(y));
            let prior = process.prior.utility_variance * (items(a, a) + items(b, b) - 2.0 * items(a, b))
                + process.prior.generalised_variance * (items(a, a) * items(b, b) - items(a, b).powi(2));
            let known: f64 = (0..n)
                .flat_map(|i| (0..n).map(move |j| (i, j)))
                .map(|(i, j)| cross[(i, r)] * inverse[(i, j)] * cross[(j, r)])
                .sum();
            let truth = prior - known;
            assert!((variance[(r, 0)] - truth).abs() < 1e-8, "{} {truth}", variance[(r, 0)]);
            assert!((joint[(r, r)] - truth).abs() < 1e-8);
        }
        // Swapped sides change the sign, and an item does not beat itself.
        assert!((joint[(0, 1)] + joint[(0, 0)]).abs() < 1e-9);
        assert_eq!((mean[(2, 0)].abs() < 1e-12, variance[(2, 0)] < 1e-9), (true, true));
        let probability = fit.probability(&case.items, &query_pairs).unwrap();
        assert!((probability[0] + probability[1] - 1.0).abs() < 1e-12 && (probability[2] - 0.5).abs() < 1e-9);
    }
}

#[test]
fn gradients_match_finite_differences() {
    let case = case(9, 25, 11);
    for process in processes() {
        let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
        let evidence =
            |theta: &[f64]| process.log_marginal_likelihood(&case.items, &case.duels(), theta).unwrap();
        let (_, gradient) = evidence(&theta);
        for p in 0..theta.len() {
            let value = |h: f64| {
                let mut theta = theta.clone();
                theta[p] += h;
                evidence(&theta).0
            };
            let slope = |h: f64| (value(h) - value(-h)) / (2.0 * h);
            let difference = (4.0 * slope(1e-3) - slope(2e-3)) / 3.0;
            let name = &process.parameters()[p].name;
            assert!((gradient[p] - difference).abs() < 1e-7, "{name}: {} {difference}", gradient[p]);
        }
    }
}

fn close(a: &PreferenceFit, b: &PreferenceFit, items: &Table) {
    let pairs: Vec<Pair> = (0..5).map(|i| (i, i + 3)).collect();
    let (p, q) = (a.probability(items, &pairs).unwrap(), b.probability(items, &pairs).unwrap());
    p.iter().zip(&q).for_each(|(p, q)| assert!((p - q).abs() < 1e-9, "{p} {q}"));
    assert!((a.log_marginal_likelihood - b.log_marginal_likelihood).abs() < 1e-9);
}

/// The order of duels, their sides, and the form of repeats (listed or weighted) do not change the fit.
#[test]
fn order_sides_and_repeats_do_not_change_the_fit() {
    let case = case(10, 30, 7);
    let process = &processes()[0];
    let fit = process.fit(&case.items, &case.duels()).unwrap();
    let n = case.left.len();
    let order: Vec<usize> = (0..n).rev().collect();
    let pick = |from: &[usize]| order.iter().map(|&i| from[i]).collect::<Vec<_>>();
    let (won, weight): (Vec<f64>, Vec<f64>) =
        order.iter().map(|&i| (1.0 - case.outcome[i], case.weight[i])).unzip();
    let other = Duels::new(10, &pick(&case.right), &pick(&case.left), &won, Some(&weight)).unwrap();
    close(&fit, &process.fit(&case.items, &other).unwrap(), &case.items);
    // A tie is half a win for either, and a weight of two is two duels.
    let merged = Duels::new(10, &[0, 0], &[1, 2], &[0.5, 1.0], Some(&[1.0, 2.0])).unwrap();
    let listed =
        Duels::new(10, &[0, 1, 2, 0], &[1, 0, 0, 2], &[1.0, 1.0, 0.0, 1.0], Some(&[0.5, 0.5, 1.0, 1.0]))
            .unwrap();
    assert_eq!(
        (merged.pairs(), merged.outcome(), merged.weight()),
        (listed.pairs(), listed.outcome(), listed.weight())
    );
    assert_eq!((merged.count(), listed.count()), (2, 4));
}

/// The evidence favours a utility if duels follow a ranking, and a generalised preference if they are cyclic.
#[test]
fn the_evidence_says_whether_there_is_a_ranking() {
    let mut s = Stream(4);
    for cyclic in [false, true] {
        let angles: Vec<[f64; 1]> = (0..40).map(|i| [f64::from(i) / 40.0]).collect();
        let items = Table::from_rows(&angles).unwrap();
        let (mut left, mut right, mut won) = (vec![], vec![], vec![]);
        for l in 0..40_usize {
            for r in (0..l).filter(|_| s.uniform() < 0.4).collect::<Vec<_>>() {
                let ahead = (l + 40 - r) % 40;
                left.push(l);
                right.push(r);
                won.push(f64::from(u8::from(if cyclic { ahead < 20 } else { true })));
            }
        }
        let duels = Duels::new(40, &left, &right, &won, None).unwrap();
        let fit_with = |times: [f64; 2]| {
            let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.3]));
            (process.prior.utility_variance, process.prior.generalised_variance) =
                (2.25 * times[0], 2.25 * times[1]);
            process.fit(&items, &duels).unwrap()
        };
        let [combined, ranking, generalised] = [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]].map(fit_with);
        let better = if cyclic { &generalised } else { &ranking };
        let worse = if cyclic { &ranking } else { &generalised };
        let (high, low) = (better.log_marginal_likelihood, worse.log_marginal_likelihood);
        // Any ranking of numbers on a line is also a skew-symmetric function, so that the difference is small
        // there.
        assert!(high > low + if cyclic { 10.0 } else { 0.0 }, "{cyclic}: {high} {low}");
        assert!(combined.log_marginal_likelihood > better.log_marginal_likelihood - 3.0);
        // Items half a circle apart, between which there may be no duel.
        let pairs: Vec<Pair> = (0..40).map(|i| ((i + 10) % 40, i)).collect();
        let probability = combined.probability(&items, &pairs).unwrap();
        let right =
            pairs.iter().zip(&probability).filter(|((l, r), p)| (**p > 0.5) == (cyclic || l > r)).count();
        assert!(right >= 36, "{right} of 40");
    }
}

/// Tuning chooses the profile with the largest marginal likelihood, with priors that are equal for all
/// profiles. Fits through landmarks choose it too.
#[test]
fn profiles_are_chosen_by_their_evidence() {
    let mut s = Stream(5);
    let items = Table::from_rows(&(0..60).map(|i| [f64::from(i) / 10.0]).collect::<Vec<_>>()).unwrap();
    // A random walk is much rougher than functions of a Gaussian kernel.
    let steps: Vec<f64> = (0..60).map(|_| s.normal()).collect();
    let utility: Vec<f64> = (0..60).map(|i| 1.5 * steps[..=i].iter().sum::<f64>()).collect();
    let (mut left, mut right, mut won) = (vec![], vec![], vec![]);
    while left.len() < 1500 {
        let (l, r) = ((60.0 * s.uniform()) as usize, (60.0 * s.uniform()) as usize);
        if l != r {
            left.push(l);
            right.push(r);
            won.push(f64::from(u8::from(s.uniform() < sigma(utility[l] - utility[r]))));
        }
    }
    let duels = Duels::new(60, &left, &right, &won, None).unwrap();
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[1.0]));
    process.prior.generalised_variance = 0.0;
    let tuned_with = |profile: Profile| {
        let mut process = process.clone();
        process.prior.items = process.prior.items.with_profile(profile);
        process.fit(&items, &duels).unwrap()
    };
    let [gaussian, smoother, rough] =
        [Profile::Gaussian, Profile::Matern52, Profile::Matern32].map(tuned_with);
    assert!(gaussian.log_marginal_likelihood + 3.0 < rough.log_marginal_likelihood);
    assert!(smoother.log_marginal_likelihood + 1.0 < rough.log_marginal_likelihood);
    process.profiles = Profile::MATERN.to_vec();
    let chosen = process.fit(&items, &duels).unwrap();
    assert!(chosen.prior.items.formula().contains("matern32"), "{}", chosen.prior.items.formula());
    let difference = chosen.log_marginal_likelihood - rough.log_marginal_likelihood;
    assert!(difference.abs() < 1e-4, "{difference}");
    let landmarks = LandmarkProcess { tuning_pairs: 800, ..LandmarkProcess::new(process) };
    let fit = landmarks.fit(&items, &duels).unwrap();
    assert!(fit.function.prior.items.formula().contains("matern"));
}

/// Where tuning ends, the derivatives of the evidence and of the weakly informative priors, which are normal
/// around the start, cancel.
#[test]
fn tuning_ends_where_evidence_and_weak_priors_are_level() {
    let case = case(15, 60, 8);
    let process = PreferenceProcess::new(Kernel::gaussian(&[1.0, 2.0, 1.0]));
    let fit = process.fit(&case.items, &case.duels()).unwrap();
    assert!(fit.warnings.is_empty(), "{:?}", fit.warnings);
    let end = PreferenceProcess { prior: fit.prior.clone(), ..process.clone() };
    let theta: Vec<f64> = end.parameters().iter().map(|p| p.log_value).collect();
    let (_, gradient) = process.log_marginal_likelihood(&case.items, &case.duels(), &theta).unwrap();
    let start = process.parameters();
    // Two shares, the kernel's scale, which stays, and three length scales.
    for (i, sd) in [(0, 3.0), (1, 3.0), (3, 1.0), (4, 1.0), (5, 1.0_f64)] {
        let weak = -(theta[i] - start[i].log_value) / (sd * sd);
        assert!((gradient[i] + weak).abs() < 2e-3, "{}: {} {weak}", start[i].name, gradient[i]);
    }
}

/// Noiseless duels favour large variances, for which rounding leaves gradients above the usual tolerance of
/// Newton's method.
#[test]
fn large_variances_have_a_mode() {
    let items = Stream(6).normals(12, 2);
    let ahead =
        |&(l, r): &Pair| (items.get(l, 0) > items.get(r, 0)) != (items.get(l, 1) * items.get(r, 1) > 0.5);
    let pairs: Vec<Pair> = (0..12).flat_map(|l| (0..l).map(move |r| (l, r))).collect();
    let (left, right): (Vec<usize>, Vec<usize>) = pairs.iter().copied().unzip();
    let won: Vec<f64> = pairs.iter().map(|pair| f64::from(u8::from(ahead(pair)))).collect();
    let duels = Duels::new(12, &left, &right, &won, None).unwrap();
    for share in [1e4, 1e6, 1e8] {
        let mut process = PreferenceProcess::new(Kernel::gaussian(&[20.0, 20.0]));
        (process.prior.utility_variance, process.prior.generalised_variance) = (0.0, share);
        let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
        let evidence = |theta: &[f64]| process.log_marginal_likelihood(&items, &duels, theta).unwrap();
        let gradient = evidence(&theta).1;
        for (j, slope) in gradient.iter().enumerate() {
            let moved = |step: f64| {
                let mut theta = theta.clone();
                theta[j] += step;
                evidence(&theta).0
            };
            let difference = (moved(1e-3) - moved(-1e-3)) / 2e-3;
            assert!(
                (difference - slope).abs() < 1e-4 * slope.abs().max(1.0),
                "{share}: {difference} {slope}"
            );
        }
    }
}

/// With players that are columns of both items, values match those of all coalitions and change sign with the
/// sides.
#[test]
fn duels_are_explained_by_games_of_wide_rows() {
    let case = case(12, 40, 3);
    let fit = processes()[0].fit(&case.items, &case.duels()).unwrap();
    let columns = fit.model.columns().to_vec();
    let groups: Vec<(String, Vec<String>)> = (0..3)
        .map(|j| (case.items.columns()[j].name.clone(), [j, j + 3].map(|j| columns[j].name.clone()).to_vec()))
        .collect();
    let groups = Players::named(&columns, &groups).unwrap();
    // Both absent features from the same item: the paired game.
    let self_pairs: Vec<Pair> = (0..6).map(|i| (i, i)).collect();
    let background = wide_rows(&case.items, &self_pairs).unwrap();
    let game = Game::Interventional { background: background.into() };
    let question = Question::from(game).with_players(Some(groups));
    let rows = wide_rows(&case.items, &[(7, 2), (2, 7)]).unwrap();
    let explanation = Explainer::new(&fit.model, question).unwrap().explain(&rows).unwrap();
    assert!(explanation.certificate().unwrap().holds && explanation.base_values[0].abs() < 1e-12);
    let coalition_value = |mask: usize| -> f64 {
        let mixed: Vec<Vec<f64>> = (0..6)
            .map(|b| {
                let side = |item: usize| -> Vec<f64> {
                    (0..3).map(|j| case.items.get(if mask >> j & 1 == 1 { item } else { b }, j)).collect()
                };
                [side(7), side(2)].concat()
            })
            .collect();
        let mixed = Table::from_column_major(
            columns.clone(),
            6,
            (0..36).map(|cell| mixed[cell % 6][cell / 6]).collect(),
        );
        fit.model.predict(&mixed.unwrap()).unwrap().data().iter().sum::<f64>() / 6.0
    };
    let share = [1.0 / 3.0, 1.0 / 6.0, 1.0 / 3.0];
    for j in 0..3 {
        let masks = (0..8_usize).filter(|mask| mask >> j & 1 == 0);
        let truth: f64 = masks
            .map(|mask| {
                share[mask.count_ones() as usize] * (coalition_value(mask | 1 << j) - coalition_value(mask))
            })
            .sum();
        assert!(
            (explanation.row_values(0, 0)[j] - truth).abs() < 1e-10,
            "{} {truth}",
            explanation.row_values(0, 0)[j]
        );
        assert!((explanation.row_values(0, 0)[j] + explanation.row_values(1, 0)[j]).abs() < 1e-12);
    }
}

/// The covariances of a duel's values match those from all coalitions under the posterior of the log odds.
#[test]
fn covariances_of_values_match_all_coalitions() {
    let case = case(12, 40, 3);
    for process in processes() {
        let fit = process.fit(&case.items, &case.duels()).unwrap();
        let columns = fit.model.columns().to_vec();
        let name = |j: usize| columns[j].name.clone();
        let groups: Vec<(String, Vec<String>)> =
            (0..3).map(|j| (case.items.columns()[j].name.clone(), vec![name(j), name(j + 3)])).collect();
        let groups = Players::named(&columns, &groups).unwrap();
        // Absent features of the two sides from different items.
        let background: Vec<Pair> = vec![(0, 0), (1, 3), (3, 1), (5, 2)];
        let background = wide_rows(&case.items, &background).unwrap();
        let rows = wide_rows(&case.items, &[(7, 2), (2, 7), (4, 9)]).unwrap();
        let game = Game::Interventional { background: background.clone().into() };
        let question = Question::from(game).with_players(Some(groups)).with_covariance();
        let explainer =
            Explainer::new(&fit.model, question).unwrap().with_posterior(Some(&fit.covariance)).unwrap();
        let joint = &fit.posterior().covariance(&explainer.posterior_functionals(&rows).unwrap())[0];
        let explanation = explainer.explain(&rows).unwrap();
        let variances = &explainer.variance_shares(&rows).unwrap()[0];
        // Means over mixed rows, coalition by coalition for each row.
        let (mut mixed, mut weights) = (Vec::new(), Vec::new());
        for (r, mask) in (0..3).flat_map(|r| (0..8_usize).map(move |mask| (r, mask))) {
            let entries = (0..4).map(|b| {
                let cell =
                    |j: usize| if mask >> (j % 3) & 1 == 1 { rows.get(r, j) } else { background.get(b, j) };
                mixed.push((0..6).map(cell).collect::<Vec<f64>>());
                (mixed.len() - 1, 0.25)
            });
            weights.push(entries.collect::<Vec<_>>());
        }
        let values = (0..6).flat_map(|j| mixed.iter().map(move |row| row[j])).collect();
        let table = Table::from_column_major(columns.clone(), mixed.len(), values).unwrap();
        let sums = Sparse::from_columns(mixed.len(), weights).unwrap();
        let coalition_covariance =
            &fit.posterior().covariance(&fit.posterior().weighted_sum_functionals(&table, &sums).unwrap())[0];
        let share = |j: usize, mask: usize| {
            let (size, is_present) = (mask.count_ones() as usize, mask >> j & 1 == 1);
            let shapley_weights = [1.0 / 3.0, 1.0 / 6.0, 1.0 / 3.0];
            if is_present { shapley_weights[size - 1] } else { -shapley_weights[size] }
        };
        let masks = || (0..64_usize).map(|index| (index / 8, index % 8));
        for (a, b) in (0..9).flat_map(|a| (0..9).map(move |b| (a, b))) {
            let ((r, j), (q, l)) = ((a / 3, a % 3), (b / 3, b % 3));
            let truth: f64 = masks()
                .map(|(s, t)| share(j, s) * share(l, t) * coalition_covariance[(8 * r + s, 8 * q + t)])
                .sum();
            assert!((joint[(a, b)] - truth).abs() < 1e-9, "{} {truth}", joint[(a, b)]);
            if r == q {
                let Some(Uncertainty { dispersion: Dispersion::Covariance(reported), .. }) =
                    &explanation.uncertainty
                else {
                    panic!()
                };
                assert!((reported[r * 9 + 3 * j + l] - truth).abs() < 1e-9);
            }
        }
        for (r, j) in (0..3).flat_map(|r| (0..3).map(move |j| (r, j))) {
            let truth: f64 = (0..8).map(|s| share(j, s) * coalition_covariance[(8 * r + s, 8 * r + s)]).sum();
            assert!((variances[(r, j)] - truth).abs() < 1e-9, "{} {truth}", variances[(r, j)]);
        }
    }
    // A player with a feature of one item only is refused.
    let fit = processes()[0].fit(&case.items, &case.duels()).unwrap();
    let rows = wide_rows(&case.items, &[(7, 2)]).unwrap();
    let question = Question::from(Game::Baseline { point: rows.clone() }).with_covariance();
    let torn = Explainer::new(&fit.model, question).unwrap().with_posterior(Some(&fit.covariance));
    let error = torn.and_then(|explainer| explainer.explain(&rows)).err().unwrap().to_string();
    assert!(error.contains("the columns of both items"), "{error}");
}

#[test]
fn invalid_duels_are_refused() {
    let say = |l: &[usize], r: &[usize], won: &[f64], w: Option<&[f64]>| {
        Duels::new(3, l, r, won, w).unwrap_err().to_string()
    };
    assert!(say(&[], &[], &[], None).contains("duel"));
    assert!(say(&[0], &[3], &[1.0], None).contains("item of duel 1 = 3"));
    assert!(say(&[0, 1], &[1, 1], &[1.0, 1.0], None).contains("meets itself"));
    assert!(say(&[0], &[1], &[2.0], None).contains("0.5 for a tie"));
    assert!(say(&[0], &[1], &[f64::NAN], None).contains("outcome of duel 1"));
    assert!(say(&[0], &[1], &[1.0], Some(&[0.0])).contains("weights are positive"));
    assert!(say(&[0], &[1], &[1.0, 0.0], None).contains("one per duel"));
    let (items, duels) = (Stream(1).normals(4, 1), Duels::new(3, &[0], &[1], &[1.0], None).unwrap());
    let error = PreferenceProcess::new(Kernel::gaussian(&[1.0])).fit(&items, &duels).unwrap_err();
    assert!(error.to_string().contains("one per item of the duels"), "{error}");
}

#[test]
fn graphs_of_duels() {
    let duels = |pairs: &[(usize, usize)]| {
        let (l, r): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        Duels::new(7, &l, &r, &vec![1.0; l.len()], None).unwrap()
    };
    let apart = duels(&[(0, 1), (2, 1), (4, 5)]);
    assert_eq!(apart.components(), [vec![0, 1, 2], vec![4, 5]]);
    assert!(!apart.is_strongly_connected());
    assert!(!duels(&[(0, 1), (1, 2)]).is_strongly_connected());
    assert!(duels(&[(0, 1), (1, 2), (2, 0)]).is_strongly_connected());
}

/// Features of pairs, for many duels between few items, agree with the full covariance, which is used with
/// contexts (here a single one).
#[test]
fn features_of_pairs_match_the_full_covariance() {
    let mut s = Stream(8);
    // On a line a smooth kernel has a dozen relevant eigenvectors, so that there are fewer features than
    // pairs.
    let items = s.normals(30, 1);
    let pairs: Vec<Pair> = (0..30).flat_map(|l| (0..l).map(move |r| (l, r))).collect();
    let (left, right): (Vec<usize>, Vec<usize>) = pairs.iter().copied().unzip();
    let outcome: Vec<f64> = pairs.iter().map(|_| [1.0, 0.0, 0.5][(s.uniform() * 3.0) as usize]).collect();
    let names: Vec<String> = (0..30).map(|i| i.to_string()).collect();
    let entries = prepare_entries(&items, (&left, &right), &outcome, None, Some(&names)).unwrap();
    let duels = Duels::new(30, &entries.left, &entries.right, &outcome, None).unwrap();
    let season =
        |n: usize| Table::from_column_major(vec![Column::numeric("season")], n, vec![0.0; n]).unwrap();
    let one_season = season(pairs.len());
    let in_context =
        Duels::in_contexts(30, &entries.left, &entries.right, &outcome, None, &one_season).unwrap();
    let cases =
        [(2.0, 1.5, None), (2.0, 1.5, Some(0.7)), (0.5, 0.0, Some(0.3)), (0.0, 1.0, None), (0.0, 0.0, None)];
    for (utility, generalised, margin) in cases {
        let mut feature_process = PreferenceProcess::new(Kernel::gaussian(&[2.0]));
        (feature_process.prior.extra_utility_kernel, feature_process.margin) =
            (entries.extra_utility_kernel.clone(), margin);
        (feature_process.prior.utility_variance, feature_process.prior.generalised_variance) =
            (utility, generalised);
        let mut full_process = feature_process.clone();
        full_process.prior.contexts = Some(ContextKernel { kernel: Kernel::constant(1.0), shared: 1.0 });
        let log_values = |process: &PreferenceProcess| -> Vec<f64> {
            process.parameters().iter().map(|p| p.log_value).collect()
        };
        let (value, slopes) = feature_process
            .log_marginal_likelihood(&entries.table, &duels, &log_values(&feature_process))
            .unwrap();
        let (expected, expected_slopes) = full_process
            .log_marginal_likelihood(&entries.table, &in_context, &log_values(&full_process))
            .unwrap();
        assert!((value - expected).abs() < 1e-8 * expected.abs(), "{value} {expected}");
        // The kernel of contexts has one additional parameter, which is before the margin.
        let margin_index = slopes.len() - usize::from(margin.is_some());
        for (a, b) in slopes[..margin_index]
            .iter()
            .zip(&expected_slopes)
            .chain(slopes[margin_index..].last().zip(expected_slopes.last()))
        {
            assert!((a - b).abs() < 1e-6 * (1.0 + b.abs()), "{slopes:?} {expected_slopes:?}");
        }
        // The fits are the same.
        feature_process.tune = false;
        full_process.tune = false;
        let rows = wide_rows(&entries.table, &pairs[..40]).unwrap();
        let a = feature_process.fit(&entries.table, &duels).unwrap();
        let b = full_process.fit(&entries.table, &in_context).unwrap();
        let mean = a.model.predict(&rows).unwrap();
        let contexts = season(40);
        let other =
            b.model.predict(&wide_rows_in(&entries.table, &pairs[..40], Some(&contexts)).unwrap()).unwrap();
        for (a, b) in mean.data().iter().zip(other.data()) {
            assert!((a - b).abs() < 1e-8, "{a} {b}");
        }
    }
}
