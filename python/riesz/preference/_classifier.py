"""Preferences between items, learnt from duels between items with properties.

A :class:`PreferenceClassifier` takes a table of items and duels between its rows:

>>> import numpy as np
>>> import riesz
>>> rng = np.random.default_rng(0)
>>> items = rng.normal(size=(30, 2))
>>> left, right = rng.integers(30, size=(2, 200))
>>> duels = np.column_stack([left, right])[left != right]
>>> duels = np.where((items[duels[:, 0], 0] > items[duels[:, 1], 0])[:, None], duels, duels[:, ::-1])
>>> model = riesz.PreferenceClassifier(ability=False, n_hyperparameter_samples=0).fit(items, duels)
>>> bool(model.predict_proba([[1.0, 0.0]], [[-1.0, 0.0]])[0, 1] > 0.9)  # the left item wins
True
"""

from __future__ import annotations

import copy
import os
import pathlib
import warnings
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import _core
from .. import kernels as rk
from .._data.parameters import check_optimizer, hyperparameter_samples, whole_number
from .._data.validation import as_numbers, collected, names_of
from .._explaining.explanation import NO_COVARIANCE, Explanation
from .._explaining.protected_features import players
from .._models.average import ModelAverage
from .._models.expansion import Expansion, write
from ._bag_duels import BagDuels
from ._bradley_terry import ABILITIES, fit_abilities
from ._choices import numbers_of_labels, predicted_choices, read_choices
from ._duel_contexts import (
    ABILITY,
    HOME,
    UNSEEN,
    UNSEEN_RIGHT,
    Contexts,
    NameList,
    bags_of,
    homes,
    labels_of,
    memberships,
    numbers_of,
    read_items,
    rows_of,
    side_by_side,
    sides,
    sorted_labels,
)
from ._duel_tables import read_duel_table
from ._duels import explain
from ._known_items import KnownItems
from ._next_duel import DuelSuggestions, suggested_duels
from ._outcomes import Outcomes, read_outcomes

__all__ = ["PreferenceClassifier"]


#: With more distinct pairs than _DENSE, landmarks are used by default, _LANDMARKS of them.
_DENSE, _LANDMARKS = 2000, 250
_FORMS = {"Bradley-Terry": "bradley_terry", "linear Bradley-Terry": "linear"}
_MODELS = ("nested", "utility", "generalised")


