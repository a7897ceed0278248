"""Reads fitted models of scikit-learn (kernel models, pipelines, searches, ensembles) as expansions.

An unknown part raises an :class:`~riesz.UnsupportedModelError` that names it, and the model is then explained
by its predictions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from .. import kernels as rk
from .._core import UnsupportedModelError
from .._data.validation import as_cells, numbered
from .average import ModelAverage
from .expansion import Expansion
from .loading import (
    CHECKED,
    Block,
    Imported,
    Part,
    Read,
    Transform,
    expansion_of,
    imported_of,
    names_in,
    outputs_of,
    weighted_sum,
    with_class_sums,
)
from .multiplicative import (
    bernoulli_nb,
    categorical_nb,
    counting_nb,
    gaussian_nb,
    log_linear_regressor,
)
from .pipeline_columns import owners
from .predictions import read_predictions
from .scikit_learn_kernels import gp_kernel, pairwise_kernel


def import_model(model: Any) -> Imported:
    """Returns ``model`` as sums of expansions, or else as a function with the reason."""
    from sklearn.utils.validation import check_is_fitted

    if isinstance(model, type):
        raise TypeError(f"{model.__name__} is a class: give a fitted model, {model.__name__}(...).fit(X, y)")
    reader, composer = _registered(model, READERS), _registered(model, COMPOSERS)
    if composer is None and hasattr(model, "best_estimator_"):
        # Searches of other libraries have this attribute, too.
        composer = _best
    if type(model).__module__.startswith(("sklearn.", "riesz.")) and hasattr(model, "fit"):
        check_is_fitted(model)
    if composer is None and isinstance(getattr(model, "average_", None), ModelAverage):
        composer = _averaged
    if composer is not None:
        try:
            return composer(model)
        except UnsupportedModelError as error:
            return read_predictions(model, error, prefer_scores=True)
    if reader is None:
        return read_predictions(model, _unknown(model))
    # Models that were fitted on objects have no n_features_in_.
    is_of_objects = hasattr(model, "X_train_") or hasattr(model, "base_estimator_")
    is_of_objects = is_of_objects and not hasattr(model, "n_features_in_")
    if is_of_objects or getattr(model, "kernel", None) == "precomputed":
        return Imported([], "", [], type(model).__name__, [], None, _without_columns(model))
    read = reader(model)
    # Support vector machines with a callable for a kernel have no n_features_in_.
    width = model.n_features_in_ if hasattr(model, "n_features_in_") else model.shape_fit_[1]
    imported = imported_of(model, read, names_in(model, width))
    # Models that riesz fitted need no comparison.
    return replace(imported, needs_comparison=False) if reader is _riesz_estimator else imported


def _registered(model: Any, registry: dict[str, Callable]) -> Any:
    """Returns the entry for the class of ``model``, or for its first base class with an entry, among the
    classes of scikit-learn and riesz."""
    names = (f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(model).__mro__)
    return next((registry[name] for name in names if name in registry), None)


def _unknown(model: Any) -> UnsupportedModelError:
    if hasattr(model, "predict"):
        return UnsupportedModelError(
            f"a {type(model).__name__} is not a kernel model that riesz reads, so its values come from calls "
            "of its predictions"
        )
    return UnsupportedModelError(
        f"a {type(model).__name__} is not a model that riesz reads, and has no predict: give a fitted model "
        "or a function of rows"
    )


def _without_columns(model: Any) -> UnsupportedModelError:
    """Returns an error that says why a model of objects, or of a kernel matrix, has no features."""
    kind = type(model).__name__
    if getattr(model, "kernel", None) == "precomputed":
        rows = "X_train[model.support_], coef=model.dual_coef_[0], intercept=model.intercept_[0]"
        rows = rows if hasattr(model, "support_") else "X_train, coef=model.dual_coef_"
        return UnsupportedModelError(
            f"the {kind} was fitted on kernel values (kernel='precomputed'), and does not know the rows that "
            "they are of: give "
            f"riesz.Expansion(kernel, points={rows}) with the kernel and the training rows, or a function of "
            "rows, lambda X: "
            "model.predict(kernel_values(X, X_train)), and a background"
        )
    return UnsupportedModelError(
        f"the {kind} was fitted on objects that have no columns, and so there are no features that values "
        "could "
        "be of: give a function of rows whose columns say what makes the objects, lambda X: "
        "model.predict(objects(X)), and a "
        "background of such rows"
    )


def _class_names(classes: Any) -> list[str]:
    """Returns the output names of a decision function: all classes, or the second of two."""
    names = [str(name) for name in classes]
    return names[1:] if len(names) == 2 else names


# Models
# ------------------------------------------------------------------------------------------------------------


def _kernel_ridge(model):
    coef = np.asarray(model.dual_coef_)
    outputs = ["y"] if coef.ndim == 1 else [f"y{o}" for o in range(coef.shape[1])]

    def expansions():
        dense = as_cells(model.X_fit_)
        kernel = pairwise_kernel(
            model.kernel, dense.shape[1], model.gamma, model.degree, model.coef0, type(model).__name__
        )
        return [expansion_of(model, kernel, dense, coef, 0.0, outputs)]

    return Read("prediction", outputs, model.predict, expansions, rounding=_distance_rounding(model))


def _distance_rounding(model: Any) -> float:
    """Returns the rounding error of scikit-learn's Gaussian kernel, which computes squared distances as
    differences of squared norms."""
    if model.kernel != "rbf":
        return 0.0
    points = (
        model.X_fit_.toarray()
        if hasattr(model.X_fit_, "toarray")
        else np.asarray(model.X_fit_, dtype=np.float64)
    )
    gamma = 1.0 / points.shape[1] if model.gamma is None else model.gamma
    return float(gamma * 16.0 * np.finfo(float).eps * (points**2).sum(axis=1).max())


def _svm_kernel(model):
    return pairwise_kernel(
        model.kernel, model.shape_fit_[1], model._gamma, model.degree, model.coef0, type(model).__name__
    )


def _in_training_form(model, function):
    """Returns ``function`` for rows in the form, dense or sparse, of the training rows."""
    if not model._sparse:
        return function
    from scipy.sparse import csr_matrix

    return lambda rows: function(csr_matrix(rows if hasattr(rows, "tocsr") else as_cells(rows)))


def _one_output_svm(model):
    decide = getattr(model, "decision_function", None) or model.predict
    explained = "prediction" if decide == model.predict else "decision function (negative for outliers)"
    outputs, function = ["y"] if explained == "prediction" else ["decision"], _in_training_form(model, decide)

    def expansions():
        coef = as_cells(model.dual_coef_)[0]
        return [
            expansion_of(model, _svm_kernel(model), model.support_vectors_, coef, model.intercept_, outputs)
        ]

    return Read(explained, outputs, function, expansions)


def _svc(model):
    classes = [str(c) for c in model.classes_]
    one_vs_one = copy.copy(model)
    one_vs_one.decision_function_shape, one_vs_one.break_ties = "ovo", False
    function = _in_training_form(model, one_vs_one.decision_function)
    pairs = list(combinations(range(len(classes)), 2))
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
        return [expansion_of(model, kernel, model.support_vectors_, coef, intercept, outputs)]

    read = Read(explained, outputs, function, expansions)
    return (
        with_class_sums(read, classes)
        if len(classes) > 2 and model.decision_function_shape == "ovr"
        else read
    )


def _gp_regressor(model):
    if not hasattr(model, "X_train_"):
        # scikit-learn's process predicts from the prior before it is fitted.
        from sklearn.exceptions import NotFittedError

        raise NotFittedError("this GaussianProcessRegressor is not fitted yet: call fit first")
    alpha = np.asarray(model.alpha_)
    outputs = ["y"] if alpha.ndim == 1 or alpha.shape[1] == 1 else [f"y{o}" for o in range(alpha.shape[1])]

    def expansions():
        points = np.asarray(model.X_train_)
        scale, shift = np.asarray(model._y_train_std), np.asarray(model._y_train_mean)
        kernel = gp_kernel(model.kernel_, points.shape[1])
        expansion = expansion_of(model, kernel, points, alpha * scale, shift, outputs)
        scales = np.broadcast_to(scale, (len(outputs),)).tolist()
        expansion._posterior = lambda: (np.ascontiguousarray(model.L_), None, scales)
        return [expansion]

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
        # scikit-learn's one-vs-one models predict their second class.
        outputs, fitted = (
            [f"{b} vs {a}" for a, b in combinations(classes, 2)],
            list(model.base_estimator_.estimators_),
        )
        explained = "posterior means of the latent functions, one a pair of classes (positive for the first)"

    def latent(part):
        return lambda rows: part.kernel_(as_cells(rows), part.X_train_) @ (part.y_train_ - part.pi_)

    def expansion(name, part):
        kernel = gp_kernel(part.kernel_, part.X_train_.shape[1])
        fitted_expansion = expansion_of(model, kernel, part.X_train_, part.y_train_ - part.pi_, 0.0, [name])
        fitted_expansion._posterior = lambda: (np.ascontiguousarray(part.L_), part.W_sr_.tolist(), [1.0])
        return fitted_expansion

    return Read(
        explained,
        outputs,
        lambda rows: np.column_stack([latent(part)(rows) for part in fitted]),
        lambda: [expansion(name, part) for name, part in zip(outputs, fitted)],
    )


def _linear_map(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns coefficients (outputs × columns) and intercepts of a linear model."""
    coef = (
        model.coef_.toarray()
        if hasattr(model.coef_, "toarray")
        else np.asarray(model.coef_, dtype=np.float64)
    )
    coef = np.atleast_2d(coef)
    return coef, np.broadcast_to(np.ravel(model.intercept_), (len(coef),))


