//! Whether there is a ranking: draws of all pairs against the posterior they are drawn from, shares and
//! circles by definition, SpecR by hand.

use std::sync::atomic::AtomicBool;

use faer::Mat;
use faer::linalg::solvers::SolveLstsq;
use riesz::preference::{
    Duels, Hodge, ModelEvidence, PairKernel, PreferenceFit, PreferenceProcess, RankingRequest, SpecR,
    average_clustering, spec_r, wide_rows,
};
use riesz::{Kernel, Matrix, Table};

use crate::common::Stream;

fn fit(items: &Table, duels: &Duels, utility: f64, generalised: f64) -> PreferenceFit {
    let kernel = Kernel::gaussian(&vec![1.3; items.width()]) + 0.2 * Kernel::gaussian(&[4.0]);
    let prior = PairKernel::new(kernel, utility, generalised);
    let process = PreferenceProcess { prior, tune: false, ..PreferenceProcess::new(Kernel::constant(1.0)) };
    process.fit(items, duels).unwrap()
}

/// Items of which the first ones meet, and those that are asked about: some of them, a new one, and one
/// twice.
fn case() -> (Table, Duels, Table) {
    let mut s = Stream(5);
    let items = s.normals(7, 2);
    let (left, right) = (vec![0, 1, 2, 3, 4, 0, 5, 2], vec![1, 2, 3, 4, 5, 5, 3, 0]);
    let outcome = [1.0, 1.0, 0.5, 0.0, 1.0, 1.0, 0.0, 1.0];
    let weight = [1.0, 2.0, 1.0, 0.5, 1.0, 1.0, 3.0, 1.0];
    let duels = Duels::new(7, &left, &right, &outcome, Some(&weight)).unwrap();
    let asked = items.select_rows(&[0, 2, 6, 5, 2]);
    (items, duels, asked)
}

fn pairs(n: usize) -> Vec<(usize, usize)> {
    (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).collect()
}

#[test]
fn flows_are_predictions_of_all_pairs() {
    let (items, duels, asked) = case();
    for (utility, generalised) in [(1.5, 0.7), (1.5, 0.0), (0.0, 2.0)] {
        let fit = fit(&items, &duels, utility, generalised);
        let flow = fit.flow(&asked).unwrap();
        let mean = flow.mean();
        let truth = fit.model.predict(&wide_rows(&asked, &pairs(5)).unwrap()).unwrap();
        for (t, (i, j)) in pairs(5).into_iter().enumerate() {
            assert!((mean[(i, j)] - truth[(t, 0)]).abs() < 1e-12, "{} {}", mean[(i, j)], truth[(t, 0)]);
            assert_eq!(mean[(i, j)], -mean[(j, i)]);
        }
    }
}

/// Means and covariances of draws within five standard errors of those of the posterior.
#[test]
fn draws_are_from_the_posterior() {
    let (items, duels, asked) = case();
    let all: Vec<(usize, usize)> = pairs(5).into_iter().filter(|(i, j)| i < j).collect();
    let rows = wide_rows(&asked, &all).unwrap();
    for (utility, generalised) in [(1.5, 0.7), (2.0, 0.0), (0.0, 2.0)] {
        let fit = fit(&items, &duels, utility, generalised);
        let (mean, count) = (fit.model.predict(&rows).unwrap(), 20_000);
        let covariance = &fit.posterior().covariance(&fit.posterior().functionals_at(&rows).unwrap())[0];
        let flow = fit.flow(&asked).unwrap();
        let source = flow.draws().unwrap();
        let mut sums = vec![0.0; all.len()];
        let mut squares = Matrix::zeros(all.len(), all.len());
        for seed in 0..count {
            let draw = source.draw(seed);
            let off: Vec<f64> =
                all.iter().enumerate().map(|(t, &(i, j))| draw[(i, j)] - mean[(t, 0)]).collect();
            for (a, x) in off.iter().enumerate() {
                sums[a] += x / count as f64;
                squares.row_mut(a).iter_mut().zip(&off).for_each(|(s, y)| *s += x * y / count as f64);
            }
        }
        for a in 0..all.len() {
            let own = covariance[(a, a)].max(0.0);
            assert!(sums[a].abs() < 5.0 * (own / count as f64).sqrt() + 1e-7, "mean {}", sums[a]);
            for b in 0..all.len() {
                let error = (own * covariance[(b, b)].max(0.0) + covariance[(a, b)].powi(2)) / count as f64;
                let off = squares[(a, b)] - covariance[(a, b)];
                assert!(off.abs() < 5.0 * error.sqrt() + 1e-7, "{off} {}", error.sqrt());
            }
        }
        // An item is no better than itself.
        assert!(source.draw(1)[(1, 4)].abs() < 1e-6);
    }
}

