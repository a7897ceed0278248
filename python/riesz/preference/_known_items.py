"""The items of a fit, which a model with abilities recognises in predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._data.table_columns import _text
from ._duel_contexts import UNSEEN, UNSEEN_RIGHT, codes_of_names, labels_of


class KnownItems:
    """The names of the items of a fit, and their features if these are known.

    Predictions recognise the rows of a data frame by the labels of its index if the items of the fit had such
    labels, and other rows by their features. Items of the fit with equal features cannot be told apart by
    them."""

    def __init__(
        self, names: Sequence[str], has_labels: bool, rows: np.ndarray | None, codes: Sequence[int]
    ) -> None:
        self.levels = [*names, UNSEEN, UNSEEN_RIGHT]
        self._has_labels = has_labels
        self._code_of_features: dict[bytes, float] | None = None
        if rows is not None and rows.shape[1] > 0:
            self._code_of_features = {}
            for key, code in zip(_keys(rows), codes):
                self._code_of_features[key] = np.nan if key in self._code_of_features else float(code)

    @classmethod
    def of_fit(cls, items: Any, rows: np.ndarray) -> KnownItems:
        """Returns the items to which a model is fitted, with ``rows`` of features."""
        labels = labels_of(items)
        names = labels if labels is not None else [str(i) for i in range(len(rows))]
        return cls(names, _own_labels(items) is not None, rows, range(len(rows)))

    @classmethod
    def of_file(cls, levels: Sequence[str], rows: np.ndarray | None, codes: Sequence[int]) -> KnownItems:
        """Returns the items of a saved model: its levels of items, and the rows of those that had duels."""
        names = list(levels[:-2])
        return cls(names, names != [str(i) for i in range(len(names))], rows, codes)

    @property
    def names(self) -> list[str]:
        return self.levels[:-2]

    def codes(self, items: Any, rows: np.ndarray) -> tuple[np.ndarray, bool]:
        """Returns the codes of items with these rows of features, NaN for new items, and whether they were
        recognised by their features."""
        labels = _own_labels(items) if self._has_labels else None
        if labels is not None:
            codes = codes_of_names(labels, self.levels, UNSEEN)
            return np.where(codes >= len(self.names), np.nan, codes), False
        if self._code_of_features is None:
            raise ValueError(
                "the model has abilities and does not know the features of its items: say who they are, by "
                "the index of data frames or with ids=(left, right)"
            )
        return np.array([[self._code_of_features.get(key, np.nan)] for key in _keys(rows)]), True

    def codes_of_sides(
        self, items: tuple[Any, Any], rows: tuple[np.ndarray, np.ndarray], apart: bool = False
    ) -> list[np.ndarray]:
        """Returns the codes of the items on either side. New items differ, unless their features are all that
        is known and these are equal; with ``apart`` they always differ."""
        (left, left_by_features), (right, right_by_features) = map(self.codes, items, rows)
        unseen = float(len(self.names))
        unseen_right: Any = unseen + 1
        one_by_one = len(left) == len(right) or 1 in (len(left), len(right))
        if left_by_features and right_by_features and one_by_one and not apart:
            is_same = (rows[0] == rows[1]).all(axis=1)[:, None] & np.isnan(left)
            unseen_right = np.where(is_same, unseen, unseen_right)
        return [np.where(np.isnan(left), unseen, left), np.where(np.isnan(right), unseen_right, right)]

    def codes_of_ids(self, ids: Any) -> list[np.ndarray]:
        """Returns the codes of names on the left and on the right."""
        if len(ids) != 2 or any(side is None for side in ids):
            raise ValueError("ids are names on the left and names on the right: ids=(left, right)")
        return [codes_of_names(side, self.levels, new) for side, new in zip(ids, (UNSEEN, UNSEEN_RIGHT))]


def _keys(rows: np.ndarray) -> list[bytes]:
    """Returns a key of each row; the sum removes the sign of zeros."""
    return [row.tobytes() for row in np.ascontiguousarray(rows, dtype=float) + 0.0]


def _own_labels(items: Any) -> list[str] | None:
    """Returns the labels of items, ``None`` if they have none or only the default numbers of rows."""
    if getattr(items, "ndim", 2) == 1 and hasattr(items, "name"):
        return None if items.name is None else [_text(items.name)]
    is_numbering = type(getattr(items, "index", None)).__name__ == "RangeIndex"
    return None if is_numbering else labels_of(items)