def _linear(model, explained, outputs, function):
    """Returns a linear model as an expansion: the linear kernel, with the coefficients as support points."""
    coef, intercept = _linear_map(model)
    rows = np.zeros((min(CHECKED, 1 + coef.shape[1]), coef.shape[1]))
    rows[np.arange(1, len(rows)), np.arange(len(rows) - 1)] = 1.0
    expansions = lambda: [expansion_of(model, rk.Linear(), coef, np.eye(len(coef)), intercept, outputs)]
    return Read(
        explained, outputs, function, expansions, has_rows=False, rows=np.vstack([coef[:CHECKED], rows])
    )


def _linear_regressor(model):
    count = len(_linear_map(model)[0])
    outputs = ["y"] if count == 1 else [f"y{o}" for o in range(count)]
    return _linear(model, "prediction", outputs, model.predict)


def _linear_classifier(model):
    # Some classifiers have several targets with several classes each.
    count = len(_linear_map(model)[0])
    outputs = _class_names(model.classes_)
    explained = (
        f"decision function (positive for class '{outputs[0]}')"
        if count == 1
        else "decision functions of the classes"
    )
    outputs = outputs if len(outputs) == count else [f"y{o}" for o in range(count)]
    return _linear(model, explained, outputs, model.decision_function)


def _averaged(model):
    from .. import estimators

    return model.average_._imported(estimators.imported(model).explained, type(model).__name__)


