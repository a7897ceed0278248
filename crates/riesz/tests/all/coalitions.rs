//! Values estimated from coalitions against enumeration, and standard errors against actual errors.

use proptest::prelude::*;
use riesz::attribution::enumeration::shapley;
use riesz::attribution::sampled_shapley::{
    Budget, Coalition, CoalitionGame, CoalitionRegression, CoalitionValues, SamplingNoise, solve, solve_from,
};
use riesz::{Error, Matrix, Result};

/// Several functions of a coalition, with a count of evaluations.
pub struct CountingGame<F> {
    players: usize,
    games: usize,
    function: F,
    evaluations: usize,
}

impl<F: Fn(&[bool], usize) -> f64> CoalitionGame for CountingGame<F> {
    type Error = Error;

    fn players(&self) -> usize {
        self.players
    }

    fn empty_and_grand_values(&mut self) -> Result<[Vec<f64>; 2]> {
        let end = |on| (0..self.games).map(|g| (self.function)(&vec![on; self.players], g)).collect();
        Ok([end(false), end(true)])
    }

    fn values(&mut self, coalitions: &[Coalition]) -> Result<CoalitionValues> {
        self.evaluations += coalitions.len();
        let coalition_values =
            |s: &Coalition| (0..self.games).map(|g| (self.function)(s.present(), g)).collect::<Vec<_>>();
        let data = coalitions.iter().flat_map(coalition_values).collect();
        Ok(Matrix::from_row_major(coalitions.len(), self.games, data).into())
    }
}

pub fn counting_game<F: Fn(&[bool], usize) -> f64>(
    players: usize,
    games: usize,
    function: F,
) -> CountingGame<F> {
    CountingGame { players, games, function, evaluations: 0 }
}

/// A game of no particular form: a smooth function of a weighted count plus a few interactions.
fn game(present: &[bool], g: usize) -> f64 {
    let indicator = |j: usize| f64::from(u8::from(present[j % present.len()]));
    let sum: f64 = (0..present.len()).map(|j| indicator(j) * ((j * 7 + g * 3) % 5 + 1) as f64).sum();
    let scale = present.len() as f64;
    (2.0 * sum / scale).sin() + 0.5 * indicator(0) * indicator(3) - indicator(1) * indicator(2) * indicator(4)
        + (sum / scale).powi(2) * 0.3
}

fn enumerated(players: usize, g: usize) -> Vec<f64> {
    shapley(players, |present| game(present, g))
}

#[test]
fn all_coalitions_give_the_shapley_values() {
    for players in 1..=11 {
        let mut counter = counting_game(players, 3, game);
        let solution = solve(&mut counter, Budget::default()).unwrap();
        assert_eq!(counter.evaluations, solution.coalitions);
        assert_eq!(solution.coalitions, (1 << players) - 2);
        assert!(solution.std_error.is_none());
        for g in 0..3 {
            let error = solution.values.row(g).iter().zip(enumerated(players, g)).map(|(a, b)| (a - b).abs());
            assert!(error.fold(0.0, f64::max) < 1e-12, "{players}");
        }
    }
}

#[test]
fn confidence_intervals_have_nominal_coverage() {
    for (players, coalitions) in [(8, 30), (10, 40), (10, 90), (10, 300), (12, 600)] {
        let truth: Vec<Vec<f64>> = (0..4).map(|g| enumerated(players, g)).collect();
        let runs = 500_u64;
        let (mut covered, mut bias) = (0, Matrix::zeros(4, players));
        let (mut square, mut claimed) = (0.0, 0.0);
        for seed in 0..runs {
            let budget = Budget { coalitions, std_error: None, seed };
            let solution = solve(&mut counting_game(players, 4, game), budget).unwrap();
            let std_error = solution.std_error.unwrap();
            for g in 0..4 {
                for j in 0..players {
                    let error = solution.values[(g, j)] - truth[g][j];
                    covered += usize::from(error.abs() <= 1.96 * std_error[(g, j)]);
                    bias[(g, j)] += error / runs as f64;
                    square += error * error;
                    claimed += std_error[(g, j)].powi(2);
                }
            }
        }
        let coverage = covered as f64 / (runs as usize * 4 * players) as f64;
        // Standard errors allow for three unobserved pairs, which is much for small samples.
        assert!((0.945..=1.0).contains(&coverage), "{players} {coalitions}: {coverage}");
        let upper = if coalitions < 50 { 8.0 } else { 3.0 };
        assert!((0.9..upper).contains(&(claimed / square)), "{players} {coalitions}: {}", claimed / square);
        let typical = (square / (runs as usize * 4 * players) as f64).sqrt();
        let largest = bias.data().iter().fold(0.0, |m: f64, b| m.max(b.abs()));
        // The smallest samples are slightly biased.
        let share = if coalitions < 50 { 0.5 } else { 5.0 / (runs as f64).sqrt() };
        assert!(largest < share * typical, "{players}: {largest} {typical}");
    }
}

