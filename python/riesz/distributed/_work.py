"""The types of functions that an engine runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

#: Functions of shared data and a unit, and of shared data and results to merge.
Work = Callable[[Any, Any], bytes]
Merge = Callable[[Any, Sequence[bytes]], bytes]

#: Number of results that are merged at a time.
FAN_IN = 8
