//! Suggested duels: expected information by exhaustive quadrature, its standard error, and the regret of
//! sequences of duels.

use riesz::model_average::ModelPart;
use riesz::preference::{
    DuelSuggestion, Duels, InformationGoal, Pair, PairKernel, PreferenceFit, PreferenceProcess,
    RankingRequest, SuggestionRequest, wide_rows,
};
use riesz::{Error, Kernel, Matrix, Table};

use crate::common::Stream;

/// The pairs of three items.
const PAIRS: [Pair; 3] = [(0, 1), (0, 2), (1, 2)];

/// Returns n items that have nothing in common under the kernel of [`fit`].
fn distinct_items(n: usize) -> Table {
    Table::from_rows(&(0..n).map(|i| [i as f64]).collect::<Vec<_>>()).unwrap()
}

/// Fits duels (winner, loser) between distinct items with prior variances of the utility and of the
/// generalised part.
fn fit(n: usize, duels: &[Pair], variances: (f64, f64), margin: Option<f64>) -> PreferenceFit {
    let (left, right): (Vec<usize>, Vec<usize>) = duels.iter().copied().unzip();
    let duels = Duels::new(n, &left, &right, &vec![1.0; left.len()], None).unwrap();
    let prior = PairKernel::new(Kernel::gaussian(&[0.05]), variances.0, variances.1);
    let process =
        PreferenceProcess { prior, margin, tune: false, ..PreferenceProcess::new(Kernel::constant(1.0)) };
    process.fit(&distinct_items(n), &duels).unwrap()
}

