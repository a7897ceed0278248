//! The observational game against its definition: the formula for every coalition, in plain code.

use riesz::attribution::enumeration::shapley;
use riesz::attribution::sampled_shapley::{Budget, SampleState};
use riesz::kernel::{Linear, Polynomial, Profile, Stationary};
use riesz::{
    Approximation, Background, ConditionalModel, Conditioning, ConditioningKernel, ConjugateGradients,
    Exactness, Explainer, Explanation, Game, Kernel, KernelExpansion, Matrix, Players, Question, Ridge,
    Table,
};

use crate::common::{largest_difference, model, number, table, with_threads};

/// Solves a system by Gaussian elimination with pivoting.
pub fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| a[i][k].abs().total_cmp(&a[j][k].abs())).unwrap();
        a.swap(k, pivot);
        b.swap(k, pivot);
        for i in k + 1..n {
            let f = a[i][k] / a[k][k];
            for j in k..n {
                a[i][j] -= f * a[k][j];
            }
            b[i] -= f * b[k];
        }
    }
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|j| a[k][j] * b[j]).sum();
        b[k] = (b[k] - known) / a[k][k];
    }
    b
}

type Factor = fn(usize, f64, f64) -> f64;

fn gaussian(j: usize, u: f64, v: f64) -> f64 {
    let l = 0.7 + 0.2 * j as f64;
    (-(u - v).powi(2) / (2.0 * l * l)).exp()
}

fn laplacian(j: usize, u: f64, v: f64) -> f64 {
    (-(u - v).abs() / (1.1 + 0.1 * j as f64)).exp()
}

/// The model's kernel as products of factors with a scale, each over some columns, and the conditioning
/// kernel's factors.
struct Truth {
    terms: Vec<(f64, Vec<(usize, Factor)>)>,
    condition: Factor,
}

/// The similarity of two rows in the marked columns.
type SimilarityFn<'a> = &'a dyn Fn(&[bool], &[f64], &[f64]) -> f64;

fn product(factor: Factor) -> impl Fn(&[bool], &[f64], &[f64]) -> f64 {
    move |on, u, v| (0..u.len()).filter(|&j| on[j]).map(|j| factor(j, u[j], v[j])).product()
}

/// Returns the weights of the reference rows given the columns `present` at `x`.
fn weights(
    similarity: SimilarityFn<'_>,
    reference: &Table,
    w: &[f64],
    ridge: f64,
    present: &[bool],
    x: &[f64],
) -> Vec<f64> {
    let k = |u: &[f64], v: &[f64]| similarity(present, u, v);
    let rows: Vec<Vec<f64>> = (0..reference.rows()).map(|b| reference.row(b)).collect();
    let a = (0..rows.len())
        .map(|b| {
            let mut row: Vec<f64> = rows.iter().map(|c| k(&rows[b], c)).collect();
            row[b] += ridge / w[b];
            row
        })
        .collect();
    solve(a, rows.iter().map(|c| k(c, x)).collect())
}

/// A model, the factors of its kernel, and the conditioning reference.
struct Setting<'a> {
    model: &'a KernelExpansion,
    truth: &'a Truth,
    similarity: SimilarityFn<'a>,
    reference: &'a Table,
    w: &'a [f64],
    ridge: f64,
    centered: bool,
}

/// Returns a coalition's value: `intercept + Σ_b W_b f(present of x, absent of b)`, with f without its
/// intercept; if centered, around the mean of f.
fn value(setting: &Setting<'_>, columns: &[bool], x: &[f64], output: usize) -> f64 {
    let Setting { model, truth, similarity: alike, reference, w, ridge, centered } = *setting;
    let f = |row: &[f64]| -> f64 {
        (0..model.support_points.rows())
            .map(|i| {
                let p = model.support_points.row(i);
                let kernel: f64 = truth
                    .terms
                    .iter()
                    .map(|(scale, factors)| {
                        scale * factors.iter().map(|(j, f)| f(*j, p[*j], row[*j])).product::<f64>()
                    })
                    .sum();
                model.coef[(i, output)] * kernel
            })
            .sum()
    };
    let mixed = |b: usize| -> Vec<f64> {
        (0..x.len()).map(|j| if columns[j] { x[j] } else { reference.get(b, j) }).collect()
    };
    if columns.iter().all(|on| *on) {
        return model.intercept[output] + f(x);
    }
    let conditional_weights = match columns.iter().any(|on| *on) {
        false => w.to_vec(),
        true => weights(alike, reference, w, ridge, columns, x),
    };
    let mean: f64 = (0..reference.rows()).map(|b| w[b] * f(&reference.row(b))).sum();
    let center = if centered { mean } else { 0.0 };
    let summand = |b: usize| conditional_weights[b] * (f(&mixed(b)) - center);
    model.intercept[output] + center + (0..reference.rows()).map(summand).sum::<f64>()
}

