//! Whether there is a ranking, and of which items, for Python: arrays in, numbers out.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use riesz::kernel::{Categorical, Linear};
use riesz::preference::clusters::{ClusterCount, Clusterer, ClusteringMethod};
use riesz::preference::{
    ModelEvidence, PairKernel, PairwiseLogOdds, PreferenceProcess, Rankability, RankingRequest, SpecR,
};
use riesz::table::ColumnKind;
use riesz::{Kernel, Posterior, Table};

use crate::preference::{Given, duels};
use crate::threads::{Threads, interruptible};
use crate::{Expansion, NO_POSTERIOR, NamedRows, matrix, raise, refuse, sample};

fn process(kernel: &str, tune: bool, restarts: usize, seed: u64) -> PyResult<PreferenceProcess> {
    let process = PreferenceProcess::new(crate::fit::kernel(kernel)?);
    Ok(PreferenceProcess { tune, restarts, seed, ..process })
}

/// Of each item: utility and its interval, rank and its interval, probability to be the best.
type Place = (f64, (f64, f64), usize, (usize, usize), f64);

/// Places of items; the cyclic share of the mean, and of draws; the circles of three that are most probable.
type Ranked = (Vec<Place>, f64, (f64, f64, f64), Vec<([usize; 3], f64)>);

fn ranked(found: &Rankability) -> Ranked {
    let places = (0..found.utility.len()).map(|i| {
        let (utility, rank) = (found.utility_interval[i], found.rank_interval[i]);
        (found.utility[i], utility, found.rank[i], rank, found.best[i])
    });
    let circles = found.triangles.iter().map(|t| (t.items, t.probability)).collect();
    (places.collect(), found.cyclic_share, found.cyclic_share_interval, circles)
}

/// A ranking of all items of a model of abilities.
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
    let work = move || {
        let columns = model.columns();
        let count = match &columns[0].kind {
            ColumnKind::Categorical { levels } => levels.len(),
            ColumnKind::Numeric => 0,
        };
        // All against the first one: abilities matter by their differences alone.
        let values = (0..count).map(|i| i as f64).chain(std::iter::repeat_n(0.0, count)).collect();
        let rows = Table::from_column_major(columns.to_vec(), count, values)?;
        let posterior = Posterior::new(&model, &covariance)?;
        let at = posterior.functionals_at(&rows)?;
        ranking.of_abilities(&posterior.mean_of(&at).column(0), &posterior.covariance(&at)[0])
    };
    Ok(ranked(&interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)?))
}

/// A ranking of items; `further` utilities are those of a column, its number, with a share: by its levels if
/// the last is true, else by its number.
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
    let alone = further.into_iter().map(|(column, share, of_levels)| {
        share
            * match of_levels {
                true => Kernel::from(Categorical { columns: [column], similarity: 0.0 }),
                false => Kernel::from(Linear { columns: vec![column], center: vec![0.0], scale: vec![1.0] }),
            }
    });
    prior.extra_utility_kernel = alone.reduce(|a, b| a + b);
    let covariance = model.covariance.clone().ok_or_else(|| refuse(NO_POSTERIOR))?;
    let model = model.model.clone();
    let ranking = RankingRequest { draws, level, triangles, seed, ..RankingRequest::default() };
    let stop = ranking.stop.clone();
    let work = move || ranking.of(&PairwiseLogOdds::new(&model, &covariance, &prior, &items)?);
    Ok(ranked(&interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)?))
}

/// SpecR of duels among so many items; mean and standard deviation of rankings, and of coins; average
/// clustering.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "read by one place in Python")]
pub fn spec_r(
    py: Python<'_>,
    items: usize,
    given: Given,
    draws: usize,
    seed: u64,
) -> PyResult<(f64, (f64, f64), (f64, f64), f64)> {
    let duels = duels(items, given)?;
    let stop = Arc::new(AtomicBool::new(false));
    let heeded = stop.clone();
    let work = move || SpecR::of(&duels, draws, seed, &heeded);
    let found = interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)?;
    let SpecR { value, ranking, coins, average_clustering, .. } = found;
    Ok((value, (ranking.mean, ranking.sd), (coins.mean, coins.sd), average_clustering))
}

/// The log marginal likelihoods of the nested, the utility and the generalised model.
#[pyfunction]
pub fn compare_preferences(
    py: Python<'_>,
    kernel: &str,
    items: NamedRows<'_>,
    given: Given,
    tune: bool,
    restarts: usize,
    seed: u64,
) -> PyResult<[f64; 3]> {
    let items = sample(items)?;
    let (duels, process) = (duels(items.rows(), given)?, process(kernel, tune, restarts, seed)?);
    let stop = process.stop.clone();
    let work = move || ModelEvidence::of(&process, &items, &duels);
    let found = interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)?;
    Ok([found.nested, found.utility, found.generalised])
}

/// Labels, memberships, bounds by number of clusters, the sweeps of the best run, labels by covariates alone,
/// and stability.
type Clustered<'py> =
    (Vec<usize>, Bound<'py, PyArray2<f64>>, Vec<(usize, f64)>, Vec<f64>, Vec<usize>, Option<f64>);

/// Clusters of comparable items: `count` of them, or if it is `None` as many as the bound says, at most
/// `most`.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn cluster_preferences<'py>(
    py: Python<'py>,
    kernel: &str,
    items: NamedRows<'_>,
    given: Given,
    method: &str,
    count: Option<usize>,
    most: usize,
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
        other => return Err(refuse(format!("there is no method '{other}'"))),
    };
    let duels = duels(items.rows(), given)?;
    let count = count.map_or(ClusterCount::UpTo(most.min(items.rows())), ClusterCount::Fixed);
    let clusterer = Clusterer { method, count, subsamples, seed, ..Clusterer::new(process, most) };
    let stop = clusterer.stop.clone();
    let work = move || clusterer.fit(&items, &duels);
    let found = interruptible(py, &Threads::all(), &stop, work)?.map_err(raise)?;
    let q = matrix(found.memberships.rows(), found.memberships.cols(), found.memberships.data().to_vec())?;
    Ok((found.labels, q.into_pyarray(py), found.bounds, found.sweeps, found.covariates, found.stability))
}