fn suggest(fit: &PreferenceFit, n: usize, request: &SuggestionRequest) -> Vec<DuelSuggestion> {
    let part = ModelPart::single(&fit.model, Some(&fit.covariance));
    request.suggest(&[part], &distinct_items(n), None).unwrap()
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Returns the Cholesky factor of a small matrix.
fn cholesky(c: &Matrix) -> Matrix {
    let n = c.rows();
    let mut l = Matrix::zeros(n, n);
    for i in 0..n {
        for j in 0..=i {
            let sum: f64 = c[(i, j)] - (0..j).map(|k| l[(i, k)] * l[(j, k)]).sum::<f64>();
            l[(i, j)] = if i == j { sum.sqrt() } else { sum / l[(j, j)] };
        }
    }
    l
}

/// Returns points and weights of a normal distribution over the log odds of the three pairs. `free` are the
/// first log odds, with their mean and covariance; the last one is determined by a utility if there are two.
fn quadrature(mean: &[f64], covariance: &Matrix, per_axis: usize) -> Vec<([f64; 3], f64)> {
    let (d, root) = (mean.len(), cholesky(covariance));
    let node = |k: usize| -6.5 + 13.0 * (k as f64 + 0.5) / per_axis as f64;
    let mut points = Vec::new();
    let mut total = 0.0;
    for code in 0..per_axis.pow(d as u32) {
        let mut z: Vec<f64> = (0..d).map(|a| node(code / per_axis.pow(a as u32) % per_axis)).collect();
        // The grid is turned, because one that is parallel to the boundaries of events is less accurate.
        for (i, j, angle) in [(0, 1, 0.7_f64), (0, 2, 1.1), (1, 2, 0.4)] {
            if j < d {
                let (sin, cos) = angle.sin_cos();
                (z[i], z[j]) = (cos * z[i] - sin * z[j], sin * z[i] + cos * z[j]);
            }
        }
        let weight = (-0.5 * z.iter().map(|v| v * v).sum::<f64>()).exp();
        let free: Vec<f64> =
            (0..d).map(|i| mean[i] + (0..=i).map(|k| root[(i, k)] * z[k]).sum::<f64>()).collect();
        let third = if d == 2 { free[1] - free[0] } else { free[2] };
        points.push(([free[0], free[1], third], weight));
        total += weight;
    }
    points.iter_mut().for_each(|(_, weight)| *weight /= total);
    points
}

/// Returns the goal's value at log odds of the three pairs; `None` if it is all of them.
fn goal_value(goal: InformationGoal, [a, b, c]: [f64; 3]) -> Option<usize> {
    let is_cycle = (a > 0.0 && c > 0.0 && b < 0.0) || (a < 0.0 && c < 0.0 && b > 0.0);
    match goal {
        InformationGoal::Ranking => None,
        InformationGoal::Cycles => Some(usize::from(is_cycle)),
        InformationGoal::Best if is_cycle => Some(3),
        InformationGoal::Best if a > 0.0 && b > 0.0 => Some(0),
        InformationGoal::Best => Some(if c > 0.0 { 1 } else { 2 }),
    }
}

/// Returns the information of each of the three duels in bits, from the joint distribution of outcome and
/// goal.
fn exact_information(points: &[([f64; 3], f64)], goal: InformationGoal, margin: f64) -> [f64; 3] {
    let entropy = |p: &[f64]| -> f64 { p.iter().filter(|p| **p > 0.0).map(|p| -p * p.log2()).sum() };
    [0, 1, 2].map(|k| {
        let outcomes = |g: &[f64; 3]| {
            let (win, loss) = (logistic(g[k] - margin), logistic(-g[k] - margin));
            [win, loss, 1.0 - win - loss]
        };
        let (mut joint, mut by_outcome, mut conditional) = ([[0.0; 3]; 4], [0.0; 3], 0.0);
        for (g, weight) in points {
            let p = outcomes(g);
            for y in 0..3 {
                by_outcome[y] += weight * p[y];
                joint[goal_value(goal, *g).unwrap_or(0)][y] += weight * p[y];
            }
            conditional += weight * entropy(&p);
        }
        match goal {
            InformationGoal::Ranking => entropy(&by_outcome) - conditional,
            _ => {
                let by_value: Vec<f64> = joint.iter().map(|row| row.iter().sum()).collect();
                entropy(&by_outcome) + entropy(&by_value) - entropy(&joint.concat())
            }
        }
    })
}

/// Returns the posterior of Bradley and Terry's abilities by Laplace's approximation, by hand: the mean and
/// the covariance of the log odds of the pairs (0, 1) and (0, 2).
fn bradley_terry_by_hand(duels: &[Pair], variance: f64) -> (Vec<f64>, Matrix) {
    let mut ability = [0.0; 3];
    let mut covariance = Matrix::zeros(3, 3);
    for _ in 0..50 {
        let mut gradient = ability.map(|a| -a / variance);
        let mut precision = Matrix::from_fn(3, 3, |i, j| if i == j { 1.0 / variance } else { 0.0 });
        for &(w, l) in duels {
            let p = logistic(ability[w] - ability[l]);
            gradient[w] += 1.0 - p;
            gradient[l] -= 1.0 - p;
            for (i, j, sign) in [(w, w, 1.0), (l, l, 1.0), (w, l, -1.0), (l, w, -1.0)] {
                precision[(i, j)] += sign * p * (1.0 - p);
            }
        }
        covariance = inverse_3(&precision);
        for i in 0..3 {
            ability[i] += (0..3).map(|j| covariance[(i, j)] * gradient[j]).sum::<f64>();
        }
    }
    let difference = |i: usize, a: usize| f64::from(u8::from(a == 0)) - f64::from(u8::from(a == i + 1));
    let mean = (0..2).map(|i| ability[0] - ability[i + 1]).collect();
    let of_pairs = Matrix::from_fn(2, 2, |i, j| {
        let term = |a: usize, b: usize| difference(i, a) * covariance[(a, b)] * difference(j, b);
        (0..3).flat_map(|a| (0..3).map(move |b| (a, b))).map(|(a, b)| term(a, b)).sum()
    });
    (mean, of_pairs)
}

/// Returns the inverse of a 3 × 3 matrix by cofactors.
fn inverse_3(m: &Matrix) -> Matrix {
    let cofactor = |i: usize, j: usize| {
        let (a, b, c, d) = ((i + 1) % 3, (i + 2) % 3, (j + 1) % 3, (j + 2) % 3);
        m[(a, c)] * m[(b, d)] - m[(a, d)] * m[(b, c)]
    };
    let determinant: f64 = (0..3).map(|j| m[(0, j)] * cofactor(0, j)).sum();
    Matrix::from_fn(3, 3, |i, j| cofactor(j, i) / determinant)
}

/// Returns the suggestions for all three pairs in their order.
fn informations(fit: &PreferenceFit, goal: InformationGoal, draws: usize, seed: u64) -> Vec<DuelSuggestion> {
    let request = SuggestionRequest { count: 3, draws: Some(draws), seed, ..SuggestionRequest::new(goal) };
    let mut suggestions = suggest(fit, 3, &request);
    assert!(suggestions.windows(2).all(|two| two[0].information >= two[1].information));
    suggestions.sort_by_key(|s| s.pair);
    assert_eq!(suggestions.iter().map(|s| s.pair).collect::<Vec<_>>(), PAIRS);
    suggestions
}

fn assert_information(suggestions: &[DuelSuggestion], exact: [f64; 3]) {
    for (s, exact) in suggestions.iter().zip(exact) {
        let gap = (s.information - exact).abs();
        assert!(gap < 5.0 * s.std_error + 1e-3, "{:?}: {} is not {exact}", s.pair, s.information);
        assert!(s.std_error < 2e-3 && (s.information > 2e-3 || exact < 4e-3), "{s:?}");
    }
}

const DUELS: [Pair; 7] = [(0, 1), (0, 1), (1, 0), (1, 2), (1, 2), (0, 2), (2, 1)];

#[test]
fn information_of_bradley_terry_matches_quadrature() {
    let fit = fit(3, &DUELS, (2.0, 0.0), None);
    let (mean, covariance) = bradley_terry_by_hand(&DUELS, 2.0);
    let points = quadrature(&mean, &covariance, 500);
    for goal in [InformationGoal::Best, InformationGoal::Ranking] {
        assert_information(&informations(&fit, goal, 100_000, 1), exact_information(&points, goal, 0.0));
    }
}

/// Returns points of the posterior of a model with cycles.
fn points_of_cyclic(fit: &PreferenceFit) -> Vec<([f64; 3], f64)> {
    let rows = wide_rows(&distinct_items(3), &PAIRS).unwrap();
    let posterior = fit.posterior();
    let functionals = posterior.functionals_at(&rows).unwrap();
    let mean = posterior.mean_of(&functionals).column(0);
    quadrature(&mean, &posterior.covariance(&functionals)[0], 90)
}

#[test]
fn information_with_cycles_and_ties_matches_quadrature() {
    for margin in [None, Some(0.6)] {
        let fit = fit(3, &DUELS, (0.8, 1.5), margin);
        let points = points_of_cyclic(&fit);
        for goal in [InformationGoal::Best, InformationGoal::Ranking, InformationGoal::Cycles] {
            let exact = exact_information(&points, goal, margin.unwrap_or(0.0));
            assert_information(&informations(&fit, goal, 60_000, 2), exact);
        }
        // The probability of being the Condorcet winner, and of a win of the left item.
        let probability = |event: &dyn Fn(&[f64; 3]) -> f64| -> f64 {
            points.iter().map(|(g, weight)| weight * event(g)).sum()
        };
        let request = RankingRequest { draws: Some(60_000), ..RankingRequest::default() };
        let ranking = request.summarise_log_odds(&fit.flow(&distinct_items(3)).unwrap()).unwrap();
        for (i, (stated, error)) in ranking.condorcet.iter().zip(ranking.condorcet_std_error()).enumerate() {
            let wins = |g: &[f64; 3]| f64::from(u8::from(goal_value(InformationGoal::Best, *g) == Some(i)));
            assert!((stated - probability(&wins)).abs() < 5.0 * error + 1e-3, "{stated}");
        }
        assert!(ranking.condorcet.iter().sum::<f64>() < 0.95);
        for (k, s) in informations(&fit, InformationGoal::Ranking, 60_000, 3).iter().enumerate() {
            let wins = |g: &[f64; 3]| logistic(g[k] - margin.unwrap_or(0.0));
            assert!((s.probability - probability(&wins)).abs() < 5e-3);
        }
    }
}

/// Few draws have no bias that is visible in the mean of many estimates, and the standard error is the spread
/// of these estimates.
#[test]
fn standard_errors_are_the_spread_of_estimates() {
    let fit = fit(3, &DUELS[..2], (0.8, 4.0), None);
    let points = points_of_cyclic(&fit);
    let estimates = 2000;
    for (goal, draws) in [(InformationGoal::Ranking, 20), (InformationGoal::Cycles, 60)] {
        let exact = exact_information(&points, goal, 0.0);
        let largest = (0..3).max_by(|i, j| exact[*i].total_cmp(&exact[*j])).unwrap();
        let suggestions: Vec<DuelSuggestion> =
            (0..estimates).map(|seed| informations(&fit, goal, draws, seed).swap_remove(largest)).collect();
        let mean_of = |value: &dyn Fn(&DuelSuggestion) -> f64| {
            suggestions.iter().map(value).sum::<f64>() / estimates as f64
        };
        let mean = mean_of(&|s| s.information);
        let sd = mean_of(&|s| (s.information - mean).powi(2)).sqrt();
        let stated = mean_of(&|s| s.std_error);
        println!("{goal:?}: exact {}, mean {mean}, sd {sd}, stated {stated}", exact[largest]);
        assert!((mean - exact[largest]).abs() < 4.0 * sd / (estimates as f64).sqrt(), "{mean}");
        assert!((stated / sd - 1.0).abs() < 0.2, "{stated} {sd}");
    }
}

#[test]
fn suggestions_depend_on_seed_and_candidates_alone() {
    let fit = fit(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], (1.0, 1.0), None);
    let request = SuggestionRequest { count: 4, seed: 7, ..SuggestionRequest::new(InformationGoal::Best) };
    let suggestions = suggest(&fit, 5, &request);
    assert_eq!(suggestions, suggest(&fit, 5, &request));
    assert_ne!(suggestions, suggest(&fit, 5, &SuggestionRequest { seed: 8, ..request.clone() }));
    // Candidates have the information that they have among all pairs.
    let pair = suggestions[2].pair;
    let candidates = Some(vec![pair, (pair.1, pair.0)]);
    let both_orders = suggest(&fit, 5, &SuggestionRequest { candidates, ..request.clone() });
    assert_eq!(both_orders.len(), 2);
    for s in &both_orders {
        assert!((s.information - suggestions[2].information).abs() < 1e-12);
    }
    assert!((both_orders[0].probability + both_orders[1].probability - 1.0).abs() < 1e-12);

    let part = [ModelPart::single(&fit.model, Some(&fit.covariance))];
    let error = |request: SuggestionRequest, n: usize| request.suggest(&part, &distinct_items(n), None);
    let candidates = Some(vec![(0, 5)]);
    let refused = error(SuggestionRequest { candidates, ..request.clone() }, 5);
    assert!(matches!(refused, Err(Error::Parameter { name, .. }) if name == "candidates"));
    assert!(error(SuggestionRequest { draws: Some(1), ..request.clone() }, 5).is_err());
    assert!(error(SuggestionRequest { count: 0, ..request.clone() }, 5).is_err());
    assert!(error(request, 1).is_err());
    let utility = self::fit(3, &DUELS, (1.0, 0.0), None);
    let cycles = SuggestionRequest::new(InformationGoal::Cycles);
    let part = ModelPart::single(&utility.model, Some(&utility.covariance));
    let refused = cycles.suggest(&[part], &distinct_items(3), None);
    assert!(matches!(refused, Err(Error::Parameter { name, .. }) if name == "goal"));
}

