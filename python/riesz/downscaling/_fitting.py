"""Fits of models of aggregates for one set of hyper-parameters, and leave-one-out predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._models.expansion import Expansion
from ._bags import Tables

#: Number of targets whose contributions are computed at a time.
_AT_ONCE = 256


@dataclass(frozen=True)
class LeaveOneOut:
    """Predictions of each target from all other targets.

    Parameters
    ----------
    bags : list of str
        Names of the targets' bags.
    target : array of shape (targets,)
    mean, std : arrays of shape (targets,)
        The predictive mean and standard deviation of each target, including noise.
    log_density : array of shape (targets,)
        The logarithms of the targets' predictive densities, or of the counts' predictive probabilities.
    z_score : array of shape (targets,)
        The errors in standard deviations; for counts, whose distributions are skew, the normal scores of
        their predictive quantiles.

    Examples
    --------
    >>> import numpy as np, pandas as pd, riesz
    >>> rows = pd.DataFrame({"height": np.linspace(-2, 2, 60), "district": np.repeat(np.arange(12), 5)})
    >>> bags = np.sin(rows.height).groupby(rows.district).mean().rename("yield").reset_index()
    >>> model = riesz.AggregateGaussianProcess(n_hyperparameter_samples=0)
    >>> loo = model.fit(rows, bags, bag="district", target="yield").loo_
    >>> len(loo.to_frame()), bool(loo.rmse < 0.2)
    (12, True)
    """

    bags: list[str]
    target: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    log_density: np.ndarray
    z_score: np.ndarray

    @property
    def error(self) -> np.ndarray:
        """Targets minus their predictive means."""
        return self.target - self.mean

    @property
    def rmse(self) -> float:
        """The root mean squared error."""
        return float(np.sqrt(np.mean(self.error**2)))

    @property
    def coverage(self) -> float:
        """The share of targets whose :attr:`z_score` is within ±1.96; 0.95 is expected."""
        return float(np.mean(np.abs(self.z_score) <= 1.96))

    @property
    def mean_log_density(self) -> float:
        """The mean of :attr:`log_density`; larger is better."""
        return float(np.mean(self.log_density))

    def to_frame(self) -> Any:
        """Returns the predictions as a table.

        Returns
        -------
        pandas.DataFrame
            One line per target: ``bag, target, mean, std, error, z_score, log_density``.
        """
        import pandas

        columns = {
            "target": self.target,
            "mean": self.mean,
            "std": self.std,
            "error": self.error,
            "z_score": self.z_score,
        }
        return pandas.DataFrame({"bag": self.bags, **columns, "log_density": self.log_density})

    def __repr__(self) -> str:
        summary = f"rmse {self.rmse:.4g}, coverage {self.coverage:.2f} of .95"
        summary += f", mean log density {self.mean_log_density:.4g}"
        return f"<riesz.LeaveOneOut: {len(self.bags)} targets, {summary}>"


@dataclass(frozen=True)
class Component:
    """The fit for one set of hyper-parameters; see ``_core.AggregatePart``."""

    weight: float
    expansion: Expansion
    fitted: np.ndarray
    bags: tuple[np.ndarray, np.ndarray] | None
    left_out: tuple[np.ndarray, np.ndarray] | None
    sensitivities: tuple[np.ndarray, np.ndarray] | None
    #: The hyper-parameters of an exact fit, as the core's ``Start`` takes them.
    hyperparameters: dict[str, Any] | None = None

    @classmethod
    def from_core(cls, core: _core.AggregatePart) -> Component:
        arrays = lambda pair: None if pair is None else (np.asarray(pair[0]), np.asarray(pair[1]))
        bags, left_out = arrays(core.bags), arrays(core.left_out)
        names = ("kernel", "noise", "row_noise", "mediation_noise", "mediation")
        hyperparameters = None if core.hyperparameters is None else dict(zip(names, core.hyperparameters))
        model, fitted = Expansion._wrap(core.model), np.asarray(core.fitted)
        sensitivities = arrays(core.sensitivities)
        return cls(core.weight, model, fitted, bags, left_out, sensitivities, hyperparameters)

    def start(self, start: dict[str, Any]) -> dict[str, Any]:
        """Returns ``start``, where the tuning of an exact fit started, with its tuned hyper-parameters."""
        tuned = dict(self.hyperparameters or {})
        if tuned.get("mediation") is not None:
            tuned["mediation"] = (*tuned["mediation"], *start["mediation"][2:])
        return {**start, **tuned}

    @property
    def mean(self) -> float:
        """The prior mean of f."""
        return float(self.expansion.intercept[0])

    def target_contributions(
        self, cells: np.ndarray, row: np.ndarray, bag: np.ndarray, weights: np.ndarray, targets: np.ndarray
    ) -> np.ndarray:
        """Returns the contributions of targets to predictions, (rows of ``cells``, targets). Membership k
        is row ``row[k]`` in bag ``bag[k]`` with weight ``weights[k]``."""
        if self.sensitivities is None:
            raise ValueError("target_contributions need an exact fit: leave n_inducing out")
        (weight_sensitivities, constants), core = self.sensitivities, self.expansion._core
        rows, predictions = (core.feature_names, core.levels, core.points), []
        for start in range(0, weight_sensitivities.shape[1], _AT_ONCE):
            names = [str(t) for t in range(min(_AT_ONCE, weight_sensitivities.shape[1] - start))]
            coef = np.zeros((len(core.points), len(names)))
            np.add.at(coef, row, weights[:, None] * weight_sensitivities[bag, start : start + _AT_ONCE])
            predictions.append(
                _core.Expansion(core.kernel, rows, coef, [0.0] * len(names), names).predict(cells)
            )
        return np.hstack(predictions) * (targets - self.mean * constants)


def leave_one_out(parts: list[Component], tables: Tables) -> LeaveOneOut | None:
    """Returns the leave-one-out predictions of a mixture of hyper-parameters, each weighted by its likelihood
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
    return LeaveOneOut(tables.targets, tables.values, mean, sd, density, (tables.values - mean) / sd)


def mixture(
    weights: list[float], means: np.ndarray, variances: np.ndarray, log: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns the mean, standard deviation and log density of each target given the others, and the weights
    of the sets of hyper-parameters for each target. The arrays are (sets, targets)."""
    # Dividing by the predictive density of a target removes this target from the weight.
    log_weights = np.log(weights)[:, None] - log
    largest = log_weights.max(axis=0)
    total = np.exp(log_weights - largest).sum(axis=0)
    counts = np.exp(log_weights - largest) / total
    mean = (counts * means).sum(axis=0)
    variance = (counts * (variances + (means - mean) ** 2)).sum(axis=0)
    return mean, np.sqrt(variance), -(largest + np.log(total)), counts
