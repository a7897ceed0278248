//! Preferences between bags of items through landmarks of items, against dense processes of bags, with and
//! without the approximation of the kernel, and against landmark fits of items.

use std::sync::atomic::AtomicBool;

use riesz::format::model::{self, SavedModel};
use riesz::kernel::Categorical;
use riesz::preference::{
    ContextKernel, DuelLogOdds, Duels, Inference, ItemBags, LandmarkFit, LandmarkFunction, LandmarkProcess,
    Pair, PreferenceFit, PreferenceProcess,
};
use riesz::table::{Column, ColumnKind};
use riesz::{AggregatePrediction, Kernel, Matrix, Table};

use crate::common::Stream;
use crate::preference_landmarks::{linear, roots};

const ITEMS: usize = 16;
const BAGS: usize = 10;

/// Items with four columns, bags with unequal shares, duels between the bags, and queries. The last bag and
/// the last two items, which are in this bag alone, have no duels.
struct Case {
    items: Table,
    bags: ItemBags,
    duels: Duels,
    queries: Vec<Pair>,
    query_contexts: Option<Table>,
    process: PreferenceProcess,
}

fn categorical(name: &str, levels: &[&str]) -> Column {
    let kind = ColumnKind::Categorical { levels: levels.iter().map(ToString::to_string).collect() };
    Column { name: name.into(), kind }
}

/// Creates a case with these variances of the utility and the generalised part.
fn case((utility, generalised): (f64, f64), further: bool, contexts: bool, ties: bool) -> Case {
    let mut s = Stream(17);
    let columns =
        ["x", "y", "z"].map(Column::numeric).into_iter().chain([categorical("kind", &["a", "b", "c"])]);
    let mut values = s.normals(ITEMS, 3).column_major().to_vec();
    values.extend((0..ITEMS).map(|i| (i * i % 3) as f64));
    let items = Table::from_column_major(columns.collect(), ITEMS, values).unwrap();
    // Bags of one to four items that share members; the last item of a bag has the largest share.
    let (mut bag, mut item, mut weight) = (vec![], vec![], vec![]);
    for b in 0..BAGS - 1 {
        for k in 0..1 + b % 4 {
            bag.push(b);
            item.push((3 * b + 2 * k) % (ITEMS - 2));
            weight.push(1.0 + k as f64);
        }
    }
    bag.extend([BAGS - 1; 2]);
    item.extend([ITEMS - 2, ITEMS - 1]);
    weight.extend([1.0, 1.0]);
    let bags = ItemBags::new(ITEMS, BAGS, &bag, &item, Some(&weight)).unwrap();

    let (mut left, mut right, mut won, mut duel_weight, mut cells) = (vec![], vec![], vec![], vec![], vec![]);
    while left.len() < 110 {
        let [l, r] = [0; 2].map(|_| (s.uniform() * (BAGS - 1) as f64) as usize);
        if l != r {
            left.push(l);
            right.push(r);
            cells.push([(3.0 * s.uniform()).floor(), (2.0 * s.uniform()).floor()]);
            let probability = 1.0 / (1.0 + (0.3 * (l as f64 - r as f64)).exp());
            won.push(if s.uniform() < 0.2 { 0.5 } else { f64::from(u8::from(s.uniform() < probability)) });
            duel_weight.push(0.5 + s.uniform());
        }
    }
    let table = |cells: &[[f64; 2]]| {
        let values = [0, 1].map(|j| cells.iter().map(|cell| cell[j]).collect::<Vec<f64>>()).concat();
        let columns = vec![Column::numeric("heat"), categorical("ground", &["clay", "grass"])];
        Table::from_column_major(columns, cells.len(), values).unwrap()
    };
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.8, 1.1]));
    process.tune = false;
    (process.prior.utility_variance, process.prior.generalised_variance) = (utility, generalised);
    if further {
        // Levels, whose features of bags are fractions, and a utility with landmarks of its own.
        let levels = Kernel::from(Categorical { columns: [3], similarity: 0.0 });
        process.prior.extra_utility_kernel = Some(0.7 * levels + 0.5 * linear(1).shift_columns(2));
    }
    let weights = Some(&duel_weight[..]);
    let duels = if contexts {
        let kernel = Kernel::gaussian(&[1.3]) * Kernel::from(Categorical { columns: [1], similarity: 0.3 });
        process.prior.contexts = Some(ContextKernel { kernel, shared: 0.4 });
        Duels::in_contexts(BAGS, &left, &right, &won, weights, &table(&cells)).unwrap()
    } else {
        Duels::new(BAGS, &left, &right, &won, weights).unwrap()
    };
    process.margin = ties.then_some(0.35);
    // Each bag against two others, among them the bag without duels.
    let queries: Vec<Pair> = (0..2 * BAGS).map(|i| (i % BAGS, (i % BAGS + 1 + i / 4) % BAGS)).collect();
    let cells: Vec<[f64; 2]> = (0..queries.len()).map(|i| [(i % 4) as f64, (i % 2) as f64]).collect();
    let query_contexts = contexts.then(|| table(&cells));
    Case { items, bags, duels, queries, query_contexts, process }
}