def _riesz_estimator(model):
    from .. import estimators

    return estimators.imported(model)


# Models made of models
# ---------------------------------------------------------------------------------------------


def _names_of(model: Any, members: Sequence[Imported]) -> list[str]:
    """Returns the user's column names, which the model or one of its members has."""
    names = members[0].feature_names
    width = getattr(model, "n_features_in_", len(names))
    return (
        names if not hasattr(model, "feature_names_in_") and width == len(names) else names_in(model, width)
    )


def _side_by_side_outputs(model, members, explained, outputs, function):
    """Returns a model whose outputs are the outputs of all members."""
    blocks = [block for member in members for block in member.readable()]
    kind = f"{type(model).__name__} of {members[0].kind}"
    return Imported(
        blocks, explained, _names_of(model, members), kind, outputs, function, needs_comparison=True
    )


def _sum_of_members(model, members, shift, explained, outputs, function):
    """Returns the sum of members, each times its weights."""
    block = weighted_sum([(member.readable(), weights) for member, weights in members], shift, outputs)
    kinds = ", ".join(dict.fromkeys(member.kind for member, _ in members))
    names = _names_of(model, [member for member, _ in members])
    return Imported(
        [block],
        explained,
        names,
        f"{type(model).__name__} of {kinds}",
        outputs,
        function,
        needs_comparison=True,
    )


def _mean(model, members, weights, function=None):
    """Returns the weighted mean of members."""
    for member in members:
        member.readable()
    first, weights = members[0], np.asarray(weights, dtype=np.float64) / np.sum(weights)
    if any(member.output_names != first.output_names for member in members):
        raise UnsupportedModelError(
            f"the members of the {type(model).__name__} have different outputs: explain them one by one"
        )
    mean_function = function or (
        lambda X: sum(w * _outputs(member, X) for w, member in zip(weights, members))
    )
    explained = first.explained if len(members) == 1 else f"mean of {len(members)} members' {first.explained}"
    size = np.eye(len(first.output_names))
    return _sum_of_members(
        model,
        [(m, w * size) for m, w in zip(members, weights)],
        0.0,
        explained,
        first.output_names,
        mean_function,
    )


