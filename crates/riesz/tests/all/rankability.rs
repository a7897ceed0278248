//! Rankability: posterior draws of all pairs, cyclic shares and cyclic triangles by definition, and SpecR by
//! hand.

use std::sync::atomic::AtomicBool;

use faer::Mat;
use faer::linalg::solvers::SolveLstsq;
use riesz::format::model::{SavedModel, from_bytes, to_bytes};
use riesz::kernel::Categorical;
use riesz::preference::{
    AbilityRidge, BradleyTerry, ContextKernel, Duels, Hodge, ModelEvidence, PairKernel, PairwiseLogOdds,
    PreferenceFit, PreferenceProcess, RankingRequest, SpecR, UserEvidence, average_clustering,
    prepare_entries, spec_r, wide_rows, wide_rows_in,
};
use riesz::{Column, ColumnKind, Kernel, Matrix, Table};

use crate::common::Stream;

fn fit(items: &Table, duels: &Duels, utility: f64, generalised: f64) -> PreferenceFit {
    let kernel = Kernel::gaussian(&vec![1.3; items.width()]) + 0.2 * Kernel::gaussian(&[4.0]);
    let prior = PairKernel::new(kernel, utility, generalised);
    let process = PreferenceProcess { prior, tune: false, ..PreferenceProcess::new(Kernel::constant(1.0)) };
    process.fit(items, duels).unwrap()
}

/// Returns items of which the first six have duels, these duels, and queried items: some of the items, a new
/// one, and a repeated one.
fn case() -> (Table, Duels, Table) {
    let mut s = Stream(5);
    let items = s.normals(7, 2);
    let (left, right) = (vec![0, 1, 2, 3, 4, 0, 5, 2], vec![1, 2, 3, 4, 5, 5, 3, 0]);
    let outcome = [1.0, 1.0, 0.5, 0.0, 1.0, 1.0, 0.0, 1.0];
    let weight = [1.0, 2.0, 1.0, 0.5, 1.0, 1.0, 3.0, 1.0];
    let duels = Duels::new(7, &left, &right, &outcome, Some(&weight)).unwrap();
    let queried = items.select_rows(&[0, 2, 6, 5, 2]);
    (items, duels, queried)
}

fn pairs(n: usize) -> Vec<(usize, usize)> {
    (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).collect()
}

#[test]
fn flows_are_predictions_of_all_pairs() {
    let (items, duels, queried) = case();
    for (utility, generalised) in [(1.5, 0.7), (1.5, 0.0), (0.0, 2.0)] {
        let fit = fit(&items, &duels, utility, generalised);
        let flow = fit.flow(&queried).unwrap();
        let mean = flow.mean();
        let truth = fit.model.predict(&wide_rows(&queried, &pairs(5)).unwrap()).unwrap();
        for (t, (i, j)) in pairs(5).into_iter().enumerate() {
            assert!((mean[(i, j)] - truth[(t, 0)]).abs() < 1e-12, "{} {}", mean[(i, j)], truth[(t, 0)]);
            assert_eq!(mean[(i, j)], -mean[(j, i)]);
        }
    }
}

