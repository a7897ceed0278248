//! Which items can be compared at all: clusters of items such that a ranking holds within each, and between
//! them nothing does.
//!
//! [`ClusteringMethod::Mixture`] is the one to use: it says how probable each membership is, and the largest
//! bound tells the number of clusters. The others are published methods, for comparison (Chau 2023, section
//! 6.3). Whatever is found, [`Clusters::covariates`] is the partition by k-means of the covariates alone,
//! without any duel: a method that does not do better has learnt nothing from duels.

mod averages;
mod mixture;
mod spectral;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

pub use spectral::{singular_vectors, spectral_embedding};

pub use crate::kmeans::{KMeans, adjusted_rand, renumbered};

use self::mixture::{Mixture, MixtureData};
use super::duels::Duels;
use super::gp_preference::PreferenceProcess;
use super::pair_kernel::Pair;
use crate::control::{Progress, RunControl, check_cancelled};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::kernel_model::logistic;
use crate::kmeans;
use crate::linalg::Matrix;
use crate::random::{Exp1, Random, RngExt, SeedableRng, hash, index};
use crate::table::{ColumnKind, Table};

/// Starts of k-means.
const KMEANS_STARTS: usize = 100;
/// The share of duels in a subsample that stability is measured by.
const SUBSAMPLE: f64 = 0.8;
/// Rounds of the search for the mixture's kernel.
const ROUNDS: usize = 8;

/// How clusters are found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ClusteringMethod {
    /// A mixture of rankings, by variational inference; see the module's head.
    Mixture {
        /// Whether covariates of a cluster lie around a mean of their own.
        covariates: bool,
        /// Random starts, besides those from covariates and from the generalised model.
        starts: usize,
    },
    /// GPGP-CLUS: k-means of the top singular vectors, two a cluster, of the generalised model's log odds.
    Generalised,
    /// SVD-CLUS: the same of the comparisons themselves, without a model.
    Comparisons,
    /// PR-CLUS: the same of the winners that a utility predicts, where it is sure enough.
    Abstaining {
        /// A pair is left out whose probability is nearer to ½ than this.
        threshold: f64,
    },
    /// Spectral clustering by the sizes of the generalised model's log odds.
    Spectral,
    /// k-means of the covariates, in units of their standard deviations; without duels.
    Covariates,
}

/// How many clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterCount {
    /// So many.
    Fixed(usize),
    /// As many as have the largest bound, from 1 on; of mixtures only.
    UpTo(usize),
}

/// Finds clusters of comparable items.
#[derive(Debug, Clone)]
pub struct Clusterer {
    /// How.
    pub method: ClusteringMethod,
    /// How many.
    pub count: ClusterCount,
    /// The models of duels that methods start from: their kernel, and whether it is tuned.
    pub process: PreferenceProcess,
    /// Subsamples of 80 % of the duels' pairs from which stability is found; 0 for none.
    pub subsamples: usize,
    /// Seed of starts and subsamples.
    pub seed: u64,
    /// Set by another thread to give up.
    pub stop: Arc<AtomicBool>,
    /// Read by another thread to see how far it is: runs.
    pub progress: Arc<Progress>,
}

/// Clusters that were found.
#[derive(Debug, Clone, PartialEq)]
pub struct Clusters {
    /// One an item; clusters are numbered by their first items.
    pub labels: Vec<usize>,
    /// Items × clusters: the probability of each; of other methods than mixtures 1 or 0.
    pub memberships: Matrix,
    /// How many there are.
    pub count: usize,
    /// Of mixtures, by the number of clusters: the largest bound of the log evidence that was found.
    pub bounds: Vec<(usize, f64)>,
    /// Of mixtures: the bound after each sweep of the run that won. It never falls.
    pub sweeps: Vec<f64>,
    /// As many clusters by k-means of the covariates alone.
    pub covariates: Vec<usize>,
    /// How far, on average, clusters of subsamples of the duels agree with these: adjusted Rand index.
    pub stability: Option<f64>,
}

/// What depends on items and duels, but not on the number of clusters.
struct ClusterInputs {
    x: Matrix,
    /// Of the method, and of the mixture's starts.
    flow: Option<Matrix>,
    kernel: Kernel,
    share: f64,
}

impl Clusterer {
    /// A mixture of up to `most` clusters.
    pub fn new(process: PreferenceProcess, most: usize) -> Self {
        Self {
            method: ClusteringMethod::Mixture { covariates: true, starts: 12 },
            count: ClusterCount::UpTo(most),
            process,
            subsamples: 0,
            seed: 0,
            stop: Arc::default(),
            progress: Arc::default(),
        }
    }

