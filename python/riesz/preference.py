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

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from . import _core
from . import kernels as rk
from ._bradley_terry import ABILITIES, fit_abilities
from ._duel_contexts import (
    HOME,
    ID,
    UNSEEN,
    UNSEEN_RIGHT,
    Contexts,
    bags_of,
    check_optimizer,
    homes,
    labels_of,
    memberships,
    numbers_of,
    places_of,
    read_items,
    rows_of,
    side_by_side,
    sides,
)
from ._duels import NO_COVARIANCE, explain
from ._expansion import Expansion
from ._explanation import Explanation
from ._outcomes import Outcomes, read_outcomes
from ._pair_classifier import PairClassifier, pair_groups
from ._validation import as_numbers, collected, names_of
from .estimators import _count

__all__ = ["PairClassifier", "PreferenceClassifier", "explain", "pair_groups"]


def __dir__() -> list[str]:
    return sorted(__all__)


#: The shares of a utility and of the generalised part that tuning starts from, in squared log odds.
_SHARE = 2.25
#: More pairs that met are taken through landmarks, by default so many.
_DENSE, _LANDMARKS = 2000, 250
_MODELS = {"nested": (_SHARE, _SHARE), "utility": (_SHARE, 0.0), "generalised": (0.0, _SHARE)}
#: The share of the prior that all contexts have in common, where tuning starts.
_SHARED = 0.5


