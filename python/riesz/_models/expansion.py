"""Kernel expansions over support points, the form in which riesz explains every kernel model."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from .._data.validation import as_numbers, collected, is_sparse, names_of, numbered, row_parts, select_columns
from ..kernels import Kernel, described

if TYPE_CHECKING:
    from .._data.types import Features
    from ..games import Game


class Expansion:
    """The function ``f(x) = intercept + Σ_i coef_i k(points_i, x)``, with one column of ``coef`` per output.

    Parameters
    ----------
    kernel : riesz.kernels.Kernel
    points : array of shape (n, d), or a data frame
        Support points, in the kernel's units.
    coef : array of shape (n,) or (n, m)
        Dual coefficients.
    intercept : float or array of shape (m,), default 0
    feature_names : list of str, optional
        By default the data frame's column names, or ``x0``, ``x1``, ….
    output_names : list of str, optional

    Notes
    -----
    Rows are data frames or arrays. From a data frame the model's columns are selected by name, in any order.
    An array must have exactly the model's columns.

    Raises
    ------
    ValueError
        If shapes do not match, a number is not finite, or a parameter of the kernel is out of range.
    """

    def __init__(
        self,
        kernel: Kernel,
        points: Any,
        coef: Any,
        intercept: Any = 0.0,
        *,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel is a {type(kernel).__name__}: build it from riesz.kernels")
        shape = np.shape(points)
        if len(shape) != 2:
            raise ValueError(f"points has {len(shape)} dimension(s), but two are needed: points and columns")
        names = feature_names if feature_names is not None else names_of(points) or numbered(shape[1])
        names = [str(name) for name in names]
        points = as_numbers(points, names, "points")
        coef = np.asarray(coef, dtype=np.float64)
        coef = np.ascontiguousarray(coef[:, None] if coef.ndim == 1 else coef)
        if coef.ndim != 2 or len(coef) != len(points):
            raise ValueError(f"coef has the shape {coef.shape}, but there are {len(points)} points")
        outputs = coef.shape[1]
        intercept = np.broadcast_to(np.asarray(intercept, dtype=np.float64), (outputs,))
        if output_names is None:
            output_names = ["y"] if outputs == 1 else [f"y{o}" for o in range(outputs)]
        if len(output_names) != outputs:
            raise ValueError(f"there are {len(output_names)} output_names, but coef has {outputs} columns")
        self._core = _core.Expansion(
            kernel._to_json(names),
            (names, [None] * len(names), points),
            coef,
            intercept.tolist(),
            [str(o) for o in output_names],
        )

    #: Whether categorical columns have a last level for unknown cells.
    _takes_unseen = False
    #: The posterior of a model of another library: its Cholesky factor, weights of the points (or None), and
    #: the outputs' scales, as the core takes them. It has n² numbers and is converted only when needed.
    _posterior: Callable[[], tuple[np.ndarray, list[float] | None, list[float]]] | None = None
    #: Whether it comes from a LIBSVM file, which omits zeros, and so columns that are zero in all points.
    _leaves_zeros_out = False
    #: The file that the model was read from, with its checksum, for the provenance of explanations.
    _file: str | None = None

    @classmethod
    def _wrap(cls, core: _core.Expansion) -> Expansion:
        expansion = cls.__new__(cls)
        expansion._core = core
        return expansion

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        n_features: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        scale: str | os.PathLike[str] | None = None,
    ) -> Expansion:
        """Reads a riesz model file or a LIBSVM model file.

        Parameters
        ----------
        path : path
        n_features : int, optional
            Number of columns of rows, for LIBSVM files, which omit zeros: needed if the last columns are zero
            in all support vectors.
        columns : list of str, optional
            Names of the features 1, 2, … of a LIBSVM file in data frames, by default ``x0``, ``x1``, ….
        scale : path, optional
            Range file of ``svm-scale -s``, for a LIBSVM model that was fitted on scaled data. Rows are then
            unscaled, and outputs are in the units of the target if the target was scaled, too.
        """
        names = None if columns is None else [str(name) for name in columns]
        ranges = None if scale is None else pathlib.Path(scale).read_bytes()
        return cls._of_file(pathlib.Path(path).read_bytes(), path, n_features, names, ranges)

    @classmethod
    def _of_file(
        cls,
        content: bytes,
        path: Any,
        n_features: int | None = None,
        names: list[str] | None = None,
        ranges: bytes | None = None,
    ) -> Expansion:
        if _core.is_average(content):
            raise ValueError(
                f"{path} is an average over hyper-parameters: read it with riesz.ModelAverage.load, or a "
                "model of duels with riesz.PreferenceClassifier.load"
            )
        try:
            expansion = cls._wrap(_core.Expansion.from_bytes(content, n_features, names, ranges))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        expansion._leaves_zeros_out = (
            n_features is None and names is None and _core.Expansion.is_libsvm(content)
        )
        expansion._file = f"{path} (SHA-256 {hashlib.sha256(content).hexdigest()})"
        return expansion

    def with_unseen(self) -> Expansion:
        """Returns this model with unknown levels allowed. An unknown level differs from all known levels as
        these differ from each other, by the kernel's definition (as with ``handle_unknown="ignore"`` in
        scikit-learn's one-hot encoder). All unknown levels are one level, the last in :attr:`levels`.

        >>> import numpy as np, pandas as pd, riesz
        >>> frame = pd.DataFrame({"age": [31.0, 47.0, 52.0], "city": ["Bern", "Rome", "Bern"]})
        >>> model = riesz.KernelRidge(gamma=0.1, kernel="rbf").fit(frame, [1.0, 2.0, 3.0])
        >>> rows = pd.DataFrame({"age": [40.0], "city": ["Paris"]})
        >>> bool(np.isfinite(model.expansion_.with_unseen().predict(rows)).all())
        True
        """
        if self._takes_unseen:
            return self
        open_ = Expansion._wrap(self._core.with_unseen())
        open_._takes_unseen = True
        return open_

    def protected(
        self,
        features: Features,
        noise: float,
        *,
        strength: float = 1.0,
        game: str | Game = "interventional",
        target: float | Sequence[float] | None = None,
        equal: bool = False,
        n_coalitions: int | None = None,
        random_state: int = 0,
    ) -> Expansion:
        """Returns the posterior of a Gaussian process with a penalty on the Shapley values of features at its
        support points, which are its training rows: for regression, which has it as ``protect`` too, and for
        the map of :class:`riesz.AggregateGaussianProcess`.

        The values, of the interpolant of f at the n support points, are further observations: 0, or the
        ``target``, with independent errors of variance ``n noise / strength``. Standard deviations are those
        given these observations too. For regression the mean is that of :class:`riesz.KernelRidge` with
        ``alpha=noise``, ``protect`` and ``protect_strength``.

        Parameters
        ----------
        features : list of columns, or dict of name to columns
            The protected features, or groups of features.
        noise : float
            The variance of the noise of the model, its ``noise_``.
        strength : float, default 1
        game : {"interventional", "observational"} or game, default "interventional"
            By default with the support points as background.
        target : float or array of shape (n,), optional
            The values to come close to, instead of 0.
        equal : bool, default False
            Whether to penalise the differences between the values of successive features instead.
        n_coalitions, random_state
            For the observational game of more than 16 features: the number of coalitions and their seed.

        Returns
        -------
        Expansion

        Examples
        --------
        >>> import numpy as np, riesz
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(40, 2))
        >>> y = np.sin(X[:, 0]) + np.sin(X[:, 1]) + 0.1 * rng.normal(size=40)
        >>> model = riesz.GaussianProcessRegressor(random_state=0).fit(X, y)
        >>> fair = model.expansion_.protected([0], model.noise_, strength=1000.0)
        >>> importance = np.abs(riesz.Explainer(fair, X)(X).values).mean(axis=0)
        >>> bool(importance[0] < 0.1 * importance[1])
        True
        """
        from types import SimpleNamespace

        from .._explaining.protected_features import penalty

        settings = SimpleNamespace(
            protect=features,
            protect_strength=strength,
            protect_game=game,
            protect_coalitions=n_coalitions,
            protect_range=None if target is None else (target, target),
            protect_equal=equal,
            _levels=list(self._core.levels),
            _refits=lambda: {"seed": random_state},
        )
        core = self._with_posterior()
        value_penalty = penalty(settings, core.kernel, self.feature_names, self.points, None)
        if value_penalty is None:
            raise ValueError("features = None: name the protected features")
        return Expansion._wrap(core.penalised(value_penalty, float(noise)))

    def save(self, path: str | os.PathLike[str], *, posterior: bool = False) -> None:
        """Writes a riesz model file, which the command line reads too. With ``posterior`` it includes the
        posterior, 4 n² bytes for n points (16 MB for 2,000), once per class if there are three or more."""
        if self._takes_unseen:
            raise ValueError("this model takes unseen categories: save the one that it was made of")
        if posterior and not self.has_posterior:
            raise ValueError(
                "posterior=True: this model has none; Gaussian processes have one, and models with "
                "bootstrap, jackknife or "
                "landmarks"
            )
        write(path, self._core.to_bytes(posterior))

    def _with_posterior(self) -> _core.Expansion:
        """Returns the core, with its posterior if there is one."""
        if self._posterior is None or self._core.has_posterior:
            return self._core
        return self._core.with_posterior(*self._posterior())

    def _parts(self) -> list[tuple[float, _core.Expansion]]:
        """Returns the model with its weight, as :meth:`ModelAverage._parts` does."""
        return [(1.0, self._with_posterior())]

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Returns the outputs at the rows of ``X``, of shape (rows,), or (rows, m) for several outputs. For a
        model of counts it is the rate of events per unit of weight, or the probability of a success. With
        ``return_std`` or ``return_cov`` it also returns standard deviations of the same shape, or covariances
        (rows, rows) or (rows, rows, m); not for models of counts."""
        if self._core.counted is None:
            return self.predict_link(X, return_std, return_cov)
        if return_std or return_cov:
            raise ValueError(
                f"the standard deviation of a {self._core.counted} is that of its link: predict_link(X) has "
                "it"
            )
        return np.concatenate([self._core.natural(self._rows(part))[:, 0] for part in row_parts(X)])

    def predict_link(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Returns the outputs that are explained, in the shapes of :meth:`predict`: the log rate or log odds
        of models of counts, and decision values or log odds of classifiers."""
        if is_sparse(X) and not return_cov:
            parts = [self.predict_link(part.toarray(), return_std) for part in row_parts(X)]
            joined = lambda k: np.concatenate([part[k] for part in parts])
            return (joined(0), joined(1)) if return_std else np.concatenate(parts)
        rows = self._rows(X)
        prediction = self._core.predict(rows), *deviations_of(self, rows, return_std, return_cov)
        prediction = tuple(a[..., 0] if a.shape[-1] == 1 else a for a in prediction)
        return prediction if len(prediction) > 1 else prediction[0]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns the probabilities of :attr:`classes`, (rows, classes). Those of a Gaussian process are
        averaged over its posterior; those of a LIBSVM model with ``probA`` and ``probB`` are LIBSVM's."""
        parts = (self._core.probabilities(self._rows(part)) for part in row_parts(X))
        available_parts = [part for part in parts if part is not None]
        if not available_parts:
            raise ValueError(
                "this model has no class probabilities; those of a Gaussian process need its posterior, "
                "which files hold on "
                "request: save(path, posterior=True) or 'riesz fit --posterior'; those of a LIBSVM model "
                "need probA and probB "
                "(svm-train -b 1)"
            )
        return np.concatenate(available_parts)

    def sample(self, X: Any, n_samples: int = 1, random_state: int = 0) -> np.ndarray:
        """Returns joint draws of the outputs from the posterior: (rows, n_samples), or (rows, m, n_samples)
        for several outputs. Up to 1e-7 of the prior variance is added if the covariance cannot be factored
        otherwise."""
        drawn = np.moveaxis(self._core.sample(self._rows(X), n_samples, random_state), 0, 1)
        return drawn[:, 0] if drawn.shape[1] == 1 else drawn

    @property
    def has_posterior(self) -> bool:
        """Whether the model has a posterior. Gaussian processes have one, and their files if they were saved
        with it."""
        return self._core.has_posterior

    @property
    def classes(self) -> list[str]:
        """Names of the classes; empty for regression."""
        return self._core.classes

    def _rows(self, X: Any, label: str = "X") -> np.ndarray:
        """Returns the user's rows as the core's numbers."""
        return as_numbers(
            self._select_columns(X, label),
            self.feature_names,
            label,
            self._core.levels,
            self._takes_unseen,
            self._core.units,
        )

    def _select_columns(self, X: Any, label: str = "X") -> Any:
        """Returns the model's columns of the user's rows, selected by name if they have names."""
        X, names = collected(X), self.feature_names
        if self._leaves_zeros_out:
            names_of_rows = names_of(X) or numbered(np.shape(X)[1] if np.ndim(X) == 2 else 0)
            width = next(j for j in count(len(names)) if f"x{j}" not in names_of_rows)
            if width > len(names):
                raise ValueError(
                    f"{label} has features up to x{width - 1}, but the LIBSVM file, which leaves zeros out, "
                    f"shows {len(names)}: "
                    f"riesz.Expansion.load(path, n_features={width}) says how many there are"
                )
        return select_columns(X, names)

    @property
    def levels(self) -> dict[str, list[str]]:
        """The levels of each categorical column. Rows contain the levels themselves, text or numbers."""
        return {
            name: levels for name, levels in zip(self.feature_names, self._core.levels) if levels is not None
        }

    @property
    def points(self) -> np.ndarray:
        """The support points, (n, d); categorical columns hold positions of levels in :attr:`levels`."""
        return self._core.points

    @property
    def coef(self) -> np.ndarray:
        """Dual coefficients, (n, m)."""
        return self._core.coef

    @property
    def intercept(self) -> np.ndarray:
        """The intercepts, one per output."""
        return np.asarray(self._core.intercept)

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns."""
        return self._core.feature_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self._core.output_names

    def __reduce__(self):
        return _unpickle, (self._core.to_bytes(True), self._takes_unseen)

    def __repr__(self) -> str:
        n, d = self.points.shape
        kernel = described(self._core.kernel, self.feature_names)
        return f"<riesz.Expansion: {kernel} over {n} points of {d} columns>"


def deviations_of(
    expansion: Expansion, rows: np.ndarray, return_std: bool, return_cov: bool
) -> tuple[np.ndarray, ...]:
    """Returns standard deviations, (rows, outputs), or covariances, (rows, rows, outputs), if requested."""
    if return_std and return_cov:
        raise ValueError("return_std and return_cov: choose one")
    if return_std:
        return (expansion._core.std(rows),)
    return (np.moveaxis(expansion._core.covariance(rows), 0, -1),) if return_cov else ()


def _unpickle(content: bytes, takes_unseen: bool = False) -> Expansion:
    expansion = Expansion._wrap(_core.Expansion.from_bytes(content))
    expansion._takes_unseen = takes_unseen
    return expansion


def write(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file under a temporary name first, so that a failure keeps the old file."""
    path = pathlib.Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        # The error names the user's path, not the temporary one.
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
