//! Covariances of values of independent parts, and of duels, against sums of values of f over all coalitions
//! and all combinations of the parts' rows, and against draws.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use riesz::attribution::sampled_shapley::Budget;
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

fn close(a: &[f64], b: &[f64], label: &str) {
    assert_eq!(a.len(), b.len());
    let size = b.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
    assert!(size > 1e-6, "{label}: nothing to compare");
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() < 1e-9 * size, "{label}: {a} {b}");
    }
}

/// Returns the weight of a coalition's value in the Shapley or Banzhaf value of player j.
fn share(index: ValueIndex, mask: usize, j: usize, p: usize) -> f64 {
    let size = (mask & !(1 << j)).count_ones() as usize;
    let weight = match index {
        ValueIndex::Banzhaf { inclusion_probability: chance } => {
            chance.powi(size as i32) * (1.0 - chance).powi((p - 1 - size) as i32)
        }
        _ => {
            let factorial = |k: usize| (1..=k).map(|i| i as f64).product::<f64>();
            factorial(size) * factorial(p - 1 - size) / factorial(p)
        }
    };
    if mask >> j & 1 == 1 { weight } else { -weight }
}

/// A part's columns and its rows, in the order of the columns, with weights.
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

    /// Returns the part's rows with the marked columns set to x, and their conditional weights.
    fn conditional_rows(
        &self,
        x: &[f64],
        present: &[bool],
        conditional: Option<&Conditional>,
    ) -> Vec<(Vec<f64>, f64)> {
        let n = self.rows.len();
        if present.iter().all(|on| *on) {
            return vec![(x.to_vec(), 1.0)];
        }
        let mut weights = self.weights.clone();
        if let (Some(Conditional { scales, centered }), true) = (conditional, present.contains(&true)) {
            let scales = &scales[..present.len()];
            let k = |u: &[f64], v: &[f64]| {
                let apart =
                    (0..present.len()).filter(|&j| present[j]).map(|j| (u[j] - v[j]).abs() / scales[j]);
                (-apart.sum::<f64>()).exp()
            };
            let system = (0..n).map(|b| {
                let mut row: Vec<f64> = self.rows.iter().map(|c| k(&self.rows[b], c)).collect();
                row[b] += RIDGE / self.weights[b];
                row
            });
            weights = solve(system.collect(), self.rows.iter().map(|c| k(c, x)).collect());
            let missing = 1.0 - weights.iter().sum::<f64>();
            if *centered {
                weights
                    .iter_mut()
                    .zip(&self.weights)
                    .for_each(|(w, base_weight)| *w += missing * base_weight);
            }
        }
        let mix = |row: &Vec<f64>| (0..x.len()).map(|k| if present[k] { x[k] } else { row[k] }).collect();
        self.rows.iter().map(mix).zip(weights).collect()
    }
}

/// Exponential kernels of columns by their index in a part, and whether weights are centered.
struct Conditional {
    scales: Vec<f64>,
    centered: bool,
}

impl Conditional {
    fn settings(&self) -> Conditioning {
        let kernels = self.scales.iter().enumerate().map(|(j, &l)| stationary(Profile::Exponential, j, l));
        let mut settings = Conditioning::with_ridge(RIDGE);
        settings.kernel = ConditioningKernel::Given(kernels.reduce(|a, b| a * b).unwrap());
        settings.centered = self.centered;
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

/// Returns a game whose Shapley values are enumerated.
fn truth<'a>(
    parts: &'a [Part],
    players: &'a [Vec<usize>],
    conditional: Option<&'a Conditional>,
) -> Truth<'a> {
    Truth { parts, players, conditional, index: ValueIndex::Shapley }
}