class PreferenceClassifier(ClassifierMixin, BaseEstimator):
    """A Gaussian process over pairs of items: ``P(l beats r) = σ(g(l, r))`` with ``g(r, l) = -g(l, r)``, by
    Laplace's approximation.

    Parameters
    ----------
    model : "nested", "utility", "generalised", "bradley_terry" or "linear"
        The form of g. ``"utility"`` is a difference of utilities, which implies a ranking (the preferential
        Gaussian process). ``"generalised"`` is any skew-symmetric function and allows cycles such as rock,
        paper and scissors (Chau et al. 2022). ``"nested"`` is their sum. The marginal likelihoods of the
        three show whether there is a ranking. Two models are simpler: ``"bradley_terry"`` is a difference of
        one ability per item, whatever its features (Bradley and Terry 1952; predictions take labels of
        items; ``"bradley-terry"`` is the same), and ``"linear"`` a difference of weighted sums of features.
    kernel : riesz.kernels.Kernel, optional
        Kernel between items; tuning starts from its parameters. The default is that of the command line,
        ``rbf(ard)``: an :class:`riesz.kernels.RBF` with a length scale for each feature, which starts from
        the median distance between standardised items, times a ``Categorical`` of each column of categories.
        Tuning compares it with Matérn kernels of smoothness 5/2 and 3/2 by their marginal likelihoods.
    ability : "auto" or bool, default "auto"
        Whether each item has an ability in addition to the effect of its features, as in Bradley and Terry's
        model. ``"auto"``: yes for the models "nested" and "utility", because intervals are too narrow where
        features do not determine the utility; not for bags, and not with ``optimizer=None``.
    context_kernel : riesz.kernels.Kernel, optional
        Kernel between the ``contexts`` and ``users`` of duels, which multiplies the prior. The default is
        ``ρ + (1 - ρ) k``: a share ρ of the prior is common to all contexts (tuning starts from ½), and k is
        the default kernel of items for the columns of contexts.
    ties : "half" or "model"
        The treatment of ties. ``"half"`` counts a tie as half a win for either side. ``"model"`` makes it a
        third outcome (Rao and Kupper 1967) with a tuned margin δ, ``P(win) = σ(g - δ)`` and
        ``P(loss) = σ(-g - δ)``. Then :meth:`decision_function` and explanations give g, the left item's
        advantage; the log odds that it wins are ``g - margin_``. The two treatments use different data: do
        not compare their marginal likelihoods.
    inference : "laplace" or "bound"
        The approximation of the posterior: Laplace's around the mode, or the best lower bound of the marginal
        likelihood (Jaakkola and Jordan 2000). With ``"bound"``, ``log_marginal_likelihood_value_`` is this
        bound; it never exceeds the true value but is usually further from it than Laplace's.
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps kernel and variances fixed. Tuning maximises the marginal likelihood times weakly
        informative priors around the start values, because few duels determine many length scales poorly.
    n_restarts_optimizer : int, default 0
        Number of additional runs from random start values.
    n_hyperparameter_samples : int or "auto"
        Number of samples of the hyper-parameters from their posterior over which predictions are averaged; 0
        takes the best ones. Intervals then include the uncertainty of the hyper-parameters, which matters for
        few duels. ``"auto"``: 64 for 5 to 300 distinct pairs without landmarks and with tuning, otherwise 0.
    random_state : int, RandomState or None
    ridge : float or "evidence"
        For the models "bradley_terry" and "linear": λ of the penalty ``½ λ Σ β²`` on abilities, or on
        coefficients of standardised features. 0 gives the maximum of the likelihood, if there is one. The
        default is the λ with the largest marginal likelihood, as for a random effect.
    n_landmarks : "auto", "all", int or None
        Number of items that are landmarks, for many duels: no matrix between all pairs is needed. "all", or
        at least the number of items, makes no approximation: the posterior mean is that of the dense process.
        ``None`` uses the dense process. "auto" uses 250 landmarks if there are more than 2,000 distinct
        pairs, except with ``inference="bound"``, which landmarks do not support. With bags the landmarks are
        items, and the features of a bag are the means of those of its members.
    n_context_landmarks : int, default 32
        With landmarks: number of landmark contexts among the distinct contexts. There is no approximation if
        there are at most this many contexts. Users who are not landmarks have no effect of their own.
    n_tuning_pairs : int, default 1500
        With landmarks: number of distinct pairs for tuning, drawn at random. A third of them is used from all
        start values; tuning on all of them continues from the best result.
    n_samples : int, default 64
        With landmarks: number of draws from which standard deviations are estimated, with a relative standard
        error of ``1/√(2 n_samples)``. (``decision_function(…, return_std="exact")`` uses no draws.)
    tol : float, default 1e-6
        With landmarks: Newton's method ends when the gradient has decreased to this share of its start.
    protect : list of columns, or dict of name to columns, optional
        Features of items, or groups of them, whose values for the compared pairs are penalised (fair
        preferences; Chau 2023, section 6.5). Hyper-parameters are tuned without the penalty, and are not
        averaged.
    protect_strength : float, default 1
        The penalty on the negative log posterior is ``protect_strength / pairs * sum of squared values``.
    protect_game : {"independent", "observational"}, default "independent"
        The game of these values, with all items as the background. The observational game also removes what
        other features predict about the protected ones.
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Attributes
    ----------
    expansion_ : Expansion
        The log odds as a model of wide rows: the left item's columns and then the right one's (``left_…``,
        ``right_…``). With landmarks it has the mean alone. It is None if the kernel does not vanish far from
        all items, or if there are too many pairs of landmarks times context landmarks.
    average_ : ModelAverage or None
        The log odds for samples of the hyper-parameters, if they are averaged; predictions, rankings and
        explanations use it. Other attributes are those of the best hyper-parameters.
    kernel_ : riesz.kernels.Kernel
        The tuned kernel of items.
    utility_variance_, generalized_variance_ : float
        Variances of the two parts in the prior, in squared log odds.
    home_variance_, ability_variance_ : float
        Variances of the home advantage and of the abilities, in squared log odds; 0 without them.
    context_kernel_ : riesz.kernels.Kernel or None
    shared_context_fraction_ : float
        The share ρ of the prior that all contexts have in common.
    margin_ : float
        The margin δ of a win in log odds, with ``ties="model"``; else 0.
    log_marginal_likelihood_value_ : float
        Of all duels; with landmarks of the pairs used for tuning, and None without tuning.
    n_landmarks_, n_context_landmarks_ : int or None
        Number of landmarks. ``unexplained_variance_ratio_`` is the share of the items' prior variance that
        the landmarks do not explain, and ``unexplained_context_variance_ratio_`` that of the contexts.
    abilities_, abilities_std_ : dict
        Of "bradley_terry", by item label. Abilities sum to 0. Standard deviations are None for more than
        1,000 items.
    coef_, coef_std_ : array
        Of "linear", by feature.
    ridge_ : float
        The λ of the fit.
    warnings_ : list of str
        Remarks on what only the ridge makes finite or comparable: items that never won or never lost, and
        groups of items without duels between them.
    classes_ : array of str
        "right" and "left", and "tie" with ``ties="model"``, as the columns of :meth:`predict_proba`."""

    #: None for a model through landmarks whose kernel does not vanish.
    expansion_: Any
    average_: ModelAverage | None = None
    shared_context_fraction_: float
    #: Defaults of models without contexts, home, item names or landmarks.
    _contexts: Contexts | None = None
    _has_home = False
    _known: KnownItems | None = None
    _function: Any = None
    _no_model_reason: str | None = None
    _background: Any = None

    def __init__(
        self,
        model="nested",
        *,
        kernel=None,
        ability="auto",
        context_kernel=None,
        ties="half",
        inference="laplace",
        optimizer="fmin_l_bfgs_b",
        n_restarts_optimizer=0,
        n_hyperparameter_samples="auto",
        random_state=None,
        ridge="evidence",
        n_landmarks="auto",
        n_context_landmarks=32,
        n_tuning_pairs=1500,
        n_samples=64,
        tol=1e-6,
        protect=None,
        protect_strength=1.0,
        protect_game="independent",
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
        self.n_hyperparameter_samples = n_hyperparameter_samples
        self.random_state = random_state
        self.ridge = ridge
        self.n_landmarks = n_landmarks
        self.n_context_landmarks = n_context_landmarks
        self.n_tuning_pairs = n_tuning_pairs
        self.n_samples = n_samples
        self.tol = tol
        self.protect = protect
        self.protect_strength = protect_strength
        self.protect_game = protect_game
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
        sides: Sequence[str] | None = None,
    ) -> PreferenceClassifier:
        """Fits the model to duels between the rows of ``items``.

        ``duels`` are a data frame with the columns ``winner`` and ``loser``, ``left``, ``right`` and
        ``outcome``, or ``model_a``, ``model_b`` and ``winner``; ``sides`` names other columns of the two
        sides. The items are labels of the index of ``items``. Then ``outcome``, ``sample_weight``, ``users``
        and ``home`` may be names of columns, and ``scores``, ``wins`` and ``contexts`` lists of names.

        Otherwise ``duels`` are pairs of row numbers, from 0, or of labels of a data frame's index: (winner,
        loser), or (left, right) with one of

        - ``outcome``, one per duel: left, right or tie; win, loss or draw; W, L or D; home, away or draw; H,
          A or D; model_a, model_b or tie; A, B or tie; 1, 0 or 0.5, or another share of a win; 1, -1 or 0; 1,
          2 or X; a score such as 2-1, 1-0 or 1/2-1/2; or the winner's label. All entries must be of one kind;
        - ``scores``, (duels, 2): the higher score wins, and equal scores are a tie;
        - ``wins``, (duels, 2) or (duels, 3), if a row counts several duels: the wins of each side, and the
          ties.

        A missing outcome is an error; with ``missing="drop"`` the duel is dropped with a warning.

        These have one entry per duel: ``contexts``, rows of numbers and categories (surface, season);
        ``users``, the names of the judges; ``home``, the side at home, ``"left"``, ``"right"``, ``"none"`` or
        the item's label. The advantage of being at home is learnt.

        With the models "bradley_terry", "nested" and "utility", ``items`` may be ``None``: duels between
        labels are enough. With the latter two, abilities go with home, contexts, users and ties.

        >>> import pandas as pd
        >>> votes = pd.DataFrame({
        ...     "model_a": ["ann", "bob", "ann", "cleo"],
        ...     "model_b": ["bob", "cleo", "cleo", "ann"],
        ...     "winner": ["model_a", "tie", "model_a", "model_b"],
        ... })
        >>> model = PreferenceClassifier("bradley_terry").fit(None, votes)
        >>> max(model.abilities_, key=model.abilities_.get)
        'ann'
        >>> bool(model.predict_proba("ann", "cleo")[0, 1] > 0.5)
        True

        With ``members``, rows of (bag, item) or (bag, item, weight), duels are between *bags*: the log odds
        of two bags are the mean of the log odds of their members. :meth:`predict_bags` predicts duels of
        bags; all other methods take items."""
        self._check()
        arguments = {
            "outcome": outcome,
            "scores": scores,
            "wins": wins,
            "sample_weight": sample_weight,
            "contexts": contexts,
            "users": users,
            "home": home,
        }
        duels, read = read_duel_table(duels, sides, **arguments)
        outcome, scores, wins, sample_weight, contexts, users, home = read.values()
        further = {"contexts": contexts, "users": users, "home": home, "members": members}
        self.n_landmarks_: int | None = None
        self.n_context_landmarks_: int | None = None
        self._function, self._background = None, copy.deepcopy(items)
        outcomes = read_outcomes(duels, outcome, sample_weight, scores, wins, missing)
        if self._form in ABILITIES:
            self._protected([])
            return self._fit_abilities(items, duels, outcomes, further)
        restarts = whole_number("n_restarts_optimizer", self.n_restarts_optimizer, 0)
        has_ability = self._has_ability(items, members)
        if items is None and has_ability:
            items = self._background = NameList.of_duels(duels)
        names, levels, rows = read_items(items, self.columns)
        for is_used, name in ((home is not None, HOME), (has_ability, ABILITY)):
            if is_used and name in names:
                raise ValueError(f"items have a column '{name}', as the model would call its own: rename it")
        bags = None
        if members is not None:
            if home is not None or has_ability:
                raise ValueError(
                    "members: bags have no home and no ability of their own: leave home out, and ability "
                    "False"
                )
            bag_names, bag, item, share = memberships(members, items, len(rows))
            bags = (len(bag_names), bag, item, share)
            left, right = bags_of(duels, bag_names)
        else:
            left, right = rows_of(items, duels, len(rows))
        count, used_duels = len(left), outcomes.rows
        home_codes = None if home is None else homes(home, duels)[used_duels].tolist()
        duel = outcomes.to_core(left, right)
        left, right = left[used_duels], right[used_duels]
        context_columns, context_input = self._context_input(contexts, users, count, used_duels)
        kernel = self.kernel if names else None
        text = None if kernel is None else kernel._fitted_to(rows, names, levels)._to_json(names, levels)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        known = KnownItems.of_fit(items, rows) if has_ability else None
        circumstances = {
            "home": home_codes,
            "names": None if known is None else known.names,
            "contexts": context_input,
            "members": bags,
            "ties": self.ties == "model",
            "bound": self.inference == "bound",
        }
        fitted: Any
        prior: Any
        table, tune = (names, levels, rows), self.optimizer is not None
        n_landmarks = self._most_landmarks(
            left, right, None if context_input is None else context_input[1][2], not names
        )
        reason = None if n_landmarks is None else "models through landmarks are not averaged"
        samples = None
        if self.n_hyperparameter_samples != "auto":
            samples = hyperparameter_samples(self.n_hyperparameter_samples, 0, self.optimizer, reason) or 0
        protected = self._protected(names, n_landmarks)
        if n_landmarks is None:
            fitted, prior = _core.fit_preferences(
                text, table, duel, circumstances, self._form, tune, restarts, samples, seed, protected
            )
            model, notes, average = fitted.model, fitted.warnings, fitted.average
        else:
            n_context_landmarks = whole_number("n_context_landmarks", self.n_context_landmarks, 1)
            pairs, draws = (
                whole_number("n_tuning_pairs", self.n_tuning_pairs, 1),
                whole_number("n_samples", self.n_samples, 0),
            )
            sizes = (n_landmarks, n_context_landmarks, pairs, draws, float(self.tol))
            fitted = _core.fit_landmarks(
                text, table, duel, circumstances, self._form, tune, restarts, seed, sizes
            )
            prior, model, notes, average = fitted.prior, fitted.model, fitted.warnings, None
            self._function, self._no_model_reason = fitted.function, fitted.no_model_reason
            self.n_landmarks_, self.n_context_landmarks_ = (
                fitted.function.landmarks,
                fitted.function.context_landmarks,
            )
            self.unexplained_variance_ratio_, self.unexplained_context_variance_ratio_ = (
                fitted.unknown,
                fitted.unknown_contexts,
            )
        self._names, self._levels, self._contexts = names, levels, context_columns
        self._has_home, self._known = home is not None, known
        return self._with_fit(prior, model, notes, average, fitted.log_marginal_likelihood)

    def _protected(self, names: list[str], n_landmarks: int | None = None) -> Any:
        """Returns the protected features for the core: names, strength, the game, and groups of columns."""
        if self.protect is None:
            for name, default in (("protect_strength", 1.0), ("protect_game", "independent")):
                if getattr(self, name) != default:
                    raise ValueError(
                        f"{name} is given, but no feature to protect: name some with protect=[...]"
                    )
            return None
        if self._form in ABILITIES or n_landmarks is not None:
            model = f"model={self.model!r}" if self._form in ABILITIES else "landmarks"
            raise ValueError(f"protect needs a dense Gaussian process, without {model}")
        strength, game = self.protect_strength, self.protect_game
        if not isinstance(strength, (int, float, np.number)) or not 0 <= strength < np.inf:
            raise ValueError(f"protect_strength = {strength!r}: it is a number that is not negative")
        if game not in ("independent", "observational"):
            raise ValueError(f"protect_game = {game!r}: it is 'independent' or 'observational'")
        groups = players(self.protect, names)
        of_names = [(name, [names[j] for j in members]) for name, members in groups]
        is_group = isinstance(self.protect, Mapping)
        return (
            [name for name, _ in groups],
            float(strength),
            game == "observational",
            of_names if is_group else [],
        )

    def fit_choices(
        self, items: Any, sets: Any, chosen: Any = None, *, sample_weight: Any = None
    ) -> PreferenceClassifier:
        """Fits the model to choices from sets of the rows of ``items``. A duel is a choice from two items, so
        everything else is as after :meth:`fit`; :meth:`predict_choice` predicts choices.

        With ``model="utility"`` the probability that a is chosen from C is ``exp f(a) / Σ_{b in C} exp f(b)``
        with a utility f. In general it is ``exp v(a) / Σ_{b in C} exp v(b)``, where
        ``v(a) = Σ_{b in C} g(a, b) / m`` has the log odds g of duels with the m items of C.

        The cost of a fit is the cube of the number of items with ``model="utility"``, and otherwise of the
        number of pairs of items that are in a common set. Fits need ties as halves and Laplace's inference,
        and use no landmarks.

        Parameters
        ----------
        items : array, data frame or None
            As in :meth:`fit`; with ``None`` items have names and abilities alone.
        sets : list of lists, or data frame
            The items of each set: labels of the index of ``items``, or numbers of rows from 0. Or a data
            frame with one line per item of a set, and the columns ``set``, ``item`` and ``chosen``: 1 for the
            chosen items of each set (2 for the second place, …), 0 or missing for the others.
        chosen : list, optional
            For lists: the chosen item of each set, or a list of items in the order of their places, the best
            first (Plackett 1975). Each place is a choice from the items without an earlier place. Items that
            share a place are a Python set: ``{a, b}`` for a and b chosen together, ``[a, {b, c}]`` for b and
            c after a. Given their number k, k items have the probability that is proportional to the product
            of their ``exp v`` (Cox 1972).
        sample_weight : array, optional
            One weight per set, in the order in which sets first occur.

        Returns
        -------
        PreferenceClassifier

        Examples
        --------
        >>> sets = [["tea", "coffee", "water"], ["tea", "water"], ["coffee", "tea", "water"]] * 4
        >>> chosen = ["coffee", "tea", {"coffee", "tea"}] * 4
        >>> model = PreferenceClassifier("utility").fit_choices(None, sets, chosen)
        >>> probability = model.predict_choice([["tea", "coffee", "water"]])[0]
        >>> bool(probability[1] > probability[0] > probability[2])
        True
        """
        self._check()
        self._check_choices()
        if self.protect is not None:
            raise ValueError("protect belongs to duels: fit_choices has no penalty")
        sets, chosen = read_choices(sets, chosen)
        self._function, self._background = None, copy.deepcopy(items)
        self.n_landmarks_ = self.n_context_landmarks_ = None
        has_ability = self._has_ability(items, None)
        if items is None:
            items = self._background = NameList(sorted_labels(dict.fromkeys(chain(*sets))))
        names, levels, rows = read_items(items, self.columns)
        if has_ability and ABILITY in names:
            raise ValueError(f"items have a column '{ABILITY}', as the model would call its own: rename it")
        kernel = self.kernel if names else None
        text = None if kernel is None else kernel._fitted_to(rows, names, levels)._to_json(names, levels)
        known = KnownItems.of_fit(items, rows) if has_ability else None
        samples = None
        if self.n_hyperparameter_samples != "auto":
            samples = hyperparameter_samples(self.n_hyperparameter_samples, 0, self.optimizer, None) or 0
        number_of = numbers_of_labels(items, len(rows))
        fitted, prior = _core.fit_choices(
            text,
            self._form,
            (names, levels, rows),
            [number_of(items_of_set, "sets") for items_of_set in sets],
            [[number_of(place, "chosen") for place in places] for places in chosen],
            None if sample_weight is None else np.asarray(sample_weight, dtype=float).tolist(),
            None if known is None else known.names,
            self.optimizer is not None,
            whole_number("n_restarts_optimizer", self.n_restarts_optimizer, 0),
            samples,
            int(check_random_state(self.random_state).randint(2**31 - 1)),
        )
        self._names, self._levels, self._contexts = names, levels, None
        self._has_home, self._known = False, known
        return self._with_fit(
            prior, fitted.model, fitted.warnings, fitted.average, fitted.log_marginal_likelihood
        )

    def _check_choices(self) -> None:
        """Refuses settings that choices do not support."""
        if self._form in ABILITIES:
            raise ValueError(
                f"model = {self.model!r}: fit_choices needs 'nested', 'utility' or 'generalised'"
            )
        required: dict[str, tuple[Any, Any]] = {
            "ties": (self.ties, "half"),
            "inference": (self.inference, "laplace"),
            "context_kernel": (self.context_kernel, None),
        }
        for name, (value, needed) in required.items():
            if value != needed:
                raise ValueError(f"{name} = {value!r}: fit_choices needs {name}={needed!r}")
        if self.n_landmarks not in ("auto", None):
            raise ValueError(f"n_landmarks = {self.n_landmarks!r}: fit_choices uses no landmarks: give None")

    def _with_fit(
        self, prior: Any, model: Any, notes: list[str], average: Any, log_marginal_likelihood: float | None
    ) -> PreferenceClassifier:
        """Sets the attributes of a fit, after those of its columns."""
        for message in notes:
            warnings.warn(f"{type(self).__name__}: {message}", ConvergenceWarning, stacklevel=3)
        self.expansion_ = None if model is None else Expansion._wrap(model)
        self.average_ = None if average is None else ModelAverage._of_fit(self.expansion_, average)
        self.kernel_ = rk._from_json(prior.kernel, self._names)
        self.utility_variance_, self.generalized_variance_ = prior.utility, prior.generalised
        further_variances = list(prior.further)
        self.home_variance_ = further_variances.pop(0) if self._has_home else 0.0
        self.ability_variance_ = further_variances.pop(0) if self._known is not None else 0.0
        text, self.shared_context_fraction_ = prior.contexts or (None, 1.0)
        self.context_kernel_ = (
            None if text is None or self._contexts is None else rk._from_json(text, self._contexts.names)
        )
        self.margin_ = self._mean_margin(prior.margin or 0.0)
        self.log_marginal_likelihood_value_ = log_marginal_likelihood
        self.classes_ = np.array(["right", "left", "tie"][: 3 if self.ties == "model" else 2])
        self.n_features_in_ = len(self._names)
        return self

    def _has_ability(self, items: Any, members: Any) -> bool:
        """Whether each item has an ability of its own."""
        if self.ability != "auto":
            return bool(self.ability)
        is_default = self._form in ("nested", "utility") and members is None
        return is_default and (items is None or self.optimizer is not None)

    def _context_input(
        self, contexts: Any, users: Any, count: int, used_duels: np.ndarray
    ) -> tuple[Contexts | None, Any]:
        """Returns the columns of contexts, and the core's kernel and rows of the used duels."""
        if contexts is None and users is None:
            if self.context_kernel is not None:
                raise ValueError(
                    "context_kernel: these duels have no contexts: give fit contexts or users, or leave the "
                    "kernel out"
                )
            return None, None
        columns, cells = Contexts.read(contexts, users, count)
        cells = np.ascontiguousarray(cells[used_duels])
        names, levels, kernel = columns.names, columns.levels, self.context_kernel
        text = None if kernel is None else kernel._fitted_to(cells, names, levels)._to_json(names, levels)
        return columns, (text, (names, levels, cells))

    def _fit_abilities(
        self, items: Any, duels: Any, outcomes: Outcomes, further: dict[str, Any]
    ) -> PreferenceClassifier:
        options = {
            "ability": None if self.ability in ("auto", False) else self.ability,
            "ties": None if self.ties == "half" else self.ties,
            "inference": None if self.inference == "laplace" else self.inference,
            "context_kernel": self.context_kernel,
            "n_landmarks": None if self.n_landmarks in ("auto", None) else self.n_landmarks,
            "n_hyperparameter_samples": None
            if self.n_hyperparameter_samples in ("auto", 0)
            else self.n_hyperparameter_samples,
        }
        for name, setting in (further | options).items():
            if setting is not None:
                raise ValueError(
                    f"{name}: model = {self.model!r} does not support it: leave it out, or take 'utility'"
                )
        for name, value in fit_abilities(
            self._form, items, duels, outcomes, self.ridge, self.columns
        ).items():
            setattr(self, name, value)
        self._contexts, self._has_home, self._known, self.average_ = None, False, None, None
        if self._form == "bradley_terry":
            self._background = np.array([[name] for name in self._levels[0] or []], dtype=object)
        self.classes_ = np.array(["right", "left"])
        self.n_features_in_ = len(self._names)
        return self

    def _most_landmarks(
        self, left: np.ndarray, right: np.ndarray, contexts: np.ndarray | None, names_only: bool
    ) -> int | None:
        """Returns the number of landmarks; ``None`` for the dense process."""
        is_bound = self.inference == "bound"
        if self.n_landmarks is None or (self.n_landmarks == "auto" and (is_bound or names_only)):
            return None
        if is_bound:
            raise ValueError(
                f"n_landmarks = {self.n_landmarks!r}: landmarks do not support inference='bound': give "
                "n_landmarks=None, or leave the inference out"
            )
        if self.n_landmarks == "auto":
            pair_columns = [
                np.minimum(left, right),
                np.maximum(left, right),
                *([] if contexts is None else contexts.T),
            ]
            return _LANDMARKS if len(np.unique(np.column_stack(pair_columns), axis=0)) > _DENSE else None
        return 2**32 if self.n_landmarks == "all" else whole_number("n_landmarks", self.n_landmarks, 1)

    @property
    def _form(self) -> Any:
        """The form of the model, whose name may be spelt with a hyphen."""
        return self.model.replace("-", "_") if isinstance(self.model, str) else self.model

    def _check(self) -> None:
        choices = [
            ("model", self._form, (*_MODELS, *ABILITIES)),
            ("ability", self.ability, ("auto", True, False)),
            ("ties", self.ties, ("half", "model")),
            ("inference", self.inference, ("laplace", "bound")),
        ]
        for name, value, allowed in choices:
            if value not in allowed:
                raise ValueError(f"{name} = {value!r}: it is one of {', '.join(map(repr, allowed))}")
        check_optimizer(self.optimizer)
        for name, kernel in (("kernel", self.kernel), ("context_kernel", self.context_kernel)):
            if kernel is not None and not isinstance(kernel, rk.Kernel):
                raise TypeError(f"{name} = {kernel!r}: it is a kernel of riesz.kernels, or None")

    def pair_features(
        self,
        left: Any,
        right: Any,
        *,
        contexts: Any = None,
        users: Any = None,
        home: Any = None,
        ids: Any = None,
    ) -> np.ndarray:
        """Returns wide rows of duels as ``expansion_`` takes them, for :class:`riesz.Explainer`: the left
        item's columns, the right item's, and those of contexts. Each argument has one row per duel, or one
        row for all duels. If the items of the fit were a data frame, ``left`` and ``right`` may also be
        labels of its index, a text or a list of texts.

        ``contexts`` and ``users`` are needed if the model was fitted with them (a new name is a new user);
        ``home`` is ``"left"``, ``"right"`` or by default ``"none"``.

        A model with abilities recognises the items of the fit by the index of ``left`` and ``right``, if the
        items of the fit had an index other than the numbers of rows, and otherwise by their features. ``ids``
        names the items instead, those on the left and those on the right. An item that is not recognised is
        new: its ability has the prior's variance."""
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
        """Returns the wide rows of duels with codes for categories."""
        check_is_fitted(self, "classes_")
        left, right = self._items_of_names(left, "left"), self._items_of_names(right, "right")
        home_codes = sides(home)
        if home is not None and not self._has_home:
            raise ValueError(
                "home: the model was fitted without it, so it knows of no advantage: leave it out"
            )
        rows = self._items(left, "left"), self._items(right, "right")
        abilities = self._ability_codes((left, right), rows, ids)
        blocks = []
        for side, sign in ((0, 1), (1, -1)):
            blocks.append(rows[side])
            if self._has_home:
                blocks.append((home_codes == sign).astype(float)[:, None])
            if abilities is not None:
                blocks.append(abilities[side])
        if self._contexts is not None:
            blocks.append(self._contexts.rows(contexts, users))
        elif contexts is not None or users is not None:
            raise ValueError("contexts and users: the model was fitted on duels without them")
        return side_by_side(blocks)

    def _pairs(
        self, left: Any, right: Any, **circumstances: Any
    ) -> tuple[tuple, list[tuple[int, int]], tuple | None]:
        """Returns the distinct items (without bags), pairs of them, and their contexts, as the landmark model
        takes duels."""
        codes, (names, levels) = self._codes(left, right, **circumstances), self._item_columns()
        stacked = np.vstack([codes[:, : len(names)], codes[:, len(names) : 2 * len(names)]])
        items, item_numbers = np.unique(stacked, axis=0, return_inverse=True)
        first, second = np.split(item_numbers.ravel(), 2)
        contexts = self._context_table(codes[:, 2 * len(names) :])
        return ((names, levels, items), None), list(zip(first.tolist(), second.tolist())), contexts

    def _context_table(self, codes: np.ndarray | None) -> tuple | None:
        """Returns rows of contexts as the landmark model takes them, if it has contexts."""
        if self._contexts is None:
            return None
        return self._contexts.names, self._contexts.levels, np.ascontiguousarray(codes, dtype=float)

    def _item_columns(self) -> tuple[list[str], list[list[str] | None]]:
        """Returns names and levels of an item's columns, including home and its name."""
        known = [] if self._known is None else [self._known.levels]
        names = self._names + [HOME] * self._has_home + [ABILITY] * len(known)
        return names, [*self._levels, *[None] * self._has_home, *known]

    def _ability_codes(
        self, items: tuple[Any, Any], rows: tuple[np.ndarray, np.ndarray], ids: Any
    ) -> list[np.ndarray] | None:
        """Returns the codes in the column of abilities of the items on either side."""
        if self._known is None:
            if ids is not None:
                raise ValueError(
                    "ids: the model was fitted without abilities, so names mean nothing to it: leave them out"
                )
            return None
        return self._known.codes_of_sides(items, rows) if ids is None else self._known.codes_of_ids(ids)

    def _spelled(self, wide: np.ndarray) -> np.ndarray:
        """Returns the rows with their codes replaced by levels."""
        levels_of_columns = 2 * self._item_columns()[1] + (
            [] if self._contexts is None else self._contexts.levels
        )
        if any(levels is not None for levels in levels_of_columns):
            wide = wide.astype(object)
            for j, levels in enumerate(levels_of_columns):
                if levels is not None:
                    wide[:, j] = [levels[int(code)] for code in wide[:, j]]
        return wide

    @property
    def groups_(self) -> dict[str, list[str]]:
        """The players of a duel: each feature, in the columns of both items, and each column of contexts."""
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
        """Returns the posterior mean of the log odds that the left item wins, and with ``return_std`` their
        standard deviation. With ``ties="model"`` it is the left item's advantage g; the log odds of a win are
        ``g - margin_``. Here and below, ``circumstances`` are the keyword arguments of :meth:`pair_features`.

        With landmarks, standard deviations are estimated from ``n_samples`` draws. ``return_std="exact"``
        computes each by conjugate gradients, until the variance is too small by at most 1e-8 of the prior
        variance. A duel takes some tens of products with the posterior precision, more than a draw."""
        if return_std not in (False, True, "exact"):
            raise ValueError(f"return_std = {return_std!r}: it is True, False or 'exact'")
        if self._function is not None:
            deviations = ("exact" if return_std == "exact" else "draws") if return_std else None
            mean, sd = self._function.log_odds(*self._pairs(left, right, **circumstances), deviations)
            return (mean, sd) if return_std else mean
        codes = self._codes(left, right, **circumstances)
        model = self._averaged()
        prediction = model.predict(self._spelled(codes), return_std=bool(return_std))
        # Two equal items have log odds 0 without uncertainty; remove rounding errors.
        for numbers in prediction if return_std else (prediction,):
            numbers[self._equal_items(codes)] = 0.0
        return prediction

    def _mean_margin(self, margin: float) -> float:
        """Returns the margin of ties, for an average its mean."""
        if self.average_ is None:
            return margin
        margins = [model._core.tie_margin for model in self.average_.models]
        return float(np.average(margins, weights=self.average_.weights))

    def _averaged(self) -> Expansion | ModelAverage:
        """Returns the model that predicts."""
        return self.expansion_ if self.average_ is None else self.average_

    def _equal_items(self, codes: np.ndarray) -> np.ndarray:
        width = len(self._item_columns()[0])
        return (codes[:, :width] == codes[:, width : 2 * width]).all(axis=1)

    def predict_proba(self, left: Any, right: Any, **circumstances: Any) -> np.ndarray:
        """Returns the probabilities that the right and that the left item wins, and with ``ties="model"`` the
        probability of a tie, averaged over the posterior: (duels, 2 or 3). The models "bradley_terry" and
        "linear" use the estimated log odds without averaging."""
        if self._function is not None:
            return self._function.probabilities(*self._pairs(left, right, **circumstances))
        return self._averaged().predict_proba(self.pair_features(left, right, **circumstances))

    def predict(self, left: Any, right: Any, **circumstances: Any) -> np.ndarray:
        """Returns the most likely outcome: ``"left"`` or ``"right"``, or with ``ties="model"`` a
        ``"tie"``."""
        if len(self.classes_) > 2:
            return self.classes_[self.predict_proba(left, right, **circumstances).argmax(axis=1)]
        return self.classes_[(self.decision_function(left, right, **circumstances) > 0).astype(int)]

    def score(
        self,
        left: Any,
        right: Any,
        outcomes: Any,
        sample_weight: Any = None,
        **circumstances: Any,
    ) -> float:
        """Returns the accuracy of :meth:`predict`: the share of duels whose outcome is the predicted one. A
        tie is right only if it is predicted, with ``ties="model"``; otherwise ties are omitted. If the model
        gives either side the same odds, the duel counts as half.

        Parameters
        ----------
        left, right
            The items, as in :meth:`predict`.
        outcomes : array
            One outcome per duel, as in :meth:`fit`; a winner's name needs items with names.
        sample_weight : array, optional
            Weights of duels.

        Returns
        -------
        float

        Examples
        --------
        >>> duels = [("ann", "bob"), ("ann", "cleo"), ("bob", "cleo"), ("ann", "bob")]
        >>> model = PreferenceClassifier("bradley_terry").fit(None, duels)
        >>> model.score(["ann", "cleo"], ["cleo", "bob"], ["left", "right"])
        1.0
        """
        probabilities = self.predict_proba(left, right, **circumstances)
        count = len(probabilities)
        names = _names_of(
            self._items_of_names(left, "left"), self._items_of_names(right, "right"), circumstances.get("ids")
        )
        if names is None:
            pairs = np.column_stack([np.full(count, "left item"), np.full(count, "right item")])
        else:
            pairs = np.column_stack([np.resize(np.array(side, dtype=object), count) for side in names])
        read = read_outcomes(pairs.astype(object), outcomes, sample_weight)
        outcome, probabilities = read.outcome, probabilities[read.rows]
        weight = np.ones(len(outcome)) if read.weight is None else read.weight
        column = np.select([outcome == 1, outcome == 0], [1, 0], 2)
        if len(self.classes_) == 2:
            is_untied = (outcome == 0) | (outcome == 1)
            if not is_untied.any():
                raise ValueError("outcomes: all duels are ties, which a model without ties does not predict")
            column, probabilities, weight = column[is_untied], probabilities[is_untied], weight[is_untied]
        largest = probabilities == probabilities.max(axis=1, keepdims=True)
        correct = largest[np.arange(len(column)), column] / largest.sum(axis=1)
        return float(np.average(correct, weights=weight))

    def predict_choice(
        self,
        sets: Any,
        items: Any = None,
        *,
        n_chosen: int = 1,
        return_std: bool = False,
        n_samples: int = 10_000,
        random_state: Any = None,
    ) -> Any:
        """Returns the probabilities with which each item of a set is chosen, averaged over the posterior of
        the log odds.

        Parameters
        ----------
        sets : list of lists
            The items of each set: labels of the index of ``items``, or numbers of its rows.
        items : array or data frame, optional
            The items, by default those of the fit. Other items need not have been in a set.
        n_chosen : int, default 1
            The number of items that are chosen together from each set. Probabilities are then those of being
            among them, and add up to this number.
        return_std : bool, default False
            Whether to return Monte Carlo standard errors as well.
        n_samples : int, default 10000
            The number of draws from the posterior, which sets of two items do not need.
        random_state : int, RandomState or None

        Returns
        -------
        probabilities : list of arrays
            One array per set, in the order of its items.
        std_errors : list of arrays
            Only with ``return_std``; 0 for sets of two items.

        Examples
        --------
        See :meth:`fit_choices`.
        """
        numbers = whole_number("n_chosen", n_chosen, 1), whole_number("n_samples", n_samples, 2)
        probabilities, std_errors = predicted_choices(self, sets, items, *numbers, random_state)
        return (probabilities, std_errors) if return_std else probabilities

    def suggest(
        self,
        items: Any = None,
        k: int = 1,
        goal: str = "best",
        *,
        candidates: Any = None,
        users: Any = None,
        contexts: Any = None,
        n_samples: int | None = None,
        random_state: Any = None,
    ) -> DuelSuggestions:
        """Returns the ``k`` duels whose outcomes are expected to inform most about a goal.

        The information is the mutual information between the outcome and the goal under the posterior, in
        bits: by how much the outcome is expected to reduce the uncertainty about the goal. It is that of a
        single duel, so for several duels the sum is too large. Hold a duel, fit the model with its outcome,
        and ask again. No item is at home.

        Parameters
        ----------
        items : array or data frame, optional
            The items, or labels of items of the fit; by default all items of the fit. Other items need not
            have duels.
        k : int, default 1
            The number of duels.
        goal : "best", "ranking" or "cycles"
            ``"best"``: which item is the best, or in models that allow cycles which is the Condorcet winner
            (it beats each other item with a probability above one half), or that there is none.
            ``"ranking"``: the log odds of all pairs, which determine the ranking. ``"cycles"``: the number of
            cycles of three items, in classes: none, and eight classes of about equal probability.
        candidates : list of pairs, optional
            The duels that can be held: the left and the right item by label (or row number) of ``items``; by
            default all pairs.
        users, contexts
            For a model with users or contexts: the user, or the context (one row), of the duel.
        n_samples : int, optional
            The number of joint draws. By default 10,000 of utilities, or fewer for more than 1,000 items, and
            512 of all log odds for models that allow cycles. Values of the goal with fewer than 8 draws are
            one class.
        random_state : int, RandomState or None

        Returns
        -------
        DuelSuggestions

        Examples
        --------
        >>> votes = [("ann", "bob")] * 3 + [("bob", "cleo")] * 3 + [("ann", "dan"), ("dan", "ann")]
        >>> model = PreferenceClassifier("bradley_terry").fit(None, votes)
        >>> sorted(model.suggest(random_state=0).pairs[0])  # Who of the two is the best?
        ['ann', 'dan']
        """
        return suggested_duels(self, items, k, goal, candidates, users, contexts, n_samples, random_state)

    def save(self, path: str | os.PathLike[str], *, posterior: bool = True) -> None:
        """Writes the model file of ``riesz prefer fit``, which ``riesz prefer predict`` and :meth:`load`
        read.
        The file holds the log odds as a function of two items and a context.

        Parameters
        ----------
        path : path
        posterior : bool, default True
            Whether to include the posterior, without which there are no probabilities; 4 n² bytes for n
            pairs that met, and for each model of an average. Models with landmarks have none in files.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> model = PreferenceClassifier("bradley_terry").fit(None, [("ann", "bob"), ("bob", "cleo")])
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.riesz"
        >>> model.save(path)
        >>> again = PreferenceClassifier.load(path)
        >>> bool((again.predict_proba("ann", "cleo") == model.predict_proba("ann", "cleo")).all())
        True
        """
        check_is_fitted(self, "classes_")
        if self.expansion_ is None:
            raise ValueError(f"there is no model to save, because {self._no_model_reason}")
        columns = self.expansion_.feature_names
        names, _ = self._item_columns()
        groups = [(name, [columns.index(f"{side}_{name}") for side in ("left", "right")]) for name in names]
        core = self.expansion_._with_posterior().with_groups(groups, [("riesz", _core.__version__)])
        if self.average_ is None:
            write(path, core.to_bytes(posterior and core.has_posterior))
        else:
            write(path, self.average_._to_bytes(posterior, core))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PreferenceClassifier:
        """Reads a model file of :meth:`save` or of ``riesz prefer fit``.

        The model predicts and explains duels as the fitted one did. A file does not hold the items of the
        fit, so give items by their rows and explanations a background; models with abilities know the names
        of their items, and without landmarks also the features of those that had duels. Neither does it hold
        the prior on its own: there is no ``kernel_``.

        Parameters
        ----------
        path : path

        Returns
        -------
        PreferenceClassifier
        """
        content = pathlib.Path(path).read_bytes()
        average = ModelAverage._of_file(content, path)
        expansion = Expansion._of_file(content, path) if average is None else average.best
        columns = dict(zip(expansion.feature_names, expansion._core.levels))
        items = [name[5:] for name in columns if name.startswith("left_") and f"right_{name[5:]}" in columns]
        if not items:
            raise ValueError(
                f"{path}: the model has no columns left_… and right_…, so it is no model of duels: read it "
                "with riesz.Expansion.load"
            )
        sides_columns = {f"{side}_{name}" for side in ("left", "right") for name in items}
        contexts = [name for name in columns if name not in sides_columns]
        ability_levels = columns.get(f"left_{ABILITY}") or []
        has_ability = UNSEEN_RIGHT in ability_levels
        has_home = HOME in items and columns[f"left_{HOME}"] is None and items[-1 - has_ability] == HOME
        features = [
            name
            for name in items
            if not (has_ability and name == ABILITY) and not (has_home and name == HOME)
        ]
        margin = expansion._core.tie_margin
        model = cls(
            _form_of(dict(expansion._core.card)),
            ability=has_ability,
            ties="model" if margin > 0 else "half",
        )
        model.expansion_, model.average_ = expansion, average
        model._names, model._levels = features, [columns[f"left_{name}"] for name in features]
        model._has_home = has_home
        if has_ability:
            # Points of landmarks have abilities without features.
            is_exact = not any(fact == "landmarks" for fact, _ in expansion._core.card)
            points = np.asarray(expansion.points)[:, : len(items)]
            codes, first = np.unique(points[:, -1].astype(int), return_index=True)
            rows = points[first, : len(features)] if is_exact else None
            model._known = KnownItems.of_file(ability_levels, rows, codes.tolist())
        if contexts:
            levels = [columns[name] for name in contexts]
            model._contexts = Contexts(contexts, levels, UNSEEN in (levels[-1] or []))
        model.margin_ = model._mean_margin(margin)
        model.classes_ = np.array(["right", "left", "tie"][: 3 if margin > 0 else 2])
        model.n_features_in_ = len(features)
        if model.model == "bradley_terry":
            model._read_abilities()
        return model

    def _read_abilities(self) -> None:
        """Sets the abilities from the log odds of each item against the first one."""
        labels = self._levels[0] or []
        self._background = np.array([[name] for name in labels], dtype=object)
        log_odds = self.decision_function(labels, labels[:1])
        self.abilities_ = dict(zip(labels, (log_odds - log_odds.mean()).tolist()))
        self.abilities_std_ = None

    def probability_better(self, left: Any, right: Any, **circumstances: Any) -> np.ndarray:
        """Returns the posterior probability that the left item is better, i.e. that its log odds are
        positive; ½ for two equal items."""
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
        background_weights: Any = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        index: str = "shapley",
        covariance: bool = False,
        conditional_ridge: float | None = None,
        centered: bool = True,
        n_conditional_landmarks: int | None = None,
        cg_tol: float | None = None,
        n_coalitions: int | None = None,
        target_std_error: float | None = None,
        shifts: int = 16,
        n_orders: int | None = None,
        random_state: int = 0,
        absent_contexts: Any = None,
        context_game: str = "independent",
        average: str | None = None,
        **circumstances: Any,
    ) -> Explanation:
        """Explains duels (Pref-SHAP): the contribution of each feature of *both* items to the log odds that
        the left item wins. The values add up to the log odds. With the sides exchanged they have the opposite
        sign, to the last bit.

        Parameters
        ----------
        background : array or data frame, optional
            Items from which absent features take their values, by default those of the fit.
        game : str, default "independent"
            The values of absent features. ``"independent"``: those of two random items, one per side; values
            explain *this* duel. ``"paired"``: those of one random item on both sides, all else equal; values
            show which *differences* matter. For utilities the two games are the same. ``"matches"``: those of
            the two items of a random duel of ``background``, wide rows as of :meth:`pair_features`.
            ``"baseline"``: those of one item. ``"functional"``: their kernel factors are 1.
            ``"observational"``: on each side their conditional distribution given the item's present
            features, learnt from ``background`` (the published game).
        background_weights : array, optional
            Weights of the background items.
        groups : dict of name to list of features, optional
            Groups of features that form one player.
        index : str, default "shapley"
            Kind of value, as in :class:`riesz.Explainer`.
        covariance : bool, default False
            Whether to compute the posterior covariance of values, in every game but ``"functional"``. With
            more than 12 players it is not available in the observational game, if contexts can be absent, or
            in the independent game with up to 100 items.
        conditional_ridge, centered, n_conditional_landmarks, cg_tol
            For the observational game, see :class:`riesz.Observational`.
        n_coalitions : int, optional
            In the observational game, and in games with absent contexts: the maximum number of coalitions.
            Values are then estimated, with standard errors. By default all coalitions of up to 16 players are
            evaluated, and 4096 coalitions of more players.
        target_std_error : float, optional
            Coalitions are added until no standard error exceeds this, or their maximum number is reached.
        shifts, random_state
            For the independent game with more than 13 features and 100 items: the number of shifts by which
            pairs of items are drawn. Values are then estimated, with standard errors.
        n_orders : int, optional
            Number of random orders of the features, at least 16, from which values are estimated with their
            standard errors. Each order is used with its reverse and with items drawn for it. For models with
            many features and landmarks, whose exact values take long. Items of equal weight are drawn equally
            often, so a few more orders may be used.
        absent_contexts : array or data frame, optional
            Contexts from which absent contexts take their values; the columns of contexts are then players,
            and with ``game="contexts"`` the only ones. By default the contexts of a duel are always present.
        context_game : {"independent", "observational"}, default "independent"
            The values of absent contexts: those of a random row of ``absent_contexts``, or those of the
            conditional distribution given the context's present columns (Hu et al. 2022, proposition 4).
        average : {None, "opponents", "contexts"}, default None
            ``"contexts"``: every duel is explained in every row of ``contexts``, and its values are means
            over them. ``"opponents"``: every item on the left meets every item on the right, and its values
            are means over the opponents; there is one explanation per left item. (The mean over both orders
            of two items would be 0.) Omit the item itself from its opponents. For means over a set of
            matches, explain the duels, oriented for example by the winner, and call
            :meth:`riesz.Explanation.average`.
        circumstances
            The contexts, users, home and names of the duels, as in :meth:`pair_features`.
        """
        if average not in (None, "opponents", "contexts"):
            raise ValueError(f"average = {average!r}: it is None, 'opponents' or 'contexts'")
        if average is not None and covariance:
            raise ValueError(NO_COVARIANCE)
        check_is_fitted(self, "classes_")
        left, right = self._items_of_names(left, "left"), self._items_of_names(right, "right")
        if background is not None:
            background = self._items_of_names(background, "background")
        names = _names_of(left, right, circumstances.get("ids"))
        item_counts = [len(self._items(items, side)) for items, side in ((left, "left"), (right, "right"))]
        if average is not None:
            count, positions, other = _crossed(average, item_counts, circumstances)
            of_side = (positions, other if average == "opponents" else positions)
            # A single item is repeated.
            pairs = [place if n > 1 else np.zeros_like(place) for n, place in zip(item_counts, of_side)]
            left, right = (_rows_at(*argument) for argument in zip((left, right), item_counts, pairs))
            if average == "contexts":
                contexts = circumstances["contexts"]
                circumstances["contexts"] = _rows_at(contexts, len(contexts), other)
            if names is not None:
                names = [names[0][number] for number in pairs[0]], [names[1][number] for number in pairs[1]]
            if circumstances.get("ids") is not None:
                circumstances["ids"] = names
        rows = self.pair_features(left, right, **circumstances)
        explanation = self._explain_rows(
            rows,
            background,
            names,
            game=game,
            contexts=absent_contexts,
            background_weights=background_weights,
            groups=groups,
            index=index,
            covariance=covariance,
            conditional_ridge=conditional_ridge,
            centered=centered,
            n_conditional_landmarks=n_conditional_landmarks,
            cg_tol=cg_tol,
            n_coalitions=n_coalitions,
            target_std_error=target_std_error,
            context_game=context_game,
            shifts=shifts,
            n_orders=n_orders,
            random_state=random_state,
        )
        return (
            explanation
            if average is None
            else explanation.average(np.equal.outer(range(count), positions).astype(float))
        )

    def _explain_rows(
        self, rows: Any, background: Any, names: Any, *, game: str, **options: Any
    ) -> Explanation:
        if self.expansion_ is None:
            raise ValueError(f"there is no model to explain, because {self._no_model_reason}")
        background = (
            self._background
            if background is None and game not in ("functional", "contexts", "matches")
            else background
        )
        return explain(
            self._averaged(), rows, self._background_rows(background, game), game=game, names=names, **options
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
        """Explains duels between bags of ``items``, with ``members`` and ``duels`` as in :meth:`fit`. Values
        are means of the values of the duels between members, weighted by membership, and add up to the bags'
        log odds. ``options`` are those of :meth:`explain`, without covariances, which are not known between
        duels. Time and memory are proportional to the number of pairs of members."""
        bag_duels = self._bag_duels(items, members, duels, contexts, users, "explain_bags")
        rows, place, share = bag_duels.between_members()
        options |= {"shares": (place.tolist(), share.tolist()), "contexts": absent_contexts}
        return self._explain_rows(self._spelled(rows), background, bag_duels.names(), game=game, **options)

    def _background_rows(self, background: Any, game: str) -> Any:
        """Returns items in the model's columns, not at home and without an ability."""
        further = [HOME] * self._has_home + [ABILITY] * (self._known is not None)
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
        neutral += [np.full((len(cells), 1), UNSEEN, dtype=object)] * (self._known is not None)
        return np.hstack([cells, *neutral])

    def predict_bags(
        self, items: Any, members: Any, duels: Any, *, contexts: Any = None, users: Any = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predicts duels between bags of ``items``, with ``members`` and ``duels`` as in :meth:`fit`. Returns
        the log odds that the left bag wins (the mean over pairs of members, none of them at home), their
        standard deviation, and probabilities as :meth:`predict_proba`. New items of a bag have one ability
        in common. Time and memory are proportional to the number of pairs of members. With landmarks the
        memory is proportional to the number of members, and standard deviations are estimated from
        ``n_samples`` draws, as in :meth:`decision_function`."""
        bag_duels = self._bag_duels(items, members, duels, contexts, users, "predict_bags")
        if self._function is not None:
            rows, bags, pairs = bag_duels.between_bags()
            query = ((*self._item_columns(), rows), bags), pairs, self._context_table(bag_duels.contexts)
            mean, sd = self._function.log_odds(*query, "draws")
            return mean, sd, self._function.probabilities(*query)
        rows, duel_number, share = bag_duels.between_members()
        parts = self._averaged()._parts()
        weights = np.array([weight for weight, _ in parts])
        places, shares = duel_number.tolist(), share.tolist()
        count = len(bag_duels.left)
        sums = [_core.predict_sums(part, rows, places, shares, count) for _, part in parts]
        means = np.array([mean[:, 0] for mean, _, _ in sums])
        deviations = np.array([std[:, 0] for _, std, _ in sums])
        mean = weights @ means
        probabilities = np.tensordot(weights, np.array([part for _, _, part in sums]), 1)
        return mean, np.sqrt(weights @ (deviations**2 + (means - mean) ** 2)), probabilities

    def _bag_duels(
        self, items: Any, members: Any, duels: Any, contexts: Any, users: Any, label: str
    ) -> BagDuels:
        """Reads duels between bags of items, none of which is at home."""
        check_is_fitted(self, "classes_")
        if self._form in ABILITIES:
            raise ValueError(
                f"{label}: models of abilities have no bags: fit the model 'nested', 'utility' or "
                "'generalised'"
            )
        rows = self._items(items, "items")
        # New items on the right differ from those on the left.
        further = [np.zeros((len(rows), 1))] * self._has_home
        sides = [[rows, *further], [rows, *further]]
        if self._known is not None:
            for side, codes in zip(
                sides, self._known.codes_of_sides((items, items), (rows, rows), apart=True)
            ):
                side.append(codes)
        bag_names, bag, item, weight = memberships(members, items, len(rows))
        left, right = bags_of(duels, bag_names)
        context_rows = None
        if self._contexts is not None:
            context_rows = self._contexts.rows(contexts, users)
            if len(context_rows) not in (1, len(left)):
                raise ValueError(
                    f"contexts and users have {len(context_rows)} rows, but there are {len(left)} duels: "
                    "one a duel, or one for all"
                )
            context_rows = np.broadcast_to(context_rows, (len(left), context_rows.shape[1]))
        elif contexts is not None or users is not None:
            raise ValueError("contexts and users: the model was fitted on duels without them")
        side_rows = np.hstack(sides[0]), np.hstack(sides[1])
        return BagDuels(side_rows, bag_names, bag, item, weight, left, right, context_rows)

    def _items_of_names(self, items: Any, label: str) -> Any:
        """Returns the rows of the fit's items for texts that are labels of their index; other items
        unchanged."""
        names = _texts_of(items)
        if names is None or self._form == "bradley_terry":
            return items
        if not self._names:
            return NameList(names)
        known = labels_of(self._background)
        if known is None:
            if np.ndim(items):
                return items
            raise ValueError(
                f"{label} = {items!r}: names are labels of the index of the items of the fit, which had "
                "none: give the item's row"
            )
        row_of_name = {name: row for row, name in enumerate(known)}
        unknown = [name for name in names if name not in row_of_name]
        if unknown and len(unknown) == len(names) == self.n_features_in_ and np.ndim(items):
            return items  # A row of categories.
        if unknown:
            listed = ", ".join(map(repr, known[:5])) + (
                f", … ({len(known)} in all)" if len(known) > 5 else ""
            )
            raise ValueError(f"{label}: the fit had no item {unknown[0]!r}; its items are: {listed}")
        return self._background.iloc[[row_of_name[name] for name in names]]

    def _items(self, items: Any, label: str) -> np.ndarray:
        if self._form == "bradley_terry":
            labels = np.array(
                [[str(label)] for label in np.asarray(items, dtype=object).ravel()], dtype=object
            )
            return as_numbers(labels, self._names, label, self._levels)
        if isinstance(items, NameList):
            return np.zeros((len(items), 0))
        if any(levels is not None for levels in self._levels):
            return as_numbers(collected(items), self._names, label, self._levels)
        return numbers_of(items, self._names, label)


def _form_of(facts: dict[str, str]) -> str:
    """Returns the form of a model from the facts of its model card."""
    form = _FORMS.get(facts.get("model", ""))
    if form is not None:
        return form
    # Files of riesz before 0.1 have other names.
    names = [
        ("prior variance of the utility", "share of a utility"),
        ("prior variance of the generalised part", "share of the generalised part"),
    ]
    utility, generalised = (float(facts.get(name, facts.get(old, 0))) for name, old in names)
    return "nested" if (utility > 0) == (generalised > 0) else "utility" if utility > 0 else "generalised"


def _texts_of(items: Any) -> list[str] | None:
    """Returns a text, or a list or array of texts, as a list; ``None`` for other items."""
    if isinstance(items, str):
        return [str(items)]
    is_list = isinstance(items, (list, tuple)) or (isinstance(items, np.ndarray) and items.ndim == 1)
    if not is_list or len(items) == 0 or not all(isinstance(item, str) for item in items):
        return None
    return [str(item) for item in items]


def _rows_at(items: Any, count: int, rows: np.ndarray) -> Any:
    """Returns items by number, out of ``count``; a single item may be a row instead of a table."""
    if hasattr(items, "iloc") and np.ndim(items) == 2:
        return items.iloc[rows]
    cells = collected(items)
    if names_of(cells) is None:
        cells = np.asarray(cells)
        cells = cells if len(cells) == count and (count > 1 or cells.ndim == 2) else cells[None]
    return cells[rows]


def _crossed(
    average: str, item_counts: Sequence[int], circumstances: Mapping[str, Any]
) -> tuple[int, np.ndarray, np.ndarray]:
    """Returns the number of explanations, and for every duel the number of its explanation and that of its
    opponent or context."""
    if not min(item_counts):
        raise ValueError(f"average = {average!r}: give at least one item on each side")
    if average == "opponents":
        count, other_count = item_counts
    else:
        contexts = circumstances.get("contexts")
        if contexts is None or np.ndim(contexts) != 2 or not len(contexts):
            raise ValueError("average = 'contexts': give contexts, a table of the contexts to average over")
        home = circumstances.get("home")
        if circumstances.get("users") is not None or not isinstance(home, (str, type(None))):
            raise ValueError("average = 'contexts': users, and a home for each duel, cannot be averaged over")
        if item_counts[0] != item_counts[1] and min(item_counts) != 1:
            raise ValueError(
                f"there are {item_counts[0]} items on the left and {item_counts[1]} on the right: give one "
                "for each duel, or one for all"
            )
        count, other_count = max(item_counts), len(contexts)
    return count, np.repeat(range(count), other_count), np.tile(range(other_count), count)


def _labels_or_texts(items: Any) -> list[str] | None:
    labels = labels_of(items)
    return _texts_of(items) if labels is None else labels


def _names_of(left: Any, right: Any, ids: Any) -> tuple[list, list] | None:
    """Returns the names of items on either side; ``None`` if a side has no names."""
    labels = (_labels_or_texts(left), _labels_or_texts(right)) if ids is None else ids
    left_names, right_names = (
        None if side is None else [str(name) for name in np.atleast_1d(np.asarray(side, dtype=object))]
        for side in labels
    )
    return None if left_names is None or right_names is None else (left_names, right_names)
