//! Bradley and Terry's model, against other algorithms and dense processes.

use std::collections::BTreeMap;

use faer::Mat;
use faer::linalg::solvers::DenseSolveCore;
use riesz::kernel::{Categorical, Linear};
use riesz::preference::{
    AbilityRidge, BradleyTerry, BradleyTerryFit, Duels, Pair, PreferenceProcess, wide_rows,
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

/// Weighted duels with ties, in which every item takes part.
pub fn duels(items: usize, count: usize, seed: u64) -> Duels {
    let mut s = Stream(seed);
    let (mut left, mut right, mut won, mut weight) = (vec![], vec![], vec![], vec![]);
    for i in 0..count.max(items) {
        let l = i % items;
        let r = (l + 1 + (s.uniform() * (items - 1) as f64) as usize) % items;
        left.push(l);
        right.push(r);
        let probability = sigma((l as f64 - r as f64) / items as f64);
        won.push(if s.uniform() < 0.15 { 0.5 } else { f64::from(u8::from(s.uniform() < probability)) });
        weight.push(0.5 + s.uniform());
    }
    Duels::new(items, &left, &right, &won, Some(&weight)).unwrap()
}

fn fixed(ridge: f64) -> BradleyTerry {
    BradleyTerry::new(AbilityRidge::Fixed(ridge))
}

/// Hunter's (2004) minorisation of the likelihood, which needs no derivatives.
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

/// Returns the standard deviation of a difference of abilities by definition, from the inverse Hessian
/// (without the first item if there is no ridge).
fn difference_sd(fit: &BradleyTerryFit, duels: &Duels, (l, r): Pair) -> f64 {
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
    let covariance =
        |i: usize, j: usize| if i < first || j < first { 0.0 } else { inverse[(i - first, j - first)] };
    (covariance(l, l) + covariance(r, r) - 2.0 * covariance(l, r)).sqrt()
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
    for (actual, truth) in fit.coef.iter().zip(&truth) {
        assert!((actual - truth).abs() < 1e-8, "{actual} {truth}");
    }
    assert!(fit.notes.is_empty() && fit.coef.iter().sum::<f64>().abs() < 1e-12);
    // A tiny ridge gives the same abilities.
    let near = fixed(1e-9).fit(&names(14), &duels).unwrap();
    assert!(near.coef.iter().zip(&fit.coef).all(|(a, b)| (a - b).abs() < 1e-6));
}

#[test]
fn uncertainty_of_abilities_matches_the_inverse_hessian() {
    let duels = duels(9, 40, 2);
    let query_pairs: Vec<Pair> = vec![(0, 1), (1, 0), (4, 4), (7, 2), (0, 8)];
    let rows = wide_rows(&item_rows(9), &query_pairs).unwrap();
    for ridge in [0.0, 0.7] {
        let fit = fixed(ridge).fit(&names(9), &duels).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let differences = fit.differences(&query_pairs, &stop).unwrap();
        let mean = fit.model.predict(&rows).unwrap();
        let variance = fit.posterior().unwrap().variance(&rows).unwrap();
        for (i, (&(l, r), (g, sd))) in query_pairs.iter().zip(differences).enumerate() {
            let truth = difference_sd(&fit, &duels, (l, r));
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
        // Abilities: the variances of all differences from the mean match those of pairs.
        let errors = fit.std_errors().unwrap();
        if ridge == 0.0 {
            let pair_sum: f64 = (0..9)
                .flat_map(|l| (0..l).map(move |r| (l, r)))
                .map(|p| difference_sd(&fit, &duels, p).powi(2))
                .sum();
            let error_sum: f64 = errors.iter().map(|e| 9.0 * e * e).sum();
            assert!((pair_sum - error_sum).abs() < 1e-9, "{pair_sum} {error_sum}");
        } else {
            let inverse = fit.abilities().unwrap().1;
            assert!((0..9).all(|i| (errors[i].powi(2) - inverse[(i, i)]).abs() < 1e-12), "{errors:?}");
        }
    }
}

/// The sums over the duels of each pair and context have the bits of sums in a map, in the order of duels.
#[test]
fn equal_pairs_are_summed_in_the_order_of_their_duels() {
    let mut s = Stream(31);
    let mut below = |bound: usize| (s.uniform() * bound as f64) as usize;
    let (mut left, mut right, mut won, mut weight, mut context) = (vec![], vec![], vec![], vec![], vec![]);
    let mut sums: BTreeMap<(usize, usize, usize), [f64; 3]> = BTreeMap::new();
    // Contexts are numbered by their first duels.
    let mut number_of_context = Vec::new();
    for _ in 0..3000 {
        let (l, shift, u) = (below(12), 1 + below(11), below(4));
        let (r, share, w) = ((l + shift) % 12, [0.0, 0.5, 1.0][below(3)], (1 + below(9)) as f64 / 7.0);
        if !number_of_context.contains(&u) {
            number_of_context.push(u);
        }
        let number = number_of_context.iter().position(|v| *v == u).unwrap();
        let (first, second, share_of_first) = if l < r { (l, r, share) } else { (r, l, 1.0 - share) };
        let entry = sums.entry((first, second, number)).or_default();
        entry[0] += w * share_of_first;
        entry[1] += w;
        entry[2] += if share == 0.5 { w } else { 0.0 };
        left.push(l);
        right.push(r);
        won.push(share);
        weight.push(w);
        context.push([u as f64]);
    }
    let contexts = Table::from_rows(&context).unwrap();
    let duels = Duels::in_contexts(12, &left, &right, &won, Some(&weight), &contexts).unwrap();
    assert_eq!(duels.pairs().len(), sums.len());
    let rows = &duels.contexts().unwrap().rows;
    for (i, (&(first, second, number), &[won, weight, ties])) in sums.iter().enumerate() {
        assert_eq!((duels.pairs()[i], rows[i]), ((first, second), number));
        assert_eq!((duels.outcome()[i], duels.weight()[i], duels.ties()[i]), (won / weight, weight, ties));
    }
}

/// A chosen ridge has a larger evidence than its neighbours, wherever the search has to go.
#[test]
fn chosen_ridges_maximise_the_evidence_times_the_prior() {
    // Equal abilities, random ones, and wins without exception.
    let deterministic: Vec<(usize, usize)> = (0..8).flat_map(|l| (l + 1..8).map(move |r| (l, r))).collect();
    let (winners, losers): (Vec<usize>, Vec<usize>) = deterministic.into_iter().unzip();
    let count = winners.len();
    let ordered = Duels::new(8, &winners, &losers, &vec![1.0; count], None).unwrap();
    let even = Duels::new(8, &winners, &losers, &vec![0.5; count], Some(&vec![40.0; count])).unwrap();
    for duels in [duels(20, 300, 4), ordered, even] {
        let items = names(duels.items());
        let fit = BradleyTerry::new(AbilityRidge::Evidence).fit(&items, &duels).unwrap();
        let objective = |ridge: f64| {
            let mode = fixed(ridge).fit(&items, &duels).unwrap();
            let mut hessian = Mat::<f64>::from_fn(items.len(), items.len(), |i, j| f64::from(i == j) * ridge);
            for (&(l, r), w) in duels.pairs().iter().zip(duels.weight()) {
                let p = sigma(mode.coef[l] - mode.coef[r]);
                for (i, j, sign) in [(l, l, 1.0), (r, r, 1.0), (l, r, -1.0), (r, l, -1.0)] {
                    hessian[(i, j)] += sign * w * p * (1.0 - p);
                }
            }
            let eigenvalues = hessian.self_adjoint_eigenvalues(faer::Side::Lower).unwrap();
            let log_det: f64 = eigenvalues.iter().map(|v| v.ln()).sum();
            let square: f64 = mode.coef.iter().map(|b| b * b).sum();
            let evidence = mode.log_likelihood - 0.5 * ridge * square
                + 0.5 * (items.len() as f64 * ridge.ln() - log_det);
            let z = (ridge.ln() + 2.0 * 1.5_f64.ln()) / 3.0;
            (evidence, evidence - 0.5 * z * z)
        };
        let (evidence, best) = objective(fit.ridge);
        assert!((evidence - fit.log_marginal_likelihood.unwrap()).abs() < 1e-8 * evidence.abs());
        for factor in [0.99, 1.01] {
            let (_, other) = objective(fit.ridge * factor);
            assert!(other < best, "{factor} × {}: {other} {best}", fit.ridge);
        }
        assert!(fit.steps <= 20, "{} evaluations", fit.steps);
    }
}

/// Random item effects match a process with an independent utility per item, and linear effects a process
/// with a linear kernel.
#[test]
fn ridges_match_gaussian_process_priors() {
    let duels = duels(11, 50, 9);
    let mut s = Stream(6);
    let x = s.normals(11, 3);
    let item_kernel = Kernel::from(Categorical { columns: [0], similarity: 0.0 });
    let column_sd = |j: usize| {
        let mean = x.column(j).iter().sum::<f64>() / 11.0;
        (x.column(j).iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 11.0).sqrt()
    };
    let scale: Vec<f64> = (0..3).map(column_sd).collect();
    let linear = Kernel::from(Linear { columns: vec![0, 1, 2], center: vec![0.0; 3], scale });
    let evidence = BradleyTerry::new(AbilityRidge::Evidence);
    let cases = [
        (evidence.fit(&names(11), &duels).unwrap(), item_kernel, item_rows(11)),
        (evidence.fit_linear(&x, &duels).unwrap(), linear, x.clone()),
    ];
    for (fit, kernel, items) in cases {
        let mut process = PreferenceProcess::new(kernel);
        (process.tune, process.prior.utility_variance, process.prior.generalised_variance) =
            (false, 1.0 / fit.ridge, 0.0);
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
        let variances =
            [fit.posterior().unwrap().variance(&rows), dense.posterior().variance(&rows)].map(Result::unwrap);
        let stop = std::sync::atomic::AtomicBool::new(false);
        for (i, (g, sd)) in fit.differences(&pairs, &stop).unwrap().into_iter().enumerate() {
            assert!((a[(i, 0)] - b[(i, 0)]).abs() < 1e-8 && (g - b[(i, 0)]).abs() < 1e-8);
            assert!(
                (variances[0][(i, 0)] - variances[1][(i, 0)]).abs() < 1e-8
                    && (sd * sd - variances[1][(i, 0)]).abs() < 1e-8
            );
        }
        // At the tuned ridge, the derivatives of the evidence and of its weakly informative prior cancel.
        let theta: Vec<f64> = process.parameters().iter().map(|p| p.log_value).collect();
        let slope = process.log_marginal_likelihood(&items, &duels, &theta).unwrap().1[0];
        assert!((slope - (theta[0] - 2.0 * 1.5_f64.ln()) / 9.0).abs() < 1e-4, "{slope}");
    }
}

/// Coefficients of covariates by their definition: the gradient of the likelihood vanishes, in any units of
/// the columns.
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
fn missing_maxima_are_reported() {
    let duels_of = |items: usize, pairs: &[Pair]| {
        let (l, r): (Vec<usize>, Vec<usize>) = pairs.iter().copied().unzip();
        Duels::new(items, &l, &r, &vec![1.0; l.len()], None).unwrap()
    };
    let say = |duels: &Duels| fixed(0.0).fit(&names(duels.items()), duels).unwrap_err().to_string();
    let message = say(&duels_of(4, &[(0, 1), (1, 2), (2, 1), (2, 3)]));
    assert!(message.contains("1 item never won (item 3) and 1 item never lost (item 0)"), "{message}");
    assert!(message.contains("set a ridge above 0"), "{message}");
    let message = say(&duels_of(6, &[(0, 1), (1, 0), (2, 3), (3, 4), (4, 2)]));
    assert!(message.contains("2 groups, of sizes 3, 2"), "{message}");
    // Two connected groups, one of which won all duels with the other.
    let split = duels_of(5, &[(0, 1), (1, 0), (2, 3), (3, 4), (4, 2), (0, 2), (1, 3)]);
    let message = say(&split);
    assert!(message.contains("3 items (item 2, item 3, item 4) never beat any of the others"), "{message}");
    let fit = fixed(0.5).fit(&names(5), &split).unwrap();
    assert!(fit.notes[0].contains("never beat") && fit.coef[0] > fit.coef[2]);
    // Items without duels: an error without a ridge, the mean with one.
    let ring = duels_of(4, &[(0, 1), (1, 2), (2, 0)]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let fit = fixed(0.0).fit(&names(4), &ring).unwrap();
    assert!(fit.coef[3].is_nan() && fit.std_errors().unwrap()[3].is_nan() && fit.coef[0].abs() < 1e-12);
    assert!(fit.differences(&[(0, 3)], &stop).unwrap_err().to_string().contains("in no duel"));
    let fit = fixed(4.0).fit(&names(4), &ring).unwrap();
    assert!(fit.coef[3] == 0.0 && (fit.std_errors().unwrap()[3] - 0.5).abs() < 1e-12);
    assert!(fixed(-1.0).fit(&names(4), &ring).unwrap_err().to_string().contains("ridge = -1"));

    let x = Table::from_rows(&[[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [3.0, 0.0]]).unwrap();
    let message =
        fixed(0.0).fit_linear(&x, &duels_of(4, &[(1, 0), (2, 1), (3, 2), (3, 0)])).unwrap_err().to_string();
    assert!(message.contains("predicts all winners without exception"), "{message}");
    let twice = Table::from_rows(&[[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]).unwrap();
    let message =
        fixed(0.0).fit_linear(&twice, &duels_of(4, &[(1, 0), (2, 1), (0, 2)])).unwrap_err().to_string();
    assert!(message.contains("weighted sums of others"), "{message}");
    let message = fixed(0.0).fit_linear(&item_rows(4), &ring).unwrap_err().to_string();
    assert!(message.contains("column 'item' holds categories"), "{message}");
}
