//! The engine against enumeration of all coalitions, on random kernels of every kind.
//!
//! The oracle's games follow their definitions: interventional and baseline values from predictions at hybrid
//! rows (which do not rely on products), functional and marginal-product values from one-column kernels.

use proptest::prelude::*;
use riesz::attribution::enumeration::shapley;
use riesz::kernel::{Categorical, ExponentialDotProduct, Linear, Periodic, Polynomial, Profile, Sigmoid};
use riesz::{Background, Explainer, Game, Isa, Kernel, KernelExpansion, Matrix, Players, Question, Table};

use crate::common::{Stream, Terms, stationary, value, with_threads};

const KINDS: usize = 13;

fn one_column(kind: usize, j: usize, s: &mut Stream) -> Kernel {
    let length_scale = 0.5 + s.signed().abs() * 2.0;
    let stationary = |profile| stationary(profile, j, length_scale);
    match kind {
        0 => stationary(Profile::Gaussian),
        1 => stationary(Profile::Exponential),
        2 => stationary(Profile::Matern32),
        3 => stationary(Profile::Matern52),
        4 => stationary(Profile::RationalQuadratic { alpha: 0.7 }),
        5 => stationary(Profile::Cauchy),
        6 => Periodic { columns: [j], period: 1.3, length_scale }.into(),
        7 => Linear { columns: vec![j], center: vec![0.2], scale: vec![1.5] }.into(),
        8 => Polynomial {
            columns: vec![j],
            center: vec![0.1],
            scale: vec![1.0],
            gamma: 0.8,
            coef0: 1.0,
            degree: 3,
        }
        .into(),
        9 => Categorical { columns: [j], similarity: 0.3 }.into(),
        10 => Categorical { columns: [j], similarity: 0.0 }.into(),
        11 => {
            ExponentialDotProduct { columns: vec![j], center: vec![0.2], scale: vec![1.5], gamma: 0.8 }.into()
        }
        _ => stationary(Profile::Gaussian) * stationary(Profile::Exponential),
    }
}

/// A model, and its kernel also as terms of (scale, one-column kernels) for the oracle.
pub struct Case {
    pub terms: Terms,
    pub model: KernelExpansion,
    pub background: Background,
    pub rows: Table,
}

pub fn case(d: usize, n: usize, outputs: usize, terms: usize, seed: u64) -> Case {
    let mut s = Stream(seed);
    let mut list = Vec::new();
    let mut kernel: Option<Kernel> = None;
    for _ in 0..terms {
        let scale = 0.3 + s.signed().abs();
        let mut factors = Vec::new();
        let mut product = Kernel::constant(scale);
        for j in 0..d {
            // Some columns are missing from some terms.
            if terms > 1 && s.signed() > 0.5 {
                continue;
            }
            let kind = (s.signed().abs() * KINDS as f64) as usize % KINDS;
            let factor = one_column(kind, j, &mut s);
            product = product * factor.clone();
            factors.push((j, factor));
        }
        list.push((scale, factors));
        kernel = Some(match kernel {
            None => product,
            Some(sum) => sum + product,
        });
    }
    let points = s.table(n, d);
    let coef = Matrix::from_row_major(n, outputs, (0..n * outputs).map(|_| s.signed()).collect());
    let intercept = (0..outputs).map(|_| s.signed()).collect();
    let weights = (0..5).map(|i| if i == 3 { 0.0 } else { s.signed().abs() + 0.1 }).collect();
    let background = Background { rows: s.table(5, d), weights: Some(weights) };
    let random = s.table(3, d);
    // One explained row is a support point, another one a background row.
    let mut rows: Vec<Vec<f64>> = (0..3).map(|i| random.row(i)).collect();
    rows.push(points.row(0));
    rows.push(background.rows.row(1));
    let rows = Table::from_rows(&rows).unwrap();
    Case {
        terms: list,
        model: KernelExpansion::new(kernel.unwrap(), points, coef, intercept).unwrap(),
        background,
        rows,
    }
}

pub const PRODUCT_GAMES: [&str; 4] = ["functional", "baseline", "interventional", "marginal-product"];

