"""Validation of the user's rows, which become plain arrays with names."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core


def collected(X: Any, label: str = "X") -> Any:
    """Returns the rows of a polars ``LazyFrame``, and other rows unchanged. Masked arrays are refused,
    because numpy's functions ignore their masks."""
    if np.ma.is_masked(X):
        raise ValueError(
            f"{label} has masked cells, which would be taken for numbers: fill them in, or leave their rows "
            "out"
        )
    return X.collect() if type(X).__name__ == "LazyFrame" else X


#: Maximum size in bytes of a sparse matrix that is converted to an array.
MAX_DENSE_BYTES = 8_000_000_000
#: Maximum size in bytes of the parts in which sparse rows are predicted.
PART_BYTES = 1 << 28


def is_sparse(X: Any) -> bool:
    """Whether the rows are a sparse matrix of SciPy."""
    return hasattr(X, "tocsr") and hasattr(X, "toarray")


def dense(X: Any, label: str = "X") -> Any:
    """Returns a sparse matrix as an array, unless it is too large; other rows are returned unchanged."""
    if not hasattr(X, "toarray"):
        return X
    rows, columns = X.shape
    if 8 * rows * columns > MAX_DENSE_BYTES:
        raise ValueError(
            f"{label} is a sparse matrix of {rows} rows and {columns} columns, which take "
            f"{8e-9 * rows * columns:.1f} GB as an array, and at most {1e-9 * MAX_DENSE_BYTES:.0f} GB are "
            "taken: "
            "give fewer rows at a time, or fewer columns"
        )
    return X.toarray()


def row_parts(X: Any) -> list[Any]:
    """Returns the rows of a sparse matrix in parts that are small as arrays; other rows are one part."""
    if not is_sparse(X):
        return [X]
    rows = X.tocsr()
    step = max(1, PART_BYTES // (8 * max(1, rows.shape[1])))
    return [rows[start : start + step] for start in range(0, max(1, rows.shape[0]), step)]


def names_of(X: Any) -> list[str] | None:
    """Returns the column names of a data frame (pandas, polars, …); ``None`` for arrays."""
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(c) for c in columns]


def select_columns(X: Any, names: Sequence[str]) -> Any:
    """Returns the columns ``names`` of a data frame in this order. Arrays, and frames that do not have all of
    them, are returned unchanged."""
    names_of_rows = names_of(X)
    if (
        names_of_rows is None
        or names_of_rows == list(names)
        or len(set(names_of_rows)) != len(names_of_rows)
        or not set(names) <= set(names_of_rows)
    ):
        return X
    return X[[X.columns[names_of_rows.index(name)] for name in names]]


def as_cells(X: Any, label: str = "X") -> np.ndarray:
    """Returns rows of any type as an array with two dimensions."""
    if hasattr(X, "toarray"):
        X = dense(X, label)
    elif _is_nullable(X):
        X = X.to_numpy(dtype=np.float64, na_value=np.nan)
    elif hasattr(X, "to_numpy"):
        X = X.to_numpy()
    cells = np.asarray(collected(X, label))
    if cells.ndim == 0:
        kind = f"{type(X).__module__.split('.')[0]}.{type(X).__name__}"
        raise ValueError(
            f"{label} is a {kind}: give an array or data frame of rows, as the data that a shap masker was "
            "made of"
        )
    if cells.ndim != 2:
        hint = "give [row] for a single row" if cells.ndim == 1 else "rows and columns are needed"
        raise ValueError(f"{label} has {cells.ndim} dimension(s), but two are needed: {hint}")
    return cells


def _is_nullable(X: Any) -> bool:
    """Whether all columns are numeric and some have pandas' nullable or Arrow types, which become Python
    objects without an explicit dtype."""
    types = [] if names_of(X) is None else list(getattr(X, "dtypes", []))
    return any(hasattr(t, "na_value") for t in types) and all(t.kind in "iuf" for t in types)


def check_columns(X: Any, names: Sequence[str], label: str = "X", owner: str = "model") -> None:
    """Refuses rows whose number of columns differs from ``names``, or whose names differ if both have
    names."""
    shape, names_of_rows = np.shape(X), names_of(X)
    width = shape[1] if len(shape) == 2 else as_cells(X, label).shape[1]
    if width != len(names):
        raise ValueError(f"{label} has {width} columns, but the {owner} has {len(names)}: {_listed(names)}")
    if names_of_rows is not None and names_of_rows != list(names) and not is_numbered(names):
        expected = "the model was fitted on" if owner == "model" else f"the {owner} has"
        raise ValueError(
            f"the columns of {label} are {_listed(names_of_rows)}, but {expected} {_listed(names)}: "
            "give the same columns in the same order"
        )


