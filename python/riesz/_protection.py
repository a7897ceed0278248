"""Training that is told not to lean on some features: a penalty on their Shapley values at the training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import _core
from ._data import as_numbers
from .games import Game, Interventional, game_of, settings_of

#: What says how features are protected, and is refused where none are.
DEFAULTS = {"protect_strength": 1.0, "protect_game": "interventional", "protect_coalitions": None, "protect_seed": 0}

#: Functionals of the coefficients, (n, players * n), and of how many coalitions they are estimates, if they are.
Functionals = tuple[np.ndarray, int | None]


def penalty(
    estimator: Any, kernel: str, names: list[str], X: np.ndarray, known: Functionals | None
) -> tuple[np.ndarray, float, int | None] | None:
    """What the estimator's ``protect`` asks for: functionals of the coefficients (or those that are known already), how strongly
    they are penalised, and of how many coalitions they are estimates."""
    if estimator.protect is None:
        for name, default in DEFAULTS.items():
            if getattr(estimator, name) != default:
                raise ValueError(f"{name} is given, but no feature to protect: name some with protect=[...]")
        return None
    strength = estimator.protect_strength
    if not isinstance(strength, (int, float, np.number)) or not 0 <= strength < np.inf:
        raise ValueError(f"protect_strength = {strength!r}: it is a number that is not negative")
    z, sampled = functionals(estimator, kernel, names, X) if known is None else known
    return z, float(strength), sampled


def functionals(estimator: Any, kernel: str, names: list[str], X: np.ndarray) -> Functionals:
    """The protected players' Shapley values at the rows of ``X``."""
    game = protected_game(estimator, X)
    rows = as_numbers(game.background, names, "protect_game's background")
    if not len(rows):
        raise ValueError("protect_game's background has no rows")
    groups = players(estimator.protect, names)
    settings = settings_of({**game._settings(names), **_budget(estimator)})
    weights = None if game.weights is None else np.ascontiguousarray(game.weights, dtype=np.float64)
    return _core.functionals(kernel, names, X, settings, rows, weights, groups, [name for name, _ in groups])


def _budget(estimator: Any) -> dict[str, Any]:
    return {"coalitions": estimator.protect_coalitions, "seed": estimator.protect_seed}


def protected_game(estimator: Any, X: Any) -> Game:
    """The game whose values are penalised, by default against the training rows."""
    game = game_of(estimator.protect_game, None, None, "protect_game")
    if game is None:
        game = Interventional()
    return replace(game, background=X) if game.background is None else game


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
    once: a further strength costs a fit, which for a logistic regression starts where the previous one ended.
    """
    from sklearn.base import clone

    from ._explainer import Explainer

    if estimator.protect is None:
        raise ValueError("the estimator protects no feature: name some with protect=[...]")
    rows, target = (X, y) if X_test is None else (X_test, y_test)
    path: dict[str, Any] = {}
    fitted, scores, importances = [], [], []
    names: list[str] = []
    for strength in strengths:
        one = clone(estimator).set_params(protect_strength=strength)
        # What the fits leave for one another.
        one._path = path
        one.fit(X, y)
        del one._path
        groups = dict(players(one.protect, one.expansion_.feature_names))
        explanation = Explainer(one, game=protected_game(one, X), groups=groups, **_budget(one))(rows)
        values = np.abs(explanation.values)
        importances.append(values.mean(axis=0) if values.ndim == 2 else values.mean(axis=(0, 2)))
        scores.append(float(one.score(rows, target)))
        fitted.append(one)
        names = explanation.feature_names
    protected = [name for name, _ in players(estimator.protect, fitted[0].expansion_.feature_names)] if fitted else []
    return ProtectionPath(
        np.asarray(strengths, dtype=float), np.asarray(scores), np.asarray(importances), names, protected, fitted
    )
