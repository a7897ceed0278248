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
    "protect_range": None,
    "protect_equal": False,
}

#: Functionals of the coefficients, (n, players * n), and the number of coalitions if they are estimates.
Functionals = tuple[np.ndarray, int | None]


def penalty(
    estimator: Any, kernel: str, names: list[str], X: np.ndarray, given_functionals: Functionals | None
) -> tuple[np.ndarray, float, list[tuple[float, float]] | None, int | None] | None:
    """Returns the functionals of the coefficients for the estimator's ``protect`` or the
    ``given_functionals``, the strength of their penalty, the ends of their ranges, and the number of
    coalitions if they are estimates."""
    if estimator.protect is None:
        for name, default in DEFAULTS.items():
            value = getattr(estimator, name)
            if value is not default and (isinstance(value, (tuple, list, dict)) or value != default):
                raise ValueError(f"{name} is given, but no feature to protect: name some with protect=[...]")
        return None
    strength = estimator.protect_strength
    if not isinstance(strength, (int, float, np.number)) or not 0 <= strength < np.inf:
        raise ValueError(f"protect_strength = {strength!r}: it is a number that is not negative")
    z, sampled = functionals(estimator, kernel, names, X) if given_functionals is None else given_functionals
    return z, float(strength), ranges(estimator, names, z.shape), sampled


def ranges(estimator: Any, names: list[str], shape: tuple[int, ...]) -> list[tuple[float, float]] | None:
    """Returns the range in which each of the functionals, (n, players * n), is not penalised."""
    value_range = estimator.protect_range
    if value_range is None:
        return None
    rows = shape[0]
    count = shape[1] // rows
    if not isinstance(value_range, Mapping):
        return _range_of_rows(value_range, rows) * count
    if estimator.protect_equal:
        raise ValueError("protect_range is a dict, but differences of values have one range: give one pair")
    known = [name for name, _ in players(estimator.protect, names)]
    unknown = [name for name in value_range if name not in known]
    if unknown:
        raise ValueError(f"protect_range names {unknown[0]!r}; protected are: {', '.join(known)}")
    return [end for name in known for end in _range_of_rows(value_range.get(name, (0.0, 0.0)), rows)]


def _range_of_rows(ends: Any, rows: int) -> list[tuple[float, float]]:
    """Returns the lower and upper end of the range of each row."""
    message = (
        f"protect_range = {ends!r}: it is a pair of a lower and an upper end, each a number, None, or one "
        f"number for each of the {rows} rows"
    )
    if not isinstance(ends, (tuple, list)) or len(ends) != 2:
        raise ValueError(message)
    try:
        low, high = (
            np.broadcast_to(np.asarray(open_end if end is None else end, dtype=float), (rows,))
            for end, open_end in zip(ends, (-np.inf, np.inf))
        )
    except (TypeError, ValueError) as error:
        raise ValueError(message) from error
    if not (low <= high).all():
        raise ValueError(f"protect_range = {ends!r}: the lower end must not exceed the upper end")
    return list(zip(low.tolist(), high.tolist()))


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
    protected = [name for name, _ in groups]
    equal = bool(estimator.protect_equal)
    return _core.functionals(kernel, table, settings, rows, weights, groups, protected, equal)


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