/// A game whose values are estimates with noise of a known variance, which differs for each coalition and
/// seed.
struct Noisy {
    players: usize,
    seed: u64,
}

impl CoalitionGame for Noisy {
    type Error = Error;

    fn players(&self) -> usize {
        self.players
    }

    fn empty_and_grand_values(&mut self) -> Result<[Vec<f64>; 2]> {
        Ok([false, true].map(|on| vec![game(&vec![on; self.players], 0)]))
    }

    fn values(&mut self, coalitions: &[Coalition]) -> Result<CoalitionValues> {
        // Uniform on [-√3 s, √3 s]: variance s².
        let noise = |s: &Coalition| {
            let code = s
                .present()
                .iter()
                .fold(self.seed, |c, on| c.wrapping_mul(31).wrapping_add(u64::from(*on) + 7));
            let mixed =
                code.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            ((mixed >> 11) as f64 / (1_u64 << 53) as f64 - 0.5) * 12_f64.sqrt()
        };
        let values = coalitions.iter().map(|s| game(s.present(), 0) + noise(s)).collect();
        let n = coalitions.len();
        let noise = SamplingNoise {
            variance: Matrix::from_row_major(n, 1, vec![1.0; n]),
            draws: 1000,
            draw_range: [vec![-60.0], vec![60.0]],
        };
        Ok(CoalitionValues { values: Matrix::from_row_major(n, 1, values), noise: Some(noise) })
    }
}

#[test]
fn noise_of_the_game_values_is_in_the_standard_errors() {
    let truth = enumerated(9, 0);
    for coalitions in [200, 450, 510] {
        let (mut covered, runs) = (0, 600_u64);
        for seed in 0..runs {
            let budget = Budget { coalitions, std_error: None, seed };
            let solution = solve(&mut Noisy { players: 9, seed: seed * 7919 + 3 }, budget).unwrap();
            let std_error = solution.std_error.unwrap();
            covered += (0..9)
                .filter(|&j| (solution.values[(0, j)] - truth[j]).abs() <= 1.96 * std_error[(0, j)])
                .count();
        }
        let coverage = covered as f64 / (runs * 9) as f64;
        assert!((0.94..0.985).contains(&coverage), "{coalitions}: {coverage}");
    }
}

#[test]
fn samples_grow_until_they_are_exhaustive() {
    let mut game = counting_game(9, 2, game);
    let mut regression = CoalitionRegression::new(&mut game, 4).unwrap();
    assert!(regression.solution().is_err());
    let mut previous = f64::INFINITY;
    for coalitions in [60, 200, 400, 505, 510] {
        regression.extend(&mut game, coalitions).unwrap();
        let solution = regression.solution().unwrap();
        let largest = solution.std_error.iter().flat_map(|e| e.data()).copied().fold(0.0, f64::max);
        assert!(largest < previous, "{coalitions}: {largest} {previous}");
        previous = largest;
        let fresh =
            solve(&mut counting_game(9, 2, self::game), Budget { coalitions, std_error: None, seed: 4 });
        let fresh = fresh.unwrap();
        // Earlier draws are kept, so that the sample may only be larger.
        assert!(solution.coalitions >= fresh.coalitions);
    }
    assert!(regression.is_exhaustive() && previous == 0.0 && game.evaluations == 510);
}

