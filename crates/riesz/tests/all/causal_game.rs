//! The causal game against its special cases, a plain implementation of iterated conditional means, and
//! structural models with known distributions; asymmetric values against all orders.

use riesz::attribution::enumeration::shapley;
use riesz::attribution::sampled_shapley::Budget;
use riesz::causal::Graph;
use riesz::kernel::{Linear, Polynomial, Profile, Stationary};
use riesz::{
    Background, CausalComponent, CausalStructure, ConditionalModel, Conditioning, ConditioningKernel,
    Exactness, Explainer, Explanation, Game, Kernel, KernelExpansion, Matrix, Players, Question, Table,
};

use crate::common::{Stream, largest_difference, model, stationary, table, with_threads};
use crate::observational::solve;

fn linear(columns: &[usize]) -> Kernel {
    let (columns, width) = (columns.to_vec(), columns.len());
    Linear { columns, center: vec![0.0; width], scale: vec![1.0; width] }.into()
}

fn causal(reference: &Background, structure: &CausalStructure, conditioning: &Conditioning) -> Game {
    let (reference, structure) = (reference.clone(), structure.clone());
    Game::Causal { reference, structure, conditioning: conditioning.clone() }
}

fn explained(model: &KernelExpansion, question: impl Into<Question>, rows: &Table) -> Explanation {
    Explainer::new(model, question).unwrap().explain(rows).unwrap()
}

fn bounds(explanation: &Explanation) -> &[f64] {
    let Exactness::Exact { bound } = &explanation.exactness else { panic!("values are not exact") };
    bound
}

/// A Gaussian plus a product of Laplacians of two columns, a constant and a linear kernel.
fn summed_kernel(d: usize) -> Kernel {
    let scales: Vec<f64> = (0..d).map(|j| 0.7 + 0.2 * j as f64).collect();
    let laplacians = Stationary {
        profile: Profile::Exponential,
        columns: vec![0, 2],
        length_scale: vec![1.1, 1.3],
        ard: true,
        isotropic: false,
    };
    2.0 * Kernel::gaussian(&scales)
        + 0.5 * Kernel::from(laplacians)
        + Kernel::constant(1.5)
        + 0.7 * linear(&[1, 3])
}

/// The kernel of [`summed_kernel`] as products: a scale, and a factor for each column.
fn summed_products(j: usize, product: usize, u: f64, v: f64) -> f64 {
    match (product, j) {
        (0, _) => (-(u - v).powi(2) / (2.0 * (0.7 + 0.2 * j as f64).powi(2))).exp(),
        (1, 0) => (-(u - v).abs() / 1.1).exp(),
        (1, 2) => (-(u - v).abs() / 1.3).exp(),
        (3, 1) | (4, 3) => u * v,
        _ => 1.0,
    }
}

const SCALES: [f64; 5] = [2.0, 0.5, 1.5, 0.7, 0.7];