#[test]
fn the_cyclic_share_is_what_least_squares_leaves() {
    let mut s = Stream(2);
    let n = 7;
    let mut flow = Matrix::zeros(n, n);
    for (i, j) in pairs(n).into_iter().filter(|(i, j)| i < j) {
        let g = s.normal();
        (flow[(i, j)], flow[(j, i)]) = (g, -g);
    }
    let all: Vec<(usize, usize)> = pairs(n).into_iter().filter(|(i, j)| i < j).collect();
    // The last utility is 0.
    let design = Mat::from_fn(all.len(), n - 1, |t, c| {
        f64::from(u8::from(all[t].0 == c)) - f64::from(u8::from(all[t].1 == c))
    });
    let g = Mat::from_fn(all.len(), 1, |t, _| flow[all[t]]);
    let best = design.qr().solve_lstsq(&g);
    let (rest, whole) = ((&g - &design * &best).norm_l2().powi(2), g.norm_l2().powi(2));
    let found = Hodge::of(&flow);
    assert!((found.cyclic_share - rest / whole).abs() < 1e-12);
    for i in 0..n - 1 {
        assert!((found.utility[i] - found.utility[n - 1] - best[(i, 0)]).abs() < 1e-12);
    }
    let ranking = Matrix::from_row_major(3, 3, vec![0.0, 1.0, 3.0, -1.0, 0.0, 2.0, -3.0, -2.0, 0.0]);
    let circle = Matrix::from_row_major(3, 3, vec![0.0, 1.0, -1.0, -1.0, 0.0, 1.0, 1.0, -1.0, 0.0]);
    assert!(Hodge::of(&ranking).cyclic_share < 1e-15);
    assert_eq!(Hodge::of(&circle).cyclic_share, 1.0);
    assert_eq!(Hodge::of(&Matrix::zeros(3, 3)).cyclic_share, 0.0);
    // An order in which everyone beats all below by the same is no difference of utilities, though it has no
    // circle.
    let mut order = Matrix::zeros(n, n);
    pairs(n)
        .into_iter()
        .for_each(|(i, j)| order[(i, j)] = (j as f64 - i as f64).signum() * f64::from(u8::from(i != j)));
    let truth = 1.0 - 2.0 * (n as f64 + 1.0) / (3.0 * n as f64);
    assert!((Hodge::of(&order).cyclic_share - truth).abs() < 1e-12);
}

/// Items on a circle, each of which beats those less than half a turn behind it, and items on a line.
fn circle_and_line() -> [(Table, Duels); 2] {
    let n = 12;
    let angle = |i: usize| std::f64::consts::TAU * i as f64 / n as f64;
    let circle: Vec<[f64; 2]> = (0..n).map(|i| [angle(i).cos(), angle(i).sin()]).collect();
    let line: Vec<[f64; 2]> = (0..n).map(|i| [angle(i), 0.0]).collect();
    let met: Vec<(usize, usize)> =
        pairs(n).into_iter().filter(|&(i, j)| i < j && j - i != n / 2 && (i * j) % 3 != 1).collect();
    let (left, right): (Vec<usize>, Vec<usize>) = met.iter().copied().unzip();
    let won: Vec<f64> = met.iter().map(|&(i, j)| f64::from(u8::from(j - i > n / 2))).collect();
    let round = Duels::new(n, &left, &right, &won, None).unwrap();
    let straight = Duels::new(n, &left, &right, &vec![0.0; met.len()], None).unwrap();
    [(Table::from_rows(&circle).unwrap(), round), (Table::from_rows(&line).unwrap(), straight)]
}

