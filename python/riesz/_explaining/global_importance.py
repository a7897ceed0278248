"""Global importance of features: for a model's output (Sobol indices) and for its loss (SAGE values).

Kernel models are decomposed exactly. Other functions are called at mixed rows, and their importance is
estimated with standard errors."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _core, plots
from .._core import UnsupportedModelError
from .._data.validation import as_cells, is_whole, threads_of
from .._models.expansion import write
from .._models.loading import Part
from .black_box import _function_outputs, _row_numbers, _row_selector
from .explainer import Explainer
from .explanation import Explanation, check_suffix, joined
from .feature_groups import Groups, model_players

__all__ = ["SageValues", "SobolIndices", "sage_values", "sobol_indices"]


@dataclass(frozen=True, eq=False, repr=False)
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
    #: A proved bound on the error of each share; ``None`` for estimates.
    bound: Any
    #: The values of the requested ``index``, not divided by the variance, as an explanation of one row.
    explanation: Explanation
    #: With ``n_samples``, the indices of functions drawn from the posterior: ``first_order``,
    #: ``shapley_effects`` and ``total_order``, (n_samples, d) or (n_samples, d, m), and ``variance``.
    samples: dict[str, np.ndarray] | None = None
    #: For estimates, the standard errors of ``first_order``, ``shapley_effects`` and ``total_order``.
    std_error: dict[str, np.ndarray] | None = None
    #: For estimates, the number of rows for which the function was evaluated.
    n_evaluations: int | None = None
    #: The core's result as JSON, and the model with its inputs, for files and pages.
    _record: str | None = None
    _curves: Any = field(default=None)

    def interval(self, level: float = 0.95) -> dict[str, tuple[Any, Any]]:
        """Returns credible intervals with probability ``level`` for each entry of :attr:`samples`, from
        quantiles of the draws. They are central, but are extended to the estimate if it lies outside. Far
        from the support points draws vary less than the posterior. For estimates, these are confidence
        intervals from their standard errors."""
        if not 0 < level < 1:
            raise ValueError(f"level = {level!r}: it is a probability between 0 and 1")
        if self.std_error is not None:
            from scipy.special import ndtri

            reach = float(ndtri(0.5 + level / 2))
            return {
                name: (getattr(self, name) - reach * error, getattr(self, name) + reach * error)
                for name, error in self.std_error.items()
            }
        if self.samples is None:
            raise ValueError(
                "there are no samples: take a Gaussian process, sobol_indices(model, background, "
                "posterior=True, n_samples=200)"
            )
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
        if self.std_error is not None:
            for name, column in _FRAME_NAMES.items():
                frame[f"{column}_std_error"] = self.std_error[name]
        return frame.sort_values("shapley_effect", ascending=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the indices as JSON, in the format of ``riesz importance … -o FILE.json``."""
        check_suffix(path, (".json",), "save writes JSON (for a table use .to_frame())")
        write(path, _core.importance_record(self._exact_record("save"), False).encode())

    def report(
        self, path: str | os.PathLike[str], title: str | None = None, *, max_display: int = 20
    ) -> None:
        """Writes a self-contained HTML page with the shares, curves of the features with the largest Shapley
        effects, exactness and provenance, as ``riesz importance … -o FILE.html`` does.

        Parameters
        ----------
        path : path
        title : str, optional
        max_display : int, default 20
            Number of features that the plot shows by name; the table has all.

        Examples
        --------
        >>> import tempfile, pathlib, numpy as np, riesz
        >>> model = riesz.Expansion(riesz.kernels.RBF(1.5), points=np.eye(3), coef=[1.0, -1.0, 0.5])
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "importance.html"
        >>> riesz.sobol_indices(model, np.random.default_rng(0).normal(size=(50, 3))).report(path)
        >>> "Importance of features" in path.read_text()
        True
        """
        _check_page(path, title, max_display)
        record = self._exact_record("report")
        expansion, rows, weights, players = self._curves
        curves = (expansion._with_posterior(), rows, weights, players)
        page = _core.importance_page(record, title, None, curves, None, [], int(max_display))
        write(path, page.encode())

    def _exact_record(self, method: str) -> str:
        if self._record is None:
            raise ValueError(
                f"{method}: files and pages are of exact indices of a kernel model, and these are estimates "
                "for a function: use .to_frame() and .plot()"
            )
        return self._record

    def __repr__(self) -> str:
        if self.std_error is None:
            largest = np.nanmax(np.atleast_1d(self.bound), initial=0.0)
            state = f"exact within {largest:.1e}"
        else:
            largest = max(float(np.nanmax(error, initial=0.0)) for error in self.std_error.values())
            state = f"estimated, standard errors up to {largest:.1e}"
        if np.ndim(self.shapley_effects) > 1:
            outputs = self.shapley_effects.shape[1]
            return f"<riesz.SobolIndices: {len(self.feature_names)} features, {outputs} outputs, {state}>"
        effects = _largest(self.feature_names, self.shapley_effects)
        return f"<riesz.SobolIndices: Shapley effects: {effects}; {state}>"

    def _repr_html_(self) -> str:
        head = f"<p>{html.escape(repr(self)[1:-1])}</p>"
        if np.ndim(self.first_order) > 1:
            return head
        return head + self.to_frame().head(20).to_html(float_format="{:.4f}".format)

    def plot(self, ax: Any = None, max_display: int | None = 10) -> Any:
        """Draws the parts of the variance of a single output by :func:`riesz.plots.bar`."""
        return plots.bar(self.explanation, ax, max_display)


