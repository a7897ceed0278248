"""Kernel machines with scikit-learn's contract, fitted by riesz.

The estimators can be cloned, pickled and used in pipelines and grid searches. They take arrays of numbers and
data frames. The fitted model is ``expansion_`` and its kernel is ``kernel_``. :class:`riesz.Explainer` takes
the estimator itself. Parameters, defaults and fitted attributes are those of scikit-learn's class of the same
name; :doc:`scikit-learn` lists every difference.

``kernel`` is a name, a kernel of :mod:`riesz.kernels`, or an expression of the command line. The names
``"rbf"``, ``"laplacian"``, ``"linear"``, ``"poly"`` and ``"sigmoid"`` have ``gamma``, ``degree`` and
``coef0`` as in scikit-learn. An expression such as ``"0.5 * rbf(ard) + linear"`` does not use these
parameters: length scales that it leaves out are medians of the rows, and columns are not standardised.
Gaussian processes read ``"rbf"`` and the other names as expressions, and also take kernels of
``sklearn.gaussian_process.kernels``.

``gamma`` is a number, ``None`` for 1 over the number of columns, or a rule that computes length scales from
the rows: ``"scale"`` and ``"auto"`` as in scikit-learn, ``"median"`` and ``"median_per_feature"`` as in
:mod:`riesz.kernels`. If rows have weights, ``"scale"`` uses the weighted variance. A row of weight 2 then has
the same effect as two rows, as scikit-learn requires of estimators; scikit-learn's own rule counts each row
once. ``class_weight="balanced"`` uses weighted counts too, as scikit-learn's ``LogisticRegression`` does and
its ``SVC`` does not. To get scikit-learn's numbers, give ``gamma=1 / (X.shape[1] * X.var())`` and the class
weights as a dict.

``alpha="auto"`` and ``C="auto"`` choose the value that predicts held-out rows best. If the length scales come
from the rows, their best common multiple is chosen as well. Length scales that are given as numbers stay
fixed, and all length scales stay fixed if features are protected. ``folds`` is the number of cross-validation
folds. The chosen values are in ``alpha_`` or ``C_`` and in ``kernel_``. If there are more than 2,000 rows
(1,000 with ``folds``), the search uses a random subset of that size, and the final model is fitted to all
rows; the model card records this.

Data frames may have columns of categories (text, and pandas' ``category``). The kernel reads the numeric
columns and is multiplied by one factor for each column of categories. The factor is 1 if two rows have the
same level and less if their levels differ (:class:`riesz.kernels.Categorical`), as on the command line. Later
rows may have any category of the type ``category``; a column of text may only have levels of the training
rows. ``expansion_.with_unseen()`` returns the same model, which accepts other levels as unknown.

The types of text columns follow the rules of the command line (:doc:`tables`). Texts that are all numbers are
read as numbers, with a warning; thousands separators, a currency or a unit are allowed. Codes with leading
zeros are categories. A column whose texts differ in nearly every row is refused. ``columns={"zip": "text",
"age": "number"}`` overrides these rules. There is a warning for a numeric column that only numbers the rows,
or that contains marks of missing values such as -9999."""

from __future__ import annotations

import datetime
import json
import numbers
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_X_y, validate_data

from . import _core
from . import kernels as rk
from ._data.parameters import hyperparameter_samples, is_whole, positive_number, whole_number
from ._data.table_columns import column_units, read_categories, warn_of_numbers
from ._data.types import (
    ColumnChoices,
    Features,
    KernelLike,
    MatrixLike,
    Optimizer,
    PositiveOrAuto,
    RandomState,
    ValueRange,
)
from ._data.validation import (
    as_cells,
    as_numbers,
    collected,
    dense,
    is_missing,
    names_of,
    numbered,
    row_parts,
)
from ._models.average import ModelAverage
from ._models.expansion import Expansion, deviations_of
from ._models.fitted_attributes import (
    NO_PROBABILITIES,
    DualCoefficientsMixin,
    MarginalLikelihoodMixin,
    NoProbabilitiesMixin,
    ProcessAttributesMixin,
    SupportVectorMixin,
)
from ._models.kernel_expressions import as_kernel, scales_come_from_rows
from ._models.loading import Read, with_class_sums
from .games import Game

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "SVC",
    "SVR",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "KernelLogisticRegression",
    "KernelRidge",
]


def __dir__() -> list[str]:
    return sorted(__all__)


#: Names of kernels that scikit-learn has too, and the name of each here.
_NAMES = {
    "rbf": "rbf",
    "laplacian": "laplacian",
    "linear": "linear",
    "poly": "poly",
    "polynomial": "poly",
    "sigmoid": "sigmoid",
}

#: Names of scikit-learn's kernels that riesz does not have, and why.
_REFUSED = {
    "precomputed": "explanations need the rows, not a gram matrix",
    "cosine": "riesz has no cosine kernel, which is 'linear' on rows that sklearn's Normalizer scales",
    "chi2": "riesz has no chi-squared kernel",
    "additive_chi2": "riesz has no chi-squared kernel",
}


