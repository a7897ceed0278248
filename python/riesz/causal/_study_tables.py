"""Tables of studies that measured different columns, as the core takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._data.table_columns import (
    ColumnTypes,
    Rows,
    _columns,
    _is_text,
    _levels,
    _numbers,
    _text,
    check_column_types,
)
from .._data.validation import _listed, _missing, as_cells, is_missing, names_of

#: The cells of a column, and whether its type is categorical.
Column = tuple[np.ndarray, bool]

#: Columns by name.
Columns = dict[str, Column]

#: Levels by column name; ``None`` for numeric columns.
Levels = dict[str, list[str] | None]


class Read(NamedTuple):
    """Studies as the core takes them: all but the last, then points and outcome of the last."""

    leading: list[Any]
    points: Rows
    outcome: list[float]
    levels: Levels
    #: Covariates of the first study that the last study also has, and on which the outcome depends besides
    #: the mediators.
    shared: Rows | None
    #: For each mediator the share of a study's rows with values that the next study does not have.
    unmatched: dict[str, float]
    notes: list[str]


def columns_of(table: Any, label: str) -> Columns:
    """Returns the columns of a data frame of pandas, polars or pyarrow, or of a dictionary."""
    if isinstance(table, Mapping):
        cells = {str(name): np.atleast_1d(np.asarray(column)) for name, column in table.items()}
        sizes = {len(column) for column in cells.values()} - {1}
        if len(sizes) > 1 or any(column.ndim > 1 for column in cells.values()):
            raise ValueError(
                f"the columns of {label} have different lengths: give one value a row, or one for all rows"
            )
        count = sizes.pop() if sizes else 1
        return {name: (np.broadcast_to(column, (count,)), False) for name, column in cells.items()}
    if hasattr(table, "column_names") and hasattr(table, "to_pylist"):
        return {str(name): (_as_array(table[name].to_pylist()), False) for name in table.column_names}
    if names_of(table) is None:
        raise ValueError(
            f"{label} is a {type(table).__name__}, whose columns have no names: give a data frame"
        )
    names, columns = _columns(table, label)
    return dict(zip(names or [], columns))


def _as_array(values: list[Any]) -> np.ndarray:
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    return np.array(values, dtype=np.float64 if numbers else object)


def read_studies(
    studies: Sequence[Columns], graph: Any, query: str, choices: ColumnTypes | None = None
) -> Read:
    """Reads the columns that the effect needs from the studies, from rows that have all of them. ``choices``
    are the column types that the user gives."""
    check_column_types(choices, sorted({name for study in studies for name in study}), "the data")
    needed_columns = _core.needed_columns(graph, query)
    outcome = json.loads(query)["outcome"]
    tables = []
    for k, (columns, names) in enumerate(zip(studies, needed_columns)):
        outcome_name = outcome if k == len(needed_columns) - 1 else None
        label = f"study {k + 1}"
        tables.append(
            [
                _measured(columns[name], name, label, name == outcome_name, (choices or {}).get(name))
                for name in names
            ]
        )
    leading, points, y, shared, unmatched, notes = _core.gather_studies(graph, query, tables)
    rows = lambda table: None if table is None else Rows(*table)
    leading_studies = [
        (rows(cause_table), route, rows(covariates), rows(mediator_table))
        for cause_table, route, covariates, mediator_table in leading
    ]
    levels: Levels = {outcome: None}
    for table in [
        Rows(*points),
        *(
            table
            for cause_table, _, covariates, mediator_table in leading_studies
            for table in (cause_table, covariates, mediator_table)
            if table
        ),
    ]:
        levels |= dict(zip(table.names, table.levels))
    return Read(leading_studies, Rows(*points), y, levels, rows(shared), unmatched, notes)


def _measured(
    column: Column, name: str, label: str, outcome: bool, choice: str | None
) -> tuple[str, list[str] | None, list[float]]:
    """Returns the name of a column, its levels (``None`` if numeric), and its numbers or codes, with NaN for
    missing cells."""
    cells, category = column
    kind = cells.dtype.kind
    if kind == "f":
        infinite = np.flatnonzero(np.isinf(cells))
        if len(infinite):
            raise _missing(label, cells[infinite[0]], int(infinite[0]), name)
    is_missing_cell = (
        np.isnan(cells) if kind == "f" else np.array([is_missing(cell) for cell in cells], dtype=bool)
    )
    present = cells[~is_missing_cell]
    if outcome and _is_text(present) and all(isinstance(cell, (bool, np.bool_)) for cell in present):
        present = present.astype(np.float64)
    levels = _levels([(label, (present, category))], name, choice)
    numbers = np.full(len(cells), np.nan)
    numbers[~is_missing_cell] = _numbers((present, category), name, levels, label)
    return name, levels, numbers.tolist()


def coded(table: Any, names: Sequence[str], levels: Levels, label: str) -> Rows:
    """Returns the rows of a query: a data frame or dictionary with these columns, an array with the columns
    in this order, or numbers for a single column."""
    names = list(names)
    if isinstance(table, Mapping) or hasattr(table, "columns") or hasattr(table, "column_names"):
        columns = columns_of(table, label)
        missing = next((name for name in names if name not in columns), None)
        if missing is not None:
            raise ValueError(f"{label} has no column '{missing}': it needs {_listed(names)}")
        cells = [columns[name][0] for name in names]
    else:
        array = np.asarray(table.to_numpy() if hasattr(table, "to_numpy") else table)
        if array.ndim < 2 and len(names) == 1:
            array = array.reshape(-1, 1)
        elif array.ndim < 2:
            raise ValueError(
                f"{label} has {array.ndim} dimension(s): give a data frame, or rows of {_listed(names)}"
            )
        array = as_cells(array, label)
        if array.shape[1] != len(names):
            raise ValueError(f"{label} has {array.shape[1]} columns: it needs {len(names)}, {_listed(names)}")
        cells = list(array.T)
    if not len(cells[0]):
        raise ValueError(f"{label} has no rows")
    codes = [_code(column, name, levels[name], label) for column, name in zip(cells, names)]
    return Rows(names, [levels[name] for name in names], np.ascontiguousarray(np.stack(codes, axis=1)))


def _code(cells: np.ndarray, name: str, levels: list[str] | None, label: str) -> np.ndarray:
    if levels is None:
        if _is_text(cells) and cells.dtype.kind != "b":
            raise ValueError(
                f"column '{name}' of {label} holds values that are not numbers, which it has in the studies"
            )
        return _numbers((cells, False), name, None, label)
    for i, cell in enumerate(cells):
        if is_missing(cell):
            raise _missing(label, cell, i, name)
        if _level(cell, levels) not in levels:
            raise ValueError(
                f"{name} is '{cell}' in {label}, which no study has: they have {_listed(levels)}"
            )
    return np.array([levels.index(_level(cell, levels)) for cell in cells], dtype=np.float64)


def _level(cell: Any, levels: list[str]) -> str:
    """Returns the level of a cell; 0 and 1 are also levels of booleans."""
    text = _text(cell)
    return {"0": "False", "1": "True"}.get(text, text) if levels == ["False", "True"] else text


def cells_of(rows: Rows) -> dict[str, np.ndarray]:
    """Returns rows as a dictionary by column, with levels by name."""
    columns = {}
    for name, levels, codes in zip(rows.names, rows.levels, rows.numbers.T):
        columns[name] = codes.copy() if levels is None else np.array([levels[int(code)] for code in codes])
    return columns


def cells(rows: Rows) -> np.ndarray:
    """Returns rows as an array, with levels by name."""
    columns = list(cells_of(rows).values())
    if all(levels is None for levels in rows.levels):
        return np.stack(columns, axis=1)
    return np.stack([column.astype(object) for column in columns], axis=1)
