"""What users hand in as rows, as a plain array and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def names_of(X: Any) -> list[str] | None:
    """The column names of a data frame (pandas, polars, …); ``None`` for arrays."""
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(c) for c in columns]


def as_cells(X: Any) -> np.ndarray:
    """Rows as they are, of any type, as an array with two dimensions."""
    if hasattr(X, "toarray"):
        X = X.toarray()
    elif hasattr(X, "to_numpy"):
        X = X.to_numpy()
    cells = np.asarray(X)
    if cells.ndim != 2:
        hint = "give [row] for a single row" if cells.ndim == 1 else "rows and columns are needed"
        raise ValueError(f"X has {cells.ndim} dimension(s), but two are needed: {hint}")
    return cells


def as_numbers(X: Any, names: Sequence[str], what: str = "X") -> np.ndarray:
    """Rows as finite doubles with ``len(names)`` columns."""
    given = names_of(X)
    cells = as_cells(X)
    if cells.shape[1] != len(names):
        raise ValueError(f"{what} has {cells.shape[1]} columns, but the model has {len(names)}: {_listed(names)}")
    if given is not None and list(given) != list(names) and not _numbered(names):
        raise ValueError(
            f"the columns of {what} are {_listed(given)}, but the model was fitted on {_listed(names)}: "
            "give the same columns in the same order"
        )
    if np.iscomplexobj(cells):
        raise ValueError(f"{what} holds complex numbers: give real ones")
    try:
        numbers = np.ascontiguousarray(cells, dtype=np.float64)
    except (TypeError, ValueError):
        for j, name in enumerate(names if given is None else given):
            try:
                np.asarray(cells[:, j], dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(
                    f"column '{name}' of {what} holds values that are not numbers: encode it, "
                    "in a Pipeline if the explanation is to be in this column's own values"
                ) from None
        raise
    if not np.isfinite(numbers).all():
        i, j = np.argwhere(~np.isfinite(numbers))[0]
        raise ValueError(
            f"{what} is {numbers[i, j]} in row {i} (from 0) of column '{names[j]}': fill the value in or remove the row"
        )
    return numbers


def _numbered(names: Sequence[str]) -> bool:
    """Whether the names are those that columns without names get."""
    return all(name == f"x{j}" for j, name in enumerate(names))


def numbered(count: int) -> list[str]:
    """Names for columns without names, as scikit-learn's: x0, x1, …"""
    return [f"x{j}" for j in range(count)]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:10])
    return shown if len(names) <= 10 else f"{shown}, … ({len(names)} in all)"
