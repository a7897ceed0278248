"""Global importance of features: for a model's output (Sobol indices) and for its loss (SAGE values)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core, plots
from ._core import UnsupportedModelError
from ._explainer import Explainer
from ._explanation import Explanation
from ._model_loading import Part
from ._player_groups import Groups, model_players
from ._validation import is_whole, threads_of

__all__ = ["SageValues", "SobolIndices", "sage_values", "sobol_indices"]


@dataclass(frozen=True, eq=False)
class SobolIndices:
    """Shares of the variance of a model's output, of shape (d,), or (d, m) for m outputs; NaN for a constant
    output."""

    feature_names: list[str]
    #: The first-order indices, ``Var E[f | X_j] / Var f``.
    first_order: np.ndarray
    #: The Shapley effects, between first-order and total indices; they sum to 1.
    shapley_effects: np.ndarray
    #: The total indices, ``E Var[f | all others] / Var f``.
    total_order: np.ndarray
    #: The variance of each output.
    variance: Any
    #: A proved bound on the error of each share.
    bound: Any
    #: The values of the requested ``index``, not divided by the variance, as an explanation of one row.
    explanation: Explanation
    #: With ``n_samples``, the indices of functions drawn from the posterior: ``first_order``,
    #: ``shapley_effects`` and ``total_order``, (n_samples, d) or (n_samples, d, m), and ``variance``.
    samples: dict[str, np.ndarray] | None = None

    def interval(self, level: float = 0.95) -> dict[str, tuple[Any, Any]]:
        """Returns credible intervals with probability ``level`` for each entry of :attr:`samples`, from
        quantiles of the draws. They are central, but are extended to the estimate if it lies outside. Far
        from the support points draws vary less than the posterior."""
        if self.samples is None:
            raise ValueError(
                "there are no samples: take a Gaussian process, sobol_indices(model, background, "
                "posterior=True, n_samples=200)"
            )
        if not 0 < level < 1:
            raise ValueError(f"level = {level!r}: it is a probability between 0 and 1")
        ends = (1 - level) / 2, (1 + level) / 2
        intervals = {}
        for name, drawn in self.samples.items():
            low, high = np.quantile(drawn, ends, axis=0)
            intervals[name] = np.fmin(low, getattr(self, name)), np.fmax(high, getattr(self, name))
        return intervals

    def to_frame(self) -> Any:
        """Returns a ``pandas.DataFrame`` of the three indices of a single output, one line per feature, the
        largest Shapley effect first."""
        import pandas as pd

        if np.ndim(self.first_order) > 1:
            raise ValueError("a data frame shows one output: make one of each column of the arrays")
        columns = {
            "first_order": self.first_order,
            "shapley_effect": self.shapley_effects,
            "total_order": self.total_order,
        }
        frame = pd.DataFrame(columns, index=pd.Index(self.feature_names, name="feature"))
        return frame.sort_values("shapley_effect", ascending=False)

    def plot(self, ax: Any = None, max_display: int | None = 10) -> Any:
        """Draws the parts of the variance of a single output by :func:`riesz.plots.bar`."""
        return plots.bar(self.explanation, ax, max_display)

    def __repr__(self) -> str:
        outputs = 1 if np.ndim(self.first_order) == 1 else self.first_order.shape[1]
        head = f"<riesz.SobolIndices: {len(self.feature_names)} features"
        if outputs > 1:
            return f"{head}, {outputs} outputs>"
        return f"{head}; Shapley effects: {_largest(self.feature_names, self.shapley_effects)}>"


@dataclass(frozen=True, eq=False)
class SageValues:
    """The contribution of each feature to reducing a model's loss (SAGE)."""

    feature_names: list[str]
    #: The values, (d,); they sum to ``base_loss - loss``.
    values: np.ndarray
    #: Standard errors from the sampling of labelled rows. ``None`` for a single row.
    std_error: np.ndarray | None
    #: Standard errors from the sampling of orders of features; ``None`` if all coalitions were evaluated.
    sampling_error: np.ndarray | None
    #: The mean loss of the constant mean prediction.
    base_loss: float
    #: The mean loss of the model.
    loss: float
    #: ``"squared error"`` or ``"log loss"``.
    measure: str
    #: The number of evaluated coalitions.
    coalitions: int
    #: The values as an explanation of one row.
    explanation: Explanation

    def to_frame(self) -> Any:
        """Returns a ``pandas.DataFrame``, one line per feature, the largest value first."""
        import pandas as pd

        columns = {"value": self.values, "std_error": self.std_error, "sampling_error": self.sampling_error}
        present_columns = {name: column for name, column in columns.items() if column is not None}
        frame = pd.DataFrame(present_columns, index=pd.Index(self.feature_names, name="feature"))
        return frame.sort_values("value", ascending=False)

    def plot(self, ax: Any = None, max_display: int | None = 10) -> Any:
        """Draws the values by :func:`riesz.plots.bar`."""
        return plots.bar(self.explanation, ax, max_display)

    def __repr__(self) -> str:
        losses = f"{self.measure} {self.loss:.4g}, of the constant prediction {self.base_loss:.4g}"
        return f"<riesz.SageValues: {losses}; values: {_largest(self.feature_names, self.values)}>"