/// Means and covariances of draws are within five standard errors of those of the posterior.
#[test]
fn draws_are_from_the_posterior() {
    let (items, duels, queried) = case();
    let upper_pairs: Vec<(usize, usize)> = pairs(5).into_iter().filter(|(i, j)| i < j).collect();
    let rows = wide_rows(&queried, &upper_pairs).unwrap();
    for (utility, generalised) in [(1.5, 0.7), (2.0, 0.0), (0.0, 2.0)] {
        let fit = fit(&items, &duels, utility, generalised);
        let (mean, count) = (fit.model.predict(&rows).unwrap(), 20_000);
        let covariance = &fit.posterior().covariance(&fit.posterior().functionals_at(&rows).unwrap())[0];
        let flow = fit.flow(&queried).unwrap();
        let source = flow.draws().unwrap();
        let mut sums = vec![0.0; upper_pairs.len()];
        let mut squares = Matrix::zeros(upper_pairs.len(), upper_pairs.len());
        for seed in 0..count {
            let draw = source.draw(seed);
            let deviation: Vec<f64> =
                upper_pairs.iter().enumerate().map(|(t, &(i, j))| draw[(i, j)] - mean[(t, 0)]).collect();
            for (a, x) in deviation.iter().enumerate() {
                sums[a] += x / count as f64;
                squares.row_mut(a).iter_mut().zip(&deviation).for_each(|(s, y)| *s += x * y / count as f64);
            }
        }
        for a in 0..upper_pairs.len() {
            let variance = covariance[(a, a)].max(0.0);
            assert!(sums[a].abs() < 5.0 * (variance / count as f64).sqrt() + 1e-7, "mean {}", sums[a]);
            for b in 0..upper_pairs.len() {
                let error =
                    (variance * covariance[(b, b)].max(0.0) + covariance[(a, b)].powi(2)) / count as f64;
                let gap = squares[(a, b)] - covariance[(a, b)];
                assert!(gap.abs() < 5.0 * error.sqrt() + 1e-7, "{gap} {}", error.sqrt());
            }
        }
        // An item has the same strength as its copy.
        assert!(source.draw(1)[(1, 4)].abs() < 1e-6);
    }
}

/// Returns the case with a further utility and contexts.
fn fit_in_contexts(utility: f64, generalised: f64) -> (PreferenceFit, Table) {
    let (items, _, queried) = case();
    let (left, right) = ([0, 1, 2, 3, 4, 0, 5, 2], [1, 2, 3, 4, 5, 5, 3, 0]);
    let outcome = [1.0, 1.0, 0.5, 0.0, 1.0, 1.0, 0.0, 1.0];
    let seasons: Vec<[f64; 1]> = [0.0, 1.0, 0.0, 2.0, 1.0, 0.5, 0.0, 2.0].map(|v| [v]).to_vec();
    let columns = vec![Column::numeric("season")];
    let cells = seasons.iter().map(|row| row[0]).collect();
    let contexts = Table::from_column_major(columns, seasons.len(), cells).unwrap();
    let duels = Duels::in_contexts(7, &left, &right, &outcome, None, &contexts).unwrap();
    let kernel = Kernel::gaussian(&[1.3, 0.8]) + 0.2 * Kernel::gaussian(&[4.0]);
    let mut prior = PairKernel::new(kernel, utility, generalised);
    prior.extra_utility_kernel = Some(0.6 * Kernel::gaussian(&[0.4]));
    prior.contexts = Some(ContextKernel { kernel: Kernel::gaussian(&[1.5]), shared: 0.3 });
    let process = PreferenceProcess { prior, tune: false, ..PreferenceProcess::new(Kernel::constant(1.0)) };
    (process.fit(&items, &duels).unwrap(), queried)
}

