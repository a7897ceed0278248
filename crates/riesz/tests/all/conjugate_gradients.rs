//! Conjugate gradients against the factorisation: values are within the proved bounds for all kernels,
//! weights, groups and outputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use riesz::attribution::sampled_shapley::{Budget, SampleState};
use riesz::kernel::{Linear, Profile, Stationary};
use riesz::{
    Approximation, Background, Conditioning, ConjugateGradients, Error, Exactness, Explainer, Explanation,
    Game, Kernel, KernelExpansion, Players, Question, Table,
};

use crate::common::{model, table, with_threads};

fn scales(d: usize) -> Vec<f64> {
    (0..d).map(|j| 0.9 + 0.2 * j as f64).collect()
}

fn gradients(tolerance: f64, landmarks: usize) -> ConjugateGradients {
    ConjugateGradients { tolerance, landmarks, ..ConjugateGradients::default() }
}

struct Setting<'a> {
    model: &'a KernelExpansion,
    reference: Background,
    conditioning: Conditioning,
    groups: Option<Players>,
}

impl Setting<'_> {
    fn explainer(&self, approximation: Approximation) -> riesz::Result<Explainer<'_>> {
        let conditioning = Conditioning { approximation, ..self.conditioning.clone() };
        let game =
            Game::Observational { reference: self.reference.clone(), conditional: conditioning.into() };
        Explainer::new(self.model, Question::from(game).with_players(self.groups.clone()))
    }

    fn explain(&self, approximation: Approximation, rows: &Table) -> riesz::Result<Explanation> {
        self.explainer(approximation)?.explain(rows)
    }
}

fn bound(explanation: &Explanation) -> &[f64] {
    let Exactness::Exact { bound, .. } = &explanation.exactness else { panic!("not exact") };
    bound
}

/// Returns the largest ratio of error to bound, and the largest error.
fn excess(approximate: &Explanation, exact: &Explanation) -> (f64, f64) {
    let p = approximate.players.len();
    let (approximate_bound, theirs) = (bound(approximate), bound(exact));
    let mut largest = (0.0_f64, 0.0_f64);
    for (t, (a, b)) in approximate.values.iter().zip(&exact.values).enumerate() {
        let error = (a - b).abs();
        largest = (largest.0.max(error / (approximate_bound[t / p] + theirs[t / p])), largest.1.max(error));
    }
    largest
}

#[test]
fn values_are_those_of_the_factorisation_within_the_bound() {
    let d = 4;
    let rows = table(400, 5, d);
    let length_scales = scales(d);
    let laplacians = Stationary {
        profile: Profile::Exponential,
        columns: vec![0, 2],
        length_scale: vec![1.1, 1.3],
        ard: true,
        isotropic: false,
    };
    let summed = 2.0 * Kernel::gaussian(&length_scales)
        + 0.5 * Kernel::from(laplacians)
        + Kernel::constant(1.5)
        + 0.7 * Kernel::from(Linear { columns: vec![1], center: vec![0.0], scale: vec![1.0] });
    let matern = Stationary {
        profile: Profile::Matern32,
        columns: (0..d).collect(),
        length_scale: vec![1.0; d],
        ard: true,
        isotropic: true,
    };
    let conditioning_kernel = Some(Kernel::gaussian(&length_scales));
    // More than one tile in both directions, and tiles that are not full.
    let weights = Some((0..300).map(|i| f64::from(1 + i % 7)).collect::<Vec<f64>>());
    for (label, kernel, condition, reference, weights) in [
        ("own points", Kernel::gaussian(&length_scales), None, table(0, 12, d), None),
        ("weights", 3.0 * Kernel::gaussian(&length_scales), None, table(50, 300, d), weights.clone()),
        ("a sum", summed, conditioning_kernel.clone(), table(50, 300, d), weights),
        ("no factors", matern.into(), conditioning_kernel, table(50, 300, d), None),
    ] {
        let model = model(kernel, 290, d);
        for groups in [None, Some(Players::named(rows.columns(), &[("pair", vec!["x0", "x3"])]).unwrap())] {
            for (ridge, centered, tolerance, landmarks) in
                [(1e-3, true, 1e-6, 50), (1e-2, false, 1e-10, 0), (1e-2, true, 0.3, 5)]
            {
                let setting = Setting {
                    model: &model,
                    reference: Background { rows: reference.clone(), weights: weights.clone() },
                    conditioning: Conditioning {
                        kernel: condition.clone().into(),
                        centered,
                        ..Conditioning::with_ridge(ridge)
                    },
                    groups: groups.clone(),
                };
                let exact = setting.explain(Approximation::Exact, &rows).unwrap();
                let settings = gradients(tolerance, landmarks);
                let approximate =
                    setting.explain(Approximation::ConjugateGradients(settings), &rows).unwrap();
                let (over, error) = excess(&approximate, &exact);
                assert!(over <= 1.0, "{label}, {tolerance}: {over} {error}");
                let size = exact.values.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
                let widest = bound(&approximate).iter().fold(0.0, |m: f64, b| m.max(*b));
                assert!(widest < 1e3 * tolerance * size, "{label}, {tolerance}: {widest} {size}");
                // A loose tolerance stops early: the error is more than rounding.
                assert!(
                    tolerance < 0.1 || error > 1e-9 * size || reference.rows() < 20,
                    "{label}: {error} {size}"
                );
                assert!(approximate.certificate().unwrap().holds);
                assert!(approximate.provenance.run[3].value.contains("conjugate gradients"));
            }
        }
    }
}