#[test]
fn sampling_stops_at_the_requested_error() {
    let mut game = counting_game(16, 2, game);
    let budget = Budget { coalitions: 60_000, std_error: Some(0.01), seed: 1 };
    let solution = solve(&mut game, budget).unwrap();
    let largest = solution.std_error.unwrap().data().iter().copied().fold(0.0, f64::max);
    // Each round is half as large again as the last one, so that the target is exceeded only slightly.
    assert!(largest <= 0.01 && largest > 0.006, "{largest}");
    assert!(solution.coalitions < 30_000, "{}", solution.coalitions);
    let too_small = Budget { coalitions: 20, ..Budget::default() };
    assert!(solve(&mut game, too_small).unwrap_err().to_string().contains("16 features take at least"));
    let wrong = Budget { std_error: Some(0.0), ..Budget::default() };
    assert!(solve(&mut game, wrong).unwrap_err().to_string().contains("positive"));
    let mut nan = counting_game(3, 1, |_: &[bool], _| f64::NAN);
    assert!(solve(&mut nan, Budget::default()).unwrap_err().to_string().contains("finite"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Additive games are recovered without error from any sample and any seed; values always add up.
    #[test]
    fn additive_games_and_efficiency(players in 2_usize..40, seed: u64) {
        let player_value = |j: usize| ((j * 37 + 11) % 17) as f64 - 8.0;
        let additive = |s: &[bool], _: usize| (0..s.len()).filter(|&j| s[j]).map(player_value).sum::<f64>() + 3.0;
        let coalitions = CoalitionRegression::smallest(players) + 30;
        let solution = solve(&mut counting_game(players, 1, additive), Budget { coalitions, std_error: None, seed }).unwrap();
        prop_assert!(solution.coalitions <= coalitions, "{} of {}", solution.coalitions, coalitions);
        for j in 0..players {
            prop_assert!((solution.values[(0, j)] - player_value(j)).abs() < 1e-9);
        }
        let solution = solve(&mut counting_game(players, 2, game), Budget { coalitions, std_error: None, seed }).unwrap();
        for g in 0..2 {
            let gap = solution.empty_and_grand_values[1][g] - solution.empty_and_grand_values[0][g] - solution.values.row(g).iter().sum::<f64>();
            prop_assert!(gap.abs() < 1e-11, "{}", gap);
        }
    }
}

/// Extending a kept regression evaluates only new coalitions and gives the result of a single run.
#[test]
fn growing_a_budget_equals_one_large_budget() {
    for (players, small, large) in
        [(10, 60, 200), (10, 200, 1022), (13, 400, 3000), (2, 2, 2), (30, 300, 700)]
    {
        let budget = |coalitions| Budget { coalitions, std_error: None, seed: 5 };
        let mut kept = None;
        let mut growing = counting_game(players, 2, game);
        solve_from(&mut growing, budget(small), &mut kept).unwrap();
        let before = growing.evaluations;
        let grown = solve_from(&mut growing, budget(large), &mut kept).unwrap();
        let mut direct = counting_game(players, 2, game);
        assert_eq!(grown, solve(&mut direct, budget(large)).unwrap(), "{players}");
        assert_eq!(growing.evaluations, direct.evaluations, "{players}");
        assert!(small == large || before < direct.evaluations);
        // The seed of the first call is used, and a smaller budget adds nothing.
        let again = solve_from(&mut growing, Budget { seed: 9, ..budget(small) }, &mut kept).unwrap();
        assert_eq!((again, growing.evaluations), (grown, direct.evaluations));
    }
}

#[test]
fn kept_regressions_continue_to_an_error_and_after_failures() {
    let mut kept = None;
    let mut growing = counting_game(16, 1, game);
    let rough = Budget { coalitions: 1 << 16, std_error: Some(0.01), seed: 1 };
    solve_from(&mut growing, rough, &mut kept).unwrap();
    let before = growing.evaluations;
    let fine = solve_from(&mut growing, Budget { std_error: Some(0.003), ..rough }, &mut kept).unwrap();
    assert!(growing.evaluations > before && growing.evaluations == fine.coalitions);
    assert!(fine.std_error.unwrap().data().iter().all(|e| *e <= 0.003));
    // A game that fails in the middle: nothing is lost or counted twice.
    let budget = |coalitions| Budget { coalitions, std_error: None, seed: 1 };
    let mut kept = None;
    solve_from(&mut counting_game(12, 1, game), budget(100), &mut kept).unwrap();
    let nan = |present: &[bool], g: usize| {
        let end = present.iter().all(|on| *on) || present.iter().all(|on| !on);
        if end { game(present, g) } else { f64::NAN }
    };
    assert!(solve_from(&mut counting_game(12, 1, nan), budget(900), &mut kept).is_err());
    assert_eq!(
        kept.as_ref().unwrap().coalitions(),
        solve(&mut counting_game(12, 1, game), budget(100)).unwrap().coalitions
    );
    let solution = solve_from(&mut counting_game(12, 1, game), budget(900), &mut kept).unwrap();
    assert_eq!(solution, solve(&mut counting_game(12, 1, game), budget(900)).unwrap());
    // A run cannot be continued with another game.
    let other = |present: &[bool], g: usize| game(present, g) + f64::from(u8::from(present[0]));
    let refused =
        solve_from(&mut counting_game(12, 1, other), budget(1000), &mut kept).unwrap_err().to_string();
    assert!(refused.contains("were evaluated for other rows"), "{refused}");
    assert!(solve_from(&mut counting_game(12, 2, game), budget(1000), &mut kept).is_err());
}