class _KernelMachine(BaseEstimator):
    """Base class of all estimators: a kernel, column names and a fitted expansion."""

    expansion_: Expansion
    #: Types of columns that override the detected ones, by name.
    columns: ColumnChoices | None = None
    #: Levels of each column, ``None`` for a numeric one; ``None`` if all columns are numeric.
    _levels: list[list[str] | None] | None = None
    #: Names and units of text columns that contain numbers with a unit.
    _units: list[tuple[str, str]] = []
    #: The ridge (alpha) or the penalty C of the fit, given or chosen.
    _chosen: float | None = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _names(self, X: np.ndarray) -> list[str]:
        return [str(n) for n in getattr(self, "feature_names_in_", numbered(X.shape[1]))]

    def _kernel(self, X: np.ndarray, names: list[str], sample_weight: np.ndarray | None = None) -> str:
        """Returns the kernel as the core's JSON text."""
        kernel, levels = self.kernel, self._levels  # type: ignore[attr-defined]
        if getattr(self, "kernel_params", None) is not None:
            raise ValueError(
                f"kernel_params = {self.kernel_params!r}: they belong to a callable kernel, which riesz does "  # type: ignore[attr-defined]
                "not take: leave them out"
            )
        # Rows of weight 0 are not training rows.
        rows = X if sample_weight is None else X[sample_weight > 0]
        if isinstance(kernel, str) and kernel in _NAMES:
            kernel = self._named_kernel(_NAMES[kernel], X, names, sample_weight)
        elif isinstance(kernel, str) and kernel in _REFUSED:
            raise ValueError(
                f"kernel = {kernel!r}: {_REFUSED[kernel]}: it is 'rbf', 'laplacian', 'linear', 'poly', "
                "'sigmoid', an expression such as '0.5 * rbf(ard) + linear', or a kernel of riesz.kernels"
            )
        else:
            kernel = as_kernel(kernel, also=", or one of the names " + ", ".join(map(repr, _NAMES)))
        return kernel._fitted_to(rows, names, levels)._to_json(names, levels)

    def _named_kernel(
        self, kernel: str, X: np.ndarray, names: list[str], sample_weight: np.ndarray | None
    ) -> rk.Kernel:
        """Returns the kernel of a name that scikit-learn has, with ``gamma``, ``degree`` and ``coef0``."""
        gamma = self.gamma  # type: ignore[attr-defined]
        if isinstance(gamma, str) and gamma in rk._RULES and kernel in ("rbf", "laplacian"):
            return rk.RBF(gamma) if kernel == "rbf" else rk.Laplacian(gamma)
        # Rules for gamma use the numeric columns alone.
        numeric = rk._numeric(names, self._levels)
        gamma = self._gamma_value(X[:, numeric], sample_weight) if numeric else 1.0
        if kernel == "rbf":
            return rk.RBF(length_scale=1.0 / np.sqrt(2.0 * gamma))
        if kernel == "laplacian":
            return rk.Laplacian(length_scale=1.0 / gamma)
        if kernel == "linear":
            return rk.Linear()
        coef0 = float(self.coef0)  # type: ignore[attr-defined]
        if kernel == "sigmoid":
            return rk.Sigmoid(gamma=gamma, coef0=coef0)
        return rk.Polynomial(degree=self.degree, gamma=gamma, coef0=coef0)  # type: ignore[attr-defined]

    def _gamma_value(self, X: np.ndarray, sample_weight: np.ndarray | None) -> float:
        gamma = self.gamma  # type: ignore[attr-defined]
        if gamma is None or (isinstance(gamma, str) and gamma == "auto"):
            return 1.0 / X.shape[1]
        if isinstance(gamma, str) and gamma == "scale":
            # The weighted variance, so that a weight has the effect of repeated rows.
            weights = np.ones(len(X)) if sample_weight is None else sample_weight
            mean = np.average(X.mean(axis=1), weights=weights)
            variance = np.average(((X - mean) ** 2).mean(axis=1), weights=weights)
            if not np.isfinite(variance):
                raise ValueError(
                    "the variance of X overflows, so gamma='scale' has no value: standardise the columns"
                )
            return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        if isinstance(gamma, str):
            raise ValueError(
                f"gamma = {gamma!r}: it is a positive number, 'scale', 'auto' or None, or for the kernels "
                "'rbf' and 'laplacian' 'median' or 'median_per_feature'; the kernel here is "
                f"{self.kernel!r}"  # type: ignore[attr-defined]
            )
        return positive_number("gamma", gamma)

    def _fit(
        self,
        model,
        kernel,
        names,
        X,
        target,
        weights=None,
        *,
        penalty=None,
        start=None,
        seed=0,
        stacklevel=3,
        **settings,
    ):
        """Fits the core's model of this kind with named settings, and issues the core's warnings."""
        weights = None if weights is None else weights.tolist()
        rows = names, self._levels or [None] * len(names), X
        fitted = _core.fit(model, kernel, rows, target, json.dumps(settings), weights, penalty, start, seed)
        for message in fitted.warnings:
            warnings.warn(f"{type(self).__name__}: {message}", ConvergenceWarning, stacklevel=stacklevel)
        model = fitted.model.with_units(self._units) if self._units else fitted.model
        self.expansion_, self._chosen = Expansion._wrap(model), fitted.chosen
        return fitted

    def _searched(
        self,
        name: str,
        setting: str,
        X: np.ndarray,
        names: list[str],
        folds: int | None = None,
        keep_kernel: bool = False,
    ) -> dict[str, Any]:
        """Returns the setting of the parameter ``name``, or how it is chosen; ``folds`` is the default number
        of folds."""
        value, folds_given = getattr(self, name), self.folds  # type: ignore[attr-defined]
        if not (isinstance(value, str) and value == "auto"):
            if folds_given is not None:
                raise ValueError(
                    f"folds = {folds_given!r} is given, but {name} = {value!r} is not 'auto', and nothing "
                    f"is chosen"
                )
            return {setting: positive_number(name, value, ", or 'auto'")}
        kernel, gamma = self.kernel, self.gamma  # type: ignore[attr-defined]
        if isinstance(kernel, str) and kernel in _NAMES:
            from_rows = gamma is None or isinstance(gamma, str)
        else:
            from_rows = scales_come_from_rows(as_kernel(kernel), X, names, self._levels)
        folds = folds if folds_given is None else whole_number("folds", folds_given, 2)
        return {setting: "auto", "folds": folds, "fixed_kernel": keep_kernel or not from_rows}

    def _refits(self) -> dict[str, int]:
        """Returns the seed and, if requested, the number of bootstrap refits."""
        count, seed = getattr(self, "n_bootstrap", None), self.random_state  # type: ignore[attr-defined]
        if seed is None or isinstance(seed, np.random.RandomState):
            seed = int(check_random_state(seed).randint(2**31 - 1))
        seed = whole_number("random_state", seed, 0)
        return {"seed": seed} | (
            {} if count is None else {"n_bootstrap": whole_number("n_bootstrap", count, 2)}
        )

    @property
    def kernel_(self) -> rk.Kernel:
        """The kernel of the fitted model, expanded into a sum of products, in the units of the columns. A
        Gaussian process has the tuned kernel; for regression its variance is in squared units of the
        target."""
        return rk._from_json(self.expansion_._core.kernel, self.expansion_.feature_names)

    def _outputs(self, X: Any) -> np.ndarray:
        """Returns the expansion at the rows of X, shape (rows, outputs)."""
        check_is_fitted(self)
        return np.concatenate([self.expansion_._core.predict(_rows(self, part)) for part in row_parts(X)])

    def save(self, path: str | os.PathLike[str], *, posterior: bool = False) -> None:
        """Writes the fitted model as a riesz model file, which the command line reads too.

        Parameters
        ----------
        path : path
        posterior : bool, default False
            Whether the file also holds the posterior covariance. For Gaussian processes it is needed for
            standard deviations and class probabilities and takes 4 n² bytes for n rows (16 MB for 2,000
            rows), once per class if there are three or more. Bootstrap refits take 8 n bytes per refit and
            output.
        """
        check_is_fitted(self)
        self.expansion_.save(path, posterior=posterior)


def _rows(estimator: Any, X: Any) -> np.ndarray:
    expansion = estimator.expansion_
    if estimator._levels is not None:
        names, units = expansion.feature_names, expansion._core.units
        return as_numbers(collected(X), names, "X", estimator._levels, units=units)
    return np.ascontiguousarray(_validated(estimator, X, reset=False))


