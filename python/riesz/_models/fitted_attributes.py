"""Fitted attributes under scikit-learn's names, computed from the fitted expansion."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .. import _core
from .._data.types import MatrixLike
from .expansion import Expansion

#: The remedy for probabilities of a support vector machine.
NO_PROBABILITIES = (
    "a support vector machine has no probabilities of its own: calibrate its decisions on held-out rows with "
    "sklearn.calibration.CalibratedClassifierCV(riesz.SVC(...), ensemble=False), or use "
    "riesz.KernelLogisticRegression"
)


def fitted_expansion(estimator: Any, name: str) -> Expansion:
    """Returns the fitted expansion, on which the attribute ``name`` depends."""
    expansion = getattr(estimator, "expansion_", None)
    if expansion is None:
        raise AttributeError(f"{type(estimator).__name__} has no {name} before it is fitted: call fit first")
    return expansion


def gram_matrix(expansion: Expansion) -> np.ndarray:
    """Returns the kernel between all support points, (n, n)."""
    core = expansion._core
    points, count = core.points, len(core.points)
    names = [str(i) for i in range(count)]
    rows = (core.feature_names, core.levels, points)
    return _core.Expansion(core.kernel, rows, np.eye(count), [0.0] * count, names).predict(points)


class SupportVectorMixin:
    """Attributes of support vector machines: support vectors in scikit-learn's order, and their
    coefficients."""

    kernel: Any
    #: Rows of ``X`` that are support vectors, in scikit-learn's order: class by class for a classifier.
    support_: np.ndarray
    #: Position of each of them in the expansion's points.
    _support_points: np.ndarray

    def _store_support(self, fit: Any, shape: tuple[int, ...], codes: np.ndarray | None) -> None:
        """Stores the support vectors of a fit to rows of a shape; ``codes`` are the rows' classes."""
        self.shape_fit_ = shape
        self.fit_status_ = int(any("before it converged" in warning for warning in fit.warnings))
        rows = np.asarray(fit.support, dtype=np.int32)
        # With bootstrap refits, the expansion also has the refits' support vectors, whose coefficients are 0.
        expansion = fitted_expansion(self, "support_")
        points = np.flatnonzero((expansion.coef != 0).any(axis=1))
        order = np.arange(len(rows)) if codes is None else np.argsort(codes[rows], kind="stable")
        self.support_, self._support_points = rows[order], points[order]
        counts = [len(rows)] if codes is None else np.bincount(codes[rows], minlength=int(codes.max()) + 1)
        self._support_counts = np.asarray(counts, dtype=np.int32)

    @property
    def n_support_(self) -> np.ndarray:
        """Number of support vectors of each class, (classes,); of a regressor, (1,)."""
        fitted_expansion(self, "n_support_")
        return self._support_counts

    @property
    def support_vectors_(self) -> np.ndarray:
        """The support vectors, (n_SV, d), in the order of ``support_``. Columns of categories hold the
        positions of levels."""
        return fitted_expansion(self, "support_vectors_").points[self._support_points]

    @property
    def intercept_(self) -> np.ndarray:
        """The intercept, (1,); with more than two classes one per pair of classes."""
        return fitted_expansion(self, "intercept_").intercept

    @property
    def dual_coef_(self) -> np.ndarray:
        """Coefficients of the support vectors, (1, n_SV), or (classes - 1, n_SV) in LIBSVM's layout."""
        coef = fitted_expansion(self, "dual_coef_").coef[self._support_points]
        classes = len(self._support_counts)
        if classes <= 2:
            return coef.T
        ends = np.concatenate([[0], np.cumsum(self._support_counts)])
        dual = np.zeros((classes - 1, len(coef)))
        for pair, (i, j) in enumerate(combinations(range(classes), 2)):
            first, second = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
            dual[j - 1, first], dual[i, second] = coef[first, pair], coef[second, pair]
        return dual

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the columns for ``kernel="linear"``, (1, d) or (pairs of classes, d)."""
        if not (isinstance(self.kernel, str) and self.kernel == "linear"):
            raise AttributeError(f"coef_ belongs to kernel='linear', and the kernel is {self.kernel!r}")
        expansion = fitted_expansion(self, "coef_")
        return expansion.coef.T @ expansion.points


class NoProbabilitiesMixin:
    """The refusal of class probabilities, which names the remedy."""

    def _has_no_probabilities(self) -> bool:
        raise AttributeError(NO_PROBABILITIES)

    @available_if(_has_no_probabilities)
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Not available: calibrate the decisions with ``sklearn.calibration.CalibratedClassifierCV``.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)

        Returns
        -------
        array
            Never, because an AttributeError names the remedy.
        """
        raise AttributeError(NO_PROBABILITIES)

    @available_if(_has_no_probabilities)
    def predict_log_proba(self, X: MatrixLike) -> np.ndarray:
        """Not available: calibrate the decisions with ``sklearn.calibration.CalibratedClassifierCV``.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)

        Returns
        -------
        array
            Never, because an AttributeError names the remedy.
        """
        raise AttributeError(NO_PROBABILITIES)


