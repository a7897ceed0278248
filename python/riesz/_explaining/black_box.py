"""Estimated values of any function, for models without exact values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from .._data.validation import as_cells
from .explanation import Kept


def reference_rows(background: Any, as_numbers: bool) -> np.ndarray:
    """Returns the background rows as the core takes them. If conditional distributions are learnt from them,
    these are the rows themselves. Otherwise rows are only mixed, and each cell holds the number of its
    row."""
    return _numbers(background, "the background") if as_numbers else _row_numbers(0, as_cells(background))


def _row_numbers(start: int, rows: np.ndarray) -> np.ndarray:
    return np.tile(np.arange(start, start + len(rows), dtype=np.float64)[:, None], (1, rows.shape[1]))


def permutation_estimates(
    function: Callable[[Any], Any], X: Any, background: Any, question: _core.Question
) -> _core.Explanation:
    """Estimates values of ``function`` along random orders of the players. ``function`` is called with rows
    in the form of ``background`` (array or data frame, with its types and names)."""
    select = _row_selector(background, X)
    evaluate = lambda sources: _function_outputs(function, select(sources.astype(np.intp)))
    return _core.permutation(evaluate, _row_numbers(len(as_cells(background)), as_cells(X)), question)


def kernel_shap_values(
    function: Callable[[Any], Any],
    X: Any,
    background: Any,
    question: _core.Question,
    game: str,
    budget: tuple[int, float | None] | None,
    kept: Kept | None,
) -> _core.Explanation:
    """Estimates values of ``function``, which is called with rows in the form of ``background``, by
    KernelSHAP; kept coalitions are not evaluated again."""
    if game == "observational":
        rows, form = _numbers(X, "X"), _in_background_form(background)
    else:
        select = _row_selector(background, X)
        rows = _row_numbers(len(as_cells(background)), as_cells(X))
        form = lambda sources: select(sources.astype(np.intp))
    evaluate = lambda numbers: _function_outputs(function, form(numbers))
    return _core.kernel_shap(evaluate, rows, question, budget, None if kept is None else kept.samples[0])


def _function_outputs(function: Callable[[Any], Any], rows: Any) -> np.ndarray:
    """Returns the outputs of ``function`` for some rows, (rows, outputs)."""
    outputs = function(rows)
    if hasattr(outputs, "detach"):
        outputs = outputs.detach()
    try:
        numbers = np.asarray(outputs, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"the function answers with {type(outputs).__name__} that are not numbers: give one that returns "
            "an array "
            "(rows,) or (rows, outputs), such as model.predict_proba"
        ) from None
    if numbers.ndim not in (1, 2):
        raise ValueError(
            f"the function answers with the shape {numbers.shape}: it must be (rows,) or (rows, outputs)"
        )
    return np.ascontiguousarray(numbers.reshape(len(numbers), -1))


def _numbers(rows: Any, label: str) -> np.ndarray:
    """Returns rows as finite doubles, for conditional distributions."""
    try:
        numbers = np.ascontiguousarray(as_cells(rows), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{label} holds text: conditional distributions take numbers; encode it, or use another game"
        ) from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"{label} holds numbers that are not finite: fill them in or remove the rows")
    return numbers


def _in_background_form(background: Any) -> Callable[[np.ndarray], Any]:
    """Returns a function from numbers to rows in the form of ``background``."""
    kind = type(background).__module__.split(".")[0]
    if kind == "pandas" and hasattr(background, "columns"):
        import pandas

        return lambda numbers: pandas.DataFrame(numbers, columns=background.columns)
    if kind == "polars" and hasattr(background, "columns"):
        import polars

        return lambda numbers: polars.DataFrame(numbers, schema=background.columns)
    return lambda numbers: numbers


def _row_selector(background: Any, X: Any) -> Callable[[np.ndarray], Any]:
    """Returns a function that takes for each cell the number of a row (of ``background``, then of ``X``), and
    returns rows in the form of ``background``."""
    kind = type(background).__module__.split(".")[0]
    if kind == "pandas" and hasattr(background, "columns"):
        import pandas

        names = list(background.columns)
        second_frame = X if hasattr(X, "columns") else pandas.DataFrame(as_cells(X))
        second_frame = second_frame.set_axis(names, axis=1)
        columns = [
            pandas.concat([background.iloc[:, j], second_frame.iloc[:, j]], ignore_index=True)
            for j in range(len(names))
        ]
        cells_of_column = lambda j, rows: columns[j].take(rows).reset_index(drop=True)
        return lambda rows: pandas.concat([cells_of_column(j, rows[:, j]) for j in range(len(names))], axis=1)
    if kind == "polars" and hasattr(background, "columns"):
        import polars

        names = background.columns
        second_frame = X if hasattr(X, "columns") else polars.DataFrame(as_cells(X))
        stacked = polars.concat(
            [background, second_frame.rename(dict(zip(second_frame.columns, names)))], how="vertical_relaxed"
        )
        return lambda rows: polars.DataFrame(
            [stacked[name].gather(rows[:, j]) for j, name in enumerate(names)]
        )
    cells = np.concatenate([as_cells(background), as_cells(X)])
    column_numbers = np.arange(cells.shape[1])
    return lambda rows: cells[rows, column_numbers]