pub fn game(case: &Case, name: &str) -> Game {
    match name {
        "functional" => Game::Functional,
        "baseline" => Game::Baseline { point: case.background.rows.select_rows(&[0]) },
        "interventional" => Game::Interventional { background: case.background.clone() },
        _ => Game::MarginalProduct { background: case.background.clone() },
    }
}

fn check(case: &Case, groups: Option<Players>) {
    let d = case.model.support_points.width();
    let players: Vec<Vec<usize>> = match &groups {
        None => (0..d).map(|j| vec![j]).collect(),
        Some(groups) => groups.players().iter().map(|p| p.columns.clone()).collect(),
    };
    let m = case.model.outputs();
    for name in PRODUCT_GAMES {
        let game = game(case, name);
        let explainer =
            Explainer::new(&case.model, Question::from(game.clone()).with_players(groups.clone())).unwrap();
        let explanation = explainer.explain(&case.rows).unwrap();
        explanation.validate().unwrap();
        let certificate = explanation.certificate().unwrap();
        assert!(certificate.holds, "{name}: {certificate:?}");
        let riesz::Exactness::Exact { bound, .. } = &explanation.exactness else { unreachable!() };
        for i in 0..case.rows.rows() {
            for o in 0..m {
                let x = case.rows.row(i);
                let value = |s: &[bool]| value(&case.model, &case.terms, &game, &x, o, &players, s);
                let truth = shapley(players.len(), value);
                let empty = value(&vec![false; players.len()]);
                let scale = truth.iter().fold(empty.abs(), |a, b| a.max(b.abs())).max(1.0);
                assert!((explanation.base_values[i * m + o] - empty).abs() < 1e-12 * scale);
                for (j, (value, truth)) in explanation.row_values(i, o).iter().zip(&truth).enumerate() {
                    let error = (value - truth).abs();
                    assert!(error <= 1e-12 * scale, "{name} row {i} output {o} feature {j}: {value} {truth}");
                    // The oracle has rounding errors of about the same size.
                    let bound = bound[i * m + o];
                    assert!(error <= 2.0 * bound + 1e-15 * scale, "{name}: {error:e} > {bound:e}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_enumeration(d in 1_usize..8, n in 1_usize..20, outputs in 1_usize..4, terms in 1_usize..4, seed: u64) {
        check(&case(d, n, outputs, terms, seed), None);
    }

    #[test]
    fn groups_are_players(d in 3_usize..8, n in 1_usize..12, terms in 1_usize..3, seed: u64) {
        let case = case(d, n, 1, terms, seed);
        let groups = Players::named(case.model.columns(), &[("pair", vec!["x0", "x2"])]).unwrap();
        check(&case, Some(groups));
    }

    /// Symmetric players get equal values, null players none, and values add over models.
    #[test]
    fn axioms(n in 2_usize..20, seed: u64) {
        let mut s = Stream(seed);
        let kernel = Kernel::gaussian(&[1.3, 1.3, 0.8]) + Kernel::stationary(Profile::Cauchy, &[1.0, 1.0, 2.0]);
        // Columns 1 and 2 are equal; the kernel does not read column 4.
        let mut table = |n: usize| {
            let mut row = |_| { let u = s.signed(); [u, u, s.signed(), s.signed()] };
            Table::from_rows(&(0..n).map(&mut row).collect::<Vec<_>>()).unwrap()
        };
        let (points, background, rows) = (table(n), table(4), table(3));
        let mut coef = || Matrix::column_vector((0..n).map(|_| s.signed()).collect());
        let (first, two) = (coef(), coef());
        let sum = Matrix::column_vector(first.data().iter().zip(two.data()).map(|(a, b)| a + b).collect());
        for game in [
            Game::Functional,
            Game::Interventional { background: background.clone().into() },
            Game::MarginalProduct { background: background.into() },
        ] {
            let explain = |coef: &Matrix| {
                let model = KernelExpansion::new(kernel.clone(), points.clone(), coef.clone(), vec![0.5]).unwrap();
                Explainer::new(&model, game.clone()).unwrap().explain(&rows).unwrap()
            };
            let (a, b, c) = (explain(&first), explain(&two), explain(&sum));
            for i in 0..3 {
                let phi = a.row_values(i, 0);
                prop_assert!((phi[0] - phi[1]).abs() < 1e-13);
                prop_assert_eq!(phi[3], 0.0);
                for j in 0..4 {
                    prop_assert!((phi[j] + b.row_values(i, 0)[j] - c.row_values(i, 0)[j]).abs() < 1e-12);
                }
            }
        }
    }
}

#[test]
fn every_instruction_set_agrees() {
    let case = case(9, 100, 2, 2, 7);
    for name in PRODUCT_GAMES {
        let explain = |isa| {
            let explainer = Explainer::new(&case.model, game(&case, name)).unwrap();
            explainer.with_isa(isa).explain(&case.rows).unwrap()
        };
        let sets = Isa::available();
        let plain = explain(sets[0]);
        let scale = plain.values.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
        for &isa in &sets[1..] {
            for (a, b) in plain.values.iter().zip(&explain(isa).values) {
                assert!((a - b).abs() < 1e-13 * scale, "{}: {a} {b}", isa.name());
            }
        }
    }
}

#[test]
fn threads_and_batches_do_not_change_a_bit() {
    let case = case(7, 300, 1, 1, 11);
    let rows = Stream(5).table(40, 7);
    let explainer = Explainer::new(&case.model, game(&case, "interventional")).unwrap();
    let run = |threads: usize, rows: &Table| with_threads(threads, || explainer.explain(rows).unwrap());
    let single_threaded = run(1, &rows);
    for threads in [2, 3] {
        let other = run(threads, &rows);
        assert!(single_threaded.values.iter().zip(&other.values).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
    let single = run(1, &rows.select_rows(&[17]));
    assert!(
        single.values.iter().zip(single_threaded.row_values(17, 0)).all(|(a, b)| a.to_bits() == b.to_bits())
    );
}

/// One support point with all factors equal to z: φ_j = (z^d - 1)/d for any d.
#[test]
fn ten_thousand_features() {
    for (d, gap) in [(1_040, 1.0), (10_000, 0.05), (10_000, 1.0), (10_000, 40.0), (10_000, 1e-9)] {
        let points = Table::from_rows(&[vec![0.0; d]]).unwrap();
        let coef = Matrix::column_vector(vec![2.0]);
        let model = KernelExpansion::new(Kernel::gaussian(&vec![1.0; d]), points, coef, vec![0.0]).unwrap();
        let row = Table::from_rows(&[vec![gap; d]]).unwrap();
        let explanation = Explainer::new(&model, Game::Functional).unwrap().explain(&row).unwrap();
        let log_product = -0.5 * gap * gap * d as f64;
        let truth = 2.0 * log_product.exp_m1() / d as f64;
        let certificate = explanation.certificate().unwrap();
        assert!(certificate.holds && certificate.residual < 1e-11, "{d} {gap}: {certificate:?}");
        // Where z is within rounding of 1, 1 - z has few significant digits.
        let rounding = f64::EPSILON * 2.0;
        for value in &explanation.values {
            assert!((value - truth).abs() < 1e-11 * truth.abs() + rounding, "{d} {gap}: {value} {truth}");
        }
    }
}

/// Partial products reach 1e360 and 1e-360 on the way to a product of 1.
#[test]
fn products_beyond_the_range_of_doubles() {
    let d = 60;
    let linear =
        |j: usize| -> Kernel { Linear { columns: vec![j], center: vec![0.0], scale: vec![1.0] }.into() };
    let kernel = (0..d).map(linear).reduce(|a, b| a * b).unwrap();
    for size in [|j: usize| if j < 30 { 1e12 } else { 1e-12 }, |j: usize| if j < 30 { 1e-12 } else { 1e12 }] {
        let points = Table::from_rows(&[(0..d).map(size).collect::<Vec<_>>()]).unwrap();
        let model = KernelExpansion::new(kernel.clone(), points, Matrix::column_vector(vec![1.0]), vec![0.0])
            .unwrap();
        let row = Table::from_rows(&[vec![1.0; d]]).unwrap();
        let game = Game::Baseline { point: Table::from_rows(&[vec![0.5; d]]).unwrap() };
        let explainer = Explainer::new(&model, game).unwrap();
        // By symmetry all players share 1 - 2^-60 equally. Partial products of the prediction may overflow,
        // which must be reported.
        match explainer.explain(&row) {
            Ok(explanation) => {
                for value in &explanation.values {
                    assert!((value - 1.0 / 60.0).abs() < 1e-14, "{value}");
                }
            }
            Err(error) => assert!(error.to_string().contains("overflow"), "{error}"),
        }
    }
}

#[test]
fn a_kernel_without_product_form_says_so() {
    let kernel: Kernel =
        Sigmoid { columns: vec![0, 1], center: vec![0.0; 2], scale: vec![1.0; 2], gamma: 0.3, coef0: 0.1 }
            .into();
    let points = Stream(1).table(5, 3);
    let model = KernelExpansion::new(kernel, points, Matrix::column_vector(vec![1.0; 5]), vec![0.0]).unwrap();
    let error = Explainer::new(&model, Game::Functional).err().unwrap();
    assert!(matches!(&error, riesz::Error::NotProduct { columns, .. } if columns == "x0, x1"), "{error}");
    let groups = Players::named(model.columns(), &[("both", vec!["x0", "x1"])]).unwrap();
    assert!(
        Explainer::new(&model, Question::from(Game::Functional).with_players(Some(groups.clone()))).is_ok()
    );
}

/// Rows that differ from the baseline in a few of many columns: runs of the other columns are multiplied into
/// the weights. The oracle predicts all mixtures of the differing columns.
#[test]
fn sparse_rows_are_enumerated() {
    const D: usize = 61;
    let number = |i: usize, j: usize| ((i * 37 + j * 101) % 89) as f64 / 30.0 - 1.4;
    let points: Vec<Vec<f64>> = (0..43).map(|i| (0..D).map(|j| number(i, j)).collect()).collect();
    let coef = (0..43).map(|i| number(i, 7) + 0.1).collect();
    let kernel = Kernel::stationary(Profile::Exponential, &[40.0; D]) * Kernel::gaussian(&[9.0; D])
        + Kernel::stationary(Profile::Cauchy, &[15.0; D]);
    let model = KernelExpansion::new(
        kernel,
        Table::from_rows(&points).unwrap(),
        Matrix::column_vector(coef),
        vec![0.3],
    )
    .unwrap();
    let baseline: Vec<f64> = (0..D).map(|j| number(91, j)).collect();
    let game = || Game::Baseline { point: Table::from_rows(std::slice::from_ref(&baseline)).unwrap() };
    for differing in [vec![], vec![0], vec![60], vec![3, 4, 31, 32, 58], vec![0, 1, 2, 30, 59, 60]] {
        let k = differing.len();
        let mixture = |mask: usize| {
            let mut row = baseline.clone();
            (0..k).filter(|i| mask >> i & 1 == 1).for_each(|i| row[differing[i]] += 0.7 + i as f64);
            row
        };
        let mixtures: Vec<Vec<f64>> = (0..1 << k).map(mixture).collect();
        let v = model.predict(&Table::from_rows(&mixtures).unwrap()).unwrap();
        let phi = shapley(k, |s| v[(s.iter().enumerate().map(|(i, &on)| usize::from(on) << i).sum(), 0)]);
        let mut expected = vec![0.0; D];
        differing.iter().zip(&phi).for_each(|(&j, p)| expected[j] = *p);
        let x = Table::from_rows(&[mixture((1 << k) - 1)]).unwrap();
        let explanation = Explainer::new(&model, game()).unwrap().explain(&x).unwrap();
        assert!(explanation.certificate().unwrap().holds);
        for (j, (value, expected)) in explanation.values.iter().zip(&expected).enumerate() {
            assert!((value - expected).abs() < 1e-12, "{differing:?} {j}: {value} {expected}");
            assert!(differing.contains(&j) || *value == 0.0);
        }
    }
}

/// Rows and support points with few non-zeros among many columns. Where both are zero a Gaussian factor is 1,
/// and nothing is computed. The last factor is not 1 there. The oracle computes the game from its definition.
#[test]
fn sparse_support_points_are_enumerated() {
    const D: usize = 61;
    let number = |i: usize, j: usize| ((i * 37 + j * 101) % 89) as f64 / 30.0 - 1.4;
    let used = [2, 3, 17, 30, 58];
    let sparse = |i: usize, columns: &[usize]| {
        (0..D).map(|j| if columns.contains(&j) { number(i, j) } else { 0.0 }).collect::<Vec<f64>>()
    };
    let points: Vec<Vec<f64>> = (0..43).map(|i| sparse(i, &used[i % 3..i % 3 + 2])).collect();
    let coef: Vec<f64> = (0..43).map(|i| number(i, 7) + 0.1).collect();
    let (center, scale) = (0.4, 1.5);
    let kernel = Kernel::gaussian(&[2.0; D])
        * Linear { columns: vec![D - 1], center: vec![center], scale: vec![scale] }.into();
    let coefs = Matrix::column_vector(coef.clone());
    let model = KernelExpansion::new(kernel, Table::from_rows(&points).unwrap(), coefs, vec![0.3]).unwrap();
    for nonzero in [vec![], vec![3], vec![0, 3, 59], vec![17, 40, 60]] {
        let x = sparse(91, &nonzero);
        let mut players: Vec<usize> = used.iter().chain(&nonzero).copied().chain([D - 1]).collect();
        players.sort_unstable();
        players.dedup();
        let phi = shapley(players.len(), |s| {
            let of_point = |p: &Vec<f64>| {
                let present = players.iter().zip(s).filter(|(_, on)| **on).map(|(&j, _)| j);
                present
                    .map(|j| {
                        let linear = if j == D - 1 {
                            (p[j] - center) * (x[j] - center) / (scale * scale)
                        } else {
                            1.0
                        };
                        (-(p[j] - x[j]).powi(2) / 8.0).exp() * linear
                    })
                    .product::<f64>()
            };
            points.iter().zip(&coef).map(|(p, c)| c * of_point(p)).sum()
        });
        let mut expected = vec![0.0; D];
        players.iter().zip(&phi).for_each(|(&j, p)| expected[j] = *p);
        let rows = Table::from_rows(&[x.clone(), x]).unwrap();
        let explanation = Explainer::new(&model, Game::Functional).unwrap().explain(&rows).unwrap();
        assert!(explanation.certificate().unwrap().holds);
        for (j, expected) in expected.iter().enumerate() {
            let value = explanation.row_values(1, 0)[j];
            assert!((value - expected).abs() < 1e-12, "{nonzero:?} {j}: {value} {expected}");
        }
    }
}

/// For kernels with constant terms only, all values are 0, and base value and prediction are rounded
/// separately.
#[test]
fn constants_are_certified() {
    check(&case(1, 5, 3, 2, 2_828_649_356_181_212_436), None);
    for seed in 0..200 {
        check(&case(1, 7, 2, 3, seed), None);
    }
}

/// Products of unbounded factors that leave the range of doubles in between and return to it: `e^{-800}`
/// times `e^{800}`.
#[test]
fn products_that_come_back_into_range() {
    let d = 800;
    let kernel: Kernel = riesz::kernel::ExponentialDotProduct {
        columns: (0..d).collect(),
        center: vec![0.0; d],
        scale: vec![1.0; d],
        gamma: 1.0,
    }
    .into();
    let support_points = Table::from_rows(&[vec![1.0; d]]).unwrap();
    let model =
        KernelExpansion::new(kernel, support_points, Matrix::column_vector(vec![1.0]), vec![0.0]).unwrap();
    let x: Vec<f64> = (0..d).map(|j| if j < d / 2 { -2.0 } else { 2.0 }).collect();
    let b: Vec<f64> = x.iter().enumerate().map(|(j, v)| v + if j % 97 == 0 { 0.5 } else { 0.0 }).collect();
    let (rows, background) = (Table::from_rows(&[x]).unwrap(), Table::from_rows(&[b]).unwrap());
    let explanation = Explainer::interventional(&model, &background).unwrap().explain(&rows).unwrap();
    assert!((explanation.predictions[0] - 1.0).abs() < 1e-12, "{}", explanation.predictions[0]);
    assert!(
        (explanation.base_values[0] / 4.5_f64.exp() - 1.0).abs() < 1e-12,
        "{}",
        explanation.base_values[0]
    );
    assert!(explanation.certificate().unwrap().holds, "{:?}", explanation.certificate());
}