def _outputs(member: Imported, X: Any) -> np.ndarray:
    """Returns the outputs of a member at the user's rows, (n, outputs)."""
    if member.function is None:
        raise UnsupportedModelError(f"the {member.kind} has no function of rows")
    outputs = np.asarray(member.function(X), dtype=np.float64)
    return outputs.reshape(len(outputs), -1)


def _side_by_side(members):
    return lambda X: np.hstack([_outputs(member, X) for member in members])


def _wrapped_model(attribute):
    """Returns a composer for a model that wraps the model in ``attribute`` without changing its outputs."""
    return lambda model: import_model(getattr(model, attribute))


def _best(model):
    if not hasattr(model, "best_estimator_"):
        raise UnsupportedModelError(
            f"the {type(model).__name__} has no best_estimator_: fit it with refit=True"
        )
    return import_model(model.best_estimator_)


def _over_all_columns(member: Imported, columns: np.ndarray, width: int) -> Imported:
    """Returns a member that takes some of ``width`` columns as a model of all columns."""
    if np.array_equal(columns, np.arange(width)):
        return member
    select_columns = lambda X: as_cells(X)[:, columns]

    user_columns = [int(column) for column in columns]
    blocks = _in_user_columns(member.blocks, select_columns, user_columns)
    function = None if member.function is None else _composed(select_columns, member.function)
    return replace(member, blocks=blocks, function=function, rows=None)


def _composed(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda X: second(first(X))


def _in_user_columns(
    blocks: list[Block], transform: Callable[[Any], Any], user_columns: list[int]
) -> list[Block]:
    """Returns blocks over the user's columns, from which ``transform`` computes the columns of the blocks;
    column j comes from the user's column ``user_columns[j]``."""
    # Parts with equal rows keep one shared transform.
    transforms: dict[Transform, Transform] = {None: lambda X: as_cells(transform(X))}

    def with_user_columns(part: Part) -> Part:
        if part.transform is not None and part.transform not in transforms:
            transforms[part.transform] = _composed(transform, part.transform)
        owners = [
            user_columns[j] if isinstance(j, int) else tuple(user_columns[k] for k in j) for j in part.owners
        ]
        return replace(part, transform=transforms[part.transform], owners=owners)

    return [[with_user_columns(part) for part in block] for block in blocks]


def _bagging(model):
    width = model.n_features_in_
    pairs = zip(model.estimators_, model.estimators_features_)
    members = [
        _over_all_columns(import_model(member), np.asarray(columns), width) for member, columns in pairs
    ]
    if not hasattr(model, "classes_"):
        return _mean(model, members, np.ones(len(members)), model.predict)
    if not hasattr(model, "decision_function"):
        raise UnsupportedModelError(
            f"the {type(model).__name__} averages its members' probabilities, which are no expansion"
        )
    average = _mean(model, members, np.ones(len(members)))
    # The members use class numbers.
    named = lambda output: " vs ".join(str(model.classes_[int(number)]) for number in output.split(" vs "))
    outputs = [named(output) for output in average.output_names]
    return replace(
        average, explained=f"mean of {len(members)} members' decision functions", output_names=outputs
    )


def _voting(model):
    member_weights = [1.0] * len(model.estimators) if model.weights is None else model.weights
    weights = [
        weight for weight, (_, member) in zip(member_weights, model.estimators) if not isinstance(member, str)
    ]
    return _mean(model, [import_model(member) for member in model.estimators_], weights, model.predict)


def _calibrated(model):
    members = [import_model(part.estimator) for part in model.calibrated_classifiers_]
    average = _mean(model, members, np.ones(len(members)))
    return replace(average, explained=f"{average.explained}, before it is calibrated")


def _stacking(model):
    final = model.final_estimator_
    if _registered(final, READERS) not in (_linear_regressor, _linear_classifier):
        raise UnsupportedModelError(
            f"the final estimator of the {type(model).__name__} is a {type(final).__name__}: with a linear "
            "one it would be a sum"
        )
    for method, member in zip(model.stack_method_, model.estimators_):
        if method == "predict_proba" or (method == "predict" and hasattr(member, "classes_")):
            raise UnsupportedModelError(
                f"the {type(model).__name__} adds up the {method} of a {type(member).__name__}, which is no "
                "expansion: "
                "stack_method='decision_function' is"
            )
    weights, intercept = _linear_map(final)
    members, position = [], 0
    for member in map(import_model, model.estimators_):
        size = outputs_of(member.readable())
        members.append((member, weights[:, position : position + size].T))
        position += size
    if model.passthrough:
        column_weights = weights[:, position:]
        linear = Expansion(
            rk.Linear(),
            column_weights,
            np.eye(len(column_weights)),
            feature_names=members[0][0].feature_names[: column_weights.shape[1]],
        )
        names = linear.feature_names
        members.append(
            (
                Imported([[Part.from_expansion(linear, False)]], "", names, "its columns", []),
                np.eye(len(column_weights)),
            )
        )
        position += column_weights.shape[1]
    if position != weights.shape[1]:
        raise UnsupportedModelError(
            f"the members of the {type(model).__name__} have {position} outputs, but its final estimator was "
            "fitted on "
            f"{weights.shape[1]}"
        )
    if hasattr(model, "classes_"):
        outputs = _class_names(model.classes_)
        return _sum_of_members(
            model,
            members,
            intercept,
            "decision function of the final estimator",
            outputs,
            model.decision_function,
        )
    outputs = ["y"] if len(weights) == 1 else [f"y{o}" for o in range(len(weights))]
    return _sum_of_members(model, members, intercept, "prediction", outputs, model.predict)


#: Scale and shift of the inverse of scalers, one number per column, or ``None`` for none.
_INVERSES: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "StandardScaler": lambda scaler: (scaler.scale_, scaler.mean_ if scaler.with_mean else None),
    "RobustScaler": lambda scaler: (scaler.scale_, scaler.center_),
    "MaxAbsScaler": lambda scaler: (scaler.scale_, None),
    "MinMaxScaler": lambda scaler: (1.0 / scaler.scale_, -scaler.min_ / scaler.scale_),
}


