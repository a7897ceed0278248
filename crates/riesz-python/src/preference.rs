//! Models of duels for Python: reads duels, fits models to them, and explains them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use riesz::attribution::sampled_shapley::Budget;
use riesz::embedding::{Approximation, Conditioning, Ridge};
use riesz::fit::PosteriorMixture;
use riesz::game::{Background, Part};
use riesz::kernel::ColumnScaling;
use riesz::linalg::Sparse;
use riesz::model_average::{ModelAverage, ModelPart, few_samples_warning};
use riesz::model_card::CardEntry;
use riesz::preference::{
    ContextKernel, DuelEntries, DuelGame, DuelLogOdds, DuelQuestion, Duels, FairPreferences, HomeSide,
    Inference, ItemBags, MissingOutcome, PairKernel, PreferenceFit, PreferenceProcess, Record, differences,
    explain_average, prepare_entries,
};
use riesz::{AggregatePrediction, Error, Kernel, Matrix, Table};

use crate::explanation::Explanation;
use crate::fit::{Fitted, WeightedModels, average_for_python};
use crate::thread_pools::{Threads, interruptible};
use crate::{Expansion, NamedRows, explained, raise, refuse, sample};

/// Duels by the numbers of their items, as Python passes them: a tuple of arrays, or of lists.
pub(crate) struct DuelInput {
    pub left: Vec<usize>,
    pub right: Vec<usize>,
    pub outcome: Vec<f64>,
    pub weight: Option<Vec<f64>>,
}

impl<'py> FromPyObject<'_, 'py> for DuelInput {
    type Error = PyErr;

    fn extract(input: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (left, right, outcome, weight): (Bound<'_, _>, Bound<'_, _>, Bound<'_, _>, Bound<'_, _>) =
            input.extract()?;
        let weight = if weight.is_none() { None } else { Some(numbers(&weight)?) };
        Ok(Self { left: indices(&left)?, right: indices(&right)?, outcome: numbers(&outcome)?, weight })
    }
}

/// Reads an array or a list of numbers.
fn numbers(input: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    match input.extract::<PyReadonlyArray1<'_, f64>>() {
        Ok(array) => Ok(array.as_array().to_vec()),
        Err(_) => input.extract(),
    }
}

/// Reads an array or a list of indices.
fn indices(input: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    match input.extract::<PyReadonlyArray1<'_, i64>>() {
        Ok(array) => array.as_array().iter().map(|&index| usize::try_from(index).map_err(refuse)).collect(),
        Err(_) => input.extract(),
    }
}

/// Duels between `items` items, without contexts.
pub(crate) fn duels(items: usize, input: DuelInput) -> PyResult<Duels> {
    let DuelInput { left, right, outcome, weight } = input;
    Duels::new(items, &left, &right, &outcome, weight.as_deref()).map_err(raise)
}

/// The names of the left and the right item of each row.
type Names = (Vec<String>, Vec<String>);

/// The duels of a table: the row, the outcome and the weight of each; and the rows without an outcome.
type ReadOutcomes<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<f64>>,
    Option<Bound<'py, PyArray1<f64>>>,
    Bound<'py, PyArray1<i64>>,
);

/// The recorded outcomes in one of several forms: numbers, words, the scores of both sides, or counts of wins
/// and possibly of ties.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RecordInput<'py> {
    numbers: Option<PyReadonlyArray1<'py, f64>>,
    words: Option<Vec<Option<String>>>,
    /// The names of both items of each row, if words may be names.
    names: Option<Names>,
    scores: Option<PyReadonlyArray2<'py, f64>>,
    wins: Option<PyReadonlyArray2<'py, f64>>,
}

