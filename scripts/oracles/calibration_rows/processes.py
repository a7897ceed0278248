"""Rows of Gaussian process regression and classification."""

from __future__ import annotations

import numpy as np
from calibration_designs import drawn, gaussian_kernel, kinked
from calibration_measures import EXACT, EXACT_REASON, Events, Intervals, Row, generator

import riesz
from riesz.kernels import RBF, Constant, Matern

N_NEW = 50


def _prior_draw(rng, n_rows, length_scale_range=(0.7, 2.5)):
    """Rows of 2 columns, a draw of a Gaussian process, and its random variance and length scales."""
    X = rng.uniform(-2, 2, size=(n_rows, 2))
    length_scales = np.exp(rng.uniform(*np.log(length_scale_range), 2))
    variance = float(np.exp(rng.uniform(np.log(0.5), np.log(4))))
    truth = drawn(rng, gaussian_kernel(X, length_scales, variance))
    return X, truth, (variance, length_scales)


def _exact_std(X, new, variance, length_scales, noise):
    """Standard deviations of the exact process with the true hyper-parameters, by its closed form."""
    n = len(X)
    covariance = gaussian_kernel(np.vstack([X, new]), length_scales, variance)
    solved = np.linalg.solve(covariance[:n, :n] + noise * np.eye(n), covariance[:n, n:])
    return np.sqrt(variance - (covariance[:n, n:] * solved).sum(axis=0))


def _regression_measurements(model, new, truth, oracle_std=None):
    """Intervals of values, of differences of pairs, and between quantiles of joint draws."""
    mean, std = model.predict(new, return_std=True)
    cov = model.predict(new, return_cov=True)[1]
    pairs = np.arange(len(new)).reshape(-1, 2)
    difference = lambda values: values[pairs[:, 0]] - values[pairs[:, 1]]
    variance = np.diag(cov)[pairs].sum(axis=1) - 2 * cov[pairs[:, 0], pairs[:, 1]]
    draws = model.sample_y(new, n_samples=1000, random_state=0)
    return {
        "function at new rows": Intervals.from_normal(truth, mean, std, oracle_std),
        "differences between new rows": Intervals.from_normal(
            difference(truth), difference(mean), np.sqrt(np.maximum(variance, 0))
        ),
        "function, by draws": Intervals.from_draws(truth, draws, axis=1),
    }


REGRESSION = {
    "function at new rows": (
        "GaussianProcessRegressor.predict",
        "Expansion.predict",
        "Expansion.predict_link",
    ),
    "differences between new rows": ("GaussianProcessRegressor.predict",),
    "function, by draws": ("GaussianProcessRegressor.sample_y", "Expansion.sample"),
}


#: The number of samples of hyper-parameters of averages.
AVERAGED = {"n_hyperparameter_samples": 64}


def regression(n_rows, is_tuned, n_inducing=None, **average):
    """Regression of a draw of the prior, with true, tuned or averaged hyper-parameters."""

    def measure(seed):
        rng = generator(seed, "regression")
        X, truth, (variance, length_scales) = _prior_draw(rng, n_rows + N_NEW)
        noise = float(np.exp(rng.uniform(np.log(0.01), np.log(0.25))))
        y = truth[:n_rows] + np.sqrt(noise) * rng.normal(size=n_rows)
        settings = {"n_inducing": n_inducing, "random_state": 0} | average
        if is_tuned:
            kernel = "auto" if average else Constant(1.0) * RBF([1.0, 1.0])
            model = riesz.GaussianProcessRegressor(kernel, **settings)
        else:
            kernel = Constant(variance) * RBF(length_scales.tolist())
            settings |= {"alpha": noise, "optimizer": None, "normalize_y": False}
            model = riesz.GaussianProcessRegressor(kernel, **settings)
        new = X[n_rows:]
        oracle = _exact_std(X[:n_rows], new, variance, length_scales, noise)
        return _regression_measurements(model.fit(X[:n_rows], y), new, truth[n_rows:], oracle)

    return measure


def misspecified_regression(kind, kernel=None, **average):
    """Regression of a function that is no draw of the default kernel."""

    def measure(seed):
        rng = generator(seed, kind)
        X = rng.uniform(-2, 2, size=(100 + N_NEW, 2))
        if kind == "kinks":
            truth = kinked(X)
        elif kind == "rough":
            distance = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
            truth = drawn(rng, np.exp(-distance / 1.5))
        else:
            truth = 2 * np.tanh(2 * X[:, 0]) + 0.5 * X[:, 0] * X[:, 1]
        y = truth[:100] + 0.1 * rng.normal(size=100)
        model = riesz.GaussianProcessRegressor(
            Constant(1.0) * RBF([1.0, 1.0]) if kernel is None else kernel, random_state=0, **average
        )
        return _regression_measurements(model.fit(X[:100], y), X[100:], truth[100:])

    return measure


CONDITIONAL_MEANS = {
    "expectation of Y": ("ConditionalMean.expectation", "ConditionalMean.cov"),
    "expectation of its square": ("ConditionalMean.expectation",),
}


