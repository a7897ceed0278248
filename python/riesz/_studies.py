"""Studies that measured different columns, and what is asked of them, as the core takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._data import _listed, _missing, as_cells, is_missing, names_of
from ._samples import Rows, _columns, _is_text, _levels, _numbers, _text
from .causal import Identification

#: The cells of a column, and whether its type says that they are categories.
Column = tuple[np.ndarray, bool]

#: Columns by name.
Columns = dict[str, Column]

#: Levels by name; ``None`` for columns of numbers.
Levels = dict[str, list[str] | None]

#: Fewer complete rows than these tell nothing.
_FEWEST = 5

#: Treatments of whose variance covariates leave less are hardly told apart from these.
_DECIDED = 0.1

#: Shares of rows without a like in the next study that are not worth a warning.
_FEW = 0.05


class Read(NamedTuple):
    """Studies as the core takes them: all but the last, points and outcome of the last."""

    leading: list[Any]
    points: Rows
    outcome: list[float]
    levels: Levels
    #: Covariates of the first study that the last has, too, and on which the outcome depends beside the mediators.
    shared: Rows | None
    #: Of each mediator the share of rows of a study whose values the next study has not.
    unmatched: dict[str, float]
    notes: list[str]


def columns_of(table: Any, what: str) -> Columns:
    """The columns of a data frame of pandas, polars or pyarrow, or of a dictionary."""
    if isinstance(table, Mapping):
        cells = {str(name): np.atleast_1d(np.asarray(own)) for name, own in table.items()}
        sizes = {len(own) for own in cells.values()} - {1}
        if len(sizes) > 1 or any(own.ndim > 1 for own in cells.values()):
            raise ValueError(f"the columns of {what} have different lengths: give one value a row, or one for all rows")
        count = sizes.pop() if sizes else 1
        return {name: (np.broadcast_to(own, (count,)), False) for name, own in cells.items()}
    if hasattr(table, "column_names") and hasattr(table, "to_pylist"):
        return {str(name): (_plain(table[name].to_pylist()), False) for name in table.column_names}
    if names_of(table) is None:
        raise ValueError(f"{what} is a {type(table).__name__}, whose columns have no names: give a data frame")
    names, columns = _columns(table, what)
    return dict(zip(names or [], columns))


def _plain(values: list[Any]) -> np.ndarray:
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    return np.array(values, dtype=np.float64 if numbers else object)


def read_studies(studies: Sequence[Columns], found: Identification) -> Read:
    """The columns that ``found`` needs of the studies, of rows that have all of them."""
    bridges = [sorted(bridge.mediators) for bridge in found.bridges]
    others = sorted(found.adjust or found.front_door)
    needed = [[*before, *after] for before, after in zip([found.treatments, *bridges], [*bridges, [found.outcome]])]
    # Of two studies; they are among the covariates.
    passive = sorted(found.bridges[-1].passive)
    needed[0] += others
    needed[-1] += passive
    notes, complete = [], []
    for k, (columns, names) in enumerate(zip(studies, needed)):
        kept, note = _complete(columns, list(dict.fromkeys(names)), f"study {k + 1}")
        complete.append(kept)
        notes += note
    everyone = list(dict.fromkeys(name for names in needed for name in names))
    levels: Levels = {}
    for name in everyone:
        levels[name] = _levels([(f"study {k + 1}", own[name]) for k, own in enumerate(complete) if name in own], name)
    if levels[found.outcome] is not None:
        cells, _ = complete[-1][found.outcome]
        if not all(isinstance(cell, (bool, np.bool_)) for cell in cells):
            raise ValueError(f"the outcome {found.outcome} is text in study {len(studies)}: give numbers")
        complete[-1][found.outcome] = cells.astype(np.float64), False
        levels[found.outcome] = None
    numbers = []
    for k, own in enumerate(complete):
        what = f"study {k + 1}"
        coded = {name: _numbers(column, name, levels[name], what) for name, column in own.items()}
        for name, codes in coded.items():
            if not np.ptp(codes) > 0:
                raise ValueError(
                    f"{name} is the same in all {len(codes)} rows of {what} that have all that is needed: nothing can be learnt "
                    "of it; give rows in which it varies"
                )
        numbers.append(_sorted(coded))
    unmatched: dict[str, float] = {}
    for k, names in enumerate(bridges):
        for name in [*names, *(passive if k == len(bridges) - 1 else [])]:
            share, note = _unmatched(name, levels[name], numbers[k][name], numbers[k + 1][name], k)
            unmatched[name] = max(share, unmatched.get(name, 0.0))
            notes += note
    if found.adjust and not found.front_door:
        notes += _decided(numbers[0], levels, list(found.treatments), others)
    rows = lambda k, names: _rows(numbers[k], levels, names)
    leading: list[Any] = []
    for k, (before, after) in enumerate(zip([list(found.treatments), *bridges[:-1]], bridges)):
        how = ("front-door" if found.front_door else "back-door") if k == 0 and others else "direct"
        leading.append((rows(k, before), how, rows(0, others) if how != "direct" else None, rows(k, after)))
    points, shared = rows(-1, [*bridges[-1], *passive]), rows(0, passive) if passive else None
    return Read(leading, points, numbers[-1][found.outcome].tolist(), levels, shared, unmatched, notes)


def _complete(columns: Columns, names: list[str], what: str) -> tuple[Columns, list[str]]:
    """The rows that have a value in each of these columns, and a note of how many are left out."""
    gone, holes = np.zeros(len(columns[names[0]][0]), dtype=bool), []
    for name in names:
        cells = columns[name][0]
        if cells.dtype.kind == "f":
            infinite = np.flatnonzero(np.isinf(cells))
            if len(infinite):
                raise _missing(what, cells[infinite[0]], int(infinite[0]), name)
            missing = np.isnan(cells)
        elif cells.dtype.kind == "O":
            missing = np.array([is_missing(cell) for cell in cells], dtype=bool)
        else:
            continue
        gone |= missing
        holes += [name] if missing.any() else []
    kept, count = ~gone, int(gone.sum())
    if kept.sum() < _FEWEST:
        of = f" with a value in each of {_listed(names)}" if count else ""
        raise ValueError(f"{what} has {int(kept.sum())} rows{of}: at least {_FEWEST} are needed")
    note = f"{what}: {count} of {len(gone)} rows have no value in {' or '.join(holes)}, and are left out"
    return {name: (columns[name][0][kept], columns[name][1]) for name in names}, [note] if count else []


def _decided(columns: dict[str, np.ndarray], levels: Levels, treatments: list[str], others: list[str]) -> list[str]:
    """Notes of treatments that covariates all but decide, as a regression on these, their squares and products tells."""
    parts = [np.ones((len(columns[others[0]]), 1))]
    for name in others:
        own, known = columns[name], levels[name]
        parts.append((own - own.mean())[:, None] / own.std() if known is None else np.eye(len(known))[own.astype(int)][:, 1:])
    linear = np.hstack(parts)
    pairs = [linear[:, i] * linear[:, j] for i in range(1, linear.shape[1]) for j in range(1, i + 1)]
    features = linear if 3 * (len(pairs) + linear.shape[1]) > len(linear) else np.column_stack([linear, *pairs])
    notes = []
    for name in treatments:
        own = columns[name] - columns[name].mean()
        fitted, _, rank, _ = np.linalg.lstsq(features, own, rcond=None)
        left = np.sum((own - features @ fitted) ** 2) / max(len(own) - rank, 1) / np.var(own)
        if left < _DECIDED:
            by = "decides" if len(others) == 1 else "decide"
            notes.append(
                f"{_listed(others)} all but {by} {name}, {left:.0%} of whose variance is left: other doses for the same people "
                "are hardly seen, so that effects are drawn towards none, with bands that are too narrow"
            )
    return notes


def _sorted(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same rows in an order that is their own, so that rounding does not depend on the order in which they came."""
    order = np.lexsort([columns[name] for name in sorted(columns)])
    return {name: own[order] for name, own in columns.items()}


