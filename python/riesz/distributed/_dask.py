"""Units of work as tasks of Dask."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from ._work import FAN_IN, Merge, Work

#: Number of worker deaths that a task survives; each counts for all tasks that the worker held.
DEATHS = 20


def _identity(value: Any) -> Any:
    return value


def _merged(merge: Merge, shared: Any, *parts: bytes) -> bytes:
    return merge(shared, parts)


def _allow_failures(dask_scheduler: Any) -> None:
    dask_scheduler.allowed_failures = max(dask_scheduler.allowed_failures, DEATHS)


class Dask:
    """An engine for the cluster of a ``dask.distributed.Client``."""

    #: A worker runs one task per thread.
    n_jobs = 1

    def __init__(self, client: Any) -> None:
        self._client = client
        client.run_on_scheduler(_allow_failures)

    def reduce(self, name: str, shared: Any, units: Sequence[Any], work: Work, merge: Merge) -> bytes:
        """Runs one task per unit, and merges results in a tree."""
        client, run = self._client, f"riesz-{name}-{uuid.uuid4().hex[:12]}"
        # Results of tasks are recomputed when a worker dies, whereas scattered data are lost. Each worker has
        # its own copy, because Dask places tasks where their inputs are.
        first = client.submit(_identity, shared, key=f"{run}-shared", pure=False)
        shared_copies = [
            client.submit(
                _identity,
                first,
                key=f"{run}-shared-{k}",
                workers=[worker],
                allow_other_workers=True,
                pure=False,
            )
            for k, worker in enumerate(client.scheduler_info(n_workers=-1)["workers"])
        ] or [first]
        level = [
            client.submit(
                work, shared_copies[k % len(shared_copies)], unit, key=f"{run}-{k}", retries=3, pure=False
            )
            for k, unit in enumerate(units)
        ]
        depth = 0
        while len(level) > 1 or depth == 0:
            depth += 1
            parts = [level[k : k + FAN_IN] for k in range(0, len(level), FAN_IN)]
            level = [
                client.submit(
                    _merged,
                    merge,
                    shared_copies[k % len(shared_copies)],
                    *part,
                    key=f"{run}-sum{depth}-{k}",
                    retries=3,
                    pure=False,
                )
                for k, part in enumerate(parts)
            ]
        return level[0].result()
