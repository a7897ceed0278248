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
from botorch.models.transforms import input as inputs  # noqa: E402
from botorch.models.transforms import outcome as outcomes  # noqa: E402
from gpytorch import kernels as gk  # noqa: E402
from gpytorch import means  # noqa: E402

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
    model = SingleTaskGP(torch.as_tensor(X), torch.as_tensor(np.reshape(y, (len(y), -1))), **settings)
    for k, (name, parameter) in enumerate(model.named_parameters()):
        if "concentration" not in name:
            moved = 0.2 * torch.arange(1, parameter.numel() + 1).reshape(parameter.shape) + 0.05 * k
            parameter.data = parameter.data + moved.to(parameter)
    return model


def mean_of(model):
    """The mean of the posterior, (n,) or (n, outputs)."""

    def mean(rows):
        with torch.no_grad():
            prediction = model.posterior(torch.as_tensor(np.asarray(rows, dtype=float))).mean.numpy()
        return prediction[:, 0] if prediction.shape[1] == 1 else prediction

    return mean


def exact(model, X, background=6, rows=2, atol=1e-8, f=None, **options):
    """Explains by the kernel, and compares with the enumeration of all coalitions."""
    was_training = model.training
    explainer = riesz.Explainer(model, X[:background], **options)
    explanation = explainer(X[20 : 20 + rows])
    assert explainer._cores and model.training == was_training, explainer.reason
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


ESTIMATED = {
    "matern": (lambda: gk.ScaleKernel(gk.MaternKernel(2.5, ard_num_dims=3)), "ties the columns"),
    "rational quadratic": (lambda: gk.ScaleKernel(gk.RQKernel()), "ties the columns"),
    "spectral mixture": (
        lambda: gk.SpectralMixtureKernel(num_mixtures=2, ard_num_dims=3),
        "SpectralMixtureKernel",
    ),
}


@pytest.mark.parametrize("name", ESTIMATED)
def test_kernels_without_exact_values_are_estimated(name, study):
    X, y = study
    kernel, reason = ESTIMATED[name]
    model = fitted(X, y, covar_module=kernel(), input_transform=inputs.Normalize(3))
    explanation = riesz.Explainer(model, X[:6])(X[20:22])
    for i in range(2):
        expected = interventional(mean_of(model), X[20 + i], X[:6])
        np.testing.assert_allclose(explanation.values[i], expected, atol=1e-8 * np.abs(y).max())
    with pytest.raises(riesz.UnsupportedModelError, match=f"{reason}.*given a background"):
        riesz.Explainer(model)
    # With more columns the values are estimated by permutations, within their standard errors, and the reason
    # is reported.
    wide = np.hstack([X, X[:, :2] + 1, np.sin(X), np.cos(X[:, :2])])
    if name == "rational quadratic":
        model = fitted(
            wide, y, covar_module=gk.ScaleKernel(gk.RQKernel()), input_transform=inputs.Normalize(10)
        )
        explainer = riesz.Explainer(model, wide[:6], n_orders=8)
        explanation = explainer(wide[20:21])
        assert (
            explainer.exactness == "estimated"
            and reason in explainer.reason
            and (explanation.std_error > 0).all()
        )
        expected = interventional(mean_of(model), wide[20], wide[:6])
        assert (np.abs(explanation.values[0] - expected) < 4 * explanation.std_error[0]).all()


def test_models_of_other_kinds_are_estimated(study):
    X, y = study
    Xt, Yt = torch.as_tensor(X), torch.as_tensor(np.column_stack([y, -y]))
    tasks = torch.cat([Xt, torch.arange(40)[:, None] % 2], dim=1).double()
    mixed = MixedSingleTaskGP(Xt, Yt[:, :1], cat_dims=[2])
    variational = SingleTaskVariationalGP(Xt, Yt[:, :1], input_transform=inputs.Normalize(3))
    kronecker = KroneckerMultiTaskGP(Xt, Yt)
    for model in (mixed, variational, kronecker, MultiTaskGP(tasks, Yt[:, :1], task_feature=-1)):
        rows = (
            tasks.numpy()
            if isinstance(model, MultiTaskGP) and not isinstance(model, KroneckerMultiTaskGP)
            else X
        )
        explainer = riesz.Explainer(model, rows[:5])
        explanation = explainer(rows[20:21])
        expected = interventional(mean_of(model), rows[20], rows[:5])
        np.testing.assert_allclose(explanation.values[0], expected, atol=1e-6 * np.abs(y).max())


def test_tasks_preferences_and_functions(study):
    X, y = study
    Xt, Yt = torch.as_tensor(X), torch.as_tensor(y[:, None])
    tasks = MultiTaskGP(torch.cat([Xt, torch.arange(40)[:, None] % 2], dim=1).double(), Yt, task_feature=-1)
    pairs = PairwiseGP(
        Xt, torch.tensor([[0, 1], [2, 3], [5, 4], [7, 1]]), input_transform=inputs.Normalize(3)
    )
    function = GenericDeterministicModel(
        lambda rows: torch.stack([rows.sum(-1), rows.prod(-1)], dim=-1), num_outputs=2
    )
    for model in (tasks, pairs, function):
        explanation = riesz.Explainer(model, X[:5])(X[20:21])
        expected = interventional(mean_of(model), X[20], X[:5])
        np.testing.assert_allclose(explanation.values[0], expected, atol=1e-6 * np.abs(expected).max())


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
    first, second = X[:6, :2].copy(), X[:6, :2].copy()
    first[:, 0], second[:, 1] = X[20, 0], X[20, 1]
    with torch.no_grad():
        joint = model.posterior(
            torch.as_tensor(np.vstack([first, second]))
        ).distribution.covariance_matrix.numpy()
    weights, apart = np.repeat([1 / 6, -1 / 6], 6), np.array([1.0, -1.0])
    assert apart @ explanation.covariance[0] @ apart == pytest.approx(weights @ joint @ weights, rel=1e-6)
