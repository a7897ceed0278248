//! Clusters of comparable items: there is a ranking within each cluster, and none between clusters.
//!
//! [`ClusteringMethod::Mixture`] is the recommended method: it gives the probability of each membership, and
//! its bound determines the number of clusters. The other methods are published ones, for comparison (Chau
//! 2023, section 6.3). Every result includes [`Clusters::covariates`], the partition by k-means of the
//! covariates without duels. A method that is no better than this partition has learnt nothing from duels.

mod local_maxima;
mod logistic_normal;
mod mixture;
mod spectral;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

pub use spectral::{singular_vectors, spectral_embedding};

pub use crate::kmeans::{KMeans, adjusted_rand, renumbered};

use self::local_maxima::{average_memberships, distinct_maxima};
use self::mixture::{Mixture, MixtureData};
use super::duels::Duels;
use super::gp_preference::PreferenceProcess;
use super::pairwise_log_odds::psd_root;
use crate::control::{Progress, RunControl, check_cancelled};
use crate::error::{Error, Result};
use crate::kernel_model::logistic;
use crate::kmeans;
use crate::linalg::{Matrix, mean};
use crate::random::{Exp1, Random, RngExt, SeedableRng, hash};
use crate::table::{ColumnKind, Table};

/// The number of random starts of k-means.
const KMEANS_STARTS: usize = 100;
/// The share of pairs in a subsample for stability.
const SUBSAMPLE_SHARE: f64 = 0.8;
/// The number of rounds of the search for the mixture's kernel, and the number of such searches.
const KERNEL_SEARCH_ROUNDS: usize = 8;
const MAXIMA_ROUNDS: usize = 3;
/// The largest number of items for which [`Mixture::adapted_memberships`] are computed.
const MAX_ADAPTED_ITEMS: usize = 100;
/// The smallest increase of the bound for which another kernel or maximum is taken.
const MIN_GAIN: f64 = 1e-3;

/// Methods of clustering.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ClusteringMethod {
    /// A mixture of rankings, by variational inference.
    Mixture {
        /// Whether the covariates of a cluster are normal around its own mean.
        covariates: bool,
        /// The number of random starts, in addition to those from covariates and from the generalised model.
        starts: usize,
    },
    /// GPGP-CLUS: k-means of the top singular vectors, two per cluster, of the generalised model's log odds.
    Generalised,
    /// SVD-CLUS: k-means of the top singular vectors of the comparisons themselves, without a model.
    Comparisons,
    /// PR-CLUS: k-means of the top singular vectors of the winners that a utility predicts, without uncertain
    /// pairs.
    Abstaining {
        /// The smallest distance of a pair's probability from ½; pairs below it are left out.
        threshold: f64,
    },
    /// Spectral clustering by the absolute values of the generalised model's log odds.
    Spectral,
    /// k-means of the covariates, in units of their standard deviations; without duels.
    Covariates,
}

/// The number of clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterCount {
    /// This number.
    Fixed(usize),
    /// The number with the largest bound, from 1 to this number; for mixtures only.
    UpTo(usize),
}

/// Settings for finding clusters of comparable items.
#[derive(Debug, Clone)]
pub struct Clusterer {
    /// The method.
    pub method: ClusteringMethod,
    /// The number of clusters.
    pub count: ClusterCount,
    /// The models of duels from which methods start: their kernel, and whether it is tuned.
    pub process: PreferenceProcess,
    /// The number of subsamples, with 80 % of the compared pairs, for the stability; 0 for none.
    pub subsamples: usize,
    /// The seed of starts and subsamples.
    pub seed: u64,
    /// A flag that another thread sets to cancel the run.
    pub stop: Arc<AtomicBool>,
    /// The progress of the work in runs, for other threads to read.
    pub progress: Arc<Progress>,
}

