"""The joint posterior of the log odds of items, from which rankings and suggested duels are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import _core
from .._data.table_columns import Rows

if TYPE_CHECKING:
    from ._classifier import PreferenceClassifier


class JointPosterior(NamedTuple):
    """A model of duels, some items, and the context in which they meet."""

    #: Weights and models of a mixture.
    parts: list[tuple[float, _core.Expansion]]
    #: The items in the model's columns.
    items: Rows
    #: The context, for a model with contexts.
    context: list[float] | None
    #: Labels of the items.
    labels: list[Any]

    @classmethod
    def of_model(
        cls, model: PreferenceClassifier, items: Any, users: Any, contexts: Any, label: str
    ) -> JointPosterior:
        """Returns the posterior of a fitted model for ``items``, by default those of the fit; ``label``
        begins the message about a model without a joint posterior."""
        check_is_fitted(model, "classes_")
        if model._function is not None:
            raise ValueError(
                f"{label}: a model through landmarks has no joint posterior: fit with n_landmarks=None"
            )
        context = None
        if model._contexts is not None:
            rows_of_contexts = model._contexts.rows(contexts, users)
            if len(rows_of_contexts) != 1:
                raise ValueError(
                    f"users and contexts have {len(rows_of_contexts)} rows: {label} is for one of them"
                )
            context = rows_of_contexts[0].tolist()
        elif users is not None or contexts is not None:
            raise ValueError("users and contexts: the model was fitted on duels without them")
        rows, labels = _ranked_rows(model, items)
        names, levels = model._item_columns()
        table = Rows(list(names), list(levels), np.ascontiguousarray(rows, dtype=float))
        return cls(model._averaged()._parts(), table, context, labels)

    def to_core(self) -> tuple[Any, Rows, list[float] | None]:
        """Returns the models, items and context as the core takes them."""
        return self.parts, self.items, self.context


def _ranked_rows(model: PreferenceClassifier, items: Any) -> tuple[np.ndarray, list[Any]]:
    """Returns the items in the model's columns, nobody at home, and their labels."""
    if items is None and model._form == "bradley_terry":
        labels = [label for label, value in model.abilities_.items() if value == value]
        return np.arange(len(labels))[:, None], labels
    if items is None and model._background is None:
        return _rows_of_file(model)
    is_of_fit = items is None
    items = model._background if is_of_fit else model._items_of_names(items, "items")
    rows = model._items(items, "items")
    abilities = np.arange(float(len(rows)))[:, None]
    if model._known is not None and not is_of_fit:
        codes, _ = model._known.codes(items, rows)
        abilities = np.where(np.isnan(codes), len(model._known.names), codes)
    if model._has_home:
        rows = np.hstack([rows, np.zeros((len(rows), 1))])
    if model._known is not None:
        rows = np.hstack([rows, abilities])
    index = getattr(items, "index", None)
    if model._form == "bradley_terry":
        return rows, list(np.ravel(np.asarray(items, dtype=object)))
    return rows, list(range(len(rows))) if index is None or callable(index) else list(index)


def _rows_of_file(model: PreferenceClassifier) -> tuple[np.ndarray, list[Any]]:
    """Returns the items of the duels of a model with abilities from a file, and their names."""
    if model._known is None:
        raise ValueError("items: the model is from a file, which does not hold their names: give the items")
    width = len(model._item_columns()[0])
    codes, first = np.unique(model.expansion_.points[:, width - 1].astype(int), return_index=True)
    rows = np.array(model.expansion_.points[first, :width])
    if model._has_home:
        rows[:, width - 2] = 0.0
    return rows, [model._known.levels[code] for code in codes]


def seed_of(random_state: Any) -> int:
    """Returns a seed of the core from a random state as in scikit-learn."""
    return int(check_random_state(random_state).randint(2**31 - 1))
