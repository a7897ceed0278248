"""Units of work as tasks of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._work import Merge, Work


class Spark:
    """An engine for the cluster of a ``pyspark.sql.SparkSession``. riesz must be installed on its
    executors."""

    #: An executor runs one task per core.
    n_jobs = 1

    def __init__(self, session: Any) -> None:
        self._context = session.sparkContext

    def reduce(self, name: str, shared: Any, units: Sequence[Any], work: Work, merge: Merge) -> bytes:
        """Runs one task per unit, and merges results in a tree."""
        common = self._context.broadcast(shared)
        tasks = self._context.parallelize(list(units), max(len(units), 1))
        results = tasks.map(lambda unit: bytes(work(common.value, unit)))
        try:
            return merge(
                shared, [results.treeReduce(lambda a, b: bytes(merge(common.value, [a, b])), depth=2)]
            )
        finally:
            common.unpersist()
