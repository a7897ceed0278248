//! Rankings of items, measures of rankability, and clusters of items for Python.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use riesz::Kernel;
use riesz::kernel::{Categorical, Linear};
use riesz::preference::clusters::{ClusterCount, Clusterer, ClusteringMethod};
use riesz::preference::{
    ELO_MEAN, ELO_PER_LOG_ODDS, ModelEvidence, PairKernel, PairwiseLogOdds, PreferenceProcess, Rankability,
    RankingRequest, SpecR,
};

use crate::preference::{DuelInput, duels};
use crate::thread_pools::{Threads, interruptible};
use crate::{Expansion, NO_POSTERIOR, NamedRows, matrix, raise, refuse, sample};

fn process(kernel: &str, tune: bool, restarts: usize, seed: u64) -> PyResult<PreferenceProcess> {
    let process = PreferenceProcess::new(crate::fit::kernel(kernel)?);
    Ok(PreferenceProcess { tune, restarts, seed, ..process })
}

/// The place of an item: its utility and interval, its rank and interval, and its probability of being the
/// best.
type Place = (f64, (f64, f64), usize, (usize, usize), f64);

/// A ranking: the places of items, the cyclic share of the mean and of draws, and the most probable cycles of
/// three items.
type Ranked = (Vec<Place>, f64, (f64, f64, f64), Vec<([usize; 3], f64)>);

fn ranked(result: &Rankability) -> Ranked {
    let ranks = (0..result.utility.len()).map(|i| {
        let (utility, rank) = (result.utility_interval[i], result.rank_interval[i]);
        (result.utility[i], utility, result.rank[i], rank, result.best[i])
    });
    let circles = result.triangles.iter().map(|t| (t.items, t.probability)).collect();
    (ranks.collect(), result.cyclic_share, result.cyclic_share_interval, circles)
}

/// The Elo scale: points per unit of log odds, and the usual mean.
#[pyfunction]
pub fn elo_scale() -> (f64, f64) {
    (ELO_PER_LOG_ODDS, ELO_MEAN)
}

/// Ranks all items of a model of abilities.
#[pyfunction]
pub fn rank_abilities(
    py: Python<'_>,
    model: &Expansion,
    draws: usize,
    level: f64,
    seed: u64,
) -> PyResult<Ranked> {
    let covariance = model.covariance.clone().ok_or_else(|| refuse(NO_POSTERIOR))?;
    let model = model.model.clone();
    let ranking = RankingRequest { draws, level, seed, ..RankingRequest::default() };
    let stop = ranking.stop.clone();
    let work = move || ranking.of_ability_model(&model, &covariance);
    Ok(ranked(&interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?))
}

/// Ranks items. Each entry of `further` is a utility of one column: the column, its share, and whether the
/// utility is one of levels (true) or linear in the column's number (false).
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn rank_preferences(
    py: Python<'_>,
    model: &Expansion,
    kernel: &str,
    shares: [f64; 2],
    further: Vec<(usize, f64, bool)>,
    items: NamedRows<'_>,
    draws: usize,
    level: f64,
    triangles: usize,
    seed: u64,
) -> PyResult<Ranked> {
    let (items, kernel) = (sample(items)?, crate::fit::kernel(kernel)?);
    let mut prior = PairKernel::new(kernel, shares[0], shares[1]);
    let further_kernels = further.into_iter().map(|(column, share, of_levels)| {
        share
            * match of_levels {
                true => Kernel::from(Categorical { columns: [column], similarity: 0.0 }),
                false => Kernel::from(Linear { columns: vec![column], center: vec![0.0], scale: vec![1.0] }),
            }
    });
    prior.extra_utility_kernel = further_kernels.reduce(|a, b| a + b);
    let covariance = model.covariance.clone().ok_or_else(|| refuse(NO_POSTERIOR))?;
    let model = model.model.clone();
    let ranking = RankingRequest { draws, level, triangles, seed, ..RankingRequest::default() };
    let stop = ranking.stop.clone();
    let work =
        move || ranking.summarise_log_odds(&PairwiseLogOdds::new(&model, &covariance, &prior, &items)?);
    Ok(ranked(&interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?))
}

