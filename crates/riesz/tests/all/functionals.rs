//! Functionals against the explanations with the same values.

use riesz::kernel::Linear;
use riesz::{Background, Conditioning, Explainer, Game, Kernel, KernelExpansion, Matrix, Players, Question};

use crate::common::{number, table};

fn games(model: &KernelExpansion) -> Vec<Game> {
    let background = || Background { rows: table(90, 5, 4), weights: Some(vec![1.0, 2.0, 1.0, 0.5, 3.0]) };
    let observational = |reference: Background| Game::Observational {
        reference,
        conditional: Conditioning::with_ridge(0.01).into(),
    };
    vec![
        Game::Functional,
        Game::Baseline { point: table(90, 1, 4) },
        Game::Interventional { background: background() },
        Game::MarginalProduct { background: background() },
        observational(background()),
        observational(model.support_points.clone().into()),
    ]
}

#[test]
fn values_are_coefficients_times_functionals() {
    let rows = table(300, 19, 4);
    let kernels = [
        1.3 * Kernel::gaussian(&[1.0, 0.8, 1.2, 0.9]),
        Kernel::gaussian(&[1.0, 0.8, 1.2, 0.9])
            + 0.5 * Kernel::from(Linear { columns: vec![2], center: vec![0.0], scale: vec![1.0] }),
    ];
    for kernel in kernels {
        // Not a multiple of the engine's block size, and several panels.
        let n = 301;
        for outputs in [1, 2] {
            let coef = Matrix::from_row_major(n, outputs, (0..n * outputs).map(|t| number(t, 3)).collect());
            let model =
                KernelExpansion::new(kernel.clone(), table(0, n, 4), coef, vec![0.7; outputs]).unwrap();
            for game in games(&model) {
                let name = game.name();
                for groups in
                    [None, Some(Players::named(rows.columns(), &[("a", vec!["x1", "x3"])]).unwrap())]
                {
                    let explainer =
                        Explainer::new(&model, Question::from(game.clone()).with_players(groups)).unwrap();
                    let explanation = explainer.explain(&rows).unwrap();
                    let p = explanation.players.len();
                    let functionals = explainer.functionals(&rows, &(0..p).collect::<Vec<_>>()).unwrap();
                    for (player, functional) in functionals.iter().enumerate() {
                        assert_eq!((functional.rows(), functional.cols()), (n, 19));
                        let values = functional.transpose().matmul(&model.coef);
                        for r in 0..19 {
                            for o in 0..outputs {
                                let expected = explanation.values[(r * outputs + o) * p + player];
                                let error = (values[(r, o)] - expected).abs();
                                assert!(error < 1e-9 * (1.0 + expected.abs()), "{name} {player}: {error}");
                            }
                        }
                    }
                    // A selection of rows, in any order, gives the same functionals.
                    assert_eq!(
                        explainer.functionals(&rows, &[2, 0]).unwrap(),
                        [functionals[2].clone(), functionals[0].clone()]
                    );
                    assert!(explainer.functionals(&rows, &[]).unwrap().is_empty());
                    for wrong in [&[p][..], &[1, 1]] {
                        let refusal = explainer.functionals(&rows, wrong).unwrap_err().to_string();
                        assert!(refusal.contains("and each may occur once"));
                    }
                }
            }
        }
    }
}