impl Truth<'_> {
    /// Returns every value as a weighted sum of f over all combinations of rows; only parts that are `read`
    /// are mixed.
    fn sums(&self, columns: &[Column], rows: &Table, read: &dyn Fn(usize) -> bool) -> (Table, Sparse) {
        let p = self.players.len();
        let (mut points, mut weights): (Vec<Vec<f64>>, _) = (Vec::new(), vec![Vec::new(); rows.rows() * p]);
        for (r, mask) in (0..rows.rows()).flat_map(|r| (0..1_usize << p).map(move |mask| (r, mask))) {
            let mut combinations = vec![(rows.row(r), 1.0)];
            for (number, part) in self.parts.iter().enumerate() {
                let x: Vec<f64> = part.columns.iter().map(|&j| rows.get(r, j)).collect();
                let owner = |j: &usize| self.players.iter().position(|player| player.contains(j)).unwrap();
                let present: Vec<bool> =
                    part.columns.iter().map(|j| !read(number) || mask >> owner(j) & 1 == 1).collect();
                let part_rows = part.conditional_rows(&x, &present, self.conditional);
                let mix = |(row, weight): &(Vec<f64>, f64)| -> Vec<(Vec<f64>, f64)> {
                    let mixed = part_rows.iter().map(|(values, part_weight)| {
                        let mut row = row.clone();
                        part.columns.iter().zip(values).for_each(|(&j, v)| row[j] = *v);
                        (row, weight * part_weight)
                    });
                    mixed.collect()
                };
                combinations = combinations.iter().flat_map(mix).collect();
            }
            for (row, weight) in combinations {
                for j in 0..p {
                    weights[r * p + j].push((points.len(), share(self.index, mask, j, p) * weight));
                }
                points.push(row);
            }
        }
        let values = (0..columns.len()).flat_map(|j| points.iter().map(move |row| row[j])).collect();
        let table = Table::from_column_major(columns.to_vec(), points.len(), values).unwrap();
        (table, Sparse::from_columns(points.len(), weights).unwrap())
    }

    fn functionals(&self, posterior: &Posterior<'_>, rows: &Table) -> Functionals {
        let (table, weights) = self.sums(posterior.mean().columns(), rows, &|_| true);
        posterior.weighted_sum_functionals(&table, &weights).unwrap()
    }
}

/// Checks that the covariance of each row and output equals that of the functionals.
fn check_covariances(explanation: &Explanation, truth: &Functionals, posterior: &Posterior<'_>, label: &str) {
    explanation.validate().unwrap();
    assert_eq!(explanation.uncertainty.as_ref().unwrap().source, Some(UncertaintySource::Posterior));
    let (p, joint) = (explanation.sets(), posterior.covariance(truth));
    for (o, joint) in joint.iter().enumerate() {
        for r in 0..explanation.rows() {
            let expected: Vec<f64> =
                (0..p * p).map(|entry| joint[(r * p + entry / p, r * p + entry % p)]).collect();
            close(explanation.covariance(r, o).unwrap(), &expected, label);
        }
    }
}

