//! Effects across studies for Python: tables in, fitted effects out.

use std::collections::BTreeMap;
use std::sync::Arc;

use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use riesz::causal::{
    DEFAULT_DOSE_COUNT, DataSupport, Effect, Estimand, EstimandWeights, Fusion, IdentificationRoute,
    IntegralForm, MeasuredColumns, MediatorMeasure, PublishedPosterior, SingleTable, Stage, Studies, Study,
    TargetPopulation, caveats, gather, usual_combinations,
};
use riesz::explanation::Fact;
use riesz::{Column, ColumnKind, Matrix, Table};

use crate::causal::{Given, Question};
use crate::threads::{Threads, interruptible};
use crate::{Expansion, NamedRows, matrix, raise, refuse, sample};

/// A study that leads to the next: what is queried of it, how it tells what that does, by which covariates,
/// and what it shares with the next.
type Leading<'py> = (NamedRows<'py>, String, Option<NamedRows<'py>>, NamedRows<'py>);

/// An effect; see [`riesz::causal`].
#[pyclass(frozen, module = "riesz._core")]
pub struct CausalEffect {
    pub(crate) effect: Arc<Effect>,
}

/// A weight, weights of rows, a model, and rows.
type Part = (f64, Py<PyArray2<f64>>, Py<Expansion>, Py<PyArray2<f64>>);

/// Treatments that are asked about, a baseline, or of a slope the treatment and the step.
pub(crate) type Asked<'py> = (NamedRows<'py>, Option<NamedRows<'py>>, Option<(Option<String>, Option<f64>)>);

/// What is asked of an effect, as sums over treatments.
pub(crate) fn sums(effect: &Effect, (at, baseline, slope): Asked<'_>) -> PyResult<EstimandWeights> {
    let estimand = match (baseline, slope) {
        (Some(baseline), _) => Estimand::Contrast(sample(baseline)?),
        (None, Some((by, step))) => {
            Estimand::slope(effect.treatments(), by.as_deref(), step).map_err(raise)?
        }
        (None, None) => Estimand::Level,
    };
    estimand.weights_at(&sample(at)?, effect.treatments()).map_err(raise)
}

