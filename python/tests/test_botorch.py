"""BoTorch's models in the user's columns and units, against enumeration with the mean of their own
posteriors.

BoTorch needs gigabytes of PyTorch, which `scripts/test` does not install: run
`.venv/bin/pip install botorch` for these tests. `test_saved_botorch.py` tests the reading of transforms
without it."""

import pickle

import numpy as np
import pandas as pd
import pytest

import riesz
from conftest import interventional, shapley

torch = pytest.importorskip("torch")
pytest.importorskip("botorch")

from botorch.models import (  # noqa: E402
    KroneckerMultiTaskGP,
    MixedSingleTaskGP,
    ModelListGP,
    MultiTaskGP,
    PairwiseGP,
    SingleTaskGP,
    SingleTaskVariationalGP,
)
from botorch.models.deterministic import GenericDeterministicModel  # noqa: E402
from botorch.models.map_saas import (  # noqa: E402
    AdditiveMapSaasSingleTaskGP,
    EnsembleMapSaasSingleTaskGP,
)
from botorch.models.transforms import input as inputs  # noqa: E402
from botorch.models.transforms import outcome as outcomes  # noqa: E402
from gpytorch import kernels as gk  # noqa: E402
from gpytorch import means  # noqa: E402
from gpytorch.variational import CiqVariationalStrategy, UnwhitenedVariationalStrategy  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def study():
    """Three columns on different scales, the last one of whole numbers, and a positive outcome."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.1, 10, (40, 3)) * [1.0, 100.0, 1.0]
    X[:, 2] = rng.integers(0, 3, 40)
    y = (
        np.exp(0.4 * np.log(X[:, 0]) + 0.002 * X[:, 1] + 0.3 * (X[:, 2] == 1) + 0.05 * rng.normal(size=40))
        * 50
    )
    return X, y


def fitted(X, y, **settings):
    """A process whose parameters all differ."""
    return varied(SingleTaskGP(torch.as_tensor(X), torch.as_tensor(np.reshape(y, (len(y), -1))), **settings))


def varied(model):
    """The model with other parameters, which all differ; those of transforms and distributions stay."""
    for k, (name, parameter) in enumerate(model.named_parameters()):
        if "concentration" not in name and "variational" not in name:
            moved = 0.2 * torch.arange(1, parameter.numel() + 1).reshape(parameter.shape) + 0.05 * k
            parameter.data = parameter.data + moved.to(parameter)
    return model


def mean_of(model):
    """The mean of the posterior, (n,) or (n, outputs); of a mixture the mean of its members' means."""

    def mean(rows):
        with torch.no_grad():
            posterior = model.posterior(torch.as_tensor(np.asarray(rows, dtype=float)))
            prediction = getattr(posterior, "mixture_mean", posterior.mean).numpy()
        return prediction[:, 0] if prediction.shape[1] == 1 else prediction

    return mean


def exact(model, X, background=6, rows=2, atol=1e-8, f=None, **options):
    """Explains by the kernel, and compares with the enumeration of all coalitions."""
    was_training = model.training
    explainer = riesz.Explainer(model, X[:background], **options)
    explanation = explainer(X[20 : 20 + rows])
    assert explainer._cores and explainer.exactness == "exact", explainer._imported.refusal
    assert model.training == was_training
    assert explanation.certificate.holds
    f = f or mean_of(model)
    np.testing.assert_allclose(explanation.predictions, f(X[20 : 20 + rows]), atol=atol)
    for i in range(rows):
        np.testing.assert_allclose(
            explanation.values[i], interventional(f, X[20 + i], X[:background]), atol=atol
        )
    return explanation


def chained(**parts):
    return inputs.ChainedInputTransform(**parts)