def conditional_mean(seed):
    """Expectations of Y and of its square, which are known."""
    rng = generator(seed, "conditional mean")
    X = rng.uniform(-2, 2, size=(100 + N_NEW, 1))
    location = np.sin(2 * X[:, 0])
    Y = location[:100] + 0.5 * rng.normal(size=100)
    model = riesz.ConditionalMean().fit(X[:100], Y[:, None])
    mean, std = model.expectation(np.column_stack([Y, Y**2]), X[100:], return_std=True)
    truth = np.column_stack([location[100:], location[100:] ** 2 + 0.25])
    return {
        name: Intervals.from_normal(truth[:, k], mean[:, k], std[:, k])
        for k, name in enumerate(CONDITIONAL_MEANS)
    }


CLASSIFICATION = {
    "latent function": ("GaussianProcessClassifier.latent_mean_and_variance", "Expansion.predict_link"),
    "class probabilities": ("GaussianProcessClassifier.predict_proba", "Expansion.predict_proba"),
}


def classification(n_rows, is_tuned, n_landmarks=None, kind="prior", **average):
    """Classification by the sign of a drawn latent function plus logistic noise, or of steps."""

    def measure(seed):
        rng = generator(seed, f"classification, {kind}")
        X, latent, (variance, length_scales) = _prior_draw(rng, n_rows + N_NEW)
        if kind == "steps":
            latent = 2.0 * np.sign(X[:, 0] - rng.uniform(-1, 1)) + np.sign(X[:, 1] - rng.uniform(-1, 1))
        labels = rng.random(len(X)) < 1 / (1 + np.exp(-latent))
        labels[:2] = True, False
        settings = {"n_landmarks": n_landmarks, "random_state": 0} | average
        if is_tuned:
            kernel = "auto" if average else Constant(1.0) * RBF([1.0, 1.0])
            model = riesz.GaussianProcessClassifier(kernel, **settings)
        else:
            kernel = Constant(variance) * RBF(length_scales.tolist())
            model = riesz.GaussianProcessClassifier(kernel, optimizer=None, **settings)
        model.fit(X[:n_rows], labels[:n_rows])
        mean, variance = model.latent_mean_and_variance(X[n_rows:])
        return {
            "latent function": Intervals.from_normal(latent[n_rows:], mean, np.sqrt(variance)),
            "class probabilities": Events(model.predict_proba(X[n_rows:])[:, 1], labels[n_rows:]),
        }

    return measure


def three_classes(seed):
    """Three classes with probabilities proportional to the exponentials of three drawn functions."""
    rng = generator(seed, "three classes")
    X = rng.uniform(-2, 2, size=(120 + N_NEW, 2))
    covariance = gaussian_kernel(X, np.array([1.2, 1.2]), 3.0)
    latent = np.column_stack([drawn(rng, covariance) for _ in range(3)])
    probability = np.exp(latent) / np.exp(latent).sum(axis=1, keepdims=True)
    labels = (rng.random(len(X))[:, None] > probability.cumsum(axis=1)).sum(axis=1)
    labels[:3] = 0, 1, 2
    model = riesz.GaussianProcessClassifier(Constant(1.0) * RBF([1.0, 1.0]), random_state=0)
    stated = model.fit(X[:120], labels[:120]).predict_proba(X[120:])
    return {"class probabilities": Events(stated.ravel(), (np.eye(3)[labels[120:]] > 0).ravel())}


_PRIOR = "draw of a Gaussian process with random hyper-parameters"
_DEFAULT = "Gaussian kernel, tuned"
_AVERAGED = 'kernel "auto", averaged over 64 samples of hyper-parameters and over profiles'

AVERAGED_REGRESSION = REGRESSION | {
    "function at new rows": ("GaussianProcessRegressor.predict", "ModelAverage.predict"),
    "function, by draws": ("GaussianProcessRegressor.sample_y", "ModelAverage.sample"),
}
AVERAGED_CLASSIFICATION = {
    "latent function": ("GaussianProcessClassifier.latent_mean_and_variance", "ModelAverage.predict"),
    "class probabilities": ("GaussianProcessClassifier.predict_proba", "ModelAverage.predict_proba"),
}