/// Reads the outcomes of `count` duels. Without recorded outcomes the left item always wins.
#[pyfunction]
pub fn read_outcomes<'py>(
    py: Python<'py>,
    count: usize,
    record: RecordInput<'py>,
    weight: Option<PyReadonlyArray1<'py, f64>>,
    drop: bool,
) -> PyResult<ReadOutcomes<'py>> {
    let names = record.names.as_ref().map(|(left, right)| [&left[..], &right[..]]);
    let columns_of = |table: PyReadonlyArray2<'py, f64>| -> Vec<Vec<f64>> {
        table.as_array().columns().into_iter().map(|column| column.to_vec()).collect()
    };
    let numbers = record.numbers.map(|numbers| numbers.as_array().to_vec());
    let (scores, wins) = (record.scores.map(columns_of), record.wins.map(columns_of));
    let record = match (&numbers, &record.words, scores.as_deref(), wins.as_deref()) {
        (Some(numbers), ..) => Record::Numbers { column: "outcome", numbers },
        (_, Some(cells), ..) => Record::Outcomes { column: "outcome", cells, names },
        (_, _, Some([left, right]), _) => {
            Record::Scores { columns: ["scores, left", "scores, right"], scores: [left, right] }
        }
        (_, _, _, Some([left, right, ties @ ..])) => Record::Wins {
            columns: ["wins, left", "wins, right"],
            wins: [left, right],
            ties: ties.first().map(|ties| ("wins, ties", &ties[..])),
        },
        _ => Record::Winners(count),
    };
    let missing = if drop { MissingOutcome::Drop } else { MissingOutcome::Refuse };
    let weight = weight.map(|weight| weight.as_array().to_vec());
    let outcomes = record.read(weight.as_deref(), missing).map_err(|e| match &e {
        Error::Cell { value, .. } if value.is_empty() => refuse(format!("{e} (missing=\"drop\")")),
        _ => raise(e),
    })?;
    let array_of =
        |rows: Vec<usize>| rows.into_iter().map(|row| row as i64).collect::<Vec<i64>>().into_pyarray(py);
    Ok((
        array_of(outcomes.rows),
        outcomes.outcome.into_pyarray(py),
        outcomes.weight.map(|weight| weight.into_pyarray(py)),
        array_of(outcomes.missing),
    ))
}

/// Reads the home side of each duel: 1 for the left item, -1 for the right one, 0 for neither.
#[pyfunction]
pub fn read_homes(cells: Vec<Option<String>>, names: Names) -> PyResult<Vec<i8>> {
    let (left, right) = names;
    let homes = riesz::preference::read_homes("home", &cells, Some([&left, &right])).map_err(raise)?;
    let code = |home: &HomeSide| match home {
        HomeSide::Left => 1,
        HomeSide::Right => -1,
        HomeSide::Nobody => 0,
    };
    Ok(homes.iter().map(code).collect())
}

/// The number of bags, and the bag, the item and the weight of each membership.
pub(crate) type Memberships = (usize, Vec<usize>, Vec<usize>, Option<Vec<f64>>);

/// Bags of `items` items.
pub(crate) fn bags_of(items: usize, members: Memberships) -> PyResult<ItemBags> {
    let (bags, bag, item, weight) = members;
    ItemBags::new(items, bags, &bag, &item, weight.as_deref()).map_err(raise)
}

/// Further data and options of duels.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Circumstances<'py> {
    /// The home side of each duel: 1 for the left item, -1 for the right one, 0 for neither.
    home: Option<Vec<i8>>,
    /// The items' names, for an ability of each item besides its features.
    names: Option<Vec<String>>,
    /// The kernel of contexts in JSON (the default for `None`), and a row for each duel.
    contexts: Option<(Option<String>, NamedRows<'py>)>,
    members: Option<Memberships>,
    /// Whether ties are a third outcome.
    ties: bool,
    /// Whether inference maximises the variational bound instead of using Laplace's approximation.
    bound: bool,
}

/// The tuned prior.
#[pyclass(frozen, get_all, module = "riesz._core")]
pub struct FittedPrior {
    /// The kernel of items in JSON.
    kernel: String,
    utility: f64,
    generalised: f64,
    /// The shares of further utilities: home advantage and ability.
    further: Vec<f64>,
    /// The kernel of contexts in JSON, and the part `shared` of all contexts.
    contexts: Option<(String, f64)>,
    margin: Option<f64>,
}

/// Duels in the form that a model takes.
pub(crate) struct PreparedDuels {
    pub items: Table,
    pub bags: Option<ItemBags>,
    pub duels: Duels,
}