/// SpecR of duels among `items` items; its mean and standard deviation for perfect rankings, and for fair
/// coins; and the average clustering coefficient.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "read by one place in Python")]
pub fn spec_r(
    py: Python<'_>,
    items: usize,
    input: DuelInput,
    draws: usize,
    seed: u64,
) -> PyResult<(f64, (f64, f64), (f64, f64), f64)> {
    let duels = duels(items, input)?;
    let stop = Arc::new(AtomicBool::new(false));
    let worker_stop = stop.clone();
    let work = move || SpecR::from_duels(&duels, draws, seed, &worker_stop);
    let result = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    let SpecR { value, ranking, coins, average_clustering, .. } = result;
    Ok((value, (ranking.mean, ranking.sd), (coins.mean, coins.sd), average_clustering))
}

/// The log marginal likelihoods of the nested, the utility and the generalised model.
#[pyfunction]
pub fn compare_preferences(
    py: Python<'_>,
    kernel: &str,
    items: NamedRows<'_>,
    input: DuelInput,
    tune: bool,
    restarts: usize,
    seed: u64,
) -> PyResult<[f64; 3]> {
    let items = sample(items)?;
    let (duels, process) = (duels(items.rows(), input)?, process(kernel, tune, restarts, seed)?);
    let stop = process.stop.clone();
    let work = move || ModelEvidence::compare(&process, &items, &duels);
    let evidence = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    Ok([evidence.nested, evidence.utility, evidence.generalised])
}

/// A clustering: labels, memberships, evidence bounds by number of clusters, the bounds over the sweeps of
/// the best run, labels by covariates alone, and stability.
type Clustered<'py> =
    (Vec<usize>, Bound<'py, PyArray2<f64>>, Vec<(usize, f64)>, Vec<f64>, Vec<usize>, Option<f64>);

/// Clusters comparable items into `count` clusters. For `None` the number is the one with the largest bound,
/// at most `max_clusters`.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn cluster_preferences<'py>(
    py: Python<'py>,
    kernel: &str,
    items: NamedRows<'_>,
    input: DuelInput,
    method: &str,
    count: Option<usize>,
    max_clusters: usize,
    covariates: bool,
    starts: usize,
    threshold: f64,
    share: f64,
    subsamples: usize,
    tune: bool,
    seed: u64,
) -> PyResult<Clustered<'py>> {
    let items = sample(items)?;
    let mut process = process(kernel, tune, 0, seed)?;
    (process.prior.utility_variance, process.prior.generalised_variance) = (share, share);
    let method = match method {
        "mixture" => ClusteringMethod::Mixture { covariates, starts },
        "generalised" => ClusteringMethod::Generalised,
        "comparisons" => ClusteringMethod::Comparisons,
        "abstaining" => ClusteringMethod::Abstaining { threshold },
        "spectral" => ClusteringMethod::Spectral,
        "covariates" => ClusteringMethod::Covariates,
        other => return Err(refuse(format!("unknown method '{other}' of clustering"))),
    };
    let duels = duels(items.rows(), input)?;
    let count = count.map_or(ClusterCount::UpTo(max_clusters.min(items.rows())), ClusterCount::Fixed);
    let clusterer = Clusterer { method, count, subsamples, seed, ..Clusterer::new(process, max_clusters) };
    let stop = clusterer.stop.clone();
    let work = move || clusterer.fit(&items, &duels);
    let result = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    let q = matrix(result.memberships.rows(), result.memberships.cols(), result.memberships.data().to_vec())?;
    Ok((result.labels, q.into_pyarray(py), result.bounds, result.sweeps, result.covariates, result.stability))
}