def _fitted_on(estimator: Any, X: Any, y: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Validates training rows and targets as scikit-learn's ``validate_data`` does. Categories become codes
    of ``estimator._levels``."""
    X, y = collected(X), _checked_targets(y)
    categories = read_categories(X, estimator.columns)
    estimator._levels = None if categories is None else categories.levels
    estimator._units = [] if categories is None else column_units(X, categories, "X")
    if categories is None:
        rows = _validated(estimator, X, y, **options)
        if names_of(X) is not None:
            warn_of_numbers(names_of(X) or [], rows[0], stacklevel=5)
        return rows
    numeric = [j for j, levels in enumerate(categories.levels) if levels is None]
    warn_of_numbers([categories.names[j] for j in numeric], categories.numbers[:, numeric], stacklevel=5)
    # Names and number of columns come from the data frame.
    validate_data(estimator, X, skip_check_array=True)
    rows, y = check_X_y(categories.numbers, y, dtype=np.float64, estimator=estimator, **options)
    return rows, np.asarray(y, dtype=np.float64) if options.get("y_numeric") else y


def _checked_targets(y: Any) -> Any:
    """Refuses targets that are dates, masked or missing; an object array of booleans becomes one of type
    bool."""
    if np.ma.is_masked(y):
        raise ValueError("y has masked cells, whose values must not be learnt: leave their rows out")
    cells = np.asarray(y)
    kinds = {cells.dtype.kind, getattr(getattr(y, "dtype", None), "kind", "")}
    if kinds & {"m", "M"} or _is_dates(cells):
        raise ValueError(
            "y holds dates or times: write them as numbers, days since some date for example, or as text if "
            "they are classes"
        )
    if cells.dtype.kind != "O" or y is None:
        return y
    flat = cells.ravel()
    missing = next((i for i, cell in enumerate(flat) if is_missing(cell)), None)
    if missing is not None:
        row = missing // max(1, len(flat) // max(1, len(cells)))
        raise ValueError(f"y is {flat[missing]} in row {row} (from 0): fill the value in or remove the row")
    return cells.astype(bool) if all(isinstance(cell, (bool, np.bool_)) for cell in flat) else y


def _is_dates(cells: np.ndarray) -> bool:
    """Whether the first cell of an object array is a date, a time or a duration."""
    if cells.dtype.kind != "O" or not cells.size:
        return False
    return isinstance(cells.ravel()[0], (datetime.date, datetime.time, datetime.timedelta))


def _validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Applies scikit-learn's ``validate_data`` to numbers; its errors name columns with dates or text."""
    X = dense(collected(X))
    _refuse_dates(X)
    try:
        validated = validate_data(estimator, X, *y, dtype=np.float64, **options)
        return (
            (validated[0], np.asarray(validated[1], dtype=np.float64))
            if options.get("y_numeric")
            else validated
        )
    except (TypeError, ValueError) as error:
        if isinstance(error, TypeError):
            _refuse_dates(X, cell_by_cell=True)
            raise
        if "could not convert string" not in str(error):
            raise
        remedy = "encode it, or give a data frame, whose columns of text are taken as categories"
        _refuse_text(as_cells(X), names_of(X), "column '{}' of X", remedy)
        if y:
            targets = np.asarray(y[0], dtype=object)
            _refuse_text(
                targets.reshape(len(targets), -1),
                None,
                "y",
                "a regressor predicts numbers, a classifier classes",
            )
        raise


def _refuse_dates(X: Any, cell_by_cell: bool = False) -> None:
    """Raises an error that names the first column with dates, times or durations, by its type or cells."""
    names, dtype = names_of(X), getattr(X, "dtype", None)
    if cell_by_cell:
        cells, times = as_cells(X), (datetime.date, datetime.time, datetime.timedelta)
        kinds = [
            next((type(cell).__name__ for cell in column if isinstance(cell, times)), None)
            for column in cells.T
        ]
    else:
        types = [dtype] if dtype is not None else list(getattr(X, "dtypes", []))
        # Types of numpy and pandas have these kinds; those of polars and Arrow have no kind, or kind "O".
        is_time = lambda kind: str(kind).lower().startswith(("date", "time", "duration", "period"))
        kinds = [
            str(kind) if getattr(kind, "kind", "") in ("m", "M") or is_time(kind) else None for kind in types
        ]
    for j, kind in enumerate(kinds):
        if kind is not None:
            column = "X" if names is None else f"column '{names[j]}' of X"
            raise ValueError(
                f"{column} holds dates or times ({kind}): give numbers, such as days since the first, or "
                "leave the column out"
            )


def _refuse_text(cells: np.ndarray, names: list[str] | None, label: str, remedy: str) -> None:
    """Raises an error that names the first column with text and one of its cells."""
    for name, column in zip(numbered(cells.shape[1]) if names is None else names, cells.T):
        for cell in column:
            try:
                float(cell)
            except (TypeError, ValueError):
                raise ValueError(f"{label.format(name)} holds text, {str(cell)!r}: {remedy}") from None


def _weights(sample_weight: Any, X: np.ndarray) -> np.ndarray | None:
    if sample_weight is None:
        return None
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


def _iterations(max_iter: int) -> int | None:
    if max_iter == -1:
        return None
    if is_whole(max_iter) and max_iter > 0:
        return int(max_iter)
    raise ValueError(f"max_iter = {max_iter!r}: it is a whole number from 1, or -1 for no limit")


def _check_solver(machine: Any) -> None:
    """Refuses values of scikit-learn's settings of LIBSVM that would have no effect."""
    if machine.verbose:
        raise ValueError(f"verbose = {machine.verbose!r}: the solver prints nothing: leave it out")
    if not isinstance(machine.shrinking, (bool, np.bool_)):
        raise ValueError(f"shrinking = {machine.shrinking!r}: it is True or False, without effect")
    positive_number("cache_size", machine.cache_size, ", without effect")


class _Regressor(RegressorMixin, _KernelMachine):
    """Base class of regressors with one or several targets."""

    def _targets(self, X: Any, y: Any, *, several: bool) -> tuple[np.ndarray, np.ndarray, list[str]]:
        X, y = _fitted_on(self, X, y, multi_output=several, y_numeric=True, ensure_min_samples=2)
        self._one_target = y.ndim == 1
        return np.ascontiguousarray(X), np.ascontiguousarray(y.reshape(len(y), -1)), self._names(X)

    def predict(self, X: MatrixLike) -> Any:
        """Returns the predictions.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)

        Returns
        -------
        array of shape (rows,), or (rows, targets) if ``y`` had two dimensions
        """
        outputs = self._outputs(X)
        return outputs[:, 0] if self._one_target else outputs


class _Classifier(ClassifierMixin, _KernelMachine):
    """Base class of classifiers: labels of any type, class weights, scikit-learn's shapes of decisions."""

    def _labels(self, X: Any, y: Any, sample_weight: Any):
        X, y = _fitted_on(self, X, y)
        check_classification_targets(y)
        sample_weight = _weights(sample_weight, X)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"the target has one class only, {self.classes_[0]!r}: a classifier needs rows of at least "
                "two classes"
            )
        return np.ascontiguousarray(X), codes, sample_weight, self._names(X)

    def _target(self, codes: np.ndarray) -> tuple[list[int], list[str]]:
        """Returns the labels as the core takes them: codes and class names."""
        return codes.tolist(), self._class_names()

    def _class_names(self) -> list[str]:
        names = [str(c) for c in self.classes_]
        return names if len(set(names)) == len(names) else [repr(c) for c in self.classes_]

    def _class_weights(self, codes: np.ndarray, sample_weight: np.ndarray | None) -> dict[str, float] | None:
        """Returns the weights by class name; ``"balanced"`` uses weighted counts of rows."""
        weights = self.class_weight  # type: ignore[attr-defined]
        if weights is None:
            return None
        if isinstance(weights, str) and weights == "balanced":
            count = np.bincount(codes, weights=sample_weight, minlength=len(self.classes_))
            return dict(
                zip(
                    self._class_names(),
                    (count.sum() / (len(count) * np.maximum(count, 1e-300))).tolist(),
                    strict=True,
                )
            )
        if isinstance(weights, dict):
            unknown = [c for c in weights if c not in set(self.classes_.tolist())]
            if unknown:
                raise ValueError(
                    f"class_weight names {unknown[0]!r}, which is not a class: {self.classes_.tolist()}"
                )
            numbers = [float(weights.get(c, 1.0)) for c in self.classes_.tolist()]
            return dict(zip(self._class_names(), numbers, strict=True))
        raise ValueError(
            f"class_weight = {weights!r}: it is None, 'balanced' or a dict from classes to numbers"
        )

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Returns the predicted classes.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)

        Returns
        -------
        array of shape (rows,)
        """
        check_is_fitted(self)
        codes = [self._predicted_codes(_rows(self, part)) for part in row_parts(X)]
        return self.classes_[np.concatenate(codes)]

    def _predicted_codes(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.expansion_._core.classify(rows), dtype=np.intp)


class _Probable:
    """Mixin of classifiers with probabilities."""

    expansion_: Expansion

    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Returns the probabilities of the classes.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)

        Returns
        -------
        array of shape (rows, classes)
            Those of Gaussian processes are averaged over the posterior of the latent functions.
        """
        check_is_fitted(self)
        return np.concatenate([self._probabilities(_rows(self, part)) for part in row_parts(X)])

    def _probabilities(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.expansion_._core.probabilities(rows))


class _Protecting:
    """Mixin of estimators that can protect features."""

    def _penalty(self, kernel: str, names: list[str], X: np.ndarray):
        from ._explaining.protected_features import penalty

        # Fits along a path of strengths share what does not depend on the strength.
        path = self._on_path()
        result = penalty(self, kernel, names, X, path.get("functionals"))
        if result is not None:
            path["functionals"] = result[0], result[2]
        return result

    def _on_path(self) -> dict[str, Any]:
        """Returns the values that the fits of :func:`riesz.protection_path` share."""
        return getattr(self, "_path", {})


