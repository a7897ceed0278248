"""Downscaling: maps of single rows from means, totals or counts of groups of rows."""

from ._count_process import AggregateCountProcess
from ._gaussian_process import AggregateGaussianProcess, LeaveOneOut

__all__ = ["AggregateCountProcess", "AggregateGaussianProcess", "LeaveOneOut"]


def __dir__() -> list[str]:
    return sorted(__all__)
