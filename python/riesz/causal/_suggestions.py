"""Suggestions of treatments to try next, given the effect and earlier experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._data.parameters import is_whole
from .._data.table_columns import Rows
from .._data.validation import _listed
from ._effect import aligned, shown
from ._study_tables import cells_of


class Trials(NamedTuple):
    """Experiments: tried treatments and their outcomes."""

    rows: Rows
    outcomes: np.ndarray
    #: Standard deviations of the outcomes around the effect, one each; ``None`` to estimate them.
    sds: np.ndarray | None

    def to_core(self, prior: str) -> tuple[Rows, list[float], list[float] | None, str]:
        """Returns the experiments as the core takes them."""
        return self.rows, self.outcomes.tolist(), None if self.sds is None else (self.sds**2).tolist(), prior


class Choice(NamedTuple):
    """An effect, and the treatments that may be tried."""

    effect: _core.CausalEffect
    #: Treatments of study 1.
    studied: Rows
    trials: Trials
    #: Treatments that may be tried; ``None`` for all within the bounds.
    candidates: Rows | None
    #: Bounds by treatment, by default the range of study 1.
    bounds: dict[str, tuple[float, float]]
    #: Costs: one number, one per candidate, or a function of treatments by name.
    costs: Any


@dataclass(frozen=True, repr=False, eq=False)
class Suggestions:
    """Treatments to try next, the best first."""

    #: Treatments by name, (n,). With several models, NaN or ``None`` for the treatments of the other models,
    #: which are not set.
    treatments: dict[str, np.ndarray]
    #: The acquisition function, (n,): for ``"log-ei"`` the logarithm of the expected improvement minus the
    #: logarithm of the cost.
    acquisition: np.ndarray
    #: The expected improvement on the best outcome so far, (n,), regardless of cost.
    expected_improvement: np.ndarray
    #: The posterior mean of the effect and its standard deviation, (n,).
    mean: np.ndarray
    std: np.ndarray
    #: Whether the studies have data there, (n,).
    support: np.ndarray
    #: The number of each suggestion's model, from 0.
    model: np.ndarray

    def to_frame(self) -> Any:
        """Returns a data frame with one line per suggestion."""
        import pandas

        columns = {
            "mean": self.mean,
            "std": self.std,
            "expected_improvement": self.expected_improvement,
            "acquisition": self.acquisition,
            "support": self.support,
        }
        treatments = {
            f"treatment {name}" if name in columns else name: values
            for name, values in self.treatments.items()
        }
        return pandas.DataFrame({**treatments, **columns})

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        lines = [[*self.treatments, "mean", "std", "expected improvement", "acquisition", "support"]]
        columns = self.mean, self.std, self.expected_improvement, self.acquisition
        for i in range(len(self)):
            numbers = [column[i] for column in (*self.treatments.values(), *columns)]
            lines.append([*map(shown, numbers), "yes" if self.support[i] else "no"])
        return "\n".join(["<riesz.Suggestions>", *aligned(lines)])


def no_trials(studied: Rows) -> Trials:
    return Trials(studied._replace(numbers=studied.numbers[:0]), np.zeros(0), None)


def with_trials(earlier: Trials, rows: Rows, outcomes: Any, sds: Any) -> Trials:
    """Returns the experiments with further ones added."""
    count = len(rows.numbers)
    outcomes = _numbers("outcomes", outcomes, count)
    if len(earlier.outcomes) and (earlier.sds is None) != (sds is None):
        raise ValueError(
            f"std = {sds!r}: give it of all experiments or of none; reset() forgets those before"
        )
    if sds is not None:
        sds = _numbers("std", np.broadcast_to(sds, (count,)) if np.ndim(sds) == 0 else sds, count)
        if not (sds >= 0).all():
            raise ValueError("std: standard deviations are 0 or more")
        sds = sds if earlier.sds is None else np.concatenate([earlier.sds, sds])
    numbers = np.vstack([earlier.rows.numbers, rows.numbers])
    return Trials(rows._replace(numbers=numbers), np.concatenate([earlier.outcomes, outcomes]), sds)


def _numbers(label: str, values: Any, count: int) -> np.ndarray:
    try:
        numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise ValueError(f"{label}: {values!r} is not numbers") from None
    if numbers.shape != (count,):
        raise ValueError(
            f"{label}: {count} numbers are needed, one an experiment, and there are {numbers.size}"
        )
    if not np.isfinite(numbers).all():
        raise ValueError(
            f"{label}: {numbers[~np.isfinite(numbers)][0]} is not finite: leave out experiments without one"
        )
    return numbers


def by_treatment(bounds: Any, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Returns bounds by treatment, from a pair of numbers if there is one treatment, or a dictionary of
    pairs."""
    if bounds is None:
        return {}
    if not isinstance(bounds, Mapping):
        if len(names) != 1:
            raise ValueError(
                f"bounds = {bounds!r}: give a dictionary of pairs by treatment, of {_listed(names)}"
            )
        bounds = {names[0]: bounds}
    unknown = [str(name) for name in bounds if name not in names]
    if unknown:
        raise ValueError(f"bounds of {_listed(unknown)}: the treatments are {_listed(names)}")
    try:
        return {name: (float(low), float(high)) for name, (low, high) in bounds.items()}
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds = {bounds!r}: give a lower and an upper number for each treatment"
        ) from None


