//! Reference values from all 2^d coalitions, directly from the definition. This code is never optimised, and
//! every other engine is tested against it.

/// Shapley values `φ_j = Σ_{S ∌ j} |S|! (d-1-|S|)! / d! (v(S ∪ j) - v(S))` of d players, for a game given as
/// a function of the coalition, where `coalition[j]` says whether player j is present. Cost: 2^d evaluations.
///
/// # Panics
/// If `players` exceeds 24.
pub fn shapley(players: usize, value: impl FnMut(&[bool]) -> f64) -> Vec<f64> {
    semivalue(players, &shapley_weights(players), value)
}

/// The weights `s! (players - 1 - s)! / players!` of marginal contributions in Shapley values, by the size s
/// of the coalition that a player joins.
pub(crate) fn shapley_weights(players: usize) -> Vec<f64> {
    let mut weights = vec![1.0 / players as f64; players];
    for s in 1..players {
        weights[s] = weights[s - 1] * s as f64 / (players - s) as f64;
    }
    weights
}

/// Semivalues `φ_j = Σ_{S ∌ j} weight_|S| (v(S ∪ j) - v(S))`, with one weight per size of S.
///
/// # Panics
/// As [`shapley`], and if `weight` does not have one entry per player.
pub fn semivalue(players: usize, weight: &[f64], mut value: impl FnMut(&[bool]) -> f64) -> Vec<f64> {
    assert!(players <= 24 && weight.len() == players, "enumeration of 2^{players} coalitions");
    let coalition = |mask: usize| -> Vec<bool> { (0..players).map(|j| mask >> j & 1 == 1).collect() };
    let values: Vec<f64> = (0..1_usize << players).map(|mask| value(&coalition(mask))).collect();
    let mut phi = vec![0.0; players];
    for (mask, &v) in values.iter().enumerate() {
        for (j, p) in phi.iter_mut().enumerate() {
            if mask >> j & 1 == 0 {
                *p += weight[mask.count_ones() as usize] * (values[mask | 1 << j] - v);
            }
        }
    }
    phi
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The glove game: player 0 has a left glove, players 1 and 2 a right one each (Shapley 1953).
    #[test]
    fn the_glove_game_has_its_published_values() {
        let phi = shapley(3, |s| f64::from(u8::from(s[0] && (s[1] || s[2]))));
        assert!(phi.iter().zip([4.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0]).all(|(a, b)| (a - b).abs() < 1e-15));
    }
}
