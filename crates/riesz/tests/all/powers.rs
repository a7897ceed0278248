//! Games of polynomial kernels over columns of several players, against predictions for all coalitions.
//!
//! The oracle does not use powers: it predicts mixtures of the explained row and background rows.

use proptest::prelude::*;
use riesz::kernel::Polynomial;
use riesz::{
    Background, Error, Exactness, Explainer, Game, Isa, Kernel, KernelExpansion, Matrix, Players, Question,
    Table, ValueIndex,
};

use crate::common::{Stream, with_threads};
use crate::interactions::{moebius, weight};

pub const GAMES: [&str; 3] = ["baseline", "interventional", "marginal-product"];

fn polynomial(columns: Vec<usize>, degree: u32, coef0: f64, s: &mut Stream) -> Kernel {
    let units = |s: &mut Stream, from: f64| columns.iter().map(|_| from + 0.3 * s.signed()).collect();
    let (center, scale) = (units(s, 0.0), units(s, 1.0));
    Polynomial { columns, center, scale, gamma: 0.4, coef0, degree }.into()
}

pub struct Case {
    pub model: KernelExpansion,
    pub rows: Table,
    pub background: Background,
}

pub fn case(d: usize, degree: u32, outputs: usize, seed: u64) -> Case {
    let mut s = Stream(seed);
    let coef0 = [0.0, 1.0, 2.5, -1.5][(seed % 4) as usize];
    let mut kernel = 0.7 * polynomial((0..d).collect(), degree, coef0, &mut s);
    // With a second power over other columns, and with products.
    if d > 2 && seed.is_multiple_of(2) {
        kernel = kernel + polynomial((1..d).rev().collect(), 2, 1.0, &mut s);
    }
    if seed % 5 < 2 {
        kernel = kernel + Kernel::gaussian(&vec![1.3; d]);
    }
    let n = 11;
    let coef = Matrix::from_row_major(n, outputs, (0..n * outputs).map(|_| s.signed()).collect());
    let intercept = (0..outputs).map(|o| o as f64 - 0.5).collect();
    let points = s.normals(n, d);
    let model = KernelExpansion::new(kernel, points, coef, intercept).unwrap();
    let background = Background { rows: s.normals(3, d), weights: Some(vec![0.5, 1.0, 0.25]) };
    Case { model, rows: s.normals(2, d), background }
}

pub fn game(case: &Case, name: &str) -> Game {
    let background = case.background.clone();
    match name {
        "baseline" => Game::Baseline { point: background.rows.select_rows(&[0]) },
        "interventional" => Game::Interventional { background },
        _ => Game::MarginalProduct { background },
    }
}

/// Returns the value of a coalition for each output: the mean prediction over rows whose absent players have
/// background values, jointly or independently.
pub fn coalition_values(
    case: &Case,
    name: &str,
    x: &[f64],
    players: &[Vec<usize>],
    present: &[bool],
) -> Vec<f64> {
    let weights = [0.5, 1.0, 0.25].map(|w| w / 1.75);
    let count = if name == "baseline" { 1 } else { 3 };
    let independent = name == "marginal-product";
    let draws = if independent { 3_usize.pow(players.len() as u32) } else { count };
    let (mut rows, mut probabilities) = (Vec::new(), Vec::new());
    for draw in 0..draws {
        let (mut row, mut probability) =
            (x.to_vec(), if count == 1 || independent { 1.0 } else { weights[draw] });
        for (p, columns) in players.iter().enumerate() {
            let b = if independent { draw / 3_usize.pow(p as u32) % 3 } else { draw };
            probability *= if independent { weights[b] } else { 1.0 };
            if !present[p] {
                columns.iter().for_each(|&j| row[j] = case.background.rows.get(b, j));
            }
        }
        rows.push(row);
        probabilities.push(probability);
    }
    let predictions = case.model.predict(&Table::from_rows(&rows).unwrap()).unwrap();
    (0..case.model.outputs())
        .map(|o| (0..draws).map(|t| probabilities[t] * predictions[(t, o)]).sum())
        .collect()
}

