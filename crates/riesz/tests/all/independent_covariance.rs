//! Covariances of values of independent parts, and of duels, against sums of values of f over all coalitions
//! and all combinations of the parts' rows, and against draws.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use riesz::embedding::{Conditioning, ConditioningKernel};
use riesz::explanation::{Explanation, UncertaintySource};
use riesz::fit::GaussianProcess;
use riesz::kernel::{Linear, Profile};
use riesz::linalg::{Cholesky, Sparse};
use riesz::posterior::{Functionals, PosteriorCovariance, Refitted, VarianceReduction};
use riesz::preference::{
    ContextKernel, DuelGame, DuelQuestion, Duels, Pair, PreferenceFit, PreferenceProcess, explain, wide_rows,
    wide_rows_in,
};
use riesz::{
    Background, Column, Explainer, Game, Kernel, KernelExpansion, Matrix, Players, Posterior, Progress,
    Question, Table, ValueIndex,
};

use crate::common::{Stream, stationary, with_threads};
use crate::observational::solve;

const RIDGE: f64 = 0.05;

fn close(a: &[f64], b: &[f64], what: &str) {
    assert_eq!(a.len(), b.len());
    let size = b.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    assert!(size > 1e-6, "{what}: nothing to compare");
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() < 1e-9 * size, "{what}: {a} {b}");
    }
}

/// What a coalition's worth counts in the value of player j.
fn share(index: ValueIndex, mask: usize, j: usize, p: usize) -> f64 {
    let others = (mask & !(1 << j)).count_ones() as usize;
    let weight = match index {
        ValueIndex::Banzhaf { chance } => {
            chance.powi(others as i32) * (1.0 - chance).powi((p - 1 - others) as i32)
        }
        _ => {
            let factorial = |k: usize| (1..=k).map(|i| i as f64).product::<f64>();
            factorial(others) * factorial(p - 1 - others) / factorial(p)
        }
    };
    if mask >> j & 1 == 1 { weight } else { -weight }
}

/// A part's columns and its rows, in their order, with weights.
#[derive(Clone)]
struct Part {
    columns: Vec<usize>,
    rows: Vec<Vec<f64>>,
    weights: Vec<f64>,
}

impl Part {
    fn new(columns: &[usize], rows: &Table, weights: Option<&[f64]>) -> Self {
        let raw = weights.map_or(vec![1.0; rows.rows()], <[f64]>::to_vec);
        let total: f64 = raw.iter().sum();
        let rows = (0..rows.rows()).map(|b| rows.row(b)).collect();
        Self { columns: columns.to_vec(), rows, weights: raw.iter().map(|w| w / total).collect() }
    }

    fn background(&self, model: &KernelExpansion) -> Background {
        let names = self.columns.iter().map(|&j| model.columns()[j].clone()).collect();
        let values = (0..self.columns.len()).flat_map(|k| self.rows.iter().map(move |row| row[k])).collect();
        let rows = Table::from_column_major(names, self.rows.len(), values).unwrap();
        Background { rows, weights: Some(self.weights.clone()) }
    }

    /// The part's columns and weights given the marked ones.
    fn given(&self, x: &[f64], here: &[bool], conditional: Option<&Conditional>) -> Vec<(Vec<f64>, f64)> {
        let n = self.rows.len();
        if here.iter().all(|on| *on) {
            return vec![(x.to_vec(), 1.0)];
        }
        let mut weights = self.weights.clone();
        if let (Some(Conditional { scales, centred }), true) = (conditional, here.contains(&true)) {
            let scales = &scales[..here.len()];
            let k = |u: &[f64], v: &[f64]| {
                let apart = (0..here.len()).filter(|&j| here[j]).map(|j| (u[j] - v[j]).abs() / scales[j]);
                (-apart.sum::<f64>()).exp()
            };
            let system = (0..n).map(|b| {
                let mut row: Vec<f64> = self.rows.iter().map(|c| k(&self.rows[b], c)).collect();
                row[b] += RIDGE / self.weights[b];
                row
            });
            weights = solve(system.collect(), self.rows.iter().map(|c| k(c, x)).collect());
            let missing = 1.0 - weights.iter().sum::<f64>();
            if *centred {
                weights.iter_mut().zip(&self.weights).for_each(|(w, own)| *w += missing * own);
            }
        }
        let mix = |row: &Vec<f64>| (0..x.len()).map(|k| if here[k] { x[k] } else { row[k] }).collect();
        self.rows.iter().map(mix).zip(weights).collect()
    }
}

