//! Preferences through landmarks of items and contexts, against dense processes and brute force.

use std::sync::atomic::AtomicBool;

use faer::{Mat, Side};
use riesz::kernel::{Categorical, Linear};
use riesz::preference::{
    ContextKernel, Duels, HomeSide, LandmarkFit, LandmarkFunction, LandmarkProcess, Pair, PreferenceProcess,
    prepare_entries, wide_rows, wide_rows_in,
};
use riesz::table::{Column, ColumnKind};
use riesz::{Kernel, Table};

use crate::common::Stream;
use crate::preference_scale::duels;

fn landmarks(utility: f64, generalised: f64, landmarks: usize, draws: usize) -> LandmarkProcess {
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.8, 1.1]));
    (process.tune, process.prior.utility_variance, process.prior.generalised_variance) =
        (false, utility, generalised);
    LandmarkProcess { landmarks, draws, tolerance: 1e-11, ..LandmarkProcess::new(process) }
}

/// Features of rows by column, whose inner products are Nyström's approximation of a kernel by these
/// landmarks: through the symmetric root, as against the triangular one.
fn roots(kernel: &dyn Fn(&[f64], &[f64]) -> f64, z: &Table, rows: &Table) -> Vec<Vec<f64>> {
    let q = z.rows();
    let between = |x: &Table| Mat::from_fn(q, x.rows(), |i, j| kernel(&z.row(i), &x.row(j)));
    let own = between(z).self_adjoint_eigen(Side::Lower).unwrap();
    let features = Mat::from_fn(q, q, |i, j| own.U()[(j, i)] / own.S()[i].sqrt()) * between(rows);
    (0..q).map(|j| (0..rows.rows()).map(|i| features[(j, i)]).collect()).collect()
}

fn linear(q: usize) -> Kernel {
    Linear { columns: (0..q).collect(), center: vec![0.0; q], scale: vec![1.0; q] }.into()
}

/// The process with this kernel of items.
fn nystrom(fit: &LandmarkFit, items: &Table) -> (PreferenceProcess, Table) {
    let (prior, z) = (&fit.function.prior, fit.function.landmarks());
    let features = roots(&|a, b| prior.items.eval(a, b), z, items);
    let columns = (0..z.rows()).map(|j| Column::numeric(format!("f{j}"))).collect();
    let mut process = PreferenceProcess::new(linear(z.rows()));
    process.tune = false;
    (process.prior.utility_variance, process.prior.generalised_variance) =
        (prior.utility_variance, prior.generalised_variance);
    (process, Table::from_column_major(columns, items.rows(), features.concat()).unwrap())
}

const SHARES: [(f64, f64); 3] = [(2.0, 1.5), (2.0, 0.0), (0.0, 1.5)];

