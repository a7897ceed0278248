//! Semivalues against sums over all coalitions with the published weights, and against closed forms.

use proptest::prelude::*;
use riesz::attribution::enumeration::semivalue;
use riesz::index::InclusionDistribution;
use riesz::kernel::Linear;
use riesz::{
    Background, Error, Exactness, Explainer, Explanation, Game, Kernel, Matrix, Question, Table, ValueIndex,
};

use crate::common::{Stream, value};
use crate::exact::{PRODUCT_GAMES, case, game};

/// Returns the weight of a coalition of each size among d players, from Marichal and Mathonet 2011, and Kwon
/// and Zou 2022.
fn weights(index: ValueIndex, d: usize) -> Vec<f64> {
    let n_others = d as i32 - 1;
    match index {
        ValueIndex::Banzhaf { inclusion_probability: chance } => {
            (0..=n_others).map(|s| chance.powi(s) * (1.0 - chance).powi(n_others - s)).collect()
        }
        ValueIndex::Semivalue(distribution) => {
            let weight = |s: i32| {
                distribution
                    .weighted_probabilities()
                    .iter()
                    .map(|[t, w]| w * t.powi(s) * (1.0 - t).powi(n_others - s))
                    .sum()
            };
            (0..=n_others).map(weight).collect()
        }
        ValueIndex::BetaShapley { alpha, beta } => {
            let rising = |x: f64, k: i32| (0..k).map(|i| x + f64::from(i)).product::<f64>();
            let weight = |s| rising(beta, s) * rising(alpha, n_others - s) / rising(alpha + beta, n_others);
            (0..=n_others).map(weight).collect()
        }
        other => panic!("no weights of {other}"),
    }
}

fn bound(explanation: &Explanation) -> &[f64] {
    let Exactness::Exact { bound } = &explanation.exactness else { panic!("not exact") };
    bound
}

fn explain(case: &crate::exact::Case, game: &Game, index: ValueIndex) -> Explanation {
    let question = Question::from(game.clone()).with_index(index);
    let explanation = Explainer::new(&case.model, question).unwrap().explain(&case.rows).unwrap();
    explanation.validate().unwrap();
    explanation
}

