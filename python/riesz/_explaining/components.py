"""The functional ANOVA of a model: its mean, main effects and interactions, as functions of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core, plots
from .._data.parameters import is_whole
from .._data.validation import as_cells, names_of
from .explainer import Explainer
from .feature_groups import Groups
from .global_importance import Models, core_models, kernel_models

__all__ = ["Component", "FunctionalANOVA", "functional_anova"]

#: Number of points along a column that is drawn alone, and along each of two columns.
ALONG, POINTS_PER_AXIS = 101, 41


@dataclass(frozen=True, eq=False)
class Component:
    """The component of some features: their joint effect beyond the effects of fewer of them."""

    features: list[str]
    #: For each column the points along the axis of :attr:`values`; ``None`` if rows were given.
    grid: list[np.ndarray] | None
    #: The component at these points, with one axis per column (or one of rows), and one for several outputs.
    values: np.ndarray
    #: Posterior standard deviations of a Gaussian process, in the same shape; ``None`` for other models.
    std: np.ndarray | None

    def plot(self, ax: Any = None) -> Any:
        """Draws the component by :func:`riesz.plots.component`."""
        return plots.component(self, ax)


class FunctionalANOVA:
    """The functional ANOVA of a model, as returned by :func:`riesz.functional_anova`.

    Attributes
    ----------
    feature_names : list of str
    mean : float or array of shape (m,)
        The mean of the output.
    """

    def __init__(
        self, explainer: Explainer, models: Models, active_players: list[tuple[str, list[int]]]
    ) -> None:
        self._explainer, self._active_players = explainer, active_players
        self._models = core_models(models, True)
        self._rows = explainer._model_rows(explainer._background, "background")[0]
        self.feature_names = [name for name, _ in explainer._players]
        (mean,), _ = self._evaluate([], self._rows[:1])
        self.mean = mean[0] if len(mean) == 1 else mean

    def _evaluate(self, features: Sequence[int], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        # The core orders players by their first column in the model.
        positions = [
            self._explainer._used[0].index(j) if j in self._explainer._used[0] else None for j in features
        ]
        if None in positions:
            zeros = np.zeros((len(rows), len(self._models[0][1].output_names)))
            return zeros, zeros if all(model.has_posterior for _, model in self._models) else None
        present_positions = sorted(k for k in positions if k is not None)
        return _core.component(
            self._models, self._rows, self._explainer._weights, self._active_players, present_positions, rows
        )

    def component(self, features: str | int | Sequence[str | int], X: Any = None) -> Component:
        """Returns the component of one feature or of several features.

        Parameters
        ----------
        features : str, int, or list of them
            Features (groups), by name or number.
        X : array or data frame, optional
            Rows at which to evaluate the component. By default, for one or two columns, points along the
            background's range: 101 for one column, 41 for each of two, or all levels.
        """
        several: list[Any] = [features] if isinstance(features, str) or is_whole(features) else list(features)  # type: ignore[arg-type]
        positions = sorted({self._number(feature) for feature in several})
        names = [self.feature_names[j] for j in positions]
        grid = None
        if X is None:
            columns = [c for j in positions for c in self._explainer._players[j][1]]
            if not 1 <= len(columns) <= 2:
                raise ValueError(
                    f"{' × '.join(names)} has {len(columns)} columns, which is no curve or surface: give "
                    "rows X"
                )
            X, grid = self._grid(columns)
        rows = self._explainer._model_rows(self._explainer._select_columns(X, "X"), "X")[0]
        values, sd = self._evaluate(positions, rows)
        shape = (len(values),) if grid is None else tuple(map(len, grid))
        shaped = lambda array: array.reshape(*shape, -1) if array.shape[1] > 1 else array.reshape(shape)
        return Component(names, grid, shaped(values), None if sd is None else shaped(sd))

    def _number(self, feature: str | int) -> int:
        if isinstance(feature, str) and feature in self.feature_names:
            return self.feature_names.index(feature)
        if not isinstance(feature, str) and is_whole(feature) and 0 <= feature < len(self.feature_names):
            return int(feature)
        raise ValueError(
            f"there is no feature {feature!r}; the features are: {', '.join(self.feature_names)}"
        )

    def _grid(self, columns: list[int]) -> tuple[Any, list[np.ndarray]]:
        """Returns rows with the background's first values in all other columns, and the points along
        these."""
        background = self._explainer._background
        cells, count = as_cells(background), ALONG if len(columns) == 1 else POINTS_PER_AXIS
        axes = [_grid_points(cells[:, c], count) for c in columns]
        mesh = [axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")]
        if names_of(background) is None:
            rows = np.repeat(cells[:1], len(mesh[0]), axis=0)
            rows = rows.astype(np.result_type(rows, *axes))
            for c, axis in zip(columns, mesh):
                rows[:, c] = axis
            return rows, axes
        if not hasattr(background, "iloc"):
            raise ValueError(
                "grid points are made of a background that is an array or a pandas data frame: give rows X"
            )
        frame = background.iloc[np.zeros(len(mesh[0]), int)].reset_index(drop=True)
        for c, axis in zip(columns, mesh):
            frame[frame.columns[c]] = axis
        return frame, axes

    def __repr__(self) -> str:
        return f"<riesz.FunctionalANOVA of {', '.join(self.feature_names)}>"


def _grid_points(cells: np.ndarray, count: int) -> np.ndarray:
    distinct = np.unique(cells)
    try:
        numbers = distinct.astype(np.float64)
    except (TypeError, ValueError):
        return distinct
    return numbers if len(numbers) <= count // 4 else np.linspace(numbers[0], numbers[-1], count)


def functional_anova(
    model: Any, background: Any, *, groups: Groups | None = None, background_weights: Any = None
) -> FunctionalANOVA:
    """The functional ANOVA of a model: ``f = mean + Σ_j f_j(x_j) + Σ_jl f_jl(x_j, x_l) + …``.

    Components have mean 0 over each of their features, if features are independent with the distribution of
    the rows of ``background``. They are then orthogonal, and their variances are the terms of
    :func:`riesz.sobol_indices`. Exact for kernel models whose kernel is a product over features, or a sum of
    products; Gaussian processes also have posterior standard deviations. Components of an average over
    hyper-parameters are means over its models, and their standard deviations are those of the mixture.

    Parameters
    ----------
    model
        As for :func:`riesz.sobol_indices`.
    background : array or data frame of shape (b, d)
    groups : dict of name to list of columns, optional
        Columns that count as one feature.
    background_weights : array of shape (b,), optional

    Notes
    -----
    Sources: Hoeffding 1948; Sobol 1993; for kernels, Durrande, Ginsbourger, Roustant and Carraro 2013. A
    component at a row costs O(n + b) a feature, with n support points.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from riesz.kernels import RBF
    >>> model = riesz.Expansion(RBF(length_scale=1.5), points=np.eye(2), coef=[1.0, -1.0])
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> anova = riesz.functional_anova(model, X)
    >>> parts = [anova.component(features, X).values for features in ([0], [1], [0, 1])]
    >>> bool(np.allclose(anova.mean + sum(parts), model.predict(X)))
    True
    """
    return FunctionalANOVA(*kernel_models(model, background, groups, background_weights, "marginal_product"))