def _transformed_target(model):
    member, scaler = import_model(model.regressor_), model.transformer_
    identity = type(scaler).__name__ == "FunctionTransformer" and scaler.inverse_func is None
    inverse = (lambda _: (None, None)) if identity else _INVERSES.get(type(scaler).__name__)
    if inverse is None or not type(scaler).__module__.startswith("sklearn."):
        raise UnsupportedModelError(
            f"the target of the TransformedTargetRegressor comes back through a {type(scaler).__name__}, "
            "which is not known to "
            f"be linear, as {', '.join(_INVERSES)} are: its regressor_ can be explained, in the units of the "
            "transformed target"
        )
    scale, shift = inverse(scaler)
    names = member.output_names
    weights = np.eye(len(names)) * np.broadcast_to(1.0 if scale is None else scale, (len(names),))
    return _sum_of_members(
        model, [(member, weights)], 0.0 if shift is None else shift, member.explained, names, model.predict
    )


def _multi_output(model):
    members = [import_model(member) for member in model.estimators_]
    if not hasattr(model, "classes_"):
        return _side_by_side_outputs(
            model, members, members[0].explained, [f"y{o}" for o in range(len(members))], model.predict
        )
    outputs = [f"y{o}: {name}" for o, member in enumerate(members) for name in member.output_names]
    return _side_by_side_outputs(
        model, members, "decision functions of the targets", outputs, _side_by_side(members)
    )


def _one_vs_rest(model):
    members = [import_model(member) for member in model.estimators_]
    outputs = [str(name) for name in model.classes_]
    if len(members) == 1:
        outputs = outputs[1:]
        return _side_by_side_outputs(
            model,
            members,
            f"decision function (positive for class '{outputs[0]}')",
            outputs,
            members[0].function,
        )
    description = "decision functions, one a class against the rest"
    return _side_by_side_outputs(model, members, description, outputs, _side_by_side(members))


def _one_vs_one(model):
    members = [import_model(member) for member in model.estimators_]
    # scikit-learn's decision functions are positive for the second class.
    outputs = [f"{b} vs {a}" for a, b in combinations(map(str, model.classes_), 2)]
    explained = "decision functions, one a pair of classes (positive for the first)"
    return _side_by_side_outputs(model, members, explained, outputs, _side_by_side(members))


