"""Models as they are read: expansions, how the user's columns become theirs, how they add up, and whether
they are the model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from . import _core
from ._core import UnsupportedModelError
from ._expansion import Expansion
from ._validation import as_cells, names_of, numbered
from .kernels import Kernel

#: Rows at which expansions are compared with their model.
CHECKED = 16

#: Numbers that sparse support vectors are written out to.
MOST_NUMBERS = 100_000_000

#: The largest difference between a model's prediction and that of its expansions, relative to their size: see
#: :func:`compare`.
TOLERANCE = 1e-6

#: The same where rows or parameters are in single precision.
SINGLE_TOLERANCE = 5e-3

#: The user's column that a column of an expansion is made of, or the columns.
Owner = int | tuple[int, ...]

#: From the user's rows to an expansion's; ``None`` if they are the same.
Transform = Callable[[Any], np.ndarray] | None


@dataclass(frozen=True)
class Part:
    """An expansion over columns that are made of the user's."""

    expansion: Expansion
    #: The user's column, or columns, that each of the expansion's columns comes from.
    owners: Sequence[Owner]
    transform: Transform = None
    #: Whether its points are rows, which a game may take for a background.
    has_rows: bool = True
    #: Facts about the expansion as it was read.
    card: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def from_expansion(cls, expansion: Expansion, has_rows: bool = True) -> Part:
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
    #: The model's own outputs at rows in the user's columns, (n,) or (n, outputs), for estimates; ``None`` if
    #: it has none.
    function: Callable[[Any], Any] | None = None
    #: Why the model cannot be read as expansions.
    refusal: UnsupportedModelError | None = None
    #: Whether the blocks still have to be compared with ``function``.
    unchecked: bool = False
    #: Rows in the user's columns at which they are compared where there is no background; ``None`` if there
    #: are none.
    rows: np.ndarray | None = None
    #: The largest relative difference.
    tolerance: float = TOLERANCE
    #: Whether differences are relative to each prediction alone, as those of products are, and not to the
    #: largest one.
    is_product: bool = False
    #: How far the model's own kernel values may be off by rounding.
    rounding: float = 0.0
    #: Whether the model's prediction is its user's code, which may do more than what was read. Then the model
    #: is estimated, and otherwise a model that differs from its expansions is refused.
    may_do_more: bool = False
    #: How far values may be from the model's by what its expansions leave out, one number an output; ``None``
    #: if nothing is.
    left_out: np.ndarray | None = None
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
    """The quantity that a fitted model computes."""

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
    #: The user's column that each of the expansions' columns comes from, and how; ``None`` if they are the
    #: same.
    made: tuple[list[int], Transform] | None = None
    #: Rows in the user's columns at which the two are compared without a background; ``None`` for moved
    #: support points.
    rows: np.ndarray | None = None
    #: Whether differences are relative to each output alone.
    is_product: bool = False
    #: How far the model's own kernel values may be off by rounding.
    rounding: float = 0.0

    def blocks(self) -> list[Block]:
        """The expansions, over the user's own columns."""
        parts = [Part.from_expansion(expansion, self.has_rows) for expansion in self.expansions()]
        if self.made is not None:
            parts = [replace(part, owners=self.made[0], transform=self.made[1]) for part in parts]
        if self.weights is not None:
            parts = [
                mapped(part, self.weights, np.zeros(len(self.output_names)), self.output_names)
                for part in parts
            ]
        return [[part] for part in parts]


def imported_of(model: Any, read: Read, names: list[str]) -> Imported:
    """A model over columns with these names, as expansions or with the reason why there are none."""
    blocks, refusal, rows = [], None, read.rows
    try:
        blocks = read.blocks()
    except UnsupportedModelError as error:
        refusal = error
    if rows is None and blocks and read.made is None and read.has_rows:
        rows = moved_rows(blocks[0][0].expansion.points)
    return Imported(
        blocks,
        read.explained,
        names,
        type(model).__name__,
        read.output_names,
        read.function,
        refusal,
        unchecked=True,
        rows=rows,
        is_product=read.is_product,
        rounding=read.rounding,
    )