/// Exponential kernels of columns by place in their part, and whether weights are centred.
struct Conditional {
    scales: Vec<f64>,
    centred: bool,
}

impl Conditional {
    fn settings(&self) -> Conditioning {
        let kernels = self.scales.iter().enumerate().map(|(j, &l)| stationary(Profile::Exponential, j, l));
        let mut settings = Conditioning::with_ridge(RIDGE);
        settings.kernel = ConditioningKernel::Given(kernels.reduce(|a, b| a * b).unwrap());
        settings.centred = self.centred;
        settings
    }
}

/// A game by its definition.
struct Truth<'a> {
    parts: &'a [Part],
    players: &'a [Vec<usize>],
    conditional: Option<&'a Conditional>,
    index: ValueIndex,
}

/// Of Shapley values.
fn truth<'a>(
    parts: &'a [Part],
    players: &'a [Vec<usize>],
    conditional: Option<&'a Conditional>,
) -> Truth<'a> {
    Truth { parts, players, conditional, index: ValueIndex::Shapley }
}

impl Truth<'_> {
    /// Every value as a sum of values of f at all combinations of rows; parts that are not read are not
    /// mixed.
    fn sums(&self, columns: &[Column], rows: &Table, read: &dyn Fn(usize) -> bool) -> (Table, Sparse) {
        let p = self.players.len();
        let (mut at, mut weights): (Vec<Vec<f64>>, _) = (Vec::new(), vec![Vec::new(); rows.rows() * p]);
        for (r, mask) in (0..rows.rows()).flat_map(|r| (0..1_usize << p).map(move |mask| (r, mask))) {
            let mut all = vec![(rows.row(r), 1.0)];
            for (number, part) in self.parts.iter().enumerate() {
                let x: Vec<f64> = part.columns.iter().map(|&j| rows.get(r, j)).collect();
                let owner = |j: &usize| self.players.iter().position(|own| own.contains(j)).unwrap();
                let here: Vec<bool> =
                    part.columns.iter().map(|j| !read(number) || mask >> owner(j) & 1 == 1).collect();
                let own = part.given(&x, &here, self.conditional);
                let mix = |(row, weight): &(Vec<f64>, f64)| -> Vec<(Vec<f64>, f64)> {
                    let mixed = own.iter().map(|(values, more)| {
                        let mut row = row.clone();
                        part.columns.iter().zip(values).for_each(|(&j, v)| row[j] = *v);
                        (row, weight * more)
                    });
                    mixed.collect()
                };
                all = all.iter().flat_map(mix).collect();
            }
            for (row, weight) in all {
                for j in 0..p {
                    weights[r * p + j].push((at.len(), share(self.index, mask, j, p) * weight));
                }
                at.push(row);
            }
        }
        let values = (0..columns.len()).flat_map(|j| at.iter().map(move |row| row[j])).collect();
        let table = Table::from_column_major(columns.to_vec(), at.len(), values).unwrap();
        (table, Sparse::from_columns(at.len(), weights).unwrap())
    }

    fn of(&self, posterior: &Posterior<'_>, rows: &Table) -> Functionals {
        let (table, weights) = self.sums(posterior.mean().columns(), rows, &|_| true);
        posterior.weighted_sum_functionals(&table, &weights).unwrap()
    }
}

/// Of the row r and output o: what is found is what the functionals say.
fn same(found: &Explanation, truth: &Functionals, posterior: &Posterior<'_>, what: &str) {
    found.validate().unwrap();
    assert_eq!(found.uncertainty.as_ref().unwrap().source, Some(UncertaintySource::Posterior));
    let (p, joint) = (found.sets(), posterior.covariance(truth));
    for (o, joint) in joint.iter().enumerate() {
        for r in 0..found.rows() {
            let own: Vec<f64> = (0..p * p).map(|at| joint[(r * p + at / p, r * p + at % p)]).collect();
            close(found.covariance(r, o).unwrap(), &own, what);
        }
    }
}

