"""Held-out scores of models of aggregates: log predictive density, and the share of explained deviance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, xlogy
from sklearn.utils.validation import check_is_fitted

from .._data.validation import collected
from ._bags import ColumnRoles, Members, _cells, _known_variances, _numbers, _targets


class HeldOutBags(NamedTuple):
    """Bags with targets that the model may not have seen, and their rows."""

    members: Members
    #: Names of the bags, in the order of :attr:`values`.
    names: list[str]
    #: Targets.
    values: np.ndarray
    #: Known variances of targets, or None.
    known: np.ndarray | None
    #: Numbers of trials, or None.
    trials: np.ndarray | None


def held_out_bags(model: Any, rows: Any, bags: Any, **given_roles: Any) -> HeldOutBags:
    """Returns the bags with targets; columns that are not given are those of the fit."""
    check_is_fitted(model)
    roles = ColumnRoles(
        **{
            role: getattr(model._column_roles, role) if column is None else column
            for role, column in given_roles.items()
        }
    )
    members, names_of_rows = model._members(rows, roles.bag, roles.weight)
    names, values, frame = _targets(collected(bags), roles)
    scored = np.flatnonzero(np.isfinite(values))
    if not len(scored):
        raise ValueError("no bag has a target: there is nothing to compare predictions with")
    have_rows = set(names_of_rows)
    missing = next((names[b] for b in scored if names[b] not in have_rows), None)
    if missing is not None:
        raise ValueError(
            f"the bag '{missing}' has a target and no rows: give its rows, or leave out its line of bags"
        )
    scored_names = [names[b] for b in scored]
    if len(set(scored_names)) < len(scored_names):
        raise ValueError("some bags have several lines in bags: give one line per bag")
    wanted = set(scored_names)
    members = members.take([i for i, name in enumerate(members.bag) if name in wanted])
    known = _known_variances(frame, roles.target_std, scored_names, scored.tolist(), len(names))
    trials = None
    if roles.trials is not None:
        trials = _numbers(_cells(frame, roles.trials, "bags", "trials", len(names)), "trials")[scored]
    return HeldOutBags(members, scored_names, values[scored], known, trials)


def mean_log_density(
    values: np.ndarray, weights: list[float], means: np.ndarray, variances: np.ndarray
) -> float:
    """Returns the mean log density of values under a mixture of normal distributions with ``means`` and
    ``variances``, (components, values)."""
    log = -0.5 * ((values - means) ** 2 / variances + np.log(2 * np.pi * variances))
    return float(logsumexp(log, axis=0, b=np.asarray(weights)[:, None]).mean())


def explained_deviance(
    counts: np.ndarray, expected: np.ndarray, exposure: np.ndarray, binomial: bool
) -> float:
    """Returns the share of the deviance of counts that expected counts explain beyond one common rate per
    unit of exposure; for binomial counts the exposure is the number of trials."""

    invalid = (counts < 0) | (counts != np.floor(counts)) | (binomial & (counts > exposure))
    if invalid.any():
        limit = ", up to the number of trials" if binomial else ""
        raise ValueError(f"a target is {counts[invalid][0]}: counts are whole numbers, 0 or more{limit}")

    def deviance(mean: np.ndarray) -> float:
        terms = xlogy(counts, counts) - xlogy(counts, mean) - (counts - mean)
        if binomial:
            failures, expected_failures = exposure - counts, exposure - mean
            terms = xlogy(counts, counts) - xlogy(counts, mean)
            terms += xlogy(failures, failures) - xlogy(failures, expected_failures)
        return float(2.0 * terms.sum())

    common = deviance(exposure * counts.sum() / exposure.sum())
    if common <= 0.0:
        raise ValueError("all bags have the same rate, so there is no deviance to explain: score other bags")
    return 1.0 - deviance(expected) / common
