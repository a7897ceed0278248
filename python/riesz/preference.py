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
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from . import _core
from . import kernels as rk
from ._data import as_cells, as_numbers, collected, names_of, numbered
from ._expansion import Expansion
from ._samples import read_categories

__all__ = ["PairClassifier", "PreferenceClassifier", "pair_groups"]

#: The shares of a utility and of the generalised part that tuning starts from, in squared log odds.
_SHARE = 2.25
_MODELS = {"nested": (_SHARE, _SHARE), "utility": (_SHARE, 0.0), "generalised": (0.0, _SHARE)}
#: Models without a process: log odds are differences of abilities, one an item, or linear in its features.
_ABILITIES = ("bradley_terry", "linear")
#: More pairs that met are taken through landmarks, by default so many.
_DENSE, _LANDMARKS = 2000, 250


class PreferenceClassifier(BaseEstimator):
    """``P(l beats r) = σ(g(l, r))``, where g changes its sign with the sides: a Gaussian process over pairs of items, found by
    Laplace's approximation.

    Parameters
    ----------
    model : "nested", "utility", "generalised", "bradley_terry" or "linear"
        What g may be: a difference of utilities, with which there is a ranking (the preferential Gaussian process); any skew
        function, rock, paper and scissors included (the generalised one, Chau et al. 2022); or by default their sum. The marginal
        likelihoods of the three say whether there is a ranking. The last two are simpler: a difference of abilities, one an item
        whatever its features (Bradley and Terry 1952: predictions take labels of items), or of weighted sums of features.
    kernel : riesz.kernels.Kernel, default ``RBF("median_per_feature")``
        Between items; where tuning starts.
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps kernel and shares as they are. Tuning maximises the marginal likelihood times weak priors around the start,
        as few duels say little of many length scales.
    n_restarts_optimizer : int, default 0
        Further runs from random places.
    random_state : int, RandomState or None
    ridge : float or "evidence"
        Of the models "bradley_terry" and "linear": λ of the penalty ``½ λ Σ β²`` on abilities, or coefficients of standardised
        features. 0 asks for the maximum of the likelihood, where it has one. By default λ is a random effect's: the one with the
        largest marginal likelihood.
    landmarks : "auto", int or None
        Knows items through so many of them, so that many duels can be learnt from; with as many landmarks as items nothing is
        approximated. ``None`` never does; "auto" takes 250 where more than 2,000 pairs met.
    n_tuning_pairs : int, default 1500
        With landmarks tuning looks at so many pairs that met, drawn at random.
    n_draws : int, default 64
        With landmarks standard deviations are estimated from so many draws; the standard error of one is ``1/√(2 n_draws)`` of
        it.
    tol : float, default 1e-6
        With landmarks Newton's method ends where the slope is this share of the one that it starts with.

    Attributes
    ----------
    expansion_ : Expansion
        The log odds as a model of wide rows, the left item's columns and then the right one's (``left_…``, ``right_…``). Through
        landmarks it holds the mean alone, and is None where the kernel does not vanish far from all items.
    kernel_ : riesz.kernels.Kernel
        The kernel of items as it was used.
    utility_, generalised_ : float
        The shares of the two parts in the prior, in squared log odds.
    log_marginal_likelihood_value_ : float
        Of duels; with landmarks of those that tuning looked at, and None without tuning.
    landmarks_ : int or None
        How many items are landmarks, and ``unknown_variance_``, the share of the items' variance that these do not know.
    abilities_, abilities_std_ : dict
        Of "bradley_terry", by label of the item. Abilities sum up to 0. Standard deviations are None for more than 1,000 items.
    coef_, coef_std_ : array
        Of "linear", by feature.
    ridge_ : float
        λ as it was used.
    notes_ : list of str
        What only a ridge makes finite or comparable: items that never won or never lost, groups without duels between them.
    classes_ : array of "right" and "left", as the columns of :meth:`predict_proba`.
    """

    #: Of a model through landmarks whose kernel does not vanish, None.
    expansion_: Any

    def __init__(
        self,
        model="nested",
        *,
        kernel=None,
        optimizer="fmin_l_bfgs_b",
        n_restarts_optimizer=0,
        random_state=None,
        ridge="evidence",
        landmarks="auto",
        n_tuning_pairs=1500,
        n_draws=64,
        tol=1e-6,
    ):
        self.ridge = ridge
        self.landmarks = landmarks
        self.n_tuning_pairs = n_tuning_pairs
        self.n_draws = n_draws
        self.tol = tol
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
        self._function, self.landmarks_ = None, None
        if self.model in _ABILITIES:
            return self._fit_abilities(items, duels, outcome, sample_weight)
        if self.model not in _MODELS:
            raise ValueError(f"model = {self.model!r}: it is one of {', '.join(map(repr, [*_MODELS, *_ABILITIES]))}")
        if self.optimizer not in (None, "fmin_l_bfgs_b"):
            raise ValueError(f"optimizer = {self.optimizer!r}: it is 'fmin_l_bfgs_b', or None to keep the kernel as it is")
        restarts = self.n_restarts_optimizer
        if isinstance(restarts, bool) or not isinstance(restarts, (int, np.integer)) or restarts < 0:
            raise ValueError(f"n_restarts_optimizer = {restarts!r}: it is a whole number, 0 or more")
        kernel = rk.RBF("median_per_feature") if self.kernel is None else self.kernel
        if not isinstance(kernel, rk.Kernel):
            raise TypeError(f"kernel = {kernel!r}: it is a kernel of riesz.kernels, or None")
        names, levels, rows = _read(items)
        left, right = _places(items, duels, len(rows))
        won = np.ones(len(left)) if outcome is None else _column("outcome", outcome, len(left))
        weight = None if sample_weight is None else _column("sample_weight", sample_weight, len(left)).tolist()
        text = kernel._at(rows, names, levels)._to_json(names, levels)
        given = (list(names), list(levels), rows), (left.tolist(), right.tolist(), won.tolist(), weight)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        tune, most = self.optimizer is not None, self._most_landmarks(left, right)
        model: Any
        if most is None:
            fitted, found, shares = _core.fit_preferences(text, *given, *_MODELS[self.model], tune, int(restarts), seed)
            model, value, notes = fitted.model, fitted.log_marginal_likelihood, fitted.warnings
        else:
            pairs, draws = _count("n_tuning_pairs", self.n_tuning_pairs, 1), _count("n_draws", self.n_draws, 0)
            function, model, found, shares, notes, value, self.unknown_variance_ = _core.fit_landmarks(
                text, *given, list(_MODELS[self.model]), tune, int(restarts), seed, (most, pairs, draws, float(self.tol))
            )
            self._function, self.landmarks_ = function, function.landmarks
        for message in notes:
            warnings.warn(f"{type(self).__name__}: {message}", ConvergenceWarning, stacklevel=2)
        self._names, self._levels = list(names), list(levels)
        self.expansion_ = None if model is None else Expansion._wrap(model)
        self.kernel_ = rk._from_json(found, self._names)
        self.utility_, self.generalised_ = shares
        self.log_marginal_likelihood_value_ = value
        self.classes_ = np.array(["right", "left"])
        self.n_features_in_ = len(self._names)
        return self

    def _most_landmarks(self, left: np.ndarray, right: np.ndarray) -> int | None:
        if self.landmarks == "auto":
            met = len(set(map(frozenset, zip(left.tolist(), right.tolist()))))
            return _LANDMARKS if met > _DENSE else None
        return None if self.landmarks is None else _count("landmarks", self.landmarks, 1)

    def _fit_abilities(self, items: Any, duels: Any, outcome: Any, sample_weight: Any) -> PreferenceClassifier:
        alone = self.model == "bradley_terry"
        if self.ridge != "evidence" and (isinstance(self.ridge, (str, bool)) or not self.ridge >= 0):
            raise ValueError(f"ridge = {self.ridge!r}: it is a number, 0 or more, or 'evidence'")
        if items is None and alone:
            items = _Labels(np.asarray(duels))
        if alone:
            index = getattr(items, "index", None)
            labels = list(range(len(items)) if index is None or callable(index) else index)
            given = None
        else:
            names, levels, rows = _read(items)
            labels, given = list(range(len(rows))), (list(names), list(levels), rows)
        left, right = _places(items, duels, len(labels))
        won = np.ones(len(left)) if outcome is None else _column("outcome", outcome, len(left))
        weight = None if sample_weight is None else _column("sample_weight", sample_weight, len(left)).tolist()
        fitted, coef, spread, notes = _core.fit_bradley_terry(
            [str(label) for label in labels],
            given,
            (left.tolist(), right.tolist(), won.tolist(), weight),
            None if self.ridge == "evidence" else float(self.ridge),
        )
        self.notes_ = notes
        self.expansion_ = Expansion._wrap(fitted.model)
        self.ridge_, self.log_marginal_likelihood_value_ = fitted.chosen, fitted.log_marginal_likelihood
        if alone:
            self._names, self._levels = ["item"], [[str(label) for label, value in zip(labels, coef) if value == value]]
            self.abilities_ = dict(zip(labels, coef))
            self.abilities_std_ = None if spread is None else dict(zip(labels, spread))
        elif given is not None:
            self._names, self._levels = given[0], given[1]
            self.coef_, self.coef_std_ = np.array(coef), None if spread is None else np.array(spread)
        self.classes_ = np.array(["right", "left"])
        self.n_features_in_ = len(self._names)
        return self

    def rows(self, left: Any, right: Any) -> np.ndarray:
        """Wide rows of duels, (duels, 2 · features), as ``expansion_`` takes them: for :class:`riesz.Explainer`."""
        wide = self._codes(left, right)
        if any(levels is not None for levels in self._levels):
            wide = wide.astype(object)
            for j, levels in enumerate([*self._levels, *self._levels]):
                if levels is not None:
                    wide[:, j] = [levels[int(code)] for code in wide[:, j]]
        return wide

    def _codes(self, left: Any, right: Any) -> np.ndarray:
        """The same with numbers for categories."""
        check_is_fitted(self)
        sides = [self._items(side, what) for side, what in ((left, "left"), (right, "right"))]
        counts = sorted({len(side) for side in sides})
        if len(counts) > 1 and counts[0] != 1:
            raise ValueError(
                f"left has {len(sides[0])} rows and right {len(sides[1])}: a row of each is a duel, or one has a single row"
            )
        count = max(counts)
        return np.hstack([np.broadcast_to(side, (count, side.shape[1])) for side in sides])

    def _pairs(self, left: Any, right: Any) -> tuple[tuple, list[tuple[int, int]]]:
        """Each item once, and pairs of them: how landmarks take duels."""
        wide = self._codes(left, right)
        items, places = np.unique(np.vstack(np.hsplit(wide, 2)), axis=0, return_inverse=True)
        left, right = np.split(places.ravel(), 2)
        return (self._names, self._levels, items), list(zip(left.tolist(), right.tolist()))

    @property
    def groups_(self) -> dict[str, list[str]]:
        """The players of a duel: a feature of both items is one."""
        check_is_fitted(self)
        return {name: [f"left_{name}", f"right_{name}"] for name in self._names}

    def decision_function(self, left: Any, right: Any, return_std: bool = False) -> Any:
        """The log odds that the left item wins, their posterior mean, and with ``return_std`` their standard deviation, too."""
        if self._function is not None:
            mean, sd = self._function.log_odds(*self._pairs(left, right), return_std)
            return (mean, sd) if return_std else mean
        return self.expansion_.predict(self.rows(left, right), return_std=return_std)

    def predict_proba(self, left: Any, right: Any) -> np.ndarray:
        """The probabilities that the right and that the left item wins, averaged over the posterior: (duels, 2). Those of
        "bradley_terry" and "linear" are of the estimated log odds themselves."""
        if self._function is not None:
            chance = self._function.probability(*self._pairs(left, right))
            return np.column_stack([1 - chance, chance])
        return self.expansion_.predict_proba(self.rows(left, right))

    def predict(self, left: Any, right: Any) -> np.ndarray:
        """Who is more likely to win, ``"left"`` or ``"right"``."""
        return self.classes_[(self.decision_function(left, right) > 0).astype(int)]

    def superiority(self, left: Any, right: Any) -> np.ndarray:
        """How sure it is that the left item is the better one: the posterior probability that its log odds are positive;
        ½ for two alike."""
        from scipy.special import ndtr

        rows = self._codes(left, right)
        mean, sd = self.decision_function(left, right, return_std=True)
        alike = (rows[:, : self.n_features_in_] == rows[:, self.n_features_in_ :]).all(axis=1)
        return np.where(alike, 0.5, ndtr(mean / np.where(sd > 0, sd, np.finfo(float).tiny)))

    def _items(self, items: Any, what: str) -> np.ndarray:
        if self.model == "bradley_terry":
            labels = np.array([[str(label)] for label in np.asarray(items, dtype=object).ravel()], dtype=object)
            return as_numbers(labels, self._names, what, self._levels)
        if any(levels is not None for levels in self._levels):
            return as_numbers(collected(items), self._names, what, self._levels)
        return _numbers(items, self._names, what)


