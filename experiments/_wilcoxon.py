"""Tests whether differences between methods exceed chance, for experiments with several seeds."""

from __future__ import annotations

import argparse
import itertools

import numpy as np
from _figures import table
from scipy.stats import wilcoxon


def tests() -> argparse.ArgumentParser:
    """The option ``--tests``; a parent of an experiment's ``arguments``."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--tests",
        action="store_true",
        help="Wilcoxon's signed-rank tests of all pairs of methods over the seeds, too",
    )
    return parser


def holm(values: list[float]) -> np.ndarray:
    """p-values with Holm's correction: the smallest is multiplied by the number of tests, the next one by
    one less, and so on."""
    values = np.asarray(values, dtype=float)
    order, count = np.argsort(values), len(values)
    corrected = np.empty(count)
    corrected[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(count, 0, -1)), 1)
    return corrected


def signed_rank(errors: dict[str, list[float]], quantity: str) -> str:
    """A table of p-values for all pairs of methods, ordered by mean error: uncorrected below the diagonal,
    with Holm's correction above."""
    names = sorted(errors, key=lambda name: np.mean(errors[name]))
    seeds = len(errors[names[0]])
    pairs = list(itertools.combinations(range(len(names)), 2))
    values = [two_sided(np.subtract(errors[names[i]], errors[names[j]])) for i, j in pairs]
    cells = [["" for _ in names] for _ in names]
    for (i, j), value, corrected in zip(pairs, values, holm(values)):
        cells[j][i], cells[i][j] = f"{value:.2g}", f"{corrected:.2g}"
    text = (
        f"\n\nWilcoxon's signed-rank tests of {quantity}, two-sided, {seeds} seeds, {len(pairs)} pairs; "
        f"methods by their mean. Below the diagonal p, above it p by Holm's correction. "
    )
    text += f"With {seeds} seeds p is no less than {2.0 ** (1 - seeds):.2g}\n\n"
    header = ["", "mean", *(str(place + 1) for place in range(len(names)))]
    lines = [[f"{i + 1} {name}", float(np.mean(errors[name])), *cells[i]] for i, name in enumerate(names)]
    n_significant = sum(value < 0.05 for value in values), int((holm(values) < 0.05).sum())
    return (
        text
        + table(header, lines)
        + f"\n\nBelow .05: {n_significant[0]} of {len(pairs)} pairs, {n_significant[1]} by Holm's correction.\n"
    )


def two_sided(differences: np.ndarray) -> float:
    """The two-sided p-value, which is 1 if all differences are 0."""
    return float(wilcoxon(differences).pvalue) if np.any(differences) else 1.0