def with_class_sums(pairs: Read, classes: Sequence[str]) -> Read:
    """The decision functions of all pairs of three classes or more (positive for the first), and beside them
    each class's sum of those that it is in. scikit-learn's one-vs-rest decision function is votes and a
    squashed sum, and so it is no expansion."""
    sums = np.zeros((len(pairs.output_names), len(classes)))
    for pair, (i, j) in enumerate(combinations(range(len(classes)), 2)):
        sums[pair, i], sums[pair, j] = 1.0, -1.0
    weights = np.hstack([np.eye(len(sums)), sums])
    description = ", and each class's sum of those that it is in, which ranks classes that win as many pairs"
    function = lambda rows: pairs.function(rows) @ weights
    names = [*pairs.output_names, *classes]
    return replace(
        pairs, explained=pairs.explained + description, output_names=names, function=function, weights=weights
    )


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
    names: list[str] | None = None,
) -> Expansion:
    """An expansion whose columns are the user's, or have these names."""
    size = int(np.prod(points.shape)) if hasattr(points, "toarray") else 0
    if size > MOST_NUMBERS:
        raise UnsupportedModelError(
            f"the {type(model).__name__} has {points.shape[0]} support vectors of {points.shape[1]} columns, "
            "which would take "
            f"{size * 8 / 1e9:.1f} GB written out, and at most {MOST_NUMBERS * 8 / 1e9:.1f} GB are"
        )
    points = as_cells(points).astype(np.float64)
    names = names_in(model, points.shape[1]) if names is None else names
    try:
        return Expansion(kernel, points, coef, intercept, feature_names=names, output_names=outputs)
    except ValueError as error:
        raise UnsupportedModelError(f"the {type(model).__name__} cannot be read: {error}") from None


def moved_rows(points: np.ndarray) -> np.ndarray:
    """Some of the points, each a tenth of a standard deviation away: at the points themselves a model may
    only remember."""
    if not len(points):
        return np.zeros((1, points.shape[1]))
    return some_rows(points) + 0.1 * points.std(axis=0)