impl Case {
    fn settings(&self, landmarks: usize, draws: usize) -> LandmarkProcess {
        let process = LandmarkProcess::new(self.process.clone());
        LandmarkProcess { landmarks, draws, tolerance: 1e-12, ..process }
    }

    fn fit(&self, landmarks: usize, draws: usize) -> LandmarkFit {
        self.settings(landmarks, draws).fit_bags(&self.items, &self.bags, &self.duels).unwrap()
    }

    /// Returns the mean, the variance and the probabilities of the queries under a dense fit.
    fn dense(&self, fit: &PreferenceFit, items: &Table) -> AggregatePrediction {
        let (rows, sums) = self.bags.duels(items, &self.queries, self.query_contexts.as_ref()).unwrap();
        AggregatePrediction::new(&fit.model, &fit.covariance, &rows, &sums).unwrap()
    }

    fn log_odds(&self, function: &LandmarkFunction) -> Vec<f64> {
        function.log_odds((&self.items, &self.bags), &self.queries, self.query_contexts.as_ref()).unwrap()
    }

    fn moments(&self, function: &LandmarkFunction) -> (Vec<f64>, Vec<f64>) {
        function.moments((&self.items, &self.bags), &self.queries, self.query_contexts.as_ref()).unwrap()
    }

    fn exact_moments(&self, function: &LandmarkFunction) -> (Vec<f64>, Vec<f64>) {
        let competitors = (&self.items, &self.bags);
        let stop = AtomicBool::new(false);
        function.exact_moments(competitors, &self.queries, self.query_contexts.as_ref(), &stop).unwrap()
    }

    /// Returns the prior variances of queries without contexts: the covariance of two duels is that of their
    /// wide rows minus that with the sides of one of them swapped.
    fn prior_variances(&self, process: &PreferenceProcess, items: &Table) -> Vec<f64> {
        let width = items.width();
        let (rows, sums) = self.bags.duels(items, &self.queries, None).unwrap();
        let swapped = |i: usize| [&rows.row(i)[width..], &rows.row(i)[..width]].concat();
        let swapped: Vec<Vec<f64>> = (0..rows.rows()).map(swapped).collect();
        let swapped = Table::from_named_rows(rows.columns().to_vec(), &swapped).unwrap();
        let kernel = process.prior.wide_row_kernel(width);
        let of_bags = |m: Matrix| sums.transpose_times(&sums.transpose_times(&m).transpose());
        let (straight, across) = (of_bags(kernel.gram(&rows)), of_bags(kernel.cross_gram(&rows, &swapped)));
        (0..self.queries.len()).map(|i| straight[(i, i)] - across[(i, i)]).collect()
    }

    /// Returns the log odds of the queries under an expansion over pairs of items.
    fn expanded(&self, model: &riesz::KernelExpansion) -> Vec<f64> {
        let (rows, sums) = self.bags.duels(&self.items, &self.queries, self.query_contexts.as_ref()).unwrap();
        DuelLogOdds::of_sums(model, None, &rows, &sums).unwrap().mean
    }
}

fn check_close(actual: &[f64], expected: &[f64], tolerance: f64, quantity: &str) {
    assert_eq!(actual.len(), expected.len());
    let largest = expected.iter().fold(1e-3_f64, |a, v| a.max(v.abs()));
    let apart = actual.iter().zip(expected).map(|(a, e)| (a - e).abs()).fold(0.0, f64::max) / largest;
    println!("{quantity}: {apart:.1e}");
    assert!(apart < tolerance, "{quantity}: {apart:e}\n{actual:?}\n{expected:?}");
}

/// The variances of the parts, and whether there are further utilities, contexts, and a margin of ties.
const CASES: [((f64, f64), bool, bool, bool); 6] = [
    ((2.0, 1.5), false, false, false),
    ((2.0, 0.0), false, false, false),
    ((0.0, 1.5), false, true, false),
    ((2.0, 1.5), true, false, true),
    ((2.0, 1.5), true, true, true),
    ((0.0, 0.0), true, true, false),
];