class KernelRidge(DualCoefficientsMixin, _Protecting, MultiOutputMixin, _Regressor):
    """Kernel ridge regression: ``min_f Σ_i w_i (y_i - f(x_i))² + alpha |f|²``, as in scikit-learn.

    If features are protected, ``protect_strength / n Σ φ²`` over their Shapley values φ is added
    (Shapley-regularised learning; RKHS-SHAP, Chau et al. 2022).

    Parameters
    ----------
    alpha : float or "auto", default 1
        The ridge; ``"auto"`` minimises the leave-one-out error, or with ``folds`` the squared error of
        cross-validation.
    kernel : str or kernel, default "linear"
        See :mod:`riesz.estimators`.
    gamma, degree, coef0
        See :mod:`riesz.estimators`. ``gamma=None``, the default, is 1 over the number of columns.
    kernel_params : None
        scikit-learn's arguments of a callable kernel, which riesz does not take.
    fit_intercept : bool, default False
        Whether to subtract the mean of the targets before the fit; the mean becomes the intercept.
    folds : int, optional
        Number of folds for ``alpha="auto"``. The default is leave-one-out, and 5 folds if rows have weights.
    n_landmarks : int, optional
        Maximum number of landmarks (Nyström approximation), for many rows: time ``n * n_landmarks²``, memory
        ``n_landmarks²``. Landmarks become the support points of the model. ``alpha="auto"`` then uses
        cross-validation, with 5 folds unless ``folds`` is given; options that need the dense fit are refused.
        ``riesz.Explainer(model, background, covariance=True)`` then estimates how far values may be from
        those of the fit with all rows as support points. If the rows do not fit into memory, use
        :func:`riesz.distributed.fit` or the command line.
    protect : list of columns, or dict of name to columns, optional
        Features, or groups of features, whose Shapley values at the training rows are penalised. Columns are
        given by name or number.
    protect_strength : float, default 1
        The penalty is ``protect_strength / n * sum of squared values``.
    protect_game : {"interventional", "observational"} or game, default "interventional"
        The game of these Shapley values, by default with the training rows as background.
        :class:`riesz.Observational` and :class:`riesz.Interventional` take another background and settings.
        The observational game also removes what other features predict about the protected ones.
    protect_coalitions : int, optional
        For the observational game with more than 16 features: the penalty is estimated from this number of
        coalitions (default 4096).
    protect_range : pair of lower and upper end, or dict of name to pair, optional
        The range in which values are not penalised, by default ``(0, 0)``; outside it the penalty grows with
        the squared distance. ``None`` is an open end: ``(0, None)`` penalises negative values, ``(-1, 1)``
        values outside this band, ``(t, t)`` the distance from t, and ends may be arrays of one number per
        row. It needs a single target. Against the training rows as background values are about 0 on average,
        so a sign needs another background in ``protect_game``.
    protect_equal : bool, default False
        Whether to penalise the differences between the values of successive protected features instead of
        the values, so that the features get equal values.
    n_bootstrap : int, optional
        Number of additional fits, for example 200, each to n rows drawn with replacement from the training
        rows. ``riesz.Explainer(model, background, covariance=True)`` then gives the variation of values from
        sample to sample, at this kernel and ``alpha``. It includes neither the bias of the ridge nor the
        variation from choosing kernel and ``alpha``. A standard deviation from N refits has a relative error
        of about ``1 / sqrt(2 N)``.
    jackknife : bool, default False
        Whether to compute the same variation by leaving out one row after the other, in closed form without
        random draws. It takes about three fits, and 8 n² bytes a target.
    random_state : int, default 0
        Seed of the bootstrap refits and of coalitions.
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Attributes
    ----------
    dual_coef_ : array of shape (n,) or (n, targets)
        Coefficients of the support points.
    X_fit_ : array of shape (n, d)
        The support points: the training rows, or the landmarks.
    alpha_ : float
        The ridge, given or chosen.
    kernel_ : riesz.kernels.Kernel
    expansion_ : Expansion
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        Names of the columns of a data frame.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = riesz.KernelRidge(alpha=0.1, kernel="rbf", gamma="scale").fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    def __init__(
        self,
        alpha: PositiveOrAuto = 1,
        *,
        kernel: KernelLike = "linear",
        gamma: float | str | None = None,
        degree: int = 3,
        coef0: float = 1,
        kernel_params: None = None,
        fit_intercept: bool = False,
        folds: int | None = None,
        n_landmarks: int | None = None,
        protect: Features | None = None,
        protect_strength: float = 1.0,
        protect_game: str | Game = "interventional",
        protect_coalitions: int | None = None,
        protect_range: ValueRange = None,
        protect_equal: bool = False,
        n_bootstrap: int | None = None,
        jackknife: bool = False,
        random_state: RandomState = 0,
        columns: ColumnChoices | None = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.folds = folds
        self.n_landmarks = n_landmarks
        self.protect = protect
        self.protect_strength = protect_strength
        self.protect_game = protect_game
        self.protect_coalitions = protect_coalitions
        self.protect_range = protect_range
        self.protect_equal = protect_equal
        self.n_bootstrap = n_bootstrap
        self.jackknife = jackknife
        self.random_state = random_state
        self.columns = columns

    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fits the model. Takes n³/3 operations and the gram matrix; each bootstrap refit takes a quarter of
        that.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
        y : array of shape (n,) or (n, targets)
        sample_weight : array of shape (n,), optional
            Weights of the squared errors; rows of weight 0 are left out.

        Returns
        -------
        KernelRidge
            The fitted estimator.
        """
        if isinstance(self.kernel, str) and self.kernel == "linear" and isinstance(self.gamma, numbers.Real):
            warnings.warn(
                f"KernelRidge: gamma = {self.gamma!r} has no effect with kernel = 'linear', the default: "
                "give another kernel, such as 'rbf', or leave gamma out",
                UserWarning,
                stacklevel=2,
            )
        rows, targets, names = self._targets(X, y, several=True)
        weights = _weights(sample_weight, rows)
        kernel = self._kernel(rows, names, weights)
        if weights is not None:
            # Rows of weight 0 are not training rows.
            rows, targets, weights = rows[weights > 0], targets[weights > 0], weights[weights > 0]
        penalty = self._penalty(kernel, names, rows)
        settings = self._searched(
            "alpha", "ridge", rows, names, None if weights is None else 5, self.protect is not None
        )
        if not isinstance(self.jackknife, (bool, np.bool_)):
            raise ValueError(f"jackknife = {self.jackknife!r}: it is True or False")
        settings |= self._refits() | ({"jackknife": True} if self.jackknife else {})
        settings["fit_intercept"] = bool(self.fit_intercept)
        if self.n_landmarks is not None:
            settings["n_landmarks"] = whole_number("n_landmarks", self.n_landmarks, 1)
        self._fit(
            "krr",
            kernel,
            names,
            rows,
            targets,
            weights,
            penalty=penalty,
            **settings,
        )
        self.alpha_ = self._chosen
        return self