impl Circumstances<'_> {
    /// Sets the process up for these circumstances, and returns its data: duels between items or bags.
    pub(crate) fn prepare(
        self,
        process: &mut PreferenceProcess,
        items: Table,
        duels: DuelInput,
    ) -> PyResult<PreparedDuels> {
        let DuelInput { left, right, outcome, weight } = duels;
        let home = self.home.map(|home| {
            let side = |side: &i8| match side {
                1 => HomeSide::Left,
                -1 => HomeSide::Right,
                _ => HomeSide::Nobody,
            };
            home.iter().map(side).collect::<Vec<HomeSide>>()
        });
        let bags = self.members.map(|members| bags_of(items.rows(), members)).transpose()?;
        let DuelEntries { table, left, right, extra_utility_kernel: extra_kernel } = match &bags {
            Some(_) => DuelEntries { table: items, left, right, extra_utility_kernel: None },
            None => {
                prepare_entries(&items, (&left, &right), &outcome, home.as_deref(), self.names.as_deref())
                    .map_err(raise)?
            }
        };
        let count = bags.as_ref().map_or(table.rows(), ItemBags::count);
        process.prior.extra_utility_kernel = extra_kernel;
        let duels = match self.contexts {
            None => Duels::new(count, &left, &right, &outcome, weight.as_deref()),
            Some((kernel, rows)) => {
                let rows = sample(rows)?;
                process.prior.contexts = Some(match kernel {
                    Some(kernel) => ContextKernel { kernel: crate::fit::kernel(&kernel)?, shared: 0.0 },
                    None => ContextKernel::from_contexts(&rows).map_err(raise)?,
                });
                Duels::in_contexts(count, &left, &right, &outcome, weight.as_deref(), &rows)
            }
        };
        let duels = duels.map_err(raise)?;
        process.margin = self.ties.then(|| duels.margin());
        process.inference = if self.bound { Inference::JaakkolaBound } else { Inference::Laplace };
        Ok(PreparedDuels { items: table, bags, duels })
    }

    /// The items' names, if items have abilities.
    pub(crate) fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }

    /// Sets the process up for duels between items.
    pub(crate) fn between_items(
        self,
        process: &mut PreferenceProcess,
        items: Table,
        duels: DuelInput,
    ) -> PyResult<(Table, Duels)> {
        let PreparedDuels { items, bags, duels } = self.prepare(process, items, duels)?;
        if bags.is_some() {
            return Err(refuse("members: rankings compare items: leave members out"));
        }
        Ok((items, duels))
    }
}

impl FittedPrior {
    pub(crate) fn from_kernel(prior: &PairKernel, margin: Option<f64>) -> PyResult<Self> {
        let json = |kernel: &riesz::Kernel| serde_json::to_string(kernel).map_err(refuse);
        let contexts = prior.contexts.as_ref().map(|c| Ok::<_, PyErr>((json(&c.kernel)?, c.shared)));
        Ok(Self {
            kernel: json(&prior.items)?,
            utility: prior.utility_variance,
            generalised: prior.generalised_variance,
            further: prior
                .extra_utility_kernel
                .iter()
                .flat_map(|k| &k.terms)
                .map(|term| term.scale)
                .collect(),
            contexts: contexts.transpose()?,
            margin,
        })
    }
}

/// Creates the process of a form, "nested", "utility" or "generalised", between these items; without columns,
/// one of abilities alone. A kernel of `None` is the default one.
pub(crate) fn process(kernel: Option<&str>, form: &str, items: &Table) -> PyResult<PreferenceProcess> {
    let names_only = items.width() == 0;
    let mut process = match kernel {
        _ if names_only => PreferenceProcess::new(Kernel::constant(1.0)),
        Some(kernel) => PreferenceProcess::new(crate::fit::kernel(kernel)?),
        None => PreferenceProcess::with_default_kernel(items, &ColumnScaling::standardised(items))
            .map_err(raise)?,
    };
    let (has_utility, has_generalised) = match form {
        _ if names_only => (false, false),
        "nested" => (true, true),
        "utility" => (true, false),
        "generalised" => (false, true),
        other => return Err(refuse(format!("there is no form '{other}' of models of duels"))),
    };
    let prior = &mut process.prior;
    for (variance, has_part) in
        [(&mut prior.utility_variance, has_utility), (&mut prior.generalised_variance, has_generalised)]
    {
        *variance = if has_part { *variance } else { 0.0 };
    }
    Ok(process)
}

/// Protected features of duels: their names, the strength of the penalty, whether the game is observational
/// (or of independent items), and groups of columns.
pub(crate) type Protected = (Vec<String>, f64, bool, Vec<(String, Vec<String>)>);

/// Returns the penalty on the values of protected features, with `items` as the background.
fn fair_preferences(
    (protected, strength, observational, groups): Protected,
    items: &Table,
) -> FairPreferences {
    let background = Background::from(items.clone());
    let game = match observational {
        true => DuelGame::Observational(background, Conditioning::default()),
        false => DuelGame::Independent(background),
    };
    FairPreferences { protected, strength, question: DuelQuestion { groups, ..DuelQuestion::new(game) } }
}

