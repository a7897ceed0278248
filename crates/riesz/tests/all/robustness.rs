//! The bound on changes of values, for random models and random moves of rows.

use proptest::prelude::*;
use riesz::kernel::{Categorical, Linear, Periodic, Profile};
use riesz::{Conditioning, ConditioningKernel, Explainer, Game, Kernel, KernelExpansion, Matrix, Table};

use crate::common::{number, stationary};

/// Returns rows of three numbers and a category.
fn table(from: usize, n: usize) -> Table {
    let rows: Vec<Vec<f64>> = (from..from + n)
        .map(|i| (0..4).map(|j| if j == 3 { (i % 3) as f64 } else { number(i, j) }).collect())
        .collect();
    Table::from_rows(&rows).unwrap()
}

/// The embedding without centering, as published.
fn published(ridge: f64) -> Conditioning {
    Conditioning { centered: false, ..Conditioning::with_ridge(ridge) }
}

fn kernel() -> Kernel {
    let periodic = Kernel::from(Periodic { columns: [2], period: 2.3, length_scale: 1.1 });
    let categorical = Kernel::from(Categorical { columns: [3], similarity: 0.4 });
    2.0 * (stationary(Profile::Gaussian, 0, 0.8)
        * stationary(Profile::Exponential, 1, 1.2)
        * periodic
        * categorical)
        + 0.5 * stationary(Profile::Matern32, 0, 1.0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn values_move_by_no_more(
        from in 0_usize..100,
        size in 0.0_f64..1.0,
        signs in prop::collection::vec(-1.0_f64..1.0, 4),
        change: bool,
    ) {
        let coef = Matrix::from_row_major(15, 2, (0..30).map(|t| number(t + from, 5)).collect());
        let model = KernelExpansion::new(kernel(), table(from, 15), coef, vec![0.3, -2.0]).unwrap();
        let x = table(from + 200, 1).row(0);
        let mut moved: Vec<f64> = x.iter().zip(&signs).map(|(v, s)| v + size * s).collect();
        moved[3] = if change { (x[3] + 1.0) % 3.0 } else { x[3] };
        let delta: Vec<f64> = x.iter().zip(&moved).map(|(a, b)| (a - b).abs()).collect();
        let rows = Table::from_rows(&[x, moved]).unwrap();
        let reference = table(from + 50, 12);
        for game in [
            Game::Baseline { point: reference.select_rows(&[0]) },
            Game::Interventional { background: reference.clone().into() },
            Game::Observational { reference: reference.clone().into(), conditional: Conditioning::with_ridge(0.05).into() },
            Game::Observational { reference: reference.clone().into(), conditional: published(0.05).into() },
        ] {
            let explainer = Explainer::new(&model, game).unwrap();
            let bound = explainer.robustness(&delta).unwrap();
            let explanation = explainer.explain(&rows).unwrap();
            for o in 0..2 {
                for j in 0..4 {
                    let far = (explanation.values[o * 4 + j] - explanation.values[(2 + o) * 4 + j]).abs();
                    prop_assert!(far <= bound[o] * (1.0 + 1e-9) + 1e-12, "{} {}", far, bound[o]);
                }
            }
        }
    }
}

/// Centered values move with the sum of the weights too, by as much as their conditional distributions.
#[test]
fn centered_values_have_a_larger_bound() {
    let coef = Matrix::column_vector((0..15).map(|t| number(t, 5)).collect());
    let kernel = stationary(Profile::Gaussian, 0, 0.8) * stationary(Profile::Exponential, 1, 1.2);
    let conditioning_kernel = ConditioningKernel::Given(kernel.clone());
    let model = KernelExpansion::new(kernel, table(0, 15), coef, vec![0.3]).unwrap();
    let bound = |conditional: Conditioning| {
        let conditional = Conditioning { kernel: conditioning_kernel.clone(), ..conditional };
        let reference = table(30, 10).into();
        let game = Game::Observational { reference, conditional: conditional.into() };
        Explainer::new(&model, game).unwrap().robustness(&[0.1, 0.1, 0.0, 0.0]).unwrap()[0]
    };
    // Both use the model's kernel for conditional distributions: the parts are 1 + 1 and 1 + 2.
    let ratio = bound(Conditioning::with_ridge(1e-3)) / bound(published(1e-3));
    assert!((ratio - 1.5).abs() < 1e-9, "{ratio}");
}

#[test]
fn the_bound_is_zero_at_rest_monotone_and_not_loose() {
    let coef = Matrix::column_vector((0..15).map(|t| number(t, 5)).collect());
    let model = KernelExpansion::new(kernel(), table(0, 15), coef, vec![0.3]).unwrap();
    let game = || Game::Interventional { background: table(30, 10).into() };
    let explainer = Explainer::new(&model, game()).unwrap();
    let bound_at = |d: f64| explainer.robustness(&[d, d, d, 0.0]).unwrap()[0];
    assert_eq!(bound_at(0.0), 0.0);
    assert!(
        bound_at(0.01) < bound_at(0.1) && bound_at(0.1) < bound_at(1.0) && bound_at(1e9) == bound_at(1e12)
    );
    // The bound is within a factor of a hundred of the effect of a short move.
    let x = table(200, 1).row(0);
    let near: Vec<f64> = x.iter().enumerate().map(|(j, v)| if j == 0 { v + 0.1 } else { *v }).collect();
    let explanation = explainer.explain(&Table::from_rows(&[x, near]).unwrap()).unwrap();
    let far = (0..4).map(|j| (explanation.values[j] - explanation.values[4 + j]).abs()).fold(0.0, f64::max);
    assert!(explainer.robustness(&[0.1, 0.0, 0.0, 0.0]).unwrap()[0] < 100.0 * far);
    for (delta, culprit) in [(vec![0.1; 3], "4 are expected"), (vec![-1.0; 4], "perturbation = -1")] {
        assert!(explainer.robustness(&delta).unwrap_err().to_string().contains(culprit));
    }
    let functional = Explainer::new(&model, Game::Functional).unwrap();
    assert!(functional.robustness(&[0.1; 4]).unwrap_err().to_string().contains("game = functional"));
    let linear = Kernel::from(Linear { columns: vec![0], center: vec![0.0], scale: vec![1.0] });
    let model = KernelExpansion { kernel: linear, ..model.clone() };
    let explainer = Explainer::new(&model, game()).unwrap();
    assert!(explainer.robustness(&[0.1; 4]).unwrap_err().to_string().contains("this one is unbounded"));
}