/// Kernels of one product and of several, of one part and of both; weights, groups within and across parts,
/// columns that are always present, two outputs.
#[test]
fn covariances_are_those_of_all_combinations_of_rows() {
    let mut s = Stream(61);
    let factor = |profile, j| stationary(profile, j, 1.3);
    let product = factor(Profile::Gaussian, 0)
        * factor(Profile::Matern32, 1)
        * factor(Profile::Gaussian, 2)
        * factor(Profile::Exponential, 3);
    let linear = Kernel::from(Linear { columns: vec![0, 1], center: vec![0.3, 0.1], scale: vec![1.0, 0.7] });
    let several = product.clone()
        + 0.5 * (linear * factor(Profile::Gaussian, 2))
        + 0.3 * factor(Profile::Gaussian, 1)
        + 0.2 * Kernel::constant(1.0);
    for (name, kernel) in [("one", product), ("several", several)] {
        let (x, rows) = (s.normals(20, 4), s.normals(2, 4));
        let y = Matrix::from_row_major(20, 2, (0..40).map(|_| s.signed()).collect());
        let fit = GaussianProcess::new(kernel, 0.3).fit(&x, &y).unwrap();
        let posterior = fit.posterior();
        let first = Part::new(&[0, 1], &s.normals(4, 2), Some(&[0.5, 1.5, 1.0, 0.8]));
        let second = Part::new(&[2, 3], &s.normals(3, 2), None);
        let single = Part { columns: vec![2], ..Part::new(&[2], &s.normals(3, 1), Some(&[1.0, 2.0, 0.5])) };
        let names: Vec<String> = x.columns().iter().map(|c| c.name.clone()).collect();
        let pair = |a: usize, b: usize| {
            let members = vec![names[a].clone(), names[b].clone()];
            Players::named(x.columns(), &[("both".to_string(), members)]).unwrap()
        };
        let conditioning = |centered| Some(Conditional { scales: vec![1.7, 0.9], centered });
        let cases = [
            (vec![first.clone(), second.clone()], Players::singletons(x.columns())),
            (vec![first.clone(), second.clone()], pair(0, 2)),
            (vec![first.clone(), second.clone()], pair(2, 3)),
            (vec![first.clone(), single], Players::singletons(x.columns())),
        ];
        for (case, (parts, groups)) in cases.iter().enumerate() {
            let players: Vec<Vec<usize>> = groups.players().iter().map(|p| p.columns.clone()).collect();
            let p = players.len();
            for (conditional, index) in [
                (None, ValueIndex::Shapley),
                (None, ValueIndex::Banzhaf { inclusion_probability: 0.3 }),
                (conditioning(true), ValueIndex::Shapley),
            ] {
                // The conditional kernels have as many columns as their parts.
                if case == 3 && conditional.is_some() {
                    continue;
                }
                let game_part = |part: &Part| riesz::game::Part {
                    background: part.background(&fit.model),
                    conditional: conditional.as_ref().map(Conditional::settings),
                };
                let game = Game::Independent { parts: parts.iter().map(game_part).collect() };
                let question = Question::from(game).with_players(Some(groups.clone())).with_index(index);
                let explainer = Explainer::new(&fit.model, question.with_covariance()).unwrap();
                let explainer = explainer.with_posterior(Some(&fit.covariance)).unwrap();
                let functionals = explainer.posterior_functionals(&rows).unwrap();
                let truth = Truth { parts, players: &players, conditional: conditional.as_ref(), index };
                let truth = truth.functionals(&posterior, &rows);
                let label = format!("{name} {case} {index} {}", conditional.is_some());
                close(functionals.prior_covariance.data(), truth.prior_covariance.data(), &label);
                close(functionals.columns.data(), truth.columns.data(), &label);
                assert!(functionals.constants.iter().all(|c| *c == 0.0));
                let explained = explainer.explain(&rows).unwrap();
                check_covariances(&explained, &truth, &posterior, &label);
                let means = posterior.mean_of(&functionals);
                for cell in 0..2 * p * 2 {
                    let (r, j, o) = (cell / (2 * p), cell / 2 % p, cell % 2);
                    let error = means[(r * p + j, o)] - explained.row_values(r, o)[j];
                    assert!(error.abs() < 1e-11, "{label}: {error}");
                }
                let reversed: Vec<usize> = (0..p).rev().collect();
                for (by_player, j) in explainer.functionals(&rows, &reversed).unwrap().iter().zip(reversed) {
                    (0..2 * by_player.rows()).for_each(|cell| {
                        let (i, r) = (cell / 2, cell % 2);
                        assert_eq!(by_player[(i, r)], functionals.columns[(i, r * p + j)]);
                    });
                }
            }
        }
    }
}

/// Duels of items with three properties, with or without contexts.
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
    let explained_pairs: [Pair; 4] = [(0, 7), (7, 0), (3, 5), (4, 4)];
    let row_contexts = contexts.select_rows(&[0, 0, 5, 7]);
    if !in_contexts {
        let duels = Duels::new(9, &left, &right, &won, None).unwrap();
        let rows = wide_rows(&items, &explained_pairs).unwrap();
        return Case { fit: process.fit(&items, &duels).unwrap(), items, contexts: None, rows };
    }
    process.prior.contexts = Some(ContextKernel { kernel: Kernel::gaussian(&[0.9]), shared: 0.4 });
    let duels = Duels::in_contexts(9, &left, &right, &won, None, &contexts).unwrap();
    let rows = wide_rows_in(&items, &explained_pairs, Some(&row_contexts)).unwrap();
    Case { fit: process.fit(&items, &duels).unwrap(), items, contexts: Some(contexts), rows }
}

