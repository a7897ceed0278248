"""The strongest interactions of each row, for many features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["TopInteractions"]


@dataclass(frozen=True, eq=False, repr=False)
class TopInteractions:
    """The strongest pairs of features for each of n rows (and m outputs), in order of absolute value, as
    returned by :meth:`riesz.Explainer.top_interactions`. ``len`` is the number of rows. A row has fewer pairs
    than requested if all other pairs are 0."""

    #: The index of the values: ``"k-sii"`` and so on.
    index: str
    feature_names: list[str]
    output_names: list[str]
    #: By row and output: numbers of the features of each pair, (pairs, 2), ascending.
    features: list[list[np.ndarray]]
    #: By row and output: the values of the pairs, (pairs,).
    values: list[list[np.ndarray]]
    #: A proved bound on the error of each value, (n,), or (n, m) for m outputs.
    bound: np.ndarray
    #: A proved bound on the absolute value of every pair that is not listed, (n,) or (n, m).
    left_out: np.ndarray
    #: Number of pairs that the search evaluated, (n,) or (n, m).
    searched: np.ndarray
    #: Whether no unlisted pair exceeds a listed one, up to ``bound``; always True without ``max_pairs``.
    complete: np.ndarray

    def pairs(self, row: int = 0, output: int = 0) -> list[tuple[str, str, float]]:
        """Returns the names and the value of each pair of a row and output."""
        names = self.feature_names
        pairs_and_values = zip(self.features[row][output], self.values[row][output])
        return [(names[j], names[k], float(value)) for (j, k), value in pairs_and_values]

    def to_frame(self) -> Any:
        """Returns a ``pandas.DataFrame`` with one line per pair: ``row``, ``output``, ``rank`` from 1,
        ``feature_1``, ``feature_2``, ``value``, ``bound`` and ``left_out``."""
        import pandas as pd

        m = len(self.output_names)
        bounds, left_out = (array.reshape(len(self), m) for array in (self.bound, self.left_out))
        lines = [
            (row, self.output_names[o], rank, *pair, bounds[row, o], left_out[row, o])
            for row in range(len(self))
            for o in range(m)
            for rank, pair in enumerate(self.pairs(row, o), 1)
        ]
        names = ["row", "output", "rank", "feature_1", "feature_2", "value", "bound", "left_out"]
        return pd.DataFrame(lines, columns=names)

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        rows, m = len(self), len(self.output_names)
        head = f"<riesz.TopInteractions: {self.index}, {rows} row{'' if rows == 1 else 's'}"
        head += "" if m == 1 else f", {m} outputs"
        if not rows:
            return head + ">"
        pair_lines = [f"  {a} × {b}: {value:.4g}" for a, b, value in self.pairs()]
        shown_lines = [*pair_lines[:5], *(["  …"] if len(pair_lines) > 5 else [])]
        return "\n".join(
            [
                f"{head}; of the first:",
                *shown_lines,
                f"  all others: {np.ravel(self.left_out)[0]:.4g} at most>",
            ]
        )
