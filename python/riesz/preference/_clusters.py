"""Clusters of comparable items: within a cluster there is a ranking; a duel between clusters is a fair coin.

>>> import numpy as np
>>> import riesz
>>> rng = np.random.default_rng(0)
>>> kind = np.repeat([0, 1], 12)
>>> items = np.column_stack([kind + 0.3 * rng.normal(size=24), rng.normal(size=24)])
>>> left, right = np.triu_indices(24, 1)
>>> sign = np.where(kind[left] == 0, 1, -1)
>>> log_odds = np.where(kind[left] == kind[right], 6 * sign * (items[left, 1] - items[right, 1]), 0)
>>> won = rng.random(len(left)) < 1 / (1 + np.exp(-log_odds))
>>> found = riesz.PreferenceClusters(random_state=0).fit(items, np.column_stack([left, right]), outcome=won)
>>> found.n_clusters_, bool((found.labels_ == kind).all())
(2, True)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .. import _core
from .._data.parameters import check_optimizer, whole_number
from .._data.types import ColumnChoices, KernelLike, MatrixLike, Optimizer, RandomState
from .._data.validation import names_of
from ._duel_contexts import kernel_and_items, rows_of
from ._joint_posterior import seed_of
from ._outcomes import read_outcomes

__all__ = ["PreferenceClusters"]


_METHODS = ("mixture", "generalised", "comparisons", "abstaining", "spectral", "covariates")


class PreferenceClusters(BaseEstimator):
    """Finds clusters of items that can be compared with each other.

    Parameters
    ----------
    n_clusters : int, optional
        Number of clusters. By default the mixture chooses the number with the largest lower bound of its
        evidence, up to ``max_clusters``; other methods need a number.
    method : str
        ``"mixture"`` is a mixture model, fitted by variational inference: every item belongs to a cluster,
        each cluster has its own utility, a Gaussian process, and a duel between clusters is a fair coin. The
        other methods are published, for comparison (Chau 2023, section 6.3):

        - ``"generalised"`` (GPGP-CLUS): k-means of the top singular vectors, two per cluster, of the
          generalised model's log odds;
        - ``"comparisons"`` (SVD-CLUS): the same for the matrix of comparisons;
        - ``"abstaining"`` (PR-CLUS): the same for the winners that a utility model predicts with certainty;
        - ``"spectral"``: spectral clustering by the absolute log odds of the generalised model;
        - ``"covariates"``: k-means of the standardised covariates, without duels.
    max_clusters : int, default 5
    covariates : bool, default True
        Whether the covariates of a cluster have their own mean. If False, the mixture uses duels alone.
    kernel : riesz.kernels.Kernel, optional
        Kernel between items, by default that of :class:`riesz.PreferenceClassifier`.
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps the kernel fixed. By default the generalised and the utility model are tuned, and the
        mixture chooses the scales of utilities and length scales with the largest bound.
    n_init : int, default 12
        Number of random starts of the mixture, besides those from covariates and the generalised model.
    threshold : float, default 0.1
        For ``"abstaining"``: pairs whose probability is within this distance of one half are left out.
    n_subsamples : int, default 0
        Number of subsamples of 80 % of the pairs for ``stability_``.
    random_state : int, RandomState or None
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Attributes
    ----------
    labels_ : array (items,)
    probabilities_ : array (items, clusters)
        Probabilities of membership, averaged over the local maxima of the bound; 0 or 1 for methods other
        than the mixture. For more than 100 items they are those of the mean-field approximation, which is
        overconfident.
    n_clusters_ : int
    bound_ : float or None
        For the mixture: the lower bound of the log evidence, minus half the logarithm of the number of items
        for each fitted mean and share.
    bounds_ : dict
        This bound by number of clusters.
    sweeps_ : array
        The bound after each sweep of the best run; it never decreases.
    covariates_labels_ : array (items,)
        The same number of clusters by k-means of the covariates alone. A method that is not better has learnt
        nothing from duels.
    stability_ : float or None
        Mean adjusted Rand index between these clusters and those of subsamples.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> items = np.repeat([[0.0, 0.0], [3.0, 0.0]], 6, axis=0) + 0.1 * np.arange(12)[:, None]
    >>> left, right = np.triu_indices(12, 1)
    >>> model = riesz.PreferenceClusters(2, random_state=0)
    >>> model.fit_predict(items, np.column_stack([left, right]), outcome=left % 3 == 0).shape
    (12,)
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        method: str = "mixture",
        max_clusters: int = 5,
        covariates: bool = True,
        kernel: KernelLike | None = None,
        optimizer: Optimizer = "fmin_l_bfgs_b",
        n_init: int = 12,
        threshold: float = 0.1,
        n_subsamples: int = 0,
        random_state: RandomState = None,
        columns: ColumnChoices | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.method = method
        self.max_clusters = max_clusters
        self.covariates = covariates
        self.kernel = kernel
        self.optimizer = optimizer
        self.n_init = n_init
        self.threshold = threshold
        self.n_subsamples = n_subsamples
        self.random_state = random_state
        self.columns = columns

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = "clusterer"
        tags.input_tags.string = True
        return tags

    def fit(
        self,
        items: MatrixLike,
        duels: MatrixLike,
        *,
        outcome: Any = None,
        scores: Any = None,
        wins: Any = None,
        missing: str = "error",
        sample_weight: Any = None,
    ) -> PreferenceClusters:
        """Clusters the rows of ``items``.

        Parameters
        ----------
        items : array or data frame of shape (items, d)
        duels, outcome, scores, wins, missing, sample_weight
            As in :meth:`riesz.PreferenceClassifier.fit`.

        Returns
        -------
        PreferenceClusters
            The fitted model.
        """
        if self.method not in _METHODS:
            raise ValueError(f"method = {self.method!r}: it is one of {', '.join(map(repr, _METHODS))}")
        check_optimizer(self.optimizer)
        text, table = kernel_and_items(items, self.kernel, self.columns)
        outcomes = read_outcomes(duels, outcome, sample_weight, scores, wins, missing)
        core_duels = outcomes.to_core(*rows_of(items, duels, len(table[2])))
        labels, probabilities, bounds, sweeps, covariate_labels, stability = _core.cluster_preferences(
            text,
            table,
            core_duels,
            self.method,
            None if self.n_clusters is None else whole_number("n_clusters", self.n_clusters, 1),
            whole_number("max_clusters", self.max_clusters, 1),
            bool(self.covariates),
            whole_number("n_init", self.n_init, 0),
            float(self.threshold),
            whole_number("n_subsamples", self.n_subsamples, 0),
            self.optimizer is not None,
            seed_of(self.random_state),
        )
        self.labels_ = np.array(labels)
        self.probabilities_ = probabilities
        self.n_clusters_ = probabilities.shape[1]
        self.bounds_ = dict(bounds)
        self.bound_ = self.bounds_.get(self.n_clusters_)
        self.sweeps_ = np.array(sweeps)
        self.covariates_labels_ = np.array(covariate_labels)
        self.stability_ = stability
        self.n_features_in_ = table[2].shape[1]
        if names_of(items) is not None:
            self.feature_names_in_ = np.array(table[0], dtype=object)
        return self

    def fit_predict(self, items: MatrixLike, duels: MatrixLike, **fit_arguments: Any) -> np.ndarray:
        """Clusters the rows of ``items``, and returns their clusters.

        Parameters
        ----------
        items, duels, **fit_arguments
            As in :meth:`fit`.

        Returns
        -------
        array of shape (items,)
            ``labels_``.
        """
        return self.fit(items, duels, **fit_arguments).labels_
