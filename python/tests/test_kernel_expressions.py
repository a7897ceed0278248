"""Kernels by name, as expressions, as objects and from scikit-learn are the same kernels everywhere."""

import inspect
import os
import pathlib
import re
import subprocess

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist
from sklearn import gaussian_process
from sklearn.base import clone, is_classifier
from sklearn.gaussian_process import kernels as sk

import riesz
from riesz import distributed
from riesz._models.kernel_expressions import to_expression
from riesz.kernels import (
    RBF,
    Categorical,
    Constant,
    InverseMultiquadric,
    Laplacian,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
)

TARGET = os.environ.get("CARGO_TARGET_DIR") or pathlib.Path(__file__).resolve().parents[2] / "target"
COMMAND = pathlib.Path(TARGET) / "debug" / "riesz"

ESTIMATORS = [
    riesz.KernelRidge(0.5),
    riesz.SVR(),
    riesz.SVC(),
    riesz.KernelLogisticRegression(),
    riesz.GaussianProcessRegressor(optimizer=None),
    riesz.GaussianProcessClassifier(optimizer=None),
]


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_expressions_are_the_kernels_that_they_write(model, data):
    X, y = data
    target = y > 0 if is_classifier(model) else y
    median = np.median(pdist(X))
    for text, kernel in [
        ("rbf(length_scale=2)", RBF(2.0)),
        ("matern32", Matern(median, nu=1.5, isotropic=False)),
        ("rbf(ard)", RBF([median] * 4)),
        ("0.5 * rbf(x0, x2) + linear", 0.5 * RBF(np.median(pdist(X[:, [0, 2]])), columns=[0, 2]) + Linear()),
        ("laplacian(length_scale=3, isotropic)", Matern(3.0, nu=0.5)),
    ]:
        actual, expected = (clone(model).set_params(kernel=k).fit(X, target) for k in (text, kernel))
        np.testing.assert_allclose(actual._outputs(X), expected._outputs(X), rtol=1e-10)
    with pytest.raises(ValueError, match="at character 1, there is no kernel 'rbg'"):
        clone(model).set_params(kernel="rbg").fit(X, target)
    with pytest.raises(TypeError, match="kernel = 3: it is a kernel of riesz.kernels or an expression such"):
        clone(model).set_params(kernel=3).fit(X, target)


def test_medians_of_many_rows_are_those_of_kernel_objects():
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.normal(size=(2600, 3)), axis=0)
    y = rng.normal(size=2600)
    for text, kernel, near in [
        ("rbf(length_scale=median)", RBF("median"), 1e-12),
        ("rbf(length_scale=median_per_feature)", RBF("median_per_feature"), 1e-12),
        # As for gamma="scale", from a sample.
        ("rbf(length_scale=scale)", RBF(np.sqrt(3 * X.var() / 2)), 0.01),
    ]:
        actual, expected = (riesz.KernelRidge(kernel=k, n_landmarks=5).fit(X, y) for k in (text, kernel))
        np.testing.assert_allclose(
            actual.kernel_.length_scale, expected.kernel_.length_scale, rtol=near, err_msg=text
        )


def test_expressions_read_names_and_categories(data):
    X, y = data
    frame = pd.DataFrame({"age": X[:, 0], "city": np.array(["Bern", "Oslo"])[np.arange(50) % 2]})
    actual = riesz.KernelRidge(0.5, kernel="rbf(age, length_scale=2) * categorical(city)").fit(frame, y)
    kernel = RBF(2.0, columns=["age"]) * Categorical(columns=["city"])
    expected = riesz.KernelRidge(0.5, kernel=kernel).fit(frame, y)
    np.testing.assert_allclose(actual.predict(frame), expected.predict(frame), rtol=1e-12)
    with pytest.raises(ValueError, match="there is no column 'agee'; the columns are: age, city"):
        riesz.KernelRidge(kernel="rbf(agee)").fit(frame, y)


def test_length_scales_that_are_given_stay_fixed(data):
    X, y = data
    fixed = riesz.KernelRidge("auto", kernel="rbf(length_scale=2)").fit(X, y)
    assert fixed.kernel_ == RBF(2.0)
    chosen, by_object = (riesz.KernelRidge("auto", kernel=k).fit(X, y) for k in ("rbf", RBF("median")))
    by_expression = riesz.KernelRidge("auto", kernel="rbf(length_scale=median)").fit(X, y)
    assert by_expression.kernel_ == by_object.kernel_ != RBF(np.median(pdist(X)))
    assert chosen.kernel_.length_scale > 0


