//! Few players against many background rows, whose coalitions are tabulated: against the mean of the games
//! against each row alone, which go another way.

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

/// A sum of products of which one has few players, of two outputs, against weighted rows.
pub fn setup(d: usize, background: usize) -> Setup {
    let mut s = Stream(d as u64);
    let few = stationary(Profile::Matern32, 0, 1.0)
        * stationary(Profile::RationalQuadratic { alpha: 0.7 }, d - 1, 2.0);
    let kernel = Kernel::gaussian(&vec![1.5; d]) + 0.5 * few + Kernel::constant(0.25);
    let points = s.normals(301, d);
    let coef = Matrix::from_row_major(301, 2, (0..602).map(|_| s.signed()).collect());
    let model = KernelExpansion::new(kernel, points, coef, vec![0.3, -1.0]).unwrap();
    let weights = (0..background).map(|b| 1.0 + (b % 3) as f64).collect();
    let background = Background { rows: s.normals(background, d), weights: Some(weights) };
    Setup { model, background, rows: s.normals(5, d) }
}

fn explain(setup: &Setup, game: Game, index: &str, rows: &Table) -> Explanation {
    let question = Question::from(game).with_index(index.parse().unwrap());
    let found = Explainer::new(&setup.model, question).unwrap().explain(rows).unwrap();
    found.validate().unwrap();
    found
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
            let found = explain(&setup, game, index, &setup.rows);
            let weights = setup.background.weights.clone().unwrap();
            let total: f64 = weights.iter().sum();
            let (mut mean, mut allowed) = (vec![0.0; found.values.len()], bound(&found).to_vec());
            for (b, weight) in weights.iter().enumerate() {
                let game = Game::Baseline { point: setup.background.rows.select_rows(&[b]) };
                let own = explain(&setup, game, index, &setup.rows);
                mean.iter_mut().zip(&own.values).for_each(|(m, v)| *m += weight / total * v);
                allowed.iter_mut().zip(bound(&own)).for_each(|(a, e)| *a += weight / total * e);
            }
            for (g, allowed) in allowed.iter().enumerate() {
                for (found, truth) in found.row_values(g / 2, g % 2).iter().zip(&mean[g * found.sets()..]) {
                    // Summing the baselines rounds too.
                    assert!(
                        (found - truth).abs() <= allowed + 1e-14,
                        "{d} {index}: {found} {truth} {allowed}"
                    );
                }
                assert!(*allowed < 2e-9, "{index} {allowed}");
            }
            let index: ValueIndex = index.parse().unwrap();
            assert_eq!(found.certificate().is_some(), index.is_efficient());
            assert!(found.certificate().is_none_or(|c| c.holds), "{index} {:?}", found.certificate());
        }
    }
}

#[test]
fn the_same_bits_whoever_comes_along() {
    let setup = setup(7, 60);
    let game = Game::Interventional { background: setup.background.clone() };
    for index in ["shapley", "k-sii(3)"] {
        let all = with_threads(1, || explain(&setup, game.clone(), index, &setup.rows));
        assert_eq!(with_threads(4, || explain(&setup, game.clone(), index, &setup.rows)).values, all.values);
        for i in 0..5 {
            let one = explain(&setup, game.clone(), index, &setup.rows.select_rows(&[i]));
            assert_eq!(
                (&one.values[..], bound(&one)),
                (&all.values[i * 2 * all.sets()..][..2 * all.sets()], &bound(&all)[2 * i..2 * i + 2])
            );
        }
    }
}

/// A group is a player, and who does not play in a product gets nothing of it.
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
    let found = ask(Game::Interventional { background: rows.clone().into() });
    let mut mean = vec![0.0; found.values.len()];
    for b in 0..80 {
        let own = ask(Game::Baseline { point: rows.select_rows(&[b]) });
        mean.iter_mut().zip(&own.values).for_each(|(m, v)| *m += v / 80.0);
    }
    assert_eq!(found.sets(), 5);
    assert!(found.values.iter().zip(&mean).all(|(a, b)| (a - b).abs() < 1e-12));
    assert!(found.certificate().unwrap().holds);
}
