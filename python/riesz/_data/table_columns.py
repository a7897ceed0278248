"""Tables with numeric and categorical columns, in the core's form; levels come from the data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .validation import (
    _listed,
    _missing,
    as_cells,
    as_core_cells,
    collected,
    is_missing,
    names_of,
    numbered,
    numbers_of_text,
)

#: Column types that the user gives, ``"text"`` or ``"number"`` by column name.
ColumnTypes = Mapping[str, str]

#: Minimum number of rows for the check that texts are labels of rows.
_FEW_ROWS = 10


class Rows(NamedTuple):
    """Rows in the core's form."""

    names: list[str]
    #: For each column the names of its levels, in the order of their codes; ``None`` for numeric columns.
    levels: list[list[str] | None]
    #: (rows, columns); categorical columns hold codes of levels.
    numbers: np.ndarray


def read(
    X: Any, label: str = "X", names: list[str] | None = None, choices: ColumnTypes | None = None
) -> Rows:
    """Reads one sample. Columns without names get ``names``, or x0, x1, …; an array with one dimension is one
    column."""
    return X if isinstance(X, Rows) else read_both(X, None, label, names=names, choices=choices)[0]


def read_both(
    X: Any,
    Z: Any,
    label: str = "X",
    other: str = "Z",
    names: list[str] | None = None,
    choices: ColumnTypes | None = None,
) -> list[Rows]:
    """Reads two samples with the same columns, matched by name if both have names. They share their levels.
    ``choices`` are the column types that the user gives."""
    given_names, columns = _columns(X, label)
    column_names = given_names or (
        names if names is not None and len(names) == len(columns) else numbered(len(columns))
    )
    samples = [(label, columns)]
    if Z is not None:
        other_names, cells = _columns(Z, other)
        samples.append(
            (other, _matched(cells, other_names, column_names, given_names is not None, label, other))
        )
        if given_names is None and other_names is not None:
            column_names = other_names
    check_column_types(choices, column_names, label)
    levels_of = lambda j: _levels(
        [(name, columns[j]) for name, columns in samples],
        column_names[j],
        (choices or {}).get(column_names[j]),
    )
    levels = [levels_of(j) for j in range(len(column_names))]
    tables = []
    for name, columns in samples:
        codes = [_numbers(column, column_names[j], levels[j], name) for j, column in enumerate(columns)]
        tables.append(Rows(column_names, levels, np.ascontiguousarray(np.stack(codes, axis=1))))
    return tables


def read_categories(X: Any, choices: ColumnTypes | None = None, label: str = "X") -> Rows | None:
    """Reads a data frame with columns of text or of a categorical type; returns ``None`` for other rows.
    ``choices`` are the column types that the user gives, and ``label`` is the name of the rows in
    messages."""
    # Only these types can hold text; most frames have none of them.
    kinds = ("cat", "enum", "obj", "str", "large_str", "utf")
    types = [] if names_of(X) is None else list(getattr(X, "dtypes", []))
    if choices and names_of(X) is None:
        raise ValueError(
            f"columns = … names columns, and {label} is an array, whose columns have no names: give a data "
            "frame"
        )
    if not choices and not any(str(dtype).lower().startswith(kinds) for dtype in types):
        return None
    names, columns = _columns(X, label)
    if names is None:
        return None
    check_column_types(choices, names, label)
    is_category = [
        category or (choices or {}).get(name) == "text" or _is_text(cells) and cells.dtype.kind != "b"
        for (cells, category), name in zip(columns, names)
    ]
    if not any(is_category):
        return None
    levels = [
        _levels([(label, column)], name, (choices or {}).get(name)) if categorical else None
        for categorical, column, name in zip(is_category, columns, names)
    ]
    for j, column in enumerate(X.columns):
        declared = getattr(X[column].dtype, "categories", None)
        if is_category[j] and declared is not None:
            levels[j] = [_text(level) for level in declared]
    stated = {name for name, (_, category) in zip(names, columns) if category} | set(choices or {})
    refuse_labels(names, levels, len(columns[0][0]), stated, label)
    codes = [
        _numbers(column, name, column_levels, label)
        for column, name, column_levels in zip(columns, names, levels)
    ]
    return Rows(names, levels, np.ascontiguousarray(np.stack(codes, axis=1)))