class SVR(SupportVectorMixin, _Protecting, _Regressor):
    """ε-insensitive support vector regression, solved to LIBSVM's optimum.

    Parameters
    ----------
    kernel, degree, gamma, coef0
        See :mod:`riesz.estimators`.
    tol : float, default 1e-3
        Tolerance of the stopping criterion.
    C : float or "auto", default 1
        Penalty on errors; ``"auto"`` minimises the squared error of cross-validation.
    epsilon : float, default 0.1
        Width ε of the tube: errors up to ε have no penalty.
    shrinking, cache_size
        scikit-learn's settings of LIBSVM's speed; without effect, because the solver chooses them itself.
    verbose : False
        The solver prints nothing.
    max_iter : int, default -1
        Maximum number of iterations; -1 for no limit. A fit that reaches it issues scikit-learn's
        ``ConvergenceWarning``.
    folds : int, optional
        Number of folds for ``C="auto"``, by default 5.
    protect, protect_strength, protect_game, protect_coalitions, protect_range, protect_equal
        Protected features, as in :class:`KernelRidge`. All rows are then
        support points.
    n_bootstrap : int, optional
        Number of additional fits to rows drawn with replacement, as in :class:`KernelRidge`. The support
        vectors of all refits become support points of the model.
    random_state : int, default 0
        Seed of the bootstrap refits.
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Attributes
    ----------
    support_ : array of shape (n_SV,)
        Rows of ``X`` that are support vectors.
    support_vectors_ : array of shape (n_SV, d)
    n_support_ : array of shape (1,)
        Number of support vectors.
    dual_coef_ : array of shape (1, n_SV)
    intercept_ : array of shape (1,)
    coef_ : array of shape (1, d)
        Weights of the columns, for ``kernel="linear"``.
    C_ : float
        The penalty, given or chosen.
    n_iter_ : int
        Number of iterations of the solver.
    fit_status_ : int
        1 if the fit stopped at ``max_iter``, else 0.
    shape_fit_ : tuple of int
        The shape of ``X`` in :meth:`fit`.
    kernel_ : riesz.kernels.Kernel
    expansion_ : Expansion
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        Names of the columns of a data frame.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = riesz.SVR(C=10.0).fit(X, X[:, 0] ** 2)
    >>> model.dual_coef_.shape == (1, len(model.support_))
    True
    """

    def __init__(
        self,
        *,
        kernel: KernelLike = "rbf",
        degree: int = 3,
        gamma: float | str | None = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: PositiveOrAuto = 1.0,
        epsilon: float = 0.1,
        shrinking: bool = True,
        cache_size: float = 200,
        verbose: bool = False,
        max_iter: int = -1,
        folds: int | None = None,
        protect: Features | None = None,
        protect_strength: float = 1.0,
        protect_game: str | Game = "interventional",
        protect_coalitions: int | None = None,
        protect_range: ValueRange = None,
        protect_equal: bool = False,
        n_bootstrap: int | None = None,
        random_state: RandomState = 0,
        columns: ColumnChoices | None = None,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.C = C
        self.epsilon = epsilon
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.folds = folds
        self.protect = protect
        self.protect_strength = protect_strength
        self.protect_game = protect_game
        self.protect_coalitions = protect_coalitions
        self.protect_range = protect_range
        self.protect_equal = protect_equal
        self.n_bootstrap = n_bootstrap
        self.random_state = random_state
        self.columns = columns

    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fits the model.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
            Factor of the penalty ``C`` for each row.

        Returns
        -------
        SVR
            The fitted estimator.
        """
        _check_solver(self)
        rows, targets, names = self._targets(X, y, several=False)
        weights = _weights(sample_weight, rows)
        kernel = self._kernel(rows, names, weights)
        penalty = self._penalty(kernel, names, rows if weights is None else rows[weights > 0])
        settings = {
            "tol": positive_number("tol", self.tol),
            "max_iter": _iterations(self.max_iter),
            **self._searched("C", "c", rows, names, keep_kernel=self.protect is not None),
        }
        settings |= self._refits()
        settings |= {"epsilon": float(self.epsilon), "normalize_y": False}
        fit = self._fit("svr", kernel, names, rows, targets, weights, penalty=penalty, **settings)
        self._store_support(fit, rows.shape, None)
        self.n_iter_ = fit.iterations[0]
        self.C_ = self._chosen
        return self


class SVC(SupportVectorMixin, NoProbabilitiesMixin, _Protecting, _Classifier):
    """Support vector classification, solved to LIBSVM's optimum; one-vs-one for several classes.

    Parameters
    ----------
    C : float or "auto", default 1
        Penalty on errors; ``"auto"`` maximises the accuracy of cross-validation.
    kernel, degree, gamma, coef0
        See :mod:`riesz.estimators`.
    shrinking, cache_size
        scikit-learn's settings of LIBSVM's speed; without effect, because the solver chooses them itself.
    probability : False
        For probabilities calibrate the decisions with ``sklearn.calibration.CalibratedClassifierCV``, which
        replaces ``probability=True`` in scikit-learn too.
    tol : float, default 1e-3
        Tolerance of the stopping criterion.
    class_weight : None, "balanced" or dict
        Factor of the penalty for each class.
    verbose : False
        The solver prints nothing.
    max_iter : int, default -1
        Maximum number of iterations; -1 for no limit. A fit that reaches it issues scikit-learn's
        ``ConvergenceWarning``.
    decision_function_shape : {"ovr", "ovo"}, default "ovr"
        The columns of :meth:`decision_function` for more than two classes: one per class, or one per pair of
        classes.
    break_ties : bool, default False
        Whether :meth:`predict` returns the class of the largest decision value, instead of the first among
        classes with the same number of votes. It needs ``decision_function_shape="ovr"``.
    random_state : int, RandomState or None, default 0
        Seed of the bootstrap refits.
    folds : int, optional
        Number of folds for ``C="auto"``, by default 5.
    protect, protect_strength, protect_game, protect_coalitions, protect_range, protect_equal
        Protected features, as in :class:`KernelRidge`; a range needs two classes. All
        rows are then support points.
    n_bootstrap : int, optional
        Number of additional fits to rows drawn with replacement, as in :class:`KernelRidge`, with the number
        of rows of each class kept. The support vectors of all refits become support points of the model.
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Attributes
    ----------
    support_ : array of shape (n_SV,)
        Rows of ``X`` that are support vectors, class by class.
    support_vectors_ : array of shape (n_SV, d)
    n_support_ : array of shape (classes,)
        Number of support vectors of each class.
    dual_coef_ : array of shape (1, n_SV) or (classes - 1, n_SV)
    intercept_ : array of shape (1,) or (pairs of classes,)
    coef_ : array of shape (1, d) or (pairs of classes, d)
        Weights of the columns, for ``kernel="linear"``.
    C_ : float
        The penalty, given or chosen.
    n_iter_ : array of shape (pairs of classes,)
        Number of iterations of the solver for each pair of classes.
    fit_status_ : int
        1 if the fit stopped at ``max_iter``, else 0.
    shape_fit_ : tuple of int
        The shape of ``X`` in :meth:`fit`.
    classes_ : array of shape (classes,)
    class_weight_ : array of shape (classes,)
        Factor of the penalty for each class.
    kernel_ : riesz.kernels.Kernel
    expansion_ : Expansion
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        Names of the columns of a data frame.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = riesz.SVC(C=10.0).fit(X, X[:, 0] * X[:, 1] > 0)
    >>> bool(model.score(X, X[:, 0] * X[:, 1] > 0) > 0.9)
    True
    """

    def __init__(
        self,
        *,
        C: PositiveOrAuto = 1.0,
        kernel: KernelLike = "rbf",
        degree: int = 3,
        gamma: float | str | None = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool | Literal["deprecated"] = False,
        tol: float = 1e-3,
        cache_size: float = 200,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        verbose: bool = False,
        max_iter: int = -1,
        decision_function_shape: Literal["ovr", "ovo"] = "ovr",
        break_ties: bool = False,
        random_state: RandomState = 0,
        folds: int | None = None,
        protect: Features | None = None,
        protect_strength: float = 1.0,
        protect_game: str | Game = "interventional",
        protect_coalitions: int | None = None,
        protect_range: ValueRange = None,
        protect_equal: bool = False,
        n_bootstrap: int | None = None,
        columns: ColumnChoices | None = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.folds = folds
        self.protect = protect
        self.protect_strength = protect_strength
        self.protect_game = protect_game
        self.protect_coalitions = protect_coalitions
        self.protect_range = protect_range
        self.protect_equal = protect_equal
        self.n_bootstrap = n_bootstrap
        self.columns = columns

    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fits the model to labels of any type.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
        y : array of shape (n,)
            The classes.
        sample_weight : array of shape (n,), optional
            Factor of the penalty ``C`` for each row.

        Returns
        -------
        SVC
            The fitted estimator.
        """
        self._check()
        rows, codes, weights, names = self._labels(X, y, sample_weight)
        kernel = self._kernel(rows, names, weights)
        penalty = self._penalty(kernel, names, rows if weights is None else rows[weights > 0])
        settings = {
            "tol": positive_number("tol", self.tol),
            "max_iter": _iterations(self.max_iter),
            **self._searched("C", "c", rows, names, keep_kernel=self.protect is not None),
        }
        settings |= self._refits()
        class_weight = self._class_weights(codes, weights)
        settings["class_weight"] = class_weight
        fit = self._fit("svc", kernel, names, rows, self._target(codes), weights, penalty=penalty, **settings)
        self._store_support(fit, rows.shape, codes)
        self.n_iter_ = np.asarray(fit.iterations)
        self.class_weight_ = np.array(
            list((class_weight or dict.fromkeys(self._class_names(), 1.0)).values())
        )
        self.C_ = self._chosen
        return self

    def _check(self) -> None:
        _check_solver(self)
        if self.probability not in (False, "deprecated"):
            raise ValueError(f"probability = {self.probability!r}: {NO_PROBABILITIES}")
        if self.decision_function_shape not in ("ovr", "ovo"):
            raise ValueError(
                f"decision_function_shape = {self.decision_function_shape!r}: it is 'ovr' or 'ovo'"
            )
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError(
                "break_ties = True with decision_function_shape = 'ovo': ties are broken by the decision "
                "values of classes: take 'ovr'"
            )

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Returns the predicted classes.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)

        Returns
        -------
        array of shape (rows,)
        """
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovr" and len(self.classes_) > 2:
            return self.classes_[self.decision_function(X).argmax(axis=1)]
        return super().predict(X)

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Returns the decision values.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)

        Returns
        -------
        array
            For two classes (rows,), positive for the second class. For more classes (rows, classes), from the
            votes of all pairs; with ``decision_function_shape="ovo"`` (rows, pairs of classes), positive for
            the first class of a pair.
        """
        outputs = self._outputs(X)
        if len(self.classes_) == 2:
            return outputs[:, 0]
        if self.decision_function_shape == "ovo":
            return outputs
        # The output of a pair is positive for its first class.
        return _ovr_decision_function(outputs < 0, -outputs, len(self.classes_))


