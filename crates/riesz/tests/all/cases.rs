//! Every shared case with every engine that supports it.

use riesz::attribution::enumeration::shapley;
use riesz::attribution::kernel_shap::kernel_shap;
use riesz::attribution::permutation::estimate;
use riesz::attribution::sampled_shapley::{Budget, solve};
use riesz::question::ValueEstimator;
use riesz::{ConditionalModel, Conditioning, Exactness, Explainer, Game, Kernel, Question, Table};

use crate::coalitions::counting_game;
use crate::common::{Terms, value};

#[path = "../../../../cases/load.rs"]
mod load;
use load::{Case, cases};

#[test]
fn explainer_matches_every_case() {
    for case in cases() {
        let explainer = Explainer::new(&case.model, case.game.clone()).unwrap();
        let explanation = explainer.explain(&case.rows).unwrap();
        assert!(explanation.certificate().unwrap().holds, "{}", case.name);
        // Coalitions are valued through a linear system, products directly.
        let digits = if matches!(case.game, Game::Observational { .. }) { 1e-12 } else { 1e-13 };
        case.check(
            "the explainer",
            [&explanation.base_values, &explanation.predictions, &explanation.values],
            |_| digits,
        );
    }
}

/// The oracle and the regression on all coalitions match the definitions.
#[test]
fn enumeration_and_regression_match_every_case() {
    for case in cases() {
        if matches!(case.game, Game::Observational { .. }) {
            continue;
        }
        let single_factor =
            |factor| Kernel { terms: vec![riesz::kernel::Term { scale: 1.0, factors: vec![factor] }] };
        let factors = |term: &riesz::kernel::Term| {
            let column_kernels = term.factors.iter().map(|f| (f.columns()[0], single_factor(f.clone())));
            (term.scale, column_kernels.collect())
        };
        let terms: Terms = case.model.kernel.terms.iter().map(factors).collect();
        let (d, m) = (case.rows.width(), case.model.outputs());
        let players: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).collect();
        let predictions = case.model.predict(&case.rows).unwrap();
        let (mut base, mut oracle, mut regression) = (vec![], vec![], vec![]);
        for i in 0..case.rows.rows() {
            let x = case.rows.row(i);
            let coalition_value =
                |s: &[bool], o: usize| value(&case.model, &terms, &case.game, &x, o, &players, s);
            let solution = solve(&mut counting_game(d, m, coalition_value), Budget::default()).unwrap();
            base.extend(&solution.empty_and_grand_values[0]);
            regression.extend(solution.values.data());
            oracle.extend((0..m).flat_map(|o| shapley(d, |s| coalition_value(s, o))));
        }
        case.check("enumeration", [&base, predictions.data(), &oracle], |_| 1e-13);
        case.check("regression", [&base, predictions.data(), &regression], |_| 1e-12);
    }
}

/// Model-agnostic estimators are exact with all coalitions, and with all permutations of few features.
#[test]
fn model_agnostic_estimators_match_every_case() {
    for case in cases() {
        let Case { model, rows, .. } = &case;
        let ask = |x: &Table| model.predict(x);
        let game = match case.game.clone() {
            // The default conditioning kernel of a function differs from the model's kernel.
            Game::Observational { reference, conditional: ConditionalModel::Embedding(conditioning) } => {
                let kernel = Some(model.kernel.clone()).into();
                let conditional = Conditioning { kernel, ..conditioning }.into();
                Game::Observational { reference, conditional }
            }
            game @ (Game::Baseline { .. } | Game::Interventional { .. }) => game,
            _ => continue,
        };
        let explanation = kernel_shap(ask, rows, &game.clone().into(), 1000).unwrap();
        assert!(matches!(explanation.exactness, Exactness::Exact { .. }), "{}", case.name);
        case.check(
            "KernelSHAP",
            [&explanation.base_values, &explanation.predictions, &explanation.values],
            |_| 1e-12,
        );
        if matches!(game, Game::Observational { .. }) {
            continue;
        }
        let estimator = ValueEstimator::Permutation { per_reference: 200 };
        let budget = Budget { seed: 1, ..Budget::default() };
        let question = Question { estimator, budget, ..game.into() };
        let explanation = estimate(ask, rows, 0, &question).unwrap();
        assert!(matches!(explanation.exactness, Exactness::Exact { .. }), "{}", case.name);
        case.check(
            "permutations",
            [&explanation.base_values, &explanation.predictions, &explanation.values],
            |_| 1e-12,
        );
    }
}
