//! Penalties on Pref-SHAP values: the mode against its objective by finite differences, the posterior against
//! the dense formula, and the effect on the values.

use std::sync::Arc;

use riesz::linalg::{Cholesky, Matrix};
use riesz::preference::{
    DuelGame, DuelQuestion, Duels, FairPreferences, PreferenceFit, PreferenceProcess, explain, wide_rows,
};
use riesz::{Conditioning, Kernel, KernelExpansion, Table};

use crate::common::table;

const PAIRS: [(usize, usize); 11] =
    [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (6, 7), (7, 0), (1, 6), (2, 5), (3, 6)];

fn data() -> (Table, Duels) {
    let items = table(0, 8, 2);
    let (left, right): (Vec<usize>, Vec<usize>) = PAIRS.into_iter().unzip();
    let outcome: Vec<f64> =
        PAIRS.iter().map(|&(l, r)| f64::from(u8::from(items.get(l, 0) > items.get(r, 0)))).collect();
    (
        items,
        Duels::new(
            8,
            &left,
            &right,
            &outcome,
            Some(&[1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0]),
        )
        .unwrap(),
    )
}

fn questions(items: &Table) -> [DuelQuestion; 2] {
    let conditioning = Conditioning::with_ridge(0.05);
    [DuelGame::Independent(items.clone().into()), DuelGame::Observational(items.clone().into(), conditioning)]
        .map(DuelQuestion::new)
}

fn process() -> PreferenceProcess {
    let mut process = PreferenceProcess::new(Kernel::gaussian(&[0.8, 0.6]));
    process.tune = false;
    (process.prior.utility_variance, process.prior.generalised_variance) = (1.5, 1.0);
    process
}

fn fit(question: &DuelQuestion, strength: f64) -> PreferenceFit {
    let (items, duels) = data();
    let fair = FairPreferences { protected: vec!["x0".into()], strength, question: question.clone() };
    PreferenceProcess { fair: Some(fair), ..process() }.fit(&items, &duels).unwrap()
}

/// The values of the protected column at the compared pairs, one row per pair of support points.
fn values(model: &KernelExpansion, question: &DuelQuestion) -> Vec<f64> {
    let points = &model.support_points;
    let rows = points.select_rows(&(0..points.rows()).step_by(2).collect::<Vec<_>>());
    let explanation = explain(model, None, &rows, question, &Arc::default(), &Arc::default()).unwrap();
    (0..rows.rows()).map(|i| explanation.row_values(i, 0)[0]).collect()
}

/// `-Σ w log p + ½ αᵀ K α + (strength / pairs) Σ φ²`, where the coefficients α are those of the model.
fn objective(model: &KernelExpansion, question: &DuelQuestion, strength: f64) -> f64 {
    let (items, duels) = data();
    let rows = wide_rows(&items, duels.pairs()).unwrap();
    let f = model.predict(&rows).unwrap().into_data();
    let loss: f64 = f
        .iter()
        .zip(duels.outcome().iter().zip(duels.weight()))
        .map(|(f, (outcome, weight))| weight * ((1.0 + f.exp()).ln() - outcome * f))
        .sum();
    // The norm in the space of the kernel of wide rows is twice that of the skew functions.
    let coef = model.coef.column(0);
    let at_points = model.predict(&model.support_points).unwrap().into_data();
    let norm: f64 = coef.iter().zip(&at_points).map(|(a, f)| a * f).sum::<f64>() / 2.0;
    let size: f64 = values(model, question).iter().map(|v| v * v).sum();
    loss + 0.5 * norm + strength / PAIRS.len() as f64 * size
}

/// A model with a change of the coefficients of one pair, in both orders.
fn shifted(model: &KernelExpansion, pair: usize, change: f64) -> KernelExpansion {
    let mut model = model.clone();
    model.coef[(2 * pair, 0)] += change;
    model.coef[(2 * pair + 1, 0)] -= change;
    model
}