/// The mean and the covariance of utilities are those of the means over all pairs, from the general posterior
/// of kernel expansions; and draws in a context have them, too.
#[test]
fn utilities_are_means_over_all_pairs() {
    for (utility, generalised) in [(1.5, 0.7), (1.5, 0.0), (0.0, 2.0)] {
        let (fit, queried) = fit_in_contexts(utility, generalised);
        let season = vec![0.7; 25];
        let context = Table::from_column_major(vec![Column::numeric("season")], 25, season).unwrap();
        let rows = wide_rows_in(&queried, &pairs(5), Some(&context)).unwrap();
        let posterior = fit.posterior();
        let functionals = posterior.functionals_at(&rows).unwrap();
        let (of_pairs, covariance) =
            (posterior.mean_of(&functionals).column(0), &posterior.covariance(&functionals)[0]);
        let block = |i: usize| 5 * i..5 * (i + 1);
        let mean_of = |i: usize| block(i).map(|p| of_pairs[p] / 5.0).sum::<f64>();
        let covariance_of = |i: usize, j: usize| {
            block(i).flat_map(|p| block(j).map(move |q| (p, q))).map(|pq| covariance[pq] / 25.0).sum::<f64>()
        };
        let flow = PairwiseLogOdds::new(&fit.model, Some(&fit.covariance), &queried, Some(&[0.7])).unwrap();
        let (mean, covariance) = flow.utilities().unwrap();
        let (log_odds, source, count) = (flow.mean(), flow.draws().unwrap(), 20_000);
        let mut products = Matrix::zeros(5, 5);
        for seed in 0..count {
            let drawn = Hodge::decompose(&source.draw(seed)).utility;
            for (i, j) in pairs(5) {
                products[(i, j)] += (drawn[i] - mean[i]) * (drawn[j] - mean[j]) / count as f64;
            }
        }
        for (i, j) in pairs(5) {
            assert!((log_odds[(i, j)] - of_pairs[5 * i + j]).abs() < 1e-12);
            assert!((mean[i] - mean_of(i)).abs() < 1e-12, "{} {}", mean[i], mean_of(i));
            let truth = covariance_of(i, j);
            assert!((covariance[(i, j)] - truth).abs() < 1e-8, "{} {truth}", covariance[(i, j)]);
            let error = ((covariance[(i, i)] * covariance[(j, j)] + truth.powi(2)) / count as f64).sqrt();
            assert!((products[(i, j)] - truth).abs() < 5.0 * error + 1e-7, "{} {truth}", products[(i, j)]);
        }
    }
}

/// A file gives the same ranking as the fit; that of abilities is the normal distribution of the fit.
#[test]
fn files_give_the_ranking_of_the_fit() {
    let (items, duels, _) = case();
    let request = RankingRequest { draws: Some(50), ..RankingRequest::default() };
    for (utility, generalised) in [(1.5, 0.7), (0.0, 2.0)] {
        let fit = fit(&items, &duels, utility, generalised);
        let expected = request.summarise_log_odds(&fit.flow(&items).unwrap()).unwrap();
        let saved = SavedModel { model: fit.model, covariance: Some(fit.covariance), groups: None };
        let SavedModel { model, covariance, .. } = from_bytes(&to_bytes(&saved).unwrap()).unwrap();
        let flow = PairwiseLogOdds::new(&model, covariance.as_ref(), &items, None).unwrap();
        assert_eq!(request.summarise_log_odds(&flow).unwrap(), expected);
    }
    let names: Vec<String> = (0..7).map(|i| format!("item {i}")).collect();
    let fit = BradleyTerry::new(AbilityRidge::Fixed(0.5)).fit(&names, &duels).unwrap();
    let (mean, covariance) = fit.abilities().unwrap();
    let expected = request.of_abilities(&mean, &covariance).unwrap();
    let column = Column { name: "item".into(), kind: ColumnKind::Categorical { levels: names } };
    let rows = Table::from_column_major(vec![column], 7, (0..7).map(f64::from).collect()).unwrap();
    let flow = PairwiseLogOdds::new(&fit.model, fit.covariance.as_ref(), &rows, None).unwrap();
    let summary = request.summarise_log_odds(&flow).unwrap();
    for i in 0..7 {
        assert!((summary.utility[i] - expected.utility[i]).abs() < 1e-9);
        assert!((summary.utility_interval[i].0 - expected.utility_interval[i].0).abs() < 1e-7);
    }
}

