"""Imported models: expansions, the transforms of the user's columns, their sums, and the comparison with the
model's own predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from .. import _core
from .._core import UnsupportedModelError
from .._data.validation import as_cells, names_of, numbered
from ..kernels import Kernel
from .expansion import Expansion

#: Number of rows at which expansions are compared with their model.
CHECKED = 16

#: Maximum size of sparse support vectors that are converted to dense ones, in numbers.
MOST_NUMBERS = 100_000_000

#: The largest difference between a model's prediction and that of its expansions, relative to their size: see
#: :func:`compare`.
TOLERANCE = 1e-6

#: The same tolerance for rows or parameters in single precision.
SINGLE_TOLERANCE = 5e-3

#: The user's column, or columns, from which a column of an expansion is computed.
Owner = int | tuple[int, ...]

#: A function from the user's rows to an expansion's rows; ``None`` if they are the same.
Transform = Callable[[Any], np.ndarray] | None


@dataclass(frozen=True)
class Part:
    """An expansion over columns that are computed from the user's columns."""

    expansion: Expansion
    #: The user's column, or columns, from which each of the expansion's columns is computed.
    owners: Sequence[Owner]
    transform: Transform = None
    #: Whether its support points are rows, which a game may use as background.
    has_rows: bool = True
    #: Facts from the model card.
    card: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def from_expansion(cls, expansion: Expansion, has_rows: bool = True) -> Part:
        """Returns a part for an expansion over the user's columns."""
        return cls(expansion, list(range(len(expansion.feature_names))), None, has_rows, expansion._core.card)


#: Parts that are added up.
Block = list[Part]


@dataclass
class Imported:
    """A model as a list of blocks of outputs; each block is a sum of expansions."""

    #: The blocks; empty if the model cannot be read.
    blocks: list[Block]
    #: Description of the outputs, for display.
    explained: str
    #: Names of the user's columns.
    feature_names: list[str]
    #: Kind of model.
    kind: str
    #: The names of the outputs.
    output_names: list[str]
    #: The model's own outputs at rows in the user's columns, (n,) or (n, outputs), for estimates; ``None`` if
    #: there is no such function.
    function: Callable[[Any], Any] | None = None
    #: The reason why the model cannot be read as expansions.
    refusal: UnsupportedModelError | None = None
    #: Whether the blocks still have to be compared with ``function``.
    needs_comparison: bool = False
    #: Rows in the user's columns for this comparison if there is no background; ``None`` if there are none.
    rows: np.ndarray | None = None
    #: Tolerance of the relative difference.
    tolerance: float = TOLERANCE
    #: Whether differences are relative to each prediction, as for products, instead of the largest one.
    is_product: bool = False
    #: Bound on the rounding error of the model's own kernel values.
    rounding: float = 0.0
    #: Whether the model's prediction is user code, which may do more than riesz read. If it differs from the
    #: expansions, such a model is estimated, and other models are refused.
    may_be_user_code: bool = False
    #: Bound on the error of values from what the expansions leave out, one number per output; ``None`` if
    #: nothing is left out.
    left_out: np.ndarray | None = None
    #: The weights and parts of a mixture of models, if the only block is their mean.
    mixture: list[tuple[float, Part]] | None = None

    @property
    def parts(self) -> list[Part]:
        """The parts of all blocks."""
        return [part for block in self.blocks for part in block]

    @property
    def is_sum(self) -> bool:
        """Whether some output is a sum of several expansions, or a mixture."""
        return self.mixture is not None or any(len(block) > 1 for block in self.blocks)

    @property
    def has_probabilities(self) -> bool:
        """Whether the model is one expansion with class probabilities."""
        return len(self.parts) == 1 and self.parts[0].expansion._core.has_probabilities

    def readable(self) -> list[Block]:
        """Returns the blocks; raises :class:`UnsupportedModelError` if the model cannot be read."""
        if self.refusal is not None:
            raise self.refusal
        return self.blocks