def test_processes_tune_expressions_and_kernels_of_scikit_learn(data):
    X, y = data
    tuned = riesz.GaussianProcessRegressor("matern52(ard)", random_state=0).fit(X, y)
    by_object = riesz.GaussianProcessRegressor(
        Matern([np.median(pdist(X))] * 4, nu=2.5, isotropic=False), random_state=0
    ).fit(X, y)
    assert len(set(tuned.expansion_._core.kernel.split("length_scale")[1].split("]")[0].split(","))) == 4
    np.testing.assert_allclose(tuned.predict(X), by_object.predict(X), rtol=1e-8)
    kernel = 1.5 * sk.Matern(2.0, nu=1.5) + sk.DotProduct(0.5)
    options = {"alpha": 0.1, "optimizer": None, "normalize_y": False}
    theirs = gaussian_process.GaussianProcessRegressor(kernel, **options).fit(X, y)
    ours = riesz.GaussianProcessRegressor(kernel, **options).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-9)
    with pytest.raises(ValueError, match="leave the WhiteKernel out, whose noise is alpha here"):
        riesz.GaussianProcessRegressor(sk.RBF() + sk.WhiteKernel()).fit(X, y)
    with pytest.raises(ValueError, match="has fixed hyper-parameters, but riesz tunes all of them or none"):
        riesz.GaussianProcessRegressor(sk.RBF(length_scale_bounds="fixed")).fit(X, y)