/// The default has so many draws that the probability of being the best is that of two items' difference.
#[test]
fn probabilities_of_the_best_have_small_errors() {
    let covariance = Matrix::from_row_major(2, 2, vec![1.0, 0.3, 0.3, 0.5]);
    let summary = RankingRequest::default().of_abilities(&[0.4, 0.0], &covariance).unwrap();
    // The difference has the variance 1 + 0.5 - 2 · 0.3; Φ(0.4 / √0.9) = 0.66336.
    let (truth, error) = (0.663_36, summary.best_std_error()[0]);
    assert_eq!(summary.draws, 10_000);
    assert!((error - (truth * (1.0 - truth) / 1e4_f64).sqrt()).abs() < 1e-4);
    assert!((summary.best[0] - truth).abs() < 4.0 * error, "{}", summary.best[0]);
    let half_width = 1.959_964 * 0.9_f64.sqrt() / 2.0;
    let (low, high) = summary.utility_interval[0];
    assert!((low - (0.2 - half_width)).abs() < 1e-6 && (high - (0.2 + half_width)).abs() < 1e-6);
}

/// Returns duels of six items before four users, as a table of users and the arguments of a fit. Each user
/// has abilities with this standard deviation around common ones.
fn duels_of_users(seed: u64, user_sd: f64) -> (Table, Duels, PreferenceProcess, Duels) {
    let mut s = Stream(seed);
    let common: Vec<f64> = (0..6).map(|_| s.normal()).collect();
    let abilities: Vec<Vec<f64>> =
        (0..4).map(|_| common.iter().map(|c| c + user_sd * s.normal()).collect()).collect();
    let (mut left, mut right, mut won, mut users) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (l, r) in pairs(6).into_iter().filter(|(l, r)| l < r) {
        for (user, own) in abilities.iter().enumerate() {
            for _ in 0..4 {
                left.push(l);
                right.push(r);
                users.push(user as f64);
                won.push(f64::from(u8::from(s.uniform() < 1.0 / (1.0 + (own[r] - own[l]).exp()))));
            }
        }
    }
    let levels = ["a", "b", "c", "d"].map(String::from).to_vec();
    let column = Column { name: "user".into(), kind: ColumnKind::Categorical { levels } };
    let contexts = Table::from_column_major(vec![column], users.len(), users).unwrap();
    let names: Vec<String> = (0..6).map(|i| format!("item {i}")).collect();
    let nothing = Table::from_column_major(Vec::new(), 6, Vec::new()).unwrap();
    let entries = prepare_entries(&nothing, (&left, &right), &won, None, Some(&names)).unwrap();
    let mut process = PreferenceProcess::new(Kernel::constant(1.0));
    process.prior = PairKernel::new(Kernel::constant(1.0), 0.0, 0.0);
    process.prior.extra_utility_kernel = entries.extra_utility_kernel;
    process.prior.contexts = Some(ContextKernel::from_contexts(&contexts).unwrap());
    let duels = Duels::in_contexts(6, &entries.left, &entries.right, &won, None, &contexts).unwrap();
    let merged = Duels::new(6, &entries.left, &entries.right, &won, None).unwrap();
    (entries.table, duels, process, merged)
}

#[test]
fn users_that_differ_are_found() {
    let factor = |seed, spread| {
        let (items, duels, process, _) = duels_of_users(seed, spread);
        UserEvidence::compare(&process, &items, &duels).unwrap().0
    };
    for seed in 0..4 {
        let equal_users = factor(seed, 0.0);
        assert!(
            equal_users.log_bayes_factor() < 1.0 && equal_users.verdict().starts_with("there is no evidence"),
            "{equal_users:?}"
        );
        let different = factor(seed, 1.5);
        assert!(different.log_bayes_factor() > 10.0, "{different:?}");
        assert!(different.verdict().starts_with("users differ: "));
    }
    // One utility for all has the evidence of the duels without users.
    let (items, duels, process, merged) = duels_of_users(0, 1.0);
    let fixed = PreferenceProcess { tune: false, ..process.clone() };
    let shared = UserEvidence::compare(&fixed, &items, &duels).unwrap().0.shared;
    let mut plain = fixed;
    plain.prior.contexts = None;
    let truth = plain.fit(&items, &merged).unwrap().log_marginal_likelihood;
    assert!((shared - truth).abs() < 1e-6, "{shared} {truth}");
    // The prior of users is that of separate utilities if nothing is shared.
    let mut apart = plain;
    let kernel = Kernel::from(Categorical { columns: [0], similarity: 0.0 });
    apart.prior.contexts = Some(ContextKernel { kernel, shared: 0.0 });
    let per_user = UserEvidence::compare(&apart, &items, &duels).unwrap().0.per_user;
    assert!(per_user.is_finite() && per_user != shared);
    let mut contextless = process;
    contextless.prior.contexts = None;
    assert!(UserEvidence::compare(&contextless, &items, &merged).is_err());
}