#[test]
fn circles_and_rankings_are_told_apart() {
    let [(circle, round), (line, straight)] = circle_and_line();
    let process = PreferenceProcess::new(Kernel::gaussian(&[1.0, 1.0]));
    let turn = ModelEvidence::of(&process, &circle, &round).unwrap();
    assert!(turn.cycles() > 10.0 && turn.generalised > turn.utility + 10.0, "{turn:?}");
    let order = ModelEvidence::of(&process, &line, &straight).unwrap();
    assert!(order.cycles() < 1.0, "{order:?}");
    let ranking = RankingRequest { draws: 300, triangles: 6, ..RankingRequest::default() };
    let found = ranking.of(&process.fit(&circle, &round).unwrap().flow(&circle).unwrap()).unwrap();
    assert!(found.cyclic_share > 0.95, "{found:?}");
    let circular = found.cyclic_share_interval;
    assert_eq!(found.triangles.len(), 6);
    for triangle in &found.triangles {
        let [a, b, c] = triangle.items.map(|i| i as i64);
        // Each beats one that is less than half a turn behind.
        let ahead = |x: i64, y: i64| (x - y).rem_euclid(12) < 6;
        assert!(a < b.min(c) && ahead(a, b) && ahead(b, c) && ahead(c, a), "{triangle:?}");
        assert!(triangle.probability > 0.5);
    }
    // An order is within a third of a utility, whatever its steps.
    let found = ranking.of(&process.fit(&line, &straight).unwrap().flow(&line).unwrap()).unwrap();
    assert!(found.cyclic_share < 1.0 / 3.0 && found.cyclic_share_interval.1 < circular.1, "{found:?}");
    assert_eq!(found.rank, (1..=12).rev().collect::<Vec<usize>>());
    // A utility has no circles in any draw.
    let alone = fit(&line, &straight, 20.0, 0.0);
    let found = ranking.of(&alone.flow(&line).unwrap()).unwrap();
    assert!(found.cyclic_share < 1e-12 && found.cyclic_share_interval.2 < 1e-12, "{found:?}");
    assert!(found.triangles.is_empty());
    assert_eq!(found.rank, (1..=12).rev().collect::<Vec<usize>>());
    for i in 0..12 {
        let (best, worst) = found.rank_interval[i];
        assert!(best <= found.rank[i] && found.rank[i] <= worst && worst - best < 8, "{found:?}");
        let (low, high) = found.utility_interval[i];
        assert!(low < found.utility[i] && found.utility[i] < high);
    }
    assert!(found.best[11] > 0.5 && (found.best.iter().sum::<f64>() - 1.0).abs() < 1e-12);
}

/// Probabilities of circles, ends of intervals and the share against draws of other seeds, within their
/// errors.
#[test]
fn what_is_told_of_draws_is_so() {
    let [(circle, round), _] = circle_and_line();
    let fit = fit(&circle, &round, 1.0, 1.0);
    let ranking = RankingRequest { draws: 4000, triangles: 400, seed: 3, ..RankingRequest::default() };
    let flow = fit.flow(&circle).unwrap();
    let found = ranking.of(&flow).unwrap();
    let (source, count) = (flow.draws().unwrap(), 4000);
    let draws: Vec<Matrix> = (0..count).map(|seed| source.draw(1_000_000 + seed)).collect();
    let within = |share: f64, truth: f64| {
        let error = (2.0 * truth * (1.0 - truth) / count as f64).sqrt();
        assert!((share - truth).abs() < 5.0 * error + 1e-3, "{share} {truth}");
    };
    let circles = |a: usize, b: usize, c: usize| {
        let is = |g: &&Matrix| g[(a, b)] > 0.0 && g[(b, c)] > 0.0 && g[(c, a)] > 0.0;
        draws.iter().filter(is).count() as f64 / count as f64
    };
    for triangle in &found.triangles {
        let [a, b, c] = triangle.items;
        within(triangle.probability, circles(a, b, c));
    }
    // All 440 ways round of 220 triples but the 40 least probable ones.
    let least = found.triangles.last().unwrap().probability;
    for (a, b, c) in pairs(12).into_iter().flat_map(|(a, b)| (0..12).map(move |c| (a, b, c))) {
        let told = found.triangles.iter().any(|t| t.items == [a, b, c]);
        if a < b && a < c && b != c && !told {
            assert!(circles(a, b, c) < least + 0.05);
        }
    }
    let hodge: Vec<Hodge> = draws.iter().map(Hodge::of).collect();
    let (low, middle, high) = found.cyclic_share_interval;
    for (at, share) in [(low, 0.025), (middle, 0.5), (high, 0.975)] {
        let below = hodge.iter().filter(|h| h.cyclic_share < at).count() as f64 / count as f64;
        within(below, share);
    }
    for i in 0..12 {
        let (low, high) = found.utility_interval[i];
        let inside = hodge.iter().filter(|h| low <= h.utility[i] && h.utility[i] <= high).count();
        within(inside as f64 / count as f64, 0.95);
        let (best, worst) = found.rank_interval[i];
        let rank = |h: &Hodge| 1 + h.utility.iter().filter(|u| **u > h.utility[i]).count();
        let inside = hodge.iter().filter(|h| (best..=worst).contains(&rank(h))).count() as f64 / count as f64;
        assert!(inside > 0.94, "{inside}");
        let first = hodge.iter().filter(|h| rank(h) == 1).count() as f64 / count as f64;
        within(found.best[i], first);
    }
}

