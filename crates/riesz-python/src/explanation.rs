//! Explanations for Python, with their parts as numpy arrays.

use numpy::ndarray::{Array2, Array3, Array4};
use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyArray3, PyArray4, PyReadonlyArray1, PyReadonlyArray2,
    PyReadonlyArray3, PyReadonlyArray4,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use riesz::explanation::{
    ConditioningPart, Dispersion, Duel, Provenance, Sampling, Uncertainty, UncertaintySource,
};
use riesz::format::explanation_json::{self, SavedExplanation};
use riesz::format::value_table;
use riesz::linalg::Sparse;
use riesz::model_card::CardEntry;
use riesz::table::Player;
use riesz::{ClassDecisions, ColumnKind, Exactness};
use riesz_report::{PlotOptions, ReportOptions, Theme};

use crate::{NamedRows, Sample, matrix, raise, refuse, sample};

/// The provenance: the game, its meaning of an absent feature, facts about the model, and facts about the
/// run.
type Origin = (String, String, Vec<(String, String)>, Vec<(String, String)>);

fn provenance_of((game, absent, model, run): Origin) -> Provenance {
    let facts = |known: Vec<(String, String)>| known.into_iter().map(|(k, v)| CardEntry::new(k, v)).collect();
    Provenance { game, absent, model: facts(model), run: facts(run) }
}

/// An explanation: values, base values and predictions, with their exactness and provenance.
#[pyclass(frozen, module = "riesz._core")]
pub(crate) struct Explanation {
    pub(crate) inner: riesz::Explanation,
    /// The decisions of a classifier about the rows, if the file has them.
    decisions: Option<ClassDecisions>,
    /// For values estimated from coalitions: the coalitions, from which a larger budget continues.
    #[pyo3(get)]
    sample: Option<Py<Sample>>,
}

impl Explanation {
    pub(crate) fn new(inner: riesz::Explanation, sample: Option<Py<Sample>>) -> Self {
        Self { inner, decisions: None, sample }
    }

    fn cube<'py>(&self, py: Python<'py>, numbers: &[f64]) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let shape = (self.inner.rows(), self.inner.outputs(), self.inner.sets());
        let cube = Array3::from_shape_vec(shape, numbers.to_vec()).map_err(refuse)?;
        Ok(cube.permuted_axes([0, 2, 1]).into_pyarray(py))
    }

    fn pair<'py>(&self, py: Python<'py>, numbers: Vec<f64>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        Ok(matrix(self.inner.rows(), self.inner.outputs(), numbers)?.into_pyarray(py))
    }
}

/// A covariance, rows × sets × sets × outputs, and numbers of rows and outputs.
type ConditioningArrays<'py> = (Bound<'py, PyArray4<f64>>, Bound<'py, PyArray2<f64>>);

impl Explanation {
    /// Arranges covariances of all games as rows × sets × sets × outputs.
    fn by_output_last<'py>(&self, py: Python<'py>, entries: &[f64]) -> PyResult<Bound<'py, PyArray4<f64>>> {
        let (n, m, s) = (self.inner.rows(), self.inner.outputs(), self.inner.sets());
        let array = Array4::from_shape_vec((n, m, s, s), entries.to_vec()).map_err(refuse)?;
        Ok(array.permuted_axes([0, 2, 3, 1]).into_pyarray(py))
    }
}