impl Case {
    fn ask(&self, question: &DuelQuestion) -> riesz::Result<Explanation> {
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
        let question = DuelQuestion { covariance: true, ..question.clone() };
        explain(&self.fit.model, Some(&self.fit.covariance), &self.rows, &question, &stop, &progress)
    }

    /// Checks the covariances of the four duels against sums; the second duel is the first one reversed.
    fn check(&self, question: &DuelQuestion, truth: &Truth<'_>, label: &str) {
        let (explanation, posterior) = (self.ask(question).unwrap(), self.fit.posterior());
        let chosen = [0, 1, 2];
        let sums = truth.functionals(&posterior, &self.rows.select_rows(&chosen));
        check_covariances(&explanation.select_rows(&chosen), &sums, &posterior, label);
        let means = posterior.mean_of(&sums);
        let values: Vec<f64> = (0..3).flat_map(|r| explanation.row_values(r, 0).to_vec()).collect();
        close(&values, means.data(), label);
        assert_eq!(explanation.covariance(0, 0), explanation.covariance(1, 0), "{label}");
        // A duel of an item with itself has no uncertainty.
        assert!(explanation.covariance(3, 0).unwrap().iter().all(|v| *v == 0.0), "{label}");
        for threads in [1, 2] {
            assert!(with_threads(threads, || self.ask(question).unwrap()) == explanation, "{label}");
        }
    }
}

fn gaussian() -> Kernel {
    Kernel::gaussian(&[1.3, 0.9, 2.0])
}

/// Independent and observational games, with priors of utilities, of cyclic preferences, and of both.
#[test]
fn covariances_of_duels_are_those_of_all_pairs_of_items() {
    for prior in [[0.7, 1.9], [1.1, 0.0], [0.0, 0.8]] {
        let problem = case(prior, false, gaussian(), 3);
        let chosen = problem.items.select_rows(&[1, 2, 5, 6, 8]);
        let weights = [1.0, 2.0, 0.5, 1.5, 1.0];
        let background = Background { rows: chosen.clone(), weights: Some(weights.to_vec()) };
        let parts = [[0, 1, 2], [3, 4, 5]].map(|columns| Part::new(&columns, &chosen, Some(&weights)));
        let players: Vec<Vec<usize>> = (0..3).map(|j| vec![j, 3 + j]).collect();
        let conditional = Conditional { scales: vec![1.7, 0.9, 1.2], centered: true };
        let label = format!("{prior:?}");
        let question = DuelQuestion::new(DuelGame::Independent(background.clone()));
        problem.check(&question, &truth(&parts, &players, None), &label);
        let game = DuelGame::Observational(background, conditional.settings());
        problem.check(
            &DuelQuestion::new(game),
            &truth(&parts, &players, Some(&conditional)),
            &format!("{label}, observational"),
        );
    }
}