/// Kernels of one product and of several, of parts and of both; weights, groups within and across parts,
/// columns that are always present, two outputs.
#[test]
fn covariances_are_those_of_all_combinations_of_rows() {
    let mut s = Stream(61);
    let one = |profile, j| stationary(profile, j, 1.3);
    let all = one(Profile::Gaussian, 0)
        * one(Profile::Matern32, 1)
        * one(Profile::Gaussian, 2)
        * one(Profile::Exponential, 3);
    let linear = Kernel::from(Linear { columns: vec![0, 1], center: vec![0.3, 0.1], scale: vec![1.0, 0.7] });
    let several = all.clone()
        + 0.5 * (linear * one(Profile::Gaussian, 2))
        + 0.3 * one(Profile::Gaussian, 1)
        + 0.2 * Kernel::constant(1.0);
    for (name, kernel) in [("one", all), ("several", several)] {
        let (x, rows) = (s.normals(20, 4), s.normals(2, 4));
        let y = Matrix::from_row_major(20, 2, (0..40).map(|_| s.signed()).collect());
        let fit = GaussianProcess::new(kernel, 0.3).fit(&x, &y).unwrap();
        let posterior = fit.posterior();
        let first = Part::new(&[0, 1], &s.normals(4, 2), Some(&[0.5, 1.5, 1.0, 0.8]));
        let second = Part::new(&[2, 3], &s.normals(3, 2), None);
        let alone = Part { columns: vec![2], ..Part::new(&[2], &s.normals(3, 1), Some(&[1.0, 2.0, 0.5])) };
        let names: Vec<String> = x.columns().iter().map(|c| c.name.clone()).collect();
        let pair = |a: usize, b: usize| {
            let own = vec![names[a].clone(), names[b].clone()];
            Players::named(x.columns(), &[("both".to_string(), own)]).unwrap()
        };
        let given = |centred| Some(Conditional { scales: vec![1.7, 0.9], centred });
        let cases = [
            (vec![first.clone(), second.clone()], Players::singletons(x.columns())),
            (vec![first.clone(), second.clone()], pair(0, 2)),
            (vec![first.clone(), second.clone()], pair(2, 3)),
            (vec![first.clone(), alone], Players::singletons(x.columns())),
        ];
        for (case, (parts, groups)) in cases.iter().enumerate() {
            let players: Vec<Vec<usize>> = groups.players().iter().map(|p| p.columns.clone()).collect();
            let p = players.len();
            for (conditional, index) in [
                (None, ValueIndex::Shapley),
                (None, ValueIndex::Banzhaf { chance: 0.3 }),
                (given(true), ValueIndex::Shapley),
            ] {
                // The parts learn with kernels of as many columns as they have.
                if case == 3 && conditional.is_some() {
                    continue;
                }
                let game = Game::Independent {
                    parts: parts.iter().map(|part| part.background(&fit.model)).collect(),
                    conditional: conditional.as_ref().map(Conditional::settings),
                };
                let question = Question::from(game).with_players(Some(groups.clone())).with_index(index);
                let explainer = Explainer::new(&fit.model, question.with_covariance()).unwrap();
                let explainer = explainer.with_posterior(Some(&fit.covariance)).unwrap();
                let found = explainer.posterior_functionals(&rows).unwrap();
                let truth = Truth { parts, players: &players, conditional: conditional.as_ref(), index };
                let truth = truth.of(&posterior, &rows);
                let what = format!("{name} {case} {index} {}", conditional.is_some());
                close(found.prior_scale.data(), truth.prior_scale.data(), &what);
                close(found.columns.data(), truth.columns.data(), &what);
                assert!(found.constants.iter().all(|c| *c == 0.0));
                let explained = explainer.explain(&rows).unwrap();
                same(&explained, &truth, &posterior, &what);
                let means = posterior.mean_of(&found);
                for at in 0..2 * p * 2 {
                    let (r, j, o) = (at / (2 * p), at / 2 % p, at % 2);
                    let off = means[(r * p + j, o)] - explained.row_values(r, o)[j];
                    assert!(off.abs() < 1e-11, "{what}: {off}");
                }
                let some: Vec<usize> = (0..p).rev().collect();
                for (own, j) in explainer.functionals(&rows, &some).unwrap().iter().zip(some) {
                    (0..2 * own.rows()).for_each(|at| {
                        let (i, r) = (at / 2, at % 2);
                        assert_eq!(own[(i, r)], found.columns[(i, r * p + j)]);
                    });
                }
            }
        }
    }
}