class PairClassifier(BaseEstimator):
    """Any classifier of scikit-learn on pairs of items, ``(x_left, x_right)``: a baseline for :class:`PreferenceClassifier`.

    Each duel is learnt in both orders, and predictions are averages over both, ``½ (p(l, r) + 1 - p(r, l))``, so that who stands
    left means nothing. Split duels before fitting, never after: a mirrored duel tells its twin. With logistic regression it is
    the baseline PAIR-LOGREG of Chau (2023), with a Gaussian process PAIR-GP; boosted trees are often the one to beat.

    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> import numpy as np
    >>> model = PairClassifier(HistGradientBoostingClassifier()).fit(np.arange(40.0)[:, None], [(i + 1, i) for i in range(39)])
    >>> p, q = model.predict_proba([[9.0]], [[3.0]])[0], model.predict_proba([[3.0]], [[9.0]])[0]
    >>> bool(p[1] == q[0])
    True

    Parameters
    ----------
    estimator : classifier
        Fitted to a clone, which is ``estimator_``. Ties and weights take one whose ``fit`` has ``sample_weight``.
    """

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, items: Any, duels: Any, *, outcome: Any = None, sample_weight: Any = None) -> PairClassifier:
        """As :meth:`PreferenceClassifier.fit`. The estimator gets arrays, or frames with columns ``left_…`` and ``right_…``."""
        left, right = _places(items, duels, len(items))
        won = np.ones(len(left)) if outcome is None else _column("outcome", outcome, len(left))
        if not ((won >= 0) & (won <= 1)).all():
            raise ValueError("outcome is 1 where the left item won, 0 where the right one, and 0.5 for a tie")
        weight = np.ones(len(left)) if sample_weight is None else _column("sample_weight", sample_weight, len(left))
        # Each duel in both orders; ties, which are half a win for either, as a win and a loss.
        places = np.concatenate([left, right]), np.concatenate([right, left])
        share, weight = np.concatenate([won, 1 - won]), np.concatenate([weight, weight])
        parts = [(share > 0, 1, weight * share), (share < 1, 0, weight * (1 - share))]
        at = np.concatenate([np.flatnonzero(there) for there, _, _ in parts])
        y = np.concatenate([np.full(there.sum(), label) for there, label, _ in parts])
        weights = np.concatenate([w[there] for there, _, w in parts])
        rows = _wide(_picked(items, places[0][at]), _picked(items, places[1][at]))
        how = {} if (weights == 1).all() else {"sample_weight": weights}
        self.estimator_ = clone(self.estimator).fit(rows, y, **how)
        self.classes_ = np.array(["right", "left"])
        return self

    def predict_proba(self, left: Any, right: Any) -> np.ndarray:
        """The probabilities that the right and that the left item wins: (duels, 2)."""
        check_is_fitted(self)
        one, other = (self.estimator_.predict_proba(_wide(*sides))[:, 1] for sides in ((left, right), (right, left)))
        ahead = 0.5 * (one - other)
        return np.column_stack([0.5 - ahead, 0.5 + ahead])

    def decision_function(self, left: Any, right: Any) -> np.ndarray:
        """The log odds that the left item wins."""
        chance = self.predict_proba(left, right)
        with np.errstate(divide="ignore"):
            return np.log(chance[:, 1]) - np.log(chance[:, 0])

    def predict(self, left: Any, right: Any) -> np.ndarray:
        """Who is more likely to win, ``"left"`` or ``"right"``."""
        chance = self.predict_proba(left, right)
        return self.classes_[(chance[:, 1] > chance[:, 0]).astype(int)]


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


