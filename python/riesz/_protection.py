"""Training that is told not to lean on some features: a penalty on their Shapley values at the training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._data import as_numbers, is_whole

GAMES = ("interventional", "observational")


#: Settings of the observational game, with their defaults.
OBSERVATIONAL = {
    "protect_ridge": None,
    "protect_landmarks": None,
    "protect_random_features": None,
    "protect_coalitions": 4096,
    "protect_seed": 0,
}

#: Functionals of the coefficients, (n, players * n), and of how many coalitions they are estimates, if they are.
Functionals = tuple[np.ndarray, int | None]


def penalty(
    estimator: Any, kernel: str, names: list[str], X: np.ndarray, known: Functionals | None
) -> tuple[np.ndarray, float, int | None] | None:
    """What the estimator's ``protect`` asks for: functionals of the coefficients (or those that are known already), how strongly
    they are penalised, and of how many coalitions they are estimates."""
    if estimator.protect is None:
        for name, default in {"protect_strength": 1.0, "protect_background": None, **OBSERVATIONAL}.items():
            if _differs(getattr(estimator, name), default):
                raise ValueError(f"{name} is given, but no feature to protect: name some with protect=[...]")
        return None
    strength = estimator.protect_strength
    if not isinstance(strength, (int, float, np.number)) or not 0 <= strength < np.inf:
        raise ValueError(f"protect_strength = {strength!r}: it is a number that is not negative")
    z, sampled = functionals(estimator, kernel, names, X) if known is None else known
    return z, float(strength), sampled


def functionals(estimator: Any, kernel: str, names: list[str], X: np.ndarray) -> Functionals:
    """The protected players' Shapley values at the rows of ``X``."""
    game, background = estimator.protect_game, estimator.protect_background
    if game not in GAMES:
        raise ValueError(f"protect_game = {game!r}: it is 'interventional' or 'observational'")
    chosen = {name: getattr(estimator, name) for name in OBSERVATIONAL}
    for name, default in OBSERVATIONAL.items():
        if game != "observational" and _differs(chosen[name], default):
            raise ValueError(f"{name} is a setting of the observational game: leave it out, or name that game")
    for name, least in [("protect_landmarks", 1), ("protect_random_features", 1), ("protect_coalitions", 1), ("protect_seed", 0)]:
        value = chosen[name]
        if not (value is None and OBSERVATIONAL[name] is None) and not (is_whole(value) and least <= value < 2**63):
            raise ValueError(f"{name} = {value!r}: it is a whole number from {least}")
    if chosen["protect_landmarks"] is not None and chosen["protect_random_features"] is not None:
        raise ValueError("protect_landmarks and protect_random_features are two ways to the same end: choose one")
    rows = X if background is None else as_numbers(background, names, "protect_background")
    if not len(rows):
        raise ValueError("protect_background has no rows")
    groups = players(estimator.protect, names)
    return _core.functionals(kernel, names, X, game, rows, groups, [name for name, _ in groups], *chosen.values())


def _differs(value: Any, default: Any) -> bool:
    return (value is not None) if default is None else value != default


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
        background = X if one.protect_background is None else one.protect_background
        groups = dict(players(one.protect, one.expansion_.feature_names))
        chosen: dict[str, Any] = {}
        if one.protect_game == "observational":
            chosen = {name.removeprefix("protect_"): getattr(one, name) for name in OBSERVATIONAL}
        explainer = Explainer(one, background, game=one.protect_game, groups=groups, **chosen)
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
