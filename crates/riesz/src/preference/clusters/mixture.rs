//! A mixture of rankings: every item belongs to one of several clusters, each cluster has its own utility,
//! and a duel between clusters is a fair coin. With the cluster z_i and covariates x_i (length p) of item i,
//! and the utility f_c of cluster c:
//!
//! ```text
//! z_i ~ Cat(π),   x_i | z ~ N(μ_z, s² I),   f_c ~ GP(0, u k),
//! P(l beats r) = σ(f_c(l) - f_c(r)) if both are in c, else ½
//! ```
//!
//! The approximate posterior is the best distribution `Π_i q_i(z_i) Π_c N(f_c; m_c, V_c)` for the usual lower
//! bound of the log evidence. With L clusters, N items, memberships q_ic, and duels of weight w (n in total):
//!
//! ```text
//! Σ_duels Σ_c q_lc q_rc (E log σ + w log 2) - n log 2 - Σ_c KL(f_c) + E log p(x, z) - E log q(z)
//! - ½ (p + 1) L log N,
//! ```
//!
//! The last term accounts for the L means and mixing proportions, which are fitted. Every step increases the
//! bound: memberships are updated item by item, means and proportions in closed form. Each utility takes
//! natural-gradient steps (Khan and Lin 2017) on the bound itself, which are halved until it increases.
//! (Laplace's approximation would not maximise the bound.)

use rayon::prelude::*;

use super::logistic_normal::moments;
use crate::control::RunControl;
use crate::error::Result;
use crate::linalg::{Cholesky, Matrix, dot, squared_distance};
use crate::preference::comparison_graph::{add_differences, laplacian};
use crate::preference::duels::Duels;

/// The largest number of sweeps.
const MAX_SWEEPS: usize = 500;
/// Sweeps end when one increases the bound by less than this.
const TOLERANCE: f64 = 1e-6;
/// The number of steps for each utility in a sweep.
const STEPS: usize = 4;
/// The largest number of sweeps with an item in another cluster, which end when one increases the bound by
/// less than this.
const MOVED_SWEEPS: usize = 10;
const MOVED_TOLERANCE: f64 = 0.01;

/// The data of a mixture.
pub(super) struct MixtureData<'g> {
    pub duels: &'g Duels,
    /// Items × columns, in units of their standard deviations; without columns the mixture uses duels alone.
    pub x: &'g Matrix,
    /// The root R of `u k` between items, `u k = R Rᵀ`.
    pub psd_root: &'g Matrix,
}

/// The normal distribution of a cluster's utility. Each duel contributes a normal likelihood with this
/// curvature and slope in the difference of the two utilities.
#[derive(Clone)]
struct UtilityPosterior {
    curvature: Vec<f64>,
    slope: Vec<f64>,
    /// For each duel, the target curvature and slope of the next step, at an expected weight of 1.
    targets: Vec<(f64, f64)>,
    /// For each duel, the expected log likelihood if both items belonged to this cluster.
    likelihood: Vec<f64>,
    kl: f64,
}

impl UtilityPosterior {
    /// Computes the posterior of a utility from the quadratic terms of the duels. Cost O(items³).
    fn new(data: &MixtureData<'_>, curvature: Vec<f64>, slope: Vec<f64>) -> Result<Self> {
        let (n, r) = (data.psd_root.rows(), data.psd_root.cols());
        let likelihood_precision = laplacian(n, data.duels.pairs(), &curvature);
        let mut slope_sums = vec![0.0; n];
        add_differences(&mut slope_sums, data.duels.pairs(), slope.iter().copied());
        let transposed = data.psd_root.transpose();
        let mut precision = transposed.matmul(&likelihood_precision.matmul(data.psd_root));
        precision.add_diagonal(|_| 1.0);
        let factor = Cholesky::new(precision, "precision of a cluster's utility")?;
        let mean = factor.solve_vector(&transposed.matvec(&slope_sums));
        let utility = data.psd_root.matvec(&mean);
        let mut half_inverse = transposed;
        factor.solve_lower_in_place(&mut half_inverse);
        let half_inverse = half_inverse.transpose();
        let variance_of = |i: usize, j: usize| squared_distance(half_inverse.row(i), half_inverse.row(j));
        let mut inverse = Matrix::identity(r);
        factor.solve_lower_in_place(&mut inverse);
        let trace: f64 = inverse.data().iter().map(|v| v * v).sum();
        let kl = 0.5 * (trace + dot(&mean, &mean) - r as f64 + factor.log_det());
        let duels = data.duels.pairs().iter().zip(data.duels.outcome()).zip(data.duels.weight());
        let (likelihood, targets) = duels
            .map(|((&(i, j), &won), &w)| {
                let m = utility[i] - utility[j];
                let moments = moments(m, variance_of(i, j));
                // log σ(-g) is log σ(g) - g.
                let likelihood = w * (moments.log_probability - (1.0 - won) * m);
                (likelihood, (w * moments.curvature, w * (moments.curvature * m + won - moments.probability)))
            })
            .unzip();
        Ok(Self { likelihood, targets, curvature, slope, kl })
    }