fn any_index() -> impl Strategy<Value = ValueIndex> {
    let shape = prop_oneof![Just(1.0), Just(4.0), Just(16.0), 0.2..3.0];
    let probability = prop_oneof![Just(0.0), Just(0.5), Just(1.0), 0.0..1.0];
    prop_oneof![
        probability.clone().prop_map(|inclusion_probability| ValueIndex::Banzhaf { inclusion_probability }),
        proptest::collection::vec((probability, 0.01..1.0), 1..7).prop_map(|drawn| {
            let sum: f64 = drawn.iter().map(|(_, weight)| weight).sum();
            let nodes: Vec<[f64; 2]> = drawn.iter().map(|(t, weight)| [*t, weight / sum]).collect();
            ValueIndex::Semivalue(InclusionDistribution::new(&nodes).unwrap())
        }),
        (shape.clone(), shape).prop_map(|(alpha, beta)| ValueIndex::BetaShapley { alpha, beta }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// Semivalues of sums of products of random factors match their definition, in every game with exact
    /// values.
    #[test]
    fn semivalues_are_their_definition(d in 1..8_usize, terms in 1..3_usize, seed: u64, index in any_index()) {
        let case = case(d, 12, 2, terms, seed);
        let players: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).collect();
        for name in PRODUCT_GAMES {
            let game = game(&case, name);
            let explanation = explain(&case, &game, index);
            prop_assert_eq!(explanation.index, index);
            for (g, bound) in bound(&explanation).iter().enumerate() {
                let (i, o) = (g / 2, g % 2);
                let x = case.rows.row(i);
                let coalition_value = |s: &[bool]| value(&case.model, &case.terms, &game, &x, o, &players, s);
                let truth = semivalue(d, &weights(index, d), coalition_value);
                for (actual, truth) in explanation.row_values(i, o).iter().zip(&truth) {
                    let (gap, size) = ((actual - truth).abs(), truth.abs().max(1.0));
                    // The oracle has rounding errors too, about as large as the bound allows.
                    prop_assert!(gap <= bound + 1e-11 * size, "{} {}: {} {} \
                                                               {}", name, index, actual, truth, bound);
                    prop_assert!(*bound < 1e-6 * (1.0 + size) * 1e3);
                }
            }
        }
    }
}

/// Products of d equal factors, `1 + t (z - 1)` to the power of d - 1 averaged over t, against the moments of
/// a Beta distribution, for measures that need few nodes and many.
#[test]
fn long_products_against_series() {
    for (alpha, beta) in [(4.0, 1.0), (1.0, 16.0), (0.5, 0.5), (30.0, 2.5)] {
        for (d, distance) in [(3, 2.0), (40, 0.1), (40, 1.5), (300, 0.05), (300, 1.0)] {
            let kernel = Kernel::gaussian(&vec![1.0; d]);
            let points = Table::from_rows(&[vec![0.0; d]]).unwrap();
            let model =
                riesz::KernelExpansion::new(kernel, points, Matrix::column_vector(vec![1.0]), vec![0.0])
                    .unwrap();
            let question =
                Question::from(Game::Functional).with_index(ValueIndex::BetaShapley { alpha, beta });
            let row = Table::from_rows(&[vec![distance; d]]).unwrap();
            let explanation = Explainer::new(&model, question).unwrap().explain(&row).unwrap();
            // E (1 - u t)^(d-1) = Σ_s weight_s C(d-1, s) z^s, where all terms have the same sign.
            let z = (-0.5 * distance * distance).exp();
            let (mut term, mut sum) =
                ((0..d - 1).map(|i| (alpha + i as f64) / (alpha + beta + i as f64)).product::<f64>(), 0.0);
            for s in 0..d {
                sum += term;
                let (s, left) = (s as f64, (d - 1 - s) as f64);
                term *= (beta + s) / (alpha + left - 1.0) * left / (s + 1.0) * z;
            }
            let truth = (-0.5 * distance * distance).exp_m1() * sum;
            for value in &explanation.values {
                let error = (value - truth).abs();
                assert!(
                    error <= bound(&explanation)[0] + 1e-13 * truth.abs(),
                    "{alpha} {beta} {d} {distance}: {value} {truth}"
                );
            }
        }
    }
}

/// Semivalues are linear in the measure, also for long products and powers, and for quadrature rules that are
/// exact for a density.
#[test]
fn semivalues_are_linear_in_the_measure() {
    let measure = [[0.9, 0.125], [0.0, 0.25], [0.3, 0.5], [1.0, 0.125]];
    // Gauss's rule with two nodes, which is exact for Shapley values of up to four players.
    let offset = 0.5 / 3.0_f64.sqrt();
    let gauss = [[0.5 - offset, 0.5], [0.5 + offset, 0.5]];
    for (case, four) in [(case(4, 20, 2, 2, 5), true), (case(40, 20, 2, 2, 6), false)] {
        for name in PRODUCT_GAMES {
            let game = game(&case, name);
            let explain_with = |measure: &[[f64; 2]]| {
                explain(&case, &game, ValueIndex::Semivalue(InclusionDistribution::new(measure).unwrap()))
            };
            let explanation = explain_with(&measure);
            assert!(explanation.certificate().is_none());
            let (mut sum, mut allowed) = (vec![0.0; explanation.values.len()], bound(&explanation).to_vec());
            for [probability, weight] in measure {
                let part = explain(&case, &game, ValueIndex::Banzhaf { inclusion_probability: probability });
                sum.iter_mut().zip(&part.values).for_each(|(sum, value)| *sum += weight * value);
                allowed.iter_mut().zip(bound(&part)).for_each(|(sum, bound)| *sum += weight * bound);
            }
            for ((a, b), allowed) in explanation
                .values
                .chunks(explanation.sets())
                .zip(sum.chunks(explanation.sets()))
                .zip(&allowed)
            {
                assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() <= allowed + 1e-15), "{name}");
            }
            if four {
                let (rule, shapley) = (explain_with(&gauss), explain(&case, &game, ValueIndex::Shapley));
                for (g, allowed) in bound(&rule).iter().enumerate() {
                    let pairs = rule.row_values(g / 2, g % 2).iter().zip(shapley.row_values(g / 2, g % 2));
                    let allowed = allowed + bound(&shapley)[g];
                    assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() <= allowed), "{name}");
                }
            }
        }
    }
}

