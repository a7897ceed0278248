//! Bradley and Terry's model, and preferences through landmarks, against other algorithms and dense processes.

use faer::linalg::solvers::DenseSolveCore;
use faer::{Mat, Side};
use riesz::kernel::{Categorical, Linear};
use riesz::preference::{
    AbilityRidge, BradleyTerry, BradleyTerryFit, Duels, LandmarkFit, LandmarkProcess, Pair,
    PreferenceProcess, wide_rows,
};
use riesz::table::{Column, ColumnKind};
use riesz::{Kernel, Table};

use crate::common::Stream;

fn sigma(g: f64) -> f64 {
    1.0 / (1.0 + (-g).exp())
}

fn names(items: usize) -> Vec<String> {
    (0..items).map(|i| format!("item {i}")).collect()
}

/// Weighted duels with ties, where everybody meets somebody.
fn duels(items: usize, count: usize, seed: u64) -> Duels {
    let mut s = Stream(seed);
    let (mut left, mut right, mut won, mut weight) = (vec![], vec![], vec![], vec![]);
    for i in 0..count.max(items) {
        let l = i % items;
        let r = (l + 1 + (s.uniform() * (items - 1) as f64) as usize) % items;
        left.push(l);
        right.push(r);
        let chance = sigma((l as f64 - r as f64) / items as f64);
        won.push(if s.uniform() < 0.15 { 0.5 } else { f64::from(u8::from(s.uniform() < chance)) });
        weight.push(0.5 + s.uniform());
    }
    Duels::new(items, &left, &right, &won, Some(&weight)).unwrap()
}

fn fixed(ridge: f64) -> BradleyTerry {
    BradleyTerry::new(AbilityRidge::Fixed(ridge))
}

/// Hunter's (2004) minorisation of the likelihood, which takes no derivative.
fn minorised(duels: &Duels) -> Vec<f64> {
    let n = duels.items();
    let mut p = vec![1.0; n];
    for _ in 0..20_000 {
        let (mut wins, mut meets) = (vec![0.0; n], vec![0.0; n]);
        for ((&(l, r), share), w) in duels.pairs().iter().zip(duels.outcome()).zip(duels.weight()) {
            wins[l] += w * share;
            wins[r] += w * (1.0 - share);
            meets[l] += w / (p[l] + p[r]);
            meets[r] += w / (p[l] + p[r]);
        }
        p = (0..n).map(|i| wins[i] / meets[i]).collect();
    }
    let mean = p.iter().map(|p| p.ln()).sum::<f64>() / n as f64;
    p.iter().map(|p| p.ln() - mean).collect()
}

/// The covariance of differences of abilities by the definition: the inverse Hessian, between items less the first one.
fn spread(fit: &BradleyTerryFit, duels: &Duels, (l, r): Pair) -> f64 {
    let n = duels.items();
    let mut hessian = Mat::<f64>::from_fn(n, n, |i, j| if i == j { fit.ridge } else { 0.0 });
    for (&(a, b), w) in duels.pairs().iter().zip(duels.weight()) {
        let p = sigma(fit.coef[a] - fit.coef[b]);
        let w = w * p * (1.0 - p);
        for (i, j, sign) in [(a, a, 1.0), (b, b, 1.0), (a, b, -1.0), (b, a, -1.0)] {
            hessian[(i, j)] += sign * w;
        }
    }
    let first = usize::from(fit.ridge == 0.0);
    let inverse = hessian.submatrix(first, first, n - first, n - first).to_owned().partial_piv_lu().inverse();
    let at = |i: usize, j: usize| if i < first || j < first { 0.0 } else { inverse[(i - first, j - first)] };
    (at(l, l) + at(r, r) - 2.0 * at(l, r)).sqrt()
}

fn item_rows(items: usize) -> Table {
    let kind = ColumnKind::Categorical { levels: names(items) };
    let columns = vec![Column { name: "item".into(), kind }];
    Table::from_column_major(columns, items, (0..items).map(|i| i as f64).collect()).unwrap()
}

#[test]
fn abilities_maximise_the_likelihood() {
    let duels = duels(14, 90, 5);
    let fit = fixed(0.0).fit(&names(14), &duels).unwrap();
    let truth = minorised(&duels);
    for (own, truth) in fit.coef.iter().zip(&truth) {
        assert!((own - truth).abs() < 1e-8, "{own} {truth}");
    }
    assert!(fit.notes.is_empty() && fit.coef.iter().sum::<f64>().abs() < 1e-12);
    // A tiny ridge comes to the same.
    let near = fixed(1e-9).fit(&names(14), &duels).unwrap();
    assert!(near.coef.iter().zip(&fit.coef).all(|(a, b)| (a - b).abs() < 1e-6));
}

