"""Models of PyTorch as functions of rows: modules, GPyTorch's Gaussian processes and BoTorch's models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._core import UnsupportedModelError
from .._data.validation import as_cells, as_numbers, numbered
from .gpytorch import read
from .loading import Imported
from .tensor_arrays import BATCH, evaluated, tensor_of


def is_torch(model: Any) -> bool:
    """Whether ``model`` is a module of PyTorch, without importing PyTorch."""
    return _is_from(model, "torch.nn.")


def _is_from(model: Any, package: str) -> bool:
    return any(kind.__module__.startswith(package) for kind in type(model).__mro__)


def read_torch(model: Any) -> Imported:
    """Reads a module: a Gaussian process as expansions if its kernel is known, and any other module as a
    function of rows."""
    kind = type(model).__name__
    is_model = _is_from(model, "gpytorch.models.") or _is_from(model, "botorch.models.model")
    if is_model:
        return read(model, function_of(model))
    if _is_from(model, "gpytorch."):
        raise UnsupportedModelError(
            f"a {kind} of GPyTorch is not an ExactGP or another model: its predictions are not known"
        )
    refusal = UnsupportedModelError(
        f"the kernel of a {kind} of PyTorch is not known, so its outputs are explained"
    )
    return Imported([], "output", [], kind, [], function_of(model), refusal)


def function_of(model: Any) -> Callable[[Any], np.ndarray]:
    """Returns the outputs of a module, (n,) or (n, outputs), as a function of rows; for a model with a
    posterior its mean."""

    def function(rows: Any) -> np.ndarray:
        numbers = as_numbers(rows, numbered(as_cells(rows).shape[1]), "X")
        with evaluated(model):
            parts = [
                _answer(model, tensor_of(numbers[k : k + BATCH], model))
                for k in range(0, len(numbers), BATCH)
            ]
        return np.concatenate(parts) if parts else np.empty((0, 1))

    return function


def _answer(model: Any, rows: Any) -> np.ndarray:
    import torch

    if _is_from(model, "botorch.models."):
        try:
            posterior = model.posterior(rows)
            # Fully Bayesian models average over draws of their parameters.
            mean = posterior.mixture_mean if hasattr(posterior, "mixture_mean") else posterior.mean
        except NotImplementedError:
            transform = type(getattr(model, "outcome_transform", model)).__name__
            raise UnsupportedModelError(
                f"the posterior of the {type(model).__name__} has no mean, as its outcome is transformed by "
                f"{transform}: "
                "explain a model without it, or a function of rows, such as the median of the posterior"
            ) from None
    elif hasattr(model, "models") and _is_from(model, "gpytorch.models."):
        return np.column_stack([_answer(member, rows) for member in model.models])
    else:
        output = model(rows)
        mean = output if isinstance(output, torch.Tensor) else output.mean
        if mean.ndim == 2 and _is_from(model, "gpytorch.models.") and len(output.event_shape) == 1:
            # A batch of processes has one process per output.
            mean = mean.mT
    answer = mean.detach().cpu().double().numpy()
    if answer.ndim not in (1, 2) or len(answer) != len(rows):
        raise UnsupportedModelError(
            f"the {type(model).__name__} answers to {len(rows)} rows with the shape {answer.shape}: one "
            "number a row, or one a "
            "row and output, is needed"
        )
    return answer
