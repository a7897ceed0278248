"""Preferences: who beats whom, learnt from duels between items with properties.

A :class:`PreferenceClassifier` takes a table of items and duels between its rows:

>>> import numpy as np
>>> import riesz
>>> rng = np.random.default_rng(0)
>>> items = rng.normal(size=(30, 2))
>>> left, right = rng.integers(30, size=(2, 200))
>>> duels = np.column_stack([left, right])[left != right]
>>> duels = np.where((items[duels[:, 0], 0] > items[duels[:, 1], 0])[:, None], duels, duels[:, ::-1])
>>> model = riesz.PreferenceClassifier().fit(items, duels)
>>> bool(model.predict_proba([[1.0, 0.0]], [[-1.0, 0.0]])[0, 1] > 0.9)  # the left item wins
True
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from . import _core
from . import kernels as rk
from ._data import as_cells, as_numbers, collected, names_of, numbered
from ._expansion import Expansion
from ._samples import read_categories

__all__ = ["PreferenceClassifier", "pair_groups"]

#: The shares of a utility and of the generalised part that tuning starts from, in squared log odds.
_SHARE = 2.25
_MODELS = {"nested": (_SHARE, _SHARE), "utility": (_SHARE, 0.0), "generalised": (0.0, _SHARE)}


class PreferenceClassifier(BaseEstimator):
    """``P(l beats r) = σ(g(l, r))``, where g changes its sign with the sides: a Gaussian process over pairs of items, found by
    Laplace's approximation.

    Parameters
    ----------
    model : "nested", "utility" or "generalised"
        What g may be: a difference of utilities, with which there is a ranking (the preferential Gaussian process); any skew
        function, rock, paper and scissors included (the generalised one, Chau et al. 2022); or by default their sum. The marginal
        likelihoods of the three say whether there is a ranking.
    kernel : riesz.kernels.Kernel, default ``RBF("median_per_feature")``
        Between items; where tuning starts.
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps kernel and shares as they are. Tuning maximises the marginal likelihood times weak priors around the start,
        as few duels say little of many length scales.
    n_restarts_optimizer : int, default 0
        Further runs from random places.
    random_state : int, RandomState or None

    Attributes
    ----------
    expansion_ : Expansion
        The log odds as a model of wide rows, the left item's columns and then the right one's (``left_…``, ``right_…``).
    kernel_ : riesz.kernels.Kernel
        The kernel of items as it was used.
    utility_, generalised_ : float
        The shares of the two parts in the prior, in squared log odds.
    log_marginal_likelihood_value_ : float
    classes_ : array of "right" and "left", as the columns of :meth:`predict_proba`.
    """

    expansion_: Expansion

    def __init__(self, model="nested", *, kernel=None, optimizer="fmin_l_bfgs_b", n_restarts_optimizer=0, random_state=None):
        self.model = model
        self.kernel = kernel
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.random_state = random_state

    def fit(self, items: Any, duels: Any, *, outcome: Any = None, sample_weight: Any = None) -> PreferenceClassifier:
        """Fits to duels among the rows of ``items``.

        ``duels`` are pairs of numbers of rows, from 0, or of a data frame's index labels: (winner, loser); with ``outcome``
        (left, right), of which the left one won where it is 1, the right one where it is 0, and 0.5 is a tie.
        """
        if self.model not in _MODELS:
            raise ValueError(f"model = {self.model!r}: it is one of {', '.join(map(repr, _MODELS))}")
        if self.optimizer not in (None, "fmin_l_bfgs_b"):
            raise ValueError(f"optimizer = {self.optimizer!r}: it is 'fmin_l_bfgs_b', or None to keep the kernel as it is")
        restarts = self.n_restarts_optimizer
        if isinstance(restarts, bool) or not isinstance(restarts, (int, np.integer)) or restarts < 0:
            raise ValueError(f"n_restarts_optimizer = {restarts!r}: it is a whole number, 0 or more")
        text, table, given = _given(items, duels, outcome, sample_weight, self.kernel)
        names, levels, _ = table
        fitted, found, shares = _core.fit_preferences(
            text,
            table,
            given,
            *_MODELS[self.model],
            self.optimizer is not None,
            int(restarts),
            int(check_random_state(self.random_state).randint(2**31 - 1)),
        )
        for message in fitted.warnings:
            warnings.warn(f"{type(self).__name__}: {message}", ConvergenceWarning, stacklevel=2)
        self._names, self._levels = list(names), list(levels)
        self.expansion_ = Expansion._wrap(fitted.model)
        self.kernel_ = rk._from_json(found, self._names)
        self.utility_, self.generalised_ = shares
        self.log_marginal_likelihood_value_ = fitted.log_marginal_likelihood
        self.classes_ = np.array(["right", "left"])
        self.n_features_in_ = len(self._names)
        return self

    def rows(self, left: Any, right: Any) -> np.ndarray:
        """Wide rows of duels, (duels, 2 · features), as ``expansion_`` takes them: for :class:`riesz.Explainer`."""
        check_is_fitted(self)
        sides = [self._items(side, what) for side, what in ((left, "left"), (right, "right"))]
        counts = sorted({len(side) for side in sides})
        if len(counts) > 1 and counts[0] != 1:
            raise ValueError(
                f"left has {len(sides[0])} rows and right {len(sides[1])}: a row of each is a duel, or one has a single row"
            )
        count = max(counts)
        wide = np.hstack([np.broadcast_to(side, (count, side.shape[1])) for side in sides])
        if any(levels is not None for levels in self._levels):
            wide = wide.astype(object)
            for j, levels in enumerate([*self._levels, *self._levels]):
                if levels is not None:
                    wide[:, j] = [levels[int(code)] for code in wide[:, j]]
        return wide

    @property
    def groups_(self) -> dict[str, list[str]]:
        """The players of a duel: a feature of both items is one."""
        check_is_fitted(self)
        return {name: [f"left_{name}", f"right_{name}"] for name in self._names}

    def decision_function(self, left: Any, right: Any, return_std: bool = False) -> Any:
        """The log odds that the left item wins, their posterior mean, and with ``return_std`` their standard deviation, too."""
        return self.expansion_.predict(self.rows(left, right), return_std=return_std)

    def predict_proba(self, left: Any, right: Any) -> np.ndarray:
        """The probabilities that the right and that the left item wins, averaged over the posterior: (duels, 2)."""
        return self.expansion_.predict_proba(self.rows(left, right))

    def predict(self, left: Any, right: Any) -> np.ndarray:
        """Who is more likely to win, ``"left"`` or ``"right"``."""
        return self.classes_[(self.decision_function(left, right) > 0).astype(int)]

    def superiority(self, left: Any, right: Any) -> np.ndarray:
        """How sure it is that the left item is the better one: the posterior probability that its log odds are positive;
        ½ for two alike."""
        from scipy.special import ndtr

        rows = self.rows(left, right)
        mean, sd = self.expansion_.predict(rows, return_std=True)
        alike = (rows[:, : self.n_features_in_] == rows[:, self.n_features_in_ :]).all(axis=1)
        return np.where(alike, 0.5, ndtr(mean / np.where(sd > 0, sd, np.finfo(float).tiny)))

    def _items(self, items: Any, what: str) -> np.ndarray:
        if any(levels is not None for levels in self._levels):
            return as_numbers(collected(items), self._names, what, self._levels)
        return _numbers(items, self._names, what)


def pair_groups(duels: Any) -> np.ndarray:
    """The number of each duel's pair of items, the same for both orders: the ``groups`` of scikit-learn's ``GroupKFold`` and
    its kin. A split that tears a pair's duels apart tells a model what it is tested on.

    >>> pair_groups([(0, 1), (2, 1), (1, 0)]).tolist()
    [0, 1, 0]
    """
    cells = np.asarray(duels)
    if cells.ndim != 2 or cells.shape[1] != 2:
        raise ValueError(f"duels have the shape {cells.shape}: each is a pair of items")
    known: dict[frozenset, int] = {}
    return np.array([known.setdefault(frozenset(pair), len(known)) for pair in cells.tolist()])


def _given(items: Any, duels: Any, outcome: Any, sample_weight: Any, kernel: Any) -> tuple[str, tuple, tuple]:
    """The kernel of items, their names, levels and rows, and the duels: either side, outcomes and weights."""
    kernel = rk.RBF("median_per_feature") if kernel is None else kernel
    if not isinstance(kernel, rk.Kernel):
        raise TypeError(f"kernel = {kernel!r}: it is a kernel of riesz.kernels, or None")
    read = read_categories(collected(items))
    if read is not None:
        names, levels, rows = read
    else:
        rows = _numbers(items, names_of(collected(items)), "items")
        names, levels = names_of(collected(items)) or numbered(rows.shape[1]), [None] * rows.shape[1]
    left, right = _places(items, duels, len(rows))
    won = np.ones(len(left)) if outcome is None else _column("outcome", outcome, len(left))
    weight = None if sample_weight is None else _column("sample_weight", sample_weight, len(left)).tolist()
    text = kernel._at(rows, names, levels)._to_json(names, levels)
    return text, (list(names), list(levels), rows), (left.tolist(), right.tolist(), won.tolist(), weight)


def _numbers(items: Any, names: list[str] | None, what: str) -> np.ndarray:
    """Items in rows; a single one may be a row without a table."""
    cells = collected(items)
    own = names_of(cells)
    if own is None:
        cells = as_cells(np.atleast_2d(np.asarray(cells)), what)
    return as_numbers(cells, names or own or numbered(cells.shape[1]), what)


def _column(name: str, values: Any, count: int) -> np.ndarray:
    numbers = np.asarray(values, dtype=float)
    if numbers.shape != (count,):
        raise ValueError(f"{name} has the shape {numbers.shape}: it has one number for each of the {count} duels")
    return numbers


def _places(items: Any, duels: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of rows of either side."""
    cells = np.asarray(duels)
    if cells.ndim != 2 or cells.shape[1] != 2:
        raise ValueError(
            f"duels have the shape {cells.shape}: each is a pair of items, (winner, loser), or (left, right) with outcome"
        )
    index = getattr(items, "index", None)
    if index is not None and not callable(index):
        known: dict[Any, int] = {}
        for place, label in enumerate(index):
            if label in known:
                raise ValueError(f"the index of items has '{label}' twice: each item is one row")
            known[label] = place
        unknown = [label for label in dict.fromkeys(cells.ravel().tolist()) if label not in known]
        if unknown:
            told = ", ".join(map(repr, unknown[:5])) + (f", … ({len(unknown)} in all)" if len(unknown) > 5 else "")
            raise ValueError(f"duels name items that are not in the index of items: {told}")
        places = np.array([[known[label] for label in pair] for pair in cells.tolist()])
    else:
        if cells.dtype.kind not in "iu":
            raise TypeError(
                "duels are pairs of numbers of rows of items; labels need items as a data frame with these labels as its index"
            )
        if cells.size and (cells.min() < 0 or cells.max() >= count):
            raise ValueError(
                f"duels name item {cells.min() if cells.min() < 0 else cells.max()}, but items have {count} rows, from 0"
            )
        places = cells
    return places[:, 0].astype(int), places[:, 1].astype(int)