#[test]
fn abilities_know_how_sure_they_are() {
    let duels = duels(9, 40, 2);
    let asked: Vec<Pair> = vec![(0, 1), (1, 0), (4, 4), (7, 2), (0, 8)];
    let rows = wide_rows(&item_rows(9), &asked).unwrap();
    for ridge in [0.0, 0.7] {
        let fit = fixed(ridge).fit(&names(9), &duels).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let found = fit.differences(&asked, &stop).unwrap();
        let mean = fit.model.predict(&rows).unwrap();
        let variance = fit.posterior().unwrap().variance(&rows).unwrap();
        for (i, (&(l, r), (g, sd))) in asked.iter().zip(found).enumerate() {
            let truth = spread(&fit, &duels, (l, r));
            assert!((g - (fit.coef[l] - fit.coef[r])).abs() < 1e-12);
            assert!((sd - truth).abs() < 1e-9, "{sd} {truth}");
            assert!((mean[(i, 0)] - g).abs() < 1e-12, "{} {g}", mean[(i, 0)]);
            assert!(
                (variance[(i, 0)] - truth * truth).abs() < 1e-9,
                "{} {}",
                variance[(i, 0)],
                truth * truth
            );
        }
        // Of abilities: variances of all differences from the mean add up to those of pairs.
        let errors = fit.std_errors().unwrap();
        if ridge == 0.0 {
            let all: f64 = (0..9)
                .flat_map(|l| (0..l).map(move |r| (l, r)))
                .map(|p| spread(&fit, &duels, p).powi(2))
                .sum();
            let own: f64 = errors.iter().map(|e| 9.0 * e * e).sum();
            assert!((all - own).abs() < 1e-9, "{all} {own}");
        }
    }
}

/// Random effects are a process with a utility that items have each for themselves, and linear ones one with a linear kernel, which are found by other code.
#[test]
fn ridges_are_priors() {
    let duels = duels(11, 50, 9);
    let mut s = Stream(6);
    let x = s.normals(11, 3);
    let own = Kernel::from(Categorical { columns: [0], similarity: 0.0 });
    let spread = |j: usize| {
        let mean = x.column(j).iter().sum::<f64>() / 11.0;
        (x.column(j).iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 11.0).sqrt()
    };
    let scale: Vec<f64> = (0..3).map(spread).collect();
    let linear = Kernel::from(Linear { columns: vec![0, 1, 2], center: vec![0.0; 3], scale });
    let evidence = BradleyTerry::new(AbilityRidge::Evidence);
    let cases = [
        (evidence.fit(&names(11), &duels).unwrap(), own, item_rows(11)),
        (evidence.fit_linear(&x, &duels).unwrap(), linear, x.clone()),
    ];
    for (fit, kernel, items) in cases {
        let mut process = PreferenceProcess::new(kernel);
        (process.tune, process.prior.utility, process.prior.generalised) = (false, 1.0 / fit.ridge, 0.0);
        let dense = process.fit(&items, &duels).unwrap();
        let value = fit.log_marginal_likelihood.unwrap();
        assert!(
            (value - dense.log_marginal_likelihood).abs() < 1e-8,
            "{value} {}",
            dense.log_marginal_likelihood
        );
        let pairs: Vec<Pair> = (0..8).map(|i| (i, i + 3)).collect();
        let rows = wide_rows(&items, &pairs).unwrap();
        let (a, b) = (fit.model.predict(&rows).unwrap(), dense.model.predict(&rows).unwrap());
        let sure =
            [fit.posterior().unwrap().variance(&rows), dense.posterior().variance(&rows)].map(Result::unwrap);
        let stop = std::sync::atomic::AtomicBool::new(false);
        for (i, (g, sd)) in fit.differences(&pairs, &stop).unwrap().into_iter().enumerate() {
            assert!((a[(i, 0)] - b[(i, 0)]).abs() < 1e-8 && (g - b[(i, 0)]).abs() < 1e-8);
            assert!(
                (sure[0][(i, 0)] - sure[1][(i, 0)]).abs() < 1e-8 && (sd * sd - sure[1][(i, 0)]).abs() < 1e-8
            );
        }
        // The ridge is where the slope of the evidence and its weak prior vanish.
        let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
        let slope = process.log_marginal_likelihood(&items, &duels, &theta).unwrap().1[0];
        assert!((slope - (theta[0] - 2.0 * 1.5_f64.ln()) / 9.0).abs() < 1e-4, "{slope}");
    }
}

