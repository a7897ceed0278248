//! Effects across studies for Python: tables in, fitted effects out.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray2};
use pyo3::prelude::*;
use riesz::Matrix;
use riesz::causal::{Cause, Effect, Form, Fusion, Measure, Published, Route, Standing, Studies, Study, Whom};

use crate::threads::{Threads, interruptible};
use crate::{Expansion, NamedRows, matrix, raise, refuse, sample};

/// A study that leads to the next: what is queried of it, how it tells what that does, by which covariates, and what it shares with the next.
type Leading<'py> = (NamedRows<'py>, String, Option<NamedRows<'py>>, NamedRows<'py>);

/// An effect; see [`riesz::causal`].
#[pyclass(frozen, module = "riesz._core")]
pub struct CausalEffect {
    pub(crate) effect: Arc<Effect>,
}

/// A weight, weights of rows, a model, and rows.
type Part = (f64, Py<PyArray2<f64>>, Py<Expansion>, Py<PyArray2<f64>>);

/// Means, covariance, parts of it by cause, and of each query how it stands to the studies, by name, and whether these tell it.
type Told =
    (Vec<f64>, Py<PyArray2<f64>>, Vec<(String, Py<PyArray2<f64>>)>, Vec<(&'static str, Vec<f64>)>, Vec<bool>);

pub(crate) fn array(py: Python<'_>, m: &Matrix) -> PyResult<Py<PyArray2<f64>>> {
    Ok(matrix(m.rows(), m.cols(), m.data().to_vec())?.into_pyarray(py).unbind())
}

fn named(cause: Cause) -> String {
    match cause {
        Cause::Study(number) => format!("study {}", number + 1),
        Cause::Interaction => "interaction".into(),
        Cause::Adjustment => "adjustment".into(),
        Cause::Hyperparameters => "hyper-parameters".into(),
    }
}

/// How studies stand to queries, by name.
pub(crate) fn standings(standing: &[Standing]) -> Vec<(&'static str, Vec<f64>)> {
    type Of = fn(&Standing) -> f64;
    let each: [(_, Of); 6] = [
        ("resolved_by_first", |own| own.resolved_by_first),
        ("resolved_by_rest", |own| own.resolved_by_rest),
        ("effective_rows", |own| own.effective_rows),
        ("mass", |own| own.mass),
        ("people", |own| own.people),
        ("overlap", |own| own.overlap),
    ];
    each.map(|(name, of)| (name, standing.iter().map(of).collect())).to_vec()
}

fn told(py: Python<'_>, told: riesz::causal::Told) -> PyResult<Told> {
    let causes = told.causes.iter().map(|(cause, part)| Ok((named(*cause), array(py, part)?)));
    let standing = standings(&told.standing);
    let supported = told.standing.iter().map(Standing::supported).collect();
    Ok((told.mean, array(py, &told.covariance)?, causes.collect::<PyResult<_>>()?, standing, supported))
}

impl CausalEffect {
    /// The same effect on others.
    fn on(&self, py: Python<'_>, whom: Whom) -> PyResult<Self> {
        let (effect, stop) = (Arc::clone(&self.effect), Arc::default());
        let heeded = Arc::clone(&stop);
        let found = interruptible(py, &Threads::all(), &stop, move || effect.of(&whom, &heeded))?;
        Ok(Self { effect: Arc::new(found.map_err(raise)?) })
    }
}

#[pymethods]
impl CausalEffect {
    /// The effect on another population, of rows of covariates and weights that add up to 1.
    fn population(&self, py: Python<'_>, members: NamedRows<'_>, weights: Vec<f64>) -> PyResult<Self> {
        self.on(py, Whom::Population(sample(members)?, weights))
    }

    /// The effect on those who were treated so.
    fn treated(&self, py: Python<'_>, at: NamedRows<'_>) -> PyResult<Self> {
        self.on(py, Whom::Treated(sample(at)?))
    }

    /// The effect on those of whom some covariates are these.
    fn like(&self, py: Python<'_>, at: NamedRows<'_>) -> PyResult<Self> {
        self.on(py, Whom::Like(sample(at)?))
    }

    /// Joint draws, treatments × draws.
    fn sample(
        &self,
        py: Python<'_>,
        treatments: NamedRows<'_>,
        draws: usize,
        seed: u64,
    ) -> PyResult<Py<PyArray2<f64>>> {
        let (effect, x) = (Arc::clone(&self.effect), sample(treatments)?);
        let work = move || effect.sample(&x, draws, seed);
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

    /// How much of the variance of sums of effects one more row of a study would take away, for each of such rows.
    fn worth(
        &self,
        py: Python<'_>,
        treatments: NamedRows<'_>,
        by: Vec<f64>,
        study: usize,
        rows: NamedRows<'_>,
    ) -> PyResult<Vec<f64>> {
        let (effect, x, rows) = (Arc::clone(&self.effect), sample(treatments)?, sample(rows)?);
        let work = move || effect.worth(&x, &by, study, &rows);
        interruptible(py, &Threads::all(), &Arc::default(), work)?.map_err(raise)
    }

    /// By weight the effect at treatments as sums over mediators: weights (treatments × rows), the outcome as a model of these, and the rows that they have.
    fn through(&self, py: Python<'_>, treatments: NamedRows<'_>) -> PyResult<Vec<Part>> {
        let (effect, x) = (Arc::clone(&self.effect), sample(treatments)?);
        let found = interruptible(py, &Threads::all(), &Arc::default(), move || effect.through(&x))?;
        let each = found.map_err(raise)?.into_iter().map(|(weight, own)| {
            let rows = Matrix::from_row_major(
                own.mediators.rows(),
                own.mediators.width(),
                (0..own.mediators.rows()).flat_map(|i| own.mediators.row(i)).collect(),
            );
            let model = Expansion { model: Arc::new(own.outcome), covariance: None, groups: None };
            Ok((weight, array(py, &own.weights)?, Py::new(py, model)?, array(py, &rows)?))
        });
        each.collect()
    }

    /// As many draws of the hyper-parameters' posterior itself would say as much as those that it averages over.
    #[getter]
    fn effective_draws(&self) -> f64 {
        self.effect.effective_draws()
    }

    /// The effect at treatments.
    fn at(&self, py: Python<'_>, treatments: NamedRows<'_>) -> PyResult<Told> {
        let (effect, x) = (Arc::clone(&self.effect), sample(treatments)?);
        let found = interruptible(py, &Threads::all(), &Arc::default(), move || effect.at(&x))?;
        told(py, found.map_err(raise)?)
    }

    /// The effect at treatments by a published posterior: over landmarks or by integrals, with a normal measure of that mass or that of rows.
    fn published(
        &self,
        py: Python<'_>,
        treatments: NamedRows<'_>,
        integrals: bool,
        mass: Option<f64>,
        jitter: f64,
    ) -> PyResult<Told> {
        let (effect, x) = (Arc::clone(&self.effect), sample(treatments)?);
        let form = if integrals { Form::Integrals } else { Form::Landmarks };
        let measure = mass.map_or(Measure::Rows, |mass| Measure::Normal { mass });
        let how = Published { form, measure, jitter };
        let work = move || effect.published(&how, &x);
        told(py, interruptible(py, &Threads::all(), &Arc::default(), work)?.map_err(raise)?)
    }
}

/// Learns an effect from studies; `shared` are covariates that the last two share.
#[pyfunction]
#[pyo3(signature = (studies, points, outcome, draws, seed, shared=None))]
pub fn fuse(
    py: Python<'_>,
    studies: Vec<Leading<'_>>,
    points: NamedRows<'_>,
    outcome: Vec<f64>,
    draws: usize,
    seed: u64,
    shared: Option<NamedRows<'_>>,
) -> PyResult<CausalEffect> {
    let study = |(treatments, how, others, mediators): Leading<'_>| {
        let others = others.map(sample).transpose()?;
        let route = match (&how[..], others) {
            ("direct", None) => Route::Direct,
            ("back-door", Some(others)) => Route::BackDoor(others),
            ("front-door", Some(others)) => Route::FrontDoor(others),
            (how, others) => return Err(refuse(format!("{how} with covariates: {}", others.is_some()))),
        };
        Ok::<_, PyErr>(Study {
            treatments: sample(treatments)?,
            route,
            mediators: sample(mediators)?,
            shared: None,
        })
    };
    let mut studies = studies.into_iter().map(study).collect::<PyResult<Vec<_>>>()?;
    // By the study that leads to the last.
    if let (Some(last), Some(shared)) = (studies.last_mut(), shared) {
        last.shared = Some(sample(shared)?);
    }
    let given = Studies { studies, points: sample(points)?, outcome };
    let fusion = Fusion { draws, seed, ..Fusion::default() };
    let stop = Arc::clone(&fusion.stop);
    let effect = interruptible(py, &Threads::all(), &stop, move || fusion.fit(&given))?.map_err(raise)?;
    Ok(CausalEffect { effect: Arc::new(effect) })
}
