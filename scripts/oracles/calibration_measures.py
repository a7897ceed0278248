"""Measurements of calibration: stated intervals and probabilities with the truth, and their summaries."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.stats import t as student_t

LEVELS = (0.95, 0.80)

#: Ranges of coverage by level, with the reason.
EXACT = {0.95: (0.94, 0.96), 0.80: (0.785, 0.815)}
EXACT_REASON = (
    "the truth is drawn from the model's prior at the same hyper-parameters, so coverage is nominal"
)
WANTED = {0.95: (0.92, 0.99), 0.80: (0.75, 0.90)}
WANTED_REASON = (
    "hyper-parameters are tuned, the posterior is approximate, or the truth is no draw of the prior"
)
#: Largest difference of a mean stated probability and the frequency of its events.
PROBABILITY_MARGIN = 0.03
#: Number of standard errors by which a measurement may lie outside its range, for many repetitions.
ALLOWED_ERRORS = 3.0
#: Largest width relative to the oracle.
MAX_RELATIVE_WIDTH = 1.5


def generator(seed: int, label: str) -> np.random.Generator:
    """The random numbers of one repetition of a row."""
    return np.random.default_rng([seed, zlib.crc32(label.encode())])


@dataclass(frozen=True)
class Intervals:
    """Central intervals of unknown numbers, whose truth is known here."""

    truth: np.ndarray
    #: Lower and upper ends by level.
    ends: Mapping[float, tuple[np.ndarray, np.ndarray]]
    #: Standard deviations of the posterior with the true hyper-parameters, if there is such an oracle.
    oracle_std: np.ndarray | None = None
    #: Whether truths are whole numbers, whose intervals may cover more than their level.
    is_discrete: bool = False

    @classmethod
    def from_normal(cls, truth: Any, mean: Any, std: Any, oracle_std: Any = None) -> Intervals:
        """Intervals of normal distributions."""
        mean, std = np.asarray(mean), np.asarray(std)
        reach = {level: NormalDist().inv_cdf(0.5 + level / 2) * std for level in LEVELS}
        ends = {level: (mean - width, mean + width) for level, width in reach.items()}
        return cls(np.asarray(truth), ends, None if oracle_std is None else np.asarray(oracle_std))

    @classmethod
    def from_function(cls, truth: Any, interval: Callable[[float], Any], **settings: Any) -> Intervals:
        """Intervals from a function of the level that returns both ends."""
        ends = {level: tuple(map(np.asarray, interval(level))) for level in LEVELS}
        return cls(np.asarray(truth), ends, **settings)

    @classmethod
    def from_draws(cls, truth: Any, draws: Any, axis: int = 0) -> Intervals:
        """Intervals between quantiles of draws."""
        return cls.from_function(
            truth, lambda level: np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2], axis=axis)
        )

    def scaled(self, factor: float) -> Intervals:
        """The intervals with their widths multiplied around their centres."""
        ends = {}
        for level, (low, high) in self.ends.items():
            centre, reach = (high + low) / 2, factor * (high - low) / 2
            ends[level] = centre - reach, centre + reach
        return replace(self, ends=ends)

    def record(self) -> dict[str, Any]:
        """Shares of truths inside by level, their number, and widths relative to the oracle."""
        shares, widths = {}, {}
        for level, (low, high) in self.ends.items():
            # Rounding errors of intervals without width do not count.
            slack = 1e-9 * np.maximum(1.0, np.abs(self.truth))
            shares[str(level)] = float(np.mean((low - slack <= self.truth) & (self.truth <= high + slack)))
            widths[str(level)] = float(np.mean(high - low))
        numbers = {"kind": "intervals", "count": int(self.truth.size), "inside": shares, "width": widths}
        numbers["discrete"] = self.is_discrete
        if self.oracle_std is not None:
            numbers["oracle"] = {
                str(level): float(2 * NormalDist().inv_cdf(0.5 + level / 2) * np.mean(self.oracle_std))
                for level in self.ends
            }
        return numbers


@dataclass(frozen=True)
class Events:
    """Events with their stated probabilities. A probability below one half is that of the opposite event, so
    that stated probabilities that are too extreme exceed the frequency of events."""

    probability: np.ndarray
    occurred: np.ndarray

    def scaled(self, factor: float) -> Events:
        """The events with log odds of their probabilities divided by the factor."""
        probability = np.clip(self.probability, 1e-12, 1 - 1e-12)
        odds = (probability / (1 - probability)) ** (1 / factor)
        return replace(self, probability=odds / (1 + odds))

    def record(self) -> dict[str, Any]:
        """The mean stated probability and the frequency of the events."""
        probability, occurred = np.asarray(self.probability, dtype=float), np.asarray(self.occurred)
        is_likely = probability >= 0.5
        stated = np.where(is_likely, probability, 1 - probability)
        return {
            "kind": "events",
            "count": int(stated.size),
            "stated": float(np.mean(stated)),
            "frequency": float(np.mean(occurred == is_likely)),
        }


@dataclass(frozen=True)
class Scores:
    """Scores without a nominal value, such as log densities of held-out targets."""

    values: np.ndarray

    def scaled(self, factor: float) -> Scores:
        """Scores have no width, so that they stay the same."""
        return self

    def record(self) -> dict[str, Any]:
        """The mean score."""
        return {"kind": "scores", "count": int(np.size(self.values)), "mean": float(np.mean(self.values))}


Measurements = Mapping[str, "Intervals | Events | Scores"]


@dataclass(frozen=True)
class Row:
    """A design and a model whose stated intervals and probabilities are compared with the truth."""

    name: str
    #: The design in words.
    design: str
    #: The model in words.
    model: str
    #: Returns measurements by quantity for a seed.
    measure: Callable[[int], Measurements]
    #: For each quantity the public methods and attributes that state it.
    statements: Mapping[str, tuple[str, ...]]
    ranges: Mapping[float, tuple[float, float]] = field(default_factory=lambda: WANTED)
    reason: str = WANTED_REASON
    #: Quantities that are measured for comparison, without a verdict.
    without_verdict: tuple[str, ...] = ()
    #: Repetitions in the short run; 0 leaves the row out.
    n_short: int = 0
    #: Fewest repetitions in longer runs.
    n_least: int = 3


@dataclass(frozen=True)
class Summary:
    """The summary of a quantity of a row over repetitions."""

    row: Row
    quantity: str
    records: list[dict[str, Any]]

    @property
    def key(self) -> str:
        """The name of row and quantity."""
        return f"{self.row.name}: {self.quantity}"

    @property
    def kind(self) -> str:
        """The kind of the quantity: ``intervals``, ``events`` or ``scores``."""
        return self.records[0]["kind"]

    @property
    def allowed_errors(self) -> float:
        """The allowed standard errors, which are more for few repetitions, by Student's distribution."""
        if len(self.records) < 2:
            return math.inf
        return float(student_t.ppf(NormalDist().cdf(ALLOWED_ERRORS), len(self.records) - 1))

    def coverage(self, level: float) -> tuple[float, float]:
        """The coverage and its standard error over repetitions."""
        shares = np.array([record["inside"][str(level)] for record in self.records])
        return float(shares.mean()), self._error(shares, level * (1 - level))

    def _error(self, shares: np.ndarray, variance: float) -> float:
        """The standard error of a mean share; at least the binomial one if every number were independent."""
        total = sum(record["count"] for record in self.records)
        between = np.std(shares, ddof=1) / math.sqrt(len(shares)) if len(shares) > 1 else math.inf
        return float(max(between, math.sqrt(variance / total)))

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels of the intervals."""
        return tuple(float(level) for level in self.records[0]["inside"])

    @property
    def relative_width(self) -> float | None:
        """The mean width of 95 % intervals relative to the oracle's, if there is one."""
        if "oracle" not in self.records[0]:
            return None
        level = str(self.levels[0])
        widths = [record["width"][level] for record in self.records]
        return float(np.sum(widths) / np.sum([record["oracle"][level] for record in self.records]))

    def probabilities(self) -> tuple[float, float, float]:
        """The mean stated probability, the frequency of events, and the standard error of the difference."""
        stated = np.array([record["stated"] for record in self.records])
        frequency = np.array([record["frequency"] for record in self.records])
        variance = float(np.mean(stated * (1 - stated)))
        return float(stated.mean()), float(frequency.mean()), self._error(frequency - stated, variance)

    def mean_score(self) -> tuple[float, float]:
        """The mean score and its standard error."""
        means = np.array([record["mean"] for record in self.records])
        error = np.std(means, ddof=1) / math.sqrt(len(means)) if len(means) > 1 else math.inf
        return float(means.mean()), float(error)

    def faults(self, allowed_errors: float | None = None) -> list[str]:
        """The measurements that lie outside their ranges by more than the allowed errors."""
        allowed = self.allowed_errors if allowed_errors is None else allowed_errors
        if self.kind == "scores" or self.quantity in self.row.without_verdict:
            return []
        if self.kind == "events":
            stated, frequency, error = self.probabilities()
            excess = abs(frequency - stated) - PROBABILITY_MARGIN
            return ["probability"] if excess > allowed * error else []
        faults = []
        for level in self.levels:
            coverage, error = self.coverage(level)
            low, high = self.row.ranges[level]
            if coverage < low - allowed * error:
                faults.append(f"{100 * level:g} % low")
            if not self.records[0]["discrete"] and coverage > high + allowed * error:
                faults.append(f"{100 * level:g} % high")
        width = self.relative_width
        return faults + ["wide"] * (width is not None and width > MAX_RELATIVE_WIDTH)