/// Duels of items with three properties, in contexts or not.
struct Case {
    items: Table,
    contexts: Option<Table>,
    rows: Table,
    fit: PreferenceFit,
}

fn case(prior: [f64; 2], in_contexts: bool, kernel: Kernel, seed: u64) -> Case {
    let mut s = Stream(seed);
    let items = s.normals(9, 3);
    let pairs: Vec<Pair> =
        (0..30).map(|i| (i % 9, (i * 4 + 1 + i / 9) % 9)).filter(|(l, r)| l != r).collect();
    let (left, right): (Vec<usize>, Vec<usize>) = pairs.iter().copied().unzip();
    let won: Vec<f64> = pairs.iter().map(|_| f64::from(u8::from(s.uniform() < 0.6))).collect();
    let mut process = PreferenceProcess::new(kernel);
    (process.tune, process.prior.utility_variance, process.prior.generalised_variance) =
        (false, prior[0], prior[1]);
    let cells: Vec<f64> = pairs.iter().map(|_| s.normal()).collect();
    let contexts = Table::from_column_major(vec![Column::numeric("wind")], pairs.len(), cells).unwrap();
    let met: [Pair; 4] = [(0, 7), (7, 0), (3, 5), (4, 4)];
    let there = contexts.select_rows(&[0, 0, 5, 7]);
    if !in_contexts {
        let duels = Duels::new(9, &left, &right, &won, None).unwrap();
        let rows = wide_rows(&items, &met).unwrap();
        return Case { fit: process.fit(&items, &duels).unwrap(), items, contexts: None, rows };
    }
    process.prior.contexts = Some(ContextKernel { kernel: Kernel::gaussian(&[0.9]), shared: 0.4 });
    let duels = Duels::in_contexts(9, &left, &right, &won, None, &contexts).unwrap();
    let rows = wide_rows_in(&items, &met, Some(&there)).unwrap();
    Case { fit: process.fit(&items, &duels).unwrap(), items, contexts: Some(contexts), rows }
}

impl Case {
    fn ask(&self, question: &DuelQuestion) -> riesz::Result<Explanation> {
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
        let question = DuelQuestion { covariance: true, ..question.clone() };
        explain(&self.fit.model, Some(&self.fit.covariance), &self.rows, &question, &stop, &progress)
    }

    /// The four duels are what the sums say, and the second is the first the other way round.
    fn check(&self, question: &DuelQuestion, truth: &Truth<'_>, what: &str) {
        let (found, posterior) = (self.ask(question).unwrap(), self.fit.posterior());
        let some = [0, 1, 2];
        let sums = truth.of(&posterior, &self.rows.select_rows(&some));
        same(&found.select_rows(&some), &sums, &posterior, what);
        let means = posterior.mean_of(&sums);
        let values: Vec<f64> = (0..3).flat_map(|r| found.row_values(r, 0).to_vec()).collect();
        close(&values, means.data(), what);
        assert_eq!(found.covariance(0, 0), found.covariance(1, 0), "{what}");
        // Of two that are one nothing is left open.
        assert!(found.covariance(3, 0).unwrap().iter().all(|v| *v == 0.0), "{what}");
        for threads in [1, 2] {
            assert!(with_threads(threads, || self.ask(question).unwrap()) == found, "{what}");
        }
    }
}

fn gaussian() -> Kernel {
    Kernel::gaussian(&[1.3, 0.9, 2.0])
}

/// Independent and observational items, of utilities, of what may be cyclic, and of both.
#[test]
fn covariances_of_duels_are_those_of_all_pairs_of_items() {
    for prior in [[0.7, 1.9], [1.1, 0.0], [0.0, 0.8]] {
        let own = case(prior, false, gaussian(), 3);
        let chosen = own.items.select_rows(&[1, 2, 5, 6, 8]);
        let weights = [1.0, 2.0, 0.5, 1.5, 1.0];
        let background = Background { rows: chosen.clone(), weights: Some(weights.to_vec()) };
        let parts = [[0, 1, 2], [3, 4, 5]].map(|columns| Part::new(&columns, &chosen, Some(&weights)));
        let players: Vec<Vec<usize>> = (0..3).map(|j| vec![j, 3 + j]).collect();
        let conditional = Conditional { scales: vec![1.7, 0.9, 1.2], centred: true };
        let what = format!("{prior:?}");
        let question = DuelQuestion::new(DuelGame::Independent(background.clone()));
        own.check(&question, &truth(&parts, &players, None), &what);
        let game = DuelGame::Observational(background, conditional.settings());
        own.check(
            &DuelQuestion::new(game),
            &truth(&parts, &players, Some(&conditional)),
            &format!("{what}, observational"),
        );
    }
}