pub fn indices() -> Vec<ValueIndex> {
    let texts = [
        "sii", "k-sii", "stii", "fsii", "bii", "fbii", "moebius", "sii(3)", "k-sii(4)", "stii(3)", "fsii(3)",
        "fbii(4)",
    ];
    let pairs = texts.map(|text| text.parse::<ValueIndex>().unwrap());
    let values = [
        ValueIndex::Shapley,
        ValueIndex::Banzhaf { inclusion_probability: 0.3 },
        ValueIndex::Banzhaf { inclusion_probability: 1.0 },
        ValueIndex::BetaShapley { alpha: 4.0, beta: 1.0 },
        ValueIndex::BetaShapley { alpha: 0.5, beta: 2.5 },
        "semivalue(0.1: 0.25, 0.7: 0.5, 1: 0.25)".parse().unwrap(),
    ];
    values.into_iter().chain(pairs).collect()
}

/// Returns the weight of a dividend of s players in the index of a set of `size` players.
fn weight_of(index: ValueIndex, size: usize, s: usize) -> f64 {
    match index {
        ValueIndex::Shapley => 1.0 / s as f64,
        ValueIndex::Banzhaf { inclusion_probability: chance } => chance.powi(s as i32 - 1),
        ValueIndex::BetaShapley { alpha, beta } => {
            (0..s - 1).map(|i| (beta + i as f64) / (alpha + beta + i as f64)).product()
        }
        ValueIndex::Semivalue(distribution) => {
            distribution.weighted_probabilities().iter().map(|[t, w]| w * t.powi(s as i32 - 1)).sum()
        }
        ValueIndex::Interaction { kind, order } => weight(kind, order, size, s),
        _ => panic!("{index}"),
    }
}

/// Returns the values of all sets for one row and output, from the dividends of coalitions.
fn truth(index: ValueIndex, sets: &[Vec<usize>], dividends: &[f64]) -> Vec<f64> {
    let set_value = |set: &Vec<usize>| {
        let set_mask: usize = set.iter().map(|j| 1 << j).sum();
        let supersets = (0..dividends.len()).filter(|mask| mask & set_mask == set_mask);
        supersets.map(|mask| weight_of(index, set.len(), mask.count_ones() as usize) * dividends[mask]).sum()
    };
    sets.iter().map(set_value).collect()
}

/// Returns an upper limit for the stated bound, relative to the sum of the sizes of all dividends.
fn tight(index: ValueIndex, degree: u32) -> f64 {
    if index == ValueIndex::Shapley && degree < 5 { 1e-9 } else { f64::INFINITY }
}

