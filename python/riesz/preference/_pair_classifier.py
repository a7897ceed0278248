"""Any classifier on pairs of items, and groups for splits that keep pairs together."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from ._duel_contexts import pairs_of, rows_of
from ._outcomes import read_outcomes


class PairClassifier(BaseEstimator):
    """Any classifier of scikit-learn on pairs of items ``(x_left, x_right)``: a baseline for
    :class:`PreferenceClassifier`.

    Each duel is learnt in both orders, and predictions are averaged over both, ``½ (p(l, r) + 1 - p(r, l))``,
    so they do not depend on the sides. Split duels before fitting, never afterwards: a mirrored duel contains
    the outcome of the original. With logistic regression it is the baseline PAIR-LOGREG of Chau (2023), with
    a Gaussian process PAIR-GP; boosted trees are often the strongest baseline.

    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> import numpy as np
    >>> duels = [(i + 1, i) for i in range(39)]
    >>> model = PairClassifier(HistGradientBoostingClassifier()).fit(np.arange(40.0)[:, None], duels)
    >>> p, q = model.predict_proba([[9.0]], [[3.0]])[0], model.predict_proba([[3.0]], [[9.0]])[0]
    >>> bool(p[1] == q[0])
    True

    Parameters
    ----------
    estimator : classifier
        The classifier, of which a clone is fitted (``estimator_``). Ties and weights need ``sample_weight``
        in its ``fit``.
    """

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(
        self,
        items: Any,
        duels: Any,
        *,
        outcome: Any = None,
        scores: Any = None,
        wins: Any = None,
        missing: str = "error",
        sample_weight: Any = None,
    ) -> PairClassifier:
        """Fits the estimator, with the arguments of :meth:`PreferenceClassifier.fit`. The estimator gets
        arrays, or frames with columns ``left_…`` and ``right_…``."""
        left, right = rows_of(items, duels, len(items))
        outcomes = read_outcomes(duels, outcome, sample_weight, scores, wins, missing)
        left, right, outcome_of_left = left[outcomes.rows], right[outcomes.rows], outcomes.outcome
        weight = np.ones(len(outcome_of_left)) if outcomes.weight is None else outcomes.weight
        if not ((weight > 0) & np.isfinite(weight)).all():
            raise ValueError("sample_weight: weights are positive numbers")
        # Each duel in both orders; a tie, half a win for either side, as a win and a loss.
        sides = np.concatenate([left, right]), np.concatenate([right, left])
        share, weight = (
            np.concatenate([outcome_of_left, 1 - outcome_of_left]),
            np.concatenate([weight, weight]),
        )
        parts = [(share > 0, 1, weight * share), (share < 1, 0, weight * (1 - share))]
        positions = np.concatenate([np.flatnonzero(is_used) for is_used, _, _ in parts])
        y = np.concatenate([np.full(is_used.sum(), label) for is_used, label, _ in parts])
        weights = np.concatenate([w[is_used] for is_used, _, w in parts])
        rows = _wide(_rows_at(items, sides[0][positions]), _rows_at(items, sides[1][positions]))
        fit_arguments = {} if (weights == 1).all() else {"sample_weight": weights}
        self.estimator_ = clone(self.estimator).fit(rows, y, **fit_arguments)
        self.classes_ = np.array(["right", "left"])
        return self

    def predict_proba(self, left: Any, right: Any) -> np.ndarray:
        """Returns the probabilities that the right and that the left item wins: (duels, 2)."""
        check_is_fitted(self)
        left_first, right_first = (
            self.estimator_.predict_proba(_wide(*sides))[:, 1] for sides in ((left, right), (right, left))
        )
        advantage = 0.5 * (left_first - right_first)
        return np.column_stack([0.5 - advantage, 0.5 + advantage])

    def decision_function(self, left: Any, right: Any) -> np.ndarray:
        """Returns the log odds that the left item wins."""
        probabilities = self.predict_proba(left, right)
        with np.errstate(divide="ignore"):
            return np.log(probabilities[:, 1]) - np.log(probabilities[:, 0])

    def predict(self, left: Any, right: Any) -> np.ndarray:
        """Returns the more likely winner, ``"left"`` or ``"right"``."""
        probabilities = self.predict_proba(left, right)
        return self.classes_[(probabilities[:, 1] > probabilities[:, 0]).astype(int)]


def pair_groups(duels: Any) -> np.ndarray:
    """Returns the number of each duel's pair of items, the same for both orders, as ``groups`` of
    scikit-learn's ``GroupKFold`` and similar splitters. If the duels of a pair are split, the training duels
    contain information about the test duels.

    >>> pair_groups([(0, 1), (2, 1), (1, 0)]).tolist()
    [0, 1, 0]
    """
    cells = pairs_of(duels)
    if cells.ndim != 2 or cells.shape[1] != 2:
        raise ValueError(f"duels have the shape {cells.shape}: each is a pair of items")
    pair_numbers: dict[frozenset, int] = {}
    return np.array([pair_numbers.setdefault(frozenset(pair), len(pair_numbers)) for pair in cells.tolist()])


def _rows_at(items: Any, rows: np.ndarray) -> Any:
    return items.iloc[rows] if hasattr(items, "iloc") else np.asarray(items)[rows]


def _wide(left: Any, right: Any) -> Any:
    """Returns both sides next to each other, as a data frame if they are data frames."""
    left, right = (
        side.to_frame().T.infer_objects()
        if getattr(side, "ndim", 2) == 1 and hasattr(side, "to_frame")
        else side
        for side in (left, right)
    )
    if not hasattr(left, "iloc"):
        return np.hstack([np.atleast_2d(np.asarray(left)), np.atleast_2d(np.asarray(right))])
    sides = [(left, "left"), (right, "right")]
    columns = {f"{side}_{name}": rows[name].array for rows, side in sides for name in rows.columns}
    return type(left)(columns)
