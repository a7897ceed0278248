"""Kernel machines with scikit-learn's contract, fitted by riesz.

They clone, pickle, go into pipelines and grid searches, and take arrays of numbers and data frames.
``kernel`` is ``"rbf"``, ``"laplacian"``, ``"linear"`` or ``"poly"``, with ``gamma``, ``degree`` and ``coef0``
as in scikit-learn, or a kernel of :mod:`riesz.kernels`; the fitted model is ``expansion_``, its kernel
``kernel_``, and :class:`riesz.Explainer` takes the estimator itself.

``gamma`` is a number, or says how rows give length scales: ``"scale"`` and ``"auto"`` as in scikit-learn,
``"median"`` and ``"median_per_feature"`` as in :mod:`riesz.kernels`. Where rows have weights, ``"scale"``
counts them as often as their weight says, so that a weight is the same as repeating the row, as scikit-learn
asks of estimators; its own counts each row once. ``class_weight="balanced"`` counts rows likewise, as
scikit-learn's ``LogisticRegression`` does and its ``SVC`` does not. For scikit-learn's numbers give
``gamma=1 / (X.shape[1] * X.var())``, and the class weights as a dict.

``alpha="auto"`` and ``C="auto"`` take what predicts held-out rows best, and with it the best multiple of the
length scales if rows say these; length scales that are given as numbers are kept, and so are all where
features are protected. ``folds`` is how often rows are held out; what was chosen is in ``alpha_`` or ``C_``
and ``kernel_``. Of more than 2,000 rows (1,000 with ``folds``) so many are looked at, drawn at random, and
the model is then fitted on all; its card says so.

Columns of categories in data frames (text, and pandas' ``category``) are taken as they are: kernels read the
columns of numbers, times a factor for each column of categories, which is 1 where two rows are alike in it
and less where they differ (:class:`riesz.kernels.Categorical`), as on the command line. A column of type
``category`` may take any of its categories later, one of text those that it was fitted on;
``expansion_.with_unseen()`` is the same model, which takes others for none of these.

What a column of text is, the same rules say as on the command line (:doc:`tables`): texts that are all
numbers are read as numbers, also with separators of thousands, a currency or a unit, with a warning; codes
with leading zeros are categories; texts that differ in nearly every row are refused.
``columns={"zip": "text", "age": "number"}`` overrides this. Columns of numbers that only number the rows, or
hold marks such as -9999, are warned of."""

from __future__ import annotations

import datetime
import json
import numbers
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_X_y, validate_data

from . import _core
from . import kernels as rk
from ._expansion import Expansion, deviations_of
from ._model_loading import Read, with_class_sums
from ._table_columns import column_units, read_categories, warn_of_numbers
from ._validation import (
    as_cells,
    as_numbers,
    collected,
    dense,
    is_missing,
    is_whole,
    names_of,
    numbered,
    row_parts,
)

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


