//! Preferences through landmarks of items and contexts, against dense processes and enumeration.

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

/// Returns features of rows by column, whose inner products are the Nyström approximation of a kernel by
/// these landmarks. They use the symmetric root, while the library uses the triangular one.
pub fn roots(kernel: &dyn Fn(&[f64], &[f64]) -> f64, z: &Table, rows: &Table) -> Vec<Vec<f64>> {
    let q = z.rows();
    let between = |x: &Table| Mat::from_fn(q, x.rows(), |i, j| kernel(&z.row(i), &x.row(j)));
    let eigen = between(z).self_adjoint_eigen(Side::Lower).unwrap();
    let features = Mat::from_fn(q, q, |i, j| eigen.U()[(j, i)] / eigen.S()[i].sqrt()) * between(rows);
    (0..q).map(|j| (0..rows.rows()).map(|i| features[(j, i)]).collect()).collect()
}

pub fn linear(q: usize) -> Kernel {
    Linear { columns: (0..q).collect(), center: vec![0.0; q], scale: vec![1.0; q] }.into()
}

/// Returns the process with this kernel of items.
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
        let log_odds = fit.function.log_odds(&items, &pairs, None).unwrap();
        let (process, features) = nystrom(&fit, &items);
        let dense = process.fit(&features, &duels).unwrap();
        let truth = dense.model.predict(&wide_rows(&features, &pairs).unwrap()).unwrap();
        let expanded = fit.model.as_ref().unwrap().predict(&wide_rows(&items, &pairs).unwrap()).unwrap();
        for i in 0..pairs.len() {
            assert!((log_odds[i] - truth[(i, 0)]).abs() < 1e-9, "{} {}", log_odds[i], truth[(i, 0)]);
            assert!((log_odds[i] - expanded[(i, 0)]).abs() < 1e-9, "{} {}", log_odds[i], expanded[(i, 0)]);
        }
        assert_eq!((log_odds[20], log_odds[21].to_bits()), (0.0, (-log_odds[0]).to_bits()));
    }
}

#[test]
fn all_items_as_landmarks_match_the_exact_process() {
    let (items, duels) = (Stream(8).normals(15, 2), duels(15, 120, 4));
    let pairs: Vec<Pair> = (0..15).map(|i| (i, (i + 7) % 15)).collect();
    for (utility, generalised) in SHARES {
        let settings = landmarks(utility, generalised, 99, 0);
        let fit = settings.fit(&items, &duels).unwrap();
        let dense = settings.process.fit(&items, &duels).unwrap();
        let rows = wide_rows(&items, &pairs).unwrap();
        let truth = dense.model.predict(&rows).unwrap();
        let expanded = fit.model.as_ref().unwrap().predict(&rows).unwrap();
        for (i, actual) in fit.function.log_odds(&items, &pairs, None).unwrap().into_iter().enumerate() {
            assert!((actual - truth[(i, 0)]).abs() < 1e-9, "{actual} {}", truth[(i, 0)]);
            assert!(
                (expanded[(i, 0)] - truth[(i, 0)]).abs() < 1e-7,
                "{} {}",
                expanded[(i, 0)],
                truth[(i, 0)]
            );
        }
        assert!(fit.unknown < 1e-7);
    }
}