/// Fits a model to duels among items, and returns the fit and the tuned prior.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn fit_preferences(
    py: Python<'_>,
    kernel: Option<&str>,
    items: NamedRows<'_>,
    duels: DuelInput,
    circumstances: Circumstances<'_>,
    form: &str,
    tune: bool,
    restarts: usize,
    draws: Option<usize>,
    seed: u64,
    protected: Option<Protected>,
) -> PyResult<(Fitted, FittedPrior)> {
    let items = sample(items)?;
    let mut process = process(kernel, form, &items)?;
    (process.tune, process.restarts, process.seed) = (tune, restarts, seed);
    let data = circumstances.prepare(&mut process, items, duels)?;
    process.fair = protected.map(|protected| fair_preferences(protected, &data.items));
    let stop = process.stop.clone();
    let work = move || -> Result<(PreferenceFit, Option<ModelAverage>), Error> {
        let PreparedDuels { items, bags, duels } = &data;
        let fit = match bags {
            Some(bags) => process.fit_bags(items, bags, duels),
            None => process.fit(items, duels),
        }?;
        let draws = draws.unwrap_or_else(|| process.default_draws(duels));
        let average = (draws > 0).then(|| match bags {
            Some(bags) => process.average_bags(&fit, items, bags, duels, draws),
            None => process.average(&fit, items, duels, draws),
        });
        Ok((fit, average.transpose()?.map(PosteriorMixture::into_models)))
    };
    let (fit, average) = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    fitted_for_python(py, fit, average)
}

/// Returns a fit with its average and its tuned prior for Python.
pub(crate) fn fitted_for_python(
    py: Python<'_>,
    fit: PreferenceFit,
    average: Option<ModelAverage>,
) -> PyResult<(Fitted, FittedPrior)> {
    let few_samples = average.as_ref().and_then(|average| few_samples_warning(average.effective_sample_size));
    let average = average.map(|average| average_for_python(py, average)).transpose()?;
    let PreferenceFit {
        model, covariance, prior, margin, log_marginal_likelihood, steps, mut warnings, ..
    } = fit;
    warnings.extend(few_samples);
    let tuned_prior = FittedPrior::from_kernel(&prior, margin)?;
    let model = Expansion { model: Arc::new(model), covariance: Some(Arc::new(covariance)), groups: None };
    let fitted = Fitted {
        model: Py::new(py, model)?,
        warnings,
        iterations: vec![steps],
        chosen: None,
        support: None,
        noise: None,
        log_marginal_likelihood: Some(log_marginal_likelihood),
        average,
        end: None,
    };
    Ok((fitted, tuned_prior))
}

/// Predictions of sums: the outputs, their standard deviations, and the probabilities of classes.
type Sums<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, Option<Bound<'py, PyArray2<f64>>>);

/// Predicts `count` sums of a model's outputs. Row i of `rows` has the weight `weights[i]` in the sum
/// `places[i]`.
#[pyfunction]
pub fn predict_sums<'py>(
    py: Python<'py>,
    model: &Expansion,
    rows: PyReadonlyArray2<'_, f64>,
    places: Vec<usize>,
    weights: Vec<f64>,
    count: usize,
) -> PyResult<Sums<'py>> {
    let table = crate::table(model.model.columns(), rows.as_array()).map_err(refuse)?;
    let Some(covariance) = &model.covariance else {
        return Err(refuse("the model has no posterior"));
    };
    let mut columns = vec![Vec::new(); count];
    for (row, (column, weight)) in places.into_iter().zip(weights).enumerate() {
        columns
            .get_mut(column)
            .ok_or_else(|| refuse("the number of a sum is out of range"))?
            .push((row, weight));
    }
    let weights = Sparse::from_columns(table.rows(), columns).map_err(raise)?;
    let prediction = AggregatePrediction::new(&model.model, covariance, &table, &weights).map_err(raise)?;
    let array =
        |m: &Matrix| Ok::<_, PyErr>(crate::matrix(m.rows(), m.cols(), m.data().to_vec())?.into_pyarray(py));
    let mut sd = prediction.variance;
    sd.data_mut().iter_mut().for_each(|v| *v = v.sqrt());
    Ok((array(&prediction.outputs)?, array(&sd)?, prediction.probabilities.as_ref().map(array).transpose()?))
}

/// The replacement of absent columns of duels: the game's name, its background rows (items, or duels as wide
/// rows), their weights, and the background rows of contexts, with whether absent contexts follow their
/// conditional distribution.
type Absent<'py> = (String, Option<NamedRows<'py>>, Option<Vec<f64>>, Option<(NamedRows<'py>, bool)>);

/// The settings of conditional distributions.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ConditioningSettings {
    ridge: Option<f64>,
    centered: bool,
    landmarks: Option<usize>,
    cg_tol: Option<f64>,
}

