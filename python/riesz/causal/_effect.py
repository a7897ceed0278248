"""The estimate of an effect at some treatments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils import check_random_state

from .._data.parameters import whole_number

#: Maximum number of rows in a repr.
_SHOWN = 8


@dataclass(frozen=True, repr=False, eq=False)
class CausalEstimate:
    """An effect at some treatments, or its contrast or derivative: means with a joint covariance, split by
    source of uncertainty."""

    #: Description of the estimate.
    description: str
    #: The treatments, by name.
    treatments: dict[str, np.ndarray]
    #: The means, (rows,).
    mean: np.ndarray
    #: The joint covariance, (rows, rows).
    cov: np.ndarray
    #: Covariances by source, which sum to :attr:`cov`: ``"study 1"``, ``"study 2"``, …, ``"interaction"`` (of
    #: a study with the later ones), ``"adjustment"`` (the population of study 1) and ``"hyper-parameters"``.
    covariance_by_source: dict[str, np.ndarray]
    #: Support of each row by the studies. ``resolved_by_first`` and ``resolved_by_rest`` are the shares of
    #: the prior variance, from 0 to 1, that study 1 and the later studies remove. ``effective_rows`` is the
    #: effective number of rows of study 1, and ``mass`` the sum of their weights, 1 if rows determine the
    #: estimate. ``people`` is the same share for the target population (``conditions``, ``among``), and
    #: ``overlap`` the share of it with such a treatment within two standard deviations of the mean given
    #: their covariates. For contrasts and derivatives the smaller number of both ends.
    diagnostics: dict[str, np.ndarray]
    #: Whether the studies support the row, (rows,): ``resolved_by_first``, ``resolved_by_rest``, ``people``
    #: and ``overlap`` are at least one half. Other rows are extrapolations of the model.
    support: np.ndarray
    _draw: Callable[[int, int], np.ndarray] | None = field(default=None)

    @property
    def std(self) -> np.ndarray:
        """The standard deviations, (rows,)."""
        return np.sqrt(np.maximum(np.diag(self.cov), 0.0))

    @property
    def variance_by_source(self) -> dict[str, np.ndarray]:
        """The variances by source, (rows,) each; they sum to the square of :attr:`std`."""
        return {cause: np.diag(covariance).copy() for cause, covariance in self.covariance_by_source.items()}

    def restricted_to(self, *causes: str) -> CausalEstimate:
        """Returns this estimate with the uncertainty from these sources only: ``"study 2"`` gives the
        uncertainty of the source's IMP, ``"study 1"`` that of BayesIME. It draws no samples."""
        unknown = [cause for cause in causes if cause not in self.covariance_by_source]
        if unknown or not causes:
            raise ValueError(f"causes = {causes!r}: name some of {', '.join(self.covariance_by_source)}")
        parts = {cause: self.covariance_by_source[cause] for cause in causes}
        cov = np.sum(list(parts.values()), axis=0)
        return replace(self, cov=cov, covariance_by_source=parts, _draw=None)

    def interval(
        self, level: float = 0.95, n_samples: int | None = None, random_state: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the lower and upper ends of the interval of each row, of a normal distribution with
        :attr:`mean` and :attr:`std`; with ``n_samples`` quantiles of this number of draws, whose tails
        are heavier."""
        if not 0 < level < 1:
            raise ValueError(f"level = {level!r}: it is between 0 and 1")
        if n_samples is None:
            half_width = ndtri(0.5 + level / 2) * self.std
            return self.mean - half_width, self.mean + half_width
        low, high = np.quantile(
            self.sample(n_samples, random_state), [0.5 - level / 2, 0.5 + level / 2], axis=1
        )
        # The mean of a skew distribution may lie outside its central interval, and few draws may all lie on
        # one side of it.
        return np.minimum(low, self.mean), np.maximum(high, self.mean)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Returns joint draws, (rows, n_samples)."""
        if self._draw is None:
            raise ValueError(
                "this estimate draws no samples, as it was pickled or is of some causes or a published form: "
                "ask the model"
            )
        return self._draw(
            whole_number("n_samples", n_samples, 1), int(check_random_state(random_state).randint(2**31 - 1))
        )

    def to_frame(self, level: float = 0.95) -> Any:
        """Returns a data frame with one line per row: treatments, ``mean, std, low, high, support``, and the
        standard deviation by source, ``std_study 1`` and so on. A treatment with one of these names becomes
        ``treatment std`` and the like."""
        import pandas

        low, high = self.interval(level)
        std_by_cause = {
            f"std_{cause}": np.sqrt(np.maximum(variances, 0.0))
            for cause, variances in self.variance_by_source.items()
        }
        columns = {"mean": self.mean, "std": self.std, "low": low, "high": high, "support": self.support}
        columns |= std_by_cause
        treatments = {
            f"treatment {name}" if name in columns else name: values
            for name, values in self.treatments.items()
        }
        return pandas.DataFrame({**treatments, **columns})

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_draw": None}

    def __repr__(self) -> str:
        low, high = self.interval()
        main_cause = max(
            self.covariance_by_source, key=lambda cause: float(np.trace(self.covariance_by_source[cause]))
        )
        lines = [[*self.treatments, "mean", "std", "95 % interval", "support"]]
        for i in range(min(len(self.mean), _SHOWN)):
            cells = [shown(column[i]) for column in self.treatments.values()]
            numbers = [shown(self.mean[i]), shown(self.std[i]), f"{shown(low[i])} to {shown(high[i])}"]
            lines.append([*cells, *numbers, "yes" if self.support[i] else "no"])
        omitted_text = [f"… ({len(self.mean)} rows in all)"] if len(self.mean) > _SHOWN else []
        return "\n".join(
            [
                f"<riesz.CausalEstimate: {self.description}; most variance: {main_cause}>",
                *aligned(lines),
                *omitted_text,
            ]
        )


def shown(value: Any) -> str:
    """Returns the text of a cell of a printed table."""
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def aligned(lines: list[list[str]]) -> list[str]:
    """Returns the lines of a printed table, with columns as wide as their widest cells."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines]
