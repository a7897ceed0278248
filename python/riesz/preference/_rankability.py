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

from .. import _core
from .._data.parameters import check_optimizer, positive_number, whole_number
from .._data.table_columns import ColumnTypes
from ._classifier import PreferenceClassifier
from ._duel_contexts import Contexts, NameList, kernel_and_items, pairs_of, rows_of
from ._duel_tables import read_duel_table
from ._joint_posterior import JointPosterior, seed_of
from ._known_items import KnownItems
from ._outcomes import read_outcomes

__all__ = ["Evidence", "Rankability", "SpecR", "compare_models", "rankability", "spec_r"]


@dataclass(frozen=True, repr=False)
class Rankability:
    """The posterior of a ranking. Intervals of utilities are those of normal posteriors; ranks and
    probabilities come from ``n_samples`` joint draws of the utilities."""

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
    #: The probability of each item to be the best. It need not be largest for the item of rank 1: an
    #: uncertain utility exceeds the others more often.
    probability_best: np.ndarray
    #: The probability of each item to be the Condorcet winner, which beats each other item with a probability
    #: above one half. With cycles there may be no such item, so they add up to at most 1. Without cycles they
    #: equal ``probability_best``.
    probability_condorcet: np.ndarray
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
    #: The number of draws for ranks and ``probability_best``.
    n_samples: int
    #: The number of joint draws of all log odds, for ``cyclic_share_interval``, ``cycles`` and
    #: ``probability_condorcet``; 0 for models without cycles.
    n_cycle_samples: int = 0

    @property
    def probability_best_std_error(self) -> np.ndarray:
        """The standard errors of ``probability_best`` due to the number of draws."""
        return np.sqrt(self.probability_best * (1 - self.probability_best) / self.n_samples)

    @property
    def probability_condorcet_std_error(self) -> np.ndarray:
        """The standard errors of ``probability_condorcet`` due to the number of draws."""
        p = self.probability_condorcet
        return np.sqrt(p * (1 - p) / (self.n_cycle_samples or self.n_samples))

    def elo(self, mean: float = 1500.0, *, scale: float = 400.0) -> tuple[np.ndarray, np.ndarray]:
        """Returns the utilities on the Elo scale with their credible intervals, in the order of ``items``, as
        ``riesz prefer rank`` does; :meth:`to_frame` has them beside the names.

        A difference of ``scale`` points means odds of 10 to 1, so a unit of log odds is ``scale / ln 10``
        points. Utilities sum to 0, so ``mean`` is the mean rating of the ranked items.

        Parameters
        ----------
        mean : float, default 1500
        scale : float, default 400

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
        points = positive_number("scale", scale) / np.log(10)
        return mean + points * self.utility, mean + points * self.utility_interval

    def to_frame(self, elo_mean: float = 1500.0) -> Any:
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
            "probability_best_std_error": self.probability_best_std_error,
            "probability_condorcet": self.probability_condorcet,
            "probability_condorcet_std_error": self.probability_condorcet_std_error,
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
    """Log marginal likelihoods of the same duels under several models, each with tuned hyper-parameters."""

    #: Of the sum of a utility and a generalised part; this and the next two are None for items without
    #: properties.
    nested: float | None
    #: Of a utility alone, which implies a ranking.
    utility: float | None
    #: Of the generalised part alone.
    generalized: float | None
    #: Of a utility for each user; this and the next one are None without users.
    per_user: float | None = None
    #: Of one utility for all users.
    shared: float | None = None
    #: The conclusions as sentences, about cycles and about users.
    verdicts: tuple[str, ...] = ()

    @property
    def log_bayes_factor_cyclic(self) -> float | None:
        """The log Bayes factor of the nested model against a utility alone: negative if a ranking
        suffices."""
        return None if self.nested is None or self.utility is None else self.nested - self.utility

    @property
    def log_bayes_factor_users(self) -> float | None:
        """The log Bayes factor of a utility per user against one for all: negative if users do not
        differ."""
        return None if self.per_user is None or self.shared is None else self.per_user - self.shared

    def __str__(self) -> str:
        return "\n".join(self.verdicts)


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
    users: Any = None,
    contexts: Any = None,
    n_samples: int | None = None,
    level: float = 0.95,
    n_cycles: int = 10,
    random_state: Any = None,
) -> Rankability:
    """Returns the posterior of a ranking of ``items`` under a model that was fitted or loaded.

    The log odds of all pairs are split into differences of a utility, each item's mean, and a cyclic residual
    (Jiang, Lim, Yao and Ye 2011). No item is at home.

    Parameters
    ----------
    model : PreferenceClassifier
        A model with a posterior: not one through landmarks.
    items : array or data frame, optional
        The items, or labels of items of the fit; by default all items of the fit. Other items need not have
        duels.
    users, contexts
        For a model with users or contexts: the user, or the context (one row), for which items are ranked.
    n_samples : int, optional
        The number of joint draws. By default 10,000 of the utilities, or fewer for more than 1,000 items, and
        512 of all pairs, for cycles, each of which costs O(items³).
    level : float, default 0.95
        The posterior probability of intervals.
    n_cycles : int, default 10
        The number of cycles to return.
    random_state : int, RandomState or None

    Returns
    -------
    Rankability
        Intervals of ranks are extended to the estimate if it lies outside.

    Examples
    --------
    >>> import riesz
    >>> votes = [("ann", "bob")] * 3 + [("bob", "cleo")] * 3 + [("ann", "cleo")]
    >>> model = riesz.PreferenceClassifier("bradley_terry").fit(None, votes)
    >>> rankability(model, random_state=0).to_frame().item.tolist()
    ['ann', 'bob', 'cleo']
    """
    posterior = JointPosterior.of_model(model, items, users, contexts, "rankability")
    labels = posterior.labels
    places, share, interval, circles, (draws, cycle_draws) = _core.rank_preferences(
        *posterior.to_core(),
        None if n_samples is None else whole_number("n_samples", n_samples, 2),
        float(level),
        whole_number("n_cycles", n_cycles, 0),
        seed_of(random_state),
    )
    utility, utility_interval, rank, rank_interval, best, condorcet = map(np.array, zip(*places))
    return Rankability(
        items=labels,
        utility=utility,
        utility_interval=utility_interval,
        rank=rank,
        rank_interval=rank_interval,
        probability_best=best,
        probability_condorcet=condorcet,
        cyclic_share=share,
        cyclic_share_interval=np.array(interval),
        cycles=[(tuple(labels[i] for i in three), probability) for three, probability in circles],
        level=float(level),
        n_samples=draws,
        n_cycle_samples=cycle_draws,
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
    users: Any = None,
    kernel: Any = None,
    optimizer: str | None = "fmin_l_bfgs_b",
    n_restarts_optimizer: int = 0,
    random_state: Any = None,
    columns: ColumnTypes | None = None,
) -> Evidence:
    """Compares models of the same duels by their log marginal likelihoods: whether there are cycles, and with
    ``users`` whether the users (judges) differ.

    Items with properties are fitted by the nested, the utility and the generalised model. With ``users`` a
    utility for each user, which have a tuned part in common, is compared with one utility for all.

    Parameters
    ----------
    items : array or data frame, or None
        None if duels between names are all that is known, which needs ``users``.
    duels, outcome, scores, wins, missing, sample_weight, users
        As in :meth:`riesz.PreferenceClassifier.fit`.
    kernel, optimizer, n_restarts_optimizer, random_state
        As for :class:`riesz.PreferenceClassifier`.
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Returns
    -------
    Evidence
        ``print`` shows the conclusions. A log Bayes factor of 1 is evidence, one of 3 strong evidence (Kass
        and Raftery 1995), as if tuned parameters were known.

    Examples
    --------
    >>> votes = [("a", "b"), ("b", "c"), ("a", "c")] * 12 + [("b", "a"), ("c", "b"), ("c", "a")] * 12
    >>> judges = ["ann"] * 36 + ["bob"] * 36
    >>> print(compare_models(None, votes, users=judges))  # doctest: +ELLIPSIS
    users differ: the log Bayes factor of a utility per user against one for all is ...
    """
    check_optimizer(optimizer)
    arguments = {
        "outcome": outcome,
        "scores": scores,
        "wins": wins,
        "sample_weight": sample_weight,
        "users": users,
    }
    duels, read = read_duel_table(duels, None, **arguments)
    if items is None and read["users"] is None:
        raise ValueError("items = None: models of names alone are compared by users: give users, or items")
    items = NameList.of_duels(duels) if items is None else items
    text, table = kernel_and_items(items, kernel, columns)
    names_only = isinstance(items, NameList)
    has_abilities = names_only or optimizer is not None
    names = KnownItems.of_fit(items, table[2]).names if has_abilities else None
    outcomes = read_outcomes(
        duels, read["outcome"], read["sample_weight"], read["scores"], read["wins"], missing
    )
    left, right = rows_of(items, duels, len(table[2]))
    contexts = None
    if read["users"] is not None:
        context_columns, cells = Contexts.read(None, read["users"], len(left))
        cells = np.ascontiguousarray(cells[outcomes.rows])
        contexts = (None, (context_columns.names, context_columns.levels, cells))
    circumstances = {
        "home": None,
        "names": names,
        "contexts": contexts,
        "members": None,
        "ties": False,
        "bound": False,
    }
    cycles, of_users = _core.compare_preferences(
        None if names_only else text,
        table,
        outcomes.to_core(left, right),
        circumstances,
        optimizer is not None,
        whole_number("n_restarts_optimizer", n_restarts_optimizer, 0),
        seed_of(random_state),
    )
    nested, utility, generalized = (None, None, None) if cycles is None else cycles[0]
    per_user, shared = (None, None) if of_users is None else of_users[0]
    verdicts = tuple(part[1] for part in (cycles, of_users) if part is not None)
    return Evidence(nested, utility, generalized, per_user, shared, verdicts)


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
        count, core_duels, whole_number("n_samples", n_samples, 2), seed_of(random_state)
    )
    return SpecR(value, *ranking, *coins, clustering, int(n_samples))
