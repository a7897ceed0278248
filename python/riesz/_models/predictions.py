"""Fitted models without an expansion, as functions that return their predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core import UnsupportedModelError
from .._data.validation import names_of, numbered
from .loading import Imported

#: The outputs of a model: their description, their names (empty if there are none), and the function of rows.
Outputs = tuple[str, list[str], Callable[[Any], Any]]


def read_predictions(model: Any, reason: UnsupportedModelError, prefer_scores: bool = False) -> Imported:
    """Reads any fitted model with a ``predict``, explained by its probabilities if it is a classifier, and
    else by its predictions.

    Parameters
    ----------
    reason
        The reason why values are not exact; raised for a model without ``predict``.
    prefer_scores
        Whether a decision function is preferred to probabilities.
    """
    output_function = _outputs(model, prefer_scores)
    if output_function is None:
        raise reason
    explained, outputs, function = output_function
    names = _names(model)
    return Imported([], explained, names, type(model).__name__, outputs, _with_names(function, names), reason)


def _outputs(model: Any, prefer_scores: bool) -> Outputs | None:
    classes = getattr(model, "classes_", None)
    # CatBoost's regressors have an empty list of classes.
    classes = None if classes is not None and not len(classes) else classes
    scores, probabilities = getattr(model, "decision_function", None), getattr(model, "predict_proba", None)
    if scores is not None and (prefer_scores or probabilities is None):
        names = [] if classes is None or np.ndim(classes) != 1 else [str(name) for name in classes]
        return "decision function", names[1:] if len(names) == 2 else [], scores
    if probabilities is not None:
        return (
            "probabilities (predict_proba)",
            class_names(model),
            lambda rows: _side_by_side(probabilities(rows)),
        )
    if _is_booster(model):
        # inplace_predict takes arrays and data frames; predict takes XGBoost's own matrices.
        return "prediction", [], model.inplace_predict
    predict = getattr(model, "predict", None)
    if predict is None:
        return None
    labels = getattr(model, "labels_", None) if classes is None else classes
    if labels is None or np.ndim(labels) != 1:
        return "prediction", [], predict
    # Labels are not quantities, even if they are numbers.
    distinct = np.unique(labels)
    indicator = lambda rows: (np.asarray(predict(rows))[:, None] == distinct).astype(np.float64)
    return "predicted class (1 where it is predicted, else 0)", [str(name) for name in distinct], indicator


def class_names(model: Any) -> list[str]:
    """Returns the class names of a classifier, in the order of its probabilities; for several targets one
    target after the other."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return []
    if isinstance(classes, (list, tuple)) and any(
        np.ndim(classes_of_target) == 1 for classes_of_target in classes
    ):
        return [f"y{o}: {name}" for o, classes_of_target in enumerate(classes) for name in classes_of_target]
    return [str(name) for name in classes] if np.ndim(classes) == 1 else []


def log_odds(model: Any) -> Callable[[Any], np.ndarray]:
    """Returns the log odds of each class against all others as a function of rows."""

    def function(rows: Any) -> np.ndarray:
        shares = np.asarray(_side_by_side(model.predict_proba(rows)), dtype=np.float64)
        if ((shares <= 0) | (shares >= 1)).any():
            raise ValueError(
                f"link='logit': the {type(model).__name__} gives a class the probability 0 or 1, whose "
                "log-odds are infinite: "
                "explain the probabilities, without link"
            )
        return np.log(shares) - np.log1p(-shares)

    return function


def _side_by_side(answer: Any) -> Any:
    """Returns one array of outputs; classifiers with several targets return a list of arrays."""
    return np.hstack(answer) if isinstance(answer, list) and np.ndim(answer[0]) == 2 else answer


def _is_booster(model: Any) -> bool:
    return type(model).__module__.startswith("xgboost.") and type(model).__name__ == "Booster"


def _names(model: Any) -> list[str]:
    """Returns the column names of a fitted model; numbered names if only their number is known, and an empty
    list otherwise."""
    names = getattr(model, "feature_names_in_", None)
    names = [] if names is None else [str(name) for name in names]
    # LightGBM generates these names for the columns of arrays.
    if names and names != [f"Column_{j}" for j in range(len(names))]:
        return names
    width = len(names) or getattr(model, "n_features_in_", None)
    return numbered(int(width)) if width else []


def _with_names(function: Callable[[Any], Any], names: Sequence[str]) -> Callable[[Any], Any]:
    """Returns ``function`` for data frames if the model was fitted on one and pandas is installed, without
    warnings about names."""

    def named(rows: Any) -> Any:
        if names and names != numbered(len(names)) and names_of(rows) is None and np.ndim(rows) == 2:
            try:
                import pandas
            except ImportError:
                pass
            else:
                rows = pandas.DataFrame(rows, columns=list(names)).infer_objects()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X (does not have|has) (valid )?feature names")
            return function(rows)

    return named
