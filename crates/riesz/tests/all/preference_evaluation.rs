//! Evaluation of models of duels: paired differences with their standard errors.

use riesz::Error;
use riesz::preference::{Evaluation, Split, TestDuels, split};

#[test]
fn single_duels_are_held_out_at_random() {
    let (left, right) = ([0, 0, 0, 0, 1, 1, 1, 1, 2, 2], [1, 1, 1, 1, 2, 2, 2, 2, 0, 0]);
    let parts: Vec<Vec<Option<bool>>> =
        (0..50).map(|seed| split(&left, &right, Split::Duels, 0.3, seed).unwrap()).collect();
    let is_test = |part: &Vec<Option<bool>>, i: usize| part[i] == Some(true);
    assert!(parts.iter().all(|part| (0..10).filter(|&i| is_test(part, i)).count() == 3));
    assert!(parts.iter().all(|part| !part.contains(&None)));
    // Each duel is held out at times, and duels of a pair are on both sides.
    assert!((0..10).all(|i| parts.iter().any(|part| is_test(part, i))));
    assert!(parts.iter().any(|part| is_test(part, 0) && !is_test(part, 1)));
}

/// With one duel per pair in a single split, the standard error is that of a mean. Repeated duels of a
/// pair do not make it smaller.
#[test]
fn differences_have_the_standard_errors_of_paired_losses() {
    let n = 30;
    let once: (Vec<usize>, Vec<usize>) = (0..n).map(|i| (i, i + 1)).unzip();
    let won: Vec<f64> = (0..n).map(|i| f64::from(u8::from(i % 3 != 0))).collect();
    let times: Vec<f64> = (0..n).map(|i| i as f64).collect();
    let probability = |model: usize, i: usize| if model == 0 { 0.5 } else { 0.4 + 0.02 * (i % 11) as f64 };
    let run = |copies: usize| {
        let repeat = |values: &[usize]| values.repeat(copies);
        let (left, right) = (repeat(&once.0), repeat(&once.1));
        let (won, times) = (won.repeat(copies), times.repeat(copies));
        let evaluation = Evaluation {
            left: &left,
            right: &right,
            outcome: &won,
            counts: None,
            unit: Split::Time(&times),
            share: 0.5,
            repeats: 1,
            seed: 0,
        };
        let predict = |model: &usize, duels: &TestDuels| {
            Ok(duels.test.iter().map(|i| probability(*model, i % n)).collect())
        };
        evaluation.run::<usize, Error>(&[0, 1], predict).unwrap()
    };
    let (single, copied) = (run(1), run(3));
    let differences: Vec<f64> = (n / 2..n)
        .map(|i| {
            let loss = |model| {
                -(if won[i] == 1.0 { probability(model, i) } else { 1.0 - probability(model, i) }).ln()
            };
            loss(1) - loss(0)
        })
        .collect();
    let count = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / count;
    let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let (best, other) = if mean > 0.0 { (0, 1) } else { (1, 0) };
    assert!(single[best].difference.is_none());
    for summary in [single, copied] {
        let difference = summary[other].difference.unwrap();
        assert!((difference.mean - mean.abs()).abs() < 1e-12);
        assert!((difference.std_error - (variance / count).sqrt()).abs() < 1e-12);
        let losses = summary[other].mean.log_loss - summary[best].mean.log_loss;
        assert!((difference.mean - losses).abs() < 1e-12);
    }
}