#[test]
fn landmarks_are_nystroms_prior() {
    let (items, duels) = (Stream(8).normals(25, 2), duels(25, 120, 4));
    let pairs: Vec<Pair> = (0..20).map(|i| (i, (i + 7) % 25)).chain([(3, 3), (7, 0)]).collect();
    for (utility, generalised) in SHARES {
        let fit = landmarks(utility, generalised, 7, 0).fit(&items, &duels).unwrap();
        let found = fit.function.log_odds(&items, &pairs, None).unwrap();
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
        for (i, found) in fit.function.log_odds(&items, &pairs, None).unwrap().into_iter().enumerate() {
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
        let (_, sd) = fit.function.moments(&items, &pairs, None).unwrap();
        let (process, features) = nystrom(&fit, &items);
        let dense = process.fit(&features, &duels).unwrap();
        let rows = wide_rows(&features, &pairs).unwrap();
        let known = dense.posterior().variance(&rows).unwrap();
        // Of what landmarks do not know, all that was not known beforehand.
        let own = wide_rows(&items, &pairs).unwrap();
        let settings = landmarks(utility, generalised, 7, 0);
        let (more, less) = (before(&settings.process, 2, &own), before(&process, 7, &rows));
        let truth: Vec<f64> = (0..20).map(|i| known[(i, 0)] + more[i] - less[i]).collect();
        // The estimated part has the standard error.
        let apart = |i: usize| ((sd[i] * sd[i] - truth[i]) / known[(i, 0)]) * 200.0_f64.sqrt();
        let apart: Vec<f64> = (0..20).map(apart).collect();
        assert!(apart.iter().all(|z| z.abs() < 4.0), "{apart:?}");
        assert!(apart.iter().map(|z| z * z).sum::<f64>() / 20.0 < 3.0, "{apart:?}");
        // Without draws, and not too small by more than is promised.
        let stop = AtomicBool::new(false);
        let (mean, solved) = fit.function.exact_moments(&items, &pairs, None, &stop).unwrap();
        for (i, sd) in solved.iter().enumerate() {
            let missing = truth[i] - sd * sd;
            assert!(
                (-1e-10 * more[i]..1e-8 * more[i] + 1e-12).contains(&missing),
                "{missing} of {}",
                more[i]
            );
        }
        // Probabilities are averages over the draws' spread.
        let chance = fit.function.probabilities(&items, &pairs, None).unwrap();
        let mut s = Stream(5);
        let normal: Vec<f64> = (0..20_000).map(|_| s.normal()).collect();
        let of = |i: usize| {
            normal.iter().map(|z| 1.0 / (1.0 + (-mean[i] - solved[i] * z).exp())).sum::<f64>() / 2e4
        };
        for i in 0..20 {
            assert!((chance[(i, 1)] - of(i)).abs() < 0.03 && chance[(i, 0)] == 1.0 - chance[(i, 1)]);
        }
    }
}

#[test]
fn landmarks_are_the_same_for_any_number_of_threads() {
    let (items, duels) = (Stream(8).normals(60, 2), duels(60, 500, 4));
    let settings = landmarks(2.0, 1.5, 30, 2);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let fit = pool.install(|| settings.fit(&items, &duels)).unwrap();
        (fit.model, fit.function.moments(&items, &[(0, 1), (5, 3)], None).unwrap(), fit.steps)
    };
    let one = with(1);
    assert!(one.0.is_ok() && one == with(2) && one == with(3));
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
    assert!(
        fit.model.as_ref().unwrap_err().contains("vanish")
            && fit.function.log_odds(&items, &[(0, 1)], None).unwrap()[0].is_finite()
    );
    assert!(fit.function.moments(&items, &[(0, 1)], None).unwrap_err().to_string().contains("draws = 0"));
    settings.landmarks = 0;
    assert!(settings.fit(&items, &duels).unwrap_err().to_string().contains("landmarks = 0"));
}

/// Where tuning starts where a third of the pairs leads, it ends where all starts do with all of them, after
/// a few evaluations.
#[test]
fn tuning_goes_from_fewer_duels_to_more() {
    let (items, duels) = (Stream(8).normals(60, 2), duels(60, 1500, 4));
    let mut settings = landmarks(2.25, 2.25, 60, 0);
    (settings.process.tune, settings.tuning_pairs) = (true, 620);
    let fit = settings.fit(&items, &duels).unwrap();
    let spent = settings.process.progress.steps();
    let [few, all] = [206, 620].map(|pairs| settings.process.fit(&items, &duels.sample(pairs, 0)).unwrap());
    let value = fit.log_marginal_likelihood.unwrap();
    assert!(
        (value - all.log_marginal_likelihood).abs() < 1e-3 * value.abs(),
        "{value} {}",
        all.log_marginal_likelihood
    );
    let (later, from_all) = (spent - few.evaluations, all.evaluations);
    assert!(0 < later && 2 * later < from_all, "{later}, and from all starts {from_all}");
}

/// Duels with all that they may have: a home, names, contexts of a number and a level of which there are six,
/// and ties.
struct Meetings {
    items: Table,
    /// Either side and how it ended.
    duels: (Vec<usize>, Vec<usize>, Vec<f64>),
    contexts: Table,
    process: PreferenceProcess,
    /// Pairs of rows of items, and their contexts.
    asked: (Vec<Pair>, Table),
}