/// Weights that do not sum to 1 apply only to the parts that a kernel term reads: each term is a separate
/// function.
#[test]
fn uncentred_weights_count_only_in_parts_that_are_read() {
    let problem = case([0.7, 1.9], false, gaussian(), 4);
    let chosen = problem.items.select_rows(&[1, 2, 5, 6]);
    let parts = [[0, 1, 2], [3, 4, 5]].map(|columns| Part::new(&columns, &chosen, None));
    let players: Vec<Vec<usize>> = (0..3).map(|j| vec![j, 3 + j]).collect();
    let conditional = Conditional { scales: vec![1.7, 0.9, 1.2], centered: false };
    let game = DuelGame::Observational(chosen.into(), conditional.settings());
    let explanation = problem.ask(&DuelQuestion::new(game)).unwrap();
    let (posterior, rows) = (problem.fit.posterior(), problem.rows.select_rows(&[0, 1, 2]));
    let truth = truth(&parts, &players, Some(&conditional));
    let mut expected = truth.functionals(&posterior, &rows);
    (expected.prior_covariance, expected.columns) =
        (Matrix::zeros(9, 9), Matrix::zeros(expected.columns.rows(), 9));
    let columns = problem.fit.model.columns();
    for term in &problem.fit.model.kernel.terms {
        let reads = |part: usize| {
            let in_part = |j: &usize| parts[part].columns.contains(j);
            term.factors.iter().any(|factor| factor.columns().iter().any(in_part))
        };
        let kernel = Kernel { terms: vec![term.clone()] };
        let (mixed, weights) = truth.sums(columns, &rows, &reads);
        // The mirrored half of a term reads the left item where the term reads the right one.
        let (other, other_weights) = truth.sums(columns, &rows, &|part| reads(1 - part));
        let values = [3, 4, 5, 0, 1, 2].iter().flat_map(|&j| other.column(j)).copied().collect();
        let other = Table::from_column_major(columns.to_vec(), other.rows(), values).unwrap();
        let prior = |table: &Table, table_weights: &Sparse| {
            let weighted = weights.transpose_times(&kernel.cross_gram(&mixed, table));
            table_weights.transpose_times(&weighted.transpose())
        };
        let points = weights
            .transpose_times(&kernel.cross_gram(&mixed, &problem.fit.model.support_points))
            .transpose();
        let add = |total: &mut Matrix, sums: &Matrix, sign: f64| {
            total.data_mut().iter_mut().zip(sums.data()).for_each(|(entry, value)| *entry += sign * value);
        };
        add(&mut expected.prior_covariance, &prior(&mixed, &weights), 1.0);
        add(&mut expected.prior_covariance, &prior(&other, &other_weights), -1.0);
        add(&mut expected.columns, &points, 1.0);
    }
    check_covariances(&explanation.select_rows(&[0, 1, 2]), &expected, &posterior, "uncentered");
    let values: Vec<f64> = (0..3).flat_map(|r| explanation.row_values(r, 0).to_vec()).collect();
    close(&values, posterior.mean_of(&expected).data(), "uncentered");
}