/// Weights that do not sum to 1 count in those parts of a term alone that it reads, as in values: each term
/// of the kernel is a function of its own.
#[test]
fn weights_that_are_not_centred_count_where_they_are_read() {
    let own = case([0.7, 1.9], false, gaussian(), 4);
    let chosen = own.items.select_rows(&[1, 2, 5, 6]);
    let parts = [[0, 1, 2], [3, 4, 5]].map(|columns| Part::new(&columns, &chosen, None));
    let players: Vec<Vec<usize>> = (0..3).map(|j| vec![j, 3 + j]).collect();
    let conditional = Conditional { scales: vec![1.7, 0.9, 1.2], centred: false };
    let game = DuelGame::Observational(chosen.into(), conditional.settings());
    let found = own.ask(&DuelQuestion::new(game)).unwrap();
    let (posterior, some) = (own.fit.posterior(), own.rows.select_rows(&[0, 1, 2]));
    let truth = truth(&parts, &players, Some(&conditional));
    let mut all = truth.of(&posterior, &some);
    (all.prior_scale, all.columns) = (Matrix::zeros(9, 9), Matrix::zeros(all.columns.rows(), 9));
    let columns = own.fit.model.columns();
    for term in &own.fit.model.kernel.terms {
        let reads = |part: usize| {
            let own = |j: &usize| parts[part].columns.contains(j);
            term.factors.iter().any(|factor| factor.columns().iter().any(own))
        };
        let kernel = Kernel { terms: vec![term.clone()] };
        let (at, weights) = truth.sums(columns, &some, &reads);
        // The mirrored half reads the left item where the term reads the right one.
        let (other, turned) = truth.sums(columns, &some, &|part| reads(1 - part));
        let values = [3, 4, 5, 0, 1, 2].iter().flat_map(|&j| other.column(j)).copied().collect();
        let other = Table::from_column_major(columns.to_vec(), other.rows(), values).unwrap();
        let prior = |table: &Table, own: &Sparse| {
            let half = weights.transpose_times(&kernel.cross_gram(&at, table));
            own.transpose_times(&half.transpose())
        };
        let points =
            weights.transpose_times(&kernel.cross_gram(&at, &own.fit.model.support_points)).transpose();
        let add = |all: &mut Matrix, sums: &Matrix, sign: f64| {
            all.data_mut().iter_mut().zip(sums.data()).for_each(|(all, own)| *all += sign * own);
        };
        add(&mut all.prior_scale, &prior(&at, &weights), 1.0);
        add(&mut all.prior_scale, &prior(&other, &turned), -1.0);
        add(&mut all.columns, &points, 1.0);
    }
    same(&found.select_rows(&[0, 1, 2]), &all, &posterior, "uncentred");
    let values: Vec<f64> = (0..3).flat_map(|r| found.row_values(r, 0).to_vec()).collect();
    close(&values, posterior.mean_of(&all).data(), "uncentred");
}