fn meetings(shares: (f64, f64), with_alone: bool, ties: bool) -> Meetings {
    let mut s = Stream(31);
    let items = s.normals(14, 2);
    let (mut left, mut right, mut won, mut home, mut cells) = (vec![], vec![], vec![], vec![], vec![]);
    while left.len() < 150 {
        let [l, r] = [0; 2].map(|_| (s.uniform() * 14.0) as usize);
        if l != r {
            left.push(l);
            right.push(r);
            home.push([HomeSide::Left, HomeSide::Right, HomeSide::Nobody][(3.0 * s.uniform()) as usize]);
            cells.push([(3.0 * s.uniform()).floor(), (2.0 * s.uniform()).floor()]);
            let ahead = items.get(l, 0) - items.get(r, 0);
            let chance = 1.0 / (1.0 + (-ahead).exp());
            won.push(if s.uniform() < 0.25 { 0.5 } else { f64::from(u8::from(s.uniform() < chance)) });
        }
    }
    let kind = ColumnKind::Categorical { levels: ["clay", "grass"].map(String::from).to_vec() };
    let columns = vec![Column::numeric("heat"), Column { name: "ground".into(), kind }];
    let column = |cells: &[[f64; 2]], j: usize| cells.iter().map(|cell| cell[j]).collect::<Vec<f64>>();
    let table = |cells: &[[f64; 2]]| {
        let values = [column(cells, 0), column(cells, 1)].concat();
        Table::from_column_major(columns.clone(), cells.len(), values).unwrap()
    };
    let contexts = table(&cells);
    let names: Vec<String> = (0..14).map(|i| format!("item {i}")).collect();
    let (at_home, called) = if with_alone { (Some(&home[..]), Some(&names[..])) } else { (None, None) };
    let own = prepare_entries(&items, (&left, &right), &won, at_home, called).unwrap();
    let n = own.table.rows();
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.8, 1.1]));
    process.tune = false;
    (process.prior.utility_variance, process.prior.generalised_variance) = shares;
    process.prior.extra_utility_kernel = own.alone;
    let between = Kernel::gaussian(&[1.3]) * Kernel::from(Categorical { columns: [1], similarity: 0.3 });
    process.prior.contexts = Some(ContextKernel { kernel: between, shared: 0.4 });
    process.margin = ties.then_some(0.35);
    // Some of them in contexts that nobody met in.
    let asked: Vec<Pair> = (0..n).map(|i| (i, (i * 5 + 3) % n)).collect();
    let cells: Vec<[f64; 2]> = (0..n).map(|i| [(i % 4) as f64, (i % 2) as f64]).collect();
    let duels = (own.left, own.right, won);
    Meetings { items: own.table, duels, contexts, process, asked: (asked, table(&cells)) }
}

impl Meetings {
    fn duels(&self, contexts: &Table) -> Duels {
        let (left, right, won) = &self.duels;
        Duels::in_contexts(self.items.rows(), left, right, won, None, contexts).unwrap()
    }
}

/// The variances of pairs beforehand.
fn before(process: &PreferenceProcess, width: usize, rows: &Table) -> Vec<f64> {
    let kernel = process.prior.wide_row_kernel(width);
    let of = |i: usize| {
        let row = rows.row(i);
        let back = [&row[width..2 * width], &row[..width], &row[2 * width..]].concat();
        kernel.eval(&row, &row) - kernel.eval(&row, &back)
    };
    (0..rows.rows()).map(of).collect()
}

/// A function is that of a dense process, with its standard deviations, and as an expansion.
fn same(
    fit: &LandmarkFit,
    at: &Meetings,
    (process, duels): (&PreferenceProcess, &Duels),
    tables: [&Table; 2],
    draws: bool,
) {
    let [items, contexts] = tables;
    let dense = process.fit(items, duels).unwrap();
    let rows = &wide_rows_in(items, &at.asked.0, Some(contexts)).unwrap();
    let (pairs, contexts) = (&at.asked.0, Some(&at.asked.1));
    let truth = dense.model.predict(rows).unwrap();
    let variance = dense.posterior().variance(rows).unwrap();
    // Of what landmarks do not know, all that was not known beforehand.
    let own = wide_rows_in(&at.items, pairs, Some(&at.asked.1)).unwrap();
    let more = before(&at.process, at.items.width(), &own);
    let less = before(process, items.width(), rows);
    let stop = AtomicBool::new(false);
    let (mean, sd) = fit.function.exact_moments(&at.items, pairs, contexts, &stop).unwrap();
    let expanded = fit.model.as_ref().unwrap().predict(&own).unwrap();
    let again =
        LandmarkFunction::from_state(fit.function.prior.clone(), fit.function.margin, fit.function.state())
            .unwrap();
    assert_eq!(again.log_odds(&at.items, pairs, contexts).unwrap(), mean);
    assert_eq!(again.exact_moments(&at.items, pairs, contexts, &stop).unwrap().1, sd);
    let exact =
        riesz::Prediction::of(&dense.model, Some(&dense.covariance), rows).unwrap().probabilities.unwrap();
    let chance = fit.function.probabilities(&at.items, pairs, contexts).unwrap();
    for i in 0..pairs.len() {
        assert!((mean[i] - truth[(i, 0)]).abs() < 1e-7, "{} {}", mean[i], truth[(i, 0)]);
        let spread = (variance[(i, 0)] + more[i] - less[i]).sqrt();
        assert!((sd[i] - spread).abs() < 1e-6, "{} {spread}", sd[i]);
        assert!((expanded[(i, 0)] - mean[i]).abs() < 1e-6, "{} {}", expanded[(i, 0)], mean[i]);
        let apart = (0..exact.cols()).map(|k| (chance[(i, k)] - exact[(i, k)]).abs()).fold(0.0, f64::max);
        assert!(!draws || apart < 0.03, "{apart}");
    }
    assert!(chance.cols() == exact.cols());
}