#[test]
fn special_cases_are_the_other_games() {
    let d = 4;
    let (model, rows) = (model(summed_kernel(d), 12, d), table(400, 3, d));
    let weights = Some((1..=9).map(f64::from).collect());
    let reference = Background { rows: table(50, 9, d), weights };
    let joint_component = CausalComponent::new(["x0", "x1", "x2", "x3"]);
    let kernel = ConditioningKernel::Given(Kernel::gaussian(&[0.7, 0.9, 1.1, 1.3]));
    for groups in [
        Players::singletons(rows.columns()),
        Players::named(rows.columns(), &[("pair", vec!["x0", "x3"])]).unwrap(),
    ] {
        // One component for each player: the columns of a group keep their joint distribution.
        let names = groups.players().iter().map(|player| player.columns.iter().map(|j| format!("x{j}")));
        let separate: Vec<CausalComponent> = names
            .map(|names| CausalComponent::new(names).with_parents(Vec::<String>::new()).confounded())
            .collect();
        for centered in [true, false] {
            let kernel = kernel.clone();
            let conditioning = Conditioning { kernel, centered, ..Conditioning::with_ridge(0.02) };
            let observational = Game::Observational {
                reference: reference.clone(),
                conditional: ConditionalModel::Embedding(conditioning.clone()),
            };
            for (label, structure, game, tolerance) in [
                (
                    "confounded",
                    vec![joint_component.clone().confounded()],
                    Game::Interventional { background: reference.clone() },
                    1e-12,
                ),
                ("interacting", vec![joint_component.clone()], observational, 1e-10),
                ("alone", separate.clone(), Game::MarginalProduct { background: reference.clone() }, 1e-10),
            ] {
                let game = Question::from(game).with_players(Some(groups.clone()));
                let causal_game = causal(&reference, &structure.into(), &conditioning);
                let causal_game = Question::from(causal_game).with_players(Some(groups.clone()));
                let (actual, expected) =
                    (explained(&model, causal_game, &rows), explained(&model, game, &rows));
                let error = largest_difference(&actual.values, &expected.values);
                assert!(error < tolerance, "{label}, centered {centered}: {error}");
                let error = largest_difference(&actual.base_values, &expected.base_values);
                assert!(error < tolerance, "{label}: base value {error}");
                let allowed = bounds(&actual).iter().zip(bounds(&expected));
                assert!(allowed.into_iter().all(|(a, b)| a + b < 1e-8), "{label}: {:?}", bounds(&actual));
            }
        }
    }
}

/// A component with the numbers of its columns and parents.
struct PlainComponent {
    columns: Vec<usize>,
    parents: Vec<usize>,
    confounded: bool,
}

/// The embedding's kernel of a column.
fn conditioning_factor(j: usize, u: f64, v: f64) -> f64 {
    (-(u - v).powi(2) / (2.0 * (0.8 + 0.1 * j as f64).powi(2))).exp()
}

/// The weights `(K + ridge diag(1 / w))⁻¹ k(x)` of the reference rows given some columns at x.
fn plain_weights(reference: &Table, w: &[f64], ridge: f64, conditions: &[usize], x: &[f64]) -> Vec<f64> {
    let kernel = |u: &[f64], v: &[f64]| -> f64 {
        conditions.iter().map(|&j| conditioning_factor(j, u[j], v[j])).product()
    };
    let rows: Vec<Vec<f64>> = (0..reference.rows()).map(|row| reference.row(row)).collect();
    let gram_row = |p: usize| -> Vec<f64> {
        let entry = |q: usize| kernel(&rows[p], &rows[q]) + if p == q { ridge / w[p] } else { 0.0 };
        (0..rows.len()).map(entry).collect()
    };
    solve((0..rows.len()).map(gram_row).collect(), rows.iter().map(|row| kernel(row, x)).collect())
}

