//! Every case by every engine that can answer it.

use riesz::attribution::enumeration::shapley;
use riesz::attribution::kernel_shap::kernel_shap;
use riesz::attribution::permutation::estimate;
use riesz::attribution::sampled_shapley::{Budget, solve};
use riesz::question::ValueEstimator;
use riesz::{ConditionalModel, Conditioning, Exactness, Explainer, Game, Kernel, Question, Table};

use crate::coalitions::asked;
use crate::common::{Terms, value};

#[path = "../../../../cases/load.rs"]
mod load;
use load::{Case, cases};

#[test]
fn the_explainer() {
    for case in cases() {
        let explainer = Explainer::new(&case.model, case.game.clone()).unwrap();
        let found = explainer.explain(&case.rows).unwrap();
        assert!(found.certificate().unwrap().holds, "{}", case.name);
        // Coalitions are valued through a linear system, products directly.
        let digits = if matches!(case.game, Game::Observational { .. }) { 1e-12 } else { 1e-13 };
        case.check("the explainer", [&found.base_values, &found.predictions, &found.values], |_| digits);
    }
}

/// The values of all coalitions from the definitions, summed up by the oracle and by the regression.
#[test]
fn enumeration_and_regression() {
    for case in cases() {
        if matches!(case.game, Game::Observational { .. }) {
            continue;
        }
        let one = |factor| Kernel { terms: vec![riesz::kernel::Term { scale: 1.0, factors: vec![factor] }] };
        let factors = |term: &riesz::kernel::Term| {
            let own = term.factors.iter().map(|f| (f.columns()[0], one(f.clone())));
            (term.scale, own.collect())
        };
        let terms: Terms = case.model.kernel.terms.iter().map(factors).collect();
        let (d, m) = (case.rows.width(), case.model.outputs());
        let players: Vec<Vec<usize>> = (0..d).map(|j| vec![j]).collect();
        let predictions = case.model.predict(&case.rows).unwrap();
        let (mut base, mut oracle, mut regression) = (vec![], vec![], vec![]);
        for i in 0..case.rows.rows() {
            let x = case.rows.row(i);
            let of = |s: &[bool], o: usize| value(&case.model, &terms, &case.game, &x, o, &players, s);
            let found = solve(&mut asked(d, m, of), Budget::default()).unwrap();
            base.extend(&found.empty_and_grand_values[0]);
            regression.extend(found.values.data());
            oracle.extend((0..m).flat_map(|o| shapley(d, |s| of(s, o))));
        }
        case.check("enumeration", [&base, predictions.data(), &oracle], |_| 1e-13);
        case.check("regression", [&base, predictions.data(), &regression], |_| 1e-12);
    }
}

/// What the model's answers alone say: exactly with all coalitions, which permutations of few features are
/// too.
#[test]
fn answers_alone() {
    for case in cases() {
        let Case { model, rows, .. } = &case;
        let ask = |x: &Table| model.predict(x);
        let game = match case.game.clone() {
            // The default kernel of a function's conditioning is not that of the model.
            Game::Observational { reference, conditional: ConditionalModel::Embedding(conditioning) } => {
                let kernel = Some(model.kernel.clone()).into();
                let conditional = Conditioning { kernel, ..conditioning }.into();
                Game::Observational { reference, conditional }
            }
            game @ (Game::Baseline { .. } | Game::Interventional { .. }) => game,
            _ => continue,
        };
        let found = kernel_shap(ask, rows, &game.clone().into(), 1000).unwrap();
        assert!(matches!(found.exactness, Exactness::Exact { .. }), "{}", case.name);
        case.check("KernelSHAP", [&found.base_values, &found.predictions, &found.values], |_| 1e-12);
        if matches!(game, Game::Observational { .. }) {
            continue;
        }
        let estimator = ValueEstimator::Permutation { per_reference: 200 };
        let budget = Budget { seed: 1, ..Budget::default() };
        let question = Question { estimator, budget, ..game.into() };
        let found = estimate(ask, rows, 0, &question).unwrap();
        assert!(matches!(found.exactness, Exactness::Exact { .. }), "{}", case.name);
        case.check("permutations", [&found.base_values, &found.predictions, &found.values], |_| 1e-12);
    }
}