def some_rows(X: Any) -> Any:
    """Up to :data:`CHECKED` rows, spread over those of ``X``, in the same form."""
    count = X.shape[0] if hasattr(X, "shape") else len(X)
    places = slice(0, count, max(1, -(-count // CHECKED)))
    if hasattr(X, "iloc"):
        # Rows by their places, whatever their labels.
        return X.iloc[places]
    return X.tocsr()[places] if hasattr(X, "tocsr") else X[places]


def compare(imported: Imported, X: Any, rows: Sequence[np.ndarray]) -> UnsupportedModelError | None:
    """Compares what the model itself says of the rows of ``X`` with the sums of its expansions.

    Parameters
    ----------
    X
        Rows in the user's form.
    rows
        The same in the columns of each part.

    Returns
    -------
    UnsupportedModelError or None
        The error to raise where a prediction differs by more than
        ``imported.tolerance`` (:data:`SINGLE_TOLERANCE` for rows in single precision) of the largest
        prediction. As sums of large terms lose digits, 1e-4 of the sum of the absolute dual coefficients is
        added to it, and 1e-7 of their sum times the kernel; and to the difference ``imported.rounding`` of
        the sum of the absolute coefficients.
    """
    assert imported.function is not None
    # The model's own sums may lose digits in single precision, where rows are.
    plain = np.asarray(X, dtype=np.float64) if isinstance(X, np.ndarray) and X.dtype.kind == "f" else X
    with warnings.catch_warnings(), np.errstate(over="ignore"):
        # A model may have been fitted with the names of columns or without, whatever the user's rows are.
        warnings.filterwarnings("ignore", "X (does not have|has) (valid )?feature names")
        expected = np.asarray(imported.function(plain), dtype=np.float64)
    expected = expected.reshape(len(expected), -1)
    predictions = iter(
        [part.expansion._core.predict(part_rows) for part, part_rows in zip(imported.parts, rows)]
    )
    actual = np.hstack([sum(next(predictions) for _ in block) for block in imported.blocks])
    # Below the smallest normal number digits are lost.
    size: Any = np.abs(expected) + 1e-290
    if not imported.is_product:
        coefficients = sum(np.abs(part.expansion.coef).sum() for part in imported.parts)
        terms = sum(
            np.abs(_absolute_sum(part.expansion._core, part_rows)).max()
            for part, part_rows in zip(imported.parts, rows)
        )
        lost = 1e-4 * coefficients + 1e-7 * terms + imported.rounding / imported.tolerance * coefficients
        size = size.max(initial=0.0) + lost
    is_single = any(str(kind) in ("float32", "Float32") for kind in getattr(plain, "dtypes", []))
    tolerance = max(imported.tolerance, SINGLE_TOLERANCE) if is_single else imported.tolerance
    with np.errstate(invalid="ignore"):
        # What overflows on both sides is the same.
        agrees = actual.shape == expected.shape and np.all(
            (actual == expected) | (np.abs(actual - expected) <= tolerance * size)
        )
    if agrees:
        return None
    return UnsupportedModelError(
        f"the {imported.kind} does not predict what its kernel and coefficients say, so it would be another "
        "model that is "
        "explained: it may have been changed after it was fitted, or do more than riesz reads; its answers "
        "can be explained, "
        "riesz.Explainer(model.predict, background)"
    )


def _absolute_sum(core: _core.Expansion, rows: np.ndarray) -> np.ndarray:
    """The sums of an expansion with the absolute values of its coefficients, without the intercept."""
    points, coef = (core.feature_names, core.levels, core.points), np.abs(core.coef)
    return _core.Expansion(core.kernel, points, coef, [0.0] * coef.shape[1], core.output_names).predict(rows)


def outputs_of(blocks: Sequence[Block]) -> int:
    """The number of outputs of some blocks."""
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
            factor, weights_of_observations, scale = posterior()
            return factor, weights_of_observations, (np.asarray(scale) * sizes).tolist()

        expansion._posterior = scaled
    return replace(part, expansion=expansion)


def weighted_sum(
    members: Sequence[tuple[list[Block], np.ndarray]], shift: Any, names: Sequence[str]
) -> Block:
    """The sum of members, each its outputs times weights (its outputs × names), plus ``shift``, as one
    block."""
    zero, parts = np.zeros(len(names)), []
    for blocks, weights in members:
        if outputs_of(blocks) != len(weights):
            raise UnsupportedModelError(
                f"a member has {outputs_of(blocks)} outputs where {len(weights)} are added up"
            )
        offset = 0
        for block in blocks:
            member_weights = weights[offset : (offset := offset + outputs_of([block]))]
            parts += [mapped(part, member_weights, zero, names) for part in block]
    by_kernel: dict[Any, list[Part]] = {}
    for part in parts:
        core = part.expansion._core
        by_kernel.setdefault(
            (core.kernel, part.transform, *part.owners, *core.feature_names, str(core.levels)), []
        ).append(part)
    first, *further = [_joined(group, names) for group in by_kernel.values()]
    return [mapped(first, np.eye(len(names)), np.broadcast_to(shift, zero.shape), names), *further]


def _joined(parts: list[Part], names: Sequence[str]) -> Part:
    """The sum of parts that have one kernel over the same columns, as one: sums of kernel machines are kernel
    machines."""
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
    values_of_fact: dict[str, dict[str, None]] = {}
    for part in parts:
        for name, value in part.card:
            values_of_fact.setdefault(name, {})[value] = None
    summary = lambda values: (
        values[0] if len(values) == 1 else f"{values[0]}, … ({len(values)} different ones)"
    )
    return {name: summary(list(values)) for name, values in values_of_fact.items()}


def user_names(X: Any, imported: Imported) -> list[str]:
    """The names of the user's columns: the model's, or the data frame's if the model was fitted without
    names."""
    given_names = names_of(X)
    unnamed = imported.feature_names == numbered(len(imported.feature_names))
    return (
        given_names
        if given_names is not None and unnamed and len(given_names) == len(imported.feature_names)
        else imported.feature_names
    )
