"""Rows of calibration.py by area, and the limits that are known."""

from __future__ import annotations

from calibration_measures import Row

from .known_limits import KNOWN_LIMITS, LIMITS, MAX_DECREASE, Limit
from . import aggregates, comparisons, discrepancies, effects, explanations, processes, real, refits

SECTIONS: dict[str, list[Row]] = {
    "Gaussian processes": processes.ROWS,
    "Shapley values and importance": explanations.ROWS,
    "Bootstrap and jackknife": refits.ROWS,
    "Maps from aggregates": aggregates.ROWS,
    "Preferences": comparisons.ROWS,
    "Causal effects": effects.ROWS,
    "Tests": discrepancies.ROWS,
    "Held-out rows of data sets": real.ROWS,
}
REAL_ROWS = real.ROWS
ROWS = [row for rows in SECTIONS.values() for row in rows if row not in REAL_ROWS]