#[test]
fn all_contexts_homes_names_and_ties_are_the_process() {
    for (shares, with_alone, ties) in [
        ((2.0, 1.5), true, true),
        ((2.0, 0.0), true, false),
        ((0.0, 1.5), true, false),
        ((0.0, 0.0), true, true),
        ((2.0, 1.5), false, false),
    ] {
        let at = meetings(shares, with_alone, ties);
        let duels = at.duels(&at.contexts);
        let draws = if with_alone && ties { 300 } else { 0 };
        let settings = LandmarkProcess {
            landmarks: 99,
            draws,
            tolerance: 1e-11,
            ..LandmarkProcess::new(at.process.clone())
        };
        let fit = settings.fit(&at.items, &duels).unwrap();
        assert!(fit.unknown < 1e-7 && fit.unknown_contexts < 1e-7 && fit.warnings.is_empty());
        assert_eq!(fit.function.context_landmarks().unwrap().rows(), 6);
        same(&fit, &at, (&at.process, &duels), [&at.items, &at.asked.1], draws > 0);
        // Skew to the bit, in any context.
        let back: Vec<Pair> = at.asked.0.iter().map(|&(l, r)| (r, l)).collect();
        let there = fit.function.log_odds(&at.items, &at.asked.0, Some(&at.asked.1)).unwrap();
        let here = fit.function.log_odds(&at.items, &back, Some(&at.asked.1)).unwrap();
        assert!(there.iter().zip(&here).all(|(a, b)| (a + 0.0).to_bits() == (-b + 0.0).to_bits()));
    }
}

/// With few landmarks the prior is that of features, of which dense linear kernels make the same.
#[test]
fn landmarks_of_contexts_are_nystroms_prior() {
    let at = meetings((2.0, 1.5), true, true);
    let settings = LandmarkProcess {
        landmarks: 6,
        context_landmarks: 3,
        draws: 0,
        tolerance: 1e-11,
        ..LandmarkProcess::new(at.process.clone())
    };
    let fit = settings.fit(&at.items, &at.duels(&at.contexts)).unwrap();
    assert!(fit.unknown_contexts > 0.1 && fit.warnings[0].contains("3 landmarks of 6 contexts"));
    let (z, u) = (fit.function.landmarks(), fit.function.context_landmarks().unwrap());
    assert!(z.rows() == 6 && u.rows() == 3);
    let (prior, between) = (&fit.function.prior, fit.function.prior.contexts.as_ref().unwrap());
    let whole = |a: &[f64], b: &[f64]| between.shared + (1.0 - between.shared) * between.kernel.eval(a, b);
    // Features of items, and then home and id as they are.
    let mut columns: Vec<Column> = (0..6).map(|j| Column::numeric(format!("f{j}"))).collect();
    columns.extend(at.items.columns()[2..].iter().cloned());
    let mut values = roots(&|a, b| prior.items.eval(a, b), z, &at.items);
    values.extend((2..4).map(|j| at.items.column(j).to_vec()));
    let features = Table::from_column_major(columns, at.items.rows(), values.concat()).unwrap();
    let of_contexts = |rows: &Table| {
        let columns = (0..3).map(|j| Column::numeric(format!("p{j}"))).collect();
        Table::from_column_major(columns, rows.rows(), roots(&whole, u, rows).concat()).unwrap()
    };
    let mut process = at.process.clone();
    process.prior.items = linear(6);
    process.prior.extra_utility_kernel =
        at.process.prior.extra_utility_kernel.as_ref().map(|own| own.shift_columns(4));
    process.prior.contexts = Some(ContextKernel { kernel: linear(3), shared: 0.0 });
    let duels = at.duels(&of_contexts(&at.contexts));
    same(&fit, &at, (&process, &duels), [&features, &of_contexts(&at.asked.1)], false);
}

