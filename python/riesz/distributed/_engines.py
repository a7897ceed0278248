"""What runs the units of work, and adds up their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ._work import Merge, Work


class Engine(Protocol):
    """Runs ``work(shared, unit)`` for all units, in any order and as often as it must, and adds up the
    results."""

    @property
    def threads(self) -> int | None:
        """Threads that a unit may use; ``None`` for all."""
        ...

    def reduce(self, name: str, shared: Any, units: Sequence[Any], work: Work, merge: Merge) -> bytes:
        """All results together."""
        ...


class Here:
    """This process."""

    threads = None

    def reduce(self, name: str, shared: Any, units: Sequence[Any], work: Work, merge: Merge) -> bytes:
        """One unit after the other."""
        total: bytes | None = None
        for unit in units:
            own = work(shared, unit)
            total = own if total is None else merge(shared, [total, own])
        return merge(shared, [] if total is None else [total])


def engine_of(given: Any) -> Engine:
    """The engine that a client or a session stands for."""
    if given is None:
        return Here()
    module = type(given).__module__.split(".")[0]
    if module == "distributed":
        from ._dask import Dask

        return Dask(given)
    if module == "pyspark":
        from ._spark import Spark

        return Spark(given)
    if hasattr(given, "reduce") and hasattr(given, "threads"):
        return given
    raise TypeError(
        f"engine is a {type(given).__name__}: give None, a dask.distributed.Client or a "
        "pyspark.sql.SparkSession"
    )
