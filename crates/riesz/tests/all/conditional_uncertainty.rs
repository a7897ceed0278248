//! The uncertainty of observational values from the estimation of conditional distributions, against
//! regressions that leave out each reference row in turn.

use riesz::attribution::enumeration::shapley;
use riesz::embedding::{Approximation, Conditioning, ConditioningKernel, ConjugateGradients, Ridge};
use riesz::explanation::{Dispersion, Explanation};
use riesz::fit::GaussianProcess;
use riesz::game::{Background, ConditionalModel};
use riesz::kernel::{Profile, Stationary};
use riesz::linalg::lu_solve;
use riesz::posterior::UncertaintySource;
use riesz::{Explainer, Game, Kernel, KernelExpansion, Matrix, Question, Table};

use crate::common::Stream;

const SCALES: [f64; 3] = [1.3, 0.9, 1.6];
const RIDGE: f64 = 0.03;

/// A kernel that is no product over columns.
fn tied_kernel() -> Kernel {
    Stationary {
        profile: Profile::Matern32,
        columns: vec![0, 1, 2],
        length_scale: vec![1.5; 3],
        ard: true,
        isotropic: true,
    }
    .into()
}

struct Problem {
    model: KernelExpansion,
    reference: Table,
    weights: Vec<f64>,
    rows: Table,
}

fn problem(kernel: Kernel, weighted: bool) -> Problem {
    let mut s = Stream(7);
    let points = s.normals(9, 3);
    let coef = Matrix::column_vector((0..9).map(|_| s.normal()).collect());
    let model = KernelExpansion::new(kernel, points, coef, vec![0.4]).unwrap();
    let weights: Vec<f64> = (0..14).map(|i| if weighted { 1.0 + f64::from(i % 4) } else { 1.0 }).collect();
    let total: f64 = weights.iter().sum();
    let weights = weights.iter().map(|w| w / total).collect();
    Problem { model, reference: s.normals(14, 3), weights, rows: s.normals(3, 3) }
}

impl Problem {
    fn question(&self, centered: bool, approximation: Approximation) -> Question {
        let conditioning = Conditioning {
            ridge: Ridge::Fixed(RIDGE),
            kernel: ConditioningKernel::Given(Kernel::gaussian(&SCALES)),
            approximation,
            centered,
            ..Conditioning::default()
        };
        let reference = Background { rows: self.reference.clone(), weights: Some(self.weights.clone()) };
        let conditional = ConditionalModel::Embedding(conditioning);
        Question::from(Game::Observational { reference, conditional }).with_conditional_uncertainty()
    }

    fn explain(&self, centered: bool, approximation: Approximation) -> Explanation {
        let question = self.question(centered, approximation);
        Explainer::new(&self.model, question).unwrap().explain(&self.rows).unwrap()
    }