class _KernelMachine(BaseEstimator):
    """The base of all estimators: a kernel, names of columns, and an expansion."""

    expansion_: Expansion
    #: What the user says of columns.
    columns: dict[str, str] | None = None
    #: For each column its levels; ``None`` for one of numbers, or if all are.
    _levels: list[list[str] | None] | None = None
    #: The units of columns of text that hold numbers with a unit, by name.
    _units: list[tuple[str, str]] = []
    #: The ridge or the price of errors, given or chosen.
    _chosen: float | None = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _names(self, X: np.ndarray) -> list[str]:
        return [str(n) for n in getattr(self, "feature_names_in_", numbered(X.shape[1]))]

    def _kernel(self, X: np.ndarray, names: list[str], sample_weight: np.ndarray | None = None) -> str:
        """The kernel in the core's form."""
        kernel, levels = self.kernel, self._levels  # type: ignore[attr-defined]
        # A row of weight 0 is no row.
        rows = X if sample_weight is None else X[sample_weight > 0]
        if isinstance(kernel, rk.Kernel):
            return kernel._fitted_to(rows, names, levels)._to_json(names, levels)
        gamma = self.gamma  # type: ignore[attr-defined]
        if isinstance(gamma, str) and gamma in rk._RULES and kernel in ("rbf", "laplacian"):
            factor = rk.RBF(gamma) if kernel == "rbf" else rk.Laplacian(gamma)
            return factor._fitted_to(rows, names, levels)._to_json(names, levels)
        # What the rows say is said by their numbers.
        numeric = rk._numeric(names, levels)
        gamma = self._gamma_value(X[:, numeric], sample_weight) if numeric else 1.0
        if kernel == "rbf":
            kernel = rk.RBF(length_scale=1.0 / np.sqrt(2.0 * gamma))
        elif kernel == "laplacian":
            kernel = rk.Laplacian(length_scale=1.0 / gamma)
        elif kernel == "linear":
            kernel = rk.Linear()
        elif kernel == "poly":
            kernel = rk.Polynomial(degree=self.degree, gamma=gamma, coef0=self.coef0)  # type: ignore[attr-defined]
        else:
            raise ValueError(
                f"kernel = {kernel!r}: it is 'rbf', 'laplacian', 'linear', 'poly' or a kernel of "
                "riesz.kernels"
            )
        return kernel._to_json(names, levels)

    def _gamma_value(self, X: np.ndarray, sample_weight: np.ndarray | None) -> float:
        gamma = self.gamma  # type: ignore[attr-defined]
        if gamma == "auto":
            return 1.0 / X.shape[1]
        if gamma == "scale":
            # Rows count as often as their weight says, so that a weight is the same as repeating the row.
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
                f"gamma = {gamma!r}: it is a positive number, 'scale' or 'auto', or for the kernels 'rbf' "
                "and 'laplacian' "
                "'median' or 'median_per_feature'"
            )
        return _positive("gamma", gamma)

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
        """Fits by the core's kind of model and its named settings; says what it warns of."""
        weights = None if weights is None else weights.tolist()
        rows = names, self._levels or [None] * len(names), X
        fitted = _core.fit(model, kernel, rows, target, json.dumps(settings), weights, penalty, start, seed)
        for message in fitted.warnings:
            warnings.warn(f"{type(self).__name__}: {message}", ConvergenceWarning, stacklevel=stacklevel)
        model = fitted.model.with_units(self._units) if self._units else fitted.model
        self.expansion_, self._chosen = Expansion._wrap(model), fitted.chosen
        return fitted

    def _searched(
        self, name: str, setting: str, folds: int | None = None, keep_kernel: bool = False
    ) -> dict[str, Any]:
        """The setting that ``name`` says, or how it is chosen; ``folds`` are how many where nobody says."""
        value, given_folds = getattr(self, name), self.folds  # type: ignore[attr-defined]
        if not (isinstance(value, str) and value == "auto"):
            if given_folds is not None:
                raise ValueError(
                    f"folds = {given_folds!r} is given, but {name} = {value!r} is not 'auto', and nothing "
                    f"is chosen"
                )
            return {setting: _positive(name, value, ", or 'auto'")}
        kernel, gamma = self.kernel, self.gamma  # type: ignore[attr-defined]
        from_rows = kernel._takes_rows() if isinstance(kernel, rk.Kernel) else isinstance(gamma, str)
        folds = folds if given_folds is None else _count("folds", given_folds, 2)
        return {setting: "auto", "folds": folds, "fixed_kernel": keep_kernel or not from_rows}

    def _refits(self) -> dict[str, int]:
        """The seed, and how many refits are asked for, if any."""
        count, seed = self.bootstrap, _count("bootstrap_seed", self.bootstrap_seed, 0)  # type: ignore[attr-defined]
        return {"seed": seed} | ({} if count is None else {"bootstrap": _count("bootstrap", count, 2)})

    @property
    def kernel_(self) -> rk.Kernel:
        """The kernel of the fitted model, multiplied out, in the units of the columns; that of a Gaussian
        process is tuned, for regression in the units of the target."""
        return rk._from_json(self.expansion_._core.kernel, self.expansion_.feature_names)

    def _outputs(self, X: Any) -> np.ndarray:
        """The expansion at the rows of X, rows × outputs."""
        check_is_fitted(self)
        return np.concatenate([self.expansion_._core.predict(_rows(self, part)) for part in row_parts(X)])

    def save(self, path: Any, *, posterior: bool = False) -> None:
        """Writes the fitted model as a riesz model file, which the command line reads too. With ``posterior``
        it keeps how sure the model is: of Gaussian processes what standard deviations and class probabilities
        need, 4 n² bytes for n rows (16 MB for 2,000), with three classes or more for each; of refits 8 n
        bytes for each and output."""
        check_is_fitted(self)
        self.expansion_.save(path, posterior=posterior)


