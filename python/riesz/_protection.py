"""Training that is told not to lean on some features: a penalty on their Shapley values at the training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._data import as_numbers

GAMES = ("interventional", "observational")


def penalty(estimator: Any, kernel: str, names: list[str], X: np.ndarray) -> tuple[np.ndarray, float] | None:
    """What the estimator's ``protect`` asks for: functionals of the coefficients, and how strongly they are penalised."""
    if estimator.protect is None:
        for name, default in [("protect_strength", 1.0), ("protect_ridge", None), ("protect_background", None)]:
            if getattr(estimator, name) != default:
                raise ValueError(f"{name} is given, but no feature to protect: name some with protect=[...]")
        return None
    strength = estimator.protect_strength
    if not isinstance(strength, (int, float, np.number)) or not 0 <= strength < np.inf:
        raise ValueError(f"protect_strength = {strength!r}: it is a number that is not negative")
    known = getattr(estimator, "_functionals", None)
    if known is None:
        known = functionals(estimator, kernel, names, X)
    return known, float(strength)


def functionals(estimator: Any, kernel: str, names: list[str], X: np.ndarray) -> np.ndarray:
    """The protected players' Shapley values at the rows of ``X`` as functionals of the coefficients, (n, players * n)."""
    game, ridge, background = estimator.protect_game, estimator.protect_ridge, estimator.protect_background
    if game not in GAMES:
        raise ValueError(f"protect_game = {game!r}: it is 'interventional' or 'observational'")
    if ridge is not None and game != "observational":
        raise ValueError("protect_ridge is a setting of the observational game: leave it out, or name that game")
    rows = X if background is None else as_numbers(background, names, "protect_background")
    if not len(rows):
        raise ValueError("protect_background has no rows")
    groups = players(estimator.protect, names)
    return _core.functionals(kernel, names, X, game, rows, groups, [name for name, _ in groups], ridge)


def players(protect: Any, names: list[str]) -> list[tuple[str, list[int]]]:
    """The protected players: columns by name or number, or groups of them in a dict."""
    if isinstance(protect, (str, int, np.integer)):
        protect = [protect]
    if not isinstance(protect, (Mapping, Sequence, np.ndarray)) or not len(protect):
        raise ValueError(f"protect = {protect!r}: it is a list of columns, or a dict from names to lists of columns")
    groups: dict[Any, Any] = dict(protect) if isinstance(protect, Mapping) else {column: [column] for column in protect}
    found = []
    for name, columns in groups.items():
        own = []
        for column in [columns] if isinstance(columns, (str, int, np.integer)) else columns:
            if isinstance(column, (bool, np.bool_)):
                raise ValueError(f"protect names the column {column!r}: give names or numbers")
            if isinstance(column, str) and column in names:
                own.append(names.index(column))
            elif isinstance(column, (int, np.integer)) and 0 <= column < len(names):
                own.append(int(column))
            else:
                raise ValueError(f"protect names the column {column!r}; the columns are: {', '.join(names)}")
        alone = len(own) == 1 and not isinstance(protect, Mapping)
        found.append((names[own[0]] if alone else str(name), own))
    return found


@dataclass(frozen=True)
class ProtectionPath:
    """How a model changes as features are protected more strongly, one entry a strength."""

    #: (s,)
    strengths: np.ndarray
    #: The estimator's ``score`` at each strength, (s,).
    scores: np.ndarray
    #: Mean absolute Shapley value of each feature at each strength, (s, features).
    importances: np.ndarray
    feature_names: list[str]
    protected: list[str]
    #: The fitted estimators.
    estimators: list[Any]

    def plot(self, ax: Any = None) -> Any:
        """:func:`riesz.plots.protection_path`."""
        from . import plots

        return plots.protection_path(self, ax=ax)


def protection_path(
    estimator: Any, X: Any, y: Any, strengths: Sequence[float], *, X_test: Any = None, y_test: Any = None
) -> ProtectionPath:
    """Fits ``estimator``, whose ``protect`` names features, at each strength; scores it, and explains it under ``protect_game``.

    Scores and Shapley values are those of the test rows, or of the training rows if there are none. What is penalised is computed
    once: a further strength costs a fit.
    """
    from sklearn.base import clone

    from ._explainer import Explainer

    if estimator.protect is None:
        raise ValueError("the estimator protects no feature: name some with protect=[...]")
    rows, target = (X, y) if X_test is None else (X_test, y_test)
    shared = None
    fitted, scores, importances = [], [], []
    names: list[str] = []
    for strength in strengths:
        one = clone(estimator).set_params(protect_strength=strength)
        one._functionals = shared
        one.fit(X, y)
        shared = one._functionals
        del one._functionals
        background = X if one.protect_background is None else one.protect_background
        groups = dict(players(one.protect, one.expansion_.feature_names))
        explainer = Explainer(one, background, game=one.protect_game, ridge=one.protect_ridge, groups=groups)
        explanation = explainer(rows)
        values = np.abs(explanation.values)
        importances.append(values.mean(axis=0) if values.ndim == 2 else values.mean(axis=(0, 2)))
        scores.append(float(one.score(rows, target)))
        fitted.append(one)
        names = explanation.feature_names
    protected = [name for name, _ in players(estimator.protect, fitted[0].expansion_.feature_names)] if fitted else []
    return ProtectionPath(
        np.asarray(strengths, dtype=float), np.asarray(scores), np.asarray(importances), names, protected, fitted
    )