/// Means, covariance, parts of it by cause, and of each query how it stands to the studies, by name, and
/// whether these tell it.
pub(crate) type Told =
    (Vec<f64>, Py<PyArray2<f64>>, Vec<(String, Py<PyArray2<f64>>)>, Vec<(&'static str, Vec<f64>)>, Vec<bool>);

pub(crate) fn array(py: Python<'_>, m: &Matrix) -> PyResult<Py<PyArray2<f64>>> {
    Ok(matrix(m.rows(), m.cols(), m.data().to_vec())?.into_pyarray(py).unbind())
}

/// How studies stand to queries, by name.
pub(crate) fn standings(standing: &[DataSupport]) -> Vec<(&'static str, Vec<f64>)> {
    type Of = fn(&DataSupport) -> f64;
    let each: [(_, Of); 6] = [
        ("resolved_by_first", |own| own.variance_explained_by_first),
        ("resolved_by_rest", |own| own.resolved_by_rest),
        ("effective_rows", |own| own.effective_rows),
        ("mass", |own| own.weight_sum),
        ("people", |own| own.population_explained),
        ("overlap", |own| own.overlap),
    ];
    each.map(|(name, of)| (name, standing.iter().map(of).collect())).to_vec()
}

pub(crate) fn told(py: Python<'_>, told: riesz::causal::Told) -> PyResult<Told> {
    let causes = told.causes.iter().map(|(cause, part)| Ok((cause.to_string(), array(py, part)?)));
    let standing = standings(&told.standing);
    let supported = told.standing.iter().map(DataSupport::is_supported).collect();
    Ok((told.mean, array(py, &told.covariance)?, causes.collect::<PyResult<_>>()?, standing, supported))
}

impl CausalEffect {
    /// The same effect on others.
    fn on(&self, py: Python<'_>, whom: TargetPopulation) -> PyResult<Self> {
        let (effect, stop) = (Arc::clone(&self.effect), Arc::default());
        let heeded = Arc::clone(&stop);
        let found = interruptible(py, &Threads::all(), &stop, move || effect.on_population(&whom, &heeded))?;
        Ok(Self { effect: Arc::new(found.map_err(raise)?) })
    }
}

#[pymethods]
impl CausalEffect {
    /// The effect on another population, of rows of covariates that count by these numbers.
    fn population(&self, py: Python<'_>, members: NamedRows<'_>, weights: Vec<f64>) -> PyResult<Self> {
        self.on(py, TargetPopulation::members(sample(members)?, &weights).map_err(raise)?)
    }

    /// The effect on those who were treated so.
    fn treated(&self, py: Python<'_>, at: NamedRows<'_>) -> PyResult<Self> {
        self.on(py, TargetPopulation::Treated(sample(at)?))
    }

    /// The effect on those of whom some covariates are these.
    fn like(&self, py: Python<'_>, at: NamedRows<'_>) -> PyResult<Self> {
        self.on(py, TargetPopulation::Like(sample(at)?))
    }

    /// Joint draws, queries × draws.
    fn sample(
        &self,
        py: Python<'_>,
        asked: Asked<'_>,
        draws: usize,
        seed: u64,
    ) -> PyResult<Py<PyArray2<f64>>> {
        let (effect, sums) = (Arc::clone(&self.effect), sums(&self.effect, asked)?);
        let work = move || Ok(sums.rows(&effect.sample(&sums.treatments, draws, seed)?));
        array(py, &interruptible(py, &Threads::all(), &Arc::default(), work)?.map_err(raise)?)
    }

    /// By weight the models that this is a mixture of, with what is besides their means.
    fn parts(&self, py: Python<'_>) -> PyResult<Vec<(f64, Py<Expansion>)>> {
        let effect = Arc::clone(&self.effect);
        let found = interruptible(py, &Threads::all(), &Arc::default(), move || effect.posteriors())?;
        let each = found.map_err(raise)?.into_iter().map(|(weight, model, covariance)| {
            let covariance = Some(Arc::new(covariance));
            Ok((weight, Py::new(py, Expansion { model: Arc::new(model), covariance, groups: None })?))
        });
        each.collect()
    }

    /// The share of the variance of queries, all together, that one more row of a study would take away, for
    /// each of such rows.
    fn worth(
        &self,
        py: Python<'_>,
        asked: Asked<'_>,
        study: usize,
        rows: NamedRows<'_>,
    ) -> PyResult<Vec<f64>> {
        let (effect, sums, rows) = (Arc::clone(&self.effect), sums(&self.effect, asked)?, sample(rows)?);
        let work = move || effect.share_taken(&sums, study, &rows);
        interruptible(py, &Threads::all(), &Arc::default(), work)?.map_err(raise)
    }

    /// By weight what is asked as sums over mediators: weights (queries × rows), the outcome as a model of
    /// these, and the rows that they have.
    fn through(&self, py: Python<'_>, asked: Asked<'_>) -> PyResult<Vec<Part>> {
        let (effect, sums) = (Arc::clone(&self.effect), sums(&self.effect, asked)?);
        let x = sums.treatments.clone();
        let found = interruptible(py, &Threads::all(), &Arc::default(), move || effect.as_mediator_sums(&x))?;
        let each = found.map_err(raise)?.into_iter().map(|(weight, own)| {
            let rows = Matrix::from_row_major(
                own.mediators.rows(),
                own.mediators.width(),
                (0..own.mediators.rows()).flat_map(|i| own.mediators.row(i)).collect(),
            );
            let model = Expansion { model: Arc::new(own.outcome), covariance: None, groups: None };
            Ok((weight, array(py, &sums.rows(&own.weights))?, Py::new(py, model)?, array(py, &rows)?))
        });
        each.collect()
    }

    /// As many draws of the hyper-parameters' posterior itself would say as much as those that it averages
    /// over.
    #[getter]
    fn effective_draws(&self) -> f64 {
        self.effect.effective_draws()
    }

    /// What is asked of the effect.
    fn at(&self, py: Python<'_>, asked: Asked<'_>) -> PyResult<Told> {
        let (effect, sums) = (Arc::clone(&self.effect), sums(&self.effect, asked)?);
        let work = move || Ok(sums.estimate(&effect.at(&sums.treatments)?));
        told(py, interruptible(py, &Threads::all(), &Arc::default(), work)?.map_err(raise)?)
    }

    /// The same by a published posterior: over landmarks or by integrals, with a normal measure of that mass
    /// or that of rows.
    fn published(
        &self,
        py: Python<'_>,
        asked: Asked<'_>,
        integrals: bool,
        mass: Option<f64>,
        jitter: f64,
    ) -> PyResult<Told> {
        let (effect, sums) = (Arc::clone(&self.effect), sums(&self.effect, asked)?);
        let form = if integrals { IntegralForm::Integrals } else { IntegralForm::Landmarks };
        let measure = mass.map_or(MediatorMeasure::Rows, |mass| MediatorMeasure::Normal { mass });
        let how = PublishedPosterior { form, measure, jitter };
        let work = move || Ok(sums.estimate(&effect.published(&how, &sums.treatments)?));
        told(py, interruptible(py, &Threads::all(), &Arc::default(), work)?.map_err(raise)?)
    }
}

/// Rows with what their columns hold, for Python.
type Told3 = (Vec<String>, Vec<Option<Vec<String>>>, Py<PyArray2<f64>>);

fn rows(py: Python<'_>, table: &Table) -> PyResult<Told3> {
    let names = table.columns().iter().map(|column| column.name.clone()).collect();
    let levels = table.columns().iter().map(|column| match &column.kind {
        ColumnKind::Categorical { levels } => Some(levels.clone()),
        ColumnKind::Numeric => None,
    });
    let numbers = (0..table.rows()).flat_map(|i| table.row(i)).collect();
    let numbers = matrix(table.rows(), table.width(), numbers)?.into_pyarray(py).unbind();
    Ok((names, levels.collect(), numbers))
}

/// Studies from what Python has of them.
fn studies(
    leading: Vec<Leading<'_>>,
    points: NamedRows<'_>,
    outcome: Vec<f64>,
    shared: Option<NamedRows<'_>>,
) -> PyResult<Studies> {
    let study = |(treatments, how, others, mediators): Leading<'_>| {
        let others = others.map(sample).transpose()?;
        let route = match (&how[..], others) {
            ("direct", None) => IdentificationRoute::Direct,
            ("back-door", Some(others)) => IdentificationRoute::BackDoor(others),
            ("front-door", Some(others)) => IdentificationRoute::FrontDoor(others),
            (how, others) => return Err(refuse(format!("{how} with covariates: {}", others.is_some()))),
        };
        Ok::<_, PyErr>(Study {
            treatments: sample(treatments)?,
            route,
            mediators: sample(mediators)?,
            shared: None,
        })
    };
    let mut studies = leading.into_iter().map(study).collect::<PyResult<Vec<_>>>()?;
    // By the study that leads to the last.
    if let (Some(last), Some(shared)) = (studies.last_mut(), shared) {
        last.shared = Some(sample(shared)?);
    }
    Ok(Studies { studies, points: sample(points)?, outcome })
}

/// A stage of an effect from one table: the names of its history, treatments and averaged columns.
type StageNames = (Vec<String>, Vec<String>, Vec<String>);

/// The stages of an effect from one table; none of an effect across studies.
#[pyfunction]
pub fn effect_stages(graph: Option<Given>, query: &str) -> PyResult<Vec<StageNames>> {
    let found = Question::new(graph, query)?.found;
    let stages = if found.is_single_table() { found.stages() } else { Vec::new() };
    Ok(stages.into_iter().map(|own| (own.history, own.treatments, own.averaged)).collect())
}

/// Learns an effect from studies; `shared` are covariates that the last two share. From one table, which
/// `points` then are, it takes `single`: its stages, and the names of all treatments.
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
    let fusion = Fusion { draws, seed, landmarks, ..Fusion::default() };
    let stop = Arc::clone(&fusion.stop);
    let effect = match single {
        Some((stages, treatments)) => {
            let stage = |(history, treatments, averaged)| Stage { history, treatments, averaged };
            let stages = stages.into_iter().map(stage).collect();
            let table = SingleTable { stages, treatments, rows: sample(points)?, outcome };
            interruptible(py, &Threads::all(), &stop, move || fusion.fit_table(&table))?
        }
        None => {
            let given = studies(leading, points, outcome, shared)?;
            interruptible(py, &Threads::all(), &stop, move || fusion.fit(&given))?
        }
    };
    let effect = effect.map_err(raise)?;
    Ok(CausalEffect { effect: Arc::new(effect) })
}