def test_models_of_aggregates_and_tests_take_expressions(data):
    X, y = data
    rows = pd.DataFrame(X, columns=list("abcd")).assign(bag=np.arange(50) // 5)
    bags = pd.DataFrame({"bag": np.arange(10), "z": y.reshape(10, 5).mean(axis=1)})
    bags["cases"] = np.arange(10) % 4 + 1
    for model, target in [
        (riesz.AggregateGaussianProcess(optimizer=None), "z"),
        (riesz.AggregateCountProcess(optimizer=None), "cases"),
    ]:
        actual, expected = (
            clone(model).set_params(kernel=k).fit(rows, bags, bag="bag", target=target)
            for k in ("0.5 * rbf(length_scale=2)", 0.5 * RBF(2.0))
        )
        np.testing.assert_allclose(actual.predict(rows), expected.predict(rows), rtol=1e-10)
        with pytest.raises(TypeError, match="kernel = 3: it is a kernel of riesz.kernels or an expression"):
            clone(model).set_params(kernel=3).fit(rows, bags, bag="bag", target=target)
    for text, kernel in [("rbf(length_scale=2)", RBF(2.0)), ("rbf", RBF(np.median(pdist(X))))]:
        actual, expected = (
            riesz.hsic_test(X, y, kernel=k, n_permutations=20, random_state=0) for k in (text, kernel)
        )
        np.testing.assert_allclose(actual.statistic, expected.statistic, rtol=1e-12)
        actual, expected = (
            riesz.feature_selection.SelectHSIC(2, kernel=k).fit(X, y).scores_ for k in (text, kernel)
        )
        np.testing.assert_allclose(actual, expected, rtol=1e-12)
    pooled = RBF(np.median(pdist(np.vstack([X, X + 1]))))
    actual, expected = (
        riesz.mmd_test(X, X + 1, kernel=k, n_permutations=20, random_state=0) for k in ("rbf", pooled)
    )
    np.testing.assert_allclose(actual.statistic, expected.statistic, rtol=1e-12)
    with pytest.raises(TypeError, match="kernel = 3: it is .* a list of them, or None for the default"):
        riesz.mmd_test(X, X, kernel=3)


def test_fits_to_files_take_kernel_objects(data, tmp_path):
    X, y = data
    rows = pd.DataFrame(X, columns=list("abcd"))
    rows.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    kernel = 0.5 * RBF([1.0, 2.5], columns=["a", "b"]) * Laplacian(3.0, columns=["c"]) + Periodic(
        2.0, 4.0, columns=["d"]
    )
    options = dict(n_landmarks=50, alpha=0.2, fit_intercept=False, fixed_kernel=True)
    fit = distributed.fit(str(tmp_path / "rows.parquet"), "y", kernel=kernel, **options)
    # With all rows as landmarks it is the fit in memory.
    expected = riesz.KernelRidge(0.2, kernel=kernel).fit(rows, y)
    np.testing.assert_allclose(fit.expansion.predict(rows), expected.predict(rows), atol=1e-6)
    for bad, message in [
        (Linear(scale=2.0), "scale has no place in an expression"),
        (Matern([1.0, 2.0], columns=["a", "b"]), "one length scale per factor, .*isotropic=False"),
        (RBF([1.0, 2.0, 3.0, 4.0]), "one length scale per factor, so name as many columns"),
        (RBF(columns=[0]), "the columns of files are given by name"),
        (3, "kernel = 3: it is a kernel of riesz.kernels or an expression"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            distributed.fit(str(tmp_path / "rows.parquet"), "y", kernel=bad, **options)


@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * RBF(1.5) + Linear(),
        Matern(2.0, nu=2.5) * Constant(3.0),
        (RBF(1.0, columns=["a"]) + 0.25) * Polynomial(2, 0.5, -0.1, columns=["b", "c d"]),
        riesz.kernels.RationalQuadratic(1.5, 0.7, isotropic=False),
        riesz.kernels.ANOVA(0.3, 2.0),
        riesz.kernels.Sigmoid(0.01, 0.3),
        riesz.kernels.ExponentialDotProduct(0.3),
        riesz.kernels.Cauchy([1.0, 2.0], columns=["a", "b"]),
        RBF("median_per_feature"),
    ],
    ids=repr,
)
def test_objects_become_their_expressions(kernel, data):
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b", "c d", "e"])
    models = (riesz.KernelRidge(5.0, kernel=k).fit(frame, y) for k in (to_expression(kernel), kernel))
    actual, expected = (model.expansion_ for model in models)
    np.testing.assert_allclose(actual.predict(frame), expected.predict(frame), rtol=1e-9, atol=1e-9)


def test_arguments_have_the_names_of_other_libraries():
    for alias in ("period", "period_length", "periodicity"):
        assert Periodic(2.0, **{alias: 12.0}) == Periodic(2.0, 12.0)
    assert RBF(lengthscale=2.0) == RBF(length_scale=2.0)
    assert Polynomial(power=2, offset=0.5) == Polynomial(degree=2, coef0=0.5)
    assert Constant(constant_value=2.0) == Constant(2.0)
    assert list(inspect.signature(Periodic).parameters) == ["length_scale", "periodicity", "columns"]
    with pytest.raises(TypeError, match="Periodic: period and periodicity are the same argument: give one"):
        Periodic(period=1.0, periodicity=2.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'period'"):
        RBF(period=2.0)


def test_values_of_isotropic_kernels_have_bounds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 16))
    kernels = [Matern(4.0), Matern(4.0, nu=0.8), RationalQuadratic(4.0), InverseMultiquadric(4.0)]
    for kernel in kernels:
        model = riesz.KernelRidge(kernel=kernel).fit(X, X[:, 0])
        explainer = riesz.Explainer(model, X[:5])
        assert explainer.reason is None and "exact" in repr(explainer)
        explanation = explainer(X[5:8])
        assert explanation.certificate.holds and explanation.certificate.bound < 1e-8
        totals = explanation.values.sum(axis=1) + explanation.base_values
        np.testing.assert_allclose(totals, model.predict(X[5:8]), atol=explanation.certificate.bound)
        assert re.fullmatch(
            r"sum of \d+ Gaussians with an error of at most \S+", explanation.provenance.run["radial factor"]
        )
        estimated = riesz.Explainer(model.predict, X[:5], n_orders=200, random_state=0)(X[5:8])
        standardised = (estimated.values - explanation.values) / np.maximum(estimated.std_error, 1e-9)
        assert np.abs(standardised).max() < 6


@pytest.mark.skipif(not COMMAND.exists(), reason="the command line is not built")
def test_the_command_line_reads_the_same_expression(data, tmp_path):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.assign(y=y).to_csv(tmp_path / "x.csv", index=False)
    text = "0.5 * rbf(a, b) + matern32(c, length_scale=2) * linear(d)"
    command = [COMMAND, "fit", tmp_path / "x.csv", "--target", "y", "--model", "krr", "--kernel", text]
    command += ["--ridge", "0.5", "--no-standardize", "-o", tmp_path / "m.riesz"]
    subprocess.run(command, check=True, capture_output=True)
    ours = riesz.KernelRidge(0.5, kernel=text, fit_intercept=True).fit(frame, y)
    theirs = riesz.Expansion.load(tmp_path / "m.riesz")
    np.testing.assert_allclose(theirs.predict(frame), ours.predict(frame), rtol=1e-9)