@dataclass
class Read:
    """The outputs of a fitted model, as a function and as expansions."""

    #: Description of the outputs, for display.
    explained: str
    output_names: list[str]
    #: The outputs at rows, (n,) or (n, outputs).
    function: Callable[[Any], Any]
    #: Returns the outputs as expansions; raises :class:`UnsupportedModelError` if there are none.
    expansions: Callable[[], list[Expansion]]
    #: Whether the expansions' support points are rows.
    has_rows: bool = True
    #: The outputs as sums of those of one expansion, (its outputs, outputs); ``None`` for the identity.
    weights: np.ndarray | None = None
    #: The user's column from which each of the expansions' columns is computed, and the transform; ``None``
    #: if the columns are the same.
    computed_columns: tuple[list[int], Transform] | None = None
    #: Rows in the user's columns for the comparison without a background; ``None`` uses shifted support
    #: points.
    rows: np.ndarray | None = None
    #: Whether differences are relative to each output.
    is_product: bool = False
    #: Bound on the rounding error of the model's own kernel values.
    rounding: float = 0.0

    def blocks(self) -> list[Block]:
        """Returns the expansions over the user's columns."""
        parts = [Part.from_expansion(expansion, self.has_rows) for expansion in self.expansions()]
        if self.computed_columns is not None:
            parts = [
                replace(part, owners=self.computed_columns[0], transform=self.computed_columns[1])
                for part in parts
            ]
        if self.weights is not None:
            parts = [
                mapped(part, self.weights, np.zeros(len(self.output_names)), self.output_names)
                for part in parts
            ]
        return [[part] for part in parts]


def imported_of(model: Any, read: Read, names: list[str]) -> Imported:
    """Returns a model over columns with these names, as expansions or with the reason why it has none."""
    blocks, refusal, rows = [], None, read.rows
    try:
        blocks = read.blocks()
    except UnsupportedModelError as error:
        refusal = error
    if rows is None and blocks and read.computed_columns is None and read.has_rows:
        rows = shifted_rows(blocks[0][0].expansion.points)
    return Imported(
        blocks,
        read.explained,
        names,
        type(model).__name__,
        read.output_names,
        read.function,
        refusal,
        needs_comparison=True,
        rows=rows,
        is_product=read.is_product,
        rounding=read.rounding,
    )


def with_class_sums(pairs: Read, classes: Sequence[str]) -> Read:
    """Returns the one-vs-one decision functions of three or more classes (positive for the first class of a
    pair), and for each class the signed sum of those of its pairs. scikit-learn's one-vs-rest decision
    function is the votes plus a squashed sum, which is no expansion."""
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
    """Returns the column names of a fitted scikit-learn model with ``width`` columns."""
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
    """Returns an expansion whose columns are the user's, or have these names."""
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


def shifted_rows(points: np.ndarray) -> np.ndarray:
    """Returns some of the points, shifted by a tenth of a standard deviation. At the points themselves a
    model may only reproduce the training targets."""
    if not len(points):
        return np.zeros((1, points.shape[1]))
    return evenly_spaced_rows(points) + 0.1 * points.std(axis=0)