def _largest(names: list[str], values: np.ndarray) -> str:
    """Returns the five largest values with their names, as text."""
    order = np.argsort(-values, kind="stable")
    shown = [f"{names[j]} {values[j]:.4g}" for j in order[:5]]
    return ", ".join([*shown, *(["…"] if len(order) > 5 else [])])


def single_expansion(
    model: Any, background: Any, groups: Groups | None, background_weights: Any, game: str
) -> tuple[Explainer, Part, list[Any]]:
    """Returns an explainer of the model, its only expansion, and the players with a column in it."""
    explainer = Explainer(model, background, game=game, groups=groups, background_weights=background_weights)
    parts = explainer._imported.parts
    if not explainer._cores or explainer.exactness != "exact":
        raise UnsupportedModelError(
            f"this needs a model with a known kernel: {explainer.reason or 'this one is not'}"
        )
    if len(parts) != 1:
        raise UnsupportedModelError(
            f"this needs one kernel machine, and a {explainer._imported.kind} has {len(parts)}"
        )
    active_players = [player for player in model_players(explainer._players, parts[0].owners) if player[1]]
    return explainer, parts[0], active_players


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
) -> SobolIndices:
    """Sobol indices and Shapley effects: each feature's share of the variance of a model's output.

    They are exact, with a proved bound, if features are independent and each feature (each group of columns
    jointly) has the distribution of the rows of ``background``. The variance given some features is then a
    product game over pairs of support points.

    Parameters
    ----------
    model
        A kernel model, as for :class:`riesz.Explainer`, whose kernel is a product over features or a sum of
        products.
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
        variance, so variances are larger.
    n_samples : int, default 0
        With ``posterior``: number of functions drawn from the posterior, for :attr:`SobolIndices.samples` and
        :meth:`~SobolIndices.interval`. A draw is exact at the support points; elsewhere it is the conditional
        mean given its values there, so draws vary too little at inputs far from support points. Directions
        with a prior variance below 1e-9 of the largest are omitted.
    random_state : int, default 0
        Seed of the draws.
    n_jobs : int, optional

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
    """
    explainer, part, active_players = single_expansion(
        model, background, groups, background_weights, "marginal_product"
    )
    if not is_whole(n_samples) or n_samples < 0 or (n_samples and not posterior):
        raise ValueError(
            f"n_samples = {n_samples!r}: it is a whole number, and samples are from a posterior: give "
            "posterior=True"
        )
    rows = explainer._model_rows(explainer._background, "background")[0]

    def find(draws: tuple[int, int] | None) -> tuple[_core.Explanation, dict[str, np.ndarray], np.ndarray]:
        """Returns the shares of players, the variance, and the bound on shares, for each output."""
        core, first, effects, total, bound = _core.sobol_indices(
            part.expansion._with_posterior() if posterior else part.expansion._core,
            rows,
            explainer._weights,
            active_players,
            str(index).lower(),
            bool(posterior),
            draws,
            threads_of(n_jobs),
        )
        variance, bounds = core.predictions[0], np.asarray(bound)
        scale = np.full(len(bounds), np.nan)
        np.divide(1.0, variance, out=scale, where=variance > bounds)
        share = lambda numbers: _in_player_order(numbers * scale[:, None], explainer)
        shares = {"first_order": share(first), "shapley_effects": share(effects), "total_order": share(total)}
        return core, {**shares, "variance": variance}, bounds * scale

    core, indices, bounds = find(None)
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
        explanation=Explanation(core),
        samples=draws_by_name,
    )


def sage_values(
    model: Any,
    X: Any,
    y: Any,
    background: Any = None,
    *,
    groups: Groups | None = None,
    background_weights: Any = None,
    n_orders: int = 256,
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
        error, summed over outputs.
    X : array or data frame of shape (n, d)
        Labelled rows, preferably not the training rows.
    y : array of shape (n,) or (n, m)
        Numbers, or classes.
    background : array or data frame of shape (b, d), optional
        Rows from which absent features take their values, by default ``X``. The cost grows with n · b.
    groups : dict of name to list of columns, optional
    background_weights : array of shape (b,), optional
    n_orders : int, default 256
        Number of random orders; each is also used in reverse.
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
    """
    explainer, part, active_players = single_expansion(
        model, X if background is None else background, groups, background_weights, "interventional"
    )
    if not is_whole(n_orders) or n_orders < 1:
        raise ValueError(f"n_orders = {n_orders!r}: it is a whole number, at least 1")
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
        numbers = np.ascontiguousarray(y, dtype=np.float64)
        numbers = numbers[:, None] if numbers.ndim == 1 else numbers
        if numbers.ndim != 2 or not np.isfinite(numbers).all():
            raise ValueError("y is one number, or one row of numbers, for each row of X, and all are finite")
    core_values = _core.sage_values(
        core,
        labelled_rows,
        numbers,
        classes,
        rows,
        explainer._weights,
        active_players,
        int(n_orders),
        int(random_state),
        threads_of(n_jobs),
    )
    ordered = lambda numbers: None if numbers is None else _in_player_order(numbers, explainer)
    return SageValues(
        feature_names=[name for name, _ in explainer._players],
        values=_in_player_order(core_values.values, explainer),
        std_error=ordered(core_values.std_error),
        sampling_error=ordered(core_values.sampling_error),
        base_loss=core_values.base_loss,
        loss=core_values.loss,
        measure=core_values.measure,
        coalitions=core_values.coalitions,
        explanation=Explanation(core_values.explanation),
    )