BOUNDS = torch.tensor([[0.0, 0.0, 0.0], [10.0, 1000.0, 2.0]]).double()
INPUTS = {
    "none": lambda: None,
    "normalize": lambda: inputs.Normalize(3),
    "normalize some": lambda: inputs.Normalize(3, indices=[0, 1]),
    "standardize": lambda: inputs.InputStandardize(3),
    "affine": lambda: inputs.AffineInputTransform(
        3, coefficient=torch.tensor([2.0, 50.0, 1.5]).double(), offset=torch.tensor([1.0, -3.0, 0.5]).double()
    ),
    "log": lambda: chained(a=inputs.Log10(indices=[0]), b=inputs.Normalize(3)),
    "warp": lambda: inputs.Warp(d=3, indices=[0, 1], bounds=BOUNDS),
    "round": lambda: chained(a=inputs.Round(integer_indices=[2]), b=inputs.Normalize(3)),
    "filter": lambda: chained(a=inputs.FilterFeatures(torch.tensor([2, 0])), b=inputs.Normalize(2)),
    "one-hot": lambda: inputs.NumericToCategoricalEncoding(
        dim=3,
        categorical_features={2: 3},
        encoders={2: lambda column: torch.nn.functional.one_hot(column, 3)},
    ),
    "not on evaluation": lambda: inputs.Normalize(3, transform_on_eval=False, transform_on_train=False),
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_input_transforms_are_undone(name, mode, study):
    X, y = study
    model = fitted(X, y, input_transform=INPUTS[name]())
    if name == "warp":
        model.input_transform.concentration0.data.fill_(1.7)
        model.input_transform.concentration1.data.fill_(0.6)
    model.train(mode == "train")
    explanation = exact(model, X, atol=1e-8 * np.abs(y).max())
    assert explanation.feature_names == ["x0", "x1", "x2"]
    np.testing.assert_array_equal(explanation.data, X[20:22])


OUTCOMES = {
    "none": lambda: None,
    "standardize": lambda: outcomes.Standardize(1),
    "twice": lambda: outcomes.ChainedOutcomeTransform(a=outcomes.Standardize(1), b=outcomes.Standardize(1)),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcomes_are_in_the_units_of_the_user(name, study):
    X, y = study
    model = fitted(X, y, outcome_transform=OUTCOMES[name](), input_transform=inputs.Normalize(3))
    exact(model, X, atol=1e-8 * np.abs(y).max())


def test_what_is_the_default_of_botorch_is_explained(study):
    X, y = study
    for noise in (None, np.linspace(0.5, 3.0, len(y))[:, None]):
        model = SingleTaskGP(
            torch.as_tensor(X), torch.as_tensor(y[:, None]), None if noise is None else torch.as_tensor(noise)
        )
        explanation = exact(model, X, atol=1e-8 * np.abs(y).max())
        assert explanation.provenance.model["explained"] == "posterior mean"
    # Without a background riesz explains the functional game, and still compares predictions.
    assert riesz.Explainer(model)(X[:3]).certificate.holds


def test_partly_transformed_outcomes(study):
    """BoTorch has no posterior for these models; for a logarithm riesz explains the underlying process."""
    X, y = study
    targets = np.column_stack([y, np.sqrt(y)])
    model = fitted(
        X, targets, outcome_transform=outcomes.Log(outputs=[0]), input_transform=inputs.Normalize(3)
    )

    def mean(rows):
        training = model.training
        model.eval()
        with torch.no_grad():
            prediction = model(model.transform_inputs(torch.as_tensor(rows)).unsqueeze(-3)).mean.numpy().T
        model.train(training)
        return prediction

    exact(model, X, f=mean, atol=1e-8 * np.abs(y).max())
    model = fitted(
        X,
        targets,
        outcome_transform=outcomes.Standardize(2, outputs=[1]),
        input_transform=inputs.Normalize(3),
    )
    with pytest.raises(
        riesz.UnsupportedModelError,
        match="the posterior .* has no mean, as its outcome is transformed by Standard",
    ):
        riesz.Explainer(model, X[:5])


@pytest.mark.parametrize("chain", [False, True])
def test_the_logarithm_of_an_outcome_is_explained(chain, study):
    X, y = study
    log = outcomes.Log()
    transform = outcomes.ChainedOutcomeTransform(log=log, std=outcomes.Standardize(1)) if chain else log
    model = fitted(X, y, outcome_transform=transform, input_transform=inputs.Normalize(3))
    model.eval()
    scale, shift = (float(transform["std"].stdvs), float(transform["std"].means)) if chain else (1.0, 0.0)

    def logarithm(rows):
        """Mean of the logarithm under a lognormal posterior, from its mean and variance."""
        with torch.no_grad():
            posterior = model.posterior(torch.as_tensor(rows))
            ratio = (1 + posterior.variance / posterior.mean**2).log()
            return (posterior.mean.log() - ratio / 2).numpy()[:, 0]

    explanation = exact(model, X, f=logarithm)
    assert "logarithm of the outcome" in explanation.provenance.model["explained"]
    with torch.no_grad():
        latent = model(model.transform_inputs(torch.as_tensor(X[20:22]))).mean.numpy()
    np.testing.assert_allclose(explanation.predictions, shift + scale * latent, atol=1e-10)


def test_one_hot_columns_are_exact_as_a_group(study):
    X, y = study
    wide = np.hstack([X[:, :2], np.eye(3)[X[:, 2].astype(int)]])
    for transform in (
        chained(a=inputs.OneHotToNumeric(5, {2: 3}), b=inputs.Normalize(3)),
        chained(a=inputs.Round(categorical_features={2: 3}), b=inputs.Normalize(5)),
    ):
        model = fitted(wide, y, input_transform=transform)
        f, background, x = mean_of(model), wide[:6], wide[20]
        grouped = riesz.Explainer(model, background, groups={"kind": [2, 3, 4]})
        explanation = grouped(wide[20:21])
        assert grouped._cores and explanation.feature_names == ["x0", "x1", "kind"]

        def value(mask):
            return f(np.where(np.array(mask)[[0, 1, 2, 2, 2]], x, background)).mean()

        np.testing.assert_allclose(explanation.values[0], shapley(value, 3), atol=1e-7)
        # Ungrouped columns are valued by all coalitions.
        ungrouped = riesz.Explainer(model, background)
        assert not ungrouped._cores
        np.testing.assert_allclose(
            ungrouped(wide[20:21]).values[0], interventional(f, x, background), atol=1e-7
        )


def test_several_outputs_are_explained_separately(study):
    X, y = study
    targets = np.column_stack([y, -np.sqrt(y)])
    multi_output = fitted(X, targets, input_transform=inputs.Normalize(3))
    model_list = ModelListGP(
        fitted(X, y, input_transform=inputs.Normalize(3)),
        fitted(X, -np.sqrt(y), input_transform=chained(a=inputs.Log10(indices=[0]), b=inputs.Normalize(3))),
    )
    for model in (multi_output, model_list):
        explanation = exact(model, X, atol=1e-8 * np.abs(y).max())
        assert explanation.output_names == ["y0", "y1"] and explanation.values.shape == (2, 3, 2)


def test_a_linear_mean_is_one_more_term(study):
    X, y = study
    for transform in (None, inputs.Normalize(3)):
        model = fitted(X, y, mean_module=means.LinearMean(3), input_transform=transform)
        exact(model, X, atol=1e-7 * np.abs(y).max())


@pytest.mark.parametrize("name", ["matern", "rational quadratic"])
def test_kernels_of_the_distance_over_several_columns_are_exact(name, study):
    X, y = study
    kernel = {"matern": lambda: gk.MaternKernel(2.5, ard_num_dims=3), "rational quadratic": gk.RQKernel}[name]
    model = fitted(X, y, covar_module=gk.ScaleKernel(kernel()), input_transform=inputs.Normalize(3))
    exact(model, X, atol=1e-8 * np.abs(y).max())


def test_kernels_without_exact_values_are_estimated(study):
    X, y = study
    reason = "SpectralMixtureKernel"
    kernel = lambda width: gk.SpectralMixtureKernel(num_mixtures=2, ard_num_dims=width)
    model = fitted(X, y, covar_module=kernel(3), input_transform=inputs.Normalize(3))
    explanation = riesz.Explainer(model, X[:6])(X[20:22])
    for i in range(2):
        expected = interventional(mean_of(model), X[20 + i], X[:6])
        np.testing.assert_allclose(explanation.values[i], expected, atol=1e-8 * np.abs(y).max())
    with pytest.raises(riesz.UnsupportedModelError, match=f"{reason}.*given a background"):
        riesz.Explainer(model)
    # With more columns the values are estimated by permutations, within their standard errors, and the reason
    # is reported.
    wide = np.hstack([X, X[:, :2] + 1, np.sin(X), np.cos(X[:, :2])])
    model = fitted(wide, y, covar_module=kernel(10), input_transform=inputs.Normalize(10))
    explainer = riesz.Explainer(model, wide[:6], n_orders=8)
    explanation = explainer(wide[20:21])
    assert explainer.exactness == "estimated" and reason in explainer.reason
    expected = interventional(mean_of(model), wide[20], wide[:6])
    error = np.abs(explanation.values[0] - expected)
    assert (error <= 4 * explanation.std_error[0] + 1e-8 * np.abs(y).max()).all()


@pytest.mark.parametrize("columns", [[2], [0, 2], [0, 1, 2]])
def test_columns_of_categories_are_exact(columns, study):
    X, y = study
    X = X.copy()
    X[:, columns] = np.round(X[:, columns] % 3)
    model = varied(MixedSingleTaskGP(torch.as_tensor(X), torch.as_tensor(y[:, None]), cat_dims=columns))
    exact(model, X, atol=1e-8 * np.abs(y).max())
    assert riesz.Explainer(model)(X[:3]).certificate.holds


def test_covariances_with_categories(study):
    X, y = study
    X = X[:, 1:] / [1000.0, 1.0]
    model = varied(MixedSingleTaskGP(torch.as_tensor(X), torch.as_tensor(y[:, None]), cat_dims=[1]))
    explanation = riesz.Explainer(model, X[:6], covariance=True)(X[20:21])
    assert_difference_of_two_features(explanation, model, X)


def with_tasks(X, column, tasks=(0, 1)):
    """The rows with a column of tasks."""
    return np.insert(X, column, np.resize(tasks, len(X)), axis=1)


TASKS = {
    "last": lambda: (-1, (0, 1), {}),
    "numbers of tasks": lambda: (1, (1, 3, 5), {"output_tasks": [5, 1]}),
    "stratified": lambda: (
        3,
        (0, 2),
        {"outcome_transform": outcomes.StratifiedStandardize(3, all_task_values=torch.tensor([0, 2]))},
    ),
    "linear means": lambda: (0, (0, 1), {"mean_module": means.MultitaskMean(means.LinearMean(3), 2)}),
    "one mean": lambda: (0, (0, 1), {"mean_module": means.ConstantMean()}),
    "sum of kernels": lambda: (
        -1,
        (0, 1),
        {"covar_module": gk.ScaleKernel(gk.MaternKernel(2.5, ard_num_dims=3)) + gk.RQKernel(active_dims=[1])},
    ),
    "one output": lambda: (-1, (0, 1), {"output_tasks": [1], "rank": 1}),
    "noise": lambda: (-1, (0, 1), {"train_Yvar": torch.linspace(0.5, 3.0, 40)[:, None].double()}),
    "not observed": lambda: (-1, (0, 1), {"all_tasks": [0, 1, 2]}),
}


@pytest.mark.parametrize("name", TASKS)
def test_rows_with_and_without_tasks_are_exact(name, study):
    X, y = study
    column, tasks, settings = TASKS[name]()
    rows = with_tasks(X, column if column >= 0 else 3, tasks)
    kept = [j for j in range(4) if j != column % 4]
    transform = inputs.Normalize(4, indices=kept)
    model = varied(
        MultiTaskGP(
            torch.as_tensor(rows),
            torch.as_tensor(y[:, None]),
            task_feature=column,
            input_transform=transform,
            **settings,
        )
    )
    atol = 1e-8 * np.abs(y).max()
    explanation = exact(model, rows, atol=atol)
    assert explanation.output_names == ["y"] and explanation.feature_names == ["x0", "x1", "x2", "x3"]
    with pytest.raises(riesz.UnsupportedModelError, match="a task column or none, which only a background"):
        riesz.Explainer(model)
    if name != "stratified":
        # Without the task column this transform has no values.
        explanation = exact(model, X, atol=atol)
        count = len(model._output_tasks)
        assert explanation.output_names == (["y"] if count == 1 else [f"y{o}" for o in range(count)])


def test_tasks_that_are_all_observed_are_exact(study):
    X, y = study
    Xt, Yt = torch.as_tensor(X), torch.as_tensor(np.column_stack([y, -np.sqrt(y)]))
    for settings in (
        {},
        {"outcome_transform": outcomes.Standardize(2), "likelihood_rank": 1},
        {"data_covar_module": gk.MaternKernel(2.5, ard_num_dims=3), "rank": 1},
    ):
        model = varied(KroneckerMultiTaskGP(Xt, Yt, input_transform=inputs.Normalize(3), **settings))
        assert exact(model, X, atol=1e-8 * np.abs(y).max()).output_names == ["y0", "y1"]
        assert riesz.Explainer(model)(X[:3]).certificate.holds


def test_lists_of_models_of_other_kinds_are_exact(study):
    X, y = study
    Xt, Yt = torch.as_tensor(X), torch.as_tensor(y[:, None])
    rows = with_tasks(X, 3)
    tasks = lambda: varied(MultiTaskGP(torch.as_tensor(rows), Yt, task_feature=-1, output_tasks=[0]))
    atol = 1e-8 * np.abs(y).max()
    exact(ModelListGP(tasks(), fitted(X, y)), X, atol=atol)
    exact(ModelListGP(tasks(), tasks()), rows, atol=atol)
    kronecker = varied(KroneckerMultiTaskGP(Xt, torch.cat([Yt, -Yt], dim=1)))
    explanation = exact(ModelListGP(kronecker, fitted(X, y)), X, atol=atol)
    assert explanation.output_names == ["y0", "y1", "y2"]


def variational(X, y, **settings):
    """A variational process whose parameters and variational mean differ from its prior."""
    targets = np.reshape(y, (len(y), -1))
    model = varied(SingleTaskVariationalGP(torch.as_tensor(X), torch.as_tensor(targets), **settings))
    strategy = model.model.variational_strategy
    strategy = getattr(strategy, "base_variational_strategy", strategy)
    strategy.variational_params_initialized.fill_(1)
    mean = strategy._variational_distribution.variational_mean
    mean.data = torch.sin(3.0 * torch.arange(mean.numel()).reshape(mean.shape)).to(mean)
    return model


def test_variational_processes_are_exact(study):
    X, y = study
    for settings in (
        {"input_transform": inputs.Normalize(3), "outcome_transform": outcomes.Standardize(1)},
        {"variational_strategy": UnwhitenedVariationalStrategy},
        {"input_transform": chained(a=inputs.Log10(indices=[0]), b=inputs.Normalize(3))},
    ):
        model = variational(X, y, **settings)
        exact(model, X, atol=1e-8 * np.abs(y).max())
        assert riesz.Explainer(model)(X[:3]).certificate.holds
    two = np.column_stack([y, -np.sqrt(y)])
    model = variational(
        X, two, input_transform=inputs.Normalize(3), outcome_transform=outcomes.Standardize(2)
    )
    assert exact(model, X, atol=1e-8 * np.abs(y).max()).output_names == ["y0", "y1"]


def test_averages_of_processes_are_exact(study):
    X, y = study
    Xt, Yt = torch.as_tensor(X), torch.as_tensor(y[:, None])
    model = varied(EnsembleMapSaasSingleTaskGP(Xt, Yt, num_taus=3, input_transform=inputs.Normalize(3)))
    exact(model, X, atol=1e-8 * np.abs(y).max())
    with pytest.raises(ValueError, match="covariance=True.*adds up 3 models"):
        riesz.Explainer(model, X[:6], covariance=True)
    additive = AdditiveMapSaasSingleTaskGP(Xt, Yt, num_taus=3, input_transform=inputs.Normalize(3))
    exact(varied(additive), X, atol=1e-8 * np.abs(y).max())


@pytest.mark.parametrize("kind", ["Saas", "", "Linear"])
@pytest.mark.parametrize("warp", [False, True])
def test_fully_bayesian_processes_are_exact(warp, kind, study):
    for module in ("jax", "numpyro"):
        pytest.importorskip(module)
    from botorch.models import fully_bayesian

    X, y = study
    name = {"Saas": "SaasFullyBayesian", "": "FullyBayesian", "Linear": "FullyBayesianLinear"}[kind]
    model = getattr(fully_bayesian, f"{name}SingleTaskGP")(
        torch.as_tensor(X),
        torch.as_tensor(y[:, None]),
        use_input_warping=warp,
        input_transform=inputs.Normalize(3),
        outcome_transform=outcomes.Standardize(1),
    )
    draws = model.pyro_model.get_dummy_mcmc_samples(3, dtype=torch.double)
    random = torch.Generator().manual_seed(0)
    model.load_mcmc_samples({k: v * (0.5 + torch.rand(v.shape, generator=random)) for k, v in draws.items()})
    model.eval()
    exact(model, X, atol=1e-8 * np.abs(y).max())
    # A list of models is in training mode by default, which deletes draws when it is set.
    models = ModelListGP(model)
    exact(models, X, atol=1e-8 * np.abs(y).max())
    assert models.training and model.covar_module is not None


def test_preferences_are_exact(study):
    X, _ = study
    duels = torch.tensor([[0, 1], [2, 3], [5, 4], [7, 1]])
    for transform in (None, inputs.Normalize(3)):
        points = torch.as_tensor(X if transform is not None else X / [10.0, 1000.0, 3.0])
        model = varied(PairwiseGP(points, duels, input_transform=transform))
        exact(model, points.numpy())
        assert riesz.Explainer(model)(points.numpy()[:3]).certificate.holds


def test_models_of_other_kinds_are_estimated(study):
    X, y = study
    rounded = chained(a=inputs.Round(integer_indices=[2]), b=inputs.Normalize(3))
    logarithm = KroneckerMultiTaskGP(
        torch.as_tensor(X),
        torch.as_tensor(np.column_stack([y, y**2])).log(),
        outcome_transform=outcomes.Log(),
    )
    for model, culprit in [
        (variational(X, y, variational_strategy=CiqVariationalStrategy), "a CiqVariationalStrategy"),
        (variational(X, y, input_transform=rounded), "no inverse"),
        (logarithm, "transformed by Log"),
    ]:
        explainer = riesz.Explainer(model, X[:5])
        assert not explainer._cores and culprit in str(explainer._imported.refusal)
        expected = interventional(mean_of(model), X[20], X[:5])
        np.testing.assert_allclose(
            explainer(X[20:21]).values[0], expected, atol=1e-6 * np.abs(expected).max()
        )
    function = GenericDeterministicModel(
        lambda rows: torch.stack([rows.sum(-1), rows.prod(-1)], dim=-1), num_outputs=2
    )
    values = riesz.Explainer(function, X[:5])(X[20:21]).values
    expected = interventional(mean_of(function), X[20], X[:5])
    np.testing.assert_allclose(values[0], expected, atol=1e-6 * np.abs(expected).max())


def test_rows_are_arrays_tensors_and_frames(study):
    X, y = study
    model = fitted(X, y, input_transform=inputs.Normalize(3))
    expected = riesz.Explainer(model, X[:6])(X[20:22])
    from_tensors = riesz.Explainer(model, torch.as_tensor(X[:6]))(torch.as_tensor(X[20:22]))
    np.testing.assert_array_equal(from_tensors.values, expected.values)
    frame = pd.DataFrame(X, columns=["time", "heat", "kind"])
    named = riesz.Explainer(model, frame[:6])(frame[20:22])
    assert named.feature_names == ["time", "heat", "kind"]
    np.testing.assert_array_equal(named.values, expected.values)
    again = pickle.loads(pickle.dumps(riesz.Explainer(model, X[:6])))
    np.testing.assert_array_equal(again(X[20:22]).values, expected.values)
    with pytest.raises(ValueError, match="column 'x0' becomes nan"):
        logged = fitted(X, y, input_transform=chained(a=inputs.Log10(indices=[0]), b=inputs.Normalize(3)))
        riesz.Explainer(logged, X[:6])(-X[:1])


class Squeezed(inputs.Normalize):
    def transform(self, X):
        return super().transform(X).flip(-1)


class Forward(SingleTaskGP):
    def forward(self, x):
        return super().forward(torch.tanh(x))


def test_what_is_not_read_is_named_and_estimated(study):
    X, y = study
    points = torch.tensor([[0.1, 0.2, 0.3], [0.0, 0.1, -0.1]]).double()
    for model, culprit in [
        (
            fitted(X, y, outcome_transform=outcomes.Power(0.5)),
            "transformed by Power.*the posterior .* has no mean",
        ),
        (fitted(X, y, outcome_transform=outcomes.Bilog()), "transformed by Bilog"),
        (
            fitted(X, y, input_transform=inputs.InputPerturbation(points)),
            "input transform InputPerturbation.*2 rows with the shape",
        ),
    ]:
        with pytest.raises(riesz.UnsupportedModelError, match=culprit):
            riesz.Explainer(model, X[:5])
    Yt = torch.as_tensor(y[:, None])
    for model, culprit in [
        (fitted(X, y, input_transform=Squeezed(3)), "Squeezed"),
        (fitted(X, y, input_transform=inputs.InteractionFeatures([0, 1])), "InteractionFeatures"),
        (Forward(torch.as_tensor(X), Yt, input_transform=inputs.Normalize(3)), "does not predict"),
    ]:
        with pytest.raises(riesz.UnsupportedModelError, match=culprit):
            riesz.Explainer(model)
        explanation = riesz.Explainer(model, X[:5])(X[20:21])
        expected = interventional(mean_of(model), X[20], X[:5])
        np.testing.assert_allclose(explanation.values[0], expected, atol=1e-7 * np.abs(y).max())


def test_single_precision_and_many_rows(study):
    X, y = study
    single = SingleTaskGP(
        torch.as_tensor(X).float(), torch.as_tensor(y[:, None]).float(), input_transform=inputs.Normalize(3)
    )
    explanation = riesz.Explainer(single, X[:6])(X[20:22])
    with torch.no_grad():
        expected = single.posterior(torch.as_tensor(X[20:22]).float()).mean.numpy()[:, 0]
    np.testing.assert_allclose(explanation.predictions, expected, rtol=1e-3)
    # By default GPyTorch solves systems of this size approximately.
    rng = np.random.default_rng(1)
    many_rows = rng.uniform(size=(900, 3))
    model = fitted(
        many_rows, np.sin(6 * many_rows[:, 0]) + many_rows[:, 1], input_transform=inputs.Normalize(3)
    )
    with torch.no_grad():
        model.posterior(torch.as_tensor(many_rows[:3]))
    strategy = model.prediction_strategy
    assert (
        riesz.Explainer(model, many_rows[:5])(many_rows[:2]).certificate.holds
        and model.prediction_strategy is strategy
    )


def test_covariances_are_in_squared_units(study):
    X, y = study
    model = fitted(X[:, :2], y, input_transform=inputs.Normalize(2))
    explanation = riesz.Explainer(model, X[:6, :2], covariance=True)(X[20:21, :2])
    assert_difference_of_two_features(explanation, model, X[:, :2])


def assert_difference_of_two_features(explanation, model, X):
    """Compares with the posterior of φ_0 - φ_1 = v({0}) - v({1}) for row 20 and a background of 6 rows."""
    first, second = X[:6].copy(), X[:6].copy()
    first[:, 0], second[:, 1] = X[20, 0], X[20, 1]
    with torch.no_grad():
        joint = model.posterior(
            torch.as_tensor(np.vstack([first, second]))
        ).distribution.covariance_matrix.numpy()
    weights, apart = np.repeat([1 / 6, -1 / 6], 6), np.array([1.0, -1.0])
    assert apart @ explanation.covariance[0] @ apart == pytest.approx(weights @ joint @ weights, rel=1e-6)
