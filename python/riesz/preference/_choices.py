"""Choices from sets of items: their tables, and predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._data.table_columns import _text
from .._data.validation import collected, first_names, is_missing, names_of
from ._duel_contexts import labels_of
from ._joint_posterior import JointPosterior, seed_of

if TYPE_CHECKING:
    from ._classifier import PreferenceClassifier

Labels = list[Any]

#: The chosen items of a set by place, the best first. Items that share a place have no order.
Places = list[Labels]

#: The columns of a table of choices.
COLUMNS = ("set", "item", "chosen")


def read_choices(sets: Any, chosen: Any) -> tuple[list[Labels], list[Places]]:
    """Returns the items of each set, and its chosen items by place."""
    sets = collected(sets, "sets")
    header = names_of(sets)
    if header is not None:
        if chosen is not None:
            raise ValueError("chosen: a data frame has it as its column 'chosen': leave it out")
        return _read_long_table(sets, header)
    if chosen is None:
        raise ValueError("chosen: give the chosen item of each set")
    lists = [list(items) for items in sets]
    picked = [[_place(place) for place in (part if _is_list(part) else [part])] for part in chosen]
    if len(lists) != len(picked):
        raise ValueError(f"chosen has {len(picked)} entries, but there are {len(lists)} sets: one a set")
    return lists, picked


def _is_list(part: Any) -> bool:
    return isinstance(part, (list, tuple)) or isinstance(part, np.ndarray) and part.ndim > 0


def _place(place: Any) -> Labels:
    """Returns the items that share a place: a set or a list of labels, or one label."""
    return list(place) if isinstance(place, (set, frozenset)) or _is_list(place) else [place]


def _read_long_table(table: Any, header: Sequence[str]) -> tuple[list[Labels], list[Places]]:
    """Returns the choices of a data frame with one line per item of a set."""
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise ValueError(
            f"sets: a data frame of choices has the columns {', '.join(map(repr, COLUMNS))}; these are "
            f"{', '.join(map(repr, header))}"
        )
    names, items, cells = (np.asarray(table[name], dtype=object).tolist() for name in COLUMNS)
    places = [float("nan") if is_missing(cell) else _number(cell, row) for row, cell in enumerate(cells)]
    rows = _core.rows_of_sets([_text(name) for name in names], places)
    labels = lambda numbers: [items[row] for row in numbers]
    places_of = lambda chosen: [labels(place) for place in chosen]
    return [labels(of_set) for of_set, _ in rows], [places_of(chosen) for _, chosen in rows]


def _number(cell: Any, row: int) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise ValueError(f"chosen is {cell!r} in row {row} (from 0): it is a number") from None


def numbers_of_labels(items: Any, count: int) -> Callable[[Labels, str], list[int]]:
    """Returns a function from labels of items to the numbers of their rows."""
    index = labels_of(items)
    row_of_label = {label: row for row, label in enumerate(range(count) if index is None else index)}

    def numbers(labels: Labels, argument: str) -> list[int]:
        keys = labels if index is None else [_text(label) for label in labels]
        unknown = [label for label, key in zip(labels, keys) if key not in row_of_label]
        if unknown:
            raise ValueError(f"{argument} name items that are not among the items: {first_names(unknown)}")
        return [row_of_label[key] for key in keys]

    return numbers


def predicted_choices(
    model: PreferenceClassifier, sets: Any, items: Any, n_chosen: int, n_samples: int, random_state: Any
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns the probabilities of choices from each set, and their standard errors, as
    :meth:`riesz.PreferenceClassifier.predict_choice` does."""
    posterior = JointPosterior.of_model(model, items, None, None, "predict_choice")
    row_of_label = {_text(label): row for row, label in enumerate(posterior.labels)}
    numbers = []
    for items_of_set in sets:
        unknown = [label for label in items_of_set if _text(label) not in row_of_label]
        if unknown:
            raise ValueError(f"sets name items that are not among the items: {first_names(unknown)}")
        numbers.append([row_of_label[_text(label)] for label in items_of_set])
    parts, table, _ = posterior.to_core()
    predictions = _core.predict_choices(parts, table, numbers, n_chosen, n_samples, seed_of(random_state))
    probabilities, std_errors = zip(*predictions) if predictions else ((), ())
    return [np.array(part) for part in probabilities], [np.array(part) for part in std_errors]