#[test]
fn meetings_are_tuned_on_some_duels() {
    let at = meetings((2.0, 1.5), true, true);
    let mut settings = LandmarkProcess { draws: 2, ..LandmarkProcess::new(at.process.clone()) };
    (settings.process.tune, settings.tuning_pairs) = (true, 40);
    let duels = at.duels(&at.contexts);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| settings.fit(&at.items, &duels)).unwrap()
    };
    let fit = with(1);
    let tuned = settings.process.fit(&at.items, &duels.sample(40, 0)).unwrap();
    assert_eq!((&fit.function.prior, fit.function.margin), (&tuned.prior, tuned.margin));
    assert!(fit.function.margin != Some(0.35) && fit.function.prior.contexts.as_ref().unwrap().shared != 0.4);
    let again = with(2);
    let asked = |fit: &LandmarkFit| fit.function.moments(&at.items, &at.asked.0, Some(&at.asked.1)).unwrap();
    assert!(fit.model == again.model && asked(&fit) == asked(&again));

    let told = |fit: riesz::Result<LandmarkFit>| fit.unwrap_err().to_string();
    let without = fit.function.log_odds(&at.items, &at.asked.0, None).unwrap_err().to_string();
    assert!(without.contains("say which"), "{without}");
    let few = at.asked.1.select_rows(&[0]);
    assert!(fit.function.log_odds(&at.items, &at.asked.0, Some(&few)).is_err());
    settings.context_landmarks = 0;
    assert!(told(settings.fit(&at.items, &duels)).contains("context_landmarks = 0"));
    settings.context_landmarks = 1;
    settings.draws = 1 << 50;
    assert!(told(settings.fit(&at.items, &duels)).contains("draws"));
    let mut state = fit.function.state();
    state.curve.pop();
    assert!(LandmarkFunction::from_state(fit.function.prior.clone(), None, state).is_err());
    let mut state = fit.function.state();
    state.rows[0] = 99;
    assert!(LandmarkFunction::from_state(fit.function.prior.clone(), None, state).is_err());
    // A further utility of the items' own columns leaves no room for points that stand for it alone.
    let mut process = at.process.clone();
    process.prior.extra_utility_kernel = Some(Kernel::gaussian(&[0.4, 0.7]));
    let fit = LandmarkProcess { tolerance: 1e-11, ..LandmarkProcess::new(process.clone()) };
    let fit = LandmarkProcess { landmarks: 99, draws: 0, ..fit }.fit(&at.items, &duels).unwrap();
    assert!(fit.model.unwrap_err().contains("further utilities"));
    let dense = process.fit(&at.items, &duels).unwrap();
    let rows = wide_rows_in(&at.items, &at.asked.0, Some(&at.asked.1)).unwrap();
    let truth = dense.model.predict(&rows).unwrap();
    let found = fit.function.log_odds(&at.items, &at.asked.0, Some(&at.asked.1)).unwrap();
    assert!(found.iter().enumerate().all(|(i, g)| (g - truth[(i, 0)]).abs() < 1e-7));
}

/// Items that met nobody are none of the dense process's business, and matrices that no memory holds are
/// refused beforehand.
#[test]
fn dense_fits_take_what_met() {
    let (items, some) = (Stream(8).normals(30, 2), duels(12, 40, 4));
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.8, 1.1]));
    let (left, right): (Vec<usize>, Vec<usize>) =
        some.pairs().iter().map(|&(l, r)| (2 * l + 3, 2 * r + 3)).unzip();
    let of = |items: usize, left: &[usize], right: &[usize]| {
        Duels::new(items, left, right, some.outcome(), Some(some.weight())).unwrap()
    };
    let all = process.fit(&items, &of(30, &left, &right)).unwrap();
    let met: Vec<usize> = (0..12).map(|i| 2 * i + 3).collect();
    let (l, r): (Vec<usize>, Vec<usize>) = some.pairs().iter().copied().unzip();
    let own = process.fit(&items.select_rows(&met), &of(12, &l, &r)).unwrap();
    assert!(all.model == own.model && all.log_marginal_likelihood == own.log_marginal_likelihood);
    let (left, right): (Vec<usize>, Vec<usize>) = (0..1000).flat_map(|i| (0..i).map(move |j| (i, j))).unzip();
    let many = Duels::new(1000, &left, &right, &vec![1.0; left.len()], None).unwrap();
    process.tune = false;
    let told = process.fit(&Stream(8).normals(1000, 2), &many).unwrap_err().to_string();
    assert!(told.contains("pairs that met = 499500") && told.contains("landmarks"), "{told}");
}
