"""Averages of models over hyper-parameters: predictions of a mixture of posteriors."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from .._data.parameters import whole_number
from .._data.validation import row_parts
from .expansion import Expansion, deviations_of, write
from .loading import Imported, Part, weighted_sum


class ModelAverage:
    """A model of the same data for several sets of hyper-parameters, with the weights of their posterior.

    Its mean is the mean of the models' outputs, and its variance the mean of their variances plus the
    variance of their outputs. Models are averaged with ``n_hyperparameter_samples`` of
    :class:`GaussianProcessRegressor`, :class:`GaussianProcessClassifier` and
    :class:`PreferenceClassifier`; the file of an average is read by :meth:`load`.

    Parameters
    ----------
    best : Expansion
        The model with the best hyper-parameters.
    models : list of Expansion
        The models.
    weights : list of float
        Their weights, which add up to 1.
    effective_sample_size : float
        Number of independent draws of the hyper-parameters that would be as informative.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(12, 2))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=12)
    >>> model = riesz.GaussianProcessRegressor(n_hyperparameter_samples=100, random_state=0).fit(X, y)
    >>> _, std = model.average_.predict([[3.0, 0.0]], return_std=True)
    >>> _, std_of_best = model.expansion_.predict([[3.0, 0.0]], return_std=True)
    >>> bool(std > std_of_best)
    True
    """

    def __init__(
        self,
        best: Expansion,
        models: Sequence[Expansion],
        weights: Sequence[float],
        effective_sample_size: float,
    ) -> None:
        self.best, self.models = best, list(models)
        self.weights = np.array(weights, dtype=float)
        self.effective_sample_size = float(effective_sample_size)

    @classmethod
    def _of_fit(cls, best: Expansion, average: tuple[list[tuple[float, _core.Expansion]], float]):
        """Returns the average of a fit of the core."""
        parts, effective = average
        models = [Expansion._wrap(model) for _, model in parts]
        return cls(best, models, [weight for weight, _ in parts], effective)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ModelAverage:
        """Reads a file of :meth:`save` or of ``riesz fit --hyperparameter-samples``.

        Parameters
        ----------
        path : path

        Returns
        -------
        ModelAverage
        """
        average = cls._of_file(pathlib.Path(path).read_bytes(), path)
        if average is None:
            raise ValueError(f"{path} is not an average: read a single model with riesz.Expansion.load")
        return average

    @classmethod
    def _of_file(cls, content: bytes, path: Any) -> ModelAverage | None:
        """Returns the average in the content of a file; None if it is something else."""
        try:
            saved = _core.average_from_bytes(content)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if saved is None:
            return None
        best, average = saved
        return cls._of_fit(Expansion._wrap(best), average)

    def save(self, path: str | os.PathLike[str], *, posterior: bool = True) -> None:
        """Writes the average to a file, which ``riesz predict`` reads too.

        Parameters
        ----------
        path : path
        posterior : bool, default True
            Whether the file holds the posterior of each model, from which standard deviations and
            probabilities follow: 4 n² bytes for n points, for each model.
        """
        write(path, self._to_bytes(posterior))

    def _to_bytes(self, posterior: bool, best: _core.Expansion | None = None) -> bytes:
        best = self.best._with_posterior() if best is None else best
        return _core.average_to_bytes(best, (self._parts(), self.effective_sample_size), posterior)

    def __reduce__(self):
        return _unpickle, (self._to_bytes(True),)

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns."""
        return self.best.feature_names

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs."""
        return self.best.output_names

    @property
    def classes(self) -> list[str]:
        """Names of the classes; empty for regression."""
        return self.best.classes

    def _parts(self) -> list[tuple[float, _core.Expansion]]:
        """Returns the weights and the models as the core takes them."""
        return [
            (weight, model._with_posterior()) for weight, model in zip(self.weights.tolist(), self.models)
        ]

    def _mean(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        return np.sum([weight * array for weight, array in zip(self.weights, arrays)], axis=0)

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Returns the mean of the outputs, and their uncertainty on request.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)
        return_std, return_cov : bool, default False
            Whether to return standard deviations or covariances too. Only one of them may be True.

        Returns
        -------
        mean : array of shape (rows,) or (rows, outputs)
        std : array of the same shape, with ``return_std``
        cov : array of shape (rows, rows) or (rows, rows, outputs), with ``return_cov``
        """
        result = self._moments(self.best._rows(X), return_std, return_cov)
        result = tuple(array[..., 0] if array.shape[-1] == 1 else array for array in result)
        return result if len(result) > 1 else result[0]

    def _moments(self, rows: np.ndarray, return_std: bool, return_cov: bool) -> tuple[np.ndarray, ...]:
        """Returns the mean, (rows, outputs), and standard deviations or covariances if requested."""
        means = [model._core.predict(rows) for model in self.models]
        mean = self._mean(means)
        if not (return_std or return_cov):
            return (mean,)
        uncertainties = [deviations_of(model, rows, return_std, return_cov)[0] for model in self.models]
        differences = [part - mean for part in means]
        if return_std:
            variances = [std**2 + difference**2 for std, difference in zip(uncertainties, differences)]
            return mean, np.sqrt(self._mean(variances))
        covariances = [
            cov + difference[:, None] * difference[None]
            for cov, difference in zip(uncertainties, differences)
        ]
        return mean, self._mean(covariances)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Returns the mean probabilities of :attr:`classes`.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)

        Returns
        -------
        array of shape (rows, classes)
        """
        rows = self.best._select_columns(X)
        return np.concatenate(
            [self._mean([model.predict_proba(part) for model in self.models]) for part in row_parts(rows)]
        )

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Returns joint draws of the outputs: each draw is one of a model that is drawn by its weight.

        Parameters
        ----------
        X : array or data frame of shape (rows, d)
        n_samples : int, default 1
        random_state : int, RandomState or None, default 0

        Returns
        -------
        array of shape (rows, n_samples) or (rows, outputs, n_samples)
        """
        drawn = np.moveaxis(self._drawn(self.best._rows(X), n_samples, random_state), 0, 1)
        return drawn[:, 0] if drawn.shape[1] == 1 else drawn

    def _drawn(self, rows: np.ndarray, n_samples: Any, random_state: Any) -> np.ndarray:
        """Returns joint draws, (outputs, rows, n_samples)."""
        from sklearn.utils import check_random_state

        count = whole_number("n_samples", n_samples, 1)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        return _core.sample_average(self._parts(), rows, count, seed)

    def _imported(self, explained: str | None = None, kind: str = "ModelAverage") -> Imported:
        """Returns the average in the form that :class:`riesz.Explainer` reads."""
        parts = [
            (weight, Part.from_expansion(model)) for weight, model in zip(self.weights.tolist(), self.models)
        ]
        outputs = self.output_names
        explained = f"{explained or 'output'}, averaged over hyper-parameters"
        identity = np.eye(len(outputs))
        block = weighted_sum([([[part]], weight * identity) for weight, part in parts], 0.0, outputs)
        return Imported([block], explained, self.feature_names, kind, outputs, self.predict, mixture=parts)

    def __repr__(self) -> str:
        size = f"{self.effective_sample_size:.1f}"
        return f"<riesz.ModelAverage: {len(self.models)} models, worth {size} draws of hyper-parameters>"


def _unpickle(content: bytes) -> ModelAverage:
    average = ModelAverage._of_file(content, "the pickled average")
    assert average is not None
    return average
