"""Rows of the bootstrap and the jackknife, whose intervals describe the variation of the fitted model.

The truth is the expected value of the fitted model over samples, which 400 independent samples give. Rows
whose truth is the function itself also count the bias of the ridge, which these intervals do not have."""

from __future__ import annotations

from functools import cache

import numpy as np
from calibration_measures import Intervals, Row, generator

import riesz
from riesz.kernels import RBF

N_ROWS = 60
KERNEL = RBF(1.0)
#: Explained rows, and the background row of their values.
EXPLAINED = np.array([[-1.0, 0.5], [0.3, -0.8], [1.2, 1.0], [0.0, 0.0]])
BACKGROUND = np.array([[0.5, -0.5], [-0.7, 0.9], [0.1, 1.3]])


def _function(X):
    return np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 0] * X[:, 1]


def _sample(rng, model_name):
    X = rng.normal(size=(N_ROWS, 2))
    if model_name in ("SVC", "KernelLogisticRegression"):
        return X, rng.random(N_ROWS) < 1 / (1 + np.exp(-2 * _function(X)))
    return X, _function(X) + 0.3 * rng.normal(size=N_ROWS)


def _model(model_name, **settings):
    if model_name == "KernelRidge":
        return riesz.KernelRidge(0.1, kernel=KERNEL, **settings)
    if model_name == "KernelLogisticRegression":
        return riesz.KernelLogisticRegression(1.0, kernel=KERNEL, **settings)
    return getattr(riesz, model_name)(C=1.0, kernel=KERNEL, **settings)


def _values(model, covariance=False):
    return riesz.Explainer(model, BACKGROUND, covariance=covariance)(EXPLAINED)


@cache
def expected_values(model_name):
    """The expected values of the fitted model, from independent samples."""
    rng = np.random.default_rng(0)
    fits = (_model(model_name).fit(*_sample(rng, model_name)) for _ in range(400))
    return np.mean([_values(model).values for model in fits], axis=0)


@cache
def true_values():
    """Values of the function itself."""
    return riesz.Explainer(lambda X: _function(np.asarray(X)), BACKGROUND)(EXPLAINED).values


def refits(model_name, **settings):
    """Values of the model and intervals from its refits."""

    def measure(seed):
        rng = generator(seed, model_name)
        explanation = _values(_model(model_name, **settings).fit(*_sample(rng, model_name)), covariance=True)
        numbers = {
            "values of the expected model": Intervals.from_function(
                expected_values(model_name), explanation.interval
            )
        }
        if model_name == "KernelRidge":
            numbers["values of the true function"] = Intervals.from_function(
                true_values(), explanation.interval
            )
        return numbers

    return measure


def _row(model_name, label, n_short=0, **settings):
    statements = {"values of the expected model": (model_name, "Explanation.interval", "Explanation.std")}
    if model_name == "KernelRidge":
        statements["values of the true function"] = (model_name,)
    return Row(
        f"{label}, {model_name}",
        "smooth function or log odds of 2 columns, 60 rows",
        f"{model_name}, kernel and penalty fixed",
        refits(model_name, **settings),
        statements,
        n_short=n_short,
    )


ROWS = [
    _row("KernelRidge", "jackknife", jackknife=True, n_short=25),
    _row("KernelRidge", "bootstrap", n_bootstrap=100),
    _row("SVR", "bootstrap", n_bootstrap=100),
    _row("KernelLogisticRegression", "bootstrap", n_bootstrap=100),
    _row("SVC", "bootstrap", n_bootstrap=100),
]