#[test]
fn the_cyclic_share_is_the_least_squares_residual_share() {
    let mut s = Stream(2);
    let n = 7;
    let mut flow = Matrix::zeros(n, n);
    for (i, j) in pairs(n).into_iter().filter(|(i, j)| i < j) {
        let g = s.normal();
        (flow[(i, j)], flow[(j, i)]) = (g, -g);
    }
    let upper_pairs: Vec<(usize, usize)> = pairs(n).into_iter().filter(|(i, j)| i < j).collect();
    // The last utility is 0.
    let design = Mat::from_fn(upper_pairs.len(), n - 1, |t, c| {
        f64::from(u8::from(upper_pairs[t].0 == c)) - f64::from(u8::from(upper_pairs[t].1 == c))
    });
    let g = Mat::from_fn(upper_pairs.len(), 1, |t, _| flow[upper_pairs[t]]);
    let best = design.qr().solve_lstsq(&g);
    let (residual, total) = ((&g - &design * &best).norm_l2().powi(2), g.norm_l2().powi(2));
    let decomposition = Hodge::decompose(&flow);
    assert!((decomposition.cyclic_share - residual / total).abs() < 1e-12);
    for i in 0..n - 1 {
        assert!((decomposition.utility[i] - decomposition.utility[n - 1] - best[(i, 0)]).abs() < 1e-12);
    }
    let ranking = Matrix::from_row_major(3, 3, vec![0.0, 1.0, 3.0, -1.0, 0.0, 2.0, -3.0, -2.0, 0.0]);
    let circle = Matrix::from_row_major(3, 3, vec![0.0, 1.0, -1.0, -1.0, 0.0, 1.0, 1.0, -1.0, 0.0]);
    assert!(Hodge::decompose(&ranking).cyclic_share < 1e-15);
    assert_eq!(Hodge::decompose(&circle).cyclic_share, 1.0);
    assert_eq!(Hodge::decompose(&Matrix::zeros(3, 3)).cyclic_share, 0.0);
    // An order in which every item beats all lower ones by the same amount is not a difference of utilities,
    // although it has no cycle.
    let mut order = Matrix::zeros(n, n);
    pairs(n)
        .into_iter()
        .for_each(|(i, j)| order[(i, j)] = (j as f64 - i as f64).signum() * f64::from(u8::from(i != j)));
    let truth = 1.0 - 2.0 * (n as f64 + 1.0) / (3.0 * n as f64);
    assert!((Hodge::decompose(&order).cyclic_share - truth).abs() < 1e-12);
}

/// Items on a circle, each of which beats those less than half a circle behind it, and items on a line.
fn circle_and_line() -> [(Table, Duels); 2] {
    let n = 12;
    let angle = |i: usize| std::f64::consts::TAU * i as f64 / n as f64;
    let circle: Vec<[f64; 2]> = (0..n).map(|i| [angle(i).cos(), angle(i).sin()]).collect();
    let line: Vec<[f64; 2]> = (0..n).map(|i| [angle(i), 0.0]).collect();
    let duel_pairs: Vec<(usize, usize)> =
        pairs(n).into_iter().filter(|&(i, j)| i < j && j - i != n / 2 && (i * j) % 3 != 1).collect();
    let (left, right): (Vec<usize>, Vec<usize>) = duel_pairs.iter().copied().unzip();
    let won: Vec<f64> = duel_pairs.iter().map(|&(i, j)| f64::from(u8::from(j - i > n / 2))).collect();
    let round = Duels::new(n, &left, &right, &won, None).unwrap();
    let straight = Duels::new(n, &left, &right, &vec![0.0; duel_pairs.len()], None).unwrap();
    [(Table::from_rows(&circle).unwrap(), round), (Table::from_rows(&line).unwrap(), straight)]
}