    /// Returns this utility's part of the bound, given the expected `weights` of the duels.
    fn bound_part(&self, weights: &[f64]) -> f64 {
        dot(&self.likelihood, weights) - self.kl
    }

    /// Increases this utility's part of the bound.
    fn natural_gradient_step(&mut self, data: &MixtureData<'_>, weights: &[f64]) -> Result<()> {
        for _ in 0..STEPS {
            let old_bound = self.bound_part(weights);
            let targets =
                self.targets.iter().zip(weights).map(|((curvature, slope), w)| (w * curvature, w * slope));
            let (curvature, slope): (Vec<f64>, Vec<f64>) = targets.unzip();
            let mut step = 1.0;
            let mut accepted = None;
            while step > 1e-3 && accepted.is_none() {
                let damped = |old: &[f64], new: &[f64]| {
                    old.iter().zip(new).map(|(a, b)| a + step * (b - a)).collect::<Vec<f64>>()
                };
                let next = Self::new(data, damped(&self.curvature, &curvature), damped(&self.slope, &slope))?;
                accepted = Some(next).filter(|next| next.bound_part(weights) >= old_bound);
                step *= 0.5;
            }
            let Some(next) = accepted else { return Ok(()) };
            let gain = next.bound_part(weights) - old_bound;
            *self = next;
            if gain < TOLERANCE {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// A fitted mixture.
#[derive(Clone)]
pub(super) struct Mixture {
    /// Items × clusters: the probability of each membership.
    pub memberships: Matrix,
    /// The bound after each sweep.
    pub bounds: Vec<f64>,
}

#[derive(Clone)]
struct MixtureState<'g> {
    data: &'g MixtureData<'g>,
    q: Matrix,
    utilities: Vec<UtilityPosterior>,
    proportions: Vec<f64>,
    means: Matrix,
    variance: f64,
    /// For each item, its duels with their opponents.
    duels_of_item: Vec<Vec<(usize, usize)>>,
}

impl Mixture {
    /// Increases the bound from these memberships to a local maximum. Cost O(clusters items³) per sweep.
    ///
    /// # Errors
    /// [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite),
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn fit(data: &MixtureData<'_>, q: Matrix, control: RunControl<'_>) -> Result<Self> {
        let mut state = MixtureState::new(data, q)?;
        let bounds = state.maximise(None, MAX_SWEEPS, TOLERANCE, control)?;
        Ok(Self { memberships: state.q, bounds })
    }

    /// Returns memberships that allow for their dependence: the probability that an item belongs to a cluster
    /// is proportional to the exponential of the largest bound with the item in this cluster, where all other
    /// items and the utilities adapt. Those of the mean-field approximation are overconfident, because it
    /// treats all memberships as independent. Cost: a few sweeps for each item and cluster.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn adapted_memberships(&self, data: &MixtureData<'_>, control: RunControl<'_>) -> Result<Matrix> {
        let mut state = MixtureState::new(data, self.memberships.clone())?;
        state.maximise(None, MAX_SWEEPS, TOLERANCE, control)?;
        let bound = |i: usize, c: usize| {
            let mut moved = state.clone();
            moved.q.row_mut(i).fill(0.0);
            moved.q[(i, c)] = 1.0;
            moved.maximise(Some(i), MOVED_SWEEPS, MOVED_TOLERANCE, control)?;
            Ok(moved.bound())
        };
        let count = state.q.cols();
        let rows = (0..state.q.rows()).into_par_iter().map(|i| {
            let bounds = (0..count).map(|c| bound(i, c)).collect::<Result<Vec<f64>>>()?;
            Ok(softmax(&bounds))
        });
        let rows = rows.collect::<Result<Vec<Vec<f64>>>>()?;
        Ok(Matrix::from_row_major(rows.len(), count, rows.concat()))
    }

    /// Returns the last bound, which is the largest.
    pub fn bound(&self) -> f64 {
        self.bounds.last().copied().unwrap_or(f64::NEG_INFINITY)
    }
}

impl<'g> MixtureState<'g> {
    /// Creates the state with these memberships, from utilities without duels.
    fn new(data: &'g MixtureData<'g>, q: Matrix) -> Result<Self> {
        let mut duels_of_item = vec![Vec::new(); q.rows()];
        for (d, &(i, j)) in data.duels.pairs().iter().enumerate() {
            duels_of_item[i].push((d, j));
            duels_of_item[j].push((d, i));
        }
        let zeros = vec![0.0; data.duels.pairs().len()];
        let prior = UtilityPosterior::new(data, zeros.clone(), zeros)?;
        let mut state = Self {
            data,
            utilities: vec![prior; q.cols()],
            proportions: vec![0.0; q.cols()],
            means: Matrix::zeros(q.cols(), data.x.cols()),
            variance: 1.0,
            duels_of_item,
            q,
        };
        state.m_step();
        Ok(state)
    }

    /// Returns the expected weight of each duel in a cluster: the probability that both items belong to it.
    fn expected_weights(&self, c: usize) -> Vec<f64> {
        self.data.duels.pairs().iter().map(|&(i, j)| self.q[(i, c)] * self.q[(j, c)]).collect()
    }

    /// Increases the bound by at most this number of sweeps, until one increases it by less than `tolerance`.
    /// The memberships of the item `fixed` stay. Returns the bound after each sweep.
    fn maximise(
        &mut self,
        fixed: Option<usize>,
        max_sweeps: usize,
        tolerance: f64,
        control: RunControl<'_>,
    ) -> Result<Vec<f64>> {
        let mut bounds: Vec<f64> = Vec::new();
        for _ in 0..max_sweeps {
            control.check_cancelled()?;
            self.sweep(fixed)?;
            let bound = self.bound();
            let gain = bounds.last().map_or(f64::INFINITY, |previous| bound - previous);
            bounds.push(bound);
            if gain < tolerance {
                break;
            }
        }
        Ok(bounds)
    }

    fn sweep(&mut self, fixed: Option<usize>) -> Result<()> {
        for c in 0..self.q.cols() {
            let weights = self.expected_weights(c);
            self.utilities[c].natural_gradient_step(self.data, &weights)?;
        }
        for i in (0..self.q.rows()).filter(|i| Some(*i) != fixed) {
            let score = |c: usize| {
                let duels: f64 = self.duels_of_item[i]
                    .iter()
                    .map(|&(d, opponent)| self.q[(opponent, c)] * self.gain(d, c))
                    .sum();
                self.log_prior(i, c) + duels
            };
            let scores: Vec<f64> = (0..self.q.cols()).map(score).collect();
            self.q.row_mut(i).copy_from_slice(&softmax(&scores));
        }
        self.m_step();
        Ok(())
    }

    /// Returns the expected log likelihood of a duel within a cluster, minus that of a fair coin.
    fn gain(&self, d: usize, c: usize) -> f64 {
        self.utilities[c].likelihood[d] + self.data.duels.weight()[d] * std::f64::consts::LN_2
    }

    /// Returns `log π_c + log N(x_i; μ_c, s² I)`.
    fn log_prior(&self, i: usize, c: usize) -> f64 {
        let x = self.data.x.row(i);
        let distance = squared_distance(x, self.means.row(c));
        let scale = (std::f64::consts::TAU * self.variance).ln();
        self.proportions[c].ln() - 0.5 * (x.len() as f64 * scale + distance / self.variance)
    }

    /// Sets proportions, means and variance to their optimum given the memberships.
    fn m_step(&mut self) {
        let (n, p) = (self.q.rows(), self.data.x.cols());
        let mut squares = 0.0;
        for c in 0..self.q.cols() {
            let total: f64 = (0..n).map(|i| self.q[(i, c)]).sum();
            // An empty cluster keeps a tiny proportion, whose logarithm is needed.
            self.proportions[c] = (total / n as f64).max(1e-12);
            for j in 0..p {
                let sum: f64 = (0..n).map(|i| self.q[(i, c)] * self.data.x[(i, j)]).sum();
                let mean = sum / total.max(1e-300);
                self.means[(c, j)] = mean;
                squares += (0..n).map(|i| self.q[(i, c)] * (self.data.x[(i, j)] - mean).powi(2)).sum::<f64>();
            }
        }
        self.variance = (squares / (n * p.max(1)) as f64).max(1e-6);
    }

    fn bound(&self) -> f64 {
        let (n, clusters) = (self.q.rows(), self.q.cols());
        let mut bound = -self.data.duels.weight().iter().sum::<f64>() * std::f64::consts::LN_2;
        for (c, utility) in self.utilities.iter().enumerate() {
            let weights = self.expected_weights(c);
            bound += weights.iter().enumerate().map(|(d, w)| w * self.gain(d, c)).sum::<f64>() - utility.kl;
            for i in 0..n {
                let q = self.q[(i, c)];
                if q > 0.0 {
                    bound += q * (self.log_prior(i, c) - q.ln());
                }
            }
        }
        let n_parameters = (clusters * (self.data.x.cols() + 1)) as f64;
        bound - 0.5 * n_parameters * (n as f64).ln()
    }
}

/// Returns probabilities proportional to the exponentials of `scores`.
fn softmax(scores: &[f64]) -> Vec<f64> {
    let max_score = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exponentials: Vec<f64> = scores.iter().map(|score| (score - max_score).exp()).collect();
    let sum: f64 = exponentials.iter().sum();
    exponentials.iter().map(|exponential| exponential / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kernel;
    use crate::preference::pairwise_log_odds::psd_root;
    use crate::random::{Random, RngExt, SeedableRng, StandardNormal};
    use crate::table::Table;

    struct Case {
        duels: Duels,
        x: Matrix,
        k: Matrix,
        psd_root: Matrix,
    }

    fn case(n: usize, scale: f64) -> Case {
        let mut random = Random::seed_from_u64(3);
        let rows: Vec<[f64; 2]> =
            (0..n).map(|_| [random.sample(StandardNormal), random.sample(StandardNormal)]).collect();
        let (mut left, mut right, mut won, mut weight) = (vec![], vec![], vec![], vec![]);
        for i in 0..n {
            for j in 0..i {
                left.push(i);
                right.push(j);
                won.push([0.0, 0.5, 1.0, 1.0][random.random_range(0..4)]);
                weight.push(0.5 + random.random::<f64>());
            }
        }
        let duels = Duels::new(n, &left, &right, &won, Some(&weight)).unwrap();
        let x = Matrix::from_row_major(n, 2, rows.iter().flatten().copied().collect());
        let k = (scale * Kernel::gaussian(&[1.0, 1.0])).gram(&Table::from_rows(&rows).unwrap());
        let root = psd_root(&k, 1e-12).unwrap();
        Case { duels, x, k, psd_root: root }
    }

    fn fitted_state<'g>(data: &'g MixtureData<'g>, clusters: usize, sweeps: usize) -> MixtureState<'g> {
        let n = data.psd_root.rows();
        let mut random = Random::seed_from_u64(8);
        let mut q = Matrix::zeros(n, clusters);
        for i in 0..n {
            q.row_mut(i).iter_mut().for_each(|v| *v = 0.1 + random.random::<f64>());
            let sum: f64 = q.row(i).iter().sum();
            q.row_mut(i).iter_mut().for_each(|v| *v /= sum);
        }
        let mut state = MixtureState::new(data, q).unwrap();
        (0..sweeps).for_each(|_| state.sweep(None).unwrap());
        state
    }

    /// The bound equals its definition, computed term by term with dense covariances and averages by fine
    /// sums.
    #[test]
    fn the_bound_equals_its_definition() {
        let case = case(6, 2.0);
        let data = MixtureData { duels: &case.duels, x: &case.x, psd_root: &case.psd_root };
        let state = fitted_state(&data, 2, 2);
        let (n, p) = (6, 2);
        let chol = |m: &Matrix| Cholesky::new(m.clone(), "test").unwrap();
        let inverse = chol(&case.k).inverse();
        let mut bound = 0.0;
        for (c, utility) in state.utilities.iter().enumerate() {
            let mut precision = inverse.clone();
            let mut slope_sums = vec![0.0; n];
            for ((&(i, j), w), b) in case.duels.pairs().iter().zip(&utility.curvature).zip(&utility.slope) {
                for (a, s) in [(i, 1.0), (j, -1.0)] {
                    slope_sums[a] += s * b;
                    for (e, t) in [(i, 1.0), (j, -1.0)] {
                        precision[(a, e)] += s * t * w;
                    }
                }
            }
            let factor = chol(&precision);
            let (mean, covariance) = (factor.solve_vector(&slope_sums), factor.inverse());
            let trace: f64 = (0..n).map(|i| dot(inverse.row(i), &covariance.column(i))).sum();
            let square = dot(&mean, &inverse.matvec(&mean));
            bound -= 0.5 * (trace + square - n as f64 + chol(&case.k).log_det() + factor.log_det());
            let duels = case.duels.pairs().iter().zip(case.duels.outcome()).zip(case.duels.weight());
            for ((&(i, j), &won), &w) in duels {
                let (m, v) =
                    (mean[i] - mean[j], covariance[(i, i)] + covariance[(j, j)] - 2.0 * covariance[(i, j)]);
                let nodes = (-8000..=8000).map(|t| f64::from(t) * 1e-3);
                let average: f64 = nodes
                    .map(|z| {
                        let g = m + v.sqrt() * z;
                        let log = won * -((-g).exp().ln_1p()) + (1.0 - won) * -(g.exp().ln_1p());
                        log * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt() * 1e-3
                    })
                    .sum();
                bound += state.q[(i, c)] * state.q[(j, c)] * w * (average + std::f64::consts::LN_2);
            }
            for i in 0..n {
                let q = state.q[(i, c)];
                let density: f64 = (0..p)
                    .map(|j| {
                        let distance = case.x[(i, j)] - state.means[(c, j)];
                        -0.5 * (std::f64::consts::TAU * state.variance).ln()
                            - distance * distance / (2.0 * state.variance)
                    })
                    .sum();
                bound += q * (state.proportions[c].ln() + density - q.ln());
            }
        }
        bound -= case.duels.weight().iter().sum::<f64>() * std::f64::consts::LN_2;
        bound -= 0.5 * 6.0 * (n as f64).ln();
        assert!((state.bound() - bound).abs() < 1e-6, "{} {bound}", state.bound());
    }

    /// After many sweeps the derivative of the bound is 0 in every membership, proportion, mean, variance,
    /// curvature and slope.
    #[test]
    fn the_fixed_point_is_stationary() {
        let case = case(7, 2.0);
        let data = MixtureData { duels: &case.duels, x: &case.x, psd_root: &case.psd_root };
        let mut state = fitted_state(&data, 2, 0);
        let mut previous = f64::NEG_INFINITY;
        for _ in 0..3000 {
            state.sweep(None).unwrap();
            let bound = state.bound();
            assert!(bound >= previous - 1e-10, "{bound} {previous}");
            previous = bound;
        }
        let derivative = |change: &dyn Fn(&mut MixtureState<'_>, f64)| {
            let bound_at = |h: f64| {
                let mut changed = MixtureState {
                    data: &data,
                    q: state.q.clone(),
                    utilities: state.utilities.clone(),
                    proportions: state.proportions.clone(),
                    means: state.means.clone(),
                    variance: state.variance,
                    duels_of_item: state.duels_of_item.clone(),
                };
                change(&mut changed, h);
                changed.bound()
            };
            (bound_at(1e-4) - bound_at(-1e-4)) / 2e-4
        };
        for i in 0..7 {
            let change = |s: &mut MixtureState<'_>, h: f64| {
                let weight = s.q[(i, 0)] * h.exp();
                let sum = weight + s.q[(i, 1)];
                (s.q[(i, 0)], s.q[(i, 1)]) = (weight / sum, s.q[(i, 1)] / sum);
            };
            assert!(derivative(&change).abs() < 1e-4, "membership {i}: {}", derivative(&change));
        }
        for c in 0..2 {
            for j in 0..2 {
                assert!(derivative(&|s, h| s.means[(c, j)] += h).abs() < 1e-6);
            }
            for d in 0..case.duels.pairs().len() {
                for parameter in 0..2 {
                    let change = |s: &mut MixtureState<'_>, h: f64| {
                        let UtilityPosterior { mut curvature, mut slope, .. } = s.utilities[c].clone();
                        [&mut curvature, &mut slope][parameter][d] += h;
                        s.utilities[c] = UtilityPosterior::new(&data, curvature, slope).unwrap();
                    };
                    assert!(derivative(&change).abs() < 2e-3, "duel {d}: {}", derivative(&change));
                }
            }
        }
        assert!(derivative(&|s, h| s.variance += h).abs() < 1e-4);
        let change = |s: &mut MixtureState<'_>, h: f64| {
            (s.proportions[0], s.proportions[1]) =
                (s.proportions[0] + h * s.proportions[1], s.proportions[1] - h * s.proportions[1])
        };
        assert!(derivative(&change).abs() < 1e-6);
    }

