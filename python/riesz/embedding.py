"""Conditional mean embeddings: expectations ``E[f(Y) | X = x]`` of any function f of Y, with their
uncertainty.

>>> import numpy as np, riesz
>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(-2, 2, size=(200, 1))
>>> Y = X + 0.3 * rng.normal(size=(200, 1))
>>> embedding = riesz.ConditionalMean().fit(X, Y)
>>> mean, std = embedding.expectation(lambda y: y[:, 0] ** 2, [[1.0]], return_std=True)
>>> bool(abs(mean[0] - 1.09) < 3 * std[0] < 0.5)
True
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from . import _core
from . import kernels as rk
from ._data.parameters import check_optimizer, issue_warnings, positive_number, whole_number
from ._data.table_columns import Rows, read
from ._data.types import ColumnChoices, KernelLike, MatrixLike, Optimizer, PositiveOrAuto
from ._data.validation import as_numbers, collected, is_numbered, select_columns
from ._models.kernel_expressions import as_kernel

__all__ = ["ConditionalMean"]


#: Number of rows whose standard deviations are computed at a time.
_AT_ONCE = 1000


def __dir__() -> list[str]:
    return sorted(__all__)


class ConditionalMean(BaseEstimator):
    """The conditional mean embedding of Y given X, as a Gaussian process (BayesCME; Chau, Ton, González, Teh
    and Sejdinovic 2021).

    The weights ``w(x)`` of the training rows are those of kernel ridge regression. For a function f of Y,
    ``E[f(Y) | X = x]`` is the sum of ``w_i(x) f(y_i)``. Its variance is ``R(x, x)`` times the variance of f,
    where R is the posterior covariance of a Gaussian process with kernel ``scale * kernel_x``.

    Parameters
    ----------
    kernel_x : str or riesz.kernels.Kernel, optional
        Kernel of X, at which tuning starts. The default is a Gaussian with the columns' standard deviations
        as length scales, times a factor for each column of categories. An expression such as
        ``"gaussian"`` has the median distance as length scale.
    kernel_y : str or riesz.kernels.Kernel, optional
        Kernel of Y, which decides how rows of Y are compared by tuning and by :meth:`mmd`. The default is a
        Gaussian of the standardised columns with the median distance as length scale.
    ridge : float or "auto", default "auto"
        The ridge, which is multiplied by the number of rows.
    scale : float or "auto", default "auto"
        Factor of the prior covariance. ``"auto"`` maximises the marginal likelihood; the published one is 1.
    centered : bool, default True
        Whether the mean embedding of all rows is subtracted before the regression and added afterwards. The
        weights then add up to 1, and constants are their own expectations without uncertainty. The published
        embedding is not centered.
    optimizer : "fmin_l_bfgs_b" or None
        Maximises the marginal likelihood over the length scales of ``kernel_x`` and the ridge, under weakly
        informative priors. ``None`` keeps ``kernel_x``; then ``ridge="auto"`` is the ridge that best predicts
        left-out rows.
    columns : dict of name to {"text", "number"}, optional
        Types of columns of the data frame X, where the detected type is wrong.

    Attributes
    ----------
    kernel_x_, kernel_y_ : riesz.kernels.Kernel
    ridge_, scale_ : float
    log_evidence_ : float
        The log marginal likelihood of one direction of Y, at the best scale. Differences compare kernels of X
        and ridges for the same Y and ``kernel_y``.
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        Names of the columns of X.
    warnings_ : list of str
        Texts of the issued warnings.

    Notes
    -----
    The fit takes n³ operations for n rows, and tuning some tens of times as many for up to 1,000 rows. The
    published marginal likelihood gives all directions of Y the same weight, so it does not depend on Y;
    :doc:`/background/errata` has the details. Here each direction counts by its size.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(100, 1))
    >>> Y = np.sin(X) + 0.1 * rng.normal(size=(100, 1))
    >>> embedding = riesz.ConditionalMean().fit(X, Y)
    >>> bool(abs(embedding.expectation(Y[:, 0], [[1.0]])[0] - np.sin(1.0)) < 0.1)
    True
    >>> embedding.weights([[0.0], [1.0]]).shape
    (2, 100)
    """

    def __init__(
        self,
        kernel_x: KernelLike | None = None,
        kernel_y: KernelLike | None = None,
        *,
        ridge: PositiveOrAuto = "auto",
        scale: PositiveOrAuto = "auto",
        centered: bool = True,
        optimizer: Optimizer = "fmin_l_bfgs_b",
        columns: ColumnChoices | None = None,
    ) -> None:
        self.kernel_x = kernel_x
        self.kernel_y = kernel_y
        self.ridge = ridge
        self.scale = scale
        self.centered = centered
        self.optimizer = optimizer
        self.columns = columns

    def fit(self, X: MatrixLike, Y: MatrixLike) -> ConditionalMean:
        """Fits the embedding.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
            The rows to condition on. An array with one dimension is one column, here and in ``Y``.
        Y : array or data frame of shape (n, e)
            The rows whose distribution is embedded.

        Returns
        -------
        ConditionalMean
            The fitted embedding.
        """
        check_optimizer(self.optimizer)
        choice = lambda name: (
            None
            if isinstance(getattr(self, name), str) and getattr(self, name) == "auto"
            else positive_number(name, getattr(self, name), " or 'auto'")
        )
        x, y = read(X, "X", choices=self.columns), read(Y, "Y")
        settings = {
            "kernel_x": _start_kernel(self.kernel_x, "kernel_x", x),
            "kernel_y": _start_kernel(self.kernel_y, "kernel_y", y),
            "ridge": choice("ridge"),
            "scale": choice("scale"),
            "centered": bool(self.centered),
            "tune": self.optimizer is not None,
        }
        core = _core.ConditionalMeanModel(x, y, settings)
        self._core, self._x, self._y, self._given_y = core, x, y, collected(Y)
        kernel_x, kernel_y = core.kernels
        self._settings = {
            "kernel_x": kernel_x,
            "kernel_y": kernel_y,
            "ridge": core.ridge,
            "scale": core.scale,
            "centered": bool(self.centered),
            "tune": False,
        }
        self.kernel_x_, self.kernel_y_ = rk._from_json(kernel_x, x.names), rk._from_json(kernel_y, y.names)
        self.ridge_, self.scale_, self.log_evidence_ = core.ridge, core.scale, core.log_evidence
        self.n_features_in_ = len(x.names)
        if not is_numbered(x.names):
            self.feature_names_in_ = np.array(x.names, dtype=object)
        self.warnings_ = issue_warnings(self, [], core.warnings)
        return self

    def weights(self, X: MatrixLike) -> np.ndarray:
        """Returns the weights of the training rows in expectations. They may be negative.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)

        Returns
        -------
        array of shape (rows, n)
        """
        return self._fitted().weights(self._rows(X, "X"))

    def expectation(
        self,
        f: ArrayLike | Callable[[Any], ArrayLike] | Any,
        X: MatrixLike,
        return_std: bool = False,
        return_cov: bool = False,
    ) -> Any:
        """Returns ``E[f(Y) | X = x]`` for each row x.

        Parameters
        ----------
        f : array of shape (n,) or (n, m), function, or fitted model
            The values of f at the training rows of Y; a function that computes them from the ``Y`` of
            :meth:`fit`; or a model with ``predict``. The uncertainty of a model with ``return_cov``, such as
            a Gaussian process, is included.
        X : array or data frame of shape (rows, d)
        return_std, return_cov : bool, default False
            Whether to return the standard deviation or the covariance of the expectation too. Only one of
            them may be True. The spread of f around its expectation is not included.

        Returns
        -------
        mean : array of shape (rows,) or (rows, m)
        std : array of the same shape, with ``return_std``
        cov : array of shape (rows, rows) or (rows, rows, m), with ``return_cov``
        """
        core = self._fitted()
        if return_std and return_cov:
            raise ValueError("return_std and return_cov: choose one")
        values, covariance = self._values(f, return_std or return_cov)
        functions = np.ascontiguousarray(values.reshape(len(values), -1))
        shaped = lambda array: array[..., 0] if values.ndim == 1 else array
        names, levels, numbers = self._rows(X, "X")
        if return_cov:
            mean, cov = _moments(core, functions, covariance, (names, levels, numbers))
            return shaped(mean), shaped(cov)
        if not return_std:
            return shaped(core.weights((names, levels, numbers)) @ functions)
        means, stds = [], []
        for start in range(0, max(len(numbers), 1), _AT_ONCE):
            rows = names, levels, numbers[start : start + _AT_ONCE]
            mean, cov = _moments(core, functions, covariance, rows)
            means.append(mean)
            stds.append(np.sqrt(np.maximum(np.einsum("iic->ic", cov), 0.0)))
        return shaped(np.concatenate(means)), shaped(np.concatenate(stds))

    def cov(self, X: MatrixLike) -> np.ndarray:
        """Returns R: the covariance between rows of the expectation of a function with variance 1 over the
        training rows (with mean square 1, if not ``centered``).

        Parameters
        ----------
        X : array or data frame of shape (rows, d)

        Returns
        -------
        array of shape (rows, rows)
        """
        return self._fitted().residual_covariance(self._rows(X, "X"))

    def next_evaluations(
        self, model: Any, X: MatrixLike, k: int = 1, *, noise: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Chooses the training rows of Y at which to evaluate an expensive f next: Bayesian quadrature with
        respect to conditional distributions.

        ``expectation(model, X, return_std=True)`` estimates ``E[f(Y) | X = x]`` from a Gaussian process that
        is fitted to few evaluations of f. Each choice reduces the variance from the process the most, given
        those before it.

        Parameters
        ----------
        model : fitted model with ``return_cov``, such as a Gaussian process
            The process of f so far.
        X : array or data frame of shape (rows, d)
            The rows at which expectations are of interest.
        k : int, default 1
            Number of rows to choose. There are fewer where further ones reduce nothing.
        noise : float, optional
            Variance of the error of an evaluation; by default the ``noise_`` of the model, or 0.

        Returns
        -------
        rows : array of shape (k,)
            Numbers of training rows.
        std : array of shape (k,)
            Root mean square over X of the standard deviation from the process that remains after each
            evaluation.

        Examples
        --------
        >>> import numpy as np, riesz
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-2, 2, size=(100, 1))
        >>> Y = X + 0.3 * rng.normal(size=(100, 1))
        >>> embedding = riesz.ConditionalMean().fit(X, Y)
        >>> process = riesz.GaussianProcessRegressor(alpha=0.01).fit(Y[:9], np.sin(2 * Y[:9, 0]))
        >>> rows, std = embedding.next_evaluations(process, [[1.0]], k=3)
        >>> bool(std[2] < std[0])
        True
        """
        _, covariance = self._values(model, with_covariance=True)
        if covariance is None:
            raise ValueError("model: it needs a posterior covariance, such as that of a Gaussian process")
        if noise is None:
            noise = getattr(model, "noise_", None) or 0.0
        chosen = self._fitted().next_evaluations(
            self._rows(X, "X"), covariance, float(noise), whole_number("k", k, 1)
        )
        rows, variances = zip(*chosen) if chosen else ((), ())
        return np.array(rows, dtype=int), np.sqrt(np.array(variances, dtype=float))

    def mmd(
        self, X: MatrixLike, other: MatrixLike | None = None, *, sample: MatrixLike | None = None
    ) -> np.ndarray:
        """Returns the maximum mean discrepancy, the distance by ``kernel_y``, between the distributions of Y
        given rows of X and other distributions. It is computed from the mean embeddings; the uncertainty of
        these makes it larger than the true distance on average.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)
        other : array or data frame of shape (others, d), optional
            Further rows of X; by default ``X``.
        sample : array or data frame of shape (m, e), optional
            Rows of Y, instead of ``other``.

        Returns
        -------
        array of shape (rows, others), or (rows,) with ``sample``
        """
        core, rows = self._fitted(), self._rows(X, "X")
        if sample is None:
            return core.discrepancy(rows, rows if other is None else self._rows(other, "other"))
        if other is not None:
            raise ValueError("other and sample: give one of them")
        return core.discrepancy_from_sample(rows, _rows_like(sample, self._y, "sample"))

    def _fitted(self) -> _core.ConditionalMeanModel:
        """Returns the fit, which is computed again after unpickling."""
        check_is_fitted(self, "kernel_x_")
        if self._core is None:
            self._core = _core.ConditionalMeanModel(self._x, self._y, self._settings)
        return self._core

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {**state, "_core": None} if "_core" in state else state

    def _rows(self, X: MatrixLike, label: str) -> Any:
        return _rows_like(X, self._x, label)

    def _values(self, f: Any, with_covariance: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns the values of f at the training rows, and their covariance for an uncertain model."""
        covariance, n = None, len(self._y.numbers)
        if hasattr(f, "predict"):
            uncertain = "return_cov" in inspect.signature(f.predict).parameters
            if with_covariance and uncertain and getattr(f, "has_posterior", True):
                f, covariance = f.predict(self._given_y, return_cov=True)
            else:
                f = f.predict(self._given_y)
        elif callable(f):
            f = f(self._given_y)
        try:
            values = np.asarray(f, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError("f: its values at the training rows of Y are not numbers") from None
        if values.ndim not in (1, 2) or len(values) != n:
            raise ValueError(
                f"f has values of the shape {values.shape}: it has one value, or one row of values, for each "
                f"of the {n} training rows of Y"
            )
        if covariance is None:
            return values, None
        covariance = np.ascontiguousarray(covariance, dtype=np.float64)
        if covariance.shape != (n, n):
            raise ValueError(
                f"f is a model whose covariance has the shape {covariance.shape}: give a model with one "
                "output"
            )
        return values, covariance


def _moments(
    core: _core.ConditionalMeanModel, functions: np.ndarray, covariance: np.ndarray | None, rows: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the means, (rows, functions), and the covariances, (rows, rows, functions), of expectations."""
    means, residual, variances, of_functions = core.expectation(functions, covariance, rows)
    covariances = residual[:, :, None] * np.array(variances)
    return means, covariances if of_functions is None else covariances + of_functions[:, :, None]


def _start_kernel(kernel: KernelLike | None, label: str, rows: Rows) -> str | None:
    """Returns a kernel as the core's JSON text; ``None`` for the default kernel."""
    if kernel is None:
        return None
    fitted = as_kernel(kernel, label)._fitted_to(rows.numbers, rows.names, rows.levels)
    return fitted._to_json(rows.names, rows.levels)


def _rows_like(X: Any, rows: Rows, label: str) -> Any:
    """Returns rows in the columns of ``rows``, as the core takes them."""
    X = collected(X, label)
    if np.ndim(X) == 1:
        X = np.asarray(X)[:, None]
    numbers = as_numbers(select_columns(X, rows.names), rows.names, label, rows.levels)
    return rows.names, rows.levels, numbers