def _pipeline(model):
    if model.steps[-1][1] in (None, "passthrough"):
        raise UnsupportedModelError(
            "the pipeline ends without a model: give a pipeline whose last step is one"
        )
    last_step, preprocessing = import_model(model[-1]), model[:-1]
    if not len(preprocessing.steps):
        return last_step
    # Steps that pass everything through have no columns.
    name, first = next(step for step in model.steps if step[1] not in (None, "passthrough"))
    names, width = getattr(first, "feature_names_in_", None), getattr(first, "n_features_in_", None)
    if names is None and width is None:
        raise UnsupportedModelError(
            f"the step '{name}' does not say how many columns it was fitted on (n_features_in_)"
        )
    names = numbered(width) if names is None else [str(name) for name in names]
    function = None if last_step.function is None else _composed(preprocessing.transform, last_step.function)
    kind = " → ".join([type(step).__name__ for _, step in preprocessing.steps] + [last_step.kind])
    blocks: list[Block] = []
    refusal = last_step.refusal
    if refusal is None:
        try:
            owners_of_columns, width = (
                owners(preprocessing, len(names), "pipeline", len(last_step.feature_names)),
                len(last_step.feature_names),
            )
            if len(owners_of_columns) != width:
                raise UnsupportedModelError(
                    f"the pipeline's steps make {len(owners_of_columns)} columns, but its model was fitted "
                    f"on {width}"
                )
            blocks = _in_user_columns(last_step.blocks, preprocessing.transform, owners_of_columns)
        except UnsupportedModelError as error:
            refusal = error
    # The model's rows are not in the user's columns.
    return replace(
        last_step,
        blocks=blocks,
        feature_names=names,
        kind=kind,
        function=function,
        refusal=refusal,
        rows=None,
    )


#: The reader of each model class, or base class, by package and name.
READERS: dict[str, Callable[[Any], Read]] = {
    "sklearn.KernelRidge": _kernel_ridge,
    "sklearn.SVR": _one_output_svm,
    "sklearn.NuSVR": _one_output_svm,
    "sklearn.OneClassSVM": _one_output_svm,
    "sklearn.SVC": _svc,
    "sklearn.NuSVC": _svc,
    "sklearn.GaussianProcessRegressor": _gp_regressor,
    "sklearn.GaussianProcessClassifier": _gp_classifier,
    "sklearn._GeneralizedLinearRegressor": lambda model: (
        log_linear_regressor(model) or _linear_regressor(model)
    ),
    "sklearn.GaussianNB": gaussian_nb,
    "sklearn.BernoulliNB": bernoulli_nb,
    "sklearn.MultinomialNB": counting_nb,
    "sklearn.ComplementNB": counting_nb,
    "sklearn.CategoricalNB": categorical_nb,
    "sklearn.LinearModel": _linear_regressor,
    "sklearn.BaseSGDRegressor": _linear_regressor,
    "sklearn.LinearClassifierMixin": _linear_classifier,
    "riesz._KernelMachine": _riesz_estimator,
}

#: The reader of each class, or base class, whose models are composed of others, by package and name.
COMPOSERS: dict[str, Callable[[Any], Imported]] = {
    "sklearn.Pipeline": _pipeline,
    "sklearn.BaseSearchCV": _best,
    "sklearn.TunedThresholdClassifierCV": _wrapped_model("estimator_"),
    "sklearn.FixedThresholdClassifier": _wrapped_model("estimator_"),
    "sklearn.FrozenEstimator": _wrapped_model("estimator"),
    "sklearn.TransformedTargetRegressor": _transformed_target,
    "sklearn.BaggingRegressor": _bagging,
    "sklearn.BaggingClassifier": _bagging,
    "sklearn.VotingRegressor": _voting,
    "sklearn.StackingRegressor": _stacking,
    "sklearn.StackingClassifier": _stacking,
    "sklearn.CalibratedClassifierCV": _calibrated,
    "sklearn.MultiOutputRegressor": _multi_output,
    "sklearn.MultiOutputClassifier": _multi_output,
    "sklearn.OneVsRestClassifier": _one_vs_rest,
    "sklearn.OneVsOneClassifier": _one_vs_one,
    "riesz.AggregateCountProcess": lambda model: model._imported(),
    "riesz.AggregateGaussianProcess": lambda model: model._imported(),
    "riesz.CausalEffect": lambda model: model._imported(),
    "riesz.ModelAverage": lambda model: model._imported(),
}