#[test]
fn circles_and_rankings_are_distinguished() {
    let [(circle, round), (line, straight)] = circle_and_line();
    let process = PreferenceProcess::new(Kernel::gaussian(&[1.0, 1.0]));
    let turn = ModelEvidence::compare(&process, &circle, &round).unwrap();
    assert!(turn.cycles() > 10.0 && turn.generalised > turn.utility + 10.0, "{turn:?}");
    let order = ModelEvidence::compare(&process, &line, &straight).unwrap();
    assert!(order.cycles() < 1.0, "{order:?}");
    let ranking = RankingRequest { draws: Some(300), triangles: 6, ..RankingRequest::default() };
    let summary =
        ranking.summarise_log_odds(&process.fit(&circle, &round).unwrap().flow(&circle).unwrap()).unwrap();
    assert!(summary.cyclic_share > 0.95, "{summary:?}");
    let circular = summary.cyclic_share_interval;
    assert_eq!(summary.triangles.len(), 6);
    for triangle in &summary.triangles {
        let [a, b, c] = triangle.items.map(|i| i as i64);
        // Each item beats one that is less than half a circle behind.
        let ahead = |x: i64, y: i64| (x - y).rem_euclid(12) < 6;
        assert!(a < b.min(c) && ahead(a, b) && ahead(b, c) && ahead(c, a), "{triangle:?}");
        assert!(triangle.probability > 0.5);
    }
    // The cyclic share of an order is below a third, whatever its steps.
    let summary =
        ranking.summarise_log_odds(&process.fit(&line, &straight).unwrap().flow(&line).unwrap()).unwrap();
    assert!(summary.cyclic_share < 1.0 / 3.0 && summary.cyclic_share_interval.1 < circular.1, "{summary:?}");
    assert_eq!(summary.rank, (1..=12).rev().collect::<Vec<usize>>());
    // A utility has no cycles in any draw.
    let utility_fit = fit(&line, &straight, 20.0, 0.0);
    let summary = ranking.summarise_log_odds(&utility_fit.flow(&line).unwrap()).unwrap();
    assert!(summary.cyclic_share < 1e-12 && summary.cyclic_share_interval.2 < 1e-12, "{summary:?}");
    assert!(summary.triangles.is_empty());
    assert_eq!(summary.rank, (1..=12).rev().collect::<Vec<usize>>());
    for i in 0..12 {
        let (best, worst) = summary.rank_interval[i];
        assert!(best <= summary.rank[i] && summary.rank[i] <= worst && worst - best < 8, "{summary:?}");
        let (low, high) = summary.utility_interval[i];
        assert!(low < summary.utility[i] && summary.utility[i] < high);
    }
    assert!(summary.best[11] > 0.5 && (summary.best.iter().sum::<f64>() - 1.0).abs() < 1e-12);
}