class _Labels:
    """Items of which nothing but the labels is known."""

    def __init__(self, duels: np.ndarray):
        self.index = list(dict.fromkeys(duels.ravel().tolist()))

    def __len__(self) -> int:
        return len(self.index)


def _picked(items: Any, places: np.ndarray) -> Any:
    return items.iloc[places] if hasattr(items, "iloc") else np.asarray(items)[places]


def _wide(left: Any, right: Any) -> Any:
    """Sides beside one another, as data frames if they are."""
    if not hasattr(left, "iloc"):
        return np.hstack([np.atleast_2d(np.asarray(left)), np.atleast_2d(np.asarray(right))])
    sides = [(left, "left"), (right, "right")]
    columns = {f"{side}_{name}": rows[name].array for rows, side in sides for name in rows.columns}
    return type(left)(columns)


def _count(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} = {value!r}: it is a whole number, {least} or more")
    return int(value)


def _read(items: Any) -> tuple[list[str], list[list[str] | None], np.ndarray]:
    """Names and levels of columns, and the rows as numbers."""
    read = read_categories(collected(items))
    if read is not None:
        return read
    rows = _numbers(items, names_of(collected(items)), "items")
    return names_of(collected(items)) or numbered(rows.shape[1]), [None] * rows.shape[1], rows


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