#[test]
fn functionals_and_samples_are_those_of_the_factorisation() {
    let d = 6;
    let model = model(Kernel::gaussian(&scales(d)), 150, d);
    let rows = table(400, 4, d);
    for centered in [true, false] {
        let setting = Setting {
            model: &model,
            reference: table(50, 140, d).into(),
            conditioning: Conditioning { centered, ..Conditioning::with_ridge(1e-2) },
            groups: None,
        };
        let budget = Budget { coalitions: 40, std_error: None, seed: 3 };
        let compute = |approximation| {
            let explainer = setting.explainer(approximation).unwrap();
            let functionals = explainer.functionals(&rows, &[2]).unwrap().remove(0);
            let explanation = explainer.explain_from(&rows, budget, &mut SampleState::default()).unwrap();
            (functionals, explanation)
        };
        let (exact, sampled) = compute(Approximation::Exact);
        let (functionals, sample) = compute(Approximation::ConjugateGradients(gradients(1e-10, 30)));
        let errors = exact.data().iter().zip(functionals.data()).map(|(a, b)| (a - b).abs());
        assert!(errors.fold(0.0, f64::max) < 1e-8);
        assert!(sampled.values.iter().zip(&sample.values).all(|(a, b)| (a - b).abs() < 1e-6));
        assert!(matches!(sample.exactness, Exactness::Estimated { .. }));
        let entry = sample.provenance.run.last().unwrap();
        assert!(entry.name.contains("bound on the error") && entry.value.parse::<f64>().unwrap() < 1e-6);
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let d = 4;
    let model = model(Kernel::gaussian(&scales(d)), 200, d);
    let rows = table(400, 7, d);
    let setting = Setting {
        model: &model,
        reference: table(50, 300, d).into(),
        conditioning: Conditioning::with_ridge(1e-3),
        groups: None,
    };
    let explain = |threads| {
        with_threads(threads, || {
            let settings = Approximation::ConjugateGradients(gradients(1e-6, 40));
            setting.explain(settings, &rows).unwrap()
        })
    };
    let single_threaded = explain(1);
    assert!([2, 3].iter().all(|&threads| explain(threads) == single_threaded));
}

#[test]
fn what_is_wrong_is_said() {
    let d = 3;
    let model = model(Kernel::gaussian(&scales(d)), 60, d);
    let rows = table(400, 2, d);
    let refused = |settings: ConjugateGradients, ridge: f64| {
        let setting = Setting {
            model: &model,
            reference: table(50, 80, d).into(),
            conditioning: Conditioning::with_ridge(ridge),
            groups: None,
        };
        setting.explain(Approximation::ConjugateGradients(settings), &rows).unwrap_err()
    };
    for tolerance in [0.0, 1.0, -1.0, f64::NAN] {
        assert!(refused(gradients(tolerance, 10), 0.1).to_string().contains("tolerance = "));
    }
    let settings = ConjugateGradients { iterations: 0, ..ConjugateGradients::default() };
    assert!(refused(settings, 0.1).to_string().contains("iterations = 0"));
    // Too few steps, and a tolerance below rounding errors.
    let settings = ConjugateGradients { iterations: 2, ..gradients(1e-9, 0) };
    assert!(matches!(refused(settings, 1e-4), Error::NotConverged { iterations: 2, .. }));
    let rounding = refused(gradients(1e-12, 80), 1e-12);
    assert!(matches!(rounding, Error::NotConverged { .. }), "{rounding}");
    assert!(rounding.to_string().contains("raise the ridge or the tolerance"));
    let setting = Setting {
        model: &model,
        reference: table(50, 80, d).into(),
        conditioning: Conditioning::with_ridge(0.1),
        groups: None,
    };
    let explainer = setting.explainer(Approximation::ConjugateGradients(gradients(1e-6, 10))).unwrap();
    assert_eq!(explainer.functionals(&rows.select_rows(&[]), &[0]).unwrap()[0].rows(), 60);
    let stop = Arc::new(AtomicBool::new(false));
    let approximation = Approximation::ConjugateGradients(gradients(1e-6, 10));
    let conditional = Conditioning { approximation, ..setting.conditioning.clone() }.into();
    let game = Game::Observational { reference: setting.reference.clone(), conditional };
    let explainer = Explainer::new_with_control(&model, game.clone(), stop.clone()).unwrap();
    stop.store(true, Ordering::Relaxed);
    assert_eq!(explainer.explain(&rows).unwrap_err(), Error::Interrupted);
    assert_eq!(Explainer::new_with_control(&model, game, stop).err(), Some(Error::Interrupted));
}

/// Rows that are nearly equal, far from all others, or explained twice; and weights close to zero.
#[test]
fn the_bound_holds_at_the_edges() {
    let d = 3;
    let model = model(Kernel::gaussian(&[2.0, 2.0, 2.0]), 30, d);
    let far = [[10.0, 10.0, 10.0], [1e3, 0.0, 0.0], [0.1, 0.2, 0.3], [0.1, 0.2, 0.3], [0.1, 0.2, 0.3 + 1e-9]];
    let far = Table::from_rows(&far).unwrap();
    let tiny = Some((0..60).map(|i| if i < 5 { 1e-12 } else { 1.0 }).collect::<Vec<f64>>());
    for weights in [None, tiny] {
        let setting = Setting {
            model: &model,
            reference: Background {
                rows: model.support_points.stack(&model.support_points).unwrap(),
                weights,
            },
            conditioning: Conditioning::with_ridge(1e-4),
            groups: None,
        };
        for landmarks in [0, 60] {
            let settings = Approximation::ConjugateGradients(gradients(1e-8, landmarks));
            let approximate = setting.explain(settings, &far).unwrap();
            let exact = setting.explain(Approximation::Exact, &far).unwrap();
            let (over, error) = excess(&approximate, &exact);
            assert!(over <= 1.0 && approximate.certificate().unwrap().holds, "{landmarks}: {over} {error}");
        }
    }
}