pub fn check(case: &Case, index: ValueIndex, groups: Option<Players>, players: &[Vec<usize>], tight: f64) {
    for name in GAMES {
        if name == "marginal-product" && players.len() > 5 {
            continue;
        }
        let question = Question::from(game(case, name)).with_index(index).with_players(groups.clone());
        let explanation = Explainer::new(&case.model, question).unwrap().explain(&case.rows).unwrap();
        explanation.validate().unwrap();
        if let Some(certificate) = explanation.certificate() {
            assert!(certificate.holds, "{index} {name}: {certificate:?}");
        }
        let Exactness::Exact { bound } = &explanation.exactness else { panic!("not exact") };
        let p = players.len();
        let singles = (0..p).map(|j| vec![j]).collect();
        let sets = explanation.subsets.clone().unwrap_or(singles);
        for i in 0..case.rows.rows() {
            let x = case.rows.row(i);
            for o in 0..case.model.outputs() {
                let value = |s: &[bool]| coalition_values(case, name, &x, players, s)[o];
                let dividends = moebius(p, value);
                let size: f64 = dividends.iter().map(|v| v.abs()).sum();
                let row_bound = bound[i * case.model.outputs() + o];
                // The bound is not so wide that it holds for any value.
                assert!(row_bound < tight * (1.0 + size), "{index} {name}: {row_bound} {size}");
                for ((set, actual), truth) in
                    sets.iter().zip(explanation.row_values(i, o)).zip(truth(index, &sets, &dividends))
                {
                    let gap = (actual - truth).abs();
                    assert!(
                        gap <= row_bound.min(1e-9 * (1.0 + size)) + 1e-13 * (1.0 + size),
                        "{index} {name} {set:?}: {actual} {truth} {row_bound}"
                    );
                }
                let base = value(&vec![false; p]);
                assert!(
                    (explanation.base_values[i * case.model.outputs() + o] - base).abs()
                        <= row_bound + 1e-13 * (1.0 + size)
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn indices_are_their_definition(
        d in 2..6_usize, degree in 1..9_u32, outputs in 1..3_usize, seed: u64, index in prop::sample::select(indices()),
    ) {
        let players: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).collect();
        check(&case(d, degree, outputs, seed), index, None, &players, tight(index, degree));
    }

    #[test]
    fn groups_are_players(degree in 2..6_u32, seed: u64, index in prop::sample::select(indices())) {
        let case = case(5, degree, 1, seed);
        let names: Vec<String> = case.model.columns().iter().map(|c| c.name.clone()).collect();
        let pair = ("both".to_string(), vec![names[1].clone(), names[4].clone()]);
        let groups = Players::named(case.model.columns(), &[pair]).unwrap();
        let players: Vec<Vec<usize>> = groups.players().iter().map(|p| p.columns.clone()).collect();
        check(&case, index, Some(groups), &players, tight(index, degree));
    }
}

/// Up to eight columns, and the highest degree.
#[test]
fn many_columns_and_high_degrees() {
    for (d, degree) in [(8, 3), (8, 5), (3, 20), (4, 13)] {
        let players: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).collect();
        for index in [ValueIndex::Shapley, "fsii".parse().unwrap()] {
            check(&case(d, degree, 1, 7), index, None, &players, tight(index, degree));
        }
    }
}

/// Games of integer rows have integer sums: the bounds hold to the last digits, also with cancellation.
#[test]
fn bounds_hold_for_whole_numbers() {
    let mut s = Stream(3);
    let mut worst = 0.0_f64;
    for round in 0..400 {
        let (d, degree) = (2 + round % 3, 1 + (round / 3 % 6) as u32);
        let largest = [3.0, 40.0, 300.0][round % 3];
        let mut row = || -> Vec<f64> { (0..d).map(|_| (largest * s.signed()).round()).collect() };
        let (points, x, b) = ([row(), row()], row(), row());
        let kernel: Kernel = Polynomial {
            columns: (0..d).collect(),
            center: vec![0.0; d],
            scale: vec![1.0; d],
            gamma: 1.0,
            coef0: 2.0,
            degree,
        }
        .into();
        let coef = Matrix::column_vector(vec![3.0, -2.0]);
        let model =
            KernelExpansion::new(kernel, Table::from_rows(&points).unwrap(), coef, vec![0.0]).unwrap();
        let game = Game::Baseline { point: Table::from_rows(std::slice::from_ref(&b)).unwrap() };
        let explanation = Explainer::new(&model, game)
            .unwrap()
            .explain(&Table::from_rows(std::slice::from_ref(&x)).unwrap())
            .unwrap();
        let Exactness::Exact { bound } = &explanation.exactness else { panic!("not exact") };
        let coalition_value = |mask: usize| -> i128 {
            let power = |p: &[f64]| {
                let mixed = (0..d).map(|j| if mask >> j & 1 == 1 { x[j] } else { b[j] });
                let sum = mixed.zip(p).fold(2, |sum, (v, p)| sum + v as i128 * *p as i128);
                sum.pow(degree)
            };
            3 * power(&points[0]) - 2 * power(&points[1])
        };
        let factorial = |n: usize| (1..=n as i128).product::<i128>();
        for j in 0..d {
            let masks = (0..1_usize << d).filter(|mask| mask >> j & 1 == 0);
            let times = masks.map(|mask| {
                let size = mask.count_ones() as usize;
                factorial(size)
                    * factorial(d - size - 1)
                    * (coalition_value(mask | 1 << j) - coalition_value(mask))
            });
            let times: i128 = times.sum();
            let (quotient, remainder) = (times / factorial(d), times % factorial(d));
            // Allowance for the rounding of the reference value.
            let value = explanation.values[j];
            let gap = ((value as i128 - quotient) as f64
                + (value.fract() - remainder as f64 / factorial(d) as f64))
                .abs();
            assert!(gap <= bound[0], "{d} {degree} {largest}: {value} {quotient}, {gap} {}", bound[0]);
            worst = worst.max(gap / bound[0]);
        }
    }
    assert!(worst > 1e-6, "{worst}");
}

#[test]
fn instruction_sets_threads_and_functionals_agree() {
    for degree in [3, 7] {
        let case = case(5, degree, 1, 4);
        for name in GAMES {
            let explainer = || Explainer::new(&case.model, game(&case, name)).unwrap();
            let reference = explainer().explain(&case.rows).unwrap();
            let Exactness::Exact { bound } = &reference.exactness else { panic!("not exact") };
            for isa in Isa::available() {
                let other = explainer().with_isa(isa).explain(&case.rows).unwrap();
                for (a, b) in reference.values.iter().zip(&other.values) {
                    assert!((a - b).abs() <= 2.0 * bound[0].max(bound[1]), "{}: {a} {b}", isa.name());
                }
            }
            let serial = with_threads(1, || explainer().explain(&case.rows).unwrap());
            let parallel = with_threads(3, || explainer().explain(&case.rows).unwrap());
            assert_eq!(serial.values, parallel.values);
            assert_eq!(serial.exactness, parallel.exactness);
            let players: Vec<usize> = (0..5).collect();
            for (j, functional) in explainer().functionals(&case.rows, &players).unwrap().iter().enumerate() {
                for i in 0..case.rows.rows() {
                    let value: f64 = (0..case.model.support_points.rows())
                        .map(|p| functional[(p, i)] * case.model.coef[(p, 0)])
                        .sum();
                    assert!(
                        (value - reference.row_values(i, 0)[j]).abs() <= 2.0 * bound[i] + 1e-12,
                        "{name} {j}"
                    );
                }
            }
        }
    }
}

/// Columns outside the kernel have the value 0, and columns within it do not.
#[test]
fn unused_columns_have_zero_values() {
    let mut s = Stream(9);
    let kernel = polynomial(vec![0, 2], 3, 1.0, &mut s);
    let coef = Matrix::column_vector((0..20).map(|_| s.signed()).collect());
    let model = KernelExpansion::new(kernel, s.normals(20, 3), coef, vec![0.0]).unwrap();
    let (rows, background) = (s.normals(3, 3), s.normals(4, 3));
    let explanation = Explainer::interventional(&model, &background).unwrap().explain(&rows).unwrap();
    for i in 0..3 {
        assert_eq!(explanation.row_values(i, 0)[1], 0.0);
        assert!(explanation.row_values(i, 0)[0].abs() > 1e-6);
    }
}

#[test]
fn the_functional_game_error_names_valid_games() {
    let case = case(4, 3, 1, 1);
    let error = Explainer::functional(&case.model).err().unwrap();
    assert!(matches!(error, Error::Parameter { .. }));
    let message = error.to_string();
    assert!(
        message.contains("functional") && message.contains("with a background or a baseline"),
        "{message}"
    );
    // A kernel that is neither a power nor a product has exact values in no game.
    let mut s = Stream(2);
    let product = polynomial(vec![0, 1], 2, 1.0, &mut s) * Kernel::gaussian(&[1.0]);
    let model =
        KernelExpansion::new(product, s.normals(3, 2), Matrix::column_vector(vec![1.0; 3]), vec![0.0])
            .unwrap();
    let error = Explainer::interventional(&model, &s.normals(2, 2)).err().unwrap();
    assert!(
        matches!(error, Error::NotProduct { .. }) && error.to_string().contains("one feature"),
        "{error}"
    );
}

/// Errors for overflow name the affected values.
#[test]
fn overflow_is_reported() {
    let mut s = Stream(5);
    let kernel = polynomial(vec![0, 1], 4, 1.0, &mut s);
    let model = KernelExpansion::new(kernel, s.normals(9, 2), Matrix::column_vector(vec![1.0; 9]), vec![0.0])
        .unwrap();
    let rows = Table::from_rows(&[[1e100, 1.0]]).unwrap();
    let error = Explainer::interventional(&model, &s.normals(2, 2)).unwrap().explain(&rows).unwrap_err();
    assert!(matches!(error, Error::Overflow { .. }), "{error}");
}
