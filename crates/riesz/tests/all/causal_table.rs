//! Effects from one table, against Gaussian conditioning by explicit sums over rows and members, and against
//! models of known effects; and refusals.

use std::sync::atomic::AtomicBool;

use riesz::causal::{
    CausalFusion, CausalQuery, Caveat, Effect, EffectStrategy, Estimand, Graph, Identification,
    MeasuredColumns, OutcomeGpParameters, PreparedStudies, SingleTable, Stage, StageParameters, Strategy,
    TargetPopulation, UncertaintyCause, caveats, gather, identify, usual_combinations,
};
use riesz::linalg::lu_solve;
use riesz::{Column, ColumnKind, Kernel, Matrix, Table};

use crate::common::{Stream, number};

fn names(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

fn named(columns: &[(&str, &[f64])]) -> Table {
    let values = columns.iter().flat_map(|(_, column)| column.iter().copied()).collect();
    let names = columns.iter().map(|(name, _)| Column::numeric(*name)).collect();
    Table::from_column_major(names, columns[0].1.len(), values).unwrap()
}

/// Stages with the values of their columns, and their parameters.
struct ReferenceModel {
    stages: Vec<ReferenceStage>,
    outcome: Vec<f64>,
    noise: f64,
    level: f64,
}

/// A stage, with columns in the order history, treatments, averaged.
struct ReferenceStage {
    history: Vec<Vec<f64>>,
    treatments: Vec<Vec<f64>>,
    averaged: Vec<Vec<f64>>,
    /// Indices of the treatments among those of a query.
    treatment_indices: Vec<usize>,
    kernel: Kernel,
    ridge: f64,
}

impl ReferenceStage {
    fn row(&self, i: usize) -> Vec<f64> {
        [&self.history[i][..], &self.treatments[i], &self.averaged[i]].concat()
    }

    /// Returns a query as weighted points.
    fn points(&self, weights: &[f64], query: &[f64], member: Option<usize>) -> Vec<(f64, Vec<f64>)> {
        let n = self.history.len();
        let set_treatments: Vec<f64> = self.treatment_indices.iter().map(|j| query[*j]).collect();
        let histories: Vec<(f64, &[f64])> = match self.history[0].is_empty() {
            true => vec![(1.0, &[])],
            false => weights.iter().copied().zip(self.history.iter().map(Vec::as_slice)).collect(),
        };
        let members: Vec<(f64, &[f64])> = match (self.averaged[0].is_empty(), member) {
            (true, _) => vec![(1.0, &[])],
            (false, Some(j)) => vec![(1.0, &self.averaged[j])],
            (false, None) => self.averaged.iter().map(|z| (1.0 / n as f64, &z[..])).collect(),
        };
        let points = histories.iter().flat_map(|(w, h)| {
            members
                .iter()
                .map(|(share, z)| (w * share, [*h, &set_treatments[..], *z].concat()))
                .collect::<Vec<_>>()
        });
        points.collect()
    }

    fn kernel_sum(&self, a: &[(f64, Vec<f64>)], b: &[(f64, Vec<f64>)]) -> f64 {
        let products = a.iter().flat_map(|(v, x)| b.iter().map(move |(w, y)| v * w * self.kernel.eval(x, y)));
        products.sum()
    }
}

impl ReferenceModel {
    /// Returns means (minus the constant) and covariances of queries from stage t on. If `member` is given,
    /// averages over covariates use this member alone.
    fn moments(
        &self,
        t: usize,
        weights: &[Vec<f64>],
        queries: &[Vec<f64>],
        constant: f64,
        member: Option<usize>,
    ) -> (Vec<f64>, Vec<Vec<f64>>) {
        let (stage, n, q) = (&self.stages[t], self.outcome.len(), queries.len());
        let query_points: Vec<_> = (0..q)
            .map(|k| stage.points(weights.get(k).map_or(&[], |w| &w[..]), &queries[k], member))
            .collect();
        let rows: Vec<_> = (0..n).map(|i| vec![(1.0, stage.row(i))]).collect();
        let is_last = t + 1 == self.stages.len();
        let (level, noise) = if is_last { (self.level, self.noise) } else { (0.0, stage.ridge) };
        let mut gram = Matrix::zeros(n, n);
        for i in 0..n {
            for j in 0..n {
                gram[(i, j)] =
                    stage.kernel_sum(&rows[i], &rows[j]) + level + if i == j { noise } else { 0.0 };
            }
        }
        let with_rows: Vec<Vec<f64>> = query_points
            .iter()
            .map(|points| rows.iter().map(|row| stage.kernel_sum(points, row) + level * constant).collect())
            .collect();
        let solved: Vec<Vec<f64>> = with_rows.iter().map(|cross| lu_solve(&gram, cross)).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let residual: Vec<Vec<f64>> = (0..q)
            .map(|a| {
                (0..q)
                    .map(|b| {
                        stage.kernel_sum(&query_points[a], &query_points[b]) + level * constant * constant
                            - dot(&solved[a], &with_rows[b])
                    })
                    .collect()
            })
            .collect();
        if is_last {
            let mean = self.outcome.iter().sum::<f64>() / n as f64;
            let centered: Vec<f64> = self.outcome.iter().map(|y| y - mean).collect();
            // The constant's prior mean is the mean outcome.
            return (
                solved.iter().map(|solution| dot(solution, &centered) + constant * mean).collect(),
                residual,
            );
        }
        let (means, mut covariances) = self.moments(t + 1, &solved, queries, constant, member);
        let unit = |u: usize| (0..n).map(|i| f64::from(u8::from(i == u))).collect::<Vec<f64>>();
        for u in 0..n {
            let (unit_means, unit_covariances) = self.moments(t + 1, &vec![unit(u); q], queries, 0.0, None);
            for a in 0..q {
                for b in 0..q {
                    covariances[a][b] +=
                        residual[a][b] * (unit_means[a] * unit_means[b] + unit_covariances[a][b]) / n as f64;
                }
            }
        }
        (means, covariances)
    }
}

/// An effect from one table, its parameters, the same in plain form, and queries.
struct Comparison {
    table: SingleTable,
    parameters: StageParameters,
    reference: ReferenceModel,
    queries: Vec<Vec<f64>>,
    query_table: Table,
}

/// Stages of the named columns, filled with arbitrary numbers, with treatments in the order of `treatments`.
fn comparison(stages: &[StageNames<'_>], treatments: &str) -> Comparison {
    let n = 9;
    let mut columns: Vec<String> = Vec::new();
    for (history, set, averaged) in stages {
        columns.extend([names(history), names(set), names(averaged)].concat());
    }
    columns.sort();
    columns.dedup();
    let value =
        |name: &String, i: usize| number(i + 3, columns.iter().position(|column| column == name).unwrap());
    let values = columns.iter().flat_map(|name| (0..n).map(move |i| (name, i)));
    let values = values.map(|(name, i)| value(name, i)).collect();
    let rows = Table::from_column_major(columns.iter().map(Column::numeric).collect(), n, values).unwrap();
    let outcome: Vec<f64> = (0..n).map(|i| 2.0 + number(i, 40)).collect();
    let treatments = names(treatments);
    let stage = |(history, set, averaged): &(&str, &str, &str)| Stage {
        history: names(history),
        treatments: names(set),
        averaged: names(averaged),
    };
    let stages: Vec<Stage> = stages.iter().map(stage).collect();
    let kernel = |t: usize, scale: f64| {
        let length_scales: Vec<f64> =
            (0..stages[t].columns().len()).map(|j| 0.9 + 0.3 * j as f64 + 0.1 * t as f64).collect();
        scale * Kernel::gaussian(&length_scales)
    };
    let last_stage = stages.len() - 1;
    let parameters = StageParameters {
        regressions: (0..last_stage).map(|t| (kernel(t, 1.0), 0.2 + 0.1 * t as f64)).collect(),
        outcome: OutcomeGpParameters { kernel: kernel(last_stage, 1.7), noise: 0.3, intercept_variance: 0.8 },
        adjustment: true,
        landmarks: None,
    };
    let reference_stage = |t: usize| {
        let cells = |list: &[String]| {
            (0..n).map(|i| list.iter().map(|name| value(name, i)).collect()).collect::<Vec<Vec<f64>>>()
        };
        let treatment_index =
            |name: &String| treatments.iter().position(|treatment| treatment == name).unwrap();
        ReferenceStage {
            history: cells(&stages[t].history),
            treatments: cells(&stages[t].treatments),
            averaged: cells(&stages[t].averaged),
            treatment_indices: stages[t].treatments.iter().map(treatment_index).collect(),
            kernel: kernel(t, if t == last_stage { 1.7 } else { 1.0 }),
            ridge: 0.2 + 0.1 * t as f64,
        }
    };
    let reference = ReferenceModel {
        stages: (0..=last_stage).map(reference_stage).collect(),
        outcome: outcome.clone(),
        noise: 0.3,
        level: 0.8,
    };
    let queries: Vec<Vec<f64>> =
        (0..4).map(|k| (0..treatments.len()).map(|j| number(k, 50 + j)).collect()).collect();
    let values = (0..treatments.len()).flat_map(|j| queries.iter().map(move |query| query[j])).collect();
    let query_table =
        Table::from_column_major(treatments.iter().map(Column::numeric).collect(), 4, values).unwrap();
    let table = SingleTable { stages: stages.clone(), treatments, rows, outcome };
    Comparison { table, parameters, reference, queries, query_table }
}

/// History, treatments and averaged columns of a stage, by name.
type StageNames<'a> = (&'a str, &'a str, &'a str);

/// Returns a comparison of one stage with a sum of kernels of the treatments and of the averaged covariates.
fn additive_comparison(stage: StageNames<'_>, treatments: &str) -> Comparison {
    let mut comparison = comparison(&[stage], treatments);
    let (first, width) = (names(stage.1).len(), comparison.table.stages[0].columns().len());
    let kernel = (0..width)
        .map(|j| 0.6 * Kernel::gaussian(&[0.8 + 0.1 * j as f64]).map_columns(&|_| j))
        .reduce(|sum, kernel| sum + kernel)
        .unwrap();
    let joint_kernel =
        0.9 * Kernel::gaussian(&[1.3, 0.7]).map_columns(&|k| if k == 0 { first } else { width - 1 });
    let kernel = if width > first + 1 { kernel + joint_kernel } else { kernel };
    comparison.parameters.outcome.kernel = kernel.clone();
    comparison.reference.stages[0].kernel = kernel;
    comparison
}

/// Compares an effect with Gaussian conditioning.
fn assert_equals_gaussian_conditioning(comparison: Comparison) {
    let Comparison { table, parameters, reference, queries, query_table } = comparison;
    let (n, stages) = (table.outcome.len(), &table.stages);
    let last_stage = stages.len() - 1;
    let effect = table.effect(&parameters).unwrap();
    let estimate = effect.evaluate(&query_table).unwrap();
    let (means, mut covariance) = reference.moments(0, &[], &queries, 1.0, None);
    if stages.iter().any(|stage| !stage.averaged.is_empty()) {
        // The Bayesian bootstrap of members: their covariance divided by n + 1.
        let member_means: Vec<Vec<f64>> =
            (0..n).map(|j| reference.moments(0, &[], &queries, 1.0, Some(j)).0).collect();
        for a in 0..4 {
            for b in 0..4 {
                let product: f64 = member_means
                    .iter()
                    .map(|member| (member[a] - means[a]) * (member[b] - means[b]))
                    .sum::<f64>();
                covariance[a][b] += product / (n * (n + 1)) as f64;
            }
        }
    }
    for a in 0..4 {
        assert!((estimate.mean[a] - means[a]).abs() < 1e-9, "{} {}", estimate.mean[a], means[a]);
        for b in 0..4 {
            let (actual, expected) = (estimate.covariance[(a, b)], covariance[a][b]);
            assert!((actual - expected).abs() < 1e-9, "{stages:?} {a} {b}: {actual} {expected}");
        }
    }
    let has_cause =
        |cause: UncertaintyCause| estimate.causes.iter().any(|(candidate, _)| *candidate == cause);
    assert!(
        has_cause(UncertaintyCause::Outcome)
            && (0..last_stage).all(|t| has_cause(UncertaintyCause::Stage(t))),
        "{:?}",
        estimate.causes
    );
    assert_eq!(has_cause(UncertaintyCause::Interaction), last_stage > 0);
    // Draws have these moments.
    let draws = effect.sample(&query_table, 4000, 1).unwrap();
    for a in 0..4 {
        let mean = draws.row(a).iter().sum::<f64>() / 4000.0;
        let variance = draws.row(a).iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 4000.0;
        let expected = covariance[a][a];
        assert!((mean - means[a]).abs() < 5.0 * (expected / 4000.0).sqrt(), "{mean} {}", means[a]);
        assert!((variance / expected - 1.0).abs() < 0.12, "{variance} {expected}");
    }
    // If treatments are set at one time, means are expansions.
    let posteriors = effect.posteriors();
    if stages.iter().skip(1).all(|stage| stage.treatments.is_empty()) {
        let (_, model, _) = &posteriors.unwrap()[0];
        let predicted = model.predict(&query_table).unwrap();
        for a in 0..4 {
            assert!((predicted[(a, 0)] - means[a]).abs() < 1e-9);
        }
    } else {
        assert!(posteriors.unwrap_err().to_string().contains("set at one time"));
    }
}

#[test]
fn moments_equal_gaussian_conditioning() {
    let cases: [(&[StageNames<'_>], &str); 7] = [
        (&[("", "x", "")], "x"),
        (&[("", "x", "z w")], "x"),
        (&[("", "b a", "z")], "a b"),
        (&[("", "x", ""), ("m", "", "x")], "x"),
        (&[("", "a", "z"), ("z a v", "b", "")], "a b"),
        (&[("", "b", ""), ("b v u", "a", "")], "a b"),
        (&[("", "a", "z"), ("z a v", "b", ""), ("z a v b u", "c", "")], "c a b"),
    ];
    for (stages, treatments) in cases {
        assert_equals_gaussian_conditioning(comparison(stages, treatments));
    }
    assert_equals_gaussian_conditioning(additive_comparison(("", "x", "z w"), "x"));
    assert_equals_gaussian_conditioning(additive_comparison(("", "b a", "z"), "a b"));
}

/// The posterior of the expansion, on which explanations rest, has the variances of the effect.
#[test]
fn explanations_have_the_covariance_of_the_effect() {
    let x: Vec<f64> = (0..20).map(|i| number(i, 1)).collect();
    let z: Vec<f64> = (0..20).map(|i| number(i, 2)).collect();
    let y: Vec<f64> = (0..20).map(|i| x[i] - z[i] + 0.2 * number(i, 3)).collect();
    let front = vec![
        Stage { treatments: names("x"), ..Stage::default() },
        Stage { history: names("z"), averaged: names("x"), ..Stage::default() },
    ];
    let back = vec![Stage { treatments: names("x"), averaged: names("z"), ..Stage::default() }];
    let product = 2.0 * Kernel::gaussian(&[1.0, 1.2]);
    let sum = Kernel::gaussian(&[1.0]) + 2.0 * Kernel::gaussian(&[1.2]).map_columns(&|_| 1);
    for (stages, kernel) in [(front, &product), (back.clone(), &product), (back, &sum)] {
        let parameters = StageParameters {
            regressions: vec![(Kernel::gaussian(&[0.8]), 0.3); stages.len() - 1],
            outcome: OutcomeGpParameters { kernel: kernel.clone(), noise: 0.1, intercept_variance: 0.0 },
            adjustment: true,
            landmarks: None,
        };
        let rows = named(&[("x", &x), ("z", &z)]);
        let table = SingleTable { stages, treatments: names("x"), rows, outcome: y.clone() };
        let effect = table.effect(&parameters).unwrap();
        let queries = named(&[("x", &[-0.4, 0.7, 1.1])]);
        let estimate = effect.evaluate(&queries).unwrap();
        let (_, model, covariance) = effect.posteriors().unwrap().remove(0);
        let posterior = riesz::Posterior::new(&model, &covariance).unwrap();
        // The posterior of the expansion omits the constant, to which a kernel of covariates alone belongs.
        let covariance = &posterior.covariance(&posterior.functionals_at(&queries).unwrap())[0];
        let contrast_variance = |c: &Matrix, a: usize| c[(a, a)] + c[(2, 2)] - 2.0 * c[(a, 2)];
        for a in 0..3 {
            let expected = contrast_variance(&estimate.covariance, a);
            let actual = contrast_variance(covariance, a);
            assert!((actual - expected).abs() < 1e-8, "{actual} {expected}");
            let level = estimate.covariance[(a, a)];
            assert!(kernel == &sum || (covariance[(a, a)] - level).abs() < 1e-8, "{level}");
        }
    }
}

fn query(treatments: &str, columns: &str) -> CausalQuery {
    CausalQuery {
        treatments: names(treatments),
        outcome: "y".into(),
        studies: vec![names(columns)],
        ..CausalQuery::default()
    }
}

fn gathered(identification: &Identification, columns: &[(&str, &[f64])]) -> riesz::Result<PreparedStudies> {
    let columns = columns.iter().map(|(name, column)| (Column::numeric(*name), column.to_vec())).collect();
    gather(identification, &[MeasuredColumns { columns }])
}

/// Learns the effect that a graph identifies.
fn learn_effect(graph: &str, treatments: &str, columns: &[(&str, &[f64])]) -> (Identification, Effect) {
    let measured = columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ");
    let graph = Graph::parse(graph).unwrap();
    let identification = identify(Some(&graph), &query(treatments, &measured)).unwrap();
    let studies = gathered(&identification, columns).unwrap().studies;
    let effect =
        CausalFusion { draws: 2, ..CausalFusion::default() }.learn(&identification, &studies).unwrap();
    (identification, effect)
}

fn assert_estimates(effect: &Effect, estimand: &Estimand, queries: &Table, truth: &[f64], max_sd: f64) {
    let estimate = effect.pointwise(queries, estimand).unwrap();
    for (i, truth) in truth.iter().enumerate() {
        let (mean, sd) = (estimate.mean[i], estimate.sd()[i]);
        assert!((mean - truth).abs() < 4.0 * sd && sd < max_sd, "{mean} ± {sd}, in truth {truth}");
        assert!(estimate.supported()[i], "{:?}", estimate.support[i]);
    }
}

fn normals(s: &mut Stream, n: usize) -> Vec<f64> {
    (0..n).map(|_| (0..12).map(|_| s.uniform()).sum::<f64>() - 6.0).collect()
}

/// Linear models, whose effects are products and sums of coefficients.
#[test]
fn fits_recover_the_effects_of_linear_models() {
    let (mut s, n) = (Stream(7), 150);
    let mut noise = || normals(&mut s, n);
    let add = |parts: &[(f64, &[f64])]| -> Vec<f64> {
        (0..n).map(|i| parts.iter().map(|(factor, column)| factor * column[i]).sum()).collect()
    };
    let slope = |effect: &Effect, treatment: &str| {
        Estimand::slope(effect.treatments(), Some(treatment), None).unwrap()
    };
    // Back door: y = 1.5 x - 2 z; the unadjusted slope is 0.5.
    let z = noise();
    let x = add(&[(1.0, &z), (1.0, &noise())]);
    let y = add(&[(1.5, &x), (-2.0, &z), (0.5, &noise())]);
    let (identification, effect) =
        learn_effect("z -> x; z -> y; x -> y", "x", &[("x", &x), ("y", &y), ("z", &z)]);
    assert!(
        matches!(&identification.strategy, EffectStrategy::BackDoor { adjust, .. } if *adjust == names("z"))
    );
    assert_estimates(&effect, &slope(&effect, "x"), &named(&[("x", &[-1.0, 0.0, 1.0])]), &[1.5; 3], 0.3);
    // The population with z = 1, and a population whose mean of z is 0.5.
    let stop = AtomicBool::new(false);
    let conditional =
        effect.on_population(&TargetPopulation::ConditionalOn(named(&[("z", &[1.0])])), &stop).unwrap();
    assert_estimates(&conditional, &Estimand::Level, &named(&[("x", &[0.5])]), &[0.75 - 2.0], 0.3);
    let members = TargetPopulation::members(named(&[("z", &[0.0, 1.0])]), &[1.0, 1.0]).unwrap();
    let transported = effect.on_population(&members, &stop).unwrap();
    assert_estimates(&transported, &Estimand::Level, &named(&[("x", &[0.5])]), &[0.75 - 1.0], 0.3);
    // Front door: m = 0.8 x, y = 1.5 m + u, where u also affects x.
    let u = noise();
    let x = add(&[(1.0, &u), (1.0, &noise())]);
    let m = add(&[(0.8, &x), (0.7, &noise())]);
    let y = add(&[(1.5, &m), (1.0, &u), (0.3, &noise())]);
    let (identification, effect) =
        learn_effect("x -> m -> y; x <-> y", "x", &[("x", &x), ("y", &y), ("m", &m)]);
    assert!(
        matches!(&identification.strategy, EffectStrategy::FrontDoor { mediators, .. } if *mediators == names("m"))
    );
    assert_estimates(&effect, &slope(&effect, "x"), &named(&[("x", &[-0.5, 0.0, 0.5])]), &[1.2; 3], 0.4);
    assert!(effect.on_population(&TargetPopulation::Treated(named(&[("x", &[0.0])])), &stop).is_err());
    // If the treatment almost determines the mediator, nobody had another value of it: no overlap.
    let determined = add(&[(0.8, &x), (0.05, &noise())]);
    let y = add(&[(1.5, &determined), (1.0, &u), (0.3, &noise())]);
    let (_, effect) = learn_effect("x -> m -> y; x <-> y", "x", &[("x", &x), ("y", &y), ("m", &determined)]);
    let estimate = effect.evaluate(&named(&[("x", &[-1.0, 0.0, 1.0])])).unwrap();
    assert!(
        estimate.support.iter().all(|support| support.overlap < 0.3 && !support.is_supported()),
        "{:?}",
        estimate.support
    );
    // Sequential: a affects v, and v affects b; y = a + 2 b + 1.5 v, v = 0.7 a + z.
    let z = noise();
    let a = add(&[(0.6, &z), (1.0, &noise())]);
    let v = add(&[(0.7, &a), (1.0, &z), (0.7, &noise())]);
    let b = add(&[(0.5, &v), (1.0, &noise())]);
    let y = add(&[(1.0, &a), (2.0, &b), (1.5, &v), (0.5, &z), (0.5, &noise())]);
    let graph = "z -> a; z -> v; z -> y; a -> v; v -> b; a -> y; v -> y; b -> y";
    let columns = [("z", &z[..]), ("a", &a), ("v", &v), ("b", &b), ("y", &y)];
    let (identification, effect) = learn_effect(graph, "b a", &columns);
    assert_eq!(identification.to_string(), "sequential back-door, adjusting for z before a, then v before b");
    let queries = named(&[("b", &[0.0, 0.5, -0.5]), ("a", &[0.0, 0.5, 0.5])]);
    assert_estimates(&effect, &slope(&effect, "a"), &queries, &[2.05; 3], 0.5);
    assert_estimates(&effect, &slope(&effect, "b"), &queries, &[2.0; 3], 0.4);
    let (_, later_effect) = learn_effect(graph, "b", &columns);
    assert_estimates(
        &later_effect,
        &slope(&later_effect, "b"),
        &named(&[("b", &[0.0, 0.5])]),
        &[2.0; 2],
        0.3,
    );
}

/// Effects through landmarks are close to those through all rows.
#[test]
fn landmarks_approximate_all_rows() {
    let (mut s, n) = (Stream(3), 60);
    let z = normals(&mut s, n);
    let noise = normals(&mut s, n);
    let x: Vec<f64> = (0..n).map(|i| 0.5 * z[i] + noise[i]).collect();
    let noise = normals(&mut s, n);
    let v: Vec<f64> = (0..n).map(|i| x[i] + 0.5 * noise[i]).collect();
    let noise = normals(&mut s, n);
    let y: Vec<f64> = (0..n).map(|i| v[i].sin() + z[i] + 0.3 * noise[i]).collect();
    let stages = vec![
        Stage { treatments: names("x"), averaged: names("z"), ..Stage::default() },
        Stage { history: names("v"), averaged: vec![], treatments: vec![] },
    ];
    let rows = named(&[("x", &x), ("z", &z), ("v", &v)]);
    let table = SingleTable { stages, treatments: names("x"), rows, outcome: y };
    let parameters = |landmarks: Option<usize>| StageParameters {
        regressions: vec![(Kernel::gaussian(&[1.5, 1.5]), 0.3)],
        outcome: OutcomeGpParameters {
            kernel: 2.0 * Kernel::gaussian(&[1.2]),
            noise: 0.4,
            intercept_variance: 1.0,
        },
        adjustment: true,
        landmarks,
    };
    let queries = named(&[("x", &[-1.0, 0.2, 1.0])]);
    let estimate = |landmarks| table.effect(&parameters(landmarks)).unwrap().evaluate(&queries).unwrap();
    let (exact, approximate) = (estimate(None), estimate(Some(40)));
    for a in 0..3 {
        let sd = exact.covariance[(a, a)].sqrt();
        assert!(
            (exact.mean[a] - approximate.mean[a]).abs() < 0.1 * sd,
            "{:?} {:?}",
            exact.mean,
            approximate.mean
        );
        assert!((approximate.covariance[(a, a)].sqrt() / sd - 1.0).abs() < 0.1);
    }
}

/// The predicted variance reduction by one more row equals that of a refit with the row.
#[test]
fn variance_reduction_of_a_row_equals_that_of_a_refit() {
    let product = 1.4 * Kernel::gaussian(&[0.9, 1.1]);
    let sum = 1.4 * Kernel::gaussian(&[0.9]) + 0.8 * Kernel::gaussian(&[1.1]).map_columns(&|_| 1);
    for kernel in [product, sum] {
        assert_variance_reduction_equals_refit(kernel);
    }
}

fn assert_variance_reduction_equals_refit(kernel: Kernel) {
    let n = 15;
    let column = |j: usize, n: usize| (0..n).map(|i| number(i, j)).collect::<Vec<f64>>();
    let parameters = StageParameters {
        regressions: vec![],
        outcome: OutcomeGpParameters { kernel, noise: 0.2, intercept_variance: 0.5 },
        adjustment: false,
        landmarks: None,
    };
    let stages = vec![Stage { treatments: names("x"), averaged: names("z"), ..Stage::default() }];
    let effect = |rows: Table, outcome: Vec<f64>| {
        let table = SingleTable { stages: stages.clone(), treatments: names("x"), rows, outcome };
        table.effect(&parameters).unwrap()
    };
    let (x, z, y) = (column(1, n), column(2, n), column(3, n));
    let before = effect(named(&[("x", &x), ("z", &z)]), y.clone());
    let new_row = named(&[("x", &[0.3]), ("z", &[-0.6])]);
    let queries = named(&[("x", &[0.1, 0.8])]);
    let contrast = Matrix::from_row_major(1, 2, vec![1.0, -1.0]);
    let reduction = before.variance_reduction_per_row(&queries, &contrast, 0, &new_row).unwrap()[(0, 0)];
    // A refit with the row, averaged over the original people.
    let append = |values: &[f64], value: f64| [values, &[value]].concat();
    let after = effect(named(&[("x", &append(&x, 0.3)), ("z", &append(&z, -0.6))]), append(&y, 5.0));
    let population = TargetPopulation::members(named(&[("z", &z)]), &vec![1.0; n]).unwrap();
    let stop = AtomicBool::new(false);
    let variance = |effect: &Effect| {
        let covariance =
            effect.on_population(&population, &stop).unwrap().evaluate(&queries).unwrap().covariance;
        covariance[(0, 0)] + covariance[(1, 1)] - 2.0 * covariance[(0, 1)]
    };
    let refit_reduction = variance(&before) - variance(&after);
    assert!((reduction - refit_reduction).abs() < 1e-9 && reduction > 1e-6, "{reduction} {refit_reduction}");
}

/// Covariates nearly determine the treatment and cancel its effect. Intervals of contrasts contain the true
/// ones; with a product kernel, both effects are shrunk to none.
#[test]
fn intervals_hold_where_effects_cancel() {
    let (n, runs, mut covered, mut covered_by_product) = (100, 12, 0, 0);
    for seed in 0..runs {
        let mut s = Stream(seed);
        let z = normals(&mut s, n);
        let [e, noise] = [0, 1].map(|_| normals(&mut s, n));
        let x: Vec<f64> = (0..n).map(|i| z[i] + 0.1 * e[i]).collect();
        let y: Vec<f64> = (0..n).map(|i| x[i] - z[i] + 0.3 * noise[i]).collect();
        let columns: [(&str, &[f64]); 3] = [("x", &x), ("y", &y), ("z", &z)];
        let (_, effect) = learn_effect("z -> x; z -> y; x -> y", "x", &columns);
        let queries = named(&[("x", &[1.0, -1.0])]);
        let is_covered = |effect: &Effect| {
            let estimate = effect.evaluate(&queries).unwrap();
            let c = &estimate.covariance;
            let sd = (c[(0, 0)] + c[(1, 1)] - 2.0 * c[(0, 1)]).sqrt();
            (estimate.mean[0] - estimate.mean[1] - 2.0).abs() < 1.96 * sd
        };
        covered += usize::from(is_covered(&effect));
        let stages = vec![Stage { treatments: names("x"), averaged: names("z"), ..Stage::default() }];
        let rows = named(&[("x", &x), ("z", &z)]);
        let variance = y.iter().map(|v| v * v).sum::<f64>() / n as f64;
        let outcome = OutcomeGpParameters {
            kernel: variance * Kernel::gaussian(&[1.0, 1.0]),
            noise: 0.09,
            intercept_variance: variance,
        };
        let parameters = StageParameters { regressions: vec![], outcome, adjustment: true, landmarks: None };
        let table = SingleTable { stages, treatments: names("x"), rows, outcome: y };
        covered_by_product += usize::from(is_covered(&table.effect(&parameters).unwrap()));
    }
    assert!(covered >= 10 && covered_by_product <= 4, "{covered} {covered_by_product}");
}

/// A row without a value is omitted and counted; the mean of an outcome of two classes is a probability.
#[test]
fn tables_are_gathered_with_their_caveats() {
    let graph = Graph::parse("z -> x; z -> y; x -> y").unwrap();
    let identification = identify(Some(&graph), &query("x", "x y z")).unwrap();
    let n = 12;
    let column = |j: usize| (0..n).map(|i| number(i, j)).collect::<Vec<f64>>();
    let (mut x, z) = (column(1), column(2));
    x[3] = f64::NAN;
    let y: Vec<f64> = (0..n).map(|i| f64::from(u8::from(number(i, 4) > 0.0))).collect();
    let prepared = gathered(&identification, &[("x", &x), ("y", &y), ("z", &z)]).unwrap();
    assert_eq!(prepared.studies.points.rows(), n - 1);
    assert!(prepared.caveats.iter().any(|caveat| matches!(caveat, Caveat::Holes { rows: 1, total: 12, .. })));
    let messages: Vec<String> = prepared.caveats.iter().map(ToString::to_string).collect();
    assert!(messages.iter().any(|text| text.contains("the probability of 1")), "{messages:?}");
    let classes = ColumnKind::Categorical { levels: names("no yes") };
    let columns = vec![
        (Column::numeric("x"), column(1)),
        (Column::numeric("z"), z.clone()),
        (Column { name: "y".into(), kind: classes }, y.clone()),
    ];
    let prepared = gather(&identification, &[MeasuredColumns { columns }]).unwrap();
    assert!(prepared.caveats.iter().any(|caveat| caveat.to_string().contains("the probability of yes")));
    for (columns, message) in [
        (vec![("x", vec![1.0; n]), ("y", column(3)), ("z", z.clone())], "x is the same in all 12 rows"),
        (
            vec![("x", column(1)[..4].to_vec()), ("y", column(3)[..4].to_vec()), ("z", z[..4].to_vec())],
            "at least 5",
        ),
        (vec![("x", column(1)), ("y", column(3))], "there is no column 'z'"),
    ] {
        let columns: Vec<(&str, &[f64])> =
            columns.iter().map(|(name, values)| (*name, &values[..])).collect();
        let refused = gathered(&identification, &columns).unwrap_err().to_string();
        assert!(refused.contains(message), "{refused}");
    }
    let determined = gathered(&identification, &[("x", &z), ("y", &column(3)), ("z", &z)]).unwrap();
    assert!(determined.caveats.iter().any(|caveat| matches!(caveat, Caveat::Decided { additive: true, .. })));
}

#[test]
fn invalid_queries_are_refused() {
    let graph = Graph::parse("z -> x; z -> y; x -> y").unwrap();
    for (treatments, message) in [("y", "treatment"), ("w", "w")] {
        let refused = identify(Some(&graph), &query(treatments, "x y z")).unwrap_err().to_string();
        assert!(refused.contains(message), "{refused}");
    }
    let randomized_query = CausalQuery { strategy: Strategy::Randomized, ..query("x", "x y") };
    let identification = identify(None, &randomized_query).unwrap();
    assert!(identification.is_single_table() && identification.stages()[0].averaged.is_empty());
}

#[test]
fn several_treatments_are_shown_at_their_quartiles() {
    let values: Vec<f64> = (0..9).map(f64::from).collect();
    let binary = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0];
    let combinations = usual_combinations(&named(&[("a", &values), ("b", &binary)])).unwrap();
    assert_eq!(combinations.column(0), [2.0, 2.0, 4.0, 4.0, 6.0, 6.0]);
    assert_eq!(combinations.column(1), [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
    let owned_columns: Vec<(String, &[f64])> = (0..5).map(|j| (format!("t{j}"), &values[..])).collect();
    let columns: Vec<(&str, &[f64])> =
        owned_columns.iter().map(|(name, column)| (&name[..], *column)).collect();
    assert!(usual_combinations(&named(&columns)).is_err());
}

/// An effect whose treatment covariates nearly determine has larger standard deviations if both may interact.
/// A kernel in addition can only increase a variance, and products of free columns matter where the effect
/// curves.
#[test]
fn effects_without_interactions_report_what_interactions_would_change() {
    let mut s = Stream(3);
    let z: Vec<f64> = (0..60).map(|_| s.normal()).collect();
    let factor = |noise: f64, y: &dyn Fn(f64, f64) -> f64| {
        let mut s = Stream(8);
        let x: Vec<f64> = z.iter().map(|z| z + noise * s.normal()).collect();
        let y: Vec<f64> = x.iter().zip(&z).map(|(x, z)| y(*x, *z) + 0.2 * s.normal()).collect();
        let columns = [("x", &x[..]), ("y", &y[..]), ("z", &z[..])];
        let (identification, effect) = learn_effect("z -> x; z -> y; x -> y", "x", &columns);
        let texts: Vec<String> =
            caveats(&identification, &effect, 2).iter().map(ToString::to_string).collect();
        let factor = effect.interaction_factor();
        assert_eq!(factor.is_some(), texts.iter().any(|text| text.contains("may interact")), "{texts:?}");
        assert_eq!(factor.is_some_and(|f| f >= 1.5), texts.iter().any(|text| text.contains("support")));
        factor
    };
    let interacting = factor(0.1, &|x, z| x - z + 0.5 * x * z).unwrap();
    let curved = factor(0.1, &|x, z| (1.5 * x).sin() + z).unwrap();
    assert!(interacting > 1.5 && curved > 1.0, "{interacting} {curved}");
    assert!(factor(1.0, &|x, z| x + z).is_none());
}