/// Holds duels one by one and returns the regret after each. The first duels are between neighbours.
/// `log_odds` are the true ones; without a goal the next duel is random.
fn regrets(
    log_odds: &Matrix,
    variances: (f64, f64),
    goal: Option<InformationGoal>,
    rounds: usize,
    seed: u64,
    regret: &dyn Fn(&PreferenceFit) -> f64,
) -> Vec<f64> {
    let n = log_odds.rows();
    let mut s = Stream(0xD1B5_4A32_D192_ED03_u64.wrapping_mul(seed + 1));
    let hold = |(l, r): Pair, s: &mut Stream| {
        if s.uniform() < logistic(log_odds[(l, r)]) { (l, r) } else { (r, l) }
    };
    let mut duels: Vec<Pair> = vec![hold((0, 1), &mut s)];
    let mut regrets = Vec::new();
    for t in 0..rounds {
        let fit = fit(n, &duels, variances, None);
        regrets.push(regret(&fit));
        let pair = match goal {
            Some(goal) => {
                let request =
                    SuggestionRequest { draws: Some(400), seed: t as u64, ..SuggestionRequest::new(goal) };
                suggest(&fit, n, &request)[0].pair
            }
            None => {
                let l = (s.uniform() * n as f64) as usize;
                (l, (l + 1 + (s.uniform() * (n - 1) as f64) as usize) % n)
            }
        };
        duels.push(hold(pair, &mut s));
    }
    regrets
}