class PreferenceClassifier(BaseEstimator):
    """``P(l beats r) = σ(g(l, r))``, where g changes its sign with the sides: a Gaussian process over pairs
    of items, found by Laplace's approximation.

    Parameters
    ----------
    model : "nested", "utility", "generalised", "bradley_terry" or "linear"
        What g may be: a difference of utilities, with which there is a ranking (the preferential Gaussian
        process); any skew function, rock, paper and scissors included (the generalised one, Chau et al.
        2022); or by default their sum. The marginal likelihoods of the three say whether there is a ranking.
        The last two are simpler: a difference of abilities, one an item whatever its features (Bradley and
        Terry 1952: predictions take labels of items), or of weighted sums of features.
    kernel : riesz.kernels.Kernel, default ``RBF("median_per_feature")``
        Between items; where tuning starts.
    ability : bool, default False
        Whether each item has an ability of its own besides what its covariates say of it, as in Bradley and
        Terry's model.
    context_kernel : riesz.kernels.Kernel, optional
        Between the
        ``contexts`` and ``users`` of duels, by which the prior is multiplied. By default ``ρ + (1 - ρ) k``: a
        share ρ of the prior is common to all contexts (½ where tuning starts), and k is an
        ``RBF("median_per_feature")`` of numbers times a ``Categorical`` of each column of categories.
    ties : "half" or "model"
        What a tie is: half a win for either, or an outcome of its own (Rao and Kupper 1967): with a margin δ
        that is tuned,
        ``P(win) = σ(g - δ)`` and ``P(loss) = σ(-g - δ)``. Then g, which :meth:`decision_function` and
        explanations are of, is the left item's advantage, and the log odds that it wins are ``g - margin_``.
        The two know different things of the duels: do not compare their evidences.
    inference : "laplace" or "bound"
        How the posterior is approximated: around its mode, or by the best lower bound of the marginal
        likelihood (Jaakkola and Jordan 2000), which ``log_marginal_likelihood_value_`` then is: never more
        than the truth, but as a rule further from it.
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps kernel and shares as they are. Tuning maximises the marginal likelihood times weak
        priors around the start, as few duels say little of many length scales.
    n_restarts_optimizer : int, default 0
        Further runs from random places.
    random_state : int, RandomState or None
    ridge : float or "evidence"
        Of the models "bradley_terry" and "linear": λ of the penalty ``½ λ Σ β²`` on abilities, or
        coefficients of standardised features. 0 asks for the maximum of the likelihood, where it has one. By
        default λ is a random effect's: the one with the largest marginal likelihood.
    landmarks : "auto", "all", int or None
        Knows items through so many of them, so that many duels can be learnt from without a matrix between
        all pairs that met. "all", or as many as there are items, approximates nothing: the posterior mean is
        the dense process's. ``None`` takes the matrix; "auto" takes 250 landmarks where more than 2,000 pairs
        met, unless there is something that they know nothing of: bags, the bound.
    context_landmarks : int, default 32
        With landmarks contexts are known through so many of the different ones, which approximates nothing
        where there are no more; users beyond have no say of their own.
    n_tuning_pairs : int, default 1500
        With landmarks tuning looks at so many pairs that met, drawn at random: with a third of them from all
        starts, and from the best of where these lead with all.
    n_draws : int, default 64
        With landmarks standard deviations are estimated from so many draws; the standard error of one is
        ``1/√(2 n_draws)`` of it. (``decision_function(…, return_std="exact")`` takes none.)
    tol : float, default 1e-6
        With landmarks Newton's method ends where the slope is this share of the one that it starts with.
    columns : dict of name to {"text", "number"}, optional
        The types of columns of a data frame, where they look like something else.

    Attributes
    ----------
    expansion_ : Expansion
        The log odds as a model of wide rows, the left item's columns and then the right one's
        (``left_…``, ``right_…``). Through landmarks it holds the mean alone, and is None where the kernel
        does not vanish far from all items, or where there would be too many pairs of landmarks times
        landmarks of contexts.
    kernel_ : riesz.kernels.Kernel
        The kernel of items as it was used.
    utility_, generalised_ : float
        The shares of the two parts in the prior, in squared log odds.
    home_advantage_, ability_ : float
        The shares of being at home and of abilities, in squared log odds; 0 without them.
    context_kernel_ : riesz.kernels.Kernel or None
    shared_ : float
        The share ρ of the prior that all contexts have in common.
    margin_ : float
        By how much a side has to be ahead, in log odds, with ``ties="model"``; else 0.
    log_marginal_likelihood_value_ : float
        Of duels; with landmarks of those that tuning looked at, and None without tuning.
    landmarks_, context_landmarks_ : int or None
        How many items are landmarks, and ``unknown_variance_``, the share of the items' variance that these
        do not know; and ``unknown_context_variance_``, that of the contexts'.
    abilities_, abilities_std_ : dict
        Of "bradley_terry", by label of the item. Abilities sum up to 0. Standard deviations are None for more
        than 1,000 items.
    coef_, coef_std_ : array
        Of "linear", by feature.
    ridge_ : float
        λ as it was used.
    notes_ : list of str
        What only a ridge makes finite or comparable: items that never won or never lost, groups without duels
        between them.
    classes_ : array of "right" and "left", and "tie" with
    ``ties="model"``, as the columns of :meth:`predict_proba`."""

    #: Of a model through landmarks whose kernel does not vanish, None.
    expansion_: Any
    shared_: float
    #: Models with what a model may lack: contexts, who is at home, names of items, landmarks.
    _contexts: Contexts | None = None
    _has_home = False
    _ids: list[str] | None = None
    _function: Any = None
    _no_model_reason: str | None = None
    _background: Any = None

    def __init__(
        self,
        model="nested",
        *,
        kernel=None,
        ability=False,
        context_kernel=None,
        ties="half",
        inference="laplace",
        optimizer="fmin_l_bfgs_b",
        n_restarts_optimizer=0,
        random_state=None,
        ridge="evidence",
        landmarks="auto",
        context_landmarks=32,
        n_tuning_pairs=1500,
        n_draws=64,
        tol=1e-6,
        columns=None,
    ):
        self.model = model
        self.kernel = kernel
        self.ability = ability
        self.context_kernel = context_kernel
        self.ties = ties
        self.inference = inference
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.random_state = random_state
        self.ridge = ridge
        self.landmarks = landmarks
        self.context_landmarks = context_landmarks
        self.n_tuning_pairs = n_tuning_pairs
        self.n_draws = n_draws
        self.tol = tol
        self.columns = columns

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
        contexts: Any = None,
        users: Any = None,
        home: Any = None,
        members: Any = None,
    ) -> PreferenceClassifier:
        """Fits to duels among the rows of ``items``.

        ``duels`` are pairs of numbers of rows, from 0, or of a data frame's index labels: (winner, loser); or
        (left, right) with one of

        - ``outcome``, one a duel: left, right or tie; win, loss or draw; W, L or D; home, away or draw; H, A
          or D; model_a, model_b or tie; A, B or tie; 1, 0 or 0.5, or another share of a win; 1, -1 or 0; 1, 2
          or X; a score such as 2-1, 1-0 or 1/2-1/2; or the winner's label. All entries are of one of these
          kinds;
        - ``scores``, (duels, 2): the higher one wins, and equal ones are a tie;
        - ``wins``, (duels, 2) or (duels, 3): how many duels each side won, and how many were ties, where a
          row is several.

        A missing outcome is an error, or with ``missing="drop"`` the duel is left out with a warning.

        One a duel: ``contexts``, rows of numbers and categories (surface, season); ``users``, names of who
        judged; ``home``, the side at home, ``"left"``, ``"right"``, ``"none"`` or the item's label, whose
        advantage is learnt.

        Of the model "bradley_terry" ``items`` may be ``None``: a leaderboard takes nothing but duels between
        labels.

        With ``members``, rows of (bag, item) or (bag, item, weight), duels are between *bags*: the log odds
        of two bags are the mean of those of their members. :meth:`predict_bags` predicts them; all else is of
        items."""
        self._check()
        further = {"contexts": contexts, "users": users, "home": home, "members": members}
        self.landmarks_: int | None = None
        self.context_landmarks_: int | None = None
        self._function, self._background = None, copy.deepcopy(items)
        outcomes = read_outcomes(duels, outcome, sample_weight, scores, wins, missing)
        if self.model in ABILITIES:
            return self._fit_abilities(items, duels, outcomes, further)
        restarts = _count("n_restarts_optimizer", self.n_restarts_optimizer, 0)
        kernel = rk.RBF("median_per_feature") if self.kernel is None else self.kernel
        names, levels, rows = read_items(items, self.columns)
        for used, name in ((home is not None, HOME), (self.ability, ID)):
            if used and name in names:
                raise ValueError(f"items have a column '{name}', as the model would call its own: rename it")
        bags = None
        if members is not None:
            if home is not None or self.ability:
                raise ValueError(
                    "members: bags have no home and no ability of their own: leave home out, and ability "
                    "False"
                )
            called, bag, item, share = memberships(members, items, len(rows))
            bags = (len(called), bag, item, share)
            left, right = bags_of(duels, called)
        else:
            left, right = rows_of(items, duels, len(rows))
        count, kept = len(left), outcomes.rows
        at_home = None if home is None else homes(home, duels)[kept].tolist()
        duel = outcomes.to_core(left, right)
        left, right = left[kept], right[kept]
        context_columns, between = None, None
        if contexts is not None or users is not None:
            context_columns, cells = Contexts.read(contexts, users, count)
            cells = np.ascontiguousarray(cells[kept])
            context_kernel = (
                rk.RBF("median_per_feature") if self.context_kernel is None else self.context_kernel
            )
            text = context_kernel._fitted_to(cells, context_columns.names, context_columns.levels)._to_json(
                context_columns.names, context_columns.levels
            )
            shared = _SHARED if self.context_kernel is None else 0.0
            between = (text, shared, (context_columns.names, context_columns.levels, cells))
        elif self.context_kernel is not None:
            raise ValueError(
                "context_kernel: these duels have no contexts: give fit contexts or users, or leave the "
                "kernel out"
            )
        text = kernel._fitted_to(rows, names, levels)._to_json(names, levels)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        labels = labels_of(items) if self.ability else None
        called = labels if labels is not None else [str(i) for i in range(len(rows))]
        circumstances = {
            "home": at_home,
            "names": called if self.ability else None,
            "contexts": between,
            "members": bags,
            "ties": self.ties == "model",
            "bound": self.inference == "bound",
        }
        fitted: Any
        prior: Any
        table, tune = (names, levels, rows), self.optimizer is not None
        n_landmarks = self._most_landmarks(
            left, right, None if between is None else between[2][2], bags is not None
        )
        if n_landmarks is None:
            fitted, prior = _core.fit_preferences(
                text, table, duel, circumstances, *_MODELS[self.model], tune, restarts, seed
            )
            model, notes = fitted.model, fitted.warnings
        else:
            n_context_landmarks = _count("context_landmarks", self.context_landmarks, 1)
            pairs, draws = (
                _count("n_tuning_pairs", self.n_tuning_pairs, 1),
                _count("n_draws", self.n_draws, 0),
            )
            sizes = (n_landmarks, n_context_landmarks, pairs, draws, float(self.tol))
            fitted = _core.fit_landmarks(
                text, table, duel, circumstances, list(_MODELS[self.model]), tune, restarts, seed, sizes
            )
            prior, model, notes = fitted.prior, fitted.model, fitted.warnings
            self._function, self._no_model_reason = fitted.function, fitted.no_model_reason
            self.landmarks_, self.context_landmarks_ = (
                fitted.function.landmarks,
                fitted.function.context_landmarks,
            )
            self.unknown_variance_, self.unknown_context_variance_ = fitted.unknown, fitted.unknown_contexts
        for message in notes:
            warnings.warn(f"{type(self).__name__}: {message}", ConvergenceWarning, stacklevel=2)
        self._names, self._levels, self._contexts = names, levels, context_columns
        self._has_home, self._ids = (
            home is not None,
            [*called, UNSEEN, UNSEEN_RIGHT] if self.ability else None,
        )
        self.expansion_ = None if model is None else Expansion._wrap(model)
        self.kernel_ = rk._from_json(prior.kernel, self._names)
        self.utility_, self.generalised_ = prior.utility, prior.generalised
        further_variances = list(prior.further)
        self.home_advantage_ = further_variances.pop(0) if self._has_home else 0.0
        self.ability_ = further_variances.pop(0) if self.ability else 0.0
        text, self.shared_ = prior.contexts or (None, 1.0)
        self.context_kernel_ = (
            None if text is None or context_columns is None else rk._from_json(text, context_columns.names)
        )
        self.margin_ = prior.margin or 0.0
        self.log_marginal_likelihood_value_ = fitted.log_marginal_likelihood
        self.classes_ = np.array(["right", "left", "tie"][: 3 if self.ties == "model" else 2])
        self.n_features_in_ = len(self._names)
        return self

    def _fit_abilities(
        self, items: Any, duels: Any, outcomes: Outcomes, further: dict[str, Any]
    ) -> PreferenceClassifier:
        options = {
            "ability": self.ability or None,
            "ties": None if self.ties == "half" else self.ties,
            "inference": None if self.inference == "laplace" else self.inference,
            "context_kernel": self.context_kernel,
            "landmarks": None if self.landmarks in ("auto", None) else self.landmarks,
        }
        for name, setting in (further | options).items():
            if setting is not None:
                raise ValueError(
                    f"{name}: model = {self.model!r} knows nothing of it: leave it out, or take 'utility'"
                )
        for name, value in fit_abilities(
            self.model, items, duels, outcomes, self.ridge, self.columns
        ).items():
            setattr(self, name, value)
        self._contexts, self._has_home, self._ids = None, False, None
        if self.model == "bradley_terry":
            self._background = np.array([[name] for name in self._levels[0] or []], dtype=object)
        self.classes_ = np.array(["right", "left"])
        self.n_features_in_ = len(self._names)
        return self

    def _most_landmarks(
        self, left: np.ndarray, right: np.ndarray, contexts: np.ndarray | None, bags: bool
    ) -> int | None:
        """Through how many landmarks, if any."""
        unknown = ["members"] * bags + ["inference"] * (self.inference == "bound")
        if self.landmarks is None or (self.landmarks == "auto" and unknown):
            return None
        if unknown:
            raise ValueError(
                f"landmarks = {self.landmarks!r}: they know nothing of {', '.join(unknown)}: landmarks=None, "
                "or leave these"
            )
        if self.landmarks == "auto":
            compared = [
                np.minimum(left, right),
                np.maximum(left, right),
                *([] if contexts is None else contexts.T),
            ]
            return _LANDMARKS if len(np.unique(np.column_stack(compared), axis=0)) > _DENSE else None
        return 2**32 if self.landmarks == "all" else _count("landmarks", self.landmarks, 1)

    def _check(self) -> None:
        choices = [
            ("model", self.model, (*_MODELS, *ABILITIES)),
            ("ties", self.ties, ("half", "model")),
            ("inference", self.inference, ("laplace", "bound")),
        ]
        for name, value, known in choices:
            if value not in known:
                raise ValueError(f"{name} = {value!r}: it is one of {', '.join(map(repr, known))}")
        check_optimizer(self.optimizer)
        for name, kernel in (("kernel", self.kernel), ("context_kernel", self.context_kernel)):
            if kernel is not None and not isinstance(kernel, rk.Kernel):
                raise TypeError(f"{name} = {kernel!r}: it is a kernel of riesz.kernels, or None")

    def rows(
        self,
        left: Any,
        right: Any,
        *,
        contexts: Any = None,
        users: Any = None,
        home: Any = None,
        ids: Any = None,
    ) -> np.ndarray:
        """Wide rows of duels as ``expansion_`` takes them, for :class:`riesz.Explainer`: the left item's
        columns, the right one's, and those of contexts. Each argument has a row a duel, or one for all.

        A model that was fitted with them needs ``contexts`` and ``users`` (any new name is a new user);
        ``home`` is ``"left"``, ``"right"`` or by default ``"none"``. With ``ability=True`` the items' names
        are the index of ``left`` and ``right``, or those of ``ids``, names on the left and on the right;
        names that the model does not know are new items."""
        return self._spelled(self._codes(left, right, contexts=contexts, users=users, home=home, ids=ids))

    def _codes(
        self,
        left: Any,
        right: Any,
        *,
        contexts: Any = None,
        users: Any = None,
        home: Any = None,
        ids: Any = None,
    ) -> np.ndarray:
        """The rows of duels with numbers for categories."""
        check_is_fitted(self, "classes_")
        at_home = sides(home)
        if home is not None and not self._has_home:
            raise ValueError(
                "home: the model was fitted without it, so it knows of no advantage: leave it out"
            )
        names = self._named(left, right, ids)
        blocks = []
        for side, label, sign in ((left, "left", 1), (right, "right", -1)):
            blocks.append(self._items(side, label))
            if self._has_home:
                blocks.append((at_home == sign).astype(float)[:, None])
            if names is not None:
                blocks.append(names[0 if sign > 0 else 1])
        if self._contexts is not None:
            blocks.append(self._contexts.rows(contexts, users))
        elif contexts is not None or users is not None:
            raise ValueError("contexts and users: the model was fitted on duels without them")
        return side_by_side(blocks)

    def _pairs(
        self, left: Any, right: Any, **circumstances: Any
    ) -> tuple[tuple, list[tuple[int, int]], tuple | None]:
        """Each item once, pairs of them, and their contexts: how landmarks take duels."""
        codes, (names, levels) = self._codes(left, right, **circumstances), self._item_columns()
        stacked = np.vstack([codes[:, : len(names)], codes[:, len(names) : 2 * len(names)]])
        items, places = np.unique(stacked, axis=0, return_inverse=True)
        first, second = np.split(places.ravel(), 2)
        contexts = None
        if self._contexts is not None:
            contexts = (
                self._contexts.names,
                self._contexts.levels,
                np.ascontiguousarray(codes[:, 2 * len(names) :]),
            )
        return (names, levels, items), list(zip(first.tolist(), second.tolist())), contexts

    def _item_columns(self) -> tuple[list[str], list[list[str] | None]]:
        """Names and levels of an item's columns, home and its name included."""
        called = self._ids is not None
        names = self._names + [HOME] * self._has_home + [ID] * called
        return names, [*self._levels, *[None] * self._has_home, *[self._ids] * called]

    def _named(self, left: Any, right: Any, ids: Any) -> list[np.ndarray] | None:
        """The codes of the items' names on either side."""
        if self._ids is None:
            if ids is not None:
                raise ValueError(
                    "ids: the model was fitted with ability=False, so names mean nothing to it: leave them "
                    "out"
                )
            return None
        names = (labels_of(left), labels_of(right)) if ids is None else ids
        if len(names) != 2 or any(side is None for side in names):
            raise ValueError(
                "ability=True: say who they are, by the index of data frames or with ids=(left, right)"
            )
        return [places_of(side, self._ids, unseen) for side, unseen in zip(names, (UNSEEN, UNSEEN_RIGHT))]

    def _spelled(self, wide: np.ndarray) -> np.ndarray:
        """Rows of codes with the levels that they stand for."""
        known = 2 * self._item_columns()[1] + ([] if self._contexts is None else self._contexts.levels)
        if any(levels is not None for levels in known):
            wide = wide.astype(object)
            for j, levels in enumerate(known):
                if levels is not None:
                    wide[:, j] = [levels[int(code)] for code in wide[:, j]]
        return wide

    @property
    def groups_(self) -> dict[str, list[str]]:
        """The players of a duel: a feature of both items is one, and a column of contexts."""
        check_is_fitted(self)
        names, _ = self._item_columns()
        contexts = [] if self._contexts is None else self._contexts.names
        return {
            **{name: [f"left_{name}", f"right_{name}"] for name in names},
            **{name: [name] for name in contexts},
        }

    def decision_function(
        self, left: Any, right: Any, return_std: bool | str = False, **circumstances: Any
    ) -> Any:
        """The log odds that the left item wins, their posterior mean, and with ``return_std`` their standard
        deviation, too; of a model with ``ties="model"`` the left item's advantage g, from which the log odds
        of a win differ by ``margin_``. Here and below ``where`` is as in :meth:`rows`.

        Through landmarks standard deviations are estimated from ``n_draws`` draws; ``return_std="exact"``
        solves for each by conjugate gradients instead, until its square is too small by at most 1e-8 of that
        of the prior. That takes some tens of products with the posterior's precision a duel, more than a
        draw."""
        if return_std not in (False, True, "exact"):
            raise ValueError(f"return_std = {return_std!r}: it is True, False or 'exact'")
        if self._function is not None:
            deviations = ("exact" if return_std == "exact" else "draws") if return_std else None
            mean, sd = self._function.log_odds(*self._pairs(left, right, **circumstances), deviations)
            return (mean, sd) if return_std else mean
        codes = self._codes(left, right, **circumstances)
        prediction = self.expansion_.predict(self._spelled(codes), return_std=bool(return_std))
        # Of two alike nothing is unknown, and rounding means nothing.
        for numbers in prediction if return_std else (prediction,):
            numbers[self._equal_items(codes)] = 0.0
        return prediction

    def _equal_items(self, codes: np.ndarray) -> np.ndarray:
        width = self.n_features_in_ + self._has_home + (self._ids is not None)
        return (codes[:, :width] == codes[:, width : 2 * width]).all(axis=1)

    def predict_proba(self, left: Any, right: Any, **circumstances: Any) -> np.ndarray:
        """The probabilities that the right and that the left item wins, and with ``ties="model"`` that
        neither does, averaged over the posterior: (duels, 2 or 3). Those of "bradley_terry" and "linear" are
        of the estimated log odds themselves."""
        if self._function is not None:
            return self._function.probabilities(*self._pairs(left, right, **circumstances))
        return self.expansion_.predict_proba(self.rows(left, right, **circumstances))

    def predict(self, left: Any, right: Any, **circumstances: Any) -> np.ndarray:
        """The most likely outcome: ``"left"`` or ``"right"`` wins, or with ``ties="model"`` a ``"tie"``."""
        if len(self.classes_) > 2:
            return self.classes_[self.predict_proba(left, right, **circumstances).argmax(axis=1)]
        return self.classes_[(self.decision_function(left, right, **circumstances) > 0).astype(int)]

    def superiority(self, left: Any, right: Any, **circumstances: Any) -> np.ndarray:
        """The posterior probability that the left item is the better one: that its log odds are positive; ½
        for two equal items."""
        from scipy.special import ndtr

        mean, sd = self.decision_function(left, right, return_std=True, **circumstances)
        equal = self._equal_items(self._codes(left, right, **circumstances))
        return np.where(equal, 0.5, ndtr(mean / np.where(sd > 0, sd, np.finfo(float).tiny)))

    def explain(
        self,
        left: Any,
        right: Any,
        background: Any = None,
        *,
        game: str = "independent",
        weights: Any = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        index: str = "shapley",
        covariance: bool = False,
        ridge: float | None = None,
        centred: bool = True,
        shifts: int = 16,
        permutations: int | None = None,
        seed: int = 0,
        absent_contexts: Any = None,
        average: str | None = None,
        **circumstances: Any,
    ) -> Explanation:
        """Which property decided these duels (Pref-SHAP): how much each feature of *both* items adds to the
        log odds that the left one wins. The values of the duel the other way round are the same with the
        opposite sign, to the last bit, and they add up to the log odds.

        Parameters
        ----------
        background : array or data frame, optional
            Items that say what features could have been otherwise, by default those of the fit.
        game : str, default "independent"
            What absent features become. ``"independent"``: those of two random items, one a side: what
            decided *this* duel. ``"paired"``: those of one random item on both sides, all else equal: which
            *differences* count. Of utilities the two are the same. ``"matches"``: those of the two items of a
            random duel of ``background``, wide rows as of :meth:`rows`. ``"baseline"``: those of one item.
            ``"functional"``: their kernel factors are 1. ``"observational"``: on each side what they are like
            given the item's present features, learnt from ``background`` (the published game).
        weights : array, optional
            Weights of the background's items.
        groups : dict of name to list of features, optional
            Features that are one player.
        index : str, default "shapley"
            As :class:`riesz.Explainer` has it.
        covariance : bool, default False
            How sure values are, by the posterior: in every game but ``"functional"``. Of more than 12 players
            there is none in the observational game, none where contexts can be absent, and in the independent
            game with up to 100 items.
        ridge, centred
            Of the observational game, see :class:`riesz.Observational`.
        shifts, seed
            With more than 13 features and 100 items, independent ones: portions of the pairs of items that
            are drawn, from which values are estimated with their standard errors.
        permutations : int, optional
            Estimate values, with their standard errors, along so many random orders of the features, at least
            16, each with its reverse and against items drawn for it: for models of many features and
            landmarks, whose exact values take long. Items of equal weights are drawn equally often, so that a
            few orders more may be taken.
        absent_contexts : array or data frame, optional
            Contexts that say what those of a duel could have been, which makes their columns players, too;
            with ``game="contexts"`` they are the only ones. By default the contexts of a duel are always
            present.
        average : {None, "opponents"}, default None
            ``"opponents"``: every item on the left meets every one on the right, and its values are means
            over these, one explanation an item; seen from the left, as the mean over both orders of two items
            is 0. Opponents are those given: leave the item itself out. For other means, of a set of matches
            or a context, explain the duels, oriented as by who won, and ask for
            :meth:`riesz.Explanation.average`.
        where
            The contexts, users, home and names of the duels, as in :meth:`rows`.
        """
        if average not in (None, "opponents"):
            raise ValueError(f"average = {average!r}: it is None or 'opponents'")
        if average is not None and covariance:
            raise ValueError(NO_COVARIANCE)
        names = _names_of(left, right, circumstances.get("ids"))
        counts = [len(self._items(items, side)) for items, side in ((left, "left"), (right, "right"))]
        if average is not None:
            pairs = np.repeat(range(counts[0]), counts[1]), np.tile(range(counts[1]), counts[0])
            left, right = (_picked(*argument) for argument in zip((left, right), counts, pairs))
            if names is not None:
                names = [names[0][place] for place in pairs[0]], [names[1][place] for place in pairs[1]]
            if self._ids is not None:
                circumstances["ids"] = names
        rows = self.rows(left, right, **circumstances)
        explanation = self._explained(
            rows,
            background,
            names,
            game=game,
            contexts=absent_contexts,
            weights=weights,
            groups=groups,
            index=index,
            covariance=covariance,
            ridge=ridge,
            centred=centred,
            shifts=shifts,
            permutations=permutations,
            seed=seed,
        )
        return (
            explanation
            if average is None
            else explanation.average(np.equal.outer(range(counts[0]), pairs[0]).astype(float))
        )

    def _explained(self, rows: Any, background: Any, names: Any, *, game: str, **options: Any) -> Explanation:
        if self.expansion_ is None:
            raise ValueError(f"there is no model to explain, because {self._no_model_reason}")
        background = (
            self._background
            if background is None and game not in ("functional", "contexts", "matches")
            else background
        )
        return explain(
            self.expansion_, rows, self._background_rows(background, game), game=game, names=names, **options
        )

    def explain_bags(
        self,
        items: Any,
        members: Any,
        duels: Any,
        background: Any = None,
        *,
        contexts: Any = None,
        users: Any = None,
        game: str = "independent",
        absent_contexts: Any = None,
        **options: Any,
    ) -> Explanation:
        """Which property decided these duels between bags of ``items``, with ``members`` and ``duels`` as in
        :meth:`fit`: the means of the values of the duels between their members, weighted by membership, which
        add up to the bags' log odds. ``how`` is as in :meth:`explain`, without covariances, which are not
        known between duels. Takes time and memory in the number of pairs of members."""
        rows, place, share, named = self._member_pairs(items, members, duels, contexts, users, "explain_bags")
        options |= {"shares": (place.tolist(), share.tolist()), "contexts": absent_contexts}
        return self._explained(self._spelled(rows), background, named, game=game, **options)

    def _background_rows(self, background: Any, game: str) -> Any:
        """Items as the model's columns have them: at nobody's home, and without an ability of their own."""
        further = [HOME] * self._has_home + [ID] * (self._ids is not None)
        if (
            background is None
            or game == "matches"
            or not further
            or set(further) <= set(names_of(collected(background)) or [])
        ):
            return background
        cells = self._items(background, "the background").astype(object)
        for j, levels in enumerate(self._levels):
            if levels is not None:
                cells[:, j] = [levels[int(code)] for code in cells[:, j]]
        neutral = [np.zeros((len(cells), 1))] * self._has_home
        neutral += [np.full((len(cells), 1), UNSEEN, dtype=object)] * (self._ids is not None)
        return np.hstack([cells, *neutral])

    def predict_bags(
        self, items: Any, members: Any, duels: Any, *, contexts: Any = None, users: Any = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Duels between bags of ``items``, with ``members`` and ``duels`` as in :meth:`fit`: the log odds
        that the left bag wins, the mean of those of its members, their standard deviation, and probabilities
        as :meth:`predict_proba`'s. Takes time and memory in the number of pairs of members."""
        rows, place, share, (left, _) = self._member_pairs(
            items, members, duels, contexts, users, "predict_bags"
        )
        mean, sd, probabilities = _core.predict_sums(
            self.expansion_._with_posterior(), rows, place.tolist(), share.tolist(), len(left)
        )
        return mean[:, 0], sd[:, 0], np.asarray(probabilities)

    def _member_pairs(
        self, items: Any, members: Any, duels: Any, contexts: Any, users: Any, label: str
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[list[str], list[str]]]:
        """Duels between members of bags as rows of numbers, the number of the bags' duel and the share in it
        of each, and the names of the bags on either side."""
        check_is_fitted(self, "classes_")
        if self._function is not None or self.model in ABILITIES:
            raise ValueError(
                f"{label}: landmarks and abilities alone know of no bags: fit a process with landmarks=None"
            )
        if self._has_home or self._ids is not None:
            raise ValueError(
                f"{label}: bags have no home and no ability of their own, which the model was fitted with"
            )
        rows = self._items(items, "items")
        called, bag, item, weight = memberships(members, items, len(rows))
        left, right = bags_of(duels, called)
        members_of_bag: list[list[tuple[int, float]]] = [[] for _ in called]
        for k, (b, i) in enumerate(zip(bag, item)):
            members_of_bag[b].append((i, 1.0 if weight is None else weight[k]))
        total = [sum(share for _, share in group) for group in members_of_bag]
        pairs = [
            (d, i, j, m * q / (total[a] * total[b]))
            for d, (a, b) in enumerate(zip(left, right))
            for i, m in members_of_bag[a]
            for j, q in members_of_bag[b]
        ]
        place, first, second, share = (np.array(column) for column in zip(*pairs))
        blocks = [rows[first], rows[second]]
        if self._contexts is not None:
            context_rows = self._contexts.rows(contexts, users)
            if len(context_rows) not in (1, len(left)):
                raise ValueError(
                    f"contexts and users have {len(context_rows)} rows, but there are {len(left)} duels: "
                    f"one a "
                    "duel, or one for all"
                )
            blocks.append(np.broadcast_to(context_rows, (len(left), context_rows.shape[1]))[place])
        elif contexts is not None or users is not None:
            raise ValueError("contexts and users: the model was fitted on duels without them")
        rows = np.ascontiguousarray(np.hstack(blocks), dtype=float)
        return rows, place, share, ([str(called[a]) for a in left], [str(called[b]) for b in right])

    def _items(self, items: Any, label: str) -> np.ndarray:
        if self.model == "bradley_terry":
            labels = np.array(
                [[str(label)] for label in np.asarray(items, dtype=object).ravel()], dtype=object
            )
            return as_numbers(labels, self._names, label, self._levels)
        if any(levels is not None for levels in self._levels):
            return as_numbers(collected(items), self._names, label, self._levels)
        return numbers_of(items, self._names, label)


def _picked(items: Any, count: int, places: np.ndarray) -> Any:
    """Some of so many items by number; a single one may be a row without a table."""
    if hasattr(items, "iloc") and np.ndim(items) == 2:
        return items.iloc[places]
    cells = collected(items)
    if names_of(cells) is None:
        cells = np.asarray(cells)
        cells = cells if len(cells) == count and (count > 1 or cells.ndim == 2) else cells[None]
    return cells[places]


def _names_of(left: Any, right: Any, ids: Any) -> tuple[list, list] | None:
    """The names of items on either side; ``None`` if they have no names."""
    labels = (labels_of(left), labels_of(right)) if ids is None else ids
    left_names, other = (
        None if side is None else [str(name) for name in np.atleast_1d(np.asarray(side, dtype=object))]
        for side in labels
    )
    return None if left_names is None or other is None else (left_names, other)