    /// The bound without its last term is below and close to the log evidence of duels, which is estimated by
    /// draws of utilities under every assignment of items.
    #[test]
    fn the_bound_is_below_the_evidence() {
        let case = case(3, 1.0);
        let no_covariates = Matrix::zeros(3, 0);
        let data = MixtureData { duels: &case.duels, x: &no_covariates, psd_root: &case.psd_root };
        let state = fitted_state(&data, 2, 300);
        let mut random = Random::seed_from_u64(1);
        let (draws, mut evidence) = (60_000, Vec::new());
        for _ in 0..draws {
            let f: Vec<Vec<f64>> = (0..2)
                .map(|_| {
                    let z: Vec<f64> =
                        (0..case.psd_root.cols()).map(|_| random.sample(StandardNormal)).collect();
                    case.psd_root.matvec(&z)
                })
                .collect();
            let mut sum = 0.0;
            for code in 0..8_usize {
                let z = |i: usize| code >> i & 1;
                let mut log: f64 = (0..3).map(|i| state.proportions[z(i)].ln()).sum();
                let duels = case.duels.pairs().iter().zip(case.duels.outcome()).zip(case.duels.weight());
                for ((&(i, j), &won), &w) in duels {
                    let g = if z(i) == z(j) { f[z(i)][i] - f[z(i)][j] } else { 0.0 };
                    log += w * (won * -((-g).exp().ln_1p()) + (1.0 - won) * -(g.exp().ln_1p()));
                }
                sum += log.exp();
            }
            evidence.push(sum);
        }
        let mean = evidence.iter().sum::<f64>() / draws as f64;
        let sd = (evidence.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / draws as f64).sqrt();
        let error = sd / mean / (draws as f64).sqrt();
        let bound = state.bound() + 0.5 * 2.0 * 3.0_f64.ln();
        assert!(bound < mean.ln() + 5.0 * error, "{bound} {}", mean.ln());
        assert!(bound > mean.ln() - 0.5, "{bound} {}", mean.ln());
    }

