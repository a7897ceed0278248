"""The meaning of an absent feature: each game with its own settings, as one value.

``riesz.Explainer(model, background, game="observational")`` uses a game's default settings; these classes
take other settings:

>>> import numpy as np, riesz
>>> from riesz.kernels import RBF
>>> X = np.random.default_rng(0).normal(size=(20, 2))
>>> model = riesz.Expansion(RBF(1.5), points=X, coef=X[:, 0])
>>> riesz.Explainer(model, game=riesz.Observational(X, conditional_ridge=0.01))(X[:3]).values.shape
(3, 2)
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from . import _core
from ._data.parameters import is_whole
from .kernels import Kernel

__all__ = ["Baseline", "Causal", "Functional", "Game", "Interventional", "MarginalProduct", "Observational"]


def __dir__() -> list[str]:
    return sorted(__all__)


@dataclass(frozen=True, eq=False)
class Game:
    """Base class of the games.

    Parameters
    ----------
    background : array or data frame of shape (n, d), optional
        Rows from which absent features take their values.
    weights : array of shape (n,), optional
        Weights of its rows, by default equal.

    Examples
    --------
    >>> import riesz
    >>> isinstance(riesz.Observational(), riesz.games.Game)
    True
    """

    #: The game's name in files and on the command line.
    name: ClassVar[str]

    #: Whether the game is only for models with a known kernel, not for functions.
    takes_a_kernel: ClassVar[bool] = False

    #: Rows from which absent features take their values, and their weights.
    background: Any = field(default=None, repr=False)
    weights: Any = field(default=None, repr=False)

    def _settings(self, names: Sequence[str]) -> dict[str, Any]:
        """Returns the settings by name, for a model or function with these columns."""
        settings = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("background", "weights")
        }
        kernel = settings.get("conditioning_kernel")
        if isinstance(kernel, Kernel):
            settings["conditioning_kernel"] = json.loads(kernel._to_json(names))
        return {"game": self.name, **settings}


@dataclass(frozen=True, eq=False)
class Functional(Game):
    """An absent feature leaves the kernel: its factor becomes 1. Takes no background.

    Parameters
    ----------
    background : array or data frame of shape (n, d), optional
        None: this game takes none.
    weights : array of shape (n,), optional
        Weights of its rows, by default equal.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from riesz.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> model = riesz.Expansion(RBF(1.5), points=X, coef=X[:, 0])
    >>> riesz.Explainer(model, game=riesz.Functional())(X[:3]).values.shape
    (3, 2)
    """

    name: ClassVar[str] = "functional"
    takes_a_kernel: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class Baseline(Game):
    """Absent features take the values of the background's only row.

    Parameters
    ----------
    background : array or data frame of shape (1, d), or row of shape (d,), optional
        The row: also a series with the columns' names, as ``frame.iloc[0]`` is.
    weights : array of shape (n,), optional
        Weights of its rows, by default equal.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from riesz.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> model = riesz.Expansion(RBF(1.5), points=X, coef=X[:, 0])
    >>> riesz.Explainer(model, game=riesz.Baseline(X[:1]))(X[:3]).values.shape
    (3, 2)
    """

    name: ClassVar[str] = "baseline"

    def __post_init__(self) -> None:
        row = self.background
        if hasattr(row, "to_frame") and np.ndim(row) == 1:
            row = row.to_frame().T.infer_objects()
        elif isinstance(row, (list, tuple, np.ndarray)) and np.ndim(row) == 1:
            row = np.asarray(row)[None, :]
        object.__setattr__(self, "background", row)


@dataclass(frozen=True, eq=False)
class Interventional(Game):
    """Absent features take the values of a background row, averaged over the background; shap's
    KernelExplainer estimates the same values.

    Parameters
    ----------
    background : array or data frame of shape (n, d), optional
        Rows from which absent features take their values.
    weights : array of shape (n,), optional
        Weights of its rows, by default equal.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from riesz.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> model = riesz.Expansion(RBF(1.5), points=X, coef=X[:, 0])
    >>> riesz.Explainer(model, game=riesz.Interventional(X))(X[:3]).values.shape
    (3, 2)
    """

    name: ClassVar[str] = "interventional"


@dataclass(frozen=True, eq=False)
class MarginalProduct(Game):
    """Each absent feature is averaged over the background, independently of the others.

    Parameters
    ----------
    background : array or data frame of shape (n, d), optional
        Rows from which absent features take their values.
    weights : array of shape (n,), optional
        Weights of its rows, by default equal.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from riesz.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> model = riesz.Expansion(RBF(1.5), points=X, coef=X[:, 0])
    >>> riesz.Explainer(model, game=riesz.MarginalProduct(X))(X[:3]).values.shape
    (3, 2)
    """

    name: ClassVar[str] = "marginal-product"
    takes_a_kernel: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class Observational(Game):
    """Absent features have their conditional distribution given the present ones (RKHS-SHAP). It is a
    conditional mean embedding, learnt from the background, by default the model's own training points. Any
    kernel is allowed.

    Parameters
    ----------
    background, weights
        The reference rows, and their weights.
    conditional_ridge : float, optional
        Ridge of the conditional mean embedding; by default the one that predicts held-out rows best.
    centered : bool, default True
        Whether predictions are shrunk towards their mean, so that a constant model has all values 0.
        ``False`` shrinks them towards the model's intercept, as published.
    conditional_uncertainty : bool, default False
        Whether values also come with the uncertainty from estimating the conditional distributions, for up to
        12 features: :attr:`Explanation.std <riesz.Explanation.std>` and intervals then contain it, with any
        model, and :attr:`~riesz.Explanation.conditioning_covariance` is this part alone.
    conditioning_kernel : riesz.kernels.Kernel or str, optional
        Kernel between the present features: a kernel over the model's columns, or an expression such as
        ``"matern52(ard)"``. The default is the model's own kernel if it is one bounded product over all
        columns, and else a Gaussian with median length scales.
    n_conditional_landmarks, n_random_features : int, optional
        Number of the reference rows (Nyström), or of random Fourier features, that are used instead of all
        rows: O(n m²) instead of O(n³) for each coalition.
    cg_tol : float, optional
        Tolerance for conjugate gradients with all reference rows, if their matrices are too large to factor,
        for example 1e-6. It is the relative error of the weights of reference rows, and is included in the
        proved bound.
    conditional : {"kernel", "gaussian", "copula"}, optional
        For functions: the estimator of conditional distributions. ``"kernel"`` is the conditional mean
        embedding; the others draw from a normal distribution or a Gaussian copula fitted to the background,
        for comparison.
    n_conditional_samples : int, default 100
        For these samplers: number of draws for each coalition and row.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from riesz.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> model = riesz.Expansion(RBF(1.5), points=X, coef=X[:, 0])
    >>> riesz.Explainer(model, game=riesz.Observational(X, conditional_ridge=0.01))(X[:3]).values.shape
    (3, 2)
    """

    name: ClassVar[str] = "observational"

    conditional_ridge: float | None = None
    centered: bool | None = None
    conditional_uncertainty: bool | None = None
    conditioning_kernel: Kernel | str | None = None
    n_conditional_landmarks: int | None = None
    n_random_features: int | None = None
    cg_tol: float | None = None
    conditional: str | None = None
    n_conditional_samples: int | None = None


@dataclass(frozen=True, eq=False)
class Causal(Game):
    """Absent features follow their distribution under an intervention that sets the present ones: causal
    Shapley values (Heskes, Sijben, Bucur and Claassen 2020).

    The causal structure is an ordered list of components of columns. Within a component columns depend on
    each other: because of unobserved common causes, if it is confounded, or because they interact. An
    intervention on a column leaves the other columns of a confounded component unchanged, and changes those
    of other components as an observation does. One confounded component of all columns is the
    :class:`Interventional` game, one component of interacting columns the :class:`Observational` game, and
    one component per column without parents the :class:`MarginalProduct` game.

    The mean of the model under the intervention is computed by conditional mean embeddings, one for each
    component, from the last to the first. The model's kernel must be a sum of products over columns.

    Parameters
    ----------
    background, weights
        The reference rows, and their weights; by default the model's own training points.
    components : list of lists of columns
        Every column, by name or number, in one component; causes are in earlier components than their
        effects. A column that is listed without a list is a component of its own.
    confounded : list of columns, optional
        Columns whose components are confounded; one column of each is enough.
    parents : dict of column to list of columns, optional
        The columns that cause a component, which is named by one of its columns. Other components are caused
        by all columns of earlier components. A directed acyclic graph has one component per column, and the
        parents of each.
    graph : graph, optional
        A causal graph that contains the columns, instead of the three parameters above: text such as
        ``"age -> income; income <-> debt"``, or another form that :func:`riesz.causal.identify` takes.
        Columns with a hidden common cause become confounded components, and other variables are ignored.
    conditional_ridge, centered, conditioning_kernel : optional
        As in :class:`Observational`.
    n_conditional_landmarks, n_random_features, cg_tol : optional
        As in :class:`Observational`.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from riesz.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> model = riesz.Expansion(RBF(1.5), points=X, coef=X[:, 0])
    >>> game = riesz.Causal(X, components=[[0], [1, 2]], confounded=[1], conditional_ridge=0.01)
    >>> riesz.Explainer(model, game=game)(X[:3]).values.shape
    (3, 3)
    """

    name: ClassVar[str] = "causal"
    takes_a_kernel: ClassVar[bool] = True

    components: Sequence[Any] | None = None
    confounded: Sequence[Any] | None = None
    parents: Mapping[Any, Sequence[Any]] | None = None
    graph: object = None
    conditional_ridge: float | None = None
    centered: bool | None = None
    conditioning_kernel: Kernel | str | None = None
    n_conditional_landmarks: int | None = None
    n_random_features: int | None = None
    cg_tol: float | None = None

    def _settings(self, names: Sequence[str]) -> dict[str, Any]:
        settings = super()._settings(names) | {"components": None, "confounded": None, "parents": None}
        del settings["graph"]
        return settings

    def _structure(self, names: Sequence[str]) -> dict[str, Any]:
        """Returns the settings of the causal structure, with columns by their names."""

        def listed(setting: str, columns: Any) -> list[str]:
            if isinstance(columns, str) or is_whole(columns):
                return [_column_name(setting, columns, names)]
            if not isinstance(columns, Iterable):
                raise TypeError(f"{setting} holds {columns!r}: it is a column, or a list of columns")
            return [_column_name(setting, column, names) for column in columns]

        if self.graph is not None:
            from .causal._graphs import graph_text

            if self.components is not None or self.confounded is not None or self.parents is not None:
                raise ValueError("the graph states the whole structure: leave out the other settings of it")
            components, confounded, graph_parents = _core.causal_components(
                graph_text(self.graph), list(names)
            )
            return {"components": components, "confounded": confounded or None, "parents": graph_parents}
        for setting in ("components", "confounded"):
            value = getattr(self, setting)
            if isinstance(value, (str, bool)) or not isinstance(value, (Iterable, type(None))):
                raise TypeError(f"{setting} = {value!r}: it is a list of columns, by name or number")
        if not isinstance(self.parents, (Mapping, type(None))):
            raise TypeError(f"parents = {self.parents!r}: it is a dict from a column to its causes")
        parents = [
            [_column_name("parents", column, names), *listed("parents", causes)]
            for column, causes in (self.parents or {}).items()
        ]
        return {
            "components": [listed("components", component) for component in self.components or []] or None,
            "confounded": listed("confounded", self.confounded or []) or None,
            "parents": parents or None,
        }


def _column_name(setting: str, column: Any, names: Sequence[str]) -> str:
    """Returns the name of a column, which is given by its name or its number."""
    if isinstance(column, str) and column in names:
        return column
    if is_whole(column) and 0 <= column < len(names):
        return names[int(column)]
    if isinstance(column, str) or is_whole(column):
        raise ValueError(f"{setting} names a column {column!r}; the columns are: {', '.join(names)}")
    raise TypeError(f"{setting} names a column {column!r}: columns are names or whole numbers")


#: The games by name.
GAMES = {
    kind.name: kind for kind in (Functional, Baseline, Interventional, MarginalProduct, Observational, Causal)
}


def game_of(game: Any, background: Any, weights: Any, label: str = "game") -> Game | None:
    """Returns the game given by a value or a name, with its background; ``None`` for ``"auto"``."""
    if isinstance(game, Game):
        if background is None and weights is None:
            return game
        if game.background is not None or game.weights is not None:
            raise ValueError(f"there are two backgrounds: give one to the {label} or beside it")
        return replace(game, background=background, weights=weights)
    if not isinstance(game, str):
        raise TypeError(
            f"{label} = {game!r}: it is a game such as riesz.Observational(...), one of {', '.join(GAMES)}, "
            "or auto"
        )
    if game == "auto":
        return None
    kind = GAMES.get(game.replace("_", "-"))
    if kind is None:
        raise ValueError(f"{label} = {game!r}: it is one of {', '.join(GAMES)}, or auto")
    return kind(background, weights)


def settings_of(values: Mapping[str, Any]) -> _core.Settings:
    """Returns settings by name, which the core has checked; a value of ``None`` is not set."""
    json_values: dict[str, Any] = {}
    for name, value in values.items():
        value = value.item() if isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0 else value
        nan = isinstance(value, float) and not math.isfinite(value)
        is_json = value is None or isinstance(value, (bool, int, float, str, dict, list))
        # Values that JSON does not have are refused by the core under their name.
        json_values[name] = value if is_json and not nan else repr(value)
    return _core.Settings(json.dumps(json_values))