/// Contexts that are always present, that are absent together with the items in every game, and that are
/// absent alone.
#[test]
fn covariances_of_duels_in_contexts() {
    let problem = case([0.7, 1.9], true, gaussian(), 5);
    let chosen = problem.items.select_rows(&[1, 5, 8]);
    let background_contexts = problem.contexts.as_ref().unwrap().select_rows(&[1, 2, 9]);
    let heights = [0.5, 1.0, 2.0];
    let contexts = || Some(Background { rows: background_contexts.clone(), weights: Some(heights.to_vec()) });
    let context_part = Part::new(&[6], &background_contexts, Some(&heights));
    let sides = || [[0, 1, 2], [3, 4, 5]].map(|columns| Part::new(&columns, &chosen, None)).to_vec();
    let pair_part =
        |pairs: &[Pair]| Part::new(&[0, 1, 2, 3, 4, 5], &wide_rows(&problem.items, pairs).unwrap(), None);
    let conditional = Conditional { scales: vec![1.7, 0.9, 1.2], centered: true };
    let mut players: Vec<Vec<usize>> = (0..3).map(|j| vec![j, 3 + j]).collect();
    let items = || Background::from(chosen.clone());
    let always = DuelQuestion::new(DuelGame::Independent(items()));
    let fixed: Vec<Vec<usize>> = players.iter().cloned().chain([vec![6]]).collect();
    // A player who is always present has the value 0, and is not reported.
    let explanation = problem.ask(&always).unwrap();
    let sums = truth(&sides(), &fixed[..3], None)
        .functionals(&problem.fit.posterior(), &problem.rows.select_rows(&[0, 2]));
    check_covariances(
        &explanation.select_rows(&[0, 2]),
        &sums,
        &problem.fit.posterior(),
        "contexts are there",
    );
    players.push(vec![6]);
    let paired: Vec<Pair> = vec![(1, 1), (5, 5), (8, 8)];
    let match_rows =
        wide_rows_in(&problem.items, &[(2, 6), (4, 1)], Some(&background_contexts.select_rows(&[0, 0])))
            .unwrap();
    let both_orders: Vec<Pair> = vec![(2, 6), (6, 2), (4, 1), (1, 4)];
    for (game, mut parts, conditioning) in [
        (DuelGame::Independent(items()), sides(), None),
        (DuelGame::Paired(items()), vec![pair_part(&paired)], None),
        (DuelGame::Baseline(problem.items.select_rows(&[3])), vec![pair_part(&[(3, 3)])], None),
        (DuelGame::Matches(match_rows), vec![pair_part(&both_orders)], None),
    ] {
        parts.push(context_part.clone());
        let question = DuelQuestion { contexts: contexts().map(Into::into), ..DuelQuestion::new(game) };
        problem.check(
            &question,
            &truth(&parts, &players, conditioning),
            question.game.as_ref().unwrap().name(),
        );
    }
    // Contexts have a conditional distribution of their own, with a kernel of one column.
    let game = DuelGame::Observational(items(), conditional.settings());
    let explanation = problem.ask(&DuelQuestion::new(game)).unwrap();
    let sums = truth(&sides(), &fixed[..3], Some(&conditional))
        .functionals(&problem.fit.posterior(), &problem.rows.select_rows(&[0, 2]));
    check_covariances(
        &explanation.select_rows(&[0, 2]),
        &sums,
        &problem.fit.posterior(),
        "observational in contexts",
    );
    let contexts_only = DuelQuestion {
        game: None,
        contexts: contexts().map(Into::into),
        ..DuelQuestion::new(DuelGame::Functional)
    };
    let explanation = problem.ask(&contexts_only).unwrap();
    assert_eq!(explanation.sets(), 1);
    assert_eq!(explanation.covariance(0, 0), explanation.covariance(1, 0));
    let sums = truth(&[context_part], &[vec![6]], None)
        .functionals(&problem.fit.posterior(), &problem.rows.select_rows(&[0, 2]));
    check_covariances(&explanation.select_rows(&[0, 2]), &sums, &problem.fit.posterior(), "contexts alone");
}

/// Independent items equal the interventional game over all pairs; repeated items equal weighted items.
#[test]
fn independent_items_are_all_their_pairs() {
    let problem = case([0.7, 1.9], false, gaussian(), 6);
    let names: Vec<(String, Vec<String>)> =
        (0..3).map(|j| (format!("x{j}"), vec![format!("left_x{j}"), format!("right_x{j}")])).collect();
    let groups = Players::named(problem.fit.model.columns(), &names).unwrap();
    let pairs: Vec<Pair> = (0..9).flat_map(|a| (0..9).map(move |b| (a, b))).collect();
    let game = Game::Interventional { background: wide_rows(&problem.items, &pairs).unwrap().into() };
    let question = Question::from(game).with_players(Some(groups)).with_covariance();
    let explainer = Explainer::new(&problem.fit.model, question).unwrap();
    let expected =
        explainer.with_posterior(Some(&problem.fit.covariance)).unwrap().explain(&problem.rows).unwrap();
    let ask =
        |background: Background| problem.ask(&DuelQuestion::new(DuelGame::Independent(background))).unwrap();
    let explanation = ask(problem.items.clone().into());
    let copies: Vec<usize> = (0..9).flat_map(|i| vec![i; if i < 3 { 30 } else { 10 }]).collect();
    let weights = (0..9).map(|i| if i < 3 { 3.0 } else { 1.0 }).collect();
    let repeated = ask(problem.items.select_rows(&copies).into());
    let weighted = ask(Background { rows: problem.items.clone(), weights: Some(weights) });
    for r in 0..3 {
        close(explanation.covariance(r, 0).unwrap(), expected.covariance(r, 0).unwrap(), "pairs");
        close(repeated.covariance(r, 0).unwrap(), weighted.covariance(r, 0).unwrap(), "150 items");
    }
}