def _rows(columns: dict[str, np.ndarray], levels: Levels, names: list[str]) -> Rows:
    numbers = np.ascontiguousarray(np.stack([columns[name] for name in names], axis=1))
    return Rows(names, [levels[name] for name in names], numbers)


def _unmatched(name: str, levels: list[str] | None, own: np.ndarray, next_: np.ndarray, k: int) -> tuple[float, list[str]]:
    """The share of rows whose mediator the next study does not know, and a note if it is large."""
    one, other = f"study {k + 1}", f"study {k + 2}"
    if levels is not None:
        alone = ~np.isin(own, next_)
        where = " or ".join(f"'{levels[int(code)]}'" for code in np.unique(own[alone]))
        apart = alone.all()
        told = f"it is {where} in {one}, which {other} has not"
    else:
        low, high = next_.min(), next_.max()
        below, above = own < low, own > high
        alone = below | above
        sides = [(f"below {low:.4g}", below), (f"above {high:.4g}", above)]
        where = " or ".join(side for side, rows in sides if rows.mean() > _FEW / 2)
        apart = own.max() < low or own.min() > high
        told = f"it is {own.min():.4g} to {own.max():.4g} in {one}, and {low:.4g} to {high:.4g} in {other}"
    if apart:
        remedy = "give both in the same units" if levels is None else "name the same levels alike"
        raise ValueError(f"no common support in {name}: {told}: {remedy}, or rows of {other} that are like those of {one}")
    share = float(alone.mean())
    note = f"{other} has no {name} {where}; {share:.0%} of {one}'s rows are there, where it says nothing of what comes after"
    return share, [note] if share > _FEW else []


