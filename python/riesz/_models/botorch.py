"""Models of BoTorch: transforms of inputs and outcomes, and several outputs.

An input transform is treated like a step of a pipeline: each of its columns is owned by the user's columns
from which it is computed. An affine outcome transform changes the units of an expansion. Attributes are read
by name, so that BoTorch is not imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .._core import UnsupportedModelError
from .loading import Owner

#: Description of the outputs of a model of logarithms.
LOG_MEAN = (
    "posterior mean of the logarithm of the outcome (the outcome transform Log is not undone: of its "
    "exponential there are no "
    "exact values)"
)

#: The user's columns from which each column is computed.
Owners = list[tuple[int, ...]]


def single_outputs(model: Any) -> list[Any]:
    """Returns models that together equal ``model``: with one output each, unless outputs depend on each other
    or are members of one batch."""
    if hasattr(model, "models"):
        return [single for member in model.models for single in single_outputs(member)]
    count = getattr(model, "num_outputs", 1)
    if count == 1 or not hasattr(model, "subset_output") or _has_joint_outputs(model):
        return [model]
    try:
        return [model.subset_output([output]) for output in range(count)]
    except Exception as error:
        # Some models raise BoTorch's own errors, and some processes cannot be copied.
        raise UnsupportedModelError(
            f"the outputs of the {type(model).__name__} are no models of their own: {error}"
        ) from None


def _has_joint_outputs(model: Any) -> bool:
    """Whether the model has dependent tasks, or inducing points for several outputs."""
    names = {type(module).__name__ for module in model.modules()}
    return has_task_column(model) or bool(names & {"MultitaskKernel", "LCMKernel"}) or hasattr(model, "model")


def has_task_column(model: Any) -> bool:
    """Whether the model, or one in its list, takes rows with or without a column of tasks."""
    if hasattr(model, "models"):
        return any(has_task_column(member) for member in model.models)
    return hasattr(model, "num_non_task_features")


def is_ensemble(model: Any) -> bool:
    """Whether the model is a batch of models whose predictions are averaged."""
    return bool(getattr(model, "_is_ensemble", False))


# Inputs
# ------------------------------------------------------------------------------------------------------------


def input_owners(transform: Any, width: int) -> list[Owner]:
    """Returns the user's column, or columns, from which each column of a transform of ``width`` columns is
    computed."""
    transform_owners = _owners(transform, [(j,) for j in range(width)])
    return [
        column_owners[0] if len(column_owners) == 1 else column_owners for column_owners in transform_owners
    ]


def _owners(transform: Any, owners: Owners) -> Owners:
    if not transform.transform_on_eval:
        return owners
    # A subclass may do anything, so only BoTorch's own classes are known.
    is_botorch = type(transform).__module__.startswith("botorch.")
    transform_owners = _INPUTS.get(type(transform).__name__) if is_botorch else None
    if transform_owners is None:
        raise UnsupportedModelError(
            f"the input transform {type(transform).__name__} is not known to compute each of its columns "
            "from some input columns "
            f"alone, as {', '.join(_INPUTS)} are"
        )
    return transform_owners(transform, owners)


def _unchanged(_: Any, owners: Owners) -> Owners:
    return owners


def _chained(transform: Any, owners: Owners) -> Owners:
    for part in transform.values():
        owners = _owners(part, owners)
    return owners


def _joint_owner(owners: Owners, columns: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({j for column in columns for j in owners[int(column)]}))


def _round(transform: Any, owners: Owners) -> Owners:
    owners = list(owners)
    for start, count in transform.categorical_features.items():
        owners[start : start + count] = [_joint_owner(owners, range(start, start + count))] * count
    return owners


def _one_hot_to_numeric(transform: Any, owners: Owners) -> Owners:
    if not transform.categorical_features:
        return owners
    owners_of_output: Owners = [()] * transform.numeric_dim
    for output, column in zip(transform.new_numerical_idx, transform.numerical_idx):
        owners_of_output[output] = owners[column]
    for output, columns in zip(transform.ordinal_idx, transform.onehot_idx):
        owners_of_output[output] = _joint_owner(owners, columns)
    return owners_of_output


def _numeric_to_categorical(transform: Any, owners: Owners) -> Owners:
    owners_of_output: Owners = [()] * (len(transform.numerical_idx) + sum(map(len, transform.encoded_idx)))
    for output, column in zip(transform.new_numerical_idx, transform.numerical_idx):
        owners_of_output[output] = owners[column]
    for outputs, column in zip(transform.encoded_idx, transform.ordinal_idx):
        for output in outputs:
            owners_of_output[output] = owners[column]
    return owners_of_output


#: For each class of input transforms, the owners of its columns.
_INPUTS: dict[str, Callable[[Any, Owners], Owners]] = {
    "Normalize": _unchanged,
    "InputStandardize": _unchanged,
    "AffineInputTransform": _unchanged,
    "Log10": _unchanged,
    "Warp": _unchanged,
    "Round": _round,
    "FilterFeatures": lambda transform, owners: [owners[int(j)] for j in transform.feature_indices],
    "OneHotToNumeric": _one_hot_to_numeric,
    "NumericToCategoricalEncoding": _numeric_to_categorical,
    "ChainedInputTransform": _chained,
}


# Outcomes
# ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """The outcome is ``scale`` times the process plus ``shift``; its logarithm is if ``is_log``."""

    scale: float = 1.0
    shift: float = 0.0
    is_log: bool = False


def outcome_of(model: Any, member: int = 0, count: int = 1) -> Outcome:
    """Returns the inverse of the outcome transform of a model with ``count`` outputs, or members of a batch,
    for one of them."""
    transform = getattr(model, "outcome_transform", None)
    if transform is None:
        return Outcome()
    chain = _chain(transform)
    is_log = bool(chain) and _is_botorch(chain[0], "Log")
    scale, shift = 1.0, 0.0
    for part in reversed(chain[1:] if is_log else chain):
        if not _is_botorch(part, "Standardize") or part.means.numel() not in (1, count):
            raise UnsupportedModelError(
                f"the outcome of the {type(model).__name__} is transformed by {type(part).__name__}, which "
                "is not undone "
                "exactly, as Standardize is"
            )
        position = member if part.means.numel() == count else 0
        mean, deviation = (float(numbers.reshape(-1)[position]) for numbers in (part.means, part.stdvs))
        scale, shift = deviation * scale, mean + deviation * shift
    if is_log and getattr(chain[0], "_outputs", None) == []:
        # This part of a transform of several outputs does not change this output.
        is_log = False
    return Outcome(scale, shift, is_log)


def task_outcomes(model: Any, tasks: int) -> list[Outcome]:
    """Returns the inverse of the outcome transform of a model with a task column, for each task."""
    transform = getattr(model, "outcome_transform", None)
    if transform is None or not _is_botorch(transform, "StratifiedStandardize"):
        return [outcome_of(model)] * tasks
    if transform.means.numel() < tasks:
        raise UnsupportedModelError(
            f"the StratifiedStandardize of the {type(model).__name__} does not know all of its tasks"
        )
    # The numbers of the tasks come first; unused ones follow if the tasks are not numbered from 0.
    pairs = zip(transform.stdvs.reshape(-1).tolist(), transform.means.reshape(-1).tolist())
    return [Outcome(deviation, mean) for deviation, mean in pairs][:tasks]


def _chain(transform: Any) -> list[Any]:
    if _is_botorch(transform, "ChainedOutcomeTransform"):
        return [part for member in transform.values() for part in _chain(member)]
    return [transform]


def _is_botorch(transform: Any, name: str) -> bool:
    return type(transform).__name__ == name and type(transform).__module__.startswith("botorch.")
