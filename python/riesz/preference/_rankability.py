"""Rankability: the posterior of a ranking under a fitted :class:`riesz.PreferenceClassifier`, and measures of
duels alone.

>>> import numpy as np
>>> import riesz
>>> from riesz.preference import rankability
>>> angle = np.linspace(0, 2 * np.pi, 12, endpoint=False)
>>> # Each item beats those less than half a turn behind it.
>>> items = np.column_stack([np.cos(angle), np.sin(angle)])
>>> duels = [(i, (i - k) % 12) for i in range(12) for k in (1, 2, 3, 4)]
>>> model = riesz.PreferenceClassifier(kernel=riesz.kernels.RBF([1.0, 1.0])).fit(items, duels)
>>> found = rankability(model, items, random_state=0)
>>> bool(found.cyclic_share > 0.9)  # No utility explains this.
True
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import _core
from .._data.parameters import check_optimizer, whole_number
from .._data.table_columns import ColumnTypes
from ._bradley_terry import ABILITIES
from ._classifier import PreferenceClassifier
from ._duel_contexts import HOME, ID, UNSEEN, codes_of_names, kernel_and_items, labels_of, pairs_of, rows_of
from ._outcomes import read_outcomes

__all__ = ["Evidence", "Rankability", "SpecR", "compare_models", "rankability", "spec_r"]


@dataclass(frozen=True, repr=False)
class Rankability:
    """The posterior of a ranking. Intervals and probabilities come from ``n_samples`` joint draws of all log
    odds."""

    #: Labels of the items, as in the index of a data frame, or numbers of rows.
    items: list
    #: The utilities: posterior means of each item's mean log odds against all items, the best fit to log
    #: odds.
    utility: np.ndarray
    #: The credible intervals of the utilities, (items, 2).
    utility_interval: np.ndarray
    #: The ranks by ``utility``; 1 is the best.
    rank: np.ndarray
    #: The credible intervals of the ranks, (items, 2).
    rank_interval: np.ndarray
    #: The probability of each item to be the best.
    probability_best: np.ndarray
    #: The share of the squared log odds, at their posterior mean, that no utility explains: 0 for differences
    #: of utilities, 1 for rock, paper and scissors. It is near 1/3 for an order in which everyone beats all
    #: lower items by the same log odds; ``cycles`` distinguish orders.
    cyclic_share: float
    #: The lower end, median and upper end of this share over draws. If the data are few, the posterior
    #: includes cycles that its mean does not have.
    cyclic_share_interval: np.ndarray
    #: The most probable cycles of three items, each of which beats the next, with their probabilities.
    cycles: list[tuple[tuple, float]]
    #: The posterior probability of the intervals.
    level: float
    n_samples: int

    def elo(self, mean: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns the utilities on the Elo scale with their credible intervals, as ``riesz prefer rank``
        does.

        A unit of log odds is 400 / ln 10 points, so a difference of 400 points means odds of 10 to 1.
        Utilities sum to 0, so ``mean`` is the mean rating of the ranked items.

        Parameters
        ----------
        mean : float, default 1500

        Returns
        -------
        rating : array of shape (items,)
        interval : array of shape (items, 2)

        Examples
        --------
        >>> import riesz
        >>> duels = [("ann", "bob")] * 3 + [("bob", "ann")] + [("bob", "cleo")] * 2 + [("cleo", "bob")]
        >>> model = riesz.PreferenceClassifier("bradley_terry").fit(None, duels)
        >>> rating, interval = rankability(model, random_state=0).elo()
        >>> round(float(rating.mean()))
        1500
        >>> bool((interval[:, 0] < rating).all() and (rating < interval[:, 1]).all())
        True
        """
        points, usual_mean = _core.elo_scale()
        anchor = usual_mean if mean is None else float(mean)
        return anchor + points * self.utility, anchor + points * self.utility_interval

    def to_frame(self, elo_mean: float | None = None) -> Any:
        """Returns a ``pandas.DataFrame``, one line per item, the best first, with the columns of ``riesz
        prefer rank``; ``elo_mean`` as for :meth:`elo`."""
        import pandas as pd

        rating, interval = self.elo(elo_mean)
        columns = {
            "item": self.items,
            "rank": self.rank,
            "rank_low": self.rank_interval[:, 0],
            "rank_high": self.rank_interval[:, 1],
            "utility": self.utility,
            "utility_low": self.utility_interval[:, 0],
            "utility_high": self.utility_interval[:, 1],
            "elo": rating,
            "elo_low": interval[:, 0],
            "elo_high": interval[:, 1],
            "probability_best": self.probability_best,
        }
        frame = pd.DataFrame(columns)
        return frame.sort_values("rank", kind="stable").reset_index(drop=True)

    def __repr__(self) -> str:
        best = self.items[int(np.argmin(self.rank))]
        share = f"cyclic share {self.cyclic_share:.3g}"
        return f"<riesz.Rankability: {len(self.items)} items, best {best}, {share}, {self.n_samples} samples>"

    def _repr_html_(self) -> str:
        shown = ["item", "rank", "rank_low", "rank_high", "elo", "elo_low", "elo_high", "probability_best"]
        table = self.to_frame()[shown].head(30)
        formats = {name: "{:.0f}".format for name in ("elo", "elo_low", "elo_high")}
        formats["probability_best"] = "{:.3f}".format
        omitted = len(self.items) - len(table)
        omitted_text = f"<p>… and {omitted} more</p>" if omitted else ""
        table_text = table.to_html(index=False, formatters=formats)
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{table_text}{omitted_text}"

    def __str__(self) -> str:
        low, middle, high = self.cyclic_share_interval
        lines = [
            f"cyclic share of the posterior mean {self.cyclic_share:.3g}, of draws {middle:.3g} ({low:.3g} "
            f"to {high:.3g})",
            *(
                f"{self.rank[i]:4d} ({self.rank_interval[i][0]} to {self.rank_interval[i][1]})  "
                f"{self.items[i]}  "
                f"{self.utility[i]:.2f} ({self.utility_interval[i][0]:.2f} to "
                f"{self.utility_interval[i][1]:.2f})"
                for i in np.argsort(self.rank, kind="stable")
            ),
            *(
                f"{a} beats {b} beats {c} beats {a}: {probability:.3g}"
                for (a, b, c), probability in self.cycles
            ),
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Evidence:
    """Log marginal likelihoods of the same duels under three models, each with tuned hyper-parameters."""

    #: Of the sum of a utility and a generalised part.
    nested: float
    #: Of a utility alone, which implies a ranking.
    utility: float
    #: Of the generalised part alone.
    generalized: float

    @property
    def log_bayes_factor_cyclic(self) -> float:
        """The log Bayes factor of the nested model against a utility alone: negative if a ranking
        suffices."""
        return self.nested - self.utility


@dataclass(frozen=True, repr=False)
class SpecR:
    """SpecR, and its reference values on the same comparison graph with random outcomes. It mostly measures
    which items met."""

    #: SpecR of the duels; 1 for a perfect ranking of items that have all met.
    value: float
    #: Its mean and standard deviation for perfect rankings in random order.
    perfect_ranking_mean: float
    perfect_ranking_std: float
    #: Its mean and standard deviation for outcomes of fair coins.
    random_mean: float
    random_std: float
    #: Average clustering of the comparison graph, which does not depend on outcomes.
    average_clustering: float
    n_samples: int

    def __repr__(self) -> str:
        return (
            f"<riesz.SpecR: {self.value:.3f}; a perfect ranking has {self.perfect_ranking_mean:.3f} ± "
            f"{self.perfect_ranking_std:.3f}, random outcomes {self.random_mean:.3f} ± {self.random_std:.3f}>"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("these duels", self.value, ""),
            ("a perfect ranking", self.perfect_ranking_mean, f" ± {self.perfect_ranking_std:.3f}"),
            ("random outcomes", self.random_mean, f" ± {self.random_std:.3f}"),
        ]
        cells = "".join(f"<tr><td>{name}</td><td>{value:.3f}{error}</td></tr>" for name, value, error in rows)
        return f"<table><thead><tr><th></th><th>SpecR</th></tr></thead><tbody>{cells}</tbody></table>"


def rankability(
    model: PreferenceClassifier,
    items: Any = None,
    *,
    n_samples: int = 512,
    level: float = 0.95,
    n_cycles: int = 10,
    random_state: Any = None,
) -> Rankability:
    """Returns the posterior of a ranking of ``items`` under a fitted model, by default of the items of the
    fit; other items need not have duels. The model "bradley_terry" always ranks all items of the fit.

    The log odds of all pairs are split into differences of a utility, each item's mean, and a cyclic residual
    (Jiang, Lim, Yao and Ye 2011), for the posterior mean and for ``n_samples`` joint draws. The cost is
    O(items³) per draw. No item is at home. Intervals are quantiles of draws, extended to the estimate if it
    lies outside."""
    check_is_fitted(model)
    draws, seed = whole_number("n_samples", n_samples, 2), _seed(random_state)
    further = {"contexts": model._contexts, "landmarks": model._function}
    unsupported = [name for name, value in further.items() if value is not None]
    if model.model == "linear" or unsupported:
        description = model.model if model.model in ABILITIES else " and ".join(unsupported)
        raise ValueError(
            f"rankability takes a process between items alone, and this model has {description}: fit one "
            f"without"
        )
    if model.model == "bradley_terry":
        if items is not None:
            raise ValueError(
                "items: a model of abilities ranks all items that it was fitted to: leave them out"
            )
        places, share, interval, circles = _core.rank_abilities(
            model.expansion_._with_posterior(), draws, float(level), seed
        )
        labels: list[Any] = [label for label, value in model.abilities_.items() if value == value]
    else:
        if not hasattr(model, "kernel_"):
            raise ValueError(
                "rankability needs the prior of the model, which files do not hold: fit it again; models of "
                "abilities ('bradley_terry') can be ranked from files"
            )
        items = model._background if items is None else model._items_of_names(items, "items")
        rows = model._items(items, "items")
        names, levels = model._item_columns()
        further_columns: list[tuple[int, float, bool]] = []
        if model._has_home:
            further_columns.append((names.index(HOME), model.home_variance_, False))
            rows = np.hstack([rows, np.zeros((len(rows), 1))])
        if model._ids is not None:
            called = labels_of(items)
            if called is None:
                raise ValueError("ability=True: say who the items are, by the index of a data frame")
            further_columns.append((names.index(ID), model.ability_variance_, True))
            rows = np.hstack([rows, codes_of_names(called, model._ids, UNSEEN)])
        places, share, interval, circles = _core.rank_preferences(
            model.expansion_._core,
            model.kernel_._to_json(model._names, model._levels),
            [model.utility_variance_, model.generalized_variance_],
            further_columns,
            (list(names), list(levels), np.ascontiguousarray(rows)),
            draws,
            float(level),
            whole_number("n_cycles", n_cycles, 0),
            seed,
        )
        index = getattr(items, "index", None)
        labels = list(range(len(rows))) if index is None or callable(index) else list(index)
    utility, utility_interval, rank, rank_interval, best = (np.array(part) for part in zip(*places))
    return Rankability(
        items=labels,
        utility=utility,
        utility_interval=utility_interval,
        rank=rank,
        rank_interval=rank_interval,
        probability_best=best,
        cyclic_share=share,
        cyclic_share_interval=np.array(interval),
        cycles=[(tuple(labels[i] for i in three), probability) for three, probability in circles],
        level=float(level),
        n_samples=int(n_samples),
    )


def compare_models(
    items: Any,
    duels: Any,
    *,
    outcome: Any = None,
    scores: Any = None,
    wins: Any = None,
    missing: str = "error",
    sample_weight: Any = None,
    kernel: Any = None,
    optimizer: str | None = "fmin_l_bfgs_b",
    n_restarts_optimizer: int = 0,
    random_state: Any = None,
    columns: ColumnTypes | None = None,
) -> Evidence:
    """Fits the nested, the utility and the generalised model to the same duels, given as in
    :meth:`riesz.PreferenceClassifier.fit`, and returns their log marginal likelihoods. ``columns`` are types
    of columns of a data frame, ``{"zip": "text"}``, where the detected type is wrong."""
    check_optimizer(optimizer)
    text, table = kernel_and_items(items, kernel, columns)
    outcomes = read_outcomes(duels, outcome, sample_weight, scores, wins, missing)
    core_duels = outcomes.to_core(*rows_of(items, duels, len(table[2])))
    restarts = whole_number("n_restarts_optimizer", n_restarts_optimizer, 0)
    return Evidence(
        *_core.compare_preferences(
            text, table, core_duels, optimizer is not None, restarts, _seed(random_state)
        )
    )


def spec_r(
    duels: Any,
    *,
    outcome: Any = None,
    scores: Any = None,
    wins: Any = None,
    missing: str = "error",
    sample_weight: Any = None,
    items: Any = None,
    n_samples: int = 40,
    random_state: Any = None,
) -> SpecR:
    """Returns SpecR (Cameron, Langville and Smith 2020) and the average clustering of the comparison graph,
    with reference values.

    SpecR is ``1 - (H(λ(L), {0 … N-1}) + H(deg⁺, {0 … N-1})) / 2(N-1)``. A (N × N) is the matrix of shares of
    wins, deg⁺ its row sums, ``L = diag(deg⁺) - A`` with eigenvalues λ(L), and H the Hausdorff distance.
    ``items``, as for :meth:`riesz.PreferenceClassifier.fit`, includes items without duels; by default items
    are those of the duels. The cost is about 10 N³ for each of 2 ``n_samples`` + 1 graphs."""
    outcomes = read_outcomes(duels, outcome, sample_weight, scores, wins, missing)
    if items is None:
        pairs = pairs_of(duels)
        labels, places = np.unique(pairs.astype(str) if pairs.dtype == object else pairs, return_inverse=True)
        count, duels = len(labels), places.reshape(np.shape(pairs))
        left, right = rows_of(None, duels, count)
    else:
        count = len(items)
        left, right = rows_of(items, duels, count)
    core_duels = outcomes.to_core(left, right)
    value, ranking, coins, clustering = _core.spec_r(
        count, core_duels, whole_number("n_samples", n_samples, 2), _seed(random_state)
    )
    return SpecR(value, *ranking, *coins, clustering, int(n_samples))


def _seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))