/// Covariances against those of explanations of functions drawn from the posterior, one output each.
#[test]
fn covariances_are_those_of_draws() {
    let draws = 3000;
    let kernel = (0..3).map(|j| stationary(Profile::Exponential, j, 2.0)).reduce(|a, b| a * b).unwrap();
    let problem = case([0.6, 1.4], false, kernel, 7);
    let names: Vec<(String, Vec<String>)> =
        (0..3).map(|j| (format!("x{j}"), vec![format!("left_x{j}"), format!("right_x{j}")])).collect();
    let groups = Players::named(problem.fit.model.columns(), &names).unwrap();
    let conditional = Conditional { scales: vec![1.7, 0.9, 1.2], centered: true };
    // The sides have different items, so that no row is the mirror of another one.
    let sides = [(0..3, [1, 2]), (3..6, [5, 6])];
    let parts = sides.map(|(columns, rows)| {
        Part::new(&columns.collect::<Vec<_>>(), &problem.items.select_rows(&rows), Some(&[1.0, 2.0]))
    });
    let row = problem.rows.select_rows(&[2]);
    let mut points: Vec<Vec<f64>> = Vec::new();
    for (mask, a, b) in (0..8).flat_map(|mask| (0..4).map(move |ab| (mask, ab / 2, ab % 2))) {
        let cell = |j: usize| {
            let other = if j < 3 { parts[0].rows[a][j] } else { parts[1].rows[b][j - 3] };
            if mask >> (j % 3) & 1 == 1 { row.get(0, j) } else { other }
        };
        let mixed: Vec<f64> = (0..6).map(cell).collect();
        if !points.contains(&mixed) {
            points.push(mixed);
        }
    }
    let values = (0..6).flat_map(|j| points.iter().map(move |row| row[j])).collect();
    let table = Table::from_column_major(problem.fit.model.columns().to_vec(), points.len(), values).unwrap();
    let posterior = problem.fit.posterior();
    let drawn = posterior.sample(&posterior.functionals_at(&table).unwrap(), draws, 7).unwrap();
    let kernel = problem.fit.model.kernel.clone();
    let gram = Cholesky::new(kernel.gram(&table), "gram matrix").unwrap();
    let functions =
        KernelExpansion::new(kernel, table, gram.solve(drawn.values[0].clone()), vec![0.0; draws]).unwrap();
    for conditional in [None, Some(conditional.settings())] {
        let game_part = |part: &Part| riesz::game::Part {
            background: part.background(&problem.fit.model),
            conditional: conditional.clone(),
        };
        let question = Question::from(Game::Independent { parts: parts.iter().map(game_part).collect() });
        let question = question.with_players(Some(groups.clone()));
        let explained_draws = Explainer::new(&functions, question.clone()).unwrap().explain(&row).unwrap();
        let explainer = Explainer::new(&problem.fit.model, question.with_covariance()).unwrap();
        let explanation =
            explainer.with_posterior(Some(&problem.fit.covariance)).unwrap().explain(&row).unwrap();
        let covariance = explanation.covariance(0, 0).unwrap();
        for (j, l) in (0..3).flat_map(|j| (0..3).map(move |l| (j, l))) {
            let deviation =
                |o: usize, k: usize| explained_draws.row_values(0, o)[k] - explanation.row_values(0, 0)[k];
            let mean = (0..draws).map(|o| deviation(o, j) * deviation(o, l)).sum::<f64>() / draws as f64;
            let size = covariance[j * 3 + j] * covariance[l * 3 + l] + covariance[j * 3 + l].powi(2);
            let error = (size / draws as f64).sqrt();
            assert!((mean - covariance[j * 3 + l]).abs() < 4.0 * error, "{j} {l}: {mean} {covariance:?}");
        }
    }
}