/// Standard deviations are within four standard errors of those of the dense process.
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
        // Where landmarks are uninformative, the full prior variance remains.
        let item_rows = wide_rows(&items, &pairs).unwrap();
        let settings = landmarks(utility, generalised, 7, 0);
        let (full_prior, less) =
            (prior_variances(&settings.process, 2, &item_rows), prior_variances(&process, 7, &rows));
        let truth: Vec<f64> = (0..20).map(|i| known[(i, 0)] + full_prior[i] - less[i]).collect();
        // The estimated part is within its standard error.
        let apart = |i: usize| ((sd[i] * sd[i] - truth[i]) / known[(i, 0)]) * 200.0_f64.sqrt();
        let apart: Vec<f64> = (0..20).map(apart).collect();
        assert!(apart.iter().all(|z| z.abs() < 4.0), "{apart:?}");
        assert!(apart.iter().map(|z| z * z).sum::<f64>() / 20.0 < 3.0, "{apart:?}");
        // Without draws, standard deviations are too small by at most the stated tolerance.
        let stop = AtomicBool::new(false);
        let (mean, solved) = fit.function.exact_moments(&items, &pairs, None, &stop).unwrap();
        for (i, sd) in solved.iter().enumerate() {
            let missing = truth[i] - sd * sd;
            assert!(
                (-1e-10 * full_prior[i]..1e-8 * full_prior[i] + 1e-12).contains(&missing),
                "{missing} of {}",
                full_prior[i]
            );
        }
        // Probabilities are averages over the distribution of the draws.
        let probabilities = fit.function.probabilities(&items, &pairs, None).unwrap();
        let mut s = Stream(5);
        let normal: Vec<f64> = (0..20_000).map(|_| s.normal()).collect();
        let average = |i: usize| {
            normal.iter().map(|z| 1.0 / (1.0 + (-mean[i] - solved[i] * z).exp())).sum::<f64>() / 2e4
        };
        for i in 0..20 {
            assert!(
                (probabilities[(i, 1)] - average(i)).abs() < 0.03
                    && probabilities[(i, 0)] == 1.0 - probabilities[(i, 1)]
            );
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
    let serial = with(1);
    assert!(serial.0.is_ok() && serial == with(2) && serial == with(3));
}

#[test]
fn landmarks_are_tuned_on_some_duels() {
    let (items, duels) = (Stream(8).normals(60, 2), duels(60, 700, 4));
    let mut settings = landmarks(2.0, 1.5, 60, 0);
    (settings.process.tune, settings.tuning_pairs) = (true, 40);
    let fit = settings.fit(&items, &duels).unwrap();
    let sample = duels.sample(40, 0);
    assert_eq!((sample.pairs().len(), duels.sample(10_000, 0)), (40, duels.clone()));
    assert!(sample.pairs().iter().all(|pair| duels.pairs().contains(pair)));
    let tuned = settings.process.fit(&items, &sample).unwrap();
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
    assert!(fit.function.moments(&items, &[(0, 1)], None).unwrap_err().to_string().contains("n_samples = 0"));
    settings.landmarks = 0;
    assert!(settings.fit(&items, &duels).unwrap_err().to_string().contains("landmarks = 0"));
}

/// Tuning from the optimum for a third of the pairs ends at the optimum for all pairs, with few additional
/// evaluations.
#[test]
fn tuning_goes_from_fewer_duels_to_more() {
    let (items, duels) = (Stream(8).normals(60, 2), duels(60, 1500, 4));
    let mut settings = landmarks(2.25, 2.25, 60, 0);
    (settings.process.tune, settings.tuning_pairs) = (true, 620);
    let fit = settings.fit(&items, &duels).unwrap();
    let spent = settings.process.progress.steps();
    let [third_fit, full_fit] =
        [206, 620].map(|pairs| settings.process.fit(&items, &duels.sample(pairs, 0)).unwrap());
    let value = fit.log_marginal_likelihood.unwrap();
    assert!(
        (value - full_fit.log_marginal_likelihood).abs() < 1e-3 * value.abs(),
        "{value} {}",
        full_fit.log_marginal_likelihood
    );
    let (later, from_all) = (spent - third_fit.evaluations, full_fit.evaluations);
    assert!(0 < later && 2 * later < from_all, "{later}, and from all starts {from_all}");
}

/// Duels with all options: a home side, names, ties, and six contexts of a number and a level.
struct Meetings {
    items: Table,
    /// Left items, right items and outcomes.
    duels: (Vec<usize>, Vec<usize>, Vec<f64>),
    contexts: Table,
    process: PreferenceProcess,
    /// The queried pairs of rows of items, and their contexts.
    queries: (Vec<Pair>, Table),
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
            let probability = 1.0 / (1.0 + (-ahead).exp());
            won.push(if s.uniform() < 0.25 { 0.5 } else { f64::from(u8::from(s.uniform() < probability)) });
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
    let entries = prepare_entries(&items, (&left, &right), &won, at_home, called).unwrap();
    let n = entries.table.rows();
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.8, 1.1]));
    process.tune = false;
    (process.prior.utility_variance, process.prior.generalised_variance) = shares;
    process.prior.extra_utility_kernel = entries.extra_utility_kernel;
    let between = Kernel::gaussian(&[1.3]) * Kernel::from(Categorical { columns: [1], similarity: 0.3 });
    process.prior.contexts = Some(ContextKernel { kernel: between, shared: 0.4 });
    process.margin = ties.then_some(0.35);
    // Some queries are in contexts without duels.
    let query_pairs: Vec<Pair> = (0..n).map(|i| (i, (i * 5 + 3) % n)).collect();
    let cells: Vec<[f64; 2]> = (0..n).map(|i| [(i % 4) as f64, (i % 2) as f64]).collect();
    let duels = (entries.left, entries.right, won);
    Meetings { items: entries.table, duels, contexts, process, queries: (query_pairs, table(&cells)) }
}