/// The value of the present columns at x, by iterated conditional means in plain loops: one regression for
/// each product, support point, component and row.
fn plain_value(
    (model, reference): (&KernelExpansion, &Background),
    components: &[PlainComponent],
    (ridge, centered): (f64, bool),
    present: &[bool],
    (x, output): (&[f64], usize),
) -> f64 {
    let total: f64 = reference.weights.as_ref().unwrap().iter().sum();
    let w: Vec<f64> = reference.weights.as_ref().unwrap().iter().map(|w| w / total).collect();
    let b = reference.rows.rows();
    let cell = |row: usize, j: usize| if present[j] { x[j] } else { reference.rows.get(row, j) };
    let mut value = model.intercept[output];
    for (product, scale) in SCALES.iter().enumerate() {
        for i in 0..model.support_points.rows() {
            let factor = |j: usize, v: f64| summed_products(j, product, model.support_points.get(i, j), v);
            // The columns on which each mean depends, and the mean at each reference row.
            let mut means: Vec<(Vec<usize>, Vec<f64>)> = Vec::new();
            let mut present_product: f64 = 1.0;
            for component in components.iter().rev() {
                let (inside, absent): (Vec<usize>, Vec<usize>) =
                    component.columns.iter().partition(|&&j| present[j]);
                if absent.is_empty() {
                    present_product *= inside.iter().map(|&j| factor(j, x[j])).product::<f64>();
                    continue;
                }
                let (absorbed, kept): (Vec<_>, Vec<_>) =
                    means.into_iter().partition(|(scope, _)| scope.iter().any(|j| absent.contains(j)));
                let mut conditions: Vec<usize> = component.parents.clone();
                let interacting = if component.confounded { Vec::new() } else { inside.clone() };
                conditions.extend(&interacting);
                conditions
                    .extend(absorbed.iter().flat_map(|(scope, _)| scope).filter(|j| !absent.contains(j)));
                conditions.sort_unstable();
                conditions.dedup();
                let target: Vec<f64> = (0..b)
                    .map(|row| {
                        let target_factor: f64 =
                            absent.iter().map(|&j| factor(j, reference.rows.get(row, j))).product();
                        target_factor * absorbed.iter().map(|(_, mean)| mean[row]).product::<f64>()
                    })
                    .collect();
                let at_x: f64 = interacting.iter().map(|&j| factor(j, x[j])).product();
                let centre: f64 = (0..b)
                    .map(|row| {
                        let at_row: f64 =
                            interacting.iter().map(|&j| factor(j, reference.rows.get(row, j))).product();
                        w[row] * target[row] * at_row
                    })
                    .sum();
                let mean_at = |row: usize| {
                    if conditions.is_empty() {
                        return at_x * w.iter().zip(&target).map(|(w, t)| w * t).sum::<f64>();
                    }
                    let query: Vec<f64> = (0..x.len()).map(|j| cell(row, j)).collect();
                    let weights = plain_weights(&reference.rows, &w, ridge, &conditions, &query);
                    let missing = if centered { 1.0 - weights.iter().sum::<f64>() } else { 0.0 };
                    at_x * weights.iter().zip(&target).map(|(w, t)| w * t).sum::<f64>() + missing * centre
                };
                let scope: Vec<usize> = conditions.iter().copied().filter(|&j| !present[j]).collect();
                if component.confounded {
                    present_product *= inside.iter().map(|&j| factor(j, x[j])).product::<f64>();
                }
                means = kept;
                means.push((scope, (0..b).map(mean_at).collect()));
            }
            let mean: f64 = means.iter().map(|(_, mean)| mean[0]).product();
            value += model.coef[(i, output)] * scale * present_product * mean;
        }
    }
    value
}

