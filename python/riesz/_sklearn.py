"""scikit-learn's fitted kernel models as expansions, and the columns that a pipeline's steps make of the user's.

Nothing is guessed: a part that is not known raises :class:`~riesz.UnsupportedModelError` naming it, and every expansion
is compared with the model's own output at some of its support points before it is used.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from . import kernels as rk
from ._core import UnsupportedModelError
from ._data import as_cells, numbered
from ._expansion import Expansion
from ._imported import Imported, Read

#: Support points at which an expansion is compared with its model.
CHECKED = 16


def import_model(model: Any) -> Imported:
    """``model`` as expansions, or else as a function and the reason why."""
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    if isinstance(model, type):
        raise TypeError(f"{model.__name__} is a class: give a fitted model, {model.__name__}(...).fit(X, y)")
    if isinstance(model, Pipeline):
        return _pipeline(model)
    reader = _reader(model)
    check_is_fitted(model)
    read = reader(model)
    expansions, refusal = [], None
    try:
        expansions = read.expansions()
    except UnsupportedModelError as error:
        refusal = error
    # Support vector machines with a callable for a kernel have no n_features_in_.
    width = model.n_features_in_ if hasattr(model, "n_features_in_") else model.shape_fit_[1]
    names = _names_in(model, width)
    # The columns of a precomputed kernel are rows, and no features to mix.
    function = None if getattr(model, "kernel", None) == "precomputed" else read.function
    owners, kind = list(range(len(names))), type(model).__name__
    return Imported(expansions, read.explained, names, owners, None, kind, read.output_names, function, refusal)


def _reader(model: Any) -> Callable[[Any], Read]:
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

    from . import estimators

    readers: list[tuple[tuple[type, ...], Callable[[Any], Read]]] = [
        ((KernelRidge,), _kernel_ridge),
        ((SVR, NuSVR, OneClassSVM), _one_output_svm),
        ((SVC, NuSVC), _svc),
        ((GaussianProcessRegressor,), _gp_regressor),
        ((GaussianProcessClassifier,), _gp_classifier),
        ((estimators._KernelMachine,), estimators.imported),
    ]
    for kinds, reader in readers:
        if isinstance(model, kinds):
            return reader
    name = type(model).__name__
    if hasattr(model, "best_estimator_"):
        raise UnsupportedModelError(f"a {name} is a search, not a model: give the model that it found, .best_estimator_")
    known = ", ".join(kind.__name__ for kinds, _ in readers for kind in kinds if not kind.__name__.startswith("_"))
    raise UnsupportedModelError(
        f"a {name} is not a kernel model that riesz reads: it takes {known}, pipelines that end in one of these, "
        "riesz.Expansion and the path of a model file; for any other, give its function, model.predict or "
        "model.decision_function, and a background to estimate values from"
    )


def _names_in(model: Any, width: int) -> list[str]:
    names = getattr(model, "feature_names_in_", None)
    return numbered(width) if names is None else [str(name) for name in names]


# Models ------------------------------------------------------------------------------------------------------------


def _expansion(model: Any, kernel: rk.Kernel, points: Any, coef: Any, intercept: Any, outputs: list[str], own: Any):
    """An expansion that agrees with ``own``, the model's own output, at some support points."""
    points = as_cells(points).astype(np.float64)
    names = _names_in(model, points.shape[1])
    try:
        expansion = Expansion(kernel, points, coef, intercept, feature_names=names, output_names=outputs)
    except ValueError as error:
        raise UnsupportedModelError(f"the {type(model).__name__} cannot be read: {error}") from None
    rows = points[:: max(1, len(points) // CHECKED)][:CHECKED] if len(points) else np.zeros((1, points.shape[1]))
    with warnings.catch_warnings():
        # Support points have lost the names of the data frame that the model may have been fitted on.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        expected = np.asarray(own(rows), dtype=np.float64).reshape(len(rows), -1)
    found = expansion._core.predict(rows)
    size = 1 + np.abs(expected).max() + np.abs(np.asarray(coef)).sum() * 1e-4
    if found.shape != expected.shape or not np.abs(found - expected).max() <= 1e-6 * size:
        raise UnsupportedModelError(
            f"the {type(model).__name__} does not predict what its kernel and coefficients say, so it would be another "
            "model that is explained: it may have been changed after it was fitted"
        )
    return expansion


def _kernel_ridge(model):
    coef = np.asarray(model.dual_coef_)
    outputs = ["y"] if coef.ndim == 1 else [f"y{o}" for o in range(coef.shape[1])]

    def expansions():
        dense = as_cells(model.X_fit_)
        kernel = _pairwise_kernel(model, dense.shape[1], model.gamma, model.coef0)
        return [_expansion(model, kernel, dense, coef, 0.0, outputs, model.predict)]

    return Read("prediction", outputs, model.predict, expansions)


def _svm_kernel(model):
    return _pairwise_kernel(model, model.shape_fit_[1], model._gamma, model.coef0)


def _as_fitted(model, function):
    """``function`` of rows in the form, dense or sparse, that the model was fitted on."""
    if not model._sparse:
        return function
    from scipy.sparse import csr_matrix

    return lambda rows: function(csr_matrix(as_cells(rows)))


def _one_output_svm(model):
    decide = getattr(model, "decision_function", None) or model.predict
    explained = "prediction" if decide == model.predict else "decision function (negative for outliers)"
    outputs, own = ["y"] if explained == "prediction" else ["decision"], _as_fitted(model, decide)

    def expansions():
        coef = as_cells(model.dual_coef_)[0]
        return [_expansion(model, _svm_kernel(model), model.support_vectors_, coef, model.intercept_, outputs, own)]

    return Read(explained, outputs, own, expansions)


def _svc(model):
    classes = [str(c) for c in model.classes_]
    one_vs_one = copy.copy(model)
    one_vs_one.decision_function_shape, one_vs_one.break_ties = "ovo", False
    own = _as_fitted(model, one_vs_one.decision_function)
    pairs = [(i, j) for i in range(len(classes)) for j in range(i + 1, len(classes))]
    if len(classes) == 2:
        explained = f"decision function (positive for class '{classes[1]}', negative for '{classes[0]}')"
        outputs = [classes[1]]
    else:
        explained = "one-vs-one decision functions (positive for the first class of each pair)"
        outputs = [f"{classes[i]} vs {classes[j]}" for i, j in pairs]

    def expansions():
        kernel = _svm_kernel(model)
        dual, intercept = as_cells(model.dual_coef_), np.asarray(model.intercept_)
        coef = dual[0]
        if len(classes) > 2:
            ends = np.concatenate([[0], np.cumsum(model.n_support_)])
            coef = np.zeros((ends[-1], len(pairs)))
            for pair, (i, j) in enumerate(pairs):
                coef[ends[i] : ends[i + 1], pair] = dual[j - 1, ends[i] : ends[i + 1]]
                coef[ends[j] : ends[j + 1], pair] = dual[i, ends[j] : ends[j + 1]]
        return [_expansion(model, kernel, model.support_vectors_, coef, intercept, outputs, own)]

    return Read(explained, outputs, own, expansions)


def _gp_regressor(model):
    if not hasattr(model, "X_train_"):
        # scikit-learn lets one predict from the prior.
        from sklearn.exceptions import NotFittedError

        raise NotFittedError("this GaussianProcessRegressor is not fitted yet: call fit first")
    alpha = np.asarray(model.alpha_)
    outputs = ["y"] if alpha.ndim == 1 or alpha.shape[1] == 1 else [f"y{o}" for o in range(alpha.shape[1])]

    def expansions():
        points = np.asarray(model.X_train_)
        scale, shift = np.asarray(model._y_train_std), np.asarray(model._y_train_mean)
        kernel = _gp_kernel(model.kernel_, points.shape[1])
        return [_expansion(model, kernel, points, alpha * scale, shift, outputs, model.predict)]

    return Read("posterior mean", outputs, model.predict, expansions)


def _gp_classifier(model):
    classes = [str(c) for c in model.classes_]
    if len(classes) == 2:
        outputs, fitted = [classes[1]], [model.base_estimator_]
        explained = f"posterior mean of the latent function (positive for class '{classes[1]}')"
    elif model.multi_class == "one_vs_rest":
        outputs, fitted = classes, list(model.base_estimator_.estimators_)
        explained = "posterior means of the latent functions, one a class against the rest"
    else:
        raise UnsupportedModelError(
            "a GaussianProcessClassifier with multi_class='one_vs_one' has a model of its own data for each pair of classes: "
            "explain its base_estimator_.estimators_ one by one, or fit it with multi_class='one_vs_rest'"
        )

    def latent(part):
        return lambda rows: part.kernel_(as_cells(rows), part.X_train_) @ (part.y_train_ - part.pi_)

    def expansion(name, part):
        kernel = _gp_kernel(part.kernel_, part.X_train_.shape[1])
        return _expansion(model, kernel, part.X_train_, part.y_train_ - part.pi_, 0.0, [name], latent(part))

    return Read(
        explained,
        outputs,
        lambda rows: np.column_stack([latent(part)(rows) for part in fitted]),
        lambda: [expansion(name, part) for name, part in zip(outputs, fitted)],
    )


# Kernels -----------------------------------------------------------------------------------------------------------


def _pairwise_kernel(model, width, gamma, coef0):
    """The kernel that a model names as in ``sklearn.metrics.pairwise``."""
    from sklearn.gaussian_process.kernels import Kernel

    name = model.kernel
    if isinstance(name, Kernel):
        return _gp_kernel(name, width)
    if gamma is None:
        gamma = 1.0 / width
    if name == "rbf":
        return rk.RBF(length_scale=1.0 / np.sqrt(2.0 * gamma))
    if name == "laplacian":
        return rk.Laplacian(length_scale=1.0 / gamma)
    if name == "linear":
        return rk.Linear()
    if name in ("poly", "polynomial"):
        return rk.Polynomial(degree=model.degree, gamma=gamma, coef0=coef0)
    what = "a callable" if callable(name) else f"'{name}'"
    raise UnsupportedModelError(
        f"the kernel of the {type(model).__name__} is {what}, which has no exact values: the kernels 'rbf', 'laplacian' and "
        "'linear' have"
    )


def _gp_kernel(kernel, width):
    """A kernel of ``sklearn.gaussian_process.kernels`` between different points, where white noise is 0."""
    from sklearn.gaussian_process import kernels as sk

    if isinstance(kernel, sk.Sum):
        return _gp_kernel(kernel.k1, width) + _gp_kernel(kernel.k2, width)
    if isinstance(kernel, sk.Product):
        return _gp_kernel(kernel.k1, width) * _gp_kernel(kernel.k2, width)
    if isinstance(kernel, sk.Exponentiation):
        power = kernel.exponent
        if power != int(power) or not 1 <= power <= 8:
            raise UnsupportedModelError(f"the kernel {kernel} has the exponent {power}: whole ones from 1 to 8 are supported")
        base = _gp_kernel(kernel.kernel, width)
        product = base
        for _ in range(int(power) - 1):
            product = product * base
        return product
    if isinstance(kernel, sk.ConstantKernel):
        return rk.Constant(float(kernel.constant_value))
    if isinstance(kernel, sk.WhiteKernel):
        return rk.Constant(0.0)
    # Subclasses first: Matern and RationalQuadratic are not RBF in scikit-learn, but Matern derives from it.
    if type(kernel) is sk.Matern:
        return rk.Matern(length_scale=kernel.length_scale, nu=float(kernel.nu))
    if type(kernel) is sk.RBF:
        return rk.RBF(length_scale=kernel.length_scale)
    if type(kernel) is sk.RationalQuadratic:
        return rk.RationalQuadratic(length_scale=kernel.length_scale, alpha=kernel.alpha)
    if type(kernel) is sk.ExpSineSquared and width == 1:
        return rk.Periodic(length_scale=kernel.length_scale, periodicity=kernel.periodicity)
    if type(kernel) is sk.DotProduct:
        return rk.Linear() + float(kernel.sigma_0) ** 2
    raise UnsupportedModelError(
        f"the kernel has a part {kernel}, which has no exact values: RBF, ConstantKernel, WhiteKernel, DotProduct, "
        "Matern (nu 0.5, 1.5, 2.5, inf) and RationalQuadratic of one column, their sums and products have; Matern and "
        "RationalQuadratic of riesz.kernels have them for several columns with isotropic=False"
    )


# Pipelines ---------------------------------------------------------------------------------------------------------


def _pipeline(model):
    if model.steps[-1][1] in (None, "passthrough"):
        raise UnsupportedModelError("the pipeline ends without a model: give a pipeline whose last step is one")
    from sklearn.utils.validation import check_is_fitted

    last = import_model(model[-1])
    check_is_fitted(model)
    before = model[:-1]
    if not len(before.steps):
        return last
    # Steps that pass everything through know nothing of columns and change nothing.
    name, first = next(step for step in model.steps if step[1] not in (None, "passthrough"))
    names, width = getattr(first, "feature_names_in_", None), getattr(first, "n_features_in_", None)
    if names is None and width is None:
        raise UnsupportedModelError(f"the step '{name}' does not say how many columns it was fitted on (n_features_in_)")
    names = numbered(width) if names is None else [str(name) for name in names]

    def transform(X):
        rows = before.transform(X)
        return as_cells(rows if last.transform is None else last.transform(rows))

    function = None if last.function is None else lambda X: last.function(before.transform(X))
    kind = " → ".join([type(step).__name__ for _, step in before.steps] + [last.kind])
    expansions, refusal, owners = last.expansions, last.refusal, []
    try:
        owners = _owners(before, len(names), "pipeline")
        if len(owners) != len(last.owners):
            raise UnsupportedModelError(
                f"the pipeline's steps make {len(owners)} columns, but its model was fitted on {len(last.owners)}"
            )
        owners = [owners[j] for j in last.owners]
    except UnsupportedModelError as error:
        expansions, refusal = [], error
    return Imported(expansions, last.explained, names, owners, transform, kind, last.output_names, function, refusal)


def _owners(step, width, name):
    """For each output column of a fitted transformer, the one input column that it is computed from."""
    from sklearn import compose, feature_selection, impute, pipeline, preprocessing

    if step is None or step == "passthrough":
        return list(range(width))
    if step == "drop":
        return []
    # A subclass could do anything, so only scikit-learn's own classes are known.
    if type(step) is pipeline.Pipeline:
        owners = list(range(width))
        for inner, transformer in step.steps:
            own = _owners(transformer, len(owners), inner)
            owners = [owners[j] for j in own]
        return owners
    if type(step) is compose.ColumnTransformer:
        return _column_transformer(step, width)
    one_to_one = (
        preprocessing.StandardScaler,
        preprocessing.MinMaxScaler,
        preprocessing.MaxAbsScaler,
        preprocessing.RobustScaler,
        preprocessing.PowerTransformer,
        preprocessing.QuantileTransformer,
        preprocessing.OrdinalEncoder,
        preprocessing.Binarizer,
    )
    if type(step) in one_to_one:
        return list(range(width))
    if type(step) is preprocessing.FunctionTransformer and (step.func is None or isinstance(step.func, np.ufunc)):
        return list(range(width))
    if type(step) is impute.SimpleImputer and not step.add_indicator and len(step.statistics_) == width:
        return [j for j in range(width) if step.keep_empty_features or not _is_missing(step.statistics_[j])]
    if type(step) is preprocessing.OneHotEncoder:
        return [j for j, count in enumerate(step._n_features_outs) for _ in range(count)]
    if type(step) is preprocessing.KBinsDiscretizer:
        counts = [1] * width if step.encode == "ordinal" else step.n_bins_
        return [j for j, count in enumerate(counts) for _ in range(count)]
    if type(step) is preprocessing.SplineTransformer:
        return [j for j in range(width) for _ in range(step.n_features_out_ // width)]
    if isinstance(step, feature_selection.SelectorMixin) and type(step).__module__.startswith("sklearn."):
        return np.flatnonzero(step.get_support()).tolist()
    raise UnsupportedModelError(
        f"the step '{name}' ({type(step).__name__}) is not known to compute each of its columns from one input column, so its "
        "columns have no owner; the model behind it can be explained exactly on the transformed rows, "
        "riesz.Explainer(pipeline[-1], background=pipeline[:-1].transform(X))"
    )


def _is_missing(value):
    return isinstance(value, (float, np.floating)) and np.isnan(value)


def _column_transformer(step, width):
    names = [str(n) for n in getattr(step, "feature_names_in_", numbered(width))]
    owners = [-1] * max((part.stop for part in step.output_indices_.values()), default=0)
    for name, transformer, columns in step.transformers_:
        columns = _columns(columns, names)
        inner = _owners(transformer, len(columns), name) if columns else []
        part = step.output_indices_[name]
        if len(inner) != part.stop - part.start:
            raise UnsupportedModelError(f"the step '{name}' makes {part.stop - part.start} columns, not {len(inner)}")
        owners[part] = [columns[j] for j in inner]
    return owners


def _columns(columns, names):
    """Column numbers of what a ColumnTransformer calls columns."""
    if isinstance(columns, str):
        return [names.index(columns)]
    if isinstance(columns, (int, np.integer)):
        return [int(columns) % len(names)]
    if isinstance(columns, slice):
        bounds = [names.index(b) if isinstance(b, str) else b for b in (columns.start, columns.stop)]
        if isinstance(columns.stop, str):
            bounds[1] += 1
        return list(range(len(names)))[slice(bounds[0], bounds[1], columns.step)]
    columns = list(columns)
    if columns and isinstance(columns[0], (bool, np.bool_)):
        return np.flatnonzero(columns).tolist()
    return [names.index(c) if isinstance(c, str) else int(c) % len(names) for c in columns]