/// A column of a study: its name, its levels if it is categorical, and numbers or codes, of which NaN is
/// missing.
type OwnColumn = (String, Option<Vec<String>>, Vec<f64>);

/// A study that leads to the next, for Python.
type Led = (Told3, &'static str, Option<Told3>, Told3);

/// What [`fuse`] takes but draws and seed, the shares of rows that are not matched, by mediator, and what a
/// reader should know.
type Gathered = (Vec<Led>, Told3, Vec<f64>, Option<Told3>, BTreeMap<String, f64>, Vec<String>);

/// The columns that an effect needs of each study.
#[pyfunction]
pub fn needed_columns(graph: Option<Given>, query: &str) -> PyResult<Vec<Vec<String>>> {
    Question::new(graph, query)?.found.needed().map_err(raise)
}

/// Studies from their tables, as [`fuse`] takes them, and what they leave in doubt.
#[pyfunction]
pub fn gather_studies(
    py: Python<'_>,
    graph: Option<Given>,
    query: &str,
    tables: Vec<Vec<OwnColumn>>,
) -> PyResult<Gathered> {
    let column = |(name, levels, values): OwnColumn| {
        let kind = levels.map_or(ColumnKind::Numeric, |levels| ColumnKind::Categorical { levels });
        (Column { name, kind }, values)
    };
    let tables: Vec<MeasuredColumns> = tables
        .into_iter()
        .map(|own| MeasuredColumns { columns: own.into_iter().map(column).collect() })
        .collect();
    let found = Question::new(graph, query)?.found;
    let gathered = py.detach(|| gather(&found, &tables)).map_err(raise)?;
    let studies = &gathered.studies;
    let lead = |study: &Study| {
        let (how, others) = match &study.route {
            IdentificationRoute::Direct => ("direct", None),
            IdentificationRoute::BackDoor(others) => ("back-door", Some(others)),
            IdentificationRoute::FrontDoor(others) => ("front-door", Some(others)),
        };
        let others = others.map(|own| rows(py, own)).transpose()?;
        Ok((rows(py, &study.treatments)?, how, others, rows(py, &study.mediators)?))
    };
    let leading = studies.studies.iter().map(lead).collect::<PyResult<_>>()?;
    let shared = studies.studies.last().and_then(|study| study.shared.as_ref());
    let shared = shared.map(|own| rows(py, own)).transpose()?;
    let doubts = gathered.doubts.iter().map(ToString::to_string).collect();
    Ok((leading, rows(py, &studies.points)?, studies.outcome.clone(), shared, gathered.unmatched, doubts))
}

/// What a learnt effect leaves in doubt beside its studies.
#[pyfunction]
pub fn effect_doubts(
    graph: Option<Given>,
    query: &str,
    effect: &CausalEffect,
    draws: usize,
) -> PyResult<Vec<String>> {
    let found = Question::new(graph, query)?.found;
    Ok(caveats(&found, &effect.effect, draws).iter().map(ToString::to_string).collect())
}

/// Treatments to show an effect at.
#[pyfunction]
#[pyo3(signature = (treatments, count=DEFAULT_DOSE_COUNT))]
pub fn usual_doses(py: Python<'_>, treatments: NamedRows<'_>, count: usize) -> PyResult<Told3> {
    let treatments = sample(treatments)?;
    let usual = match treatments.width() {
        1 => riesz::causal::default_doses(&treatments, count),
        _ => usual_combinations(&treatments),
    };
    rows(py, &usual.map_err(raise)?)
}

/// What a page is about: the question, and the studies as [`fuse`] takes them.
type About<'py> =
    (Option<Given>, String, Vec<Leading<'py>>, NamedRows<'py>, Vec<f64>, Option<NamedRows<'py>>);

/// What a page says of how the effect came about: of whom it is, shares of rows that are not matched, doubts,
/// and facts.
type Says = (String, BTreeMap<String, f64>, Vec<String>, Vec<(String, String)>);

/// The page of an effect, which `effect` is on whom is asked for.
#[pyfunction]
#[pyo3(signature = (about, effect, at, says, level, baseline=None))]
pub fn effect_page(
    py: Python<'_>,
    about: About<'_>,
    effect: &CausalEffect,
    at: NamedRows<'_>,
    says: Says,
    level: f64,
    baseline: Option<NamedRows<'_>>,
) -> PyResult<String> {
    let (graph, query, leading, points, outcome, shared) = about;
    let Question { graph, found } = Question::new(graph, &query)?;
    let given = studies(leading, points, outcome, shared)?;
    let at = sample(at)?;
    let estimand = baseline.map_or(Ok(Estimand::Level), |own| sample(own).map(Estimand::Contrast))?;
    let (whom, unmatched, doubts, facts) = says;
    let run: Vec<Fact> = facts.into_iter().map(|(name, value)| Fact::new(name, value)).collect();
    let effect = Arc::clone(&effect.effect);
    let work = move || -> riesz::Result<String> {
        let pointwise = effect.pointwise(&at, &estimand)?;
        riesz_report::effect_report(&riesz_report::EffectPage {
            found: &found,
            graph: graph.as_ref(),
            studies: &given,
            at: &at,
            estimand: &estimand,
            effect: &pointwise,
            whom: &whom,
            level,
            unmatched: &unmatched,
            doubts: &doubts,
            run: &run,
        })
    };
    interruptible(py, &Threads::all(), &Arc::default(), work)?.map_err(raise)
}