#[test]
fn the_mode_minimises_the_penalised_objective() {
    for question in questions(&data().0) {
        for strength in [0.0, 4.0, 100.0] {
            let model = fit(&question, strength).model;
            let best = objective(&model, &question, strength);
            for pair in 0..PAIRS.len() {
                let [up, down] = [1e-4, -1e-4]
                    .map(|change| objective(&shifted(&model, pair, change), &question, strength));
                assert!(up >= best - 1e-12 && down >= best - 1e-12, "{up} {best} {down}");
                assert!((up - down).abs() / 2e-4 < 1e-5, "{strength}: {}", (up - down) / 2e-4);
            }
        }
    }
}

#[test]
fn the_posterior_has_the_values_as_observations() {
    let (items, duels) = data();
    let rows = wide_rows(&items, duels.pairs()).unwrap();
    let n = PAIRS.len();
    for question in questions(&items) {
        let strength = 6.0;
        let fit = fit(&question, strength);
        let model = &fit.model;
        // The kernel and the values of unit coefficients, from models with one pair each.
        let mut blank = model.clone();
        blank.coef.scale(0.0);
        let units: Vec<KernelExpansion> = (0..n).map(|pair| shifted(&blank, pair, 1.0)).collect();
        let points = &model.support_points;
        let one_order = points.select_rows(&(0..2 * n).step_by(2).collect::<Vec<_>>());
        let gram = Matrix::from_columns(
            n,
            &units.iter().map(|unit| unit.predict(&one_order).unwrap().into_data()).collect::<Vec<_>>(),
        );
        let z =
            Matrix::from_columns(n, &units.iter().map(|unit| values(unit, &question)).collect::<Vec<_>>());
        // Weights of the likelihood by pair of support points.
        let f = model.predict(&one_order).unwrap().into_data();
        let weight = |point: usize| {
            let row = one_order.row(point);
            let duel = (0..n).find(|&i| {
                let wide = rows.row(i);
                wide == row || [&wide[2..], &wide[..2]].concat() == row
            });
            let p = 1.0 / (1.0 + (-f[point]).exp());
            duels.weight()[duel.unwrap()] * p * (1.0 - p)
        };
        let mut precision = gram.clone();
        let weights = Matrix::from_fn(n, n, |i, j| if i == j { weight(i) } else { 0.0 });
        precision.add_times(1.0, &gram.matmul(&weights).matmul(&gram));
        precision.add_times(2.0 * strength / n as f64, &z.transpose_matmul(&z));
        // The covariance of K⁻¹ g is the inverse of the precision.
        let expected = gram.matmul(&Cholesky::new(precision, "precision").unwrap().solve(gram.clone()));
        let posterior = fit.posterior();
        let covariance = &posterior.covariance(&posterior.functionals_at(&one_order).unwrap())[0];
        for (a, b) in covariance.data().iter().zip(expected.data()) {
            assert!((a - b).abs() < 1e-7, "{a} {b}");
        }
    }
}

#[test]
fn protected_values_shrink() {
    let (items, duels) = data();
    for question in questions(&items) {
        let plain = process().fit(&items, &duels).unwrap();
        let size = |fit: &PreferenceFit| values(&fit.model, &question).iter().map(|v| v.abs()).sum::<f64>();
        let path = [0.0, 3.0, 30.0, 3000.0].map(|strength| size(&fit(&question, strength)));
        assert!((path[0] - size(&plain)).abs() < 1e-9);
        assert!(path.windows(2).all(|pair| pair[1] < pair[0]) && path[3] < 0.05 * path[0], "{path:?}");
    }
    let question = questions(&items)[0].clone();
    let refused = |protected: &[&str], question: DuelQuestion| {
        let protected = protected.iter().map(|name| name.to_string()).collect();
        let fair = FairPreferences { protected, strength: 1.0, question };
        PreferenceProcess { fair: Some(fair), ..process() }.fit(&items, &duels).unwrap_err().to_string()
    };
    assert!(refused(&["speed"], question.clone()).contains("'speed'"));
    assert!(refused(&[], question).contains("protected features"));
    let functional = refused(&["x0"], DuelQuestion::new(DuelGame::Functional));
    assert!(functional.contains("'independent' and 'observational'"), "{functional}");
}