/// The utility that the item with the largest posterior mean lacks decreases faster with suggested duels.
#[test]
fn suggested_duels_find_the_best_item_faster_than_random_ones() {
    let (n, seeds, rounds) = (16, 6, 60);
    let (mut suggested, mut random) = (0.0, 0.0);
    for seed in 0..seeds {
        let mut s = Stream(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed + 1));
        let utility: Vec<f64> = (0..n).map(|_| 1.5 * s.normal()).collect();
        let log_odds = Matrix::from_fn(n, n, |l, r| utility[l] - utility[r]);
        let largest = utility.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let regret = |fit: &PreferenceFit| {
            let (mean, _) = fit.flow(&distinct_items(n)).unwrap().utilities().unwrap();
            let best = (0..n).max_by(|i, j| mean[*i].total_cmp(&mean[*j])).unwrap();
            largest - utility[best]
        };
        let total = |goal| {
            regrets(&log_odds, (2.25, 0.0), goal, rounds, seed, &regret)[rounds / 2..].iter().sum::<f64>()
        };
        suggested += total(Some(InformationGoal::Best)) / (seeds as f64 * (rounds - rounds / 2) as f64);
        random += total(None) / (seeds as f64 * (rounds - rounds / 2) as f64);
    }
    println!("mean regret: suggested {suggested}, random {random}");
    assert!(suggested < 0.5 * random, "{suggested} {random}");
}