    /// Adapted memberships are nearer than those of the bound's maximum to memberships from the bounds of all
    /// assignments of items to clusters. The first item keeps its cluster, because clusters have no names.
    #[test]
    fn adapted_memberships_are_near_those_of_all_assignments() {
        let n = 7;
        let case = case(n, 2.0);
        let data = MixtureData { duels: &case.duels, x: &case.x, psd_root: &case.psd_root };
        let start = fitted_state(&data, 2, 0).q;
        let fitted = Mixture::fit(&data, start, RunControl::none()).unwrap();
        let adapted = fitted.adapted_memberships(&data, RunControl::none()).unwrap();
        let first = usize::from(fitted.memberships[(0, 1)] > 0.5);
        let assignments: Vec<usize> = (0..1 << n).filter(|code| code & 1 == first).collect();
        let bound = |code: &usize| {
            let q = Matrix::from_fn(n, 2, |i, c| f64::from(u8::from(code >> i & 1 == c)));
            let mut state = MixtureState::new(&data, q).unwrap();
            for c in 0..2 {
                let weights = state.expected_weights(c);
                (0..20).for_each(|_| state.utilities[c].natural_gradient_step(&data, &weights).unwrap());
            }
            state.bound()
        };
        let weights = softmax(&assignments.iter().map(bound).collect::<Vec<f64>>());
        let error = |memberships: &Matrix| {
            let of_item = |i: usize| {
                let inside = assignments.iter().zip(&weights).filter(|(code, _)| *code >> i & 1 == 1);
                let expected: f64 = inside.map(|(_, weight)| weight).sum();
                (memberships[(i, 1)] - expected).abs()
            };
            (1..n).map(of_item).sum::<f64>() / (n - 1) as f64
        };
        let (near, far) = (error(&adapted), error(&fitted.memberships));
        assert!(near < 0.7 * far, "{near} {far}");
    }
}