#[test]
fn all_items_as_landmarks_match_the_process_of_bags() {
    for (shares, further, contexts, ties) in CASES {
        let case = case(shares, further, contexts, ties);
        let fit = case.fit(99, 0);
        assert!(fit.unknown < 1e-7 && fit.unknown_contexts < 1e-7 && fit.warnings.is_empty());
        let dense = case.process.fit_bags(&case.items, &case.bags, &case.duels).unwrap();
        let truth = case.dense(&dense, &case.items);
        let (mean, sd) = case.exact_moments(&fit.function);
        check_close(&mean, truth.outputs.data(), 1e-6, "mode");
        let expected: Vec<f64> = truth.variance.data().iter().map(|v| v.sqrt()).collect();
        check_close(&sd, &expected, 1e-6, "standard deviations");
        check_close(&case.expanded(fit.model.as_ref().unwrap()), truth.outputs.data(), 1e-6, "expansion");
        // Skew-symmetric to the bit, and 0 for a bag against itself.
        let mut swapped = case;
        swapped.queries.iter_mut().for_each(|(l, r)| (*l, *r) = (*r, *l));
        let back = swapped.log_odds(&fit.function);
        assert!(mean.iter().zip(&back).all(|(a, b)| (a + 0.0).to_bits() == (-b + 0.0).to_bits()));
        swapped.queries = vec![(4, 4); swapped.queries.len()];
        let (mean, sd) = swapped.exact_moments(&fit.function);
        assert!(mean.iter().chain(&sd).all(|v| v.abs() < 1e-7), "{mean:?} {sd:?}");
    }
}

/// Standard deviations and probabilities from draws are within their standard errors.
#[test]
fn draws_of_bags_are_from_the_posterior() {
    for (shares, further, contexts, ties) in [CASES[0], CASES[4]] {
        let case = case(shares, further, contexts, ties);
        let fit = case.fit(99, 400);
        let dense = case.process.fit_bags(&case.items, &case.bags, &case.duels).unwrap();
        let truth = case.dense(&dense, &case.items);
        let (mean, sd) = case.moments(&fit.function);
        check_close(&mean, truth.outputs.data(), 1e-6, "mode");
        let apart = |(sd, v): (&f64, &f64)| (sd * sd / v - 1.0) * 200.0_f64.sqrt();
        let apart: Vec<f64> = sd.iter().zip(truth.variance.data()).map(apart).collect();
        assert!(apart.iter().all(|z| z.abs() < 4.0), "{apart:?}");
        assert!(apart.iter().map(|z| z * z).sum::<f64>() / (apart.len() as f64) < 3.0, "{apart:?}");
        let contexts = case.query_contexts.as_ref();
        let actual = fit.function.probabilities((&case.items, &case.bags), &case.queries, contexts).unwrap();
        let expected = truth.probabilities.unwrap();
        assert_eq!(actual.cols(), expected.cols());
        assert!(actual.data().iter().zip(expected.data()).all(|(a, e)| (a - e).abs() < 0.03));
    }
}

/// With few landmarks the model is the dense process of bags with the approximate kernel of items, and the
/// expansion over pairs of landmarks is the same function.
#[test]
fn few_landmarks_are_the_process_of_bags_with_nystroms_kernel() {
    for shares in [(2.0, 1.5), (2.0, 0.0), (0.0, 1.5)] {
        let case = case(shares, false, false, false);
        let fit = case.fit(6, 0);
        let (prior, z) = (&fit.function.prior, fit.function.landmarks());
        assert!(z.rows() == 6 && fit.unknown > 1e-3);
        let columns = (0..6).map(|j| Column::numeric(format!("f{j}"))).collect();
        let features = roots(&|a, b| prior.items.eval(a, b), z, &case.items).concat();
        let features = Table::from_column_major(columns, ITEMS, features).unwrap();
        let mut process = case.process.clone();
        process.prior.items = linear(6);
        let dense = process.fit_bags(&features, &case.bags, &case.duels).unwrap();
        let truth = case.dense(&dense, &features);
        let (mean, sd) = case.exact_moments(&fit.function);
        check_close(&mean, truth.outputs.data(), 1e-8, "mode");
        check_close(&case.expanded(fit.model.as_ref().unwrap()), &mean, 1e-9, "expansion");
        // What landmarks do not explain keeps its prior variance.
        let full = case.prior_variances(&case.process, &case.items);
        let explained = case.prior_variances(&process, &features);
        let sd_of = |i: usize| (truth.variance.data()[i] + full[i] - explained[i]).sqrt();
        let expected: Vec<f64> = (0..case.queries.len()).map(sd_of).collect();
        check_close(&sd, &expected, 1e-6, "standard deviations");
    }
    // Further utilities, contexts and their landmarks.
    for (shares, further, contexts, ties) in CASES {
        let case = case(shares, further, contexts, ties);
        let settings = LandmarkProcess { context_landmarks: 3, ..case.settings(6, 0) };
        let fit = settings.fit_bags(&case.items, &case.bags, &case.duels).unwrap();
        let expanded = case.expanded(fit.model.as_ref().unwrap());
        check_close(&expanded, &case.log_odds(&fit.function), 1e-9, "expansion");
    }
}

