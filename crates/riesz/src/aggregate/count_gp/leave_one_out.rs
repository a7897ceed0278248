//! Leave-one-out predictions: each count predicted from all other counts.

use statrs::function::erf::erfc_inv;

use super::laplace::{CountObservations, LocalModel, StateEvaluation};
use crate::gp::leave_one_out::LeaveOneOut;
use crate::gp::likelihood::counts::{CountLikelihood, CountProbabilities};

/// The grid over which predictions are averaged. `WIDTH` is half its width in standard deviations of the link
/// of a target's sum, given the other targets. `STEP` is the spacing relative to this standard deviation, or
/// to that of the target's likelihood if it is smaller. The grid has at most about `MAX_STEPS` points.
const WIDTH: f64 = 7.0;
const STEP: f64 = 0.25;
const MAX_STEPS: f64 = 4_000.0;

/// Returns leave-one-out predictions from Laplace's approximation around the mode. For each target, its
/// likelihood term is removed from the posterior of the link of its sum. The distribution of the count is
/// then averaged over this cavity distribution. This is Laplace leave-one-out, as in Vehtari et al. 2016
/// for single observations. It includes the uncertainty of an estimated prior mean, given the other targets.
pub(super) fn leave_one_out(
    observed: &CountObservations<'_>,
    evaluation: &StateEvaluation,
    local: &LocalModel,
) -> LeaveOneOut {
    let CountLikelihood { family, counts, dispersions } = &observed.likelihood;
    let mut out = LeaveOneOut {
        targets: counts.to_vec(),
        mean: Vec::new(),
        variance: Vec::new(),
        scores: Vec::new(),
        log_density: Vec::new(),
    };
    for (t, variance) in local.variances().into_iter().enumerate() {
        let (terms, (link, link_derivative)) =
            (&evaluation.likelihood_terms[t], family.link_of_sum(evaluation.sums[t]));
        // The information, the derivative and the variance are on the scale of the link.
        let square = link_derivative * link_derivative;
        let (information, derivative, posterior_variance) =
            (terms.information * square, terms.first_derivative * link_derivative, variance / square);
        // The precision stays positive also where the information has a rounding error.
        let cavity_precision = (1.0 / posterior_variance - information).max(1e-8 / posterior_variance);
        let sd = (1.0 / cavity_precision).sqrt();
        let cavity_mean = link - derivative / cavity_precision;
        let predictive = link_average((cavity_mean, sd), information, |link| {
            family.probabilities(t, counts[t], dispersions[t], link)
        });
        out.mean.push(predictive.mean);
        out.variance.push(predictive.variance);
        out.log_density.push(predictive.log);
        // The smaller tail probability has the smaller relative error.
        let half_probability = 0.5 * predictive.log.exp();
        out.scores.push(if predictive.below < predictive.above {
            tail_score(predictive.below + half_probability)
        } else {
            -tail_score(predictive.above + half_probability)
        });
    }
    out
}

/// Returns the normal score below which the probability is `p`.
fn tail_score(p: f64) -> f64 {
    -std::f64::consts::SQRT_2 * erfc_inv(2.0 * p.clamp(1e-300, 0.5))
}

/// Averages probabilities over a normal distribution of the link, on an equally spaced grid.
fn link_average(
    (link_mean, sd): (f64, f64),
    information: f64,
    probabilities: impl Fn(f64) -> CountProbabilities,
) -> CountProbabilities {
    let step = (STEP * sd.min(1.0 / information.sqrt())).max(2.0 * WIDTH * sd / MAX_STEPS);
    let half_count = (WIDTH * sd / step).ceil() as i64;
    let weighted_nodes: Vec<(f64, CountProbabilities)> = (-half_count..=half_count)
        .map(|k| {
            let offset = k as f64 * step;
            (-0.5 * (offset / sd).powi(2), probabilities(link_mean + offset))
        })
        .collect();
    let max_log = weighted_nodes.iter().fold(f64::NEG_INFINITY, |maximum, (w, c)| maximum.max(w + c.log));
    let (mut total, mut second_moment) = (0.0, 0.0);
    let mut sum = CountProbabilities { log: 0.0, below: 0.0, above: 0.0, mean: 0.0, variance: 0.0 };
    for (log, node) in &weighted_nodes {
        let weight = log.exp();
        total += weight;
        sum.log += (log + node.log - max_log).exp();
        sum.below += weight * node.below;
        sum.above += weight * node.above;
        sum.mean += weight * node.mean;
        second_moment += weight * (node.variance + node.mean * node.mean);
    }
    let mean = sum.mean / total;
    CountProbabilities {
        log: max_log + (sum.log / total).ln(),
        below: sum.below / total,
        above: sum.above / total,
        mean,
        variance: second_moment / total - mean * mean,
    }
}
