"""Tables of duels: data frames whose columns hold the two sides and the outcome, by the core's rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._data.validation import collected, names_of

#: Arguments of a fit that may name columns of a table of duels: one column, or several.
_SINGLE, _SEVERAL = ("outcome", "sample_weight", "users", "home"), ("scores", "wins", "contexts")


def is_table(duels: Any) -> bool:
    """Whether duels are a data frame with the columns of a table of duels. A frame of two other columns holds
    pairs of items, as an array does."""
    header = names_of(duels)
    if header is None:
        return False
    if len(header) != 2:
        return True
    try:
        _core.duel_columns(header, None, None, False)
    except ValueError:
        return False
    return True


def read_duel_table(
    duels: Any, sides: Sequence[str] | None = None, **arguments: Any
) -> tuple[Any, dict[str, Any]]:
    """Returns the pairs of items of ``duels``, and the ``arguments`` of a fit with the cells of the columns
    that they name. Without a data frame both are returned unchanged.

    The outcome is that of the usual column, unless an outcome, scores or wins are given."""
    duels = collected(duels, "duels")
    if sides is None and not is_table(duels):
        _refuse_names(duels, arguments)
        return duels, arguments
    header = names_of(duels)
    if header is None:
        raise ValueError("sides are names of columns, and duels are no data frame: leave sides out")
    if len(set(header)) < len(header):
        repeated = next(name for name in header if header.count(name) > 1)
        raise ValueError(f"duels have two columns called '{repeated}': rename one of them")
    outcome = arguments.get("outcome")
    stated = [
        name
        for name in ("outcome", "scores", "wins")
        if arguments.get(name) is not None and not (name == "outcome" and isinstance(outcome, str))
    ]
    named = None if sides is None else _two(sides)
    side_columns, outcome_column = _core.duel_columns(
        header, named, outcome if isinstance(outcome, str) else None, not stated
    )
    if outcome_column is None and (stated or isinstance(outcome, str)):
        argument = "outcome" if isinstance(outcome, str) else stated[0]
        raise ValueError(
            f"{argument}: the columns '{side_columns[0]}' and '{side_columns[1]}' already say who won: "
            "leave it out, or name other columns with sides=(left, right)"
        )
    read = {name: _cells_of(duels, header, name, value) for name, value in arguments.items()}
    if not stated and outcome_column is not None:
        read["outcome"] = _column(duels, header, "outcome", outcome_column)
    pairs = [np.asarray(_column(duels, header, "sides", side), dtype=object) for side in side_columns]
    return np.column_stack(pairs), read


def pairs_in(duels: Any) -> Any:
    """Returns the pairs of items of a table of duels; other duels unchanged."""
    if not is_table(duels):
        return duels
    header = names_of(duels) or []
    side_columns, _ = _core.duel_columns(header, None, None, False)
    return np.column_stack(
        [np.asarray(_column(duels, header, "sides", side), dtype=object) for side in side_columns]
    )


def _two(sides: Sequence[str]) -> tuple[str, str]:
    if isinstance(sides, str) or len(sides) != 2:
        raise ValueError(f"sides = {sides!r}: they are the names of two columns, (left, right)")
    return str(sides[0]), str(sides[1])


def _cells_of(duels: Any, header: list[str], name: str, value: Any) -> Any:
    """Returns the cells of the columns that an argument names; another value unchanged."""
    if name in _SINGLE and isinstance(value, str) and (name != "home" or value in header):
        return _column(duels, header, name, value)
    if name in _SEVERAL and isinstance(value, str):
        value = [value]
    is_list = isinstance(value, (list, tuple)) and bool(value)
    if name in _SEVERAL and is_list and all(isinstance(column, str) for column in value):
        columns = {column: _column(duels, header, name, column) for column in value}
        if name == "contexts":
            return duels[[duels.columns[header.index(column)] for column in value]]
        return np.column_stack([np.asarray(cells, dtype=float) for cells in columns.values()])
    return value


def _column(duels: Any, header: list[str], argument: str, name: str) -> Any:
    if name not in header:
        raise ValueError(f"{argument}: duels have no column '{name}'; their columns are: {', '.join(header)}")
    return duels[duels.columns[header.index(name)]]


def _refuse_names(duels: Any, arguments: dict[str, Any]) -> None:
    """Refuses the name of a column where duels have no named columns."""
    for name in ("outcome", "sample_weight"):
        if isinstance(arguments.get(name), str):
            raise ValueError(
                f"{name} = {arguments[name]!r} names a column, and duels are no table with named sides: give "
                "a data frame with columns of both sides, or one entry per duel"
            )