/// Log odds of bags are means over pairs of their members.
#[test]
fn a_function_of_bags_predicts_items() {
    for (shares, further, contexts, ties) in CASES {
        let case = case(shares, further, contexts, ties);
        let fit = case.fit(8, 0);
        let mean = |i: usize| -> f64 {
            let (l, r) = case.queries[i];
            let members = case.bags.members(l).flat_map(|(a, m)| {
                case.bags.members(r).map(move |(b, q)| (m * q, (a, b))).collect::<Vec<(f64, Pair)>>()
            });
            let (weights, pairs): (Vec<f64>, Vec<Pair>) = members.unzip();
            let contexts = case.query_contexts.as_ref().map(|c| c.select_rows(&vec![i; pairs.len()]));
            let of_items = fit.function.log_odds(&case.items, &pairs, contexts.as_ref()).unwrap();
            weights.iter().zip(of_items).map(|(w, g)| w * g).sum()
        };
        let means: Vec<f64> = (0..case.queries.len()).map(mean).collect();
        check_close(&case.log_odds(&fit.function), &means, 1e-12, "means over members");
    }
}

#[test]
fn bags_of_single_items_are_items() {
    for (shares, further, contexts, ties) in CASES {
        let mut case = case(shares, further, contexts, ties);
        // The bags are the first items, in another order.
        let item: Vec<usize> = (0..BAGS).map(|b| (7 * b + 3) % BAGS).collect();
        let numbers: Vec<usize> = (0..BAGS).collect();
        case.items = case.items.select_rows(&numbers);
        case.bags = ItemBags::new(BAGS, BAGS, &numbers, &item, Some(&[2.0; BAGS])).unwrap();
        let items_in_order = case.items.select_rows(&item);
        let contexts = case.query_contexts.as_ref();
        let identity = ItemBags::new(BAGS, BAGS, &numbers, &numbers, None).unwrap();
        let settings = case.settings(7, 40);
        let of_bags = settings.fit_bags(&items_in_order, &identity, &case.duels).unwrap();
        let of_items = settings.fit(&items_in_order, &case.duels).unwrap();
        let query =
            |fit: &LandmarkFit| fit.function.moments(&items_in_order, &case.queries, contexts).unwrap();
        let (mean, sd) = query(&of_items);
        let of_bag_pairs =
            of_bags.function.moments((&items_in_order, &identity), &case.queries, contexts).unwrap();
        for (actual_mean, actual_sd) in [query(&of_bags), of_bag_pairs] {
            check_close(&actual_mean, &mean, 1e-10, "mode of single items");
            check_close(&actual_sd, &sd, 1e-10, "standard deviations of single items");
        }
        // In another order of the items other landmarks are drawn, so all are taken.
        let unlimited = case.settings(99, 0);
        let of_bags = unlimited.fit_bags(&case.items, &case.bags, &case.duels).unwrap();
        let of_items = unlimited.fit(&items_in_order, &case.duels).unwrap();
        let (mean, sd) = case.exact_moments(&of_bags.function);
        let stop = AtomicBool::new(false);
        let expected =
            of_items.function.exact_moments(&items_in_order, &case.queries, contexts, &stop).unwrap();
        check_close(&mean, &expected.0, 1e-8, "mode in another order");
        check_close(&sd, &expected.1, 1e-6, "standard deviations in another order");
    }
}

#[test]
fn functions_of_bags_are_saved() {
    for (shares, further, contexts, ties) in CASES {
        let case = case(shares, further, contexts, ties);
        let fit = case.fit(8, 3);
        let state = fit.function.state();
        assert_eq!(state.bags.as_ref(), Some(&case.bags));
        let restored =
            LandmarkFunction::from_state(fit.function.prior.clone(), fit.function.margin, state).unwrap();
        assert_eq!(case.exact_moments(&restored), case.exact_moments(&fit.function));
        assert_eq!(case.moments(&restored), case.moments(&fit.function));
        let model = fit.model.unwrap();
        let expected = case.expanded(&model);
        let bytes = model::to_bytes(&SavedModel { model, covariance: None, groups: None }).unwrap();
        assert_eq!(case.expanded(&model::from_bytes(&bytes).unwrap().model), expected);
    }
}