    /// Clusters the rows of `items` by duels among them. Cost, besides that of the models: O(N³) for N items;
    /// of mixtures that a sweep, of which each start takes some tens, for each number of clusters.
    ///
    /// The same numbers for any number of threads.
    ///
    /// # Errors
    /// As [`PreferenceProcess::fit`]; [`Error::Parameter`].
    pub fn fit(&self, items: &Table, duels: &Duels) -> Result<Clusters> {
        self.check(items)?;
        let (prepared, process) = self.prepare(items, duels, &self.process)?;
        let counts = match self.count {
            ClusterCount::Fixed(count) => count..=count,
            ClusterCount::UpTo(most) => 1..=most,
        };
        self.progress.start(counts.clone().count() + self.subsamples);
        let mut best: Option<ClusteringResult> = None;
        let mut bounds = Vec::new();
        for count in counts {
            let found = self.clusters(&prepared, items, duels, count)?;
            self.watch().step();
            bounds.extend(found.sweeps.last().map(|bound| (count, *bound)));
            if best.as_ref().is_none_or(|best| found.sweeps.last() > best.sweeps.last()) {
                best = Some(found);
            }
        }
        let Some(ClusteringResult { labels, memberships, sweeps }) = best else {
            return Err(Error::parameter("clusters", 0, "there is 1 or more"));
        };
        let count = memberships.cols();
        let covariates = KMeans::of(&prepared.x, count, KMEANS_STARTS, self.seed).labels;
        let stability = self.stability(items, duels, &process, &labels, count)?;
        Ok(Clusters { labels, memberships, count, bounds, sweeps, covariates, stability })
    }