impl Meetings {
    fn duels(&self, contexts: &Table) -> Duels {
        let (left, right, won) = &self.duels;
        Duels::in_contexts(self.items.rows(), left, right, won, None, contexts).unwrap()
    }
}

/// Returns the prior variances of pairs.
fn prior_variances(process: &PreferenceProcess, width: usize, rows: &Table) -> Vec<f64> {
    let kernel = process.prior.wide_row_kernel(width);
    let variance = |i: usize| {
        let row = rows.row(i);
        let back = [&row[width..2 * width], &row[..width], &row[2 * width..]].concat();
        kernel.eval(&row, &row) - kernel.eval(&row, &back)
    };
    (0..rows.rows()).map(variance).collect()
}

/// Checks that a landmark function and its expansion match a dense process, with standard deviations.
fn check_against_dense(
    fit: &LandmarkFit,
    case: &Meetings,
    (process, duels): (&PreferenceProcess, &Duels),
    tables: [&Table; 2],
    draws: bool,
) {
    let [items, contexts] = tables;
    let dense = process.fit(items, duels).unwrap();
    let rows = &wide_rows_in(items, &case.queries.0, Some(contexts)).unwrap();
    let (pairs, contexts) = (&case.queries.0, Some(&case.queries.1));
    let truth = dense.model.predict(rows).unwrap();
    let variance = dense.posterior().variance(rows).unwrap();
    // Where landmarks are uninformative, the full prior variance remains.
    let item_rows = wide_rows_in(&case.items, pairs, Some(&case.queries.1)).unwrap();
    let full_prior = prior_variances(&case.process, case.items.width(), &item_rows);
    let less = prior_variances(process, items.width(), rows);
    let stop = AtomicBool::new(false);
    let (mean, sd) = fit.function.exact_moments(&case.items, pairs, contexts, &stop).unwrap();
    let expanded = fit.model.as_ref().unwrap().predict(&item_rows).unwrap();
    let again =
        LandmarkFunction::from_state(fit.function.prior.clone(), fit.function.margin, fit.function.state())
            .unwrap();
    assert_eq!(again.log_odds(&case.items, pairs, contexts).unwrap(), mean);
    assert_eq!(again.exact_moments(&case.items, pairs, contexts, &stop).unwrap().1, sd);
    let exact =
        riesz::Prediction::new(&dense.model, Some(&dense.covariance), rows).unwrap().probabilities.unwrap();
    let probabilities = fit.function.probabilities(&case.items, pairs, contexts).unwrap();
    for i in 0..pairs.len() {
        assert!((mean[i] - truth[(i, 0)]).abs() < 1e-7, "{} {}", mean[i], truth[(i, 0)]);
        let expected_sd = (variance[(i, 0)] + full_prior[i] - less[i]).sqrt();
        assert!((sd[i] - expected_sd).abs() < 1e-6, "{} {expected_sd}", sd[i]);
        assert!((expanded[(i, 0)] - mean[i]).abs() < 1e-6, "{} {}", expanded[(i, 0)], mean[i]);
        let apart =
            (0..exact.cols()).map(|k| (probabilities[(i, k)] - exact[(i, k)]).abs()).fold(0.0, f64::max);
        assert!(!draws || apart < 0.03, "{apart}");
    }
    assert!(probabilities.cols() == exact.cols());
}