// Long: a table of structures.
#[test]
fn values_are_those_of_iterated_regressions() {
    let d = 4;
    let (model, rows) = (model(summed_kernel(d), 5, d), table(400, 2, d));
    let weights = Some((1..=7).map(f64::from).collect());
    let reference = Background { rows: table(50, 7, d), weights };
    let scales: Vec<f64> = (0..d).map(|j| 0.8 + 0.1 * j as f64).collect();
    let kernel = ConditioningKernel::Given(Kernel::gaussian(&scales));
    let none = Vec::<&str>::new;
    let structures = [
        // A chain with all edges.
        ["x2", "x0", "x3", "x1"].map(|name| CausalComponent::new([name])).to_vec(),
        // A common effect of two independent causes, and an effect of one of them.
        vec![
            CausalComponent::new(["x0"]),
            CausalComponent::new(["x1"]).with_parents(none()),
            CausalComponent::new(["x2"]),
            CausalComponent::new(["x3"]).with_parents(["x0"]),
        ],
        // A fork, whose effects are independent given their cause.
        vec![
            CausalComponent::new(["x1", "x0"]),
            CausalComponent::new(["x2"]).with_parents(["x0"]),
            CausalComponent::new(["x3"]).with_parents(["x0"]),
        ],
        // A confounded pair between a cause and an effect.
        vec![
            CausalComponent::new(["x3"]),
            CausalComponent::new(["x0", "x2"]).confounded(),
            CausalComponent::new(["x1"]),
        ],
        // Interacting columns that have a cause.
        vec![CausalComponent::new(["x1"]), CausalComponent::new(["x0", "x2", "x3"])],
        vec![CausalComponent::new(["x1", "x3"]).confounded(), CausalComponent::new(["x0", "x2"])],
    ];
    let number = |name: &String| name[1..].parse::<usize>().unwrap();
    for (position, structure) in structures.into_iter().enumerate() {
        let mut earlier = Vec::new();
        let mut components = Vec::new();
        for component in &structure {
            let parents = component.parents.as_ref();
            let parents = parents.map_or_else(|| earlier.clone(), |names| names.iter().map(number).collect());
            let columns: Vec<usize> = component.columns.iter().map(number).collect();
            earlier.extend(&columns);
            components.push(PlainComponent { columns, parents, confounded: component.confounded });
        }
        for (groups, ridge, centered) in [
            (Players::singletons(rows.columns()), 0.01, true),
            (Players::singletons(rows.columns()), 0.1, false),
            (Players::named(rows.columns(), &[("pair", vec!["x0", "x3"])]).unwrap(), 0.1, true),
        ] {
            let conditioning =
                Conditioning { kernel: kernel.clone(), centered, ..Conditioning::with_ridge(ridge) };
            let game = causal(&reference, &structure.clone().into(), &conditioning);
            let question = Question::from(game).with_players(Some(groups.clone()));
            let explanation = explained(&model, question, &rows);
            let p = groups.players().len();
            for row in 0..rows.rows() {
                let x = rows.row(row);
                let expected = shapley(p, |players| {
                    let mut present = vec![false; d];
                    for (player, _) in groups.players().iter().zip(players).filter(|(_, on)| **on) {
                        player.columns.iter().for_each(|&j| present[j] = true);
                    }
                    plain_value((&model, &reference), &components, (ridge, centered), &present, (&x, 1))
                });
                let (values, bound) =
                    (&explanation.values[(row * 2 + 1) * p..][..p], bounds(&explanation)[row * 2 + 1]);
                let error = largest_difference(values, &expected);
                assert!(error < 1e-10, "structure {position}, {ridge} {centered}: {values:?} {expected:?}");
                assert!(error <= bound && bound < 1e-8, "structure {position}: {error} {bound}");
                let residual = explanation.residuals()[row * 2 + 1];
                assert!(residual.abs() <= bound, "structure {position}: {residual} {bound}");
            }
        }
    }
}

/// A linear f of the model `x0 = e0`, `x1 = .8 x0 + e1 + u`, `x2 = -.5 x0 + e2 + u`, `x3 = x1 + .6 x2 + e3`,
/// where u is not observed. With u a common cause, an intervention on x1 leaves x2 unchanged. The rows hold
/// every combination of noises of ±1, so that regressions on products of columns find the model exactly.
#[test]
fn linear_structural_models_have_their_closed_form() {
    let rows: Vec<[f64; 4]> = (0..32)
        .map(|i| {
            let [e0, e1, e2, e3, u] = [0, 1, 2, 3, 4].map(|bit| f64::from(i >> bit & 1) * 2.0 - 1.0);
            let (x1, x2) = (0.8 * e0 + e1 + u, -0.5 * e0 + e2 + u);
            [e0, x1, x2, x1 + 0.6 * x2 + e3]
        })
        .collect();
    let reference = Background::from(Table::from_rows(&rows).unwrap());
    let slopes = [0.4, -1.0, 0.7, 2.0];
    let points = Table::from_rows(&[slopes]).unwrap();
    let coef = Matrix::column_vector(vec![1.0]);
    let model = KernelExpansion::new(linear(&[0, 1, 2, 3]), points, coef, vec![0.5]).unwrap();
    let structure = |confounded| {
        let mut pair = CausalComponent::new(["x1", "x2"]);
        pair.confounded = confounded;
        let effect = CausalComponent::new(["x3"]).with_parents(["x1", "x2"]);
        CausalStructure::from(vec![CausalComponent::new(["x0"]), pair, effect])
    };
    let x = [1.0, -0.5, 2.0, 0.3];
    let affine = |j: usize| -> Kernel {
        let (columns, center, scale) = (vec![j], vec![0.0], vec![1.0]);
        Polynomial { columns, center, scale, gamma: 1.0, coef0: 1.0, degree: 1 }.into()
    };
    let kernel = ConditioningKernel::Given(affine(0) * affine(1) * affine(2) * affine(3));
    let conditioning = Conditioning { kernel, ..Conditioning::with_ridge(1e-9) };
    for confounded in [true, false] {
        let expected = shapley(4, |present| {
            let x0 = if present[0] { x[0] } else { 0.0 };
            // Given x0, x1 and x2 have variance 2 and covariance 1.
            let shift = |j: usize, slope: f64| match (confounded, present[j]) {
                (false, true) => (x[j] - slope * x0) / 2.0,
                _ => 0.0,
            };
            let x1 = if present[1] { x[1] } else { 0.8 * x0 + shift(2, -0.5) };
            let x2 = if present[2] { x[2] } else { -0.5 * x0 + shift(1, 0.8) };
            let x3 = if present[3] { x[3] } else { x1 + 0.6 * x2 };
            0.5 + [x0, x1, x2, x3].iter().zip(slopes).map(|(x, slope)| slope * x).sum::<f64>()
        });
        let game = causal(&reference, &structure(confounded), &conditioning);
        let explanation = explained(&model, game, &Table::from_rows(&[x]).unwrap());
        let error = largest_difference(&explanation.values, &expected);
        assert!(error < 1e-6, "confounded {confounded}: {:?} {expected:?}", explanation.values);
    }
}

