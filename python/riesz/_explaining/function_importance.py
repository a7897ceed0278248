"""Global importance of any function, which is called at mixed rows and estimated with standard errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._core import UnsupportedModelError
from .._data.parameters import is_whole
from .._data.validation import as_cells
from .black_box import _function_outputs, _row_numbers, _row_selector
from .explainer import Explainer
from .explanation import Explanation, joined
from .feature_groups import Groups
from .importance_results import FRAME_NAMES, SageValues, SobolIndices, sage_result


@dataclass(frozen=True)
class _FunctionRows:
    """A function of rows of numbers that represent the user's rows, and a table of such rows."""

    function: Callable[[np.ndarray], np.ndarray]
    background: tuple[list[str], list[list[str] | None], np.ndarray]
    #: The labelled rows, if there are any.
    rows: tuple[list[str], list[list[str] | None], np.ndarray] | None
    #: One row with the mean of each column of numbers, and the most frequent cell of other columns.
    typical: np.ndarray

    @classmethod
    def from_explainer(cls, explainer: Explainer, X: Any = None) -> _FunctionRows:
        """Returns the function of an explainer without exact values."""
        function, background = explainer._imported.function, explainer._background
        if function is None or background is None:
            raise UnsupportedModelError(
                f"this needs a kernel model, or a function and a background: {explainer.reason or ''}"
            )
        names = explainer.feature_names
        cells = as_cells(background, "background")
        rows = background if X is None else explainer._select_columns(X, "X")
        select = _row_selector(background, rows)
        levels: list[list[str] | None] = [None] * len(names)
        table = lambda numbers: (names, levels, numbers)
        call = lambda numbers: _function_outputs(function, select(numbers.astype(np.intp)))
        weights = explainer._weights
        typical = [_typical(cells[:, j], weights) for j in range(cells.shape[1])]
        return cls(
            call,
            table(_row_numbers(0, cells)),
            None if X is None else table(_row_numbers(len(cells), as_cells(rows, "X"))),
            np.array([typical], dtype=object),
        )

    def explanation(self, core: _core.Explanation, explainer: Explainer) -> Explanation:
        """Returns the core's explanation with the user's cells, and the function's kind in the provenance."""
        _, absent, _, run = core.provenance
        players = explainer._players
        return joined(
            [[(core, range(len(players)))]],
            players,
            data=self.typical,
            column_names=explainer.feature_names,
            output_names=list(core.output_names),
            provenance={
                "game": core.provenance[0],
                "absent": absent,
                "model": {"model": explainer._imported.kind},
                "run": dict(run),
            },
        )


def _typical(cells: np.ndarray, weights: np.ndarray | None) -> Any:
    """Returns the mean of numbers, or the most frequent of other cells."""
    try:
        return float(np.average(cells.astype(float), weights=weights))
    except (TypeError, ValueError):
        values, counts = np.unique(cells.astype(str), return_counts=True)
        return str(values[counts.argmax()])


def function_explainer(
    model: Any, background: Any, groups: Groups | None, weights: Any, error: UnsupportedModelError
) -> Explainer:
    """Returns an explainer whose function is called, or raises ``error`` if the model has none."""
    try:
        explainer = Explainer(
            model, background, game="interventional", groups=groups, background_weights=weights
        )
    except UnsupportedModelError:
        raise error from None
    if explainer._imported.function is None or explainer._texts is not None:
        raise error
    return explainer


def sobol_of_function(explainer: Explainer, n_evaluations: int, random_state: int) -> SobolIndices:
    """Returns estimated indices of a function."""
    rows_per_pair = 3 * len(explainer._players) + 1
    if not is_whole(n_evaluations) or n_evaluations < 2 * rows_per_pair:
        raise ValueError(
            f"n_evaluations = {n_evaluations!r}: it is a whole number, at least {2 * rows_per_pair} for "
            "these features"
        )
    inputs = _FunctionRows.from_explainer(explainer)
    core, shares, evaluations = _core.sobol_of_function(
        inputs.function,
        (inputs.background, None if explainer._weights is None else explainer._weights.tolist()),
        explainer._players,
        int(n_evaluations) // rows_per_pair,
        int(random_state),
    )
    single = core.predictions.shape[1] == 1
    shaped = lambda numbers: numbers[0] if single else numbers.T
    values = {name: shaped(value) for name, (value, _) in zip(FRAME_NAMES, shares)}
    errors = {name: shaped(error) for name, (_, error) in zip(FRAME_NAMES, shares)}
    variance = core.predictions[0]
    return SobolIndices(
        feature_names=[name for name, _ in explainer._players],
        **values,
        variance=variance[0] if single else variance,
        bound=None,
        explanation=inputs.explanation(core, explainer),
        std_error=errors,
        n_evaluations=evaluations,
    )


def sage_of_function(
    explainer: Explainer, model: Any, X: Any, y: Any, n_orders: int, random_state: int
) -> SageValues:
    """Returns the SAGE values of a function, which is called at mixed rows."""
    inputs = _FunctionRows.from_explainer(explainer, X)
    assert inputs.rows is not None
    first = inputs.function(inputs.rows[2][:1])
    numbers, classes = _labels_of_function(model, y, first.shape[1])
    if classes is not None and not (first.min() >= 0 and np.isclose(first.sum(), 1.0, atol=1e-6)):
        raise ValueError(
            "y holds classes, and the function's outputs are no probabilities: give a function with one "
            "probability per class, such as model.predict_proba"
        )
    core = _core.sage_of_function(
        inputs.function,
        inputs.rows,
        numbers,
        classes,
        (inputs.background, None if explainer._weights is None else explainer._weights.tolist()),
        explainer._players,
        n_orders,
        random_state,
    )
    return sage_result(
        core, explainer, lambda numbers: numbers, inputs.explanation(core.explanation, explainer)
    )


def _labels_of_function(model: Any, y: Any, outputs: int) -> tuple[np.ndarray | None, list[int] | None]:
    """Returns labels as numbers, or as codes of the classes of a function with one probability per class."""
    labels = np.asarray(y)
    if outputs > 1 and labels.ndim == 1:
        owner = getattr(model, "__self__", model)
        classes = getattr(owner, "classes_", None)
        levels = np.unique(labels) if classes is None else np.asarray(classes)
        if len(levels) != outputs:
            raise ValueError(
                f"y has {len(levels)} classes, but the function has {outputs} outputs: it returns one "
                "probability per class, in sorted order, or y has one column per output"
            )
        code_of_level = {level: code for code, level in enumerate(levels.tolist())}
        unknown = [label for label in labels.tolist() if label not in code_of_level]
        if unknown:
            raise ValueError(f"y holds {unknown[0]!r}, but the model's classes are: {levels.tolist()}")
        return None, [code_of_level[label] for label in labels.tolist()]
    try:
        numbers = np.asarray(labels, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "y holds classes, and the function has one output: give a function with one probability per "
            "class, such as model.predict_proba"
        ) from None
    return label_numbers(numbers), None


def label_numbers(y: Any) -> np.ndarray:
    """Returns labels that are numbers as (rows, outputs)."""
    numbers = np.ascontiguousarray(y, dtype=np.float64)
    numbers = numbers[:, None] if numbers.ndim == 1 else numbers
    if numbers.ndim != 2 or not np.isfinite(numbers).all():
        raise ValueError("y is one number, or one row of numbers, for each row of X, and all are finite")
    return numbers