impl ConditioningSettings {
    fn settings(&self, seed: u64) -> Conditioning {
        let approximation = Approximation::selected(self.landmarks, self.cg_tol);
        let ridge = self.ridge.map_or(Ridge::CrossValidated, Ridge::Fixed);
        Conditioning { ridge, approximation, centered: self.centered, seed, ..Conditioning::default() }
    }
}

/// The random draws of an explanation: the number of shifts, of random orders, the budget of coalitions with
/// the standard error at which to stop, and the seed.
type Draws = (usize, Option<usize>, Option<(usize, Option<f64>)>, u64);

/// The names of the left and the right items of duels; for duels of bags also the shares of their rows.
type Called = (Vec<String>, Vec<String>, Option<Shares>);

/// The duel of each row, and the row's weight in it.
type Shares = (Vec<usize>, Vec<f64>);

/// Explains duels, given as wide rows, under a model or a mixture of models with their weights. Explanations
/// of bags are means of the explanations of their members.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub fn explain_duels(
    py: Python<'_>,
    models: Vec<(f64, Py<Expansion>)>,
    rows: NamedRows<'_>,
    absent: Absent<'_>,
    groups: Vec<(String, Vec<String>)>,
    index: &str,
    covariance: bool,
    conditioning: ConditioningSettings,
    drawn: Draws,
    called: Called,
) -> PyResult<Explanation> {
    let ((name, background_rows, weights, contexts), (shifts, permutations, budget, seed)) = (absent, drawn);
    let conditioning_settings = conditioning.settings(seed);
    let budget = budget.map(|(coalitions, std_error)| Budget { coalitions, std_error, seed });
    let background_rows = background_rows.map(sample).transpose()?;
    let table =
        || background_rows.clone().ok_or_else(|| refuse(format!("the game '{name}' needs a background")));
    let items = || Ok::<_, PyErr>(Background { rows: table()?, weights: weights.clone() });
    let game = match &name[..] {
        "contexts" => None,
        "independent" => Some(DuelGame::Independent(items()?)),
        "paired" => Some(DuelGame::Paired(items()?)),
        "matches" => Some(DuelGame::Matches(table()?)),
        "baseline" => Some(DuelGame::Baseline(table()?)),
        "functional" => Some(DuelGame::Functional),
        _ => Some(DuelGame::Observational(items()?, conditioning_settings.clone())),
    };
    let context_part = |(rows, is_conditional): (NamedRows<'_>, bool)| -> PyResult<Part> {
        let conditional = is_conditional.then(|| conditioning_settings.clone());
        Ok(Part { background: sample(rows)?.into(), conditional })
    };
    let contexts = contexts.map(context_part).transpose()?;
    let index = index.parse().map_err(raise)?;
    let question =
        DuelQuestion { game, contexts, groups, index, covariance, shifts, permutations, budget, seed };
    let rows = sample(rows)?;
    let models = WeightedModels::new(&models);
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let worker_stop = stop.clone();
    let work = move || {
        let parts = models.parts();
        let explanation = differences(&explain_average(&parts, &rows, &question, &worker_stop, &progress)?)?;
        named(explanation, (&parts, &rows), called)
    };
    let explanation = interruptible(py, &Threads::per_core(), &stop, work)?.map_err(raise)?;
    explained(py, Some(explanation), None)
}

/// Adds the names and the win probabilities of duels to an explanation, and averages explanations of bags.
fn named(
    mut explanation: riesz::Explanation,
    (parts, rows): (&[ModelPart<'_>], &Table),
    (left, right, shares): Called,
) -> Result<riesz::Explanation, Error> {
    let sums = match shares {
        None => None,
        Some((places, weights)) => {
            let mut columns = vec![Vec::new(); left.len()];
            for (row, (column, weight)) in places.into_iter().zip(weights).enumerate() {
                columns[column].push((row, weight));
            }
            let sums = Sparse::from_columns(rows.rows(), columns)?;
            explanation = explanation.average(&sums)?;
            let description = "log odds of two bags, and their values, are means over pairs of their members";
            explanation.provenance.run.push(CardEntry::new("bags", description));
            Some(sums)
        }
    };
    let odds = DuelLogOdds::of_average(parts, rows, sums.as_ref())?;
    explanation.duels = Some(odds.duels(&left, &right));
    Ok(explanation)
}