/// Coefficients of covariates by their definition: no slope of the likelihood is left, in any units of the columns.
#[test]
fn linear_abilities_maximise_the_likelihood() {
    let duels = duels(20, 150, 12);
    let x = Stream(3).normals(20, 2);
    let fit = fixed(0.0).fit_linear(&x, &duels).unwrap();
    let score = |i: usize| (0..2).map(|j| fit.coef[j] * x.get(i, j)).sum::<f64>();
    let mut hessian = Mat::<f64>::zeros(2, 2);
    let mut slope = [0.0; 2];
    for ((&(l, r), share), w) in duels.pairs().iter().zip(duels.outcome()).zip(duels.weight()) {
        let p = sigma(score(l) - score(r));
        for i in 0..2 {
            slope[i] += w * (share - p) * (x.get(l, i) - x.get(r, i));
            for j in 0..2 {
                hessian[(i, j)] +=
                    w * p * (1.0 - p) * (x.get(l, i) - x.get(r, i)) * (x.get(l, j) - x.get(r, j));
            }
        }
    }
    assert!(slope.iter().all(|s| s.abs() < 1e-7), "{slope:?}");
    let inverse = hessian.partial_piv_lu().inverse();
    let errors = fit.std_errors().unwrap();
    assert!((0..2).all(|j| (errors[j] - inverse[(j, j)].sqrt()).abs() < 1e-9), "{errors:?}");
    let stretched: Vec<[f64; 2]> = (0..20).map(|i| [100.0 * x.get(i, 0) + 7.0, x.get(i, 1)]).collect();
    let again = fixed(0.0).fit_linear(&Table::from_rows(&stretched).unwrap(), &duels).unwrap();
    assert!((100.0 * again.coef[0] - fit.coef[0]).abs() < 1e-8);
    let shrunk = |items: &Table| fixed(3.0).fit_linear(items, &duels).unwrap().coef[0];
    assert!((100.0 * shrunk(&Table::from_rows(&stretched).unwrap()) - shrunk(&x)).abs() < 1e-8);
}

#[test]
fn missing_maxima_are_told() {
    let of = |items: usize, pairs: &[Pair]| {
        let (l, r): (Vec<usize>, Vec<usize>) = pairs.iter().copied().unzip();
        Duels::new(items, &l, &r, &vec![1.0; l.len()], None).unwrap()
    };
    let say = |duels: &Duels| fixed(0.0).fit(&names(duels.items()), duels).unwrap_err().to_string();
    let told = say(&of(4, &[(0, 1), (1, 2), (2, 1), (2, 3)]));
    assert!(told.contains("1 item never won (item 3) and 1 item never lost (item 0)"), "{told}");
    assert!(told.contains("set a ridge above 0"), "{told}");
    let told = say(&of(6, &[(0, 1), (1, 0), (2, 3), (3, 4), (4, 2)]));
    assert!(told.contains("2 groups, of sizes 3, 2"), "{told}");
    // Two groups that are each in themselves connected, of which one always won.
    let split = of(5, &[(0, 1), (1, 0), (2, 3), (3, 4), (4, 2), (0, 2), (1, 3)]);
    let told = say(&split);
    assert!(told.contains("3 items (item 2, item 3, item 4) never beat any of the others"), "{told}");
    let fit = fixed(0.5).fit(&names(5), &split).unwrap();
    assert!(fit.notes[0].contains("never beat") && fit.coef[0] > fit.coef[2]);
    // Items without duels: nothing without a ridge, the mean with one.
    let ring = of(4, &[(0, 1), (1, 2), (2, 0)]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let fit = fixed(0.0).fit(&names(4), &ring).unwrap();
    assert!(fit.coef[3].is_nan() && fit.std_errors().unwrap()[3].is_nan() && fit.coef[0].abs() < 1e-12);
    assert!(fit.differences(&[(0, 3)], &stop).unwrap_err().to_string().contains("in no duel"));
    let fit = fixed(4.0).fit(&names(4), &ring).unwrap();
    assert!(fit.coef[3] == 0.0 && (fit.std_errors().unwrap()[3] - 0.5).abs() < 1e-12);
    assert!(fixed(-1.0).fit(&names(4), &ring).unwrap_err().to_string().contains("ridge = -1"));

    let x = Table::from_rows(&[[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [3.0, 0.0]]).unwrap();
    let told = fixed(0.0).fit_linear(&x, &of(4, &[(1, 0), (2, 1), (3, 2), (3, 0)])).unwrap_err().to_string();
    assert!(told.contains("tells who wins, without exception"), "{told}");
    let twice = Table::from_rows(&[[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]).unwrap();
    let told = fixed(0.0).fit_linear(&twice, &of(4, &[(1, 0), (2, 1), (0, 2)])).unwrap_err().to_string();
    assert!(told.contains("weighted sums of others"), "{told}");
    let told = fixed(0.0).fit_linear(&item_rows(4), &ring).unwrap_err().to_string();
    assert!(told.contains("column 'item' holds categories"), "{told}");
}

fn landmarks(utility: f64, generalised: f64, landmarks: usize, draws: usize) -> LandmarkProcess {
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.8, 1.1]));
    (process.tune, process.prior.utility, process.prior.generalised) = (false, utility, generalised);
    LandmarkProcess { landmarks, draws, tolerance: 1e-11, ..LandmarkProcess::new(process) }
}

