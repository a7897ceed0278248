"""Models as they are read: expansions, how the user's columns become theirs, and how they add up."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from . import _core
from ._core import UnsupportedModelError
from ._data import as_cells, names_of, numbered
from ._expansion import Expansion
from .kernels import Kernel

#: Rows at which an expansion, or a sum of expansions, is compared with its model.
CHECKED = 16

#: From the user's rows to an expansion's; ``None`` if they are the same.
Transform = Callable[[Any], np.ndarray] | None


@dataclass(frozen=True)
class Part:
    """An expansion over columns that are made of the user's."""

    expansion: Expansion
    #: The user's column that each of the expansion's columns comes from.
    owners: list[int]
    transform: Transform = None
    #: Whether its points are rows, which a game may take for a background.
    has_rows: bool = True
    #: Facts about the expansion as it was read.
    card: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def whole(cls, expansion: Expansion, has_rows: bool = True) -> Part:
        """An expansion over the user's own columns."""
        return cls(expansion, list(range(len(expansion.feature_names))), None, has_rows, expansion._core.card)


#: Parts that add up.
Block = list[Part]


@dataclass
class Imported:
    """A model as blocks of outputs beside each other, each a sum of expansions."""

    #: Empty if the model cannot be read.
    blocks: list[Block]
    #: What the outputs are, for people.
    explained: str
    #: The user's columns.
    feature_names: list[str]
    #: Kind of model.
    kind: str
    #: The names of the outputs.
    output_names: list[str]
    #: The model's own outputs at rows in the user's columns, (n,) or (n, outputs), for estimates; ``None`` if it has none.
    function: Callable[[Any], Any] | None = None
    #: Why the model cannot be read as expansions.
    refusal: UnsupportedModelError | None = None
    #: Whether the blocks still have to be compared with ``function``.
    unchecked: bool = False
    #: Models of which each is the right one with a probability, if the only block is their mean.
    mixture: list[tuple[float, Part]] | None = None

    @property
    def parts(self) -> list[Part]:
        """All parts of all blocks."""
        return [part for block in self.blocks for part in block]

    @property
    def is_sum(self) -> bool:
        """Whether some output is a sum of several expansions."""
        return self.mixture is not None or any(len(block) > 1 for block in self.blocks)

    @property
    def has_probabilities(self) -> bool:
        """Whether the outputs are those of one expansion that makes probabilities of them."""
        return len(self.parts) == 1 and self.parts[0].expansion._core.has_probabilities

    def readable(self) -> list[Block]:
        """The blocks; raises :class:`UnsupportedModelError` if the model cannot be read."""
        if self.refusal is not None:
            raise self.refusal
        return self.blocks


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
    #: Whether the expansions' points are rows.
    has_rows: bool = True
    #: The outputs as sums of those of one expansion, (its outputs, outputs); ``None`` if they are the same.
    weights: np.ndarray | None = None
    #: The user's column that each of the expansions' columns comes from, and how; ``None`` if they are the same.
    made: tuple[list[int], Transform] | None = None

    def blocks(self) -> list[Block]:
        """The expansions, over the user's own columns."""
        parts = [Part.whole(expansion, self.has_rows) for expansion in self.expansions()]
        if self.made is not None:
            parts = [replace(part, owners=self.made[0], transform=self.made[1]) for part in parts]
        if self.weights is not None:
            parts = [mapped(part, self.weights, np.zeros(len(self.output_names)), self.output_names) for part in parts]
        return [[part] for part in parts]


def with_class_sums(pairs: Read, classes: Sequence[str]) -> Read:
    """The decision functions of all pairs of three classes or more (positive for the first), and beside them each class's sum of
    those that it is in. scikit-learn's one-vs-rest decision function is votes and a squashed sum, and so it is no expansion."""
    sums = np.zeros((len(pairs.output_names), len(classes)))
    for pair, (i, j) in enumerate(combinations(range(len(classes)), 2)):
        sums[pair, i], sums[pair, j] = 1.0, -1.0
    weights = np.hstack([np.eye(len(sums)), sums])
    told = ", and each class's sum of those that it is in, which ranks classes that win as many pairs"
    function = lambda rows: pairs.function(rows) @ weights
    names = [*pairs.output_names, *classes]
    return replace(pairs, explained=pairs.explained + told, output_names=names, function=function, weights=weights)


def names_in(model: Any, width: int) -> list[str]:
    """The names of so many columns that a model of scikit-learn was fitted on."""
    names = getattr(model, "feature_names_in_", None)
    return numbered(width) if names is None else [str(name) for name in names]