def _rows(estimator: Any, X: Any) -> np.ndarray:
    expansion = estimator.expansion_
    if estimator._levels is not None:
        names, units = expansion.feature_names, expansion._core.units
        return as_numbers(collected(X), names, "X", estimator._levels, units=units)
    return np.ascontiguousarray(_validated(estimator, X, reset=False))


def _fitted_on(estimator: Any, X: Any, y: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Validates rows and targets to fit to, as scikit-learn's ``validate_data`` does. Columns of categories
    become codes of ``estimator._levels``."""
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
    # Names and the number of columns are the data frame's.
    validate_data(estimator, X, skip_check_array=True)
    rows, y = check_X_y(categories.numbers, y, dtype=np.float64, estimator=estimator, **options)
    return rows, np.asarray(y, dtype=np.float64) if options.get("y_numeric") else y


def _checked_targets(y: Any) -> Any:
    """Refuses targets that are dates, masked or missing; an object array of truth values becomes one of type
    bool."""
    if np.ma.is_masked(y):
        raise ValueError("y has masked cells, whose values would be learnt: leave their rows out")
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
    gone = next((i for i, cell in enumerate(flat) if is_missing(cell)), None)
    if gone is not None:
        row = gone // max(1, len(flat) // max(1, len(cells)))
        raise ValueError(f"y is {flat[gone]} in row {row} (from 0): fill the value in or remove the row")
    return cells.astype(bool) if all(isinstance(cell, (bool, np.bool_)) for cell in flat) else y


def _is_dates(cells: np.ndarray) -> bool:
    """Whether the first cell of an object array is a date, a time or a duration."""
    if cells.dtype.kind != "O" or not cells.size:
        return False
    return isinstance(cells.ravel()[0], (datetime.date, datetime.time, datetime.timedelta))


def _validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """scikit-learn's ``validate_data`` of numbers, which names dates and text where it finds them."""
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
    """Raises an error that names the first column whose type, or of which a cell, is a date, a time or a
    duration."""
    names, dtype = names_of(X), getattr(X, "dtype", None)
    if cell_by_cell:
        cells, times = as_cells(X), (datetime.date, datetime.time, datetime.timedelta)
        kinds = [
            next((type(cell).__name__ for cell in column if isinstance(cell, times)), None)
            for column in cells.T
        ]
    else:
        types = [dtype] if dtype is not None else list(getattr(X, "dtypes", []))
        # numpy's and pandas' have these kinds; polars' and Arrow's have no kind, or that of an object.
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
    """Raises an error that names the first column with text, and a cell of it."""
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


def _positive(name: str, value: Any, else_: str = "") -> float:
    if isinstance(value, numbers.Real) and 0 < float(value) < np.inf:
        return float(value)
    raise ValueError(f"{name} = {value!r}: it is a positive number{else_}")


def _iterations(max_iter: int) -> int | None:
    if max_iter == -1:
        return None
    if is_whole(max_iter) and max_iter > 0:
        return int(max_iter)
    raise ValueError(f"max_iter = {max_iter!r}: it is a whole number from 1, or -1 for no limit")


def _count(name: str, value: Any, minimum: int) -> int:
    if is_whole(value) and minimum <= value < 2**63:
        return int(value)
    limit = ", below 2**63" if is_whole(value) and value >= 2**63 else ""
    raise ValueError(f"{name} = {value!r}: it is a whole number from {minimum}{limit}")


class _Regressor(RegressorMixin, _KernelMachine):
    """Regressors with one or several targets."""

    def _targets(self, X: Any, y: Any, *, several: bool) -> tuple[np.ndarray, np.ndarray, list[str]]:
        X, y = _fitted_on(self, X, y, multi_output=several, y_numeric=True, ensure_min_samples=2)
        self._one_target = y.ndim == 1
        return np.ascontiguousarray(X), np.ascontiguousarray(y.reshape(len(y), -1)), self._names(X)

    def predict(self, X: Any) -> np.ndarray:
        """Predictions, (rows,), or (rows, targets) if fitted to a table of targets."""
        out = self._outputs(X)
        return out[:, 0] if self._one_target else out


class _Classifier(ClassifierMixin, _KernelMachine):
    """Classifiers: labels of any kind, class weights, decision functions of scikit-learn's shapes."""

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
        """Labels as the core takes them."""
        return codes.tolist(), self._class_names()

    def _class_names(self) -> list[str]:
        names = [str(c) for c in self.classes_]
        return names if len(set(names)) == len(names) else [repr(c) for c in self.classes_]

    def _class_weights(self, codes: np.ndarray, sample_weight: np.ndarray | None) -> dict[str, float] | None:
        """Numbers by class; ``"balanced"`` counts rows as often as their weight says."""
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

    def predict(self, X: Any) -> np.ndarray:
        """The predicted classes."""
        check_is_fitted(self)
        classify = self.expansion_._core.classify
        codes = [np.asarray(classify(_rows(self, part)), dtype=np.intp) for part in row_parts(X)]
        return self.classes_[np.concatenate(codes)]


class _Probable:
    """The methods of classifiers with probabilities."""

    expansion_: Expansion

    def predict_proba(self, X):
        """Class probabilities, (rows, classes); of Gaussian processes averaged over the posterior of the
        latent functions."""
        check_is_fitted(self)
        return np.concatenate(
            [self.expansion_._core.probabilities(_rows(self, part)) for part in row_parts(X)]
        )


class _Protecting:
    """The methods of estimators that can protect features."""

    def _penalty(self, kernel: str, names: list[str], X: np.ndarray):
        from ._protected_features import penalty

        # A path of strengths keeps what does not change.
        path = self._on_path()
        result = penalty(self, kernel, names, X, path.get("functionals"))
        if result is not None:
            path["functionals"] = result[0], result[2]
        return result

    def _on_path(self) -> dict[str, Any]:
        """The values that the fits of :func:`riesz.protection_path` share."""
        return getattr(self, "_path", {})


class KernelRidge(_Protecting, MultiOutputMixin, _Regressor):
    """Kernel ridge regression: ``min_f Σ_i w_i (y_i - f(x_i))² + alpha |f|²``, as scikit-learn's, and if
    features are protected ``+ protect_strength / n Σ φ²`` over their Shapley values (RKHS-SHAP,
    Shapley-regularised learning).

    Parameters
    ----------
    alpha : float or "auto", default 1
        The ridge; ``"auto"`` for the least leave-one-out error, or with ``folds`` the least squared error on
        folds.
    kernel, gamma, degree, coef0
        See :mod:`riesz.estimators`.
    fit_intercept : bool, default False
        Whether to fit on targets minus their mean, which becomes the intercept.
    folds : int, optional
        Folds of ``alpha="auto"``; by default rows are left out one by one, and where they have weights there
        are 5 folds.
    landmarks : int, optional
        Learns through at most so many rows that stand for all, for many rows: cost ``n * landmarks²``, memory
        ``landmarks²``. They become the model's points. ``alpha="auto"`` is then by folds, 5 unless ``folds``
        says; what needs the dense fit is refused. ``riesz.Explainer(model, background, covariance=True)``
        then says how far values may be from those with all rows as points, by an estimate. More rows than
        memory holds: :func:`riesz.distributed.fit`, or the command line.
    protect : list of columns, or dict of name to columns, optional
        Features (or groups of them) whose Shapley values at the training rows are penalised, by name or
        number.
    protect_strength : float, default 1
        The penalty is ``protect_strength / n * sum of squared values``.
    protect_game : {"interventional", "observational"} or game, default "interventional"
        The game of these values, by default against the training rows; :class:`riesz.Observational` and
        :class:`riesz.Interventional` carry another background and settings. The observational one also takes
        away what other features say of the protected ones.
    protect_coalitions, protect_seed : int, optional
        Observational game of more than 16 features: what is penalised is estimated from so many coalitions
        (by default 4096), drawn with this seed.
    bootstrap, bootstrap_seed : int, optional
        Fits so many times more, 200 say, to as many rows drawn anew from these with replacement, so that
        ``riesz.Explainer(model, background, covariance=True)`` says how far values vary from sample to
        sample, at this kernel and ``alpha``. That is neither how wrong a ridge makes the model on average,
        nor what choosing the two adds. A standard deviation of N refits has itself a relative error of about
        ``1 / sqrt(2 N)``.
    jackknife : bool, default False
        The same from leaving out one row after the other, in closed form: nothing is drawn. It takes about
        three fits, and 8 n² bytes a target.
    columns : dict of name to {"text", "number"}, optional
        What columns of a data frame are, where they look like something else.
    """

    def __init__(
        self,
        alpha=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        fit_intercept=False,
        folds=None,
        landmarks=None,
        protect=None,
        protect_strength=1.0,
        protect_game="interventional",
        protect_coalitions=None,
        protect_seed=0,
        bootstrap=None,
        bootstrap_seed=0,
        jackknife=False,
        columns=None,
    ):
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.folds = folds
        self.landmarks = landmarks
        self.protect = protect
        self.protect_strength = protect_strength
        self.protect_game = protect_game
        self.protect_coalitions = protect_coalitions
        self.protect_seed = protect_seed
        self.bootstrap = bootstrap
        self.bootstrap_seed = bootstrap_seed
        self.jackknife = jackknife
        self.columns = columns

    def fit(self, X, y, sample_weight=None):
        """Fits to ``y``, (n,) or (n, targets). Cost n³/3 and the gram matrix, and with ``bootstrap`` a
        quarter of it a refit."""
        X, y, names = self._targets(X, y, several=True)
        weights = _weights(sample_weight, X)
        kernel = self._kernel(X, names, weights)
        if weights is not None:
            # A row of weight 0 is no row.
            X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        penalty = self._penalty(kernel, names, X)
        settings = self._searched("alpha", "ridge", None if weights is None else 5, self.protect is not None)
        if not isinstance(self.jackknife, (bool, np.bool_)):
            raise ValueError(f"jackknife = {self.jackknife!r}: it is True or False")
        settings |= self._refits() | ({"jackknife": True} if self.jackknife else {})
        settings["fit_intercept"] = bool(self.fit_intercept)
        if self.landmarks is not None:
            settings["landmarks"] = _count("landmarks", self.landmarks, 1)
        self._fit(
            "krr",
            kernel,
            names,
            X,
            y,
            weights,
            penalty=penalty,
            **settings,
        )
        self.alpha_ = self._chosen
        self.dual_coef_ = self.expansion_.coef[:, 0] if self._one_target else self.expansion_.coef
        return self


class SVR(_Regressor):
    """ε-insensitive support vector regression: LIBSVM's optimum.

    Parameters
    ----------
    C : float or "auto", default 1
        Price of errors; ``"auto"`` for the least squared error on folds.
    epsilon : float, default 0.1
        Errors up to this cost nothing.
    kernel, gamma, degree, coef0
        See :mod:`riesz.estimators`.
    tol : float, default 1e-3
    max_iter : int, default -1
        Most iterations; -1 for no limit. A fit that stops there warns with scikit-learn's
        ``ConvergenceWarning``.
    folds : int, optional
        Folds of ``C="auto"``, by default 5.
    bootstrap, bootstrap_seed : int, optional
        Fits so many times more to rows drawn anew, as :class:`KernelRidge` does, and the support vectors of
        all refits become points of the model.
    columns : dict of name to {"text", "number"}, optional
        What columns of a data frame are, where they look like something else.
    """

    def __init__(
        self,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        C=1.0,
        epsilon=0.1,
        tol=1e-3,
        max_iter=-1,
        folds=None,
        bootstrap=None,
        bootstrap_seed=0,
        columns=None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.epsilon = epsilon
        self.tol = tol
        self.max_iter = max_iter
        self.folds = folds
        self.bootstrap = bootstrap
        self.bootstrap_seed = bootstrap_seed
        self.columns = columns

    def fit(self, X, y, sample_weight=None):
        """Fits to ``y``, (n,)."""
        X, y, names = self._targets(X, y, several=False)
        weights = _weights(sample_weight, X)
        kernel = self._kernel(X, names, weights)
        settings = {
            "tol": _positive("tol", self.tol),
            "max_iter": _iterations(self.max_iter),
            **self._searched("C", "c"),
        }
        settings |= self._refits()
        settings |= {"epsilon": float(self.epsilon), "normalize_y": False}
        fit = self._fit("svr", kernel, names, X, y, weights, **settings)
        self.support_, self.n_iter_ = np.asarray(fit.support), fit.iterations[0]
        self.C_ = self._chosen
        return self


class SVC(_Classifier):
    """Support vector classification: LIBSVM's optimum; one against one for several classes.

    Parameters
    ----------
    C : float or "auto", default 1
        Price of errors; ``"auto"`` for the best accuracy on folds.
    class_weight : None, "balanced" or dict
        Multiplies the price of a class's errors.
    kernel, gamma, degree, coef0
        See :mod:`riesz.estimators`.
    tol : float, default 1e-3
    max_iter : int, default -1
        Most iterations; -1 for no limit. A fit that stops there warns with scikit-learn's
        ``ConvergenceWarning``.
    folds : int, optional
        Folds of ``C="auto"``, by default 5.
    bootstrap, bootstrap_seed : int, optional
        Fits so many times more to rows drawn anew, as :class:`KernelRidge` does (of each class as many as
        there are), and the support vectors of all refits become points of the model.
    columns : dict of name to {"text", "number"}, optional
        What columns of a data frame are, where they look like something else.
    """

    def __init__(
        self,
        *,
        C=1.0,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        class_weight=None,
        tol=1e-3,
        max_iter=-1,
        folds=None,
        bootstrap=None,
        bootstrap_seed=0,
        columns=None,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.folds = folds
        self.bootstrap = bootstrap
        self.bootstrap_seed = bootstrap_seed
        self.columns = columns

    def fit(self, X, y, sample_weight=None):
        """Fits to labels of any kind."""
        X, codes, weights, names = self._labels(X, y, sample_weight)
        kernel = self._kernel(X, names, weights)
        settings = {
            "tol": _positive("tol", self.tol),
            "max_iter": _iterations(self.max_iter),
            **self._searched("C", "c"),
        }
        settings |= self._refits()
        settings["class_weight"] = self._class_weights(codes, weights)
        fit = self._fit(
            "svc",
            kernel,
            names,
            X,
            self._target(codes),
            weights,
            **settings,
        )
        self.support_, self.n_iter_ = np.asarray(fit.support), np.asarray(fit.iterations)
        self.C_ = self._chosen
        return self

    def decision_function(self, X):
        """(rows,) for two classes, positive for the second; (rows, classes) for more, from the votes of the
        pairs."""
        out = self._outputs(X)
        # The pairs' outputs are positive for the first class.
        return (
            out[:, 0]
            if len(self.classes_) == 2
            else _ovr_decision_function(out < 0, -out, len(self.classes_))
        )


class KernelLogisticRegression(_Protecting, _Probable, _Classifier):
    """Kernel logistic regression, binary and multinomial:
    ``min_f Σ_i w_i log loss(y_i, f(x_i)) + alpha/2 |f|²`` with an intercept that is not penalised, and if
    features are protected ``+ protect_strength / n Σ φ²`` over their Shapley values.

    Parameters
    ----------
    alpha : float or "auto", default 1
        The ridge; ``"auto"`` for the least log loss on folds.
    class_weight : None, "balanced" or dict
    kernel, gamma, degree, coef0
        See :mod:`riesz.estimators`.
    folds : int, optional
        Folds of ``alpha="auto"``, by default 5.
    landmarks : int, optional
        Two classes: learns through at most so many rows that stand for all, as :class:`KernelRidge` does, in
        a pass over all rows for each step of Newton's method. ``alpha="auto"`` is then chosen on 1,000 rows.
    max_iter : int, default 100
        Most Newton steps; ``n_iter_`` says how many were taken. A fit that stops there warns with
        scikit-learn's ``ConvergenceWarning``.
    protect : list of columns, or dict of name to columns, optional
        Features (or groups of them) whose Shapley values at the training rows are penalised, by name or
        number.
    protect_strength : float, default 1
        The penalty is ``protect_strength / n * sum of squared values``.
    protect_game : {"interventional", "observational"} or game, default "interventional"
        The game of these values, by default against the training rows; :class:`riesz.Observational` and
        :class:`riesz.Interventional` carry another background and settings. The observational one also takes
        away what other features say of the protected ones.
    protect_coalitions, protect_seed : int, optional
        Observational game of more than 16 features: what is penalised is estimated from so many coalitions
        (by default 4096), drawn with this seed.
    bootstrap, bootstrap_seed : int, optional
        Fits so many times more to rows drawn anew, as :class:`KernelRidge` does, of each class as many as
        there are.
    columns : dict of name to {"text", "number"}, optional
        What columns of a data frame are, where they look like something else.
    """

    def __init__(
        self,
        alpha=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        class_weight=None,
        max_iter=100,
        folds=None,
        landmarks=None,
        protect=None,
        protect_strength=1.0,
        protect_game="interventional",
        protect_coalitions=None,
        protect_seed=0,
        bootstrap=None,
        bootstrap_seed=0,
        columns=None,
    ):
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.folds = folds
        self.landmarks = landmarks
        self.protect = protect
        self.protect_strength = protect_strength
        self.protect_game = protect_game
        self.protect_coalitions = protect_coalitions
        self.protect_seed = protect_seed
        self.bootstrap = bootstrap
        self.bootstrap_seed = bootstrap_seed
        self.columns = columns

    def fit(self, X, y, sample_weight=None):
        """Fits to labels of any kind by Newton's method."""
        X, codes, weights, names = self._labels(X, y, sample_weight)
        kernel = self._kernel(X, names, weights)
        class_weights = self._class_weights(codes, weights)
        if self.protect is not None and weights is not None:
            # A row of weight 0 is no row.
            X, codes, weights = X[weights > 0], codes[weights > 0], weights[weights > 0]
        penalty = self._penalty(kernel, names, X)
        settings = self._searched("alpha", "ridge", keep_kernel=self.protect is not None)
        if self.landmarks is None:
            settings["max_iter"] = _count("max_iter", self.max_iter, 1)
        elif self.max_iter != 100:
            raise ValueError(f"max_iter = {self.max_iter!r} belongs to fits without landmarks: leave it out")
        else:
            settings["landmarks"] = _count("landmarks", self.landmarks, 1)
        settings |= self._refits()
        path = {"penalty": penalty, "start": self._on_path().get("start"), "class_weight": class_weights}
        fit = self._fit(
            "klr",
            kernel,
            names,
            X,
            self._target(codes),
            weights,
            **path,
            **settings,
        )
        self._on_path()["start"] = fit.end
        self.n_iter_ = fit.iterations[0]
        self.alpha_ = self._chosen
        return self

    def decision_function(self, X):
        """Log-odds of the second class, (rows,); for several classes log-probabilities up to a constant,
        (rows, classes)."""
        out = self._outputs(X)
        return out[:, 0] if len(self.classes_) == 2 else out


class _Tuned:
    """The methods that the Gaussian processes share."""

    expansion_: Expansion

    def _start(self, X, names):
        kernel = rk.Constant(1.0) * rk.RBF(1.0) if self.kernel is None else self.kernel
        if not isinstance(kernel, rk.Kernel):
            raise ValueError(
                f"kernel = {kernel!r}: it is a kernel of riesz.kernels, or None for Constant(1) * RBF(1)"
            )
        if self.optimizer not in (None, "fmin_l_bfgs_b"):
            raise ValueError(
                f"optimizer = {self.optimizer!r}: it is 'fmin_l_bfgs_b', or None to keep the kernel as it is"
            )
        return kernel._fitted_to(X, names, self._levels)._to_json(names, self._levels)

    def _seed(self):
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _tune(self, model, X, names, target, **settings):
        settings["fixed_kernel"] = self.optimizer is None
        settings["restarts"] = _count("n_restarts_optimizer", self.n_restarts_optimizer, 0)
        fit = self._fit(
            model, self._start(X, names), names, X, target, seed=self._seed(), stacklevel=4, **settings
        )
        self.log_marginal_likelihood_value_ = fit.log_marginal_likelihood
        return fit


class GaussianProcessRegressor(MultiOutputMixin, _Tuned, _Regressor):
    """Gaussian process regression, tuned by its marginal likelihood.

    Parameters
    ----------
    kernel : riesz.kernels.Kernel, default ``Constant(1) * RBF(1)``
        Prior covariance; where tuning starts.
    alpha : float, default None
        Variance of the noise, with ``normalize_y`` that of the normalised targets. ``None`` tunes it from
        0.1.
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps the kernel as it is.
    n_restarts_optimizer : int, default 0
        Further runs from random places.
    landmarks : int, default None
        Learn through so many inducing points, means of clusters of rows (Titsias 2009): for many rows, at a
        cost that grows with the rows and not with their cube. Tuning looks at 20,000 rows at most. ``None``
        for all rows as they are.
    normalize_y : bool, default True
    random_state : int, RandomState or None
    columns : dict of name to {"text", "number"}, optional
        What columns of a data frame are, where they look like something else.

    Attributes
    ----------
    log_marginal_likelihood_value_ : float
        Of the targets in their own units; with ``landmarks`` a lower bound of it; the model's card has an
        upper one too.
    """

    def __init__(
        self,
        kernel=None,
        *,
        alpha=None,
        optimizer="fmin_l_bfgs_b",
        n_restarts_optimizer=0,
        landmarks=None,
        normalize_y=True,
        random_state=None,
        columns=None,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.landmarks = landmarks
        self.normalize_y = normalize_y
        self.random_state = random_state
        self.columns = columns

    def fit(self, X, y):
        """Fits to ``y``, (n,) or (n, targets); several targets share kernel and noise."""
        X, y, names = self._targets(X, y, several=True)
        noise = None if self.alpha is None else _positive("alpha", self.alpha)
        if noise is None and self.optimizer is None:
            # What tuning would start from.
            noise = 0.1
        landmarks = None if self.landmarks is None else _count("landmarks", self.landmarks, 1)
        settings = {"noise": noise, "landmarks": landmarks, "normalize_y": bool(self.normalize_y)}
        self.noise_ = self._tune("gp", X, names, y, **settings).noise
        return self

    def predict(self, X, return_std=False, return_cov=False):
        """Posterior mean, and with ``return_std`` or ``return_cov`` the standard deviation or covariance of
        the latent function, without the noise of a new observation."""
        mean = super().predict(X)
        if not (return_std or return_cov):
            return mean
        (other,) = deviations_of(self.expansion_, _rows(self, X), return_std, return_cov)
        return mean, other[..., 0] if self._one_target else other

    def sample_y(self, X, n_samples=1, random_state=0):
        """Joint draws of the latent function from its posterior, (rows, n_samples) or (rows, targets,
        n_samples)."""
        check_is_fitted(self)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        drawn = self.expansion_._core.sample(_rows(self, X), _count("n_samples", n_samples, 1), seed)
        return drawn[0] if self._one_target else np.moveaxis(drawn, 0, 1)


class GaussianProcessClassifier(_Probable, _Tuned, _Classifier):
    """Gaussian process classification by Laplace's approximation, one class against the rest for several.

    Parameters
    ----------
    kernel : riesz.kernels.Kernel, default ``Constant(1) * RBF(1)``
        Prior covariance; where tuning starts.
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps the kernel as it is.
    n_restarts_optimizer : int, default 0
        Further runs from random places.
    landmarks : int, default None
        Two classes: learn through at most so many rows that stand for all, for many rows, in a pass over them
        for each step of Newton's method. The kernel is tuned on 1,000 rows. ``None`` for all rows as they
        are.
    random_state : int, RandomState or None
    columns : dict of name to {"text", "number"}, optional
        What columns of a data frame are, where they look like something else.

    Attributes
    ----------
    log_marginal_likelihood_value_ : float
        In Laplace's approximation; with ``landmarks`` that of the process that they span.
    """

    def __init__(
        self,
        kernel=None,
        *,
        optimizer="fmin_l_bfgs_b",
        n_restarts_optimizer=0,
        landmarks=None,
        random_state=None,
        columns=None,
    ):
        self.kernel = kernel
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.landmarks = landmarks
        self.random_state = random_state
        self.columns = columns

    def fit(self, X, y):
        """Fits to labels of any kind."""
        X, codes, _, names = self._labels(X, y, None)
        landmarks = None if self.landmarks is None else _count("landmarks", self.landmarks, 1)
        self._tune("gpc", X, names, self._target(codes), landmarks=landmarks)
        return self


def imported(model: _KernelMachine) -> Read:
    """The estimators as :class:`riesz.Explainer` reads them."""
    explained = {
        "SVC": "decision function (one of each pair of classes)",
        "KernelLogisticRegression": "log-odds",
        "GaussianProcessClassifier": "posterior mean of the latent function",
        "GaussianProcessRegressor": "posterior mean",
    }
    expansion = model.expansion_
    description = explained.get(type(model).__name__, "prediction")
    read = Read(description, expansion.output_names, expansion.predict, lambda: [expansion])
    several = type(model).__name__ == "SVC" and len(expansion.output_names) > 1
    return with_class_sums(read, expansion.classes) if several else read