/// The chain `x0 = e0`, `x1 = .8 x0 + .6 e1`, with f a Gaussian in both columns. Under `do(x0)` the second
/// column is normal with mean .8 x0, under `do(x1)` the first one is standard normal.
#[test]
fn gaussian_integrals_of_a_chain_are_approached() {
    let n = 250;
    let noise = Stream(7).normals(n, 2);
    let rows: Vec<[f64; 2]> =
        (0..n).map(|i| [noise.get(i, 0), 0.8 * noise.get(i, 0) + 0.6 * noise.get(i, 1)]).collect();
    let reference = Background::from(Table::from_rows(&rows).unwrap());
    let point = [1.0, -0.2];
    let points = Table::from_rows(&[point]).unwrap();
    let coef = Matrix::column_vector(vec![1.0]);
    let model = KernelExpansion::new(Kernel::gaussian(&[1.0, 1.0]), points, coef, vec![0.0]).unwrap();
    // E exp(-(X - c)² / 2) for X ~ N(mean, variance).
    let integral = |c: f64, mean: f64, variance: f64| {
        (-(mean - c).powi(2) / (2.0 * (1.0 + variance))).exp() / (1.0 + variance).sqrt()
    };
    let x = [1.2, 1.0];
    // E exp(-(X0 - c0)² / 2 - (X1 - c1)² / 2) by a sum over X0.
    let everywhere: f64 = (-800..=800)
        .map(|k| {
            let u = f64::from(k) / 100.0;
            let density = (-u * u / 2.0).exp() / std::f64::consts::TAU.sqrt();
            0.01 * density * integral(point[0], u, 0.0) * integral(point[1], 0.8 * u, 0.36)
        })
        .sum();
    let expected = shapley(2, |present| match present {
        [false, false] => everywhere,
        [true, false] => integral(point[0], x[0], 0.0) * integral(point[1], 0.8 * x[0], 0.36),
        [false, true] => integral(point[0], 0.0, 1.0) * integral(point[1], x[1], 0.0),
        _ => integral(point[0], x[0], 0.0) * integral(point[1], x[1], 0.0),
    });
    let structure = CausalStructure::from(["x0", "x1"].map(|name| CausalComponent::new([name])).to_vec());
    let conditioning = Conditioning::with_ridge(1e-3);
    let explained_at = |game: Game| explained(&model, game, &Table::from_rows(&[x]).unwrap()).values;
    let causal_values = explained_at(causal(&reference, &structure, &conditioning));
    let error = largest_difference(&causal_values, &expected);
    assert!(error < 0.02, "{causal_values:?} {expected:?}");
    // The other games have other values here.
    let conditional = ConditionalModel::Embedding(conditioning);
    for game in [
        Game::Interventional { background: reference.clone() },
        Game::Observational { reference: reference.clone(), conditional },
    ] {
        let name = game.name();
        let difference = largest_difference(&explained_at(game), &expected);
        assert!(difference > 0.04, "{name}: {difference}");
    }
}