def expansion_of(
    model: Any,
    kernel: Kernel,
    points: Any,
    coef: Any,
    intercept: Any,
    outputs: list[str],
    own: Any,
    at: Any = None,
    names: list[str] | None = None,
    made: Any = None,
    sizes: Callable[[np.ndarray], Any] | None = None,
) -> Expansion:
    """An expansion that agrees with ``own``, the model's own output, at some rows, by default support points. If its columns are
    not the user's they have these names and are ``made`` of them. They agree relative to ``sizes`` of what the model says, by
    default one for all, as sums are off by as much where they are small."""
    points = as_cells(points).astype(np.float64)
    names = names_in(model, points.shape[1]) if names is None else names
    try:
        expansion = Expansion(kernel, points, coef, intercept, feature_names=names, output_names=outputs)
    except ValueError as error:
        raise UnsupportedModelError(f"the {type(model).__name__} cannot be read: {error}") from None
    rows = points if at is None else at
    rows = rows[:: max(1, len(rows) // CHECKED)][:CHECKED] if len(rows) else np.zeros((1, points.shape[1]))
    with warnings.catch_warnings():
        # Support points have lost the names of the data frame that the model may have been fitted on.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        expected = np.asarray(own(rows), dtype=np.float64).reshape(len(rows), -1)
    found = expansion._core.predict(rows if made is None else made(rows))
    size = sizes(expected) if sizes else 1 + np.abs(expected).max() + np.abs(np.asarray(coef)).sum() * 1e-4
    if found.shape != expected.shape or not np.all(np.abs(found - expected) <= 1e-6 * size):
        raise UnsupportedModelError(
            f"the {type(model).__name__} does not predict what its kernel and coefficients say, so it would be another "
            "model that is explained: it may have been changed after it was fitted"
        )
    return expansion


def outputs_of(blocks: Sequence[Block]) -> int:
    """How many outputs blocks have."""
    return sum(len(block[0].expansion.output_names) for block in blocks)


def mapped(part: Part, weights: np.ndarray, shift: np.ndarray, names: Sequence[str]) -> Part:
    """The outputs of ``part`` times ``weights`` (its outputs × names) plus ``shift``."""
    core = part.expansion._core
    coef, intercept = np.ascontiguousarray(core.coef @ weights), np.asarray(core.intercept) @ weights + shift
    points = core.feature_names, core.levels, core.points
    sums = _core.Expansion(core.kernel, points, coef, intercept.tolist(), list(names))
    expansion = Expansion._wrap(sums.with_refits_of(core, np.ascontiguousarray(weights, dtype=np.float64)))
    posterior = part.expansion._posterior
    if posterior is not None and np.array_equal(weights, np.diag(np.diag(weights))):
        sizes = np.abs(np.diag(weights))

        def scaled() -> tuple[np.ndarray, list[float] | None, list[float]]:
            factor, own, scale = posterior()
            return factor, own, (np.asarray(scale) * sizes).tolist()

        expansion._posterior = scaled
    return replace(part, expansion=expansion)


def weighted_sum(members: Sequence[tuple[list[Block], np.ndarray]], shift: Any, names: Sequence[str]) -> Block:
    """The sum of members, each its outputs times weights (its outputs × names), plus ``shift``, as one block."""
    zero, parts = np.zeros(len(names)), []
    for blocks, weights in members:
        if outputs_of(blocks) != len(weights):
            raise UnsupportedModelError(f"a member has {outputs_of(blocks)} outputs where {len(weights)} are added up")
        at = 0
        for block in blocks:
            own = weights[at : (at := at + outputs_of([block]))]
            parts += [mapped(part, own, zero, names) for part in block]
    alike: dict[Any, list[Part]] = {}
    for part in parts:
        core = part.expansion._core
        alike.setdefault((core.kernel, part.transform, *part.owners, *core.feature_names, str(core.levels)), []).append(part)
    first, *others = [_joined(same, names) for same in alike.values()]
    return [mapped(first, np.eye(len(names)), np.broadcast_to(shift, zero.shape), names), *others]


def _joined(parts: list[Part], names: Sequence[str]) -> Part:
    """The sum of parts that have one kernel over the same columns, as one: sums of kernel machines are kernel machines."""
    if len(parts) == 1:
        return parts[0]
    cores = [part.expansion._core for part in parts]
    # Members often share rows.
    points, place = np.unique(np.concatenate([core.points for core in cores]), axis=0, return_inverse=True)
    coef = np.zeros((len(points), len(names)))
    np.add.at(coef, place.ravel(), np.concatenate([core.coef for core in cores]))
    intercept = np.sum([core.intercept for core in cores], axis=0).tolist()
    rows = cores[0].feature_names, cores[0].levels, points
    made = _core.Expansion(cores[0].kernel, rows, coef, intercept, list(names))
    return replace(parts[0], expansion=Expansion._wrap(made), card=made.card)


def card_of(parts: Sequence[Part]) -> dict[str, str]:
    """Facts about a model of these parts; where they differ, the first one's and how many there are."""
    found: dict[str, dict[str, None]] = {}
    for part in parts:
        for name, value in part.card:
            found.setdefault(name, {})[value] = None
    said = lambda values: values[0] if len(values) == 1 else f"{values[0]}, … ({len(values)} different ones)"
    return {name: said(list(values)) for name, values in found.items()}


def check_sum(imported: Imported, X: Any, predictions: np.ndarray) -> None:
    """Refuses a sum of expansions that is not what the model itself says of the rows of ``X``, at some of them; once."""
    if not imported.unchecked or not len(predictions) or imported.function is None:
        return
    rows = X[:CHECKED]
    with warnings.catch_warnings():
        # Members have been fitted on the columns of the data frame or on plain ones, whatever the user's rows are.
        warnings.filterwarnings("ignore", "X (does not have|has) (valid )?feature names")
        expected = np.asarray(imported.function(rows), dtype=np.float64)
    expected, found = expected.reshape(len(expected), -1), predictions[:CHECKED]
    size = 1 + np.abs(expected).max() + sum(np.abs(part.expansion.coef).sum() for part in imported.parts) * 1e-4
    if found.shape != expected.shape or not np.abs(found - expected).max() <= 1e-6 * size:
        raise UnsupportedModelError(
            f"the {imported.kind} does not predict what its members say, so it would be another model that is explained: it may "
            "have been changed after it was fitted"
        )
    imported.unchecked = False


def user_names(X: Any, imported: Imported) -> list[str]:
    """The names of the user's columns: the model's, or the data frame's if the model was fitted without names."""
    given = names_of(X)
    unnamed = imported.feature_names == numbered(len(imported.feature_names))
    return given if given is not None and unnamed and len(given) == len(imported.feature_names) else imported.feature_names
