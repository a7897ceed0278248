"""The fit of a model of aggregates for one set of hyperparameters, and the leave-one-out predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._bags import Tables
from ._expansion import Expansion

#: Targets that shares are computed of at once.
_AT_ONCE = 256


@dataclass(frozen=True)
class LeftOut:
    """Predictions of each target from all other targets."""

    #: Names of the targets' bags.
    bags: list[str]
    #: The targets.
    target: np.ndarray
    #: What is expected of them, and its standard deviation, noise included.
    mean: np.ndarray
    std: np.ndarray
    #: The logarithms of their densities, or of counts of their probabilities.
    log_density: np.ndarray
    #: By how many standard deviations targets are off; of counts, which are skew, the normal scores of their
    #: places among those expected.
    score: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Targets less what is expected of them."""
        return self.target - self.mean

    @property
    def rmse(self) -> float:
        """The root of the mean squared error."""
        return float(np.sqrt(np.mean(self.error**2)))

    @property
    def coverage(self) -> float:
        """The share of targets whose :attr:`score` is within 1.96, of which .95 are expected."""
        return float(np.mean(np.abs(self.score) <= 1.96))

    @property
    def density(self) -> float:
        """The mean of :attr:`log_density`: the larger, the better."""
        return float(np.mean(self.log_density))

    def to_frame(self) -> Any:
        """One line a target: ``bag, target, mean, std, error, score, log_density``."""
        import pandas

        columns = {
            "target": self.target,
            "mean": self.mean,
            "std": self.std,
            "error": self.error,
            "score": self.score,
        }
        return pandas.DataFrame({"bag": self.bags, **columns, "log_density": self.log_density})

    def __repr__(self) -> str:
        summary = (
            f"rmse {self.rmse:.4g}, coverage {self.coverage:.2f} of .95, mean log density {self.density:.4g}"
        )
        return f"<riesz.LeftOut: {len(self.bags)} targets, {summary}>"


@dataclass(frozen=True)
class Component:
    """The fit for one set of hyperparameters; see ``_core.AggregatePart``."""

    weight: float
    expansion: Expansion
    fitted: np.ndarray
    bags: tuple[np.ndarray, np.ndarray] | None
    left_out: tuple[np.ndarray, np.ndarray] | None
    sensitivities: tuple[np.ndarray, np.ndarray] | None

    @classmethod
    def from_core(cls, core: _core.AggregatePart) -> Component:
        arrays = lambda pair: None if pair is None else (np.asarray(pair[0]), np.asarray(pair[1]))
        arrays_of_core = (arrays(field) for field in (core.bags, core.left_out, core.sensitivities))
        return cls(core.weight, Expansion._wrap(core.model), np.asarray(core.fitted), *arrays_of_core)

    @property
    def mean(self) -> float:
        """The prior mean."""
        return float(self.expansion.intercept[0])

    def shares(
        self, cells: np.ndarray, row: np.ndarray, bag: np.ndarray, weights: np.ndarray, targets: np.ndarray
    ) -> np.ndarray:
        """The parts of targets in predictions; each membership is of ``row`` in ``bag`` with one of
        ``weights``."""
        if self.sensitivities is None:
            raise ValueError("shares are those of exact fits: leave inducing out")
        (moved, constants), core = self.sensitivities, self.expansion._core
        rows, predictions = (core.feature_names, core.levels, core.points), []
        for start in range(0, moved.shape[1], _AT_ONCE):
            names = [str(t) for t in range(min(_AT_ONCE, moved.shape[1] - start))]
            coef = np.zeros((len(core.points), len(names)))
            np.add.at(coef, row, weights[:, None] * moved[bag, start : start + _AT_ONCE])
            predictions.append(
                _core.Expansion(core.kernel, rows, coef, [0.0] * len(names), names).predict(cells)
            )
        return np.hstack(predictions) * (targets - self.mean * constants)


def left_out(parts: list[Component], tables: Tables) -> LeftOut | None:
    """The leave-one-out predictions of a mixture of sets of hyperparameters, each weighted by its likelihood
    of the other targets."""
    predictions = [part.left_out for part in parts if part.left_out is not None]
    if not predictions:
        return None
    means, variances = (
        np.array([mean for mean, _ in predictions]),
        np.array([variance for _, variance in predictions]),
    )
    log = -0.5 * ((tables.values - means) ** 2 / variances + np.log(2 * np.pi * variances))
    mean, sd, density, _ = mixture([part.weight for part in parts], means, variances, log)
    return LeftOut(tables.targets, tables.values, mean, sd, density, (tables.values - mean) / sd)


def mixture(
    weights: list[float], means: np.ndarray, variances: np.ndarray, log: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, standard deviation and logarithm of the density of each target given the others, of sets of
    hyper-parameters with these weights, (sets, targets), and what sets count for each."""
    # Dividing by what each says of the target itself takes that target out of its weight.
    log_weights = np.log(weights)[:, None] - log
    largest = log_weights.max(axis=0)
    total = np.exp(log_weights - largest).sum(axis=0)
    counts = np.exp(log_weights - largest) / total
    mean = (counts * means).sum(axis=0)
    variance = (counts * (variances + (means - mean) ** 2)).sum(axis=0)
    return mean, np.sqrt(variance), -(largest + np.log(total)), counts