/// The covariance of values from refits equals the covariance of the refits' values, for any number of
/// players.
#[test]
fn refit_covariances_are_those_of_their_values() {
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
        method: Refitted::Drawn { seed: 1 },
    }];
    let covariance =
        PosteriorCovariance { prior_scale: 0.0, mirror: None, reduction: known, scale: vec![1.0] };
    let (low, high): (Vec<usize>, Vec<usize>) = ((0..6).collect(), (6..d).collect());
    let parts = [(low, s.normals(3, 6)), (high, s.normals(2, 7))];
    let parts =
        parts.map(|(columns, rows)| Part::new(&columns, &rows, None).background(&model).into()).to_vec();
    let (question, row) = (Question::from(Game::Independent { parts }), s.normals(1, d));
    let all_coalitions = Budget { coalitions: 1 << d, ..Budget::default() };
    let refit_question = question.clone().with_budget(all_coalitions);
    let refit_values = Explainer::new(&refits, refit_question).unwrap().explain(&row).unwrap();
    let explainer = Explainer::new(&model, question.with_covariance()).unwrap();
    let explanation = explainer.with_posterior(Some(&covariance)).unwrap().explain(&row).unwrap();
    let product_sum = |j: usize, l: usize| {
        (0..2).map(|o| refit_values.row_values(0, o)[j] * refit_values.row_values(0, o)[l]).sum::<f64>()
    };
    let expected: Vec<f64> = (0..d * d).map(|entry| product_sum(entry / d, entry % d)).collect();
    close(explanation.covariance(0, 0).unwrap(), &expected, "refits");
}

#[test]
fn games_without_covariance_are_refused() {
    let problem = case([0.7, 1.9], false, gaussian(), 8);
    let refusal = |question: Question| {
        let explainer = Explainer::new(&problem.fit.model, question.with_covariance());
        explainer.and_then(|e| e.with_posterior(Some(&problem.fit.covariance))).err().unwrap().to_string()
    };
    let part = |columns: &[usize]| {
        let rows = Table::from_rows(&[vec![0.5; columns.len()], vec![-0.5; columns.len()]]).unwrap();
        Part::new(columns, &rows, None).background(&problem.fit.model).into()
    };
    let names: Vec<(String, Vec<String>)> =
        (0..3).map(|j| (format!("x{j}"), vec![format!("left_x{j}"), format!("right_x{j}")])).collect();
    let groups = Players::named(problem.fit.model.columns(), &names).unwrap();
    let apart = |parts| Question::from(Game::Independent { parts });
    let torn = refusal(apart(vec![part(&[0, 1, 2]), part(&[3, 4, 5])]));
    assert!(torn.contains("the columns of both items"), "{torn}");
    let across = apart(vec![part(&[0, 1]), part(&[2, 3, 4, 5])]).with_players(Some(groups.clone()));
    assert!(refusal(across).contains("swap with those of one part"));
    let pairs = apart(vec![part(&[0, 1, 2]), part(&[3, 4, 5])]).with_players(Some(groups.clone()));
    assert!(refusal(pairs.clone().with_index("k-sii".parse().unwrap())).contains("Beta-Shapley"));
    let row_wise = Question::from(Game::observational(&problem.fit.model)).with_players(Some(groups));
    assert!(refusal(row_wise).contains("the game of independent parts"));
    let explainer = Explainer::new(&problem.fit.model, pairs.with_covariance()).unwrap();
    let explainer = explainer.with_posterior(Some(&problem.fit.covariance)).unwrap();
    assert!(
        explainer.variance_shares(&problem.rows).unwrap_err().to_string().contains("shares of the variance")
    );
    // More players than the limit for pairs of coalitions.
    let mut s = Stream(9);
    let x = s.normals(8, 13);
    let y = Matrix::column_vector((0..8).map(|_| s.signed()).collect());
    let fit = GaussianProcess::new(Kernel::gaussian(&[4.0; 13]), 0.2).fit(&x, &y).unwrap();
    let game = Game::Independent { parts: vec![x.into()] };
    let explainer = Explainer::new(&fit.model, Question::from(game).with_covariance()).unwrap();
    let error = explainer.with_posterior(Some(&fit.covariance)).err().unwrap().to_string();
    assert!(error.contains("at most 12 features, and there are 13"), "{error}");
}
