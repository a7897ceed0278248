"""What is asked of an effect across studies: at which treatments, compared with which, and of whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._effect import CausalEstimate
from ._study_tables import Levels, cells_of, coded, columns_of
from ._table_columns import Rows
from ._validation import _listed, collected


class Asked(NamedTuple):
    """The effect at treatments, or a contrast or slope of it, as the core takes it."""

    at: Rows
    #: One row, with which others are compared.
    baseline: Rows | None = None
    #: By which treatment the slope is, and its step; ``None`` for the usual ones.
    slope: tuple[str | None, float | None] | None = None

    @property
    def versus(self) -> str:
        """The baseline in words."""
        if self.baseline is None:
            return ""
        said = ", ".join(f"{name} = {_shown(own[0])}" for name, own in cells_of(self.baseline).items())
        return f" less that at {said}"


class Columns(NamedTuple):
    """What may be asked about."""

    treatments: tuple[str, ...]
    outcome: str
    #: Covariates that the effect is averaged over.
    others: tuple[str, ...]
    #: Covariates that both studies share, and on which the outcome depends.
    passive: tuple[str, ...]
    levels: Levels
    #: How the effect follows, in words.
    follows: str

    def treated(self, rows: Any, what: str) -> Rows:
        """Rows of treatments."""
        return coded(collected(rows), self.treatments, self.levels, what)

    def asked(self, grid: Any, baseline: Any, what: str) -> Asked:
        """The effect at treatments, or what it is more than at a baseline."""
        at = self.treated(grid, what)
        return Asked(at, None if baseline is None else one(self.treated(baseline, "baseline"), "baseline"))


def one(rows: Rows, what: str) -> Rows:
    """A table of one row."""
    if len(rows.numbers) != 1:
        raise ValueError(f"{what} has {len(rows.numbers)} rows: give one")
    return rows


def estimated(
    told: Any, what: str, asked: Asked, draw: Callable[[int, int], np.ndarray] | None = None
) -> CausalEstimate:
    """What the core tells."""
    mean, cov, parts, standing, supported = told
    stands = {name: np.array(own) for name, own in standing}
    return CausalEstimate(
        what, cells_of(asked.at), np.array(mean), cov, dict(parts), stands, np.array(supported), draw
    )


def on_whom(
    fused: _core.CausalEffect, columns: Columns, *, given: Any, among: Any, population: Any, weights: Any
) -> tuple[_core.CausalEffect, str]:
    """The effect on whom is asked for, and who they are in words."""
    asked = {"given": given, "among": among, "population": population}
    named = [name for name, own in asked.items() if own is not None]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} exclude one another: give one")
    if weights is not None and population is None:
        raise ValueError("weights are those of a population: give one")
    if not named:
        return fused, ""
    if columns.passive:
        raise ValueError(
            f"{named[0]}: both studies share {_listed(columns.passive)}, on which {columns.outcome} depends, "
            "and then the effect "
            "on others than the people of study 1 is not computed yet"
        )
    if not columns.others:
        raise ValueError(
            f"{named[0]}: the effect is not averaged over covariates ({columns.follows}), and so is the same "
            "for all"
        )
    if among is not None:
        rows = one(columns.treated(among, "among"), "among")
        return fused.treated(rows), f" of those with {_told(rows)}"
    if given is not None:
        rows = _like(given, columns)
        return fused.like(rows), f" of those with {_told(rows)}"
    members = coded(collected(population), columns.others, columns.levels, "population")
    counts = np.ones(len(members.numbers))
    if isinstance(weights, str):
        counts = coded(collected(population), [weights], {weights: None}, "population").numbers[:, 0]
    elif weights is not None:
        counts = np.atleast_1d(np.asarray(weights, dtype=np.float64)).ravel()
    return fused.population(members, counts.tolist()), " of a population"


def _like(given: Any, columns: Columns) -> Rows:
    """A row of some of the covariates."""
    if not isinstance(given, Mapping):
        given = {name: cells for name, (cells, _) in columns_of(given, "given").items()}
    strange = [str(name) for name in given if name not in columns.others]
    if strange or not given:
        which = _listed(strange) if strange else "nothing"
        raise ValueError(f"given names {which}: the effect is averaged over {_listed(columns.others)}")
    names = [name for name in columns.others if name in given]
    return one(coded(given, names, columns.levels, "given"), "given")


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)


def _told(rows: Rows) -> str:
    return " and ".join(f"{name} = {_shown(own[0])}" for name, own in cells_of(rows).items())