/// The clusters of items.
#[derive(Debug, Clone, PartialEq)]
pub struct Clusters {
    /// For each item, its cluster; clusters are numbered by their first items.
    pub labels: Vec<usize>,
    /// Items × clusters: the probability of each membership, averaged over the local maxima of the bound; 1
    /// or 0 for methods other than mixtures. For more than 100 items they are those of the mean-field
    /// approximation, which is overconfident.
    pub memberships: Matrix,
    /// The number of clusters.
    pub count: usize,
    /// For mixtures, the largest bound of the log evidence for each number of clusters.
    pub bounds: Vec<(usize, f64)>,
    /// For mixtures, the bound after each sweep of the best run. It never decreases.
    pub sweeps: Vec<f64>,
    /// The labels of the same number of clusters by k-means of the covariates alone.
    pub covariates: Vec<usize>,
    /// The mean agreement of these clusters with those of subsamples of the duels: adjusted Rand index.
    pub stability: Option<f64>,
}

/// Inputs that depend on items and duels, but not on the number of clusters.
struct ClusterInputs {
    x: Matrix,
    /// The matrix of log odds or comparisons that the method uses, also for the starts of the mixture.
    flow: Option<Matrix>,
    /// The process with its tuned hyper-parameters.
    process: PreferenceProcess,
    variance: f64,
}

impl ClusterInputs {
    /// Returns the covariates of a mixture, which may have none.
    fn covariates(&self, has_covariates: bool) -> Cow<'_, Matrix> {
        match has_covariates {
            true => Cow::Borrowed(&self.x),
            false => Cow::Owned(Matrix::zeros(self.x.rows(), 0)),
        }
    }
}

impl Clusterer {
    /// Creates a mixture of up to `max_clusters` clusters.
    pub fn new(process: PreferenceProcess, max_clusters: usize) -> Self {
        Self {
            method: ClusteringMethod::Mixture { covariates: true, starts: 12 },
            count: ClusterCount::UpTo(max_clusters),
            process,
            subsamples: 0,
            seed: 0,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }

    /// Clusters the rows of `items` by the duels between them. Cost in addition to the models': O(N³) for N
    /// items. For mixtures, O(N³) per cluster and sweep; each start has some tens of sweeps, for each number
    /// of clusters. Results do not depend on the number of threads.
    ///
    /// # Errors
    /// As [`PreferenceProcess::fit`]; [`Error::Parameter`].
    pub fn fit(&self, items: &Table, duels: &Duels) -> Result<Clusters> {
        self.check(items)?;
        let inputs = self.prepare(items, duels, &self.process)?;
        let counts = match self.count {
            ClusterCount::Fixed(count) => count..=count,
            ClusterCount::UpTo(max_clusters) => 1..=max_clusters,
        };
        self.progress.start(counts.clone().count() + self.subsamples);
        let mut best: Option<ClusteringResult> = None;
        let mut bounds = Vec::new();
        for count in counts {
            let result = self.clusters(&inputs, items, duels, count)?;
            self.control().step();
            bounds.extend(result.sweeps.last().map(|bound| (count, *bound)));
            if best.as_ref().is_none_or(|best| result.sweeps.last() > best.sweeps.last()) {
                best = Some(result);
            }
        }
        let best = best.ok_or_else(|| Error::parameter("clusters", 0, "there must be 1 or more"))?;
        let ClusteringResult { labels, memberships, sweeps, .. } = self.adapted(best, &inputs, duels)?;
        let count = memberships.cols();
        let covariates = KMeans::fit(&inputs.x, count, KMEANS_STARTS, self.seed).labels;
        let stability = self.stability(items, duels, &inputs.process, &labels, count)?;
        Ok(Clusters { labels, memberships, count, bounds, sweeps, covariates, stability })
    }

    fn control(&self) -> RunControl<'_> {
        RunControl { stop: &self.stop, progress: &self.progress }
    }

