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
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """Returns duels as the core takes them; ``left`` and ``right`` have one number per table row."""
        return left[self.rows].astype(np.int64), right[self.rows].astype(np.int64), self.outcome, self.weight


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
    weight = None if sample_weight is None else column_of("sample_weight", sample_weight, count)
    record: dict[str, Any] = dict.fromkeys(("numbers", "words", "names", "scores", "wins"))
    if outcome is not None:
        record |= _outcome_record(outcome, cells)
    if scores is not None:
        record["scores"] = _table("scores", scores, count, (2,))
    if wins is not None:
        record["wins"] = _table("wins", wins, count, (2, 3))
    rows, outcome_of_left, weight, left_out = _core.read_outcomes(count, record, weight, missing == "drop")
    if len(left_out):
        warnings.warn(f"{len(left_out)} duels without an outcome were left out", stacklevel=4)
    return Outcomes(rows, outcome_of_left, weight)


def _outcome_record(outcome: Any, duels: np.ndarray) -> dict[str, Any]:
    """Returns the outcomes of ``duels`` as numbers, or as words with the names of the items, since a word may
    be the winner's name."""
    cells = np.asarray(outcome)
    if cells.shape != (len(duels),):
        raise ValueError(
            f"outcome has the shape {cells.shape}: it has one entry for each of the {len(duels)} duels"
        )
    if cells.dtype.kind in "bifu":
        return {"numbers": cells.astype(float)}
    entries = np.asarray(outcome, dtype=object).tolist()
    words = [None if is_missing(cell) or not str(cell).strip() else _text(cell) for cell in entries]
    if duels.ndim != 2 or duels.shape[1] != 2:
        return {"words": words}
    left, right = ([_text(label) for label in duels[:, side]] for side in (0, 1))
    return {"words": words, "names": (left, right)}


def _table(name: str, values: Any, count: int, widths: tuple[int, ...]) -> np.ndarray:
    """Returns a table of numbers with one of these numbers of columns, with NaN for missing ones."""
    cells = np.asarray(values, dtype=float)
    if cells.ndim != 2 or len(cells) != count or cells.shape[1] not in widths:
        columns = " or ".join(map(str, widths))
        raise ValueError(
            f"{name} have the shape {cells.shape}: they have {count} rows, one a duel, and {columns} columns"
        )
    return cells