@dataclass(frozen=True, eq=False, repr=False)
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
    #: The core's result as JSON, for files and pages.
    _record: str = ""

    def to_frame(self) -> Any:
        """Returns a ``pandas.DataFrame``, one line per feature, the largest value first."""
        import pandas as pd

        columns = {"value": self.values, "std_error": self.std_error, "sampling_error": self.sampling_error}
        present_columns = {name: column for name, column in columns.items() if column is not None}
        frame = pd.DataFrame(present_columns, index=pd.Index(self.feature_names, name="feature"))
        return frame.sort_values("value", ascending=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the values as JSON, in the format of ``riesz importance --target … -o FILE.json``."""
        check_suffix(path, (".json",), "save writes JSON (for a table use .to_frame())")
        write(path, _core.importance_record(self._record, True).encode())

    def report(
        self,
        path: str | os.PathLike[str],
        title: str | None = None,
        *,
        target: str = "y",
        max_display: int = 20,
    ) -> None:
        """Writes a self-contained HTML page, as ``riesz importance --target … -o FILE.html`` does.

        Parameters
        ----------
        path : path
        title : str, optional
            By default it names the target.
        target : str, default "y"
        max_display : int, default 20
            Number of features that the plot shows by name; the table has all.
        """
        _check_page(path, title, max_display)
        core, facts = self.explanation._core, [("target", target)]
        page = _core.importance_page(self._record, title, target, None, core, facts, int(max_display))
        write(path, page.encode())

    def _repr_html_(self) -> str:
        table = self.to_frame().head(20).to_html(float_format="{:.4g}".format)
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{table}"

    def plot(self, ax: Any = None, max_display: int | None = 10) -> Any:
        """Draws the values by :func:`riesz.plots.bar`."""
        return plots.bar(self.explanation, ax, max_display)

    def __repr__(self) -> str:
        losses = f"{self.measure} {self.loss:.4g}, of the constant prediction {self.base_loss:.4g}"
        return f"<riesz.SageValues: {losses}; values: {_largest(self.feature_names, self.values)}>"


#: The columns of data frames by the names of indices.
_FRAME_NAMES = {
    "first_order": "first_order",
    "shapley_effects": "shapley_effect",
    "total_order": "total_order",
}


def _largest(names: list[str], values: np.ndarray) -> str:
    """Returns the three features with the largest values as text."""
    order = np.argsort(-np.nan_to_num(values), kind="stable")[:3]
    listed = ", ".join(f"{names[j]} {values[j]:.4g}" for j in order)
    return listed + (", …" if len(names) > 3 else "")


def _check_page(path: str | os.PathLike[str], title: Any, max_display: Any) -> None:
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title = {title!r}: it is a text")
    if not is_whole(max_display) or max_display < 1:
        raise ValueError(f"max_display = {max_display!r}: it is a whole number, at least 1")
    check_suffix(path, (".html", ".htm"), "report writes HTML")


@dataclass(frozen=True)
class _FunctionRows:
    """A function of rows of numbers that represent the user's rows, and a table of such rows."""

    function: Callable[[np.ndarray], np.ndarray]
    background: tuple[list[str], list[list[str] | None], np.ndarray]
    #: The labelled rows, if there are any.
    rows: tuple[list[str], list[list[str] | None], np.ndarray] | None
    #: One row with the mean of each column of numbers, and the most frequent cell of other columns.
    typical: np.ndarray

    @classmethod
    def from_explainer(cls, explainer: Explainer, X: Any = None) -> _FunctionRows:
        """Returns the function of an explainer without exact values."""
        function, background = explainer._imported.function, explainer._background
        if function is None or background is None:
            raise UnsupportedModelError(
                f"this needs a kernel model, or a function and a background: {explainer.reason or ''}"
            )
        names = explainer.feature_names
        cells = as_cells(background, "background")
        rows = background if X is None else explainer._select_columns(X, "X")
        select = _row_selector(background, rows)
        levels: list[list[str] | None] = [None] * len(names)
        table = lambda numbers: (names, levels, numbers)
        call = lambda numbers: _function_outputs(function, select(numbers.astype(np.intp)))
        weights = explainer._weights
        typical = [_typical(cells[:, j], weights) for j in range(cells.shape[1])]
        return cls(
            call,
            table(_row_numbers(0, cells)),
            None if X is None else table(_row_numbers(len(cells), as_cells(rows, "X"))),
            np.array([typical], dtype=object),
        )

    def explanation(self, core: _core.Explanation, explainer: Explainer) -> Explanation:
        """Returns the core's explanation with the user's cells, and the function's kind in the provenance."""
        _, absent, _, run = core.provenance
        players = explainer._players
        return joined(
            [[(core, range(len(players)))]],
            players,
            data=self.typical,
            column_names=explainer.feature_names,
            output_names=list(core.output_names),
            provenance={
                "game": core.provenance[0],
                "absent": absent,
                "model": {"model": explainer._imported.kind},
                "run": dict(run),
            },
        )


def _typical(cells: np.ndarray, weights: np.ndarray | None) -> Any:
    """Returns the mean of numbers, or the most frequent of other cells."""
    try:
        return float(np.average(cells.astype(float), weights=weights))
    except (TypeError, ValueError):
        values, counts = np.unique(cells.astype(str), return_counts=True)
        return str(values[counts.argmax()])


def _expansion_or_function(
    model: Any, background: Any, groups: Groups | None, weights: Any, game: str
) -> tuple[Explainer, tuple[Part, list[Any]] | None]:
    """Returns the explainer of a model, and its expansion with its players if it is one kernel model; the
    function of other models is called."""
    try:
        explainer, part, players = single_expansion(model, background, groups, weights, game)
    except UnsupportedModelError as error:
        return _function_explainer(model, background, groups, weights, error), None
    return explainer, (part, players)


def _function_explainer(
    model: Any, background: Any, groups: Groups | None, weights: Any, error: UnsupportedModelError
) -> Explainer:
    """Returns an explainer whose function is called, or raises ``error`` if the model has none."""
    try:
        explainer = Explainer(
            model, background, game="interventional", groups=groups, background_weights=weights
        )
    except UnsupportedModelError:
        raise error from None
    if explainer._imported.function is None or explainer._texts is not None:
        raise error
    return explainer


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
        variance, so variances are larger.
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
    explainer, kernel_model = _expansion_or_function(
        model, background, groups, background_weights, "marginal_product"
    )
    if kernel_model is None:
        if posterior or n_samples:
            raise ValueError("posterior: a function has none: leave posterior and n_samples out")
        if str(index).lower() != "shapley":
            raise ValueError(f"index = {index!r}: the indices of functions are those of index='shapley'")
        return _sobol_of_function(explainer, n_evaluations, random_state)
    part, active_players = kernel_model
    if not is_whole(n_samples) or n_samples < 0 or (n_samples and not posterior):
        raise ValueError(
            f"n_samples = {n_samples!r}: it is a whole number, and samples are from a posterior: give "
            "posterior=True"
        )
    rows = explainer._model_rows(explainer._background, "background")[0]

    options = str(index).lower(), bool(posterior), threads_of(n_jobs)
    find = lambda draws: _core_indices((explainer, part, active_players), rows, options, draws)
    try:
        core, indices, bounds = find(None)
    except UnsupportedModelError as error:
        if posterior or str(index).lower() != "shapley":
            raise
        function = _function_explainer(model, background, groups, background_weights, error)
        return _sobol_of_function(function, n_evaluations, random_state)
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
        _curves=(part.expansion, rows, explainer._weights, active_players),
    )


