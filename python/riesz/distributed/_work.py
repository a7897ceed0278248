"""The units of work that an engine runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

#: What is computed of a unit, and of results together. Both get what all have in common first.
Work = Callable[[Any, Any], bytes]
Merge = Callable[[Any, Sequence[bytes]], bytes]

#: Results that are added up at a time.
FAN_IN = 8
