"""Multiplicative models as expansions: ``e^b Π_j e^{β_j x_j}`` is an exponential dot product kernel with one
support point β.

These are generalised linear models with a log link, proportional hazards, and the odds of naive Bayes and
logistic regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from .._core import UnsupportedModelError
from .._data.validation import as_cells
from ..kernels import ExponentialDotProduct
from .expansion import Expansion
from .loading import Imported, Part, Read, compare, expansion_of, imported_of, names_in
from .predictions import read_predictions


def _small_rows(points: np.ndarray) -> np.ndarray:
    """Returns rows for the comparison of models: zeros, and rows with one nonzero column that changes the
    exponent by at most one."""
    width = points.shape[1]
    rows = np.zeros((min(16, 1 + width), width))
    positions = np.arange(1, len(rows))
    largest = np.abs(points).max(axis=0)[positions - 1]
    rows[positions, positions - 1] = 1.0 / np.where(largest > 0, largest, 1.0)
    return rows


def _log_linear(
    model: Any, coef: np.ndarray, intercept: np.ndarray, explained: str, outputs: list[str], function: Any
) -> Read:
    """Returns ``e^{X coef' + intercept}`` in the user's columns."""

    expansions = lambda: [_exponential(model, coef, intercept, outputs)]
    return Read(
        explained, outputs, function, expansions, has_rows=False, rows=_small_rows(coef), is_product=True
    )


def _exponential(model, coef, intercept, outputs, names=None, center=None):
    with np.errstate(over="ignore"):
        weights = np.diag(np.exp(intercept))
    if center is None:
        return expansion_of(model, ExponentialDotProduct(), coef, weights, 0.0, outputs, names)
        # With this scale, a shifted support point loses at most the rounding of its distance to the centre.
    scale = np.sqrt((1.0 + np.abs(center)) / np.maximum(np.abs(coef).max(axis=0), 1e-100))
    kernel = ExponentialDotProduct(center=center.tolist(), scale=scale.tolist())
    return expansion_of(model, kernel, coef * scale**2 + center, weights, 0.0, outputs, names)


# scikit-learn
# ------------------------------------------------------------------------------------------------------


def log_linear_regressor(model: Any) -> Read | None:
    """Reads a generalised linear model with a log link; ``None`` for other links."""
    if type(model._base_loss.link).__name__ != "LogLink":
        return None
    coef, intercept = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64)), np.ravel(model.intercept_)
    return _log_linear(model, coef, intercept, "mean", ["y"], model.predict)


@dataclass(frozen=True)
class ComputedColumns:
    """Columns that are computed from the user's columns."""

    names: list[str]
    #: For each column the user's column that it comes from, and the transform of all columns.
    owners: list[int]
    transform: Callable[[Any], np.ndarray]
    #: Rows in the user's columns for the comparison of models.
    rows: np.ndarray


def _pairs(classes: list[str]) -> tuple[list[tuple[int, int]], list[str], str]:
    """Returns the pairs of classes of the odds, the names of the outputs, and their description."""
    if len(classes) == 2:
        return [(1, 0)], [classes[1]], f"odds of class '{classes[1]}' against '{classes[0]}'"
    pairs = list(combinations(range(len(classes)), 2))
    return (
        pairs,
        [f"{classes[i]} vs {classes[j]}" for i, j in pairs],
        "odds of the first class of each pair against the second",
    )


def _odds(model: Any, pairs: list[tuple[int, int]]) -> Callable[[Any], np.ndarray]:
    """Returns the model's odds as a function of rows."""

    def odds(rows):
        logs = np.asarray(model.predict_log_proba(rows))
        return np.exp(np.column_stack([logs[:, i] - logs[:, j] for i, j in pairs]))

    return odds


def _linear_odds(
    model: Any, coef: np.ndarray, intercept: np.ndarray, computed: ComputedColumns | None = None
) -> Read:
    """Reads the odds of a model whose log-probabilities are linear in columns computed from the user's, up to
    a term that all classes share."""
    pairs, outputs, explained = _pairs([str(name) for name in model.classes_])
    odds = _odds(model, pairs)
    first_classes, second_classes = ([pair[k] for pair in pairs] for k in (0, 1))
    coef, intercept = (
        coef[first_classes] - coef[second_classes],
        intercept[first_classes] - intercept[second_classes],
    )

    names, rows, columns_and_transform = None, _small_rows(coef), None
    if computed is not None:
        names, rows, columns_and_transform = (
            computed.names,
            computed.rows,
            (computed.owners, computed.transform),
        )
    expansions = lambda: [_exponential(model, coef, intercept, outputs, names)]
    return Read(
        explained,
        outputs,
        odds,
        expansions,
        has_rows=False,
        computed_columns=columns_and_transform,
        rows=rows,
        is_product=True,
    )


def gaussian_nb(model: Any) -> Read:
    """Reads Gaussian naive Bayes, over each column and its square, both centred at the mean of the classes'
    means."""
    theta, var = np.asarray(model.theta_), np.asarray(model.var_)
    middle, width = theta.mean(axis=0), theta.shape[1]
    deviations = theta - middle
    coef = np.hstack([deviations / var, -0.5 / var])
    intercept = np.log(model.class_prior_) - 0.5 * (np.log(var) + deviations**2 / var).sum(axis=1)
    names = names_in(model, width)

    def transform(rows):
        centred = as_cells(rows).astype(np.float64) - middle
        return np.hstack([centred, centred**2])

    columns = list(range(width)) * 2
    squares = [f"{name}²" for name in names]
    return _linear_odds(
        model,
        coef,
        intercept,
        ComputedColumns([*names, *squares], columns, transform, np.vstack([middle, theta])),
    )


def bernoulli_nb(model: Any) -> Read:
    """Reads Bernoulli naive Bayes, over each column, or its indicator of values above the threshold."""
    log_present = np.asarray(model.feature_log_prob_)
    absent = np.log1p(-np.exp(log_present))
    intercept = np.asarray(model.class_log_prior_) + absent.sum(axis=1)
    if model.binarize is None:
        return _linear_odds(model, log_present - absent, intercept)
    transform = lambda rows: (as_cells(rows) > model.binarize).astype(np.float64)
    width = log_present.shape[1]
    rows = np.vstack([np.zeros(width), np.eye(width)[:15]]) + model.binarize
    return _linear_odds(
        model,
        log_present - absent,
        intercept,
        ComputedColumns(names_in(model, width), list(range(width)), transform, rows),
    )


def counting_nb(model: Any) -> Read:
    """Reads multinomial or complement naive Bayes, over counts."""
    coef = np.asarray(model.feature_log_prob_)
    prior = (
        np.zeros(len(coef)) if type(model).__name__ == "ComplementNB" else np.asarray(model.class_log_prior_)
    )
    return _linear_odds(model, coef, prior)


def categorical_nb(model: Any) -> Read:
    """Reads categorical naive Bayes, over indicators of the levels of each column."""
    tables = [np.asarray(table) for table in model.feature_log_prob_]
    names = names_in(model, len(tables))
    owners = [j for j, table in enumerate(tables) for _ in range(table.shape[1])]
    level = np.array([k for table in tables for k in range(table.shape[1])])

    def transform(rows):
        codes = as_cells(rows).astype(np.float64)
        for j, table in enumerate(tables):
            if not np.isin(codes[:, j], np.arange(table.shape[1])).all():
                raise ValueError(
                    f"the column '{names[j]}' has a category that the model does not know: it knows 0 to "
                    f"{table.shape[1] - 1}"
                )
        return (codes[:, owners] == level).astype(np.float64)

    levels = [f"{names[j]}={k}" for j, k in zip(owners, level)]
    rows = np.array([[min(k, table.shape[1] - 1) for table in tables] for k in range(16)], dtype=np.float64)
    return _linear_odds(
        model,
        np.hstack(tables),
        np.asarray(model.class_log_prior_),
        ComputedColumns(levels, owners, transform, rows),
    )


def odds_model(model: Any) -> Expansion:
    """Returns the odds of a fitted logistic regression of scikit-learn, as a model to explain.

    ``Explainer(model)`` explains its decision function, the log odds, in which features are additive. In the
    odds they are multiplicative, and Shapley values explain the difference from the mean odds of the
    background.

    Parameters
    ----------
    model
        A fitted ``LogisticRegression`` or ``LogisticRegressionCV``. With two classes the result has the odds
        of the second class; with more (multinomial) those of each pair.

    Returns
    -------
    Expansion

    Raises
    ------
    UnsupportedModelError
        For other models, and for models of several classes that are not multinomial.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> model = LogisticRegression().fit(X, X[:, 0] > 0)
    >>> explanation = riesz.Explainer(riesz.odds_model(model), X[:10])(X[:3])
    >>> bool(np.allclose(explanation.predictions, np.exp(model.decision_function(X[:3]))))
    True
    """
    if not any(kind.__name__ == "LogisticRegression" for kind in type(model).__mro__):
        raise UnsupportedModelError(
            f"a {type(model).__name__} is no LogisticRegression, whose odds are known"
        )
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    coef, intercept = np.atleast_2d(model.coef_), np.ravel(model.intercept_)
    if len(model.classes_) == 2:
        coef, intercept = np.vstack([0.0 * coef, coef]), np.concatenate([[0.0], intercept])
    rows = _small_rows(coef)
    imported = imported_of(model, _linear_odds(model, coef, intercept), names_in(model, coef.shape[1]))
    (part,) = imported.readable()[0]
    error = compare(imported, rows, [rows])
    if error is not None:
        raise error
    return part.expansion


# Other libraries
# ---------------------------------------------------------------------------------------------------


def _package(model: Any) -> str:
    return type(model).__module__.split(".")[0]


def is_multiplicative(model: Any) -> bool:
    """Whether the model is a result of statsmodels or a fitter of lifelines."""
    return not isinstance(model, type) and _package(model) in ("statsmodels", "lifelines")


def read_multiplicative(model: Any) -> Imported:
    """Reads a generalised linear model with a log link, or a model of proportional hazards."""
    reader = {"GLMResultsWrapper": _glm, "GLMResults": _glm, "CoxPHFitter": _cox}.get(type(model).__name__)
    try:
        if reader is None:
            raise UnsupportedModelError(
                f"a {type(model).__name__} of {_package(model)} is not read: GLMResults with a log link and "
                "CoxPHFitter are"
            )
        return reader(model)
    except UnsupportedModelError as error:
        if not hasattr(model, "predict"):
            raise
        return read_predictions(model, error)


def _one_product(model, names, coef, intercept, center, output, function, explained):
    points = np.atleast_2d(coef)
    rows = _small_rows(points) if center is None else _small_rows(points) + center
    expansion = _exponential(model, points, np.atleast_1d(intercept), [output], names, center)
    kind = type(model).__name__.removesuffix("Wrapper")
    blocks = [[Part.from_expansion(expansion, has_rows=False)]]
    return Imported(
        blocks, explained, names, kind, [output], function, needs_comparison=True, rows=rows, is_product=True
    )


def _glm(results):
    link = type(results.model.family.link).__name__
    if link != "Log":
        raise UnsupportedModelError(
            f"the GLMResults has the link {link}: a log link makes a product of features' factors"
        )
    names = [str(name) for name in results.model.exog_names]
    mean = lambda rows: np.asarray(
        results.model.predict(np.asarray(results.params), as_cells(rows).astype(np.float64))
    )
    coef = np.asarray(results.params, dtype=np.float64)
    return _one_product(results, names, coef, 0.0, None, str(results.model.endog_names), mean, "mean")


def _cox(fitter):
    from pandas import DataFrame

    if not hasattr(fitter, "params_"):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError("this CoxPHFitter is not fitted yet: call fit first")
    names, coef = [str(name) for name in fitter.params_.index], np.asarray(fitter.params_, dtype=np.float64)
    center = np.asarray(fitter._norm_mean[fitter.params_.index], dtype=np.float64)

    def hazard_ratio(rows):
        frame = DataFrame(as_cells(rows).astype(np.float64), columns=names)
        return np.asarray(fitter.predict_partial_hazard(frame))

    explained = "partial hazard: the hazard ratio to a row of the training data's means"
    try:
        imported = _one_product(fitter, names, coef, 0.0, center, "hazard ratio", hazard_ratio, explained)
        error: Exception | None = compare(imported, imported.rows, [imported.rows])
    except (KeyError, ValueError, TypeError) as reading_error:
        error = reading_error
    if error is not None:
        raise UnsupportedModelError(
            f"the CoxPHFitter cannot be read, as covariates are made of columns by a formula: {error}"
        )
    return imported
