"""Outcomes of duels in the usual notations of tables, which the core parses."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._data.table_columns import _text
from .._data.validation import is_missing
from ._duel_contexts import column_of, pairs_of
from ._duel_tables import read_duel_table


@dataclass(frozen=True)
class Outcomes:
    """The duels with an outcome."""

    #: The table row of each duel, ascending; a row of counts is up to three duels.
    rows: np.ndarray
    #: 1 if the left item won, 0 if the right item won, 0.5 for a tie, or the left item's share of a win.
    outcome: np.ndarray
    #: The weight of each duel; ``None`` if all weights are 1.
    weight: np.ndarray | None

    def to_core(
        self, left: np.ndarray, right: np.ndarray
    ) -> tuple[list[int], list[int], list[float], list[float] | None]:
        """Returns duels as the core takes them; ``left`` and ``right`` have one number per table row."""
        weight = None if self.weight is None else self.weight.tolist()
        return left[self.rows].tolist(), right[self.rows].tolist(), self.outcome.tolist(), weight


def read_outcomes(
    duels: Any,
    outcome: Any = None,
    sample_weight: Any = None,
    scores: Any = None,
    wins: Any = None,
    missing: str = "error",
) -> Outcomes:
    """Reads the outcomes of ``duels`` in the forms of :meth:`riesz.PreferenceClassifier.fit`."""
    duels, read = read_duel_table(
        duels, outcome=outcome, scores=scores, wins=wins, sample_weight=sample_weight
    )
    outcome, scores, wins, sample_weight = (
        read[name] for name in ("outcome", "scores", "wins", "sample_weight")
    )
    sources = [
        name
        for name, value in (("outcome", outcome), ("scores", scores), ("wins", wins))
        if value is not None
    ]
    if len(sources) > 1:
        raise ValueError(f"{' and '.join(sources)}: each of them says who won: give one")
    if missing not in ("error", "drop"):
        raise ValueError(f"missing = {missing!r}: it is 'error' or 'drop'")
    cells = pairs_of(duels)
    count = len(cells)
    weight = None if sample_weight is None else column_of("sample_weight", sample_weight, count).tolist()
    outcome_texts, names = None, None
    if outcome is not None:
        outcome_texts, numeric = _outcome_texts(outcome, count)
        named = not numeric and cells.ndim == 2 and cells.shape[1] == 2
        names = (
            None
            if not named
            else ([_text(label) for label in cells[:, 0]], [_text(label) for label in cells[:, 1]])
        )
    points = None if scores is None else _columns("scores", scores, count, (2,))
    counts = None if wins is None else _columns("wins", wins, count, (2, 3))
    rows, outcome_of_left, weight, left_out = _core.read_outcomes(
        count, outcome_texts, names, points, counts, weight, missing == "drop"
    )
    if left_out:
        warnings.warn(f"{len(left_out)} duels without an outcome were left out", stacklevel=4)
    return Outcomes(
        np.array(rows, dtype=int), np.array(outcome_of_left), None if weight is None else np.array(weight)
    )


def _outcome_texts(outcome: Any, count: int) -> tuple[list[str | None], bool]:
    """Returns the cells as text, and whether all of them are numbers, which cannot be labels of items."""
    cells = np.asarray(outcome)
    if cells.shape != (count,):
        raise ValueError(
            f"outcome has the shape {cells.shape}: it has one entry for each of the {count} duels"
        )
    if cells.dtype.kind in "bifu":
        return [None if value != value else repr(float(value)) for value in cells.tolist()], True
    cells = np.asarray(outcome, dtype=object)
    return [
        None if is_missing(cell) or not str(cell).strip() else _text(cell) for cell in cells.tolist()
    ], False


def _columns(name: str, values: Any, count: int, widths: tuple[int, ...]) -> list[list[float]]:
    """Returns columns of numbers, with NaN for missing ones."""
    cells = np.asarray(values, dtype=float)
    if cells.ndim != 2 or len(cells) != count or cells.shape[1] not in widths:
        columns = " or ".join(map(str, widths))
        raise ValueError(
            f"{name} have the shape {cells.shape}: they have {count} rows, one a duel, and {columns} columns"
        )
    return cells.T.tolist()