/// The process whose kernel is Nyström's approximation by these landmarks, as a linear kernel of features.
fn nystrom(fit: &LandmarkFit, items: &Table) -> (PreferenceProcess, Table) {
    let (kernel, z) = (&fit.function.prior.items, &fit.function.landmarks);
    let q = z.rows();
    let between = |x: &Table| Mat::from_fn(q, x.rows(), |i, j| kernel.eval(&z.row(i), &x.row(j)));
    // The symmetric root, as against the triangular one.
    let own = between(z).self_adjoint_eigen(Side::Lower).unwrap();
    let roots = Mat::from_fn(q, q, |i, j| own.U()[(j, i)] / own.S()[i].sqrt());
    let features = roots * between(items);
    let rows: Vec<Vec<f64>> = (0..items.rows()).map(|i| (0..q).map(|j| features[(j, i)]).collect()).collect();
    let linear = Linear { columns: (0..q).collect(), center: vec![0.0; q], scale: vec![1.0; q] };
    let mut process = PreferenceProcess::new(linear.into());
    process.tune = false;
    (process.prior.utility, process.prior.generalised) =
        (fit.function.prior.utility, fit.function.prior.generalised);
    (process, Table::from_rows(&rows).unwrap())
}

const SHARES: [(f64, f64); 3] = [(2.0, 1.5), (2.0, 0.0), (0.0, 1.5)];

#[test]
fn landmarks_are_nystroms_prior() {
    let (items, duels) = (Stream(8).normals(25, 2), duels(25, 120, 4));
    let pairs: Vec<Pair> = (0..20).map(|i| (i, (i + 7) % 25)).chain([(3, 3), (7, 0)]).collect();
    for (utility, generalised) in SHARES {
        let fit = landmarks(utility, generalised, 7, 0).fit(&items, &duels).unwrap();
        let found = fit.function.log_odds(&items, &pairs).unwrap();
        let (process, features) = nystrom(&fit, &items);
        let dense = process.fit(&features, &duels).unwrap();
        let truth = dense.model.predict(&wide_rows(&features, &pairs).unwrap()).unwrap();
        let own = fit.model.as_ref().unwrap().predict(&wide_rows(&items, &pairs).unwrap()).unwrap();
        for i in 0..pairs.len() {
            assert!((found[i] - truth[(i, 0)]).abs() < 1e-9, "{} {}", found[i], truth[(i, 0)]);
            assert!((found[i] - own[(i, 0)]).abs() < 1e-9, "{} {}", found[i], own[(i, 0)]);
        }
        assert_eq!((found[20], found[21].to_bits()), (0.0, (-found[0]).to_bits()));
    }
}