#[test]
fn values_are_the_same_for_any_batch_and_number_of_threads() {
    let d = 4;
    let (model, rows) = (model(summed_kernel(d), 12, d), table(400, 5, d));
    let structure = CausalStructure::from(vec![
        CausalComponent::new(["x0"]),
        CausalComponent::new(["x1", "x2"]).confounded(),
        CausalComponent::new(["x3"]).with_parents(["x1"]),
    ]);
    let game = causal(&table(50, 9, d).into(), &structure, &Conditioning::with_ridge(0.01));
    let joint = explained(&model, game.clone(), &rows);
    let on_one_thread = with_threads(1, || explained(&model, game.clone(), &rows));
    assert_eq!(joint.values, on_one_thread.values);
    let row = explained(&model, game, &rows.select_rows(&[3]));
    assert_eq!(row.values, joint.values[3 * 8..4 * 8]);
}

#[test]
fn many_players_are_estimated_from_coalitions() {
    let d = 5;
    let (model, rows) = (model(Kernel::gaussian(&[1.0; 5]), 12, d), table(400, 2, d));
    let components = ["x0", "x1", "x2", "x3", "x4"].map(|name| CausalComponent::new([name]));
    let game = causal(&table(50, 9, d).into(), &components.to_vec().into(), &Conditioning::with_ridge(0.01));
    let exact = explained(&model, game.clone(), &rows);
    let budget = Budget { coalitions: 24, ..Budget::default() };
    let estimated = explained(&model, Question::from(game).with_budget(budget), &rows);
    let Exactness::Estimated { std_error, .. } = &estimated.exactness else { panic!("values are exact") };
    let deviations = exact.values.iter().zip(&estimated.values).map(|(a, b)| (a - b).abs());
    assert!(deviations.zip(std_error).all(|(deviation, error)| deviation <= 4.0 * error + 1e-12));
    assert!(estimated.residuals().iter().all(|residual| residual.abs() < 1e-12));
}

#[test]
fn invalid_structures_are_refused_with_their_culprit() {
    let d = 3;
    let (gaussian, reference) = (model(Kernel::gaussian(&[1.0; 3]), 8, d), table(50, 9, d).into());
    let refusal = |model: &KernelExpansion, structure: Vec<CausalComponent>| {
        let game = causal(&reference, &structure.into(), &Conditioning::with_ridge(0.1));
        Explainer::new(model, game).err().unwrap().to_string()
    };
    let separate = |name: &str| CausalComponent::new([name]);
    let chain = || vec![separate("x0"), separate("x1"), separate("x2")];
    let unknown = refusal(&gaussian, vec![separate("age"), separate("x1")]);
    assert!(unknown.contains("no column 'age'") && unknown.contains("x0, x1, x2"), "{unknown}");
    let repeated =
        refusal(&gaussian, vec![CausalComponent::new(["x0", "x1"]), separate("x0"), separate("x2")]);
    assert!(repeated.contains("'x0'") && repeated.contains("one component only"), "{repeated}");
    let missing = refusal(&gaussian, chain()[..2].to_vec());
    assert!(missing.contains("without 'x2'") && missing.contains("add it"), "{missing}");
    let mut cyclic = chain();
    cyclic[0].parents = Some(vec!["x1".into()]);
    let cyclic = refusal(&gaussian, cyclic);
    assert!(
        cyclic.contains("'x1'") && cyclic.contains("'x0'") && cyclic.contains("causes first"),
        "{cyclic}"
    );
    let empty = refusal(&gaussian, vec![CausalComponent::new(Vec::<String>::new())]);
    assert!(empty.contains("component 1"), "{empty}");
    // A kernel that ties columns of two components together has no factors.
    let matern = Stationary {
        profile: Profile::Matern32,
        columns: (0..d).collect(),
        length_scale: vec![1.0; d],
        ard: true,
        isotropic: true,
    };
    let tied = refusal(&model(matern.into(), 8, d), chain());
    assert!(tied.contains("ties the columns"), "{tied}");
    let lists = |confounded: &[String], parents: Vec<(String, Vec<String>)>| {
        let components = vec![vec!["x0".to_string()], vec!["x1".into(), "x2".into()]];
        CausalStructure::from_lists(components, confounded, parents)
    };
    assert!(lists(&["age".into()], Vec::new()).unwrap_err().to_string().contains("'age'"));
    let parents = ["x1", "x2"].map(|name| (name.to_string(), vec!["x0".to_string()]));
    assert!(lists(&[], parents.to_vec()).unwrap_err().to_string().contains("parents already"));
}

