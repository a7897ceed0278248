"""Protected features: a penalty on their Shapley values at the training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import _core
from .._data.validation import as_numbers
from ..games import Game, Interventional, game_of, settings_of

#: Settings of the protection with their defaults; other values are refused if no feature is protected.
DEFAULTS = {
    "protect_strength": 1.0,
    "protect_game": "interventional",
    "protect_coalitions": None,
}

#: Functionals of the coefficients, (n, players * n), and the number of coalitions if they are estimates.
Functionals = tuple[np.ndarray, int | None]


def penalty(
    estimator: Any, kernel: str, names: list[str], X: np.ndarray, given_functionals: Functionals | None
) -> tuple[np.ndarray, float, int | None] | None:
    """Returns the functionals of the coefficients for the estimator's ``protect`` or the
    ``given_functionals``, the strength of their penalty, and the number of coalitions if they are
    estimates."""
    if estimator.protect is None:
        for name, default in DEFAULTS.items():
            if getattr(estimator, name) != default:
                raise ValueError(f"{name} is given, but no feature to protect: name some with protect=[...]")
        return None
    strength = estimator.protect_strength
    if not isinstance(strength, (int, float, np.number)) or not 0 <= strength < np.inf:
        raise ValueError(f"protect_strength = {strength!r}: it is a number that is not negative")
    z, sampled = functionals(estimator, kernel, names, X) if given_functionals is None else given_functionals
    return z, float(strength), sampled


def functionals(estimator: Any, kernel: str, names: list[str], X: np.ndarray) -> Functionals:
    """Returns the protected players' Shapley values at the rows of ``X``, as functionals of coefficients."""
    game = protected_game(estimator, X)
    levels = estimator._levels
    # The training rows already hold codes.
    rows = (
        X if game.background is X else as_numbers(game.background, names, "protect_game's background", levels)
    )
    if not len(rows):
        raise ValueError("protect_game's background has no rows")
    groups = players(estimator.protect, names)
    settings = settings_of({**game._settings(names), **budget(estimator)})
    weights = None if game.weights is None else np.ascontiguousarray(game.weights, dtype=np.float64)
    table = names, levels or [None] * len(names), X
    return _core.functionals(kernel, table, settings, rows, weights, groups, [name for name, _ in groups])


def budget(estimator: Any) -> dict[str, Any]:
    """Returns the settings of the sampling of coalitions."""
    return {"n_coalitions": estimator.protect_coalitions, "random_state": estimator._refits()["seed"]}


def protected_game(estimator: Any, X: Any) -> Game:
    """Returns the game of the penalised values, by default with the training rows as background."""
    game = game_of(estimator.protect_game, None, None, "protect_game")
    if game is None:
        game = Interventional()
    return replace(game, background=X) if game.background is None else game


def players(protect: Any, names: list[str]) -> list[tuple[str, list[int]]]:
    """Returns the protected players: columns by name or number, or groups of columns in a dict."""
    if isinstance(protect, (str, int, np.integer)):
        protect = [protect]
    if not isinstance(protect, (Mapping, Sequence, np.ndarray)) or not len(protect):
        raise ValueError(
            f"protect = {protect!r}: it is a list of columns, or a dict from names to lists of columns"
        )
    groups: dict[Any, Any] = (
        dict(protect) if isinstance(protect, Mapping) else {column: [column] for column in protect}
    )
    groups_of_columns = []
    for name, columns in groups.items():
        members = []
        for column in [columns] if isinstance(columns, (str, int, np.integer)) else columns:
            if isinstance(column, (bool, np.bool_)):
                raise ValueError(f"protect names the column {column!r}: give names or numbers")
            if isinstance(column, str) and column in names:
                members.append(names.index(column))
            elif isinstance(column, (int, np.integer)) and 0 <= column < len(names):
                members.append(int(column))
            else:
                raise ValueError(f"protect names the column {column!r}; the columns are: {', '.join(names)}")
        is_single = len(members) == 1 and not isinstance(protect, Mapping)
        groups_of_columns.append((names[members[0]] if is_single else str(name), members))
    return groups_of_columns