/// Probabilities of cycles, ends of intervals and the share against draws with other seeds, within their
/// errors.
#[test]
fn summaries_match_independent_draws() {
    let [(circle, round), _] = circle_and_line();
    let fit = fit(&circle, &round, 1.0, 1.0);
    let ranking = RankingRequest { draws: Some(4000), triangles: 400, seed: 3, ..RankingRequest::default() };
    let flow = fit.flow(&circle).unwrap();
    let summary = ranking.summarise_log_odds(&flow).unwrap();
    let (source, count) = (flow.draws().unwrap(), 4000);
    let draws: Vec<Matrix> = (0..count).map(|seed| source.draw(1_000_000 + seed)).collect();
    let check_share = |share: f64, truth: f64| {
        let error = (2.0 * truth * (1.0 - truth) / count as f64).sqrt();
        assert!((share - truth).abs() < 5.0 * error + 1e-3, "{share} {truth}");
    };
    let circles = |a: usize, b: usize, c: usize| {
        let is = |g: &&Matrix| g[(a, b)] > 0.0 && g[(b, c)] > 0.0 && g[(c, a)] > 0.0;
        draws.iter().filter(is).count() as f64 / count as f64
    };
    for triangle in &summary.triangles {
        let [a, b, c] = triangle.items;
        check_share(triangle.probability, circles(a, b, c));
    }
    // All 440 orientations of 220 triples except the 40 least probable ones.
    let lowest = summary.triangles.last().unwrap().probability;
    for (a, b, c) in pairs(12).into_iter().flat_map(|(a, b)| (0..12).map(move |c| (a, b, c))) {
        let is_listed = summary.triangles.iter().any(|t| t.items == [a, b, c]);
        if a < b && a < c && b != c && !is_listed {
            assert!(circles(a, b, c) < lowest + 0.05);
        }
    }
    let hodge: Vec<Hodge> = draws.iter().map(Hodge::decompose).collect();
    let (low, middle, high) = summary.cyclic_share_interval;
    for (quantile, share) in [(low, 0.025), (middle, 0.5), (high, 0.975)] {
        let below = hodge.iter().filter(|h| h.cyclic_share < quantile).count() as f64 / count as f64;
        check_share(below, share);
    }
    for i in 0..12 {
        let (low, high) = summary.utility_interval[i];
        let inside = hodge.iter().filter(|h| low <= h.utility[i] && h.utility[i] <= high).count();
        check_share(inside as f64 / count as f64, 0.95);
        let (best, worst) = summary.rank_interval[i];
        let rank = |h: &Hodge| 1 + h.utility.iter().filter(|u| **u > h.utility[i]).count();
        let inside = hodge.iter().filter(|h| (best..=worst).contains(&rank(h))).count() as f64 / count as f64;
        assert!(inside > 0.94, "{inside}");
        let first = hodge.iter().filter(|h| rank(h) == 1).count() as f64 / count as f64;
        check_share(summary.best[i], first);
    }
}

