"""Queries of an effect: the treatments, the baseline, and the target population."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._data.table_columns import Rows
from .._data.validation import _listed, collected
from ._effect import CausalEstimate
from ._study_tables import Levels, cells_of, coded, columns_of


class EffectQuery(NamedTuple):
    """An effect at some treatments, or its contrast or derivative, as the core takes it."""

    treatments: Rows
    #: One row, the baseline of a contrast.
    baseline: Rows | None = None
    #: The treatment of a derivative and its step, ``None`` for the defaults; ``None`` for no derivative.
    slope: tuple[str | None, float | None] | None = None

    @property
    def versus(self) -> str:
        """The baseline in words."""
        if self.baseline is None:
            return ""
        text = ", ".join(f"{name} = {_shown(column[0])}" for name, column in cells_of(self.baseline).items())
        return f" less that at {text}"


class Columns(NamedTuple):
    """The columns that a query may name."""

    treatments: tuple[str, ...]
    outcome: str
    #: Covariates over which the effect is averaged.
    covariates: tuple[str, ...]
    #: Covariates that both studies share, and on which the outcome depends.
    passive: tuple[str, ...]
    levels: Levels
    #: The identification, in words.
    follows: str

    def treated(self, rows: Any, label: str) -> Rows:
        """Returns rows of treatments."""
        return coded(collected(rows), self.treatments, self.levels, label)

    def query(self, grid: Any, baseline: Any, label: str) -> EffectQuery:
        """Returns the query of the effect at treatments, or of its contrast with a baseline."""
        treatments = self.treated(grid, label)
        return EffectQuery(
            treatments,
            None if baseline is None else single_row(self.treated(baseline, "baseline"), "baseline"),
        )


def single_row(rows: Rows, label: str) -> Rows:
    """Returns the table if it has one row, else raises an error."""
    if len(rows.numbers) != 1:
        raise ValueError(f"{label} has {len(rows.numbers)} rows: give one")
    return rows


def estimated(
    core_estimate: Any,
    description: str,
    query: EffectQuery,
    draw: Callable[[int, int], np.ndarray] | None = None,
) -> CausalEstimate:
    """Returns the core's estimate as a :class:`CausalEstimate`."""
    mean, cov, parts, support, supported = core_estimate
    support_measures = {name: np.array(values) for name, values in support}
    return CausalEstimate(
        description,
        cells_of(query.treatments),
        np.array(mean),
        cov,
        dict(parts),
        support_measures,
        np.array(supported),
        draw,
    )


def on_target_population(
    fused: _core.CausalEffect,
    columns: Columns,
    *,
    conditions: Any,
    among: Any,
    population: Any,
    population_weights: Any,
) -> tuple[_core.CausalEffect, str]:
    """Returns the effect on the target population of a query, and its description."""
    populations = {"conditions": conditions, "among": among, "population": population}
    named = [name for name, value in populations.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} exclude one another: give one")
    if population_weights is not None and population is None:
        raise ValueError("population_weights are those of a population: give one")
    if not named:
        return fused, ""
    if columns.passive:
        raise ValueError(
            f"{named[0]}: both studies share {_listed(columns.passive)}, on which {columns.outcome} depends, "
            "and then the effect "
            "on others than the people of study 1 is not computed yet"
        )
    if not columns.covariates:
        raise ValueError(
            f"{named[0]}: the effect is not averaged over covariates ({columns.follows}), and so is the same "
            "for all"
        )
    if among is not None:
        rows = single_row(columns.treated(among, "among"), "among")
        return fused.treated(rows), f" of those with {_described(rows)}"
    if conditions is not None:
        rows = _covariate_row(conditions, columns)
        return fused.like(rows), f" of those with {_described(rows)}"
    members = coded(collected(population), columns.covariates, columns.levels, "population")
    member_weights = np.ones(len(members.numbers))
    if isinstance(population_weights, str):
        member_weights = coded(
            collected(population), [population_weights], {population_weights: None}, "population"
        ).numbers[:, 0]
    elif population_weights is not None:
        member_weights = np.atleast_1d(np.asarray(population_weights, dtype=np.float64)).ravel()
    return fused.population(members, member_weights.tolist()), " of a population"


def _covariate_row(conditions: Any, columns: Columns) -> Rows:
    """Returns one row with values of some of the covariates."""
    if not isinstance(conditions, Mapping):
        conditions = {name: cells for name, (cells, _) in columns_of(conditions, "conditions").items()}
    unknown = [str(name) for name in conditions if name not in columns.covariates]
    if unknown or not conditions:
        unknown_text = _listed(unknown) if unknown else "nothing"
        raise ValueError(
            f"conditions name {unknown_text}: the effect is averaged over {_listed(columns.covariates)}"
        )
    names = [name for name in columns.covariates if name in conditions]
    return single_row(coded(conditions, names, columns.levels, "conditions"), "conditions")


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)


def _described(rows: Rows) -> str:
    return " and ".join(f"{name} = {_shown(column[0])}" for name, column in cells_of(rows).items())