#[test]
fn all_items_as_landmarks_are_the_process() {
    let (items, duels) = (Stream(8).normals(15, 2), duels(15, 120, 4));
    let pairs: Vec<Pair> = (0..15).map(|i| (i, (i + 7) % 15)).collect();
    for (utility, generalised) in SHARES {
        let settings = landmarks(utility, generalised, 99, 0);
        let fit = settings.fit(&items, &duels).unwrap();
        let dense = settings.process.fit(&items, &duels).unwrap();
        let rows = wide_rows(&items, &pairs).unwrap();
        let truth = dense.model.predict(&rows).unwrap();
        let own = fit.model.as_ref().unwrap().predict(&rows).unwrap();
        for (i, found) in fit.function.log_odds(&items, &pairs).unwrap().into_iter().enumerate() {
            assert!((found - truth[(i, 0)]).abs() < 1e-9, "{found} {}", truth[(i, 0)]);
            assert!((own[(i, 0)] - truth[(i, 0)]).abs() < 1e-7, "{} {}", own[(i, 0)], truth[(i, 0)]);
        }
        assert!(fit.unknown < 1e-7);
    }
}

/// Standard deviations are those of the dense process, within four of their standard errors.
#[test]
fn draws_are_from_the_posterior() {
    let (items, duels) = (Stream(8).normals(25, 2), duels(25, 120, 4));
    let pairs: Vec<Pair> = (0..20).map(|i| (i, (i + 7) % 25)).collect();
    for (utility, generalised) in SHARES {
        let fit = landmarks(utility, generalised, 7, 400).fit(&items, &duels).unwrap();
        let (_, sd) = fit.function.moments(&items, &pairs).unwrap();
        let (process, features) = nystrom(&fit, &items);
        let dense = process.fit(&features, &duels).unwrap();
        let rows = wide_rows(&features, &pairs).unwrap();
        let truth = dense.posterior().variance(&rows).unwrap();
        let apart: Vec<f64> =
            (0..20).map(|i| (sd[i] / truth[(i, 0)].sqrt() - 1.0) * 800.0_f64.sqrt()).collect();
        assert!(apart.iter().all(|z| z.abs() < 4.0), "{apart:?}");
        assert!(apart.iter().map(|z| z * z).sum::<f64>() / 20.0 < 3.0, "{apart:?}");
        let chance = fit.function.probability(&items, &pairs).unwrap();
        let exact = dense.probability(&features, &pairs).unwrap();
        assert!(chance.iter().zip(&exact).all(|(a, b)| (a - b).abs() < 0.03), "{chance:?} {exact:?}");
    }
}

#[test]
fn landmarks_are_the_same_for_any_number_of_threads() {
    let (items, duels) = (Stream(8).normals(60, 2), duels(60, 500, 4));
    let settings = landmarks(2.0, 1.5, 30, 2);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let fit = pool.install(|| settings.fit(&items, &duels)).unwrap();
        (fit.model, fit.function.moments(&items, &[(0, 1), (5, 3)]).unwrap(), fit.steps)
    };
    let one = with(1);
    assert!(one == with(2) && one == with(3));
}

#[test]
fn landmarks_are_tuned_on_some_duels() {
    let (items, duels) = (Stream(8).normals(60, 2), duels(60, 700, 4));
    let mut settings = landmarks(2.0, 1.5, 60, 0);
    (settings.process.tune, settings.tuning_pairs) = (true, 40);
    let fit = settings.fit(&items, &duels).unwrap();
    let some = duels.sample(40, 0);
    assert_eq!((some.pairs().len(), duels.sample(10_000, 0)), (40, duels.clone()));
    assert!(some.pairs().iter().all(|pair| duels.pairs().contains(pair)));
    let tuned = settings.process.fit(&items, &some).unwrap();
    assert_eq!(
        (fit.function.prior, fit.log_marginal_likelihood),
        (tuned.prior, Some(tuned.log_marginal_likelihood))
    );
    // A kernel that never vanishes has no expansion with a utility, but still predicts.
    settings.process = PreferenceProcess::new(Kernel::gaussian(&[0.8, 1.1]) + Kernel::constant(0.5));
    settings.process.tune = false;
    let fit = settings.fit(&items, &duels).unwrap();
    assert!(fit.model.is_none() && fit.function.log_odds(&items, &[(0, 1)]).unwrap()[0].is_finite());
    assert!(fit.function.moments(&items, &[(0, 1)]).unwrap_err().to_string().contains("draws = 0"));
    settings.landmarks = 0;
    assert!(settings.fit(&items, &duels).unwrap_err().to_string().contains("landmarks = 0"));
}