/// Hyper-parameters are those of the dense process of a sample of the duels, without the bags and items that
/// the sample does not contain.
#[test]
fn bags_are_tuned_on_some_duels() {
    let mut case = case((2.0, 1.5), true, true, true);
    case.process.tune = true;
    let settings = LandmarkProcess { tuning_pairs: 30, ..case.settings(8, 0) };
    let fit = settings.fit_bags(&case.items, &case.bags, &case.duels).unwrap();
    let tuned = case.process.fit_bags(&case.items, &case.bags, &case.duels.sample(30, 0)).unwrap();
    assert_eq!((&fit.function.prior, fit.function.margin), (&tuned.prior, tuned.margin));
    assert_eq!(fit.log_marginal_likelihood, Some(tuned.log_marginal_likelihood));
    assert!(fit.function.margin != Some(0.35));
}

/// Bags without duels, and items in no other bags, do not change dense fits.
#[test]
fn dense_fits_ignore_bags_without_duels() {
    let case = case((2.0, 1.5), true, false, false);
    let with_unused = case.process.fit_bags(&case.items, &case.bags, &case.duels).unwrap();
    let (mut bag, mut item, mut weight) = (vec![], vec![], vec![]);
    for b in 0..BAGS - 1 {
        for (a, share) in case.bags.members(b) {
            bag.push(b);
            item.push(a);
            weight.push(share);
        }
    }
    let items = case.items.select_rows(&(0..ITEMS - 2).collect::<Vec<_>>());
    let bags = ItemBags::new(ITEMS - 2, BAGS - 1, &bag, &item, Some(&weight)).unwrap();
    let (left, right): (Vec<usize>, Vec<usize>) = case.duels.pairs().iter().copied().unzip();
    let (outcome, weight) = (case.duels.outcome(), case.duels.weight());
    let duels = Duels::new(BAGS - 1, &left, &right, outcome, Some(weight)).unwrap();
    let without_unused = case.process.fit_bags(&items, &bags, &duels).unwrap();
    assert_eq!(with_unused.model.support_points, without_unused.model.support_points);
    check_close(with_unused.model.coef.data(), without_unused.model.coef.data(), 1e-9, "coefficients");
}

#[test]
fn invalid_bags_are_refused() {
    let case = case((2.0, 1.5), false, false, false);
    let fit = case.fit(8, 0);
    let competitors = (&case.items, &case.bags);
    let message = |pairs: &[Pair]| fit.function.log_odds(competitors, pairs, None).unwrap_err().to_string();
    assert!(message(&[(0, 1), (0, BAGS)]).contains("there are 10 bags"), "{}", message(&[(0, BAGS)]));
    let error = fit.function.log_odds(&case.items, &[(ITEMS, 0)], None).unwrap_err().to_string();
    assert!(error.contains("there are 16 items"), "{error}");
    let fewer = case.items.select_rows(&[0, 1]);
    let error = fit.function.log_odds((&fewer, &case.bags), &[(0, 1)], None).unwrap_err().to_string();
    assert!(error.contains("one per item of the bags"), "{error}");
    assert!(
        fit.function.moments(competitors, &[(0, 1)], None).unwrap_err().to_string().contains("n_samples")
    );
    let refused = |settings: LandmarkProcess, items: &Table, bags: &ItemBags| {
        settings.fit_bags(items, bags, &case.duels).unwrap_err().to_string()
    };
    let error = refused(case.settings(8, 0), &fewer, &case.bags);
    assert!(error.contains("one per item of the bags"), "{error}");
    let single = ItemBags::new(ITEMS, 1, &[0], &[0], None).unwrap();
    let error = refused(case.settings(8, 0), &case.items, &single);
    assert!(error.contains("one per bag of the duels"), "{error}");
    let mut bound = case.settings(8, 0);
    bound.process.inference = Inference::JaakkolaBound;
    let error = refused(bound, &case.items, &case.bags);
    assert!(error.contains("landmarks need Laplace's approximation"), "{error}");
    let mut state = fit.function.state();
    state.pairs[0].1 = BAGS;
    let error = LandmarkFunction::from_state(fit.function.prior.clone(), None, state).unwrap_err();
    assert!(error.to_string().contains("there are 10 bags"), "{error}");
}
