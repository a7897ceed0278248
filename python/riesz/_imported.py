"""Models as they are read: expansions, and how the user's columns become theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._core import UnsupportedModelError
from ._data import names_of, numbered
from ._expansion import Expansion


@dataclass
class Imported:
    """Expansions over the model's own columns, and how the user's columns become these."""

    #: Empty if the model cannot be read.
    expansions: list[Expansion]
    #: What the outputs are, for people.
    explained: str
    #: The user's columns.
    feature_names: list[str]
    #: The user's column that each of the model's columns comes from.
    owners: list[int]
    #: From the user's rows to the model's; ``None`` if they are the same.
    transform: Callable[[Any], np.ndarray] | None
    #: Kind of model.
    kind: str
    #: The names of the outputs.
    output_names: list[str]
    #: The model's own outputs at rows in the user's columns, (n,) or (n, outputs), for estimates; ``None`` if it has none.
    function: Callable[[Any], Any] | None = None
    #: Why the model cannot be read as expansions.
    refusal: UnsupportedModelError | None = None


@dataclass
class Read:
    """What a fitted model computes."""

    #: What the outputs are, for people.
    explained: str
    output_names: list[str]
    #: The outputs at rows, (n,) or (n, outputs).
    function: Callable[[Any], Any]
    #: The same as expansions; raises :class:`UnsupportedModelError` where there are none.
    expansions: Callable[[], list[Expansion]]


def user_names(X: Any, imported: Imported) -> list[str]:
    """The names of the user's columns: the model's, or the data frame's if the model was fitted without names."""
    given = names_of(X)
    unnamed = imported.feature_names == numbered(len(imported.feature_names))
    return given if given is not None and unnamed and len(given) == len(imported.feature_names) else imported.feature_names