def evenly_spaced_rows(X: Any) -> Any:
    """Returns at most :data:`CHECKED` rows, evenly spaced over ``X``, in the same form."""
    count = X.shape[0] if hasattr(X, "shape") else len(X)
    selection = slice(0, count, max(1, -(-count // CHECKED)))
    if hasattr(X, "iloc"):
        # Select rows by position, whatever their labels.
        return X.iloc[selection]
    return X.tocsr()[selection] if hasattr(X, "tocsr") else X[selection]


def compare(imported: Imported, X: Any, rows: Sequence[np.ndarray]) -> UnsupportedModelError | None:
    """Compares the model's own outputs at the rows of ``X`` with the sums of its expansions.

    Parameters
    ----------
    X
        Rows in the user's form.
    rows
        The rows of ``X`` in the columns of each part.

    Returns
    -------
    UnsupportedModelError or None
        The error to raise if a prediction differs by more than ``imported.tolerance``
        (:data:`SINGLE_TOLERANCE` for rows in single precision) times the size of the largest prediction. Sums
        of large terms lose digits, so these are added to this size: 1e-4 of the sum of the absolute dual
        coefficients, and 1e-7 of their sum times the kernel. ``imported.rounding`` times the sum of the
        absolute coefficients is added to the allowed difference.
    """
    assert imported.function is not None
    # The model's own sums may lose digits for rows in single precision.
    rows_in_double = (
        np.asarray(X, dtype=np.float64) if isinstance(X, np.ndarray) and X.dtype.kind == "f" else X
    )
    with warnings.catch_warnings(), np.errstate(over="ignore"):
        # The model may have been fitted with or without column names.
        warnings.filterwarnings("ignore", "X (does not have|has) (valid )?feature names")
        expected = np.asarray(imported.function(rows_in_double), dtype=np.float64)
    expected = expected.reshape(len(expected), -1)
    predictions = iter(
        [part.expansion._core.predict(part_rows) for part, part_rows in zip(imported.parts, rows)]
    )
    actual = np.hstack([sum(next(predictions) for _ in block) for block in imported.blocks])
    # Numbers below the smallest normal number lose digits.
    size: Any = np.abs(expected) + 1e-290
    if not imported.is_product:
        coefficients = sum(np.abs(part.expansion.coef).sum() for part in imported.parts)
        terms = sum(
            np.abs(_absolute_sum(part.expansion._core, part_rows)).max()
            for part, part_rows in zip(imported.parts, rows)
        )
        lost_digits = (
            1e-4 * coefficients + 1e-7 * terms + imported.rounding / imported.tolerance * coefficients
        )
        size = size.max(initial=0.0) + lost_digits
    is_single = any(str(kind) in ("float32", "Float32") for kind in getattr(rows_in_double, "dtypes", []))
    tolerance = max(imported.tolerance, SINGLE_TOLERANCE) if is_single else imported.tolerance
    with np.errstate(invalid="ignore"):
        # Equal infinities count as equal.
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
    """Returns an expansion's sums with absolute coefficients, without the intercept, at ``rows``."""
    points, coef = (core.feature_names, core.levels, core.points), np.abs(core.coef)
    return _core.Expansion(core.kernel, points, coef, [0.0] * coef.shape[1], core.output_names).predict(rows)


def outputs_of(blocks: Sequence[Block]) -> int:
    """Returns the number of outputs of some blocks."""
    return sum(len(block[0].expansion.output_names) for block in blocks)


def mapped(part: Part, weights: np.ndarray, shift: np.ndarray, names: Sequence[str]) -> Part:
    """Returns ``part`` with its outputs times ``weights`` (its outputs × names) plus ``shift``."""
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
    """Returns as one block the sum of members, each its outputs times its weights (its outputs × names), plus
    ``shift``."""
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
    parts_by_kernel: dict[Any, list[Part]] = {}
    for part in parts:
        core = part.expansion._core
        parts_by_kernel.setdefault(
            (core.kernel, part.transform, *part.owners, *core.feature_names, str(core.levels)), []
        ).append(part)
    first, *further = [_joined(group, names) for group in parts_by_kernel.values()]
    return [mapped(first, np.eye(len(names)), np.broadcast_to(shift, zero.shape), names), *further]


def _joined(parts: list[Part], names: Sequence[str]) -> Part:
    """Returns the sum of parts with one kernel over the same columns as one part: a sum of kernel machines
    with the same kernel is a kernel machine."""
    if len(parts) == 1:
        return parts[0]
    cores = [part.expansion._core for part in parts]
    # Members often have the same support points.
    points, point_numbers = np.unique(
        np.concatenate([core.points for core in cores]), axis=0, return_inverse=True
    )
    coef = np.zeros((len(points), len(names)))
    np.add.at(coef, point_numbers.ravel(), np.concatenate([core.coef for core in cores]))
    intercept = np.sum([core.intercept for core in cores], axis=0).tolist()
    rows = cores[0].feature_names, cores[0].levels, points
    summed = _core.Expansion(cores[0].kernel, rows, coef, intercept, list(names))
    return replace(parts[0], expansion=Expansion._wrap(summed), card=summed.card)


def card_of(parts: Sequence[Part]) -> dict[str, str]:
    """Returns the facts of these parts; if they differ, the first one and their number."""
    values_of_fact: dict[str, dict[str, None]] = {}
    for part in parts:
        for name, value in part.card:
            values_of_fact.setdefault(name, {})[value] = None
    summary = lambda values: (
        values[0] if len(values) == 1 else f"{values[0]}, … ({len(values)} different ones)"
    )
    return {name: summary(list(values)) for name, values in values_of_fact.items()}


def user_names(X: Any, imported: Imported) -> list[str]:
    """Returns the names of the user's columns: the model's, or the data frame's if the model has no names."""
    frame_names = names_of(X)
    has_default_names = imported.feature_names == numbered(len(imported.feature_names))
    return (
        frame_names
        if frame_names is not None and has_default_names and len(frame_names) == len(imported.feature_names)
        else imported.feature_names
    )
