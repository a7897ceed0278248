//! Tabulated coalitions, for few players and many background rows, against the mean of the baseline games of
//! single rows.

use riesz::kernel::Profile;
use riesz::{
    Background, Exactness, Explainer, Explanation, Game, Kernel, KernelExpansion, Matrix, Players, Question,
    Table, ValueIndex,
};

use crate::common::{Stream, stationary, with_threads};

pub struct Setup {
    pub model: KernelExpansion,
    pub background: Background,
    pub rows: Table,
}

/// Returns a model of two outputs, whose kernel is a sum of products, one with few players, and a weighted
/// background.
pub fn setup(d: usize, background: usize) -> Setup {
    let mut s = Stream(d as u64);
    let two_player_term = stationary(Profile::Matern32, 0, 1.0)
        * stationary(Profile::RationalQuadratic { alpha: 0.7 }, d - 1, 2.0);
    let kernel = Kernel::gaussian(&vec![1.5; d]) + 0.5 * two_player_term + Kernel::constant(0.25);
    let points = s.normals(301, d);
    let coef = Matrix::from_row_major(301, 2, (0..602).map(|_| s.signed()).collect());
    let model = KernelExpansion::new(kernel, points, coef, vec![0.3, -1.0]).unwrap();
    let weights = (0..background).map(|b| 1.0 + (b % 3) as f64).collect();
    let background = Background { rows: s.normals(background, d), weights: Some(weights) };
    Setup { model, background, rows: s.normals(5, d) }
}

fn explain(setup: &Setup, game: Game, index: &str, rows: &Table) -> Explanation {
    let question = Question::from(game).with_index(index.parse().unwrap());
    let explanation = Explainer::new(&setup.model, question).unwrap().explain(rows).unwrap();
    explanation.validate().unwrap();
    explanation
}

fn bound(explanation: &Explanation) -> &[f64] {
    let Exactness::Exact { bound } = &explanation.exactness else { panic!("not exact") };
    bound
}

#[test]
fn tables_give_the_mean_of_baselines() {
    for (d, background) in [(3, 40), (6, 50), (11, 90)] {
        let setup = setup(d, background);
        let indices = [
            "shapley",
            "banzhaf(0.3)",
            "beta-shapley(4, 1)",
            "leave-one-out",
            "semivalue(0.1: 0.25, 0.6: 0.75)",
            "k-sii",
            "stii(3)",
            "fsii(3)",
            "fbii",
            "moebius(4)",
        ];
        for index in indices {
            let game = Game::Interventional { background: setup.background.clone() };
            let explanation = explain(&setup, game, index, &setup.rows);
            let weights = setup.background.weights.clone().unwrap();
            let total: f64 = weights.iter().sum();
            let (mut mean, mut allowed) = (vec![0.0; explanation.values.len()], bound(&explanation).to_vec());
            for (b, weight) in weights.iter().enumerate() {
                let game = Game::Baseline { point: setup.background.rows.select_rows(&[b]) };
                let baseline = explain(&setup, game, index, &setup.rows);
                mean.iter_mut().zip(&baseline.values).for_each(|(m, v)| *m += weight / total * v);
                allowed.iter_mut().zip(bound(&baseline)).for_each(|(a, e)| *a += weight / total * e);
            }
            for (g, allowed) in allowed.iter().enumerate() {
                for (actual, truth) in
                    explanation.row_values(g / 2, g % 2).iter().zip(&mean[g * explanation.sets()..])
                {
                    // The sum over the baselines has rounding errors too.
                    assert!(
                        (actual - truth).abs() <= allowed + 1e-14,
                        "{d} {index}: {actual} {truth} {allowed}"
                    );
                }
                assert!(*allowed < 2e-9, "{index} {allowed}");
            }
            let index: ValueIndex = index.parse().unwrap();
            assert_eq!(explanation.certificate().is_some(), index.is_efficient());
            assert!(
                explanation.certificate().is_none_or(|c| c.holds),
                "{index} {:?}",
                explanation.certificate()
            );
        }
    }
}

#[test]
fn bits_do_not_depend_on_threads_or_batches() {
    let setup = setup(7, 60);
    let game = Game::Interventional { background: setup.background.clone() };
    for index in ["shapley", "k-sii(3)"] {
        let batch = with_threads(1, || explain(&setup, game.clone(), index, &setup.rows));
        assert_eq!(
            with_threads(4, || explain(&setup, game.clone(), index, &setup.rows)).values,
            batch.values
        );
        for i in 0..5 {
            let single = explain(&setup, game.clone(), index, &setup.rows.select_rows(&[i]));
            assert_eq!(
                (&single.values[..], bound(&single)),
                (&batch.values[i * 2 * batch.sets()..][..2 * batch.sets()], &bound(&batch)[2 * i..2 * i + 2])
            );
        }
    }
}

/// A group is one player, and players that are absent from a product get none of its value.
#[test]
fn groups_are_players() {
    let setup = setup(6, 80);
    let names: Vec<String> = setup.model.columns().iter().map(|c| c.name.clone()).collect();
    let groups = Players::named(
        setup.model.columns(),
        &[("both".to_string(), vec![names[0].clone(), names[4].clone()])],
    )
    .unwrap();
    let ask = |game: Game| {
        let question = Question::from(game).with_players(Some(groups.clone()));
        Explainer::new(&setup.model, question).unwrap().explain(&setup.rows).unwrap()
    };
    let rows = setup.background.rows.select_rows(&(0..80).collect::<Vec<_>>());
    let explanation = ask(Game::Interventional { background: rows.clone().into() });
    let mut mean = vec![0.0; explanation.values.len()];
    for b in 0..80 {
        let baseline = ask(Game::Baseline { point: rows.select_rows(&[b]) });
        mean.iter_mut().zip(&baseline.values).for_each(|(m, v)| *m += v / 80.0);
    }
    assert_eq!(explanation.sets(), 5);
    assert!(explanation.values.iter().zip(&mean).all(|(a, b)| (a - b).abs() < 1e-12));
    assert!(explanation.certificate().unwrap().holds);
}