#[test]
fn graphs_state_structures() {
    // The hidden cause of x1 and x2 makes a component; the variables between x2 and x3 are removed.
    let graph = Graph::parse("x0 -> x1, x2; u -> x1, x2; x2 -> z -> x3 -> y").unwrap();
    let structure = graph.causal_structure(&["x0", "x1", "x2", "x3"]).unwrap();
    let expected = vec![
        CausalComponent::new(["x0"]).with_parents(Vec::<String>::new()),
        CausalComponent::new(["x1", "x2"]).with_parents(["x0"]).confounded(),
        CausalComponent::new(["x3"]).with_parents(["x2"]),
    ];
    assert_eq!(structure.components, expected);
    let lists = structure.to_lists();
    let parents = lists.parents.into_iter().map(|list| (list[0].clone(), list[1..].to_vec()));
    let again = CausalStructure::from_lists(lists.components, &lists.confounded, parents).unwrap();
    assert_eq!(again, structure);
    let refusal = |text: &str| {
        let names = ["x0", "x1", "x2"];
        Graph::parse(text).unwrap().causal_structure(&names).unwrap_err().to_string()
    };
    assert!(refusal("x0 -> x1").contains("no variable 'x2'"));
    assert!(refusal("x0 -> x1 <-> x0; x1 -> x2").contains("x0 <-> x1"));
    assert!(refusal("x0 -> x1 -> x2 <-> x0").contains("x0 <-> x2"));
}

/// Adds the marginal contributions of the players in every order in which earlier groups come first.
fn add_orders(
    groups: &[Vec<usize>],
    order: &mut Vec<usize>,
    value: &dyn Fn(usize) -> f64,
    (sums, count): (&mut [f64], &mut f64),
) {
    let Some(group) = groups.iter().find(|group| group.iter().any(|j| !order.contains(j))) else {
        let mut mask = 0;
        for &j in order.iter() {
            sums[j] += value(mask | 1 << j) - value(mask);
            mask |= 1 << j;
        }
        *count += 1.0;
        return;
    };
    let remaining: Vec<usize> = group.iter().copied().filter(|j| !order.contains(j)).collect();
    for j in remaining {
        order.push(j);
        add_orders(groups, order, value, (sums, count));
        order.pop();
    }
}