    fn check(&self, items: &Table) -> Result<()> {
        let (ClusterCount::Fixed(count) | ClusterCount::UpTo(count)) = self.count;
        if !(1..=items.rows()).contains(&count) {
            let allowed = format!("it is from 1 to the number of items, {}", items.rows());
            return Err(Error::parameter("clusters", count, allowed));
        }
        if matches!(self.count, ClusterCount::UpTo(_))
            && !matches!(self.method, ClusteringMethod::Mixture { .. })
        {
            let allowed = "only the mixture estimates the number of clusters: give the number for other \
                           methods";
            return Err(Error::parameter("clusters", "unknown", allowed));
        }
        match self.method {
            ClusteringMethod::Abstaining { threshold } if !(0.0..0.5).contains(&threshold) => {
                Err(Error::parameter("threshold", threshold, "it is from 0 to less than 0.5"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the inputs of clustering.
    fn prepare(&self, items: &Table, duels: &Duels, process: &PreferenceProcess) -> Result<ClusterInputs> {
        let x = standardised(items);
        let mut process = process.clone();
        (process.stop, process.progress) = (self.stop.clone(), Arc::default());
        let prior = &process.prior;
        let variance =
            if prior.utility_variance > 0.0 { prior.utility_variance } else { prior.generalised_variance };
        let flow = match self.method {
            ClusteringMethod::Comparisons => Some(comparisons(duels)),
            ClusteringMethod::Covariates => None,
            method => {
                let is_utility = matches!(method, ClusteringMethod::Abstaining { .. });
                (process.prior.utility_variance, process.prior.generalised_variance) =
                    if is_utility { (variance, 0.0) } else { (0.0, variance) };
                let fit = process.fit(items, duels)?;
                process.prior = fit.prior.clone();
                Some(fit.flow(items)?.mean())
            }
        };
        Ok(ClusterInputs { x, flow, process, variance })
    }

    fn clusters(
        &self,
        inputs: &ClusterInputs,
        items: &Table,
        duels: &Duels,
        count: usize,
    ) -> Result<ClusteringResult> {
        check_cancelled(&self.stop)?;
        let Some(flow) = &inputs.flow else { return Ok(self.kmeans(&inputs.x, count)) };
        let features = match self.method {
            ClusteringMethod::Mixture { covariates, starts } => {
                return self.mixture(inputs, flow, items, duels, (count, covariates, starts));
            }
            ClusteringMethod::Covariates => inputs.x.clone(),
            ClusteringMethod::Generalised | ClusteringMethod::Comparisons => singular_vectors(flow, count)?.1,
            ClusteringMethod::Abstaining { threshold } => {
                let mut confident = flow.clone();
                confident.map_in_place(|g| {
                    if (logistic(g) - 0.5).abs() < threshold || g == 0.0 { 0.0 } else { g.signum() }
                });
                singular_vectors(&confident, count)?.1
            }
            ClusteringMethod::Spectral => spectral_embedding(&absolute_values(flow), count)?,
        };
        Ok(self.kmeans(&features, count))
    }

    /// Returns the clusters of the rows of a matrix by k-means.
    fn kmeans(&self, x: &Matrix, count: usize) -> ClusteringResult {
        let labels = KMeans::fit(x, count, KMEANS_STARTS, self.seed).labels;
        let mut memberships = Matrix::zeros(labels.len(), count);
        labels.iter().enumerate().for_each(|(i, &c)| memberships[(i, c)] = 1.0);
        ClusteringResult { labels, memberships, sweeps: Vec::new(), maxima: None }
    }

    fn mixture(
        &self,
        inputs: &ClusterInputs,
        flow: &Matrix,
        items: &Table,
        duels: &Duels,
        (count, covariates, starts): (usize, bool, usize),
    ) -> Result<ClusteringResult> {
        let (n, kernel) = (items.rows(), &inputs.process.prior.items);
        let x = &*inputs.covariates(covariates);
        let mut initial = vec![soften(self.kmeans(&inputs.x, count))];
        if count > 1 {
            let mut weighted = absolute_values(flow);
            weighted.multiply(&absolute_values(&kernel.gram(items)));
            for affinity in [weighted, absolute_values(flow)] {
                initial.push(soften(self.kmeans(&spectral_embedding(&affinity, count)?, count)));
            }
            let random = |start: u64| dirichlet(n, count, hash([self.seed, count as u64, start]));
            initial.extend((0..starts as u64).map(random));
        }
        let scaled_root = |log_factors: [f64; 2]| {
            let mut k = kernel.with_log_length_scales_plus(log_factors[1]).gram(items);
            k.scale(inputs.variance * log_factors[0].exp());
            psd_root(&k, 1e-12)
        };
        let mut log_factors = [0.0; 2];
        let root = scaled_root(log_factors)?;
        let data = MixtureData { duels, x, psd_root: &root };
        let mut maxima = self.maxima(&data, initial)?;
        let mut best = highest(&maxima)?;
        for _ in 0..if self.process.tune { MAXIMA_ROUNDS } else { 0 } {
            let with_best_kernel = self.search_kernel(&mut log_factors, &best, (duels, x), &scaled_root)?;
            let root = scaled_root(log_factors)?;
            let data = MixtureData { duels, x, psd_root: &root };
            maxima = self.maxima(&data, maxima.into_iter().map(|maximum| maximum.memberships).collect())?;
            best = highest(&maxima)?;
            // Another maximum may be higher with the new kernel.
            if best.bound() <= with_best_kernel.bound() + MIN_GAIN {
                best = with_best_kernel;
                break;
            }
        }
        let maxima = distinct_maxima(&best, &maxima);
        let (labels, memberships) = renumbered_memberships(&average_memberships(&maxima));
        let maxima = Some((maxima, scaled_root(log_factors)?));
        Ok(ClusteringResult { labels, memberships, sweeps: best.bounds, maxima })
    }

    /// Replaces the memberships of a mixture by those of [`Mixture::adapted_memberships`], unless there are
    /// many items.
    fn adapted(
        &self,
        result: ClusteringResult,
        inputs: &ClusterInputs,
        duels: &Duels,
    ) -> Result<ClusteringResult> {
        let (Some((maxima, psd_root)), ClusteringMethod::Mixture { covariates, .. }) =
            (&result.maxima, self.method)
        else {
            return Ok(result);
        };
        if inputs.x.rows() > MAX_ADAPTED_ITEMS {
            return Ok(result);
        }
        let data = MixtureData { duels, x: &inputs.covariates(covariates), psd_root };
        let adapted = maxima.iter().map(|maximum| {
            let memberships = maximum.adapted_memberships(&data, self.control())?;
            Ok(Mixture { memberships, bounds: maximum.bounds.clone() })
        });
        let maxima = adapted.collect::<Result<Vec<Mixture>>>()?;
        let (labels, memberships) = renumbered_memberships(&average_memberships(&maxima));
        Ok(ClusteringResult { labels, memberships, ..result })
    }

    /// Returns the local maxima of the bound from these memberships.
    fn maxima(&self, data: &MixtureData<'_>, starts: Vec<Matrix>) -> Result<Vec<Mixture>> {
        starts.into_par_iter().map(|q| Mixture::fit(data, q, self.control())).collect()
    }

    /// Increases or decreases the scales of utilities and of all length scales while the bound increases.
    /// Returns the maximum with the new scales.
    fn search_kernel(
        &self,
        log_factors: &mut [f64; 2],
        start: &Mixture,
        (duels, x): (&Duels, &Matrix),
        scaled_root: &dyn Fn([f64; 2]) -> Result<Matrix>,
    ) -> Result<Mixture> {
        let mut best = start.clone();
        let mut steps = [[4.0_f64.ln(), 0.0], [0.0, 2.0_f64.ln()]];
        for _ in 0..KERNEL_SEARCH_ROUNDS {
            let mut improved = false;
            for step in &steps {
                for sign in [1.0, -1.0] {
                    let next = [log_factors[0] + sign * step[0], log_factors[1] + sign * step[1]];
                    let root = scaled_root(next)?;
                    let data = MixtureData { duels, x, psd_root: &root };
                    let result = Mixture::fit(&data, best.memberships.clone(), self.control())?;
                    if result.bound() > best.bound() + MIN_GAIN {
                        (*log_factors, best, improved) = (next, result, true);
                        break;
                    }
                }
            }
            if !improved {
                steps.iter_mut().flatten().for_each(|s| *s *= 0.5);
            }
        }
        Ok(best)
    }

    fn stability(
        &self,
        items: &Table,
        duels: &Duels,
        process: &PreferenceProcess,
        labels: &[usize],
        count: usize,
    ) -> Result<Option<f64>> {
        if self.subsamples == 0 {
            return Ok(None);
        }
        let untuned_process = PreferenceProcess { tune: false, ..process.clone() };
        let n_pairs = ((SUBSAMPLE_SHARE * duels.pairs().len() as f64).round() as usize).max(1);
        let mut sum = 0.0;
        for t in 0..self.subsamples {
            let subsample = duels.sample(n_pairs, hash([self.seed, 1 << 40, t as u64]));
            let inputs = self.prepare(items, &subsample, &untuned_process)?;
            sum += adjusted_rand(labels, &self.clusters(&inputs, items, &subsample, count)?.labels);
            self.control().step();
        }
        Ok(Some(sum / self.subsamples as f64))
    }
}

/// Returns the maximum with the largest bound.
fn highest(maxima: &[Mixture]) -> Result<Mixture> {
    let better = |best: Mixture, other: Mixture| if other.bound() > best.bound() { other } else { best };
    let highest = maxima.iter().cloned().reduce(better);
    highest.ok_or_else(|| Error::parameter("starts", 0, "there must be 1 or more"))
}

/// Returns the most probable clusters, numbered by their first items, and the memberships in this order.
/// Clusters without an item for which they are the most probable one are last.
fn renumbered_memberships(q: &Matrix) -> (Vec<usize>, Matrix) {
    let count = q.cols();
    let most_probable =
        |i: usize| (0..count).rev().max_by(|a, b| q[(i, *a)].total_cmp(&q[(i, *b)])).unwrap_or(0);
    let labels: Vec<usize> = (0..q.rows()).map(most_probable).collect();
    let mut order = kmeans::order(&labels);
    order.extend((0..count).filter(|c| !labels.contains(c)));
    (renumbered(&labels), Matrix::from_fn(q.rows(), count, |i, c| q[(i, order[c])]))
}

struct ClusteringResult {
    labels: Vec<usize>,
    memberships: Matrix,
    sweeps: Vec<f64>,
    /// For mixtures, the local maxima and the root of the kernel.
    maxima: Option<(Vec<Mixture>, Matrix)>,
}

/// Returns the matrix whose entry (l, r) is the weight of the duels that l won against r, minus that of those
/// it lost.
fn comparisons(duels: &Duels) -> Matrix {
    let mut out = Matrix::zeros(duels.items(), duels.items());
    let duels_with_weights = duels.pairs().iter().zip(duels.outcome()).zip(duels.weight());
    for ((&(l, r), &won), &weight) in duels_with_weights {
        let excess = weight * (2.0 * won - 1.0);
        (out[(l, r)], out[(r, l)]) = (excess, -excess);
    }
    out
}

fn absolute_values(flow: &Matrix) -> Matrix {
    let mut out = flow.clone();
    out.map_in_place(f64::abs);
    out
}

/// Returns memberships near the given clusters that can still change.
fn soften(clusters: ClusteringResult) -> Matrix {
    let mut q = clusters.memberships;
    let other = 0.1 / q.cols() as f64;
    q.map_in_place(|v| 0.9 * v + other);
    q
}

/// Draws memberships uniformly from the simplex.
fn dirichlet(n: usize, count: usize, seed: u64) -> Matrix {
    let mut random = Random::seed_from_u64(seed);
    let mut q = Matrix::zeros(n, count);
    for i in 0..n {
        let row = q.row_mut(i);
        row.iter_mut().for_each(|v| *v = random.sample(Exp1));
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|v| *v /= sum);
    }
    q
}

/// Returns the covariates in units of their standard deviations, with indicators for the levels of
/// categories. Constant columns are left out.
fn standardised(items: &Table) -> Matrix {
    let n = items.rows();
    let mut columns: Vec<Vec<f64>> = Vec::new();
    for (j, column) in items.columns().iter().enumerate() {
        match &column.kind {
            ColumnKind::Numeric => columns.push(items.column(j).to_vec()),
            ColumnKind::Categorical { levels } => {
                columns.extend((0..levels.len()).map(|level| items.indicator(j, level)));
            }
        }
    }
    let mut varying_columns: Vec<Vec<f64>> = Vec::new();
    for mut column in columns {
        let mean = mean(&column);
        column.iter_mut().for_each(|v| *v -= mean);
        let sd = (column.iter().map(|v| v * v).sum::<f64>() / n as f64).sqrt();
        if sd > 1e-12 * mean.abs() {
            column.iter_mut().for_each(|v| *v /= sd);
            varying_columns.push(column);
        }
    }
    Matrix::from_columns(n, &varying_columns)
}
