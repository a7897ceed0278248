"""The explainer: computes an :class:`~riesz.Explanation` from a model, rows and a game."""

from __future__ import annotations

import copy
import os
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from .. import _core
from .._core import UnsupportedModelError
from .._data.parameters import is_whole, threads_of
from .._data.validation import as_cells, check_columns, collected, is_numbered, names_of, numbered
from .._models.expansion import Expansion
from .._models.loading import Imported, Part, card_of, compare, evenly_spaced_rows, user_names
from .._models.multiplicative import is_multiplicative, read_multiplicative
from .._models.predictions import class_names, log_odds
from .._models.pytorch import is_torch, read_torch
from ..games import Causal, Game, game_of, settings_of
from .black_box import kernel_shap_values, permutation_estimates, reference_rows
from .explanation import Explanation, Kept, joined
from .feature_groups import (
    Groups,
    model_players,
    model_structure,
    named_unions,
    players_of,
    unions_among,
)
from .texts import Texts, explain_texts, texts_of
from .top_interactions import TopInteractions

#: Number of coalitions, and the standard error at which to stop, if any.
Budget = tuple[int, float | None]


#: Limit for numbers of pairs that are passed to the core.
MAX_PAIRS = 2**62


class Explainer:
    """Shapley values: exact for kernel models, estimated for other functions.

    Parameters
    ----------
    model
        One of these:

        - a fitted support vector machine, KernelRidge, Gaussian process or linear model of scikit-learn;
        - a Pipeline that ends in one of them and whose other steps compute each column from one column;
        - a search for one of them, or a sum of them (bagging, voting, stacking with a linear final estimator,
          a scaled target, one-vs-rest, several outputs);
        - a Gaussian process of GPyTorch or BoTorch;
        - a :class:`riesz.Expansion`, or the path of a riesz or LIBSVM model file;
        - any other fitted model, which is explained by its ``predict_proba``, or else its ``predict``;
        - a module of PyTorch, or any function from rows to numbers, (n,) or (n, m).

        Classifiers among kernel models are explained by their decision function, and Gaussian process
        classifiers by their latent function. A support vector machine of several classes has one output for
        each pair of classes, and for each class the sum of the outputs of its pairs. By this sum
        scikit-learn's one-vs-rest scores rank classes that win equally many pairs. (The scores add votes to
        the squashed sum, which is no expansion.) ``decision_function_shape="ovo"`` omits the sums. Calibrated
        classifiers are explained by the mean of the decision functions before calibration.

        Multiplicative models are explained on their multiplicative scale: generalised linear models with a
        log link (also of statsmodels) by their mean, naive Bayes by its odds, lifelines' CoxPHFitter by its
        hazard ratio; see also :func:`riesz.odds_model`.

        Models of BoTorch are explained in the columns and units of the user, by the mean of their posterior.
        If they transform an outcome by ``Log``, it is the mean of its logarithm.

        Values are exact unless :attr:`exactness` is ``"estimated"``, and then :attr:`reason` says why. They
        are estimated for functions, for models that riesz does not read, and for kernel models without exact
        values (a sigmoid kernel, a pipeline with a PCA). Polynomial kernels up to degree 20 are exact with a
        background or a baseline. Estimates need a background and the interventional or baseline game. Each
        has a standard error: the interval value ± 1.96 standard errors covers the true value with probability
        about 0.95 or more, also with few draws.

        Pipelines that begin with a text vectoriser take texts. The features are the words (or n-grams) of
        each text, an absent word is removed from the text, and no background is needed; ``groups`` are groups
        of words. Values are exact for linear models after ``TfidfVectorizer``, and for kernel models after
        ``CountVectorizer`` or with ``norm=None``.
    background : array or data frame of shape (b, d), optional
        Rows from which absent features take their values. Functions are called with rows in this form.
    game : {"auto", "functional", "baseline", "interventional", "marginal_product", "observational"} or game
        The meaning of an absent feature; see :mod:`riesz.games`, whose classes carry a game's settings, for
        example ``riesz.Observational(X, conditional_ridge=0.01)`` and
        ``riesz.Causal(X, components=[["age"], ["income", "debt"]])``. ``"auto"`` is interventional with a
        background and functional without one.
    index : str, default "shapley"
        The kind of value, in exact games. ``"shapley"`` is the contribution of a feature, averaged over all
        orders of the features; only these values add up to the prediction. ``"banzhaf"`` averages the
        contribution over random coalitions that contain each other feature with probability 0.5, and
        ``"banzhaf(0.3)"`` with probability 0.3. ``"leave-one-out"`` has probability 1 (the loss without the
        feature), and ``"first-order"`` probability 0 (its contribution to the base value alone).
        ``"beta-shapley(4, 1)"`` (Kwon and Zou 2022) draws the probability from a Beta distribution; a larger
        first number gives small coalitions more weight. A :class:`Semivalue` takes any probabilities with
        weights.

        Other indices have a value for each feature and each pair, as :attr:`Explanation.interactions`.
        ``"k-SII"`` (Shapley interaction values), ``"STII"`` (Shapley–Taylor) and ``"FSII"`` (faithful: the
        nearest sum over features and pairs) add up to the prediction. ``"SII"`` and ``"BII"`` are the Shapley
        and Banzhaf interaction indices, ``"FBII"`` is the faithful Banzhaf index, and ``"Moebius"`` gives the
        dividends.
    order : int, default 2
        For an index of interactions: the maximum size of the sets that get a value, from 2 (pairs) to 8.
        ``index="k-SII", order=3`` is the same as ``index="k-SII(3)"``.
    unions : list, optional
        Unions of features for Owen values (Owen 1977), as lists of names and of such lists, for example
        ``[["s1", "s2"], ["age", "sex"]]``. Other features are unions of one. The average is over the orders
        that keep each union together, so that its members share the value of the union. These are exactly the
        values that ``shap.PartitionExplainer`` estimates. A group counts as a feature.
    ordering : list of lists, optional
        Asymmetric Shapley values (Frye, Rowat and Feige 2020), for kernel models in the observational and the
        causal game: groups of features in causal order, for example ``[["age"], ["income", "debt"]]``. The
        average is over the orders in which all features of earlier groups come first, so that a cause gets
        the credit for its effects. Every feature is in a group, and ``n_coalitions`` applies to each group.
    probabilities : bool, default False
        Whether to explain a classifier's probabilities instead of its latent outputs, such as log odds. For
        riesz's models with up to 13 features all coalitions are evaluated exactly, and every ``index`` is
        exact within its bound if no factor of the kernel exceeds 1; otherwise Shapley values are exact for up
        to 12 features. With more features, values are estimated from ``n_coalitions`` coalitions. Other
        models are explained by their ``predict_proba``.
    link : {"identity", "logit"}, default "identity"
        ``"logit"`` explains the log odds of each class, from the ``predict_proba`` of any classifier, and
        needs a background.
    groups : dict of name to list of columns, optional
        Columns, by name or number, that are present or absent together as one player. Each other column is a
        player.
    background_weights : array of shape (b,), optional
        Weights of the background rows.
    n_jobs : int, optional
        Number of threads; ``None`` or -1 for one per core. Results do not depend on it.
    estimator : {"permutation", "kernel_shap"}, optional
        How values of a function are computed. The default is permutations for the interventional game and
        KernelSHAP for the observational one. KernelSHAP evaluates ``n_coalitions`` coalitions, the same for
        all rows, or all coalitions if there are fewer. With an estimator, a kernel model is explained by its
        predictions and not by its kernel.
    n_coalitions : int, default 4096
        For the observational and the causal game and KernelSHAP: the maximum number of coalitions. Up to 12
        features the default includes all coalitions, and values are exact. With more features they are
        estimated with standard errors, and :meth:`refine` adds coalitions.
    target_std_error : float, optional
        For the observational and the causal game and KernelSHAP: stops when no standard error exceeds this
        number.
    n_orders : int, default 2
        Number of random orders of the features for each background row, at least 2, and at least 16 over all
        background rows. Standard errors decrease with its square root. A row takes about
        ``2 * n_orders * b * d`` calls of the model. If evaluating all coalitions takes at most 5/4 of
        that, they are evaluated instead, and values are exact.
    random_state : int, default 0
        Seed of the draws for estimates and for the observational game.

        ``n_coalitions``, ``target_std_error`` and ``n_orders`` are refused if they have no
        effect, for example when values are exact.
    covariance : bool, default False
        Whether explanations include the posterior :attr:`~Explanation.covariance` of the Shapley values, and
        with it :meth:`~Explanation.interval`. For Gaussian processes of riesz and scikit-learn, and model
        files with a posterior, it is exact; in the functional game all factors must be
        :class:`~riesz.kernels.ANOVA`, and the observational game takes up to 12 features. It is the
        covariance under the posterior of the latent function, without the noise and without the uncertainty
        about the distribution of the features. For riesz's other estimators with ``bootstrap`` or
        ``jackknife`` it is the variation over refits. For kernel ridge and logistic regression with landmarks
        it estimates the distance to the values of the model with all rows as support points. Files, tables,
        plots and pages include it.
    output_names : list of str, optional
        Names for the model's outputs.

    Attributes
    ----------
    exactness : str
        ``"exact"`` or ``"estimated"``.
    reason : str or None
        Why values are estimated; ``None`` if they are exact.

    Raises
    ------
    UnsupportedModelError
        For a model, or a part of one, that has no exact values and cannot be estimated either; the message
        names it. Also for a model of another library whose predictions differ from those of the expansion
        that riesz read, by more than a millionth of the largest prediction. They are compared at some rows of
        the background or, without one, near the model's support points.
    sklearn.exceptions.NotFittedError
        For a model that is not fitted.
    ValueError
        For a kernel that combines columns of different players in one factor, and for rows that do not fit
        the model.

    Notes
    -----
    Exact values of a row cost O(background rows · support points · players · nodes), usually with 5 to 30
    nodes. The cost does not depend on the number of coalitions.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from riesz.kernels import RBF
    >>> model = riesz.Expansion(RBF(length_scale=1.5), points=np.eye(3), coef=[1.0, -1.0, 0.5])
    >>> riesz.Explainer(model)(np.zeros((2, 3))).values.shape
    (2, 3)
    """

    def __init__(
        self,
        model: Any,
        background: Any = None,
        *,
        game: str | Game = "auto",
        index: str | None = None,
        order: int | None = None,
        unions: Sequence[Any] | None = None,
        ordering: Sequence[Any] | None = None,
        probabilities: bool = False,
        link: str = "identity",
        groups: Groups | None = None,
        background_weights: Any = None,
        estimator: str | None = None,
        n_coalitions: int | None = None,
        target_std_error: float | None = None,
        n_orders: int | None = None,
        random_state: int | None = None,
        covariance: bool = False,
        n_jobs: int | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        if isinstance(model, (str, os.PathLike)):
            model = Expansion.load(model)
        if order is not None:
            if index is None:
                raise ValueError(f"order = {order!r} needs an index of interactions, such as index='k-SII'")
            index = f"{index}({order})"
        budget = {
            "index": index,
            "estimator": estimator,
            "n_coalitions": n_coalitions,
            "target_std_error": target_std_error,
            "n_orders": n_orders,
            "random_state": random_state,
            "covariance": covariance or None,
        }
        # Pickles and copies are made from these arguments.
        self._arguments = {
            "model": model,
            "background": background,
            "game": game,
            "groups": groups,
            "background_weights": background_weights,
            "unions": unions,
            "ordering": ordering,
            "probabilities": probabilities,
            "link": link,
            "n_jobs": n_jobs,
            "output_names": output_names,
            **budget,
        }
        self._threads = threads_of(n_jobs)
        if link not in ("identity", "logit"):
            raise ValueError(
                f"link = {link!r}: it is 'identity', or 'logit' for the log-odds of a classifier's "
                "probabilities"
            )
        self._texts = texts_of(model, probabilities, link)
        if self._texts is not None:
            self._prepare_texts(self._texts, budget)
            return
        chosen_game = game_of(game, background, background_weights)
        self._background, self._weights = (
            (background, background_weights)
            if chosen_game is None
            else (chosen_game.background, chosen_game.weights)
        )
        if self._weights is not None and self._background is None:
            raise ValueError("background_weights are weights of background rows: give a background")
        # A model of riesz selects its columns by name; models of scikit-learn need the data frame unchanged.
        self._select_columns = getattr(model, "_select_columns", lambda rows, label: collected(rows, label))
        if self._background is not None:
            self._background = self._select_columns(self._background, "the background")
        if link == "logit":
            self._imported = _read(
                _logit(model, probabilities), self._background, output_names or class_names(model) or None
            )
            self._imported = replace(
                self._imported, explained="log-odds of the probabilities", kind=type(model).__name__
            )
        else:
            self._imported = _read(model, self._background, output_names)
        # For the covariance of a mixture, each part of the mixture is explained on its own.
        self._mixture: list[float] | None = None
        if covariance and self._imported.mixture is not None:
            self._mixture = [weight for weight, _ in self._imported.mixture]
            self._imported = replace(self._imported, blocks=[[part] for _, part in self._imported.mixture])
        if probabilities and not self._imported.has_probabilities:
            if not hasattr(model, "predict_proba"):
                raise ValueError(f"probabilities = True: a {type(model).__name__} has no predict_proba")
            self._imported = _read(model.predict_proba, self._background, output_names)
        elif probabilities:
            budget["probabilities"] = True
            classes = self._imported.parts[0].expansion.classes
            is_binary = len(classes) == 2
            output_classes = classes[1:] if is_binary else classes
            # If there are no exact values, they are estimated from the model's predict_proba.
            predict_proba = getattr(model, "predict_proba", None)
            function = (
                None
                if predict_proba is None
                else (lambda rows: predict_proba(rows)[:, 1:] if is_binary else predict_proba(rows))
            )
            self._imported = replace(
                self._imported,
                explained="probabilities",
                output_names=list(output_names or output_classes),
                function=function,
            )
        parts = self._imported.parts
        names = parts[0].expansion.feature_names if parts else self._imported.feature_names
        self.feature_names = user_names(self._background, self._imported)
        self._players = players_of(groups, self._imported, self.feature_names)
        player_names = [name for name, _ in self._players]
        self._unions = None if unions is None else named_unions(unions, player_names)
        self._ordering = None if ordering is None else named_unions(ordering, player_names, "ordering")
        self._given = {
            **(chosen_game._settings(names) if chosen_game else {}),
            **(chosen_game._structure(self.feature_names) if isinstance(chosen_game, Causal) else {}),
            **budget,
            "unions": self._unions,
            "ordering": self._ordering,
        }
        self._settings = settings_of(self._given)
        self._check_background()
        self.exactness: str = "exact"
        self.reason: str | None = None
        self._cores: list[_core.Explainer] = []
        if not self._settings.asks_for_answers:
            self._compare(self._background)
        try:
            if self._settings.asks_for_answers:
                raise UnsupportedModelError("an estimator was chosen, so its predictions are explained")
            self._prepare_cores()
        except UnsupportedModelError as error:
            if covariance and self._imported.parts and not self._settings.asks_for_answers:
                raise UnsupportedModelError(f"covariance = True: {error}") from None
            self._prepare_estimates(error, chosen_game is not None and chosen_game.takes_a_kernel)

    def _prepare_texts(self, texts: Texts, options: dict[str, Any]) -> None:
        """Prepares an explainer of texts: each text is explained by its own model over its words."""
        arguments = self._arguments
        for name in ("background_weights", "unions", "ordering", "covariance"):
            if arguments[name] is not None and arguments[name] is not False:
                raise ValueError(f"{name} has no use for texts, whose features are their words: leave it out")
        if not isinstance(arguments["game"], str) or arguments["game"] not in ("auto", "baseline"):
            raise ValueError(
                "texts have only the baseline game, in which an absent word is left out of the text"
            )
        if arguments["background"] is not None:
            message = (
                "the background is not used: the model takes texts, and an absent word is left out of the "
                "text"
            )
            warnings.warn(message, stacklevel=3)
        self._cores, self._options = (
            [],
            {name: value for name, value in options.items() if name != "covariance"},
        )
        self.feature_names, self._players, self.game = [], [], "baseline"
        self._imported = Imported([], texts.explained, [], texts.kind, [])
        self.exactness, self.reason = "exact" if texts.reason is None else "estimated", texts.reason

    def _explain_text(self, imported: Imported, groups: dict[str, list[str]] | None) -> Explanation:
        """Explains one text as a function of which of its words are present."""
        d = len(imported.feature_names)
        explainer = Explainer(
            imported, np.zeros((1, d)), game="baseline", groups=groups, n_jobs=self._threads, **self._options
        )
        return explainer(np.ones((1, d)))

    def _check_background(self) -> None:
        """Checks the background's number of rows and columns, and the shape of its weights."""
        background = self._background
        if background is None:
            return
        b = len(as_cells(background, "background"))
        if not b:
            raise ValueError("the background has no rows")
        check_columns(background, self.feature_names, "background")
        if self._weights is not None:
            self._weights = np.ascontiguousarray(self._weights, dtype=np.float64)
            if self._weights.shape != (b,):
                raise ValueError(
                    f"background_weights has the shape {self._weights.shape}: one number a background row "
                    "is needed"
                )

    def _compare(self, X: Any) -> None:
        """Compares another library's model with its expansions once, at rows of ``X`` or else at the model's
        own rows."""
        imported = self._imported
        rows = imported.rows if X is None else evenly_spaced_rows(X)
        if (
            not imported.needs_comparison
            or imported.function is None
            or not imported.blocks
            or rows is None
            or not len(as_cells(rows))
        ):
            return
        label = "background" if X is self._background else "X"
        try:
            model_rows = self._model_rows(rows, label)
        except ValueError:
            # Error messages number cells among all rows, not among the selected ones.
            if X is not None:
                self._model_rows(X, label)
            raise
        error = compare(imported, rows, model_rows)
        if error is None:
            self._imported = replace(imported, needs_comparison=False)
        elif imported.may_be_user_code and self._background is not None:
            self._imported = replace(imported, blocks=[], refusal=error)
        else:
            raise error

    def _prepare_cores(self) -> None:
        imported, background = self._imported, self._background
        imported.readable()
        # Settings of the sampling are for estimates; they apply where a core has no exact values.
        settings = self._settings.without_estimates()
        game = settings.game(False, background is not None).replace("-", "_")
        if game in ("observational", "causal"):
            self._check_observational()
        rows = None if background is None else self._model_rows(background, "background")
        cores, used_players, threads = [], [], _core.Threads(self._threads)
        summed = max(map(len, imported.blocks), default=1)
        if self._arguments["covariance"] and summed > 1:
            raise ValueError(
                f"covariance=True: it takes one Gaussian process an output, and a {imported.kind} adds up "
                f"{summed} models, whose "
                "posteriors are not known together"
            )
        for part, part_background in zip(
            imported.parts, [None] * len(imported.parts) if rows is None else rows
        ):
            # A player without a column in a part has value 0 there.
            active_players = [player for player in model_players(self._players, part.owners) if player[1]]
            if self._unions is not None and len(imported.parts) > 1:
                # A union of a single feature changes nothing.
                unions = unions_among(self._unions, {name for name, _ in active_players}) or [
                    name for name, _ in active_players[:1]
                ]
                settings = settings_of(self._given | {"unions": unions}).without_estimates()
            if self._given.get("components"):
                structure = model_structure(self._given, self.feature_names, part)
                settings = settings_of(self._given | structure).without_estimates()
            model = (
                part.expansion._with_posterior() if self._arguments["covariance"] else part.expansion._core
            )
            core = _core.Explainer(model, settings, part_background, self._weights, active_players, threads)
            cores.append(core)
            # The core orders players by their first column in the model.
            position_of_player = {name: k for k, (name, _) in enumerate(self._players)}
            used_players.append([position_of_player[name] for name, _ in core.players])
        self._settings.game(False, background is not None)
        self.game, self._cores, self._used = game, cores, used_players
        self.reason = self._sampled_because(None)
        self.exactness = "exact" if self.reason is None else "estimated"

    def _check_observational(self) -> None:
        """Refuses games with conditional distributions if the summed models differ in their rows, or have no
        rows."""
        imported = self._imported
        if self._background is None and (
            imported.is_sum or not all(part.has_rows for part in imported.parts)
        ):
            raise UnsupportedModelError(
                f"a {imported.kind} keeps no rows to learn conditional distributions from: give a background"
            )
        if imported.is_sum:
            raise UnsupportedModelError(
                f"the members of the {imported.kind} have kernels or columns of their own, and would "
                "condition in different ways"
            )

    def _sampled_because(self, budget: Budget | None) -> str | None:
        """Returns why values of a kernel model are estimated; ``None`` if they are exact."""
        reasons = (core.sampled_because(budget) for core in self._cores)
        return next((reason for reason in reasons if reason is not None), None)

    def _prepare_estimates(self, refusal: UnsupportedModelError, takes_a_kernel: bool) -> None:
        imported, background = self._imported, self._background
        if imported.function is None:
            raise refusal
        if background is None or takes_a_kernel:
            raise UnsupportedModelError(
                f"{refusal}; riesz estimates such values, with standard errors, given a background and the "
                "interventional or "
                "observational game"
            ) from None
        # A function that returns probabilities needs no setting for them.
        self._settings = settings_of(
            {name: value for name, value in self._given.items() if name != "probabilities"}
        )
        self.game = self._settings.game(True, True)
        rows = reference_rows(background, self.game == "observational")
        self._question = _core.Question(self._settings, rows, self._weights, self._players)
        if self._question.estimated:
            self.exactness, self.reason = "estimated", str(refusal)

    def __call__(self, X: Any) -> Explanation:
        """Explains the rows of ``X``, which have the columns of the training rows; for a model of texts,
        ``X`` is a list of texts."""
        if self._texts is not None:
            arguments = self._arguments
            return explain_texts(
                self._texts, X, self._explain_text, arguments["groups"], arguments["output_names"]
            )
        return self._explain(self._select_columns(X, "X"), None, None)

    def refine(
        self, explanation: Explanation, n_coalitions: int, *, target_std_error: float | None = None
    ) -> Explanation:
        """Explains the rows of ``explanation`` again with ``n_coalitions`` coalitions of features, or until
        no standard error exceeds ``target_std_error``. Coalitions that were evaluated are not evaluated
        again. The result equals that of an explainer with ``n_coalitions`` from the start.

        This applies to estimates by coalitions: the observational game and KernelSHAP. Such an explanation
        keeps its evaluations, 4 bytes per coalition, row and output, up to 1 GB. Selections, files and
        pickles do not keep them.
        """
        kept = explanation._kept
        if kept is None:
            why = (
                "selections, files and pickles do not keep them, nor do explanations of more than 1 GB "
                "of them"
            )
            if explanation.exactness == "exact":
                why = "its values are exact"
            elif self._texts is None and not self._cores and self._question.estimator == "permutation":
                why = (
                    "it was estimated from permutations: ask for more of them, or for estimator='kernel_shap'"
                )
            raise ValueError(f"the explanation has no coalitions to go on from: {why}")
        if kept.explainer is not self:
            raise ValueError(
                "the explanation is another explainer's: refine it with the explainer that made it"
            )
        evaluated = max(sample.coalitions for sample in kept.samples)
        if not is_whole(n_coalitions) or n_coalitions <= evaluated:
            raise ValueError(
                f"n_coalitions = {n_coalitions!r}: it is a whole number above the {evaluated} that have been "
                "valued"
            )
        return self._explain(kept.X, (int(n_coalitions), target_std_error), kept)

    def _explain(self, X: Any, budget: Budget | None, kept: Kept | None) -> Explanation:
        names, players = self._names(X)
        if self._cores:
            self._compare(X)
        imported = self._imported
        model = {"model": imported.kind, "explained": imported.explained}
        run: dict[str, str] = {"riesz": _core.__version__} | self._file_fact()
        if self._cores:
            parts, used_players = self._core_explanations(X, budget, kept), self._used
            model = card_of(imported.parts) | model
            sizes = [len(block) for block in imported.blocks]
            if self._mixture is not None:
                mixed = _core.Explanation.mixed(list(zip(self._mixture, parts)))
                parts, used_players, sizes = [mixed], used_players[:1], [1]
        else:
            parts, used_players, sizes = (
                [self._function_explanation(X, budget, kept)],
                [list(range(len(players)))],
                [1],
            )
        _, absent, _, facts = parts[0].provenance
        if parts[0].sampling is not None:
            run["estimated because"] = (self._sampled_because(budget) if self._cores else self.reason) or ""
        elif not self._cores and imported.refusal is not None:
            run["valued by all coalitions because"] = str(imported.refusal)
        if self._cores and imported.parts[0].expansion._takes_unseen:
            run |= _unseen_fact(parts[0])
        explained_parts = iter(zip(parts, used_players))
        blocks = [list(islice(explained_parts, size)) for size in sizes]
        output_names = self._output_names(sum(len(block[0][0].output_names) for block in blocks))
        explanation = joined(
            blocks,
            players,
            data=as_cells(X),
            column_names=names,
            output_names=output_names,
            provenance={
                "game": self.game.replace("_", "-"),
                "absent": absent,
                "model": model,
                "run": run | dict(facts),
            },
        )
        _warn_of_sparse_background(explanation)
        samples = [part.sample for part in parts if part.sample is not None]
        if len(samples) == len(parts):
            # The user may change X later.
            explanation._kept = Kept(self, copy.deepcopy(X) if kept is None else kept.X, samples)
        return explanation

    def _output_names(self, m: int) -> list[str]:
        """Returns the names of the ``m`` outputs."""
        names = self._imported.output_names or (["y"] if m == 1 else [f"y{o}" for o in range(m)])
        if len(names) != m:
            raise ValueError(f"there are {len(names)} output_names, but the model has {m} outputs")
        return names

    def top_interactions(self, X: Any, k: int = 10, *, max_pairs: int | None = None) -> TopInteractions:
        """Returns the ``k`` strongest pairs of features of each row of ``X``, by the absolute value of an
        ``index`` of pairs (``"k-SII"``, ``"STII"``, ``"FSII"``, ``"SII"``, ``"BII"``, ``"FBII"``,
        ``"Moebius"``). The result is exact for any number of features, with a proved bound on the pairs that
        are left out, where ``explainer(X)`` would list all pairs.

        The search starts with the most promising pairs and ends when no other pair can be among the
        strongest. It ends early if some features matter more than others or if the row is sparse, and takes
        all pairs if all features matter equally. ``max_pairs`` limits the number of pairs that are evaluated
        for a row; :attr:`TopInteractions.left_out` is then a bound on the strength of a missed pair. All
        pairs are evaluated for polynomial kernels of several columns, and for probabilities.

        >>> import numpy as np, riesz
        >>> from riesz.kernels import RBF
        >>> rng = np.random.default_rng(0)
        >>> scales = 2.0 + np.arange(300)
        >>> points, coef = rng.normal(size=(20, 300)), rng.normal(size=20)
        >>> model = riesz.Expansion(RBF(length_scale=scales), points=points, coef=coef)
        >>> found = riesz.Explainer(model, index="k-SII").top_interactions(rng.normal(size=(2, 300)), k=5)
        >>> [len(found.pairs(row)) for row in range(2)], bool(found.complete.all())
        ([5, 5], True)
        """
        if not is_whole(k) or k < 1:
            raise ValueError(f"k = {k!r}: it is a whole number, at least 1")
        if max_pairs is not None and (not is_whole(max_pairs) or max_pairs < 0):
            raise ValueError(f"max_pairs = {max_pairs!r}: it is a whole number, or None")
        imported = self._imported
        if not self._cores:
            raise UnsupportedModelError(
                "the strongest interactions need a model with a known kernel; "
                f"{self.reason or 'a function has none'}"
            )
        if imported.is_sum:
            raise UnsupportedModelError(
                f"a {imported.kind} adds up several models, whose strongest pairs differ from those of the "
                "sum: compute all pairs"
            )
        X = self._select_columns(X, "X")
        players = self._names(X)[1]
        rows = self._model_rows(X, "X")
        games_of_cores = [
            core.top_interactions(
                core_rows,
                min(int(k), MAX_PAIRS),
                None if max_pairs is None else min(int(max_pairs), MAX_PAIRS),
            )
            for core, core_rows in zip(self._cores, rows)
        ]
        n, m = len(as_cells(X)), [len(part.expansion.output_names) for part in imported.parts]
        if n:
            m = [len(games) // n for games in games_of_cores]
        # For each row, the pairs of each core, one output after the other; features in the user's order.
        games_of_row = lambda games, i, m: games[i * m : (i + 1) * m]
        player_pairs = lambda used, pairs: np.sort(np.array(used, dtype=np.int64)[pairs], axis=1)
        interactions_of_row = lambda i: [
            (player_pairs(used, pairs), *numbers)
            for games, used, count in zip(games_of_cores, self._used, m)
            for pairs, *numbers in games_of_row(games, i, count)
        ]
        interactions_by_row = [interactions_of_row(i) for i in range(n)]
        shape = (n,) if sum(m) == 1 else (n, sum(m))
        numbers = lambda field: np.array(
            [[game[field] for game in line] for line in interactions_by_row]
        ).reshape(shape)
        return TopInteractions(
            index=str(self._given["index"]).lower(),
            feature_names=[name for name, _ in players],
            output_names=self._output_names(sum(m)),
            features=[[game[0] for game in line] for line in interactions_by_row],
            values=[[game[1] for game in line] for line in interactions_by_row],
            bound=numbers(2),
            left_out=numbers(3),
            searched=numbers(4),
            complete=numbers(5),
        )

    def _names(self, X: Any) -> tuple[list[str], list[tuple[str, list[int]]]]:
        """Returns the column names of ``X`` and the players, after checking that the columns are the
        model's."""
        has_background_names = names_of(self._background) == self.feature_names and is_numbered(
            self._imported.feature_names
        )
        check_columns(X, self.feature_names, "X", "background" if has_background_names else "model")
        given_names = names_of(X)
        if given_names is None or not is_numbered(self.feature_names):
            return self.feature_names, self._players
        # Neither the model nor the background has names.
        is_single = lambda name, columns: columns == [columns[0]] and name == self.feature_names[columns[0]]
        players = [
            (given_names[columns[0]] if is_single(name, columns) else name, columns)
            for name, columns in self._players
        ]
        for name, times in Counter(name for name, _ in players).items():
            if times > 1:
                raise ValueError(f"the name '{name}' is used twice: rename the group or the column")
        return given_names, players

    def value_bound(self, delta: Any) -> np.ndarray:
        """Returns a bound on the change of any Shapley value of any row, for each output, if no column of the
        row changes by more than ``delta``. It is proved from the norm of the model (Chau et al. 2022, Theorem
        6) and is often far larger than the actual change.

        ``delta`` is one number, or one number per column; a categorical column counts as changed if its level
        differs. The bound exists for bounded kernels, in the baseline, interventional and observational
        games."""
        if not self._cores:
            raise UnsupportedModelError(
                f"the bound needs a model with a known kernel; {self.reason or 'a function has none'}"
            )
        if any(part.transform is not None for part in self._imported.parts):
            raise UnsupportedModelError(
                "the bound is in the model's own columns: explain the pipeline's last step"
            )
        column_changes = np.broadcast_to(
            np.asarray(delta, dtype=np.float64), (len(self.feature_names),)
        ).tolist()
        bounds = iter([core.robustness(column_changes) for core in self._cores])
        if self._mixture is not None:
            return np.average(np.array(list(bounds)), axis=0, weights=self._mixture)
        return np.concatenate(
            [np.sum(list(islice(bounds, len(block))), axis=0) for block in self._imported.blocks]
        )

    def explain_variance(self, X: Any) -> Explanation:
        """Explains the posterior variance of the (latent) function at the rows of ``X``, in squared units of
        the output.

        The value of a coalition S is ``Var(E_b f(x_S, b_-S))``, the posterior variance of the game's value,
        and ``values`` are the Shapley values of that game. ``base_values + values.sum(axis=1)`` is the
        posterior variance at the row (``predict(X, return_std=True)`` gives its square root). A negative
        value reduces the variance: the feature moves the row towards training rows. Exact up to rounding.

        For Gaussian processes and ``Explainer(..., covariance=True)``, in the interventional, baseline and
        marginal-product games. A row costs O((n · b)² · d²) for n training rows and b background rows, so use
        a small background or a baseline."""
        if not self._cores or not self._arguments["covariance"]:
            raise ValueError(
                "explain_variance needs a posterior: explain a Gaussian process, riesz.Explainer(model, "
                "background, covariance=True)"
            )
        if self._mixture is not None:
            raise ValueError(
                "explain_variance needs one posterior, and this is an average of several: explain "
                "model.expansion_"
            )
        X = self._select_columns(X, "X")
        names, players = self._names(X)
        parts = [
            core.explain_variance(core_rows) for core, core_rows in zip(self._cores, self._model_rows(X, "X"))
        ]
        outputs = self._imported.output_names
        if outputs is None:
            outputs = [name.removeprefix("variance of ") for part in parts for name in part.output_names]
        _, absent, _, facts = parts[0].provenance
        model = card_of(self._imported.parts) | {
            "model": self._imported.kind,
            "explained": "posterior variance",
        }
        return joined(
            [[(part, used_players)] for part, used_players in zip(parts, self._used)],
            players,
            data=as_cells(X),
            column_names=names,
            output_names=[f"variance of {name}" for name in outputs],
            provenance={
                "game": self.game.replace("_", "-"),
                "absent": absent,
                "model": model,
                "run": self._file_fact() | dict(facts),
            },
        )

    def _file_fact(self) -> dict[str, str]:
        """Returns the file that the model was read from, with its checksum, if there is one."""
        file = getattr(self._arguments["model"], "_file", None)
        return {"model file": file} if isinstance(file, str) else {}

    def _core_explanations(self, X: Any, budget: Budget | None, kept: Kept | None) -> list[_core.Explanation]:
        samples = [None] * len(self._cores) if kept is None else kept.samples
        rows = self._model_rows(X, "X")
        return [
            core.explain(core_rows, budget, sample)
            for core, core_rows, sample in zip(self._cores, rows, samples)
        ]

    def _function_explanation(self, X: Any, budget: Budget | None, kept: Kept | None) -> _core.Explanation:
        function = self._imported.function
        assert function is not None
        if self._question.estimator == "permutation":
            return permutation_estimates(function, X, self._background, self._question)
        return kernel_shap_values(function, X, self._background, self._question, self.game, budget, kept)

    def _model_rows(self, X: Any, label: str) -> list[np.ndarray]:
        """Returns the user's rows in the columns of each part."""
        rows_by_transform: dict[Any, np.ndarray] = {}
        for part in self._imported.parts:
            if part.transform not in rows_by_transform:
                rows_by_transform[part.transform] = self._part_rows(part, X, label)
        return [rows_by_transform[part.transform] for part in self._imported.parts]

    def _part_rows(self, part: Part, X: Any, label: str) -> np.ndarray:
        if part.transform is None:
            return part.expansion._rows(X, label)
        if not len(as_cells(X)):
            # Transformers need at least one row.
            return np.empty((0, len(part.owners)))
        rows = np.ascontiguousarray(part.transform(X), dtype=np.float64)
        if not np.isfinite(rows).all():
            i, j = np.argwhere(~np.isfinite(rows))[0]
            owner = part.owners[j]
            name = self.feature_names[owner if isinstance(owner, int) else owner[0]]
            raise ValueError(
                f"{label}, row {i} (from 0): column '{name}' becomes {rows[i, j]} in the pipeline: correct it"
            )
        return rows

    def __getstate__(self) -> dict[str, Any]:
        return self._arguments

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __repr__(self) -> str:
        imported = self._imported
        return (
            f"<riesz.Explainer: {imported.explained} of {imported.kind}, {self.game} game, {self.exactness}>"
        )


def _unseen_fact(rows: _core.Explanation) -> dict[str, str]:
    """Returns a fact about the number of cells whose level is unknown to the model; their code is the last
    level of their column."""
    names, levels, numbers = rows.data
    counts = {
        name: np.sum(cells == len(column_levels) - 1)
        for name, column_levels, cells in zip(names, levels, numbers.T)
        if column_levels is not None
    }
    counts_text = [
        f"{count} cell{'' if count == 1 else 's'} of column '{name}'"
        for name, count in counts.items()
        if count
    ]
    return (
        {"unseen categories": f"{', '.join(counts_text)} taken for none of the known categories"}
        if counts_text
        else {}
    )


def _read(model: Any, background: Any, output_names: Sequence[str] | None) -> Imported:
    from .._models.scikit_learn import import_model

    if isinstance(model, Imported):
        imported = model
    elif isinstance(model, Expansion):
        imported = _imported_expansions([model], "output", "expansion", model.predict_link)
    elif is_torch(model):
        imported = read_torch(model)
    elif is_multiplicative(model):
        imported = read_multiplicative(model)
    elif (
        callable(model)
        and not isinstance(model, type)
        and not hasattr(model, "fit")
        and not hasattr(model, "predict")
    ):
        kind = getattr(model, "__qualname__", type(model).__name__)
        refusal = UnsupportedModelError(f"the function {kind} is not known to have a kernel")
        imported = Imported([], "output", [], kind, _classes_of(model), model, refusal)
    else:
        imported = import_model(model)
    if imported.refusal is not None and imported.function is None:
        raise imported.refusal
    if not imported.feature_names and background is not None:
        # Functions, and models without column names.
        width = as_cells(background, "background").shape[1]
        imported = replace(imported, feature_names=numbered(width))
    if output_names is None:
        return imported
    return replace(imported, output_names=[str(name) for name in output_names])


def _logit(model: Any, probabilities: bool) -> Any:
    """Returns the log odds of a classifier as a function of rows."""
    if probabilities:
        raise ValueError("link='logit' explains log-odds, and probabilities=True probabilities: choose one")
    if not hasattr(model, "predict_proba"):
        raise TypeError(
            f"link='logit': a {type(model).__name__} has no predict_proba, whose log-odds they are"
        )
    return log_odds(model)


def _classes_of(function: Any) -> list[str]:
    """Returns the class names of a bound ``predict_proba``; an empty list for other functions."""
    probable = getattr(function, "__name__", None) in ("predict_proba", "predict_log_proba")
    return class_names(getattr(function, "__self__", None)) if probable else []


def _imported_expansions(expansions: list[Expansion], explained: str, kind: str, function: Any) -> Imported:
    """Returns expansions in the user's columns as an imported model."""
    outputs = [name for expansion in expansions for name in expansion.output_names]
    blocks = [[Part.from_expansion(expansion)] for expansion in expansions]
    return Imported(blocks, explained, expansions[0].feature_names, kind, outputs, function)


#: The largest unexplained share of a conditional mean with which intervals are reliable, as in the core.
MAX_UNEXPLAINED = 0.3


def _warn_of_sparse_background(explanation: Explanation) -> None:
    """Warns if few background rows are similar to some rows, so that their intervals are too narrow."""
    if explanation.unexplained_share is None:
        return
    shares = np.reshape(explanation.unexplained_share, (len(explanation.row_numbers), -1))
    count = int((shares > MAX_UNEXPLAINED).any(axis=1).sum())
    if count:
        warnings.warn(
            f"the intervals of {count} rows are too narrow, because few background rows are similar to them "
            f"(explanation.unexplained_share above {MAX_UNEXPLAINED}): take more background rows, or do not "
            "use these intervals",
            stacklevel=4,
        )