#[test]
fn threads_change_nothing() {
    let [(circle, round), _] = circle_and_line();
    let fit = fit(&circle, &round, 1.0, 1.0);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let graph = SpecR::from_duels(&round, 20, 4, &AtomicBool::new(false)).unwrap();
            (
                RankingRequest { draws: Some(70), ..RankingRequest::default() }
                    .summarise_log_odds(&fit.flow(&circle).unwrap())
                    .unwrap(),
                graph,
            )
        })
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn spec_r_by_hand() {
    let ranking = Matrix::from_row_major(3, 3, vec![0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert!((spec_r(&ranking).unwrap() - 1.0).abs() < 1e-12);
    // A cycle of three has the eigenvalues 0 and 3/2 ± i √3/2, each at distance 1 from those of a ranking,
    // and the same holds for its degrees.
    let circle = Matrix::from_row_major(3, 3, vec![0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    assert!((spec_r(&circle).unwrap() - 0.5).abs() < 1e-12);
    // A triangle with a tail: 1, 1 and 1/3 for the items of the triangle; 0 for the end of the tail.
    let tail = Duels::new(4, &[0, 1, 2, 2], &[1, 2, 0, 3], &[1.0; 4], None).unwrap();
    assert!((average_clustering(&tail) - (1.0 + 1.0 + 1.0 / 3.0) / 4.0).abs() < 1e-15);
}

/// SpecR, published as a sign that no ranking exists, is also low for perfect rankings if few pairs have met.
#[test]
fn spec_r_measures_who_met_whom() {
    let mut s = Stream(9);
    let duel_pairs: Vec<(usize, usize)> =
        pairs(40).into_iter().filter(|(i, j)| i < j && s.uniform() < 0.15).collect();
    let (left, right): (Vec<usize>, Vec<usize>) = duel_pairs.into_iter().unzip();
    let perfect = Duels::new(40, &left, &right, &vec![1.0; left.len()], None).unwrap();
    let result = SpecR::from_duels(&perfect, 60, 0, &AtomicBool::new(false)).unwrap();
    assert!(result.value < 0.4 && result.ranking.mean < 0.4, "{result:?}");
    assert!((result.value - result.ranking.mean).abs() < 4.0 * result.ranking.sd);
    assert!((result.ranking.mean - result.coins.mean).abs() < 0.1);
    // If all pairs have met, SpecR works as intended.
    let (left, right): (Vec<usize>, Vec<usize>) = pairs(20).into_iter().filter(|(i, j)| i < j).unzip();
    let complete = Duels::new(20, &left, &right, &vec![1.0; left.len()], None).unwrap();
    let result = SpecR::from_duels(&complete, 20, 0, &AtomicBool::new(false)).unwrap();
    assert!(result.value > 1.0 - 1e-9 && result.ranking.sd < 1e-9 && result.coins.mean < 0.8, "{result:?}");
}

/// Each draw has its own seed, so that two draws are the first two of three: their means and standard
/// deviations determine all three.
#[test]
fn references_are_means_and_standard_deviations() {
    let (_, duels, _) = case();
    let with_draws = |draws| SpecR::from_duels(&duels, draws, 3, &AtomicBool::new(false)).unwrap();
    let (two, three) = (with_draws(2), with_draws(3));
    for (two, three) in [(two.ranking, three.ranking), (two.coins, three.coins)] {
        assert!(two.sd > 0.0);
        let half_range = two.sd / std::f64::consts::SQRT_2;
        let draws = [two.mean - half_range, two.mean + half_range, 3.0 * three.mean - 2.0 * two.mean];
        let squares: f64 = draws.iter().map(|v| (v - three.mean).powi(2)).sum();
        assert!((three.sd - (squares / 2.0).sqrt()).abs() < 1e-10, "{two:?} {three:?}");
    }
}

#[test]
fn invalid_ranking_requests_are_refused() {
    let (items, duels, queried) = case();
    let fit = fit(&items, &duels, 1.0, 1.0);
    let ask = |draws, level| {
        RankingRequest { draws: Some(draws), level, ..RankingRequest::default() }
            .summarise_log_odds(&fit.flow(&queried).unwrap())
    };
    assert!(ask(1, 0.95).unwrap_err().to_string().contains("2 or more samples"));
    assert!(ask(10, 1.0).unwrap_err().to_string().contains("between 0 and 1"));
    let single = RankingRequest::default().summarise_log_odds(&fit.flow(&queried.select_rows(&[0])).unwrap());
    assert!(single.unwrap_err().to_string().contains("2 rows"));
    let stopped =
        RankingRequest { stop: std::sync::Arc::new(AtomicBool::new(true)), ..RankingRequest::default() };
    assert_eq!(stopped.summarise_log_odds(&fit.flow(&queried).unwrap()), Err(riesz::Error::Interrupted));
    assert!(SpecR::from_duels(&duels, 1, 0, &AtomicBool::new(false)).is_err());
    // The kernel of the right item must be that of the left one.
    let mut other = fit.clone();
    other.model.kernel.terms[0].scale *= 2.0;
    assert!(other.flow(&queried).err().unwrap().to_string().contains("model of duels"));
    let mean_only = PairwiseLogOdds::new(&fit.model, None, &queried, None).unwrap();
    assert!(mean_only.utilities().unwrap_err().to_string().contains("posterior"));
    assert!(PairwiseLogOdds::new(&fit.model, None, &queried, Some(&[0.0])).is_err());
}
