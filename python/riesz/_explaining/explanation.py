"""Explanations: values, base values, their exactness and their provenance."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product
from statistics import NormalDist
from typing import Any

import numpy as np

from .. import _core
from .._data.parameters import is_whole, whole_number
from .._data.validation import as_numbers, is_missing
from .._models.expansion import write

#: Suffix of a column name of :attr:`Explanation.data` that holds the left item's numbers minus the right
#: one's.
LESS = ", left − right"


#: The error message for covariances of means.
NO_COVARIANCE = (
    "covariance: the covariance between explained rows is not kept, so a mean over several "
    "rows has none: "
    "leave it out"
)


@dataclass(frozen=True)
class Sampling:
    """The evaluations by which values were estimated."""

    #: Number of rows evaluated by the model; for kernel models, of coalitions evaluated for all rows
    #: together.
    evaluations: int
    #: Seed of the sampler.
    seed: int


@dataclass(frozen=True)
class Kept:
    """The data with which :meth:`riesz.Explainer.refine` continues."""

    explainer: Any
    X: Any
    samples: list[_core.Sample]


@dataclass(frozen=True)
class Certificate:
    """The certificate of exact values."""

    #: The largest ``|prediction - base value - sum of values|``.
    residual: float
    #: The largest proved bound on the error of a value.
    bound: float
    #: Whether every residual is within its own bound.
    holds: bool


@dataclass(frozen=True)
class Duel:
    """An explained duel, or a mean of several."""

    #: The item on the left; values explain why it wins.
    left: str
    #: The item on the right.
    right: str
    #: Probability that the left item wins, averaged over the posterior; ``None`` without a posterior, and for
    #: a mean over several duels.
    probability: float | None = None
    #: A 95 % interval of this probability, from the ends of the interval of the log odds. It is extended to
    #: ``probability``, which is a mean, if that lies outside.
    interval: tuple[float, float] | None = None
    #: Probability of a tie, for a model with ``ties="model"``; else ``None``.
    probability_tie: float | None = None
    #: Posterior probability that the left item is better.
    probability_better: float | None = None


@dataclass(frozen=True)
class Provenance:
    """The game, model and run from which an explanation was computed."""

    #: Name of the game.
    game: str
    #: Meaning of an absent feature in this game.
    absent: str
    #: Facts about the model, by name.
    model: dict[str, str] = field(default_factory=dict)
    #: Facts about the run, by name.
    run: dict[str, str] = field(default_factory=dict)


class Explanation:
    """Shapley values, or other values of :attr:`index`, for ``n`` rows, ``d`` features (players) and ``m``
    outputs.

    Select rows, features and outputs by numbers, names, slices, lists or masks, as in ``explanation[0]``,
    ``explanation[:, "bmi"]``, ``explanation[10:20, :, "virginica"]``. The values of a selection of features
    do not add up to the predictions. Such a selection has no certificate and cannot be saved, reported or
    drawn as a waterfall.

    Attributes
    ----------
    index : str
        The kind of values, as given to :class:`~riesz.Explainer`: ``"shapley"``, ``"banzhaf"`` or another.
        Values of ``"shapley"``, ``"k-sii"``, ``"stii"`` and ``"fsii"`` add up to the prediction minus the
        base value.
    feature_names : list of str
        The players: columns, or groups of columns. For an :attr:`index` of pairs, all pairs follow, as in
        ``"age × bmi"``.
    output_names : list of str
    row_numbers : array of int
        The number of each row among the explained rows.
    column_names : list of str
        The columns of :attr:`data`. For duels, ``"price, left − right"`` holds differences.
    provenance : Provenance
    sampling : Sampling or None
        For estimated values, the number of model ``evaluations`` and the ``seed``; None for values from a
        table.
    """

    def __init__(
        self,
        core: _core.Explanation,
        data: np.ndarray | None = None,
        squeezed: tuple[bool, bool, bool] = (False, False, False),
        kept: Kept | None = None,
    ) -> None:
        self._core = core
        # The user's cells; the core has them as numbers and levels.
        self._data = _cells(core) if data is None else data
        # Arrays are always rows × players × outputs, and rows × outputs. `squeezed` marks axes that were
        # selected by a number or name and are not shown.
        self._squeezed = squeezed
        # Data for Explainer.refine; selections, files and pickles have none.
        self._kept = kept
        self._players, self.column_names = core.sets, core.data[0]
        self.feature_names = [name for name, _ in self._players]
        self.index = core.index
        self.output_names, self.row_numbers = core.output_names, core.row_numbers
        self.sampling = None if core.sampling is None else Sampling(*core.sampling)
        game, absent, model, run = core.provenance
        self.provenance = Provenance(game, absent, dict(model), dict(run))

    _values = cached_property(lambda self: self._core.values)
    _base = cached_property(lambda self: self._core.base_values)
    _predictions = cached_property(lambda self: self._core.predictions)
    _residual = cached_property(lambda self: self._core.residual)
    _bound = cached_property(lambda self: self._core.bound)
    _std_error = cached_property(lambda self: self._core.std_error)
    # Rows × sets × sets × outputs.
    _covariance = cached_property(lambda self: self._core.covariance)
    _std = cached_property(lambda self: self._core.sd)

    # Arrays
    # ------------------------------------------------------------------------------------------------------

    def _shown(self, array: np.ndarray, axes: Sequence[int]) -> Any:
        """Returns ``array``, whose axes are rows (0), players (1) and outputs (2), without the axes that were
        selected by a number."""
        drop = []
        for position, axis in enumerate(axes):
            # A single output never has its own axis.
            if self._squeezed[axis] or (axis == 2 and len(self.output_names) == 1):
                drop.append(position)
        shown = array.squeeze(axis=tuple(drop))
        return shown if shown.ndim else shown[()]

    @property
    def values(self) -> Any:
        """The values, (n, d), or (n, d, m) with several outputs."""
        return self._shown(self._values, (0, 1, 2))

    @property
    def base_values(self) -> Any:
        """The game's value with all features absent, (n,), or (n, m) with several outputs."""
        return self._shown(self._base, (0, 2))

    @property
    def predictions(self) -> Any:
        """The model's output, (n,), or (n, m). The base value and the values add up to it, if values of
        this :attr:`index` do."""
        return self._shown(self._predictions, (0, 2))

    @property
    def residual(self) -> Any:
        """``predictions - base_values - sum of values``, (n,) or (n, m), with predictions computed
        independently of the values. For a selection of features it is the sum of the other values; for an
        :attr:`index` that does not add up, the part of the prediction that is not distributed."""
        return self._shown(self._residual, (0, 2))

    @property
    def bound(self) -> Any:
        """A proved bound on the error of each exact value of a row, from quadrature and rounding; (n,), or
        (n, m). ``None`` for values that are not exact."""
        return None if self._bound is None else self._shown(self._bound, (0, 2))

    @property
    def data(self) -> Any:
        """The explained rows in the user's columns, (n, columns)."""
        return self._data[0] if self._squeezed[0] else self._data

    @property
    def exactness(self) -> str:
        """``"exact"`` (up to rounding, within :attr:`bound`), ``"estimated"`` (with :attr:`std_error`), or
        ``"unknown"`` for exact values from a table, which does not contain the bound."""
        return "exact" if self._bound is not None else "unknown" if self._std_error is None else "estimated"

    @property
    def std_error(self) -> Any:
        """The standard error of each estimated value, in the shape of :attr:`values`; ``None`` for other
        values. The interval value ± 1.96 standard errors covers the true value with probability about 0.95 or
        more, also with few draws. It is 0 only if nothing was drawn."""
        return None if self._std_error is None else self._shown(self._std_error, (0, 1, 2))

    @property
    def certificate(self) -> Certificate | None:
        """The largest residual, the largest bound, and whether each residual is within its bound. ``None``
        for values that are not exact, for a selection of features, and for an :attr:`index` that does not add
        up."""
        core_certificate = self._core.certificate
        return None if core_certificate is None else Certificate(*core_certificate)

    @property
    def covariance(self) -> Any:
        """The posterior covariance of the values of a row, (n, d, d), or (n, d, d, m); for a single feature
        its variance. ``None`` without ``Explainer(..., covariance=True)``, and for tables, which contain
        :attr:`std` alone."""
        if self._covariance is None:
            return None
        if self._squeezed[1]:
            return self._shown(self._covariance[:, :, 0], (0, 1, 2))
        return self._shown(self._covariance, (0, 1, 1, 2))

    @property
    def conditioning_covariance(self) -> Any:
        """The part of :attr:`covariance` that comes from the estimation of the conditional distributions, in
        the same shape. ``None`` without ``Observational(conditional_uncertainty=True)``."""
        if self._core.conditioning is None:
            return None
        part = self._core.conditioning[0]
        if self._squeezed[1]:
            return self._shown(part[:, :, 0], (0, 1, 2))
        return self._shown(part, (0, 1, 1, 2))

    @property
    def unexplained_share(self) -> Any:
        """The share of the prior variance of a conditional mean that the background leaves unexplained, the
        largest over coalitions, (n,) or (n, m). Above 0.3, few background rows are similar to the row, and
        the intervals are too narrow. ``None`` without ``Observational(conditional_uncertainty=True)``."""
        return None if self._core.conditioning is None else self._shown(self._core.conditioning[1], (0, 2))

    @property
    def std(self) -> Any:
        """The posterior standard deviation of each value, in the shape of :attr:`values`. It measures the
        uncertainty of the model, whereas :attr:`std_error` measures the error of the computation. ``None``
        without ``Explainer(..., covariance=True)``."""
        return None if self._std is None else self._shown(self._std, (0, 1, 2))

    @property
    def uncertainty_source(self) -> dict[str, Any] | None:
        """The source of :attr:`std` and :attr:`covariance`, for example ``{"kind": "posterior"}``; ``None``
        without them."""
        source = self._core.sure_by
        return None if source is None else json.loads(source)

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Returns the ends of the central credible interval of each value with probability ``level``, in the
        shape of :attr:`values`."""
        self._check_uncertainty(joint=False)
        if not 0 < level < 1:
            raise ValueError(f"level = {level!r}: it is a probability between 0 and 1")
        half_width = NormalDist().inv_cdf((1 + level) / 2) * self.std
        return self.values - half_width, self.values + half_width

    def importance(self, level: float = 0.95) -> dict[str, np.ndarray]:
        """Returns the importance of features over rows, with its uncertainty: a dict of arrays, which can be
        made into a data frame, with features sorted from the most to the least important.

        ``mean_abs`` is the mean of ``|value|``, ``std_error`` its standard error over rows, and ``low`` to
        ``high`` its interval at ``level``, by Student's distribution. The rows count as a random sample of a
        population of rows. Estimated values add their own errors, which increase ``|value|`` on average.
        ``mean`` is the mean value; ``q05``, ``median`` and ``q95`` are quantiles of ``|value|``. ``in_order``
        is the probability that the feature matters more than the next one, by a normal approximation of their
        paired differences. For a single row, unknown numbers are NaN."""
        if len(self.output_names) > 1:
            raise ValueError(
                f"importance is that of one of {len(self.output_names)} outputs: pick it, as in "
                "explanation[..., 0]"
            )
        if not 0 < level < 1:
            raise ValueError(f"level = {level!r}: it is a probability between 0 and 1")
        columns = self._core.importance(0, level)
        order, in_order_probabilities = columns.pop("order"), columns.pop("in_order")
        not_available = np.full(len(order), np.nan)
        sorted_columns = {
            name: not_available.copy() if column is None else column[order]
            for name, column in columns.items()
        }
        in_order = not_available.copy()
        if in_order_probabilities is not None:
            in_order[:-1] = in_order_probabilities
        return {
            "feature": np.array([self.feature_names[k] for k in order], dtype=object),
            **sorted_columns,
            "in_order": in_order,
        }

    def probability_of_larger(self, a: str | int, b: str | int, *, by_size: bool = True) -> Any:
        """Returns the probability that the absolute value of feature ``a``, a name or number, is larger than
        that of ``b``, for each row; without ``by_size`` the value itself; (n,), or (n, m). Exact up to
        rounding, because values are jointly normal."""
        self._check_uncertainty(joint=True)
        positions = [
            _positions(feature, self.feature_names, "feature", len(self.feature_names)) for feature in (a, b)
        ]
        for position in positions:
            if not is_whole(position) or not 0 <= position < len(self.feature_names):
                raise IndexError(f"there is no feature {position!r}: there are {len(self.feature_names)}")
        return self._shown(
            self._core.probability(int(positions[0]), int(positions[1]), bool(by_size)), (0, 2)
        )

    def probability_of_top(
        self, k: int, *, n_samples: int = 10_000, random_state: int = 0
    ) -> tuple[Any, Any]:
        """Returns the probability that the ``k`` features with the largest absolute values in a row are the
        true top ``k``, and its standard error, estimated from draws; each (n,), or (n, m)."""
        self._check_uncertainty(joint=True)
        estimates = self._core.probability_of_top(
            whole_number("k", k, 1), whole_number("n_samples", n_samples, 1), random_state
        )
        return self._shown(estimates[0], (0, 2)), self._shown(estimates[1], (0, 2))

    def sample(self, n_samples: int, *, random_state: int = 0) -> Any:
        """Returns draws of all values of a row from their posterior, (n_samples, n, d), or (n_samples, n, d,
        m). Features have the row's :attr:`covariance`; rows are drawn independently of each other."""
        self._check_uncertainty(joint=True)
        draws = self._core.draws(whole_number("n_samples", n_samples, 1), random_state)
        return np.stack([self._shown(draw, (0, 1, 2)) for draw in draws])

    def _check_uncertainty(self, joint: bool) -> None:
        if self._std is None:
            raise ValueError(
                "the explanation has no posterior: explain a Gaussian process, Explainer(model, background, "
                "covariance=True)"
            )
        if joint and self._covariance is None:
            raise ValueError(
                "the explanation comes from a table, which has no covariance of its values: load a JSON file"
            )

    @property
    def interactions(self) -> Any:
        """For an :attr:`index` of pairs, the values as symmetric matrices, (n, d, d), or (n, d, d, m).
        Features' own values are on the diagonal, and half of each pair's value is on either side, so that a
        row's matrix sums to all of its values. For sets of up to k features the shape is (n, d, …, d) with k
        axes of features, and a set's value is divided equally among all entries whose indices are that set.
        ``None`` for an index of single features."""
        subsets = self._core.subsets
        if subsets is None:
            return None
        self._check_whole()
        d, order = max(max(subset) for subset in subsets) + 1, max(map(len, subsets))
        tensor = np.zeros((len(self.row_numbers), *[d] * order, len(self.output_names)))
        for k, subset in enumerate(subsets):
            indices = [
                index_set for index_set in product(subset, repeat=order) if len(set(index_set)) == len(subset)
            ]
            for index_set in indices:
                index: Any = (slice(None), *index_set)
                tensor[index] = self._values[:, k] / len(indices)
        drop = (0,) if self._squeezed[0] else ()
        return tensor.squeeze(
            axis=(*drop, 1 + order) if self._squeezed[2] or len(self.output_names) == 1 else drop
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of :attr:`values`."""
        return np.shape(self.values)

    @property
    def duels(self) -> list[Duel] | None:
        """The duel of each row; ``None`` if the rows are not duels."""
        if self._core.duels is None:
            return None
        duels = []
        for record in json.loads(self._core.duels):
            duel, outcome = Duel(record["left"], record["right"]), record.get("win_probability")
            if outcome is not None:
                duel = replace(
                    duel,
                    probability=outcome["probability"],
                    interval=tuple(outcome["interval"]),
                    probability_tie=outcome.get("tie"),
                    probability_better=outcome["probability_better"],
                )
            duels.append(duel)
        return duels

    def average(self, weights: Any = None) -> Explanation:
        """Returns means over rows. Their values add up to the mean prediction, because values are linear in
        the model's output. For duels, these are the values of an item against many opponents, of a set of
        matches, or of a context. Values of a duel change sign if its sides are exchanged, so orient duels
        first, for example by the winner; a mean over both orders of two items is 0.

        ``weights``, not negative and by default equal, are (n,) for one mean, or (k, n) for k means. Bounds
        are means of bounds plus a rounding term. Standard errors are means of standard errors, which are
        upper bounds of those of the means. The covariance between rows is not kept, so a mean over several
        rows has neither :attr:`std` nor :attr:`covariance`."""
        if self._squeezed[0]:
            raise ValueError("this is the explanation of a single row, which is its own mean")
        count = len(self.row_numbers)
        shares = np.ones(count) if weights is None else np.asarray(weights, dtype=float)
        if shares.ndim not in (1, 2) or shares.shape[-1] != count:
            raise ValueError(
                f"weights have the shape {shares.shape}: one a row, ({count},), or of several means (k, "
                f"{count})"
            )
        core = self._core.average(np.ascontiguousarray(np.atleast_2d(shares)))
        return Explanation(core, squeezed=(shares.ndim == 1, *self._squeezed[1:]))

    def __len__(self) -> int:
        if self._squeezed[0]:
            raise TypeError("this is the explanation of a single row")
        return len(self.row_numbers)

    # Picking
    # -----------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Explanation:
        keys = list(key) if isinstance(key, tuple) else [key]
        free = [
            axis
            for axis in range(3)
            if not self._squeezed[axis] and not (axis == 2 and len(self.output_names) == 1)
        ]
        ellipsis = next((position for position, item in enumerate(keys) if item is Ellipsis), None)
        if ellipsis is not None:
            keys[ellipsis : ellipsis + 1] = [slice(None)] * (len(free) - len(keys) + 1)
        if len(keys) > len(free):
            raise IndexError(
                f"{len(keys)} indices, but the explanation has {len(free)} axes: rows, features, outputs"
            )
        axis_sizes = len(self.row_numbers), len(self.feature_names), len(self.output_names)
        selected = [np.arange(count) for count in axis_sizes]
        squeezed = list(self._squeezed)
        names = [None, self.feature_names, self.output_names]
        for axis, selector in zip(free, keys):
            axis_name, count = ("row", "feature", "output")[axis], axis_sizes[axis]
            selector = _positions(selector, names[axis], axis_name, count)
            if is_whole(selector):
                if not -count <= selector < count:
                    raise IndexError(f"there is no {axis_name} {selector}: there are {count}")
                squeezed[axis] = True
                selector = [selector]
            selected[axis] = selected[axis][selector]
        core = self._core.select(*(indices.astype(np.int64) for indices in selected))
        return Explanation(core, self._data[selected[0]], (squeezed[0], squeezed[1], squeezed[2]))

    # To other tools
    # ----------------------------------------------------------------------------------------------

    def to_shap(self) -> Any:
        """Returns this explanation as a ``shap.Explanation``, for shap's plots. The data of a group of
        columns are NaN."""
        import shap

        single = [
            columns_of_player[0] if len(columns_of_player) == 1 else None
            for _, columns_of_player in self._players
        ]
        columns = [np.full(len(self._data), np.nan) if j is None else self._data[:, j] for j in single]
        data = np.column_stack(columns) if columns else np.empty((len(self._data), 0))
        return shap.Explanation(
            values=self.values,
            base_values=self.base_values,
            data=self._shown(data, (0, 1)),
            feature_names=self.feature_names[0] if self._squeezed[1] else self.feature_names,
            output_names=None if self._squeezed[2] or len(self.output_names) == 1 else self.output_names,
        )

    def to_shapiq(self) -> Any:
        """Returns the values of one row and output, for example of ``explanation[0]``, as
        ``shapiq.InteractionValues``, for shapiq's plots."""
        import shapiq

        if not self._squeezed[0] or len(self.output_names) > 1:
            raise ValueError(
                "shapiq's values are those of one row and output: pick them, as in explanation[0]"
            )
        names = {"k-sii": "k-SII", "shapley": "SV", "banzhaf": "BV", "moebius": "Moebius"}
        index = self.index.split("(")[0]
        if index not in names and not index.endswith("ii"):
            raise ValueError(f"shapiq has no name for {self._core.value_names}")
        self._check_whole()
        subsets = self._core.subsets or [[j] for j in range(len(self.feature_names))]
        return shapiq.InteractionValues(
            self._values[0, :, 0],
            index=names.get(index, index.upper()),
            max_order=max(map(len, subsets)),
            min_order=1,
            n_players=max(map(max, subsets)) + 1,
            interaction_lookup={tuple(subset): k for k, subset in enumerate(subsets)},
            estimated=self.exactness == "estimated",
            baseline_value=float(self._base[0, 0]),
        )

    def to_frame(self, library: str = "pandas") -> Any:
        """Returns a table with one line per row and output: ``row, output, base_value, prediction,
        residual``, then one column per feature. Estimated values have their standard errors in
        ``std_error:feature``, and :attr:`std` is in ``sd:feature``. The command line writes the same table,
        and :meth:`from_frame` reads it. ``library`` is ``"pandas"`` or ``"polars"``."""
        n, m = len(self.row_numbers), len(self.output_names)
        columns = {
            "row": np.repeat(self.row_numbers, m),
            "output": self.output_names * n,
            **dict(self._core.table()),
        }
        if library == "pandas":
            import pandas

            return pandas.DataFrame(columns)
        if library == "polars":
            import polars

            return polars.DataFrame(columns)
        raise ValueError(f"library = '{library}': it is 'pandas' or 'polars'")

    @classmethod
    def from_frame(cls, frame: Any) -> Explanation:
        """Reads a table of :meth:`to_frame` or ``riesz explain``, or some of its rows, from a pandas or
        polars frame. The table contains neither the explained rows, nor the bound of exact values, nor the
        game."""
        numbers = [name for name in frame.columns if name != "output"]
        header = [str(name) for name in numbers]
        cells = as_numbers(frame[numbers], header, "the table")
        outputs = [str(name) for name in frame["output"]] if "output" in frame.columns else None
        return cls(
            _core.Explanation.from_table(
                header if outputs is None else [*header, "output"], cells, outputs or []
            )
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the explanation as JSON, which ``riesz plot``, ``report`` and ``inspect`` also read."""
        check_suffix(path, (".json",), "save writes JSON (for a table use .to_frame())")
        self._check_whole()
        write(path, self._core.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Explanation:
        """Reads a JSON file of :meth:`save` or ``riesz explain -o FILE.json``."""
        content = pathlib.Path(path).read_bytes()
        if not content.lstrip().startswith(b"{"):
            raise ValueError(
                f"{path} is not JSON: load reads what save and 'riesz explain -o FILE.json' write; tables of "
                "values, CSV and "
                "Parquet, are read by the command line, 'riesz report' and 'riesz plot', and as data frames "
                "by from_frame"
            )
        try:
            return cls(_core.Explanation.from_json(content))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def report(self, path: str | os.PathLike[str], title: str = "Explanation") -> None:
        """Writes a self-contained HTML page with importance, beeswarm, dependence, each row, exactness and
        provenance."""
        if not isinstance(title, str):
            raise TypeError(f"title = {title!r}: it is a text")
        check_suffix(path, (".html", ".htm"), "report writes HTML")
        self._check_whole()
        write(path, self._core.report(title).encode())

    def _check_whole(self) -> None:
        if not self._core.is_complete:
            raise ValueError(
                "the features of this explanation are a selection, and their values do not add up to the "
                "predictions: "
                "save or report the whole explanation"
            )

    # Display
    # -----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        shape = " × ".join(str(size) for size in self.shape) or "1"
        certificate = self.certificate
        if self._std_error is not None:
            state = f"estimated, standard errors up to {self._std_error.max(initial=0.0):.1e}"
        elif self._bound is None:
            state = "exactness unknown"
        elif not self._core.is_efficient:
            state = f"each value exact within {self._bound.max(initial=0.0):.1e}"
        elif certificate is None:
            state = f"some of its features, each value exact within {self._bound.max(initial=0.0):.1e}"
        elif certificate.holds:
            state = f"exact within {certificate.bound:.1e}"
        else:
            state = f"CERTIFICATE FAILED, bound {certificate.bound:.1e}"
        kind = "values" if self.index == "shapley" else self._core.value_names
        return f"<riesz.Explanation: {shape} {kind}, {self.provenance.game} game, {state}>"

    def _repr_html_(self) -> str:
        if not len(self.row_numbers) or not self.feature_names or not self._core.is_complete:
            return f"<code>{repr(self)[1:-1]}</code>"
        plot = "waterfall" if len(self.row_numbers) == 1 else "beeswarm"
        return self._core.svg(plot, 0, 0, 10) + f"<p><code>{repr(self)[1:-1]}</code></p>"

    def __reduce__(self):
        return _unpickle, (3, {"core": self._core, "data": self._data, "squeezed": self._squeezed})


#: The core's values of some players, with the positions of these players.
PartValues = tuple[_core.Explanation, Sequence[int]]


def joined(
    blocks: Sequence[Sequence[PartValues]],
    players: Sequence[tuple[str, list[int]]],
    *,
    data: np.ndarray,
    column_names: Sequence[str],
    output_names: list[str],
    provenance: dict[str, Any],
) -> Explanation:
    """Joins the outputs of ``blocks``; each output is the sum of its parts. A player without a column in a
    part has value 0 there. See :func:`_explanation_from` for the other arguments."""
    parts = [part for block in blocks for part, _ in block]
    if len(parts) == 1 and list(blocks[0][0][1]) == list(range(len(players))):
        rows = _core_rows(data, column_names)
        return Explanation(
            parts[0].renamed(list(players), output_names, rows, _core_provenance(provenance)), data
        )
    subsets = None
    if parts[0].subsets is not None:
        sizes = range(1, min(parts[0].order, len(players)) + 1)
        subsets = [list(subset) for size in sizes for subset in combinations(range(len(players)), size)]
        position_of_set = {tuple(subset): k for k, subset in enumerate(subsets)}
        positions_of = lambda part, used_players: [
            position_of_set[tuple(sorted(used_players[j] for j in subset))] for subset in part.subsets or []
        ]
        blocks = [
            [(part, positions_of(part, used_players)) for part, used_players in block] for block in blocks
        ]
    sets = len(players if subsets is None else subsets)
    # A sum with an estimated part is estimated; exact parts have standard error 0.
    exact, stated = all(part.bound is not None for part in parts), all(_is_stated(part) for part in parts)
    samplings = [part.sampling for part in parts if part.sampling is not None]
    has_covariance = all(part.covariance is not None for part in parts)
    has_conditioning = all(part.conditioning is not None for part in parts)
    return _explanation_from(
        values=_concatenated(_cube(block, "values", sets) for block in blocks),
        base_values=_concatenated(_pair(block, "base_values") for block in blocks),
        predictions=_concatenated(_pair(block, "predictions") for block in blocks),
        bound=_concatenated(_bound(block, sets) for block in blocks) if exact else None,
        std_error=_concatenated(_cube(block, "std_error", sets) for block in blocks)
        if stated and not exact
        else None,
        sampling={"evaluations": sum(count for count, _ in samplings), "seed": samplings[0][1]}
        if samplings
        else None,
        covariance=_concatenated(_joint(block, sets, lambda part: part.covariance) for block in blocks)
        if has_covariance
        else None,
        conditioning=(
            _concatenated(_joint(block, sets, lambda part: part.conditioning[0]) for block in blocks),
            _concatenated(_unexplained_share(block) for block in blocks),
        )
        if has_conditioning
        else None,
        sure_by=parts[0].sure_by,
        players=players,
        subsets=subsets,
        index=parts[0].index,
        row_numbers=parts[0].row_numbers,
        data=data,
        column_names=column_names,
        output_names=output_names,
        provenance=provenance,
    )


def named_sums(
    explanation: Explanation, weights: np.ndarray, column: str, names: Sequence[str]
) -> Explanation:
    """Multiplies row means by their total weights, which gives sums, and adds a last data column of names."""
    core, times = explanation._core, np.asarray(weights, dtype=float)[:, None]
    fields, (columns, levels, cells) = _parts_of(core), core.data
    for name in ("values", "std_error"):
        if fields[name] is not None:
            fields[name] = fields[name] * times[..., None]
    if fields["bound"] is not None:
        fields["bound"] = times * (fields["bound"] + np.finfo(float).eps * _size(core))
    fields |= {name: fields[name] * times for name in ("base_values", "predictions")}
    named = np.column_stack([cells, np.arange(len(names), dtype=float)])
    fields["data"] = ([*columns, column], [*levels, list(names)], named)
    return Explanation(_core.Explanation(**fields))


def _parts_of(core: _core.Explanation) -> dict[str, Any]:
    """The fields of a core explanation, by name."""
    return dict(core.__getnewargs_ex__()[1])


def _size(part: _core.Explanation) -> np.ndarray:
    """Returns the sum of the absolute values of all terms, (rows, outputs)."""
    return np.abs(part.predictions) + np.abs(part.base_values) + np.abs(part.values).sum(axis=1)


def _is_stated(part: _core.Explanation) -> bool:
    return part.bound is not None or part.std_error is not None


def _concatenated(arrays: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate(list(arrays), axis=-1)


def _cube(block: Sequence[PartValues], name: str, players: int) -> np.ndarray:
    """Returns a field summed over parts, rows × players × outputs. Standard errors add up as well, because
    the parts share their draws."""
    first = block[0][0]
    total = np.zeros((len(first.row_numbers), players, len(first.output_names)))
    for part, used_players in block:
        cube = getattr(part, name)
        if cube is not None:
            total[:, used_players] += cube
    return total


def _joint(block: Sequence[PartValues], players: int, field: Any) -> np.ndarray:
    """Returns the covariance that ``field`` takes from a part, for all players, rows × players × players ×
    outputs; the block has one part."""
    ((part, used_players),) = block
    covariance = field(part)
    total = np.zeros((len(covariance), players, players, covariance.shape[3]))
    total[np.ix_(range(len(covariance)), used_players, used_players, range(covariance.shape[3]))] = covariance
    return total


def _unexplained_share(block: Sequence[PartValues]) -> np.ndarray:
    """Returns the unexplained shares of the conditional means of a block with one part, rows × outputs."""
    ((part, _),) = block
    assert part.conditioning is not None
    return part.conditioning[1]


def _pair(block: Sequence[PartValues], name: str) -> np.ndarray:
    """Returns a field of shape (rows, outputs), summed over parts."""
    return (
        np.sum([getattr(part, name) for part, _ in block], axis=0)
        if len(block) > 1
        else getattr(block[0][0], name)
    )


def _bound(block: Sequence[PartValues], players: int) -> np.ndarray:
    """Returns the sum of the parts' bounds, plus the rounding error of the sum."""
    bound = _pair(block, "bound")
    if len(block) == 1:
        return bound
    return bound + np.finfo(float).eps * (len(block) + players) * np.sum(
        [_size(part) for part, _ in block], axis=0
    )


def _explanation_from(
    *,
    data: np.ndarray,
    column_names: Sequence[str],
    provenance: dict[str, Any],
    squeezed: tuple[bool, bool, bool] = (False, False, False),
    std_error: np.ndarray | None = None,
    sampling: dict[str, int] | None = None,
    **parts: Any,
) -> Explanation:
    """Builds an explanation from fields, with the names that pickles of version 2 use."""
    core = _core.Explanation(
        data=_core_rows(data, column_names),
        provenance=_core_provenance(provenance),
        std_error=std_error,
        sampling=None if sampling is None else (sampling["evaluations"], sampling["seed"]),
        **{"subsets": None, **parts},
    )
    return Explanation(core, data, squeezed)


def _unpickle(version: int, state: dict[str, Any]) -> Explanation:
    if version > 3:
        raise ValueError(
            f"this pickle is of version {version}, written by a newer riesz: update riesz to read it"
        )
    return (
        Explanation(**state)
        if version == 3
        else _explanation_from(**{name: part for name, part in state.items() if name != "residual"})
    )


def _positions(key: Any, names: Sequence[str] | None, label: str, count: int) -> Any:
    """Returns names and masks as numbers; numbers and slices are returned unchanged."""
    if hasattr(key, "to_numpy"):
        key = key.to_numpy()
    if isinstance(key, np.ndarray) and key.ndim == 0:
        key = key[()]
    if isinstance(key, str):
        if names is None:
            raise IndexError(f"rows have numbers, not names like '{key}'")
        if key not in names:
            raise KeyError(f"there is no {label} '{key}'; there are: {', '.join(names)}")
        return names.index(key)
    if is_whole(key) or isinstance(key, slice):
        return key
    if isinstance(key, (list, tuple, range, np.ndarray)):
        array = np.asarray(key)
        if array.dtype == bool:
            if array.shape != (count,):
                raise IndexError(f"a mask of shape {array.shape} does not pick from {count} {label}s")
            return np.flatnonzero(array)
        if array.ndim == 1 and all(isinstance(name, str) for name in key):
            return np.asarray([_positions(str(name), names, label, count) for name in key], dtype=int)
        if array.ndim == 1 and array.dtype.kind in "iu":
            return array.astype(int)
        raise IndexError(
            f"{label}s are picked by a list of whole numbers, of names or of truth values, not by {key!r}"
        )
    raise IndexError(f"a {label} is picked by a whole number, a name, a slice or a list, not by {key!r}")


#: The level of a missing number, in a column whose numbers are kept as levels.
MISSING = "missing"


def _core_provenance(provenance: dict[str, Any]) -> tuple[str, str, list[Any], list[Any]]:
    """Returns a provenance in the core's form."""
    model, run = (list(provenance[facts].items()) for facts in ("model", "run"))
    return provenance["game"], provenance["absent"], model, run


def _core_rows(
    data: np.ndarray, column_names: Sequence[str]
) -> tuple[list[str], list[list[str] | None], np.ndarray]:
    """Returns rows in the core's form: the columns' names, their levels (``None`` for numbers), and
    numbers."""
    if data.dtype == np.float64 and np.isfinite(data).all():
        return list(column_names), [None] * data.shape[1], data
    columns = [_column(cells) for cells in data.T]
    numbers = np.stack([numbers for _, numbers in columns], axis=1) if columns else np.empty((len(data), 0))
    return list(column_names), [levels for levels, _ in columns], numbers


def _column(cells: np.ndarray) -> tuple[list[str] | None, np.ndarray]:
    """Returns a column's levels (``None`` for numbers) and its numbers in the core's form. The core has no
    missing numbers, so a column with missing numbers becomes one of levels."""
    numeric_cells = cells
    if cells.dtype == object:
        numeric_cells = np.array([np.nan if is_missing(cell) else cell for cell in cells], dtype=object)
    try:
        numbers = numeric_cells.astype(np.float64)
    except (TypeError, ValueError):
        texts = [str(cell) for cell in cells]
        levels = sorted(set(texts))
    else:
        if np.isfinite(numbers).all():
            return None, numbers
        spelled = lambda value: MISSING if np.isnan(value) else repr(float(value)).removesuffix(".0")
        texts = [spelled(value) for value in numbers]
        # Sorted by number, NaN last.
        levels = [spelled(value) for value in np.unique(numbers)]
    code = {level: float(k) for k, level in enumerate(levels)}
    return levels, np.array([code[text] for text in texts])


def _cells(core: _core.Explanation) -> np.ndarray:
    """Returns the explained rows, with levels by name and columns with missing numbers as numbers."""
    _, levels, numbers = core.data
    if all(level is None for level in levels):
        return numbers
    cells = numbers.astype(object)
    for j, level in enumerate(levels):
        if level is not None:
            names = _numbers_of(level) or level
            cells[:, j] = [names[int(code)] for code in numbers[:, j]]
    return cells


def _numbers_of(levels: Sequence[str]) -> list[float] | None:
    """Returns the numbers of the levels of a numeric column with missing cells; ``None`` for other levels."""
    try:
        numbers = [float("nan") if level == MISSING else float(level) for level in levels]
    except ValueError:
        return None
    return None if np.isfinite(numbers).all() else numbers


def check_suffix(path: str | os.PathLike[str], suffixes: Sequence[str], reason: str) -> None:
    """Refuses a path whose suffix belongs to another format; a path without suffix is accepted."""
    ending = pathlib.Path(path).suffix
    if ending and ending.lower() not in suffixes:
        raise ValueError(f"{path} ends in {ending}, but {reason}: give a name that ends in {suffixes[0]}")