/// Contexts always present, absent beside the items in every game, and absent alone.
#[test]
fn covariances_of_duels_in_contexts() {
    let own = case([0.7, 1.9], true, gaussian(), 5);
    let chosen = own.items.select_rows(&[1, 5, 8]);
    let there = own.contexts.as_ref().unwrap().select_rows(&[1, 2, 9]);
    let heights = [0.5, 1.0, 2.0];
    let contexts = || Some(Background { rows: there.clone(), weights: Some(heights.to_vec()) });
    let around = Part::new(&[6], &there, Some(&heights));
    let sides = || [[0, 1, 2], [3, 4, 5]].map(|columns| Part::new(&columns, &chosen, None)).to_vec();
    let both = |pairs: &[Pair]| Part::new(&[0, 1, 2, 3, 4, 5], &wide_rows(&own.items, pairs).unwrap(), None);
    let conditional = Conditional { scales: vec![1.7, 0.9, 1.2], centred: true };
    let mut players: Vec<Vec<usize>> = (0..3).map(|j| vec![j, 3 + j]).collect();
    let items = || Background::from(chosen.clone());
    let always = DuelQuestion::new(DuelGame::Independent(items()));
    let fixed: Vec<Vec<usize>> = players.iter().cloned().chain([vec![6]]).collect();
    // A player who is always present is worth nothing, and is not told.
    let found = own.ask(&always).unwrap();
    let sums = truth(&sides(), &fixed[..3], None).of(&own.fit.posterior(), &own.rows.select_rows(&[0, 2]));
    same(&found.select_rows(&[0, 2]), &sums, &own.fit.posterior(), "contexts are there");
    players.push(vec![6]);
    let paired: Vec<Pair> = vec![(1, 1), (5, 5), (8, 8)];
    let met = wide_rows_in(&own.items, &[(2, 6), (4, 1)], Some(&there.select_rows(&[0, 0]))).unwrap();
    let either: Vec<Pair> = vec![(2, 6), (6, 2), (4, 1), (1, 4)];
    for (game, mut parts, given) in [
        (DuelGame::Independent(items()), sides(), None),
        (DuelGame::Paired(items()), vec![both(&paired)], None),
        (DuelGame::Baseline(own.items.select_rows(&[3])), vec![both(&[(3, 3)])], None),
        (DuelGame::Matches(met), vec![both(&either)], None),
    ] {
        parts.push(around.clone());
        let question = DuelQuestion { contexts: contexts(), ..DuelQuestion::new(game) };
        own.check(&question, &truth(&parts, &players, given), question.game.as_ref().unwrap().name());
    }
    // Contexts are learnt apart, with a kernel of one column.
    let game = DuelGame::Observational(items(), conditional.settings());
    let found = own.ask(&DuelQuestion::new(game)).unwrap();
    let sums = truth(&sides(), &fixed[..3], Some(&conditional))
        .of(&own.fit.posterior(), &own.rows.select_rows(&[0, 2]));
    same(&found.select_rows(&[0, 2]), &sums, &own.fit.posterior(), "observational in contexts");
    let alone = DuelQuestion { game: None, contexts: contexts(), ..DuelQuestion::new(DuelGame::Functional) };
    let found = own.ask(&alone).unwrap();
    assert_eq!(found.sets(), 1);
    assert_eq!(found.covariance(0, 0), found.covariance(1, 0));
    let sums = truth(&[around], &[vec![6]], None).of(&own.fit.posterior(), &own.rows.select_rows(&[0, 2]));
    same(&found.select_rows(&[0, 2]), &sums, &own.fit.posterior(), "contexts alone");
}

/// All pairs of items are one background of the interventional game, which has another engine; and items that
/// are there many times are items with weights, however many.
#[test]
fn independent_items_are_all_their_pairs() {
    let own = case([0.7, 1.9], false, gaussian(), 6);
    let names: Vec<(String, Vec<String>)> =
        (0..3).map(|j| (format!("x{j}"), vec![format!("left_x{j}"), format!("right_x{j}")])).collect();
    let groups = Players::named(own.fit.model.columns(), &names).unwrap();
    let pairs: Vec<Pair> = (0..9).flat_map(|a| (0..9).map(move |b| (a, b))).collect();
    let game = Game::Interventional { background: wide_rows(&own.items, &pairs).unwrap().into() };
    let question = Question::from(game).with_players(Some(groups)).with_covariance();
    let explainer = Explainer::new(&own.fit.model, question).unwrap();
    let expected = explainer.with_posterior(Some(&own.fit.covariance)).unwrap().explain(&own.rows).unwrap();
    let ask =
        |background: Background| own.ask(&DuelQuestion::new(DuelGame::Independent(background))).unwrap();
    let found = ask(own.items.clone().into());
    let many: Vec<usize> = (0..9).flat_map(|i| vec![i; if i < 3 { 30 } else { 10 }]).collect();
    let weights = (0..9).map(|i| if i < 3 { 3.0 } else { 1.0 }).collect();
    let repeated = ask(own.items.select_rows(&many).into());
    let weighted = ask(Background { rows: own.items.clone(), weights: Some(weights) });
    for r in 0..3 {
        close(found.covariance(r, 0).unwrap(), expected.covariance(r, 0).unwrap(), "pairs");
        close(repeated.covariance(r, 0).unwrap(), weighted.covariance(r, 0).unwrap(), "150 items");
    }
}