def _core_indices(
    model: tuple[Explainer, Part, list[Any]],
    rows: np.ndarray,
    options: tuple[str, bool, int | None],
    draws: tuple[int, int] | None,
) -> tuple[_core.SobolIndices, dict[str, np.ndarray], np.ndarray]:
    """Returns the core's indices, the shares of players with the variance, and the bound on shares, for each
    output. ``options`` are the index, whether the posterior is used, and the number of threads."""
    explainer, part, active_players = model
    index, posterior, threads = options
    core = _core.sobol_indices(
        part.expansion._with_posterior() if posterior else part.expansion._core,
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


def _sobol_of_function(explainer: Explainer, n_evaluations: int, random_state: int) -> SobolIndices:
    """Returns estimated indices of a function."""
    rows_per_pair = 3 * len(explainer._players) + 1
    if not is_whole(n_evaluations) or n_evaluations < 2 * rows_per_pair:
        raise ValueError(
            f"n_evaluations = {n_evaluations!r}: it is a whole number, at least {2 * rows_per_pair} for "
            "these features"
        )
    inputs = _FunctionRows.from_explainer(explainer)
    core, shares, evaluations = _core.sobol_of_function(
        inputs.function,
        (inputs.background, None if explainer._weights is None else explainer._weights.tolist()),
        explainer._players,
        int(n_evaluations) // rows_per_pair,
        int(random_state),
    )
    single = core.predictions.shape[1] == 1
    shaped = lambda numbers: numbers[0] if single else numbers.T
    values = {name: shaped(value) for name, (value, _) in zip(_FRAME_NAMES, shares)}
    errors = {name: shaped(error) for name, (_, error) in zip(_FRAME_NAMES, shares)}
    variance = core.predictions[0]
    return SobolIndices(
        feature_names=[name for name, _ in explainer._players],
        **values,
        variance=variance[0] if single else variance,
        bound=None,
        explanation=inputs.explanation(core, explainer),
        std_error=errors,
        n_evaluations=evaluations,
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

    Of any function:

    >>> found = riesz.sage_values(lambda rows: rows[:, 0] ** 2, X, y)
    >>> found.feature_names[int(found.values.argmax())], round(found.loss, 12)
    ('x0', 0.0)
    """
    if not is_whole(n_orders) or n_orders < 1:
        raise ValueError(f"n_orders = {n_orders!r}: it is a whole number, at least 1")
    background = X if background is None else background
    explainer, kernel_model = _expansion_or_function(
        model, background, groups, background_weights, "interventional"
    )
    if kernel_model is None:
        return _sage_of_function(explainer, model, X, y, int(n_orders), int(random_state))
    part, active_players = kernel_model
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
    return _sage_result(core_values, explainer, ordered, Explanation(core_values.explanation))


def _sage_result(
    core: _core.SageValues, explainer: Explainer, ordered: Callable[[Any], Any], explanation: Explanation
) -> SageValues:
    """Returns the core's values; ``ordered`` puts numbers in the order of the user's players."""
    return SageValues(
        feature_names=[name for name, _ in explainer._players],
        values=ordered(core.values),
        std_error=ordered(core.std_error),
        sampling_error=ordered(core.sampling_error),
        base_loss=core.base_loss,
        loss=core.loss,
        measure=core.measure,
        coalitions=core.coalitions,
        explanation=explanation,
        _record=core.record,
    )


def _sage_of_function(
    explainer: Explainer, model: Any, X: Any, y: Any, n_orders: int, random_state: int
) -> SageValues:
    """Returns the SAGE values of a function, which is called at mixed rows."""
    inputs = _FunctionRows.from_explainer(explainer, X)
    assert inputs.rows is not None
    first = inputs.function(inputs.rows[2][:1])
    numbers, classes = _labels_of_function(model, y, first.shape[1])
    if classes is not None and not (first.min() >= 0 and np.isclose(first.sum(), 1.0, atol=1e-6)):
        raise ValueError(
            "y holds classes, and the function's outputs are no probabilities: give a function with one "
            "probability per class, such as model.predict_proba"
        )
    core = _core.sage_of_function(
        inputs.function,
        inputs.rows,
        numbers,
        classes,
        (inputs.background, None if explainer._weights is None else explainer._weights.tolist()),
        explainer._players,
        n_orders,
        random_state,
    )
    return _sage_result(
        core, explainer, lambda numbers: numbers, inputs.explanation(core.explanation, explainer)
    )


def _labels_of_function(model: Any, y: Any, outputs: int) -> tuple[np.ndarray | None, list[int] | None]:
    """Returns labels as numbers, or as codes of the classes of a function with one probability per class."""
    labels = np.asarray(y)
    if outputs > 1 and labels.ndim == 1:
        owner = getattr(model, "__self__", model)
        classes = getattr(owner, "classes_", None)
        levels = np.unique(labels) if classes is None else np.asarray(classes)
        if len(levels) != outputs:
            raise ValueError(
                f"y has {len(levels)} classes, but the function has {outputs} outputs: it returns one "
                "probability per class, in sorted order, or y has one column per output"
            )
        code_of_level = {level: code for code, level in enumerate(levels.tolist())}
        unknown = [label for label in labels.tolist() if label not in code_of_level]
        if unknown:
            raise ValueError(f"y holds {unknown[0]!r}, but the model's classes are: {levels.tolist()}")
        return None, [code_of_level[label] for label in labels.tolist()]
    try:
        numbers = np.ascontiguousarray(labels, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "y holds classes, and the function has one output: give a function with one probability per "
            "class, such as model.predict_proba"
        ) from None
    numbers = numbers[:, None] if numbers.ndim == 1 else numbers
    if numbers.ndim != 2 or not np.isfinite(numbers).all():
        raise ValueError("y is one number, or one row of numbers, for each row of X, and all are finite")
    return numbers, None
