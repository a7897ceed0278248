"""Suggestions of duels to hold next, by the expected information of their outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._data.parameters import whole_number
from ._joint_posterior import JointPosterior, seed_of

if TYPE_CHECKING:
    from ._classifier import PreferenceClassifier

__all__ = ["DuelSuggestions"]

GOALS = ("best", "ranking", "cycles")


@dataclass(frozen=True, repr=False, eq=False)
class DuelSuggestions:
    """Duels to hold next, the most informative first."""

    #: Labels of the items on either side, as in the index of a data frame, or numbers of rows.
    left: list
    right: list
    #: The expected information of each duel's outcome about the goal in bits; at most 1 without ties.
    information: np.ndarray
    #: The Monte Carlo standard errors of ``information``.
    std_error: np.ndarray
    #: The probabilities that the left items win.
    probability: np.ndarray
    #: The goal: ``"best"``, ``"ranking"`` or ``"cycles"``.
    goal: str

    @property
    def pairs(self) -> list[tuple]:
        """The items of each duel, (left, right)."""
        return list(zip(self.left, self.right))

    def __len__(self) -> int:
        return len(self.left)

    def to_frame(self) -> Any:
        """Returns a ``pandas.DataFrame`` with one line per duel and the columns of ``riesz prefer
        suggest``."""
        import pandas as pd

        names = ("left", "right", "information", "std_error", "probability")
        return pd.DataFrame({name: getattr(self, name) for name in names})

    def __repr__(self) -> str:
        first = f"{self.left[0]} against {self.right[0]}, {self.information[0]:.3g} bits"
        return f"<riesz.DuelSuggestions: {len(self)} about {self.goal}, first {first}>"

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(index=False)


def suggested_duels(
    model: PreferenceClassifier,
    items: Any,
    k: Any,
    goal: Any,
    candidates: Any,
    users: Any,
    contexts: Any,
    n_samples: Any,
    random_state: Any,
) -> DuelSuggestions:
    """Returns the ``k`` duels with the largest information, as :meth:`riesz.PreferenceClassifier.suggest`
    does."""
    if goal not in GOALS:
        raise ValueError(f"goal = {goal!r}: it is one of {', '.join(map(repr, GOALS))}")
    posterior = JointPosterior.of_model(model, items, users, contexts, "suggest")
    labels = posterior.labels
    duels = _core.suggest_duels(
        *posterior.to_core(),
        goal,
        whole_number("k", k, 1),
        None if candidates is None else _numbers_of_pairs(candidates, labels),
        None if n_samples is None else whole_number("n_samples", n_samples, 2),
        seed_of(random_state),
    )
    left, right, *numbers = zip(*duels)
    information, std_error, probability = map(np.array, numbers)
    left_names, right_names = [labels[i] for i in left], [labels[i] for i in right]
    return DuelSuggestions(left_names, right_names, information, std_error, probability, goal)


def _numbers_of_pairs(candidates: Any, labels: list[Any]) -> list[tuple[int, int]]:
    """Returns the positions of the items of candidate duels among ``labels``."""
    position = {label: i for i, label in enumerate(labels)}
    pairs = [tuple(pair) for pair in np.asarray(candidates, dtype=object)]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("candidates: each is a pair of items, left and right")
    unknown = [label for pair in pairs for label in pair if label not in position]
    if unknown:
        raise ValueError(f"candidates: there is no item {unknown[0]!r} among the items")
    return [(position[left], position[right]) for left, right in pairs]