#[test]
fn all_landmarks_match_the_process_with_contexts_and_ties() {
    for (shares, with_alone, ties) in [
        ((2.0, 1.5), true, true),
        ((2.0, 0.0), true, false),
        ((0.0, 1.5), true, false),
        ((0.0, 0.0), true, true),
        ((2.0, 1.5), false, false),
    ] {
        let case = meetings(shares, with_alone, ties);
        let duels = case.duels(&case.contexts);
        let draws = if with_alone && ties { 300 } else { 0 };
        let settings = LandmarkProcess {
            landmarks: 99,
            draws,
            tolerance: 1e-11,
            ..LandmarkProcess::new(case.process.clone())
        };
        let fit = settings.fit(&case.items, &duels).unwrap();
        assert!(fit.unknown < 1e-7 && fit.unknown_contexts < 1e-7 && fit.warnings.is_empty());
        assert_eq!(fit.function.context_landmarks().unwrap().rows(), 6);
        check_against_dense(&fit, &case, (&case.process, &duels), [&case.items, &case.queries.1], draws > 0);
        // Skew-symmetric to the bit, in any context.
        let back: Vec<Pair> = case.queries.0.iter().map(|&(l, r)| (r, l)).collect();
        let forward = fit.function.log_odds(&case.items, &case.queries.0, Some(&case.queries.1)).unwrap();
        let backward = fit.function.log_odds(&case.items, &back, Some(&case.queries.1)).unwrap();
        assert!(forward.iter().zip(&backward).all(|(a, b)| (a + 0.0).to_bits() == (-b + 0.0).to_bits()));
    }
}

/// With few landmarks the prior is that of Nyström features, the same as dense linear kernels of these
/// features.
#[test]
fn landmarks_of_contexts_are_nystroms_prior() {
    let case = meetings((2.0, 1.5), true, true);
    let settings = LandmarkProcess {
        landmarks: 6,
        context_landmarks: 3,
        draws: 0,
        tolerance: 1e-11,
        ..LandmarkProcess::new(case.process.clone())
    };
    let fit = settings.fit(&case.items, &case.duels(&case.contexts)).unwrap();
    assert!(fit.unknown_contexts > 0.1 && fit.warnings[0].contains("3 landmarks of 6 contexts"));
    let (z, u) = (fit.function.landmarks(), fit.function.context_landmarks().unwrap());
    assert!(z.rows() == 6 && u.rows() == 3);
    let (prior, between) = (&fit.function.prior, fit.function.prior.contexts.as_ref().unwrap());
    let context_kernel =
        |a: &[f64], b: &[f64]| between.shared + (1.0 - between.shared) * between.kernel.eval(a, b);
    // Features of items, and the original home and id columns.
    let mut columns: Vec<Column> = (0..6).map(|j| Column::numeric(format!("f{j}"))).collect();
    columns.extend(case.items.columns()[2..].iter().cloned());
    let mut values = roots(&|a, b| prior.items.eval(a, b), z, &case.items);
    values.extend((2..4).map(|j| case.items.column(j).to_vec()));
    let features = Table::from_column_major(columns, case.items.rows(), values.concat()).unwrap();
    let of_contexts = |rows: &Table| {
        let columns = (0..3).map(|j| Column::numeric(format!("p{j}"))).collect();
        Table::from_column_major(columns, rows.rows(), roots(&context_kernel, u, rows).concat()).unwrap()
    };
    let mut process = case.process.clone();
    process.prior.items = linear(6);
    process.prior.extra_utility_kernel = case
        .process
        .prior
        .extra_utility_kernel
        .as_ref()
        .map(|utility_kernel| utility_kernel.shift_columns(4));
    process.prior.contexts = Some(ContextKernel { kernel: linear(3), shared: 0.0 });
    let duels = case.duels(&of_contexts(&case.contexts));
    check_against_dense(&fit, &case, (&process, &duels), [&features, &of_contexts(&case.queries.1)], false);
}

