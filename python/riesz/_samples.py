"""Samples that tests compare, as columns of numbers and levels: the samples themselves say which levels there are."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from ._data import _listed, _missing, as_cells, collected, is_missing, names_of, numbered

_WITH_COMMAS = re.compile(r"[+-]?\d+(,\d+)?([eE][+-]?\d+)?")


class Rows(NamedTuple):
    """Rows in the core's form."""

    names: list[str]
    #: For each column the names of its levels, in the order of their codes; ``None`` for numbers.
    levels: list[list[str] | None]
    #: (rows, columns), in categorical columns the codes of the levels.
    numbers: np.ndarray


def read(X: Any, what: str = "X", names: list[str] | None = None) -> Rows:
    """One sample. Columns without names get those given, or x0, x1, …; an array with one dimension is one column."""
    return X if isinstance(X, Rows) else read_both(X, None, what, names=names)[0]


def read_both(X: Any, Z: Any, what: str = "X", other: str = "Z", names: list[str] | None = None) -> list[Rows]:
    """Two samples of the same columns, matched by name where both have names. A level of one is a level of both."""
    given, columns = _columns(X, what)
    known = given or (names if names is not None and len(names) == len(columns) else numbered(len(columns)))
    samples = [(what, columns)]
    if Z is not None:
        others, cells = _columns(Z, other)
        samples.append((other, _matched(cells, others, known, given is not None, what, other)))
        if given is None and others is not None:
            known = others
    levels = [_levels([(name, columns[j]) for name, columns in samples], known[j]) for j in range(len(known))]
    found = []
    for name, columns in samples:
        codes = [_numbers(column, known[j], levels[j], name) for j, column in enumerate(columns)]
        found.append(Rows(known, levels, np.ascontiguousarray(np.stack(codes, axis=1))))
    return found


def read_categories(X: Any) -> Rows | None:
    """A data frame with columns of categories: text, or of a type that says so; ``None`` for other rows."""
    # Types that hold no text are known by their names, and most frames hold no others.
    kinds = ("cat", "enum", "obj", "str", "large_str", "utf")
    types = [] if names_of(X) is None else list(getattr(X, "dtypes", []))
    if not any(str(one).lower().startswith(kinds) for one in types):
        return None
    names, columns = _columns(X, "X")
    chosen = [category or _is_text(cells) and cells.dtype.kind != "b" for cells, category in columns]
    if names is None or not any(chosen):
        return None
    levels = [_levels([("X", column)], name) if one else None for one, column, name in zip(chosen, columns, names)]
    for j, column in enumerate(X.columns):
        declared = getattr(X[column].dtype, "categories", None)
        if chosen[j] and declared is not None:
            levels[j] = [_text(level) for level in declared]
    codes = [_numbers(column, name, known, "X") for column, name, known in zip(columns, names, levels)]
    return Rows(names, levels, np.ascontiguousarray(np.stack(codes, axis=1)))


def _columns(X: Any, what: str) -> tuple[list[str] | None, list[tuple[np.ndarray, bool]]]:
    """Names, and the cells of each column beside whether their type says that they are categories."""
    X = collected(X)
    names = names_of(X)
    if names is not None:
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"the name '{twice}' is used twice in {what}: rename one of the columns")
        columns = [X[name] for name in X.columns]
    elif hasattr(X, "to_numpy") and len(getattr(X, "shape", ())) == 1:
        # A series.
        name, columns = getattr(X, "name", None), [X]
        names = [str(name)] if name not in (None, "") else None
    else:
        cells = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        cells = as_cells(cells[:, None] if cells.ndim == 1 else cells, what)
        if cells.dtype.kind in "UST" and cells.shape[1] > 1:
            raise ValueError(
                f"{what} is an array of text, in which numbers and levels cannot be told apart: "
                "give a data frame, or an array with dtype=object"
            )
        columns = list(cells.T)
    if not columns:
        raise ValueError(f"{what} has no columns")
    cells = [np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column) for column in columns]
    return names, [(one, str(getattr(column, "dtype", "")) == "category") for one, column in zip(cells, columns)]


def _matched(columns: list, names: list[str] | None, known: list[str], named: bool, what: str, other: str) -> list:
    """The columns of the second sample in the order of the first."""
    if names is None or not named:
        if len(columns) != len(known):
            raise ValueError(f"{other} has {len(columns)} columns, but {what} has {len(known)}: {_listed(known)}")
        return columns
    for mine, theirs, those, these in [(known, names, other, what), (names, known, what, other)]:
        missing = next((name for name in mine if name not in theirs), None)
        if missing is not None:
            raise ValueError(
                f"{those} has no column '{missing}', which {these} has; its columns are: {_listed(theirs)}: "
                "give both samples the same columns"
            )
    return [columns[names.index(name)] for name in known]


def _levels(cells: list[tuple[str, tuple[np.ndarray, bool]]], name: str) -> list[str] | None:
    """All levels of a column that is not one of numbers."""
    if not any(category or _is_text(column) for _, (column, category) in cells):
        return None
    found = set()
    for what, (column, _) in cells:
        for i, cell in enumerate(column):
            if is_missing(cell):
                raise _missing(what, cell, i, name)
        found |= {_text(cell) for cell in column}
    commas = sorted(level for level in found if "," in level)
    categories = any(category for _, (_, category) in cells)
    if commas and not categories and all(_WITH_COMMAS.fullmatch(level) for level in found):
        raise ValueError(
            f"column '{name}' of {cells[0][0]} holds numbers with decimal commas, such as '{commas[0]}': "
            "read the file with decimal=',', or make the column a category"
        )
    return sorted(found)


def _is_text(cells: np.ndarray) -> bool:
    if cells.dtype.kind == "O":
        return any(isinstance(cell, (str, bool, np.bool_)) for cell in cells)
    return cells.dtype.kind in "bUST"


def _text(cell: Any) -> str:
    if isinstance(cell, (int, float, np.number)) and not isinstance(cell, bool):
        return repr(float(cell)).removesuffix(".0")
    return str(cell)


def _numbers(cells: tuple[np.ndarray, bool], name: str, levels: list[str] | None, what: str) -> np.ndarray:
    column = cells[0]
    if levels is not None:
        code = {level: float(k) for k, level in enumerate(levels)}
        return np.array([code[_text(cell)] for cell in column], dtype=np.float64)
    if column.dtype.kind == "c":
        raise ValueError(f"{what} holds complex numbers: give real ones")
    if column.dtype.kind == "O":
        gone = next((i for i, cell in enumerate(column) if is_missing(cell)), None)
        if gone is not None:
            raise _missing(what, column[gone], gone, name)
    try:
        if column.dtype.kind in "mM":
            raise TypeError("a date is no number")
        numbers = column.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"column '{name}' of {what} holds values that are neither numbers nor text: turn them into either"
        ) from None
    if not np.isfinite(numbers).all():
        i = int(np.argmin(np.isfinite(numbers)))
        raise _missing(what, numbers[i], i, name)
    return numbers
