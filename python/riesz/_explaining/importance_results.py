"""Results of global importance: Sobol indices and SAGE values, with their tables, plots and pages."""

from __future__ import annotations

import html
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _core, plots
from .._data.parameters import is_whole
from .._models.expansion import write
from .explainer import Explainer
from .explanation import Explanation, check_suffix


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
            for name, column in FRAME_NAMES.items():
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
        models, *inputs = self._curves
        curves = ([(weight, expansion._with_posterior()) for weight, expansion in models], *inputs)
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
FRAME_NAMES = {
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


def sage_result(
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