/// The loss in prediction without a feature, and the gain from a feature alone, against differences of
/// predictions.
#[test]
fn extreme_semivalues_are_differences_of_predictions() {
    let case = case(5, 20, 1, 2, 7);
    let point = case.background.rows.select_rows(&[0]);
    let game = Game::Baseline { point: point.clone() };
    let [added_last, first] = [1.0, 0.0]
        .map(|probability| explain(&case, &game, ValueIndex::Banzhaf { inclusion_probability: probability }));
    for i in 0..case.rows.rows() {
        for j in 0..5 {
            let (x, b) = (case.rows.row(i), point.row(0));
            let swap = |from: &[f64], with: &[f64]| {
                let mut row = from.to_vec();
                row[j] = with[j];
                case.model.predict(&Table::from_rows(&[row]).unwrap()).unwrap()[(0, 0)]
            };
            let lost = added_last.predictions[i] - swap(&x, &b);
            let added = swap(&b, &x) - first.base_values[i];
            assert!((added_last.row_values(i, 0)[j] - lost).abs() <= bound(&added_last)[i] + 1e-12);
            assert!((first.row_values(i, 0)[j] - added).abs() <= bound(&first)[i] + 1e-12);
        }
    }
    assert!(added_last.certificate().is_none() && first.certificate().is_none());
}

/// A quadrature rule whose smallest weights underflow, with factors that change sign.
#[test]
fn underflowing_weights_keep_values_bounded() {
    let d = 500;
    let constant_row = |center: f64| vec![center; d];
    let kernel = (0..d)
        .map(|j| -> Kernel { Linear { columns: vec![j], center: vec![0.0], scale: vec![1.0] }.into() })
        .reduce(|product, factor| product * factor)
        .unwrap();
    let model = riesz::KernelExpansion::new(
        kernel,
        Table::from_rows(&[constant_row(1.0)]).unwrap(),
        Matrix::column_vector(vec![1.0]),
        vec![0.0],
    )
    .unwrap();
    let point = Table::from_rows(&[constant_row(-1.0)]).unwrap();
    for (alpha, beta) in [(1000.0, 1.0), (1.0, 1000.0), (0.01, 0.01), (1000.0, 1000.0)] {
        let question = Question::from(Game::Baseline { point: point.clone() })
            .with_index(ValueIndex::BetaShapley { alpha, beta });
        let explainer = Explainer::new(&model, question).unwrap();
        let explanation = explainer.explain(&Table::from_rows(&[constant_row(1.0)]).unwrap()).unwrap();
        // 2 E (2t - 1)^499, by the same rule with more nodes: |2t - 1| is at most 1.
        assert!(explanation.values.iter().all(|v| v.abs() <= 2.0 + bound(&explanation)[0]), "{alpha} {beta}");
        if alpha == beta {
            assert!(
                explanation.values.iter().all(|v| v.abs() <= bound(&explanation)[0]),
                "an odd power of a symmetric t"
            );
        }
    }
}

/// Beta(1, 1) gives Shapley values, bit for bit, and they are certified.
#[test]
fn the_uniform_distribution_gives_shapley_values() {
    let case = case(6, 20, 2, 2, 11);
    for name in PRODUCT_GAMES {
        let game = game(&case, name);
        let [shapley, beta] = [ValueIndex::Shapley, ValueIndex::BetaShapley { alpha: 1.0, beta: 1.0 }]
            .map(|index| explain(&case, &game, index));
        assert_eq!(shapley.values, beta.values);
        assert!(beta.certificate().unwrap().holds);
    }
}

#[test]
fn questions_that_have_no_answer_are_refused() {
    let case = case(3, 10, 1, 1, 3);
    let ask = |game: Game, index| Explainer::new(&case.model, Question::from(game).with_index(index)).err();
    for index in [
        ValueIndex::Banzhaf { inclusion_probability: 1.5 },
        ValueIndex::Banzhaf { inclusion_probability: f64::NAN },
        ValueIndex::BetaShapley { alpha: 0.0, beta: 1.0 },
    ] {
        assert!(matches!(ask(Game::Functional, index), Some(Error::Parameter { .. })), "{index}");
    }
    let banzhaf = ValueIndex::Banzhaf { inclusion_probability: 0.5 };
    assert!(ask(Game::observational(&case.model), banzhaf).unwrap().to_string().contains("Shapley values"));
    let background = Background::from(Stream(1).normals(4, 3));
    let question = Question::from(Game::Interventional { background }).with_index(banzhaf);
    let f = |rows: &Table| -> riesz::Result<Matrix> { Ok(Matrix::zeros(rows.rows(), 1)) };
    assert!(riesz::attribution::kernel_shap::kernel_shap(f, &case.rows, &question, 100).is_err());
    assert!(riesz::attribution::permutation::estimate(f, &case.rows, 0, &question).is_err());
}
