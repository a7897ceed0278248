"""Checks of parameters that several models and tests have, and the warnings of their fits."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np

#: A larger number of threads is probably a mistake, and could exhaust the machine.
MAX_THREADS = 1024


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number; booleans and floats are not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def whole_number(name: str, value: Any, minimum: int) -> int:
    """Returns a whole number that is at least ``minimum``."""
    if is_whole(value) and minimum <= value < 2**63:
        return int(value)
    limit = ", below 2**63" if is_whole(value) and value >= 2**63 else ""
    raise ValueError(f"{name} = {value!r}: it is a whole number from {minimum}{limit}")


def positive_number(name: str, value: Any, else_: str = "") -> float:
    """Returns a positive number; ``else_`` names other accepted values for the message."""
    if isinstance(value, numbers.Real) and 0 < float(value) < np.inf:
        return float(value)
    raise ValueError(f"{name} = {value!r}: it is a positive number{else_}")


def threads_of(n_jobs: Any) -> int | None:
    """Returns the checked number of threads; ``None`` for one per core."""
    if n_jobs is None or is_whole(n_jobs) and n_jobs == -1:
        return None
    if not is_whole(n_jobs) or not 1 <= n_jobs <= MAX_THREADS:
        raise ValueError(
            f"n_jobs = {n_jobs!r}: it is a whole number from 1 to {MAX_THREADS}, or None or -1 for one a core"
        )
    return int(n_jobs)


def check_optimizer(optimizer: Any) -> None:
    """Refuses unknown optimizers."""
    if optimizer not in (None, "fmin_l_bfgs_b"):
        raise ValueError(
            f"optimizer = {optimizer!r}: it is 'fmin_l_bfgs_b', or None to keep the kernel as it is"
        )


def issue_warnings(model: Any, notes: list[str], convergence_warnings: list[str]) -> list[str]:
    """Issues warnings to the caller of ``fit``, and returns all messages."""
    from sklearn.exceptions import ConvergenceWarning

    for category, messages in ((UserWarning, notes), (ConvergenceWarning, convergence_warnings)):
        for message in messages:
            warnings.warn(f"{type(model).__name__}: {message}", category, stacklevel=3)
    return [*notes, *convergence_warnings]


#: Default number of samples of hyper-parameters, and the largest number of observations with samples by
#: default.
_SAMPLES, _MAX_OBSERVATIONS = 64, 300


def hyperparameter_samples(
    n_samples: Any,
    n_observations: int,
    optimizer: Any,
    reason: str | None = None,
    max_observations: int = _MAX_OBSERVATIONS,
) -> int | None:
    """Returns the number of samples of hyper-parameters to average over, ``None`` for none. ``reason`` is a
    reason for none. By default there are none for more than ``max_observations``."""
    if optimizer is None:
        reason = "optimizer=None keeps hyper-parameters as they are"
    if isinstance(n_samples, str) and n_samples == "auto":
        return _SAMPLES if reason is None and 5 <= n_observations <= max_observations else None
    if not is_whole(n_samples):
        raise ValueError(f"n_hyperparameter_samples = {n_samples!r}: it is 'auto' or a whole number")
    if n_samples == 0:
        return None
    samples = whole_number("n_hyperparameter_samples", n_samples, 2)
    if reason is not None:
        raise ValueError(
            f"n_hyperparameter_samples = {samples}: {reason}, so there is nothing to average: take 0"
        )
    return samples
