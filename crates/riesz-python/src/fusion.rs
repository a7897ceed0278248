//! Causal effects across studies for Python: fits effects to tables of studies, and evaluates queries.

use std::collections::BTreeMap;
use std::sync::Arc;

use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use riesz::causal::{
    CausalFusion, DEFAULT_DOSE_COUNT, DataSupport, Effect, Estimand, EstimandWeights, IdentificationRoute,
    IntegralForm, MeasuredColumns, MediatorMeasure, PublishedPosterior, SingleTable, Stage, Studies, Study,
    TargetPopulation, caveats, gather, usual_combinations,
};
use riesz::model_card::CardEntry;
use riesz::{Column, ColumnKind, Matrix, Table};

use crate::causal::{GraphInput, Question};
use crate::thread_pools::{Threads, interruptible};
use crate::{Expansion, NamedRows, matrix, raise, refuse, sample};

/// A study that leads to the next one: its treatments, the route of identification, the covariates of this
/// route, and the mediators that it shares with the next study.
type Leading<'py> = (NamedRows<'py>, String, Option<NamedRows<'py>>, NamedRows<'py>);

/// A fitted effect; see [`riesz::causal`].
#[pyclass(frozen, module = "riesz._core")]
pub struct CausalEffect {
    pub(crate) effect: Arc<Effect>,
}

/// A component of a mixture: its weight, weights (queries × rows), the outcome model, and rows of mediators.
type Part = (f64, Py<PyArray2<f64>>, Py<Expansion>, Py<PyArray2<f64>>);

/// A query: its treatments; a baseline for a contrast; or for a slope the treatment and the step.
pub(crate) type EffectQuery<'py> =
    (NamedRows<'py>, Option<NamedRows<'py>>, Option<(Option<String>, Option<f64>)>);

/// The requested estimand as weighted sums over treatments.
pub(crate) fn sums(effect: &Effect, (at, baseline, slope): EffectQuery<'_>) -> PyResult<EstimandWeights> {
    let estimand = match (baseline, slope) {
        (Some(baseline), _) => Estimand::Contrast(sample(baseline)?),
        (None, Some((treatment, step))) => {
            Estimand::slope(effect.treatments(), treatment.as_deref(), step).map_err(raise)?
        }
        (None, None) => Estimand::Level,
    };
    estimand.weights_at(&sample(at)?, effect.treatments()).map_err(raise)
}