fn normalised(weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

fn length_scales(d: usize, start: f64, step: f64) -> Vec<f64> {
    (0..d).map(|j| start + step * j as f64).collect()
}

fn assert_exact(explanation: &Explanation, expected: impl Fn(usize, usize) -> Vec<f64>, label: &str) {
    let m = explanation.outputs();
    let Exactness::Exact { bound } = &explanation.exactness else { panic!("{label}: not exact") };
    let residual = explanation.residuals();
    for row in 0..explanation.rows() {
        for o in 0..m {
            let p = explanation.players.len();
            let values = &explanation.values[(row * m + o) * p..(row * m + o + 1) * p];
            for (actual, expected) in values.iter().zip(expected(row, o)) {
                let error = (actual - expected).abs();
                assert!(error < 1e-10 * (1.0 + expected.abs()), "{label}: {actual} {expected}");
                assert!(error <= bound[row * m + o], "{label}: {error} {}", bound[row * m + o]);
            }
            assert!(residual[row * m + o].abs() <= bound[row * m + o]);
            assert!(bound[row * m + o] < 1e-7, "{label}: bound {}", bound[row * m + o]);
        }
    }
}

// Long: a table of cases.
#[test]
fn values_are_those_of_the_definition() {
    let d = 4;
    let rows = table(400, 3, d);
    let scales = length_scales(d, 0.7, 0.2);
    let gaussians: Vec<(usize, Factor)> = (0..d).map(|j| (j, gaussian as Factor)).collect();
    let single_product = || Truth { terms: vec![(1.0, gaussians.clone())], condition: gaussian };
    let sum = Truth {
        terms: vec![
            (2.0, gaussians.clone()),
            (0.5, vec![(0, laplacian), (2, laplacian)]),
            (1.5, vec![]),
            (0.7, vec![(1, |_, u, v| u * v)]),
        ],
        condition: gaussian,
    };
    let laplacians = Stationary {
        profile: Profile::Exponential,
        columns: vec![0, 2],
        length_scale: vec![1.1, 1.3],
        ard: true,
        isotropic: false,
    };
    let summed = 2.0 * Kernel::gaussian(&scales)
        + 0.5 * Kernel::from(laplacians)
        + Kernel::constant(1.5)
        + 0.7 * Kernel::from(Linear { columns: vec![1], center: vec![0.0], scale: vec![1.0] });
    let conditioning_kernel = Some(Kernel::gaussian(&scales));
    let weighted: Vec<f64> = (1..=9).map(f64::from).collect();
    for (label, kernel, truth, condition, reference, weights) in [
        ("own points", Kernel::gaussian(&scales), single_product(), None, table(0, 12, d), None),
        (
            "scaled",
            3.0 * Kernel::gaussian(&scales),
            Truth { terms: vec![(3.0, gaussians.clone())], ..single_product() },
            None,
            table(0, 12, d),
            None,
        ),
        ("other rows", Kernel::gaussian(&scales), single_product(), None, table(50, 9, d), None),
        ("weights", Kernel::gaussian(&scales), single_product(), None, table(50, 9, d), Some(weighted)),
        ("a sum", summed, sum, conditioning_kernel, table(0, 12, d), None),
    ] {
        let model = model(kernel, 12, d);
        let w = normalised(weights.as_deref().unwrap_or(&vec![1.0; reference.rows()]));
        for groups in [
            Players::singletons(rows.columns()),
            Players::named(rows.columns(), &[("pair", vec!["x0", "x3"])]).unwrap(),
        ] {
            for (ridge, centered) in [(1e-3, true), (0.1, true), (0.1, false)] {
                let game = Game::Observational {
                    reference: Background { rows: reference.clone(), weights: weights.clone() },
                    conditional: ConditionalModel::Embedding(Conditioning {
                        kernel: condition.clone().into(),
                        centered,
                        ..Conditioning::with_ridge(ridge)
                    }),
                };
                let explainer =
                    Explainer::new(&model, Question::from(game).with_players(Some(groups.clone()))).unwrap();
                let explanation = explainer.explain(&rows).unwrap();
                let similarity = &product(truth.condition);
                let setting = Setting {
                    model: &model,
                    truth: &truth,
                    similarity,
                    reference: &reference,
                    w: &w,
                    ridge,
                    centered,
                };
                let expected = |row: usize, o: usize| {
                    shapley(groups.players().len(), |players| {
                        let mut columns = vec![false; d];
                        for (player, _) in groups.players().iter().zip(players).filter(|(_, on)| **on) {
                            player.columns.iter().for_each(|&j| columns[j] = true);
                        }
                        value(&setting, &columns, &rows.row(row), o)
                    })
                };
                assert_exact(&explanation, expected, label);
                let empty = value(&setting, &vec![false; d], &rows.row(0), 1);
                assert!((explainer.base_values()[1] - empty).abs() < 1e-12);
            }
        }
    }
}

/// For a kernel without factors, the outputs at the reference rows are averaged around their mean.
#[test]
fn kernels_without_product_form_condition_the_outputs() {
    let d = 3;
    let (rows, reference) = (table(400, 2, d), table(30, 10, d));
    let matern = Stationary {
        profile: Profile::Matern32,
        columns: (0..d).collect(),
        length_scale: vec![1.0; d],
        ard: true,
        isotropic: true,
    };
    let model = model(matern.into(), 12, d);
    let game = Game::Observational {
        reference: reference.clone().into(),
        conditional: ConditionalModel::Embedding(Conditioning {
            kernel: ConditioningKernel::Given(Kernel::gaussian(&length_scales(d, 0.7, 0.2))),
            ..Conditioning::with_ridge(0.02)
        }),
    };
    let explanation = Explainer::new(&model, game).unwrap().explain(&rows).unwrap();
    let (reference_outputs, f) = (model.predict(&reference).unwrap(), model.predict(&rows).unwrap());
    let w = vec![0.1; 10];
    let expected = |row: usize, o: usize| {
        let mean = reference_outputs.column(o).iter().sum::<f64>() / 10.0;
        shapley(d, |present| {
            if present.iter().all(|on| *on) {
                return f[(row, o)];
            }
            if !present.iter().any(|on| *on) {
                return mean;
            }
            let conditional_weights =
                weights(&product(gaussian), &reference, &w, 0.02, present, &rows.row(row));
            mean + conditional_weights
                .iter()
                .zip(reference_outputs.column(o))
                .map(|(w, f)| w * (f - mean))
                .sum::<f64>()
        })
    };
    assert_exact(&explanation, expected, "isotropic");
}

/// The similarity of two rows over some columns.
type Similarity = dyn Fn(&[bool], &[f64], &[f64]) -> f64;

/// Kernels that are not products over columns, each with its restriction to some columns.
fn families(d: usize) -> Vec<(&'static str, Kernel, Box<Similarity>)> {
    let l = |j: usize| 1.0 + 0.2 * j as f64;
    let isotropic = |profile| {
        let length_scale = (0..d).map(l).collect();
        Kernel::from(Stationary {
            profile,
            columns: (0..d).collect(),
            length_scale,
            ard: true,
            isotropic: true,
        })
    };
    let square = move |on: &[bool], u: &[f64], v: &[f64]| -> f64 {
        (0..u.len()).filter(|&j| on[j]).map(|j| ((u[j] - v[j]) / l(j)).powi(2)).sum()
    };
    let matern = move |on: &[bool], u: &[f64], v: &[f64]| {
        let r = (3.0 * square(on, u, v)).sqrt();
        (1.0 + r) * (-r).exp()
    };
    let rational = move |on: &[bool], u: &[f64], v: &[f64]| (1.0 + square(on, u, v) / 3.0).powf(-1.5);
    let inner = |on: &[bool], u: &[f64], v: &[f64]| -> f64 {
        (0..u.len()).filter(|&j| on[j]).map(|j| (u[j] - 0.3) * (v[j] - 0.3) / 4.0).sum()
    };
    let (columns, center, scale) = ((0..d).collect::<Vec<usize>>(), vec![0.3; d], vec![2.0; d]);
    let power = |degree, gamma, coef0| {
        let (columns, center, scale) = (columns.clone(), center.clone(), scale.clone());
        Kernel::from(Polynomial { columns, center, scale, gamma, coef0, degree })
    };
    let linear = Linear { columns: columns.clone(), center: center.clone(), scale: scale.clone() };
    vec![
        ("matern", isotropic(Profile::Matern32), Box::new(matern)),
        ("rational", isotropic(Profile::RationalQuadratic { alpha: 1.5 }), Box::new(rational)),
        ("cube", power(3, 0.8, 0.5), Box::new(move |on, u, v| (0.8 * inner(on, u, v) + 0.5).powi(3))),
        ("high power", power(9, 0.1, 1.0), Box::new(move |on, u, v| (0.1 * inner(on, u, v) + 1.0).powi(9))),
        (
            "a sum",
            0.5 * isotropic(Profile::Matern32) + 1.5 * Kernel::from(linear),
            Box::new(move |on, u, v| (0.5 * matern(on, u, v) + 1.5 * inner(on, u, v)) / 2.0),
        ),
        (
            "a product",
            isotropic(Profile::Matern32) * Kernel::gaussian(&length_scales(d, 0.7, 0.2)),
            Box::new(move |on, u, v| matern(on, u, v) * product(gaussian)(on, u, v)),
        ),
    ]
}

/// Kernels without product form are conditioned by their own family over the given columns, as published
/// (equation C.5), and shrunk towards the intercept unless the game is centered.
#[test]
fn kernels_are_conditioned_by_their_own_family() {
    let d = 4;
    let (rows, reference) = (table(400, 3, d), table(50, 14, d));
    let weights_of_rows: Vec<f64> = (1..=14).map(f64::from).collect();
    for (label, kernel, similarity) in families(d) {
        let model = model(kernel.clone(), 12, d);
        let (reference_outputs, f) = (model.predict(&reference).unwrap(), model.predict(&rows).unwrap());
        for groups in [None, Some(Players::named(rows.columns(), &[("pair", vec!["x0", "x3"])]).unwrap())] {
            let groups = groups.unwrap_or_else(|| Players::singletons(rows.columns()));
            for (centered, row_weights) in
                [(true, None), (false, None), (false, Some(weights_of_rows.clone()))]
            {
                let w = normalised(row_weights.as_deref().unwrap_or(&[1.0; 14]));
                let ridge = 0.02;
                let explain = |kernel, approximation| {
                    let conditioning =
                        Conditioning { kernel, centered, approximation, ..Conditioning::with_ridge(ridge) };
                    let reference = Background { rows: reference.clone(), weights: row_weights.clone() };
                    let game = Game::Observational { reference, conditional: conditioning.into() };
                    Explainer::new(&model, Question::from(game).with_players(Some(groups.clone())))?
                        .explain(&rows)
                };
                let exact = explain(ConditioningKernel::OwnFamily, Approximation::Exact).unwrap();
                let expected = |row: usize, o: usize| {
                    let mean: f64 = reference_outputs.column(o).iter().zip(&w).map(|(f, w)| f * w).sum();
                    let center = if centered { mean } else { model.intercept[o] };
                    shapley(groups.players().len(), |players| {
                        let mut on = vec![false; d];
                        for (player, _) in groups.players().iter().zip(players).filter(|(_, is)| **is) {
                            player.columns.iter().for_each(|&j| on[j] = true);
                        }
                        match on.iter().filter(|on| **on).count() {
                            0 => mean,
                            all if all == d => f[(row, o)],
                            _ => {
                                let conditional_weights =
                                    weights(&*similarity, &reference, &w, ridge, &on, &rows.row(row));
                                center
                                    + conditional_weights
                                        .iter()
                                        .zip(reference_outputs.column(o))
                                        .map(|(w, f)| w * (f - center))
                                        .sum::<f64>()
                            }
                        }
                    })
                };
                assert_exact(&exact, expected, label);
                let by_landmarks =
                    explain(ConditioningKernel::OwnFamily, Approximation::Landmarks(14)).unwrap();
                let gradients = ConjugateGradients { tolerance: 1e-9, landmarks: 5, iterations: 500 };
                let gradients = Approximation::ConjugateGradients(gradients);
                let by_gradients = explain(ConditioningKernel::OwnFamily, gradients).unwrap();
                assert_exact(&by_gradients, expected, label);
                let size = exact.values.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
                for (a, b) in exact.values.iter().zip(&by_landmarks.values) {
                    assert!((a - b).abs() < 1e-4 * size, "{label}: {a} {b}");
                }
                let refused = explain(ConditioningKernel::OwnFamily, Approximation::RandomFeatures(9));
                assert!(refused.unwrap_err().to_string().contains("use landmarks"));
                // The same kernel, given explicitly, has the same result if it is a single term.
                if let ([_], Ok(explicit)) = (
                    kernel.terms.as_slice(),
                    explain(ConditioningKernel::Given(kernel.clone()), Approximation::Exact),
                ) {
                    assert_eq!(explicit, exact, "{label}");
                }
            }
        }
    }
}

/// The own family of one product of factors omits the absent factors, whatever its scale. The own family of a
/// sum of products is the sum over the given columns, whose weights average the absent factors of each
/// product.
#[test]
fn the_family_of_products_is_products() {
    let d = 3;
    let (rows, reference) = (table(400, 3, d), table(50, 14, d));
    let scales = length_scales(d, 0.7, 0.2);
    let explain = |kernel: Kernel, conditioning, approximation| {
        let conditioning =
            Conditioning { kernel: conditioning, approximation, ..Conditioning::with_ridge(0.02) };
        let game =
            Game::Observational { reference: reference.clone().into(), conditional: conditioning.into() };
        let model = model(kernel, 14, d);
        let explainer = Explainer::new(&model, game).unwrap();
        (explainer.explain(&rows).unwrap(), explainer.functionals(&rows, &[1]).unwrap().remove(0))
    };
    for approximation in [Approximation::Exact, Approximation::RandomFeatures(30)] {
        let scaled = || 3.0 * Kernel::gaussian(&scales);
        let auto = explain(scaled(), ConditioningKernel::Auto, approximation);
        assert_eq!(auto, explain(scaled(), ConditioningKernel::OwnFamily, approximation));
    }
    let summed =
        2.0 * Kernel::gaussian(&scales) + 0.5 * Kernel::stationary(Profile::Exponential, &[1.1, 1.2, 1.3]);
    let per_column = |factor: Factor| (0..d).map(|j| (j, factor)).collect::<Vec<_>>();
    let truth =
        Truth { terms: vec![(2.0, per_column(gaussian)), (0.5, per_column(laplacian))], condition: gaussian };
    let similarity = &|on: &[bool], u: &[f64], v: &[f64]| {
        (2.0 * product(gaussian)(on, u, v) + 0.5 * product(laplacian)(on, u, v)) / 2.5
    };
    let model = model(summed.clone(), 14, d);
    let w = vec![1.0 / 14.0; 14];
    let setting = Setting {
        model: &model,
        truth: &truth,
        similarity,
        reference: &reference,
        w: &w,
        ridge: 0.02,
        centered: true,
    };
    let expected = |row: usize, o: usize| shapley(d, |on| value(&setting, on, &rows.row(row), o));
    let gradients = ConjugateGradients { tolerance: 1e-9, landmarks: 5, iterations: 500 };
    let (exact, functionals) = explain(summed.clone(), ConditioningKernel::OwnFamily, Approximation::Exact);
    assert_exact(&exact, expected, "a sum of products");
    for (approximation, tolerance) in
        [(Approximation::ConjugateGradients(gradients), 1e-7), (Approximation::Landmarks(14), 1e-4)]
    {
        let (explanation, approximate) =
            explain(summed.clone(), ConditioningKernel::OwnFamily, approximation);
        assert!(explanation.values.iter().zip(&exact.values).all(|(a, b)| (a - b).abs() < tolerance));
        assert!(approximate.data().iter().zip(functionals.data()).all(|(a, b)| (a - b).abs() < tolerance));
        assert!(explanation.certificate().unwrap().holds);
    }
    let game = Game::Observational {
        reference: reference.clone().into(),
        conditional: ConditionalModel::Embedding(Conditioning {
            kernel: ConditioningKernel::OwnFamily,
            ..Conditioning::with_ridge(0.02)
        }),
    };
    let refused = Explainer::new(&model, game).unwrap().robustness(&[0.1; 3]).unwrap_err().to_string();
    assert!(refused.contains("it must be one product of factors"), "{refused}");
}

/// Limits: the interventional game for independent columns and a large reference, and the intercept for a
/// huge ridge.
#[test]
fn limits_are_the_interventional_game_and_the_intercept() {
    let d = 3;
    let n = 500;
    // A lattice rule: columns that fill the cube evenly and are independent.
    let rows: Vec<Vec<f64>> = (0..n)
        .map(|i| [1.0, 117.0, 193.0].map(|g| 2.0 * (i as f64 * g / n as f64).fract() - 1.0).to_vec())
        .collect();
    let reference = Table::from_rows(&rows).unwrap();
    let model = model(Kernel::gaussian(&[0.8, 1.0, 1.2]), 12, d);
    let x = Table::from_rows(&[[0.3, -0.5, 0.4]]).unwrap();
    let explain = |game| Explainer::new(&model, game).unwrap().explain(&x).unwrap();
    let truth = explain(Game::Interventional { background: reference.clone().into() });
    let explain_with = |ridge| {
        let game = Game::Observational {
            reference: reference.clone().into(),
            conditional: ConditionalModel::Embedding(Conditioning {
                centered: false,
                ..Conditioning::with_ridge(ridge)
            }),
        };
        explain(game)
    };
    let explanation = explain_with(1e-3);
    let size = truth.values.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    for (a, b) in explanation.values.iter().zip(&truth.values) {
        assert!((a - b).abs() < 0.02 * size, "{a} {b} {size}");
    }
    // v(S) = intercept for all proper S: each player gets a third of v(all) - v(∅).
    let shrunk = explain_with(1e12);
    for o in 0..2 {
        let third = (shrunk.predictions[o] - shrunk.base_values[o]) / 3.0;
        assert!(shrunk.values[o * d..(o + 1) * d].iter().all(|v| (v - third).abs() < 1e-8 * size));
    }
}

#[test]
fn samples_agree_with_all_coalitions_and_threads_do_not_matter() {
    let d = 8;
    let (model, rows) = (model(Kernel::gaussian(&length_scales(d, 1.5, 0.2)), 40, d), table(400, 3, d));
    let explain = |coalitions, std_error, threads| {
        with_threads(threads, || {
            let question = Question::from(Game::observational(&model));
            let budget = Budget { coalitions, std_error, seed: 5 };
            Explainer::new(&model, question.with_budget(budget)).unwrap().explain(&rows).unwrap()
        })
    };
    let exact = explain(254, None, 1);
    assert!(matches!(exact.exactness, Exactness::Exact { .. }));
    assert_eq!(exact, explain(254, None, 3));
    let sampled = explain(120, None, 2);
    let Exactness::Estimated { std_error, sampling } = &sampled.exactness else { panic!() };
    assert!(sampling.is_some_and(|s| s.evaluations <= 3 * 122 && s.seed == 5));
    let squared_errors =
        sampled.values.iter().zip(&exact.values).zip(std_error).map(|((a, b), e)| ((a - b) / e).powi(2));
    let mean_square = squared_errors.sum::<f64>() / exact.values.len() as f64;
    assert!((0.2..3.0).contains(&mean_square), "{mean_square}");
    assert!(sampled.residuals().iter().all(|r| r.abs() < 1e-9));
    let target = explain(254, Some(1e-9), 1);
    let Exactness::Estimated { std_error, .. } = &target.exactness else { panic!() };
    assert!(std_error.iter().all(|e| *e == 0.0) && std_error.len() == target.values.len());
}

/// A reference with as many rows as there are support points, but with other rows, is not mistaken for them.
#[test]
fn other_reference_rows_are_no_support_points() {
    let d = 3;
    let model = model(Kernel::gaussian(&[1.0, 1.2, 1.4]), 12, d);
    let rows = table(400, 2, d);
    let other = table(70, 12, d);
    let explain = |reference: Table, weights| {
        let reference = Background { rows: reference, weights };
        let game = Game::Observational { reference, conditional: Conditioning::with_ridge(0.01).into() };
        Explainer::new(&model, game).unwrap().explain(&rows).unwrap().values
    };
    let once = explain(other.clone(), None);
    // The same reference in another form: twice, with half the weight each.
    let twice = explain(other.stack(&other).unwrap(), Some(vec![0.5; 24]));
    assert!(once.iter().zip(&twice).all(|(a, b)| (a - b).abs() < 1e-10));
    let at_support_points = explain(model.support_points.clone(), None);
    assert!(once.iter().zip(&at_support_points).any(|(a, b)| (a - b).abs() > 1e-3));
}

#[test]
fn what_is_wrong_is_said() {
    let model = model(Kernel::gaussian(&[1.0, 1.0]), 5, 2);
    let refused = |ridge, kernel| {
        let game = Game::Observational {
            reference: model.support_points.clone().into(),
            conditional: ConditionalModel::Embedding(Conditioning {
                ridge,
                kernel,
                ..Conditioning::default()
            }),
        };
        Explainer::new(&model, game).err().unwrap().to_string()
    };
    assert!(refused(Ridge::Fixed(0.0), ConditioningKernel::Auto).contains("ridge = 0"));
    assert!(refused(Ridge::Fixed(f64::NAN), ConditioningKernel::Auto).contains("ridge = NaN"));
    let sum = Kernel::gaussian(&[1.0, 1.0]) + Kernel::constant(1.0);
    assert!(refused(Ridge::Fixed(0.1), ConditioningKernel::Given(sum)).contains("one product of factors"));
    let twice = KernelExpansion {
        support_points: model.support_points.select_rows(&[0, 0, 0, 0, 0]),
        ..model.clone()
    };
    let game = Game::Observational {
        reference: twice.support_points.clone().into(),
        conditional: Conditioning::with_ridge(1e-300).into(),
    };
    let tiny = Explainer::new(&twice, game).unwrap().explain(&table(0, 1, 2));
    assert!(tiny.unwrap_err().to_string().contains("raise the ridge"));
}

/// Approximations are exact with every reference row as a landmark, and converge with more landmarks or
/// random features.
#[test]
fn approximations_converge_to_the_exact_values() {
    let d = 3;
    let (model, rows) = (model(Kernel::gaussian(&[1.0, 1.2, 1.4]), 40, d), table(400, 4, d));
    let reference = table(50, 80, d);
    let game = |approximation| {
        let conditioning = Conditioning { approximation, ..Conditioning::with_ridge(0.01) };
        Game::Observational { reference: reference.clone().into(), conditional: conditioning.into() }
    };
    let explain = |model: &KernelExpansion, approximation| {
        Explainer::new(model, game(approximation)).unwrap().explain(&rows).unwrap()
    };
    let functional = |approximation| {
        Explainer::new(&model, game(approximation)).unwrap().functionals(&rows, &[1]).unwrap().remove(0)
    };
    let exact = explain(&model, Approximation::Exact);
    let distance = |explanation: &Explanation| {
        let pairs = explanation.values.iter().zip(&exact.values);
        let squared_error: f64 = pairs.map(|(a, b)| (a - b).powi(2)).sum();
        (squared_error / exact.values.iter().map(|v| v * v).sum::<f64>()).sqrt()
    };
    let all_landmarks = explain(&model, Approximation::Landmarks(80));
    assert!(distance(&all_landmarks) < 1e-5, "{}", distance(&all_landmarks));
    let [exact_functional, other] = [Approximation::Exact, Approximation::Landmarks(80)].map(functional);
    assert!(largest_difference(exact_functional.data(), other.data()) < 1e-5);
    for steps in
        [[5, 20, 60].map(Approximation::Landmarks), [30, 300, 3000].map(Approximation::RandomFeatures)]
    {
        let explanations = steps.map(|step| explain(&model, step));
        let distances = [distance(&explanations[0]), distance(&explanations[1]), distance(&explanations[2])];
        assert!(
            distances[0] > distances[1] && distances[1] > distances[2] && distances[2] < 0.05,
            "{distances:?}"
        );
        assert!(
            explanations
                .iter()
                .all(|e| e.certificate().unwrap().holds && e.provenance.run[3].value.contains(' '))
        );
    }
    // Each profile has its own spectral density.
    for profile in [Profile::Exponential, Profile::Matern32, Profile::Matern52, Profile::Cauchy] {
        let kernel: Kernel = Stationary {
            profile,
            columns: vec![0, 1, 2],
            length_scale: vec![1.0, 1.2, 1.4],
            ard: true,
            isotropic: false,
        }
        .into();
        let model = KernelExpansion { kernel, ..model.clone() };
        let exact = explain(&model, Approximation::Exact);
        let near = explain(&model, Approximation::RandomFeatures(4000));
        let size = exact.values.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        assert!(
            exact.values.iter().zip(&near.values).all(|(a, b)| (a - b).abs() < 0.1 * size),
            "{profile:?}"
        );
    }
    let periodic = Kernel::from(riesz::kernel::Periodic { columns: [0], period: 1.0, length_scale: 1.0 })
        * Kernel::gaussian(&[1.0, 1.0, 1.0]);
    let model = KernelExpansion { kernel: periodic, ..model.clone() };
    for (approximation, culprit) in
        [(Approximation::RandomFeatures(9), "use landmarks"), (Approximation::Landmarks(0), "landmarks = 0")]
    {
        let explainer = Explainer::new(&model, game(approximation));
        assert!(explainer.err().unwrap().to_string().contains(culprit));
    }
}

/// A reference in several blocks of rows gives the same values as in one block.
#[test]
fn approximations_take_the_reference_block_by_block() {
    let d = 3;
    let (model, rows) = (model(Kernel::gaussian(&[1.0, 1.2, 1.4]), 40, d), table(400, 4, d));
    let once = table(50, 80, d);
    let twice = |table: &Table| table.stack(table).unwrap();
    let repeated = twice(&twice(&twice(&twice(&once))));
    assert_eq!(repeated.rows(), 1280);
    let explain = |reference: &Table, approximation| {
        let conditioning = Conditioning { approximation, ..Conditioning::with_ridge(0.01) };
        let game =
            Game::Observational { reference: reference.clone().into(), conditional: conditioning.into() };
        let explainer = Explainer::new(&model, game).unwrap();
        // With many rows, products are summed in another order than with few.
        let all_values = explainer.explain(&table(300, 150, d)).unwrap().values;
        let few_values = explainer.explain(&table(300, 4, d)).unwrap().values;
        assert!(few_values.iter().zip(&all_values).all(|(a, b)| (a - b).abs() < 1e-9));
        (all_values, explainer.functionals(&rows, &[1]).unwrap().remove(0))
    };
    for (small_approximation, large_approximation, tolerance) in [
        (Approximation::RandomFeatures(50), Approximation::RandomFeatures(50), 1e-9),
        (Approximation::Exact, Approximation::Landmarks(1280), 1e-4),
    ] {
        let (expected, actual) =
            (explain(&once, small_approximation), explain(&repeated, large_approximation));
        assert!(
            largest_difference(&expected.0, &actual.0) < tolerance,
            "{}",
            largest_difference(&expected.0, &actual.0)
        );
        assert!(largest_difference(expected.1.data(), actual.1.data()) < tolerance);
    }
    let matern = Stationary {
        profile: Profile::Matern32,
        columns: (0..d).collect(),
        length_scale: vec![1.0; d],
        ard: true,
        isotropic: true,
    };
    let model = KernelExpansion { kernel: matern.into(), ..model.clone() };
    let explain = |reference: &Table| {
        let conditioning = Conditioning {
            kernel: ConditioningKernel::Given(Kernel::gaussian(&[1.0, 1.2, 1.4])),
            approximation: Approximation::RandomFeatures(50),
            ..Conditioning::with_ridge(0.01)
        };
        let game =
            Game::Observational { reference: reference.clone().into(), conditional: conditioning.into() };
        Explainer::new(&model, game).unwrap().explain(&rows).unwrap().values
    };
    assert!(largest_difference(&explain(&once), &explain(&repeated)) < 1e-9);
}

/// The bound in extreme cases: distant rows, one player, weights near 0, constants.
#[test]
fn the_bound_holds_at_the_edges() {
    let d = 3;
    let model = model(Kernel::gaussian(&[2.0, 2.0, 2.0]), 30, d);
    let far = Table::from_rows(&[[10.0, 10.0, 10.0], [1e3, 0.0, 0.0], [0.1, 0.2, 0.3]]).unwrap();
    let tiny = Some((0..30).map(|i| if i < 5 { 1e-12 } else { 1.0 }).collect());
    for weights in [None, tiny] {
        for groups in [None, Some(Players::named(far.columns(), &[("all", vec!["x0", "x1", "x2"])]).unwrap())]
        {
            let reference = Background { rows: model.support_points.clone(), weights: weights.clone() };
            let game = Game::Observational { reference, conditional: Conditioning::with_ridge(1e-2).into() };
            let explanation = Explainer::new(&model, Question::from(game).with_players(groups))
                .unwrap()
                .explain(&far)
                .unwrap();
            let certificate = explanation.certificate().unwrap();
            assert!(certificate.holds && certificate.bound < 1e-6, "{certificate:?}");
        }
    }
    // In a constant model all values are 0.
    let constant = KernelExpansion::new(
        Kernel::constant(1.0),
        model.support_points.clone(),
        Matrix::from_row_major(30, 1, vec![10.0; 30]),
        vec![0.0],
    )
    .unwrap();
    let explanation =
        Explainer::new(&constant, Game::observational(&constant)).unwrap().explain(&far).unwrap();
    assert!(explanation.values.iter().all(|v| v.abs() < 1e-9), "{:?}", explanation.values);
}

/// A run that is continued in several parts ends like a single run, with the same bound.
#[test]
fn going_on_ends_where_one_run_does() {
    let coef = Matrix::from_row_major(10, 3, (0..30).map(|t| number(t, 5)).collect());
    let model = KernelExpansion::new(Kernel::gaussian(&[1.1; 8]), table(0, 10, 8), coef, vec![0.3, 0.0, 1.0])
        .unwrap();
    let game = Game::Observational {
        reference: table(40, 8, 8).into(),
        conditional: Conditioning::with_ridge(0.05).into(),
    };
    let rows = table(80, 1500, 8);
    let budget = |coalitions| Budget { coalitions, std_error: None, seed: 3 };
    for large in [120, 4096] {
        let explainer = Explainer::new(&model, game.clone()).unwrap();
        assert!(explainer.max_batch_rows() < rows.rows());
        let mut sample = SampleState::default();
        let first = explainer.explain_from(&rows, budget(70), &mut sample).unwrap();
        assert!(matches!(first.exactness, Exactness::Estimated { .. }));
        let grown = explainer.explain_from(&rows, budget(large), &mut sample).unwrap();
        let once = Question::from(game.clone()).with_budget(budget(large));
        assert_eq!(grown, Explainer::new(&model, once).unwrap().explain(&rows).unwrap());
        assert!(sample.coalitions() > 70 && sample.coalitions() <= large);
    }
    let explainer = Explainer::new(&model, game).unwrap();
    let mut sample = SampleState::default();
    explainer.explain_from(&rows, budget(70), &mut sample).unwrap();
    for other in [rows.select_rows(&[0]), table(81, 1500, 8)] {
        let refused = explainer.explain_from(&other, budget(80), &mut sample).unwrap_err().to_string();
        assert!(refused.contains("were evaluated for other rows"), "{refused}");
    }
}

#[test]
fn too_much_memory_is_refused_beforehand() {
    let coef = Matrix::from_row_major(10, 1, (0..10).map(|t| number(t, 5)).collect());
    let model = KernelExpansion::new(Kernel::gaussian(&[1.1; 3]), table(0, 10, 3), coef, vec![0.0]).unwrap();
    let reference = table(0, 100_000, 3);
    let explainer = |approximation| {
        let memory = Some(4 << 30);
        let conditioning = Conditioning { approximation, memory, ..Conditioning::with_ridge(0.1) };
        let game =
            Game::Observational { reference: reference.clone().into(), conditional: conditioning.into() };
        Explainer::new(&model, game)
    };
    let refused = explainer(Approximation::Exact).err().unwrap().to_string();
    assert!(refused.contains("100000 reference rows needs") && refused.contains("landmarks"), "{refused}");
    assert!(explainer(Approximation::Landmarks(10)).is_ok());
}