ROWS = [
    Row(
        "regression, true hyper-parameters",
        f"{_PRIOR}; 60 rows of 2 columns",
        "GaussianProcessRegressor, kernel and noise known",
        regression(60, is_tuned=False),
        REGRESSION,
        EXACT,
        EXACT_REASON,
        n_short=60,
        n_least=50,
    ),
    Row(
        "regression, tuned",
        f"{_PRIOR}; 60 rows of 2 columns",
        _DEFAULT,
        regression(60, is_tuned=True),
        REGRESSION,
        n_short=20,
    ),
    Row(
        "regression, averaged",
        f"{_PRIOR}; 60 rows of 2 columns",
        _AVERAGED,
        regression(60, is_tuned=True, **AVERAGED),
        AVERAGED_REGRESSION,
        n_short=10,
    ),
    Row(
        "regression, inducing points, true hyper-parameters",
        f"{_PRIOR}; 200 rows of 2 columns",
        "40 inducing points, kernel and noise known",
        regression(200, is_tuned=False, n_inducing=40),
        REGRESSION,
        n_short=25,
    ),
    Row(
        "regression, inducing points, tuned",
        f"{_PRIOR}; 200 rows of 2 columns",
        "40 inducing points, tuned",
        regression(200, is_tuned=True, n_inducing=40),
        REGRESSION,
    ),
    Row(
        "regression, smooth function",
        "2 tanh 2x₀ + x₀x₁/2, which is no draw; 100 rows",
        _DEFAULT,
        misspecified_regression("smooth"),
        REGRESSION,
    ),
    Row(
        "regression, smooth function, averaged",
        "2 tanh 2x₀ + x₀x₁/2, which is no draw; 100 rows",
        _AVERAGED,
        misspecified_regression("smooth", "auto", **AVERAGED),
        AVERAGED_REGRESSION,
    ),
    Row(
        "regression, kinks",
        "function with kinks; 100 rows of 2 columns",
        _DEFAULT,
        misspecified_regression("kinks"),
        REGRESSION,
    ),
    Row(
        "regression, kinks, averaged",
        "function with kinks; 100 rows of 2 columns",
        _AVERAGED,
        misspecified_regression("kinks", "auto", **AVERAGED),
        AVERAGED_REGRESSION,
    ),
    Row(
        "regression, rough function",
        "draw of an Ornstein-Uhlenbeck process; 100 rows of 2 columns",
        _DEFAULT,
        misspecified_regression("rough"),
        REGRESSION,
    ),
    Row(
        "regression, rough function, averaged",
        "draw of an Ornstein-Uhlenbeck process; 100 rows of 2 columns",
        _AVERAGED,
        misspecified_regression("rough", "auto", **AVERAGED),
        AVERAGED_REGRESSION,
    ),
    Row(
        "regression, rough function, Laplacian, averaged",
        "draw of an Ornstein-Uhlenbeck process; 100 rows of 2 columns",
        "Laplacian kernel, averaged over 64 samples of hyper-parameters",
        misspecified_regression("rough", "laplacian(ard)", **AVERAGED),
        AVERAGED_REGRESSION,
    ),
    Row(
        "regression, kinks, Matérn",
        "function with kinks; 100 rows of 2 columns",
        "Matérn kernel of order 3/2, tuned",
        misspecified_regression("kinks", Constant(1.0) * Matern([1.0, 1.0], nu=1.5)),
        REGRESSION,
    ),
    Row(
        "regression, rough function, Matérn",
        "draw of an Ornstein-Uhlenbeck process; 100 rows of 2 columns",
        "Matérn kernel of order 3/2, tuned",
        misspecified_regression("rough", Constant(1.0) * Matern([1.0, 1.0], nu=1.5)),
        REGRESSION,
    ),
    Row(
        "classification, true hyper-parameters",
        f"{_PRIOR} and logistic noise; 100 rows of 2 columns",
        "GaussianProcessClassifier, kernel known",
        classification(100, is_tuned=False),
        CLASSIFICATION,
        n_short=40,
    ),
    Row(
        "classification, tuned",
        f"{_PRIOR} and logistic noise; 100 rows of 2 columns",
        _DEFAULT,
        classification(100, is_tuned=True),
        CLASSIFICATION,
    ),
    Row(
        "classification, averaged",
        f"{_PRIOR} and logistic noise; 100 rows of 2 columns",
        _AVERAGED,
        classification(100, is_tuned=True, **AVERAGED),
        AVERAGED_CLASSIFICATION,
    ),
    Row(
        "classification, landmarks",
        f"{_PRIOR} and logistic noise; 400 rows of 2 columns",
        "40 landmarks, kernel known",
        classification(400, is_tuned=False, n_landmarks=40),
        CLASSIFICATION,
    ),
    Row(
        "classification, steps",
        "log odds are steps; 150 rows of 2 columns",
        _DEFAULT,
        classification(150, is_tuned=True, kind="steps"),
        CLASSIFICATION,
    ),
    Row(
        "classification, steps, averaged",
        "log odds are steps; 150 rows of 2 columns",
        _AVERAGED,
        classification(150, is_tuned=True, kind="steps", **AVERAGED),
        AVERAGED_CLASSIFICATION,
    ),
    Row(
        "classification, three classes",
        "softmax of three draws; 120 rows of 2 columns",
        "one-vs-rest, tuned",
        three_classes,
        {"class probabilities": ("GaussianProcessClassifier.predict_proba",)},
    ),
    Row(
        "conditional mean embedding",
        "Y normal around a sine of X; 100 rows",
        "ConditionalMean, default",
        conditional_mean,
        CONDITIONAL_MEANS,
    ),
]