    fn watch(&self) -> RunControl<'_> {
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
            let allowed = "only the mixture finds how many clusters there are: for other methods say it";
            return Err(Error::parameter("clusters", "unknown", allowed));
        }
        match self.method {
            ClusteringMethod::Abstaining { threshold } if !(0.0..0.5).contains(&threshold) => {
                Err(Error::parameter("threshold", threshold, "it is from 0 to less than 0.5"))
            }
            _ => Ok(()),
        }
    }

    /// What clusters are made of, and the process as it was tuned.
    fn prepare(
        &self,
        items: &Table,
        duels: &Duels,
        process: &PreferenceProcess,
    ) -> Result<(ClusterInputs, PreferenceProcess)> {
        let x = standardised(items);
        let mut process = process.clone();
        (process.stop, process.progress) = (self.stop.clone(), Arc::default());
        let given = &process.prior;
        let share =
            if given.utility_variance > 0.0 { given.utility_variance } else { given.generalised_variance };
        let mut kernel = given.items.clone();
        let flow = match self.method {
            ClusteringMethod::Mixture { .. } | ClusteringMethod::Generalised | ClusteringMethod::Spectral => {
                (process.prior.utility_variance, process.prior.generalised_variance) = (0.0, share);
                Some(true)
            }
            ClusteringMethod::Abstaining { .. } => {
                (process.prior.utility_variance, process.prior.generalised_variance) = (share, 0.0);
                Some(true)
            }
            ClusteringMethod::Comparisons => Some(false),
            ClusteringMethod::Covariates => None,
        };
        let flow = match flow {
            Some(true) => {
                let fit = process.fit(items, duels)?;
                kernel = fit.prior.items.clone();
                process.prior = fit.prior.clone();
                Some(fit.flow(items)?.mean())
            }
            Some(false) => Some(comparisons(duels)),
            None => None,
        };
        Ok((ClusterInputs { x, flow, kernel, share }, process))
    }

    fn clusters(
        &self,
        given: &ClusterInputs,
        items: &Table,
        duels: &Duels,
        count: usize,
    ) -> Result<ClusteringResult> {
        check_cancelled(&self.stop)?;
        let kmeans = |x: &Matrix| KMeans::of(x, count, KMEANS_STARTS, self.seed).labels;
        let Some(flow) = &given.flow else {
            return Ok(ClusteringResult::argmax_labels(kmeans(&given.x), count));
        };
        Ok(match self.method {
            ClusteringMethod::Covariates => ClusteringResult::argmax_labels(kmeans(&given.x), count),
            ClusteringMethod::Generalised | ClusteringMethod::Comparisons => {
                ClusteringResult::argmax_labels(kmeans(&singular_vectors(flow, count)?.1), count)
            }
            ClusteringMethod::Abstaining { threshold } => {
                let mut sure = flow.clone();
                for g in sure.data_mut() {
                    *g = if (logistic(*g) - 0.5).abs() < threshold || *g == 0.0 { 0.0 } else { g.signum() };
                }
                ClusteringResult::argmax_labels(kmeans(&singular_vectors(&sure, count)?.1), count)
            }
            ClusteringMethod::Spectral => {
                ClusteringResult::argmax_labels(kmeans(&spectral_embedding(&sizes(flow), count)?), count)
            }
            ClusteringMethod::Mixture { covariates, starts } => {
                self.mixture(given, items, duels, (count, covariates, starts))?
            }
        })
    }

    fn mixture(
        &self,
        prepared: &ClusterInputs,
        items: &Table,
        duels: &Duels,
        (count, covariates, starts): (usize, bool, usize),
    ) -> Result<ClusteringResult> {
        let n = items.rows();
        let none = Matrix::zeros(n, 0);
        let x = if covariates { &prepared.x } else { &none };
        let kmeans = |x: &Matrix| KMeans::of(x, count, KMEANS_STARTS, self.seed).labels;
        let mut from = vec![soften(&kmeans(&prepared.x), count)];
        if let Some(flow) = prepared.flow.as_ref().filter(|_| count > 1) {
            let mut near = sizes(flow);
            let k = prepared.kernel.gram(items);
            near.data_mut().iter_mut().zip(k.data()).for_each(|(g, k)| *g *= k.abs());
            from.push(soften(&kmeans(&spectral_embedding(&near, count)?), count));
            from.push(soften(&kmeans(&spectral_embedding(&sizes(flow), count)?), count));
        }
        if count > 1 {
            let random = |start: u64| dirichlet(n, count, hash([self.seed, count as u64, start]));
            from.extend((0..starts as u64).map(random));
        }
        let gram = |place: [f64; 2]| {
            let mut k = scaled(&prepared.kernel, place[1]).gram(items);
            k.data_mut().iter_mut().for_each(|v| *v *= prepared.share * place[0].exp());
            mixture::psd_root(&k)
        };
        let mut place = [0.0; 2];
        let runs = {
            let root = gram(place)?;
            let given = MixtureData { duels, x, psd_root: &root };
            let run = |q: Matrix| Mixture::from(&given, q, self.watch());
            from.into_par_iter().map(run).collect::<Result<Vec<Mixture>>>()?
        };
        let higher = |best: Mixture, other: Mixture| if other.bound() > best.bound() { other } else { best };
        let Some(mut best) = runs.into_iter().reduce(higher) else {
            return Err(Error::parameter("starts", 0, "there is 1 or more"));
        };
        // The scale of utilities and of all length scales: up or down, while the bound rises.
        let mut steps = [[4.0_f64.ln(), 0.0], [0.0, 2.0_f64.ln()]];
        for _ in 0..if self.process.tune { ROUNDS } else { 0 } {
            let mut moved = false;
            for step in &steps {
                for sign in [1.0, -1.0] {
                    let next = [place[0] + sign * step[0], place[1] + sign * step[1]];
                    let root = gram(next)?;
                    let given = MixtureData { duels, x, psd_root: &root };
                    let found = Mixture::from(&given, best.memberships.clone(), self.watch())?;
                    if found.bound() > best.bound() + 1e-3 {
                        (place, best, moved) = (next, found, true);
                        break;
                    }
                }
            }
            if !moved {
                steps.iter_mut().flatten().for_each(|s| *s *= 0.5);
            }
        }
        let q = &best.memberships;
        let likeliest =
            |i: usize| (0..count).rev().max_by(|a, b| q[(i, *a)].total_cmp(&q[(i, *b)])).unwrap_or(0);
        let labels: Vec<usize> = (0..n).map(likeliest).collect();
        // Clusters in the order of their first items, those that are nobody's likeliest last.
        let mut order = kmeans::order(&labels);
        order.extend((0..count).filter(|c| !labels.contains(c)));
        let numbers = (0..n).flat_map(|i| order.iter().map(move |&c| q[(i, c)])).collect();
        let memberships = Matrix::from_row_major(n, count, numbers);
        Ok(ClusteringResult { labels: renumbered(&labels), memberships, sweeps: best.bounds })
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
        let fixed = PreferenceProcess { tune: false, ..process.clone() };
        let all = duels.pairs().len();
        let kept = ((SUBSAMPLE * all as f64).round() as usize).max(1);
        let mut sum = 0.0;
        for t in 0..self.subsamples {
            let mut random = Random::seed_from_u64(hash([self.seed, 1 << 40, t as u64]));
            let mut chosen = index::sample(&mut random, all, kept).into_vec();
            chosen.sort_unstable();
            let part = subset(duels, &chosen)?;
            let (prepared, _) = self.prepare(items, &part, &fixed)?;
            sum += adjusted_rand(labels, &self.clusters(&prepared, items, &part, count)?.labels);
            self.watch().step();
        }
        Ok(Some(sum / self.subsamples as f64))
    }
}