#[test]
fn threads_change_nothing() {
    let [(circle, round), _] = circle_and_line();
    let fit = fit(&circle, &round, 1.0, 1.0);
    let of = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let graph = SpecR::of(&round, 20, 4, &AtomicBool::new(false)).unwrap();
            (
                RankingRequest { draws: 70, ..RankingRequest::default() }
                    .of(&fit.flow(&circle).unwrap())
                    .unwrap(),
                graph,
            )
        })
    };
    assert_eq!(of(1), of(3));
}

#[test]
fn spec_r_by_hand() {
    let ranking = Matrix::from_row_major(3, 3, vec![0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    assert!((spec_r(&ranking).unwrap() - 1.0).abs() < 1e-12);
    // A circle of three has the eigenvalues 0 and 3/2 ± i √3/2, each 1 away from the steps, and so are its
    // degrees.
    let circle = Matrix::from_row_major(3, 3, vec![0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    assert!((spec_r(&circle).unwrap() - 0.5).abs() < 1e-12);
    // A triangle with a tail: 1, 1 and 1/3 for those who met others who met; 0 for the end of the tail.
    let tail = Duels::new(4, &[0, 1, 2, 2], &[1, 2, 0, 3], &[1.0; 4], None).unwrap();
    assert!((average_clustering(&tail) - (1.0 + 1.0 + 1.0 / 3.0) / 4.0).abs() < 1e-15);
}

/// What was published as a sign that there is no ranking is so for perfect rankings, too, where few have met.
#[test]
fn spec_r_measures_who_met_whom() {
    let mut s = Stream(9);
    let met: Vec<(usize, usize)> =
        pairs(40).into_iter().filter(|(i, j)| i < j && s.uniform() < 0.15).collect();
    let (left, right): (Vec<usize>, Vec<usize>) = met.into_iter().unzip();
    let perfect = Duels::new(40, &left, &right, &vec![1.0; left.len()], None).unwrap();
    let found = SpecR::of(&perfect, 60, 0, &AtomicBool::new(false)).unwrap();
    assert!(found.value < 0.4 && found.ranking.mean < 0.4, "{found:?}");
    assert!((found.value - found.ranking.mean).abs() < 4.0 * found.ranking.sd);
    assert!((found.ranking.mean - found.coins.mean).abs() < 0.1);
    // Where all have met it is what it was made for.
    let (left, right): (Vec<usize>, Vec<usize>) = pairs(20).into_iter().filter(|(i, j)| i < j).unzip();
    let all = Duels::new(20, &left, &right, &vec![1.0; left.len()], None).unwrap();
    let found = SpecR::of(&all, 20, 0, &AtomicBool::new(false)).unwrap();
    assert!(found.value > 1.0 - 1e-9 && found.ranking.sd < 1e-9 && found.coins.mean < 0.8, "{found:?}");
}

/// Each draw has a seed of its own, so of two draws and of three the first two are the same: their mean and
/// standard deviation, and the mean of three, say what the three are.
#[test]
fn references_are_means_and_standard_deviations() {
    let (_, duels, _) = case();
    let of = |draws| SpecR::of(&duels, draws, 3, &AtomicBool::new(false)).unwrap();
    let (two, three) = (of(2), of(3));
    for (two, three) in [(two.ranking, three.ranking), (two.coins, three.coins)] {
        assert!(two.sd > 0.0);
        let half = two.sd / std::f64::consts::SQRT_2;
        let draws = [two.mean - half, two.mean + half, 3.0 * three.mean - 2.0 * two.mean];
        let squares: f64 = draws.iter().map(|v| (v - three.mean).powi(2)).sum();
        assert!((three.sd - (squares / 2.0).sqrt()).abs() < 1e-10, "{two:?} {three:?}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let (items, duels, asked) = case();
    let fit = fit(&items, &duels, 1.0, 1.0);
    let ask = |draws, level| {
        RankingRequest { draws, level, ..RankingRequest::default() }.of(&fit.flow(&asked).unwrap())
    };
    assert!(ask(1, 0.95).unwrap_err().to_string().contains("2 draws"));
    assert!(ask(10, 1.0).unwrap_err().to_string().contains("between 0 and 1"));
    let one = RankingRequest::default().of(&fit.flow(&asked.select_rows(&[0])).unwrap());
    assert!(one.unwrap_err().to_string().contains("2 rows"));
    let stopped =
        RankingRequest { stop: std::sync::Arc::new(AtomicBool::new(true)), ..RankingRequest::default() };
    assert_eq!(stopped.of(&fit.flow(&asked).unwrap()), Err(riesz::Error::Interrupted));
    assert!(SpecR::of(&duels, 1, 0, &AtomicBool::new(false)).is_err());
    let other =
        PreferenceFit { prior: PairKernel { utility_variance: 9.0, ..fit.prior.clone() }, ..fit.clone() };
    assert!(other.flow(&asked).is_err());
}