#[test]
fn meetings_are_tuned_on_some_duels() {
    let case = meetings((2.0, 1.5), true, true);
    let mut settings = LandmarkProcess { draws: 2, ..LandmarkProcess::new(case.process.clone()) };
    (settings.process.tune, settings.tuning_pairs) = (true, 40);
    let duels = case.duels(&case.contexts);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| settings.fit(&case.items, &duels)).unwrap()
    };
    let fit = with(1);
    let tuned = settings.process.fit(&case.items, &duels.sample(40, 0)).unwrap();
    assert_eq!((&fit.function.prior, fit.function.margin), (&tuned.prior, tuned.margin));
    assert!(fit.function.margin != Some(0.35) && fit.function.prior.contexts.as_ref().unwrap().shared != 0.4);
    let again = with(2);
    let moments = |fit: &LandmarkFit| {
        fit.function.moments(&case.items, &case.queries.0, Some(&case.queries.1)).unwrap()
    };
    assert!(fit.model == again.model && moments(&fit) == moments(&again));

    let message = |fit: riesz::Result<LandmarkFit>| fit.unwrap_err().to_string();
    let no_context_error = fit.function.log_odds(&case.items, &case.queries.0, None).unwrap_err().to_string();
    assert!(no_context_error.contains("give the contexts"), "{no_context_error}");
    let too_few = case.queries.1.select_rows(&[0]);
    assert!(fit.function.log_odds(&case.items, &case.queries.0, Some(&too_few)).is_err());
    settings.context_landmarks = 0;
    assert!(message(settings.fit(&case.items, &duels)).contains("context_landmarks = 0"));
    settings.context_landmarks = 1;
    settings.draws = 1 << 50;
    assert!(message(settings.fit(&case.items, &duels)).contains("draws"));
    let mut state = fit.function.state();
    state.curve.pop();
    assert!(LandmarkFunction::from_state(fit.function.prior.clone(), None, state).is_err());
    let mut state = fit.function.state();
    state.rows[0] = 99;
    assert!(LandmarkFunction::from_state(fit.function.prior.clone(), None, state).is_err());
    // A further utility of the items' own columns does not allow points that represent it alone.
    let mut process = case.process.clone();
    process.prior.extra_utility_kernel = Some(Kernel::gaussian(&[0.4, 0.7]));
    let fit = LandmarkProcess { tolerance: 1e-11, ..LandmarkProcess::new(process.clone()) };
    let fit = LandmarkProcess { landmarks: 99, draws: 0, ..fit }.fit(&case.items, &duels).unwrap();
    assert!(fit.model.unwrap_err().contains("further utilities"));
    let dense = process.fit(&case.items, &duels).unwrap();
    let rows = wide_rows_in(&case.items, &case.queries.0, Some(&case.queries.1)).unwrap();
    let truth = dense.model.predict(&rows).unwrap();
    let log_odds = fit.function.log_odds(&case.items, &case.queries.0, Some(&case.queries.1)).unwrap();
    assert!(log_odds.iter().enumerate().all(|(i, g)| (g - truth[(i, 0)]).abs() < 1e-7));
}

/// Items without duels do not change dense fits, and matrices that exceed the memory are refused in advance.
#[test]
fn dense_fits_ignore_items_without_duels() {
    let (items, base_duels) = (Stream(8).normals(30, 2), duels(12, 40, 4));
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.8, 1.1]));
    let (left, right): (Vec<usize>, Vec<usize>) =
        base_duels.pairs().iter().map(|&(l, r)| (2 * l + 3, 2 * r + 3)).unzip();
    let duels_of = |items: usize, left: &[usize], right: &[usize]| {
        Duels::new(items, left, right, base_duels.outcome(), Some(base_duels.weight())).unwrap()
    };
    let full_fit = process.fit(&items, &duels_of(30, &left, &right)).unwrap();
    let met_items: Vec<usize> = (0..12).map(|i| 2 * i + 3).collect();
    let (l, r): (Vec<usize>, Vec<usize>) = base_duels.pairs().iter().copied().unzip();
    let subset_fit = process.fit(&items.select_rows(&met_items), &duels_of(12, &l, &r)).unwrap();
    assert!(
        full_fit.model == subset_fit.model
            && full_fit.log_marginal_likelihood == subset_fit.log_marginal_likelihood
    );
    let (left, right): (Vec<usize>, Vec<usize>) = (0..1000).flat_map(|i| (0..i).map(move |j| (i, j))).unzip();
    let many_duels = Duels::new(1000, &left, &right, &vec![1.0; left.len()], None).unwrap();
    process.tune = false;
    let message = process.fit(&Stream(8).normals(1000, 2), &many_duels).unwrap_err().to_string();
    assert!(message.contains("pairs that met = 499500") && message.contains("landmarks"), "{message}");
}