struct ClusteringResult {
    labels: Vec<usize>,
    memberships: Matrix,
    sweeps: Vec<f64>,
}

impl ClusteringResult {
    fn argmax_labels(labels: Vec<usize>, count: usize) -> Self {
        let mut memberships = Matrix::zeros(labels.len(), count);
        labels.iter().enumerate().for_each(|(i, &c)| memberships[(i, c)] = 1.0);
        Self { labels, memberships, sweeps: Vec::new() }
    }
}

/// Some of the pairs with all of their duels.
fn subset(duels: &Duels, chosen: &[usize]) -> Result<Duels> {
    let pick = |side: fn(&Pair) -> usize| chosen.iter().map(|&d| side(&duels.pairs()[d])).collect::<Vec<_>>();
    let of = |values: &[f64]| chosen.iter().map(|&d| values[d]).collect::<Vec<f64>>();
    let weight = of(duels.weight());
    Duels::new(duels.items(), &pick(|p| p.0), &pick(|p| p.1), &of(duels.outcome()), Some(&weight))
}

/// Entry (l, r) is how many more duels of this pair l won than lost, by weight.
fn comparisons(duels: &Duels) -> Matrix {
    let mut out = Matrix::zeros(duels.items(), duels.items());
    let all = duels.pairs().iter().zip(duels.outcome()).zip(duels.weight());
    for ((&(l, r), &won), &weight) in all {
        let more = weight * (2.0 * won - 1.0);
        (out[(l, r)], out[(r, l)]) = (more, -more);
    }
    out
}

fn sizes(flow: &Matrix) -> Matrix {
    let mut out = flow.clone();
    out.data_mut().iter_mut().for_each(|v| *v = v.abs());
    out
}

/// Memberships near labels, which leave room to move.
fn soften(labels: &[usize], count: usize) -> Matrix {
    let mut q = Matrix::zeros(labels.len(), count);
    for (i, &own) in labels.iter().enumerate() {
        for (c, v) in q.row_mut(i).iter_mut().enumerate() {
            *v = if c == own { 0.9 } else { 0.0 } + 0.1 / count as f64;
        }
    }
    q
}

/// Memberships drawn uniformly from all there are.
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

/// The kernel with all length scales longer, by a logarithm.
fn scaled(kernel: &Kernel, by: f64) -> Kernel {
    let longer =
        |p: crate::kernel::Parameter| p.log_value + if p.name.starts_with("lengthscale") { by } else { 0.0 };
    kernel.with_parameters(&kernel.parameters().into_iter().map(longer).collect::<Vec<f64>>())
}

/// Covariates in units of their standard deviations; categories as indicators of their levels. What is
/// constant is left out.
fn standardised(items: &Table) -> Matrix {
    let n = items.rows();
    let mut columns: Vec<Vec<f64>> = Vec::new();
    for (j, column) in items.columns().iter().enumerate() {
        match &column.kind {
            ColumnKind::Numeric => columns.push(items.column(j).to_vec()),
            ColumnKind::Categorical { levels } => columns.extend((0..levels.len()).map(|level| {
                items.column(j).iter().map(|v| f64::from(u8::from(*v == level as f64))).collect()
            })),
        }
    }
    let mut kept: Vec<Vec<f64>> = Vec::new();
    for mut column in columns {
        let mean = column.iter().sum::<f64>() / n as f64;
        column.iter_mut().for_each(|v| *v -= mean);
        let sd = (column.iter().map(|v| v * v).sum::<f64>() / n as f64).sqrt();
        if sd > 1e-12 * mean.abs() {
            column.iter_mut().for_each(|v| *v /= sd);
            kept.push(column);
        }
    }
    let data = (0..n).flat_map(|i| kept.iter().map(move |column| column[i])).collect();
    Matrix::from_row_major(n, kept.len(), data)
}