    /// Returns for each coalition the influence of each reference row on its value at `x`, and the variance
    /// of its smoothing error.
    fn coalition(&self, x: &[f64], s: &[bool], centered: bool, mixed: bool) -> (Vec<f64>, f64) {
        let (n, f) = (self.weights.len(), |rows: &[Vec<f64>]| {
            self.model.predict(&Table::from_rows(rows).unwrap()).unwrap().column(0)
        });
        let at_reference = f(&self.reference.row_vectors(0..n));
        let mean: f64 = at_reference.iter().zip(&self.weights).map(|(f, w)| f * w).sum();
        let of_mean: Vec<f64> =
            (0..n).map(|b| self.weights[b] / (1.0 - self.weights[b]) * (at_reference[b] - mean)).collect();
        if !s.contains(&true) {
            return (of_mean, 0.0);
        }
        if !s.contains(&false) {
            return (vec![0.0; n], 0.0);
        }
        let k = |u: &[f64], v: &[f64]| {
            let apart = (0..3).filter(|&j| s[j]).map(|j| ((u[j] - v[j]) / SCALES[j]).powi(2));
            (-0.5 * apart.sum::<f64>()).exp()
        };
        let reference = |b: usize| self.reference.row(b);
        let hybrid = |b: usize| (0..3).map(|j| if mixed && s[j] { x[j] } else { reference(b)[j] }).collect();
        let centre = if centered { mean } else { 0.4 };
        let targets: Vec<f64> =
            f(&(0..n).map(hybrid).collect::<Vec<_>>()).iter().map(|t| t - centre).collect();
        // The regression on some reference rows, at a point.
        let weights_at = |used: &[usize], point: &[f64]| {
            let mut a = Matrix::zeros(used.len(), used.len());
            for (i, &b) in used.iter().enumerate() {
                for (j, &c) in used.iter().enumerate() {
                    a[(i, j)] = k(&reference(b), &reference(c));
                }
                a[(i, i)] += RIDGE / self.weights[b];
            }
            let right: Vec<f64> = used.iter().map(|&b| k(&reference(b), point)).collect();
            (lu_solve(&a, &right), a, right)
        };
        let every_row: Vec<usize> = (0..n).collect();
        let (weights, a, right) = weights_at(&every_row, x);
        let missing = if centered { 1.0 - weights.iter().sum::<f64>() } else { 0.0 };
        let influence = |b: usize| {
            let remaining: Vec<usize> = every_row.iter().copied().filter(|c| *c != b).collect();
            let (without, _, _) = weights_at(&remaining, &reference(b));
            let predicted: f64 = remaining.iter().zip(&without).map(|(&c, w)| w * targets[c]).sum();
            weights[b] * (targets[b] - predicted) + missing * of_mean[b]
        };
        let solved = lu_solve(&a, &targets);
        let scale = targets.iter().zip(&solved).map(|(t, v)| t * v).sum::<f64>() / n as f64;
        let mut form = 1.0;
        for b in 0..n {
            form -= 2.0 * weights[b] * right[b];
            for c in 0..n {
                form += weights[b] * weights[c] * k(&reference(b), &reference(c));
            }
        }
        ((0..n).map(influence).collect(), scale * form)
    }

    /// Returns the covariance of the values at a row, by the definition of Shapley values.
    fn covariance(&self, i: usize, centered: bool, mixed: bool) -> Vec<f64> {
        let x = self.rows.row(i);
        let n = self.weights.len();
        let mut out = vec![0.0; 9];
        for b in 0..n {
            let moved = shapley(3, |s| self.coalition(&x, s, centered, mixed).0[b]);
            (0..9).for_each(|k| out[k] += moved[k / 3] * moved[k % 3]);
        }
        for mask in 0..8_usize {
            let indicator = |s: &[bool]| {
                let is_it = (0..3).all(|j| s[j] == (mask >> j & 1 == 1));
                if is_it { 1.0 } else { 0.0 }
            };
            let coefficients = shapley(3, indicator);
            let present: Vec<bool> = (0..3).map(|j| mask >> j & 1 == 1).collect();
            let variance = self.coalition(&x, &present, centered, mixed).1;
            (0..9).for_each(|k| out[k] += coefficients[k / 3] * coefficients[k % 3] * variance);
        }
        out
    }
}

fn conditioning(explanation: &Explanation) -> &[f64] {
    &explanation.uncertainty.as_ref().unwrap().conditioning.as_ref().unwrap().covariance
}

fn close(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() < tolerance * (1.0 + b.abs()), "{a} {b}");
    }
}