def column_units(X: Any, rows: Rows, label: str) -> list[tuple[str, str]]:
    """Returns the numeric columns whose cells are texts with one common unit, and this unit."""
    units = []
    for name, levels, (cells, _) in zip(rows.names, rows.levels, _columns(X, label)[1]):
        if levels is None and _is_text(cells):
            unit = _core.column_unit(name, label, as_core_cells(cells))
            if unit is not None:
                units.append((name, unit))
    return units


def check_column_types(choices: ColumnTypes | None, names: list[str], label: str) -> None:
    """Refuses unknown column types, and names of columns that do not exist."""
    if choices is None:
        return
    if not isinstance(choices, Mapping):
        raise ValueError(f"columns = {choices!r}: it is a dict such as {{'zip': 'text', 'age': 'number'}}")
    for name, kind in choices.items():
        if name not in names:
            raise ValueError(
                f"columns = … names '{name}', which {label} does not have; its columns are: {_listed(names)}"
            )
        if kind not in ("text", "number"):
            raise ValueError(f"columns={{'{name}': {kind!r}}}: a column is 'text' or 'number'")


def refuse_labels(
    names: list[str], levels: list[list[str] | None], rows: int, stated: set[str], label: str = "X"
) -> None:
    """Refuses columns with nearly as many distinct texts as rows, unless the user gave their type."""
    if rows < _FEW_ROWS:
        return
    labels = [
        n
        for n, column_levels in zip(names, levels)
        if column_levels is not None and n not in stated and 10 * len(column_levels) >= 9 * rows
    ]
    if labels:
        raise ValueError(
            f"{'columns' if len(labels) > 1 else 'column'} {', '.join(repr(n) for n in labels)} of {label}: "
            f"nearly all of the {rows} "
            f"texts differ, as labels of rows do: leave them out with {label}.drop(columns={labels!r}), or "
            "give "
            f"columns={{{labels[0]!r}: 'text'}} if they are categories"
        )


def warn_of_numbers(names: list[str], numbers: np.ndarray, stacklevel: int) -> None:
    """Warns of numeric columns that are probably not measurements."""
    for name, column in zip(names, numbers.T):
        for sentence in _core.column_suspicions(name, column.tolist()):
            warnings.warn(sentence, UserWarning, stacklevel=stacklevel)


def _columns(X: Any, label: str) -> tuple[list[str] | None, list[tuple[np.ndarray, bool]]]:
    """Returns the names, and for each column its cells and whether its type is categorical."""
    X = collected(X, label)
    names = names_of(X)
    if names is not None:
        duplicate = next((name for name in names if names.count(name) > 1), None)
        if duplicate is not None:
            raise ValueError(f"the name '{duplicate}' is used twice in {label}: rename one of the columns")
        columns = [X[name] for name in X.columns]
    elif hasattr(X, "to_numpy") and len(getattr(X, "shape", ())) == 1:
        # A pandas or polars series.
        name, columns = getattr(X, "name", None), [X]
        names = [str(name)] if name not in (None, "") else None
    else:
        cells = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        cells = as_cells(cells[:, None] if cells.ndim == 1 else cells, label)
        if cells.dtype.kind in "UST" and cells.shape[1] > 1:
            raise ValueError(
                f"{label} is an array of text, in which numbers and levels cannot be told apart: "
                "give a data frame, or an array with dtype=object"
            )
        columns = list(cells.T)
    if not columns:
        raise ValueError(f"{label} has no columns")
    cells = [np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column) for column in columns]
    return names, [
        (values, str(getattr(column, "dtype", "")) == "category") for values, column in zip(cells, columns)
    ]