class KernelLogisticRegression(_Protecting, _Probable, _Classifier):
    """Kernel logistic regression, binary and multinomial:
    ``min_f Σ_i w_i log loss(y_i, f(x_i)) + alpha/2 |f|²``. The intercept is not penalised. If features are
    protected, ``protect_strength / n Σ φ²`` over their Shapley values φ is added.

    Parameters
    ----------
    alpha : float or "auto", default 1
        The ridge; ``"auto"`` minimises the log loss of cross-validation.
    class_weight : None, "balanced" or dict
    kernel, gamma, degree, coef0
        See :mod:`riesz.estimators`.
    folds : int, optional
        Number of folds for ``alpha="auto"``, by default 5.
    n_landmarks : int, optional
        For two classes: maximum number of landmarks, as in :class:`KernelRidge`. Each Newton step takes one
        pass over all rows. ``alpha="auto"`` is then chosen on 1,000 rows.
    max_iter : int, default 100
        Maximum number of Newton steps; ``n_iter_`` is the number taken. A fit that reaches the maximum issues
        scikit-learn's ``ConvergenceWarning``.
    protect : list of columns, or dict of name to columns, optional
        Features, or groups of features, whose Shapley values at the training rows are penalised. Columns are
        given by name or number.
    protect_strength : float, default 1
        The penalty is ``protect_strength / n * sum of squared values``.
    protect_game : {"interventional", "observational"} or game, default "interventional"
        The game of these Shapley values, by default with the training rows as background.
        :class:`riesz.Observational` and :class:`riesz.Interventional` take another background and settings.
        The observational game also removes what other features predict about the protected ones.
    protect_coalitions : int, optional
        For the observational game with more than 16 features: the penalty is estimated from this number of
        coalitions (default 4096).
    protect_range, protect_equal
        As in :class:`KernelRidge`, for two classes.
    n_bootstrap : int, optional
        Number of additional fits to rows drawn with replacement, as in :class:`KernelRidge`, with the number
        of rows of each class kept.
    random_state : int, default 0
        Seed of the bootstrap refits and of coalitions.
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Attributes
    ----------
    alpha_ : float
        The ridge, given or chosen.
    n_iter_ : int
        Number of Newton steps.
    classes_ : array of shape (classes,)
    kernel_ : riesz.kernels.Kernel
    expansion_ : Expansion
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        Names of the columns of a data frame.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = riesz.KernelLogisticRegression(alpha=0.1).fit(X, X[:, 0] ** 2 > 0.5)
    >>> bool(model.score(X, X[:, 0] ** 2 > 0.5) > 0.9)
    True
    """

    def __init__(
        self,
        alpha: PositiveOrAuto = 1.0,
        *,
        kernel: KernelLike = "rbf",
        gamma: float | str | None = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        max_iter: int = 100,
        folds: int | None = None,
        n_landmarks: int | None = None,
        protect: Features | None = None,
        protect_strength: float = 1.0,
        protect_game: str | Game = "interventional",
        protect_coalitions: int | None = None,
        protect_range: ValueRange = None,
        protect_equal: bool = False,
        n_bootstrap: int | None = None,
        random_state: RandomState = 0,
        columns: ColumnChoices | None = None,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.folds = folds
        self.n_landmarks = n_landmarks
        self.protect = protect
        self.protect_strength = protect_strength
        self.protect_game = protect_game
        self.protect_coalitions = protect_coalitions
        self.protect_range = protect_range
        self.protect_equal = protect_equal
        self.n_bootstrap = n_bootstrap
        self.random_state = random_state
        self.columns = columns

    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fits the model to labels of any type by Newton's method.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
        y : array of shape (n,)
            The classes.
        sample_weight : array of shape (n,), optional
            Weights of the log losses.

        Returns
        -------
        KernelLogisticRegression
            The fitted estimator.
        """
        rows, codes, weights, names = self._labels(X, y, sample_weight)
        kernel = self._kernel(rows, names, weights)
        class_weights = self._class_weights(codes, weights)
        if self.protect is not None and weights is not None:
            # Rows of weight 0 are not training rows.
            rows, codes, weights = rows[weights > 0], codes[weights > 0], weights[weights > 0]
        penalty = self._penalty(kernel, names, rows)
        settings = self._searched("alpha", "ridge", rows, names, keep_kernel=self.protect is not None)
        if self.n_landmarks is None:
            settings["max_iter"] = whole_number("max_iter", self.max_iter, 1)
        elif self.max_iter != 100:
            raise ValueError(f"max_iter = {self.max_iter!r} belongs to fits without landmarks: leave it out")
        else:
            settings["n_landmarks"] = whole_number("n_landmarks", self.n_landmarks, 1)
        settings |= self._refits()
        path = {"penalty": penalty, "start": self._on_path().get("start"), "class_weight": class_weights}
        fit = self._fit(
            "klr",
            kernel,
            names,
            rows,
            self._target(codes),
            weights,
            **path,
            **settings,
        )
        self._on_path()["start"] = fit.end
        self.n_iter_ = fit.iterations[0]
        self.alpha_ = self._chosen
        return self

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Returns the log odds of the second class, or the log-probabilities of several classes.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)

        Returns
        -------
        array of shape (rows,) for two classes, else (rows, classes)
            For several classes up to a constant for each row.
        """
        outputs = self._outputs(X)
        return outputs[:, 0] if len(self.classes_) == 2 else outputs


class _Tuned:
    """Mixin of the Gaussian processes: start values, tuning, and averages over hyper-parameters."""

    expansion_: Expansion
    average_: ModelAverage | None = None

    def _start(self, X, names):
        also = ", None for Constant(1) * RBF(1), or 'auto'"
        if self.kernel is None:
            kernel = rk.Constant(1.0) * rk.RBF(1.0)
        elif self._is_automatic():
            kernel = rk.Constant(1.0) * rk.RBF("median_per_feature")
        else:
            kernel = as_kernel(self.kernel, also=also)
        if self.optimizer not in (None, "fmin_l_bfgs_b"):
            raise ValueError(
                f"optimizer = {self.optimizer!r}: it is 'fmin_l_bfgs_b', or None to keep the kernel as it is"
            )
        if self.optimizer is not None and any(
            part.fixed for part in getattr(self.kernel, "hyperparameters", [])
        ):
            raise ValueError(
                f"kernel = {self.kernel!r} has fixed hyper-parameters, but riesz tunes all of them or none: "
                "leave 'fixed' out, or give optimizer=None"
            )
        if not isinstance(self.copy_X_train, (bool, np.bool_)):
            raise ValueError(f"copy_X_train = {self.copy_X_train!r}: it is True or False, without effect")
        return kernel._fitted_to(X, names, self._levels)._to_json(names, self._levels)

    def _is_automatic(self):
        return isinstance(self.kernel, str) and self.kernel == "auto"

    def _seed(self):
        if self.random_state is None and not self.n_restarts_optimizer:
            # The rows of tuning and the samples of hyper-parameters do not vary from fit to fit.
            return 0
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _tune(self, model, X, names, target, **settings):
        settings["fixed_kernel"] = self.optimizer is None
        # By default the core averages over the profiles of the kernel "auto", for few rows.
        is_default = (
            isinstance(self.n_hyperparameter_samples, str) and self.n_hyperparameter_samples == "auto"
        )
        samples = hyperparameter_samples(self.n_hyperparameter_samples, 0, self.optimizer)
        if getattr(self, "protect", None) is not None:
            if samples:
                raise ValueError(
                    f"n_hyperparameter_samples = {samples}: models with protected features are not averaged: "
                    "leave it out"
                )
            is_default = False
        settings["n_hyperparameter_samples"] = None if is_default else samples or 0
        # Classifiers through landmarks have the kernel's own profile.
        settings["rougher_profiles"] = self._is_automatic() and getattr(self, "n_landmarks", None) is None
        settings["restarts"] = whole_number("n_restarts_optimizer", self.n_restarts_optimizer, 0)
        if self.optimizer is not None and settings.get("n_landmarks") is None:
            count = self.n_tuning_rows
            rows = max(len(X), 10) if count is None else whole_number("n_tuning_rows", count, 10)
            settings["search_rows"] = rows
        fit = self._fit(
            model, self._start(X, names), names, X, target, seed=self._seed(), stacklevel=4, **settings
        )
        self.log_marginal_likelihood_value_ = fit.log_marginal_likelihood
        self.average_ = None
        if fit.average is not None:
            parts, effective = fit.average
            if self._units:
                parts = [(weight, model.with_units(self._units)) for weight, model in parts]
            self.average_ = ModelAverage._of_fit(self.expansion_, (parts, effective))
        return fit

    def save(self, path: str | os.PathLike[str], *, posterior: bool = False) -> None:
        """Writes the fitted model as a riesz model file, or the average over hyper-parameters as a file of
        :class:`ModelAverage`, which the command line reads too.

        Parameters
        ----------
        path : path
        posterior : bool, default False
            Whether the file also holds the posterior, which standard deviations and class probabilities
            need: 4 n² bytes for n rows (16 MB for 2,000 rows), once per class if there are three or more,
            and once per model of an average.
        """
        check_is_fitted(self)
        (self.expansion_ if self.average_ is None else self.average_).save(path, posterior=posterior)


class GaussianProcessRegressor(ProcessAttributesMixin, MultiOutputMixin, _Tuned, _Protecting, _Regressor):
    """Gaussian process regression with hyper-parameters that maximise the marginal likelihood.

    Parameters
    ----------
    kernel : riesz.kernels.Kernel, str or kernel of scikit-learn, default ``Constant(1) * RBF(1)``
        Prior covariance; tuning starts from its parameters. ``"auto"`` is a constant times an RBF whose
        length scale for each column starts at the median distance, or the same with a Matérn profile (ν = 5/2
        or 3/2) or a Laplacian one, whichever has the largest marginal likelihood. Another str is an
        expression of the command line, such as ``"matern52(ard)"``. A kernel of
        ``sklearn.gaussian_process.kernels`` is converted; its bounds are not used.
    alpha : float, default None
        Variance of the noise, in units of the normalised targets if ``normalize_y``. ``None`` tunes it,
        starting from 0.1. scikit-learn's default, 1e-10, is for targets without noise.
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps the kernel fixed.
    n_restarts_optimizer : int, default 0
        Number of additional runs from random start values.
    normalize_y : bool, default True
        Whether to standardise the targets before the fit.
    copy_X_train : bool, default True
        Without effect: the model always has a copy of the rows.
    n_targets : int, optional
        The number of targets, which must be that of ``y``. scikit-learn needs it for draws before the fit,
        which riesz does not have.
    random_state : int, RandomState or None
    n_hyperparameter_samples : int or "auto"
        Number of samples of the hyper-parameters from their posterior over which predictions are averaged; 0
        takes the best ones. Intervals then include the uncertainty of the hyper-parameters, which matters for
        few rows. Their priors are weakly informative and centered at the start values, so give a kernel with
        plausible ones, such as ``"auto"``, with which averages include all plausible profiles. A sample takes
        as long as a fit without tuning. ``"auto"``, the default, is 64 for 5 to 300 rows with the kernel
        ``"auto"``, and otherwise 0.
    n_tuning_rows : int or None, default 2000
        Maximum number of rows on which hyper-parameters are tuned; if there are more, this number is drawn
        with ``random_state``. ``None`` uses all rows. The fit itself uses all rows.
    n_inducing : int, default None
        Number of inducing points (Titsias 2009), for many rows. The points are means of clusters of rows, and
        the cost grows linearly with the rows instead of with their cube. Tuning uses at most 20,000 rows.
        ``None`` uses the dense fit.
    protect, protect_strength, protect_game, protect_coalitions, protect_range, protect_equal
        Protected features, as in :class:`KernelRidge`: the values of the posterior mean are
        penalised in units of the noise, and the posterior is that given further observations of these values
        (of the interpolant of f at the rows), with errors of variance ``n noise / protect_strength``.
        Hyper-parameters are tuned without the penalty, and are not averaged. A range must be a target
        ``(t, t)``.
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Attributes
    ----------
    log_marginal_likelihood_value_ : float
        Log marginal likelihood of the targets in their own units. With ``n_inducing`` it is a lower bound;
        the model card also has an upper bound.
    X_train_ : array of shape (n, d)
        The training rows. Like the next three, it belongs to the exact fit without ``n_inducing``.
    y_train_ : array of shape (n,) or (n, targets)
        The targets, normalised if ``normalize_y``.
    alpha_ : array of shape (n,) or (n, targets)
        Dual coefficients of the normalised targets.
    L_ : array of shape (n, n)
        Lower Cholesky factor of their covariance; it is computed at each access.
    noise_ : float
        Variance of the noise, given or tuned; for one target in squared units of the target.
    kernel_ : riesz.kernels.Kernel
        The tuned kernel; for one target in squared units of the target.
    expansion_ : Expansion
        The model with the best hyper-parameters.
    average_ : ModelAverage or None
        With ``n_hyperparameter_samples``, the average, which all methods of the estimator and explanations
        use.
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        Names of the columns of a data frame.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)
    >>> model = riesz.GaussianProcessRegressor(random_state=0).fit(X, y)
    >>> mean, std = model.predict(X[:3], return_std=True)
    >>> mean.shape, std.shape
    ((3,), (3,))
    """

    def __init__(
        self,
        kernel: KernelLike | None = None,
        *,
        alpha: float | None = None,
        optimizer: Optimizer = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        normalize_y: bool = True,
        copy_X_train: bool = True,
        n_targets: int | None = None,
        random_state: RandomState = None,
        n_hyperparameter_samples: int | Literal["auto"] = "auto",
        n_tuning_rows: int | None = 2000,
        n_inducing: int | None = None,
        protect: Features | None = None,
        protect_strength: float = 1.0,
        protect_game: str | Game = "interventional",
        protect_coalitions: int | None = None,
        protect_range: ValueRange = None,
        protect_equal: bool = False,
        columns: ColumnChoices | None = None,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.normalize_y = normalize_y
        self.copy_X_train = copy_X_train
        self.n_targets = n_targets
        self.random_state = random_state
        self.n_hyperparameter_samples = n_hyperparameter_samples
        self.n_tuning_rows = n_tuning_rows
        self.n_inducing = n_inducing
        self.protect = protect
        self.protect_strength = protect_strength
        self.protect_game = protect_game
        self.protect_coalitions = protect_coalitions
        self.protect_range = protect_range
        self.protect_equal = protect_equal
        self.columns = columns

    def fit(self, X: MatrixLike, y: ArrayLike) -> Self:
        """Fits the model; several targets share kernel and noise.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
        y : array of shape (n,) or (n, targets)

        Returns
        -------
        GaussianProcessRegressor
            The fitted estimator.
        """
        rows, targets, names = self._targets(X, y, several=True)
        if self.n_targets is not None and whole_number("n_targets", self.n_targets, 1) != targets.shape[1]:
            raise ValueError(
                f"n_targets = {self.n_targets}, but y has {targets.shape[1]}: leave n_targets out"
            )
        if isinstance(self.alpha, (list, tuple, np.ndarray)):
            raise ValueError(
                "alpha is an array: the noise of all rows has one variance here: give one number, or None to "
                "tune it"
            )
        noise = None if self.alpha is None else positive_number("alpha", self.alpha, ", or None to tune it")
        if noise is None and self.optimizer is None:
            # The start value of tuning.
            noise = 0.1
        count = None if self.n_inducing is None else whole_number("n_inducing", self.n_inducing, 1)
        settings = {"noise": noise, "n_landmarks": count, "normalize_y": bool(self.normalize_y)}
        if self.protect is not None and count is not None:
            raise ValueError("protect belongs to fits without inducing points: leave n_inducing out")
        self.noise_ = self._tune("gp", rows, names, targets, **settings).noise
        penalty = self._penalty(self.expansion_._core.kernel, names, rows)
        if penalty is not None:
            self.expansion_ = Expansion._wrap(self.expansion_._core.penalised(penalty, self.noise_))
        self._store_targets(targets, bool(self.normalize_y), keep=count is None)
        return self

    def predict(self, X: MatrixLike, return_std: bool = False, return_cov: bool = False) -> Any:
        """Returns the posterior mean of the latent function, and its uncertainty on request.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)
        return_std, return_cov : bool, default False
            Whether to return the standard deviation or the covariance too, without the noise of a new
            observation. Only one of them may be True.

        Returns
        -------
        mean : array of shape (rows,) or (rows, targets)
        std : array of the same shape, with ``return_std``
        cov : array of shape (rows, rows) or (rows, rows, targets), with ``return_cov``
        """
        check_is_fitted(self)
        if self.average_ is not None:
            moments = self.average_._moments(_rows(self, X), return_std, return_cov)
            moments = tuple(array[..., 0] if self._one_target else array for array in moments)
            return moments if len(moments) > 1 else moments[0]
        mean = super().predict(X)
        if not (return_std or return_cov):
            return mean
        (deviations,) = deviations_of(self.expansion_, _rows(self, X), return_std, return_cov)
        return mean, deviations[..., 0] if self._one_target else deviations

    def sample_y(self, X: MatrixLike, n_samples: int = 1, random_state: RandomState = 0) -> np.ndarray:
        """Returns joint draws of the latent function from its posterior.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)
        n_samples : int, default 1
        random_state : int, RandomState or None, default 0

        Returns
        -------
        array of shape (rows, n_samples) or (rows, targets, n_samples)
        """
        check_is_fitted(self)
        if self.average_ is not None:
            drawn = self.average_._drawn(_rows(self, X), n_samples, random_state)
        else:
            count = whole_number("n_samples", n_samples, 1)
            seed = int(check_random_state(random_state).randint(2**31 - 1))
            drawn = self.expansion_._core.sample(_rows(self, X), count, seed)
        return drawn[0] if self._one_target else np.moveaxis(drawn, 0, 1)


class GaussianProcessClassifier(MarginalLikelihoodMixin, _Probable, _Tuned, _Classifier):
    """Gaussian process classification by Laplace's approximation; one-vs-rest for several classes.

    Parameters
    ----------
    kernel : riesz.kernels.Kernel, str or kernel of scikit-learn, default ``Constant(1) * RBF(1)``
        Prior covariance; tuning starts from its parameters. ``"auto"`` is a constant times an RBF whose
        length scale for each column starts at the median distance, or the same with a Matérn profile (ν = 5/2
        or 3/2) or a Laplacian one, whichever has the largest marginal likelihood. Another str is an
        expression of the command line, such as ``"matern52(ard)"``. A kernel of
        ``sklearn.gaussian_process.kernels`` is converted; its bounds are not used.
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps the kernel fixed.
    n_restarts_optimizer : int, default 0
        Number of additional runs from random start values.
    max_iter_predict : 100
        Newton's method runs until it converges, whatever the number, so no other value is allowed.
    warm_start : False
        Each fit starts anew.
    copy_X_train : bool, default True
        Without effect: the model always has a copy of the rows.
    random_state : int, RandomState or None
    multi_class : "one_vs_rest"
        For pairs of classes use ``sklearn.multiclass.OneVsOneClassifier``.
    n_jobs : None or -1
        Without effect: the fit runs on all cores.
    n_hyperparameter_samples : int or "auto"
        Number of samples of the hyper-parameters over which predictions are averaged, described at
        :class:`GaussianProcessRegressor`; 0 takes the best ones. Not with ``n_landmarks``.
    n_tuning_rows : int or None, default 1500
        Maximum number of rows on which hyper-parameters are tuned; if there are more, this number is drawn
        with ``random_state``. ``None`` uses all rows. The fit itself uses all rows.
    n_landmarks : int, default None
        For two classes: maximum number of landmarks, for many rows. Each Newton step takes one pass over the
        rows, and the kernel is tuned on 1,000 rows. ``None`` uses the dense fit.
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Attributes
    ----------
    log_marginal_likelihood_value_ : float
        Log marginal likelihood in Laplace's approximation; with ``n_landmarks`` of the approximate process.
    classes_ : array of shape (classes,)
    n_classes_ : int
    kernel_ : riesz.kernels.Kernel
        The tuned kernel.
    expansion_ : Expansion
        The model with the best hyper-parameters.
    average_ : ModelAverage or None
        With ``n_hyperparameter_samples``, the average, which all methods of the estimator and explanations
        use.
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        Names of the columns of a data frame.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model = riesz.GaussianProcessClassifier(random_state=0).fit(X, X[:, 0] > 0)
    >>> model.predict_proba(X[:3]).shape
    (3, 2)
    """

    def __init__(
        self,
        kernel: KernelLike | None = None,
        *,
        optimizer: Optimizer = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        max_iter_predict: int = 100,
        warm_start: bool = False,
        copy_X_train: bool = True,
        random_state: RandomState = None,
        multi_class: str = "one_vs_rest",
        n_jobs: int | None = None,
        n_hyperparameter_samples: int | Literal["auto"] = "auto",
        n_tuning_rows: int | None = 1500,
        n_landmarks: int | None = None,
        columns: ColumnChoices | None = None,
    ) -> None:
        self.kernel = kernel
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_iter_predict = max_iter_predict
        self.warm_start = warm_start
        self.copy_X_train = copy_X_train
        self.random_state = random_state
        self.multi_class = multi_class
        self.n_jobs = n_jobs
        self.n_hyperparameter_samples = n_hyperparameter_samples
        self.n_tuning_rows = n_tuning_rows
        self.n_landmarks = n_landmarks
        self.columns = columns

    def fit(self, X: MatrixLike, y: ArrayLike) -> Self:
        """Fits the model to labels of any type.

        Parameters
        ----------
        X : array or data frame of shape (n, d)
        y : array of shape (n,)
            The classes.

        Returns
        -------
        GaussianProcessClassifier
            The fitted estimator.
        """
        self._check()
        rows, codes, _, names = self._labels(X, y, None)
        count = None if self.n_landmarks is None else whole_number("n_landmarks", self.n_landmarks, 1)
        self._tune("gpc", rows, names, self._target(codes), n_landmarks=count)
        self.n_classes_ = len(self.classes_)
        return self

    def _check(self) -> None:
        for name, allowed, why in [
            ("max_iter_predict", (100,), "Newton's method runs until it converges"),
            ("warm_start", (False,), "each fit starts anew"),
            ("multi_class", ("one_vs_rest",), "wrap it in sklearn.multiclass.OneVsOneClassifier for pairs"),
            ("n_jobs", (None, -1), "the fit runs on all cores"),
        ]:
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} = {getattr(self, name)!r}: {why}: leave it out")

    def latent_mean_and_variance(self, X: MatrixLike) -> tuple[np.ndarray, np.ndarray]:
        """Returns the posterior mean and variance of the latent function, for two classes.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)

        Returns
        -------
        mean, variance : arrays of shape (rows,)
        """
        check_is_fitted(self)
        if len(self.classes_) > 2:
            raise ValueError(
                f"there are {len(self.classes_)} classes, each with its latent function: "
                "expansion_.predict_link(X, return_std=True) has them all"
            )
        if self.average_ is not None:
            mean, std = self.average_._moments(_rows(self, X), True, False)
            return mean[:, 0], std[:, 0] ** 2
        mean, std = self.expansion_.predict_link(X, return_std=True)
        return mean, std**2

    def _probabilities(self, rows: np.ndarray) -> np.ndarray:
        average = self.average_
        if average is None:
            return super()._probabilities(rows)
        return average._mean([np.asarray(model._core.probabilities(rows)) for model in average.models])

    def _predicted_codes(self, rows: np.ndarray) -> np.ndarray:
        if self.average_ is None:
            return super()._predicted_codes(rows)
        return self._probabilities(rows).argmax(axis=1)


def imported(model: _KernelMachine) -> Read:
    """Returns the estimator in the form that :class:`riesz.Explainer` reads."""
    explained = {
        "SVC": "decision function (one of each pair of classes)",
        "KernelLogisticRegression": "log-odds",
        "GaussianProcessClassifier": "posterior mean of the latent function",
        "GaussianProcessRegressor": "posterior mean",
    }
    expansion = model.expansion_
    description = explained.get(type(model).__name__, "prediction")
    read = Read(description, expansion.output_names, expansion.predict, lambda: [expansion])
    # As for scikit-learn's SVC, classes are explained too if they are its decisions.
    by_class = getattr(model, "decision_function_shape", None) == "ovr"
    several = by_class and len(expansion.output_names) > 1
    return with_class_sums(read, expansion.classes) if several else read