def suggested(
    choices: Sequence[Choice],
    n: Any,
    minimize: bool,
    acquisition: str,
    prior: str,
    supported: bool,
    seed: Any,
) -> Suggestions:
    """Returns the treatments to try next, among those of all models."""
    if not is_whole(n) or n < 1:
        raise ValueError(f"n = {n!r}: it is a whole number from 1 on")
    if not is_whole(seed) or seed < 0:
        raise ValueError(f"random_state = {seed!r}: it is a whole number, 0 or more")
    suggestions = _core.suggest_trials(
        [_core_choice(choice, prior, int(seed)) for choice in choices],
        int(n),
        acquisition,
        bool(minimize),
        bool(supported),
        int(seed),
    )
    names = list(dict.fromkeys(name for choice in choices for name in choice.studied.names))
    cells: dict[str, list[Any]] = {name: [] for name in names}
    for k, row, *_ in suggestions:
        cells_of_row = cells_of(choices[k].studied._replace(numbers=np.array([row])))
        for name in names:
            cells[name].append(
                cells_of_row[name][0] if name in cells_of_row else _missing_value(name, choices)
            )
    model, acquisition_values, improvement, mean, sd, support = map(
        np.array, zip(*[(k, *numbers) for k, _, *numbers in suggestions])
    )
    return Suggestions(
        {name: np.array(column) for name, column in cells.items()},
        acquisition_values,
        improvement,
        mean,
        sd,
        support,
        model,
    )


def _missing_value(name: str, choices: Sequence[Choice]) -> Any:
    kinds = [
        levels
        for choice in choices
        for studied_name, levels in zip(choice.studied.names, choice.studied.levels)
        if studied_name == name
    ]
    return np.nan if kinds[0] is None else None


def _core_choice(choice: Choice, prior: str, seed: int) -> Any:
    """Returns a choice as the core takes it."""
    studied, bounds, rows = choice.studied, list(choice.bounds.items()), choice.candidates
    costs = choice.costs
    if callable(costs):
        if rows is None:
            rows = studied._replace(
                numbers=np.ascontiguousarray(_core.trial_candidates(studied, bounds, seed))
            )
        costs = costs(cells_of(rows))
    try:
        costs = (
            [1.0] if costs is None else np.atleast_1d(np.asarray(costs, dtype=np.float64)).ravel().tolist()
        )
    except (TypeError, ValueError):
        raise ValueError(f"costs: {costs!r} is not numbers") from None
    return choice.effect, choice.trials.to_core(prior), rows, bounds, costs