/// Functions drawn from the posterior are explained one by one, which knows nothing of covariances: a model
/// of as many outputs.
#[test]
fn covariances_are_those_of_draws() {
    let draws = 3000;
    let kernel = (0..3).map(|j| stationary(Profile::Exponential, j, 2.0)).reduce(|a, b| a * b).unwrap();
    let own = case([0.6, 1.4], false, kernel, 7);
    let names: Vec<(String, Vec<String>)> =
        (0..3).map(|j| (format!("x{j}"), vec![format!("left_x{j}"), format!("right_x{j}")])).collect();
    let groups = Players::named(own.fit.model.columns(), &names).unwrap();
    let conditional = Conditional { scales: vec![1.7, 0.9, 1.2], centred: true };
    // Items of their own on either side: of no two rows that are looked at one is the other's mirror.
    let sides = [(0..3, [1, 2]), (3..6, [5, 6])];
    let parts = sides.map(|(columns, rows)| {
        Part::new(&columns.collect::<Vec<_>>(), &own.items.select_rows(&rows), Some(&[1.0, 2.0]))
    });
    let row = own.rows.select_rows(&[2]);
    let mut at: Vec<Vec<f64>> = Vec::new();
    for (mask, a, b) in (0..8).flat_map(|mask| (0..4).map(move |ab| (mask, ab / 2, ab % 2))) {
        let cell = |j: usize| {
            let other = if j < 3 { parts[0].rows[a][j] } else { parts[1].rows[b][j - 3] };
            if mask >> (j % 3) & 1 == 1 { row.get(0, j) } else { other }
        };
        let mixed: Vec<f64> = (0..6).map(cell).collect();
        if !at.contains(&mixed) {
            at.push(mixed);
        }
    }
    let values = (0..6).flat_map(|j| at.iter().map(move |row| row[j])).collect();
    let at = Table::from_column_major(own.fit.model.columns().to_vec(), at.len(), values).unwrap();
    let posterior = own.fit.posterior();
    let drawn = posterior.sample(&posterior.functionals_at(&at).unwrap(), draws, 7).unwrap();
    let kernel = own.fit.model.kernel.clone();
    let gram = Cholesky::new(kernel.gram(&at), "gram matrix").unwrap();
    let functions =
        KernelExpansion::new(kernel, at, gram.solve(drawn.values[0].clone()), vec![0.0; draws]).unwrap();
    for conditional in [None, Some(conditional.settings())] {
        let parts = parts.iter().map(|part| part.background(&own.fit.model)).collect();
        let question = Question::from(Game::Independent { parts, conditional });
        let question = question.with_players(Some(groups.clone()));
        let each = Explainer::new(&functions, question.clone()).unwrap().explain(&row).unwrap();
        let explainer = Explainer::new(&own.fit.model, question.with_covariance()).unwrap();
        let found = explainer.with_posterior(Some(&own.fit.covariance)).unwrap().explain(&row).unwrap();
        let covariance = found.covariance(0, 0).unwrap();
        for (j, l) in (0..3).flat_map(|j| (0..3).map(move |l| (j, l))) {
            let off = |o: usize, k: usize| each.row_values(0, o)[k] - found.row_values(0, 0)[k];
            let mean = (0..draws).map(|o| off(o, j) * off(o, l)).sum::<f64>() / draws as f64;
            let size = covariance[j * 3 + j] * covariance[l * 3 + l] + covariance[j * 3 + l].powi(2);
            let error = (size / draws as f64).sqrt();
            assert!((mean - covariance[j * 3 + l]).abs() < 4.0 * error, "{j} {l}: {mean} {covariance:?}");
        }
    }
}