class DualCoefficientsMixin:
    """Attributes of kernel ridge regression: support points and their coefficients."""

    _one_target: bool

    @property
    def X_fit_(self) -> np.ndarray:
        """The support points, (n, d): the training rows of positive weight, or the landmarks."""
        return fitted_expansion(self, "X_fit_").points

    @property
    def dual_coef_(self) -> np.ndarray:
        """Coefficients of the support points, (n,) or (n, targets)."""
        coef = fitted_expansion(self, "dual_coef_").coef
        return coef[:, 0] if self._one_target else coef


class MarginalLikelihoodMixin:
    """The log marginal likelihood as a method, as scikit-learn's Gaussian processes have it."""

    log_marginal_likelihood_value_: float

    def log_marginal_likelihood(
        self, theta: None = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> float:
        """Returns the log marginal likelihood at the fitted kernel, ``log_marginal_likelihood_value_``.

        Parameters
        ----------
        theta : None
            riesz's kernels have no vector of hyper-parameters. Fit with another ``kernel`` and
            ``optimizer=None`` for its likelihood.
        eval_gradient : bool, default False
            Must be ``False``, because the gradient is with respect to ``theta``.
        clone_kernel : bool, default True
            Without effect, because nothing is computed anew.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        if theta is not None or eval_gradient:
            name = "theta" if theta is not None else "eval_gradient"
            raise ValueError(
                f"{name} is given, but kernels of riesz have no vector theta: for the likelihood of another "
                "kernel fit with kernel=… and optimizer=None"
            )
        return self.log_marginal_likelihood_value_


class ProcessAttributesMixin(MarginalLikelihoodMixin):
    """Attributes of Gaussian process regression, in scikit-learn's units: those of the normalised targets."""

    noise_: float
    _one_target: bool
    #: The targets, (n, targets), in their own units; ``None`` for a fit with inducing points.
    _y_train: np.ndarray | None
    _y_train_mean: np.ndarray
    _y_train_std: np.ndarray

    def _store_targets(self, y: np.ndarray, normalized: bool, keep: bool) -> None:
        mean, std = np.zeros(y.shape[1]), np.ones(y.shape[1])
        if normalized:
            mean, std = y.mean(axis=0), y.std(axis=0)
            # scikit-learn's rule for constant targets.
            std = np.where(std < 10 * np.finfo(float).eps, 1.0, std)
        self._y_train, self._y_train_mean, self._y_train_std = y if keep else None, mean, std

    def _dense(self, name: str) -> Expansion:
        expansion = fitted_expansion(self, name)
        if self._y_train is None:
            raise AttributeError(
                f"{name} belongs to the exact fit, and this one has inducing points: they are "
                "expansion_.points, and their coefficients are expansion_.coef"
            )
        return expansion

    def _kernel_scale(self) -> float:
        """Returns the factor of ``kernel_`` over the kernel of normalised targets."""
        return float(self._y_train_std[0] ** 2) if len(self._y_train_std) == 1 else 1.0

    @property
    def X_train_(self) -> np.ndarray:
        """The training rows, (n, d). Columns of categories hold the positions of levels."""
        return self._dense("X_train_").points

    @property
    def y_train_(self) -> np.ndarray:
        """The training targets, (n,) or (n, targets), normalised if ``normalize_y``."""
        self._dense("y_train_")
        assert self._y_train is not None
        normalized = (self._y_train - self._y_train_mean) / self._y_train_std
        return normalized[:, 0] if self._one_target else normalized

    @property
    def alpha_(self) -> np.ndarray:
        """Dual coefficients of the normalised targets, (n,) or (n, targets)."""
        alpha = self._dense("alpha_").coef * (self._kernel_scale() / self._y_train_std)
        return alpha[:, 0] if self._one_target else alpha

    @property
    def L_(self) -> np.ndarray:
        """Lower Cholesky factor of the covariance of the normalised targets, noise included, (n, n). It is
        computed at each access, in n³/3 operations."""
        covariance = gram_matrix(self._dense("L_"))
        np.fill_diagonal(covariance, np.diagonal(covariance) + self.noise_)
        return np.linalg.cholesky(covariance / self._kernel_scale())