#[test]
fn asymmetric_values_are_means_over_the_orders() {
    let d = 6;
    let kernel = Kernel::gaussian(&[1.0; 6]);
    let (model, rows, reference) = (model(kernel, 10, d), table(400, 1, d), table(50, 9, d));
    let names = |group: &[usize]| group.iter().map(|j| format!("x{j}")).collect::<Vec<String>>();
    let structure = vec![
        CausalComponent::new(["x3"]),
        CausalComponent::new(["x0", "x5", "x1"]).confounded(),
        CausalComponent::new(["x2", "x4"]),
    ];
    let conditioning = Conditioning::with_ridge(0.02);
    let observational =
        Game::Observational { reference: reference.clone().into(), conditional: conditioning.clone().into() };
    for game in [causal(&reference.into(), &structure.into(), &conditioning), observational] {
        // The value of a coalition is that of one group in a game of two.
        let value = |mask: usize| -> f64 {
            let explainer = Explainer::new(&model, game.clone()).unwrap();
            let base = explainer.base_values()[0];
            let present: Vec<usize> = (0..d).filter(|j| mask >> j & 1 == 1).collect();
            let absent: Vec<usize> = (0..d).filter(|j| mask >> j & 1 == 0).collect();
            if present.is_empty() {
                return base;
            }
            if absent.is_empty() {
                return model.predict(&rows).unwrap()[(0, 0)];
            }
            let ordering = vec![names(&present), names(&absent)];
            let values =
                explained(&model, Question::from(game.clone()).with_ordering(ordering), &rows).values;
            base + present.iter().map(|&j| values[j]).sum::<f64>()
        };
        let table_of_values: Vec<f64> = (0..1 << d).map(value).collect();
        for groups in [vec![vec![3], vec![5, 0, 1], vec![2, 4]], vec![(0..d).collect()]] {
            let (mut sums, mut count) = (vec![0.0; d], 0.0);
            let totals = (&mut sums[..], &mut count);
            add_orders(&groups, &mut Vec::new(), &|mask| table_of_values[mask], totals);
            let expected: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
            let ordering: Vec<Vec<String>> = groups.iter().map(|group| names(group)).collect();
            let question = Question::from(game.clone()).with_ordering(ordering);
            let explanation = explained(&model, question, &rows);
            let error = largest_difference(&explanation.values[..d], &expected);
            assert!(error < 1e-11, "{groups:?}: {error}");
            assert!(explanation.residuals().iter().zip(bounds(&explanation)).all(|(r, b)| r.abs() <= *b));
        }
        let plain = explained(&model, game, &rows);
        let expected = shapley(d, |present| {
            table_of_values[(0..d).filter(|&j| present[j]).map(|j| 1 << j).sum::<usize>()]
        });
        assert!(largest_difference(&plain.values[..d], &expected) < 1e-11);
    }
}

#[test]
fn orderings_are_refused_where_they_have_no_values() {
    let d = 3;
    let (gaussian, reference) = (model(Kernel::gaussian(&[1.0; 3]), 8, d), table(50, 9, d));
    let conditional = Conditioning::with_ridge(0.1).into();
    let observational = Game::Observational { reference: reference.clone().into(), conditional };
    let refusal = |game: &Game, ordering: &[&[&str]]| {
        let ordering = ordering.iter().map(|group| group.iter().map(|name| (*name).into()).collect());
        let question = Question::from(game.clone()).with_ordering(ordering.collect());
        Explainer::new(&gaussian, question).err().unwrap().to_string()
    };
    assert!(refusal(&observational, &[&["x0"], &["age", "x1", "x2"]]).contains("'age'"));
    assert!(refusal(&observational, &[&["x0"], &["x1", "x0", "x2"]]).contains("one group"));
    assert!(refusal(&observational, &[&["x0"], &["x2"]]).contains("without 'x1'"));
    assert!(refusal(&observational, &[&["x0", "x1", "x2"], &[]]).contains("has a feature"));
    let interventional = Game::Interventional { background: reference.into() };
    let refused = refusal(&interventional, &[&["x0"], &["x1", "x2"]]);
    assert!(refused.contains("one confounded component"), "{refused}");
    let question =
        Question::from(observational).with_ordering(vec![vec!["x0".into()], vec!["x1".into(), "x2".into()]]);
    let explainer = Explainer::new(&gaussian, question).unwrap();
    let refused = explainer.functionals(&table(400, 1, d), &[0]).unwrap_err().to_string();
    assert!(refused.contains("leave the ordering out"), "{refused}");
    // One column of one kernel factor is enough for a game.
    let small_model = KernelExpansion::new(
        stationary(Profile::Gaussian, 0, 1.0),
        table(0, 4, 1),
        Matrix::column_vector(vec![1.0; 4]),
        vec![0.0],
    )
    .unwrap();
    let game =
        causal(&table(9, 5, 1).into(), &vec![CausalComponent::new(["x0"])].into(), &Conditioning::default());
    assert_eq!(explained(&small_model, game, &table(30, 2, 1)).values.len(), 2);
}
