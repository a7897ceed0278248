"""Engines, which run units of work and add up their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ._work import Merge, Work


class Engine(Protocol):
    """Runs ``work(shared, unit)`` for all units, in any order and possibly repeatedly, and adds up the
    results."""

    @property
    def n_jobs(self) -> int | None:
        """Number of threads that a unit may use; ``None`` for all."""
        ...

    def reduce(self, name: str, shared: Any, units: Sequence[Any], work: Work, merge: Merge) -> bytes:
        """Returns the merged results of all units."""
        ...


class LocalEngine:
    """An engine that runs in this process."""

    n_jobs = None

    def reduce(self, name: str, shared: Any, units: Sequence[Any], work: Work, merge: Merge) -> bytes:
        """Runs one unit after the other."""
        total: bytes | None = None
        for unit in units:
            result = work(shared, unit)
            total = result if total is None else merge(shared, [total, result])
        return merge(shared, [] if total is None else [total])


def engine_of(engine: Any) -> Engine:
    """Returns the engine for a client or a session."""
    if engine is None:
        return LocalEngine()
    module = type(engine).__module__.split(".")[0]
    if module == "distributed":
        from ._dask import Dask

        return Dask(engine)
    if module == "pyspark":
        from ._spark import Spark

        return Spark(engine)
    if hasattr(engine, "reduce") and hasattr(engine, "n_jobs"):
        return engine
    raise TypeError(
        f"engine is a {type(engine).__name__}: give None, a dask.distributed.Client or a "
        "pyspark.sql.SparkSession"
    )