def coded(table: Any, names: Sequence[str], levels: Levels, what: str) -> Rows:
    """Rows that are asked about: a data frame or dictionary of these columns; an array of them, in this order; of a single
    column numbers, too."""
    names = list(names)
    if isinstance(table, Mapping) or hasattr(table, "columns") or hasattr(table, "column_names"):
        columns = columns_of(table, what)
        lacking = next((name for name in names if name not in columns), None)
        if lacking is not None:
            raise ValueError(f"{what} has no column '{lacking}': it needs {_listed(names)}")
        cells = [columns[name][0] for name in names]
    else:
        array = np.asarray(table.to_numpy() if hasattr(table, "to_numpy") else table)
        if array.ndim < 2 and len(names) == 1:
            array = array.reshape(-1, 1)
        elif array.ndim < 2:
            raise ValueError(f"{what} has {array.ndim} dimension(s): give a data frame, or rows of {_listed(names)}")
        array = as_cells(array, what)
        if array.shape[1] != len(names):
            raise ValueError(f"{what} has {array.shape[1]} columns: it needs {len(names)}, {_listed(names)}")
        cells = list(array.T)
    if not len(cells[0]):
        raise ValueError(f"{what} has no rows")
    codes = [_code(own, name, levels[name], what) for own, name in zip(cells, names)]
    return Rows(names, [levels[name] for name in names], np.ascontiguousarray(np.stack(codes, axis=1)))


def _code(cells: np.ndarray, name: str, levels: list[str] | None, what: str) -> np.ndarray:
    if levels is None:
        if _is_text(cells) and cells.dtype.kind != "b":
            raise ValueError(f"column '{name}' of {what} holds values that are not numbers, which it has in the studies")
        return _numbers((cells, False), name, None, what)
    for i, cell in enumerate(cells):
        if is_missing(cell):
            raise _missing(what, cell, i, name)
        if _text(cell) not in levels:
            raise ValueError(f"{name} is '{cell}' in {what}, which no study has: they have {_listed(levels)}")
    return np.array([levels.index(_text(cell)) for cell in cells], dtype=np.float64)


def cells_of(rows: Rows) -> dict[str, np.ndarray]:
    """Rows by column, with levels by their names."""
    columns = {}
    for name, levels, codes in zip(rows.names, rows.levels, rows.numbers.T):
        columns[name] = codes.copy() if levels is None else np.array([levels[int(code)] for code in codes])
    return columns


def cells(rows: Rows) -> np.ndarray:
    """Rows as an array, with levels by their names."""
    columns = list(cells_of(rows).values())
    if all(levels is None for levels in rows.levels):
        return np.stack(columns, axis=1)
    return np.stack([own.astype(object) for own in columns], axis=1)
