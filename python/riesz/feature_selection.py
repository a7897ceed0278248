"""Feature selection by dependence on a target, with scikit-learn's contract.

>>> import numpy as np
>>> from riesz.feature_selection import SelectHSIC
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(100, 4))
>>> y = X[:, 2] ** 2 + 0.3 * rng.normal(size=100)
>>> SelectHSIC(n_features_to_select=1).fit(X, y).get_support()
array([False, False,  True, False])
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _core
from ._data.parameters import is_whole
from ._data.table_columns import Rows, read
from ._data.types import ColumnChoices, KernelLike, MatrixLike, RandomState
from .discrepancy import _kernels, _same_rows, hsic_test

__all__ = ["SelectHSIC"]


def __dir__() -> list[str]:
    return sorted(__all__)


METHODS = ("shapley", "backward", "lasso")


class SelectHSIC(SelectorMixin, BaseEstimator):
    """Selects the features on which a target depends, by HSIC.

    Parameters
    ----------
    n_features_to_select : int, optional
        Number of selected features. By default all features whose p-value in :func:`riesz.hsic_test`,
        adjusted for the number of features, is at most ``level`` (method ``"shapley"``); there may be none.
    method : {"shapley", "backward", "lasso"}
        The ranking of features:

        - ``"shapley"``: by their exact Shapley values of HSIC, in O(n² d) (Mohammadi, Chau and Muandet 2025,
          §6.2, with ``kernel_factors="product"``).
        - ``"backward"``: by backward elimination, BAHSIC (Song, Smola, Gretton, Bedo and Borgwardt 2012,
          algorithm 1), in O(n² d) for each of about 7 ln d steps.
        - ``"lasso"``: by HSIC-Lasso (Yamada, Jitkrittum, Sigal, Xing and Sugiyama 2014, equation 5), in O(n²
          d²).
    kernel_factors : {"orthogonal", "product"}
        For ``"shapley"``: the factors of the kernel, as for :func:`riesz.mmd_test`. With ``"orthogonal"``
        ones no feature hides another.
    kernel : riesz.kernels.Kernel, optional
        Kernel between rows of X, by default that of :func:`riesz.mmd_test`. Only ``"shapley"`` takes one.
    target_kernel : riesz.kernels.Kernel, optional
        Kernel between targets, likewise; for numeric classes give ``riesz.kernels.Categorical()``.
    level : float, default 0.05
        Probability of selecting any feature if the target depends on none; without ``n_features_to_select``.
    n_permutations : int, default 1000
        Number of draws from the null distribution, in O(n² d) each; without ``n_features_to_select``.
    random_state : int, RandomState or None
        Seed of these draws.
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Attributes
    ----------
    scores_ : array of shape (d,)
        The Shapley value; the step at which the feature was eliminated, from 1 (``"backward"``); or its
        coefficient (``"lasso"``).
    ranking_ : array of shape (d,)
        The rank of each feature, 1 for the most relevant.
    pvalues_, adjusted_pvalues_ : array of shape (d,)
        P-values of the Shapley values; without ``n_features_to_select``.
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        Names of the columns of a data frame.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> selector = riesz.feature_selection.SelectHSIC(n_features_to_select=2)
    >>> selector.fit(X, X[:, 0] + np.abs(X[:, 3])).get_support(indices=True)
    array([0, 3])
    """

    def __init__(
        self,
        n_features_to_select: int | None = None,
        *,
        method: str = "shapley",
        kernel_factors: Literal["orthogonal", "product"] = "orthogonal",
        kernel: KernelLike | None = None,
        target_kernel: KernelLike | None = None,
        level: float = 0.05,
        n_permutations: int = 1000,
        random_state: RandomState = None,
        columns: ColumnChoices | None = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.method = method
        self.kernel_factors = kernel_factors
        self.kernel = kernel
        self.target_kernel = target_kernel
        self.level = level
        self.n_permutations = n_permutations
        self.random_state = random_state
        self.columns = columns

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: MatrixLike, y: ArrayLike) -> SelectHSIC:
        """Ranks the columns of X by their dependence with ``y``.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
        y : array of shape (n,) or (n, targets)
            Numbers or classes.

        Returns
        -------
        SelectHSIC
            The fitted selector.
        """
        if self.method not in METHODS:
            raise ValueError(f"method = {self.method!r}: it is 'shapley', 'backward' or 'lasso'")
        if self.kernel_factors not in ("orthogonal", "product"):
            raise ValueError(f"kernel_factors = {self.kernel_factors!r}: it is 'orthogonal' or 'product'")
        x, target = self._rows(X, y)
        d = x.numbers.shape[1]
        if self.n_features_to_select is None:
            self._test(x, target)
        elif not is_whole(self.n_features_to_select) or not 1 <= self.n_features_to_select <= d:
            raise ValueError(
                f"n_features_to_select = {self.n_features_to_select!r}: X has {d} features, so it is a whole "
                f"number from 1 to {d}, or None"
            )
        else:
            feature_kernels, target_kernels = (
                _kernels(kernel, rows, label)
                for kernel, rows, label in [
                    (self.kernel, x, "kernel"),
                    (self.target_kernel, target, "target_kernel"),
                ]
            )
            order, scores = _core.rank_features(
                x,
                target,
                self.method,
                self.kernel_factors,
                _single_kernel(feature_kernels),
                _single_kernel(target_kernels),
                int(self.n_features_to_select),
            )
            self.scores_ = np.asarray(scores)
            self._rank(np.asarray(order))
            self._support_mask = self.ranking_ <= self.n_features_to_select
        return self

    def _rows(self, X: Any, y: Any) -> tuple[Rows, Rows]:
        if hasattr(X, "columns"):
            # The frame may have categories, which scikit-learn's check of numbers would refuse.
            validate_data(self, X, skip_check_array=True)
        else:
            X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, ensure_min_samples=4)
        if y is None:
            raise ValueError("y is None: features are selected by what a target depends on, so give one")
        x, target = read(X, "X", choices=self.columns), read(y, "y", ["y"])
        _same_rows(target, "y", x)
        return x, target

    def _test(self, x: Rows, target: Rows) -> None:
        if self.method != "shapley":
            raise ValueError(f"method = '{self.method}' has no p-values: give n_features_to_select")
        if not is_whole(self.n_permutations) or self.n_permutations < 1:
            raise ValueError(
                f"n_permutations = {self.n_permutations!r}: for p-values it is a whole number from 1, or "
                "give n_features_to_select"
            )
        if (
            isinstance(self.level, bool)
            or not isinstance(self.level, (int, float, np.number))
            or not 0 < self.level < 1
        ):
            raise ValueError(f"level = {self.level!r}: it is a number between 0 and 1")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        result = hsic_test(
            x,
            target,
            kernel_factors=self.kernel_factors,
            kernel=self.kernel,
            target_kernel=self.target_kernel,
            n_permutations=self.n_permutations,
            random_state=seed,
        )
        assert result.pvalues is not None and result.adjusted_pvalues is not None
        self.scores_, self.pvalues_, self.adjusted_pvalues_ = (
            result.values,
            result.pvalues,
            result.adjusted_pvalues,
        )
        self._rank(np.argsort(-self.scores_, kind="stable"))
        self._support_mask = self.adjusted_pvalues_ <= self.level

    def _rank(self, order: np.ndarray) -> None:
        self.ranking_ = np.empty(len(order), dtype=int)
        self.ranking_[order] = np.arange(1, len(order) + 1)

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return self._support_mask


def _single_kernel(kernels: list[str]) -> str | None:
    if len(kernels) > 1:
        raise ValueError("features are ranked by one kernel: give one, not a list")
    return kernels[0] if kernels else None