def _matched(
    columns: list, names: list[str] | None, first_names: list[str], named: bool, label: str, other: str
) -> list:
    """Returns the columns of the second sample in the order of the first."""
    if names is None or not named:
        if len(columns) != len(first_names):
            raise ValueError(
                f"{other} has {len(columns)} columns, but {label} has {len(first_names)}: "
                f"{_listed(first_names)}"
            )
        return columns
    for expected_names, other_names, lacking_label, having_label in [
        (first_names, names, other, label),
        (names, first_names, label, other),
    ]:
        missing = next((name for name in expected_names if name not in other_names), None)
        if missing is not None:
            raise ValueError(
                f"{lacking_label} has no column '{missing}', which {having_label} has; its columns are: "
                f"{_listed(other_names)}: "
                "give both samples the same columns"
            )
    return [columns[names.index(name)] for name in first_names]


def _levels(
    cells: list[tuple[str, tuple[np.ndarray, bool]]], name: str, choice: str | None = None
) -> list[str] | None:
    """Returns the levels of a column, ``None`` if it is numeric; ``choice`` is the type that the user
    gives."""
    if choice != "text" and not any(category or _is_text(column) for _, (column, category) in cells):
        return None
    if not any(category for _, (_, category) in cells):
        pooled = [cell for _, (column, _) in cells for cell in as_core_cells(column)]
        categorical, warning = _core.column_type(name, cells[0][0], pooled, choice)
        if warning is not None:
            warnings.warn(f"column '{name}' of {cells[0][0]}: {warning}", UserWarning, stacklevel=4)
        if not categorical:
            return None
    texts = set()
    for label, (column, _) in cells:
        for i, cell in enumerate(column):
            if is_missing(cell):
                raise _missing(label, cell, i, name)
        texts |= {_text(cell) for cell in column}
    levels = sorted(texts)
    first_spelling: dict[str, str] = {}
    for level in levels:
        spelling = first_spelling.setdefault(level.lower(), level)
        if spelling != level:
            warnings.warn(
                f"column '{name}' of {cells[0][0]}: '{spelling}' and '{level}' differ in case only and are "
                "two categories: correct the data if they are one",
                UserWarning,
                stacklevel=4,
            )
            break
    return levels


def _is_text(cells: np.ndarray) -> bool:
    if cells.dtype.kind == "O":
        return any(isinstance(cell, (str, bool, np.bool_)) for cell in cells)
    return cells.dtype.kind in "bUST"


def _text(cell: Any) -> str:
    if isinstance(cell, (int, float, np.number)) and not isinstance(cell, bool):
        return repr(float(cell)).removesuffix(".0")
    return str(cell)


def _numbers(cells: tuple[np.ndarray, bool], name: str, levels: list[str] | None, label: str) -> np.ndarray:
    column = cells[0]
    if levels is not None:
        code = {level: float(k) for k, level in enumerate(levels)}
        return np.array([code[_text(cell)] for cell in column], dtype=np.float64)
    if column.dtype.kind == "c":
        raise ValueError(f"{label} holds complex numbers: give real ones")
    if column.dtype.kind == "O":
        missing = next((i for i, cell in enumerate(column) if is_missing(cell)), None)
        if missing is not None:
            raise _missing(label, column[missing], missing, name)
    if column.dtype.kind in "OUST":
        column = numbers_of_text(column)
    try:
        if column.dtype.kind in "mM":
            raise TypeError("a date is no number")
        numbers = column.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"column '{name}' of {label} holds values that are neither numbers nor text: turn them into "
            f"either"
        ) from None
    if not np.isfinite(numbers).all():
        i = int(np.argmin(np.isfinite(numbers)))
        raise _missing(label, numbers[i], i, name)
    return numbers