#[pymethods]
impl Explanation {
    /// An explanation from arrays, rows × sets × outputs and rows × outputs. Without bounds and standard
    /// errors the exactness of the values is unknown.
    #[new]
    #[pyo3(signature = (
        *, values, base_values, predictions, bound, std_error, sampling, players, subsets, output_names, data, row_numbers, provenance,
        decisions = None, index = "shapley", covariance = None, sd = None, sure_by = None,
        conditioning = None, duels = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
    fn of_parts(
        values: PyReadonlyArray3<'_, f64>,
        base_values: PyReadonlyArray2<'_, f64>,
        predictions: PyReadonlyArray2<'_, f64>,
        bound: Option<PyReadonlyArray2<'_, f64>>,
        std_error: Option<PyReadonlyArray3<'_, f64>>,
        sampling: Option<(usize, u64)>,
        players: Vec<(String, Vec<usize>)>,
        subsets: Option<Vec<Vec<usize>>>,
        output_names: Vec<String>,
        data: NamedRows<'_>,
        row_numbers: PyReadonlyArray1<'_, i64>,
        provenance: Origin,
        decisions: Option<&str>,
        index: &str,
        covariance: Option<PyReadonlyArray4<'_, f64>>,
        sd: Option<PyReadonlyArray3<'_, f64>>,
        sure_by: Option<&str>,
        conditioning: Option<(PyReadonlyArray4<'_, f64>, PyReadonlyArray2<'_, f64>)>,
        duels: Option<&str>,
    ) -> PyResult<Self> {
        let flat = |cube: PyReadonlyArray3<'_, f64>| {
            cube.as_array().permuted_axes([0, 2, 1]).iter().copied().collect()
        };
        let pair = |array: PyReadonlyArray2<'_, f64>| array.as_array().iter().copied().collect();
        let entries = |array: PyReadonlyArray4<'_, f64>| -> Vec<f64> {
            array.as_array().permuted_axes([0, 3, 1, 2]).iter().copied().collect()
        };
        let joint = covariance.map(|array| Dispersion::Covariance(entries(array)));
        let conditioning = conditioning.map(|(covariance, shares)| ConditioningPart {
            covariance: entries(covariance),
            unexplained_share: pair(shares),
        });
        let source: Option<UncertaintySource> =
            sure_by.map(serde_json::from_str).transpose().map_err(refuse)?;
        let duels: Option<Vec<Duel>> = duels.map(serde_json::from_str).transpose().map_err(refuse)?;
        let dispersion = joint.or_else(|| sd.map(|sd| Dispersion::Sd(flat(sd))));
        let inner = riesz::Explanation {
            index: index.parse().map_err(refuse)?,
            players: players.into_iter().map(|(name, columns)| Player { name, columns }).collect(),
            subsets,
            output_names,
            values: flat(values),
            base_values: pair(base_values),
            predictions: pair(predictions),
            data: sample(data)?,
            row_numbers: row_numbers.as_array().iter().map(|&i| i as usize).collect(),
            exactness: match (bound, std_error) {
                (Some(bound), _) => Exactness::Exact { bound: pair(bound) },
                (None, Some(std_error)) => Exactness::Estimated {
                    std_error: flat(std_error),
                    sampling: sampling.map(|(evaluations, seed)| Sampling { evaluations, seed }),
                },
                (None, None) => Exactness::Unknown,
            },
            uncertainty: dispersion.map(|dispersion| Uncertainty { dispersion, source, conditioning }),
            duels,
            provenance: provenance_of(provenance),
        };
        inner.validate().map_err(refuse)?;
        let decisions: Option<ClassDecisions> =
            decisions.map(serde_json::from_str).transpose().map_err(refuse)?;
        decisions.iter().try_for_each(|d| d.validate(inner.rows(), inner.outputs())).map_err(refuse)?;
        Ok(Self { decisions, ..Self::new(inner, None) })
    }

    /// Replaces the names of players and outputs, the explained rows and the provenance.
    fn renamed(
        &self,
        players: Vec<(String, Vec<usize>)>,
        output_names: Vec<String>,
        data: NamedRows<'_>,
        provenance: Origin,
    ) -> PyResult<Self> {
        let inner = riesz::Explanation {
            players: players.into_iter().map(|(name, columns)| Player { name, columns }).collect(),
            output_names,
            data: sample(data)?,
            provenance: provenance_of(provenance),
            ..self.inner.clone()
        };
        inner.validate().map_err(refuse)?;
        Ok(Self { decisions: self.decisions.clone(), ..Self::new(inner, None) })
    }

    /// The arguments of the constructor, for `pickle`.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((), Bound<'py, PyDict>)> {
        let parts = PyDict::new(py);
        parts.set_item("values", self.values(py)?)?;
        parts.set_item("base_values", self.base_values(py)?)?;
        parts.set_item("predictions", self.predictions(py)?)?;
        parts.set_item("bound", self.bound(py)?)?;
        parts.set_item("std_error", self.std_error(py)?)?;
        parts.set_item("sampling", self.sampling())?;
        let players = self.inner.players.iter().map(|p| (p.name.clone(), p.columns.clone()));
        parts.set_item("players", players.collect::<Vec<_>>())?;
        parts.set_item("subsets", self.inner.subsets.clone())?;
        parts.set_item("output_names", self.output_names())?;
        parts.set_item("data", self.data(py)?)?;
        parts.set_item("row_numbers", self.row_numbers(py))?;
        parts.set_item("provenance", self.provenance())?;
        parts.set_item("index", self.index())?;
        let decisions = self.decisions.as_ref().map(serde_json::to_string).transpose().map_err(refuse)?;
        parts.set_item("decisions", decisions)?;
        // Absent parts are omitted, so that older versions of riesz can read the pickle.
        if let Some(Uncertainty { dispersion: spread, .. }) = &self.inner.uncertainty {
            match spread {
                Dispersion::Covariance(_) => parts.set_item("covariance", self.covariance(py)?)?,
                Dispersion::Sd(_) => parts.set_item("sd", self.sd(py)?)?,
            }
            parts.set_item("sure_by", self.sure_by()?)?;
            if let Some(part) = self.conditioning(py)? {
                parts.set_item("conditioning", part)?;
            }
        }
        if let Some(duels) = self.duels()? {
            parts.set_item("duels", duels)?;
        }
        Ok(((), parts))
    }

    /// The size of the largest sets that have values in the index.
    #[getter]
    fn order(&self) -> usize {
        self.inner.index.order()
    }

    /// The index of the values, as the explainer takes it.
    #[getter]
    fn index(&self) -> String {
        self.inner.index.to_string()
    }

    /// The sets of players that have values; `None` if these are the single players.
    #[getter]
    fn subsets(&self) -> Option<Vec<Vec<usize>>> {
        self.inner.subsets.clone()
    }

    /// The singular name of the values.
    #[getter]
    fn value_name(&self) -> String {
        self.inner.value_name()
    }

    /// The plural name of the values.
    #[getter]
    fn value_names(&self) -> String {
        self.inner.index.names()
    }

    /// Whether the values of all sets add up to the prediction minus the base value.
    #[getter]
    fn is_efficient(&self) -> bool {
        self.inner.index.is_efficient()
    }

    /// Reads an explanation from JSON.
    #[staticmethod]
    fn from_json(py: Python<'_>, json: &[u8]) -> PyResult<Self> {
        let SavedExplanation { explanation, decisions } =
            py.detach(|| explanation_json::read(json)).map_err(refuse)?;
        Ok(Self { decisions, ..Self::new(explanation, None) })
    }

    /// Writes the explanation as JSON.
    fn to_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut json = Vec::new();
        py.detach(|| explanation_json::write(&self.inner, self.decisions.as_ref(), &mut json))
            .map_err(refuse)?;
        Ok(PyBytes::new(py, &json))
    }

    /// Reads a table of values: the names of its columns, its numbers (lines × columns), and the output of
    /// each line. Numbers in the column of the outputs are ignored.
    #[staticmethod]
    fn from_table(
        header: Vec<String>,
        numbers: PyReadonlyArray2<'_, f64>,
        outputs: Vec<String>,
    ) -> PyResult<Self> {
        let mut reader = value_table::ValueTableReader::new(&header).map_err(refuse)?;
        let wanted = reader.wanted().to_vec();
        for (line, output) in numbers.as_array().rows().into_iter().zip(outputs) {
            let cells = wanted[2..].iter().map(|&j| line[j]);
            reader.add_line(line[wanted[0]], &output, cells).map_err(refuse)?;
        }
        Ok(Self::new(reader.finish(None).map_err(refuse)?, None))
    }

    /// The columns of the table of values, without its first two, the row number and the name of the output.
    fn table<'py>(&self, py: Python<'py>) -> Vec<(String, Bound<'py, PyArray1<f64>>)> {
        let names = value_table::header(&self.inner).into_iter().skip(2);
        names.zip(value_table::numbers(&self.inner)).map(|(name, v)| (name, v.into_pyarray(py))).collect()
    }

    /// Selects the values of some rows, sets and outputs.
    fn select(
        &self,
        rows: PyReadonlyArray1<'_, i64>,
        sets: PyReadonlyArray1<'_, i64>,
        outputs: PyReadonlyArray1<'_, i64>,
    ) -> Self {
        let indices = |list: PyReadonlyArray1<'_, i64>| -> Vec<usize> {
            list.as_array().iter().map(|&k| k as usize).collect()
        };
        let (rows, outputs) = (indices(rows), indices(outputs));
        let decisions = self.decisions.as_ref().map(|d| d.select(&rows, &outputs));
        Self { decisions, ..Self::new(self.inner.select(&rows, &indices(sets), &outputs), None) }
    }

    /// The HTML report, as text.
    fn report(&self, py: Python<'_>, title: String) -> PyResult<String> {
        let options = ReportOptions { title, decisions: self.decisions.clone(), ..ReportOptions::default() };
        py.detach(|| riesz_report::report(&self.inner, &options)).map_err(refuse)
    }

    /// Averages rows with `weights` (means × rows).
    fn average(&self, py: Python<'_>, weights: PyReadonlyArray2<'_, f64>) -> PyResult<Self> {
        let entries =
            |row: numpy::ndarray::ArrayView1<'_, f64>| row.iter().copied().enumerate().collect::<Vec<_>>();
        let columns: Vec<_> = weights.as_array().rows().into_iter().map(entries).collect();
        let rows = weights.as_array().ncols();
        let mean = || self.inner.average(&Sparse::from_columns(rows, columns)?);
        Ok(Self::new(py.detach(mean).map_err(raise)?, None))
    }

    /// The explanation of a mixture of models, from those of its models with their weights.
    #[staticmethod]
    fn mixed(py: Python<'_>, parts: Vec<(f64, Py<Self>)>) -> PyResult<Self> {
        let parts: Vec<_> = parts.iter().map(|(weight, part)| (*weight, part.get().inner.clone())).collect();
        Ok(Self::new(py.detach(|| riesz::Explanation::mixed(parts)).map_err(raise)?, None))
    }

    /// The duels of the rows, as JSON; `None` for other models.
    #[getter]
    fn duels(&self) -> PyResult<Option<String>> {
        self.inner.duels.as_ref().map(serde_json::to_string).transpose().map_err(refuse)
    }

    /// One plot, as SVG.
    fn svg(
        &self,
        py: Python<'_>,
        plot: &str,
        output: usize,
        row: usize,
        max_display: usize,
    ) -> PyResult<String> {
        let options = PlotOptions { output, row, max_display, theme: Theme::Auto, ..PlotOptions::default() };
        let draw = || riesz_report::render(&self.inner, riesz_report::Plot::named(plot)?, &options);
        py.detach(draw).map(|svg| svg.text).map_err(refuse)
    }

    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray3<f64>>> {
        self.cube(py, &self.inner.values)
    }

    #[getter]
    fn base_values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.pair(py, self.inner.base_values.clone())
    }

    #[getter]
    fn predictions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.pair(py, self.inner.predictions.clone())
    }

    #[getter]
    fn residual<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.pair(py, self.inner.residuals())
    }

    #[getter]
    fn bound<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f64>>>> {
        let Exactness::Exact { bound } = &self.inner.exactness else { return Ok(None) };
        self.pair(py, bound.clone()).map(Some)
    }

    #[getter]
    fn std_error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray3<f64>>>> {
        let Exactness::Estimated { std_error, .. } = &self.inner.exactness else { return Ok(None) };
        self.cube(py, std_error).map(Some)
    }

    /// The covariances between the values of sets, rows × sets × sets × outputs.
    #[getter]
    fn covariance<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray4<f64>>>> {
        let Some(Uncertainty { dispersion: Dispersion::Covariance(entries), .. }) = &self.inner.uncertainty
        else {
            return Ok(None);
        };
        self.by_output_last(py, entries).map(Some)
    }

    /// The part of the covariances that comes from estimated conditional distributions, in the same layout;
    /// and for each row and output the largest unexplained share of the variance of a conditional mean.
    #[getter]
    fn conditioning<'py>(&self, py: Python<'py>) -> PyResult<Option<ConditioningArrays<'py>>> {
        let uncertainty = self.inner.uncertainty.as_ref();
        let Some(part) = uncertainty.and_then(|uncertainty| uncertainty.conditioning.as_ref()) else {
            return Ok(None);
        };
        let shape = (self.inner.rows(), self.inner.outputs());
        let shares = Array2::from_shape_vec(shape, part.unexplained_share.clone()).map_err(refuse)?;
        Ok(Some((self.by_output_last(py, &part.covariance)?, shares.into_pyarray(py))))
    }

    /// The standard deviations of the values, rows × sets × outputs.
    #[getter]
    fn sd<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray3<f64>>>> {
        self.inner.sd().map(|sd| self.cube(py, &sd)).transpose()
    }

    /// The source of the covariances or standard deviations, as JSON.
    #[getter]
    fn sure_by(&self) -> PyResult<Option<String>> {
        let source = self.inner.uncertainty.as_ref().and_then(|uncertainty| uncertainty.source);
        source.map(|source| serde_json::to_string(&source)).transpose().map_err(refuse)
    }

    /// The probability, rows × outputs, that set `a` has a larger value than set `b`; with `by_size` a larger
    /// magnitude.
    fn probability<'py>(
        &self,
        py: Python<'py>,
        a: usize,
        b: usize,
        by_size: bool,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (n, m) = (self.inner.rows(), self.inner.outputs());
        let probability_in_game = |g: usize| match by_size {
            true => self.inner.probability_larger_magnitude((g / m, g % m), a, b),
            false => self.inner.probability_greater((g / m, g % m), a, b),
        };
        self.pair(py, (0..n * m).map(probability_in_game).collect::<riesz::Result<_>>().map_err(refuse)?)
    }

    /// The probability that the `count` sets with the largest |value| of a row are the largest under the
    /// posterior, and its standard error, each rows × outputs.
    #[allow(clippy::type_complexity, reason = "two arrays")]
    fn probability_of_top<'py>(
        &self,
        py: Python<'py>,
        count: usize,
        draws: usize,
        seed: u64,
    ) -> PyResult<(Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>)> {
        let (n, m) = (self.inner.rows(), self.inner.outputs());
        let top_of_game = |g: usize| self.inner.probability_of_top((g / m, g % m), count, draws, seed);
        let proportions =
            py.detach(|| (0..n * m).map(top_of_game).collect::<riesz::Result<Vec<_>>>()).map_err(refuse)?;
        let pair = |read: fn(&riesz::explanation::Proportion) -> f64| {
            self.pair(py, proportions.iter().map(read).collect())
        };
        Ok((pair(|p| p.value)?, pair(|p| p.std_error)?))
    }

    /// Posterior draws of the values, draws × rows × sets × outputs.
    fn draws<'py>(&self, py: Python<'py>, draws: usize, seed: u64) -> PyResult<Bound<'py, PyArray4<f64>>> {
        let (n, m, s) = (self.inner.rows(), self.inner.outputs(), self.inner.sets());
        let drawn = py.detach(|| self.inner.draws_of_all(draws, seed)).map_err(refuse)?;
        Ok(Array4::from_shape_fn((draws, n, s, m), |(d, i, k, o)| drawn[i * m + o][(k, d)]).into_pyarray(py))
    }

    /// The number of evaluations and the seed of estimated values.
    #[getter]
    fn sampling(&self) -> Option<(usize, u64)> {
        let Exactness::Estimated { sampling, .. } = &self.inner.exactness else { return None };
        sampling.map(|Sampling { evaluations, seed }| (evaluations, seed))
    }

    /// The largest residual, the largest bound, and whether each residual is within its bound.
    #[getter]
    fn certificate(&self) -> Option<(f64, f64, bool)> {
        self.inner.certificate().map(|c| (c.residual, c.bound, c.holds))
    }

    /// The importance of each set for one output: the mean |value| with its standard error and interval
    /// (`None` for a single row), the mean value, and the 5 %, 50 % and 95 % quantiles of |value|. It also
    /// has the order of the sets, and the probability that neighbours in this order are in the right order.
    fn importance(&self, py: Python<'_>, output: usize, level: f64) -> PyResult<Py<PyDict>> {
        let importance = py.detach(|| self.inner.importance(output));
        let parts = PyDict::new(py);
        let spans = importance.interval(level);
        let end = |side: usize| {
            spans.as_ref().map(|intervals| intervals.iter().map(|s| s[side]).collect::<Vec<_>>())
        };
        parts.set_item("mean_abs", importance.mean_abs.into_pyarray(py))?;
        parts.set_item("std_error", importance.std_error.map(|errors| errors.into_pyarray(py)))?;
        parts.set_item("low", end(0).map(|lower| lower.into_pyarray(py)))?;
        parts.set_item("high", end(1).map(|upper| upper.into_pyarray(py)))?;
        parts.set_item("mean", importance.mean.into_pyarray(py))?;
        for (position, name) in ["q05", "median", "q95"].into_iter().enumerate() {
            let quantiles: Vec<f64> = importance.quantiles.iter().map(|q| q[position]).collect();
            parts.set_item(name, quantiles.into_pyarray(py))?;
        }
        parts.set_item("order", importance.order)?;
        parts
            .set_item("in_order", importance.in_order.map(|probabilities| probabilities.into_pyarray(py)))?;
        Ok(parts.unbind())
    }

    /// Whether the explanation has the values of all players.
    #[getter]
    fn is_complete(&self) -> bool {
        self.inner.is_complete()
    }

    /// The names and columns of the sets of players that have values.
    #[getter]
    fn sets(&self) -> Vec<(String, Vec<usize>)> {
        (0..self.inner.sets()).map(|k| (self.inner.set_name(k), self.inner.set_columns(k))).collect()
    }

    #[getter]
    fn output_names(&self) -> Vec<String> {
        self.inner.output_names.clone()
    }

    #[getter]
    fn row_numbers<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        self.inner.row_numbers.iter().map(|&i| i as i64).collect::<Vec<_>>().into_pyarray(py)
    }

    /// The explained rows: names of columns, their levels, and numbers (rows × columns).
    #[getter]
    #[allow(clippy::type_complexity, reason = "as in NamedRows")]
    fn data<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Vec<String>, Vec<Option<Vec<String>>>, Bound<'py, PyArray2<f64>>)> {
        let data = &self.inner.data;
        let names = data.columns().iter().map(|c| c.name.clone()).collect();
        let levels = data.columns().iter().map(|c| match &c.kind {
            ColumnKind::Categorical { levels } => Some(levels.clone()),
            ColumnKind::Numeric => None,
        });
        let column_major = matrix(data.width(), data.rows(), data.column_major().to_vec())?;
        Ok((names, levels.collect(), column_major.reversed_axes().into_pyarray(py)))
    }

    #[getter]
    fn provenance(&self) -> Origin {
        let facts = |list: &[CardEntry]| list.iter().map(|f| (f.name.clone(), f.value.clone())).collect();
        let Provenance { game, absent, model, run } = &self.inner.provenance;
        (game.clone(), absent.clone(), facts(model), facts(run))
    }
}
