"""Rows of real data sets: held-out targets and classes, beside the Gaussian processes of scikit-learn, and
for regression of GPyTorch if it is installed.

The truth of real data is not known, so the rows measure predictive intervals of held-out targets with noise,
and probabilities of held-out classes. Mean log scores, of which larger ones are better, compare models."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from calibration_measures import Events, Intervals, Row, Scores, generator
from scipy.stats import norm
from sklearn import datasets
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor, kernels

import riesz
from riesz.kernels import RBF, Constant

N_TRAIN = 150

HAS_GPYTORCH = find_spec("gpytorch") is not None


def _split(seed, load):
    """Standardised rows and targets of a random split: training rows first."""
    X, y = load(return_X_y=True)
    order = generator(seed, load.__name__).permutation(len(X))
    X, y = X[order], y[order]
    train = X[:N_TRAIN]
    deviation = train.std(axis=0)
    return (X - train.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), y


def regression(load):
    """Held-out targets, with the posterior's variance and that of the noise."""

    def measure(seed):
        X, y = _split(seed, load)
        d, measured = X.shape[1], {}
        models = {
            "riesz": riesz.GaussianProcessRegressor(Constant(1.0) * RBF([3.0] * d), random_state=0),
            "riesz, averaged": riesz.GaussianProcessRegressor(
                "auto", n_hyperparameter_samples=64, random_state=0
            ),
        }
        predictions = {}
        for name, model in models.items():
            mean, std = model.fit(X[:N_TRAIN], y[:N_TRAIN]).predict(X[N_TRAIN:], return_std=True)
            predictions[name] = mean, np.sqrt(std**2 + model.noise_)
        kernel = kernels.ConstantKernel(1.0) * kernels.RBF([3.0] * d) + kernels.WhiteKernel(0.1)
        theirs = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        theirs.fit(X[:N_TRAIN], y[:N_TRAIN])
        predictions["scikit-learn"] = theirs.predict(X[N_TRAIN:], return_std=True)
        if HAS_GPYTORCH:
            predictions["GPyTorch"] = _gpytorch_predictions(X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:])
        for name, (mean, std) in predictions.items():
            measured[f"targets, {name}"] = Intervals.from_normal(y[N_TRAIN:], mean, std)
            measured[f"log score, {name}"] = Scores(norm.logpdf(y[N_TRAIN:], mean, std))
        return measured

    return measure


def _gpytorch_predictions(X, y, new):
    """Means and standard deviations of new targets by GPyTorch's exact process with a Gaussian kernel, tuned
    as in its tutorial, to standardised targets."""
    import gpytorch
    import torch

    class Process(gpytorch.models.ExactGP):
        def __init__(self, X, y, likelihood):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            kernel = gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
            kernel.lengthscale = 3.0
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    center, scale = y.mean(), y.std()
    rows, targets = torch.tensor(X), torch.tensor((y - center) / scale)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(rows, targets, likelihood).double()
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        loss = -evidence(model(rows), targets)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        predicted = likelihood(model(torch.tensor(new)))
        return center + scale * predicted.mean.numpy(), scale * predicted.stddev.numpy()


def classification(load):
    """Held-out classes."""

    def measure(seed):
        X, y = _split(seed, load)
        d, measured = X.shape[1], {}
        models = {
            "riesz": riesz.GaussianProcessClassifier(Constant(1.0) * RBF([3.0] * d), random_state=0),
            "scikit-learn": GaussianProcessClassifier(
                kernels.ConstantKernel(1.0) * kernels.RBF([3.0] * d), random_state=0
            ),
        }
        held_out = y[N_TRAIN:]
        for name, model in models.items():
            probability = model.fit(X[:N_TRAIN], y[:N_TRAIN]).predict_proba(X[N_TRAIN:])
            chosen = probability.argmax(axis=1)
            measured[f"classes, {name}"] = Events(probability.max(axis=1), chosen == held_out)
            measured[f"log score, {name}"] = Scores(np.log(probability[np.arange(len(held_out)), held_out]))
        return measured

    return measure


def _row(load, measure, kind):
    models = ["riesz", "scikit-learn"]
    if kind == "targets":
        models = ["riesz", "riesz, averaged", "scikit-learn"] + ["GPyTorch"] * HAS_GPYTORCH
    names = [f"{quantity}, {model}" for model in models for quantity in (kind, "log score")]
    n_rows, d = load(return_X_y=True)[0].shape
    title = load.__name__.removeprefix("load_").replace("_", " ")
    return Row(
        f"held-out rows, {title}",
        f"{title}: {N_TRAIN} of {n_rows} rows, {d} columns",
        'Gaussian kernel with a length scale per column, tuned; averaged: kernel "auto" and 64 samples of '
        "hyper-parameters"
        if kind == "targets"
        else "Gaussian kernel with a length scale per column, tuned",
        measure(load),
        {name: () for name in names},
        without_verdict=tuple(name for name in names if "riesz" not in name),
    )


ROWS = [
    _row(datasets.load_diabetes, regression, "targets"),
    _row(datasets.load_breast_cancer, classification, "classes"),
    _row(datasets.load_wine, classification, "classes"),
]
