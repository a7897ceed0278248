"""Units of work as tasks of Spark. No formula is here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._work import Merge, Work


class Spark:
    """A ``pyspark.sql.SparkSession``'s cluster. riesz must be installed where its executors run."""

    #: Executors run as many tasks at a time as they have cores.
    threads = 1

    def __init__(self, session: Any) -> None:
        self._context = session.sparkContext

    def reduce(self, name: str, shared: Any, units: Sequence[Any], work: Work, merge: Merge) -> bytes:
        """A task a unit, and a tree of sums."""
        common = self._context.broadcast(shared)
        tasks = self._context.parallelize(list(units), max(len(units), 1))
        results = tasks.map(lambda unit: bytes(work(common.value, unit)))
        try:
            return merge(
                shared, [results.treeReduce(lambda a, b: bytes(merge(common.value, [a, b])), depth=2)]
            )
        finally:
            common.unpersist()