/// Rock, paper and scissors beat each other in a cycle, and three other items lose to them. The probability
/// of the wrong answer that there is a Condorcet winner decreases faster with suggested duels.
#[test]
fn suggested_duels_find_rock_paper_scissors_faster_than_random_ones() {
    let n = 6;
    let log_odds = Matrix::from_fn(n, n, |l, r| match (l < 3, r < 3) {
        (true, true) => [0.0, 2.0, -2.0][(r + 3 - l) % 3],
        (false, false) => 1.0 * (r as f64 - l as f64),
        (true, false) => 2.0,
        (false, true) => -2.0,
    });
    let regret = |fit: &PreferenceFit| {
        let request = RankingRequest { draws: Some(400), triangles: 0, ..RankingRequest::default() };
        let ranking = request.summarise_log_odds(&fit.flow(&distinct_items(n)).unwrap()).unwrap();
        ranking.condorcet.iter().sum()
    };
    let (mut suggested, mut random) = (0.0, 0.0);
    for seed in 0..4 {
        let total = |goal| regrets(&log_odds, (1.0, 2.0), goal, 60, seed, &regret)[30..].iter().sum::<f64>();
        suggested += total(Some(InformationGoal::Best)) / (4.0 * 30.0);
        random += total(None) / (4.0 * 30.0);
    }
    println!("mean probability of a winner: suggested {suggested}, random {random}");
    assert!(suggested < 0.5 * random, "{suggested} {random}");
}