/// An estimate: means, covariance, the parts of the covariance by cause, the measures of data support by
/// name, and whether the studies support each query.
pub(crate) type EstimateParts =
    (Vec<f64>, Py<PyArray2<f64>>, Vec<(String, Py<PyArray2<f64>>)>, Vec<(&'static str, Vec<f64>)>, Vec<bool>);

pub(crate) fn array(py: Python<'_>, m: Matrix) -> PyResult<Py<PyArray2<f64>>> {
    Ok(matrix(m.rows(), m.cols(), m.into_data())?.into_pyarray(py).unbind())
}

/// The measures of data support of the queries, by name.
pub(crate) fn support_measures(support: &[DataSupport]) -> Vec<(&'static str, Vec<f64>)> {
    type ReadSupport = fn(&DataSupport) -> f64;
    let entries: [(_, ReadSupport); 6] = [
        ("resolved_by_first", |row| row.variance_explained_by_first),
        ("resolved_by_rest", |row| row.resolved_by_rest),
        ("effective_rows", |row| row.effective_rows),
        ("mass", |row| row.weight_sum),
        ("people", |row| row.population_explained),
        ("overlap", |row| row.overlap),
    ];
    entries.map(|(name, read)| (name, support.iter().map(read).collect())).to_vec()
}

pub(crate) fn estimate_parts(
    py: Python<'_>,
    estimate: riesz::causal::EffectEstimate,
) -> PyResult<EstimateParts> {
    let causes = estimate.causes.into_iter().map(|(cause, part)| Ok((cause.to_string(), array(py, part)?)));
    let support = support_measures(&estimate.support);
    let supported = estimate.support.iter().map(DataSupport::is_supported).collect();
    Ok((estimate.mean, array(py, estimate.covariance)?, causes.collect::<PyResult<_>>()?, support, supported))
}

impl CausalEffect {
    /// The effect on another population.
    fn on_population(&self, py: Python<'_>, population: TargetPopulation) -> PyResult<Self> {
        let (effect, stop) = (Arc::clone(&self.effect), Arc::default());
        let worker_stop = Arc::clone(&stop);
        let effect = interruptible(py, &Threads::per_core(), &stop, move || {
            effect.on_population(&population, &worker_stop)
        })?;
        Ok(Self { effect: Arc::new(effect.map_err(raise)?) })
    }
}

#[pymethods]
impl CausalEffect {
    /// The effect on another population, given by rows of covariates and their weights.
    fn population(&self, py: Python<'_>, members: NamedRows<'_>, weights: Vec<f64>) -> PyResult<Self> {
        self.on_population(py, TargetPopulation::members(sample(members)?, &weights).map_err(raise)?)
    }

    /// The effect on the people with the given treatments.
    fn treated(&self, py: Python<'_>, treatments: NamedRows<'_>) -> PyResult<Self> {
        self.on_population(py, TargetPopulation::Treated(sample(treatments)?))
    }

    /// The effect on the people with the given values of some covariates.
    fn like(&self, py: Python<'_>, covariates: NamedRows<'_>) -> PyResult<Self> {
        self.on_population(py, TargetPopulation::ConditionalOn(sample(covariates)?))
    }

    /// Joint posterior draws of the effect, queries × draws.
    fn sample(
        &self,
        py: Python<'_>,
        query: EffectQuery<'_>,
        draws: usize,
        seed: u64,
    ) -> PyResult<Py<PyArray2<f64>>> {
        let (effect, sums) = (Arc::clone(&self.effect), sums(&self.effect, query)?);
        let work = move || Ok(sums.rows(&effect.sample(&sums.treatments, draws, seed)?));
        array(py, interruptible(py, &Threads::per_core(), &Arc::default(), work)?.map_err(raise)?)
    }

    /// The components of the mixture that this effect is: weights, and models with their posterior
    /// covariances.
    fn parts(&self, py: Python<'_>) -> PyResult<Vec<(f64, Py<Expansion>)>> {
        let effect = Arc::clone(&self.effect);
        let posteriors =
            interruptible(py, &Threads::per_core(), &Arc::default(), move || effect.posteriors())?;
        let entries = posteriors.map_err(raise)?.into_iter().map(|(weight, model, covariance)| {
            let covariance = Some(Arc::new(covariance));
            Ok((weight, Py::new(py, Expansion { model: Arc::new(model), covariance, groups: None })?))
        });
        entries.collect()
    }

    /// The share of the total variance of the queries that each of `rows` would remove as a further row of a
    /// study.
    fn variance_reduction(
        &self,
        py: Python<'_>,
        query: EffectQuery<'_>,
        study: usize,
        rows: NamedRows<'_>,
    ) -> PyResult<Vec<f64>> {
        let (effect, sums, rows) = (Arc::clone(&self.effect), sums(&self.effect, query)?, sample(rows)?);
        let work = move || effect.share_taken(&sums, study, &rows);
        interruptible(py, &Threads::per_core(), &Arc::default(), work)?.map_err(raise)
    }

    /// The query as weighted sums of the outcome model over rows of mediators, for each set of
    /// hyper-parameters.
    fn mediator_sums(&self, py: Python<'_>, query: EffectQuery<'_>) -> PyResult<Vec<Part>> {
        let (effect, sums) = (Arc::clone(&self.effect), sums(&self.effect, query)?);
        let x = sums.treatments.clone();
        let mixture =
            interruptible(py, &Threads::per_core(), &Arc::default(), move || effect.as_mediator_sums(&x))?;
        let entries = mixture.map_err(raise)?.into_iter().map(|(weight, sums_of_part)| {
            let rows = Matrix::from_row_major(
                sums_of_part.mediators.rows(),
                sums_of_part.mediators.width(),
                (0..sums_of_part.mediators.rows()).flat_map(|i| sums_of_part.mediators.row(i)).collect(),
            );
            let model = Expansion { model: Arc::new(sums_of_part.outcome), covariance: None, groups: None };
            Ok((weight, array(py, sums.rows(&sums_of_part.weights))?, Py::new(py, model)?, array(py, rows)?))
        });
        entries.collect()
    }

    /// The effective sample size of the averaged draws of hyper-parameters.
    #[getter]
    fn effective_draws(&self) -> f64 {
        self.effect.effective_draws()
    }

    /// The estimate for a query.
    fn estimate(&self, py: Python<'_>, query: EffectQuery<'_>) -> PyResult<EstimateParts> {
        let (effect, sums) = (Arc::clone(&self.effect), sums(&self.effect, query)?);
        let work = move || Ok(sums.estimate(effect.evaluate(&sums.treatments)?));
        estimate_parts(py, interruptible(py, &Threads::per_core(), &Arc::default(), work)?.map_err(raise)?)
    }

    /// The estimate by a published posterior, over landmarks or with integrals. The measure of mediators is
    /// normal with total mass `mass`, or the empirical measure of the rows if `mass` is `None`.
    fn published(
        &self,
        py: Python<'_>,
        query: EffectQuery<'_>,
        integrals: bool,
        mass: Option<f64>,
        jitter: f64,
    ) -> PyResult<EstimateParts> {
        let (effect, sums) = (Arc::clone(&self.effect), sums(&self.effect, query)?);
        let form = if integrals { IntegralForm::Integrals } else { IntegralForm::Landmarks };
        let measure = mass.map_or(MediatorMeasure::Rows, |mass| MediatorMeasure::Normal { mass });
        let posterior = PublishedPosterior { form, measure, jitter };
        let work = move || Ok(sums.estimate(effect.published(&posterior, &sums.treatments)?));
        estimate_parts(py, interruptible(py, &Threads::per_core(), &Arc::default(), work)?.map_err(raise)?)
    }
}

/// A table for Python: the names of columns, their levels, and the rows (rows × columns).
type PyRows = (Vec<String>, Vec<Option<Vec<String>>>, Py<PyArray2<f64>>);

fn rows(py: Python<'_>, table: &Table) -> PyResult<PyRows> {
    let names = table.columns().iter().map(|column| column.name.clone()).collect();
    let levels = table.columns().iter().map(|column| match &column.kind {
        ColumnKind::Categorical { levels } => Some(levels.clone()),
        ColumnKind::Numeric => None,
    });
    let numbers = (0..table.rows()).flat_map(|i| table.row(i)).collect();
    let numbers = matrix(table.rows(), table.width(), numbers)?.into_pyarray(py).unbind();
    Ok((names, levels.collect(), numbers))
}

/// Converts the studies that Python passes.
fn studies(
    leading: Vec<Leading<'_>>,
    points: NamedRows<'_>,
    outcome: Vec<f64>,
    shared: Option<NamedRows<'_>>,
) -> PyResult<Studies> {
    let study = |(treatments, route_name, covariates, mediators): Leading<'_>| {
        let covariates = covariates.map(sample).transpose()?;
        let route = match (&route_name[..], covariates) {
            ("direct", None) => IdentificationRoute::Direct,
            ("back-door", Some(table)) => IdentificationRoute::BackDoor(table),
            ("front-door", Some(table)) => IdentificationRoute::FrontDoor(table),
            (name, table) => return Err(refuse(format!("{name} with covariates: {}", table.is_some()))),
        };
        Ok::<_, PyErr>(Study {
            treatments: sample(treatments)?,
            route,
            mediators: sample(mediators)?,
            shared: None,
        })
    };
    let mut studies = leading.into_iter().map(study).collect::<PyResult<Vec<_>>>()?;
    // The shared covariates belong to the study that leads to the last one.
    if let (Some(final_study), Some(shared)) = (studies.last_mut(), shared) {
        final_study.shared = Some(sample(shared)?);
    }
    Ok(Studies { studies, points: sample(points)?, outcome })
}

/// A stage of an effect from one table: the names of its history, treatments and averaged columns.
type StageNames = (Vec<String>, Vec<String>, Vec<String>);

/// The stages of an effect from one table; empty for an effect across studies.
#[pyfunction]
pub fn effect_stages(graph: Option<GraphInput>, query: &str) -> PyResult<Vec<StageNames>> {
    let identification = Question::new(graph, query)?.identification;
    let stages = if identification.is_single_table() { identification.stages() } else { Vec::new() };
    Ok(stages.into_iter().map(|stage| (stage.history, stage.treatments, stage.averaged)).collect())
}

/// Fits an effect to studies, or to one table. `shared` are the covariates that the last two studies share.
/// For one table, `points` are its rows, and `single` has its stages and the names of all treatments.
#[pyfunction]
#[pyo3(signature = (leading, points, outcome, draws, seed, shared=None, landmarks=None, single=None))]
#[allow(clippy::too_many_arguments, reason = "called with what a fit in Python keeps")]
pub fn fuse(
    py: Python<'_>,
    leading: Vec<Leading<'_>>,
    points: NamedRows<'_>,
    outcome: Vec<f64>,
    draws: usize,
    seed: u64,
    shared: Option<NamedRows<'_>>,
    landmarks: Option<usize>,
    single: Option<(Vec<StageNames>, Vec<String>)>,
) -> PyResult<CausalEffect> {
    let fusion = CausalFusion { draws, seed, landmarks, ..CausalFusion::default() };
    let stop = Arc::clone(&fusion.stop);
    let effect = match single {
        Some((stages, treatments)) => {
            let stage = |(history, treatments, averaged)| Stage { history, treatments, averaged };
            let stages = stages.into_iter().map(stage).collect();
            let table = SingleTable { stages, treatments, rows: sample(points)?, outcome };
            interruptible(py, &Threads::per_core(), &stop, move || fusion.fit_table(&table))?
        }
        None => {
            let gathered = studies(leading, points, outcome, shared)?;
            interruptible(py, &Threads::per_core(), &stop, move || fusion.fit(&gathered))?
        }
    };
    let effect = effect.map_err(raise)?;
    Ok(CausalEffect { effect: Arc::new(effect) })
}

/// A column of a study: its name, its levels if it is categorical, and its numbers or codes, with NaN for
/// missing ones.
type StudyColumn = (String, Option<Vec<String>>, Vec<f64>);

/// A study that leads to the next one, see [`Leading`], for Python.
type PyStudy = (PyRows, &'static str, Option<PyRows>, PyRows);

/// Studies for Python: the arguments of [`fuse`] that describe them, the shares of unmatched rows by
/// mediator, and caveats.
type PyStudies = (Vec<PyStudy>, PyRows, Vec<f64>, Option<PyRows>, BTreeMap<String, f64>, Vec<String>);

/// The names of the columns of each study that an effect needs.
#[pyfunction]
pub fn needed_columns(graph: Option<GraphInput>, query: &str) -> PyResult<Vec<Vec<String>>> {
    Question::new(graph, query)?.identification.needed().map_err(raise)
}

/// Gathers studies from their tables, in the form that [`fuse`] takes, with their caveats.
#[pyfunction]
pub fn gather_studies(
    py: Python<'_>,
    graph: Option<GraphInput>,
    query: &str,
    tables: Vec<Vec<StudyColumn>>,
) -> PyResult<PyStudies> {
    let column = |(name, levels, values): StudyColumn| {
        let kind = levels.map_or(ColumnKind::Numeric, |levels| ColumnKind::Categorical { levels });
        (Column { name, kind }, values)
    };
    let tables: Vec<MeasuredColumns> = tables
        .into_iter()
        .map(|columns| MeasuredColumns { columns: columns.into_iter().map(column).collect() })
        .collect();
    let identification = Question::new(graph, query)?.identification;
    let gathered = py.detach(|| gather(&identification, &tables)).map_err(raise)?;
    let studies = &gathered.studies;
    let leading_study = |study: &Study| {
        let (route_name, covariates) = match &study.route {
            IdentificationRoute::Direct => ("direct", None),
            IdentificationRoute::BackDoor(table) => ("back-door", Some(table)),
            IdentificationRoute::FrontDoor(table) => ("front-door", Some(table)),
        };
        let covariates = covariates.map(|table| rows(py, table)).transpose()?;
        Ok((rows(py, &study.treatments)?, route_name, covariates, rows(py, &study.mediators)?))
    };
    let leading = studies.studies.iter().map(leading_study).collect::<PyResult<_>>()?;
    let shared = studies.studies.last().and_then(|study| study.shared.as_ref());
    let shared = shared.map(|table| rows(py, table)).transpose()?;
    let caveats = gathered.caveats.iter().map(ToString::to_string).collect();
    Ok((leading, rows(py, &studies.points)?, studies.outcome.clone(), shared, gathered.unmatched, caveats))
}

/// The caveats of an estimated effect, without the caveats of its studies.
#[pyfunction]
pub fn effect_caveats(
    graph: Option<GraphInput>,
    query: &str,
    effect: &CausalEffect,
    draws: usize,
) -> PyResult<Vec<String>> {
    let identification = Question::new(graph, query)?.identification;
    Ok(caveats(&identification, &effect.effect, draws).iter().map(ToString::to_string).collect())
}

/// The default treatments at which an effect is shown.
#[pyfunction]
#[pyo3(signature = (treatments, count=DEFAULT_DOSE_COUNT))]
pub fn usual_doses(py: Python<'_>, treatments: NamedRows<'_>, count: usize) -> PyResult<PyRows> {
    let treatments = sample(treatments)?;
    let doses = match treatments.width() {
        1 => riesz::causal::default_doses(&treatments, count),
        _ => usual_combinations(&treatments),
    };
    rows(py, &doses.map_err(raise)?)
}

/// The subject of a page: graph and query, and the studies in the form that [`fuse`] takes.
type About<'py> =
    (Option<GraphInput>, String, Vec<Leading<'py>>, NamedRows<'py>, Vec<f64>, Option<NamedRows<'py>>);

/// The provenance on a page: the population, the shares of unmatched rows, the caveats, and further entries.
type PageProvenance = (String, BTreeMap<String, f64>, Vec<String>, Vec<(String, String)>);

/// The HTML page of an effect on the population of `effect`.
#[pyfunction]
#[pyo3(signature = (about, effect, treatments, provenance, level, baseline=None))]
pub fn effect_page(
    py: Python<'_>,
    about: About<'_>,
    effect: &CausalEffect,
    treatments: NamedRows<'_>,
    provenance: PageProvenance,
    level: f64,
    baseline: Option<NamedRows<'_>>,
) -> PyResult<String> {
    let (graph, query, leading, points, outcome, shared) = about;
    let Question { graph, identification } = Question::new(graph, &query)?;
    let studies = studies(leading, points, outcome, shared)?;
    let points = sample(treatments)?;
    let estimand = baseline.map_or(Ok(Estimand::Level), |rows| sample(rows).map(Estimand::Contrast))?;
    let (population, unmatched, caveats, facts) = provenance;
    let run: Vec<CardEntry> = facts.into_iter().map(|(name, value)| CardEntry::new(name, value)).collect();
    let effect = Arc::clone(&effect.effect);
    let work = move || -> riesz::Result<String> {
        let pointwise = effect.pointwise(&points, &estimand)?;
        riesz_report::effect_report(&riesz_report::EffectPage {
            identification: &identification,
            graph: graph.as_ref(),
            studies: &studies,
            treatments: &points,
            estimand: &estimand,
            effect: &pointwise,
            population: &population,
            level,
            unmatched: &unmatched,
            doubts: &caveats,
            run: &run,
        })
    };
    interruptible(py, &Threads::per_core(), &Arc::default(), work)?.map_err(raise)
}