def as_numbers(
    X: Any,
    names: Sequence[str],
    label: str = "X",
    levels: Sequence[Sequence[str] | None] | None = None,
    takes_unseen: bool = False,
    units: Sequence[str | None] | None = None,
) -> np.ndarray:
    """Returns rows as finite doubles with ``len(names)`` columns. Columns with ``levels`` become codes; if
    the model ``takes_unseen`` levels, unknown cells have the code of the last level."""
    check_columns(X, names, label)
    names_of_rows, cells = names_of(X), as_cells(X, label)
    if units is not None and names_of_rows is not None:
        check_units(cells, names, units, levels or [None] * len(names), label)
    if np.iscomplexobj(cells):
        raise ValueError(f"{label} holds complex numbers: give real ones")
    codes = {
        j: _codes(cells[:, j], column_levels, names[j], label, takes_unseen)
        for j, column_levels in enumerate(levels or [])
        if column_levels is not None
    }
    if codes:
        cells = cells.astype(object)
        for j, numbers in codes.items():
            cells[:, j] = numbers
    if cells.dtype.kind == "O" and names_of_rows is not None:
        cells = np.stack([numbers_of_text(cells[:, j]) for j in range(cells.shape[1])], axis=1)
    try:
        numbers = np.ascontiguousarray(cells, dtype=np.float64)
    except (TypeError, ValueError):
        for j, name in enumerate(names if names_of_rows is None else names_of_rows):
            try:
                np.asarray(cells[:, j], dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(
                    f"column '{name}' of {label} holds values that are not numbers: encode it, "
                    "in a Pipeline if the explanation is to be in this column's own values"
                ) from None
        raise
    if not np.isfinite(numbers).all():
        i, j = np.argwhere(~np.isfinite(numbers))[0]
        raise _missing(label, numbers[i, j], i, names[j])
    return numbers


def check_units(
    cells: np.ndarray,
    names: Sequence[str],
    units: Sequence[str | None],
    levels: Sequence[Sequence[str] | None],
    label: str,
) -> None:
    """Refuses numbers whose unit differs from that of the training data, and warns of numbers without that
    unit."""
    for j, (name, expected) in enumerate(zip(names, units)):
        column = cells[:, j]
        is_text = cells.dtype.kind == "O" and any(isinstance(cell, (str, bytes)) for cell in column)
        if levels[j] is not None or not is_text and expected is None:
            continue
        unit = _core.column_unit(name, label, as_core_cells(column)) if is_text else None
        if unit is None and expected is not None:
            warnings.warn(
                f"column '{name}' of {label} has numbers without a unit, which are taken for {expected}, "
                "as in the model's training data",
                UserWarning,
                stacklevel=5,
            )
        elif unit != expected and not (unit and expected and _core.same_unit(unit, expected)):
            trained = "numbers without a unit" if expected is None else f"numbers in {expected}"
            raise ValueError(
                f"column '{name}' of {label} has numbers in {unit}, and the model was fitted to {trained}: "
                "convert them"
            )


def as_core_cells(cells: Any) -> list[str | float | None]:
    """Returns cells as the core takes them: texts, numbers, and ``None`` for missing cells."""
    converted: list[str | float | None] = []
    for cell in cells:
        if is_missing(cell):
            converted.append(None)
        elif isinstance(cell, (int, float, np.number)) and not isinstance(cell, (bool, np.bool_)):
            # A whole number beyond the precision of doubles keeps its digits as text.
            is_long = isinstance(cell, (int, np.integer)) and abs(int(cell)) > 2**53
            converted.append(str(cell) if is_long else float(cell))
        else:
            converted.append(cell.decode() if isinstance(cell, bytes) else str(cell))
    return converted


def numbers_of_text(cells: np.ndarray) -> np.ndarray:
    """Returns cells in which texts that are numbers, in usual notations, are replaced by these numbers."""
    if not any(isinstance(cell, (str, bytes)) for cell in cells):
        return cells
    numbers = _core.read_numbers(as_core_cells(cells))
    return np.array(
        [cell if number is None else number for cell, number in zip(cells, numbers)], dtype=object
    )


def is_missing(cell: Any) -> bool:
    """Whether a cell is missing: ``None``, NaN, or pandas' ``NA`` or ``NaT``."""
    if isinstance(cell, (float, np.floating)):
        return bool(np.isnan(cell))
    # Compared by name, so that pandas need not be installed.
    return cell is None or type(cell).__name__ in ("NAType", "NaTType")


def _missing(label: str, cell: Any, row: int, name: str) -> ValueError:
    return ValueError(
        f"{label} is {cell} in row {row} (from 0) of column '{name}': fill the value in or remove the row"
    )


def _codes(cells: np.ndarray, levels: Sequence[str], name: str, label: str, takes_unseen: bool) -> np.ndarray:
    """Returns cells as codes of levels; texts match by name and numbers by value, as on the command line."""
    for i, cell in enumerate(cells):
        if is_missing(cell):
            raise _missing(label, cell, i, name)
    spelled = [_spelled(cell, levels) for cell in cells]
    distinct = list(dict.fromkeys(spelled))
    # The last level is for unknown cells only.
    known_levels = list(levels)[:-1] if takes_unseen else list(levels)
    codes = dict(zip(distinct, _core.codes(known_levels, distinct)))
    for i, text in enumerate(spelled):
        if codes[text] is None and not takes_unseen:
            raise ValueError(
                f"{label} is '{cells[i]}' in row {i} (from 0) of column '{name}', which the model has not "
                "seen; "
                f"it knows: {_listed(levels)}; Expansion.with_unseen() takes it for none of these"
            )
    return np.array(
        [len(levels) - 1 if (code := codes[text]) is None else code for text in spelled], dtype=np.float64
    )


def _spelled(cell: Any, levels: Sequence[str]) -> str | float:
    """Returns a cell as the number or text that a table would contain."""
    if isinstance(cell, (bool, np.bool_)):
        # Tables write booleans with or without a capital letter.
        return str(cell) if str(cell) in levels else str(cell).lower()
    if isinstance(cell, (int, float, np.number)):
        return float(cell)
    return str(cell).strip()


def is_numbered(names: Sequence[str]) -> bool:
    """Whether these are the default names of columns without names."""
    return all(name == f"x{j}" for j, name in enumerate(names))


def numbered(count: int) -> list[str]:
    """Returns names for columns without names, as scikit-learn's: x0, x1, …"""
    return [f"x{j}" for j in range(count)]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:10])
    return shown if len(names) <= 10 else f"{shown}, … ({len(names)} in all)"


def first_names(names: list) -> str:
    """Returns the first five names as text, and the number of all names if there are more."""
    return ", ".join(map(repr, names[:5])) + (f", … ({len(names)} in all)" if len(names) > 5 else "")
