"""Models of duels without a process: one ability per item, or abilities that are linear in features."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._data.table_columns import ColumnTypes
from .._models.expansion import Expansion
from ._duel_contexts import NameList, read_items, rows_of
from ._outcomes import Outcomes

#: Models whose log odds are differences of abilities: one per item, or weighted sums of features.
ABILITIES = ("bradley_terry", "linear")


def fit_abilities(
    model: str, items: Any, duels: Any, outcomes: Outcomes, ridge: Any, columns: ColumnTypes | None
) -> dict[str, Any]:
    """Returns the attributes of a fitted model, by name."""
    has_labels_only = model == "bradley_terry"
    if ridge != "evidence" and (isinstance(ridge, (str, bool)) or not ridge >= 0):
        raise ValueError(f"ridge = {ridge!r}: it is a number, 0 or more, or 'evidence'")
    if items is None and has_labels_only:
        items = NameList.of_duels(duels)
    if has_labels_only:
        index = getattr(items, "index", None)
        labels = list(range(len(items)) if index is None or callable(index) else index)
        item_table = None
    else:
        names, levels, rows = read_items(items, columns)
        labels, item_table = list(range(len(rows))), (list(names), list(levels), rows)
    texts = [str(label) for label in labels]
    if len(set(texts)) < len(texts):
        duplicate = next(text for text in texts if texts.count(text) > 1)
        raise ValueError(f"two items are called '{duplicate}': as text each has a name of its own")
    left, right = rows_of(items, duels, len(labels))
    fitted, coef, deviations, notes = _core.fit_bradley_terry(
        texts,
        item_table,
        outcomes.to_core(left, right),
        None if ridge == "evidence" else float(ridge),
    )
    attributes: dict[str, Any] = {
        "warnings_": notes,
        "expansion_": Expansion._wrap(fitted.model),
        "ridge_": fitted.chosen,
        "log_marginal_likelihood_value_": fitted.log_marginal_likelihood,
    }
    if has_labels_only:
        labels_with_ability = [str(label) for label, value in zip(labels, coef) if value == value]
        deviation_of_label = None if deviations is None else dict(zip(labels, deviations))
        return attributes | {
            "_names": ["item"],
            "_levels": [labels_with_ability],
            "abilities_": dict(zip(labels, coef)),
            "abilities_std_": deviation_of_label,
        }
    assert item_table is not None
    errors = None if deviations is None else np.array(deviations)
    return attributes | {
        "_names": item_table[0],
        "_levels": item_table[1],
        "coef_": np.array(coef),
        "coef_std_": errors,
    }