#[test]
fn covariance_is_that_of_regressions_without_each_row() {
    for weighted in [false, true] {
        for centered in [true, false] {
            let product = problem(Kernel::gaussian(&[1.0, 1.4, 2.0]), weighted);
            let explanation = product.explain(centered, Approximation::Exact);
            for i in 0..3 {
                let expected = product.covariance(i, centered, true);
                close(&conditioning(&explanation)[9 * i..9 * (i + 1)], &expected, 1e-9);
                close(explanation.covariance(i, 0).unwrap(), &expected, 1e-9);
            }
            let source = explanation.uncertainty.as_ref().unwrap().source;
            assert_eq!(source, Some(UncertaintySource::Conditioning { rows: 14 }));
            // A kernel that is no product over columns averages outputs at the reference rows.
            let tied = problem(tied_kernel(), weighted);
            let explanation = tied.explain(centered, Approximation::Exact);
            close(&conditioning(&explanation)[..9], &tied.covariance(0, centered, false), 1e-9);
        }
    }
}

#[test]
fn landmarks_at_all_reference_rows_give_the_same_covariance() {
    let problem = problem(Kernel::gaussian(&[1.0, 1.4, 2.0]), true);
    let exact = problem.explain(true, Approximation::Exact);
    let landmarks = problem.explain(true, Approximation::Landmarks(14));
    close(conditioning(&landmarks), conditioning(&exact), 1e-5);
    let features = problem.explain(true, Approximation::RandomFeatures(4000));
    for (a, b) in conditioning(&features).iter().zip(conditioning(&exact)) {
        assert!(
            (a - b).abs() < 0.25 * conditioning(&exact).iter().fold(0.0, |m: f64, v| m.max(v.abs())),
            "{a} {b}"
        );
    }
    let question = problem.question(true, Approximation::ConjugateGradients(ConjugateGradients::default()));
    let error = Explainer::new(&problem.model, question).unwrap().explain(&problem.rows).unwrap_err();
    assert!(error.to_string().contains("conjugate gradients"), "{error}");
}

/// With the posterior of a Gaussian process, the covariance is the sum of both parts.
#[test]
fn both_parts_of_the_covariance_add_up() {
    let mut s = Stream(3);
    let x = s.normals(25, 3);
    let y = Matrix::column_vector((0..25).map(|_| s.normal()).collect());
    let fit = GaussianProcess::new(Kernel::gaussian(&SCALES), 0.2).fit(&x, &y).unwrap();
    let question = |conditional_uncertainty| Question {
        conditional_uncertainty,
        ..Question::from(Game::observational(&fit.model)).with_covariance()
    };
    let rows = x.select_rows(&[2, 5]);
    let explain = |question| {
        let explainer = Explainer::new(&fit.model, question).unwrap();
        explainer.with_posterior(Some(&fit.covariance)).unwrap().explain(&rows).unwrap()
    };
    let (model, total) = (explain(question(false)), explain(question(true)));
    let Dispersion::Covariance(model) = &model.uncertainty.as_ref().unwrap().dispersion else { panic!() };
    let sums: Vec<f64> = model.iter().zip(conditioning(&total)).map(|(a, b)| a + b).collect();
    let uncertainty = total.uncertainty.as_ref().unwrap();
    assert_eq!(uncertainty.dispersion, Dispersion::Covariance(sums));
    assert_eq!(uncertainty.source, Some(UncertaintySource::Posterior));
    total.validate().unwrap();
    // Selections and joins keep the part.
    let selected = total.select(&[1], &[2, 0], &[0]);
    let part = &conditioning(&total)[9..];
    assert_eq!(conditioning(&selected), [part[8], part[6], part[2], part[0]]);
    let mut joined = total.select_rows(&[0]);
    joined.concat_rows(total.select_rows(&[1])).unwrap();
    assert_eq!(conditioning(&joined), conditioning(&total));
}

#[test]
fn other_games_have_no_conditional_distributions() {
    let problem = problem(Kernel::gaussian(&[1.0, 1.4, 2.0]), false);
    let game = Game::Interventional { background: problem.reference.clone().into() };
    let question = Question::from(game).with_conditional_uncertainty();
    let error = Explainer::new(&problem.model, question).unwrap().explain(&problem.rows).unwrap_err();
    assert!(error.to_string().contains("conditional distributions"), "{error}");
}
