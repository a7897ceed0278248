"""Global importance of features: for a model's output (Sobol indices) and for its loss (SAGE values).

Kernel models are decomposed exactly. For other functions see ``function_importance``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import _core
from .._core import UnsupportedModelError
from .._data.parameters import is_whole, threads_of
from .._models.average import ModelAverage
from .._models.loading import Part
from .explainer import Explainer
from .explanation import Explanation
from .feature_groups import Groups, model_players
from .function_importance import function_explainer, label_numbers, sage_of_function, sobol_of_function
from .importance_results import SageValues, SobolIndices, sage_result

__all__ = ["SageValues", "SobolIndices", "sage_values", "sobol_indices"]


#: The models of an average with their weights, or one model with the weight 1.
Models = list[tuple[float, Part]]


def _models_or_function(
    model: Any, background: Any, groups: Groups | None, weights: Any, game: str, mean_only: bool
) -> tuple[Explainer, tuple[Models, list[Any]] | None]:
    """Returns the explainer of a model, and its kernel models with their players; other models are functions,
    which are called. With ``mean_only``, so is the mean of an average of models."""
    try:
        if mean_only and _is_average(model):
            raise UnsupportedModelError("the mean of an average is not one kernel model")
        explainer, models, players = kernel_models(model, background, groups, weights, game)
    except UnsupportedModelError as error:
        return function_explainer(model, background, groups, weights, error), None
    return explainer, (models, players)


def _is_average(model: Any) -> bool:
    """Whether a model, or the model of an estimator, is an average over hyper-parameters."""
    return isinstance(getattr(model, "average_", model), ModelAverage)


def kernel_models(
    model: Any, background: Any, groups: Groups | None, background_weights: Any, game: str
) -> tuple[Explainer, Models, list[Any]]:
    """Returns an explainer of the model, its only kernel model or the models of an average with their
    weights, and the players with a column in them."""
    explainer = Explainer(model, background, game=game, groups=groups, background_weights=background_weights)
    imported = explainer._imported
    if not explainer._cores or explainer.exactness != "exact":
        raise UnsupportedModelError(
            f"this needs a model with a known kernel: {explainer.reason or 'this one is not'}"
        )
    models = imported.mixture or [(1.0, part) for part in imported.parts]
    if imported.mixture is None and len(models) != 1:
        raise UnsupportedModelError(f"this needs one kernel machine, and a {imported.kind} has {len(models)}")
    players = model_players(explainer._players, models[0][1].owners)
    return explainer, models, [player for player in players if player[1]]


def core_models(models: Models, posterior: bool) -> list[tuple[float, _core.Expansion]]:
    """Returns the models as the core takes them."""
    core = lambda part: part.expansion._with_posterior() if posterior else part.expansion._core
    return [(weight, core(part)) for weight, part in models]


def _in_player_order(numbers: np.ndarray, explainer: Explainer) -> np.ndarray:
    """Returns numbers in the order of the user's players, which are the last axis; players without a column
    in the model have 0."""
    ordered = np.zeros((*numbers.shape[:-1], len(explainer._players)))
    ordered[..., explainer._used[0]] = numbers
    return ordered


def sobol_indices(
    model: Any,
    background: Any,
    *,
    groups: Groups | None = None,
    index: str = "shapley",
    background_weights: Any = None,
    posterior: bool = False,
    n_samples: int = 0,
    random_state: int = 0,
    n_jobs: int | None = None,
    n_evaluations: int = 65536,
) -> SobolIndices:
    """Sobol indices and Shapley effects: each feature's share of the variance of a model's output.

    Features are independent, and each feature (each group of columns jointly) has the distribution of the
    rows of ``background``. For kernel models the shares are exact, with a proved bound: the variance given
    some features is then a product game over pairs of support points. Those of other functions are
    estimated, with standard errors (Jansen 1999; Goda 2021).

    Parameters
    ----------
    model
        A kernel model, as for :class:`riesz.Explainer`, whose kernel is a product over features or a sum of
        products; or a function of rows.
    background : array or data frame of shape (b, d)
    groups : dict of name to list of columns, optional
        Columns that count as one feature. Dependent columns belong together.
    index : str, default "shapley"
        The values in :attr:`SobolIndices.explanation`, as for :class:`riesz.Explainer`; ``"moebius"`` gives
        first-order and second-order Sobol indices times the variance.
    background_weights : array of shape (b,), optional
    posterior : bool, default False
        For Gaussian processes with a posterior: whether to return the exact posterior mean of the indices'
        numerators and of the variance, instead of those of the mean function. They include the posterior
        variance, so variances are larger. For an average over hyper-parameters they are exact too, while the
        indices of its mean function are estimated.
    n_samples : int, default 0
        With ``posterior``: number of functions drawn from the posterior, for :attr:`SobolIndices.samples` and
        :meth:`~SobolIndices.interval`. A draw is exact at the support points; elsewhere it is the conditional
        mean given its values there, so draws vary too little at inputs far from support points. Directions
        with a prior variance below 1e-9 of the largest are omitted.
    random_state : int, default 0
        Seed of the draws, and of the random inputs of a function.
    n_jobs : int, optional
    n_evaluations : int, default 65536
        For functions: number of rows for which the function is evaluated. A random pair of inputs takes
        3 d + 1 rows for d features.

    Notes
    -----
    Cost O(n² d b) for n support points (times the number of products of the kernel). Sources: Sobol 1993;
    Homma and Saltelli 1996; Owen 2014; Song, Nelson and Staum 2016.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from riesz.kernels import RBF
    >>> model = riesz.Expansion(RBF(length_scale=1.5), points=np.eye(3), coef=[1.0, -1.0, 0.5])
    >>> found = riesz.sobol_indices(model, np.random.default_rng(0).normal(size=(50, 3)))
    >>> bool((found.first_order <= found.shapley_effects).all())
    True
    >>> bool((found.shapley_effects <= found.total_order).all())
    True

    The same model as a function:

    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> estimated = riesz.sobol_indices(lambda rows: model.predict(rows), X)
    >>> error = np.abs(estimated.shapley_effects - found.shapley_effects)
    >>> bool((error < 4 * estimated.std_error["shapley_effects"]).all())
    True
    """
    if _is_average(model) and not posterior and (n_samples or str(index).lower() != "shapley"):
        raise ValueError(
            "the indices of the mean of an average over hyper-parameters are estimated, without n_samples, "
            "for index='shapley': give posterior=True, or pass one model, such as .best"
        )
    explainer, kernel_model = _models_or_function(
        model, background, groups, background_weights, "marginal_product", mean_only=not posterior
    )
    if kernel_model is None:
        if posterior or n_samples:
            raise ValueError("posterior: a function has none: leave posterior and n_samples out")
        if str(index).lower() != "shapley":
            raise ValueError(f"index = {index!r}: the indices of functions are those of index='shapley'")
        return sobol_of_function(explainer, n_evaluations, random_state)
    models, active_players = kernel_model
    if n_samples and len(models) > 1:
        raise ValueError(
            f"n_samples = {n_samples!r}: the indices of an average of {len(models)} models have no samples: "
            "leave n_samples out, or pass one model, such as .best"
        )
    if not is_whole(n_samples) or n_samples < 0 or (n_samples and not posterior):
        raise ValueError(
            f"n_samples = {n_samples!r}: it is a whole number, and samples are from a posterior: give "
            "posterior=True"
        )
    rows = explainer._model_rows(explainer._background, "background")[0]

    options = str(index).lower(), bool(posterior), threads_of(n_jobs)
    find = lambda draws: _core_indices((explainer, models, active_players), rows, options, draws)
    try:
        core, indices, bounds = find(None)
    except UnsupportedModelError as error:
        if posterior or str(index).lower() != "shapley":
            raise
        function = function_explainer(model, background, groups, background_weights, error)
        return sobol_of_function(function, n_evaluations, random_state)
    single = len(bounds) == 1
    shaped = {name: values[0] if single else values.T for name, values in indices.items()}
    draws_by_name = None
    if n_samples:
        _, drawn_values, _ = find((int(n_samples), int(random_state)))
        # Shapes (outputs, draws, players) and (outputs, draws).
        values_by_draw = {
            name: draws_of_output.reshape(len(bounds), n_samples, *draws_of_output.shape[1:])
            for name, draws_of_output in drawn_values.items()
        }
        draws_by_name = {
            name: values[0] if single else np.moveaxis(values, 0, -1)
            for name, values in values_by_draw.items()
        }
    return SobolIndices(
        feature_names=[name for name, _ in explainer._players],
        first_order=shaped["first_order"],
        shapley_effects=shaped["shapley_effects"],
        total_order=shaped["total_order"],
        variance=shaped["variance"],
        bound=bounds[0] if single else bounds,
        explanation=Explanation(core.explanation),
        samples=draws_by_name,
        _record=core.record,
        _curves=(
            [(weight, part.expansion) for weight, part in models],
            rows,
            explainer._weights,
            active_players,
        ),
    )


def _core_indices(
    model: tuple[Explainer, Models, list[Any]],
    rows: np.ndarray,
    options: tuple[str, bool, int | None],
    draws: tuple[int, int] | None,
) -> tuple[_core.SobolIndices, dict[str, np.ndarray], np.ndarray]:
    """Returns the core's indices, the shares of players with the variance, and the bound on shares, for each
    output. ``options`` are the index, whether the posterior is used, and the number of threads."""
    explainer, models, active_players = model
    index, posterior, threads = options
    core = _core.sobol_indices(
        core_models(models, posterior),
        rows,
        explainer._weights,
        active_players,
        index,
        posterior,
        draws,
        threads,
    )
    variance, bounds = core.explanation.predictions[0], np.asarray(core.bound)
    scale = np.full(len(bounds), np.nan)
    np.divide(1.0, variance, out=scale, where=variance > bounds)
    share = lambda numbers: _in_player_order(numbers * scale[:, None], explainer)
    shares = {
        "first_order": share(core.first_order),
        "shapley_effects": share(core.effects),
        "total_order": share(core.total_order),
    }
    return core, {**shares, "variance": variance}, bounds * scale


def sage_values(
    model: Any,
    X: Any,
    y: Any,
    background: Any = None,
    *,
    groups: Groups | None = None,
    background_weights: Any = None,
    n_orders: int | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> SageValues:
    """SAGE values: the contribution of each feature to reducing a model's loss (Covert, Lundberg and Lee
    2020).

    The value of a coalition is the loss of the mean prediction minus the loss of the predictions in which
    absent features are averaged over the background. It is computed for all rows with the whole background.
    Orders of features are drawn at random only if there are more than ``2 * n_orders * d`` coalitions.

    Parameters
    ----------
    model
        A kernel model, as for :class:`riesz.Explainer`. Classifiers need their own class probabilities, such
        as :class:`riesz.KernelLogisticRegression`, and have the log loss. Other models have the squared
        error, summed over outputs. Or a function of rows, such as ``forest.predict``; a function with one
        probability per class, such as ``forest.predict_proba``, has the log loss.
    X : array or data frame of shape (n, d)
        Labelled rows, preferably not the training rows.
    y : array of shape (n,) or (n, m)
        Numbers, or classes.
    background : array or data frame of shape (b, d), optional
        Rows from which absent features take their values, by default ``X``. The cost grows with n · b.
    groups : dict of name to list of columns, optional
    background_weights : array of shape (b,), optional
    n_orders : int, default 256
        Number of random orders; each is also used in reverse. A warning tells if all coalitions were
        evaluated instead, so that it has no effect.
    random_state : int, default 0
    n_jobs : int, optional

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from riesz.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> y = X[:, 0] ** 2
    >>> found = riesz.sage_values(riesz.KernelRidge(kernel=RBF(2.0), alpha=0.01).fit(X, y), X, y)
    >>> int(found.values.argmax()), bool(np.isclose(found.values.sum(), found.base_loss - found.loss))
    (0, True)

    Of any function:

    >>> found = riesz.sage_values(lambda rows: rows[:, 0] ** 2, X, y)
    >>> found.feature_names[int(found.values.argmax())], round(found.loss, 12)
    ('x0', 0.0)
    """
    if n_orders is not None and (not is_whole(n_orders) or n_orders < 1):
        raise ValueError(f"n_orders = {n_orders!r}: it is a whole number, at least 1")
    orders = 256 if n_orders is None else int(n_orders)
    values = _sage_values(
        model, X, y, background, groups, background_weights, orders, int(random_state), n_jobs
    )
    if n_orders is not None and values.sampling_error is None:
        warnings.warn(
            f"n_orders = {n_orders} has no effect: all coalitions were evaluated, without random orders",
            stacklevel=2,
        )
    return values


def _sage_values(
    model: Any,
    X: Any,
    y: Any,
    background: Any,
    groups: Groups | None,
    background_weights: Any,
    n_orders: int,
    random_state: int,
    n_jobs: int | None,
) -> SageValues:
    """Returns the SAGE values of a kernel model or a function."""
    if _is_average(model) and getattr(model, "average_", model).classes:
        raise ValueError("the labels are classes, which need probabilities: pass the function .predict_proba")
    background = X if background is None else background
    explainer, kernel_model = _models_or_function(
        model, background, groups, background_weights, "interventional", mean_only=True
    )
    if kernel_model is None:
        return sage_of_function(explainer, model, X, y, n_orders, random_state)
    ((_, part),), active_players = kernel_model
    rows = explainer._model_rows(explainer._background, "background")[0]
    labelled_rows = explainer._model_rows(explainer._select_columns(X, "X"), "X")[0]
    core, numbers, classes = part.expansion._core, None, None
    if core.classes:
        codes = _core.codes(core.classes, np.asarray(y).ravel().tolist())
        if None in codes:
            unknown, class_list = np.asarray(y).ravel()[codes.index(None)], ", ".join(core.classes)
            raise ValueError(f"y holds {unknown!r}, but the model's classes are: {class_list}")
        classes = [code for code in codes if code is not None]
    else:
        numbers = label_numbers(y)
    core_values = _core.sage_values(
        core,
        labelled_rows,
        numbers,
        classes,
        rows,
        explainer._weights,
        active_players,
        n_orders,
        random_state,
        threads_of(n_jobs),
    )
    ordered = lambda numbers: None if numbers is None else _in_player_order(numbers, explainer)
    return sage_result(core_values, explainer, ordered, Explanation(core_values.explanation))
