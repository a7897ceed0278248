//! What all other targets say of each count.

use statrs::function::erf::erfc_inv;

use super::family::Chances;
use super::mode::{Bend, Here, Observed};
use crate::aggregate::aggregate_fit::LeaveOneOut;

/// The sums of targets are averaged over on a grid of that many of their standard deviations to either side,
/// in steps of this part of the narrower of what is believed without the target and what the target says; no
/// more steps than that.
const WIDTH: f64 = 7.0;
const STEP: f64 = 0.25;
const MOST: f64 = 4_000.0;

/// From the approximation around the mode: a target's own part is taken out of what is believed of (the link
/// of) its sum, and the count averaged over what is left (Laplace leave-one-out, as Vehtari et al. 2016 have
/// it for single observations; a prior mean that was learnt is as uncertain as the others leave it).
pub(super) fn left_out(observed: &Observed<'_>, here: &Here, bend: &Bend) -> LeaveOneOut {
    let Observed { family, counts, dispersions, .. } = observed;
    let mut out = LeaveOneOut {
        targets: counts.to_vec(),
        mean: Vec::new(),
        variance: Vec::new(),
        scores: Vec::new(),
        log_density: Vec::new(),
    };
    for (t, variance) in bend.variances().into_iter().enumerate() {
        let (said, [g, rest]) = (&here.said[t], here.sums[t]);
        // On the scale of the link.
        let square = said.by_link * said.by_link;
        let (told, slope, own) = (said.information * square, said.slope * said.by_link, variance / square);
        // At least as uncertain as with the target.
        let left = (1.0 / own - told).max(1e-8 / own);
        let sd = (1.0 / left).sqrt();
        let middle = family.of_sum(g, rest) - slope / left;
        let found = averaged((middle, sd), told, |link| family.count(t, counts[t], dispersions[t], link));
        out.mean.push(found.mean);
        out.variance.push(found.variance);
        out.log_density.push(found.log);
        // The smaller tail is the more precise one.
        let half = 0.5 * found.log.exp();
        out.scores.push(if found.below < found.above {
            tail(found.below + half)
        } else {
            -tail(found.above + half)
        });
    }
    out
}

/// The normal score below which there is so much probability.
fn tail(p: f64) -> f64 {
    -std::f64::consts::SQRT_2 * erfc_inv(2.0 * p.clamp(1e-300, 0.5))
}

/// Over a normal distribution of the link, by the trapezoidal rule.
fn averaged((middle, sd): (f64, f64), told: f64, count: impl Fn(f64) -> Chances) -> Chances {
    let step = (STEP * sd.min(1.0 / told.sqrt())).max(2.0 * WIDTH * sd / MOST);
    let side = (WIDTH * sd / step).ceil() as i64;
    let each: Vec<(f64, Chances)> = (-side..=side)
        .map(|k| {
            let off = k as f64 * step;
            (-0.5 * (off / sd).powi(2), count(middle + off))
        })
        .collect();
    let most = each.iter().fold(f64::NEG_INFINITY, |most, (w, c)| most.max(w + c.log));
    let (mut total, mut square) = (0.0, 0.0);
    let mut sum = Chances { log: 0.0, below: 0.0, above: 0.0, mean: 0.0, variance: 0.0 };
    for (log, own) in &each {
        let weight = log.exp();
        total += weight;
        sum.log += (log + own.log - most).exp();
        sum.below += weight * own.below;
        sum.above += weight * own.above;
        sum.mean += weight * own.mean;
        square += weight * (own.variance + own.mean * own.mean);
    }
    let mean = sum.mean / total;
    Chances {
        log: most + (sum.log / total).ln(),
        below: sum.below / total,
        above: sum.above / total,
        mean,
        variance: square / total - mean * mean,
    }
}