/// Refits have no prior, and the spread of their values, of as many players as values have.
#[test]
fn refits_vary_as_their_values_do() {
    let mut s = Stream(71);
    let (d, x) = (13, s.normals(6, 13));
    let coef = Matrix::from_row_major(6, 2, (0..12).map(|_| s.signed()).collect());
    let kernel = Kernel::gaussian(&vec![3.0; d]);
    let refits = KernelExpansion::new(kernel.clone(), x.clone(), coef.clone(), vec![0.0; 2]).unwrap();
    let mean = Matrix::column_vector((0..6).map(|_| s.signed()).collect());
    let model = KernelExpansion::new(kernel, x, mean, vec![0.0]).unwrap();
    let known = vec![VarianceReduction::RefitDifferences {
        coef,
        intercept: vec![0.0; 2],
        of: Refitted::Drawn { seed: 1 },
    }];
    let covariance =
        PosteriorCovariance { prior_scale: 0.0, skew_swap: None, reduction: known, scale: vec![1.0] };
    let (low, high): (Vec<usize>, Vec<usize>) = ((0..6).collect(), (6..d).collect());
    let parts = [(low, s.normals(3, 6)), (high, s.normals(2, 7))];
    let parts = parts.map(|(columns, rows)| Part::new(&columns, &rows, None).background(&model)).to_vec();
    let (question, row) = (Question::from(Game::Independent { parts, conditional: None }), s.normals(1, d));
    let each = Explainer::new(&refits, question.clone()).unwrap().explain(&row).unwrap();
    let explainer = Explainer::new(&model, question.with_covariance()).unwrap();
    let found = explainer.with_posterior(Some(&covariance)).unwrap().explain(&row).unwrap();
    let of =
        |j: usize, l: usize| (0..2).map(|o| each.row_values(0, o)[j] * each.row_values(0, o)[l]).sum::<f64>();
    let expected: Vec<f64> = (0..d * d).map(|at| of(at / d, at % d)).collect();
    close(found.covariance(0, 0).unwrap(), &expected, "refits");
}

#[test]
fn what_has_no_covariance_is_refused() {
    let own = case([0.7, 1.9], false, gaussian(), 8);
    let told = |question: Question| {
        let explainer = Explainer::new(&own.fit.model, question.with_covariance());
        explainer.and_then(|e| e.with_posterior(Some(&own.fit.covariance))).err().unwrap().to_string()
    };
    let part = |columns: &[usize]| {
        let rows = Table::from_rows(&[vec![0.5; columns.len()], vec![-0.5; columns.len()]]).unwrap();
        Part::new(columns, &rows, None).background(&own.fit.model)
    };
    let names: Vec<(String, Vec<String>)> =
        (0..3).map(|j| (format!("x{j}"), vec![format!("left_x{j}"), format!("right_x{j}")])).collect();
    let groups = Players::named(own.fit.model.columns(), &names).unwrap();
    let apart = |parts| Question::from(Game::Independent { parts, conditional: None });
    let torn = told(apart(vec![part(&[0, 1, 2]), part(&[3, 4, 5])]));
    assert!(torn.contains("a feature of both items"), "{torn}");
    let across = apart(vec![part(&[0, 1]), part(&[2, 3, 4, 5])]).with_players(Some(groups.clone()));
    assert!(told(across).contains("change places with those of one part"));
    let pairs = apart(vec![part(&[0, 1, 2]), part(&[3, 4, 5])]).with_players(Some(groups.clone()));
    assert!(told(pairs.clone().with_index("k-sii".parse().unwrap())).contains("Beta-Shapley"));
    let row_wise = Question::from(Game::observational(&own.fit.model)).with_players(Some(groups));
    assert!(told(row_wise).contains("the game of independent parts"));
    let explainer = Explainer::new(&own.fit.model, pairs.with_covariance()).unwrap();
    let explainer = explainer.with_posterior(Some(&own.fit.covariance)).unwrap();
    assert!(explainer.variance_shares(&own.rows).unwrap_err().to_string().contains("shares of the variance"));
    // More players than pairs of coalitions are looked at for.
    let mut s = Stream(9);
    let x = s.normals(8, 13);
    let y = Matrix::column_vector((0..8).map(|_| s.signed()).collect());
    let fit = GaussianProcess::new(Kernel::gaussian(&[4.0; 13]), 0.2).fit(&x, &y).unwrap();
    let game = Game::Independent { parts: vec![x.into()], conditional: None };
    let explainer = Explainer::new(&fit.model, Question::from(game).with_covariance()).unwrap();
    let error = explainer.with_posterior(Some(&fit.covariance)).err().unwrap().to_string();
    assert!(error.contains("up to 12 features, and here are 13"), "{error}");
}
