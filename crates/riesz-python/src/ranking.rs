//! Rankings of items, measures of rankability, and clusters of items for Python.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use riesz::preference::clusters::{ClusterCount, Clusterer, ClusteringMethod};
use riesz::preference::{
    DuelEntries, DuelSuggestion, Duels, InformationGoal, ModelEvidence, Rankability, RankingRequest, SpecR,
    SuggestionRequest, UserEvidence, prepare_entries,
};

use crate::fit::WeightedModels;
use crate::preference::{Circumstances, DuelInput, duels, process};
use crate::thread_pools::{Threads, interruptible};
use crate::{Expansion, NamedRows, matrix, raise, refuse, sample};

/// The place of an item: its utility and interval, its rank and interval, and its probabilities of being the
/// best and of being the Condorcet winner.
type Place = (f64, (f64, f64), usize, (usize, usize), f64, f64);

/// A ranking: the places of items, the cyclic share of the mean and of draws, the most probable cycles of
/// three items, and the numbers of draws of utilities and of all pairs.
type Ranked = (Vec<Place>, f64, (f64, f64, f64), Vec<([usize; 3], f64)>, (usize, usize));

fn ranked(result: &Rankability) -> Ranked {
    let ranks = (0..result.utility.len()).map(|i| {
        let (utility, rank) = (result.utility_interval[i], result.rank_interval[i]);
        (result.utility[i], utility, result.rank[i], rank, result.best[i], result.condorcet[i])
    });
    let circles = result.triangles.iter().map(|t| (t.items, t.probability)).collect();
    let draws = (result.draws, result.cycle_draws);
    (ranks.collect(), result.cyclic_share, result.cyclic_share_interval, circles, draws)
}

/// Ranks items under the posterior of a model of duels, or under a mixture of posteriors with their weights,
/// in a context if the model has contexts. Without a number of draws there are the default numbers.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn rank_preferences(
    py: Python<'_>,
    models: Vec<(f64, Py<Expansion>)>,
    items: NamedRows<'_>,
    context: Option<Vec<f64>>,
    draws: Option<usize>,
    level: f64,
    triangles: usize,
    seed: u64,
) -> PyResult<Ranked> {
    let items = sample(items)?;
    let models = WeightedModels::with_posteriors(&models)?;
    let ranking = RankingRequest { draws, level, triangles, seed, ..RankingRequest::default() };
    let stop = ranking.stop.clone();
    let work = move || ranking.summarise_models(&models.parts(), &items, context.as_deref());
    Ok(ranked(&interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?))
}

/// A suggested duel: the left and the right item, the information in bits with its standard error, and the
/// probability that the left item wins.
type SuggestedDuel = (usize, usize, f64, f64, f64);

/// Suggests the `count` duels with the largest expected information about a goal, among candidates or all
/// pairs. Models and their context are as for `rank_preferences`.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn suggest_duels(
    py: Python<'_>,
    models: Vec<(f64, Py<Expansion>)>,
    items: NamedRows<'_>,
    context: Option<Vec<f64>>,
    goal: &str,
    count: usize,
    candidates: Option<Vec<(usize, usize)>>,
    draws: Option<usize>,
    seed: u64,
) -> PyResult<Vec<SuggestedDuel>> {
    let items = sample(items)?;
    let models = WeightedModels::with_posteriors(&models)?;
    let goal = InformationGoal::named(goal).map_err(raise)?;
    let request = SuggestionRequest { count, candidates, draws, seed, ..SuggestionRequest::new(goal) };
    let stop = request.stop.clone();
    let work = move || request.suggest(&models.parts(), &items, context.as_deref());
    let suggestions = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    let numbers = |s: &DuelSuggestion| (s.pair.0, s.pair.1, s.information, s.std_error, s.probability);
    Ok(suggestions.iter().map(numbers).collect())
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

/// The comparison of models with and without cycles: the log marginal likelihoods of the nested, the utility
/// and the generalised model, and a sentence.
type Cycles = ([f64; 3], String);
/// The comparison of a utility per user with one for all: their log marginal likelihoods, and a sentence.
type Users = ([f64; 2], String);

/// Compares models of duels: with and without cycles for items with columns, and with and without users for
/// duels with users.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn compare_preferences(
    py: Python<'_>,
    kernel: Option<&str>,
    items: NamedRows<'_>,
    input: DuelInput,
    circumstances: Circumstances<'_>,
    tune: bool,
    restarts: usize,
    seed: u64,
) -> PyResult<(Option<Cycles>, Option<Users>)> {
    let items = sample(items)?;
    let mut nested = process(kernel, "nested", &items)?;
    (nested.tune, nested.restarts, nested.seed) = (tune, restarts, seed);
    let has_columns = items.width() > 0;
    let mut of_users = nested.clone();
    // Cycles do not depend on users.
    let DuelInput { left, right, outcome, weight } = &input;
    let entries = prepare_entries(&items, (left, right), outcome, None, circumstances.names());
    let DuelEntries { table, left, right, extra_utility_kernel } = entries.map_err(raise)?;
    nested.prior.extra_utility_kernel = extra_utility_kernel;
    let plain_duels = Duels::new(table.rows(), &left, &right, outcome, weight.as_deref()).map_err(raise)?;
    let (user_items, user_duels) = circumstances.between_items(&mut of_users, items, input)?;
    let stop = nested.stop.clone();
    let work = move || -> riesz::Result<(Option<ModelEvidence>, Option<UserEvidence>)> {
        let cycles = || ModelEvidence::compare(&nested, &table, &plain_duels);
        let users =
            || UserEvidence::compare(&of_users, &user_items, &user_duels).map(|(evidence, _)| evidence);
        let cycles = if has_columns { Some(cycles()?) } else { None };
        Ok((cycles, if of_users.prior.contexts.is_some() { Some(users()?) } else { None }))
    };
    let (cycles, users) = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    let of_cycles = |e: ModelEvidence| ([e.nested, e.utility, e.generalised], e.verdict());
    let of_users = |e: UserEvidence| ([e.per_user, e.shared], e.verdict());
    Ok((cycles.map(of_cycles), users.map(of_users)))
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
    kernel: Option<&str>,
    items: NamedRows<'_>,
    input: DuelInput,
    method: &str,
    count: Option<usize>,
    max_clusters: usize,
    covariates: bool,
    starts: usize,
    threshold: f64,
    subsamples: usize,
    tune: bool,
    seed: u64,
) -> PyResult<Clustered<'py>> {
    let items = sample(items)?;
    let mut process = process(kernel, "nested", &items)?;
    (process.tune, process.seed) = (tune, seed);
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
